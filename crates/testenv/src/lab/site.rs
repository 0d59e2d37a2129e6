//! The control plane of a lab: where it is, and what real nodes ask of it beyond what nodes played
//! by kwok need.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;

use crate::{pki::Authority, workdir::WorkDir};

/// Addresses of a lab. They are the same in each one: each is a world of its own.
pub mod addresses {
    use super::{Ipv4Addr, Ipv6Addr};

    /// Where nodes, and pods with a host's network, reach the API server, on [`API_SERVER_PORT`].
    pub(crate) const API_SERVER: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 1);
    /// The way out of the nodes over IPv6, in a lab of two families.
    pub(crate) const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x31, 0, 0, 0, 0, 0, 1);
    /// As kubeadm has it.
    pub(crate) const API_SERVER_PORT: u16 = 6443;
    /// Range of the pods' addresses: `clusterNetworks` of a NetworkConfig. Each node gets a /24 of
    /// it.
    pub const PODS: &str = "10.244.0.0/16";
    /// Range of the pods' IPv6 addresses in a lab of two families. Each node gets a /64 of it.
    pub const PODS_V6: &str = "fd00:10:244::/56";
    /// Range of the Services' addresses: `serviceNetwork` of a NetworkConfig. As kubeadm has it.
    pub const SERVICES: &str = "10.96.0.0/12";
    /// Range of the Services' IPv6 addresses in a lab of two families.
    pub const SERVICES_V6: &str = "fd00:10:96::/112";
}

/// A place in a network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The file of the namespace.
    pub(crate) network: PathBuf,
    /// The API server, from this machine.
    pub(crate) url: String,
    /// Both address families?
    pub(crate) dual_stack: bool,
}

impl Site {
    /// The API server's address, for its nodes.
    pub(crate) fn api_server() -> SocketAddr {
        (addresses::API_SERVER, addresses::API_SERVER_PORT).into()
    }

    /// The API server's URL, for its nodes.
    pub(crate) fn inner_url() -> String {
        format!("https://{}", Self::api_server())
    }

    fn ranges(&self, ipv4: &str, ipv6: &str) -> String {
        if self.dual_stack {
            format!("{ipv4},{ipv6}")
        } else {
            ipv4.to_owned()
        }
    }

    /// The pods' ranges of addresses.
    pub(crate) fn pods(&self) -> String {
        self.ranges(addresses::PODS, addresses::PODS_V6)
    }

    /// Writes the files that these arguments of kube-apiserver name.
    pub(crate) fn api_server_args(
        &self,
        dir: &WorkDir,
        authority: &Authority,
    ) -> Result<Vec<String>> {
        let kubelet_client = authority.client("kube-apiserver-kubelet-client", "system:masters")?;
        let certificate = dir.write("apiserver-kubelet-client.crt", &kubelet_client.certificate)?;
        let key = dir.write("apiserver-kubelet-client.key", &kubelet_client.key)?;
        Ok(vec![
            "--bind-address=0.0.0.0".into(),
            // With the default reconciler, the Service `kubernetes` leads there.
            format!("--advertise-address={}", addresses::API_SERVER),
            format!(
                "--service-cluster-ip-range={}",
                self.ranges(addresses::SERVICES, addresses::SERVICES_V6)
            ),
            // A kubelet has the rights of its node, no more.
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            format!("--client-ca-file={}", dir.path().join("ca.crt").display()),
            format!("--kubelet-client-certificate={}", certificate.display()),
            format!("--kubelet-client-key={}", key.display()),
            // Nobody resolves a node's name.
            "--kubelet-preferred-address-types=InternalIP".into(),
            // No kube-proxy runs next to it. So it calls a webhook, or another API server, at the
            // address of a pod instead of the Service's.
            "--enable-aggregator-routing=true".into(),
        ])
    }

    /// Arguments of kube-controller-manager.
    pub(crate) fn controller_manager_args(&self) -> Vec<String> {
        let mut args = vec![
            "--allocate-node-cidrs=true".to_owned(),
            format!("--cluster-cidr={}", self.pods()),
        ];
        if self.dual_stack {
            args.extend([
                "--node-cidr-mask-size-ipv4=24".into(),
                "--node-cidr-mask-size-ipv6=64".into(),
            ]);
        } else {
            args.push("--node-cidr-mask-size=24".into());
        }
        args
    }
}
