//! The CEL rules of the schema: what can never work is refused by `kubectl apply` itself.
//!
//! [`crate::rules`] describes common properties of all rules. `serviceNetwork` is a text or a list,
//! so CEL in a definition cannot see it. Its rules are in [`super::admission`].

use kube_core::Rule;

use super::{NAME, TYPES};
use crate::{
    patterns::{DNS_LABEL, DURATION, OBJECT_NAME},
    rules::{rule, rule_for},
};

/// One of some words, in whatever case. Releases of the original differ in which spellings they
/// know.
fn one_of(words: &[&str]) -> [Rule; 1] {
    let lower: Vec<_> = words
        .iter()
        .map(|word| format!("'{}'", word.to_lowercase()))
        .collect();
    let (last, others) = words.split_last().unwrap_or((&"", &[]));
    [rule(
        format!("self == '' || self.lowerAscii() in [{}]", lower.join(", ")),
        format!("must be {} or {last}", others.join(", ")),
    )]
}

/// The type of the default network is this one.
fn is_type(name: &str) -> String {
    format!(
        "has(self.defaultNetwork) && has(self.defaultNetwork.type) && self.defaultNetwork.type.lowerAscii() == '{}'",
        name.to_lowercase()
    )
}

/// Something about the pods' blocks that holds in whichever spelling they are written. To CEL the
/// two lists have different types.
fn of_blocks(holds: impl Fn(&str) -> String) -> String {
    let spelling = |field: &str| {
        format!(
            "(!has(self.{field}) || {})",
            holds(&format!("self.{field}"))
        )
    };
    format!(
        "{} && {}",
        spelling("clusterNetworks"),
        spelling("clusterNetwork")
    )
}

/// How many of these blocks are of this family.
fn of_family(blocks: &str, family: u8) -> String {
    format!(
        "{blocks}.filter(block, has(block.cidr) && isCIDR(block.cidr) && cidr(block.cidr).ip().family() == {family}).size()"
    )
}

/// OpenShiftSDN needs the size of each node's share of a block. `share` names the field that gives
/// this size in this spelling of the list.
fn divided_by_openshift_sdn(list: &str, share: &str) -> Rule {
    let blocks = format!("self.{list}");
    let has_share =
        "has(block.hostPrefix) || has(block.hostSubnetLength) && block.hostSubnetLength > 0";
    rule_for(
        &format!(".{list}"),
        format!(
            "!({}) || !has({blocks}) || {blocks}.all(block, {has_share}) && {} == 0",
            is_type("OpenShiftSDN"),
            of_family(&blocks, 6)
        ),
        format!(
            "OpenShiftSDN divides IPv4 blocks among the nodes: give each of {list} an IPv4 cidr and {share}"
        ),
    )
}

/// Flannel knows one block of each address family.
fn one_block_a_family(list: &str) -> Rule {
    let blocks = format!("self.{list}");
    rule_for(
        &format!(".{list}"),
        format!(
            "!({}) || !has({blocks}) || {} <= 1 && {} <= 1",
            is_type("Flannel"),
            of_family(&blocks, 4),
            of_family(&blocks, 6)
        ),
        format!(
            "Flannel has at most one block of each address family: join the blocks of {list}, or choose another type"
        ),
    )
}

/// For `metadata.name`.
pub(super) fn name() -> [Rule; 1] {
    [rule(
        format!("self == '{NAME}'"),
        "only the NetworkConfig named default is acted on: set metadata.name to default",
    )]
}

/// For the specification.
pub(super) fn spec() -> [Rule; 8] {
    [
        rule_for(
            ".clusterNetwork",
            "!(has(self.clusterNetworks) && has(self.clusterNetwork))",
            "clusterNetworks and clusterNetwork are one setting: keep clusterNetworks, remove clusterNetwork",
        ),
        rule_for(
            ".clusterNetworks",
            format!(
                "({}) || has(self.clusterNetworks) && self.clusterNetworks.size() > 0 || has(self.clusterNetwork) && self.clusterNetwork.size() > 0",
                is_type("None")
            ),
            "clusterNetworks is missing: add at least one block of addresses for pods, for example {cidr: 10.128.0.0/14, hostSubnetLength: 9}",
        ),
        divided_by_openshift_sdn("clusterNetworks", "hostSubnetLength, for example 9"),
        divided_by_openshift_sdn("clusterNetwork", "hostPrefix, for example 23"),
        one_block_a_family("clusterNetworks"),
        one_block_a_family("clusterNetwork"),
        rule_for(
            ".defaultNetwork.flannelConfig.mtu",
            format!(
                "!({}) || !has(self.defaultNetwork.flannelConfig) || !has(self.defaultNetwork.flannelConfig.mtu) || self.defaultNetwork.flannelConfig.mtu >= 1280 || {}",
                is_type("Flannel"),
                of_blocks(|blocks| format!("{} == 0", of_family(blocks, 6)))
            ),
            "IPv6 needs an MTU of 1280 or more: raise flannelConfig.mtu, or leave it out",
        ),
        rule_for(
            ".deployKubeProxy",
            format!(
                "!({}) || !(has(self.deployKubeProxy) && self.deployKubeProxy)",
                is_type("OpenShiftSDN")
            ),
            "OpenShiftSDN connects services itself: remove deployKubeProxy, or set it to false",
        ),
    ]
}

/// For a list of blocks.
pub(super) fn blocks() -> [Rule; 1] {
    let overlap =
        "(cidr(one.cidr).containsCIDR(other.cidr) || cidr(other.cidr).containsCIDR(one.cidr))";
    let is_cidr = |block: &str| format!("has({block}.cidr) && isCIDR({block}.cidr)");
    [rule(
        format!(
            "self.all(one, !({}) || self.filter(other, {} && cidr(one.cidr).ip().family() == cidr(other.cidr).ip().family() && {overlap}).size() == 1)",
            is_cidr("one"),
            is_cidr("other")
        ),
        "the blocks must not overlap: choose blocks that have no address in common",
    )]
}

/// For a block.
pub(super) fn block() -> [Rule; 3] {
    let is_cidr = "has(self.cidr) && isCIDR(self.cidr)";
    let bits = "(cidr(self.cidr).ip().family() == 4 ? 32 : 128)";
    [
        rule_for(
            ".hostPrefix",
            "!(has(self.hostSubnetLength) && has(self.hostPrefix))",
            "hostSubnetLength and hostPrefix are one setting: keep hostSubnetLength, remove hostPrefix",
        ),
        rule_for(
            ".hostSubnetLength",
            format!(
                "!({is_cidr}) || !has(self.hostSubnetLength) || self.hostSubnetLength == 0 || self.hostSubnetLength >= 2 && self.hostSubnetLength <= {bits} - cidr(self.cidr).prefixLength()"
            ),
            "what a node gets must be a part of the block, with 2 bits or more: hostSubnetLength from 2 to the number of bits that cidr leaves open",
        ),
        rule_for(
            ".hostPrefix",
            format!(
                "!({is_cidr}) || !has(self.hostPrefix) || self.hostPrefix == 0 || self.hostPrefix >= cidr(self.cidr).prefixLength() && self.hostPrefix <= {bits} - 2"
            ),
            "the prefix of a node must be a part of the block: hostPrefix from the length of the prefix in cidr to 30, or to 126 for IPv6",
        ),
    ]
}

/// For a block's addresses.
pub(super) fn cidr() -> [Rule; 1] {
    [rule(
        "isCIDR(self) && cidr(self) == cidr(self).masked()",
        "must be a block of addresses in CIDR notation with all host bits zero, for example 10.128.0.0/14",
    )]
}

/// For `defaultNetwork.type`.
pub(super) fn network_type() -> [Rule; 1] {
    let lower: Vec<_> = TYPES
        .iter()
        .map(|name| format!("'{}'", name.to_lowercase()))
        .collect();
    [rule(
        format!("self.lowerAscii() in [{}]", lower.join(", ")),
        format!("must be one of {}", TYPES.join(", ")),
    )]
}

/// For the mode of OpenShiftSDN.
pub(super) fn mode() -> [Rule; 1] {
    one_of(&["Subnet", "Multitenant", "NetworkPolicy"])
}

/// For Flannel's settings.
pub(super) fn flannel() -> [Rule; 3] {
    let backend = "(has(self.backend) && self.backend != '' ? self.backend.lowerAscii() : 'vxlan')";
    [
        rule(
            format!("!has(self.port) || {backend} != 'host-gw'"),
            "host-gw encapsulates nothing and has no port: remove port",
        ),
        rule(
            format!("!has(self.vni) || {backend} == 'vxlan'"),
            "only vxlan has a network identifier: remove vni",
        ),
        rule(
            format!("!has(self.directRouting) || !self.directRouting || {backend} == 'vxlan'"),
            "only vxlan knows direct routing: remove directRouting",
        ),
    ]
}

/// For Flannel's back end.
pub(super) fn backend() -> [Rule; 1] {
    one_of(&["vxlan", "host-gw", "wireguard"])
}

/// For Flannel's CNI plugin.
pub(super) fn cni_plugin() -> [Rule; 1] {
    one_of(&["bridge", "flannel"])
}

/// For the period of the service proxy.
pub(super) fn duration() -> [Rule; 2] {
    [
        rule(
            format!("self == '' || self.matches('{DURATION}')"),
            "must be a duration such as 30s or 1m30s (units: h, m, s, ms, us, ns), without a minus sign",
        ),
        rule(
            format!("!self.matches('{DURATION}') || duration(self) > duration('0s')"),
            "must be longer than zero, for example 30s",
        ),
    ]
}

/// For an address.
pub(super) fn ip_address() -> [Rule; 1] {
    [rule(
        "self == '' || isIP(self)",
        "must be an IPv4 or IPv6 address, for example 192.0.2.1",
    )]
}

/// For an additional network.
pub(super) fn additional_network() -> [Rule; 1] {
    [rule(
        "!(has(self.type) && self.type == 'Raw') || has(self.rawCNIConfig) && self.rawCNIConfig != ''",
        "a Raw network needs rawCNIConfig: the CNI configuration, a JSON object",
    )]
}

/// For the type of an additional network.
pub(super) fn additional_network_type() -> [Rule; 1] {
    [rule(
        "self in ['Raw', 'SimpleMacvlan']",
        "must be Raw or SimpleMacvlan",
    )]
}

/// For the name of an additional network.
pub(super) fn object_name() -> [Rule; 1] {
    [rule(
        format!("self.matches('{OBJECT_NAME}')"),
        "must be the name of an object: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )]
}

/// For the namespace of an additional network.
pub(super) fn namespace() -> [Rule; 1] {
    [rule(
        format!("self == '' || self.matches('{DNS_LABEL}')"),
        "must be the name of a namespace: lower-case letters, digits and '-', a letter or digit at both ends",
    )]
}

/// For an interface of a node.
pub(super) fn interface() -> [Rule; 1] {
    [rule(
        "self == '' || self.matches('^[^/:[:space:]]+$') && !(self in ['.', '..'])",
        "must be the name of an interface, for example eth1: no blanks, '/' and ':'",
    )]
}

/// For the mode of a macvlan network.
pub(super) fn macvlan_mode() -> [Rule; 1] {
    one_of(&["Bridge", "Private", "VEPA", "Passthru"])
}

/// For the MTU of a macvlan network. 68 is the least of IPv4 (RFC 791).
pub(super) fn macvlan_mtu() -> [Rule; 1] {
    [rule(
        "self == 0 || self >= 68",
        "must be 68 or more, or 0 for that of the node's interface",
    )]
}

/// For the type of address management.
pub(super) fn ipam_type() -> [Rule; 1] {
    one_of(&["DHCP", "Static"])
}

/// For an address with its prefix.
pub(super) fn address_with_prefix() -> [Rule; 1] {
    [rule(
        "isCIDR(self)",
        "must be an address and the length of its prefix, for example 192.0.2.10/24",
    )]
}
