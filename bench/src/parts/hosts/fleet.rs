//! A fleet of simulated agents against the real API server and the real operator: one process, in
//! which each agent is the real one's code (its `serve`), a token of its own node, and a
//! [recorded](super::recorded) host. The process runs on a host of the lab, from where it reaches
//! the API server as an agent does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use weft_agent::{
    cluster,
    health::Health,
    host::{DNS_HOST, WithoutNetworkManager},
    probes::{Prober, WINDOW},
    process::serve,
    settings::{Extent, Settings},
};
use weft_node_network::state::without_additions;
use weft_testenv::AuditEvent;
use weft_testenv::host_lab::{Host, HostLab, Installation, addresses, agent};

use super::recorded::Recorded;
use super::traffic::{kinds, watch_events, watchers};
use super::{bridge, is_of_a_node, without_limit, writes};
use crate::{
    figure::{Figure, Unit},
    rest::Rest,
    wait,
};

const PATIENCE: Duration = Duration::from_secs(900);
/// Of each host. A node with some pods on secondary networks.
const INTERFACES: usize = 20;
/// The API server sends a bookmark a minute to each watch (`bookmarkFrequency` of its cacher).
/// Those are counted in one such minute, and left out.
const QUIET: Duration = Duration::from_secs(60);

/// Settings of the process.
#[derive(Serialize, Deserialize)]
struct Fleet {
    record: Value,
    /// Node and kubeconfig of each agent.
    agents: Vec<(String, PathBuf)>,
}

pub async fn measure(agents: u32) -> Result<Vec<Figure>> {
    let weft =
        Installation::without_agents(HostLab::builder().hosts(1).garbage_collector(false)).await?;
    without_limit(&weft).await?;
    let host = &weft.lab().hosts()[0];
    let record = record(host).await?;
    let nodes: Vec<String> = (1..=agents).map(|number| format!("sim-{number}")).collect();
    create_nodes(&weft, &nodes).await?;
    let fleet = Fleet {
        agents: kubeconfigs(&weft, &nodes).await?,
        record,
    };
    let file = weft.lab().control_plane().dir().join("fleet.json");
    std::fs::write(&file, serde_json::to_vec(&fleet)?)?;

    let started = Instant::now();
    let mut process = host.start_program(
        &std::env::current_exe()?,
        &["--fleet", &file.display().to_string()],
        &[],
    )?;
    wait::until_for(PATIENCE, "all agents report", async || {
        process.check_running()?;
        // By the audit log: the reports themselves are megabytes, and to list them again and again
        // would be most of the API server's work.
        let is_report = |event: &AuditEvent| {
            event.resource == "nodenetworkstates"
                && event.subresource == "status"
                && event.code == 200
        };
        let reported: BTreeSet<String> = writes(&weft)?
            .into_iter()
            .filter(is_report)
            .map(|event| event.name)
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok((reported.len() >= nodes.len()).then_some(()))
    })
    .await?;
    let all_reported = started.elapsed().as_secs_f64();
    super::quiet(&weft).await?;
    let memory = resident(process.pid())?;

    let (since, before) = (Timestamp::now(), watch_events(&weft.lab().client()).await?);
    let started = Instant::now();
    weft.apply(&bridge("br-fleet", "100%").to_string()).await?;
    wait::until_for(PATIENCE, "the policy is Available", async || {
        process.check_running()?;
        let policy = weft.get("nncp", "br-fleet").await?.unwrap_or_default();
        let conditions = policy["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        Ok(conditions
            .iter()
            .any(|condition| condition["type"] == "Available" && condition["status"] == "True")
            .then_some(()))
    })
    .await?;
    let available = started.elapsed().as_secs_f64();
    super::quiet(&weft).await?;
    let (after, took) = (watch_events(&weft.lab().client()).await?, started.elapsed());
    let written = writes_since(&weft, since)?;
    let accepted: Vec<_> = written
        .iter()
        .filter(|event| event.code < 400)
        .cloned()
        .collect();

    let since = Timestamp::now();
    tokio::time::sleep(QUIET).await;
    let bookmarks = (watch_events(&weft.lab().client()).await? - after) * took.as_secs_f64()
        / QUIET.as_secs_f64();
    let idle = writes_since(&weft, since)?;
    process.check_running()?;
    let (n, size) = (f64::from(agents), fleet.record.to_string().len() / 1024);
    let name = |what: &str| format!("{agents} simulated agents: {what}");
    Ok(vec![
        Figure::new(name("all report"), Unit::Seconds, all_reported)
            .note(format!("{INTERFACES} interfaces, {size} KiB each; on this machine's processors with the control plane")),
        Figure::new(name("memory of each"), Unit::Mebibytes, memory / n),
        Figure::new(name("a policy for all is Available"), Unit::Seconds, available).note("maxUnavailable 100%"),
        // The API server has not written a request that it turns away under load (429). The note
        // lists such requests.
        Figure::new(name("API writes a node and policy"), Unit::Count, count(&accepted)? / n).at_most(4.0).note(format!(
            "{}; {}",
            listed(&written),
            distribution(&written)
        )),
        Figure::new(name("watch events for one policy"), Unit::Count, after - before - bookmarks)
            .at_most(10.0 * n)
            .note(format!(
                "counted by the API server, to all watchers, without {bookmarks:.0} bookmarks; watches begun: {}; kubernetes-nmstate: 5 N\u{b2}",
                watchers(&weft)?
            )),
        Figure::new(name(&format!("writes in {} s without a change", QUIET.as_secs())), Unit::Count, count(&idle)?)
            .at_most(0.0)
            .note(listed(&idle)),
    ])
}

/// A real host, by the agent's own words.
async fn record(host: &Host) -> Result<Value> {
    let pairs = (INTERFACES - 4) / 2;
    let commands: String = (0..pairs)
        .map(|pair| format!("link add card{pair}a type veth peer name card{pair}b\n"))
        .collect();
    host.ip(&commands).await?;
    let program = agent::program()?.display().to_string();
    let shown: Value = serde_json::from_str(&host.exec(&[&program, "show", "--json"]).await?)?;
    Ok(without_additions(&shown))
}

/// Node objects, which kwok keeps Ready, and the agent's pods on them.
async fn create_nodes(weft: &Installation, nodes: &[String]) -> Result<()> {
    let rest = Rest::new(weft.lab().client());
    let resources = json!({"cpu": "32", "memory": "128Gi", "pods": "500"});
    Rest::concurrently(nodes, async |name| {
        let labels = json!({
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name
        });
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": labels
        },
            "status": {"capacity": resources, "allocatable": resources}});
        rest.create("/api/v1/nodes", &node).await.map(drop)
    })
    .await?;
    // The first host has no agent: a policy for all nodes would wait for it.
    weft.lab()
        .kubectl(&["label", "node", "node-1", "kubernetes.io/os-"])
        .await?;
    wait::until_for(PATIENCE, "the agent's pods are Ready", async || {
        let set = rest
            .get("/apis/apps/v1/namespaces/nmstate/daemonsets/nmstate-handler")
            .await?
            .unwrap_or_default();
        let status = |field: &str| set["status"][field].as_u64().unwrap_or_default();
        let all = nodes.len() as u64;
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok((status("numberReady") == all && status("currentNumberScheduled") == all).then_some(()))
    })
    .await
}

async fn kubeconfigs(weft: &Installation, nodes: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let server = format!(
        "https://{}:{}",
        addresses::API_SERVER,
        addresses::API_SERVER_PORT
    );
    let control_plane = weft.lab().control_plane();
    stream::iter(nodes)
        .map(async |node| {
            let file = control_plane
                .node_kubeconfig_via(&server, agent::NAMESPACE, agent::SERVICE_ACCOUNT, node)
                .await?;
            anyhow::Ok((node.clone(), file))
        })
        .buffered(16)
        .try_collect()
        .await
}

/// The process: serves until it is killed.
pub async fn run(file: &Path) -> Result<()> {
    let fleet: Fleet = serde_json::from_slice(&std::fs::read(file)?)?;
    let mut agents = JoinSet::new();
    for (node, kubeconfig) in fleet.agents {
        let (host, changes) = Recorded::new(&fleet.record);
        let settings = Settings {
            state_dir: Path::new("/var/lib/agents").join(&node),
            node,
            namespace: agent::NAMESPACE.to_owned(),
            without_network_manager: WithoutNetworkManager::default(),
            extent: Extent::default(),
            prober: Prober {
                cluster: None,
                dns_host: DNS_HOST.to_owned(),
                window: WINDOW,
            },
        };
        agents.spawn(async move {
            let config = cluster::config(Some(&kubeconfig)).await?;
            serve(host, changes, config, settings, &Health::default()).await
        });
    }
    match agents.join_next().await {
        Some(ended) => ended?,
        None => bail!("no agents"),
    }
}

/// Writes to enactments and states since a moment.
fn writes_since(weft: &Installation, since: Timestamp) -> Result<Vec<AuditEvent>> {
    let all = writes(weft)?.into_iter();
    Ok(all
        .filter(|event| event.received >= since && is_of_a_node(event))
        .collect())
}

fn count(events: &[AuditEvent]) -> Result<f64> {
    Ok(f64::from(u32::try_from(events.len())?))
}

/// How many nodes took how many writes, and what those took that needed most.
fn distribution(events: &[AuditEvent]) -> String {
    let mut of_nodes = BTreeMap::<&str, Vec<&AuditEvent>>::new();
    for event in events {
        // An enactment is named <node>.<policy>.
        of_nodes
            .entry(event.name.split('.').next().unwrap_or_default())
            .or_default()
            .push(event);
    }
    let mut nodes = BTreeMap::<usize, usize>::new();
    for writes in of_nodes.values() {
        *nodes.entry(writes.len()).or_default() += 1;
    }
    let counts: Vec<_> = nodes
        .iter()
        .map(|(writes, nodes)| format!("{writes} by {nodes} nodes"))
        .collect();
    let most = of_nodes
        .values()
        .max_by_key(|writes| writes.len())
        .map(|writes| kinds(writes));
    format!("{}; most: {}", counts.join(", "), most.unwrap_or_default())
}

fn listed(events: &[AuditEvent]) -> String {
    kinds(&events.iter().collect::<Vec<_>>())
}

/// Of a process, in MiB.
fn resident(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
