//! The checks before the suite writes anything: the cluster answers, the user has the rights, and
//! nobody uses the cluster.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{kubectl::Cluster, operator::is_of_weft, options::Options};

/// The namespace of the suite. It exists from the first write to the last, so it marks a run.
pub const NAMESPACE: &str = "weft-e2e";
/// The annotation of this namespace: `true` if the definition of NetworkAttachmentDefinition was
/// there before the run.
pub const HAD_ATTACHMENTS: &str = "weft.network/e2e-had-network-attachment-definitions";
/// The annotation of this namespace: the bridge marker's resources that nodes had before the run, a
/// line with node and resource for each.
pub const HAD_MARKS: &str = "weft.network/e2e-had-bridge-resources";
/// The names of the bridge marker's resources begin with this.
const MARKS: &str = "bridge.network.kubevirt.io/";
/// The definition of the networks of pods. `weft uninstall` keeps it for the objects of users.
pub const ATTACHMENTS: &str = "network-attachment-definitions.k8s.cni.cncf.io";

/// The kinds of the four APIs.
const APIS: [&str; 7] = [
    "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io",
    "networkconfigs.networkoperator.openshift.io",
    "nmstates.nmstate.io",
    "nodenetworkconfigurationpolicies.nmstate.io",
    "nodenetworkconfigurationenactments.nmstate.io",
    "nodenetworkstates.nmstate.io",
    "placementapis.placement.openstack.org",
];
/// Workloads of Weft, of the operators that it replaces, and of Multus. A second one would work
/// against the first.
const OPERATORS: [&str; 14] = [
    "weft-operator",
    "cluster-network-addons-operator",
    "cluster-network-operator",
    "network-operator",
    "nmstate-operator",
    "nmstate-handler",
    "nmstate-webhook",
    "placement-operator-controller-manager",
    "placement-operator",
    "openstack-operator-controller-manager",
    "multus",
    "kube-multus-ds",
    "kube-multus-ds-amd64",
    "multus-daemon",
];
/// Namespaces whose pods belong to the cluster itself.
const SYSTEM: [&str; 8] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kube-flannel",
    "calico-system",
    "tigera-operator",
    "cilium-secrets",
    "local-path-storage",
];
/// Namespaces that the suite makes and removes.
const OURS: [&str; 3] = ["weft-system", "cluster-network-addons", "nmstate"];

/// Rights that the suite needs, as arguments of `kubectl auth can-i`. The manifests have roles, so
/// their author needs `escalate` and `bind`, or all of these roles' rights.
const RIGHTS: [&[&str]; 16] = [
    &["create", "namespaces"],
    &["delete", "namespaces"],
    &["create", "customresourcedefinitions.apiextensions.k8s.io"],
    &["delete", "customresourcedefinitions.apiextensions.k8s.io"],
    &["create", "clusterroles.rbac.authorization.k8s.io"],
    &["escalate", "clusterroles.rbac.authorization.k8s.io"],
    &["bind", "clusterroles.rbac.authorization.k8s.io"],
    &["create", "clusterrolebindings.rbac.authorization.k8s.io"],
    &[
        "create",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
    ],
    &["create", "deployments.apps", "--all-namespaces"],
    &["delete", "pods", "--all-namespaces"],
    &["create", "pods/portforward", "--all-namespaces"],
    &["create", "serviceaccounts/token", "--all-namespaces"],
    &["list", "*.*", "--all-namespaces"],
    &["delete", "events", "--all-namespaces"],
    &["patch", "nodes", "--subresource=status"],
];

/// Names the cluster: the first line of the output.
///
/// # Errors
/// The kubeconfig has no such context, or no server.
pub fn name(cluster: &Cluster, options: &Options) -> Result<String> {
    let file = options.kubeconfig()?;
    let text = cluster
        .kubectl(&["config", "view", "--minify", "--output=json"])
        .with_context(|| format!("KUBECONFIG={}: it is no kubeconfig with a current context. Set one with `kubectl config use-context`, or name one with --context", file.display()))?;
    let config: Value = serde_json::from_str(&text)?;
    let context = config["current-context"].as_str().unwrap_or_default();
    let server = config["clusters"][0]["cluster"]["server"]
        .as_str()
        .unwrap_or_default();
    if server.is_empty() {
        bail!(
            "KUBECONFIG={}: the context '{context}' names no server. Choose another one with --context",
            file.display()
        );
    }
    Ok(format!(
        "Cluster: context '{context}', server {server}, kubeconfig {}",
        file.display()
    ))
}

/// Asks the API server for its version.
///
/// # Errors
/// It does not answer, or does not know the user.
pub fn reach(cluster: &Cluster) -> Result<String> {
    let text = cluster
        .kubectl(&["get", "--raw", "/version", "--request-timeout=15s"])
        .context("the API server does not answer. Check the server and the credentials of the kubeconfig, and the way there")?;
    let version: Value = serde_json::from_str(&text)?;
    Ok(version["gitVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Asks for all rights that the suite needs.
///
/// # Errors
/// One is missing. The error names all of them.
pub fn may(cluster: &Cluster) -> Result<()> {
    let mut missing = Vec::new();
    for right in RIGHTS {
        let arguments = [&["auth", "can-i", "--quiet"], right].concat();
        if cluster.try_kubectl(&arguments, "")?.code != 0 {
            let words: Vec<_> = right
                .iter()
                .filter(|word| !word.starts_with("--"))
                .copied()
                .collect();
            missing.push(words.join(" "));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "your user may not:\n  {}\nThe suite installs roles and definitions, so give a kubeconfig of a user with the ClusterRole cluster-admin. Nothing was written",
        missing.join("\n  ")
    )
}

/// Signs of use.
#[derive(Default)]
pub struct Use {
    /// The suite would take these over or remove them: no option permits that.
    pub never: Vec<String>,
    /// The user may accept these by `--yes`.
    pub accepted: Vec<String>,
}

/// Looks for signs that somebody uses the cluster.
///
/// # Errors
/// The API server refuses a request.
pub fn signs_of_use(cluster: &Cluster, options: &Options) -> Result<Use> {
    let mut signs = Use::default();
    if has_run(cluster)? {
        bail!(
            "the namespace {NAMESPACE} is there: an earlier run was interrupted, was started with --keep, or is at work. If no other run is at work, remove its objects with --clean (make test-e2e ARGS=--clean …)"
        );
    }
    let definitions = cluster.kubectl(&["get", "customresourcedefinitions", "--output=name"])?;
    for api in APIS.iter().chain([&ATTACHMENTS]) {
        if !definitions
            .lines()
            .any(|line| line.ends_with(&format!("/{api}")))
        {
            continue;
        }
        let items = cluster.list(&[api, "--all-namespaces"])?;
        if items.is_empty() {
            // A definition without objects serves nobody, but the suite did not make it.
            if *api != ATTACHMENTS && !options.installed {
                signs.never.push(format!("the definition {api}, which the clean-up would remove. Delete it if no program needs it"));
            }
        }
        for item in items {
            signs.never.push(format!(
                "{} {}",
                item["kind"].as_str().unwrap_or(api),
                full_name(&item)
            ));
        }
    }
    for workload in cluster.list(&["deployments,daemonsets", "--all-namespaces"])? {
        let name = workload["metadata"]["name"].as_str().unwrap_or_default();
        if OPERATORS.contains(&name) && !(options.installed && is_of_weft(&workload)) {
            signs.never.push(format!(
                "{} {}",
                workload["kind"].as_str().unwrap_or_default(),
                full_name(&workload)
            ));
        }
    }
    let namespaces = cluster.list(&["namespaces"])?;
    for namespace in &namespaces {
        let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
        if OURS.contains(&name) && !options.installed {
            signs.never.push(format!(
                "Namespace {name}, in which Weft would be installed"
            ));
        }
    }
    let mut pods: BTreeMap<String, usize> = BTreeMap::new();
    for pod in cluster.list(&["pods", "--all-namespaces"])? {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        if !SYSTEM.contains(&namespace) && !OURS.contains(&namespace) {
            *pods.entry(namespace.to_owned()).or_default() += 1;
        }
    }
    for (namespace, count) in pods {
        signs
            .accepted
            .push(format!("{count} pods in the namespace {namespace}"));
    }
    let nodes = cluster.list(&["nodes"])?.len();
    if nodes > options.max_nodes {
        signs.accepted.push(format!(
            "{nodes} nodes, more than --max-nodes {}",
            options.max_nodes
        ));
    }
    Ok(signs)
}

/// Refuses a cluster in use.
///
/// # Errors
/// There are signs that no option permits, or others without `--yes`.
pub fn refuse_use(signs: &Use, options: &Options) -> Result<()> {
    if !signs.never.is_empty() {
        bail!(
            "the cluster has resources or operators that the suite would take over or remove:\n  {}\nUse another cluster, or remove them first. No option permits this. Nothing was written",
            signs.never.join("\n  ")
        );
    }
    if !signs.accepted.is_empty() && !options.yes {
        bail!(
            "the cluster is in use:\n  {}\nWeft's components change the network of nodes and of new pods. Use a test cluster, or give --yes (make test-e2e ARGS=--yes …). Nothing was written",
            signs.accepted.join("\n  ")
        );
    }
    Ok(())
}

/// Returns the names of the Linux nodes that run pods.
///
/// # Errors
/// No node does.
pub fn nodes(cluster: &Cluster) -> Result<Vec<String>> {
    let mut ready = Vec::new();
    let all = cluster.list(&["nodes"])?;
    for node in &all {
        let conditions = node["status"]["conditions"].as_array();
        let is_ready = conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Ready" && one["status"] == "True");
        let is_linux = node["metadata"]["labels"]["kubernetes.io/os"] == "linux";
        // A kubelet reports for example containerd://2.2.0. kwok plays nodes without a runtime.
        let runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str();
        let runs_containers = runtime.is_some_and(|runtime| runtime.contains("://"));
        if is_ready && is_linux && runs_containers {
            ready.extend(node["metadata"]["name"].as_str().map(str::to_owned));
        }
    }
    if ready.is_empty() {
        bail!(
            "none of the {} nodes is Linux, Ready, and runs containers, so no pod of Weft could start. Look at `kubectl get nodes`: a node without a pod network is not Ready",
            all.len()
        );
    }
    Ok(ready)
}

/// Returns true if the namespace of a run is there.
///
/// # Errors
/// The API server refuses the request.
pub fn has_run(cluster: &Cluster) -> Result<bool> {
    let found = cluster.kubectl(&[
        "get",
        "namespace",
        NAMESPACE,
        "--ignore-not-found",
        "--output=name",
    ])?;
    Ok(!found.trim().is_empty())
}

/// Returns true if the cluster has the definition of NetworkAttachmentDefinition.
///
/// # Errors
/// The API server refuses the request.
pub fn has_attachments(cluster: &Cluster) -> Result<bool> {
    let found = cluster.kubectl(&[
        "get",
        "customresourcedefinition",
        ATTACHMENTS,
        "--ignore-not-found",
        "--output=name",
    ])?;
    Ok(!found.trim().is_empty())
}

/// Returns the bridge marker's resources: pairs of node and resource.
///
/// # Errors
/// The API server refuses the request.
pub fn marks(cluster: &Cluster) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for node in cluster.list(&["nodes"])? {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let capacity = node["status"]["capacity"].as_object();
        let resources = capacity.into_iter().flatten().map(|(resource, _)| resource);
        let ours = resources.filter(|resource| resource.starts_with(MARKS));
        all.extend(ours.map(|resource| (name.to_owned(), resource.clone())));
    }
    Ok(all)
}

fn full_name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
