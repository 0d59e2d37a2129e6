//! A cluster in which all four domains are in use, and its programs that a test plays.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{StoredKind, played};

use crate::upgrade::{
    fixture::Layout,
    harness::*,
    node_network::agents::{Agents, enactments},
    secrets::password,
    site::{self, Site},
};

/// The namespace of the PlacementAPI.
pub const OPENSTACK: &str = "openstack";
/// The nodes.
pub const NODES: [&str; 2] = ["node-1", "node-2"];
/// How many pods the PlacementAPI begins with.
pub const REPLICAS: u64 = 2;

/// The output of `weft manifests` for all domains, with images of this version.
pub fn printed(program: &Path, layout: Layout, version: &str) -> String {
    let images = [
        format!("--image=registry.example/weft:{version}"),
        format!("--agent-image=registry.example/weft-agent:{version}"),
    ];
    let domains = ["--domains", "addons,cluster-network,node-network,placement"];
    let arguments: Vec<_> = layout
        .options()
        .iter()
        .copied()
        .chain(domains)
        .chain(images.iter().map(String::as_str))
        .collect();
    manifests_of(program, &arguments)
}

/// A cluster without nodes of its own.
pub fn options() -> ClusterOptions {
    ClusterOptions {
        nodes: NODES.len(),
        manifests: &[],
        ..Default::default()
    }
}

/// Puts a resource of each domain in, and waits until all are Available.
pub async fn populate(cluster: &Cluster) {
    cluster.play_kubemacpool().await;
    // Weft draws the range of addresses, and keeps it in its record.
    cluster
        .apply(&json!({"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
            "metadata": {"name": "cluster"},
            "spec": {
                "multus": {}, "multusDynamicNetworks": {}, "linuxBridge": {}, "ovs": {}, "kubeMacPool": {}, "macvtap": {},
                "kubeSecondaryDNS": {"domain": "secondary.example.com", "nameServerIP": "192.0.2.53"},
                "kubevirtIpamController": {}
            }}).to_string())
        .await;
    cluster.wait_available().await;
    cluster.apply(&network_config("office")).await;
    cluster
        .apply(&json!({"apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"},
            "spec": {"maxUnavailable": "100%"}}).to_string())
        .await;
    for definitions in [played::MARIADB, played::KEYSTONE, played::TOPOLOGY] {
        cluster.apply(definitions).await;
    }
    cluster
        .wait_established("topologies.topology.openstack.org")
        .await;
    wait_resource(cluster, kinds::NETWORK_CONFIG, "", "default").await;
    wait_resource(cluster, kinds::NMSTATE, "", "nmstate").await;
    report(cluster).await;
    let agents = Agents::of(cluster, &NODES).await;
    for (version, name) in [("v1", "br1"), ("v1beta1", "br2"), ("v1", "still")] {
        cluster.apply(&policy(version, name, 1500)).await;
        wait_policy(cluster, &agents, name).await;
    }
    placement(cluster).await;
}

/// A NetworkConfig with one additional network.
pub fn network_config(network: &str) -> String {
    let spec = json!({
        "serviceNetwork": "10.96.0.0/16",
        "clusterNetworks": [{"cidr": "10.244.0.0/16", "hostSubnetLength": 8}],
        "defaultNetwork": {"type": "Flannel", "flannelConfig": {"backend": "host-gw"}},
        "additionalNetworks": [
            {"type": "SimpleMacvlan", "name": network, "simpleMacvlanConfig": {"master": "eth1"}}
        ]
    });
    json!({"apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
        "metadata": {"name": "default"}, "spec": spec})
    .to_string()
}

/// A policy of a bridge, in one of the versions that are served.
pub fn policy(version: &str, name: &str, mtu: u64) -> String {
    let bridge = json!({"name": name, "type": "linux-bridge", "state": "up", "mtu": mtu});
    json!({"apiVersion": format!("nmstate.io/{version}"), "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 1, "desiredState": {"interfaces": [bridge]}}})
    .to_string()
}

/// Plays the reports of the agents.
async fn report(cluster: &Cluster) {
    for node in NODES {
        let uid = cluster.get(kinds::NODE, "", node).await.unwrap()["metadata"]["uid"].clone();
        let state = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState", "metadata": {
            "name": node,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]
        }});
        let api = cluster.api(kinds::NODE_NETWORK_STATE, "");
        let params = PatchParams::apply("weft/agent").force();
        api.patch(node, &params, &Patch::Apply(&state))
            .await
            .unwrap();
        let card = json!({
            "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "ifIndex": 3
        });
        let status = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
            "status": {"currentState": {"interfaces": [card]}, "lastSuccessfulUpdateTime": jiff::Timestamp::now().to_string()}});
        api.patch_status(node, &params, &Patch::Apply(&status))
            .await
            .unwrap();
    }
}

/// Lets the agents act until a policy is carried out in its latest generation.
pub async fn wait_policy(cluster: &Cluster, agents: &Agents, name: &str) {
    wait_until(&format!("policy {name} is Available"), async || {
        agents.act(cluster, &[]).await;
        let kind = kinds::NODE_NETWORK_CONFIGURATION_POLICY;
        let live = cluster.get(kind, "", name).await.ok_or("it is not there")?;
        let said = condition(&live["status"], "Available");
        if said["status"] == "True" && said["observedGeneration"] == live["metadata"]["generation"]
        {
            Ok(())
        } else {
            Err(format!(
                "{:#} {:#?}",
                live["status"],
                enactments(cluster).await
            ))
        }
    })
    .await;
}

/// A PlacementAPI with everything that it can have, and what it needs of other operators.
async fn placement(cluster: &Cluster) {
    let site = Site::new(cluster, OPENSTACK).await;
    site.password(&password("service")).await;
    site.galera().await;
    site.keystone().await;
    let network = r#"{"cniVersion": "0.3.1", "type": "macvlan", "master": "eth1", "ipam": {"type": "whereabouts", "range": "172.18.0.0/24"}}"#;
    site.put(
        json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "storage"}, "spec": {"config": network}}),
    )
    .await;
    site.put(
        json!({"apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": "zones"}, "spec": {}}),
    )
    .await;
    site.placement(json!({"topologyRef": {"name": "zones"}, "networkAttachments": ["storage"], "replicas": REPLICAS}))
        .await;
    site.wait_there(kinds::MARIADB_ACCOUNT, site::ACCOUNT).await;
    // Weft draws this password, in an immutable Secret. One that can be made again gives the pods
    // the same configuration in each cluster that begins with this state.
    let account = site.get(kinds::MARIADB_ACCOUNT, site::ACCOUNT).await;
    let secret = account.unwrap()["spec"]["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut drawn = site.wait_there(kinds::SECRET, &secret).await;
    drawn["data"]["DatabasePassword"] = STANDARD.encode(password("database")).into();
    let known = StoredKind {
        plural: "secrets".to_owned(),
        group: String::new(),
        objects: vec![drawn],
    };
    cluster.control_plane.store(&[known]).await.unwrap();
    site.plays_mariadb(site::ACCOUNT).await;
    play_multus(&site, REPLICAS).await;
    site.plays_keystone().await;
    play_multus(&site, REPLICAS).await;
    site.wait_ready().await;
}

/// Plays Multus until the PlacementAPI says that each of its pods has its networks.
pub async fn play_multus(site: &Site<'_>, replicas: u64) {
    wait_until("all pods have their networks", async || {
        let pods = site.all(kinds::POD).await;
        for pod in pods {
            let metadata = &pod["metadata"];
            let annotations = &metadata["annotations"];
            let wants = annotations["k8s.v1.cni.cncf.io/networks"].is_string();
            if wants && annotations["k8s.v1.cni.cncf.io/network-status"].is_null() {
                let name = metadata["name"].as_str().unwrap();
                let patch = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": networks(name)}}});
                let params = PatchParams::default();
                // The pod of a Job may have gone.
                let _ = site
                    .cluster
                    .api(kinds::POD, OPENSTACK)
                    .patch(name, &params, &Patch::Merge(&patch))
                    .await;
            }
        }
        let live = site.get(kinds::PLACEMENT_API, site::NAME).await.unwrap();
        let status = &live["status"];
        if status["observedGeneration"] == live["metadata"]["generation"]
            && status["readyCount"] == replicas
            && condition(status, "NetworkAttachmentsReady")["status"] == "True"
        {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
}

/// The status of a pod's networks, each pod with an address of its own.
fn networks(pod: &str) -> String {
    let last = pod
        .bytes()
        .fold(1_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    json!([
        {"name": "kindnet", "interface": "eth0", "ips": ["10.244.0.5"], "default": true},
        {"name": format!("{OPENSTACK}/storage"), "interface": "storage", "ips": [format!("172.18.0.{last}")]}
    ])
    .to_string()
}

/// Waits until a resource is Available in its latest generation, and returns it.
pub async fn wait_resource(
    cluster: &Cluster,
    kind: weft_plan::Kind,
    namespace: &str,
    name: &str,
) -> Value {
    wait_until(&format!("{kind} {name} is Available"), async || {
        let live = cluster
            .get(kind, namespace, name)
            .await
            .ok_or("it is not there")?;
        let status = &live["status"];
        let is = |name: &str, value: &str| condition(status, name)["status"] == value;
        // The definitions of a release lack the fields that came later. A program that knows these
        // is not ready with such definitions, though it does all else.
        let ready = if is("FieldsDropped", "True") {
            "Available"
        } else {
            "Ready"
        };
        if status["observedGeneration"] == live["metadata"]["generation"]
            && is(ready, "True")
            && !is("Degraded", "True")
            && !is("Progressing", "True")
        {
            Ok(live)
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await
}
