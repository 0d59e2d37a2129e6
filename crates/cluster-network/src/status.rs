//! The status of a resource, from what became of its units.

use serde_json::Value;
use weft_api::{
    Condition,
    cluster_network::{NetworkConfigStatus, NoticeStatus, RefusedChange, RefusedField},
};
use weft_plan::{report::Report, rollout::Rollout};

use crate::{additional, build::DEFAULT_NETWORK};

/// The whole status.
pub(crate) fn status(previous: &Value, conditions: Vec<Condition>, report: &Report) -> Value {
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
    let established = established(report).or(previous.established_network);
    let notices = report.notices.iter().map(|notice| NoticeStatus { about: notice.about.clone(), message: notice.message.clone() });
    let status = NetworkConfigStatus {
        observed_generation: Some(report.generation),
        conditions,
        effective_configuration: report.effective.clone().or(previous.effective_configuration),
        refused_change: (!fields.is_empty()).then(|| RefusedChange { fields, way_out: crate::WAY_OUT.to_owned() }),
        established_network: established,
        notices: notices.collect(),
        additional_networks: additional::status(report),
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// Whether the network of this type has once been on all nodes, as the status says.
pub(crate) fn has_been_established(status: &Value, network: &str) -> bool {
    status["establishedNetwork"] == network
}

/// The type of the network, if it is on all nodes now.
fn established(report: &Report) -> Option<String> {
    let unit = report.units.iter().find(|unit| unit.name == DEFAULT_NETWORK && !report.starting && unit.failures.is_empty())?;
    let is_there = !unit.workloads.is_empty() && unit.workloads.iter().all(|workload| workload.rollout == Rollout::Ready);
    let network = report.effective.as_ref()?["defaultNetwork"]["type"].as_str()?;
    is_there.then(|| network.to_owned())
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
