#![allow(clippy::unwrap_used)]
use super::*;

fn facts(nodes: &[(&str, &str)]) -> Facts {
    let node = |(number, (runtime, kubelet)): (usize, &(&str, &str))| {
        let node = Node {
            container_runtime: (*runtime).into(),
            kubelet_version: (*kubelet).into(),
            ..Node::default()
        };
        (format!("node-{number}"), node)
    };
    Facts {
        nodes: nodes.iter().enumerate().map(node).collect(),
        ..Facts::default()
    }
}

fn one(node: Node) -> Facts {
    Facts {
        nodes: [("n".to_owned(), node)].into(),
        ..Facts::default()
    }
}

fn default_socket(facts: &Facts) -> String {
    default_cri_socket(facts, None)
}

#[test]
fn the_socket_is_that_of_the_runtime_that_the_nodes_report() {
    for (runtime, kubelet, socket) in [
        ("cri-o://1.32.1", "v1.32.1", "/run/crio/crio.sock"),
        (
            "containerd://1.7.27",
            "v1.32.1",
            "/run/containerd/containerd.sock",
        ),
        (
            "containerd://2.0.4-k3s2",
            "v1.32.1+k3s1",
            "/run/k3s/containerd/containerd.sock",
        ),
        (
            "containerd://2.0.4-k3s2",
            "v1.32.1+rke2r1",
            "/run/k3s/containerd/containerd.sock",
        ),
        (
            "containerd://1.7.27",
            "v1.32.1+k0s",
            "/run/k0s/containerd.sock",
        ),
        ("docker://27.0.1", "v1.32.1", "/run/cri-dockerd.sock"),
        ("kata://1", "v1.32.1", CRIO),
    ] {
        assert_eq!(
            default_socket(&facts(&[(runtime, kubelet)])),
            socket,
            "{runtime} {kubelet}"
        );
    }
    let microk8s = one(Node {
        container_runtime: "containerd://1.7.27".into(),
        is_microk8s: true,
        ..Node::default()
    });
    assert_eq!(
        default_socket(&microk8s),
        "/var/snap/microk8s/common/run/containerd.sock"
    );
    assert_eq!(default_socket(&Facts::default()), CRIO);
}

#[test]
fn a_preset_brings_its_socket_and_kubeadm_leaves_it_to_the_runtime() {
    let containerd = facts(&[("containerd://1.7.27", "v1.32.1")]);
    assert_eq!(
        default_cri_socket(&containerd, Some(Preset::K0s)),
        "/run/k0s/containerd.sock"
    );
    assert_eq!(
        default_cri_socket(&containerd, Some(Preset::Kubeadm)),
        "/run/containerd/containerd.sock"
    );
}

#[test]
fn most_nodes_decide_and_the_others_are_named() {
    let (containerd, crio) = (
        ("containerd://1.7.27", "v1.32.1"),
        ("cri-o://1.32.1", "v1.32.1"),
    );
    let mixed = facts(&[crio, containerd, containerd, crio, containerd]);
    let socket = default_socket(&mixed);
    assert_eq!(socket, "/run/containerd/containerd.sock");
    let notice = other_cri_sockets(&mixed, &socket).unwrap();
    assert!(
        notice
            .message
            .contains("node node-0, and 1 more nodes, runs cri-o://1.32.1"),
        "{}",
        notice.message
    );
    assert_eq!(
        other_cri_sockets(&facts(&[crio]), "/var/run/crio/crio.sock"),
        None,
        "the same folder by another name"
    );
    assert_eq!(
        other_cri_sockets(&facts(&[("kata://1", "v1.32.1")]), CRIO),
        None,
        "of others nothing is known"
    );
}

#[test]
fn folders_are_those_of_the_distribution_that_most_nodes_say_they_are() {
    let filled = |facts: &Facts| RequestedPaths::default().fill(facts, None);
    let runtime = "containerd://2.0.4";
    for (kubelet, preset) in [
        ("v1.32.1", Preset::Kubeadm),
        ("v1.32.1+k3s1", Preset::K3s),
        ("v1.32.1+rke2r1", Preset::RKE2),
        ("v1.32.1+k0s.0", Preset::K0s),
    ] {
        assert_eq!(filled(&facts(&[(runtime, kubelet)])), preset.paths());
    }
    assert_eq!(
        filled(&one(Node {
            is_microk8s: true,
            ..Node::default()
        })),
        Preset::MicroK8s.paths()
    );
    assert_eq!(
        filled(&one(Node {
            os_image: "Talos (v1.10.3)".into(),
            ..Node::default()
        })),
        Preset::Talos.paths()
    );
    assert_eq!(
        filled(&Facts {
            definitions: [weft_plan::OPENSHIFT.to_owned()].into(),
            ..Facts::default()
        }),
        Preset::OpenShift.paths()
    );
    assert_eq!(filled(&Facts::default()), Preset::Kubeadm.paths());

    let (k3s, kubeadm) = ((runtime, "v1.32.1+k3s1"), (runtime, "v1.32.1"));
    assert_eq!(filled(&facts(&[kubeadm, k3s, k3s])).preset, Preset::K3s);
    let mut windows = facts(&[kubeadm, k3s, k3s]);
    for node in ["node-1", "node-2"] {
        windows.nodes.get_mut(node).unwrap().operating_system = "windows".into();
    }
    assert_eq!(
        filled(&windows).preset,
        Preset::Kubeadm,
        "no component runs on Windows"
    );
}

#[test]
fn given_folders_win_and_differing_nodes_are_named() {
    let asked = RequestedPaths {
        preset: Some(Preset::K3s),
        cni_bin_dir: Some("/plugins".into()),
        ..RequestedPaths::default()
    };
    let k3s = facts(&[("containerd://2.0.4", "v1.32.1+k3s1")]);
    let paths = asked.fill(&k3s, None);
    assert_eq!(
        paths,
        HostPaths {
            cni_bin_dir: "/plugins".into(),
            ..Preset::K3s.paths()
        }
    );
    assert_eq!(
        asked.elsewhere(&k3s, &paths),
        None,
        "what is given is not held against the nodes"
    );

    let mixed = facts(&[
        ("containerd://2.0.4", "v1.32.1+k3s1"),
        ("containerd://2.0.4", "v1.32.1"),
        ("containerd://2.0.4", "v1.32.1"),
    ]);
    let notice = asked.elsewhere(&mixed, &paths).unwrap();
    let expected = "node node-1, and 1 more nodes, looks like Kubeadm, which has /etc/cni/net.d instead of /var/lib/rancher/k3s/agent/etc/cni/net.d";
    assert!(notice.contains(expected), "{notice}");

    let talos = one(Node {
        os_image: "Talos (v1.10.3)".into(),
        ..Node::default()
    });
    assert_eq!(
        RequestedPaths::default().elsewhere(&talos, &Preset::Kubeadm.paths()),
        None,
        "/var/run is /run"
    );
}

#[test]
fn windows_nodes_are_named_unless_the_placement_excludes_them() {
    let mut facts = one(Node {
        operating_system: "windows".into(),
        ..Node::default()
    });
    facts.nodes.insert(
        "linux".into(),
        Node {
            operating_system: "linux".into(),
            ..Node::default()
        },
    );
    let on = |key: &str, value: &str| Placement {
        node_selector: Some([(key.to_owned(), value.to_owned())].into()),
        ..Placement::default()
    };
    let notice = windows(&facts, &on("for", "add-ons")).unwrap();
    assert!(
        notice.starts_with("node n runs Windows, and add-ons are not kept off it"),
        "{notice}"
    );
    assert_eq!(windows(&facts, &on("kubernetes.io/os", "linux")), None);
    assert_eq!(
        windows(
            &facts,
            &Placement {
                affinity: Some(Default::default()),
                ..Placement::default()
            }
        ),
        None,
        "it may do so"
    );
    facts.nodes.remove("n");
    assert_eq!(windows(&facts, &Placement::default()), None);
}

#[test]
fn control_plane_nodes_that_are_all_tainted_are_named_with_the_way_out() {
    let node = |is_control_plane: bool, taint: Option<&str>| Node {
        is_control_plane,
        taint: taint.map(str::to_owned),
        ..Node::default()
    };
    let facts = |nodes: Vec<Node>| Facts {
        nodes: (0..)
            .map(|number: usize| format!("n{number}"))
            .zip(nodes)
            .collect(),
        ..Facts::default()
    };
    let taint = Some("node-role.kubernetes.io/control-plane:NoSchedule");
    let message =
        tainted_control_plane(&facts(vec![node(true, taint), node(false, None)])).unwrap();
    assert!(
        message.contains(
            "{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}"
        ),
        "{message}"
    );
    for nodes in [
        vec![],
        vec![node(false, None)],
        vec![node(true, taint), node(true, None)],
        vec![node(true, None), node(true, taint)],
    ] {
        assert_eq!(tainted_control_plane(&facts(nodes)), None);
    }
}
