//! The fields that the API server drops are those that Weft says it drops.

use serde_json::{Value, json};
use weft_plan::dropped;
use weft_testenv::ControlPlane;

use super::answers::eventually;

/// A definition with each construct that pruning depends on.
fn definition() -> Value {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let text = || json!({"type": "string"});
    let mut open = object(json!({"inner": object(json!({"a": text()}))}));
    open["x-kubernetes-preserve-unknown-fields"] = true.into();
    let mut embedded = object(json!({"spec": object(json!({"a": text()}))}));
    embedded["x-kubernetes-embedded-resource"] = true.into();
    let spec = object(json!({
        "known": text(),
        "list": {"type": "array", "items": object(json!({"a": text()}))},
        "map": {"type": "object", "additionalProperties": object(json!({"a": text()}))},
        "anything": {"type": "object", "additionalProperties": true},
        "nothing": {"type": "object"},
        "open": open,
        "embedded": embedded,
        "amount": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
    }));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pruned.example.org"},
        "spec": {
            "group": "example.org", "scope": "Cluster",
            "names": {"kind": "Pruned", "plural": "pruned", "singular": "pruned"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": object(json!({"spec": spec}))}
            }]
        }
    })
}

#[tokio::test]
async fn the_api_server_drops_the_fields_that_weft_names() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let definition = definition();
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &definition.to_string())
        .await
        .unwrap();
    let mut object = json!({
        "apiVersion": "example.org/v1", "kind": "Pruned", "metadata": {"name": "one"},
        "spec": {
            "known": "x", "unknown": {"x": 1}, "amount": 5,
            "list": [{"a": "1"}, {"a": "2", "b": {"c": 3}}],
            "map": {"k": {"a": "1", "b": 2}},
            "anything": {"number": 1, "object": {"x": 1}, "list": [{"x": 1}, 2]},
            "nothing": {"x": 1},
            "open": {"object": {"x": [{"y": 1}]}, "inner": {"a": "1", "b": 2}},
            "embedded": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"a": "1", "b": 2}, "status": {"x": 1}
            },
        }
    });
    let text = object.to_string();
    // Established does not mean served.
    eventually(async || {
        let create = ["create", "--validate=ignore", "-f", "-"];
        cluster.kubectl_with_input(&create, &text).await
    })
    .await;
    let stored = cluster
        .kubectl(&["get", "pruned.example.org", "one", "-o", "json"])
        .await
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let lost = dropped::prune(&definition, &mut object);
    assert_eq!(object["spec"], stored["spec"], "{lost:#?}");
    assert_eq!(
        lost,
        [
            "spec.anything.list[0].x",
            "spec.anything.object.x",
            "spec.embedded.spec.b",
            "spec.embedded.status",
            "spec.list[1].b",
            "spec.map.k.b",
            "spec.nothing.x",
            "spec.open.inner.b",
            "spec.unknown",
        ]
    );
}
