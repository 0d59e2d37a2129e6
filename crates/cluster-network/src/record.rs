//! The record of the last applied configuration, in the form of the operator that Weft replaces:
//! what a change is compared with, and where values are carried on from.

use serde_json::{Value, json};
use weft_api::cluster_network::{NetworkConfigSpec, ServiceNetwork};
use weft_operands::problems::Problems;
use weft_plan::{Facts, Manifest, ManifestError, ObjectKey, Problem, kinds};

use crate::{
    Settings, addresses,
    config::{Effective, PodNetwork, Valid},
    fill,
    provider::Provider,
    validate,
};

/// The key in the ConfigMap's data.
pub const DATA_KEY: &str = "applied";

/// Which ConfigMap.
pub fn key(settings: &Settings, resource: &str) -> ObjectKey {
    ObjectKey::new(
        kinds::CONFIG_MAP,
        &settings.record_namespace,
        &format!("applied-{resource}"),
    )
}

/// The record of a complete configuration, which follows from this specification.
pub(crate) fn manifest(
    settings: &Settings,
    resource: &str,
    spec: &Value,
    decided: &Value,
) -> Result<Manifest, ManifestError> {
    let key = key(settings, resource);
    Manifest::new(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "data": {DATA_KEY: weft_plan::canonical(&as_the_original_has_it(spec, decided))},
    }))
}

/// The configuration as the original would have recorded it: values as they are written in the
/// resource, and of openshift-sdn without the default of `useExternalOpenvswitch`.
///
/// The original compares the record with the resource value by value, and refuses to continue if
/// another spelling or a default that it does not know stands in the record ("cannot change
/// openshift-sdn configuration").
fn as_the_original_has_it(spec: &Value, decided: &Value) -> Value {
    const SDN: &str = "openshiftSDNConfig";
    let mut record = decided.clone();
    let keep = |record: &mut Value, written: &Value, key: &str| {
        if !written[key].is_null() {
            record[key] = written[key].clone();
        }
    };
    keep(&mut record, spec, "clusterNetworks");
    // It knows one block, and no list.
    if spec["serviceNetwork"].is_string() {
        keep(&mut record, spec, "serviceNetwork");
    }
    let (written, network) = (&spec["defaultNetwork"], &mut record["defaultNetwork"]);
    keep(network, written, "type");
    if network[SDN].is_object() {
        keep(&mut network[SDN], &written[SDN], "mode");
        if written[SDN]["useExternalOpenvswitch"].is_null() {
            network[SDN]
                .as_object_mut()
                .map(|config| config.remove("useExternalOpenvswitch"));
        }
    }
    record
}

/// A previous configuration, made complete and canonical, so that it can be compared with the next
/// one.
///
/// More is read than a resource may hold. The operator that first wrote such records checked
/// little, and later releases spelt things otherwise. The applied configuration is in force,
/// whatever today's rules are. So host bits of blocks are dropped, settings of the proxy and
/// additional networks are taken as they are, and the network may be of a type that Weft does not
/// know.
///
/// # Errors
/// It cannot be read at all. It is not ignored then: what follows from it is whether pods lose
/// their network.
pub fn read(text: &str, providers: &[&dyn Provider]) -> Result<Effective, Problem> {
    let unreadable = |why: String| Problem {
        field: "ConfigMap applied-default".to_owned(),
        message: format!(
            "the previous configuration is not readable ({why}): repair data.applied, or delete the ConfigMap to apply the resource as it is"
        ),
    };
    let spec: NetworkConfigSpec =
        serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let of_old_block = |text: &str| {
        addresses::parse_with_host_bits(text)
            .map(|block| block.trunc())
            .map_err(unreadable)
    };

    let mut ignored = Problems::default();
    let (_, networks) = validate::spelling(
        spec.cluster_networks.as_ref(),
        spec.cluster_network.as_ref(),
        &mut ignored,
    );
    let mut pod_networks = Vec::new();
    for network in networks {
        let cidr = of_old_block(network.cidr.as_deref().unwrap_or_default())?;
        pod_networks.push(PodNetwork {
            cidr,
            host_bits: addresses::host_bits(network, cidr, "", &mut ignored),
        });
    }
    let services = spec
        .service_network
        .as_ref()
        .map(ServiceNetwork::blocks)
        .unwrap_or_default();
    let services = services
        .iter()
        .filter(|block| !block.is_empty())
        .map(|block| of_old_block(block));
    let (default_network, provider) =
        validate::canonical(spec.default_network.unwrap_or_default(), providers);
    let valid = Valid {
        pod_networks,
        service_networks: services.collect::<Result<_, _>>()?,
        default_network,
        additional_networks: spec.additional_networks.unwrap_or_default(),
        deploy_kube_proxy: spec.deploy_kube_proxy,
        proxy: validate::without_empty(spec.kube_proxy_config.unwrap_or_default()),
    };
    match provider {
        // The reader fills in fields of later versions, with today's values for a cluster without
        // facts: before the record held the MTU, networks took that of Ethernet.
        Some(provider) => {
            fill::fill(valid, provider, None, &Facts::default()).map(|(effective, _)| effective)
        }
        None => Ok(as_it_is(valid)),
    }
}

/// The configuration of a network that Weft does not know.
fn as_it_is(valid: Valid) -> Effective {
    let Valid {
        pod_networks,
        service_networks,
        default_network,
        additional_networks,
        deploy_kube_proxy,
        proxy,
    } = valid;
    let deploy_kube_proxy = deploy_kube_proxy.unwrap_or_default();
    Effective {
        pod_networks,
        service_networks,
        default_network,
        additional_networks,
        deploy_kube_proxy,
        proxy,
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
