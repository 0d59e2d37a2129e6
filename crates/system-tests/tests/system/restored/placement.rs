//! PlacementAPI, one that needs no other operator.

use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{restore, set_image, wait_same};
use crate::system::{
    harness::*,
    placement::{NAMESPACE, database, file, placement_api, standalone, start, wait, wait_ready},
};

/// Waits until the service's pods run with this password of the database.
async fn wait_password(cluster: &Cluster, password: &str) {
    wait_until(
        &format!("the service has the password {password:?}"),
        async || {
            let conf = file(cluster, "placement", "placement.conf").await;
            if conf.contains(&format!(":{password}@")) {
                Ok(())
            } else {
                Err(conf)
            }
        },
    )
    .await;
    wait(cluster, "placement", "all pods run with it", |live| {
        live["status"]["hash"]["input"] == live["status"]["appliedInputSecretHash"]
            && condition(&live["status"], "Ready")["status"] == "True"
    })
    .await;
}

#[tokio::test]
async fn a_service_goes_on_from_a_restored_backup() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_ready(&cluster, "placement").await;
    wait_password(&cluster, "first").await;
    let expected = cluster.snapshot().await;
    let backup = cluster.control_plane.snapshot().await.unwrap();
    for password in ["second", "third"] {
        database(&cluster, password).await;
        wait_password(&cluster, password).await;
    }

    let lost = restore(&cluster, &proxy, &backup, async {
        set_image(&cluster, NAMESPACE, "deployment/placement").await;
    })
    .await;
    cluster
        .delete(kinds::SERVICE, NAMESPACE, "placement-internal")
        .await;
    cluster
        .delete(kinds::SECRET, NAMESPACE, "placement-config-data")
        .await;
    wait_same(&cluster, &expected).await;
    wait_password(&cluster, "first").await;

    // A password of the lost future, which the operator has used once.
    database(&cluster, "third").await;
    wait_password(&cluster, "third").await;
    lost.assert_not_reached(&cluster).await;
}
