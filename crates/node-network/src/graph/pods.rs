//! The interfaces of pods, as Multus writes them into the annotation
//! `k8s.v1.cni.cncf.io/network-status`, and the networks that they are on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::path::{entries, text};

/// The annotation that Multus and other meta plugins write, as the Network Plumbing Working Group's
/// specification "Kubernetes Network Custom Resource Definition De-facto Standard" says.
pub const STATUS_ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";

/// An interface of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInterface {
    /// The node that the pod runs on.
    pub node: String,
    /// Namespace and name of the pod, as `namespace/name`.
    pub pod: String,
    /// The name of the interface in the pod.
    pub interface: String,
    /// The name of its network: `namespace/name` of a NetworkAttachmentDefinition, or that of the
    /// cluster's network.
    pub network: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its hardware address. Empty if it is not known.
    pub mac: String,
}

/// Returns the interfaces of a running pod. A pod on the network of its host has none of its own,
/// and neither has one whose annotation cannot be read.
pub fn interfaces(pod: &Value) -> Vec<PodInterface> {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let is_over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
    let Some(node) = spec["nodeName"].as_str().filter(|_| !is_over) else {
        return Vec::new();
    };
    if spec["hostNetwork"] == true {
        return Vec::new();
    }
    let name = format!(
        "{}/{}",
        text(&metadata["namespace"]),
        text(&metadata["name"])
    );
    let of_annotation = || -> Option<Vec<Value>> {
        serde_json::from_str(metadata["annotations"][STATUS_ANNOTATION].as_str()?).ok()
    };
    let texts = |list: &Value| entries(list).iter().map(text).collect::<Vec<_>>();
    let Some(networks) = of_annotation() else {
        let addresses: Vec<String> = entries(&status["podIPs"])
            .iter()
            .map(|entry| text(&entry["ip"]))
            .collect();
        return (!addresses.is_empty())
            .then(|| PodInterface {
                node: node.to_owned(),
                pod: name,
                interface: "eth0".to_owned(),
                network: String::new(),
                addresses,
                mac: String::new(),
            })
            .into_iter()
            .collect();
    };
    let interface = |(index, network): (usize, &Value)| PodInterface {
        node: node.to_owned(),
        pod: name.clone(),
        // The specification leaves it out for a network without an interface of its own.
        interface: match text(&network["interface"]) {
            unnamed if unnamed.is_empty() => format!("net{index}"),
            named => named,
        },
        network: text(&network["name"]),
        addresses: texts(&network["ips"]),
        mac: text(&network["mac"]),
    };
    networks.iter().enumerate().map(interface).collect()
}

/// The interface of a node that a network uses, by the name of the network.
#[derive(Clone, Debug, Default)]
pub struct Networks(BTreeMap<String, Attachment>);

/// The interface that a network uses, and the VLAN of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    /// The name of a bridge or a card.
    pub(super) interface: String,
    /// The VLAN, if there is one.
    pub(super) vlan: Option<String>,
}

impl Networks {
    /// Reads a NetworkAttachmentDefinition. One whose configuration names no interface of the node
    /// says nothing here.
    pub fn add(&mut self, definition: &Value) {
        let metadata = &definition["metadata"];
        let name = format!(
            "{}/{}",
            text(&metadata["namespace"]),
            text(&metadata["name"])
        );
        let configuration = definition["spec"]["config"].as_str().unwrap_or_default();
        let Ok(configuration) = serde_json::from_str::<Value>(configuration) else {
            return;
        };
        let plugins = match entries(&configuration["plugins"]) {
            [] => std::slice::from_ref(&configuration),
            plugins => plugins,
        };
        if let Some(attachment) = plugins.iter().find_map(attachment) {
            self.0.insert(name, attachment);
        }
    }

    pub(super) fn of(&self, network: &str) -> Option<&Attachment> {
        self.0.get(network)
    }
}

/// The plugins `bridge` and `ovs` name a `bridge`, `macvlan`, `ipvlan` and `vlan` a `master`, and
/// `host-device` a `device`.
fn attachment(plugin: &Value) -> Option<Attachment> {
    let named = ["bridge", "master", "device"]
        .into_iter()
        .find_map(|field| plugin[field].as_str());
    // The plugin `bridge` takes this name if there is none.
    let interface = named.or((plugin["type"] == "bridge").then_some("cni0"))?;
    Some(Attachment {
        interface: interface.to_owned(),
        vlan: ["vlan", "vlanId"]
            .into_iter()
            .find(|field| plugin[*field].is_number())
            .map(|field| text(&plugin[field])),
    })
}
