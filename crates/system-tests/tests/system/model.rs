//! The histories of `crates/addons/src/tests/model.rs`, through the operator on a real API server.

use std::collections::BTreeSet;

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Match, Proxy};

use crate::system::{
    deletion::gone,
    harness::*,
    histories::{Act, acts, at_once},
    install::passes,
    refused::without_rules,
};

const INVENTORY: &str = "weft-inventory-networkaddonsconfig-cluster";

/// A user's object: the ConfigMap that a history may name.
const THEIRS: &str = "ConfigMap cluster-network-addons/mine";

fn history(seed: u64) -> Vec<Act> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    );
    acts().new_tree(&mut runner).unwrap().current()
}

#[tokio::test]
async fn the_end_does_not_depend_on_the_way() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster
        .kubectl(&["label", "node", "node-1", "for=infra"])
        .await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "configmap",
            "mine",
            "--from-literal=DP_MACVTAP_CONF=[]",
        ])
        .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    let world = World {
        cluster,
        proxy,
        operator,
    };
    let (first, count) = (seed(), if is_exhaustive() { 100 } else { 20 });
    for n in 0..count {
        if n == count / 2 {
            // Up to here the API server has refused what is invalid. From now on it takes it, and
            // the operator does.
            without_rules(&world.cluster).await;
        }
        let seed = first.wrapping_add(n);
        let history = history(seed);
        println!("WEFT_SEED={seed}: {history:?}");
        world.live(&history, n >= count / 2).await;
    }
}

struct World {
    cluster: Cluster,
    proxy: Proxy,
    operator: Operator,
}

/// A user's resource.
struct Life {
    /// The specification.
    spec: Value,
    /// The last valid specification in this life.
    good: Option<Value>,
}

impl World {
    async fn live(&self, history: &[Act], takes_anything: bool) {
        let mut life = self.create(&json!({})).await;
        for act in history {
            match act {
                Act::Edit(field, value) => self.edit(&mut life, field, value, takes_anything).await,
                Act::Recreate => {
                    self.delete().await;
                    life = self.create(&life.spec).await;
                }
            }
        }
        let Some(good) = &life.good else {
            let left = self.left().await;
            assert!(
                left.iter()
                    .all(|title| title == "NetworkAddonsConfig cluster"),
                "what was never valid leads to nothing: {left:?}"
            );
            return self.delete().await;
        };
        self.settled(&life).await;
        self.a_pass_writes_nothing().await;
        let (end, decided) = (self.snapshot().await, self.decided().await);
        self.delete().await;

        let direct = self.create(&at_once(good, &decided)).await;
        assert!(
            direct.good.is_some(),
            "what was accepted once is accepted again"
        );
        self.settled(&direct).await;
        assert_eq!(self.decided().await, decided);
        assert_same(&end, &self.snapshot().await, "asked for at once");
        self.delete().await;
    }

    async fn create(&self, spec: &Value) -> Life {
        let api = "networkaddonsoperator.network.kubevirt.io/v1";
        let resource = json!({
            "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
            "spec": spec
        });
        let resources = self.cluster.api(kinds::NETWORK_ADDONS_CONFIG, "");
        resources
            .create(
                &Default::default(),
                &serde_json::from_value(resource).unwrap(),
            )
            .await
            .unwrap();
        Life {
            good: self.accepted(spec).await,
            spec: spec.clone(),
        }
    }

    async fn edit(&self, life: &mut Life, field: &str, value: &Value, takes_anything: bool) {
        let mut spec = life.spec.clone();
        spec[field] = without_cert_manager(value.clone());
        spec.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let is_at_work = life.good.as_ref() == Some(&life.spec);
        let before = self.cluster.resource().await.unwrap();
        let patch = json!({"spec": difference(&life.spec, &spec)});
        let patched = {
            let params = kube::api::PatchParams {
                field_manager: Some("somebody".to_owned()),
                ..Default::default()
            };
            let resources = self.cluster.api(kinds::NETWORK_ADDONS_CONFIG, "");
            resources
                .patch("cluster", &params, &kube::api::Patch::Merge(&patch))
                .await
        };
        match patched {
            Ok(_) => life.spec = spec,
            Err(kube::Error::Api(refusal)) if refusal.code == 422 && !takes_anything => {
                let after = self.cluster.resource().await.unwrap();
                assert_eq!(
                    after["metadata"]["generation"], before["metadata"]["generation"],
                    "{}",
                    refusal.message
                );
                assert_eq!(after["spec"], before["spec"]);
                return;
            }
            Err(error) => panic!("{patch}: {error}"),
        }
        if let Some(good) = self.accepted(&life.spec).await {
            life.good = Some(good);
            return;
        }
        if is_at_work {
            // The operator may have been at work on the last one. Once it is done, what is refused
            // changes nothing any more.
            self.quiet().await;
        }
        self.a_pass_writes_nothing().await;
    }

    /// Waits until the operator has said what it thinks of the latest generation, which is this
    /// one. Returns it if it is accepted.
    async fn accepted(&self, spec: &Value) -> Option<Value> {
        let status = self.cluster.wait_observed().await["status"].clone();
        let degraded = condition(&status, "Degraded");
        if (&degraded["status"], &degraded["reason"])
            == (&json!("True"), &json!("FailedToValidate"))
        {
            return None;
        }
        if !spec["kubeMacPool"].is_null() {
            self.cluster.play_kubemacpool().await;
        }
        Some(spec.clone())
    }

    async fn settled(&self, life: &Life) {
        if life.good.as_ref() == Some(&life.spec) {
            self.cluster.wait_available().await;
        } else {
            self.quiet().await;
        }
    }

    /// Waits until every component is Available, though the resource as a whole is refused.
    async fn quiet(&self) {
        wait_until("every component is Available", async || {
            let status = self.cluster.status().await;
            let states: BTreeSet<_> = status["components"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| one["state"].to_string())
                .collect();
            if states.iter().all(|state| state == "\"Available\"") {
                Ok(())
            } else {
                Err(format!("{status:#}"))
            }
        })
        .await;
    }

    /// Any event makes the operator look, and it finds nothing to do.
    async fn a_pass_writes_nothing(&self) {
        self.proxy.clear();
        let before = passes(&self.operator).await;
        let note = |value: Value| json!({"metadata": {"annotations": {"example.com/note": value}}});
        self.cluster.patch_resource(note("hello".into())).await;
        wait_until("a pass", async || {
            passes(&self.operator)
                .await
                .gt(&before)
                .then_some(())
                .ok_or("none yet".into())
        })
        .await;
        self.cluster.patch_resource(note(Value::Null)).await;
        wait_until("another pass", async || {
            passes(&self.operator)
                .await
                .gt(&(before + 1.0))
                .then_some(())
                .ok_or("not yet".into())
        })
        .await;
        let work = Match::any().user(OPERATOR_USER).writes();
        let written: Vec<_> = self
            .proxy
            .writes()
            .into_iter()
            .filter(|write| work.selects(&write.info))
            .collect();
        assert!(written.is_empty(), "{written:#?}");
    }

    async fn delete(&self) {
        self.cluster
            .delete(kinds::NETWORK_ADDONS_CONFIG, "", "cluster")
            .await;
        gone(&self.cluster).await;
        // Deleted before its finalizer is there, it goes at once, and what was begun is removed
        // afterwards.
        wait_until("nothing is left after the deletion", async || {
            match self.left().await {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{left:?}")),
            }
        })
        .await;
    }

    /// Returns the objects that exist because of the resource, without those that the cluster's own
    /// controllers still collect and those that stay for good.
    async fn left(&self) -> BTreeSet<String> {
        const DERIVED: [&str; 6] = [
            "ControllerRevision ",
            "ReplicaSet ",
            "EndpointSlice ",
            "Endpoints ",
            "IPAddress ",
            "CustomResourceDefinition ",
        ];
        let mut left = self.cluster.leftovers().await;
        left.retain(|title| title != THEIRS && !DERIVED.iter().any(|kind| title.starts_with(kind)));
        left
    }

    async fn decided(&self) -> Value {
        let map = self
            .cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, INVENTORY)
            .await
            .expect("the inventory");
        serde_json::from_str(map["data"]["decided"].as_str().expect("what was decided")).unwrap()
    }

    /// Everything but what differs by the way itself: who wrote what in the resource, and whether
    /// what it asks for is refused. Definitions that an earlier one has left, and the Secrets of a
    /// KubeMacPool that is gone, since its pods may still write them until the resource goes.
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.cluster.snapshot().await;
        snapshot.objects.retain(|title, object| {
            let is_left = title.starts_with("CustomResourceDefinition ")
                && object["metadata"]["labels"][weft_plan::OWNER_LABEL].is_null();
            title != "NetworkAddonsConfig cluster" && !is_left
        });
        let has_pool = snapshot
            .objects
            .keys()
            .any(|title| title.ends_with("/kubemacpool-cert-manager"));
        let inventory = snapshot
            .objects
            .get_mut(&format!("ConfigMap {NAMESPACE}/{INVENTORY}"))
            .expect("the inventory");
        // The hash of an object is also that of its owner's uid.
        if let Some(applied) = inventory["data"].get_mut("applied") {
            let hashes: serde_json::Map<_, _> =
                serde_json::from_str(applied.as_str().unwrap()).unwrap();
            *applied = hashes.keys().cloned().collect();
        }
        if !has_pool {
            inventory["data"]
                .as_object_mut()
                .unwrap()
                .remove("made-by-operands");
            snapshot
                .objects
                .remove(&format!("Secret {NAMESPACE}/kubemacpool-service"));
        }
        snapshot
    }
}

/// cert-manager is not there.
fn without_cert_manager(mut value: Value) -> Value {
    if let Some(provider) = value
        .get_mut("certificateProvider")
        .filter(|provider| **provider == "CertManager")
    {
        *provider = "Weft".into();
    }
    value
}

/// The merge patch (RFC 7386) that leads from one value to the other.
fn difference(from: &Value, to: &Value) -> Value {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else {
        return to.clone();
    };
    let gone = from
        .keys()
        .filter(|key| !to.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let there = to.iter().map(|(key, value)| {
        (
            key.clone(),
            from.get(key)
                .map_or_else(|| value.clone(), |old| difference(old, value)),
        )
    });
    gone.chain(there).collect::<serde_json::Map<_, _>>().into()
}
