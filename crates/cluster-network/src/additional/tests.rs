#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};
use weft_plan::{
    Decision, Facts, kinds,
    report::{Failure, FailureClass, Report, UnitReport},
};

use crate::testing::{object, try_decide};

fn decision(networks: Value) -> Decision {
    let served = Facts {
        definitions: [kinds::NETWORK_ATTACHMENT_DEFINITION.definition()].into(),
        ..Facts::default()
    };
    on(networks, &served)
}

fn on(networks: Value, facts: &Facts) -> Decision {
    let spec = json!({
        "serviceNetwork": "10.96.0.0/16", "clusterNetworks": [
            {"cidr": "10.244.0.0/16", "hostSubnetLength": 8}
        ],
        "defaultNetwork": {"type": "None"}, "deployKubeProxy": false, "additionalNetworks": networks,
    });
    try_decide(spec, None, facts).unwrap()
}

fn macvlan(config: Value) -> Value {
    let decision =
        decision(json!([{"type": "SimpleMacvlan", "name": "m", "simpleMacvlanConfig": config}]));
    assert_eq!(decision.waits, []);
    let config = object(&decision, "NetworkAttachmentDefinition", "m")["spec"]["config"].clone();
    serde_json::from_str(config.as_str().unwrap()).unwrap()
}

/// Returns the mistakes in the only network.
fn wrong(network: Value) -> String {
    let mut decision = decision(json!([network]));
    assert_eq!(decision.units.last().unwrap().objects, []);
    let wait = decision.waits.pop().unwrap();
    assert_eq!(
        (decision.waits.len(), wait.class),
        (0, FailureClass::Invalid)
    );
    wait.message
}

#[test]
fn a_raw_configuration_is_kept_letter_by_letter_as_a_text() {
    let raw = "{ \"cniVersion\":\"0.3.1\",\n \"type\": \"tuning\", \"b\": 1.0, \"a\": \"x'y\" }";
    let decision = decision(json!([
        {"type": "Raw", "name": "one", "rawCNIConfig": raw}, {
            "type": "Raw", "name": "two", "namespace": "apps", "rawCNIConfig": "{}"
        }
    ]));
    let names: Vec<_> = decision
        .units
        .iter()
        .map(|unit| &*unit.name)
        .filter(|name| name.starts_with("additional"))
        .collect();
    assert_eq!(
        names,
        [
            "additional-network/default/one",
            "additional-network/apps/two"
        ]
    );
    assert_eq!(
        object(&decision, "NetworkAttachmentDefinition", "one")["spec"]["config"],
        raw
    );
    assert_eq!(
        object(&decision, "NetworkAttachmentDefinition", "one")["metadata"]["namespace"],
        "default"
    );
    assert_eq!(
        object(&decision, "NetworkAttachmentDefinition", "two")["metadata"]["namespace"],
        "apps"
    );
}

#[test]
fn a_raw_configuration_that_no_pod_can_use_is_applied_with_a_notice() {
    let raw =
        |name: &str, config: &str| json!({"type": "Raw", "name": name, "rawCNIConfig": config});
    let typeless = r#"{"name": "typeless", "mode": "l2"}"#;
    let decision = decision(json!([
        raw("lab", r#"{"cniVersion": "1.0.0", "type": "ipvlan"}"#),
        raw("typeless", typeless),
        raw("many", r#"{"plugins": [{}, {}, {}, {}, {}]}"#),
        {"type": "SimpleMacvlan", "name": "m", "rawCNIConfig": "{}"},
    ]));
    assert_eq!(decision.waits, []);
    assert_eq!(
        object(&decision, "NetworkAttachmentDefinition", "typeless")["spec"]["config"],
        typeless
    );
    let notices: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| format!("{}: {}", notice.about, notice.message))
        .collect();
    assert_eq!(
        notices,
        [
            r#"spec.additionalNetworks[1].rawCNIConfig: a CNI configuration needs "type" or "plugins". Pods that ask for this network do not start"#,
            "spec.additionalNetworks[2].rawCNIConfig: plugins[0].type is missing, plugins[1].type is missing, plugins[2].type is missing and 2 more. Pods that ask for this network do not start",
        ]
    );
}

#[test]
fn notices_separate_what_stops_pods_from_what_has_no_effect() {
    let config = r#"{"type": "macvlan", "mode": "l2", "ipam": {"type": "whereabouts", "range": "192.0.2.0/24", "exclude": ["192.0.3.7"]}}"#;
    let decision = decision(json!([{"type": "Raw", "name": "lab", "rawCNIConfig": config}]));
    assert_eq!(decision.waits, []);
    let messages: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| (&*notice.about, &*notice.message))
        .collect();
    let about = "spec.additionalNetworks[0].rawCNIConfig";
    assert_eq!(
        messages,
        [
            (
                about,
                r#"mode "l2" is not known to the plugin macvlan: write bridge or private or vepa or passthru. Pods that ask for this network do not start"#
            ),
            (
                about,
                "ipam.exclude[0] 192.0.3.7 has no effect, because it is outside of the range 192.0.2.0/24: remove it, or correct one of them"
            ),
        ]
    );
}

#[test]
fn a_macvlan_network_has_addresses_of_dhcp_unless_told_otherwise() {
    let plain = json!({"cniVersion": "0.3.1", "type": "macvlan", "ipam": {"type": "dhcp"}});
    assert_eq!(macvlan(json!(null)), plain);
    assert_eq!(
        macvlan(json!({"master": "", "mode": "", "mtu": 0, "ipamConfig": {"type": "DHCP"}})),
        plain
    );
    let config = json!({"master": "eth1", "mode": "VEPA", "mtu": 1400});
    assert_eq!(
        macvlan(config),
        json!({
            "cniVersion": "0.3.1", "type": "macvlan", "master": "eth1", "mode": "vepa", "mtu": 1400,
            "ipam": {"type": "dhcp"}
        })
    );
    for (mode, written) in [
        ("Bridge", "bridge"),
        ("Private", "private"),
        ("Passthru", "passthru"),
        ("passThru", "passthru"),
    ] {
        assert_eq!(macvlan(json!({"mode": mode}))["mode"], written);
    }
}

#[test]
fn a_macvlan_network_may_have_addresses_that_are_written_down() {
    let config = json!({"ipamConfig": {"type": "Static", "staticIPAMConfig": {
        "addresses": [
            {"address": "192.0.2.10/24", "gateway": "192.0.2.1"}, {"address": "2001:db8::10/64"}
        ],
        "routes": [
            {"destination": "198.51.100.7/24", "gateway": "192.0.2.2"}, {"destination": "0.0.0.0/0"}
        ],
        "dns": {
            "nameservers": ["192.0.2.53"], "domain": "example.com", "search": ["a.example.com"]
        },
    }}});
    let found = macvlan(config);
    assert_eq!(
        found["ipam"],
        json!({
            "type": "static",
            "addresses": [
                {"address": "192.0.2.10/24", "gateway": "192.0.2.1"}, {"address": "2001:db8::10/64"}
            ],
            "routes": [{"dst": "198.51.100.0/24", "gw": "192.0.2.2"}, {"dst": "0.0.0.0/0"}],
            "dns": {
                "nameservers": ["192.0.2.53"], "domain": "example.com", "search": ["a.example.com"]
            },
        })
    );
    assert_eq!(found.get("capabilities"), None);
}

#[test]
fn a_name_server_is_an_address() {
    let dns = json!({"nameservers": ["192.0.2.53", "foo", ""]});
    let network = json!({
        "type": "SimpleMacvlan", "name": "a",
        "simpleMacvlanConfig": {"ipamConfig": {"type": "Static", "staticIPAMConfig": {"dns": dns}}}
    });
    let decision = decision(json!([network]));
    let fields: Vec<_> = decision.waits[0]
        .problems
        .iter()
        .map(|problem| problem.field.as_str())
        .collect();
    let path = "spec.additionalNetworks[0].simpleMacvlanConfig.ipamConfig.staticIPAMConfig.dns";
    assert_eq!(
        fields,
        [
            format!("{path}.nameservers[1]"),
            format!("{path}.nameservers[2]")
        ]
    );
}

#[test]
fn without_an_address_each_pod_brings_its_own() {
    for config in [
        json!({"type": "Static"}),
        json!({"type": "static", "staticIPAMConfig": {"addresses": []}}),
    ] {
        let found = macvlan(json!({"ipamConfig": config}));
        assert_eq!(
            (&found["capabilities"], &found["ipam"]),
            (&json!({"ips": true}), &json!({"type": "static"}))
        );
    }
}

#[test]
fn a_bad_entry_says_what_is_wrong_and_stops_no_other() {
    let decision = decision(json!([
        {
            "type": "Raw", "name": "bad", "rawCNIConfig": "[1]"
        }, {"type": "Raw", "rawCNIConfig": "{}"},
        {"type": "Raw", "name": "good", "rawCNIConfig": "{}"}, {
            "type": "Raw", "name": "good", "rawCNIConfig": "{\"a\": 1}"
        },
    ]));
    let found: Vec<_> = decision
        .waits
        .iter()
        .map(|wait| (&*wait.unit, wait.class, &*wait.message))
        .collect();
    let expected = [
        (
            "additional-network/default/bad",
            "spec.additionalNetworks[0].rawCNIConfig: must be a JSON object: begin it with { and end it with }",
        ),
        (
            "additional-network/default/[1]",
            "spec.additionalNetworks[1].name: \"\" is not the name of an object",
        ),
        (
            "additional-network/default/[3]",
            "spec.additionalNetworks[3].name: \"good\" is the name of another one",
        ),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((unit, class, message), (expected_unit, expected_message)) in
        found.into_iter().zip(expected)
    {
        assert_eq!((unit, class), (expected_unit, FailureClass::Invalid));
        assert!(message.starts_with(expected_message), "{message}");
    }
    assert_eq!(
        object(&decision, "NetworkAttachmentDefinition", "good")["spec"]["config"],
        "{}"
    );
    assert_eq!(
        decision.units.iter().flat_map(|unit| &unit.objects).count(),
        1
    );
}

#[test]
fn every_field_is_checked() {
    let with = |config: Value| {
        json!({
            "type": "SimpleMacvlan", "name": "m", "simpleMacvlanConfig": config
        })
    };
    let ipam =
        |config: Value| with(json!({"ipamConfig": {"type": "Static", "staticIPAMConfig": config}}));
    for (network, field) in [
        (
            json!({"type": "Raw", "name": "A", "rawCNIConfig": "{}"}),
            "name",
        ),
        (
            json!({"type": "Raw", "name": "a", "namespace": "a.b", "rawCNIConfig": "{}"}),
            "namespace",
        ),
        (json!({"type": "Raw", "name": "a"}), "rawCNIConfig"),
        (
            json!({"type": "Raw", "name": "a", "rawCNIConfig": "{"}),
            "rawCNIConfig",
        ),
        (json!({"type": "Sriov", "name": "a"}), "type"),
        (json!({"name": "a"}), "type"),
        (with(json!({"mode": "x"})), "simpleMacvlanConfig.mode"),
        (with(json!({"mtu": 67})), "simpleMacvlanConfig.mtu"),
        (with(json!({"mtu": -1})), "simpleMacvlanConfig.mtu"),
        (
            with(json!({"ipamConfig": {"type": "Whereabouts"}})),
            "simpleMacvlanConfig.ipamConfig.type",
        ),
        (
            ipam(json!({"addresses": [{"address": "192.0.2.1"}]})),
            "simpleMacvlanConfig.ipamConfig.staticIPAMConfig.addresses[0].address",
        ),
        (
            ipam(json!({"addresses": [{"address": "192.0.2.1/24", "gateway": "x"}]})),
            "simpleMacvlanConfig.ipamConfig.staticIPAMConfig.addresses[0].gateway",
        ),
        (
            ipam(json!({"routes": [{}]})),
            "simpleMacvlanConfig.ipamConfig.staticIPAMConfig.routes[0].destination",
        ),
        (
            ipam(json!({"routes": [{"destination": "::/0", "gateway": "y"}]})),
            "simpleMacvlanConfig.ipamConfig.staticIPAMConfig.routes[0].gateway",
        ),
    ] {
        let message = wrong(network);
        assert!(
            message.starts_with(&format!("spec.additionalNetworks[0].{field}: ")),
            "{message}"
        );
    }
}

#[test]
fn without_multus_they_wait_and_status_says_so() {
    let decision = on(
        json!([{"type": "Raw", "name": "one", "rawCNIConfig": "{}"}]),
        &Facts::default(),
    );
    assert_eq!(
        (decision.waits.len(), decision.waits[0].class),
        (1, FailureClass::Absent)
    );
    assert!(decision.waits[0].message.starts_with("MultusMissing: "));
    assert_eq!(
        decision.units.last().unwrap().objects.len(),
        1,
        "what weft plan shows"
    );
}

#[test]
fn status_has_a_word_for_each() {
    let unit = |name: &str, class: Option<FailureClass>| {
        let object = weft_plan::ObjectKey::new(kinds::NETWORK_ATTACHMENT_DEFINITION, "n", "x");
        let failures = class
            .into_iter()
            .map(|class| Failure {
                object: object.clone(),
                class,
                message: "why".into(),
            })
            .collect();
        UnitReport {
            name: name.to_owned(),
            failures,
            workloads: Vec::new(),
        }
    };
    let units = vec![
        unit("default-network", None),
        unit("additional-network/default/a", None),
        unit("additional-network/apps/b.c", Some(FailureClass::Invalid)),
        unit("additional-network/default/[2]", Some(FailureClass::Absent)),
        unit(
            "additional-network/default/d",
            Some(FailureClass::Transient),
        ),
    ];
    let report = Report {
        units,
        ..Report::default()
    };
    let found: Vec<_> = super::status(&report)
        .into_iter()
        .map(|network| {
            format!(
                "{}/{} {} {}",
                network.namespace,
                network.name,
                network.state,
                network.message.unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "default/a Available ",
            "apps/b.c Invalid why",
            "default/[2] MultusMissing why",
            "default/d Degraded why"
        ]
    );
}
