//! The `CustomResourceDefinition`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, KIND, PLURAL, PlacementApiSpec, PlacementApiStatus, VERSION};
use crate::schema;

/// The definition of `PlacementAPI`, as it is installed in a cluster: names, columns and defaults are those of placement-operator.
#[expect(clippy::expect_used, reason = "the value is made here, from no input; the tests would not get past a wrong one")]
pub fn crd() -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {"kind": KIND, "listKind": format!("{KIND}List"), "plural": PLURAL, "singular": KIND.to_lowercase()},
            "scope": "Namespaced",
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": printer_columns(),
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    });
    serde_json::from_value(definition).expect("a CustomResourceDefinition")
}

/// The schema. `apiVersion`, `kind` and `metadata` are the API server's own affair.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "A Placement service of an OpenStack: its pods, Services, configuration, database and registration in Keystone. A namespace has one.",
        "required": ["spec"],
        "properties": {
            "spec": schema::structural::<PlacementApiSpec>(),
            "status": schema::structural::<PlacementApiStatus>(),
        },
    })
}

/// What `kubectl get` shows beside the name.
fn printer_columns() -> Value {
    let column =
        |name: &str, description: &str, path: &str| json!({"name": name, "type": "string", "description": description, "jsonPath": path});
    // The first condition is Ready.
    json!([
        column("NetworkAttachments", "The networks that the pods are attached to.", ".spec.networkAttachments"),
        column("Status", "Whether the service is ready.", ".status.conditions[0].status"),
        column("Message", "What is the matter, if it is not.", ".status.conditions[0].message"),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;
    use crate::schema::testing::{self, walk};

    #[test]
    fn fits_the_annotation_of_kubectl_apply() {
        let size = serde_json::to_string(&crd()).unwrap().len();
        assert!(size < 200_000, "{size} bytes of JSON");
    }

    #[test]
    fn every_field_is_explained() {
        let mut missing = vec![];
        walk(&schema(), "", &mut |path, node| {
            if node["description"].as_str().is_none_or(str::is_empty) && !path.ends_with("[]") {
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
    fn the_defaults_are_those_of_placement_operator() {
        let mut defaults = BTreeMap::new();
        walk(&schema(), "", &mut |path, node| {
            if let Some(value) = node.get("default") {
                defaults.insert(path.to_owned(), value.clone());
            }
        });
        let expected = [
            (".spec.apiTimeout", json!(60)),
            (".spec.databaseAccount", json!("placement")),
            (".spec.passwordSelectors", json!({"service": "PlacementPassword"})),
            (".spec.passwordSelectors.service", json!("PlacementPassword")),
            (".spec.preserveJobs", json!(false)),
            (".spec.replicas", json!(1)),
            (".spec.serviceUser", json!("placement")),
        ];
        assert_eq!(defaults, expected.map(|(path, value)| (path.to_owned(), value)).into());
    }

    #[test]
    fn unknown_fields_are_kept_nowhere() {
        walk(&schema(), "", &mut |path, node| assert!(node.get("x-kubernetes-preserve-unknown-fields").is_none(), "{path}"));
    }
}
