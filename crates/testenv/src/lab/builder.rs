//! The start of a lab.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::{
    ControlPlane,
    network::{self, Network},
    relay::Relay,
    wait::{START_TIMEOUT, within},
};

use super::cgroups::Cgroups;
use super::node::{Node, NodeOptions, Surroundings};
use super::site::{Site, addresses};
use super::{Lab, images, probe};

/// Where all addresses of the nodes fit.
const MAX_NODES: usize = 200;

impl Lab {
    /// With two nodes, unless others are named.
    pub fn builder() -> LabBuilder {
        LabBuilder::new()
    }
}

/// Chooses what a [`Lab`] consists of.
#[derive(Clone, Debug)]
pub struct LabBuilder {
    nodes: Vec<NodeOptions>,
    images: Vec<PathBuf>,
    /// Nodes, pods and Services have addresses of both families: where the kernel knows IPv6.
    dual_stack: bool,
    audit: bool,
    dir: Option<PathBuf>,
}

impl LabBuilder {
    fn new() -> Self {
        Self {
            nodes: vec![],
            images: vec![],
            dual_stack: probe::has_ipv6(),
            audit: false,
            dir: None,
        }
    }

    /// Adds a node. Without any there are `node-a`, which has the control plane's label, and
    /// `node-b`.
    #[must_use]
    pub fn node(mut self, options: NodeOptions) -> Self {
        self.nodes.push(options);
        self
    }

    /// Adds an archive of images that all nodes have from the start.
    #[must_use]
    pub fn image(mut self, archive: impl Into<PathBuf>) -> Self {
        self.images.push(archive.into());
        self
    }

    /// Has the API server write an audit log, see [`ControlPlane::audit_events`]. Off by default.
    #[must_use]
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Keeps everything in this folder instead of a temporary one. It is made if need be and
    /// removed at the end.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Starts control plane and nodes, building their programs first if they are not there. Returns
    /// when every node is registered, has its range of pod addresses, to which the API server has a
    /// route, and has all images. No node is Ready: there is no network for pods yet.
    ///
    /// # Errors
    /// The machine lacks something (the error says what), or a program is missing, ended or not
    /// ready within two minutes.
    pub async fn start(mut self) -> Result<Lab> {
        let missing = probe::missing();
        if !missing.is_empty() {
            bail!("this machine cannot run real nodes: {}", missing.join("; "));
        }
        if self.nodes.is_empty() {
            self.nodes = vec![
                NodeOptions::new("node-a").control_plane(),
                NodeOptions::new("node-b"),
            ];
        }
        if self.nodes.len() > MAX_NODES {
            bail!(
                "{} nodes are too many: {MAX_NODES} at most",
                self.nodes.len()
            );
        }
        let programs = tokio::task::spawn_blocking(images::programs).await??;
        self.images.insert(0, images::pause()?);

        let network = Network::new()?;
        build_network(&network, self.dual_stack)?;
        let forward = Relay::start(
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            Site::api_server(),
            Some(&network.file()),
        )?;
        let url = format!("https://127.0.0.1:{}", forward.port());
        let site = Site {
            network: network.file(),
            url,
            dual_stack: self.dual_stack,
        };
        let mut builder = ControlPlane::builder()
            .nodes(0)
            .audit(self.audit)
            .site(site);
        if let Some(dir) = &self.dir {
            builder = builder.dir(dir);
        }
        let control_plane = builder.start().await?;
        let cgroups = Cgroups::new(control_plane.dir())?;
        let mut lab = Lab {
            nodes: vec![],
            _cgroups: cgroups,
            control_plane,
            _forward: forward,
            _network: network,
        };
        lab.control_plane.keep_files(true);
        self.start_nodes(&mut lab, &programs).await?;
        lab.control_plane
            .keep_files(std::env::var_os("WEFT_TESTENV_KEEP").is_some());
        Ok(lab)
    }

    async fn start_nodes(&self, lab: &mut Lab, programs: &Path) -> Result<()> {
        let around = Surroundings {
            dir: lab.control_plane.dir(),
            programs,
            cgroups: &lab._cgroups,
            network: &lab._network,
            authority: lab.control_plane.authority(),
            dual_stack: self.dual_stack,
        };
        for (index, options) in (1..).zip(&self.nodes) {
            lab.nodes.push(Node::start(options, index, &around)?);
        }
        let client = lab.control_plane.client();
        let images = &self.images;
        let ranges = try_join_all(lab.nodes.iter_mut().zip(&self.nodes).map(
            async |(node, options)| {
                node.wait_for_containerd().await?;
                for image in images {
                    node.import(image).await?;
                }
                wait_registered(&client, node, options).await
            },
        ))
        .await?;
        let routes: String = lab
            .nodes
            .iter()
            .zip(&ranges)
            .map(|(node, ranges)| routes_to(node.addresses(), ranges))
            .collect();
        network::ip(&lab._network.file(), &routes)
    }
}

/// Commands of `ip` that lead to the pods of a node, by its address of the same family.
fn routes_to(addresses: &[IpAddr], ranges: &[String]) -> String {
    ranges
        .iter()
        .zip(addresses)
        .map(|(range, address)| format!("route add {range} via {address}\n"))
        .collect()
}

/// Two bridges. The first one has the control plane's addresses.
fn build_network(network: &Network, dual_stack: bool) -> Result<()> {
    // A bridge whose MTU was set does not follow its ports': each node has its own.
    let mut commands = format!(
        "link add br0 type bridge
link set br0 mtu 1500 up
addr add {}/24 dev br0
link add br1 type bridge
link set br1 mtu 1500 up
",
        addresses::API_SERVER
    );
    if dual_stack {
        commands += &format!("addr add {}/64 dev br0 nodad\n", addresses::GATEWAY_V6);
    }
    network::ip(&network.file(), &commands)
}

/// Waits until the API server knows the node, and returns its ranges of pod addresses, IPv4 first.
async fn wait_registered(
    client: &kube::Client,
    node: &mut Node,
    options: &NodeOptions,
) -> Result<Vec<String>> {
    let api: Api<NodeObject> = Api::all(client.clone());
    let registered = within(START_TIMEOUT, Duration::from_millis(20), async || {
        node.check_running()?;
        let object = api.get_opt(node.name()).await?;
        let ranges = object.and_then(|object| object.spec?.pod_cidrs);
        Ok(ranges.ok_or("it has no range of pods".into()))
    })
    .await;
    let ranges = registered.with_context(|| {
        format!(
            "node {} is not registered; {}",
            node.name(),
            node.last_words()
        )
    })?;
    if options.control_plane {
        // The kubelet may not give itself this label (NodeRestriction). Kubeadm does it this way,
        // too.
        let patch = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
        let patched = api
            .patch(node.name(), &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.with_context(|| format!("node {} gets no label", node.name()))?;
    }
    Ok(ranges)
}
