//! Routes and routing rules as sets: what makes two of them the same, and which a removal means.

use std::collections::HashMap;

use crate::{
    canonical::{network, same},
    path::{entries, text},
};
use serde_json::Value;

/// A list of a state whose entries are a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    /// Its section. The entries stand in `config` there.
    pub(crate) section: &'static str,
    /// Returns the key of an entry.
    pub(crate) key: fn(&Value) -> String,
    /// Reports whether the first entry describes the second one.
    pub(crate) matches: fn(&Value, &Value) -> bool,
    /// Returns a value that an entry shares with each one that it describes. None if it can describe
    /// entries with any value.
    shared: fn(&Value) -> Option<String>,
}

/// Routes and routing rules.
pub(crate) const LISTS: [List; 2] = [
    List {
        section: "routes",
        key,
        matches,
        shared: destination,
    },
    List {
        section: "route-rules",
        key: rule_key,
        matches: rule_matches,
        shared: priority,
    },
];

/// The entries of a list in a state, by the value that they share with those that describe them. A
/// policy can want thousands of routes of a host that has as many, so nothing compares each with
/// each.
pub(crate) struct Entries<'a> {
    list: List,
    all: &'a [Value],
    /// Their indexes.
    by_shared: HashMap<String, Vec<usize>>,
    /// The indexes of those without such a value.
    others: Vec<usize>,
}

impl<'a> Entries<'a> {
    /// Reads the list of a state.
    pub(crate) fn of(list: List, state: &'a Value) -> Self {
        let mut found = Self {
            list,
            all: entries(&state[list.section]["config"]),
            by_shared: HashMap::new(),
            others: Vec::new(),
        };
        for (index, entry) in found.all.iter().enumerate() {
            match (list.shared)(entry) {
                Some(shared) => found.by_shared.entry(shared).or_default().push(index),
                None => found.others.push(index),
            }
        }
        found
    }

    fn sharing(&self, shared: &str) -> &[usize] {
        self.by_shared.get(shared).map_or(&[], Vec::as_slice)
    }

    /// The entries that `wanted` describes, in their order.
    pub(crate) fn described_by(&self, wanted: &Value) -> Vec<&'a Value> {
        let matches = |entry: &&Value| (self.list.matches)(wanted, entry);
        match (self.list.shared)(wanted) {
            Some(shared) => {
                let indexes = self.sharing(&shared).iter();
                indexes
                    .map(|index| &self.all[*index])
                    .filter(matches)
                    .collect()
            }
            None => self.all.iter().filter(matches).collect(),
        }
    }

    /// Reports whether one of these entries describes `found`, and is to be there.
    pub(crate) fn want(&self, found: &Value) -> bool {
        let shared = (self.list.shared)(found).unwrap_or_default();
        let mut indexes = self.sharing(&shared).iter().chain(&self.others);
        indexes.any(|index| {
            let entry = &self.all[*index];
            !is_absent(entry) && (self.list.matches)(entry, found)
        })
    }
}

/// The destination of a route. One without a destination describes routes to any.
fn destination(route: &Value) -> Option<String> {
    let destination = text(&route["destination"]);
    (!destination.is_empty()).then(|| network(&destination))
}

/// The priority of a rule. One without a priority, or with one that leaves it to the backend,
/// describes rules of any.
fn priority(rule: &Value) -> Option<String> {
    let priority: i64 = text(&rule["priority"]).parse().ok()?;
    (priority > 0).then(|| priority.to_string())
}

/// Table 254 is `main`. Nmstate takes 0 for it.
const MAIN_TABLE: u64 = 254;

/// Returns the key of a route: its destination and its table. All else (metric, source, MTU …) are
/// properties of it.
pub(crate) fn key(route: &Value) -> String {
    let mut key = network(&text(&route["destination"]));
    if key.is_empty() {
        key = "any".to_owned();
    }
    for (name, word) in [
        ("next-hop-address", "via"),
        ("next-hop-interface", "dev"),
        ("vrf-name", "vrf"),
        ("route-type", "type"),
        ("weight", "weight"),
    ] {
        if !route[name].is_null() {
            key.push_str(&format!(
                " {word} {}",
                text(&crate::canonical::canonical(&route[name]))
            ));
        }
    }
    match table(&route["table-id"]) {
        None | Some(MAIN_TABLE) => {}
        Some(table) => key.push_str(&format!(" table {table}")),
    }
    prefix(route, key)
}

/// Returns the key of a routing rule: the whole rule, because any change makes it another rule.
pub(crate) fn rule_key(rule: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut keys: Vec<_> = rule
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| *name != "state" && !value.is_null())
        .collect();
    keys.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in keys {
        parts.push(format!("{name} {}", text(&rule_value(name, value))));
    }
    prefix(rule, parts.join(" "))
}

/// The entry with the marker of a removal before it, so that the removal of a route and the route
/// are two entries of the set.
fn prefix(entry: &Value, key: String) -> String {
    if is_absent(entry) {
        format!("no {key}")
    } else {
        key
    }
}

/// Reports whether an entry says what must not be there. An omitted field is then a wildcard.
pub(crate) fn is_absent(entry: &Value) -> bool {
    entry["state"] == "absent"
}

/// Reports whether a route is in the table that all packets ask.
pub(crate) fn is_in_main_table(route: &Value) -> bool {
    matches!(table(&route["table-id"]), None | Some(MAIN_TABLE))
}

fn table(value: &Value) -> Option<u64> {
    let table = text(value).parse().ok()?;
    Some(if table == 0 { MAIN_TABLE } else { table })
}

/// Reports whether `found` is the route that `wanted` describes. A value that `wanted` omits may be
/// anything, as in nmstate.
fn matches(wanted: &Value, found: &Value) -> bool {
    let fields = wanted.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| !value.is_null())
        .all(|(name, value)| match name.as_str() {
            // The table of a VRF is what the kernel reports. Its name is only known to nmstate.
            "state" | "vrf-name" => true,
            "destination" => {
                text(value).is_empty() || network(&text(value)) == network(&text(&found[name]))
            }
            // nmstate removes a route whatever its metric, and by table 0 from any table.
            "metric" if is_absent(wanted) => true,
            "table-id" if is_absent(wanted) && text(value) == "0" => true,
            "table-id" => {
                table(value) == table(&found[name])
                    || (found[name].is_null() && table(value) == Some(MAIN_TABLE))
            }
            // Routes without a next hop have no interface in IPv4, and the loopback in IPv6.
            "next-hop-interface" if !wanted["route-type"].is_null() => true,
            "next-hop-address" if text(value).is_empty() => text(&found[name]).is_empty(),
            // The kernel gives IPv6 routes of metric 0 the metric 1024. -1 is "as the backend
            // likes".
            "metric" if matches!(text(value).as_str(), "-1" | "0") => true,
            _ => same(value, &found[name]),
        })
}

/// Reports whether `found` is the routing rule that `wanted` describes.
fn rule_matches(wanted: &Value, found: &Value) -> bool {
    let fields = wanted.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| !value.is_null())
        .all(|(name, value)| match name.as_str() {
            "state" => true,
            "priority" if text(value) == "-1" => true,
            "priority" if text(value) == "0" && found[name].is_null() => true,
            // nmstate removes a rule by table 0 whatever its table.
            "route-table" if is_absent(wanted) && text(value) == "0" => true,
            // Without a mark, a rule has the mark 0.
            "fwmark" | "fwmask" => mark(value) == mark(&found[name]),
            // The kernel reports no family where the addresses say it.
            "family" if found[name].is_null() => true,
            _ => {
                let found = rule_value(name, &found[name]);
                same(&rule_value(name, value), &found)
            }
        })
}

/// A mark of packets, decimal or hexadecimal. Without one it is 0.
fn mark(value: &Value) -> Option<u64> {
    let text = text(value);
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.is_empty() => Some(0),
        None => text.parse().ok(),
    }
}

fn rule_value(name: &str, value: &Value) -> Value {
    match name {
        "ip-from" | "ip-to" => Value::String(network(&text(value))),
        "route-table" => table(value).unwrap_or(MAIN_TABLE).into(),
        _ => crate::canonical::canonical(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_is_identified_by_where_it_leads() {
        let route = json!({
            "destination": "10.1.2.3/16", "next-hop-address": "10.0.0.1",
            "next-hop-interface": "eth1", "metric": 150, "table-id": 254
        });
        assert_eq!(key(&route), "10.1.0.0/16 via 10.0.0.1 dev eth1");
        assert_eq!(
            key(&json!({"state": "absent", "next-hop-interface": "eth0"})),
            "no any dev eth0"
        );
        assert_eq!(
            key(
                &json!({"destination": "0.0.0.0/0", "next-hop-interface": "eth1", "table-id": 100})
            ),
            "0.0.0.0/0 dev eth1 table 100"
        );
    }

    /// The index finds the same as a look at each pair.
    #[test]
    fn entries_are_found_as_by_comparing_each_with_each() {
        let routes = json!([
            {"destination": "10.1.0.0/16", "next-hop-interface": "eth1", "table-id": 254},
            {"destination": "10.1.0.9/16", "next-hop-interface": "eth1"},
            {"destination": "10.1.0.0/16", "next-hop-interface": "eth2", "metric": 5},
            {"destination": "2001:DB8::/32", "next-hop-interface": "eth1"},
            {"destination": "2001:db8:0::/32", "next-hop-interface": "eth1", "metric": 1024},
            {"destination": "", "next-hop-interface": "eth1", "state": "absent"},
            {"next-hop-interface": "eth2"},
            {"state": "absent", "destination": "10.1.0.0/16"},
            {"next-hop-interface": "eth1", "state": "absent"},
            {"next-hop-interface": "eth1"}
        ]);
        let rules = json!([
            {"priority": 30000, "ip-from": "192.0.2.2/32", "route-table": 254},
            {"priority": "30000", "ip-from": "192.0.2.2"},
            {"priority": "030000"},
            {"priority": -1, "ip-from": "192.0.2.2"},
            {"priority": 0, "ip-from": "192.0.2.2"},
            {"priority": "0"},
            {"priority": "a"},
            {"ip-from": "192.0.2.2/32"},
            {"state": "absent", "ip-from": "192.0.2.2"},
            {"state": "absent", "priority": 30000}
        ]);
        for (list, all) in LISTS.into_iter().zip([routes, rules]) {
            let state = json!({list.section: {"config": all}});
            let index = Entries::of(list, &state);
            let all = entries(&state[list.section]["config"]);
            let mut count = 0;
            for one in all {
                let by_pairs: Vec<&Value> = all
                    .iter()
                    .filter(|other| (list.matches)(one, other))
                    .collect();
                count += by_pairs.len();
                assert_eq!(index.described_by(one), by_pairs, "{one}");
                let is_wanted = all
                    .iter()
                    .any(|other| !is_absent(other) && (list.matches)(other, one));
                assert_eq!(index.want(one), is_wanted, "{one}");
            }
            assert!(count > all.len(), "some describe others: {count}");
        }
    }

    #[test]
    fn omitted_fields_of_a_route_match_anything() {
        let found = json!({
            "destination": "10.1.0.0/16", "next-hop-address": "10.0.0.1",
            "next-hop-interface": "eth1", "metric": 150, "table-id": 254
        });
        assert!(matches(
            &json!({"destination": "10.1.0.0/16", "next-hop-interface": "eth1"}),
            &found
        ));
        assert!(matches(
            &json!({"destination": "10.1.0.9/16", "metric": "150", "table-id": 0}),
            &found
        ));
        assert!(matches(
            &json!({"state": "absent", "next-hop-interface": "eth1"}),
            &found
        ));
        assert!(!matches(
            &json!({"destination": "10.1.0.0/16", "metric": 100}),
            &found
        ));
        assert!(matches(
            &json!({"state": "absent", "destination": "10.1.0.0/16", "metric": 100, "table-id": 0}),
            &found
        ));
        assert!(!matches(
            &json!({"destination": "10.1.0.0/16", "table-id": 100}),
            &found
        ));
        assert!(!matches(&json!({"destination": "10.2.0.0/16"}), &found));
        assert!(!matches(
            &json!({"next-hop-address": "", "next-hop-interface": "eth1"}),
            &found
        ));
    }

    #[test]
    fn a_rule_is_found_in_any_spelling() {
        let found = json!({"priority": 30000, "ip-from": "192.0.2.2/32", "route-table": 254});
        assert!(rule_matches(
            &json!({
                "ip-from": "192.0.2.2", "route-table": 0, "priority": "30000", "family": "ipv4"
            }),
            &found
        ));
        assert!(!rule_matches(&json!({"ip-from": "192.0.2.3"}), &found));
        assert_eq!(
            rule_key(&json!({"route-table": 0, "ip-from": "192.0.2.2"})),
            rule_key(&json!({"ip-from": "192.0.2.2/32", "route-table": 254}))
        );
    }
}
