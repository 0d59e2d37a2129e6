//! Wrong inputs of all four APIs, and the output that a user reads: field, value, rule, fix, and the
//! exit code.

use std::{fmt::Write, path::Path};

use super::common::weft_with_stdin;

const ADDONS: &str = "apiVersion: networkaddonsoperator.network.kubevirt.io/v1
kind: NetworkAddonsConfig
metadata: {name: cluster}
";
const NETWORK: &str = "apiVersion: networkoperator.openshift.io/v1
kind: NetworkConfig
metadata: {name: default}
";
const POLICY: &str = "apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: bond}
";
const PLACEMENT: &str = "apiVersion: placement.openstack.org/v1beta1
kind: PlacementAPI
metadata: {name: placement, namespace: openstack}
";

const VALIDATE: &[&str] = &["validate", "-f", "-"];

/// A title, the arguments, and the text on stdin.
type Input = (&'static str, &'static [&'static str], String);

fn inputs() -> Vec<Input> {
    let addons = |spec: &str| format!("{ADDONS}spec: {spec}\n");
    let network = |spec: &str| format!("{NETWORK}spec: {spec}\n");
    let policy = |spec: &str| format!("{POLICY}spec: {spec}\n");
    let placement = |spec: &str| format!("{PLACEMENT}spec: {spec}\n");
    vec![
        (
            "a mistyped kind",
            VALIDATE,
            ADDONS.replace("AddonsConfig", "AddonConfig"),
        ),
        (
            "a mistyped kind of another group",
            VALIDATE,
            "apiVersion: nmstate.ioo/v1\nkind: NodeNetworkConfigurationPolcy\nmetadata: {name: a}\n"
                .to_owned(),
        ),
        (
            "a version that is not served",
            VALIDATE,
            POLICY.replace("nmstate.io/v1", "nmstate.io/v2"),
        ),
        (
            "a wrong group",
            VALIDATE,
            PLACEMENT.replace("openstack.org/", "openstack.com/"),
        ),
        ("no kind", VALIDATE, "metadata: {name: a}\n".to_owned()),
        ("no YAML", VALIDATE, "kind: [\n".to_owned()),
        (
            "a key twice",
            VALIDATE,
            format!("{ADDONS}spec:\n  multus: {{}}\n  multus: {{}}\n"),
        ),
        ("a mistyped component", VALIDATE, addons("{mutlus: {}}")),
        (
            "a value out of an enumeration",
            VALIDATE,
            addons("{imagePullPolicy: Allways}"),
        ),
        (
            "a broken MAC range",
            VALIDATE,
            addons("{kubeMacPool: {rangeStart: '02:00', rangeEnd: 'FD:FF:FF:FF:FF:FF'}}"),
        ),
        (
            "a name that nobody serves",
            VALIDATE,
            ADDONS.replace("name: cluster", "name: Cluster_1"),
        ),
        (
            "an unknown type of network",
            VALIDATE,
            network("{defaultNetwork: {type: Calico}}"),
        ),
        (
            "a broken CIDR",
            VALIDATE,
            network("{clusterNetwork: [{cidr: 10.128.0.0/33, hostPrefix: 23}], serviceNetwork: [172.30.0.0/16], defaultNetwork: {type: Flannel}}"),
        ),
        (
            "networks that overlap",
            VALIDATE,
            network("{clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}], serviceNetwork: [10.130.0.0/16], defaultNetwork: {type: Flannel}}"),
        ),
        (
            "a number as text",
            VALIDATE,
            network("{clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: '23'}], serviceNetwork: [172.30.0.0/16], defaultNetwork: {type: Flannel}}"),
        ),
        (
            "a mode that a CNI plugin does not know",
            VALIDATE,
            "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: a}\nspec:\n  config: '{\"type\": \"macvlan\", \"mode\": \"Bridge\"}'\n"
                .to_owned(),
        ),
        (
            "a mistyped field of a policy",
            VALIDATE,
            policy("{nodeSelektor: {rack: a}, desiredState: {interfaces: []}}"),
        ),
        (
            "a mistyped field of an interface",
            VALIDATE,
            policy("{desiredState: {interfaces: [{name: eth1, type: ethernet, stat: up}]}}"),
        ),
        (
            "an unknown type of interface",
            VALIDATE,
            policy("{desiredState: {interfaces: [{name: eth1, type: ethernt, state: up}]}}"),
        ),
        (
            "a wrong maxUnavailable",
            VALIDATE,
            policy("{maxUnavailable: half, desiredState: {interfaces: [{name: eth1, type: ethernet, state: up}]}}"),
        ),
        (
            "a mistyped field of PlacementAPI",
            VALIDATE,
            placement("{databaseInstanc: openstack, secret: osp-secret}"),
        ),
        (
            "a negative number of replicas",
            VALIDATE,
            placement("{databaseInstance: openstack, secret: osp-secret, replicas: -1}"),
        ),
        (
            "a namespace that is not served",
            VALIDATE,
            format!("{PLACEMENT}spec: {{databaseInstance: openstack, secret: osp-secret}}\n")
                .replace("namespace: openstack", "namespace: lab"),
        ),
        (
            "a file that is not there",
            &["validate", "-f", "nowhere.yaml"],
            String::new(),
        ),
        ("a mistyped flag", &["validate", "--filname", "-"], String::new()),
        ("a mistyped command", &["validat"], String::new()),
        (
            "a mistyped domain",
            &["status", "--domains", "adons"],
            String::new(),
        ),
        (
            "a wrong time",
            &["uninstall", "--timeout", "soon"],
            String::new(),
        ),
        (
            "states in place of a policy",
            &["plan", "-f", "-", "--state", "-"],
            addons("{multus: {}}"),
        ),
        (
            "an object of another API",
            &["render", "-f", "-"],
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n".to_owned(),
        ),
    ]
}

#[test]
fn a_wrong_input_names_field_value_rule_and_fix() {
    let mut text = String::new();
    for (title, arguments, stdin) in inputs() {
        let run = weft_with_stdin(Path::new("."), arguments, &stdin);
        let code = run.code;
        writeln!(text, "# {title}: weft {} -> {code}", arguments.join(" ")).unwrap();
        writeln!(text, "{}{}", run.stdout, run.stderr).unwrap();
    }
    insta::assert_snapshot!("wrong_inputs", text);
}
