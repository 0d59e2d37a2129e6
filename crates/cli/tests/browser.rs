//! The pictures of `weft graph` through the eyes of the programs that people open them with: a
//! browser, Mermaid and Graphviz. `scripts/test-pages` runs these tests.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use common::{objects, root, weft};
use serde_json::{Value, json};

/// The folder that `scripts/browser` prints.
fn programs() -> PathBuf {
    env::var_os("WEFT_BROWSER")
        .map(PathBuf::from)
        .unwrap_or_else(|| panic!("WEFT_BROWSER is not set: run scripts/test-pages"))
}

/// Runs the script that drives the browser, and returns the figures that it prints.
fn look(arguments: &[&str]) -> Value {
    // A test that is killed takes the driver with it, and the driver its browser.
    let output = weft_testenv::bound_command(Path::new("node"))
        .arg(root().join("crates/cli/tests/browser/look.mjs"))
        .args(arguments)
        .env("WEFT_BROWSER", programs())
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// The objects of the example, with so many nodes. One of three has drifted, on one a policy has
/// failed, and one reports nothing.
fn many(nodes: usize) -> Value {
    let example =
        std::fs::read_to_string(root().join("crates/cli/tests/graph/nodes.yaml")).unwrap();
    let example = objects(&example);
    let (of_nodes, shared): (Vec<_>, Vec<_>) = example.into_iter().partition(|object| {
        let text = object.to_string();
        (1..=3).any(|node| text.contains(&format!("node-{node}")))
    });
    let mut items = shared;
    for number in 0..nodes {
        let of = format!("node-{}", number % 3 + 1);
        let own = of_nodes
            .iter()
            .map(Value::to_string)
            .filter(|text| text.contains(&of));
        items.extend(own.map(|text| {
            serde_json::from_str::<Value>(&text.replace(&of, &format!("worker-{number:03}")))
                .unwrap()
        }));
    }
    json!({"kind": "List", "items": items})
}

/// Draws the objects into a file, and returns its path.
fn draw(folder: &Path, objects: &Value, form: &str) -> String {
    std::fs::write(folder.join("nodes.json"), objects.to_string()).unwrap();
    let run = weft(folder, &["graph", "--state", "nodes.json", "-o", form]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let path = folder.join(format!("drawn.{form}"));
    std::fs::write(&path, run.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Opens a page for so many nodes, and uses it as people do, by keyboard and screen reader.
fn page(nodes: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = draw(folder.path(), &many(nodes), "html");
    let name = format!("worker-{:03}", (nodes - 1) / 3 * 3);
    let figures = look(&["page", &path, &nodes.to_string(), &name]);
    println!(
        "{figures}, {} bytes",
        std::fs::metadata(&path).unwrap().len()
    );
    // The page draws one node only, however many there are. A row of the list is a few elements.
    let elements = figures["elements"].as_u64().unwrap();
    assert!(elements < 1000 + 12 * nodes as u64, "{figures}");
}

#[test]
fn a_page_of_3_nodes_works_by_keyboard_and_screen_reader() {
    page(3);
}

#[test]
fn a_page_of_50_nodes_works_by_keyboard_and_screen_reader() {
    page(50);
}

#[test]
fn a_page_of_500_nodes_works_by_keyboard_and_screen_reader() {
    page(500);
}

/// A node whose switch has a name that would end elements and strings.
fn hostile() -> Value {
    let name =
        "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"]; & \\ #quot; `x` end";
    json!({"kind": "NodeNetworkState", "metadata": {"name": "n"}, "status": {"currentState": {"interfaces": [
        {"name": "eth0", "type": "ethernet", "state": "up", "lldp": {"neighbors": [[{"system-name": name}, {"port-id": name}]]}}
    ]}}})
}

#[test]
fn names_of_others_do_not_run_as_scripts_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    look(&["hostile", &draw(folder.path(), &hostile(), "html")]);
}

#[test]
fn mermaid_reads_and_draws_the_flowchart() {
    let folder = tempfile::tempdir().unwrap();
    let figures = look(&["mermaid", &draw(folder.path(), &many(3), "mermaid")]);
    let texts = figures["texts"].as_array().unwrap();
    let has = |wanted: &str| {
        texts
            .iter()
            .any(|text| text.as_str().unwrap().contains(wanted))
    };
    for wanted in [
        "switch leaf-1",
        "bond0.200 (vlan)\nup, VLAN 200, MTU 1500\npolicy storage\n~ drift",
        "! storage: failed",
    ] {
        assert!(has(wanted), "{wanted:?} is missing in {texts:#?}");
    }
    let figures = look(&["mermaid", &draw(folder.path(), &hostile(), "mermaid")]);
    assert!(
        figures["texts"]
            .to_string()
            .contains("</script><script>alert"),
        "{figures}"
    );
}

#[test]
fn graphviz_reads_and_places_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    for (objects, nodes) in [(many(3), 20), (hostile(), 2)] {
        let path = draw(folder.path(), &objects, "dot");
        let output = Command::new(programs().join("dot"))
            .args(["-Tplain", &path])
            .output()
            .unwrap();
        let (plain, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success() && stderr.is_empty(), "{stderr}");
        let placed = plain
            .lines()
            .filter(|line| line.starts_with("node "))
            .count();
        assert_eq!(placed, nodes, "{plain}");
    }
}
