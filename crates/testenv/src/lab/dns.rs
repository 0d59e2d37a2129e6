//! The names of Services: kubeadm brings CoreDNS to each cluster, and so does a lab that is asked for
//! it.

use anyhow::Result;

use super::Lab;

const MANIFEST: &str = include_str!("dns.yaml");

impl Lab {
    /// Brings CoreDNS behind the address that the kubelets give to pods. Returns at once: the pod
    /// waits for a network. The nodes need [`images::coredns`](super::images::coredns).
    ///
    /// # Errors
    /// kubectl failed.
    pub async fn start_dns(&self) -> Result<()> {
        let control_plane = self.control_plane();
        control_plane
            .kubectl_with_input(&["apply", "-f", "-"], MANIFEST)
            .await
            .map(drop)
    }

    /// Waits until pods can ask for names.
    ///
    /// # Errors
    /// It took more than 90 seconds. The error has the words of kubectl.
    pub async fn wait_dns(&self) -> Result<()> {
        let rollout = [
            "rollout",
            "status",
            "-n",
            "kube-system",
            "deployment/coredns",
            "--timeout=90s",
        ];
        self.kubectl(&rollout).await.map(drop)
    }
}
