//! Leader election against a real API server, and what happens when that is away.

use std::time::{Duration, Instant};

use kube::{
    Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use weft_plan::{ObjectKey, kinds};
use weft_runtime::{
    api_server::{
        cluster::{Cluster, Error},
        fence::Fence,
    },
    leader::lease::{self, LeaseConfig},
    store::rewind::Rewind,
};
use weft_testenv::{
    ControlPlane,
    proxy::{Fault, Match, Proxy},
};

const PATIENCE: Duration = Duration::from_secs(60);

struct Candidate {
    cluster: Cluster,
    fence: Fence,
    leading: watch::Receiver<bool>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn key() -> ObjectKey {
    ObjectKey::new(kinds::LEASE, "default", "weft-test")
}

async fn candidate(proxy: &Proxy, identity: &str, seconds: u64) -> Candidate {
    candidate_of_pod(proxy, identity, None, seconds).await
}

async fn candidate_of_pod(
    proxy: &Proxy,
    identity: &str,
    pod: Option<&str>,
    seconds: u64,
) -> Candidate {
    let kubeconfig = Kubeconfig::read_from(proxy.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    let fence = Fence::default();
    let cluster = Cluster::new(
        ClientBuilder::try_from(config)
            .unwrap()
            .with_layer(&fence)
            .build(),
    );
    let (sender, leading) = watch::channel(false);
    let stop = CancellationToken::new();
    let config = LeaseConfig {
        namespace: "default".into(),
        name: "weft-test".into(),
        identity: identity.into(),
        pod: pod.map(str::to_owned),
        duration: Duration::from_secs(seconds),
    };
    let task = tokio::spawn(lease::run(
        config,
        cluster.clone(),
        fence.clone(),
        sender,
        Rewind::default(),
        stop.clone(),
    ));
    Candidate {
        cluster,
        fence,
        leading,
        stop,
        task,
    }
}

impl Candidate {
    async fn wait(&mut self, leads: bool) {
        tokio::time::timeout(PATIENCE, self.leading.wait_for(|now| *now == leads))
            .await
            .expect("in time")
            .unwrap();
    }

    /// A write like any of the operator's.
    async fn write(&self) -> Result<Value, Error> {
        let key = ObjectKey::new(kinds::CONFIG_MAP, "default", "written");
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "written", "namespace": "default"}
        });
        self.cluster.apply(&key, &body, "weft/test").await
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn record(direct: &Cluster) -> Value {
    direct
        .get(&key())
        .await
        .unwrap()
        .map(|lease| lease["spec"].clone())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_leader_stays_one_through_what_is_no_loss() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let (direct, proxy) = (
        Cluster::new(control_plane.client()),
        Proxy::start(&control_plane).await.unwrap(),
    );
    let mut leader = candidate(&proxy, "a", 6).await;
    leader.wait(true).await;
    leader.write().await.unwrap();
    leader.leading.mark_unchanged();
    let renewals = Match::any().resource("leases").verb("update");

    // Somebody writes on the lease: the next renewal meets another resourceVersion.
    direct
        .merge_patch(
            &key(),
            "",
            &json!({"metadata": {"annotations": {"seen": "by me"}}}),
            "somebody",
        )
        .await
        .unwrap();
    // The answer to a renewal is lost, so the one after it does too. One is refused, one fails.
    for fault in [
        Fault::CutAfter,
        Fault::CutBefore,
        Fault::status(409),
        Fault::status(500),
    ] {
        let fault = proxy.inject(renewals.clone().times(1), fault);
        fault.wait_hits(1, PATIENCE).await.unwrap();
        let before = record(&direct).await["renewTime"].clone();
        until("the lease is renewed", async || {
            record(&direct).await["renewTime"] != before
        })
        .await;
        assert!(leader.fence.is_open());
    }
    assert!(
        !leader.leading.has_changed().unwrap(),
        "it has led all the time"
    );
    assert_eq!(record(&direct).await["leaseTransitions"], 1);
    leader.stop().await;
    assert_eq!(record(&direct).await["holderIdentity"], "", "given back");
}

#[tokio::test]
async fn answers_that_take_a_sixth_of_the_lease_cost_nobody_the_lease() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let direct = Cluster::new(control_plane.client());
    for late in [
        Fault::Delay(Duration::from_secs(1)),
        Fault::DelayAnswer(Duration::from_secs(1)),
    ] {
        println!("{late:?}");
        let proxy = Proxy::start(&control_plane).await.unwrap();
        proxy.inject(Match::any(), late);
        let mut leader = candidate(&proxy, "a", 6).await;
        leader.wait(true).await;
        leader.leading.mark_unchanged();
        let mut other = candidate(&proxy, "b", 6).await;
        // A renewal that meets a conflict takes three answers.
        direct
            .merge_patch(
                &key(),
                "",
                &json!({"metadata": {"annotations": {"seen": "by me"}}}),
                "somebody",
            )
            .await
            .unwrap();
        let renewals = |requests: &[weft_testenv::proxy::Recorded], code: u16| {
            requests
                .iter()
                .filter(|one| one.info.verb == "update" && one.code == Some(code))
                .count()
        };
        proxy
            .wait_for(PATIENCE, |requests| {
                renewals(requests, 409) >= 1 && renewals(requests, 200) >= 4
            })
            .await
            .unwrap();
        assert!(
            !leader.leading.has_changed().unwrap(),
            "it has led all the time"
        );
        assert!(leader.fence.is_open() && !other.fence.is_open());
        assert_eq!(record(&direct).await["leaseTransitions"], 1);
        // Given back, the lease is the other's.
        leader.stop().await;
        other.wait(true).await;
        other.stop().await;
        direct
            .delete(
                &key(),
                direct.get(&key()).await.unwrap().unwrap()["metadata"]["uid"]
                    .as_str()
                    .unwrap(),
            )
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn no_write_passes_when_the_lease_has_ended_out_of_reach() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let (direct, proxy) = (
        Cluster::new(control_plane.client()),
        Proxy::start(&control_plane).await.unwrap(),
    );
    let mut leader = candidate(&proxy, "a", 6).await;
    leader.wait(true).await;
    let renewed = Instant::now();
    let away = proxy.inject(Match::any().resource("leases"), Fault::CutBefore);
    // It still leads: the lease lasts until its end. Only the lease is out of reach, so that a
    // write would pass if it were sent.
    leader.write().await.unwrap();
    leader.wait(false).await;
    assert!(
        renewed.elapsed() < Duration::from_secs(14),
        "not later than the lease"
    );
    proxy.clear();
    assert!(matches!(leader.write().await, Err(Error::Fenced)));
    assert!(
        proxy
            .writes()
            .iter()
            .all(|write| write.info.resource == "leases"),
        "it is not even sent"
    );
    assert!(leader.cluster.get(&key()).await.is_err(), "(away)");

    // Another one takes over, straight. The first one comes back and sees it.
    let other_proxy = Proxy::start(&control_plane).await.unwrap();
    let mut other = candidate(&other_proxy, "b", 6).await;
    other.wait(true).await;
    away.remove();
    proxy
        .wait_for(PATIENCE, |requests| {
            requests
                .iter()
                .filter(|one| one.info.resource == "leases" && one.delivered)
                .count()
                >= 3
        })
        .await
        .unwrap();
    assert!(!leader.fence.is_open() && !*leader.leading.borrow());
    assert!(matches!(leader.write().await, Err(Error::Fenced)));
    assert_eq!(record(&direct).await["holderIdentity"], "b");
    other.stop().await;
    leader.wait(true).await;
    leader.write().await.unwrap();
    leader.stop().await;
}

#[tokio::test]
async fn a_process_takes_over_from_a_dead_one_of_its_pod_at_once() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let (direct, proxy) = (
        Cluster::new(control_plane.client()),
        Proxy::start(&control_plane).await.unwrap(),
    );
    // A lease of an hour: nobody waits for its end.
    let dead = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {
        "name": "weft-test", "namespace": "default"
    },
        "spec": {
            "holderIdentity": "a_uid-1_0", "leaseDurationSeconds": 3600,
            "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 7
        }});
    direct.apply(&key(), &dead, "somebody").await.unwrap();
    let other = candidate_of_pod(&proxy, "b_uid-2_1", Some("b_uid-2_"), 6).await;
    let mut next = candidate_of_pod(&proxy, "a_uid-1_1", Some("a_uid-1_"), 6).await;
    next.wait(true).await;
    assert_eq!(
        (
            record(&direct).await["holderIdentity"].clone(),
            record(&direct).await["leaseTransitions"].clone()
        ),
        (json!("a_uid-1_1"), json!(8))
    );
    assert!(!*other.leading.borrow());
    other.stop().await;
    next.stop().await;
}

#[tokio::test]
async fn of_two_that_see_a_lease_end_one_wins() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let (direct, proxy) = (
        Cluster::new(control_plane.client()),
        Proxy::start(&control_plane).await.unwrap(),
    );
    for round in 1..=5 {
        // Held by somebody who is dead.
        let dead = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {
            "name": "weft-test", "namespace": "default"
        },
            "spec": {
                "holderIdentity": "dead", "leaseDurationSeconds": 1,
                "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 7
            }});
        direct.apply(&key(), &dead, "somebody").await.unwrap();
        // Both have seen it end and are about to take it.
        let both = proxy.inject(Match::any().resource("leases").verb("update"), Fault::Hold);
        let (mut a, mut b) = (
            candidate(&proxy, "a", 6).await,
            candidate(&proxy, "b", 6).await,
        );
        both.wait_hits(2, PATIENCE).await.unwrap();
        both.remove();
        tokio::select! { () = a.wait(true) => {} () = b.wait(true) => {} }
        // Both updates are answered, one by a conflict, after which the loser looks again.
        let looked = |requests: &[weft_testenv::proxy::Recorded]| {
            let conflict = requests
                .iter()
                .position(|one| one.info.verb == "update" && one.code == Some(409));
            conflict.is_some_and(|at| {
                requests[at..]
                    .iter()
                    .any(|one| one.info.verb == "get" && one.delivered)
            })
        };
        proxy.wait_for(PATIENCE, looked).await.unwrap();
        let leaders = [("a", &a), ("b", &b)].map(|(name, one)| one.fence.is_open().then_some(name));
        let lease = record(&direct).await;
        assert_eq!(
            leaders.iter().flatten().collect::<Vec<_>>(),
            [&lease["holderIdentity"].as_str().unwrap()],
            "round {round}"
        );
        assert_eq!(lease["leaseTransitions"], 8);
        // The loser first, else it would take what the winner gives back.
        let (winner, loser) = if a.fence.is_open() { (a, b) } else { (b, a) };
        loser.stop().await;
        winner.stop().await;
        direct
            .delete(
                &key(),
                direct.get(&key()).await.unwrap().unwrap()["metadata"]["uid"]
                    .as_str()
                    .unwrap(),
            )
            .await
            .unwrap();
        proxy.clear();
    }
}
