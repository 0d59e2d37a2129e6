//! Decides if the operator may carry out a change while pods use the network.
//!
//! Both configurations are complete and canonical, so an alias, or a default that is written out,
//! is no change. Additional networks and the service proxy may always change.

use ipnet::IpNet;
use weft_plan::FieldChange;

use crate::{
    Settings,
    addresses::family,
    config::{Effective, PodNetwork},
    provider::{Capabilities, Provider},
    record,
};

const PODS: &str = "spec.clusterNetworks";
const SERVICES: &str = "spec.serviceNetwork";

/// How to undo a refused change, or to have it nevertheless.
pub(crate) fn way_out(settings: &Settings) -> String {
    let record = record::key(settings, weft_api::cluster_network::NAME);
    format!(
        "set the fields back to the old values, or delete the record of what is applied to have the change nevertheless: kubectl -n {} delete configmap {}",
        record.namespace.unwrap_or_default(),
        record.name
    )
}

/// The fields that may not change like this. `provider` is that of the next configuration.
pub fn unsafe_changes(
    provider: &dyn Provider,
    previous: &Effective,
    next: &Effective,
) -> Vec<FieldChange> {
    // No `..`: a setting that is new must be decided on here.
    let Effective {
        pod_networks,
        service_networks,
        default_network,
        additional_networks: _,
        deploy_kube_proxy: _,
        proxy: _,
    } = previous;
    let can = provider.capabilities();
    let mut changes = Vec::new();
    if default_network.type_ == next.default_network.type_ {
        changes.extend(provider.unsafe_changes(default_network, &next.default_network));
    } else {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (old, new) = (
            text(&default_network.type_),
            text(&next.default_network.type_),
        );
        changes.push(change(
            "spec.defaultNetwork.type",
            old,
            new,
            "all pods would lose their network",
        ));
    }
    let converts = stacks(service_networks) != stacks(&next.service_networks);
    if converts && can.adds_family {
        changes.extend(conversion(previous, next));
    } else if converts {
        let why = format!(
            "{} cannot add or remove an address family once pods use it",
            provider.name()
        );
        changes.push(change(
            SERVICES,
            list(service_networks),
            list(&next.service_networks),
            &why,
        ));
        if list_of(pod_networks) != list_of(&next.pod_networks) {
            changes.push(change(
                PODS,
                list_of(pod_networks),
                list_of(&next.pod_networks),
                why,
            ));
        }
    } else {
        changes.extend(pods(pod_networks, &next.pod_networks, can));
        if *service_networks != next.service_networks {
            let why = "services keep the addresses that they have, and the API server and the nodes would not agree on them";
            changes.push(change(
                SERVICES,
                list(service_networks),
                list(&next.service_networks),
                why,
            ));
        }
    }
    changes
}

fn change(
    field: &str,
    old: impl Into<String>,
    new: impl Into<String>,
    why: impl Into<String>,
) -> FieldChange {
    FieldChange {
        field: field.to_owned(),
        old: old.into(),
        new: new.into(),
        why: why.into(),
    }
}

fn list(blocks: &[IpNet]) -> String {
    blocks
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn list_of(networks: &[PodNetwork]) -> String {
    list(
        &networks
            .iter()
            .map(|network| network.cidr)
            .collect::<Vec<_>>(),
    )
}

/// How many address families there are.
fn stacks(services: &[IpNet]) -> usize {
    crate::addresses::families(services).len()
}

/// Blocks of pods, with the same address families as before.
fn pods(old: &[PodNetwork], new: &[PodNetwork], can: Capabilities) -> Vec<FieldChange> {
    if old.len() != new.len() {
        let why = if old.len() < new.len() {
            "nodes that know the old blocks alone would not reach pods in the new ones"
        } else {
            "pods have addresses of the block that goes"
        };
        return vec![change(PODS, list_of(old), list_of(new), why)];
    }
    let order = if can.grows { sorted } else { as_written };
    let (old, new) = (order(old), order(new));
    if old
        .first()
        .zip(new.first())
        .is_some_and(|((_, old), (_, new))| family(&old.cidr) != family(&new.cidr))
    {
        let all = |networks: &[(usize, PodNetwork)]| {
            list_of(
                &networks
                    .iter()
                    .map(|(_, network)| *network)
                    .collect::<Vec<_>>(),
            )
        };
        return vec![change(
            PODS,
            all(&old),
            all(&new),
            "the primary address family of pods would be another one",
        )];
    }
    old.into_iter()
        .zip(new)
        .flat_map(|((_, old), (index, new))| block(index, old, new, can))
        .collect()
}

fn as_written(networks: &[PodNetwork]) -> Vec<(usize, PodNetwork)> {
    networks.iter().copied().enumerate().collect()
}

/// By address within each family, the family of the first block first: where blocks may grow, their
/// order means nothing, and a block is found again by its address.
fn sorted(networks: &[PodNetwork]) -> Vec<(usize, PodNetwork)> {
    let mut sorted = as_written(networks);
    let primary = networks.first().map(|network| family(&network.cidr));
    sorted.sort_by_key(|(_, network)| (Some(family(&network.cidr)) != primary, network.cidr));
    sorted
}

/// One block: the share of a node stays, and if anything the block grows.
fn block(index: usize, old: PodNetwork, new: PodNetwork, can: Capabilities) -> Vec<FieldChange> {
    let field = |name: &str| format!("{PODS}[{index}].{name}");
    let mut changes = Vec::new();
    if old.cidr != new.cidr {
        let (before, after) = (old.cidr.to_string(), new.cidr.to_string());
        let same_start = old.cidr.network() == new.cidr.network();
        let why = match () {
            () if !can.grows => {
                Some("pods have addresses of the old block, and nodes would not find them any more")
            }
            () if !same_start => Some(
                "pods have addresses of the old block: it may only grow, and must begin with the same address",
            ),
            () if old.cidr.prefix_len() < new.cidr.prefix_len() => {
                Some("pods may have addresses of the part that goes: a block may only grow")
            }
            () => None,
        };
        changes.extend(why.map(|why| change(&field("cidr"), before, after, why)));
    }
    if can.uses_host_subnet_length && old.host_bits != new.host_bits {
        let why = "each node has its share of the block already, and shares of another size would overlap them";
        changes.push(change(
            &field("hostSubnetLength"),
            old.host_bits.to_string(),
            new.host_bits.to_string(),
            why,
        ));
    }
    changes
}

/// From one address family to two, or back: what stays must stay as it is, and where it is.
fn conversion(previous: &Effective, next: &Effective) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    if previous.service_networks.first() != next.service_networks.first() {
        let why = "the first block must stay when an address family is added or removed";
        changes.push(change(
            SERVICES,
            list(&previous.service_networks),
            list(&next.service_networks),
            why,
        ));
    }
    let (fewer, more) = if stacks(&previous.service_networks) < stacks(&next.service_networks) {
        (&previous.pod_networks, &next.pod_networks)
    } else {
        (&next.pod_networks, &previous.pod_networks)
    };
    let of_family = |network: &PodNetwork| {
        fewer
            .first()
            .is_some_and(|first| family(&first.cidr) == family(&network.cidr))
    };
    let in_place = more.starts_with(fewer) && !more.iter().skip(fewer.len()).any(of_family);
    if !in_place {
        let why = "when an address family is added or removed, the blocks of the other one must stay as they are, before the new ones";
        changes.push(change(
            PODS,
            list_of(&previous.pod_networks),
            list_of(&next.pod_networks),
            why,
        ));
    }
    changes
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
