//! The difference between two statuses as a JSON Patch (RFC 6902).
//!
//! A status is mostly one long list of interfaces. A merge patch would send all of a list for one
//! changed entry, and server-side apply the whole status each time. Of a JSON Patch the size is
//! that of the change.

use std::{collections::BTreeSet, io};

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde::Serialize;
use serde_json::Value;
use weft_api::node_network::NodeNetworkStateStatus as Status;

use super::status::without_state;

/// The API server takes 10,000 operations at most.
const MOST: usize = 5_000;

/// Returns the patch that turns `old` into `new`.
///
/// # Errors
/// One of them cannot be written as JSON.
pub fn of_status(old: Option<&Status>, mut new: Status) -> serde_json::Result<Vec<PatchOperation>> {
    let Some(old) = old else {
        return Ok(vec![add(at(&["status"]), serde_json::to_value(new)?)]);
    };
    // The states are not copied: each is large.
    let state = new.current_state.take();
    let mut operations = Vec::new();
    walk(
        &at(&["status"]),
        &serde_json::to_value(without_state(old))?,
        &serde_json::to_value(new)?,
        &mut operations,
    );
    let path = at(&["status", "currentState"]);
    match (&old.current_state, state) {
        (Some(old), Some(new)) => operations.extend(difference(&path, old, new)),
        (None, Some(new)) => operations.push(add(path, new)),
        (Some(_), None) => operations.push(PatchOperation::Remove(RemoveOperation { path })),
        (None, None) => {}
    }
    Ok(operations)
}

fn at(tokens: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(tokens.iter().copied())
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}

/// Returns the patch that turns `old` into `new`, both at `path` of the object. All of `new` at
/// once, if that is shorter.
fn difference(path: &PointerBuf, old: &Value, new: Value) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    walk(path, old, &new, &mut operations);
    if operations.len() > MOST || size(&operations) > size(&new) {
        operations = vec![PatchOperation::Replace(ReplaceOperation {
            path: path.clone(),
            value: new,
        })];
    }
    operations
}

/// Returns the number of bytes of a value as JSON.
pub fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

fn walk(path: &PointerBuf, old: &Value, new: &Value, operations: &mut Vec<PatchOperation>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                operations.push(PatchOperation::Remove(RemoveOperation {
                    path: below(path, key),
                }));
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(old) => walk(&below(path, key), old, value, operations),
                    None => operations.push(PatchOperation::Add(AddOperation {
                        path: below(path, key),
                        value: value.clone(),
                    })),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            if !lists(path, old, new, operations) {
                operations.push(PatchOperation::Replace(ReplaceOperation {
                    path: path.clone(),
                    value: new.clone().into(),
                }));
            }
        }
        _ => operations.push(PatchOperation::Replace(ReplaceOperation {
            path: path.clone(),
            value: new.clone(),
        })),
    }
}

/// Compares lists whose entries have an identity: removes the entries that are gone, adds the new
/// ones, and compares the rest. Returns false if two entries have the same identity, or if entries
/// were moved.
fn lists(
    path: &PointerBuf,
    old: &[Value],
    new: &[Value],
    operations: &mut Vec<PatchOperation>,
) -> bool {
    let (before, after): (Vec<_>, Vec<_>) = (
        old.iter().map(identity).collect(),
        new.iter().map(identity).collect(),
    );
    let (were, are): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
    if were.len() < old.len() || are.len() < new.len() {
        return false;
    }
    let stayed: Vec<_> = before.iter().filter(|entry| are.contains(entry)).collect();
    if !after
        .iter()
        .filter(|entry| were.contains(entry))
        .eq(stayed.iter().copied())
    {
        return false;
    }
    // From behind, so that what comes next stays where it is.
    for (index, _) in before
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, entry)| !are.contains(entry))
    {
        operations.push(PatchOperation::Remove(RemoveOperation {
            path: below(path, &index.to_string()),
        }));
    }
    let mut kept = old
        .iter()
        .zip(&before)
        .filter(|(_, entry)| are.contains(entry));
    for (index, (value, entry)) in new.iter().zip(&after).enumerate() {
        let path = below(path, &index.to_string());
        match were.contains(entry).then(|| kept.next()).flatten() {
            Some((old, _)) => walk(&path, old, value, operations),
            None => operations.push(PatchOperation::Add(AddOperation {
                path,
                value: value.clone(),
            })),
        }
    }
    true
}

/// Interfaces have names, of which two types may have the same. Conditions have types. Routes,
/// rules and addresses are what they say.
fn identity(entry: &Value) -> String {
    match (entry.get("name"), entry.get("type")) {
        (None, None) => entry.to_string(),
        (name, of_type) => format!("{name:?} {of_type:?}"),
    }
}

fn below(path: &PointerBuf, key: &str) -> PointerBuf {
    let mut path = path.clone();
    path.push_back(key);
    path
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;
    use weft_api::Condition;

    use super::*;

    fn at_status() -> PointerBuf {
        at(&["status"])
    }

    fn text(old: &Value, new: &Value) -> Value {
        serde_json::to_value(difference(&at_status(), old, new.clone())).unwrap()
    }

    fn interface(name: &str, mtu: u32) -> Value {
        json!({
            "name": name, "type": "ethernet", "state": "up", "mtu": mtu, "ipv4": {"enabled": false},
            "ethtool": {"feature": {"rx-gro": true}}
        })
    }

    #[test]
    fn one_changed_interface_is_one_small_operation() {
        let old = json!({"interfaces": [interface("eth0", 1500), interface("eth1", 1500)]});
        let new = json!({"interfaces": [interface("eth0", 1500), interface("eth1", 1400)]});
        assert_eq!(
            text(&old, &new),
            json!([{"op": "replace", "path": "/status/interfaces/1/mtu", "value": 1400}])
        );
    }

    #[test]
    fn a_new_and_a_lost_interface_leave_the_others_alone() {
        let old = json!({"interfaces": [interface("a", 1), interface("c", 1), interface("d", 1)]});
        let new = json!({"interfaces": [interface("b", 1), interface("c", 1), interface("d", 2)]});
        assert_eq!(
            text(&old, &new),
            json!([
                {"op": "remove", "path": "/status/interfaces/0"},
                {"op": "add", "path": "/status/interfaces/0", "value": interface("b", 1)},
                {"op": "replace", "path": "/status/interfaces/2/mtu", "value": 2},
            ])
        );
    }

    #[test]
    fn a_bridge_and_a_port_of_one_name_are_two() {
        let two = |mtu| {
            json!([
                {"name": "ovs0", "type": "ovs-bridge"},
                {"name": "ovs0", "type": "ovs-interface", "mtu": mtu}
            ])
        };
        assert_eq!(
            text(&two(1), &two(2)),
            json!([{"op": "replace", "path": "/status/1/mtu", "value": 2}])
        );
    }

    #[test]
    fn a_list_that_is_shorter_as_a_whole_is_sent_whole() {
        let old = json!({"a": 1, "b": 2, "c": 3});
        assert_eq!(
            text(&old, &json!({})),
            json!([{"op": "replace", "path": "/status", "value": {}}])
        );
        assert_eq!(text(&old, &old), json!([]));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3_u8).prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let entry = (
                prop::option::of("[ab]"),
                prop::option::of("[xy]"),
                inner.clone(),
            )
                .prop_map(|(name, of_type, value)| {
                    let mut entry = json!({"value~/": value});
                    name.into_iter()
                        .for_each(|name| entry["name"] = name.into());
                    of_type
                        .into_iter()
                        .for_each(|of_type| entry["type"] = of_type.into());
                    entry
                });
            prop_oneof![
                prop::collection::vec(prop_oneof![inner.clone(), entry], 0..5)
                    .prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    fn any_status() -> impl Strategy<Value = Status> {
        let conditions = prop::collection::btree_map(
            prop::sample::select(vec!["Available", "Failing"]),
            "[TF]",
            0..3,
        );
        let condition = |(type_, status): (&str, String)| Condition {
            type_: type_.to_owned(),
            status,
            ..Condition::default()
        };
        (
            prop::option::of(any_value()),
            prop::option::of("[ab]"),
            prop::option::of(0..3_i64),
            conditions,
        )
            .prop_map(
                move |(current_state, handler_nmstate_version, observed_generation, conditions)| {
                    Status {
                        // A null reads back as an absent field.
                        current_state: current_state.filter(|state| !state.is_null()),
                        handler_nmstate_version,
                        observed_generation,
                        conditions: conditions.into_iter().map(condition).collect(),
                        ..Status::default()
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn the_difference_leads_from_any_value_to_any_other(old in any_value(), new in any_value()) {
            let mut object = json!({"status": old});
            json_patch::patch(&mut object, &difference(&at_status(), &old, new.clone())).unwrap();
            prop_assert_eq!(&object["status"], &new);
        }

        #[test]
        fn a_status_is_made_of_any_other(old in prop::option::of(any_status()), new in any_status()) {
            let mut object = json!({});
            if let Some(old) = &old {
                object["status"] = serde_json::to_value(old).unwrap();
            }
            json_patch::patch(&mut object, &of_status(old.as_ref(), new.clone()).unwrap()).unwrap();
            prop_assert_eq!(&object["status"], &serde_json::to_value(&new).unwrap());
        }
    }
}
