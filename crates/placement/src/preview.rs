//! Everything that a PlacementAPI leads to, without writing anything: the operator's own
//! assessments of a world in which whatever is made is there at once, and whatever others have to
//! do is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};
use weft_api::placement::PlacementApi;
use weft_operands::problems::given;
use weft_plan::{
    Facts, Kind, Live, Manifest, ObjectKey, kinds,
    report::Failure,
    rollout::{PodView, Trouble},
};

use crate::{
    Config, Settings,
    assess::{assess, departure, direct},
    peers::{Claim, Disclaim, database::RandomBytes},
    registration::{Progress, Task},
    world::{Question, Seen, World},
};

/// There are fewer steps than this that wait for what was made before.
const ROUNDS: usize = 32;

/// The preview of a PlacementAPI.
#[derive(Debug, Default)]
pub struct Preview {
    /// The objects, in the order in which they are applied.
    pub objects: Vec<Manifest>,
    /// Those of them that are deleted and recreated.
    pub replaced: BTreeSet<ObjectKey>,
    /// Claims on objects of others.
    pub claims: Vec<Claim>,
    /// Objects of others that Weft releases in the end.
    pub disclaims: Vec<Disclaim>,
    /// Assumptions.
    pub assumed: Vec<String>,
    /// Why there is no more, if there is not: the condition, and what it says.
    pub ends: Option<String>,
    /// Open questions to a [cluster](Given::Cluster) that later steps depend on.
    pub open: BTreeSet<Question>,
}

/// The input besides a PlacementAPI.
#[derive(Clone, Debug)]
pub enum Given {
    /// These objects. A database and a Keystone that they lack are taken for granted where other
    /// operators would bring them.
    Files(Vec<Value>),
    /// A cluster, as far as it has been asked.
    Cluster {
        /// Which kinds it serves.
        facts: Box<Facts>,
        /// Answers of the cluster.
        answers: BTreeMap<Question, Vec<Value>>,
    },
}

impl Given {
    /// Returns the known answer, or `None` before the question was asked.
    fn seen(&self, question: &Question) -> Option<Seen<Vec<Value>>> {
        match self {
            Self::Files(objects) => Some(Seen::Known(
                objects
                    .iter()
                    .filter(|object| matches(question, object))
                    .cloned()
                    .collect(),
            )),
            Self::Cluster { .. } if !self.serves(question.kind()) => Some(Seen::NotServed),
            Self::Cluster { answers, .. } => answers.get(question).cloned().map(Seen::Known),
        }
    }

    fn serves(&self, kind: Kind) -> bool {
        match self {
            Self::Files(_) => kind != kinds::SECURITY_CONTEXT_CONSTRAINTS,
            Self::Cluster { facts, .. } => facts.serves(kind),
        }
    }

    fn objects_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Self::Files(objects) => objects.iter_mut().collect(),
            Self::Cluster { answers, .. } => answers.values_mut().flatten().collect(),
        }
    }
}

/// Looks ahead. `elder` is another PlacementAPI of the namespace that counts instead of this one.
/// Of `dice` an account is made if there is none.
pub fn preview(
    resource: &PlacementApi,
    settings: &Settings,
    mut given: Given,
    elder: Option<&str>,
    random: RandomBytes,
) -> Preview {
    let namespace = resource
        .metadata
        .namespace
        .clone()
        .unwrap_or_else(|| "default".to_owned());
    let mut preview = Preview::default();
    if let Given::Files(objects) = &mut given {
        *objects = objects
            .iter()
            .map(|object| as_stored(object, &namespace))
            .collect();
        assume(resource, &namespace, objects, &mut preview.assumed);
    }
    let world = Ahead::new(given);
    for _ in 0..ROUNDS {
        let assessment = assess(
            resource,
            elder,
            settings,
            &world,
            Timestamp::UNIX_EPOCH,
            random,
        );
        preview.open = std::mem::take(&mut lock(&world.open));
        let progress = |preview: &Preview| {
            preview.objects.len() + preview.claims.len() + preview.replaced.len()
        };
        let before = progress(&preview);
        for (key, _) in assessment.deletions {
            world.delete(&key);
            preview.replaced.insert(key);
        }
        preview.claims.extend(
            assessment
                .claims
                .into_iter()
                .filter(|claim| world.claim(&claim.key, &claim.body)),
        );
        for object in assessment.objects {
            if world.make(&object) {
                preview.objects.push(object);
            }
        }
        if progress(&preview) == before {
            preview.disclaims = assessment.disclaims;
            let conditions = assessment.steps.conditions(&[], Timestamp::UNIX_EPOCH);
            let failed = conditions
                .iter()
                .skip(1)
                .find(|condition| condition.status == "False");
            preview.ends = failed.map(|condition| {
                format!(
                    "{}: {}",
                    condition.type_,
                    condition.message.as_deref().unwrap_or_default()
                )
            });
            break;
        }
    }
    preview
}

/// Returns the values of Secrets that nobody permits Weft to send to Keystone, in the words of the
/// condition.
pub fn unpermitted(
    resource: &PlacementApi,
    settings: &Settings,
    objects: &[Value],
) -> Option<String> {
    let config = Config::of(resource).ok()?;
    let objects = objects
        .iter()
        .map(|object| as_stored(object, &config.namespace))
        .collect();
    direct::unpermitted(&config, settings, &Ahead::new(Given::Files(objects)))
}

/// Looks ahead to the deletion of a PlacementAPI. Returns the other controllers' objects that Weft
/// would release, and the questions that need an answer before the preview can say more.
pub fn preview_departure(
    resource: &PlacementApi,
    given: Given,
) -> (Vec<Disclaim>, BTreeSet<Question>) {
    let world = Ahead::new(given);
    let disclaims = departure(resource, &world).disclaims;
    (disclaims, std::mem::take(&mut lock(&world.open)))
}

/// Adds objects that other operators usually make and that the files lack.
fn assume(
    resource: &PlacementApi,
    namespace: &str,
    known: &mut Vec<Value>,
    assumed: &mut Vec<String>,
) {
    let spec = &resource.spec;
    let has = |kind: Kind, known: &[Value]| known.iter().any(|object| object["kind"] == kind.kind);
    let noauth2 = spec.auth.as_ref().and_then(|auth| given(&auth.strategy)) == Some("noauth2");
    let external = spec
        .keystone
        .as_ref()
        .is_some_and(|keystone| keystone.external.is_some());
    if !noauth2 && !external && !has(kinds::KEYSTONE_API, known) {
        let address = |endpoint: &str| format!("http://keystone-{endpoint}.{namespace}.svc:5000");
        assumed.push(format!(
            "no KeystoneAPI is given: it is taken to be at {}",
            address("internal")
        ));
        known.push(
            json!({"apiVersion": kinds::KEYSTONE_API.api_version(), "kind": "KeystoneAPI",
            "metadata": {"name": "keystone", "namespace": namespace},
            "status": {
                "apiEndpoints": {"public": address("public"), "internal": address("internal")}
            }}),
        );
    }
    if let Some(instance) = given(&spec.database_instance) {
        let cr = format!("mariadb-{instance}");
        if !known
            .iter()
            .any(|object| object["kind"] == "Service" && Live::of(object).label("cr") == Some(&cr))
        {
            assumed.push(format!("no Service of database {instance} is given: it is taken to be {instance}.{namespace}.svc"));
            known.push(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": instance, "namespace": namespace, "labels": {"app": "mariadb", "cr": cr}
            }}));
        }
    }
}

/// As the API server would give it back.
fn as_stored(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    if Live::of(&object).stated_namespace().is_none() {
        object["metadata"]["namespace"] = namespace.into();
    }
    if let Some(texts) = object["stringData"].as_object().cloned() {
        for (key, text) in texts {
            object["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
    }
    object
}

/// The input, and the objects made so far.
struct Ahead {
    given: Mutex<Given>,
    made: Mutex<BTreeMap<ObjectKey, Arc<Value>>>,
    open: Mutex<BTreeSet<Question>>,
}

impl Ahead {
    fn new(given: Given) -> Self {
        Self {
            given: Mutex::new(given),
            made: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// Makes an object. Returns true if the object is new. Existing reports of others stay, besides
    /// the assumptions.
    fn make(&self, object: &Manifest) -> bool {
        let key = object.key();
        let mut live = object.body().clone();
        let all_true = |names: &[&str]| {
            names
                .iter()
                .map(|name| json!({"type": name, "status": "True"}))
                .collect::<Value>()
        };
        let granted = match key.kind {
            kinds::JOB => json!({"conditions": all_true(&["Complete"])}),
            kinds::SERVICE => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
            kinds::MARIADB_DATABASE => {
                json!({"conditions": all_true(&["Ready", "MariaDBDatabaseReady"])})
            }
            kinds::MARIADB_ACCOUNT => {
                json!({"conditions": all_true(&["Ready", "MariaDBAccountReady"])})
            }
            kinds::KEYSTONE_SERVICE | kinds::KEYSTONE_ENDPOINT => {
                json!({"conditions": all_true(&["Ready"])})
            }
            // Without pods, there is none to wait for.
            kinds::DEPLOYMENT => {
                live["spec"]["replicas"] = 0.into();
                json!({"observedGeneration": 0})
            }
            _ => json!({}),
        };
        let said = match lock(&self.given).seen(&Question::Object(key.clone())) {
            Some(Seen::Known(found)) => found
                .first()
                .and_then(|object| object["status"].as_object().cloned()),
            _ => None,
        };
        let mut status = said.unwrap_or_default();
        // About an older specification, maybe.
        status.remove("observedGeneration");
        status.extend(granted.as_object().cloned().unwrap_or_default());
        live["status"] = status.into();
        lock(&self.made)
            .insert(key.clone(), Arc::new(live))
            .is_none()
    }

    /// Takes an object away.
    fn delete(&self, key: &ObjectKey) {
        lock(&self.made).remove(key);
        match &mut *lock(&self.given) {
            Given::Files(objects) => objects.retain(|object| !is(object, key)),
            Given::Cluster { answers, .. } => answers
                .values_mut()
                .for_each(|objects| objects.retain(|object| !is(object, key))),
        }
    }

    /// Adds finalizers and labels to an object that was given. Returns true if the claim is new.
    fn claim(&self, key: &ObjectKey, body: &Value) -> bool {
        let mut given = lock(&self.given);
        let mut new = false;
        for object in given
            .objects_mut()
            .into_iter()
            .filter(|object| is(object, key))
        {
            let before = object.clone();
            object["metadata"]["finalizers"] = body["metadata"]["finalizers"].clone();
            for (label, value) in Live::of(body).labels() {
                object["metadata"]["labels"][label] = value.clone();
            }
            new |= *object != before;
        }
        new
    }

    fn ask(&self, question: Question) -> Seen<Vec<Arc<Value>>> {
        match lock(&self.given).seen(&question) {
            Some(seen) => seen.map(|objects| objects.into_iter().map(Arc::new).collect()),
            None => {
                lock(&self.open).insert(question);
                Seen::Unknown
            }
        }
    }
}

impl World for Ahead {
    fn object(&self, key: &ObjectKey) -> Seen<Option<Arc<Value>>> {
        match self.own(key) {
            Some(own) => Seen::Known(Some(own)),
            None => self
                .ask(Question::Object(key.clone()))
                .map(|objects| objects.into_iter().next()),
        }
    }

    fn selected(&self, kind: Kind, labels: &str) -> Seen<Vec<Arc<Value>>> {
        self.ask(Question::Selected(kind, labels.to_owned()))
    }

    fn own(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        lock(&self.made).get(key).cloned()
    }

    fn all_own(&self, kind: Kind) -> Vec<Arc<Value>> {
        lock(&self.made)
            .iter()
            .filter(|(key, _)| key.kind == kind)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    fn failure(&self, _key: &ObjectKey) -> Option<Failure> {
        None
    }

    fn held_up(&self, _pod: &PodView) -> Option<Trouble> {
        None
    }

    fn keystone(&self, _errand: &Task) -> Progress {
        Progress::Done
    }

    fn serves(&self, kind: Kind) -> bool {
        lock(&self.given).serves(kind)
    }
}

/// Reports whether an object of a file answers a question.
fn matches(question: &Question, object: &Value) -> bool {
    match question {
        Question::Object(key) => is(object, key),
        Question::Selected(kind, labels) => {
            let mut wanted = labels.split(',').filter_map(|label| label.split_once('='));
            object["kind"] == kind.kind
                && wanted.all(|(label, value)| Live::of(object).label(label) == Some(value))
        }
    }
}

fn is(object: &Value, key: &ObjectKey) -> bool {
    let live = Live::of(object);
    live.kind() == key.kind.kind
        && live.name() == key.name
        && live.stated_namespace() == key.namespace.as_deref()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn looked(spec: &Value, given: &[Value]) -> (Vec<String>, Vec<String>, Option<String>) {
        let resource =
            json!({"metadata": {"name": "placement", "namespace": "cloud"}, "spec": spec});
        let random = RandomBytes {
            user: [1; 2],
            password: [1; 16],
        };
        let preview = preview(
            &serde_json::from_value(resource).unwrap(),
            &Settings::default(),
            Given::Files(given.to_vec()),
            None,
            random,
        );
        let names = preview
            .objects
            .iter()
            .map(|object| format!("{}/{}", object.key().kind.kind, object.key().name));
        (
            names.filter(|name| !name.starts_with("Job/")).collect(),
            preview.assumed,
            preview.ends,
        )
    }

    fn secret(name: &str, values: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values
        })
    }

    #[test]
    fn a_standalone_service_is_shown_to_its_end() {
        let spec = json!({
            "secret": "osp-secret",
            "database": {"host": "db.example.com", "credentialsSecret": {"name": "db"}},
            "keystone": {
                "external": {"authURL": "https://keystone.example.com"}, "registration": "Direct",
                "adminSecret": {"name": "admin"}
            },
        });
        let all = [
            secret("osp-secret", &json!({"PlacementPassword": "a"})),
            secret("db", &json!({"username": "u", "password": "p"})),
            secret("admin", &json!({"username": "admin", "password": "p"})),
        ]
        .map(|mut secret| {
            secret["metadata"]["annotations"] =
                json!({"weft.network/keystone-url": "https://keystone.example.com"});
            secret
        });
        let (objects, assumed, ends) = looked(&spec, &all);
        assert_eq!((ends, assumed), (None, vec![]));
        assert_eq!(
            objects,
            [
                "ServiceAccount/placement-placement",
                "Secret/placement-config-data",
                "Service/placement-internal",
                "Service/placement-public",
                "Deployment/placement"
            ]
        );
        let mut unpermitted = all.clone();
        unpermitted[2]["metadata"]["annotations"] = json!({});
        let ends = looked(&spec, &unpermitted).2.unwrap();
        assert!(
            ends.starts_with("KeystoneServiceReady: ")
                && ends.contains("annotate secret admin weft.network/keystone-url="),
            "{ends}"
        );
        let (objects, _, ends) = looked(&spec, &all[..2]);
        assert_eq!(
            (objects.len(), ends.unwrap().as_str()),
            (1, "InputReady: Input data resources missing: secret/admin")
        );
        assert_eq!(
            looked(&spec, &all[..1]).2.unwrap(),
            "InputReady: Input data resources missing: secret/db; also missing: secret/admin"
        );
    }

    #[test]
    fn work_of_other_operators_is_assumed_and_reported() {
        let spec = json!({"secret": "osp-secret", "databaseInstance": "openstack"});
        let (objects, assumed, ends) = looked(
            &spec,
            &[secret("osp-secret", &json!({"PlacementPassword": "a"}))],
        );
        assert_eq!((ends, assumed.len()), (None, 2), "{assumed:?}");
        // Only a Service of that database makes the second one unnecessary.
        for (kind, cr, is_assumed) in [
            ("Service", "mariadb-openstack", false),
            ("Service", "mariadb-other", true),
            ("Pod", "mariadb-openstack", true),
        ] {
            let given = json!({
                "apiVersion": "v1", "kind": kind,
                "metadata": {"name": "db", "labels": {"app": "mariadb", "cr": cr}}
            });
            let (_, assumed, _) = looked(
                &spec,
                &[
                    secret("osp-secret", &json!({"PlacementPassword": "a"})),
                    given,
                ],
            );
            assert_eq!(
                assumed
                    .iter()
                    .any(|one| one.starts_with("no Service of database openstack")),
                is_assumed,
                "{kind} {cr}"
            );
        }
        for expected in [
            "MariaDBDatabase/placement",
            "MariaDBAccount/placement",
            "KeystoneService/placement",
            "KeystoneEndpoint/placement",
            "Deployment/placement",
        ] {
            assert!(
                objects.iter().any(|object| object == expected),
                "{expected}: {objects:?}"
            );
        }
    }

    #[test]
    fn a_cluster_is_asked_until_all_is_known_and_what_was_said_there_counts() {
        let (of, all) = (
            "cloud",
            ["MariaDBDatabaseReady", "Ready"].map(|name| json!({"type": name, "status": "True"})),
        );
        let owner = json!([
            {
                "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
                "name": "placement", "uid": "u"
            }
        ]);
        let there = [
            secret("osp-secret", &json!({"PlacementPassword": "a"})),
            secret("bundle", &json!({"tls-ca-bundle.pem": "CA"})),
            json!({
                "kind": "Service",
                "metadata": {
                    "name": "galera", "labels": {"app": "mariadb", "cr": "mariadb-openstack"}
                }
            }),
            json!({
                "kind": "KeystoneAPI", "metadata": {"name": "keystone"},
                "status": {"apiEndpoints": {"public": "http://k", "internal": "http://k"}}
            }),
            json!({"kind": "MariaDBDatabase", "metadata": {
                "name": "placement", "ownerReferences": owner
            }, "spec": {"name": "placement"},
                "status": {"observedGeneration": 1, "tlsSupport": true, "conditions": all}}),
        ]
        .map(|object| as_stored(&object, of));
        let spec = json!({
            "secret": "osp-secret", "databaseInstance": "openstack",
            "tls": {"caBundleSecretName": "bundle"}
        });
        let resource: PlacementApi = serde_json::from_value(
            json!({"metadata": {"name": "placement", "namespace": of}, "spec": spec}),
        )
        .unwrap();
        let served = [
            kinds::MARIADB_DATABASE,
            kinds::MARIADB_ACCOUNT,
            kinds::KEYSTONE_API,
            kinds::KEYSTONE_SERVICE,
            kinds::KEYSTONE_ENDPOINT,
        ];
        let facts = Facts {
            definitions: served.map(|kind| kind.definition()).into(),
            ..Facts::default()
        };
        let mut answers = BTreeMap::new();
        let ahead = loop {
            let given = Given::Cluster {
                facts: Box::new(facts.clone()),
                answers: answers.clone(),
            };
            let ahead = preview(
                &resource,
                &Settings::default(),
                given,
                None,
                RandomBytes {
                    user: [1; 2],
                    password: [1; 16],
                },
            );
            if ahead.open.is_empty() {
                break ahead;
            }
            for question in ahead.open {
                let found = there
                    .iter()
                    .filter(|object| matches(&question, object))
                    .cloned()
                    .collect();
                assert!(
                    answers.insert(question, found).is_none(),
                    "nothing is asked twice"
                );
            }
        };
        assert_eq!((ahead.ends, ahead.assumed), (None, vec![]));
        let files = ahead
            .objects
            .iter()
            .find(|object| object.key().name == "placement-config-data")
            .unwrap();
        let file = String::from_utf8(
            STANDARD
                .decode(files.body()["data"]["my.cnf"].as_str().unwrap())
                .unwrap(),
        )
        .unwrap();
        assert!(file.contains("ssl=1"), "the database speaks TLS: {file}");
    }
}
