//! Interfaces that the report of a node leaves out by `spec.interfaceFilter` of the NMState. The
//! report lacks them, and the node can have them all the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    index::Index,
    normalise::Filter,
    path::{entries, interface_key, interfaces, text},
    references::names,
    resolve::identifier,
};

/// The addresses by which an entry can find its interface.
const FOUND_BY: [&str; 2] = ["mac-address", "pci-address"];

/// Reports whether the interface of an entry can be one that the filter leaves out. Only the node
/// knows the name of an interface that an address finds.
fn can_be_hidden(wanted: &Value, host: &Index, filter: &Filter) -> bool {
    let is_by_address = identifier(wanted).is_some();
    host.meant(wanted).is_none() && (is_by_address || filter.hides(&text(&wanted["name"])))
}

/// The keys of the wanted interfaces that the filter can have left out of the report of a host.
pub(crate) fn wanted(desired: &Value, host: &Index, filter: &Filter) -> BTreeSet<String> {
    let wanted = interfaces(desired).iter();
    let wanted = wanted.filter(|wanted| wanted["state"] != "ignore");
    wanted
        .filter(|wanted| can_be_hidden(wanted, host, filter))
        .map(|wanted| interface_key(wanted).into_owned())
        .collect()
}

/// The state of a host with a stand-in for each interface that a desired state names and that the
/// filter can have left out. None if there is none. A stand-in gives no reason to refuse anything.
pub(crate) fn with_stand_ins(desired: &Value, host: &Index, filter: &Filter) -> Option<Value> {
    let mut missing: BTreeMap<String, Value> = BTreeMap::new();
    for wanted in interfaces(desired) {
        if can_be_hidden(wanted, host, filter) {
            let mut there = stand_in(&text(&wanted["name"]), "ethernet");
            for key in FOUND_BY.into_iter().chain(["type"]) {
                if !wanted[key].is_null() && wanted[key] != "unknown" {
                    there[key] = wanted[key].clone();
                }
            }
            missing.insert(text(&wanted["name"]), there);
        }
    }
    let is_missing = |name: &String| host.any_name(name).is_none() && filter.hides(name);
    // A port of a VRF may have addresses.
    for controller in interfaces(desired)
        .iter()
        .map(|one| text(&one["controller"]))
    {
        if !controller.is_empty() && is_missing(&controller) {
            let there = stand_in(&controller, "vrf");
            missing.entry(controller).or_insert(there);
        }
    }
    for name in names(desired).into_iter().filter(is_missing) {
        let there = stand_in(&name, "ethernet");
        missing.entry(name).or_insert(there);
    }
    if missing.is_empty() {
        return None;
    }
    let mut state = host.state.clone();
    let mut all = entries(&state["interfaces"]).to_vec();
    all.extend(missing.into_values());
    state["interfaces"] = all.into();
    Some(state)
}

fn stand_in(name: &str, kind: &str) -> Value {
    json!({
        "name": name, "type": kind, "state": "up",
        "ipv4": {"enabled": true}, "ipv6": {"enabled": true}
    })
}
