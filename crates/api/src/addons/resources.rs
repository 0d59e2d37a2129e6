//! Requests and limits of the components' containers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::quantity::{QuantityText, quantity};

/// Every container of the components: component, DaemonSet or Deployment, container.
pub const CONTAINERS: [(&str, &str, &str); 14] = [
    ("multus", "multus", "install-multus-binary"),
    ("multus", "multus", "kube-multus"),
    (
        "multusDynamicNetworks",
        "dynamic-networks-controller-ds",
        "dynamic-networks-controller",
    ),
    ("linuxBridge", "kube-cni-linux-bridge-plugin", "cni-plugins"),
    ("linuxBridge", "bridge-marker", "bridge-marker"),
    ("kubeMacPool", "kubemacpool-cert-manager", "manager"),
    (
        "kubeMacPool",
        "kubemacpool-mac-controller-manager",
        "manager",
    ),
    ("ovs", "ovs-cni-amd64", "ovs-cni-plugin"),
    ("ovs", "ovs-cni-amd64", "ovs-cni-marker"),
    ("macvtap", "macvtap-cni", "install-cni"),
    ("macvtap", "macvtap-cni", "macvtap-cni"),
    ("kubeSecondaryDNS", "secondary-dns", "secondary-dns"),
    ("kubeSecondaryDNS", "secondary-dns", "status-monitor"),
    (
        "kubevirtIpamController",
        "kubevirt-ipam-controller-manager",
        "manager",
    ),
];

/// The components of [`CONTAINERS`], each once.
fn components() -> Vec<&'static str> {
    let mut components: Vec<_> = CONTAINERS
        .iter()
        .map(|(component, _, _)| *component)
        .collect();
    components.dedup();
    components
}

/// Requests and limits of some containers. The more an entry names, the more it counts: container
/// before workload before component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::resources()))]
pub struct ContainerResources {
    /// The component, under the name of its field here, for example kubeMacPool.
    #[schemars(extend("enum" = components()))]
    pub component: String,

    /// A DaemonSet or Deployment of the component, as status.containers has it in parentName. Left
    /// out: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub workload: Option<String>,

    /// A container, as status.containers has it in name, init containers included. Left out: all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub container: Option<String>,

    /// Resources that the node reserves for the container. An omitted value keeps its default, up
    /// to the given limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Amounts>,

    /// The most that it may use. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Amounts>,
}

/// Amounts of the resources that containers use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amounts {
    /// Processor time in cores, for example 100m (a tenth of a core).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity")]
    pub cpu: Option<QuantityText>,

    /// Memory in bytes, for example 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity")]
    pub memory: Option<QuantityText>,

    /// Disk space of the node in bytes, for logs and files of the container, for example 1Gi.
    #[serde(
        rename = "ephemeral-storage",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "quantity")]
    pub ephemeral_storage: Option<QuantityText>,
}
