#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::link::Address;

const FIRST: &str = "02:00:00:00:00:01";
const SECOND: &str = "02:00:00:00:00:02";

/// A host with a bond and a bridge over two cards, a card that is bound by its address, and an
/// interface without any address.
fn host() -> Value {
    json!({
        "interfaces": [
            {"name": "lo", "type": "loopback", "state": "up"},
            {
                "name": "bond0", "type": "bond", "state": "up", "mac-address": FIRST,
                "link-aggregation": {"port": ["eth1", "eth2"]}
            },
            {
                "name": "eth2", "type": "ethernet", "state": "up", "mac-address": FIRST,
                "permanent-mac-address": SECOND, "pci-address": "0000:0a:09.7",
                "alt-names": [{"name": "enp10s9f7"}]
            },
            {
                "name": "eth1", "type": "ethernet", "state": "up", "mac-address": FIRST,
                "permanent-mac-address": FIRST
            },
            {
                "name": "eth3", "type": "ethernet", "state": "up",
                "mac-address": "02:00:00:00:00:03", "identifier": "mac-address",
                "profile-name": "wan0"
            },
            {"name": "veth0", "type": "veth", "state": "up", "mac-address": "02:00:00:00:00:04"},
            {"name": "br0", "type": "ovs-bridge", "state": "up"}
        ]
    })
}

/// The name of the interface that an entry leads to, or the reason why none.
fn found(wanted: Value) -> String {
    let host = host();
    match Index::of(&host).resolve(&wanted) {
        Resolved::One(interface) => text(&interface["name"]),
        Resolved::New => "new".to_owned(),
        Resolved::Nobody => "nobody".to_owned(),
        Resolved::Several(all) => {
            let names: Vec<_> = all.iter().map(|one| text(&one["name"])).collect();
            names.join(" ")
        }
    }
}

#[test]
fn an_entry_leads_to_the_interface_that_nmstate_means() {
    for (wanted, leads_to) in [
        (json!({"name": "eth1"}), "eth1"),
        (json!({"name": "eth1", "identifier": "name"}), "eth1"),
        (json!({"name": "enp10s9f7"}), "eth2"),
        (json!({"name": "eth9"}), "new"),
        (json!({"name": "br0", "type": "ovs-bridge"}), "br0"),
        // The internal port of a bridge of Open vSwitch has the name of the bridge.
        (json!({"name": "br0", "type": "ovs-interface"}), "new"),
        (
            json!({"name": "up", "identifier": "mac-address", "mac-address": "02:00:00:00:00:02"}),
            "eth2",
        ),
        // The permanent address decides, wherever the card stands in the list.
        (
            json!({
                "name": "up", "type": "ethernet", "identifier": "mac-address", "mac-address": FIRST
            }),
            "eth1",
        ),
        (
            json!({
                "name": "up", "type": "bond", "identifier": "mac-address", "mac-address": FIRST
            }),
            "bond0",
        ),
        (
            json!({
                "name": "up", "type": "vlan", "identifier": "mac-address", "mac-address": FIRST
            }),
            "nobody",
        ),
        (
            json!({
                "name": "up", "type": "ethernet", "identifier": "mac-address",
                "mac-address": "02:00:00:00:00:04"
            }),
            "veth0",
        ),
        (
            json!({
                "name": "up", "type": "ethernet", "identifier": "pci-address",
                "pci-address": "0a:09.7"
            }),
            "eth2",
        ),
        (
            json!({
                "name": "up", "type": "ethernet", "identifier": "pci-address",
                "pci-address": "0000:0A:09.7"
            }),
            "eth2",
        ),
        (
            json!({
                "name": "up", "type": "ethernet", "identifier": "pci-address",
                "pci-address": "0b:09.7"
            }),
            "nobody",
        ),
        // Without a type, the name counts.
        (
            json!({"name": "eth1", "identifier": "pci-address", "pci-address": "0a:09.7"}),
            "eth1",
        ),
        // A profile that is bound to an address keeps its card.
        (json!({"name": "wan0"}), "eth3"),
        (json!({"name": "wan0", "state": "absent"}), "eth3"),
        // Next to a profile's name, the name is that of the link.
        (
            json!({
                "name": "eth2", "profile-name": "up", "identifier": "mac-address",
                "mac-address": FIRST
            }),
            "eth2",
        ),
    ] {
        assert_eq!(found(wanted.clone()), leads_to, "{wanted}");
    }
}

#[test]
fn no_entry_leads_to_an_interface_by_an_address_that_it_does_not_give() {
    for by in ["mac-address", "pci-address"] {
        for address in [Value::Null, json!("")] {
            for state in ["up", "down", "ignore", "absent"] {
                let wanted = json!({
                    "name": "wan9", "type": "ethernet", "identifier": by, by: address,
                    "state": state
                });
                let expected = if state == "absent" { "new" } else { "nobody" };
                assert_eq!(found(wanted.clone()), expected, "{wanted}");
            }
        }
    }
    // An interface is removed by its name alone.
    let absent = json!({
        "name": "wan9", "identifier": "mac-address", "mac-address": FIRST, "state": "absent"
    });
    assert_eq!(found(absent), "new");
    assert_eq!(found(json!({"identifier": "name"})), "new");
}

#[test]
fn two_cards_with_one_address_are_not_told_apart_by_chance() {
    let twins = json!({
        "interfaces": [
            {"name": "eth1", "type": "ethernet", "mac-address": FIRST},
            {"name": "eth2", "type": "ethernet", "mac-address": FIRST}
        ]
    });
    let wanted = json!({"name": "up", "identifier": "mac-address", "mac-address": FIRST});
    let found = Index::of(&twins).resolve(&wanted);
    assert!(
        matches!(&found, Resolved::Several(all) if all.len() == 2),
        "{found:?}"
    );
}

mod properties {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    /// A value, an empty one, or none.
    fn maybe(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
        prop_oneof![
            3 => select(values).prop_map(Value::from),
            1 => Just(json!("")),
            2 => Just(Value::Null),
        ]
    }

    prop_compose! {
        fn entry()(
            name in maybe(&["eth1", "eth2", "wan0", "br0", "alt0"]),
            kind in maybe(&["ethernet", "veth", "bond", "ovs-bridge", "loopback"]),
            state in maybe(&["up", "down", "absent", "ignore"]),
            identifier in maybe(&["name", "mac-address", "pci-address"]),
            mac in maybe(&[FIRST, SECOND]),
            permanent in maybe(&[FIRST, SECOND]),
            pci in maybe(&["0000:0a:09.7", "0a:09.7", "0b:00.0"]),
            profile in maybe(&["wan0", "eth1"]),
            other in maybe(&["alt0", "eth2"]),
        ) -> Value {
            let mut entry = json!({
                "name": name, "type": kind, "state": state, "identifier": identifier,
                "mac-address": mac, "permanent-mac-address": permanent, "pci-address": pci,
                "profile-name": profile, "alt-names": [{"name": other}]
            });
            // A report has no nulls.
            entry.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            entry
        }
    }

    proptest! {
        #[test]
        fn an_entry_leads_only_to_what_it_names(wanted in entry(), list in vec(entry(), 0..6)) {
            let host = json!({ "interfaces": list });
            let said = |value: &Value| !text(value).is_empty();
            let equal = |left: &Value, right: &Value| {
                said(left) && text(left).eq_ignore_ascii_case(&text(right))
            };
            let found = match Index::of(&host).resolve(&wanted) {
                Resolved::One(one) => vec![one],
                Resolved::Several(all) => all,
                Resolved::New | Resolved::Nobody => vec![],
            };
            for one in found {
                let by_name = equal(&wanted["name"], &one["name"])
                    || equal(&wanted["name"], &one["profile-name"])
                    || one["alt-names"].as_array().is_some_and(|names| {
                        names.iter().any(|other| equal(&wanted["name"], &other["name"]))
                    });
                let by_address = equal(&wanted["mac-address"], &one["mac-address"])
                    || equal(&wanted["mac-address"], &one["permanent-mac-address"]);
                let by_place = said(&wanted["pci-address"])
                    && Address::pci(&wanted["pci-address"]) == Address::pci(&one["pci-address"]);
                prop_assert!(match identifier(&wanted) {
                    Some("mac-address") => by_address || by_name,
                    Some(_) => by_place || by_name,
                    None => by_name,
                }, "{wanted} leads to {one}");
            }
        }
    }
}
