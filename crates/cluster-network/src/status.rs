//! The status of a resource, from what became of its units.

use serde_json::Value;
use weft_api::{
    Condition,
    cluster_network::{NetworkConfigStatus, RefusedChange, RefusedField},
};
use weft_plan::report::Report;

use crate::{Settings, additional, change, established};

/// The whole status.
pub(crate) fn status(settings: &Settings, previous: &Value, conditions: Vec<Condition>, report: &Report) -> Value {
    let previous: NetworkConfigStatus = serde_json::from_value(previous.clone()).unwrap_or_default();
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
        effective_configuration: report.effective.clone().or(previous.effective_configuration),
        refused_change: (!fields.is_empty()).then(|| RefusedChange { fields, way_out: change::way_out(settings) }),
        established_network: established::network(report).or(previous.established_network),
        additional_networks: additional::status(report),
        notices: report.notices.iter().map(|notice| format!("{}: {}", notice.about, notice.message)).collect(),
    };
    serde_json::to_value(status).unwrap_or_default()
}
