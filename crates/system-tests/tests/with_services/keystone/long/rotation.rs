//! The effect of a changed password on pods.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{PodSpec, Secret};
use serde_json::json;
use weft_operator::keystone::registration::account;
use weft_placement::{
    Config, Credentials, Database, Inputs, KeystoneEndpoints, objects, registration::Wanted,
};
use weft_testenv::services::Placement;
use weft_testenv::wait::wait_until;

use crate::with_services::keystone::cloud::{Cloud, DATABASE, PASSWORD, wanted};

/// Returns the files that Weft makes of these credentials.
fn made(cloud: &Cloud, credentials: Credentials) -> (Config, Inputs) {
    let spec = json!({
        "secret": "osp-secret",
        // Nothing is remembered: Placement has Keystone check the token of each request, as it does
        // with tokens that are new to it.
        "customServiceConfig": "[keystone_authtoken]\ntoken_cache_time = -1\n",
        "database": {"host": DATABASE, "credentialsSecret": {"name": "placement-db"}},
        "keystone": {
            "external": {"authURL": cloud.keystone.url()}, "registration": "Direct",
            "adminSecret": {"name": "keystone-admin"}
        },
    });
    let resource = json!({"metadata": {"name": "placement", "namespace": "cloud"}, "spec": spec});
    let config = Config::of(&serde_json::from_value(resource).unwrap()).unwrap();
    let (name, user, password) = (
        "placement".to_owned(),
        "placement".to_owned(),
        "db-password".to_owned(),
    );
    let (public, internal) = (cloud.keystone.url(), cloud.keystone.url());
    let inputs = Inputs {
        default_image: "placement-api".into(),
        database: Database::Parts {
            host: DATABASE.into(),
            port: None,
            name,
            user,
            password,
        },
        database_tls: false,
        keystone: Some((
            KeystoneEndpoints {
                public,
                internal,
                region: None,
            },
            credentials,
        )),
        mounted: BTreeMap::new(),
        networks: vec![],
        topology: None,
    };
    (config, inputs)
}

/// The pods of the Deployment, after the Job.
async fn pods(cloud: &Cloud, credentials: Credentials) -> Placement {
    let (config, inputs) = made(cloud, credentials);
    let secret: Secret = serde_json::from_value(
        objects::config_data(&config, &inputs)
            .unwrap()
            .body()
            .clone(),
    )
    .unwrap();
    cloud.site.keep(&secret).unwrap();
    let pod = |object: &weft_plan::Manifest| -> PodSpec {
        serde_json::from_value(object.body()["spec"]["template"]["spec"].clone()).unwrap()
    };
    let job = pod(&objects::preparation(&config, &inputs).unwrap());
    for step in job.init_containers.iter().flatten().chain(&job.containers) {
        let (container, command) = cloud.site.container(&job, step).unwrap();
        cloud
            .site
            .run(
                &container,
                &command.iter().map(String::as_str).collect::<Vec<_>>(),
            )
            .await
            .unwrap();
    }
    let deployment = pod(&objects::deployment(&config, &inputs).unwrap());
    let (container, command) = cloud
        .site
        .container(&deployment, &deployment.containers[0])
        .unwrap();
    Placement::start(
        &cloud.site,
        &container,
        &command.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await
    .unwrap()
}

/// A token of a client.
async fn token(cloud: &Cloud) -> String {
    let scope = json!({"project": {"name": "admin", "domain": {"id": "default"}}});
    cloud
        .keystone
        .token("admin", cloud.keystone.admin_password(), &scope)
        .await
        .unwrap()
}

/// How a request with it is answered.
async fn asked(token: &str, placement: &Placement) -> u16 {
    placement
        .get("/resource_providers", &[&format!("x-auth-token: {token}")])
        .await
        .unwrap()
        .0
}

/// An application credential of the service's user: id and secret.
async fn application_credential(cloud: &Cloud) -> Credentials {
    let scope = json!({"project": {"name": "service", "domain": {"id": "default"}}});
    let token = cloud
        .keystone
        .token("placement", PASSWORD, &scope)
        .await
        .unwrap();
    let everything = cloud.everything().await;
    let user = everything
        .values()
        .find(|one| one["name"] == "placement" && one["domain_id"] == "default")
        .unwrap();
    let body = json!({
        "application_credential": {
            "name": "pods", "roles": [{"name": "admin"}, {"name": "service"}]
        }
    });
    let path = format!(
        "/users/{}/application_credentials",
        user["id"].as_str().unwrap()
    );
    let (status, answer) = cloud
        .keystone
        .request(&token, "POST", &path, Some(&body))
        .await
        .unwrap();
    assert_eq!(status, 201, "{answer}");
    let text = |field: &str| {
        answer["application_credential"][field]
            .as_str()
            .unwrap()
            .to_owned()
    };
    Credentials::Application {
        id: text("id"),
        secret: text("secret"),
    }
}

#[tokio::test]
async fn a_new_password_spares_pods_with_an_application_credential() {
    let cloud = Cloud::start().await;
    cloud
        .database
        .create("placement", "placement", "db-password")
        .await
        .unwrap();
    let (keystone, old) = (cloud.client(), wanted());
    let new = Wanted {
        password: "another".into(),
        ..old.clone()
    };
    account(&keystone, &old).await.unwrap();

    // Under load: Placement has Keystone check each request.
    let token = token(&cloud).await;
    let placement = pods(&cloud, application_credential(&cloud).await).await;
    let good = AtomicUsize::new(0);
    let refused: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    let changes: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    let load = async || loop {
        let start = Instant::now();
        if asked(&token, &placement).await == 200 {
            good.fetch_add(1, Ordering::Relaxed);
        } else {
            refused.lock().unwrap().push((start, Instant::now()));
        }
    };
    let some_more = async || {
        let before = good.load(Ordering::Relaxed);
        wait_until("some requests are answered", async || {
            let now = good.load(Ordering::Relaxed);
            if now >= before + 5 {
                Ok(())
            } else {
                Err(format!(
                    "{now} good, {} refused",
                    refused.lock().unwrap().len()
                ))
            }
        })
        .await;
    };
    let rotations = async || {
        some_more().await;
        for password in [&new, &old] {
            let start = Instant::now();
            assert_eq!(account(&keystone, password).await.unwrap().len(), 1);
            // Keystone counts revocations in whole seconds: a token that it issued later in the
            // second of the change is revoked as well.
            changes
                .lock()
                .unwrap()
                .push((start, Instant::now() + Duration::from_secs(1)));
            some_more().await;
        }
    };
    tokio::select! {
        () = rotations() => {}
        _ = futures::future::join(load(), load()) => {}
    }
    let (refused, changes) = (refused.into_inner().unwrap(), changes.into_inner().unwrap());
    for (start, end) in refused {
        let at_a_change = changes
            .iter()
            .any(|(change, over)| start < *over && end > *change);
        assert!(
            at_a_change,
            "a request was refused while no password changed, after {good:?} that were not"
        );
    }
    drop(placement);

    // By password: right before it changes, and not after, until the pods are replaced.
    let placement = pods(&cloud, Credentials::Password(PASSWORD.to_owned())).await;
    assert_eq!(asked(&token, &placement).await, 200);
    account(&keystone, &new).await.unwrap();
    assert_eq!(asked(&token, &placement).await, 503);
    drop(placement);
    let placement = pods(&cloud, Credentials::Password("another".to_owned())).await;
    assert_eq!(asked(&token, &placement).await, 200);
}
