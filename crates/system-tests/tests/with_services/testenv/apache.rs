//! Apache with an httpd.conf as a pod has it, with TLS and without, and the start of OpenStack's
//! images.

use std::fs;

use serde_json::json;
use weft_testenv::services::{Container, Placement, Site};

use crate::with_services::testenv::least::{HTTPD, NO_AUTH, container, least_httpd};

/// With a database of the container's own.
const SQLITE: &str =
    "[placement_database]\nconnection = sqlite:////tmp/placement.db\nsync_on_startup = true\n";
const TLS: &str = "  SSLEngine on\n  SSLCertificateFile /etc/pki/tls/certs/public.crt\n  SSLCertificateKeyFile /etc/pki/tls/private/public.key\n";

#[tokio::test]
async fn apache_serves_with_tls_and_refuses_what_is_wrong() {
    let site = Site::start(&["placement-public.default.svc"]).unwrap();
    let folder = site.dir().join("tls");
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let made =
        rcgen::generate_simple_self_signed(["placement-public.default.svc".to_owned()]).unwrap();
    let certificate = write("tls.crt", &made.cert.pem());
    let key = write("tls.key", &made.signing_key.serialize_pem());
    let other = write(
        "other.key",
        &rcgen::KeyPair::generate().unwrap().serialize_pem(),
    );
    write("placement.conf", &format!("{SQLITE}{NO_AUTH}"));
    write("httpd.conf", &least_httpd(TLS));
    let with_key = |key| {
        container(&folder)
            .mount(&certificate, "/etc/pki/tls/certs/public.crt")
            .mount(key, "/etc/pki/tls/private/public.key")
    };

    let test = async |container: &Container| {
        site.output(container, &["/usr/sbin/httpd", "-t"])
            .await
            .unwrap()
    };
    let good = test(&with_key(&key)).await;
    assert!(
        good.status.success() && good.stderr.contains("Syntax OK"),
        "{good:?}"
    );
    let missing = test(&container(&folder)).await;
    assert!(
        !missing.status.success() && missing.stderr.contains("public.crt"),
        "{missing:?}"
    );
    let error = Placement::start(&site, &with_key(&other), &HTTPD)
        .await
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("placement ended"),
        "a key of another certificate: {error:#}"
    );

    let placement = Placement::start(&site, &with_key(&key), &HTTPD)
        .await
        .unwrap();
    assert!(placement.url().starts_with("https://"));
    let trusted = site
        .curl(&[
            "--cacert",
            certificate.to_str().unwrap(),
            "https://placement-public.default.svc:8778/",
        ])
        .await
        .unwrap();
    assert_eq!(trusted.0, 200, "{}", trusted.1);
    assert!(
        site.curl(&["https://placement-public.default.svc:8778/"])
            .await
            .is_err(),
        "nobody trusts it unasked"
    );
    drop(placement);

    write("httpd.conf", &(least_httpd("") + "NoSuchDirective on\n"));
    let wrong = test(&with_key(&key)).await;
    assert!(
        !wrong.status.success() && wrong.stderr.contains("NoSuchDirective"),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn an_image_of_kolla_copies_its_configuration_and_starts_what_it_says() {
    let site = Site::start(&[]).unwrap();
    let folder = site.dir().join("kolla");
    fs::create_dir_all(folder.join("config")).unwrap();
    fs::write(
        folder.join("config/placement.conf"),
        format!("{SQLITE}{NO_AUTH}"),
    )
    .unwrap();
    fs::write(folder.join("config/httpd.conf"), least_httpd("")).unwrap();
    let copy = |name: &str, dest: &str| {
        json!({
            "source": format!("/var/lib/openstack/config/{name}"), "dest": dest, "owner": "placement",
            "perm": "0600"
        })
    };
    let instructions = json!({
        "command": "/usr/sbin/httpd -DFOREGROUND",
        "config_files": [
            copy("placement.conf", "/etc/placement/placement.conf"),
            copy("httpd.conf", "/etc/httpd/conf/httpd.conf")
        ],
    });
    fs::write(folder.join("config.json"), instructions.to_string()).unwrap();
    let container = Container::placement()
        .unwrap()
        .mount(folder.join("config"), "/var/lib/openstack/config")
        .mount(
            folder.join("config.json"),
            "/var/lib/kolla/config_files/config.json",
        )
        .env("KOLLA_CONFIG_STRATEGY", "COPY_ALWAYS");
    let placement = Placement::start(
        &site,
        &container,
        &["/bin/bash", "-c", "/usr/local/bin/kolla_start"],
    )
    .await
    .unwrap();
    let (status, body) = placement.get("/", &[]).await.unwrap();
    assert!(
        status == 200 && body.contains("max_version"),
        "{status}: {body}"
    );
    assert!(
        placement
            .log()
            .contains("Running command: '/usr/sbin/httpd -DFOREGROUND'"),
        "{}",
        placement.log()
    );
}
