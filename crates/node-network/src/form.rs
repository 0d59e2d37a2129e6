//! One form of each value. People and tools write `1500` and `"1500"`, `true` and `1`, `0x20` and
//! `32`. nmstate reads all of them into one type and reports the form that the type writes, so a
//! desired state and a report are compared in this form.
//!
//! nmstate reads each part alone, and a part that it does not read stays as it is: a report may be
//! of another release. Its type also adds what nobody has said, such as defaults. These additions do
//! not count, so only the values that were said take the form.

use nmstate::NetworkState;
use serde_json::{Map, Value, json};

use crate::{index::Index, state::without_additions};

/// The sections with lists whose entries nmstate reads one by one.
const LISTS: [(&str, &str); 4] = [
    ("routes", "config"),
    ("routes", "running"),
    ("route-rules", "config"),
    ("ovn", "bridge-mappings"),
];
/// The sections that nmstate reads as a whole.
const WHOLE: [&str; 3] = ["dns-resolver", "hostname", "ovs-db"];
/// Settings of a bridge of Open vSwitch that nmstate ignores (`OvsBridgeInterface::sanitize` of
/// `ifaces/ovs.rs`): the bridge itself has no MTU and no addresses, its internal port has them.
const NOT_OF_OVS_BRIDGES: [&str; 3] = ["mtu", "ipv4", "ipv6"];

/// The state of a host, each value in the form that nmstate writes.
pub(crate) fn of_host(state: &Value) -> Value {
    formed(without_additions(state), |_| Value::Null)
}

/// A desired state for this host, each value in the form that nmstate writes, without what nmstate
/// ignores. An interface without a type has that of the interface of the host that it is about.
pub(crate) fn of_desired(desired: &Value, host: &Index) -> Value {
    let mut desired = formed(desired.clone(), |wanted| {
        let there = host.meant(wanted);
        there.map_or(Value::Null, |there| there["type"].clone())
    });
    for interface in list_mut(&mut desired, &["interfaces"]) {
        let is_bridge = match &interface["type"] {
            Value::Null => host
                .meant(interface)
                .is_some_and(|there| there["type"] == "ovs-bridge"),
            kind => kind == "ovs-bridge",
        };
        if let Some(map) = interface.as_object_mut().filter(|_| is_bridge) {
            map.retain(|key, _| !NOT_OF_OVS_BRIDGES.contains(&key.as_str()));
        }
    }
    desired
}

/// `type_of` has the type of an interface that says none.
fn formed(mut state: Value, type_of: impl Fn(&Value) -> Value) -> Value {
    for interface in list_mut(&mut state, &["interfaces"]) {
        let kind = match &interface["type"] {
            Value::Null => type_of(interface),
            kind => kind.clone(),
        };
        form_interface(interface, &kind);
    }
    for (section, list) in LISTS {
        for entry in list_mut(&mut state, &[section, list]) {
            let read = |entry: &Value| typed(&json!({section: {list: [entry]}}));
            if let Some(typed) = read(entry) {
                take_over(entry, &typed[section][list][0]);
            }
        }
    }
    for section in WHOLE {
        if let Some(said) = state.get_mut(section).filter(|said| !said.is_null())
            && let Some(typed) = typed(&json!({ section: said }))
        {
            take_over(said, &typed[section]);
        }
    }
    state
}

fn form_interface(interface: &mut Value, kind: &Value) {
    let Some(said) = interface.as_object() else {
        return;
    };
    let with_type = |said: &Map<String, Value>| {
        let mut said = said.clone();
        if !kind.is_null() {
            said.insert("type".to_owned(), kind.clone());
        }
        typed(&json!({"interfaces": [said]})).map(|state| state["interfaces"][0].clone())
    };
    if let Some(typed) = with_type(said) {
        return take_over(interface, &typed);
    }
    // One property that nmstate does not read is no reason to leave the others as they are.
    let mut form = Map::new();
    for (key, value) in said {
        let mut alone = Map::from_iter([(key.clone(), value.clone())]);
        alone.insert(
            "name".to_owned(),
            said.get("name").cloned().unwrap_or_default(),
        );
        let mut value = value.clone();
        if let Some(typed) = with_type(&alone) {
            take_over(&mut value, &typed[key.as_str()]);
        }
        form.insert(key.clone(), value);
    }
    *interface = Value::Object(form);
}

/// Reads a state as nmstate, and writes it again.
fn typed(state: &Value) -> Option<Value> {
    let state: NetworkState = serde_json::from_value(state.clone()).ok()?;
    serde_json::to_value(state).ok()
}

/// Puts the values of `typed` into the places of `said`. A value at a place that `typed` does not have
/// stays.
fn take_over(said: &mut Value, typed: &Value) {
    match (said, typed) {
        (Value::Object(said), Value::Object(typed)) => {
            for (key, value) in said {
                if let Some(typed) = typed.get(key) {
                    take_over(value, typed);
                }
            }
        }
        (Value::Array(said), Value::Array(typed)) if said.len() == typed.len() => {
            for (value, typed) in said.iter_mut().zip(typed) {
                take_over(value, typed);
            }
        }
        // `stp: true` of a bridge of Open vSwitch is short for an object.
        (said, typed) if is_scalar(said) && (is_scalar(typed) || typed.is_object()) => {
            *said = typed.clone();
        }
        _ => {}
    }
}

fn is_scalar(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

/// The entries of a list in a state.
fn list_mut<'a>(state: &'a mut Value, keys: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    let list = keys
        .iter()
        .try_fold(state, |value, key| value.get_mut(*key));
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
