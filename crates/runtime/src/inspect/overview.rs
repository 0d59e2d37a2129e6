//! The state of a resource for people: its status, and its workloads and pods as they are now.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::{GroupVersionKind, PartialObjectMeta},
    runtime::watcher,
};
use serde_json::Value;
use weft_plan::{
    Domain, Facts, Input, Inventory, Kind, Live, OWNER_LABEL, ObjectKey, Owner, condition, dropped,
    kinds,
    report::Blocked,
    rollout::{self, PodView, Rollout},
    text,
};

use crate::{
    api_server::cluster::{Cluster, Error},
    backoff::Backoff,
    inspect::{
        presence::{self, Leader},
        reader::Reader,
    },
    reconcile::{
        starts::{self, CORE_EVENT},
        stored::inventory_key,
    },
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
        let (ready, available) = (condition(status, "Ready"), condition(status, "Available"));
        let holds = |condition: &Value| condition["status"] == "True";
        (about(status) || self.lacks_generation())
            && (ready.is_some() || available.is_some())
            && ready.is_none_or(holds)
            && available.is_none_or(|available| holds(available) && about(available))
            // Of a change that is refused, nothing is there. Earlier objects may well exist.
            && condition(status, "Degraded").is_none_or(|degraded| !holds(degraded))
            && !self.is_going()
    }

    /// Returns `metadata.generation` of the resource.
    pub fn generation(&self) -> i64 {
        Live::of(&self.resource).generation()
    }

    /// Reports whether status was written about the current generation.
    pub fn is_seen(&self) -> bool {
        Live::of(&self.resource).observed_generation() >= self.generation()
            || self.lacks_generation()
    }

    /// Reports whether status cannot name a generation, because the definition lacks the field.
    fn lacks_generation(&self) -> bool {
        let status = &self.resource["status"];
        status["observedGeneration"].is_null()
            && condition(status, dropped::CONDITION).is_some_and(|one| one["status"] == "True")
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Presence {
    /// The replica that leads, alive or not.
    pub leader: Option<Leader>,
    /// True if the user may read which replica leads.
    pub is_leader_known: bool,
    /// The operator that Weft replaces, if it runs.
    pub blocked: Option<Blocked>,
}

/// Looks who works on a domain, as far as the user of this reader may look. `namespace` is the
/// operator's.
pub async fn presence(
    reader: &Reader,
    domain: &dyn Domain,
    namespace: &str,
) -> Result<Presence, Error> {
    let (leader, blocked) = futures::try_join!(
        presence::leader_as_seen(reader, namespace, domain),
        presence::blocked_as_seen(reader, domain)
    )?;
    Ok(Presence {
        leader,
        is_leader_known: !reader.is_unread(kinds::LEASE, Some(namespace)),
        blocked,
    })
}

/// Reads the state of a resource, as far as the user of this reader may look. `namespace` is the
/// operator's.
pub async fn look(
    reader: &Reader,
    domain: &dyn Domain,
    resource: Value,
    namespace: &str,
    now: Timestamp,
) -> Result<Overview, Error> {
    let owner = Owner::of(domain, &resource);
    // Its workloads are in its own namespace, if it has one.
    let place = Live::of(&resource).stated_namespace();
    let place = place.or(domain.namespace()).map(str::to_owned);
    let place = place.as_deref();
    let owned = format!("labelSelector={OWNER_LABEL}={}", owner.label());
    let ours = format!("labelSelector={}", domain.pod_selector());
    let key = inventory_key(namespace, &owner);
    // Only sets of objects have an inventory.
    let inventory = async {
        match owner.kind.namespaced {
            true => Ok(None),
            false => reader.get(&key).await,
        }
    };
    let (daemon_sets, deployments, pods, inventory) = futures::try_join!(
        reader.list(kinds::DAEMON_SET, place, &owned),
        reader.list(kinds::DEPLOYMENT, place, &owned),
        reader.list(kinds::POD, place, &ours),
        inventory,
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
                .push(workload(reader, object, live.get(object), &pods, now).await);
        }
    }
    if owner.kind.namespaced {
        components.extend(of_namespace(reader, domain, &resource, &live, &pods, now).await);
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
    reader: &Reader,
    domain: &dyn Domain,
    resource: &Value,
    live: &BTreeMap<ObjectKey, Value>,
    pods: &[PodView],
    now: Timestamp,
) -> Option<Component> {
    let mut workloads = Vec::new();
    for (object, workload_of_it) in live
        .iter()
        .filter(|(object, _)| object.namespace.as_deref() == Live::of(resource).stated_namespace())
    {
        workloads.push(workload(reader, object, Some(workload_of_it), pods, now).await);
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
    components
        .map(|component| Component {
            name: text(component, "name").to_owned(),
            state: text(component, "state").to_owned(),
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
    reader: &Reader,
    object: &ObjectKey,
    live: Option<&Value>,
    pods: &[PodView],
    now: Timestamp,
) -> Workload {
    let Some(live) = live else {
        // Only those with Weft's label are listed. If this one cannot be read, it counts as
        // missing.
        let is_foreign = reader.exists(object).await == Some(true);
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
    let missing = missing(reader, live).await;
    let explained = match rollout::unexplained(live, pods) {
        Some(pod) => held_up(reader, pod).await,
        None => None,
    };
    let explained_pods = rollout::with_causes(pods, explained.as_slice());
    let mut rollout = rollout::rollout(live, explained_pods, &missing, now);
    if matches!(rollout, Rollout::Progressing { .. })
        && rollout::lacks_pods(live, pods)
        && let Some(event) = failed_create(reader, live).await
    {
        rollout = rollout::with_event(rollout, &event);
    }
    let (ready, desired) = (ready.unwrap_or_default(), desired.unwrap_or_default());
    Workload {
        object: object.clone(),
        ready,
        desired,
        rollout: Some(rollout),
        is_foreign: false,
    }
}

/// Returns the latest event that says why the pods of a workload cannot be created, such as a quota
/// or the rules of Pod Security. `None` if there is none, or the user may not read it.
async fn failed_create(reader: &Reader, workload: &Value) -> Option<Value> {
    let workload = Live::of(workload);
    let query = format!(
        "fieldSelector=involvedObject.uid%3D{},reason%3DFailedCreate",
        workload.uid()
    );
    let events = reader
        .list(CORE_EVENT, Some(workload.namespace()), &query)
        .await
        .ok()?;
    events
        .into_iter()
        .max_by(|a, b| text(a, "lastTimestamp").cmp(text(b, "lastTimestamp")))
}

/// Returns a pod with the cause why it does not start, by its events, as its trouble. `None` if they
/// have none, or the user may not read them.
async fn held_up(reader: &Reader, pod: &PodView) -> Option<PodView> {
    let query = starts::about(pod);
    let events = reader
        .list(CORE_EVENT, Some(&pod.namespace), &query)
        .await
        .ok()?;
    Some(pod.with_trouble(rollout::held_up(&events)?))
}

/// Returns objects that a workload needs and that do not exist. A user who may not read Secrets
/// does not see them here. Status names them.
async fn missing(reader: &Reader, workload: &Value) -> Vec<ObjectKey> {
    let inputs = rollout::inputs(workload);
    let there = join_all(inputs.iter().map(|input| reader.exists(input))).await;
    inputs
        .into_iter()
        .zip(there)
        .filter(|(_, there)| *there == Some(false))
        .map(|(input, _)| input)
        .collect()
}

/// Notifies whenever something differs that [`look`] or [`presence`] would see, by watches, and for
/// the objects of these further kinds. The first notifications mean that the watches have begun,
/// and that nothing is missed from then on.
pub fn notifier(
    cluster: &Cluster,
    domain: &dyn Domain,
    namespace: &str,
    further: &[Kind],
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
    watches.extend(further.iter().map(|kind| (*kind, None, any())));
    if domain.admission().is_some() {
        watches.extend(kinds::ADMISSION.map(|kind| (kind, None, any())));
    }
    let streams = watches
        .into_iter()
        .map(|(kind, namespace, config)| events(cluster, kind, namespace, config).boxed());
    stream::select_all(streams)
}

/// Notifies whenever an object of a kind changes, also once the cluster begins to serve the kind.
pub fn notifier_of_kind(
    cluster: &Cluster,
    kind: Kind,
) -> impl futures::Stream<Item = ()> + Send + use<> {
    events(cluster, kind, None, watcher::Config::default())
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
    let watch = Watch {
        events: watcher(api, config).boxed(),
        pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        was_listed: false,
    };
    stream::unfold(watch, Watch::next_change)
}

/// The pause after a watch has failed for the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of a watch that keeps failing, for example because the cluster does not serve
/// the kind.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A watch of the objects of a kind.
struct Watch<S> {
    events: S,
    pauses: Backoff,
    /// True if the last list or watch succeeded.
    was_listed: bool,
}

impl<S, O> Watch<S>
where
    S: futures::Stream<Item = watcher::Result<watcher::Event<O>>> + Unpin,
{
    /// Waits for the next change. A watch that fails is one change, and its further failures are
    /// none: a kind that the cluster does not serve, or that the user may not read, changes
    /// nothing.
    async fn next_change(mut self) -> Option<((), Self)> {
        loop {
            match self.events.next().await? {
                // A list begins, and may still fail.
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
                Ok(_) => {
                    self.pauses.reset();
                    self.was_listed = true;
                    return Some(((), self));
                }
                Err(_) if self.was_listed => {
                    self.was_listed = false;
                    return Some(((), self));
                }
                Err(_) => tokio::time::sleep(self.pauses.next_pause()).await,
            }
        }
    }
}
