//! Objects that Weft applies for a configuration, and objects that a cluster holds.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};
use serde_json::Value;
use weft_testenv::proxy::Proxy;

use crate::{
    lab::{Lab, Setup},
    objects::{Applied, title},
    wait,
};

/// Objects that Weft applies for this configuration, recorded once.
pub async fn applied(setup: &Setup) -> Result<&[Applied]> {
    Ok(setup.applied.get_or_try_init(|| record(setup)).await?)
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
async fn record(setup: &Setup) -> Result<Vec<Applied>> {
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
