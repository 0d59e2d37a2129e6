//! A policy goes over the nodes, never over too many at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, pin_mut};
use kube::runtime::watcher;
use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{
    condition, link, wait_enactment, wait_policy, wait_quiet, wait_reported, writes,
};

fn bridge(name: &str, extra: &Value) -> String {
    let mut policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
        "spec": {"desiredState": {"interfaces": [{"name": name, "type": "linux-bridge", "state": "up", "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
            "bridge": {"options": {"stp": {"enabled": false}}, "port": []}}]}},
    });
    for (field, value) in extra.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    policy.to_string()
}

/// How many enactments were in progress at the same time, at most, by every event of a watch.
async fn watch_progress(
    weft: &Installation,
    most: Arc<Mutex<usize>>,
) -> tokio::task::JoinHandle<()> {
    let api = weft.api("nnce").unwrap();
    tokio::spawn(async move {
        let mut progressing = BTreeMap::new();
        let stream = watcher(api, watcher::Config::default());
        pin_mut!(stream);
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    let object = serde_json::to_value(object).unwrap();
                    let runs = condition(&object, "Progressing")["status"] == "True";
                    progressing.insert(
                        object["metadata"]["name"].as_str().unwrap().to_owned(),
                        runs,
                    );
                }
                Ok(watcher::Event::Delete(object)) => {
                    progressing.remove(&object.metadata.name.unwrap());
                }
                _ => {}
            }
            let now = progressing.values().filter(|runs| **runs).count();
            let mut most = most.lock().unwrap();
            *most = now.max(*most);
        }
    })
}

#[tokio::test]
async fn a_rollout_respects_the_limit_and_stops_after_a_failure() {
    let weft = Installation::start(HostLab::builder().hosts(3).cards(2))
        .await
        .unwrap();
    let most = Arc::new(Mutex::new(0));
    let watch = watch_progress(&weft, most.clone()).await;
    weft.apply(&bridge("br-one", &json!({"maxUnavailable": 1})))
        .await
        .unwrap();
    wait_policy(&weft, "br-one", "Available").await;
    for host in weft.lab().hosts() {
        assert_eq!(
            link(host, "br-one").await["linkinfo"]["info_kind"],
            "bridge",
            "on {}",
            host.name()
        );
    }
    assert_eq!(*most.lock().unwrap(), 1, "one after the other");

    // A port that no node has: one node tries it, the others are left alone.
    let broken = json!({"maxUnavailable": 1, "desiredState": {"interfaces": [{"name": "br-two", "type": "linux-bridge", "state": "up",
        "bridge": {"port": [{"name": "eth9", "vlan": {}}]}}]}});
    weft.apply(&bridge("br-two", &broken)).await.unwrap();
    let failed = wait_policy(&weft, "br-two", "Degraded").await;
    let message = condition(&failed, "Degraded")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("1/3 nodes failed to configure"),
        "{message}"
    );
    for host in weft.lab().hosts() {
        assert!(link(host, "br-two").await.is_null(), "on {}", host.name());
    }
    let failing = futures::future::select_all(
        weft.lab()
            .hosts()
            .iter()
            .map(|host| Box::pin(wait_enactment(&weft, host.name(), "br-two", "Failing"))),
    )
    .await
    .0;
    assert!(
        failing["status"]["outcome"]["message"]
            .as_str()
            .unwrap()
            .contains("eth9"),
        "{:#}",
        failing["status"]
    );

    // A new generation takes its place on all of them.
    weft.apply(&bridge("br-two", &json!({"maxUnavailable": "100%"})))
        .await
        .unwrap();
    wait_policy(&weft, "br-two", "Available").await;
    for host in weft.lab().hosts() {
        assert_eq!(
            link(host, "br-two").await["linkinfo"]["info_kind"],
            "bridge",
            "on {}",
            host.name()
        );
    }
    watch.abort();
}

/// The writes for a policy and a node: the node's enactment, and the node's state after it.
#[tokio::test]
async fn a_policy_takes_few_writes_on_each_node() {
    let weft = Installation::start(HostLab::builder().hosts(3).cards(1))
        .await
        .unwrap();
    // Without it half of the nodes would wait.
    weft.patch(
        "nmstate",
        "nmstate",
        &json!({"spec": {"maxUnavailable": "100%"}}),
    )
    .await
    .unwrap();
    for host in weft.lab().hosts() {
        wait_reported(&weft, host.name(), "eth0", |eth0| eth0["state"] == "up").await;
    }
    for (name, at_once, most) in [("br-all", json!("100%"), 4), ("br-one", json!(1), 6)] {
        let before = wait_quiet(&weft).await;
        weft.apply(&bridge(name, &json!({"maxUnavailable": at_once})))
            .await
            .unwrap();
        wait_policy(&weft, name, "Available").await;
        wait_quiet(&weft).await;
        let written = &writes(&weft)[before..];
        for host in weft.lab().hosts() {
            let enactment = format!("{}.{name}", host.name());
            let of_node: Vec<_> = written
                .iter()
                .filter(|event| {
                    event.name == enactment
                        || event.name == host.name() && event.resource == "nodenetworkstates"
                })
                .map(|event| format!("{} {} {}", event.user, event.verb, event.uri))
                .collect();
            println!("{name} on {}: {} writes", host.name(), of_node.len());
            assert!((3..=most).contains(&of_node.len()), "{name}: {of_node:#?}");
        }
        let of_policy: Vec<_> = written
            .iter()
            .filter(|event| event.resource == "nodenetworkconfigurationpolicies")
            .collect();
        println!("{name}: {} writes of the policy's status", of_policy.len());
        assert!(
            (1..=weft.lab().hosts().len() + 2).contains(&of_policy.len()),
            "not one for each enactment's: {of_policy:#?}"
        );
    }
}
