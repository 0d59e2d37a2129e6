//! The state of a node as it is reported: nothing that changes by itself, in an order that stays,
//! without what belongs to pods, and never larger than the API server takes.

use crate::{
    bridge::TIMERS,
    glob::{GlobError, glob},
    path::{entries, text},
    route,
};
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use weft_api::node_network::InterfaceFilter;

/// How many bytes of JSON a report may have. etcd takes 1.5 MiB of request by default, and the
/// object holds a specification too.
pub const BUDGET: usize = 1_000_000;

/// The reason of the condition `Complete` of a report that leaves interfaces out by their names. Its
/// message is [`Filter::words`].
pub const FILTERED: &str = "Filtered";

/// The words of a report that leaves interfaces out by their names. The patterns stand behind it, as
/// JSON.
const BY_NAME: &str = "spec.interfaceFilter of the NMState chooses the reported interfaces, and routes over others are left out, too: ";

/// The choice of reported parts.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The patterns of names as they are written.
    names: InterfaceFilter,
    /// Names of interfaces to report. All if empty.
    include: Vec<Regex>,
    /// Names of interfaces to leave out, also of those included.
    exclude: Vec<Regex>,
    /// At most so many bytes of JSON.
    budget: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            names: InterfaceFilter::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            budget: BUDGET,
        }
    }
}

impl Filter {
    /// With patterns of names, see [`glob`].
    ///
    /// # Errors
    /// The first pattern that cannot be read.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, GlobError> {
        let read = |patterns: &[String]| {
            patterns
                .iter()
                .map(|pattern| glob(pattern))
                .collect::<Result<Vec<_>, _>>()
        };
        let given = |patterns: &[String]| (!patterns.is_empty()).then(|| patterns.to_vec());
        Ok(Self {
            names: InterfaceFilter {
                include: given(include),
                exclude: given(exclude),
            },
            include: read(include)?,
            exclude: read(exclude)?,
            ..Self::default()
        })
    }

    /// With another budget, in bytes of JSON.
    #[must_use]
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// The words of a report about the interfaces that this leaves out by their names. None if it
    /// chooses none by name.
    pub fn words(&self) -> Option<String> {
        let json = serde_json::to_string(&self.names).ok()?;
        (self.names != InterfaceFilter::default()).then(|| format!("{BY_NAME}{json}"))
    }

    /// The filter that says these [words](Filter::words). Words of another release hide all.
    pub fn of_words(words: &str) -> Self {
        let json = words.strip_prefix(BY_NAME).unwrap_or_default();
        let names: Option<InterfaceFilter> = serde_json::from_str(json).ok();
        let filter = names.and_then(|names| {
            let list = |patterns: Option<Vec<String>>| patterns.unwrap_or_default();
            Self::new(&list(names.include), &list(names.exclude)).ok()
        });
        filter.unwrap_or_else(|| Self {
            exclude: glob("*").into_iter().collect(),
            ..Self::default()
        })
    }

    /// Reports whether this leaves out an interface of this name, whatever it is.
    pub(crate) fn hides(&self, name: &str) -> bool {
        let any = |patterns: &[Regex]| patterns.iter().any(|pattern| pattern.is_match(name));
        !(self.include.is_empty() || any(&self.include)) || any(&self.exclude)
    }

    fn reports(&self, interface: &Value) -> bool {
        // The ends of pods' connections: veth, and nobody manages them.
        let of_a_pod = interface["type"] == "veth" && interface["state"] == "ignore";
        !of_a_pod && !self.hides(&text(&interface["name"]))
    }
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalised {
    /// The state.
    pub state: Value,
    /// The parts that had no place, in words for people. Empty if the report is complete.
    pub left_out: Vec<String>,
}

/// How long addresses are still valid.
const LIFETIMES: [&str; 2] = ["preferred-life-time", "valid-life-time"];

/// The report of a state. `indexes` are the kernel's numbers of interfaces, by name, and
/// `capabilities` what the node can do. Both are added to it.
pub fn normalise(
    mut state: Value,
    filter: &Filter,
    indexes: &BTreeMap<String, u32>,
    capabilities: &[String],
) -> Normalised {
    let mut dropped = BTreeSet::new();
    if let Some(list) = state.get_mut("interfaces").and_then(Value::as_array_mut) {
        list.retain(|interface| {
            let is_reported = filter.reports(interface);
            if !is_reported {
                dropped.insert(text(&interface["name"]));
            }
            is_reported
        });
        // The bridge and the internal port of Open vSwitch share a name: only one of them may have
        // been left out.
        for interface in list.iter_mut() {
            dropped.remove(&text(&interface["name"]));
            steady(interface, indexes);
        }
        list.sort_by_cached_key(|interface| (text(&interface["name"]), text(&interface["type"])));
    }
    for list in ["running", "config"] {
        routes(&mut state, list, &dropped);
    }
    if let Some(rules) = state
        .get_mut("route-rules")
        .and_then(|rules| rules.get_mut("config"))
        .and_then(Value::as_array_mut)
    {
        rules.sort_by_cached_key(|rule| {
            (
                text(&rule["priority"]).parse::<i64>().unwrap_or_default(),
                route::rule_key(rule),
            )
        });
    }
    if let Some(mappings) = state
        .get_mut("ovn")
        .and_then(|ovn| ovn.get_mut("bridge-mappings"))
        .and_then(Value::as_array_mut)
    {
        mappings.sort_by_cached_key(|mapping| text(&mapping["localnet"]));
    }
    if let (Some(map), false) = (state.as_object_mut(), capabilities.is_empty()) {
        let mut capabilities = capabilities.to_vec();
        capabilities.sort();
        map.insert("capabilities".to_owned(), capabilities.into());
    }
    let left_out = shrink(&mut state, filter.budget);
    Normalised { state, left_out }
}

/// Routes over interfaces that are not reported are not, either. A route without an interface (a
/// black hole, say) belongs to nobody else.
fn routes(state: &mut Value, list: &str, dropped: &BTreeSet<String>) {
    let Some(routes) = state
        .get_mut("routes")
        .and_then(|routes| routes.get_mut(list))
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    routes.retain(|entry| !dropped.contains(&text(&entry["next-hop-interface"])));
    routes.sort_by_cached_key(|entry| {
        (
            route::key(entry),
            text(&entry["metric"]).parse::<i64>().unwrap_or_default(),
            entry.to_string(),
        )
    });
}

/// Takes out of an interface what changes by itself, and adds its number.
fn steady(interface: &mut Value, indexes: &BTreeMap<String, u32>) {
    let index = indexes.get(&text(&interface["name"])).copied();
    // An interface that exists in Open vSwitch only has no number.
    let has_one = !matches!(interface["type"].as_str(), Some("ovs-bridge" | "ipsec"));
    let Some(map) = interface.as_object_mut() else {
        return;
    };
    if let Some(index) = index.filter(|_| has_one) {
        map.insert("ifIndex".to_owned(), index.into());
    }
    if let Some(options) = map
        .get_mut("bridge")
        .and_then(|bridge| bridge.get_mut("options"))
        .and_then(Value::as_object_mut)
    {
        TIMERS.iter().for_each(|timer| drop(options.remove(*timer)));
    }
    for stack in ["ipv4", "ipv6"] {
        let addresses = map
            .get_mut(stack)
            .and_then(|stack| stack.get_mut("address"))
            .and_then(Value::as_array_mut);
        for address in addresses
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            LIFETIMES
                .iter()
                .for_each(|lifetime| drop(address.remove(*lifetime)));
        }
    }
    for (list, port) in [
        ("bridge", "port"),
        ("link-aggregation", "port"),
        ("vrf", "port"),
    ] {
        if let Some(ports) = map
            .get_mut(list)
            .and_then(|section| section.get_mut(port))
            .and_then(Value::as_array_mut)
        {
            ports.sort_by_cached_key(|port| {
                if port.is_object() {
                    text(&port["name"])
                } else {
                    text(port)
                }
            });
        }
    }
    if let Some(neighbors) = map
        .get_mut("lldp")
        .and_then(|lldp| lldp.get_mut("neighbors"))
        .and_then(Value::as_array_mut)
    {
        neighbors.sort_by_cached_key(Value::to_string);
    }
}

/// Leaves out, one after the other, what is missed least, until the rest fits.
fn shrink(state: &mut Value, budget: usize) -> Vec<String> {
    let mut left_out = Vec::new();
    type Take = fn(&mut Value) -> bool;
    let steps: [(&str, Take); 4] = [
        ("ethtool of all interfaces", |state| {
            each_interface(state, |map| map.remove("ethtool").is_some())
        }),
        ("LLDP neighbors of all interfaces", |state| {
            each_interface(state, |map| {
                map.get_mut("lldp")
                    .and_then(Value::as_object_mut)
                    .is_some_and(|lldp| lldp.remove("neighbors").is_some())
            })
        }),
        ("routes.running", |state| {
            state
                .get_mut("routes")
                .and_then(Value::as_object_mut)
                .is_some_and(|routes| routes.remove("running").is_some())
        }),
        (
            "of interfaces, all but name, type, state, addresses and ports",
            |state| each_interface(state, essentials),
        ),
    ];
    for (what, take) in steps {
        if size(state) <= budget {
            return left_out;
        }
        if take(state) {
            left_out.push(what.to_owned());
        }
    }
    let mut total = size(state);
    let mut count = 0;
    while total > budget {
        let Some(last) = state
            .get_mut("interfaces")
            .and_then(Value::as_array_mut)
            .and_then(Vec::pop)
        else {
            break;
        };
        // With the comma.
        total = total.saturating_sub(size(&last) + 1);
        count += 1;
    }
    if count > 0 {
        let kept = entries(&state["interfaces"]).len();
        left_out.push(format!(
            "{count} of {} interfaces, the last by name",
            kept + count
        ));
    }
    left_out
}

fn size(value: &Value) -> usize {
    serde_json::to_vec(value)
        .map(|bytes| bytes.len())
        .unwrap_or_default()
}

fn each_interface(
    state: &mut Value,
    mut take: impl FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    let list = state
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    list.filter_map(Value::as_object_mut)
        .filter_map(|interface| take(interface).then_some(()))
        .count()
        > 0
}

fn essentials(interface: &mut Map<String, Value>) -> bool {
    const KEPT: [&str; 12] = [
        "name",
        "type",
        "state",
        "mac-address",
        "mtu",
        "ipv4",
        "ipv6",
        "ifIndex",
        "controller",
        "bridge",
        "link-aggregation",
        "vlan",
    ];
    let before = interface.len();
    interface.retain(|key, _| KEPT.contains(&key.as_str()));
    interface.len() < before
}

#[cfg(test)]
#[path = "normalise_tests.rs"]
mod tests;
