//! From the resource as it is stored to a configuration that holds nothing invalid, or to the list
//! of all that is wrong.
//!
//! Most rules are in the schema too, as CEL, so that `kubectl apply` already refuses. They are
//! checked again because a stored object may be older than the schema.

use serde_json::{Value, json};
use weft_api::cluster_network::{
    ClusterNetwork, DefaultNetwork, NAME, NetworkConfig, NetworkConfigSpec, ProxyConfig,
    ServiceNetwork,
};
use weft_operands::problems::{Problems, given};
use weft_plan::{Live, Problem};

use crate::{
    addresses::{self, Block},
    config::{Effective, PodNetwork, Valid},
    provider::Provider,
};

/// Reads the resource.
///
/// # Errors
/// Every field whose value is of another type than it must be: possible in objects that were stored
/// without a schema. And another name than the one that is acted on.
pub fn read(resource: &Value) -> Result<NetworkConfig, Vec<Problem>> {
    let problem = |field: &str, message: String| Problem {
        field: field.to_owned(),
        message,
    };
    let name = Live::of(resource).name();
    if name != NAME {
        let message = format!(
            "{name:?} is not acted on: there is one NetworkConfig a cluster, and its name is {NAME}"
        );
        return Err(vec![problem("metadata.name", message)]);
    }
    let whole = match serde_json::from_value(resource.clone()) {
        Ok(resource) => return Ok(resource),
        Err(error) => problem("metadata", format!("not readable: {error}")),
    };
    let Some(spec) = resource.get("spec").and_then(Value::as_object) else {
        return Err(vec![problem(
            "spec",
            "is not an object: see the examples in docs/cluster-network.md".to_owned(),
        )]);
    };
    let by_field = spec.iter().filter_map(|(field, value)| {
        let error = serde_json::from_value::<NetworkConfigSpec>(json!({field: value})).err()?;
        let message = format!("has a value of the wrong type: {error}; see `kubectl explain networkconfig.spec.{field}`");
        Some(problem(&format!("spec.{field}"), message))
    });
    let problems: Vec<_> = by_field.collect();
    Err(if problems.is_empty() {
        vec![whole]
    } else {
        problems
    })
}

/// Checks a specification, all rules at once.
///
/// # Errors
/// Everything that is wrong with it.
pub fn validate<'p>(
    spec: &NetworkConfigSpec,
    providers: &[&'p dyn Provider],
) -> Result<(Valid, &'p dyn Provider), Vec<Problem>> {
    // No `..`: a field that is new has to be checked here.
    let NetworkConfigSpec {
        cluster_networks,
        cluster_network,
        service_network,
        default_network,
        additional_networks,
        deploy_kube_proxy,
        kube_proxy_config,
    } = spec;
    let mut problems = Problems::default();
    let (path, networks) = spelling(
        cluster_networks.as_ref(),
        cluster_network.as_ref(),
        &mut problems,
    );
    let (pods, pod_networks) = pod_networks(path, networks, &mut problems);
    let services = service_networks(service_network.as_ref(), &mut problems);
    addresses::check(&pods, &services, &mut problems);
    let (default_network, provider) =
        self::default_network(default_network.as_ref(), providers, &mut problems);
    let valid = Valid {
        pod_networks,
        service_networks: services.iter().map(|block| block.block).collect(),
        default_network,
        additional_networks: additional_networks.clone().unwrap_or_default(),
        deploy_kube_proxy: *deploy_kube_proxy,
        proxy: without_empty(kube_proxy_config.clone().unwrap_or_default()),
    };
    let Some(provider) = provider else {
        return Err(problems.into_vec());
    };
    if provider.needs_blocks() && networks.is_empty() {
        let message = "is missing: give at least one block of addresses for pods, for example {cidr: 10.128.0.0/14, hostSubnetLength: 9}";
        problems.push(path, message);
    }
    if provider.needs_blocks()
        && blocks_of(service_network.as_ref()).all(|(_, text)| text.is_empty())
    {
        problems.push(
            "spec.serviceNetwork",
            "is missing: give the block of addresses of services, for example 172.30.0.0/16",
        );
    }
    addresses::check_for(provider, &pods, &services, path, &mut problems);
    if provider.capabilities().uses_host_subnet_length {
        shares_are_said(provider.name(), path, networks, &mut problems);
    }
    problems.extend(provider.validate(&valid));
    problems.extend(crate::proxy::validate(
        &valid,
        provider.capabilities().own_service_proxy,
    ));
    problems.or((valid, provider))
}

/// The pods' blocks, in the spelling of either version of the API.
pub(crate) fn spelling<'a>(
    first: Option<&'a Vec<ClusterNetwork>>,
    later: Option<&'a Vec<ClusterNetwork>>,
    problems: &mut Problems,
) -> (&'static str, &'a [ClusterNetwork]) {
    if first.is_some() && later.is_some() {
        problems.push(
            "spec.clusterNetwork",
            "is another spelling of clusterNetworks, which is given too: keep clusterNetworks only",
        );
    }
    match (first, later) {
        (None, Some(later)) if !later.is_empty() => ("spec.clusterNetwork", later),
        (first, _) => (
            "spec.clusterNetworks",
            first.map(Vec::as_slice).unwrap_or_default(),
        ),
    }
}

fn pod_networks(
    path: &str,
    networks: &[ClusterNetwork],
    problems: &mut Problems,
) -> (Vec<Block>, Vec<PodNetwork>) {
    let read = |(index, network): (usize, &ClusterNetwork)| {
        let field = format!("{path}[{index}]");
        let cidr = addresses::parse(network.cidr.as_deref().unwrap_or_default());
        let cidr = cidr
            .map_err(|message| problems.push(&format!("{field}.cidr"), message))
            .ok()?;
        let host_bits = addresses::host_bits(network, cidr, &field, problems);
        Some((
            Block {
                field: format!("{field}.cidr"),
                block: cidr,
            },
            PodNetwork { cidr, host_bits },
        ))
    };
    networks.iter().enumerate().filter_map(read).unzip()
}

/// Checks that each block states the size of a node's share.
fn shares_are_said(
    provider: &str,
    path: &str,
    networks: &[ClusterNetwork],
    problems: &mut Problems,
) {
    for (index, network) in networks.iter().enumerate() {
        if [network.host_subnet_length, network.host_prefix]
            .iter()
            .all(|said| said.unwrap_or_default() == 0)
        {
            let field = format!("{path}[{index}].hostSubnetLength");
            problems.push(&field, format!("is missing: {provider} divides the block among the nodes; 9 gives each a /23 of IPv4"));
        }
    }
}

/// The services' blocks as they are written, each with its field.
fn blocks_of(network: Option<&ServiceNetwork>) -> impl Iterator<Item = (String, &String)> {
    let is_list = matches!(network, Some(ServiceNetwork::Many(_)));
    let field = move |index| {
        if is_list {
            format!("spec.serviceNetwork[{index}]")
        } else {
            "spec.serviceNetwork".to_owned()
        }
    };
    network
        .map(ServiceNetwork::blocks)
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(move |(index, text)| (field(index), text))
}

/// An empty text is none.
fn service_networks(network: Option<&ServiceNetwork>, problems: &mut Problems) -> Vec<Block> {
    let given = blocks_of(network).filter(|(_, text)| !text.is_empty());
    let read = given.filter_map(|(field, text)| {
        let block = addresses::parse(text)
            .map_err(|message| problems.push(&field, message))
            .ok()?;
        Some(Block { field, block })
    });
    read.collect()
}

/// The network with its settings in canonical spelling, and who deploys it.
fn default_network<'p>(
    network: Option<&DefaultNetwork>,
    providers: &[&'p dyn Provider],
    problems: &mut Problems,
) -> (DefaultNetwork, Option<&'p dyn Provider>) {
    let network = network.cloned().unwrap_or_default();
    match canonical(network, providers) {
        (network, Some(provider)) => (network, Some(provider)),
        (network, None) => {
            let known: Vec<_> = providers.iter().map(|provider| provider.name()).collect();
            let what = match given(&network.type_) {
                Some(type_) => format!("{type_:?} is not a type of network that Weft knows"),
                None => "is missing".to_owned(),
            };
            problems.push(
                "spec.defaultNetwork.type",
                format!("{what}: choose one of {}", known.join(", ")),
            );
            (network, None)
        }
    }
}

/// The network as its provider spells it, if one knows it: two configurations that mean the same
/// become equal.
pub(crate) fn canonical<'p>(
    mut network: DefaultNetwork,
    providers: &[&'p dyn Provider],
) -> (DefaultNetwork, Option<&'p dyn Provider>) {
    let asked = network.type_.clone().unwrap_or_default();
    let is_called = |provider: &&dyn Provider| {
        [provider.name()]
            .iter()
            .chain(provider.aliases())
            .any(|name| name.eq_ignore_ascii_case(&asked))
    };
    let provider = providers.iter().copied().find(is_called);
    if let Some(provider) = provider {
        network.type_ = Some(provider.name().to_owned());
        without_empty_texts(&mut network);
        provider.canonicalise(&mut network);
    }
    (network, provider)
}

/// An empty text counts as left out.
fn without_empty_texts(network: &mut DefaultNetwork) {
    let sdn = network
        .openshift_sdn_config
        .iter_mut()
        .map(|config| &mut config.mode);
    let flannel = network
        .flannel_config
        .iter_mut()
        .flat_map(|config| [&mut config.backend, &mut config.cni_plugin]);
    for text in sdn.chain(flannel) {
        *text = text.take().filter(|text| !text.is_empty());
    }
}

/// An empty text counts as left out.
pub(crate) fn without_empty(config: ProxyConfig) -> ProxyConfig {
    let ProxyConfig {
        iptables_sync_period,
        bind_address,
        proxy_arguments,
    } = config;
    ProxyConfig {
        iptables_sync_period: iptables_sync_period.filter(|text| !text.is_empty()),
        bind_address: bind_address.filter(|text| !text.is_empty()),
        proxy_arguments: proxy_arguments.filter(|arguments| !arguments.is_empty()),
    }
}

/// Reports whether these blocks are in use already.
pub(crate) fn same_blocks(valid: &Valid, applied: &Effective) -> bool {
    valid.pod_networks == applied.pod_networks && valid.service_networks == applied.service_networks
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
