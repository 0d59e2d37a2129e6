//! How to recognise the operator that Weft replaces, cluster-network-addons-operator, and what it
//! made.

use serde_json::Value;
use weft_api::addons::{GROUP, KIND};
use weft_plan::{COMPONENT_LABEL, Live, ObjectKey, kinds};

use crate::{Settings, components::kubevirt_ipam_controller, labels::VERSION_LABEL, record};

/// The name of its Deployment, and of Weft's.
pub(crate) const OPERATOR: &str = "cluster-network-addons-operator";

/// Reports whether it made this object: it owns it through the resource, or has labelled it with
/// its version. The namespace that it shares with its operands it marks in neither way, and Weft
/// removes the marks of its record. Both are known by name. Nor does cert-manager mark the Secret
/// that it makes on its behalf.
pub(crate) fn made(settings: &Settings, live: &Value) -> bool {
    let labelled = Live::of(live).label(VERSION_LABEL).is_some();
    let known = ObjectKey::of(live).is_some_and(|key| {
        key == record::key(settings, weft_api::addons::NAME)
            || key == ObjectKey::new(kinds::NAMESPACE, "", &settings.namespace)
    });
    owns(live)
        || labelled
        || known
        || kubevirt_ipam_controller::is_made_by_cert_manager(settings, live)
}

/// Reports whether it owns this object through the resource.
pub(crate) fn owns(live: &Value) -> bool {
    Live::of(live).owner_of(GROUP, KIND).is_some()
}

/// Reports whether a Deployment is that operator: by its image's name, or by its own name where the
/// label of Weft is missing.
pub(crate) fn is_operator(deployment: &Value) -> bool {
    let is_its_image = |image: &str| {
        let name = image.rsplit('/').next().unwrap_or_default();
        name.split(['@', ':']).next() == Some(OPERATOR)
    };
    let live = Live::of(deployment);
    let by_name = live.name() == OPERATOR && live.label(COMPONENT_LABEL).is_none();
    let containers = deployment
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    let images = containers
        .into_iter()
        .flatten()
        .filter_map(|container| container["image"].as_str());
    by_name || images.into_iter().any(is_its_image)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;
    use serde_json::json;

    fn deployment(name: &str, image: &str, labels: Value) -> Value {
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
        })
    }

    #[test]
    fn the_operator_is_known_by_image_and_by_name() {
        for image in [
            "quay.io/kubevirt/cluster-network-addons-operator:v0.102.0",
            "registry.example:5000/cluster-network-addons-operator@sha256:00",
            "cluster-network-addons-operator",
        ] {
            assert!(
                is_operator(&deployment("renamed", image, json!({}))),
                "{image}"
            );
        }
        assert!(is_operator(&deployment(
            OPERATOR,
            "registry.example/mirror/cnao:1",
            json!({})
        )));
        assert!(!is_operator(&deployment(
            "something-else",
            "quay.io/kubevirt/virt-operator:v1",
            json!({})
        )));
        // The original's Deployment, applied over Weft's: the label may stay, so the image decides.
        let applied_over = deployment(
            OPERATOR,
            "quay.io/kubevirt/cluster-network-addons-operator:v1",
            json!({"weft.network/component": "operator"}),
        );
        assert!(is_operator(&applied_over));
    }

    #[test]
    fn weft_does_not_take_itself_for_it() {
        let manifest = include_str!("../../../deploy/addons/operator.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("YAML");
        let deployments: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .collect();
        assert_eq!(deployments.len(), 1);
        assert!(!is_operator(deployments[0]));
    }

    #[test]
    fn its_objects_are_known_by_owner_label_or_name() {
        let settings = Settings {
            namespace: "operands".into(),
            operator_namespace: "operator".into(),
            ..Settings::default()
        };
        let object = |kind: &str, metadata: Value| {
            json!({
                "apiVersion": "v1", "kind": kind, "metadata": metadata
            })
        };
        let owner = |api_version: &str| {
            json!([
                {
                    "apiVersion": api_version, "kind": "NetworkAddonsConfig", "name": "cluster",
                    "uid": "u"
                }
            ])
        };
        for (object, expected) in [
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "a", "namespace": "operands",
                        "ownerReferences": owner("networkaddonsoperator.network.kubevirt.io/v1")
                    }),
                ),
                true,
            ),
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "a", "namespace": "operands",
                        "ownerReferences": owner("networkaddonsoperator.network.kubevirt.io/v1alpha1")
                    }),
                ),
                true,
            ),
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "a", "namespace": "operands",
                        "ownerReferences": owner("example.com/v1")
                    }),
                ),
                false,
            ),
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "a", "namespace": "operands",
                        "labels": {"networkaddonsoperator.network.kubevirt.io/version": "0.102.0"}
                    }),
                ),
                true,
            ),
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "a", "namespace": "operands",
                        "labels": {"app.kubernetes.io/managed-by": "Helm"}
                    }),
                ),
                false,
            ),
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "cluster-networks-addons-operator-applied-cluster",
                        "namespace": "operator"
                    }),
                ),
                true,
            ),
            (
                object(
                    "ConfigMap",
                    json!({
                        "name": "cluster-networks-addons-operator-applied-cluster",
                        "namespace": "elsewhere"
                    }),
                ),
                false,
            ),
            (object("Namespace", json!({"name": "operands"})), true),
            (object("Namespace", json!({"name": "default"})), false),
        ] {
            assert_eq!(made(&settings, &object), expected, "{object}");
        }
    }
}
