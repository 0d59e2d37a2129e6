//! From the complete configuration to units of objects.

use std::convert::Infallible;

use k8s_openapi::api::{
    core::v1::{EnvVar, PodSpec, Toleration},
    rbac::v1::Subject,
};
use serde_json::Value;
use weft_api::node_network::{STARTUP_TAINT, WithoutNetworkManager};
use weft_operands::{
    namespace::load,
    pod::{Workload, containers, set_images},
};
use weft_plan::{Facts, Kind, Manifest, ManifestError, Unit, kinds};

use super::{AGENT, Settings, config::Effective, settings::NAMESPACE};

/// The container that brings a host without NetworkManager back.
const GUARDIAN: &str = "guardian";
/// The unit of the agent.
pub(super) const AGENT_UNIT: &str = "agent";
/// The unit of its namespace, which is never removed.
const NAMESPACE_UNIT: &str = "namespace";
/// The unit that owns the objects for Prometheus Operator.
pub(super) const MONITORING_UNIT: &str = "monitoring";

const NAMESPACE_FILE: &str = include_str!("../../../../components/nmstate/namespace.yaml");
const FILES: [&str; 2] = [
    include_str!("../../../../components/nmstate/rbac.yaml"),
    include_str!("../../../../components/nmstate/daemonset.yaml"),
];
const CONSTRAINTS: &str = include_str!("../../../../components/nmstate/openshift.yaml");
const MONITORING: &str = include_str!("../../../../components/nmstate/monitoring.yaml");

/// Every kind that a unit may hold.
pub(super) const KINDS: &[Kind] = &[
    kinds::NAMESPACE,
    kinds::SERVICE_ACCOUNT,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::DAEMON_SET,
    kinds::SECURITY_CONTEXT_CONSTRAINTS,
    kinds::SERVICE,
    kinds::SERVICE_MONITOR,
    kinds::PROMETHEUS_RULE,
];

/// Why objects could not be built. Manifests and overlays are ours, so each of these is a defect of
/// Weft.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    /// A manifest or an overlay is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The configuration has no JSON form.
    #[error("the configuration has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
}

/// The units of a configuration.
pub(super) fn units(
    effective: &Effective,
    settings: &Settings,
    facts: &Facts,
) -> Result<Vec<Unit>, BuildError> {
    let read = |files: &[&str]| load(files, NAMESPACE, &settings.namespace);
    let mut agent = read(&FILES)?;
    if facts.serves(kinds::SECURITY_CONTEXT_CONSTRAINTS) {
        agent.extend(read(&[CONSTRAINTS])?);
        // Else any that the pods may use could be chosen for them.
        agent
            .iter_mut()
            .for_each(|object| object.set_pod_annotation("openshift.io/required-scc", AGENT));
    }
    for object in agent
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DAEMON_SET)
    {
        object.edit_pods(|pod| configure(pod, effective, settings))?;
    }
    let mut namespace = read(&[NAMESPACE_FILE])?;
    for object in &mut namespace {
        object.set_label("name", &settings.namespace);
    }
    let unit = |name: &str, objects: Vec<Manifest>| Unit {
        name: name.to_owned(),
        objects,
    };
    let mut units = vec![unit(NAMESPACE_UNIT, namespace), unit(AGENT_UNIT, agent)];
    if is_monitored(facts) && is_beside_the_agents(settings) {
        let mut monitoring = read(&[MONITORING])?;
        monitoring
            .iter_mut()
            .try_for_each(|object| adapt(object, settings))?;
        units.push(unit(MONITORING_UNIT, monitoring));
    }
    Ok(units)
}

/// Reports whether the cluster takes such objects. One definition without the other is of no use.
pub(super) fn is_monitored(facts: &Facts) -> bool {
    facts.serves(kinds::SERVICE_MONITOR) && facts.serves(kinds::PROMETHEUS_RULE)
}

/// Reports whether the operator is found where the agents are: its Service must be in its own
/// namespace.
pub(super) fn is_beside_the_agents(settings: &Settings) -> bool {
    settings.operator_namespace == settings.namespace
}

/// Writes who reads metrics, and which namespace they are about, into a manifest.
fn adapt(object: &mut Manifest, settings: &Settings) -> Result<(), ManifestError> {
    match object.key().kind {
        kinds::ROLE_BINDING => object.edit("/subjects/0", |reader: &mut Subject| {
            (reader.namespace, reader.name) = (
                Some(settings.prometheus.0.clone()),
                settings.prometheus.1.clone(),
            );
            Ok::<_, Infallible>(())
        }),
        kinds::SERVICE_MONITOR => object.edit(
            "/spec/namespaceSelector/matchNames",
            |names: &mut Vec<String>| {
                *names = vec![settings.namespace.clone()];
                Ok::<_, Infallible>(())
            },
        ),
        kinds::PROMETHEUS_RULE => object.edit("/spec/groups", |groups: &mut Value| {
            let text = groups
                .to_string()
                .replace(&of(NAMESPACE), &of(&settings.namespace));
            *groups = serde_json::from_str(&text)?;
            Ok::<_, serde_json::Error>(())
        }),
        _ => Ok(()),
    }
}

/// The selector of the series of a namespace, as it is in JSON. The name of a namespace needs no
/// quoting.
fn of(namespace: &str) -> String {
    format!("namespace=\\\"{namespace}\\\"")
}

fn configure(pod: &mut PodSpec, effective: &Effective, settings: &Settings) -> Result<(), String> {
    let kernel = effective.without_network_manager == WithoutNetworkManager::ConfigureKernel;
    pod.containers
        .retain(|container| kernel || container.name != GUARDIAN);
    set_images(pod, |container| {
        [AGENT, GUARDIAN]
            .contains(&container)
            .then(|| settings.image.clone())
    })?;
    pod.affinity.clone_from(&effective.affinity);
    pod.node_selector = Some(effective.node_selector.clone());
    pod.tolerations = Some(with_startup_taint(&effective.tolerations));
    for container in containers(pod) {
        container.image_pull_policy = Some(settings.image_pull_policy.to_string());
        let variables = container.env.get_or_insert_default();
        set(variables, "LOG_LEVEL", &effective.log_level);
        if container.name == AGENT {
            configure_agent(variables, effective, settings);
        }
    }
    Ok(())
}

fn configure_agent(variables: &mut Vec<EnvVar>, effective: &Effective, settings: &Settings) {
    set(variables, "PROBE_DNS_HOST", &effective.dns_probe);
    for (name, value) in &settings.of_agents {
        set(variables, name, &value.to_string());
    }
    if effective.without_network_manager == WithoutNetworkManager::ConfigureKernel {
        set(
            variables,
            "WEFT_AGENT_WITHOUT_NETWORK_MANAGER",
            "ConfigureKernel",
        );
    }
    for (name, patterns) in [
        ("INTERFACES_INCLUDE", &effective.include),
        ("INTERFACES_EXCLUDE", &effective.exclude),
    ] {
        if !patterns.is_empty() {
            set(variables, name, &patterns.join(" "));
        }
    }
}

/// An agent that is kept from a node by the startup taint would never make it ready.
fn with_startup_taint(given: &[Toleration]) -> Vec<Toleration> {
    let exists = Some("Exists".to_owned());
    let covers = |one: &Toleration| {
        let key = one.key.as_deref().unwrap_or_default();
        one.operator == exists && one.effect.is_none() && (key.is_empty() || key == STARTUP_TAINT)
    };
    let missing = (!given.iter().any(covers)).then(|| Toleration {
        key: Some(STARTUP_TAINT.to_owned()),
        operator: exists.clone(),
        ..Toleration::default()
    });
    given.iter().cloned().chain(missing).collect()
}

fn set(variables: &mut Vec<EnvVar>, name: &str, value: &str) {
    match variables.iter_mut().find(|variable| variable.name == name) {
        Some(variable) => variable.value = Some(value.to_owned()),
        None => variables.push(EnvVar {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            value_from: None,
        }),
    }
}
