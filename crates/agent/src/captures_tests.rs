//! Captures as `weft_node_network` carries them out, against nmstate's own: the same captured
//! states and the same filled templates. A difference is on purpose and listed in [`ON_PURPOSE`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;

use nmstate::{NetworkCaptureRules, NetworkState, NetworkStateTemplate};
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_api::node_network::NodeValues;
use weft_node_network::{capture, state, template};

/// Expressions that nmstate refuses or reads differently, with the result here.
const ON_PURPOSE: [(&str, &str); 5] = [
    // nmpolicy had it, nmstate has not.
    ("interfaces.type!=ethernet", "br0"),
    // nmstate wants quotes around a value with dots.
    ("routes.running.destination==0.0.0.0/0", "eth0"),
    ("interfaces.ipv4.address.ip==10.0.0.5", "eth0"),
    // To nmstate a word without a dot is no path, and the capture the whole state.
    ("dns-resolver", "10.0.0.53"),
    // nmstate calls its own answer a defect: its numbers cannot be null.
    ("routes.running.metric:=null", "eth0"),
];

fn current() -> Value {
    json!({
        "dns-resolver": {
            "running": {"server": ["10.0.0.53"]},
            "config": {"search": ["example.org"], "server": ["10.0.0.53"]}
        },
        "route-rules": {
            "config": [{"ip-from": "10.0.0.0/24", "route-table": 200, "priority": 1000}]
        },
        "routes": {
            "running": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.1", "metric": 100, "table-id": 254
                },
                {
                    "destination": "10.9.0.0/16", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.2", "metric": 100, "table-id": 254
                },
                {
                    "destination": "10.8.0.0/16", "next-hop-interface": "eth1",
                    "next-hop-address": "10.1.0.2", "metric": 150, "table-id": 200
                },
            ],
            "config": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.1"
                }
            ],
        },
        "interfaces": [
            {"name": "eth0", "type": "ethernet", "state": "up", "mac-address": "02:00:00:00:00:0A", "mtu": 1500, "description": "uplink",
             "ipv4": {
                 "enabled": true, "dhcp": false,
                 "address": [{"ip": "10.0.0.5", "prefix-length": 24}]
             }},
            {
                "name": "eth1", "type": "ethernet", "state": "down", "mtu": 9000,
                "lldp": {"enabled": false}
            },
            {
                "name": "eth2", "type": "ethernet", "state": "up", "mtu": 1500,
                "lldp": {"enabled": true}
            },
            {
                "name": "br0", "type": "linux-bridge", "state": "up", "mtu": 1500,
                "bridge": {"port": [{"name": "eth9"}, {"name": "eth8"}]}
            },
        ],
    })
}

type Rules = BTreeMap<String, String>;

fn rules(list: &[(&str, &str)]) -> Rules {
    list.iter()
        .map(|(name, rule)| ((*name).to_owned(), (*rule).to_owned()))
        .collect()
}

/// A state in the form that nmstate gives it, lists of interfaces by name.
fn canonical(state: &NetworkState) -> Value {
    let mut value = state::value(state);
    if let Some(list) = value["interfaces"].as_array_mut() {
        list.sort_by_key(|interface| interface["name"].to_string());
    }
    value
}

type Result<T> = std::result::Result<T, String>;
type Both = (BTreeMap<String, Value>, Option<Value>);

fn nmstates(rules: &Rules, desired: Option<&Value>) -> Result<Both> {
    let current: NetworkState = serde_json::from_value(current()).unwrap();
    let parsed: NetworkCaptureRules =
        serde_json::from_value(json!(rules)).map_err(|error| error.to_string())?;
    let captured = parsed
        .execute(&current)
        .map_err(|error| error.to_string())?;
    let filled = desired.map(|desired| {
        let template: NetworkStateTemplate = serde_json::from_value(desired.clone()).unwrap();
        template
            .fill_with_captured_data(&captured)
            .map(|state| canonical(&state))
            .map_err(|error| error.to_string())
    });
    Ok((
        captured
            .iter()
            .map(|(name, state)| (name.clone(), canonical(state)))
            .collect(),
        filled.transpose()?,
    ))
}

fn ours(rules: &Rules, desired: Option<&Value>) -> Result<Both> {
    // As the agent does it: on what nmstate has read.
    let current: NetworkState = serde_json::from_value(current()).unwrap();
    let captured =
        capture::execute(rules, &state::value(&current)).map_err(|error| error.to_string())?;
    let as_state = |value: &Value| {
        serde_json::from_value(value.clone())
            .map(|state| canonical(&state))
            .map_err(|error| error.to_string())
    };
    let filled = desired.map(|desired| {
        as_state(
            &template::fill(desired, &captured, &NodeValues::default())
                .map_err(|error| error.to_string())?,
        )
    });
    let states: Result<_> = captured
        .iter()
        .map(|(name, value)| Ok((name.clone(), as_state(value)?)))
        .collect();
    Ok((states?, filled.transpose()?))
}

fn assert_same(rules: &Rules, desired: Option<&Value>) -> bool {
    match (nmstates(rules, desired), ours(rules, desired)) {
        (Ok(nmstates), Ok(ours)) => {
            assert_eq!(ours, nmstates, "{rules:#?}");
            true
        }
        (Err(_), Err(_)) => false,
        (nmstates, ours) => panic!("{rules:#?}\nnmstate: {nmstates:#?}\nours: {ours:#?}"),
    }
}

/// The expressions of the user guides of nmstate and kubernetes-nmstate.
#[test]
fn examples_of_the_user_guides_give_the_same() {
    let bridge = json!({
        "interfaces": [{
            "name": "br1", "type": "linux-bridge", "state": "up", "description": "on-{{ capture.base-iface.interfaces.0.name }}",
            "mac-address": "{{ capture.base-iface.interfaces.0.mac-address }}", "ipv4": "{{ capture.base-iface.interfaces.0.ipv4 }}",
            "bridge": {
                "options": {"stp": {"enabled": false}},
                "port": [{"name": "{{ capture.base-iface.interfaces.0.name }}"}]
            },
        }],
        "routes": {"config": "{{ capture.bridge-routes.routes.running }}"},
    });
    let over_gateway = [
        ("default-gw", "routes.running.destination==\"0.0.0.0/0\""),
        (
            "base-iface",
            "interfaces.name==capture.default-gw.routes.running.0.next-hop-interface",
        ),
        (
            "base-iface-routes",
            "routes.running.next-hop-interface==capture.default-gw.routes.running.0.next-hop-interface",
        ),
        (
            "bridge-routes",
            "capture.base-iface-routes | routes.running.next-hop-interface:=\"br1\"",
        ),
    ];
    assert!(assert_same(&rules(&over_gateway), Some(&bridge)));
    let lldp = [
        ("ethernets", "interfaces.type==\"ethernet\""),
        (
            "ethernets-up",
            "capture.ethernets | interfaces.state==\"up\"",
        ),
        (
            "ethernets-lldp",
            "capture.ethernets-up | interfaces.lldp.enabled:=true",
        ),
    ];
    assert!(assert_same(
        &rules(&lldp),
        Some(&json!({"interfaces": "{{ capture.ethernets-lldp.interfaces }}"}))
    ));
    for rule in [
        "interfaces.type==ethernet",
        "interfaces.mtu==1500",
        "interfaces.lldp.enabled==true",
        "interfaces.ipv4.address.ip==\"10.0.0.5\"",
        "interfaces.bridge.port.name==eth8",
        "interfaces.bridge.port.1.name==eth8",
        "interfaces.description:=null",
        "interfaces.mtu := 1400",
        "interfaces.description:=\"7\"",
        "interfaces.description:=7",
        "interfaces.mtu:=\"1400\"",
        "dns-resolver.running",
        "routes.config",
        "routes.running.table-id==200",
        "routes.config.next-hop-interface==eth0",
        "routes.running.metric:=42",
        "route-rules.config.priority==1000",
        "route-rules.config.ip-from==\"10.0.0.0/24\"",
    ] {
        assert!(
            assert_same(&rules(&[("x", rule)]), None),
            "{rule} is refused by both"
        );
    }
}

#[test]
fn differences_from_nmstate_are_on_purpose() {
    for (rule, found) in ON_PURPOSE {
        let rules = rules(&[("x", rule)]);
        let (captured, _) = ours(&rules, None).unwrap_or_else(|error| panic!("{rule}: {error}"));
        assert!(
            captured["x"].to_string().contains(found),
            "{rule}: {}",
            captured["x"]
        );
        assert_ne!(
            nmstates(&rules, None).ok(),
            Some((captured, None)),
            "{rule} is the same: take it off the list"
        );
    }
}

/// Values for the left and the right side, also some that exist nowhere.
fn property() -> impl Strategy<Value = (&'static str, &'static str)> {
    let interfaces = [
        ("name", "eth0 eth1 br0 none"),
        ("type", "ethernet linux-bridge vlan"),
        ("state", "up down"),
        ("mtu", "1500 9000 1400"),
        ("description", "uplink other 7"),
        ("lldp.enabled", "true false"),
        ("bridge.port.name", "eth8 eth9 eth7"),
        ("bridge.port.0.name", "eth9 eth8"),
        ("no-such", "x"),
    ]
    .map(|(path, values)| ("interfaces", path, values));
    let routes = [
        ("next-hop-interface", "eth0 eth1 eth5"),
        ("metric", "100 150 7"),
        ("table-id", "254 200"),
        ("destination", "10.9.0.0/16 ::/0"),
    ];
    let running = routes.map(|(path, values)| ("routes.running", path, values));
    let config = routes.map(|(path, values)| ("routes.config", path, values));
    let wrong = [
        ("routes", "destination", "x"),
        ("interfaces.0", "name", "eth0"),
    ];
    let all: Vec<(&str, &str, &str)> = interfaces
        .into_iter()
        .chain(running)
        .chain(config)
        .chain(wrong)
        .collect();
    prop::sample::select(all).prop_map(|(list, path, values)| {
        (
            Box::leak(format!("{list}.{path}").into_boxed_str()) as &str,
            values,
        )
    })
}

/// Left side with its values, which of them, and what else is chosen.
type Part = (
    (&'static str, &'static str),
    prop::sample::Index,
    u8,
    bool,
    u8,
);

/// Expressions of which the later ones work on the earlier ones: `a`, `b`, `c`.
fn expressions() -> impl Strategy<Value = Rules> {
    let one = (
        property(),
        any::<prop::sample::Index>(),
        0..4_u8,
        any::<bool>(),
        0..6_u8,
    );
    prop::collection::vec(one, 1..4).prop_map(|parts| {
        let names = ["a", "b", "c"];
        let line = |(at, ((path, values), value, pipe, assigns, right)): (usize, Part)| {
            // One name for all would make one interface of them, to nmstate the last.
            let assigns = assigns && path != "interfaces.name";
            let values: Vec<_> = values.split(' ').collect();
            let quoted = format!("\"{}\"", value.get(&values));
            let earlier = at.checked_sub(1).map(|earlier| names[earlier]);
            // A property of another type would be refused by nmstate when it is set, and here when
            // it is applied.
            let right = match (right, earlier) {
                (0, Some(earlier)) if !assigns => format!("capture.{earlier}.interfaces.0.name"),
                (1, Some(earlier)) if !assigns => {
                    format!("capture.{earlier}.routes.running.0.next-hop-interface")
                }
                (2, _) if assigns && path.ends_with("description") => "null".to_owned(),
                _ => quoted,
            };
            let source = earlier
                .filter(|_| pipe == 0)
                .map_or(String::new(), |earlier| format!("capture.{earlier} | "));
            (
                names[at].to_owned(),
                format!("{source}{path}{}{right}", if assigns { ":=" } else { "==" }),
            )
        };
        parts.into_iter().enumerate().map(line).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_expressions_give_the_same(rules in expressions(), around in prop::bool::ANY) {
        let name = if around { "x{{ capture.a.interfaces.0.name }}" } else { "{{ capture.a.interfaces.0.name }}" };
        let desired = json!({"interfaces": [{"name": name, "type": "dummy", "state": "up"}]});
        assert_same(&rules, None);
        assert_same(&rules, Some(&desired));
    }
}
