//! Type None: the network is another user's, and Weft adds the service proxy.

use std::fs;

use serde_json::json;
use weft_testenv::lab::Lab;

use crate::on_nodes::weft::site::Site;

/// Does the work of another network provider by hand: a bridge on each node, and routes to the pods
/// of other nodes.
async fn install_network(site: &Site) {
    let mut routes = Vec::new();
    for node in site.lab.nodes() {
        let object = site.get(&["node", node.name()]).await;
        let ranges: Vec<String> =
            serde_json::from_value(object["spec"]["podCIDRs"].clone()).unwrap();
        let any =
            |range: &String| json!({"dst": if range.contains(':') { "::/0" } else { "0.0.0.0/0" }});
        let config = json!({"cniVersion": "1.0.0", "name": "foreign", "plugins": [{
            "type": "bridge", "bridge": "foreign0", "isGateway": true, "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": ranges.iter().map(|range| json!([{"subnet": range}])).collect::<Vec<_>>(),
                "routes": ranges.iter().map(any).collect::<Vec<_>>(),
            },
        }]});
        // containerd takes notice of a rename inside the folder.
        fs::write(node.file("/etc/cni/net.d/.new"), config.to_string()).unwrap();
        fs::rename(
            node.file("/etc/cni/net.d/.new"),
            node.file("/etc/cni/net.d/10-foreign.conflist"),
        )
        .unwrap();
        routes.extend(
            ranges
                .iter()
                .zip(node.addresses())
                .map(|(range, address)| (node.name(), range.clone(), address.to_string())),
        );
    }
    for node in site.lab.nodes() {
        for (_, range, address) in routes.iter().filter(|(of, ..)| *of != node.name()) {
            node.exec(&["ip", "route", "add", range, "via", address])
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn a_foreign_network_gets_a_service_proxy_from_weft() {
    let site = Site::start(Lab::builder()).await;
    site.install().await;
    site.network(json!({"type": "None"}), "nftables").await;
    install_network(&site).await;
    site.wait_status(&[
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
    ])
    .await;
    let (a, b) = (site.pod("a", "node-a").await, site.pod("b", "node-b").await);
    site.assert_connected(&a, &b).await;
    for address in site.service("b").await {
        site.wait_fetch("a", &address, 80, "b").await;
    }
    let namespaces = site.get(&["namespaces"]).await.to_string();
    assert!(!namespaces.contains("kube-flannel"), "no network of Weft's");
}
