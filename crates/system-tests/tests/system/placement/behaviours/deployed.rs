//! Tests of the running workloads.

use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::placement::site::*;

/// The original's has one container that only synchronises. Weft's goes on where one was killed,
/// checks and migrates as well. Both mount what they read.
pub async fn runs_db_sync(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let job = site.job().await;
    assert_eq!(job["metadata"]["name"], format!("{NAME}-db-sync"));
    let pod = &job["spec"]["template"]["spec"];
    let containers: Vec<_> = ["initContainers", "containers"]
        .iter()
        .flat_map(|list| pod[*list].as_array().cloned().unwrap_or_default())
        .collect();
    let command = containers[0]["command"].to_string();
    assert!(
        command.contains("placement-manage") && command.contains(" db sync"),
        "{command}"
    );
    assert_eq!(containers.len(), 3);
    for container in &containers {
        assert_eq!(
            container["image"],
            "quay.io/podified-antelope-centos9/openstack-placement-api:current-podified"
        );
        let mounts: Vec<_> = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["mountPath"].as_str().unwrap())
            .collect();
        assert_eq!(
            mounts,
            [
                "/etc/placement/placement.conf",
                "/etc/placement/placement.conf.d/custom.conf",
                "/etc/my.cnf"
            ]
        );
    }
    assert_eq!(
        pod["volumes"][0]["secret"]["secretName"],
        format!("{NAME}-config-data")
    );
    assert_eq!(pod["automountServiceAccountToken"], false);
    let live = site
        .wait_says("DBSyncReady", "True", "Ready", "DBsync completed")
        .await;
    assert_eq!(
        live["status"]["hash"]["dbsync"],
        job["metadata"]["annotations"]["hash"]
    );
}

/// The original's has a second container that prints the log.
pub async fn creates_deployment(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let deployment = site.deployment().await;
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 1);
    let labels = json!({"service": "placement", "owner": NAME});
    assert_eq!(
        (
            &spec["selector"]["matchLabels"],
            &spec["template"]["metadata"]["labels"]
        ),
        (&labels, &labels)
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(
        (
            &pod["serviceAccountName"],
            &pod["automountServiceAccountToken"]
        ),
        (&json!(format!("placement-{NAME}")), &json!(false))
    );
    let containers = pod["containers"].as_array().unwrap();
    assert_eq!(
        (containers.len(), &containers[0]["name"]),
        (1, &json!(format!("{NAME}-api")))
    );
    site.wait_says("DeploymentReady", "True", "Ready", "Deployment completed")
        .await;
}

pub async fn exposes_the_service(site: &Site<'_>) {
    site.with_database(json!({})).await;
    site.wait_says(
        "CreateServiceReady",
        "True",
        "Ready",
        "Create service completed",
    )
    .await;
    for (endpoint, ingress) in [("public", "true"), ("internal", "false")] {
        let service = site
            .wait_there(kinds::SERVICE, &format!("placement-{endpoint}"))
            .await;
        let (labels, annotations) = (
            &service["metadata"]["labels"],
            &service["metadata"]["annotations"],
        );
        assert_eq!(
            (&labels["service"], &labels["endpoint"], &labels["owner"]),
            (&json!("placement"), &json!(endpoint), &json!(NAME))
        );
        assert_eq!(
            (
                &annotations["endpoint"],
                &annotations["core.openstack.org/ingress_create"]
            ),
            (&json!(endpoint), &json!(ingress))
        );
        assert_eq!(
            (
                &service["spec"]["ports"][0]["port"],
                &service["spec"]["type"]
            ),
            (&json!(8778), &json!("ClusterIP"))
        );
    }
}

pub async fn reports_ready_when_successfully_deployed(site: &Site<'_>) {
    let live = site.deployed(json!({})).await;
    let expected = [
        ("Ready", "Setup complete"),
        ("CreateServiceReady", "Create service completed"),
        ("DBReady", "DB create completed"),
        ("DBSyncReady", "DBsync completed"),
        ("DeploymentReady", "Deployment completed"),
        ("InputReady", "Input data complete"),
        ("KeystoneEndpointReady", "Setup complete"),
        ("KeystoneServiceReady", "Setup complete"),
        ("MariaDBAccountReady", "MariaDBAccount creation complete"),
        ("NetworkAttachmentsReady", "NetworkAttachments completed"),
        ("ServiceAccountReady", "ServiceAccount created"),
        ("ServiceConfigReady", "Service config create completed"),
        ("TLSInputReady", "Input data complete"),
    ];
    let conditions = live["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 15);
    assert!(
        conditions
            .iter()
            .all(|one| one["status"] == "True" && one["reason"] == "Ready"),
        "{conditions:#?}"
    );
    for (name, message) in expected {
        let said = conditions.iter().find(|one| one["type"] == name).unwrap();
        assert_eq!(said["message"], message, "{name}");
    }
    let status = &live["status"];
    assert_eq!(
        (&status["readyCount"], &status["appliedInputSecretHash"]),
        (&json!(1), &status["hash"]["input"])
    );
}

pub async fn starts_zero_replicas(site: &Site<'_>) {
    let live = site.deployed(json!({"replicas": 0})).await;
    assert_eq!(live["status"]["readyCount"], 0);
    assert_eq!(site.deployment().await["spec"]["replicas"], 0);
}

pub async fn creates_deployment_with_ca_and_service_certs_mounted(site: &Site<'_>) {
    let tls = json!({
        "tls": {
            "caBundleSecretName": "combined-ca-bundle",
            "api": {
                "internal": {"secretName": "internal-tls-certs"},
                "public": {"secretName": "public-tls-certs"}
            }
        }
    });
    site.with_database(tls).await;
    let mut status = site.wait_there(kinds::MARIADB_DATABASE, "placement").await["status"].clone();
    status["tlsSupport"] = true.into();
    site.says(kinds::MARIADB_DATABASE, "placement", status)
        .await;
    // A bundle is an error, a certificate is on its way.
    site.wait_says(
        "TLSInputReady",
        "False",
        "Error",
        "TLSInput is missing: combined-ca-bundle; also missing: secret/internal-tls-certs, secret/public-tls-certs",
    )
    .await;
    site.secret("combined-ca-bundle", &[("tls-ca-bundle.pem", "CA")])
        .await;
    site.wait_says(
        "TLSInputReady",
        "False",
        "Requested",
        "TLSInput is missing: internal-tls-certs; also missing: secret/public-tls-certs",
    )
    .await;
    let made = rcgen::generate_simple_self_signed(["placement".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = [("tls.crt", certificate.as_str()), ("tls.key", key.as_str())];
    site.secret("internal-tls-certs", &pair).await;
    site.secret("public-tls-certs", &pair[..1]).await;
    let live = site
        .wait_placement("a key is missing", |live| {
            weft_system_tests::condition(&live["status"], "TLSInputReady")["message"]
                .as_str()
                .unwrap_or_default()
                .contains("tls.key")
        })
        .await;
    let said = weft_system_tests::condition(&live["status"], "TLSInputReady");
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .starts_with("TLSInput error occured in TLS sources "),
        "{said}"
    );
    // One that Apache would not start with is never given to pods.
    let of_another = rcgen::KeyPair::generate().unwrap().serialize_pem();
    site.secret(
        "public-tls-certs",
        &[pair[0], ("tls.key", of_another.as_str())],
    )
    .await;
    let why = "secret/public-tls-certs: tls.key is not the key of the first certificate in tls.crt: both have to be renewed together";
    site.wait_says(
        "TLSInputReady",
        "False",
        "Error",
        &format!("TLSInput error occured in TLS sources {why}"),
    )
    .await;
    site.secret("public-tls-certs", &pair).await;
    site.plays_keystone().await;
    site.wait_ready().await;

    let pod = site.deployment().await["spec"]["template"]["spec"].clone();
    let mounted = |path: &str| {
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = mounts
            .iter()
            .find(|mount| mount["mountPath"] == path)
            .unwrap_or_else(|| panic!("{path}: {mounts:#?}"));
        let volume = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|volume| volume["name"] == mount["name"])
            .unwrap()
            .clone();
        volume["secret"]["secretName"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        mounted("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
        "combined-ca-bundle"
    );
    for endpoint in ["internal", "public"] {
        assert_eq!(
            mounted(&format!("/etc/pki/tls/certs/{endpoint}.crt")),
            format!("{endpoint}-tls-certs")
        );
        assert_eq!(
            mounted(&format!("/etc/pki/tls/private/{endpoint}.key")),
            format!("{endpoint}-tls-certs")
        );
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(pod["containers"][0][probe]["httpGet"]["scheme"], "HTTPS");
    }
    let httpd = site.file("httpd.conf").await;
    for line in [
        "SSLEngine on",
        "/etc/pki/tls/certs/internal.crt",
        "/etc/pki/tls/private/public.key",
    ] {
        assert!(httpd.contains(line), "{line}\n{httpd}");
    }
    assert_eq!(
        site.file("my.cnf").await.trim(),
        "[client]\nssl-ca=/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem\nssl=1"
    );
    let endpoint = site.wait_there(kinds::KEYSTONE_ENDPOINT, "placement").await;
    assert!(
        endpoint["spec"]["endpoints"]["public"]
            .as_str()
            .unwrap()
            .starts_with("https://placement-public."),
        "{}",
        endpoint["spec"]
    );
}

pub async fn probes_follow_the_timeout_and_overrides(site: &Site<'_>) {
    site.with_database(
        json!({"apiTimeout": 100, "override": {"probes": {"livenessProbes": {"path": "/alive"}}}}),
    )
    .await;
    let container = site.deployment().await["spec"]["template"]["spec"]["containers"][0].clone();
    let seconds = |probe: &str| -> Vec<Value> {
        [
            "initialDelaySeconds",
            "periodSeconds",
            "timeoutSeconds",
            "failureThreshold",
        ]
        .iter()
        .map(|field| container[probe][*field].clone())
        .collect()
    };
    assert_eq!(seconds("livenessProbe"), [5, 50, 50, 10]);
    assert_eq!(seconds("readinessProbe"), [5, 30, 30, 3]);
    assert_eq!(
        (
            &container["livenessProbe"]["httpGet"]["path"],
            &container["readinessProbe"]["httpGet"]["path"]
        ),
        (&json!("/alive"), &json!("/"))
    );
}
