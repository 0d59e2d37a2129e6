//! Objects that drifted and that Weft leaves as they are, because their resource asks for that.
//!
//! The live object cannot show if a difference is drift or a new wish: a field that Weft applied
//! and another user deleted looks like a field that is wanted for the first time. So under `Report`
//! the inventory has a digest of what was applied last of each object. Wanted as before, and
//! different: that is drift.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weft_api::{DriftedField, DriftedObject};

use crate::{Difference, DriftPolicy, Inventory, Live, Manifest, ObjectKey, Step, Unit, What};

/// The type of the condition of a resource whose objects drifted. It exists only while it holds.
pub const CONDITION: &str = "Drifted";

/// Annotation on a resource: as long as it is there, nothing is written in its name but its status.
/// The value is `true`.
pub const PAUSE_ANNOTATION: &str = "weft.network/pause";

/// How many objects status lists, how many fields of each, and how many characters of a value: so
/// that status stays small, however much has been changed.
const LISTED: (usize, usize, usize) = (10, 5, 100);

/// How many policies and webhooks a message names.
const NAMED: usize = 3;

/// Returns the value of the pause annotation, unless it is absent or `false`. Other texts than
/// `true` count as it: whoever writes `yes` wants a pause, and nothing is lost by one.
pub fn pause(resource: &Value) -> Option<&str> {
    let value = Live::of(resource).annotation(PAUSE_ANNOTATION)?;
    (value != "false").then_some(value)
}

/// Which steps are not carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Freeze {
    /// No object is held.
    #[default]
    Nothing,
    /// Those that would put drift right. Here are the objects that are wanted just as they were
    /// applied last, with the digests of that.
    Drift(BTreeMap<ObjectKey, String>),
    /// All that write. Here is what there was of the resource before.
    Everything(BTreeSet<ObjectKey>),
}

impl Freeze {
    /// Returns the hold that a resource with these units asks for.
    pub fn of(
        resource: &Value,
        policy: DriftPolicy,
        inventory: &Inventory,
        units: &[Unit],
    ) -> Self {
        match policy {
            // Before Weft has decided anything, the inventory lists what the original may have
            // left.
            _ if pause(resource).is_some() && inventory.decided.is_none() => {
                Self::Everything(BTreeSet::new())
            }
            _ if pause(resource).is_some() => {
                Self::Everything(inventory.objects.keys().cloned().collect())
            }
            DriftPolicy::Repair => Self::Nothing,
            DriftPolicy::Report => {
                let objects = units.iter().flat_map(|unit| &unit.objects);
                let unchanged = objects.filter_map(|object| {
                    let digest = inventory.applied.get(object.key())?;
                    (*digest == object.hash()).then(|| (object.key().clone(), digest.clone()))
                });
                Self::Drift(unchanged.collect())
            }
        }
    }

    /// Returns the objects whose relevant parts are wanted exactly as Weft last applied them.
    pub fn unchanged(&self) -> BTreeMap<ObjectKey, String> {
        match self {
            Self::Drift(unchanged) => unchanged.clone(),
            Self::Nothing | Self::Everything(_) => BTreeMap::new(),
        }
    }

    /// Reports whether this object was there before, and a step that recreates it would be held
    /// back: then it is worth a look whether it has only lost its label.
    pub fn expects(&self, object: &ObjectKey) -> bool {
        match self {
            Self::Nothing => false,
            Self::Drift(unchanged) => unchanged.contains_key(object),
            Self::Everything(before) => before.contains(object),
        }
    }

    /// How the object deviates, if that is left so.
    pub fn keeps_back(
        &self,
        manifest: &Manifest,
        step: &Step,
        live: Option<&Value>,
    ) -> Option<Deviation> {
        match self {
            Self::Nothing => return None,
            Self::Drift(unchanged) if !unchanged.contains_key(manifest.key()) => return None,
            Self::Drift(_) | Self::Everything(_) => {}
        }
        let is_going = live.is_some_and(|live| Live::of(live).is_being_deleted());
        match step {
            Step::Create if self.expects(manifest.key()) => Some(Deviation::Missing),
            Step::Create => Some(Deviation::Pending),
            Step::Keep | Step::Change { .. } if is_going => Some(Deviation::BeingDeleted),
            Step::Change { differences, .. } => Some(Deviation::Changed(differences.clone())),
            // Its owner has agreed to it just now.
            Step::TakeOver { .. } if !matches!(self, Self::Everything(_)) => None,
            Step::TakeOver { differences } => Some(Deviation::Changed(differences.clone())),
            Step::Keep | Step::Leave { .. } | Step::Foreign { .. } => None,
        }
    }
}

/// An object that is left as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The unit that it belongs to. Empty if it belongs to none any more.
    pub unit: String,
    /// The object that drifted.
    pub object: ObjectKey,
    /// How it deviates from what is wanted.
    pub deviation: Deviation,
}

/// How an object deviates from what is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Deviation {
    /// It was there, and is not any more.
    Missing,
    /// Somebody has deleted it, and finalizers hold it.
    BeingDeleted,
    /// Fields differ.
    Changed(Vec<Difference>),
    /// It is not there yet.
    Pending,
    /// The API server answers with other values than Weft applies: an admission policy or a webhook
    /// changes them.
    Altered {
        /// The fields that differ.
        differences: Vec<Difference>,
        /// The names of the policies and webhooks that may do it, for people. Empty if none is known.
        by: Vec<String>,
    },
    /// Another client writes a field again each time that Weft has put it right.
    Contested {
        /// The fields that differ.
        differences: Vec<Difference>,
        /// The contested ones of them, with the field manager that wrote each, as far as it is known.
        /// The empty path is the whole object.
        contested: Vec<(String, String)>,
    },
    /// It is there and not wanted any more.
    Unwanted,
}

impl Drift {
    /// Reports whether the object was there, and is not any more or soon will not be.
    pub fn is_loss(&self) -> bool {
        matches!(self.deviation, Deviation::Missing | Deviation::BeingDeleted)
    }

    /// Reports whether the resource asks for this deviation, by `driftPolicy` or a pause.
    pub fn is_asked_for(&self) -> bool {
        !matches!(
            self.deviation,
            Deviation::Altered { .. } | Deviation::Contested { .. }
        )
    }

    /// Reports whether the object may fail to do its task, see [`Deviation::harms`].
    pub fn harms(&self) -> bool {
        self.deviation.harms()
    }

    /// The weight: what is worse comes first, since a list may be cut.
    pub fn rank(&self) -> usize {
        match self.deviation {
            Deviation::Missing | Deviation::BeingDeleted => 0,
            Deviation::Changed(_) | Deviation::Altered { .. } | Deviation::Contested { .. } => 1,
            Deviation::Pending => 2,
            Deviation::Unwanted => 3,
        }
    }

    /// Reports whether there is something to say: the same value under another owner is no news.
    pub fn is_visible(&self) -> bool {
        !matches!(&self.deviation, Deviation::Changed(differences) if differences.iter().all(|one| one.what == What::Unowned))
    }

    /// The object and the first field, for people: `DaemonSet n/multus (spec.x)`.
    pub fn human(&self) -> String {
        format!("{} ({})", self.object.human(), self.deviation.human())
    }

    fn listed(&self) -> DriftedObject {
        let (state, fields) = match &self.deviation {
            Deviation::Missing => ("Missing", Vec::new()),
            Deviation::BeingDeleted => ("BeingDeleted", Vec::new()),
            Deviation::Pending => ("Pending", Vec::new()),
            Deviation::Unwanted => ("Unwanted", Vec::new()),
            Deviation::Changed(differences) => ("Changed", fields(differences)),
            Deviation::Altered { differences, .. } => ("Altered", fields(differences)),
            Deviation::Contested { differences, .. } => ("Contested", fields(differences)),
        };
        let ObjectKey {
            kind,
            namespace,
            name,
        } = self.object.clone();
        DriftedObject {
            kind: kind.kind.to_owned(),
            namespace,
            name,
            state: state.to_owned(),
            fields,
        }
    }
}

impl Difference {
    /// The whole object is gone.
    #[must_use]
    pub fn gone() -> Self {
        Self {
            path: String::new(),
            what: What::Missing {
                desired: Value::Null,
            },
        }
    }

    /// Reports whether the whole object is gone.
    fn is_gone(&self) -> bool {
        self.path.is_empty()
    }

    /// A field with its value, and the value that it should have, for people.
    #[must_use]
    pub fn instead(&self) -> String {
        let (path, text) = (&self.path, |value: &Value| self.shown(value, LISTED.2));
        match &self.what {
            What::Missing { desired } => format!("{path} is missing instead of {}", text(desired)),
            What::Changed { live, desired } => {
                format!("{path} is {} instead of {}", text(live), text(desired))
            }
            What::Added { live, .. } | What::Dropped { live } => {
                format!("{path} is {} and should not be there", text(live))
            }
            What::Unowned => path.clone(),
        }
    }
}

impl Deviation {
    /// Reports whether the object may fail to do its task by what others have made of it. Labels,
    /// annotations, scheduling, resources and additions leave the task as it is, and so does the
    /// same image from a mirror.
    pub fn harms(&self) -> bool {
        match self {
            Self::Altered { differences, .. } | Self::Contested { differences, .. } => {
                differences.iter().any(matters)
            }
            Self::Missing | Self::BeingDeleted => true,
            Self::Changed(_) | Self::Pending | Self::Unwanted => false,
        }
    }

    /// The deviation with its first field, for people.
    pub fn human(&self) -> String {
        match self {
            Self::Missing => "missing".to_owned(),
            Self::BeingDeleted => "being deleted".to_owned(),
            Self::Pending => "not there yet".to_owned(),
            Self::Unwanted => "not wanted any more".to_owned(),
            Self::Changed(differences) => first(differences, |one| one.path.clone()),
            Self::Altered { differences, by } => {
                format!(
                    "{}{}",
                    first(differences, Difference::instead),
                    suspects(by)
                )
            }
            Self::Contested {
                differences,
                contested,
            } => {
                let by = contested.first().map_or("", |(_, by)| by);
                match differences.iter().any(Difference::is_gone) {
                    true => format!("deleted again and again by {by}"),
                    false => format!("{} by {by}", first(differences, Difference::instead)),
                }
            }
        }
    }
}

/// Returns how many objects drifted, as the begin of a sentence.
pub(crate) fn count(drift: &[Drift]) -> String {
    match drift.len() {
        1 => "1 object is not as it should be".to_owned(),
        count => format!("{count} objects are not as they should be"),
    }
}

/// Those that may have changed an object, as the end of a sentence. Empty if none is known.
fn suspects(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let more = match names.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; {}{more} may do it", named.join(", "))
}

/// The objects for people, the first few of them.
pub(crate) fn human(drift: &[Drift]) -> String {
    let mut names: Vec<_> = drift.iter().take(LISTED.0).map(Drift::human).collect();
    if drift.len() > LISTED.0 {
        names.push(format!("and {} more", drift.len() - LISTED.0));
    }
    names.join(", ")
}

/// `status.drift`
pub fn listed(drift: &[Drift]) -> Vec<DriftedObject> {
    drift.iter().take(LISTED.0).map(Drift::listed).collect()
}

/// The first difference, and how many more there are.
fn first(differences: &[Difference], text: impl Fn(&Difference) -> String) -> String {
    let mut all = visible(differences);
    let first = all.next().map(text).unwrap_or_default();
    match all.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Parts of a path below which a difference leaves the task of an object as it is.
const HARMLESS: [&str; 14] = [
    ".metadata.annotations",
    ".metadata.labels",
    ".resources.",
    ".tolerations",
    ".nodeSelector",
    ".affinity",
    ".priorityClassName",
    ".schedulerName",
    ".topologySpreadConstraints",
    ".terminationGracePeriodSeconds",
    ".imagePullSecrets",
    ".imagePullPolicy",
    ".revisionHistoryLimit",
    ".minReadySeconds",
];

fn matters(difference: &Difference) -> bool {
    let path = &difference.path;
    let is_harmless =
        path.starts_with("metadata.") || HARMLESS.iter().any(|part| path.contains(part));
    match &difference.what {
        What::Unowned | What::Added { .. } => false,
        What::Changed { live, desired } if path.ends_with(".image") => {
            // The last part of the path, with tag or digest.
            let name = |image: &Value| {
                let text = image.as_str().unwrap_or_default();
                text.rsplit('/').next().unwrap_or_default().to_owned()
            };
            name(live) != name(desired)
        }
        _ => !is_harmless,
    }
}

fn fields(differences: &[Difference]) -> Vec<DriftedField> {
    visible(differences).take(LISTED.1).map(field).collect()
}

fn visible(differences: &[Difference]) -> impl Iterator<Item = &Difference> {
    differences
        .iter()
        .filter(|difference| difference.what != What::Unowned)
}

fn field(difference: &Difference) -> DriftedField {
    let text = |value: &Value| Some(difference.shown(value, LISTED.2));
    let path = difference.path.clone();
    match &difference.what {
        What::Missing { desired } => DriftedField {
            path,
            desired: text(desired),
            ..Default::default()
        },
        What::Changed { live, desired } => DriftedField {
            path,
            desired: text(desired),
            actual: text(live),
            ..Default::default()
        },
        What::Added { live, by } => DriftedField {
            path,
            actual: text(live),
            added_by: Some(by.clone()),
            ..Default::default()
        },
        What::Dropped { live } => DriftedField {
            path,
            actual: text(live),
            ..Default::default()
        },
        What::Unowned => DriftedField {
            path,
            ..Default::default()
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Owner, kinds, step};
    use serde_json::json;

    fn owner() -> Owner {
        Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".into(),
            uid: None,
            manager: "weft/addons".into(),
        }
    }

    fn manifest(data: &Value) -> Manifest {
        let mut map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "n", "labels": {"l": "l"}}
        });
        map["data"] = data.clone();
        Manifest::new(map).unwrap()
    }

    /// As the API server has it after Weft applied `data`. Somebody then made it `now`.
    fn live(data: &Value, now: &Value) -> Value {
        let fields: serde_json::Map<_, _> = data
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| now[*key] == **value)
            .map(|(key, _)| (format!("f:{key}"), json!({})))
            .collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": now, "metadata": {"name": "c", "namespace": "n", "labels": {"l": "l"}, "managedFields": [
        {
            "manager": "weft/addons", "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": fields}
        }]}})
    }

    /// Drift is reported, and this is what was applied last.
    fn report(applied: &Manifest, wanted: &Manifest) -> Freeze {
        let inventory = Inventory {
            applied: [(applied.key().clone(), applied.hash())].into(),
            ..Inventory::default()
        };
        Freeze::of(
            &json!({}),
            DriftPolicy::Report,
            &inventory,
            &[Unit {
                name: "u".into(),
                objects: vec![wanted.clone()],
            }],
        )
    }

    fn held(freeze: &Freeze, manifest: &Manifest, live: Option<&Value>) -> Option<Deviation> {
        freeze.keeps_back(manifest, &step(manifest, live, &owner(), false), live)
    }

    #[test]
    fn each_kind_of_difference_lists_what_is_known_of_it() {
        let shown = |what: What| {
            let field = field(&Difference {
                path: "spec.x".into(),
                what,
            });
            assert_eq!(field.path, "spec.x");
            (field.desired, field.actual, field.added_by)
        };
        let (one, two, by) = (json!(1), json!(2), || Some("kubectl".to_owned()));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            shown(What::Missing {
                desired: one.clone()
            }),
            (text("1"), None, None)
        );
        assert_eq!(
            shown(What::Changed {
                live: two.clone(),
                desired: one.clone()
            }),
            (text("1"), text("2"), None)
        );
        assert_eq!(
            shown(What::Added {
                live: two.clone(),
                by: "kubectl".into()
            }),
            (None, text("2"), by())
        );
        assert_eq!(shown(What::Dropped { live: two }), (None, text("2"), None));
        assert_eq!(shown(What::Unowned), (None, None, None));
    }

    #[test]
    fn a_message_names_a_few_of_those_that_may_alter_an_object() {
        let says = |by: &[&str]| {
            let image = Difference {
                path: "image".into(),
                what: What::Changed {
                    live: "theirs".into(),
                    desired: "ours".into(),
                },
            };
            let deviation = Deviation::Altered {
                differences: vec![image],
                by: by.iter().map(|name| (*name).to_owned()).collect(),
            };
            deviation.human()
        };
        let differs = "image is \"theirs\" instead of \"ours\"";
        assert_eq!(says(&[]), differs);
        assert_eq!(says(&["a"]), format!("{differs}; a may do it"));
        assert_eq!(
            says(&["a", "b", "c"]),
            format!("{differs}; a, b, c may do it")
        );
        assert_eq!(
            says(&["a", "b", "c", "d", "e"]),
            format!("{differs}; a, b, c and 2 more may do it")
        );
    }

    #[test]
    fn a_changed_object_drifts_only_if_its_wish_is_old() {
        let before = manifest(&json!({"a": "1"}));
        let same = report(&before, &before);
        let edited = live(&json!({"a": "1"}), &json!({"a": "2"}));
        assert!(matches!(
            held(&same, &before, Some(&edited)),
            Some(Deviation::Changed(_))
        ));
        assert_eq!(held(&same, &before, None), Some(Deviation::Missing));
        // A deleted field. `managedFields` lists it no more than a field that was never there.
        assert!(matches!(
            held(&same, &before, Some(&live(&json!({"a": "1"}), &json!({})))),
            Some(Deviation::Changed(_))
        ));
        let anew = manifest(&json!({"a": "3"}));
        let new = report(&before, &anew);
        assert_eq!(held(&new, &anew, Some(&edited)), None);
        assert_eq!(held(&new, &anew, None), None);
        assert_eq!((new.unchanged().len(), same.unchanged().len()), (0, 1));
        assert_eq!(held(&Freeze::Nothing, &before, None), None);
        assert_eq!(
            held(
                &same,
                &before,
                Some(&live(&json!({"a": "1"}), &json!({"a": "1"})))
            ),
            None,
            "nothing differs"
        );
    }

    #[test]
    fn a_deleted_object_with_a_finalizer_may_go() {
        let map = manifest(&json!({"a": "1"}));
        let mut going = live(&json!({"a": "1"}), &json!({"a": "1"}));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(
            held(&report(&map, &map), &map, Some(&going)),
            Some(Deviation::BeingDeleted)
        );
        assert_eq!(held(&Freeze::Nothing, &map, Some(&going)), None);
    }

    #[test]
    fn a_pause_holds_back_every_write_and_a_policy_no_agreement() {
        let map = manifest(&json!({"a": "1"}));
        assert_eq!(
            held(&Freeze::Everything(BTreeSet::new()), &map, None),
            Some(Deviation::Pending)
        );
        assert_eq!(
            held(&Freeze::Everything([map.key().clone()].into()), &map, None),
            Some(Deviation::Missing)
        );
        let theirs = json!({
            "metadata": {"annotations": {"weft.network/adopt": "true"}}, "data": {"a": "1"}
        });
        assert!(matches!(
            held(&Freeze::Everything(BTreeSet::new()), &map, Some(&theirs)),
            Some(Deviation::Changed(_))
        ));
        assert_eq!(
            held(&report(&map, &map), &map, Some(&theirs)),
            None,
            "its owner has agreed"
        );
    }

    #[test]
    fn the_annotation_pauses_unless_it_says_false() {
        let resource =
            |value: Value| json!({"metadata": {"annotations": {PAUSE_ANNOTATION: value}}});
        assert_eq!(pause(&resource(json!("true"))), Some("true"));
        assert_eq!(pause(&resource(json!("yes"))), Some("yes"));
        assert_eq!(pause(&resource(json!("false"))), None);
        assert_eq!(pause(&json!({"metadata": {}})), None);
        let inventory = Inventory::default();
        assert_eq!(
            Freeze::of(
                &resource(json!("true")),
                DriftPolicy::Report,
                &inventory,
                &[]
            ),
            Freeze::Everything(BTreeSet::new())
        );
        assert_eq!(
            Freeze::of(
                &resource(json!("false")),
                DriftPolicy::Report,
                &inventory,
                &[]
            ),
            Freeze::Drift(BTreeMap::new())
        );
        assert_eq!(
            Freeze::of(&json!({}), DriftPolicy::Repair, &inventory, &[]),
            Freeze::Nothing
        );
    }

    #[test]
    fn status_lists_a_few_and_hides_what_is_secret() {
        let secret = |value: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"},
                "data": {"k": value}
            })
        };
        let mut found = secret("bXk=");
        found["metadata"]["managedFields"] = json!([
            {"manager": "weft/addons", "operation": "Apply", "fieldsV1": {"f:data": {"f:k": {}}}}
        ]);
        let wanted = Manifest::new(secret("eW91cg==")).unwrap();
        let deviation = held(&Freeze::Everything(BTreeSet::new()), &wanted, Some(&found)).unwrap();
        let drift = Drift {
            unit: "u".into(),
            object: wanted.key().clone(),
            deviation,
        };
        let all = listed(std::slice::from_ref(&drift));
        assert_eq!(
            serde_json::to_value(&all).unwrap(),
            json!([
                {
                    "kind": "Secret", "namespace": "n", "name": "s", "state": "Changed",
                    "fields": [{"path": "data.k", "desired": "\"***\"", "actual": "\"***\""}]
                }
            ])
        );
        let long = "x".repeat(1000);
        let fields = (0..50)
            .map(|n| Difference {
                path: format!("spec.f{n}"),
                what: What::Missing {
                    desired: json!(long),
                },
            })
            .collect();
        let large = Drift {
            deviation: Deviation::Changed(fields),
            ..drift
        };
        let many = vec![large; 500];
        let size = serde_json::to_string(&listed(&many)).unwrap().len();
        assert!(size < 10_000, "{size}");
        assert!(human(&many).ends_with("and 490 more"), "{}", human(&many));
    }

    #[test]
    fn the_same_value_under_another_owner_is_not_worth_a_word() {
        let what = |what| Drift {
            unit: String::new(),
            object: ObjectKey::new(kinds::CONFIG_MAP, "n", "c"),
            deviation: Deviation::Changed(vec![Difference {
                path: "data.a".into(),
                what,
            }]),
        };
        assert!(!what(What::Unowned).is_visible());
        assert!(what(What::Dropped { live: json!(1) }).is_visible());
    }
}
