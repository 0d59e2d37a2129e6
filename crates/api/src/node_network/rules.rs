//! The CEL rules of the schemas: what can never work is refused by `kubectl apply` itself.
//!
//! [`crate::rules`] describes common properties of all rules. The schema leaves the inside of a
//! desired state open, so CEL in a definition cannot see it. Its rules are in [`super::admission`].

use kube_core::Rule;

use super::patterns::{
    ADDRESS_RANGE, BIND_ADDRESS, DNS_NAME, DURATION, EXCLUDED_RANGE, GLOB, INTERFACE_TYPE,
    MAX_UNAVAILABLE, POOL_NAME, WEB_ADDRESS,
};
use crate::{
    rules::{empty_or, matches, rule, rule_for},
    scheduling,
};

/// For a `NodeNetworkState` as a whole.
pub(super) fn state() -> [Rule; 1] {
    [rule_for(
        ".spec.nodeName",
        "!has(self.spec) || !has(self.spec.nodeName) || self.spec.nodeName == '' || self.spec.nodeName == self.metadata.name",
        "a NodeNetworkState is about the node of its own name: set nodeName to the value of metadata.name, or remove it",
    )]
}

/// For the name of a policy. The rest of what the value of a label must be follows from what the
/// name of an object must be.
pub(super) fn policy_name() -> [Rule; 1] {
    [rule(
        "self.size() <= 63",
        "must be no more than 63 characters: enactments carry it as the label nmstate.io/policy",
    )]
}

/// For the name of an `NMState`.
pub(super) fn installation_name() -> [Rule; 1] {
    [rule(
        "self.size() <= 55",
        "must be no more than 55 characters: what is installed carries it in a label, as nmstate.<name>",
    )]
}

/// For the specification of a policy.
pub(super) fn policy() -> [Rule; 3] {
    [
        rule_for(
            ".autoConfig",
            "!has(self.autoConfig) || !has(self.autoConfig.autoBonding) || !self.autoConfig.autoBonding || has(self.match) && has(self.match.interfaces) && has(self.match.interfaces.lldp) && has(self.match.interfaces.lldp.vlan__dash__ids) && self.match.interfaces.lldp.vlan__dash__ids.size() > 0",
            "autoBonding needs match.interfaces.lldp.vlan-ids: list the VLANs whose cards are bonded",
        ),
        rule_for(
            ".match",
            "!has(self.match) || has(self.match.interfaces)",
            "match needs interfaces: set match.interfaces.name or match.interfaces.type, or remove match",
        ),
        rule_for(
            ".desiredState",
            "!has(self.match) || has(self.desiredState) || has(self.autoConfig) && has(self.autoConfig.autoBonding) && self.autoConfig.autoBonding",
            "match needs desiredState: what the interfaces that match should be, without their names",
        ),
    ]
}

/// For the pools of addresses of a policy.
pub(super) fn address_pools() -> [Rule; 1] {
    [rule(
        format!("self.all(name, {})", matches("name", POOL_NAME)),
        "names of pools must be lower case letters, digits and '-', at most 63, with a letter or digit at both ends",
    )]
}

/// For a pool of addresses.
pub(super) fn address_pool() -> [Rule; 1] {
    [rule_for(
        ".prefixLength",
        "has(self.prefixLength) || self.range.contains('/')",
        "prefixLength is missing, and the range has no prefix: set it, for example 24",
    )]
}

/// For the range of a pool.
pub(super) fn address_range() -> [Rule; 1] {
    [rule(
        matches("self", ADDRESS_RANGE),
        "must be a CIDR such as 192.0.2.0/24, or the first and the last address of one family such as 192.0.2.10-192.0.2.99",
    )]
}

/// For a part of the range that no node gets.
pub(super) fn excluded_range() -> [Rule; 1] {
    [rule(
        matches("self", EXCLUDED_RANGE),
        "must be an address, a CIDR such as 192.0.2.0/24, or the first and the last address of one family such as 192.0.2.10-192.0.2.99",
    )]
}

/// For an expression of a label selector.
pub(super) fn label_expression() -> [Rule; 2] {
    [
        scheduling::expression_key(),
        scheduling::expression_values(),
    ]
}

/// For the number or share of nodes that may be changed at the same time.
pub(super) fn max_unavailable() -> [Rule; 1] {
    [rule(
        matches("string(self)", MAX_UNAVAILABLE),
        "must be a number of nodes, for example 3, or a share of them, for example 50%",
    )]
}

/// For interfaces to match.
pub(super) fn interface_match() -> [Rule; 1] {
    [rule(
        "has(self.lldp) || has(self.name) && self.name != '' || has(self.type) && self.type != ''",
        "would match every interface: set name or type (name: '*' if every interface is meant)",
    )]
}

/// For the announcements of neighbors to match.
pub(super) fn lldp_match() -> [Rule; 1] {
    [rule(
        "has(self.vlan__dash__ids) && self.vlan__dash__ids.size() > 0 || has(self.mac__dash__addresses) && self.mac__dash__addresses.size() > 0",
        "would match every interface that has a neighbor: list vlan-ids or mac-addresses",
    )]
}

/// For configuration that follows from what is plugged in where.
pub(super) fn auto_config() -> [Rule; 1] {
    [rule_for(
        ".autoVlan",
        "!has(self.autoVlan) || !self.autoVlan",
        "autoVlan is not supported: remove it, and write the VLAN interfaces into desiredState",
    )]
}

/// For a pattern of names of interfaces.
pub(super) fn glob() -> [Rule; 1] {
    [rule(
        empty_or(GLOB),
        "must be the name of an interface or a pattern of such names, for example eth* or eth[1-4]: no blanks and '/', and a ] for each [",
    )]
}

/// For a type of interfaces.
pub(super) fn interface_type() -> [Rule; 1] {
    [rule(
        empty_or(INTERFACE_TYPE),
        "must be a type of interface as nmstate names it, for example ethernet",
    )]
}

/// For a probe.
pub(super) fn probe() -> [Rule; 1] {
    [rule(
        "[has(self.icmp), has(self.tcp), has(self.http), has(self.dns)].filter(given, given).size() == 1",
        "must be exactly one of icmp, tcp, http and dns: make a list of several probes",
    )]
}

/// For the host of a probe.
pub(super) fn host() -> [Rule; 1] {
    [rule(
        format!("isIP(self) || {}", matches("self", DNS_NAME)),
        "must be an IP address or a DNS name, for example 192.0.2.1",
    )]
}

/// For the web address of a probe.
pub(super) fn url() -> [Rule; 1] {
    [rule(
        matches("self", WEB_ADDRESS),
        "must be a web address, for example http://192.0.2.1:8080/healthz",
    )]
}

/// For the name that a probe resolves.
pub(super) fn dns_name() -> [Rule; 1] {
    [rule(
        matches("self", DNS_NAME),
        "must be a DNS name, for example example.com",
    )]
}

/// The same where it may be left out.
pub(super) fn optional_dns_name() -> [Rule; 1] {
    [rule(
        empty_or(DNS_NAME),
        "must be a DNS name, for example example.com",
    )]
}

/// For the name server that a probe asks.
pub(super) fn server() -> [Rule; 1] {
    [rule(
        "self == '' || isIP(self)",
        "must be the IP address of a name server, for example 192.0.2.53",
    )]
}

/// For an address to listen on.
pub(super) fn bind_address() -> [Rule; 1] {
    [rule(
        empty_or(BIND_ADDRESS),
        "must be an address and a port, for example :8089, or 0",
    )]
}

/// For a duration.
pub(super) fn duration() -> [Rule; 1] {
    [rule(
        empty_or(DURATION),
        "must be a duration such as 8760h or 1h30m (units: h, m, s, ms, us, ns), without a minus sign",
    )]
}
