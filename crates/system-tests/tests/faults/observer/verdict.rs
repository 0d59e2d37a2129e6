//! The rules by which status and the tools agree with a truth.

use serde_json::Value;
use weft_plan::{ObjectKey, kinds};
use weft_system_tests::condition;
use weft_testenv::health::Verdicts;

use super::truth::Truth;

/// Status lists so many objects that differ, and counts the others.
const LISTED: usize = 10;

/// The words that kstatus and Argo CD may say.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    kstatus: &'static [&'static str],
    argo: &'static [&'static str],
}

pub const FINE: Words = Words {
    kstatus: &["Current"],
    argo: &["Healthy"],
};
pub const FAILED: Words = Words {
    kstatus: &["Failed"],
    argo: &["Degraded"],
};
/// At work, in trouble, or held back by a pause.
const NOT_FINE: Words = Words {
    kstatus: &["InProgress", "Failed"],
    argo: &["Progressing", "Degraded", "Suspended"],
};

impl Words {
    /// The words for this truth.
    pub fn about(truth: &Truth) -> Self {
        if truth.is_fine() {
            FINE
        } else if truth.refused.is_some() || truth.is_blocked {
            FAILED
        } else {
            NOT_FINE
        }
    }

    /// The tools that say something else.
    pub fn contradicted(self, verdicts: &Verdicts) -> Vec<String> {
        let argo = verdicts.argo.as_ref();
        let argo = argo.map_or("nothing", |one| one.status.as_str());
        let (kpt, flux) = (&verdicts.kstatus, &verdicts.flux);
        let said = [
            ("kstatus", kpt.status.as_str(), self.kstatus),
            (
                "kstatus of Flux and Helm",
                flux.status.as_str(),
                self.kstatus,
            ),
            ("Argo CD", argo, self.argo),
        ];
        said.into_iter()
            .filter(|(_, says, may)| !may.contains(says))
            .map(|(tool, says, may)| format!("{tool} says {says}, and not {}", may.join(" or ")))
            .collect()
    }
}

/// The ways in which the status of a resource, or the work of Weft, disagrees with this truth.
/// `live` is the resource. None if there is none.
pub fn violations(live: Option<&Value>, truth: &Truth) -> Vec<String> {
    let mut found = Vec::new();
    if !truth.is_hindered && !truth.is_blocked {
        found.extend(left_undone(truth));
    }
    let Some(live) = live else { return found };
    if live["metadata"]["deletionTimestamp"].is_string() {
        found.push("the resource is still being deleted".to_owned());
    }
    let status = &live["status"];
    if status["observedGeneration"] != live["metadata"]["generation"] {
        found.push("status is about an older generation".to_owned());
    }
    if truth.is_blocked {
        if condition(status, "Blocked")["status"] != "True" {
            found.push("another operator runs, and Blocked is not True".to_owned());
        }
        return found;
    }
    let is_placement = live["kind"] == kinds::PLACEMENT_API.kind;
    let available = if is_placement { "Ready" } else { "Available" };
    // A NetworkConfig describes the network in force, which a refused change leaves as it is.
    let is_fine = match live["kind"] == kinds::NETWORK_CONFIG.kind {
        true => truth.is_in_order(),
        false => truth.is_fine(),
    };
    if (condition(status, available)["status"] == "True") != is_fine {
        found.push(match is_fine {
            true => format!("all is as the user wants it, and {available} is not True"),
            false => format!("not all is as the user wants it, and {available} is True"),
        });
    }
    if !is_placement {
        found.extend(contradictions(status, truth));
    }
    found.extend(unnamed(&messages_of(status), truth));
    found
}

/// The work that Weft should have done by now, since nothing hinders it.
fn left_undone(truth: &Truth) -> Vec<String> {
    let mut found = Vec::new();
    let name =
        |what: &str, key: &ObjectKey| format!("nothing hinders Weft, and {} {what}", key.human());
    if truth.lacks.is_empty() && !truth.is_paused {
        found.extend(truth.surplus.iter().map(|key| name("is still there", key)));
        if !truth.is_reported {
            found.extend(truth.missing.iter().map(|key| name("is not there", key)));
            let changed = truth.changed.iter().filter(|one| one.decides);
            found.extend(changed.map(|one| name("differs", &one.key)));
        }
    }
    // A workload that lacks its account, for example, cannot roll out.
    if truth.missing.is_empty() {
        let unready = truth.unready.iter().filter(|one| !one.is_excused);
        found.extend(unready.map(|one| name("is not ready", &one.key)));
    }
    found
}

/// The ways in which the conditions other than Available contradict the truth.
fn contradictions(status: &Value, truth: &Truth) -> Vec<String> {
    let mut found = Vec::new();
    let holds = |name: &str| condition(status, name)["status"] == "True";
    let mut must_not = |name: &str, is_wrong: bool, since: &str| {
        if is_wrong && holds(name) {
            found.push(format!("{since}, and {name} is True"));
        }
    };
    must_not("Degraded", truth.is_fine(), "all is as the user wants it");
    must_not(
        "Progressing",
        truth.is_fine(),
        "all is as the user wants it",
    );
    must_not("Drifted", !truth.differs(), "nothing differs");
    must_not("Paused", !truth.is_paused, "there is no pause");
    must_not("Blocked", true, "no other operator runs");
    let mut must = |name: &str, is_so: bool, since: &str| {
        if is_so && !holds(name) {
            found.push(format!("{since}, and {name} is not True"));
        }
    };
    must("Paused", truth.is_paused, "the user has paused it");
    must(
        "Degraded",
        truth.refused.is_some(),
        "the configuration is refused",
    );
    let says_nothing = !["Degraded", "Progressing", "Drifted"]
        .into_iter()
        .any(holds)
        && condition(status, "Available")["reason"] != "ResourcePaused";
    if truth.differs() && says_nothing {
        found.push("objects differ, and no condition says so".to_owned());
    }
    found
}

/// The words of status about troubles, all together.
fn messages_of(status: &Value) -> String {
    let list = |field: &str| status[field].as_array().cloned().unwrap_or_default();
    let messages = [list("conditions"), list("components")].concat();
    let messages = messages.iter().map(|one| one["message"].to_string());
    messages
        .chain(list("drift").iter().map(Value::to_string))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The parts of the truth that status does not name.
fn unnamed(messages: &str, truth: &Truth) -> Vec<String> {
    if let Some((_, field)) = &truth.refused {
        let is_named = messages.contains(field);
        return Vec::from_iter((!is_named).then(|| format!("no message names {field}")));
    }
    let mut names: Vec<&str> = truth.lacks.iter().map(String::as_str).collect();
    let differing = truth
        .missing
        .iter()
        .chain(truth.changed.iter().map(|one| &one.key));
    let differing: Vec<&str> = differing
        .chain(&truth.surplus)
        .map(|key| &*key.name)
        .collect();
    if differing.is_empty() {
        names.extend(truth.unready.iter().map(|one| &*one.key.name));
    } else if differing.len() <= LISTED {
        names.extend(differing);
    }
    // Weft has not applied the objects after one that it waits for. Status names that one.
    let waits_for = |name: &&str| truth.obstacles.iter().any(|obstacle| obstacle == name);
    if names.iter().any(waits_for) {
        names.retain(waits_for);
    }
    names.retain(|name| !messages.contains(*name));
    names
        .into_iter()
        .map(|name| format!("no message names {name}"))
        .collect()
}
