//! The status of a resource, from what became of its units.

use serde_json::Value;
use weft_api::{
    Condition,
    cluster_network::{NetworkConfigStatus, RefusedChange, RefusedField},
};
use weft_plan::report::Report;

use crate::{Settings, additional, change, established};

/// The whole status.
pub(crate) fn status(
    settings: &Settings,
    previous: &Value,
    conditions: Vec<Condition>,
    report: &Report,
) -> Value {
    let previous: NetworkConfigStatus =
        serde_json::from_value(previous.clone()).unwrap_or_default();
    let changes = report.refusal.iter().flat_map(|refusal| &refusal.changes);
    let fields: Vec<_> = changes
        .map(|change| RefusedField {
            field: change.field.clone(),
            old: change.old.clone(),
            new: change.new.clone(),
            reason: change.why.clone(),
        })
        .collect();
    let status = NetworkConfigStatus {
        observed_generation: Some(report.generation),
        conditions,
        effective_configuration: report
            .effective
            .clone()
            .or(previous.effective_configuration),
        refused_change: (!fields.is_empty()).then(|| RefusedChange {
            fields,
            way_out: change::way_out(settings),
        }),
        established_network: established::network(report).or(previous.established_network),
        additional_networks: additional::status(report),
        notices: report
            .notices
            .iter()
            .map(|notice| format!("{}: {}", notice.about, notice.message))
            .collect(),
    };
    serde_json::to_value(status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use weft_plan::ObjectSet;

    use super::*;
    use crate::{ClusterNetwork, testing};

    #[test]
    fn the_domain_reports_the_generation_and_the_configuration_in_force() {
        let effective = serde_json::json!({"serviceNetwork": "172.30.0.0/16"});
        let report = Report {
            generation: 7,
            effective: Some(effective.clone()),
            ..Report::default()
        };
        let status =
            ClusterNetwork::new(testing::settings()).status(&Value::Null, Vec::new(), &report, &[]);
        assert_eq!(
            (
                &status["observedGeneration"],
                &status["effectiveConfiguration"]
            ),
            (&7.into(), &effective)
        );
    }
}
