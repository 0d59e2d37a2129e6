//! How a plan is shown.

use std::fmt::Write;

use serde_json::{Value, json};
use weft_plan::{Deviation, Difference, ObjectKey, PAUSE_ANNOTATION, What, pod_template_changes};
use weft_runtime::inspect::preview::{Action, Change, Preview};

use crate::output::Style;

/// The plan for one resource.
pub struct Planned {
    /// Kind and name, for people.
    pub title: String,
    /// The file that it comes from.
    pub file: String,
    /// The name of the resource's domain.
    pub domain: &'static str,
    /// The effect on the resource itself.
    pub effect: Effect,
    /// The effect on its objects.
    pub preview: Preview,
    /// Notes about the plan.
    pub notes: Vec<String>,
    /// A note about the Services that the change cuts off, which the operator refuses unless it is
    /// forced.
    pub cut_off: Option<String>,
    /// A note about fields of the file that the API server would drop. The plan is without them.
    pub dropped: Option<String>,
}

/// The effect on the resource itself.
pub enum Effect {
    /// It stays as it is, or is not there to be deleted.
    None,
    /// The resource is created.
    Create,
    /// The resource changes in these fields.
    Change(Vec<Difference>),
    /// The resource is deleted.
    Delete,
}

/// How an action is shown, and counted.
struct Sign {
    sign: &'static str,
    word: &'static str,
    total: &'static str,
}

fn sign(action: &Action) -> Sign {
    let sign = |sign, word, total| Sign { sign, word, total };
    match action {
        Action::Create => sign("+", "create", "to create"),
        Action::Change { .. } => sign("~", "change", "to change"),
        Action::Replace { .. } => sign("±", "replace", "to recreate"),
        Action::TakeOver { .. } => sign("^", "take-over", "to take over"),
        Action::Delete => sign("-", "delete", "to delete"),
        Action::Release { .. } => sign("=", "release", "to release"),
        Action::Hold { .. } => sign("@", "hold", "to hold"),
        Action::Drift { .. } => sign("?", "drift", "changed by others and left so"),
        Action::Leave { .. } => sign("=", "leave", "left to others"),
        Action::Stay { .. } => sign("=", "stay", "to stay"),
        Action::Conflict { .. } => sign("!", "conflict", "in conflict"),
        Action::Wait => sign("…", "wait", "held back"),
        Action::Keep => sign("=", "keep", "as they should be"),
    }
}

/// The order of the summary.
const TOTALS: [&str; 13] = [
    "to create",
    "to change",
    "to recreate",
    "to take over",
    "to delete",
    "in conflict",
    "held back",
    "changed by others and left so",
    "to stay",
    "to hold",
    "to release",
    "left to others",
    "as they should be",
];

impl Planned {
    /// Reports whether anything would be other than it is, or cannot become what it should be.
    pub fn changes_something(&self) -> bool {
        !matches!(self.effect, Effect::None)
            || self.preview.changes().any(|change| {
                change.action.writes()
                    || matches!(change.action, Action::Conflict { .. } | Action::Wait)
            })
    }

    /// The workloads whose pods restart, each with the places in its pod template that change.
    pub fn restarts(&self) -> Vec<(&ObjectKey, Vec<String>)> {
        let written = self
            .preview
            .changes()
            .filter(|change| change.action.writes());
        let restarted = written.filter_map(|change| {
            Some((
                &change.object,
                pod_template_changes(change.object.kind, differences(&change.action)?),
            ))
        });
        restarted.filter(|(_, why)| !why.is_empty()).collect()
    }

    /// The same, a line each.
    fn restart_lines(&self) -> Vec<String> {
        self.restarts()
            .into_iter()
            .map(|(object, why)| format!("{}: {}", object.human(), why.join(", ")))
            .collect()
    }

    /// Why the operator would carry out nothing of it, if that is so.
    pub fn refusal(&self) -> Option<String> {
        let refusal = self.preview.refusal.as_ref()?;
        let problems: Vec<_> = refusal.problems.iter().map(ToString::to_string).collect();
        let reasons = self.cut_off.iter().chain(&self.dropped);
        let reasons = reasons.map(|note| format!("\n{note}"));
        Some(format!(
            "{}: the operator would refuse it ({}): {}{}",
            self.title,
            refusal.reason,
            problems.join("\n"),
            reasons.collect::<String>()
        ))
    }

    /// The objects that Weft would not get, each with the reason.
    pub fn conflicts(&self) -> Vec<String> {
        let why = |change: &Change| match &change.action {
            Action::Conflict { why } => Some(why.clone()),
            _ => None,
        };
        self.preview.changes().filter_map(why).collect()
    }

    /// Returns the plan as text, for people.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let out = &mut text;
        match &self.effect {
            Effect::None => {}
            Effect::Create => line(
                out,
                &format!("{} {}", style.good("+"), style.bold(&self.title)),
            ),
            Effect::Delete => line(
                out,
                &format!("{} {}", style.bad("-"), style.bold(&self.title)),
            ),
            Effect::Change(differences) => {
                line(
                    out,
                    &format!(
                        "{} {}: spec changes",
                        style.pending("~"),
                        style.bold(&self.title)
                    ),
                );
                fields(out, differences, style);
            }
        }
        let of_units = self
            .preview
            .units
            .iter()
            .map(|unit| (unit.name.as_str(), None, unit.changes.iter().collect()));
        for (name, why, changes) in of_units.chain(self.removals()) {
            let changes: Vec<&Change> = changes;
            let shown: Vec<_> = changes
                .into_iter()
                .filter(|change| change.action != Action::Keep)
                .collect();
            if shown.is_empty() {
                continue;
            }
            line(
                out,
                &format!(
                    "{}{}",
                    if out.is_empty() { "" } else { "\n" },
                    style.bold(name)
                ),
            );
            if let Some(why) = why {
                line(out, &format!("  {why}"));
            }
            for change in shown {
                object(out, change, style);
            }
        }
        let restarts = self.restart_lines();
        if !restarts.is_empty() {
            line(
                out,
                &format!(
                    "\n{}",
                    style.bold("pods restart, since their template changes")
                ),
            );
            restarts
                .iter()
                .for_each(|restart| line(out, &format!("  {restart}")));
        }
        if !self.changes_something() {
            line(
                out,
                &format!(
                    "{}{}: nothing would change",
                    if out.is_empty() { "" } else { "\n" },
                    self.title
                ),
            );
        } else {
            line(out, &format!("\n{}", self.totals()));
        }
        for note in self.all_notes() {
            line(out, &format!("{}: {note}", style.pending("note")));
        }
        if let Some(value) = &self.preview.paused {
            let why = format!(
                "the annotation {PAUSE_ANNOTATION} is {value:?}: Weft would write nothing now; what is planned here follows later"
            );
            line(out, &format!("{}: {why}", style.pending("paused")));
        }
        if let Some(blocked) = &self.preview.blocked {
            line(
                out,
                &format!(
                    "{}: Weft would write nothing now; what is planned here follows later. {}",
                    style.bad("blocked"),
                    blocked.message
                ),
            );
        }
        text
    }

    /// Returns unwanted objects under headings: deleted ones, and those that stay with their common
    /// reason.
    fn removals(&self) -> [(&str, Option<&str>, Vec<&Change>); 2] {
        let (stays, goes): (Vec<_>, Vec<_>) = self
            .preview
            .removals
            .iter()
            .partition(|change| matches!(change.action, Action::Stay { .. }));
        let why = stays.iter().find_map(|change| match &change.action {
            Action::Stay { why } => Some(why.as_str()),
            _ => None,
        });
        [("no longer wanted", None, goes), ("stays", why, stays)]
    }

    /// How many objects meet which fate, in a sentence.
    pub fn totals(&self) -> String {
        let count = |total: &str| {
            self.preview
                .changes()
                .filter(|change| sign(&change.action).total == total)
                .count()
        };
        let counts: Vec<_> = TOTALS
            .iter()
            .map(|total| (count(total), total))
            .filter(|(count, _)| *count > 0)
            .map(|(count, total)| format!("{count} {total}"))
            .collect();
        if counts.is_empty() {
            "No object changes.".to_owned()
        } else {
            format!("Objects: {}.", counts.join(", "))
        }
    }

    fn all_notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = self
            .preview
            .notices
            .iter()
            .map(|notice| format!("{}: {}", notice.about, notice.message))
            .collect();
        if self.preview.drawn {
            notes.push(
                "what the configuration leaves open, such as a MAC range, is drawn at random when it is applied, and kept from then on"
                    .to_owned(),
            );
        }
        notes.extend(self.notes.iter().cloned());
        notes.extend(self.cut_off.clone());
        notes.extend(self.dropped.clone());
        notes
    }

    /// Returns the plan as JSON, for programs.
    pub fn json(&self) -> Value {
        let (effect, differences) = match &self.effect {
            Effect::None => ("none", &[][..]),
            Effect::Create => ("create", &[][..]),
            Effect::Change(differences) => ("change", &differences[..]),
            Effect::Delete => ("delete", &[][..]),
        };
        let components: Vec<_> = self
            .preview
            .units
            .iter()
            .map(|unit| {
                json!({
                    "name": unit.name,
                    "objects": unit.changes.iter().map(object_json).collect::<Vec<_>>()
                })
            })
            .collect();
        json!({
            "resource": self.title,
            "file": self.file,
            "domain": self.domain,
            "changes": self.changes_something(),
            "effect": effect,
            "differences": differences.iter().map(difference_json).collect::<Vec<_>>(),
            "paused": self.preview.paused.is_some(),
            "blocked": self.preview.blocked.as_ref().map(|blocked| json!({
                "reason": blocked.reason, "message": blocked.message
            })),
            "components": components,
            "restarts": self.restarts().iter().map(|(object, why)| json!({
                "kind": object.kind.kind, "namespace": object.namespace, "name": object.name, "why": why,
            })).collect::<Vec<_>>(),
            "removals": self.preview.removals.iter().map(object_json).collect::<Vec<_>>(),
            "drawn": self.preview.drawn,
            "notes": self.all_notes(),
        })
    }
}

fn line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn object(out: &mut String, change: &Change, style: Style) {
    let Sign { sign, .. } = sign(&change.action);
    let (painted, why) = match &change.action {
        Action::Create => (style.good(sign), None),
        Action::Delete => (style.bad(sign), None),
        Action::Conflict { why } => (style.bad(sign), Some(why.as_str())),
        Action::Leave { why } => (style.dim(sign), Some(why.as_str())),
        Action::Stay { .. } => (style.dim(sign), None),
        Action::Release { why } => (style.dim(sign), Some(why.as_str())),
        Action::Hold { why } => (style.pending(sign), Some(why.as_str())),
        Action::Wait => (
            style.dim(sign),
            Some("waits for what is in its way, or missing"),
        ),
        Action::Drift { deviation } => (style.pending(sign), Some(left_so(deviation))),
        _ => (style.pending(sign), None),
    };
    let name = change.object.human();
    // A conflict's reason begins with the object's name.
    match why {
        Some(why) => line(out, &format!("  {painted} {name}: {why}")),
        None => line(out, &format!("  {painted} {name}")),
    }
    if let Some(differences) = differences(&change.action) {
        fields(out, differences, style);
    }
}

fn left_so(deviation: &Deviation) -> &'static str {
    match deviation {
        Deviation::Missing => "is missing, and left so: driftPolicy is Report",
        Deviation::BeingDeleted => "is being deleted, and left so: driftPolicy is Report",
        Deviation::Changed(_) | Deviation::Pending | Deviation::Unwanted => {
            "left as it is: driftPolicy is Report"
        }
        Deviation::Altered { .. } => "changed by an admission policy or webhook",
        Deviation::Contested { .. } => "written again and again by another client",
    }
}

fn differences(action: &Action) -> Option<&[Difference]> {
    match action {
        Action::Change { differences }
        | Action::Replace { differences }
        | Action::TakeOver { differences } => Some(differences),
        Action::Drift {
            deviation: Deviation::Changed(differences),
        } => Some(differences),
        _ => None,
    }
}

fn fields(out: &mut String, differences: &[Difference], style: Style) {
    for difference in differences {
        let text = difference.to_string();
        let painted = match &difference.what {
            What::Missing { .. } => style.good(&text),
            What::Added { .. } | What::Dropped { .. } => style.bad(&text),
            What::Changed { .. } => style.pending(&text),
            What::Unowned => style.dim(&text),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "      {painted}");
    }
}

fn object_json(change: &Change) -> Value {
    let mut object = json!({
        "action": sign(&change.action).word,
        "apiVersion": change.object.kind.api_version(),
        "kind": change.object.kind.kind,
        "name": change.object.name,
    });
    if let Some(namespace) = &change.object.namespace {
        object["namespace"] = namespace.clone().into();
    }
    if let Some(differences) = differences(&change.action) {
        object["differences"] = differences.iter().map(difference_json).collect();
    }
    match &change.action {
        Action::Conflict { why }
        | Action::Leave { why }
        | Action::Stay { why }
        | Action::Release { why }
        | Action::Hold { why } => object["why"] = why.clone().into(),
        Action::Drift { deviation } => object["why"] = left_so(deviation).into(),
        _ => {}
    }
    object
}

fn difference_json(difference: &Difference) -> Value {
    let (change, from, to, by) = match &difference.what {
        What::Missing { desired } => ("add", None, Some(desired), None),
        What::Changed { live, desired } => ("change", Some(live), Some(desired), None),
        What::Added { live, by } => ("remove", Some(live), None, Some(by)),
        What::Dropped { live } => ("remove", Some(live), None, None),
        What::Unowned => ("own", None, None, None),
    };
    let mut json = json!({"path": difference.path, "change": change});
    for (field, value) in [("from", from), ("to", to)] {
        if let Some(value) = value {
            json[field] = difference.masked(value);
        }
    }
    if let Some(by) = by {
        json["addedBy"] = by.clone().into();
    }
    json
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_planted_secret_is_in_the_changes_of_an_object() {
        let planted = include_str!("../../plan/tests/planted.yaml");
        let state = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        let difference = Difference {
            path: "spec.desiredState".to_owned(),
            what: What::Changed {
                live: state(&planted.replace("-zz", "-old")),
                desired: state(planted),
            },
        };
        let json = difference_json(&difference).to_string();
        for text in [&json, &difference.to_string()] {
            assert!(!text.contains("pl4nted"), "{text}");
            assert!(text.contains("h4rmless-01-old"), "{text}");
        }
        for harmless in ["h4rmless-01-zz", "/etc/pki/h4rmless", "ssl_key"] {
            assert!(json.contains(harmless), "{harmless}: {json}");
        }
    }
}
