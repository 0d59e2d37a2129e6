//! The operator's PlacementAPIs with the real Placement, MariaDB and Keystone: what it has written is read back from the API server and carried out as
//! the kubelet would. `make test-placement`; the module `long` is left out of `make test`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster;
#[path = "../harness/mod.rs"]
mod harness;
mod long;

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::services::{Conformance, MariaDb, Placement, Site};

use cluster::{get, pods, start, wait_ready};
use harness::*;

const DATABASE: &str = "openstack.openstack.svc";
/// With what breaks a URL, an INI file, and SQL that does not escape it.
const PASSWORD: &str = r#"p@ss/w\$r$${a}:d'%41"#;
const DATABASE_URL: &str = "mysql+pymysql://placement:p%40ss%2Fw%5C%24r%24%24%7Ba%7D%3Ad%27%2541@openstack.openstack.svc/placement";
/// Files of Placement's own functional suite that need its usual policy, and how many requests they make.
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

#[tokio::test]
async fn what_the_operator_wrote_prepares_the_database_and_passes_placements_own_tests() {
    let site = Site::start(&[DATABASE]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    database.create("placement", "placement", PASSWORD).await.unwrap();
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    let spec = json!({
        "auth": {"strategy": "noauth2"},
        "database": {"host": DATABASE, "credentialsSecret": {"name": "placement-db"}},
        // The suite was written when an admin's role was enough for all.
        "customServiceConfig": "[oslo_policy]\nenforce_new_defaults = false\n",
    });
    cluster::secret(&cluster, "placement-db", &[("username", "placement"), ("password", PASSWORD)]).await;
    cluster.apply(&cluster::placement_api(&spec)).await;
    wait_ready(&cluster).await;

    site.keep(&serde_json::from_value(get(&cluster, kinds::SECRET, "placement-config-data").await.unwrap()).unwrap()).unwrap();
    let (job, deployment) = pods(&cluster).await;
    for step in job.init_containers.iter().flatten().chain(&job.containers) {
        let (container, command) = site.container(&job, step).unwrap();
        site.run(&container, &command.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
    }
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'placement'";
    assert_eq!(database.query(tables).await.unwrap(), "13\n");
    let (container, command) = site.container(&deployment, &deployment.containers[0]).unwrap();
    let placement = Placement::start(&site, &container, &command.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(placement.get("/resource_providers", &[]).await.unwrap().0, 401, "who says nothing is nobody");

    let tally = Conformance { site: &site, database_url: DATABASE_URL }.files(&PART).await.unwrap();
    assert_eq!(tally.passed.len(), PART.len(), "{:?}", tally.passed);
    tally.check(tally.total()).unwrap();
    assert!(tally.total() > 400, "{}", tally.total());
}
