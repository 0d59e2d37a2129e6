//! The plugins of CNI, on hosts: those that `scripts/node-programs` has built, where it has.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Host;
use crate::programs::{cached, path_from_env};

/// The folder of `bridge` and the others: `WEFT_CNI_PLUGINS`, else that in weft's cache, if it is
/// there.
fn plugins() -> Option<PathBuf> {
    match path_from_env("WEFT_CNI_PLUGINS") {
        Some(folder) => folder.join("bridge").is_file().then_some(folder),
        None => Some(cached("node-programs", "cni/bridge")?.join("cni")),
    }
}

/// Connects a network namespace of the host (`ip netns`) to its bridge of this name by the plugin
/// `bridge`, as a container runtime does. Returns the name of the end of the veth pair that is on
/// the bridge.
///
/// # Errors
/// There are no plugins here, or the plugin failed.
pub async fn attach(host: &Host, namespace: &str, bridge: &str, address: &str) -> Result<String> {
    let folder = plugins().context("there are no CNI plugins: run scripts/node-programs")?;
    let network = serde_json::json!({
        "cniVersion": "1.0.0", "name": bridge, "type": "bridge", "bridge": bridge,
        "ipam": {"type": "static", "addresses": [{"address": address}]},
    });
    let variables = [
        "CNI_COMMAND=ADD".to_owned(),
        format!("CNI_CONTAINERID={namespace}"),
        format!("CNI_NETNS=/run/netns/{namespace}"),
        "CNI_IFNAME=eth0".to_owned(),
        format!("CNI_PATH={}", folder.display()),
    ];
    let program = folder.join("bridge");
    let words = ["env"]
        .into_iter()
        .chain(variables.iter().map(String::as_str))
        .chain(program.to_str())
        .collect::<Vec<_>>();
    let told = host.exec_with_input(&words, &network.to_string()).await?;
    let result: Value = serde_json::from_str(&told).with_context(|| told.clone())?;
    let interfaces = result["interfaces"].as_array().into_iter().flatten();
    let outside = interfaces
        .filter(|interface| interface["sandbox"].is_null() && interface["name"] != bridge);
    outside
        .filter_map(|interface| interface["name"].as_str())
        .next()
        .map(str::to_owned)
        .with_context(|| told.clone())
}

/// For the list of what a machine has.
pub(super) fn is_there() -> bool {
    plugins().is_some_and(|folder| folder.join("static").is_file())
}
