//! Which images the components run, and how they are pulled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;

/// The longest reference: host, path (255 bytes), tag (128) and digest, generously.
const REFERENCE: u32 = 1024;

/// Images of the components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Multus, the thick variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub multus: Option<String>,

    /// The dynamic networks controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub multus_dynamic_networks_controller: Option<String>,

    /// The CNI plugins bridge and tuning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub linux_bridge: Option<String>,

    /// The marker of Linux bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub linux_bridge_marker: Option<String>,

    /// KubeMacPool and its certificate manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub kube_mac_pool: Option<String>,

    /// The CNI plugins and the marker of Open vSwitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub ovs_cni: Option<String>,

    /// The macvtap CNI plugin and its device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub macvtap_cni: Option<String>,

    /// The watcher of virtual machines of the secondary DNS.
    #[serde(
        rename = "kubeSecondaryDNS",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub kube_secondary_dns: Option<String>,

    /// The server of the secondary DNS.
    #[serde(rename = "coreDNS", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub core_dns: Option<String>,

    /// The KubeVirt IPAM controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REFERENCE), extend("x-kubernetes-validations" = rules::image()))]
    pub kubevirt_ipam_controller: Option<String>,
}

/// A Secret with credentials of registries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImagePullSecret {
    /// The name of the Secret, of the type kubernetes.io/dockerconfigjson.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::secret_name()))]
    pub name: String,
}
