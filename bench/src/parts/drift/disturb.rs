//! Edits for an object of each kind that the API server accepts.

use serde_json::{Value, json};

/// Changes a value that Weft set. `false`: there is none that can be changed.
pub fn edit(object: &mut Value) -> bool {
    match object["kind"].as_str().unwrap_or_default() {
        "DaemonSet" | "Deployment" => set(
            object,
            "/spec/template/spec/containers/0/image",
            json!("edited.example/image"),
        ),
        "ConfigMap" => {
            first_of(object, "data").is_some_and(|value| replace(value, json!("edited")))
        }
        "ClusterRole" | "Role" => set(object, "/rules/0/verbs", json!(["get"])),
        "ClusterRoleBinding" | "RoleBinding" => set(object, "/subjects/0/name", json!("edited")),
        "Service" => set(object, "/spec/ports/0/port", json!(4343)),
        "NetworkPolicy" => set(
            object,
            "/spec/podSelector",
            json!({"matchLabels": {"edited": "true"}}),
        ),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            set(object, "/webhooks/0/timeoutSeconds", json!(7))
        }
        "CustomResourceDefinition" => set(object, "/spec/names/shortNames", json!(["edited"])),
        // Nothing but metadata: a label of ours, but not the one by which Weft knows its objects.
        _ => {
            let labels = object
                .pointer_mut("/metadata/labels")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flatten();
            let ours = labels
                .into_iter()
                .find(|(name, _)| name.starts_with("app.kubernetes.io/"));
            ours.is_some_and(|(_, value)| replace(value, json!("edited")))
        }
    }
}

/// Adds something where Weft answers for everything. `false`: there is no such place.
pub fn add(object: &mut Value) -> bool {
    match object["kind"].as_str().unwrap_or_default() {
        "DaemonSet" | "Deployment" => {
            insert(
                object,
                "/spec/template/metadata/annotations",
                "added.example/annotation",
                json!("added"),
            ) && push(
                object,
                "/spec/template/spec/containers/0/env",
                json!({"name": "ADDED", "value": "added"}),
            )
        }
        "ConfigMap" => insert(object, "/data", "added", json!("added")),
        "ClusterRole" | "Role" => push(
            object,
            "/rules",
            json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}),
        ),
        "ClusterRoleBinding" | "RoleBinding" => push(
            object,
            "/subjects",
            json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "added"}),
        ),
        "Service" => insert(object, "/spec/selector", "added", json!("added")),
        "NetworkPolicy" => insert(
            object,
            "/spec/podSelector/matchLabels",
            "added",
            json!("added"),
        ),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            let mut another = object["webhooks"][0].clone();
            another["name"] = json!("added.example.com");
            push(object, "/webhooks", another)
        }
        _ => false,
    }
}

fn set(object: &mut Value, pointer: &str, new: Value) -> bool {
    object
        .pointer_mut(pointer)
        .is_some_and(|value| replace(value, new))
}

fn replace(value: &mut Value, new: Value) -> bool {
    let is_new = *value != new;
    *value = new;
    is_new
}

fn first_of<'a>(object: &'a mut Value, map: &str) -> Option<&'a mut Value> {
    object.get_mut(map)?.as_object_mut()?.values_mut().next()
}

/// Into the map at the pointer, which is made if only it is missing.
fn insert(object: &mut Value, pointer: &str, key: &str, value: Value) -> bool {
    let Some(map) = at(object, pointer, || json!({})).and_then(Value::as_object_mut) else {
        return false;
    };
    map.insert(key.to_owned(), value).is_none()
}

/// To the end of the list at the pointer, which is made if only it is missing.
fn push(object: &mut Value, pointer: &str, value: Value) -> bool {
    let Some(list) = at(object, pointer, || json!([])).and_then(Value::as_array_mut) else {
        return false;
    };
    list.push(value);
    true
}

fn at<'a>(object: &'a mut Value, pointer: &str, empty: fn() -> Value) -> Option<&'a mut Value> {
    let (parent, field) = pointer.rsplit_once('/')?;
    let value = object
        .pointer_mut(parent)?
        .as_object_mut()?
        .entry(field)
        .or_insert_with(empty);
    if value.is_null() {
        *value = empty();
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn missing_fields_are_added_and_impossible_edits_reported() {
        let mut workload = json!({
            "kind": "DaemonSet",
            "spec": {"template": {"metadata": {}, "spec": {"containers": [{"image": "a"}]}}}
        });
        assert!(edit(&mut workload) && add(&mut workload));
        assert_eq!(
            workload
                .pointer("/spec/template/spec/containers/0")
                .unwrap(),
            &json!({"image": "edited.example/image", "env": [{"name": "ADDED", "value": "added"}]})
        );
        assert_eq!(
            workload
                .pointer("/spec/template/metadata/annotations")
                .unwrap(),
            &json!({"added.example/annotation": "added"})
        );
        assert!(!add(&mut json!({"kind": "ServiceAccount", "metadata": {}})));
        assert!(!edit(
            &mut json!({"kind": "ServiceAccount", "metadata": {}})
        ));
    }
}
