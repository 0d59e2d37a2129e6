//! `metadata.managedFields`: who owns which field, as server-side apply keeps it.
//!
//! A `fieldsV1` value is a tree: `f:name` is a field, `k:{"name":"x"}` the element of a list with
//! these keys, `v:"x"` an element of a set, `.` the node itself. A node without children is a leaf:
//! a scalar, or a map or list that is owned as a whole. (Kubernetes documentation, "Server-Side
//! Apply"; structured-merge-diff, `fieldpath`.)

use serde_json::{Map, Value};

/// The value of `operation` in entries that server-side apply made.
const APPLY: &str = "Apply";

/// The tree of fields that `manager` has applied to this object, if it ever has.
pub(crate) fn applied_by<'a>(live: &'a Value, manager: &str) -> Option<&'a Value> {
    entries(live)
        .find(|entry| is_ours(entry, manager))
        .map(|entry| &entry["fieldsV1"])
}

/// The entries of everybody but `manager`, those of status and other subresources left out.
pub(crate) fn entries_of_others<'a>(
    live: &'a Value,
    manager: &str,
) -> impl Iterator<Item = &'a Value> {
    entries(live).filter(move |entry| !is_ours(entry, manager) && is_of_object(entry))
}

/// Returns the manager that last wrote a field of this object, unless that is Weft. `path` is in the
/// form of [`Difference::path`](crate::Difference::path).
#[must_use]
pub fn writer(live: &Value, path: &str) -> Option<String> {
    let writes = |entry: &&Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        !manager.starts_with("weft/") && covers(&entry["fieldsV1"], "", path)
    };
    // Times of RFC 3339 in UTC have the order of their texts.
    let last = entries(live)
        .filter(writes)
        .max_by_key(|entry| entry["time"].as_str().unwrap_or_default())?;
    last["manager"].as_str().map(str::to_owned)
}

/// Reports whether a tree has this field, or a map or list around it as a whole.
fn covers(tree: &Value, at: &str, path: &str) -> bool {
    let mut children = tree.as_object().into_iter().flatten();
    children.any(|(key, child)| {
        let Some(selector) = Selector::parse(key) else {
            return false;
        };
        let here = selector.path(at);
        let is_leaf = child.as_object().is_none_or(Map::is_empty);
        match path.strip_prefix(&here) {
            Some("") => true,
            Some(rest) if rest.starts_with(['.', '[']) => is_leaf || covers(child, &here, path),
            _ => false,
        }
    })
}

/// Reports whether the horizontal autoscaler sets this object's replicas: it writes through the
/// scale subresource.
pub(crate) fn is_autoscaled(live: &Value) -> bool {
    entries(live).any(|entry| {
        entry["subresource"] == "scale"
            && entry["manager"] == "kube-controller-manager"
            && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
    })
}

/// The entries by which the specification was applied on the server.
pub(crate) fn appliers(live: &Value) -> impl Iterator<Item = &Value> {
    entries(live).filter(|entry| {
        entry["operation"] == APPLY
            && is_of_object(entry)
            && entry.pointer("/fieldsV1/f:spec").is_some()
    })
}

/// The entry that wrote an annotation otherwise than by server-side apply.
pub(crate) fn annotated_by<'a>(live: &'a Value, annotation: &str) -> Option<&'a Value> {
    let field = format!("f:{annotation}");
    entries(live).find(|entry| {
        entry["operation"] != APPLY
            && !entry["fieldsV1"]["f:metadata"]["f:annotations"][&field].is_null()
    })
}

/// The tree of fields that all entries but this one have together, those of status and other
/// subresources left out.
pub(crate) fn of_all_but(live: &Value, entry: &Value) -> Value {
    let mut together = Value::Object(Map::new());
    for other in entries(live).filter(|other| is_of_object(other) && !std::ptr::eq(*other, entry)) {
        merge(&mut together, &other["fieldsV1"]);
    }
    together
}

/// The tree of all fields of a value, lists as a whole.
pub(crate) fn tree(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    Value::Object(
        fields
            .map(|(field, value)| (format!("f:{field}"), tree(value)))
            .collect(),
    )
}

/// How many fields of a value a tree has.
pub(crate) fn shared(tree: &Value, value: &Value) -> usize {
    let is_leaf = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    if tree.is_null() {
        0
    } else if is_leaf(tree) || is_leaf(value) {
        1
    } else {
        let fields = value.as_object().into_iter().flatten();
        fields
            .map(|(field, value)| shared(&tree[format!("f:{field}")], value))
            .sum()
    }
}

/// Reports whether a node is that of a list whose elements have owners of their own (list type map
/// or set). Else the list is owned as a whole.
pub(crate) fn has_elements(node: &Value) -> bool {
    node.as_object().is_some_and(|node| {
        node.keys()
            .any(|key| key.starts_with("k:") || key.starts_with("v:"))
    })
}

/// The fields that identify the elements of a list. `None` for a set.
pub(crate) fn element_keys(node: &Value) -> Option<Vec<String>> {
    node.as_object()?.keys().find_map(|key| {
        let Selector::Keys(keys) = Selector::parse(key)? else {
            return None;
        };
        Some(keys.into_iter().map(|(key, _)| key).collect())
    })
}

/// The part of a list's node that is about this element.
pub(crate) fn element<'t>(node: &'t Value, item: &Value) -> Option<&'t Value> {
    let list = Value::Array(vec![item.clone()]);
    node.as_object()?
        .iter()
        .find_map(|(key, child)| Selector::parse(key)?.of(&list).map(|_| child))
}

fn is_of_object(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    live.pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn is_ours(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == APPLY && is_of_object(entry)
}

/// `managedFields` as they are after everything under `roots` that others own has become
/// `manager`'s: the next apply by `manager` then removes what it does not name. Entries of
/// subresources, and what others own elsewhere, stay as they are.
pub(crate) fn taken_over(live: &Value, manager: &str, roots: &[&str]) -> Value {
    let mut ours = Value::Object(Map::new());
    let mut rest = Vec::new();
    let mut our_entry = None;
    for entry in entries(live) {
        if is_ours(entry, manager) {
            merge(&mut ours, &entry["fieldsV1"]);
            our_entry = Some(entry.clone());
        } else if !is_of_object(entry) {
            rest.push(entry.clone());
        } else {
            let mut theirs = entry.clone();
            if let Some(fields) = theirs["fieldsV1"].as_object_mut() {
                for root in roots {
                    if let Some(taken) = fields.remove(&format!("f:{root}")) {
                        let mut tree = Map::new();
                        tree.insert(format!("f:{root}"), taken);
                        merge(&mut ours, &Value::Object(tree));
                    }
                }
                if !fields.is_empty() {
                    rest.push(theirs);
                }
            }
        }
    }
    let mut entry = our_entry.unwrap_or_else(|| {
        serde_json::json!({
            "manager": manager, "operation": APPLY, "apiVersion": live["apiVersion"],
            "fieldsType": "FieldsV1"
        })
    });
    entry["fieldsV1"] = ours;
    rest.push(entry);
    Value::Array(rest)
}

fn merge(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else {
        return;
    };
    for (key, value) in from {
        merge(
            into.entry(key.clone())
                .or_insert_with(|| Value::Object(Map::new())),
            value,
        );
    }
}

/// A key of a `fieldsV1` tree, and the part that it selects below a value.
pub(crate) enum Selector<'a> {
    /// A field of a map.
    Field(&'a str),
    /// The element of a list with these keys.
    Keys(Map<String, Value>),
    /// The element of a set that equals this.
    Item(Value),
}

impl<'a> Selector<'a> {
    /// Reads a key of a tree. `None` for `.` and for forms that Weft's kinds do not have.
    pub(crate) fn parse(key: &'a str) -> Option<Self> {
        match key.split_once(':')? {
            ("f", name) => Some(Self::Field(name)),
            ("k", keys) => serde_json::from_str(keys).ok().map(Self::Keys),
            ("v", item) => serde_json::from_str(item).ok().map(Self::Item),
            _ => None,
        }
    }

    /// The value that is selected. In a body as it is applied a key may be missing where the API
    /// server has a default for it (`protocol` of a port), so a missing key matches anything.
    pub(crate) fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Field(name) => value.get(name),
            Self::Keys(keys) => value.as_array()?.iter().find(|item| {
                keys.iter()
                    .all(|(key, wanted)| item.get(key).is_none_or(|found| found == wanted))
            }),
            Self::Item(wanted) => value.as_array()?.iter().find(|item| *item == wanted),
        }
    }

    /// The path of what is selected, for people: `spec.containers[name=c]`.
    pub(crate) fn path(&self, above: &str) -> String {
        let plain = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        match self {
            Self::Field(name) if above.is_empty() => (*name).to_owned(),
            Self::Field(name) if name.contains(['.', '/']) => format!("{above}[{name}]"),
            Self::Field(name) => format!("{above}.{name}"),
            Self::Keys(keys) => {
                format!(
                    "{above}[{}]",
                    keys.iter()
                        .map(|(key, value)| format!("{key}={}", plain(value)))
                        .collect::<Vec<_>>()
                        .join(",")
                )
            }
            Self::Item(item) => format!("{above}[={}]", plain(item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn taking_over_moves_guarded_fields_only() {
        let live = json!({"apiVersion": "apps/v1", "metadata": {"managedFields": [
            {"manager": "weft/addons", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}}}},
            {
                "manager": "kubectl", "operation": "Update",
                "fieldsV1": {
                    "f:spec": {"f:b": {"f:c": {}}}, "f:metadata": {"f:labels": {"f:mine": {}}}
                }
            },
            {
                "manager": "kube-controller-manager", "operation": "Update",
                "subresource": "status", "fieldsV1": {"f:status": {}}
            },
        ]}});
        let after = taken_over(&live, "weft/addons", &["spec"]);
        assert_eq!(
            after,
            json!([
                {
                    "manager": "kubectl", "operation": "Update",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:mine": {}}}}
                },
                {
                    "manager": "kube-controller-manager", "operation": "Update",
                    "subresource": "status", "fieldsV1": {"f:status": {}}
                },
                {
                    "manager": "weft/addons", "operation": "Apply",
                    "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}
                },
            ])
        );
    }
}
