//! kube-proxy's configuration file: `KubeProxyConfiguration`, version v1alpha1, as far as arguments
//! lead to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_operands::duration::GoDuration;
use weft_plan::Problem;

use super::arguments::Arguments;

/// The file. Omitted fields have kube-proxy's default.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KubeProxyConfiguration {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bind_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    healthz_bind_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics_bind_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_profiling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    show_hidden_metrics_for_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feature_gates: Option<BTreeMap<String, bool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(rename = "clusterCIDR", skip_serializing_if = "Option::is_none")]
    cluster_cidr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detect_local_mode: Option<String>,
    #[serde(skip_serializing_if = "is_empty")]
    detect_local: DetectLocal,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_port_addresses: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_sync_period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port_range: Option<String>,
    #[serde(skip_serializing_if = "is_empty")]
    iptables: IpTables,
    #[serde(skip_serializing_if = "is_empty")]
    nftables: NfTables,
    #[serde(skip_serializing_if = "is_empty")]
    ipvs: Ipvs,
    #[serde(skip_serializing_if = "is_empty")]
    conntrack: Conntrack,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DetectLocal {
    #[serde(skip_serializing_if = "Option::is_none")]
    bridge_interface: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface_name_prefix: Option<String>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IpTables {
    #[serde(skip_serializing_if = "Option::is_none")]
    masquerade_bit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    masquerade_all: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    localhost_node_ports: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_sync_period: Option<String>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NfTables {
    #[serde(skip_serializing_if = "Option::is_none")]
    masquerade_bit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    masquerade_all: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_sync_period: Option<String>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ipvs {
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_sync_period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
    #[serde(rename = "excludeCIDRs", skip_serializing_if = "Option::is_none")]
    exclude_cidrs: Option<Vec<String>>,
    #[serde(rename = "strictARP", skip_serializing_if = "Option::is_none")]
    strict_arp: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_fin_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_timeout: Option<String>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Conntrack {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_per_core: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_established_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_close_wait_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_be_liberal: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_stream_timeout: Option<String>,
}

fn is_empty<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

const MODES: [&str; 3] = ["iptables", "ipvs", "nftables"];
const LOCAL_MODES: [&str; 4] = [
    "ClusterCIDR",
    "NodeCIDR",
    "BridgeInterface",
    "InterfaceNamePrefix",
];

/// A bit of a packet's mark.
const BIT: std::ops::RangeInclusive<i32> = 0..=31;
const COUNT: std::ops::RangeInclusive<i32> = 0..=i32::MAX;

impl KubeProxyConfiguration {
    /// The file of these arguments.
    ///
    /// # Errors
    /// All arguments that are wrong, or mean nothing here.
    pub(crate) fn of(mut arguments: Arguments) -> Result<Self, Vec<Problem>> {
        let from = &mut arguments;
        let masquerade_bit = from.number("iptables-masquerade-bit", BIT);
        let masquerade_all = from.flag("masquerade-all");
        // As on kube-proxy's command line, they count for nftables too.
        let sync_period = from.duration("iptables-sync-period", false);
        let min_sync_period = from.duration("iptables-min-sync-period", true);
        let profiling = from.flag("profiling");
        let file = Self {
            api_version: "kubeproxy.config.k8s.io/v1alpha1".to_owned(),
            kind: "KubeProxyConfiguration".to_owned(),
            bind_address: from.address("bind-address"),
            healthz_bind_address: from.address_and_port(
                "healthz-bind-address",
                "healthz-port",
                10256,
            ),
            metrics_bind_address: from.address_and_port(
                "metrics-bind-address",
                "metrics-port",
                10249,
            ),
            enable_profiling: from.flag("enable-profiling").or(profiling),
            show_hidden_metrics_for_version: from.text("show-hidden-metrics-for-version"),
            feature_gates: from.gates("feature-gates"),
            mode: from.choice("proxy-mode", &MODES),
            cluster_cidr: from.pair_of_blocks("cluster-cidr"),
            detect_local_mode: from.choice("detect-local-mode", &LOCAL_MODES),
            detect_local: DetectLocal {
                bridge_interface: from.text("pod-bridge-interface"),
                interface_name_prefix: from.text("pod-interface-name-prefix"),
            },
            node_port_addresses: from.blocks("nodeport-addresses", Some("primary")),
            config_sync_period: from.duration("config-sync-period", false),
            port_range: from.port_range("proxy-port-range"),
            nftables: NfTables {
                masquerade_bit: from
                    .number("nftables-masquerade-bit", BIT)
                    .or(masquerade_bit),
                masquerade_all,
                sync_period: from
                    .duration("nftables-sync-period", false)
                    .or_else(|| sync_period.clone()),
                min_sync_period: from
                    .duration("nftables-min-sync-period", true)
                    .or_else(|| min_sync_period.clone()),
            },
            iptables: IpTables {
                masquerade_bit,
                masquerade_all,
                localhost_node_ports: from.flag("iptables-localhost-nodeports"),
                sync_period,
                min_sync_period,
            },
            ipvs: Ipvs {
                sync_period: from.duration("ipvs-sync-period", false),
                min_sync_period: from.duration("ipvs-min-sync-period", true),
                scheduler: from.text("ipvs-scheduler"),
                exclude_cidrs: from.blocks("ipvs-exclude-cidrs", None),
                strict_arp: from.flag("ipvs-strict-arp"),
                tcp_timeout: from.duration("ipvs-tcp-timeout", true),
                tcp_fin_timeout: from.duration("ipvs-tcpfin-timeout", true),
                udp_timeout: from.duration("ipvs-udp-timeout", true),
            },
            conntrack: Conntrack {
                max_per_core: from.number("conntrack-max-per-core", COUNT),
                min: from.number("conntrack-min", COUNT),
                tcp_established_timeout: from.duration("conntrack-tcp-timeout-established", true),
                tcp_close_wait_timeout: from.duration("conntrack-tcp-timeout-close-wait", true),
                tcp_be_liberal: from.flag("conntrack-tcp-be-liberal"),
                udp_timeout: from.duration("conntrack-udp-timeout", true),
                udp_stream_timeout: from.duration("conntrack-udp-timeout-stream", true),
            },
        };
        file.check(from);
        arguments.finish().map(|()| file)
    }

    /// Checks the combinations that kube-proxy refuses at its start and that no single field shows.
    fn check(&self, arguments: &mut Arguments) {
        let mode = self.detect_local_mode.as_deref();
        let rule = |argument: &str| format!("set {argument} too");
        if mode == Some("BridgeInterface") && self.detect_local.bridge_interface.is_none() {
            arguments.refuse(
                "detect-local-mode",
                "BridgeInterface",
                &rule("pod-bridge-interface"),
            );
        }
        if mode == Some("InterfaceNamePrefix") && self.detect_local.interface_name_prefix.is_none()
        {
            arguments.refuse(
                "detect-local-mode",
                "InterfaceNamePrefix",
                &rule("pod-interface-name-prefix"),
            );
        }
        let length = |text: &Option<String>| {
            text.as_deref()
                .and_then(|text| text.parse::<GoDuration>().ok())
                .map(|length| length.nanoseconds())
        };
        for (name, least, period) in [
            (
                "iptables-min-sync-period",
                &self.iptables.min_sync_period,
                &self.iptables.sync_period,
            ),
            (
                "ipvs-min-sync-period",
                &self.ipvs.min_sync_period,
                &self.ipvs.sync_period,
            ),
        ] {
            if let (Some(least), Some(period), Some(text)) = (length(least), length(period), least)
                && least > period
            {
                arguments.refuse(name, text, "it must not be longer than the sync period");
            }
        }
    }
}
