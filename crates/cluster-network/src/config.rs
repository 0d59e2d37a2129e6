//! A configuration in its two forms: valid as the user wrote it, and complete.

use ipnet::IpNet;
use serde_json::Value;
use weft_api::cluster_network::{
    AdditionalNetwork, ClusterNetwork, DefaultNetwork, NetworkConfigSpec, ProxyConfig,
    ServiceNetwork,
};

/// A block of addresses for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodNetwork {
    /// The block, its host bits zero.
    pub cidr: IpNet,
    /// How many bits of an address are the node's own. 0 if that is not said, since another user
    /// divides the block.
    pub host_bits: u8,
}

impl PodNetwork {
    /// The length of the prefix that each node gets.
    pub fn node_prefix(&self) -> u8 {
        self.cidr.max_prefix_len().saturating_sub(self.host_bits)
    }
}

/// The user's configuration: nothing in it is invalid, names are canonical, and open fields are
/// still open.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid {
    /// The pods' blocks, in the user's order. At least one unless the network is another user's.
    pub pod_networks: Vec<PodNetwork>,
    /// The services' blocks, the primary family first.
    pub service_networks: Vec<IpNet>,
    /// Type and settings, in canonical spelling.
    pub default_network: DefaultNetwork,
    /// As they are written: each is checked by itself, so that a bad one stops no other.
    pub additional_networks: Vec<AdditionalNetwork>,
    /// True if kube-proxy is asked for. `None` leaves it to Weft.
    pub deploy_kube_proxy: Option<bool>,
    /// Settings of the service proxy.
    pub proxy: ProxyConfig,
}

/// The complete configuration: every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The pods' blocks.
    pub pod_networks: Vec<PodNetwork>,
    /// The services' blocks, the primary family first.
    pub service_networks: Vec<IpNet>,
    /// Type and settings, all of that type filled in.
    pub default_network: DefaultNetwork,
    /// As they are written.
    pub additional_networks: Vec<AdditionalNetwork>,
    /// True if kube-proxy is deployed.
    pub deploy_kube_proxy: bool,
    /// Settings of the service proxy.
    pub proxy: ProxyConfig,
}

impl Effective {
    /// In the form of the resource's specification, as the first operator of this API recorded it.
    pub fn spec(&self) -> NetworkConfigSpec {
        let mut blocks: Vec<String> = self
            .service_networks
            .iter()
            .map(ToString::to_string)
            .collect();
        let service_network = match blocks.len() {
            0 => None,
            1 => blocks.pop().map(ServiceNetwork::One),
            _ => Some(ServiceNetwork::Many(blocks)),
        };
        let cluster_network = |network: &PodNetwork| ClusterNetwork {
            cidr: Some(network.cidr.to_string()),
            host_subnet_length: Some(network.host_bits.into()).filter(|bits| *bits != 0),
            host_prefix: None,
        };
        NetworkConfigSpec {
            cluster_networks: Some(self.pod_networks.iter().map(cluster_network).collect()),
            cluster_network: None,
            service_network,
            default_network: Some(self.default_network.clone()),
            additional_networks: Some(self.additional_networks.clone())
                .filter(|networks| !networks.is_empty()),
            deploy_kube_proxy: Some(self.deploy_kube_proxy),
            kube_proxy_config: Some(self.proxy.clone()),
        }
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// It has none, which is a defect.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self.spec())
    }
}
