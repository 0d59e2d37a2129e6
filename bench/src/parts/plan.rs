//! From a policy and the states of a fleet in a file to the plan of each node, by `weft plan
//! --state`. The time for each node shows whether it grows with their number.

use std::{ffi::OsStr, fmt::Write as _, fs};

use anyhow::Result;
use serde_json::json;

use super::offline::{Folder, run};
use crate::{
    figure::{Figure, Unit},
    lab::Setup,
};

/// The numbers of nodes, the smaller one first.
const NODES: [u32; 2] = [500, 5000];
/// How many cards each node has.
const CARDS: u32 = 8;
/// How many times as long a node may take in the larger fleet. Above that, the time grows faster
/// than the number of nodes.
const GROWTH: f64 = 2.0;

pub fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let folder = Folder::new("plan")?;
    let policy = folder.0.join("policy.yaml");
    fs::write(
        &policy,
        "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {name: mtu}\nspec: {desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}]}}\n",
    )?;
    let mut figures = Vec::new();
    for form in ["yaml", "json"] {
        let mut of_one = Vec::new();
        for nodes in NODES {
            let states = folder.0.join(format!("{nodes}.{form}"));
            let text = if form == "json" {
                json_of(nodes)
            } else {
                yaml_of(nodes)
            };
            fs::write(&states, &text)?;
            let arguments = ["plan", "-o", "json", "-f"].map(OsStr::new);
            let files = [
                policy.as_os_str(),
                OsStr::new("--state"),
                states.as_os_str(),
            ];
            // With 1, something would change.
            let seconds = run(&setup.weft, &[&arguments[..], &files].concat(), 1)?.seconds;
            of_one.push(seconds / f64::from(nodes));
            let mebibytes = text.len() / 1_048_576;
            figures.push(
                Figure::new(
                    format!("plan of a policy on {nodes} nodes, {form}"),
                    Unit::Seconds,
                    seconds,
                )
                .note(format!("{CARDS} cards each; {mebibytes} MiB")),
            );
        }
        if let [few, many] = of_one[..] {
            figures.push(
                Figure::new(
                    format!("time for one of {} nodes, {form}", NODES[1]),
                    Unit::Ratio,
                    many / few,
                )
                .at_most(GROWTH)
                .note(format!("of the time for one of {}", NODES[0])),
            );
        }
    }
    Ok(figures)
}

fn json_of(nodes: u32) -> String {
    let interface = |card: u32| {
        json!({
            "name": format!("eth{card}"), "type": "ethernet", "state": "up", "mtu": 1500,
            "mac-address": format!("52:54:00:00:00:0{card}"),
            "ipv4": {"enabled": true, "dhcp": false, "address": [
                {"ip": format!("10.{card}.0.1"), "prefix-length": 16}
            ]},
            "ipv6": {"enabled": false}
        })
    };
    let interfaces: Vec<_> = (0..CARDS).map(interface).collect();
    let state = |node: u32| {
        json!({
            "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
            "metadata": {"name": format!("node-{node}")},
            "status": {"currentState": {"interfaces": interfaces}}
        })
    };
    let items: Vec<_> = (0..nodes).map(state).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn yaml_of(nodes: u32) -> String {
    let mut text = String::from("apiVersion: v1\nkind: List\nitems:\n");
    for node in 0..nodes {
        let _ = write!(
            text,
            "- apiVersion: nmstate.io/v1beta1\n  kind: NodeNetworkState\n  metadata:\n    name: node-{node}\n  status:\n    currentState:\n      interfaces:\n"
        );
        for card in 0..CARDS {
            let _ = write!(
                text,
                "      - name: eth{card}\n        type: ethernet\n        state: up\n        mtu: 1500\n        mac-address: 52:54:00:00:00:0{card}\n        ipv4:\n          enabled: true\n          dhcp: false\n          address:\n          - ip: 10.{card}.0.1\n            prefix-length: 16\n        ipv6:\n          enabled: false\n"
            );
        }
    }
    text
}
