//! Random histories of a NetworkAddonsConfig: valid and invalid edits, add-ons that come and go,
//! deletion and creation. `model.rs` drives them through decisions alone, a system test through the
//! operator.

use proptest::prelude::*;
use serde_json::{Value, json};

/// An act of a user.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sets a field of the specification, or takes it away.
    Edit(&'static str, Value),
    /// Deletes the resource and creates it again as it was.
    Recreate,
}

/// Values of a field that are right on their own. Null takes the field away.
pub fn right() -> Vec<Act> {
    let edits = [
        ("multus", vec![Value::Null, json!({})]),
        (
            "multusDynamicNetworks",
            vec![
                Value::Null,
                json!({}),
                json!({"hostCRISocketPath": "/run/k0s/containerd.sock"}),
            ],
        ),
        ("linuxBridge", vec![Value::Null, json!({})]),
        ("ovs", vec![Value::Null, json!({})]),
        (
            "kubeMacPool",
            vec![
                Value::Null,
                json!({}),
                json!({}),
                json!({"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:FF:FF"}),
            ],
        ),
        (
            "macvtap",
            vec![
                Value::Null,
                json!({}),
                json!({"devicePluginConfig": "mine"}),
            ],
        ),
        (
            "kubeSecondaryDNS",
            vec![
                Value::Null,
                json!({}),
                json!({"domain": "vm.example", "nameServerIP": "192.0.2.53"}),
            ],
        ),
        (
            "kubevirtIpamController",
            vec![
                Value::Null,
                json!({}),
                json!({"defaultNetworkNADNamespace": "ovn", "certificateProvider": "CertManager"}),
            ],
        ),
        (
            "images",
            vec![
                Value::Null,
                json!({}),
                json!({"ovsCni": "registry.example/ovs:v1"}),
            ],
        ),
        (
            "imageRegistry",
            vec![Value::Null, json!("registry.example/mirror")],
        ),
        (
            "imagePullSecrets",
            vec![Value::Null, json!([]), json!([{"name": "mirror"}])],
        ),
        (
            "hostPaths",
            vec![
                Value::Null,
                json!({}),
                json!({"preset": "K3s"}),
                json!({"cniBinDir": "/plugins"}),
            ],
        ),
        (
            "resources",
            vec![
                Value::Null,
                json!([]),
                json!([{"component": "multus", "limits": {"memory": "1Gi"}}]),
            ],
        ),
        (
            "imagePullPolicy",
            vec![Value::Null, json!("Always"), json!("Never")],
        ),
        (
            "selfSignConfiguration",
            vec![
                Value::Null,
                json!({
                    "caRotateInterval": "100h0m0s", "caOverlapInterval": "20h0m0s",
                    "certRotateInterval": "50h0m0s", "certOverlapInterval": "10h0m0s"
                }),
            ],
        ),
        (
            "placementConfiguration",
            vec![
                Value::Null,
                json!({"infra": {"nodeSelector": {"for": "infra"}}}),
            ],
        ),
        (
            "tlsSecurityProfile",
            vec![
                Value::Null,
                json!({"type": "Intermediate", "intermediate": {}}),
            ],
        ),
        ("driftPolicy", vec![Value::Null, json!("Report")]),
        ("operatorLogLevel", vec![Value::Null, json!("Debug")]),
    ];
    edits
        .into_iter()
        .flat_map(|(field, values)| values.into_iter().map(move |value| Act::Edit(field, value)))
        .collect()
}

/// Values that are refused, whatever the others are.
pub fn wrong() -> Vec<Act> {
    vec![
        Act::Edit("kubeMacPool", json!({"rangeStart": "02:00:00:00:00:00"})),
        Act::Edit(
            "kubeMacPool",
            json!({"rangeStart": "0a:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:ff"}),
        ),
        Act::Edit("imagePullPolicy", json!("Sometimes")),
        Act::Edit("tlsSecurityProfile", json!({})),
        Act::Edit("kubeSecondaryDNS", json!({"domain": "a\nb: c"})),
        Act::Edit(
            "selfSignConfiguration",
            json!({"caRotateInterval": "1h0m0s"}),
        ),
        Act::Edit("macvtap", json!({"devicePluginConfig": "Not A Name"})),
        Act::Edit("images", json!({"ovsCni": "not an image"})),
        Act::Edit("imageRegistry", json!("https://registry.example")),
        Act::Edit("imagePullSecrets", json!([{"name": "Not A Name"}])),
        Act::Edit("hostPaths", json!({"kubeletDir": "here"})),
        Act::Edit(
            "resources",
            json!([{"component": "multus", "limits": {"memory": "much"}}]),
        ),
        Act::Edit("driftPolicy", json!("Ignore")),
        Act::Edit("operatorLogLevel", json!("0")),
        Act::Edit(
            "kubevirtIpamController",
            json!({"certificateProvider": "cert-manager"}),
        ),
    ]
}

pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => prop::sample::select(right()),
        2 => prop::sample::select(wrong()),
        1 => Just(Act::Recreate),
    ];
    prop::collection::vec(act, 2..11)
}

/// The fields that keep their value when they are left out: where the value is, and the field of
/// the add-on without which it is gone.
pub const CARRIED: [(&str, &str); 5] = [
    ("/kubeMacPool", "kubeMacPool"),
    ("/imagePullPolicy", ""),
    ("/selfSignConfiguration", ""),
    (
        "/multusDynamicNetworks/hostCRISocketPath",
        "multusDynamicNetworks",
    ),
    ("/macvtap/devicePluginConfig", "macvtap"),
];

/// Reports whether a specification leaves such a field open.
pub fn is_open(spec: &Value, pointer: &str) -> bool {
    spec.pointer(pointer).is_none_or(|value| {
        value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
    })
}

/// The specification that asks at once for what a way to `spec` has led to: what was carried over
/// or drawn on it is given.
pub fn at_once(spec: &Value, decided: &Value) -> Value {
    let mut at_once = spec.clone();
    for (pointer, addon) in CARRIED {
        if (addon.is_empty() || !at_once[addon].is_null()) && is_open(&at_once, pointer) {
            let value = decided.pointer(pointer).cloned().unwrap();
            match pointer
                .trim_start_matches('/')
                .split('/')
                .collect::<Vec<_>>()[..]
            {
                [field] => at_once[field] = value,
                [outer, inner] => at_once[outer][inner] = value,
                _ => unreachable!(),
            }
        }
    }
    at_once
}
