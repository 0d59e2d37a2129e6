//! The `CustomResourceDefinition`: both versions of the API, with one schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, KIND, NetworkAddonsConfigSpec, NetworkAddonsConfigStatus, PLURAL, VERSION, VERSION_V1ALPHA1, rules};
use crate::schema;

/// The definition of `NetworkAddonsConfig`, as it is installed in a cluster.
///
/// It may be applied over a definition that has `v1alpha1` alone, with any schema: both versions are served, objects need no
/// conversion between them, and `preserveUnknownFields` is turned off explicitly, since a definition made through the old v1beta1 API
/// has it on.
#[expect(clippy::expect_used, reason = "the value is made here, from no input; the tests would not get past a wrong one")]
pub fn crd() -> CustomResourceDefinition {
    let schema = schema();
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "subresources": {"status": {}},
            "additionalPrinterColumns": printer_columns(),
            "schema": {"openAPIV3Schema": schema},
        })
    };
    let definition = json!({
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": format!("{KIND}List"),
                "plural": PLURAL,
                "singular": KIND.to_lowercase(),
                "shortNames": ["nac"],
            },
            "scope": "Cluster",
            "conversion": {"strategy": "None"},
            "preserveUnknownFields": false,
            "versions": [version(VERSION, true), version(VERSION_V1ALPHA1, false)],
        },
    });
    serde_json::from_value(definition).expect("a CustomResourceDefinition")
}

/// The schema of both versions. `apiVersion`, `kind` and the rest of `metadata` are the API server's own affair.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Says which network add-ons the cluster has. There is one such object, named cluster.",
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "description": "Always cluster: other objects are not acted on.",
                        "x-kubernetes-validations": rules::object_name(),
                    },
                },
            },
            "spec": schema::structural::<NetworkAddonsConfigSpec>(),
            "status": schema::structural::<NetworkAddonsConfigStatus>(),
        },
    })
}

/// What `kubectl get` shows beside the name.
fn printer_columns() -> Value {
    let condition = |name: &str, description: &str| {
        json!({
            "name": name,
            "type": "string",
            "description": description,
            "jsonPath": format!(".status.conditions[?(@.type==\"{name}\")].status"),
        })
    };
    json!([
        condition("Available", "Whether all components work."),
        condition("Progressing", "Whether something is being rolled out."),
        condition("Degraded", "Whether something failed."),
        {
            "name": "Version",
            "type": "string",
            "description": "The version that all components have reached.",
            "jsonPath": ".status.observedVersion",
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::schema::testing::{self, walk};

    fn inlined_from_kubernetes(path: &str) -> bool {
        path.contains(".affinity.") || path.contains(".tolerations[]") || path == ".metadata"
    }

    #[test]
    fn fits_the_annotation_of_kubectl_apply() {
        let size = serde_json::to_string(&crd()).unwrap().len();
        assert!(size < 200_000, "{size} bytes of JSON");
    }

    #[test]
    fn both_versions_are_served_with_one_schema() {
        let crd = crd();
        let [v1, v1alpha1] = crd.spec.versions.as_slice() else { panic!("two versions") };
        assert_eq!((v1.name.as_str(), v1.served, v1.storage), ("v1", true, true));
        assert_eq!((v1alpha1.name.as_str(), v1alpha1.served, v1alpha1.storage), ("v1alpha1", true, false));
        assert_eq!(v1.schema, v1alpha1.schema);
        assert_eq!(v1.additional_printer_columns, v1alpha1.additional_printer_columns);
        assert!(v1.subresources.as_ref().unwrap().status.is_some());
        assert!(v1alpha1.subresources.as_ref().unwrap().status.is_some());
    }

    #[test]
    fn every_field_is_explained() {
        let mut missing = vec![];
        walk(&schema(), "", &mut |path, node| {
            let element = path.ends_with("[]");
            if !element && !inlined_from_kubernetes(path) && node["description"].as_str().is_none_or(str::is_empty) {
                missing.push(path.to_owned());
            }
        });
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_list_says_how_it_is_merged() {
        testing::assert_lists_are_merged(&schema());
    }

    #[test]
    fn texts_of_kubernetes_types_are_dropped() {
        walk(&schema(), "", &mut |path, node| {
            if inlined_from_kubernetes(path) {
                assert!(node.get("description").is_none(), "{path}: {}", node["description"]);
            }
        });
    }

    /// See `spec.rs`.
    #[test]
    fn nothing_has_a_default() {
        testing::assert_no_defaults(&schema());
    }

    #[test]
    fn only_the_tls_profile_may_be_null() {
        let mut nullable = vec![];
        walk(&schema(), "", &mut |path, node| {
            if node.get("nullable").is_some() {
                nullable.push(path.to_owned());
            }
        });
        nullable.sort();
        let tls = ".spec.tlsSecurityProfile";
        let below = ["custom", "intermediate", "modern", "old"].map(|name| format!("{tls}.{name}"));
        assert_eq!(nullable, [vec![tls.to_owned()], below.to_vec()].concat());
    }
}
