//! From a policy for thousands of interfaces and the states of their hosts in a file to the plan of
//! each node. The lower bound is a JSON parser that reads the same states, and for the memory the
//! size of the file.

use std::{ffi::OsStr, fs, hint::black_box, time::Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::offline::{Folder, run};
use crate::{
    figure::{Figure, Unit},
    lab::Setup,
};

/// How many interfaces each node has.
const INTERFACES: u32 = 3000;
/// The numbers of nodes, each with the most seconds that a plan may take.
const NODES: [(u32, f64); 2] = [(1, 0.3), (40, 10.0)];
/// How many routes a policy wants that its node has.
const ROUTES: u32 = 1000;
/// The most seconds that the plan of these may take. nmstate itself compares each with each.
const ROUTES_AT_MOST: f64 = 0.5;
/// The most memory that a plan may take, in MiB.
const MEMORY: f64 = 300.0;

pub fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let folder = Folder::new("large-hosts")?;
    // A policy that names them all has no goal of its own.
    let policies = [
        ("one", policy(&[1])),
        ("all", policy(&(0..INTERFACES).collect::<Vec<_>>())),
    ];
    let state = state_of().to_string();
    let start = Instant::now();
    let _: Value = black_box(serde_json::from_str(&state)?);
    let reading = start.elapsed().as_secs_f64();
    let mut figures = Vec::new();
    for (nodes, at_most) in NODES {
        let states = folder.0.join("states.json");
        let text = list_of(nodes, &state);
        fs::write(&states, &text)?;
        let size = f64::from(u32::try_from(text.len())?) / 1_048_576.0;
        for (wanted, policy) in &policies {
            let file = folder.0.join("policy.json");
            fs::write(&file, policy.to_string())?;
            let arguments = [
                OsStr::new("plan"),
                OsStr::new("-f"),
                file.as_os_str(),
                OsStr::new("--state"),
                states.as_os_str(),
            ];
            // With 1, something would change.
            let taken = run(&setup.weft, &arguments, 1)?;
            let what = format!("plan for {wanted} of {INTERFACES} interfaces, nodes: {nodes}");
            let seconds = Figure::new(&what, Unit::Seconds, taken.seconds)
                .lower_bound(reading * f64::from(nodes))
                .note(format!("{size:.1} MiB; a JSON parser reads the states"));
            figures.push(match *wanted {
                "one" => seconds.at_most(at_most),
                _ => seconds,
            });
            figures.push(
                Figure::new(format!("{what}, memory"), Unit::Mebibytes, taken.mebibytes)
                    .at_most(MEMORY)
                    .lower_bound(size)
                    .note("the size of the file"),
            );
        }
    }
    figures.push(routes(setup, &folder)?);
    Ok(figures)
}

/// The plan of routes that are there.
fn routes(setup: &Setup, folder: &Folder) -> Result<Figure> {
    let route = |number: u32| {
        json!({
            "destination": format!("10.{}.{}.0/24", number / 256, number % 256),
            "next-hop-interface": "eth0", "next-hop-address": "10.0.0.254"
        })
    };
    let config: Vec<Value> = (1..=ROUTES).map(route).collect();
    let mut policy = policy(&[]);
    policy["spec"]["desiredState"] = json!({"routes": {"config": config}});
    let mut state = json!({"interfaces": [state_of()["interfaces"][0]]});
    state["routes"] = json!({"config": config, "running": config});
    let (file, states) = (folder.0.join("routes.json"), folder.0.join("one.json"));
    fs::write(&file, policy.to_string())?;
    fs::write(&states, list_of(1, &state.to_string()))?;
    let arguments = [
        OsStr::new("plan"),
        OsStr::new("-f"),
        file.as_os_str(),
        OsStr::new("--state"),
        states.as_os_str(),
    ];
    let taken = run(&setup.weft, &arguments, 0)?;
    let what = format!("plan for {ROUTES} routes that the node has");
    Ok(Figure::new(what, Unit::Seconds, taken.seconds).at_most(ROUTES_AT_MOST))
}

/// A policy that gives these cards another MTU.
fn policy(cards: &[u32]) -> Value {
    let interface = |card: &u32| json!({"name": format!("eth{card}"), "type": "ethernet", "state": "up", "mtu": 9000});
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "mtu"},
        "spec": {"desiredState": {"interfaces": cards.iter().map(interface).collect::<Vec<_>>()}}
    })
}

/// The network of each node.
fn state_of() -> Value {
    let interface = |card: u32| {
        let (high, low) = (card / 256, card % 256);
        json!({
            "name": format!("eth{card}"), "type": "ethernet", "state": "up", "mtu": 1500,
            "mac-address": format!("52:54:00:00:{high:02X}:{low:02X}"),
            "ipv4": {"enabled": true, "dhcp": false, "address": [
                {"ip": format!("10.{high}.{low}.1"), "prefix-length": 24}
            ]},
            "ipv6": {"enabled": false}, "lldp": {"enabled": false}
        })
    };
    json!({ "interfaces": (0..INTERFACES).map(interface).collect::<Vec<_>>() })
}

fn list_of(nodes: u32, state: &str) -> String {
    let of_node = |node: u32| {
        format!(
            "{{\"apiVersion\":\"nmstate.io/v1beta1\",\"kind\":\"NodeNetworkState\",\"metadata\":{{\"name\":\"node-{node}\"}},\"status\":{{\"currentState\":{state}}}}}"
        )
    };
    let items: Vec<String> = (0..nodes).map(of_node).collect();
    format!(
        "{{\"apiVersion\":\"v1\",\"items\":[{}],\"kind\":\"List\"}}",
        items.join(",")
    )
}
