//! The decision about a resource, or about the last good one if the resource is refused.

use serde_json::Value;
use weft_plan::{Decision, Facts, Input, ObjectSet, Refusal};

use crate::reconcile::stored::Stored;

/// Decides what the resource asks for. If the resource is refused, the last good configuration
/// stays in force.
pub(crate) fn decide(
    domain: &dyn ObjectSet,
    resource: &Value,
    stored: &Stored,
    facts: &Facts,
    random: &mut dyn FnMut(&mut [u8]),
) -> (Option<Decision>, Option<Refusal>) {
    // Where an operator has left a record and no inventory, that is the last good one.
    let recorded = || {
        stored
            .record
            .as_deref()
            .filter(|_| domain.is_forced_without_record())
            .and_then(|text| serde_json::from_str(text).ok())
    };
    let decided = stored.inventory.decided.clone().or_else(recorded);
    let decided = decided.as_ref();
    let mut decide = |resource: &Value| {
        domain.decide(Input {
            resource,
            record: stored.record.as_deref(),
            decided,
            facts,
            random,
        })
    };
    match decide(resource) {
        Ok(decision) => (Some(decision), None),
        Err(refusal) => {
            let last_good = decided.and_then(|decided| {
                let mut before = resource.clone();
                before["spec"] = decided.clone();
                decide(&before).ok()
            });
            (last_good, Some(refusal))
        }
    }
}
