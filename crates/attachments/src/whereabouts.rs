//! The section `ipam` of whereabouts, which gives out the addresses of a range once in a cluster.

use std::net::IpAddr;

use serde_json::Value;

use crate::{
    Config, Plugin,
    address::{self, Block, Span},
    chain,
    go::{Shape, field, text},
    section::Judge,
};

/// The name of the program.
pub(crate) const KIND: &str = "whereabouts";

/// The fields of the section (`IPAMConfig` of its package `types`).
const FIELDS: [(&str, Shape); 13] = [
    ("range", Shape::String),
    ("range_start", Shape::String),
    ("range_end", Shape::String),
    ("exclude", Shape::Strings),
    ("ipRanges", Shape::Objects),
    ("gateway", Shape::String),
    ("node_slice_size", Shape::String),
    ("network_name", Shape::String),
    ("enable_overlapping_ranges", Shape::Boolean),
    ("sleep_for_race", Shape::Integer),
    ("log_file", Shape::String),
    ("log_level", Shape::String),
    ("configuration_path", Shape::String),
];

/// The fields of an entry of `ipRanges` (`RangeConfiguration`).
const FIELDS_OF_A_RANGE: [(&str, Shape); 4] = [
    ("range", Shape::String),
    ("range_start", Shape::String),
    ("range_end", Shape::String),
    ("exclude", Shape::Strings),
];

const A_RANGE: &str = "a range: write it like 192.0.2.0/24 or 192.0.2.10-192.0.2.50/24";

/// The pools of addresses that a section leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pools {
    /// The name of the network, within which an address is given out once. Usually empty.
    pub(crate) network: String,
    /// True if whereabouts looks in the other pools of the network, too, before it gives out an
    /// address.
    pub(crate) checks_others: bool,
    /// The length of the prefix of each node's part, if there are such parts.
    pub(crate) slice: Option<String>,
    /// The ranges.
    pub(crate) ranges: Vec<Range>,
}

/// A range that whereabouts gives addresses of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The path of the field in the section.
    pub(crate) path: String,
    /// The block, which names the pool.
    pub(crate) block: Block,
    /// The addresses of it that pods get, as long as they are not excluded.
    pub(crate) addresses: Span,
    /// The excluded addresses.
    pub(crate) excluded: Vec<Span>,
}

impl Pools {
    /// Reads the section of a plugin. `None` if it is not one of whereabouts, or if whereabouts
    /// refuses it.
    pub(crate) fn of(config: &Config, plugin: &Plugin<'_>) -> Option<Self> {
        if text(plugin.ipam(), "type") != KIND {
            return None;
        }
        let mut verdicts = Vec::new();
        let pools = judge(config, plugin, &mut Judge::of(plugin, &mut verdicts));
        pools.filter(|_| !verdicts.iter().any(crate::Verdict::stops_pods))
    }
}

/// Judges the section of whereabouts (`LoadIPAMConfig` of its package `config`, `AssignIP` of
/// `allocate`), and returns its pools. `None` if fields have other types.
pub(crate) fn judge(
    config: &Config,
    plugin: &Plugin<'_>,
    judge: &mut Judge<'_, '_>,
) -> Option<Pools> {
    let section = judge.section;
    let fits = judge.shapes("", section, &FIELDS);
    judge.addresses(Block::parse_with_zeros);
    if !fits {
        return None;
    }
    judge.ip("gateway", text(section, "gateway"), address::ip_with_zeros);
    let slice = text(section, "node_slice_size");
    let mut ranges = Vec::new();
    if text(section, "range").is_empty() {
        unused_without_a_range(judge);
    } else {
        ranges.extend(range("", section, slice, judge));
    }
    let further = field(section, "ipRanges").as_array();
    for (index, entry) in further.into_iter().flatten().enumerate() {
        let path = format!("ipRanges[{index}].");
        if judge.shapes(&path, entry, &FIELDS_OF_A_RANGE) {
            ranges.extend(range(&path, entry, slice, judge));
        }
    }
    if !slice.is_empty() {
        judge_slice(config, plugin, slice, ranges.first(), judge);
    }
    Some(Pools {
        network: text(section, "network_name").to_owned(),
        checks_others: *field(section, "enable_overlapping_ranges") != false,
        slice: (!slice.is_empty()).then(|| slice.trim_start_matches('/').to_owned()),
        ranges,
    })
}

/// Doubts fields that count for `range` alone, where there is none. The range itself may come from
/// a file on the node (`whereabouts.d/whereabouts.conf`).
fn unused_without_a_range(judge: &mut Judge<'_, '_>) {
    let section = judge.section;
    let is_empty = |name: &str| match field(section, name) {
        Value::Array(items) => items.is_empty(),
        value => chain::is_blank(value),
    };
    if is_empty("ipRanges") {
        if is_empty("addresses") {
            judge.doubt(
                "range",
                "is missing, so pods get addresses only if whereabouts.conf on their node has a range: write a range such as 192.0.2.0/24",
            );
        }
        return;
    }
    for name in ["range_start", "range_end", "exclude"] {
        if !is_empty(name) {
            let message =
                "has no effect without range: move it into the entry of ipRanges that it is about";
            judge.doubt(name, message);
        }
    }
}

/// Reads a range. `path` is the place of its fields, with a dot at its end.
fn range(path: &str, object: &Value, slice: &str, judge: &mut Judge<'_, '_>) -> Option<Range> {
    let at = |name: &str| format!("{path}{name}");
    let written = text(object, "range");
    let (before, block) = match written.split_once('-') {
        Some((first, block)) => (Some(first), block),
        None => (None, written),
    };
    let first = before.map(address::ip_with_zeros);
    let Some(found) = Block::parse_with_zeros(block).filter(|_| first != Some(None)) else {
        judge.refuse(&at("range"), format!("{written:?} is not {A_RANGE}"));
        return None;
    };
    let span = found.span();
    // Of the first and the last address of a block, whereabouts gives out none, IPv6 included.
    let Some(usable) = span.inner() else {
        let message = format!(
            "{written:?} has no address for a pod: choose a block of 4 or more, such as a /30"
        );
        judge.refuse(&at("range"), message);
        return None;
    };
    let (first, last) = match first.flatten() {
        Some(first) if !span.contains(first) => {
            let message = format!(
                "{first} is not in {}, which follows it: choose an address of this block",
                found.network()
            );
            judge.refuse(&at("range"), message);
            return None;
        }
        Some(first) => (Some(first), Some(found.address)),
        None => (
            end(path, "range_start", object, judge),
            end(path, "range_end", object, judge),
        ),
    };
    // An end that cannot be used is left out without a message (`GetIPRange`).
    let mut addresses = usable;
    for (name, end, of) in [("range_start", first, 0), ("range_end", last, 1)] {
        let Some(end) = end else { continue };
        let ends = match of {
            0 => (end, addresses.last()),
            _ => (addresses.first(), end),
        };
        if let Some(within) = Span::between(ends.0, ends.1).filter(|_| addresses.contains(end)) {
            addresses = within;
        } else if before.is_none() && !span.contains(end) {
            let message = format!(
                "{end} is not in {}, so whereabouts ignores it: choose an address of the range",
                found.network()
            );
            judge.doubt(&at(name), message);
        } else if before.is_none() && name == "range_end" && usable.contains(end) {
            let message = format!(
                "{end} is before range_start, so whereabouts ignores it: choose one from {} to {}",
                addresses.first(),
                addresses.last()
            );
            judge.doubt(&at(name), message);
        }
    }
    let excluded = exclusions(path, object, slice, found, judge);
    if addresses.is_covered(&excluded) {
        judge.refuse(
            &at("exclude"),
            format!("leaves no address of {written}: exclude less, or choose a larger range"),
        );
    }
    Some(Range {
        path: at("range"),
        block: found.network(),
        addresses,
        excluded,
    })
}

/// Reads an end of a range. Go refuses a wrong one in `ipRanges`, and whereabouts leaves out one
/// next to `range` without a message (`backwardsCompatibleIPAddress`).
fn end(path: &str, name: &str, object: &Value, judge: &mut Judge<'_, '_>) -> Option<IpAddr> {
    let written = text(object, name);
    if !path.is_empty() {
        return judge.ip(&format!("{path}{name}"), written, address::ip);
    }
    let found = address::ip_with_zeros(written);
    if found.is_none() && !written.is_empty() {
        let message = format!(
            "{written:?} is not an IP address, so whereabouts ignores it: write it like 192.0.2.10"
        );
        judge.doubt(name, message);
    }
    found
}

/// Reads the blocks and addresses that a range excludes.
fn exclusions(
    path: &str,
    object: &Value,
    slice: &str,
    block: Block,
    judge: &mut Judge<'_, '_>,
) -> Vec<Span> {
    let list: Vec<&str> = field(object, "exclude")
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| entry.as_str().unwrap_or_default())
        .collect();
    if !slice.is_empty() {
        if !list.is_empty() {
            // k8snetworkplumbingwg/whereabouts#666.
            let message = "has no effect together with node_slice_size: whereabouts gives out these addresses, too. Choose a range without them, or remove node_slice_size";
            judge.doubt(&format!("{path}exclude"), message);
        }
        return Vec::new();
    }
    let mut excluded = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let at = format!("{path}exclude[{index}]");
        let found = Block::parse(entry).or_else(|| address::ip(entry).map(Block::of_one));
        let Some(found) = found else {
            let message = format!(
                "{entry:?} is not an IP address or a block of them: write it like 192.0.2.10 or 192.0.2.0/28"
            );
            judge.refuse(&at, message);
            continue;
        };
        if found.span().common(&block.span()).is_none() {
            let message = format!(
                "{entry} has no effect, because it is outside of the range {}: remove it, or correct one of them",
                block.network()
            );
            judge.doubt(&at, message);
        }
        excluded.push(found.span());
    }
    excluded
}

/// Judges the size of the part of the range that each node gets (`DivideRangeBySize`).
fn judge_slice(
    config: &Config,
    plugin: &Plugin<'_>,
    slice: &str,
    range: Option<&Range>,
    judge: &mut Judge<'_, '_>,
) {
    const NAME: &str = "node_slice_size";
    let digits = slice.strip_prefix('/').unwrap_or(slice);
    match (digits.parse::<u32>().ok(), range) {
        (None, _) => {
            let message = format!("{slice:?} is not the length of a prefix: write it like /26");
            judge.refuse(NAME, message);
        }
        (Some(_), Some(range)) if !range.block.address.is_ipv4() => {
            let message = format!(
                "{slice:?} divides the range of IPv4 only, and {} is one of IPv6: remove it",
                range.block
            );
            judge.refuse(NAME, message);
        }
        (Some(size), Some(range)) if size < range.block.prefix || size > 30 => {
            let message = format!(
                "{slice:?} must be from /{} to /30, so that each part is in the range {} and has addresses for pods",
                range.block.prefix.min(30),
                range.block
            );
            judge.refuse(NAME, message);
        }
        _ => {}
    }
    // The controller of the parts reads the first plugin of a list without the name of the list,
    // and never the name of the definition (`LoadIPAMConfiguration`).
    let has_name = !text(plugin.fields, "name").is_empty()
        || (!config.is_list() && !config.name().is_empty())
        || !text(judge.section, "network_name").is_empty();
    if !has_name {
        let message = "needs network_name next to it, or name next to type: without them the controller of whereabouts cannot name the object with the parts, and no pod gets an address";
        judge.doubt(NAME, message);
    } else if !plugin.is_first() {
        let message = "has no effect on the controller of whereabouts, which reads the first plugin of a list only: put this plugin first";
        judge.doubt(NAME, message);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Level;

    fn config(ipam: &str) -> Config {
        let text = format!(
            r#"{{"cniVersion": "1.0.0", "name": "lab", "type": "macvlan", "master": "eth1", "ipam": {{"type": "whereabouts", {ipam}}}}}"#
        );
        Config::read(&text).unwrap()
    }

    fn verdicts(ipam: &str) -> Vec<String> {
        let config = config(ipam);
        let letter = |level| if level == Level::Refused { "R" } else { "D" };
        config
            .verdicts()
            .iter()
            .map(|verdict| format!("{} {verdict}", letter(verdict.level)))
            .collect()
    }

    /// The first and the last address of each range.
    fn addresses(ipam: &str) -> Vec<String> {
        let config = config(ipam);
        let pools = Pools::of(&config, &config.plugins()[0]).unwrap();
        pools
            .ranges
            .iter()
            .map(|range| {
                format!(
                    "{} {}-{}",
                    range.block,
                    range.addresses.first(),
                    range.addresses.last()
                )
            })
            .collect()
    }

    #[test]
    fn a_range_has_the_addresses_that_whereabouts_gives() {
        for (ipam, expected) in [
            (
                r#""range": "192.0.2.225/28""#,
                &["192.0.2.224/28 192.0.2.225-192.0.2.238"][..],
            ),
            (
                r#""range": "192.0.2.0/24", "range_start": "192.0.2.50", "range_end": "192.0.2.100""#,
                &["192.0.2.0/24 192.0.2.50-192.0.2.100"],
            ),
            (
                r#""range": "192.0.2.225-192.0.2.230/28", "range_start": "ignored""#,
                &["192.0.2.224/28 192.0.2.225-192.0.2.230"],
            ),
            (
                r#""range": "010.0.0.0/24", "range_start": "010.0.0.010""#,
                &["10.0.0.0/24 10.0.0.10-10.0.0.254"],
            ),
            (
                r#""range": "2001:db8::/64", "exclude": ["2001:db8::/120", "2001:db8::1:1"]"#,
                &["2001:db8::/64 2001:db8::1-2001:db8::ffff:ffff:ffff:fffe"],
            ),
            (
                r#""range": "192.0.2.0/24", "range_start": "192.0.2.0", "range_end": "192.0.2.255", "ipRanges": [{"range": "198.51.100.0/30"}, {"range": "2001:db8::/126", "range_end": "2001:db8::1"}]"#,
                &[
                    "192.0.2.0/24 192.0.2.1-192.0.2.254",
                    "198.51.100.0/30 198.51.100.1-198.51.100.2",
                    "2001:db8::/126 2001:db8::1-2001:db8::1",
                ],
            ),
            (
                r#""range": "10.0.0.0/8", "node_slice_size": "/22", "network_name": "lab""#,
                &["10.0.0.0/8 10.0.0.1-10.255.255.254"],
            ),
            (r#""addresses": [{"address": "192.0.2.7/24"}]"#, &[]),
        ] {
            assert_eq!(verdicts(ipam), [""; 0], "{ipam}");
            assert_eq!(addresses(ipam), expected, "{ipam}");
        }
    }

    #[test]
    fn a_section_that_whereabouts_refuses_is_named_with_rule_and_fix() {
        let not_a_range = |written: &str| {
            format!(
                "R ipam.range {written:?} is not a range: write it like 192.0.2.0/24 or 192.0.2.10-192.0.2.50/24"
            )
        };
        for (ipam, expected) in [
            (r#""range": "192.0.2.0""#, not_a_range("192.0.2.0")),
            (r#""range": "192.0.2.10-192.0.2.50""#, not_a_range("192.0.2.10-192.0.2.50")),
            (r#""range": "192.0.2.10 - 192.0.2.50/24""#, not_a_range("192.0.2.10 - 192.0.2.50/24")),
            (r#""range": "192.0.2.0/24,198.51.100.0/24""#, not_a_range("192.0.2.0/24,198.51.100.0/24")),
            (
                r#""range": "192.0.3.10-192.0.2.50/24""#,
                "R ipam.range 192.0.3.10 is not in 192.0.2.0/24, which follows it: choose an address of this block".to_owned(),
            ),
            (
                r#""range": "192.0.2.7/32""#,
                r#"R ipam.range "192.0.2.7/32" has no address for a pod: choose a block of 4 or more, such as a /30"#.to_owned(),
            ),
            (
                r#""range": ["192.0.2.0/24"]"#,
                "R ipam.range must be a string, not a list".to_owned(),
            ),
            (
                r#""ipRanges": [{}]"#,
                r#"R ipam.ipRanges[0].range "" is not a range: write it like 192.0.2.0/24 or 192.0.2.10-192.0.2.50/24"#.to_owned(),
            ),
            (
                r#""ipRanges": [{"range": "192.0.2.0/24", "range_start": "192.0.2.010"}]"#,
                r#"R ipam.ipRanges[0].range_start "192.0.2.010" is not an IP address: write it like 192.0.2.1"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "exclude": "192.0.2.0/28""#,
                r#"R ipam.exclude must be a list of strings, not "192.0.2.0/28": put it in brackets"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "exclude": ["192.0.2.1-192.0.2.9"]"#,
                r#"R ipam.exclude[0] "192.0.2.1-192.0.2.9" is not an IP address or a block of them: write it like 192.0.2.10 or 192.0.2.0/28"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "exclude": ["192.0.2.0/25", "192.0.2.128/25"]"#,
                "R ipam.exclude leaves no address of 192.0.2.0/24: exclude less, or choose a larger range".to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "gateway": "192.0.2""#,
                r#"R ipam.gateway "192.0.2" is not an IP address: write it like 192.0.2.1"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "enable_overlapping_ranges": "false""#,
                r#"R ipam.enable_overlapping_ranges must be a boolean, not "false": remove the quotes"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "node_slice_size": 26"#,
                "R ipam.node_slice_size must be a string, not 26: put it in quotes".to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "node_slice_size": "/x""#,
                r#"R ipam.node_slice_size "/x" is not the length of a prefix: write it like /26"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "node_slice_size": "/22""#,
                r#"R ipam.node_slice_size "/22" must be from /24 to /30, so that each part is in the range 192.0.2.0/24 and has addresses for pods"#.to_owned(),
            ),
            (
                r#""range": "2001:db8::/64", "node_slice_size": "/80""#,
                r#"R ipam.node_slice_size "/80" divides the range of IPv4 only, and 2001:db8::/64 is one of IPv6: remove it"#.to_owned(),
            ),
            (
                r#""range": "192.0.2.0/24", "routes": [{"dst": "0.0.0.0"}]"#,
                r#"R ipam.routes[0].dst "0.0.0.0" is not a block of addresses: write it like 192.0.2.0/24"#.to_owned(),
            ),
        ] {
            assert_eq!(verdicts(ipam), [expected], "{ipam}");
            assert_eq!(Pools::of(&config(ipam), &config(ipam).plugins()[0]).is_some(), ipam.contains("routes"));
        }
    }

    #[test]
    fn a_field_that_whereabouts_ignores_is_doubted() {
        for (ipam, expected) in [
            (
                r#""range": "192.0.2.0/24", "range_start": "192.0.2.300""#,
                r#"D ipam.range_start "192.0.2.300" is not an IP address, so whereabouts ignores it: write it like 192.0.2.10"#,
            ),
            (
                r#""range": "192.0.2.0/24", "range_end": "192.0.3.9""#,
                "D ipam.range_end 192.0.3.9 is not in 192.0.2.0/24, so whereabouts ignores it: choose an address of the range",
            ),
            (
                r#""range": "192.0.2.0/24", "range_start": "192.0.2.50", "range_end": "192.0.2.9""#,
                "D ipam.range_end 192.0.2.9 is before range_start, so whereabouts ignores it: choose one from 192.0.2.50 to 192.0.2.254",
            ),
            (
                r#""range": "192.0.2.0/24", "exclude": ["192.0.2.1", "192.0.3.0/28"]"#,
                "D ipam.exclude[1] 192.0.3.0/28 has no effect, because it is outside of the range 192.0.2.0/24: remove it, or correct one of them",
            ),
            (
                r#""range": "192.0.2.0/24", "node_slice_size": "/26", "exclude": ["192.0.2.1"]"#,
                "D ipam.exclude has no effect together with node_slice_size: whereabouts gives out these addresses, too. Choose a range without them, or remove node_slice_size",
            ),
            (
                r#""ipRanges": [{"range": "192.0.2.0/24"}], "exclude": ["192.0.2.1"]"#,
                "D ipam.exclude has no effect without range: move it into the entry of ipRanges that it is about",
            ),
            (
                r#""network_name": "lab""#,
                "D ipam.range is missing, so pods get addresses only if whereabouts.conf on their node has a range: write a range such as 192.0.2.0/24",
            ),
        ] {
            assert_eq!(verdicts(ipam), [expected], "{ipam}");
        }
    }

    #[test]
    fn parts_of_nodes_need_a_name_that_their_controller_reads() {
        let ipam = r#"{"type": "whereabouts", "range": "192.0.2.0/24", "node_slice_size": "26"}"#;
        let verdicts = |text: String| {
            let verdicts = Config::read(&text).unwrap().verdicts();
            let texts = verdicts.iter().map(ToString::to_string);
            texts.collect::<Vec<_>>().join("; ")
        };
        let nameless = verdicts(format!(r#"{{"type": "macvlan", "ipam": {ipam}}}"#));
        assert!(
            nameless.starts_with("ipam.node_slice_size needs network_name next to it"),
            "{nameless}"
        );
        let of_list = verdicts(format!(
            r#"{{"name": "lab", "plugins": [{{"type": "macvlan", "ipam": {ipam}}}]}}"#
        ));
        assert!(
            of_list.starts_with("plugins[0].ipam.node_slice_size needs"),
            "{of_list}"
        );
        let second = verdicts(format!(
            r#"{{"name": "lab", "plugins": [{{"type": "tuning"}}, {{"type": "macvlan", "name": "lab", "ipam": {ipam}}}]}}"#
        ));
        assert!(
            second.contains("which reads the first plugin of a list only"),
            "{second}"
        );
        assert_eq!(
            verdicts(format!(
                r#"{{"plugins": [{{"type": "macvlan", "name": "lab", "ipam": {ipam}}}]}}"#
            )),
            ""
        );
    }
}
