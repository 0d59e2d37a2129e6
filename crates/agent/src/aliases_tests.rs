//! nmstate's second names for keys, features, and words, against the names for which Weft takes
//! them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use nmstate::NetworkState;
use serde_json::{Value, json};
use weft_node_network::{check, render};

/// The second name of a key, the name in reports, and an interface with the second name.
fn keys() -> Vec<(&'static str, &'static str, Value)> {
    let address = |family: &str, key: &str| {
        let mut address = match family {
            "ipv4" => json!({"ip": "192.0.2.1", "prefix-length": 24}),
            _ => json!({"ip": "2001:db8::1", "prefix-length": 64}),
        };
        address[key] = "9sec".into();
        json!({"type": "ethernet", family: {"enabled": true, "address": [address]}})
    };
    let mac = |kind: &str| json!({"base-iface": "eth1", "mode": kind, "accept-all-mac": true});
    let bond = json!({"mode": "802.3ad", "port": ["eth1"]});
    let of_ovs = |name: &str, ports: &str| {
        let bond = json!({"mode": "lacp", ports: [{"name": "eth1"}, {"name": "eth2"}]});
        json!({"type": "ovs-bridge", "bridge": {"port": [{"name": "bond1", name: bond}]}})
    };
    let mut keys = vec![
        (
            "bond",
            "link-aggregation",
            json!({"type": "bond", "bond": bond}),
        ),
        ("bond", "link-aggregation", of_ovs("bond", "port")),
        ("ports", "port", of_ovs("link-aggregation", "ports")),
        (
            "ports",
            "port",
            json!({"type": "bond", "link-aggregation": {"mode": "802.3ad", "ports": ["eth1"]}}),
        ),
        (
            "ports",
            "port",
            json!({"type": "linux-bridge", "bridge": {"ports": [{"name": "eth1"}]}}),
        ),
        (
            "ports",
            "port",
            json!({"type": "ovs-bridge", "bridge": {"ports": [{"name": "eth1"}]}}),
        ),
        (
            "ports",
            "port",
            json!({"type": "vrf", "vrf": {"route-table-id": 100, "ports": ["eth1"]}}),
        ),
        (
            "accept-all-mac",
            "promiscuous",
            json!({"type": "mac-vlan", "mac-vlan": mac("bridge")}),
        ),
        (
            "accept-all-mac",
            "promiscuous",
            json!({"type": "mac-vtap", "mac-vtap": mac("bridge")}),
        ),
        (
            "n_rxq",
            "rx-queue",
            json!({"type": "ovs-interface", "dpdk": {"devargs": "0000:18:00.0", "n_rxq": 2}}),
        ),
        (
            "dpdk-lsc-interrupt",
            "lsc-interrupt",
            json!({
                "type": "ovs-interface",
                "dpdk": {"devargs": "0000:18:00.0", "dpdk-lsc-interrupt": true}
            }),
        ),
    ];
    for (second, name) in [
        ("valid-left", "valid-life-time"),
        ("valid-lft", "valid-life-time"),
        ("preferred-left", "preferred-life-time"),
        ("preferred-lft", "preferred-life-time"),
    ] {
        keys.extend(["ipv4", "ipv6"].map(|family| (second, name, address(family, second))));
    }
    for (_, _, interface) in &mut keys {
        interface["name"] = "x1".into();
        interface["state"] = "up".into();
    }
    keys
}

/// Words and numbers that nmstate takes for a word, and an interface with them. No key.
fn words() -> Vec<(&'static str, Value)> {
    let bond = |mode: &str, option: &str, value: &str| {
        json!({
            "name": "x1", "type": "bond", "state": "up",
            "link-aggregation": {"mode": mode, "options": {option: value}, "port": ["eth1"]}
        })
    };
    let mut words: Vec<_> = ["lacp", "0", "1", "2", "3", "4", "5", "6"]
        .map(|mode| (mode, bond(mode, "miimon", "100")))
        .into();
    words.push((
        "balance-slb",
        json!({
            "name": "x1", "type": "ovs-bridge", "state": "up",
            "bridge": {"port": [{
                "name": "bond1",
                "link-aggregation": {"mode": "balance-slb", "port": [{"name": "eth1"}, {"name": "eth2"}]}
            }]}
        }),
    ));
    words.push((
        "hsr-2010",
        json!({
            "name": "x1", "type": "hsr", "state": "up",
            "hsr": {"port1": "eth1", "port2": "eth2", "multicast-spec": 40, "protocol": "hsr-2010"}
        }),
    ));
    for (key, word) in [("dhcp-client-id", "LL"), ("dhcp-client-id", "IAID+DUID")] {
        words.push((
            word,
            json!({
                "name": "x1", "type": "ethernet", "state": "up",
                "ipv4": {"enabled": true, "dhcp": true, key: word}
            }),
        ));
    }
    for (key, word) in [
        ("dhcp-duid", "LL"),
        ("dhcp-duid", "LLT"),
        ("dhcp-duid", "EN"),
        ("dhcp-duid", "UUID"),
        ("addr-gen-mode", "EUI64"),
        ("addr-gen-mode", "STABLE-PRIVACY"),
    ] {
        words.push((
            word,
            json!({
                "name": "x1", "type": "ethernet", "state": "up",
                "ipv6": {"enabled": true, "dhcp": true, "autoconf": true, key: word}
            }),
        ));
    }
    words
}

fn read(state: &Value) -> NetworkState {
    serde_json::from_value(state.clone()).unwrap_or_else(|error| panic!("{error}: {state}"))
}

#[test]
fn a_key_with_a_second_name_is_the_one_that_nmstate_reports() {
    let rule = |key: &str| json!({"route-rules": {"config": [{"ip-from": "192.0.2.0/24", "route-table": 100, key: 8}]}});
    let mut states: Vec<_> = keys()
        .into_iter()
        .map(|(second, name, interface)| (second, name, json!({"interfaces": [interface]})))
        .collect();
    states.push((
        "suppress_prefixlength",
        "suppress-prefix-length",
        rule("suppress_prefixlength"),
    ));
    for (second, name, state) in states {
        let text = state.to_string();
        assert!(text.contains(&format!("{second:?}:")), "{text}");
        let today: Value =
            serde_json::from_str(&text.replace(&format!("{second:?}:"), &format!("{name:?}:")))
                .unwrap();
        assert_eq!(read(&state), read(&today), "{state}");
        assert_eq!(render::own(&state).unwrap(), today);
        let problems = check::desired_state("desiredState", &state, false);
        assert!(problems.is_empty(), "{state}: {problems:?}");
    }
}

#[test]
fn a_word_with_a_second_name_is_known() {
    for (_, interface) in words() {
        let state = json!({"interfaces": [interface]});
        read(&state);
        let problems = check::desired_state("desiredState", &state, false);
        assert!(problems.is_empty(), "{state}: {problems:?}");
    }
}

/// nmstate's own table is private. A revert has the kernel's names.
#[test]
fn a_short_name_of_a_feature_is_the_kernels() {
    let with = |feature: &str, is_on: bool| {
        json!({"interfaces": [{
            "name": "x1", "type": "ethernet", "state": "up", "ethtool": {"feature": {feature: is_on}}
        }]})
    };
    let source = fs::read_to_string(sources().join("ifaces/ethtool.rs")).unwrap();
    let (_, table) = source.split_once("ETHTOOL_FEATURE_CLI_ALIAS").unwrap();
    let names: Vec<&str> = table
        .split(';')
        .nth(1)
        .unwrap()
        .split('"')
        .skip(1)
        .step_by(2)
        .collect();
    assert_eq!(names.len(), 2 * 19);
    for pair in names.chunks(2) {
        let [short, name] = pair else { unreachable!() };
        let revert = read(&with(short, true))
            .generate_revert(&read(&with(name, false)))
            .unwrap();
        let revert = serde_json::to_value(revert).unwrap();
        assert_eq!(
            revert["interfaces"][0]["ethtool"]["feature"],
            json!({*name: false}),
            "{short}"
        );
        assert_eq!(render::own(&with(short, true)).unwrap(), with(name, true));
        let both = json!({"interfaces": [{
            "name": "x1", "type": "ethernet", "state": "up",
            "ethtool": {"feature": {*short: true, *name: false}}
        }]});
        assert!(
            !check::desired_state("desiredState", &both, false).is_empty(),
            "{both}"
        );
    }
}

/// The folder with the sources of nmstate that this test was built with.
pub(crate) fn sources() -> std::path::PathBuf {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--manifest-path",
        ])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let nmstate = packages
        .find(|package| package["name"] == "nmstate")
        .unwrap();
    Path::new(nmstate["manifest_path"].as_str().unwrap())
        .parent()
        .unwrap()
        .to_owned()
}

#[test]
fn no_second_name_of_nmstate_is_missing_here() {
    let mut known: BTreeSet<String> = keys()
        .into_iter()
        .map(|(second, ..)| second.to_owned())
        .chain(words().into_iter().map(|(word, _)| word.to_owned()))
        .collect();
    known.insert("suppress_prefixlength".to_owned());
    // Of the policies of nmstate's own tool, as Kubernetes writes it.
    known.insert("desiredState".to_owned());
    let mut found = BTreeSet::new();
    let mut folders = vec![sources()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let names = text.split("alias = \"").skip(1);
                found.extend(names.map(|rest| rest.split('"').next().unwrap().to_owned()));
            }
        }
    }
    assert_eq!(known, found);
}
