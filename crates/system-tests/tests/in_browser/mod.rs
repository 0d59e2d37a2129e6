//! The pictures of `weft graph` through the eyes of the programs that people open them with: a
//! browser, Mermaid and Graphviz. `scripts/test-pages` runs these tests.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use weft_system_tests::command_line::{objects, root, weft};

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
        .arg(root().join("crates/system-tests/tests/in_browser/look.mjs"))
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
        std::fs::read_to_string(root().join("crates/cli/tests/cli/graph/nodes.yaml")).unwrap();
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
    draw_with(folder, objects, &["-o", form], form)
}

/// The same with these options.
fn draw_with(folder: &Path, objects: &Value, options: &[&str], form: &str) -> String {
    std::fs::write(folder.join("nodes.json"), objects.to_string()).unwrap();
    let all = [&["graph", "--state", "nodes.json"], options].concat();
    let run = weft(folder, &all);
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
    // The page draws one node only, however many there are, and one card for equal nodes. The name
    // of a node is two elements.
    let elements = figures["elements"].as_u64().unwrap();
    assert!(elements < 600 + 3 * nodes as u64, "{figures}");
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

/// Nodes of which none is equal to another one, each with 50 interfaces.
fn different(nodes: u32) -> Value {
    let items = (0..nodes).map(|node| {
        let interface = |name: String, kind: &str, mtu: u32| json!({"name": name, "type": kind, "state": "up", "mtu": mtu});
        let mut interfaces: Vec<Value> = (3..10)
            .map(|card| interface(format!("eth{card}"), "ethernet", 1500))
            .collect();
        for card in ["eth1", "eth2"] {
            interfaces.push(interface(card.to_owned(), "ethernet", 9000));
        }
        let mut bond = interface("bond0".to_owned(), "bond", 9000);
        bond["link-aggregation"] = json!({"mode": "802.3ad", "port": ["eth1", "eth2"]});
        interfaces.push(bond);
        for id in 100..130 {
            let name = format!("bond0.{id}");
            if id % 3 == 0 {
                let mut bridge = interface(format!("br{id}"), "linux-bridge", 1400 + node);
                bridge["bridge"] = json!({"port": [{"name": name}]});
                interfaces.push(bridge);
            }
            let mut vlan = interface(name, "vlan", 1400 + node);
            vlan["vlan"] = json!({"base-iface": "bond0", "id": id});
            interfaces.push(vlan);
        }
        json!({
            "kind": "NodeNetworkState", "metadata": {"name": format!("worker-{node:03}")},
            "status": {"currentState": {"interfaces": interfaces}}
        })
    });
    json!({"kind": "List", "items": items.collect::<Vec<_>>()})
}

#[test]
fn a_page_of_100_different_nodes_with_50_interfaces_stays_usable() {
    let folder = tempfile::tempdir().unwrap();
    let path = draw(folder.path(), &different(100), "html");
    let figures = look(&["large", &path, "100", "50"]);
    let size = std::fs::metadata(&path).unwrap().len();
    println!("{figures}, {size} bytes");
    assert!(size < 8_000_000, "the page has {size} bytes");
}

#[test]
fn the_changes_of_a_policy_are_marked_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": "next"},
        "spec": {
            "nodeSelector": {"rack": "r1"}, "priority": 1,
            "desiredState": {"interfaces": [
                {"name": "br9", "type": "linux-bridge", "state": "up", "mtu": 1400, "bridge": {"port": []}},
                {"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1400},
                {"name": "bond0.200", "type": "vlan", "state": "absent"}
            ]}
        }
    });
    std::fs::write(folder.path().join("next.json"), policy.to_string()).unwrap();
    let options = ["-f", "next.json", "-o", "html"];
    let path = draw_with(folder.path(), &many(3), &options, "html");
    look(&["plan", &path, "worker-000"]);
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
