//! Real nodes without a network, and Weft on them as it is shipped: its own image, its own
//! manifests.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_testenv::{
    host_lab::agent,
    lab::{Lab, LabBuilder, images},
};

use crate::on_nodes::weft::wait::wait_until;

/// The namespace of the operator, as shipped.
pub const NAMESPACE: &str = "openshift-cluster-network-operator";

/// The image of the operator, as shipped.
pub const WEFT: &str = concat!("localhost/weft:", env!("CARGO_PKG_VERSION"));

/// A lab with the images of Weft, flannel, kube-proxy and of tools for test pods.
pub struct Site {
    pub lab: Lab,
    images: TempDir,
}

impl Site {
    /// Starts the nodes. They are not Ready, since nothing connects pods yet.
    pub async fn start(lab: LabBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let weft = folder.path().join("weft.tar");
        weft_images::weft(&binary(), WEFT)
            .unwrap()
            .write(&weft)
            .unwrap();
        let agent = folder.path().join("weft-agent.tar");
        weft_images::weft_agent(
            &agent::program().unwrap(),
            concat!("localhost/weft-agent:", env!("CARGO_PKG_VERSION")),
        )
        .unwrap()
        .write(&agent)
        .unwrap();
        let lab = lab
            .image(weft)
            .image(agent)
            .image(images::tools().unwrap())
            .image(images::flannel().unwrap())
            .image(images::kube_proxy().unwrap());
        Self {
            lab: lab.start().await.unwrap(),
            images: folder,
        }
    }

    /// The archive of the image of Weft, as `make images` writes it.
    pub fn archive(&self) -> PathBuf {
        self.images.path().join("weft.tar")
    }

    /// Installs what `weft manifests` prints, with the images that the nodes have.
    pub async fn install(&self) {
        let manifests = weft(&[
            "manifests",
            "--split",
            "--domains",
            "cluster-network",
            "--components",
            "flannel,kube-proxy",
            "--node-kubeconfig",
            "/etc/kubernetes/kubelet.conf",
        ]);
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
        for object in objects
            .iter_mut()
            .filter(|object| object["kind"] == "DaemonSet")
        {
            let variables = object["spec"]["template"]["spec"]["containers"][0]["env"]
                .as_array_mut()
                .unwrap();
            for (name, image) in [
                ("FLANNEL_IMAGE", images::FLANNEL),
                ("FLANNEL_CNI_PLUGIN_IMAGE", images::FLANNEL_CNI_PLUGIN),
                ("KUBE_PROXY_IMAGE", images::KUBE_PROXY),
            ] {
                let variable = variables
                    .iter_mut()
                    .find(|variable| variable["name"] == name)
                    .unwrap();
                variable["value"] = image.into();
            }
        }
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
            .await;
    }

    /// Installs Weft and connects the nodes by Flannel, routed between hosts.
    pub async fn connect(&self) {
        self.install().await;
        let flannel = json!({"type": "Flannel", "flannelConfig": {"backend": "host-gw"}});
        self.network(flannel, "nftables").await;
        self.wait_status(&[("Available", "True"), ("Progressing", "False")])
            .await;
    }

    /// Connects the nodes as an administrator without operators would: by the rendered objects.
    pub async fn connect_without_operator(&self) {
        self.lab.connect(&binary(), WEFT).await.unwrap();
    }

    /// Installs the operator of the nodes' networks, with these variables.
    pub async fn node_network(&self, variables: &[(&str, &str)]) {
        let manifests = weft(&["manifests", "--split", "--domains", "node-network"]);
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
        for object in objects
            .iter_mut()
            .filter(|object| object["kind"] == "Deployment")
        {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            let all = container["env"].as_array_mut().unwrap();
            all.extend(
                variables
                    .iter()
                    .map(|(name, value)| json!({"name": name, "value": value})),
            );
        }
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
            .await;
    }

    /// Applies an NMState with this specification, and waits until its agents run everywhere.
    pub async fn install_agents(&self, spec: &Value) {
        self.apply(&json!({
            "apiVersion": "nmstate.io/v1", "kind": "NMState",
            "metadata": {"name": "nmstate"}, "spec": spec,
        }))
        .await;
        wait_until("the agents run", async || {
            let nmstate = self.get(&["nmstate", "nmstate"]).await;
            let conditions = nmstate["status"]["conditions"].as_array();
            let holds = |kind: &str, status: &str| {
                conditions.into_iter().flatten().any(|one| {
                    one["type"] == kind
                        && one["status"] == status
                        && one["observedGeneration"] == nmstate["metadata"]["generation"]
                })
            };
            if holds("Available", "True") && holds("Progressing", "False") {
                Ok(())
            } else {
                Err(format!("{:#}", nmstate["status"]))
            }
        })
        .await;
    }

    /// Installs the operator for these components, and applies a NetworkAddonsConfig with this
    /// specification.
    pub async fn add_ons(&self, components: &str, spec: &Value) {
        let manifests = weft(&[
            "manifests",
            "--split",
            "--domains",
            "addons",
            "--components",
            components,
        ]);
        let arguments = ["apply", "-f", "-"];
        let control_plane = self.lab.control_plane();
        control_plane
            .kubectl_with_input(&arguments, &manifests)
            .await
            .unwrap();
        self.apply(&json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
            "metadata": {"name": "cluster"}, "spec": spec,
        }))
        .await;
    }

    /// Waits until the NetworkAddonsConfig is Available.
    pub async fn wait_add_ons(&self) {
        wait_until("the add-ons are Available", async || {
            let status = self.get(&["networkaddonsconfig", "cluster"]).await["status"].clone();
            let conditions = status["conditions"].as_array();
            let available = conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Available" && condition["status"] == "True");
            if available {
                Ok(())
            } else {
                Err(format!("{status:#}"))
            }
        })
        .await;
    }

    /// As `kubectl apply` does.
    pub async fn apply(&self, object: &Value) {
        self.lab
            .control_plane()
            .kubectl_with_input(&["apply", "-f", "-"], &object.to_string())
            .await
            .unwrap();
    }

    /// Applies a NetworkConfig with this default network and these arguments of kube-proxy.
    pub async fn network(&self, default_network: Value, proxy_mode: &str) {
        self.apply(&self.lab.network_config(&default_network, proxy_mode))
            .await;
    }

    /// Changes the NetworkConfig by a merge patch.
    pub async fn patch(&self, patch: &Value) {
        self.lab
            .kubectl(&[
                "patch",
                "networkconfig",
                "default",
                "--type=merge",
                "--patch",
                &patch.to_string(),
            ])
            .await
            .unwrap();
    }

    /// Returns what `weft plan -o json` says of a resource.
    pub async fn plan(&self, resource: &Value) -> Value {
        let file = self.images.path().join("planned.json");
        std::fs::write(&file, resource.to_string()).unwrap();
        let output = tokio::process::Command::new(binary())
            .args(["plan", "--output=json", "--filename"])
            .arg(file)
            .env("KUBECONFIG", self.lab.control_plane().kubeconfig())
            .stderr(Stdio::inherit())
            .output()
            .await
            .unwrap();
        // 2: it could not be found out.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// An object as the API server has it.
    pub async fn get(&self, arguments: &[&str]) -> Value {
        let text = self
            .lab
            .kubectl(&[&["get", "--output=json"], arguments].concat())
            .await
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The NetworkConfig, once its status speaks of its latest generation and these conditions have
    /// these values.
    pub async fn wait_status(&self, conditions: &[(&str, &str)]) -> Value {
        wait_until(&format!("NetworkConfig: {conditions:?}"), async || {
            let config = self.get(&["networkconfig", "default"]).await;
            let status = &config["status"];
            let has = |(name, value): &(&str, &str)| {
                let all = status["conditions"].as_array().into_iter().flatten();
                all.clone()
                    .any(|condition| condition["type"] == *name && condition["status"] == *value)
            };
            let known = status["observedGeneration"] == config["metadata"]["generation"];
            if known && conditions.iter().all(has) {
                Ok(config)
            } else {
                Err(format!("{status:#}"))
            }
        })
        .await
    }

    /// Waits until a node or pod is Ready.
    pub async fn wait_ready(&self, what: &str) {
        self.lab
            .kubectl(&["wait", what, "--for=condition=Ready", "--timeout=90s"])
            .await
            .unwrap();
    }

    /// A pod with the tools on a node, once it is Ready. It serves its name over HTTP, and echoes
    /// what it is sent on port 9000.
    pub async fn pod(&self, name: &str, node: &str) -> Pod {
        let script = format!(
            "mkdir /www && echo {name} >/www/index.html && httpd -p '[::]:8080' -h /www && exec nc -ll -p 9000 -e cat"
        );
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "tools",
                    "image": images::TOOLS,
                    "command": ["sh", "-c", script],
                    "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
                }],
            },
        }))
        .await;
        self.wait_ready(&format!("pod/{name}")).await;
        let pod = self.get(&["pod", name]).await;
        let addresses = pod["status"]["podIPs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ip| ip["ip"].as_str().unwrap().to_owned())
            .collect();
        Pod {
            name: name.to_owned(),
            addresses,
        }
    }

    /// A Service for a pod, with an address of each family. Returns the addresses.
    pub async fn service(&self, pod: &str) -> Vec<String> {
        let ports = json!([
            {"name": "http", "port": 80, "targetPort": 8080},
            {"name": "echo", "port": 9000, "targetPort": 9000}
        ]);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": pod},
            "spec": {"selector": {"app": pod}, "ports": ports, "ipFamilyPolicy": "PreferDualStack"},
        }))
        .await;
        let service = self.get(&["service", pod]).await;
        service["spec"]["clusterIPs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ip| ip.as_str().unwrap().to_owned())
            .collect()
    }

    /// Runs a program in a pod and returns what it prints.
    pub async fn exec(&self, pod: &str, command: &[&str]) -> Result<String, String> {
        self.lab
            .exec_in_pod("default", pod, command)
            .await
            .map_err(|error| format!("{error:#}"))
    }

    /// Waits until a pod gets an answer over HTTP.
    pub async fn wait_fetch(&self, from: &str, address: &str, port: u16, answer: &str) {
        let address = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        let url = format!("http://{address}:{port}/");
        wait_until(&format!("{from} fetches {url}"), async || {
            match self.exec(from, &["wget", "-q", "-O", "-", &url]).await {
                Ok(said) if said.trim() == answer => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Both pods reach each other by their addresses of all families, by ping and by HTTP.
    pub async fn assert_connected(&self, one: &Pod, other: &Pod) {
        for (from, to) in [(one, other), (other, one)] {
            for address in &to.addresses {
                self.exec(&from.name, &["ping", "-c", "2", "-W", "5", address])
                    .await
                    .unwrap();
                self.wait_fetch(&from.name, address, 8080, &to.name).await;
            }
        }
    }

    /// The one pod of the operator.
    pub async fn operator_pod(&self) -> Value {
        let pods = self.get(&["pods", "--namespace", NAMESPACE]).await;
        pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .cloned()
            .unwrap_or_default()
    }
}

/// A pod that runs.
pub struct Pod {
    pub name: String,
    pub addresses: Vec<String>,
}

/// The binary under test.
pub fn binary() -> PathBuf {
    weft_system_tests::program("weft")
}

/// Returns the output of `weft`.
fn weft(arguments: &[&str]) -> String {
    let output = Command::new(binary())
        .args(arguments)
        .current_dir(Path::new("/"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
