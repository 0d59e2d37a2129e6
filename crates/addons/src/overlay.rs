//! Changes of a configuration to the manifests under `components/`.

use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec};
use weft_api::addons::Placement;
use weft_operands::{
    namespace::load,
    pod::{Workload, containers, set_host_path, set_images},
};
use weft_plan::{Facts, Manifest, ManifestError, kinds};

use crate::{
    Image, Settings,
    fill::{self, Effective},
    settings::DEFAULT_NAMESPACE,
};

/// The input of the overlays of components.
pub(crate) struct Overlay<'a> {
    pub effective: &'a Effective,
    pub settings: &'a Settings,
    pub facts: &'a Facts,
}

/// The environment variable of the scripts that install plugins: `yes` if the container runtime
/// looks for plugins in several folders, and empty otherwise.
const SEVERAL_PLUGIN_FOLDERS: &str = "SEVERAL_PLUGIN_FOLDERS";

/// The nodes that the pods of a template prefer.
const PREFERENCES: &str =
    "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

impl Overlay<'_> {
    /// Reads manifests and puts them into the operands' namespace.
    pub(crate) fn load(&self, files: &[&str]) -> Result<Vec<Manifest>, ManifestError> {
        load(files, DEFAULT_NAMESPACE, &self.settings.namespace)
    }

    /// Sets image and pull policy of every container, and the pull secrets and the placement of the
    /// pods. `images` names each container's image. A container without one is an error, so that
    /// none is forgotten.
    pub(crate) fn workload(
        &self,
        manifest: &mut Manifest,
        images: &[(&str, Image)],
        placement: &Placement,
    ) -> Result<(), ManifestError> {
        manifest.edit_pods(|pod| {
            set_images(pod, |container| {
                let (_, image) = images.iter().find(|(name, _)| *name == container)?;
                Some(self.effective.image(*image, self.settings))
            })?;
            for container in containers(pod) {
                container.image_pull_policy = Some(self.effective.image_pull_policy.to_string());
            }
            let secrets = self
                .effective
                .image_pull_secrets
                .iter()
                .map(|name| LocalObjectReference { name: name.clone() });
            pod.image_pull_secrets =
                Some(secrets.collect::<Vec<_>>()).filter(|secrets| !secrets.is_empty());
            pod.node_selector = placement.node_selector.clone();
            // The original writes `{}` where nothing is said. To leave the field out would change
            // the template and restart the pods.
            pod.affinity = Some(placement.affinity.clone().unwrap_or_default());
            pod.tolerations = placement.tolerations.clone();
            Ok::<_, String>(())
        })?;
        if *placement == fill::infra_by_default() {
            manifest.accept(PREFERENCES, fill::preferences_of_original());
        }
        Ok(())
    }

    /// Sets the folder of the nodes that CNI plugins go to, through this volume, and the
    /// containers' variable `SEVERAL_PLUGIN_FOLDERS`. An install script fails where the folder
    /// holds no other plugins, unless the variable is set: CRI-O has a list of folders,
    /// `plugin_dirs`, and the packages of some distributions put their plugins into
    /// `/usr/libexec/cni` (crio.conf(5)).
    pub(crate) fn plugin_folder(&self, pod: &mut PodSpec, volume: &str) -> Result<(), String> {
        set_host_path(pod, volume, &self.effective.host_paths.cni_bin_dir)?;
        let several = self
            .facts
            .nodes
            .values()
            .any(|node| node.container_runtime.starts_with("cri-o://"));
        let variables = containers(pod).flat_map(|container| container.env.iter_mut().flatten());
        for variable in
            variables.filter(|variable| several && variable.name == SEVERAL_PLUGIN_FOLDERS)
        {
            variable.value = Some("yes".to_owned());
        }
        Ok(())
    }

    /// Reports whether the cluster is OpenShift 4.
    pub(crate) fn is_openshift(&self) -> bool {
        self.facts.is_openshift()
    }

    /// Reports whether OpenShift's SecurityContextConstraints decide what pods may do.
    pub(crate) fn has_constraints(&self) -> bool {
        self.facts.serves(kinds::SECURITY_CONTEXT_CONSTRAINTS)
    }

    /// Where there are constraints, adds those of `file`, and has the pods of each workload ask for
    /// the one that is named: else any that they may use could be chosen for them.
    pub(crate) fn constrain(
        &self,
        objects: &mut Vec<Manifest>,
        file: &str,
        workloads: &[(&str, &str)],
    ) -> Result<(), ManifestError> {
        if !self.has_constraints() {
            return Ok(());
        }
        for object in objects.iter_mut() {
            if let Some((_, constraints)) = workloads
                .iter()
                .find(|(name, _)| object.key().name == *name)
            {
                object.set_pod_annotation("openshift.io/required-scc", constraints);
            }
        }
        objects.extend(self.load(&[file])?);
        Ok(())
    }

    /// Leaves the user of the pods to OpenShift, which gives each namespace a range of its own and
    /// refuses others.
    pub(crate) fn without_user(&self, manifest: &mut Manifest) -> Result<(), ManifestError> {
        if !self.has_constraints() && !self.is_openshift() {
            return Ok(());
        }
        manifest.edit_pods(|pod| {
            pod.security_context
                .iter_mut()
                .for_each(|context| context.run_as_user = None);
            Ok::<_, String>(())
        })
    }
}

#[cfg(test)]
#[path = "overlay_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "constraints_tests.rs"]
mod constraints_tests;
