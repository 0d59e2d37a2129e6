//! Properties of rollouts, whatever happens in whatever order.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::json;
use weft_plan::Live;

use super::{Action, Decision, testing::Cluster};

const NODES: usize = 5;
const POLICIES: usize = 3;

/// An event in the simulation.
#[derive(Clone, Debug)]
enum Happening {
    /// The operator looks, and is killed after so many of its writes. They are sent at once, so any
    /// of them may come first.
    Operator {
        writes: usize,
        first: usize,
    },
    /// An agent takes a step.
    Agent {
        node: usize,
        succeeds: bool,
    },
    NodeGone(usize),
    NodeNew(usize),
    Ready(usize, bool),
    AgentRuns(usize, bool),
    Managed(usize, bool),
    Label(usize, bool),
    Edited(usize),
    Limited(usize, usize),
    OnDelete(usize, bool),
    Deleted(usize),
    Made(usize, Option<bool>),
    Retried(usize, u8),
    Cap(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let (node, policy) = (0..NODES, 0..POLICIES);
    prop_oneof![
        10 => (0..8_usize, 0..8_usize).prop_map(|(writes, first)| Happening::Operator { writes, first }),
        14 => (node.clone(), prop::bool::weighted(0.8)).prop_map(|(node, succeeds)| Happening::Agent { node, succeeds }),
        1 => node.clone().prop_map(Happening::NodeGone),
        2 => node.clone().prop_map(Happening::NodeNew),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, ready)| Happening::Ready(node, ready)),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, runs)| Happening::AgentRuns(node, runs)),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, managed)| Happening::Managed(node, managed)),
        2 => (node, any::<bool>()).prop_map(|(node, worker)| Happening::Label(node, worker)),
        2 => policy.clone().prop_map(Happening::Edited),
        1 => (policy.clone(), 1..4_usize).prop_map(|(policy, limit)| Happening::Limited(policy, limit)),
        1 => (policy.clone(), any::<bool>()).prop_map(|(policy, reverts)| Happening::OnDelete(policy, reverts)),
        1 => policy.clone().prop_map(Happening::Deleted),
        3 => (policy.clone(), any::<Option<bool>>()).prop_map(|(policy, selective)| Happening::Made(policy, selective)),
        1 => (policy, 0..3_u8).prop_map(|(policy, retry)| Happening::Retried(policy, retry)),
        1 => (1..5_usize).prop_map(Happening::Cap),
    ]
}

fn node(number: usize) -> String {
    format!("node-{number}")
}

fn policy(number: usize) -> String {
    format!("policy-{number}")
}

fn happen(cluster: &mut Cluster, happening: &Happening) {
    match *happening {
        Happening::Operator { writes, first } => {
            let mut actions = cluster.actions();
            if !actions.is_empty() {
                let first = first % actions.len();
                actions.rotate_left(first);
            }
            for action in actions.iter().take(writes) {
                cluster.write(action);
                within_limits(cluster, action);
            }
        }
        Happening::Agent {
            node: number,
            succeeds,
        } => cluster.act(&node(number), succeeds),
        Happening::NodeGone(number) => cluster.remove_node(&node(number)),
        Happening::NodeNew(number) => cluster.add_node(&node(number)),
        Happening::Ready(number, ready) => cluster.set_ready(&node(number), ready),
        Happening::AgentRuns(number, runs) => cluster.set_agent(&node(number), runs),
        Happening::Managed(number, managed) => cluster.set_managed(&node(number), managed),
        Happening::Label(number, worker) => {
            cluster.label(&node(number), if worker { "worker" } else { "other" })
        }
        Happening::Edited(number) => {
            let now = cluster
                .policies
                .get(&policy(number))
                .map(|policy| policy["metadata"]["generation"].to_string());
            // One of them refers to the label that events change.
            let label = if number == 1 {
                "-{{ node.labels['role'] }}"
            } else {
                ""
            };
            cluster.merge(
                &policy(number),
                "desiredState",
                json!({"hostname": {"config": format!("h{}{label}", now.unwrap_or_default())}}),
            );
        }
        Happening::Limited(number, limit) => {
            cluster.merge(&policy(number), "maxUnavailable", json!(limit))
        }
        Happening::OnDelete(number, reverts) => cluster.merge(
            &policy(number),
            "onDelete",
            json!(if reverts { "revert" } else { "retain" }),
        ),
        Happening::Deleted(number) => cluster.delete(&policy(number)),
        Happening::Made(number, selective) => {
            let mut spec = json!({
                "maxUnavailable": number + 1, "priority": number % 2,
                "onDelete": if selective == Some(true) { "revert" } else { "retain" }
            });
            if selective.is_some() {
                spec["nodeSelector"] = json!({"role": "worker"});
            }
            if !cluster.policies.contains_key(&policy(number)) {
                cluster.apply(&policy(number), spec);
            }
        }
        Happening::Retried(number, retry) => cluster.annotate(&policy(number), &retry.to_string()),
        Happening::Cap(cap) => cluster.cap = Some(json!(cap)),
    }
}

/// Checks, after a write that permits a node to change, the limits of the policy and of the cluster
/// for nodes that are being changed or have failed.
fn within_limits(cluster: &Cluster, action: &Action) {
    let (Action::Create { policy, wanted, .. } | Action::Change { policy, wanted, .. }) = action
    else {
        return;
    };
    if ![Decision::Granted, Decision::Revert].contains(&wanted.decision) {
        return;
    }
    let mut unavailable = cluster.under_change(Some(policy));
    unavailable.extend(cluster.failed(policy));
    assert!(
        unavailable.len() <= cluster.limit(policy),
        "{policy} may change {}: {unavailable:?}\n{cluster:#?}",
        cluster.limit(policy)
    );
    let all = cluster.under_change(None);
    assert!(
        all.len() <= cluster.cap(),
        "all may change {}: {all:?}\n{cluster:#?}",
        cluster.cap()
    );
}

/// The enactment of a node that failed and was replaced by another of its name is deleted while the
/// next node is granted its slot.
#[test]
fn a_failure_on_a_replaced_node_holds_no_slot() {
    let operator = |writes, first| Happening::Operator { writes, first };
    let agent = |succeeds| Happening::Agent { node: 1, succeeds };
    let happenings = [
        Happening::Ready(0, false),
        Happening::Made(0, None),
        operator(1, 0),
        agent(true),
        agent(false),
        Happening::NodeGone(1),
        Happening::NodeNew(1),
    ];
    let mut cluster = Cluster::with_nodes(NODES - 1);
    happenings
        .iter()
        .for_each(|happening| happen(&mut cluster, happening));
    let actions = cluster.actions();
    let deleted = Action::Delete {
        name: "node-1.policy-0".to_owned(),
        uid: "uid-6".to_owned(),
    };
    assert!(actions.contains(&deleted), "{actions:#?}");
    let granted = actions.iter().position(|action| matches!(action, Action::Create { wanted, .. } if wanted.decision == Decision::Granted));
    happen(&mut cluster, &operator(1, granted.unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, max_shrink_iters: 1000, ..ProptestConfig::default() })]

    /// No decision ever exceeds a limit. Once only agents act, and carry out the decisions, the
    /// rollout ends. Then each policy reports the end, and nothing is left of deleted policies.
    #[test]
    fn a_rollout_keeps_within_its_limits_and_ends(happenings in prop::collection::vec(happening(), 0..120)) {
        let mut cluster = Cluster::with_nodes(NODES - 1);
        for happening in &happenings {
            happen(&mut cluster, happening);
        }
        for number in 0..NODES {
            cluster.set_ready(&node(number), true);
            cluster.set_agent(&node(number), true);
            cluster.set_managed(&node(number), true);
        }
        cluster.settle(true);
        prop_assert!(cluster.at_work.is_empty());
        for (name, object) in &cluster.enactments {
            let policy = object["spec"]["policy"].as_str().unwrap();
            prop_assert!(cluster.policies.contains_key(policy), "{name} is left");
            prop_assert!(cluster.nodes.contains_key(object["spec"]["nodeName"].as_str().unwrap()), "{name} is left");
        }
        for (name, object) in &cluster.policies {
            let (phase, message) = cluster.says(name);
            let is_over = match phase {
                "Available" => message.starts_with(&format!("{0}/{0} nodes successfully", cluster.count(name, Decision::Granted))),
                "Degraded" => Live::of(object).is_being_deleted() || !cluster.failed(name).is_empty() || cluster.count(name, Decision::Aborted) > 0,
                "Ignored" => cluster.decisions(name).is_empty(),
                _ => false,
            };
            // A state that the agent could not put back holds a node that the policy no longer
            // selects.
            let has_failed_leaving = cluster.count(name, Decision::Revert) > 0;
            prop_assert!(is_over || has_failed_leaving, "{phase}: {message}\n{cluster:#?}");
        }
    }

    /// Nobody waits for an agent that has gone before it began: what the others are to do is done,
    /// and no slot is held for it.
    #[test]
    fn work_without_an_agent_holds_up_nobody(happenings in prop::collection::vec(happening(), 0..120), gone in prop::collection::vec(any::<bool>(), NODES)) {
        let mut cluster = Cluster::with_nodes(NODES - 1);
        for happening in &happenings {
            happen(&mut cluster, happening);
        }
        for (number, gone) in gone.iter().enumerate() {
            cluster.set_ready(&node(number), true);
            cluster.set_managed(&node(number), true);
            cluster.set_agent(&node(number), !gone);
        }
        cluster.settle(true);
        for (name, object) in &cluster.enactments {
            let wanted = &object["spec"]["wanted"]["decision"];
            let has_said = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let has_begun = object["status"]["conditions"][0]["type"] == "Progressing";
            prop_assert!(has_said || has_begun || wanted == "Pending" || wanted == "Aborted", "{name}: {object:#}");
        }
    }

    /// Where nothing fails, the end is the same whatever the order of events.
    #[test]
    fn the_end_does_not_depend_on_the_order(
        one in prop::collection::vec((0..NODES, 0..8_usize), 0..80),
        other in prop::collection::vec((0..NODES, 0..8_usize), 0..80),
    ) {
        let mut cluster = Cluster::with_nodes(NODES);
        cluster.cap = Some(json!("50%"));
        cluster.apply("a", json!({
            "maxUnavailable": 1, "desiredState": {"hostname": {"config": "h1"}}
        }));
        cluster.apply("b", json!({
            "maxUnavailable": "40%", "priority": 3, "nodeSelector": {"role": "worker"}
        }));
        cluster.label("node-2", "other");
        let run = |order: &[(usize, usize)]| {
            let mut cluster = cluster.clone();
            for (number, writes) in order {
                happen(&mut cluster, &Happening::Operator { writes: *writes, first: *number });
                cluster.act(&node(*number), true);
            }
            cluster.settle(true);
            let ends = cluster.enactments.into_iter().map(|(name, object)| (name, object["spec"]["granted"].clone(), object["status"]["conditions"].clone()));
            ends.collect::<Vec<_>>()
        };
        let (one, other) = (run(&one), run(&other));
        prop_assert_eq!(one.len(), 2 * NODES - 1);
        prop_assert_eq!(one, other);
    }
}
