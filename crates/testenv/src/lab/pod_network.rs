//! A network for the pods of a lab: the NetworkConfig that fits its addresses, and a way to bring it
//! without an operator.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Lab, addresses, images, site::Site};

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
    /// when all nodes are Ready.
    ///
    /// `weft` is the program, and `image` the image of Weft. The nodes need [`images::flannel`] and
    /// [`images::kube_proxy`].
    ///
    /// # Errors
    /// `weft` or kubectl failed, or a node is not Ready after 90 seconds.
    pub async fn connect(&self, weft: &Path, image: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name);
        let flannel = json!({"type": "Flannel", "flannelConfig": {"backend": "host-gw"}});
        let config = self.network_config(&flannel, "nftables");
        fs::write(file("config.json"), config.to_string())?;
        let lines = format!(
            "FLANNEL_IMAGE={}\nKUBE_PROXY_IMAGE={}\nOPERATOR_IMAGE={image}\n",
            images::FLANNEL,
            images::KUBE_PROXY
        );
        fs::write(file("images"), lines)?;
        let api_server = Site::api_server();
        let output = tokio::process::Command::new(weft)
            .args(["render-network", "--out", "-", "--config"])
            .arg(file("config.json"))
            .arg("--images")
            .arg(file("images"))
            .env("KUBERNETES_SERVICE_HOST", api_server.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", api_server.port().to_string())
            .output()
            .await
            .with_context(|| format!("cannot run {}", weft.display()))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "weft render-network: {}: {stderr}",
            output.status
        );
        let objects = String::from_utf8(output.stdout)?;
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
