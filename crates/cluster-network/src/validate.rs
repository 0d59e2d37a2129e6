//! From the resource as it is stored to a configuration that holds nothing invalid.

use ipnet::IpNet;
use serde_json::Value;
use weft_api::cluster_network::{ClusterNetwork, NetworkConfig, NetworkConfigSpec};
use weft_plan::Problem;

use crate::{
    config::{PodNetwork, Valid},
    provider::Provider,
};

/// Reads the resource.
///
/// # Errors
/// It has not the shape of a NetworkConfig.
pub fn read(resource: &Value) -> Result<NetworkConfig, Vec<Problem>> {
    serde_json::from_value(resource.clone()).map_err(|error| vec![problem("spec", format!("is not readable: {error}"))])
}

/// Checks a specification, all rules at once.
///
/// # Errors
/// Everything that is wrong with it.
pub fn validate<'p>(spec: &NetworkConfigSpec, providers: &[&'p dyn Provider]) -> Result<(Valid, &'p dyn Provider), Vec<Problem>> {
    let mut problems = Vec::new();
    let mut default_network = spec.default_network.clone().unwrap_or_default();
    let asked = default_network.type_.clone().unwrap_or_default();
    let provider = providers.iter().copied().find(|provider| provider.name() == asked || provider.aliases().contains(&&*asked));
    let Some(provider) = provider else {
        let known: Vec<_> = providers.iter().map(|provider| provider.name()).collect();
        return Err(vec![problem(
            "spec.defaultNetwork.type",
            format!("{asked:?} is not a type of network that Weft knows: choose one of {}", known.join(", ")),
        )]);
    };
    default_network.type_ = Some(provider.name().to_owned());
    provider.canonicalise(&mut default_network);
    let mut pod_networks = Vec::new();
    for (index, network) in spec.cluster_networks.iter().flatten().enumerate() {
        match pod_network(network) {
            Ok(network) => pod_networks.push(network),
            Err(message) => problems.push(problem(&format!("spec.clusterNetworks[{index}]"), message)),
        }
    }
    let mut service_networks = Vec::new();
    for block in spec.service_network.iter().flat_map(weft_api::cluster_network::ServiceNetwork::blocks) {
        match block.parse::<IpNet>() {
            Ok(block) => service_networks.push(block),
            Err(_) => {
                problems.push(problem("spec.serviceNetwork", format!("{block:?} is not a block of addresses: write it like 172.30.0.0/16")))
            }
        }
    }
    let valid = Valid {
        pod_networks,
        service_networks,
        default_network,
        additional_networks: spec.additional_networks.clone().unwrap_or_default(),
        deploy_kube_proxy: spec.deploy_kube_proxy,
        proxy: spec.kube_proxy_config.clone().unwrap_or_default(),
    };
    problems.extend(provider.validate(&valid));
    problems.extend(crate::proxy::validate(&valid, provider.capabilities().own_service_proxy));
    if problems.is_empty() { Ok((valid, provider)) } else { Err(problems) }
}

fn pod_network(network: &ClusterNetwork) -> Result<PodNetwork, String> {
    let text = network.cidr.as_deref().unwrap_or_default();
    let cidr: IpNet = text.parse().map_err(|_| format!("cidr {text:?} is not a block of addresses: write it like 10.128.0.0/14"))?;
    let bits = network.host_subnet_length.or(network.host_prefix.map(|prefix| i64::from(cidr.max_prefix_len()) - prefix));
    let host_bits = bits.and_then(|bits| u8::try_from(bits).ok()).ok_or("hostSubnetLength is missing or out of range")?;
    Ok(PodNetwork { cidr, host_bits })
}

fn problem(field: &str, message: impl Into<String>) -> Problem {
    Problem { field: field.to_owned(), message: message.into() }
}
