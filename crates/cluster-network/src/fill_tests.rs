#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::{Value, json};
use weft_plan::{CniReport, Facts};

use crate::testing::{decide, decide_established, try_decide};

fn sdn(config: Value) -> Value {
    json!({
        "serviceNetwork": "172.30.0.0/16",
        "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
        "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": config},
    })
}

fn nodes(mtus: &[u32]) -> Facts {
    let told = mtus.iter().enumerate();
    let told = told.map(|(index, mtu)| {
        (
            format!("node-{index}"),
            CniReport {
                mtu: Some(*mtu),
                ..CniReport::default()
            },
        )
    });
    Facts {
        cni_reports: told.collect(),
        ..Facts::default()
    }
}

fn mtu(decided: &Value) -> &Value {
    &decided["defaultNetwork"]["openshiftSDNConfig"]["mtu"]
}

#[test]
fn every_default_is_explicit() {
    assert_eq!(
        decide(sdn(json!({}))).decided,
        json!({
            "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
            "serviceNetwork": "172.30.0.0/16",
            "defaultNetwork": {"type": "OpenShiftSDN", "openshiftSDNConfig": {
                "mode": "NetworkPolicy", "vxlanPort": 4789, "mtu": 1450, "useExternalOpenvswitch": false,
            }},
            "deployKubeProxy": false,
            "kubeProxyConfig": {"iptablesSyncPeriod": "30s", "bindAddress": "0.0.0.0"},
        })
    );
}

#[test]
fn the_proxy_listens_on_all_addresses_of_the_first_family() {
    let address = |blocks: Value, services: Value| {
        let spec = json!({
            "serviceNetwork": services, "clusterNetworks": blocks,
            "defaultNetwork": {"type": "Flannel"}
        });
        decide(spec).decided["kubeProxyConfig"]["bindAddress"].clone()
    };
    let (v4, v6) = (
        json!({"cidr": "10.128.0.0/14"}),
        json!({"cidr": "fd01::/48"}),
    );
    assert_eq!(address(json!([v6]), json!("fd02::/112")), "::");
    assert_eq!(
        address(json!([v4, v6]), json!(["172.30.0.0/16", "fd02::/112"])),
        "0.0.0.0"
    );
    assert_eq!(
        address(json!([v6, v4]), json!(["fd02::/112", "172.30.0.0/16"])),
        "::"
    );
}

#[test]
fn the_mtu_is_the_smallest_of_the_nodes_less_the_overhead() {
    let of = |facts: &Facts| mtu(&try_decide(sdn(json!({})), None, facts).unwrap().decided).clone();
    assert_eq!(of(&nodes(&[9000])), 8950);
    assert_eq!(of(&nodes(&[9000, 1400, 1500])), 1350);
    assert_eq!(
        of(&Facts {
            host_mtu: Some(1300),
            ..nodes(&[9000])
        }),
        1250
    );
    assert_eq!(of(&nodes(&[65536])), 65486);
    let asked = try_decide(sdn(json!({"mtu": 1000})), None, &nodes(&[9000])).unwrap();
    assert_eq!(*mtu(&asked.decided), 1000, "what is asked for counts");
}

#[test]
fn the_mtu_follows_smaller_reports_until_the_network_is_on_all_nodes() {
    let first = try_decide(
        sdn(json!({})),
        None,
        &Facts {
            host_mtu: Some(9000),
            ..Facts::default()
        },
    )
    .unwrap()
    .decided
    .to_string();
    let of = |spec: Value, told: &[u32]| {
        mtu(&try_decide(sdn(spec), Some(&first), &nodes(told))
            .unwrap()
            .decided)
        .clone()
    };
    assert_eq!(
        of(json!({}), &[9000, 1500]),
        1450,
        "which is no refused change"
    );
    assert_eq!(of(json!({}), &[9100]), 8950, "it never goes up");
    assert_eq!(
        of(json!({"mtu": 8950}), &[1500]),
        8950,
        "what is asked for stays"
    );
    assert_eq!(
        of(json!({}), &[600]),
        8950,
        "pods need more than that would leave"
    );
    let other = sdn(json!({"vxlanPort": 4790}));
    let refusal = try_decide(other, Some(&first), &nodes(&[1500])).unwrap_err();
    assert_eq!(refusal.changes.len(), 1, "{refusal:#?}");

    // A configuration that the operator stored before its first write counts as well.
    let resource = crate::testing::resource(sdn(json!({})));
    let (facts, decided) = (nodes(&[1500]), serde_json::from_str(&first).unwrap());
    let input = weft_plan::Input {
        resource: &resource,
        record: None,
        decided: Some(&decided),
        facts: &facts,
        random: &mut |_| {},
    };
    let domain = crate::ClusterNetwork::new(crate::testing::settings());
    assert_eq!(
        *mtu(&weft_plan::Domain::decide(&domain, input).unwrap().decided),
        1450
    );
}

#[test]
fn while_no_node_has_told_that_is_said() {
    let said = |facts: &Facts| {
        try_decide(sdn(json!({})), None, facts)
            .unwrap()
            .notices
            .iter()
            .any(|notice| notice.message.contains("1500 is assumed"))
    };
    assert!(said(&Facts::default()));
    assert!(
        !said(&nodes(&[1500]))
            && !said(&Facts {
                host_mtu: Some(1500),
                ..Facts::default()
            })
    );
    assert!(
        decide(sdn(json!({"mtu": 1400}))).notices.is_empty(),
        "nothing is assumed"
    );
}

#[test]
fn the_mtu_stays_once_the_network_is_on_all_nodes() {
    let first = try_decide(sdn(json!({})), None, &nodes(&[9000]))
        .unwrap()
        .decided
        .to_string();
    let again = decide_established(sdn(json!({})), &first, &nodes(&[9000, 1500])).unwrap();
    assert_eq!(*mtu(&again.decided), 8950);
    let notices: Vec<_> = again
        .notices
        .iter()
        .map(|notice| &*notice.message)
        .collect();
    assert!(
        notices
            .iter()
            .any(|message| message.contains("9000 bytes") && message.contains("node-1 (1500)")),
        "{notices:?}"
    );
}

#[test]
fn an_mtu_that_leaves_too_little_is_refused_and_does_not_underflow() {
    for small in [0, 49, 50, 625] {
        let refusal = try_decide(sdn(json!({})), None, &nodes(&[small])).unwrap_err();
        let found = refusal.problems[0].to_string();
        assert!(
            found.contains(&format!(
                "the smallest MTU of the nodes is {small}, and 50 bytes"
            )),
            "{found}"
        );
        assert!(
            try_decide(sdn(json!({"mtu": 576})), None, &nodes(&[small])).is_ok(),
            "what is asked for counts"
        );
    }
    assert_eq!(
        *mtu(&try_decide(sdn(json!({})), None, &nodes(&[626]))
            .unwrap()
            .decided),
        576
    );
    let ipv6 = json!({
        "serviceNetwork": "fd02::/112", "clusterNetworks": [{"cidr": "fd01::/48"}],
        "defaultNetwork": {"type": "Flannel"}
    });
    assert!(
        try_decide(ipv6, None, &nodes(&[1300]))
            .unwrap_err()
            .problems[0]
            .message
            .contains("who need 1280")
    );
}

#[test]
fn settings_of_a_network_of_another_type_are_not_carried() {
    let before = decide(sdn(json!({"mtu": 1400}))).decided;
    let flannel = json!({
        "serviceNetwork": "172.30.0.0/16", "clusterNetworks": [{"cidr": "10.128.0.0/14"}],
        "defaultNetwork": {"type": "Flannel"}
    });
    let resource = crate::testing::resource(flannel);
    // As after a forced change: no record, but what an earlier pass decided.
    let input = weft_plan::Input {
        resource: &resource,
        record: None,
        decided: Some(&before),
        facts: &Facts::default(),
        random: &mut |_| {},
    };
    let decision = weft_plan::Domain::decide(
        &crate::ClusterNetwork::new(crate::testing::settings()),
        input,
    )
    .unwrap();
    assert_eq!(
        decision.decided["defaultNetwork"]["flannelConfig"]["mtu"],
        1450
    );
}
