//! The end state of everything that Weft made, to be compared whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use futures::{StreamExt, stream};
use kube::{
    Api, Discovery,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::verbs,
};
use serde_json::{Value, json};
use weft_plan::OWNER_LABEL;

use super::cluster::{Cluster, NAMESPACE};

pub(super) type Uids = BTreeSet<String>;

/// Everything that is there and was not before the first NetworkAddonsConfig, and the namespace of
/// the operands: all kinds that the API server knows, whole, but for
/// - what identifies and counts: uid (of owners too), resourceVersion, generation, times, revision
///   annotations, cluster IPs;
/// - the values in Secrets and in CA bundles, which are drawn at random;
/// - status, except that of the NetworkAddonsConfig itself;
/// - managedFields, of which the owners are kept: manager, operation and subresource;
/// - what the cluster's own controllers make out of it: pods, ReplicaSets, ControllerRevisions,
///   EndpointSlices, Events, Leases and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The objects, by `Kind namespace/name`.
    pub objects: BTreeMap<String, Value>,
}

impl Snapshot {
    /// Of a single object.
    pub fn of(object: Value) -> Self {
        Self {
            objects: BTreeMap::from([(title(&object), masked(object))]),
        }
    }

    /// Of those objects only that the other one has too.
    #[must_use]
    pub fn only(&self, other: &Self) -> Self {
        Self {
            objects: self
                .objects
                .iter()
                .filter(|(name, _)| other.objects.contains_key(*name))
                .map(|(name, object)| (name.clone(), object.clone()))
                .collect(),
        }
    }

    /// Returns the differences, a line each: `- DaemonSet ns/name /spec/x: was` and `+ DaemonSet
    /// ns/name /spec/x: is`.
    pub fn diff(&self, other: &Self) -> Vec<String> {
        let (before, after) = (self.lines(), other.lines());
        let gone = before
            .difference(&after)
            .map(|(name, line)| (name, '-', line));
        let new = after
            .difference(&before)
            .map(|(name, line)| (name, '+', line));
        let all: BTreeSet<_> = gone
            .chain(new)
            .map(|(name, sign, line)| (name, line, sign))
            .collect();
        all.into_iter()
            .map(|(name, line, sign)| format!("{sign} {name} {line}"))
            .collect()
    }

    fn lines(&self) -> BTreeSet<(String, String)> {
        let mut lines = BTreeSet::new();
        for (name, object) in &self.objects {
            leaves(object, "", &mut |path, value| {
                lines.insert((name.clone(), format!("{path}: {value}")));
            });
        }
        lines
    }
}

/// Fails with the differences if there are any.
pub fn assert_same(before: &Snapshot, after: &Snapshot, when: &str) {
    let differences = before.diff(after);
    assert!(
        differences.is_empty(),
        "{when}: {} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn leaves(value: &Value, path: &str, found: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(map) if !map.is_empty() => map.iter().for_each(|(key, value)| {
            leaves(value, &format!("{path}/{}", key.replace('/', "~1")), found)
        }),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .enumerate()
            .for_each(|(index, value)| leaves(value, &format!("{path}/{index}"), found)),
        leaf => found(path, leaf),
    }
}

pub(super) async fn uids(cluster: &Cluster) -> Uids {
    all(cluster, |_| true)
        .await
        .iter()
        .map(|object| uid(object).to_owned())
        .collect()
}

pub(super) async fn take(cluster: &Cluster) -> Snapshot {
    take_of(cluster, |kind| !is_derived(kind)).await
}

/// Of what is in the other one, as it is now. Asks for its kinds only: this is done again and
/// again.
pub(super) async fn take_again(cluster: &Cluster, other: &Snapshot) -> Snapshot {
    let kinds: BTreeSet<_> = other
        .objects
        .values()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    take_of(cluster, |kind| kinds.contains(kind))
        .await
        .only(other)
}

async fn take_of(cluster: &Cluster, kinds: impl Fn(&str) -> bool) -> Snapshot {
    let objects = all(cluster, kinds).await;
    let wanted = objects.into_iter().filter(|object| {
        let namespace = object["kind"] == "Namespace" && object["metadata"]["name"] == NAMESPACE;
        (namespace || !cluster.before.contains(uid(object))) && !is_of_every_namespace(object)
    });
    Snapshot {
        objects: wanted
            .map(|object| (title(&object), masked(object)))
            .collect(),
    }
}

pub(super) async fn leftovers(cluster: &Cluster) -> BTreeSet<String> {
    let objects = all(cluster, |_| true).await;
    let left = objects.iter().filter(|object| {
        let marked = !object["metadata"]["labels"][OWNER_LABEL].is_null();
        // The Deployment of the operator gets its ReplicaSet and its pod at any time.
        let operator = object["metadata"]["namespace"] == *cluster.operator_namespace()
            && object["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(&cluster.operator.name))
            && ["ControllerRevision", "ReplicaSet", "Pod"]
                .iter()
                .any(|kind| object["kind"] == *kind);
        // The API server registers every group of a CustomResourceDefinition, and it may find only
        // minutes later that nobody has an address any more.
        let derived = ["APIService", "IPAddress"]
            .iter()
            .any(|kind| object["kind"] == *kind);
        marked
            || !derived
                && !cluster.before.contains(uid(object))
                && !is_of_every_namespace(object)
                && !operator
    });
    left.map(title).collect()
}

/// How many lists are read at once. Each needs a connection of its own.
const AT_ONCE: usize = 6;

/// All objects of these kinds in the cluster, but for Events and Leases.
async fn all(cluster: &Cluster, wanted: impl Fn(&str) -> bool) -> Vec<Value> {
    let client = cluster.control_plane.client();
    let discovery = Discovery::new(client.clone())
        .run_aggregated()
        .await
        .unwrap();
    let kinds = discovery
        .groups()
        .flat_map(|group| group.recommended_resources());
    let kinds: Vec<ApiResource> = kinds
        .filter(|(kind, can)| {
            can.supports_operation(verbs::LIST)
                && !matches!(&*kind.kind, "Event" | "Lease")
                && wanted(&kind.kind)
        })
        .map(|(kind, _)| kind)
        .collect();
    let lists = kinds.iter().map(|kind| {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
        async move {
            let list = match api.list(&ListParams::default()).await {
                // As in `Cluster::get`, the API server may have closed an idle connection.
                Err(kube::Error::Service(_)) => api.list(&ListParams::default()).await,
                list => list,
            };
            let items = match list {
                Ok(list) => list.items,
                // A definition may have gone since it was discovered.
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => panic!("list {}: {error}", kind.plural),
            };
            items.into_iter().map(|item| {
                let mut object = serde_json::to_value(item).unwrap();
                object["apiVersion"] = kind.api_version.clone().into();
                object["kind"] = kind.kind.clone().into();
                object
            })
        }
    });
    let lists: Vec<_> = stream::iter(lists).buffered(AT_ONCE).collect().await;
    lists.into_iter().flatten().collect()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Reports whether the cluster's own controllers derive this kind from Weft's objects.
fn is_derived(kind: &str) -> bool {
    matches!(
        kind,
        "Pod"
            | "ReplicaSet"
            | "ControllerRevision"
            | "EndpointSlice"
            | "Endpoints"
            | "IPAddress"
            | "APIService"
    )
}

fn is_of_every_namespace(object: &Value) -> bool {
    matches!(
        (
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        ),
        ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")
    )
}

fn title(object: &Value) -> String {
    let mut title = format!("{} ", object["kind"].as_str().unwrap());
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        write!(title, "{namespace}/").unwrap();
    }
    title + object["metadata"]["name"].as_str().unwrap()
}

fn masked(mut object: Value) -> Value {
    let ours = object["kind"] == "NetworkAddonsConfig" || object["kind"] == "NetworkConfig";
    let metadata = object["metadata"].as_object_mut().unwrap();
    for counter in ["uid", "resourceVersion", "generation", "creationTimestamp"] {
        metadata.remove(counter);
    }
    let writers: BTreeSet<_> = metadata
        .remove("managedFields")
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(writer)
        .collect();
    metadata.insert("writers".to_owned(), json!(writers));
    for owner in metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        owner.as_object_mut().unwrap().remove("uid");
    }
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        // Counted up by the cluster's controllers with every change.
        annotations.retain(|key, _| {
            !matches!(
                key.as_str(),
                "deprecated.daemonset.template.generation" | "deployment.kubernetes.io/revision"
            )
        });
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| !matches!(key.as_str(), "clusterIP" | "clusterIPs"));
    }
    // An apply that wants an affinity no more leaves an empty object, which means the same as none.
    let template = object.pointer_mut("/spec/template/spec");
    if let Some(pods) = template.and_then(Value::as_object_mut)
        && pods.get("affinity") == Some(&json!({}))
    {
        pods.remove("affinity");
    }
    if object["kind"] == "Secret" {
        let data = object.get_mut("data").and_then(Value::as_object_mut);
        data.into_iter()
            .flatten()
            .for_each(|(_, value)| *value = "drawn".into());
    }
    for hook in object
        .get_mut("webhooks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(bundle) = hook.pointer_mut("/clientConfig/caBundle") {
            *bundle = "drawn".into();
        }
    }
    if !ours {
        object.as_object_mut().unwrap().remove("status");
    } else if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("observedGeneration");
        for condition in status
            .get_mut("conditions")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            condition.as_object_mut().unwrap().retain(|key, _| {
                !matches!(
                    key.as_str(),
                    "lastTransitionTime" | "lastHeartbeatTime" | "observedGeneration"
                )
            });
        }
    }
    object
}

fn writer(entry: &Value) -> String {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {}",
        text("manager"),
        text("operation"),
        text("subresource")
    )
    .trim_end()
    .to_owned()
}
