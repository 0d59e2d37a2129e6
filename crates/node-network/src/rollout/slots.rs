//! The next writes.

use std::collections::BTreeSet;

use weft_api::node_network::{NodeValues, Waits};

use super::{
    limit,
    node_condition::Readiness,
    standing::{Standing, holds, is_in_flux},
    view::{Decision, Enactment, Node, Phase, Policy, Wanted, World},
};
use crate::values::{ADDRESS, Source};

/// Something to write. Each can be done, or not done, without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the finalizer on a policy that is to be reverted when it goes. Nothing is granted
    /// before.
    Keep {
        /// The policy.
        policy: String,
    },
    /// Take the finalizer away: nothing is left to be reverted.
    Release {
        /// The policy.
        policy: String,
    },
    /// Make an enactment. If it is granted, with the policy's specification.
    Create {
        /// The policy.
        policy: String,
        /// The node.
        node: String,
        /// The decision.
        wanted: Wanted,
        /// The values of the node that are granted with it.
        values: Option<NodeValues>,
    },
    /// Decide anew. If it is granted, with the policy's specification, else what was granted before
    /// stays.
    Change {
        /// The policy.
        policy: String,
        /// The node.
        node: String,
        /// The decision.
        wanted: Wanted,
        /// The values of the node that are granted with it.
        values: Option<NodeValues>,
    },
    /// Delete an enactment.
    Delete {
        /// Its name.
        name: String,
        /// Its uid: another one of that name stays.
        uid: String,
    },
    /// Write the condition of a node.
    Tell {
        /// The node.
        node: String,
        /// The condition. `None` if it is to go.
        readiness: Option<Readiness>,
    },
    /// Take the startup taint from a node.
    Untaint {
        /// The node.
        node: String,
    },
}

/// The next writes. Nothing, if all is decided: then only news from agents, nodes or users lead on.
///
/// A slot of a policy is held by a node that is being changed for it, and by one that has failed. A
/// slot of the cluster by each node that is being changed. Nobody keeps count of them: they are
/// counted, here, each time.
pub fn decide(world: &World) -> Vec<Action> {
    let mut actions = Vec::new();
    for (policy, enactments) in &world.enactments {
        let gone = |enactment: &&&Enactment| {
            !world.policies.contains_key(policy) || is_orphan(world, enactment)
        };
        actions.extend(
            enactments
                .values()
                .filter(gone)
                .filter_map(|enactment| delete(enactment)),
        );
    }
    let rollouts: Vec<_> = in_order(world)
        .into_iter()
        .map(|name| Rollout::of(world, name))
        .collect();
    let mut slots = Slots::of(world, &rollouts);
    rollouts
        .iter()
        .for_each(|rollout| rollout.take_back(&mut actions));
    for rollout in rollouts.iter().filter(|rollout| !rollout.policy.is_held()) {
        rollout.finalizer(&mut actions);
        slots.open(rollout);
        rollout.leave(&mut slots, &mut actions);
        rollout.go_on(&mut slots, &mut actions);
    }
    actions
}

/// Its node is gone, or another one of that name.
fn is_orphan(world: &World, enactment: &Enactment) -> bool {
    world.nodes.get(enactment.node.as_str()).is_none_or(|node| {
        enactment
            .node_uid
            .as_ref()
            .is_some_and(|uid| *uid != node.uid)
    })
}

fn delete(enactment: &Enactment) -> Option<Action> {
    (!enactment.is_deleted).then(|| Action::Delete {
        name: enactment.name.clone(),
        uid: enactment.uid.clone(),
    })
}

/// The policies: greater priority first, then by name.
fn in_order<'a>(world: &World<'a>) -> Vec<&'a str> {
    let mut names: Vec<_> = world.policies.keys().copied().collect();
    // Stable: equal ones stay in the order of their names.
    names.sort_by_key(|name| std::cmp::Reverse(world.policies[name].priority));
    names
}

/// The slots of the cluster, and of the policy at hand.
struct Slots<'a> {
    /// Nodes that are being changed.
    busy: BTreeSet<&'a str>,
    limit: usize,
    /// Nodes that hold a slot of the policy.
    held: BTreeSet<&'a str>,
    limit_of_policy: usize,
}

impl<'a> Slots<'a> {
    fn of(world: &World<'a>, rollouts: &[Rollout<'a>]) -> Self {
        let busy = rollouts
            .iter()
            .flat_map(|rollout| &rollout.nodes)
            .filter(|node| node.is_busy())
            .map(|node| node.name);
        // An agent may be at work for a policy that is gone, until its enactment is.
        let orphaned = world
            .enactments
            .iter()
            .filter(|(policy, _)| !world.policies.contains_key(*policy))
            .flat_map(|(_, all)| all);
        let orphaned = orphaned.filter(|(node, _)| !world.left_alone.contains(*node));
        let orphaned = orphaned.filter(|(node, enactment)| {
            is_in_flux(enactment) && holds(world.nodes.get(*node).copied(), enactment)
        });
        let limit = limit::scaled(
            world.max_unavailable,
            world.agents.difference(&world.left_alone).count(),
        );
        Self {
            busy: busy.chain(orphaned.map(|(node, _)| *node)).collect(),
            limit,
            held: BTreeSet::new(),
            limit_of_policy: 0,
        }
    }

    /// The next policy.
    fn open(&mut self, rollout: &Rollout<'a>) {
        self.held = rollout
            .nodes
            .iter()
            .filter(|node| node.holds_slot())
            .map(|node| node.name)
            .collect();
        self.limit_of_policy = rollout.limit();
    }

    /// Takes the slots that a change of this node needs, if they are free. One that it has costs no
    /// other. Over a limit, nothing is begun at all.
    fn take(&mut self, node: &'a str) -> bool {
        let fits =
            |held: &BTreeSet<&str>, limit| held.len() + usize::from(!held.contains(node)) <= limit;
        let taken = fits(&self.held, self.limit_of_policy) && fits(&self.busy, self.limit);
        if taken {
            self.held.insert(node);
            self.busy.insert(node);
        }
        taken
    }
}

/// A policy and the nodes that it concerns.
pub(super) struct Rollout<'a> {
    name: &'a str,
    policy: &'a Policy,
    pub(super) nodes: Vec<OnNode<'a>>,
}

/// A policy on a node.
pub(super) struct OnNode<'a> {
    pub(super) name: &'a str,
    pub(super) node: &'a Node,
    /// An agent runs there that may act.
    pub(super) runs_agent: bool,
    /// Nobody may act there. The node holds nothing up, and Weft ignores its earlier decision and
    /// report.
    pub(super) is_left_alone: bool,
    /// The policy is for this node. Else the node is to leave it.
    pub(super) is_matched: bool,
    pub(super) enactment: Option<&'a Enactment>,
    pub(super) standing: Standing,
    /// The values of the node that the policy refers to. `None` if it refers to none.
    values: Option<NodeValues>,
    /// The value that it lacks. Until it has it, nothing is granted there.
    pub(super) waits: Option<Waits>,
}

impl OnNode<'_> {
    /// It is being changed, and counts as unavailable.
    fn is_busy(&self) -> bool {
        matches!(self.standing, Standing::InFlux { .. })
            && self
                .enactment
                .is_some_and(|enactment| holds(Some(self.node), enactment))
    }

    /// It holds a slot of the policy. A failure does until there is a newer generation or another
    /// try, so that the rest is aborted.
    pub(super) fn holds_slot(&self) -> bool {
        self.is_busy() || self.standing == Standing::Failed
    }

    /// Returns true if the node has the permission to change, and its agent has gone without having
    /// begun.
    fn is_forsaken(&self) -> bool {
        let untouched = |enactment: &Enactment| {
            let is_of_another_node = enactment
                .node_uid
                .as_ref()
                .is_some_and(|uid| *uid != self.node.uid);
            enactment.phase != Phase::Progressing && !enactment.is_deleted && !is_of_another_node
        };
        matches!(self.standing, Standing::InFlux { .. })
            && !self.runs_agent
            && self.enactment.is_some_and(untouched)
    }

    /// Returns true if the node is Ready and an agent there carries out decisions.
    fn can_act(&self) -> bool {
        self.node.is_ready && self.runs_agent
    }
}

impl<'a> Rollout<'a> {
    pub(super) fn of(world: &World<'a>, name: &'a str) -> Self {
        let policy = world.policies[name];
        let enactments = world.enactments.get(name);
        let nodes = world.nodes.iter().filter_map(|(node_name, node)| {
            let enactment = enactments.and_then(|all| all.get(node_name)).copied();
            let is_matched = !policy.is_deleted && policy.selection.matches(&node.labels);
            let standing = match enactment {
                Some(enactment) if !is_matched => Standing::of_leaving(policy, enactment),
                None if !is_matched => return None,
                _ => Standing::of(policy, enactment),
            };
            let (values, waits) = match is_matched {
                true => wanted_values(world, name, node_name, enactment),
                false => (None, None),
            };
            let is_granted = |enactment: &&Enactment| {
                let wanted = enactment.wanted.as_ref();
                wanted.is_some_and(|wanted| wanted.decision == Decision::Granted)
            };
            let has_others = enactment
                .filter(is_granted)
                .is_some_and(|enactment| waits.is_some() || enactment.values != values);
            let standing = match is_matched && has_others {
                true => standing.with_other_values(),
                false => standing,
            };
            let is_left_alone = world.left_alone.contains(node_name);
            let standing = if is_left_alone {
                Standing::Waiting
            } else {
                standing
            };
            // One that goes, as that of another node of this name, must be gone before there is a
            // new one. Until then an agent may follow it.
            let standing = match (
                enactment
                    .is_some_and(|enactment| is_orphan(world, enactment) || enactment.is_deleted),
                standing,
            ) {
                (true, Standing::InFlux { .. }) => Standing::InFlux { current: true },
                (true, _) => return None,
                (false, standing) => standing,
            };
            let runs_agent = world.agents.contains(node_name) && !is_left_alone;
            Some(OnNode {
                name: node_name,
                node,
                runs_agent,
                is_left_alone,
                is_matched,
                enactment,
                standing,
                values,
                waits,
            })
        });
        Self {
            name,
            policy,
            nodes: nodes.collect(),
        }
    }

    /// The nodes that it is for and that could have it now.
    fn acting(&self) -> impl Iterator<Item = &OnNode<'a>> {
        self.nodes
            .iter()
            .filter(|node| node.is_matched && node.runs_agent)
    }

    /// The nodes that it is for and that could have it, or have something to say of it: an agent
    /// that acts on demand has ended by then.
    pub(super) fn matching(&self) -> impl Iterator<Item = &OnNode<'a>> {
        self.nodes.iter().filter(|node| {
            node.is_matched && (node.runs_agent || node.standing != Standing::Waiting)
        })
    }

    /// The nodes that have something of it and are to leave it.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &OnNode<'a>> {
        self.nodes.iter().filter(|node| !node.is_matched)
    }

    /// How many nodes may be changed at the same time. When it is deleted, it is for no node any
    /// more: then of those that leave it.
    fn limit(&self) -> usize {
        let of = if self.policy.is_deleted {
            self.leaving().filter(|node| node.runs_agent).count()
        } else {
            self.acting().count()
        };
        limit::scaled(self.policy.max_unavailable.as_ref(), of)
    }

    fn finalizer(&self, actions: &mut Vec<Action>) {
        let policy = || self.name.to_owned();
        match (self.policy.finalizer.is_some(), self.policy.is_deleted) {
            (false, false) if self.policy.reverts => {
                actions.push(Action::Keep { policy: policy() })
            }
            (true, false) if !self.policy.reverts => {
                actions.push(Action::Release { policy: policy() })
            }
            (true, true) if !self.policy.reverts || self.nodes.is_empty() => {
                actions.push(Action::Release { policy: policy() })
            }
            _ => {}
        }
    }

    /// Has nodes wait that nobody will change for now, such as one whose agent acted on demand and
    /// was killed before it began. Until that is written they have their slots: an agent that comes
    /// back first may go on.
    fn take_back(&self, actions: &mut Vec<Action>) {
        let forsaken = self
            .nodes
            .iter()
            .filter(|node| node.is_forsaken() && (node.is_matched || !self.is_over(node)));
        actions
            .extend(forsaken.map(|node| self.write(node, &self.policy.wants(Decision::Pending))));
    }

    /// Nothing is to be done any more on a node that the policy is no longer for.
    fn is_over(&self, node: &OnNode) -> bool {
        let nothing_to_revert = !self.policy.reverts
            || !node
                .enactment
                .is_some_and(|enactment| enactment.has_granted);
        // One that goes cannot wait for a node that may be left alone for good.
        let is_left_behind = node.is_left_alone && self.policy.is_deleted;
        nothing_to_revert || is_left_behind || node.standing == Standing::Done
    }

    /// Decides about a node that the policy no longer selects.
    fn leave(&self, slots: &mut Slots<'a>, actions: &mut Vec<Action>) {
        let (over, leaving): (Vec<_>, Vec<_>) = self.leaving().partition(|node| self.is_over(node));
        actions.extend(
            over.iter()
                .filter_map(|node| node.enactment)
                .filter_map(delete),
        );
        let wanted = Wanted {
            generation: self.policy.generation,
            decision: Decision::Revert,
            retry: self.policy.retry.clone(),
            waits: None,
        };
        self.grant(slots, &wanted, leaving, actions);
    }

    /// Decides about a node that the policy selects.
    fn go_on(&self, slots: &mut Slots<'a>, actions: &mut Vec<Action>) {
        if self.policy.reverts && self.policy.finalizer.is_none() {
            return;
        }
        let candidates: Vec<_> = self.nodes.iter().filter(|node| node.is_matched).collect();
        let count = |standing: Standing| {
            candidates
                .iter()
                .filter(|node| node.standing == standing)
                .count()
        };
        // Once aborted, a try stays so, also if the nodes where it failed are gone by now.
        let aborted = count(Standing::Aborted) > 0 || count(Standing::Failed) >= self.limit();
        let left = match aborted {
            true => candidates,
            false => self.grant(
                slots,
                &self.policy.wants(Decision::Granted),
                candidates,
                actions,
            ),
        };
        let decision = self.policy.wants(if aborted {
            Decision::Aborted
        } else {
            Decision::Pending
        });
        for node in left
            .into_iter()
            .filter(|node| node.standing == Standing::Waiting && node.can_act())
        {
            let mut decision = decision.clone();
            if decision.decision == Decision::Pending {
                decision.waits = node.waits.clone();
            }
            let is_said = node
                .enactment
                .and_then(|enactment| enactment.wanted.as_ref())
                .is_some_and(|said| {
                    said.generation == decision.generation
                        && said.decision == decision.decision
                        && said.waits == decision.waits
                        && self.policy.is_current_try(said)
                });
            let of_this = node.enactment.is_some_and(|enactment| {
                enactment.policy_uid.as_deref() == Some(self.policy.uid.as_str())
            });
            if !(is_said && of_this) {
                actions.push(self.write(node, &decision));
            }
        }
    }

    /// Lets as many of these nodes go on as there are slots. Returns those that must wait.
    ///
    /// Nodes that are being changed anyway come first: what newer generations and other policies
    /// want of them costs no further node, and reaches the agent with what it has at hand, so that
    /// it is one transaction.
    fn grant<'n>(
        &self,
        slots: &mut Slots<'a>,
        wanted: &Wanted,
        mut nodes: Vec<&'n OnNode<'a>>,
        actions: &mut Vec<Action>,
    ) -> Vec<&'n OnNode<'a>> {
        nodes.retain(|node| {
            matches!(
                node.standing,
                Standing::Waiting | Standing::InFlux { current: false }
            ) && node.can_act()
        });
        // A node that lacks a value takes no slot from others.
        let (lacking, mut nodes): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.waits.is_some());
        nodes.sort_by_key(|node| !slots.busy.contains(node.name));
        nodes.retain(|node| {
            let taken = slots.take(node.name);
            if taken {
                actions.push(self.write(node, wanted));
            }
            !taken
        });
        nodes.into_iter().chain(lacking).collect()
    }

    fn write(&self, node: &OnNode, wanted: &Wanted) -> Action {
        let (policy, node_name, wanted) =
            (self.name.to_owned(), node.name.to_owned(), wanted.clone());
        let is_granted = wanted.decision == Decision::Granted;
        let values = node.values.clone().filter(|_| is_granted);
        match node.enactment {
            Some(_) => Action::Change {
                policy,
                node: node_name,
                wanted,
                values,
            },
            None => Action::Create {
                policy,
                node: node_name,
                wanted,
                values,
            },
        }
    }
}

/// Returns the values of a node that a policy refers to, or the value that the node lacks.
fn wanted_values(
    world: &World,
    policy_name: &str,
    name: &str,
    enactment: Option<&Enactment>,
) -> (Option<NodeValues>, Option<Waits>) {
    let (policy, node) = (world.policies[policy_name], world.nodes[name]);
    if policy.references.is_empty() {
        return (None, None);
    }
    let source = Source {
        name,
        labels: &node.labels,
        annotations: &node.annotations,
        addresses: &world.addresses.of_node(&policy.uid, name),
    };
    let problem = world.addresses.problem(policy_name, name);
    let waits = |reason: &str, message: &str| {
        Some(Waits {
            reason: reason.to_owned(),
            message: message.to_owned(),
        })
    };
    match policy.references.of_node(source) {
        // Another host has the address, too. A node that was granted it keeps it.
        Ok(values)
            if problem.is_some()
                && enactment.and_then(|enactment| enactment.values.as_ref()) != Some(&values) =>
        {
            let message = problem.map(|problem| problem.message.as_str());
            (None, waits(ADDRESS, message.unwrap_or_default()))
        }
        Ok(values) => (Some(values), None),
        Err(lack) => {
            let message = problem
                .filter(|_| lack.reason == ADDRESS)
                .map_or(lack.message.as_str(), |problem| &problem.message);
            (None, waits(lack.reason, message))
        }
    }
}
