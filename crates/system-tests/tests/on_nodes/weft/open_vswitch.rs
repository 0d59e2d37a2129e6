//! The add-on ovs with the programs of ovs-cni, on nodes where Open vSwitch runs in user space.

use serde_json::json;
use weft_testenv::lab::{Lab, Node, NodeOptions, images};

use crate::on_nodes::weft::{site::Site, wait::wait_until};

const NODES: [&str; 2] = ["node-a", "node-b"];

async fn vsctl(node: &Node, words: &str) -> String {
    let command: Vec<&str> = ["ovs-vsctl"].into_iter().chain(words.split(' ')).collect();
    node.exec(&command).await.unwrap().trim().to_owned()
}

#[tokio::test]
async fn ovs_cni_marks_bridges_and_connects_pods_across_nodes() {
    let absent = "scripts/test-nodes leaves this test out where their modules are not to be had";
    let [node_a, node_b] = NODES.map(|name| NodeOptions::new(name).data_nic().open_vswitch());
    let lab = Lab::builder()
        .node(node_a.control_plane())
        .node(node_b)
        .image(images::multus().unwrap().expect(absent))
        .image(images::ovs_cni().unwrap().expect(absent));
    let site = Site::start(lab).await;
    // The kernel may have no datapath. One in user space does in any namespace.
    for node in site.lab.nodes() {
        vsctl(
            node,
            "add-br br-ovs -- set bridge br-ovs datapath_type=netdev -- add-port br-ovs eth1",
        )
        .await;
    }
    site.connect().await;

    site.add_ons(
        "multus,ovs",
        &json!({
            "multus": {}, "ovs": {}, "images": {"multus": images::MULTUS, "ovsCni": images::OVS_CNI}
        }),
    )
    .await;
    site.wait_add_ons().await;
    for node in site.lab.nodes() {
        for plugin in ["ovs", "ovs-mirror-producer", "ovs-mirror-consumer"] {
            let path = format!("/opt/cni/bin/{plugin}");
            node.exec(&["test", "-x", &path]).await.unwrap();
        }
        wait_until("the marker reports the bridge", async || {
            let status = site.get(&["node", node.name()]).await["status"].clone();
            let reported = ["capacity", "allocatable"]
                .map(|list| status[list]["ovs-cni.network.kubevirt.io/br-ovs"].clone());
            if reported == ["1k", "1k"] {
                Ok(())
            } else {
                Err(format!("{status:#}"))
            }
        })
        .await;
    }

    let network = json!({
        "cniVersion": "0.4.0", "type": "ovs", "bridge": "br-ovs", "vlan": 7,
        "capabilities": {"ips": true}, "ipam": {"type": "static"}
    });
    site.apply(&json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": "data", "namespace": "default",
            "annotations": {
                "k8s.v1.cni.cncf.io/resourceName": "ovs-cni.network.kubevirt.io/br-ovs"
            },
        },
        "spec": {"config": network.to_string()},
    }))
    .await;
    for (name, node, address) in [
        ("a", NODES[0], "192.168.8.1/24"),
        ("b", NODES[1], "192.168.8.2/24"),
    ] {
        let networks =
            json!([{"name": "data", "namespace": "default", "ips": [address]}]).to_string();
        let resources = json!({"ovs-cni.network.kubevirt.io/br-ovs": 1});
        site.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {
                "nodeSelector": {
                    "kubernetes.io/hostname": node
                }, "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "tools", "image": images::TOOLS, "resources": {
                        "requests": resources, "limits": resources
                    },
                    "command": ["sh", "-c", "exec sleep 1000000"],
                }],
            },
        }))
        .await;
    }
    for pod in ["pod/a", "pod/b"] {
        site.wait_ready(pod).await;
    }
    site.exec(
        "a",
        &["ping", "-c", "2", "-W", "5", "-I", "net1", "192.168.8.2"],
    )
    .await
    .unwrap();

    // The rows are those that the agents know as pods' ports. They go with the pod.
    let node = &site.lab.nodes()[0];
    let ports = "--bare --columns=name find port tag=7 external_ids:contIface=net1 external_ids:owner=ovs-cni.network.kubevirt.io";
    assert!(vsctl(node, ports).await.starts_with("veth"));
    site.lab.kubectl(&["delete", "pod", "a"]).await.unwrap();
    wait_until("the port of the deleted pod is gone", async || match vsctl(
        node,
        "list-ports br-ovs",
    )
    .await
    {
        ports if ports == "eth1" => Ok(()),
        ports => Err(ports),
    })
    .await;
}
