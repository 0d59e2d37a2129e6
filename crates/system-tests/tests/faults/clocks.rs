//! Clocks that differ by two hours, and jump by hours while a program runs: of two operators, and of
//! an operator and the API server. `on_hosts/agent/transactions.rs` has the same for the agent of a
//! node.

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::Value;
use weft_plan::kinds;
use weft_testenv::{
    WrongClock,
    proxy::{Match, Proxy, Recorded},
};

use crate::{
    faults::{
        all_domains::{self, all_are_well, delete_daemon_set, is_back, populate, wait_ready, work},
        harness::*,
        scenario::{FULL, resource, wait_same},
    },
    system::certificates::{Found, SERVER},
};

const TWO_HOURS: i64 = 2 * 3600;
/// How many renewals of a Lease count as idle.
const IDLE: usize = 3;

/// An operator by this clock.
async fn start(cluster: &Cluster, proxy: &Proxy, clock: &WrongClock, name: &str) -> Operator {
    let variables = clock.variables();
    let environment: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let options = OperatorOptions {
        proxy: Some(proxy),
        pod_name: name,
        // A busy API server must not cost it.
        lease_seconds: 9,
        environment: &environment,
        ..Default::default()
    };
    Operator::start(cluster, options).await
}

fn clock(cluster: &Cluster, name: &str, seconds: i64) -> WrongClock {
    WrongClock::ahead(cluster.control_plane.dir(), name, seconds).unwrap()
}

/// The operator's last line is by a clock that is ahead by so much: the test works.
fn assert_clock(operator: &Operator, seconds: i64) {
    let log = operator.log();
    let mut times = log
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse::<Timestamp>().ok());
    let last = times.next_back().expect("a line with its time");
    let ahead = last.duration_since(Timestamp::now()).as_secs();
    // The last line may be a minute old.
    assert!((ahead - seconds).abs() < 600, "{ahead} s ahead: {log}");
}

/// Reports whether a time in an object is by the right clock.
fn is_right(time: &Value) -> bool {
    let time: Timestamp = time.as_str().unwrap().parse().unwrap();
    time.duration_since(Timestamp::now()).abs() < SignedDuration::from_mins(10)
}

/// Renewals of Leases that this proxy has seen to succeed.
fn renewals(requests: &[Recorded]) -> usize {
    let renewals = Match::any().resource("leases").verb("update");
    requests
        .iter()
        .filter(|one| renewals.selects(&one.info) && one.code == Some(200))
        .count()
}

/// Waits until the Lease was renewed several times from now on.
async fn renewed(proxy: &Proxy) {
    proxy.clear();
    proxy
        .wait_for(PATIENCE, |requests| renewals(requests) >= 4)
        .await
        .unwrap();
}

/// A Lease of 9 s ends for each candidate by the time that it has watched the Lease itself. By the
/// times in the Lease, each would wait for hours, or take it at once.
#[tokio::test]
async fn replicas_whose_clocks_differ_by_hours_lead_one_after_the_other() {
    let cluster = Cluster::start_default().await;
    let mut proxies = Vec::new();
    for _ in 0..3 {
        proxies.push(Proxy::start(&cluster.control_plane).await.unwrap());
    }
    let (ahead, right, behind) = (
        clock(&cluster, "ahead", TWO_HOURS),
        clock(&cluster, "right", 0),
        clock(&cluster, "behind", -TWO_HOURS),
    );
    let first = start(&cluster, &proxies[0], &ahead, "ahead").await;
    first.wait_leading().await;
    assert_clock(&first, TWO_HOURS);
    let second = start(&cluster, &proxies[1], &right, "right").await;
    let third = start(&cluster, &proxies[2], &behind, "behind").await;
    cluster.install(&resource(&FULL)).await;
    for standby in [&second, &third] {
        wait_ready(standby).await;
    }
    assert_clock(&third, -TWO_HOURS);
    renewed(&proxies[0]).await;
    for (proxy, standby) in proxies[1..].iter().zip([&second, &third]) {
        let written: Vec<_> = proxy
            .writes()
            .into_iter()
            .map(|one| one.info.path)
            .collect();
        assert!(written.is_empty(), "a standby writes: {written:#?}");
        assert!(!standby.log().contains(" leading "), "{}", standby.log());
    }
    let lease = cluster
        .get(kinds::LEASE, NAMESPACE, "weft-addons")
        .await
        .unwrap();
    assert!(is_right(&lease["spec"]["renewTime"]), "{lease:#}");
    let found = Found::in_(&cluster).await;
    found.connect(SERVER).await.unwrap();

    // The leader stands still. One of the others leads in time, and not in two hours.
    first.signal(Signal::STOP);
    let is_leading = |operator: &Operator| operator.log().contains(" leading ");
    wait_until("another replica leads", async || {
        match is_leading(&second) || is_leading(&third) {
            true => Ok(()),
            false => Err("none".to_owned()),
        }
    })
    .await;
    let old = delete_daemon_set(&cluster, "multus").await;
    is_back(&cluster, "multus", &old).await;
    // The former leader wakes and sees that it leads no more.
    proxies[0].clear();
    first.signal(Signal::CONT);
    let reads = Match::any().resource("leases").verb("get");
    proxies[0]
        .wait_for(PATIENCE, |requests| {
            let seen = requests
                .iter()
                .filter(|one| reads.selects(&one.info) && one.delivered);
            seen.count() >= 3
        })
        .await
        .unwrap();
    let old = delete_daemon_set(&cluster, "multus").await;
    is_back(&cluster, "multus", &old).await;
    let written: Vec<_> = proxies[0]
        .writes()
        .into_iter()
        .filter(|one| one.code.is_some_and(|code| code < 300))
        .map(|one| one.info.path)
        .collect();
    assert!(written.is_empty(), "it led before: {written:#?}");

    // Then the last one.
    first.kill();
    let (leader, last) = if is_leading(&second) {
        (second, third)
    } else {
        (third, second)
    };
    assert!(!is_leading(&last), "two lead: {}", last.log());
    leader.kill();
    last.wait_leading().await;
    let old = delete_daemon_set(&cluster, "multus").await;
    is_back(&cluster, "multus", &old).await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn an_operator_whose_clock_is_wrong_and_jumps_serves_every_domain() {
    let cluster = all_domains::start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let wrong = clock(&cluster, "wrong", TWO_HOURS);
    let operator = start(&cluster, &proxy, &wrong, "weft-operator").await;
    operator.wait_leading().await;
    assert_clock(&operator, TWO_HOURS);
    populate(&cluster).await;
    let expected = cluster.snapshot().await;
    operator_is_idle(&proxy, "a clock that is two hours ahead", IDLE).await;
    for resource in all_are_well(&cluster).await {
        let conditions = resource["status"]["conditions"].as_array().unwrap();
        for condition in conditions {
            assert!(
                is_right(&condition["lastTransitionTime"]),
                "{} {condition:#}",
                resource["kind"]
            );
        }
    }
    // The API server's clock is right: it calls a webhook with this certificate from now on.
    let found = Found::in_(&cluster).await;
    found.connect(SERVER).await.unwrap();

    // Back by four hours, forth by two, and forth by two.
    for seconds in [-TWO_HOURS, 0, TWO_HOURS] {
        wrong.set(seconds).unwrap();
        renewed(&proxy).await;
        let old = delete_daemon_set(&cluster, "multus").await;
        is_back(&cluster, "multus", &old).await;
        wait_same(&expected, &cluster, "after the clock was set").await;
        all_are_well(&cluster).await;
        operator_is_idle(&proxy, &format!("a clock that is {seconds} s ahead"), IDLE).await;
    }
    let log = operator.log();
    for words in ["gone back in time", "not leading", "panicked"] {
        assert!(!log.contains(words), "{words:?}: {log}");
    }
    let after = Found::in_(&cluster).await;
    assert_eq!(after.certificate, found.certificate, "it is still good");
    assert!(operator.terminate().await.success());

    // One that starts behind finds nothing to do.
    wrong.set(-TWO_HOURS).unwrap();
    proxy.clear();
    let operator = start(&cluster, &proxy, &wrong, "weft-operator").await;
    operator.wait_leading().await;
    wait_ready(&operator).await;
    assert_clock(&operator, -TWO_HOURS);
    all_are_well(&cluster).await;
    let done = work(&cluster, &proxy);
    assert!(done.is_empty(), "nothing was to be done: {done:#?}");
    operator_is_idle(&proxy, "a clock that is two hours behind", IDLE).await;
    wait_same(&expected, &cluster, "by a clock that is behind").await;
}
