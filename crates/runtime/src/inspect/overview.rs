//! The state of a resource for people: its status, and its workloads and pods as they are now.

use std::collections::BTreeMap;

use futures::{StreamExt, future::join_all, stream};
use jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::{GroupVersionKind, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use weft_plan::{
    Domain, Facts, Input, Inventory, Kind, Live, OWNER_LABEL, ObjectKey, Owner, condition, kinds,
    report::Blocked,
    rollout::{self, PodView, Rollout},
};

use crate::{
    api_server::cluster::{Cluster, Error},
    inspect::presence::{self, Leader},
    reconcile::{objects::Objects, stored::inventory_key},
};

/// The state of a resource.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The resource as it is.
    pub resource: Value,
    /// The components in the order of status, then those that exist and are not in status.
    pub components: Vec<Component>,
}

/// A component of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// The name of the component.
    pub name: String,
    /// The component's state in status in one word, for example `Available`. Empty if status has
    /// none.
    pub state: String,
    /// Further messages in status, a line each.
    pub messages: Vec<String>,
    /// How many objects of it are in the cluster, or on their way.
    pub objects: usize,
    /// Its workloads as they are now.
    pub workloads: Vec<Workload>,
}

/// A DaemonSet or Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The identity of the workload.
    pub object: ObjectKey,
    /// How many pods are ready.
    pub ready: i64,
    /// The number of pods that the workload asks for.
    pub desired: i64,
    /// State of the rollout. `None` if it does not exist, or is not Weft's.
    pub rollout: Option<Rollout>,
    /// True if a workload of this name exists that is not Weft's.
    pub is_foreign: bool,
}

impl Overview {
    /// Reports whether status says of the current generation that all is well.
    pub fn is_available(&self) -> bool {
        let generation = self.generation();
        let about =
            |value: &Value| value["observedGeneration"].as_i64().unwrap_or_default() >= generation;
        let status = &self.resource["status"];
        if let Some(ready) = condition(status, "Ready") {
            return about(status) && ready["status"] == "True" && !self.is_going();
        }
        about(status)
            && condition(status, "Available").is_some_and(|available| available["status"] == "True" && about(available))
            // Of a change that is refused, nothing is there. Earlier objects may well exist.
            && condition(status, "Degraded").is_none_or(|degraded| degraded["status"] != "True")
            && !self.is_going()
    }

    /// Returns `metadata.generation` of the resource.
    pub fn generation(&self) -> i64 {
        Live::of(&self.resource).generation()
    }

    /// Reports whether status was written about the current generation.
    pub fn is_seen(&self) -> bool {
        Live::of(&self.resource).observed_generation() >= self.generation()
    }

    /// Reports whether the resource is being deleted.
    pub fn is_going(&self) -> bool {
        Live::of(&self.resource).is_being_deleted()
    }

    /// When something is different by time alone.
    pub fn deadline(&self) -> Option<Timestamp> {
        let rollouts = self
            .components
            .iter()
            .flat_map(|component| &component.workloads)
            .filter_map(|workload| workload.rollout.as_ref());
        rollouts
            .filter_map(|rollout| {
                if let Rollout::Progressing { deadline, .. } = rollout {
                    *deadline
                } else {
                    None
                }
            })
            .min()
    }
}

/// The operator that works on a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    /// The replica that leads, alive or not.
    pub leader: Option<Leader>,
    /// The operator that Weft replaces, if it runs.
    pub blocked: Option<Blocked>,
}

/// Looks who works on a domain. `namespace` is the operator's.
pub async fn presence(
    cluster: &Cluster,
    domain: &dyn Domain,
    namespace: &str,
) -> Result<Presence, Error> {
    let (leader, blocked) = futures::try_join!(
        presence::leader(cluster, namespace, domain),
        presence::blocked(cluster, domain)
    )?;
    Ok(Presence { leader, blocked })
}

/// Reads the state of a resource. `namespace` is the operator's.
pub async fn look(
    objects: &Objects,
    resource: Value,
    namespace: &str,
    now: Timestamp,
) -> Result<Overview, Error> {
    let (cluster, domain) = (&objects.cluster, &*objects.domain);
    let (place, owned) = (
        domain.namespace(),
        format!("labelSelector={OWNER_LABEL}={}", objects.owner.label()),
    );
    let ours = format!("labelSelector={}", domain.pod_selector());
    let key = inventory_key(namespace, &objects.owner);
    let (daemon_sets, deployments, pods, inventory) = futures::try_join!(
        cluster.list(kinds::DAEMON_SET, place, &owned),
        cluster.list(kinds::DEPLOYMENT, place, &owned),
        cluster.list(kinds::POD, place, &ours),
        cluster.get(&key),
    )?;
    // Status reports a damaged inventory.
    let inventory = inventory
        .and_then(|map| Inventory::from_data(&map["data"]).ok())
        .unwrap_or_default();
    let order = order(domain, &resource, &inventory);
    let live: BTreeMap<_, _> = daemon_sets
        .into_iter()
        .chain(deployments)
        .filter_map(|workload| Some((ObjectKey::of(&workload)?, workload)))
        .collect();
    let pods: Vec<_> = pods.iter().filter_map(PodView::of).collect();
    let mut components = said(&resource["status"]);
    for (object, unit) in &inventory.objects {
        let index = components
            .iter()
            .position(|component| component.name == *unit)
            .unwrap_or_else(|| {
                components.push(Component {
                    name: unit.clone(),
                    state: String::new(),
                    messages: Vec::new(),
                    objects: 0,
                    workloads: Vec::new(),
                });
                components.len() - 1
            });
        components[index].objects += 1;
        if matches!(object.kind, kinds::DAEMON_SET | kinds::DEPLOYMENT) {
            components[index]
                .workloads
                .push(workload(cluster, object, live.get(object), &pods, now).await);
        }
    }
    if objects.owner.kind.namespaced {
        components.extend(of_namespace(cluster, domain, &resource, &live, &pods, now).await);
    }
    components.sort_by_key(|component| {
        order
            .iter()
            .position(|name| *name == component.name)
            .unwrap_or(usize::MAX)
    });
    Ok(Overview {
        resource,
        components,
    })
}

/// Returns the workloads that were made for a resource in its namespace, where there is no
/// inventory.
async fn of_namespace(
    cluster: &Cluster,
    domain: &dyn Domain,
    resource: &Value,
    live: &BTreeMap<ObjectKey, Value>,
    pods: &[PodView],
    now: Timestamp,
) -> Option<Component> {
    let mut workloads = Vec::new();
    for (object, workload_of_it) in live.iter().filter(|(object, _)| {
        object.namespace.as_deref() == resource["metadata"]["namespace"].as_str()
    }) {
        workloads.push(workload(cluster, object, Some(workload_of_it), pods, now).await);
    }
    let objects = workloads.len();
    let (name, state) = (domain.name().to_owned(), String::new());
    (objects > 0).then_some(Component {
        name,
        state,
        messages: Vec::new(),
        objects,
        workloads,
    })
}

/// The components in the order of the domain, so that they keep their places while status comes to
/// know of them.
fn order(domain: &dyn Domain, resource: &Value, inventory: &Inventory) -> Vec<String> {
    let mut dice = |bytes: &mut [u8]| bytes.fill(0x11);
    let input = Input {
        resource,
        record: None,
        decided: inventory.decided.as_ref(),
        facts: &Facts::default(),
        random: &mut dice,
    };
    domain
        .decide(input)
        .map(|decision| decision.units.into_iter().map(|unit| unit.name).collect())
        .unwrap_or_default()
}

/// Returns the components in status, where it has such a list.
fn said(status: &Value) -> Vec<Component> {
    let components = status["components"].as_array().into_iter().flatten();
    let text =
        |component: &Value, field: &str| component[field].as_str().unwrap_or_default().to_owned();
    components
        .map(|component| Component {
            name: text(component, "name"),
            state: text(component, "state"),
            messages: text(component, "message")
                .lines()
                .map(str::to_owned)
                .collect(),
            objects: 0,
            workloads: Vec::new(),
        })
        .collect()
}

async fn workload(
    cluster: &Cluster,
    object: &ObjectKey,
    live: Option<&Value>,
    pods: &[PodView],
    now: Timestamp,
) -> Workload {
    let Some(live) = live else {
        // Only those with Weft's label are listed. If this one cannot be read, it counts as
        // missing.
        let is_foreign = cluster.get(object).await.is_ok_and(|found| found.is_some());
        return Workload {
            object: object.clone(),
            ready: 0,
            desired: 0,
            rollout: None,
            is_foreign,
        };
    };
    let count = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let (ready, desired) = match object.kind {
        kinds::DAEMON_SET => (
            count("/status/numberReady"),
            count("/status/desiredNumberScheduled"),
        ),
        _ => (count("/status/readyReplicas"), count("/spec/replicas")),
    };
    let rollout = rollout::rollout(live, pods, &missing(cluster, live).await, now);
    let (ready, desired) = (ready.unwrap_or_default(), desired.unwrap_or_default());
    Workload {
        object: object.clone(),
        ready,
        desired,
        rollout: Some(rollout),
        is_foreign: false,
    }
}

/// Returns objects that a workload needs and that do not exist. A user who may not read Secrets
/// does not see them here. Status names them.
async fn missing(cluster: &Cluster, workload: &Value) -> Vec<ObjectKey> {
    let inputs = rollout::inputs(workload);
    let there = join_all(inputs.iter().map(|input| cluster.get_metadata(input))).await;
    inputs
        .into_iter()
        .zip(there)
        .filter(|(_, there)| matches!(there, Ok(None)))
        .map(|(input, _)| input)
        .collect()
}

/// Rings whenever something is different that [`look`] or [`presence`] would see, by watches. The
/// first rings come at once: they say that the watches have begun, and that nothing is missed from
/// then on.
pub fn notifier(
    cluster: &Cluster,
    domain: &dyn Domain,
    namespace: &str,
) -> impl futures::Stream<Item = ()> + Send + use<> {
    let owner = domain.resource_name().map_or_else(
        || OWNER_LABEL.to_owned(),
        |name| {
            format!(
                "{OWNER_LABEL}={}",
                Owner {
                    kind: domain.resource(),
                    name: name.to_owned(),
                    uid: None,
                    manager: String::new()
                }
                .label()
            )
        },
    );
    let lease = presence::lease_key(namespace, domain);
    let any = watcher::Config::default;
    let mut watches = vec![
        (domain.resource(), None, any()),
        (kinds::DAEMON_SET, domain.namespace(), any().labels(&owner)),
        (kinds::DEPLOYMENT, domain.namespace(), any().labels(&owner)),
        (
            kinds::POD,
            domain.namespace(),
            any().labels(domain.pod_selector()),
        ),
        (kinds::CONFIG_MAP, Some(namespace), any().labels(&owner)),
        (
            kinds::LEASE,
            Some(namespace),
            any().fields(&format!("metadata.name={}", lease.name)),
        ),
    ];
    watches.extend(
        domain
            .operators()
            .iter()
            .map(|(kind, name)| (*kind, None, any().fields(&format!("metadata.name={name}")))),
    );
    if domain.admission().is_some() {
        watches.extend(kinds::ADMISSION.map(|kind| (kind, None, any())));
    }
    let streams = watches
        .into_iter()
        .map(|(kind, namespace, config)| events(cluster, kind, namespace, config).boxed());
    stream::select_all(streams)
}

fn events(
    cluster: &Cluster,
    kind: Kind,
    namespace: Option<&str>,
    config: watcher::Config,
) -> impl futures::Stream<Item = ()> + Send + use<> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
        kind.plural,
    );
    let client = cluster.client().clone();
    // Each change of an object shows in its metadata as a new resourceVersion.
    let api: Api<PartialObjectMeta<DynamicObject>> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    watcher(api, config).default_backoff().map(|_| ())
}
