//! Pods that do not start. The kubelet reports in events alone why a volume or the network of a pod is
//! not there, and the operator watches no events: those of others would fill the memory. The operator lists
//! the events about one pod of a workload while that pod is starting, after growing pauses.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use weft_plan::{
    Kind,
    rollout::{self, PodView, Trouble},
};

use crate::{api_server::cluster::Cluster, backoff::Backoff};

/// Events, by the API that Kubernetes' ClusterRole `view` lets users read. Its field selectors know
/// the object that an event is about.
pub const CORE_EVENT: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Event",
    plural: "events",
    namespaced: true,
};

/// How long a pod may take to start before the operator lists its events.
const USUAL: SignedDuration = SignedDuration::from_secs(10);
/// The first and the longest pause before the operator lists the events of the same pod again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// The longest time that a reconcile waits for events, since they only explain.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the query for the events about a pod. Those that are no warnings show whether a failure is
/// over.
pub(crate) fn about(pod: &PodView) -> String {
    format!("fieldSelector=involvedObject.uid%3D{}", pod.uid)
}

/// The pods of a resource that do not start, by uid.
#[derive(Default)]
pub struct Starts(Mutex<HashMap<String, Asked>>);

/// A pod whose events were listed.
struct Asked {
    /// The cause by its events, if they have one.
    trouble: Option<Trouble>,
    backoff: Backoff,
    /// When its events are listed again.
    next: Timestamp,
}

impl Starts {
    /// Forgets the pods that have started or are gone. `pods` are all pods.
    pub fn retain<'a>(&self, pods: impl Iterator<Item = &'a PodView>) {
        let mut asked = self.lock();
        if asked.is_empty() {
            return;
        }
        let starting: HashSet<&str> = pods
            .filter(|pod| pod.is_starting)
            .map(|pod| pod.uid.as_str())
            .collect();
        asked.retain(|uid, _| starting.contains(uid.as_str()));
    }

    /// Lists the events about those of these pods that are due. Returns when the next one is due.
    pub async fn look(
        &self,
        cluster: &Cluster,
        pods: &[PodView],
        now: Timestamp,
    ) -> Option<Timestamp> {
        let due = pods.iter().filter(|pod| self.is_due(pod, now));
        let listed = join_all(due.map(|pod| async move { (pod, list(cluster, pod).await) })).await;
        for (pod, events) in listed {
            self.listed(pod, events.as_deref(), now);
        }
        pods.iter().filter_map(|pod| self.due(pod)).min()
    }

    /// Returns the cause why a pod does not start, by the events that were listed.
    pub fn cause(&self, pod: &PodView) -> Option<Trouble> {
        if !pod.is_starting {
            return None;
        }
        self.lock().get(&pod.uid)?.trouble.clone()
    }

    /// Returns those of these pods whose events have a cause, with it as their trouble.
    pub fn explained<'a>(&self, pods: impl Iterator<Item = &'a PodView>) -> Vec<PodView> {
        if self.lock().is_empty() {
            return Vec::new();
        }
        pods.filter_map(|pod| Some(pod.with_trouble(self.cause(pod)?)))
            .collect()
    }

    /// When the events of a pod are listed. `None` if it is not known since when it is starting.
    fn due(&self, pod: &PodView) -> Option<Timestamp> {
        match self.lock().get(&pod.uid) {
            Some(asked) => Some(asked.next),
            None => pod.since.map(|since| later(since, USUAL)),
        }
    }

    /// Reports whether [`look`](Self::look) lists the events of a pod now.
    pub fn is_due(&self, pod: &PodView, now: Timestamp) -> bool {
        self.due(pod).is_none_or(|due| due <= now)
    }

    /// Notes the events of a pod. `None` if they could not be listed: what is known remains.
    fn listed(&self, pod: &PodView, events: Option<&[Value]>, now: Timestamp) {
        let mut asked = self.lock();
        let asked = asked.entry(pod.uid.clone()).or_insert_with(|| Asked {
            trouble: None,
            backoff: Backoff::new(PAUSES.0, PAUSES.1),
            next: now,
        });
        if let Some(events) = events {
            asked.trouble = rollout::held_up(events);
        }
        let pause = SignedDuration::try_from(asked.backoff.next_pause());
        asked.next = later(now, pause.unwrap_or(SignedDuration::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns the events about a pod. `None` if the operator may not list them, or the API server
/// does not answer soon.
async fn list(cluster: &Cluster, pod: &PodView) -> Option<Vec<Value>> {
    let query = about(pod);
    let listed = cluster.list(CORE_EVENT, Some(&pod.namespace), &query);
    match tokio::time::timeout(PATIENCE, listed).await {
        Ok(Ok(events)) => Some(events),
        Ok(Err(error)) => {
            tracing::warn!(pod = %pod.name, %error, "failed to list events of a pod");
            None
        }
        Err(_) => {
            tracing::warn!(pod = %pod.name, "no answer about events of a pod");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::slice::from_ref;

    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn pod(reason: &str) -> PodView {
        PodView::of(&json!({
            "metadata": {
                "uid": "u", "namespace": "n", "name": "p",
                "creationTimestamp": "2026-01-01T00:00:00Z"
            },
            "status": {
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]
            }
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_due_after_ten_seconds_and_then_after_growing_pauses() {
        let (starts, pod) = (Starts::default(), pod("ContainerCreating"));
        assert!(!starts.is_due(&pod, at("2026-01-01T00:00:09Z")));
        let mut now = at("2026-01-01T00:00:10Z");
        assert!(starts.is_due(&pod, now));
        let mut pauses = Vec::new();
        for _ in 0..10 {
            // It is the same where the operator may not list them.
            starts.listed(&pod, None, now);
            assert!(!starts.is_due(&pod, now));
            let next = starts.due(&pod).unwrap();
            pauses.push(next.duration_since(now).as_secs_f64());
            now = next;
        }
        assert!((5.0..=10.0).contains(&pauses[0]), "{pauses:?}");
        assert!((150.0..=300.0).contains(&pauses[9]), "{pauses:?}");
    }

    #[test]
    fn a_cause_remains_until_events_lack_it_or_the_pod_starts() {
        let (starts, stuck) = (Starts::default(), pod("ContainerCreating"));
        let now = at("2026-01-01T00:00:10Z");
        let causes = |pod: &PodView| {
            let pods = starts.explained(std::iter::once(pod));
            pods.into_iter()
                .filter_map(|pod| Some(pod.trouble?.reason))
                .collect::<Vec<_>>()
        };
        let event = json!({"reason": "FailedMount", "message": "no such secret"});
        starts.listed(&stuck, Some(from_ref(&event)), now);
        assert_eq!(causes(&stuck), ["FailedMount"]);
        starts.listed(&stuck, None, now);
        assert_eq!(causes(&stuck), ["FailedMount"]);
        let started = pod("ImagePullBackOff");
        assert!(causes(&started).is_empty());
        starts.listed(&stuck, Some(&[]), now);
        assert!(causes(&stuck).is_empty());

        starts.listed(&stuck, Some(from_ref(&event)), now);
        starts.retain([&stuck].into_iter());
        assert_eq!(causes(&stuck), ["FailedMount"]);
        starts.retain([&started].into_iter());
        assert!(starts.lock().is_empty());
    }
}
