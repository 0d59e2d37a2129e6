//! The outcome of a reconcile, from the results for the objects and the rollout of the workloads.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;
use weft_plan::{
    Drift, Notice, ObjectKey, Unit, kinds,
    report::{Failure, FailureClass, Report, UnitReport, WorkloadReport},
    rollout::{self, PodView, Rollout},
};

use crate::{
    api_server::clock,
    reconcile::{
        confirm::{self, Missing},
        context::Context,
        objects::{Applied, Objects},
        starts::Starts,
    },
    store::cache::Source,
};

/// The outcome of a reconcile, and the time of the next one if nothing changes before.
pub struct Outcome {
    /// The report for status.
    pub report: Report,
    /// The units as they were applied.
    pub units: Vec<Unit>,
    /// Objects of these units that are left as they are.
    pub left: HashSet<ObjectKey>,
    /// When something changes by time alone.
    pub deadline: Option<Timestamp>,
}

impl Outcome {
    /// Returns the outcome of a reconcile that applied nothing.
    pub(crate) fn early(report: Report, units: Vec<Unit>) -> Self {
        Self {
            report,
            units,
            left: HashSet::new(),
            deadline: None,
        }
    }

    /// Returns the failures of all units.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.report.units.iter().flat_map(|unit| &unit.failures)
    }

    /// Reports whether the reconcile did nothing because our own notes were newer than the store.
    /// By now the store has them.
    pub fn is_outdated(&self, context: &Context) -> bool {
        let is_note = |key: &ObjectKey| {
            key.kind == kinds::CONFIG_MAP
                && key.namespace.as_ref() == Some(&context.config.namespace)
        };
        let mut failures = self.failures().peekable();
        failures.peek().is_some()
            && failures
                .all(|failure| failure.class == FailureClass::Conflict && is_note(&failure.object))
    }

    /// Reports whether a deletion is held up.
    pub(crate) fn is_held_up(&self) -> bool {
        self.report
            .removals
            .iter()
            .any(|removal| removal.blocker.is_some())
    }
}

/// Makes the report after all objects were looked at, and sets the watches of single objects.
/// `next` is the time when a certificate is due.
pub async fn reported(
    context: &Context,
    objects: &Objects,
    units: Vec<Unit>,
    applied: Vec<Applied>,
    mut report: Report,
    next: Option<Timestamp>,
) -> Outcome {
    let now = clock::now();
    if let Some(retries) = objects.retries() {
        let manifests = units.iter().flat_map(|unit| &unit.objects);
        let wanted: HashSet<_> = manifests.map(weft_plan::Manifest::key).collect();
        retries.retain(|object| wanted.contains(object));
    }
    let starts = objects.retries().map(|retries| &retries.starts);
    let next_look = match starts {
        Some(starts) => {
            let pods = unexplained(context, starts, &units, &applied);
            starts.look(&context.cluster, &pods, now).await
        }
        None => None,
    };
    let foreign = applied
        .iter()
        .flat_map(|unit| &unit.failures)
        .filter(|failure| failure.class == FailureClass::Foreign);
    let held = applied
        .iter()
        .flat_map(|unit| &unit.drift)
        .map(|drift| &drift.object);
    // No watch by our label shows an object that has lost it.
    let unlabelled: HashSet<_> = held
        .filter(|key| context.shared.lock().owned(key).is_none())
        .cloned()
        .collect();
    let expected = unlabelled.iter().filter(|key| objects.expects(key));
    context.reach.watch_named(
        &units,
        foreign
            .map(|failure| &failure.object)
            .chain(expected)
            .cloned(),
    );
    let mut left = unlabelled;
    for (unit, mut applied) in units.iter().zip(applied) {
        applied.failures.extend(unseen(context, unit));
        for one in applied.left {
            report.notices.push(Notice {
                about: unit.name.clone(),
                message: format!("{} {}", one.object.human(), one.why),
            });
            left.insert(one.object);
        }
        report
            .drift
            .extend(applied.drift.into_iter().filter(Drift::is_visible));
        report.units.push(UnitReport {
            name: unit.name.clone(),
            failures: applied.failures,
            workloads: workloads(context, starts, unit, &applied.unlabelled, now),
        });
    }
    report.drift.sort_by_key(Drift::rank);
    let deadline = report
        .units
        .iter()
        .flat_map(|unit| &unit.workloads)
        .filter_map(|workload| match workload.rollout {
            Rollout::Progressing { deadline, .. } => deadline,
            _ => None,
        });
    Outcome {
        deadline: deadline.chain(next).chain(next_look).min(),
        report,
        units,
        left,
    }
}

/// Returns the objects of a unit that cannot be watched. They are applied by reading each object,
/// but nobody would notice a change.
fn unseen(context: &Context, unit: &Unit) -> Vec<Failure> {
    let cache = context.shared.lock();
    let failure = |object: &ObjectKey, why: &str| Failure {
        object: object.clone(),
        class: FailureClass::Forbidden,
        message: format!("cannot be watched: {why}"),
    };
    let mut failures: Vec<Failure> = Vec::new();
    for object in &unit.objects {
        let key = object.key();
        let inputs = rollout::inputs(object.body())
            .into_iter()
            .map(|input| (cache.refusal(&Source::Named(input.clone())), input));
        let pods = is_workload(key).then(|| (cache.refusal(&Source::Pods), key.clone()));
        let all = inputs
            .chain(pods)
            .chain([(cache.blind_to(key), key.clone())]);
        for (why, object) in all.filter_map(|(why, object)| Some((why?, object))) {
            let failure = failure(&object, why);
            // Once for each cause.
            if failures
                .iter()
                .all(|known| known.message != failure.message)
            {
                failures.push(failure);
            }
        }
    }
    failures
}

/// Reports whether the object rolls out pods, or another domain of Weft makes workloads of it.
fn is_workload(key: &ObjectKey) -> bool {
    matches!(
        key.kind,
        kinds::DAEMON_SET | kinds::DEPLOYMENT | kinds::NMSTATE
    )
}

/// Returns the pods, one of a workload at most, whose events may have the cause why the workload is
/// not ready.
fn unexplained(
    context: &Context,
    starts: &Starts,
    units: &[Unit],
    applied: &[Applied],
) -> Vec<PodView> {
    let cache = context.shared.lock();
    starts.retain(cache.pods());
    if !cache.pods().any(|pod| pod.is_starting) {
        return Vec::new();
    }
    let mut pods = Vec::new();
    for (unit, applied) in units.iter().zip(applied) {
        for key in unit.objects.iter().map(weft_plan::Manifest::key) {
            if !is_workload(key) {
                continue;
            }
            let live = cache
                .owned(key)
                .or_else(|| applied.unlabelled.get(key).cloned());
            let pod = live.and_then(|live| rollout::unexplained(&live, cache.pods()).cloned());
            pods.extend(pod);
        }
    }
    pods
}

/// How the workloads of a unit roll out. `unlabelled` are those that no watch by our label shows.
fn workloads(
    context: &Context,
    starts: Option<&Starts>,
    unit: &Unit,
    unlabelled: &HashMap<ObjectKey, Arc<Value>>,
    now: Timestamp,
) -> Vec<WorkloadReport> {
    let cache = context.shared.lock();
    let explained = starts.map(|starts| starts.explained(cache.pods()));
    let explained = explained.unwrap_or_default();
    let of_unit = unit
        .objects
        .iter()
        .map(weft_plan::Manifest::key)
        .filter(|key| is_workload(key) && cache.blind_to(key).is_none());
    of_unit
        .map(|key| {
            let rollout = match cache.owned(key).or_else(|| unlabelled.get(key).cloned()) {
                None => Rollout::Progressing {
                    message: "does not exist yet".to_owned(),
                    deadline: None,
                },
                Some(live) => {
                    let missing: Vec<_> = rollout::inputs(&live)
                        .into_iter()
                        .filter(|input| {
                            cache.owned(input).is_none() && cache.exists(input) == Some(false)
                        })
                        .collect();
                    let pods = rollout::with_causes(cache.pods(), &explained);
                    rollout::rollout(&live, pods, &missing, now)
                }
            };
            WorkloadReport {
                object: key.clone(),
                rollout,
            }
        })
        .collect()
}

/// Confirms by requests that everything that was applied exists *now*, since watches may be late.
/// An object that is gone leaves the store, so that the next reconcile restores it.
pub async fn confirm(
    context: &Context,
    objects: &Objects,
    outcome: &Outcome,
) -> Result<bool, crate::api_server::cluster::Error> {
    // The report has failed and waiting objects already.
    let has_failed = |name: &str| {
        outcome
            .report
            .units
            .iter()
            .any(|unit| unit.name == name && !unit.failures.is_empty())
    };
    let applied = outcome.units.iter().filter(|unit| !has_failed(&unit.name));
    let there = applied
        .flat_map(|unit| &unit.objects)
        .filter(|object| !outcome.left.contains(object.key()));
    let missing =
        confirm::missing(&context.cluster, &context.shared, &objects.owner, there).await?;
    // An object that is being deleted counts as gone. The next reconcile sees that and reports it.
    Ok(missing == Missing::default())
}
