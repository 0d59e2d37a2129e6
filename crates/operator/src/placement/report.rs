//! Reports of a reconcile: the status, written once if it differs, and an event for each condition
//! that changes.

use serde_json::{Value, json};
use weft_api::placement::{Condition, PlacementApiStatus};
use weft_placement::{Assessment, conditions, status::status};
use weft_plan::{
    Domain, Drift, Live, Manifest, Owner, condition, drift, dropped, health, kinds, manager,
    report::Blocked,
};
use weft_runtime::{
    api_server::{clock, cluster::Error},
    reconcile::{confirm::missing, events::Note, status::merge_patch},
};

use super::{memory::Memory, place::Place, reconcile::key_of};

impl Place {
    /// Writes what an assessment leads to, if status does not say so already. `held` are the objects
    /// that others keep different. Without it, the condition about them stays as it is.
    ///
    /// A status that says `Ready` is written only if the API server lists all objects of the
    /// assessment, because a watch may be late. Otherwise the next reconcile begins at once.
    pub(super) async fn report(
        &self,
        resource: &Value,
        assessment: &Assessment,
        held: Option<&[Drift]>,
    ) -> Result<(), Error> {
        let generation = Live::of(resource).generation();
        let notice = dropped::notice(self.domain.name(), &self.common.lock().dropped());
        let is_held = |object: &Manifest| {
            let mut held = held.into_iter().flatten();
            held.any(|drift| drift.object == *object.key())
        };
        let objects = assessment.objects.iter();
        let objects: Vec<_> = objects.filter(|object| !is_held(object)).collect();
        self.write_status(resource, &objects, |before| {
            let now = clock::now();
            let mut status = status(before, assessment, generation, now);
            status.conditions.extend(match held {
                Some(held) => conditions::drifted(&before.conditions, held, now),
                None => before
                    .conditions
                    .iter()
                    .find(|known| known.type_ == drift::CONDITION)
                    .cloned(),
            });
            let lost =
                notice.map(|notice| conditions::fields_dropped(&before.conditions, &notice, now));
            status.conditions.extend(lost);
            status
        })
        .await
    }

    /// Writes what Weft waits for, and that it does not know whether the service is ready. Where
    /// the operator that runs has written the conditions, they stay as they are: that one writes
    /// all of them with each reconcile, and would undo it for ever.
    pub(super) async fn report_blocked(
        &self,
        resource: &Value,
        blocked: &Blocked,
    ) -> Result<(), Error> {
        if blocked.is_by_running_operator()
            && are_conditions_of_another(resource, &manager(&*self.domain))
        {
            return Ok(());
        }
        self.write_status(resource, &[], |before| PlacementApiStatus {
            conditions: conditions::blocked(
                &before.conditions,
                blocked.reason,
                &blocked.message,
                clock::now(),
            ),
            // kstatus reads conditions only of the latest generation.
            observed_generation: Some(Live::of(resource).generation()),
            ..before.clone()
        })
        .await
    }

    /// Writes a status. `objects` must exist if it says `Ready`.
    async fn write_status(
        &self,
        resource: &Value,
        objects: &[&Manifest],
        now: impl FnOnce(&PlacementApiStatus) -> PlacementApiStatus,
    ) -> Result<(), Error> {
        // One that cannot be read was written by another user, and says nothing.
        let before: PlacementApiStatus =
            serde_json::from_value(resource["status"].clone()).unwrap_or_default();
        let after = now(&before);
        let lost = self.common.lock().dropped_of(kinds::PLACEMENT_API);
        let of_before = serde_json::to_value(&before).unwrap_or_default();
        let new = dropped::of_status(serde_json::to_value(&after).unwrap_or_default(), &lost);
        if new == of_before {
            return Ok(());
        }
        let ready = condition(&new, conditions::READY);
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        if is_ready {
            let owner = Owner::of(&*self.domain, resource);
            let objects = objects.iter().copied();
            let missing = missing(&self.cluster, &self.shared, &owner, objects).await?;
            // An object that is being deleted is there, and may be held by Weft's own finalizer.
            if missing.is_one_gone {
                self.shared.notify();
                return Ok(());
            }
        }
        let key = key_of(resource);
        // The uid keeps it from another resource of that name.
        let body = json!({
            "metadata": {"uid": Live::of(resource).uid()},
            "status": merge_patch(&resource["status"], &new)
        });
        match self
            .cluster
            .merge_patch(&key, "status", &body, &manager(&*self.domain))
            .await
        {
            Ok(written) => {
                self.shared.lock().wrote(&written);
                self.metrics.wrote(self.domain.name(), "status", key.kind);
                self.tell(resource, notes(&before.conditions, &after.conditions));
                let knows_definition = self.common.lock().knows_definition(kinds::PLACEMENT_API);
                let observed = &written["status"]["observedGeneration"];
                if knows_definition && *observed != new["observedGeneration"] {
                    // An API server goes by the older definition for a moment.
                    return Err(Error::Unreadable(
                        "status lacks the generation, although the definition has it".to_owned(),
                    ));
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                tracing::warn!(%error, object = %key.human(), "status could not be written");
                Err(error)
            }
        }
    }

    /// Reports once, by an event and in the log, what keeps Weft from this resource.
    pub(super) fn tell_blocked(
        &self,
        resource: &Value,
        memory: &mut Memory,
        blocked: Option<&Blocked>,
    ) {
        let message = blocked.map(|blocked| blocked.message.clone());
        if message == memory.blocked {
            return;
        }
        memory.blocked.clone_from(&message);
        if let Some((blocked, message)) = blocked.zip(message) {
            tracing::warn!(message, object = %key_of(resource).human(), "left alone");
            self.tell(
                resource,
                vec![Note {
                    warning: true,
                    reason: blocked.reason.to_owned(),
                    message,
                }],
            );
        }
    }

    pub(super) fn tell(&self, resource: &Value, notes: Vec<Note>) {
        let uid = Live::of(resource).uid().to_owned();
        self.recorder.publish_in(&key_of(resource), uid, notes);
    }
}

/// Reports whether the conditions were last written by another manager than this one.
fn are_conditions_of_another(resource: &Value, manager: &str) -> bool {
    let entries = resource["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    entries
        .filter(|entry| entry["manager"] != manager)
        .any(|entry| !entry["fieldsV1"]["f:status"]["f:conditions"].is_null())
}

/// An event for each condition that has become true, and for each failure that is new.
fn notes(before: &[Condition], after: &[Condition]) -> Vec<Note> {
    let turned = after.iter().filter(|now| {
        let was = before.iter().find(|was| was.type_ == now.type_);
        let is_failure = now.status == "False" && now.severity.as_deref() != Some("Info");
        let says_another = was.is_none_or(|was| {
            was.status != now.status
                || was.reason != now.reason
                || is_failure && was.message != now.message
        });
        says_another && (now.status == "True" || is_failure)
    });
    // Ready, Reconciling and Stalled repeat a step, unless all is well.
    let is_new = |now: &&Condition| {
        !health::TYPES.contains(&now.type_.as_str())
            || now.type_ == conditions::READY && now.status == "True"
    };
    turned
        .filter(is_new)
        .map(|now| Note {
            warning: now.status != "True"
                || [drift::CONDITION, dropped::CONDITION].contains(&now.type_.as_str()),
            reason: now.type_.clone(),
            message: now.message.clone().unwrap_or_default(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(name: &str, status: &str, severity: &str, message: &str) -> Condition {
        let reason = Some("R".to_owned());
        Condition {
            type_: name.into(),
            status: status.into(),
            severity: Some(severity.into()),
            reason,
            message: Some(message.into()),
            ..Default::default()
        }
    }

    #[test]
    fn conditions_are_anothers_once_somebody_else_has_written_them() {
        let conditions = json!({"f:status": {"f:conditions": {}}});
        let of = |entries: &[(&str, &Value)]| {
            let entries: Vec<_> = entries
                .iter()
                .map(|(manager, fields)| json!({"manager": manager, "fieldsV1": fields}))
                .collect();
            are_conditions_of_another(
                &json!({"metadata": {"managedFields": entries}}),
                "weft/placement",
            )
        };
        assert!(
            !of(&[("kubectl", &json!({"f:spec": {"f:secret": {}}}))]),
            "a new one"
        );
        assert!(!of(&[
            ("weft/placement", &conditions),
            ("manager", &json!({"f:status": {"f:readyCount": {}}}))
        ]));
        assert!(of(&[
            ("weft/placement", &json!({"f:status": {"f:hash": {}}})),
            ("manager", &conditions)
        ]));
        assert!(!are_conditions_of_another(
            &json!({"metadata": {}}),
            "weft/placement"
        ));
    }

    #[test]
    fn each_failure_and_each_success_is_told_once() {
        let before = [
            condition("Ready", "Unknown", "", "a"),
            condition("DBReady", "False", "Warning", "no"),
            condition("InputReady", "True", "", "done"),
        ];
        let after = [
            condition("Ready", "False", "Warning", "no more"),
            condition("DBReady", "False", "Warning", "no more"),
            condition("InputReady", "True", "", "done"),
            condition("Stalled", "True", "", "no more"),
        ];
        let told: Vec<_> = notes(&before, &after)
            .into_iter()
            .map(|note| (note.warning, note.reason, note.message))
            .collect();
        assert_eq!(told, [(true, "DBReady".to_owned(), "no more".to_owned())]);
        assert_eq!(notes(&after, &after), []);
        for aside in ["FieldsDropped", "Drifted"] {
            let lost = [condition(aside, "True", "", "fields get lost")];
            assert!(notes(&[], &lost)[0].warning, "{aside}");
            let other = [condition(aside, "True", "", "another message")];
            assert_eq!(notes(&lost, &other), [], "{aside}");
        }
        let well = [condition("Ready", "True", "", "Setup complete")];
        assert_eq!(notes(&after, &well).len(), 1);
        assert_eq!(
            notes(&[], &[condition("DBReady", "False", "Info", "on its way")]),
            []
        );
    }
}
