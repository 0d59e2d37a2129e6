//! Known problems of the operator that Weft replaces, as far as a decision alone shows that Weft
//! does not have them. The list of all of them is docs/known-problems.md.

use serde_json::{Value, json};
use weft_addons::{Addons, Image, Settings};
use weft_plan::{Decision, Domain, Facts, Input, Refusal};

fn decide_with(settings: Settings, spec: Value) -> Result<Decision, Refusal> {
    let resource = json!({"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec});
    let random = &mut |bytes: &mut [u8]| bytes.fill(0xab);
    Addons::new(settings).decide(Input {
        resource: &resource,
        record: None,
        decided: None,
        facts: &Facts::default(),
        random,
    })
}

fn decide(spec: Value) -> Result<Decision, Refusal> {
    decide_with(Settings::default(), spec)
}

/// Everything that can be deployed.
fn full() -> Value {
    json!({"multus": {}, "multusDynamicNetworks": {}, "linuxBridge": {}, "ovs": {}, "kubeMacPool": {}, "macvtap": {}, "kubeSecondaryDNS": {},
        "kubevirtIpamController": {}})
}

/// The fields that a refusal names.
fn refused(spec: Value) -> Vec<String> {
    decide(spec)
        .expect_err("it is refused")
        .problems
        .into_iter()
        .map(|problem| problem.field)
        .collect()
}

/// The pods of all workloads, by the workload's name.
fn pods(decision: &Decision) -> Vec<(&str, &Value)> {
    let objects = decision.units.iter().flat_map(|unit| &unit.objects);
    let pods: Vec<_> = objects
        .filter_map(|o| {
            Some((
                o.key().name.as_str(),
                o.body().pointer("/spec/template/spec")?,
            ))
        })
        .collect();
    assert_eq!(pods.len(), 10);
    pods
}

fn containers<'a>(pods: &[(&'a str, &'a Value)]) -> Vec<(&'a str, &'a Value)> {
    let lists = |pod: &'a Value| {
        ["initContainers", "containers"]
            .into_iter()
            .flat_map(|list| pod[list].as_array().into_iter().flatten())
    };
    pods.iter()
        .flat_map(|(name, pod)| lists(pod).map(|container| (*name, container)))
        .collect()
}

#[test]
fn addresses_of_eight_and_twenty_octets_are_refused() {
    for octets in [8, 20] {
        let address = |last: &str| format!("02:{}{last}", "00:".repeat(octets - 2));
        let spec = json!({"kubeMacPool": {"rangeStart": address("00"), "rangeEnd": address("ff")}});
        assert_eq!(
            refused(spec),
            ["spec.kubeMacPool.rangeStart", "spec.kubeMacPool.rangeEnd"],
            "{octets}"
        );
    }
}

#[test]
fn a_negative_interval_is_refused() {
    const INTERVALS: [&str; 4] = [
        "caRotateInterval",
        "caOverlapInterval",
        "certRotateInterval",
        "certOverlapInterval",
    ];
    for interval in INTERVALS {
        let mut rotation =
            json!({INTERVALS[0]: "4h", INTERVALS[1]: "2h", INTERVALS[2]: "2h", INTERVALS[3]: "1h"});
        assert!(decide(json!({"selfSignConfiguration": rotation})).is_ok());
        rotation[interval] = "-1h".into();
        assert_eq!(
            refused(json!({"selfSignConfiguration": rotation})),
            [format!("spec.selfSignConfiguration.{interval}")]
        );
    }
}

/// A line break that reached a manifest as text would begin another field.
#[test]
fn a_line_break_is_refused_in_every_text() {
    for (pointer, field) in [
        ("/kubeSecondaryDNS", "domain"),
        ("/kubeSecondaryDNS", "nameServerIP"),
        ("/kubevirtIpamController", "defaultNetworkNADNamespace"),
        ("/macvtap", "devicePluginConfig"),
        ("/multusDynamicNetworks", "hostCRISocketPath"),
        ("/kubeMacPool", "rangeStart"),
    ] {
        for text in ["/a\nb: c", "a\nb: c", "a: b", "a\n", "\u{2028}"] {
            let mut spec = full();
            spec["kubeMacPool"] =
                json!({"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:ff"});
            spec.pointer_mut(pointer).unwrap()[field] = text.into();
            let path = format!("spec{}.{field}", pointer.replace('/', "."));
            assert_eq!(refused(spec), [path], "{text:?}");
        }
    }
}

/// A label of a node has no line break, so no pod could ever be scheduled.
#[test]
fn a_line_break_in_a_node_selector_is_refused() {
    let mut spec = full();
    let selector = json!({"nodeSelector": {"example.com/x": "a\nhostPID: true"}});
    spec["placementConfiguration"] = json!({"infra": selector, "workloads": selector});
    let fields = ["infra", "workloads"]
        .map(|place| format!("spec.placementConfiguration.{place}.nodeSelector[example.com/x]"));
    assert_eq!(refused(spec), fields);
}

#[test]
fn an_image_that_is_left_empty_changes_none() {
    let images = |variable: &'static str| {
        let settings = Settings::from_env(|name| (name == variable).then(String::new)).unwrap();
        let decision = decide_with(settings, full()).unwrap();
        let pods = pods(&decision);
        containers(&pods)
            .into_iter()
            .map(|(name, container)| format!("{name} {}", container["image"]))
            .collect::<Vec<_>>()
    };
    let by_default = images("");
    for image in Image::ALL {
        assert_eq!(images(image.env()), by_default, "{image:?}");
    }
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let decided = decide(full()).unwrap().decided;
    let rotation = json!({
        "caRotateInterval": "168h0m0s", "caOverlapInterval": "24h0m0s",
        "certRotateInterval": "24h0m0s", "certOverlapInterval": "8h0m0s"
    });
    assert_eq!(decided["selfSignConfiguration"], rotation);
}

#[test]
fn no_pod_asks_for_an_architecture() {
    for (name, pod) in pods(&decide(full()).unwrap()) {
        assert!(!pod.to_string().contains("kubernetes.io/arch"), "{name}");
    }
}

/// A limit ends a process in the burst after a node's start, and then again and again.
#[test]
fn no_container_has_a_limit_by_default() {
    let decision = decide(full()).unwrap();
    let pods = pods(&decision);
    let all = containers(&pods);
    assert!(all.len() >= 14, "{}", all.len());
    for (name, container) in all {
        assert_eq!(container["resources"]["limits"], Value::Null, "{name}");
        assert!(
            container["resources"]["requests"]["memory"].is_string(),
            "{name}"
        );
    }
}

/// Without one of the two, a rollout takes the next node while the program of the last one crashes.
#[test]
fn a_program_that_crashes_stops_the_rollout_of_its_daemon_set() {
    let decision = decide(full()).unwrap();
    let objects = decision.units.iter().flat_map(|unit| &unit.objects);
    for object in objects {
        let body = object.body();
        if body["kind"] != "DaemonSet" {
            continue;
        }
        let name = &object.key().name;
        let containers = body["spec"]["template"]["spec"]["containers"].as_array();
        let is_probed = containers
            .unwrap()
            .iter()
            .all(|container| container["readinessProbe"].is_object());
        // It runs `sleep` once its plugins are installed, and nothing of it can crash.
        let sleeps = name == "kube-cni-linux-bridge-plugin";
        assert!(
            is_probed || sleeps || body["spec"]["minReadySeconds"].as_u64() > Some(0),
            "{name}"
        );
    }
}

/// One node may end, and a webhook without a server stops virtual machines.
#[test]
fn replicas_of_a_webhook_prefer_different_nodes_whatever_the_placement() {
    let mut spec = full();
    spec["placementConfiguration"] = json!({"infra": {"affinity": {}}});
    let decision = decide(spec).unwrap();
    let mut spread = Vec::new();
    for object in decision.units.iter().flat_map(|unit| &unit.objects) {
        let body = &object.body()["spec"];
        if body["replicas"].as_u64() < Some(2) {
            continue;
        }
        let constraint = &body["template"]["spec"]["topologySpreadConstraints"][0];
        assert_eq!(
            (
                &constraint["topologyKey"],
                &constraint["whenUnsatisfiable"],
                &constraint["labelSelector"]
            ),
            (
                &json!("kubernetes.io/hostname"),
                &json!("ScheduleAnyway"),
                &body["selector"]
            ),
            "{}",
            object.key()
        );
        spread.push(object.key().name.clone());
    }
    assert_eq!(spread, ["kubevirt-ipam-controller-manager"]);
}

#[test]
fn names_of_ports_are_unique_in_each_pod() {
    for (name, pod) in pods(&decide(full()).unwrap()) {
        let ports: Vec<_> = containers(&[(name, pod)])
            .into_iter()
            .flat_map(|(_, container)| container["ports"].as_array().into_iter().flatten())
            .filter_map(|port| port["name"].as_str())
            .collect();
        let unique: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(unique.len(), ports.len(), "{name}: {ports:?}");
    }
}
