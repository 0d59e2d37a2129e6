#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::Domain;

use super::*;
use crate::{
    Addons, Image,
    testing::{
        EXAMPLE, EXAMPLE_0_23, containers, decide, decide_with, object, objects, resource, yaml,
    },
};

/// Everything that can be deployed.
fn full() -> Value {
    resource(
        json!({"multus": {}, "linuxBridge": {}, "ovs": {}, "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:ff:ff:ff"}}),
    )
}

fn names(decision: &weft_plan::Decision) -> Vec<String> {
    objects(decision)
        .map(|object| object.key().human())
        .collect()
}

#[test]
fn the_example_of_0_23_leads_to_these_objects() {
    let decision = decide(&yaml(EXAMPLE_0_23));
    for unit in &decision.units {
        let documents: Vec<_> = unit.objects.iter().map(|object| object.body()).collect();
        insta::assert_yaml_snapshot!(format!("0.23_{}", unit.name), documents);
    }
    assert_eq!(
        decision.notices,
        [Notice {
            about: "nmstate".into(),
            message: "is not deployed by this version of Weft yet; the field is kept".into()
        }]
    );
}

#[test]
fn the_example_of_today_leads_to_the_same_objects() {
    let (old, new) = (decide(&yaml(EXAMPLE_0_23)), decide(&yaml(EXAMPLE)));
    assert_eq!(old.units, new.units);
    assert_eq!(new.notices, []);
}

#[test]
fn an_empty_specification_still_has_namespace_and_policies() {
    assert_eq!(
        names(&decide(&resource(json!({})))),
        [
            "Namespace cluster-network-addons",
            "NetworkPolicy cluster-network-addons/cnao-allow-egress-to-cluster-api",
            "NetworkPolicy cluster-network-addons/cnao-allow-egress-to-cluster-dns"
        ]
    );
}

#[test]
fn every_component_stands_alone() {
    for (field, unit) in [
        ("multus", "multus"),
        ("linuxBridge", "linuxBridge"),
        ("ovs", "ovs"),
        ("kubeMacPool", "kubeMacPool"),
    ] {
        let decision = decide(&resource(json!({field: {}})));
        let own: Vec<_> = decision
            .units
            .iter()
            .map(|unit| unit.name.as_str())
            .filter(|name| {
                ![
                    "namespace",
                    "network-attachment-definition",
                    "network-policy",
                ]
                .contains(name)
            })
            .collect();
        assert_eq!(own, [unit]);
        assert_eq!(
            decision
                .units
                .iter()
                .any(|unit| unit.name == "network-attachment-definition"),
            field == "multus"
        );
    }
}

#[test]
fn the_declared_kinds_are_those_of_the_units() {
    let used: BTreeSet<Kind> = objects(&decide(&full()))
        .map(|object| object.key().kind)
        .collect();
    assert_eq!(
        used,
        Addons::new(Settings::default())
            .kinds()
            .iter()
            .copied()
            .collect()
    );
}

#[test]
fn no_object_is_in_two_units() {
    let all = names(&decide(&full()));
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn no_rule_grants_everything() {
    let decision = decide(&full());
    let mut rules = 0;
    for object in objects(&decision) {
        for rule in object.body()["rules"].as_array().into_iter().flatten() {
            rules += 1;
            let words: Vec<_> = ["apiGroups", "resources", "verbs"]
                .iter()
                .flat_map(|list| rule[*list].as_array().unwrap())
                .collect();
            assert!(
                words.iter().all(|word| *word != "*"),
                "{}: {rule}",
                object.key()
            );
        }
    }
    assert!(rules > 10);
}

#[test]
fn every_container_can_be_diagnosed_and_scheduled() {
    let images: Vec<(String, Image)> = Image::ALL
        .iter()
        .map(|image| (format!("registry.example/{image:?}:1"), *image))
        .collect();
    let env = |name: &str| {
        images
            .iter()
            .find(|(_, image)| image.env() == name)
            .map(|(reference, _)| reference.clone())
    };
    let decision = decide_with(Settings::from_env(env).unwrap(), &full(), None, None).unwrap();
    let containers = containers(&decision);
    assert_eq!(containers.len(), 8);
    for (workload, container) in containers {
        let at = format!("{workload}/{}", container["name"]);
        assert_eq!(
            container["terminationMessagePolicy"], "FallbackToLogsOnError",
            "{at}"
        );
        assert!(
            container["resources"]["requests"]["cpu"].is_string()
                && container["resources"]["requests"]["memory"].is_string(),
            "{at}"
        );
        assert_eq!(container["resources"]["limits"], Value::Null, "{at}");
        assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{at}");
        assert!(
            images
                .iter()
                .any(|(reference, _)| container["image"] == *reference),
            "{at}: {} is not from the settings",
            container["image"]
        );
    }
}

#[test]
fn the_manifests_name_the_images_that_are_used_by_default() {
    let decision = decide(&full());
    for (workload, container) in containers(&decision) {
        let image = container["image"].as_str().unwrap();
        let files = [
            include_str!("../../../components/multus/daemonset.yaml"),
            include_str!("../../../components/linux-bridge/plugin.yaml"),
            include_str!("../../../components/linux-bridge/marker.yaml"),
            include_str!("../../../components/ovs/daemonset.yaml"),
            include_str!("../../../components/kubemacpool/cert-manager.yaml"),
            include_str!("../../../components/kubemacpool/manager.yaml"),
        ];
        assert!(
            files
                .iter()
                .any(|file| file.contains(&format!("image: {image}\n"))),
            "{workload}: {image}"
        );
    }
}

#[test]
fn the_namespace_is_set_everywhere() {
    let settings = Settings {
        namespace: "elsewhere".into(),
        operator_namespace: "operator".into(),
        ..Settings::default()
    };
    let decision = decide_with(settings, &full(), None, None).unwrap();
    for object in objects(&decision) {
        assert!(
            !object.body().to_string().contains("cluster-network-addons"),
            "{}",
            object.key()
        );
        assert!(
            object
                .key()
                .namespace
                .as_deref()
                .is_none_or(|namespace| namespace == "elsewhere"),
            "{}",
            object.key()
        );
    }
    assert_eq!(
        object(&decision, "ClusterRoleBinding", "multus")["subjects"][0]["namespace"],
        "elsewhere"
    );
    assert_eq!(
        object(
            &decision,
            "MutatingWebhookConfiguration",
            "kubemacpool-mutator"
        )["webhooks"][1]["clientConfig"]["service"]["namespace"],
        "elsewhere"
    );
    assert_eq!(
        object(&decision, "Namespace", "elsewhere")["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "cnao-operator"
    );
    assert_eq!(
        decision.record.unwrap().key().namespace.as_deref(),
        Some("operator")
    );
    assert!(
        decision
            .made_by_operands
            .iter()
            .all(|key| key.namespace.as_deref() == Some("elsewhere"))
    );
}

#[test]
fn the_operators_own_namespace_gets_no_labels_but_pod_security() {
    let level = "privileged";
    assert_eq!(
        object(&decide(&full()), "Namespace", "cluster-network-addons")["metadata"]["labels"],
        json!({"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/audit": level, "pod-security.kubernetes.io/warn": level})
    );
}

#[test]
fn kube_mac_pool_runs_where_infra_says_and_the_rest_where_workloads_says() {
    let mut resource = full();
    resource["spec"]["placementConfiguration"] = json!({"infra": {"nodeSelector": {"for": "infra"}}, "workloads": {"nodeSelector": {"for": "workloads"}}});
    for object in objects(&decide(&resource)) {
        let Some(pod) = object.body().pointer("/spec/template/spec") else {
            continue;
        };
        let expected = if object.key().name.starts_with("kubemacpool") {
            "infra"
        } else {
            "workloads"
        };
        assert_eq!(
            pod["nodeSelector"],
            json!({"for": expected}),
            "{}",
            object.key()
        );
        assert_eq!(
            (&pod["affinity"], &pod["tolerations"]),
            (&Value::Null, &Value::Null),
            "{}",
            object.key()
        );
    }
}

#[test]
fn the_manifests_show_the_default_placement() {
    let placement = |object: &Value| {
        ["nodeSelector", "affinity", "tolerations"]
            .map(|field| object.pointer("/spec/template/spec").unwrap()[field].clone())
    };
    let decision = decide(&full());
    let written = |text: &str, kind: &str| {
        placement(
            weft_plan::parse_yaml(text)
                .unwrap()
                .iter()
                .find(|m| m.key().kind.kind == kind)
                .unwrap()
                .body(),
        )
    };
    for (text, kind, name) in [
        (
            include_str!("../../../components/multus/daemonset.yaml"),
            "DaemonSet",
            "multus",
        ),
        (
            include_str!("../../../components/linux-bridge/plugin.yaml"),
            "DaemonSet",
            "kube-cni-linux-bridge-plugin",
        ),
        (
            include_str!("../../../components/linux-bridge/marker.yaml"),
            "DaemonSet",
            "bridge-marker",
        ),
        (
            include_str!("../../../components/ovs/daemonset.yaml"),
            "DaemonSet",
            "ovs-cni-amd64",
        ),
        (
            include_str!("../../../components/kubemacpool/cert-manager.yaml"),
            "Deployment",
            "kubemacpool-cert-manager",
        ),
        (
            include_str!("../../../components/kubemacpool/manager.yaml"),
            "Deployment",
            "kubemacpool-mac-controller-manager",
        ),
    ] {
        assert_eq!(
            written(text, kind),
            placement(object(&decision, kind, name)),
            "{name}"
        );
    }
}

#[test]
fn certificates_and_tls_follow_the_configuration() {
    let mut resource = full();
    resource["spec"]["selfSignConfiguration"] = json!({"caRotateInterval": "200h20m2s", "caOverlapInterval": "3h", "certRotateInterval": "20h", "certOverlapInterval": "1.5h"});
    resource["spec"]["tlsSecurityProfile"] = json!({"type": "Intermediate"});
    let decision = decide(&resource);
    let environment = object(&decision, "Deployment", "kubemacpool-cert-manager")["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    for (name, value) in [
        ("CA_ROTATE_INTERVAL", "200h20m2s"),
        ("CA_OVERLAP_INTERVAL", "3h"),
        ("CERT_ROTATE_INTERVAL", "20h"),
        ("CERT_OVERLAP_INTERVAL", "1.5h"),
    ] {
        assert!(
            environment
                .as_array()
                .unwrap()
                .contains(&json!({"name": name, "value": value})),
            "{name}"
        );
    }
    let args = |decision: &weft_plan::Decision| {
        object(decision, "Deployment", "kubemacpool-mac-controller-manager")["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    assert_eq!(
        args(&decide(&full())),
        json!([
            "--v=production",
            "--wait-time=300",
            "--tls-min-version=VersionTLS13"
        ])
    );
    let args = args(&decision);
    assert_eq!(args[2], "--tls-min-version=VersionTLS12");
    assert!(
        args[3]
            .as_str()
            .unwrap()
            .starts_with("--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"),
        "{args}"
    );
}

#[test]
fn only_pods_that_read_a_changed_config_once_are_rolled() {
    let hash = |decision: &weft_plan::Decision| {
        object(decision, "DaemonSet", "multus")["spec"]["template"]["metadata"]["annotations"]["weft.network/config-hash"].clone()
    };
    let before = decide(&full());
    assert_eq!(hash(&before).as_str().unwrap().len(), 16);

    // A new version of the operator labels the ConfigMap anew and rolls nothing.
    let newer = decide_with(
        Settings {
            version: "9.9.9".into(),
            ..Settings::default()
        },
        &full(),
        None,
        None,
    )
    .unwrap();
    assert_eq!(hash(&newer), hash(&before));

    // KubeMacPool watches its range.
    let mut resource = full();
    resource["spec"]["kubeMacPool"]["rangeEnd"] = "02:00:01:00:00:00".into();
    let other_range = decide(&resource);
    assert_eq!(
        object(&other_range, "ConfigMap", "kubemacpool-mac-range-config")["data"],
        json!({"RANGE_START": "02:00:00:00:00:00", "RANGE_END": "02:00:01:00:00:00"})
    );
    let workload = |decision, name| object(decision, "Deployment", name).clone();
    for name in [
        "kubemacpool-mac-controller-manager",
        "kubemacpool-cert-manager",
    ] {
        assert_eq!(workload(&other_range, name), workload(&before, name));
    }
}

#[test]
fn every_label_is_there_and_selectors_still_match() {
    let mut resource = full();
    resource["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "kubevirt", "app.kubernetes.io/version": "v9", "app.kubernetes.io/component": "network"});
    for object in objects(&decide(&resource)) {
        let labels = |pointer: &str| object.body().pointer(pointer).cloned().unwrap_or_default();
        let pods = labels("/spec/template/metadata/labels");
        for (place, labels) in [
            ("object", labels("/metadata/labels")),
            ("pods", pods.clone()),
        ] {
            if object.key().kind == kinds::NAMESPACE || labels.is_null() {
                continue;
            }
            for (key, value) in [
                ("managed-by", "cnao-operator"),
                ("component", "network"),
                ("part-of", "kubevirt"),
                ("version", "v9"),
            ] {
                assert_eq!(
                    labels[format!("app.kubernetes.io/{key}")],
                    value,
                    "{} of {}",
                    place,
                    object.key()
                );
            }
            let expected = if object.key().name.contains("kubemacpool-mac-") {
                "false"
            } else {
                "true"
            };
            assert_eq!(
                labels["prometheus.cnao.io"],
                expected,
                "{} of {}",
                place,
                object.key()
            );
            assert_eq!(
                labels["networkaddonsoperator.network.kubevirt.io/version"].is_string(),
                place == "object",
                "{}",
                object.key()
            );
        }
        for (key, value) in object
            .body()
            .pointer("/spec/selector/matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            assert_eq!(pods[key], *value, "{}", object.key());
        }
    }
}

#[test]
fn the_record_is_the_complete_configuration_and_leads_back_to_it() {
    let first = decide(&resource(json!({"kubeMacPool": {}, "multus": {}})));
    let record = first.record.unwrap();
    assert_eq!(
        record.key().to_string(),
        "ConfigMap/cluster-network-addons/cluster-networks-addons-operator-applied-cluster"
    );
    let applied = record.body()["data"]["applied"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        serde_json::from_str::<Value>(&applied).unwrap(),
        first.decided
    );
    assert_eq!(
        first.decided["kubeMacPool"]["rangeStart"],
        "02:ab:cd:00:00:00"
    );

    // Other dice, the same range: known from the record, and before that from what was decided.
    let again = |record: Option<&str>, decided: Option<&Value>| {
        let resource = resource(json!({"kubeMacPool": {}, "multus": {}}));
        let input = weft_plan::Input {
            resource: &resource,
            record,
            decided,
            facts: &Facts::default(),
            random: &mut |bytes| bytes.fill(7),
        };
        Addons::new(Settings::default()).decide(input)
    };
    assert_eq!(again(Some(&applied), None).unwrap().decided, first.decided);
    assert_eq!(
        again(None, Some(&first.decided)).unwrap().decided,
        first.decided
    );
    assert_eq!(
        again(Some("{}"), Some(&first.decided)).unwrap().decided,
        first.decided,
        "what was decided is newer than the record"
    );
    assert_eq!(
        again(None, None).unwrap().decided["kubeMacPool"]["rangeStart"],
        "02:07:07:00:00:00"
    );

    let refusal = again(Some("{not json"), None).unwrap_err();
    assert_eq!(refusal.reason, "FailedToGetPreviousConfigSpec");
    assert!(
        refusal.problems[0]
            .message
            .contains("delete that ConfigMap"),
        "{}",
        refusal.problems[0]
    );
}

/// As the original writes it: every default filled in, empty affinities kept, fields in any order.
#[test]
fn a_record_of_the_original_is_read() {
    let record = r#"{"multus":{},"kubeMacPool":{"rangeStart":"02:5f:11:00:00:00","rangeEnd":"02:5f:11:ff:ff:ff"},"imagePullPolicy":"IfNotPresent",
        "selfSignConfiguration":{"caRotateInterval":"48h0m0s","caOverlapInterval":"24h0m0s","certRotateInterval":"24h0m0s","certOverlapInterval":"12h0m0s"},
        "placementConfiguration":{"infra":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":{"matchExpressions":[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]}},{"weight":1,"preference":{"matchExpressions":[{"key":"node-role.kubernetes.io/master","operator":"Exists"}]}}]}}},"workloads":{"nodeSelector":{"kubernetes.io/os":"linux"},"affinity":{},"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists","effect":"NoSchedule"}]}}}"#;
    let decision = decide_with(
        Settings::default(),
        &resource(json!({"multus": {}, "kubeMacPool": {}})),
        Some(record),
        None,
    )
    .unwrap();
    assert_eq!(
        decision.decided,
        serde_json::from_str::<Value>(record).unwrap()
    );
}

#[test]
fn the_secrets_of_kube_mac_pool_are_known_while_it_is_deployed() {
    let keys = |spec: Value| {
        decide(&resource(spec))
            .made_by_operands
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(json!({"kubeMacPool": {}})),
        [
            "Secret/cluster-network-addons/kubemacpool-mutator-ca",
            "Secret/cluster-network-addons/kubemacpool-service"
        ]
    );
    assert_eq!(keys(json!({"multus": {}})), Vec::<String>::new());
}

#[test]
fn what_is_not_deployed_yet_is_said() {
    let decision = decide(&resource(
        json!({"multus": {}, "multusDynamicNetworks": {}, "macvtap": {}, "kubeSecondaryDNS": {"DOMAIN": "a.example"}, "kubevirtIpamController": {}, "nmstate": {}}),
    ));
    let about: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| notice.about.as_str())
        .collect();
    assert_eq!(
        about,
        [
            "multusDynamicNetworks",
            "macvtap",
            "kubeSecondaryDNS",
            "kubevirtIpamController",
            "nmstate",
            "kubeSecondaryDNS"
        ]
    );
}
