//! Inputs that are missing or forbidden when the operator starts, and later.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use crate::faults::{
    all_domains::wait_ready,
    harness::{
        Cluster, ClusterOptions, NAMESPACE, OPERATOR_USER, Operator, PATIENCE, condition,
        wait_until, wait_within, weft_binary,
    },
    requests::wait_component,
    scenario::{FULL, resource},
};

/// After so long a list is given up.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
const DEFINITION: &str = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";

fn of_operator() -> Match {
    Match::any().user(OPERATOR_USER)
}

#[tokio::test]
async fn it_waits_for_its_definition_and_then_works_at_once() {
    let cluster = Cluster::start_default().await;
    cluster.kubectl(&["delete", "crd", DEFINITION]).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    // Long enough for pauses to have grown.
    let missing = |requests: &[weft_testenv::proxy::Recorded]| {
        requests
            .iter()
            .filter(|one| one.info.resource == "networkaddonsconfigs" && one.code == Some(404))
            .count()
            >= 12
    };
    proxy.wait_for(PATIENCE, missing).await.unwrap();
    let (code, _, body) = operator.http("/readyz").await;
    assert_eq!((code, body.contains("addons")), (503, true), "{body}");
    let definitions = Command::new(weft_binary()).arg("crds").output().unwrap();
    cluster
        .apply(&String::from_utf8(definitions.stdout).unwrap())
        .await;
    cluster.wait_established(DEFINITION).await;
    cluster.play_kubemacpool().await;
    // Established, and served a moment later.
    let spec = resource(&FULL);
    wait_until("it is served", async || {
        cluster
            .control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &spec)
            .await
            .map(drop)
            .map_err(|e| e.to_string())
    })
    .await;
    wait_within(Duration::from_secs(15), "it has begun", async || {
        let status = cluster.status().await;
        if status["observedGeneration"].is_null() {
            Err(format!("{status}"))
        } else {
            Ok(())
        }
    })
    .await;
    cluster.wait_available().await;
    wait_ready(&operator).await;
}

/// Deletes a Service, and waits until Weft has made it again.
async fn service_comes_back(cluster: &Cluster, limit: Duration) {
    let name = "kubemacpool-service";
    let live = cluster.get(kinds::SERVICE, NAMESPACE, name).await;
    let old = live.unwrap()["metadata"]["uid"].clone();
    cluster.delete(kinds::SERVICE, NAMESPACE, name).await;
    wait_within(limit, "it is back", async || {
        match cluster.get(kinds::SERVICE, NAMESPACE, name).await {
            Some(service) if service["metadata"]["uid"] != old => Ok(()),
            _ => Err("no".to_owned()),
        }
    })
    .await;
}

/// All watches of a controller of kube share one backoff, so that one forbidden kind makes all
/// others deaf for seconds. Ours do not.
#[tokio::test]
async fn a_kind_that_cannot_be_watched_slows_no_other() {
    let cluster = Cluster::start(ClusterOptions {
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    wait_ready(&operator).await;
    let began = Instant::now();
    service_comes_back(&cluster, PATIENCE).await;
    // Ten times what it takes without a fault, on a busy machine. The ninth pause of a kind is longer
    // than the upper bound.
    let limit = (10 * began.elapsed()).clamp(Duration::from_secs(3), Duration::from_secs(12));
    for (code, failures) in [(403, 7), (404, 7), (500, 9)] {
        println!("{code}");
        let watch = of_operator().verb("watch").resource("networkpolicies");
        let faults = ["watch", "list"].map(|verb| {
            proxy.inject(
                of_operator().verb(verb).resource("networkpolicies"),
                Fault::status(code),
            )
        });
        assert!(proxy.expire_watches(&watch) > 0);
        faults[1].wait_hits(failures, PATIENCE).await.unwrap();
        // Twice, as the operator holds back the sixth repair of an object within a minute.
        for _ in 0..2 {
            // The pauses of the other watch are longer than this by now only if they are shared.
            service_comes_back(&cluster, limit).await;
        }
        if code == 403 {
            // A refusal counts after two minutes: an API server that has just started refuses, too.
            wait_within(
                Duration::from_secs(200),
                "the refusal is in status",
                async || {
                    let status = cluster.status().await;
                    let degraded = condition(&status, "Degraded");
                    let is_named = degraded["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains("NetworkPolicy");
                    if degraded["reason"] == "FailedToApply" && is_named {
                        Ok(())
                    } else {
                        Err(format!("{status:#}"))
                    }
                },
            )
            .await;
        }
        faults.iter().for_each(|fault| fault.remove());
        wait_until("it is watched again", async || {
            if proxy.open_watches(&watch) > 0 {
                Ok(())
            } else {
                Err("no".into())
            }
        })
        .await;
        cluster.wait_available().await;
    }
}

/// An input of a single workload concerns this workload only.
#[tokio::test]
async fn an_input_that_cannot_be_seen_stops_its_component_only() {
    let cluster = Cluster::start(ClusterOptions {
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    for fault in [Fault::status(500), Fault::status(403), Fault::Hold] {
        println!("{fault:?}");
        proxy.clear();
        let unseen = proxy.inject(
            of_operator()
                .verb("list")
                .resource("secrets")
                .name("kubemacpool-service"),
            fault.clone(),
        );
        let operator = Operator::start_via(&cluster, &proxy).await;
        cluster.play_kubemacpool().await;
        cluster.apply(&resource(&FULL)).await;
        unseen.wait_hits(1, PATIENCE).await.unwrap();
        if matches!(fault, Fault::Hold) {
            // Status waits for the answer, the work does not.
            for (kind, name) in [
                (kinds::DAEMON_SET, "multus"),
                (kinds::DEPLOYMENT, "kubemacpool-cert-manager"),
            ] {
                wait_until(&format!("{name} is there"), async || {
                    if cluster.get(kind, NAMESPACE, name).await.is_some() {
                        Ok(())
                    } else {
                        Err("no".to_owned())
                    }
                })
                .await;
            }
            // By the times of the requests: the test itself may look later.
            let requests = proxy.requests();
            let asked = requests
                .iter()
                .filter(|one| one.info.resource == "secrets" && one.info.verb == "list")
                .find(|one| one.info.name == "kubemacpool-service" && one.code.is_none())
                .unwrap();
            let applied = requests
                .iter()
                .filter(|one| one.info.resource == "daemonsets" && one.info.verb == "patch")
                .find(|one| one.info.name == "multus")
                .unwrap();
            let passed = applied.time.duration_since(asked.time);
            assert!(
                passed < jiff::SignedDuration::try_from(LIST_TIMEOUT).unwrap(),
                "the work waits for the list: {passed}"
            );
        } else {
            wait_component(&cluster, "multus", "Available").await;
            wait_component(&cluster, "linuxBridge", "Available").await;
            wait_component(&cluster, "kubeMacPool", "Degraded").await;
        }
        unseen.remove();
        cluster.wait_available().await;
        operator.terminate().await;
        let operator = Operator::start_via(&cluster, &proxy).await;
        cluster
            .delete(kinds::NETWORK_ADDONS_CONFIG, "", "cluster")
            .await;
        crate::faults::scenario::gone(&cluster).await;
        operator.terminate().await;
    }
}
