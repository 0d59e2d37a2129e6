//! The specification: addresses, the default network, additional networks, the service proxy.
//!
//! The schema sets no defaults: what is left out keeps the value that it had when it was last applied (the MTU above all).
//!
//! Doc comments of fields become the text of `kubectl explain`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the pods and services of the cluster are connected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfigSpec {
    /// The blocks of addresses that pods get theirs from. At least one; with two address families, at least one of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_networks: Option<Vec<ClusterNetwork>>,

    /// Another spelling of clusterNetworks. Use clusterNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_network: Option<Vec<ClusterNetwork>>,

    /// The block of addresses that services get theirs from, for example 172.30.0.0/16. With two address families a list of two, the
    /// one of the primary family first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "service_network")]
    pub service_network: Option<ServiceNetwork>,

    /// The network that every pod is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_network: Option<DefaultNetwork>,

    /// Networks that pods may be attached to besides, through Multus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_networks: Option<Vec<AdditionalNetwork>>,

    /// Whether kube-proxy is deployed. Left out: if the default network does not bring a service proxy of its own, and nobody else's
    /// kube-proxy is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_kube_proxy: Option<bool>,

    /// Settings of kube-proxy, or of the service proxy that is part of the default network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy_config: Option<ProxyConfig>,
}

/// A block of addresses for pods, and how it is divided among the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// The block, for example 10.128.0.0/14.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,

    /// How many bits of an address are the node's own: with 9 each node gets a /23 of IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_subnet_length: Option<i64>,

    /// The same said the other way round: the length of the prefix that each node gets, for example 23. Use one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// A text or a list of texts: a structural schema has no word for that.
fn service_network(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// The default network: its type, and the settings of that type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultNetwork {
    /// OpenShiftSDN, Flannel, or None for a network that somebody else brings.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// Settings of OpenShiftSDN.
    #[serde(rename = "openshiftSDNConfig", default, skip_serializing_if = "Option::is_none")]
    pub openshift_sdn_config: Option<OpenShiftSdnConfig>,

    /// Settings of Flannel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flannel_config: Option<FlannelConfig>,

    /// Settings of a network of another type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_config: Option<BTreeMap<String, String>>,
}

/// Settings of OpenShiftSDN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenShiftSdnConfig {
    /// How pods are kept apart: Subnet, Multitenant or NetworkPolicy. Left out, it is NetworkPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,

    /// The UDP port of VXLAN packets between nodes. Left out, it is 4789.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vxlan_port: Option<i64>,

    /// The MTU of the pods' interfaces in bytes. Left out: the smallest of the nodes, less 50 for the VXLAN header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,

    /// Whether Open vSwitch is brought to the nodes by somebody else. Left out, it is false: it runs in pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_external_openvswitch: Option<bool>,
}

/// Settings of Flannel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlannelConfig {
    /// How packets travel between nodes: vxlan, host-gw or wireguard. Left out, it is vxlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,

    /// The UDP port of the back end: 8472 for vxlan, 51820 for wireguard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,

    /// The VXLAN network identifier. Left out, it is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<i64>,

    /// The MTU of the pods' interfaces in bytes. Left out: the smallest of the nodes, less what the back end needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,

    /// Whether flannel writes its rules with nftables instead of iptables. Left out, it is false.
    #[serde(rename = "enableNFTables", default, skip_serializing_if = "Option::is_none")]
    pub enable_nf_tables: Option<bool>,

    /// Which CNI plugin connects pods: bridge, configured by Weft, or flannel, whose plugin must be on the nodes. Left out, it is bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni_plugin: Option<String>,
}

/// A network that pods may be attached to besides the default one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalNetwork {
    /// Raw or SimpleMacvlan.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// The name of its NetworkAttachmentDefinition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// The namespace of its NetworkAttachmentDefinition. Left out, it is default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// The CNI configuration of a Raw network: a JSON object.
    #[serde(rename = "rawCNIConfig", default, skip_serializing_if = "Option::is_none")]
    pub raw_cni_config: Option<String>,

    /// Settings of a SimpleMacvlan network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    pub simple_macvlan_config: Option<serde_json::Value>,
}

/// Settings of the service proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// How often rules are written anew even if nothing changed: a duration as Go writes it. Left out, it is 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iptables_sync_period: Option<String>,

    /// The address that the proxy listens on. Left out: all of the node's, 0.0.0.0 or :: by the family of the first cluster network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_address: Option<String>,

    /// Further arguments of kube-proxy by name, without the dashes. Of several values the last counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_arguments: Option<BTreeMap<String, Vec<String>>>,
}
