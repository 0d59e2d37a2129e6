//! The state of a host as nmstate judges by it.

use std::collections::HashMap;

use nmstate::{InterfaceType, NetworkState};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::path::{entries, interfaces};

/// The sections that are lists below a key. nmstate reads and judges each entry alone.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("routes", "config"),
    ("route-rules", "config"),
    ("ovn", "bridge-mappings"),
];

/// Properties of an interface without which nmstate reads none.
const IDENTITY: [&str; 2] = ["name", "type"];

/// Reads the report of a host. A part that this nmstate does not read is left out: the agent can be
/// of another release.
///
/// nmstate itself knows the type of each port's controller, writes it into no report, and goes by it:
/// a port of a VRF keeps its addresses (`BaseInterface::can_have_ip` of `ifaces/base.rs`).
pub(super) fn read(report: &Value) -> NetworkState {
    let mut state = NetworkState::deserialize(report)
        .or_else(|_| NetworkState::deserialize(readable(report)))
        .unwrap_or_default();
    let mut types: HashMap<String, InterfaceType> = HashMap::new();
    for interface in state.interfaces.iter() {
        let kind = interface.iface_type();
        // The internal port of a bridge of Open vSwitch has the name of the bridge.
        let is_bridge = kind == InterfaceType::OvsBridge;
        if is_bridge || !types.contains_key(interface.name()) {
            types.insert(interface.name().to_owned(), kind);
        }
    }
    for interface in state.interfaces.iter_mut() {
        let base = interface.base_iface_mut();
        let controller = base.controller.as_ref();
        base.controller_type = controller.and_then(|name| types.get(name)).cloned();
    }
    state
}

/// The parts of a report that nmstate reads.
fn readable(report: &Value) -> Value {
    let reads = |part: &Value| NetworkState::deserialize(part).is_ok();
    let of_interface = |interface: &Value| {
        let mut kept = Map::new();
        for key in IDENTITY {
            kept.insert(key.to_owned(), interface[key].clone());
        }
        for (key, value) in interface.as_object().into_iter().flatten() {
            let mut with = kept.clone();
            with.insert(key.clone(), value.clone());
            if reads(&json!({"interfaces": [with]})) {
                kept = with;
            }
        }
        Value::Object(kept)
    };
    let mut state = Map::new();
    let all = interfaces(report).iter().map(of_interface);
    let all: Vec<Value> = all
        .filter(|interface| reads(&json!({"interfaces": [interface]})))
        .collect();
    state.insert("interfaces".to_owned(), all.into());
    for (section, content) in report.as_object().into_iter().flatten() {
        let list = LISTS.iter().find(|(name, _)| name == section);
        let mut content = content.clone();
        if let Some((_, list)) = list {
            let mut kept = entries(&content[*list]).to_vec();
            kept.retain(|entry| reads(&json!({section: {*list: [entry]}})));
            content = json!({ *list: kept });
        }
        if section != "interfaces" && reads(&json!({section: content})) {
            state.insert(section.clone(), content);
        }
    }
    Value::Object(state)
}
