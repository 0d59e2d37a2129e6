//! The body that Weft applies: its manifest, with fields of the live object that must stay.

use serde_json::{Value, json};

use crate::{Manifest, compare::left_alone, defaults::is_default, fields, kinds};

/// The body to apply: the manifest without what another user decides by right on this object, and
/// with what is Weft's until another user decides it.
pub fn effective_body(manifest: &Manifest, live: &Value, manager: &str) -> Value {
    let mut body = manifest.body().clone();
    if fields::is_autoscaled(live)
        && let Some(spec) = body["spec"].as_object_mut()
    {
        spec.remove("replicas");
    }
    keep_trust(&mut body, live, manager);
    keep_scope(manifest, &mut body, live);
    keep_selector(manifest, &mut body, live);
    keep_form(manifest, &mut body, live);
    keep_order(manifest, &mut body, live);
    body
}

/// A workload keeps a selector that chooses Weft's pods as well: nothing but its deletion could
/// change that, and would end all of its pods at once.
fn keep_selector(manifest: &Manifest, body: &mut Value, live: &Value) {
    if !matches!(manifest.key().kind, kinds::DAEMON_SET | kinds::DEPLOYMENT) {
        return;
    }
    let (selector, labels) = (
        &live["spec"]["selector"],
        body["spec"]["template"]["metadata"]["labels"].clone(),
    );
    let mut chosen = selector["matchLabels"].as_object().into_iter().flatten();
    let chooses = selector["matchExpressions"].is_null()
        && chosen.all(|(label, value)| labels[label] == *value);
    if chooses && selector["matchLabels"].is_object() {
        body["spec"]["selector"] = selector.clone();
    }
}

/// A workload keeps a pod template that its manifest accepts next to its own: a change of the form
/// alone is not worth a restart. Once anything else changes the template, the pods restart anyway, and
/// get Weft's own form.
fn keep_form(manifest: &Manifest, body: &mut Value, live: &Value) {
    let Some(mut other) = manifest.in_other_form() else {
        return;
    };
    keep_order(manifest, &mut other, live);
    let (wanted, live) = (&mut other["spec"]["template"], &live["spec"]["template"]);
    if is_same(wanted, live, "spec.template") {
        body["spec"]["template"] = wanted.take();
    }
}

/// Reports whether a part of a live object has each of these fields, and none but these and the API
/// server's defaults.
fn is_same(wanted: &Value, live: &Value, path: &str) -> bool {
    let inside = |name: &str| match name.contains('.') {
        true => format!("{path}[{name}]"),
        false => format!("{path}.{name}"),
    };
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let has = |(name, value): (&String, &Value)| match live.get(name) {
                Some(live) => is_same(value, live, &inside(name)),
                // The API server leaves these out.
                None => *value == false || *value == "",
            };
            let may_have = |(name, value): (&String, &Value)| {
                let path = inside(name);
                let has_fields = value.as_object().is_some_and(|fields| !fields.is_empty());
                wanted.contains_key(name)
                    || left_alone(&path)
                    || is_default(&path, value)
                    || has_fields && is_same(&json!({}), value, &path)
            };
            wanted.iter().all(has) && live.iter().all(may_have)
        }
        (Value::Array(wanted), Value::Array(live)) => {
            let mut pairs = wanted.iter().zip(live);
            wanted.len() == live.len()
                && pairs.all(|(wanted, live)| is_same(wanted, live, &format!("{path}[]")))
        }
        _ => wanted == live,
    }
}

/// Lists of a pod whose order has no effect, each with the field that identifies an element.
const UNORDERED: [(&str, &str); 2] = [("env", "name"), ("volumeMounts", "mountPath")];

/// The lists of a pod template keep the live order where it has no effect: another order is another
/// template, and would restart the pods.
fn keep_order(manifest: &Manifest, body: &mut Value, live: &Value) {
    const POD: &str = "/spec/template/spec";
    if !matches!(manifest.key().kind, kinds::DAEMON_SET | kinds::DEPLOYMENT) {
        return;
    }
    let (Some(pod), Some(live)) = (body.pointer_mut(POD), live.pointer(POD)) else {
        return;
    };
    if let Some(volumes) = pod.get_mut("volumes") {
        in_live_order(volumes, &live["volumes"], "name");
    }
    for field in ["containers", "initContainers"] {
        let containers = pod.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let is_it = |other: &&Value| other["name"] == container["name"];
            let Some(known) = live[field].as_array().into_iter().flatten().find(is_it) else {
                continue;
            };
            for (list, key) in UNORDERED {
                if container[list].is_array() && !refers(&container[list]) {
                    in_live_order(&mut container[list], &known[list], key);
                }
            }
        }
    }
}

/// Reports whether a value may refer to another variable of its container. Kubernetes replaces
/// `$(NAME)` only where the variable `NAME` is earlier in the list.
fn refers(variables: &Value) -> bool {
    let mut values = variables
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|variable| variable["value"].as_str());
    values.any(|value| value.contains("$("))
}

/// Sorts a list in the order of the live one, if that has the same elements by their key.
fn in_live_order(items: &mut Value, live: &Value, key: &str) {
    let (Some(items), Some(live)) = (items.as_array_mut(), live.as_array()) else {
        return;
    };
    let place = |item: &Value| live.iter().position(|known| known[key] == item[key]);
    if items.len() == live.len() && items.iter().all(|item| place(item).is_some()) {
        items.sort_by_key(place);
    }
}

/// A definition keeps its scope: nothing but its deletion could change that, and would delete all
/// objects of users. Early releases of cluster-network-operator define EgressNetworkPolicies for
/// the whole cluster.
fn keep_scope(manifest: &Manifest, body: &mut Value, live: &Value) {
    if manifest.key().kind == kinds::CUSTOM_RESOURCE_DEFINITION && live["spec"]["scope"].is_string()
    {
        body["spec"]["scope"] = live["spec"]["scope"].clone();
    }
}

/// Where another user is to fill in what a webhook trusts, what Weft filled in stays until they
/// do: in between nobody could be called. (A client that changes a value by an update owns it from
/// then on: Kubernetes documentation, "Server-Side Apply".)
fn keep_trust(body: &mut Value, live: &Value, manager: &str) {
    let webhooks = body
        .get_mut("webhooks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for webhook in webhooks.filter(|webhook| webhook["clientConfig"]["caBundle"].is_null()) {
        let is_it = |other: &&Value| other["name"] == webhook["name"];
        let Some(known) = live["webhooks"]
            .as_array()
            .into_iter()
            .flatten()
            .find(is_it)
        else {
            continue;
        };
        let key = format!("k:{}", json!({"name": webhook["name"]}));
        let owned = fields::applied_by(live, manager).is_some_and(|ours| {
            ours.get("f:webhooks")
                .is_some_and(|hooks| !hooks[&key]["f:clientConfig"]["f:caBundle"].is_null())
        });
        if owned {
            webhook["clientConfig"]["caBundle"] = known["clientConfig"]["caBundle"].clone();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn daemon_set() -> Manifest {
        Manifest::new(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a", "namespace": "n"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a", "tier": "node"}}},
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_workload_keeps_a_selector_only_if_it_chooses_wefts_pods() {
        let wanted = json!({"matchLabels": {"app": "a"}});
        let cases = [
            (json!({"matchLabels": {"tier": "node"}}), true),
            (json!({"matchLabels": {"tier": "node", "app": "a"}}), true),
            (json!({"matchLabels": {"app": "b"}}), false),
            (
                json!({
                    "matchLabels": {"app": "a"},
                    "matchExpressions": [{"key": "x", "operator": "Exists"}]
                }),
                false,
            ),
            (json!({}), false),
        ];
        for (selector, stays) in cases {
            let live = json!({"spec": {"selector": selector}});
            let applied = effective_body(&daemon_set(), &live, "weft/addons");
            let expected = if stays { &selector } else { &wanted };
            assert_eq!(applied["spec"]["selector"], *expected);
        }
    }

    #[test]
    fn a_template_in_an_accepted_form_stays_until_another_field_changes() {
        let spread = json!([{"topologyKey": "kubernetes.io/hostname"}]);
        let template = |image: &str, port: &str, spread: &Value| {
            json!({
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [
                        {"name": "a", "image": image, "ports": [{"name": port, "containerPort": 1}]}
                    ],
                    "topologySpreadConstraints": spread,
                },
            })
        };
        let wanted = template("i:1", "own", &spread);
        let mut manifest = Manifest::new(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"template": wanted},
        }))
        .unwrap();
        manifest.accept("/spec/containers/0/ports/0/name", json!("other"));
        manifest.accept("/spec/topologySpreadConstraints", Value::Null);
        let applied = |live: &Value| {
            let live = json!({"spec": {"template": live}});
            effective_body(&manifest, &live, "weft/addons")["spec"]["template"].clone()
        };

        // As the API server has it.
        let mut other = template("i:1", "other", &spread);
        let pod = other["spec"].as_object_mut().unwrap();
        pod.remove("topologySpreadConstraints");
        let mut live = other.clone();
        live["spec"]["schedulerName"] = json!("default-scheduler");
        live["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
        live["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = json!("now");
        assert_eq!(applied(&live), other);

        assert_eq!(applied(&Value::Null), wanted);
        assert_eq!(applied(&wanted), wanted);
        // Half of that form is another change.
        assert_eq!(applied(&template("i:1", "other", &spread)), wanted);
        let mut changed = live.clone();
        changed["spec"]["containers"][0]["image"] = json!("i:0");
        assert_eq!(applied(&changed), wanted);
        let mut added = live.clone();
        added["spec"]["hostNetwork"] = json!(true);
        assert_eq!(applied(&added), wanted);
    }

    /// The body of a workload whose container has these variables, applied over the live ones.
    fn variables(wanted: &Value, live: &Value) -> Value {
        let pod = |variables: &Value| json!({"template": {"spec": {"containers": [{"name": "a", "env": variables}]}}});
        let manifest = Manifest::new(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"},
            "spec": pod(wanted),
        }))
        .unwrap();
        let body = effective_body(&manifest, &json!({"spec": pod(live)}), "weft/addons");
        body["spec"]["template"]["spec"]["containers"][0]["env"].clone()
    }

    #[test]
    fn variables_keep_the_live_order_unless_it_has_an_effect() {
        let (a, b) = (
            json!({"name": "A", "value": "1"}),
            json!({"name": "B", "value": "2"}),
        );
        let other = json!({"name": "A", "value": "0"});
        assert_eq!(
            variables(&json!([a, b]), &json!([b, other])),
            json!([b, a]),
            "the order is the live one, the values are Weft's"
        );
        let reference = json!({"name": "B", "value": "$(A)"});
        let cases = [
            (json!([a, reference]), json!([b, a])),
            (json!([a, b]), json!([b])),
            (json!([a, b]), json!([b, a, {"name": "C"}])),
            (json!([a, b]), Value::Null),
        ];
        for (wanted, live) in cases {
            assert_eq!(variables(&wanted, &live), wanted, "{live}");
        }
    }

    #[test]
    fn volumes_and_mounts_keep_the_live_order_and_containers_do_not() {
        let pod = |first: &str, second: &str| {
            let mounts = json!([{"mountPath": first}, {"mountPath": second}]);
            json!({"spec": {"template": {"spec": {
                "volumes": [{"name": first}, {"name": second}],
                "initContainers": [
                    {"name": first, "volumeMounts": mounts},
                    {"name": second, "volumeMounts": mounts}
                ],
            }}}})
        };
        let mut object = pod("a", "b");
        object["apiVersion"] = "apps/v1".into();
        object["kind"] = "DaemonSet".into();
        object["metadata"] = json!({"name": "a", "namespace": "n"});
        let manifest = Manifest::new(object).unwrap();
        let body = effective_body(&manifest, &pod("b", "a"), "weft/addons");
        let (ours, live) = (pod("a", "b"), pod("b", "a"));
        let of = |pod: &Value, pointer: &str| {
            pod.pointer(&format!("/spec/template/spec/{pointer}"))
                .cloned()
                .unwrap()
        };
        for list in ["volumes", "initContainers/0/volumeMounts"] {
            assert_eq!(of(&body, list), of(&live, list), "{list}");
        }
        for name in ["initContainers/0/name", "initContainers/1/name"] {
            assert_eq!(of(&body, name), of(&ours, name), "{name}");
        }
    }
}
