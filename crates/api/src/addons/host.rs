//! Where the nodes have what components need of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;

const PRESETS: [&str; 7] = [
    "Kubeadm",
    "K3s",
    "RKE2",
    "K0s",
    "MicroK8s",
    "Talos",
    "OpenShift",
];

/// Folders of the nodes. A folder that is given here wins over the preset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPaths {
    /// The distribution of Kubernetes whose folders are used: Kubeadm (as most have it), K3s, RKE2,
    /// K0s, MicroK8s, Talos or OpenShift. Left out, it is that of most nodes, by what they say of
    /// themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = PRESETS))]
    pub preset: Option<String>,

    /// Where the container runtime looks for CNI plugins, /opt/cni/bin for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = rules::folder()))]
    pub cni_bin_dir: Option<String>,

    /// Where the container runtime looks for the configuration of networks, /etc/cni/net.d for
    /// example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = rules::folder()))]
    pub cni_config_dir: Option<String>,

    /// Where kubelet has its data, /var/lib/kubelet for example (its --root-dir).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = rules::folder()))]
    pub kubelet_dir: Option<String>,

    /// Where the container runtime mounts the network namespaces of pods, /run/netns for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = rules::folder()))]
    pub network_namespace_dir: Option<String>,
}
