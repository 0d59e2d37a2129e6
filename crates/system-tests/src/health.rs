//! Tools reach a person's verdict about every state that a test has led to: kstatus of kpt, that of
//! Flux and Helm, and Argo CD.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use weft_testenv::health::judge;

/// A person's verdict about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Person {
    Fine,
    AtWork,
    InTrouble,
    /// A pause holds back what the user asks for.
    OnHold,
}

impl Person {
    /// The words of kstatus and of Argo CD.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Fine => ("Current", "Healthy"),
            Self::AtWork => ("InProgress", "Progressing"),
            Self::InTrouble => ("Failed", "Degraded"),
            Self::OnHold => ("Failed", "Suspended"),
        }
    }

    /// Reads an object's own conditions, and none of those that the tools read.
    fn judges(object: &Value) -> Self {
        let conditions = || {
            let all = object["status"]["conditions"].as_array();
            all.into_iter().flatten()
        };
        let find = |name: &str| conditions().find(|one| one["type"] == name);
        let holds = |name: &str| find(name).is_some_and(|one| one["status"] == "True");
        let reason = |name: &str| find(name).map_or(&Value::Null, |one| &one["reason"]);
        let observed = &object["status"]["observedGeneration"];
        // A definition of another operator may lack the generation.
        let is_lost = observed.is_null() && (holds("FieldsDropped") || holds("Blocked"));
        if !is_lost && *observed != object["metadata"]["generation"] {
            return Self::AtWork;
        }
        if object["kind"] == "PlacementAPI" {
            let ready = find("Ready").cloned().unwrap_or_default();
            let is_blocked = ["OtherOperatorRunning", "OtherWebhooks", "Forbidden"]
                .iter()
                .any(|reason| ready["reason"] == *reason);
            return match ready["status"].as_str() {
                Some("True") => Self::Fine,
                Some("Unknown") if is_blocked => Self::InTrouble,
                Some("False") if ready["severity"] != "Info" => Self::InTrouble,
                _ => Self::AtWork,
            };
        }
        // An agent that tries again is at work, although it has failed once.
        let retries = holds("Failing") && holds("Progressing");
        let troubles = [
            "Blocked",
            "Degraded",
            "Failing",
            "Aborted",
            "Conflict",
            "ValueMissing",
            "AddressProblem",
            "FieldsDropped",
        ];
        if troubles.into_iter().any(holds) && !retries {
            Self::InTrouble
        } else if ["Progressing", "Pending"].into_iter().any(holds) {
            Self::AtWork
        } else if ["Available", "Ignored"].into_iter().any(holds) {
            Self::Fine
        } else if reason("Progressing") == "ResourcePaused"
            || reason("Available") == "ResourcePaused"
        {
            Self::OnHold
        } else {
            Self::InTrouble
        }
    }
}

/// Fails the test if a tool and a person disagree about one of these objects.
pub fn assert_tools_agree(objects: Vec<Value>) {
    let mut known = BTreeSet::new();
    let objects: Vec<_> = objects
        .into_iter()
        .filter(|object| known.insert(state(object)))
        .collect();
    if objects.is_empty() {
        return;
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/argo-cd");
    let verdicts = judge(&objects, &scripts).expect("the tools judge");
    for (object, verdicts) in objects.iter().zip(verdicts) {
        let person = Person::judges(object);
        let (kstatus, argo) = person.words();
        // Nobody waits for an object that is being deleted to become healthy.
        let is_deleted = object["metadata"]["deletionTimestamp"].is_string();
        let kstatus = if is_deleted { "Terminating" } else { kstatus };
        let told = verdicts
            .argo
            .clone()
            .unwrap_or_else(|| panic!("no Lua script for {}", object["kind"]));
        assert!(
            verdicts.kstatus.status == kstatus
                && verdicts.flux.status == kstatus
                && (told.status == argo || is_deleted),
            "a person says {person:?}, the tools say {verdicts:#?} of {} {} {}: {:#}",
            object["kind"],
            object["metadata"]["name"],
            object["metadata"]["generation"],
            object["status"]["conditions"],
        );
    }
}

/// The part of an object that a verdict depends on.
fn state(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let conditions: Vec<_> = conditions
        .into_iter()
        .flatten()
        .map(|one| format!("{}{}{}", one["type"], one["status"], one["reason"]))
        .collect();
    format!(
        "{} {} {} {conditions:?}",
        object["kind"],
        object["status"]["observedGeneration"] == object["metadata"]["generation"],
        object["metadata"]["deletionTimestamp"].is_string(),
    )
}
