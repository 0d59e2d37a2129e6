//! All objects of a cluster at one moment, for comparison with another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weft_plan::OWNER_LABEL;
use weft_testenv::StoredKind;

use crate::upgrade::{fixture::title, harness::Cluster};

/// The objects, by titles such as `daemonsets.apps nmstate/nmstate-handler`.
pub struct Objects(BTreeMap<String, Value>);

impl Objects {
    pub async fn of(cluster: &Cluster) -> Self {
        Self::from(&cluster.control_plane.stored().await.unwrap())
    }

    pub fn from(kinds: &[StoredKind]) -> Self {
        let titled = kinds.iter().flat_map(|kind| {
            let titled = |object: &Value| (title(kind, object), object.clone());
            kind.objects.iter().map(titled)
        });
        Self(titled.collect())
    }

    pub fn get(&self, title: &str) -> &Value {
        self.0.get(title).unwrap_or(&Value::Null)
    }

    /// The objects that Weft has made, but for those of the component that the stream switches off
    /// and on, for the networks that it replaces, and for Jobs, which have a limited life.
    pub fn operands(&self) -> impl Iterator<Item = (&str, &Value)> {
        let is_operand = |object: &Value| object["metadata"]["labels"][OWNER_LABEL].is_string();
        let is_switched = |title: &str| {
            ["macvtap", "network-attachment-definitions", "jobs.batch"]
                .iter()
                .any(|part| title.contains(part))
        };
        self.0
            .iter()
            .map(|(title, object)| (title.as_str(), object))
            .filter(move |(title, object)| is_operand(object) && !is_switched(title))
    }

    /// Titles and uids of all Jobs.
    pub fn jobs(&self) -> BTreeSet<(String, String)> {
        let jobs = self
            .0
            .iter()
            .filter(|(title, _)| title.starts_with("jobs.batch "));
        jobs.map(|(title, job)| (title.clone(), job["metadata"]["uid"].to_string()))
            .collect()
    }

    /// The resources of Weft's APIs.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &Value)> {
        const GROUPS: [&str; 4] = [
            "networkaddonsoperator.network.kubevirt.io",
            "networkoperator.openshift.io",
            "nmstate.io",
            "placement.openstack.org",
        ];
        let is_resource = |object: &Value| {
            let group = object["apiVersion"]
                .as_str()
                .and_then(|text| text.split('/').next());
            group.is_some_and(|group| GROUPS.contains(&group))
        };
        self.0
            .iter()
            .map(|(title, object)| (title.as_str(), object))
            .filter(move |(_, object)| is_resource(object))
    }

    /// The operands that were there before and are not now, or were created again.
    pub fn replaced(&self, after: &Self) -> Vec<String> {
        let uid = |object: &Value| object["metadata"]["uid"].clone();
        self.operands()
            .filter(|(title, object)| uid(object) != uid(after.get(title)))
            .map(|(title, _)| title.to_owned())
            .collect()
    }

    /// The fields that differ in pod templates of workloads that are there before and after, a line
    /// each.
    pub fn template_changes(&self, after: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let kept = self
            .operands()
            .filter(|(title, _)| !after.get(title).is_null());
        for (title, object) in kept {
            let template = "/spec/template";
            let empty = Value::Null;
            let [before, now] =
                [object, after.get(title)].map(|object| object.pointer(template).unwrap_or(&empty));
            differences(before, now, &format!("{title} {template}"), &mut lines);
        }
        lines
    }
}

fn differences(before: &Value, after: &Value, path: &str, lines: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let path = format!("{path}/{}", name.replace('/', "~1"));
                differences(&before[name], &after[name], &path, lines);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(old, new, &format!("{path}/{index}"), lines);
            }
        }
        _ if before == after => {}
        _ => lines.push(format!("{path}: {before} -> {after}")),
    }
}
