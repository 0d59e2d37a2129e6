//! Type Flannel: from nodes that are not Ready to pods that talk, and what happens to their
//! connections when something changes.

use serde_json::json;
use weft_testenv::lab::{Lab, NodeOptions, has_link_type, images};

use crate::on_nodes::weft::{
    site::{NAMESPACE, Site},
    wait::wait_until,
};

#[tokio::test]
async fn vxlan_and_nftables_from_nothing_through_changes() {
    assert!(has_link_type("vxlan"), "the kernel makes no vxlan devices");
    let lab = Lab::builder()
        .node(NodeOptions::new("node-a").control_plane())
        .node(NodeOptions::new("node-b").mtu(1400));
    let site = Site::start(lab).await;
    site.install().await;
    wait_until(
        "the operator's pod is Ready, on nodes that are not",
        async || {
            let pod = site.operator_pod().await;
            let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            if ready {
                Ok(())
            } else {
                Err(format!("{:#}", pod["status"]))
            }
        },
    )
    .await;
    let node = site.get(&["node", "node-a"]).await;
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "False"),
        "{conditions:?}"
    );

    // From nothing.
    let flannel =
        json!({"type": "Flannel", "flannelConfig": {"backend": "vxlan", "enableNFTables": true}});
    site.network(flannel, "nftables").await;
    for node in ["node/node-a", "node/node-b"] {
        site.wait_ready(node).await;
    }
    let config = site
        .wait_status(&[
            ("Available", "True"),
            ("Progressing", "False"),
            ("Degraded", "False"),
        ])
        .await;
    let (a, b) = (site.pod("a", "node-a").await, site.pod("b", "node-b").await);
    site.assert_connected(&a, &b).await;
    let service = site.service("b").await;
    for address in &service {
        site.wait_fetch("a", address, 80, "b").await;
    }

    // The smaller node counts: 1400 less what VXLAN takes, which is more over IPv6.
    let mtu = config
        .pointer("/status/effectiveConfiguration/defaultNetwork/flannelConfig/mtu")
        .unwrap()
        .as_u64()
        .unwrap();
    assert_eq!(
        mtu,
        if site.lab.is_dual_stack() { 1330 } else { 1350 },
        "{:#}",
        config["status"]
    );
    let of_pod = site
        .exec("a", &["cat", "/sys/class/net/eth0/mtu"])
        .await
        .unwrap();
    assert_eq!(of_pod.trim(), mtu.to_string());
    assert!(
        config["status"].to_string().contains("node-b"),
        "status names the node that differs: {:#}",
        config["status"]
    );

    // A safe change rolls kube-proxy, and an open connection through it goes on.
    let talk = format!(
        "i=0; while i=$((i+1)); do echo $i; sleep 0.1; done | nc {} 9000 >/said",
        service[0]
    );
    site.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talker"},
        "spec": {
            "nodeName": "node-a", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "talker", "image": images::TOOLS, "command": ["sh", "-c", talk]}
            ],
        },
    }))
    .await;
    site.wait_ready("pod/talker").await;
    let heard = async |more_than: u64| {
        wait_until("the connection goes on", async || {
            let said = site.exec("talker", &["tail", "-n", "1", "/said"]).await?;
            said.trim()
                .parse::<u64>()
                .ok()
                .filter(|count| *count > more_than)
                .ok_or(said)
        })
        .await
    };
    let before = heard(0).await;
    let generation =
        |object: &serde_json::Value| object["metadata"]["generation"].as_u64().unwrap();
    let proxy = [
        "daemonset",
        "openshift-kube-proxy",
        "--namespace",
        "openshift-kube-proxy",
    ];
    let old = generation(&site.get(&proxy).await);
    site.patch(&json!({"spec": {"kubeProxyConfig": {"iptablesSyncPeriod": "45s"}}}))
        .await;
    wait_until("kube-proxy is rolled", async || {
        let live = site.get(&proxy).await;
        if generation(&live) > old {
            Ok(())
        } else {
            Err(live["status"].to_string())
        }
    })
    .await;
    site.wait_status(&[
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
    ])
    .await;
    heard(before).await;
    let talker = site.get(&["pod", "talker"]).await;
    assert_eq!(
        talker["status"]["phase"], "Running",
        "it ends with its one connection: {:#}",
        talker["status"]
    );

    // An unsafe change is refused, and packets go on.
    site.patch(&json!({"spec": {"defaultNetwork": {"flannelConfig": {"backend": "host-gw"}}}}))
        .await;
    let refused = site.wait_status(&[("Degraded", "True")]).await;
    let change = &refused["status"]["refusedChange"]["fields"][0];
    assert_eq!(
        (change["old"].as_str(), change["new"].as_str()),
        (Some("vxlan"), Some("host-gw")),
        "{:#}",
        refused["status"]
    );
    site.assert_connected(&a, &b).await;
    heard(before).await;

    // The operator's process is killed: the kubelet starts it again, and it goes on with the
    // network in force, repairs included.
    let pod = site.operator_pod().await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    let pid = site
        .lab
        .node("node-a")
        .unwrap()
        .exec(&["pgrep", "-f", "weft operator"])
        .await
        .unwrap();
    site.lab
        .node("node-a")
        .unwrap()
        .exec(
            &[
                &["kill", "-9"],
                pid.split_whitespace().collect::<Vec<_>>().as_slice(),
            ]
            .concat(),
        )
        .await
        .unwrap();
    wait_until("the operator is there again", async || {
        let pod = site.get(&["pod", name, "--namespace", NAMESPACE]).await;
        let container = &pod["status"]["containerStatuses"][0];
        if container["restartCount"].as_u64() >= Some(1) && container["ready"] == true {
            Ok(())
        } else {
            Err(container.to_string())
        }
    })
    .await;
    site.lab
        .kubectl(&[
            "delete",
            "configmap",
            "kube-flannel-cfg",
            "--namespace",
            "kube-flannel",
        ])
        .await
        .unwrap();
    wait_until("the ConfigMap is back", async || {
        site.lab
            .kubectl(&[
                "get",
                "configmap",
                "kube-flannel-cfg",
                "--namespace",
                "kube-flannel",
            ])
            .await
            .map_err(|e| e.to_string())
    })
    .await;
    site.patch(&json!({"spec": {"defaultNetwork": {"flannelConfig": {"backend": "vxlan"}}}}))
        .await;
    let config = site
        .wait_status(&[("Available", "True"), ("Degraded", "False")])
        .await;
    assert!(
        config["status"]["refusedChange"].is_null(),
        "{:#}",
        config["status"]
    );
    heard(before).await;
}

#[tokio::test]
async fn host_gw_and_iptables() {
    let site = Site::start(Lab::builder()).await;
    site.install().await;
    site.network(
        json!({"type": "Flannel", "flannelConfig": {"backend": "host-gw"}}),
        "iptables",
    )
    .await;
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
    // Not wrapped: the path takes what the nodes' network takes.
    assert_eq!(
        site.exec("a", &["cat", "/sys/class/net/eth0/mtu"])
            .await
            .unwrap()
            .trim(),
        "1500"
    );
}
