//! Metrics under the names of kubernetes-nmstate.

use std::collections::{BTreeMap, HashMap};

use weft_node_network::rollout::{status, view::Phase};
use weft_plan::kinds;
use weft_runtime::{
    api_server::clock,
    metrics::{Labels, Metrics, Readiness},
};

use super::caches::Caches;

/// Sets them all as the caches are.
pub fn set(metrics: &Metrics, domain: &'static str, caches: &Caches) {
    set_readiness(metrics, domain, caches);
    set_agents(metrics, caches);
    let (mut features, mut enactments) = (HashMap::new(), HashMap::new());
    for enactment in caches
        .enactments
        .lock()
        .iter()
        .filter_map(|(_, found)| found.0.as_ref())
    {
        if enactment.phase == Phase::Available {
            features.extend(
                enactment
                    .features
                    .iter()
                    .map(|feature| (vec![("name", feature.clone())], 1)),
            );
        }
        let of = |phase: Phase| {
            vec![
                ("node", enactment.node.clone()),
                ("status", phase.as_str().to_owned()),
            ]
        };
        // All of a node's are there, so that one that was is seen to be 0.
        for phase in Phase::ALL.iter().filter(|phase| **phase != Phase::Unknown) {
            enactments.entry(of(*phase)).or_insert(0);
        }
        *enactments.entry(of(enactment.phase)).or_default() += 1;
    }
    let mut policies: HashMap<Labels, i64> = status::PHASES
        .iter()
        .map(|phase| (vec![("status", (*phase).to_owned())], 0))
        .collect();
    for (_, policy) in caches.policies.lock().iter() {
        *policies
            .entry(vec![("status", status::phase(&policy.status).to_owned())])
            .or_default() += 1;
    }
    let (mut interfaces, mut routes) = (HashMap::new(), HashMap::new());
    let mut incomplete: HashMap<Labels, i64> = HashMap::new();
    for (node, state) in caches.states.lock().iter() {
        let counts = &state.counts;
        let node = || ("node", node.to_owned());
        incomplete.insert(vec![node()], i64::from(state.is_rollback_incomplete));
        interfaces.extend(
            counts
                .interfaces
                .iter()
                .map(|(kind, count)| (vec![("type", kind.clone()), node()], *count)),
        );
        let labels = |(family, origin): &(&str, &str)| {
            vec![
                node(),
                ("ip_stack", (*family).to_owned()),
                ("type", (*origin).to_owned()),
            ]
        };
        routes.extend(counts.routes.iter().map(|(of, count)| (labels(of), *count)));
    }
    metrics.set_all(
        "kubernetes_nmstate_features_applied",
        "Features of nmstate that applied policies make use of, by name",
        features,
    );
    metrics.set_all(
        "kubernetes_nmstate_network_interfaces",
        "Network interfaces by type and node",
        interfaces,
    );
    metrics.set_all(
        "kubernetes_nmstate_routes",
        "Routes by node, family and origin: static or dynamic",
        routes,
    );
    metrics.set_all(
        "weft_node_rollback_incomplete",
        "1 while the node differs from its state before a change that was rolled back",
        incomplete,
    );
    metrics.set_all(
        "kubernetes_nmstate_policies_status",
        "Policies by the condition that is true",
        policies,
    );
    metrics.set_all(
        "kubernetes_nmstate_enactments_status",
        "Enactments by node and the condition that is true",
        enactments,
    );
}

/// Sets the gauges that say which policies and reports of nodes are ready. Of enactments there are
/// as many as policies and nodes together allow, so they are only counted.
fn set_readiness(metrics: &Metrics, domain: &'static str, caches: &Caches) {
    let policies: Vec<_> = caches
        .policies
        .lock()
        .iter()
        .map(|(name, policy)| Readiness::new("", name, &policy.status))
        .collect();
    metrics.readiness(
        domain,
        kinds::NODE_NETWORK_CONFIGURATION_POLICY,
        None,
        policies,
    );
    let states: Vec<_> = caches
        .states
        .lock()
        .iter()
        .map(|(_, state)| state.readiness.clone())
        .collect();
    metrics.readiness(domain, kinds::NODE_NETWORK_STATE, None, states);
}

/// Sets the gauges of the agents, by node. An agent on demand has no pod: its report says until when
/// it is there.
fn set_agents(metrics: &Metrics, caches: &Caches) {
    let (agents, states, now) = (caches.agents.lock(), caches.states.lock(), clock::now());
    let mut ready: BTreeMap<&str, bool> = states
        .iter()
        .filter(|(_, state)| state.agent_until.is_some_and(|until| until > now))
        .map(|(node, _)| (node, true))
        .collect();
    for (_, agent) in agents.iter() {
        *ready.entry(&agent.node).or_default() |= agent.is_ready;
    }
    let labels = |node: &str| vec![("node", node.to_owned())];
    metrics.set_all(
        "weft_agent_ready",
        "1 while the agent of the node is ready",
        ready
            .iter()
            .map(|(node, is_ready)| (labels(node), i64::from(*is_ready)))
            .collect(),
    );
    metrics.set_all(
        "weft_agent_reported_timestamp_seconds",
        "When the agent last reported a change of the network of its node",
        states
            .iter()
            .filter(|(node, _)| ready.contains_key(node))
            .filter_map(|(node, state)| Some((labels(node), state.reported?)))
            .collect(),
    );
}
