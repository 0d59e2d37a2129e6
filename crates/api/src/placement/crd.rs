//! The `CustomResourceDefinition`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{GROUP, KIND, PLURAL, PlacementApiSpec, PlacementApiStatus, VERSION};
use crate::definition::{
    Definition, column, object, reason, with_specification, with_unobserved_status,
};

/// The definition of `PlacementAPI`, as it is installed in a cluster: names, columns and defaults
/// are those of placement-operator.
pub fn crd() -> CustomResourceDefinition {
    let schema = object::<PlacementApiSpec, PlacementApiStatus>(
        "A Placement service of an OpenStack: its pods, Services, configuration, database and registration in Keystone. A namespace has one.",
    );
    let definition = Definition {
        group: GROUP,
        kind: KIND,
        plural: PLURAL,
        short_name: "papi",
        scope: "Namespaced",
        versions: &[VERSION],
        stored: VERSION,
        given_up: None,
        // The first condition is Ready.
        columns: vec![
            column(
                "NetworkAttachments",
                "string",
                "The networks that the pods are attached to.",
                ".spec.networkAttachments",
            ),
            column(
                "Status",
                "string",
                "Whether the service is ready.",
                ".status.conditions[0].status",
            ),
            column(
                "Message",
                "string",
                "What is the matter, if it is not.",
                ".status.conditions[0].message",
            ),
            reason(),
        ],
        schema: with_unobserved_status(with_specification(schema)),
    };
    definition.object()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::{
        definition::testing::{assert_is_in_order, schema},
        schema::testing::walk,
    };

    #[test]
    fn it_is_in_order() {
        assert_is_in_order(&crd(), |_| false);
    }

    #[test]
    fn the_defaults_are_those_of_placement_operator() {
        let mut defaults = BTreeMap::new();
        walk(&schema(&crd()), "", &mut |path, node| {
            if let Some(value) = node.get("default") {
                defaults.insert(path.to_owned(), value.clone());
            }
        });
        let expected = [
            (".spec.apiTimeout", json!(60)),
            (".spec.databaseAccount", json!("placement")),
            (
                ".spec.passwordSelectors",
                json!({"service": "PlacementPassword"}),
            ),
            (
                ".spec.passwordSelectors.service",
                json!("PlacementPassword"),
            ),
            (".spec.preserveJobs", json!(false)),
            (".spec.replicas", json!(1)),
            (".spec.serviceUser", json!("placement")),
            (".status", json!({"observedGeneration": -1})),
        ];
        assert_eq!(
            defaults,
            expected
                .map(|(path, value)| (path.to_owned(), value))
                .into()
        );
    }

    #[test]
    fn unknown_fields_are_kept_nowhere() {
        walk(&schema(&crd()), "", &mut |path, node| {
            assert!(
                node.get("x-kubernetes-preserve-unknown-fields").is_none(),
                "{path}"
            )
        });
    }
}
