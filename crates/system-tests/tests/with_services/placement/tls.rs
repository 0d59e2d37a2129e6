//! With certificates: Apache reads httpd.conf and ssl.conf, and shows each endpoint's certificate
//! to who asks for its name.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;
use weft_api::placement::ENDPOINTS;
use weft_placement::objects::deployment;
use weft_testenv::services::{Output, Site};

use crate::with_services::placement::{
    HOST, config, config_with, database, inputs, keep, pod, prepare, serve,
};

/// An authority, and what it has signed for an endpoint.
struct Pair {
    authority: String,
    certificate: String,
    key: String,
}

impl Pair {
    fn of(endpoint: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority of {endpoint}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name(endpoint)])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap()
            .pem();
        Self {
            authority,
            certificate,
            key: key.serialize_pem(),
        }
    }
}

fn name(endpoint: &str) -> String {
    format!("placement-{endpoint}.cloud.svc")
}

/// Has the Secret of an endpoint at hand.
fn keep_pair(site: &Site, endpoint: &str, certificate: &str, key: &str) {
    let value = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = BTreeMap::from([
        ("tls.crt".to_owned(), value(certificate)),
        ("tls.key".to_owned(), value(key)),
    ]);
    let mut secret = Secret {
        data: Some(data),
        ..Secret::default()
    };
    secret.metadata.name = Some(format!("cert-{endpoint}"));
    site.keep(&secret).unwrap();
}

#[tokio::test]
async fn each_endpoint_serves_its_certificate_and_a_wrong_key_starts_nothing() {
    let names = ENDPOINTS.map(name);
    let site = Site::start(&[HOST, &names[0], &names[1]]).unwrap();
    let _database = database(&site).await;
    let api = json!({
        "internal": {"secretName": "cert-internal"}, "public": {"secretName": "cert-public"}
    });
    let (with_tls, inputs) = (config_with(&json!({"tls": {"api": api}})), inputs());

    let accepted = async |config| {
        keep(&site, config, &inputs);
        let pod = pod(&deployment(config, &inputs).unwrap());
        let (container, _) = site.container(&pod, &pod.containers[0]).unwrap();
        site.output(&container, &["/usr/sbin/httpd", "-t"])
            .await
            .unwrap()
    };
    let good = |output: &Output| {
        output.status.success() && output.stderr.trim_end().ends_with("Syntax OK")
    };
    let without_tls = config();
    let without = accepted(&without_tls).await;
    assert!(good(&without), "{without:?}");
    let pairs = ENDPOINTS.map(Pair::of);
    for (endpoint, pair) in ENDPOINTS.iter().zip(&pairs) {
        keep_pair(&site, endpoint, &pair.certificate, &pair.key);
        std::fs::write(
            site.dir().join(format!("{endpoint}-ca.pem")),
            &pair.authority,
        )
        .unwrap();
    }
    let with = accepted(&with_tls).await;
    assert!(good(&with), "{with:?}");

    prepare(&site, &with_tls, &inputs).await.unwrap();
    let placement = serve(&site, &with_tls, &inputs).await.unwrap();
    assert!(
        placement.url().starts_with("https://"),
        "it answers without TLS: {}",
        placement.log()
    );
    for asked in ENDPOINTS {
        let url = format!("https://{}:8778/", name(asked));
        for trusted in ENDPOINTS {
            let authority = site.dir().join(format!("{trusted}-ca.pem"));
            let answer = site
                .curl(&["--cacert", authority.to_str().unwrap(), &url])
                .await;
            match answer {
                Ok((status, body)) => assert!(
                    asked == trusted && status == 200,
                    "{asked} by the authority of {trusted}: {status} {body}"
                ),
                Err(error) => assert!(
                    asked != trusted && error.to_string().contains("certificate"),
                    "{asked}: {error:#}"
                ),
            }
        }
        let plain = site
            .curl(&[&format!("http://{}:8778/", name(asked))])
            .await
            .unwrap();
        assert_eq!(plain.0, 400, "{}", plain.1);
    }
    drop(placement);

    keep_pair(&site, ENDPOINTS[1], &pairs[1].certificate, &pairs[0].key);
    let error = serve(&site, &with_tls, &inputs).await.unwrap_err();
    assert!(
        error.contains("placement ended") && error.contains("do not match"),
        "{error}"
    );
}
