//! The cluster of the test, its resources, and what happens to them.

use std::{collections::BTreeSet, time::Duration};

use rand::rngs::StdRng;
use serde_json::{Value, json};
use weft_plan::{Kind, ObjectKey, kinds};
use weft_system_tests::{
    Cluster, ClusterOptions, NAMESPACE, Operator, condition, wait_until, wait_within,
};
use weft_testenv::{Pods, Stage, Stuck, proxy::Proxy};

use crate::system::resistance;

use super::{
    actions, deeds, policies,
    troubles::{self, NOT_READY, STUCK, Trouble},
    wanted::{Renderer, Wanted},
    ways::Way,
};

/// The indexes of the resources.
pub const ADD_ONS: usize = 0;
pub const NETWORK: usize = 1;
pub const NMSTATE: usize = 2;
pub const PLACEMENT: usize = 3;

/// How long status may take to say what is true. Weft tries again after pauses that grow, and most
/// looks agree within a second.
const LIMIT: Duration = Duration::from_secs(150);

/// A resource, and what the observer remembers about it.
pub struct Subject {
    pub kind: Kind,
    namespace: &'static str,
    pub name: &'static str,
    /// It was there at the last look.
    pub is_there: bool,
    /// It was paused at the last look.
    pub is_paused: bool,
    /// The objects that it asked for at the last look.
    pub wanted: Vec<Wanted>,
    /// The last specification that Weft accepted while it was not paused, and its objects.
    pub in_force: Option<(Value, Vec<Wanted>)>,
    /// The kinds of objects that it ever asked for.
    pub kinds: BTreeSet<Kind>,
}

impl Subject {
    fn new(kind: Kind, namespace: &'static str, name: &'static str) -> Self {
        Self {
            kind,
            namespace,
            name,
            is_there: false,
            is_paused: false,
            wanted: Vec::new(),
            in_force: None,
            kinds: BTreeSet::new(),
        }
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.kind, self.namespace, self.name)
    }
}

/// The cluster of the test. (Fields are dropped in this order: the operator first.)
pub struct World {
    pub operator: Operator,
    pub proxy: Proxy,
    pub cluster: Cluster,
    /// The operator, as the API server sees it.
    pub user: String,
    pub subjects: Vec<Subject>,
    pub troubles: Vec<Trouble>,
    /// Fields that others have added, by JSON pointer.
    pub added: BTreeSet<(ObjectKey, &'static str)>,
    /// The agent of one node fails.
    pub agents_fail: bool,
    pub has_mutating_policies: bool,
    pub renderer: Renderer,
    /// Everything that happened, a line for each step.
    pub history: Vec<String>,
    /// How many actions and faults there were.
    pub taken: usize,
    pub seed: u64,
}

impl World {
    /// Starts a cluster with all domains, and creates a resource of each of them.
    pub async fn start(test: &str, seed: u64) -> Self {
        let stuck = |(image, state): (&str, Stuck)| {
            Stage::stuck(Pods::with_image(&format!("^{image}")), state)
        };
        let mut stages: Vec<_> = STUCK.into_iter().map(stuck).collect();
        let labelled = Pods::labelled(NOT_READY, "true");
        stages.push(Stage::stuck(labelled, Stuck::Unready));
        let cluster = Cluster::start(ClusterOptions {
            stages,
            manifests: &["--domains", "addons,cluster-network,node-network,placement"],
            ..Default::default()
        })
        .await;
        let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
        let operator = Operator::start_via(&cluster, &proxy).await;
        let user = cluster.operator_user();
        let world = Self {
            renderer: Renderer::of(&cluster).await,
            has_mutating_policies: resistance::serves_policies(&cluster, test).await,
            operator,
            proxy,
            cluster,
            user,
            subjects: vec![
                Subject::new(kinds::NETWORK_ADDONS_CONFIG, "", "cluster"),
                Subject::new(kinds::NETWORK_CONFIG, "", "default"),
                Subject::new(kinds::NMSTATE, "", "nmstate"),
                Subject::new(kinds::PLACEMENT_API, "openstack", "placement"),
            ],
            troubles: Vec::new(),
            added: BTreeSet::new(),
            agents_fail: false,
            history: Vec::new(),
            taken: 0,
            seed,
        };
        deeds::restore(&world).await;
        world
    }

    /// The resource as it is.
    pub async fn live(&self, index: usize) -> Option<Value> {
        let Subject {
            kind,
            namespace,
            name,
            ..
        } = &self.subjects[index];
        self.cluster.get(*kind, namespace, name).await
    }

    /// Reports whether a trouble keeps Weft from keeping this resource in order.
    pub fn is_hindered(&self, index: usize) -> bool {
        self.troubles.iter().any(|one| one.hinders() == Some(index))
    }

    /// The names of objects that Weft waits for before it applies others of this resource.
    pub fn obstacles(&self, index: usize) -> Vec<String> {
        let those = self.troubles.iter();
        let those = those.filter(|one| one.hinders() == Some(index));
        those
            .filter_map(|one| one.obstacle().map(str::to_owned))
            .collect()
    }

    /// An action, maybe with a fault or another action next to it, and what comes of it.
    pub async fn step(&mut self, random: &mut StdRng) {
        // A fault that has not happened yet is none of this step.
        self.proxy.heal();
        self.proxy.clear();
        let way = Way::draw(random);
        let mut actions = vec![actions::draw(self, random)];
        actions.extend(actions::draw_more(self, random));
        let texts: Vec<_> = actions.iter().map(|one| one.text(self)).collect();
        let text = format!("{way:?}: {}", texts.join(", and "));
        println!("{} {text}", self.taken);
        self.history.push(text);
        self.taken += actions.len() + usize::from(way != Way::Plain);

        let injected = way.begin(self).await;
        for action in actions {
            action.take(self).await;
        }
        way.end(self, injected).await;
        self.settle().await;
    }

    /// Waits until the system is at rest and status, kstatus and Argo CD agree with the truth.
    pub async fn settle(&mut self) {
        wait_within(LIMIT, "status agrees with the truth", async || {
            self.look().await
        })
        .await;
    }

    /// Ends all troubles and removes all resources. Everything must be well before, and nothing may
    /// be left afterwards.
    pub async fn end(mut self) {
        self.proxy.heal();
        self.history.push("all troubles end".to_owned());
        self.agents_fail = false;
        for trouble in std::mem::take(&mut self.troubles) {
            trouble.lift(&self).await;
        }
        deeds::restore(&self).await;
        self.settle().await;
        for (index, subject) in self.subjects.iter().enumerate() {
            let available = match index {
                PLACEMENT => "Ready",
                _ => "Available",
            };
            let live = self.live(index).await.unwrap_or_default();
            assert_eq!(
                condition(&live["status"], available)["status"],
                "True",
                "{} at the end: {:#}",
                subject.key().human(),
                live["status"]
            );
        }
        self.remove_all().await;
    }

    async fn remove_all(&self) {
        // The network goes only if its user says which one.
        let sure = json!({"metadata": {"annotations": {"weft.network/remove": "None"}}});
        deeds::patch_if_there(&self.cluster, &self.subjects[NETWORK].key(), &sure).await;
        // A policy needs the agents until it is gone.
        let all = [
            policies::key(),
            self.subjects[PLACEMENT].key(),
            self.subjects[ADD_ONS].key(),
            self.subjects[NETWORK].key(),
            self.subjects[NMSTATE].key(),
        ];
        for key in all {
            troubles::delete_if_there(&self.cluster, &key).await;
            wait_until(&format!("{} is gone", key.human()), async || {
                policies::play(&self.cluster, false).await;
                let namespace = key.namespace.as_deref().unwrap_or_default();
                match self.cluster.get(key.kind, namespace, &key.name).await {
                    None => Ok(()),
                    Some(live) => Err(format!("{:#}", live["status"])),
                }
            })
            .await;
        }
        for (namespace, secret) in [
            ("openstack", deeds::DATABASE),
            (NAMESPACE, "kubemacpool-service"),
        ] {
            let key = ObjectKey::new(kinds::SECRET, namespace, secret);
            troubles::delete_if_there(&self.cluster, &key).await;
        }
        wait_until(
            "nothing is left but definitions and namespaces",
            async || {
                let stays = |title: &String| {
                    ["CustomResourceDefinition ", "Namespace "]
                        .iter()
                        .any(|kind| title.starts_with(kind))
                };
                let mut left = self.cluster.leftovers().await;
                left.retain(|title| !stays(title));
                if left.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{left:#?}"))
                }
            },
        )
        .await;
    }

    /// Starts the operator again, as the kubelet does. Its Leases count as expired, so that it need
    /// not wait for that.
    pub async fn restart(&mut self) {
        let namespace = self.cluster.operator_namespace();
        self.cluster
            .kubectl(&["-n", namespace, "delete", "leases", "--all"])
            .await;
        self.operator = Operator::start_via(&self.cluster, &self.proxy).await;
    }

    /// Plays everybody else in the cluster: the kubelet, KubeMacPool and the agents of the nodes.
    pub async fn play(&mut self) {
        if let Some(status) = self.operator.ended() {
            // 101 is the exit code of a panic.
            assert_ne!(status.code(), Some(101), "{}", self.operator.log());
            self.proxy.heal();
            self.restart().await;
        }
        let add_ons = self.live(ADD_ONS).await.unwrap_or_default();
        let secret = "kubemacpool-service";
        if !add_ons["spec"]["kubeMacPool"].is_null()
            && self
                .cluster
                .get(kinds::SECRET, NAMESPACE, secret)
                .await
                .is_none()
        {
            self.cluster.play_kubemacpool().await;
        }
        policies::play(&self.cluster, self.agents_fail).await;
    }
}
