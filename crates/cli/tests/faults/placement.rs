//! The operator of Placement is killed at its writes while a service is installed, comes to another database, and is removed.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::{
    Victim,
    proxy::{Match, Proxy, When},
};

use crate::harness::*;

const SPACE: &str = "openstack";
const OPERATORS: &str = "openstack-operators";
const USER: &str = "system:serviceaccount:openstack-operators:placement-operator-controller-manager";

/// What happens to the service, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Install,
    /// Another database, which has to be prepared, and another Service.
    Move,
    Remove,
}

const STEPS: [Step; 3] = [Step::Install, Step::Move, Step::Remove];

impl Step {
    async fn begin(self, cluster: &Cluster) {
        match self {
            Self::Install => {
                database(cluster, "first.example").await;
                let spec = json!({"auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}}});
                let resource = json!({"apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
                    "metadata": {"name": "placement", "namespace": SPACE}, "spec": spec});
                cluster.apply(&resource.to_string()).await;
            }
            Self::Move => {
                database(cluster, "second.example").await;
                cluster
                    .patch_resource(json!({"spec": {"override": {"service": {"public": {"spec": {"sessionAffinity": "ClientIP"}}}}}}))
                    .await;
            }
            Self::Remove => cluster.delete(kinds::PLACEMENT_API, SPACE, "placement").await,
        }
    }

    async fn finish(self, cluster: &Cluster) {
        let host = match self {
            Self::Install => "first.example",
            Self::Move => "second.example",
            Self::Remove => {
                wait_until("nothing is left but the user's Secret", async || {
                    let left = cluster.leftovers().await;
                    if left == ["Secret openstack/placement-db"] { Ok(()) } else { Err(format!("{left:#?}")) }
                })
                .await;
                return;
            }
        };
        wait_until(&format!("Ready with {host}"), async || {
            let resource = cluster.resource().await.ok_or("there is none")?;
            let status = &resource["status"];
            let hash = status["hash"]["input"].clone();
            let is_current = status["observedGeneration"] == resource["metadata"]["generation"] && status["databaseHostname"] == host;
            let is_ready = condition(status, "Ready")["status"] == "True" && hash == status["appliedInputSecretHash"];
            if is_current && is_ready { Ok(()) } else { Err(format!("{status:#}")) }
        })
        .await;
    }
}

async fn database(cluster: &Cluster, host: &str) {
    let url = format!("mysql+pymysql://placement:secret@{host}/placement");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "placement-db", "namespace": SPACE}, "stringData": {"url": url}});
    cluster.apply(&secret.to_string()).await;
}

fn writes(proxy: &Proxy) -> usize {
    let work = Match::any().user(USER).writes();
    proxy.writes().iter().filter(|write| work.selects(&write.info)).count()
}

/// What is different and is not a name of this life of the resource.
fn differences(expected: &Snapshot, now: &Snapshot) -> Vec<String> {
    let mut differences = expected.diff(now);
    differences.retain(|line| !line.contains("controller-uid") && !line.contains("placement.openstack.org~1uid"));
    differences
}

#[tokio::test]
async fn placement_survives_a_kill_at_any_write() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests: &["--domains", "placement"],
        resource: (kinds::PLACEMENT_API, "placement"),
        resource_namespace: SPACE,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let mut operator = Operator::start_via(&cluster, &proxy).await;
    let mut reference = Vec::new();
    for step in STEPS {
        proxy.clear();
        step.begin(&cluster).await;
        step.finish(&cluster).await;
        reference.push((cluster.snapshot().await, writes(&proxy)));
    }
    println!("writes a step: {:?}", reference.iter().map(|(_, writes)| writes).collect::<Vec<_>>());
    assert_eq!(reference[2].1, 0, "what it made goes by its owner");
    let most = reference.iter().map(|(_, writes)| *writes).max().unwrap();
    // In each life the steps have their kill: at the edges and in the middle, or at each write.
    let lives: Vec<(usize, When)> = if is_exhaustive() {
        (1..=most).flat_map(|n| [(n, When::Before), (n, When::After)]).collect()
    } else {
        vec![(1, When::After), (most / 2, When::Before), (most / 2 + 1, When::After), (most - 1, When::Before)]
    };
    let mut kills = 0;
    for (at, when) in lives {
        for (step, (expected, count)) in STEPS.into_iter().zip(&reference) {
            // Writes of status differ in number from run to run: a kill that has nothing to come at does not come.
            let n = at.min(*count);
            println!("{step:?}, killed {when:?} write {n} of {count}");
            let victim = Victim::new();
            victim.is(operator.child());
            proxy.clear();
            if n > 0 {
                proxy.on_write(Match::any().user(USER), n, when, victim.kill());
            }
            step.begin(&cluster).await;
            let was_killed = tokio::select! {
                _ = operator.wait() => true,
                () = step.finish(&cluster) => {
                    let is_dying = n > 0 && writes(&proxy) >= n;
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
                cluster.kubectl(&["-n", OPERATORS, "delete", "lease", "weft-placement", "--ignore-not-found"]).await;
                operator = Operator::start_via(&cluster, &proxy).await;
                step.finish(&cluster).await;
            }
            if step != Step::Remove {
                wait_until("the same end", async || {
                    let differences = differences(expected, &cluster.snapshot().await);
                    if differences.is_empty() { Ok(()) } else { Err(format!("{step:?}, killed {when:?} write {n}: {differences:#?}")) }
                })
                .await;
            }
        }
    }
    assert!(kills >= 6, "most of the chosen writes happen: {kills}");
}
