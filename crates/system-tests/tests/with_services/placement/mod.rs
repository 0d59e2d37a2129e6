//! The objects carried out: the Job's containers prepare a real MariaDB, and that of the Deployment
//! serves the real Placement, each with nothing but the files, mounts and commands that its pod
//! has.

mod broken;
#[path = "../../../../placement/src/hazards.rs"]
mod hazards;
mod killed;
mod rights;
mod tls;
mod values;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, Secret};
use serde_json::{Value, json};
use weft_placement::{
    Config, Database, Inputs,
    objects::{config_data, deployment, preparation},
};
use weft_plan::Manifest;
use weft_testenv::services::{MariaDb, Placement, Site};

const HOST: &str = "openstack.cloud.svc";
/// With what breaks a URL, an INI file, and SQL that does not escape it.
const PASSWORD: &str = r#" p@ss/w\$r$${a}:d'%41" "#;
const ADMIN: [&str; 2] = [
    "x-auth-token: admin",
    "openstack-api-version: placement 1.39",
];

fn config() -> Config {
    config_with(&json!({
        "customServiceConfig": "[placement]\nincomplete_consumer_project_id = 11111111-1111-1111-1111-111111111111\n",
        "defaultConfigOverwrite": {"policy.yaml": "\"placement:traits:list\": \"!\"\n"},
    }))
}

fn config_with(more: &Value) -> Config {
    let mut spec = json!({
        "auth": {"strategy": "noauth2"},
        "database": {"host": HOST, "credentialsSecret": {"name": "placement-db"}}
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let resource = json!({"metadata": {"name": "placement", "namespace": "cloud"}, "spec": spec});
    Config::of(&serde_json::from_value(resource).unwrap()).unwrap()
}

fn inputs() -> Inputs {
    inputs_with(PASSWORD)
}

fn inputs_with(password: &str) -> Inputs {
    let database = Database::Parts {
        host: HOST.into(),
        port: None,
        name: "placement".into(),
        user: "placement".into(),
        password: password.into(),
    };
    Inputs {
        default_image: "placement-api".into(),
        database,
        database_tls: false,
        keystone: None,
        mounted: BTreeMap::new(),
        networks: vec![],
        topology: None,
    }
}

fn pod(object: &Manifest) -> PodSpec {
    serde_json::from_value(object.body()["spec"]["template"]["spec"].clone()).unwrap()
}

fn keep(site: &Site, config: &Config, inputs: &Inputs) {
    let secret: Secret =
        serde_json::from_value(config_data(config, inputs).unwrap().body().clone()).unwrap();
    site.keep(&secret).unwrap();
}

async fn database(site: &Site) -> MariaDb {
    let database = MariaDb::start(site).await.unwrap();
    database
        .create("placement", "placement", PASSWORD)
        .await
        .unwrap();
    database
}

/// Runs the Job.
async fn prepare(site: &Site, config: &Config, inputs: &Inputs) -> Result<(), String> {
    let job = pod(&preparation(config, inputs).unwrap());
    for step in job.init_containers.iter().flatten().chain(&job.containers) {
        let (container, command) = site.container(&job, step).unwrap();
        site.run(&container, &words(&command))
            .await
            .map_err(|error| format!("{error:#}"))?;
    }
    Ok(())
}

/// Runs the container of the Deployment.
async fn serve(site: &Site, config: &Config, inputs: &Inputs) -> Result<Placement, String> {
    let pod = pod(&deployment(config, inputs).unwrap());
    let (container, command) = site.container(&pod, &pod.containers[0]).unwrap();
    Placement::start(site, &container, &words(&command))
        .await
        .map_err(|error| format!("{error:#}"))
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn the_job_prepares_the_database_and_the_deployment_serves_placement() {
    let (config, inputs) = (config(), inputs());
    let site = Site::start(&[HOST]).unwrap();
    let database = database(&site).await;
    keep(&site, &config, &inputs);

    // Twice, as a pod that is started again does.
    prepare(&site, &config, &inputs).await.unwrap();
    prepare(&site, &config, &inputs).await.unwrap();
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'placement'";
    assert_eq!(database.query(tables).await.unwrap(), "13\n");

    let placement = serve(&site, &config, &inputs).await.unwrap();
    let (status, body) = placement
        .request(
            "POST",
            "/resource_providers",
            &ADMIN,
            Some(r#"{"name": "compute-0"}"#),
        )
        .await
        .unwrap();
    assert_eq!(status, 200, "{body}\n{}", placement.log());
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["name"],
        "compute-0"
    );
    assert_eq!(
        placement.get("/resource_providers", &[]).await.unwrap().0,
        401,
        "who says nothing is nobody"
    );
    // The policy that takes the place of Placement's own forbids everybody to list traits.
    assert_eq!(placement.get("/traits", &ADMIN).await.unwrap().0, 403);
    assert_eq!(
        database
            .query("SELECT name FROM placement.resource_providers")
            .await
            .unwrap(),
        "compute-0\n"
    );
}
