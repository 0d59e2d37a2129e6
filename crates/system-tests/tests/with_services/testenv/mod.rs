//! OpenStack Placement, Keystone, MariaDB and Apache, as the other tests use them:
//! `make test-placement`. `scripts/test --all` leaves the module `long` out.

mod apache;
mod least;
mod long;

use std::path::Path;

use weft_system_tests::owner::{self, Owner};
use weft_testenv::services::{Conformance, Placement, Site};

use least::{ADMIN, DATABASE, DATABASE_URL, HTTPD, NO_AUTH, database, least_configuration};

/// Files of Placement's suite, and how many requests they make.
const PART: [&str; 12] = [
    "aggregate.yaml",
    "allocations.yaml",
    "allocation-candidates.yaml",
    "basic-http.yaml",
    "allocations-post.yaml",
    "inventory.yaml",
    "resource-classes.yaml",
    "resource-provider.yaml",
    "resource-provider-links.yaml",
    "traits.yaml",
    "usage.yaml",
    "with-allocations.yaml",
];
const PART_REQUESTS: usize = 437;
#[tokio::test]
async fn placement_passes_a_part_of_its_own_tests() {
    let site = Site::start(&[DATABASE]).unwrap();
    let mut database = database(&site).await;
    let container = least_configuration(&site, "least", NO_AUTH);
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'placement'";
    assert_eq!(database.query(tables).await.unwrap(), "0\n");
    for command in [
        &["placement-manage", "db", "sync"][..],
        &["placement-status", "upgrade", "check"],
        &["placement-manage", "db", "online_data_migrations"],
    ] {
        site.run(&container, command).await.unwrap();
    }
    assert_eq!(database.query(tables).await.unwrap(), "13\n");

    let placement = Placement::start(&site, &container, &HTTPD).await.unwrap();
    assert_eq!(
        placement.get("/resource_providers", &[]).await.unwrap().0,
        401
    );
    let (status, body) = placement
        .request(
            "POST",
            "/resource_providers",
            &ADMIN,
            Some(r#"{"name": "compute-0"}"#),
        )
        .await
        .unwrap();
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        database
            .query("SELECT name FROM placement.resource_providers")
            .await
            .unwrap(),
        "compute-0\n"
    );
    // From this machine, too.
    let url = format!("{}/", placement.url());
    let answer = tokio::process::Command::new("curl")
        .args(["--silent", &url])
        .output()
        .await
        .unwrap();
    assert!(
        String::from_utf8_lossy(&answer.stdout).contains("max_version"),
        "{answer:?}"
    );

    let suite = Conformance {
        site: &site,
        database_url: DATABASE_URL,
    };
    let tally = suite.files(&PART).await.unwrap();
    tally.check(PART_REQUESTS).unwrap();
    assert!(
        tally.check(PART_REQUESTS + 1).is_err(),
        "another count is noticed"
    );

    // The version document needs no database, the rest does.
    database.stop();
    assert_eq!(placement.get("/", &[]).await.unwrap().0, 200);
    let broken = suite.files(&["basic-http.yaml"]).await;
    assert!(
        broken.is_err() || !broken.unwrap().failed.is_empty(),
        "without a database the suite fails"
    );
    assert_eq!(
        placement
            .get("/resource_providers", &ADMIN)
            .await
            .unwrap()
            .0,
        500
    );
    database.resume().await.unwrap();
    assert_eq!(
        placement
            .get("/resource_providers", &ADMIN)
            .await
            .unwrap()
            .0,
        200
    );

    let folder = site.dir().to_owned();
    assert!(runs_with(&folder), "MariaDB names its folder");
    drop((placement, database, site));
    assert!(!runs_with(&folder) && !folder.exists());
}

/// Does a process of this machine name this folder in its arguments?
fn runs_with(folder: &Path) -> bool {
    let name = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|process| std::fs::read(process.path().join("cmdline")).unwrap_or_default())
        .any(|line| String::from_utf8_lossy(&line).contains(name))
}

#[tokio::test]
async fn a_site_is_whole_as_soon_as_it_is_there() {
    for _ in 0..20 {
        let site = Site::start(&[DATABASE]).unwrap();
        let seen = site
            .exec(&["cat", "/proc/1/comm", "/etc/hosts"], "")
            .await
            .unwrap();
        assert_eq!(seen, format!("bash\n127.0.0.1 localhost {DATABASE}\n"));
    }
}

/// The test is the owner of the site as well, in a process of its own.
#[tokio::test]
async fn a_killed_site_leaves_nothing_but_its_folder() {
    if owner::is_owner() {
        let site = Site::start(&[DATABASE]).unwrap();
        let database = database(&site).await;
        let container = least_configuration(&site, "least", NO_AUTH);
        site.run(&container, &["placement-manage", "db", "sync"])
            .await
            .unwrap();
        let placement = Placement::start(&site, &container, &HTTPD).await.unwrap();
        let folder = site.dir().to_owned();
        return owner::keep((placement, database, site), &[&folder]).await;
    }
    let test = "with_services::testenv::a_killed_site_leaves_nothing_but_its_folder";
    Owner::start(test).kill(&["mariadbd", "apache2"]).await;
}
