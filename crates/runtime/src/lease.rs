//! Leader election by a Lease, one a domain.
//!
//! As in client-go: a candidate trusts only its own clock. It watches how long the lease's record has not changed, and takes it
//! when that is longer than the record's own duration. Every write is a PUT with the resourceVersion that was read, so of two
//! candidates one wins. The holder opens the [`Fence`] until the end of the lease as counted from *before* its renewal was sent.
//!
//! A leader renews a third of the duration after it sent the last renewal, and gives each request a third of the duration. So a leader
//! keeps the lease while the API server takes less than that to answer, even if a renewal meets a conflict, after which it reads and
//! writes again. What has taken long is never thrown away half-done: a candidate that reads and then writes needs two answers, each of
//! which may come late.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::{ObjectKey, kinds};

use crate::{
    cluster::{Cluster, Error},
    fence::Fence,
};

/// How a lease is held.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease, `weft-<domain>`.
    pub name: String,
    /// This candidate: the pod's name, and something random so that a restarted pod is another candidate.
    pub identity: String,
    /// How long a lease lasts without renewal. It is renewed after a third of that.
    pub duration: Duration,
}

/// What was last seen of the lease, and when by our own clock.
struct Observed {
    record: Value,
    since: Instant,
}

/// Tries to become and stay the leader until `stop`, then gives the lease back. `leading` says whether it is.
pub async fn run(config: LeaseConfig, cluster: Cluster, fence: Fence, leading: watch::Sender<bool>, stop: CancellationToken) {
    let key = ObjectKey::new(kinds::LEASE, &config.namespace, &config.name);
    let mut observed: Option<Observed> = None;
    let renew = config.duration / 3;
    loop {
        let asked = Instant::now();
        let held = hold(&config, &key, &cluster, &mut observed, fence.is_open()).await;
        // A candidate looks as often as the leader renews: it learns of a free lease soon, and costs as little. While nothing is known
        // the lease lasts until its end, and there is time for a few more attempts.
        let brief = renew / 5;
        let pause = if held.is_ok() { renew.saturating_sub(asked.elapsed()).max(brief) } else { brief };
        match held {
            Ok(Some(sent)) => fence.open_until(sent + config.duration),
            Ok(None) => fence.close(),
            Err(error) => tracing::warn!(lease = %config.name, %error, "the lease could not be read or renewed"),
        }
        let leads = fence.is_open();
        leading.send_if_modified(|was| {
            let changed = *was != leads;
            if changed {
                tracing::info!(lease = %config.name, identity = %config.identity, "{}", if leads { "leading" } else { "not leading" });
            }
            *was = leads;
            changed
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => break,
        }
    }
    if fence.is_open() {
        give_back(&config, &key, &cluster, observed).await;
    }
    fence.close();
    leading.send_replace(false);
}

/// Takes or renews the lease if that is ours to do. Returns when the write was sent by which we hold it, or `None` if another one does.
async fn hold(
    config: &LeaseConfig,
    key: &ObjectKey,
    cluster: &Cluster,
    observed: &mut Option<Observed>,
    leads: bool,
) -> Result<Option<Instant>, Error> {
    // The holder knows what it wrote: it renews without reading.
    match look(config, key, cluster, observed, leads).await {
        // Somebody was quicker; or somebody wrote something else on it, or the answer to our own last write was lost. A fresh read
        // tells.
        Err(e) if e.is_conflict() => {
            *observed = None;
            look(config, key, cluster, observed, false).await
        }
        other => other,
    }
}

async fn look(
    config: &LeaseConfig,
    key: &ObjectKey,
    cluster: &Cluster,
    observed: &mut Option<Observed>,
    knows: bool,
) -> Result<Option<Instant>, Error> {
    let live = match observed.as_ref().filter(|_| knows) {
        Some(seen) => Some(seen.record.clone()),
        None => in_time(config, cluster.get(key)).await?,
    };
    let now = Instant::now();
    let written = match live {
        None => in_time(config, cluster.create(key, &record(config, None), &config.name)).await?,
        Some(live) => {
            if observed.as_ref().is_none_or(|seen| seen.record["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]) {
                *observed = Some(Observed { record: live.clone(), since: now });
            }
            let seconds = live["spec"]["leaseDurationSeconds"].as_u64().unwrap_or_default();
            let idle = observed.as_ref().map(|seen| now.duration_since(seen.since)).unwrap_or_default();
            let free = holder(&live).is_empty() || holder(&live) == config.identity || idle > Duration::from_secs(seconds);
            if !free {
                return Ok(None);
            }
            in_time(config, cluster.replace(key, &record(config, Some(&live)), &config.name)).await?
        }
    };
    *observed = Some(Observed { record: written, since: Instant::now() });
    Ok(Some(now))
}

/// Gives a request the time that the lease leaves for it.
async fn in_time<T>(config: &LeaseConfig, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit = config.duration / 3;
    tokio::time::timeout(limit, request).await.unwrap_or(Err(Error::Timeout(limit)))
}

/// The lease as we want it. (coordination.k8s.io/v1: times in microseconds.)
fn record(config: &LeaseConfig, live: Option<&Value>) -> Value {
    let now = format!("{:.6}", Timestamp::now());
    let mut lease = live.cloned().unwrap_or_else(|| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": config.namespace, "name": config.name}}));
    let before = holder(&lease).to_owned();
    let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or_default();
    let acquired = lease["spec"]["acquireTime"].as_str().filter(|_| before == config.identity).map_or_else(|| now.clone(), str::to_owned);
    lease["spec"] = json!({
        "holderIdentity": config.identity,
        "leaseDurationSeconds": config.duration.as_secs().max(1),
        "acquireTime": acquired,
        "renewTime": now,
        "leaseTransitions": if before == config.identity { transitions } else { transitions + 1 },
    });
    lease
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// Frees the lease, so that the next leader need not wait for its end.
async fn give_back(config: &LeaseConfig, key: &ObjectKey, cluster: &Cluster, observed: Option<Observed>) {
    let Some(Observed { record: mut lease, .. }) = observed else { return };
    lease["spec"]["holderIdentity"] = "".into();
    lease["spec"]["leaseDurationSeconds"] = 1.into();
    if let Err(error) = cluster.replace(key, &lease, &config.name).await {
        tracing::debug!(%error, "the lease was not given back; it ends by itself");
    }
}
