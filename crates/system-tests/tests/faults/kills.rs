//! The operator is killed before or after any of its writes, and started again.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;
use weft_plan::kinds;
use weft_testenv::{
    Victim,
    proxy::{Match, Proxy, When},
};

use crate::faults::{
    harness::{Cluster, NAMESPACE, OPERATOR_USER, Operator, seed, wait_until},
    scenario::{self, Outcome, STEPS, Step},
};

/// Every step undisturbed: what it leads to, and how many writes it takes.
async fn reference(cluster: &Cluster, proxy: &Proxy) -> Vec<(Outcome, usize)> {
    let operator = Operator::start_briefly_via(cluster, proxy).await;
    let mut outcomes = Vec::new();
    for step in STEPS {
        proxy.clear();
        step.begin(cluster).await;
        step.finish(cluster).await;
        outcomes.push((scenario::outcome(cluster, proxy).await, writes(proxy)));
    }
    operator.terminate().await;
    outcomes
}

/// How many writes of the operator there were.
fn writes(proxy: &Proxy) -> usize {
    let work = Match::any().user(OPERATOR_USER).writes();
    proxy
        .writes()
        .iter()
        .filter(|write| work.selects(&write.info))
        .count()
}

/// Takes a step while the operator is killed at its `n`-th write. Returns the operator that
/// finished the work, and whether there was an `n`-th write at all: the number of writes that
/// report progress differs from run to run.
async fn killed(
    cluster: &Cluster,
    proxy: &Proxy,
    mut operator: Operator,
    step: Step,
    n: usize,
    when: When,
) -> (Operator, bool) {
    let victim = Victim::new();
    victim.is(operator.child());
    proxy.clear();
    proxy.on_write(Match::any().user(OPERATOR_USER), n, when, victim.kill());
    step.begin(cluster).await;
    let was_killed = tokio::select! {
        () = operator.end() => true,
        () = step.finish(cluster) => {
            // The last write of all finishes the step, and the kill that comes with it may be a
            // moment later.
            let is_dying = writes(proxy) >= n;
            if is_dying {
                operator.wait().await;
            }
            is_dying
        }
    };
    proxy.heal();
    if was_killed {
        expire_lease(cluster).await;
        operator = Operator::start_briefly_via(cluster, proxy).await;
        step.finish(cluster).await;
    }
    (operator, was_killed)
}

/// As if it had passed: it takes seconds to do so, and that it does is shown elsewhere.
async fn expire_lease(cluster: &Cluster) {
    if cluster
        .get(kinds::LEASE, NAMESPACE, "weft-addons")
        .await
        .is_some()
    {
        cluster.delete(kinds::LEASE, NAMESPACE, "weft-addons").await;
    }
}

/// Which writes of a step with `count` of them: all, or its edges and some between.
fn chosen(count: usize, random: &mut StdRng) -> Vec<(usize, When)> {
    let both = |n| [(n, When::Before), (n, When::After)];
    if scenario::is_exhaustive() {
        return (1..=count).flat_map(both).collect();
    }
    let when = |random: &mut StdRng| {
        if random.random_bool(0.5) {
            When::Before
        } else {
            When::After
        }
    };
    let inner = |random: &mut StdRng| random.random_range(2..count.max(3));
    vec![
        (1, when(random)),
        (inner(random), When::Before),
        (inner(random), When::After),
        (count, when(random)),
    ]
}

#[tokio::test]
async fn killed_at_any_write_it_comes_to_the_same_end() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let reference = reference(&cluster, &proxy).await;
    let seed = seed();
    println!(
        "writes a step: {:?}",
        reference
            .iter()
            .map(|(_, writes)| writes)
            .collect::<Vec<_>>()
    );
    let mut random = StdRng::seed_from_u64(seed);
    let plans: Vec<_> = reference
        .iter()
        .map(|(_, writes)| chosen(*writes, &mut random))
        .collect();

    let (mut kills, mut missed) = (0, Vec::new());
    let mut operator = Operator::start_briefly_via(&cluster, &proxy).await;
    // One life after the other. In each, every step has its kill, as long as there are writes left
    // to be killed at.
    for round in 0..plans.iter().map(Vec::len).max().unwrap_or_default() {
        for ((step, plan), (expected, _)) in STEPS.into_iter().zip(&plans).zip(&reference) {
            let Some((n, when)) = plan.get(round).copied() else {
                proxy.clear();
                step.begin(&cluster).await;
                step.finish(&cluster).await;
                continue;
            };
            let name = format!("{step:?}, killed {when:?} write {n} (WEFT_SEED={seed})");
            println!("{name}");
            let was_killed;
            (operator, was_killed) = killed(&cluster, &proxy, operator, step, n, when).await;
            if was_killed {
                kills += 1
            } else {
                missed.push(name.clone())
            }
            scenario::assert_same_outcome(
                expected,
                &scenario::outcome(&cluster, &proxy).await,
                &name,
            );
        }
    }
    println!("{kills} kills; not reached: {missed:?}");
    assert!(
        kills >= 3 * missed.len(),
        "most of the chosen writes happen"
    );
}

/// The ranges that committed writes of the operator speak of: what it decided, and what it
/// configured.
fn ranges(proxy: &Proxy) -> BTreeSet<(String, String)> {
    let mut ranges = BTreeSet::new();
    for write in proxy
        .writes()
        .iter()
        .filter(|write| write.code.is_some_and(|code| code < 300))
    {
        let Ok(body) = serde_json::from_slice::<Value>(&write.body) else {
            continue;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(decided) = body["data"]["decided"].as_str() {
            let decided: Value = serde_json::from_str(decided).unwrap();
            ranges.insert((
                text(&decided["kubeMacPool"]["rangeStart"]),
                text(&decided["kubeMacPool"]["rangeEnd"]),
            ));
        }
        if write.info.name == "kubemacpool-mac-range-config" {
            ranges.insert((
                text(&body["data"]["RANGE_START"]),
                text(&body["data"]["RANGE_END"]),
            ));
        }
    }
    ranges
}

#[tokio::test]
async fn dice_are_thrown_once() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let mut operator = Operator::start_briefly_via(&cluster, &proxy).await;
    let mut drawn = BTreeSet::new();
    // The first writes: finalizer, inventory, first word in status, the first objects.
    let writes = if scenario::is_exhaustive() { 8 } else { 3 };
    for (n, when) in (1..=writes).flat_map(|n| [(n, When::Before), (n, When::After)]) {
        let victim = Victim::new();
        victim.is(operator.child());
        proxy.clear();
        proxy.on_write(Match::any().user(OPERATOR_USER), n, when, victim.kill());
        cluster.play_kubemacpool().await;
        cluster
            .apply(&scenario::resource(&["kubeMacPool: {}"]))
            .await;
        operator.wait().await;
        expire_lease(&cluster).await;
        operator = Operator::start_briefly_via(&cluster, &proxy).await;
        cluster.wait_available().await;
        let ranges = ranges(&proxy);
        assert_eq!(
            ranges.len(),
            1,
            "killed {when:?} write {n}: one range is decided and configured: {ranges:?}"
        );
        drawn.extend(ranges);
        Step::Delete.begin(&cluster).await;
        Step::Delete.finish(&cluster).await;
    }
    assert!(drawn.len() > 1, "and it is drawn: {drawn:?}");
}

/// The resource is deleted while the operator is down: what it had begun is undone when it comes
/// back.
#[tokio::test]
async fn killed_during_the_installation_and_deleted_before_it_is_back() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let mut operator = Operator::start_briefly_via(&cluster, &proxy).await;
    let both = |n| [(n, When::Before), (n, When::After)];
    let sample = vec![
        (1, When::After),
        (2, When::Before),
        (2, When::After),
        (3, When::After),
        (12, When::After),
        (25, When::Before),
    ];
    let writes = if scenario::is_exhaustive() {
        (1..=28).flat_map(both).collect()
    } else {
        sample
    };
    for (n, when) in writes {
        let victim = Victim::new();
        victim.is(operator.child());
        proxy.on_write(Match::any().user(OPERATOR_USER), n, when, victim.kill());
        Step::Install.begin(&cluster).await;
        operator.wait().await;
        expire_lease(&cluster).await;
        cluster
            .delete(kinds::NETWORK_ADDONS_CONFIG, "", "cluster")
            .await;
        // The Secret that KubeMacPool makes in life is the test's until Weft has noted that it may
        // go.
        let secret = cluster.api(kinds::SECRET, NAMESPACE);
        if let Err(error) = secret
            .delete("kubemacpool-service", &Default::default())
            .await
        {
            assert!(
                matches!(&error, kube::Error::Api(status) if status.code == 404),
                "{error}"
            );
        }
        operator = Operator::start_briefly_via(&cluster, &proxy).await;
        println!("killed {when:?} write {n}, deleted while it was down");
        scenario::gone(&cluster).await;
        wait_until("the operator is ready", async || {
            if operator.http("/readyz").await.0 == 200 {
                Ok(())
            } else {
                Err("no".into())
            }
        })
        .await;
    }
}
