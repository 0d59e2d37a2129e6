//! Where an apply would take something away, or rebind it, that the comparison for drift leaves
//! alone.
//!
//! Drift is what nmstate's verification calls wrong. An apply does more: a list of addresses
//! replaces the one that is there, an empty section clears it, a port loses its addresses, and
//! properties that say how an interface is found or made count once. A plan shows these changes as
//! well.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{
    canonical::same,
    dispatch,
    drift::{
        Difference, OVS_SECTIONS, address_text, compared, differences_from, is_automatic,
        is_same_address, says_leases,
    },
    index::Index,
    link::is_card,
    losses,
    path::{Path, Step, entries, interfaces, text},
};

/// OVN's own key of `external_ids`, which an empty `ovs-db` leaves alone: the section `ovn` is for
/// it.
pub(crate) const OVN_MAPPINGS: &str = "ovn-bridge-mappings";

/// All that an apply of `desired` would change on a host that is like `current`: the drift, and the
/// removals.
///
/// Both are states in nmstate's form. `current` may be a report with additions. Profiles of
/// NetworkManager that are missing cannot be seen in a report, so an apply can still write one
/// where this is empty.
pub fn changes(desired: &Value, current: &Value) -> Vec<Difference> {
    compared(desired, current, changes_of)
}

/// Like [`changes`], of two states in [one form](crate::form).
pub(crate) fn changes_of(desired: &Value, host: &Index) -> Vec<Difference> {
    let mut found = differences_from(desired, host);
    // A route that goes with the address of a port can be one that `desired` removes itself.
    let known: BTreeSet<Path> = found.iter().map(|one| one.path.clone()).collect();
    let removals = removals_from(desired, host).into_iter();
    found.extend(removals.filter(|removal| !known.contains(&removal.path)));
    found
}

/// The part of [`changes`] that is no drift.
pub fn removals(desired: &Value, current: &Value) -> Vec<Difference> {
    compared(desired, current, removals_from)
}

/// Like [`removals`], without addresses that a client may have brought and keeps.
pub(crate) fn lasting_removals(desired: &Value, current: &Value) -> Vec<Difference> {
    compared(desired, current, |desired, host| {
        let mut found = removals_from(desired, host);
        leave_leases(&mut found, desired, host);
        found
    })
}

/// Takes the addresses out that a client may have brought and keeps. A card that becomes a port loses
/// them all the same.
pub(crate) fn leave_leases(found: &mut Vec<Difference>, desired: &Value, host: &Index) {
    let wishes = Index::of(desired);
    let lost = losses::losses(desired, host.state);
    let lost: BTreeSet<&Path> = lost.iter().map(|loss| &loss.path).collect();
    found.retain(|removal| lost.contains(&removal.path) || !may_be_leased(removal, &wishes, host));
}

fn removals_from(desired: &Value, host: &Index) -> Vec<Difference> {
    let mut found = Vec::new();
    for wanted in interfaces(desired) {
        let path = Path::of_interface(wanted);
        if let Some(there) = host.meant(wanted) {
            interface(&path, wanted, there, host, &mut found);
        }
    }
    dns(desired, host.state, &mut found);
    open_vswitch(desired, host.state, &mut found);
    found.extend(losses::losses(desired, host.state));
    found
}

fn interface(
    path: &Path,
    wanted: &Value,
    there: &Value,
    host: &Index,
    found: &mut Vec<Difference>,
) {
    if wanted["state"] == "ignore" {
        return;
    }
    if let state @ ("absent" | "down") = wanted["state"].as_str().unwrap_or("up") {
        // Virtual interfaces go, which counts as drift. A card stays, without its configuration.
        if is_card(wanted, there) && there["state"] == "up" {
            found.push(Difference {
                path: path.key("state"),
                wanted: state.into(),
                found: there["state"].clone(),
            });
        }
        return;
    }
    for family in ["ipv4", "ipv6"] {
        addresses(&path.key(family), &wanted[family], &there[family], found);
    }
    let mut rebound = |key: &str, wanted: &str, is: &str| {
        if wanted != is {
            found.push(Difference {
                path: path.key(key),
                wanted: wanted.into(),
                found: is.into(),
            });
        }
    };
    if let Some(controller) = wanted["controller"].as_str() {
        rebound(
            "controller",
            controller,
            there["controller"].as_str().unwrap_or_default(),
        );
    }
    if let Some(identifier) = wanted["identifier"].as_str() {
        rebound(
            "identifier",
            identifier,
            there["identifier"].as_str().unwrap_or("name"),
        );
    }
    // A report leaves out the name of a profile that is the name of its interface.
    if let Some(profile) = wanted["profile-name"].as_str() {
        rebound(
            "profile-name",
            profile,
            there["profile-name"]
                .as_str()
                .or(there["name"].as_str())
                .unwrap_or_default(),
        );
    }
    // A host does not report a description that it does not have. An apply brings it, and it is no
    // drift: a host without NetworkManager keeps none.
    let description = &wanted["description"];
    if !text(description).is_empty() && there["description"].is_null() {
        found.push(Difference {
            path: path.key("description"),
            wanted: description.clone(),
            found: Value::Null,
        });
    }
    // A host does not say how long it waits for the addresses of an interface without a profile.
    let wait = &wanted["wait-ip"];
    if !matches!(text(wait).as_str(), "" | "any") && there["wait-ip"].is_null() {
        found.push(Difference {
            path: path.key("wait-ip"),
            wanted: wait.clone(),
            found: Value::Null,
        });
    }
    for event in dispatch::removed_scripts(wanted, there) {
        found.push(Difference {
            path: path.key("dispatch").key(event),
            wanted: Value::Null,
            found: there["dispatch"][event].clone(),
        });
    }
    if let Some(source) = wanted["copy-mac-from"].as_str()
        && let Some(mac) = host
            .name(source)
            .map(|source| &source["mac-address"])
            .filter(|mac| !mac.is_null() && !same(mac, &there["mac-address"]))
    {
        found.push(Difference {
            path: path.key("mac-address"),
            wanted: mac.clone(),
            found: there["mac-address"].clone(),
        });
    }
}

/// Addresses that are there and that the list leaves out: nmstate removes them unless they are
/// given by DHCP, a router or the kernel.
fn addresses(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    let Some(listed) = wanted["address"]
        .as_array()
        .filter(|_| wanted["enabled"] != false)
    else {
        return;
    };
    // `false` makes them drift, which is compared already.
    if wanted["allow-extra-address"] == false {
        return;
    }
    for extra in entries(&is["address"]) {
        if !is_automatic(extra) && !listed.iter().any(|address| is_same_address(address, extra)) {
            let text = address_text(extra);
            found.push(Difference {
                path: path.key("address").item(&text),
                wanted: Value::Null,
                found: text.into(),
            });
        }
    }
}

/// Reports whether a removal can be that of an address that a client of DHCP or of routers has
/// brought and keeps. A report does not say for how long an address is valid, so it says this of no
/// address.
fn may_be_leased(removal: &Difference, desired: &Index, host: &Index) -> bool {
    let [
        Step::Key(_),
        Step::Item(key),
        Step::Key(family),
        Step::Key(list),
        _,
    ] = removal.path.0.as_slice()
    else {
        return false;
    };
    let (Some(wanted), true) = (desired.key(key), list == "address") else {
        return false;
    };
    let Some(there) = host.meant(wanted) else {
        return false;
    };
    let (wish, is) = (&wanted[family.as_str()], &there[family.as_str()]);
    let stays = |client: &str| match &wish[client] {
        Value::Null => is[client] == true,
        wish => *wish == true && is[client] == true,
    };
    let says_leases = says_leases(entries(&is["address"]));
    removal.wanted.is_null() && !says_leases && (stays("dhcp") || stays("autoconf"))
}

/// A configuration that says nothing clears all of it.
fn dns(desired: &Value, current: &Value, found: &mut Vec<Difference>) {
    let path = Path::default().key("dns-resolver").key("config");
    if desired["dns-resolver"]["config"]
        .as_object()
        .is_some_and(Map::is_empty)
    {
        for key in ["server", "search", "options"] {
            let is = &current["dns-resolver"]["config"][key];
            if !entries(is).is_empty() {
                found.push(Difference {
                    path: path.key(key),
                    wanted: json!([]),
                    found: is.clone(),
                });
            }
        }
    }
}

/// Reports whether `ovs-db` clears all keys but OVN's: it is empty, or both of its sections are.
pub(crate) fn is_purge(wanted: &Map<String, Value>) -> bool {
    let is_empty = |section: &str| {
        wanted
            .get(section)
            .and_then(Value::as_object)
            .is_some_and(Map::is_empty)
    };
    wanted.is_empty() || OVS_SECTIONS.into_iter().all(is_empty)
}

fn open_vswitch(desired: &Value, current: &Value, found: &mut Vec<Difference>) {
    let Some(wanted) = desired["ovs-db"].as_object() else {
        return;
    };
    if !is_purge(wanted) {
        return;
    }
    for section in OVS_SECTIONS {
        for (key, is) in current["ovs-db"][section]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != OVN_MAPPINGS)
        {
            let path = Path::default().key("ovs-db").key(section).key(key);
            found.push(Difference {
                path,
                wanted: Value::Null,
                found: text(is).into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::drift::differences;

    fn current() -> Value {
        json!({
            "dns-resolver": {"config": {"server": ["192.0.2.53"], "search": []}},
            "ovs-db": {
                "external_ids": {"system-id": "a", "ovn-bridge-mappings": "net:br"},
                "other_config": {"hw-offload": "true"}
            },
            "interfaces": [
                {"name": "eth1", "type": "ethernet", "state": "up", "mac-address": "02:00:00:00:00:01", "identifier": "name", "controller": "br0",
                 "dispatch": {"post-activation": "echo up"},
                 "ipv4": {"enabled": true, "address": [
                    {
                        "ip": "10.0.0.1", "prefix-length": 24
                    }, {"ip": "10.0.0.2", "prefix-length": 24},
                    {"ip": "10.0.0.3", "prefix-length": 24, "valid-life-time": "30sec"}]}},
                {"name": "eth2", "type": "ethernet", "state": "down"},
                {
                    "name": "br0", "type": "linux-bridge", "state": "up",
                    "mac-address": "02:00:00:00:00:0B"
                },
                {
                    "name": "lo", "type": "loopback", "state": "up",
                    "ipv4": {"enabled": true, "address": [
                        {"ip": "127.0.0.1", "prefix-length": 8},
                        {"ip": "127.0.0.2", "prefix-length": 8}
                    ]},
                    "ipv6": {"enabled": true, "address": [{"ip": "::1", "prefix-length": 128}]}
                },
            ],
        })
    }

    fn said(desired: Value) -> Vec<String> {
        assert_eq!(
            differences(&desired, &current()),
            [],
            "drift leaves it alone: {desired}"
        );
        changes(&desired, &current())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn eth1(rest: Value) -> Value {
        let mut interface = json!({"name": "eth1", "type": "ethernet", "state": "up"});
        interface
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        json!({ "interfaces": [interface] })
    }

    #[test]
    fn each_removal_is_a_change_and_no_drift() {
        let first = json!([{"ip": "10.0.0.1", "prefix-length": 24}]);
        let bridge = json!({
            "interfaces": [
                {"name": "br0", "type": "linux-bridge", "state": "up", "copy-mac-from": "eth1"}
            ]
        });
        let lo = json!({"interfaces": [{
            "name": "lo", "type": "loopback", "state": "up",
            "ipv4": {"enabled": true, "address": []}, "ipv6": {"enabled": true, "address": []}
        }]});
        for (desired, expected) in [
            (
                eth1(json!({"ipv4": {"enabled": true, "address": first}})),
                vec![
                    "interfaces[eth1].ipv4.address[10.0.0.2/24]: \"10.0.0.2/24\" should not be there",
                ],
            ),
            (
                eth1(json!({"ipv4": {"enabled": true, "address": []}})),
                vec![
                    "interfaces[eth1].ipv4.address[10.0.0.1/24]: \"10.0.0.1/24\" should not be there",
                    "interfaces[eth1].ipv4.address[10.0.0.2/24]: \"10.0.0.2/24\" should not be there",
                ],
            ),
            (
                eth1(json!({"state": "absent"})),
                vec!["interfaces[eth1].state: \"up\" should be \"absent\""],
            ),
            (
                eth1(json!({"state": "down"})),
                vec!["interfaces[eth1].state: \"up\" should be \"down\""],
            ),
            (
                eth1(json!({"controller": ""})),
                vec!["interfaces[eth1].controller: \"br0\" should be \"\""],
            ),
            (
                eth1(json!({"description": "uplink"})),
                vec!["interfaces[eth1].description: \"uplink\" is missing"],
            ),
            // The kernel gives the others.
            (
                lo,
                vec![
                    "interfaces[lo].ipv4.address[127.0.0.2/8]: \"127.0.0.2/8\" should not be there",
                ],
            ),
            (
                eth1(json!({"wait-ip": "ipv4"})),
                vec!["interfaces[eth1].wait-ip: \"ipv4\" is missing"],
            ),
            (
                eth1(json!({"dispatch": {"post-activation": ""}})),
                vec!["interfaces[eth1].dispatch.post-activation: \"echo up\" should not be there"],
            ),
            (
                eth1(json!({"controller": "br1"})),
                vec![
                    "interfaces[eth1].controller: \"br0\" should be \"br1\"",
                    "interfaces[eth1].ipv4.address[10.0.0.1/24]: \"10.0.0.1/24\" should not be there",
                    "interfaces[eth1].ipv4.address[10.0.0.2/24]: \"10.0.0.2/24\" should not be there",
                    "interfaces[eth1].ipv4.address[10.0.0.3/24]: \"10.0.0.3/24\" should not be there",
                ],
            ),
            (
                eth1(json!({"profile-name": "uplink"})),
                vec!["interfaces[eth1].profile-name: \"eth1\" should be \"uplink\""],
            ),
            (
                eth1(json!({"identifier": "mac-address", "mac-address": "02:00:00:00:00:01"})),
                vec!["interfaces[eth1].identifier: \"name\" should be \"mac-address\""],
            ),
            (
                bridge,
                vec![
                    "interfaces[br0].mac-address: \"02:00:00:00:00:0B\" should be \"02:00:00:00:00:01\"",
                ],
            ),
            (
                json!({"dns-resolver": {"config": {}}}),
                vec!["dns-resolver.config.server: [\"192.0.2.53\"] should be []"],
            ),
            (
                json!({"ovs-db": {}}),
                vec![
                    "ovs-db.external_ids.system-id: \"a\" should not be there",
                    "ovs-db.other_config.hw-offload: \"true\" should not be there",
                ],
            ),
        ] {
            assert_eq!(said(desired.clone()), expected, "{desired}");
        }
    }

    #[test]
    fn an_address_that_can_be_that_of_a_client_is_no_removal() {
        let report = |dhcp: bool| {
            json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "ipv4": {
                "enabled": true, "dhcp": dhcp, "address": [{"ip": "10.0.0.9", "prefix-length": 24}]
            }}]})
        };
        let leased = |ipv4: Value, report: &Value| {
            let desired = eth1(json!({ "ipv4": ipv4 }));
            let removals = removals(&desired, report);
            assert_eq!(removals.len(), 1, "{desired}");
            may_be_leased(&removals[0], &Index::of(&desired), &Index::of(report))
        };
        let address = json!([{"ip": "10.0.0.1", "prefix-length": 24}]);
        let listed = json!({"enabled": true, "address": address});
        let stopped = json!({"enabled": true, "dhcp": false, "address": address});
        assert!(leased(listed.clone(), &report(true)));
        assert!(!leased(stopped, &report(true)));
        assert!(!leased(listed.clone(), &report(false)));
        let mut by_agent = report(true);
        let more = json!({"ip": "10.0.0.8", "prefix-length": 24, "valid-life-time": "9sec"});
        by_agent["interfaces"][0]["ipv4"]["address"]
            .as_array_mut()
            .unwrap()
            .push(more);
        assert!(!leased(listed, &by_agent));
    }

    #[test]
    fn untouched_parts_of_an_apply_are_no_change() {
        let both = json!([
            {"ip": "10.0.0.1", "prefix-length": 24}, {"ip": "10.0.0.2", "prefix-length": 24}
        ]);
        for desired in [
            eth1(json!({"ipv4": {"enabled": true, "address": both}})),
            eth1(json!({"ipv4": {"enabled": true}})),
            eth1(json!({"description": ""})),
            eth1(json!({"wait-ip": "any"})),
            eth1(json!({"dispatch": {"post-activation": "echo up\n", "post-deactivation": ""}})),
            eth1(json!({"controller": "br0", "identifier": "name", "profile-name": "eth1"})),
            json!({"interfaces": [{"name": "eth2", "type": "ethernet", "state": "absent"}]}),
            json!({"interfaces": [{"name": "eth2", "type": "ethernet", "state": "down"}]}),
            json!({
                "dns-resolver": {"config": {"server": ["192.0.2.53"]}},
                "ovs-db": {"other_config": {"hw-offload": "true"}}
            }),
            json!({}),
        ] {
            assert_eq!(said(desired.clone()), Vec::<String>::new(), "{desired}");
        }
    }
}
