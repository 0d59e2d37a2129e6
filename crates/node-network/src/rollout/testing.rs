//! A cluster in miniature: objects as the API server keeps them, agents that carry out decisions in
//! their own time, and an operator that may be killed between any two of its writes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use weft_api::node_network::{NODE_CONDITION, NodeValues, STARTUP_TAINT};
use weft_plan::condition;

use super::{
    Action, Addresses, Decision, Enactment, Node, Policy, Wanted, World, addresses, assign, decide,
    limit,
    readiness::readiness,
    status::{Summary, phase},
    view::{FINALIZER, Phase, addresses_of, agent_of, enactment_name, is_left_alone},
};
use crate::addresses::ledger::Ledger;

#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) pods: BTreeMap<String, Value>,
    pub(super) states: BTreeMap<String, Value>,
    pub(super) policies: BTreeMap<String, Value>,
    pub(super) enactments: BTreeMap<String, Value>,
    /// Enactments that agents work on, with their generation at the start.
    pub(super) at_work: BTreeMap<String, i64>,
    pub(super) cap: Option<Value>,
    /// The addresses of pools, and the version of the object that holds them.
    pub(super) ledger: Ledger,
    pub(super) version: usize,
    uids: usize,
}

/// Everything as the operator keeps it.
struct Views {
    policies: BTreeMap<String, Policy>,
    nodes: BTreeMap<String, Node>,
    agents: BTreeSet<String>,
    left_alone: BTreeSet<String>,
    enactments: Vec<Enactment>,
    reported: BTreeMap<String, BTreeSet<IpAddr>>,
    ledger: Ledger,
    cap: Option<k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>,
}

impl Views {
    fn world(&self) -> World<'_> {
        let mut enactments: BTreeMap<&str, BTreeMap<&str, &Enactment>> = BTreeMap::new();
        for enactment in &self.enactments {
            enactments
                .entry(&enactment.policy)
                .or_default()
                .insert(&enactment.node, enactment);
        }
        let mut world = World {
            policies: self
                .policies
                .iter()
                .map(|(name, policy)| (name.as_str(), policy))
                .collect(),
            nodes: self
                .nodes
                .iter()
                .map(|(name, node)| (name.as_str(), node))
                .collect(),
            agents: self.agents.iter().map(String::as_str).collect(),
            left_alone: self.left_alone.iter().map(String::as_str).collect(),
            enactments,
            max_unavailable: self.cap.as_ref(),
            reported: self
                .reported
                .iter()
                .map(|(name, addresses)| (name.as_str(), addresses))
                .collect(),
            addresses: Addresses::default(),
        };
        world.addresses = addresses(&world, Ok(&self.ledger));
        world
    }
}

impl Cluster {
    pub(super) fn with_nodes(count: usize) -> Self {
        let mut cluster = Self {
            cap: Some(json!("100%")),
            ..Self::default()
        };
        (0..count).for_each(|number| cluster.add_node(&format!("node-{number}")));
        cluster
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    pub(super) fn add_node(&mut self, name: &str) {
        if self.nodes.contains_key(name) {
            return;
        }
        let uid = self.uid();
        let node = json!({
            "metadata": {"name": name, "uid": uid, "labels": {"role": "worker"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        });
        self.nodes.insert(name.to_owned(), node);
        self.set_agent(name, true);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.set_agent(name, false);
        let of_node = format!("{name}.");
        self.at_work
            .retain(|enactment, _| !enactment.starts_with(&of_node));
    }

    pub(super) fn set_ready(&mut self, name: &str, ready: bool) {
        if let Some(node) = self.nodes.get_mut(name) {
            node["status"]["conditions"][0]["status"] =
                if ready { "True" } else { "Unknown" }.into();
        }
    }

    pub(super) fn set_agent(&mut self, name: &str, runs: bool) {
        match runs {
            true if self.nodes.contains_key(name) => self.pods.insert(
                name.to_owned(),
                json!({"spec": {"nodeName": name}, "status": {"phase": "Running"}}),
            ),
            _ => self.pods.remove(name),
        };
    }

    /// Sets `spec.managed` of a node's NodeNetworkState, which stays when the node goes.
    pub(super) fn set_managed(&mut self, name: &str, managed: bool) {
        self.states.insert(
            name.to_owned(),
            json!({"metadata": {"name": name}, "spec": {"managed": managed}}),
        );
    }

    fn is_managed(&self, name: &str) -> bool {
        self.states
            .get(name)
            .is_none_or(|state| state["spec"]["managed"] == true)
    }

    /// The nodes where somebody may act.
    fn acting(&self) -> impl Iterator<Item = &String> {
        self.pods.keys().filter(|name| self.is_managed(name))
    }

    pub(super) fn label(&mut self, name: &str, role: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node["metadata"]["labels"]["role"] = role.into();
        }
    }

    /// Creates a policy, or gives it this specification.
    pub(super) fn apply(&mut self, name: &str, spec: Value) {
        let uid = self.uid();
        let policy = self
            .policies
            .entry(name.to_owned())
            .or_insert_with(|| json!({"metadata": {"name": name, "uid": uid, "generation": 0}}));
        if policy["spec"] != spec {
            policy["spec"] = spec;
            policy["metadata"]["generation"] =
                (policy["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
    }

    pub(super) fn merge(&mut self, name: &str, field: &str, value: Value) {
        if let Some(mut spec) = self.policies.get(name).map(|policy| policy["spec"].clone()) {
            spec[field] = value;
            self.apply(name, spec);
        }
    }

    pub(super) fn annotate(&mut self, name: &str, retry: &str) {
        if let Some(policy) = self.policies.get_mut(name) {
            policy["metadata"]["annotations"]["weft.network/retry"] = retry.into();
        }
    }

    pub(super) fn delete(&mut self, name: &str) {
        let Some(policy) = self.policies.get_mut(name) else {
            return;
        };
        if policy["metadata"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            self.policies.remove(name);
        } else if policy["metadata"]["deletionTimestamp"].is_null() {
            policy["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            policy["metadata"]["generation"] =
                (policy["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
    }

    fn views(&self) -> Views {
        Views {
            policies: self
                .policies
                .iter()
                .map(|(name, object)| (name.clone(), Policy::of(object)))
                .collect(),
            nodes: self
                .nodes
                .iter()
                .map(|(name, object)| (name.clone(), Node::of(object)))
                .collect(),
            agents: self.pods.values().filter_map(agent_of).collect(),
            left_alone: self
                .states
                .iter()
                .filter(|(_, state)| is_left_alone(state))
                .map(|(name, _)| name.clone())
                .collect(),
            enactments: self.enactments.values().filter_map(Enactment::of).collect(),
            reported: self
                .states
                .iter()
                .map(|(name, state)| (name.clone(), addresses_of(state)))
                .collect(),
            ledger: self.ledger.clone(),
            cap: self
                .cap
                .clone()
                .and_then(|cap| serde_json::from_value(cap).ok()),
        }
    }

    pub(super) fn actions(&self) -> Vec<Action> {
        decide(&self.views().world())
    }

    /// The ledger that the operator would write now.
    pub(super) fn next_ledger(&self) -> Ledger {
        assign(&self.views().world(), &self.ledger).0
    }

    /// The operator does all that it decides now. Returns how much that was.
    pub(super) fn operate(&mut self) -> usize {
        self.ledger = self.next_ledger();
        let actions = self.actions();
        actions.iter().for_each(|action| self.write(action));
        actions.len()
    }

    /// The operator writes what it has to say about nodes. Returns how much that was.
    pub(super) fn tell(&mut self, is_installed: bool) -> usize {
        let actions = readiness(&self.views().world(), is_installed);
        actions.iter().for_each(|action| self.write(action));
        actions.len()
    }

    /// Status and reason of the condition of a node, and its message.
    pub(super) fn node_says(&self, name: &str) -> Option<(String, String)> {
        let said = condition(&self.nodes[name]["status"], NODE_CONDITION)?;
        let text = |field: &str| said[field].as_str().unwrap().to_owned();
        Some((
            format!("{} {}", text("status"), text("reason")),
            text("message"),
        ))
    }

    /// One write, as the API server carries it out.
    pub(super) fn write(&mut self, action: &Action) {
        match action {
            Action::Keep { policy } => {
                self.policies.get_mut(policy).unwrap()["metadata"]["finalizers"] =
                    json!([FINALIZER])
            }
            Action::Release { policy } => {
                self.policies.get_mut(policy).unwrap()["metadata"]["finalizers"] = json!([]);
                if !self.policies[policy]["metadata"]["deletionTimestamp"].is_null() {
                    self.policies.remove(policy);
                }
            }
            Action::Create {
                policy,
                node,
                wanted,
                values,
            } => {
                let name = enactment_name(policy, node);
                assert!(
                    !self.enactments.contains_key(&name),
                    "{name} is there already"
                );
                let uid = self.uid();
                let owner = json!([
                    {"kind": "Node", "name": node, "uid": self.nodes[node]["metadata"]["uid"]}
                ]);
                let object = json!({
                    "metadata": {
                        "name": name, "uid": uid, "generation": 0, "ownerReferences": owner
                    },
                    "spec": {"policy": policy, "nodeName": node}
                });
                self.enactments.insert(name, object);
                self.change(policy, node, wanted, values.as_ref());
            }
            Action::Change {
                policy,
                node,
                wanted,
                values,
            } => self.change(policy, node, wanted, values.as_ref()),
            Action::Delete { name, uid } => {
                if self
                    .enactments
                    .get(name)
                    .is_some_and(|object| object["metadata"]["uid"] == **uid)
                {
                    self.enactments.remove(name);
                    self.at_work.remove(name);
                }
            }
            Action::Tell { node, readiness } => {
                let conditions = self.nodes.get_mut(node).unwrap()["status"]["conditions"]
                    .as_array_mut()
                    .unwrap();
                conditions.retain(|one| one["type"] != NODE_CONDITION);
                let status = readiness.as_ref().map(|readiness| {
                    json!({
                        "type": NODE_CONDITION, "status": readiness.status.as_str(),
                        "reason": readiness.reason, "message": readiness.message
                    })
                });
                conditions.extend(status);
            }
            Action::Untaint { node } => {
                let taints = self.nodes.get_mut(node).unwrap()["spec"]["taints"]
                    .as_array_mut()
                    .unwrap();
                taints.retain(|taint| taint["key"] != STARTUP_TAINT);
            }
        }
    }

    fn change(&mut self, policy: &str, node: &str, wanted: &Wanted, values: Option<&NodeValues>) {
        let of = &self.policies[policy];
        let (uid, generation, spec) = (
            of["metadata"]["uid"].clone(),
            of["metadata"]["generation"].clone(),
            of["spec"].clone(),
        );
        let object = self
            .enactments
            .get_mut(&enactment_name(policy, node))
            .unwrap();
        let before = object["spec"].clone();
        object["spec"]["policyUid"] = uid;
        object["spec"]["wanted"] = wanted.to_value();
        if wanted.decision == Decision::Granted {
            object["spec"]["granted"] = json!({"generation": generation, "spec": spec});
            if let Some(values) = values {
                object["spec"]["granted"]["values"] = json!(values);
            }
        }
        if object["spec"] != before {
            object["metadata"]["generation"] =
                (object["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
    }

    /// Lets the agent of a node take one step with each of its enactments. The agent begins to
    /// carry out a decision, or ends the change that it has begun.
    pub(super) fn act(&mut self, node: &str, succeeds: bool) {
        if !self.pods.contains_key(node) {
            return;
        }
        let is_managed = self.is_managed(node);
        let of_node = self
            .enactments
            .values_mut()
            .filter(|object| object["spec"]["nodeName"] == node);
        for object in of_node {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let generation = object["metadata"]["generation"].as_i64().unwrap();
            let (phase, observed) = match (
                self.at_work.remove(&name),
                object["spec"]["wanted"]["decision"].as_str().unwrap(),
            ) {
                (Some(began), _) => (
                    if succeeds {
                        Phase::Available
                    } else {
                        Phase::Failing
                    },
                    began,
                ),
                _ if object["status"]["observedGeneration"] == generation || !is_managed => {
                    continue;
                }
                (None, "Granted" | "Revert") => {
                    self.at_work.insert(name, generation);
                    (Phase::Progressing, generation)
                }
                (None, "Pending") => (Phase::Pending, generation),
                (None, _) => (Phase::Aborted, generation),
            };
            let condition = json!({"type": phase.as_str(), "status": "True", "message": "as told"});
            object["status"] = json!({"observedGeneration": observed, "conditions": [condition]});
        }
    }

    /// The agent of a node says that another policy contradicts this one there.
    pub(super) fn contradict(&mut self, policy: &str, node: &str, message: &str) {
        let conditions = &mut self
            .enactments
            .get_mut(&enactment_name(policy, node))
            .unwrap()["status"]["conditions"];
        conditions
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "Conflict", "status": "True", "message": message}));
    }

    /// Everybody goes on until nothing is left to do. Fails if that never comes.
    pub(super) fn settle(&mut self, succeeds: bool) {
        for _ in 0..500 {
            let before = (self.enactments.clone(), self.policies.clone());
            self.operate();
            for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
                self.act(&node, succeeds);
            }
            if before == (self.enactments.clone(), self.policies.clone()) {
                assert!(
                    self.actions().is_empty(),
                    "what is decided is not done: {:#?}",
                    self.actions()
                );
                return;
            }
        }
        panic!("it never ends: {self:#?}");
    }

    /// Returns the nodes that are really being changed for a policy, or for any policy. Such a node
    /// has the permission and has not ended, or is at work. Nodes that are away or unmanaged do not
    /// count.
    pub(super) fn under_change(&self, policy: Option<&str>) -> BTreeSet<String> {
        let object_is = |(name, object): (&String, &Value)| {
            let told = ["Granted", "Revert"]
                .iter()
                .any(|decision| object["spec"]["wanted"]["decision"] == *decision);
            let ended = ["Available", "Failing"]
                .iter()
                .any(|phase| object["status"]["conditions"][0]["type"] == *phase);
            let has_said =
                ended && object["status"]["observedGeneration"] == object["metadata"]["generation"];
            told && !has_said || self.at_work.contains_key(name)
        };
        let of_policy =
            |object: &Value| policy.is_none_or(|policy| object["spec"]["policy"] == policy);
        let nodes = self
            .enactments
            .iter()
            .filter(|(_, object)| of_policy(object))
            .filter(|entry| object_is(*entry));
        let nodes =
            nodes.map(|(_, object)| object["spec"]["nodeName"].as_str().unwrap().to_owned());
        let nodes = nodes.filter(|node| self.is_managed(node));
        nodes
            .filter(|node| {
                self.nodes
                    .get(node)
                    .is_some_and(|node| node["status"]["conditions"][0]["status"] == "True")
            })
            .collect()
    }

    fn is_for(&self, policy: &Value, node: &Value) -> bool {
        let selector = &policy["spec"]["nodeSelector"];
        policy["metadata"]["deletionTimestamp"].is_null()
            && (selector.is_null() || selector["role"] == node["metadata"]["labels"]["role"])
    }

    /// The nodes where a policy has failed in its generation, and those that have failed to leave
    /// it.
    pub(super) fn failed(&self, policy: &str) -> BTreeSet<String> {
        let generation = &self.policies[policy]["metadata"]["generation"];
        let retry = &self.policies[policy]["metadata"]["annotations"]["weft.network/retry"];
        let is_for = |object: &Value| {
            // A failure is gone with its node, also if there is another node of that name.
            let node = self
                .nodes
                .get(object["spec"]["nodeName"].as_str().unwrap())?;
            let is_same =
                object["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"];
            is_same.then(|| self.is_for(&self.policies[policy], node))
        };
        let has_failed = |object: &&Value| {
            // A node that failed to revert, and that the policy selects again, waits for a new
            // decision like any other, so its failure does not count.
            let counts = match object["spec"]["wanted"]["decision"] == "Revert" {
                true => is_for(object) == Some(false),
                // Generations begin anew with a policy that is recreated.
                false => {
                    object["spec"]["wanted"]["generation"] == *generation
                        && object["spec"]["policyUid"] == self.policies[policy]["metadata"]["uid"]
                        && is_for(object) == Some(true)
                }
            };
            object["spec"]["policy"] == policy
                && object["status"]["conditions"][0]["type"] == "Failing"
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && counts
                && (retry.is_null() || object["spec"]["wanted"]["retry"] == *retry)
        };
        let nodes = self
            .enactments
            .values()
            .filter(has_failed)
            .map(|object| object["spec"]["nodeName"].as_str().unwrap().to_owned());
        nodes.filter(|node| self.is_managed(node)).collect()
    }

    /// How many nodes a policy may change, counted plainly.
    pub(super) fn limit(&self, policy: &str) -> usize {
        let object = &self.policies[policy];
        let is_deleted = !object["metadata"]["deletionTimestamp"].is_null();
        let is_for = |name: &String, node: &Value| match is_deleted {
            true => self.enactments.contains_key(&enactment_name(policy, name)),
            false => self.is_for(object, node),
        };
        let nodes = self
            .acting()
            .filter(|name| self.nodes.get(*name).is_some_and(|node| is_for(name, node)))
            .count();
        limit::scaled(
            serde_json::from_value(object["spec"]["maxUnavailable"].clone())
                .ok()
                .as_ref(),
            nodes,
        )
    }

    pub(super) fn cap(&self) -> usize {
        limit::scaled(
            self.cap
                .clone()
                .and_then(|cap| serde_json::from_value(cap).ok())
                .as_ref(),
            self.acting().count(),
        )
    }

    pub(super) fn status(&self, policy: &str) -> Value {
        let views = self.views();
        let summary = Summary::of(&views.world(), policy);
        summary.status(
            self.policies[policy]["metadata"]["generation"]
                .as_i64()
                .unwrap(),
            &self.policies[policy]["status"],
            Timestamp::UNIX_EPOCH,
        )
    }

    /// The condition of a policy that is True, and its message.
    pub(super) fn says(&self, policy: &str) -> (&'static str, String) {
        let status = self.status(policy);
        let phase = phase(&status);
        let condition = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["type"] == phase);
        (
            phase,
            condition
                .map(|one| one["message"].as_str().unwrap_or_default().to_owned())
                .unwrap_or_default(),
        )
    }

    /// The decisions about a policy: node, decision.
    pub(super) fn decisions(&self, policy: &str) -> BTreeMap<String, String> {
        let of_policy = self
            .enactments
            .values()
            .filter(|object| object["spec"]["policy"] == policy);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        of_policy
            .map(|object| {
                (
                    text(&object["spec"]["nodeName"]),
                    text(&object["spec"]["wanted"]["decision"]),
                )
            })
            .collect()
    }

    /// How many enactments of a policy have this decision.
    pub(super) fn count(&self, policy: &str, decision: Decision) -> usize {
        self.decisions(policy)
            .values()
            .filter(|said| *said == decision.as_str())
            .count()
    }
}
