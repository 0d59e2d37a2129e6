//! The API server's audit record: user, request and time.

use anyhow::{Context, Result};
use jiff::Timestamp;
use weft_testenv::{AuditEvent, ControlPlane};

/// The requests of a user since a moment.
///
/// # Errors
/// The audit log cannot be read.
pub fn since_by(
    control_plane: &ControlPlane,
    since: Timestamp,
    user: &str,
) -> Result<Vec<AuditEvent>> {
    let all = control_plane.audit_events()?;
    Ok(all
        .into_iter()
        .filter(|event| event.user == user && event.received >= since)
        .collect())
}

/// The path of a request, without its query.
pub fn path(event: &AuditEvent) -> &str {
    event.uri.split('?').next().unwrap_or_default()
}

/// Is it about the lease of the leader?
pub fn is_lease(event: &AuditEvent) -> bool {
    event.group == "coordination.k8s.io" && event.resource == "leases"
}

/// When the first of these came in.
///
/// # Errors
/// There are none.
pub fn first_received<'a>(events: impl IntoIterator<Item = &'a AuditEvent>) -> Result<Timestamp> {
    events
        .into_iter()
        .map(|event| event.received)
        .min()
        .context("the audit log has no such request")
}

/// When the last of these was answered.
///
/// # Errors
/// There are none.
pub fn last_answered<'a>(events: impl IntoIterator<Item = &'a AuditEvent>) -> Result<Timestamp> {
    events
        .into_iter()
        .map(|event| event.answered)
        .max()
        .context("the audit log has no such request")
}

/// Seconds between two moments.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A line for each request: when it came in, how long it took, what it was.
pub fn timeline(start: Timestamp, events: &[AuditEvent]) -> String {
    let mut events: Vec<_> = events.iter().collect();
    events.sort_by_key(|event| event.received);
    let line = |event: &AuditEvent| {
        let (at, took) = (
            seconds(start, event.received) * 1000.0,
            seconds(event.received, event.answered) * 1000.0,
        );
        format!(
            "{at:8.1} ms {took:+7.1}  {} {} {}\n",
            event.code,
            event.verb,
            path(event)
        )
    };
    events.into_iter().map(line).collect()
}
