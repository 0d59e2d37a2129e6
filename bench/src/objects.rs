//! The objects that a configuration leads to, as Weft applies them.

use anyhow::Result;
use serde_json::{Value, json};
use weft_plan::Live;

use crate::rest::Rest;

/// One object, as Weft applies it.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Its path on the API server.
    pub path: String,
    pub body: Value,
}

impl Applied {
    pub fn kind(&self) -> &str {
        self.body["kind"].as_str().unwrap_or_default()
    }

    pub fn title(&self) -> String {
        title(&self.body)
    }

    /// For another owner: every cluster gives its configuration another uid, and objects of an
    /// owner that does not exist are garbage.
    pub fn owned_by(&self, config: &Value) -> Value {
        let mut body = self.body.clone();
        for owner in body
            .pointer_mut("/metadata/ownerReferences")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            owner["uid"] = Live::of(config).uid().into();
        }
        body
    }
}

/// Returns the title of an object in a table: `Kind namespace/name`.
pub fn title(object: &Value) -> String {
    let object = Live::of(object);
    let namespace = object
        .stated_namespace()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    format!("{} {namespace}{}", object.kind(), object.name())
}

/// Applies these as a bare client does, in the one order that the API server insists on: who may
/// not grant everything can bind a role only once it exists.
pub async fn apply_all(rest: &Rest, objects: &[Applied], config: &Value) -> Result<()> {
    let (bindings, others): (Vec<_>, Vec<_>) = objects
        .iter()
        .partition(|object| object.kind().ends_with("Binding"));
    for group in [others, bindings] {
        Rest::concurrently(group, async |object| {
            rest.apply(&object.path, &object.owned_by(config))
                .await
                .map(drop)
        })
        .await?;
    }
    Ok(())
}

/// Reports whether all pods of a workload are there, new and ready. True for what is no workload.
pub fn is_rolled_out(object: &Value) -> bool {
    let (spec, status) = (&object["spec"], &object["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let observed = Live::of(object).observed_generation() >= Live::of(object).generation();
    match object["kind"].as_str() {
        Some("Deployment") => {
            observed
                && ["updatedReplicas", "availableReplicas"]
                    .iter()
                    .all(|field| status[field] == spec["replicas"])
        }
        Some("DaemonSet") => {
            let wanted = number(&status["desiredNumberScheduled"]);
            observed
                && wanted > 0
                && ["updatedNumberScheduled", "numberAvailable"]
                    .iter()
                    .all(|field| number(&status[field]) == wanted)
        }
        _ => true,
    }
}

/// Returns the author's part of an object: all but the fields of the API server and of the
/// cluster's controllers, and but random keys and certificates.
pub fn content(object: &Value) -> Value {
    let mut content = object.clone();
    content["metadata"] = json!({"labels": object["metadata"]["labels"]});
    if let Some(fields) = content.as_object_mut() {
        fields.remove("status");
    }
    for value in content["data"]
        .as_object_mut()
        .filter(|_| object["kind"] == "Secret")
        .into_iter()
        .flatten()
    {
        *value.1 = Value::Null;
    }
    for webhook in content["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = Value::Null;
    }
    if let Some(spec) = content["spec"].as_object_mut() {
        spec.retain(|field, _| !matches!(field.as_str(), "clusterIP" | "clusterIPs"));
    }
    content
}
