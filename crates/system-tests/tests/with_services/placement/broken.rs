//! The database is away, or lets nobody in: the Job says so, and goes on once it can.

use serde_json::json;
use weft_testenv::services::Site;

use crate::with_services::placement::{
    ADMIN, HOST, config_with, database, inputs, inputs_with, keep, prepare, serve,
};

#[tokio::test]
async fn a_database_that_is_down_or_refuses_is_told_and_waited_for() {
    // The images try ten times, ten seconds apart.
    let config = config_with(&json!({
        "customServiceConfig": "[placement_database]\nmax_retries = 1\nretry_interval = 1\n"
    }));
    let site = Site::start(&[HOST]).unwrap();
    let mut database = database(&site).await;
    database.stop();
    keep(&site, &config, &inputs());
    let down = prepare(&site, &config, &inputs()).await.unwrap_err();
    assert!(
        down.contains("db sync")
            && down.contains("Can't connect to MySQL server on 'openstack.cloud.svc'"),
        "{down}"
    );

    database.resume().await.unwrap();
    let wrong = inputs_with("another");
    keep(&site, &config, &wrong);
    let refused = prepare(&site, &config, &wrong).await.unwrap_err();
    assert!(
        refused.contains("(1045, \"Access denied for user 'placement'@"),
        "{refused}"
    );
    assert!(
        !refused.contains("another"),
        "a password in the log: {refused}"
    );

    keep(&site, &config, &inputs());
    prepare(&site, &config, &inputs()).await.unwrap();
    let placement = serve(&site, &config, &inputs()).await.unwrap();
    assert_eq!(
        placement
            .get("/resource_providers", &ADMIN)
            .await
            .unwrap()
            .0,
        200
    );
    // The pods stay: what they are probed for needs no database.
    database.stop();
    assert_eq!(
        placement
            .get("/resource_providers", &ADMIN)
            .await
            .unwrap()
            .0,
        500
    );
    assert_eq!(placement.get("/", &[]).await.unwrap().0, 200);
    database.resume().await.unwrap();
    assert_eq!(
        placement
            .get("/resource_providers", &ADMIN)
            .await
            .unwrap()
            .0,
        200,
        "{}",
        placement.log()
    );
}
