//! Watches that the API server refuses: for a moment, as it does while it starts, or for as long as
//! a role is missing.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use crate::faults::{
    harness::{
        Cluster, ClusterOptions, NAMESPACE, OPERATOR_USER, Operator, PATIENCE, condition,
        wait_until, wait_within,
    },
    placement,
    scenario::{FULL, resource},
    site::{NAME, Site},
};

/// A refusal counts after two minutes.
const LASTING: Duration = Duration::from_secs(200);

/// A role of an operand.
const ROLE: &str = "multus";

fn of_operator() -> Match {
    Match::any().user(OPERATOR_USER)
}

fn watches() -> Match {
    of_operator().verb("watch")
}

async fn start() -> (Cluster, Proxy, Operator) {
    let cluster = Cluster::start(ClusterOptions {
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    (cluster, proxy, operator)
}

/// The DaemonSet comes back after it is deleted.
async fn assert_repairs(cluster: &Cluster) {
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    wait_until("multus is back", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "multus")
            .await
            .map(drop)
            .ok_or("gone".into())
    })
    .await;
}

/// The messages of all Warning events about the resource.
async fn warnings(cluster: &Cluster) -> Vec<String> {
    let events = cluster
        .kubectl(&[
            "get",
            "events",
            "-A",
            "--field-selector",
            "type=Warning",
            "-o",
            "json",
        ])
        .await;
    let events: Value = serde_json::from_str(&events).unwrap();
    let of_resource = |event: &&Value| event["involvedObject"]["kind"] == "NetworkAddonsConfig";
    events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of_resource)
        .map(|event| event["message"].to_string())
        .collect()
}

/// The names of the ClusterRoleBindings that give the operator its rights.
async fn bindings(cluster: &Cluster) -> Vec<String> {
    let all: Value = serde_json::from_str(
        &cluster
            .kubectl(&["get", "clusterrolebindings", "-o", "json"])
            .await,
    )
    .unwrap();
    let is_its = |binding: &&Value| {
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        subjects.any(|subject| {
            OPERATOR_USER
                == format!(
                    "system:serviceaccount:{}:{}",
                    subject["namespace"].as_str().unwrap_or_default(),
                    subject["name"].as_str().unwrap_or_default()
                )
        })
    };
    all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(is_its)
        .map(|binding| binding["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn watches_go_on_after_a_deleted_role_binding_is_back() {
    let (cluster, proxy, _operator) = start().await;
    let open = proxy.open_watches(&watches());
    // The rights that the operator only passes on come from another binding. It stays: if both came
    // back, the operator could write a role between them, be refused, and warn about that, as it
    // should.
    let names: Vec<_> = bindings(&cluster)
        .await
        .into_iter()
        .filter(|name| !name.ends_with("-granted"))
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    cluster
        .kubectl(&["delete", "clusterrolebinding", &names[0]])
        .await;
    // The API server goes by old bindings for a moment.
    let may_list = [
        "auth",
        "can-i",
        "list",
        "clusterroles.rbac.authorization.k8s.io",
        "--as",
        OPERATOR_USER,
    ];
    wait_until("the rights are gone", async || {
        cluster
            .control_plane
            .kubectl(&may_list)
            .await
            .err()
            .map(drop)
            .ok_or("not yet".into())
    })
    .await;
    proxy.clear();
    // The API server ends each watch after some minutes. The operator then resumes into a refusal.
    proxy.close_watches(&watches());
    let refused = |requests: &[weft_testenv::proxy::Recorded], verb: &str| {
        requests.iter().any(|one| {
            of_operator()
                .verb(verb)
                .resource("clusterroles")
                .selects(&one.info)
                && one.code == Some(403)
        })
    };
    proxy
        .wait_for(PATIENCE, |requests| {
            refused(requests, "watch") && refused(requests, "list")
        })
        .await
        .unwrap();
    // Nobody reports this to the operator.
    cluster.delete(kinds::CLUSTER_ROLE, "", ROLE).await;
    cluster
        .apply_manifests(&["--split", "--domains", "addons"])
        .await;
    wait_until("the role is back", async || {
        cluster
            .get(kinds::CLUSTER_ROLE, "", ROLE)
            .await
            .map(drop)
            .ok_or("gone".into())
    })
    .await;
    wait_until("everything is watched again", async || {
        match proxy.open_watches(&watches()) {
            now if now >= open => Ok(()),
            now => Err(format!("{now} of {open}")),
        }
    })
    .await;
    let resource = cluster.wait_available().await;
    assert_eq!(condition(&resource["status"], "Blocked"), Value::Null);
    assert_repairs(&cluster).await;
    assert_eq!(
        warnings(&cluster).await,
        [""; 0],
        "a refusal of some seconds is worth no warning"
    );
}

#[tokio::test]
async fn a_refused_or_expired_watch_lists_again_at_once() {
    let (cluster, proxy, _operator) = start().await;
    for code in [403, 410] {
        println!("{code}");
        let open = proxy.open_watches(&watches());
        proxy.clear();
        // An API server that has just started refuses the first request of each stream.
        let refusal = proxy.inject(watches(), Fault::status(code));
        proxy.close_watches(&watches());
        refusal.wait_hits(open, PATIENCE).await.unwrap();
        refusal.remove();
        wait_until("everything is listed and watched again", async || {
            let open_again = proxy.open_watches(&watches());
            let lists = proxy
                .requests()
                .iter()
                .filter(|one| of_operator().verb("list").selects(&one.info))
                .count();
            if open_again >= open && lists >= open {
                Ok(())
            } else {
                Err(format!("{lists} lists, {open_again} watches of {open}"))
            }
        })
        .await;
        assert_repairs(&cluster).await;
    }
    cluster.wait_available().await;
    assert_eq!(warnings(&cluster).await, [""; 0]);
}

#[tokio::test]
async fn available_is_unknown_while_a_refusal_blocks_the_domain() {
    let (cluster, proxy, _operator) = start().await;
    cluster.wait_available().await;
    // By these the operator sees whether another operator runs.
    let deployments = |verb: &str| {
        of_operator()
            .verb(verb)
            .resource("deployments")
            .namespace("")
    };
    let refusals =
        ["watch", "list"].map(|verb| proxy.inject(deployments(verb), Fault::status(403)));
    assert!(proxy.close_watches(&deployments("watch")) > 0);
    let blocked = wait_within(LASTING, "the domain is blocked", async || {
        let status = cluster.status().await;
        if condition(&status, "Blocked")["status"] == "True" {
            Ok(status)
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    assert_eq!(condition(&blocked, "Blocked")["reason"], "Forbidden");
    let available = condition(&blocked, "Available");
    assert_eq!(
        (&available["status"], &available["reason"]),
        (&"Unknown".into(), &"Forbidden".into()),
        "{blocked:#}"
    );
    refusals.iter().for_each(|refusal| refusal.remove());
    let resource = cluster.wait_available().await;
    assert_eq!(condition(&resource["status"], "Blocked"), Value::Null);
    assert_repairs(&cluster).await;
}

#[tokio::test]
async fn a_placement_api_is_not_ready_while_its_domain_is_blocked() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, NAME),
        resource_namespace: placement::SPACE,
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let site = Site::new(&cluster, placement::SPACE).await;
    placement::prepare(&site, &placement::ALONE).await;
    placement::Step::Install.begin(&site).await;
    placement::Step::Install
        .finish(&site, &BTreeSet::new())
        .await;
    let deployments = |verb: &str| {
        Match::any()
            .user(placement::USER)
            .verb(verb)
            .resource("deployments")
            .namespace("")
    };
    let refusals =
        ["watch", "list"].map(|verb| proxy.inject(deployments(verb), Fault::status(403)));
    assert!(proxy.close_watches(&deployments("watch")) > 0);
    let blocked = wait_within(LASTING, "Ready is unknown", async || {
        let status = site.get(kinds::PLACEMENT_API, NAME).await.unwrap()["status"].take();
        if condition(&status, "Ready")["status"] == "Unknown" {
            Ok(status)
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    assert_eq!(condition(&blocked, "Ready")["reason"], "Forbidden");
    assert_eq!(
        condition(&blocked, "DeploymentReady")["status"],
        "True",
        "the last that is known"
    );
    refusals.iter().for_each(|refusal| refusal.remove());
    site.wait_ready().await;
}
