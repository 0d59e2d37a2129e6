//! Of several resources of which only one can count: the oldest.

use serde_json::Value;
use weft_plan::{Domain, Live, Problem, Refusal};

use crate::reconcile::finalizer::FINALIZER;

/// Reason of a resource that has no effect, since another one counts.
pub(crate) const NOT_THE_OLDEST: &str = "NotTheOldest";

/// The resource that counts, where only the oldest does (see [`Domain::only_the_oldest`]): one that
/// Weft works for already, until it is gone. Else the oldest. Times of creation have whole seconds,
/// so the name decides between equals.
pub fn senior<'a>(resources: impl IntoIterator<Item = &'a Value>) -> Option<&'a Value> {
    resources.into_iter().min_by_key(|resource| {
        let resource = Live::of(resource);
        // One that is not created yet is the youngest. No time begins with a tilde.
        let created = resource.created().unwrap_or("~").to_owned();
        (
            !resource.has_finalizer(FINALIZER),
            created,
            resource.name().to_owned(),
        )
    })
}

/// Why this resource has no effect, if another one of these counts instead.
pub fn refused<'a>(
    domain: &dyn Domain,
    resource: &Value,
    all: impl IntoIterator<Item = &'a Value>,
) -> Option<Refusal> {
    let (kind, name) = (domain.resource().kind, Live::of(resource).name());
    let senior = senior(all)
        .filter(|_| domain.only_the_oldest())
        .map(|senior| Live::of(senior).name())
        .filter(|senior| *senior != name)?;
    let message = format!(
        "only the oldest {kind} counts, which is {senior:?}, so this one has no effect. Delete this one, or {senior:?}: then this one takes its place"
    );
    Some(Refusal {
        reason: NOT_THE_OLDEST,
        problems: vec![Problem {
            field: "metadata.name".to_owned(),
            message,
        }],
        changes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resource(name: &str, created: Option<&str>, served: bool) -> Value {
        let finalizers = if served { vec![FINALIZER] } else { vec![] };
        json!({"metadata": {"name": name, "creationTimestamp": created, "finalizers": finalizers}})
    }

    fn name_of_senior(resources: &[Value]) -> &str {
        senior(resources)
            .and_then(|resource| resource["metadata"]["name"].as_str())
            .unwrap_or_default()
    }

    #[test]
    fn the_oldest_counts_and_what_is_served_keeps_its_place() {
        let (first, second) = (Some("2026-01-01T00:00:00Z"), Some("2026-01-01T00:00:01Z"));
        assert_eq!(
            name_of_senior(&[resource("a", second, false), resource("b", first, false)]),
            "b"
        );
        assert_eq!(
            name_of_senior(&[resource("b", first, false), resource("a", first, false)]),
            "a",
            "in the same second"
        );
        assert_eq!(
            name_of_senior(&[resource("b", first, true), resource("a", first, false)]),
            "b"
        );
        assert_eq!(
            name_of_senior(&[resource("a", None, false), resource("b", second, false)]),
            "b",
            "one that is only planned"
        );
        assert_eq!(name_of_senior(&[]), "");
    }
}
