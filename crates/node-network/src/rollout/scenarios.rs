//! Plays a rollout step by step.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Decision, Policy, status::blocked, testing::Cluster};

fn decisions(cluster: &Cluster, policy: &str) -> Vec<String> {
    cluster.decisions(policy).into_values().collect()
}

#[test]
fn nodes_wait_for_slots_and_say_so() {
    let mut cluster = Cluster::with_nodes(4);
    cluster.apply("p", json!({"maxUnavailable": 1}));
    assert_eq!(cluster.operate(), 4);
    assert_eq!(
        decisions(&cluster, "p"),
        ["Granted", "Pending", "Pending", "Pending"]
    );
    assert_eq!(cluster.operate(), 0, "nothing is said twice");
    assert_eq!(
        cluster.says("p"),
        (
            "Progressing",
            "Policy is progressing 0/4 nodes finished".into()
        )
    );
    assert_eq!(
        cluster.status("p")["unavailableNodeCountMap"],
        json!({"1": 1})
    );
    cluster.act("node-0", true);
    assert_eq!(cluster.operate(), 0, "it has only begun");
    cluster.act("node-0", true);
    assert_eq!(cluster.operate(), 1);
    assert_eq!(
        decisions(&cluster, "p"),
        ["Granted", "Granted", "Pending", "Pending"]
    );
    assert_eq!(
        cluster.says("p").1,
        "Policy is progressing 1/4 nodes finished"
    );
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        ("Available", "4/4 nodes successfully configured".into())
    );
    assert_eq!(cluster.status("p")["unavailableNodeCountMap"], Value::Null);
}

#[test]
fn a_failure_keeps_its_slot_and_once_all_do_the_rest_is_let_be() {
    let mut cluster = Cluster::with_nodes(4);
    cluster.apply("p", json!({"maxUnavailable": 2}));
    cluster.operate();
    let both_act = |cluster: &mut Cluster, first, second| {
        cluster.act("node-0", first);
        cluster.act("node-1", second);
    };
    both_act(&mut cluster, false, true);
    both_act(&mut cluster, false, true);
    cluster.operate();
    assert_eq!(
        decisions(&cluster, "p"),
        ["Granted", "Granted", "Granted", "Pending"],
        "one slot is left"
    );
    assert_eq!(
        cluster.says("p"),
        ("Degraded", "1/4 nodes failed to configure".into())
    );
    cluster.settle(false);
    assert_eq!(
        decisions(&cluster, "p"),
        ["Granted", "Granted", "Granted", "Aborted"]
    );
    assert_eq!(
        cluster.says("p"),
        (
            "Degraded",
            "2/4 nodes failed to configure, 1 nodes aborted configuration".into()
        )
    );
    // The nodes where it failed are gone: what is aborted stays so, and whoever comes is let be,
    // too.
    cluster.remove_node("node-0");
    cluster.remove_node("node-2");
    cluster.add_node("node-4");
    cluster.settle(true);
    assert_eq!(decisions(&cluster, "p"), ["Granted", "Aborted", "Aborted"]);
    // Another try, or another generation, begins anew.
    cluster.annotate("p", "again");
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        ("Available", "3/3 nodes successfully configured".into())
    );
}

#[test]
fn another_try_leaves_those_alone_that_are_done() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply("p", json!({"maxUnavailable": 1}));
    cluster.operate();
    cluster.act("node-0", true);
    cluster.act("node-0", true);
    cluster.settle(false);
    assert_eq!(cluster.says("p").1, "1/2 nodes failed to configure");
    let before = cluster.enactments["node-0.p"].clone();
    cluster.annotate("p", "1");
    cluster.settle(true);
    assert_eq!(cluster.says("p").0, "Available");
    assert_eq!(cluster.enactments["node-0.p"], before);
}

#[test]
fn a_newer_generation_goes_first_to_nodes_that_are_being_changed() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.apply(
        "p",
        json!({"maxUnavailable": 1, "desiredState": {"hostname": {"config": "h1"}}}),
    );
    cluster.settle(true);
    cluster.apply(
        "p",
        json!({"maxUnavailable": 1, "desiredState": {"hostname": {"config": "h2"}}}),
    );
    cluster.operate();
    for _ in 0..2 {
        cluster.act("node-0", true);
    }
    cluster.operate();
    assert_eq!(
        cluster.under_change(None).into_iter().collect::<Vec<_>>(),
        ["node-1"]
    );
    cluster.apply(
        "p",
        json!({"maxUnavailable": 1, "desiredState": {"hostname": {"config": "h3"}}}),
    );
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Pending", "Granted", "Pending"]);
    assert_eq!(
        cluster.enactments["node-0.p"]["spec"]["granted"]["spec"]["desiredState"]["hostname"]["config"],
        "h2",
        "it keeps what it has"
    );
    assert_eq!(
        cluster.enactments["node-1.p"]["spec"]["granted"]["spec"]["desiredState"]["hostname"]["config"],
        "h3"
    );
}

#[test]
fn greater_priorities_come_first_and_policies_of_one_node_together() {
    let mut cluster = Cluster::with_nodes(4);
    cluster.cap = Some(json!(1));
    cluster.label("node-3", "storage");
    cluster.apply("a", json!({"maxUnavailable": "100%"}));
    cluster.apply(
        "b",
        json!({"maxUnavailable": 1, "priority": 5, "nodeSelector": {"role": "storage"}}),
    );
    cluster.operate();
    assert_eq!(decisions(&cluster, "b"), ["Granted"]);
    assert_eq!(
        decisions(&cluster, "a"),
        ["Pending", "Pending", "Pending", "Granted"],
        "the node that is changed anyway"
    );
    for _ in 0..2 {
        cluster.act("node-3", true);
    }
    cluster.operate();
    assert_eq!(
        decisions(&cluster, "a"),
        ["Granted", "Pending", "Pending", "Granted"],
        "one node of the cluster at a time"
    );
}

#[test]
fn nodes_that_are_away_hold_up_nobody_unless_they_went_in_the_middle() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.apply("p", json!({"maxUnavailable": 1}));
    cluster.operate();
    cluster.set_ready("node-0", false);
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Granted", "Granted", "Pending"]);
    cluster.act("node-1", true);
    cluster.set_ready("node-1", false);
    assert_eq!(
        cluster.operate(),
        0,
        "what was changed there may be the reason"
    );
    let told = "Policy is progressing 0/1 nodes finished, 2 nodes ignored due to NotReady state; not heard of since their change began or was granted: node-1";
    assert_eq!(cluster.says("p"), ("Progressing", told.into()));
    cluster.remove_node("node-1");
    cluster.set_ready("node-0", true);
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        ("Available", "2/2 nodes successfully configured".into())
    );
    cluster.set_ready("node-2", false);
    assert_eq!(
        cluster.says("p").1,
        "2/2 nodes successfully configured, 1 nodes ignored due to NotReady state"
    );
}

#[test]
fn a_policy_that_no_node_with_an_agent_matches_is_ignored() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply("p", json!({"nodeSelector": {"role": "none"}}));
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        ("Ignored", "Policy does not match any node".into())
    );
    cluster.label("node-0", "none");
    cluster.set_agent("node-0", false);
    cluster.settle(true);
    assert_eq!(
        (cluster.says("p").0, cluster.decisions("p")),
        ("Ignored", BTreeMap::new())
    );
    cluster.set_agent("node-0", true);
    cluster.settle(true);
    assert_eq!(cluster.says("p").0, "Available");
}

#[test]
fn work_of_an_agent_on_demand_stays_done_after_its_end() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.set_agent("node-1", false);
    cluster.apply("p", json!({"maxUnavailable": 1}));
    cluster.settle(true);
    cluster.set_agent("node-0", false);
    assert_eq!(
        cluster.says("p"),
        ("Available", "1/1 nodes successfully configured".into())
    );
    cluster.merge("p", "desiredState", json!({"hostname": {"config": "h"}}));
    assert_eq!(cluster.operate(), 0, "nobody is there to do anything");
    assert_eq!(cluster.says("p").0, "Ignored");
    cluster.set_agent("node-0", true);
    cluster.settle(false);
    cluster.set_agent("node-0", false);
    assert_eq!(
        cluster.says("p"),
        ("Degraded", "1/1 nodes failed to configure".into())
    );
}

#[test]
fn a_grant_to_an_agent_that_went_before_it_began_is_revoked() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply("p", json!({
        "maxUnavailable": 1, "onDelete": "revert", "desiredState": {"hostname": {"config": "h1"}}
    }));
    cluster.settle(true);
    cluster.merge("p", "desiredState", json!({"hostname": {"config": "h2"}}));
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Granted", "Pending"]);
    cluster.set_agent("node-0", false);
    cluster.operate();
    assert_eq!(
        decisions(&cluster, "p"),
        ["Pending", "Pending"],
        "it has its slot until it is told to wait"
    );
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Pending", "Granted"]);
    // One that had begun may have changed something.
    cluster.act("node-1", true);
    cluster.set_agent("node-1", false);
    cluster.set_agent("node-0", true);
    assert_eq!(cluster.operate(), 0);
    assert_eq!(decisions(&cluster, "p"), ["Pending", "Granted"]);
    cluster.set_agent("node-1", true);
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        ("Available", "2/2 nodes successfully configured".into())
    );
    // The same where it is to be put back.
    cluster.delete("p");
    cluster.operate();
    cluster.set_agent("node-0", false);
    cluster.operate();
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Pending", "Revert"]);
    cluster.set_agent("node-0", true);
    cluster.settle(true);
    assert!(
        cluster.policies.is_empty() && cluster.enactments.is_empty(),
        "{cluster:#?}"
    );
}

#[test]
fn an_agent_on_demand_says_until_when() {
    let until = |text: &str| {
        super::view::agent_until(
            &json!({"metadata": {"annotations": {"weft.network/agent-until": text}}}),
        )
    };
    assert_eq!(until("1970-01-01T00:00:00Z"), Some(Timestamp::UNIX_EPOCH));
    assert_eq!(
        (
            until("soon"),
            super::view::agent_until(&json!({"metadata": {}}))
        ),
        (None, None)
    );
}

#[test]
fn nodes_that_are_to_be_left_alone_hold_up_nobody() {
    let mut cluster = Cluster::with_nodes(4);
    cluster.cap = Some(json!(1));
    cluster.set_managed("node-0", false);
    cluster.apply("p", json!({"maxUnavailable": 1, "onDelete": "revert"}));
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        (
            "Available",
            "3/3 nodes successfully configured, 1 nodes ignored that are not managed".into()
        )
    );
    assert!(
        !cluster.enactments.contains_key("node-0.p"),
        "nothing is asked of it"
    );
    // A node that had begun, one that only had the permission, and one that has failed.
    cluster.merge("p", "desiredState", json!({"hostname": {"config": "h"}}));
    cluster.operate();
    cluster.act("node-1", true);
    cluster.set_managed("node-1", false);
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Granted", "Granted", "Pending"]);
    cluster.set_managed("node-2", false);
    cluster.operate();
    assert_eq!(decisions(&cluster, "p"), ["Granted", "Granted", "Granted"]);
    for _ in 0..2 {
        cluster.act("node-3", false);
    }
    assert_eq!(
        cluster.says("p"),
        ("Degraded", "1/1 nodes failed to configure".into())
    );
    cluster.set_managed("node-3", false);
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        (
            "Ignored",
            "Policy does not match any node, 4 nodes ignored that are not managed".into()
        )
    );
    // Where somebody may act again it goes on.
    cluster.set_managed("node-1", true);
    cluster.set_managed("node-2", true);
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        (
            "Available",
            "2/2 nodes successfully configured, 2 nodes ignored that are not managed".into()
        )
    );
    // It is put back where somebody may, and goes.
    cluster.delete("p");
    cluster.operate();
    assert_eq!(cluster.count("p", Decision::Revert), 1, "one at a time");
    cluster.settle(true);
    assert!(
        cluster.policies.is_empty() && cluster.enactments.is_empty(),
        "{cluster:#?}"
    );
}

#[test]
fn a_state_of_another_node_is_to_be_left_alone_as_well() {
    let is_left_alone = |spec: Value| {
        super::view::is_left_alone(&json!({"metadata": {"name": "node-1"}, "spec": spec}))
    };
    assert!(
        is_left_alone(json!({"managed": false})) && is_left_alone(json!({"nodeName": "node-2"}))
    );
    assert!(
        !is_left_alone(json!({"managed": true, "nodeName": "node-1"}))
            && !is_left_alone(json!({}))
            && !is_left_alone(Value::Null)
    );
}

#[test]
fn policies_that_contradict_each_other_both_say_so() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.apply("a", json!({}));
    cluster.apply("b", json!({}));
    cluster.settle(true);
    let conflict = |cluster: &Cluster, policy: &str| {
        let status = cluster.status(policy);
        weft_plan::condition(&status, "Conflict")
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(conflict(&cluster, "a"), Value::Null);
    let told = r#"policies "a" and "b" disagree"#;
    for (policy, node) in [
        ("a", "node-1"),
        ("b", "node-1"),
        ("a", "node-2"),
        ("b", "node-2"),
    ] {
        cluster.contradict(policy, node, told);
    }
    for policy in ["a", "b"] {
        let said = conflict(&cluster, policy);
        let message = format!("node-1: {told}; and on 1 more nodes");
        assert_eq!(
            (&said["status"], &said["reason"], &said["message"]),
            (&json!("True"), &json!("PoliciesDisagree"), &json!(message))
        );
        assert_eq!(
            cluster.says(policy).0,
            "Available",
            "kubectl get shows the state of the nodes first"
        );
        let status = cluster.status(policy);
        let stalled = weft_plan::condition(&status, "Stalled").unwrap();
        assert_eq!(stalled["reason"], "PoliciesDisagree");
    }
    // It is over once the agents say so.
    cluster.policies.get_mut("a").unwrap()["status"] = cluster.status("a");
    cluster.merge("a", "desiredState", json!({"hostname": {"config": "h"}}));
    cluster.settle(true);
    assert_eq!(conflict(&cluster, "a"), Value::Null);
}

#[test]
fn a_policy_is_kept_until_nodes_have_put_back_what_it_changed() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.apply("p", json!({"maxUnavailable": 1, "onDelete": "revert"}));
    assert_eq!(cluster.operate(), 1, "the finalizer comes first");
    cluster.settle(true);
    cluster.delete("p");
    cluster.operate();
    assert_eq!(cluster.count("p", Decision::Revert), 1);
    assert_eq!(
        cluster.says("p").1,
        "The policy is being deleted: 3 nodes have yet to put back what it changed"
    );
    cluster.set_agent("node-2", false);
    cluster.settle(true);
    let way_out =
        "To delete the policy and keep what it changed there, set spec.onDelete to retain";
    let told = format!(
        "The policy is being deleted: 1 nodes have yet to put back what it changed; not Ready or without an agent: node-2. {way_out}"
    );
    assert_eq!(cluster.says("p"), ("Progressing", told));
    cluster.merge("p", "onDelete", json!("retain"));
    cluster.settle(true);
    assert!(cluster.policies.is_empty() && cluster.enactments.is_empty());
}

#[test]
fn a_node_that_is_no_longer_meant_keeps_or_puts_back() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply("keeps", json!({"nodeSelector": {"role": "worker"}}));
    cluster.apply(
        "reverts",
        json!({"nodeSelector": {"role": "worker"}, "onDelete": "revert"}),
    );
    cluster.settle(true);
    cluster.label("node-0", "other");
    cluster.operate();
    assert_eq!(decisions(&cluster, "keeps"), ["Granted"]);
    assert_eq!(decisions(&cluster, "reverts"), ["Revert", "Granted"]);
    cluster.settle(true);
    assert_eq!(decisions(&cluster, "reverts"), ["Granted"]);
}

#[test]
fn a_status_that_says_nothing_new_is_the_same_to_the_last_time() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply("p", json!({}));
    cluster.settle(true);
    let status = cluster.status("p");
    let old = |mut status: Value| {
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastHeartbeatTime"] = "2020-01-01T00:00:00Z".into();
            condition["lastTransitionTime"] = "2019-01-01T00:00:00Z".into();
        }
        status
    };
    let before = old(status);
    cluster.policies.get_mut("p").unwrap()["status"] = before.clone();
    assert_eq!(cluster.status("p"), before);
    // Another generation is news. When it began to be so is not.
    cluster.apply("p", json!({"priority": 1}));
    cluster.settle(true);
    let available = &cluster.status("p")["conditions"][0];
    assert_eq!(
        (
            &available["lastTransitionTime"],
            &available["observedGeneration"]
        ),
        (&json!("2019-01-01T00:00:00Z"), &json!(2))
    );
    assert_eq!(available["lastHeartbeatTime"], "1970-01-01T00:00:00Z");
}

#[test]
fn a_refused_policy_reaches_no_node_and_says_why_at_once() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.apply(
        "good",
        json!({
            "desiredState": {"interfaces": [{"name": "br1", "type": "linux-bridge"}]},
            "onDelete": "revert"
        }),
    );
    cluster.settle(true);
    let granted = cluster.enactments.clone();
    cluster.apply(
        "bad",
        json!({"desiredState": {"interfaces": [{"type": "ethernet", "mtu": 9000}]}}),
    );
    // With a selector that cannot be read it is for no node: that must not make nodes leave it.
    cluster.merge("good", "nodeSelector", json!("worker"));
    cluster.settle(true);
    assert_eq!(
        cluster.enactments, granted,
        "no node gets it, and what nodes have stays"
    );
    let missing = "The policy is refused, and no node gets it: spec.desiredState.interfaces[0].name: is missing: give the interface a name, or let spec.match.interfaces of a policy give it one";
    assert_eq!(cluster.says("bad"), ("Degraded", missing.to_owned()));
    let (phase, message) = cluster.says("good");
    assert_eq!(phase, "Degraded");
    assert!(
        message.starts_with("The policy is refused, and no node gets it: spec: cannot be read: "),
        "{message}"
    );
    // It can be deleted all the same, and is put back.
    cluster.delete("good");
    assert_eq!(cluster.says("good").0, "Progressing");
    cluster.settle(true);
    assert!(
        !cluster.policies.contains_key("good") && cluster.enactments.is_empty(),
        "{:#?}",
        cluster.enactments
    );
}

#[test]
fn another_operator_in_the_way_is_told_first_and_its_own_words_stay() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.apply("p", json!({}));
    let say = |cluster: &Cluster| {
        blocked(
            &Policy::of(&cluster.policies["p"]),
            "OtherOperatorRunning",
            "remove it",
            Timestamp::UNIX_EPOCH,
        )
    };
    let types = |status: &Value| {
        status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["type"].clone())
            .collect::<Vec<_>>()
    };
    let new = say(&cluster).unwrap();
    assert_eq!(types(&new), ["Blocked", "Ready", "Stalled"]);
    assert_eq!(new["observedGeneration"], 1, "kstatus reads the conditions");
    cluster.policies.get_mut("p").unwrap()["status"] = new.clone();
    assert_eq!(say(&cluster), Some(new), "and that is said once");
    cluster.settle(true);
    let known = cluster.status("p");
    assert_eq!(
        types(&known),
        ["Available", "Degraded", "Progressing", "Ignored", "Ready"],
        "it goes with the other operator"
    );
    cluster.policies.get_mut("p").unwrap()["status"] = known;
    assert_eq!(
        types(&say(&cluster).unwrap()),
        [
            "Blocked",
            "Available",
            "Degraded",
            "Progressing",
            "Ignored",
            "Ready",
            "Stalled"
        ]
    );
    let theirs = json!({
        "conditions": [{"type": "Available", "status": "True", "reason": "SuccessfullyConfigured"}]
    });
    cluster.policies.get_mut("p").unwrap()["status"] = theirs;
    assert_eq!(say(&cluster), None);
}

/// The values that were granted with a policy.
fn values(cluster: &Cluster, node: &str) -> Value {
    cluster.enactments[&format!("{node}.p")]["spec"]["granted"]["values"].clone()
}

fn of_role() -> Value {
    json!({"hostname": {"config": "{{ node.name }}-{{ node.labels['role'] }}"}})
}

#[test]
fn a_node_that_lacks_a_label_waits_and_the_others_go_on() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.nodes.get_mut("node-0").unwrap()["metadata"]["labels"] = json!({});
    cluster.apply("p", json!({"maxUnavailable": 1, "desiredState": of_role()}));
    cluster.operate();
    assert_eq!(
        decisions(&cluster, "p"),
        ["Pending", "Granted", "Pending"],
        "a node that lacks a value takes no slot"
    );
    let waits = |cluster: &Cluster, node: &str| {
        cluster.enactments[&format!("{node}.p")]["spec"]["wanted"]["waits"].clone()
    };
    assert_eq!(waits(&cluster, "node-0")["reason"], "WaitingForValue");
    assert_eq!(
        waits(&cluster, "node-2"),
        Value::Null,
        "that of its turn only"
    );
    cluster.settle(true);
    assert_eq!(decisions(&cluster, "p"), ["Pending", "Granted", "Granted"]);
    assert_eq!(
        values(&cluster, "node-1"),
        json!({"name": "node-1", "labels": {"role": "worker"}})
    );
    let status = cluster.status("p");
    let said = |status: &Value, name: &str| {
        let all = status["conditions"].as_array().unwrap();
        all.iter().find(|one| one["type"] == name).cloned()
    };
    let lacking = said(&status, "ValueMissing").unwrap();
    assert_eq!(lacking["reason"], "NodeValueMissing");
    let message = lacking["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "node-0: spec.desiredState.hostname.config: {{ node.labels[\"role\"] }} has no value"
        ) && message.contains("kubectl label node node-0 role=VALUE"),
        "{message}"
    );
    assert_eq!(
        said(&status, "Stalled").unwrap()["reason"],
        "NodeValueMissing"
    );
    assert_eq!(
        cluster.says("p").1,
        "Policy is progressing 2/3 nodes finished"
    );
    cluster.label("node-0", "worker");
    cluster.settle(true);
    assert_eq!(
        cluster.says("p"),
        ("Available", "3/3 nodes successfully configured".into())
    );
    assert_eq!(said(&cluster.status("p"), "ValueMissing"), None);
}

#[test]
fn another_value_is_granted_within_the_limits_and_a_lost_one_is_kept() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.apply("p", json!({"maxUnavailable": 1, "desiredState": of_role()}));
    cluster.settle(true);
    let before = cluster.enactments["node-2.p"].clone();
    cluster.label("node-0", "storage");
    cluster.label("node-1", "storage");
    cluster.operate();
    assert_eq!(
        (
            values(&cluster, "node-0")["labels"]["role"].clone(),
            values(&cluster, "node-1")["labels"]["role"].clone()
        ),
        (json!("storage"), json!("worker")),
        "one node at a time"
    );
    cluster.settle(true);
    assert_eq!(
        values(&cluster, "node-1")["labels"]["role"],
        json!("storage")
    );
    assert_eq!(
        cluster.enactments["node-2.p"], before,
        "nothing changed there"
    );
    cluster.nodes.get_mut("node-2").unwrap()["metadata"]["labels"] = json!({});
    cluster.settle(true);
    let object = &cluster.enactments["node-2.p"]["spec"];
    assert_eq!(object["wanted"]["decision"], "Pending");
    assert_eq!(
        object["granted"], before["spec"]["granted"],
        "it keeps what it has"
    );
}

#[test]
fn a_node_that_failed_with_a_value_gets_another_try_with_the_next_one() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.apply("p", json!({"desiredState": of_role()}));
    cluster.settle(false);
    assert_eq!(cluster.says("p").0, "Degraded");
    cluster.label("node-0", "storage");
    cluster.settle(true);
    assert_eq!(cluster.says("p").0, "Available");
}
