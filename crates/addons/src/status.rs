//! The status of a resource, from what became of its units.

use serde_json::Value;
use weft_api::{
    Condition,
    addons::{ComponentStatus, Container, NetworkAddonsConfigStatus},
};
use weft_plan::{
    Deviation, Unit, drift,
    report::{Report, UnitReport},
    rollout::Rollout,
    text,
};

use crate::Settings;

/// Returns the whole status of a NetworkAddonsConfig.
pub(crate) fn status(
    settings: &Settings,
    previous: &Value,
    conditions: Vec<Condition>,
    report: &Report,
    units: &[Unit],
) -> Value {
    let previous: NetworkAddonsConfigStatus =
        serde_json::from_value(previous.clone()).unwrap_or_default();
    let available = conditions
        .iter()
        .any(|condition| condition.type_ == "Available" && condition.status == "True");
    let nothing_applied = report.refusal.is_some() || report.blocked.is_some();
    // Of a version that waits for the end of a pause, the objects are not there yet.
    let reached = available && (report.paused.is_none() || report.drift.is_empty());
    let status = NetworkAddonsConfigStatus {
        observed_generation: Some(report.generation),
        operator_version: Some(settings.version.clone()),
        target_version: Some(settings.version.clone()),
        // Reached only once everything works. Kept while something is wrong again.
        observed_version: if reached {
            Some(settings.version.clone())
        } else {
            previous.observed_version
        },
        conditions,
        effective_configuration: report
            .effective
            .clone()
            .or(previous.effective_configuration),
        components: components(report),
        drift: drift::listed(&report.drift),
        containers: if nothing_applied && units.is_empty() {
            previous.containers
        } else {
            containers(units)
        },
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// The containers of all workloads, in the order of the units and as the pods run them: init
/// containers first.
pub fn containers(units: &[Unit]) -> Vec<Container> {
    let mut all = Vec::new();
    for object in units.iter().flat_map(|unit| &unit.objects) {
        for list in ["initContainers", "containers"] {
            let containers = object
                .body()
                .pointer("/spec/template/spec")
                .and_then(|pod| pod[list].as_array());
            all.extend(containers.into_iter().flatten().map(|container| Container {
                parent_kind: object.key().kind.kind.to_owned(),
                parent_name: object.key().name.clone(),
                name: text(container, "name").to_owned(),
                image: text(container, "image").to_owned(),
            }));
        }
    }
    all
}

/// Every unit, then what is asked for and not deployed.
fn components(report: &Report) -> Vec<ComponentStatus> {
    let notices = |about: &str| {
        report
            .notices
            .iter()
            .filter(|notice| notice.about == about)
            .map(|notice| notice.message.clone())
            .collect::<Vec<_>>()
    };
    let mut components: Vec<_> = report
        .units
        .iter()
        .map(|unit| {
            let (mut state, mut messages) = state(unit);
            for drift in report.drift.iter().filter(|drift| drift.unit == unit.name) {
                // A missing object is worse than one that is not there yet, so `Degraded` stays.
                match drift.deviation {
                    Deviation::Missing | Deviation::BeingDeleted => state = "Degraded",
                    Deviation::Altered { .. } | Deviation::Contested { .. } => {
                        if drift.harms() {
                            state = "Degraded";
                        }
                        messages.push(drift.human());
                        continue;
                    }
                    Deviation::Pending if state != "Degraded" => state = "NotDeployed",
                    _ => continue,
                }
                // The drift explains the state of the object's rollout, too, so it takes its place.
                messages.retain(|message| !message.starts_with(&drift.object.human()));
                messages.push(format!("{}, and left so", drift.human()));
            }
            messages.extend(notices(&unit.name));
            ComponentStatus {
                name: unit.name.clone(),
                state: state.to_owned(),
                message: join(&messages),
            }
        })
        .collect();
    for notice in &report.notices {
        if !components
            .iter()
            .any(|component| component.name == notice.about)
        {
            components.push(ComponentStatus {
                name: notice.about.clone(),
                state: "NotDeployed".to_owned(),
                message: join(&notices(&notice.about)),
            });
        }
    }
    components
}

fn state(unit: &UnitReport) -> (&'static str, Vec<String>) {
    let mut state = "Available";
    let mut messages = Vec::new();
    for workload in &unit.workloads {
        match &workload.rollout {
            Rollout::Ready => {}
            Rollout::Progressing { message, .. } => {
                state = if state == "Available" {
                    "Progressing"
                } else {
                    state
                };
                messages.push(format!("{}: {message}", workload.object.human()));
            }
            Rollout::Stuck { message, .. } => {
                state = "Degraded";
                messages.push(format!("{}: {message}", workload.object.human()));
            }
        }
    }
    if !unit.failures.is_empty() {
        state = "Degraded";
        messages.splice(
            0..0,
            unit.failures
                .iter()
                .map(|failure| format!("{}: {}", failure.object.human(), failure.message)),
        );
    }
    (state, messages)
}

fn join(messages: &[String]) -> Option<String> {
    (!messages.is_empty()).then(|| messages.join("\n"))
}

/// The gauges that alerts of the original are built on (`NetworkAddonsConfigNotReady`,
/// `KubemacpoolDown`).
pub fn gauges(resource: Option<&Value>) -> Vec<(&'static str, &'static str, f64)> {
    let conditions = resource
        .and_then(|resource| resource["status"]["conditions"].as_array())
        .into_iter()
        .flatten();
    let ready = conditions
        .into_iter()
        .any(|condition| condition["type"] == "Available" && condition["status"] == "True");
    let kube_mac_pool = resource.is_some_and(|resource| !resource["spec"]["kubeMacPool"].is_null());
    vec![
        (
            "kubevirt_cnao_cr_ready",
            "NetworkAddonsConfig is Available",
            f64::from(u8::from(ready)),
        ),
        (
            "kubevirt_cnao_cr_kubemacpool_deployed",
            "KubeMacPool is part of the configuration",
            f64::from(u8::from(kube_mac_pool)),
        ),
    ]
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
