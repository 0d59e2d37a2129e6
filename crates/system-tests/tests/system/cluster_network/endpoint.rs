//! The operator as the pod that it is before there is any network: the Service `kubernetes` leads
//! nowhere, and the API server is where the kubelet's kubeconfig says.

use std::process::{Command, Stdio};

use weft_testenv::{bound_command, spawn_bound};

use super::{NAMESPACE, minimal, start};
use weft_system_tests::*;

/// Reports whether this machine lets us have mounts of our own: the files of a service account have
/// one fixed place.
fn may_mount() -> bool {
    let tried = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

#[tokio::test]
async fn the_api_server_is_reached_where_the_nodes_kubeconfig_says() {
    assert!(
        may_mount(),
        "a mount namespace is needed, by root or with user namespaces; where there is none, mark this test with #[ignore] and list it in testenv/skips"
    );
    let cluster = start().await;
    let folder = tempfile::tempdir().unwrap();
    let token = cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "token",
            "cluster-network-operator",
        ])
        .await;
    let admin: serde_json::Value = serde_saphyr::from_str(
        &std::fs::read_to_string(cluster.control_plane.kubeconfig()).unwrap(),
    )
    .unwrap();
    let authority = &admin["clusters"][0]["cluster"]["certificate-authority-data"];
    let authority = match authority.as_str() {
        Some(data) => {
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap()
        }
        None => std::fs::read(
            admin["clusters"][0]["cluster"]["certificate-authority"]
                .as_str()
                .unwrap(),
        )
        .unwrap(),
    };
    for (name, content) in [
        ("token", token.trim().as_bytes()),
        ("namespace", NAMESPACE.as_bytes()),
        ("ca.crt", &authority[..]),
    ] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let kubelet = folder.path().join("kubelet.conf");
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: '{}'}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: nobody}}}}]\ncurrent-context: x\n",
        cluster.control_plane.url()
    );
    std::fs::write(&kubelet, text).unwrap();

    // By the name of the program that it replaces, as its image is called.
    let program = folder.path().join("cluster-network-operator");
    std::os::unix::fs::symlink(weft_binary(), &program).unwrap();
    let script = r#"mount -t tmpfs tmpfs /var/run && mkdir -p /var/run/secrets/kubernetes.io/serviceaccount &&
        cp "$1"/token "$1"/namespace "$1"/ca.crt /var/run/secrets/kubernetes.io/serviceaccount/ && shift &&
        exec "$@""#;
    // Kept with the other logs if the test fails.
    let log = std::fs::File::create(cluster.control_plane.dir().join("operator.log")).unwrap();
    let mut command = bound_command(std::path::Path::new("unshare"));
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(&program)
        .arg(format!("--url-only-kubeconfig={}", kubelet.display()))
        .args([
            "--probe-address",
            "127.0.0.1:0",
            "--metrics-address",
            "off",
            "--lease-seconds",
            "3",
            "--log-text",
        ])
        .env_remove("KUBECONFIG")
        .env("HOME", folder.path())
        .env("POD_NAME", "LOCAL")
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", "1")
        .env("NODE_IMAGE", "registry.example/node:1")
        .env("HYPERSHIFT_IMAGE", "registry.example/hypershift:1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let mut operator = spawn_bound(command).unwrap();

    cluster.apply(&minimal()).await;
    cluster.wait_available().await;
    // Its operands get the same address.
    let controller = cluster
        .get(weft_plan::kinds::DAEMON_SET, super::SDN, "sdn-controller")
        .await
        .unwrap();
    let port = cluster
        .control_plane
        .url()
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let environment = controller["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(
        environment.contains(&format!("\"{port}\"")),
        "{environment}"
    );
    operator.kill().unwrap();
    operator.wait().unwrap();
}
