//! The specification: addresses, the default network, the service proxy.
//!
//! The schema sets no defaults, for a reason: what is left out keeps the value that it had when it
//! was last applied (the MTU above all). A default in the schema would look like the user's own
//! choice and overwrite it.
//!
//! Doc comments of fields become the text of `kubectl explain`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AdditionalNetwork, rules};

/// The longest block of addresses, `xxxx:xxxx:xxxx:xxxx:xxxx:xxxx:xxxx:xxxx/128`.
const BLOCK: u32 = 43;

/// How the pods and services of the cluster are connected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct NetworkConfigSpec {
    /// The blocks of addresses that pods get theirs from: at least one, with two address families
    /// at least one of each. They must not overlap each other, the blocks of services, or the
    /// addresses of nodes. Only with type None it may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules::blocks()))]
    pub cluster_networks: Option<Vec<ClusterNetwork>>,

    /// Another spelling of clusterNetworks, from a later version of this API. Use clusterNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules::blocks()))]
    pub cluster_network: Option<Vec<ClusterNetwork>>,

    /// The block of addresses that services get theirs from, for example 172.30.0.0/16. With two
    /// address families a list of two, the one of the primary family first. It must be what the API
    /// server was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "service_network")]
    pub service_network: Option<ServiceNetwork>,

    /// The network that every pod is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub default_network: Option<DefaultNetwork>,

    /// Networks that pods may be attached to besides, through Multus, which must be there:
    /// NetworkConfig does not deploy it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_networks: Option<Vec<AdditionalNetwork>>,

    /// Deploys kube-proxy. Left out: if the default network does not bring a service proxy of its
    /// own, and nobody else's kube-proxy is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_kube_proxy: Option<bool>,

    /// Settings of kube-proxy, or of the service proxy that is part of the default network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy_config: Option<ProxyConfig>,
}

/// A block of addresses for pods, and how it is divided among the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::block()))]
pub struct ClusterNetwork {
    /// The block, for example 10.128.0.0/14.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = BLOCK), extend("x-kubernetes-validations" = rules::cidr()))]
    pub cidr: Option<String>,

    /// How many bits of an address are the node's own: with 9 each node gets a /23 of IPv4. At
    /// least 2. OpenShiftSDN needs it. With Flannel the controller-manager divides the block, by
    /// its own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub host_subnet_length: Option<i64>,

    /// The same said in reverse, from a later version of this API: the length of the
    /// prefix that each node gets, for example 23. Use one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub host_prefix: Option<i64>,
}

/// One block of addresses, or one of each family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ServiceNetwork {
    /// As the API had it at first.
    One(String),
    /// As the API had it later.
    Many(Vec<String>),
}

impl ServiceNetwork {
    /// The blocks as they are written.
    pub fn blocks(&self) -> &[String] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }
}

/// A text or a list of texts: a structural schema has no word for that, so its rules stand in an
/// admission policy.
fn service_network(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// The default network: its type, and the settings of that type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultNetwork {
    /// OpenShiftSDN, Flannel, or None for a network that another user brings.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = 32), extend("x-kubernetes-validations" = rules::network_type()))]
    pub type_: Option<String>,

    /// Settings of OpenShiftSDN.
    #[serde(
        rename = "openshiftSDNConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub openshift_sdn_config: Option<OpenShiftSdnConfig>,

    /// Settings of Flannel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flannel_config: Option<FlannelConfig>,

    /// Settings of a network of another type. None of the types above reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_config: Option<BTreeMap<String, String>>,
}

/// Settings of OpenShiftSDN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenShiftSdnConfig {
    /// How pods are kept apart: Subnet (not at all), Multitenant (by namespace) or NetworkPolicy.
    /// Left out, it is NetworkPolicy. It cannot change while pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::mode()))]
    pub mode: Option<String>,

    /// The UDP port of VXLAN packets between nodes. Left out, it is 4789. It cannot change while
    /// pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub vxlan_port: Option<i64>,

    /// The MTU of the pods' interfaces in bytes. Left out, it is what was applied before. At first
    /// the smallest of the nodes that are known, less 50 for the VXLAN header. It cannot change
    /// while pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65536))]
    pub mtu: Option<i64>,

    /// Uses an Open vSwitch that the administrator runs on the nodes. Left out, it is false: it
    /// runs in pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_external_openvswitch: Option<bool>,
}

/// Settings of Flannel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::flannel()))]
pub struct FlannelConfig {
    /// How packets travel between nodes: vxlan, host-gw (all nodes must be in one network segment)
    /// or wireguard. Left out, it is vxlan. It cannot change while pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::backend()))]
    pub backend: Option<String>,

    /// The UDP port of the back end. Left out, it is 8472 for vxlan and 51820 for wireguard. It
    /// cannot change while pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i64>,

    /// The VXLAN network identifier. Left out, it is 1. It cannot change while pods use the
    /// network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<i64>,

    /// The MTU of the pods' interfaces in bytes, 1280 or more with IPv6. Left out, it is what was
    /// applied before. At first the smallest of the nodes that are known, less what the back end
    /// needs. It cannot change while pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<i64>,

    /// Lets packets to a node in the same network segment travel without VXLAN. Left out, it is
    /// false. Only for vxlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_routing: Option<bool>,

    /// Makes flannel write its rules with nftables instead of iptables. Left out, it is false.
    #[serde(
        rename = "enableNFTables",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub enable_nf_tables: Option<bool>,

    /// Which CNI plugin connects pods: bridge, configured by Weft, or flannel, whose plugin must be
    /// on the nodes. Left out, it is bridge. It cannot change while pods use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::cni_plugin()))]
    pub cni_plugin: Option<String>,
}

/// Settings of the service proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// How often rules are written anew even if nothing changed: a duration as Go writes it. Left
    /// out, it is 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::duration()))]
    pub iptables_sync_period: Option<String>,

    /// The address that the proxy listens on. Left out: all of the node's, 0.0.0.0 or :: by the
    /// family of the first cluster network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::ip_address()))]
    pub bind_address: Option<String>,

    /// Further arguments of kube-proxy by name, without the dashes. Of several values the last
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "arguments")]
    pub proxy_arguments: Option<BTreeMap<String, Vec<String>>>,
}

fn arguments(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"
        },
    })
}
