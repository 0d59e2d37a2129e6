//! `OpenShiftSDN`: Open vSwitch on every node, VXLAN between them, and a service proxy of its own.
//! For clusters that have it. Its images are no longer made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_api::cluster_network::{DefaultNetwork, OpenShiftSdnConfig, ProxyConfig};
use weft_plan::{FieldChange, Manifest, Problem, kinds};

use crate::{
    config::{Effective, Valid},
    error::BuildError,
    overlay,
    provider::{Capabilities, Context, Provider},
    providers::fields::{self, Changes, MTU, PORT},
    proxy,
    settings::Image,
};

/// OpenShift SDN.
pub struct OpenShiftSdn;

const FILES: [&str; 7] = [
    include_str!("../../../../components/openshift-sdn/namespace.yaml"),
    include_str!("../../../../components/openshift-sdn/crds.yaml"),
    include_str!("../../../../components/openshift-sdn/rbac.yaml"),
    include_str!("../../../../components/openshift-sdn/rbac-controller.yaml"),
    include_str!("../../../../components/openshift-sdn/controller.yaml"),
    include_str!("../../../../components/openshift-sdn/ovs.yaml"),
    include_str!("../../../../components/openshift-sdn/sdn.yaml"),
];

/// Each mode with the name that the programs have for it.
const MODES: [(&str, &str); 3] = [
    ("Subnet", "redhat/openshift-ovs-subnet"),
    ("Multitenant", "redhat/openshift-ovs-multitenant"),
    ("NetworkPolicy", "redhat/openshift-ovs-networkpolicy"),
];

/// The bytes that VXLAN adds to a packet over IPv4: outer Ethernet 14, IP 20, UDP 8, VXLAN 8.
const OVERHEAD: u16 = 50;

const VXLAN_PORT: i64 = 4789;

const PATH: &str = "spec.defaultNetwork.openshiftSDNConfig";

impl Provider for OpenShiftSdn {
    fn name(&self) -> &'static str {
        "OpenShiftSDN"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["OpenshiftSDN"]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            blocks_per_family: None,
            ipv6: false,
            uses_host_subnet_length: true,
            own_service_proxy: true,
            grows: false,
            adds_family: false,
        }
    }

    fn canonicalise(&self, network: &mut DefaultNetwork) {
        if let Some(config) = &mut network.openshift_sdn_config {
            fields::canonicalise(&mut config.mode, MODES.map(|(mode, _)| mode));
        }
    }

    fn validate(&self, config: &Valid) -> Vec<Problem> {
        let OpenShiftSdnConfig {
            mode,
            vxlan_port,
            mtu,
            use_external_openvswitch: _,
        } = config
            .default_network
            .openshift_sdn_config
            .clone()
            .unwrap_or_default();
        [
            fields::one_of(PATH, "mode", mode.as_ref(), &MODES.map(|(mode, _)| mode)),
            fields::in_range(PATH, "vxlanPort", vxlan_port, PORT),
            fields::in_range(PATH, "mtu", mtu, MTU),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn mtu(&self, network: &DefaultNetwork) -> Option<i64> {
        network.openshift_sdn_config.as_ref()?.mtu
    }

    fn mtu_mut<'a>(&self, network: &'a mut DefaultNetwork) -> Option<&'a mut i64> {
        network.openshift_sdn_config.as_mut()?.mtu.as_mut()
    }

    fn overhead(&self, _config: &Valid) -> u16 {
        OVERHEAD
    }

    fn fill(&self, network: &mut DefaultNetwork, previous: Option<&DefaultNetwork>, mtu: u16) {
        let previous = previous.and_then(|previous| previous.openshift_sdn_config.as_ref());
        let config = network.openshift_sdn_config.get_or_insert_default();
        config
            .mode
            .get_or_insert_with(|| "NetworkPolicy".to_owned());
        config.vxlan_port.get_or_insert(VXLAN_PORT);
        // Pods keep the MTU that they were given: of two ends with different ones the smaller one's
        // packets are lost.
        config.mtu = config.mtu.or_else(|| previous?.mtu).or(Some(mtu.into()));
        config.use_external_openvswitch.get_or_insert(false);
    }

    fn unsafe_changes(&self, previous: &DefaultNetwork, next: &DefaultNetwork) -> Vec<FieldChange> {
        let of =
            |network: &DefaultNetwork| network.openshift_sdn_config.clone().unwrap_or_default();
        let (old, new) = (of(previous), of(next));
        let mut changes = Changes::under(PATH);
        changes.compare(
            "mode",
            &old.mode,
            &new.mode,
            "pods would be kept apart in another way on the nodes that have it already",
        );
        changes.compare(
            "vxlanPort",
            &old.vxlan_port,
            &new.vxlan_port,
            "nodes with the old port and with the new one would not hear each other",
        );
        changes.compare(
            "mtu",
            &old.mtu,
            &new.mtu,
            "pods that run keep the old one, and larger packets to them would be lost",
        );
        let why =
            "Open vSwitch would be restarted on every node, and with it all connections of pods";
        changes.compare(
            "useExternalOpenvswitch",
            &old.use_external_openvswitch,
            &new.use_external_openvswitch,
            why,
        );
        changes.found()
    }

    fn render(
        &self,
        config: &Effective,
        context: &Context<'_>,
    ) -> Result<Vec<Manifest>, BuildError> {
        let sdn = config
            .default_network
            .openshift_sdn_config
            .clone()
            .unwrap_or_default();
        let mut objects = overlay::load(&FILES)?;
        overlay::set_file(
            &mut objects,
            "sdn-controller-config",
            "controller-config.yaml",
            yaml(&ControllerConfig::of(config, &sdn))?,
        )?;
        overlay::set_file(
            &mut objects,
            "sdn-config",
            "sdn-config.yaml",
            yaml(&NodeConfig::of(&config.proxy, &sdn))?,
        )?;
        let settings = context.settings;
        let controller = [("sdn-controller", Image::Hypershift)];
        overlay::workload(
            &mut objects,
            "sdn-controller",
            &controller,
            Some("sdn-controller-config"),
            settings,
        )?;
        overlay::workload(
            &mut objects,
            "sdn",
            &[("sdn", Image::Node)],
            Some("sdn-config"),
            settings,
        )?;
        if sdn.use_external_openvswitch == Some(true) {
            objects.retain(|object| {
                !(object.key().kind == kinds::DAEMON_SET && object.key().name == "ovs")
            });
        } else {
            overlay::workload(
                &mut objects,
                "ovs",
                &[("openvswitch", Image::Node)],
                None,
                settings,
            )?;
        }
        Ok(objects)
    }
}

fn yaml(file: &impl Serialize) -> Result<String, BuildError> {
    serde_saphyr::to_string(file).map_err(|error| BuildError::File(error.to_string()))
}

fn plugin(config: &OpenShiftSdnConfig) -> String {
    let mode = config.mode.as_deref().unwrap_or_default();
    MODES
        .iter()
        .find(|(name, _)| *name == mode)
        .map(|(_, plugin)| *plugin)
        .unwrap_or_default()
        .to_owned()
}

/// The controller's configuration file, as far as it reads it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ControllerConfig {
    api_version: String,
    kind: String,
    network: ControllerNetwork,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ControllerNetwork {
    network_plugin_name: String,
    cluster_networks: Vec<Block>,
    #[serde(rename = "serviceNetworkCIDR")]
    service_network_cidr: String,
    vxlan_port: i64,
    /// The same again: releases differ in how they spell it.
    #[serde(rename = "vxLANPort")]
    vxlan_port_misspelt: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    cidr: String,
    host_subnet_length: u8,
}

impl ControllerConfig {
    fn of(config: &Effective, sdn: &OpenShiftSdnConfig) -> Self {
        let vxlan_port = sdn.vxlan_port.unwrap_or(VXLAN_PORT);
        let blocks = config.pod_networks.iter();
        Self {
            api_version: "openshiftcontrolplane.config.openshift.io/v1".to_owned(),
            kind: "OpenShiftControllerManagerConfig".to_owned(),
            network: ControllerNetwork {
                network_plugin_name: plugin(sdn),
                cluster_networks: blocks
                    .map(|block| Block {
                        cidr: block.cidr.to_string(),
                        host_subnet_length: block.host_bits,
                    })
                    .collect(),
                service_network_cidr: config
                    .service_networks
                    .first()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                vxlan_port,
                vxlan_port_misspelt: vxlan_port,
            },
        }
    }
}

/// The configuration file of a node's process, as far as it reads it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeConfig {
    api_version: String,
    kind: String,
    network_config: NodeNetworkConfig,
    serving_info: ServingInfo,
    kubelet_arguments: BTreeMap<String, Vec<String>>,
    iptables_sync_period: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proxy_arguments: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeNetworkConfig {
    network_plugin_name: String,
    mtu: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServingInfo {
    bind_address: String,
    #[serde(rename = "clientCA")]
    client_ca: String,
}

/// Nothing listens there, but the file is refused without a port.
const UNUSED_PORT: u16 = 10251;

impl NodeConfig {
    fn of(proxy: &ProxyConfig, sdn: &OpenShiftSdnConfig) -> Self {
        let argument = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        Self {
            api_version: "v1".to_owned(),
            kind: "NodeConfig".to_owned(),
            network_config: NodeNetworkConfig {
                network_plugin_name: plugin(sdn),
                mtu: sdn.mtu.unwrap_or_default(),
            },
            serving_info: ServingInfo {
                bind_address: proxy::join(
                    proxy.bind_address.as_deref().unwrap_or("0.0.0.0"),
                    UNUSED_PORT,
                ),
                client_ca: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt".to_owned(),
            },
            kubelet_arguments: BTreeMap::from([
                argument("container-runtime", "remote"),
                argument("container-runtime-endpoint", "/var/run/crio/crio.sock"),
            ]),
            iptables_sync_period: proxy.iptables_sync_period.clone().unwrap_or_default(),
            proxy_arguments: proxy.proxy_arguments.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
#[path = "openshift_sdn_tests.rs"]
mod tests;
