//! A fleet of simulated agents against the real API server and the real operator: one process, in which each agent is the real one's code (its
//! `serve`), a token of its own node, and a [recorded](super::recorded) host.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use weft_agent::health::Health;
use weft_agent::process::{self, Options};
use weft_agent::report::Extent;
use weft_agent::state_dir::StateDir;
use weft_testenv::host_lab::{HostLab, agent};

use super::bridge;
use super::recorded::Recorded;
use crate::figure::{Figure, Unit};
use crate::lab::{Lab, Setup};
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(900);
/// Of each host; a node with some pods on secondary networks.
const INTERFACES: usize = 20;
const QUIET: Duration = Duration::from_secs(30);

pub async fn measure(setup: &Setup, agents: u32) -> Result<Vec<Figure>> {
    let record = record().await?;
    let (lab, _operator) = Lab::with_operator(setup).await?;
    let nodes: Vec<String> = (1..=agents).map(|number| format!("sim-{number}")).collect();
    create_nodes(&lab, &nodes).await?;
    let n = f64::from(agents);

    let started = Instant::now();
    let fleet = start(&lab, &nodes, &record).await?;
    wait::until_for(PATIENCE, "all agents report", async || {
        let states = list(&lab, "nodenetworkstates").await?;
        let reported = states.iter().filter(|state| state["status"]["currentState"].is_object()).count();
        Ok((reported >= nodes.len()).then_some(()))
    })
    .await?;
    let all_reported = started.elapsed().as_secs_f64();
    let memory = resident()?;

    let (since, before) = (Timestamp::now(), watch_events(&lab).await?);
    let policy = bridge("br-fleet", "100%");
    let started = Instant::now();
    lab.rest.create("/apis/nmstate.io/v1/nodenetworkconfigurationpolicies", &policy).await?;
    wait::until_for(PATIENCE, "the policy is Available", async || {
        let policy = lab.rest.get("/apis/nmstate.io/v1/nodenetworkconfigurationpolicies/br-fleet").await?.unwrap_or_default();
        let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
        Ok(conditions.iter().any(|condition| condition["type"] == "Available" && condition["status"] == "True").then_some(()))
    })
    .await?;
    let available = started.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let events = watch_events(&lab).await? - before;
    let writes = writes(&lab, since)?;

    let since = Timestamp::now();
    tokio::time::sleep(QUIET).await;
    let idle = self::writes(&lab, since)?;
    drop(fleet);
    let size = record.to_string().len() / 1024;
    Ok(vec![
        Figure::new(format!("{agents} simulated agents: all report"), Unit::Seconds, all_reported)
            .note(format!("of {INTERFACES} interfaces, {size} KiB each, on this machine's processors with the control plane")),
        Figure::new(format!("{agents} simulated agents: memory, each"), Unit::Mebibytes, memory / n),
        Figure::new(format!("{agents} simulated agents: a policy for all is Available"), Unit::Seconds, available)
            .note("maxUnavailable 100%"),
        Figure::new(format!("{agents} simulated agents: API writes a node and policy"), Unit::Count, writes / n).at_most(4.0),
        Figure::new(format!("{agents} simulated agents: watch events for one policy"), Unit::Count, events)
            .at_most(10.0 * n)
            .note("counted by the API server, to all watchers; kubernetes-nmstate: 5 N\u{b2}"),
        Figure::new(format!("{agents} simulated agents: writes in {} s without a change", QUIET.as_secs()), Unit::Count, idle).at_most(0.0),
    ])
}

/// A real host, by the agent's own words.
async fn record() -> Result<Value> {
    let lab = HostLab::builder().hosts(1).start().await?;
    let host = &lab.hosts()[0];
    let pairs = (INTERFACES - 4) / 2;
    let commands: String = (0..pairs).map(|pair| format!("link add card{pair}a type veth peer name card{pair}b\n")).collect();
    host.ip(&commands).await?;
    let program = agent::program()?.display().to_string();
    Ok(serde_json::from_str(&host.exec(&[&program, "show", "--json"]).await?)?)
}

/// Node objects, which kwok keeps Ready, and the agent's pods on them.
async fn create_nodes(lab: &Lab<'_>, nodes: &[String]) -> Result<()> {
    lab.rest
        .create("/apis/nmstate.io/v1/nmstates", &json!({"apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"}}))
        .await?;
    let resources = json!({"cpu": "32", "memory": "128Gi", "pods": "500"});
    crate::rest::Rest::concurrently(nodes, async |name| {
        let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"capacity": resources, "allocatable": resources}});
        lab.rest.create("/api/v1/nodes", &node).await.map(drop)
    })
    .await?;
    wait::until_for(PATIENCE, "the agent's pods are Ready", async || {
        let set = lab.rest.get("/apis/apps/v1/namespaces/nmstate/daemonsets/nmstate-handler").await?.unwrap_or_default();
        let ready = set["status"]["numberReady"].as_u64().unwrap_or_default();
        Ok((ready >= nodes.len() as u64).then_some(()))
    })
    .await
}

/// Ended on drop.
async fn start(lab: &Lab<'_>, nodes: &[String], record: &Value) -> Result<JoinSet<Result<()>>> {
    let kubeconfigs: Vec<_> = stream::iter(nodes)
        .map(|node| lab.control_plane.node_kubeconfig_via(lab.control_plane.url(), agent::NAMESPACE, agent::SERVICE_ACCOUNT, node))
        .buffered(16)
        .try_collect()
        .await?;
    let folder = lab.control_plane.dir().join("agents");
    let mut fleet = JoinSet::new();
    for (node, kubeconfig) in nodes.iter().zip(kubeconfigs) {
        let state_dir = folder.join(node);
        let options = options(node, &kubeconfig, &state_dir);
        let (host, changes) = Recorded::new(record);
        fleet.spawn(async move {
            let dir = StateDir::open(&options.state_dir)?;
            process::serve(&options, &dir, host, changes, &Health::default()).await
        });
    }
    Ok(fleet)
}

fn options(node: &str, kubeconfig: &Path, state_dir: &Path) -> Options {
    Options {
        node: node.to_owned(),
        kubeconfig: Some(kubeconfig.to_owned()),
        lock_file: state_dir.join("lock"),
        state_dir: state_dir.to_owned(),
        extent: Extent::default(),
    }
}

async fn list(lab: &Lab<'_>, resource: &str) -> Result<Vec<Value>> {
    let list = lab.rest.get(&format!("/apis/nmstate.io/v1beta1/{resource}?resourceVersion=0")).await?.unwrap_or_default();
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Writes to enactments and states since a moment.
fn writes(lab: &Lab<'_>, since: Timestamp) -> Result<f64> {
    let events = lab.control_plane.audit_events()?;
    let ours = events.iter().filter(|event| event.received >= since && event.group == "nmstate.io" && event.is_write());
    let of_nodes = ours
        .filter(|event| event.user.starts_with("system:serviceaccount:nmstate:") && event.resource != "nodenetworkconfigurationpolicies");
    Ok(f64::from(u32::try_from(of_nodes.count())?))
}

async fn watch_events(lab: &Lab<'_>) -> Result<f64> {
    super::traffic::watch_events(&lab.control_plane.client()).await
}

/// Of this process, in MiB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
