//! Counts the requests of a leader and of a second replica that waits, while nothing changes. Only
//! the second replica's requests go through a proxy, so the audit IDs that the proxy records show
//! which replica sent a request.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use weft_testenv::{AuditEvent, proxy::Proxy};

use crate::{
    audit,
    figure::{Figure, Unit},
    lab::{Lab, Setup},
};

/// A watch that ends by its own timeout may be opened again once in this many seconds.
const REWATCH: u32 = 240;

pub async fn measure(setup: &Setup, seconds: u32) -> Result<Vec<Figure>> {
    let (lab, leader) = Lab::available(setup).await?;
    let proxy = Proxy::start(&lab.control_plane).await?;
    let waiting = lab.operator("weft-2", Some(&proxy)).await?;
    lab.wait_quiet().await?;
    let since = Timestamp::now();
    let before = cpu_seconds(leader.pid())?;
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let cpu = cpu_seconds(leader.pid())? - before;
    let proxied: Vec<_> = proxy
        .requests()
        .into_iter()
        .map(|request| request.audit_id)
        .collect();
    let (second, first): (Vec<_>, Vec<_>) = lab
        .requests_of_operator(since)?
        .into_iter()
        .partition(|event| proxied.contains(&event.id));
    let mut figures = of_replica("the leader", &first, seconds);
    figures.extend(of_replica("a second replica", &second, seconds));
    figures.push(
        Figure::new(
            "idle: processor time a minute, the leader",
            Unit::Seconds,
            cpu * 60.0 / f64::from(seconds),
        )
        .cnao("0.15 to 0.17 s"),
    );
    drop((waiting, leader));
    Ok(figures)
}

fn of_replica(who: &str, requests: &[AuditEvent], seconds: u32) -> Vec<Figure> {
    let (leases, rest): (Vec<_>, Vec<_>) =
        requests.iter().partition(|event| audit::is_lease(event));
    let (writes, reads): (Vec<_>, Vec<_>) = leases.into_iter().partition(|event| event.is_write());
    let minutes = f64::from(seconds) / 60.0;
    let (watches, other): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|event| event.verb == "watch");
    // A watch that is opened too often costs as much as any other request, so it counts as one.
    let mut opened: BTreeMap<&str, u32> = BTreeMap::new();
    for watch in &watches {
        *opened.entry(audit::path(watch)).or_default() += 1;
    }
    let allowed = 1 + seconds / REWATCH;
    let too_often = opened
        .values()
        .map(|times| times.saturating_sub(allowed))
        .sum::<u32>();
    let seen: Vec<_> = other
        .iter()
        .map(|event| format!("{} {}", event.verb, event.uri))
        .take(5)
        .collect();
    vec![
        Figure::new(
            format!("idle: lease requests a minute, {who}"),
            Unit::Count,
            count(writes.len() + reads.len()) / minutes,
        )
        .at_most(6.0)
        .note(format!(
            "{} writes, {} reads in {seconds} s",
            writes.len(),
            reads.len()
        )),
        Figure::new(
            format!("idle: all other requests, {who}"),
            Unit::Count,
            count(other.len()) + f64::from(too_often),
        )
        .at_most(0.0)
        .cnao("168 a minute, 71 of them writes")
        .note(if seen.is_empty() {
            format!("{} watches opened again", watches.len())
        } else {
            seen.join(", ")
        }),
    ]
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// User and system time of a process so far (`proc_pid_stat(5)`: fields 14 and 15, in ticks of
/// 1/100 s).
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses, and may hold spaces.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    Ok(fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0)
}
