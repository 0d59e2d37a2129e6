//! Measures the cost of one policy for the API server: writes for each node, and events to
//! watchers.

use anyhow::{Context, Result};
use jiff::Timestamp;
use weft_testenv::AuditEvent;
use weft_testenv::host_lab::{HostLab, Installation};

use super::{available, bridge, is_of_a_node, quiet, start, without_limit, writes};
use crate::figure::{Figure, Unit};

const HOSTS: usize = 5;

pub async fn measure() -> Result<Vec<Figure>> {
    let weft = start(
        HostLab::builder()
            .hosts(HOSTS)
            .cards(1)
            .garbage_collector(false),
    )
    .await?;
    without_limit(&weft).await?;
    let mut figures = Vec::new();
    // All at once, and one after the other: there, all but one wait for a slot.
    for (name, at_once, limit) in [("br-all", "100%", 4.0), ("br-one", "1", 6.0)] {
        quiet(&weft).await?;
        let (since, before) = (Timestamp::now(), watch_events(&weft.lab().client()).await?);
        weft.apply(&bridge(name, at_once).to_string()).await?;
        available(&weft, name).await?;
        quiet(&weft).await?;
        let all: Vec<_> = writes(&weft)?
            .into_iter()
            .filter(|event| event.received >= since)
            .collect();
        let of_nodes: Vec<_> = all.iter().filter(|event| is_of_a_node(event)).collect();
        let events = watch_events(&weft.lab().client()).await? - before;
        #[allow(clippy::cast_precision_loss)] // a few
        let (writes, hosts) = (of_nodes.len() as f64, HOSTS as f64);
        let waiting = if at_once == "1" {
            "with waiting for a slot"
        } else {
            "without waiting for a slot"
        };
        let note = format!(
            "{}; of the policy's own status, and NMState's: {}; kubernetes-nmstate: 10 to 12",
            kinds(&of_nodes),
            all.len() - of_nodes.len()
        );
        figures.push(
            Figure::new(
                format!("API writes a node and policy, {waiting}"),
                Unit::Count,
                writes / hosts,
            )
            .at_most(limit)
            .note(note),
        );
        let note = format!(
            "watches begun: {}; kubernetes-nmstate: 5 N\u{b2}, {:.0}",
            watchers(&weft)?,
            5.0 * hosts * hosts
        );
        figures.push(
            Figure::new(
                format!("watch events for one policy on {HOSTS} nodes, {waiting}"),
                Unit::Count,
                events,
            )
            .at_most(10.0 * hosts)
            .note(note),
        );
    }
    Ok(figures)
}

/// How many of which, and of those that were refused, how.
pub fn kinds(events: &[&AuditEvent]) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for event in events {
        let who = event.user.rsplit(':').next().unwrap_or_default();
        let what = if event.subresource.is_empty() {
            event.resource.clone()
        } else {
            format!("{}/{}", event.resource, event.subresource)
        };
        let refused = if event.code < 400 {
            String::new()
        } else {
            format!(" (answered {})", event.code)
        };
        *counts
            .entry(format!("{who} {} {what}{refused}", event.verb))
            .or_default() += 1;
    }
    counts
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Events of nmstate.io that the API server has sent to watchers so far, by its own count (our
/// client has no watch).
pub async fn watch_events(client: &kube::Client) -> Result<f64> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let text = client
        .request_text(request)
        .await
        .context("the metrics of the API server")?;
    let lines = text.lines().filter(|line| {
        line.starts_with("apiserver_watch_events_total{") && line.contains("group=\"nmstate.io\"")
    });
    lines
        .map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?))
        .sum()
}

/// Watchers with the number of their watches.
pub fn watchers(weft: &Installation) -> Result<String> {
    let events = weft.lab().control_plane().audit_events()?;
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for event in events
        .iter()
        .filter(|event| event.verb == "watch" && event.group == "nmstate.io")
    {
        *counts
            .entry(event.user.rsplit(':').next().unwrap_or_default())
            .or_default() += 1;
    }
    Ok(counts
        .iter()
        .map(|(user, count)| format!("{user} {count}"))
        .collect::<Vec<_>>()
        .join(", "))
}
