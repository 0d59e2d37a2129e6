//! The objects that a configuration leads to, and the very requests that Weft makes for them.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};
use serde_json::{Value, json};
use weft_testenv::proxy::Proxy;

use crate::{
    lab::{Lab, Setup},
    rest::Rest,
    wait,
};

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
            owner["uid"] = config["metadata"]["uid"].clone();
        }
        body
    }
}

/// `Kind namespace/name`
fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"]
        .as_str()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    format!(
        "{} {namespace}{}",
        text(&object["kind"]),
        text(&metadata["name"])
    )
}

/// The titles of the objects that a configuration leads to, by `weft render`.
pub fn rendered(setup: &Setup, config: &Value) -> Result<BTreeSet<String>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&setup.run(&["render", "-f", "-"], &config.to_string())?)?;
    Ok(documents
        .iter()
        .filter(|document| !document.is_null())
        .map(title)
        .collect())
}

/// Installs the configuration once with the operator behind a recording proxy, and returns its
/// applies of all rendered objects, in its order.
pub async fn record(setup: &Setup) -> Result<Vec<Applied>> {
    let lab = Lab::start(setup).await?;
    let proxy = Proxy::start(&lab.control_plane).await?;
    let operator = lab.operator("weft-recorded", Some(&proxy)).await?;
    lab.leads(&operator).await?;
    lab.create_config().await?;
    lab.wait_available().await?;
    let mut missing = rendered(setup, &setup.config)?;
    let mut applied = Vec::new();
    for request in proxy.requests() {
        if request.info.user != setup.domain.user()
            || request.info.verb != "patch"
            || !request.info.subresource.is_empty()
        {
            continue;
        }
        let mut body: Value = serde_json::from_slice(&request.body)?;
        // Weft's condition that the object is new, or that nobody wrote in between.
        body["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("resourceVersion"));
        if missing.remove(&title(&body)) {
            applied.push(Applied {
                path: request.info.path,
                body,
            });
        }
    }
    if !missing.is_empty() {
        bail!("weft render prints objects that the operator does not apply: {missing:?}");
    }
    Ok(applied)
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
    let observed =
        number(&status["observedGeneration"]) >= number(&object["metadata"]["generation"]);
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

/// The titles of everything in the cluster, but for Events, Leases, and pods and the like that the
/// cluster's own controllers make.
pub async fn everything(lab: &Lab<'_>) -> Result<BTreeSet<String>> {
    const DERIVED: [&str; 9] = [
        "Event",
        "Lease",
        "Pod",
        "ReplicaSet",
        "ControllerRevision",
        "EndpointSlice",
        "Endpoints",
        "IPAddress",
        "APIService",
    ];
    let client = lab.control_plane.client();
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let kinds = discovery
        .groups()
        .flat_map(|group| group.recommended_resources());
    let mut titles = BTreeSet::new();
    let listed = kinds.filter(|(kind, can)| {
        can.supports_operation(verbs::LIST) && !DERIVED.contains(&kind.kind.as_str())
    });
    for (kind, _) in listed {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        // For a moment after its definition was made, a kind cannot be listed.
        let items = wait::until("all kinds can be listed", async || {
            match api.list(&ListParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 429 => Ok(None),
                listed => Ok(Some(listed?)),
            }
        });
        for item in items.await? {
            let mut object = serde_json::to_value(item)?;
            object["kind"] = kind.kind.clone().into();
            titles.insert(title(&object));
        }
    }
    Ok(titles)
}
