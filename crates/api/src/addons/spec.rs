//! The specification: one optional field a component, then what concerns several of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlacementConfiguration, TlsSecurityProfile};

/// What the cluster's network shall consist of. A component is deployed when its field is present, if only as `{}`, and removed
/// when the field goes away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAddonsConfigSpec {
    /// Multus lets a pod attach to more networks than the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multus: Option<Multus>,

    /// The dynamic networks controller attaches networks to running pods and detaches them. Needs multus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multus_dynamic_networks: Option<MultusDynamicNetworks>,

    /// The bridge and tuning CNI plugins, and the marker that publishes each node's Linux bridges as resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux_bridge: Option<LinuxBridge>,

    /// The Open vSwitch CNI plugin, and the marker that publishes each node's OVS bridges as resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs: Option<Ovs>,

    /// KubeMacPool gives MAC addresses to the interfaces of virtual machines and keeps them unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_mac_pool: Option<KubeMacPool>,

    /// The macvtap CNI plugin and its device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macvtap: Option<Macvtap>,

    /// A DNS server that knows the addresses of virtual machines on their secondary networks.
    #[serde(
        rename = "kubeSecondaryDNS",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub kube_secondary_dns: Option<KubeSecondaryDns>,

    /// The controller that keeps the IP addresses of KubeVirt virtual machines across restart and migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubevirt_ipam_controller: Option<KubevirtIpamController>,

    /// Node network configuration (kubernetes-nmstate).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nmstate: Option<NmState>,

    /// When the container images of the components are pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,

    /// How often the certificates are renewed that components issue for themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_sign_configuration: Option<SelfSignConfiguration>,

    /// On which nodes the components run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_configuration: Option<PlacementConfiguration>,

    /// Which TLS versions and ciphers the components' servers accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,
}

/// Multus has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Multus {}

/// Settings of the dynamic networks controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultusDynamicNetworks {
    /// The socket of the container runtime on the nodes.
    #[serde(
        rename = "hostCRISocketPath",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub host_cri_socket_path: Option<String>,
}

/// Linux bridge has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinuxBridge {}

/// Open vSwitch has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ovs {}

/// The range of MAC addresses of KubeMacPool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeMacPool {
    /// The first MAC address of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_start: Option<String>,

    /// The last MAC address of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_end: Option<String>,
}

/// Settings of macvtap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Macvtap {
    /// The ConfigMap that tells the device plugin which devices to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_plugin_config: Option<String>,
}

/// Settings of the secondary DNS. Both are known under two spellings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeSecondaryDns {
    /// The DNS domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,

    /// The address of the name server.
    #[serde(
        rename = "nameServerIP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub name_server_ip: Option<String>,

    /// Another spelling of domain.
    #[serde(rename = "DOMAIN", default, skip_serializing_if = "Option::is_none")]
    pub domain_upper: Option<String>,

    /// Another spelling of nameServerIP.
    #[serde(
        rename = "NAME_SERVER_IP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub name_server_ip_upper: Option<String>,
}

impl KubeSecondaryDns {
    /// The DNS domain, under whichever of its two spellings it was given; an empty text counts as not given.
    pub fn effective_domain(&self) -> Option<&str> {
        given(&self.domain).or(given(&self.domain_upper))
    }

    /// The address of the name server, under whichever of its two spellings it was given; an empty text counts as not given.
    pub fn effective_name_server_ip(&self) -> Option<&str> {
        given(&self.name_server_ip).or(given(&self.name_server_ip_upper))
    }

    /// Whether one of the spellings in capitals is used.
    pub fn uses_upper_case_spelling(&self) -> bool {
        self.domain_upper.is_some() || self.name_server_ip_upper.is_some()
    }
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Settings of the KubeVirt IPAM controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtIpamController {
    /// The namespace of the default network's NetworkAttachmentDefinition.
    #[serde(
        rename = "defaultNetworkNADNamespace",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub default_network_nad_namespace: Option<String>,
}

/// Node network configuration has no settings here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NmState {}

/// Rotation of self-signed certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfSignConfiguration {
    /// How long a certificate authority is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_rotate_interval: Option<String>,

    /// How long an old and a new certificate authority are both trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_overlap_interval: Option<String>,

    /// How long a certificate is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_rotate_interval: Option<String>,

    /// How long before its end a certificate is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_overlap_interval: Option<String>,
}
