//! `weft uninstall` while the Keystone of a PlacementAPI cannot be reached. The operator tries it for
//! five minutes before it lets the PlacementAPI go, so the command has to report that cause.

use serde_json::json;
use tokio::net::TcpSocket;
use weft_plan::kinds;

use super::step;
use crate::commands::{harness::*, user::*};

const SPACE: &str = "openstack";

/// An operator of placement, and a PlacementAPI that it registers at a Keystone that cannot be
/// reached. `is_listed`: the operator's administrator permits the address, so that status has the
/// details.
async fn start(url: &str, is_listed: bool) -> (Cluster, Operator) {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, "placement"),
        resource_namespace: SPACE,
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let listed = [("WEFT_KEYSTONE_URLS", url)];
    let operator = Operator::start(
        &cluster,
        OperatorOptions {
            environment: if is_listed { &listed } else { &[] },
            ..Default::default()
        },
    )
    .await;
    let secret = |name: &str, values: serde_json::Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": values, "metadata": {
            "name": name, "namespace": SPACE, "annotations": {"weft.network/keystone-url": url}
        }})
    };
    let resource = json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": {"name": "placement", "namespace": SPACE},
        "spec": {
            "secret": "osp", "database": {"urlSecret": {"name": "db"}},
            "keystone": {
                "external": {"authURL": url}, "registration": "Direct",
                "adminSecret": {"name": "admin"}
            }
        }
    });
    for object in [
        secret("osp", json!({"PlacementPassword": "12345678"})),
        secret(
            "db",
            json!({"url": "mysql+pymysql://placement:p@db.example/placement"}),
        ),
        secret(
            "admin",
            json!({"username": "admin", "password": "12345678"}),
        ),
        resource,
    ] {
        cluster.apply(&object.to_string()).await;
    }
    wait_until("the operator asks Keystone", async || {
        let live = cluster.resource().await.ok_or("it is not there")?;
        let step = condition(&live["status"], "KeystoneServiceReady");
        let message = step["message"].as_str().unwrap_or_default();
        if step["status"] == "False" && message.contains(url) {
            Ok(())
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await;
    (cluster, operator)
}

/// Uninstalls, and waits until the command reports this cause.
async fn reports(is_listed: bool, cause: &str) {
    // Bound and not listening: the kernel refuses each connection, and no other process gets the
    // port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let (cluster, _operator) = start(&url, is_listed).await;
    let mut uninstall = Running::weft(cluster.control_plane.kubeconfig(), &["uninstall", "--yes"]);
    let mut stderr = uninstall.stderr();
    let line = stderr.wait(cause).await;
    assert!(line.contains(&url), "{line}");
    let way_out = "set spec.keystone.registration to None";
    assert!(line.contains(way_out), "{line}");

    // One that does not wait so long ends with the same cause.
    let late = weft(
        &cluster,
        &["uninstall", "--yes", "--timeout", "1s", "-o", "json"],
    )
    .await
    .ended(2);
    let document = late.json();
    assert_eq!(document["verdict"], "Waiting");
    let waits_for = document["waitsFor"].as_str().unwrap();
    assert!(
        waits_for.contains(cause) && waits_for.contains(&url),
        "{document:#}"
    );
    assert!(late.stderr.contains(cause), "{}", late.stderr);
    assert_eq!(step(&document, "PlacementAPI", "placement")["done"], false);
    assert!(
        cluster
            .get(
                kinds::DEPLOYMENT,
                "weft-placement",
                "weft-placement-operator"
            )
            .await
            .is_some(),
        "the operator stays as long as it has work"
    );

    // The way out that the cause names ends the wait.
    cluster
        .patch_resource(json!({"spec": {"keystone": {"registration": "None"}}}))
        .await;
    assert_eq!(uninstall.ended().await, Some(0), "{}", stderr.rest().await);
}

#[tokio::test]
async fn it_reports_a_listed_keystone_that_refuses_connections() {
    reports(true, "onnection refused").await;
}

/// Its author may not know why a port does not answer, and gets the same text for each reason.
#[tokio::test]
async fn it_reports_another_keystone_that_does_not_answer() {
    reports(false, "does not answer as Keystone does").await;
}
