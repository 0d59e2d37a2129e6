//! The networks of nodes: reports, a policy that makes a bridge without ports, a bad policy, and
//! the removal.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::run::{Done, Runner, Suite};

use super::{BRIDGE, POLICY, check_images, condition, conditions, holds, install::STARTS, pods};

const NAMESPACE: &str = "nmstate";
/// Addresses for documentation (RFC 5737), which no network uses.
const ADDRESS: &str = "192.0.2.1";
const OTHER_ADDRESS: &str = "192.0.2.9";

/// The name of the test that makes the bridge: pods are attached to it later.
pub const MADE: &str = "node-network/policy-makes-a-bridge";
const AGENTS: &str = "node-network/agents-run";
/// The name of the test that waits for all reports.
pub const STATES: &str = "node-network/every-node-is-reported";

/// A policy of the suite for all nodes at once, with these interfaces.
pub fn policy(interfaces: Value) -> Value {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": POLICY},
        "spec": {"maxUnavailable": "100%", "desiredState": {"interfaces": interfaces}}
    })
}

fn bridge(mtu: u32, address: &str) -> Value {
    json!([{
        "name": BRIDGE, "type": "linux-bridge", "state": "up", "mtu": mtu,
        "ipv4": {"enabled": true, "dhcp": false, "address": [{"ip": address, "prefix-length": 24}]},
        "bridge": {"options": {"stp": {"enabled": false}}, "port": []}
    }])
}

fn nmstate() -> Value {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"},
        // A host without NetworkManager can make a bridge, too. The suite makes nothing else.
        "spec": {"withoutNetworkManager": "ConfigureKernel"}
    })
}

/// Returns an interface that a NodeNetworkState reports.
pub fn interface<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    let all = state["status"]["currentState"]["interfaces"].as_array()?;
    all.iter().find(|interface| interface["name"] == name)
}

/// Returns `Ok` if the condition of the policy is True for its latest generation.
///
/// # Errors
/// The API server refuses the request.
pub fn policy_is(suite: &Suite, kind: &str) -> Result<Result<(), String>> {
    let policy = suite
        .cluster
        .get(&["nodenetworkconfigurationpolicies.nmstate.io", POLICY])?;
    Ok(holds(&policy, kind))
}

fn states(suite: &Suite) -> Result<Vec<Value>> {
    suite.cluster.list(&["nodenetworkstates.nmstate.io"])
}

/// Fails unless every node reports the bridge with this MTU.
fn check_bridge(suite: &Suite, mtu: u32) -> Result<Result<(), String>> {
    let states = states(suite)?;
    for node in &suite.nodes {
        let state = states
            .iter()
            .find(|state| state["metadata"]["name"] == node.as_str());
        let found = state.and_then(|state| interface(state, BRIDGE));
        if found.is_none_or(|bridge| bridge["mtu"] != mtu) {
            return Ok(Err(format!(
                "node {node} reports {}",
                found.unwrap_or(&Value::Null)
            )));
        }
    }
    Ok(Ok(()))
}

/// From the agents to a policy that is rolled back.
pub fn walk(runner: &mut Runner) {
    runner.test(AGENTS, &[STARTS], |suite| {
        suite.cluster.apply(&nmstate())?;
        suite.wait("the NMState is Available", || {
            check_images(suite, NAMESPACE)?;
            let nmstate = suite.cluster.get(&["nmstates.nmstate.io", "nmstate"])?;
            Ok(match holds(&nmstate, "Available") {
                Ok(()) => Ok(()),
                Err(instead) => Err(format!("{instead}\n{}", pods(suite, NAMESPACE)?)),
            })
        })?;
        Ok(Done::Yes)
    });
    runner.test(STATES, &[AGENTS], |suite| {
        suite.wait("every node has a NodeNetworkState with interfaces", || {
            let states = states(suite)?;
            let missing: Vec<_> = suite
                .nodes
                .iter()
                .filter(|node| {
                    let state = states
                        .iter()
                        .find(|state| state["metadata"]["name"] == node.as_str());
                    state.is_none_or(|state| interface(state, "lo").is_none())
                })
                .cloned()
                .collect();
            Ok(if missing.is_empty() {
                Ok(())
            } else {
                Err(format!("none of {}", missing.join(", ")))
            })
        })?;
        Ok(Done::Yes)
    });
    runner.test("node-network/plan-names-the-change", &[STATES], |suite| {
        let ended = suite.cluster.weft(
            &["plan", "-f", "-"],
            &policy(bridge(1500, ADDRESS)).to_string(),
        )?;
        if ended.code != 1 || !ended.stdout.contains(BRIDGE) {
            bail!(
                "weft plan: exit code {} instead of 1 (something would change)\n{}{}",
                ended.code,
                ended.stdout,
                ended.stderr
            );
        }
        if !suite
            .cluster
            .list(&["nodenetworkconfigurationpolicies.nmstate.io"])?
            .is_empty()
        {
            bail!("weft plan has written a policy");
        }
        Ok(Done::Yes)
    });
    runner.test(MADE, &[STATES], |suite| {
        if let Some(reason) = unable(suite)? {
            return Ok(Done::LeftOut(reason));
        }
        suite.cluster.apply(&policy(bridge(1500, ADDRESS)))?;
        wait_policy(suite, "Available")?;
        suite.wait("every node reports the bridge", || {
            check_bridge(suite, 1500)
        })?;
        Ok(Done::Yes)
    });
    runner.test("node-network/bad-policy-is-rolled-back", &[MADE], |suite| {
        // The kubelet answers on each address of its node, and this one goes away with the change.
        let node = suite.cluster.get(&["node", &suite.nodes[0]])?;
        let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
        let mut bad = policy(bridge(1400, OTHER_ADDRESS));
        bad["spec"]["probes"] = json!([{"tcp": {"host": ADDRESS, "port": port}}]);
        suite.cluster.apply(&bad)?;
        wait_policy(suite, "Degraded")?;
        suite.wait("every node has the bridge of before", || {
            check_bridge(suite, 1500)
        })?;
        let enactments = suite
            .cluster
            .list(&["nodenetworkconfigurationenactments.nmstate.io"])?;
        let says = enactments
            .iter()
            .any(|one| conditions(one).contains(ADDRESS));
        if !says {
            let all: Vec<_> = enactments.iter().map(conditions).collect();
            bail!(
                "no enactment names the probe of {ADDRESS}:\n{}",
                all.join("\n")
            );
        }
        // The good policy again: later tests use the bridge.
        suite.cluster.apply(&policy(bridge(1500, ADDRESS)))?;
        wait_policy(suite, "Available")?;
        Ok(Done::Yes)
    });
}

/// The bridge and the agents go.
pub fn end(runner: &mut Runner) {
    runner.test("node-network/policy-removes-the-bridge", &[MADE], |suite| {
        suite.cluster.apply(&policy(
            json!([{"name": BRIDGE, "type": "linux-bridge", "state": "absent"}]),
        ))?;
        wait_policy(suite, "Available")?;
        suite.wait("no node reports the bridge", || {
            let left: Vec<_> = states(suite)?
                .iter()
                .filter(|state| interface(state, BRIDGE).is_some())
                .map(|state| state["metadata"]["name"].to_string())
                .collect();
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            })
        })?;
        suite.cluster.kubectl(&[
            "delete",
            "nodenetworkconfigurationpolicies.nmstate.io",
            POLICY,
        ])?;
        suite.wait("its enactments are gone", || {
            let left = suite
                .cluster
                .list(&["nodenetworkconfigurationenactments.nmstate.io"])?
                .len();
            Ok(if left == 0 {
                Ok(())
            } else {
                Err(format!("{left} enactments"))
            })
        })?;
        Ok(Done::Yes)
    });
    runner.test("node-network/deletion-removes-agents", &[AGENTS], |suite| {
        if !suite
            .cluster
            .list(&["nodenetworkconfigurationpolicies.nmstate.io"])?
            .is_empty()
        {
            return Ok(Done::LeftOut(
                "a policy is still there. The clean-up removes it with the agents".to_owned(),
            ));
        }
        suite.cluster.kubectl(&[
            "delete",
            "nmstates.nmstate.io",
            "nmstate",
            &format!("--timeout={}s", suite.options.timeout),
        ])?;
        suite.wait("the agents are gone", || {
            let left = suite.cluster.list(&["daemonsets", "-n", NAMESPACE])?.len();
            Ok(if left == 0 {
                Ok(())
            } else {
                Err(pods(suite, NAMESPACE)?)
            })
        })?;
        Ok(Done::Yes)
    });
}

/// Returns the reason why a node cannot be changed.
fn unable(suite: &Suite) -> Result<Option<String>> {
    for state in states(suite)? {
        if let Some((status, _, message)) = condition(&state, "Backend")
            && status == "False"
        {
            return Ok(Some(format!(
                "node {}: {message}",
                state["metadata"]["name"].as_str().unwrap_or_default()
            )));
        }
    }
    Ok(None)
}

fn wait_policy(suite: &Suite, kind: &str) -> Result<()> {
    suite.wait(&format!("the policy {POLICY} is {kind}"), || {
        Ok(match policy_is(suite, kind)? {
            Ok(()) => Ok(()),
            Err(instead) => {
                let enactments = suite
                    .cluster
                    .list(&["nodenetworkconfigurationenactments.nmstate.io"])?;
                let words: Vec<_> = enactments.iter().map(conditions).collect();
                Err(format!("{instead}\n{}", words.join("\n")))
            }
        })
    })
}
