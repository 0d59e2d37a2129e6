//! With a Keystone, which takes half a minute to be there, and all of Placement's own tests.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use weft_plan::kinds;
use weft_testenv::services::{Conformance, Keystone, MariaDb, Policy, Site};

use crate::cluster::{NAMESPACE, get, placement_api, secret, start, wait, wait_condition, wait_ready};
use crate::harness::*;
use crate::{DATABASE, DATABASE_URL, prepare, serve, without_keystone};

/// How many requests the suite makes of a server with this policy.
const REQUESTS: [(Policy, usize); 4] = [(Policy::Default, 268), (Policy::Legacy, 1003), (Policy::Open, 41), (Policy::Cors, 4)];

/// What a PlacementAPI says for a policy.
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
async fn what_the_operator_wrote_passes_all_of_placements_own_tests() {
    let site = Site::start(&[DATABASE]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    database.create("placement", "placement", crate::PASSWORD).await.unwrap();
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    without_keystone(&cluster, &json!({})).await;
    for (policy, requests) in REQUESTS {
        cluster.patch(kinds::PLACEMENT_API, NAMESPACE, "placement", with_policy(&site, policy).await).await;
        wait_ready(&cluster).await;
        prepare(&cluster, &site).await;
        let _placement = serve(&cluster, &site).await;
        let tally = Conformance { site: &site, database_url: DATABASE_URL }.policy(policy).await.unwrap();
        tally.check(requests).unwrap();
    }
    assert_eq!(REQUESTS.iter().map(|(_, requests)| requests).sum::<usize>(), 1316);
}

const PASSWORD: &str = r#"p@ss/w\$r$${a}:"'%41"#;

/// The endpoints of Placement in Keystone, by interface.
async fn endpoints(keystone: &Keystone) -> Vec<(String, String)> {
    let token = keystone.admin_token().await.unwrap();
    let (_, services) = keystone.request(&token, "GET", "/services?type=placement", None).await.unwrap();
    let Some(service) = services["services"][0]["id"].as_str() else { return vec![] };
    let (_, answer) = keystone.request(&token, "GET", &format!("/endpoints?service_id={service}"), None).await.unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut all: Vec<_> = answer["endpoints"].as_array().unwrap().iter().map(|one| (text(&one["interface"]), text(&one["url"]))).collect();
    all.sort();
    all
}

async fn lets_in(keystone: &Keystone, password: &str) -> bool {
    let scope = json!({"project": {"name": "service", "domain": {"id": "default"}}});
    keystone.token("placement", password, &scope).await.is_ok()
}

#[tokio::test]
async fn the_operator_registers_follows_the_password_and_removes_everything() {
    let site = Site::start(&[]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    let mut keystone = Keystone::start(&site, &database).await.unwrap();
    let log = || std::fs::read_to_string(site.dir().join("keystone.log")).unwrap();
    let requests = || log().matches("HTTP/1.1\"").count();
    let cluster = start().await;
    let operator = Operator::start_default(&cluster).await;
    secret(&cluster, "placement-secret", &[("PlacementPassword", PASSWORD)]).await;
    secret(&cluster, "placement-db", &[("url", "mysql+pymysql://placement:p@db.example/placement")]).await;
    secret(&cluster, "keystone-admin", &[("username", "admin"), ("password", "wrong")]).await;
    let spec = json!({
        "secret": "placement-secret",
        "database": {"urlSecret": {"name": "placement-db"}},
        "keystone": {"external": {"authURL": keystone.url()}, "registration": "Direct", "adminSecret": {"name": "keystone-admin"}},
    });
    cluster.apply(&placement_api(&spec)).await;

    // What is wrong is said, and nothing goes on with a user that is not there.
    let refused = "does not let in user \"admin\" of domain Default to administer it (scope system): 401";
    wait_condition(&cluster, "KeystoneServiceReady", "False", refused).await;
    assert!(get(&cluster, kinds::DEPLOYMENT, "placement").await.is_none());
    secret(&cluster, "keystone-admin", &[("username", "admin"), ("password", keystone.admin_password())]).await;
    let ready = wait_ready(&cluster).await;
    assert_eq!(ready["metadata"]["finalizers"], json!(["openstack.org/placementapi"]));
    assert!(lets_in(&keystone, PASSWORD).await);
    let own = |endpoint: &str| (endpoint.to_owned(), format!("http://placement-{endpoint}.{NAMESPACE}.svc:8778"));
    assert_eq!(endpoints(&keystone).await, [own("internal"), own("public")]);

    // Nobody asks Keystone again, also not a new operator. A request comes into the log after its answer, our own last one too.
    wait_until("all requests are in the log", async || if log().contains("GET /v3/endpoints?") { Ok(()) } else { Err(log()) }).await;
    let before = requests();
    operator.kill();
    let _operator = Operator::start_default(&cluster).await;
    _operator.wait_leading().await;
    cluster.patch(kinds::PLACEMENT_API, NAMESPACE, "placement", json!({"spec": {"replicas": 2}})).await;
    wait(&cluster, "two pods are ready", |live| {
        live["status"]["readyCount"] == 2 && condition(&live["status"], "Ready")["status"] == "True"
    })
    .await;
    assert_eq!(requests(), before);

    // Another address, and another password: that is in Keystone before it is in the file.
    let url = json!({"spec": {"override": {"service": {"public": {"endpointURL": "https://placement.example"}}}}});
    cluster.patch(kinds::PLACEMENT_API, NAMESPACE, "placement", url).await;
    wait_until("the endpoint leads elsewhere", async || {
        let now = endpoints(&keystone).await;
        if now[1].1 == "https://placement.example" { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    wait_ready(&cluster).await;
    keystone.stop();
    secret(&cluster, "placement-secret", &[("PlacementPassword", "another")]).await;
    wait_condition(&cluster, "KeystoneServiceReady", "False", "does Keystone run?").await;
    let conf = async || {
        let secret = get(&cluster, kinds::SECRET, "placement-config-data").await.unwrap();
        String::from_utf8(STANDARD.decode(secret["data"]["placement.conf"].as_str().unwrap()).unwrap()).unwrap()
    };
    assert!(!conf().await.contains("another"), "pods go on with the password that Keystone knows");
    keystone.resume().await.unwrap();
    wait_ready(&cluster).await;
    assert!(conf().await.contains("another") && lets_in(&keystone, "another").await && !lets_in(&keystone, PASSWORD).await);

    // Keystone is down at the end: that is said, with the way out. When it is back, nothing stays there.
    keystone.stop();
    cluster.kubectl(&["-n", NAMESPACE, "delete", "placementapi", "placement", "--wait=false"]).await;
    let waiting = wait_condition(&cluster, "KeystoneEndpointReady", "False", "set spec.keystone.registration to None").await;
    assert!(!waiting["metadata"]["deletionTimestamp"].is_null());
    keystone.resume().await.unwrap();
    wait_until("it is gone", async || match get(&cluster, kinds::PLACEMENT_API, "placement").await {
        None => Ok(()),
        Some(live) => Err(format!("{:#}", live["status"])),
    })
    .await;
    assert_eq!(endpoints(&keystone).await, []);
    assert!(!lets_in(&keystone, "another").await);

    // Once more, and Keystone does not come back.
    cluster.apply(&placement_api(&spec)).await;
    wait_ready(&cluster).await;
    keystone.stop();
    cluster.kubectl(&["-n", NAMESPACE, "delete", "placementapi", "placement", "--wait=false"]).await;
    wait_condition(&cluster, "KeystoneEndpointReady", "False", "is tried until").await;
    cluster.patch(kinds::PLACEMENT_API, NAMESPACE, "placement", json!({"spec": {"keystone": {"registration": "None"}}})).await;
    wait_until("it is gone", async || match get(&cluster, kinds::PLACEMENT_API, "placement").await {
        None => Ok(()),
        Some(live) => Err(format!("{live:#}")),
    })
    .await;
}
