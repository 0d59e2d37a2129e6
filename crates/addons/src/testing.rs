//! Helpers for the tests of several modules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use weft_plan::{Decision, Domain, Facts, Input, Manifest, OPENSHIFT, Refusal};

use crate::{Addons, Settings};

/// The example of the oldest supported form of the API.
pub(crate) const EXAMPLE_0_23: &str =
    include_str!("../../../examples/network-addons-config-0.23.yaml");
/// The example of today's.
pub(crate) const EXAMPLE: &str = include_str!("../../../examples/network-addons-config.yaml");

pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

pub(crate) fn resource(spec: Value) -> Value {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec
    })
}

/// Fills in the bytes ab, cd instead of random ones, and leaves further bytes as they are.
pub(crate) fn fixed_bytes(bytes: &mut [u8]) {
    bytes
        .iter_mut()
        .zip([0xab, 0xcd])
        .for_each(|(byte, value)| *byte = value);
}

pub(crate) fn decide_with(
    settings: Settings,
    resource: &Value,
    record: Option<&str>,
    decided: Option<&Value>,
) -> Result<Decision, Refusal> {
    Addons::new(settings).decide(Input {
        resource,
        record,
        decided,
        facts: &Facts::default(),
        random: &mut fixed_bytes,
    })
}

/// The default settings under a version that does not change with ours.
pub(crate) fn settings() -> Settings {
    Settings {
        version: "1.2.3".into(),
        ..Settings::default()
    }
}

pub(crate) fn decide(resource: &Value) -> Decision {
    decide_with(settings(), resource, None, None).unwrap()
}

/// On a cluster of which this is known.
pub(crate) fn decide_knowing(facts: &Facts, resource: &Value) -> Decision {
    Addons::new(settings())
        .decide(Input {
            resource,
            record: None,
            decided: None,
            facts,
            random: &mut fixed_bytes,
        })
        .unwrap()
}

/// The decision on OpenShift.
pub(crate) fn decide_on_openshift(resource: &Value) -> Decision {
    decide_knowing(
        &Facts {
            definitions: [OPENSHIFT.to_owned()].into(),
            ..Facts::default()
        },
        resource,
    )
}

/// Returns the decision about the resource on each sort of cluster.
pub(crate) fn decide_everywhere(resource: &Value) -> Vec<Decision> {
    Facts::of_every_sort_of_cluster()
        .iter()
        .map(|facts| decide_knowing(facts, resource))
        .collect()
}

pub(crate) fn objects(decision: &Decision) -> impl Iterator<Item = &Manifest> {
    decision.units.iter().flat_map(|unit| &unit.objects)
}

pub(crate) fn object<'a>(decision: &'a Decision, kind: &str, name: &str) -> &'a Value {
    objects(decision)
        .find(|object| object.key().kind.kind == kind && object.key().name == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
        .body()
}

/// Every container of every workload, with its workload's name.
pub(crate) fn containers(decision: &Decision) -> Vec<(String, Value)> {
    let of = |object: &Manifest| {
        let pod = object
            .body()
            .pointer("/spec/template/spec")
            .cloned()
            .unwrap_or_default();
        let lists = ["initContainers", "containers"]
            .map(|list| pod[list].as_array().cloned().unwrap_or_default());
        let name = object.key().name.clone();
        lists
            .into_iter()
            .flatten()
            .map(move |container| (name.clone(), container))
            .collect::<Vec<_>>()
    };
    objects(decision).flat_map(of).collect()
}

/// Everything that can be deployed.
pub(crate) fn full() -> Value {
    resource(
        json!({"multus": {}, "multusDynamicNetworks": {}, "linuxBridge": {}, "ovs": {}, "macvtap": {}, "kubeSecondaryDNS": {}, "kubevirtIpamController": {},
            "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:ff:ff:ff"}}),
    )
}
