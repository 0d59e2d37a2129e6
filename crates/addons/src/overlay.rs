//! What a configuration changes in the manifests under `components/`.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::Value;
use weft_api::addons::Placement;
use weft_plan::{Manifest, ManifestError, kinds, parse_yaml};

use crate::{Image, Settings, fill::Effective, settings::DEFAULT_NAMESPACE};

/// What the overlays of components are made from.
pub(crate) struct Overlay<'a> {
    pub effective: &'a Effective,
    pub settings: &'a Settings,
}

/// Where the pods of a workload live in it.
pub(crate) const POD_SPEC: &str = "/spec/template/spec";

impl Overlay<'_> {
    /// Reads manifests and puts them into the operands' namespace.
    pub(crate) fn load(&self, files: &[&str]) -> Result<Vec<Manifest>, ManifestError> {
        let mut manifests = Vec::new();
        for file in files {
            for manifest in parse_yaml(file)? {
                let mut body = manifest.body().clone();
                if manifest.key().kind == kinds::NAMESPACE {
                    body["metadata"]["name"] = self.settings.namespace.clone().into();
                }
                move_to(&mut body, &self.settings.namespace);
                manifests.push(Manifest::new(body)?);
            }
        }
        Ok(manifests)
    }

    /// Sets image and pull policy of every container, and the placement of the pods. `images` names each container's image; a
    /// container without one is an error, so that none is forgotten.
    pub(crate) fn workload(&self, manifest: &mut Manifest, images: &[(&str, Image)], placement: &Placement) -> Result<(), ManifestError> {
        manifest.edit(POD_SPEC, |pod: &mut PodSpec| {
            for container in containers(pod) {
                let Some((_, image)) = images.iter().find(|(name, _)| *name == container.name) else {
                    return Err(format!("no image is known for container {}", container.name));
                };
                container.image = Some(self.settings.image(*image).to_owned());
                container.image_pull_policy = Some(self.effective.image_pull_policy.to_string());
            }
            pod.node_selector = placement.node_selector.clone();
            pod.affinity = placement.affinity.clone();
            pod.tolerations = placement.tolerations.clone();
            Ok(())
        })
    }
}

/// Init containers and containers, as the pod runs them.
pub(crate) fn containers(pod: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    pod.init_containers.iter_mut().flatten().chain(&mut pod.containers)
}

/// Annotation on a pod template: the hash of the configuration that its pods read once, at their start. A new value rolls them.
pub(crate) const CONFIG_HASH: &str = "weft.network/config-hash";

/// Every field `namespace` that holds the namespace written in the manifests: of objects, of the subjects of role bindings, of the
/// services of webhooks.
fn move_to(value: &mut Value, namespace: &str) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if field == "namespace" && text == DEFAULT_NAMESPACE => namespace.clone_into(text),
                    value => move_to(value, namespace),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_to(item, namespace)),
        _ => {}
    }
}

#[cfg(test)]
#[path = "overlay_tests.rs"]
mod tests;
