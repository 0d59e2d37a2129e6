//! The labels that every object of the add-ons carries.

use std::collections::BTreeMap;

use weft_plan::{Live, Manifest, kinds};

use crate::Settings;

/// Which pods are ours.
pub(crate) const POD_SELECTOR: &str = "app.kubernetes.io/managed-by=cnao-operator";

pub(crate) const VERSION_LABEL: &str = "networkaddonsoperator.network.kubevirt.io/version";
const PROMETHEUS: &str = "prometheus.cnao.io";
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "cnao-operator");
const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "network");
/// Labels that the resource hands on to all objects if it has them.
const INHERITED: [&str; 3] = [
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
];

/// The labels, for one resource.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    version: String,
    /// On objects and on pod templates alike.
    common: BTreeMap<String, String>,
}

impl Labels {
    /// From the settings and from the resource's own labels.
    pub(crate) fn new(settings: &Settings, resource: Option<&BTreeMap<String, String>>) -> Self {
        let mut common = BTreeMap::from(
            [MANAGED_BY, COMPONENT].map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        for key in INHERITED {
            if let Some(value) = resource.and_then(|labels| labels.get(key)) {
                common.insert(key.to_owned(), value.clone());
            }
        }
        Self {
            version: label_value(&settings.version),
            common,
        }
    }

    /// Labels an object, and the pods of a workload.
    pub(crate) fn apply(&self, manifest: &mut Manifest) {
        // KubeMacPool is scraped by a monitor of its own.
        let program = Live::of(manifest.body()).label("control-plane");
        let own_monitor = program == Some("mac-controller-manager");
        let prometheus = if own_monitor { "false" } else { "true" };
        manifest.set_label(VERSION_LABEL, &self.version);
        manifest.set_label(PROMETHEUS, prometheus);
        manifest.set_pod_label(PROMETHEUS, prometheus);
        // A namespace is not the operator's alone. Helm refuses one that another manager is named on.
        let is_shared = manifest.key().kind == kinds::NAMESPACE;
        for (key, value) in &self.common {
            if is_shared && key == MANAGED_BY.0 {
                continue;
            }
            manifest.set_label(key, value);
            manifest.set_pod_label(key, value);
        }
    }
}

/// The nearest text that Kubernetes takes as the value of a label: at most 63 of letters, digits,
/// `-`, `_` and `.`, with a letter or digit at both ends.
fn label_value(text: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let value: String = text.chars().map(allowed).take(63).collect();
    value
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn labelled(object: Value, resource: Value) -> Value {
        let mut manifest = Manifest::new(object).unwrap();
        let settings = Settings {
            version: "1.2.3+dirty".into(),
            ..Settings::default()
        };
        Labels::new(&settings, Some(&serde_json::from_value(resource).unwrap()))
            .apply(&mut manifest);
        manifest.body().clone()
    }

    #[test]
    fn objects_and_pods_are_labelled_and_only_objects_carry_the_version() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"template": {"metadata": {"labels": {"x": "y"}}}}
        });
        let body = labelled(object, json!({}));
        let app = json!({
            "app.kubernetes.io/component": "network",
            "app.kubernetes.io/managed-by": "cnao-operator", "prometheus.cnao.io": "true"
        });
        let with = |more: Value| {
            let mut labels = app.clone();
            labels
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            labels
        };
        assert_eq!(
            body["metadata"]["labels"],
            with(json!({"networkaddonsoperator.network.kubevirt.io/version": "1.2.3_dirty"}))
        );
        assert_eq!(
            body["spec"]["template"]["metadata"]["labels"],
            with(json!({"x": "y"}))
        );
    }

    #[test]
    fn the_resource_hands_its_own_on_but_not_who_manages() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "n", "labels": {"control-plane": "mac-controller-manager"}
            }
        });
        let resource = json!({
            "app.kubernetes.io/component": "c", "app.kubernetes.io/part-of": "p",
            "app.kubernetes.io/version": "v", "app.kubernetes.io/managed-by": "hco", "other": "x"
        });
        assert_eq!(
            labelled(object, resource)["metadata"]["labels"],
            json!({
                "control-plane": "mac-controller-manager",
                "networkaddonsoperator.network.kubevirt.io/version": "1.2.3_dirty",
                "app.kubernetes.io/component": "c", "app.kubernetes.io/part-of": "p", "app.kubernetes.io/version": "v",
                "app.kubernetes.io/managed-by": "cnao-operator", "prometheus.cnao.io": "false",
            })
        );
    }

    #[test]
    fn any_version_becomes_a_label_value() {
        assert_eq!(label_value("v0.102.0"), "v0.102.0");
        assert_eq!(label_value("1.0+build/7"), "1.0_build_7");
        assert_eq!(label_value(&"x".repeat(80)).len(), 63);
        assert_eq!(label_value("1.0-"), "1.0");
        assert_eq!(label_value("+"), "");
    }
}
