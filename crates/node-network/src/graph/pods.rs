//! The interfaces of pods, as Multus writes them into the annotation
//! `k8s.v1.cni.cncf.io/network-status`, and the networks that they are on.

use std::collections::BTreeMap;

use serde_json::Value;
use weft_attachments::{Config, Plugin, status};

use crate::path::{entries, text};

/// The annotation that Multus and other meta plugins write.
pub const STATUS_ANNOTATION: &str = status::ANNOTATION;

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
    let (metadata, spec, state) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let is_over = matches!(state["phase"].as_str(), Some("Succeeded" | "Failed"));
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
    let report = metadata["annotations"][STATUS_ANNOTATION].as_str();
    let Some(networks) = report.and_then(|report| status::read(report).ok()) else {
        let addresses: Vec<String> = entries(&state["podIPs"])
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
    let interface = |(index, found): (usize, status::Interface)| PodInterface {
        node: node.to_owned(),
        pod: name.clone(),
        // A network without an interface of its own.
        interface: match found.name {
            unnamed if unnamed.is_empty() => format!("net{index}"),
            named => named,
        },
        network: found.network,
        addresses: found.addresses,
        mac: found.mac,
    };
    networks.into_iter().enumerate().map(interface).collect()
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
        let text = weft_attachments::text(definition).unwrap_or_default();
        let Ok(config) = Config::read(text) else {
            return;
        };
        if let Some(attachment) = config.plugins().iter().find_map(attachment) {
            self.0.insert(name, attachment);
        }
    }

    pub(super) fn of(&self, network: &str) -> Option<&Attachment> {
        self.0.get(network)
    }
}

fn attachment(plugin: &Plugin<'_>) -> Option<Attachment> {
    Some(Attachment {
        interface: plugin.node_interface()?.to_owned(),
        vlan: plugin.vlan(),
    })
}
