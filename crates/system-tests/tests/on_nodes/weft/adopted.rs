//! A Flannel that `kube-flannel.yml` of upstream has installed becomes Weft's, while pods talk over
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::{Value, json};
use weft_plan::ADOPT_ANNOTATION;
use weft_testenv::lab::{Lab, Node, has_link_type, images};

use crate::on_nodes::weft::{
    flow::Flow,
    site::{self, Site, WEFT},
};

const NAMESPACE: &str = "kube-flannel";

/// Settings of upstream's Flannel that differ from Weft's and Flannel's own.
fn backend() -> Value {
    json!({"Type": "vxlan", "VNI": 7, "Port": 8473, "DirectRouting": true, "MTU": 1400})
}

/// The objects of upstream's own manifest, with the pods' blocks and images of this lab, and with
/// [`backend`].
fn upstream(blocks: &Value) -> Vec<Value> {
    let file = images::programs().unwrap().join("pods/kube-flannel.yml");
    let text = fs::read_to_string(file).unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in &mut objects {
        if object["kind"] == "ConfigMap" {
            let file = &mut object["data"]["net-conf.json"];
            let mut settings: Value = serde_json::from_str(file.as_str().unwrap()).unwrap();
            settings["Network"] = blocks[0]["cidr"].clone();
            if let Some(block) = blocks.get(1) {
                settings["EnableIPv6"] = true.into();
                settings["IPv6Network"] = block["cidr"].clone();
            }
            settings["EnableNFTables"] = true.into();
            settings["Backend"] = backend();
            *file = settings.to_string().into();
        }
        if object["kind"] != "DaemonSet" {
            continue;
        }
        let pod = &mut object["spec"]["template"]["spec"];
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array_mut().into_iter().flatten() {
                let image = container["image"].as_str().unwrap();
                let is_plugin = image.contains("/flannel-cni-plugin:");
                container["image"] = match is_plugin {
                    true => images::FLANNEL_CNI_PLUGIN.into(),
                    false => images::FLANNEL.into(),
                };
            }
        }
    }
    objects
}

/// The network as the kernel of a node and the CNI plugin know it.
async fn network(node: &Node) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    for (name, command) in [
        ("routes", "ip route; ip -6 route | grep -v veth"),
        ("tunnels", "ip -d link show type vxlan"),
        ("bridge", "ip -o link show cni0 | cut -d ' ' -f 2-5"),
        ("neighbors", "bridge fdb show | grep -w dst | sort"),
        ("subnet.env", "cat /run/flannel/subnet.env"),
    ] {
        let said = node.exec(&["sh", "-c", command]).await.unwrap();
        found.insert(name, said);
    }
    found
}

/// The content of an object: what its owner asks for, without what the API server adds.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    for field in ["metadata", "status"] {
        content.as_object_mut().unwrap().remove(field);
    }
    content
}

impl Site {
    async fn contents(&self, objects: &[Value]) -> BTreeMap<String, Value> {
        let mut contents = BTreeMap::new();
        for object in objects {
            let kind = object["kind"].as_str().unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            let live = self.get(&[kind, name, "--namespace", NAMESPACE]).await;
            contents.insert(format!("{kind} {name}"), content(&live));
        }
        contents
    }
}

#[tokio::test]
async fn a_flannel_of_upstream_is_adopted_without_a_lost_packet() {
    assert!(has_link_type("vxlan"), "the kernel makes no vxlan devices");
    let lab = Lab::builder().image(images::flannel_cni_plugin().unwrap());
    let site = Site::start(lab).await;
    // As kubeadm leaves a cluster, whose kube-proxy is not Weft's.
    site.lab
        .run_kube_proxy(&site::binary(), WEFT)
        .await
        .unwrap();
    let flannel = json!({"type": "Flannel"});
    let mut config = site.lab.network_config(&flannel, "nftables");
    let spec = config["spec"].as_object_mut().unwrap();
    spec.remove("kubeProxyConfig");
    spec.insert("deployKubeProxy".to_owned(), false.into());
    let objects = upstream(&spec["clusterNetworks"]);
    site.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
        .await;
    for node in ["node/node-a", "node/node-b"] {
        site.wait_ready(node).await;
    }
    let (a, b) = (site.pod("a", "node-a").await, site.pod("b", "node-b").await);
    site.assert_connected(&a, &b).await;
    let mut before = Vec::new();
    for node in site.lab.nodes() {
        before.push(network(node).await);
    }

    site.install().await;
    for object in &objects {
        let kind = object["kind"].as_str().unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        if kind == "Namespace" {
            continue;
        }
        let consent = format!("{ADOPT_ANNOTATION}=true");
        site.lab
            .kubectl(&["annotate", kind, name, &consent, "--namespace", NAMESPACE])
            .await
            .unwrap();
    }
    let plan = site.plan(&config).await;
    let planned: BTreeSet<String> = plan["resources"][0]["components"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|component| component["objects"].as_array().unwrap())
        .filter(|object| {
            let differences = object["differences"].as_array().into_iter().flatten();
            let paths = differences.filter_map(|one| one["path"].as_str());
            paths.into_iter().any(|path| !path.starts_with("metadata"))
        })
        .map(|object| {
            let text = |field: &str| object[field].as_str().unwrap();
            format!("{} {}", text("kind"), text("name"))
        })
        .collect();

    let contents = site.contents(&objects).await;
    let set = ["daemonset", "kube-flannel-ds", "--namespace", NAMESPACE];
    let uid = site.get(&set).await["metadata"]["uid"].clone();
    let flow = Flow::begin(&site, &b.addresses[0]).await;
    site.apply(&config).await;
    site.wait_status(&[
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
    ])
    .await;
    assert_eq!(site.get(&set).await["metadata"]["uid"], uid, "not deleted");
    flow.goes_on().await;
    assert_eq!(flow.lost().await, 0, "pings during the adoption");

    // The objects that the plan names have changed, and no other.
    let after = site.contents(&objects).await;
    let changed = contents.iter().filter(|(key, old)| after[*key] != **old);
    let changed: BTreeSet<String> = changed.map(|(key, _)| key.clone()).collect();
    assert_eq!(changed, planned, "{plan:#}");
    let settings = &after["ConfigMap kube-flannel-cfg"]["data"]["net-conf.json"];
    let settings: Value = serde_json::from_str(settings.as_str().unwrap()).unwrap();
    assert_eq!(settings["Backend"], backend());
    let plan = site.plan(&config).await;
    assert_eq!(plan["resources"][0]["changes"], false, "{plan:#}");
    for (node, before) in site.lab.nodes().iter().zip(&before) {
        assert_eq!(&network(node).await, before, "{}", node.name());
    }

    // A pod of now and those of before have addresses of their own, on one bridge.
    let c = site.pod("c", "node-b").await;
    for pod in [&a, &b] {
        assert!(c.addresses.iter().all(|one| !pod.addresses.contains(one)));
        site.assert_connected(pod, &c).await;
    }
}
