#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_api::cluster_network::DefaultNetwork;
use weft_plan::{Domain, Facts, FieldChange, Input, Manifest, Problem};

use crate::{
    ClusterNetwork,
    config::{Effective, Valid},
    error::BuildError,
    provider::{Capabilities, Context, Provider},
    testing::{decide, refused, resource, settings, try_decide},
};

/// A network that can do all that any network can.
struct Able;

impl Provider for Able {
    fn name(&self) -> &'static str {
        "Able"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            blocks_per_family: None,
            ipv6: true,
            uses_host_subnet_length: true,
            own_service_proxy: true,
            grows: true,
            adds_family: true,
        }
    }

    fn validate(&self, _: &Valid) -> Vec<Problem> {
        Vec::new()
    }

    fn overhead(&self, _: &Valid) -> u16 {
        0
    }

    fn fill(&self, _: &mut DefaultNetwork, _: Option<&DefaultNetwork>, _: u16) {}

    fn unsafe_changes(&self, _: &DefaultNetwork, _: &DefaultNetwork) -> Vec<FieldChange> {
        Vec::new()
    }

    fn render(&self, _: &Effective, _: &Context<'_>) -> Result<Vec<Manifest>, BuildError> {
        Ok(Vec::new())
    }
}

static ABLE: [&dyn Provider; 1] = [&Able];

/// The fields that a network that can do everything refuses to change, with the reasons.
fn refused_by_able(from: Value, to: Value) -> Vec<String> {
    let domain = ClusterNetwork::with_providers(settings(), &ABLE);
    let decide = |spec: Value, record: Option<&str>| {
        domain.decide(Input {
            resource: &resource(spec),
            record,
            decided: None,
            facts: &Facts::default(),
            random: &mut |_| {},
        })
    };
    let applied = decide(from, None)
        .unwrap_or_else(|refusal| panic!("{refusal:#?}"))
        .decided
        .to_string();
    match decide(to, Some(&applied)) {
        Ok(_) => Vec::new(),
        Err(refusal) => {
            assert!(
                !refusal.changes.is_empty(),
                "invalid, not unsafe: {refusal:#?}"
            );
            refusal
                .changes
                .iter()
                .map(|change| format!("{}: {}", change.field, change.why))
                .collect()
        }
    }
}

fn able(blocks: &[(&str, u8)], services: &[&str]) -> Value {
    let block = |(cidr, bits): &(&str, u8)| json!({"cidr": cidr, "hostSubnetLength": bits});
    json!({
        "clusterNetworks": blocks.iter().map(block).collect::<Vec<_>>(),
        "serviceNetwork": services,
        "defaultNetwork": {"type": "Able"},
    })
}

const V4: (&str, u8) = ("10.128.0.0/14", 9);
const OTHER_V4: (&str, u8) = ("10.0.0.0/14", 9);
const V6: (&str, u8) = ("fd01::/48", 64);
const S4: &str = "172.30.0.0/16";
const S6: &str = "fd02::/112";

fn sdn(changes: Value) -> Value {
    let mut spec = json!({
        "serviceNetwork": "172.30.0.0/16",
        "clusterNetworks": [
            {"cidr": "10.128.0.0/14", "hostSubnetLength": 9},
            {"cidr": "10.0.0.0/14", "hostSubnetLength": 9}
        ],
        "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": {"mode": "NetworkPolicy"}},
    });
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn refused_by_sdn(to: Value) -> Vec<String> {
    refused(sdn(json!({})), sdn(to))
}

const SAFE: [String; 0] = [];

// The rows of the matrix that the operator which first served this API went by.

#[test]
fn any_difference_of_cluster_networks_is_unsafe() {
    let change = |blocks: Value| refused_by_sdn(json!({"clusterNetworks": blocks}));
    let (first, second) = (
        json!({"cidr": "10.128.0.0/14", "hostSubnetLength": 9}),
        json!({"cidr": "10.0.0.0/14", "hostSubnetLength": 9}),
    );
    assert_eq!(
        change(json!([first])),
        ["spec.clusterNetworks 10.128.0.0/14, 10.0.0.0/14 -> 10.128.0.0/14"]
    );
    assert_eq!(
        change(json!([first, second, {"cidr": "10.4.0.0/14", "hostSubnetLength": 9}])),
        [
            "spec.clusterNetworks 10.128.0.0/14, 10.0.0.0/14 -> 10.128.0.0/14, 10.0.0.0/14, 10.4.0.0/14"
        ]
    );
    assert_eq!(
        change(json!([second, first])),
        [
            "spec.clusterNetworks[0].cidr 10.128.0.0/14 -> 10.0.0.0/14",
            "spec.clusterNetworks[1].cidr 10.0.0.0/14 -> 10.128.0.0/14"
        ],
        "the order counts"
    );
    assert_eq!(
        change(json!([{"cidr": "10.128.0.0/14", "hostSubnetLength": 10}, second])),
        ["spec.clusterNetworks[0].hostSubnetLength 9 -> 10"]
    );
    assert_eq!(
        change(json!([{"cidr": "10.128.0.0/13", "hostSubnetLength": 9}, second])),
        ["spec.clusterNetworks[0].cidr 10.128.0.0/14 -> 10.128.0.0/13"],
        "OpenShiftSDN cannot even grow one"
    );
}

#[test]
fn a_refused_second_family_names_the_network_that_cannot_serve_it() {
    let spec = |blocks: Value, services: Value| {
        json!({
            "clusterNetworks": blocks, "serviceNetwork": services, "defaultNetwork": {"type": "Flannel"}
        })
    };
    let (v4, v6) = (
        json!({"cidr": "10.128.0.0/14"}),
        json!({"cidr": "fd01::/48", "hostSubnetLength": 64}),
    );
    let before = crate::testing::try_decide(spec(json!([v4]), json!(S4)), None, &Facts::default())
        .unwrap()
        .decided
        .to_string();
    let refusal = crate::testing::try_decide(
        spec(json!([v4, v6]), json!([S4, S6])),
        Some(&before),
        &Facts::default(),
    )
    .unwrap_err();
    let found: Vec<_> = refusal
        .changes
        .iter()
        .map(|change| (change.field.as_str(), change.why.as_str()))
        .collect();
    let why = "Flannel cannot add or remove an address family once pods use it";
    assert_eq!(
        found,
        [("spec.serviceNetwork", why), ("spec.clusterNetworks", why)]
    );
}

#[test]
fn another_service_network_is_unsafe() {
    assert_eq!(
        refused_by_sdn(json!({"serviceNetwork": "172.31.0.0/16"})),
        ["spec.serviceNetwork 172.30.0.0/16 -> 172.31.0.0/16"]
    );
}

#[test]
fn another_type_is_unsafe_and_an_alias_is_none() {
    let change = |type_: &str| refused_by_sdn(json!({"defaultNetwork": {"type": type_}}));
    assert_eq!(
        change("None"),
        ["spec.defaultNetwork.type OpenShiftSDN -> None"]
    );
    assert_eq!(change("OpenshiftSDN"), SAFE);
    assert_eq!(
        refused(
            sdn(json!({"defaultNetwork": {"type": "OpenshiftSDN"}})),
            sdn(json!({}))
        ),
        SAFE
    );
}

#[test]
fn any_difference_of_the_settings_of_openshift_sdn_is_unsafe() {
    for (field, old, new, value) in [
        ("mode", "NetworkPolicy", "Subnet", json!("Subnet")),
        ("vxlanPort", "4789", "4790", json!(4790)),
        ("mtu", "1450", "1400", json!(1400)),
        ("useExternalOpenvswitch", "false", "true", json!(true)),
    ] {
        let mut config = json!({});
        config[field] = value;
        let found = refused_by_sdn(
            json!({"defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": config}}),
        );
        assert_eq!(
            found,
            [format!(
                "spec.defaultNetwork.openshiftSDNConfig.{field} {old} -> {new}"
            )]
        );
    }
}

#[test]
fn use_external_openvswitch_written_out_as_false_is_no_change() {
    let config = json!({"mode": "NetworkPolicy", "useExternalOpenvswitch": false});
    assert_eq!(
        refused_by_sdn(
            json!({"defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": config}})
        ),
        SAFE
    );
}

#[test]
fn the_mode_in_another_spelling_is_no_change() {
    for mode in ["Networkpolicy", "networkpolicy"] {
        let found = refused_by_sdn(json!({
            "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": {"mode": mode}}
        }));
        assert_eq!(found, SAFE, "{mode}");
    }
}

#[test]
fn a_default_that_is_written_out_or_left_out_is_no_change() {
    let all = json!({
        "mode": "NetworkPolicy", "vxlanPort": 4789, "mtu": 1450, "useExternalOpenvswitch": false
    });
    let explicit = sdn(json!({
        "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": all},
        "deployKubeProxy": false,
        "kubeProxyConfig": {"bindAddress": "0.0.0.0", "iptablesSyncPeriod": "30s"},
    }));
    let open = sdn(json!({"defaultNetwork": {"type": "OpenShiftSDN"}}));
    assert_eq!(refused(open.clone(), explicit.clone()), SAFE);
    assert_eq!(refused(explicit, open), SAFE);
}

#[test]
fn the_other_shape_of_the_api_is_no_change() {
    let mut later = sdn(json!({"serviceNetwork": ["172.30.0.0/16"]}));
    let blocks = json!([
        {"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "10.0.0.0/14", "hostPrefix": 23}
    ]);
    later.as_object_mut().unwrap().remove("clusterNetworks");
    later["clusterNetwork"] = blocks;
    assert_eq!(refused(sdn(json!({})), later), SAFE);
}

#[test]
fn the_service_proxy_may_change() {
    let config = json!({
        "kubeProxyConfig": {"iptablesSyncPeriod": "60s", "bindAddress": "192.0.2.1"},
        "deployKubeProxy": false
    });
    assert_eq!(refused_by_sdn(config), SAFE);
    let none =
        |deploy: bool| json!({"defaultNetwork": {"type": "None"}, "deployKubeProxy": deploy});
    assert_eq!(refused(none(false), none(true)), SAFE);
    assert_eq!(refused(none(true), none(false)), SAFE);
}

#[test]
fn additional_networks_may_come_change_and_go() {
    let network = |config: &str| {
        json!({
            "additionalNetworks": [{"type": "Raw", "name": "a", "rawCNIConfig": config}]
        })
    };
    assert_eq!(refused_by_sdn(network("{}")), SAFE);
    assert_eq!(
        refused(sdn(network("{}")), sdn(network(r#"{"a": 1}"#))),
        SAFE
    );
    assert_eq!(refused(sdn(network("{}")), sdn(json!({}))), SAFE);
}

#[test]
fn all_reasons_are_told_together_each_with_the_way_out() {
    let applied = decide(sdn(json!({}))).decided.to_string();
    let to = sdn(json!({
        "serviceNetwork": "172.31.0.0/16",
        "clusterNetworks": [{"cidr": "10.132.0.0/14", "hostSubnetLength": 9}],
        "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": {"mode": "Subnet"}},
    }));
    let refusal = try_decide(to, Some(&applied), &Facts::default()).unwrap_err();
    let fields: Vec<_> = refusal
        .changes
        .iter()
        .map(|change| &*change.field)
        .collect();
    assert_eq!(
        fields,
        [
            "spec.defaultNetwork.openshiftSDNConfig.mode",
            "spec.clusterNetworks",
            "spec.serviceNetwork"
        ]
    );
    assert_eq!(refusal.reason, "InvalidOperatorConfig");
    assert_eq!(refusal.problems.len(), 3);
    for problem in &refusal.problems {
        assert!(
            problem.message.contains(
                "kubectl -n openshift-cluster-network-operator delete configmap applied-default"
            ),
            "{problem}"
        );
    }
}

#[test]
fn without_the_record_everything_may_change() {
    let to = sdn(json!({
        "serviceNetwork": "172.31.0.0/16",
        "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": {"mode": "Subnet"}}
    }));
    let before = decide(sdn(
        json!({"defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": {"mtu": 8950}}}),
    ))
    .decided;
    let resource = resource(to);
    let input = Input {
        resource: &resource,
        record: None,
        decided: Some(&before),
        facts: &Facts::default(),
        random: &mut |_| {},
    };
    let decided = ClusterNetwork::new(settings())
        .decide(input)
        .unwrap()
        .decided;
    assert_eq!(decided["serviceNetwork"], "172.31.0.0/16");
    assert_eq!(
        decided["defaultNetwork"]["openshiftSDNConfig"]["mtu"], 8950,
        "what is left open is carried on all the same"
    );
}

// Capabilities of a test network that supports everything, by the rules of later releases.

#[test]
fn a_block_may_grow_and_not_shrink() {
    let one = |cidr: &'static str| able(&[(cidr, 9)], &[S4]);
    assert_eq!(
        refused_by_able(one("10.128.0.0/14"), one("10.128.0.0/13")),
        SAFE
    );
    assert!(
        refused_by_able(one("10.128.0.0/14"), one("10.128.0.0/15"))[0]
            .contains("a block may only grow")
    );
    assert!(
        refused_by_able(one("10.132.0.0/14"), one("10.128.0.0/13"))[0]
            .contains("must begin with the same address")
    );
    assert!(
        refused_by_able(one("10.128.0.0/14"), one("10.0.0.0/14"))[0]
            .contains("must begin with the same address")
    );
}

#[test]
fn a_block_may_grow_in_another_place_and_next_to_another_family() {
    let (first, second) = (
        able(&[V4, OTHER_V4], &[S4]),
        able(&[("10.0.0.0/13", 9), V4], &[S4]),
    );
    assert_eq!(refused_by_able(first.clone(), second.clone()), SAFE);
    assert!(refused_by_able(second, first)[0].contains("a block may only grow"));
    let dual = able(&[V4, V6], &[S4, S6]);
    assert_eq!(
        refused_by_able(
            dual.clone(),
            able(&[("10.128.0.0/13", 9), ("fd01::/47", 64)], &[S4, S6])
        ),
        SAFE
    );
    assert_eq!(
        refused_by_able(dual.clone(), able(&[V4, ("fd01::/49", 64)], &[S4, S6])).len(),
        1
    );
    assert!(
        refused_by_able(dual, able(&[V6, V4], &[S4, S6]))[0].contains("primary address family")
    );
}

#[test]
fn the_share_of_a_node_never_changes() {
    let found = refused_by_able(
        able(&[("10.128.0.0/14", 9)], &[S4]),
        able(&[("10.128.0.0/13", 10)], &[S4]),
    );
    assert_eq!(
        found,
        [
            "spec.clusterNetworks[0].hostSubnetLength: each node has its share of the block already, and shares of another size would overlap them"
        ]
    );
}

#[test]
fn a_block_of_the_same_family_is_neither_added_nor_removed() {
    assert_eq!(
        refused_by_able(able(&[V4], &[S4]), able(&[V4, OTHER_V4], &[S4])).len(),
        1
    );
    assert_eq!(
        refused_by_able(able(&[V4, OTHER_V4], &[S4]), able(&[V4], &[S4])).len(),
        1
    );
}

#[test]
fn an_address_family_may_be_added_and_removed() {
    for (single, dual) in [
        (able(&[V4], &[S4]), able(&[V4, V6], &[S4, S6])),
        (able(&[V6], &[S6]), able(&[V6, V4], &[S6, S4])),
    ] {
        assert_eq!(refused_by_able(single.clone(), dual.clone()), SAFE);
        assert_eq!(refused_by_able(dual, single), SAFE);
    }
    let several = able(&[V4, V6, ("fd03::/48", 64)], &[S4, S6]);
    assert_eq!(
        refused_by_able(able(&[V4], &[S4]), several),
        SAFE,
        "several new blocks of the new family"
    );
}

#[test]
fn existing_blocks_stay_in_place_when_a_family_is_added() {
    let single = able(&[V4], &[S4]);
    let services = refused_by_able(single.clone(), able(&[V4, V6], &["172.31.0.0/16", S6]));
    assert!(
        services[0].starts_with("spec.serviceNetwork: the first block must stay"),
        "{services:?}"
    );
    for blocks in [
        vec![V6, V4],
        vec![OTHER_V4, V6],
        vec![("10.128.0.0/13", 9), V6],
        vec![("10.128.0.0/14", 8), V6],
        vec![V4, OTHER_V4, V6],
    ] {
        let found = refused_by_able(single.clone(), able(&blocks, &[S4, S6]));
        assert_eq!(found.len(), 1, "{blocks:?}: {found:?}");
        assert!(
            found[0].starts_with("spec.clusterNetworks: when an address family is added"),
            "{found:?}"
        );
    }
    assert_eq!(
        refused_by_able(able(&[V4, V6], &[S4, S6]), able(&[V6], &[S6])).len(),
        2,
        "the primary family goes"
    );
}

#[test]
fn one_family_is_not_exchanged_for_the_other() {
    assert_eq!(
        refused_by_able(able(&[V4], &[S4]), able(&[V6], &[S6])).len(),
        2
    );
}

#[test]
fn a_network_that_cannot_adds_no_family() {
    let flannel = |blocks: Value, services: Value| {
        json!({
            "clusterNetworks": blocks, "serviceNetwork": services, "defaultNetwork": {"type": "Flannel"}
        })
    };
    let (v4, v6) = (
        json!({"cidr": "10.128.0.0/14"}),
        json!({"cidr": "fd01::/48"}),
    );
    let single = flannel(json!([v4]), json!(S4));
    assert_eq!(
        refused(single.clone(), flannel(json!([v4, v6]), json!([S4, S6]))).len(),
        2
    );
    assert_eq!(
        refused(
            single,
            flannel(json!([{"cidr": "10.128.0.0/13"}]), json!(S4))
        ),
        SAFE,
        "but its block may grow"
    );
}

#[test]
fn all_blocks_cannot_be_removed() {
    let none = |spec: Value| {
        let mut spec = spec;
        spec["defaultNetwork"] = json!({"type": "None"});
        spec
    };
    let with_blocks = none(able(&[V4], &[S4]));
    let found = refused(with_blocks, json!({"defaultNetwork": {"type": "None"}}));
    assert!(
        !found.is_empty(),
        "pods have addresses of the block that goes"
    );
}

// Laws.

fn any_spec() -> impl Strategy<Value = Value> {
    let blocks = prop::sample::subsequence(
        vec![V4, OTHER_V4, ("10.64.0.0/12", 7), V6, ("fd03::/56", 12)],
        1..=5,
    );
    (
        blocks,
        any::<bool>(),
        prop::option::of(576_u32..9000),
        prop::option::of(1_u32..60000),
        prop::sample::select(vec!["Able", "None", "OpenShiftSDN", "Flannel"]),
        any::<bool>(),
    )
        .prop_map(|(blocks, list, mtu, port, type_, written_out)| {
            let families =
                |needle: bool| blocks.iter().any(|(cidr, _)| cidr.contains(':') == needle);
            let services: Vec<_> = [(false, S4), (true, S6)]
                .into_iter()
                .filter(|(v6, _)| families(*v6))
                .map(|(_, block)| block)
                .collect();
            let mut spec = able(&blocks, &services);
            if let ([one], false) = (services.as_slice(), list) {
                spec["serviceNetwork"] = json!(one);
            }
            let config = json!({"mtu": mtu, "vxlanPort": port});
            let flannel = json!({"mtu": mtu, "port": port});
            spec["defaultNetwork"] =
                json!({"type": type_, "openshiftSDNConfig": config, "flannelConfig": flannel});
            if written_out {
                spec["kubeProxyConfig"] = json!({"iptablesSyncPeriod": "30s"});
            }
            spec
        })
}

static ALL: [&dyn Provider; 4] = [
    &Able,
    crate::providers::ALL[0],
    crate::providers::ALL[1],
    crate::providers::ALL[2],
];

proptest! {
    /// An applied configuration is no change of itself. Its canonical form is its own canonical
    /// form, and nothing is left open.
    #[test]
    fn to_apply_the_same_again_is_safe_and_changes_nothing(spec in any_spec(), mtu in 1400_u32..9000) {
        let domain = ClusterNetwork::with_providers(settings(), &ALL);
        let decide = |spec: Value, record: Option<&str>, mtu: u32| {
            let facts = Facts { host_mtu: Some(mtu), ..Facts::default() };
            domain.decide(Input { resource: &resource(spec), record, decided: None, facts: &facts, random: &mut |_| {} })
        };
        if let Ok(first) = decide(spec.clone(), None, mtu) {
            let record = first.decided.to_string();
            for spec in [spec, first.decided.clone()] {
                // On other nodes too: what is carried does not change by itself.
                let again = decide(spec, Some(&record), 9001).map_err(|refusal| TestCaseError::fail(format!("{refusal:#?}")))?;
                prop_assert_eq!(&again.decided, &first.decided);
                prop_assert_eq!(&again.units, &first.units);
            }
            // And without the record, from what was decided.
            prop_assert_eq!(decide(first.decided.clone(), None, 9001).unwrap().decided, first.decided);
        }
    }

    /// A safe change takes no address from a pod, unless the user gives up a whole address family.
    #[test]
    fn a_safe_change_keeps_every_address_of_a_family_that_stays(from in any_spec(), to in any_spec()) {
        let domain = ClusterNetwork::with_providers(settings(), &ALL);
        let decide = |spec: Value, record: Option<&str>| {
            domain.decide(Input { resource: &resource(spec), record, decided: None, facts: &Facts::default(), random: &mut |_| {} })
        };
        if let Ok(from) = decide(from, None)
            && let Ok(to) = decide(to, Some(&from.decided.to_string()))
        {
            let blocks = |decided: &Value| -> Vec<ipnet::IpNet> {
                let networks = decided["clusterNetworks"].as_array().unwrap();
                networks.iter().map(|network| network["cidr"].as_str().unwrap().parse().unwrap()).collect()
            };
            let (old, new) = (blocks(&from.decided), blocks(&to.decided));
            let stays = |old: &ipnet::IpNet| new.iter().any(|new| crate::addresses::family(new) == crate::addresses::family(old));
            for old in old.iter().filter(|old| stays(old)) {
                prop_assert!(new.iter().any(|new| new.contains(old)), "{old} of {old:?} is not in {new:?}");
            }
        }
    }
}
