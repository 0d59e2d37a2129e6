//! The names of all objects that Weft has in the cluster for a resource, so that nothing is left
//! over.
//!
//! Before the first write of a reconcile the inventory holds old and new names together. When
//! everything is applied and pruned, just the new ones. A crash in between leaves too many names,
//! which cost a look each, never too few.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{Facts, Kind, ManifestError, ObjectKey, Unit, canonical};

/// The objects of one resource in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Every object, and the unit that it belongs to.
    pub objects: BTreeMap<ObjectKey, String>,
    /// Objects that operands make, which go when the resource goes.
    pub made_by_operands: BTreeSet<ObjectKey>,
    /// A digest of what was applied last of each object, where drift is only reported (see
    /// [`crate::drift`]). An object that is about to be applied in another form has none: after a
    /// crash it counts as wanted anew.
    pub applied: BTreeMap<ObjectKey, String>,
    /// The complete configuration that was decided on, see [`crate::Decision::decided`].
    pub decided: Option<Value>,
    /// True if the record of that configuration has been written, where its absence says something
    /// (see [`crate::ObjectSet::is_forced_without_record`]).
    pub recorded: bool,
}

/// Why an inventory cannot be used. It is kept as it is: guessing would leave objects behind.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// Not JSON of the expected shape.
    #[error("key {key:?} is not readable: {why}")]
    Unreadable {
        /// key of the ConfigMap
        key: &'static str,
        /// the mistake
        why: String,
    },
    /// Names an object of a kind that this version does not know.
    #[error(transparent)]
    Key(#[from] ManifestError),
}

const OBJECTS: &str = "objects";
const MADE_BY_OPERANDS: &str = "made-by-operands";
const APPLIED: &str = "applied";
const DECIDED: &str = "decided";
const RECORDED: &str = "recorded";

impl Inventory {
    /// How the names of all ConfigMaps with inventories begin.
    pub const PREFIX: &str = "weft-inventory-";

    /// The name of the ConfigMap that holds the inventory of a resource, for example
    /// `weft-inventory-networkaddonsconfig-cluster`.
    pub fn config_map_name(kind: Kind, resource: &str) -> String {
        format!("{}{}-{resource}", Self::PREFIX, kind.kind.to_lowercase())
    }

    /// Returns the inventory after these units are applied.
    pub fn of(units: &[Unit], made_by_operands: &[ObjectKey], decided: Value) -> Self {
        let objects = units
            .iter()
            .flat_map(|unit| {
                unit.objects
                    .iter()
                    .map(|object| (object.key().clone(), unit.name.clone()))
            })
            .collect();
        Self {
            objects,
            made_by_operands: made_by_operands.iter().cloned().collect(),
            applied: BTreeMap::new(),
            decided: Some(decided),
            recorded: false,
        }
    }

    /// Old and new together, with what was decided for the new and is known to be applied of it.
    #[must_use]
    pub fn and(mut self, new: &Inventory) -> Self {
        self.objects.extend(new.objects.clone());
        self.made_by_operands.extend(new.made_by_operands.clone());
        self.applied.clone_from(&new.applied);
        self.decided.clone_from(&new.decided);
        self.recorded = new.recorded;
        self
    }

    /// Returns the part that belongs to these units.
    #[must_use]
    pub fn of_units(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let objects = self
            .objects
            .iter()
            .filter(|(_, unit)| wanted(unit))
            .map(|(key, unit)| (key.clone(), unit.clone()))
            .collect();
        Self {
            objects,
            ..self.clone()
        }
    }

    /// Reports whether this inventory has objects of a unit, and `wanted` has none.
    pub fn has_lost(&self, unit: &str, wanted: &Inventory) -> bool {
        let has = |inventory: &Inventory| inventory.objects.values().any(|of| of == unit);
        has(self) && !has(wanted)
    }

    /// Returns the objects of this inventory that must go if `wanted` lists the wanted ones.
    ///
    /// An object that another user creates later under the same name belongs to that user. An
    /// object whose kind is gone is gone already. And what a unit had before stays until the unit
    /// is what it should be: `held` names those that are not.
    pub fn surplus(
        &self,
        wanted: &Inventory,
        facts: &Facts,
        held: impl Fn(&str) -> bool,
    ) -> Vec<ObjectKey> {
        let is_surplus = |(key, unit): &(&ObjectKey, &String)| {
            !wanted.objects.contains_key(*key)
                && !wanted.made_by_operands.contains(*key)
                && facts.serves(key.kind)
                && !held(unit)
        };
        self.objects
            .iter()
            .filter(is_surplus)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// The `data` of the ConfigMap.
    pub fn to_data(&self) -> Value {
        let mut data =
            json!({ OBJECTS: text(&self.objects), MADE_BY_OPERANDS: text(&self.made_by_operands) });
        if !self.applied.is_empty() {
            data[APPLIED] = text(&self.applied);
        }
        if let Some(decided) = &self.decided {
            data[DECIDED] = canonical(decided).into();
        }
        if self.recorded {
            data[RECORDED] = "true".into();
        }
        data
    }

    /// Reads the `data` of the ConfigMap.
    ///
    /// # Errors
    /// A key that is there is not readable.
    pub fn from_data(data: &Value) -> Result<Self, InventoryError> {
        Ok(Self {
            objects: read(data, OBJECTS)?.unwrap_or_default(),
            made_by_operands: read(data, MADE_BY_OPERANDS)?.unwrap_or_default(),
            applied: read(data, APPLIED)?.unwrap_or_default(),
            decided: read(data, DECIDED)?,
            recorded: read(data, RECORDED)?.unwrap_or_default(),
        })
    }
}

fn text<T: serde::Serialize>(value: &T) -> Value {
    // Maps and sets of strings always serialise.
    serde_json::to_string_pretty(value).map_or(Value::Null, Value::String)
}

fn read<T: serde::de::DeserializeOwned>(
    data: &Value,
    key: &'static str,
) -> Result<Option<T>, InventoryError> {
    let Some(text) = data[key].as_str() else {
        return Ok(None);
    };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|e| InventoryError::Unreadable {
            key,
            why: e.to_string(),
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kinds;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(kinds::CONFIG_MAP, "n", name)
    }

    #[test]
    fn it_survives_its_config_map() {
        let inventory = Inventory {
            objects: [
                (key("a"), "multus".to_owned()),
                (
                    ObjectKey::new(kinds::CLUSTER_ROLE, "", "b"),
                    "ovs".to_owned(),
                ),
            ]
            .into(),
            made_by_operands: [key("s")].into(),
            applied: [(key("a"), "0123".to_owned())].into(),
            decided: Some(json!({"range": "02:00"})),
            recorded: true,
        };
        assert_eq!(
            Inventory::from_data(&inventory.to_data()).unwrap(),
            inventory
        );
        assert_eq!(
            Inventory::from_data(&json!({})).unwrap(),
            Inventory::default()
        );
        assert!(Inventory::from_data(&json!({"objects": "{"})).is_err());
    }

    #[test]
    fn before_the_first_write_it_holds_old_and_new() {
        let old = Inventory {
            objects: [(key("a"), "x".to_owned()), (key("b"), "x".to_owned())].into(),
            ..Default::default()
        };
        let new = Inventory {
            objects: [(key("b"), "x".to_owned()), (key("c"), "x".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(old.clone().and(&new).objects.len(), 3);
        assert_eq!(old.surplus(&new, &Facts::default(), |_| false), [key("a")]);
    }

    #[test]
    fn held_handed_over_and_vanished_objects_are_no_surplus() {
        let issuer = ObjectKey::new(kinds::ISSUER, "n", "i");
        let old = Inventory {
            objects: [(key("a"), "x".to_owned()), (issuer.clone(), "x".to_owned())].into(),
            ..Default::default()
        };
        let none = Inventory::default();
        let served = Facts {
            definitions: [kinds::ISSUER.definition()].into(),
            ..Facts::default()
        };
        assert_eq!(
            old.surplus(&none, &served, |_| false),
            [issuer.clone(), key("a")]
                .into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(
            old.surplus(&none, &Facts::default(), |_| false),
            [key("a")],
            "nobody serves it"
        );
        assert_eq!(old.surplus(&none, &served, |unit| unit == "x"), []);
        let handed_over = Inventory {
            made_by_operands: [key("a")].into(),
            ..Default::default()
        };
        assert_eq!(old.surplus(&handed_over, &served, |_| false), [issuer]);
    }
}
