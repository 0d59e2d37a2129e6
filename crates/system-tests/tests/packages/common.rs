//! Steps that the tests of several packages share.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use weft_packages::{
    files::{self, Files},
    manifests::Program,
    release::Images,
};
use weft_testenv::{ControlPlane, bound_command, built, played, spawn_bound};

pub const NAMESPACE: &str = "weft-system";
pub const ACCOUNT: &str = "weft-operator";

pub fn weft() -> Program {
    Program::new(&built("weft").unwrap())
}

pub fn images() -> Images {
    Images::usual().unwrap()
}

/// Writes files into a folder of their own.
pub fn written(files: &Files) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    files::write(folder.path(), files).unwrap();
    folder
}

/// Runs a program. Returns its output, or output and errors.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stdout) + &text(output.stderr)),
    }
}

/// The objects in a stream of YAML.
pub fn objects(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    all.into_iter().filter(|object| !object.is_null()).collect()
}

/// The objects that Operator Lifecycle Manager makes of a ClusterServiceVersion in a namespace that
/// is its only target: the Deployment, its account, and roles with generated names. The source is
/// `RBACForClusterServiceVersion` in `pkg/controller/registry/resolver/rbac.go` of OLM.
pub fn made_from(csv: &Value) -> Vec<Value> {
    let install = &csv["spec"]["install"]["spec"];
    let name = csv["metadata"]["name"].as_str().unwrap();
    let mut made = Vec::new();
    for (field, role, binding) in [
        ("permissions", "Role", "RoleBinding"),
        ("clusterPermissions", "ClusterRole", "ClusterRoleBinding"),
    ] {
        for (number, permission) in install[field].as_array().unwrap().iter().enumerate() {
            let account = &permission["serviceAccountName"];
            let mut metadata = json!({"name": format!("{name}-{number}")});
            if role == "Role" {
                metadata["namespace"] = NAMESPACE.into();
            }
            made.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": role,
                "metadata": metadata, "rules": permission["rules"],
            }));
            made.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": binding,
                "metadata": metadata,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": role,
                    "name": metadata["name"],
                },
                "subjects": [
                    {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE},
                ],
            }));
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": NAMESPACE},
            });
            if !made.contains(&account) {
                made.push(account);
            }
        }
    }
    for deployment in install["deployments"].as_array().unwrap() {
        made.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": deployment["name"], "namespace": NAMESPACE, "labels": deployment["label"],
            },
            "spec": deployment["spec"],
        }));
    }
    made
}

/// An operator as a process, since kwok's nodes run no container. Ends with the test.
pub struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the operator with the arguments and the environment of this Deployment, and the token of
/// its ServiceAccount.
pub async fn operator(cluster: &ControlPlane, deployment: &Value) -> Operator {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let account = pod["serviceAccountName"].as_str().unwrap();
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, account).await;
    let mut command = bound_command(&built("weft").unwrap());
    let arguments = container["args"].as_array().unwrap();
    command
        .args(arguments.iter().map(|argument| argument.as_str().unwrap()))
        .arg("--kubeconfig")
        .arg(kubeconfig.unwrap())
        .args(["--probe-address", "127.0.0.1:0"])
        .args(["--metrics-address", "127.0.0.1:0"])
        .args(["--pod-name", "weft-operator-0", "--lease-seconds", "10"])
        .env("POD_UID", "00000000-0000-4000-8000-000000000000")
        .env("OPERATOR_NAMESPACE", NAMESPACE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    for variable in container["env"].as_array().unwrap() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            command.env(name, value);
        }
    }
    Operator(spawn_bound(command).unwrap())
}

/// Starts the operator of this Deployment, applies the examples of the ClusterServiceVersion, and
/// waits until they are available. The control plane must have an audit log.
///
/// # Panics
/// An example does not become available, or the API server has refused a request of the operator.
pub async fn serves_its_domains(
    cluster: &ControlPlane,
    csv: &Value,
    deployment: &Value,
) -> Operator {
    let running = operator(cluster, deployment).await;
    // Add-ons for virtual machines wait for them.
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], played::KUBEVIRT)
        .await
        .unwrap();
    let examples = csv["metadata"]["annotations"]["alm-examples"]
        .as_str()
        .unwrap();
    let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
    for example in &examples {
        let apply = ["apply", "--server-side", "--validate=strict", "-f", "-"];
        let text = example.to_string();
        cluster.kubectl_with_input(&apply, &text).await.unwrap();
    }
    let wait = [
        "wait",
        "networkaddonsconfig/cluster",
        "nmstate/nmstate",
        "--for=condition=Available",
        "--timeout=180s",
    ];
    let waited = cluster.kubectl(&wait).await;
    let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let refused: Vec<String> = cluster
        .audit_events_of(&account)
        .unwrap()
        .into_iter()
        .filter(|event| event.code == 403)
        .map(|event| format!("{} {}: {}", event.verb, event.uri, event.message))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    waited.unwrap();
    running
}

/// Reads the objects of a file.
pub fn read(path: &Path) -> Vec<Value> {
    objects(&std::fs::read_to_string(path).unwrap())
}
