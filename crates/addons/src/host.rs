//! Where a node has what the components need of it: folders and sockets that distributions of
//! Kubernetes put elsewhere.

use std::collections::BTreeMap;

use weft_api::addons::{HostPaths as Requested, Placement};
use weft_plan::{Facts, Node, Notice};

weft_plan::choice! {
    /// Distributions, by where they put things.
    #[derive(Default)]
    pub enum Preset("a preset") {
        /// As kubeadm and most others have it, and upstream's components assume it.
        #[default]
        Kubeadm,
        /// k3s.
        K3s,
        /// RKE2.
        RKE2,
        /// k0s.
        K0s,
        /// MicroK8s.
        MicroK8s,
        /// Talos Linux.
        Talos,
        /// OpenShift 4.
        OpenShift,
    }
}

/// Folders of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// The distribution that they were taken from.
    pub preset: Preset,
    /// Where the container runtime looks for CNI plugins.
    pub cni_bin_dir: String,
    /// Where it looks for the configuration of networks.
    pub cni_config_dir: String,
    /// Where kubelet has its data, the socket of its API for the resources of pods among them.
    pub kubelet_dir: String,
    /// Where the runtime mounts the network namespaces of pods.
    pub network_namespace_dir: String,
}

/// Host paths as asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedPaths {
    /// The distribution, or that of most nodes.
    pub preset: Option<Preset>,
    /// These win over the preset.
    pub cni_bin_dir: Option<String>,
    /// See [`HostPaths::cni_config_dir`].
    pub cni_config_dir: Option<String>,
    /// See [`HostPaths::kubelet_dir`].
    pub kubelet_dir: Option<String>,
    /// See [`HostPaths::network_namespace_dir`].
    pub network_namespace_dir: Option<String>,
}

/// The socket of CRI-O, and what the original assumes of every node.
const CRIO: &str = "/run/crio/crio.sock";

impl Preset {
    /// The folders of this distribution, as it is installed by default.
    ///
    /// Sources, where they differ from kubeadm's:
    /// - k3s: <https://docs.k3s.io/networking/multus-ipams> (plugins there since October 2024,
    ///   before in a folder that each release names anew). Its kubelet has `/var/lib/kubelet` (k3s
    ///   #840).
    /// - RKE2: none. Its chart rke2-multus mounts the same folders as upstream.
    /// - k0s: `<data-dir>/kubelet` (k0s #1842, #5186). Plugins and configuration as kubeadm.
    /// - MicroK8s: <https://discuss.kubernetes.io/t/microk8s-cni-configuration/23783>, and
    ///   `--root-dir` in its arguments of kubelet.
    /// - Talos: <https://www.talos.dev/v1.7/kubernetes-guides/network/multus/>.
    /// - OpenShift: `network_dir` and `plugin_dirs` in its configuration of CRI-O.
    pub fn paths(self) -> HostPaths {
        let kubeadm = [
            "/opt/cni/bin",
            "/etc/cni/net.d",
            "/var/lib/kubelet",
            "/run/netns",
        ];
        let [_, _, kubelet, netns] = kubeadm;
        let paths = match self {
            Self::Kubeadm | Self::RKE2 => kubeadm,
            Self::K3s => [
                "/var/lib/rancher/k3s/data/cni",
                "/var/lib/rancher/k3s/agent/etc/cni/net.d",
                kubelet,
                netns,
            ],
            Self::K0s => [
                "/opt/cni/bin",
                "/etc/cni/net.d",
                "/var/lib/k0s/kubelet",
                netns,
            ],
            Self::MicroK8s => [
                "/var/snap/microk8s/current/opt/cni/bin",
                "/var/snap/microk8s/current/args/cni-network",
                "/var/snap/microk8s/common/var/lib/kubelet",
                netns,
            ],
            Self::Talos => ["/opt/cni/bin", "/etc/cni/net.d", kubelet, "/var/run/netns"],
            Self::OpenShift => [
                "/var/lib/cni/bin",
                "/etc/kubernetes/cni/net.d",
                kubelet,
                netns,
            ],
        };
        let [
            cni_bin_dir,
            cni_config_dir,
            kubelet_dir,
            network_namespace_dir,
        ] = paths.map(str::to_owned);
        HostPaths {
            preset: self,
            cni_bin_dir,
            cni_config_dir,
            kubelet_dir,
            network_namespace_dir,
        }
    }

    /// The socket of the container runtime that the distribution brings with it. `None` if it
    /// leaves the choice.
    fn cri_socket(self) -> Option<&'static str> {
        match self {
            Self::K3s | Self::RKE2 => Some("/run/k3s/containerd/containerd.sock"),
            Self::K0s => Some("/run/k0s/containerd.sock"),
            Self::MicroK8s => Some("/var/snap/microk8s/common/run/containerd.sock"),
            Self::Talos => Some("/run/containerd/containerd.sock"),
            Self::OpenShift => Some(CRIO),
            Self::Kubeadm => None,
        }
    }

    /// The distribution of a node, by what it says of itself.
    fn of(node: &Node, facts: &Facts) -> Self {
        let marked = |mark: &str| node.kubelet_version.contains(mark);
        match () {
            () if facts.is_openshift() => Self::OpenShift,
            () if marked("+k3s") => Self::K3s,
            () if marked("+rke2") => Self::RKE2,
            () if marked("+k0s") => Self::K0s,
            () if node.is_microk8s => Self::MicroK8s,
            () if node.os_image.starts_with("Talos") => Self::Talos,
            () => Self::Kubeadm,
        }
    }
}

/// The nodes on which the components run.
fn linux(facts: &Facts) -> impl Iterator<Item = (&String, &Node)> {
    facts
        .nodes
        .iter()
        .filter(|(_, node)| node.operating_system != "windows")
}

/// Returns the most frequent value. Of equally frequent values it returns the first by order, so
/// that the choice does not depend on the order of nodes.
fn most<T: Ord + Copy>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts = BTreeMap::<T, usize>::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
        .into_iter()
        .rev()
        .max_by_key(|(_, count)| *count)
        .map(|(one, _)| one)
}

impl RequestedPaths {
    /// Returns the requested folders, else those of the distribution that most nodes have. `before`
    /// counts if no node is known.
    pub(crate) fn fill(&self, facts: &Facts, before: Option<Preset>) -> HostPaths {
        let on_openshift = facts.is_openshift().then_some(Preset::OpenShift);
        let by_nodes = || {
            on_openshift
                .or_else(|| most(linux(facts).map(|(_, node)| Preset::of(node, facts))))
                .unwrap_or_default()
        };
        self.over(self.preset.or(before).unwrap_or_else(by_nodes))
    }

    /// The folders of a distribution, but for those that are given.
    fn over(&self, preset: Preset) -> HostPaths {
        let of = preset.paths();
        let given = |given: &Option<String>, default: String| given.clone().unwrap_or(default);
        HostPaths {
            preset,
            cni_bin_dir: given(&self.cni_bin_dir, of.cni_bin_dir),
            cni_config_dir: given(&self.cni_config_dir, of.cni_config_dir),
            kubelet_dir: given(&self.kubelet_dir, of.kubelet_dir),
            network_namespace_dir: given(&self.network_namespace_dir, of.network_namespace_dir),
        }
    }

    /// Nodes of a distribution that has these folders elsewhere.
    pub(crate) fn elsewhere(&self, facts: &Facts, paths: &HostPaths) -> Option<String> {
        let canonical = |paths: HostPaths| {
            [
                paths.cni_bin_dir,
                paths.cni_config_dir,
                paths.kubelet_dir,
                paths.network_namespace_dir,
            ]
            .map(|path| without_var(&path))
        };
        let ours = canonical(paths.clone());
        let differs = |(name, node)| {
            let preset = Preset::of(node, facts);
            let theirs = canonical(self.over(preset));
            let (their, our) = theirs
                .into_iter()
                .zip(ours.clone())
                .find(|(theirs, ours)| theirs != ours)?;
            Some((name, preset, their, our))
        };
        let others: Vec<_> = linux(facts).filter_map(differs).collect();
        let (name, preset, their, our) = others.first()?;
        Some(format!(
            "the folders of {} are used on all nodes, but node {name}{} looks like {preset}, which has {their} instead of {our}. Pods of add-ons do not work there: keep them off such nodes by spec.placementConfiguration.workloads, or set spec.hostPaths",
            paths.preset,
            more(others.len())
        ))
    }
}

impl HostPaths {
    /// As a specification has them.
    pub fn to_spec(&self) -> Requested {
        Requested {
            preset: Some(self.preset.to_string()),
            cni_bin_dir: Some(self.cni_bin_dir.clone()),
            cni_config_dir: Some(self.cni_config_dir.clone()),
            kubelet_dir: Some(self.kubelet_dir.clone()),
            network_namespace_dir: Some(self.network_namespace_dir.clone()),
        }
    }
}

/// Nodes that run Windows, and get pods that cannot run there: the placement's default keeps them
/// off, and one that is given replaces it. Nothing is said if there is an affinity, which may do so
/// too.
pub(crate) fn windows(facts: &Facts, workloads: &Placement) -> Option<String> {
    let kept_off = workloads
        .node_selector
        .as_ref()
        .and_then(|labels| labels.get("kubernetes.io/os"))
        .is_some_and(|os| os == "linux");
    let nodes: Vec<_> = facts
        .nodes
        .iter()
        .filter(|(_, node)| node.operating_system == "windows")
        .collect();
    let (name, _) = nodes
        .first()
        .filter(|_| !kept_off && workloads.affinity.is_none())?;
    Some(format!(
        "node {name}{} runs Windows, and add-ons are not kept off it: add kubernetes.io/os: linux to spec.placementConfiguration.workloads.nodeSelector",
        more(nodes.len())
    ))
}

/// The taint of control-plane nodes, if each of them has one. The default of `infra` prefers these
/// nodes and tolerates no taint, so no pod runs on one.
pub(crate) fn tainted_control_plane(facts: &Facts) -> Option<String> {
    let mut nodes = facts.nodes.values().filter(|node| node.is_control_plane);
    let taint = nodes.next()?.taint.as_deref()?;
    if nodes.any(|node| node.taint.is_none()) {
        return None;
    }
    let (key, effect) = taint.split_once(':')?;
    Some(format!(
        "prefers control-plane nodes, but runs on other nodes only: all control-plane nodes have a taint, such as {taint}. To have it there, set spec.placementConfiguration.infra.tolerations to [{{key: {key}, operator: Exists, effect: {effect}}}], and also nodeSelector or affinity of infra, because infra replaces its default as a whole"
    ))
}

fn more(nodes: usize) -> String {
    if nodes > 1 {
        format!(", and {} more nodes,", nodes - 1)
    } else {
        String::new()
    }
}

/// `/var/run` is `/run` by another name.
fn without_var(path: &str) -> String {
    path.strip_prefix("/var/run/")
        .map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"))
}

/// The socket of a node's container runtime, as its distribution puts it by default. `None` for a
/// runtime that is not known.
fn cri_socket(node: &Node, facts: &Facts) -> Option<&'static str> {
    match node
        .container_runtime
        .split_once("://")
        .map(|(runtime, _)| runtime)?
    {
        "cri-o" => Some(CRIO),
        "containerd" => Preset::of(node, facts)
            .cri_socket()
            .or(Some("/run/containerd/containerd.sock")),
        "docker" => Some("/run/cri-dockerd.sock"),
        _ => None,
    }
}

/// The socket of the distribution that was asked for, else the one that most nodes have. CRI-O's,
/// as in the original, where nothing is known.
pub(crate) fn default_cri_socket(facts: &Facts, asked: Option<Preset>) -> String {
    let by_nodes = || most(linux(facts).filter_map(|(_, node)| cri_socket(node, facts)));
    asked
        .and_then(Preset::cri_socket)
        .or_else(by_nodes)
        .unwrap_or(CRIO)
        .to_owned()
}

/// Nodes whose container runtime has its socket elsewhere.
pub(crate) fn other_cri_sockets(facts: &Facts, socket: &str) -> Option<Notice> {
    let others: Vec<_> = linux(facts)
        .filter_map(|(name, node)| Some((name, node, cri_socket(node, facts)?)))
        .filter(|(_, _, theirs)| without_var(theirs) != without_var(socket))
        .collect();
    let (name, node, theirs) = others.first()?;
    let message = format!(
        "hostCRISocketPath is {socket}, but node {name}{} runs {}, whose socket is {theirs} by default. If that is so there, networks of running pods are not changed on it: set spec.multusDynamicNetworks.hostCRISocketPath",
        more(others.len()),
        node.container_runtime
    );
    Some(Notice {
        about: "multusDynamicNetworks".to_owned(),
        message,
    })
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
