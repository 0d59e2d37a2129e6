//! The state of the policies on a node.

use std::collections::BTreeSet;

use serde_json::Value;

use super::model::{Health, OWN, PolicyState};
use crate::{
    claims::Owner,
    path::text,
    plan::Plan,
    rollout::{Enactment, Policy, progress::Progress},
};

/// The state of a policy that cannot be applied to a node, before an agent has tried it.
pub(super) const REFUSED: &str = "refused";

/// The report of an agent about a policy on its node.
#[derive(Clone, Debug)]
pub struct OnNode {
    /// The name of the policy.
    pub policy: String,
    /// The name of the node.
    pub node: String,
    progress: Progress,
    /// The cause of a failure.
    failure: Option<String>,
    /// The property where it has failed, for example `interfaces[eth1].mtu`.
    pub(super) failed_path: Option<String>,
    /// The message about drift, if the node has drifted.
    drift: Option<String>,
    /// The message about a contradiction, if another policy contradicts it.
    conflict: Option<String>,
}

impl OnNode {
    /// Reads an enactment of a policy. `None` if it does not name its policy and its node, or is of
    /// another policy.
    pub fn read(name: &str, policy: &Policy, object: &Value) -> Option<Self> {
        let enactment = Enactment::of(object).filter(|found| found.policy == name)?;
        let status = &object["status"];
        let message = |wanted: &str| {
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let mut holding =
                conditions.filter(|one| one["type"] == wanted && one["status"] == "True");
            holding.next().map(|one| text(&one["message"]))
        };
        let progress = Progress::of(policy, &enactment);
        let has_failed = progress == Progress::Failed;
        let outcome = &status["outcome"];
        let cause = || {
            let cause = text(&outcome["message"]);
            (!cause.is_empty()).then_some(cause).or(message("Failing"))
        };
        Some(Self {
            policy: enactment.policy,
            node: enactment.node,
            progress,
            failure: has_failed.then(cause).flatten(),
            failed_path: outcome["path"]
                .as_str()
                .filter(|_| has_failed)
                .map(str::to_owned),
            drift: message("Drifted"),
            conflict: message("Conflict"),
        })
    }
}

/// Returns the state of each policy on the node, by name. `differs` reports whether the node
/// differs from the policy, and `removes` whether an apply of it would take something away that is
/// no drift.
pub(super) fn states(
    plan: &Plan,
    reports: &[OnNode],
    differs: impl Fn(&Owner) -> bool,
    removes: impl Fn(&Owner) -> bool,
) -> Vec<PolicyState> {
    let owners = plan.owners.values().flatten().cloned();
    let mut names: Vec<Owner> = owners
        .chain(plan.failed.keys().map(|name| owner(name)))
        .chain(
            reports
                .iter()
                .map(|report| Owner::Policy(report.policy.clone())),
        )
        .collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|owner| {
            let report = reports
                .iter()
                .find(|report| Owner::Policy(report.policy.clone()) == owner);
            state(&owner, report, plan, differs(&owner), removes(&owner))
        })
        .collect()
}

/// The plan names a failed specification of the NodeNetworkState as people read it.
fn owner(name: &str) -> Owner {
    match name == Owner::Node.to_string() {
        true => Owner::Node,
        false => Owner::Policy(name.to_owned()),
    }
}

/// Returns the name of an owner, for people.
pub(super) fn name(owner: &Owner) -> String {
    match owner {
        Owner::Policy(name) => name.clone(),
        Owner::Node => OWN.to_owned(),
    }
}

/// Returns the refusals of the host that concern the interfaces of an owner.
fn refused(plan: &Plan, owner: &Owner) -> Option<String> {
    let owned = plan
        .owners
        .iter()
        .filter(|(_, owners)| owners.contains(owner));
    let keys: BTreeSet<&str> = owned.filter_map(|(path, _)| path.interface()).collect();
    plan.refusals
        .iter()
        .filter(|refusal| {
            keys.iter()
                .any(|key| refusal.starts_with(&format!("interfaces[{key}]")))
        })
        .cloned()
        .reduce(|all, one| format!("{all}; {one}"))
}

fn state(
    owner: &Owner,
    report: Option<&OnNode>,
    plan: &Plan,
    differs: bool,
    removes: bool,
) -> PolicyState {
    let refusal = match owner {
        Owner::Policy(name) => plan.failed.get(name).cloned(),
        Owner::Node => plan.failed.get(&owner.to_string()).cloned(),
    };
    // Where an agent has tried the policy, its words count.
    let refusal = refusal.or_else(|| refused(plan, owner).filter(|_| report.is_none()));
    let failure = report.and_then(|report| report.failure.clone());
    let drift = report.and_then(|report| report.drift.clone());
    let conflicts = plan
        .conflicts
        .iter()
        .filter(|conflict| conflict.concerns(owner));
    let conflict = report.and_then(|report| report.conflict.clone());
    let conflict = conflict.or_else(|| {
        conflicts
            .map(ToString::to_string)
            .reduce(|all, one| format!("{all}; {one}"))
    });
    let progress = report.map(|report| report.progress);
    let (health, state, message) = match (progress, owner) {
        (Some(Progress::Failed), _) => (Health::Failed, "failed", failure),
        _ if conflict.is_some() => (Health::Failed, "in conflict", conflict),
        // A finished policy is judged by the agent, which has its captured states.
        (Some(Progress::Finished), _) if drift.is_some() => (Health::Drift, "drifted", drift),
        (Some(Progress::Finished), _) | (None, Owner::Node) if differs => {
            (Health::Drift, "drifted", None)
        }
        (Some(Progress::Finished), _) => (Health::Good, "applied", None),
        _ if refusal.is_some() => (Health::Failed, REFUSED, refusal),
        (Some(Progress::Progressing), _) => (Health::Pending, "being applied", None),
        (Some(Progress::Waiting), _) => (Health::Pending, "waiting", None),
        (None, Owner::Policy(_)) if differs || removes => {
            (Health::Pending, "not applied yet", None)
        }
        (None, _) => (Health::Good, "nothing differs", None),
    };
    PolicyState {
        name: name(owner),
        health,
        state,
        messages: message
            .into_iter()
            .filter(|message| !message.is_empty())
            .collect(),
    }
}
