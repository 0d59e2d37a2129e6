//! The notes at the end of a reconcile: the record for the original, and the inventory.

use weft_plan::{
    Decision, Inventory, Manifest, Notice, ObjectKey, ObjectSet,
    report::{Failure, Report, UnitReport},
};

use crate::{
    api_server::cluster::Error,
    reconcile::{
        context::Context,
        objects::Objects,
        stored::{self, Stored},
    },
};

/// The treatment of the record of the applied configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recording {
    /// It is written. Its absence says nothing.
    Plain,
    /// It is written, and that this is done is noted: if it is gone afterwards, somebody wants the
    /// next change to be carried out whatever it is.
    Noted,
    /// It stays as it is, gone if somebody has deleted it: the configuration in force is no other
    /// one.
    Left,
}

impl Recording {
    pub(super) fn of(
        domain: &dyn ObjectSet,
        stored: &Stored,
        decision: &Decision,
        refused: bool,
    ) -> Self {
        let unchanged = stored.inventory.decided.as_ref() == Some(&decision.decided);
        match domain.is_forced_without_record() {
            false => Self::Plain,
            // The record existed when this reconcile began, else the change would not be refused.
            // By now a user may have deleted it.
            true if refused => Self::Left,
            true if stored.record.is_none() && stored.inventory.recorded && unchanged => Self::Left,
            true => Self::Noted,
        }
    }

    /// Returns a notice about a deleted record.
    pub(super) fn notice(self, stored: &Stored, record: Option<&Manifest>) -> Option<Notice> {
        let record = record.filter(|_| self == Self::Left && stored.record.is_none())?;
        let message = "somebody has deleted it: the operator carries out the next change whatever it does, and then writes the record again".to_owned();
        Some(Notice {
            about: record.key().human(),
            message,
        })
    }

    /// Reports whether the record is known to hold the wanted configuration.
    pub(super) fn is_done(self, before: &Inventory, unchanged: bool) -> bool {
        match self {
            Self::Plain => false,
            Self::Left => before.recorded,
            Self::Noted => before.recorded && unchanged,
        }
    }
}

/// Writes the inventory, and the record of what is applied if there is news for it. A failure is
/// one of the report.
pub(super) async fn write(
    context: &Context,
    objects: &Objects,
    mut inventory: Inventory,
    recorded: Option<(&Decision, Recording)>,
    report: &mut Report,
) {
    let recording = recorded.map(|(_, recording)| recording);
    let record = async {
        let record = recorded
            .filter(|(_, recording)| *recording != Recording::Left)
            .and_then(|(decision, _)| decision.record.as_ref());
        match record {
            Some(record) => stored::write_record(objects, record)
                .await
                .map_err(|error| (record.key().clone(), error)),
            None => Ok(()),
        }
    };
    let namespace = &context.config.namespace;
    let (recorded, noted) = if recording == Some(Recording::Noted) {
        // The inventory must not name the record before the record is there.
        let recorded = record.await;
        inventory.recorded |= recorded.is_ok();
        let noted = stored::write_inventory(objects, namespace, &inventory).await;
        (recorded, noted)
    } else {
        futures::join!(
            record,
            stored::write_inventory(objects, namespace, &inventory)
        )
    };
    let noted = noted.map_err(|error| (stored::inventory_key(namespace, &objects.owner), error));
    for (object, error) in [noted, recorded].into_iter().filter_map(Result::err) {
        unwritten(report, object, &error);
    }
}

fn unwritten(report: &mut Report, object: ObjectKey, error: &Error) {
    const NAME: &str = "inventory";
    let failure = Failure {
        object,
        class: error.class(),
        message: error.of_operator(),
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
