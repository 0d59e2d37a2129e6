//! `weft validate`: good and bad files, and what is said about them.

use std::{fs, path::Path};

use super::common::{Run, root, weft, weft_with_stdin};

const HEAD: &str = "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: NetworkAddonsConfig\nmetadata:\n  name: cluster\n";

/// Validates a specification, each line of it indented already.
fn validate(spec: &str) -> Run {
    weft_with_stdin(
        Path::new("."),
        &["validate", "-f", "-"],
        &format!("{HEAD}spec:\n{spec}"),
    )
}

#[test]
fn a_valid_file_is_reported_as_valid() {
    for spec in [
        "  multus: {}\n  linuxBridge: {}\n  kubeMacPool: {}\n  ovs: {}\n  imagePullPolicy: Always\n",
        "  kubeMacPool:\n    rangeStart: 02:00:00:00:00:00\n    rangeEnd: 02:00:00:ff:ff:ff\n",
        "  selfSignConfiguration: {caRotateInterval: 48h, caOverlapInterval: 24h, certRotateInterval: 24h, certOverlapInterval: 12h}\n",
        "  placementConfiguration:\n    workloads:\n      nodeSelector: {kubernetes.io/os: linux}\n      tolerations: [{key: a, operator: Exists}]\n",
        "  tlsSecurityProfile:\n    type: Custom\n    custom: {minTLSVersion: VersionTLS12, ciphers: [ECDHE-RSA-AES128-GCM-SHA256]}\n",
        "  {}\n",
    ] {
        let run = validate(spec);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (0, "stdin: NetworkAddonsConfig cluster: valid\n"),
            "{spec}{}",
            run.stderr
        );
    }
}

#[test]
fn v1alpha1_is_checked_as_well() {
    let old = HEAD.replace("/v1\n", "/v1alpha1\n");
    let run = weft_with_stdin(
        Path::new("."),
        &["validate", "-f", "-"],
        &format!("{old}spec:\n  mutlus: {{}}\n"),
    );
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "stdin:6:3: spec.mutlus: unknown field \"mutlus\"; did you mean \"multus\"?\n"
        )
    );
}

#[test]
fn slips_are_found_where_they_are() {
    for (spec, line) in [
        (
            "  mutlus: {}\n",
            "stdin:6:3: spec.mutlus: unknown field \"mutlus\"; did you mean \"multus\"?",
        ),
        (
            "  multus: {}\n  linux-bridge: {}\n",
            "stdin:7:3: spec.linux-bridge: unknown field \"linux-bridge\"; did you mean \"linuxBridge\"?",
        ),
        (
            "  kubemacpool: {}\n",
            "stdin:6:3: spec.kubemacpool: unknown field \"kubemacpool\"; did you mean \"kubeMacPool\"?",
        ),
        (
            "  OVS: {}\n",
            "stdin:6:3: spec.OVS: unknown field \"OVS\"; did you mean \"ovs\"?",
        ),
        (
            "  imagePolicy: Always\n",
            "stdin:6:3: spec.imagePolicy: unknown field \"imagePolicy\"; did you mean \"imagePullPolicy\"?",
        ),
        (
            "  kubeMacPool: {rangeBegin: a}\n",
            "stdin:6:17: spec.kubeMacPool.rangeBegin: unknown field \"rangeBegin\": known here are rangeEnd, rangeStart",
        ),
        (
            "  placementConfiguration:\n    workload: {}\n",
            "stdin:7:5: spec.placementConfiguration.workload: unknown field \"workload\"; did you mean \"workloads\"?",
        ),
        (
            "  placementConfiguration:\n    infra:\n      tolerations:\n      - efect: NoSchedule\n        operator: Exists\n",
            "stdin:9:9: spec.placementConfiguration.infra.tolerations[0].efect: unknown field \"efect\"; did you mean \"effect\"?",
        ),
        (
            "  imagePullPolicy: always\n",
            "stdin:6:20: spec.imagePullPolicy: \"always\" is not allowed, only \"Always\", \"IfNotPresent\", \"Never\"; did you mean \"Always\"?",
        ),
        (
            "  placementConfiguration: {infra: {nodeSelector: {a: 1}}}\n",
            "stdin:6:54: spec.placementConfiguration.infra.nodeSelector.a: must be a string, not the number 1: put it in quotes",
        ),
        (
            "  multus: true\n",
            "stdin:6:11: spec.multus: must be an object, not true",
        ),
        (
            "  multus:\n",
            "stdin:6:3: spec.multus: has no value, so the API server would drop it silently: write {} after it to have it with its defaults, or remove it",
        ),
    ] {
        let run = validate(spec);
        assert_eq!(
            (run.code, run.stdout.trim_end()),
            (1, line),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn slips_in_a_network_config_are_found_too() {
    let yaml = "apiVersion: networkoperator.openshift.io/v1
kind: NetworkConfig
metadata: {name: default}
spec:
  serviceNetwork: 172.30.0.0/16
  clusterNetworks: [{CIDR: 10.128.0.0/14, hostSubnetLenght: 9}]
  defaultNetwork: {type: OpenShiftSDN, openshiftSdnConfig: {MTU: 1450}}
";
    let run = weft_with_stdin(&root(), &["validate", "-f", "-"], yaml);
    assert_eq!(run.code, 1);
    for expected in [
        "spec.clusterNetworks[0].CIDR: unknown field \"CIDR\"; did you mean \"cidr\"?",
        "spec.clusterNetworks[0].hostSubnetLenght: unknown field \"hostSubnetLenght\"; did you mean \"hostSubnetLength\"?",
        "spec.defaultNetwork.openshiftSdnConfig: unknown field \"openshiftSdnConfig\"; did you mean \"openshiftSDNConfig\"?",
    ] {
        assert!(run.stdout.contains(expected), "{expected}\n{}", run.stdout);
    }
}

#[test]
fn one_mistake_in_a_network_config_is_told_once() {
    let head = "apiVersion: networkoperator.openshift.io/v1\nkind: NetworkConfig\nmetadata: {name: default}\nspec:\n";
    let blocks = "[{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}]";
    for (spec, expected) in [
        (
            "defaultNetwork: {type: Flannel}".to_owned(),
            "stdin:5:3: spec.clusterNetworks: is missing: give at least one block",
        ),
        (
            "clusterNetworks: []\n  defaultNetwork: {type: Flannel}".to_owned(),
            "stdin:6:20: spec.clusterNetworks: is missing: give",
        ),
        (
            "clusterNetwork: []\n  defaultNetwork: {type: Flannel}".to_owned(),
            "stdin:5:3: spec.clusterNetworks: is missing: give",
        ),
        (
            format!("clusterNetworks: {blocks}\n  defaultNetwork: {{type: Flannel}}"),
            "stdin:6:20: spec.clusterNetworks: 2 blocks of IPv4",
        ),
        (
            format!("clusterNetwork: {blocks}\n  defaultNetwork: {{type: Flannel}}"),
            "stdin:6:19: spec.clusterNetwork: 2 blocks of IPv4",
        ),
        (
            "clusterNetworks: [{cidr: 10.0.0.0/16}]".to_owned(),
            "stdin:5:3: spec.defaultNetwork: is missing",
        ),
        (
            "clusterNetworks: [{cidr: 10.0.0.0/16}]\n  defaultNetwork: {type: OpenShiftSDN}"
                .to_owned(),
            "stdin:6:21: spec.clusterNetworks[0].hostSubnetLength: is missing",
        ),
        (
            "clusterNetwork: [{cidr: 10.0.0.0/16}]\n  defaultNetwork: {type: OpenShiftSDN}"
                .to_owned(),
            "stdin:6:20: spec.clusterNetwork[0].hostSubnetLength: is missing",
        ),
    ] {
        let run = weft_with_stdin(
            &root(),
            &["validate", "-f", "-"],
            &format!("{head}  serviceNetwork: 172.30.0.0/16\n  {spec}\n"),
        );
        assert_eq!(
            (run.code, run.stdout.lines().count()),
            (1, 1),
            "{spec}\n{}",
            run.stdout
        );
        assert!(
            run.stdout.starts_with(expected),
            "{expected}\n{}",
            run.stdout
        );
    }
}

#[test]
fn mistakes_that_only_rules_or_the_operator_know_are_found() {
    for (spec, field) in [
        (
            "  kubeMacPool: {rangeStart: '02:00:00:00:00:00'}\n",
            "spec.kubeMacPool",
        ),
        (
            "  kubeMacPool: {rangeStart: '02:00:00:00:00:02', rangeEnd: '02:00:00:00:00:01'}\n",
            "spec.kubeMacPool",
        ),
        (
            "  kubeMacPool: {rangeStart: '03:00:00:00:00:00', rangeEnd: '04:00:00:00:00:01'}\n",
            "spec.kubeMacPool",
        ),
        (
            "  selfSignConfiguration: {caRotateInterval: 48h}\n",
            "spec.selfSignConfiguration",
        ),
        (
            "  kubeSecondaryDNS: {nameServerIP: 1.2.3}\n",
            "spec.kubeSecondaryDNS",
        ),
        (
            "  kubeSecondaryDNS: {domain: 'a b'}\n",
            "spec.kubeSecondaryDNS",
        ),
    ] {
        let run = validate(spec);
        assert_eq!(run.code, 1, "{spec}{}", run.stdout);
        assert_eq!(
            run.stdout.lines().count(),
            1,
            "one mistake is told once: {}",
            run.stdout
        );
        assert!(
            run.stdout.starts_with("stdin:6:") && run.stdout.contains(&format!(": {field}")),
            "{}",
            run.stdout
        );
    }
    let run = weft_with_stdin(
        Path::new("."),
        &["validate", "-f", "-"],
        &HEAD.replace("cluster", "other"),
    );
    assert_eq!((run.code, run.stdout.lines().count()), (1, 1));
    assert!(
        run.stdout.starts_with("stdin:4:9: metadata.name: "),
        "{}",
        run.stdout
    );
}

#[test]
fn everything_is_told_at_once_in_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let bad = format!(
        "{}spec:\n  mutlus: {{}}\n  kubeMacPool:\n    rangeStart: 02:00:00:00:00:00\n  imagePullPolicy: 5\n",
        HEAD.replace("cluster", "other")
    );
    fs::write(folder.path().join("b.yaml"), &bad).unwrap();
    fs::write(
        folder.path().join("a.yml"),
        format!("{HEAD}---\n{HEAD}spec: []\n"),
    )
    .unwrap();
    fs::write(folder.path().join("c.txt"), "not looked at: [").unwrap();
    let run = weft(folder.path(), &["validate", "-f", "."]);
    let places: Vec<_> = run
        .stdout
        .lines()
        .map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(": "))
        .collect();
    assert_eq!(
        places,
        [
            "./a.yml:10:7: spec",
            "./b.yaml:4:9: metadata.name",
            "./b.yaml:6:3: spec.mutlus",
            "./b.yaml:8:5: spec.kubeMacPool",
            "./b.yaml:9:20: spec.imagePullPolicy",
            "./a.yml: NetworkAddonsConfig cluster"
        ],
        "{}",
        run.stdout
    );
    assert_eq!(run.code, 1);
}

#[test]
fn the_same_as_json() {
    let run = weft_with_stdin(
        Path::new("."),
        &["validate", "-o", "json", "-f", "-"],
        &format!("{HEAD}spec: {{mutlus: {{}}}}\n---\n{HEAD}"),
    );
    let result: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        result,
        serde_json::json!({
            "findings": [
                {
                    "file": "stdin", "line": 5, "column": 8, "field": "spec.mutlus",
                    "message": "unknown field \"mutlus\"; did you mean \"multus\"?"
                }
            ],
            "resources": [
                {"file": "stdin", "resource": "NetworkAddonsConfig cluster", "valid": false},
                {"file": "stdin", "resource": "NetworkAddonsConfig cluster", "valid": true}
            ],
            "others": [],
            "notes": [],
        })
    );
    assert_eq!(run.code, 1);
}

#[test]
fn a_text_that_is_no_yaml_is_shown_with_its_line() {
    let run = validate("  multus: {}\n  ovs: [\n");
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "stdin:7:8: not readable as YAML: unclosed bracket '[': ',' or ']' is missing before or in line 8\n  7 |   ovs: [\n    |        ^\n"
        )
    );
    let run = validate("\tmultus: {}\n");
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "stdin:6:1: not readable as YAML: a tab indents this line, and YAML allows only spaces there: replace each tab at the start of a line with 2 spaces\n  6 | \tmultus: {}\n    | ^\n"
        )
    );
    let run = validate("  ovs: {}\n  multus: {}\n  ovs: {}\n");
    assert_eq!(
        run.stdout,
        "stdin:8:3: spec.ovs: is there twice, first in line 6, and kubectl takes the last one without a message: remove one of them\n"
    );
}

/// `kubectl` reads a foreign object with a key twice, so it hides no mistake in Weft's own.
#[test]
fn a_key_that_is_there_twice_matters_in_weft_objects_alone() {
    let foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: b}\n---\n";
    let own = "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {name: a}\nspec:\n  desiredState:\n    interfaces:\n    - {name: eth1, mtu: 1, mtu: 1500}\n";
    let validate = |text: &str| weft_with_stdin(&root(), &["validate", "-f", "-"], text);
    let run = validate(&format!("{foreign}{own}"));
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "stdin:11:28: spec.desiredState.interfaces[0].mtu: is there twice, first in line 11, and kubectl takes the last one without a message: remove one of them\n"
        ),
        "{}",
        run.stderr
    );
    let run = validate(&format!("{foreign}{}", own.replace("mtu: 1, ", "")));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let note = "note: stdin: ConfigMap b (v1) is skipped: not a kind that Weft serves\n";
    assert_eq!(run.stderr, note);
}

#[test]
fn kinds_of_one_name_and_two_groups_have_two_notes() {
    let network = |group: &str| {
        format!(
            "apiVersion: {group}.openshift.io/v1\nkind: Network\nmetadata: {{name: cluster}}\n---\n"
        )
    };
    let text = format!("{}{}", network("config"), network("operator"));
    let run = weft_with_stdin(&root(), &["validate", "-f", "-"], &text);
    for group in ["config", "operator"] {
        let note = format!(
            "note: stdin: Network cluster ({group}.openshift.io/v1) is skipped: not a kind that Weft serves\n"
        );
        assert!(run.stderr.contains(&note), "{}", run.stderr);
    }
}

#[test]
fn kinds_are_told_apart() {
    for (head, code, said) in [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            0,
            "note: stdin: ConfigMap a (v1) is skipped: not a kind that Weft serves",
        ),
        (
            "apiVersion: networkaddonsoperator.network.kubevirt.io/v2\nkind: NetworkAddonsConfig\n",
            1,
            "the version \"v2\" of NetworkAddonsConfig is not served: write networkaddonsoperator.network.kubevirt.io/v1 or",
        ),
        (
            "apiVersion: v1\nkind: NetworkAddonsConfig\n",
            1,
            "NetworkAddonsConfig does not belong to the group \"\"",
        ),
        (
            "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: Addons\n",
            1,
            "has no kind \"Addons\": write \"NetworkAddonsConfig\"",
        ),
        (
            "apiVersion: networkaddonoperator.network.kubevirt.io/v1\nkind: NetworkAddonConfig\n",
            1,
            "unknown kind \"NetworkAddonConfig\"; did you mean \"NetworkAddonsConfig\"",
        ),
        (
            "apiVersion: networkoperator.openshift.org/v1\nkind: NetworkConfg\n",
            1,
            "unknown kind \"NetworkConfg\"; did you mean \"NetworkConfig\", apiVersion networkoperator.openshift.io/v1?",
        ),
        (
            "apiVersion: network.openstack.org/v1beta1\nkind: NetConfig\nmetadata: {name: a}\n",
            0,
            "note: stdin: NetConfig a (network.openstack.org/v1beta1) is skipped: not a kind that Weft serves",
        ),
        (
            "apiVersion: example.com/v1\nkind: NetworkConfig\nmetadata: {name: a}\n",
            0,
            "note: stdin: NetworkConfig a (example.com/v1) is skipped: not a kind that Weft serves",
        ),
        (
            "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: a}\n",
            0,
            "note: stdin: Placement a (cluster.open-cluster-management.io/v1beta1) is skipped: not a kind that Weft serves",
        ),
        (
            "desiredState: {interfaces: []}\n",
            1,
            "put it below \"spec\" of a NodeNetworkConfigurationPolicy",
        ),
        (
            "interfaces: [{name: eth1, type: ethernet}]\n",
            1,
            "is a state in the form of nmstate, and no Kubernetes object: put it below \"spec.desiredState\"",
        ),
        (
            "hostname: {config: node-1}\n",
            1,
            "put it below \"spec.desiredState\"",
        ),
        ("description: a text\n", 1, "is not a Kubernetes object"),
        (
            "kind: NodeNetworkConfigurationPolicy\nmetadata: {name: a}\n",
            1,
            "the field \"apiVersion\" is missing: write nmstate.io/v1",
        ),
        (
            "kind: Policy\nmetadata: {name: a}\n",
            1,
            "the field \"apiVersion\" is missing for kind \"Policy\"",
        ),
        (
            "spec: {}\n",
            1,
            "Known kinds: NetworkAddonsConfig (networkaddonsoperator.network.kubevirt.io/v1 or networkaddonsoperator.network.kubevirt.io/v1alpha1)",
        ),
        ("just text\n", 1, "is not a Kubernetes object"),
    ] {
        let run = weft_with_stdin(
            Path::new("."),
            &["validate", "-f", "-"],
            &format!("{head}---\n{HEAD}"),
        );
        assert_eq!(run.code, code, "{head}{}{}", run.stdout, run.stderr);
        assert!(
            format!("{}{}", run.stdout, run.stderr).contains(said),
            "{head}{}{}",
            run.stdout,
            run.stderr
        );
    }
}

const POLICY: &str =
    "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata:\n  name: a\n";

#[test]
fn foreign_objects_get_one_note_for_each_kind_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n";
    fs::write(
        folder.path().join("1.yaml"),
        format!("{pod}{pod}{HEAD}spec: {{}}\n"),
    )
    .unwrap();
    fs::write(folder.path().join("2.yaml"), pod).unwrap();
    let run = weft(folder.path(), &["validate", "-f", "."]);
    assert_eq!(
        (run.code, run.stderr.matches("skipped").count()),
        (0, 1),
        "{}{}",
        run.stdout,
        run.stderr
    );
    let note = "note: .: 3 objects of kind Pod (v1) are skipped: not a kind that Weft serves\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let twice = weft_with_stdin(&root(), &["validate", "-f", "-"], "a: 1\n---\nb: 2\n");
    assert_eq!(
        (twice.code, twice.stdout.matches("Known kinds").count()),
        (1, 1),
        "{}",
        twice.stdout
    );
}

#[test]
fn status_and_what_the_api_server_sets_are_not_the_users() {
    let dump = "apiVersion: v1
kind: List
metadata: {resourceVersion: '', selfLink: ''}
items:
- apiVersion: nmstate.io/v1beta1
  kind: NodeNetworkConfigurationPolicy
  metadata:
    name: a
    clusterName: ''
    creationTimestamp: '2021-11-08T13:23:08Z'
    generation: 1
    initializers: null
    managedFields: [{manager: kubectl, operation: Update, fieldsType: FieldsV1, fieldsV1: {'f:spec': {}}}]
    resourceVersion: '1'
    selfLink: /apis/nmstate.io/v1beta1/nodenetworkconfigurationpolicies/a
    uid: 893f9f6e-c447-44b8-821d-73217341c6d6
  spec: {desiredState: {interfaces: []}}
  status: {conditions: [{type: Available, status: 'True', lastHearbeatTime: '2021-11-08T13:23:34Z'}]}
- apiVersion: nmstate.io/v1beta1
  kind: NodeNetworkConfigurationEnactment
  metadata: {name: node-1.a}
  status: {conditions: [{type: Failing, status: 'True', messageEncoded: H4sI}], formerField: [1]}
";
    let run = weft_with_stdin(&root(), &["validate", "-f", "-"], dump);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout.matches(": valid").count(), 2, "{}", run.stdout);
}

#[test]
fn yaml_and_json_are_read_as_kubectl_reads_them() {
    let validate = |text: &str| weft_with_stdin(&root(), &["validate", "-f", "-"], text);
    let run = validate(&format!(
        "{POLICY}spec:\n  desiredState:\n    interfaces:\n    - {{name: eth1.1, type: vlan, state: up, mtu: 1500.0, vlan: {{base-iface: eth1, id: 0100}}}}\n"
    ));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(
        run.stderr.contains(
            "note: stdin:8:87: spec.desiredState.interfaces[0].vlan.id: 0100 begins with a zero, so kubectl reads it as an octal number and sends 64"
        ),
        "{}",
        run.stderr
    );

    let json = "{\"apiVersion\":\"nmstate.io/v1\",\"kind\":\"NMState\",\"metadata\":{\"name\":\"nmstate\"}}\n";
    let policy = "{\"apiVersion\":\"nmstate.io/v1\",\"kind\":\"NodeNetworkConfigurationPolicy\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"desiredState\":{\"interfaces\":[]}}}\n";
    let both = validate(&format!("{json}{policy}"));
    assert_eq!(
        (both.code, both.stdout.matches(": valid").count()),
        (0, 2),
        "{}{}",
        both.stdout,
        both.stderr
    );

    let commented = validate(&format!("# a comment\n{json}{policy}"));
    let note = "note: stdin:3:1: kubectl reads only the first of these JSON objects, since a comment stands before them: remove the comment, or put --- on a line of its own before each object\n";
    assert_eq!((commented.code, &commented.stdout), (0, &both.stdout));
    assert!(commented.stderr.contains(note), "{}", commented.stderr);
    assert!(!both.stderr.contains("kubectl reads"), "{}", both.stderr);

    let folder = tempfile::tempdir().unwrap();
    let text = "\u{feff}apiVersion: nmstate.io/v1\nkind: NMState\nmetadata: {name: nmstate}\n";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(folder.path().join("a.yaml"), bytes).unwrap();
    let utf16 = weft(folder.path(), &["validate", "-f", "a.yaml"]);
    assert_eq!(
        utf16.stdout, "a.yaml: NMState nmstate: valid\n",
        "{}",
        utf16.stderr
    );
}

#[test]
fn a_template_must_be_rendered_first() {
    for (spec, place) in [
        ("spec: {{ .Values.spec }}\n", "stdin:5:7: "),
        (
            "spec:\n  desiredState:\n    interfaces:\n    - name: \"{{ .Values.name }}\"\n      type: ethernet\n",
            "stdin:8:13: spec.desiredState.interfaces[0].name: ",
        ),
    ] {
        let run = weft_with_stdin(
            &root(),
            &["validate", "-f", "-"],
            &format!("{POLICY}{spec}"),
        );
        assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
        assert!(
            run.stdout.starts_with(place) && run.stdout.contains("render it first"),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn a_mistake_in_embedded_json_has_its_place_in_the_file() {
    let head = "apiVersion: networkoperator.openshift.io/v1
kind: NetworkConfig
metadata: {name: default}
spec:
  clusterNetworks: [{cidr: 10.128.0.0/14, hostSubnetLength: 9}]
  serviceNetwork: 172.30.0.0/16
  defaultNetwork: {type: Flannel, flannelConfig: {mtu: 1450}}
  additionalNetworks:
  - name: a
    type: Raw
    rawCNIConfig: ";
    let config =
        "|\n      {\n        \"cniVersion\": \"0.3.1\",\n        \"type\": \"bridge\",\n      }\n";
    let run = weft_with_stdin(
        &root(),
        &["validate", "-f", "-"],
        &format!("{head}{config}"),
    );
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            1,
            "stdin:14:25: spec.additionalNetworks[0].rawCNIConfig: is not JSON: trailing comma\n"
        ),
        "{}",
        run.stderr
    );
    let quoted = "'{\n      \"cniVersion\": \"0.3.1\",\n      \"type\": \"bridge\"\n    }'\n";
    let run = weft_with_stdin(
        &root(),
        &["validate", "-f", "-"],
        &format!("{head}{quoted}"),
    );
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

/// The names of two kinds are so alike that one looks like a slip of the other.
#[test]
fn each_example_is_valid() {
    let examples = root().join("examples");
    let run = weft(&examples, &["validate", "-f", "."]);
    let count = fs::read_dir(&examples)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().is_file())
        .count();
    let valid: Vec<_> = run
        .stdout
        .lines()
        .filter(|line| line.ends_with(": valid"))
        .collect();
    assert_eq!(
        (run.code, valid.len()),
        (0, count),
        "{}{}",
        run.stdout,
        run.stderr
    );
}

#[test]
fn nothing_to_check_is_an_error_that_names_the_way_out() {
    for (arguments, said) in [
        (
            ["validate", "-f", "nowhere.yaml"],
            "error: cannot read nowhere.yaml: No such file or directory",
        ),
        (
            ["validate", "-f", "."],
            "error: the folder . holds no .yaml, .yml or .json file",
        ),
        (
            ["validate", "-f", "-"],
            "error: stdin: there is nothing in it that Weft could check. Known kinds: NetworkAddonsConfig",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = weft(folder.path(), &arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        assert!(
            run.stderr.starts_with(said) && run.stderr.lines().count() == 1,
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_file_without_any_object_of_weft_is_valid_and_a_note_says_so() {
    for (text, only) in [
        (
            "apiVersion: template.openshift.io/v1\nkind: Template\nobjects: []\n",
            "only Template (template.openshift.io/v1). Known kinds: ",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: []\n",
            "only an empty List. Known kinds: ",
        ),
    ] {
        let run = weft_with_stdin(&root(), &["validate", "-f", "-"], text);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
        let note = format!(
            "note: nothing is checked: stdin: there is nothing in it that Weft could check, {only}"
        );
        assert!(run.stderr.contains(&note), "{}", run.stderr);
        let run = weft_with_stdin(&root(), &["validate", "-o", "json", "-f", "-"], text);
        assert!(
            run.stdout.contains("nothing is checked: stdin"),
            "{}",
            run.stdout
        );
        // The other commands have nothing to do with such a file.
        let run = weft_with_stdin(&root(), &["plan", "-f", "-"], text);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        assert!(run.stderr.contains(only), "{}", run.stderr);
    }
}

/// All examples in the tree are valid.
#[test]
fn examples_are_valid() {
    let mut checked = 0;
    for folder in [
        "examples",
        "examples/node-network",
        "deploy/addons",
        "deploy/cluster-network",
        "deploy/node-network",
    ] {
        for entry in fs::read_dir(root().join(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let ours = path
                .extension()
                .is_some_and(|extension| extension == "yaml")
                && [
                    "kind: NetworkAddonsConfig\n",
                    "kind: NetworkConfig\n",
                    "kind: NMState\n",
                    "kind: NodeNetworkConfigurationPolicy\n",
                ]
                .iter()
                .any(|kind| fs::read_to_string(&path).unwrap().contains(kind));
            if ours {
                let run = weft(&root(), &["validate", "-f", path.to_str().unwrap()]);
                assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
}

/// The table of all cases is that of the definitions: `crates/api/src/tests/scheduling`.
#[test]
fn placement_that_no_pod_could_have_is_refused_with_rule_and_fix() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let run = validate(&format!(
        "  placementConfiguration:
    workloads:
      affinity:
        nodeAffinity: {{{required}: {{nodeSelectorTerms: []}}}}
      tolerations:
      - {{key: a, operator: Exits}}
      - {{key: a b, operator: Exists}}
      - {{operator: Equal, value: b}}
    infra:
      nodeSelector: {{role: control plane}}
      affinity:
        nodeAffinity: {{{required}: {{nodeSelectorTerms: [{{matchExpressions: [{{key: a, operator: In}}, {{key: b/, operator: Gt, values: [x]}}]}}]}}}}
"
    ));
    let said: Vec<_> = run
        .stdout
        .lines()
        .map(|line| line.split_once(": spec.placementConfiguration.").unwrap().1)
        .collect();
    let label = "letters, digits, '-', '_' and '.', a letter or digit at both ends";
    let expressions =
        format!("infra.affinity.nodeAffinity.{required}.nodeSelectorTerms[0].matchExpressions");
    let mut wanted = [
        format!("workloads.affinity.nodeAffinity.{required}.nodeSelectorTerms: must have a term: add one with matchExpressions, or remove {required}"),
        "workloads.tolerations[0].operator: \"Exits\" is not allowed, only \"Equal\", \"Exists\", \"Lt\", \"Gt\"; did you mean \"Exists\"?".to_owned(),
        format!("workloads.tolerations[1].key: \"a b\" must be the key of a label: up to 63 {label}, with or without a DNS name and '/' before it"),
        "workloads.tolerations[2].operator: \"Equal\" must be Exists where key is empty, which tolerates all taints: set it to Exists, or set key".to_owned(),
        format!("infra.nodeSelector[role]: \"control plane\" must be the value of a label: at most 63 {label}"),
        format!("{expressions}[0].values: [] with In: In and NotIn need values, Exists and DoesNotExist have none"),
        format!("{expressions}[1].key: \"b/\" must be the key of a label: up to 63 {label}, with or without a DNS name and '/' before it"),
        format!("{expressions}[1].values: [\"x\"]: Gt and Lt need one value, a whole number, for example ['4']"),
    ];
    let mut said_sorted = said.clone();
    said_sorted.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(said_sorted, wanted, "{}", run.stdout);
    assert_eq!(run.code, 1);
}

/// Reports whether a terminal could show this: nothing but text, lines and tabs.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| {
        matches!(c, '\n' | '\t')
            || !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

#[test]
fn control_characters_in_a_file_never_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    // In YAML's own escapes: the values have the control characters themselves.
    let spec = r#"
  "mul\x1b[2Jtus\a\nx": {}
  "\u009b31m": {}
  imagePullPolicy: "\x1b]0;title\a\u202E"
"#;
    let name = "a\x1b[31m\x07.yaml";
    fs::write(folder.path().join(name), format!("{HEAD}spec:{spec}")).unwrap();
    let run = weft(folder.path(), &["validate", "-f", name]);
    assert_eq!(run.code, 1);
    assert!(is_plain(&run.stdout) && is_plain(&run.stderr), "{run:?}");
    assert!(
        run.stdout
            .contains("a^[[31m^G.yaml:6:3: spec.mul^[[2Jtus^G\\nx: unknown field"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("spec.\\u009b31m: "), "{}", run.stdout);
    assert_eq!(
        run.stdout.lines().count(),
        3,
        "a line break in a name begins no line: {}",
        run.stdout
    );

    let json = weft(folder.path(), &["validate", "-f", name, "-o", "json"]);
    assert!(is_plain(&json.stdout), "{}", json.stdout);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let fields: Vec<_> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.mul\x1b[2Jtus\x07\nx",
            "spec.\u{9b}31m",
            "spec.imagePullPolicy"
        ],
        "JSON has the data as they are"
    );

    let broken = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], "a: [\x1b[2J\n");
    assert!(
        broken.code == 1 && is_plain(&broken.stdout) && broken.stdout.contains("1 | a: [^[[2J\n"),
        "{broken:?}"
    );
    let other = format!(
        "{HEAD}---\napiVersion: v1\nkind: \"Sec\\x1b[2Jret\"\nmetadata: {{name: \"a\\ab\"}}\n"
    );
    let skipped = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &other);
    assert!(
        skipped.code == 0
            && is_plain(&skipped.stderr)
            && skipped.stderr.contains("Sec^[[2Jret a^Gb (v1) is skipped"),
        "{skipped:?}"
    );
}

#[test]
fn control_characters_of_the_command_line_are_shown_escaped() {
    for arguments in [
        &["validate", "-f", "missing\x1b[2J.yaml"][..],
        &["validate", "--no\x1b[2J\x07"],
        &["status", "--timeout", "1\x1b[2J", "--wait"],
        &[
            "status",
            "--context",
            "no\x1b[2J",
            "--kubeconfig",
            "/no/\x1b[2J",
        ],
        &["plan", "-o", "x\x07"],
    ] {
        let run = weft(Path::new("."), arguments);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(is_plain(&run.stdout) && is_plain(&run.stderr), "{run:?}");
        assert!(run.stderr.starts_with("error: "), "{run:?}");
    }
}

#[test]
fn a_cni_configuration_that_no_pod_can_use_is_valid_with_a_note() {
    let resource = r#"apiVersion: networkoperator.openshift.io/v1
kind: NetworkConfig
metadata: {name: default}
spec:
  clusterNetworks: [{cidr: 10.128.0.0/14, hostSubnetLength: 9}]
  serviceNetwork: 172.30.0.0/16
  defaultNetwork: {type: OpenShiftSDN}
  additionalNetworks:
  - {type: Raw, name: a, rawCNIConfig: '{"type": "ipvlan", "cniVersion": "1.0"}'}
"#;
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], resource);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let note = "note: stdin: NetworkConfig default: spec.additionalNetworks[0].rawCNIConfig: cniVersion \"1.0\" must be ";
    assert!(run.stderr.contains(note), "{}", run.stderr);
}

#[test]
fn a_port_that_only_another_program_can_make_is_valid_with_a_note() {
    let bridge = |rest: &str| {
        format!(
            "{POLICY}spec:\n  desiredState:\n    interfaces:\n    - {{name: br-ex, type: ovs-bridge, state: up, bridge: {{{rest}port: [{{name: eth1}}, {{name: patch-localnet-to-br-int}}]}}}}\n"
        )
    };
    let validate = |text: &str| weft_with_stdin(&root(), &["validate", "-f", "-"], text);
    let run = validate(&bridge(""));
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (
            0,
            "note: stdin: NodeNetworkConfigurationPolicy a: spec.desiredState.interfaces[0].bridge.port[1]: \"patch-localnet-to-br-int\" has more than 15 characters, so NetworkManager cannot make it, and a host on which no other program has made this port refuses the state: give the port a shorter name, or, if another program makes it, leave it out and write allow-extra-patch-ports: true\n"
        ),
        "{}",
        run.stdout
    );
    let open = validate(&bridge("allow-extra-patch-ports: true, "));
    assert_eq!(
        (open.code, open.stderr.as_str()),
        (0, ""),
        "{}",
        open.stdout
    );
}

#[test]
fn a_wrong_additional_network_is_found_as_the_operator_finds_it() {
    let resource = r#"apiVersion: networkoperator.openshift.io/v1
kind: NetworkConfig
metadata: {name: default}
spec:
  clusterNetworks: [{cidr: 10.128.0.0/14, hostSubnetLength: 9}]
  serviceNetwork: 172.30.0.0/16
  defaultNetwork: {type: OpenShiftSDN}
  additionalNetworks:
  - {type: Raw, name: a, rawCNIConfig: "[1]"}
  - {type: Raw, name: b, rawCNIConfig: "{}"}
  - {type: Raw, name: b, rawCNIConfig: "{}"}
"#;
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], resource);
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(
        (run.code, lines.len()),
        (1, 2),
        "{}{}",
        run.stdout,
        run.stderr
    );
    assert!(
        lines[0].contains(r#"spec.additionalNetworks[0].rawCNIConfig: must be a JSON object"#),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains(r#"spec.additionalNetworks[2].name: "b" is the name of another one in namespace default"#), "{}", lines[1]);
}
