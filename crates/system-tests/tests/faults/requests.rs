//! Requests that are refused, lost or not answered, and an API server that is away.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use crate::faults::{
    harness::{
        Cluster, NAMESPACE, OPERATOR_USER, Operator, PATIENCE, condition, operator_is_idle,
        wait_until,
    },
    scenario::{self, FULL, Step, resource},
};

fn of_operator() -> Match {
    Match::any().user(OPERATOR_USER)
}

/// Every kind of write fails once, in each way that it can.
#[tokio::test]
async fn a_write_that_fails_is_made_good() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let mut kinds = BTreeSet::new();
    let mut reference = Vec::new();
    for step in [Step::Install, Step::Delete] {
        proxy.clear();
        step.begin(&cluster).await;
        step.finish(&cluster).await;
        reference.push(scenario::outcome(&cluster, &proxy).await);
        let writes = proxy
            .writes()
            .into_iter()
            .filter(|write| of_operator().writes().selects(&write.info))
            // The number of its events differs from run to run: one says what several are about.
            .filter(|write| write.info.resource != "events");
        kinds.extend(
            writes.map(|write| (write.info.verb, write.info.resource, write.info.subresource)),
        );
    }
    assert!(
        kinds.contains(&(
            "patch".into(),
            "networkaddonsconfigs".into(),
            "status".into()
        )),
        "{kinds:?}"
    );
    assert!(
        kinds.contains(&("delete".into(), "daemonsets".into(), String::new())),
        "{kinds:?}"
    );
    let faults = [
        Fault::status(409),
        Fault::too_many_requests(1),
        Fault::status(500),
        Fault::status(503),
        Fault::status(504),
        Fault::CutBefore,
        // As a 504 after the API server has done it.
        Fault::CutAfter,
    ];
    for fault in faults {
        println!("{fault:?}");
        let one_each = |(verb, resource, subresource): &(String, String, String)| {
            let once = of_operator()
                .verb(verb)
                .resource(resource)
                .subresource(subresource)
                .times(1);
            proxy.inject(once, fault.clone())
        };
        let injected: Vec<_> = kinds.iter().map(one_each).collect();
        for (step, expected) in [Step::Install, Step::Delete].into_iter().zip(&reference) {
            proxy.clear();
            step.begin(&cluster).await;
            step.finish(&cluster).await;
            scenario::assert_same_outcome(
                expected,
                &scenario::outcome(&cluster, &proxy).await,
                &format!("{step:?} with {fault:?}"),
            );
        }
        let missed: Vec<_> = kinds
            .iter()
            .zip(&injected)
            .filter(|(_, one)| one.hits() != 1)
            .collect();
        assert!(
            missed.is_empty(),
            "each happened: {:?}",
            missed.iter().map(|(kind, _)| kind).collect::<Vec<_>>()
        );
        proxy.heal();
    }
}

/// The last word of a change is lost: nothing else happens that would make the operator look again.
#[tokio::test]
async fn a_status_that_could_not_be_written_is_written_later() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    for fault in [Fault::status(500), Fault::status(409), Fault::CutBefore] {
        println!("{fault:?}");
        let status = of_operator()
            .verb("patch")
            .resource("networkaddonsconfigs")
            .subresource("status");
        let lost = proxy.inject(status, fault);
        let asked = cluster.resource().await.unwrap()["spec"]["nmstate"].is_object();
        let nmstate = if asked {
            serde_json::Value::Null
        } else {
            serde_json::json!({})
        };
        cluster
            .patch_resource(serde_json::json!({"spec": {"nmstate": nmstate}}))
            .await;
        // The first word on a generation and the last make two. News of our own writes may be a
        // reason for a second reconcile, but then no event makes the operator look again.
        lost.wait_hits(8, PATIENCE).await.unwrap();
        lost.remove();
        cluster.wait_available().await;
    }
}

#[tokio::test]
async fn an_api_server_that_is_away_is_waited_for_in_patience() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    for how in ["cut", "expired"] {
        println!("{how}");
        let operator = Operator::start_via(&cluster, &proxy).await;
        cluster.install(&resource(&FULL)).await;
        let expected = cluster.snapshot().await;
        operator.wait_leading().await;
        wait_until("it is ready", async || {
            if operator.http("/readyz").await.0 == 200 {
                Ok(())
            } else {
                Err("no".into())
            }
        })
        .await;
        let watches = wait_until("every kind is watched", async || {
            match proxy.open_watches(&of_operator()) {
                open if open >= 14 => Ok(open),
                open => Err(format!("{open}")),
            }
        })
        .await;
        // An event that it still had to write would count.
        operator_is_idle(&proxy, "the time before the cut", 1).await;
        proxy.clear();
        let away = proxy.inject(of_operator(), Fault::CutBefore);
        // Then they go on where they were, or list all again.
        if how == "cut" {
            proxy.close_watches(&of_operator())
        } else {
            proxy.expire_watches(&of_operator())
        };
        // Meanwhile there is a lot to do.
        let deleted = [
            (kinds::DAEMON_SET, "multus"),
            (
                kinds::NETWORK_POLICY,
                "kubemacpool-allow-ingress-to-webhook",
            ),
        ];
        for (kind, name) in deleted {
            cluster.delete(kind, NAMESPACE, name).await;
        }
        // Until each watch has failed five times.
        let attempts = |requests: &[weft_testenv::proxy::Recorded]| {
            let mut attempts: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
            for one in requests.iter().filter(|one| {
                of_operator().selects(&one.info)
                    && matches!(one.info.verb.as_str(), "watch" | "list")
            }) {
                attempts
                    .entry(format!(
                        "{}?{}",
                        one.info.path,
                        one.info.query.replace("&watch=true", "")
                    ))
                    .or_default()
                    .push(one.time);
            }
            attempts
        };
        let several = |requests: &[weft_testenv::proxy::Recorded]| {
            attempts(requests)
                .values()
                .filter(|times| times.len() >= 6)
                .count()
                >= watches
        };
        proxy.wait_for(PATIENCE, several).await.unwrap();
        let requests = proxy.requests();
        away.remove();

        for (what, times) in attempts(&requests) {
            // 100 ms, doubled each time, and at least half of that by the random numbers.
            let pauses: Vec<_> = times
                .windows(2)
                .map(|pair| pair[1].duration_since(pair[0]).as_millis())
                .collect();
            for (pause, least) in pauses.iter().zip([50, 100, 200, 400, 800]) {
                assert!(
                    *pause >= least - 5,
                    "{what} was tried again after {pauses:?} ms"
                );
            }
        }
        let writes: Vec<_> = requests
            .iter()
            .filter(|one| of_operator().writes().selects(&one.info))
            .collect();
        assert!(
            writes.is_empty(),
            "nothing was known that was to be done: {writes:#?}"
        );
        for (kind, name) in deleted {
            wait_until(&format!("{kind} {name} is back"), async || {
                match cluster.get(kind, NAMESPACE, name).await {
                    Some(_) => Ok(()),
                    None => Err("not yet".into()),
                }
            })
            .await;
        }
        scenario::wait_same(&expected, &cluster, how).await;
        operator.terminate().await;
    }
}

/// Writes fail for as long as it lasts, while events keep coming: none of them is a reason to try
/// again at once.
#[tokio::test]
async fn an_object_that_fails_for_long_is_retried_slowly_and_alone() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let failing = proxy.inject(
        of_operator()
            .verb("patch")
            .resource("daemonsets")
            .name("multus"),
        Fault::status(500),
    );
    Step::Install.begin(&cluster).await;
    wait_component(&cluster, "linuxBridge", "Available").await;
    wait_component(&cluster, "kubeMacPool", "Available").await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "DaemonSet cluster-network-addons/multus",
        )
        .await;
    assert_eq!(condition(&status, "Available")["status"], "False");
    // Drift in what works is put right, and makes noise. Each time it is another field: a client that
    // writes the same one again meets pauses, and so does one that writes fifteen.
    for n in 0..12 {
        let field = format!("added-{n}");
        cluster
            .patch(
                kinds::CONFIG_MAP,
                NAMESPACE,
                "kubemacpool-mac-range-config",
                serde_json::json!({"data": {&field: n.to_string()}}),
            )
            .await;
        wait_until("the addition is gone", async || {
            let map = cluster
                .get(kinds::CONFIG_MAP, NAMESPACE, "kubemacpool-mac-range-config")
                .await
                .unwrap();
            if map["data"][&field].is_null() {
                Ok(())
            } else {
                Err(format!("{}", map["data"]))
            }
        })
        .await;
    }
    let first = proxy
        .requests()
        .iter()
        .find(|one| one.info.name == "multus" && one.info.resource == "daemonsets")
        .unwrap()
        .time;
    let seconds = Timestamp::now().duration_since(first).as_secs_f64();
    // One more than the pauses allow: the first failure might have passed at once.
    let most = 3.0 + (1.0 + seconds / 0.25).log2();
    assert!(
        (failing.hits() as f64) <= most,
        "{} attempts in {seconds} s, not {most}",
        failing.hits()
    );
    failing.remove();
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_request_that_is_never_answered_holds_up_nobody_for_ever() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let hanging = proxy.inject(
        of_operator()
            .verb("patch")
            .resource("daemonsets")
            .name("multus")
            .times(1),
        Fault::Hold,
    );
    Step::Install.begin(&cluster).await;
    hanging.wait_hits(1, PATIENCE).await.unwrap();
    for name in ["bridge-marker", "kube-cni-linux-bridge-plugin"] {
        wait_until(&format!("DaemonSet {name} is there"), async || {
            if cluster
                .get(kinds::DAEMON_SET, NAMESPACE, name)
                .await
                .is_some()
            {
                Ok(())
            } else {
                Err("no".into())
            }
        })
        .await;
    }
    // Nor is what others break left broken meanwhile.
    cluster
        .delete(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
        .await;
    wait_until("DaemonSet bridge-marker is back", async || {
        if cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
            .await
            .is_some()
        {
            Ok(())
        } else {
            Err("no".into())
        }
    })
    .await;
    wait_component(&cluster, "linuxBridge", "Available").await;
    // Status says so only until the request is given up, which a busy machine may reach first.
    let waiting = |requests: &[weft_testenv::proxy::Recorded]| {
        requests
            .iter()
            .filter(|one| one.info.subresource == "status")
            .filter_map(|one| serde_json::from_slice::<serde_json::Value>(&one.body).ok())
            .find(|body| {
                let degraded = condition(&body["status"], "Degraded");
                let message = degraded["message"].as_str().unwrap_or_default();
                degraded["status"] == "True" && message.contains("has not answered yet")
            })
    };
    proxy
        .wait_for(PATIENCE, |requests| waiting(requests).is_some())
        .await
        .unwrap();
    let waits = waiting(&proxy.requests()).unwrap();
    assert_eq!(condition(&waits["status"], "Available")["status"], "False");
    // Given up after 15 s, and done anew.
    cluster.wait_available().await;
    let multus = |requests: &[weft_testenv::proxy::Recorded]| {
        requests
            .iter()
            .filter(|one| {
                one.info.name == "multus"
                    && one.info.resource == "daemonsets"
                    && one.info.verb == "patch"
            })
            .map(|one| one.time)
            .collect::<Vec<_>>()
    };
    let times = multus(&proxy.requests());
    assert!(
        times.len() == 2
            && times[1].duration_since(times[0]).unsigned_abs() >= Duration::from_secs(15),
        "{times:?}"
    );
    // A late answer does no harm.
    let expected = cluster.snapshot().await;
    hanging.remove();
    proxy
        .wait_for(PATIENCE, |requests| {
            requests
                .iter()
                .filter(|one| one.info.resource == "daemonsets" && one.info.name == "multus")
                .all(|one| one.code.is_some())
        })
        .await
        .unwrap();
    scenario::wait_same(&expected, &cluster, "after the late one").await;
}

/// The operator repairs a brief failure before it reports one.
#[tokio::test]
async fn a_single_failure_is_not_told() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    proxy.clear();
    let failing = proxy.inject(
        of_operator()
            .verb("patch")
            .resource("daemonsets")
            .name("multus")
            .times(1),
        Fault::status(500),
    );
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    failing.wait_hits(1, PATIENCE).await.unwrap();
    wait_until("multus is back", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "multus")
            .await
            .map(drop)
            .ok_or("gone".into())
    })
    .await;
    cluster.wait_available().await;
    let degraded = |write: &weft_testenv::proxy::Recorded| {
        let body: serde_json::Value = serde_json::from_slice(&write.body).unwrap_or_default();
        condition(&body["status"], "Degraded")["status"] == "True"
    };
    let told: Vec<_> = proxy
        .writes()
        .into_iter()
        .filter(degraded)
        .map(|write| String::from_utf8(write.body.to_vec()).unwrap())
        .collect();
    assert!(told.is_empty(), "{told:#?}");
}

pub async fn wait_component(cluster: &Cluster, name: &str, state: &str) {
    wait_until(&format!("{name} is {state}"), async || {
        let status = cluster.status().await;
        let component = status["components"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|component| component["name"] == name);
        if component.is_some_and(|component| component["state"] == state) {
            Ok(())
        } else {
            Err(format!("{:#}", status["components"]))
        }
    })
    .await;
}
