//! The registration in Keystone from its beginning to its end, and what becomes of it while
//! Keystone is down.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use weft_plan::kinds;
use weft_testenv::services::{Keystone, MariaDb, Site};

use crate::with_services::placement_life::{
    cluster::{
        NAMESPACE, get, placement_api, secret, start, wait, wait_condition, wait_gone, wait_ready,
    },
    harness::*,
    registry::{endpoints, lets_in},
};

const PASSWORD: &str = r#"p@ss/w\$r$${a}:"'%41"#;

#[tokio::test]
async fn the_operator_registers_follows_the_password_and_removes_everything() {
    let site = Site::start(&[]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    let mut keystone = Keystone::start(&site, &database).await.unwrap();
    let log = || std::fs::read_to_string(site.dir().join("keystone.log")).unwrap();
    let requests = || log().matches("HTTP/1.1\"").count();
    let cluster = start().await;
    let url = keystone.url();
    let environment: &[(&str, &str)] = &[("WEFT_KEYSTONE_URLS", &url)];
    let start_operator = async || {
        Operator::start(
            &cluster,
            OperatorOptions {
                environment,
                ..Default::default()
            },
        )
        .await
    };
    let operator = start_operator().await;
    secret(
        &cluster,
        "placement-secret",
        &[("PlacementPassword", PASSWORD)],
    )
    .await;
    secret(
        &cluster,
        "placement-db",
        &[("url", "mysql+pymysql://placement:p@db.example/placement")],
    )
    .await;
    secret(
        &cluster,
        "keystone-admin",
        &[("username", "admin"), ("password", "wrong")],
    )
    .await;
    let spec = json!({
        "secret": "placement-secret",
        "database": {"urlSecret": {"name": "placement-db"}},
        "keystone": {
            "external": {"authURL": keystone.url()}, "registration": "Direct",
            "adminSecret": {"name": "keystone-admin"}
        },
    });
    cluster.apply(&placement_api(&spec)).await;

    // Weft reports the mistake, and nothing continues with a missing user.
    let refused = "does not let in the user of field 'username' of secret/keystone-admin of domain Default to administer it (scope system): 401";
    wait_condition(&cluster, "KeystoneServiceReady", "False", refused).await;
    assert!(
        get(&cluster, kinds::DEPLOYMENT, "placement")
            .await
            .is_none()
    );
    secret(
        &cluster,
        "keystone-admin",
        &[
            ("username", "admin"),
            ("password", keystone.admin_password()),
        ],
    )
    .await;
    let ready = wait_ready(&cluster).await;
    assert_eq!(
        ready["metadata"]["finalizers"],
        json!(["openstack.org/placementapi"])
    );
    assert!(lets_in(&keystone, PASSWORD).await);
    let own = |endpoint: &str| {
        (
            endpoint.to_owned(),
            format!("http://placement-{endpoint}.{NAMESPACE}.svc:8778"),
        )
    };
    let lists = || log().matches("GET /v3/endpoints?").count();
    let listed = lists();
    assert_eq!(endpoints(&keystone).await, [own("internal"), own("public")]);

    // Nobody asks Keystone again, also not a new operator. A request comes into the log after its
    // answer, our own last one too.
    wait_until("all requests are in the log", async || {
        if lists() > listed { Ok(()) } else { Err(log()) }
    })
    .await;
    let before = requests();
    operator.kill();
    let _operator = start_operator().await;
    _operator.wait_leading().await;
    cluster
        .patch(
            kinds::PLACEMENT_API,
            NAMESPACE,
            "placement",
            json!({"spec": {"replicas": 2}}),
        )
        .await;
    wait(&cluster, "two pods are ready", |live| {
        live["status"]["readyCount"] == 2 && condition(&live["status"], "Ready")["status"] == "True"
    })
    .await;
    assert_eq!(requests(), before);

    // Another address, and another password: that is in Keystone before it is in the file.
    let url = json!({
        "spec": {"override": {"service": {"public": {"endpointURL": "https://placement.example"}}}}
    });
    cluster
        .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", url)
        .await;
    wait_until("the endpoint leads elsewhere", async || {
        let now = endpoints(&keystone).await;
        if now[1].1 == "https://placement.example" {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    wait_ready(&cluster).await;
    keystone.stop();
    secret(
        &cluster,
        "placement-secret",
        &[("PlacementPassword", "another")],
    )
    .await;
    wait_condition(
        &cluster,
        "KeystoneServiceReady",
        "False",
        "does Keystone run?",
    )
    .await;
    let conf = async || {
        let secret = get(&cluster, kinds::SECRET, "placement-config-data")
            .await
            .unwrap();
        String::from_utf8(
            STANDARD
                .decode(secret["data"]["placement.conf"].as_str().unwrap())
                .unwrap(),
        )
        .unwrap()
    };
    assert!(
        !conf().await.contains("another"),
        "pods go on with the password that Keystone knows"
    );
    keystone.resume().await.unwrap();
    wait_ready(&cluster).await;
    assert!(
        conf().await.contains("another")
            && lets_in(&keystone, "another").await
            && !lets_in(&keystone, PASSWORD).await
    );

    // Keystone is down at the end: that is said, with the way out. When it is back, nothing stays
    // there.
    keystone.stop();
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "delete",
            "placementapi",
            "placement",
            "--wait=false",
        ])
        .await;
    let waiting = wait_condition(
        &cluster,
        "KeystoneEndpointReady",
        "False",
        "set spec.keystone.registration to None",
    )
    .await;
    assert!(!waiting["metadata"]["deletionTimestamp"].is_null());
    keystone.resume().await.unwrap();
    wait_gone(&cluster).await;
    assert_eq!(endpoints(&keystone).await, []);
    assert!(!lets_in(&keystone, "another").await);

    // Once more, and Keystone does not come back.
    cluster.apply(&placement_api(&spec)).await;
    wait_ready(&cluster).await;
    keystone.stop();
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "delete",
            "placementapi",
            "placement",
            "--wait=false",
        ])
        .await;
    wait_condition(&cluster, "KeystoneEndpointReady", "False", "is tried until").await;
    cluster
        .patch(
            kinds::PLACEMENT_API,
            NAMESPACE,
            "placement",
            json!({"spec": {"keystone": {"registration": "None"}}}),
        )
        .await;
    wait_gone(&cluster).await;
}
