//! From an example to Available, and then quiet.

use jiff::Timestamp;
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Proxy, Recorded};

use weft_system_tests::*;

#[tokio::test]
async fn the_examples_become_available_and_then_nothing_is_asked_or_written() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;

    let resource = cluster
        .install(&example("network-addons-config-0.23.yaml"))
        .await;
    assert_eq!(
        component_states(&resource)["nmstate"],
        "NotDeployed",
        "accepted, and said to come later"
    );
    says_everything(&cluster, &resource).await;
    let old = cluster.snapshot().await;

    // The same add-ons in today's API version, and more of them.
    cluster.apply(&example("network-addons-config.yaml")).await;
    let resource = cluster.wait_available().await;
    assert_eq!(resource["metadata"]["generation"], 2);
    assert!(component_states(&resource).get("nmstate").is_none());
    says_everything(&cluster, &resource).await;
    let new = cluster.snapshot().await;
    let only_the_resource = |line: &String| {
        line.contains(" NetworkAddonsConfig cluster ") || line.contains(" ConfigMap ")
    };
    let others: Vec<_> = old
        .diff(&new.only(&old))
        .into_iter()
        .filter(|line| !only_the_resource(line))
        .collect();
    assert!(
        others.is_empty(),
        "what both examples ask for is the same: {others:#?}"
    );
    for component in [
        "multusDynamicNetworks",
        "macvtap",
        "kubeSecondaryDNS",
        "kubevirtIpamController",
    ] {
        assert_eq!(
            component_states(&resource)[component],
            "Available",
            "{component}"
        );
    }

    assert_not_warned(&cluster, &proxy);
    becomes_idle(&cluster, &proxy).await;
    a_pass_writes_nothing(&cluster, &proxy, &operator).await;

    // A restarted operator finds out by lists and watches that all is well.
    operator.terminate().await;
    let since = restart_mark(&proxy);
    let operator = Operator::start_via(&cluster, &proxy).await;
    wait_until("the first pass of the restarted operator", async || {
        passes(&operator)
            .await
            .gt(&0.0)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    only(&proxy, &["list", "watch"]);
    let audited = cluster.audit();
    let odd: Vec<_> = audited
        .iter()
        .filter(|event| {
            event.received >= since
                && event.resource != "leases"
                && !matches!(&*event.verb, "list" | "watch")
        })
        .collect();
    assert!(odd.is_empty(), "by the audit log: {odd:#?}");
    assert_same(&new, &cluster.snapshot().await, "after a restart");
}

/// Status, events and columns as users and their tools know them.
async fn says_everything(cluster: &Cluster, resource: &Value) {
    let status = &resource["status"];
    assert_eq!(
        status["observedGeneration"],
        resource["metadata"]["generation"]
    );
    for condition in status["conditions"].as_array().unwrap() {
        assert_eq!(
            condition["observedGeneration"],
            resource["metadata"]["generation"]
        );
        assert!(
            condition["lastTransitionTime"]
                .as_str()
                .unwrap()
                .parse::<Timestamp>()
                .is_ok()
        );
    }
    for version in ["operatorVersion", "observedVersion", "targetVersion"] {
        assert_eq!(status[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
    let states = component_states(resource);
    for component in [
        "namespace",
        "network-attachment-definition",
        "multus",
        "linuxBridge",
        "kubeMacPool",
        "ovs",
        "network-policy",
    ] {
        assert_eq!(states[component], "Available", "{component}");
    }
    // Each container of status is one of a workload that is there, and each workload's containers
    // are in status.
    let mut there = Vec::new();
    for (kind, name) in [
        (kinds::DAEMON_SET, "DaemonSet"),
        (kinds::DEPLOYMENT, "Deployment"),
    ] {
        for workload in cluster
            .api(kind, NAMESPACE)
            .list(&Default::default())
            .await
            .unwrap()
        {
            let workload = serde_json::to_value(workload).unwrap();
            let containers = ["initContainers", "containers"]
                .into_iter()
                .flat_map(|list| {
                    workload["spec"]["template"]["spec"][list]
                        .as_array()
                        .into_iter()
                        .flatten()
                });
            let of_operator = workload["metadata"]["name"] == OPERATOR;
            there.extend(containers.filter(|_| !of_operator).map(|container| {
                weft_plan::canonical(&json!({
                    "parentKind": name, "parentName": workload["metadata"]["name"],
                    "name": container["name"], "image": container["image"]
                }))
            }));
        }
    }
    let mut said: Vec<_> = status["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(weft_plan::canonical)
        .collect();
    there.sort();
    said.sort();
    assert_eq!(said, there);

    let columns = cluster
        .kubectl(&["get", "networkaddonsconfig", "cluster"])
        .await;
    let rows: Vec<Vec<_>> = columns
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        [
            "NAME",
            "AVAILABLE",
            "PROGRESSING",
            "DEGRADED",
            "REASON",
            "VERSION",
            "AGE"
        ]
    );
    assert_eq!(
        rows[1][..5],
        [
            "cluster",
            "True",
            "False",
            "False",
            env!("CARGO_PKG_VERSION")
        ]
    );

    let expected = ["Available", "Modified", "Progressing"];
    wait_until("the events of an installation", async || {
        let events = events(cluster).await;
        if events == expected {
            Ok(())
        } else {
            Err(format!("{events:?}"))
        }
    })
    .await;
}

/// Reasons of the events about the resource, each once. All of type Normal.
async fn events(cluster: &Cluster) -> Vec<String> {
    let path = r#"jsonpath={range .items[?(@.regarding.kind=="NetworkAddonsConfig")]}{.type} {.reason}{"\n"}{end}"#;
    let lines = cluster
        .kubectl(&[
            "get",
            "events.v1.events.k8s.io",
            "-n",
            "default",
            "-o",
            path,
        ])
        .await;
    let mut reasons: Vec<_> = lines
        .lines()
        .map(|line| line.strip_prefix("Normal ").unwrap_or(line).to_owned())
        .collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

fn component_states(resource: &Value) -> serde_json::Map<String, Value> {
    let components = resource["status"]["components"].as_array().unwrap();
    components
        .iter()
        .map(|component| {
            (
                component["name"].as_str().unwrap().to_owned(),
                component["state"].clone(),
            )
        })
        .collect()
}

/// Over several renewals of the lease, all that the operator says to the API server is that it
/// lives. The operator reads its lease after a renewal without an answer in time, which a busy
/// machine can cause, so only renewals in a row that succeed count.
pub async fn idle(cluster: &Cluster, proxy: &Proxy) {
    let renewals = |requests: &[Recorded]| {
        requests
            .iter()
            .filter(|request| request.info.resource == "leases" && request.info.verb == "update")
            .count()
    };
    wait_until("renewals of the lease in a row", async || {
        let since = restart_mark(proxy);
        proxy
            .wait_for(PATIENCE, |requests| renewals(requests) >= 2)
            .await
            .unwrap();
        // After such a read the operator may have led anew, and have looked at its resources again.
        let reads = proxy
            .requests()
            .iter()
            .filter(|request| request.info.resource == "leases" && request.info.verb == "get")
            .count();
        if reads > 0 {
            return Err(format!("the operator read its Lease {reads} times"));
        }
        only(proxy, &["watch"]);
        let (reads, others): (Vec<_>, Vec<_>) = cluster
            .audit()
            .into_iter()
            .filter(|event| {
                event.received >= since
                    && !(event.resource == "leases" && event.verb == "update")
                    && event.verb != "watch"
            })
            .partition(|event| event.resource == "leases" && event.verb == "get");
        assert!(others.is_empty(), "by the audit log: {others:#?}");
        match reads.len() {
            0 => Ok(()),
            reads => Err(format!("the operator read its lease {reads} times")),
        }
    })
    .await;
}

/// Waits until the operator is idle after a change: its events are written, and the reconcile that
/// they cause, which has nothing to do, is over.
pub async fn becomes_idle(cluster: &Cluster, proxy: &Proxy) {
    wait_until(
        "nothing is asked or written between two renewals of the lease",
        async || {
            proxy.clear();
            let lease = |request: &&Recorded| request.info.resource == "leases";
            proxy
                .wait_for(PATIENCE, |requests| {
                    requests.iter().filter(lease).count() >= 2
                })
                .await
                .map_err(|error| error.to_string())?;
            let others = proxy
                .requests()
                .iter()
                .filter(|request| request.info.resource != "leases" && request.info.verb != "watch")
                .count();
            if others == 0 {
                Ok(())
            } else {
                Err(format!("{others} requests"))
            }
        },
    )
    .await;
    idle(cluster, proxy).await;
}

/// A change of the resource that means nothing makes the operator look, and that is all.
pub async fn a_pass_writes_nothing(cluster: &Cluster, proxy: &Proxy, operator: &Operator) {
    let before = passes(operator).await;
    proxy.clear();
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"example.com/note": "hello"}}}))
        .await;
    wait_until("a pass", async || {
        passes(operator)
            .await
            .gt(&before)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"example.com/note": null}}}))
        .await;
    wait_until("another pass", async || {
        passes(operator)
            .await
            .gt(&(before + 1.0))
            .then_some(())
            .ok_or("not yet".into())
    })
    .await;
    only(proxy, &["watch"]);
}

fn restart_mark(proxy: &Proxy) -> Timestamp {
    proxy.clear();
    Timestamp::now()
}

/// Fails if there was any request but with these verbs and those of the lease.
pub fn only(proxy: &Proxy, verbs: &[&str]) {
    let odd: Vec<_> = proxy
        .requests()
        .into_iter()
        .filter(|request| {
            request.info.resource != "leases" && !verbs.contains(&&*request.info.verb)
        })
        .collect();
    let odd: Vec<_> = odd
        .iter()
        .map(|request| {
            format!(
                "{} {}?{} {}",
                request.info.verb,
                request.info.path,
                request.info.query,
                String::from_utf8_lossy(&request.body)
            )
        })
        .collect();
    assert!(
        odd.is_empty(),
        "more than {verbs:?} and the lease: {odd:#?}"
    );
}

/// How many passes it has ended.
pub async fn passes(operator: &Operator) -> f64 {
    operator.metric("weft_passes_total").await
}
