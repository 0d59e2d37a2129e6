//! The resource on whose behalf objects are written, and what marks its objects.

use serde_json::{Value, json};

use crate::{Domain, Kind, Live, Unit, fields, is_reference_to, kinds};

/// Label on every object of Weft: the resource that it belongs to, see [`Owner::label`]. Weft
/// watches by it.
pub const OWNER_LABEL: &str = "weft.network/owner";

/// Label on an operator of Weft itself, with the value `operator`. An operator that Weft replaces
/// can have the same name, but not this label.
pub const COMPONENT_LABEL: &str = "weft.network/component";

/// The resource on whose behalf objects are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid. `None` offline, where nothing is owned yet.
    pub uid: Option<String>,
    /// The field manager of its domain, `weft/<domain>`.
    pub manager: String,
}

impl Owner {
    /// The owner that a resource of this domain is.
    pub fn of(domain: &dyn Domain, resource: &Value) -> Self {
        let text = |pointer: &str| {
            resource
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Self {
            kind: domain.resource(),
            name: text("/metadata/name").unwrap_or_default(),
            uid: text("/metadata/uid"),
            manager: manager(domain),
        }
    }

    /// The value of [`OWNER_LABEL`], for example `networkaddonsconfig.cluster`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.kind.kind.to_lowercase(), self.name)
    }

    pub(crate) fn reference(&self) -> Option<Value> {
        let uid = self.uid.as_ref()?;
        Some(json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.kind, "name": self.name,
            "uid": uid, "controller": true, "blockOwnerDeletion": false
        }))
    }

    /// Reports whether a live object is this owner's: by label or, should somebody have removed
    /// that, by what Weft applied to it.
    pub fn owns(&self, live: &Value) -> bool {
        Live::of(live).label(OWNER_LABEL) == Some(&self.label())
            || fields::applied_by(live, &self.manager).is_some()
    }
}

/// The field manager of a domain.
pub fn manager(domain: &dyn Domain) -> String {
    format!("weft/{}", domain.name())
}

/// Kinds that are never deleted and never owned, since other people's objects may live in them.
pub fn is_kept_for_ever(kind: Kind) -> bool {
    matches!(kind, kinds::NAMESPACE | kinds::CUSTOM_RESOURCE_DEFINITION)
}

/// Gives every object Weft's label and, where it may go with the resource, the owner reference: the
/// garbage collector deletes what has one. `outlives` returns true for a unit whose objects stay
/// (see [`ObjectSet::outlives`](crate::ObjectSet::outlives)).
pub fn owned(mut units: Vec<Unit>, owner: &Owner, outlives: impl Fn(&str) -> bool) -> Vec<Unit> {
    for unit in &mut units {
        let outlives = outlives(&unit.name);
        for object in &mut unit.objects {
            object.set_label(OWNER_LABEL, &owner.label());
            if let Some(reference) = owner
                .reference()
                .filter(|_| !outlives && !is_kept_for_ever(object.key().kind))
            {
                object.set_owner(reference);
            }
        }
    }
    units
}

pub(crate) fn is_the_resource(reference: &Value, owner: &Owner) -> bool {
    is_reference_to(reference, owner.kind.group, owner.kind.kind)
}
