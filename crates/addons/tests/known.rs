//! Known problems of the operator that Weft replaces, as far as a decision alone shows that Weft
//! does not have them. The list of all of them is docs/known-problems.md.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

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
