//! Repairs of objects that other clients have changed or deleted, for events.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use weft_plan::{Difference, Manifest, ObjectKey, Step, What, writer};

use crate::reconcile::events::LENGTH;

/// How many fields an event names.
const NAMED: usize = 10;

/// A client whose field manager the object does not show.
const ANOTHER: &str = "another client";

/// The objects of a resource as this operator has seen them last. A live object alone cannot show if
/// another client has removed a field or the whole object, or if the operator wants it for the first
/// time.
#[derive(Default)]
pub(crate) struct Seen(Mutex<HashMap<ObjectKey, Option<String>>>);

/// How this operator has seen an object last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It has not seen the object, or has deleted it since.
    Never,
    /// The object was there, and not as this manifest wants it.
    Other,
    /// The object was there, as this manifest wants it.
    Right,
}

impl Seen {
    /// Notes that an object is there. `is_right` says if it is as the manifest wants it.
    pub(crate) fn there(&self, manifest: &Manifest, is_right: bool) {
        let digest = is_right.then(|| manifest.hash());
        self.lock().insert(manifest.key().clone(), digest);
    }

    /// Returns how the object of this manifest was seen last.
    pub(crate) fn last(&self, manifest: &Manifest) -> Last {
        match self.lock().get(manifest.key()) {
            None => Last::Never,
            Some(Some(digest)) if *digest == manifest.hash() => Last::Right,
            Some(_) => Last::Other,
        }
    }

    /// Notes that the operator itself deletes an object.
    pub(crate) fn forget(&self, object: &ObjectKey) {
        self.lock().remove(object);
    }

    /// Forgets the objects that the operator does not want any more.
    pub(crate) fn retain(&self, is_wanted: impl Fn(&ObjectKey) -> bool) {
        self.lock().retain(|object, _| is_wanted(object));
    }

    /// Takes everything out, for another generation of the resource.
    pub(crate) fn take(&self) -> Self {
        Self(Mutex::new(std::mem::take(&mut *self.lock())))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the message about a step that was carried out, if it was a repair. `None` if no other
/// client has a part in it: then the wishes of the operator have changed.
///
/// `before` is the object before the step, and `last` how it was seen before that. The fields in
/// `left` still differ in the API server's answer, so they are not repaired.
pub(crate) fn message(
    object: &ObjectKey,
    step: &Step,
    before: Option<&Value>,
    last: Last,
    left: &[Difference],
) -> Option<String> {
    let repaired = match (step, before) {
        (Step::Create, _) if last != Last::Never => format!("deleted by {ANOTHER}"),
        (Step::Change { differences, .. }, Some(before)) => {
            let is_repaired = |difference: &&Difference| {
                left.iter().all(|other| other.path != difference.path)
                    && difference.what != What::Unowned
            };
            fields(differences.iter().filter(is_repaired), before, last)?
        }
        _ => return None,
    };
    Some(format!("repaired {}: {repaired}", object.human()))
}

/// Returns the fields with their clients, for people. `None` if no other client has changed one.
fn fields<'a>(
    differences: impl Iterator<Item = &'a Difference>,
    before: &Value,
    last: Last,
) -> Option<String> {
    let changed: Vec<_> = differences
        .filter_map(|difference| Some((difference, change(difference, before, last)?)))
        .collect();
    let mut by_client: Vec<(&str, Vec<&Difference>)> = Vec::new();
    for (difference, client) in changed.iter().take(NAMED) {
        match by_client.iter_mut().find(|(known, _)| known == client) {
            Some((_, fields)) => fields.push(difference),
            None => by_client.push((client, vec![difference])),
        }
    }
    if by_client.is_empty() {
        return None;
    }
    let text = |field: fn(&Difference) -> String| {
        let mut parts: Vec<_> = by_client
            .iter()
            .map(|(client, fields)| {
                let fields: Vec<_> = fields.iter().map(|difference| field(difference)).collect();
                format!("{}, {client}", fields.join(", "))
            })
            .collect();
        match changed.len().saturating_sub(NAMED) {
            0 => {}
            more => parts.push(format!("and {more} more")),
        }
        parts.join("; ")
    };
    let full = text(Difference::instead);
    // The names of the fields count more than their values.
    Some(match full.len() > LENGTH / 10 * 9 {
        true => text(|difference| difference.path.clone()),
        false => full,
    })
}

/// Returns how another client has changed a field, for people. `None` if only Weft has written it: the
/// operator wants it for the first time, or no more.
fn change(difference: &Difference, before: &Value, last: Last) -> Option<String> {
    match writer(before, &difference.path) {
        Some(manager) => Some(format!("written by {manager}")),
        // Fields that are gone have no manager.
        None if last == Last::Right => Some(match difference.what {
            What::Missing { .. } => format!("removed by {ANOTHER}"),
            _ => format!("written by {ANOTHER}"),
        }),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::reconcile::testing::{changed, manifest, written_by};

    fn missing(path: &str) -> Difference {
        Difference {
            path: path.to_owned(),
            what: What::Missing {
                desired: "ours".into(),
            },
        }
    }

    fn says(differences: &[Difference], before: &Value, last: Last) -> Option<String> {
        let step = Step::Change {
            differences: differences.to_vec(),
            take: false,
        };
        message(manifest("ours").key(), &step, Some(before), last, &[])
    }

    #[test]
    fn an_object_is_right_until_its_manifest_changes_or_it_is_deleted() {
        let seen = Seen::default();
        let (old, new) = (manifest("old"), manifest("new"));
        assert_eq!(seen.last(&old), Last::Never);
        seen.there(&old, true);
        assert_eq!(
            (seen.last(&old), seen.last(&new)),
            (Last::Right, Last::Other)
        );
        let later = seen.take();
        assert_eq!(
            (seen.last(&old), later.last(&old)),
            (Last::Never, Last::Right)
        );
        later.there(&old, false);
        assert_eq!(later.last(&old), Last::Other);
        later.retain(|object| object == old.key());
        assert_eq!(later.last(&old), Last::Other);
        later.forget(old.key());
        assert_eq!(later.last(&old), Last::Never);
        later.there(&old, true);
        later.retain(|_| false);
        assert_eq!(later.last(&old), Last::Never);
    }

    #[test]
    fn a_deleted_object_is_a_repair_unless_it_is_new_or_weft_deleted_it() {
        let create = |last| message(manifest("ours").key(), &Step::Create, None, last, &[]);
        let deleted = Some("repaired ConfigMap n/c: deleted by another client".to_owned());
        assert_eq!(create(Last::Right), deleted);
        assert_eq!(create(Last::Other), deleted, "its manifest is another one");
        assert_eq!(create(Last::Never), None);
    }

    #[test]
    fn a_field_that_another_client_removed_is_named_and_a_new_one_is_not() {
        let (gone, unowned_object) = ([missing("data.k")], json!({}));
        let removed = "repaired ConfigMap n/c: data.k is missing instead of \"ours\", removed by another client";
        assert_eq!(
            says(&gone, &unowned_object, Last::Right).as_deref(),
            Some(removed)
        );
        assert_eq!(
            says(&gone, &unowned_object, Last::Other),
            None,
            "a new version"
        );
        assert_eq!(says(&gone, &unowned_object, Last::Never), None, "a restart");
        let unowned = Difference {
            path: "data.k".to_owned(),
            what: What::Unowned,
        };
        assert_eq!(says(&[unowned], &unowned_object, Last::Right), None);
    }

    #[test]
    fn a_repair_names_each_field_with_its_client() {
        let before = written_by(&[
            ("kubectl-edit", "a"),
            ("argocd", "b"),
            ("kubectl-edit", "c"),
        ]);
        let all = [
            changed("data.a", "1"),
            changed("data.b", "2"),
            changed("data.c", "3"),
            missing("data.d"),
        ];
        let theirs = "repaired ConfigMap n/c: data.a is \"1\" instead of \"ours\", data.c is \"3\" instead of \"ours\", written by kubectl-edit; data.b is \"2\" instead of \"ours\", written by argocd";
        assert_eq!(
            says(&all, &before, Last::Right).unwrap(),
            format!("{theirs}; data.d is missing instead of \"ours\", removed by another client")
        );
        assert_eq!(
            says(&all, &before, Last::Never).unwrap(),
            theirs,
            "the last field may be a new wish"
        );
    }

    #[test]
    fn a_long_message_names_ten_fields_without_their_values() {
        let names: Vec<_> = (0..12).map(|n| format!("f{n:02}")).collect();
        let long = "x".repeat(90);
        let fields: Vec<_> = names
            .iter()
            .map(|name| changed(&format!("data.{name}"), &long))
            .collect();
        let managers: Vec<_> = names.iter().map(|name| ("argocd", name.as_str())).collect();
        let paths: Vec<_> = names[..10]
            .iter()
            .map(|name| format!("data.{name}"))
            .collect();
        assert_eq!(
            says(&fields, &written_by(&managers), Last::Right).unwrap(),
            format!(
                "repaired ConfigMap n/c: {}, written by argocd; and 2 more",
                paths.join(", ")
            )
        );
    }

    #[test]
    fn a_field_that_admission_changes_again_is_no_repair() {
        let before = written_by(&[("argocd", "a"), ("argocd", "b")]);
        let step = Step::Change {
            differences: vec![changed("data.a", "1"), changed("data.b", "2")],
            take: false,
        };
        let after = |left: &[Difference]| {
            let key = manifest("ours").key().clone();
            message(&key, &step, Some(&before), Last::Right, left)
        };
        assert_eq!(
            after(&[changed("data.a", "mirror")]).as_deref(),
            Some("repaired ConfigMap n/c: data.b is \"2\" instead of \"ours\", written by argocd")
        );
        assert_eq!(
            after(&[changed("data.a", "x"), changed("data.b", "x")]),
            None
        );
    }
}
