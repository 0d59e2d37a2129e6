//! `NMState`: brings the agent to the nodes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Affinity, Toleration},
    apimachinery::pkg::util::intstr::IntOrString,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::GROUP;
use super::{rules, schemas};
use crate::{Condition, resource::custom_resource, scheduling};

/// The version that is stored.
pub const VERSION: &str = super::VERSION_V1;
/// The kind.
pub const KIND: &str = "NMState";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "nmstates";

custom_resource! {
    /// The installation of the agent. Cluster-scoped. Of several objects the oldest counts.
    NMState, NMStateSpec, NMStateStatus, self
}

/// Where the agent runs, and what holds for all policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NMStateSpec {
    /// Affinity of the agent to nodes and to other pods, as in a pod's spec.affinity.
    /// `kubectl explain pod.spec.affinity` has the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::affinity")]
    pub affinity: Option<Affinity>,

    /// Labels of the nodes on which the agent runs, as in a pod's spec.nodeSelector. Left out:
    /// kubernetes.io/os is linux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::labels")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Taints of nodes that the agent tolerates, as in a pod's spec.tolerations. Left out: all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::tolerations")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Kept, without effect: it placed pods that kubernetes-nmstate has next to its agent (webhook,
    /// metrics, certificates), which are not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::affinity")]
    pub infra_affinity: Option<Affinity>,

    /// Kept, without effect, as infraAffinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::labels")]
    pub infra_node_selector: Option<BTreeMap<String, String>>,

    /// Kept, without effect, as infraAffinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::tolerations")]
    pub infra_tolerations: Option<Vec<Toleration>>,

    /// Kept, without effect: there is no webhook whose certificate had to be renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_sign_configuration: Option<SelfSignConfiguration>,

    /// Peers that must be reachable from a node after every change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_configuration: Option<ProbeConfiguration>,

    /// Where metrics are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_configuration: Option<MetricsConfiguration>,

    /// How much the agent logs: info or debug. Left out: info.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["info", "debug"]))]
    pub log_level: Option<String>,

    /// How many nodes may be changed at the same time by all policies together: a number, or a
    /// share of the nodes that run an agent, rounded up. At least one may always be. Left out: 50%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::max_unavailable")]
    pub max_unavailable: Option<IntOrString>,

    /// Which interfaces of the nodes are reported. Left out: all but those of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_filter: Option<InterfaceFilter>,

    /// The agent's choice on a node without NetworkManager. ReportOnly: the agent reports the
    /// network and changes nothing. ConfigureKernel: policies set MTU, link state, Linux bridges,
    /// VLANs, static addresses and routes through the kernel, and everything else is refused. A
    /// reboot loses all of it until the agent runs again and reaches the API server, so nothing
    /// that the node needs for that may come from such a policy. Left out: ReportOnly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("enum" = ["ReportOnly", "ConfigureKernel"]))]
    pub without_network_manager: Option<WithoutNetworkManager>,
}

/// The agent's choice on a node without NetworkManager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WithoutNetworkManager {
    /// Report the network, and change nothing.
    #[default]
    ReportOnly,
    /// Change a part of it through the kernel. A reboot loses the changes.
    ConfigureKernel,
}

/// Which interfaces are reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceFilter {
    /// Names of interfaces that are reported: * stands for any characters, ? for one, [1-4] for one
    /// of these. Left out or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::globs")]
    pub include: Option<Vec<String>>,

    /// Names of interfaces that are not reported, nor the routes through them, in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::globs")]
    pub exclude: Option<Vec<String>>,
}

/// Peers that must be reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeConfiguration {
    /// About name resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsProbeConfiguration>,
}

/// About name resolution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsProbeConfiguration {
    /// The name that the node's name servers must resolve. Left out: root-servers.net, of which the
    /// name servers are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::optional_dns_name()))]
    pub host: Option<String>,
}

/// Where metrics are served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsConfiguration {
    /// Address and port, for example :8089, or 0 for no metrics. Kept, without effect: the
    /// operator's own flag decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::bind_address()))]
    pub bind_address: Option<String>,
}

/// How long the certificates of kubernetes-nmstate's webhook are valid, as durations in the
/// notation of Go, for example 8760h0m0s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfSignConfiguration {
    /// How long the authority's certificate is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::duration()))]
    pub ca_rotate_interval: Option<String>,

    /// How long before its end the authority's certificate is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::duration()))]
    pub ca_overlap_interval: Option<String>,

    /// How long the server's certificate is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::duration()))]
    pub cert_rotate_interval: Option<String>,

    /// How long before its end the server's certificate is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::duration()))]
    pub cert_overlap_interval: Option<String>,
}

/// The observed state of the installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NMStateStatus {
    /// The metadata.generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state as a whole: Available, Progressing and Degraded, and while they hold, Blocked
    /// (another operator holds the nodes) and Paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
