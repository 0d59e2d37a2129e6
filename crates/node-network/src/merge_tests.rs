#![allow(clippy::unwrap_used)]

use super::*;
use crate::{canonical::same, claims::Claims};
use proptest::{prelude::*, sample::subsequence};
use serde_json::json;

fn layer(name: &str, priority: i64, state: Value) -> Layer {
    Layer {
        owner: Owner::Policy(name.to_owned()),
        rank: Rank::Policy(priority),
        state,
    }
}

fn node(state: Value) -> Layer {
    Layer {
        owner: Owner::Node,
        rank: Rank::Node,
        state,
    }
}

fn eth(name: &str, rest: Value) -> Value {
    let mut interface = json!({"name": name, "type": "ethernet", "state": "up"});
    interface
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    json!({ "interfaces": [interface] })
}

#[test]
fn a_higher_priority_overrides_property_by_property() {
    let merged = merge(&[
        layer(
            "b",
            10,
            eth(
                "eth1",
                json!({
                    "mtu": 9000,
                    "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.2", "prefix-length": 24}]}
                }),
            ),
        ),
        layer(
            "a",
            0,
            eth(
                "eth1",
                json!({
                    "mtu": 1500, "description": "low",
                    "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.1", "prefix-length": 24}]}
                }),
            ),
        ),
        node(eth("eth1", json!({"mtu": "1400"}))),
    ]);
    assert_eq!(merged.conflicts, []);
    assert_eq!(
        merged.state,
        eth(
            "eth1",
            json!({
                "mtu": "1400", "description": "low",
                "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.2", "prefix-length": 24}]}
            })
        )
    );
    let owner = |path: &str| {
        merged
            .owners
            .iter()
            .find(|(place, _)| place.to_string() == path)
            .map(|(_, owners)| owners.clone())
            .unwrap()
    };
    assert_eq!(owner("interfaces[eth1].mtu"), BTreeSet::from([Owner::Node]));
    assert_eq!(
        owner("interfaces[eth1].description"),
        BTreeSet::from([Owner::Policy("a".to_owned())])
    );
    assert_eq!(
        owner("interfaces[eth1].ipv4.address"),
        BTreeSet::from([Owner::Policy("b".to_owned())])
    );
}

#[test]
fn equal_priorities_agree_or_conflict_and_both_are_named() {
    let agree = merge(&[
        layer(
            "a",
            0,
            eth(
                "eth1",
                json!({"mtu": 9000, "mac-address": "02:00:00:00:00:0a"}),
            ),
        ),
        layer(
            "b",
            0,
            eth(
                "eth1",
                json!({"mtu": "9000", "mac-address": "02:00:00:00:00:0A"}),
            ),
        ),
    ]);
    assert_eq!(agree.conflicts, []);
    let conflict = merge(&[
        layer("b", 0, eth("eth1", json!({"mtu": 1500}))),
        layer("a", 0, eth("eth1", json!({"mtu": 9000}))),
    ])
    .conflicts;
    assert_eq!(
        conflict.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "interfaces[eth1].mtu: policy a wants 9000, policy b wants 1500, and their priority is the same: make the policies agree, \
             or give one of them a higher spec.priority"
        ]
    );
    // A third one that stands above both ends the quarrel.
    let settled = merge(&[
        layer("b", 0, eth("eth1", json!({"mtu": 1500}))),
        layer("a", 0, eth("eth1", json!({"mtu": 9000}))),
        layer("c", 1, eth("eth1", json!({"mtu": 1400}))),
    ]);
    assert_eq!(settled.conflicts, []);
    assert_eq!(settled.state["interfaces"][0]["mtu"], 1400);
}

#[test]
fn an_interface_cannot_be_there_and_absent() {
    let absent =
        json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "absent"}]});
    // An interface without a state is up.
    let bridge =
        json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "bridge": {"port": []}}]});
    let paths = |low: i64, high: i64| {
        merge(&[
            layer("a", low, absent.clone()),
            layer("b", high, bridge.clone()),
        ])
    };
    assert_eq!(
        paths(0, 0)
            .conflicts
            .iter()
            .map(|conflict| conflict.path.to_string())
            .collect::<Vec<_>>(),
        ["interfaces[br1].state"]
    );
    assert_eq!(paths(0, 1).state["interfaces"][0]["state"], "up");
    assert_eq!(paths(1, 0).state, absent);
}

#[test]
fn open_vswitch_has_a_bridge_and_a_port_of_one_name() {
    let state = json!({
        "interfaces": [
            {"name": "br-ex", "type": "ovs-bridge", "state": "up"},
            {"name": "br-ex", "type": "ovs-interface", "state": "up", "mtu": 9000}
        ]
    });
    let merged = merge(&[layer("a", 0, state.clone())]);
    assert!(same(&merged.state, &state), "{}", merged.state);
}

#[test]
fn routes_and_rules_are_united_and_removals_count() {
    let route = |destination: &str, rest: Value| {
        let mut route = json!({
            "destination": destination, "next-hop-interface": "eth1", "next-hop-address": "10.0.0.1"
        });
        route
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        route
    };
    let routes = |list: &[Value]| json!({"routes": {"config": list}});
    let merged = merge(&[
        layer("a", 0, routes(&[route("10.1.0.0/16", json!({}))])),
        layer("b", 0, routes(&[route("10.2.0.0/16", json!({}))])),
    ]);
    assert_eq!(
        (
            merged.state["routes"]["config"].as_array().unwrap().len(),
            merged.conflicts.len()
        ),
        (2, 0)
    );
    let metrics = merge(&[
        layer(
            "a",
            0,
            routes(&[route("10.1.0.0/16", json!({"metric": 1}))]),
        ),
        layer(
            "b",
            0,
            routes(&[route("10.1.0.0/16", json!({"metric": 2}))]),
        ),
    ]);
    assert_eq!(
        metrics.conflicts[0].path.to_string(),
        "routes.config[10.1.0.0/16 via 10.0.0.1 dev eth1].metric"
    );

    let removal = json!({"state": "absent", "next-hop-interface": "eth1"});
    let all_and_again = layer(
        "a",
        0,
        routes(&[removal.clone(), route("10.1.0.0/16", json!({}))]),
    );
    assert_eq!(
        merge([&all_and_again]).conflicts,
        [],
        "one policy may empty an interface and fill it again"
    );
    let other = |priority: i64| layer("b", priority, routes(&[route("10.2.0.0/16", json!({}))]));
    assert_eq!(merge(&[all_and_again.clone(), other(0)]).conflicts.len(), 1);
    assert_eq!(
        merge(&[all_and_again.clone(), other(1)]).state["routes"]["config"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        merge(&[all_and_again, other(-1)]).state["routes"]["config"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "the lower route is removed"
    );
}

#[test]
fn name_servers_are_one_list_in_order() {
    let dns = |servers: &[&str]| json!({"dns-resolver": {"config": {"server": servers}}});
    assert_eq!(
        merge(&[
            layer("a", 0, dns(&["::1", "10.0.0.1"])),
            layer("b", 0, dns(&["0::1", "10.0.0.1"]))
        ])
        .conflicts,
        []
    );
    assert_eq!(
        merge(&[
            layer("a", 0, dns(&["10.0.0.2", "10.0.0.1"])),
            layer("b", 0, dns(&["10.0.0.1", "10.0.0.2"]))
        ])
        .conflicts
        .len(),
        1
    );
}

#[test]
fn those_in_conflict_keep_what_was_applied_for_them() {
    let candidate = |layer: Layer, applied: Option<Value>| Candidate {
        wanted: layer,
        applied,
    };
    let (jumbo, small) = (
        eth("eth1", json!({"mtu": 9000})),
        eth("eth1", json!({"mtu": 1500})),
    );
    let other = candidate(layer("c", 0, eth("eth2", json!({"mtu": 1400}))), None);
    let settled = settle(&[
        candidate(layer("a", 0, jumbo.clone()), Some(jumbo.clone())),
        candidate(layer("b", 0, small.clone()), None),
        other.clone(),
    ]);
    assert_eq!(
        settled.held,
        BTreeSet::from([Owner::Policy("a".to_owned()), Owner::Policy("b".to_owned())])
    );
    assert!(
        settled.conflicts[0].concerns(&Owner::Policy("a".to_owned()))
            && settled.conflicts[0].concerns(&Owner::Policy("b".to_owned()))
    );
    let mtus: Vec<_> = settled.merged.state["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|interface| interface["mtu"].clone())
        .collect();
    assert_eq!(
        mtus,
        [9000, 1400],
        "the older one stays, the new one waits, a third is not held up"
    );
    // The applied states of both may contradict each other after a change of priority: then neither
    // counts.
    let settled = settle(&[
        candidate(layer("a", 0, jumbo.clone()), Some(jumbo)),
        candidate(layer("b", 0, small.clone()), Some(small)),
        other,
    ]);
    assert_eq!(settled.merged.state, eth("eth2", json!({"mtu": 1400})));
}

#[test]
fn a_value_above_others_gives_way_to_the_higher_rank() {
    let whole = eth("eth1", json!({"ethtool": "x"}));
    let part = eth("eth1", json!({"ethtool": {"pause": {"rx": true}}}));
    assert_eq!(
        merge(&[layer("a", 0, whole.clone()), layer("b", 0, part.clone())])
            .conflicts
            .len(),
        1
    );
    assert_eq!(
        merge(&[layer("a", 1, whole.clone()), layer("b", 0, part.clone())]).state,
        whole
    );
    assert_eq!(
        merge(&[layer("a", 0, whole), layer("b", 1, part.clone())]).state,
        part
    );
    let empty = eth("eth1", json!({"ethtool": {}}));
    assert_eq!(
        merge(&[layer("a", 0, empty.clone()), layer("b", 0, part.clone())]).state,
        part
    );
    assert_eq!(merge([&layer("a", 0, empty.clone())]).state, empty);
}

fn states() -> impl Strategy<Value = Value> {
    let interface = (
        prop::sample::select(vec!["eth0", "eth1", "br1"]),
        prop::option::of(prop::sample::select(vec!["up", "down", "absent"])),
        prop::option::of(prop::sample::select(vec![
            json!(1500),
            json!("1500"),
            json!(9000),
        ])),
        prop::option::of(prop::sample::select(vec![
            json!({}),
            json!({"enabled": false}),
            json!({"enabled": true, "address": []}),
            json!({"enabled": true, "dhcp": true}),
        ])),
    );
    let interface = interface.prop_map(|(name, state, mtu, ipv4)| {
        let mut interface = json!({"name": name});
        for (key, value) in [
            ("state", state.map(Value::from)),
            ("mtu", mtu),
            ("ipv4", ipv4),
        ] {
            if let Some(value) = value {
                interface[key] = value;
            }
        }
        interface
    });
    let route = (
        prop::sample::select(vec!["10.1.0.0/16", "10.2.0.0/16"]),
        prop::option::of(0..2_u32),
        any::<bool>(),
    );
    let route = route.prop_map(|(destination, metric, absent)| {
        let mut route = json!({"destination": destination, "next-hop-interface": "eth0"});
        if let Some(metric) = metric {
            route["metric"] = metric.into();
        }
        if absent {
            route["state"] = "absent".into();
        }
        route
    });
    let servers = prop::option::of(subsequence(vec!["10.0.0.1", "10.0.0.2"], 0..=2));
    (
        prop::collection::vec(interface, 0..3),
        prop::collection::vec(route, 0..3),
        servers,
    )
        .prop_map(|(mut interfaces, mut routes, servers)| {
            // In one state every interface and route stands once.
            let key = |interface: &Value| crate::path::interface_key(interface).into_owned();
            interfaces.sort_by_key(key);
            interfaces.dedup_by_key(|interface| key(interface));
            routes.sort_by_key(route::key);
            routes.dedup_by_key(|entry| route::key(entry));
            let mut state = json!({});
            if !interfaces.is_empty() {
                state["interfaces"] = interfaces.into();
            }
            if !routes.is_empty() {
                state["routes"] = json!({ "config": routes });
            }
            if let Some(servers) = servers {
                state["dns-resolver"] = json!({"config": {"server": servers}});
            }
            state
        })
}

fn layers() -> impl Strategy<Value = Vec<Layer>> {
    let priorities = prop::collection::vec((states(), -1..2_i64), 0..5);
    (priorities, prop::option::of(states())).prop_map(|(policies, own)| {
        let policies = policies.into_iter().enumerate();
        let mut layers: Vec<Layer> = policies
            .map(|(index, (state, priority))| layer(&format!("p{index}"), priority, state))
            .collect();
        layers.extend(own.map(node));
        layers
    })
}

proptest! {
    #[test]
    fn the_order_of_policies_never_matters((layers, shuffled) in layers().prop_flat_map(|layers| (Just(layers.clone()), Just(layers).prop_shuffle()))) {
        prop_assert_eq!(merge(&layers), merge(&shuffled));
    }

    #[test]
    fn any_grouping_gives_the_same(layers in layers(), cut in any::<prop::sample::Index>()) {
        let (left, right) = layers.split_at(cut.index(layers.len() + 1));
        let side = |layers: &[Layer]| layers.iter().map(Claims::of).fold(Claims::default(), Claims::join);
        let (left, right, all) = (side(left), side(right), side(&layers));
        prop_assert_eq!(left.clone().join(right.clone()), all.clone());
        prop_assert_eq!(right.join(left.clone()).resolve(), all.clone().resolve());
        prop_assert_eq!(all.clone().join(left), all, "joined again it stays the same");
    }

    #[test]
    fn a_state_merged_with_itself_is_itself(state in states()) {
        let once = merge([&layer("a", 0, state.clone())]);
        let twice = merge(&[layer("a", 0, state.clone()), layer("b", 0, state)]);
        prop_assert!(once.conflicts.is_empty());
        prop_assert!(twice.conflicts.is_empty());
        prop_assert!(same(&once.state, &twice.state));
        let again = merge([&layer("a", 0, once.state.clone())]);
        prop_assert!(same(&once.state, &again.state));
    }

    #[test]
    fn policies_of_one_priority_agree_or_conflict(left in states(), right in states()) {
        let merged = merge(&[layer("a", 0, left.clone()), layer("b", 0, right.clone())]);
        if merged.conflicts.is_empty() {
            // Then neither overrides anything of the other.
            for (state, name) in [(left, "a"), (right, "b")] {
                let alone = merge([&layer(name, 0, state)]);
                let overridden = merge(&[Layer { rank: Rank::Policy(1), ..layer("again", 1, alone.state.clone()) }, layer("m", 0, merged.state.clone())]);
                prop_assert!(same(&overridden.state, &merged.state), "{} {}", overridden.state, merged.state);
            }
        } else {
            prop_assert!(merged.conflicts.iter().all(|conflict| conflict.concerns(&Owner::Policy("a".to_owned())) && conflict.concerns(&Owner::Policy("b".to_owned()))));
        }
    }

    #[test]
    fn settled_claims_have_no_conflict(layers in layers(), applied in prop::collection::vec(prop::option::of(states()), 6)) {
        let candidates: Vec<Candidate> = layers.into_iter().zip(applied).map(|(wanted, applied)| Candidate { wanted, applied }).collect();
        let settled = settle(&candidates);
        prop_assert!(settled.merged.conflicts.is_empty());
        for owner in &settled.held {
            prop_assert!(settled.conflicts.iter().any(|conflict| conflict.concerns(owner)), "{} is held for nothing", owner);
        }
    }
}
