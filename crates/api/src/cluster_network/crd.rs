//! The `CustomResourceDefinition`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{GROUP, KIND, NetworkConfigSpec, NetworkConfigStatus, PLURAL, VERSION, rules};
use crate::definition::{
    Definition, age, column, condition, message, object, reason, with_name, with_specification,
    with_unobserved_status,
};

/// The definition of `NetworkConfig`, as it is installed in a cluster. It may be applied over that
/// of the operator that first served this API, which had no schema and no status.
pub fn crd() -> CustomResourceDefinition {
    let schema = object::<NetworkConfigSpec, NetworkConfigStatus>(
        "Says how the pods and services of the cluster are connected. There is one such object, named default.",
    );
    let definition = Definition {
        group: GROUP,
        kind: KIND,
        plural: PLURAL,
        short_name: "nwc",
        scope: "Cluster",
        versions: &[VERSION],
        stored: VERSION,
        given_up: None,
        columns: vec![
            column(
                "Type",
                "string",
                "The default network.",
                ".status.effectiveConfiguration.defaultNetwork.type",
            ),
            condition("Available", "Whether the network works."),
            condition("Progressing", "Whether something is being rolled out."),
            condition(
                "Degraded",
                "Whether something failed, or a change is refused.",
            ),
            reason(),
            message(),
            age(),
        ],
        schema: with_name(
            with_unobserved_status(with_specification(schema)),
            "Always default: other objects are not acted on.",
            &rules::name(),
        ),
    };
    definition.object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        definition::testing::{assert_is_in_order, schema},
        schema::testing::{self, walk},
    };

    #[test]
    fn it_is_in_order() {
        assert_is_in_order(&crd(), |_| false);
    }

    /// See `spec.rs`.
    #[test]
    fn nothing_has_a_default() {
        testing::assert_no_defaults(&schema(&crd()));
    }

    /// A field that the schema does not know would be dropped, but where anything is kept: the
    /// service network, which is a text or a list, and the effective configuration, which has the
    /// form of the specification.
    #[test]
    fn unknown_fields_are_kept_nowhere_else() {
        let mut open = vec![];
        walk(&schema(&crd()), "", &mut |path, node| {
            if node.get("x-kubernetes-preserve-unknown-fields").is_some() {
                open.push(path.to_owned());
            }
        });
        assert_eq!(
            open,
            [".spec.serviceNetwork", ".status.effectiveConfiguration"]
        );
    }
}
