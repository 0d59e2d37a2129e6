//! Each option can be changed at any time, and a change restarts exactly the pods that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use super::options::{Change, DAEMON_SETS, DEPLOYMENTS, changes, full};
use serde_json::{Value, json};
use weft_addons::{Addons, Settings};
use weft_plan::{Decision, Domain, Facts, Input};

fn decide(spec: &Value, decided: Option<&Value>) -> Decision {
    let resource = json!({"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec});
    let random = &mut |bytes: &mut [u8]| bytes.fill(0xab);
    Addons::new(Settings::default())
        .decide(Input {
            resource: &resource,
            record: None,
            decided,
            facts: &Facts::default(),
            random,
        })
        .unwrap()
}

/// Pod templates of each workload.
fn templates(decision: &Decision) -> BTreeMap<String, Value> {
    let objects = decision.units.iter().flat_map(|unit| &unit.objects);
    objects
        .filter_map(|object| {
            Some((
                object.key().name.clone(),
                object.body().pointer("/spec/template")?.clone(),
            ))
        })
        .collect()
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        return *into = patch.clone();
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, value) in patch {
        merge(&mut into[field], value);
    }
    into.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
}

/// The workloads whose pods are made otherwise.
fn rolled(before: &Decision, after: &Decision) -> BTreeSet<String> {
    let (before, after) = (templates(before), templates(after));
    assert!(before.keys().eq(after.keys()));
    assert_eq!(before.len(), DAEMON_SETS.len() + DEPLOYMENTS.len());
    before
        .into_iter()
        .filter(|(name, template)| after[name] != *template)
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn each_option_rolls_exactly_the_pods_that_it_concerns() {
    for Change {
        spec: patch,
        rolls,
        stays,
    } in changes()
    {
        let expected: BTreeSet<_> = rolls.iter().map(|name| (*name).to_owned()).collect();
        let before = decide(&full(), None);
        let mut spec = full();
        merge(&mut spec, &patch);
        let after = decide(&spec, Some(&before.decided));
        assert_ne!(before.decided, after.decided, "{patch}");
        assert_eq!(rolled(&before, &after), expected, "{patch}");
        // Left out again.
        let again = decide(&full(), Some(&after.decided));
        assert_eq!(
            rolled(&after, &again),
            if stays { BTreeSet::new() } else { expected },
            "{patch} is left out"
        );
        assert_eq!(
            again.decided,
            if stays { after.decided } else { before.decided },
            "{patch} is left out"
        );
    }
}

/// The fields that a schema describes, as paths such as `kubeMacPool.rangeStart`. Parts of
/// Kubernetes' own types carry no texts, and end the path.
fn fields(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    let described: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, field)| field["description"].is_string())
        .collect();
    if described.is_empty() {
        found.insert(path.to_owned());
    }
    for (name, field) in described {
        fields(
            format!("{path}.{name}").trim_start_matches('.'),
            field,
            found,
        );
    }
}

#[test]
fn no_option_is_missing_in_the_table() {
    let crd = serde_json::to_value(weft_api::addons::crd()).unwrap();
    let mut all = BTreeSet::new();
    fields(
        "",
        &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"],
        &mut all,
    );
    // An add-on as such is no option, nor is what is not deployed. The rest are other spellings,
    // and what `type` says already.
    for other in [
        "multus",
        "linuxBridge",
        "ovs",
        "nmstate",
        "kubeSecondaryDNS.DOMAIN",
        "kubeSecondaryDNS.NAME_SERVER_IP",
        "tlsSecurityProfile.old",
        "tlsSecurityProfile.modern",
    ] {
        assert!(
            all.remove(other),
            "{other} is no field any more: take it off this list"
        );
    }
    let changes = changes();
    let is_changed = |field: &&String| {
        let pointer = format!("/{}", field.replace('.', "/"));
        changes.iter().any(|change| {
            change
                .spec
                .pointer(&pointer)
                .is_some_and(|value| !value.is_null())
        })
    };
    let missing: Vec<_> = all.iter().filter(|field| !is_changed(field)).collect();
    assert!(
        missing.is_empty(),
        "say in tests/common/options.rs what rolls when {missing:?} are changed"
    );
}
