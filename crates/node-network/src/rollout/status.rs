//! The policy's report about its rollout, in the words of kubernetes-nmstate, because people and
//! tools wait for them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weft_api::node_network::{PoolAddress, Waits};
use weft_operands::text::some;
use weft_plan::{
    dropped, escape,
    health::{self, Cause, Health},
};

use super::{
    slots::{OnNode, Rollout},
    standing::Standing,
    view::{CONFLICT, Policy, World},
};
use crate::values::VALUE;

/// Where a rollout stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The mistake in the policy.
    refusal: Option<String>,
    /// The policy is being deleted, and these nodes still have something of it.
    leaving: Option<Leaving>,
    /// Nodes that it is for and that run an agent, or ran one for it.
    matching: usize,
    /// Those of them that are Ready.
    ready: usize,
    /// Nodes that it is for and that are to be left alone.
    left_alone: usize,
    /// Those of the Ready ones that are done.
    finished: usize,
    /// Nodes that are done.
    available: usize,
    /// Nodes where it has failed.
    failed: usize,
    /// Nodes where it is not tried, since it has failed elsewhere.
    aborted: usize,
    /// Nodes that hold a slot.
    unavailable: usize,
    /// Nodes that hold a slot and that nothing can be heard of.
    lost: Vec<String>,
    /// The first failure: node, what its agent says.
    failure: Option<(String, String)>,
    /// On how many nodes another policy contradicts it. Of the first the name, and what its agent
    /// says.
    conflict: Option<(usize, String, String)>,
    /// On how many nodes a value is missing. Of the first the name, and the value.
    lacking: Option<(usize, String, Waits)>,
    /// On how many nodes something is wrong with an address. Of the first the name, the reason and
    /// the words.
    troubled: Option<(usize, String, &'static str, String)>,
    /// The addresses of nodes.
    addresses: Vec<Value>,
    /// The failed write of the operator.
    trouble: Option<String>,
    /// The notice about fields that the API server drops.
    dropped: Option<String>,
}

/// Nodes that put back what a policy changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Leaving {
    left: usize,
    failed: usize,
    /// The nodes that are not Ready or run no agent, and so cannot act on a decision.
    out_of_reach: Vec<String>,
}

impl Summary {
    /// Where the rollout of this policy stands.
    pub fn of<'a>(world: &World<'a>, name: &'a str) -> Self {
        let policy = world.policies[name];
        let address = |(node, pool, address): (&str, &str, &PoolAddress)| {
            json!({
                "node": node, "pool": pool, "ip": address.ip,
                "prefixLength": address.prefix_length
            })
        };
        let mut problems = world.addresses.problems_of(name);
        let first = problems.next();
        Self {
            troubled: first.map(|(node, problem)| {
                let count = 1 + problems.count();
                let message = problem.message.clone();
                (count, node.to_owned(), problem.reason, message)
            }),
            addresses: world
                .addresses
                .of_policy(&policy.uid)
                .map(address)
                .collect(),
            ..Self::summarize(policy, &Rollout::of(world, name))
        }
    }

    fn summarize(policy: &Policy, rollout: &Rollout) -> Self {
        let matched = || rollout.nodes.iter().filter(|node| node.is_matched);
        let count = |standing: Standing| matched().filter(|node| node.standing == standing).count();
        let ready = || rollout.matching().filter(|node| node.node.is_ready);
        let of_interest = |node: &&OnNode| node.is_matched || policy.is_deleted;
        let failure = rollout
            .nodes
            .iter()
            .filter(of_interest)
            .find(|node| node.standing == Standing::Failed)
            .map(|node| {
                (
                    node.name.to_owned(),
                    node.enactment
                        .and_then(|enactment| enactment.failure.clone())
                        .unwrap_or_default(),
                )
            });
        let cannot_act = |node: &&OnNode| !(node.node.is_ready && node.runs_agent);
        let names = |nodes: &mut dyn Iterator<Item = &OnNode>| {
            nodes.map(|node| node.name.to_owned()).collect::<Vec<_>>()
        };
        Self {
            refusal: policy.refusal.clone(),
            leaving: policy.is_deleted.then(|| Leaving {
                left: rollout.leaving().count(),
                failed: rollout
                    .leaving()
                    .filter(|node| node.standing == Standing::Failed)
                    .count(),
                out_of_reach: names(&mut rollout.leaving().filter(cannot_act)),
            }),
            matching: rollout.matching().count(),
            ready: ready().count(),
            left_alone: matched().filter(|node| node.is_left_alone).count(),
            finished: ready()
                .filter(|node| node.standing == Standing::Done)
                .count(),
            available: count(Standing::Done),
            failed: count(Standing::Failed),
            aborted: count(Standing::Aborted),
            unavailable: rollout
                .nodes
                .iter()
                .filter(|node| node.holds_slot())
                .count(),
            lost: names(
                &mut rollout
                    .nodes
                    .iter()
                    .filter(|node| node.holds_slot() && node.standing != Standing::Failed)
                    .filter(cannot_act),
            ),
            failure,
            conflict: conflict(rollout),
            lacking: lacking(rollout),
            troubled: None,
            addresses: Vec::new(),
            trouble: None,
            dropped: None,
        }
    }

    /// The same, where the operator could not write something.
    #[must_use]
    pub fn with_trouble(self, trouble: Option<String>) -> Self {
        Self { trouble, ..self }
    }

    /// The same, where the API server drops fields of policies, with the notice about them.
    #[must_use]
    pub fn with_dropped(self, dropped: Option<String>) -> Self {
        Self { dropped, ..self }
    }

    /// Returns the verdict, which also shows if the rollout continues.
    fn verdict(&self) -> Verdict {
        if let Some(leaving) = &self.leaving {
            return leaving.verdict();
        }
        if let Some(refusal) = &self.refusal {
            return Verdict::Failed(format!(
                "The policy is refused, and no node gets it: {refusal}"
            ));
        }
        let Self {
            matching,
            ready,
            left_alone,
            finished,
            available,
            failed,
            aborted,
            ..
        } = self;
        let mut ignored = String::new();
        if matching > ready {
            ignored = format!(", {} nodes ignored due to NotReady state", matching - ready);
        }
        if *left_alone > 0 {
            ignored += &format!(", {left_alone} nodes ignored that are not managed");
        }
        if *failed > 0 || *aborted > 0 {
            let others = if *aborted > 0 {
                format!(", {aborted} nodes aborted configuration")
            } else {
                String::new()
            };
            Verdict::Failed(format!(
                "{failed}/{matching} nodes failed to configure{others}"
            ))
        } else if *matching == 0 {
            Verdict::NotMatching(format!("Policy does not match any node{ignored}"))
        } else if finished < ready {
            let lost = match &self.lost[..] {
                [] => String::new(),
                lost => format!(
                    "; not heard of since their change began or was granted: {}",
                    some(lost)
                ),
            };
            let trouble = self
                .trouble
                .as_ref()
                .map(|trouble| format!("; {trouble}"))
                .unwrap_or_default();
            Verdict::Progressing(format!(
                "Policy is progressing {finished}/{ready} nodes finished{ignored}{lost}{trouble}"
            ))
        } else {
            Verdict::Available(format!(
                "{available}/{matching} nodes successfully configured{ignored}"
            ))
        }
    }

    /// The first node where it has failed, and what its agent says. Of what was granted before it
    /// was refused nothing.
    pub fn failure(&self) -> Option<(&str, &str)> {
        self.failure
            .as_ref()
            .filter(|_| self.refusal.is_none())
            .map(|(node, message)| (node.as_str(), message.as_str()))
    }

    /// The status of a policy. Foreign values in `previous` stay. An unchanged condition stays with
    /// its times.
    pub fn status(&self, generation: i64, previous: &Value, now: Timestamp) -> Value {
        let verdict = self.verdict();
        let is_leaving = self.leaving.is_some();
        let mut status = previous.as_object().cloned().unwrap_or_default();
        status.insert("observedGeneration".to_owned(), generation.into());
        let conflict = self.conflict.as_ref().filter(|_| !is_leaving);
        let conflict = conflict.map(|(count, node, message)| on_nodes(*count, node, message));
        let lacking = self.lacking.as_ref().filter(|_| !is_leaving);
        let lacking = lacking.map(|(count, node, waits)| on_nodes(*count, node, &waits.message));
        // The last one, and there only while it holds: `kubectl get` shows the first that is True.
        let conflict = conflict.as_ref().map(|message| Said {
            name: CONFLICT,
            status: "True",
            reason: DISAGREE,
            message,
        });
        let lacking = lacking.as_ref().map(|message| Said {
            name: LACKING,
            status: "True",
            reason: MISSING,
            message,
        });
        let troubled = self.troubled.as_ref().filter(|_| !is_leaving);
        let troubled = troubled
            .map(|(count, node, reason, message)| (*reason, on_nodes(*count, node, message)));
        let troubled = troubled.as_ref().map(|(reason, message)| Said {
            name: ADDRESS_PROBLEM,
            status: "True",
            reason,
            message,
        });
        let lost = self.dropped.as_ref().filter(|_| !is_leaving);
        let lost = lost.map(|message| Said {
            name: dropped::CONDITION,
            status: "True",
            reason: dropped::REASON,
            message,
        });
        let obstacle = [&conflict, &lacking, &troubled, &lost]
            .into_iter()
            .find_map(Option::as_ref);
        let health = verdict.health(obstacle);
        let conditions = verdict
            .conditions()
            .into_iter()
            .chain(conflict)
            .chain(lacking)
            .chain(troubled)
            .chain(lost)
            .chain(of_health(&health));
        let conditions: Vec<_> = conditions
            .map(|condition| condition.value(generation, &previous["conditions"], now))
            .collect();
        status.insert("conditions".to_owned(), conditions.into());
        match self.addresses.is_empty() {
            true => status.remove("addresses"),
            false => status.insert("addresses".to_owned(), self.addresses.clone().into()),
        };
        // As kubernetes-nmstate counts its slots. Here nobody reads it again.
        let counts = match &verdict {
            Verdict::Available(_) | Verdict::NotMatching(_) => Map::new(),
            _ if self.unavailable == 0 => Map::new(),
            _ => Map::from_iter([(generation.to_string(), json!(self.unavailable))]),
        };
        match counts.is_empty() {
            true => status.remove("unavailableNodeCountMap"),
            false => status.insert("unavailableNodeCountMap".to_owned(), counts.into()),
        };
        status.into()
    }
}

impl Leaving {
    fn verdict(&self) -> Verdict {
        let Self {
            left,
            failed,
            out_of_reach,
        } = self;
        let way_out =
            "To delete the policy and keep what it changed there, set spec.onDelete to retain";
        match (failed, &out_of_reach[..]) {
            (0, []) => Verdict::Progressing(format!(
                "The policy is being deleted: {left} nodes have yet to put back what it changed"
            )),
            (0, names) => Verdict::Progressing(format!(
                "The policy is being deleted: {left} nodes have yet to put back what it changed; not Ready or without an agent: {}. {way_out}",
                some(names)
            )),
            _ => Verdict::Failed(format!(
                "The policy is being deleted: {failed}/{left} nodes failed to put back what it changed. {way_out}"
            )),
        }
    }
}

/// Where another policy contradicts it, as the agents of its nodes say: both policies of a
/// contradiction get to know of it.
fn conflict(rollout: &Rollout) -> Option<(usize, String, String)> {
    let told = |node: &OnNode| {
        let message = node
            .enactment?
            .conflict
            .clone()
            .filter(|_| node.is_matched && !node.is_left_alone)?;
        Some((node.name.to_owned(), message))
    };
    let mut all = rollout.nodes.iter().filter_map(told);
    let (node, message) = all.next()?;
    Some((1 + all.count(), node, message))
}

/// The values that nodes lack for this policy.
fn lacking(rollout: &Rollout) -> Option<(usize, String, Waits)> {
    let mut all = rollout
        .matching()
        .filter(|node| !node.is_left_alone)
        .filter_map(|node| Some((node.name.to_owned(), node.waits.clone()?)))
        .filter(|(_, waits)| waits.reason == VALUE);
    let (node, waits) = all.next()?;
    Some((1 + all.count(), node, waits))
}

/// The message of one of these nodes.
fn on_nodes(count: usize, node: &str, message: &str) -> String {
    match count {
        0 | 1 => format!("{node}: {message}"),
        _ => format!("{node}: {message}; and on {} more nodes", count - 1),
    }
}

/// The verdict about a policy.
enum Verdict {
    NotMatching(String),
    Failed(String),
    Progressing(String),
    Available(String),
}

/// A condition without times.
struct Said<'a> {
    name: &'static str,
    status: &'static str,
    reason: &'a str,
    message: &'a str,
}

const PROGRESSING: &str = "ConfigurationProgressing";
const FAILED: &str = "FailedToConfigure";
const CONFIGURED: &str = "SuccessfullyConfigured";
const NO_NODE: &str = "NoMatchingNode";
const DISAGREE: &str = "PoliciesDisagree";
/// The condition of a policy that refers to a value which a node lacks.
const LACKING: &str = "ValueMissing";
const MISSING: &str = "NodeValueMissing";
/// The condition of a policy whose pools have no address for a node, or one of another host.
const ADDRESS_PROBLEM: &str = "AddressProblem";

impl Verdict {
    fn conditions(&self) -> [Said<'_>; 4] {
        let said = |name, status, reason, message| Said {
            name,
            status,
            reason,
            message,
        };
        let (available, degraded, progressing, ignored) =
            ("Available", "Degraded", "Progressing", "Ignored");
        match self {
            Self::NotMatching(message) => [
                said(available, "False", NO_NODE, ""),
                said(degraded, "False", NO_NODE, ""),
                said(progressing, "False", PROGRESSING, ""),
                said(ignored, "True", NO_NODE, message),
            ],
            Self::Failed(message) => [
                said(available, "False", FAILED, ""),
                said(degraded, "True", FAILED, message),
                said(progressing, "False", PROGRESSING, ""),
                said(ignored, "False", FAILED, ""),
            ],
            Self::Progressing(message) => [
                said(available, "Unknown", PROGRESSING, ""),
                said(degraded, "Unknown", PROGRESSING, ""),
                said(progressing, "True", PROGRESSING, message),
                said(ignored, "False", PROGRESSING, ""),
            ],
            Self::Available(message) => [
                said(available, "True", CONFIGURED, message),
                said(degraded, "False", CONFIGURED, ""),
                said(progressing, "False", PROGRESSING, ""),
                said(ignored, "False", CONFIGURED, ""),
            ],
        }
    }
}

impl Verdict {
    /// Returns the verdict for kstatus. A policy that matches no node is done. A contradiction or a
    /// missing value waits for a person, whatever the nodes have.
    fn health(&self, obstacle: Option<&Said<'_>>) -> Health {
        let cause = |reason: &str, message: &str| Cause {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        match (self, obstacle) {
            (Self::Failed(message), _) => Health::Stalled(cause(FAILED, message)),
            (_, Some(obstacle)) => Health::Stalled(cause(obstacle.reason, obstacle.message)),
            (Self::NotMatching(message), None) => Health::Ready(cause(NO_NODE, message)),
            (Self::Progressing(message), None) => Health::Reconciling(cause(PROGRESSING, message)),
            (Self::Available(message), None) => Health::Ready(cause(CONFIGURED, message)),
        }
    }
}

/// The conditions that kstatus reads. They come last, since `kubectl get` shows the first condition
/// that is True.
fn of_health(health: &Health) -> impl Iterator<Item = Said<'_>> {
    health
        .conditions()
        .into_iter()
        .map(|(name, status, cause)| Said {
            name,
            status,
            reason: &cause.reason,
            message: &cause.message,
        })
}

impl Said<'_> {
    fn value(&self, generation: i64, previous: &Value, now: Timestamp) -> Value {
        let before = previous
            .as_array()
            .into_iter()
            .flatten()
            .find(|before| before["type"] == self.name);
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut condition = json!({"type": self.name, "status": self.status, "reason": self.reason, "observedGeneration": generation,
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        if !self.message.is_empty() {
            condition["message"] = escape::text(self.message).into();
        }
        let Some(before) = before else {
            return condition;
        };
        if before["status"] == self.status && before["lastTransitionTime"].is_string() {
            condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
            // Of the last change of anything in it: a time alone is no news.
            let same = |field: &str| {
                before[field].as_str().unwrap_or_default()
                    == condition[field].as_str().unwrap_or_default()
            };
            // A definition without the field drops the generation, which is no news either.
            let observed = &before["observedGeneration"];
            if same("reason") && same("message") && (observed.is_null() || *observed == generation)
            {
                let mut kept = before.clone();
                kept["observedGeneration"] = generation.into();
                return kept;
            }
        }
        condition
    }
}

/// The status of a policy while the operator that Weft replaces is still there: what it said stays,
/// and this comes first, since `kubectl get` shows the first condition that is True. `None` where
/// that operator speaks: it knows no `observedGeneration`, and goes on writing its own.
pub fn blocked(
    policy: &Policy,
    reason: &'static str,
    message: &str,
    now: Timestamp,
) -> Option<Value> {
    let before = policy.status["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    // The definition has -1 as the default of a status that nobody has written.
    let is_ours = policy.status["observedGeneration"]
        .as_i64()
        .is_some_and(|observed| observed >= 0)
        || before.iter().all(|one| one["type"] == BLOCKED)
        // The definition may drop the generation. Nobody else writes this condition.
        || before.iter().any(|one| one["type"] == dropped::CONDITION);
    if !is_ours {
        return None;
    }
    let said = Said {
        name: BLOCKED,
        status: "True",
        reason,
        message,
    };
    let blocked = said.value(policy.generation, &policy.status["conditions"], now);
    let is_kept = |one: &Value| {
        one["type"] != BLOCKED && !health::TYPES.iter().any(|name| one["type"] == **name)
    };
    let others = before.into_iter().filter(is_kept);
    let health = Health::Unknown(Cause {
        reason: reason.to_owned(),
        message: message.to_owned(),
    });
    let health = of_health(&health)
        .map(|said| said.value(policy.generation, &policy.status["conditions"], now));
    let mut status = policy.status.as_object().cloned().unwrap_or_default();
    status.insert(
        "conditions".to_owned(),
        std::iter::once(blocked)
            .chain(others)
            .chain(health)
            .collect(),
    );
    // kstatus reads conditions only of the latest generation.
    status.insert("observedGeneration".to_owned(), policy.generation.into());
    Some(status.into())
}

const BLOCKED: &str = "Blocked";

/// The condition types of a policy, and `Unknown` if none of them is True.
pub const PHASES: [&str; 5] = ["Available", "Degraded", "Progressing", "Ignored", "Unknown"];

/// The type of the condition that is True. `Unknown` if there is none.
pub fn phase(status: &Value) -> &'static str {
    let conditions = status["conditions"].as_array();
    let holds = |name: &&str| {
        conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == *name && one["status"] == "True")
    };
    PHASES.into_iter().find(holds).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_that_the_api_server_drops_is_no_news() {
        let lost = [
            "status.conditions[].observedGeneration",
            "status.observedGeneration",
        ]
        .map(str::to_owned);
        let summary = Summary::default().with_dropped(Some("fields get lost".to_owned()));
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let stored = dropped::of_status(summary.status(3, &Value::Null, at(1)), &lost);
        let again = dropped::of_status(summary.status(3, &stored, at(60)), &lost);
        assert_eq!(again, stored);
        let conditions = |name: &str| {
            let all = stored["conditions"].as_array().into_iter().flatten();
            all.filter(|one| one["type"] == name)
                .map(|one| (one["status"].clone(), one["message"].clone()))
                .collect::<Vec<_>>()
        };
        let lost = vec![(json!("True"), json!("fields get lost"))];
        assert_eq!(
            (conditions("FieldsDropped"), conditions("Stalled")),
            (lost.clone(), lost)
        );
    }
}
