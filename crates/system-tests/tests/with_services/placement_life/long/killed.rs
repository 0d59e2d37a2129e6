//! The operator is killed before or after each of its writes to Keystone, and started again.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{
    Victim,
    proxy::When,
    services::{Gate, Keystone, MariaDb, Site},
};

use crate::with_services::placement_life::{
    cluster::{
        NAMESPACE, get, placement_api, secret, secret_for, start, wait, wait_gone, wait_ready,
    },
    harness::*,
    registry::{delete_project, lets_in, registered},
};

/// A change of a registration, in this order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Register,
    /// Another password, another address.
    Change,
    Remove,
}

const STEPS: [Step; 3] = [Step::Register, Step::Change, Step::Remove];
/// Project, user, two roles, service, two endpoints. Password and endpoint. Two endpoints, user and
/// service.
const WRITES: [usize; 3] = [7, 2, 4];

impl Step {
    /// The password of the service's user from then on.
    fn password(self) -> &'static str {
        if matches!(self, Self::Register) {
            "first"
        } else {
            "second"
        }
    }

    /// Begins it, and returns which hashes status has before.
    async fn begin(self, cluster: &Cluster, gate: &Gate) -> Value {
        let before = get(cluster, kinds::PLACEMENT_API, "placement")
            .await
            .unwrap_or_default()["status"]["hash"]
            .clone();
        secret_for(
            gate.url(),
            cluster,
            "placement-secret",
            &[("PlacementPassword", self.password())],
        )
        .await;
        match self {
            Self::Register => {
                let spec = json!({
                    "secret": "placement-secret",
                    "database": {"urlSecret": {"name": "placement-db"}},
                    "keystone": {
                        "external": {"authURL": gate.url()}, "registration": "Direct",
                        "adminSecret": {"name": "keystone-admin"}
                    },
                });
                cluster.apply(&placement_api(&spec)).await;
            }
            Self::Change => {
                let url = json!({
                    "spec": {
                        "override": {
                            "service": {"public": {"endpointURL": "https://placement.example"}}
                        }
                    }
                });
                cluster
                    .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", url)
                    .await;
            }
            Self::Remove => {
                cluster
                    .delete(kinds::PLACEMENT_API, NAMESPACE, "placement")
                    .await
            }
        }
        before
    }

    async fn finish(self, cluster: &Cluster, before: &Value) {
        match self {
            Self::Register => drop(wait_ready(cluster).await),
            Self::Change => {
                wait(cluster, "password and address are others", |live| {
                    let (status, hash) = (&live["status"], &live["status"]["hash"]);
                    let is_ready = condition(status, "Ready")["status"] == "True"
                        && hash["input"] == status["appliedInputSecretHash"];
                    is_ready
                        && ["input", "keystoneservice", "keystoneendpoint"]
                            .iter()
                            .all(|name| hash[name] != before[name])
                })
                .await;
            }
            Self::Remove => wait_gone(cluster).await,
        }
    }
}

/// Takes a step while the operator is killed at its `n`-th write. Returns the operator that
/// finished it.
async fn killed(
    cluster: &Cluster,
    gate: &Gate,
    mut operator: Operator,
    step: Step,
    n: usize,
    when: When,
) -> Operator {
    let victim = Victim::new();
    victim.is(operator.child());
    gate.on_write(n, when, victim.kill());
    let before = step.begin(cluster, gate).await;
    operator.wait().await;
    gate.clear();
    // As if it had run out.
    cluster
        .kubectl(&[
            "-n",
            "weft-placement",
            "delete",
            "lease",
            "weft-placement",
            "--ignore-not-found",
        ])
        .await;
    let operator = Operator::start_default(cluster).await;
    step.finish(cluster, &before).await;
    operator
}

/// Returns the result of the step in Keystone.
async fn outcome(keystone: &Keystone, step: Step) -> (Vec<String>, bool) {
    let outcome = (
        registered(keystone).await,
        lets_in(keystone, step.password()).await,
    );
    if matches!(step, Step::Remove) {
        // It stays there for others. The next registration finds nothing again.
        delete_project(keystone).await;
    }
    outcome
}

#[tokio::test]
async fn a_registration_killed_at_any_write_to_keystone_ends_the_same() {
    let site = Site::start(&[]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    let keystone = Keystone::start(&site, &database).await.unwrap();
    let gate = Gate::start(&keystone).await.unwrap();
    let cluster = start().await;
    let mut operator = Operator::start_default(&cluster).await;
    secret(
        &cluster,
        "placement-db",
        &[("url", "mysql+pymysql://placement:p@db.example/placement")],
    )
    .await;
    secret_for(
        gate.url(),
        &cluster,
        "keystone-admin",
        &[
            ("username", "admin"),
            ("password", keystone.admin_password()),
        ],
    )
    .await;

    let mut reference = vec![];
    for (step, writes) in STEPS.into_iter().zip(WRITES) {
        gate.clear();
        let before = step.begin(&cluster, &gate).await;
        step.finish(&cluster, &before).await;
        assert_eq!(
            gate.writes().len(),
            writes,
            "{step:?}: {:#?}",
            gate.writes()
        );
        reference.push(outcome(&keystone, step).await);
    }
    assert!(
        reference[0].1 && reference[1].1 && !reference[2].1,
        "{reference:#?}"
    );

    // In each life the steps have their kill, as long as there are writes left to be killed at.
    let kills = |writes: usize| (1..=writes).flat_map(|n| [(n, When::Before), (n, When::After)]);
    for life in 0..2 * WRITES[0] {
        for ((step, writes), expected) in STEPS.into_iter().zip(WRITES).zip(&reference) {
            let kill = kills(writes).nth(life);
            if let Some((n, when)) = kill {
                operator = killed(&cluster, &gate, operator, step, n, when).await;
            } else {
                let before = step.begin(&cluster, &gate).await;
                step.finish(&cluster, &before).await;
            }
            assert_eq!(
                outcome(&keystone, step).await,
                *expected,
                "{step:?}, killed at {kill:?}"
            );
        }
    }
}
