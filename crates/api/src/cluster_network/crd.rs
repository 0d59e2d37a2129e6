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
