//! What takes minutes.

use std::fs;

use weft_testenv::services::{Conformance, Container, Placement, Policy, Site};

use crate::least::{DATABASE, DATABASE_URL, HTTPD, NO_AUTH, database, least_configuration};

const REQUESTS: [(Policy, usize); 4] = [(Policy::Default, 0), (Policy::Legacy, 0), (Policy::Open, 0), (Policy::Cors, 0)];

/// The least configuration with this policy.
async fn with_policy(site: &Site, policy: Policy) -> Container {
    let more = match policy {
        Policy::Default => "",
        Policy::Legacy => "[oslo_policy]\nenforce_new_defaults = false\n",
        Policy::Open => "[oslo_policy]\npolicy_file = /etc/placement/policy.yaml\n",
        Policy::Cors => {
            "[oslo_policy]\nenforce_new_defaults = false\n[cors]\nallowed_origin = http://valid.example.com\nallow_headers = openstack-api-version\n"
        }
    };
    let name = format!("{policy:?}");
    let container = least_configuration(site, &name, &format!("{NO_AUTH}{more}"));
    if policy != Policy::Open {
        return container;
    }
    let file = site.dir().join(name).join("policy.yaml");
    fs::write(&file, Policy::open_rules(site).await.unwrap()).unwrap();
    container.mount(file, "/etc/placement/policy.yaml")
}

#[tokio::test]
async fn placement_passes_all_of_its_own_tests() {
    let site = Site::start(&[DATABASE]).unwrap();
    let _database = database(&site).await;
    let mut report = vec![];
    for (policy, requests) in REQUESTS {
        let container = with_policy(&site, policy).await;
        site.run(&container, &["placement-manage", "db", "sync"]).await.unwrap();
        let _placement = Placement::start(&site, &container, &HTTPD).await.unwrap();
        let tally = Conformance { site: &site, database_url: DATABASE_URL }.policy(policy).await.unwrap();
        report.push((policy, tally.total(), tally.check(requests)));
    }
    fs::write("/tmp/weft/plreal/all.txt", format!("{report:#?}")).unwrap();
    assert_eq!(report.iter().map(|(_, requests, _)| requests).sum::<usize>(), 1316);
}
