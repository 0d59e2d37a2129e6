//! Ranges of whereabouts that several networks share, and whose addresses whereabouts may give out
//! twice.

use crate::{Config, Verdict, address::Span, whereabouts::Pools};

/// A network with ranges of whereabouts.
struct Network<'n> {
    /// The index among all networks.
    index: usize,
    name: &'n str,
    /// The path of the section, with a dot at its end.
    path: String,
    pools: Pools,
    /// The interface of the node and the VLAN, if the configuration names them.
    link: Option<(String, Option<String>)>,
}

/// Why whereabouts does not look for an address of one network in the pools of another one.
enum Gap<'n> {
    /// This network has switched the look off.
    Off(&'n str),
    /// The two have different values of `network_name`.
    Names(&'n str, &'n str),
}

/// Judges the networks of one cluster together. `networks` are their names, `namespace/name` of the
/// NetworkAttachmentDefinition, and configurations. Returns a doubt and the index of its network
/// for each network whose ranges share addresses with those of a network before it, where
/// whereabouts gives out such an address to a pod of each. Networks of one name are not compared,
/// since no cluster has both.
///
/// Networks of one range and one `network_name` have one pool, and no doubt. Otherwise whereabouts
/// looks in the other pools of the same `network_name`, unless `enable_overlapping_ranges` is false
/// (`IPManagementKubernetesUpdate` of its package `storage`).
pub fn verdicts(networks: &[(&str, &Config)]) -> Vec<(usize, Verdict)> {
    let known: Vec<_> = networks
        .iter()
        .enumerate()
        .flat_map(|(index, (name, config))| of(index, name, config))
        .collect();
    let mut found: Vec<(usize, Verdict)> = Vec::new();
    for (at, network) in known.iter().enumerate() {
        let before = known[..at]
            .iter()
            .filter(|before| before.name != network.name);
        let mut shared = before.filter_map(|before| {
            let gap = gap(network, before)?;
            let (path, addresses) = common(network, before)?;
            Some((path, addresses, before.name, gap))
        });
        if let Some((path, addresses, other, gap)) = shared.next() {
            let more = match shared.count() {
                0 => String::new(),
                more => format!(" and of {more} more"),
            };
            let message = message(network.name, other, &more, addresses, &gap);
            found.push((network.index, Verdict::doubtful(path, message)));
        }
    }
    found
}

fn message(name: &str, other: &str, more: &str, addresses: Span, gap: &Gap<'_>) -> String {
    let (first, last) = (addresses.first(), addresses.last());
    let which = match first == last {
        true => format!("{first} is an address"),
        false => format!("{first} to {last} are addresses"),
    };
    let why = match gap {
        Gap::Off(off) => {
            let off = if *off == name { "this one" } else { off };
            format!(
                "enable_overlapping_ranges of {off} is false: remove that, or choose ranges without common addresses"
            )
        }
        Gap::Names(one, another) => format!(
            "their network_name differs, {one:?} here and {another:?} there: give both the same, or choose ranges without common addresses, unless the two networks are isolated from each other"
        ),
    };
    format!(
        "{which} of NetworkAttachmentDefinition {other}{more}, too, and whereabouts may give one to two pods, because {why}"
    )
}

/// The plugins of a network that have ranges.
fn of<'n>(index: usize, name: &'n str, config: &'n Config) -> Vec<Network<'n>> {
    let plugins = config.plugins();
    let network = |plugin: &crate::Plugin<'_>| {
        Some(Network {
            index,
            name,
            path: plugin.path("ipam."),
            pools: Pools::of(config, plugin)?,
            link: plugin
                .node_interface()
                .map(|interface| (interface.to_owned(), plugin.vlan())),
        })
    };
    plugins.iter().filter_map(network).collect()
}

/// Returns the reason why whereabouts does not compare addresses of two networks. `None` if it
/// does, or need not.
fn gap<'n>(one: &'n Network<'n>, other: &'n Network<'n>) -> Option<Gap<'n>> {
    if one.pools.network != other.pools.network {
        // The name exists for networks that use the same addresses apart from each other. On
        // different interfaces of a node they are taken for such networks.
        let are_apart = one.link.is_some() && other.link.is_some() && one.link != other.link;
        return (!are_apart).then_some(Gap::Names(&one.pools.network, &other.pools.network));
    }
    let off = [one, other]
        .into_iter()
        .find(|network| !network.pools.checks_others)?;
    Some(Gap::Off(off.name))
}

/// The addresses that both networks give to pods from different pools, with the path of the range
/// in the first one.
fn common(one: &Network<'_>, other: &Network<'_>) -> Option<(String, Span)> {
    let has_one_pool =
        one.pools.network == other.pools.network && one.pools.slice == other.pools.slice;
    let mut pairs = one
        .pools
        .ranges
        .iter()
        .flat_map(|range| other.pools.ranges.iter().map(move |second| (range, second)));
    pairs.find_map(|(range, second)| {
        if has_one_pool && range.block == second.block {
            return None;
        }
        let common = range.addresses.common(&second.addresses)?;
        let excluded: Vec<_> = range
            .excluded
            .iter()
            .chain(&second.excluded)
            .copied()
            .collect();
        let is_given = !common.is_covered(&excluded);
        is_given.then(|| (format!("{}{}", one.path, range.path), common))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Judges networks, each given by fields of the configuration and of its section `ipam`. Their
    /// names are `lab/0`, `lab/1` and so on.
    fn found(networks: &[(&str, &str)]) -> Vec<String> {
        let texts = networks.iter().map(|(fields, ipam)| {
            format!(r#"{{"type": "macvlan", {fields}, "ipam": {{"type": "whereabouts", {ipam}}}}}"#)
        });
        let configs: Vec<_> = texts.map(|text| Config::read(&text).unwrap()).collect();
        let names: Vec<_> = (0..networks.len()).map(|n| format!("lab/{n}")).collect();
        let networks: Vec<_> = names.iter().map(String::as_str).zip(&configs).collect();
        verdicts(&networks)
            .into_iter()
            .map(|(index, verdict)| format!("{index}: {verdict}"))
            .collect()
    }

    const ETH1: &str = r#""master": "eth1""#;
    const OFF: &str = r#""enable_overlapping_ranges": false, "range": "#;

    #[test]
    fn ranges_that_whereabouts_compares_or_shares_have_no_verdict() {
        let off = |range: &str| format!("{OFF}{range}");
        for networks in [
            // Compared.
            vec![
                (ETH1, r#""range": "192.0.2.0/24""#.to_owned()),
                (ETH1, r#""range": "192.0.2.0/25""#.to_owned()),
            ],
            // One pool.
            vec![
                (ETH1, off(r#""192.0.2.0/24""#)),
                (ETH1, off(r#""192.0.2.10-192.0.2.50/24""#)),
            ],
            // No common address.
            vec![
                (ETH1, off(r#""192.0.2.0/25""#)),
                (ETH1, off(r#""192.0.2.128/25""#)),
            ],
            vec![
                (ETH1, off(r#""192.0.2.0/24""#)),
                (ETH1, off(r#""2001:db8::/64""#)),
            ],
            vec![
                (
                    ETH1,
                    off(r#""192.0.2.0/24", "exclude": ["192.0.2.0/26", "192.0.2.64/26"]"#),
                ),
                (ETH1, off(r#""192.0.2.0/25""#)),
            ],
            // Networks apart from each other.
            vec![
                (ETH1, r#""range": "192.0.2.0/24""#.to_owned()),
                (
                    r#""master": "eth1.7""#,
                    r#""range": "192.0.2.0/24", "network_name": "seven""#.to_owned(),
                ),
            ],
            // Refused anyway.
            vec![
                (ETH1, off(r#""192.0.2.0/24""#)),
                (ETH1, off(r#""192.0.2.0/99""#)),
            ],
        ] {
            let networks: Vec<_> = networks
                .iter()
                .map(|(fields, ipam)| (*fields, &**ipam))
                .collect();
            assert_eq!(found(&networks), [""; 0], "{networks:?}");
        }
    }

    #[test]
    fn ranges_that_whereabouts_does_not_compare_are_doubted() {
        let off = format!(r#"{OFF}"192.0.2.0/24""#);
        let half = r#""range": "192.0.2.0/25""#;
        assert_eq!(
            found(&[
                (ETH1, &off),
                (r#""master": "eth2""#, half),
                (ETH1, r#""range": "192.0.2.0/26""#)
            ]),
            [
                "1: ipam.range 192.0.2.1 to 192.0.2.126 are addresses of NetworkAttachmentDefinition lab/0, too, and whereabouts may give one to two pods, because enable_overlapping_ranges of lab/0 is false: remove that, or choose ranges without common addresses",
                "2: ipam.range 192.0.2.1 to 192.0.2.62 are addresses of NetworkAttachmentDefinition lab/0, too, and whereabouts may give one to two pods, because enable_overlapping_ranges of lab/0 is false: remove that, or choose ranges without common addresses",
            ]
        );
        let named = r#""network_name": "a", "ipRanges": [{"range": "198.51.100.0/24"}, {"range": "192.0.2.5-192.0.2.5/24"}]"#;
        assert_eq!(
            found(&[(ETH1, half), (ETH1, half), (ETH1, named)]),
            [
                r#"2: ipam.ipRanges[1].range 192.0.2.5 is an address of NetworkAttachmentDefinition lab/0 and of 1 more, too, and whereabouts may give one to two pods, because their network_name differs, "a" here and "" there: give both the same, or choose ranges without common addresses, unless the two networks are isolated from each other"#
            ]
        );
        let this_one = &found(&[(ETH1, half), (ETH1, &off)])[0];
        assert!(
            this_one.contains("enable_overlapping_ranges of this one is false"),
            "{this_one}"
        );
    }
}
