//! From the complete configuration to units of objects.

use k8s_openapi::api::core::v1::{EnvVar, PodSpec};
use weft_operands::{
    namespace::load,
    pod::{Workload, containers, set_images},
};
use weft_plan::{Facts, Kind, Manifest, ManifestError, Unit, kinds};

use super::{AGENT, Settings, config::Effective, settings::NAMESPACE};

/// The unit of the agent.
pub const AGENT_UNIT: &str = "agent";
/// The unit of its namespace, which is never removed.
pub const NAMESPACE_UNIT: &str = "namespace";

const NAMESPACE_FILE: &str = include_str!("../../../../components/nmstate/namespace.yaml");
const FILES: [&str; 2] =
    [include_str!("../../../../components/nmstate/rbac.yaml"), include_str!("../../../../components/nmstate/daemonset.yaml")];
const CONSTRAINTS: &str = include_str!("../../../../components/nmstate/openshift.yaml");

/// Every kind that a unit may hold.
pub const KINDS: &[Kind] = &[
    kinds::NAMESPACE,
    kinds::SERVICE_ACCOUNT,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::DAEMON_SET,
    kinds::SECURITY_CONTEXT_CONSTRAINTS,
];

/// Why objects could not be built. Manifests and overlays are ours, so each of these is a defect of Weft.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A manifest or an overlay is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The configuration has no JSON form.
    #[error("the configuration has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
}

/// The units of a configuration.
pub(super) fn units(effective: &Effective, settings: &Settings, facts: &Facts) -> Result<Vec<Unit>, BuildError> {
    let read = |files: &[&str]| load(files, NAMESPACE, &settings.namespace);
    let mut agent = read(&FILES)?;
    if facts.serves(kinds::SECURITY_CONTEXT_CONSTRAINTS) {
        agent.extend(read(&[CONSTRAINTS])?);
        // Else any that the pods may use could be chosen for them.
        agent.iter_mut().for_each(|object| object.set_pod_annotation("openshift.io/required-scc", AGENT));
    }
    for object in agent.iter_mut().filter(|object| object.key().kind == kinds::DAEMON_SET) {
        object.edit_pods(|pod| configure(pod, effective, settings))?;
    }
    let mut namespace = read(&[NAMESPACE_FILE])?;
    for object in &mut namespace {
        object.set_label("name", &settings.namespace);
    }
    let unit = |name: &str, objects: Vec<Manifest>| Unit { name: name.to_owned(), objects };
    Ok(vec![unit(NAMESPACE_UNIT, namespace), unit(AGENT_UNIT, agent)])
}

fn configure(pod: &mut PodSpec, effective: &Effective, settings: &Settings) -> Result<(), String> {
    set_images(pod, |container| (container == AGENT).then(|| settings.image.clone()))?;
    pod.affinity.clone_from(&effective.affinity);
    pod.node_selector = Some(effective.node_selector.clone());
    pod.tolerations = Some(effective.tolerations.clone());
    for container in containers(pod) {
        container.image_pull_policy = Some(settings.image_pull_policy.to_string());
        let variables = container.env.get_or_insert_default();
        set(variables, "PROBE_DNS_HOST", &effective.dns_probe);
        set(variables, "LOG_LEVEL", &effective.log_level);
        for (name, patterns) in [("INTERFACES_INCLUDE", &effective.include), ("INTERFACES_EXCLUDE", &effective.exclude)] {
            if !patterns.is_empty() {
                set(variables, name, &patterns.join(" "));
            }
        }
    }
    Ok(())
}

fn set(variables: &mut Vec<EnvVar>, name: &str, value: &str) {
    match variables.iter_mut().find(|variable| variable.name == name) {
        Some(variable) => variable.value = Some(value.to_owned()),
        None => variables.push(EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }),
    }
}
