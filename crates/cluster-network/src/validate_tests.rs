#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::{Value, json};
use weft_plan::{Facts, Node, report::FailureClass};

use crate::testing::{decide, problems, resource, try_decide};

/// The smallest configuration of the README of the operator that first served this API.
fn minimal() -> Value {
    json!({
        "serviceNetwork": "172.30.0.0/16",
        "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
        "defaultNetwork": {"type": "OpenShiftSDN"},
    })
}

fn with(changes: Value) -> Value {
    let mut spec = minimal();
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

/// The one problem of a specification.
fn problem(changes: Value) -> String {
    let mut found = problems(with(changes.clone()));
    assert_eq!(found.len(), 1, "{changes}: {found:#?}");
    found.remove(0)
}

fn dual_stack() -> Value {
    json!({
        "serviceNetwork": ["172.30.0.0/16", "fd02::/112"],
        "clusterNetworks": [
            {"cidr": "10.128.0.0/14"}, {"cidr": "fd01::/48", "hostSubnetLength": 64}
        ],
        "defaultNetwork": {"type": "Flannel"},
    })
}

#[test]
fn the_minimal_example_of_the_readme_is_valid() {
    assert_eq!(problems(minimal()), Vec::<String>::new());
    assert_eq!(problems(dual_stack()), Vec::<String>::new());
    assert_eq!(
        problems(json!({"defaultNetwork": {"type": "None"}})),
        Vec::<String>::new()
    );
}

#[test]
fn both_shapes_of_the_api_mean_the_same() {
    let later = json!({
        "serviceNetwork": ["172.30.0.0/16"],
        "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
        "defaultNetwork": {"type": "OpenshiftSDN", "openshiftSDNConfig": {"mode": "Networkpolicy"}},
    });
    assert_eq!(decide(later).decided, decide(minimal()).decided);
}

#[test]
fn all_problems_are_told_at_once() {
    let found = problems(json!({
        "serviceNetwork": "10.128.0.0/16",
        "clusterNetworks": [{"cidr": "x"}, {"cidr": "10.128.0.0/14", "hostSubnetLength": 19}],
        "defaultNetwork": {
            "type": "OpenShiftSDN",
            "openshiftSDNConfig": {"mode": "broken", "mtu": 70000, "vxlanPort": 66666}
        },
        "deployKubeProxy": true,
        "kubeProxyConfig": {"iptablesSyncPeriod": "abc", "bindAddress": "foo"},
    }));
    for field in [
        "spec.clusterNetworks[0].cidr",
        "spec.clusterNetworks[1].hostSubnetLength",
        "spec.serviceNetwork",
        "spec.defaultNetwork.openshiftSDNConfig.mode",
        "spec.defaultNetwork.openshiftSDNConfig.mtu",
        "spec.defaultNetwork.openshiftSDNConfig.vxlanPort",
        "spec.deployKubeProxy",
        "spec.kubeProxyConfig.iptablesSyncPeriod",
        "spec.kubeProxyConfig.bindAddress",
    ] {
        assert!(
            found
                .iter()
                .any(|problem| problem.starts_with(&format!("{field}: "))),
            "{field}: {found:#?}"
        );
    }
}

#[test]
fn an_unknown_type_is_told_beside_the_other_problems() {
    let found = problems(json!({
        "serviceNetwork": "x", "clusterNetworks": [{"cidr": "y"}],
        "defaultNetwork": {"type": "Calico"}
    }));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found[2].ends_with(r#""Calico" is not a type of network that Weft knows: choose one of OpenShiftSDN, Flannel, None"#),
        "{found:#?}"
    );
    assert!(
        problem(json!({"defaultNetwork": {}})).starts_with("spec.defaultNetwork.type: is missing")
    );
}

#[test]
fn the_case_of_type_and_mode_does_not_count() {
    let spelt = with(json!({
        "defaultNetwork": {
            "type": "openshiftsdn", "openshiftSDNConfig": {"mode": "networkPOLICY"}
        }
    }));
    assert_eq!(decide(spelt).decided, decide(minimal()).decided);
}

#[test]
fn blocks_are_read_and_canonical() {
    for (changes, expected) in [
        (
            json!({"clusterNetworks": [{"hostSubnetLength": 9}]}),
            "spec.clusterNetworks[0].cidr: is missing",
        ),
        (
            json!({"clusterNetworks": [{"cidr": "10.128.0.0", "hostSubnetLength": 9}]}),
            "in CIDR notation, like 10.128.0.0/14",
        ),
        (
            json!({"clusterNetworks": [{"cidr": "10.129.0.0/14", "hostSubnetLength": 9}]}),
            "write it 10.128.0.0/14",
        ),
        (
            json!({"serviceNetwork": "172.30.0.1/16"}),
            "spec.serviceNetwork: \"172.30.0.1/16\" names an address within a block, not the block: write it 172.30.0.0/16",
        ),
        (
            json!({"serviceNetwork": ["172.30.0.0/16", "172.31.0.0/16"]}),
            "are IPv4: give one block of each address family",
        ),
        (
            json!({"serviceNetwork": ["172.30.0.0/16", "172.31.0.0/16", "172.29.0.0/16"]}),
            "has 3 blocks",
        ),
        (
            json!({"serviceNetwork": ""}),
            "spec.serviceNetwork: is missing",
        ),
        (
            json!({"serviceNetwork": Value::Null}),
            "spec.serviceNetwork: is missing",
        ),
        (
            json!({"clusterNetworks": []}),
            "spec.clusterNetworks: is missing",
        ),
        (
            json!({"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}]}),
            "spec.clusterNetwork: is another spelling",
        ),
    ] {
        let found = problem(changes);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn blocks_do_not_overlap() {
    for (changes, expected) in [
        (
            json!({"serviceNetwork": "10.130.0.0/16"}),
            "spec.serviceNetwork: 10.130.0.0/16 overlaps 10.128.0.0/14 of spec.clusterNetworks[0].cidr",
        ),
        (
            json!({
                "clusterNetworks": [
                    {"cidr": "10.128.0.0/14", "hostSubnetLength": 9},
                    {"cidr": "10.0.0.0/8", "hostSubnetLength": 9}
                ]
            }),
            "spec.clusterNetworks[1].cidr: 10.0.0.0/8 overlaps 10.128.0.0/14 of spec.clusterNetworks[0].cidr",
        ),
        (
            json!({"serviceNetwork": "169.254.0.0/24"}),
            "169.254.0.0/24 overlaps 169.254.0.0/16, which is for single links",
        ),
        (
            json!({"serviceNetwork": "127.0.0.0/16"}),
            "the loopback interface",
        ),
    ] {
        let found = problem(changes);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn blocks_do_not_hold_the_addresses_of_nodes_unless_they_do_so_already() {
    let node = |address: &str| Node {
        addresses: vec![address.parse().unwrap()],
        ..Node::default()
    };
    let facts = Facts {
        nodes: [
            ("a".to_owned(), node("10.0.0.5")),
            ("b".to_owned(), node("10.128.7.1")),
        ]
        .into(),
        ..Facts::default()
    };
    let refusal = try_decide(minimal(), None, &facts).unwrap_err();
    assert_eq!(refusal.problems.len(), 1);
    let found = refusal.problems[0].to_string();
    assert!(found.starts_with("spec.clusterNetworks[0].cidr: 10.128.0.0/14 holds the addresses of nodes: b (10.128.7.1)."), "{found}");
    // A node that has come later stops nothing that runs.
    let applied = decide(minimal()).decided.to_string();
    let decision = try_decide(minimal(), Some(&applied), &facts).unwrap();
    assert!(
        decision
            .notices
            .iter()
            .any(|notice| notice.message.contains("b (10.128.7.1)")),
        "{:?}",
        decision.notices
    );
}

#[test]
fn a_service_network_that_the_cluster_contradicts_is_in_a_notice() {
    let of = |cidrs: &[&str], record: Option<&str>| {
        let facts = Facts {
            service_cidrs: cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
            ..Facts::default()
        };
        let notices = try_decide(minimal(), record, &facts).unwrap().notices;
        let mut messages = notices.into_iter().map(|notice| notice.message);
        messages.find(|message| message.contains("ServiceCIDR"))
    };
    assert_eq!(of(&["172.30.0.0/16"], None), None);
    assert_eq!(of(&[], None), None);
    // Also when it is forced, without a record, and for as long as it is so.
    let applied = decide(minimal()).decided.to_string();
    for record in [None, Some(&*applied)] {
        let found = of(&["10.96.0.0/16"], record).unwrap();
        assert!(
            found.starts_with("spec.serviceNetwork: 172.30.0.0/16 contradicts the cluster, which has 10.96.0.0/16 (ServiceCIDR kubernetes)."),
            "{found}"
        );
    }
}

#[test]
fn the_families_of_pods_and_services_match() {
    let mut spec = dual_stack();
    spec["serviceNetwork"] = json!("172.30.0.0/16");
    let found = problems(spec);
    assert_eq!(
        found,
        [
            "spec.serviceNetwork: has IPv4 while spec.clusterNetworks has IPv4 and IPv6: pods and services need the same address families"
        ]
    );
    let found = problems(with(json!({
        "serviceNetwork": "fd02::/112",
        "clusterNetworks": [{"cidr": "fd01::/48", "hostSubnetLength": 64}]
    })));
    assert_eq!(
        found,
        [
            "spec.clusterNetworks[0].cidr: fd01::/48 is IPv6, which OpenShiftSDN does not have: give a block of IPv4"
        ]
    );
}

#[test]
fn the_share_of_a_node_fits_into_its_block() {
    let block = |network: Value| json!({"clusterNetworks": [network]});
    for bits in [2, 9, 18] {
        assert_eq!(
            problems(with(block(
                json!({"cidr": "10.128.0.0/14", "hostSubnetLength": bits})
            ))),
            Vec::<String>::new(),
            "{bits}"
        );
    }
    for bits in [-1, 1, 19, 32, 300] {
        let found = problem(block(
            json!({"cidr": "10.128.0.0/14", "hostSubnetLength": bits}),
        ));
        assert!(
            found.ends_with(&format!(
                "hostSubnetLength: {bits} does not fit into 10.128.0.0/14: choose 2 to 18"
            )),
            "{found}"
        );
    }
    let found = problems(with(block(
        json!({"cidr": "10.128.0.0/14", "hostPrefix": 31}),
    )));
    assert!(
        found[0].ends_with("hostPrefix: 31 does not fit into 10.128.0.0/14: choose 14 to 30"),
        "{found:?}"
    );
    assert!(
        problem(block(json!({"cidr": "10.128.0.0/14"})))
            .contains("[0].hostSubnetLength: is missing")
    );
    let both = problems(with(block(
        json!({"cidr": "10.128.0.0/14", "hostSubnetLength": 9, "hostPrefix": 23}),
    )));
    assert!(both[0].contains("keep hostSubnetLength only"), "{both:?}");
    let found = problems(with(block(
        json!({"cidr": "10.128.0.0/31", "hostSubnetLength": 1}),
    )));
    assert!(found[0].contains("too small to be divided"), "{found:?}");
}

#[test]
fn a_network_has_as_many_blocks_as_it_can_divide() {
    let mut spec = dual_stack();
    spec["clusterNetworks"] =
        json!([{"cidr": "10.128.0.0/14"}, {"cidr": "10.132.0.0/14"}, {"cidr": "fd01::/48"}]);
    let found = problems(spec);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains("2 blocks of IPv4, and Flannel has at most 1"),
        "{found:#?}"
    );
}

#[test]
fn mtu_and_port_are_in_range() {
    let sdn = |config: Value| {
        json!({
            "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": config}
        })
    };
    for mtu in [576, 1450, 65536] {
        assert_eq!(
            problems(with(sdn(json!({"mtu": mtu})))),
            Vec::<String>::new()
        );
    }
    for (field, value) in [
        ("mtu", 575),
        ("mtu", 65537),
        ("mtu", 0),
        ("mtu", -1),
        ("vxlanPort", 0),
        ("vxlanPort", 65536),
    ] {
        let mut config = json!({});
        config[field] = value.into();
        assert!(problem(sdn(config)).starts_with(&format!(
            "spec.defaultNetwork.openshiftSDNConfig.{field}: {value} is out of range"
        )));
    }
    let mut spec = dual_stack();
    spec["defaultNetwork"]["flannelConfig"] = json!({"mtu": 1279});
    let found = problems(spec);
    assert!(found[0].contains("choose 1280 to 65535"), "{found:?}");
}

#[test]
fn settings_of_the_proxy_are_checked() {
    let proxy = |config: Value| json!({"kubeProxyConfig": config});
    for config in [
        json!({"iptablesSyncPeriod": "30s", "bindAddress": "0.0.0.0"}),
        json!({"iptablesSyncPeriod": "1m30s", "bindAddress": "::"}),
        json!({"iptablesSyncPeriod": "", "bindAddress": ""}),
    ] {
        assert_eq!(problems(with(proxy(config))), Vec::<String>::new());
    }
    for (config, expected) in [
        (
            json!({"iptablesSyncPeriod": "abc"}),
            "iptablesSyncPeriod: \"abc\" is not a duration",
        ),
        (json!({"iptablesSyncPeriod": "-30s"}), "is not above zero"),
        (
            json!({"bindAddress": "foo"}),
            "bindAddress: \"foo\" is not an IP address",
        ),
        (
            json!({"bindAddress": "::ffff:192.0.2.1"}),
            "is not an IP address",
        ),
    ] {
        assert!(
            problem(proxy(config.clone())).contains(expected),
            "{config}"
        );
    }
}

#[test]
fn a_second_service_proxy_beside_the_networks_own_is_refused() {
    assert!(
        problem(json!({"deployKubeProxy": true}))
            .contains("the default network connects services itself")
    );
    assert_eq!(
        problems(with(json!({"deployKubeProxy": false}))),
        Vec::<String>::new()
    );
}

#[test]
fn another_name_is_refused() {
    let mut other = resource(minimal());
    other["metadata"]["name"] = "other".into();
    let found = super::read(&other).unwrap_err();
    assert_eq!(
        found[0].to_string(),
        "metadata.name: \"other\" is not acted on: there is one NetworkConfig a cluster, and its name is default"
    );
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    let found = problems(with(
        json!({"defaultNetwork": "OpenShiftSDN", "deployKubeProxy": "yes"}),
    ));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found
            .iter()
            .all(|problem| problem.contains("has a value of the wrong type")),
        "{found:#?}"
    );
}

#[test]
fn settings_of_another_network_are_noticed() {
    let spec = with(json!({
        "defaultNetwork": {
            "type": "OpenShiftSDN", "flannelConfig": {"backend": "x"}, "otherConfig": {"a": "b"}
        }
    }));
    let notices: Vec<_> = decide(spec)
        .notices
        .into_iter()
        .map(|notice| notice.message)
        .collect();
    for field in ["flannelConfig", "otherConfig"] {
        let expected = format!(
            "spec.defaultNetwork.{field} has no effect: the network is of type OpenShiftSDN"
        );
        assert!(notices.contains(&expected), "{notices:?}");
    }
}

/// The same table is asked of the schema and of the API server, in the tests of the API.
#[test]
fn validation_agrees_with_the_api() {
    let cases: Value = serde_saphyr::from_str(include_str!(
        "../../api/src/tests/network_config/cases.yaml"
    ))
    .unwrap();
    for case in cases["accepted"].as_array().unwrap() {
        assert_eq!(
            problems(case["spec"].clone()),
            Vec::<String>::new(),
            "{}",
            case["name"]
        );
    }
    for case in cases["refused"].as_array().unwrap() {
        // A bad additional network stops none of the others: its unit alone waits, and status says
        // why.
        let refused = match try_decide(case["spec"].clone(), None, &Facts::default()) {
            Ok(decision) => decision
                .waits
                .iter()
                .any(|wait| wait.class == FailureClass::Invalid),
            Err(refusal) => refusal.reason == crate::INVALID,
        };
        assert!(refused, "{case}");
    }
}
