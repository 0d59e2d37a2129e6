//! An API server that takes 5 s over each answer to the operator, and whose watches report
//! everything 5 s late. The lease is the shipped one.
//!
//! Nothing here is timed. It takes minutes, nearly all of them waiting, so all domains live at
//! once. `WEFT_EXHAUSTIVE=1` adds the rest of their lives, and takes each life twice: with requests
//! that wait before they are carried out, and with requests that wait afterwards.

use std::time::Duration;

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::proxy::{Events, Fault, Match, Proxy};

use crate::faults::{
    cluster_network,
    harness::*,
    node_network::{
        AGENT, NAMESPACE as NMSTATE,
        agents::{Agents, in_flux, wait_decisions},
    },
    placement,
    scenario::{self, Outcome, Step},
    site::{NAME, Site},
};

const LATENCY: Duration = Duration::from_secs(5);
/// The default of `--lease-seconds`, which no shipped manifest changes.
const LEASE: u64 = 30;
/// A step of a life has dozens of requests one after the other.
const LONG: Duration = Duration::from_secs(900);

/// Where a request waits.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// Before it is carried out.
    Before,
    /// When it has been carried out: its effects may come to be known before the answer.
    After,
}

/// This one, or both.
fn waits(usual: Wait) -> Vec<Wait> {
    if is_exhaustive() {
        vec![Wait::Before, Wait::After]
    } else {
        vec![usual]
    }
}

/// From now on every answer to the operator and every event of its watches is late.
fn slow_down(cluster: &Cluster, proxy: &Proxy, wait: Wait) {
    let user = Match::any().user(&cluster.operator_user());
    let late = match wait {
        Wait::Before => Fault::Delay(LATENCY),
        Wait::After => Fault::DelayAnswer(LATENCY),
    };
    proxy.inject(user.clone(), late);
    proxy.inject(user, Fault::DelayEvents(Events::All, LATENCY));
}

async fn start(cluster: &Cluster, proxy: &Proxy, pod_name: &str) -> Operator {
    Operator::start(
        cluster,
        OperatorOptions {
            proxy: Some(proxy),
            lease_seconds: LEASE,
            pod_name,
            ..Default::default()
        },
    )
    .await
}

/// It has kept the lease since it got it.
fn assert_led_on(operator: &Operator) {
    let log = operator.log();
    assert_eq!(
        (
            log.matches(" leading lease=").count(),
            log.matches("not leading").count()
        ),
        (1, 0),
        "{log}"
    );
}

#[tokio::test]
async fn every_domain_lives_with_answers_that_take_five_seconds() {
    tokio::join!(
        with_patience(LONG, Box::pin(add_ons())),
        with_patience(LONG, Box::pin(the_network())),
        with_patience(LONG, Box::pin(policies_of_nodes())),
        with_patience(LONG, Box::pin(a_placement())),
    );
}

async fn add_ons() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let undisturbed = start(&cluster, &proxy, "undisturbed").await;
    let mut reference = Vec::new();
    for step in [Step::Install, Step::Change, Step::Delete] {
        reference.push(take(step, &cluster, &proxy).await);
    }
    undisturbed.terminate().await;
    for wait in waits(Wait::After) {
        slow_down(&cluster, &proxy, wait);
        late_add_ons(&cluster, &proxy, wait, &reference).await;
        proxy.heal();
    }
}

async fn take(step: Step, cluster: &Cluster, proxy: &Proxy) -> Outcome {
    proxy.clear();
    step.begin(cluster).await;
    step.finish(cluster).await;
    scenario::outcome(cluster, proxy).await
}

async fn late_add_ons(cluster: &Cluster, proxy: &Proxy, wait: Wait, reference: &[Outcome]) {
    let when = |step: Step| format!("{step:?} with requests that wait {wait:?}");
    let first = start(cluster, proxy, "first").await;
    let installed = take(Step::Install, cluster, proxy).await;
    scenario::assert_same_outcome(&reference[0], &installed, &when(Step::Install));

    // A deleted object comes back, and an added field goes.
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    cluster
        .patch(
            kinds::SERVICE,
            NAMESPACE,
            "kubemacpool-service",
            json!({"spec": {"sessionAffinity": "ClientIP"}}),
        )
        .await;
    scenario::wait_same(&reference[0].state, cluster, "after drift").await;
    assert_led_on(&first);

    // The other replica takes over when the lease has ended, and repairs what was harmed meanwhile.
    let second = start(cluster, proxy, "second").await;
    wait_until("it is ready", async || {
        if second.http("/readyz").await.0 == 200 {
            Ok(())
        } else {
            Err("no".to_owned())
        }
    })
    .await;
    first.kill();
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    second.wait_leading().await;
    scenario::wait_same(
        &reference[0].state,
        cluster,
        "after another replica took over",
    )
    .await;
    cluster.wait_available().await;

    if is_exhaustive() {
        for (step, expected) in [Step::Change, Step::Delete]
            .into_iter()
            .zip(&reference[1..])
        {
            scenario::assert_same_outcome(expected, &take(step, cluster, proxy).await, &when(step));
        }
    }
    assert_led_on(&second);
    second.terminate().await;
}

async fn the_network() {
    let options = ClusterOptions {
        manifests: &["--split", "--domains", "cluster-network"],
        resource: (kinds::NETWORK_CONFIG, "default"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let undisturbed = start(&cluster, &proxy, "undisturbed").await;
    let mut reference = Vec::new();
    for step in cluster_network::STEPS {
        step.begin(&cluster).await;
        step.finish(&cluster).await;
        reference.push(cluster.snapshot().await);
    }
    undisturbed.terminate().await;
    let steps = if is_exhaustive() {
        &cluster_network::STEPS
    } else {
        &cluster_network::STEPS[..1]
    };
    for wait in waits(Wait::Before) {
        cluster_network::clean(&cluster).await;
        slow_down(&cluster, &proxy, wait);
        let operator = start(&cluster, &proxy, "late").await;
        for (step, expected) in steps.iter().zip(&reference) {
            step.begin(&cluster).await;
            step.finish(&cluster).await;
            if *step != cluster_network::Step::Remove {
                scenario::wait_same(
                    expected,
                    &cluster,
                    &format!("{step:?} with requests that wait {wait:?}"),
                )
                .await;
            }
        }
        assert_led_on(&operator);
        operator.terminate().await;
        proxy.heal();
    }
}

async fn policies_of_nodes() {
    let options = ClusterOptions {
        nodes: 3,
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    for wait in waits(Wait::After) {
        slow_down(&cluster, &proxy, wait);
        let operator = start(&cluster, &proxy, "late").await;
        let nmstate = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"},
            "spec": {"maxUnavailable": "100%"}
        });
        cluster.apply(&nmstate.to_string()).await;
        cluster.wait_available().await;
        let agents = Agents::of(&cluster, &["node-1", "node-2", "node-3"]).await;
        carry_out(&cluster, &agents, "br1", 1).await;
        if is_exhaustive() {
            carry_out(&cluster, &agents, "br2", 2).await;
            cluster
                .delete(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", POLICY)
                .await;
            wait_decisions(&cluster, POLICY, &[]).await;
            wait_until("the policy is gone", async || {
                let live = cluster
                    .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", POLICY)
                    .await;
                live.map_or(Ok(()), |live| Err(format!("{live:#}")))
            })
            .await;
            cluster.delete(kinds::NMSTATE, "", "nmstate").await;
            wait_until("nothing is left", async || {
                let gone = cluster.resource().await.is_none()
                    && cluster
                        .get(kinds::DAEMON_SET, NMSTATE, AGENT)
                        .await
                        .is_none();
                if gone {
                    Ok(())
                } else {
                    Err(format!("{:#}", cluster.status().await))
                }
            })
            .await;
        }
        assert_led_on(&operator);
        operator.terminate().await;
        proxy.heal();
    }
}

const POLICY: &str = "bridge";

/// A policy goes from node to node, and never is more than one node changed.
async fn carry_out(cluster: &Cluster, agents: &Agents, bridge: &str, generation: i64) {
    let spec = json!({
        "maxUnavailable": 1,
        "desiredState": {"interfaces": [{"name": bridge, "type": "linux-bridge", "state": "up"}]}
    });
    let kind = kinds::NODE_NETWORK_CONFIGURATION_POLICY;
    let policy = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": POLICY},
        "spec": spec
    });
    cluster.apply(&policy.to_string()).await;
    wait_until("the policy is carried out", async || {
        let now = in_flux(cluster, POLICY).await;
        assert!(now.len() <= 1, "{now:?} are changed at once");
        agents.act(cluster, &[]).await;
        let live = cluster
            .get(kind, "", POLICY)
            .await
            .ok_or("it is not there")?;
        let said = condition(&live["status"], "Available");
        let right = said["status"] == "True" && said["observedGeneration"] == generation;
        if right {
            Ok(())
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await;
}

async fn a_placement() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, NAME),
        resource_namespace: placement::SPACE,
        ..Default::default()
    })
    .await;
    let site = Site::new(&cluster, placement::SPACE).await;
    placement::prepare(&site, &placement::ALONE).await;
    let users = cluster.leftovers().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let undisturbed = start(&cluster, &proxy, "undisturbed").await;
    let mut reference = Vec::new();
    for step in placement::ALONE {
        step.begin(&site).await;
        step.finish(&site, &users).await;
        reference.push(cluster.snapshot().await);
    }
    undisturbed.terminate().await;
    let steps = if is_exhaustive() {
        &placement::ALONE
    } else {
        &placement::ALONE[..1]
    };
    for wait in waits(Wait::Before) {
        slow_down(&cluster, &proxy, wait);
        let operator = start(&cluster, &proxy, "late").await;
        for (step, expected) in steps.iter().zip(&reference) {
            step.begin(&site).await;
            step.finish(&site, &users).await;
            wait_until("the same end", async || {
                let differences = placement::differences(expected, &cluster.snapshot().await);
                if differences.is_empty() {
                    Ok(())
                } else {
                    Err(format!(
                        "{step:?} with requests that wait {wait:?}: {differences:#?}"
                    ))
                }
            })
            .await;
        }
        assert_led_on(&operator);
        operator.terminate().await;
        proxy.heal();
    }
}
