//! Objects of other users that only the programs of a unit can release.

use serde_json::Value;

use crate::{Kind, Live, ObjectKey, Owner, report::Removal};

/// On a resource: Weft removes what this names, although others depend on it.
pub const REMOVE_ANNOTATION: &str = "weft.network/remove";

/// Objects with a finalizer that only the programs of a unit take off. Without the unit these objects
/// and their namespaces can never be deleted, so Weft does not remove it while there are some.
#[derive(Clone, Copy, Debug)]
pub struct Dependents {
    /// The name of the unit.
    pub unit: &'static str,
    /// The kind of the objects.
    pub kind: Kind,
    /// The finalizer.
    pub finalizer: &'static str,
    /// How a user ends the need for the unit, as a sentence without its end.
    pub way_out: &'static str,
}

impl Dependents {
    /// Reports whether the resource asks for the removal of the unit in any case.
    pub fn are_given_up(&self, resource: &Value) -> bool {
        Live::of(resource).annotation(REMOVE_ANNOTATION) == Some(self.unit)
    }

    /// Returns the first of these objects that has the finalizer, with the reason why the unit of
    /// this owner stays, and the ways out. `None` if no object has the finalizer.
    pub fn obstacle(&self, owner: &Owner, objects: &[Value]) -> Option<Removal> {
        let held: Vec<_> = objects
            .iter()
            .map(Live::of)
            .filter(|object| object.has_finalizer(self.finalizer))
            .map(|object| ObjectKey::new(self.kind, object.namespace(), object.name()))
            .collect();
        let (first, others) = held.split_first()?;
        let names: Vec<_> = others.iter().take(2).map(ObjectKey::human).collect();
        let also = match others.len() {
            0 => String::new(),
            count => format!(" (so have {count} more, such as {})", names.join(", ")),
        };
        let Self {
            unit,
            finalizer,
            way_out,
            ..
        } = self;
        Some(Removal {
            object: first.clone(),
            blocker: Some(format!(
                "has the finalizer {finalizer}{also}, which only {unit} takes off, so {unit} stays: without it, neither this object nor its namespace can be deleted. {way_out}, or have it removed all the same: kubectl annotate {} {} {REMOVE_ANNOTATION}={unit}",
                owner.kind.kind.to_lowercase(),
                owner.name
            )),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::kinds;

    const SECRETS: Dependents = Dependents {
        unit: "keeper",
        kind: kinds::SECRET,
        finalizer: "example.com/kept",
        way_out: "Delete the users of the Secrets",
    };

    fn secret(name: &str, finalizers: &[&str]) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "finalizers": finalizers}})
    }

    fn owner() -> Owner {
        Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".to_owned(),
            uid: None,
            manager: "weft/addons".to_owned(),
        }
    }

    #[test]
    fn only_objects_with_the_finalizer_keep_the_unit() {
        let others = [secret("a", &[]), secret("b", &["example.com/other"])];
        assert_eq!(SECRETS.obstacle(&owner(), &others), None);
        let one = SECRETS
            .obstacle(
                &owner(),
                &[secret("a", &[]), secret("c", &["example.com/kept"])],
            )
            .unwrap();
        assert_eq!(one.object.human(), "Secret n/c");
        assert_eq!(
            one.blocker.unwrap(),
            "has the finalizer example.com/kept, which only keeper takes off, so keeper stays: without it, neither this object nor its namespace can be deleted. Delete the users of the Secrets, or have it removed all the same: kubectl annotate networkaddonsconfig cluster weft.network/remove=keeper"
        );
    }

    #[test]
    fn of_many_objects_a_few_are_named_with_their_number() {
        let many: Vec<_> = (0..9)
            .map(|number| secret(&format!("s{number}"), &["example.com/kept"]))
            .collect();
        let obstacle = SECRETS.obstacle(&owner(), &many).unwrap();
        assert_eq!(obstacle.object.human(), "Secret n/s0");
        let why = obstacle.blocker.unwrap();
        assert!(
            why.contains("(so have 8 more, such as Secret n/s1, Secret n/s2)")
                && !why.contains("s3"),
            "{why}"
        );
    }

    #[test]
    fn the_resource_gives_them_up_by_the_name_of_the_unit() {
        let marked = |unit: &str| json!({"metadata": {"annotations": {REMOVE_ANNOTATION: unit}}});
        assert!(SECRETS.are_given_up(&marked("keeper")));
        assert!(!SECRETS.are_given_up(&marked("true")));
        assert!(!SECRETS.are_given_up(&json!({"metadata": {}})));
    }
}
