//! The spellings of the first README of kubernetes-nmstate in a desired state, and nmstate's own
//! second names for its keys: what they are today, and in a report. Today's pass as they are.

use crate::{path::Path, schema};
use serde_json::{Map, Value, json};

/// Keys of one object that were only renamed: where (the section of an interface, empty for the
/// interface itself), before, today.
const RENAMED: [(&[&str], &str, &str); 16] = [
    (&[], "macAddress", "mac-address"),
    (&[], "linkaggregation", "link-aggregation"),
    (&[], "linkAggregation", "link-aggregation"),
    (&["ethernet"], "autoNegotiation", "auto-negotiation"),
    (&["ethernet"], "linkSpeed", "speed"),
    (&["link-aggregation"], "slaves", "port"),
    (&["link-aggregation"], "ports", "port"),
    (&["bridge"], "ports", "port"),
    (&["ipv4"], "addresses", "address"),
    (&["ipv6"], "addresses", "address"),
    (&["ipv6"], "autoConf", "autoconf"),
    (&["ipv4"], "autoDns", "auto-dns"),
    (&["ipv4", "address"], "prefixLength", "prefix-length"),
    (&["ipv6", "address"], "prefixLength", "prefix-length"),
    (&["bridge", "port"], "stpPathCost", "stp-path-cost"),
    (&["bridge", "port"], "stpPriority", "stp-priority"),
];

/// Second names that nmstate takes for keys (its `#[serde(alias)]`). It reports the names on the
/// right, so comparing and merging need these.
const ALIASES: [(&[&str], &str, &str); 16] = [
    (&[], "bond", "link-aggregation"),
    (&["bridge", "port"], "bond", "link-aggregation"),
    (&["bridge", "port", "link-aggregation"], "ports", "port"),
    (&["vrf"], "ports", "port"),
    (&["mac-vlan"], "accept-all-mac", "promiscuous"),
    (&["mac-vtap"], "accept-all-mac", "promiscuous"),
    (&["dpdk"], "n_rxq", "rx-queue"),
    (&["dpdk"], "dpdk-lsc-interrupt", "lsc-interrupt"),
    (&["ipv4", "address"], "valid-left", "valid-life-time"),
    (&["ipv4", "address"], "valid-lft", "valid-life-time"),
    (
        &["ipv4", "address"],
        "preferred-left",
        "preferred-life-time",
    ),
    (&["ipv4", "address"], "preferred-lft", "preferred-life-time"),
    (&["ipv6", "address"], "valid-left", "valid-life-time"),
    (&["ipv6", "address"], "valid-lft", "valid-life-time"),
    (
        &["ipv6", "address"],
        "preferred-left",
        "preferred-life-time",
    ),
    (&["ipv6", "address"], "preferred-lft", "preferred-life-time"),
];

/// Short names of features of ethtool(8), and the kernel's, which nmstate reports
/// (`ETHTOOL_FEATURE_CLI_ALIAS`).
const FEATURES: [(&str, &str); 19] = [
    ("generic-receive-offload", "rx-gro"),
    ("generic-segmentation-offload", "tx-generic-segmentation"),
    ("gro", "rx-gro"),
    ("gso", "tx-generic-segmentation"),
    ("large-receive-offload", "rx-lro"),
    ("lro", "rx-lro"),
    ("ntuple", "rx-ntuple-filter"),
    ("ntuple-filters", "rx-ntuple-filter"),
    ("receive-hashing", "rx-hashing"),
    ("rx", "rx-checksum"),
    ("rx-checksumming", "rx-checksum"),
    ("rx-vlan-offload", "rx-vlan-hw-parse"),
    ("rxhash", "rx-hashing"),
    ("rxvlan", "rx-vlan-hw-parse"),
    ("tcp-segmentation-offload", "tx-tcp-segmentation"),
    ("tso", "tx-tcp-segmentation"),
    ("tx-vlan-offload", "tx-vlan-hw-insert"),
    ("txvlan", "tx-vlan-hw-insert"),
    ("ufo", "tx-udp-fragmentation"),
];

/// The same outside of interfaces.
const ALIASES_OF_RULES: [(&str, &str); 1] = [("suppress_prefixlength", "suppress-prefix-length")];

/// Properties of interfaces that the early design reported. People copy reports, so it is passed
/// over in what is wanted.
const REPORTED: [&str; 7] = [
    "ifIndex",
    "adminStatus",
    "linkStatus",
    "physAddress",
    "higherLayerInterface",
    "lowerLayerInterface",
    "statistics",
];

/// A state that mixes the two spellings, or wants what nmstate cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// Both spellings of one property, with different values.
    #[error(
        "{path}: {early} and {today} are two spellings of the same property and say different things; keep {today}"
    )]
    Both {
        /// The object that holds both.
        path: Path,
        /// The early spelling.
        early: String,
        /// Today's spelling.
        today: String,
    },
    /// A property of the early design that no version of nmstate has.
    #[error("{path} is not supported by nmstate: {way_out}")]
    Unsupported {
        /// The property.
        path: Path,
        /// The way out.
        way_out: &'static str,
    },
    /// A value of the wrong form.
    #[error("{path}: {message}")]
    Malformed {
        /// The property.
        path: Path,
        /// The rule for the value.
        message: &'static str,
    },
}

/// The desired state in today's spelling. Everything that is wrong with it, if anything is.
pub(crate) fn translate(desired: &Value) -> Result<Value, Vec<TranslateError>> {
    let mut state = without_nulls(desired);
    let mut errors = Vec::new();
    for interface in state
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let path = Path::of_interface(interface);
        if let Some(interface) = interface.as_object_mut() {
            translate_interface(&path, interface, &mut errors);
        }
    }
    if let Some(state) = state.as_object_mut() {
        for (alias, today) in ALIASES_OF_RULES {
            visit(
                &Path::default(),
                state,
                &["route-rules", "config"],
                &mut |path, rule| rename(path, rule, alias, today, &mut errors),
            );
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    for pointer in ["/interfaces", "/routes/config"] {
        let list: Vec<String> = pointer.split('/').skip(1).map(str::to_owned).collect();
        let entries = state.pointer_mut(pointer).and_then(Value::as_array_mut);
        for entry in entries
            .into_iter()
            .flatten()
            .filter(|entry| entry.is_object())
        {
            *entry = schema::with_booleans(&list, entry);
        }
    }
    let sections = state.as_object_mut().into_iter().flatten();
    for (section, value) in sections.filter(|(section, _)| *section != "interfaces") {
        *value = schema::with_texts(section, value);
    }
    Ok(state)
}

/// Nothing where null stands: the first README writes `interfaces: null`, and so did the Go types.
/// In Open vSwitch's database null removes a key.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| {
                    (
                        key.clone(),
                        if key == "ovs-db" {
                            value.clone()
                        } else {
                            without_nulls(value)
                        },
                    )
                })
                .collect(),
            )
        }
        Value::Array(list) => Value::Array(
            list.iter()
                .filter(|value| !value.is_null())
                .map(without_nulls)
                .collect(),
        ),
        other => other.clone(),
    }
}

fn translate_interface(
    path: &Path,
    interface: &mut Map<String, Value>,
    errors: &mut Vec<TranslateError>,
) {
    for key in REPORTED {
        interface.remove(key);
    }
    // `bond` becomes the section in which other keys are renamed, and `ports` of a bridge has the
    // ports in which they are.
    let renamed = ALIASES[..1].iter().chain(&RENAMED).chain(&ALIASES[1..]);
    for (section, early, today) in renamed {
        visit(path, interface, section, &mut |path, object| {
            rename(path, object, early, today, errors)
        });
    }
    for (short, name) in FEATURES {
        visit(
            path,
            interface,
            &["ethtool", "feature"],
            &mut |path, features| rename(path, features, short, name, errors),
        );
    }
    moved_into(path, interface, "vlanID", "vlan", "id", errors);
    moved_into(path, interface, "vlanbase", "vlan", "base-iface", errors);
    moved_into(path, interface, "vlanBase", "vlan", "base-iface", errors);
    for (early, today) in [
        ("autoNegotiation", "auto-negotiation"),
        ("duplex", "duplex"),
        ("linkSpeed", "speed"),
    ] {
        moved_into(path, interface, early, "ethernet", today, errors);
    }
    flow_control(path, interface, errors);
    if interface
        .get("type")
        .is_some_and(|kind| kind == "ovs-bridge")
    {
        visit(
            path,
            interface,
            &["bridge", "options"],
            &mut |_, options| spanning_tree(options),
        );
    }
    visit(path, interface, &["bridge", "port"], &mut |path, port| {
        port_vlan(path, port, errors)
    });
    unsupported(path, interface, errors);
}

/// Calls `change` for each object that the section names. Lists stand for their entries.
fn visit(
    path: &Path,
    object: &mut Map<String, Value>,
    section: &[&str],
    change: &mut impl FnMut(&Path, &mut Map<String, Value>),
) {
    let Some((first, rest)) = section.split_first() else {
        return change(path, object);
    };
    match object.get_mut(*first) {
        Some(Value::Object(inner)) => visit(&path.key(first), inner, rest, change),
        Some(Value::Array(list)) => {
            for (index, entry) in list.iter_mut().enumerate() {
                let name = entry["name"]
                    .as_str()
                    .map_or_else(|| index.to_string(), str::to_owned);
                if let Some(inner) = entry.as_object_mut() {
                    visit(&path.key(first).item(&name), inner, rest, change);
                }
            }
        }
        _ => {}
    }
}

/// Renames a key. Where the other spelling is there too, both must say the same.
fn rename(
    path: &Path,
    object: &mut Map<String, Value>,
    early: &str,
    today: &str,
    errors: &mut Vec<TranslateError>,
) {
    if let Some(value) = object.remove(early) {
        put(path, object, early, today, today, value, errors);
    }
}

/// Moves a key of the interface into a section of its own.
fn moved_into(
    path: &Path,
    interface: &mut Map<String, Value>,
    early: &str,
    section: &str,
    today: &str,
    errors: &mut Vec<TranslateError>,
) {
    let Some(value) = interface.remove(early) else {
        return;
    };
    let name = format!("{section}.{today}");
    match interface.entry(section).or_insert_with(|| json!({})) {
        Value::Object(inner) => put(path, inner, early, today, &name, value, errors),
        _ => errors.push(TranslateError::Malformed {
            path: path.key(section),
            message: "must be an object",
        }),
    }
}

fn put(
    path: &Path,
    object: &mut Map<String, Value>,
    early: &str,
    today: &str,
    name: &str,
    value: Value,
    errors: &mut Vec<TranslateError>,
) {
    match object.get(today) {
        Some(other) if !crate::canonical::same(other, &value) => {
            errors.push(TranslateError::Both {
                path: path.clone(),
                early: early.to_owned(),
                today: name.to_owned(),
            });
        }
        Some(_) => {}
        None => {
            object.insert(today.to_owned(), value);
        }
    }
}

/// `flowControl` turned pause frames on or off, in both directions.
fn flow_control(path: &Path, interface: &mut Map<String, Value>, errors: &mut Vec<TranslateError>) {
    let Some(value) = interface.remove("flowControl") else {
        return;
    };
    let on = match value {
        Value::Bool(on) => on,
        Value::Null => return,
        _ => {
            return errors.push(TranslateError::Malformed {
                path: path.key("flowControl"),
                message: "must be true or false",
            });
        }
    };
    let ethtool = interface.entry("ethtool").or_insert_with(|| json!({}));
    let Some(ethtool) = ethtool.as_object_mut() else {
        return errors.push(TranslateError::Malformed {
            path: path.key("ethtool"),
            message: "must be an object",
        });
    };
    let pause = ethtool.entry("pause").or_insert_with(|| json!({}));
    if let Some(pause) = pause.as_object_mut() {
        for direction in ["rx", "tx"] {
            put(
                path,
                pause,
                "flowControl",
                direction,
                &format!("ethtool.pause.{direction}"),
                Value::Bool(on),
                errors,
            );
        }
    }
}

/// nmstate takes `stp: true` of an OVS bridge too, or a word for it, and reports
/// `stp: {enabled: true}`.
fn spanning_tree(options: &mut Map<String, Value>) {
    let Some(stp) = options.get_mut("stp") else {
        return;
    };
    let enabled = match stp {
        Value::Bool(enabled) => *enabled,
        Value::String(word) => match word.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" | "y" => true,
            "0" | "false" | "no" | "off" | "n" => false,
            _ => return,
        },
        _ => return,
    };
    *stp = json!({"enabled": enabled});
}

/// `vlanMode` and `accessTag` of a bridge's port.
fn port_vlan(path: &Path, port: &mut Map<String, Value>, errors: &mut Vec<TranslateError>) {
    // The early design said of a port what type of interface it is. The early types had this at the
    // interface itself.
    port.remove("type");
    for (early, today) in [("vlanMode", "mode"), ("accessTag", "tag")] {
        let Some(mut value) = port.remove(early) else {
            continue;
        };
        if value.is_null() || value == "" {
            continue;
        }
        if let Some(text) = value.as_str() {
            value = text
                .parse::<u16>()
                .map_or_else(|_| Value::String(text.to_ascii_lowercase()), Value::from);
        }
        let vlan = port.entry("vlan").or_insert_with(|| json!({}));
        match vlan.as_object_mut() {
            Some(vlan) => put(
                path,
                vlan,
                early,
                today,
                &format!("vlan.{today}"),
                value,
                errors,
            ),
            None => errors.push(TranslateError::Malformed {
                path: path.key("vlan"),
                message: "must be an object",
            }),
        }
    }
}

/// Properties of the early types that no release ever carried out.
fn unsupported(path: &Path, interface: &mut Map<String, Value>, errors: &mut Vec<TranslateError>) {
    let fields: [(&[&str], &str, &str); 5] = [
        (
            &["ipv4"],
            "neighbors",
            "leave it out; neighbours are learned",
        ),
        (
            &["ipv6"],
            "neighbors",
            "leave it out; neighbours are learned",
        ),
        (
            &["ipv6"],
            "forwarding",
            "leave it out, and set net.ipv6.conf.<interface>.forwarding by sysctl",
        ),
        (
            &["ipv6"],
            "dupAddressDetectTransmit",
            "leave it out, and set net.ipv6.conf.<interface>.dad_transmits by sysctl",
        ),
        (
            &["link-aggregation"],
            "options.stp",
            "leave it out; spanning tree is a property of bridges, bridge.options.stp",
        ),
    ];
    for (section, key, way_out) in fields {
        let (section, key): (Vec<&str>, &str) = match key.split_once('.') {
            Some((inner, key)) => (section.iter().copied().chain([inner]).collect(), key),
            None => (section.to_vec(), key),
        };
        visit(path, interface, &section, &mut |path, object| {
            // Its zero asked for nothing, and the early types always wrote it.
            let asks = object.remove(key).is_some_and(|value| {
                !matches!(&value, Value::Null | Value::Bool(false))
                    && value != 0
                    && value != json!([])
            });
            if asks {
                errors.push(TranslateError::Unsupported {
                    path: path.key(key),
                    way_out,
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(interface: Value) -> Result<Value, Vec<TranslateError>> {
        translate(&json!({"interfaces": [interface]})).map(|state| state["interfaces"][0].clone())
    }

    #[test]
    fn a_text_is_a_boolean_where_nmstate_reads_it_as_one() {
        let state = json!({
            "interfaces": [{
                "name": "on", "type": "ethernet", "description": "no", "mtu": "1500",
                "ipv4": {"enabled": "Yes", "dhcp": "{{ capture.a.b }}"}, "ipv6": {"enabled": "no"},
            }],
            "routes": {"config": [{"next-hop-interface": "off", "quickack": "off"}]},
        });
        let mut expected = state.clone();
        expected["interfaces"][0]["ipv4"]["enabled"] = true.into();
        expected["interfaces"][0]["ipv6"]["enabled"] = false.into();
        expected["routes"]["config"][0]["quickack"] = false.into();
        assert_eq!(translate(&state).unwrap(), expected);
    }

    #[test]
    fn early_spellings_become_todays() {
        for (early, today) in [
            (
                json!({"macAddress": "02:00:00:00:00:01"}),
                json!({"mac-address": "02:00:00:00:00:01"}),
            ),
            (
                json!({"vlanID": 50, "vlanbase": "eth0"}),
                json!({"vlan": {"id": 50, "base-iface": "eth0"}}),
            ),
            (
                json!({
                    "linkaggregation": {
                        "mode": "active-backup", "slaves": ["eth1"], "options": {"miimon": "100"}
                    }
                }),
                json!({
                    "link-aggregation": {
                        "mode": "active-backup", "port": ["eth1"], "options": {"miimon": "100"}
                    }
                }),
            ),
            (
                json!({"flowControl": true}),
                json!({"ethtool": {"pause": {"rx": true, "tx": true}}}),
            ),
            (
                json!({"type": "ovs-bridge", "bridge": {"options": {"stp": true}}}),
                json!({"type": "ovs-bridge", "bridge": {"options": {"stp": {"enabled": true}}}}),
            ),
            (
                json!({"type": "ovs-bridge", "bridge": {"options": {"stp": "off"}}}),
                json!({"type": "ovs-bridge", "bridge": {"options": {"stp": {"enabled": false}}}}),
            ),
            (
                json!({"duplex": "full", "linkSpeed": 1000, "autoNegotiation": false}),
                json!({"ethernet": {"duplex": "full", "speed": 1000, "auto-negotiation": false}}),
            ),
            (
                json!({
                    "ipv6": {
                        "enabled": true, "autoConf": true, "neighbors": [], "forwarding": false
                    }
                }),
                json!({"ipv6": {"enabled": true, "autoconf": true}}),
            ),
            (
                json!({"ipv4": {"addresses": [{"ip": "10.0.0.1", "prefixLength": 24}]}}),
                json!({"ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}),
            ),
            (
                json!({
                    "bridge": {
                        "port": [
                            {
                                "name": "eth1", "type": "linux", "vlanMode": "access",
                                "accessTag": "102", "stp-path-cost": 100
                            }
                        ]
                    }
                }),
                json!({
                    "bridge": {
                        "port": [
                            {
                                "name": "eth1", "vlan": {"mode": "access", "tag": 102},
                                "stp-path-cost": 100
                            }
                        ]
                    }
                }),
            ),
            (
                json!({
                    "ifIndex": 2, "adminStatus": "up", "statistics": {"inOctets": 1}, "mtu": 1500
                }),
                json!({"mtu": 1500}),
            ),
        ] {
            let named = |mut interface: Value| {
                interface["name"] = json!("x");
                interface
            };
            let translated = one(named(early.clone())).unwrap();
            assert_eq!(translated, named(today.clone()), "{early}");
            assert_eq!(
                one(translated.clone()).unwrap(),
                translated,
                "today's form passes"
            );
        }
    }

    #[test]
    fn null_is_nothing_but_in_open_vswitch() {
        let early = json!({
            "interfaces": null, "dns-resolver": {"config": {"server": null, "search": []}},
            "ovs-db": {"external_ids": {"x": null}}
        });
        let today = json!({
            "dns-resolver": {"config": {"search": []}}, "ovs-db": {"external_ids": {"x": null}}
        });
        assert_eq!(translate(&early).unwrap(), today);
    }

    #[test]
    fn two_spellings_must_not_contradict_each_other() {
        assert!(
            one(json!({
                "name": "x", "macAddress": "02:00:00:00:00:0a", "mac-address": "02:00:00:00:00:0A"
            }))
            .is_ok()
        );
        let errors = one(json!({
            "name": "x", "macAddress": "02:00:00:00:00:01", "mac-address": "02:00:00:00:00:02",
            "vlanID": 1, "vlan": {"id": 2}
        }))
        .unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "interfaces[x]: macAddress and mac-address are two spellings of the same property and say different things; keep mac-address",
                "interfaces[x]: vlanID and vlan.id are two spellings of the same property and say different things; keep vlan.id",
            ]
        );
    }

    #[test]
    fn early_fields_without_effect_are_refused_with_the_way_out() {
        let errors = one(json!({
            "name": "x", "ipv6": {"dupAddressDetectTransmit": 3},
            "ipv4": {"neighbors": [{"ip": "10.0.0.1"}]}
        }))
        .unwrap_err();
        assert_eq!(errors.len(), 2);
        assert!(errors.iter().any(|error| error.to_string().starts_with(
            "interfaces[x].ipv6.dupAddressDetectTransmit is not supported by nmstate"
        )));
        assert!(one(json!({"name": "x", "flowControl": "maybe"})).is_err());
    }
}
