//! Of several PlacementAPIs of a namespace, the one that counts. The operator and `weft plan` ask the
//! same function.

use serde_json::Value;
use weft_plan::Live;

/// Returns the name of the PlacementAPI that counts instead of this one: the oldest of the
/// namespace. `None` if this one counts. Times of creation have whole seconds, so the name decides
/// between equals.
///
/// `all` may hold PlacementAPIs of other namespaces, and `resource` itself as it is stored. If it is
/// not stored yet, it is the youngest.
///
/// Finalizers do not matter, since a younger PlacementAPI that holds something must not take the
/// place of an older one that serves.
pub fn counts_instead<'a>(
    resource: &'a Value,
    all: impl Iterator<Item = &'a Value> + Clone,
) -> Option<&'a str> {
    let of_namespace =
        |other: &&Value| Live::of(other).namespace() == Live::of(resource).namespace();
    let is_this = |other: &Value| Live::of(other).name() == Live::of(resource).name();
    let all = all.filter(of_namespace);
    let stored = all.clone().find(|other| is_this(other)).unwrap_or(resource);
    let rank = |&other: &&'a Value| {
        let other = Live::of(other);
        // One that is not created yet is the youngest. No time begins with a tilde.
        (other.created().unwrap_or("~"), other.name())
    };
    let oldest = all.chain([stored]).min_by_key(rank)?;
    Some(Live::of(oldest).name()).filter(|_| !is_this(oldest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resource(namespace: &str, name: &str, created: Option<&str>) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name, "creationTimestamp": created}})
    }

    #[test]
    fn the_oldest_placement_api_of_a_namespace_counts() {
        let (first, second) = (Some("2026-01-01T00:00:00Z"), Some("2026-01-01T00:00:01Z"));
        let mut younger = resource("n", "a", second);
        younger["metadata"]["finalizers"] = json!(["weft.network/teardown"]);
        let all = [
            younger.clone(),
            resource("n", "c", first),
            resource("n", "b", first),
            resource("other", "a", None),
        ];
        let instead = |one: &Value| counts_instead(one, all.iter()).map(str::to_owned);
        assert_eq!(instead(&all[2]), None, "the oldest, by its name");
        for (one, why) in [
            (&younger, "a finalizer makes none older"),
            (&all[1], "its name is the later one of the same second"),
            (&resource("n", "a", None), "a file has no time of creation"),
            (&resource("n", "0", None), "it is not stored yet"),
        ] {
            assert_eq!(instead(one).as_deref(), Some("b"), "{why}");
        }
        assert_eq!(instead(&resource("empty", "z", None)), None);
        assert_eq!(instead(&resource("n", "b", None)), None, "as it is stored");
    }
}
