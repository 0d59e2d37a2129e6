//! `Flannel`: flanneld routes between the nodes. On a node, the CNI plugin `bridge` connects pods,
//! configured by Weft from an init container. The controller-manager divides the blocks among the
//! nodes.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weft_api::cluster_network::{DefaultNetwork, FlannelConfig};
use weft_operands::pod::Workload;
use weft_operands::text::some;
use weft_plan::{Facts, FieldChange, ForeignFlannel, Manifest, Node, Notice, Problem, kinds};

use crate::{
    build::DEFAULT_NETWORK,
    config::{Effective, PodNetwork, Valid},
    error::BuildError,
    overlay,
    provider::{Capabilities, Context, Provider},
    providers::fields::{self, Changes, IPV6_MTU, MTU, PORT, problem},
    settings::Image,
};

/// Flannel.
pub struct Flannel;

const FILES: [&str; 4] = [
    include_str!("../../../../components/flannel/namespace.yaml"),
    include_str!("../../../../components/flannel/rbac.yaml"),
    include_str!("../../../../components/flannel/config.yaml"),
    include_str!("../../../../components/flannel/daemonset.yaml"),
];

const VXLAN: &str = "vxlan";
const HOST_GW: &str = "host-gw";
const WIREGUARD: &str = "wireguard";
const BACKENDS: [&str; 3] = [VXLAN, HOST_GW, WIREGUARD];

const BRIDGE: &str = "bridge";
const FLANNEL: &str = "flannel";

/// A bridge takes no larger one (`ETH_MAX_MTU` of Linux).
const BRIDGE_MTU: i64 = 65535;

const PATH: &str = "spec.defaultNetwork.flannelConfig";

/// Settings of `net-conf.json` that only count where flanneld divides the block by itself (its
/// `CheckNetworkConfig`). In Kubernetes the controller-manager does.
const WITHOUT_EFFECT: [&str; 6] = [
    "IPv6SubnetLen",
    "IPv6SubnetMax",
    "IPv6SubnetMin",
    "SubnetLen",
    "SubnetMax",
    "SubnetMin",
];

/// How much less than the link below a packet of a pod may have, by flanneld's own count.
const VXLAN_OVERHEAD: i64 = 50;
const WIREGUARD_OVERHEAD: i64 = 80;

/// A VXLAN network identifier has 24 bits (RFC 7348).
const VNI: std::ops::RangeInclusive<i64> = 1..=(1 << 24) - 1;

impl Provider for Flannel {
    fn name(&self) -> &'static str {
        "Flannel"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            blocks_per_family: Some(1),
            ipv6: true,
            uses_host_subnet_length: false,
            own_service_proxy: false,
            grows: true,
            // A node's part of the blocks (spec.podCIDRs) cannot change any more.
            adds_family: false,
        }
    }

    fn canonicalise(&self, network: &mut DefaultNetwork) {
        if let Some(config) = &mut network.flannel_config {
            fields::canonicalise(&mut config.backend, BACKENDS);
            fields::canonicalise(&mut config.cni_plugin, [BRIDGE, FLANNEL]);
        }
    }

    fn validate(&self, config: &Valid) -> Vec<Problem> {
        let flannel = config
            .default_network
            .flannel_config
            .clone()
            .unwrap_or_default();
        let FlannelConfig {
            backend,
            port,
            vni,
            mtu,
            direct_routing,
            enable_nf_tables: _,
            cni_plugin,
        } = &flannel;
        let ipv6 = has_ipv6(&config.pod_networks);
        let least_mtu = if ipv6 { IPV6_MTU } else { *MTU.start() };
        let checks = [
            fields::one_of(PATH, "backend", backend.as_ref(), &BACKENDS),
            fields::one_of(PATH, "cniPlugin", cni_plugin.as_ref(), &[BRIDGE, FLANNEL]),
            fields::in_range(PATH, "port", *port, PORT),
            fields::in_range(PATH, "vni", *vni, VNI),
            fields::in_range(PATH, "mtu", *mtu, least_mtu..=BRIDGE_MTU),
        ];
        let mut problems: Vec<_> = checks.into_iter().flatten().collect();
        let backend = self::backend(&flannel);
        if port.is_some() && backend == HOST_GW {
            problems.push(problem(
                PATH,
                "port",
                format!("{HOST_GW} encapsulates nothing and has no port: leave the field out"),
            ));
        }
        if *port == Some(*PORT.end()) && backend == WIREGUARD && ipv6 {
            problems.push(problem(
                PATH,
                "port",
                format!(
                    "{} is taken for IPv4 and the next one for IPv6: choose a smaller one",
                    PORT.end()
                ),
            ));
        }
        if vni.is_some() && backend != VXLAN {
            problems.push(problem(
                PATH,
                "vni",
                format!("{backend} has no VXLAN network identifier: leave the field out"),
            ));
        }
        if *direct_routing == Some(true) && backend != VXLAN {
            problems.push(problem(
                PATH,
                "directRouting",
                format!(
                    "only {VXLAN} knows direct routing, and {backend} does not: leave the field out"
                ),
            ));
        }
        problems
    }

    fn mtu(&self, network: &DefaultNetwork) -> Option<i64> {
        network.flannel_config.as_ref()?.mtu
    }

    fn mtu_mut<'a>(&self, network: &'a mut DefaultNetwork) -> Option<&'a mut i64> {
        network.flannel_config.as_mut()?.mtu.as_mut()
    }

    fn overhead(&self, config: &Valid) -> u16 {
        let flannel = config
            .default_network
            .flannel_config
            .clone()
            .unwrap_or_default();
        match backend(&flannel) {
            // Ethernet 14, IP 20, UDP 8, VXLAN 8. The tunnel over IPv6 needs 20 more.
            VXLAN if has_ipv6(&config.pod_networks) => 70,
            VXLAN => 50,
            // IPv6 40, UDP 8, WireGuard 32: flanneld takes this much for IPv4 too.
            WIREGUARD => 80,
            _ => 0,
        }
    }

    fn carry_over(
        &self,
        network: &mut DefaultNetwork,
        previous: Option<&DefaultNetwork>,
        facts: &Facts,
    ) {
        let previous = previous.and_then(|previous| previous.flannel_config.clone());
        let Some(used) = previous.or_else(|| facts.foreign_flannel.as_ref().map(used_by)) else {
            return;
        };
        let config = network.flannel_config.get_or_insert_default();
        config.backend = config.backend.take().or(used.backend.clone());
        if backend(config) == backend(&used) {
            config.port = config.port.or(used.port);
            config.vni = config.vni.or(used.vni);
            config.mtu = config.mtu.or(used.mtu);
            config.direct_routing = config.direct_routing.or(used.direct_routing);
        }
        if backend(config) != VXLAN {
            config.direct_routing = None;
        }
        config.enable_nf_tables = config.enable_nf_tables.or(used.enable_nf_tables);
        config.cni_plugin = config.cni_plugin.take().or(used.cni_plugin);
    }

    fn losses(&self, asked: &DefaultNetwork, facts: &Facts) -> Vec<Problem> {
        let Some(running) = &facts.foreign_flannel else {
            return Vec::new();
        };
        let of_user = asked.flannel_config.as_ref();
        let of_user = of_user.and_then(|config| config.backend.as_deref());
        let used = used_by(running);
        let lost = |place: &str, value: &str| {
            let value = if value.is_empty() {
                String::new()
            } else {
                format!(": {value}")
            };
            Problem {
                field: PATH.to_owned(),
                message: format!(
                    "the Flannel that runs has {place}{value} in net-conf.json of the ConfigMap kube-flannel/kube-flannel-cfg, and Weft cannot keep it. Remove it there, and restart the pods of kube-flannel/kube-flannel-ds, before Weft adopts it. Nodes with and without it may not reach each other meanwhile"
                ),
            }
        };
        match (of_user, &running.backend, &used.backend) {
            (None, Some(backend), None) => vec![Problem {
                field: format!("{PATH}.backend"),
                message: format!(
                    "is missing, and the Flannel that runs has the back end {backend}, which Weft does not have: write {}. Until all nodes have it, pods of different nodes do not reach each other",
                    BACKENDS.join(" or ")
                ),
            }],
            // A user who gives another back end does not want the settings of this one.
            (Some(wanted), _, used) if Some(wanted) != used.as_deref() => Vec::new(),
            _ => running
                .others
                .iter()
                .filter(|(place, _)| {
                    !WITHOUT_EFFECT
                        .iter()
                        .any(|key| key.eq_ignore_ascii_case(place))
                })
                .map(|(place, value)| lost(place, value))
                .collect(),
        }
    }

    fn fill(&self, network: &mut DefaultNetwork, previous: Option<&DefaultNetwork>, mtu: u16) {
        let previous = previous.and_then(|previous| previous.flannel_config.as_ref());
        let config = network.flannel_config.get_or_insert_default();
        let backend = config
            .backend
            .get_or_insert_with(|| VXLAN.to_owned())
            .clone();
        match &*backend {
            VXLAN => {
                // The port that Linux used before the registration of the official one. flanneld
                // leaves the choice to Linux.
                config.port.get_or_insert(8472);
                config.vni.get_or_insert(1);
                config.direct_routing.get_or_insert(false);
            }
            WIREGUARD => drop(config.port.get_or_insert(51820)),
            _ => {}
        }
        config.mtu = config.mtu.or_else(|| previous?.mtu).or(Some(mtu.into()));
        config.enable_nf_tables.get_or_insert(false);
        config.cni_plugin.get_or_insert_with(|| BRIDGE.to_owned());
    }

    fn unsafe_changes(&self, previous: &DefaultNetwork, next: &DefaultNetwork) -> Vec<FieldChange> {
        let of = |network: &DefaultNetwork| network.flannel_config.clone().unwrap_or_default();
        let (old, new) = (of(previous), of(next));
        let mut changes = Changes::under(PATH);
        let apart =
            "nodes that have it already and those that do not yet would not reach each other";
        changes.compare("backend", &old.backend, &new.backend, apart);
        if old.backend == new.backend {
            changes.compare("port", &old.port, &new.port, apart);
            changes.compare("vni", &old.vni, &new.vni, apart);
        }
        changes.compare(
            "mtu",
            &old.mtu,
            &new.mtu,
            "pods that run keep the old one, and larger packets to them would be lost",
        );
        let why = "pods that run are connected by the other plugin, and it is not known whether this one takes them over";
        changes.compare("cniPlugin", &old.cni_plugin, &new.cni_plugin, why);
        changes.found()
    }

    fn render(
        &self,
        config: &Effective,
        context: &Context<'_>,
    ) -> Result<Vec<Manifest>, BuildError> {
        let flannel = config
            .default_network
            .flannel_config
            .clone()
            .unwrap_or_default();
        let classic = flannel.cni_plugin.as_deref() == Some(FLANNEL);
        let mut objects = overlay::load(&FILES)?;
        overlay::set_file(
            &mut objects,
            "kube-flannel-cfg",
            "net-conf.json",
            json_text(&NetConf::of(&config.pod_networks, &flannel))?,
        )?;
        overlay::find(&mut objects, kinds::DAEMON_SET, "kube-flannel-ds")?.edit_pods(|pod| {
            let containers = pod.init_containers.iter_mut().flatten();
            for arguments in containers
                .filter(|container| container.name == "install-cni")
                .flat_map(|container| &mut container.args)
            {
                arguments.push(format!("--mtu={}", flannel.mtu.unwrap_or_default()));
                if classic {
                    arguments.push("--cni-type=flannel".to_owned());
                }
            }
            if !classic {
                pod.init_containers.iter_mut().for_each(|containers| {
                    containers.retain(|container| container.name != "install-cni-plugin")
                });
            }
            Ok::<_, String>(())
        })?;
        let images = [
            ("install-cni", Image::Weft),
            ("kube-flannel", Image::Flannel),
            ("install-cni-plugin", Image::FlannelCniPlugin),
        ];
        let images = if classic { &images[..] } else { &images[..2] };
        overlay::workload(
            &mut objects,
            "kube-flannel-ds",
            images,
            Some("kube-flannel-cfg"),
            context.settings,
        )?;
        Ok(objects)
    }

    fn node_reporter(&self) -> Option<&'static str> {
        Some("kube-flannel")
    }

    fn preflight(&self, config: &Effective, facts: &Facts) -> Vec<Notice> {
        let notice = |message: String| Notice {
            about: DEFAULT_NETWORK.to_owned(),
            message,
        };
        let mut notices = Vec::new();
        let linux = || {
            facts
                .nodes
                .iter()
                .filter(|(_, node)| node.operating_system != "windows")
        };
        let without: Vec<_> = linux()
            .filter(|(_, node)| node.pod_cidrs.is_empty())
            .map(|(name, _)| &**name)
            .collect();
        if !without.is_empty() {
            notices.push(notice(format!(
                "no pod CIDR for node {}: the kube-controller-manager has to give each node one, by --allocate-node-cidrs=true and --cluster-cidr={}",
                some(&without),
                joined(&config.pod_networks)
            )));
        }
        let blocks = |of: &IpNet| {
            let is_v4 = of.addr().is_ipv4();
            let blocks = config.pod_networks.iter().map(|network| network.cidr);
            blocks.filter(move |block| block.addr().is_ipv4() == is_v4)
        };
        let is_astray = |node: &Node| {
            let cidrs: Vec<Option<IpNet>> = node
                .pod_cidrs
                .iter()
                .map(|cidr| cidr.parse().ok())
                .collect();
            // With one family configured, a dual-stack node keeps the other range for others.
            let mut ours = cidrs
                .iter()
                .filter(|cidr| cidr.is_none_or(|cidr| blocks(&cidr).next().is_some()))
                .peekable();
            let is_without = !cidrs.is_empty() && ours.peek().is_none();
            let is_within = |cidr: &Option<IpNet>| {
                cidr.is_some_and(|cidr| blocks(&cidr).any(|block| block.contains(&cidr)))
            };
            is_without || !ours.all(is_within)
        };
        let astray: Vec<_> = linux()
            .filter(|(_, node)| is_astray(node))
            .map(|(name, _)| &**name)
            .collect();
        if !astray.is_empty() {
            notices.push(notice(format!(
                "the pod CIDR of node {} is outside of spec.clusterNetworks ({}), so its pods are cut off: --cluster-cidr of the kube-controller-manager has to say the same",
                some(&astray),
                joined(&config.pod_networks)
            )));
        }
        let told = |tells: fn(&weft_plan::CniReport) -> bool| -> Vec<&str> {
            facts
                .cni_reports
                .iter()
                .filter(|(_, network)| tells(network))
                .map(|(name, _)| &**name)
                .collect()
        };
        let lacking = told(|network| !network.missing_plugins.is_empty());
        if !lacking.is_empty() {
            let plugins: BTreeSet<_> = facts
                .cni_reports
                .values()
                .flat_map(|network| &network.missing_plugins)
                .map(|name| &**name)
                .collect();
            notices.push(notice(format!(
                "node {} lacks CNI plugins that pods are connected by ({}): install those of containernetworking in /opt/cni/bin",
                some(&lacking),
                plugins.into_iter().collect::<Vec<_>>().join(", ")
            )));
        }
        let shadowed = told(|network| !network.shadowed_by.is_empty());
        if !shadowed.is_empty() {
            let files: BTreeSet<_> = facts
                .cni_reports
                .values()
                .flat_map(|network| &network.shadowed_by)
                .map(|name| &**name)
                .collect();
            notices.push(notice(format!(
                "on node {} another CNI configuration comes first in /etc/cni/net.d ({}): remove it, or pods there get its network",
                some(&shadowed),
                files.into_iter().collect::<Vec<_>>().join(", ")
            )));
        }
        notices
    }
}

/// The configuration of a Flannel of another owner, as far as Weft has a field for it.
fn used_by(running: &ForeignFlannel) -> FlannelConfig {
    let mut config = FlannelConfig {
        backend: running.backend.clone(),
        // A zero, for example, leaves the choice to Linux or flanneld.
        port: running.port.filter(|port| PORT.contains(port)),
        vni: running.vni.filter(|vni| VNI.contains(vni)),
        direct_routing: running.direct_routing,
        enable_nf_tables: running.enable_nf_tables,
        cni_plugin: running.cni_plugin.clone(),
        ..FlannelConfig::default()
    };
    fields::canonicalise(&mut config.backend, BACKENDS);
    config.backend = config
        .backend
        .filter(|backend| BACKENDS.contains(&&**backend));
    let overhead = match backend(&config) {
        VXLAN => Some(VXLAN_OVERHEAD),
        WIREGUARD => Some(WIREGUARD_OVERHEAD),
        _ => None,
    };
    let of_pods = |overhead| running.mtu?.checked_sub(overhead);
    config.mtu = overhead
        .and_then(of_pods)
        .filter(|mtu| (*MTU.start()..=BRIDGE_MTU).contains(mtu));
    config.cni_plugin = config
        .cni_plugin
        .filter(|plugin| [BRIDGE, FLANNEL].contains(&&**plugin));
    config
}

/// The back end that is asked for, or the one by default.
fn backend(config: &FlannelConfig) -> &str {
    config.backend.as_deref().unwrap_or(VXLAN)
}

fn has_ipv6(blocks: &[PodNetwork]) -> bool {
    blocks
        .iter()
        .any(|block| matches!(block.cidr, IpNet::V6(_)))
}

fn joined(blocks: &[PodNetwork]) -> String {
    blocks
        .iter()
        .map(|block| block.cidr.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

fn json_text(file: &impl Serialize) -> Result<String, BuildError> {
    Ok(format!("{}\n", serde_json::to_string_pretty(file)?))
}

/// flanneld's configuration file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetConf {
    #[serde(rename = "EnableIPv4")]
    enable_ipv4: bool,
    #[serde(rename = "EnableIPv6")]
    enable_ipv6: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    #[serde(
        rename = "IPv6Network",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    ipv6_network: Option<String>,
    #[serde(rename = "EnableNFTables")]
    enable_nf_tables: bool,
    backend: Backend,
}

/// How packets travel. `mtu` is that of the link below: flanneld subtracts what the back end adds.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "Type")]
enum Backend {
    #[serde(rename = "vxlan")]
    Vxlan {
        #[serde(rename = "VNI")]
        vni: i64,
        #[serde(rename = "Port")]
        port: i64,
        #[serde(
            rename = "DirectRouting",
            default,
            skip_serializing_if = "std::ops::Not::not"
        )]
        direct_routing: bool,
        #[serde(rename = "MTU")]
        mtu: i64,
    },
    #[serde(rename = "host-gw")]
    HostGw,
    #[serde(rename = "wireguard")]
    Wireguard {
        #[serde(rename = "ListenPort")]
        port: i64,
        #[serde(rename = "ListenPortV6")]
        port_v6: i64,
        #[serde(rename = "MTU")]
        mtu: i64,
    },
}

impl NetConf {
    fn of(blocks: &[PodNetwork], config: &FlannelConfig) -> Self {
        let first = |v6: bool| {
            blocks
                .iter()
                .find(|block| matches!(block.cidr, IpNet::V6(_)) == v6)
                .map(|block| block.cidr.to_string())
        };
        let (network, ipv6_network) = (first(false), first(true));
        let (mtu, port) = (
            config.mtu.unwrap_or_default(),
            config.port.unwrap_or_default(),
        );
        let backend = match backend(config) {
            // flanneld subtracts this much for IPv6 too.
            VXLAN => Backend::Vxlan {
                vni: config.vni.unwrap_or_default(),
                port,
                direct_routing: config.direct_routing.unwrap_or_default(),
                mtu: mtu + VXLAN_OVERHEAD,
            },
            WIREGUARD => Backend::Wireguard {
                port,
                port_v6: port + 1,
                mtu: mtu + WIREGUARD_OVERHEAD,
            },
            _ => Backend::HostGw,
        };
        Self {
            enable_ipv4: network.is_some(),
            enable_ipv6: ipv6_network.is_some(),
            network,
            ipv6_network,
            enable_nf_tables: config.enable_nf_tables.unwrap_or_default(),
            backend,
        }
    }
}

#[cfg(test)]
#[path = "flannel_tests.rs"]
mod tests;
