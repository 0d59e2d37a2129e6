//! The status that an assessment leads to.

use jiff::Timestamp;
use weft_api::placement::PlacementApiStatus;

use crate::assess::{Assessment, Found};

/// Returns the status of the resource. `generation` is that of the resource that was assessed. An
/// unknown value keeps its place.
pub fn status(
    before: &PlacementApiStatus,
    assessment: &Assessment,
    generation: i64,
    now: Timestamp,
) -> PlacementApiStatus {
    let Found {
        input_hash,
        applied_hash,
        sync_hash,
        account_hash,
        catalogue_hash,
        database_hostname,
        ready_count,
        network_attachments,
        topology,
        credential,
    } = assessment.found.clone();
    let mut hash = before.hash.clone().unwrap_or_default();
    hash.extend(input_hash.map(|input| ("input".to_owned(), input)));
    hash.extend(sync_hash.map(|sync| ("dbsync".to_owned(), sync)));
    hash.extend(account_hash.map(|account| ("keystoneservice".to_owned(), account)));
    hash.extend(catalogue_hash.map(|catalogue| ("keystoneendpoint".to_owned(), catalogue)));
    hash.retain(|_, hash| !hash.is_empty());
    PlacementApiStatus {
        ready_count: ready_count.or(before.ready_count).or(Some(0)),
        hash: (!hash.is_empty()).then_some(hash),
        conditions: assessment.steps.conditions(&before.conditions, now),
        database_hostname: database_hostname.or_else(|| before.database_hostname.clone()),
        // None is said by no field, as placement-operator has it.
        network_attachments: network_attachments.map_or_else(
            || before.network_attachments.clone(),
            |all| (!all.is_empty()).then_some(all),
        ),
        observed_generation: Some(generation),
        last_applied_topology: topology.unwrap_or_else(|| before.last_applied_topology.clone()),
        application_credential_secret: credential
            .unwrap_or_else(|| before.application_credential_secret.clone()),
        applied_input_secret_hash: applied_hash
            .or_else(|| before.applied_input_secret_hash.clone()),
    }
}
