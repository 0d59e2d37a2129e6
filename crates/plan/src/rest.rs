//! Decides if a workload rests: it is scaled to zero and has no pod left.

use serde_json::Value;

use crate::{Live, kinds};

/// Reports whether no pod of a Deployment or DaemonSet is there or wanted. Its controller must have
/// seen the current specification: until then its counts are of an older one, and the workload
/// counts as running. An object of another kind never rests.
///
/// A pod that is ending may run until its grace period is over. Newer clusters count it in the
/// status of its Deployment. Older ones do not, as they do not once the Deployment is deleted.
pub fn is_at_rest(workload: &Value) -> bool {
    let status = &workload["status"];
    let generation = Live::of(workload).generation();
    let is_observed = status["observedGeneration"]
        .as_i64()
        .is_some_and(|observed| observed >= generation);
    let has_none = |fields: &[&str]| {
        fields
            .iter()
            .all(|field| status[*field].as_i64().unwrap_or_default() == 0)
    };
    is_observed
        && if workload["kind"] == kinds::DEPLOYMENT.kind {
            workload["spec"]["replicas"] == 0 && has_none(&["replicas", "terminatingReplicas"])
        } else {
            workload["kind"] == kinds::DAEMON_SET.kind
                && has_none(&[
                    "desiredNumberScheduled",
                    "currentNumberScheduled",
                    "numberMisscheduled",
                ])
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(kind: &str, spec: Value, status: Value) -> Value {
        json!({"kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status})
    }

    #[test]
    fn a_deployment_rests_at_zero_replicas_once_its_pods_are_gone() {
        for (spec, status, expected) in [
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": 2}),
                true,
            ),
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": 2, "replicas": 0, "terminatingReplicas": 0}),
                true,
            ),
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": 2, "replicas": 1}),
                false,
            ),
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": 2, "terminatingReplicas": 1}),
                false,
            ),
            // The counts are of the specification before.
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": 1}),
                false,
            ),
            (json!({"replicas": 0}), json!({}), false),
            // Its pod cannot be made now, and comes as soon as it can.
            (
                json!({"replicas": 1}),
                json!({"observedGeneration": 2}),
                false,
            ),
            (json!({}), json!({"observedGeneration": 2}), false),
        ] {
            assert_eq!(
                is_at_rest(&workload("Deployment", spec.clone(), status.clone())),
                expected,
                "{spec} {status}"
            );
        }
    }

    #[test]
    fn a_daemon_set_rests_where_no_node_has_or_wants_a_pod_of_it() {
        for (status, expected) in [
            (
                json!({
                    "observedGeneration": 2, "desiredNumberScheduled": 0,
                    "currentNumberScheduled": 0, "numberMisscheduled": 0
                }),
                true,
            ),
            (
                json!({"observedGeneration": 2, "desiredNumberScheduled": 1}),
                false,
            ),
            (
                json!({"observedGeneration": 2, "currentNumberScheduled": 1}),
                false,
            ),
            (
                json!({"observedGeneration": 2, "numberMisscheduled": 1}),
                false,
            ),
            (json!({"observedGeneration": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(
                is_at_rest(&workload("DaemonSet", json!({}), status.clone())),
                expected,
                "{status}"
            );
        }
    }

    #[test]
    fn a_workload_without_pods_never_rests() {
        assert!(!is_at_rest(
            &json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"generation": 1}})
        ));
        assert!(!is_at_rest(&workload(
            "StatefulSet",
            json!({"replicas": 0}),
            json!({"observedGeneration": 2})
        )));
    }
}
