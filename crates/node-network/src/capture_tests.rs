#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;
use weft_api::node_network::NodeValues;

use crate::template::TemplateError;

fn fill(desired: &Value, captures: &Captures) -> Result<Value, TemplateError> {
    crate::template::fill(desired, captures, &NodeValues::default())
}

fn current() -> Value {
    json!({
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
                    "next-hop-address": "10.1.0.2", "metric": 100, "table-id": 254
                },
            ],
            "config": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.1"
                }
            ],
        },
        "dns-resolver": {
            "running": {"server": ["10.0.0.53"]}, "config": {"search": ["example.org"]}
        },
        "interfaces": [
            {
                "name": "eth0", "type": "ethernet", "state": "up",
                "mac-address": "02:00:00:00:00:0A",
                "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.5", "prefix-length": 24}]}
            },
            {"name": "eth1", "type": "ethernet", "state": "down", "lldp": {"enabled": false}},
            {
                "name": "br0", "type": "linux-bridge", "state": "up",
                "bridge": {"port": [{"name": "eth9"}, {"name": "eth8"}]}
            },
        ],
    })
}

fn rules(rules: &[(&str, &str)]) -> BTreeMap<String, String> {
    rules
        .iter()
        .map(|(name, rule)| ((*name).to_owned(), (*rule).to_owned()))
        .collect()
}

fn names(capture: &Value) -> Vec<String> {
    entries(&capture["interfaces"])
        .iter()
        .map(|interface| text(&interface["name"]))
        .collect()
}

#[test]
fn the_default_route_moves_to_a_bridge_as_the_user_guide_shows() {
    let captures = execute(
        &rules(&[
            ("default-gw", "routes.running.destination==\"0.0.0.0/0\""),
            ("base-iface", "interfaces.name==capture.default-gw.routes.running.0.next-hop-interface"),
            ("base-iface-routes", "routes.running.next-hop-interface==capture.default-gw.routes.running.0.next-hop-interface"),
            ("bridge-routes", "capture.base-iface-routes | routes.running.next-hop-interface:=\"br1\""),
        ]),
        &current(),
    )
    .unwrap();
    assert_eq!(names(&captures["base-iface"]), ["eth0"]);
    let desired = json!({
        "interfaces": [{
            "name": "br1", "type": "linux-bridge", "state": "up", "description": "on {{ capture.base-iface.interfaces.0.name }}!",
            "mac-address": "{{ capture.base-iface.interfaces.0.mac-address }}",
            "ipv4": "{{ capture.base-iface.interfaces.0.ipv4 }}",
            "bridge": {"port": [{"name": "{{ capture.base-iface.interfaces.0.name }}"}]},
        }],
        "routes": {"config": "{{ capture.bridge-routes.routes.running }}"},
    });
    let filled = fill(&desired, &captures).unwrap();
    let bridge = &filled["interfaces"][0];
    assert_eq!(bridge["description"], "on eth0!");
    assert_eq!(bridge["ipv4"], current()["interfaces"][0]["ipv4"]);
    assert_eq!(bridge["bridge"]["port"], json!([{"name": "eth0"}]));
    let routes = entries(&filled["routes"]["config"]);
    assert_eq!(
        routes
            .iter()
            .map(|route| text(&route["next-hop-interface"]))
            .collect::<Vec<_>>(),
        ["br1", "br1"]
    );
}

#[test]
fn entries_are_found_changed_and_kept() {
    let one = |rule: &str| execute(&rules(&[("x", rule)]), &current()).unwrap()["x"].clone();
    assert_eq!(names(&one("interfaces.type==ethernet")), ["eth0", "eth1"]);
    assert_eq!(names(&one("interfaces.type!=ethernet")), ["br0"]);
    assert_eq!(names(&one("interfaces.bridge.port.name==eth8")), ["br0"]);
    assert_eq!(
        names(&one("interfaces.lldp.enabled!=true")),
        ["eth1"],
        "what has no such property is not looked at"
    );
    assert_eq!(
        one("dns-resolver.running"),
        json!({"dns-resolver": {"running": {"server": ["10.0.0.53"]}}})
    );
    let lldp = execute(
        &rules(&[
            ("ethernets", "interfaces.type==\"ethernet\""),
            ("up", "capture.ethernets | interfaces.state==\"up\""),
            ("lldp", "capture.up | interfaces.lldp.enabled:=true"),
        ]),
        &current(),
    );
    assert_eq!(
        lldp.unwrap()["lldp"]["interfaces"][0]["lldp"],
        json!({"enabled": true})
    );
    assert!(
        one("interfaces.ipv4:=null")["interfaces"][0]
            .get("ipv4")
            .is_none()
    );
}

#[test]
fn a_missing_path_is_reported_with_its_place() {
    let error = |list: &[(&str, &str)]| execute(&rules(list), &current()).unwrap_err().to_string();
    assert_eq!(
        error(&[("gw", "routes.running.destination==\"::/0\"")]),
        "spec.capture.gw: nothing in routes.running has destination==::/0\n| routes.running.destination==\"::/0\"\n| ^"
    );
    assert_eq!(
        error(&[
            ("a", "interfaces.type==ethernet"),
            ("b", "interfaces.name==capture.a.interfaces.7.name")
        ]),
        "spec.capture.b: there is no entry 7 here, but 2 of them, from 0\n| interfaces.name==capture.a.interfaces.7.name\n| ......................................^"
    );
    assert!(
        error(&[("b", "interfaces.name==capture.gone.interfaces.0.name")])
            .contains("there is no capture gone")
    );
    assert!(
        error(&[
            ("a", "capture.b | interfaces.name==eth0"),
            ("b", "capture.a | interfaces.name==eth0")
        ])
        .contains("need each other")
    );
    assert!(
        error(&[("a", "routes.next-hop-interface==eth0")])
            .contains("routes.running or routes.config")
    );
    let captures = execute(&rules(&[("a", "interfaces.name==eth0")]), &current()).unwrap();
    let error = |text: &str| {
        fill(&json!({"interfaces": [{"name": text}]}), &captures)
            .unwrap_err()
            .to_string()
    };
    let no_such_key = error("{{ capture.a.interfaces.0.nam }}");
    assert!(
        no_such_key.starts_with("desiredState.interfaces[0].name: there is no nam here, but "),
        "{no_such_key}"
    );
    assert!(
        ["name", "type"].iter().all(|key| no_such_key.contains(key)),
        "{no_such_key}"
    );
    assert!(error("x {{ capture.a.interfaces }}").contains("no text or number"));
    assert!(error("{{ capture.b.interfaces.0.name }}").contains("there is no capture b"));
    assert!(error("{{ interfaces.0.name }}").contains("a reference is written"));
    assert!(error("{{ capture.a").contains("has no }}"));
    assert_eq!(
        fill(&json!("bond{{ capture.a.interfaces.0.name }}.{{ capture.a.interfaces.0.ipv4.address.0.prefix-length }}"), &captures).unwrap(),
        "bondeth0.24"
    );
}
