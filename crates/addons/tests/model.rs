//! Random histories of a NetworkAddonsConfig: valid and invalid edits, add-ons that come and go, deletion and creation. Whatever the way,
//! the end is the same as if it had been asked for at once.
//!
//! The cluster is played by a map of objects and the notes that the operator keeps, and what a pass does with a decision is told here
//! again in a few lines. (That the real one does so on a real API server is what the system tests show.)

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_addons::{Addons, Settings};
use weft_plan::{Decision, Domain, Facts, Input, Inventory, Mode, ObjectKey, Refusal, is_kept_for_ever};

/// What somebody does.
#[derive(Clone, Debug)]
enum Act {
    /// Sets a field of the specification, or takes it away.
    Edit(&'static str, Value),
    /// Deletes the resource and creates it again as it was.
    Recreate,
}

/// Values of a field that are right on their own; null takes the field away.
fn right() -> Vec<Act> {
    let edits = [
        ("multus", vec![Value::Null, json!({})]),
        ("multusDynamicNetworks", vec![Value::Null, json!({}), json!({"hostCRISocketPath": "/run/k0s/containerd.sock"})]),
        ("linuxBridge", vec![Value::Null, json!({})]),
        ("ovs", vec![Value::Null, json!({})]),
        (
            "kubeMacPool",
            vec![Value::Null, json!({}), json!({}), json!({"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:FF:FF"})],
        ),
        ("macvtap", vec![Value::Null, json!({}), json!({"devicePluginConfig": "mine"})]),
        ("kubeSecondaryDNS", vec![Value::Null, json!({}), json!({"domain": "vm.example", "nameServerIP": "192.0.2.53"})]),
        (
            "kubevirtIpamController",
            vec![Value::Null, json!({}), json!({"defaultNetworkNADNamespace": "ovn", "certificateProvider": "CertManager"})],
        ),
        ("images", vec![Value::Null, json!({}), json!({"ovsCni": "registry.example/ovs:v1"})]),
        ("imageRegistry", vec![Value::Null, json!("registry.example/mirror")]),
        ("imagePullSecrets", vec![Value::Null, json!([]), json!([{"name": "mirror"}])]),
        ("imagePullPolicy", vec![Value::Null, json!("Always"), json!("Never")]),
        (
            "selfSignConfiguration",
            vec![
                Value::Null,
                json!({"caRotateInterval": "100h0m0s", "caOverlapInterval": "20h0m0s", "certRotateInterval": "50h0m0s", "certOverlapInterval": "10h0m0s"}),
            ],
        ),
        ("placementConfiguration", vec![Value::Null, json!({"infra": {"nodeSelector": {"for": "infra"}}})]),
        ("tlsSecurityProfile", vec![Value::Null, json!({"type": "Intermediate", "intermediate": {}})]),
        ("driftPolicy", vec![Value::Null, json!("Report")]),
        ("operatorLogLevel", vec![Value::Null, json!("Debug")]),
    ];
    edits.into_iter().flat_map(|(field, values)| values.into_iter().map(move |value| Act::Edit(field, value))).collect()
}

/// Values that are refused, whatever the others are.
fn wrong() -> Vec<Act> {
    vec![
        Act::Edit("kubeMacPool", json!({"rangeStart": "02:00:00:00:00:00"})),
        Act::Edit("kubeMacPool", json!({"rangeStart": "0a:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:ff"})),
        Act::Edit("imagePullPolicy", json!("Sometimes")),
        Act::Edit("tlsSecurityProfile", json!({})),
        Act::Edit("kubeSecondaryDNS", json!({"domain": "a\nb: c"})),
        Act::Edit("selfSignConfiguration", json!({"caRotateInterval": "1h0m0s"})),
        Act::Edit("macvtap", json!({"devicePluginConfig": "Not A Name"})),
        Act::Edit("images", json!({"ovsCni": "not an image"})),
        Act::Edit("imageRegistry", json!("https://registry.example")),
        Act::Edit("imagePullSecrets", json!([{"name": "Not A Name"}])),
        Act::Edit("driftPolicy", json!("Ignore")),
        Act::Edit("operatorLogLevel", json!("0")),
        Act::Edit("kubevirtIpamController", json!({"certificateProvider": "cert-manager"})),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => prop::sample::select(right()),
        2 => prop::sample::select(wrong()),
        1 => Just(Act::Recreate),
    ];
    prop::collection::vec(act, 1..8)
}

/// Dice that never show the same twice.
#[derive(Default)]
struct Dice(u8);

impl Dice {
    fn throw(&mut self, bytes: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        bytes.fill(self.0);
    }
}

fn decide(spec: &Value, inventory: &Inventory, record: Option<&str>, dice: &mut Dice) -> Result<Decision, Refusal> {
    let resource = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec,
    });
    Addons::new(Settings::default()).decide(Input {
        resource: &resource,
        record,
        decided: inventory.decided.as_ref(),
        facts: &Facts::default(),
        random: &mut |bytes| dice.throw(bytes),
    })
}

/// A cluster, as far as the operator has to do with it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cluster {
    objects: BTreeMap<ObjectKey, Value>,
    inventory: Inventory,
    record: Option<String>,
}

impl Cluster {
    /// What a pass does. Returns whether the specification was accepted.
    fn pass(&mut self, spec: &Value, dice: &mut Dice) -> bool {
        let (decision, accepted) = match decide(spec, &self.inventory, self.record.as_deref(), dice) {
            Ok(decision) => (decision, true),
            // The last good configuration is kept in order.
            Err(_) => match self.inventory.decided.clone().map(|decided| decide(&decided, &self.inventory, self.record.as_deref(), dice)) {
                Some(decision) => (decision.expect("what was accepted once is accepted again"), false),
                None => return false,
            },
        };
        for object in decision.units.iter().flat_map(|unit| &unit.objects) {
            match object.mode() {
                Mode::Managed => drop(self.objects.insert(object.key().clone(), object.body().clone())),
                Mode::CreateOnly => drop(self.objects.entry(object.key().clone()).or_insert_with(|| object.body().clone())),
            }
        }
        let wanted = Inventory::of(&decision.units, &decision.made_by_operands, decision.decided);
        self.objects.retain(|key, _| wanted.objects.contains_key(key) || is_kept_for_ever(key.kind));
        self.inventory = wanted;
        self.record = decision.record.map(|record| record.body()["data"]["applied"].as_str().unwrap().to_owned());
        accepted
    }

    fn delete(&mut self) {
        self.objects.retain(|key, _| is_kept_for_ever(key.kind));
        (self.inventory, self.record) = (Inventory::default(), None);
    }

    /// What goes with the resource.
    fn mortal(&self) -> BTreeMap<&ObjectKey, &Value> {
        self.objects.iter().filter(|(key, _)| !is_kept_for_ever(key.kind)).collect()
    }

    fn decided(&self) -> Value {
        self.inventory.decided.clone().unwrap_or_default()
    }
}

/// The fields that keep their value when they are left out: where the value is, and the field of the add-on without which it is gone.
const CARRIED: [(&str, &str); 5] = [
    ("/kubeMacPool", "kubeMacPool"),
    ("/imagePullPolicy", ""),
    ("/selfSignConfiguration", ""),
    ("/multusDynamicNetworks/hostCRISocketPath", "multusDynamicNetworks"),
    ("/macvtap/devicePluginConfig", "macvtap"),
];

/// Whether a specification leaves such a field open.
fn is_open(spec: &Value, pointer: &str) -> bool {
    spec.pointer(pointer).is_none_or(|value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_end_does_not_depend_on_the_way(acts in acts()) {
        let (mut cluster, mut spec, mut dice) = (Cluster::default(), json!({}), Dice::default());
        let mut good = spec.clone();
        prop_assert!(cluster.pass(&spec, &mut dice));
        for act in &acts {
            let before = cluster.clone();
            match act {
                Act::Edit(field, value) => {
                    spec[*field] = value.clone();
                    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                }
                Act::Recreate => {
                    cluster.delete();
                    prop_assert_eq!(cluster.mortal(), BTreeMap::new(), "nothing is left");
                }
            }
            if cluster.pass(&spec, &mut dice) {
                good = spec.clone();
                let fresh = matches!(act, Act::Recreate);
                for (pointer, addon) in CARRIED {
                    let wanted = addon.is_empty() || !spec[addon].is_null();
                    let (then, now) = (before.decided(), cluster.decided());
                    let had = !then.is_null() && (addon.is_empty() || !then[addon].is_null());
                    if wanted && !is_open(&spec, pointer) && pointer != "/kubeMacPool" {
                        prop_assert_eq!(now.pointer(pointer), spec.pointer(pointer), "{} is what was asked for", pointer);
                    } else if wanted && had && !fresh && is_open(&spec, pointer) {
                        prop_assert_eq!(now.pointer(pointer), then.pointer(pointer), "{} is kept", pointer);
                    }
                }
            } else if matches!(act, Act::Recreate) {
                prop_assert_eq!(&cluster, &Cluster { objects: cluster.objects.clone(), ..Cluster::default() }, "what was never accepted leads to nothing");
                good = json!({});
            } else {
                prop_assert_eq!(&cluster, &before, "a refused edit changes nothing");
            }
            if fresh_range(&before, &cluster, act) {
                prop_assert_ne!(&before.decided()["kubeMacPool"], &cluster.decided()["kubeMacPool"], "a new life, a new range");
            }
        }
        // A second pass changes nothing.
        let end = cluster.clone();
        cluster.pass(&spec, &mut dice);
        prop_assert_eq!(&cluster, &end);
        // Asked for at once, with what was kept or drawn on the way.
        let mut at_once = good;
        for (pointer, addon) in CARRIED {
            if !cluster.inventory.objects.is_empty() && (addon.is_empty() || !at_once[addon].is_null()) && is_open(&at_once, pointer) {
                let field = pointer.trim_start_matches('/').split('/').collect::<Vec<_>>();
                let value = end.decided().pointer(pointer).cloned().unwrap();
                match field[..] {
                    [field] => at_once[field] = value,
                    [outer, inner] => at_once[outer][inner] = value,
                    _ => unreachable!(),
                }
            }
        }
        if !end.inventory.objects.is_empty() {
            let mut other = Cluster::default();
            prop_assert!(other.pass(&at_once, &mut dice));
            prop_assert_eq!(other.mortal(), end.mortal());
            prop_assert_eq!((other.inventory, other.record), (end.inventory, end.record));
        }
    }
}

/// Whether the MAC range was drawn anew because the resource was created again without one.
fn fresh_range(before: &Cluster, after: &Cluster, act: &Act) -> bool {
    let drawn = |cluster: &Cluster| {
        let range = cluster.decided()["kubeMacPool"]["rangeEnd"].as_str().map(str::to_owned);
        range.is_some_and(|range| range.ends_with(":ff:ff:ff"))
    };
    matches!(act, Act::Recreate) && drawn(before) && drawn(after)
}
