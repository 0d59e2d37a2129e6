//! `weft-agent` for a person on a host: what it prints, where nothing is changed.

use std::{fs, path::Path, process::Command};

use nmstate::NetworkState;
use serde_json::{Value, json};
use weft_agent::{
    history::{Entry, History},
    secrets,
    state_dir::StateDir,
};
use weft_testenv::namespace::{in_namespace, ip};

const HIDDEN: &str = "<_password_hid_by_nmstate>";

/// A state with a secret in each place that can hold one.
const PLANTED: &str = include_str!("../../../plan/tests/planted.yaml");

/// Runs the agent. Returns its output and its exit code.
fn agent(folder: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(weft_system_tests::program("weft-agent"))
        .args(arguments)
        .env("WEFT_AGENT_STATE_DIR", folder.join("state"))
        .output()
        .unwrap();
    (
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
        output.status.code(),
    )
}

/// As a policy did that took this property of eth1 from a Secret.
fn take_from_secret(folder: &Path, key: &str) {
    let state =
        json!({"interfaces": [{"name": "eth1", key: {"secretRef": {"name": "s", "key": "k"}}}]});
    secrets::remember(&StateDir::open(folder.join("state")).unwrap(), &state).unwrap();
}

#[test]
fn the_network_is_shown_as_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    in_namespace(|| {
        ip("link add br1 type bridge");
        ip("link add eth1 mtu 1422 type veth peer name eth2");
        take_from_secret(folder.path(), "mtu");
        let (shown, code) = agent(folder.path(), &["show", "-o", "json", "br1", "eth1"]);
        assert_eq!(code, Some(0), "{shown}");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let (br1, eth1) = (&shown["interfaces"][0], &shown["interfaces"][1]);
        assert!(
            br1["ifIndex"].is_u64() && br1["bridge"]["options"]["stp"].is_object(),
            "{br1:#}"
        );
        assert_eq!(
            br1["bridge"]["options"]["gc-timer"],
            Value::Null,
            "it changes by itself"
        );
        assert_eq!(eth1["mtu"], HIDDEN);
        let (refused, code) = agent(folder.path(), &["show", "eth9"]);
        assert!(
            code == Some(1)
                && refused.contains("there is no interface eth9; there are br1, eth1, eth2, lo"),
            "{refused}"
        );
    });
}

#[test]
fn a_plan_says_that_a_secret_changes_and_not_to_what() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.yaml");
    let wanted = "interfaces:
        - {name: eth1, type: ethernet, state: up, mtu: 1433, mac-address: '02:00:00:00:00:07',
           802.1x: {identity: node, eap-methods: [md5], password: hunter2}}";
    fs::write(&file, wanted).unwrap();
    in_namespace(|| {
        ip("link add eth1 mtu 1422 address 02:00:00:00:00:06 type veth peer name eth2");
        take_from_secret(folder.path(), "mtu");
        let (printed, code) = agent(folder.path(), &["plan", "-f", file.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{printed}");
        assert!(
            printed.contains("802.1x") && printed.contains(HIDDEN) && printed.contains("identity"),
            "{printed}"
        );
        assert!(
            printed.contains(&format!("~ interfaces[eth1].mtu: {HIDDEN} -> {HIDDEN}\n")),
            "{printed}"
        );
        assert!(printed.contains("02:00:00:00:00:07"), "{printed}");
        assert_eq!(
            ["hunter2", "1422", "1433"].map(|secret| printed.contains(secret)),
            [false; 3],
            "{printed}"
        );
    });
}

#[test]
fn no_planted_secret_is_printed_by_any_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.yaml");
    let planted: Value = serde_saphyr::from_str(PLANTED).unwrap();
    // No host without Open vSwitch and NetworkManager has more of it.
    let eth1 = json!({"interfaces": [planted["interfaces"][0]], "ovs-db": planted["ovs-db"]});
    let mut wrong = planted.clone();
    wrong["interfaces"][2]["libreswan"]["psk"] = 4711147.into();
    let before = NetworkState::new_from_yaml(&PLANTED.replace("-zz", "-old")).unwrap();
    let desired = NetworkState::new_from_yaml(PLANTED).unwrap();
    let mut known = secrets::values(&before, &Default::default());
    known.extend(secrets::values(&desired, &Default::default()));
    let dir = StateDir::open(folder.path().join("state")).unwrap();
    let failed = Err(format!("nmstate has said: {PLANTED}"));
    let entry = Entry::new("policy planted", failed, before, desired.into(), &known);
    History::new(&dir).unwrap().add(&entry).unwrap();
    in_namespace(|| {
        ip("link add eth1 type veth peer name eth2");
        let path = file.to_str().unwrap();
        let print = |arguments: &[&str]| {
            let (printed, _) = agent(folder.path(), arguments);
            assert!(!printed.contains("pl4nted"), "{arguments:?}: {printed}");
            assert!(!printed.contains("4711147"), "{arguments:?}: {printed}");
            printed
        };
        fs::write(&file, eth1.to_string()).unwrap();
        let identity = planted["interfaces"][0]["802.1x"]["identity"]
            .as_str()
            .unwrap();
        let rack = planted["ovs-db"]["external_ids"]["rack"].as_str().unwrap();
        for form in ["text", "json"] {
            let printed = print(&["plan", "-f", path, "-o", form]);
            for part in [identity, rack, "ssl_key", HIDDEN] {
                assert!(printed.contains(part), "{part}: {printed}");
            }
            let printed = print(&["history", "-o", form]);
            assert!(printed.contains(identity), "{printed}");
            print(&["apply", "-f", path, "-o", form]);
        }
        fs::write(&file, wrong.to_string()).unwrap();
        for command in ["plan", "apply"] {
            let refused = print(&[command, "-f", path]);
            assert!(refused.contains("psk"), "{refused}");
        }
    });
}

#[test]
fn a_plan_shows_all_that_is_made_and_names_each_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.yaml");
    let plan = |text: &str| {
        fs::write(&file, text).unwrap();
        let (printed, code) = agent(folder.path(), &["plan", "-f", file.to_str().unwrap()]);
        (printed.replace(file.to_str().unwrap(), "FILE"), code)
    };
    in_namespace(|| {
        ip("link add eth1 type veth peer name eth2");
        let bridge = "interfaces: [{name: br1, type: linux-bridge, state: up, mtu: 1400, bridge: {port: [{name: eth1, vlan: {}}]}}]";
        let (printed, code) = plan(bridge);
        assert_eq!(code, Some(1), "{printed}");
        assert_eq!(
            printed,
            "+ interfaces[br1]: linux-bridge\n    mtu: 1400\n    bridge: {\"port\":[{\"name\":\"eth1\",\"vlan\":{}}]}\n~ interfaces[eth1].state: down -> up\n"
        );

        let (printed, code) = plan("interfaces: [{name: br1, type: linux-brige}]\nroute: {}");
        let expected = "Error: FILE, document 1: interfaces[0].type: linux-brige is no type of interface that nmstate knows; did you mean `linux-bridge`?\n\
                        FILE, document 1: route: nmstate knows no \"route\" here; did you mean \"routes\"?\n";
        assert_eq!((&*printed, code), (expected, Some(2)));
        let policy = "{kind: NodeNetworkConfigurationPolicy, metadata: {name: a}, spec: {maxUnavailable: few, desiredState: {interfaces: [{name: eth1, mut: 1}]}}}";
        let (printed, code) = plan(policy);
        assert_eq!(code, Some(2), "{printed}");
        assert!(
            printed.contains("document 1: spec.maxUnavailable: "),
            "{printed}"
        );
        assert!(printed.contains("\nFILE, document 1: spec.desiredState.interfaces[0].mut: nmstate knows no \"mut\" here"), "{printed}");
    });
}

/// Prints the help of a command on a terminal of 80 columns.
fn help(words: &[&str]) -> String {
    let output = Command::new(weft_system_tests::program("weft-agent"))
        .args(words)
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_help_page_fits_into_80_columns() {
    for command in [
        "",
        "run",
        "once",
        "health",
        "show",
        "plan",
        "apply",
        "rollback",
        "history",
        "completion",
        "man",
    ] {
        for flag in ["-h", "--help"] {
            let words: Vec<&str> = [command, flag]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            let page = help(&words);
            assert!(page.contains("Usage: weft-agent"), "{words:?}: {page}");
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{words:?}: {line}");
            }
        }
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for (shell, sign) in [
        ("bash", "complete -F _weft__agent"),
        ("zsh", "#compdef weft-agent"),
        ("fish", "complete -c weft-agent"),
    ] {
        let script = help(&["completion", shell]);
        assert!(
            script.contains(sign) && script.contains("rollback"),
            "{shell}: {script}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (said, code) = agent(
        folder.path(),
        &["man", "-o", folder.path().to_str().unwrap()],
    );
    assert_eq!(code, Some(0), "{said}");
    let page = fs::read_to_string(folder.path().join("weft-agent-once.1")).unwrap();
    assert!(page.contains("timeout"), "{page}");
    assert!(help(&["man"]).contains(".TH weft-agent 1"));
}
