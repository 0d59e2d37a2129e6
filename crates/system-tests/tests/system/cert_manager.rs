//! cert-manager in place of Weft's own certificates: its definitions are the real ones, and come
//! and go as they do in life.
//!
//! cert-manager itself does not run here. [`issue`] and [`inject`] openly do the work of
//! cert-manager with a Certificate: they write the Secret, and the CA bundle of the webhook.

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use crate::system::{
    certificates::{AUTHORITY, Found, SECRET, SERVER, WEBHOOK, reachable, weft_about},
    deletion::gone,
    harness::*,
    install::becomes_idle,
};

const DEFINITIONS: [&str; 2] = ["certificates.cert-manager.io", "issuers.cert-manager.io"];
const CERTIFICATE: &str = "kubevirt-ipam-controller-serving-cert";
const ISSUER: &str = "kubevirt-ipam-controller-selfsigned-issuer";
const INJECT: &str = "cert-manager.io/inject-ca-from";

const BY_CERT_MANAGER: &str = "
apiVersion: networkaddonsoperator.network.kubevirt.io/v1
kind: NetworkAddonsConfig
metadata: {name: cluster}
spec: {multus: {}, kubevirtIpamController: {certificateProvider: CertManager}}
";

#[tokio::test]
async fn the_component_alone_waits_for_cert_manager_and_goes_on_by_itself() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.apply(BY_CERT_MANAGER).await;
    let missing = "the cluster does not have Certificate.cert-manager.io: install cert-manager";
    let status = cluster
        .wait_condition("Degraded", "True", "FailedToApply", missing)
        .await;
    assert!(
        condition(&status, "Degraded")["message"]
            .as_str()
            .unwrap()
            .starts_with("kubevirtIpamController: "),
        "{status:#}"
    );
    wait_until("multus is Available", async || {
        let status = cluster.status().await;
        let multus = status["components"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["name"] == "multus")
            .cloned()
            .unwrap_or_default();
        if multus["state"] == "Available" {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    assert_eq!(
        cluster
            .get(
                kinds::DEPLOYMENT,
                NAMESPACE,
                "kubevirt-ipam-controller-manager"
            )
            .await,
        None
    );
    let plan = weft_about(&cluster, BY_CERT_MANAGER, &["plan", "-f", "-"]).await;
    assert!(
        plan.contains("kubevirtIpamController: the cluster does not have Certificate")
            && plan.contains(" held back"),
        "{plan}"
    );
    // Nobody asks for what is not there.
    becomes_idle(&cluster, &proxy).await;

    cluster.define(&DEFINITIONS[..1]).await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "the cluster does not have Issuer.cert-manager.io",
        )
        .await;
    cluster.define(&DEFINITIONS[1..]).await;
    let certificate = wait_for_certificate(&cluster).await;
    assert_eq!(certificate["spec"]["secretName"], SECRET);
    assert_eq!(certificate["spec"]["dnsNames"][0], SERVER);
    wait_until("the Issuer is there", async || {
        cluster
            .get(kinds::ISSUER, NAMESPACE, ISSUER)
            .await
            .ok_or("not yet".to_owned())
    })
    .await;
    inject(&cluster, &issue(&cluster).await).await;
    cluster.wait_available().await;
    Found::in_(&cluster).await.connect(SERVER).await.unwrap();
    assert_not_warned(&cluster, &proxy);
    becomes_idle(&cluster, &proxy).await;

    // It is kept in order as everything is.
    cluster
        .delete(kinds::CERTIFICATE, NAMESPACE, CERTIFICATE)
        .await;
    wait_for_certificate(&cluster).await;
    cluster
        .patch(
            kinds::CERTIFICATE,
            NAMESPACE,
            CERTIFICATE,
            json!({"spec": {"dnsNames": ["example.com"]}}),
        )
        .await;
    wait_until("the names are put right", async || {
        let certificate = cluster
            .get(kinds::CERTIFICATE, NAMESPACE, CERTIFICATE)
            .await
            .unwrap_or_default();
        if certificate["spec"]["dnsNames"][0] == SERVER {
            Ok(())
        } else {
            Err(certificate["spec"].to_string())
        }
    })
    .await;

    // cert-manager is uninstalled, and with its definitions go their objects.
    cluster
        .kubectl(&["delete", "crd", DEFINITIONS[0], DEFINITIONS[1]])
        .await;
    cluster
        .wait_condition("Degraded", "True", "FailedToApply", missing)
        .await;
    Found::in_(&cluster).await.connect(SERVER).await.unwrap();
    becomes_idle(&cluster, &proxy).await;
    // Nor does it hold up a removal, by whomever.
    operator.terminate().await;
    let removed = weft_about(&cluster, "", &["uninstall", "--yes"]).await;
    assert!(
        removed.contains("removed NetworkAddonsConfig cluster and its components"),
        "{removed}"
    );
    assert_eq!(cluster.resource().await, None);
    // The cluster's own controllers delete their part later.
    wait_until("nothing of the component is left", async || {
        let left: Vec<_> = cluster
            .leftovers()
            .await
            .into_iter()
            .filter(|title| title.contains("ipam-controller"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn the_provider_of_the_certificate_can_change_both_ways() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.define(&DEFINITIONS).await;
    cluster
        .apply(&BY_CERT_MANAGER.replace("CertManager", "Weft"))
        .await;
    cluster.wait_available().await;
    let by_weft = Found::in_(&cluster).await;

    // To cert-manager: until it has done its part, everything is as it was.
    cluster
        .patch_resource(
            json!({"spec": {"kubevirtIpamController": {"certificateProvider": "CertManager"}}}),
        )
        .await;
    wait_for_certificate(&cluster).await;
    cluster.wait_available().await;
    assert_eq!(
        cluster.get(kinds::SECRET, NAMESPACE, AUTHORITY).await,
        None,
        "of no use any more"
    );
    let handed_over = Found::in_(&cluster).await;
    assert_eq!(
        (&handed_over.certificate, &handed_over.bundle),
        (&by_weft.certificate, &by_weft.bundle)
    );
    inject(&cluster, &issue(&cluster).await).await;
    cluster.wait_available().await;
    let by_cert_manager = Found::in_(&cluster).await;
    assert_ne!(by_cert_manager.certificate, by_weft.certificate);
    by_cert_manager.connect(SERVER).await.unwrap();
    becomes_idle(&cluster, &proxy).await;
    assert_eq!(
        Found::in_(&cluster).await.secret,
        by_cert_manager.secret,
        "Weft leaves it alone"
    );

    // And back.
    cluster
        .patch_resource(
            json!({"spec": {"kubevirtIpamController": {"certificateProvider": "Weft"}}}),
        )
        .await;
    cluster.wait_available().await;
    nothing_of_cert_manager(&cluster).await;
    let again = reachable(&cluster, "Weft makes the certificate again", |found| {
        found.bundle != by_cert_manager.bundle
    })
    .await;
    assert!(again.secret["metadata"]["labels"][weft_plan::OWNER_LABEL].is_string());
    assert!(webhook(&cluster).await["metadata"]["annotations"][INJECT].is_null());
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    gone(&cluster).await;
    for secret in [SECRET, AUTHORITY] {
        assert_eq!(cluster.get(kinds::SECRET, NAMESPACE, secret).await, None);
    }
}

#[tokio::test]
async fn the_replaced_operators_certificate_does_not_fight_for_the_secret() {
    let cluster = Cluster::start_default().await;
    cluster.define(&DEFINITIONS).await;
    // As cluster-network-addons-operator leaves it: the resource owns Issuer and Certificate, and
    // cert-manager has made the Secret.
    cluster
        .apply(&BY_CERT_MANAGER.replace("certificateProvider: CertManager", ""))
        .await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let owner = json!([
        {
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig", "name": "cluster", "uid": uid, "controller": true
        }
    ]);
    let metadata =
        |name: &str| json!({"name": name, "namespace": NAMESPACE, "ownerReferences": owner});
    let issuer = json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": metadata(ISSUER),
        "spec": {"selfSigned": {}}
    });
    let certificate = json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata(CERTIFICATE),
    "spec": {
        "secretName": SECRET, "dnsNames": [SERVER],
        "issuerRef": {"kind": "Issuer", "name": ISSUER}
    }});
    cluster.apply(&issuer.to_string()).await;
    cluster.apply(&certificate.to_string()).await;
    issue(&cluster).await;

    let _operator = Operator::start_default(&cluster).await;
    cluster.wait_available().await;
    nothing_of_cert_manager(&cluster).await;
    reachable(&cluster, "Weft has taken over", |found| {
        found.secret["metadata"]["labels"][weft_plan::OWNER_LABEL].is_string()
    })
    .await;
}

async fn wait_for_certificate(cluster: &Cluster) -> Value {
    wait_until("the Certificate is there", async || {
        cluster
            .get(kinds::CERTIFICATE, NAMESPACE, CERTIFICATE)
            .await
            .ok_or_else(|| "not yet".to_owned())
    })
    .await
}

async fn nothing_of_cert_manager(cluster: &Cluster) {
    for (kind, name) in [(kinds::CERTIFICATE, CERTIFICATE), (kinds::ISSUER, ISSUER)] {
        assert_eq!(cluster.get(kind, NAMESPACE, name).await, None, "{kind}");
    }
}

async fn webhook(cluster: &Cluster) -> Value {
    cluster
        .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", WEBHOOK)
        .await
        .unwrap_or_default()
}

/// Plays cert-manager: it makes a certificate that signs itself, and writes it into the Secret by
/// server-side apply. Returns it.
async fn issue(cluster: &Cluster) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec![SERVER.to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap()
        .pem();
    let encoded = |text: &str| STANDARD.encode(text);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
    "metadata": {
        "name": SECRET, "namespace": NAMESPACE,
        "annotations": {
            "cert-manager.io/certificate-name": CERTIFICATE,
            "cert-manager.io/issuer-name": ISSUER
        }
    },
    "data": {
        "tls.crt": encoded(&certificate), "tls.key": encoded(&key.serialize_pem()),
        "ca.crt": encoded(&certificate)
    }});
    let params = PatchParams::apply("cert-manager-certificates-issuing").force();
    cluster
        .api(kinds::SECRET, NAMESPACE)
        .patch(SECRET, &params, &Patch::Apply(&secret))
        .await
        .unwrap();
    certificate
}

/// Plays its injector: it writes the certificate into the webhook that asks for it
/// (<https://cert-manager.io/docs/concepts/ca-injector/>).
async fn inject(cluster: &Cluster, certificate: &str) {
    let webhook = wait_until("the webhook asks for its CA bundle", async || {
        let webhook = webhook(cluster).await;
        let asks =
            webhook["metadata"]["annotations"][INJECT] == format!("{NAMESPACE}/{CERTIFICATE}");
        if asks {
            Ok(webhook)
        } else {
            Err(webhook.to_string())
        }
    })
    .await;
    let mut hooks = webhook["webhooks"].clone();
    hooks[0]["clientConfig"]["caBundle"] = STANDARD.encode(certificate).into();
    cluster
        .patch(
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "",
            WEBHOOK,
            json!({"webhooks": hooks}),
        )
        .await;
}
