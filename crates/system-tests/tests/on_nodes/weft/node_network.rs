//! Policies of nodes and pods on what they make: a policy brings a bridge to two nodes, pods are
//! attached to it, and their packets flow while policies, agents and hosts change.

use serde_json::{Value, json};
use weft_api::node_network::{NODE_CONDITION, STARTUP_TAINT};
use weft_plan::condition;
use weft_testenv::lab::{Lab, Node, NodeOptions, images};

use crate::on_nodes::weft::{flow::Flow, site::Site, wait::wait_until};

const NODES: [&str; 2] = ["node-a", "node-b"];

/// A policy for all nodes at once.
fn policy(name: &str, spec: Value) -> Value {
    let mut all = json!({"maxUnavailable": "100%"});
    all.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name}, "spec": all
    })
}

/// The bridge of the pods, with the data card.
fn data(mac_ageing_time: u32) -> Value {
    json!({"desiredState": {"interfaces": [{
        "name": "br-data", "type": "linux-bridge", "state": "up",
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
        "bridge": {
            "options": {"stp": {"enabled": false}, "mac-ageing-time": mac_ageing_time},
            "port": [{"name": "eth1", "vlan": {}}]
        }
    }]}})
}

/// A bridge of the hosts alone.
fn spare(mtu: u32, address: &str) -> Value {
    json!({"desiredState": {"interfaces": [{
        "name": "br-spare", "type": "linux-bridge", "state": "up", "mtu": mtu,
        "ipv4": {
            "enabled": true, "dhcp": false, "address": [{"ip": address, "prefix-length": 24}]
        },
        "bridge": {"options": {"stp": {"enabled": false}}, "port": []}
    }]}})
}

impl Site {
    /// Waits until a condition of the latest generation of a policy is True.
    async fn wait_policy(&self, name: &str, kind: &str) {
        wait_until(&format!("policy {name} is {kind}"), async || {
            let policy = self.get(&["nncp", name]).await;
            let conditions = policy["status"]["conditions"].as_array();
            let holds = conditions.into_iter().flatten().any(|one| {
                one["type"] == kind
                    && one["status"] == "True"
                    && one["observedGeneration"] == policy["metadata"]["generation"]
            });
            if holds {
                return Ok(());
            }
            let enactments = self.get(&["nnce"]).await;
            Err(format!("{:#}\n{enactments:#}", policy["status"]))
        })
        .await;
    }

    /// Waits until a condition of an enactment is True.
    async fn wait_enactment(&self, name: &str, kind: &str) {
        wait_until(&format!("enactment {name} is {kind}"), async || {
            let enactment = self.get(&["nnce", name]).await;
            condition(&enactment["status"], kind)
                .filter(|one| one["status"] == "True")
                .map(drop)
                .ok_or_else(|| format!("{:#}", enactment["status"]))
        })
        .await;
    }

    /// Waits until the condition of both nodes has this status.
    async fn wait_nodes(&self, status: &str) {
        for node in NODES {
            wait_until(
                &format!("{NODE_CONDITION} of {node} is {status}"),
                async || {
                    let node = self.get(&["node", node]).await;
                    let conditions = node["status"]["conditions"].as_array();
                    let said = conditions
                        .into_iter()
                        .flatten()
                        .find(|one| one["type"] == NODE_CONDITION);
                    match said {
                        Some(said) if said["status"] == status => Ok(()),
                        other => Err(format!("{other:?}")),
                    }
                },
            )
            .await;
        }
    }

    async fn tainted(&self) -> usize {
        let mut tainted = 0;
        for node in NODES {
            let node = self.get(&["node", node]).await;
            tainted += usize::from(node["spec"]["taints"].to_string().contains(STARTUP_TAINT));
        }
        tainted
    }

    /// A pod with a second interface on the bridge of its node, where it echoes on port 9000.
    async fn attached_pod(&self, name: &str, node: &str, address: &str) {
        let networks = json!([{"name": "data", "namespace": "default", "ips": [address]}]);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name,
                "annotations": {"k8s.v1.cni.cncf.io/networks": networks.to_string()}
            },
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "tools", "image": images::TOOLS,
                    "command": ["sh", "-c", "exec nc -ll -p 9000 -e cat"],
                }],
            },
        }))
        .await;
    }
}

/// The process of the agent on a node, as the node numbers it.
async fn agent(node: &Node) -> String {
    wait_until("an agent runs", async || {
        let found = node.exec(&["pgrep", "-f", "^/usr/bin/weft-agent"]).await;
        let found = found.map_err(|error| error.to_string())?;
        let mut pids = found.split_whitespace();
        pids.next()
            .map(str::to_owned)
            .ok_or_else(|| "none".to_owned())
    })
    .await
}

#[tokio::test]
async fn pods_on_a_policys_bridge_lose_no_packet_while_the_rest_changes() {
    let absent = "scripts/test-nodes leaves this test out where their modules are not to be had";
    let node = |name: &str| {
        NodeOptions::new(name)
            .data_nic()
            .network_manager()
            .startup_taint()
    };
    let lab = Lab::builder()
        .node(node(NODES[0]).control_plane())
        .node(node(NODES[1]))
        .image(images::multus().unwrap().expect(absent))
        .image(images::cni_plugins().unwrap());
    let site = Site::start(lab).await;
    site.connect().await;
    // Multus must be on a node before the first pod that it is to attach.
    let placement = json!({"workloads": {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": STARTUP_TAINT, "operator": "Exists"}]
    }});
    let spec = json!({
        "multus": {}, "images": {"multus": images::MULTUS}, "placementConfiguration": placement
    });
    site.add_ons("multus,linux-bridge", &spec).await;
    site.wait_add_ons().await;
    // Of Linux bridge only the plugins can be had here, and not the marker.
    let spec = json!({
        "multus": {}, "linuxBridge": {}, "placementConfiguration": placement,
        "images": {"multus": images::MULTUS, "linuxBridge": images::CNI_PLUGINS}
    });
    site.add_ons("multus,linux-bridge", &spec).await;
    // Pods wait for the bridge that their nodes do not have yet.
    let network = json!({
        "cniVersion": "0.3.1", "type": "cnv-bridge", "bridge": "br-data",
        "capabilities": {"ips": true}, "ipam": {"type": "static"}
    });
    site.apply(&json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"config": network.to_string()},
    }))
    .await;
    assert_eq!(site.tainted().await, 2, "the kubelets have set it");
    site.attached_pod("a", NODES[0], "192.168.7.1/24").await;
    site.attached_pod("b", NODES[1], "192.168.7.2/24").await;
    site.node_network(&[("WEFT_AGENT_PROBE_SECONDS", "5"), ("NNCP_MAX_RETRIES", "2")])
        .await;
    site.apply(&policy("data", data(300))).await;
    site.install_agents(&json!({})).await;
    site.wait_policy("data", "Available").await;
    site.wait_nodes("True").await;
    for node in site.lab.nodes() {
        let sysctl = ["cat", "/proc/sys/net/bridge/bridge-nf-call-iptables"];
        let is_on = node.exec(&sysctl).await.is_ok_and(|on| on.trim() == "1");
        let enactment = format!("{}.data", node.name());
        let enactment = site.get(&["nnce", &enactment]).await;
        let mut conditions = enactment["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let is_named = conditions.any(|one| one["type"] == "BridgeTrafficFiltered");
        assert_eq!(is_named, is_on, "{enactment:#}");
    }
    for node in site.lab.nodes() {
        wait_until("the plugins are installed", async || {
            let plugin = node.file("/opt/cni/bin/cnv-bridge").symlink_metadata();
            plugin.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
    for pod in ["pod/a", "pod/b"] {
        site.wait_ready(pod).await;
    }
    assert_eq!(site.tainted().await, 0, "the operator has taken it");

    wait_until("the pods reach each other", async || {
        let ping = ["ping", "-c", "1", "-W", "2", "-I", "net1", "192.168.7.2"];
        site.exec("a", &ping).await
    })
    .await;
    let flow = Flow::begin(&site, "192.168.7.2").await;
    // A policy comes and changes.
    site.apply(&policy("spare", spare(1500, "192.0.2.1"))).await;
    site.wait_policy("spare", "Available").await;
    site.apply(&policy("spare", spare(1400, "192.0.2.1"))).await;
    site.wait_policy("spare", "Available").await;

    // One fails on the nodes, and is rolled back. The condition of the nodes says so.
    let mut unreachable = spare(1300, "192.0.2.9");
    // The kubelet answers on each address of its node, and this one goes.
    unreachable["probes"] = json!([{"tcp": {"host": "192.0.2.1", "port": 10250}}]);
    site.apply(&policy("spare", unreachable)).await;
    site.wait_policy("spare", "Degraded").await;
    site.wait_nodes("False").await;
    for node in site.lab.nodes() {
        // The policy is Degraded with the first of them.
        site.wait_enactment(&format!("{}.spare", node.name()), "Failing")
            .await;
        let link = node
            .exec(&["ip", "link", "show", "br-spare"])
            .await
            .unwrap();
        assert!(link.contains("mtu 1400"), "{link}");
    }

    // The agents are killed while they work.
    site.apply(&policy("spare", spare(1450, "192.0.2.1"))).await;
    for node in site.lab.nodes() {
        let pid = agent(node).await;
        node.exec(&["kill", "-KILL", &pid]).await.unwrap();
    }
    site.wait_policy("spare", "Available").await;
    site.wait_nodes("True").await;

    // The agents are replaced.
    site.install_agents(&json!({"logLevel": "debug"})).await;
    site.apply(&policy("spare", spare(1350, "192.0.2.1"))).await;
    site.wait_policy("spare", "Available").await;
    flow.goes_on().await;
    assert_eq!(flow.lost().await, 0, "nothing of that touches br-data");

    // A change of the bridge itself keeps its pods attached.
    let flow = Flow::begin(&site, "192.168.7.2").await;
    site.apply(&policy("data", data(200))).await;
    site.wait_policy("data", "Available").await;
    flow.goes_on().await;
    println!(
        "{} pings were lost while the bridge itself changed",
        flow.lost().await
    );
    assert_eq!(site.tainted().await, 0, "the operator never sets it");
}
