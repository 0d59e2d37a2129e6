//! Two operators at once: one works, and whoever is not the leader any more writes nothing.

use rustix::process::Signal;
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Match, Proxy, Recorded};

use weft_system_tests::*;

/// An operator with its own proxy: so it is known who sent what, though both are the same
/// ServiceAccount.
struct Replica {
    proxy: Proxy,
    operator: Operator,
}

async fn replica(cluster: &Cluster, pod_name: &'static str) -> Replica {
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start(
        cluster,
        OperatorOptions {
            proxy: Some(&proxy),
            pod_name,
            // Many tests at once may keep a leader from a shorter Lease for a while.
            lease_seconds: 10,
            ..Default::default()
        },
    )
    .await;
    Replica { proxy, operator }
}

#[tokio::test]
async fn one_of_two_leads_and_the_other_takes_over() {
    let cluster = Cluster::start_default().await;
    let first = replica(&cluster, "first").await;
    first.operator.wait_leading().await;
    let second = replica(&cluster, "second").await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let before = cluster.snapshot().await;
    assert_eq!(
        works(&second.proxy.requests()),
        Vec::<String>::new(),
        "the one that does not lead writes nothing at all"
    );
    wait_until("but it is ready to take over", async || {
        match second.operator.http("/readyz").await {
            (200, ..) => Ok(()),
            (code, _, body) => Err(format!("{code} {body}")),
        }
    })
    .await;
    assert_eq!(
        (
            first.operator.metric("weft_leading").await,
            second.operator.metric("weft_leading").await
        ),
        (1.0, 0.0)
    );

    // Killed: the lease ends by itself.
    first.operator.kill();
    second.operator.wait_leading().await;
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    wait_until("the new leader repairs", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "multus")
            .await
            .map(drop)
            .ok_or("it is gone".to_owned())
    })
    .await;
    cluster
        .wait_same(&before, "after another replica took over")
        .await;
    assert!(holder(&cluster).await.starts_with("second_"));

    // At a signal to stop, the replica hands the lease over at once.
    let third = replica(&cluster, "third").await;
    assert!(second.operator.terminate().await.success());
    third.operator.wait_leading().await;
    cluster.patch_resource(json!({"spec": {"ovs": null}})).await;
    cluster.wait_available().await;
    assert!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
            .await
            .is_none()
    );
}

#[tokio::test]
async fn a_leader_that_was_stopped_past_its_lease_writes_nothing_when_it_wakes() {
    let cluster = Cluster::start_default().await;
    let stopped = replica(&cluster, "stopped").await;
    stopped.operator.wait_leading().await;
    let other = replica(&cluster, "other").await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;

    stopped.operator.signal(Signal::STOP);
    other.operator.wait_leading().await;
    // Drift that the stopped replica would repair if it believed that it still leads: its watches
    // report it when it wakes.
    cluster
        .patch_resource(json!({"spec": {"ovs": null, "imagePullPolicy": "IfNotPresent"}}))
        .await;
    cluster.wait_available().await;
    // And drift that the other one may not repair before the stopped one has seen it.
    other.operator.signal(Signal::STOP);
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    cluster.patch_resource(json!({"spec": {"ovs": {}}})).await;
    stopped.proxy.clear();
    stopped.operator.signal(Signal::CONT);
    // It has seen the changes once it knows that it does not lead: both come to it in one go.
    wait_until("it has noticed", async || {
        match stopped.operator.metric("weft_leading").await {
            0.0 => Ok(()),
            _ => Err("it still believes that it leads".to_owned()),
        }
    })
    .await;
    let before_it_leads: Vec<_> = stopped.proxy.requests();
    assert_eq!(
        works(&before_it_leads),
        Vec::<String>::new(),
        "written without the lease"
    );

    // Now the other one is stopped past its lease, and the first leads again, rightly.
    wait_until("it leads again", async || {
        match stopped.operator.metric("weft_leading").await {
            1.0 => Ok(()),
            _ => Err("it does not".to_owned()),
        }
    })
    .await;
    cluster.wait_available().await;
    let before = cluster.snapshot().await;
    assert!(
        before
            .objects
            .contains_key("DaemonSet cluster-network-addons/multus")
    );
    other.proxy.clear();
    other.operator.signal(Signal::CONT);
    wait_until("the other one has noticed", async || {
        match other.operator.metric("weft_leading").await {
            0.0 => Ok(()),
            _ => Err("it still believes that it leads".to_owned()),
        }
    })
    .await;
    assert_eq!(
        works(&other.proxy.requests()),
        Vec::<String>::new(),
        "written without the lease"
    );
    assert_same(&before, &cluster.snapshot().await, "with both awake");
}

/// Returns the writes, except for the lease.
fn works(requests: &[Recorded]) -> Vec<String> {
    let works = requests.iter().filter(|request| {
        Match::any().all_writes().selects(&request.info) && request.info.resource != "leases"
    });
    works
        .map(|request| format!("{} {}", request.info.verb, request.info.path))
        .collect()
}

async fn holder(cluster: &Cluster) -> String {
    let lease: Value = cluster
        .get(kinds::LEASE, NAMESPACE, "weft-addons")
        .await
        .unwrap();
    lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
