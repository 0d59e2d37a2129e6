#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use crate::{
    testing::{fixed_bytes, resource},
    validate::read,
};
use proptest::prelude::*;
use serde_json::json;

fn spec(value: Value) -> NetworkAddonsConfigSpec {
    serde_json::from_value(value).unwrap()
}

fn filled(asked: Value, previous: Option<Value>) -> (Effective, Vec<Notice>) {
    let valid = validate(&read(&resource(asked)).unwrap()).unwrap();
    fill(
        valid,
        previous.map(spec).as_ref(),
        &Facts::default(),
        &mut fixed_bytes,
    )
}

fn json_of(asked: Value, previous: Option<Value>) -> Value {
    filled(asked, previous).0.to_json().unwrap()
}

#[test]
fn nothing_given_and_nothing_known_gives_the_defaults() {
    let previous_form = json_of(
        json!({"kubeMacPool": {}, "multus": {}, "multusDynamicNetworks": {}, "macvtap": {}}),
        None,
    );
    insta::with_settings!({sort_maps => true}, { insta::assert_json_snapshot!(previous_form) });
}

#[test]
fn a_given_value_counts_over_an_earlier_one() {
    let given = json!({
        "multus": {},
        "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:FF:FF"},
        "imagePullPolicy": "Always",
        "multusDynamicNetworks": {"hostCRISocketPath": "/run/k0s/containerd.sock"},
        "macvtap": {"devicePluginConfig": "mine"},
        "selfSignConfiguration": {
            "caRotateInterval": "10h", "caOverlapInterval": "2h", "certRotateInterval": "5h",
            "certOverlapInterval": "1h"
        },
    });
    let previous = json!({
        "multus": {},
        "kubeMacPool": {"rangeStart": "0a:00:00:00:00:00", "rangeEnd": "0a:00:00:00:ff:ff"},
        "imagePullPolicy": "IfNotPresent",
        "multusDynamicNetworks": {"hostCRISocketPath": "/run/crio/crio.sock"},
        "macvtap": {"devicePluginConfig": "theirs"},
        "selfSignConfiguration": {
            "caRotateInterval": "48h0m0s", "caOverlapInterval": "24h0m0s",
            "certRotateInterval": "24h0m0s", "certOverlapInterval": "12h0m0s"
        },
    });
    let effective = json_of(given.clone(), Some(previous));
    for (field, value) in given.as_object().unwrap() {
        assert_eq!(effective[field], *value, "{field}");
    }
}

#[test]
fn omitted_values_that_must_not_change_are_carried_over() {
    let previous = json!({
        "multus": {},
        "kubeMacPool": {"rangeStart": "02:12:34:00:00:00", "rangeEnd": "02:12:34:ff:ff:ff"},
        "imagePullPolicy": "Always",
        "multusDynamicNetworks": {"hostCRISocketPath": "/run/containerd/containerd.sock"},
        "macvtap": {"devicePluginConfig": "mine"},
        "selfSignConfiguration": {
            "caRotateInterval": "48h0m0s", "caOverlapInterval": "24h0m0s",
            "certRotateInterval": "24h0m0s", "certOverlapInterval": "12h0m0s"
        },
        "placementConfiguration": {"workloads": {"nodeSelector": {"a": "b"}}},
        "kubeSecondaryDNS": {"domain": "example.com"},
        "kubevirtIpamController": {"defaultNetworkNADNamespace": "ns"},
        "tlsSecurityProfile": {"type": "Old"},
    });
    let asked = json!({
        "multus": {}, "kubeMacPool": {}, "multusDynamicNetworks": {}, "macvtap": {},
        "kubeSecondaryDNS": {}, "kubevirtIpamController": {}
    });
    let (effective, notices) = filled(asked, Some(previous.clone()));
    let json = effective.to_json().unwrap();
    for field in [
        "kubeMacPool",
        "imagePullPolicy",
        "multusDynamicNetworks",
        "macvtap",
        "selfSignConfiguration",
    ] {
        assert_eq!(json[field], previous[field], "{field}");
    }
    assert_eq!(effective.workloads, workloads_by_default());
    assert_eq!(
        (
            json["kubeSecondaryDNS"].clone(),
            json["kubevirtIpamController"].clone(),
            json["tlsSecurityProfile"].clone()
        ),
        (json!({}), json!({}), Value::Null)
    );
    assert_eq!(notices, []);
}

#[test]
fn a_removed_pool_that_comes_back_gets_a_new_range() {
    let effective = json_of(
        json!({"kubeMacPool": {}}),
        Some(json!({"imagePullPolicy": "Always"})),
    );
    assert_eq!(
        effective["kubeMacPool"],
        json!({"rangeStart": "02:ab:cd:00:00:00", "rangeEnd": "02:ab:cd:ff:ff:ff"})
    );
}

#[test]
fn a_half_of_the_placement_that_is_given_replaces_its_default_as_a_whole() {
    let (effective, _) = filled(
        json!({
            "placementConfiguration": {"workloads": {"nodeSelector": {"a": "b"}, "affinity": {}}}
        }),
        None,
    );
    assert_eq!(effective.infra, infra_by_default());
    assert_eq!(
        effective.workloads,
        Placement {
            node_selector: Some([("a".to_owned(), "b".to_owned())].into()),
            ..Placement::default()
        }
    );
}

#[test]
fn invalid_values_of_the_original_are_not_carried_over_but_reported() {
    let previous = json!({
        "kubeMacPool": {"rangeStart": "0a:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:ff"},
        "selfSignConfiguration": {
            "caRotateInterval": "-1h", "caOverlapInterval": "-1h", "certRotateInterval": "-1h",
            "certOverlapInterval": "-1h"
        },
    });
    let (effective, notices) = filled(json!({"kubeMacPool": {}}), Some(previous));
    assert_eq!(
        effective.kube_mac_pool,
        Some(MacRange::random(&mut fixed_bytes))
    );
    assert_eq!(effective.self_sign, SelfSign::default());
    assert_eq!(
        notices
            .iter()
            .map(|notice| notice.about.as_str())
            .collect::<Vec<_>>(),
        ["kubeMacPool", "selfSignConfiguration"]
    );
    assert!(
        notices[0].message.contains("spec.kubeMacPool.rangeEnd"),
        "{}",
        notices[0].message
    );
}

#[test]
fn reports_of_nodes_are_shown_under_the_first_add_on_concerned() {
    use weft_plan::Node;
    let node = |kubelet: &str| Node {
        kubelet_version: kubelet.into(),
        ..Node::default()
    };
    let nodes = [
        ("a".to_owned(), node("v1.32.1+k3s1")),
        ("b".to_owned(), node("v1.32.1+k3s1")),
        ("c".to_owned(), node("v1.32.1")),
    ];
    let facts = Facts {
        nodes: nodes.into(),
        ..Facts::default()
    };
    let filled = |spec: Value| {
        fill(
            validate(&read(&resource(spec)).unwrap()).unwrap(),
            None,
            &facts,
            &mut fixed_bytes,
        )
    };
    let (effective, notices) = filled(json!({"linuxBridge": {}, "ovs": {}}));
    assert_eq!(
        effective.to_json().unwrap()["hostPaths"]["cniBinDir"],
        "/var/lib/rancher/k3s/data/cni"
    );
    assert_eq!(
        notices
            .iter()
            .map(|notice| notice.about.as_str())
            .collect::<Vec<_>>(),
        ["linuxBridge"]
    );
    assert!(
        notices[0].message.contains("node c looks like Kubeadm"),
        "{}",
        notices[0].message
    );
    assert_eq!(
        filled(json!({"kubeMacPool": {}})).1,
        [],
        "it needs nothing of the nodes"
    );
}

#[test]
fn folders_stay_while_nothing_is_known_of_the_nodes() {
    let preset = |facts: &Facts| {
        let previous = spec(json!({"hostPaths": {"preset": "K3s"}}));
        let valid = validate(&read(&resource(json!({"multus": {}}))).unwrap()).unwrap();
        fill(valid, Some(&previous), facts, &mut fixed_bytes)
            .0
            .host_paths
            .preset
    };
    assert_eq!(
        preset(&Facts {
            nodes_unknown: true,
            ..Facts::default()
        }),
        Preset::K3s
    );
    assert_eq!(
        preset(&Facts::default()),
        Preset::Kubeadm,
        "they do say what they are"
    );
}

/// A valid specification, with every field that is carried over present or not.
fn any_spec() -> impl Strategy<Value = Value> {
    let range = prop_oneof![
        Just(json!({})),
        any::<[u8; 5]>().prop_map(|tail| {
            let end = crate::mac::MacAddress::from([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]);
            json!({
                "rangeStart": crate::mac::MacAddress::from([2, tail[0], tail[1], tail[2], tail[3], tail[4]]).to_string(),
                "rangeEnd": end.to_string()
            })
        })
    ];
    let policy = prop_oneof![
        Just("Always"),
        Just("IfNotPresent"),
        Just("Never"),
        Just("")
    ];
    let rotation = prop::option::of((1_u32..50).prop_map(|hours| {
        let [ca, cert, overlap] =
            [hours * 4, hours * 2, hours].map(|hours| format!("{hours}h0m0s"));
        json!({
            "caRotateInterval": ca, "caOverlapInterval": overlap, "certRotateInterval": cert,
            "certOverlapInterval": overlap
        })
    }));
    let socket = prop::option::of("/[a-z]{1,5}/[a-z]{1,5}");
    let placement = prop::option::of(prop_oneof![
        Just(json!({})),
        Just(json!({"infra": {"affinity": {}}})),
        Just(json!({"workloads": {"nodeSelector": {"x": "y"}, "tolerations": []}}))
    ]);
    let additions = prop::sample::subsequence(
        vec![
            ("images", json!({"coreDNS": "registry.example/coredns:v1"})),
            ("imageRegistry", json!("registry.example/mirror")),
            ("imagePullSecrets", json!([{"name": "mirror"}])),
            (
                "resources",
                json!([
                    {"component": "ovs", "container": "ovs-cni-marker", "requests": {"cpu": 1}},
                    {"component": "ovs"}
                ]),
            ),
            (
                "hostPaths",
                json!({"preset": "K0s", "cniBinDir": "/plugins"}),
            ),
            ("driftPolicy", json!("Report")),
            ("operatorLogLevel", json!("Error")),
        ],
        0..=7,
    );
    (
        prop::option::of(range),
        policy,
        rotation,
        socket,
        placement,
        any::<[bool; 3]>(),
        additions,
    )
        .prop_map(
            |(pool, policy, rotation, socket, placement, [bridge, ovs, nmstate], additions)| {
                let mut spec = json!({"multus": {}, "imagePullPolicy": policy});
                let optional = [
                    ("kubeMacPool", pool),
                    ("selfSignConfiguration", rotation),
                    (
                        "multusDynamicNetworks",
                        socket.map(|socket| json!({"hostCRISocketPath": socket})),
                    ),
                    ("placementConfiguration", placement),
                    ("linuxBridge", bridge.then(|| json!({}))),
                    ("ovs", ovs.then(|| json!({}))),
                    ("nmstate", nmstate.then(|| json!({}))),
                ];
                for (field, value) in additions {
                    spec[field] = value;
                }
                for (field, value) in optional {
                    if let Some(value) = value {
                        spec[field] = value;
                    }
                }
                spec
            },
        )
}

proptest! {
    #[test]
    fn filling_what_is_full_changes_nothing(asked in any_spec(), before in prop::option::of(any_spec())) {
        let once = json_of(asked, before.map(|before| json_of(before, None)));
        prop_assert_eq!(&json_of(once.clone(), None), &once);
        prop_assert_eq!(&json_of(once.clone(), Some(once.clone())), &once);
    }

    #[test]
    fn the_same_again_with_the_last_result_known_gives_the_same(asked in any_spec(), before in any_spec()) {
        let first = json_of(asked.clone(), Some(json_of(before, None)));
        prop_assert_eq!(json_of(asked, Some(first.clone())), first);
    }

    /// A complete specification leads to one result, whatever the configurations before it.
    #[test]
    fn the_way_to_a_full_specification_does_not_matter(edits in prop::collection::vec(any_spec(), 0..5), last in any_spec()) {
        let last = json_of(last, None);
        let by_way = edits.into_iter().fold(None, |before, edit| Some(json_of(edit, before)));
        prop_assert_eq!(json_of(last.clone(), by_way), json_of(last, None));
    }
}

#[test]
fn a_tainted_control_plane_is_reported_only_while_infra_is_left_out() {
    use weft_plan::Node;
    let node = Node {
        is_control_plane: true,
        taint: Some("node-role.kubernetes.io/control-plane:NoSchedule".to_owned()),
        ..Node::default()
    };
    let facts = Facts {
        nodes: [("a".to_owned(), node)].into(),
        ..Facts::default()
    };
    let about = |spec: Value| {
        let valid = validate(&read(&resource(spec)).unwrap()).unwrap();
        let (_, notices) = fill(valid, None, &facts, &mut fixed_bytes);
        let about = notices.into_iter().map(|notice| notice.about);
        about.collect::<Vec<_>>()
    };
    let both = json!({"kubeSecondaryDNS": {}, "kubevirtIpamController": {}});
    assert_eq!(about(both), ["kubeSecondaryDNS"]);
    assert!(about(json!({"multus": {}})).is_empty());
    let placed = json!({"tolerations": [{"operator": "Exists"}]});
    assert!(
        about(json!({"kubeMacPool": {}, "placementConfiguration": {"infra": placed}})).is_empty()
    );
}
