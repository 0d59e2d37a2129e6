//! `weft report`: the content of the archive, and the secret values that it lacks.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::commands::{harness::*, user::*};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqG\nSM49AwEHBG0wawIBAQQgq1w2e3r4\n-----END PRIVATE KEY-----\n";

/// Namespace, name, type, key and value of Secrets, one for each use that a domain has for them.
const SECRETS: [(&str, &str, &str, &str, &str); 12] = [
    (
        "openstack",
        "osp",
        "Opaque",
        "PlacementPassword",
        "Pl4cement \"&? pass",
    ),
    (
        "openstack",
        "db",
        "Opaque",
        "DatabasePassword",
        "Db+p4ss/word==",
    ),
    (
        "openstack",
        "keystone",
        "Opaque",
        "AdminPassword",
        "Keyst0ne\u{fc}ber",
    ),
    (
        "openstack",
        "credential",
        "Opaque",
        "AC_SECRET",
        "4pplication-credential",
    ),
    ("openstack", "tls", "kubernetes.io/tls", "tls.key", KEY),
    (
        "openstack",
        "registry",
        "kubernetes.io/dockerconfigjson",
        ".dockerconfigjson",
        "{\"auths\":{\"r.example\":{\"username\":\"u\",\"password\":\"R3gistry-pass\"}}}",
    ),
    ("nmstate", "wifi", "Opaque", "psk", "W1fi psk phrase"),
    ("nmstate", "eap", "Opaque", "password", "3ap-802.1X-pass"),
    (
        "nmstate",
        "basic",
        "kubernetes.io/basic-auth",
        "password",
        "B4sic-auth-pass",
    ),
    (
        "nmstate",
        "ssh",
        "kubernetes.io/ssh-auth",
        "ssh-privatekey",
        "S5h-private-part",
    ),
    (NAMESPACE, "bearer", "Opaque", "token", "T0ken-of-a-bearer"),
    (
        NAMESPACE,
        "file",
        "Opaque",
        "placement.conf",
        "[oslo]\ntransport_url = rabbit://u:R4bbit-pass@mq/x\n",
    ),
];

/// Values that are in clear in resources, and in no Secret.
const IN_CLEAR: [&str; 6] = [
    "cle4r-802.1x",
    "cle4r-in-a-url",
    "cle4r in a file",
    "cle4r-variable",
    "cle4r-option-of-an-event",
    "cle4r-external-id",
];

/// A state with a secret in each place that can hold one.
const PLANTED: &str = include_str!("../../../plan/tests/planted.yaml");

/// Parts of Secrets' values that are secret by themselves.
const PARTS: [&str; 3] = [
    "R3gistry-pass",
    "R4bbit-pass",
    "SM49AwEHBG0wawIBAQQgq1w2e3r4",
];

fn values() -> impl Iterator<Item = &'static str> {
    SECRETS.iter().map(|secret| secret.4).chain(PARTS)
}

/// Plain, escaped and in base64.
fn forms(value: &str) -> Vec<String> {
    let encoded = STANDARD.encode(value);
    let escaped = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = escaped(value);
    vec![
        value.to_owned(),
        value.trim().to_owned(),
        escaped(&once),
        once,
        // The last character may depend on the text behind the value.
        encoded[..value.len() * 8 / 6].to_owned(),
    ]
}

/// The files of an archive, by name inside its folder.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let (folder, name) = name.split_once('/').unwrap();
        assert!(folder.starts_with("weft-report-"), "{folder}");
        let name = name.to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    entries.collect()
}

/// Plays the kubelet of a node: it answers each request with this log. kwok runs no containers.
async fn play_kubelet(cluster: &Cluster, node: &str, log: String) {
    let pair = rcgen::generate_simple_self_signed(vec!["kubelet".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                log.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(log.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    cluster
        .kubectl(&[
            "patch",
            "node",
            node,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status.to_string(),
        ])
        .await;
}

/// All that a cluster has of Weft's, with secret values in many places.
async fn fill(cluster: &Cluster) {
    let definitions = weft(cluster, &["crds"]).await.ended(0).stdout;
    cluster.apply(&definitions).await;
    cluster.control_plane.wait_served().await;
    for namespace in ["openstack", "nmstate"] {
        cluster.kubectl(&["create", "namespace", namespace]).await;
    }
    for (namespace, name, kind, key, value) in SECRETS {
        let mut data = json!({ key: value });
        if kind == "kubernetes.io/tls" {
            data["tls.crt"] = "a certificate".into();
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": {"namespace": namespace, "name": name}, "stringData": data});
        // The annotation last-applied-configuration has the values, too.
        cluster.apply(&secret.to_string()).await;
    }
    let config = format!(
        "[placement_database]\nconnection = mysql+pymysql://placement:{}@db/placement\n[keystone_authtoken]\npassword = {}\nusername = {}\n",
        IN_CLEAR[1], IN_CLEAR[2], SECRETS[2].4
    );
    let said = values().collect::<Vec<_>>().join(" / ");
    let called = format!("exit code 2 of nmcli --psk {} up wifi0", IN_CLEAR[4]);
    let planted: Value = serde_saphyr::from_str(PLANTED).unwrap();
    for object in [
        json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": "planted"}, "spec": {"desiredState": planted}}),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"namespace": NAMESPACE, "name": "called"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "weft-addons", "reportingInstance": "x", "action": "Reconcile",
            "type": "Warning", "reason": "Failed", "note": called,
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": "called"}}),
        json!({"apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
            "metadata": {"namespace": "openstack", "name": "placement"},
            "spec": {"secret": "osp", "databaseInstance": "openstack", "customServiceConfig": config}}),
        json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": "eap", "annotations": {"note": SECRETS[7].4}},
            "spec": {"desiredState": {"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up",
                "802.1x": {"identity": "node", "eap-methods": ["md5"], "password": IN_CLEAR[0]}}]}}}),
        json!({"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
            "metadata": {"name": "cluster", "annotations": {"said": said}}, "spec": {"multus": {}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": "weft-inventory-networkaddonsconfig-cluster",
                "labels": {"weft.network/owner": "networkaddonsconfig.cluster"}},
            "data": {"objects": "{}", "said": STANDARD.encode(&said)}}),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"namespace": NAMESPACE, "name": "said"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "weft-addons", "reportingInstance": "x", "action": "Reconcile",
            "type": "Warning", "reason": "Failed", "note": said,
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": "said"}}),
    ] {
        cluster.apply(&object.to_string()).await;
    }
    let env = json!({"spec": {"template": {"spec": {"containers": [{"name": OPERATOR, "env": [
        {"name": "PROXY_PASSWORD", "value": IN_CLEAR[3]}, {"name": "ELSE", "value": SECRETS[10].4}]}]}}}});
    cluster
        .kubectl(&[
            "patch",
            "deployment",
            OPERATOR,
            "-n",
            NAMESPACE,
            "-p",
            &env.to_string(),
        ])
        .await;
    let state = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
        "metadata": {"name": "node-1"}});
    cluster.apply(&state.to_string()).await;
    // An agent masks secrets in its history. A text from before a Secret was made has the value.
    let history = json!([{"number": 3, "at": "2026-01-01T00:00:00Z", "what": "policy eap",
    "failure": format!("eth1 should be {}", SECRETS[7].4),
    "differences": [
        "~ interfaces[eth1].mtu: 1500 -> 9000",
        format!("~ interfaces[eth1].802.1x.password: {} -> {}", SECRETS[7].4, IN_CLEAR[0]),
        format!("~ interfaces[eth1].description: wall -> {}", SECRETS[6].4)
    ]}]);
    let status = json!({"status": {"history": history, "currentState": {"interfaces": [{"name": "eth1", "description": SECRETS[6].4,
        "802.1x": {"password": "<_password_hid_by_nmstate>"}}],
        // As agents of earlier versions report it.
        "ovs-db": {"external_ids": {"ssl_key": IN_CLEAR[5], "rack": "r4ck-7"}}}}});
    cluster
        .kubectl(&[
            "patch",
            "nns",
            "node-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status.to_string(),
        ])
        .await;
}

#[tokio::test]
async fn a_report_has_all_parts_and_no_value_of_a_secret() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    fill(&cluster).await;
    let log: String = values()
        .flat_map(forms)
        .map(|form| format!("saw {form} there\n"))
        .collect();
    play_kubelet(&cluster, "node-1", format!("begin\n{log}end\n")).await;
    wait_until("the operator's pod has a status", async || {
        let pods = cluster
            .kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "json"])
            .await;
        let pods: Value = serde_json::from_str(&pods).unwrap();
        let items = pods["items"].as_array().unwrap();
        let is_there = |pod: &Value| pod["status"]["containerStatuses"].is_array();
        if items.len() == 1 && items.iter().all(is_there) {
            Ok(())
        } else {
            Err(format!("{pods:#}"))
        }
    })
    .await;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.tar.gz");
    let run = weft(&cluster, &["report", "-o", path.to_str().unwrap()])
        .await
        .ended(0);
    assert_eq!(run.stdout.trim(), path.to_str().unwrap());
    let files = unpacked(&path);
    assert_eq!(files["errors.txt"], "", "{files:#?}");

    for (name, text) in &files {
        let secret = values().chain(IN_CLEAR).find(|value| {
            let forms = forms(value);
            forms
                .iter()
                .any(|form| text.contains(form) || name.contains(form))
        });
        assert_eq!(secret, None, "{name}:\n{text}");
        assert!(!text.contains("pl4nted"), "{name}:\n{text}");
    }
    let has = |name: &str, part: &str| {
        let names: Vec<_> = files.keys().collect();
        let text = files
            .get(name)
            .unwrap_or_else(|| panic!("{name} of {names:#?}"));
        assert!(text.contains(part), "{name} lacks {part}:\n{text}");
    };
    has("versions.yaml", "gitVersion");
    has("versions.yaml", "kubeletVersion");
    has("status.json", "\"domains\"");
    has("definitions.yaml", "name: networkaddonsconfigs.");
    has("secrets.yaml", "- PlacementPassword");
    has("secrets.yaml", "type: kubernetes.io/tls");
    has(
        "resources/addons/NetworkAddonsConfig-cluster.yaml",
        "multus",
    );
    has(
        "resources/placement/openstack/PlacementAPI-placement.yaml",
        "connection = mysql+pymysql://placement:<removed>@db",
    );
    has(
        "resources/node-network/NodeNetworkConfigurationPolicy-eap.yaml",
        "identity: node",
    );
    has(
        "resources/node-network/NodeNetworkState-node-1.yaml",
        "name: eth1",
    );
    let planted = "resources/node-network/NodeNetworkConfigurationPolicy-planted.yaml";
    for word in PLANTED.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-') {
        if word.starts_with("h4rmless") {
            has(planted, word);
        }
    }
    has(
        "events/cluster-network-addons.yaml",
        "nmcli --psk <removed> up wifi0",
    );
    for part in [
        "r4ck-7",
        "what: policy eap",
        "~ interfaces[eth1].mtu: 1500 -> 9000",
    ] {
        has("resources/node-network/NodeNetworkState-node-1.yaml", part);
    }
    has(
        "inventories/cluster-network-addons/ConfigMap-weft-inventory-networkaddonsconfig-cluster.yaml",
        "said:",
    );
    has(
        "operators/cluster-network-addons/Deployment-cluster-network-addons-operator.yaml",
        "PROXY_PASSWORD",
    );
    has("events/cluster-network-addons.yaml", "reason: Failed");
    let log = files
        .iter()
        .find(|(name, _)| name.starts_with("logs/cluster-network-addons/"))
        .map(|(_, text)| text.as_str())
        .unwrap();
    assert!(
        log.starts_with("begin\n") && log.ends_with("end\n"),
        "{log}"
    );
}

#[tokio::test]
async fn a_report_of_a_user_without_rights_names_what_it_lacks() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    fill(&cluster).await;
    cluster
        .kubectl(&[
            "create",
            "role",
            "look",
            "-n",
            "openstack",
            "--verb=get,list",
            "--resource=placementapis.placement.openstack.org",
        ])
        .await;
    cluster
        .kubectl(&[
            "create",
            "rolebinding",
            "look",
            "-n",
            "openstack",
            "--role=look",
            "--serviceaccount=openstack:default",
        ])
        .await;
    let user = cluster
        .control_plane
        .service_account_kubeconfig("openstack", "default")
        .await
        .unwrap();
    // The API server learns of the binding by a watch of its own.
    wait_until("the user may look", async || {
        let kind = "placementapis.placement.openstack.org";
        let may = ["auth", "can-i", "list", kind, "-n", "openstack"];
        let answer = cluster.control_plane.kubectl_as(&user, &may, "").await;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.tar.gz");
    let arguments = ["report", "-n", "openstack", "-o", path.to_str().unwrap()];
    let report = run(&user, &arguments, "").await.ended(0);
    assert!(report.stderr.contains("see errors.txt"), "{report:?}");
    let files = unpacked(&path);
    let errors = &files["errors.txt"];
    for part in [
        "Secrets of the namespace openstack, whose values are removed only where",
        "networkaddonsconfigs: ",
        "events of the namespace openstack: ",
        "Nodes: ",
    ] {
        assert!(errors.contains(part), "{part}\n{errors}");
    }
    assert!(errors.contains("is forbidden"), "{errors}");
    let resource = &files["resources/placement/openstack/PlacementAPI-placement.yaml"];
    assert!(resource.contains("secret: osp"), "{resource}");
    for value in IN_CLEAR {
        assert!(!resource.contains(value), "{resource}");
    }

    // The cluster cannot be reached: there is no archive.
    let nowhere = folder.path().join("nowhere");
    std::fs::write(
        &nowhere,
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}",
    )
    .unwrap();
    let path = folder.path().join("none.tar.gz");
    let arguments = ["report", "-o", path.to_str().unwrap()];
    run(&nowhere, &arguments, "").await.ended(2);
    assert!(!path.exists());
}
