//! Networks that pods may be attached to besides the default one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;

/// A network that pods may be attached to besides the default one: a NetworkAttachmentDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::additional_network()))]
pub struct AdditionalNetwork {
    /// Raw or SimpleMacvlan.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = 32), extend("x-kubernetes-validations" = rules::additional_network_type()))]
    pub type_: Option<String>,

    /// The name of its NetworkAttachmentDefinition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub name: Option<String>,

    /// The namespace of its NetworkAttachmentDefinition. Left out, it is default. It must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::namespace()))]
    pub namespace: Option<String>,

    /// The CNI configuration of a Raw network: a JSON object.
    #[serde(
        rename = "rawCNIConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 65_536))]
    pub raw_cni_config: Option<String>,

    /// Settings of a SimpleMacvlan network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simple_macvlan_config: Option<SimpleMacvlanConfig>,
}

/// A macvlan interface in each pod, on an interface of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimpleMacvlanConfig {
    /// The interface of the node. Left out: that of its default route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), extend("x-kubernetes-validations" = rules::interface()))]
    pub master: Option<String>,

    /// Where the pods' addresses come from. Left out: from DHCP.
    #[serde(
        rename = "ipamConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub ipam_config: Option<IpamConfig>,

    /// Bridge, Private, VEPA or Passthru. Left out, it is Bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::macvlan_mode()))]
    pub mode: Option<String>,

    /// The MTU of the pods' interfaces in bytes. Left out or 0: that of the node's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65536), extend("x-kubernetes-validations" = rules::macvlan_mtu()))]
    pub mtu: Option<i64>,
}

/// Where the addresses of pods come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpamConfig {
    /// DHCP or Static. Left out, it is DHCP.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::ipam_type()))]
    pub type_: Option<String>,

    /// Addresses of every pod, with type Static.
    #[serde(
        rename = "staticIPAMConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub static_ipam_config: Option<StaticIpamConfig>,
}

/// Addresses that are written down. Every pod of the network gets the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamConfig {
    /// The addresses. Left out: each pod names its own, by the capability ips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Option<Vec<StaticIpamAddress>>,

    /// Routes next to that of the network itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub routes: Option<Vec<StaticIpamRoute>>,

    /// Name servers of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<StaticIpamDns>,
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamAddress {
    /// Address and length of its prefix, for example 192.0.2.10/24.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = 64), extend("x-kubernetes-validations" = rules::address_with_prefix()))]
    pub address: Option<String>,

    /// The gateway of its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::ip_address()))]
    pub gateway: Option<String>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamRoute {
    /// Where to, for example 198.51.100.0/24.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = 64), extend("x-kubernetes-validations" = rules::address_with_prefix()))]
    pub destination: Option<String>,

    /// Through which router. Left out: the gateway of the first address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::ip_address()))]
    pub gateway: Option<String>,
}

/// Name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamDns {
    /// Their addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub nameservers: Option<Vec<String>>,

    /// The domain of names without a dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub domain: Option<String>,

    /// Domains in which names without a dot are looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub search: Option<Vec<String>>,
}
