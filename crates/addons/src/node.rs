//! What follows from what the nodes run: where a container runtime has its socket.

use std::collections::BTreeMap;

use weft_plan::{Facts, Node, Notice};

/// The socket of CRI-O, and what the original assumes of every node.
const CRIO: &str = "/run/crio/crio.sock";

/// The socket of a node's container runtime, as its distribution puts it by default; `None` for a runtime that is not known.
fn cri_socket(node: &Node) -> Option<&'static str> {
    let Node { container_runtime, kubelet_version, is_microk8s } = node;
    // k3s and rke2 bring a containerd of their own, and so do k0s and MicroK8s.
    let marked = |mark: &str| kubelet_version.contains(mark);
    match container_runtime.split_once("://").map(|(runtime, _)| runtime)? {
        "cri-o" => Some(CRIO),
        "containerd" if marked("+k3s") || marked("+rke2") => Some("/run/k3s/containerd/containerd.sock"),
        "containerd" if marked("+k0s") => Some("/run/k0s/containerd.sock"),
        "containerd" if *is_microk8s => Some("/var/snap/microk8s/common/run/containerd.sock"),
        "containerd" => Some("/run/containerd/containerd.sock"),
        "docker" => Some("/run/cri-dockerd.sock"),
        _ => None,
    }
}

/// The socket that most nodes have; CRI-O's, as in the original, where nothing is known.
pub(crate) fn default_cri_socket(facts: &Facts) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for socket in facts.nodes.values().filter_map(cri_socket) {
        *counts.entry(socket).or_default() += 1;
    }
    // The first by name of those that are equally frequent: a choice that does not depend on the order of nodes.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(CRIO, |(socket, _)| socket).to_owned()
}

/// Nodes whose container runtime has its socket elsewhere.
pub(crate) fn other_cri_sockets(facts: &Facts, socket: &str) -> Option<Notice> {
    let canonical = |path: &str| path.strip_prefix("/var/run/").map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"));
    let others: Vec<_> = facts
        .nodes
        .iter()
        .filter_map(|(name, node)| Some((name, node, cri_socket(node)?)))
        .filter(|(_, _, theirs)| canonical(theirs) != canonical(socket))
        .collect();
    let (name, node, theirs) = others.first()?;
    let more = if others.len() > 1 { format!(", and {} more nodes,", others.len() - 1) } else { String::new() };
    let message = format!(
        "hostCRISocketPath is {socket}, but node {name}{more} runs {}, whose socket is {theirs} by default. If that is so there, networks of running pods are not changed on it: set spec.multusDynamicNetworks.hostCRISocketPath",
        node.container_runtime
    );
    Some(Notice { about: "multusDynamicNetworks".to_owned(), message })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn facts(nodes: &[(&str, &str)]) -> Facts {
        let node = |(number, (runtime, kubelet)): (usize, &(&str, &str))| {
            let node = Node { container_runtime: (*runtime).into(), kubelet_version: (*kubelet).into(), ..Node::default() };
            (format!("node-{number}"), node)
        };
        Facts { nodes: nodes.iter().enumerate().map(node).collect(), ..Facts::default() }
    }

    #[test]
    fn the_socket_is_that_of_the_runtime_that_the_nodes_report() {
        for (runtime, kubelet, socket) in [
            ("cri-o://1.32.1", "v1.32.1", "/run/crio/crio.sock"),
            ("containerd://1.7.27", "v1.32.1", "/run/containerd/containerd.sock"),
            ("containerd://2.0.4-k3s2", "v1.32.1+k3s1", "/run/k3s/containerd/containerd.sock"),
            ("containerd://2.0.4-k3s2", "v1.32.1+rke2r1", "/run/k3s/containerd/containerd.sock"),
            ("containerd://1.7.27", "v1.32.1+k0s", "/run/k0s/containerd.sock"),
            ("docker://27.0.1", "v1.32.1", "/run/cri-dockerd.sock"),
            ("kata://1", "v1.32.1", CRIO),
        ] {
            assert_eq!(default_cri_socket(&facts(&[(runtime, kubelet)])), socket, "{runtime} {kubelet}");
        }
        let microk8s = Node { container_runtime: "containerd://1.7.27".into(), is_microk8s: true, ..Node::default() };
        let facts = Facts { nodes: [("n".to_owned(), microk8s)].into(), ..Facts::default() };
        assert_eq!(default_cri_socket(&facts), "/var/snap/microk8s/common/run/containerd.sock");
        assert_eq!(default_cri_socket(&Facts::default()), CRIO);
    }

    #[test]
    fn most_nodes_decide_and_the_others_are_named() {
        let (containerd, crio) = (("containerd://1.7.27", "v1.32.1"), ("cri-o://1.32.1", "v1.32.1"));
        let mixed = facts(&[crio, containerd, containerd, crio, containerd]);
        let socket = default_cri_socket(&mixed);
        assert_eq!(socket, "/run/containerd/containerd.sock");
        let notice = other_cri_sockets(&mixed, &socket).unwrap();
        assert!(notice.message.contains("node node-0, and 1 more nodes, runs cri-o://1.32.1"), "{}", notice.message);
        assert_eq!(other_cri_sockets(&facts(&[crio]), "/var/run/crio/crio.sock"), None, "the same folder by another name");
        assert_eq!(other_cri_sockets(&facts(&[("kata://1", "v1.32.1")]), CRIO), None, "of others nothing is known");
    }
}
