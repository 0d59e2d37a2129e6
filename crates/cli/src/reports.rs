//! Objects in which operator and agents report the state of the cluster. Without operator and
//! agents they would be out of date, and no controller would delete them.

use std::collections::BTreeMap;

use anyhow::Result;
use weft_plan::ObjectKey;

use crate::online::{Online, Site};

/// The existing reports.
#[derive(Default)]
pub struct Reports {
    /// Objects that only report, with their uid.
    found: Vec<(ObjectKey, String)>,
    /// Objects in which a user asks for something, too.
    pub users: Vec<ObjectKey>,
}

impl Reports {
    /// Finds the reports of these domains.
    ///
    /// # Errors
    /// The API server refuses a list.
    pub async fn find(online: &Online, sites: &[Site]) -> Result<Self> {
        let mut all = Self::default();
        for report in sites.iter().flat_map(|site| site.entry.reports) {
            let objects = match online.cluster.list(report.kind, None, "").await {
                Ok(objects) => objects,
                // Their definition is gone, or was never there.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(online.explain(error)),
            };
            for object in &objects {
                let (Some(key), Some(uid)) =
                    (ObjectKey::of(object), object["metadata"]["uid"].as_str())
                else {
                    continue;
                };
                if report.is_users(object) {
                    all.users.push(key)
                } else {
                    all.found.push((key, uid.to_owned()))
                }
            }
        }
        Ok(all)
    }

    /// Returns true if there is no object that only reports.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the objects that only report.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.found.iter().map(|(key, _)| key)
    }

    /// Returns a line for each kind, with the number of its objects.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let mut counts = BTreeMap::new();
        self.found
            .iter()
            .for_each(|(key, _)| *counts.entry(key.kind.kind).or_insert(0_usize) += 1);
        counts
            .into_iter()
            .map(|(kind, count)| format!("{count} objects {kind}"))
    }

    /// Deletes the objects that only report. Their writers must be gone: an agent recreates its own
    /// report.
    ///
    /// # Errors
    /// The API server refuses a deletion.
    pub async fn remove(&self, online: &Online) -> Result<()> {
        for (key, uid) in &self.found {
            online
                .cluster
                .delete(key, uid)
                .await
                .map_err(|error| online.explain(error))?;
        }
        Ok(())
    }
}
