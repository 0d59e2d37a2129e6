//! How an object in the cluster differs from what Weft wants of it: in values, and in who answers
//! for them.
//!
//! The live object says itself, in `managedFields`, which fields Weft applied last and which
//! another user set since. So nothing needs to be remembered, and defaults that the API server
//! fills in are no differences: nobody owns them.

use serde_json::Value;

use crate::{
    Kind,
    fields::{self, Selector},
    kinds, secrets,
};

/// The parts of an object that Weft answers for: additions by others in here are drift. Elsewhere
/// (labels and annotations of the object itself, status) other people's additions are their own.
pub(crate) const GUARDED: [&str; 8] = [
    "spec",
    "data",
    "binaryData",
    "rules",
    "subjects",
    "roleRef",
    "aggregationRule",
    "webhooks",
];

/// The text in place of a secret.
const HIDDEN: &str = "***";

/// How many characters a line of a plan has of a value.
const BRIEF: usize = 160;

/// One field that is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where, for example `spec.template.spec.containers[name=multus].image`.
    pub path: String,
    /// Kind of the difference.
    pub what: What,
}

/// In which way a field is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It is not there.
    Missing {
        /// what it should be
        desired: Value,
    },
    /// It has another value.
    Changed {
        /// the live value
        live: Value,
        /// what it should be
        desired: Value,
    },
    /// Another user added it where Weft answers for everything.
    Added {
        /// the live value
        live: Value,
        /// the field manager that owns it
        by: String,
    },
    /// Weft applied it once and wants it no longer.
    Dropped {
        /// the live value
        live: Value,
    },
    /// It has the right value, but Weft does not own it: it would stay when Weft wants it no
    /// longer.
    Unowned,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        let brief = |value| self.shown(value, BRIEF);
        match &self.what {
            What::Missing { desired } => write!(f, "+ {path}: {}", brief(desired)),
            What::Changed { live, desired } => {
                write!(f, "~ {path}: {} -> {}", brief(live), brief(desired))
            }
            What::Added { live, by } => write!(f, "- {path}: {} (added by {by})", brief(live)),
            What::Dropped { live } => write!(f, "- {path}: {}", brief(live)),
            What::Unowned => write!(f, "= {path}: same value, ownership moves to Weft"),
        }
    }
}

impl Difference {
    /// Returns a value of the field as JSON without secrets, cut after so many characters.
    pub(crate) fn shown(&self, value: &Value, characters: usize) -> String {
        shortened(&self.masked(value), characters)
    }

    /// Returns a value of the field with a mask in place of each secret.
    #[must_use]
    pub fn masked(&self, value: &Value) -> Value {
        let name = field_name(&self.path);
        // Objects that Weft writes name a Secret there, and have no secret.
        let is_reference = name.to_lowercase().ends_with("secret");
        let name = if is_reference { "" } else { name };
        secrets::masked_at(name, value, HIDDEN)
    }
}

/// The name of the field at a path: of the value of an environment variable, that of the variable.
fn field_name(path: &str) -> &str {
    let entry = path
        .strip_suffix(".value")
        .filter(|entry| entry.ends_with(']'))
        .unwrap_or(path);
    match entry
        .strip_suffix(']')
        .and_then(|entry| entry.rsplit_once('['))
    {
        // An element of a set is a value, and no name.
        Some((_, selector)) if selector.starts_with('=') => "",
        Some((_, selector)) => selector.strip_prefix("name=").unwrap_or(selector),
        None => path.rsplit('.').next().unwrap_or_default(),
    }
}

/// A value as JSON, cut after so many characters.
fn shortened(value: &Value, characters: usize) -> String {
    let text = value.to_string();
    match text.char_indices().nth(characters) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// Every difference between the body of an apply and the live object, seen as `manager`. Empty: an
/// apply would change nothing.
///
/// # Examples
/// Defaults of the API server are no differences. A value of another manager is one.
///
/// ```
/// use serde_json::json;
/// use weft_plan::{compare, kinds};
///
/// let wanted = json!({
///     "apiVersion": "apps/v1", "kind": "DaemonSet",
///     "metadata": {"namespace": "net", "name": "multus", "labels": {"app": "multus"}},
///     "spec": {"minReadySeconds": 5},
/// });
/// let mut live = wanted.clone();
/// live["spec"]["revisionHistoryLimit"] = 10.into();
/// live["metadata"]["managedFields"] = json!([{
///     "manager": "weft/addons", "operation": "Apply", "apiVersion": "apps/v1",
///     "fieldsType": "FieldsV1",
///     "fieldsV1": {
///         "f:metadata": {"f:labels": {"f:app": {}}},
///         "f:spec": {"f:minReadySeconds": {}},
///     },
/// }]);
/// assert_eq!(compare(kinds::DAEMON_SET, &wanted, &live, "weft/addons"), []);
///
/// live["spec"]["minReadySeconds"] = 0.into();
/// let differences = compare(kinds::DAEMON_SET, &wanted, &live, "weft/addons");
/// assert_eq!(differences.len(), 1);
/// assert_eq!(differences[0].path, "spec.minReadySeconds");
/// ```
pub fn compare(kind: Kind, desired: &Value, live: &Value, manager: &str) -> Vec<Difference> {
    let nothing = Value::Null;
    let ours = fields::applied_by(live, manager);
    let mut found = Found::default();
    for (field, wanted) in desired.as_object().into_iter().flatten() {
        let Some(below) = own_root(field, wanted) else {
            continue;
        };
        let node = ours.and_then(|ours| ours.get(format!("f:{field}")));
        found.wanted(field, &below, live.get(field).unwrap_or(&nothing), node);
    }
    if let Some(ours) = ours {
        found.dropped("", ours, desired, live);
    }
    if guards_additions(kind) {
        let empty = Value::Object(serde_json::Map::new());
        for entry in fields::entries_of_others(live, manager) {
            let by = entry["manager"].as_str().unwrap_or("somebody");
            for root in GUARDED {
                let key = format!("f:{root}");
                if let (Some(theirs), Some(value)) = (entry["fieldsV1"].get(&key), live.get(root)) {
                    found.added(
                        root,
                        theirs,
                        ours.and_then(|ours| ours.get(&key)).unwrap_or(&empty),
                        value,
                        by,
                    );
                }
            }
        }
    }
    if kind == kinds::SECRET {
        found.differences.iter_mut().for_each(hide);
    }
    found.differences
}

/// Where a pod template changes, for a workload that replaces its pods then: the paths, without
/// `spec.template.`.
pub fn pod_template_changes(kind: Kind, differences: &[Difference]) -> Vec<String> {
    if !matches!(kind, kinds::DAEMON_SET | kinds::DEPLOYMENT) {
        return Vec::new();
    }
    let changed = differences
        .iter()
        .filter(|difference| difference.what != What::Unowned);
    changed
        .filter_map(|difference| difference.path.strip_prefix("spec.template."))
        .map(str::to_owned)
        .collect()
}

/// Hides the data of a Secret, because differences go into logs and onto screens.
fn hide(difference: &mut Difference) {
    if difference.path.starts_with("data") {
        match &mut difference.what {
            What::Missing { desired } => *desired = HIDDEN.into(),
            What::Changed { live, desired } => (*live, *desired) = (HIDDEN.into(), HIDDEN.into()),
            What::Added { live, .. } | What::Dropped { live } => *live = HIDDEN.into(),
            What::Unowned => {}
        }
    }
}

/// Returns the compared part of a top-level field: all of it except the identity of an object.
fn own_root(field: &str, wanted: &Value) -> Option<Value> {
    match field {
        "apiVersion" | "kind" => None,
        "metadata" => {
            let mut metadata = wanted.clone();
            if let Some(map) = metadata.as_object_mut() {
                map.retain(|key, _| {
                    matches!(
                        key.as_str(),
                        "labels" | "annotations" | "ownerReferences" | "finalizers"
                    )
                });
            }
            Some(metadata)
        }
        _ => Some(wanted.clone()),
    }
}

/// Namespaces hold other people's things, and a CRD's conversion webhook may be another user's.
fn guards_additions(kind: Kind) -> bool {
    !matches!(kind, kinds::NAMESPACE | kinds::CUSTOM_RESOURCE_DEFINITION)
}

/// Fields that others write by right.
pub(crate) fn left_alone(path: &str) -> bool {
    path.ends_with(".clientConfig.caBundle")
        || path.starts_with("spec.clusterIP")
        || path.ends_with(".nodePort")
        || path == "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"
}

fn leads_to_left_alone(path: &str, node: &Value) -> bool {
    node.as_object().into_iter().flatten().any(|(key, child)| {
        Selector::parse(key).is_some_and(|selector| {
            let path = selector.path(path);
            left_alone(&path) || leads_to_left_alone(&path, child)
        })
    })
}

#[derive(Default)]
struct Found {
    differences: Vec<Difference>,
}

impl Found {
    fn push(&mut self, path: &str, what: What) {
        // Two others may have added the same field.
        if !self.differences.iter().any(|known| known.path == path) {
            self.differences.push(Difference {
                path: path.to_owned(),
                what,
            });
        }
    }

    fn add(&mut self, path: &str, live: &Value, by: &str) {
        if !self
            .differences
            .iter()
            .any(|known| known.path == path && matches!(known.what, What::Added { .. }))
        {
            self.differences.push(Difference {
                path: path.to_owned(),
                what: What::Added {
                    live: live.clone(),
                    by: by.to_owned(),
                },
            });
        }
    }

    /// Checks that the wanted value exists, is equal, and is owned by Weft.
    fn wanted(&mut self, path: &str, desired: &Value, live: &Value, ours: Option<&Value>) {
        match (desired, live) {
            (_, Value::Null) if ours.is_some() && is_zero(desired) && !keeps_zero(path) => {}
            // Of a list that is merged by keys its elements are owned, and an empty one has none.
            (Value::Array(items), Value::Null) if items.is_empty() => {}
            (_, Value::Null) => self.push(
                path,
                What::Missing {
                    desired: desired.clone(),
                },
            ),
            (Value::Object(map), Value::Object(_)) if !map.is_empty() => {
                let owns_children =
                    ours.is_some_and(|node| node.as_object().is_some_and(|node| !node.is_empty()));
                for (key, wanted) in map {
                    let child = format!("f:{key}");
                    let node = ours.and_then(|node| {
                        if owns_children {
                            node.get(&child)
                        } else {
                            Some(node)
                        }
                    });
                    self.wanted(
                        &Selector::Field(key).path(path),
                        wanted,
                        live.get(key).unwrap_or(&Value::Null),
                        node,
                    );
                }
            }
            // A set, of which each owner has its own elements: those of others stay.
            (Value::Array(items), Value::Array(there)) if path == "metadata.finalizers" => {
                for item in items {
                    let at = format!("{path}[={}]", item.as_str().unwrap_or_default());
                    let owned = ours.is_some_and(|node| node.get(format!("v:{item}")).is_some());
                    match there.contains(item) {
                        false => self.push(
                            &at,
                            What::Missing {
                                desired: item.clone(),
                            },
                        ),
                        true if !owned => self.push(&at, What::Unowned),
                        true => {}
                    }
                }
            }
            (Value::Array(items), Value::Array(_)) if ours.is_some_and(fields::has_elements) => {
                let node = ours.and_then(Value::as_object);
                for item in items {
                    self.wanted_element(path, item, live, node);
                }
            }
            _ if !same(path, desired, live) => self.push(
                path,
                What::Changed {
                    live: live.clone(),
                    desired: desired.clone(),
                },
            ),
            _ if ours.is_none() => self.push(path, What::Unowned),
            _ => {}
        }
    }

    fn wanted_element(
        &mut self,
        path: &str,
        item: &Value,
        live: &Value,
        node: Option<&serde_json::Map<String, Value>>,
    ) {
        let only = Value::Array(vec![item.clone()]);
        let owned = node.into_iter().flatten().find_map(|(key, child)| {
            let selector = Selector::parse(key)?;
            selector.of(&only)?;
            Some((selector, child))
        });
        match owned {
            Some((selector, child)) => match selector.of(live) {
                Some(found) => self.wanted(&selector.path(path), item, found, Some(child)),
                None => self.push(
                    &selector.path(path),
                    What::Missing {
                        desired: item.clone(),
                    },
                ),
            },
            None => {
                let name = node
                    .and_then(|node| item_keys(item, node))
                    .unwrap_or_else(|| item_name(item));
                self.push(
                    &format!("{path}[{name}]"),
                    What::Missing {
                        desired: item.clone(),
                    },
                );
            }
        }
    }

    /// Finds values that Weft applied once and wants no longer.
    fn dropped(&mut self, path: &str, ours: &Value, desired: &Value, live: &Value) {
        for (key, child) in ours.as_object().into_iter().flatten() {
            let Some(selector) = Selector::parse(key) else {
                continue;
            };
            let Some(value) = selector.of(live) else {
                continue;
            };
            match selector.of(desired) {
                Some(wanted) => self.dropped(&selector.path(path), child, wanted, value),
                None => self.push(
                    &selector.path(path),
                    What::Dropped {
                        live: value.clone(),
                    },
                ),
            }
        }
    }

    /// Finds values that only others own.
    fn added(&mut self, path: &str, theirs: &Value, ours: &Value, live: &Value, by: &str) {
        for (key, child) in theirs.as_object().into_iter().flatten() {
            let Some(selector) = Selector::parse(key) else {
                continue;
            };
            let Some(value) = selector.of(live) else {
                continue;
            };
            let path = selector.path(path);
            match ours.get(key) {
                Some(ours) => self.added(&path, child, ours, value, by),
                None if left_alone(&path) => {}
                // A map on the way to a field that is left alone: look at what else is in it.
                None if leads_to_left_alone(&path, child) => {
                    self.added(&path, child, &Value::Null, value, by)
                }
                // Elements with owners of their own, where we own nothing of the list any more:
                // they stay when ours are applied, also if the list as a whole is known to differ
                // already.
                None if child.as_object().is_some_and(|child| !child.is_empty()) => {
                    self.add(&path, value, by)
                }
                None => self.push(
                    &path,
                    What::Added {
                        live: value.clone(),
                        by: by.to_owned(),
                    },
                ),
            }
        }
    }
}

/// An element by the keys that the API server knows the others of its list by. `None` if it does
/// not have all of them.
fn item_keys(item: &Value, others: &serde_json::Map<String, Value>) -> Option<String> {
    let keys: serde_json::Map<String, Value> = others
        .keys()
        .find_map(|key| serde_json::from_str(key.strip_prefix("k:")?).ok())?;
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let pairs: Option<Vec<_>> = keys
        .keys()
        .map(|key| Some(format!("{key}={}", text(item.get(key)?))))
        .collect();
    pairs.map(|pairs| pairs.join(","))
}

fn item_name(item: &Value) -> String {
    ["name", "uid", "type", "key"]
        .iter()
        .find_map(|key| Some(format!("{key}={}", item.get(*key)?.as_str()?)))
        .unwrap_or_else(|| shortened(item, BRIEF))
}

/// Reports whether the live value is the wanted one, whatever the API server filled in besides, and
/// however it writes quantities.
fn same(path: &str, desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => desired.iter().all(|(key, wanted)| {
            live.get(key).map_or_else(
                || is_zero(wanted),
                |found| same(&format!("{path}.{key}"), wanted, found),
            )
        }),
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired
                    .iter()
                    .zip(live)
                    .all(|(wanted, found)| same(path, wanted, found))
        }
        _ if desired == live => true,
        _ if holds_quantities(path) => {
            matches!((quantity_of(desired), quantity_of(live)), (Some(a), Some(b)) if a == b)
        }
        _ => false,
    }
}

/// Fields of which the API server keeps zero and false (pointers in k8s.io/api): they say something
/// else when they are left out.
const KEEP_ZERO: [&str; 11] = [
    "securityContext.allowPrivilegeEscalation",
    "securityContext.privileged",
    "securityContext.readOnlyRootFilesystem",
    "securityContext.runAsNonRoot",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.fsGroup",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "hostUsers",
    "optional",
];

pub(crate) fn keeps_zero(path: &str) -> bool {
    KEEP_ZERO.iter().any(|field| is_at(path, field))
}

/// Reports whether a path ends in this field, and not in one whose name only ends so.
pub(crate) fn is_at(path: &str, field: &str) -> bool {
    let begins_inside_a_name =
        field.starts_with("Probe") || field.starts_with("trategy") || field.starts_with(']');
    path.strip_suffix(field)
        .is_some_and(|above| begins_inside_a_name || above.is_empty() || above.ends_with('.'))
}

/// Reports whether the API server leaves such a value out when it writes the object (`omitempty` of
/// Go's JSON): an empty text, list or map, zero, false. The field is still owned.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn holds_quantities(path: &str) -> bool {
    [".requests.", ".limits.", ".capacity.", ".hard."]
        .iter()
        .any(|part| path.contains(part))
        || path.ends_with(".sizeLimit")
        || path.ends_with(".divisor")
}

fn quantity_of(value: &Value) -> Option<i128> {
    value
        .as_str()
        .map_or_else(|| quantity(&value.to_string()), quantity)
}

/// A quantity in billionths, exactly (apimachinery, `resource.Quantity`): the API server rewrites
/// `0.1` as `100m`. `None` for what is none, and for what is finer than a billionth or beyond
/// 10^20.
pub fn quantity(text: &str) -> Option<i128> {
    let digits = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => 1_000_000_000,
        "k" => 1_000_000_000_000,
        "M" => 1_000_000_000_000_000,
        "G" => 1_000_000_000_000_000_000,
        "T" => 1_000_000_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000_000_000_000,
        "Ki" => 1_000_000_000 << 10,
        "Mi" => 1_000_000_000 << 20,
        "Gi" => 1_000_000_000 << 30,
        "Ti" => 1_000_000_000 << 40,
        "Pi" => 1_000_000_000 << 50,
        "Ei" => 1_000_000_000 << 60,
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            10_i128.checked_pow(u32::try_from(exponent.checked_add(9)?).ok()?)?
        }
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let places = u32::try_from(part.len())
        .ok()
        .filter(|places| *places <= 9)?;
    let all: i128 = format!("{whole}{part}").parse().ok()?;
    all.checked_mul(scale).map(|all| all / 10_i128.pow(places))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    const ME: &str = "weft/addons";

    fn desired() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "n", "labels": {"app": "d"}},
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "c", "image": "i",
                            "resources": {"requests": {"cpu": "0.1"}},
                            "ports": [{"containerPort": 80}], "args": ["a", "b"]
                        }
                    ]
                }
            }
        }})
    }

    fn live() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "d", "namespace": "n", "labels": {"app": "d"}, "uid": "u",
                "managedFields": [{"manager": ME, "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                        "f:resources": {"f:requests": {"f:cpu": {}}}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}}}}]},
            "spec": {"revisionHistoryLimit": 10, "template": {"spec": {"restartPolicy": "Always", "containers": [
                {
                    "name": "c", "image": "i", "imagePullPolicy": "Always",
                    "resources": {"requests": {"cpu": "100m"}},
                    "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["a", "b"]
                }]}}},
            "status": {"numberReady": 1}})
    }

    fn differences(desired: &Value, live: &Value) -> Vec<String> {
        compare(kinds::DAEMON_SET, desired, live, ME)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        assert_eq!(differences(&desired(), &live()), Vec::<String>::new());
    }

    #[test]
    fn finalizers_of_others_stay() {
        let with = |finalizers: Value| {
            let mut object = live();
            object["metadata"]["finalizers"] = finalizers;
            object
        };
        let mut desired = desired();
        desired["metadata"]["finalizers"] = json!(["a/mine"]);
        let same = "= metadata.finalizers[=a/mine]: same value, ownership moves to Weft";
        assert_eq!(
            differences(&desired, &with(json!(["b/theirs", "a/mine"]))),
            [same]
        );
        assert_eq!(
            differences(&desired, &with(json!(["b/theirs"]))),
            ["+ metadata.finalizers[=a/mine]: \"a/mine\""]
        );
        let mut owned = with(json!(["b/theirs", "a/mine"]));
        owned["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:finalizers"] =
            json!({".": {}, "v:\"a/mine\"": {}});
        assert_eq!(differences(&desired, &owned), Vec::<String>::new());
    }

    #[test]
    fn an_empty_map_of_others_becomes_ours() {
        let with = |map: Value| {
            let mut object = live();
            object["spec"]["template"]["spec"]["securityContext"] = map;
            object
        };
        let mut desired = desired();
        desired["spec"]["template"]["spec"]["securityContext"] = json!({});
        for live in [json!({}), json!({"runAsUser": 0})] {
            let found = compare(kinds::DAEMON_SET, &desired, &with(live), ME);
            assert!(
                found.iter().any(|one| one.what == What::Unowned),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_changed_value_and_a_lost_label_are_seen() {
        let mut changed = live();
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil");
        changed["metadata"]["labels"] = json!({});
        assert_eq!(
            differences(&desired(), &changed),
            [
                "+ metadata.labels.app: \"d\"",
                "~ spec.template.spec.containers[name=c].image: \"evil\" -> \"i\""
            ]
        );
    }

    #[test]
    fn elements_that_replaced_ours_are_known_to_be_added() {
        let mut replaced = live();
        replaced["spec"]["template"]["spec"]["containers"][0]["ports"] =
            json!([{"containerPort": 1, "protocol": "TCP"}]);
        let ours = &mut replaced["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]
            ["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
        ours.as_object_mut().unwrap().remove("f:ports");
        let theirs = json!({
            "f:spec": {
                "f:template": {
                    "f:spec": {
                        "f:containers": {"k:{\"name\":\"c\"}": {
                            "f:ports": {"k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {".": {}}}
                        }}
                    }
                }
            }
        });
        replaced["metadata"]["managedFields"]
            .as_array_mut()
            .unwrap()
            .push(json!({"manager": "somebody", "operation": "Update", "fieldsV1": theirs}));
        let found = compare(kinds::DAEMON_SET, &desired(), &replaced, ME);
        assert!(
            found
                .iter()
                .any(|one| matches!(one.what, What::Added { .. })),
            "else an apply would leave them: {found:?}"
        );
    }

    #[test]
    fn the_same_value_owned_by_somebody_else_is_not_ours() {
        let mut live = live();
        live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]
            .as_object_mut()
            .unwrap()
            .remove("f:image");
        assert_eq!(
            differences(&desired(), &live),
            ["= spec.template.spec.containers[name=c].image: same value, ownership moves to Weft"]
        );
    }

    #[test]
    fn an_owned_empty_text_that_the_server_omits_is_no_difference() {
        let desired = json!({"spec": {"value": ""}});
        let owned = json!({
            "metadata": {
                "managedFields": [
                    {"manager": ME, "operation": "Apply", "fieldsV1": {"f:spec": {"f:value": {}}}}
                ]
            },
            "spec": {}
        });
        assert_eq!(differences(&desired, &owned), Vec::<String>::new());
        let lost = json!({
            "metadata": {
                "managedFields": [
                    {"manager": ME, "operation": "Apply", "fieldsV1": {"f:spec": {"f:other": {}}}}
                ]
            },
            "spec": {}
        });
        assert_eq!(differences(&desired, &lost), ["+ spec.value: \"\""]);
    }

    #[test]
    fn a_missing_element_is_named_by_the_keys_of_the_others() {
        let others =
            |text: &str| serde_json::from_str::<serde_json::Map<String, Value>>(text).unwrap();
        let mounts = others(r#"{"k:{\"mountPath\":\"/a\"}": {}}"#);
        assert_eq!(
            item_keys(&json!({"name": "v", "mountPath": "/b"}), &mounts).as_deref(),
            Some("mountPath=/b")
        );
        let ports = others(r#"{"k:{\"port\":1,\"protocol\":\"TCP\"}": {}}"#);
        assert_eq!(
            item_keys(&json!({"name": "p", "port": 2, "protocol": "UDP"}), &ports).as_deref(),
            Some("port=2,protocol=UDP")
        );
        assert_eq!(item_keys(&json!({"name": "p", "port": 2}), &ports), None);
    }

    #[test]
    fn an_empty_list_is_the_same_as_none() {
        let mut desired = desired();
        desired["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([]);
        assert_eq!(differences(&desired, &live()), Vec::<String>::new());
    }

    #[test]
    fn additions_to_owned_fields_count_and_metadata_of_others_does_not() {
        let mut live = live();
        live["metadata"]["annotations"] = json!({"theirs": "yes"});
        live["spec"]["template"]["metadata"] =
            json!({"annotations": {"kubectl.kubernetes.io/restartedAt": "now", "evil": "1"}});
        live["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "side", "image": "x"}));
        live["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "E", "value": "1"}]);
        live["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({"manager": "kubectl", "operation": "Update", "fieldsV1": {
            "f:metadata": {"f:annotations": {"f:theirs": {}}},
            "f:spec": {"f:template": {"f:metadata": {
                "f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}, "f:evil": {}}
            },
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {
                        "f:env": {
                            ".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}
                        }
                    }, "k:{\"name\":\"side\"}": {".": {}, "f:name": {}, "f:image": {}}}
                }}}}}));
        assert_eq!(
            compare(kinds::DAEMON_SET, &desired(), &live, ME)
                .iter()
                .map(|d| d.path.as_str())
                .collect::<Vec<_>>(),
            [
                "spec.template.metadata.annotations.evil",
                "spec.template.spec.containers[name=c].env",
                "spec.template.spec.containers[name=side]",
            ]
        );
    }

    #[test]
    fn unwanted_fields_are_dropped() {
        let mut wanted = desired();
        wanted["spec"]["template"]["spec"]["containers"][0]
            .as_object_mut()
            .unwrap()
            .remove("args");
        assert_eq!(
            differences(&wanted, &live()),
            ["- spec.template.spec.containers[name=c].args: [\"a\",\"b\"]"]
        );
    }

    #[test]
    fn the_certificate_of_a_webhook_is_not_ours() {
        let desired = json!({"webhooks": [{"name": "w", "rules": [{"operations": ["CREATE"]}]}]});
        let live = json!({"metadata": {"managedFields": [
            {
                "manager": ME, "operation": "Apply",
                "fieldsV1": {
                    "f:webhooks": {"k:{\"name\":\"w\"}": {".": {}, "f:name": {}, "f:rules": {}}}
                }
            },
            {
                "manager": "kubemacpool", "operation": "Update",
                "fieldsV1": {
                    "f:webhooks": {"k:{\"name\":\"w\"}": {"f:clientConfig": {"f:caBundle": {}}}}
                }
            }]},
        "webhooks": [
            {
                "name": "w", "clientConfig": {"caBundle": "x"},
                "rules": [{"operations": ["CREATE"], "scope": "*"}]
            }
        ]});
        assert_eq!(
            compare(kinds::MUTATING_WEBHOOK_CONFIGURATION, &desired, &live, ME),
            []
        );
    }

    #[test]
    fn a_secret_tells_where_it_differs_and_not_what_is_in_it() {
        let entry = |manager: &str, operation: &str, fields: Value| {
            json!({
                "manager": manager, "operation": operation, "fieldsV1": {"f:data": fields}
            })
        };
        let desired = json!({
            "apiVersion": "v1", "data": {"a": "new", "b": "new", "c": "kept"}, "kind": "Secret",
            "type": "Opaque"
        });
        let live = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": {"a": "old", "c": "kept", "d": "theirs", "e": "dropped"},
        "metadata": {
            "managedFields": [
                entry(ME, "Apply", json!({"f:a": {}, "f:c": {}, "f:e": {}})),
                entry("x", "Update", json!({"f:d": {}}))
            ]
        }});
        let lines: Vec<_> = compare(kinds::SECRET, &desired, &live, ME)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                r#"~ data.a: "***" -> "***""#,
                r#"+ data.b: "***""#,
                r#"~ type: "kubernetes.io/tls" -> "Opaque""#,
                r#"- data.e: "***""#,
                r#"- data.d: "***" (added by x)"#,
            ]
        );
        let nothing = json!({"type": "Opaque"});
        let whole = compare(kinds::SECRET, &json!({"data": {"a": "new"}}), &nothing, ME);
        assert_eq!(
            whole.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [r#"+ data: "***""#]
        );
    }

    #[test]
    fn secrets_of_any_object_are_not_shown() {
        let changed = |path: &str, live: Value, desired: Value| Difference {
            path: path.to_owned(),
            what: What::Changed { live, desired },
        };
        let of_env = "spec.template.spec.containers[name=c].env[name=DB_PASSWORD].value";
        for (difference, line) in [
            (
                changed(of_env, json!("one"), json!("two")),
                format!(r#"~ {of_env}: "***" -> "***""#),
            ),
            (
                changed("data[ssl.key]", json!("one"), json!("two")),
                r#"~ data[ssl.key]: "***" -> "***""#.to_owned(),
            ),
            (
                changed("data", json!({"psk": "one"}), json!(null)),
                r#"~ data: {"psk":"***"} -> null"#.to_owned(),
            ),
            (
                changed("spec.secret", json!("osp-secret"), json!("other")),
                r#"~ spec.secret: "osp-secret" -> "other""#.to_owned(),
            ),
            (
                changed("metadata.finalizers[=a/token]", json!("a/token"), json!(1)),
                r#"~ metadata.finalizers[=a/token]: "a/token" -> 1"#.to_owned(),
            ),
        ] {
            assert_eq!(difference.to_string(), line);
        }
    }

    #[test]
    fn quantities_are_compared_by_amount_and_only_where_quantities_are() {
        assert_eq!(quantity("0.1"), quantity("100m"));
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert_ne!(quantity("1G"), quantity("1Gi"));
        let decimal = [
            ("1n", -9),
            ("1u", -6),
            ("1m", -3),
            ("1", 0),
            ("1k", 3),
            ("1M", 6),
            ("1G", 9),
            ("1T", 12),
            ("1P", 15),
            ("1E", 18),
        ];
        for (text, exponent) in decimal {
            assert_eq!(
                quantity(text),
                Some(10_i128.pow(u32::try_from(9 + exponent).unwrap())),
                "{text}"
            );
            assert_eq!(quantity(text), quantity(&format!("1e{exponent}")), "{text}");
            assert_eq!(
                quantity(text),
                quantity(&format!("+1E{exponent}")),
                "{text}"
            );
        }
        for (text, shift) in [
            ("1Ki", 10),
            ("1Mi", 20),
            ("1Gi", 30),
            ("1Ti", 40),
            ("1Pi", 50),
            ("1Ei", 60),
        ] {
            assert_eq!(quantity(text), Some(1_000_000_000 << shift), "{text}");
        }
        assert_eq!(
            (quantity("-1.5"), quantity("0.000000001")),
            (Some(-1_500_000_000), Some(1))
        );
        for wrong in [
            "",
            "1 Gi",
            "Gi",
            "1gi",
            "1e",
            "x",
            "1.2.3",
            "1e-10",
            "0.0000000001",
            "9999999999999999999E",
        ] {
            assert_eq!(quantity(wrong), None, "{wrong:?}");
        }
        assert!(same(
            "spec.resources.requests.cpu",
            &json!("1"),
            &json!("1000m")
        ));
        assert!(!same("data.value", &json!("1"), &json!("1000m")));
    }
}
