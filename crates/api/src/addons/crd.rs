//! The `CustomResourceDefinition`: both versions of the API, with one schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    GROUP, KIND, NetworkAddonsConfigSpec, NetworkAddonsConfigStatus, PLURAL, VERSION,
    VERSION_V1ALPHA1, rules,
};
use crate::definition::{
    Definition, age, column, condition, message, object, reason, with_name, with_unobserved_status,
};

/// The definition of `NetworkAddonsConfig`, as it is installed in a cluster. It may be applied over
/// one that has `v1alpha1` alone, with any schema.
pub fn crd() -> CustomResourceDefinition {
    let schema = object::<NetworkAddonsConfigSpec, NetworkAddonsConfigStatus>(
        "Says which network add-ons the cluster has. There is one such object, named cluster.",
    );
    let definition = Definition {
        group: GROUP,
        kind: KIND,
        plural: PLURAL,
        short_name: "nac",
        scope: "Cluster",
        versions: &[VERSION, VERSION_V1ALPHA1],
        stored: VERSION,
        given_up: None,
        columns: vec![
            condition("Available", "Whether all components work."),
            condition("Progressing", "Whether something is being rolled out."),
            condition("Degraded", "Whether something failed."),
            reason(),
            message(),
            column(
                "Version",
                "string",
                "The version that all components have reached.",
                ".status.observedVersion",
            ),
            age(),
        ],
        schema: with_name(
            with_unobserved_status(schema),
            "Always cluster: other objects are not acted on.",
            &rules::object_name(),
        ),
    };
    definition.object()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::{
        definition::testing::{assert_is_in_order, schema},
        schema::testing::{self, walk},
    };

    fn inlined_from_kubernetes(path: &str) -> bool {
        path.contains(".affinity.") || path.contains(".tolerations[]")
    }

    #[test]
    fn it_is_in_order() {
        assert_is_in_order(&crd(), inlined_from_kubernetes);
    }

    #[test]
    fn both_versions_are_served_with_one_schema() {
        let crd = crd();
        let [v1, v1alpha1] = crd.spec.versions.as_slice() else {
            panic!("two versions")
        };
        assert_eq!(
            (v1.name.as_str(), v1.served, v1.storage),
            ("v1", true, true)
        );
        assert_eq!(
            (v1alpha1.name.as_str(), v1alpha1.served, v1alpha1.storage),
            ("v1alpha1", true, false)
        );
        assert_eq!(v1.schema, v1alpha1.schema);
        assert_eq!(
            v1.additional_printer_columns,
            v1alpha1.additional_printer_columns
        );
        assert!(v1.subresources.as_ref().unwrap().status.is_some());
        assert!(v1alpha1.subresources.as_ref().unwrap().status.is_some());
    }

    #[test]
    fn texts_of_kubernetes_types_are_dropped() {
        walk(&schema(&crd()), "", &mut |path, node| {
            if inlined_from_kubernetes(path) {
                assert!(
                    node.get("description").is_none(),
                    "{path}: {}",
                    node["description"]
                );
            }
        });
    }

    /// See `spec.rs`.
    #[test]
    fn nothing_has_a_default() {
        testing::assert_no_defaults(&schema(&crd()));
    }

    #[test]
    fn only_the_tls_profile_may_be_null() {
        let mut nullable = vec![];
        walk(&schema(&crd()), "", &mut |path, node| {
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
