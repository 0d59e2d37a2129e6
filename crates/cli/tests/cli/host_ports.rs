//! Pods on the nodes' network share the ports of their node. docs/security.md has one table of
//! these ports, with those of Kubernetes and of other programs of nodes. The manifests agree with
//! it, and no two programs want the same port.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use super::common::{objects, printed, root};
use regex::Regex;
use serde_json::Value;

/// The names of the workloads that listen on a TCP port of their node, by port.
type Ports = BTreeMap<u16, BTreeSet<String>>;

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

/// The ports that a pod names: in its container ports, its probes, its arguments and the ConfigMaps
/// that it mounts.
fn ports_of(pod: &Value, all: &[Value]) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    let mut add = |port: &Value| {
        // A probe may name a container port instead.
        found.extend(port.as_u64().map(|port| u16::try_from(port).unwrap()));
    };
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
                add(&container[probe][asked]["port"]);
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
        }
    }
    found
}

fn wanted(all: &[Value]) -> Ports {
    let mut ports = Ports::new();
    for workload in all {
        let pod = &workload["spec"]["template"]["spec"];
        if pod["hostNetwork"] != true {
            continue;
        }
        let name = workload["metadata"]["name"].as_str().unwrap();
        for port in ports_of(pod, all) {
            ports.entry(port).or_default().insert(name.to_owned());
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

#[test]
fn each_port_of_a_pod_on_the_nodes_network_is_in_the_table() {
    let span = Regex::new("`([^`]+)`").unwrap();
    let mut listed = Ports::new();
    for row in rows().iter().filter(|row| row[1] == "TCP") {
        let workloads = span.captures_iter(&row[3]).map(|found| found[1].to_owned());
        let workloads: BTreeSet<_> = workloads.collect();
        for port in ports_in(row).iter().filter(|_| !workloads.is_empty()) {
            listed.insert(*port, workloads.clone());
        }
    }
    let wanted = wanted(&manifests());
    assert!(
        wanted.len() >= 6,
        "{wanted:?}: is this test still reading the manifests?"
    );
    assert_eq!(wanted, listed);
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
            "command": ["program", "--health-port=4", "-metrics-port", "5"],
            "args": ["--bind-address", "127.0.0.1:6", "--probe-address=[::1]:7", "--address", "127.0.0.1", "--ip=8"]
        }],
        "volumes": [{"configMap": {"name": "file"}}]
    });
    let file = serde_json::json!({
        "kind": "ConfigMap", "metadata": {"name": "file"},
        "data": {"file.yaml": "bindAddress: 0.0.0.0\nhealthzBindAddress: 0.0.0.0:9\n"}
    });
    let expected: Vec<u16> = vec![1, 2, 3, 4, 5, 6, 7, 9];
    assert_eq!(
        ports_of(&pod, &[file]).into_iter().collect::<Vec<_>>(),
        expected
    );
}
