//! Random histories of a NetworkAddonsConfig: valid and invalid edits, add-ons that come and go,
//! deletion and creation. All ways end in the same state as a single step.
//!
//! A map of objects and the notes that the operator keeps play the cluster. A few lines here repeat
//! what a reconcile does with a decision. (System tests show that Weft does the same on a real API
//! server.)

use std::collections::BTreeMap;

use super::histories::{Act, CARRIED, acts, at_once, is_open};
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_addons::{Addons, Settings};
use weft_plan::{
    Decision, Domain, Facts, Input, Inventory, Mode, ObjectKey, Refusal, is_kept_for_ever,
};

/// A source of bytes that differ from one call to the next.
#[derive(Default)]
struct RandomBytes(u8);

impl RandomBytes {
    fn throw(&mut self, bytes: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        bytes.fill(self.0);
    }
}

fn decide(
    spec: &Value,
    inventory: &Inventory,
    record: Option<&str>,
    random: &mut RandomBytes,
) -> Result<Decision, Refusal> {
    let resource = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec,
    });
    Addons::new(Settings::default()).decide(Input {
        resource: &resource,
        record,
        decided: inventory.decided.as_ref(),
        facts: &Facts::default(),
        random: &mut |bytes| random.throw(bytes),
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
    /// Plays a reconcile. Returns whether the specification was accepted.
    fn pass(&mut self, spec: &Value, random: &mut RandomBytes) -> bool {
        let (decision, accepted) =
            match decide(spec, &self.inventory, self.record.as_deref(), random) {
                Ok(decision) => (decision, true),
                // The last good configuration is kept in order.
                Err(_) => {
                    match self.inventory.decided.clone().map(|decided| {
                        decide(&decided, &self.inventory, self.record.as_deref(), random)
                    }) {
                        Some(decision) => (
                            decision.expect("what was accepted once is accepted again"),
                            false,
                        ),
                        None => return false,
                    }
                }
            };
        for object in decision.units.iter().flat_map(|unit| &unit.objects) {
            match object.mode() {
                Mode::Managed => drop(
                    self.objects
                        .insert(object.key().clone(), object.body().clone()),
                ),
                Mode::CreateOnly => drop(
                    self.objects
                        .entry(object.key().clone())
                        .or_insert_with(|| object.body().clone()),
                ),
            }
        }
        let wanted = Inventory::of(
            &decision.units,
            &decision.made_by_operands,
            decision.decided,
        );
        self.objects
            .retain(|key, _| wanted.objects.contains_key(key) || is_kept_for_ever(key.kind));
        self.inventory = wanted;
        self.record = decision.record.map(|record| {
            record.body()["data"]["applied"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        accepted
    }

    fn delete(&mut self) {
        self.objects.retain(|key, _| is_kept_for_ever(key.kind));
        (self.inventory, self.record) = (Inventory::default(), None);
    }

    /// Objects that go with the resource.
    fn mortal(&self) -> BTreeMap<&ObjectKey, &Value> {
        self.objects
            .iter()
            .filter(|(key, _)| !is_kept_for_ever(key.kind))
            .collect()
    }

    fn decided(&self) -> Value {
        self.inventory.decided.clone().unwrap_or_default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_end_does_not_depend_on_the_way(acts in acts()) {
        let (mut cluster, mut spec, mut random) = (Cluster::default(), json!({}), RandomBytes::default());
        let mut good = spec.clone();
        prop_assert!(cluster.pass(&spec, &mut random));
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
            if cluster.pass(&spec, &mut random) {
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
        // A second reconcile changes nothing.
        let end = cluster.clone();
        cluster.pass(&spec, &mut random);
        prop_assert_eq!(&cluster, &end);
        // Asked for at once, with what was kept or drawn on the way.
        if !end.inventory.objects.is_empty() {
            let mut other = Cluster::default();
            prop_assert!(other.pass(&at_once(&good, &end.decided()), &mut random));
            prop_assert_eq!(other.mortal(), end.mortal());
            prop_assert_eq!((other.inventory, other.record), (end.inventory, end.record));
        }
    }
}

/// Reports whether the MAC range was drawn anew because the resource was created again without one.
fn fresh_range(before: &Cluster, after: &Cluster, act: &Act) -> bool {
    let drawn = |cluster: &Cluster| {
        let range = cluster.decided()["kubeMacPool"]["rangeEnd"]
            .as_str()
            .map(str::to_owned);
        range.is_some_and(|range| range.ends_with(":ff:ff:ff"))
    };
    matches!(act, Act::Recreate) && drawn(before) && drawn(after)
}
