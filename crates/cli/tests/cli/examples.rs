//! The files of `examples/` as a user gives them to `weft validate` and `weft render`.

use std::path::{Path, PathBuf};

use super::common::{root, weft, weft_with_stdin};
use serde_json::Value;

/// Objects of Kubernetes and of other programs.
const FOREIGN: [&str; 6] = [
    "on-demand/job.yaml",
    "readiness/gardener.yaml",
    "readiness/kubelet.yaml",
    "readiness/node-readiness-rule.yaml",
    "tutorials/database.yaml",
    "tutorials/pod.yaml",
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn every_example_is_rendered_or_leads_to_the_command_for_it() {
    let all = files(&root().join("examples"));
    assert!(all.len() > 40, "{all:?}");
    for path in all {
        let file = path.to_str().unwrap();
        let run = weft(Path::new("."), &["render", "-f", file, "-o", "json"]);
        let said = format!("{file}: {}{}", run.stdout, run.stderr);
        if FOREIGN.iter().any(|foreign| path.ends_with(foreign)) {
            let command = format!("kubectl apply -f {file}");
            assert!(run.code == 2 && run.stderr.contains(&command), "{said}");
            continue;
        }
        assert_eq!(run.code, 0, "{said}");
        let list: Value = serde_json::from_str(&run.stdout).unwrap();
        let has_objects = !list["items"].as_array().unwrap().is_empty();
        let command = format!("weft plan -f {file}");
        assert!(has_objects || run.stderr.contains(&command), "{said}");
    }
}

#[test]
fn the_command_for_a_policy_from_stdin_reads_stdin_too() {
    let policy =
        std::fs::read_to_string(root().join("examples/node-network/linux-bridge.yaml")).unwrap();
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &policy);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("stdin: NodeNetworkConfigurationPolicy")
            && run.stderr.contains("weft plan -f -\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn all_examples_are_checked_at_once() {
    let examples = root().join("examples");
    let (folder, flat) = (examples.to_str().unwrap(), examples.join("node-network"));
    let run = weft(Path::new("."), &["validate", "-R", "-f", folder]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let wrong: Vec<_> = run
        .stdout
        .lines()
        .filter(|line| !line.ends_with(": valid"))
        .collect();
    // Examples of one kind are alternatives to each other.
    for line in &wrong {
        assert!(line.contains("only the oldest counts"), "{line}");
    }
    assert!(
        run.stdout.lines().count() > wrong.len() + 30,
        "{}",
        run.stdout
    );
    let run = weft(Path::new("."), &["validate", "-f", flat.to_str().unwrap()]);
    assert!(!run.stdout.contains("early/"), "{}", run.stdout);
}

#[test]
fn policies_of_tutorials_suit_nodes_with_and_without_network_manager() {
    for backend in ["NetworkManager", "Kernel"] {
        let folder = tempfile::tempdir().unwrap();
        let state = serde_json::json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": "node-1"},
            "status": {
                "conditions": [{"type": "Backend", "status": "True", "reason": backend}],
                "currentState": {"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up"}]},
            },
        });
        std::fs::write(folder.path().join("nodes.json"), state.to_string()).unwrap();
        for name in ["bridge", "policy"] {
            let file = root().join(format!("examples/tutorials/{name}.yaml"));
            let arguments = [
                "plan",
                "--state",
                "nodes.json",
                "-f",
                file.to_str().unwrap(),
            ];
            let run = weft(folder.path(), &arguments);
            let said = format!("{name}, {backend}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.code, 1, "{said}");
            assert!(run.stdout.contains("  + interfaces[br"), "{said}");
            assert!(!run.stdout.contains("  ! "), "{said}");
        }
    }
}

#[test]
fn a_placement_api_outside_the_served_namespaces_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let example =
        std::fs::read_to_string(root().join("examples/placement/placement.yaml")).unwrap();
    let check = |namespace: &str| {
        let text = example.replace("  namespace: openstack\n", namespace);
        std::fs::write(folder.path().join("placement.yaml"), text).unwrap();
        let run = weft(folder.path(), &["validate", "-f", "placement.yaml"]);
        assert_eq!(run.code, 0, "{}", run.stdout);
        run.stderr
    };
    assert_eq!(check("  namespace: openstack\n"), "");
    let lab = check("  namespace: lab\n");
    assert!(
        lab.contains("namespace lab is not served")
            && lab.contains(
                "weft manifests --domains placement --placement-namespaces openstack,lab"
            ),
        "{lab}"
    );
    let none = check("");
    assert!(
        none.contains("metadata.namespace: is missing") && none.contains("such as openstack"),
        "{none}"
    );
}

#[test]
fn versions_and_definitions_are_printed_as_json() {
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&super::common::printed(arguments)).unwrap()
    };
    let version = json(&["version", "-o", "json"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["serves"][0]["kind"], "NetworkAddonsConfig");
    for arguments in [&["crds", "-o", "json"], &["manifests", "-o", "json"]] {
        let list = json(arguments);
        assert_eq!(list["kind"], "List", "{arguments:?}");
        let kinds: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(super::common::title)
            .collect();
        assert!(kinds.len() > 5, "{kinds:?}");
    }
}
