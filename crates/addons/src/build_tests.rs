#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::Domain;

use super::*;
use crate::{
    Addons,
    testing::{
        EXAMPLE, EXAMPLE_0_23, decide, decide_everywhere, decide_knowing, full, object, objects,
        resource, yaml,
    },
};

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
        insta::with_settings!({sort_maps => true}, { insta::assert_yaml_snapshot!(format!("0.23_{}", unit.name), documents) });
    }
    let about: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| notice.about.as_str())
        .collect();
    assert_eq!(about, ["nmstate"], "its domain is not installed");
}

#[test]
fn the_example_of_today_has_the_same_objects_and_these() {
    let (mut old, new) = (yaml(EXAMPLE_0_23), yaml(EXAMPLE));
    // One leaves the range open, the other gives it.
    old["spec"]["kubeMacPool"] = new["spec"]["kubeMacPool"].clone();
    let (old, new) = (decide(&old), decide(&new));
    assert_eq!(new.notices, []);
    for unit in &new.units {
        if let Some(same) = old.units.iter().find(|old| old.name == unit.name) {
            assert_eq!(unit, same);
            continue;
        }
        let documents: Vec<_> = unit.objects.iter().map(|object| object.body()).collect();
        insta::with_settings!({sort_maps => true}, { insta::assert_yaml_snapshot!(format!("today_{}", unit.name), documents) });
    }
    let names: Vec<_> = new.units.iter().map(|unit| unit.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "namespace",
            "network-attachment-definition",
            "multus",
            "multusDynamicNetworks",
            "linuxBridge",
            "kubeMacPool",
            "ovs",
            "macvtap",
            "kubeSecondaryDNS",
            "kubevirtIpamController",
            "network-policy"
        ]
    );
}

/// The API server warns about a label that nodes do not have any more, and about a name that two
/// ports of a pod have. The templates of the original have both.
#[test]
fn only_the_form_of_the_original_causes_warnings() {
    let causes = |template: &Value| {
        let containers = template["spec"]["containers"].as_array().unwrap();
        let ports = containers.iter().flat_map(|container| {
            let ports = container["ports"].as_array().into_iter().flatten();
            ports.map(|port| port["name"].to_string())
        });
        let ports: Vec<_> = ports.collect();
        let names: BTreeSet<_> = ports.iter().collect();
        let affinity = template["spec"]["affinity"].to_string();
        (
            affinity.contains("node-role.kubernetes.io/master"),
            names.len() < ports.len(),
        )
    };
    let decision = decide(&yaml(EXAMPLE));
    let mut others = Vec::new();
    for object in objects(&decision).filter(|object| !object.body()["spec"]["template"].is_null()) {
        let name = object.key().name.as_str();
        assert_eq!(
            causes(&object.body()["spec"]["template"]),
            (false, false),
            "{name}"
        );
        if let Some(other) = object.in_other_form() {
            let template = &other["spec"]["template"];
            assert_eq!(template["spec"]["topologySpreadConstraints"], Value::Null);
            others.push((name, causes(template)));
        }
    }
    others.sort_unstable();
    assert_eq!(
        others,
        [
            ("kubemacpool-cert-manager", (true, false)),
            ("kubemacpool-mac-controller-manager", (true, false)),
            ("kubevirt-ipam-controller-manager", (true, false)),
            ("secondary-dns", (true, true)),
        ]
    );
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
    for field in [
        "multus",
        "linuxBridge",
        "ovs",
        "kubeMacPool",
        "macvtap",
        "kubeSecondaryDNS",
        "kubevirtIpamController",
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
        assert_eq!(own, [field]);
        assert_eq!(
            decision
                .units
                .iter()
                .any(|unit| unit.name == "network-attachment-definition"),
            ["multus", "kubevirtIpamController"].contains(&field),
            "{field}"
        );
    }
    // But for the one that is part of another.
    let decision = decide(&resource(
        json!({"multus": {}, "multusDynamicNetworks": {}}),
    ));
    assert!(
        decision
            .units
            .iter()
            .any(|unit| unit.name == "multusDynamicNetworks")
    );
}

#[test]
fn the_declared_kinds_are_those_of_the_units() {
    let mut by_cert_manager = full();
    by_cert_manager["spec"]["kubevirtIpamController"]["certificateProvider"] = "CertManager".into();
    by_cert_manager["spec"]["nmstate"] = json!({});
    let all = [full(), by_cert_manager]
        .iter()
        .flat_map(decide_everywhere)
        .collect::<Vec<_>>();
    let used: BTreeSet<Kind> = all
        .iter()
        .flat_map(objects)
        .map(|object| object.key().kind)
        .collect();
    assert_eq!(
        used,
        Addons::new(Settings::default())
            .kinds()
            .into_iter()
            .collect()
    );
}

#[test]
fn with_some_components_just_the_kinds_of_these_are_declared() {
    assert_eq!(
        crate::obsolete::FIELDS.map(|(name, _)| name),
        crate::settings::COMPONENTS
    );
    let optional = [Kind::is_optional as fn(&Kind) -> bool, |kind: &Kind| {
        [kinds::MUTATING_WEBHOOK_CONFIGURATION, kinds::SECRET].contains(kind)
    }];
    for (name, field) in crate::obsolete::FIELDS {
        let spec = match field {
            "kubevirtIpamController" => json!({field: {"certificateProvider": "CertManager"}}),
            "multusDynamicNetworks" => json!({field: {}, "multus": {}}),
            _ => json!({field: {}}),
        };
        let names = [
            Some(name),
            (field == "multusDynamicNetworks").then_some("multus"),
        ];
        let settings = Settings {
            components: Some(names.into_iter().flatten().map(str::to_owned).collect()),
            ..Settings::default()
        };
        let declared: BTreeSet<Kind> = Addons::new(settings.clone()).kinds().into_iter().collect();
        let decisions = decide_everywhere(&resource(spec));
        let made = decisions
            .iter()
            .flat_map(|decision| &decision.made_by_operands)
            .map(|key| key.kind);
        let used: BTreeSet<Kind> = decisions
            .iter()
            .flat_map(objects)
            .map(|object| object.key().kind)
            .chain(made)
            .collect();
        assert!(
            used.is_subset(&declared),
            "{name}: {:?}",
            used.difference(&declared)
        );
        let surplus: Vec<_> = declared
            .difference(&used)
            .filter(|kind| optional.iter().any(|is| is(kind)))
            .collect();
        assert!(surplus.is_empty(), "{name}: {surplus:?}");
        let obsolete = Addons::new(settings).obsolete();
        assert!(
            obsolete.iter().all(|(key, _)| declared.contains(&key.kind)),
            "{name}: {obsolete:?}"
        );
    }
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
fn the_operators_own_namespace_gets_no_labels_but_pod_security() {
    let level = "privileged";
    assert_eq!(
        object(&decide(&full()), "Namespace", "cluster-network-addons")["metadata"]["labels"],
        json!({
            "pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/audit": level,
            "pod-security.kubernetes.io/warn": level
        })
    );
}

#[test]
fn every_label_is_there_and_selectors_still_match() {
    let mut resource = full();
    resource["metadata"]["labels"] = json!({
        "app.kubernetes.io/part-of": "kubevirt", "app.kubernetes.io/version": "v9",
        "app.kubernetes.io/component": "network"
    });
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
fn the_secrets_of_a_component_are_known_while_it_is_deployed() {
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
    // Weft makes this one itself.
    assert!(keys(json!({"kubevirtIpamController": {}})).is_empty());
    assert_eq!(keys(json!({"multus": {}})), Vec::<String>::new());
}

#[test]
fn outdated_spellings_are_reported() {
    let decision = decide(&resource(
        json!({"kubeSecondaryDNS": {"DOMAIN": "a.example"}}),
    ));
    let about: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| notice.about.as_str())
        .collect();
    assert_eq!(about, ["kubeSecondaryDNS"]);
    assert_eq!(
        object(&decision, "ConfigMap", "secondary-dns")["data"]["DOMAIN"],
        "a.example"
    );
}

#[test]
fn the_nodes_networks_are_asked_of_their_own_operator_unless_somebody_has() {
    let served = Facts {
        definitions: [kinds::NMSTATE.definition()].into(),
        ..Facts::default()
    };
    let asked = resource(json!({"nmstate": {}}));
    let names = |decision: &weft_plan::Decision| {
        names(decision)
            .into_iter()
            .filter(|name| name.starts_with("NMState "))
            .collect::<Vec<_>>()
    };

    let decision = decide_knowing(&served, &asked);
    assert_eq!(
        (names(&decision), &decision.waits[..], &decision.notices[..]),
        (
            vec!["NMState cluster-network-addons".to_owned()],
            &[][..],
            &[][..]
        )
    );
    assert!(names(&decide_knowing(&served, &resource(json!({})))).is_empty());
    // The example of the oldest form says so in a comment.
    assert!(EXAMPLE_0_23.contains("# Makes an NMState"));
    let oldest = decide_knowing(&served, &yaml(EXAMPLE_0_23));
    assert_eq!(names(&oldest), ["NMState cluster-network-addons"]);

    let decision = decide(&asked);
    assert!(names(&decision).is_empty() && decision.waits.is_empty());
    assert!(
        decision.notices[0]
            .message
            .contains("weft status --domains node-network"),
        "{:?}",
        decision.notices
    );

    let theirs = Facts {
        foreign_nmstates: ["mine".to_owned()].into(),
        ..served
    };
    let decision = decide_knowing(&theirs, &asked);
    assert!(names(&decision).is_empty() && decision.waits.is_empty());
    assert!(
        decision.notices[0].message.contains("NMState mine"),
        "{:?}",
        decision.notices
    );
}
