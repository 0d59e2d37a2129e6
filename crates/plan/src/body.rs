//! The body that Weft applies: its manifest, with fields of the live object that must stay.

use serde_json::{Value, json};

use crate::{Manifest, fields, kinds};

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
}
