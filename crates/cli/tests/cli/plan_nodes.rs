//! `weft validate` and `weft plan` of policies for nodes' networks, without a cluster.

use std::{fs, path::Path};

use super::common::{Run, root, weft, weft_with_stdin};
use serde_json::Value;

/// Two nodes, one of them of rack r1, and a policy that is there already.
const STATE: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node-a, labels: {rack: r1}}
- apiVersion: v1
  kind: Node
  metadata: {name: node-b, labels: {rack: r2}}
- apiVersion: nmstate.io/v1beta1
  kind: NodeNetworkState
  metadata: {name: node-a}
  status:
    currentState:
      capabilities: [NetworkManager]
      interfaces:
      - {name: eth0, type: ethernet, state: up, mtu: 1500, ifIndex: 2}
      - {name: eth1, type: ethernet, state: up, mtu: 9000, ifIndex: 3}
      - {name: veth1, type: veth, state: ignore, mtu: 1500, ifIndex: 9}
- apiVersion: nmstate.io/v1beta1
  kind: NodeNetworkState
  metadata: {name: node-b}
  spec: {desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400}]}}
  status:
    currentState:
      interfaces:
      - {name: eth1, type: ethernet, state: up, mtu: 1400, ifIndex: 3}
- apiVersion: nmstate.io/v1
  kind: NodeNetworkConfigurationPolicy
  metadata: {name: low}
  spec: {desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}]}}
";

const HEAD: &str = "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata:\n  name: test\nspec:\n";

/// Plans a specification, each line of it indented already, on those nodes.
fn plan(spec: &str, more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nodes.yaml"), STATE).unwrap();
    let arguments: Vec<&str> = ["plan", "-f", "-", "--state", "nodes.yaml"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    weft_with_stdin(folder.path(), &arguments, &format!("{HEAD}{spec}"))
}

#[test]
fn a_policy_is_planned_on_each_node() {
    let run = plan(
        "  match: {interfaces: {name: 'eth*'}}\n  priority: 1\n  desiredState: {interfaces: [{mtu: 1450}]}\n",
        &[],
    );
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "node-a\n  ~ interfaces[eth0].mtu: 1500 -> 1450\n  ~ interfaces[eth1].mtu: 9000 -> 1450\n\nnode-b\n  nothing would change\n"
        ),
        "{}",
        run.stderr
    );
}

/// A node whose card `eth0` has its address and the default route, with a VLAN on `eth1`, and
/// another node that is the same but for its addresses.
fn two_nodes() -> String {
    let node = |name: &str, address: &str| {
        format!(
            "---
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{addresses: [{{type: InternalIP, address: {address}}}, {{type: Hostname, address: {name}}}]}}
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkState
metadata: {{name: {name}}}
status:
  currentState:
    interfaces:
    - name: lo
      type: loopback
      state: up
      ipv4: {{enabled: true, address: [{{ip: 127.0.0.1, prefix-length: 8}}]}}
    - name: eth0
      type: ethernet
      state: up
      mtu: 1500
      ipv4: {{enabled: true, dhcp: true, address: [{{ip: {address}, prefix-length: 24}}]}}
    - {{name: eth1, type: ethernet, state: up, mtu: 1500}}
    - {{name: eth1.7, type: vlan, state: up, mtu: 1500, vlan: {{base-iface: eth1, id: 7}}}}
    - {{name: br1, type: linux-bridge, state: up, mtu: 1500, bridge: {{port: [{{name: eth1.7}}]}}}}
    routes:
      running:
      - {{destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1, metric: 100, table-id: 254}}
"
        )
    };
    node("node-a", "192.0.2.11") + &node("node-b", "192.0.2.12")
}

/// Plans desired interfaces on them.
fn plan_two(interfaces: &str, more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nodes.yaml"), two_nodes()).unwrap();
    let arguments = [&["plan", "-f", "-", "--state", "nodes.yaml"], more].concat();
    let policy = format!("{HEAD}  desiredState: {{interfaces: [{interfaces}]}}\n");
    weft_with_stdin(folder.path(), &arguments, &policy)
}

#[test]
fn consequences_of_a_change_are_planned() {
    let run = plan_two("{name: eth1, type: ethernet, mtu: 1400}", &[]);
    let lines = "node-a\n  ~ interfaces[eth1].mtu: 1500 -> 1400\n  ~ interfaces[eth1.7].mtu: 1500 -> 1400\n";
    assert!(run.stdout.starts_with(lines), "{}", run.stdout);
    let run = plan_two("{name: eth1.7, type: vlan, state: absent}", &[]);
    let lines = "node-a\n  - interfaces[eth1.7]\n  - interfaces[br1].bridge.port[eth1.7]\n";
    assert!(run.stdout.starts_with(lines), "{}", run.stdout);
    let lo = "{name: lo, type: loopback, state: up, ipv4: {enabled: true, address: [{ip: 203.0.113.1, prefix-length: 32}]}}";
    let run = plan_two(lo, &[]);
    let lines =
        "node-a\n  + interfaces[lo].ipv4.address[203.0.113.1/32]: 203.0.113.1/32\n\nnode-b\n";
    assert!(run.stdout.starts_with(lines), "{}", run.stdout);
}

#[test]
fn the_first_line_warns_of_a_change_of_the_interface_that_the_node_needs() {
    let bridge = "{name: br0, type: linux-bridge, state: up, ipv4: {enabled: true, dhcp: true}, bridge: {port: [{name: eth0, vlan: {}}]}}";
    let run = plan_two(bridge, &[]);
    let first = "node-a: this changes eth0, which carries the default route and the node's address 192.0.2.11\n";
    assert!(run.stdout.starts_with(first), "{}", run.stdout);
    for line in [
        "  - interfaces[eth0].ipv4.address[192.0.2.11/24]\n",
        "  - routes.config[0.0.0.0/0 via 192.0.2.1 dev eth0]\n",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    let run = plan_two(bridge, &["-o", "json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let lifeline = &json["nodes"][1]["lifelines"][0];
    assert_eq!(
        (
            &lifeline["interface"],
            &lifeline["carries"][1],
            &lifeline["through"]
        ),
        (
            &Value::from("eth0"),
            &Value::from("the node's address 192.0.2.12"),
            &Value::Null
        ),
        "{lifeline}"
    );
}

#[test]
fn one_address_for_several_nodes_is_a_warning() {
    let eth1 = |state: &str| {
        format!(
            "{{name: eth1, type: ethernet, state: {state}, ipv4: {{enabled: true, dhcp: false, address: [{{ip: 198.51.100.7, prefix-length: 24}}]}}}}"
        )
    };
    let warning = "policy test gives the address 198.51.100.7 to 2 nodes (node-a, node-b): ";
    let run = plan_two(&eth1("up"), &[]);
    assert!(run.stderr.contains(warning), "{}", run.stderr);
    let run = plan_two(&eth1("absent"), &[]);
    assert!(!run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn a_node_that_reports_nothing_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let silent = "---\napiVersion: v1\nkind: Node\nmetadata: {name: node-c, labels: {rack: r1}}\n";
    fs::write(folder.path().join("nodes.yaml"), format!("{STATE}{silent}")).unwrap();
    let plan = |rack: &str| {
        let spec = format!(
            "  nodeSelector: {{rack: {rack}}}\n  desiredState: {{interfaces: [{{name: eth1, type: ethernet, state: up}}]}}\n"
        );
        // Of the policy that is there, nothing is wanted any more.
        let low = "---\napiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {name: low}\nspec: {nodeSelector: {rack: none}}\n";
        weft_with_stdin(
            folder.path(),
            &["plan", "-f", "-", "--state", "nodes.yaml"],
            &format!("{HEAD}{spec}{low}"),
        )
    };
    let run = plan("r1");
    assert!(
        run.stdout
            .contains("node-c\n  ? unknown: the node has no NodeNetworkState"),
        "{}",
        run.stdout
    );
    assert_eq!(run.code, 2, "{}", run.stdout);
    let run = plan("r2");
    assert!(
        !run.stdout.contains("node-c") && run.code == 0,
        "{} {}",
        run.code,
        run.stdout
    );
}

#[test]
fn a_refusal_of_a_node_stands_in_the_way() {
    let run = plan(
        "  nodeSelector: {rack: r1}\n  desiredState: {interfaces: [{name: eth7, type: ethernet, state: up}]}\n",
        &[],
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    let refusal = "  ! interfaces[eth7]: there is no such interface, and one of type ethernet cannot be made\n";
    assert!(run.stdout.contains(refusal), "{}", run.stdout);
}

/// A report says by which names it leaves interfaces out.
#[test]
fn an_interface_that_the_filter_hides_is_unknown_and_not_missing() {
    let planned = |name: &str, message: &str| {
        let folder = tempfile::tempdir().unwrap();
        let condition = format!(
            "    conditions: [{{type: Complete, status: 'True', reason: Filtered, message: '{message}'}}]\n"
        );
        let state = STATE.replacen("  status:\n", &format!("  status:\n{condition}"), 1);
        fs::write(folder.path().join("nodes.yaml"), state).unwrap();
        let spec = format!(
            "  nodeSelector: {{rack: r1}}\n  desiredState: {{interfaces: [{{name: {name}, type: ethernet, state: up}}]}}\n"
        );
        let arguments = ["plan", "-f", "-", "--state", "nodes.yaml"];
        weft_with_stdin(folder.path(), &arguments, &format!("{HEAD}{spec}"))
    };
    let hidden = "  ? interfaces[eth7]: unknown, because the report leaves it out (spec.interfaceFilter of the NMState)\n";
    let words = "spec.interfaceFilter of the NMState chooses the reported interfaces, and routes over others are left out, too: {\"exclude\":[\"eth7\"]}";
    // Words of another release hide all.
    for message in [words, "some are left out"] {
        let run = planned("eth7", message);
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stdout.contains(hidden), "{}", run.stdout);
        assert!(!run.stdout.contains("  !"), "{}", run.stdout);
    }
    let missing = planned("eth8", words).stdout;
    assert!(
        missing.contains("  ! interfaces[eth8]: there is no such interface"),
        "{missing}"
    );
}

#[test]
fn obstacles_are_reported() {
    let quarrel = plan(
        "  nodeSelector: {rack: r1}\n  desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1450}]}\n",
        &[],
    );
    assert_eq!(quarrel.code, 1);
    let conflict = "  ! interfaces[eth1].mtu: policy low wants 9000, policy test wants 1450, and their priority is the same";
    assert!(quarrel.stdout.contains(conflict), "{}", quarrel.stdout);
    assert!(
        quarrel.stdout.contains(
            "note: policy test is not for this node: spec.nodeSelector wants the label rack=r1"
        ),
        "{}",
        quarrel.stdout
    );
    let missing = plan(
        "  capture: {gw: 'routes.running.destination==\"0.0.0.0/0\"'}\n  desiredState: {}\n",
        &["-o", "json"],
    );
    let json: Value = serde_json::from_str(&missing.stdout).unwrap();
    let failure = json["nodes"][0]["failed"]["test"].as_str().unwrap();
    assert!(
        failure.contains("nothing in routes.running has destination==0.0.0.0/0"),
        "{failure}"
    );
}

#[test]
fn satisfied_and_deleted_policies_change_nothing() {
    let same = plan(
        "  desiredState: {interfaces: [{name: eth1, type: veth, state: up}]}\n  nodeSelector: {rack: r9}\n",
        &[],
    );
    assert_eq!(
        (
            same.code,
            same.stdout.matches("nothing would change").count()
        ),
        (0, 2),
        "{}{}",
        same.stdout,
        same.stderr
    );
    let deleted = plan("  {}\n", &["--delete"]);
    assert_eq!(deleted.code, 0, "{}", deleted.stdout);
    let refused = plan(
        "  desiredState: {interfaces: [{name: eth1, mut: 1450}]}\n",
        &[],
    );
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("did you mean \"mtu\"?"),
        "{}",
        refused.stderr
    );
}

/// The captured state of a finished policy does not exist on the node any more. The enactment keeps
/// it.
#[test]
fn a_captured_state_stays_while_the_policy_does() {
    let folder = tempfile::tempdir().unwrap();
    let capture = "  capture:
    gw: routes.running.destination==\"0.0.0.0/0\"
    card: interfaces.name==capture.gw.routes.running.0.next-hop-interface
  desiredState:
    interfaces: [{name: br-ex, type: linux-bridge, state: up, bridge: {port: [{name: '{{ capture.card.interfaces.0.name }}', vlan: {}}]}}]
";
    let done = "\
apiVersion: nmstate.io/v1
kind: NodeNetworkState
metadata: {name: node-a}
status:
  currentState:
    interfaces:
    - {name: eth0, type: ethernet, state: up, mtu: 1500, controller: br-ex}
    - {name: br-ex, type: linux-bridge, state: up, mtu: 1500, bridge: {port: [{name: eth0, vlan: {}}]}}
    routes: {running: [{destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 192.0.2.1}]}
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkConfigurationEnactment
metadata: {name: node-a.test, labels: {nmstate.io/node: node-a, nmstate.io/policy: test}}
status:
  policyGeneration: 2
  conditions: [{type: Available, status: 'True'}]
  desiredState: {interfaces: [{name: br-ex, type: linux-bridge, state: up, bridge: {port: [{name: eth0, vlan: {}}]}}]}
---
";
    let plan = |generation: u32, file: &str| {
        let head = HEAD.replace(
            "name: test",
            &format!("name: test\n  generation: {generation}"),
        );
        fs::write(
            folder.path().join("nodes.yaml"),
            format!("{done}{head}{capture}"),
        )
        .unwrap();
        weft_with_stdin(
            folder.path(),
            &["plan", "-f", "-", "--state", "nodes.yaml"],
            file,
        )
    };
    let other = format!(
        "{}  desiredState: {{interfaces: [{{name: eth0, mtu: 1400}}]}}\n",
        HEAD.replace("test", "other")
    );
    let run = plan(2, &other);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "node-a: this changes eth0 below br-ex, which carries the default route\n  ~ interfaces[eth0].mtu: 1500 -> 1400\n"
        ),
        "{}",
        run.stderr
    );
    // The same once more is no change, and another one is.
    let run = plan(2, &format!("{HEAD}{capture}"));
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "node-a\n  nothing would change\n"),
        "{}",
        run.stderr
    );
    let run = plan(2, &format!("{HEAD}  priority: 7\n{capture}"));
    assert!(
        run.code == 1 && run.stdout.contains("interfaces[br-ex].bridge.port"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    // An enactment of an earlier generation says nothing of this one.
    let run = plan(3, &other);
    assert!(
        run.code == 1 && run.stdout.contains("interfaces[br-ex].bridge.port"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}

#[test]
fn slips_in_policies_and_states_are_found_where_they_are() {
    let validate = |text: &str| weft_with_stdin(Path::new("."), &["validate", "-f", "-"], text);
    for (spec, line) in [
        (
            "  desiredState:\n    interfaces:\n    - name: eth1\n      ipv4: {enabled: true, dchp: true}\n",
            "stdin:9:35: spec.desiredState.interfaces[0].ipv4.dchp: nmstate knows no \"dchp\" here; did you mean \"dhcp\"?",
        ),
        (
            "  desiredState:\n    routes: {config: [{destination: 10.0.0.0/8, nexthop-interface: eth1}]}\n",
            "stdin:7:68: spec.desiredState.routes.config[0].nexthop-interface: nmstate knows no \"nexthop-interface\" here; did you mean \"next-hop-interface\"?",
        ),
        (
            "  desiredstate: {}\n",
            "stdin:6:3: spec.desiredstate: unknown field \"desiredstate\"; did you mean \"desiredState\"?",
        ),
    ] {
        let run = validate(&format!("{HEAD}{spec}"));
        assert_eq!(
            (run.code, run.stdout.trim_end()),
            (1, line),
            "{}",
            run.stderr
        );
    }
    let run = validate(&format!("{HEAD}  capture: {{a: interfaces.name=eth1}}\n"));
    assert!(
        run.code == 1
            && run
                .stdout
                .starts_with("stdin:6:16: spec.capture.a: expected ==, != or :="),
        "{}",
        run.stdout
    );
    let state = "apiVersion: nmstate.io/v1\nkind: NodeNetworkState\nmetadata: {name: node-a}\nspec:\n  desiredState: {interfaces: [{name: x, type: vlna}]}\n";
    let run = validate(state);
    assert!(
        run.code == 1
            && run
                .stdout
                .contains("vlna is no type of interface that nmstate knows; did you mean `vlan`?"),
        "{}",
        run.stdout
    );
    let run = validate(&format!(
        "{HEAD}  desiredState: {{interfaces: [{{name: eth1, type: ethernet, ipv6: {{enabled: true, autoConf: true}}}}]}}\n"
    ));
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "stdin: NodeNetworkConfigurationPolicy test: valid\n"),
        "{}",
        run.stderr
    );
}

const OF_LABEL: &str = "  match: {interfaces: {name: eth1}}\n  priority: 1\n  desiredState: {interfaces: [{mtu: '{{ node.labels[\"mtu\"] }}'}]}\n";

#[test]
fn values_of_the_nodes_are_planned_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let state = STATE.replace("rack: r1}", "rack: r1, mtu: '4000'}");
    fs::write(folder.path().join("nodes.yaml"), state).unwrap();
    let run = weft_with_stdin(
        folder.path(),
        &["plan", "-f", "-", "--state", "nodes.yaml"],
        &format!("{HEAD}{OF_LABEL}"),
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stdout
            .contains("node-a\n  ~ interfaces[eth1].mtu: 9000 -> 4000\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("node-b\n  ! test: spec.desiredState.interfaces[0].mtu: {{ node.labels[\"mtu\"] }} has no value, because the node node-b has no label mtu: set it with kubectl label node node-b mtu=VALUE"),
        "{}",
        run.stdout
    );
}

#[test]
fn addresses_of_a_pool_are_planned_and_an_exhausted_pool_is_named() {
    let pool = "  addressPools: {a: {range: 192.0.2.7-192.0.2.7, prefixLength: 24}}\n  priority: 1\n  desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: '{{ pool.a.ip }}', prefix-length: '{{ pool.a.prefix-length }}'}]}}]}\n";
    let run = plan(pool, &[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let of_first = run.stdout.split("node-b").next().unwrap();
    assert!(of_first.contains("192.0.2.7"), "{}", run.stdout);
    assert!(
        run.stdout.contains("node-b\n  ! test: spec.addressPools.a: the range 192.0.2.7-192.0.2.7 has no free address for the node node-b: widen the range, or remove exclusions"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_plan_tells_what_kubectl_reads_in_another_way_than_it_looks() {
    let run = plan(
        "  priority: 1\n  desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, mtu: 02574}]}\n",
        &[],
    );
    let note = "note: stdin:7:76: spec.desiredState.interfaces[0].mtu: 02574 begins with a zero, so kubectl reads it as an octal number and sends 1404";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert!(run.stdout.contains("mtu: 9000 -> 1404"), "{}", run.stdout);
}

#[test]
fn a_pool_with_a_mistake_is_refused_at_its_place() {
    let run = weft_with_stdin(
        Path::new("."),
        &["validate", "-f", "-"],
        &format!(
            "{HEAD}  addressPools:\n    a: {{range: 192.0.2.9-192.0.2.1, prefixLength: 24}}\n  desiredState: {{hostname: {{config: '{{{{ pool.b.ip }}}}'}}}}\n"
        ),
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    for line in [
        "stdin:7:5: spec.addressPools[a].range: \"192.0.2.9-192.0.2.1\" must be a CIDR",
        "spec.desiredState.hostname.config: there is no pool b in spec.addressPools: add it",
    ] {
        assert!(run.stdout.contains(line), "{}", run.stdout);
    }
}

#[test]
fn references_that_cannot_be_read_are_refused_with_their_forms() {
    let validate = |spec: &str| {
        weft_with_stdin(
            Path::new("."),
            &["validate", "-f", "-"],
            &format!("{HEAD}{spec}"),
        )
    };
    assert_eq!(validate(OF_LABEL).code, 0, "{}", validate(OF_LABEL).stdout);
    let run = validate(
        "  desiredState:\n    interfaces:\n    - name: eth1\n      mtu: '{{ node.lables[\"mtu\"] }}'\n",
    );
    assert_eq!(
        (run.code, run.stdout.lines().next().unwrap()),
        (
            1,
            "stdin:9:12: spec.desiredState.interfaces[0].mtu: a reference is written {{ capture.NAME.PATH }}, {{ node.name }}, {{ node.labels[\"KEY\"] }}, {{ node.annotations[\"KEY\"] }}, {{ pool.NAME.ip }} or {{ pool.NAME.prefix-length }}. Render a template of another program first"
        ),
        "{}",
        run.stderr
    );
}

#[test]
fn the_examples_are_valid() {
    let run = weft(
        Path::new("."),
        &[
            "validate",
            "-f",
            root().join("examples/node-network").to_str().unwrap(),
        ],
    );
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.lines().count() > 10, "{}", run.stdout);
}

#[test]
fn a_state_that_says_nothing_of_a_node_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("empty.yaml"),
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
    )
    .unwrap();
    let run = weft_with_stdin(
        folder.path(),
        &["plan", "-f", "-", "--state", "empty.yaml"],
        &format!("{HEAD}  {{}}\n"),
    );
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("kubectl get nns,nodes,nncp,nnce -o yaml"),
        "{}",
        run.stderr
    );
}

/// As `kubectl get nns,nodes,nnce` prints so many nodes with eight cards each, in YAML or in JSON.
fn fleet(nodes: usize, json: bool) -> String {
    let object = |node: usize| {
        let interface = |card: usize| {
            let mtu = if card == 1 && node.is_multiple_of(2) {
                1500
            } else {
                9000
            };
            serde_json::json!({
                "name": format!("eth{card}"), "type": "ethernet", "state": "up", "mtu": mtu,
                "mac-address": format!("52:54:00:00:00:0{card}"),
                "ipv4": {"enabled": true, "dhcp": false, "address": [
                    {"ip": format!("10.{card}.{}.{}", node / 250, node % 250), "prefix-length": 16}
                ]},
                "ipv6": {"enabled": false}
            })
        };
        serde_json::json!({
            "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
            "metadata": {"name": format!("node-{node:04}")},
            "status": {"currentState": {"interfaces": (0..8).map(interface).collect::<Vec<_>>()}}
        })
    };
    let items: Vec<Value> = (0..nodes).map(object).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    if json {
        list.to_string()
    } else {
        serde_saphyr::to_string(&list).unwrap()
    }
}

const MTU: &str =
    "  desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}]}\n";

#[test]
fn a_policy_is_planned_on_five_thousand_nodes_in_a_file() {
    for json in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("nodes"), fleet(5000, json)).unwrap();
        let run = weft_with_stdin(
            folder.path(),
            &["plan", "-f", "-", "--state", "nodes", "-o", "json"],
            &format!("{HEAD}{MTU}"),
        );
        assert_eq!((run.code, run.stderr.as_str()), (1, ""));
        let planned: Value = serde_json::from_str(&run.stdout).unwrap();
        let nodes = planned["nodes"].as_array().unwrap();
        let changed = nodes
            .iter()
            .filter(|node| node["changes"][0]["path"] == "interfaces[eth1].mtu");
        assert_eq!((nodes.len(), changed.count()), (5000, 2500));
    }
}

#[test]
fn many_states_are_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nodes.yaml"), fleet(400, false)).unwrap();
    let run = weft(folder.path(), &["validate", "-f", "nodes.yaml"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout.lines().count(), 400);
}

#[test]
fn a_plan_names_the_refusals_of_a_node_without_network_manager() {
    let spec = "  desiredState: {interfaces: [{name: bond1, type: bond, state: up, link-aggregation: {mode: active-backup, port: [eth1]}}]}\n";
    let refusal = "interfaces[bond1].type: must be one that the agent makes without NetworkManager";
    for (reason, is_refused) in [("Kernel", true), ("NetworkManager", false)] {
        let folder = tempfile::tempdir().unwrap();
        let condition = format!(
            "metadata: {{name: node-a}}\n  status:\n    conditions: [{{type: Backend, status: \"True\", reason: {reason}}}]\n"
        );
        let state = STATE.replace("metadata: {name: node-a}\n  status:\n", &condition);
        fs::write(folder.path().join("nodes.yaml"), state).unwrap();
        let arguments = ["plan", "-f", "-", "--state", "nodes.yaml"];
        let run = weft_with_stdin(folder.path(), &arguments, &format!("{HEAD}{spec}"));
        let printed = format!("{run:?}");
        assert_eq!(printed.contains(refusal), is_refused, "{printed}");
    }
}
