//! Pods on the nodes' network share the ports of their node. docs/security.md has one table of
//! these ports, with those of Kubernetes and of other programs of nodes. The manifests agree with
//! it, and no two programs want the same port.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::common::{objects, printed, root, weft_with_stdin};
use regex::Regex;
use serde_json::Value;

/// The workloads that listen on a TCP port of their node, and their addresses, by port.
type Ports = BTreeMap<u16, BTreeSet<(String, &'static str)>>;
/// An address in the table.
const ALL: &str = "all";
const LOCAL: &str = "127.0.0.1";

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Everything that Weft deploys, and that it is installed with.
fn manifests() -> Vec<Value> {
    let mut all = Vec::new();
    for folder in fs::read_dir(root().join("components")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            all.extend(objects(&fs::read_to_string(file.unwrap().path()).unwrap()));
        }
    }
    for arguments in [
        &["manifests", "--split", "--domains", "cluster-network"][..],
        &[
            "manifests",
            "--domains",
            "addons,cluster-network,node-network,placement",
        ],
    ] {
        all.extend(objects(&printed(arguments)));
    }
    all
}

/// The numbers that a pattern finds in a text.
fn numbers(pattern: &str, text: &str) -> Vec<u16> {
    Regex::new(pattern)
        .unwrap()
        .captures_iter(text)
        .map(|found| found[1].parse().unwrap())
        .collect()
}

/// The ports that a pod names, each with its address: in its container ports, its probes, its
/// arguments and the ConfigMaps that it mounts.
fn ports_of(pod: &Value, all: &[Value]) -> BTreeMap<u16, &'static str> {
    let mut found = BTreeSet::new();
    let mut local = BTreeSet::new();
    let number = |port: &Value| port.as_u64().map(|port| u16::try_from(port).unwrap());
    // A probe may name a container port instead.
    let mut add = |port: &Value| found.extend(number(port));
    let mut words = String::new();
    for container in ["initContainers", "containers"]
        .iter()
        .flat_map(|list| array(&pod[*list]))
    {
        for port in array(&container["ports"]) {
            add(&port["containerPort"]);
            add(&port["hostPort"]);
        }
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            for asked in ["httpGet", "tcpSocket", "grpc"] {
                let asked = &container[probe][asked];
                add(&asked["port"]);
                local.extend(number(&asked["port"]).filter(|_| asked["host"] == LOCAL));
            }
        }
        for word in ["command", "args"]
            .iter()
            .flat_map(|list| array(&container[*list]))
        {
            words += word.as_str().unwrap();
            words.push(' ');
        }
    }
    found.extend(numbers(
        r"-[\w-]*(?:port|address)[= ](?:\S*:)?(\d+)\s",
        &words,
    ));
    let mounted: Vec<&Value> = array(&pod["volumes"])
        .map(|volume| &volume["configMap"]["name"])
        .collect();
    for map in all.iter().filter(|object| {
        object["kind"] == "ConfigMap" && mounted.contains(&&object["metadata"]["name"])
    }) {
        for text in map["data"].as_object().into_iter().flatten() {
            let text = text.1.as_str().unwrap();
            found.extend(numbers(r"(?m)ddress: \S*:(\d+)$", text));
            local.extend(numbers(
                r"(?m)ddress: (?:127\.0\.0\.1|\[::1\]):(\d+)$",
                text,
            ));
        }
    }
    local.extend(numbers(
        r"-[\w-]*address[= ](?:127\.0\.0\.1|\[::1\]):(\d+)\s",
        &words,
    ));
    let address = |port: &u16| if local.contains(port) { LOCAL } else { ALL };
    let found = found.into_iter();
    found.map(|port| (port, address(&port))).collect()
}

fn wanted(all: &[Value]) -> Ports {
    let mut ports = Ports::new();
    for workload in all {
        let pod = &workload["spec"]["template"]["spec"];
        if pod["hostNetwork"] != true {
            continue;
        }
        let name = workload["metadata"]["name"].as_str().unwrap();
        for (port, address) in ports_of(pod, all) {
            let listens = (name.to_owned(), address);
            ports.entry(port).or_default().insert(listens);
        }
    }
    ports
}

/// The rows of the table: ports, protocol, address, programs, use.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, section) = page.split_once("\n## Ports of the nodes\n").unwrap();
    section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|row| {
            let cells = row.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

fn ports_in(row: &[String]) -> Vec<u16> {
    row[0]
        .split(", ")
        .map(|port| port.parse().unwrap())
        .collect()
}

/// The rows of a protocol about workloads of Weft.
fn listed(protocol: &str) -> Ports {
    let span = Regex::new("`([^`]+)`").unwrap();
    let mut listed = Ports::new();
    for row in rows().iter().filter(|row| row[1] == protocol) {
        let address = if row[2] == LOCAL { LOCAL } else { ALL };
        assert_eq!(row[2], address, "{row:?}");
        let workloads = span.captures_iter(&row[3]).map(|found| found[1].to_owned());
        let workloads: BTreeSet<_> = workloads.map(|name| (name, address)).collect();
        for port in ports_in(row).iter().filter(|_| !workloads.is_empty()) {
            listed.insert(*port, workloads.clone());
        }
    }
    listed
}

/// Networks open them by the kernel, and their settings name them.
#[test]
fn the_usual_ports_of_tunnels_between_nodes_are_in_the_table() {
    let flannel = fs::read_to_string(root().join("examples/tutorials/network.yaml")).unwrap();
    let with = |backend: &str| {
        let kind = "type: Flannel";
        let chosen = format!("{kind}\n    flannelConfig: {{backend: {backend}}}");
        flannel.replace(kind, &chosen)
    };
    let sdn = root().join("examples/network-config-openshift-sdn-minimal.yaml");
    let mut wanted = Ports::new();
    for (workload, resource) in [
        ("kube-flannel-ds", with("vxlan")),
        ("kube-flannel-ds", with("wireguard")),
        ("sdn", fs::read_to_string(sdn).unwrap()),
    ] {
        let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &resource);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let pattern = r#"(?:"(?:Port|ListenPort|ListenPortV6)"|\bvxlanPort): (\d+)"#;
        for port in numbers(pattern, &run.stdout) {
            let listens = (workload.to_owned(), ALL);
            wanted.entry(port).or_default().insert(listens);
        }
    }
    assert_eq!(wanted, listed("UDP"));
}

#[test]
fn each_port_of_a_pod_on_the_nodes_network_is_in_the_table() {
    let wanted = wanted(&manifests());
    assert!(
        wanted.len() >= 6,
        "{wanted:?}: is this test still reading the manifests?"
    );
    assert_eq!(wanted, listed("TCP"));
}

#[test]
fn no_two_programs_of_a_node_want_the_same_port() {
    let mut taken = BTreeMap::new();
    for row in rows() {
        assert_eq!(row.len(), 5, "{row:?}");
        for port in ports_in(&row) {
            let before = taken.insert((row[1].clone(), port), row.clone());
            assert_eq!(before, None, "{port} is in two rows");
        }
        assert!(
            !row[3].contains(" or ") || row[4].contains("one of them"),
            "{row:?}: say that a node has one of these programs"
        );
    }
}

#[test]
fn a_port_is_found_wherever_a_manifest_names_it() {
    let pod = serde_json::json!({
        "containers": [{
            "ports": [{"containerPort": 1, "hostPort": 2}],
            "livenessProbe": {"httpGet": {"port": 3}}, "readinessProbe": {"tcpSocket": {"port": "named"}},
            "startupProbe": {"httpGet": {"port": 10, "host": "127.0.0.1"}},
            "command": ["program", "--health-port=4", "-metrics-port", "5"],
            "args": ["--bind-address", "127.0.0.1:6", "--probe-address=[::1]:7", "--address", "127.0.0.1", "--ip=8"]
        }],
        "volumes": [{"configMap": {"name": "file"}}]
    });
    let file = serde_json::json!({
        "kind": "ConfigMap", "metadata": {"name": "file"},
        "data": {"file.yaml": "bindAddress: 0.0.0.0\nhealthzBindAddress: 0.0.0.0:9\n"}
    });
    let expected = [
        (1, ALL),
        (2, ALL),
        (3, ALL),
        (4, ALL),
        (5, ALL),
        (6, LOCAL),
        (7, LOCAL),
        (9, ALL),
        (10, LOCAL),
    ];
    let found = ports_of(&pod, &[file]);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}
