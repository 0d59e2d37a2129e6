//! The obstacles to a deletion, for people.

use serde_json::Value;

use crate::Live;

/// Conditions of a namespace that is being deleted which say, while they are True, what holds it
/// up.
const OF_NAMESPACES: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
];

/// The way back for the namespace of a domain's operands, see [`gone_with_roles`].
const INSTALL_AGAIN: &str = "apply Weft's manifests again, which have the namespace and the operator's roles in it (`weft status --installation` prints the command)";

/// Returns the message about an object that another user has deleted and that is not gone.
/// `is_of_installation` is true for a namespace that the installation makes, because the operator
/// has no permission to create it.
pub fn being_deleted(object: &Value, is_of_installation: bool) -> String {
    let waits_for = waits_for(object, None);
    let next = if is_of_installation {
        format!("Weft may not create it again: when it is gone, {INSTALL_AGAIN}")
    } else {
        "Weft creates it again when it is gone".to_owned()
    };
    format!("another user has deleted it, and it waits for {waits_for}. {next}")
}

/// Returns the message about a namespace that the installation makes and that is gone. The
/// operator's roles in it are gone as well.
pub fn gone_with_roles() -> String {
    format!("it is gone, and Weft may not create it: {INSTALL_AGAIN}")
}

/// Describes the obstacles to the deletion of an object with a `deletionTimestamp`, in words that
/// follow "it waits for": finalizers, the contents of a namespace, the grace period of a pod. `but`
/// is a finalizer that is not named, as of whoever asks. `object` should be as the API server has
/// it now, with `spec` and `status`.
pub fn waits_for(object: &Value, but: Option<&str>) -> String {
    let mut reasons = Vec::new();
    let (collected, others): (Vec<_>, Vec<_>) = Live::of(object)
        .finalizers()
        .filter(|name| Some(*name) != but)
        .partition(|name| is_collected(name));
    if !collected.is_empty() {
        reasons.push(format!(
            "the garbage collector to deal with what it owns ({})",
            collected.join(", ")
        ));
    }
    if !others.is_empty() {
        reasons.push(format!(
            "the controllers of its finalizers {}",
            others.join(", ")
        ));
    }
    if object["kind"] == "Namespace" {
        let conditions = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let hold = conditions.filter(|one| {
            one["status"] == "True" && OF_NAMESPACES.iter().any(|name| one["type"] == *name)
        });
        let messages: Vec<_> = hold.filter_map(|one| one["message"].as_str()).collect();
        let holders = object["spec"]["finalizers"].as_array();
        let holders: Vec<_> = holders
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|name| *name != "kubernetes")
            .collect();
        if !holders.is_empty() {
            reasons.push(format!(
                "the controllers of its spec.finalizers {}",
                holders.join(", ")
            ));
        }
        if !messages.is_empty() {
            reasons.push(format!("what is in it to be gone: {}", messages.join("; ")));
        } else if reasons.is_empty() {
            reasons.push("what is in it to be gone".to_owned());
        }
    }
    match object["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        Some(seconds @ 1..) if reasons.is_empty() => {
            format!("its end, for which it has {seconds} s")
        }
        _ if reasons.is_empty() => "the API server to remove it".to_owned(),
        _ => reasons.join(", and for "),
    }
}

/// Reports whether a finalizer is one of the garbage collector.
fn is_collected(finalizer: &str) -> bool {
    matches!(finalizer, "foregroundDeletion" | "orphan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finalizers_are_named_and_none_is_never_null() {
        for (metadata, waits) in [
            (json!({}), "the API server to remove it"),
            (json!({"finalizers": null}), "the API server to remove it"),
            (json!({"finalizers": []}), "the API server to remove it"),
            (
                json!({"finalizers": ["example.com/a", "example.com/b"]}),
                "the controllers of its finalizers example.com/a, example.com/b",
            ),
            (
                json!({"finalizers": ["foregroundDeletion"]}),
                "the garbage collector to deal with what it owns (foregroundDeletion)",
            ),
            (
                json!({
                    "finalizers": ["orphan", "example.com/a"], "deletionGracePeriodSeconds": 30
                }),
                "the garbage collector to deal with what it owns (orphan), and for the controllers of its finalizers example.com/a",
            ),
            (
                json!({"deletionGracePeriodSeconds": 30}),
                "its end, for which it has 30 s",
            ),
            (
                json!({"deletionGracePeriodSeconds": 0, "finalizers": ["weft/own"]}),
                "the API server to remove it",
            ),
        ] {
            assert_eq!(
                waits_for(
                    &json!({"kind": "Pod", "metadata": metadata}),
                    Some("weft/own")
                ),
                waits,
                "{metadata}"
            );
        }
    }

    #[test]
    fn only_what_weft_may_create_is_promised_to_come_back() {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "n"}});
        let waits = "another user has deleted it, and it waits for what is in it to be gone. ";
        let promise = being_deleted(&namespace, false);
        assert_eq!(
            promise.strip_prefix(waits),
            Some("Weft creates it again when it is gone")
        );
        let way_back = "apply Weft's manifests again, which have the namespace and the operator's roles in it (`weft status --installation` prints the command)";
        let explained = being_deleted(&namespace, true);
        assert_eq!(
            explained.strip_prefix(waits),
            Some(&*format!(
                "Weft may not create it again: when it is gone, {way_back}"
            ))
        );
        assert!(gone_with_roles().ends_with(way_back));
    }

    #[test]
    fn a_namespace_waits_for_what_its_conditions_say() {
        let namespace = |spec: Value, conditions: Value| {
            json!({
                "kind": "Namespace", "metadata": {"name": "n"}, "spec": spec,
                "status": {"conditions": conditions}
            })
        };
        let kubernetes = json!({"finalizers": ["kubernetes"]});
        assert_eq!(
            waits_for(&namespace(kubernetes.clone(), json!(null)), None),
            "what is in it to be gone"
        );
        let conditions = json!([
            {
                "type": "NamespaceDeletionContentFailure", "status": "False",
                "message": "All content successfully deleted, may be waiting on finalization"
            },
            {
                "type": "NamespaceContentRemaining", "status": "True",
                "message": "Some resources are remaining: configmaps. has 1 resource instances"
            },
            {
                "type": "NamespaceFinalizersRemaining", "status": "True",
                "message": "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
            },
            {"type": "Other", "status": "True", "message": "no matter"},
        ]);
        assert_eq!(
            waits_for(&namespace(kubernetes, conditions), None),
            "what is in it to be gone: Some resources are remaining: configmaps. has 1 resource instances; Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        let held = json!({"finalizers": ["kubernetes", "example.com/hold"]});
        assert_eq!(
            waits_for(&namespace(held, json!([])), None),
            "the controllers of its spec.finalizers example.com/hold"
        );
    }
}
