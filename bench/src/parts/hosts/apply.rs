//! A change of one host by the agent's transaction (checkpoint, probes, ports, journal, history),
//! next to nmstate itself with the same change, and the processes that the agent starts for a
//! policy.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_agent::{
    host::{ApplyOptions, DNS_HOST, Host, Machine},
    probes::{Prober, WINDOW},
    state_dir::StateDir,
    transaction::{Change, Done, Transactor},
};
use weft_node_network::desired::Desired;
use weft_testenv::host_lab::HostLab;

use super::{available, bridge, start};
use crate::figure::{Figure, Unit, median_and_max};

const ROUNDS: u8 = 10;

/// Seconds of each change.
#[derive(Serialize, Deserialize)]
struct Times {
    nmstate: Vec<f64>,
    transaction: Vec<f64>,
    probes: Vec<String>,
}

pub async fn measure() -> Result<Vec<Figure>> {
    let overhead = overhead()
        .await
        .unwrap_or_else(|error| Figure::failed("apply", &error));
    let processes = processes()
        .await
        .unwrap_or_else(|error| Figure::failed("processes that the agent starts", &error));
    Ok(vec![overhead, processes])
}

async fn overhead() -> Result<Figure> {
    let lab = HostLab::builder().hosts(1).start().await?;
    let host = &lab.hosts()[0];
    // With lo and three cards, 16 interfaces.
    let pairs: String = (0..6)
        .map(|pair| format!("link add card{pair}a type veth peer name card{pair}b\n"))
        .collect();
    host.ip(&pairs).await?;
    // This program itself: nothing but a network namespace can be entered from within.
    let mut inside = host.start_program(&std::env::current_exe()?, &["--on-host"], &[])?;
    let status = inside.wait(Duration::from_secs(300))?;
    let output = std::fs::read_to_string(inside.log())?;
    if !status.success() {
        bail!("{status}: {output}");
    }
    let times: Times = serde_json::from_str(output.lines().last().unwrap_or_default())
        .with_context(|| output.clone())?;
    let ((nmstate, _), (transaction, longest)) = (
        median_and_max(&times.nmstate),
        median_and_max(&times.transaction),
    );
    let note = format!(
        "an address, 16 interfaces, median of {ROUNDS}: transaction {transaction:.3} s (longest {longest:.3} s), nmstate {nmstate:.3} s; probes: {}",
        times.probes.join(", ")
    );
    Ok(Figure::new(
        "apply: more than nmstate itself takes",
        Unit::Seconds,
        transaction - nmstate,
    )
    .at_most(0.3)
    .note(note))
}

/// Runs on the host: it makes the same kind of change in turns, by nmstate and by the agent's
/// transaction.
pub async fn on_host() -> Result<()> {
    let (machine, _changes) = Machine::start()?;
    let host: Arc<dyn Host> = Arc::new(machine);
    let transactor = Transactor {
        host: host.clone(),
        dir: StateDir::open(Path::new("/var/lib/weft-agent"))?,
        prober: Prober {
            cluster: None,
            dns_host: DNS_HOST.to_owned(),
            window: WINDOW,
        },
    };
    let address = |last: u8| {
        let ipv4 = json!({
            "enabled": true, "dhcp": false,
            "address": [{"ip": format!("198.51.100.{last}"), "prefix-length": 24}]
        });
        let state = json!({
            "interfaces": [
                {
                    "name": "eth1", "type": "ethernet", "state": "up", "ipv4": ipv4,
                    "ipv6": {"enabled": false}
                }
            ]
        });
        Desired::read(&state).map_err(|error| anyhow::anyhow!("{error}"))
    };
    let mut times = Times {
        nmstate: vec![],
        transaction: vec![],
        probes: vec![],
    };
    // The first one makes the connection. It is not counted.
    for round in 0..=ROUNDS {
        let minute = Duration::from_secs(60);
        let options = ApplyOptions {
            commit: true,
            checkpoint: minute,
            verify: true,
            memory_only: false,
            limit: minute,
        };
        let started = Instant::now();
        host.apply(address(2 * round + 1)?, options).await?;
        times.nmstate.push(started.elapsed().as_secs_f64());

        let change = Change {
            desired: address(2 * round + 2)?,
            what: "bench".to_owned(),
            ..Change::default()
        };
        let started = Instant::now();
        let done = transactor
            .run(change)
            .await
            .map_err(|failure| anyhow::anyhow!("{failure}"))?;
        times.transaction.push(started.elapsed().as_secs_f64());
        let Done::Changed { probes, .. } = done else {
            bail!("nothing was changed")
        };
        times.probes = probes;
    }
    times.nmstate.remove(0);
    times.transaction.remove(0);
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}

async fn processes() -> Result<Figure> {
    let mut weft = start(HostLab::builder().hosts(1)).await?;
    for name in ["br-a", "br-b", "br-c"] {
        weft.apply(&bridge(name, "100%").to_string()).await?;
        available(&weft, name).await?;
    }
    let pid = weft.agent("node-1")?.pid();
    // proc_pid_stat(5): field 11 is the number of minor page faults of children that were waited
    // for. Each process has some.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let faults: f64 = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .nth(8)
        .context("no field 11")?
        .parse()?;
    let mut running = 0_u32;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let children = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        running += u32::try_from(children.split_whitespace().count())?;
    }
    let some = if faults > 0.0 { 1.0 } else { 0.0 };
    let note = "three policies; page faults of ended children, and children that run: none means none; kubernetes-nmstate: 13";
    Ok(Figure::new(
        "processes that the agent starts",
        Unit::Count,
        f64::from(running) + some,
    )
    .at_most(0.0)
    .note(note))
}
