#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::{Value, json};
use weft_plan::Facts;

use super::*;
use crate::{providers, testing};

/// Contents of the ConfigMap `applied-default` on clusters, by all its writers. None of them is a
/// change of the configuration next to it.
fn frozen() -> Vec<(&'static str, &'static str, Value)> {
    let sample = json!({
        "serviceNetwork": "172.30.0.0/16",
        "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
        "defaultNetwork": {"type": "OpenShiftSDN"},
    });
    vec![
        (
            "the first operator of this API",
            r#"{"clusterNetworks":[{"cidr":"10.128.0.0/14","hostSubnetLength":9}],"serviceNetwork":"172.30.0.0/16","defaultNetwork":{"type":"OpenShiftSDN","openshiftSDNConfig":{"mode":"NetworkPolicy","vxlanPort":4789,"mtu":1450},"otherConfig":null},"additionalNetworks":null,"deployKubeProxy":false,"kubeProxyConfig":{"bindAddress":"0.0.0.0"}}"#,
            sample.clone(),
        ),
        (
            "the same, from deprecated spellings",
            r#"{"clusterNetworks":[{"cidr":"10.128.0.0/14","hostSubnetLength":9}],"serviceNetwork":"172.30.0.0/16","defaultNetwork":{"type":"OpenshiftSDN","openshiftSDNConfig":{"mode":"Networkpolicy","vxlanPort":4789,"mtu":1450},"otherConfig":null},"additionalNetworks":null,"deployKubeProxy":false,"kubeProxyConfig":{"bindAddress":"0.0.0.0"}}"#,
            sample.clone(),
        ),
        (
            "the same, with what it should have refused",
            r#"{"clusterNetworks":[{"cidr":"10.129.2.3/14","hostSubnetLength":9}],"serviceNetwork":"172.30.0.1/16","defaultNetwork":{"type":"OpenShiftSDN","openshiftSDNConfig":{"mode":"NetworkPolicy","vxlanPort":4789,"mtu":1450},"otherConfig":null},"additionalNetworks":[{"type":"Raw","name":"x","rawCNIConfig":"no JSON"}],"deployKubeProxy":true,"kubeProxyConfig":{"iptablesSyncPeriod":"abc","bindAddress":"foo"}}"#,
            sample.clone(),
        ),
        (
            "before the MTU was probed",
            r#"{"clusterNetworks":[{"cidr":"10.128.0.0/14","hostSubnetLength":9}],"serviceNetwork":"172.30.0.0/16","defaultNetwork":{"type":"OpenShiftSDN","openshiftSDNConfig":{"mode":"NetworkPolicy","vxlanPort":4789}},"deployKubeProxy":false,"kubeProxyConfig":{}}"#,
            sample.clone(),
        ),
        (
            "the last release with this API",
            r#"{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"serviceNetwork":["172.30.0.0/16"],"defaultNetwork":{"type":"OpenShiftSDN","openshiftSDNConfig":{"mode":"NetworkPolicy","vxlanPort":4789,"mtu":1450,"useExternalOpenvswitch":false}},"disableMultiNetwork":false,"deployKubeProxy":false,"kubeProxyConfig":{"bindAddress":"0.0.0.0","iptablesSyncPeriod":"30s"},"logLevel":"","managementState":"Managed"}"#,
            sample,
        ),
        (
            "the first version of Weft",
            r#"{"clusterNetworks":[{"cidr":"10.244.0.0/16"},{"cidr":"fd01::/48","hostSubnetLength":64}],"serviceNetwork":["10.96.0.0/16","fd02::/112"],"defaultNetwork":{"type":"Flannel","flannelConfig":{"backend":"vxlan","port":8472,"vni":1,"mtu":1450,"enableNFTables":false,"cniPlugin":"bridge"}},"deployKubeProxy":true,"kubeProxyConfig":{"iptablesSyncPeriod":"30s","bindAddress":"0.0.0.0"}}"#,
            json!({
                "serviceNetwork": ["10.96.0.0/16", "fd02::/112"],
                "clusterNetworks": [
                    {"cidr": "10.244.0.0/16"}, {"cidr": "fd01::/48", "hostSubnetLength": 64}
                ],
                "defaultNetwork": {"type": "Flannel"},
            }),
        ),
    ]
}

#[test]
fn records_of_earlier_versions_stay_safe() {
    for (writer, record, spec) in frozen() {
        // The nodes' MTU is another one today: what is recorded counts.
        let facts = Facts {
            host_mtu: Some(1450),
            ..Facts::default()
        };
        let decision = testing::try_decide(spec, Some(record), &facts)
            .unwrap_or_else(|refusal| panic!("{writer}: {refusal:#?}"));
        let network = &decision.decided["defaultNetwork"];
        let settings = if network["type"] == "Flannel" {
            &network["flannelConfig"]
        } else {
            &network["openshiftSDNConfig"]
        };
        assert_eq!(settings["mtu"], 1450, "{writer}");
    }
}

#[test]
fn the_record_is_what_the_original_would_have_written() {
    let sdn = |network: Value| {
        json!({
            "serviceNetwork": "172.30.0.0/16",
            "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
            "defaultNetwork": network
        })
    };
    let cases = [
        // As it is, with a deprecated spelling, and with each of the values that the original fills
        // in or leaves alone.
        sdn(json!({"type": "OpenShiftSDN"})),
        sdn(json!({"type": "OpenshiftSDN", "openshiftSDNConfig": {"mode": "Networkpolicy"}})),
        sdn(json!({
            "type": "OpenShiftSDN",
            "openshiftSDNConfig": {
                "mode": "Subnet", "vxlanPort": 4790, "useExternalOpenvswitch": false
            }
        })),
        sdn(json!({
            "type": "OpenShiftSDN",
            "openshiftSDNConfig": {
                "mode": "NetworkPolicy", "mtu": 1400, "useExternalOpenvswitch": true
            }
        })),
    ];
    for spec in cases {
        let decision = testing::decide(spec.clone());
        let record = decision.record.unwrap();
        assert_eq!(
            record.key().to_string(),
            "ConfigMap/openshift-cluster-network-operator/applied-default"
        );
        let applied: Value =
            serde_json::from_str(record.body()["data"]["applied"].as_str().unwrap()).unwrap();
        // The original's defaults: of the resource the MTU that is recorded and the port. It leaves
        // all else as it is written.
        let mut theirs = spec.clone();
        let config = &mut theirs["defaultNetwork"]["openshiftSDNConfig"];
        for (field, default) in [
            ("vxlanPort", json!(4789)),
            (
                "mtu",
                applied["defaultNetwork"]["openshiftSDNConfig"]["mtu"].clone(),
            ),
        ] {
            if config[field].is_null() {
                config[field] = default;
            }
        }
        let mut ours = applied.clone();
        if spec["defaultNetwork"]["openshiftSDNConfig"]["mode"].is_null() {
            ours["defaultNetwork"]["openshiftSDNConfig"]
                .as_object_mut()
                .unwrap()
                .remove("mode");
        }
        for field in ["clusterNetworks", "serviceNetwork", "defaultNetwork"] {
            assert_eq!(
                ours[field], theirs[field],
                "the original would refuse {field}"
            );
        }
        let again =
            testing::try_decide(spec, Some(&applied.to_string()), &Facts::default()).unwrap();
        assert_eq!(again.decided, decision.decided);
    }
}

#[test]
fn the_record_has_the_originals_form_and_yields_the_configuration() {
    let (_, theirs, spec) = frozen().remove(0);
    let decision = testing::decide(spec.clone());
    let record = decision.record.unwrap();
    let ours: Value =
        serde_json::from_str(record.body()["data"]["applied"].as_str().unwrap()).unwrap();
    // Every value that it wrote is there. It left out the defaults that it did not write down, and
    // wrote null for what is not there.
    let theirs: Value = serde_json::from_str(theirs).unwrap();
    assert!(holds(&ours, &theirs), "{ours:#}\n{theirs:#}");
    let again = testing::try_decide(spec, Some(&ours.to_string()), &Facts::default()).unwrap();
    assert_eq!(again.decided, decision.decided);
}

fn holds(ours: &Value, theirs: &Value) -> bool {
    match theirs {
        Value::Object(fields) => fields
            .iter()
            .all(|(field, value)| holds(&ours[field], value)),
        theirs => ours == theirs,
    }
}

#[test]
fn a_record_that_cannot_be_read_is_not_ignored() {
    for text in [
        "",
        "{",
        "[]",
        r#"{"clusterNetworks":[{"cidr":"x"}]}"#,
        r#"{"serviceNetwork":"garbage"}"#,
        r#"{"serviceNetwork":3}"#,
    ] {
        let problem = read(text, providers::ALL).unwrap_err();
        assert!(
            problem.message.contains("delete the ConfigMap"),
            "{problem}"
        );
    }
}

#[test]
fn a_network_that_weft_does_not_know_was_applied_all_the_same() {
    let record = r#"{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"serviceNetwork":["172.30.0.0/16"],"defaultNetwork":{"type":"OVNKubernetes"}}"#;
    let (_, _, spec) = frozen().remove(0);
    let refusal = testing::try_decide(spec, Some(record), &Facts::default()).unwrap_err();
    let changes: Vec<_> = refusal
        .changes
        .iter()
        .map(|change| (&*change.field, &*change.old, &*change.new))
        .collect();
    assert_eq!(
        changes,
        [("spec.defaultNetwork.type", "OVNKubernetes", "OpenShiftSDN")]
    );
}
