//! A network for the pods of a lab: the NetworkConfig that fits its addresses, and a way to bring it
//! without an operator.

use std::{path::Path, process::Command};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Lab, addresses, images, site::Site};
use crate::command::{Input, output};

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
        let config = self.network_config(&flannel, "nftables").to_string();
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
            .await?;
        for (namespace, set) in [
            ("kube-flannel", "daemonset/kube-flannel-ds"),
            ("openshift-kube-proxy", "daemonset/openshift-kube-proxy"),
        ] {
            self.kubectl(&["rollout", "status", "-n", namespace, set, "--timeout=90s"])
                .await?;
        }
        let ready = [
            "wait",
            "node",
            "--all",
            "--for=condition=Ready",
            "--timeout=90s",
        ];
        self.kubectl(&ready).await.map(drop)
    }
}
