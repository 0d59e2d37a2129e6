//! All of Placement's own tests.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::services::{Conformance, MariaDb, Policy, Site};

use crate::with_services::placement_life::{
    DATABASE, DATABASE_URL,
    cluster::{NAMESPACE, start, wait_ready},
    harness::*,
    prepare, serve, without_keystone,
};

/// How many requests the suite makes of a server with this policy.
const REQUESTS: [(Policy, usize); 4] = [
    (Policy::Default, 268),
    (Policy::Legacy, 1003),
    (Policy::Open, 41),
    (Policy::Cors, 4),
];

/// Sets a policy in a PlacementAPI.
async fn with_policy(site: &Site, policy: Policy) -> serde_json::Value {
    let legacy = "[oslo_policy]\nenforce_new_defaults = false\n";
    let (config, rules) = match policy {
        Policy::Default => (None, None),
        Policy::Legacy => (Some(legacy.to_owned()), None),
        Policy::Open => (None, Some(Policy::open_rules(site).await.unwrap())),
        Policy::Cors => {
            let cors = "[cors]\nallowed_origin = http://valid.example.com\nallow_headers = openstack-api-version\n";
            (Some(format!("{legacy}{cors}")), None)
        }
    };
    let rules = rules.map(|rules| json!({"policy.yaml": rules}));
    json!({"spec": {"customServiceConfig": config, "defaultConfigOverwrite": rules}})
}

#[tokio::test]
async fn the_operators_files_pass_all_of_placements_own_tests() {
    let site = Site::start(&[DATABASE]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    database
        .create(
            "placement",
            "placement",
            crate::with_services::placement_life::PASSWORD,
        )
        .await
        .unwrap();
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    without_keystone(&cluster, &json!({})).await;
    for (policy, requests) in REQUESTS {
        cluster
            .patch(
                kinds::PLACEMENT_API,
                NAMESPACE,
                "placement",
                with_policy(&site, policy).await,
            )
            .await;
        wait_ready(&cluster).await;
        prepare(&cluster, &site).await;
        let _placement = serve(&cluster, &site).await;
        let tally = Conformance {
            site: &site,
            database_url: DATABASE_URL,
        }
        .policy(policy)
        .await
        .unwrap();
        tally.check(requests).unwrap();
    }
    assert_eq!(
        REQUESTS.iter().map(|(_, requests)| requests).sum::<usize>(),
        1316
    );
}
