//! Without the operators of MariaDB and Keystone: none of their definitions is there.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Match, Proxy};

use super::*;
use crate::system::{
    cluster_network::{text, weft},
    install,
};

#[tokio::test]
async fn a_service_waits_for_its_secret_follows_its_password_and_is_removed() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;

    let waiting = wait_condition(
        &cluster,
        "placement",
        "InputReady",
        "False",
        "Input data resources missing: secret/placement-db",
    )
    .await;
    let conditions = waiting["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 15, "one for kstatus next to Ready");
    let with = |status: &str| {
        let all = conditions
            .iter()
            .filter(|condition| condition["status"] == status);
        all.map(|condition| condition["type"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(with("False"), ["Ready", "InputReady"]);
    assert_eq!(
        with("True"),
        [
            "RoleBindingReady",
            "RoleReady",
            "ServiceAccountReady",
            "Stalled"
        ],
        "the Secret is the user's affair"
    );
    assert_eq!(
        (
            &waiting["metadata"]["finalizers"],
            &waiting["status"]["hash"]
        ),
        (&Value::Null, &Value::Null)
    );

    // The Secret comes, by its watch.
    database(&cluster, "first").await;
    let ready = wait_ready(&cluster, "placement").await;
    assert_eq!(
        (
            &ready["status"]["readyCount"],
            &ready["status"]["databaseHostname"]
        ),
        (&json!(1), &json!("db.example"))
    );
    assert_eq!(
        ready["status"]["hash"]["input"],
        ready["status"]["appliedInputSecretHash"]
    );
    assert_eq!(
        ready["metadata"]["finalizers"],
        Value::Null,
        "nothing is to be released"
    );
    assert_eq!(ready["status"]["conditions"].as_array().unwrap().len(), 14);
    let conf = file(&cluster, "placement", "placement.conf").await;
    assert!(
        conf.contains("mysql+pymysql://placement:first@db.example/placement")
            && conf.contains("auth_strategy = noauth2"),
        "{conf}"
    );
    let deployment = get(&cluster, kinds::DEPLOYMENT, "placement").await.unwrap();
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (
            &json!("PlacementAPI"),
            &ready["metadata"]["uid"],
            &json!(true)
        )
    );
    for service in ["placement-internal", "placement-public"] {
        assert_eq!(
            get(&cluster, kinds::SERVICE, service).await.unwrap()["spec"]["selector"]["owner"],
            "placement"
        );
    }
    let columns = cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "get",
            "placementapi",
            "placement",
            "--no-headers",
        ])
        .await;
    assert!(
        columns.contains("True") && columns.contains("Setup complete"),
        "{columns}"
    );
    assert_not_warned(&cluster, &proxy);
    install::becomes_idle(&cluster, &proxy).await;
    install::a_pass_writes_nothing(&cluster, &proxy, &operator).await;

    // Another password rolls the pods. The database is prepared already.
    let (before, jobs) = (
        config_hash(&cluster, "placement").await,
        cluster
            .kubectl(&["-n", NAMESPACE, "get", "jobs", "-o", "name"])
            .await,
    );
    database(&cluster, "second").await;
    let hash = ready["status"]["appliedInputSecretHash"].clone();
    wait(
        &cluster,
        "placement",
        "all pods run with the new password",
        |live| {
            live["status"]["appliedInputSecretHash"] != hash
                && condition(&live["status"], "Ready")["status"] == "True"
        },
    )
    .await;
    assert_ne!(config_hash(&cluster, "placement").await, before);
    assert!(
        file(&cluster, "placement", "placement.conf")
            .await
            .contains(":second@")
    );
    assert_eq!(
        cluster
            .kubectl(&["-n", NAMESPACE, "get", "jobs", "-o", "name"])
            .await,
        jobs
    );

    // The operator repairs changed and deleted objects.
    cluster
        .delete(kinds::SERVICE, NAMESPACE, "placement-public")
        .await;
    cluster
        .patch(
            kinds::DEPLOYMENT,
            NAMESPACE,
            "placement",
            json!({"spec": {"replicas": 3}}),
        )
        .await;
    wait_until("both are as they were", async || {
        let deployment = get(&cluster, kinds::DEPLOYMENT, "placement")
            .await
            .ok_or("no Deployment")?;
        let service = get(&cluster, kinds::SERVICE, "placement-public").await;
        if deployment["spec"]["replicas"] == 1 && service.is_some() {
            Ok(())
        } else {
            Err(format!("{}", deployment["spec"]["replicas"]))
        }
    })
    .await;
    assert_not_warned(&cluster, &proxy);

    // The proxy does record warnings: here about a deprecated label by which a user selects nodes.
    let label = "beta.kubernetes.io/os";
    cluster
        .patch_resource(json!({"spec": {"nodeSelector": {label: "linux"}}}))
        .await;
    wait_until("the API server warns the operator", async || {
        let warnings = proxy.warnings(&Match::any().user(&cluster.operator_user()));
        if warnings.iter().any(|warning| warning.contains(label)) {
            Ok(())
        } else {
            Err(format!("{warnings:#?}"))
        }
    })
    .await;

    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "delete",
            "placementapi",
            "placement",
            "--timeout=60s",
        ])
        .await;
    wait_until("nothing is left but the user's Secret", async || {
        let left = cluster.leftovers().await;
        if left == ["Secret openstack/placement-db".to_owned()].into() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn one_deployment_serves_chosen_namespaces_and_uninstall_removes_all() {
    let manifests = &[
        "--domains",
        "addons,placement",
        "--placement-namespaces",
        "openstack,lab",
    ];
    // At the end the operator outlives its roles, as a pod may for a moment.
    let cluster = Cluster::start(ClusterOptions {
        manifests,
        may_be_forbidden: true,
        ..options()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    for namespace in ["lab", "elsewhere"] {
        cluster.kubectl(&["get", "namespace", "lab"]).await;
        let object = placement_api("placement", &standalone())
            .replace("\"openstack\"", &format!("\"{namespace}\""));
        if namespace == "elsewhere" {
            cluster.kubectl(&["create", "namespace", namespace]).await;
        }
        cluster.apply(&object).await;
    }
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_ready(&cluster, "placement").await;
    let elsewhere = cluster
        .get(kinds::PLACEMENT_API, "elsewhere", "placement")
        .await
        .unwrap();
    assert_eq!(
        elsewhere["status"],
        json!({"observedGeneration": -1}),
        "nobody serves it there"
    );

    wait_until("that of lab says what it lacks", async || {
        let live = cluster
            .get(kinds::PLACEMENT_API, "lab", "placement")
            .await
            .unwrap();
        let said = condition(&live["status"], "InputReady");
        if said["status"] == "False" {
            Ok(())
        } else {
            Err(said.to_string())
        }
    })
    .await;
    let status = weft(&cluster, &["status", "--domains", "placement"], "").await;
    let told = text(&status);
    for line in [
        "PlacementAPI openstack/placement: Ready (generation 1)",
        "PlacementAPI lab/placement: not Ready (generation 1)",
        "│ InputReady Error: Input data resources missing: secret/placement-db",
        "Deployment placement 1/1 ready",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    cluster
        .kubectl(&["delete", "namespace", "elsewhere", "--timeout=60s"])
        .await;
    let gone = weft(
        &cluster,
        &["uninstall", "--yes", "--domains", "addons,placement"],
        "",
    )
    .await;
    assert!(
        gone.status.success()
            && text(&gone).contains("removed PlacementAPI openstack/placement and its components"),
        "{}",
        text(&gone)
    );
    operator.terminate().await;
    assert!(
        get(&cluster, kinds::PLACEMENT_API, "placement")
            .await
            .is_none()
    );
    assert!(
        get(&cluster, kinds::SECRET, "placement-db").await.is_some(),
        "what is the user's stays"
    );
    for namespace in [NAMESPACE, "lab"] {
        let roles = cluster
            .kubectl(&["-n", namespace, "get", "roles,rolebindings", "-o", "name"])
            .await;
        assert_eq!(roles.trim(), "", "{namespace}");
        assert!(
            cluster.get(kinds::NAMESPACE, "", namespace).await.is_some(),
            "{namespace} is its users'"
        );
    }
    for namespace in ["weft-system", "weft-placement"] {
        assert!(
            cluster.get(kinds::NAMESPACE, "", namespace).await.is_none(),
            "{namespace}"
        );
    }
}
