//! The resource of each API while another operator runs, while it is paused, while it is being
//! deleted, and in each combination of these. Weft removes the objects only in the last cell of the
//! table, and writes nothing but status before.

use serde_json::{Value, json};
use weft_plan::{Kind, PAUSE_ANNOTATION, kinds};
use weft_testenv::proxy::{Proxy, Recorded};

use crate::{
    faults::{
        all_domains::{ADDONS, of_operator, start},
        harness::*,
        placement::{self, SPACE},
        scenario::resource,
        site::{FINALIZER, NAME, Site, has_finalizer},
        user::weft_reading,
    },
    upgrade::populated::{network_config, wait_resource},
};

/// The namespace of the other operators.
const OTHERS: &str = "others";
/// The Deployment of the other operator for each API.
const OPERATORS: [&str; 4] = [
    "cluster-network-addons-operator",
    "cluster-network-operator",
    "nmstate-operator",
    "placement-operator-controller-manager",
];
/// The domain of each API, with its resource.
const RESOURCES: [(&str, Kind, &str, &str); 4] = [
    ("addons", kinds::NETWORK_ADDONS_CONFIG, "", "cluster"),
    ("cluster-network", kinds::NETWORK_CONFIG, "", "default"),
    ("node-network", kinds::NMSTATE, "", "nmstate"),
    ("placement", kinds::PLACEMENT_API, SPACE, NAME),
];
/// The finalizer of Weft on the other resources than a PlacementAPI.
const TEARDOWN: &str = "weft.network/teardown";

/// A state of all resources, and the condition by which they say so.
struct Cell {
    is_blocked: bool,
    is_paused: bool,
    is_deleted: bool,
    /// The condition that is True for the latest generation. Empty where the resource is gone.
    says: &'static str,
    /// Reason of the condition `Ready` of a PlacementAPI that is not True. A pause is silent there.
    ready: &'static str,
}

const fn cell(holds: [bool; 3], says: &'static str, ready: &'static str) -> Cell {
    let [is_blocked, is_paused, is_deleted] = holds;
    Cell {
        is_blocked,
        is_paused,
        is_deleted,
        says,
        ready,
    }
}

const RUNS: &str = "OtherOperatorRunning";

/// All combinations, in an order in which each differs from the one before in one respect.
const TABLE: [Cell; 8] = [
    cell([false, false, false], "Available", ""),
    cell([false, true, false], "Paused", ""),
    cell([true, true, false], "Blocked", RUNS),
    cell([true, false, false], "Blocked", RUNS),
    cell([true, false, true], "Blocked", RUNS),
    cell([true, true, true], "Blocked", RUNS),
    cell([false, true, true], "Paused", RUNS),
    cell([false, false, true], "", ""),
];

impl Cell {
    fn human(&self) -> String {
        format!(
            "blocked {}, paused {}, deleted {}",
            self.is_blocked, self.is_paused, self.is_deleted
        )
    }

    /// Makes the one difference to the cell before.
    async fn begin(&self, before: &Self, cluster: &Cluster) {
        if self.is_blocked != before.is_blocked {
            for operator in OPERATORS {
                if self.is_blocked {
                    let image = "--image=registry.example/manager";
                    cluster
                        .kubectl(&["-n", OTHERS, "create", "deployment", operator, image])
                        .await;
                } else {
                    cluster.delete(kinds::DEPLOYMENT, OTHERS, operator).await;
                }
            }
        }
        for (_, kind, namespace, name) in RESOURCES {
            if self.is_paused != before.is_paused {
                let value = self.is_paused.then_some("true");
                let patch = json!({"metadata": {"annotations": {PAUSE_ANNOTATION: value}}});
                cluster.patch(kind, namespace, name, patch).await;
            }
            if self.is_deleted != before.is_deleted {
                cluster.delete(kind, namespace, name).await;
            }
        }
    }

    /// Reports whether the status of a resource says this, or what else there is.
    fn is_said(&self, kind: Kind, live: Option<&Value>) -> Result<(), String> {
        let Some(live) = live else {
            let is_gone = self.says.is_empty();
            return is_gone.then_some(()).ok_or_else(|| "it is gone".to_owned());
        };
        let found = format!("{:#}\n{:#}", live["metadata"], live["status"]);
        let (status, generation) = (&live["status"], &live["metadata"]["generation"]);
        let is_said = if kind == kinds::PLACEMENT_API {
            let ready = condition(status, "Ready");
            // Nothing says that a pause is over, or that it began.
            let is_current = status["observedGeneration"] == *generation || self.is_paused;
            match self.ready {
                "" => is_current && ready["status"] == "True",
                reason => is_current && ready["status"] == "Unknown" && ready["reason"] == reason,
            }
        } else {
            let condition = condition(status, self.says);
            condition["status"] == "True" && condition["observedGeneration"] == *generation
        };
        let is_held = has_finalizer(live, TEARDOWN) || has_finalizer(live, FINALIZER);
        (is_said && is_held && !self.says.is_empty())
            .then_some(())
            .ok_or(found)
    }
}

/// Puts a resource of each API in, each with Weft's finalizer.
async fn populate(cluster: &Cluster) {
    cluster.apply(&resource(&ADDONS)).await;
    cluster.apply(&network_config("office")).await;
    let nmstate = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"}
    });
    cluster.apply(&nmstate.to_string()).await;
    let site = Site::new(cluster, SPACE).await;
    placement::prepare(&site, &placement::ALONE).await;
    placement::Step::Install.begin(&site).await;
    // As if it had held objects of others before.
    site.patch(json!({"metadata": {"finalizers": [FINALIZER]}}))
        .await;
    for (_, kind, namespace, name) in RESOURCES {
        wait_resource(cluster, kind, namespace, name).await;
    }
}

/// How often the operator has reconciled a resource of each domain.
async fn reconciles(operator: &Operator) -> [f64; 4] {
    let (_, _, text) = operator.http("/metrics").await;
    RESOURCES.map(|(domain, ..)| {
        let label = format!("domain=\"{domain}\"");
        let samples = text
            .lines()
            .filter(|line| line.starts_with("weft_pass_seconds_count{") && line.contains(&label));
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    })
}

/// The reason by which the plan of a deletion says of each resource that it waits.
async fn planned_deletion(cluster: &Cluster) -> Vec<String> {
    let plan = weft_reading(cluster, &["plan", "--delete", "-o", "json"], "").await;
    let plan = plan.ended(1).json();
    let resources = plan["resources"].as_array().unwrap().iter();
    resources
        .map(|one| one["blocked"]["reason"].as_str().unwrap_or_default())
        .map(str::to_owned)
        .collect()
}

/// The operator's writes so far that are no reports.
fn work(cluster: &Cluster, proxy: &Proxy) -> Vec<String> {
    let writes = of_operator(cluster).writes().subresource("");
    let line = |Recorded { info, code, .. }| format!("{} {} -> {code:?}", info.verb, info.path);
    let all = proxy.writes().into_iter();
    all.filter(|write| writes.selects(&write.info))
        .map(line)
        .collect()
}

#[tokio::test]
async fn each_api_writes_nothing_while_it_is_blocked_or_paused() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.kubectl(&["create", "namespace", OTHERS]).await;
    populate(&cluster).await;
    for (index, (before, now)) in TABLE.iter().zip(&TABLE[1..]).enumerate() {
        let is_last = index + 2 == TABLE.len();
        let counts = reconciles(&operator).await;
        now.begin(before, &cluster).await;
        for (_, kind, namespace, name) in RESOURCES {
            let what = format!("{}: {kind} {name} says {:?}", now.human(), now.says);
            wait_until(&what, async || {
                let live = cluster.get(kind, namespace, name).await;
                now.is_said(kind, live.as_ref())
            })
            .await;
        }
        if is_last {
            break;
        }
        // Not each cell says something else than the one before.
        wait_until(&format!("{}: reconciled", now.human()), async || {
            let latest = reconciles(&operator).await;
            let all = latest.iter().zip(&counts).all(|(now, before)| now > before);
            all.then_some(()).ok_or(format!("{counts:?}, {latest:?}"))
        })
        .await;
        if now.is_blocked && !now.is_deleted {
            assert_eq!(planned_deletion(&cluster).await, [RUNS; 4]);
        }
        if index == 0 {
            // Something to repair, which no cell repairs.
            cluster
                .delete(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
                .await;
            cluster
                .delete(kinds::SERVICE, SPACE, "placement-internal")
                .await;
            proxy.clear();
        }
        assert_eq!(
            work(&cluster, &proxy),
            Vec::<String>::new(),
            "{}",
            now.human()
        );
    }
    assert!(!work(&cluster, &proxy).is_empty(), "at the end all goes");
}
