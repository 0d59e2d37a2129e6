//! The `CustomResourceDefinition`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, KIND, NetworkConfigSpec, NetworkConfigStatus, PLURAL, VERSION, rules};
use crate::schema;

/// The definition of `NetworkConfig`, as it is installed in a cluster.
///
/// It may be applied over the definition of the operator that first served this API, which had no schema and no status: `preserveUnknownFields` is
/// turned off explicitly, since a definition made through the old v1beta1 API has it on.
#[expect(clippy::expect_used, reason = "the value is made here, from no input; the tests would not get past a wrong one")]
pub fn crd() -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {"kind": KIND, "listKind": format!("{KIND}List"), "plural": PLURAL, "singular": KIND.to_lowercase()},
            "scope": "Cluster",
            "conversion": {"strategy": "None"},
            "preserveUnknownFields": false,
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

/// The schema. `apiVersion`, `kind` and the rest of `metadata` are the API server's own affair.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Says how the pods and services of the cluster are connected. There is one such object, named default.",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "description": "Always default: other objects are not acted on.",
                        "x-kubernetes-validations": rules::name(),
                    },
                },
            },
            "spec": schema::structural::<NetworkConfigSpec>(),
            "status": schema::structural::<NetworkConfigStatus>(),
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
        {"name": "Type", "type": "string", "description": "The default network.", "jsonPath": ".status.effectiveConfiguration.defaultNetwork.type"},
        condition("Available", "Whether the network works."),
        condition("Progressing", "Whether something is being rolled out."),
        condition("Degraded", "Whether something failed, or a change is refused."),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
            let silent = node["description"].as_str().is_none_or(str::is_empty);
            if silent && !path.ends_with("[]") && path != ".metadata" {
                missing.push(path.to_owned());
            }
        });
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_list_says_how_it_is_merged() {
        testing::assert_lists_are_merged(&schema());
    }

    /// See `spec.rs`.
    #[test]
    fn nothing_has_a_default() {
        testing::assert_no_defaults(&schema());
    }

    /// A field that the schema does not know would be dropped, but where anything is kept: the service network, which is a text or a list, and
    /// the effective configuration, which has the form of the specification.
    #[test]
    fn unknown_fields_are_kept_nowhere_else() {
        let mut open = vec![];
        walk(&schema(), "", &mut |path, node| {
            if node.get("x-kubernetes-preserve-unknown-fields").is_some() {
                open.push(path.to_owned());
            }
        });
        assert_eq!(open, [".spec.serviceNetwork", ".status.effectiveConfiguration"]);
    }
}
