//! The database is there, and the configuration is written.

use serde_json::json;
use weft_plan::kinds;

use crate::system::placement::site::*;

pub async fn creates_mariadb_database(site: &Site<'_>) {
    site.inputs().await;
    site.placement(json!({})).await;
    let database = site.wait_there(kinds::MARIADB_DATABASE, "placement").await;
    assert_eq!(
        (
            &database["spec"]["name"],
            &database["metadata"]["labels"]["dbName"]
        ),
        (&json!("placement"), &json!("openstack"))
    );
    assert!(has_finalizer(&database, FINALIZER));
    assert_eq!(
        database["metadata"]["ownerReferences"][0]["kind"],
        "PlacementAPI"
    );
    site.wait_says(
        "DBReady",
        "False",
        "Requested",
        "DB create job still running",
    )
    .await;
    site.plays_mariadb(ACCOUNT).await;
    let live = site
        .wait_says("DBReady", "True", "Ready", "DB create completed")
        .await;
    assert_eq!(
        live["status"]["databaseHostname"],
        format!("hostname-for-openstack.{}.svc", site.namespace)
    );
}

pub async fn should_have_config_ready(site: &Site<'_>) {
    site.with_database(json!({})).await;
    site.wait_says(
        "ServiceConfigReady",
        "True",
        "Ready",
        "Service config create completed",
    )
    .await;
}

pub async fn should_create_a_configuration_secret(site: &Site<'_>) {
    // As in the original's test. Placement needs a section, which the operator writes.
    let custom = "foo = bar";
    site.with_database(json!({
        "customServiceConfig": custom,
        "defaultConfigOverwrite": {"policy.yaml": "\"placement:x\": \"@\"\n"}
    }))
    .await;
    site.wait_is("ServiceConfigReady", "True").await;
    let (conf, namespace) = (site.file("placement.conf").await, &site.namespace);
    let account = site.wait_there(kinds::MARIADB_ACCOUNT, ACCOUNT).await;
    let secret = site
        .wait_there(kinds::SECRET, &format!("{ACCOUNT}-db-secret"))
        .await;
    let (user, password) = (
        account["spec"]["userName"].as_str().unwrap(),
        decoded(&secret["data"]["DatabasePassword"]),
    );
    for line in [
        format!("auth_url = http://keystone-internal.{namespace}.svc:5000"),
        format!("www_authenticate_uri = http://keystone-public.{namespace}.svc:5000"),
        "username = placement".to_owned(),
        "password = 12345678".to_owned(),
        format!(
            "connection = mysql+pymysql://{user}:{password}@hostname-for-openstack.{namespace}.svc/placement?read_default_file=/etc/my.cnf"
        ),
    ] {
        assert!(conf.lines().any(|one| one == line), "{line}\n{conf}");
    }
    assert_eq!(site.file("custom.conf").await, "[DEFAULT]\nfoo = bar");
    assert_eq!(site.file("policy.yaml").await, "\"placement:x\": \"@\"\n");
    assert_eq!(site.file("my.cnf").await.trim(), "[client]\nssl=0");
    assert!(site.file("httpd.conf").await.contains("TimeOut 60"));
}

pub async fn should_set_region_name_in_keystone_authtoken_section(site: &Site<'_>) {
    site.with_database(json!({})).await;
    site.wait_is("ServiceConfigReady", "True").await;
    assert!(!site.file("placement.conf").await.contains("region_name"));
    // A region that comes later counts, too.
    site.says(
        kinds::KEYSTONE_API,
        "keystone",
        json!({"region": "RegionTwo"}),
    )
    .await;
    site.wait(
        kinds::SECRET,
        &format!("{NAME}-config-data"),
        "has the region",
        |secret| {
            decoded(&secret["data"]["placement.conf"])
                .lines()
                .any(|line| line == "region_name = RegionTwo")
        },
    )
    .await;
}

/// Of the original's two rules that for pods is never used, and that for security context
/// constraints only where there are such. See `becomes_openshift`.
pub async fn creates_service_account_and_on_openshift_role_and_rolebinding(site: &Site<'_>) {
    site.placement(json!({})).await;
    site.wait_says(
        "ServiceAccountReady",
        "True",
        "Ready",
        "ServiceAccount created",
    )
    .await;
    let account = site
        .wait_there(kinds::SERVICE_ACCOUNT, &format!("placement-{NAME}"))
        .await;
    assert_eq!(account["automountServiceAccountToken"], false);
    assert!(
        site.get(kinds::ROLE, &format!("placement-{NAME}-role"))
            .await
            .is_none()
    );
    assert!(
        site.get(
            kinds::ROLE_BINDING,
            &format!("placement-{NAME}-rolebinding")
        )
        .await
        .is_none()
    );
}
