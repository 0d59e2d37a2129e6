#![allow(clippy::unwrap_used, clippy::panic)]
use serde_json::{Value, json};
use weft_plan::{Decision, Facts, kinds};

use crate::testing::{decide, file, object, problems, try_decide};

fn spec(proxy: Value) -> Value {
    json!({
        "serviceNetwork": "10.96.0.0/16",
        "clusterNetworks": [{"cidr": "10.244.0.0/16", "hostSubnetLength": 8}],
        "defaultNetwork": {"type": "None"},
        "kubeProxyConfig": proxy,
    })
}

fn with(arguments: Value) -> Value {
    spec(json!({"proxyArguments": arguments}))
}

fn configuration(decision: &Decision) -> Value {
    let text = file(decision, "proxy-config", "kube-proxy-config.yaml");
    let typed: super::file::KubeProxyConfiguration = serde_saphyr::from_str(text).unwrap();
    let value: Value = serde_saphyr::from_str(text).unwrap();
    assert_eq!(
        serde_json::to_value(&typed).unwrap(),
        value,
        "read back as it was meant"
    );
    value
}

#[test]
fn the_defaults_are_made_explicit() {
    assert_eq!(
        configuration(&decide(spec(json!({})))),
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "bindAddress": "0.0.0.0", "healthzBindAddress": "0.0.0.0:10256", "metricsBindAddress": "0.0.0.0:9101",
            "clusterCIDR": "10.244.0.0/16", "mode": "iptables",
            "iptables": {"syncPeriod": "30s"}, "nftables": {"syncPeriod": "30s"},
        })
    );
    let effective = decide(spec(json!({}))).decided;
    assert_eq!(
        effective["kubeProxyConfig"],
        json!({"bindAddress": "0.0.0.0", "iptablesSyncPeriod": "30s"})
    );
    assert_eq!(effective["deployKubeProxy"], true);
}

/// Each argument with its place in the file.
#[test]
fn every_argument_has_its_place() {
    for (argument, value, pointer, expected) in [
        (
            "bind-address",
            "192.0.2.1",
            "/bindAddress",
            json!("192.0.2.1"),
        ),
        (
            "healthz-bind-address",
            "127.0.0.1",
            "/healthzBindAddress",
            json!("127.0.0.1:10256"),
        ),
        (
            "metrics-bind-address",
            "::1",
            "/metricsBindAddress",
            json!("[::1]:9101"),
        ),
        ("enable-profiling", "true", "/enableProfiling", json!(true)),
        ("profiling", "T", "/enableProfiling", json!(true)),
        (
            "show-hidden-metrics-for-version",
            "1.35",
            "/showHiddenMetricsForVersion",
            json!("1.35"),
        ),
        (
            "feature-gates",
            "A=true, B=false",
            "/featureGates",
            json!({"A": true, "B": false}),
        ),
        (
            "cluster-cidr",
            "10.0.0.0/8,fd00::/8",
            "/clusterCIDR",
            json!("10.0.0.0/8,fd00::/8"),
        ),
        ("proxy-mode", "nftables", "/mode", json!("nftables")),
        ("proxy-mode", "ipvs", "/mode", json!("ipvs")),
        (
            "detect-local-mode",
            "NodeCIDR",
            "/detectLocalMode",
            json!("NodeCIDR"),
        ),
        (
            "pod-bridge-interface",
            "cni0",
            "/detectLocal/bridgeInterface",
            json!("cni0"),
        ),
        (
            "pod-interface-name-prefix",
            "veth",
            "/detectLocal/interfaceNamePrefix",
            json!("veth"),
        ),
        (
            "nodeport-addresses",
            "10.0.0.0/8,192.0.2.0/24",
            "/nodePortAddresses",
            json!(["10.0.0.0/8", "192.0.2.0/24"]),
        ),
        (
            "nodeport-addresses",
            "primary",
            "/nodePortAddresses",
            json!(["primary"]),
        ),
        (
            "config-sync-period",
            "15m",
            "/configSyncPeriod",
            json!("15m"),
        ),
        (
            "proxy-port-range",
            "1000-2000",
            "/portRange",
            json!("1000-2000"),
        ),
        (
            "iptables-masquerade-bit",
            "31",
            "/iptables/masqueradeBit",
            json!(31),
        ),
        (
            "iptables-masquerade-bit",
            "3",
            "/nftables/masqueradeBit",
            json!(3),
        ),
        (
            "nftables-masquerade-bit",
            "4",
            "/nftables/masqueradeBit",
            json!(4),
        ),
        (
            "masquerade-all",
            "true",
            "/iptables/masqueradeAll",
            json!(true),
        ),
        (
            "masquerade-all",
            "true",
            "/nftables/masqueradeAll",
            json!(true),
        ),
        (
            "iptables-localhost-nodeports",
            "false",
            "/iptables/localhostNodePorts",
            json!(false),
        ),
        (
            "iptables-sync-period",
            "45s",
            "/iptables/syncPeriod",
            json!("45s"),
        ),
        (
            "iptables-sync-period",
            "45s",
            "/nftables/syncPeriod",
            json!("45s"),
        ),
        (
            "iptables-min-sync-period",
            "0",
            "/iptables/minSyncPeriod",
            json!("0s"),
        ),
        (
            "nftables-sync-period",
            "1m",
            "/nftables/syncPeriod",
            json!("1m"),
        ),
        (
            "nftables-min-sync-period",
            "2s",
            "/nftables/minSyncPeriod",
            json!("2s"),
        ),
        ("ipvs-sync-period", "1m", "/ipvs/syncPeriod", json!("1m")),
        (
            "ipvs-min-sync-period",
            "1s",
            "/ipvs/minSyncPeriod",
            json!("1s"),
        ),
        ("ipvs-scheduler", "lc", "/ipvs/scheduler", json!("lc")),
        (
            "ipvs-exclude-cidrs",
            "10.9.0.0/16",
            "/ipvs/excludeCIDRs",
            json!(["10.9.0.0/16"]),
        ),
        ("ipvs-strict-arp", "true", "/ipvs/strictARP", json!(true)),
        ("ipvs-tcp-timeout", "0s", "/ipvs/tcpTimeout", json!("0s")),
        (
            "ipvs-tcpfin-timeout",
            "10s",
            "/ipvs/tcpFinTimeout",
            json!("10s"),
        ),
        ("ipvs-udp-timeout", "20s", "/ipvs/udpTimeout", json!("20s")),
        (
            "conntrack-max-per-core",
            "0",
            "/conntrack/maxPerCore",
            json!(0),
        ),
        ("conntrack-min", "5", "/conntrack/min", json!(5)),
        (
            "conntrack-tcp-timeout-established",
            "0s",
            "/conntrack/tcpEstablishedTimeout",
            json!("0s"),
        ),
        (
            "conntrack-tcp-timeout-close-wait",
            "1h",
            "/conntrack/tcpCloseWaitTimeout",
            json!("1h"),
        ),
        (
            "conntrack-tcp-be-liberal",
            "true",
            "/conntrack/tcpBeLiberal",
            json!(true),
        ),
        (
            "conntrack-udp-timeout",
            "30s",
            "/conntrack/udpTimeout",
            json!("30s"),
        ),
        (
            "conntrack-udp-timeout-stream",
            "5m",
            "/conntrack/udpStreamTimeout",
            json!("5m"),
        ),
    ] {
        // The last of several counts.
        let file = configuration(&decide(with(json!({argument: ["nonsense", value]}))));
        assert_eq!(file.pointer(pointer), Some(&expected), "{argument}={value}");
    }
}

#[test]
fn the_users_arguments_win_over_fields_and_fields_over_defaults() {
    let both = json!({
        "bindAddress": "192.0.2.1", "iptablesSyncPeriod": "40s",
        "proxyArguments": {"iptables-sync-period": ["50s"]}
    });
    let file = configuration(&decide(spec(both)));
    assert_eq!(
        (&file["bindAddress"], &file["iptables"]["syncPeriod"]),
        (&json!("192.0.2.1"), &json!("50s"))
    );
}

#[test]
fn arguments_that_are_wrong_are_named_all_at_once() {
    for (argument, value) in [
        ("bind-address", "foo"),
        ("healthz-bind-address", "1.2.3"),
        ("enable-profiling", "yes"),
        ("feature-gates", "A"),
        ("cluster-cidr", "10.0.0.0"),
        ("cluster-cidr", "10.0.0.0/8,11.0.0.0/8"),
        ("proxy-mode", "userspace"),
        ("detect-local-mode", "Guess"),
        ("detect-local-mode", "BridgeInterface"),
        ("detect-local-mode", "InterfaceNamePrefix"),
        ("nodeport-addresses", "primary,10.0.0.0/8"),
        ("config-sync-period", "0"),
        ("iptables-sync-period", "abc"),
        ("iptables-min-sync-period", "31s"),
        ("proxy-port-range", "2-1"),
        ("iptables-masquerade-bit", "32"),
        ("ipvs-exclude-cidrs", "x"),
        ("ipvs-tcp-timeout", "-1s"),
        ("conntrack-min", "-1"),
        ("metrics-port", "9102"),
        ("healthz-port", "0"),
    ] {
        let found = problems(with(json!({argument: [value]})));
        assert!(
            found.len() == 1
                && found[0]
                    .starts_with(&format!("spec.kubeProxyConfig.proxyArguments.{argument}: ")),
            "{argument}={value}: {found:#?}"
        );
    }
    let many = problems(with(json!({
        "bind-address": ["foo"], "proxy-mode": ["x"], "conntrack-min": ["y"], "zzz": ["1"],
        "aaa": [""]
    })));
    assert_eq!(many.len(), 4, "{many:#?}");
    assert!(
        many.iter()
            .any(|problem| problem.contains("unused arguments: zzz")),
        "{many:#?}"
    );
    for (field, value) in [
        ("iptablesSyncPeriod", "abc"),
        ("iptablesSyncPeriod", "0s"),
        ("bindAddress", "foo"),
    ] {
        let found = problems(spec(json!({field: value})));
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("spec.kubeProxyConfig.{field}: ")),
            "{found:#?}"
        );
    }
    assert_eq!(
        problems(with(
            json!({"metrics-port": ["9101"], "healthz-port": ["10256"]})
        )),
        [""; 0],
        "what it is anyway"
    );
}

#[test]
fn arguments_that_mean_nothing_here_are_an_error() {
    let found = problems(with(json!({"udp-timeout": ["1s"], "cleanup": ["true"]})));
    assert_eq!(
        found,
        [
            "spec.kubeProxyConfig.proxyArguments: unused arguments: cleanup, udp-timeout: kube-proxy's configuration file has no place for them; remove them"
        ]
    );
}

#[test]
fn two_families_and_several_blocks() {
    let blocks = |blocks: Value| {
        let mut spec = spec(json!({}));
        spec["clusterNetworks"] = blocks;
        spec
    };
    let (v4, v6) = (
        json!({"cidr": "10.244.0.0/16", "hostSubnetLength": 8}),
        json!({"cidr": "fd00:244::/48", "hostSubnetLength": 64}),
    );
    let mut both = blocks(json!([v4, v6]));
    both["serviceNetwork"] = json!(["10.96.0.0/16", "fd00:96::/112"]);
    let both = configuration(&decide(both));
    assert_eq!(
        (&both["clusterCIDR"], &both["bindAddress"]),
        (&json!("10.244.0.0/16,fd00:244::/48"), &json!("0.0.0.0"))
    );

    let mut alone = blocks(json!([v6]));
    alone["serviceNetwork"] = "fd00:96::/112".into();
    let alone = configuration(&decide(alone));
    assert_eq!(
        (&alone["bindAddress"], &alone["healthzBindAddress"]),
        (&json!("::"), &json!("[::]:10256"))
    );

    let several = blocks(json!([v4, {"cidr": "10.0.0.0/16", "hostSubnetLength": 8}]));
    let decision = decide(several.clone());
    assert_eq!(configuration(&decision).get("clusterCIDR"), None);
    assert!(
        decision
            .notices
            .iter()
            .any(|notice| notice.message.contains("detect-local-mode")),
        "{:?}",
        decision.notices
    );
    let mut said = several;
    said["kubeProxyConfig"] = json!({"proxyArguments": {"detect-local-mode": ["NodeCIDR"]}});
    let decision = decide(said);
    assert_eq!(configuration(&decision)["detectLocalMode"], "NodeCIDR");
    assert!(
        !decision
            .notices
            .iter()
            .any(|notice| notice.message.contains("detect-local-mode")),
        "{:?}",
        decision.notices
    );
}

fn type_of(name: &str, deploy: Value) -> Value {
    let mut spec = spec(json!({}));
    spec["defaultNetwork"]["type"] = name.into();
    spec["deployKubeProxy"] = deploy;
    spec
}

#[test]
fn it_is_deployed_unless_somebody_brings_a_service_proxy() {
    let kubeadm = Facts {
        foreign_kube_proxy: true,
        ..Facts::default()
    };
    let (none, asked, refused) = (json!(null), json!(true), json!(false));
    for (network, deploy, facts, deployed, waits) in [
        ("None", &none, &Facts::default(), true, false),
        ("Flannel", &none, &Facts::default(), true, false),
        ("OpenShiftSDN", &none, &Facts::default(), false, false),
        ("OpenShiftSDN", &none, &kubeadm, false, false),
        ("Flannel", &none, &kubeadm, false, false),
        ("Flannel", &refused, &kubeadm, false, false),
        ("Flannel", &refused, &Facts::default(), false, false),
        ("Flannel", &asked, &Facts::default(), true, false),
        ("Flannel", &asked, &kubeadm, true, true),
    ] {
        let decision = try_decide(type_of(network, deploy.clone()), None, facts).unwrap();
        let about = format!("{network} {deploy} {}", facts.foreign_kube_proxy);
        assert_eq!(
            decision.units.iter().any(|unit| unit.name == "kube-proxy"),
            deployed,
            "{about}"
        );
        assert_eq!(decision.decided["deployKubeProxy"], deployed, "{about}");
        assert_eq!(
            decision.waits.iter().any(|wait| wait.unit == "kube-proxy"),
            waits,
            "{about}"
        );
        let told = decision.notices.iter().any(|notice| {
            notice.about == "kube-proxy" && notice.message.contains("is not deployed")
        });
        assert_eq!(
            told,
            network == "Flannel" && deploy.is_null() && facts.foreign_kube_proxy,
            "{about}: {:?}",
            decision.notices
        );
    }
}

#[test]
fn it_does_not_begin_by_itself_where_another_one_goes() {
    let kubeadm = Facts {
        foreign_kube_proxy: true,
        ..Facts::default()
    };
    let with_another = try_decide(type_of("Flannel", json!(null)), None, &kubeadm)
        .unwrap()
        .decided;
    let alone = try_decide(type_of("Flannel", json!(null)), None, &Facts::default())
        .unwrap()
        .decided;
    for (record, deploy, deployed) in [
        (&with_another, json!(null), false),
        (&with_another, json!(true), true),
        (&with_another, json!(false), false),
        (&alone, json!(null), true),
        (&alone, json!(false), false),
    ] {
        let decision = try_decide(
            type_of("Flannel", deploy.clone()),
            Some(&record.to_string()),
            &Facts::default(),
        )
        .unwrap();
        assert_eq!(
            decision.decided["deployKubeProxy"], deployed,
            "{deploy} after {record}"
        );
        let notice = decision
            .notices
            .iter()
            .find(|notice| notice.about == "kube-proxy")
            .map(|notice| notice.message.as_str());
        let expects_one = deploy.is_null() && !deployed;
        assert_eq!(
            notice.is_some_and(|notice| notice.contains("set spec.deployKubeProxy to true")),
            expects_one,
            "{deploy}: {notice:?}"
        );
    }
}

#[test]
fn two_service_proxies_are_refused() {
    let found = problems(type_of("OpenShiftSDN", json!(true)));
    assert!(
        found.len() == 1 && found[0].starts_with("spec.deployKubeProxy: "),
        "{found:#?}"
    );
}

#[test]
fn where_prometheus_is_it_learns_of_the_metrics() {
    let served = Facts {
        definitions: [kinds::SERVICE_MONITOR.definition()].into(),
        ..Facts::default()
    };
    let names = |facts: &Facts| {
        let decision = try_decide(spec(json!({})), None, facts).unwrap();
        decision
            .units
            .iter()
            .flat_map(|unit| &unit.objects)
            .map(|object| object.key().human())
            .collect::<Vec<_>>()
    };
    let monitor = "ServiceMonitor openshift-kube-proxy/monitor-kube-proxy".to_owned();
    assert!(!names(&Facts::default()).contains(&monitor));
    assert!(names(&served).contains(&monitor));
}

#[test]
fn a_change_rolls_the_pods() {
    let hash = |proxy: Value| {
        object(&decide(spec(proxy)), "DaemonSet", "openshift-kube-proxy")["spec"]["template"]["metadata"]["annotations"]
            ["weft.network/config-hash"]
            .clone()
    };
    assert_eq!(
        hash(json!({})),
        hash(json!({"iptablesSyncPeriod": "30s"})),
        "a default that is written out"
    );
    assert_ne!(hash(json!({})), hash(json!({"iptablesSyncPeriod": "31s"})));
}
