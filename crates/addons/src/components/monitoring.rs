//! Objects for Prometheus Operator, while its definitions exist: the places of metrics, and the
//! alerts.

use k8s_openapi::api::rbac::v1::Subject;
use serde_json::Value;
use weft_plan::{Facts, Manifest, ManifestError, Notice, kinds};

use crate::{Settings, overlay::Overlay, settings::DEFAULT_NAMESPACE};

const FILES: [&str; 3] = [
    include_str!("../../../../components/monitoring/rbac.yaml"),
    include_str!("../../../../components/monitoring/service.yaml"),
    include_str!("../../../../components/monitoring/rules.yaml"),
];

/// The unit of the operator's own monitoring.
pub(crate) const UNIT: &str = "monitoring";

/// Reports whether the cluster takes such objects. One definition without the other is of no use.
pub(crate) fn is_served(facts: &Facts) -> bool {
    facts.serves(kinds::SERVICE_MONITOR) && facts.serves(kinds::PROMETHEUS_RULE)
}

/// Reports whether the operator can be found where its add-ons are: its Service must be in its own
/// namespace.
pub(crate) fn is_beside_the_operands(settings: &Settings) -> bool {
    settings.operator_namespace == settings.namespace
}

/// Of the operator itself.
pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    if !is_served(overlay.facts) || !is_beside_the_operands(overlay.settings) {
        return Ok(Vec::new());
    }
    let mut objects = overlay.load(&FILES)?;
    objects
        .iter_mut()
        .try_for_each(|object| adapt(object, overlay.settings))?;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::SERVICE_MONITOR)
    {
        object.edit(
            "/spec/namespaceSelector/matchNames",
            |names: &mut Vec<String>| {
                *names = vec![overlay.settings.namespace.clone()];
                Ok::<_, std::convert::Infallible>(())
            },
        )?;
    }
    Ok(objects)
}

/// A notice that nothing scrapes an operator with a namespace of its own.
pub(crate) fn notice(settings: &Settings, facts: &Facts) -> Option<Notice> {
    let message = format!(
        "the operator is in the namespace {}, where Weft makes no objects: have its metrics scraped by a ServiceMonitor of your own",
        settings.operator_namespace
    );
    (is_served(facts) && !is_beside_the_operands(settings)).then(|| Notice {
        about: "monitoring".to_owned(),
        message,
    })
}

/// Writes who reads metrics, which namespace they are about, and where the runbooks are into a
/// manifest.
pub(crate) fn adapt(object: &mut Manifest, settings: &Settings) -> Result<(), ManifestError> {
    match object.key().kind {
        kinds::ROLE_BINDING => object.edit("/subjects/0", |reader: &mut Subject| {
            reader.name.clone_from(&settings.monitoring.service_account);
            reader.namespace = Some(settings.monitoring.namespace.clone());
            Ok::<_, std::convert::Infallible>(())
        }),
        kinds::PROMETHEUS_RULE => object.edit("/spec/groups", |groups: &mut Vec<Value>| {
            for rule in groups
                .iter_mut()
                .filter_map(|group| group["rules"].as_array_mut())
                .flatten()
            {
                // The name of a namespace needs no quoting.
                let expression = rule["expr"].as_str().ok_or("a rule has no expression")?;
                rule["expr"] = expression
                    .replace(&of(DEFAULT_NAMESPACE), &of(&settings.namespace))
                    .into();
                // The alerts of the original have pages at its address. Weft's own have none there.
                let known = rule["annotations"]["runbook_url"].is_string();
                if let Some(alert) = rule["alert"].as_str().filter(|_| known) {
                    let runbook = settings.monitoring.runbook(alert);
                    rule["annotations"]["runbook_url"] = runbook.into();
                }
            }
            Ok::<_, &str>(())
        }),
        _ => Ok(()),
    }
}

/// Selector for the series of a namespace.
fn of(namespace: &str) -> String {
    format!("namespace=\"{namespace}\"")
}

#[cfg(test)]
#[path = "monitoring_tests.rs"]
mod tests;
