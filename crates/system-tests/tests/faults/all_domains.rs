//! A cluster with a resource of each domain, which one operator serves.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Match, Proxy, Recorded};

use crate::{
    faults::{
        harness::*,
        node_network::agents::Agents,
        placement,
        scenario::resource,
        site::{NAME, Site},
    },
    upgrade::populated::{NODES, network_config, policy, wait_policy, wait_resource},
};

/// The policy of nodes.
pub const POLICY: &str = "br1";
/// The additional network of NetworkConfig.
pub const NETWORK: &str = "office";
/// The add-ons. The last one has a webhook with a certificate of Weft's.
pub const ADDONS: [&str; 3] = [
    "multus: {}",
    "linuxBridge: {}",
    "kubevirtIpamController: {}",
];

/// A cluster with Weft for all domains, and nothing for it to do yet.
pub async fn start() -> Cluster {
    let options = ClusterOptions {
        nodes: NODES.len(),
        manifests: &["--domains", "addons,cluster-network,node-network,placement"],
        ..Default::default()
    };
    Cluster::start(options).await
}

/// Puts a resource of each domain in, and waits until all is well. An operator must run.
pub async fn populate(cluster: &Cluster) {
    cluster.apply(&resource(&ADDONS)).await;
    cluster.wait_available().await;
    cluster.apply(&network_config(NETWORK)).await;
    let nmstate = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"},
        "spec": {"maxUnavailable": "100%"}
    });
    cluster.apply(&nmstate.to_string()).await;
    let site = Site::new(cluster, placement::SPACE).await;
    placement::prepare(&site, &placement::ALONE).await;
    placement::Step::Install.begin(&site).await;
    wait_resource(cluster, kinds::NMSTATE, "", "nmstate").await;
    cluster.apply(&policy("v1", POLICY, 1500)).await;
    let agents = Agents::of(cluster, &NODES).await;
    wait_policy(cluster, &agents, POLICY).await;
    placement::Step::Install
        .finish(&site, &BTreeSet::new())
        .await;
    all_are_well(cluster).await;
}

/// Waits until the resource of each domain says about its latest generation that all is well.
pub async fn all_are_well(cluster: &Cluster) -> Vec<Value> {
    let mut all = vec![cluster.wait_available().await];
    for (kind, namespace, name) in [
        (kinds::NETWORK_CONFIG, "", "default"),
        (kinds::NMSTATE, "", "nmstate"),
        (kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", POLICY),
        (kinds::PLACEMENT_API, placement::SPACE, NAME),
    ] {
        all.push(wait_resource(cluster, kind, namespace, name).await);
    }
    all
}

/// The requests of the operator.
pub fn of_operator(cluster: &Cluster) -> Match {
    Match::any().user(&cluster.operator_user())
}

/// The operator's writes so far, but for its notes and for those that only report: status, Events
/// and Leases.
pub fn work(cluster: &Cluster, proxy: &Proxy) -> Vec<String> {
    let writes = of_operator(cluster).writes().subresource("");
    let line = |write: Recorded| {
        let info = write.info;
        format!("{} {} -> {:?}", info.verb, info.path, write.code)
    };
    let all = proxy.writes().into_iter();
    let is_note = |name: &str| name.starts_with("weft-inventory-") || name.contains("-applied-");
    all.filter(|write| writes.selects(&write.info) && !is_note(&write.info.name))
        .map(line)
        .collect()
}

/// Waits until the operator has caught up with the cluster.
pub async fn wait_ready(operator: &Operator) {
    wait_until("the operator is ready", async || {
        match operator.http("/readyz").await {
            (200, ..) => Ok(()),
            (_, _, why) => Err(why),
        }
    })
    .await;
}

/// DaemonSets that [`ADDONS`] ask for. An object that is deleted again and again meets pauses.
pub const DAEMON_SETS: [&str; 3] = ["multus", "bridge-marker", "kube-cni-linux-bridge-plugin"];

/// Deletes a DaemonSet, and returns its uid.
pub async fn delete_daemon_set(cluster: &Cluster, name: &str) -> Value {
    let uid = uid_of(cluster, name).await;
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, name).await;
    uid
}

/// Waits until the operator has created a DaemonSet again. `old` is the uid of the one that was
/// deleted.
pub async fn is_back(cluster: &Cluster, name: &str, old: &Value) {
    wait_until(&format!("DaemonSet {name} is back"), async || {
        let now = uid_of(cluster, name).await;
        if now.is_string() && now != *old {
            Ok(())
        } else {
            Err(format!("{now} after {old}"))
        }
    })
    .await;
}

async fn uid_of(cluster: &Cluster, name: &str) -> Value {
    let live = cluster.get(kinds::DAEMON_SET, NAMESPACE, name).await;
    live.filter(|live| live["metadata"]["deletionTimestamp"].is_null())
        .map(|live| live["metadata"]["uid"].clone())
        .unwrap_or_default()
}
