//! Requests to other operators and their answers, in the form that a real API server accepts.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_placement::{
    Config,
    conditions::State,
    peers::{
        database::{self, RandomBytes},
        keystone, topology,
    },
};
use weft_testenv::{ControlPlane, played, wait::wait_until};

const NAMESPACE: &str = "openstack";

fn config() -> Config {
    let resource = json!({"metadata": {"name": "placement", "namespace": NAMESPACE},
    "spec": {
        "databaseInstance": "openstack", "secret": "osp-secret",
        "tls": {"caBundleSecretName": "bundle"}
    }});
    Config::of(&serde_json::from_value(resource).unwrap()).unwrap()
}

async fn apply(cluster: &ControlPlane, object: &Value) -> Value {
    let args = [
        "apply",
        "--server-side",
        "--validate=strict",
        "--field-manager=weft",
        "-o",
        "json",
        "-f",
        "-",
    ];
    serde_json::from_str(
        &cluster
            .kubectl_with_input(&args, &object.to_string())
            .await
            .unwrap(),
    )
    .unwrap()
}

/// Writes the status that the operator of a kind reports about an object.
async fn says(cluster: &ControlPlane, resource: &str, name: &str, status: Value) -> Value {
    let patch = json!({"status": status}).to_string();
    let args = [
        "patch",
        resource,
        name,
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
        "-o",
        "json",
    ];
    serde_json::from_str(&cluster.kubectl(&args).await.unwrap()).unwrap()
}

fn is_true(name: &str) -> Value {
    json!([
        {
            "type": name, "status": "True", "reason": "Ready", "message": "Setup complete",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }
    ])
}

#[tokio::test]
async fn requests_to_other_operators_are_accepted_and_answers_read() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    for definitions in [played::MARIADB, played::KEYSTONE, played::TOPOLOGY] {
        cluster
            .kubectl_with_input(&["create", "-f", "-"], definitions)
            .await
            .unwrap();
    }
    cluster
        .kubectl(&["create", "namespace", NAMESPACE])
        .await
        .unwrap();
    wait_until("their kinds are served", async || {
        let groups = [
            "mariadb.openstack.org",
            "keystone.openstack.org",
            "topology.openstack.org",
        ];
        let served = cluster
            .kubectl(&["api-resources", "-o", "name"])
            .await
            .map_err(|error| error.to_string())?;
        let count = served
            .lines()
            .filter(|name| groups.iter().any(|group| name.ends_with(group)))
            .count();
        if count == 6 { Ok(()) } else { Err(served) }
    })
    .await;

    let config = config();
    let random = RandomBytes {
        user: [1, 2],
        password: [3; 16],
    };
    let secret = apply(
        &cluster,
        database::secret(&config, None, None, random)
            .unwrap()
            .body(),
    )
    .await;
    let account = apply(
        &cluster,
        database::account(&config, None, random).unwrap().body(),
    )
    .await;
    let made = apply(&cluster, database::database(&config, None).unwrap().body()).await;
    assert_eq!(
        made["spec"]["defaultCharacterSet"], "utf8",
        "the definition has their defaults"
    );
    assert_eq!(database::complete(&account, Some(&secret)), Ok(()));
    // The live object with its defaults is the wanted one from then on: an apply changes nothing.
    for (live, again) in [
        (
            &account,
            database::account(
                &config,
                Some(&account),
                RandomBytes {
                    user: [9; 2],
                    password: [9; 16],
                },
            )
            .unwrap(),
        ),
        (&made, database::database(&config, Some(&made)).unwrap()),
        (
            &secret,
            database::secret(
                &config,
                Some(&account),
                Some(&secret),
                RandomBytes {
                    user: [9; 2],
                    password: [9; 16],
                },
            )
            .unwrap(),
        ),
    ] {
        let now = apply(&cluster, again.body()).await;
        assert_eq!((&now["spec"], &now["data"]), (&live["spec"], &live["data"]));
    }
    let host = || "openstack.openstack.svc".to_owned();
    assert_eq!(
        database::ready(&config, host(), &made, &account, &secret),
        Err(State::requested(database::RUNNING))
    );
    let made = says(
        &cluster,
        "mariadbdatabase",
        "placement",
        json!({
            "conditions": is_true("MariaDBDatabaseReady"), "tlsSupport": true, "completed": true
        }),
    )
    .await;
    let account = says(
        &cluster,
        "mariadbaccount",
        "placement",
        json!({"conditions": is_true("MariaDBAccountReady")}),
    )
    .await;
    let ready = database::ready(&config, host(), &made, &account, &secret).unwrap();
    assert!(ready.tls);
    assert_eq!(
        ready.database.url().unwrap(),
        "mysql+pymysql://placement_0102:03030303030303030303030303030303@openstack.openstack.svc/placement?read_default_file=/etc/my.cnf"
    );

    let api = json!({"apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI", "metadata": {"name": "keystone", "namespace": NAMESPACE},
    "spec": {
        "containerImage": "k", "databaseInstance": "openstack",
        "memcachedInstance": "memcached", "secret": "osp-secret"
    }});
    apply(&cluster, &api).await;
    let addresses = json!({
        "public": "http://keystone-public.openstack.svc:5000",
        "internal": "http://keystone-internal.openstack.svc:5000"
    });
    let api = says(
        &cluster,
        "keystoneapi",
        "keystone",
        json!({"apiEndpoints": addresses, "region": "regionOne"}),
    )
    .await;
    assert_eq!(
        keystone::endpoints(&config, true, &[Arc::new(api)])
            .unwrap()
            .region
            .as_deref(),
        Some("regionOne")
    );
    for (object, resource) in [
        (keystone::service(&config).unwrap(), "keystoneservice"),
        (keystone::endpoint(&config).unwrap(), "keystoneendpoint"),
    ] {
        let made = apply(&cluster, object.body()).await;
        assert_eq!(keystone::registered(&made), None);
        let made = says(
            &cluster,
            resource,
            "placement",
            json!({"conditions": is_true("Ready"), "observedGeneration": 1}),
        )
        .await;
        assert_eq!(
            keystone::registered(&made),
            Some(State::ready("Setup complete"))
        );
    }

    let spread = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule"
    });
    let zones = json!({"apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology", "metadata": {"name": "zones", "namespace": NAMESPACE},
        "spec": {"topologySpreadConstraints": [spread]}});
    let zones = apply(&cluster, &zones).await;
    assert_eq!(
        topology::spec("zones", true, Some(&zones)),
        Ok(json!({"topologySpreadConstraints": [spread]}))
    );
}
