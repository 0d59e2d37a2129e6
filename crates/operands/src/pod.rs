//! Edits of the pods in manifests.

use std::fmt::Display;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use weft_plan::{Manifest, ManifestError};

/// Where the pods of a workload live in it.
pub const POD_SPEC: &str = "/spec/template/spec";

/// Annotation on a pod template: the hash of the configuration that its pods read once, at their
/// start. A new value rolls them.
pub const CONFIG_HASH: &str = "weft.network/config-hash";

/// Edits of the pods in a workload's manifest.
pub trait Workload {
    /// Edits the pods.
    ///
    /// # Errors
    /// The object has no pods, or the edit fails.
    fn edit_pods<E: Display>(
        &mut self,
        edit: impl FnOnce(&mut PodSpec) -> Result<(), E>,
    ) -> Result<(), ManifestError>;
}

impl Workload for Manifest {
    fn edit_pods<E: Display>(
        &mut self,
        edit: impl FnOnce(&mut PodSpec) -> Result<(), E>,
    ) -> Result<(), ManifestError> {
        let mut pods = read(self)?;
        edit(&mut pods).map_err(|why| self.part_failed(POD_SPEC, &why))?;
        write(self, &pods)
    }
}

// To read and to write a PodSpec is a quarter of a megabyte of code. In functions that are not
// generic it is in the program once, not once for each crate that edits pods.

fn read(workload: &Manifest) -> Result<PodSpec, ManifestError> {
    workload.part(POD_SPEC)
}

fn write(workload: &mut Manifest, pods: &PodSpec) -> Result<(), ManifestError> {
    workload.set_part(POD_SPEC, pods)
}

/// Init containers and containers, as the pod runs them.
pub fn containers(pod: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    pod.init_containers
        .iter_mut()
        .flatten()
        .chain(&mut pod.containers)
}

/// Sets the image of every container.
///
/// # Errors
/// `image_of` knows none for a container, so that none is forgotten.
pub fn set_images(
    pod: &mut PodSpec,
    image_of: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    for container in containers(pod) {
        let image = image_of(&container.name)
            .ok_or_else(|| format!("no image is known for container {}", container.name))?;
        container.image = Some(image);
    }
    Ok(())
}

/// Sets the path on the nodes that a volume stands for.
///
/// # Errors
/// The pod has no such volume, or it is none of the nodes'.
pub fn set_host_path(pod: &mut PodSpec, volume: &str, path: &str) -> Result<(), String> {
    let mut volumes = pod.volumes.iter_mut().flatten();
    let source = volumes
        .find(|candidate| candidate.name == volume)
        .and_then(|volume| volume.host_path.as_mut());
    let source =
        source.ok_or_else(|| format!("there is no volume {volume} with a path on the nodes"))?;
    // Written otherwise, it is the same folder: no reason to restart pods.
    if source.path.trim_end_matches('/') != path {
        path.clone_into(&mut source.path);
    }
    Ok(())
}

/// Sets where the containers that mount a volume find it.
///
/// # Errors
/// No container mounts it.
pub fn set_mount_path(pod: &mut PodSpec, volume: &str, path: &str) -> Result<(), String> {
    let mounts = containers(pod).flat_map(|container| container.volume_mounts.iter_mut().flatten());
    let set = mounts
        .filter(|mount| mount.name == volume)
        .map(|mount| path.clone_into(&mut mount.mount_path))
        .count();
    if set == 0 {
        Err(format!("no container mounts the volume {volume}"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn pod() -> PodSpec {
        serde_json::from_value(json!({
            "initContainers": [
                {
                    "name": "before", "image": "old",
                    "volumeMounts": [{"name": "bin", "mountPath": "/a"}]
                }
            ],
            "containers": [
                {
                    "name": "main", "image": "old",
                    "volumeMounts": [
                        {"name": "bin", "mountPath": "/b"}, {"name": "tmp", "mountPath": "/c"}
                    ]
                }
            ],
            "volumes": [
                {"name": "bin", "hostPath": {"path": "/opt/cni/bin/"}},
                {"name": "tmp", "emptyDir": {}}
            ],
        }))
        .unwrap()
    }

    #[test]
    fn no_container_is_left_without_an_image() {
        let mut edited = pod();
        set_images(&mut edited, |name| Some(format!("new-{name}"))).unwrap();
        assert_eq!(
            containers(&mut edited)
                .map(|container| container.image.clone().unwrap())
                .collect::<Vec<_>>(),
            ["new-before", "new-main"]
        );
        let error = set_images(&mut pod(), |name| (name == "main").then(String::new)).unwrap_err();
        assert_eq!(error, "no image is known for container before");
    }

    #[test]
    fn a_path_that_means_the_same_is_left_as_it_is() {
        let path = |pod: &PodSpec| {
            pod.volumes.as_ref().unwrap()[0]
                .host_path
                .as_ref()
                .unwrap()
                .path
                .clone()
        };
        let mut edited = pod();
        set_host_path(&mut edited, "bin", "/opt/cni/bin").unwrap();
        assert_eq!(path(&edited), "/opt/cni/bin/");
        set_host_path(&mut edited, "bin", "/elsewhere").unwrap();
        assert_eq!(path(&edited), "/elsewhere");
        assert!(
            set_host_path(&mut edited, "tmp", "/x").is_err(),
            "none of the nodes'"
        );
        assert!(set_host_path(&mut edited, "none", "/x").is_err());
    }

    #[test]
    fn every_mount_of_a_volume_moves_and_no_other() {
        let mut edited = pod();
        set_mount_path(&mut edited, "bin", "/new").unwrap();
        let mounts = containers(&mut edited)
            .flat_map(|container| container.volume_mounts.clone().unwrap_or_default());
        assert_eq!(
            mounts.map(|mount| mount.mount_path).collect::<Vec<_>>(),
            ["/new", "/new", "/c"]
        );
        assert!(set_mount_path(&mut edited, "none", "/x").is_err());
    }
}
