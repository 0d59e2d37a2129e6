//! `NodeNetworkConfigurationPolicy`: what the networks of some nodes should be.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{LabelSelector, Time},
    util::intstr::IntOrString,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::GROUP;
use super::{patterns, rules, schemas};
use crate::{Condition, resource::custom_resource, scheduling};

/// The version that is stored.
pub const VERSION: &str = super::VERSION_V1;
/// The kind.
pub const KIND: &str = "NodeNetworkConfigurationPolicy";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "nodenetworkconfigurationpolicies";

custom_resource! {
    /// The wanted networks of some nodes. Cluster-scoped.
    NodeNetworkConfigurationPolicy, NodeNetworkConfigurationPolicySpec, NodeNetworkConfigurationPolicyStatus, self
}

/// Which nodes, what they should have, and how they get it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::policy()))]
pub struct NodeNetworkConfigurationPolicySpec {
    /// Labels that a node must have. Left out or empty: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::labels")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// The same with expressions, as a Deployment selects its pods. With nodeSelector too, a node
    /// must match both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::label_selector")]
    pub node_label_selector: Option<LabelSelector>,

    /// Parts of the node's current state by name, as expressions of nmstate's policy language. The
    /// desired state refers to them. They are evaluated with each try until the policy has
    /// succeeded on the node. Their results then stay until the policy changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<BTreeMap<String, String>>,

    /// The wanted network of each node, in the form of nmstate. Omitted parts stay as they are. Texts
    /// may refer to captures and to the node: {{ capture.NAME.PATH }}, {{ node.name }},
    /// {{ node.labels["KEY"] }}, {{ node.annotations["KEY"] }}, {{ pool.NAME.ip }} and
    /// {{ pool.NAME.prefix-length }}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::open")]
    pub desired_state: Option<Value>,

    /// Ranges of addresses by name. Each node that matches gets one address of each pool that the
    /// desired state refers to, and keeps it. No two nodes get the same address, whatever policies
    /// the pools belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16, "x-kubernetes-validations" = rules::address_pools()))]
    pub address_pools: Option<BTreeMap<String, AddressPool>>,

    /// How many nodes may be changed at the same time: a number, or a share of the nodes that match
    /// and run an agent, rounded up. At least one may always be. Left out, or neither of the two:
    /// 50%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::max_unavailable")]
    pub max_unavailable: Option<IntOrString>,

    /// Which policy counts where two of them set the same property of a node: that of the greater
    /// number. With equal numbers they must agree. Nodes are granted to the greater number first,
    /// too. Left out: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub priority: Option<i64>,

    /// Interfaces of the node that the desired state is for. Its interfaces have no name then: each
    /// stands for all that match.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub match_: Option<Match>,

    /// Configuration that follows from what is plugged in where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_config: Option<AutoConfig>,

    /// Peers that must be reachable from the node after the change, besides the default ones
    /// (default gateway, name servers, API server). A peer that is out of reach before the change
    /// does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub probes: Option<Vec<Probe>>,

    /// The treatment of nodes when you delete the policy or it no longer matches them: retain keeps
    /// the configuration, revert puts back the state before the policy. Left out: retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["retain", "revert"]))]
    pub on_delete: Option<String>,

    /// The treatment of a node that differs from the policy: correct repairs the node, report only
    /// sets the condition Drifted. Left out: correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["correct", "report"]))]
    pub drift: Option<String>,
}

/// A range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::address_pool()))]
pub struct AddressPool {
    /// The addresses: a CIDR, for example 192.0.2.0/24, of which nodes get the addresses of hosts,
    /// or the first and the last address, for example 192.0.2.10-192.0.2.99. IPv4 or IPv6.
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = rules::address_range()))]
    pub range: String,

    /// Addresses of the range that no node gets: addresses, first and last ones, or CIDRs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::excluded")]
    pub exclude: Option<Vec<String>>,

    /// The length of the prefix that nodes configure the address with. Left out: that of the CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub prefix_length: Option<i64>,
}

/// Interfaces of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Common properties of the interfaces: an interface must have all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<InterfaceMatch>,
}

/// Common properties of interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::interface_match()))]
pub struct InterfaceMatch {
    /// Their name: * stands for any characters, ? for one, [1-4] for one of these and [!1-4] for
    /// one of the others, for example eth*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), extend("x-kubernetes-validations" = rules::glob()))]
    pub name: Option<String>,

    /// Their type, as the node's state has it, for example ethernet.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::interface_type()))]
    pub type_: Option<String>,

    /// The announcements of their neighbors by LLDP (IEEE 802.1AB). An interface matches as long as
    /// one of its neighbors has all of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lldp: Option<LldpMatch>,
}

/// The announcements of a neighbor by LLDP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::lldp_match()))]
pub struct LldpMatch {
    /// VLAN identifiers, of which the neighbor announces at least one (the TLV VLAN Name of
    /// 802.1Q).
    #[serde(rename = "vlan-ids", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(range(min = 1, max = 4094)), extend("x-kubernetes-list-type" = "atomic"))]
    pub vlan_ids: Option<Vec<i64>>,

    /// MAC addresses, of which the neighbor has one as the identifier of its chassis or port, for
    /// example 00:00:5e:00:53:01.
    #[serde(
        rename = "mac-addresses",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64), inner(length(max = 17), regex(pattern = patterns::MAC_ADDRESS)), extend("x-kubernetes-list-type" = "atomic"))]
    pub mac_addresses: Option<Vec<String>>,
}

/// Configuration that follows from what is plugged in where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::auto_config()))]
pub struct AutoConfig {
    /// True: the agent bonds the cards whose neighbors announce one of
    /// match.interfaces.lldp.vlan-ids. For VLAN 101 it makes the bond bond101 and on top of it the
    /// VLAN interface bond101.101, which takes the addressing of desiredState. The mode is
    /// active-backup, and 802.3ad if all neighbors announce aggregation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_bonding: Option<bool>,

    /// VLAN interfaces for all VLANs that are announced. Part of the API's first design. It is
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_vlan: Option<bool>,
}

/// One thing that must be reachable from the node: exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::probe()))]
pub struct Probe {
    /// A host that answers an ICMP echo request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp: Option<IcmpProbe>,

    /// A TCP port that accepts connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpProbe>,

    /// A web address that answers with a status below 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpProbe>,

    /// A name that can be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsProbe>,
}

/// A host that answers an ICMP echo request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IcmpProbe {
    /// Its address or name.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::host()))]
    pub host: String,
}

/// A TCP port that accepts connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpProbe {
    /// The address or name of its host.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::host()))]
    pub host: String,

    /// Its number.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i64,
}

/// A web address that answers with a status below 400.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpProbe {
    /// The address, http:// or https://. The certificate of an https server is not checked: what
    /// counts is whether it is reachable.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules::url()))]
    pub url: String,
}

/// A name that can be resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsProbe {
    /// The name.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::dns_name()))]
    pub name: String,

    /// The address of the name server that is asked. Left out: those of the node, one after the
    /// other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::server()))]
    pub server: Option<String>,
}

/// The observed state of the policy, over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationPolicyStatus {
    /// The metadata.generation that this status was computed from. Smaller than the object's own:
    /// the status does not know of the latest change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state as a whole: Available (all nodes that match have it), Progressing, Degraded (it
    /// failed on at least one), Ignored (no node matches).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The addresses of spec.addressPools that nodes have, by node and pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node", "pool"]))]
    pub addresses: Vec<NodeAddress>,

    /// How many nodes are being changed, by the generation of the policy that they get. Counted
    /// from the enactments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_node_count_map: Option<BTreeMap<String, i64>>,

    /// Never set. Kept for objects that kubernetes-nmstate wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_node_count: Option<i64>,

    /// Never set. Kept for objects that kubernetes-nmstate wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unavailable_node_count_update: Option<Time>,
}

/// The address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAddress {
    /// The name of the node.
    pub node: String,

    /// The name of the pool.
    pub pool: String,

    /// The address.
    pub ip: String,

    /// The length of its prefix.
    pub prefix_length: i64,
}
