//! A network for the pods of a lab: the NetworkConfig that fits its addresses, and a way to bring it
//! without an operator.

use std::{path::Path, process::Command};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Lab, addresses, images, site::Site};
use crate::command::{Input, output};

/// The namespace and the DaemonSet of kube-proxy.
const PROXY: &str = "openshift-kube-proxy";

impl Lab {
    /// Reports whether nodes and pods have addresses of both families.
    pub fn is_dual_stack(&self) -> bool {
        self.nodes[0].addresses().len() > 1
    }

    /// A NetworkConfig for the addresses of this lab, with this `defaultNetwork` and with kube-proxy in
    /// this mode.
    pub fn network_config(&self, default_network: &Value, proxy_mode: &str) -> Value {
        let mut pods = vec![json!({"cidr": addresses::PODS, "hostSubnetLength": 8})];
        let mut services = vec![addresses::SERVICES];
        if self.is_dual_stack() {
            pods.push(json!({"cidr": addresses::PODS_V6, "hostSubnetLength": 64}));
            services.push(addresses::SERVICES_V6);
        }
        // The limits of connection tracking belong to the machine, not to the network namespace that a
        // node is here.
        let arguments = json!({
            "proxy-mode": [proxy_mode],
            "conntrack-max-per-core": ["0"], "conntrack-min": ["0"],
            "conntrack-tcp-timeout-established": ["0s"], "conntrack-tcp-timeout-close-wait": ["0s"],
        });
        json!({
            "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig", "metadata": {"name": "default"},
            "spec": {
                "clusterNetworks": pods,
                "serviceNetwork": services,
                "defaultNetwork": default_network,
                "kubeProxyConfig": {"proxyArguments": arguments},
            },
        })
    }

    /// Connects the nodes as an administrator without operators would: applies what
    /// `weft render-network` prints for Flannel, routed between hosts, and for kube-proxy. Returns
    /// when the pods of both run and all nodes are Ready.
    ///
    /// `weft` is the program, and `image` the image of Weft. The nodes need [`images::flannel`] and
    /// [`images::kube_proxy`].
    ///
    /// # Errors
    /// `weft` or kubectl failed, or it took more than 90 seconds until the pods run or the nodes are
    /// Ready.
    pub async fn connect(&self, weft: &Path, image: &str) -> Result<()> {
        let flannel = json!({"type": "Flannel", "flannelConfig": {"backend": "host-gw"}});
        self.apply_rendered(weft, image, &flannel).await?;
        self.wait_rolled_out("kube-flannel", "kube-flannel-ds")
            .await?;
        self.wait_rolled_out(PROXY, PROXY).await?;
        let ready = [
            "wait",
            "node",
            "--all",
            "--for=condition=Ready",
            "--timeout=90s",
        ];
        self.kubectl(&ready).await.map(drop)
    }

    /// Has kube-proxy run on the nodes, without a network for pods, as kubeadm leaves a new cluster.
    /// The parameters are those of [`Self::connect`]. The nodes need [`images::kube_proxy`].
    ///
    /// # Errors
    /// As those of [`Self::connect`].
    pub async fn run_kube_proxy(&self, weft: &Path, image: &str) -> Result<()> {
        self.apply_rendered(weft, image, &json!({"type": "None"}))
            .await?;
        self.wait_rolled_out(PROXY, PROXY).await
    }

    /// Applies what `weft render-network` prints for this `defaultNetwork`.
    async fn apply_rendered(
        &self,
        weft: &Path,
        image: &str,
        default_network: &Value,
    ) -> Result<()> {
        let config = self.network_config(default_network, "nftables").to_string();
        let api_server = Site::api_server();
        let mut command = Command::new(weft);
        command
            .args(["render-network", "--config", "-", "--out", "-"])
            .env("FLANNEL_IMAGE", images::FLANNEL)
            .env("KUBE_PROXY_IMAGE", images::KUBE_PROXY)
            .env("OPERATOR_IMAGE", image)
            .env("KUBERNETES_SERVICE_HOST", api_server.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", api_server.port().to_string());
        let output = output(command, Input::Text(&config)).await?;
        let objects = output.success("weft render-network")?;
        self.control_plane()
            .kubectl_with_input(&["apply", "-f", "-"], &objects)
            .await
            .map(drop)
    }

    /// Waits until the pods of a DaemonSet run.
    async fn wait_rolled_out(&self, namespace: &str, name: &str) -> Result<()> {
        let set = format!("daemonset/{name}");
        self.kubectl(&["rollout", "status", "-n", namespace, &set, "--timeout=90s"])
            .await
            .map(drop)
    }
}
