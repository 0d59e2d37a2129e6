#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};

use super::{ControllerConfig, NodeConfig};
use crate::testing::{decide, file, object, problems, refused};

fn spec(config: Value) -> Value {
    json!({
        "serviceNetwork": "172.30.0.0/16",
        "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
        "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": config},
    })
}

fn names(spec: Value) -> Vec<String> {
    decide(spec).units[0]
        .objects
        .iter()
        .map(|object| object.key().human())
        .collect()
}

/// The objects of the operator that Weft replaces, as its renderer printed them.
const REFERENCE: [&str; 22] = [
    "Namespace openshift-sdn",
    "CustomResourceDefinition clusternetworks.network.openshift.io",
    "CustomResourceDefinition hostsubnets.network.openshift.io",
    "CustomResourceDefinition netnamespaces.network.openshift.io",
    "CustomResourceDefinition egressnetworkpolicies.network.openshift.io",
    "ClusterRole openshift-sdn",
    "ServiceAccount openshift-sdn/sdn",
    "ClusterRoleBinding openshift-sdn",
    "Namespace openshift-infra",
    "ServiceAccount openshift-infra/sdn-controller",
    "ServiceAccount openshift-sdn/sdn-controller",
    "ClusterRole openshift-sdn-controller",
    "ClusterRoleBinding openshift-sdn-controller",
    "ClusterRoleBinding openshift-sdn-controller-infra",
    "Role openshift-sdn/openshift-sdn-controller-leaderelection",
    "RoleBinding openshift-sdn/openshift-sdn-controller-leaderelection",
    "RoleBinding openshift-infra/openshift-sdn-controller-account",
    "ConfigMap openshift-sdn/sdn-controller-config",
    "DaemonSet openshift-sdn/sdn-controller",
    "DaemonSet openshift-sdn/ovs",
    "ConfigMap openshift-sdn/sdn-config",
    "DaemonSet openshift-sdn/sdn",
];

#[test]
fn the_original_s_other_spelling_is_the_same_network() {
    let mut other = spec(json!({}));
    other["defaultNetwork"]["type"] = "OpenshiftSDN".into();
    assert_eq!(names(other), names(spec(json!({}))));
}

#[test]
fn the_objects_are_those_of_the_original() {
    let mut expected = REFERENCE.to_vec();
    let mut found = names(spec(json!({})));
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let mut external = names(spec(json!({"useExternalOpenvswitch": true})));
    external.sort();
    expected.retain(|name| *name != "DaemonSet openshift-sdn/ovs");
    assert_eq!(external, expected);
}

#[test]
fn the_files_say_what_was_asked_for_in_every_mode() {
    for (mode, plugin) in super::MODES {
        let mut spec = spec(json!({"mode": mode, "vxlanPort": 4790, "mtu": 8950}));
        spec["clusterNetworks"] = json!([
            {"cidr": "10.128.0.0/15", "hostSubnetLength": 9},
            {"cidr": "10.0.0.0/14", "hostSubnetLength": 10}
        ]);
        spec["kubeProxyConfig"] = json!({
            "bindAddress": "192.168.0.1", "iptablesSyncPeriod": "1m",
            "proxyArguments": {"masquerade-all": ["true"]}
        });
        let decision = decide(spec);
        let controller: Value = serde_saphyr::from_str(file(
            &decision,
            "sdn-controller-config",
            "controller-config.yaml",
        ))
        .unwrap();
        assert_eq!(
            controller,
            json!({
                "apiVersion": "openshiftcontrolplane.config.openshift.io/v1", "kind": "OpenShiftControllerManagerConfig",
                "network": {
                    "networkPluginName": plugin,
                    "clusterNetworks": [
                        {"cidr": "10.128.0.0/15", "hostSubnetLength": 9},
                        {"cidr": "10.0.0.0/14", "hostSubnetLength": 10}
                    ],
                    "serviceNetworkCIDR": "172.30.0.0/16", "vxlanPort": 4790, "vxLANPort": 4790,
                },
            })
        );
        let node: Value =
            serde_saphyr::from_str(file(&decision, "sdn-config", "sdn-config.yaml")).unwrap();
        assert_eq!(
            node,
            json!({
                "apiVersion": "v1", "kind": "NodeConfig",
                "networkConfig": {"networkPluginName": plugin, "mtu": 8950},
                "servingInfo": {
                    "bindAddress": "192.168.0.1:10251",
                    "clientCA": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
                },
                "kubeletArguments": {
                    "container-runtime": ["remote"],
                    "container-runtime-endpoint": ["/var/run/crio/crio.sock"]
                },
                "iptablesSyncPeriod": "1m", "proxyArguments": {"masquerade-all": ["true"]},
            })
        );
    }
}

#[test]
fn the_files_are_read_back_as_they_were_meant() {
    // Values that YAML would take for something else, if they were not quoted.
    let mut spec = spec(json!({}));
    spec["kubeProxyConfig"] =
        json!({"iptablesSyncPeriod": "5s", "proxyArguments": {"on": ["true", "1e3", "~", ": #"]}});
    let decision = decide(spec.clone());
    let node: NodeConfig =
        serde_saphyr::from_str(file(&decision, "sdn-config", "sdn-config.yaml")).unwrap();
    assert_eq!(node.iptables_sync_period, "5s");
    assert_eq!(node.proxy_arguments["on"], ["true", "1e3", "~", ": #"]);
    let controller: ControllerConfig = serde_saphyr::from_str(file(
        &decision,
        "sdn-controller-config",
        "controller-config.yaml",
    ))
    .unwrap();
    assert_eq!(
        controller.network.vxlan_port,
        controller.network.vxlan_port_misspelt
    );
}

#[test]
fn a_change_of_what_pods_read_once_rolls_them_and_only_them() {
    let hashes = |decision: &weft_plan::Decision| {
        ["sdn-controller", "sdn", "ovs"].map(|name| {
            object(decision, "DaemonSet", name)["spec"]["template"]["metadata"]["annotations"]["weft.network/config-hash"].clone()
        })
    };
    let before = hashes(&decide(spec(json!({}))));
    let mut changed = spec(json!({}));
    changed["kubeProxyConfig"] = json!({"iptablesSyncPeriod": "1m"});
    let after = hashes(&decide(changed));
    assert_eq!((&before[0], &before[2]), (&after[0], &after[2]));
    assert_ne!(before[1], after[1]);
    assert!(before[1].is_string() && before[2].is_null());
}

#[test]
fn outdated_spellings_mean_the_same_and_are_no_change() {
    let mut outdated = spec(json!({"mode": "Networkpolicy"}));
    outdated["defaultNetwork"]["type"] = "OpenshiftSDN".into();
    let canonical = spec(json!({"mode": "NetworkPolicy"}));
    assert_eq!(
        decide(outdated.clone()).decided,
        decide(canonical.clone()).decided
    );
    assert_eq!(refused(outdated, canonical.clone()), [""; 0]);
    assert_eq!(
        decide(spec(json!({"mode": ""}))).decided,
        decide(canonical).decided
    );
    let explicit = json!({
        "mode": "NetworkPolicy", "vxlanPort": 4789, "mtu": 1450, "useExternalOpenvswitch": false
    });
    assert_eq!(
        refused(spec(json!({})), spec(explicit)),
        [""; 0],
        "a default that is written out"
    );
}

#[test]
fn settings_do_not_change_under_pods() {
    let path = "spec.defaultNetwork.openshiftSDNConfig";
    for (field, old, new) in [
        ("mode", json!("NetworkPolicy"), json!("Subnet")),
        ("vxlanPort", json!(4789), json!(4790)),
        ("mtu", json!(1450), json!(1400)),
        ("useExternalOpenvswitch", json!(false), json!(true)),
    ] {
        let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
        assert_eq!(
            refused(spec(json!({})), spec(json!({field: new}))),
            [format!("{path}.{field} {} -> {}", text(&old), text(&new))]
        );
    }
}

#[test]
fn the_mtu_is_carried_on() {
    let before = decide(spec(json!({"mtu": 8950}))).decided.to_string();
    let after =
        crate::testing::try_decide(spec(json!({})), Some(&before), &weft_plan::Facts::default())
            .unwrap();
    assert_eq!(
        after.decided["defaultNetwork"]["openshiftSDNConfig"]["mtu"],
        8950
    );
}

#[test]
fn all_values_out_of_range_are_named_at_once() {
    let found = problems(spec(
        json!({"mode": "broken", "vxlanPort": 66666, "mtu": 70000}),
    ));
    assert_eq!(found.len(), 3, "{found:#?}");
    for (problem, word) in found
        .iter()
        .zip(["mode: \"broken\"", "vxlanPort: 66666", "mtu: 70000"])
    {
        assert!(
            problem.starts_with(&format!("spec.defaultNetwork.openshiftSDNConfig.{word}")),
            "{problem}"
        );
    }
    for limit in [576, 65536] {
        assert_eq!(problems(spec(json!({"mtu": limit}))), [""; 0]);
    }
}
