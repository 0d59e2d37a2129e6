//! The controller of policies: which node may change when, and what the policies say about it.
//!
//! It runs next to the controller of NMState, under the same lease. Its decisions are pure, see
//! [`weft_node_network::rollout`].

mod addresses;
mod caches;
mod gauges;
mod nodes;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;
use weft_node_network::rollout::{
    self, Action, Policy, readiness,
    status::{self, Summary},
    view::{FINALIZER, enactment_name},
    writes,
};
use weft_plan::{Domain, ObjectKey, dropped, kinds, manager, report::Blocked};
use weft_runtime::{
    api_server::{
        clock,
        cluster::{Cluster, Error},
    },
    backoff::Backoff,
    metrics::Metrics,
    reconcile::{
        events::{EventRecorder, Note},
        originals::held_by_another,
        retry::{Pause, SETTLING},
        run::{self, Work},
        seniority,
        status::merge_patch,
    },
    store::watch::Shared,
};

use crate::parts::{Controlling, Parts};
use caches::{Caches, Lists};

/// The shortest time between two reports of progress in the status of one policy.
const NEWS: Duration = Duration::from_secs(1);
/// The longest pause after a failure that concerns all policies, or the write of a policy's status.
const LONGEST: Duration = Duration::from_secs(15);
/// The number of requests that may be in flight at once.
const AT_ONCE: usize = 16;

/// The controller of policies.
pub struct Controller {
    domain: Arc<dyn Domain>,
    cluster: Cluster,
    /// The store of the controller of NMState: the installations, and other operators.
    shared: Shared,
    caches: Caches,
    metrics: Metrics,
    recorder: EventRecorder,
    manager: String,
    /// The namespace of the operator, which holds the ledger of addresses.
    namespace: String,
}

/// The state between two reconciles: only the time of the next one.
struct Memory {
    /// The objects that existed when this replica began to lead, until the watches have reported
    /// all of them.
    behind: Option<Lists>,
    has_looked: bool,
    backoff: Backoff,
    /// Failed writes, by object.
    failed: HashMap<String, Failed>,
    /// The time of the last report of progress, by policy.
    told: HashMap<String, Instant>,
    /// The pauses after failed writes of policies' status.
    unspoken: Backoff,
    blocked: Option<Blocked>,
    /// When the ledger of addresses is written again after a failure.
    ledger: Option<Instant>,
    ledger_backoff: Backoff,
}

/// Something that could not be written.
struct Failed {
    /// The policy that it is about.
    policy: Option<String>,
    why: String,
    next: Next,
}

/// When something that could not be written is tried again.
enum Next {
    /// After a pause that grows with each failure.
    Pause(Pause),
    /// When something else is to be written, or something else is there: the API server refuses
    /// just this.
    Change(Box<Grounds>),
    /// Once no other object has that name.
    Free,
}

impl Next {
    /// Returns the next try after this answer of the API server.
    fn after(before: Option<Self>, error: &Error, mut grounds: Grounds) -> Self {
        let before = match before {
            Some(Self::Pause(pause)) => Some(pause),
            Some(Self::Change(before)) => {
                if before.is_like(&grounds) {
                    grounds.since = before.since;
                }
                before.settling
            }
            Some(Self::Free) | None => None,
        };
        if !error.is_of_the_body() {
            return Self::Pause(Pause::after(before, error.class()));
        }
        let may_settle = grounds.since.elapsed() < SETTLING;
        grounds.settling = may_settle.then(|| Pause::after(before, error.class()));
        Self::Change(Box::new(grounds))
    }

    /// When it is tried again whatever happens.
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Pause(pause) => Some(pause.until()),
            Self::Change(grounds) => grounds.settling.as_ref().map(Pause::until),
            Self::Free => None,
        }
    }
}

/// The conditions that an answer of the API server depends on.
struct Grounds {
    action: Action,
    /// The generations of what it is about, and of its definition.
    there: Vec<String>,
    since: Instant,
    /// The API server may go by an older definition still.
    settling: Option<Pause>,
}

impl Grounds {
    fn is_like(&self, other: &Self) -> bool {
        self.action == other.action && self.there == other.there
    }
}

impl Memory {
    fn new() -> Self {
        let backoff = Backoff::new(Duration::from_millis(200), LONGEST);
        Self {
            behind: None,
            has_looked: false,
            backoff,
            failed: HashMap::new(),
            told: HashMap::new(),
            unspoken: Backoff::new(NEWS, LONGEST),
            blocked: None,
            ledger: None,
            ledger_backoff: Backoff::new(Duration::from_millis(200), LONGEST),
        }
    }
}

/// Runs the controller of policies.
pub(crate) fn start(parts: &Parts) -> Controlling {
    let controller = Controller::new(
        Arc::clone(&parts.domain),
        parts.cluster.clone(),
        parts.shared.clone(),
        parts.metrics.clone(),
        (&parts.namespace, &parts.instance),
    );
    controller
        .run(parts.leading.clone(), parts.stop.clone())
        .boxed()
}

impl Controller {
    /// A controller that is not running yet. `shared` is the cache of the controller of NMState,
    /// `namespace` that of the operator, and `instance` the name of this replica.
    pub fn new(
        domain: Arc<dyn Domain>,
        cluster: Cluster,
        shared: Shared,
        metrics: Metrics,
        (namespace, instance): (&str, &str),
    ) -> Self {
        let recorder = EventRecorder::new(cluster.client().clone(), domain.name(), instance);
        let (caches, manager) = (Caches::new(), manager(&*domain));
        shared.also_notify(caches.notifier.clone());
        Self {
            domain,
            cluster,
            shared,
            caches,
            metrics,
            recorder,
            manager,
            namespace: namespace.to_owned(),
        }
    }

    /// Runs until `stop`. It acts only while `leading`.
    pub async fn run(self, leading: channel::Receiver<bool>, stop: CancellationToken) {
        let watches = self.caches.watch(
            self.cluster.client(),
            &self.metrics,
            self.domain.namespace(),
            &self.namespace,
        );
        let running = Running {
            controller: self,
            memory: Memory::new(),
        };
        run::run(running, watches, leading, stop).await;
    }

    /// Decides and writes. Returns when to look again, should nothing happen.
    async fn reconcile(&self, memory: &mut Memory) -> Option<Instant> {
        let blocked = held_by_another(&*self.domain, &self.namespace, &self.shared);
        if blocked != memory.blocked {
            if let Some(Blocked { message, .. }) = &blocked {
                tracing::warn!(message, "policies are left alone");
            }
            memory.blocked = blocked;
            memory.backoff.reset();
        }
        if let Some(blocked) = &memory.blocked {
            self.metrics.passed(POLICIES, "blocked");
            if self.report_blocked(blocked).await {
                return None;
            }
            // It may be what is in the way that refuses this as well, for as long as it is there.
            return Some(Instant::now() + memory.backoff.next_pause());
        }
        if !self.is_up_to_date(memory).await {
            return Some(Instant::now() + memory.backoff.next_pause());
        }
        let cap = self.max_unavailable();
        let assigned = self.assign(memory).await;
        let is_installed = self.is_installed();
        let actions = self.caches.look_at(cap.as_ref(), |world| {
            let mut actions = rollout::decide(world);
            actions.extend(readiness::readiness(world, is_installed));
            actions
        });
        memory.forget(&actions);
        // The controller acknowledges news before it acts on it.
        let new_ones = self.report(memory, cap.as_ref(), true).await;
        let actions = self.without_taken(actions, memory);
        let due: Vec<_> = actions
            .into_iter()
            .filter(|action| {
                memory
                    .failed
                    .get(&object_of(action))
                    .is_none_or(|failed| self.is_due(failed, action))
            })
            .collect();
        let written = self.carry_out(due, memory).await;
        let told = self.report(memory, cap.as_ref(), false).await;
        self.metrics.passed(
            POLICIES,
            if memory.failed.is_empty() {
                "ok"
            } else {
                "failed"
            },
        );
        let again = memory
            .failed
            .values()
            .filter_map(|failed| failed.next.due())
            .min();
        [
            assigned,
            new_ones,
            told,
            again,
            self.caches.next_end(),
            written.then(Instant::now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Reports whether everything is known that the last leader knew: its watch may have been ahead
    /// of ours. Asked once.
    async fn is_up_to_date(&self, memory: &mut Memory) -> bool {
        if !memory.has_looked {
            match Caches::look(&self.cluster, &self.namespace).await {
                Ok(lists) => (memory.behind, memory.has_looked) = (Some(lists), true),
                Err(error) => {
                    tracing::warn!(%error, "policies, enactments and nodes could not be listed");
                    return false;
                }
            }
        }
        if memory
            .behind
            .as_ref()
            .is_some_and(|lists| self.caches.have_caught_up(lists))
        {
            memory.behind = None;
            memory.backoff.reset();
        }
        memory.behind.is_none()
    }

    /// `spec.maxUnavailable` of the NMState that counts.
    fn max_unavailable(&self) -> Option<IntOrString> {
        max_unavailable(&self.shared.lock().resources())
    }

    /// Writes all of this, some at once. Returns whether anything was written: then there may be
    /// more to do.
    async fn carry_out(&self, actions: Vec<Action>, memory: &mut Memory) -> bool {
        let done = futures::stream::iter(actions)
            .map(async |action| (self.write(&action).await, action))
            .buffer_unordered(AT_ONCE);
        let done: Vec<_> = done.collect().await;
        let mut written = false;
        for (result, action) in done {
            let object = object_of(&action);
            let before = memory.failed.remove(&object);
            match result {
                Ok(()) => written = true,
                Err(error) => {
                    tracing::warn!(%error, object, "could not be written");
                    let next = Next::after(
                        before.map(|failed| failed.next),
                        &error,
                        self.grounds(&action),
                    );
                    memory.failed.insert(
                        object,
                        Failed {
                            policy: policy_of(&action).map(str::to_owned),
                            why: error.to_string(),
                            next,
                        },
                    );
                }
            }
        }
        written
    }

    /// Removes the actions that would create an object whose name another object has. These wait
    /// until a watch reports that the name is free.
    fn without_taken(&self, mut actions: Vec<Action>, memory: &mut Memory) -> Vec<Action> {
        actions.retain(|action| {
            let object = object_of(action);
            let is_taken = matches!(action, Action::Create { .. }) && self.caches.enactments.lock().get(&object).is_some();
            if is_taken {
                let why = format!("exists already and is of no policy of this name and node. Delete it: kubectl delete nnce {object}");
                if memory.failed.get(&object).is_none_or(|failed| failed.why != why) {
                    tracing::warn!(object, why, "could not be written");
                }
                memory.failed.insert(object, Failed { policy: policy_of(action).map(str::to_owned), why, next: Next::Free });
            }
            !is_taken
        });
        actions
    }

    /// Reports whether to try again what has failed.
    fn is_due(&self, failed: &Failed, action: &Action) -> bool {
        let is_over = |due: Instant| due <= Instant::now();
        match &failed.next {
            Next::Pause(pause) => is_over(pause.until()),
            Next::Change(grounds) => {
                !grounds.is_like(&self.grounds(action)) || failed.next.due().is_some_and(is_over)
            }
            Next::Free => true,
        }
    }

    fn grounds(&self, action: &Action) -> Grounds {
        let (policy, node) = match action {
            Action::Keep { policy } | Action::Release { policy } => (Some(policy), None),
            Action::Create { policy, node, .. } | Action::Change { policy, node, .. } => {
                (Some(policy), Some(node))
            }
            Action::Tell { node, .. } | Action::Untaint { node } => (None, Some(node)),
            Action::Delete { .. } => (None, None),
        };
        let mut there = vec![format!(
            "{:?}",
            [POLICY, ENACTMENT].map(|kind| self.shared.lock().definition_of(kind))
        )];
        let policies = self.caches.policies.lock();
        there.extend(
            policy
                .and_then(|name| policies.get(name))
                .map(|policy| format!("{} {}", policy.uid, policy.generation)),
        );
        there.extend(node.and_then(|name| {
            self.caches
                .nodes
                .lock()
                .get(name)
                .map(|node| node.uid.clone())
        }));
        let enactments = self.caches.enactments.lock();
        let enactment = enactments
            .get(&object_of(action))
            .and_then(|found| found.0.as_ref());
        there.extend(
            enactment.map(|enactment| format!("{} {}", enactment.uid, enactment.generation)),
        );
        Grounds {
            action: action.clone(),
            there,
            since: Instant::now(),
            settling: None,
        }
    }

    async fn write(&self, action: &Action) -> Result<(), Error> {
        let policy_named = |name: &str| self.caches.policies.lock().get(name).cloned();
        match action {
            Action::Keep { policy: name } => {
                let Some(policy) = policy_named(name) else {
                    return Ok(());
                };
                // The uid keeps the apply from making a policy that was just deleted.
                let body = json!({
                    "apiVersion": POLICY.api_version(), "kind": POLICY.kind,
                    "metadata": {"name": name, "uid": policy.uid, "finalizers": [FINALIZER]}
                });
                let written = self
                    .cluster
                    .apply(&ObjectKey::new(POLICY, "", name), &body, &self.manager)
                    .await?;
                self.caches.policies.wrote(&written);
            }
            Action::Release { policy: name } => {
                let Some((policy, index)) = policy_named(name)
                    .and_then(|policy| policy.finalizer.map(|index| (policy, index)))
                else {
                    return Ok(());
                };
                let key = ObjectKey::new(POLICY, "", name);
                if let Some(written) = self
                    .cluster
                    .take_finalizer_at(&key, &policy.uid, index, FINALIZER, &self.manager)
                    .await?
                {
                    self.caches.policies.wrote(&written);
                }
            }
            Action::Create {
                policy: name,
                node,
                wanted,
                values,
            } => {
                let (policy, at) = (
                    policy_named(name),
                    self.caches.nodes.lock().get(node).cloned(),
                );
                // The next reconcile handles changes that came after the decision.
                let Some((policy, at)) = policy
                    .filter(|policy| policy.generation == wanted.generation)
                    .zip(at)
                else {
                    return Ok(());
                };
                let body = writes::enactment((name, &policy), (node, &at), wanted, values.as_ref());
                let key = ObjectKey::new(ENACTMENT, "", &enactment_name(name, node));
                let written = self.cluster.create(&key, &body, &self.manager).await?;
                self.caches.enactments.wrote(&written);
                self.metrics.wrote(self.domain.name(), "apply", ENACTMENT);
            }
            Action::Change {
                policy: name,
                node,
                wanted,
                values,
            } => {
                let key = ObjectKey::new(ENACTMENT, "", &enactment_name(name, node));
                let enactment = self
                    .caches
                    .enactments
                    .lock()
                    .get(&key.name)
                    .and_then(|found| found.0.clone());
                let policy =
                    policy_named(name).filter(|policy| policy.generation == wanted.generation);
                let Some((policy, enactment)) = policy.zip(enactment) else {
                    return Ok(());
                };
                let patch = writes::change((name, &policy), &enactment, wanted, values.as_ref());
                let written = self.cluster.json_patch(&key, &patch, &self.manager).await?;
                self.caches.enactments.wrote(&written);
                self.metrics.wrote(self.domain.name(), "apply", ENACTMENT);
            }
            Action::Delete { name, uid } => {
                match self
                    .cluster
                    .delete(&ObjectKey::new(ENACTMENT, "", name), uid)
                    .await?
                {
                    // Another user's finalizer holds it. Its deletion has begun all the same, and
                    // the watch reports its end.
                    Some(left) => self.caches.enactments.wrote(&left),
                    None => self.caches.enactments.deleted(name, uid),
                }
                self.metrics.wrote(self.domain.name(), "delete", ENACTMENT);
            }
            Action::Tell { node, readiness } => self.tell(node, readiness.as_ref()).await?,
            Action::Untaint { node } => self.untaint(node).await?,
        }
        Ok(())
    }

    /// Writes the status of policies where it differs: at once if the generation is new or the
    /// phase changes, else once in `NEWS` at most. Returns the time of the next write, or of the
    /// next try.
    async fn report(
        &self,
        memory: &mut Memory,
        cap: Option<&IntOrString>,
        only_new: bool,
    ) -> Option<Instant> {
        let now = clock::now();
        let lost = self.shared.lock().dropped_of(POLICY);
        let of_policies = [(POLICY, lost.clone())];
        let notice = match lost.is_empty() {
            true => None,
            false => dropped::notice(self.domain.name(), &of_policies),
        };
        // A status that cannot name a generation looks new for ever.
        let names_generation = !dropped::has(&lost, "status.observedGeneration");
        let is_new = |policy: &Policy| {
            names_generation && policy.status["observedGeneration"] != policy.generation
        };
        let wanted: Vec<_> = self.caches.look_at(cap, |world| {
            let all = world.policies.iter();
            let policies = all.filter(|(_, policy)| !only_new || is_new(policy));
            let said = policies.map(|(name, policy)| {
                let trouble = memory
                    .failed
                    .iter()
                    .find(|(_, failed)| failed.policy.as_deref() == Some(*name));
                let summary = Summary::of(world, name)
                    .with_trouble(
                        trouble.map(|(object, failed)| format!("{object}: {}", failed.why)),
                    )
                    .with_dropped(notice.clone());
                let status = summary.status(policy.generation, &policy.status, now);
                let status = dropped::of_status(status, &lost);
                (
                    (*name).to_owned(),
                    (*policy).clone(),
                    status,
                    summary
                        .failure()
                        .map(|(node, why)| format!("{node}: {why}")),
                )
            });
            said.filter(|(_, policy, status, _)| *status != *policy.status)
                .collect()
        });
        let names: HashSet<String> = self
            .caches
            .policies
            .lock()
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        memory.told.retain(|name, _| names.contains(name));
        let mut due = None;
        let mut speaking = Vec::new();
        for (name, policy, status, failure) in wanted {
            let turns = status::phase(&status) != status::phase(&policy.status) || is_new(&policy);
            let may_speak = memory
                .told
                .get(&name)
                .map(|told| *told + NEWS)
                .filter(|at| *at > Instant::now() && !turns);
            match may_speak {
                Some(at) => due = Some(due.map_or(at, |due: Instant| due.min(at))),
                None => {
                    memory.told.insert(name.clone(), Instant::now());
                    speaking.push((name, policy, status, failure));
                }
            }
        }
        let spoken =
            futures::stream::iter(speaking).map(async |(name, policy, status, failure)| {
                self.speak(&name, &policy, &status, failure).await
            });
        // Each of them, whatever becomes of another.
        let spoken: Vec<_> = spoken.buffer_unordered(AT_ONCE).collect().await;
        let retry = spoken
            .iter()
            .any(|spoken| !matches!(spoken, Ok(true)))
            .then(|| Instant::now() + memory.unspoken.next_pause());
        if retry.is_none() && !spoken.is_empty() {
            memory.unspoken.reset();
        }
        [due, retry].into_iter().flatten().min()
    }

    /// Has each policy say that another operator is in the way. Nothing else is written meanwhile.
    /// Returns whether all of them say so.
    async fn report_blocked(&self, blocked: &Blocked) -> bool {
        let now = clock::now();
        let lost = self.shared.lock().dropped_of(POLICY);
        let wanted: Vec<_> = {
            let policies = self.caches.policies.lock();
            let said = policies.iter().filter_map(|(name, policy)| {
                let status = status::blocked(policy, blocked.reason, &blocked.message, now)?;
                let status = dropped::of_status(status, &lost);
                (status != *policy.status).then(|| (name.to_owned(), policy.clone(), status))
            });
            said.collect()
        };
        let spoken = futures::stream::iter(wanted)
            .map(async |(name, policy, status)| self.speak(&name, &policy, &status, None).await);
        let spoken: Vec<_> = spoken.buffer_unordered(AT_ONCE).collect().await;
        spoken.iter().all(|spoken| matches!(spoken, Ok(true)))
    }

    /// Writes the status of a policy. Returns false if the API server has dropped the generation,
    /// although the definition has it: an API server goes by the older definition for a moment.
    async fn speak(
        &self,
        name: &str,
        policy: &Policy,
        status: &Value,
        failure: Option<String>,
    ) -> Result<bool, Error> {
        let key = ObjectKey::new(POLICY, "", name);
        // The uid keeps it from another policy of that name.
        let body =
            json!({"metadata": {"uid": policy.uid}, "status": merge_patch(&policy.status, status)});
        match self
            .cluster
            .merge_patch(&key, "status", &body, &self.manager)
            .await
        {
            Ok(written) => {
                self.caches.policies.wrote(&written);
                self.metrics.wrote(self.domain.name(), "status", POLICY);
                let degraded = |status: &Value| {
                    weft_plan::condition(status, "Degraded")
                        .filter(|one| one["status"] == "True")
                        .cloned()
                };
                if let Some(now) = degraded(status).filter(|now| {
                    degraded(&policy.status)
                        .is_none_or(|before| before["message"] != now["message"])
                }) {
                    let message = now["message"].as_str().unwrap_or_default();
                    let message = failure.map_or_else(
                        || message.to_owned(),
                        |failure| format!("{message}; {failure}"),
                    );
                    let note = Note {
                        warning: true,
                        reason: "ReconcileFailed".to_owned(),
                        message,
                    };
                    self.recorder.publish(
                        POLICY,
                        (name.to_owned(), policy.uid.clone()),
                        vec![note],
                    );
                }
                let observed = &written["status"]["observedGeneration"];
                let knows_definition = self.shared.lock().knows_definition(POLICY);
                Ok(!knows_definition || *observed == status["observedGeneration"])
            }
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => {
                tracing::warn!(%error, policy = name, "status could not be written");
                Err(error)
            }
        }
    }
}

const POLICY: weft_plan::Kind = kinds::NODE_NETWORK_CONFIGURATION_POLICY;
const ENACTMENT: weft_plan::Kind = kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT;
/// The label of passes over policies in metrics.
const POLICIES: &str = "node-network-policies";

/// The name of what an action writes.
fn object_of(action: &Action) -> String {
    match action {
        Action::Keep { policy } | Action::Release { policy } => policy.clone(),
        Action::Create { policy, node, .. } | Action::Change { policy, node, .. } => {
            enactment_name(policy, node)
        }
        Action::Delete { name, .. } => name.clone(),
        // No policy and no enactment has such a name.
        Action::Tell { node, .. } => format!("nodes/{node}/status"),
        Action::Untaint { node } => format!("nodes/{node}"),
    }
}

/// The policy that an action is about, if it says so.
fn policy_of(action: &Action) -> Option<&str> {
    match action {
        Action::Keep { policy }
        | Action::Release { policy }
        | Action::Create { policy, .. }
        | Action::Change { policy, .. } => Some(policy),
        Action::Delete { .. } | Action::Tell { .. } | Action::Untaint { .. } => None,
    }
}

impl Memory {
    /// An action that no policy asks for any more has not failed.
    fn forget(&mut self, actions: &[Action]) {
        let objects: HashSet<_> = actions.iter().map(object_of).collect();
        self.failed.retain(|object, _| objects.contains(object));
    }
}

/// A controller with the state of its loop.
struct Running {
    controller: Controller,
    memory: Memory,
}

impl Work for Running {
    fn prepare(&mut self, leads: bool) {
        if !leads {
            self.memory = Memory::new();
        }
    }

    fn is_ready(&self) -> bool {
        self.controller.caches.are_complete() && self.controller.shared.lock().may_act()
    }

    /// A reconcile catches up by itself, after it has reported another operator.
    async fn catch_up(&mut self) -> bool {
        true
    }

    async fn reconcile(&mut self) -> Option<Instant> {
        let began = Instant::now();
        let due = self.controller.reconcile(&mut self.memory).await;
        self.controller.metrics.took(POLICIES, began.elapsed());
        due
    }

    fn panicked(&mut self) {
        self.controller.metrics.passed(POLICIES, "panic");
        self.memory = Memory::new();
    }

    fn finish(&mut self) {
        let controller = &self.controller;
        gauges::set(
            &controller.metrics,
            controller.domain.name(),
            &controller.caches,
        );
    }

    async fn changed(&self) {
        self.controller.caches.notifier.notified().await;
    }

    async fn quiet(&mut self) {}
}

/// Returns `spec.maxUnavailable` of the NMState that counts: the one that the domain of the agents'
/// installation serves, by the same rule.
fn max_unavailable(installations: &[Arc<Value>]) -> Option<IntOrString> {
    let counts = seniority::senior(installations.iter().map(|object| &**object))?;
    serde_json::from_value(counts["spec"]["maxUnavailable"].clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn max_unavailable_is_that_of_the_nmstate_with_the_finalizer() {
        let nmstate = |name: &str, created: &str, finalizers: &[&str], limit: i32| {
            Arc::new(json!({
                "metadata": {"name": name, "creationTimestamp": created, "finalizers": finalizers},
                "spec": {"maxUnavailable": limit},
            }))
        };
        let served = [weft_runtime::reconcile::finalizer::FINALIZER];
        let older = nmstate("a", "2026-01-01T00:00:00Z", &[], 1);
        let younger = nmstate("b", "2026-01-02T00:00:00Z", &served, 2);
        assert_eq!(
            max_unavailable(&[older.clone(), younger]),
            Some(IntOrString::Int(2))
        );
        assert_eq!(max_unavailable(&[older]), Some(IntOrString::Int(1)));
        assert_eq!(max_unavailable(&[]), None);
    }
}
