//! `weft validate` of NetworkAttachmentDefinitions: each mistake with its place, and the forms that
//! are right.

use std::{fs, path::Path};

use super::common::{Run, root, weft, weft_with_stdin};

fn validate(text: &str) -> Run {
    weft_with_stdin(Path::new("."), &["validate", "-f", "-"], text)
}

/// A definition whose configuration is a literal block: its first line is the seventh of the file.
fn literal(config: &str) -> String {
    let config: String = config.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: storage, namespace: lab}}\nspec:\n  # The cards of the data network.\n  config: |\n{config}"
    )
}

/// A definition in a file of one line.
fn plain(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: lab}}\nspec: {spec}\n"
    )
}

#[test]
fn each_mistake_in_a_definition_has_its_place_with_rule_and_fix() {
    for (config, expected) in [
        (
            "{\n  \"cniVersion\": \"0.3.1\",\n  \"type\": \"macvlan\",\n  \"master\": \"eth1\",\n}",
            "stdin:10:23: spec.config: is not JSON: trailing comma",
        ),
        (
            "{\n  \"cniVersion\": \"0.3.1\"\n  \"type\": \"macvlan\"\n}",
            "stdin:9:7: spec.config: is not JSON: expected `,` or `}`",
        ),
        (
            "[{\"type\": \"macvlan\"}]",
            "stdin:6:11: spec.config: must be a JSON object: begin it with { and end it with }",
        ),
        (
            "{\n  \"cniVersion\": \"0.3.1\",\n  \"name\": \"storage\",\n  \"master\": \"eth1\"\n}",
            "stdin:6:11: spec.config: a CNI configuration needs \"type\" or \"plugins\"",
        ),
        (
            "{\n  \"cniVersion\": \"0.3.1\",\n  \"plugins\": []\n}",
            "stdin:9:18: spec.config.plugins: must be a list with at least one plugin",
        ),
        (
            "{\n  \"cniVersion\": \"0.3.1\",\n  \"plugins\": [\n    {\"type\": \"bridge\"},\n    {\"mtu\": 1400}\n  ]\n}",
            "stdin:11:9: spec.config.plugins[1].type: is missing",
        ),
        (
            "{\n  \"type\": \"macvlan\",\n  \"mode\": \"Bridge\"\n}",
            "stdin:9:15: spec.config.mode: \"Bridge\" is not known to the plugin macvlan: write bridge or private or vepa or passthru",
        ),
        (
            "{\n  \"type\": \"ipvlan\",\n  \"mode\": \"l4\"\n}",
            "stdin:9:15: spec.config.mode: \"l4\" is not known to the plugin ipvlan: write l2 or l3 or l3s",
        ),
        (
            "{\"plugins\": [{\"type\": \"bond\", \"mode\": \"active_backup\"}]}",
            "stdin:7:43: spec.config.plugins[0].mode: \"active_backup\" is not known to the plugin bond: write balance-rr or active-backup or ",
        ),
        (
            "{\n  \"type\": \"bridge\",\n  \"bridge\": \"br-of-the-storage\"\n}",
            "stdin:9:17: spec.config.bridge: \"br-of-the-storage\" is not the name of an interface: write 1 to 15 characters",
        ),
        (
            "{\n  \"type\": \"bridge\",\n  \"vlan\": 4095\n}",
            "stdin:9:15: spec.config.vlan: 4095 is out of range: choose 0 to 4094",
        ),
        (
            "{\n  \"type\": \"bridge\",\n  \"vlan\": \"100\"\n}",
            "stdin:9:15: spec.config.vlan: must be a whole number, not \"100\": remove the quotes",
        ),
        (
            "{\"type\": \"vlan\", \"vlanId\": 21}",
            "stdin:7:5: spec.config.master: is missing: name the interface of the node that gets the VLAN, such as eth1",
        ),
        (
            "{\n  \"type\": \"macvlan\",\n  \"ipam\": {\n    \"type\": \"static\",\n    \"addresses\": [{\"address\": \"192.0.2.10\"}]\n  }\n}",
            "stdin:11:35: spec.config.ipam.addresses[0].address: \"192.0.2.10\" is not an address with the length of its prefix: write it like 192.0.2.10/24",
        ),
        (
            "{\n  \"type\": \"macvlan\",\n  \"ipam\": {\"type\": \"host-local\", \"subnet\": \"192.0.2.0/33\"}\n}",
            "stdin:9:48: spec.config.ipam.subnet: \"192.0.2.0/33\" is not a block of addresses: write it like 192.0.2.0/24",
        ),
        (
            "{\n  \"type\": \"macvlan\",\n  \"ipam\": {\n    \"type\": \"whereabouts\",\n    \"range\": \"172.18.0.50-172.18.0.100\"\n  }\n}",
            "stdin:11:18: spec.config.ipam.range: \"172.18.0.50-172.18.0.100\" is not a range: write it like 192.0.2.0/24 or 192.0.2.10-192.0.2.50/24",
        ),
    ] {
        let run = validate(&literal(config));
        assert_eq!(run.code, 1, "{config}\n{}{}", run.stdout, run.stderr);
        assert!(
            run.stdout.starts_with(expected) && run.stdout.lines().count() == 1,
            "{config}\n{expected}\n{}",
            run.stdout
        );
    }
}

#[test]
fn a_mistake_has_its_place_whatever_way_the_text_is_written() {
    for (spec, expected) in [
        (
            r#"{config: '{"type": "macvlan", "mode": "x"}'}"#,
            "stdin:4:45: spec.config.mode: ",
        ),
        (
            r#"{config: "{\"type\": \"macvlan\", \"mode\": \"x\"}"}"#,
            "stdin:4:51: spec.config.mode: ",
        ),
        (
            r#"{config: '{"type": "macvlan" "mode": "x"}'}"#,
            "stdin:4:36: spec.config: is not JSON: ",
        ),
        (
            "\n  config: type=macvlan",
            "stdin:5:12: spec.config: is not JSON: expected ident",
        ),
        (
            "\n  config:\n    type: macvlan",
            "stdin:6:5: spec.config: must be a string, not an object",
        ),
        (
            "\n  confg: '{}'",
            "stdin:5:3: spec.confg: unknown field \"confg\"; did you mean \"config\"?",
        ),
    ] {
        let run = validate(&plain("red", spec));
        assert_eq!(run.code, 1, "{spec}\n{}{}", run.stdout, run.stderr);
        assert!(
            run.stdout.starts_with(expected),
            "{expected}\n{}",
            run.stdout
        );
    }
    let json = serde_json::json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "red"}, "spec": {"config": "{\"type\": \"ipvlan\", \"mode\": \"x\"}"}
    });
    let run = validate(&json.to_string());
    assert!(
        run.stdout.contains(": spec.config.mode: ") && run.stdout.starts_with("stdin:1:"),
        "{}",
        run.stdout
    );
}

#[test]
fn an_object_that_multus_does_not_read_is_a_mistake() {
    for (text, expected) in [
        (
            plain("red", "{}").replace("/v1", "/v1beta1"),
            "stdin:1:13: apiVersion: \"k8s.cni.cncf.io/v1beta1\" is not served: write k8s.cni.cncf.io/v1\n",
        ),
        (
            plain("Red", "{}"),
            "stdin:3:18: metadata.name: \"Red\" must have lower-case letters",
        ),
        (
            plain("red", "{config: '{{ .Values.config }}'}"),
            "stdin:4:16: spec.config: this looks like a template",
        ),
        (
            plain("red", "{config: '', config: ''}"),
            "stdin:4:20: spec.config: is there twice",
        ),
    ] {
        let run = validate(&text);
        assert_eq!(run.code, 1, "{text}{}{}", run.stdout, run.stderr);
        assert!(
            run.stdout.starts_with(expected),
            "{expected}\n{}",
            run.stdout
        );
    }
}

#[test]
fn definitions_in_their_right_forms_are_valid_without_a_note() {
    let configs = [
        r#"{"cniVersion": "0.3.1", "type": "macvlan", "master": "enp7s0.21", "ipam": {"type": "whereabouts", "range": "172.18.0.0/24", "range_start": "172.18.0.50", "range_end": "172.18.0.100"}}"#,
        r#"{"cniVersion": "1.0.0", "name": "red", "plugins": [{"type": "cnv-bridge", "bridge": "br1", "vlan": 100, "macspoofchk": true}, {"type": "cnv-tuning"}]}"#,
        // OVN-Kubernetes, SR-IOV and Calico have plugins of their own.
        r#"{"cniVersion": "0.3.1", "name": "tenant", "netAttachDefName": "lab/tenant", "topology": "layer2", "type": "ovn-k8s-cni-overlay", "subnets": "10.100.200.0/24"}"#,
        r#"{"cniVersion": "0.3.1", "name": "sriov", "type": "sriov", "vlan": "trunk", "ipam": {}}"#,
        r#"{"cniVersion": "0.3.1", "type": "calico", "ipam": {"type": "calico-ipam"}}"#,
        r#"{"type": "macvlan", "ipam": {"type": "dhcp"}, "futureField": {"a": [1]}}"#,
    ];
    let mut text: Vec<_> = configs
        .iter()
        .enumerate()
        .map(|(number, config)| plain(&format!("n{number}"), &format!("{{config: '{config}'}}")))
        .collect();
    // The configuration is a file on the nodes.
    text.push(plain("file", "{}"));
    text.push(plain("file", "{config: ''}"));
    text.push(plain("file", "{}").replace("spec: {}\n", ""));
    let run = validate(&text.join("---\n"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(lines.len(), text.len(), "{}", run.stdout);
    assert_eq!(lines[0], "stdin: NetworkAttachmentDefinition lab/n0: valid");
}

#[test]
fn a_folder_of_definitions_is_judged_one_by_one_and_together() {
    let folder = tempfile::tempdir().unwrap();
    let whereabouts = |rest: &str| {
        format!(
            r#"{{config: '{{"type": "macvlan", "master": "eth1", "ipam": {{"type": "whereabouts", {rest}}}}}'}}"#
        )
    };
    for (file, name, spec) in [
        (
            "a.yaml",
            "red",
            whereabouts(r#""range": "192.0.2.0/24", "exclude": ["192.0.3.7"]"#),
        ),
        (
            "b.yaml",
            "blue",
            whereabouts(r#""range": "192.0.2.128/25", "enable_overlapping_ranges": false"#),
        ),
        (
            "c.yaml",
            "green",
            whereabouts(r#""range": "198.51.100.0/24", "exclude": ["198.51.100.7"], "node_slice_size": "/26", "network_name": "green""#),
        ),
        (
            "d.yaml",
            "long",
            r#"{config: '{"cniVersion": "1.2.0", "type": "macvlan", "master": "enp0s31f6-storage"}'}"#.to_owned(),
        ),
        (
            "e.yaml",
            "calico",
            r#"{config: '{"type": "calico", "ipam": {"type": "host-local", "subnet": "usePodCidr"}}'}"#.to_owned(),
        ),
    ] {
        fs::write(folder.path().join(file), plain(name, &spec)).unwrap();
    }
    let run = weft(folder.path(), &["validate", "-f", "."]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let valid = run.stdout.lines().filter(|line| line.ends_with(": valid"));
    assert_eq!(valid.count(), 5, "{}", run.stdout);
    let of = |file: &str, name: &str| {
        format!("note: ./{file}.yaml: NetworkAttachmentDefinition lab/{name}: spec.config.")
    };
    let expected = [
        of("a", "red")
            + "ipam.exclude[0]: 192.0.3.7 has no effect, because it is outside of the range 192.0.2.0/24: remove it, or correct one of them",
        of("c", "green")
            + "ipam.exclude: has no effect together with node_slice_size: whereabouts gives out these addresses, too. Choose a range without them, or remove node_slice_size",
        of("d", "long")
            + "cniVersion: \"1.2.0\" must be 0.1.0 or 0.2.0 or 0.3.0 or 0.3.1 or 0.4.0 or 1.0.0 or 1.1.0. Pods that ask for this network do not start, unless their plugins are newer than those that Weft knows",
        of("d", "long")
            + "master: \"enp0s31f6-storage\" has more than 15 characters, so only an alternative name of an interface can be meant: write the name that ip link shows first",
        of("e", "calico")
            + "ipam.subnet: \"usePodCidr\" is not a block of addresses: write it like 192.0.2.0/24",
        of("b", "blue")
            + "ipam.range: 192.0.2.129 to 192.0.2.254 are addresses of NetworkAttachmentDefinition lab/red, too, and whereabouts may give one to two pods, because enable_overlapping_ranges of this one is false: remove that, or choose ranges without common addresses",
    ];
    let notes: Vec<_> = run.stderr.lines().collect();
    assert_eq!(notes, expected);
}

#[test]
fn other_commands_skip_definitions_and_json_lists_them_as_others() {
    let text = plain("red", r#"{config: '{"type": ""}'}"#);
    let plan = weft_with_stdin(&root(), &["plan", "-f", "-"], &text);
    assert_eq!(
        (plan.code, plan.stdout.as_str()),
        (2, ""),
        "{}",
        plan.stderr
    );
    assert!(
        plan.stderr
            .contains("only NetworkAttachmentDefinition (k8s.cni.cncf.io/v1). Known kinds: "),
        "{}",
        plan.stderr
    );
    let run = weft_with_stdin(&root(), &["validate", "-o", "json", "-f", "-"], &text);
    let result: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        result,
        serde_json::json!({
            "findings": [{
                "file": "stdin", "line": 4, "column": 16, "field": "spec.config",
                "message": "a CNI configuration needs \"type\" or \"plugins\""
            }],
            "resources": [],
            "others": [{"file": "stdin", "resource": "NetworkAttachmentDefinition lab/red", "valid": false}],
            "notes": [],
        })
    );
    let unknown = validate("spec: {}\n");
    assert!(
        unknown
            .stdout
            .ends_with("; NetworkAttachmentDefinition (k8s.cni.cncf.io/v1)\n"),
        "{}",
        unknown.stdout
    );
}

/// The notice is the one that the operator writes into status.
#[test]
fn a_raw_configuration_that_a_plugin_refuses_is_a_note_of_its_entry() {
    let resource = |config: &str| {
        format!(
            "apiVersion: networkoperator.openshift.io/v1
kind: NetworkConfig
metadata: {{name: default}}
spec:
  clusterNetworks: [{{cidr: 10.128.0.0/14, hostSubnetLength: 9}}]
  serviceNetwork: 172.30.0.0/16
  defaultNetwork: {{type: OpenShiftSDN}}
  additionalNetworks:
  - {{type: Raw, name: a, rawCNIConfig: '{config}'}}
"
        )
    };
    let run = validate(&resource(
        r#"{"type": "ipvlan", "mode": "l4", "master": "enp0s31f6-storage"}"#,
    ));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let of = "note: stdin: NetworkConfig default: spec.additionalNetworks[0].rawCNIConfig: ";
    let notes: Vec<_> = run
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix(of))
        .collect();
    assert_eq!(
        notes,
        [
            "mode \"l4\" is not known to the plugin ipvlan: write l2 or l3 or l3s. Pods that ask for this network do not start",
            "master \"enp0s31f6-storage\" has more than 15 characters, so only an alternative name of an interface can be meant: write the name that ip link shows first",
        ]
    );
}
