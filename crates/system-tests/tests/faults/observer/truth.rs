//! The state of the objects that a resource asks for, as any client of the API server sees it.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Map, Value};
use weft_plan::{Kind, OWNER_LABEL, ObjectKey, kinds};
use weft_system_tests::Cluster;

use super::{troubles::STUCK, wanted::Wanted};

/// How many objects are looked at at once.
const AT_ONCE: usize = 8;

/// The observer's field manager. It owns nothing, since it only tries.
const OBSERVER: &str = "observer";

/// The truth about a resource.
#[derive(Debug, Default)]
pub struct Truth {
    /// The mistakes of the configuration, and the field that the first one is about.
    pub refused: Option<(String, String)>,
    /// Objects that the user has to bring.
    pub lacks: Vec<String>,
    /// Objects that are wanted, and not there or being deleted.
    pub missing: Vec<ObjectKey>,
    /// Objects that are not as they should be.
    pub changed: Vec<Changed>,
    /// Objects of the resource that are not wanted.
    pub surplus: Vec<ObjectKey>,
    /// Workloads that are not rolled out.
    pub unready: Vec<Unready>,
    /// The user keeps Weft from writing.
    pub is_paused: bool,
    /// The user wants Weft to leave drift as it is.
    pub is_reported: bool,
    /// The pause holds back a change of the user's.
    pub is_held_back: bool,
    /// An operator that Weft replaces runs.
    pub is_blocked: bool,
    /// A trouble of the test's keeps Weft from doing its work.
    pub is_hindered: bool,
    /// Names of objects that Weft waits for before it applies others.
    pub obstacles: Vec<String>,
}

/// An object that is not as it should be.
#[derive(Debug)]
pub struct Changed {
    pub key: ObjectKey,
    /// The fields that differ, for people.
    pub fields: Vec<String>,
    /// The difference keeps the resource from being available.
    pub decides: bool,
}

/// A workload that is not rolled out.
#[derive(Debug)]
pub struct Unready {
    pub key: ObjectKey,
    /// The reason, as `kubectl rollout status` finds it.
    pub why: String,
    /// The test has made its pods so.
    pub is_excused: bool,
}

impl Truth {
    /// Reports whether the resource is as its user wants it.
    pub fn is_fine(&self) -> bool {
        self.refused.is_none() && self.is_in_order()
    }

    /// Reports whether everything is as the configuration in force asks for. If the present one is
    /// refused, the last valid one is in force.
    pub fn is_in_order(&self) -> bool {
        self.lacks.is_empty()
            && self.missing.is_empty()
            && self.surplus.is_empty()
            && self.unready.is_empty()
            && !self.is_held_back
            && !self.is_blocked
            && !self.changed.iter().any(|one| one.decides)
    }

    /// Reports whether anything differs from the configuration.
    pub fn differs(&self) -> bool {
        !(self.missing.is_empty() && self.changed.is_empty() && self.surplus.is_empty())
    }

    /// The truth for people, a line for each part of it.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (holds, text) in [
            (self.is_fine(), "all is as the user wants it"),
            (self.is_paused, "the user has paused it"),
            (self.is_reported, "the user wants drift to be left"),
            (self.is_held_back, "the pause holds back a change"),
            (self.is_blocked, "another operator runs"),
            (self.is_hindered, "a trouble of the test hinders Weft"),
        ] {
            lines.extend(holds.then(|| text.to_owned()));
        }
        lines.extend(
            self.refused
                .iter()
                .map(|(text, _)| format!("refused: {}", text.trim())),
        );
        lines.extend(self.lacks.iter().map(|name| format!("lacks: {name}")));
        let human = |what: &'static str| move |key: &ObjectKey| format!("{what}: {}", key.human());
        lines.extend(self.missing.iter().map(human("missing")));
        lines.extend(self.surplus.iter().map(human("not wanted")));
        for one in &self.changed {
            let name = one.key.human();
            lines.push(format!("differs: {name}, decides: {}", one.decides));
            lines.extend(one.fields.iter().map(|field| format!("    {field}")));
        }
        for one in &self.unready {
            lines.push(format!("not ready: {}: {}", one.key.human(), one.why));
        }
        lines
    }

    /// Looks at the wanted objects. `added` are fields that others have added, by JSON pointer.
    pub async fn look(
        &mut self,
        cluster: &Cluster,
        wanted: &[Wanted],
        added: &BTreeSet<(ObjectKey, &'static str)>,
    ) {
        let looks = wanted.iter().map(|one| see(cluster, one));
        let seen: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        for (key, live, mut fields) in seen {
            let Some(live) = live else {
                self.missing.push(key);
                continue;
            };
            let theirs = added
                .iter()
                .filter(|(of, pointer)| *of == key && live.pointer(pointer).is_some());
            fields.extend(theirs.map(|(_, pointer)| format!("{pointer} should not be there")));
            if let Some(why) = not_rolled_out(&live) {
                let text = live["spec"]["template"].to_string();
                self.unready.push(Unready {
                    key: key.clone(),
                    why,
                    is_excused: STUCK.iter().any(|(image, _)| text.contains(*image)),
                });
            }
            if !fields.is_empty() {
                self.changed.push(Changed {
                    key,
                    fields,
                    decides: true,
                });
            }
        }
    }
}

/// Looks at one object. Returns it, and the fields that would change if somebody applied what is
/// wanted.
async fn see(cluster: &Cluster, wanted: &Wanted) -> (ObjectKey, Option<Value>, Vec<String>) {
    let key = wanted.key.clone();
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let live = cluster.get(key.kind, namespace, &key.name).await;
    let live = live.filter(|live| live["metadata"]["deletionTimestamp"].is_null());
    let mut fields = Vec::new();
    if let (Some(live), Some(body)) = (&live, &wanted.body) {
        match applied(cluster, &key, body).await {
            Ok(applied) => unequal(&bare(live), &bare(&applied), "", &mut fields),
            Err(error) => fields.push(format!("the API server refuses it: {error}")),
        }
    }
    fields.truncate(5);
    (key, live, fields)
}

/// The object as it would be if somebody applied this by force.
async fn applied(cluster: &Cluster, key: &ObjectKey, body: &Value) -> Result<Value, String> {
    let params = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some(OBSERVER.to_owned()),
        ..PatchParams::default()
    };
    let api = cluster.api(key.kind, key.namespace.as_deref().unwrap_or_default());
    let patch = Patch::Apply(body);
    let answer = match api.patch(&key.name, &params, &patch).await {
        // The API server closes a connection that was idle for 90 s.
        Err(kube::Error::Service(_)) => api.patch(&key.name, &params, &patch).await,
        answer => answer,
    };
    match answer {
        Ok(object) => Ok(serde_json::to_value(object).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

/// Only what people decide about an object.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    for counted in [
        "managedFields",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "uid",
    ] {
        metadata.remove(counted);
    }
    // The API server counts the templates of a DaemonSet, also in a dry run.
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("deprecated.daemonset.template.generation");
    }
    object
}

/// Lists the fields in which two objects differ.
fn unequal(live: &Value, wanted: &Value, path: &str, found: &mut Vec<String>) {
    match (live, wanted) {
        (Value::Object(one), Value::Object(other)) => {
            let fields: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for field in fields {
                let value = |of: &Map<String, Value>| of.get(field).cloned().unwrap_or_default();
                unequal(
                    &value(one),
                    &value(other),
                    &format!("{path}/{field}"),
                    found,
                );
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                unequal(one, other, &format!("{path}/{index}"), found);
            }
        }
        _ if live != wanted => {
            let short = |value: &Value| value.to_string().chars().take(80).collect::<String>();
            found.push(format!(
                "{path} is {} instead of {}",
                short(live),
                short(wanted)
            ));
        }
        _ => {}
    }
}

/// The reason why a workload is not rolled out, by the rules of `kubectl rollout status`
/// (`rollout_status.go` of `k8s.io/kubectl`).
pub fn not_rolled_out(live: &Value) -> Option<String> {
    let (spec, status) = (&live["spec"], &live["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let is_daemon_set = live["kind"] == "DaemonSet";
    if !is_daemon_set && live["kind"] != "Deployment" {
        return None;
    }
    if number(&status["observedGeneration"]) < number(&live["metadata"]["generation"]) {
        return Some("its controller has not seen the latest change".to_owned());
    }
    let (wanted, updated, available) = if is_daemon_set {
        (
            number(&status["desiredNumberScheduled"]),
            number(&status["updatedNumberScheduled"]),
            number(&status["numberAvailable"]),
        )
    } else {
        (
            spec["replicas"].as_i64().unwrap_or(1),
            number(&status["updatedReplicas"]),
            number(&status["availableReplicas"]),
        )
    };
    let old = number(&status["replicas"]) - updated;
    if updated < wanted {
        Some(format!("{updated} of {wanted} pods are updated"))
    } else if !is_daemon_set && old > 0 {
        Some(format!("{old} old pods are still there"))
    } else if available < wanted {
        Some(format!("{available} of {wanted} pods are available"))
    } else {
        None
    }
}

/// The objects with this owner label that are not among the wanted ones.
pub async fn surplus(
    cluster: &Cluster,
    label: &str,
    of: &BTreeSet<Kind>,
    wanted: &[Wanted],
) -> Vec<ObjectKey> {
    let selector = ListParams::default().labels(&format!("{OWNER_LABEL}={label}"));
    let mut found = Vec::new();
    for kind in of {
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
            kind.plural,
        );
        let api: Api<DynamicObject> = Api::all_with(cluster.control_plane.client(), &resource);
        let list = match api.list(&selector).await {
            Err(kube::Error::Service(_)) => api.list(&selector).await,
            list => list,
        };
        for item in list.unwrap().items {
            let namespace = item.metadata.namespace.unwrap_or_default();
            let key = ObjectKey::new(*kind, &namespace, &item.metadata.name.unwrap());
            if !is_note(cluster, &key) && wanted.iter().all(|one| one.key != key) {
                found.push(key);
            }
        }
    }
    found
}

/// Reports whether an object is Weft's own note about a resource, or stays for good.
fn is_note(cluster: &Cluster, key: &ObjectKey) -> bool {
    let is_map = key.kind == kinds::CONFIG_MAP
        && (key.namespace.as_deref() == Some(cluster.operator_namespace())
            || key.name.starts_with("applied-"));
    is_map
        || matches!(
            key.kind,
            kinds::NAMESPACE | kinds::CUSTOM_RESOURCE_DEFINITION
        )
}
