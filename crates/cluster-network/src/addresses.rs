//! Blocks of addresses: how they are written, and what must hold between them.

use std::collections::BTreeSet;

use ipnet::IpNet;
use weft_api::cluster_network::ClusterNetwork;
use weft_operands::{problems::Problems, text::some};
use weft_plan::{Facts, Problem};

use crate::{config::PodNetwork, provider::Provider};

/// Blocks that are never the pods' or the services', by the IANA registries of special-purpose
/// addresses, and what they are for.
const RESERVED: [(&str, &str); 7] = [
    ("127.0.0.0/8", "the loopback interface"),
    ("169.254.0.0/16", "single links"),
    ("224.0.0.0/4", "multicast"),
    ("::1/128", "the loopback interface"),
    (
        "::ffff:0:0/96",
        "IPv4 addresses, which are written without ::ffff:",
    ),
    ("fe80::/10", "single links"),
    ("ff00::/8", "multicast"),
];

/// A block, and the field that it is from: the field of the text itself.
pub(crate) struct Block {
    pub field: String,
    pub block: IpNet,
}

/// Reads a block as the API server does (Go's `netip.ParsePrefix`).
///
/// # Errors
/// The value, the rule, and how to write it.
pub(crate) fn parse(text: &str) -> Result<IpNet, String> {
    let block = parse_with_host_bits(text)?;
    if block.trunc() != block {
        return Err(format!(
            "{text:?} names an address within a block, not the block: write it {}",
            block.trunc()
        ));
    }
    Ok(block)
}

/// The same, where host bits may be set: records of old clusters have such blocks, and mean the
/// whole block.
pub(crate) fn parse_with_host_bits(text: &str) -> Result<IpNet, String> {
    // The one thing that Go refuses and IpNet reads.
    let has_leading_zero = text
        .rsplit_once('/')
        .is_some_and(|(_, length)| length != "0" && length.starts_with('0'));
    let block = text.parse::<IpNet>().ok().filter(|_| !has_leading_zero);
    block.ok_or_else(|| {
        if text.is_empty() {
            "is missing: write a block of addresses like 10.128.0.0/14".to_owned()
        } else {
            format!("{text:?} is not a block of addresses: write it in CIDR notation, like 10.128.0.0/14 or fd01::/48")
        }
    })
}

/// How many bits of an address are a node's own, by whichever of the two fields is there. 0 if
/// neither says so.
pub(crate) fn host_bits(
    network: &ClusterNetwork,
    block: IpNet,
    field: &str,
    problems: &mut Problems,
) -> u8 {
    let said = |value: Option<i64>| value.filter(|value| *value != 0);
    let width = i64::from(block.max_prefix_len());
    let bits = match (said(network.host_subnet_length), said(network.host_prefix)) {
        (None, None) => return 0,
        (Some(bits), None) => bits,
        (None, Some(prefix)) => width.saturating_sub(prefix),
        (Some(_), Some(_)) => {
            problems
                .push(&format!("{field}.hostPrefix"), "says the same as hostSubnetLength, the other way round: keep hostSubnetLength only");
            return 0;
        }
    };
    // A network of one bit has no address left next to its own and that of broadcast.
    let most = width - i64::from(block.prefix_len());
    let fitting = u8::try_from(bits)
        .ok()
        .filter(|_| (2..=most).contains(&bits));
    fitting.unwrap_or_else(|| {
        if most < 2 {
            problems.push(
                &format!("{field}.cidr"),
                format!("{block} is too small to be divided among nodes: choose a larger block"),
            );
        } else if let Some(prefix) = said(network.host_prefix) {
            let range = format!("{} to {}", block.prefix_len(), width - 2);
            problems.push(
                &format!("{field}.hostPrefix"),
                format!("{prefix} does not fit into {block}: choose {range}"),
            );
        } else {
            problems.push(
                &format!("{field}.hostSubnetLength"),
                format!("{bits} does not fit into {block}: choose 2 to {most}"),
            );
        }
        0
    })
}

/// Returns the IP families that a configuration has blocks of.
pub(crate) fn families<'a>(blocks: impl IntoIterator<Item = &'a IpNet>) -> BTreeSet<&'static str> {
    blocks.into_iter().map(family).collect()
}

/// `IPv4` or `IPv6`.
pub(crate) fn family(block: &IpNet) -> &'static str {
    match block {
        IpNet::V4(_) => "IPv4",
        IpNet::V6(_) => "IPv6",
    }
}

/// Reports whether the two have an address in common.
pub(crate) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// Everything that must hold between the blocks, whatever the network is.
pub(crate) fn check(pods: &[Block], services: &[Block], problems: &mut Problems) {
    if services.len() > 2 {
        problems.push(
            "spec.serviceNetwork",
            format!(
                "has {} blocks: give one, or one of each address family",
                services.len()
            ),
        );
    } else if let [first, second] = services
        && family(&first.block) == family(&second.block)
    {
        problems.push(
            "spec.serviceNetwork",
            format!(
                "both {} and {} are {}: give one block of each address family",
                first.block,
                second.block,
                family(&first.block)
            ),
        );
    }
    let [of_pods, of_services] =
        [pods, services].map(|blocks| families(blocks.iter().map(|block| &block.block)));
    if !of_pods.is_empty() && !of_services.is_empty() && of_pods != of_services {
        let list =
            |families: &BTreeSet<&str>| families.iter().copied().collect::<Vec<_>>().join(" and ");
        let message = format!(
            "has {} while spec.clusterNetworks has {}: pods and services need the same address families",
            list(&of_services),
            list(&of_pods)
        );
        problems.push("spec.serviceNetwork", message);
    }
    let all: Vec<&Block> = pods.iter().chain(services).collect();
    for (index, one) in all.iter().enumerate() {
        for other in all
            .iter()
            .take(index)
            .filter(|other| overlap(&one.block, &other.block))
        {
            let message = format!(
                "{} overlaps {} of {}: choose blocks that have no address in common",
                one.block, other.block, other.field
            );
            problems.push(&one.field, message);
        }
        let reserved = RESERVED
            .iter()
            .filter_map(|(block, use_)| Some((block.parse::<IpNet>().ok()?, use_)));
        for (reserved, use_) in reserved.filter(|(reserved, _)| overlap(reserved, &one.block)) {
            problems.push(
                &one.field,
                format!(
                    "{} overlaps {reserved}, which is for {use_}: choose another block",
                    one.block
                ),
            );
        }
    }
}

/// Notes a problem if the network cannot use the blocks. `path` is the field of the list of pods'
/// blocks.
pub(crate) fn check_for(
    provider: &dyn Provider,
    pods: &[Block],
    services: &[Block],
    path: &str,
    problems: &mut Problems,
) {
    let can = provider.capabilities();
    let name = provider.name();
    for family in ["IPv4", "IPv6"] {
        let of_family: Vec<_> = pods
            .iter()
            .filter(|block| self::family(&block.block) == family)
            .collect();
        if let Some(most) = can.blocks_per_family.filter(|most| of_family.len() > *most) {
            let message = format!(
                "{} blocks of {family}, and {name} has at most {most}: join them in one block, or choose another type of network",
                of_family.len()
            );
            problems.push(path, message);
        }
        if family == "IPv6" && !can.ipv6 {
            for block in of_family {
                problems.push(
                    &block.field,
                    format!(
                        "{} is IPv6, which {name} does not have: give a block of IPv4",
                        block.block
                    ),
                );
            }
        }
    }
    for block in pods.iter().chain(services) {
        for (internal, use_) in provider
            .internal_blocks()
            .into_iter()
            .filter(|(internal, _)| overlap(internal, &block.block))
        {
            problems.push(
                &block.field,
                format!(
                    "{} overlaps {internal}, which {name} uses for {use_}: choose another block",
                    block.block
                ),
            );
        }
    }
}

/// Nodes whose own addresses lie in a block: packets for them would go to pods or services instead.
pub(crate) fn of_nodes(pods: &[PodNetwork], services: &[IpNet], facts: &Facts) -> Vec<Problem> {
    let pods = pods
        .iter()
        .enumerate()
        .map(|(index, network)| (format!("spec.clusterNetworks[{index}].cidr"), network.cidr));
    let services = services
        .iter()
        .map(|block| ("spec.serviceNetwork".to_owned(), *block));
    let within = |(field, block): (String, IpNet)| {
        let nodes = facts.nodes.iter().filter_map(|(name, node)| {
            Some((
                name,
                node.addresses
                    .iter()
                    .find(|address| block.contains(*address))?,
            ))
        });
        let nodes: Vec<_> = nodes
            .map(|(name, address)| format!("{name} ({address})"))
            .collect();
        (!nodes.is_empty()).then(|| Problem {
            field,
            message: format!("{block} holds the addresses of nodes: {}. Choose a block that the nodes' network does not use", some(&nodes)),
        })
    };
    pods.chain(services).filter_map(within).collect()
}

/// Returns the contradiction between the services' blocks of a configuration and those of the
/// cluster. Only the address families of the configuration count: the cluster may have another one
/// for others.
pub(crate) fn of_services(services: &[IpNet], facts: &Facts) -> Option<Problem> {
    let cidrs = facts.service_cidrs.iter();
    let actual: Vec<IpNet> = cidrs
        .filter_map(|cidr| cidr.parse::<IpNet>().ok())
        .collect();
    let of_family = |blocks: &[IpNet], wanted: &str| -> BTreeSet<IpNet> {
        let all = blocks.iter().copied();
        all.filter(|block| family(block) == wanted).collect()
    };
    let differs = families(services)
        .into_iter()
        .any(|wanted| of_family(services, wanted) != of_family(&actual, wanted));
    let list = |blocks: &[IpNet]| {
        let texts: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    (differs && !actual.is_empty()).then(|| Problem {
        field: "spec.serviceNetwork".to_owned(),
        message: format!(
            "{} contradicts the cluster, which has {} (ServiceCIDR kubernetes). Services get their addresses from --service-cluster-ip-range of the API server, and a NetworkConfig does not change it: correct the field, or that argument",
            list(services),
            list(&actual)
        ),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_is_written_as_go_and_cel_read_it() {
        for text in [
            "10.128.0.0/14",
            "0.0.0.0/0",
            "fd01::/48",
            "FD01::/48",
            "192.0.2.1/32",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in [
            "10.128.0.0",
            "10.128.0.0/",
            "10.128.0.0/014",
            "10.0.0.0/08",
            "fd01::/048",
            "10.0.0.0/00",
            "10.128.0.0/+14",
            "10.128.0.0/33",
            "10.128.0/14",
            " 10.0.0.0/8",
            "fd01::%eth0/48",
        ] {
            assert!(parse(text).unwrap_err().contains("CIDR notation"), "{text}");
        }
        assert!(parse("").unwrap_err().starts_with("is missing"));
        let error = parse("10.129.3.4/14").unwrap_err();
        assert!(error.ends_with("write it 10.128.0.0/14"), "{error}");
        assert_eq!(
            parse_with_host_bits("10.129.3.4/14")
                .unwrap()
                .trunc()
                .to_string(),
            "10.128.0.0/14"
        );
    }

    #[test]
    fn services_that_the_cluster_has_elsewhere_are_a_contradiction() {
        let problem = |ours: &[&str], cluster: &[&str]| {
            let services: Vec<IpNet> = ours.iter().map(|block| block.parse().unwrap()).collect();
            let facts = Facts {
                service_cidrs: cluster.iter().map(|cidr| (*cidr).to_owned()).collect(),
                ..Facts::default()
            };
            of_services(&services, &facts)
                .as_ref()
                .map(ToString::to_string)
        };
        let (v4, v6) = ("10.96.0.0/16", "fd00:96::/112");
        let agreed: [(&[&str], &[&str]); 7] = [
            (&[v4], &[v4]),
            (&[v4, v6], &[v6, v4]),
            (&[v6], &["fd00:0096:0::/112"]),
            // The second family of the cluster is for others.
            (&[v4], &[v4, v6]),
            // An older cluster, OpenShift, or no permission to look.
            (&[v4], &[]),
            (&[v4], &["garbage"]),
            (&[], &[v4]),
        ];
        for (ours, cluster) in agreed {
            assert_eq!(problem(ours, cluster), None, "{ours:?} {cluster:?}");
        }
        let contradictory: [(&[&str], &[&str]); 5] = [
            (&["172.30.0.0/16"], &[v4]),
            (&["10.96.0.0/12"], &[v4]),
            (&[v4, "fd00:97::/112"], &[v4, v6]),
            (&[v4, v6], &[v4]),
            (&[v6], &[v4]),
        ];
        for (ours, cluster) in contradictory {
            let found = problem(ours, cluster).unwrap_or_default();
            let expected = format!(
                "spec.serviceNetwork: {} contradicts the cluster, which has {} (ServiceCIDR kubernetes). ",
                ours.join(", "),
                cluster.join(", ")
            );
            assert!(
                found.starts_with(&expected),
                "{ours:?} {cluster:?}: {found}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", near in "[0-9a-f.:/]{0,24}") {
            let _ = (parse(&text), parse(&near));
        }

        #[test]
        fn a_parsed_block_is_its_own_canonical_form(bits in any::<u32>(), length in 0_u8..=32) {
            let block = IpNet::new(std::net::Ipv4Addr::from_bits(bits).into(), length).unwrap();
            prop_assert_eq!(parse(&block.to_string()).is_ok(), block.trunc() == block);
            prop_assert_eq!(parse(&block.trunc().to_string()), Ok(block.trunc()));
        }

        #[test]
        fn blocks_overlap_exactly_if_one_holds_the_others_first_address(a in any::<u32>(), b in any::<u32>(), la in 0_u8..=32, lb in 0_u8..=32) {
            let block = |bits: u32, length| IpNet::new(std::net::Ipv4Addr::from_bits(bits).into(), length).unwrap().trunc();
            let (a, b) = (block(a, la), block(b, lb));
            prop_assert_eq!(overlap(&a, &b), a.contains(&b.network()) || b.contains(&a.network()));
        }
    }
}
