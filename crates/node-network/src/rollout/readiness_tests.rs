//! Nodes say whether they have all policies that are for them.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_api::node_network::{NODE_CONDITION, STARTUP_TAINT};

use super::{
    Decision, Node, Readiness, Ready,
    readiness::{with_condition, without_condition, without_taint},
    testing::Cluster,
};

fn hostname(name: &str) -> Value {
    json!({"desiredState": {"hostname": {"config": name}}})
}

fn taint(cluster: &mut Cluster, node: &str) {
    cluster.nodes.get_mut(node).unwrap()["spec"]["taints"] = json!([
        {"key": STARTUP_TAINT, "effect": "NoSchedule"},
        {"key": "example.com/other", "effect": "NoSchedule"},
        {"key": STARTUP_TAINT, "effect": "NoExecute"},
    ]);
}

fn taints(cluster: &Cluster, node: &str) -> usize {
    let taints = cluster.nodes[node]["spec"]["taints"].as_array();
    taints.map_or(0, Vec::len)
}

/// Status and reason of the condition of a node, and its message, by now.
fn says(cluster: &mut Cluster, node: &str) -> (String, String) {
    cluster.tell(true);
    assert_eq!(cluster.tell(true), 0, "nothing is said twice");
    cluster.node_says(node).unwrap()
}

fn reason(cluster: &mut Cluster, node: &str) -> String {
    says(cluster, node).0
}

#[test]
fn a_new_node_is_ready_once_all_its_policies_are_applied() {
    let mut cluster = Cluster::with_nodes(0);
    cluster.apply("a", hostname("h1"));
    cluster.apply("b", json!({"nodeSelector": {"role": "other"}}));
    cluster.apply("c", hostname("h1"));
    cluster.add_node("node-0");
    cluster.set_agent("node-0", false);
    taint(&mut cluster, "node-0");
    assert_eq!(reason(&mut cluster, "node-0"), "False NoAgent");
    cluster.set_agent("node-0", true);
    assert_eq!(
        says(&mut cluster, "node-0"),
        (
            "False PolicyPending".into(),
            "these policies are not applied yet: a, c".into()
        )
    );
    cluster.operate();
    cluster.act("node-0", true);
    assert_eq!(reason(&mut cluster, "node-0"), "False PolicyPending");
    assert_eq!(taints(&cluster, "node-0"), 3);
    cluster.settle(true);
    assert_eq!(
        says(&mut cluster, "node-0"),
        (
            "True PoliciesApplied".into(),
            "all 2 policies that are for this node are applied".into()
        )
    );
    assert_eq!(taints(&cluster, "node-0"), 1, "the other taint stays");
}

#[test]
fn a_node_that_no_policy_is_for_is_ready_when_its_agent_is_there() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.set_agent("node-0", false);
    assert_eq!(cluster.tell(true), 0, "it is no node of Weft");
    taint(&mut cluster, "node-0");
    assert_eq!(reason(&mut cluster, "node-0"), "False NoAgent");
    assert_eq!(taints(&cluster, "node-0"), 3);
    cluster.set_agent("node-0", true);
    assert_eq!(reason(&mut cluster, "node-0"), "True NoPolicy");
    assert_eq!(taints(&cluster, "node-0"), 1);
    cluster.set_agent("node-0", false);
    assert_eq!(cluster.tell(true), 0, "its agent is just replaced");
    assert_eq!(
        cluster.tell(false),
        1,
        "nothing keeps the condition true without an installation"
    );
    assert_eq!(cluster.node_says("node-0"), None);
}

#[test]
fn the_condition_names_what_keeps_a_node() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply("p", hostname("h1"));
    cluster.settle(true);
    assert_eq!(reason(&mut cluster, "node-0"), "True PoliciesApplied");
    // The startup taint of a node that registers again.
    taint(&mut cluster, "node-1");
    cluster.tell(true);
    assert_eq!(taints(&cluster, "node-1"), 1);

    cluster.apply(
        "p",
        json!({"maxUnavailable": 1, "desiredState": {"hostname": {"config": "h2"}}}),
    );
    cluster.settle(false);
    assert_eq!(
        says(&mut cluster, "node-0"),
        (
            "False PolicyFailed".into(),
            "these policies failed on this node: p".into()
        )
    );
    assert_eq!(reason(&mut cluster, "node-1"), "False PolicyAborted");

    cluster.apply("p", json!({"desiredState": {"interfaces": 3}}));
    assert_eq!(reason(&mut cluster, "node-1"), "False PolicyRefused");

    cluster.apply(
        "p",
        json!({"desiredState": {"hostname": {"config": "{{ node.labels['rack'] }}"}}}),
    );
    cluster.settle(true);
    assert_eq!(reason(&mut cluster, "node-1"), "False PolicyWaiting");

    cluster.apply("p", hostname("h3"));
    cluster.settle(true);
    cluster.contradict("p", "node-1", "another policy wants something else");
    assert_eq!(reason(&mut cluster, "node-1"), "False PoliciesDisagree");
    assert_eq!(reason(&mut cluster, "node-0"), "True PoliciesApplied");

    cluster.set_managed("node-1", false);
    assert_eq!(reason(&mut cluster, "node-1"), "Unknown NotManaged");

    for name in ["a", "b", "c", "d"] {
        cluster.apply(name, hostname("h3"));
    }
    assert!(
        says(&mut cluster, "node-0")
            .1
            .ends_with(": a, b, c and 1 more")
    );
    for name in ["a", "b", "c", "d"] {
        cluster.delete(name);
    }
    assert_eq!(reason(&mut cluster, "node-0"), "True PoliciesApplied");
}

#[test]
fn another_node_of_that_name_has_nothing_yet() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.apply("p", hostname("h1"));
    cluster.settle(true);
    cluster.remove_node("node-0");
    cluster.add_node("node-0");
    taint(&mut cluster, "node-0");
    assert_eq!(reason(&mut cluster, "node-0"), "False PolicyPending");
    assert_eq!(taints(&cluster, "node-0"), 3);
    cluster.settle(true);
    assert_eq!(reason(&mut cluster, "node-0"), "True PoliciesApplied");
}

#[test]
fn writes_are_for_this_node_and_keep_the_time_of_the_turn() {
    let object = json!({
        "metadata": {"uid": "u"},
        "spec": {"taints": [
            {"key": STARTUP_TAINT, "effect": "NoSchedule"},
            {"key": "example.com/other", "effect": "NoSchedule"},
            {"key": STARTUP_TAINT, "effect": "NoExecute"},
        ]},
        "status": {"conditions": [{
            "type": NODE_CONDITION, "status": "False", "reason": "NoAgent", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]},
    });
    let node = Node::of(&object);
    let say = |status| Readiness {
        status,
        reason: "R".into(),
        message: "m".into(),
    };
    let now = "2026-01-02T00:00:00Z";
    let turned = |status| {
        let body = with_condition("n", &node, &say(status), now);
        assert_eq!(body["metadata"], json!({"name": "n", "uid": "u"}));
        let said = body["status"]["conditions"][0].clone();
        assert_eq!(said["lastHeartbeatTime"], now);
        said["lastTransitionTime"].clone()
    };
    assert_eq!(turned(Ready::False), "2026-01-01T00:00:00Z");
    assert_eq!(turned(Ready::True), now);
    assert_eq!(without_condition("n", "u")["metadata"]["uid"], "u");
    assert!(without_condition("n", "u")["status"].is_null());
    let paths: Vec<_> = without_taint(&node)
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["op"].as_str().unwrap(),
                one["path"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        paths,
        [
            "test /metadata/uid",
            "test /spec/taints/2/key",
            "remove /spec/taints/2",
            "test /spec/taints/0/key",
            "remove /spec/taints/0"
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// At the end of any rollout a node is ready just if each policy that is for it is applied
    /// there, and a ready node has no startup taint.
    #[test]
    fn a_node_is_ready_just_if_all_its_policies_are_applied(
        policies in prop::collection::vec((any::<bool>(), any::<bool>()), 0..4),
        others in prop::collection::vec(any::<bool>(), 4),
    ) {
        let mut cluster = Cluster::with_nodes(4);
        for (number, other) in others.iter().enumerate() {
            taint(&mut cluster, &format!("node-{number}"));
            if *other {
                cluster.label(&format!("node-{number}"), "other");
            }
        }
        for (number, (selective, succeeds)) in policies.iter().enumerate() {
            let mut spec = hostname(&format!("h{number}"));
            spec["maxUnavailable"] = json!(1);
            if *selective {
                spec["nodeSelector"] = json!({"role": "worker"});
            }
            cluster.apply(&format!("policy-{number}"), spec);
            cluster.settle(*succeeds);
            cluster.tell(true);
        }
        cluster.tell(true);
        prop_assert_eq!(cluster.tell(true), 0);
        for (number, other) in others.iter().enumerate() {
            let node = format!("node-{number}");
            let is_applied = policies.iter().enumerate().all(|(number, (selective, _))| {
                let policy = format!("policy-{number}");
                let is_done = cluster.decisions(&policy).get(&node).map(String::as_str) == Some(Decision::Granted.as_str())
                    && !cluster.failed(&policy).contains(&node);
                (*selective && *other) || is_done
            });
            let (said, message) = cluster.node_says(&node).unwrap();
            prop_assert_eq!(said.starts_with("True"), is_applied, "{}: {} {}", node, said, message);
            // A node was ready once, or is: both take the taint.
            prop_assert!(taints(&cluster, &node) == 1 || !is_applied);
        }
    }
}
