//! Takes the resource's owner references off objects that the operator before Weft made: with them,
//! the garbage collector would delete the cluster's network together with the resource.

use serde_json::{Value, json};
use weft_plan::{ADOPT_ANNOTATION, Live, OWNER_LABEL, ObjectKey, kinds, report::FailureClass};

use crate::{api_server::cluster::Error, reconcile::set::SetObjects};

/// Reports whether objects that must outlive the resource are owned by it.
pub fn is_needed(objects: &SetObjects, resource: &Value) -> bool {
    objects.set.keeps(Some(resource), None).is_some()
}

/// Takes them off, whatever the specification of the resource says. Weft's own objects keep theirs.
///
/// # Errors
/// Objects cannot be listed or changed. An object that Weft has no right to change is only logged:
/// nothing would come of another try.
pub(crate) async fn disown(objects: &SetObjects, resource: &Value) -> Result<(), Error> {
    let uid = Live::of(resource).uid();
    for kind in objects.domain.kinds() {
        let is_owned = |object: &Value| Live::of(object).is_owned_by(uid);
        for object in objects.cluster.metadata_of(kind, is_owned).await? {
            let Some(key) =
                ObjectKey::of(&object).filter(|_| Live::of(&object).label(OWNER_LABEL).is_none())
            else {
                continue;
            };
            let owners = Live::of(&object).owners();
            let others: Vec<&Value> = owners.filter(|owner| owner["uid"] != uid).collect();
            let mut patch = json!({"metadata": {
                "uid": Live::of(&object).uid(),
                "resourceVersion": Live::of(&object).resource_version_text(),
                "ownerReferences": others,
            }});
            let is_record = objects
                .set
                .record(&objects.owner.name)
                .is_some_and(|(record, _)| record == key);
            let is_known = kind == kinds::NAMESPACE || is_record || objects.owner.owns(&object);
            if !is_known && objects.domain.made_by_original(&object) {
                // The owner reference distinguishes it from objects of others. Without one, the
                // annotation lets Weft take it over.
                patch["metadata"]["annotations"] = json!({ADOPT_ANNOTATION: "true"});
            }
            match objects
                .cluster
                .merge_patch(&key, "", &patch, &objects.owner.manager)
                .await
            {
                Ok(_) => {
                    tracing::info!(object = %key.human(), "removed the owner reference to the resource")
                }
                Err(error) if error.is_not_found() => {}
                Err(error) if error.class() == FailureClass::Forbidden => {
                    tracing::warn!(object = %key.human(), %error, "could not remove the owner reference: the object will be deleted with the resource");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
