//! How to recognise the operator that Weft replaces, cluster-network-operator, and what it made.

use serde_json::Value;
use weft_api::cluster_network::{GROUP, KIND};
use weft_plan::{COMPONENT_LABEL, Kind, Live, kinds};

/// The name of its workload at first, and of Weft's.
const OPERATOR: &str = "cluster-network-operator";
/// Its name and namespace from 2019 on.
const LATER_OPERATOR: (&str, &str) = ("openshift-network-operator", "network-operator");
/// Workloads of the original: a DaemonSet at first, a Deployment later.
pub(crate) const OPERATORS: &[(Kind, &str)] = &[
    (kinds::DAEMON_SET, OPERATOR),
    (kinds::DEPLOYMENT, OPERATOR),
    (kinds::DEPLOYMENT, LATER_OPERATOR.1),
];

/// Reports whether it made this object: it owns it through the resource.
pub(crate) fn made(live: &Value) -> bool {
    Live::of(live).owner_of(GROUP, KIND).is_some()
}

/// Reports whether a workload is that operator: by its image's name, or by its own name where the
/// label of Weft is missing. (Releases of OpenShift name images by digest only, so the image's name
/// may be unknown.)
pub(crate) fn is_operator(workload: &Value) -> bool {
    let is_its_image = |image: &str| {
        let name = image.rsplit('/').next().unwrap_or_default();
        name.split(['@', ':'])
            .next()
            .is_some_and(|name| name == OPERATOR || name == "origin-cluster-network-operator")
    };
    let live = Live::of(workload);
    let is_named = live.name() == OPERATOR || (live.namespace(), live.name()) == LATER_OPERATOR;
    let by_name = is_named && live.label(COMPONENT_LABEL).is_none();
    let containers = workload
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    by_name
        || containers
            .into_iter()
            .flatten()
            .filter_map(|container| container["image"].as_str())
            .any(is_its_image)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;
    use serde_json::json;

    fn workload(namespace: &str, name: &str, image: &str, labels: Value) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
        })
    }

    #[test]
    fn the_operator_is_known_in_each_of_its_forms() {
        let by_digest = "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:00";
        for (namespace, name, image) in [
            (
                "openshift-cluster-network-operator",
                "cluster-network-operator",
                "docker.io/openshift/origin-cluster-network-operator:v4.0.0",
            ),
            (
                "elsewhere",
                "cluster-network-operator",
                "registry.example/cno:1",
            ),
            ("openshift-network-operator", "network-operator", by_digest),
            (
                "elsewhere",
                "network-operator",
                "quay.io/openshift/origin-cluster-network-operator:4.16",
            ),
        ] {
            assert!(
                is_operator(&workload(namespace, name, image, json!({}))),
                "{namespace}/{name} {image}"
            );
        }
        assert!(
            !is_operator(&workload(
                "elsewhere",
                "network-operator",
                "registry.example/other:1",
                json!({})
            )),
            "somebody else's of that name"
        );
        // Applied over Weft's workload, whose label may stay. The image's name decides.
        let applied_over = workload(
            "n",
            OPERATOR,
            "origin-cluster-network-operator",
            json!({COMPONENT_LABEL: "operator"}),
        );
        assert!(is_operator(&applied_over));
    }

    #[test]
    fn weft_does_not_take_itself_for_it() {
        let manifest = include_str!("../../../deploy/cluster-network/operator.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("YAML");
        let workloads: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"] == "DaemonSet")
            .collect();
        assert_eq!(workloads.len(), 1);
        assert!(!is_operator(workloads[0]));
    }
}
