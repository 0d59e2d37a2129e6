//! The kubelet of a cluster that has no nodes: each pod of Placement runs in a site of its own, as
//! the API server has it, with the Secrets that are there when it starts.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::PodSpec;
use kube::{
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::services::{Placement, Site};

use crate::with_services::placement_life::{
    cluster::{NAMESPACE, get},
    harness::*,
};

pub struct Kubelet<'a> {
    cluster: &'a Cluster,
    /// Where the pods find the database and Keystone.
    cloud: &'a Site,
    ports: [u16; 2],
    serving: Mutex<BTreeMap<String, Arc<Placement>>>,
    turn: AtomicUsize,
}

impl<'a> Kubelet<'a> {
    pub fn new(cluster: &'a Cluster, cloud: &'a Site, ports: [u16; 2]) -> Self {
        Self {
            cluster,
            cloud,
            ports,
            serving: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Starts what is new, ends what is gone, and does so for ever.
    pub async fn run(&self) -> Infallible {
        let api = self.cluster.api(kinds::POD, NAMESPACE);
        let mut changes = watcher(api.clone(), watcher::Config::default())
            .default_backoff()
            .touched_objects()
            .boxed();
        loop {
            let pods = api.list(&Default::default()).await.unwrap();
            let pods: Vec<_> = pods
                .items
                .into_iter()
                .map(|pod| serde_json::to_value(pod).unwrap())
                .collect();
            for name in self.pods() {
                if !pods.iter().any(|pod| pod["metadata"]["name"] == *name) {
                    self.end(&name).await;
                }
            }
            for pod in pods
                .iter()
                .filter(|pod| pod["status"]["phase"] == "Pending")
            {
                self.start(pod).await;
            }
            // An event only means that something has changed: the pod in it may be from before its
            // start.
            changes.next().await;
        }
    }

    /// The pods that serve.
    pub fn pods(&self) -> Vec<String> {
        self.serving.lock().unwrap().keys().cloned().collect()
    }

    /// One of them after the other, as a Service chooses.
    pub fn next(&self) -> Arc<Placement> {
        let serving = self.serving.lock().unwrap();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Arc::clone(
            serving
                .values()
                .nth(turn % serving.len().max(1))
                .expect("a pod serves"),
        )
    }

    async fn start(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let spec: PodSpec = serde_json::from_value(pod["spec"].clone()).unwrap();
        let site = self.cloud.beside(&self.ports).unwrap();
        for secret in spec
            .volumes
            .iter()
            .flatten()
            .filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref())
        {
            let secret = get(self.cluster, kinds::SECRET, secret).await.unwrap();
            site.keep(&serde_json::from_value(secret).unwrap()).unwrap();
        }
        let prepared = |container| site.container(&spec, container).unwrap();
        let ends = spec.restart_policy.as_deref() == Some("Never");
        let to_their_end = spec
            .init_containers
            .iter()
            .flatten()
            .chain(spec.containers.iter().filter(|_| ends));
        for container in to_their_end {
            let (container, command) = prepared(container);
            site.run(
                &container,
                &command.iter().map(String::as_str).collect::<Vec<_>>(),
            )
            .await
            .unwrap();
        }
        if ends {
            return self.says(name, json!({"phase": "Succeeded"})).await;
        }
        let (container, command) = prepared(&spec.containers[0]);
        let placement = Placement::start(
            &site,
            &container,
            &command.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await
        .unwrap();
        self.serving
            .lock()
            .unwrap()
            .insert(name.to_owned(), Arc::new(placement));
        let conditions = ["PodScheduled", "ContainersReady", "Ready"]
            .map(|name| json!({"type": name, "status": "True"}));
        self.says(name, json!({"phase": "Running", "conditions": conditions}))
            .await;
    }

    async fn says(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        // It may be gone by now.
        let _ = self
            .cluster
            .api(kinds::POD, NAMESPACE)
            .patch_status(pod, &PatchParams::default(), &patch)
            .await;
    }

    /// No request is sent there any more. Those that are under way are answered.
    async fn end(&self, pod: &str) {
        let Some(placement) = self.serving.lock().unwrap().remove(pod) else {
            return;
        };
        wait_until(
            "its requests are answered",
            async || match Arc::strong_count(&placement) {
                1 => Ok(()),
                more => Err(format!("{} are under way", more - 1)),
            },
        )
        .await;
    }
}
