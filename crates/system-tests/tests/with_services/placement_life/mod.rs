//! The operator's PlacementAPIs with the real Placement, MariaDB and Keystone: what it has written
//! is read back from the API server and carried out as the kubelet would. `make test-placement`.
//! `scripts/test --all` leaves the module `long` out.

mod cluster;
use weft_system_tests as harness;
mod kubelet;
mod registry;
mod long {
    mod conformance;
    mod killed;
    mod registered;
    mod rotated;
}

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::services::{Conformance, MariaDb, Placement, Site};

use cluster::{get, pods, start, wait_ready};
use harness::*;

const DATABASE: &str = "openstack.openstack.svc";
/// With what breaks a URL, an INI file, and SQL that does not escape it.
const PASSWORD: &str = r#"p@ss/w\$r$${a}:d'%41"#;
const DATABASE_URL: &str = "mysql+pymysql://placement:p%40ss%2Fw%5C%24r%24%24%7Ba%7D%3Ad%27%2541@openstack.openstack.svc/placement";
/// Files of Placement's own functional suite.
const PART: [&str; 11] = [
    "aggregate.yaml",
    "allocations.yaml",
    "allocation-candidates.yaml",
    "allocations-post.yaml",
    "inventory.yaml",
    "resource-classes.yaml",
    "resource-provider.yaml",
    "resource-provider-links.yaml",
    "traits.yaml",
    "usage.yaml",
    "with-allocations.yaml",
];
/// How many requests they make.
const PART_REQUESTS: usize = 413;

/// A PlacementAPI that believes everybody, with the database.
async fn without_keystone(cluster: &Cluster, more: &Value) {
    let mut spec = json!({
        "auth": {"strategy": "noauth2"},
        "database": {"host": DATABASE, "credentialsSecret": {"name": "placement-db"}}
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    cluster::secret(
        cluster,
        "placement-db",
        &[("username", "placement"), ("password", PASSWORD)],
    )
    .await;
    cluster.apply(&cluster::placement_api(&spec)).await;
    wait_ready(cluster).await;
}

/// Has the Secret that the operator wrote at hand, and runs the Job.
async fn prepare(cluster: &Cluster, site: &Site) {
    site.keep(
        &serde_json::from_value(
            get(cluster, kinds::SECRET, "placement-config-data")
                .await
                .unwrap(),
        )
        .unwrap(),
    )
    .unwrap();
    let (job, _) = pods(cluster).await;
    for step in job.init_containers.iter().flatten().chain(&job.containers) {
        let (container, command) = site.container(&job, step).unwrap();
        site.run(
            &container,
            &command.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await
        .unwrap();
    }
}

/// Runs the container of the Deployment.
async fn serve(cluster: &Cluster, site: &Site) -> Placement {
    let (_, deployment) = pods(cluster).await;
    let (container, command) = site
        .container(&deployment, &deployment.containers[0])
        .unwrap();
    Placement::start(
        site,
        &container,
        &command.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn the_operators_files_prepare_the_database_and_pass_placements_tests() {
    let site = Site::start(&[DATABASE]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    database
        .create("placement", "placement", PASSWORD)
        .await
        .unwrap();
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    // The suite was written when an admin's role was enough for all.
    without_keystone(
        &cluster,
        &json!({"customServiceConfig": "[oslo_policy]\nenforce_new_defaults = false\n"}),
    )
    .await;

    prepare(&cluster, &site).await;
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'placement'";
    assert_eq!(database.query(tables).await.unwrap(), "13\n");
    let placement = serve(&cluster, &site).await;
    assert_eq!(
        placement.get("/resource_providers", &[]).await.unwrap().0,
        401,
        "who says nothing is nobody"
    );

    let tally = Conformance {
        site: &site,
        database_url: DATABASE_URL,
    }
    .files(&PART)
    .await
    .unwrap();
    assert_eq!(tally.passed.len(), PART.len(), "{:?}", tally.passed);
    tally.check(PART_REQUESTS).unwrap();
}
