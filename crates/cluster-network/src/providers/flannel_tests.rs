#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};
use weft_plan::{CniReport, Fact, Facts, Node};

use super::{Backend, NetConf};
use crate::testing::{decide, file, object, problems, refused, try_decide};

fn spec(config: Value) -> Value {
    json!({
        "serviceNetwork": "10.96.0.0/16",
        "clusterNetworks": [{"cidr": "10.244.0.0/16", "hostSubnetLength": 8}],
        "defaultNetwork": {"type": "Flannel", "flannelConfig": config},
    })
}

fn dual_stack(config: Value) -> Value {
    let mut spec = spec(config);
    spec["serviceNetwork"] = json!(["10.96.0.0/16", "fd00:96::/112"]);
    spec["clusterNetworks"] = json!([
        {"cidr": "10.244.0.0/16", "hostSubnetLength": 8},
        {"cidr": "fd00:244::/48", "hostSubnetLength": 64}
    ]);
    spec
}

fn net_conf(spec: Value) -> Value {
    let decision = decide(spec);
    let text = file(&decision, "kube-flannel-cfg", "net-conf.json");
    let typed: NetConf = serde_json::from_str(text).unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        serde_json::to_value(&typed).unwrap(),
        value,
        "read back as it was meant"
    );
    value
}

fn pod(spec: Value) -> Value {
    object(&decide(spec), "DaemonSet", "kube-flannel-ds")["spec"]["template"]["spec"].clone()
}

fn arguments(spec: Value) -> Vec<String> {
    let pod = pod(spec);
    let containers = pod["initContainers"].as_array().unwrap().iter();
    serde_json::from_value(
        containers
            .clone()
            .find(|one| one["name"] == "install-cni")
            .unwrap()["args"]
            .clone(),
    )
    .unwrap()
}

#[test]
fn each_back_end_gets_its_file() {
    let common = |backend: Value| {
        json!({
            "EnableIPv4": true, "EnableIPv6": false, "Network": "10.244.0.0/16",
            "EnableNFTables": false, "Backend": backend
        })
    };
    for (config, backend) in [
        (
            json!({}),
            json!({"Type": "vxlan", "VNI": 1, "Port": 8472, "MTU": 1500}),
        ),
        (
            json!({"backend": "VXLAN", "port": 4789, "vni": 77, "mtu": 8000}),
            json!({"Type": "vxlan", "VNI": 77, "Port": 4789, "MTU": 8050}),
        ),
        (json!({"backend": "host-gw"}), json!({"Type": "host-gw"})),
        (
            json!({"backend": "wireguard"}),
            json!({"Type": "wireguard", "ListenPort": 51820, "ListenPortV6": 51821, "MTU": 1500}),
        ),
    ] {
        assert_eq!(net_conf(spec(config)), common(backend));
    }
    assert_eq!(
        net_conf(spec(json!({"enableNFTables": true})))["EnableNFTables"],
        true
    );
}

#[test]
fn two_families_and_ipv6_alone() {
    let both = net_conf(dual_stack(json!({})));
    assert_eq!(
        (&both["Network"], &both["IPv6Network"]),
        (&json!("10.244.0.0/16"), &json!("fd00:244::/48"))
    );
    assert_eq!(
        (&both["EnableIPv4"], &both["EnableIPv6"]),
        (&json!(true), &json!(true))
    );
    let mut alone = spec(json!({"backend": "host-gw"}));
    alone["serviceNetwork"] = "fd00:96::/112".into();
    alone["clusterNetworks"] = json!([{"cidr": "fd00:244::/48", "hostSubnetLength": 64}]);
    let alone = net_conf(alone);
    assert_eq!(
        (
            &alone["EnableIPv4"],
            &alone["EnableIPv6"],
            alone.get("Network")
        ),
        (&json!(false), &json!(true), None)
    );
}

#[test]
fn pods_get_what_the_back_end_leaves_of_a_packet() {
    for (spec, mtu) in [
        (spec(json!({})), 1450),
        (dual_stack(json!({})), 1430),
        (spec(json!({"backend": "host-gw"})), 1500),
        (spec(json!({"backend": "wireguard"})), 1420),
        (spec(json!({"mtu": 1300})), 1300),
    ] {
        assert_eq!(arguments(spec).last().unwrap(), &format!("--mtu={mtu}"));
    }
}

#[test]
fn a_packet_of_a_pod_fits_through_the_tunnel_with_any_mtu() {
    for (config, overhead) in [
        (json!({"mtu": 1400}), 50),
        (json!({"mtu": 1400, "backend": "wireguard"}), 80),
    ] {
        let typed: NetConf = serde_json::from_value(net_conf(spec(config))).unwrap();
        let (Backend::Vxlan { mtu, .. } | Backend::Wireguard { mtu, .. }) = typed.backend else {
            unreachable!()
        };
        assert_eq!(mtu - overhead, 1400, "what flanneld makes of it");
    }
}

#[test]
fn by_default_weft_configures_the_bridge_itself() {
    let pod = pod(spec(json!({})));
    let names: Vec<_> = pod["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].clone())
        .collect();
    assert_eq!(names, ["install-cni"]);
    let init = &pod["initContainers"][0];
    assert_eq!(
        (&init["image"], &init["command"]),
        (
            &json!("registry.example/operator-image:1"),
            &json!(["weft", "node", "cni-config"])
        )
    );
    assert_eq!(
        arguments(spec(json!({}))),
        [
            "--node-name=$(NODE_NAME)",
            "--conf-dir=/host/etc/cni/net.d",
            "--bin-dir=/host/opt/cni/bin",
            "--name=10-flannel.conflist",
            "--mtu=1450"
        ]
    );
}

#[test]
fn the_classic_plugin_is_installed_and_configured() {
    let classic = || spec(json!({"cniPlugin": "Flannel"}));
    let pod = pod(classic());
    assert_eq!(pod["initContainers"][0]["name"], "install-cni-plugin");
    assert_eq!(
        pod["initContainers"][0]["image"],
        "registry.example/flannel-cni-plugin-image:1"
    );
    assert_eq!(arguments(classic()).last().unwrap(), "--cni-type=flannel");
}

#[test]
fn every_container_that_speaks_with_the_api_server_knows_where_it_is() {
    let pod = pod(spec(json!({})));
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        let value = |name: &str| {
            container["env"]
                .as_array()
                .unwrap()
                .iter()
                .find(|variable| variable["name"] == name)
                .map(|variable| variable["value"].clone())
        };
        assert_eq!(value("KUBERNETES_SERVICE_HOST"), Some(json!("api.example")));
        assert_eq!(value("KUBERNETES_SERVICE_PORT"), Some(json!("6443")));
    }
}

#[test]
fn fields_that_may_not_change_under_pods_are_refused() {
    let path = "spec.defaultNetwork.flannelConfig";
    for (config, change) in [
        (
            json!({"backend": "host-gw", "mtu": 1450}),
            "backend vxlan -> host-gw",
        ),
        (json!({"port": 4789}), "port 8472 -> 4789"),
        (json!({"vni": 2}), "vni 1 -> 2"),
        (json!({"mtu": 1400}), "mtu 1450 -> 1400"),
        (
            json!({"cniPlugin": "flannel"}),
            "cniPlugin bridge -> flannel",
        ),
    ] {
        assert_eq!(
            refused(spec(json!({})), spec(config)),
            [format!("{path}.{change}")]
        );
    }
    for safe in [
        json!({"enableNFTables": true}),
        json!({"backend": "Vxlan", "port": 8472, "vni": 1, "mtu": 1450, "cniPlugin": "bridge"}),
    ] {
        assert_eq!(refused(spec(json!({})), spec(safe)), [""; 0]);
    }
}

#[test]
fn settings_that_do_not_go_together_are_named() {
    for (spec, field) in [
        (spec(json!({"backend": "udp"})), "backend"),
        (spec(json!({"backend": "host-gw", "port": 1})), "port"),
        (spec(json!({"port": 0})), "port"),
        (
            dual_stack(json!({"backend": "wireguard", "port": 65535})),
            "port",
        ),
        (spec(json!({"backend": "wireguard", "vni": 1})), "vni"),
        (spec(json!({"vni": 16_777_216})), "vni"),
        (spec(json!({"mtu": 575})), "mtu"),
        (spec(json!({"mtu": 65536})), "mtu"),
        (dual_stack(json!({"mtu": 1279})), "mtu"),
        (spec(json!({"cniPlugin": "macvlan"})), "cniPlugin"),
    ] {
        let found = problems(spec.clone());
        assert!(
            found.len() == 1
                && found[0].starts_with(&format!("spec.defaultNetwork.flannelConfig.{field}: ")),
            "{spec} gives {found:#?}"
        );
    }
    assert_eq!(
        problems(spec(json!({"backend": "wireguard", "port": 65535}))),
        [""; 0]
    );
}

#[test]
fn missing_parts_of_nodes_are_reported() {
    let node = |cidrs: &[&str]| Node {
        pod_cidrs: cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
        ..Node::default()
    };
    let notices = |facts: &Facts| {
        let notices = try_decide(spec(json!({})), None, facts).unwrap().notices;
        notices
            .into_iter()
            .map(|notice| notice.message)
            .collect::<Vec<_>>()
    };
    let well = Facts {
        nodes: [("a".to_owned(), node(&["10.244.3.0/24"]))].into(),
        host_mtu: Some(1500),
        ..Facts::default()
    };
    assert_eq!(notices(&well), [""; 0]);
    let mut dual = well.clone();
    dual.nodes
        .insert("d".into(), node(&["10.244.4.0/24", "fd00:4::/64"]));
    assert_eq!(notices(&dual), [""; 0], "its second family is for others");
    dual.nodes.insert("e".into(), node(&["fd00:5::/64"]));
    let other_family = notices(&dual);
    assert!(
        other_family[0].starts_with("the pod CIDR of node e is outside"),
        "{other_family:?}"
    );
    let mut ill = well.clone();
    ill.nodes.insert("b".into(), node(&[]));
    ill.nodes.insert("c".into(), node(&["10.0.0.0/24"]));
    ill.nodes.insert(
        "w".into(),
        Node {
            operating_system: "windows".into(),
            ..Node::default()
        },
    );
    let told = |plugins: &[&str], files: &[&str]| {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        CniReport {
            missing_plugins: owned(plugins),
            shadowed_by: owned(files),
            ..CniReport::default()
        }
    };
    for name in ["a", "b", "c", "d", "e"] {
        ill.cni_reports
            .insert(name.into(), told(&["portmap", "bridge"], &[]));
    }
    ill.cni_reports
        .insert("f".into(), told(&[], &["05-cilium.conflist"]));
    let found = notices(&ill);
    let expected = [
        "no pod CIDR for node b:",
        "the pod CIDR of node c is outside of spec.clusterNetworks (10.244.0.0/16)",
        "node a, b, c and 2 more lacks CNI plugins that pods are connected by (bridge, portmap)",
        "on node f another CNI configuration comes first in /etc/cni/net.d (05-cilium.conflist)",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (notice, expected) in found.iter().zip(expected) {
        assert!(notice.starts_with(expected), "{notice}");
    }
}

/// A running Flannel of another owner with this back end.
fn running(net: Value) -> Facts {
    let map = json!({
        "metadata": {"name": "kube-flannel-cfg", "namespace": "kube-flannel"},
        "data": {"net-conf.json": net.to_string(), "cni-conf.json": "{}"}
    });
    Facts {
        foreign_flannel: serde_json::from_value(Fact::Flannel.view(&map)).unwrap(),
        ..Facts::default()
    }
}

fn adopted(config: Value, facts: &Facts) -> Value {
    let decision = try_decide(spec(config), None, facts).unwrap();
    serde_json::from_str(file(&decision, "kube-flannel-cfg", "net-conf.json")).unwrap()
}

#[test]
fn the_settings_of_the_nodes_stay_when_weft_adopts_their_flannel() {
    for backend in [
        json!({"Type": "vxlan", "VNI": 7, "Port": 4789, "MTU": 1400, "DirectRouting": true}),
        json!({"Type": "wireguard", "ListenPort": 51900, "ListenPortV6": 51901, "MTU": 1400}),
        json!({"Type": "host-gw"}),
    ] {
        let net = json!({
            "EnableIPv4": true, "EnableIPv6": false, "Network": "10.244.0.0/16",
            "EnableNFTables": true, "Backend": backend
        });
        assert_eq!(adopted(json!({}), &running(net.clone())), net);
    }
    // The user's own values count.
    let net = json!({"Backend": {"Type": "vxlan", "MTU": 1400, "DirectRouting": true}});
    let given = adopted(json!({"mtu": 1200, "directRouting": false}), &running(net));
    assert_eq!(
        given["Backend"],
        json!({"Type": "vxlan", "VNI": 1, "Port": 8472, "MTU": 1250})
    );
}

#[test]
fn weft_adopts_no_flannel_with_a_setting_that_it_cannot_keep() {
    let refused = |config: Value, net: Value| {
        let refusal = try_decide(spec(config), None, &running(net)).err();
        let problems = refusal.map(|refusal| refusal.problems).unwrap_or_default();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (key, value, shown) in [
        ("GBP", json!(true), ": true"),
        ("Learning", json!(true), ": true"),
        ("MacPrefix", json!("0a-01"), r#": "0a-01""#),
    ] {
        let said = refused(json!({}), json!({"Backend": {"Type": "vxlan", key: value}}));
        assert_eq!(said.len(), 1, "{key}");
        assert!(
            said[0].contains(&format!("has Backend.{key}{shown} in")),
            "{}",
            said[0]
        );
    }
    let wireguard = json!({"Backend": {
        "Type": "wireguard", "PSK": "s3cret", "PersistentKeepaliveInterval": 25, "Mode": "auto"
    }});
    let said = refused(json!({}), wireguard.clone());
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(!said.concat().contains("s3cret"), "{said:?}");
    assert_eq!(
        refused(json!({"backend": "vxlan"}), wireguard),
        [""; 0],
        "another back end is asked for"
    );
    let said = refused(json!({}), json!({"Backend": {"Type": "ipip"}}));
    assert!(said[0].contains("has the back end ipip"), "{said:?}");
    // flanneld takes udp then.
    let said = refused(json!({}), json!({"Network": "10.244.0.0/16"}));
    assert!(said[0].contains("has the back end udp"), "{said:?}");
    // The controller-manager divides the block.
    let subnets = json!({"SubnetLen": 26, "Backend": {"Type": "vxlan"}});
    assert_eq!(refused(json!({}), subnets), [""; 0]);
}
