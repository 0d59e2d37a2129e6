//! Compares the schema of `weft` with nmstate itself. The test asks nmstate value by value, and
//! nmstate's errors list the accepted ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value, json};

/// A word that is none anywhere.
const NONE: &str = "weft-asks";

/// The result for a place that accepts nothing: ipv4 has the keys of ipv6 and accepts none of their
/// values.
const NOTHING: &str = "nothing";

/// The keys of an interface that are tried with each type. Nmstate does not list them.
const KEYS: [&str; 41] = [
    "802.1x",
    "accept-all-mac-addresses",
    "alt-names",
    "bridge",
    "controller",
    "copy-mac-from",
    "description",
    "dispatch",
    "dpdk",
    "driver",
    "ethernet",
    "ethtool",
    "hsr",
    "identifier",
    "infiniband",
    "ip-tunnel",
    "ipv4",
    "ipv6",
    "ipvlan",
    "libreswan",
    "link-aggregation",
    "lldp",
    "mac-address",
    "mac-vlan",
    "mac-vtap",
    "macsec",
    "max-mtu",
    "min-mtu",
    "mptcp",
    "mtu",
    "ovs-db",
    "patch",
    "pci-address",
    "permanent-mac-address",
    "profile-name",
    "state",
    "veth",
    "vlan",
    "vrf",
    "vxlan",
    "wait-ip",
];

/// The types of interfaces that can be configured.
const TYPES: [&str; 19] = [
    "bond",
    "linux-bridge",
    "dummy",
    "ethernet",
    "hsr",
    "ip-tunnel",
    "loopback",
    "mac-vlan",
    "mac-vtap",
    "ovs-bridge",
    "ovs-interface",
    "veth",
    "vlan",
    "vrf",
    "vxlan",
    "infiniband",
    "macsec",
    "ipsec",
    "ipvlan",
];

#[test]
fn the_schema_is_what_nmstate_says() {
    let learned = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node-network/src/nmstate.json");
    if std::env::var_os("WEFT_GENERATE").is_some() {
        std::fs::write(&file, &learned).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == learned,
        "{} is not what nmstate says: run `make generate`",
        file.display()
    );
}

fn schema() -> Value {
    let known = quoted(&answer(json!({NONE: 1})).unwrap_err());
    let sections = known.iter().filter(|key| *key != "interfaces");
    let keys: Map<String, Value> = sections
        .map(|key| (key.clone(), learn(&|value| answer(json!({key: value})))))
        .collect();
    let mut base: Map<String, Value> = Map::new();
    let mut types: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for kind in TYPES {
        let known: nmstate::InterfaceType = serde_json::from_value(json!(kind)).unwrap();
        assert!(!matches!(known, nmstate::InterfaceType::Other(_)), "{kind}");
        for key in KEYS {
            let place = |value: Value| {
                answer(json!({"interfaces": [{"name": "x", "type": kind, key: value}]}))
            };
            if place(json!(true))
                .is_err_and(|message| message.contains(&format!("unknown field `{key}`")))
            {
                continue;
            }
            types
                .entry(kind)
                .or_default()
                .insert(key.to_owned(), learn(&place));
        }
    }
    // Common keys of all types appear once.
    for key in KEYS {
        let nodes: Vec<&Value> = types.values().filter_map(|keys| keys.get(key)).collect();
        if nodes.len() == TYPES.len() && nodes.windows(2).all(|pair| pair[0] == pair[1]) {
            base.insert(key.to_owned(), nodes[0].clone());
        }
    }
    for keys in types.values_mut() {
        keys.retain(|key, _| !base.contains_key(key));
    }
    base.insert("name".to_owned(), json!("text"));
    sorted(json!({"state": keys, "interface": base, "types": types}))
}

/// Feature flags of other crates choose the order of keys. The file has one of its own.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries: BTreeMap<String, Value> = map
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn answer(state: Value) -> Result<(), String> {
    serde_json::from_value::<nmstate::NetworkState>(state)
        .map(|_| ())
        .map_err(|error| error.to_string())
}

/// Learns the values that nmstate accepts at a place. `place` returns nmstate's answer to a value
/// there.
fn learn(place: &dyn Fn(Value) -> Result<(), String>) -> Value {
    if let Err(message) = place(json!(NONE))
        && message.contains("unknown variant")
    {
        let words = quoted(&message);
        let takes_numbers = words
            .iter()
            .filter_map(|word| word.parse::<u64>().ok())
            .any(|number| place(json!(number)).is_ok());
        return if takes_numbers {
            json!({"one of": words, "numbers": true})
        } else {
            json!({"one of": words})
        };
    }
    let (unknown, empty) = (place(json!({NONE: 1})), place(json!({})));
    let names_keys = |message: &String| message.contains(NONE) && !quoted(message).is_empty();
    if empty.is_ok()
        || empty
            .as_ref()
            .err()
            .is_some_and(|message| missing(message).is_some())
        || unknown.as_ref().err().is_some_and(names_keys)
    {
        let map = learn_map(place);
        let is_short = map != "any" && place(json!(true)).is_ok();
        return if is_short {
            json!({"any of": [learn_scalar(place), map]})
        } else {
            map
        };
    }
    if place(json!([])).is_ok() {
        json!({"list": learn(&|value| place(json!([value])))})
    } else {
        learn_scalar(place)
    }
}

fn learn_map(place: &dyn Fn(Value) -> Result<(), String>) -> Value {
    // A value is only looked at where everything is that must be.
    let mut needed = Map::new();
    let mut nodes = Map::new();
    let with = |needed: &Map<String, Value>, key: &str, value: Value| {
        let mut map = needed.clone();
        map.insert(key.to_owned(), value);
        place(Value::Object(map))
    };
    while let Some(key) = place(Value::Object(needed.clone()))
        .err()
        .as_deref()
        .and_then(missing)
    {
        assert!(!needed.contains_key(&key), "{key}");
        let of_others = |answer: Result<(), String>| {
            answer.or_else(|message| {
                missing(&message)
                    .filter(|other| *other != key)
                    .map(|_| ())
                    .ok_or(message)
            })
        };
        let of_key = |value: Value| of_others(with(&needed, &key, value));
        let (value, node) = (some(&of_key), learn(&of_key));
        needed.insert(key.clone(), value);
        nodes.insert(key, node);
    }
    let each = |value: Value| with(&needed, NONE, value);
    let mut others = None;
    match each(json!(1)) {
        Err(message) if message.contains(NONE) => {
            let keys = quoted(&message)
                .into_iter()
                .map(|key| (key.clone(), learn(&|value| with(&needed, &key, value))));
            nodes.extend(keys.filter(|(_, node)| node != NOTHING));
        }
        // Nobody looks at other keys.
        Ok(()) if !nodes.is_empty() => others = Some("any"),
        // Any key will do.
        Ok(())
            if [json!("x"), json!(true), json!([]), json!({})]
                .iter()
                .all(|value| each(value.clone()).is_ok()) =>
        {
            return json!("any");
        }
        _ => return json!({"each": learn(&each)}),
    }
    let mut node = json!({"keys": nodes});
    if !needed.is_empty() {
        node["needs"] = needed.keys().cloned().collect();
    }
    if let Some(others) = others {
        node["each"] = others.into();
    }
    node
}

/// Words of all forms that are wanted somewhere.
const WORDS: [&str; 9] = [
    "x",
    "1",
    "192.0.2.1",
    "2001:db8::1",
    "192.0.2.0/24",
    "2001:db8::/64",
    "00:00:5E:00:53:01",
    "0000:00:1f.4",
    "x:1",
];

/// A value that can stand there.
fn some(place: &dyn Fn(Value) -> Result<(), String>) -> Value {
    let words = WORDS.iter().map(|word| json!(word));
    let variant = place(json!(NONE))
        .err()
        .filter(|message| message.contains("unknown variant"))
        .map(|message| json!(quoted(&message)[0]));
    let mut all = [json!(1), json!(true), json!([]), json!({})]
        .into_iter()
        .chain(variant)
        .chain(words);
    all.find(|value| place(value.clone()).is_ok())
        .expect("there is one")
}

/// The words of a message such as "expecting 0|1|2 or auto|disabled|enabled".
fn alternatives(message: &str) -> Vec<String> {
    message
        .split(' ')
        .filter(|part| part.contains('|'))
        .flat_map(|part| part.split('|').map(str::to_owned))
        .collect()
}

/// The words that a message such as "should be lo, ra, kernel_ll or integer" names and that can stand
/// there. Numbers are left out.
fn named(place: &dyn Fn(Value) -> Result<(), String>) -> Vec<String> {
    let message = place(json!(NONE)).err().unwrap_or_default();
    message
        .split(|part: char| !part.is_alphanumeric() && part != '_')
        .filter(|word| word.parse::<u64>().is_err() && place(json!(word)).is_ok())
        .map(str::to_owned)
        .collect()
}

fn learn_scalar(place: &dyn Fn(Value) -> Result<(), String>) -> Value {
    let takes = |value: Value| place(value).is_ok();
    if takes(json!(true)) && !takes(json!(NONE)) {
        return json!(match (takes(json!("true")), takes(json!("yes"))) {
            (true, true) => "boolean or text",
            (true, false) => "boolean or true",
            (false, _) => "boolean",
        });
    }
    let words = alternatives(&place(json!(NONE)).err().unwrap_or_default());
    if words.iter().any(|word| takes(json!(word))) {
        return json!({"one of": words, "numbers": true});
    }
    let bits = [
        (255_u64, "8"),
        (65_535, "16"),
        (4_294_967_295, "32"),
        (u64::MAX, "64"),
    ];
    if takes(json!(1)) {
        // The largest number that it takes is that of its type, or of the signed one.
        let largest = |most: u64| {
            takes(json!(most)) && most.checked_add(1).is_none_or(|more| !takes(json!(more)))
        };
        let unsigned = bits
            .iter()
            .find(|(most, _)| largest(*most))
            .map(|(_, bits)| format!("u{bits}"));
        let signed = || {
            bits.iter()
                .find(|(most, _)| largest(most / 2))
                .map(|(_, bits)| format!("i{bits}"))
        };
        let number = unsigned
            .or_else(signed)
            .unwrap_or_else(|| "number".to_owned());
        return match (takes(json!("1")), takes(json!(NONE))) {
            // Also words that say no number.
            (true, false) if ["yes", "no"].into_iter().all(|word| takes(json!(word))) => {
                json!({"any of": [format!("{number} or text"), {"one of": ["yes", "no"]}]})
            }
            (true, false) => {
                let number = json!(format!("{number} or text"));
                match named(place) {
                    words if words.is_empty() => number,
                    words => json!({"any of": [number, {"one of": words}]}),
                }
            }
            (true, true) => json!("any scalar"),
            (false, _) => json!(number),
        };
    }
    let is_text = WORDS.iter().any(|word| takes(json!(word)));
    json!(if is_text { "text" } else { NOTHING })
}

fn missing(message: &str) -> Option<String> {
    Some(
        message
            .split_once("missing field `")?
            .1
            .split_once('`')?
            .0
            .to_owned(),
    )
}

/// The words that a message names, but what was asked.
fn quoted(message: &str) -> Vec<String> {
    let within = |quote| {
        message
            .split(quote)
            .skip(1)
            .step_by(2)
            .filter(|word| *word != NONE)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    Some(within('`'))
        .filter(|words| !words.is_empty())
        .unwrap_or_else(|| within('\''))
}

#[test]
fn the_schema_and_nmstate_take_the_same() {
    let interface = |kind: &str, rest: Value| {
        let mut interface = json!({"name": "x", "type": kind, "state": "up"});
        interface
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        json!({"interfaces": [interface]})
    };
    for (is_right, state) in [
        (
            true,
            interface(
                "ethernet",
                json!({"mtu": "1500", "ipv4": {"enabled": "yes", "dhcp": 1}}),
            ),
        ),
        (
            true,
            interface(
                "ethernet",
                json!({
                    "ethtool": {"feature": {"rx-gro": true}},
                    "ethernet": {"sr-iov": {"vfs": [{"id": 0, "trust": true}]}}
                }),
            ),
        ),
        (
            true,
            interface(
                "bond",
                json!({
                    "link-aggregation": {
                        "mode": "802.3ad", "options": {"miimon": "100"}, "port": ["a"]
                    }
                }),
            ),
        ),
        (
            true,
            interface(
                "ovs-bridge",
                json!({
                    "bridge": {
                        "options": {"stp": true},
                        "port": [
                            {
                                "name": "a",
                                "link-aggregation": {"mode": "balance-slb", "port": [{"name": "b"}]}
                            }
                        ]
                    }
                }),
            ),
        ),
        (
            true,
            interface(
                "linux-bridge",
                json!({
                    "bridge": {
                        "port": [
                            {
                                "name": "a",
                                "vlan": {
                                    "mode": "trunk",
                                    "trunk-tags": [{"id": 1}, {"id-range": {"min": 2, "max": 4094}}]
                                }
                            }
                        ]
                    }
                }),
            ),
        ),
        (
            true,
            interface(
                "bond",
                json!({"state": "absent", "vlan": {"nonsense": true}}),
            ),
        ),
        (
            true,
            json!({
                "route-rules": {
                    "config": [{"fwmark": "0x10", "fwmask": "0x10", "ip-from": "192.0.2.0/24"}]
                },
                "dns-resolver": {"config": {"server": ["192.0.2.53"]}}
            }),
        ),
        (
            true,
            interface(
                "bond",
                json!({
                    "link-aggregation": {
                        "mode": 1, "options": {"miimon": "0x64", "primary_reselect": 1}
                    }
                }),
            ),
        ),
        (
            true,
            interface(
                "bond",
                json!({
                    "link-aggregation": {
                        "mode": "4",
                        "options": {"lacp_rate": 1, "ad_select": 0, "xmit_hash_policy": 2}
                    }
                }),
            ),
        ),
        (
            false,
            interface("bond", json!({"link-aggregation": {"mode": 7}})),
        ),
        (
            false,
            interface(
                "bond",
                json!({"link-aggregation": {"mode": "802.3ad", "options": {"lacp_rate": 2}}}),
            ),
        ),
        (
            true,
            interface(
                "ovs-interface",
                json!({"dpdk": {"devargs": "0000:af:00.1", "rx-queue": 10, "n_rxq_desc": 1024}}),
            ),
        ),
        (
            false,
            interface("ovs-interface", json!({"dpdk": {"rx-queue": 10}})),
        ),
        (
            true,
            interface(
                "ipsec",
                json!({"libreswan": {"right": "192.0.2.1", "ipsec-interface": "yes"}}),
            ),
        ),
        (
            true,
            interface(
                "ipsec",
                json!({"libreswan": {"right": "192.0.2.1", "ipsec-interface": "no"}}),
            ),
        ),
        (
            true,
            interface(
                "ipsec",
                json!({"libreswan": {"right": "192.0.2.1", "ipsec-interface": 9}}),
            ),
        ),
        (
            true,
            interface(
                "ipsec",
                json!({"libreswan": {"right": "192.0.2.1", "ipsec-interface": "9"}}),
            ),
        ),
        (
            false,
            interface(
                "ipsec",
                json!({"libreswan": {"right": "192.0.2.1", "ipsec-interface": "perhaps"}}),
            ),
        ),
        (true, interface("tun", json!({"mtu": 1400}))),
        (true, interface("xfrm", json!({"state": "absent"}))),
        (
            true,
            interface("unknown", json!({"anything": {"at": "all"}})),
        ),
        (false, interface("ethernet", json!({"mtu": "many"}))),
        (false, interface("ethernet", json!({"mtu": -1}))),
        (
            false,
            interface("ethernet", json!({"ipv4": {"enabled": "perhaps"}})),
        ),
        (
            false,
            interface(
                "ethernet",
                json!({"ipv4": {"address": [{"ip": "192.0.2.1", "prefix-length": 256}]}}),
            ),
        ),
        (false, interface("ethernet", json!({"ipv4": []}))),
        (false, interface("ethernet", json!({"bridge": {}}))),
        (
            false,
            interface("vlan", json!({"vlan": {"base-iface": "eth0"}})),
        ),
        (false, interface("vlan", json!({"vlan": {"id": 70000}}))),
        (
            false,
            interface("bond", json!({"link-aggregation": {"mode": "lacpp"}})),
        ),
        (false, json!({"routes": {"config": [{"destination": 1}]}})),
        (false, json!({"hostname": {"config": true}})),
    ] {
        let mistakes = weft_node_network::schema::mistakes(&state);
        assert_eq!(
            answer(state.clone()).is_ok(),
            is_right,
            "nmstate: {state} {:?}",
            answer(state.clone())
        );
        // Of an interface that is to go, nmstate does not even read the keys. A section of another
        // type is a mistake all the same.
        let is_excused = state["interfaces"][0]["vlan"]["nonsense"] == true;
        assert_eq!(
            mistakes.is_empty(),
            is_right && !is_excused,
            "{state}: {mistakes:?}"
        );
    }
}
