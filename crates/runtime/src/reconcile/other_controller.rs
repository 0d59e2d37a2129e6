//! An object that another object controls. The API server lets an object have one controller.

use serde_json::Value;
use weft_plan::{Live, ObjectKey, Owner};

use crate::api_server::cluster::Error;

/// Returns who controls an object in place of its owner, and how to end that, if this is why the
/// API server refuses to apply the object.
pub fn explain(key: &ObjectKey, live: &Value, owner: &Owner, refusal: &Error) -> Option<String> {
    if !refusal.is_second_controller() {
        return None;
    }
    let references = live["metadata"]["ownerReferences"].as_array()?;
    let (place, other) = references.iter().enumerate().find(|(_, reference)| {
        reference["controller"] == true && reference["uid"].as_str() != owner.uid.as_deref()
    })?;
    let text = |field: &str| other[field].as_str().unwrap_or_default();
    // The version guards against a list that is different by then.
    let patch = format!(
        r#"[{{"op":"test","path":"/metadata/resourceVersion","value":"{}"}},{{"op":"remove","path":"/metadata/ownerReferences/{place}"}}]"#,
        Live::of(live).resource_version()
    );
    Some(format!(
        "{} {} controls it (metadata.ownerReferences[{place}] has controller: true), and an object has one controller only. To release it: kubectl patch {} --type=json -p '{patch}'",
        text("kind"),
        text("name"),
        key.kubectl(),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;
    use weft_plan::kinds;

    use super::*;

    fn refusal(message: &str) -> Error {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
            "reason": "Invalid", "message": message,
        });
        Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn the_other_controller_and_the_way_to_release_the_object_are_named() {
        let key = ObjectKey::new(kinds::CONFIG_MAP, "n", "c");
        let live = json!({"metadata": {"resourceVersion": "7", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "a"},
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mine", "uid": "b", "controller": true},
        ]}});
        let owner = Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".to_owned(),
            uid: Some("w".to_owned()),
            manager: "weft/addons".to_owned(),
        };
        let second = refusal(
            "ConfigMap \"c\" is invalid: metadata.ownerReferences: Invalid value: [...]: Only one reference can have Controller set to true. Found \"true\" in references for Deployment/mine and NetworkAddonsConfig/cluster",
        );
        let message = explain(&key, &live, &owner, &second).unwrap();
        assert_eq!(
            message,
            r#"Deployment mine controls it (metadata.ownerReferences[1] has controller: true), and an object has one controller only. To release it: kubectl patch -n n configmaps/c --type=json -p '[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/metadata/ownerReferences/1"}]'"#
        );
        let other = refusal("ConfigMap \"c\" is invalid: data: Too long");
        assert_eq!(explain(&key, &live, &owner, &other), None);
    }
}
