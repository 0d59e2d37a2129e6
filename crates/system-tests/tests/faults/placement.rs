//! The operator of Placement is killed at its writes while a service is installed, moves, and is
//! removed: one that stands alone, and one among other operators, which go on meanwhile.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube::{
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{
    Victim, played,
    proxy::{Match, Proxy, When},
};

use crate::faults::{harness::*, site::*};

pub const SPACE: &str = "openstack";
const OPERATORS: &str = "weft-placement";
pub const USER: &str = "system:serviceaccount:weft-placement:weft-placement-operator";

/// A change of the service, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One that needs nobody.
    Install,
    /// Another database, which has to be prepared, and another Service.
    Move,
    /// One whose database and registration others see to, with an application credential and a
    /// Topology.
    InstallAmongPeers,
    /// All that it holds of others' is replaced at once.
    Rotate,
    Remove,
}

pub const ALONE: [Step; 3] = [Step::Install, Step::Move, Step::Remove];
const AMONG_PEERS: [Step; 3] = [Step::InstallAmongPeers, Step::Rotate, Step::Remove];

impl Step {
    pub async fn begin(self, site: &Site<'_>) {
        match self {
            Self::Install => {
                database(site, "first.example").await;
                let spec = json!({"auth": {"strategy": "noauth2"}, "database": {
                    "urlSecret": {"name": "placement-db"}
                },
                    "databaseInstance": null, "databaseAccount": null, "secret": null});
                site.placement(spec).await;
            }
            Self::Move => {
                database(site, "second.example").await;
                site.patch(json!({
                    "spec": {
                        "override": {
                            "service": {"public": {"spec": {"sessionAffinity": "ClientIP"}}}
                        }
                    }
                }))
                .await;
            }
            Self::InstallAmongPeers => site.placement(held("first")).await,
            Self::Rotate => site.patch(json!({"spec": held("second")})).await,
            Self::Remove => site.delete().await,
        }
    }

    /// Waits for the end. `users` is what was there before.
    pub async fn finish(self, site: &Site<'_>, users: &BTreeSet<String>) {
        let is_done: Box<dyn Fn(&Value) -> bool> = match self {
            Self::Install => Box::new(|status| status["databaseHostname"] == "first.example"),
            Self::Move => Box::new(|status| status["databaseHostname"] == "second.example"),
            Self::InstallAmongPeers => Box::new(|status| uses(status, "first")),
            Self::Rotate => Box::new(|status| uses(status, "second")),
            Self::Remove => {
                wait_until("nothing is left but what is the user's", async || {
                    let left = site.cluster.leftovers().await;
                    if left == *users {
                        Ok(())
                    } else {
                        Err(format!("{left:#?}"))
                    }
                })
                .await;
                return;
            }
        };
        site.wait_placement(&format!("{self:?} is done"), |live| {
            let status = &live["status"];
            let is_ready = condition(status, "Ready")["status"] == "True"
                && status["hash"]["input"] == status["appliedInputSecretHash"];
            is_ready && is_done(status)
        })
        .await;
    }
}

async fn database(site: &Site<'_>, host: &str) {
    site.secret(
        "placement-db",
        &[(
            "url",
            &format!("mysql+pymysql://placement:secret@{host}/placement"),
        )],
    )
    .await;
}

/// The fields that name others' objects.
fn held(name: &str) -> Value {
    json!({
        "databaseAccount": name, "auth": {"applicationCredentialSecret": name},
        "topologyRef": {"name": name}
    })
}

fn uses(status: &Value, name: &str) -> bool {
    status["applicationCredentialSecret"] == name && status["lastAppliedTopology"]["name"] == name
}

/// Creates the objects that users and other operators make before there is a service.
pub async fn prepare(site: &Site<'_>, steps: &[Step]) {
    if !steps.contains(&Step::InstallAmongPeers) {
        return database(site, "first.example").await;
    }
    for definitions in [played::MARIADB, played::KEYSTONE, played::TOPOLOGY] {
        site.cluster.apply(definitions).await;
    }
    site.cluster
        .wait_established("keystoneapis.keystone.openstack.org")
        .await;
    site.cluster
        .wait_established("topologies.topology.openstack.org")
        .await;
    site.inputs().await;
    for name in ["first", "second"] {
        site.secret(name, &[("AC_ID", name), ("AC_SECRET", name)])
            .await;
        site.put(json!({
            "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
            "metadata": {"name": name}, "spec": {}
        }))
        .await;
    }
}

/// mariadb- and keystone-operator: they say of each of their objects that it is ready. (Not even
/// their kinds are there where a service stands alone.)
async fn peers(site: &Site<'_>, steps: &[Step]) {
    if !steps.contains(&Step::InstallAmongPeers) {
        return std::future::pending().await;
    }
    let said = [
        (kinds::MARIADB_DATABASE, "MariaDBDatabaseReady"),
        (kinds::MARIADB_ACCOUNT, "MariaDBAccountReady"),
        (kinds::KEYSTONE_SERVICE, "Ready"),
        (kinds::KEYSTONE_ENDPOINT, "Ready"),
    ];
    let watches = said.map(|(kind, ready)| {
        // New kinds are not served at once.
        let objects = watcher(site.cluster.api(kind, SPACE), watcher::Config::default())
            .default_backoff()
            .applied_objects();
        objects
            .filter_map(async |object| object.ok())
            .map(move |object| (kind, ready, object))
            .boxed()
    });
    let mut watched = stream::select_all(watches);
    while let Some((kind, ready, object)) = watched.next().await {
        if object.data["status"].is_null() {
            let ready = json!({"type": ready, "status": "True", "reason": "Ready", "message": "Setup complete",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
            // It may be gone by now.
            let _ = site
                .cluster
                .api(kind, SPACE)
                .patch_status(
                    &object.metadata.name.unwrap(),
                    &PatchParams::default(),
                    &patch,
                )
                .await;
        }
    }
}

fn writes(proxy: &Proxy) -> usize {
    let work = Match::any().user(USER).writes();
    proxy
        .writes()
        .iter()
        .filter(|write| work.selects(&write.info))
        .count()
}

/// Returns the differences, except for values of one life of the resource: its uid, and the random
/// parts of its account.
pub fn differences(expected: &Snapshot, now: &Snapshot) -> Vec<String> {
    let mut differences = expected.diff(now);
    let of_this_life = [
        "controller-uid",
        "placement.openstack.org~1uid",
        "/spec/userName",
        "/containers/0/env/0/value",
    ];
    differences.retain(|line| !of_this_life.iter().any(|name| line.contains(name)));
    differences
}

/// Which writes of a step with `count` of them: all, or some at its edges and one in the middle.
fn chosen(count: usize) -> Vec<(usize, When)> {
    if is_exhaustive() {
        return (1..=count)
            .flat_map(|n| [(n, When::Before), (n, When::After)])
            .collect();
    }
    let all = [
        (1, When::After),
        (count / 2 + 1, When::Before),
        (count.saturating_sub(1), When::After),
    ];
    all.into_iter()
        .filter(|(n, _)| (1..=count).contains(n))
        .collect()
}

/// A cluster with the operator of this domain installed.
pub fn options() -> ClusterOptions {
    ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, NAME),
        resource_namespace: SPACE,
        ..Default::default()
    }
}

/// Takes these steps undisturbed, and then again and again with kills. Returns how many writes each
/// takes, and how often the operator was killed.
async fn survive(steps: [Step; 3]) -> ([usize; 3], usize) {
    let cluster = Cluster::start(options()).await;
    let site = Site::new(&cluster, SPACE).await;
    prepare(&site, &steps).await;
    tokio::select! {
        done = take(&site, steps) => done,
        () = peers(&site, &steps) => panic!("their watches go on"),
    }
}

async fn take(site: &Site<'_>, steps: [Step; 3]) -> ([usize; 3], usize) {
    let cluster = site.cluster;
    let users = cluster.leftovers().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let mut operator = Operator::start_briefly_via(cluster, &proxy).await;
    let mut reference = Vec::new();
    for step in steps {
        proxy.clear();
        step.begin(site).await;
        step.finish(site, &users).await;
        reference.push((cluster.snapshot().await, writes(&proxy)));
    }
    let counts = [0, 1, 2].map(|step: usize| reference[step].1);
    println!("writes a step: {counts:?}");
    let plans = counts.map(chosen);
    let mut kills = 0;
    // In each life the steps have their kill, as long as there are writes left to be killed at.
    for life in 0..plans.iter().map(Vec::len).max().unwrap_or_default() {
        for ((step, plan), (expected, count)) in steps.into_iter().zip(&plans).zip(&reference) {
            // Writes of status differ in number from run to run: a kill that has nothing to come at
            // does not come.
            let kill = plan.get(life).copied();
            println!("{step:?}, killed at {kill:?} of {count}");
            let victim = Victim::new();
            victim.is(operator.child());
            proxy.clear();
            if let Some((n, when)) = kill {
                proxy.on_write(Match::any().user(USER), n, when, victim.kill());
            }
            step.begin(site).await;
            let was_killed = tokio::select! {
                () = operator.end() => true,
                () = step.finish(site, &users) => {
                    let is_dying = kill.is_some_and(|(n, _)| writes(&proxy) >= n);
                    if is_dying {
                        operator.wait().await;
                    }
                    is_dying
                }
            };
            proxy.heal();
            if was_killed {
                kills += 1;
                // As if it had run out.
                cluster
                    .kubectl(&[
                        "-n",
                        OPERATORS,
                        "delete",
                        "lease",
                        "weft-placement",
                        "--ignore-not-found",
                    ])
                    .await;
                operator = Operator::start_briefly_via(cluster, &proxy).await;
                step.finish(site, &users).await;
            }
            wait_until("the same end", async || {
                let differences = differences(expected, &cluster.snapshot().await);
                if differences.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{step:?}, killed at {kill:?}: {differences:#?}"))
                }
            })
            .await;
        }
    }
    (counts, kills)
}

#[tokio::test]
async fn placement_survives_a_kill_at_any_write() {
    let (writes, kills) = survive(ALONE).await;
    assert_eq!(writes[2], 0, "what it made goes by its owner");
    assert!(kills >= 4, "most of the chosen writes happen: {kills}");
}

#[tokio::test]
async fn placement_among_other_operators_survives_a_kill_at_any_write() {
    let (_, kills) = survive(AMONG_PEERS).await;
    assert!(kills >= 7, "most of the chosen writes happen: {kills}");
}
