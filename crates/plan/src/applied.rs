//! The result of applying a file over a resource, and its differences.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{Difference, Kind, Live, What, fields};

/// Annotation in which `kubectl apply` keeps what it was given the last time.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The way in which a resource was applied last, which is the way in which the file is applied.
enum Way<'a> {
    /// On the server, by the manager of this entry of `managedFields`.
    OnServer(&'a Value),
    /// By `kubectl apply` or a tool that works as it does, with this file.
    ByClient(Value),
    /// The resource does not show any: it was created or replaced.
    Whole,
}

/// The resource as it is after the file is applied, in the one version of its kind that Weft uses.
/// Defaults of the schema are not filled in.
///
/// The file is applied in the way in which the resource was applied before:
///
/// - Server-side apply sets what the file says, and drops what the same manager applied before and
///   nobody else owns (Kubernetes documentation, "Server-Side Apply"; structured-merge-diff,
///   `merge/update.go`, `prune`).
/// - `kubectl apply` merges custom resources as JSON, maps field by field and lists as a whole: what
///   the file says is set, what the last file said and this one does not is dropped, and what others
///   have set stays ("Declarative management of Kubernetes objects using configuration files").
/// - Where the resource shows neither, the specification is the file's alone, as after
///   `kubectl replace`.
pub fn applied(file: &Value, live: Option<&Value>, kind: Kind) -> Value {
    let mut file = file.clone();
    file["apiVersion"] = kind.api_version().into();
    if let Some(file) = file.as_object_mut() {
        file.remove("status");
    }
    let Some(live) = live else {
        return without_nulls(file);
    };
    let mut merged = live.clone();
    match way(&file, live) {
        Way::OnServer(entry) => {
            let (mine, others) = (&entry["fieldsV1"], fields::of_all_but(live, entry));
            merged["spec"] = on_server(
                &live["spec"],
                &file["spec"],
                &mine["f:spec"],
                &others["f:spec"],
            );
            for part in ["labels", "annotations"] {
                let node = format!("f:{part}");
                merged["metadata"][part] = on_server(
                    &live["metadata"][part],
                    &file["metadata"][part],
                    &mine["f:metadata"][&node],
                    &others["f:metadata"][&node],
                );
            }
        }
        Way::ByClient(last) => {
            merged["spec"] = merge(&live["spec"], &file["spec"], Some(&last["spec"]));
            merge_metadata(&mut merged, &file, Some(&last));
        }
        Way::Whole => {
            merged["spec"] = file["spec"].clone();
            merge_metadata(&mut merged, &file, None);
        }
    }
    without_nulls(merged)
}

/// Several tools may have applied parts of a resource. The file is taken for one of the tool that
/// has applied most of its fields, and of several such for one of the last of them.
fn way<'a>(file: &Value, live: &'a Value) -> Way<'a> {
    let shared = |tree: &Value| fields::shared(&tree["f:spec"], &file["spec"]);
    // Times of RFC 3339 in UTC have the order of their texts.
    let time = |entry: &'a Value| entry["time"].as_str().unwrap_or_default();
    let mut ways: Vec<_> = fields::appliers(live)
        .map(|entry| {
            (
                shared(&entry["fieldsV1"]),
                time(entry),
                Way::OnServer(entry),
            )
        })
        .collect();
    let last: Option<Value> = Live::of(live)
        .annotation(LAST_APPLIED)
        .and_then(|text| serde_json::from_str(text).ok());
    match (last, fields::annotated_by(live, LAST_APPLIED)) {
        (Some(last), Some(entry)) => {
            ways.push((
                shared(&fields::tree(&last)),
                time(entry),
                Way::ByClient(last),
            ));
        }
        // The API server keeps the annotation up to date when kubectl applies on the server.
        (Some(last), None) if ways.is_empty() => return Way::ByClient(last),
        _ => {}
    }
    ways.into_iter()
        .max_by_key(|(shared, time, _)| (*shared, *time))
        .map_or(Way::Whole, |(_, _, way)| way)
}

/// The value after server-side apply of a file that has `file` for it. `mine` are the fields that
/// the manager has applied so far, `others` those that others own, both as in `fieldsV1`.
fn on_server(live: &Value, file: &Value, mine: &Value, others: &Value) -> Value {
    match (live, file) {
        (_, Value::Null) => given_up(live, mine, others),
        (Value::Object(there), Value::Object(wanted)) => {
            let fields: BTreeSet<_> = there.keys().chain(wanted.keys()).collect();
            let merged = fields.into_iter().map(|field| {
                let node = format!("f:{field}");
                let value = on_server(&live[field], &file[field], &mine[&node], &others[&node]);
                (field.clone(), value)
            });
            Value::Object(merged.collect())
        }
        (Value::Array(there), Value::Array(wanted))
            if [mine, others].into_iter().any(fields::has_elements) =>
        {
            elements(there, wanted, mine, others)
        }
        _ => file.clone(),
    }
}

/// The rest of a value that the manager no longer applies.
fn given_up(live: &Value, mine: &Value, others: &Value) -> Value {
    match live {
        _ if mine.is_null() => live.clone(),
        // With it goes what nobody owns in it.
        _ if others.is_null() => Value::Null,
        Value::Object(there) => {
            let rest = there.iter().map(|(field, value)| {
                let node = format!("f:{field}");
                (field.clone(), given_up(value, &mine[&node], &others[&node]))
            });
            Value::Object(rest.collect())
        }
        Value::Array(there) => {
            let rest = there
                .iter()
                .map(|item| given_up(item, &node_of(mine, item), &node_of(others, item)));
            rest.filter(|item| !item.is_null()).collect()
        }
        _ => live.clone(),
    }
}

fn node_of(list: &Value, item: &Value) -> Value {
    fields::element(list, item).cloned().unwrap_or_default()
}

/// A list whose elements have owners of their own: in the order of the file, with the elements that
/// only others own in between.
fn elements(live: &[Value], file: &[Value], mine: &Value, others: &Value) -> Value {
    let keys = [mine, others].into_iter().find_map(fields::element_keys);
    let is_same = |one: &Value, other: &Value| match &keys {
        Some(keys) => keys.iter().all(|key| one[key] == other[key]),
        None => one == other,
    };
    let mut wanted = file.to_vec();
    for item in &mut wanted {
        if let Some(there) = live.iter().find(|there| is_same(there, item)) {
            *item = on_server(there, item, &node_of(mine, item), &node_of(others, item));
        }
    }
    let (mut merged, mut next) = (Vec::new(), 0);
    for there in live {
        match wanted.iter().position(|item| is_same(item, there)) {
            Some(at) if at < next => {}
            Some(at) => {
                merged.extend_from_slice(&wanted[next..=at]);
                next = at + 1;
            }
            None => merged.push(given_up(
                there,
                &node_of(mine, there),
                &node_of(others, there),
            )),
        }
    }
    merged.extend_from_slice(&wanted[next..]);
    merged.retain(|item| !item.is_null());
    Value::Array(merged)
}

/// Labels and annotations by the rules of `kubectl apply`.
fn merge_metadata(merged: &mut Value, file: &Value, last: Option<&Value>) {
    let none = Value::Object(Map::new());
    for part in ["labels", "annotations"] {
        let wanted = match &file["metadata"][part] {
            // kubectl always puts one of its own there, so others' stay.
            Value::Null if part == "annotations" => &none,
            wanted => wanted,
        };
        merged["metadata"][part] = merge(
            &merged["metadata"][part],
            wanted,
            last.map(|last| &last["metadata"][part]),
        );
    }
}

fn merge(live: &Value, file: &Value, last: Option<&Value>) -> Value {
    let (Value::Object(there), Value::Object(wanted)) = (live, file) else {
        let dropped = file.is_null() && last.is_some_and(|last| !last.is_null());
        return if file.is_null() && !dropped {
            live.clone()
        } else {
            file.clone()
        };
    };
    let nothing = Map::new();
    let before = last.and_then(Value::as_object).unwrap_or(&nothing);
    let mut merged = there.clone();
    merged.retain(|field, _| wanted.contains_key(field) || !before.contains_key(field));
    for (field, value) in wanted {
        // A null in a file removes the field.
        let value = if value.is_null() {
            Value::Null
        } else {
            merge(
                there.get(field).unwrap_or(&Value::Null),
                value,
                before.get(field),
            )
        };
        merged.insert(field.clone(), value);
    }
    Value::Object(merged)
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        let fields = std::mem::take(map);
        *map = fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(field, value)| (field, without_nulls(value)))
            .collect();
    }
    value
}

/// In what `after` differs from `before`, field by field. Lists are compared as a whole.
pub fn differences(path: &str, before: &Value, after: &Value) -> Vec<Difference> {
    let found = |what| {
        vec![Difference {
            path: path.to_owned(),
            what,
        }]
    };
    match (before, after) {
        (before, after) if before == after => Vec::new(),
        (Value::Object(before), Value::Object(after)) => {
            let fields: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            let at = |map: &Map<String, Value>, field: &String| {
                map.get(field).cloned().unwrap_or_default()
            };
            fields
                .into_iter()
                .flat_map(|field| {
                    differences(
                        &format!("{path}.{field}"),
                        &at(before, field),
                        &at(after, field),
                    )
                })
                .collect()
        }
        (Value::Null, after) => found(What::Missing {
            desired: after.clone(),
        }),
        (before, Value::Null) => found(What::Dropped {
            live: before.clone(),
        }),
        (before, after) => found(What::Changed {
            live: before.clone(),
            desired: after.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use serde_json::json;

    fn live(last: Option<Value>) -> Value {
        let annotations = last.map(|last| json!({LAST_APPLIED: last.to_string()}));
        json!({"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "metadata": {
            "uid": "u", "labels": {"theirs": "x"}, "annotations": annotations
        },
            "spec": {
                "multus": {}, "ovs": {},
                "placementConfiguration": {"infra": {"tolerations": [{"key": "a"}]}}
            }, "status": {"x": 1}})
    }

    #[test]
    fn fields_of_the_last_file_only_are_dropped_and_those_of_others_stay() {
        let file = json!({
            "metadata": {"labels": {"mine": "y"}},
            "spec": {
                "multus": {}, "linuxBridge": {},
                "placementConfiguration": {"infra": {"tolerations": []}}
            },
            "status": {"x": 2}
        });
        let last = json!({"spec": {"multus": {}, "placementConfiguration": {}}});
        let after = applied(&file, Some(&live(Some(last))), kinds::NETWORK_ADDONS_CONFIG);
        assert_eq!(
            after["spec"],
            json!({
                "multus": {}, "linuxBridge": {}, "ovs": {},
                "placementConfiguration": {"infra": {"tolerations": []}}
            })
        );
        assert_eq!(
            (
                &after["metadata"]["labels"],
                &after["metadata"]["uid"],
                &after["status"]
            ),
            (
                &json!({"theirs": "x", "mine": "y"}),
                &json!("u"),
                &json!({"x": 1})
            )
        );
        let last = json!({"spec": {"multus": {}, "ovs": {}}});
        let after = applied(
            &json!({"spec": {"multus": {}}}),
            Some(&live(Some(last))),
            kinds::NETWORK_ADDONS_CONFIG,
        );
        assert_eq!(after["spec"].get("ovs"), None);
    }

    #[test]
    fn annotations_of_others_stay_though_the_file_has_none() {
        let mut live = live(Some(json!({"metadata": {"annotations": {}}, "spec": {}})));
        live["metadata"]["annotations"]["weft.network/pause"] = json!("true");
        let after = applied(
            &json!({"spec": {}}),
            Some(&live),
            kinds::NETWORK_ADDONS_CONFIG,
        );
        assert_eq!(
            after["metadata"]["annotations"]["weft.network/pause"],
            "true"
        );
    }

    #[test]
    fn labels_stay_unless_the_last_file_had_some() {
        let after = |last: Value| {
            applied(
                &json!({"spec": {}}),
                Some(&live(Some(last))),
                kinds::NETWORK_ADDONS_CONFIG,
            )
        };
        assert_eq!(
            after(json!({"spec": {}}))["metadata"]["labels"],
            json!({"theirs": "x"})
        );
        assert_eq!(
            after(json!({"metadata": {"labels": {"theirs": "x"}}, "spec": {}}))["metadata"]
                .get("labels"),
            None
        );
    }

    #[test]
    fn without_a_last_file_the_specification_is_the_files() {
        let file = json!({"apiVersion": "x/v1alpha1", "spec": {"multus": {}, "ovs": null}});
        let after = applied(&file, Some(&live(None)), kinds::NETWORK_ADDONS_CONFIG);
        assert_eq!(after["spec"], json!({"multus": {}}));
        let alone = applied(&file, None, kinds::NETWORK_ADDONS_CONFIG);
        assert_eq!(
            alone,
            json!({
                "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "spec": {"multus": {}}
            })
        );
    }

    /// A resource that `manager` has applied on the server, with the fields of another manager.
    fn on_server_by(manager: &str, mine: Value, others: Value) -> Value {
        let entry = |manager: &str, operation: &str, fields: Value| {
            json!({
                "manager": manager, "operation": operation, "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1", "fieldsV1": fields
            })
        };
        let mut live = live(None);
        live["metadata"]["managedFields"] = json!([
            entry(manager, "Apply", mine),
            entry("kubectl-edit", "Update", others),
            {
                "manager": "weft", "operation": "Update", "subresource": "status",
                "fieldsV1": {"f:status": {}, "f:spec": {"f:multus": {}}}
            },
        ]);
        live
    }

    #[test]
    fn on_the_server_a_manager_drops_what_it_alone_has_applied() {
        let live = on_server_by(
            "kustomize-controller",
            json!({
                "f:metadata": {"f:labels": {"f:theirs": {}}},
                "f:spec": {
                    "f:multus": {}, "f:ovs": {},
                    "f:placementConfiguration": {"f:infra": {"f:tolerations": {}}}
                }
            }),
            json!({"f:spec": {".": {}, "f:ovs": {}}}),
        );
        let after = |file: Value| applied(&file, Some(&live), kinds::NETWORK_ADDONS_CONFIG);
        let tolerations = json!({"infra": {"tolerations": [{"key": "a"}]}});
        let same = json!({"metadata": {"labels": {"theirs": "x"}}, "spec": live["spec"]});
        assert_eq!(after(same), without_nulls(live.clone()));
        let less = after(json!({"spec": {"linuxBridge": {}}}));
        assert_eq!(
            less["spec"],
            json!({"linuxBridge": {}, "ovs": {}}),
            "the other manager keeps its field"
        );
        assert_eq!(less["metadata"].get("labels"), None);
        let changed = after(json!({
            "spec": {"multus": {}, "placementConfiguration": {"infra": {"nodeSelector": {"a": "b"}}}}
        }));
        assert_eq!(
            changed["spec"],
            json!({
                "multus": {}, "ovs": {},
                "placementConfiguration": {"infra": {"nodeSelector": {"a": "b"}}}
            })
        );
        let defaulted = on_server_by(
            "argocd-controller",
            json!({"f:spec": {"f:multus": {}}}),
            json!({"f:metadata": {"f:labels": {"f:theirs": {}}}}),
        );
        let after = applied(
            &json!({"spec": {"multus": {}}}),
            Some(&defaulted),
            kinds::NETWORK_ADDONS_CONFIG,
        );
        assert_eq!(
            after["spec"],
            json!({"multus": {}, "ovs": {}, "placementConfiguration": tolerations}),
            "nobody owns the others, so they stay"
        );
    }

    #[test]
    fn on_the_server_elements_of_a_list_have_owners() {
        let owned = |names: &[&str]| {
            let elements = names.iter().map(|name| {
                let key = json!({"name": name});
                (format!("k:{key}"), json!({".": {}, "f:name": {}}))
            });
            json!({"f:spec": {"f:imagePullSecrets": Value::Object(elements.collect())}})
        };
        let names = |names: &[&str]| {
            let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"imagePullSecrets": items}})
        };
        let mut live = on_server_by("kubectl", owned(&["a", "b"]), owned(&["b", "c"]));
        live["spec"] = names(&["a", "b", "c"])["spec"].clone();
        for (file, after) in [
            (&["a", "b"][..], &["a", "b", "c"][..]),
            (&["b"][..], &["b", "c"][..]),
            (&["d", "a"][..], &["d", "a", "b", "c"][..]),
        ] {
            let found = applied(&names(file), Some(&live), kinds::NETWORK_ADDONS_CONFIG);
            assert_eq!(found["spec"], names(after)["spec"], "{file:?}");
        }
    }

    #[test]
    fn the_file_is_one_of_the_tool_that_has_applied_most_of_it() {
        let entry = |manager: &str, operation: &str, time: u8, fields: Value| {
            json!({
                "manager": manager, "operation": operation, "fieldsV1": fields,
                "time": format!("2026-01-02T03:04:0{time}Z")
            })
        };
        let flux = entry(
            "kustomize-controller",
            "Apply",
            1,
            json!({"f:spec": {"f:multus": {}, "f:ovs": {}}}),
        );
        let part = entry(
            "team",
            "Apply",
            2,
            json!({"f:spec": {"f:placementConfiguration": {"f:infra": {"f:tolerations": {}}}}}),
        );
        let with = |entries: &[&Value], last: Option<Value>| {
            let mut live = live(last);
            live["metadata"]["managedFields"] = json!(entries);
            applied(
                &json!({"spec": {"multus": {}}}),
                Some(&live),
                kinds::NETWORK_ADDONS_CONFIG,
            )["spec"]
                .clone()
        };
        let tolerations = json!({"infra": {"tolerations": [{"key": "a"}]}});
        let without_ovs = json!({"multus": {}, "placementConfiguration": tolerations});
        assert_eq!(with(&[&flux, &part], None), without_ovs);
        // `kubectl apply` after the other tool: the annotation is its own.
        let client = entry(
            "kubectl-client-side-apply",
            "Update",
            3,
            json!({"f:metadata": {"f:annotations": {".": {}, (format!("f:{LAST_APPLIED}")): {}}}}),
        );
        let last = json!({"spec": {"multus": {}, "placementConfiguration": {}}});
        assert_eq!(
            with(&[&flux, &client], Some(last.clone())),
            json!({"multus": {}, "ovs": {}})
        );
        // kubectl keeps the annotation when it applies on the server.
        assert_eq!(with(&[&flux], Some(last.clone())), without_ovs);
        assert_eq!(with(&[], Some(last)), json!({"multus": {}, "ovs": {}}));
    }

    #[test]
    fn differences_name_the_field() {
        let lines: Vec<_> = differences(
            "spec",
            &json!({"a": {"b": 1, "c": 2}, "l": [1]}),
            &json!({"a": {"b": 3}, "d": {}, "l": [1, 2]}),
        )
        .iter()
        .map(ToString::to_string)
        .collect();
        assert_eq!(
            lines,
            [
                "~ spec.a.b: 1 -> 3",
                "- spec.a.c: 2",
                "+ spec.d: {}",
                "~ spec.l: [1] -> [1,2]"
            ]
        );
    }
}
