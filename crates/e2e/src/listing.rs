//! All objects of a cluster by name, and the properties of nodes and namespaces that an operator
//! may leave behind. A run compares the listing of before with the one of after.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::kubectl::Cluster;

/// Resources whose objects come and go without anybody's doing: events expire, metrics are
/// computed, and kubelets request certificates.
const FLEETING: [&str; 5] = [
    "events",
    "events.events.k8s.io",
    "componentstatuses",
    "certificatesigningrequests.certificates.k8s.io",
    "tokenreviews.authentication.k8s.io",
];

/// The fields of a line of kubectl's output, one object a line.
const FIELDS: &str = "{range .items[*]}{.apiVersion}|{.kind}|{.metadata.namespace}|{.metadata.name}|{.metadata.uid}|{range .metadata.ownerReferences[*]}{.uid},{end}{\"\\n\"}{end}";

/// An object, or a property of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its identity for the API server. Empty for a property.
    uid: String,
    /// The identities of its owners.
    owners: Vec<String>,
}

/// All objects by their names, for example `Deployment.apps kube-system/coredns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing(BTreeMap<String, Entry>);

impl Listing {
    /// Asks the API server for all objects of all kinds that can be listed.
    ///
    /// # Errors
    /// A kind cannot be listed: a comparison without it would miss leftovers.
    pub fn take(cluster: &Cluster) -> Result<Self> {
        let kinds = cluster.kubectl(&[
            "api-resources",
            "--verbs=list",
            "--output=name",
            "--cached=false",
        ])?;
        let kinds: Vec<&str> = kinds
            .lines()
            .map(str::trim)
            .filter(|kind| {
                !kind.is_empty() && !FLEETING.contains(kind) && !kind.ends_with(".metrics.k8s.io")
            })
            .collect();
        let output = format!("--output=jsonpath={FIELDS}");
        let text = cluster
            .kubectl(&[
                "get",
                &kinds.join(","),
                "--all-namespaces",
                "--ignore-not-found",
                &output,
            ])
            .context(
                "the objects of the cluster cannot be listed, so leftovers could not be found",
            )?;
        let mut listing = Self::default();
        for line in text.lines() {
            listing.add_line(line)?;
        }
        for kind in ["nodes", "namespaces"] {
            for object in cluster.list(&[kind])? {
                listing.add_properties(&object);
            }
        }
        Ok(listing)
    }

    fn add_line(&mut self, line: &str) -> Result<()> {
        let fields: Vec<&str> = line.split('|').collect();
        let [version, kind, namespace, name, uid, owners] = fields.as_slice() else {
            bail!("kubectl has printed a line of another form: {line}");
        };
        let group = version
            .split_once('/')
            .map_or(String::new(), |(group, _)| format!(".{group}"));
        let place = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let entry = Entry {
            uid: (*uid).to_owned(),
            owners: owners
                .split(',')
                .filter(|uid| !uid.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        self.0.insert(format!("{kind}{group} {place}{name}"), entry);
        Ok(())
    }

    /// Adds labels, annotations, taints, conditions and resources of a node, and labels and
    /// annotations of a namespace, each by its key.
    fn add_properties(&mut self, object: &Value) {
        let of = format!(
            "{} {}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        let keys = |value: &Value| -> Vec<String> {
            value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect()
        };
        let named = |value: &Value, field: &str| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|one| one[field].as_str().map(str::to_owned))
                .collect()
        };
        for (property, names) in [
            ("label", keys(&object["metadata"]["labels"])),
            ("annotation", keys(&object["metadata"]["annotations"])),
            ("taint", named(&object["spec"]["taints"], "key")),
            ("condition", named(&object["status"]["conditions"], "type")),
            ("resource", keys(&object["status"]["capacity"])),
        ] {
            for name in names {
                let entry = Entry {
                    uid: String::new(),
                    owners: vec![],
                };
                self.0.insert(format!("{of}: {property} {name}"), entry);
            }
        }
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> usize {
        self.0
            .values()
            .filter(|entry| !entry.uid.is_empty())
            .count()
    }

    /// Compares with the listing of before: an object that is there now and was not (`left: …`),
    /// and one that was there and is not (`gone: …`). An object of which an owner was there before
    /// is no difference: a Deployment of the cluster may replace its pods meanwhile.
    pub fn differences(&self, before: &Self) -> Vec<String> {
        let known: BTreeSet<&str> = before
            .0
            .values()
            .map(|entry| entry.uid.as_str())
            .filter(|uid| !uid.is_empty())
            .collect();
        let now: BTreeMap<&str, &Entry> = self
            .0
            .values()
            .map(|entry| (entry.uid.as_str(), entry))
            .collect();
        let left = self
            .0
            .iter()
            .filter(|(name, entry)| {
                !before.0.contains_key(*name) && !is_owned(entry, &known, &now, 0)
            })
            .map(|(name, _)| format!("left: {name}"));
        let gone = before
            .0
            .iter()
            .filter(|(name, entry)| !self.0.contains_key(*name) && entry.owners.is_empty())
            .map(|(name, _)| format!("gone: {name}"));
        left.chain(gone).collect()
    }
}

/// Returns true if an owner, or an owner's owner, is known. Owners are at most a few steps away,
/// for example CronJob, Job, Pod.
fn is_owned(
    entry: &Entry,
    known: &BTreeSet<&str>,
    now: &BTreeMap<&str, &Entry>,
    depth: u8,
) -> bool {
    depth < 8
        && entry.owners.iter().any(|owner| {
            known.contains(owner.as_str())
                || now
                    .get(owner.as_str())
                    .is_some_and(|owner| is_owned(owner, known, now, depth + 1))
        })
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
