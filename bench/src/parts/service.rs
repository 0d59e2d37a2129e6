//! A PlacementAPI is created, and the Secrets that it names are there: until its last object is
//! applied, until it is Ready, and with how many requests. The benchmark reports time spent on
//! waiting for others separately, above all for the Job that prepares the database.

use anyhow::{Context, Result};
use jiff::Timestamp;
use weft_testenv::AuditEvent;

use crate::{
    audit,
    figure::{Figure, Unit, median_and_max},
    lab::{Lab, Setup},
};

const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// Seconds, and requests.
struct Run {
    applied: f64,
    /// Of those, the ones in which its Job ran.
    waited: f64,
    ready: f64,
    writes: usize,
    statuses: usize,
    reads: usize,
}

pub async fn measure(setup: &Setup, rounds: u32) -> Result<Vec<Figure>> {
    let mut runs = Vec::new();
    for _ in 0..rounds {
        runs.push(run(setup).await?);
    }
    let median =
        |value: fn(&Run) -> f64| median_and_max(&runs.iter().map(value).collect::<Vec<_>>());
    #[allow(clippy::cast_precision_loss)] // a few
    let count = |value: fn(&Run) -> usize| runs.iter().map(value).max().unwrap_or_default() as f64;
    let (own, slowest) = median(|run| run.applied - run.waited);
    let own_words = format!(
        "median of {rounds}, at most {:.0} ms; the original looks again every 5 to 10 s",
        slowest * 1000.0
    );
    Ok(vec![
        Figure::new(
            "service: to the last object, without the time of its Job",
            Unit::Seconds,
            own,
        )
        .at_most(1.0)
        .note(own_words),
        Figure::new(
            "service: to the last object",
            Unit::Seconds,
            median(|run| run.applied).0,
        ),
        Figure::new(
            "service: to Ready",
            Unit::Seconds,
            median(|run| run.ready).0,
        ),
        Figure::new(
            "service: requests to Ready",
            Unit::Count,
            count(|run| run.writes + run.statuses + run.reads),
        )
        .note(format!(
            "writes of objects {}, of status {}, watches and other reads {}",
            count(|run| run.writes),
            count(|run| run.statuses),
            count(|run| run.reads)
        )),
    ])
}

async fn run(setup: &Setup) -> Result<Run> {
    let (lab, operator) = Lab::with_operator(setup).await?;
    lab.wait_quiet().await?;
    lab.rest.warm().await?;
    let since = Timestamp::now();
    lab.create_config().await?;
    lab.wait_available().await?;
    lab.wait_quiet().await?;
    drop(operator);
    let all = lab.control_plane.audit_events()?;
    let all: Vec<AuditEvent> = all
        .into_iter()
        .filter(|event| event.received >= since)
        .collect();
    let own: Vec<&AuditEvent> = all
        .iter()
        .filter(|event| event.user == setup.domain.user() && !audit::is_lease(event))
        .collect();
    let is_status = |event: &&&AuditEvent| {
        event.resource == setup.domain.resource && event.subresource == "status"
    };
    let created = all
        .iter()
        .filter(|event| event.verb == "create" && event.resource == setup.domain.resource);
    let start = audit::first_received(created)?;
    let objects: Vec<&AuditEvent> = own
        .iter()
        .copied()
        .filter(|event| event.verb == "patch" && event.code == 201)
        .collect();
    let of = |resource: &str| {
        objects
            .iter()
            .find(|event| event.resource == resource)
            .copied()
            .with_context(|| format!("no {resource}"))
    };
    let (job, deployment) = (of("jobs")?, of("deployments")?);
    let is_its_end = |event: &&AuditEvent| {
        event.user == CONTROLLER_MANAGER
            && event.resource == "jobs"
            && event.is_write()
            && event.answered <= deployment.received
    };
    let ended =
        audit::last_answered(all.iter().filter(is_its_end)).context("the end of the Job")?;
    Ok(Run {
        applied: audit::seconds(start, audit::last_answered(objects.iter().copied())?),
        waited: audit::seconds(job.answered, ended),
        ready: audit::seconds(
            start,
            audit::last_answered(own.iter().filter(is_status).copied())?,
        ),
        writes: own
            .iter()
            .filter(|event| event.is_write() && !is_status(event))
            .count(),
        statuses: own.iter().filter(is_status).count(),
        reads: own.iter().filter(|event| !event.is_write()).count(),
    })
}
