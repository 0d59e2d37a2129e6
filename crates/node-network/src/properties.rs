//! Properties of plans, for random hosts and policies in which values are left out at random.
#![allow(clippy::unwrap_used)]

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::{drift::differences, path::text};

/// A value, an empty one, or none.
fn maybe(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => select(values).prop_map(Value::from),
        1 => Just(json!("")),
        2 => Just(Value::Null),
    ]
}

fn number(values: &'static [i64]) -> impl Strategy<Value = Value> {
    prop_oneof![2 => select(values).prop_map(Value::from), 1 => Just(Value::Null)]
}

/// An entry without the keys that are null, as in a report.
fn entry(mut entry: Value) -> Value {
    entry
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    entry
}

prop_compose! {
    fn a_route()(
        destination in maybe(&["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"]),
        gateway in maybe(&["10.0.0.1", "fe80::1"]),
        interface in maybe(&["eth1", "eth2"]),
        metric in number(&[-1, 100, 150]),
        table in number(&[0, 100, 254]),
    ) -> Value {
        entry(json!({
            "destination": destination, "next-hop-address": gateway,
            "next-hop-interface": interface, "metric": metric, "table-id": table,
        }))
    }
}

prop_compose! {
    fn a_rule()(
        from in maybe(&["192.0.2.0/24", "2001:db8::/32"]),
        to in maybe(&["198.51.100.0/24"]),
        interface in maybe(&["eth1"]),
        priority in number(&[-1, 100, 101]),
        table in number(&[100, 254]),
    ) -> Value {
        entry(json!({
            "ip-from": from, "ip-to": to, "iif": interface, "priority": priority,
            "route-table": table,
        }))
    }
}

/// Reports whether all that a removal says is so in an entry. A key that is left out or empty says
/// nothing, and so do the numbers by which nmstate means any, and the metric.
fn says(wanted: &Value, there: &Value) -> bool {
    let fields = wanted.as_object().unwrap().iter();
    fields
        .filter(|(key, value)| *key != "state" && !text(value).is_empty())
        .filter(|(key, value)| {
            !matches!(
                (key.as_str(), value.as_i64()),
                ("metric" | "priority", Some(-1)) | ("table-id" | "route-table", Some(0))
            )
        })
        // Nothing, or 0, stands for the main table.
        .all(|(key, value)| match (key.as_str(), &there[key.as_str()]) {
            ("metric", _) => true,
            ("table-id" | "route-table", there) if there.as_u64().unwrap_or(0) == 0 => {
                *value == 254
            }
            (_, there) => there == value,
        })
}

proptest! {
    #[test]
    fn a_route_or_rule_goes_only_if_it_is_what_the_policy_says(
        wanted in vec(a_route(), 0..3), there in vec(a_route(), 0..6),
        rules in vec(a_rule(), 0..3), rules_there in vec(a_rule(), 0..6),
    ) {
        let absent = |entries: Vec<Value>| -> Vec<Value> {
            entries
                .into_iter()
                .map(|mut entry| {
                    entry["state"] = "absent".into();
                    entry
                })
                .collect()
        };
        let (wanted, rules) = (absent(wanted), absent(rules));
        let desired = json!({
            "routes": {"config": wanted}, "route-rules": {"config": rules}
        });
        let current = json!({
            "routes": {"config": there}, "route-rules": {"config": rules_there}
        });
        for found in differences(&desired, &current) {
            prop_assert!(found.wanted.is_null(), "{found}");
            let is_rule = found.path.to_string().starts_with("route-rules");
            let all = if is_rule { &rules } else { &wanted };
            prop_assert!(
                all.iter().any(|one| says(one, &found.found)),
                "{desired} removes {}", found.found
            );
        }
    }
}
