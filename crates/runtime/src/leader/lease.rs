//! Leader election by a Lease, one a domain.
//!
//! As in client-go: a candidate trusts only its own clock. It watches how long the lease's record
//! has not changed, and takes it when that is longer than the record's own duration. Every write is
//! a PUT with the resourceVersion that was read, so of two candidates one wins. The holder opens
//! the [`Fence`] until the end of the lease as counted from *before* its renewal was sent.
//!
//! A leader renews a third of the duration after it sent the last renewal, and gives each request a
//! third of the duration. So a leader keeps the Lease while the API server takes less than that to
//! answer, even if a renewal meets a conflict, after which it reads and writes again. An attempt
//! that takes long is never thrown away half-done: a candidate that reads and then writes needs two
//! answers, each of which may come late.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::{Live, ObjectKey, kinds};

use crate::{
    api_server::{
        clock,
        cluster::{Cluster, Error},
        fence::Fence,
    },
    boot_clock::BootInstant,
    store::rewind::Rewind,
};

/// The longest duration of a lease, and how long a candidate waits at most for one that is idle. A
/// lease with a huge duration whose holder is gone would else stop the operator for ever.
pub const LONGEST: Duration = Duration::from_secs(5 * 60);

/// How a lease is held.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease, `weft-<domain>`.
    pub name: String,
    /// This candidate: an [`identity`] with the pod's name and, if it is known, its UID.
    pub identity: String,
    /// How the identities of all processes of this pod begin, if its UID is known. A container
    /// starts after its last process has ended, so a lease of such a process is free.
    pub pod: Option<String>,
    /// How long a lease lasts without renewal. It is renewed after a third of that.
    pub duration: Duration,
}

/// The Lease as last seen, with the time by our own clock.
struct Observed {
    record: Value,
    since: Instant,
}

/// The versions of the Lease that this candidate has seen. They show when the API server's data has
/// gone back in time.
#[derive(Default)]
struct History {
    /// The highest resourceVersion.
    version: u64,
    /// The lease as this candidate wrote it last.
    written: Option<Value>,
    /// True if the Lease was older than before, since the last question.
    rewound: bool,
}

impl History {
    /// Notes the lease as this candidate is about to write it. The clock may have been set back since
    /// the last renewal. The data has not gone back in time then, so that renewal proves nothing any
    /// more.
    fn sends(&mut self, lease: &Value) {
        let written = self.written.as_ref();
        if written.is_some_and(|written| is_earlier(lease, written)) {
            self.written = None;
        }
    }

    /// Notes the lease as this candidate has written it.
    fn wrote(&mut self, lease: &Value) {
        self.read(lease);
        self.written = Some(lease.clone());
    }

    /// Notes the lease as it is.
    fn read(&mut self, lease: &Value) {
        let version = Live::of(lease).resource_version();
        // Other writes may have brought the restored data to a higher version by now. Nobody else
        // renews a lease in the name of this candidate.
        let is_older = |written: &Value| {
            let same = Live::of(written).uid() == Live::of(lease).uid()
                && holder(written) == holder(lease);
            same && is_earlier(lease, written)
        };
        if version < self.version || self.written.as_ref().is_some_and(is_older) {
            (self.rewound, self.written) = (true, None);
        }
        self.version = version;
    }
}

/// Reports whether a lease was renewed before the other one, by the times that they hold.
fn is_earlier(lease: &Value, other: &Value) -> bool {
    let renewed = |lease: &Value| {
        lease["spec"]["renewTime"]
            .as_str()
            .and_then(|time| time.parse::<Timestamp>().ok())
    };
    renewed(lease)
        .zip(renewed(other))
        .is_some_and(|(one, other)| one < other)
}

/// Tries to become and stay the leader until `stop`, then gives the lease back. `leading` says
/// whether it is. Signals `rewind` when the lease is older than it was before.
pub async fn run(
    config: LeaseConfig,
    cluster: Cluster,
    fence: Fence,
    leading: watch::Sender<bool>,
    rewind: Rewind,
    stop: CancellationToken,
) {
    let mut history = History::default();
    let key = ObjectKey::new(kinds::LEASE, &config.namespace, &config.name);
    let mut observed: Option<Observed> = None;
    let renew = config.duration / 3;
    loop {
        let asked = Instant::now();
        let held = hold(
            &config,
            &key,
            &cluster,
            (&mut observed, &mut history),
            fence.is_open(),
        )
        .await;
        if std::mem::take(&mut history.rewound) {
            tracing::warn!(lease = %config.name, "the lease is older than before: the API server's data has gone back in time");
            rewind.signal();
        }
        // A candidate looks as often as the leader renews: it learns of a free lease soon, and
        // costs as little. While nothing is known the lease lasts until its end, and there is time
        // for a few more attempts.
        let brief = renew / 5;
        let pause = if held.is_ok() {
            renew.saturating_sub(asked.elapsed()).max(brief)
        } else {
            brief
        };
        match held {
            Ok(Some(sent)) => fence.open_until(sent + config.duration),
            Ok(None) => fence.close(),
            Err(error) => {
                tracing::warn!(lease = %config.name, %error, "the lease could not be read or renewed")
            }
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

/// Takes or renews the lease if that is ours to do. Returns when the write was sent by which we
/// hold it, or `None` if another one does.
async fn hold(
    config: &LeaseConfig,
    key: &ObjectKey,
    cluster: &Cluster,
    (observed, history): (&mut Option<Observed>, &mut History),
    leads: bool,
) -> Result<Option<BootInstant>, Error> {
    // The holder knows what it wrote: it renews without reading.
    match look(config, key, cluster, (&mut *observed, &mut *history), leads).await {
        // Another candidate was quicker, another client wrote something else on the Lease, or the
        // answer to our own last write was lost. A fresh read shows which.
        Err(e) if e.is_conflict() => {
            *observed = None;
            look(config, key, cluster, (observed, history), false).await
        }
        other => other,
    }
}

async fn look(
    config: &LeaseConfig,
    key: &ObjectKey,
    cluster: &Cluster,
    (observed, history): (&mut Option<Observed>, &mut History),
    knows: bool,
) -> Result<Option<BootInstant>, Error> {
    let live = match observed.as_ref().filter(|_| knows) {
        Some(seen) => Some(seen.record.clone()),
        None => in_time(config, cluster.get(key))
            .await?
            .inspect(|live| history.read(live)),
    };
    let (now, asked) = (Instant::now(), BootInstant::now());
    let written = match live {
        None => {
            let wanted = record(config, None);
            history.sends(&wanted);
            in_time(config, cluster.create(key, &wanted, &config.name)).await?
        }
        Some(live) => {
            if observed.as_ref().is_none_or(|seen| {
                Live::of(&seen.record).resource_version() != Live::of(&live).resource_version()
            }) {
                *observed = Some(Observed {
                    record: live.clone(),
                    since: now,
                });
            }
            let idle = observed
                .as_ref()
                .map(|seen| now.duration_since(seen.since))
                .unwrap_or_default();
            if !is_free(config, &live, idle) {
                return Ok(None);
            }
            let wanted = record(config, Some(&live));
            history.sends(&wanted);
            in_time(config, cluster.replace(key, &wanted, &config.name)).await?
        }
    };
    history.wrote(&written);
    *observed = Some(Observed {
        record: written,
        since: Instant::now(),
    });
    Ok(Some(asked))
}

/// Reports whether a candidate may take a lease, or renew it. The record has not changed for `idle`, by
/// the candidate's own clock.
fn is_free(config: &LeaseConfig, lease: &Value, idle: Duration) -> bool {
    let holder = holder(lease);
    let is_of_this_pod = config
        .pod
        .as_ref()
        .is_some_and(|pod| holder.starts_with(pod));
    holder.is_empty() || is_of_this_pod || holder == config.identity || idle > trusted(lease)
}

/// How long a candidate takes an idle lease for held: as long as the lease itself says, and not
/// longer than [`LONGEST`].
#[must_use]
pub fn trusted(lease: &Value) -> Duration {
    let seconds = lease["spec"]["leaseDurationSeconds"].as_u64();
    Duration::from_secs(seconds.unwrap_or_default()).min(LONGEST)
}

/// Returns the identity of a candidate, `REPLICA_RANDOM`. The random number makes a restarted process
/// another candidate.
#[must_use]
pub fn identity(replica: &str, random: u32) -> String {
    format!("{replica}_{random:08x}")
}

/// Reports whether an operator of Weft may have written a lease. Its holder is an [`identity`], and
/// its duration is at most [`LONGEST`].
#[must_use]
pub fn is_of_weft(lease: &Value) -> bool {
    let is_random =
        |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_identity = holder(lease)
        .rsplit_once('_')
        .is_some_and(|(replica, random)| !replica.is_empty() && is_random(random));
    let seconds = lease["spec"]["leaseDurationSeconds"].as_u64();
    is_identity && seconds.is_some_and(|seconds| seconds <= LONGEST.as_secs())
}

/// Gives a request the time that the lease leaves for it.
async fn in_time<T>(
    config: &LeaseConfig,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let limit = config.duration / 3;
    tokio::time::timeout(limit, request)
        .await
        .unwrap_or(Err(Error::Timeout(limit)))
}

/// The lease as we want it. (coordination.k8s.io/v1: times in microseconds.) No candidate compares its
/// times with a clock. Commands do, to show users the leader.
fn record(config: &LeaseConfig, live: Option<&Value>) -> Value {
    let now = format!("{:.6}", clock::now());
    let mut lease = live.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": config.namespace, "name": config.name}
        })
    });
    let before = holder(&lease).to_owned();
    let transitions = lease["spec"]["leaseTransitions"]
        .as_u64()
        .unwrap_or_default();
    let acquired = lease["spec"]["acquireTime"]
        .as_str()
        .filter(|_| before == config.identity)
        .map_or_else(|| now.clone(), str::to_owned);
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
async fn give_back(
    config: &LeaseConfig,
    key: &ObjectKey,
    cluster: &Cluster,
    observed: Option<Observed>,
) {
    let Some(Observed {
        record: mut lease, ..
    }) = observed
    else {
        return;
    };
    lease["spec"]["holderIdentity"] = "".into();
    lease["spec"]["leaseDurationSeconds"] = 1.into();
    if let Err(error) = cluster.replace(key, &lease, &config.name).await {
        tracing::debug!(%error, "the lease was not given back; it ends by itself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(version: u64, holder: &str, renewed: &str) -> Value {
        json!({
            "metadata": {"uid": "u", "resourceVersion": version.to_string()},
            "spec": {"holderIdentity": holder, "renewTime": renewed}
        })
    }

    #[test]
    fn a_candidate_trusts_no_huge_duration() {
        for (seconds, trusts) in [
            (json!(30), 30),
            (json!(300), 300),
            (json!(2_000_000_000), 300),
            (json!(-1), 0),
            (json!(null), 0),
        ] {
            let lease = json!({"spec": {"leaseDurationSeconds": seconds}});
            assert_eq!(trusted(&lease), Duration::from_secs(trusts), "{lease}");
        }
    }

    #[test]
    fn a_candidate_takes_the_lease_of_a_ghost_after_the_longest_duration() {
        let config = LeaseConfig {
            namespace: "n".into(),
            name: "weft-addons".into(),
            identity: "weft_000000ab".into(),
            pod: Some("weft-operator-1_uid_".into()),
            duration: Duration::from_secs(30),
        };
        let held_by = |holder: &str| json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 2_000_000_000}});
        let just_after = LONGEST + Duration::from_millis(1);
        assert!(!is_free(&config, &held_by("ghost"), LONGEST));
        assert!(is_free(&config, &held_by("ghost"), just_after));
        for mine in ["", "weft_000000ab", "weft-operator-1_uid_000000cd"] {
            assert!(is_free(&config, &held_by(mine), Duration::ZERO), "{mine}");
        }
    }

    #[test]
    fn a_lease_of_weft_has_an_identity_and_a_duration_of_its_operator() {
        let in_a_pod = identity("weft-operator-7d9c5b6f4-x2k8p_a-uid", 0xab);
        assert_eq!(in_a_pod, "weft-operator-7d9c5b6f4-x2k8p_a-uid_000000ab");
        let without_a_pod = identity("weft", u32::MAX);
        for (holder, seconds, expected) in [
            (&*in_a_pod, json!(30), true),
            (&*without_a_pod, json!(300), true),
            (&*without_a_pod, json!(301), false),
            (&*without_a_pod, json!(null), false),
            ("ghost", json!(30), false),
            ("ghost_", json!(30), false),
            ("_000000ab", json!(30), false),
            (
                "host_8d3c1f6e-5b1e-4a57-9d0e-2f1f6f1c7a11",
                json!(15),
                false,
            ),
        ] {
            let lease =
                json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}});
            assert_eq!(is_of_weft(&lease), expected, "{lease}");
        }
    }

    fn rewound(history: &mut History) -> bool {
        std::mem::take(&mut history.rewound)
    }

    #[test]
    fn a_lower_version_of_the_lease_is_a_step_back() {
        let mut history = History::default();
        history.read(&lease(50, "other", "2026-01-01T00:00:00.000000Z"));
        history.read(&lease(51, "other", "2026-01-01T00:00:10.000000Z"));
        assert!(!rewound(&mut history));
        history.read(&lease(40, "other", "2025-12-31T00:00:00.000000Z"));
        assert!(rewound(&mut history));
        history.wrote(&lease(41, "me", "2026-01-01T00:00:20.000000Z"));
        assert!(!rewound(&mut history), "from then on it grows again");
        history.wrote(&json!({"metadata": {"uid": "new", "resourceVersion": "9"}}));
        assert!(
            rewound(&mut history),
            "a lease that restored data did not have"
        );
    }

    #[test]
    fn a_clock_that_is_set_back_is_no_step_back_of_the_data() {
        let ahead = lease(50, "me", "2026-01-01T02:00:00.000000Z");
        let behind = lease(51, "me", "2026-01-01T00:00:10.000000Z");
        for answered in [true, false] {
            let mut history = History::default();
            history.wrote(&ahead);
            history.sends(&behind);
            if answered {
                history.wrote(&behind);
            } else {
                history.read(&behind);
            }
            assert!(!rewound(&mut history), "answered: {answered}");
        }
        // From then on a renewal counts again.
        let mut history = History::default();
        history.wrote(&ahead);
        history.sends(&behind);
        history.wrote(&behind);
        history.read(&lease(90, "me", "2026-01-01T00:00:00.000000Z"));
        assert!(rewound(&mut history));
    }

    #[test]
    fn an_earlier_renewal_of_ones_own_is_a_step_back() {
        let mut history = History::default();
        history.wrote(&lease(50, "me", "2026-01-01T00:00:20.000000Z"));
        history.read(&lease(60, "me", "2026-01-01T00:00:20.000000Z"));
        assert!(!rewound(&mut history), "somebody has put a label on it");
        history.read(&lease(61, "me", "2026-01-01T00:00:30.000000Z"));
        assert!(
            !rewound(&mut history),
            "the answer to the last renewal was lost"
        );
        history.read(&lease(90, "me", "2026-01-01T00:00:10.000000Z"));
        assert!(
            rewound(&mut history),
            "restored data that others have written to since"
        );
    }
}
