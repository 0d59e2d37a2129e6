//! The effect of a change, compared with `weft plan` field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use weft_plan::ObjectKey;

use super::{COMMAND_LIMIT, Cluster, answer_within, weft_binary};

/// The plan of a change, and the objects that were there before.
pub struct Planned {
    plan: Value,
    before: Vec<(ObjectKey, Value)>,
}

/// The fields of an object that users see change, by path. Lists count as one value, but for those
/// that [`plan`] names by their elements.
fn fields(object: &Value) -> BTreeMap<String, String> {
    fn walk(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    let at = if key.contains(['.', '/']) {
                        format!("{path}[{key}]")
                    } else {
                        format!("{path}.{key}")
                    };
                    walk(at.trim_start_matches('.'), value, found);
                }
            }
            Value::Array(items)
                if items.iter().all(|item| item["name"].is_string())
                    && !items.is_empty()
                    && path != "metadata.ownerReferences" =>
            {
                for item in items {
                    let text = |key: &str| item[key].as_str().unwrap_or_default();
                    let at = if path.ends_with("volumeMounts") {
                        format!("mountPath={}", text("mountPath"))
                    } else if let Some(port) = item["containerPort"].as_i64() {
                        format!("containerPort={port},protocol={}", text("protocol"))
                    } else {
                        format!("name={}", text("name"))
                    };
                    walk(&format!("{path}[{at}]"), item, found);
                }
            }
            value => drop(found.insert(path.to_owned(), value.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    for (field, value) in object.as_object().unwrap() {
        match &**field {
            "status" => {}
            "metadata" => {
                for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
                    walk(&format!("metadata.{field}"), &value[field], &mut found);
                }
            }
            _ => walk(field, value, &mut found),
        }
    }
    // Controllers count revisions. An empty map says nothing, and the API server keeps the old name
    // of serviceAccountName equal.
    found.retain(|path, value| {
        value != "null"
            && value != "{}"
            && !path.ends_with("template.spec.serviceAccount")
            && !path.starts_with("metadata.annotations[deployment.kubernetes.io")
            && !path.starts_with("metadata.annotations[deprecated.")
    });
    found
}

/// The paths at which two states of an object differ.
fn changed(before: &Value, after: &Value) -> BTreeSet<String> {
    let (before, after) = (fields(before), fields(after));
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    paths
        .into_iter()
        .filter(|path| before.get(*path) != after.get(*path))
        .cloned()
        .collect()
}

impl Planned {
    /// Asks `weft plan` about this resource, with these variables in its environment, and notes the
    /// objects as they are.
    pub async fn of(
        cluster: &Cluster,
        resource: &str,
        variables: &[(&str, &str)],
        objects: impl IntoIterator<Item = ObjectKey>,
    ) -> Self {
        let mut child = tokio::process::Command::new(weft_binary())
            .args(["plan", "-f", "-", "-o", "json"])
            .env("KUBECONFIG", cluster.control_plane.kubeconfig())
            .envs(variables.iter().copied())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(resource.as_bytes())
            .await
            .unwrap();
        let output = answer_within(COMMAND_LIMIT, "weft plan", child.wait_with_output())
            .await
            .unwrap();
        let plan: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let mut before = Vec::new();
        for key in objects {
            let live = cluster
                .get(
                    key.kind,
                    key.namespace.as_deref().unwrap_or_default(),
                    &key.name,
                )
                .await;
            before.push((
                key.clone(),
                live.unwrap_or_else(|| panic!("{} is not there", key.human())),
            ));
        }
        Self {
            plan: plan["resources"][0].clone(),
            before,
        }
    }

    /// The workloads whose pods the plan says to restart, by name.
    pub fn restarts(&self) -> BTreeSet<String> {
        let restarts = self.plan["restarts"]
            .as_array()
            .unwrap_or_else(|| panic!("no restarts: {:#}", self.plan));
        restarts
            .iter()
            .map(|restart| restart["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The workloads whose pods the plan says to restart, with the reasons, for people.
    pub fn reasons(&self) -> String {
        format!("{:#}", self.plan["restarts"])
    }

    /// Returns the plan's effect on an object: the differing paths, and whether it is removed.
    fn of_object(&self, key: &ObjectKey) -> (BTreeSet<String>, bool) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let is_it = |object: &&Value| {
            object["kind"] == key.kind.kind
                && object["name"] == key.name.as_str()
                && object["namespace"].as_str() == key.namespace.as_deref()
        };
        let components = self.plan["components"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|component| component["objects"].as_array().unwrap());
        let mut all = components.chain(self.plan["removals"].as_array().into_iter().flatten());
        let found = all
            .find(is_it)
            .unwrap_or_else(|| panic!("{} is not in the plan: {:#}", key.human(), self.plan));
        let differences = found["differences"].as_array().into_iter().flatten();
        let paths = differences
            .filter(|difference| difference["change"] != "own")
            .map(|difference| text(&difference["path"]))
            .collect();
        (
            paths,
            ["delete", "replace"].contains(&&*text(&found["action"])),
        )
    }

    /// Fails unless what happened is what the plan said. Returns the workloads whose pod template
    /// is another one, by name.
    pub async fn assert_happened(&self, cluster: &Cluster) -> BTreeSet<String> {
        let mut restarted = BTreeSet::new();
        for (key, before) in &self.before {
            let (planned, goes) = self.of_object(key);
            let after = cluster
                .get(
                    key.kind,
                    key.namespace.as_deref().unwrap_or_default(),
                    &key.name,
                )
                .await;
            let same = after.filter(|after| after["metadata"]["uid"] == before["metadata"]["uid"]);
            assert_eq!(
                same.is_none(),
                goes,
                "{}: whether it is gone is not what the plan says",
                key.human()
            );
            let Some(after) = same else { continue };
            let happened = changed(before, &after);
            // A difference names a field or all that is below it.
            let is_below = |path: &String, above: &String| {
                path == above
                    || path
                        .strip_prefix(above.as_str())
                        .is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            let unannounced: Vec<_> = happened
                .iter()
                .filter(|path| !planned.iter().any(|above| is_below(path, above)))
                .collect();
            let unfulfilled: Vec<_> = planned
                .iter()
                .filter(|above| {
                    !happened
                        .iter()
                        .any(|path| is_below(path, above) || is_below(above, path))
                })
                .collect();
            assert!(
                unannounced.is_empty() && unfulfilled.is_empty(),
                "{}: not in the plan: {unannounced:?}; only in the plan: {unfulfilled:?}; in the plan: {planned:?}",
                key.human()
            );
            if before["spec"]["template"] != after["spec"]["template"] {
                restarted.insert(key.name.clone());
            }
        }
        restarted
    }
}
