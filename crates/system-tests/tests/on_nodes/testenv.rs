//! Real nodes: they come up without a network, carry packets once one is there, and leave nothing
//! behind. `make test-nodes`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use weft_testenv::lab::{Lab, NodeOptions, images};

async fn node_object(lab: &Lab, name: &str) -> NodeObject {
    Api::all(lab.client()).get(name).await.unwrap()
}

/// Status and message of the condition Ready.
fn ready(node: &NodeObject) -> Option<(String, String)> {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .map(|c| (c.status.clone(), c.message.clone().unwrap_or_default()))
        .next()
}

/// Repeats until it succeeds. Panics with the last error after a minute.
async fn eventually<T>(mut attempt: impl AsyncFnMut() -> Result<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < deadline, "{error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn pod_ranges(object: &NodeObject) -> Vec<String> {
    object
        .spec
        .iter()
        .flat_map(|spec| spec.pod_cidrs.iter().flatten())
        .cloned()
        .collect()
}

/// Does the work of a network provider by hand: a bridge on each node, and routes to the pods of
/// other nodes.
async fn install_network(lab: &Lab) {
    let mut routes = String::new();
    for node in lab.nodes() {
        let ranges = pod_ranges(&node_object(lab, node.name()).await);
        assert_eq!(
            ranges.len(),
            node.addresses().len(),
            "a range for each address family"
        );
        for (range, address) in ranges.iter().zip(node.addresses()) {
            routes += &format!("route add {range} via {address}\n");
        }
        let any = ["0.0.0.0/0", "::/0"];
        let config = json!({"cniVersion": "1.0.0", "name": "by-hand", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true, "ipam": {
                "type": "host-local",
                "ranges": ranges.iter().map(|range| json!([{"subnet": range}])).collect::<Vec<_>>(),
                "routes": ranges.iter().zip(any).map(|(_, any)| json!({"dst": any})).collect::<Vec<_>>(),
            }},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ]});
        // containerd takes notice of a rename inside the folder, but not of a file that is moved
        // there from outside.
        fs::write(node.file("/etc/cni/net.d/.new"), config.to_string()).unwrap();
        fs::rename(
            node.file("/etc/cni/net.d/.new"),
            node.file("/etc/cni/net.d/10-by-hand.conflist"),
        )
        .unwrap();
    }
    for node in lab.nodes() {
        let others: Vec<_> = routes
            .lines()
            .filter(|route| {
                !node
                    .addresses()
                    .iter()
                    .any(|own| route.ends_with(&format!(" {own}")))
            })
            .collect();
        for route in others {
            node.exec(&[&["ip"], route.split(' ').collect::<Vec<_>>().as_slice()].concat())
                .await
                .unwrap();
        }
    }
}

/// A web server on a node, that answers with the node's name.
fn pod(name: &str, node: &str, host_network: bool) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "nodeName": node,
        "hostNetwork": host_network,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{
            "name": "web",
            "image": images::TOOLS,
            "command": [
                "sh", "-c",
                format!("mkdir /www && echo {name} on {node} >/www/index.html && exec httpd -f -p '[::]:8080' -h /www")
            ],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        }],
    }})
    .to_string()
}

/// The API server calls a webhook that a Service in front of a pod serves, over each address family.
async fn calls_webhooks_of_pods(lab: &Lab) {
    let families = ["IPv4", "IPv6"].map(|family| (family, family.to_lowercase()));
    let families = &families[..lab.nodes()[0].addresses().len()];
    let hosts: Vec<_> = families
        .iter()
        .map(|(_, name)| format!("{name}.default.svc"))
        .collect();
    let made = rcgen::generate_simple_self_signed(hosts).unwrap();
    let certificate = made.cert.pem();
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "webhook"}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": certificate, "tls.key": made.signing_key.serialize_pem()}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "webhook", "labels": {"app": "webhook"}}, "spec": {
            "nodeName": "node-a",
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "certificate", "secret": {"secretName": "webhook"}}],
            "containers": [{
                "name": "webhook",
                "image": images::WEBHOOK,
                "args": ["--tls-cert-file=/certificate/tls.crt", "--tls-private-key-file=/certificate/tls.key", "--port=8443"],
                "volumeMounts": [{"name": "certificate", "mountPath": "/certificate"}],
                "readinessProbe": {"httpGet": {"scheme": "HTTPS", "port": 8443, "path": "/readyz"}, "periodSeconds": 1},
            }],
        }}),
    ];
    for (family, name) in families {
        objects.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
            "selector": {"app": "webhook"}, "ipFamilies": [family], "ports": [{"port": 443, "targetPort": 8443}],
        }}));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let control_plane = lab.control_plane();
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &list)
        .await
        .unwrap();
    wait_ready(lab, "pod/webhook").await;

    for (_, name) in families {
        let webhook = json!({
            "name": format!("{name}.weft.test"),
            "clientConfig": {
                "service": {"namespace": "default", "name": name, "path": "/configmaps"},
                "caBundle": STANDARD.encode(&certificate),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [webhook],
        });
        control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &configuration.to_string())
            .await
            .unwrap();
        let create = async |data: &str| {
            let literal = format!("--from-literal=webhook-e2e-test={data}");
            lab.kubectl(&["create", "configmap", "tried", &literal, "--dry-run=server"])
                .await
        };
        // The API server knows a new configuration a moment later.
        eventually(async || {
            let refusal = create("webhook-disallow").await.err();
            let refusal = refusal
                .map(|error| format!("{error:#}"))
                .unwrap_or_default();
            let is_denied = refusal.contains(&format!("\"{name}.weft.test\" denied the request"));
            anyhow::ensure!(is_denied, "not denied by the webhook: {refusal}");
            Ok(())
        })
        .await;
        create("webhook-allow").await.unwrap();
        lab.kubectl(&["delete", "validatingwebhookconfiguration", name])
            .await
            .unwrap();
    }
}

async fn wait_ready(lab: &Lab, what: &str) {
    lab.kubectl(&["wait", what, "--for=condition=Ready", "--timeout=60s"])
        .await
        .unwrap();
}

#[tokio::test]
async fn two_nodes_without_a_network_get_one_and_pods_talk() {
    let lab = Lab::builder()
        .node(NodeOptions::new("node-a").control_plane().data_nic())
        .node(NodeOptions::new("node-b").mtu(1400).data_nic())
        .image(images::tools().unwrap())
        .image(images::webhook().unwrap())
        .start()
        .await
        .unwrap();

    // Registered by kubelets of their own rights, and NotReady for want of a network.
    for name in ["node-a", "node-b"] {
        let (status, message) = eventually(async || {
            ready(&node_object(&lab, name).await).ok_or_else(|| anyhow::anyhow!("no condition"))
        })
        .await;
        assert_eq!(status, "False", "{message}");
        assert!(message.contains("cni plugin not initialized"), "{message}");
        let node = lab.node(name).unwrap();
        let kubectl = format!(
            "--kubeconfig={}",
            node.file("/etc/kubernetes/kubelet.conf").display()
        );
        assert!(
            fs::metadata(kubectl.trim_start_matches("--kubeconfig=")).is_ok(),
            "as kubeadm has it"
        );
        assert!(
            node.exec(&["ls", "/etc/cni/net.d"])
                .await
                .unwrap()
                .is_empty()
        );
        assert!(
            node.exec(&["ls", "/opt/cni/bin"])
                .await
                .unwrap()
                .contains("host-local")
        );
    }
    let mtu = async |node: &str, card: &str| {
        lab.node(node)
            .unwrap()
            .exec(&["cat", &format!("/sys/class/net/{card}/mtu")])
            .await
            .unwrap()
    };
    assert_eq!(
        (
            mtu("node-a", "eth0").await.trim(),
            mtu("node-b", "eth0").await.trim()
        ),
        ("1500", "1400")
    );
    assert_eq!(mtu("node-b", "eth1").await.trim(), "1500", "a second card");
    let labels = node_object(&lab, "node-a").await.metadata.labels.unwrap();
    assert!(labels.contains_key("node-role.kubernetes.io/control-plane"));

    // A pod on the host's network needs none, and reaches the API server at the lab's address.
    lab.control_plane()
        .kubectl_with_input(&["apply", "-f", "-"], &pod("host", "node-b", true))
        .await
        .unwrap();
    wait_ready(&lab, "pod/host").await;
    let request = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 172.31.0.1 6443";
    let answer = lab
        .exec_in_pod("default", "host", &["sh", "-c", request])
        .await
        .unwrap();
    assert!(
        answer.contains("HTTPS server"),
        "it speaks TLS, and says so: {answer}"
    );

    install_network(&lab).await;
    wait_ready(&lab, "nodes/node-a").await;
    wait_ready(&lab, "nodes/node-b").await;
    for (name, node) in [("a", "node-a"), ("b", "node-b")] {
        lab.control_plane()
            .kubectl_with_input(&["apply", "-f", "-"], &pod(name, node, false))
            .await
            .unwrap();
    }
    wait_ready(&lab, "pod/a").await;
    wait_ready(&lab, "pod/b").await;
    let ips = lab
        .kubectl(&["get", "pod", "b", "-o", "jsonpath={.status.podIPs[*].ip}"])
        .await
        .unwrap();
    assert_eq!(
        ips.split(' ').count(),
        lab.nodes()[0].addresses().len(),
        "{ips}"
    );
    for ip in ips.split(' ') {
        lab.exec_in_pod("default", "a", &["ping", "-c", "1", "-W", "5", ip])
            .await
            .unwrap();
        let url = if ip.contains(':') {
            format!("http://[{ip}]:8080/")
        } else {
            format!("http://{ip}:8080/")
        };
        assert_eq!(
            lab.exec_in_pod("default", "a", &["wget", "-q", "-O", "-", &url])
                .await
                .unwrap(),
            "b on node-b\n"
        );
    }
    calls_webhooks_of_pods(&lab).await;

    // A program that fails in a pod or on a node is an error with its words.
    let error = lab
        .exec_in_pod("default", "a", &["ls", "/no-such-file"])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no-such-file"), "{error:#}");
    let error = lab.nodes()[0]
        .exec(&["ls", "/no-such-file"])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no-such-file") && error.to_string().contains("node-a"),
        "{error:#}"
    );

    // A pod whose process is killed comes back, and so does the kubelet.
    let pid = lab
        .node("node-b")
        .unwrap()
        .exec(&["pgrep", "-f", "^httpd -f"])
        .await
        .unwrap();
    let killed: Vec<_> = pid.split_whitespace().collect();
    lab.node("node-b")
        .unwrap()
        .exec(&[&["kill", "-9"], killed.as_slice()].concat())
        .await
        .unwrap();
    eventually(async || {
        let restarts = lab
            .kubectl(&[
                "get",
                "pod",
                "b",
                "-o",
                "jsonpath={.status.containerStatuses[0].restartCount}",
            ])
            .await?;
        anyhow::ensure!(restarts != "0", "not restarted yet");
        Ok(())
    })
    .await;
    let kubelet = lab
        .node("node-a")
        .unwrap()
        .exec(&["cat", "/run/kubelet.pid"])
        .await
        .unwrap();
    lab.node("node-a")
        .unwrap()
        .exec(&["kill", "-9", kubelet.trim()])
        .await
        .unwrap();
    eventually(async || {
        let again = lab
            .node("node-a")?
            .exec(&["cat", "/run/kubelet.pid"])
            .await?;
        anyhow::ensure!(again != kubelet, "not started again yet");
        lab.exec_in_pod("default", "a", &["true"]).await
    })
    .await;

    leaves_nothing_behind(lab).await;
}

/// Traces of a lab outside of its folder.
#[derive(Debug, Default, PartialEq, Eq)]
struct Traces {
    /// Processes, by their network namespace.
    processes: BTreeSet<String>,
    cgroups: BTreeSet<PathBuf>,
    mounts: BTreeSet<String>,
    links: BTreeSet<String>,
}

impl Traces {
    fn of(networks: &BTreeSet<PathBuf>, cgroup: &str, folder: &Path) -> Self {
        let mut traces = Self::default();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            if fs::read_link(process.path().join("ns/net"))
                .is_ok_and(|network| networks.contains(&network))
            {
                traces
                    .processes
                    .insert(fs::read_to_string(process.path().join("comm")).unwrap_or_default());
            }
        }
        for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let group = hierarchy.path().join(cgroup);
            if group.exists() {
                traces.cgroups.insert(group);
            }
        }
        let folder = folder.display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        traces.mounts.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&folder))
                .map(str::to_owned),
        );
        let links = fs::read_dir("/sys/class/net")
            .unwrap()
            .flatten()
            .map(|link| link.file_name().to_string_lossy().into_owned());
        traces.links.extend(links.filter(|link| {
            link.starts_with("port") || link.starts_with("br0") || link.starts_with("cni")
        }));
        traces
    }
}

fn network_of(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/net")).unwrap()
}

/// The namespaces of a lab, by its processes.
fn networks(pids: impl IntoIterator<Item = u32>) -> BTreeSet<PathBuf> {
    let ours = network_of(std::process::id());
    let all: BTreeSet<_> = pids
        .into_iter()
        .map(network_of)
        .filter(|network| *network != ours)
        .collect();
    assert!(
        all.len() >= 2,
        "the control plane's and the nodes': {all:?}"
    );
    all
}

async fn leaves_nothing_behind(lab: Lab) {
    let folder = lab.control_plane().dir().to_owned();
    let networks = networks(lab.processes().into_iter().map(|(_, pid)| pid));
    let cgroup = fs::read_to_string(folder.join("cgroups")).unwrap();
    let before = Traces::of(&networks, &cgroup, &folder);
    assert!(
        before.processes.contains("kubelet\n") && before.processes.contains("httpd\n"),
        "{before:#?}"
    );
    assert!(!before.cgroups.is_empty(), "{before:#?}");
    assert!(
        before.mounts.is_empty() && before.links.is_empty(),
        "nothing of it is seen outside, even while it runs: {before:#?}"
    );
    drop(lab);
    assert_eq!(Traces::of(&networks, &cgroup, &folder), Traces::default());
    assert!(!folder.exists(), "its folder goes with it");
}

/// A `weft-testenv up`, which ends with the test.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `weft-testenv up` with one real node and these options, once it is up.
fn up_with_a_node(folder: &Path, options: &[&str]) -> Up {
    let mut up = Command::new(weft_system_tests::program("weft-testenv"))
        .args(["up", "--real-nodes", "1", "--dir"])
        .arg(folder)
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines();
    let last = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("Ctrl-C")));
    let up = Up(up);
    assert!(last.is_some(), "it is up");
    up
}

#[tokio::test]
async fn a_killed_lab_leaves_no_process_and_its_groups_go_with_the_next_start() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cluster");
    let mut up = up_with_a_node(&folder, &[]);
    let state: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("state.json")).unwrap()).unwrap();
    let pids = state["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| u32::try_from(process["pid"].as_u64().unwrap()).unwrap());
    let networks = networks(pids);
    let cgroup = fs::read_to_string(folder.join("cgroups")).unwrap();

    kill_process(Pid::from_child(&up.0), Signal::KILL).unwrap();
    up.0.wait().unwrap();
    eventually(async || {
        let traces = Traces::of(&networks, &cgroup, &folder);
        anyhow::ensure!(traces.processes.is_empty(), "{traces:#?}");
        Ok(())
    })
    .await;
    let down = Command::new(weft_system_tests::program("weft-testenv"))
        .args(["down", "--dir"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(
        down.status.success(),
        "{}",
        String::from_utf8_lossy(&down.stderr)
    );
    assert_eq!(Traces::of(&networks, &cgroup, &folder), Traces::default());
}

#[tokio::test]
async fn up_starts_nodes_with_open_vswitch_and_networkmanager() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cluster");
    let mut up = up_with_a_node(&folder, &["--open-vswitch", "--network-manager"]);
    let on_node = |command: &str| -> Result<String> {
        let output = Command::new(weft_system_tests::program("weft-testenv"))
            .args(["node", "--dir"])
            .arg(&folder)
            .arg("node-1")
            .args(command.split(' '))
            .output()
            .unwrap();
        anyhow::ensure!(output.status.success(), "{command}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    on_node("ovs-vsctl add-br br-a -- set bridge br-a datapath_type=netdev").unwrap();
    let card = on_node("ip link show br-a").unwrap();
    assert!(card.contains("br-a"), "the datapath has made it: {card}");
    // NetworkManager makes a device of this type by its plugin for Open vSwitch only. It waits for
    // a port before it makes the bridge.
    on_node("nmcli connection add type ovs-bridge con-name br-b ifname br-b").unwrap();
    eventually(async || {
        let devices = on_node("nmcli --terse --fields DEVICE,TYPE,STATE device")?;
        let has = |start: &str| devices.lines().any(|found| found.starts_with(start));
        let is_there = has("eth0:ethernet:connected") && has("br-b:ovs-bridge:");
        anyhow::ensure!(is_there, "{devices}");
        Ok(())
    })
    .await;
    kill_process(Pid::from_child(&up.0), Signal::TERM).unwrap();
    assert!(up.0.wait().unwrap().success());
}

#[test]
fn missing_features_of_a_machine_are_named() {
    let run = |wrapper: &[&str]| {
        let mut command = Command::new(wrapper[0]);
        let output = command
            .args(&wrapper[1..])
            .arg(weft_system_tests::program("weft-testenv"))
            .arg("probe")
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    assert_eq!(run(&["env"]), (true, String::new()), "these tests run here");
    let without = run(&[
        "setpriv",
        "--bounding-set=-sys_admin",
        "--inh-caps=-sys_admin",
        "--",
    ]);
    assert_eq!(
        without,
        (
            false,
            "no new network, mount and PID namespaces can be made\n".to_owned()
        )
    );
    let (ok, text) = run(&[
        "unshare",
        "--mount",
        "sh",
        "-c",
        "umount -R /sys/fs/cgroup/cpuset && exec \"$0\" \"$@\"",
    ]);
    assert!(
        !ok && text.contains("cgroup v1") && text.contains("cpuset") && !text.contains("memory"),
        "{text}"
    );
}
