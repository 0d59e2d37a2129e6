//! The MTU of the pods' interfaces: what a packet of a node may be long, less what the network adds
//! to it.

use weft_operands::text::some;
use weft_plan::{Facts, Notice};

use crate::{
    build::DEFAULT_NETWORK,
    config::{Effective, Valid},
    provider::Provider,
};

/// The MTU of Ethernet, which Weft assumes while no node reports an MTU.
const ETHERNET: u32 = 1500;

/// The least MTU that a network may have: 576 bytes are taken by every host with IPv4 (RFC 791),
/// 1280 are the least of a link with IPv6 (RFC 8200).
pub(crate) fn least(ipv6: bool) -> u32 {
    if ipv6 { 1280 } else { 576 }
}

/// The smallest of all nodes that are known, the operator's own among them.
pub(crate) fn of_nodes(facts: &Facts) -> u32 {
    let told = facts.cni_reports.values().filter_map(|network| network.mtu);
    told.chain(facts.host_mtu).min().unwrap_or(ETHERNET)
}

/// A notice that neither a node nor anything else has reported the MTU.
pub(crate) fn assumed(facts: &Facts) -> Option<Notice> {
    let told = facts.host_mtu.is_some()
        || facts
            .cni_reports
            .values()
            .any(|network| network.mtu.is_some());
    (!told).then(|| Notice {
        about: DEFAULT_NETWORK.to_owned(),
        message: format!(
            "the MTU of the nodes is not known: {ETHERNET} is assumed; where it is smaller, set mtu"
        ),
    })
}

/// Lowers the MTU of the previous decision so that it fits the smallest MTU that the nodes have
/// reported since. An MTU that the resource sets stays.
///
/// Call this only while the network has never been on all nodes. Nodes report their MTU through the
/// first pods of the network. Once the network has been on all nodes, pods use its MTU, and it
/// stays.
pub(crate) fn settle(
    previous: &mut Effective,
    next: &Valid,
    provider: &dyn Provider,
    facts: &Facts,
) {
    let is_another = previous.default_network.type_ != next.default_network.type_;
    let is_asked_for = provider.mtu(&next.default_network).is_some();
    let told = facts
        .cni_reports
        .values()
        .filter_map(|network| network.mtu)
        .min();
    let (Some(told), false, false) = (told, is_another, is_asked_for) else {
        return;
    };
    let fits = told.saturating_sub(provider.overhead(next).into());
    let ipv6 = next
        .pod_networks
        .iter()
        .any(|network| network.cidr.addr().is_ipv6());
    if let Some(mtu) = provider.mtu_mut(&mut previous.default_network)
        && fits >= least(ipv6)
    {
        *mtu = (*mtu).min(fits.into());
    }
}

/// Nodes that differ. `needed` is what a packet between nodes has when a pod sends its longest.
pub(crate) fn spread(facts: &Facts, needed: u32) -> Option<Notice> {
    let told: Vec<(&str, u32)> = facts
        .cni_reports
        .iter()
        .filter_map(|(name, network)| Some((name.as_str(), network.mtu?)))
        .collect();
    let smallest = told.iter().map(|(_, mtu)| *mtu).min()?;
    let notice = |message: String| {
        Some(Notice {
            about: DEFAULT_NETWORK.to_owned(),
            message,
        })
    };
    let list = |nodes: &[&(&str, u32)]| {
        some(
            &nodes
                .iter()
                .map(|(name, mtu)| format!("{name} ({mtu})"))
                .collect::<Vec<_>>(),
        )
    };
    let small: Vec<_> = told.iter().filter(|(_, mtu)| *mtu < needed).collect();
    if !small.is_empty() {
        return notice(format!(
            "packets between nodes may have {needed} bytes, and that is more than the network of these nodes takes: {}. Long packets of pods are lost there: raise the MTU of these nodes, or set a smaller mtu for the pods, which is a change that has to be forced",
            list(&small)
        ));
    }
    let (least, large): (Vec<_>, Vec<_>) = told.iter().partition(|(_, mtu)| *mtu == smallest);
    if large.is_empty() {
        None
    } else {
        notice(format!(
            "the nodes' networks differ in their MTU: the smallest counts, that of {}; others are {}",
            list(&least),
            list(&large)
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_plan::CniReport;

    use super::*;

    fn facts(mtus: &[(&str, u32)]) -> Facts {
        let told = |(name, mtu): &(&str, u32)| {
            (
                (*name).to_owned(),
                CniReport {
                    mtu: Some(*mtu),
                    ..CniReport::default()
                },
            )
        };
        Facts {
            cni_reports: mtus.iter().map(told).collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn the_smallest_of_all_nodes_counts() {
        assert_eq!(of_nodes(&Facts::default()), 1500);
        assert_eq!(of_nodes(&facts(&[("a", 9000), ("b", 1400)])), 1400);
        assert_eq!(
            of_nodes(&Facts {
                host_mtu: Some(1300),
                ..facts(&[("a", 9000)])
            }),
            1300
        );
    }

    #[test]
    fn nodes_that_differ_are_named() {
        assert_eq!(spread(&facts(&[]), 1500), None);
        assert_eq!(spread(&facts(&[("a", 1500), ("b", 1500)]), 1500), None);
        let message = spread(&facts(&[("a", 1500), ("b", 9000), ("c", 1500)]), 1500)
            .unwrap()
            .message;
        assert!(
            message
                .ends_with("the smallest counts, that of a (1500), c (1500); others are b (9000)"),
            "{message}"
        );
        let message = spread(
            &facts(&[
                ("a", 1500),
                ("b", 1400),
                ("c", 1300),
                ("d", 1300),
                ("e", 1300),
            ]),
            1500,
        )
        .unwrap()
        .message;
        assert!(
            message.contains("1500 bytes")
                && message.contains(": b (1400), c (1300), d (1300) and 1 more. Long packets"),
            "{message}"
        );
        // A pod with a smaller MTU than it could have loses nothing.
        assert_eq!(spread(&facts(&[("a", 9000)]), 1500), None);
    }
}
