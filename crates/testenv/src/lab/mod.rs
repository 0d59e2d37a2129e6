//! Real nodes: kubelets, containerd and runc around a control plane, in a network of their own.
//! Needs root. No virtual machine, no container engine and no registry.
//!
//! ```text
//!   this machine          lab: a network namespace            node: network, mount, UTS, IPC and PID namespaces
//!   127.0.0.1:PORT  --->  172.31.0.1:6443 kube-apiserver      containerd, kubelet, pods
//!   kubectl, tests        br0  172.31.0.1/24, fd00:31::1/64 --- eth0  172.31.0.11, fd00:31::11
//!                         br1  no address ------------------- eth1  if asked for
//! ```
//!
//! A node has what kubeadm would have left there, at the usual places
//! (`/etc/kubernetes/kubelet.conf`, `/opt/cni/bin`, `/etc/cni/net.d` …), but **no network for
//! pods**: no CNI configuration, no proxy. So its Node object is there and NotReady. Pods on the
//! host's network run all the same, and reach the API server at `https://172.31.0.1:6443`.
//!
//! The API server has a route to the pods of each node, and none to Services. It calls a webhook at
//! the address of a pod (`--enable-aggregator-routing`), as where no kube-proxy runs next to it. So
//! webhooks work once the nodes have a network for pods.
//!
//! ```no_run
//! use weft_testenv::lab::{Lab, NodeOptions, images};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let lab = Lab::builder()
//!     .node(NodeOptions::new("node-a").control_plane().data_nic())
//!     .node(NodeOptions::new("node-b").mtu(1400).data_nic())
//!     .image(images::tools()?)                 // a busybox for test pods, `localhost/tools:test`
//!     .image(images::flannel()?)
//!     .image("target/images/weft.tar")         // made by `make images`
//!     .start()
//!     .await?;
//! lab.kubectl(&["apply", "-f", "pods.yaml"]).await?;          // imagePullPolicy: IfNotPresent, image: localhost/…
//! lab.kubectl(&["wait", "pod/a", "--for=condition=Ready", "--timeout=60s"]).await?;
//! println!("{}", lab.exec_in_pod("default", "a", &["ping", "-c1", "10.244.1.2"]).await?);
//! println!("{}", lab.node("node-a")?.exec(&["nft", "list", "ruleset"]).await?);
//! # Ok(())
//! # }
//! ```
//!
//! Dropping the lab ends every process, and with them their namespaces, devices and mounts. The
//! files and control groups are removed. If its owner is killed, the kernel ends the processes all
//! the same, and the next start removes files and groups. The folder is kept when a test panics:
//! `nodes/<node>/log` in it has the logs of kubelet and containerd.

mod builder;
pub(crate) mod cgroups;
mod config;
mod dns;
pub mod images;
mod node;
mod pod_network;
mod probe;
pub(crate) mod site;

use std::path::Path;

use anyhow::{Context, Result};

pub use crate::init::enter;
pub use crate::probe::has_link_type;
pub use builder::LabBuilder;
pub use cgroups::remove_leftovers;
pub use node::{Node, NodeOptions};
pub use probe::{missing, missing_options};
pub use site::addresses;

use cgroups::Cgroups;

use crate::{ControlPlane, network::Network, relay::Relay};

/// A control plane with real nodes. Dropping it ends it.
pub struct Lab {
    // Dropped in this order: the nodes before their groups, and the network last.
    nodes: Vec<Node>,
    _cgroups: Cgroups,
    control_plane: ControlPlane,
    _forward: Relay,
    _network: Network,
}

impl Lab {
    /// Its control plane: clients, kubeconfigs for this machine, audit log, folder.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.control_plane.client()
    }

    /// Runs the real kubectl with all rights and returns its stdout.
    ///
    /// # Errors
    /// kubectl failed: the error holds its arguments and its stderr.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.control_plane.kubectl(args).await
    }

    /// Runs a program in the (first container of a) pod, through API server and kubelet, and
    /// returns its stdout.
    ///
    /// # Errors
    /// It failed, or the pod does not run: the error holds the stderr.
    pub async fn exec_in_pod(
        &self,
        namespace: &str,
        pod: &str,
        command: &[&str],
    ) -> Result<String> {
        let args = [&["exec", "--namespace", namespace, pod, "--"], command].concat();
        self.kubectl(&args).await
    }

    /// In the order of their start.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node of this name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn node(&self, name: &str) -> Result<&Node> {
        self.nodes
            .iter()
            .find(|node| node.name() == name)
            .with_context(|| format!("no node {name} in this lab"))
    }

    /// Loads an archive of images on all nodes.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub async fn import(&self, archive: &Path) -> Result<()> {
        futures::future::try_join_all(self.nodes.iter().map(|node| node.import(archive)))
            .await
            .map(drop)
    }

    /// Are all of its processes running? (Those inside nodes are started again by the node.)
    ///
    /// # Errors
    /// One has ended. The error shows the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Node::check_running)?;
        self.control_plane.check_running()
    }

    /// Name and pid of its processes, without those inside nodes.
    pub fn processes(&self) -> Vec<(String, u32)> {
        let mut all = self.control_plane.processes();
        all.extend(self.nodes.iter().flat_map(Node::processes));
        all
    }
}
