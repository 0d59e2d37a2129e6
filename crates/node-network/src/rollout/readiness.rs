//! Which nodes are ready: those that have all policies that are for them.
//!
//! The operator says so in a condition of the Node, and takes the startup taint from a node once it
//! is ready. Both belong to the Node, so they need no memory: what a node says is compared with what
//! it should say.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_api::node_network::{NODE_CONDITION, STARTUP_TAINT};
use weft_operands::text::some;

use super::{
    node_condition::{Readiness, Ready},
    slots::{Action, OnNode, Rollout},
    standing::Standing,
    view::{Node, World},
};

/// The Node as the operator applies it to write the condition. `now` is the time of the write
/// (RFC 3339).
pub fn with_condition(name: &str, node: &Node, readiness: &Readiness, now: &str) -> Value {
    let Readiness {
        status,
        reason,
        message,
    } = readiness;
    let turned = match &node.readiness {
        Some((before, since)) if before.status == *status => since.as_str(),
        _ => now,
    };
    let mut body = without_condition(name, &node.uid);
    body["status"]["conditions"] = json!([{
        "type": NODE_CONDITION, "status": status.as_str(), "reason": reason, "message": message,
        "lastTransitionTime": turned, "lastHeartbeatTime": now
    }]);
    body
}

/// The Node as the operator applies it to remove the condition that it wrote before. The uid keeps
/// the write from another node of that name.
pub fn without_condition(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid}})
}

/// A JSON patch (RFC 6902) that takes the startup taint from a node. The API server refuses it if
/// another client has moved the node's taints meanwhile.
pub fn without_taint(node: &Node) -> Value {
    let test = |path: String, value: &str| json!({"op": "test", "path": path, "value": value});
    let mut patch = vec![test("/metadata/uid".to_owned(), &node.uid)];
    // From the last one: each that goes moves those after it.
    for place in node.startup_taints.iter().rev() {
        patch.push(test(format!("/spec/taints/{place}/key"), STARTUP_TAINT));
        patch.push(json!({"op": "remove", "path": format!("/spec/taints/{place}")}));
    }
    patch.into()
}

/// The writes about the readiness of nodes. Nothing, if all of them say it.
///
/// A node where no agent runs says nothing unless it waits for one: it has the startup taint, or
/// said something before. Once no NMState is there (`is_installed`), it says nothing any more.
pub fn readiness(world: &World, is_installed: bool) -> Vec<Action> {
    let mut tallies: BTreeMap<&str, Tally> = world
        .nodes
        .keys()
        .map(|name| (*name, Tally::default()))
        .collect();
    for (name, policy) in &world.policies {
        if policy.is_deleted {
            continue;
        }
        let rollout = Rollout::of(world, name);
        let known: BTreeMap<&str, &OnNode> = rollout
            .nodes
            .iter()
            .filter(|node| node.is_matched)
            .map(|node| (node.name, node))
            .collect();
        for (node, tally) in &mut tallies {
            if policy.selection.matches(&world.nodes[node].labels) {
                tally.count(name, policy.is_held(), known.get(node).copied());
            }
        }
    }
    let mut actions = Vec::new();
    for (name, tally) in tallies {
        let node = world.nodes[name];
        let has_agent = world.agents.contains(name);
        let says = node.readiness.as_ref().map(|(said, _)| said);
        let waits = is_installed && (says.is_some() || !node.startup_taints.is_empty());
        let wanted = (has_agent || waits).then(|| match world.left_alone.contains(name) {
            true => not_managed(),
            false => tally.readiness(has_agent, is_ready(says)),
        });
        if wanted.as_ref() != says {
            actions.push(Action::Tell {
                node: name.to_owned(),
                readiness: wanted.clone(),
            });
        }
        if is_ready(wanted.as_ref()) && !node.startup_taints.is_empty() {
            actions.push(Action::Untaint {
                node: name.to_owned(),
            });
        }
    }
    actions
}

fn is_ready(said: Option<&Readiness>) -> bool {
    said.is_some_and(|said| said.status == Ready::True)
}

fn not_managed() -> Readiness {
    let message = "policies leave this node alone: see spec.managed and spec.nodeName of its NodeNetworkState";
    Readiness::new(Ready::Unknown, "NotManaged", message)
}

/// The policies that are for a node, by what became of them.
#[derive(Default)]
struct Tally<'a> {
    all: usize,
    failed: Vec<&'a str>,
    refused: Vec<&'a str>,
    disagreeing: Vec<&'a str>,
    aborted: Vec<&'a str>,
    lacking: Vec<&'a str>,
    open: Vec<&'a str>,
}

impl<'a> Tally<'a> {
    /// Counts a policy that is for the node. Its enactment may be going, as that of an earlier node
    /// of this name: then nothing is known yet.
    fn count(&mut self, policy: &'a str, is_refused: bool, on_node: Option<&OnNode>) {
        self.all += 1;
        let disagrees = |node: &OnNode| {
            node.enactment
                .is_some_and(|enactment| enactment.conflict.is_some())
        };
        let list = match on_node.map(|node| (node.standing, node)) {
            Some((Standing::Failed, _)) => &mut self.failed,
            Some((Standing::Done, node)) if disagrees(node) => &mut self.disagreeing,
            Some((Standing::Done, _)) => return,
            _ if is_refused => &mut self.refused,
            Some((Standing::Aborted, _)) => &mut self.aborted,
            Some((_, node)) if node.waits.is_some() => &mut self.lacking,
            Some((Standing::InFlux { .. } | Standing::Waiting, _)) | None => &mut self.open,
        };
        list.push(policy);
    }

    /// A node that was ready stays so while its agent is replaced.
    fn readiness(&self, has_agent: bool, was_ready: bool) -> Readiness {
        let no = |reason, message| Readiness::new(Ready::False, reason, message);
        let lists = [
            (&self.failed, "PolicyFailed", "failed on this node"),
            (
                &self.refused,
                "PolicyRefused",
                "are wrong, and the operator refuses them",
            ),
            (
                &self.disagreeing,
                "PoliciesDisagree",
                "contradict other policies of this node",
            ),
            (
                &self.aborted,
                "PolicyAborted",
                "failed on other nodes, and are not tried on this one",
            ),
            (
                &self.lacking,
                "PolicyWaiting",
                "wait for a value or an address of this node",
            ),
        ];
        for (list, reason, message) in lists {
            if !list.is_empty() {
                return no(reason, format!("these policies {message}: {}", some(list)));
            }
        }
        if !has_agent && (!self.open.is_empty() || self.all == 0 && !was_ready) {
            let message = "no agent runs on this node, so no policy can be applied: see spec.nodeSelector of the NMState, and the pods of the DaemonSet nmstate-handler";
            return no("NoAgent", message.to_owned());
        }
        if !self.open.is_empty() {
            let message = format!("these policies are not applied yet: {}", some(&self.open));
            return no("PolicyPending", message);
        }
        let (reason, message) = match self.all {
            0 => ("NoPolicy", "no policy is for this node".to_owned()),
            1 => (
                "PoliciesApplied",
                "the policy that is for this node is applied".to_owned(),
            ),
            all => (
                "PoliciesApplied",
                format!("all {all} policies that are for this node are applied"),
            ),
        };
        Readiness::new(Ready::True, reason, message)
    }
}
