//! A namespace with an OpenStack in it whose other operators the test plays: it writes what they
//! say into the status of their objects, and nothing else.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weft_plan::{Kind, ObjectKey, kinds};

use weft_system_tests::*;

/// The PlacementAPI of every site.
pub const NAME: &str = "placement-api";
/// The account that it names unless another is asked for.
pub const ACCOUNT: &str = "test-placement-account";
/// The Secret with its password.
pub const SECRET: &str = "test-osp-secret";
/// The finalizer of PlacementAPI, as placement-operator has it.
pub const FINALIZER: &str = "openstack.org/placementapi";

/// A namespace of its own.
pub struct Site<'a> {
    pub cluster: &'a Cluster,
    pub namespace: String,
}

impl<'a> Site<'a> {
    /// With nothing in it.
    pub async fn new(cluster: &'a Cluster, namespace: &str) -> Self {
        let site = Self {
            cluster,
            namespace: namespace.to_owned(),
        };
        // The API server judges each pod.
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        site.put(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": labels}
        }))
        .await;
        site
    }

    /// Applies an object.
    pub async fn put(&self, mut object: Value) -> Value {
        if object["kind"] != "Namespace" {
            object["metadata"]["namespace"] = self.namespace.clone().into();
        }
        let key = ObjectKey::of(&object).unwrap();
        let (api, params) = (
            self.cluster.api(key.kind, &self.namespace),
            PatchParams::apply("test").force(),
        );
        let applied = api.patch(&key.name, &params, &Patch::Apply(&object)).await;
        serde_json::to_value(applied.unwrap_or_else(|error| panic!("{}: {error}", key.human())))
            .unwrap()
    }

    /// Makes an object as operators do that know no server-side apply.
    pub async fn made_by(&self, manager: &str, mut object: Value) -> Value {
        object["metadata"]["namespace"] = self.namespace.clone().into();
        let key = ObjectKey::of(&object).unwrap();
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..Default::default()
        };
        let made = self
            .cluster
            .api(key.kind, &self.namespace)
            .create(&params, &serde_json::from_value(object).unwrap())
            .await;
        serde_json::to_value(made.unwrap_or_else(|error| panic!("{}: {error}", key.human())))
            .unwrap()
    }

    /// Writes the status that the operator of a kind reports about an object.
    pub async fn says(&self, kind: Kind, name: &str, status: Value) {
        let (api, patch) = (
            self.cluster.api(kind, &self.namespace),
            Patch::Merge(json!({"status": status})),
        );
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    /// The same with one condition.
    pub async fn says_ready(&self, kind: Kind, name: &str, condition: &str) {
        let said = json!({
            "type": condition, "status": "True", "reason": "Ready", "message": "Setup complete",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        });
        self.says(kind, name, json!({"conditions": [said]})).await;
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.cluster.get(kind, &self.namespace, name).await
    }

    /// All objects of a kind.
    pub async fn all(&self, kind: Kind) -> Vec<Value> {
        let all = self
            .cluster
            .api(kind, &self.namespace)
            .list(&Default::default())
            .await
            .unwrap();
        all.items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// Waits until an object is there and like this.
    pub async fn wait(
        &self,
        kind: Kind,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        wait_until(&format!("{}: {kind} {name}: {what}", self.namespace), async || {
            let live = self.get(kind, name).await.ok_or("it is not there")?;
            if is_so(&live) {
                Ok(live)
            } else {
                Err(format!("{:#}", json!({
                    "metadata": live["metadata"], "spec": live["spec"], "status": live["status"]
                })))
            }
        })
        .await
    }

    /// Waits until it is there.
    pub async fn wait_there(&self, kind: Kind, name: &str) -> Value {
        self.wait(kind, name, "is there", |_| true).await
    }

    /// Waits until the PlacementAPI is like this, and its status about its latest generation.
    pub async fn wait_placement(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let is_current =
            |live: &Value| live["status"]["observedGeneration"] == live["metadata"]["generation"];
        self.wait(kinds::PLACEMENT_API, NAME, what, |live| {
            is_current(live) && is_so(live)
        })
        .await
    }

    /// Waits until a condition says this.
    pub async fn wait_says(&self, name: &str, status: &str, reason: &str, message: &str) -> Value {
        self.wait_placement(
            &format!("{name} is {status} {reason} {message:?}"),
            |live| {
                let found = condition(&live["status"], name);
                found["status"] == status
                    && found["reason"] == reason
                    && found["message"] == message
            },
        )
        .await
    }

    /// Waits until a condition has this status.
    pub async fn wait_is(&self, name: &str, status: &str) -> Value {
        self.wait_placement(&format!("{name} is {status}"), |live| {
            condition(&live["status"], name)["status"] == status
        })
        .await
    }

    pub async fn wait_ready(&self) -> Value {
        self.wait_says("Ready", "True", "Ready", "Setup complete")
            .await
    }

    /// Makes or changes the PlacementAPI: its usual specification with these fields instead.
    pub async fn placement(&self, spec: Value) {
        let mut whole =
            json!({"databaseInstance": "openstack", "databaseAccount": ACCOUNT, "secret": SECRET});
        whole
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        whole
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        self.put(json!({
            "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
            "metadata": {"name": NAME}, "spec": whole
        }))
        .await;
    }

    /// Changes the PlacementAPI by a merge patch.
    pub async fn patch(&self, patch: Value) {
        self.cluster
            .patch(kinds::PLACEMENT_API, &self.namespace, NAME, patch)
            .await;
    }

    pub async fn secret(&self, name: &str, values: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = values
            .iter()
            .map(|(key, value)| (*key, STANDARD.encode(value)))
            .collect();
        self.put(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}),
        )
        .await;
    }

    /// The Secret with the service's password.
    pub async fn password(&self, password: &str) {
        self.secret(SECRET, &[("PlacementPassword", password)])
            .await;
    }

    /// The Service of the Galera, by which its host is found.
    pub async fn galera(&self) {
        let labels = json!({"app": "mariadb", "cr": "mariadb-openstack"});
        self.put(json!({"apiVersion": "v1", "kind": "Service", "metadata": {
            "name": "hostname-for-openstack", "labels": labels
        },
            "spec": {"ports": [{"port": 3306}]}}))
            .await;
    }

    /// A KeystoneAPI that says where it is.
    pub async fn keystone(&self) {
        self.put(json!({"apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI", "metadata": {"name": "keystone"},
            "spec": {
                "containerImage": "keystone", "databaseInstance": "openstack",
                "memcachedInstance": "memcached", "secret": SECRET
            }}))
            .await;
        let at = |endpoint: &str| format!("http://keystone-{endpoint}.{}.svc:5000", self.namespace);
        self.says(
            kinds::KEYSTONE_API,
            "keystone",
            json!({"apiEndpoints": {"public": at("public"), "internal": at("internal")}}),
        )
        .await;
    }

    /// Everything that a PlacementAPI needs.
    pub async fn inputs(&self) {
        self.password("12345678").await;
        self.galera().await;
        self.keystone().await;
    }

    /// Reports database and account as ready, as mariadb-operator does.
    pub async fn plays_mariadb(&self, account: &str) {
        self.wait_there(kinds::MARIADB_DATABASE, "placement").await;
        self.wait_there(kinds::MARIADB_ACCOUNT, account).await;
        self.says_ready(kinds::MARIADB_DATABASE, "placement", "MariaDBDatabaseReady")
            .await;
        self.says_ready(kinds::MARIADB_ACCOUNT, account, "MariaDBAccountReady")
            .await;
    }

    /// Plays keystone-operator.
    pub async fn plays_keystone(&self) {
        for kind in [kinds::KEYSTONE_SERVICE, kinds::KEYSTONE_ENDPOINT] {
            self.wait_there(kind, "placement").await;
            self.says_ready(kind, "placement", "Ready").await;
        }
    }

    /// Plays both for deleted and unused objects: they release them.
    pub async fn peers_let_go(&self) {
        for kind in [
            kinds::MARIADB_DATABASE,
            kinds::MARIADB_ACCOUNT,
            kinds::KEYSTONE_SERVICE,
            kinds::KEYSTONE_ENDPOINT,
        ] {
            for object in self.all(kind).await {
                let metadata = &object["metadata"];
                if metadata["deletionTimestamp"].is_string() && !has_finalizer(&object, FINALIZER) {
                    let patch = Patch::Merge(json!({
                        "metadata": {
                            "finalizers": null, "resourceVersion": metadata["resourceVersion"]
                        }
                    }));
                    // The patch fails if another writer was faster. The next look shows that.
                    let _ = self
                        .cluster
                        .api(kind, &self.namespace)
                        .patch(text(&metadata["name"]), &PatchParams::default(), &patch)
                        .await;
                }
            }
        }
    }

    /// A PlacementAPI with its database.
    pub async fn with_database(&self, spec: Value) {
        self.inputs().await;
        self.placement(spec).await;
        self.plays_mariadb(ACCOUNT).await;
    }

    /// A PlacementAPI that is ready.
    pub async fn deployed(&self, spec: Value) -> Value {
        self.with_database(spec).await;
        self.plays_keystone().await;
        self.wait_ready().await
    }

    pub async fn deployment(&self) -> Value {
        self.wait_there(kinds::DEPLOYMENT, NAME).await
    }

    /// Waits until the Deployment's pod template is like this. Returns its specification.
    pub async fn wait_pod(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let live = self
            .wait(kinds::DEPLOYMENT, NAME, what, |live| {
                is_so(&live["spec"]["template"]["spec"])
            })
            .await;
        live["spec"]["template"]["spec"].clone()
    }

    /// Waits until so many pods of the service are there.
    pub async fn pods(&self, count: usize) -> Vec<Value> {
        wait_until(
            &format!("{}: {count} pods are there", self.namespace),
            async || {
                let mut pods = self.all(kinds::POD).await;
                pods.retain(|pod| pod["metadata"]["labels"]["owner"] == NAME);
                if pods.len() == count {
                    Ok(pods)
                } else {
                    Err(format!("{}", pods.len()))
                }
            },
        )
        .await
    }

    /// Waits until there is one Job, and returns it.
    pub async fn job(&self) -> Value {
        wait_until(
            &format!("{}: there is one Job", self.namespace),
            async || {
                let mut jobs = self.all(kinds::JOB).await;
                if jobs.len() == 1 {
                    Ok(jobs.remove(0))
                } else {
                    Err(format!("{} Jobs", jobs.len()))
                }
            },
        )
        .await
    }

    /// Returns the content of a file of the service.
    pub async fn file(&self, file: &str) -> String {
        let secret = self
            .wait_there(kinds::SECRET, &format!("{NAME}-config-data"))
            .await;
        decoded(&secret["data"][file])
    }

    /// The hash by which pods are replaced, of the Deployment.
    pub async fn config_hash(&self) -> String {
        config_hash(&self.deployment().await["spec"]["template"]["spec"])
    }

    /// Waits until it is another one.
    pub async fn wait_other_hash(&self, before: &str) -> String {
        config_hash(
            &self
                .wait_pod("has another CONFIG_HASH", |pod| config_hash(pod) != before)
                .await,
        )
    }

    /// Labels the one node.
    pub async fn label_node(&self, label: &str, value: &str) {
        self.cluster
            .patch(
                kinds::NODE,
                "",
                "node-1",
                json!({"metadata": {"labels": {label: value}}}),
            )
            .await;
    }

    pub async fn delete(&self) {
        self.cluster
            .delete(kinds::PLACEMENT_API, &self.namespace, NAME)
            .await;
    }

    /// Waits until the PlacementAPI is gone.
    pub async fn wait_gone(&self) {
        wait_until(
            &format!("{}: the PlacementAPI is gone", self.namespace),
            async || match self.get(kinds::PLACEMENT_API, NAME).await {
                None => Ok(()),
                Some(live) => Err(format!("{:#}", live["metadata"])),
            },
        )
        .await;
    }

    /// Reports whether an object has a finalizer.
    pub async fn has_finalizer(&self, kind: Kind, name: &str, finalizer: &str) -> bool {
        self.get(kind, name)
            .await
            .is_some_and(|live| has_finalizer(&live, finalizer))
    }
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == finalizer))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn config_hash(pod: &Value) -> String {
    let variables = pod["containers"][0]["env"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = variables
        .iter()
        .find(|variable| variable["name"] == "CONFIG_HASH");
    found
        .and_then(|variable| variable["value"].as_str())
        .unwrap_or_default()
        .to_owned()
}

pub fn decoded(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap_or_default()).unwrap()).unwrap()
}

/// The type of each condition with this status, in order.
pub fn with_status<'a>(live: &'a Value, status: &str) -> Vec<&'a str> {
    let all = live["status"]["conditions"].as_array().unwrap();
    all.iter()
        .filter(|condition| condition["status"] == status)
        .map(|condition| condition["type"].as_str().unwrap())
        .collect()
}
