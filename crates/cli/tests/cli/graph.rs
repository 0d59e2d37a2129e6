//! `weft graph` of files: each form of the picture, by the real binary.

use std::{collections::BTreeSet, fs};

use super::common::{Run, root, weft, weft_with_stdin};
use serde_json::{Value, json};

/// Draws the three nodes of the example.
fn draw(arguments: &[&str]) -> Run {
    let all = [&["graph", "--state", "nodes.yaml"], arguments].concat();
    weft(&root().join("crates/cli/tests/cli/graph"), &all)
}

fn drawn(arguments: &[&str]) -> String {
    let run = draw(arguments);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout
}

/// Draws these nodes in this form.
fn draw_nodes(folder: &std::path::Path, nodes: &[Value], form: &str) -> Run {
    let list = json!({"kind": "List", "items": nodes});
    fs::write(folder.join("nodes.json"), list.to_string()).unwrap();
    weft(folder, &["graph", "--state", "nodes.json", "-o", form])
}

#[test]
fn each_form_shows_the_same_nodes() {
    insta::assert_snapshot!("tree", drawn(&[]));
    insta::assert_snapshot!("dot", drawn(&["-o", "dot"]));
    insta::assert_snapshot!("mermaid", drawn(&["-o", "mermaid"]));
    insta::assert_snapshot!("svg", drawn(&["node-2", "-o", "svg"]));
}

#[test]
fn json_has_parts_and_links_for_programs() {
    let json: Value = serde_json::from_str(&drawn(&["node-1", "-o", "json"])).unwrap();
    let node = &json["nodes"][0];
    assert_eq!(node["health"], "drift");
    let vlan = node["parts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["name"] == "bond0.200")
        .unwrap();
    assert_eq!(
        vlan,
        &json!({
            "id": "interface/bond0.200", "kind": "interface", "name": "bond0.200", "type": "vlan",
            "facts": [
                {"label": "state", "value": "up"}, {"label": "VLAN", "value": "200"},
                {"label": "MTU", "value": "1500"}
            ],
            "policies": ["storage"], "health": "drift", "messages": ["mtu: 1500 should be 9000"]
        })
    );
    let cable = json!({"from": "switch/leaf-1", "to": "interface/eth0", "kind": "cable", "label": "port Ethernet1/1"});
    assert!(
        node["links"].as_array().unwrap().contains(&cable),
        "{node:#}"
    );
}

#[test]
fn svg_is_xml_with_a_box_for_each_part() {
    let svg = drawn(&["-o", "svg"]);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let titles: BTreeSet<_> = document
        .descendants()
        .filter(|element| element.attribute("class") == Some("title"))
        .filter_map(|element| element.text())
        .collect();
    for title in [
        "switch leaf-1",
        "eth1 (ethernet)",
        "bond0 (bond)",
        "br1 (linux-bridge)",
        "2 pod interfaces",
    ] {
        assert!(titles.contains(title), "{title} is missing in {titles:?}");
    }
    // A colour never stands alone: the word is in the box, and in its label.
    let drifted = document
        .descendants()
        .find(|element| element.attribute("class") == Some("box interface drift"))
        .unwrap();
    assert!(
        drifted
            .descendants()
            .any(|element| element.text() == Some("~ drift"))
    );
    assert!(
        drifted
            .attribute("aria-label")
            .unwrap()
            .contains("~ drift, mtu: 1500 should be 9000")
    );
    let ids: Vec<_> = document
        .descendants()
        .filter_map(|element| element.attribute("id"))
        .collect();
    assert_eq!(
        ids.len(),
        ids.iter().collect::<BTreeSet<_>>().len(),
        "each id is there once"
    );
}

#[test]
fn an_unknown_node_is_refused_with_a_suggestion() {
    let run = draw(&["nod-1"]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (
            2,
            "error: NODE nod-1: there is no node of this name among 3; did you mean node-1?\n"
        )
    );
    let run = draw(&["quite-another"]);
    assert!(
        run.stderr
            .contains("weft graph without a name draws all of them"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_policy_is_drawn_as_if_it_were_applied() {
    let policy = "\
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: next}
spec:
  nodeSelector: {rack: r2}
  desiredState:
    interfaces:
    - {name: br9, type: linux-bridge, state: up, bridge: {port: [{name: eth1, vlan: {}}]}}
";
    let folder = root().join("crates/cli/tests/cli/graph");
    let run = weft_with_stdin(
        &folder,
        &["graph", "node-2", "--state", "nodes.yaml", "-f", "-"],
        policy,
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let bridge = "├─ eth1 (ethernet): down, MTU 1500
│  └─ br9 (linux-bridge): missing, policy next  + will be added
│       wanted: up
│       is missing
";
    assert!(
        run.stdout.contains("next: not applied yet  … in progress"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains(bridge), "{}", run.stdout);
    let page = weft_with_stdin(
        &folder,
        &["graph", "--state", "nodes.yaml", "-f", "-", "-o", "html"],
        policy,
    );
    for part in [
        "Drawn as if stdin were applied.",
        "class=\"box interface added missing\"",
        "+ 1 will be added",
        "data-show=\"failed changes\"",
    ] {
        assert!(page.stdout.contains(part), "{part} in {}", page.stdout);
    }
    let octal = weft_with_stdin(
        &folder,
        &["graph", "--state", "nodes.yaml", "-f", "-"],
        &policy.replace("state: up,", "state: up, mtu: 02574,"),
    );
    let note = "note: stdin:8:55: spec.desiredState.interfaces[0].mtu: 02574 begins with a zero, so kubectl reads it as an octal number and sends 1404";
    assert!(
        octal.code == 0 && octal.stderr.contains(note),
        "{}",
        octal.stderr
    );
    let wrong = weft_with_stdin(
        &folder,
        &["graph", "--state", "nodes.yaml", "-f", "-"],
        &policy.replace("linux-bridge", "linux-brigde"),
    );
    assert!(
        wrong.code == 2 && wrong.stderr.contains("linux-brigde"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn pods_can_be_left_out() {
    assert!(drawn(&["node-1"]).contains("pod default/db net1"));
    assert!(!drawn(&["node-1", "--no-pods"]).contains("pod default/db"));
}

#[test]
fn files_without_a_state_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("pods.yaml"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
    )
    .unwrap();
    let run = weft(folder.path(), &["graph", "--state", "pods.yaml"]);
    assert!(
        run.code == 2
            && run
                .stderr
                .contains("pods.yaml: there is no NodeNetworkState in it"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_large_flowchart_names_the_limit_of_mermaid() {
    let folder = tempfile::tempdir().unwrap();
    let routes: Vec<_> = (0..2).map(|number| json!({"name": format!("eth{number}"), "type": "ethernet", "state": "up", "lldp": {"neighbors": [[{"system-name": "a"}]]}})).collect();
    let nodes: Vec<_> = (0..300)
        .map(|number| json!({"kind": "NodeNetworkState", "metadata": {"name": format!("n{number}")}, "status": {"currentState": {"interfaces": routes}}}))
        .collect();
    let run = draw_nodes(folder.path(), &nodes, "mermaid");
    assert!(
        run.stderr.contains("600 links") && run.stderr.contains("maxEdges"),
        "{}",
        run.stderr
    );
    let one = weft(
        folder.path(),
        &["graph", "n7", "--state", "nodes.json", "-o", "mermaid"],
    );
    assert_eq!((one.code, one.stderr.as_str()), (0, ""));
}

/// Names of others cannot break out of a text: in no form.
#[test]
fn hostile_names_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let name = "</script><script>alert(1)</script>\"]; & \\ #quot; `x` \u{1b}[31m \u{202e} ]]>\nend \u{fffe}";
    let state = json!({"kind": "NodeNetworkState", "metadata": {"name": "n"}, "status": {"currentState": {"interfaces": [
        {"name": "eth0", "type": "ethernet", "state": "up", "lldp": {"neighbors": [[{"system-name": name}, {"port-id": name}]]}}
    ]}}});
    fs::write(folder.path().join("n.json"), state.to_string()).unwrap();
    let form = |form: &str| weft(folder.path(), &["graph", "--state", "n.json", "-o", form]).stdout;
    for (name, text) in
        ["tree", "svg", "dot", "mermaid", "html", "json"].map(|name| (name, form(name)))
    {
        assert!(
            !text.contains(['\u{1b}', '\u{202e}']) && !text.contains("]]>\nend"),
            "{name}: {text}"
        );
    }
    let svg = form("svg");
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(
        document
            .descendants()
            .all(|element| element.tag_name().name() != "script")
    );
    let dot = form("dot");
    assert!(
        dot.contains("switch </script><script>alert(1)</scrip"),
        "{dot}"
    );
    assert!(form("mermaid").contains("#60;/script#62;"));
}

#[test]
fn the_page_shows_equal_nodes_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let state = |name: &str, number: u32, mtu: u32| {
        json!({"kind": "NodeNetworkState", "metadata": {"name": name}, "status": {"currentState": {"interfaces": [{
            "name": "eth0", "type": "ethernet", "state": "up", "mtu": mtu, "mac-address": format!("02:00:00:00:00:0{number}"),
            "ipv4": {"enabled": true, "address": [{"ip": format!("192.0.2.{number}"), "prefix-length": 24}]},
            "lldp": {"enabled": true, "neighbors": [[{"system-name": "leaf-1"}, {"port-id": format!("Ethernet1/{number}")}]]}
        }]}}})
    };
    let nodes = [
        state("a", 1, 1500),
        state("b", 2, 1500),
        state("c", 3, 9000),
    ];
    let run = draw_nodes(folder.path(), &nodes, "html");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let (_, groups) = run.stdout.split_once("<ul id=\"groups\">").unwrap();
    let (groups, _) = groups.split_once("</section>").unwrap();
    let cards: Vec<&str> = groups.split("<li class=\"group\"").skip(1).collect();
    assert_eq!(cards.len(), 2, "{groups}");
    assert!(
        cards[0].contains("2 equal nodes")
            && cards[0].contains(" <span class=\"more\">a, b</span>"),
        "{groups}"
    );
    for link in ["data-node=\"0\" href=\"#a\"", "data-node=\"1\" href=\"#b\""] {
        assert!(cards[0].contains(link), "{link} in {groups}");
    }
    assert!(cards[1].contains("data-node=\"2\" href=\"#c\""), "{groups}");
}

#[test]
fn the_page_holds_everything_and_forbids_requests() {
    let page = drawn(&["-o", "html"]);
    assert!(
        page.contains("content=\"default-src 'none'; style-src 'sha256-"),
        "{page}"
    );
    for reference in [
        "src=",
        "href=\"http",
        "url(",
        "@import",
        "fetch(",
        "style=\"",
    ] {
        assert!(!page.contains(reference), "{reference} in {page}");
    }
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let node = &data[0];
    assert_eq!(
        (&node["name"], &node["word"]),
        (&json!("node-1"), &json!("~ drift"))
    );
    roxmltree::Document::parse(node["svg"].as_str().unwrap()).unwrap();
    // People who see no picture find each part in the tree.
    let tree = node["tree"].to_string();
    for line in node["boxes"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|lines| lines[0].as_str().unwrap())
    {
        let is_group = line.contains("route") || line.contains("pod interface");
        assert!(is_group || tree.contains(line), "{line} in {tree}");
    }
}
