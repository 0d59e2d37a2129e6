//! One pass over the enactments of a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;
use weft_api::node_network::{CapturedState, Decision, NodeNetworkConfigurationEnactmentStatus as Status, Outcome};
use weft_node_network::{
    blame::blame,
    claims::{Layer, Owner, Rank},
    drift::{Difference, differences},
    merge::{Candidate, Conflict, Merged, settle},
    render::{self, Rendered},
    secrets, state,
};

use super::{
    Aside, Enactor, Inputs, Report, State, Store, WRITE_AGAIN, status,
    wish::{Standing, Wish},
};
use crate::{
    host::{HostError, Query},
    observe::Observer,
    probes::Target,
    secrets as cluster_secrets,
    transaction::{Change, Done, Failure, Phase, bridges},
};

/// How many places a condition names.
const PLACES: usize = 5;

/// A wish with what was made of it.
struct Item {
    wish: Wish,
    uid: Option<String>,
    standing: Standing,
    rendered: Rendered,
    /// What ended its part in this pass.
    settled: Option<(State, Option<Outcome>)>,
    aside: Aside,
}

impl Item {
    /// Whether something new is to be done for it in this pass.
    fn is_open(&self) -> bool {
        self.standing == Standing::Open && self.settled.is_none()
    }
}

pub(super) struct Pass<'a> {
    enactor: &'a mut Enactor,
    items: Vec<Item>,
    own: Option<Layer>,
    /// How the host was when somebody looked.
    current: Value,
    /// Whether that was in this pass.
    is_fresh: bool,
    report: Report,
}

impl<'a> Pass<'a> {
    pub fn new(enactor: &'a mut Enactor, wishes: Vec<Wish>, inputs: &Inputs<'_>) -> Self {
        let uids: BTreeMap<_, _> =
            inputs.enactments.iter().map(|enactment| (enactment.metadata.name.clone(), enactment.metadata.uid.clone())).collect();
        let current = state::value(inputs.current);
        let mut report = Report::default();
        let wait = enactor.own_wait();
        report.again = wait;
        let own = inputs.own.filter(|_| wait.is_none()).and_then(|desired| match render::own(desired) {
            Ok(state) => Some(Layer { owner: Owner::Node, rank: Rank::Node, state }),
            Err(error) => {
                report.own = Some(Err(Failure::new(Phase::Plan, error.to_string())));
                None
            }
        });
        let nothing = || Rendered { desired: state::empty(), captures: Default::default() };
        let items = wishes.into_iter().map(|wish| Item {
            uid: uids.get(&Some(wish.name.clone())).cloned().flatten(),
            standing: wish.standing(),
            rendered: nothing(),
            settled: None,
            aside: Aside::default(),
            wish,
        });
        Self { items: items.collect(), enactor, own, current, is_fresh: false, report }
    }

    pub async fn run(mut self) -> Report {
        for index in 0..self.items.len() {
            self.decide(index);
        }
        while self.step().await {}
        for index in 0..self.items.len() {
            self.tell(index).await;
        }
        self.report
    }

    /// What does not need a look at the others.
    fn decide(&mut self, index: usize) {
        let item = &mut self.items[index];
        let applied = self.enactor.store.get(&item.wish.policy);
        let kept = || applied.map_or_else(state::empty, |applied| applied.desired.clone());
        match item.wish.decision {
            Decision::Pending | Decision::Aborted | Decision::Unknown => {
                item.rendered.desired = kept();
                item.settled = match item.wish.decision {
                    Decision::Pending => Some((State::Pending, None)),
                    Decision::Aborted => Some((State::Aborted, None)),
                    _ => None,
                };
                item.standing = Standing::Done;
            }
            Decision::Revert => item.rendered.desired = applied.map_or_else(state::empty, |applied| applied.undo.clone()),
            Decision::Granted if item.standing == Standing::Failed => item.rendered.desired = kept(),
            Decision::Granted => match item.wish.render(applied, &self.current) {
                Ok(rendered) => item.rendered = rendered,
                Err(error) => {
                    item.rendered.desired = kept();
                    let message = error.to_string();
                    item.settled = Some((State::Failed { message: message.clone() }, Some(status::early(status::RENDER, message))));
                }
            },
        }
        if item.is_open()
            && let Some(wait) = self.enactor.attempts.wait(&item.wish, Instant::now())
        {
            item.rendered.desired = kept();
            item.standing = Standing::Failed;
            self.again_in(wait);
        }
    }

    fn again_in(&mut self, wait: Duration) {
        self.report.again = Some(self.report.again.map_or(wait, |again| again.min(wait)));
    }

    /// One try to make the host as it should be. Whether another one is due, without what has failed.
    async fn step(&mut self) -> bool {
        let (merged, conflicts) = self.merge(|_| true);
        self.note_conflicts(&conflicts);
        let (merged, _) = if conflicts.is_empty() { (merged, conflicts) } else { self.merge(|_| true) };
        let all = self.differ(&merged);
        self.note_drift(&merged, &all);
        let open: BTreeSet<Owner> = self.items.iter().filter(|item| item.is_open()).map(|item| item.wish.owner()).collect();
        // What is only reported, or has failed, is left as it is, unless somebody else wants the same.
        let (to_apply, _) = self.merge(|item| {
            item.is_open() || item.aside.drifted.is_none() || (item.standing == Standing::Done && item.wish.corrects_drift())
        });
        let due = self.differ(&to_apply);
        if due.is_empty() && !open.is_empty() && !self.is_fresh {
            return match self.look_again().await {
                Ok(()) => true,
                Err(error) => self.fail(BTreeSet::new(), &open, &Failure::host(Phase::Plan, &error)),
            };
        }
        if due.is_empty() && !self.asks_for_secrets() {
            self.put_ports_back(&merged).await;
            let noted = self.noted(&open);
            if noted != self.enactor.store {
                self.enactor.store = noted;
                self.enactor.save();
            }
            self.succeed(&open);
            return false;
        }
        if let Err((owners, failure)) = self.apply(&to_apply, &open).await {
            return self.fail(owners, &open, &failure);
        }
        self.succeed(&open);
        for item in &mut self.items {
            if item.standing == Standing::Done && item.wish.corrects_drift() {
                item.aside.drifted = None;
            }
        }
        false
    }

    /// Nobody is told that a policy is done by an old look, also not that it matches nothing here.
    async fn look_again(&mut self) -> Result<(), HostError> {
        let now = self.enactor.settings.transactor.host.retrieve(Query::default()).await?;
        self.current = state::value(&now.state);
        self.is_fresh = true;
        for index in 0..self.items.len() {
            if self.items[index].settled.is_none() {
                self.decide(index);
            }
        }
        Ok(())
    }

    fn merge(&self, counts: impl Fn(&Item) -> bool) -> (Merged, Vec<Conflict>) {
        let candidates = self.items.iter().filter(|item| counts(item)).map(|item| Candidate {
            wanted: item.wish.layer(item.rendered.desired.clone()),
            applied: self.enactor.store.get(&item.wish.policy).map(|applied| applied.desired.clone()),
        });
        let own = self.own.iter().map(|layer| Candidate { wanted: layer.clone(), applied: None });
        let settled = settle(&candidates.chain(own).collect::<Vec<_>>());
        (settled.merged, settled.conflicts)
    }

    fn differ(&self, merged: &Merged) -> Vec<Difference> {
        differences(&secrets::mask(&merged.state, state::HIDDEN), &self.current)
    }

    /// Whether something new has secrets in it. If the host has them already, only the transaction can tell, which knows them.
    fn asks_for_secrets(&self) -> bool {
        let open = self.items.iter().filter(|item| item.is_open()).map(|item| &item.rendered.desired);
        let own = self.own.iter().map(|layer| &layer.state).filter(|state| self.enactor.own_done.as_ref() != Some(*state));
        open.chain(own).any(|state| !secrets::places(state).is_empty())
    }

    /// Two policies contradict each other: each keeps what it had, and both are told.
    fn note_conflicts(&mut self, conflicts: &[Conflict]) {
        for item in &mut self.items {
            let Some(conflict) = conflicts.iter().find(|conflict| conflict.concerns(&item.wish.owner())) else { continue };
            let message = conflict.to_string();
            item.aside.conflict = Some(message.clone());
            if item.is_open() {
                let kept = self.enactor.store.get(&item.wish.policy);
                item.rendered.desired = kept.map_or_else(state::empty, |applied| applied.desired.clone());
                item.settled = Some((State::Failed { message: message.clone() }, Some(status::early(status::CONFLICT, message))));
            }
        }
    }

    /// Policies that were done, and are not so any more.
    fn note_drift(&mut self, merged: &Merged, differences: &[Difference]) {
        for item in &mut self.items {
            if item.is_open() || item.wish.decision != Decision::Granted {
                continue;
            }
            let owner = item.wish.owner();
            let mine: Vec<String> =
                differences.iter().filter(|difference| owners(merged, difference).contains(&owner)).map(ToString::to_string).collect();
            item.aside.drifted = match mine.len() {
                0 => None,
                count if count > PLACES => Some(format!("{}; and {} more", mine[..PLACES].join("; "), count - PLACES)),
                _ => Some(mine.join("; ")),
            };
        }
    }

    /// The transaction. If it fails: whose property it was, nobody if that cannot be told.
    async fn apply(&mut self, merged: &Merged, open: &BTreeSet<Owner>) -> Result<(), (BTreeSet<Owner>, Failure)> {
        let nobody = |failure: Failure| (BTreeSet::new(), failure);
        let plan = |message: String| Failure::new(Phase::Plan, message);
        let references = secrets::references(&merged.state).map_err(|error| nobody(plan(error.to_string())))?;
        let settings = self.enactor.settings.clone();
        let found = match references.is_empty() {
            true => Default::default(),
            false => cluster_secrets::read(&settings.client, &settings.namespace, &references)
                .await
                .map_err(|error| nobody(plan(error.to_string())))?,
        };
        let filled = secrets::fill(&merged.state, &found).map_err(|error| {
            let who = self.items.iter().filter(|item| secrets::fill(&item.rendered.desired, &found).is_err()).map(|item| item.wish.owner());
            (who.collect(), plan(error.to_string()))
        })?;
        cluster_secrets::remember(&settings.transactor.dir, &merged.state).map_err(|error| nobody(plan(error.to_string())))?;
        let desired = state::parse(&filled).map_err(|error| nobody(plan(error.to_string())))?;
        self.tell_progress(open).await;
        let mut probes: Vec<Target> = Vec::new();
        for item in self.items.iter().filter(|item| open.contains(&item.wish.owner()) || item.aside.drifted.is_some()) {
            let (_, spec) = item.wish.granted.as_ref().map_or((0, None), |(generation, spec)| (*generation, Some(spec)));
            probes.extend(spec.into_iter().flat_map(|spec| spec.probes.iter().flatten()).filter_map(Target::of));
        }
        let who = if open.is_empty() { "drift".to_owned() } else { open.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") };
        // What takes the change back must not be lost if the agent is killed right after it: it is written down with the change.
        let noted = self.noted(open);
        let note = noted.note().map_err(|error| nobody(plan(error.to_string())))?;
        let change = Change { desired, what: who, probes, secrets: found.values().cloned().collect(), note: Some(note) };
        let _hold = settings.observer.as_ref().map(Observer::hold);
        self.report.changed = true;
        match settings.transactor.run(change).await {
            Ok(done) => {
                self.enactor.store = noted;
                if done == Done::Nothing {
                    self.enactor.save();
                }
                Ok(())
            }
            Err(failure) => {
                // A probe says that something is out of reach, not whose fault that is.
                let owners = failure.said.as_deref().map(|said| blame(merged, said).owners);
                Err((owners.unwrap_or_default(), failure))
            }
        }
    }

    async fn tell_progress(&mut self, open: &BTreeSet<Owner>) {
        for item in self.items.iter_mut().filter(|item| open.contains(&item.wish.owner())) {
            // A retry says so already, and goes on saying it.
            if status::is_true(&item.wish.status, "Progressing") && item.wish.status.observed_generation == Some(item.wish.observed) {
                continue;
            }
            let status = Status { retry_count: item.wish.status.retry_count.clone(), ..base(item) };
            self.enactor.write(&mut item.wish, item.uid.clone(), &State::Progressing, &item.aside, status).await;
        }
    }

    /// What is known of policies once those that are open are applied on the host as it is.
    fn noted(&self, open: &BTreeSet<Owner>) -> Store {
        let mut store = self.enactor.store.clone();
        for item in self.items.iter().filter(|item| open.contains(&item.wish.owner())) {
            if let (Decision::Granted, Some((generation, _))) = (item.wish.decision, &item.wish.granted) {
                store.applied(&item.wish.policy, *generation, item.rendered.desired.clone(), &self.current);
            }
        }
        store
    }

    fn succeed(&mut self, open: &BTreeSet<Owner>) {
        for item in self.items.iter_mut().filter(|item| open.contains(&item.wish.owner())) {
            self.enactor.attempts.done(&item.wish.policy);
            let message = if item.wish.decision == Decision::Revert { status::REVERTED } else { status::RECONCILED };
            let outcome = self.enactor.interrupted.as_ref().map(|interrupted| Outcome {
                phase: Some(interrupted.phase.to_string()),
                message: Some(interrupted.to_string()),
                ..Outcome::default()
            });
            item.settled = Some((State::Available { message }, outcome));
        }
        if !open.is_empty() {
            self.enactor.interrupted = None;
        }
        if let Some(own) = &self.own {
            self.enactor.own_done = Some(own.state.clone());
            self.enactor.own_tries = None;
            self.report.own = Some(Ok(()));
        }
    }

    /// Whether the others are tried again without those who failed.
    fn fail(&mut self, mut blamed: BTreeSet<Owner>, open: &BTreeSet<Owner>, failure: &Failure) -> bool {
        tracing::warn!(%failure, ?blamed, "the change failed and was rolled back");
        // Only those who take part can fail; with nobody to blame it is all who changed something.
        blamed.retain(|owner| {
            open.contains(owner) || self.items.iter().any(|item| item.wish.owner() == *owner && item.aside.drifted.is_some())
        });
        if blamed.is_empty() {
            blamed.clone_from(open);
        }
        if blamed.is_empty() {
            let corrected = self
                .items
                .iter()
                .filter(|item| item.aside.drifted.is_some() && item.standing == Standing::Done && item.wish.corrects_drift());
            blamed = corrected.map(|item| item.wish.owner()).collect();
        }
        let own_is_meant = blamed.is_empty() || blamed.contains(&Owner::Node);
        if own_is_meant && self.own.take().is_some() {
            self.report.own = Some(Err(failure.clone()));
            let wait = self.enactor.own_failed();
            self.again_in(wait);
        }
        let mut any = own_is_meant;
        let mut waits = Vec::new();
        for item in &mut self.items {
            if !blamed.contains(&item.wish.owner()) {
                continue;
            }
            any = true;
            let kept = self.enactor.store.get(&item.wish.policy).map_or_else(state::empty, |applied| applied.desired.clone());
            item.rendered.desired = kept;
            let (count, again) = self.enactor.attempts.failed(&item.wish, self.enactor.settings.retries, Instant::now());
            let counts = BTreeMap::from([(item.wish.generation.to_string(), i64::from(count))]);
            item.wish_retry_count(counts);
            let max = self.enactor.settings.retries.max;
            let state = if again && failure.may_pass() {
                waits.push(self.enactor.attempts.wait(&item.wish, Instant::now()).unwrap_or_default());
                let message = format!(
                    "failed to reconcile NodeNetworkConfigurationPolicy {} at desired state apply: {failure}. Retrying {count}/{max}",
                    item.wish.policy
                );
                State::Retrying { message }
            } else {
                State::Failed { message: failure.to_string() }
            };
            item.standing = Standing::Failed;
            item.settled = Some((state, Some(status::outcome(failure))));
        }
        waits.into_iter().for_each(|wait| self.again_in(wait));
        any && (self.items.iter().any(Item::is_open) || self.own.is_some())
    }

    async fn put_ports_back(&self, merged: &Merged) {
        let bridges = secrets::conceal(&merged.state).ok().and_then(|state| state::parse(&state).ok()).map(|state| bridges(&state));
        self.enactor.settings.transactor.put_ports_back(&bridges.unwrap_or_default()).await;
    }

    /// The last word on an enactment in this pass.
    async fn tell(&mut self, index: usize) {
        let item = &mut self.items[index];
        let (state, outcome) = match item.settled.take() {
            Some(settled) => settled,
            None if item.wish.decision == Decision::Unknown => return,
            // Nothing new: only what may hold beside it.
            None => {
                let Some(state) = State::of(&item.wish.status) else { return };
                (state, item.wish.status.outcome.clone())
            }
        };
        match state {
            State::Failed { .. } => self.report.failing += 1,
            State::Retrying { .. } | State::Pending | State::Progressing => self.report.open += 1,
            _ => {}
        }
        let done = matches!(state, State::Available { .. });
        let retry_count = if done { None } else { item.wish.status.retry_count.clone() };
        let mut status = Status { outcome, retry_count, ..base(item) };
        if done && item.standing != Standing::Done {
            status.features = features(&item.rendered.desired, &self.current);
        }
        if !self.enactor.write(&mut item.wish, item.uid.clone(), &state, &item.aside, status).await {
            self.again_in(WRITE_AGAIN);
        }
    }
}

impl Item {
    fn wish_retry_count(&mut self, counts: BTreeMap<String, i64>) {
        self.wish.status.retry_count = Some(counts);
    }
}

/// What of a status stays as it is unless something is done.
fn base(item: &Item) -> Status {
    let before = &item.wish.status;
    if item.standing != Standing::Open || item.wish.decision != Decision::Granted {
        return Status {
            desired_state: before.desired_state.clone(),
            captured_states: before.captured_states.clone(),
            features: before.features.clone(),
            ..Status::default()
        };
    }
    let captured =
        item.rendered.captures.iter().map(|(name, state)| (name.clone(), CapturedState { state: Some(state.clone()), meta_info: None }));
    let captured: BTreeMap<_, _> = captured.collect();
    Status {
        desired_state: Some(item.rendered.desired.clone()),
        captured_states: (!captured.is_empty()).then_some(captured),
        ..Status::default()
    }
}

/// What of nmstate a state makes use of, in nmstate's words.
fn features(desired: &Value, current: &Value) -> Vec<String> {
    let concealed = secrets::conceal(desired).ok();
    let statistic = concealed.and_then(|desired| state::parse(&desired).ok()?.statistic(&state::parse(current).ok()?).ok());
    let features = statistic.and_then(|statistic| serde_json::to_value(statistic.features).ok());
    let mut features: Vec<String> = features.and_then(|features| serde_json::from_value(features).ok()).unwrap_or_default();
    features.sort();
    features
}

/// Whose a difference is: of those who want just this place or one above it, else of those who want something below it.
fn owners(merged: &Merged, difference: &Difference) -> BTreeSet<Owner> {
    let above = merged.owners.iter().filter(|(path, _)| path.covers(&difference.path)).max_by_key(|(path, _)| path.0.len());
    match above {
        Some((_, owners)) => owners.clone(),
        None => merged.owners.iter().filter(|(path, _)| difference.path.covers(path)).flat_map(|(_, owners)| owners.clone()).collect(),
    }
}
