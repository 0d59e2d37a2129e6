//! The section `ipam` of a plugin: the rules of `static`, `host-local` and whereabouts.

use serde_json::Value;

use crate::{
    Config, Level, Plugin, Verdict,
    address::{self, Block, Span},
    go::{Shape, field, text},
    section::{A_BLOCK, Judge},
    whereabouts,
};

/// The programs that hand their section `ipam` to the program for addresses as it is. Another one
/// may fill it in before: the plugin of Calico takes `"subnet": "usePodCidr"` for `host-local`.
const DIRECT: [&str; 13] = [
    "bond",
    "bridge",
    "cnv-bridge",
    "dummy",
    "host-device",
    "ib-sriov",
    "ipvlan",
    "macvlan",
    "ovs",
    "ptp",
    "sriov",
    "tap",
    "vlan",
];

/// Judges the addresses that a plugin gives.
pub(crate) fn judge(config: &Config, plugin: &Plugin<'_>, verdicts: &mut Vec<Verdict>) {
    let first = verdicts.len();
    let mut judge = Judge::of(plugin, verdicts);
    match text(judge.section, "type") {
        "static" => {
            judge.addresses(Block::parse);
            judge.routes();
        }
        "host-local" => {
            host_local(plugin, &mut judge);
            judge.routes();
        }
        whereabouts::KIND => {
            whereabouts::judge(config, plugin, &mut judge);
            judge.routes();
        }
        _ => {}
    }
    if !DIRECT.contains(&plugin.kind()) {
        for verdict in &mut verdicts[first..] {
            verdict.level = Level::Doubtful;
        }
    }
}

/// Checks the ranges of `host-local` (`Canonicalize` of its package `allocator`).
fn host_local(plugin: &Plugin<'_>, judge: &mut Judge<'_, '_>) {
    let mut count = 0;
    if !field(judge.section, "subnet").is_null() {
        count += 1;
        host_local_range("", judge.section, judge);
    }
    match field(judge.section, "ranges") {
        Value::Null => {}
        Value::Array(sets) => {
            for (index, set) in sets.iter().enumerate() {
                count += 1;
                match set {
                    Value::Array(ranges)
                        if !ranges.is_empty() && ranges.iter().all(Value::is_object) =>
                    {
                        for (inner, range) in ranges.iter().enumerate() {
                            let path = format!("ranges[{index}][{inner}].");
                            host_local_range(&path, range, judge);
                        }
                    }
                    _ => judge.refuse(
                        &format!("ranges[{index}]"),
                        "must be a list of ranges, for example [{\"subnet\": \"192.0.2.0/24\"}]",
                    ),
                }
            }
        }
        _ => {
            count += 1;
            judge.refuse(
                "ranges",
                "must be a list of lists, for example [[{\"subnet\": \"192.0.2.0/24\"}]]",
            );
        }
    }
    // A pod may bring its ranges.
    let by_pods = &field(plugin.fields, "capabilities")["ipRanges"];
    if count == 0 && *by_pods != true {
        judge.refuse("subnet", "is missing: write a block such as 192.0.2.0/24");
    }
}

fn host_local_range(path: &str, range: &Value, judge: &mut Judge<'_, '_>) {
    let fields = [
        ("subnet", Shape::String),
        ("rangeStart", Shape::String),
        ("rangeEnd", Shape::String),
        ("gateway", Shape::String),
    ];
    if !judge.shapes(path, range, &fields) {
        return;
    }
    let at = |name: &str| format!("{path}{name}");
    let ends = ["rangeStart", "rangeEnd", "gateway"]
        .map(|name| (name, judge.ip(&at(name), text(range, name), address::ip)));
    let subnet = text(range, "subnet");
    let Some(block) = Block::parse(subnet) else {
        judge.refuse(&at("subnet"), format!("{subnet:?} is not {A_BLOCK}"));
        return;
    };
    if block.bits() - block.prefix < 2 {
        let message =
            format!("{subnet:?} is too small: choose at least 4 addresses, such as a /30");
        judge.refuse(&at("subnet"), message);
        return;
    }
    if block != block.network() {
        let message = format!(
            "{subnet:?} must be written with the address of its network: {}",
            block.network()
        );
        judge.refuse(&at("subnet"), message);
    }
    for (name, address) in ends {
        if let Some(address) = address
            && !block.span().contains(address)
        {
            judge.refuse(
                &at(name),
                format!(
                    "{address} is not in {}: choose an address of this block",
                    block.network()
                ),
            );
        }
    }
    if let [(_, Some(first)), (_, Some(last)), _] = ends
        && first.is_ipv4() == last.is_ipv4()
        && Span::between(first, last).is_none()
    {
        let message = format!("{last} must not be before rangeStart, {first}");
        judge.refuse(&at("rangeEnd"), message);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Config, Level};

    /// Judges the addresses of a plugin.
    fn verdicts(kind: &str, ipam: &str) -> Vec<(Level, String)> {
        let config = Config::read(&format!(r#"{{"type": "{kind}", "ipam": {ipam}}}"#)).unwrap();
        let verdicts = config.verdicts();
        verdicts
            .iter()
            .map(|verdict| (verdict.level, verdict.to_string()))
            .collect()
    }

    #[test]
    fn addresses_that_parse_have_no_verdicts() {
        for ipam in [
            r#"{}"#,
            r#"{"type": "dhcp", "subnet": "x", "routes": 1}"#,
            r#"{"type": "static"}"#,
            r#"{"type": "static", "addresses": [{"address": "192.0.2.10/24", "gateway": ""}, {"address": "2001:db8::10/64", "gateway": "2001:db8::1"}], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "198.51.100.7/24", "gw": "192.0.2.2", "mtu": 1400}]}"#,
            r#"{"type": "host-local", "subnet": "192.0.2.0/24"}"#,
            r#"{"type": "host-local", "subnet": "192.0.2.0/30", "rangeStart": "192.0.2.1", "rangeEnd": "192.0.2.2", "gateway": "192.0.2.1"}"#,
            r#"{"type": "host-local", "ranges": [[{"subnet": "192.0.2.0/24"}, {"subnet": "198.51.100.0/24"}], [{"subnet": "2001:db8::/64"}]]}"#,
            r#"{"type": "calico-ipam", "subnet": "usePodCidr"}"#,
        ] {
            assert_eq!(verdicts("macvlan", ipam), [], "{ipam}");
        }
        let by_pods = r#"{"type": "bridge", "capabilities": {"ipRanges": true}, "ipam": {"type": "host-local"}}"#;
        assert_eq!(Config::read(by_pods).unwrap().verdicts(), []);
    }

    #[test]
    fn each_address_that_does_not_parse_is_named() {
        for (ipam, expected) in [
            (
                r#"{"type": "static", "addresses": [{"address": "192.0.2.10"}, {}, {"address": "192.0.2.10/24", "gateway": "x"}]}"#,
                &[
                    r#"ipam.addresses[0].address "192.0.2.10" is not an address with the length of its prefix: write it like 192.0.2.10/24"#,
                    r#"ipam.addresses[1].address "" is not an address with the length of its prefix: write it like 192.0.2.10/24"#,
                    r#"ipam.addresses[2].gateway "x" is not an IP address: write it like 192.0.2.1"#,
                ][..],
            ),
            (
                r#"{"type": "static", "addresses": "192.0.2.10/24", "routes": [{"dst": "default"}, {"dst": "0.0.0.0/0", "gw": "192.0.2"}, {"dst": 0}]}"#,
                &[
                    r#"ipam.addresses must be a list of objects, not "192.0.2.10/24""#,
                    r#"ipam.routes[0].dst "default" is not a block of addresses: write it like 192.0.2.0/24"#,
                    r#"ipam.routes[1].gw "192.0.2" is not an IP address: write it like 192.0.2.1"#,
                    "ipam.routes[2].dst must be a string, not 0: put it in quotes",
                ],
            ),
            (
                r#"{"type": "host-local"}"#,
                &["ipam.subnet is missing: write a block such as 192.0.2.0/24"],
            ),
            (
                r#"{"type": "host-local", "subnet": "192.0.2.0"}"#,
                &[
                    r#"ipam.subnet "192.0.2.0" is not a block of addresses: write it like 192.0.2.0/24"#,
                ],
            ),
            (
                r#"{"type": "host-local", "subnet": "192.0.2.7/24", "rangeStart": "192.0.3.1", "gateway": "::1"}"#,
                &[
                    r#"ipam.subnet "192.0.2.7/24" must be written with the address of its network: 192.0.2.0/24"#,
                    "ipam.rangeStart 192.0.3.1 is not in 192.0.2.0/24: choose an address of this block",
                    "ipam.gateway ::1 is not in 192.0.2.0/24: choose an address of this block",
                ],
            ),
            (
                r#"{"type": "host-local", "ranges": [{"subnet": "192.0.2.0/24"}, [{"subnet": "192.0.2.0/31"}], [{"rangeStart": "192.0.2.9", "rangeEnd": "192.0.2.1", "subnet": "192.0.2.0/24"}]]}"#,
                &[
                    r#"ipam.ranges[0] must be a list of ranges, for example [{"subnet": "192.0.2.0/24"}]"#,
                    r#"ipam.ranges[1][0].subnet "192.0.2.0/31" is too small: choose at least 4 addresses, such as a /30"#,
                    "ipam.ranges[2][0].rangeEnd 192.0.2.1 must not be before rangeStart, 192.0.2.9",
                ],
            ),
        ] {
            let found: Vec<_> = verdicts("macvlan", ipam)
                .into_iter()
                .map(|(level, text)| {
                    assert_eq!(level, Level::Refused, "{text}");
                    text
                })
                .collect();
            assert_eq!(found, expected, "{ipam}");
        }
    }

    #[test]
    fn addresses_of_an_unknown_plugin_are_doubted_and_not_refused() {
        let found = verdicts(
            "calico",
            r#"{"type": "host-local", "subnet": "usePodCidr"}"#,
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Level::Doubtful);
    }
}
