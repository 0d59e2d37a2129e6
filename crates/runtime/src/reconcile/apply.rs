//! A reconcile of one resource in five steps: dereference, validate, build, apply and report. Each
//! step returns what the next one needs, or the outcome with which the reconcile ends early.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::future::join_all;
use jiff::Timestamp;
use rand::RngCore;
use serde_json::Value;
use weft_plan::{
    Decision, Deviation, Drift, Facts, Freeze, Inventory, Live, ObjectKey, Owner, Unit, Wait,
    drift, dropped, owned,
    report::{Failure, FailureClass, Paused, Report, UnitReport},
};

use crate::{
    api_server::{clock, cluster::Error},
    reconcile::{
        certificates,
        context::Context,
        decide::decide,
        dependents, disown,
        finalizer::{self, FINALIZER},
        objects::Applied,
        originals,
        outcome::{Outcome, reported},
        prune,
        recording::{self, Recording},
        retry::Retries,
        seniority,
        set::SetObjects,
        status,
        stored::{self, Stored, StoredError},
    },
};

/// The outcome of a reconcile that ends before its last step.
struct Early(Box<Outcome>);

/// Applies a resource that is not being deleted. `retries` knows which objects failed before.
pub async fn apply(context: &Context, resource: &Value, retries: &Arc<Retries>) -> Outcome {
    let reconcile = Reconcile::of(context, resource, retries);
    match reconcile.run().await {
        Ok(outcome) => outcome,
        Err(Early(outcome)) => *outcome,
    }
}

/// A reconcile of one resource.
struct Reconcile<'a> {
    context: &'a Context,
    resource: &'a Value,
    owner: Owner,
    objects: SetObjects,
    report: Report,
}

/// The decision about the resource, and the facts that it is based on.
struct Validated {
    decision: Decision,
    facts: Facts,
}

/// The objects that the resource asks for.
struct Built {
    units: Vec<Unit>,
    /// The names of these objects.
    asked_for: Inventory,
    certificates: certificates::Filled,
    freeze: Freeze,
    recording: Recording,
}

/// The result for each unit, in the order of the units.
struct Done {
    units: Vec<Unit>,
    applied: Vec<Applied>,
}

impl<'a> Reconcile<'a> {
    fn of(context: &'a Context, resource: &'a Value, retries: &Arc<Retries>) -> Self {
        let owner = Owner::of(&*context.domain, resource);
        let objects = context
            .objects(owner.clone())
            .with_retries(Arc::clone(retries));
        let paused = drift::pause(resource).map(|value| Paused {
            value: value.to_owned(),
            pending: false,
        });
        let report = Report {
            generation: Live::of(resource).generation(),
            paused,
            ..Report::default()
        };
        Self {
            context,
            resource,
            owner,
            objects,
            report,
        }
    }

    async fn run(mut self) -> Result<Outcome, Early> {
        let stored = self.dereference().await?;
        let validated = self.validate(&stored)?;
        let built = self.build(&stored, &validated).await?;
        let next = built.certificates.next;
        if self.report.paused.is_some() {
            return Ok(self.look(&stored, validated, built).await);
        }
        let notice = built
            .recording
            .notice(&stored, validated.decision.record.as_ref());
        let done = self.apply(&stored, &validated, built).await?;
        self.report.notices = validated.decision.notices;
        self.report.notices.extend(notice);
        Ok(self.report(done, next).await)
    }

    fn early(&mut self, units: Vec<Unit>) -> Early {
        let report = std::mem::take(&mut self.report);
        Early(Box::new(Outcome::early(report, units)))
    }

    /// Ends the reconcile, since nothing may be written: the report names the one object at fault.
    fn unusable(&mut self, object: ObjectKey, class: FailureClass, message: String) -> Early {
        let failure = Failure {
            object,
            class,
            message,
        };
        self.report.units.push(UnitReport {
            name: "inventory".to_owned(),
            failures: vec![failure],
            workloads: Vec::new(),
        });
        self.early(Vec::new())
    }

    fn resource_key(&self) -> ObjectKey {
        ObjectKey::new(self.context.domain.resource(), "", &self.owner.name)
    }

    fn inventory_key(&self) -> ObjectKey {
        stored::inventory_key(&self.context.config.namespace, &self.owner)
    }

    /// Makes sure that Weft may act for this resource, and reads its inventory and record.
    async fn dereference(&mut self) -> Result<Stored, Early> {
        let (context, resource) = (self.context, self.resource);
        if let Some(blocked) =
            originals::held_by_another(&*context.domain, &context.config.namespace, &context.shared)
        {
            self.report.blocked = Some(blocked);
            return Err(self.early(Vec::new()));
        }
        let all = context.shared.lock().resources();
        self.report.refusal =
            seniority::refused(&*context.domain, resource, all.iter().map(|other| &**other));
        if self.report.refusal.is_some() {
            return Err(self.early(Vec::new()));
        }
        if self.report.paused.is_none()
            && !Live::of(resource).has_finalizer(FINALIZER)
            && disown::is_needed(&self.objects, resource)
        {
            // First of all, so that a deletion waits for Weft, whatever is wrong with the resource.
            if let Err(error) = self.keep_objects().await {
                return Err(self.unusable(self.resource_key(), error.class(), error.of_operator()));
            }
        }
        match stored::read(&self.objects, &context.config.namespace).await {
            Ok(stored) => Ok(stored),
            Err(error) => {
                let (class, message) = match &error {
                    StoredError::Request(error) => (error.class(), error.of_operator()),
                    // Without its label, no watch reports the repair.
                    StoredError::Damaged { .. } => (FailureClass::Refused, error.to_string()),
                };
                Err(self.unusable(self.inventory_key(), class, message))
            }
        }
    }

    /// Makes a deletion of the resource wait for Weft, and takes the owner references from objects
    /// that must outlive it.
    async fn keep_objects(&self) -> Result<(), Error> {
        finalizer::put(&self.objects, &self.resource_key(), self.resource).await?;
        disown::disown(&self.objects, self.resource).await
    }

    /// Decides what the resource asks for. A refused resource leads to the last good decision.
    fn validate(&mut self, stored: &Stored) -> Result<Validated, Early> {
        let facts = self.context.shared.lock().facts();
        let mut random = |bytes: &mut [u8]| rand::rng().fill_bytes(bytes);
        let (decision, refusal) = decide(
            &*self.context.domain,
            self.resource,
            stored,
            &facts,
            &mut random,
        );
        self.report.refusal = refusal;
        match decision {
            Some(decision) => Ok(Validated { decision, facts }),
            None => Err(self.early(Vec::new())),
        }
    }

    /// Makes the objects of the decision, certificates included.
    async fn build(&mut self, stored: &Stored, validated: &Validated) -> Result<Built, Early> {
        let (context, decision) = (self.context, &validated.decision);
        let mut units = owned(decision.units.clone(), &self.owner, |unit| {
            context.domain.outlives(unit)
        });
        if !context.reach.builds(&units) {
            // Some of it is in places that are not watched yet. Their first answer triggers another
            // reconcile.
            return Err(self.early(Vec::new()));
        }
        let live = certificates::read(&self.objects, &decision.certificates).await;
        let certificates = certificates::fill(
            &self.objects,
            &decision.certificates,
            &live,
            &mut units,
            clock::now(),
        );
        let asked_for = Inventory::of(&units, &decision.made_by_operands, decision.decided.clone());
        let is_refused = self.report.refusal.is_some();
        Ok(Built {
            freeze: Freeze::of(self.resource, decision.drift, &stored.inventory, &units),
            recording: Recording::of(&*context.domain, stored, decision, is_refused),
            units,
            asked_for,
            certificates,
        })
    }

    /// Compares a paused resource with its objects, and writes nothing.
    async fn look(mut self, stored: &Stored, validated: Validated, built: Built) -> Outcome {
        let Validated { decision, facts } = validated;
        self.report.notices = decision.notices;
        let objects = self.objects.with_freeze(built.freeze);
        let units = built.units;
        let found = join_all(units.iter().map(|unit| objects.apply_unit(unit))).await;
        for object in stored
            .inventory
            .surplus(&built.asked_for, &facts, |_| false)
        {
            let live = self.context.shared.lock().owned(&object);
            if live.is_some_and(|live| objects.may_remove(&object, &live)) {
                self.report.drift.push(Drift {
                    unit: String::new(),
                    object,
                    deviation: Deviation::Unwanted,
                });
            }
        }
        let differs =
            !self.report.drift.is_empty() || found.iter().any(|unit| !unit.drift.is_empty());
        if let Some(paused) = &mut self.report.paused {
            paused.pending =
                differs && stored.inventory.decided.as_ref() != Some(&decision.decided);
        }
        self.report.effective.clone_from(&stored.inventory.decided);
        reported(self.context, &objects, units, found, self.report, None).await
    }

    /// Writes the finalizer and the inventory, then the units, and removes surplus objects. At the
    /// end the inventory holds what is there now.
    async fn apply(
        &mut self,
        stored: &Stored,
        validated: &Validated,
        built: Built,
    ) -> Result<Done, Early> {
        let (context, decision) = (self.context, &validated.decision);
        let before = &stored.inventory;
        let Built {
            units,
            asked_for,
            certificates,
            freeze,
            recording,
        } = built;
        let mut wanted = asked_for.clone();
        // Objects that operands made stay listed until the resource goes. Only then have their pods
        // ended for sure, and make them no more.
        wanted
            .made_by_operands
            .extend(before.made_by_operands.iter().cloned());
        wanted.applied = freeze.unchanged();
        wanted.recorded =
            recording.is_done(before, before.decided.as_ref() == Some(&decision.decided));
        self.objects = self.objects.clone().with_freeze(freeze);

        if let Err(failure) = self.prepare(before, &wanted, &units).await {
            self.report.units = units
                .iter()
                .map(|unit| UnitReport {
                    name: unit.name.clone(),
                    failures: Vec::new(),
                    workloads: Vec::new(),
                })
                .collect();
            if let Some(unit) = self.report.units.first_mut() {
                unit.failures.push(failure);
            }
            return Err(self.early(units));
        }
        // Not before it is in the inventory: a reconcile after a crash may draw another MAC range.
        self.report.effective = Some(decision.decided.clone());
        let waiting = waiting(&certificates.failures, &decision.waits);
        let applied = join_all(
            units
                .iter()
                .map(async |unit| match waiting.get(&*unit.name) {
                    Some(failures) => Applied {
                        failures: failures.clone(),
                        ..Applied::default()
                    },
                    None => self.objects.apply_unit(unit).await,
                }),
        )
        .await;
        let results = || units.iter().zip(&applied);
        let has_failed = |name: &str| {
            results().any(|(unit, applied)| unit.name == name && !applied.failures.is_empty())
        };
        let mut surplus = before.surplus(&asked_for, &validated.facts, has_failed);
        let is_leaving = |unit: &str| before.has_lost(unit, &asked_for);
        let kept = dependents::obstacles(&self.objects, self.resource, is_leaving).await;
        surplus.retain(|key| !dependents::is_of(&kept, key, before));
        let mut removals = prune::remove(&self.objects, &surplus).await;
        removals.extend(kept.into_iter().map(|(_, obstacle)| obstacle));

        let clean = removals.is_empty() && applied.iter().all(|unit| unit.failures.is_empty());
        wanted
            .applied
            .extend(applied.iter().flat_map(|unit| unit.digests.clone()));
        let is_recorded =
            |unit: Option<&String>| unit.is_none_or(|unit| context.domain.is_recorded(unit));
        let recorded_units_are_done = results().all(|(unit, applied)| {
            applied.failures.is_empty() || !context.domain.is_recorded(&unit.name)
        }) && !removals
            .iter()
            .any(|removal| is_recorded(before.objects.get(&removal.object)));
        if !clean {
            // Earlier objects stay listed, except for those that are gone for sure. Objects that
            // were applied are listed as well, whatever holds up the others.
            let stays = |key: &ObjectKey| {
                !surplus.contains(key) || removals.iter().any(|removal| removal.object == *key)
            };
            wanted = before.clone().and(&wanted);
            wanted.objects.retain(|key, _| stays(key));
        }
        self.report.removals = removals;
        let recorded = recorded_units_are_done.then_some((decision, recording));
        recording::write(context, &self.objects, wanted, recorded, &mut self.report).await;
        Ok(Done { units, applied })
    }

    /// Before the first write of an object: puts the finalizer on the resource, old and new names
    /// into the inventory, and a first condition into status.
    async fn prepare(
        &self,
        before: &Inventory,
        wanted: &Inventory,
        units: &[Unit],
    ) -> Result<(), Failure> {
        let both = before.clone().and(wanted);
        let finalizer = async {
            if Live::of(&self.context.latest(self.resource)).has_finalizer(FINALIZER) {
                Ok(())
            } else {
                finalizer::put(&self.objects, &self.resource_key(), self.resource).await
            }
        };
        let namespace = &self.context.config.namespace;
        let inventory = stored::write_inventory(&self.objects, namespace, &both);
        let first_status = async {
            if let Some(status) = self.acknowledge(units) {
                // If it fails, the reconcile writes a fuller status in a moment and repeats that.
                let _ = status::write(self.context, self.resource, &status).await;
            }
        };
        let (finalizer, inventory, ()) = futures::join!(finalizer, inventory, first_status);
        let failed = |object: ObjectKey, error: Error| Failure {
            object,
            class: error.class(),
            message: error.of_operator(),
        };
        finalizer.map_err(|error| failed(self.resource_key(), error))?;
        inventory.map_err(|error| failed(self.inventory_key(), error))
    }

    /// Returns the first status for a generation that status does not name yet, so that nobody
    /// takes the old conditions for an answer. A status that cannot name a generation gets none:
    /// each reconcile would write it again.
    fn acknowledge(&self, units: &[Unit]) -> Option<Value> {
        let kind = self.context.domain.resource();
        let lost = self.context.shared.lock().dropped_of(kind);
        let known = Live::of(self.resource).observed_generation() >= self.report.generation
            || dropped::has(&lost, "status.observedGeneration");
        if known || self.report.refusal.is_some() {
            return None;
        }
        let starting = Report {
            starting: true,
            ..self.report.clone()
        };
        status::changed(self.context, self.resource, &starting, units)
    }

    /// Judges the units by their workloads. `next` is the time of the next rotation.
    async fn report(self, done: Done, next: Option<Timestamp>) -> Outcome {
        let Done { units, applied } = done;
        reported(
            self.context,
            &self.objects,
            units,
            applied,
            self.report,
            next,
        )
        .await
    }
}

/// Returns the reasons why units are not applied, by the units' names.
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
