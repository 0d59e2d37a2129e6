//! Both operators together: Flannel as the default network, then Multus as an add-on, and pods with
//! a second interface on a bridge of the nodes.

use serde_json::json;
use weft_testenv::lab::{Lab, NodeOptions, images};

use crate::on_nodes::weft::{site::Site, wait::wait_until};

#[tokio::test]
async fn pods_reach_each_other_over_a_second_interface_across_nodes() {
    let multus = images::multus().unwrap().expect(
        "Multus: scripts/test-nodes leaves this test out where its module is not to be had",
    );
    let lab = Lab::builder()
        .node(NodeOptions::new("node-a").control_plane().data_nic())
        .node(NodeOptions::new("node-b").data_nic())
        .image(multus)
        .image(images::cni_plugins().unwrap());
    let site = Site::start(lab).await;
    site.connect().await;

    // An additional network waits for Multus, which NetworkConfig does not bring, and stops nothing
    // else.
    let config = json!({
        "cniVersion": "0.3.1", "type": "cnv-bridge", "bridge": "br-data",
        "capabilities": {"ips": true}, "ipam": {"type": "static"}
    });
    site.patch(&json!({
        "spec": {
            "additionalNetworks": [
                {"type": "Raw", "name": "data", "rawCNIConfig": config.to_string()}
            ]
        }
    }))
    .await;
    wait_until("status says that Multus is missing", async || {
        let status = site.get(&["networkconfig", "default"]).await["status"]["additionalNetworks"]
            .to_string();
        if status.contains("MultusMissing") {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;

    site.add_ons(
        "multus,linux-bridge",
        &json!({"multus": {}, "images": {"multus": images::MULTUS}}),
    )
    .await;
    site.wait_add_ons().await;
    site.wait_status(&[
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
    ])
    .await;

    // Linux bridge installs its plugins. Its marker cannot be pulled here, and status says so in
    // the kubelet's words.
    let bridge =
        json!({"spec": {"linuxBridge": {}, "images": {"linuxBridge": images::CNI_PLUGINS}}})
            .to_string();
    site.lab
        .kubectl(&[
            "patch",
            "networkaddonsconfig",
            "cluster",
            "--type=merge",
            "--patch",
            &bridge,
        ])
        .await
        .unwrap();
    wait_until(
        "the plugins are installed, and the marker is said to be missing",
        async || {
            let config = site.get(&["networkaddonsconfig", "cluster"]).await;
            let components = config["status"]["components"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let message = components
                .iter()
                .find(|component| component["name"] == "linuxBridge")
                .map(|component| component["message"].to_string());
            let message = message.unwrap_or_default();
            let installed = site.lab.nodes().iter().all(|node| {
                node.file("/opt/cni/bin/cnv-bridge")
                    .symlink_metadata()
                    .is_ok()
            });
            let told = message.contains("bridge-marker")
                && message.contains("ImagePull")
                && !message.contains("kube-cni-linux-bridge-plugin");
            if installed && told {
                Ok(())
            } else {
                Err(format!("{:#}", config["status"]["components"]))
            }
        },
    )
    .await;

    // The nodes' own part: a bridge with the second network card.
    for node in site.lab.nodes() {
        for command in [
            "link add br-data type bridge",
            "link set eth1 master br-data",
            "link set eth1 up",
            "link set br-data up",
        ] {
            node.exec(&[&["ip"], command.split(' ').collect::<Vec<_>>().as_slice()].concat())
                .await
                .unwrap();
        }
    }
    for (name, node, address) in [
        ("a", "node-a", "192.168.7.1/24"),
        ("b", "node-b", "192.168.7.2/24"),
    ] {
        let networks =
            json!([{"name": "data", "namespace": "default", "ips": [address]}]).to_string();
        site.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "tools", "image": images::TOOLS,
                    "command": [
                        "sh", "-c",
                        format!("mkdir /www && echo {name} >/www/index.html && exec httpd -f -p 8080 -h /www")
                    ],
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
        &["ping", "-c", "2", "-W", "5", "-I", "net1", "192.168.7.2"],
    )
    .await
    .unwrap();
    site.wait_fetch("a", "192.168.7.2", 8080, "b").await;
    site.wait_fetch("b", "192.168.7.1", 8080, "a").await;

    // Without the socket of Multus no pod of the node starts.
    let node = &site.lab.nodes()[0];
    node.exec(&["rm", "/run/multus/multus.sock"]).await.unwrap();
    wait_until("status says that Multus is not available", async || {
        let config = site.get(&["networkaddonsconfig", "cluster"]).await;
        let components = config["status"]["components"].as_array();
        let multus = components
            .into_iter()
            .flatten()
            .find(|component| component["name"] == "multus");
        let message = multus.map_or_else(String::new, |multus| multus["message"].to_string());
        if message.contains("is not available (awaiting 1 nodes)") {
            Ok(())
        } else {
            Err(format!("{:#}", config["status"]["components"]))
        }
    })
    .await;
}
