//! Edits of the manifests of all operands: their images, the API server's address for their pods,
//! and a rollout of pods when a file changes that they read once.

use k8s_openapi::api::core::v1::Container;
use serde_json::{Map, Value};
use weft_operands::pod::{self, CONFIG_HASH, Workload};
use weft_plan::{Kind, Manifest, ManifestError, kinds, parse_yaml};

use crate::{
    error::BuildError,
    settings::{Image, Settings},
};

/// All objects of some files.
///
/// # Errors
/// A file is wrong.
pub fn load(files: &[&str]) -> Result<Vec<Manifest>, ManifestError> {
    let objects = files
        .iter()
        .map(|file| parse_yaml(file))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(objects.into_iter().flatten().collect())
}

/// The one object of this kind and name.
///
/// # Errors
/// There is none.
pub fn find<'a>(
    objects: &'a mut [Manifest],
    kind: Kind,
    name: &str,
) -> Result<&'a mut Manifest, ManifestError> {
    let found = objects
        .iter_mut()
        .find(|object| object.key().kind == kind && object.key().name == name);
    found.ok_or_else(|| ManifestError::Part {
        object: name.to_owned(),
        pointer: String::new(),
        why: format!("there is no such {}", kind.kind),
    })
}

/// Writes a file into a ConfigMap.
///
/// # Errors
/// There is no such ConfigMap.
pub fn set_file(
    objects: &mut [Manifest],
    config_map: &str,
    file: &str,
    text: String,
) -> Result<(), ManifestError> {
    find(objects, kinds::CONFIG_MAP, config_map)?.edit("/data", |data: &mut Map<String, Value>| {
        data.insert(file.to_owned(), text.into());
        Ok::<_, String>(())
    })
}

/// Completes a workload. `images` names each container's image. A container without one is an
/// error, so that none is forgotten. `config` is the ConfigMap that its pods read at their start.
///
/// # Errors
/// An image is not known, or the manifest is not as it should be.
pub fn workload(
    objects: &mut [Manifest],
    name: &str,
    images: &[(&str, Image)],
    config: Option<&str>,
    settings: &Settings,
) -> Result<(), BuildError> {
    let mut references = Vec::new();
    for (container, image) in images {
        references.push((*container, settings.image(*image)?.to_owned()));
    }
    let hash = config
        .map(|config| find(objects, kinds::CONFIG_MAP, config).map(|config| config.hash()))
        .transpose()?;
    let workload = find(objects, kinds::DAEMON_SET, name)?;
    workload.edit_pods(|pod| {
        pod::containers(pod).for_each(|container| point_at_api_server(container, settings));
        pod::set_images(pod, |container| {
            references
                .iter()
                .find(|(name, _)| *name == container)
                .map(|(_, image)| image.clone())
        })
    })?;
    if let Some(hash) = hash {
        workload.set_pod_annotation(CONFIG_HASH, &hash);
    }
    Ok(())
}

/// Sets where a container that asks for it finds the API server. Where that is not known, the
/// variables go: an empty one would hide those that the kubelet sets.
fn point_at_api_server(container: &mut Container, settings: &Settings) {
    let Some(variables) = &mut container.env else {
        return;
    };
    let names = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
    match &settings.api_server {
        None => {
            variables.retain(|variable| !names.contains(&&*variable.name));
            container.env.take_if(|variables| variables.is_empty());
        }
        Some(api_server) => {
            for (name, value) in names.into_iter().zip([&api_server.host, &api_server.port]) {
                variables
                    .iter_mut()
                    .filter(|variable| variable.name == name)
                    .for_each(|variable| variable.value = Some(value.clone()));
            }
        }
    }
}
