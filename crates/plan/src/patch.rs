//! Merge patches that change who owns an object: to Weft, to its users, or back to the operator
//! that Weft replaced.

use serde_json::{Value, json};

use crate::{
    Live, ObjectKey,
    compare::GUARDED,
    fields,
    owner::{OWNER_LABEL, Owner, is_kept_for_ever, is_the_resource},
};

/// Where Weft's own labels and annotations begin.
const OWN_DOMAIN: &str = "weft.network/";

/// Annotation on a foreign object: its owner agrees that Weft takes it. The value is `true`.
pub const ADOPT_ANNOTATION: &str = "weft.network/adopt";

/// The merge patch that leaves an object of the original to its users: the resource ceases to own
/// it, and the labels of the resource's API group go, by which the original knows its objects. It
/// fails with a conflict if the object has changed.
pub fn leave_patch(live: &Value, owner: &Owner) -> Value {
    let others: Vec<&Value> = Live::of(live)
        .owners()
        .filter(|reference| !is_the_resource(reference, owner))
        .collect();
    let theirs: serde_json::Map<_, _> = labels_of_original(live, owner)
        .map(|(label, _)| (label.clone(), Value::Null))
        .collect();
    json!({
        "metadata": {
            "resourceVersion": Live::of(live).resource_version_text(),
            "ownerReferences": others, "labels": theirs
        }
    })
}

pub(crate) fn labels_of_original<'a>(
    live: &'a Value,
    owner: &Owner,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let group = owner.kind.group;
    Live::of(live)
        .labels()
        .filter(move |(label, _)| label.split('/').next() == Some(group))
}

/// The merge patch that makes others' fields ours where Weft answers for all of them, and on a
/// take-over ends the old ownership, since an object has one controller. It fails with a conflict
/// if the object has changed.
pub fn take_patch(live: &Value, owner: &Owner, take_over: bool) -> Value {
    let mut patch = json!({"metadata": {
        "resourceVersion": Live::of(live).resource_version_text(),
        "managedFields": fields::taken_over(live, &owner.manager, &GUARDED),
    }});
    if take_over {
        patch["metadata"]["ownerReferences"] = Value::Null;
        if Live::of(live).annotation(ADOPT_ANNOTATION).is_some() {
            // The consent is used.
            patch["metadata"]["annotations"] = json!({ADOPT_ANNOTATION: null});
        }
    }
    patch
}

/// The merge patch that gives an object back to the operator that Weft replaced: Weft's label and
/// annotations go, and the resource owns it in the form that operators of that kind write and look
/// for (`controllerutil.SetControllerReference`). Nothing inside its specification changes, so no
/// pod restarts. Objects that outlive the resource get no owner: the other operator sets one
/// itself, and until then a deletion of the resource does no harm. `None` if it is not ours, or
/// given back already.
pub fn release_patch(
    key: &ObjectKey,
    live: &Value,
    owner: &Owner,
    outlives: bool,
) -> Option<Value> {
    let live = Live::of(live);
    if live.label(OWNER_LABEL) != Some(&owner.label()) {
        return None;
    }
    let ours: serde_json::Map<_, _> = live
        .annotations()
        .filter(|(name, _)| name.starts_with(OWN_DOMAIN))
        .map(|(name, _)| (name.clone(), Value::Null))
        .collect();
    let mut patch = json!({
        "metadata": {
            "uid": live.uid(), "resourceVersion": live.resource_version_text(),
            "labels": {OWNER_LABEL: null}
        }
    });
    if !ours.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(ours);
    }
    if let Some(mut reference) = owner
        .reference()
        .filter(|_| !outlives && !is_kept_for_ever(key.kind))
    {
        reference["blockOwnerDeletion"] = true.into();
        let others = live
            .owners()
            .filter(|other| other["uid"] != reference["uid"])
            .cloned();
        patch["metadata"]["ownerReferences"] = others.chain([reference.clone()]).collect();
    }
    Some(patch)
}
