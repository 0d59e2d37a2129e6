//! The `CustomResourceDefinition`: both versions of the API, with one schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{
    GROUP, KIND, NetworkAddonsConfigSpec, NetworkAddonsConfigStatus, PLURAL, VERSION,
    VERSION_V1ALPHA1, rules,
};
use crate::schema;

/// The definition of `NetworkAddonsConfig`, as it is installed in a cluster.
///
/// It may be applied over a definition that has `v1alpha1` alone, with any schema: both versions are served, objects need no
/// conversion between them, and `preserveUnknownFields` is turned off explicitly, since a definition made through the old v1beta1 API
/// has it on.
#[expect(
    clippy::expect_used,
    reason = "the value is made here, from no input; the tests would not get past a wrong one"
)]
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
