//! Events: one for each change that a person watching would want to know, in the words of the
//! original operators.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::Value;
use weft_plan::{Kind, Live, ObjectKey, condition, escape, text};

use crate::api_server::cluster::TIMEOUT;

/// An event before it is published.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    /// It is of type Warning.
    pub warning: bool,
    /// A word in CamelCase.
    pub reason: String,
    /// The message. Weft cuts it at the limit of the API.
    pub message: String,
}

/// How many bytes of a message an event has, without the ellipsis of a longer one. The limit of
/// events.k8s.io/v1 is 1,024.
pub(crate) const LENGTH: usize = 1000;

/// How long after an event an equal one counts as another of it: as long as kube's recorder
/// remembers.
const SERIES: Duration = Duration::from_secs(6 * 60);

/// Publishes events. Clones share the same state.
///
/// Equal events that come soon after one another become one with a count. kube's recorder treats
/// all events of one reason as equal, and would go on to show the message of the first. So each
/// message has a recorder of its own.
#[derive(Clone)]
pub struct EventRecorder {
    client: Client,
    reporter: Reporter,
    recorders: Arc<Mutex<HashMap<String, (Recorder, Instant)>>>,
}

impl EventRecorder {
    /// For a domain, and this replica of its operator.
    pub fn new(client: Client, domain: &str, instance: &str) -> Self {
        let reporter = Reporter {
            controller: format!("weft-{domain}"),
            instance: Some(instance.to_owned()),
        };
        Self {
            client,
            reporter,
            recorders: Arc::default(),
        }
    }

    /// Publishes events about a cluster-scoped object, given by name and uid. Nobody waits for
    /// that.
    pub fn publish(&self, kind: Kind, (name, uid): (String, String), notes: Vec<Note>) {
        self.publish_in(&ObjectKey::new(kind, "", &name), uid, notes);
    }

    /// Publishes events about an object of this uid, in its namespace, one after the other. Nobody
    /// waits for that.
    pub fn publish_in(&self, object: &ObjectKey, uid: String, notes: Vec<Note>) {
        let kind = object.kind;
        let reference = ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind.to_owned()),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            uid: Some(uid),
            ..Default::default()
        };
        let recorder = self.clone();
        tokio::spawn(async move {
            for note in notes {
                recorder.send(note, &reference).await;
            }
        });
    }

    async fn send(&self, note: Note, reference: &ObjectReference) {
        let message = noted(&note.message);
        let recorder = self.recorder(&message);
        let event = Event {
            type_: if note.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: note.reason,
            note: Some(message),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        match tokio::time::timeout(TIMEOUT, recorder.publish(&event, reference)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "event not published"),
            Err(_) => tracing::debug!("event not published: no answer"),
        }
    }

    /// The recorder of a message. Those that were not asked for in a while are forgotten.
    fn recorder(&self, message: &str) -> Recorder {
        let mut recorders = self
            .recorders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recorders.retain(|_, (_, last)| last.elapsed() < SERIES);
        let new = || {
            (
                Recorder::new(self.client.clone(), self.reporter.clone()),
                Instant::now(),
            )
        };
        let (recorder, last) = recorders.entry(message.to_owned()).or_insert_with(new);
        *last = Instant::now();
        recorder.clone()
    }
}

/// Publishes what is new in a status. Nobody waits for that, and an event that cannot be published
/// is only logged: status has it all.
pub(crate) fn publish(recorder: &EventRecorder, kind: Kind, resource: &Value, status: &Value) {
    let notes = notes(&resource["status"], status);
    let about = Live::of(resource);
    let name = (about.name().to_owned(), about.uid().to_owned());
    recorder.publish(kind, name, notes);
}

/// Returns the changes between two statuses that are worth an event. A condition that keeps its
/// status leads to no event, however often its message changes.
fn notes(before: &Value, after: &Value) -> Vec<Note> {
    let turned = |name: &str| {
        let now = condition(after, name).filter(|now| now["status"] == "True")?;
        let before = condition(before, name);
        let new = before
            .is_none_or(|before| before["status"] != "True" || before["reason"] != now["reason"]);
        new.then(|| {
            (
                text(now, "reason").to_owned(),
                text(now, "message").to_owned(),
            )
        })
    };
    let mut notes = Vec::new();
    let generation = |status: &Value| status["observedGeneration"].as_i64().unwrap_or_default();
    // A deletion raises the generation too, and is no news to who asked for it.
    if condition(after, "Progressing")
        .is_some_and(|progressing| progressing["reason"] == "Removing")
    {
        return notes;
    }
    // The definition has -1 as the default of a status that no controller has written. As with the
    // original, the first configuration is a modification as well.
    if generation(after) > generation(before).max(0) {
        notes.push(Note {
            warning: false,
            reason: "Modified".to_owned(),
            message: "Config spec was modified".to_owned(),
        });
    }
    if let Some((reason, message)) = turned("Degraded") {
        notes.push(Note {
            warning: true,
            reason: format!("Failed: {reason}"),
            message: format!("Operator failed: {message}"),
        });
    }
    if turned("Progressing").is_some() {
        notes.push(Note {
            warning: false,
            reason: "Progressing".to_owned(),
            message: "Operator is progressing".to_owned(),
        });
    }
    if turned("Available").is_some() {
        notes.push(Note {
            warning: false,
            reason: "Available".to_owned(),
            message: "All applied components are available".to_owned(),
        });
    }
    if let Some((reason, message)) = turned("Blocked") {
        notes.push(Note {
            warning: true,
            reason,
            message,
        });
    }
    for (condition, warning) in [
        ("Paused", false),
        ("Drifted", true),
        ("FieldsDropped", true),
    ] {
        if let Some((_, message)) = turned(condition) {
            notes.push(Note {
                warning,
                reason: condition.to_owned(),
                message,
            });
        }
    }
    notes
}

/// The note of an event: without control characters, and not longer than the API allows.
fn noted(message: &str) -> String {
    let mut text = escape::text(message).into_owned();
    if text.len() > LENGTH {
        let cut = (0..=LENGTH)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or_default();
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(generation: i64, conditions: &[(&str, &str, &str)]) -> Value {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(name, status, reason)| {
                json!({
                    "type": name, "status": status, "reason": reason, "message": "m"
                })
            })
            .collect();
        json!({"observedGeneration": generation, "conditions": conditions})
    }

    fn reasons(before: &Value, after: &Value) -> Vec<String> {
        notes(before, after)
            .into_iter()
            .map(|note| note.reason)
            .collect()
    }

    #[test]
    fn a_note_has_no_control_characters_and_no_more_bytes_than_an_event_may() {
        assert_eq!(noted("a\x1b[2J\x07\nb"), "a^[[2J^G\nb");
        assert!(noted(&"\u{202e}".repeat(1000)).len() <= 1024);
    }

    #[test]
    fn a_change_is_said_once() {
        let working = status(
            1,
            &[
                ("Available", "False", "Startup"),
                ("Progressing", "True", "Deploying"),
                ("Degraded", "False", ""),
            ],
        );
        let ready = status(
            1,
            &[
                ("Available", "True", ""),
                ("Progressing", "False", ""),
                ("Degraded", "False", ""),
            ],
        );
        let failed = status(
            2,
            &[
                ("Available", "False", "Failing"),
                ("Progressing", "False", "InvalidConfiguration"),
                ("Degraded", "True", "FailedToValidate"),
            ],
        );
        let begun = ["Modified", "Progressing"];
        assert_eq!(reasons(&json!({}), &working), begun);
        assert_eq!(reasons(&json!({"observedGeneration": -1}), &working), begun);
        assert_eq!(reasons(&working, &working), Vec::<String>::new());
        assert_eq!(
            reasons(&json!({}), &ready),
            ["Modified", "Available"],
            "also when nothing was ever seen to progress"
        );
        assert_eq!(
            reasons(&ready, &failed),
            ["Modified", "Failed: FailedToValidate"]
        );
        assert_eq!(reasons(&failed, &failed), Vec::<String>::new());
        let mut drifted = ready.clone();
        drifted["conditions"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| {
                all.push(json!({"type": "Drifted", "status": "True", "reason": "Reported"}))
            });
        assert_eq!(reasons(&ready, &drifted), ["Drifted"]);
        assert_eq!(reasons(&drifted, &drifted), Vec::<String>::new());
        let lossy = status(1, &[("FieldsDropped", "True", "OtherDefinition")]);
        assert_eq!(reasons(&status(1, &[]), &lossy), ["FieldsDropped"]);
        let removing = status(
            3,
            &[
                ("Available", "False", "Removing"),
                ("Progressing", "True", "Removing"),
                ("Degraded", "False", ""),
            ],
        );
        assert_eq!(reasons(&ready, &removing), Vec::<String>::new());
    }
}
