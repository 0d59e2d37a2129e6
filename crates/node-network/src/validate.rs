//! Lists all mistakes in a policy or an `NMState`. [`crate::check`] finds the mistakes inside a
//! desired state.
//!
//! All rules are in the schemas too, as CEL, or in an admission policy, so that `kubectl apply`
//! already refuses. They are checked again because a stored object may be older than they are, and
//! because files are read where there is no API server.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use regex::Regex;
use serde_json::Value;
use weft_api::node_network::{
    AddressPool, InterfaceFilter, InterfaceMatch, LldpMatch, NMStateSpec,
    NodeNetworkConfigurationPolicySpec, Probe, patterns,
};
use weft_operands::{
    problems::{Problems, given},
    scheduling,
    text::is_ip,
};
use weft_plan::Problem;

use crate::{addresses::pool::Pool, bonding, path::text};

/// How long the name of a policy is at most: enactments carry it in a label.
const POLICY_NAME: usize = 63;
/// How long the name of an `NMState` is at most: what is installed carries it in a label, as
/// `nmstate.<name>`.
const INSTALLATION_NAME: usize = 55;
/// The priorities that there are, in both directions.
const PRIORITY: i64 = 1_000_000_000;

/// Returns the mistakes in a policy, or an empty list.
pub(crate) fn policy(name: &str, spec: &NodeNetworkConfigurationPolicySpec) -> Vec<Problem> {
    // No `..`: a field that is new has to be checked here, or named as one that needs no check.
    let NodeNetworkConfigurationPolicySpec {
        node_selector,
        node_label_selector,
        capture: _,
        desired_state,
        max_unavailable,
        priority,
        match_,
        auto_config,
        address_pools,
        probes,
        on_delete,
        drift,
    } = spec;
    let mut problems = Problems::default();
    name_fits(name, POLICY_NAME, &mut problems);
    scheduling::node_selector("spec.nodeSelector", node_selector.as_ref(), &mut problems);
    scheduling::label_selector(
        "spec.nodeLabelSelector",
        node_label_selector.as_ref(),
        &mut problems,
    );
    self::max_unavailable(max_unavailable.as_ref(), &mut problems);
    if priority.is_some_and(|priority| !(-PRIORITY..=PRIORITY).contains(&priority)) {
        problems.push(
            "spec.priority",
            format!("must be from -{PRIORITY} to {PRIORITY}"),
        );
    }
    if auto_config
        .as_ref()
        .is_some_and(|auto| auto.auto_vlan == Some(true))
    {
        problems.push(
            "spec.autoConfig.autoVlan",
            "is not supported: remove it, and write the VLAN interfaces into desiredState",
        );
    }
    let bonds = bonding::is_asked_for(spec);
    if bonds && !lists_vlans(spec) {
        problems.push(
            "spec.autoConfig.autoBonding",
            "needs match.interfaces.lldp.vlan-ids: list the VLANs whose cards are bonded",
        );
    }
    if let Some(rule) = match_ {
        interface_match(rule.interfaces.as_ref(), &mut problems);
        match bonds {
            true => listed(desired_state.as_ref(), &mut problems),
            false => unnamed(desired_state.as_ref(), &mut problems),
        }
    }
    for (name, pool) in address_pools.iter().flatten() {
        address_pool(name, pool, &mut problems);
    }
    for (index, probe) in probes.iter().flatten().enumerate() {
        self::probe(&format!("spec.probes[{index}]"), probe, &mut problems);
    }
    one_of(
        "spec.onDelete",
        on_delete.as_deref(),
        &["retain", "revert"],
        &mut problems,
    );
    one_of(
        "spec.drift",
        drift.as_deref(),
        &["correct", "report"],
        &mut problems,
    );
    problems.into_vec()
}

/// Returns the mistakes in an `NMState`.
pub(crate) fn installation(name: &str, spec: &NMStateSpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    name_fits(name, INSTALLATION_NAME, &mut problems);
    scheduling::node_selector(
        "spec.nodeSelector",
        spec.node_selector.as_ref(),
        &mut problems,
    );
    scheduling::affinity("spec.affinity", spec.affinity.as_ref(), &mut problems);
    scheduling::tolerations(
        "spec.tolerations",
        spec.tolerations.as_deref(),
        &mut problems,
    );
    // They have no effect, but the definition refuses them, and the operator that Weft replaces
    // could do nothing with them.
    scheduling::node_selector(
        "spec.infraNodeSelector",
        spec.infra_node_selector.as_ref(),
        &mut problems,
    );
    scheduling::affinity(
        "spec.infraAffinity",
        spec.infra_affinity.as_ref(),
        &mut problems,
    );
    scheduling::tolerations(
        "spec.infraTolerations",
        spec.infra_tolerations.as_deref(),
        &mut problems,
    );
    max_unavailable(spec.max_unavailable.as_ref(), &mut problems);
    one_of(
        "spec.logLevel",
        spec.log_level.as_deref(),
        &["info", "debug"],
        &mut problems,
    );
    let host = spec
        .probe_configuration
        .as_ref()
        .and_then(|probes| probes.dns.as_ref())
        .and_then(|dns| given(&dns.host));
    if let Some(host) = host.filter(|host| !matches(patterns::DNS_NAME, host)) {
        problems.push(
            "spec.probeConfiguration.dns.host",
            format!("{host:?} must be a DNS name, for example example.com"),
        );
    }
    let address = spec
        .metrics_configuration
        .as_ref()
        .and_then(|metrics| given(&metrics.bind_address));
    if let Some(address) = address.filter(|address| !matches(patterns::BIND_ADDRESS, address)) {
        problems.push(
            "spec.metricsConfiguration.bindAddress",
            format!("{address:?} must be an address and a port, for example :8089, or 0"),
        );
    }
    if let Some(certificates) = &spec.self_sign_configuration {
        for (field, duration) in [
            ("caRotateInterval", &certificates.ca_rotate_interval),
            ("caOverlapInterval", &certificates.ca_overlap_interval),
            ("certRotateInterval", &certificates.cert_rotate_interval),
            ("certOverlapInterval", &certificates.cert_overlap_interval),
        ] {
            if let Some(text) = given(duration).filter(|text| !matches(patterns::DURATION, text)) {
                let message = format!(
                    "{text:?} must be a duration such as 8760h or 1h30m (units: h, m, s, ms, us, ns), without a minus sign"
                );
                problems.push(&format!("spec.selfSignConfiguration.{field}"), message);
            }
        }
    }
    if let Some(InterfaceFilter { include, exclude }) = &spec.interface_filter {
        for (field, list) in [("include", include), ("exclude", exclude)] {
            for (index, pattern) in list.iter().flatten().enumerate() {
                glob(
                    &format!("spec.interfaceFilter.{field}[{index}]"),
                    pattern,
                    &mut problems,
                );
            }
        }
    }
    problems.into_vec()
}

/// Reports whether a text matches a pattern of the API.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn name_fits(name: &str, length: usize, problems: &mut Problems) {
    if name.len() > length {
        problems
            .push("metadata.name", format!("{name} must be no more than {length} characters, to fit into a label: choose a shorter name"));
    }
}

fn one_of(field: &str, word: Option<&str>, words: &[&str], problems: &mut Problems) {
    if let Some(word) = word.filter(|word| !words.contains(word)) {
        problems.push(field, format!("{word:?} must be {}", words.join(" or ")));
    }
}

fn max_unavailable(value: Option<&IntOrString>, problems: &mut Problems) {
    let text = match value {
        None => return,
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) => text.clone(),
    };
    if !matches(patterns::MAX_UNAVAILABLE, &text) {
        problems
            .push("spec.maxUnavailable", format!("{text:?} must be a number of nodes, for example 3, or a share of them, for example 50%"));
    }
}

fn interface_match(interfaces: Option<&InterfaceMatch>, problems: &mut Problems) {
    let Some(InterfaceMatch { name, type_, lldp }) = interfaces else {
        problems.push(
            "spec.match",
            "needs interfaces: set match.interfaces.name or match.interfaces.type, or remove match",
        );
        return;
    };
    let (name, type_) = (given(name), given(type_));
    if let Some(lldp) = lldp {
        lldp_match(lldp, problems);
    } else if name.is_none() && type_.is_none() {
        let message =
            "would match every interface: set name or type (name: '*' if every interface is meant)";
        problems.push("spec.match.interfaces", message);
    }
    glob(
        "spec.match.interfaces.name",
        name.unwrap_or_default(),
        problems,
    );
    if let Some(type_) = type_.filter(|type_| !matches(patterns::INTERFACE_TYPE, type_)) {
        let message = format!(
            "{type_:?} must be a type of interface as nmstate names it, for example ethernet"
        );
        problems.push("spec.match.interfaces.type", message);
    }
}

fn lldp_match(rule: &LldpMatch, problems: &mut Problems) {
    const FIELD: &str = "spec.match.interfaces.lldp";
    let LldpMatch {
        vlan_ids,
        mac_addresses,
    } = rule;
    let (vlans, macs) = (vlan_ids.iter().flatten(), mac_addresses.iter().flatten());
    if vlans.clone().next().is_none() && macs.clone().next().is_none() {
        let message =
            "would match every interface that has a neighbor: list vlan-ids or mac-addresses";
        problems.push(FIELD, message);
    }
    for (index, vlan) in vlans.enumerate() {
        if !(1..=4094).contains(vlan) {
            let field = format!("{FIELD}.vlan-ids[{index}]");
            problems.push(&field, format!("{vlan} must be from 1 to 4094"));
        }
    }
    for (index, mac) in macs.enumerate() {
        if !matches(patterns::MAC_ADDRESS, mac) {
            let field = format!("{FIELD}.mac-addresses[{index}]");
            let rule = "must be a MAC address, for example 00:00:5e:00:53:01";
            problems.push(&field, format!("{mac:?} {rule}"));
        }
    }
}

/// Reports whether the match lists VLANs that neighbors announce.
fn lists_vlans(spec: &NodeNetworkConfigurationPolicySpec) -> bool {
    let interfaces = spec
        .match_
        .as_ref()
        .and_then(|rule| rule.interfaces.as_ref());
    let lldp = interfaces.and_then(|interfaces| interfaces.lldp.as_ref());
    lldp.and_then(|lldp| lldp.vlan_ids.as_ref())
        .is_some_and(|vlans| !vlans.is_empty())
}

fn address_pool(name: &str, pool: &AddressPool, problems: &mut Problems) {
    let field = format!("spec.addressPools[{name}]");
    if !matches(patterns::POOL_NAME, name) {
        let rule = "names of pools must be lower case letters, digits and '-', at most 63, with a letter or digit at both ends";
        problems.push("spec.addressPools", format!("{name:?}: {rule}"));
    }
    for (part, message) in Pool::read(pool).err().unwrap_or_default() {
        problems.push(&format!("{field}.{part}"), message);
    }
}

fn glob(field: &str, pattern: &str, problems: &mut Problems) {
    if pattern.is_empty() {
        return;
    }
    if !matches(patterns::GLOB, pattern) {
        let rule = "must be the name of an interface or a pattern of such names, for example eth* or eth[1-4]: no blanks and '/', and a ] for each [";
        problems.push(field, format!("{pattern:?} {rule}"));
    } else if let Err(error) = crate::glob::glob(pattern) {
        problems.push(field, error.to_string());
    }
}

/// Automatic bonding needs no interfaces in the desired state, and looks through those it has.
fn listed(desired_state: Option<&Value>, problems: &mut Problems) {
    let interfaces = desired_state.map_or(&Value::Null, |state| &state["interfaces"]);
    if !interfaces.is_null() && !interfaces.is_array() {
        let message = "must be a list with spec.autoConfig.autoBonding: write each interface, and move captures to another policy";
        problems.push("spec.desiredState.interfaces", message);
    }
}

/// With a match the interfaces of the desired state stand for all that match.
fn unnamed(desired_state: Option<&Value>, problems: &mut Problems) {
    let interfaces = desired_state
        .and_then(|state| state["interfaces"].as_array())
        .filter(|interfaces| !interfaces.is_empty());
    let Some(interfaces) = interfaces else {
        let message = "is missing, and spec.match needs it: a list of what the interfaces that match should be, without their names";
        problems.push("spec.desiredState.interfaces", message);
        return;
    };
    for (index, interface) in interfaces
        .iter()
        .enumerate()
        .filter(|(_, interface)| !text(&interface["name"]).is_empty())
    {
        let message = format!(
            "{} must not be there with spec.match, since each interface stands for all that match: remove it, or spec.match",
            interface["name"]
        );
        problems.push(
            &format!("spec.desiredState.interfaces[{index}].name"),
            message,
        );
    }
}

fn probe(field: &str, probe: &Probe, problems: &mut Problems) {
    let Probe {
        icmp,
        tcp,
        http,
        dns,
    } = probe;
    if [icmp.is_some(), tcp.is_some(), http.is_some(), dns.is_some()]
        .into_iter()
        .filter(|given| *given)
        .count()
        != 1
    {
        problems.push(
            field,
            "must be exactly one of icmp, tcp, http and dns: make a list of several probes",
        );
    }
    if let Some(icmp) = icmp {
        host(&format!("{field}.icmp.host"), &icmp.host, problems);
    }
    if let Some(tcp) = tcp {
        host(&format!("{field}.tcp.host"), &tcp.host, problems);
        if !(1..=65535).contains(&tcp.port) {
            problems.push(
                &format!("{field}.tcp.port"),
                format!("{} must be from 1 to 65535", tcp.port),
            );
        }
    }
    if let Some(http) = http
        .as_ref()
        .filter(|http| !matches(patterns::WEB_ADDRESS, &http.url))
    {
        let message = format!(
            "{:?} must be a web address, for example http://192.0.2.1:8080/healthz",
            http.url
        );
        problems.push(&format!("{field}.http.url"), message);
    }
    if let Some(dns) = dns {
        if !matches(patterns::DNS_NAME, &dns.name) {
            problems.push(
                &format!("{field}.dns.name"),
                format!("{:?} must be a DNS name, for example example.com", dns.name),
            );
        }
        if let Some(server) = given(&dns.server).filter(|server| !is_ip(server)) {
            let message = format!(
                "{server:?} must be the IP address of a name server, for example 192.0.2.53"
            );
            problems.push(&format!("{field}.dns.server"), message);
        }
    }
}

fn host(field: &str, host: &str, problems: &mut Problems) {
    if !is_ip(host) && !matches(patterns::DNS_NAME, host) {
        problems.push(
            field,
            format!("{host:?} must be an IP address or a DNS name, for example 192.0.2.1"),
        );
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
