//! The operators of MariaDB, Keystone and Topology, which may come later; with the rights that Weft is shipped with for one namespace.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::{played, proxy::Proxy};

use super::{options, site::*};
use crate::{harness::*, install};

#[tokio::test]
async fn other_operators_may_come_later_and_it_is_idle_beside_them() {
    let resource = (kinds::PLACEMENT_API, NAME);
    let cluster = Cluster::start(ClusterOptions { resource, ..options() }).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    let site = Site::new(&cluster, super::NAMESPACE).await;
    site.password("12345678").await;
    site.galera().await;
    site.placement(json!({"topologyRef": {"name": "zones"}})).await;

    let way_out = "install mariadb-operator, or give spec.database instead of spec.databaseInstance";
    let message = format!("MariaDBAccount is not present: the cluster has no kind MariaDBAccount: {way_out}");
    site.wait_says("MariaDBAccountReady", "False", "Requested", &message).await;
    cluster.apply(played::MARIADB).await;
    site.plays_mariadb(ACCOUNT).await;
    site.wait_is("DBReady", "True").await;

    let way_out = "install keystone-operator, or name another Keystone in spec.keystone.external";
    let message = format!("Service config create waits for the kind KeystoneAPI: {way_out}");
    site.wait_says("ServiceConfigReady", "False", "Requested", &message).await;
    cluster.apply(played::KEYSTONE).await;
    cluster.wait_established("keystoneapis.keystone.openstack.org").await;
    site.keystone().await;

    let message =
        "Topology config create error occurred the cluster has no kind Topology: install infra-operator, or remove spec.topologyRef";
    site.wait_says("TopologyReady", "False", "Error", message).await;
    cluster.apply(played::TOPOLOGY).await;
    cluster.wait_established("topologies.topology.openstack.org").await;
    site.put(json!({"apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology", "metadata": {"name": "zones"}, "spec": {}})).await;
    site.plays_keystone().await;
    site.wait_ready().await;
    install::becomes_idle(&cluster, &proxy).await;
    install::a_pass_writes_nothing(&cluster, &proxy, &operator).await;

    // What is ours is put right, and nothing else of it is touched.
    cluster
        .patch(kinds::KEYSTONE_ENDPOINT, &site.namespace, "placement", json!({"spec": {"endpoints": {"public": "http://elsewhere"}}}))
        .await;
    let own = format!("http://placement-public.{}.svc:8778", site.namespace);
    site.wait(kinds::KEYSTONE_ENDPOINT, "placement", "is as it was", |live| live["spec"]["endpoints"]["public"] == own.as_str()).await;
    cluster.delete(kinds::KEYSTONE_SERVICE, &site.namespace, "placement").await;
    // Its finalizer is Weft's: it is gone only with the service.
    site.delete().await;
    site.wait_gone().await;
    wait_until("nothing of it is left", async || {
        let left: Vec<_> = [kinds::MARIADB_DATABASE, kinds::MARIADB_ACCOUNT, kinds::KEYSTONE_SERVICE, kinds::KEYSTONE_ENDPOINT]
            .map(async |kind| site.all(kind).await)
            .into_iter()
            .collect();
        let left: Vec<_> = futures::future::join_all(left).await.concat();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    })
    .await;
    assert!(!site.has_finalizer(kinds::TOPOLOGY, "zones", &format!("{FINALIZER}-{NAME}")).await);
}
