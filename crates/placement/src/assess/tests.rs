#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, sync::Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use weft_plan::{
    Kind,
    rollout::{PodView, Trouble},
};

use super::*;
use crate::{
    registration::{Part, Progress, Task},
    status::status,
};

const NOW: &str = "2026-01-01T00:00:00Z";
const KEYSTONE: &str = "http://keystone.example:5000";
/// The annotation of a Secret that permits to send it there.
const URLS: &str = "weft.network/keystone-url";

/// A namespace in memory: what others have made, and what was applied, as it stands.
#[derive(Default)]
struct Namespace {
    others: BTreeMap<ObjectKey, Arc<Value>>,
    own: BTreeMap<ObjectKey, Arc<Value>>,
    /// Watches that have not answered yet.
    unknown: bool,
    /// True if the kinds of the other operators are served.
    has_peers: bool,
    /// True if the definition of Multus is served.
    has_networks: bool,
    /// True if the definition of OpenShift's SecurityContextConstraints is served.
    is_openshift: bool,
    /// True if Keystone does nothing.
    keystone_is_down: bool,
    /// Requests to Keystone.
    asked: Mutex<Vec<Part>>,
    /// Causes by the events about pods, by the name of the pod.
    causes: BTreeMap<String, Trouble>,
}

impl World for Namespace {
    fn object(&self, key: &ObjectKey) -> Seen<Option<Arc<Value>>> {
        if self.unknown {
            Seen::Unknown
        } else {
            Seen::Known(self.others.get(key).or_else(|| self.own.get(key)).cloned())
        }
    }

    fn selected(&self, kind: Kind, labels: &str) -> Seen<Vec<Arc<Value>>> {
        let is_chosen = |object: &Value| {
            labels
                .split(',')
                .filter_map(|one| one.split_once('='))
                .all(|(label, value)| object["metadata"]["labels"][label] == value)
        };
        let all = self
            .others
            .iter()
            .chain(&self.own)
            .filter(|(key, object)| key.kind == kind && is_chosen(object));
        Seen::Known(all.map(|(_, object)| Arc::clone(object)).collect())
    }

    fn own(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.own.get(key).cloned()
    }

    fn all_own(&self, kind: Kind) -> Vec<Arc<Value>> {
        self.own
            .iter()
            .filter(|(key, _)| key.kind == kind)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    fn failure(&self, _key: &ObjectKey) -> Option<weft_plan::report::Failure> {
        None
    }

    fn held_up(&self, pod: &PodView) -> Option<Trouble> {
        self.causes.get(&pod.name).cloned()
    }

    fn keystone(&self, task: &Task) -> Progress {
        self.asked.lock().unwrap().push(task.part);
        if self.keystone_is_down {
            Progress::Failed("no answer".to_owned())
        } else {
            Progress::Done
        }
    }

    fn serves(&self, kind: Kind) -> bool {
        let is_there = self.has_peers && kind.group.ends_with("openstack.org")
            || self.has_networks && kind == kinds::NETWORK_ATTACHMENT_DEFINITION;
        !kind.is_optional()
            || is_there
            || self.is_openshift && kind == kinds::SECURITY_CONTEXT_CONSTRAINTS
    }
}

impl Namespace {
    /// Somebody's object, with this metadata next to its name.
    fn with(mut self, kind: Kind, name: &str, metadata: &Value) -> Self {
        let key = ObjectKey::new(kind, "cloud", name);
        let mut object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": name, "namespace": "cloud", "uid": name}
        });
        json_merge(&mut object["metadata"], metadata);
        self.others.insert(key, Arc::new(object));
        self
    }

    fn with_secret(mut self, name: &str, values: &[(&str, &str)]) -> Self {
        let data: BTreeMap<_, _> = values
            .iter()
            .map(|(key, value)| (*key, STANDARD.encode(value)))
            .collect();
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cloud"},
            "data": data
        });
        self.others
            .insert(crate::world::secret("cloud", name), Arc::new(object));
        self
    }

    /// The same Secret, with this annotation.
    fn permitting(mut self, secret: &str, annotation: &str, value: &str) -> Self {
        let live = self
            .others
            .get_mut(&crate::world::secret("cloud", secret))
            .unwrap();
        Arc::make_mut(live)["metadata"]["annotations"][annotation] = value.into();
        self
    }

    /// A pod on a node.
    fn with_pod(self, name: &str, labels: &Value, created: &str, status: Value) -> Self {
        let metadata = json!({"labels": labels, "creationTimestamp": created});
        let mut world = self.with(kinds::POD, name, &metadata);
        let key = ObjectKey::new(kinds::POD, "cloud", name);
        let live = Arc::make_mut(world.others.get_mut(&key).unwrap());
        live["spec"] = json!({"nodeName": "node-1"});
        live["status"] = status;
        world
    }

    /// The same namespace, where the events about a pod have this cause.
    fn held_up_by(mut self, pod: &str, reason: &str, message: &str) -> Self {
        let trouble = Trouble {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        self.causes.insert(pod.to_owned(), trouble);
        self
    }

    /// Applies and assesses until nothing is left to apply, as the operator does. `lives` says what
    /// becomes of an object then.
    fn settle(&mut self, resource: &PlacementApi, lives: impl Fn(&mut Value)) -> Assessment {
        loop {
            let assessment = look(resource, self);
            let new: Vec<_> = assessment
                .objects
                .iter()
                .filter(|object| !self.own.contains_key(object.key()))
                .cloned()
                .collect();
            if new.is_empty() {
                return assessment;
            }
            for object in new {
                let mut live = object.body().clone();
                lives(&mut live);
                self.own.insert(object.key().clone(), Arc::new(live));
            }
        }
    }
}

fn look(resource: &PlacementApi, world: &dyn World) -> Assessment {
    assess(
        resource,
        None,
        &Settings::default(),
        world,
        NOW.parse().unwrap(),
        RandomBytes {
            user: [0; 2],
            password: [0; 16],
        },
    )
}

fn resource(more: &Value) -> PlacementApi {
    let mut spec =
        json!({"auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "db"}}});
    json_merge(&mut spec, more);
    serde_json::from_value(
        json!({"metadata": {"name": "placement", "namespace": "cloud", "uid": "u"}, "spec": spec}),
    )
    .unwrap()
}

fn json_merge(base: &mut Value, more: &Value) {
    for (field, value) in more.as_object().unwrap() {
        base[field] = value.clone();
    }
}

fn namespace() -> Namespace {
    Namespace::default().with_secret("db", &[("url", "mysql+pymysql://p:x@db.example/placement")])
}

/// As in a cluster where everything works at once.
fn well(live: &mut Value) {
    match live["kind"].as_str() {
        Some("Job") => {
            live["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]})
        }
        Some("Deployment") => {
            live["metadata"]["generation"] = json!(1);
            live["status"] = json!({
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
                "availableReplicas": 1
            });
        }
        _ => {}
    }
}

fn said(assessment: &Assessment, step: Step) -> (&str, &str, &str) {
    let state = assessment.steps.get(step).unwrap();
    (&state.status, &state.reason, &state.message)
}

#[test]
fn all_steps_are_done_where_everything_works() {
    let assessment = namespace().settle(&resource(&json!({})), well);
    assert!(
        assessment.steps.are_done() && assessment.settled && !assessment.holds,
        "{:?}",
        assessment.steps
    );
    assert_eq!(
        (
            assessment.found.ready_count,
            assessment.found.database_hostname.as_deref()
        ),
        (Some(1), Some("db.example"))
    );
    assert_eq!(assessment.found.applied_hash, assessment.found.input_hash);
}

#[test]
fn role_and_binding_are_steps_of_their_own_on_openshift() {
    let assessment = Namespace {
        is_openshift: true,
        ..namespace()
    }
    .settle(&resource(&json!({})), well);
    assert!(assessment.steps.are_done(), "{:?}", assessment.steps);
    assert_eq!(said(&assessment, Step::Role).2, "Role created");
    assert_eq!(
        said(&assessment, Step::RoleBinding).2,
        "RoleBinding created"
    );
    let elsewhere = namespace().settle(&resource(&json!({})), well);
    assert!(
        said(&elsewhere, Step::RoleBinding)
            .2
            .starts_with("Not needed")
    );
}

#[test]
fn nothing_is_said_before_the_watches_have_answered() {
    let assessment = Namespace {
        unknown: true,
        ..namespace()
    }
    .settle(&resource(&json!({})), well);
    assert!(!assessment.settled);
    assert_eq!(
        said(&assessment, Step::Input),
        ("Unknown", "Init", "Input data not checked")
    );
}

#[test]
fn a_job_that_was_deleted_after_it_succeeded_is_not_made_again() {
    let (mut world, mut resource) = (namespace(), resource(&json!({})));
    let assessment = world.settle(&resource, well);
    resource.status = Some(status(
        &PlacementApiStatus::default(),
        &assessment,
        1,
        NOW.parse().unwrap(),
    ));
    world.own.retain(|key, _| key.kind != kinds::JOB);
    let again = world.settle(&resource, well);
    assert!(again.steps.are_done() && world.all_own(kinds::JOB).is_empty());
    // Another database is another Job.
    let mut world = world.with_secret(
        "db",
        &[("url", "mysql+pymysql://p:x@other.example/placement")],
    );
    world.settle(&resource, well);
    assert_eq!(world.all_own(kinds::JOB).len(), 1);
}

#[test]
fn a_job_of_an_earlier_configuration_is_deleted_once_it_has_ended() {
    let resource = resource(&json!({}));
    let job = ObjectKey::new(kinds::JOB, "cloud", "placement-db-sync");
    let with_another_database = |live: fn(&mut Value)| {
        let mut world = namespace();
        world.settle(&resource, |object| {
            well(object);
            if object["kind"] == "Job" {
                object["metadata"]["uid"] = "earlier".into();
                live(object);
            }
        });
        let world = world.with_secret(
            "db",
            &[("url", "mysql+pymysql://p:x@other.example/placement")],
        );
        look(&resource, &world)
    };
    let ended = with_another_database(|_| {});
    assert_eq!(ended.deletions, [(job.clone(), "earlier".to_owned())]);
    assert!(
        ended.objects.iter().all(|object| *object.key() != job),
        "the old one is in the way of the new one"
    );
    let running = with_another_database(|live| live["status"] = json!({}));
    assert_eq!(running.deletions, []);
    let message = "DBsync job still running: placement-db-sync, of an earlier configuration";
    assert_eq!(
        said(&running, Step::DbSync),
        ("False", "Requested", message)
    );
}

#[test]
fn a_job_that_failed_stops_the_pods_and_says_how_to_go_on() {
    let failed = |live: &mut Value| {
        if live["kind"] == "Job" {
            live["status"] = json!({
                "conditions": [{"type": "Failed", "status": "True", "message": "too often"}]
            });
        }
    };
    let assessment = namespace().settle(&resource(&json!({})), failed);
    let (status, reason, message) = said(&assessment, Step::DbSync);
    assert_eq!((status, reason), ("False", "Error"));
    let words = "DBsync job error occurred Internal error occurred: Job has reached the specified backoff limit. Check job logs";
    assert!(
        message.starts_with(words) && message.contains("Delete Job placement-db-sync,"),
        "{message}"
    );
    assert_eq!(said(&assessment, Step::Deployment).0, "Unknown");
}

#[test]
fn a_failed_job_repeats_its_pods_message_and_the_annotation_retries_it() {
    let failed = |live: &mut Value| {
        if live["kind"] == "Job" {
            live["metadata"]["uid"] = "first".into();
            live["status"] = json!({
                "conditions": [{"type": "Failed", "status": "True", "message": "too often"}]
            });
        }
    };
    let mut world = namespace();
    world.settle(&resource(&json!({})), failed);
    let job = world.all_own(kinds::JOB)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    for (pod, second, words) in [("b", 1, "Access denied"), ("a", 2, "Unknown database")] {
        let created = json!({
            "labels": {"batch.kubernetes.io/job-name": job},
            "creationTimestamp": format!("2026-01-01T00:00:0{second}Z")
        });
        world = world.with(kinds::POD, pod, &created);
        let key = ObjectKey::new(kinds::POD, "cloud", pod);
        let mut live = (*world.others[&key]).clone();
        let terminated = json!({
            "exitCode": 1, "reason": "Error", "message": format!("...\npymysql.err: {words}")
        });
        live["status"] = json!({
            "phase": "Failed",
            "initContainerStatuses": [{"name": "db-sync", "state": {"terminated": terminated}}]
        });
        world.others.insert(key, Arc::new(live));
    }
    let assessment = look(&resource(&json!({})), &world);
    let message = said(&assessment, Step::DbSync).2;
    assert!(message.contains("(too often; pod a: Error: container db-sync: exit code 1 ... pymysql.err: Unknown database)"), "{message}");
    assert_eq!(assessment.deletions, []);

    let mut retried = resource(&json!({}));
    retried.metadata.annotations = Some([(direct::RETRY.to_owned(), "1".to_owned())].into());
    let key = ObjectKey::new(kinds::JOB, "cloud", &job);
    let assessment = look(&retried, &world);
    assert_eq!(assessment.deletions, [(key.clone(), "first".to_owned())]);
    assert!(
        assessment.objects.iter().all(|object| *object.key() != key),
        "it is in the way of itself"
    );
    // The next one fails, too: once for each value.
    world.own.remove(&key);
    let again = world.settle(&retried, failed);
    assert_eq!(
        (again.deletions.len(), said(&again, Step::DbSync).0),
        (0, "False")
    );
}

/// The status of a pod whose volumes and network the kubelet prepares.
fn starting() -> Value {
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    json!({"phase": "Pending", "containerStatuses": [{"name": "c", "state": waiting}]})
}

#[test]
fn a_pod_of_the_deployment_has_the_cause_of_its_events() {
    let resource = resource(&json!({}));
    let network = "Failed to create pod sandbox: failed to find plugin \"bridge\"";
    let cause = format!(
        "update is rolling out (0 out of 1 updated): pod p on node-1: FailedCreatePodSandBox: {network}"
    );
    let since = |created: &str| {
        let mut world = namespace();
        world.settle(&resource, |live| {
            well(live);
            if live["kind"] == "Deployment" {
                live["status"] = json!({"observedGeneration": 1});
            }
        });
        let labels = world.all_own(kinds::DEPLOYMENT)[0]["spec"]["selector"]["matchLabels"].clone();
        world.with_pod("p", &labels, created, starting())
    };
    let world = since("2025-12-31T23:58:01Z");
    let unknown = look(&resource, &world);
    assert_eq!(
        said(&unknown, Step::Deployment),
        ("False", "Requested", "Deployment in progress")
    );
    let world = world.held_up_by("p", "FailedCreatePodSandBox", network);
    let early = look(&resource, &world);
    let message = format!("Deployment in progress: {cause}");
    assert_eq!(
        said(&early, Step::Deployment),
        ("False", "Requested", &*message)
    );
    assert_eq!(
        early.deadline,
        Some("2026-01-01T00:00:01Z".parse().unwrap()),
        "it is an error then"
    );
    let world = since("2025-12-31T23:58:00Z").held_up_by("p", "FailedCreatePodSandBox", network);
    let late = look(&resource, &world);
    let message = format!("Deployment error occurred {cause}");
    assert_eq!(said(&late, Step::Deployment), ("False", "Error", &*message));
}

#[test]
fn a_job_has_the_cause_of_its_pods_events_or_of_its_last_failure() {
    let resource = resource(&json!({}));
    let mut world = namespace();
    world.settle(&resource, |live| {
        if live["kind"] == "Job" {
            live["metadata"]["uid"] = "earlier".into();
        }
    });
    let labels = json!({"batch.kubernetes.io/job-name": "placement-db-sync"});
    let crash = json!({
        "exitCode": 1, "reason": "Error", "message": "pymysql.err: Access denied"
    });
    let failed = json!({
        "phase": "Failed",
        "initContainerStatuses": [{"name": "db-sync", "state": {"terminated": crash}}]
    });
    let world = world
        .with_pod("b", &labels, "2026-01-01T00:00:01Z", failed)
        .with_pod("a", &labels, "2026-01-01T00:00:02Z", starting());
    let between = look(&resource, &world);
    assert_eq!(
        said(&between, Step::DbSync),
        (
            "False",
            "Requested",
            "DBsync job still running: pod b on node-1: Error: container db-sync: exit code 1 pymysql.err: Access denied"
        )
    );
    let mount = "MountVolume.SetUp failed for volume \"config-data\" : secret \"x\" not found";
    let with_another_database = |world: Namespace| {
        let url = "mysql+pymysql://p:x@other.example/placement";
        look(&resource, &world.with_secret("db", &[("url", url)])).deletions
    };
    let job = ObjectKey::new(kinds::JOB, "cloud", "placement-db-sync");
    let world = world.held_up_by("a", "FailedMount", mount);
    let held_up = look(&resource, &world);
    let message = format!("DBsync job still running: pod a on node-1: FailedMount: {mount}");
    assert_eq!(
        said(&held_up, Step::DbSync),
        ("False", "Requested", &*message)
    );
    assert_eq!(
        with_another_database(world),
        [(job, "earlier".to_owned())],
        "it makes way for one that can work"
    );
}

#[test]
fn a_pod_of_a_job_that_has_lost_its_sandbox_has_the_cause_of_its_events() {
    let resource = resource(&json!({}));
    let mut world = namespace();
    world.settle(&resource, |_| {});
    let labels = json!({"batch.kubernetes.io/job-name": "placement-db-sync"});
    let before = json!({"exitCode": 255, "reason": "Unknown"});
    let lost = json!({
        "phase": "Pending",
        "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
        "initContainerStatuses": [{"name": "db-sync", "state": {"terminated": before}}]
    });
    let network = "failed to find plugin \"bridge\"";
    let world = world
        .with_pod("a", &labels, "2026-01-01T00:00:01Z", lost)
        .held_up_by("a", "FailedCreatePodSandBox", network);
    let message =
        format!("DBsync job still running: pod a on node-1: FailedCreatePodSandBox: {network}");
    assert_eq!(
        said(&look(&resource, &world), Step::DbSync),
        ("False", "Requested", &*message)
    );
}

#[test]
fn a_job_whose_next_pod_starts_after_a_failure_keeps_its_place() {
    let resource = resource(&json!({}));
    let mut world = namespace();
    world.settle(&resource, |_| {});
    let labels = json!({"batch.kubernetes.io/job-name": "placement-db-sync"});
    let terminated = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    let failed = json!({
        "phase": "Failed", "initContainerStatuses": [{"name": "db-sync", "state": terminated}]
    });
    let url = "mysql+pymysql://p:x@other.example/placement";
    let world = world.with_secret("db", &[("url", url)]).with_pod(
        "a",
        &labels,
        "2026-01-01T00:00:01Z",
        failed,
    );
    assert_eq!(look(&resource, &world).deletions.len(), 1);
    let world = world.with_pod("b", &labels, "2026-01-01T00:00:02Z", starting());
    assert_eq!(
        look(&resource, &world).deletions,
        [],
        "it may change tables in a moment"
    );
}

/// A PlacementAPI that has held other controllers' objects before. Its status does not show them.
fn bound(more: &Value) -> PlacementApi {
    let mut resource = resource(more);
    resource.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    resource
}

fn peers() -> Namespace {
    Namespace {
        has_peers: true,
        ..namespace()
    }
}

fn released(disclaims: &[Disclaim]) -> Vec<(&str, &str, bool)> {
    disclaims
        .iter()
        .map(|disclaim| {
            (
                disclaim.key.kind.kind,
                disclaim.key.name.as_str(),
                disclaim.leaves,
            )
        })
        .collect()
}

#[test]
fn a_topology_that_was_held_before_the_deployment_had_it_is_released() {
    let held = json!({"finalizers": ["openstack.org/placementapi-placement"]});
    let world = || {
        peers()
            .with(kinds::TOPOLOGY, "old", &held)
            .with(kinds::TOPOLOGY, "new", &held)
    };
    let with_new = bound(&json!({"topologyRef": {"name": "new"}}));
    let assessment = world().settle(&with_new, well);
    assert!(assessment.steps.are_done(), "{:?}", assessment.steps);
    assert_eq!(
        released(&assessment.disclaims),
        [("Topology", "old", false)]
    );
    assert_eq!(
        released(&world().settle(&bound(&json!({})), well).disclaims),
        [("Topology", "new", false), ("Topology", "old", false)]
    );
    assert_eq!(
        released(&departure(&with_new, &world()).disclaims),
        [("Topology", "new", false), ("Topology", "old", false)]
    );
}

#[test]
fn a_credential_that_was_held_before_pods_had_it_is_released() {
    let held = json!({
        "finalizers": [credential::FINALIZER], "labels": {credential::LABEL.0: credential::LABEL.1}
    });
    let world = || peers().with(kinds::SECRET, "ac", &held);
    assert_eq!(
        released(&world().settle(&bound(&json!({})), well).disclaims),
        [("Secret", "ac", false)]
    );
    assert_eq!(
        released(&departure(&bound(&json!({})), &world()).disclaims),
        [("Secret", "ac", false)]
    );
}

#[test]
fn database_and_registration_are_left_after_pods_do_without_them() {
    let owner = json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "name": "placement", "uid": "u"
    });
    let made = json!({
        "finalizers": ["other/one", FINALIZER], "ownerReferences": [owner],
        "labels": {"mariaDBDatabaseName": "placement"}
    });
    let mut world = peers();
    for (kind, name) in [
        (kinds::MARIADB_ACCOUNT, "account"),
        (kinds::MARIADB_DATABASE, "placement"),
        (kinds::KEYSTONE_SERVICE, "placement"),
        (kinds::KEYSTONE_ENDPOINT, "placement"),
    ] {
        world = world.with(kind, name, &made);
    }
    let key = ObjectKey::new(kinds::MARIADB_ACCOUNT, "cloud", "account");
    let mut account = (*world.others[&key]).clone();
    account["spec"]["secret"] = "account-db-secret".into();
    world.others.insert(key, Arc::new(account));
    let key = crate::world::secret("cloud", "account-db-secret");
    world.own.insert(
        key,
        Arc::new(json!({
            "metadata": {"name": "account-db-secret", "uid": "s", "ownerReferences": [owner]}
        })),
    );

    let starting = world.settle(&bound(&json!({})), |live| {
        well(live);
        if live["kind"] == "Deployment" {
            live["status"]["readyReplicas"] = 0.into();
            live["status"]["availableReplicas"] = 0.into();
        }
    });
    assert!(
        !starting.steps.are_done() && starting.disclaims.is_empty(),
        "pods may still have them"
    );
    world.own.retain(|key, _| key.kind != kinds::DEPLOYMENT);
    let assessment = world.settle(&bound(&json!({})), well);
    assert_eq!(
        released(&assessment.disclaims),
        [
            ("Secret", "account-db-secret", true),
            ("MariaDBAccount", "account", true),
            ("MariaDBDatabase", "placement", true),
            ("KeystoneEndpoint", "placement", true),
            ("KeystoneService", "placement", true),
        ]
    );
    assert_eq!(assessment.deletions, []);
    // One that has never held anything asks for nothing.
    assert_eq!(world.settle(&resource(&json!({})), well).disclaims, []);
}

#[test]
fn a_credential_that_is_not_there_yet_is_not_what_pods_run_with() {
    let direct = json!({"auth": {"applicationCredentialSecret": "ac"}, "secret": "osp",
    "keystone": {
        "external": {"authURL": KEYSTONE}, "registration": "Direct",
        "adminSecret": {"name": "admin"}
    }});
    let mut world = namespace()
        .with_secret("osp", &[("PlacementPassword", "12345678")])
        .with_secret("admin", &[("username", "admin"), ("password", "12345678")])
        .permitting("osp", URLS, KEYSTONE)
        .permitting("admin", URLS, KEYSTONE);
    let by_password = world.settle(&bound(&direct), well);
    assert!(by_password.steps.are_done(), "{:?}", by_password.steps);
    assert_eq!(by_password.found.credential, Some(None));

    let mut world = world.with_secret("ac", &[("AC_ID", "a"), ("AC_SECRET", "b")]);
    assert_eq!(look(&bound(&direct), &world).claims.len(), 1);
    let key = crate::world::secret("cloud", "ac");
    let mut held = (*world.others[&key]).clone();
    held["metadata"]["finalizers"] = json!([credential::FINALIZER]);
    held["metadata"]["labels"] = json!({credential::LABEL.0: credential::LABEL.1});
    world.others.insert(key, Arc::new(held));
    let by_credential = world.settle(&bound(&direct), well);
    assert_eq!(by_credential.found.credential, Some(Some("ac".to_owned())));
}

#[test]
fn a_load_balancer_without_an_address_is_waited_for() {
    let public = json!({"override": {"service": {"public": {"spec": {"type": "LoadBalancer"}}}}});
    let mut world = namespace();
    let assessment = world.settle(&resource(&public), well);
    assert_eq!(
        said(&assessment, Step::CreateService),
        (
            "False",
            "Requested",
            "Create service in progress: waiting for the LoadBalancer IP of placement-public"
        )
    );
    let key = ObjectKey::new(kinds::SERVICE, "cloud", "placement-public");
    let mut service = (*world.own[&key]).clone();
    service["status"]["loadBalancer"]["ingress"] = json!([{"ip": "192.0.2.1"}]);
    world.own.insert(key, Arc::new(service));
    assert!(world.settle(&resource(&public), well).steps.are_done());
}

#[test]
fn all_that_is_missing_is_named_at_the_first_step_that_needs_some() {
    let more = json!({
        "tls": {"caBundleSecretName": "ca"}, "networkAttachments": ["storage", "tenant"],
        "topologyRef": {"name": "zones"}
    });
    let message = |mut world: Namespace, step: Step| {
        said(&world.settle(&resource(&more), well), step)
            .2
            .to_owned()
    };
    assert_eq!(
        message(Namespace::default(), Step::Input),
        "Input data resources missing: secret/db; also missing: secret/ca, Multus, infra-operator"
    );
    let served = || Namespace {
        has_networks: true,
        has_peers: true,
        ..namespace()
    };
    assert_eq!(
        message(served(), Step::TlsInput),
        "TLSInput is missing: ca; also missing: NetworkAttachmentDefinition storage, NetworkAttachmentDefinition tenant, Topology zones"
    );
    let with_bundle = || served().with_secret("ca", &[("tls-ca-bundle.pem", "a")]);
    assert_eq!(
        message(with_bundle(), Step::NetworkAttachments),
        "NetworkAttachment resources missing: storage; also missing: NetworkAttachmentDefinition tenant, Topology zones"
    );
    let network = kinds::NETWORK_ATTACHMENT_DEFINITION;
    let with_networks =
        with_bundle()
            .with(network, "storage", &json!({}))
            .with(network, "tenant", &json!({}));
    assert!(message(with_networks, Step::Topology).ends_with("\"zones\" not found"));
    // Where another mistake ends it, nothing is added.
    let empty = served().with_secret("db", &[("url", "")]);
    assert!(!message(empty, Step::Input).contains("missing"));
    let peers = json!({
        "secret": "osp-secret", "auth": {}, "database": null, "databaseInstance": "openstack"
    });
    assert_eq!(
        said(
            &Namespace::default().settle(&resource(&peers), well),
            Step::Input
        )
        .2,
        "Input data resources missing: secret/osp-secret; also missing: mariadb-operator, keystone-operator"
    );
}

#[test]
fn certificates_are_waited_for_and_a_bundle_is_missed() {
    let tls = json!({
        "tls": {
            "caBundleSecretName": "ca",
            "api": {"internal": {"secretName": "internal"}, "public": {"secretName": "public"}}
        }
    });
    let resource = resource(&tls);
    let assessment = namespace().settle(&resource, well);
    assert_eq!(
        said(&assessment, Step::TlsInput),
        (
            "False",
            "Error",
            "TLSInput is missing: ca; also missing: secret/internal, secret/public"
        )
    );
    let with_bundle = || namespace().with_secret("ca", &[("tls-ca-bundle.pem", "a")]);
    assert_eq!(
        said(&with_bundle().settle(&resource, well), Step::TlsInput),
        (
            "False",
            "Requested",
            "TLSInput is missing: internal; also missing: secret/public"
        )
    );
    let made = rcgen::generate_simple_self_signed(["placement".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = [("tls.crt", certificate.as_str()), ("tls.key", key.as_str())];
    let half = with_bundle()
        .with_secret("internal", &pair)
        .with_secret("public", &pair[..1])
        .settle(&resource, well);
    assert_eq!(
        said(&half, Step::TlsInput).2,
        "TLSInput error occured in TLS sources field not found in Secret: field 'tls.key' not found in secret/public"
    );
    assert_eq!(
        said(&half, Step::ServiceConfig).0,
        "Unknown",
        "it is done once what it names is there"
    );
    let of_another = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let unequal = [pair[0], ("tls.key", of_another.as_str())];
    let unequal = with_bundle()
        .with_secret("internal", &pair)
        .with_secret("public", &unequal)
        .settle(&resource, well);
    assert_eq!(
        said(&unequal, Step::TlsInput).2,
        "TLSInput error occured in TLS sources secret/public: tls.key is not the key of the first certificate in tls.crt: both have to be renewed together"
    );
    let whole = with_bundle()
        .with_secret("internal", &pair)
        .with_secret("public", &pair)
        .settle(&resource, well);
    assert!(whole.steps.are_done());
}

/// A PlacementAPI that needs a value of every sort: three of its own, two of the administrator of
/// Keystone.
fn with_secrets() -> (PlacementApi, Namespace) {
    let spec = json!({"auth": {"applicationCredentialSecret": "ac"}, "secret": "osp",
    "database": {"host": "db.example", "credentialsSecret": {"name": "db"}},
    "keystone": {
        "external": {"authURL": KEYSTONE}, "registration": "Direct",
        "adminSecret": {"name": "admin"}
    }});
    let world = Namespace::default()
        .with_secret("osp", &[("PlacementPassword", " 12 345 ")])
        .with_secret("db", &[("username", "placement"), ("password", " x ")])
        .with_secret("ac", &[("AC_ID", "a"), ("AC_SECRET", " b ")])
        .with_secret("admin", &[("username", "admin"), ("password", "12345678")])
        .permitting("osp", URLS, KEYSTONE)
        .permitting("admin", URLS, KEYSTONE);
    (resource(&spec), world)
}

/// Weft refuses the value before it sends it. Keystone would accept a password that fits into no
/// file.
#[test]
fn a_value_that_cannot_be_used_names_the_secret_the_key_and_the_rule() {
    let (resource, mut world) = with_secrets();
    let good = world.settle(&resource, well);
    assert_eq!(
        said(&good, Step::Input),
        ("True", "Ready", "Input data complete"),
        "blanks are part of a password"
    );
    for (secret, key) in [
        ("osp", "PlacementPassword"),
        ("db", "username"),
        ("db", "password"),
        ("ac", "AC_ID"),
        ("ac", "AC_SECRET"),
        ("admin", "username"),
        ("admin", "password"),
    ] {
        let name = crate::world::secret("cloud", secret);
        let before = Arc::clone(&world.others[&name]);
        let step = if secret == "ac" {
            Step::ServiceConfig
        } else {
            Step::Input
        };
        let failed = if secret == "ac" {
            "Service config create error occurred"
        } else {
            "Input data error occurred"
        };
        let empty = format!(
            "{failed} field '{key}' of secret/{secret} is empty, and a value is needed there"
        );
        let broken = format!(
            "{failed} field '{key}' of secret/{secret} has the control character '\\n' at position 6"
        );
        for (value, why) in [("", &empty), (" \n", &empty), ("12345\n", &broken)] {
            let mut live = (*before).clone();
            live["data"][key] = STANDARD.encode(value).into();
            world.others.insert(name.clone(), Arc::new(live));
            let assessment = world.settle(&resource, well);
            let (status, reason, message) = said(&assessment, step);
            assert!(
                (status, reason) == ("False", "Error") && message.starts_with(why),
                "{value:?}: {message}"
            );
            assert!(!message.contains("12345"), "{message}");
        }
        world.others.insert(name, before);
    }
}

#[test]
fn an_id_or_an_address_with_a_blank_at_its_end_is_refused() {
    let (resource, world) = with_secrets();
    let assessment = world
        .with_secret("ac", &[("AC_ID", "a "), ("AC_SECRET", "b")])
        .settle(&resource, well);
    let why = "Service config create error occurred field 'AC_ID' of secret/ac begins or ends with a blank: write the Secret without it";
    assert_eq!(said(&assessment, Step::ServiceConfig).2, why);
    let world = Namespace::default().with_secret(
        "db",
        &[("url", " mysql+pymysql://p:x@db.example/placement")],
    );
    let assessment = { world }.settle(&self::resource(&json!({})), well);
    assert!(
        said(&assessment, Step::Input)
            .2
            .contains("field 'url' of secret/db begins or ends with a blank")
    );
}

#[test]
fn an_empty_bundle_or_certificate_is_told() {
    let tls = json!({"tls": {"caBundleSecretName": "ca"}});
    let assessment = namespace()
        .with_secret("ca", &[("tls-ca-bundle.pem", "")])
        .settle(&resource(&tls), well);
    let message = said(&assessment, Step::TlsInput).2;
    assert!(
        message.starts_with(
            "TLSInput error occured in TLS sources field 'tls-ca-bundle.pem' of secret/ca is empty"
        ),
        "{message}"
    );
}

#[test]
fn networks_that_would_be_the_same_interface_make_no_pods() {
    let network = |world: Namespace, name: &str| {
        world.with(kinds::NETWORK_ATTACHMENT_DEFINITION, name, &json!({}))
    };
    let attached = |names: &[&str]| {
        let world = names.iter().fold(
            Namespace {
                has_networks: true,
                ..namespace()
            },
            |world, name| network(world, name),
        );
        let mut world = world;
        let assessment = world.settle(&resource(&json!({"networkAttachments": names})), well);
        (
            said(&assessment, Step::NetworkAttachments).2.to_owned(),
            world
                .own
                .keys()
                .any(|key| key.kind == kinds::JOB || key.kind == kinds::DEPLOYMENT),
        )
    };
    let (message, has_pods) = attached(&["tenant", "storage-network-a", "storage-network-b"]);
    assert!(
        message.starts_with(
            "NetworkAttachments error occurred storage-network-a and storage-network-b"
        ),
        "{message}"
    );
    assert!(!has_pods);
    let (message, has_pods) = attached(&["storage-net-a", "storage-net-b"]);
    assert!(
        message.contains("not all pods have interfaces") && has_pods,
        "{message}"
    );
}

#[test]
fn a_rollout_past_its_deadline_is_an_error() {
    let late = |live: &mut Value| {
        well(live);
        if live["kind"] == "Deployment" {
            let conditions = json!([
                {
                    "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
                    "message": "timed out"
                }
            ]);
            live["status"] = json!({
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
                "conditions": conditions
            });
        }
    };
    let assessment = namespace().settle(&resource(&json!({})), late);
    assert_eq!(
        said(&assessment, Step::Deployment),
        (
            "False",
            "Error",
            "Deployment error occurred ProgressDeadlineExceeded: timed out"
        )
    );
    assert_eq!(
        (assessment.found.ready_count, assessment.found.applied_hash),
        (Some(0), None)
    );
}

/// One that is registered by this operator, with the Secrets for it, which permit nothing.
fn unpermitted(more: &Value) -> (PlacementApi, Namespace) {
    let mut spec = json!({"auth": null, "secret": "osp",
    "keystone": {
        "external": {"authURL": KEYSTONE}, "registration": "Direct",
        "adminSecret": {"name": "admin"}
    }});
    json_merge(&mut spec, more);
    let world = namespace()
        .with_secret(
            "osp",
            &[("PlacementPassword", "12345678"), ("Other", "87654321")],
        )
        .with_secret(
            "admin",
            &[
                ("username", "admin"),
                ("password", "12345678"),
                ("Other", "87654321"),
            ],
        );
    (resource(&spec), world)
}

fn asked(world: &Namespace) -> Vec<Part> {
    world.asked.lock().unwrap().drain(..).collect()
}

#[test]
fn nothing_is_sent_until_each_secret_or_the_administrator_permits_it() {
    let (resource, mut world) = unpermitted(&json!({}));
    let stopped = world.settle(&resource, well);
    let (status, reason, message) = said(&stopped, Step::KeystoneService);
    assert_eq!((status, reason), ("False", "Error"));
    assert!(
        message.contains("secret/admin")
            && message.contains("secret/osp")
            && message.contains(KEYSTONE),
        "{message}"
    );
    assert!(
        asked(&world).is_empty()
            && stopped
                .objects
                .iter()
                .all(|object| object.key().kind != kinds::SECRET),
        "{:?}",
        stopped.objects
    );

    let mut world = world.permitting("admin", URLS, KEYSTONE);
    let message = said(&world.settle(&resource, well), Step::KeystoneService)
        .2
        .to_owned();
    assert!(
        !message.contains("secret/admin") && message.contains("secret/osp"),
        "{message}"
    );
    assert!(asked(&world).is_empty());
    let mut world = world.permitting("osp", URLS, "http://keystone.example:5000/v3/");
    assert!(world.settle(&resource, well).steps.are_done());
    let parts = asked(&world);
    assert!(
        parts.contains(&Part::Account) && parts.contains(&Part::Catalogue),
        "{parts:?}"
    );

    let (resource, world) = unpermitted(&json!({}));
    let settings = Settings {
        keystones: format!("https://other.example,{KEYSTONE}").parse().unwrap(),
        ..Settings::default()
    };
    let listed = assess(
        &resource,
        None,
        &settings,
        &world,
        NOW.parse().unwrap(),
        RandomBytes {
            user: [0; 2],
            password: [0; 16],
        },
    );
    assert!(
        !said(&listed, Step::KeystoneService).2.contains("secret/"),
        "{:?}",
        listed.steps
    );
}

#[test]
fn an_unusual_key_or_user_is_permitted_by_its_secret_alone() {
    let listed = Settings {
        keystones: KEYSTONE.parse().unwrap(),
        ..Settings::default()
    };
    let look = |resource: &PlacementApi, world: &Namespace| {
        // The service account is made first.
        assess(
            resource,
            None,
            &listed,
            world,
            NOW.parse().unwrap(),
            RandomBytes {
                user: [0; 2],
                password: [0; 16],
            },
        )
    };
    for (more, secret, annotation, value) in [
        (
            json!({"passwordSelectors": {"service": "Other"}}),
            "osp",
            "weft.network/keystone-keys",
            "Other",
        ),
        (
            json!({
                "keystone": {
                    "external": {"authURL": KEYSTONE}, "registration": "Direct",
                    "adminSecret": {"name": "admin", "userKey": "Other"}
                }
            }),
            "admin",
            "weft.network/keystone-keys",
            "Other",
        ),
        (
            json!({"serviceUser": "nova"}),
            "admin",
            "weft.network/keystone-users",
            "nova",
        ),
    ] {
        let (resource, mut world) = unpermitted(&more);
        world.settle(&resource, well);
        let message = said(&look(&resource, &world), Step::KeystoneService)
            .2
            .to_owned();
        let command = format!("kubectl -n cloud annotate secret {secret} {annotation}={value}");
        assert!(
            message.contains(&command) && asked(&world).is_empty(),
            "{message}"
        );
        let world = world.permitting(secret, annotation, value);
        look(&resource, &world);
        assert_eq!(asked(&world), [Part::Account]);
    }
}

#[test]
fn a_registered_service_needs_no_permission_until_values_are_sent() {
    let (mut resource, world) = unpermitted(&json!({}));
    let mut world = world
        .permitting("osp", URLS, KEYSTONE)
        .permitting("admin", URLS, KEYSTONE);
    let done = world.settle(&resource, well);
    resource.status = Some(status(
        &PlacementApiStatus::default(),
        &done,
        1,
        NOW.parse().unwrap(),
    ));
    let mut world = world
        .permitting("osp", URLS, "")
        .permitting("admin", URLS, "");
    asked(&world);
    assert!(world.settle(&resource, well).steps.are_done() && asked(&world).is_empty());
    resource.metadata.annotations = Some([(direct::RETRY.to_owned(), "1".to_owned())].into());
    assert!(
        said(&world.settle(&resource, well), Step::KeystoneService)
            .2
            .contains("may be sent")
            && asked(&world).is_empty()
    );
}

#[test]
fn a_removal_waits_for_the_permission_and_gives_up_in_the_end() {
    let (mut resource, world) = unpermitted(&json!({}));
    resource.status = Some(PlacementApiStatus::default());
    let deleted: Timestamp = NOW.parse().unwrap();
    resource.metadata.deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(deleted),
    );
    let remove = |world: &Namespace, minutes: i64| {
        direct::removal(
            &resource,
            &Settings::default(),
            world,
            deleted + jiff::SignedDuration::from_mins(minutes),
        )
    };
    let direct::Removal::Waiting(steps, deadline) = remove(&world, 1) else {
        panic!("it waits")
    };
    assert_eq!(
        deadline,
        Some(deleted + jiff::SignedDuration::from_mins(5)),
        "nothing else would have it looked at again"
    );
    let message = &steps.get(Step::KeystoneEndpoint).unwrap().message;
    assert!(
        message.contains("annotate secret admin")
            && message.contains("spec.keystone.registration to None"),
        "{message}"
    );
    assert!(
        !message.contains("secret/osp"),
        "nothing of it is sent then: {message}"
    );
    assert!(
        matches!(remove(&world, 6), direct::Removal::GivenUp(why) if why.contains("annotate secret admin"))
    );
    assert!(asked(&world).is_empty());
    let world = world.permitting("admin", URLS, KEYSTONE);
    assert!(matches!(remove(&world, 1), direct::Removal::Done));
    assert_eq!(asked(&world), [Part::Removal]);
    let world = Namespace {
        keystone_is_down: true,
        ..world
    };
    assert!(matches!(remove(&world, 4), direct::Removal::Waiting(..)));
    assert!(
        matches!(remove(&world, 6), direct::Removal::GivenUp(why) if why.contains("no answer"))
    );
}
