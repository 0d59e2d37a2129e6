//! The result of applying a file over a resource, and its differences.

use serde_json::{Map, Value};

use crate::{Difference, Kind, Live, What};

/// Annotation in which `kubectl apply` keeps what it was given the last time.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The resource as it is after `kubectl apply`, in the one version of its kind that Weft uses.
///
/// Custom resources are merged as JSON, maps field by field and lists as a whole: what the file
/// says is set, what the last file said and this one does not is dropped, and what others have set
/// stays (Kubernetes documentation, "Declarative management of Kubernetes objects using
/// configuration files"). Where nothing is known of a last file, the specification is the file's
/// alone.
pub fn applied(file: &Value, live: Option<&Value>, kind: Kind) -> Value {
    let mut file = file.clone();
    file["apiVersion"] = kind.api_version().into();
    if let Some(file) = file.as_object_mut() {
        file.remove("status");
    }
    let Some(live) = live else {
        return without_nulls(file);
    };
    let last: Option<Value> = Live::of(live)
        .annotation(LAST_APPLIED)
        .and_then(|text| serde_json::from_str(text).ok());
    let mut merged = live.clone();
    if file["metadata"]["annotations"].is_null() {
        // kubectl always puts one of its own there, so others' stay.
        file["metadata"]["annotations"] = Value::Object(Map::new());
    }
    for part in ["labels", "annotations"] {
        merged["metadata"][part] = merge(
            &live["metadata"][part],
            &file["metadata"][part],
            last.as_ref().map(|last| &last["metadata"][part]),
        );
    }
    merged["spec"] = match &last {
        Some(last) => merge(&live["spec"], &file["spec"], Some(&last["spec"])),
        None => file["spec"].clone(),
    };
    without_nulls(merged)
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
            let fields: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
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
