//! One pass over one resource: what else must be known, what is wanted, what is there, what is
//! done, what came of it.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use weft_plan::Live;

use futures::future::join_all;
use jiff::Timestamp;
use rand::RngCore;
use serde_json::{Value, json};
use weft_plan::{
    Decision, Deviation, Domain, Drift, Facts, Hold, Input, Inventory, Kind, Manifest, Notice,
    ObjectKey, Owner, Refusal, Stage, Unit, Wait, deletion, drift, is_at_rest, kinds, owned,
    report::{Blocked, Failure, FailureClass, Paused, Removal, Report, UnitReport},
};

use crate::{
    reconcile::certificates,
    reconcile::controller::Controller,
    reconcile::disown,
    reconcile::objects::{Applied, Objects},
    reconcile::outcome::{Outcome, reported},
    reconcile::retry::Retries,
    reconcile::seniority,
    reconcile::status,
    reconcile::stored::{self, Stored, StoredError},
    store::watch::Shared,
};

/// What is said of a panic in a pass: a defect must not end the operator.
pub fn defect(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    tracing::error!(message, "a pass panicked");
    format!("a defect of Weft, please report it: {message}")
}

/// The finalizer that lets Weft remove a resource's objects in order before the resource goes.
pub const FINALIZER: &str = "weft.network/teardown";

/// Applies a resource that is wanted. `retries` knows what has failed before.
pub async fn apply(controller: &Controller, resource: &Value, retries: &Arc<Retries>) -> Outcome {
    let owner = Owner::of(&*controller.domain, resource);
    let objects = controller
        .objects(owner.clone())
        .with_retries(Arc::clone(retries));
    let generation = Live::of(resource).generation();
    let paused = drift::pause(resource).map(|value| Paused {
        value: value.to_owned(),
        pending: false,
    });
    let mut report = Report {
        generation,
        paused,
        ..Report::default()
    };

    if let Some(blocked) = held_by_another(&*controller.domain, &controller.shared) {
        report.blocked = Some(blocked);
        return Outcome::early(report, Vec::new());
    }
    let all = controller.shared.lock().resources();
    report.refusal = seniority::refused(
        &*controller.domain,
        resource,
        all.iter().map(|other| &**other),
    );
    if report.refusal.is_some() {
        return Outcome::early(report, Vec::new());
    }
    if report.paused.is_none() && !has_finalizer(resource) && disown::is_needed(&objects, resource)
    {
        // First of all, so that a deletion waits for Weft, whatever is wrong with the resource.
        if let Err(error) = keep_objects(&objects, resource).await {
            let key = ObjectKey::new(controller.domain.resource(), "", &owner.name);
            return unusable(report, key, error.class(), &error.to_string());
        }
    }
    // Dereference.
    let stored = match stored::read(&objects, &controller.config.namespace).await {
        Ok(stored) => stored,
        Err(error) => {
            let class = match &error {
                StoredError::Request(error) => error.class(),
                // Without its label, no watch reports the repair.
                StoredError::Damaged { .. } => FailureClass::Refused,
            };
            return unusable(
                report,
                stored::inventory_key(&controller.config.namespace, &owner),
                class,
                &error.to_string(),
            );
        }
    };
    // Validate and build.
    let facts = controller.shared.lock().facts();
    let mut random = |bytes: &mut [u8]| rand::rng().fill_bytes(bytes);
    let (decision, refusal) = decide(&*controller.domain, resource, &stored, &facts, &mut random);
    report.refusal = refusal;
    let Some(decision) = decision else {
        return Outcome::early(report, Vec::new());
    };
    let mut units = owned(decision.units.clone(), &owner, |unit| {
        controller.domain.outlives(unit)
    });
    if !controller.builds(&units) {
        // Some of it is in places that are not watched yet. Their first answer triggers another
        // reconcile.
        return Outcome::early(report, Vec::new());
    }
    let live = certificates::read(&objects, &decision.certificates).await;
    let filled = certificates::fill(
        &objects,
        &decision.certificates,
        &live,
        &mut units,
        Timestamp::now(),
    );
    let asked_for = Inventory::of(&units, &decision.made_by_operands, decision.decided.clone());
    let mut wanted = asked_for.clone();
    // What operands made stays listed until the resource goes: only then have their pods ended for
    // sure and make it no more.
    wanted
        .made_by_operands
        .extend(stored.inventory.made_by_operands.iter().cloned());
    let hold = Hold::of(resource, decision.drift, &stored.inventory, &units);
    wanted.applied = hold.unchanged();
    let recording = Recording::of(
        &*controller.domain,
        &stored,
        &decision,
        report.refusal.is_some(),
    );
    wanted.recorded = recording.is_done(
        &stored.inventory,
        stored.inventory.decided.as_ref() == Some(&decision.decided),
    );
    let objects = objects.with_hold(hold);
    if report.paused.is_some() {
        report.notices = decision.notices;
        let surplus = stored.inventory.surplus(&asked_for, &facts, |_| false);
        return look(
            controller,
            &objects,
            units,
            surplus,
            &decision.decided,
            &stored.inventory,
            report,
        )
        .await;
    }

    // Apply.
    let first_word = acknowledge(controller, resource, &report, &units);
    if let Err(failure) = prepare(
        &objects,
        controller,
        resource,
        &stored.inventory,
        &wanted,
        first_word,
    )
    .await
    {
        report.units = units
            .iter()
            .map(|unit| UnitReport {
                name: unit.name.clone(),
                failures: Vec::new(),
                workloads: Vec::new(),
            })
            .collect();
        if let Some(unit) = report.units.first_mut() {
            unit.failures.push(failure);
        }
        return Outcome::early(report, units);
    }
    // Not before it is in the inventory: a pass after a crash may draw another MAC range.
    report.effective = Some(decision.decided.clone());
    let waiting = waiting(&filled.failures, &decision.waits);
    let applied = join_all(
        units
            .iter()
            .map(async |unit| match waiting.get(&*unit.name) {
                Some(failures) => Applied {
                    failures: failures.clone(),
                    ..Applied::default()
                },
                None => objects.apply_unit(unit).await,
            }),
    )
    .await;
    let has_failed = |name: &str| {
        units
            .iter()
            .zip(&applied)
            .any(|(unit, applied)| unit.name == name && !applied.failures.is_empty())
    };
    let surplus = stored.inventory.surplus(&asked_for, &facts, has_failed);
    report.removals = remove(&objects, &surplus).await;
    let clean = report.removals.is_empty() && applied.iter().all(|unit| unit.failures.is_empty());
    wanted
        .applied
        .extend(applied.iter().flat_map(|unit| unit.digests.clone()));
    let is_recorded =
        |unit: Option<&String>| unit.is_none_or(|unit| controller.domain.is_recorded(unit));
    let recorded_units_are_done = units.iter().zip(&applied).all(|(unit, applied)| {
        applied.failures.is_empty() || !controller.domain.is_recorded(&unit.name)
    }) && !report
        .removals
        .iter()
        .any(|removal| is_recorded(stored.inventory.objects.get(&removal.object)));
    if !clean {
        // What there was before stays listed, but for what is gone for sure. What did succeed is
        // known to be applied, whatever holds up the rest.
        let stays = |key: &ObjectKey| {
            !surplus.contains(key) || report.removals.iter().any(|removal| removal.object == *key)
        };
        wanted = stored.inventory.clone().and(&wanted);
        wanted.objects.retain(|key, _| stays(key));
    }
    if recorded_units_are_done {
        settle(
            &objects,
            controller,
            wanted,
            &decision,
            recording,
            &mut report,
        )
        .await;
    } else {
        note(&objects, controller, &wanted, &mut report).await;
    }

    // Report.
    report.notices = decision.notices;
    report
        .notices
        .extend(recording.notice(&stored, decision.record.as_ref()));
    reported(controller, &objects, units, applied, report, filled.next)
}

/// A pass over a resource that is paused: how everything is, and nothing is written.
async fn look(
    controller: &Controller,
    objects: &Objects,
    units: Vec<Unit>,
    surplus: Vec<ObjectKey>,
    decided: &Value,
    stored: &Inventory,
    mut report: Report,
) -> Outcome {
    let found = join_all(units.iter().map(|unit| objects.apply_unit(unit))).await;
    for object in surplus {
        let live = controller.shared.lock().owned(&object);
        if live.is_some_and(|live| objects.may_remove(&object, &live)) {
            report.drift.push(Drift {
                unit: String::new(),
                object,
                deviation: Deviation::Unwanted,
            });
        }
    }
    let differs = !report.drift.is_empty() || found.iter().any(|unit| !unit.drift.is_empty());
    if let Some(paused) = &mut report.paused {
        paused.pending = differs && stored.decided.as_ref() != Some(decided);
    }
    report.effective.clone_from(&stored.decided);
    reported(controller, objects, units, found, report, None)
}

/// Why units are not applied, by their names.
pub(crate) fn waiting<'a>(
    certificates: &'a HashMap<String, Vec<Failure>>,
    waits: &'a [Wait],
) -> BTreeMap<&'a str, Vec<Failure>> {
    let mut all: BTreeMap<&str, Vec<Failure>> = certificates
        .iter()
        .map(|(unit, failures)| (&**unit, failures.clone()))
        .collect();
    for Wait {
        unit,
        object,
        class,
        message,
        ..
    } in waits
    {
        all.entry(unit).or_default().push(Failure {
            object: object.clone(),
            class: *class,
            message: message.clone(),
        });
    }
    all
}

/// Whether the operator that Weft replaces runs, or may run, by what the watches of the domain say:
/// then nothing is written in it.
pub fn held_by_another(domain: &dyn Domain, shared: &Shared) -> Option<Blocked> {
    let operators = shared.lock().operators();
    blocked(domain, operators.iter().map(|operator| &**operator)).or_else(|| blindfolded(shared))
}

/// Whether the operator that Weft replaces runs, or what it has left is in the way, among these
/// objects. One that is scaled to zero is not.
pub(crate) fn blocked<'a>(
    domain: &dyn Domain,
    operators: impl Iterator<Item = &'a Value>,
) -> Option<Blocked> {
    blocked_by(domain, operators, |original| !is_at_rest(original))
}

/// The operator that Weft replaces, or what it has left, among these objects, as far as it counts.
/// Of several the one whose name the domain gives first, so that the same is said each time.
pub(crate) fn blocked_by<'a>(
    domain: &dyn Domain,
    operators: impl Iterator<Item = &'a Value>,
    counts: impl Fn(&Value) -> bool,
) -> Option<Blocked> {
    let rank = |workload: &&Value| {
        let is_it = |(kind, name): &(Kind, &str)| {
            workload["kind"] == kind.kind && Live::of(workload).name() == *name
        };
        let place = domain
            .operators()
            .iter()
            .position(is_it)
            .unwrap_or(usize::MAX);
        (
            place,
            Live::of(workload).namespace().to_owned(),
            Live::of(workload).name().to_owned(),
        )
    };
    let originals = domain.originals(&operators.collect::<Vec<_>>());
    originals
        .into_iter()
        .filter(|original| counts(original))
        .min_by_key(rank)
        .map(in_the_way)
}

/// Why Weft writes nothing while this object of another operator is there, and how to remove it.
pub(crate) fn in_the_way(theirs: &Value) -> Blocked {
    let theirs = Live::of(theirs);
    let (kind, namespace, name) = (theirs.kind(), theirs.namespace(), theirs.name());
    let lower = kind.to_lowercase();
    if namespace.is_empty() {
        // What it has left: asked by the API server, it refuses what nobody answers for.
        let message = format!(
            "{kind} {name} is of another operator for the same resource, so Weft writes nothing. Remove it, and Weft goes on by itself: kubectl delete {lower} {name}"
        );
        return match kind == kinds::VALIDATING_ADMISSION_POLICY.kind {
            true => Blocked {
                reason: "OtherAdmissionPolicy",
                message,
            },
            false => Blocked {
                reason: "OtherWebhooks",
                message,
            },
        };
    }
    let message = format!(
        "{kind} {namespace}/{name} is another operator for the same resource, so Weft writes nothing. Remove it, and Weft goes on by itself: kubectl -n {namespace} delete {lower} {name}"
    );
    Blocked {
        reason: "OtherOperatorRunning",
        message,
    }
}

/// Whether we may not even look if that operator is there.
fn blindfolded(shared: &Shared) -> Option<Blocked> {
    let cache = shared.lock();
    let why = cache.blind_to_operators()?;
    let message = format!(
        "Weft cannot see whether another operator for the same resource runs, so it writes nothing: {why}"
    );
    Some(Blocked {
        reason: "Forbidden",
        message,
    })
}

/// Nothing may be written: say so under the one object that is the matter.
fn unusable(mut report: Report, object: ObjectKey, class: FailureClass, message: &str) -> Outcome {
    let failure = Failure {
        object,
        class,
        message: message.to_owned(),
    };
    report.units.push(UnitReport {
        name: "inventory".to_owned(),
        failures: vec![failure],
        workloads: Vec::new(),
    });
    Outcome::early(report, Vec::new())
}

/// Makes a deletion of the resource wait for Weft, and no object go with it that is to stay.
async fn keep_objects(
    objects: &Objects,
    resource: &Value,
) -> Result<(), crate::api_server::cluster::Error> {
    put_finalizer(
        objects,
        &ObjectKey::new(objects.owner.kind, "", &objects.owner.name),
        resource,
    )
    .await?;
    disown::disown(objects, resource).await
}

fn has_finalizer(resource: &Value) -> bool {
    Live::of(resource).has_finalizer(FINALIZER)
}

/// What the resource leads to. If it is refused, the last good configuration goes on being kept in
/// order.
pub(crate) fn decide(
    domain: &dyn Domain,
    resource: &Value,
    stored: &Stored,
    facts: &Facts,
    random: &mut dyn FnMut(&mut [u8]),
) -> (Option<Decision>, Option<Refusal>) {
    // Where an operator has left a record and no inventory, that is the last good one.
    let recorded = || {
        stored
            .record
            .as_deref()
            .filter(|_| domain.is_forced_without_record())
            .and_then(|text| serde_json::from_str(text).ok())
    };
    let decided = stored.inventory.decided.clone().or_else(recorded);
    let decided = decided.as_ref();
    let mut decide = |resource: &Value| {
        domain.decide(Input {
            resource,
            record: stored.record.as_deref(),
            decided,
            facts,
            random,
        })
    };
    match decide(resource) {
        Ok(decision) => (Some(decision), None),
        Err(refusal) => {
            let last_good = decided.and_then(|decided| {
                let mut before = resource.clone();
                before["spec"] = decided.clone();
                decide(&before).ok()
            });
            (last_good, Some(refusal))
        }
    }
}

/// The first word on a generation that status does not know yet, so that nobody takes the old
/// conditions for an answer.
fn acknowledge(
    controller: &Controller,
    resource: &Value,
    report: &Report,
    units: &[Unit],
) -> Option<Value> {
    let known = Live::of(resource).observed_generation() >= report.generation;
    if known || report.refusal.is_some() {
        return None;
    }
    let starting = Report {
        starting: true,
        ..report.clone()
    };
    status::changed(controller, resource, &starting, units)
}

/// Before the first write: the finalizer on the resource, old and new names in the inventory, and
/// the first word in status.
async fn prepare(
    objects: &Objects,
    controller: &Controller,
    resource: &Value,
    before: &Inventory,
    wanted: &Inventory,
    first_word: Option<Value>,
) -> Result<(), Failure> {
    let key = ObjectKey::new(controller.domain.resource(), "", &objects.owner.name);
    let both = before.clone().and(wanted);
    let finalizer = async {
        if has_finalizer(&controller.latest(resource)) {
            Ok(())
        } else {
            put_finalizer(objects, &key, resource).await
        }
    };
    let inventory = stored::write_inventory(objects, &controller.config.namespace, &both);
    let word = async {
        if let Some(word) = first_word {
            // Should it fail, the pass says more in a moment, and that is tried again.
            let _ = status::write(controller, resource, &word).await;
        }
    };
    let (finalizer, inventory, ()) = futures::join!(finalizer, inventory, word);
    let failed = |object: ObjectKey, error: crate::api_server::cluster::Error| Failure {
        object,
        class: error.class(),
        message: error.to_string(),
    };
    finalizer.map_err(|e| failed(key.clone(), e))?;
    inventory.map_err(|e| {
        failed(
            stored::inventory_key(&controller.config.namespace, &objects.owner),
            e,
        )
    })
}

/// Puts our finalizer on the resource. The uid keeps the apply from making a resource that was just
/// deleted.
async fn put_finalizer(
    objects: &Objects,
    key: &ObjectKey,
    resource: &Value,
) -> Result<(), crate::api_server::cluster::Error> {
    let body = json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.kind,
        "metadata": {"name": key.name, "uid": resource["metadata"]["uid"], "finalizers": [FINALIZER]},
    });
    let written = objects
        .cluster
        .apply(key, &body, &objects.owner.manager)
        .await?;
    objects.remember(&written);
    Ok(())
}

/// Takes our finalizer off the resource.
pub(crate) async fn take_finalizer(
    objects: &Objects,
    key: &ObjectKey,
    resource: &Value,
) -> Result<(), crate::api_server::cluster::Error> {
    objects
        .cluster
        .take_finalizer(key, resource, FINALIZER, &objects.owner.manager)
        .await
}

/// What to do about the record of what is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// It is written; its absence says nothing.
    Plain,
    /// It is written, and that this is done is noted: if it is gone afterwards, somebody wants the
    /// next change to be carried out whatever it is.
    Noted,
    /// It stays as it is, gone if somebody has deleted it: the configuration in force is no other
    /// one.
    Left,
}

impl Recording {
    fn of(domain: &dyn Domain, stored: &Stored, decision: &Decision, refused: bool) -> Self {
        let unchanged = stored.inventory.decided.as_ref() == Some(&decision.decided);
        match domain.is_forced_without_record() {
            false => Self::Plain,
            // It was there when this pass began, else the change would not be refused. By now
            // somebody may have deleted it.
            true if refused => Self::Left,
            true if stored.record.is_none() && stored.inventory.recorded && unchanged => Self::Left,
            true => Self::Noted,
        }
    }

    /// What somebody may not be aware of.
    fn notice(self, stored: &Stored, record: Option<&Manifest>) -> Option<Notice> {
        let record = record.filter(|_| self == Self::Left && stored.record.is_none())?;
        let message = "somebody has deleted it: the next change is carried out whatever it does, and it is made anew then".to_owned();
        Some(Notice {
            about: record.key().human(),
            message,
        })
    }

    /// Whether the record is known to have been written for what is wanted now.
    fn is_done(self, before: &Inventory, unchanged: bool) -> bool {
        match self {
            Self::Plain => false,
            Self::Left => before.recorded,
            Self::Noted => before.recorded && unchanged,
        }
    }
}

/// Everything that the record tells of is applied and pruned: the record for the original, and the
/// names of what there is now.
async fn settle(
    objects: &Objects,
    controller: &Controller,
    mut wanted: Inventory,
    decision: &Decision,
    recording: Recording,
    report: &mut Report,
) {
    let record = async {
        match decision
            .record
            .as_ref()
            .filter(|_| recording != Recording::Left)
        {
            Some(record) => stored::write_record(objects, record)
                .await
                .map_err(|e| (record.key().clone(), e)),
            None => Ok(()),
        }
    };
    let written = if recording == Recording::Noted {
        // The note must not be earlier than what it tells.
        let written = record.await;
        wanted.recorded |= written.is_ok();
        note(objects, controller, &wanted, report).await;
        written
    } else {
        futures::join!(record, note(objects, controller, &wanted, report)).0
    };
    if let Err((object, error)) = written {
        unwritten(report, object, &error);
    }
}

/// Makes the inventory this one.
async fn note(
    objects: &Objects,
    controller: &Controller,
    inventory: &Inventory,
    report: &mut Report,
) {
    let namespace = &controller.config.namespace;
    if let Err(error) = stored::write_inventory(objects, namespace, inventory).await {
        unwritten(
            report,
            stored::inventory_key(namespace, &objects.owner),
            &error,
        );
    }
}

fn unwritten(report: &mut Report, object: ObjectKey, error: &crate::api_server::cluster::Error) {
    const NAME: &str = "inventory";
    let failure = Failure {
        object,
        class: error.class(),
        message: error.to_string(),
    };
    match report.units.iter_mut().find(|unit| unit.name == NAME) {
        Some(unit) => unit.failures.push(failure),
        None => report.units.push(UnitReport {
            name: NAME.to_owned(),
            failures: vec![failure],
            workloads: Vec::new(),
        }),
    }
}

/// What keeps an object that is being deleted.
fn held_by(object: &Value) -> Option<String> {
    object["metadata"]["finalizers"]
        .as_array()
        .filter(|all| !all.is_empty())?;
    Some(format!(
        "is being deleted, and waits for {}",
        deletion::waits_for(object, None)
    ))
}

/// Deletes what is no longer wanted, later stages first. Returns what could not be deleted or is
/// still held.
pub(crate) async fn remove(objects: &Objects, surplus: &[ObjectKey]) -> Vec<Removal> {
    let mut left = Vec::new();
    for stage in Stage::ALL.iter().rev() {
        let keys: Vec<_> = surplus
            .iter()
            .filter(|key| Stage::of(key.kind) == *stage)
            .collect();
        let outcomes = join_all(keys.iter().map(|key| async move {
            let blocker = match objects.remove(key).await {
                Ok(left) => left.map(|object| held_by(&object))?,
                Err(error) => Some(error.to_string()),
            };
            Some(Removal {
                object: (*key).clone(),
                blocker,
            })
        }))
        .await;
        left.extend(outcomes.into_iter().flatten());
    }
    left
}
