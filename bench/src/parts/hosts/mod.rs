//! The nodes' networks, on hosts with a real NetworkManager each and with the agents' release
//! binary.

pub mod apply;
pub mod fleet;
pub mod freshness;
pub mod idle;
pub mod memory;
pub mod reboot;
mod recorded;
pub mod traffic;

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use weft_plan::Live;
use weft_testenv::AuditEvent;
use weft_testenv::host_lab::{Host, HostLab, HostLabBuilder, Installation};

use crate::wait;

/// Weft with agents on hosts whose state is reported.
pub async fn start(builder: HostLabBuilder) -> Result<Installation> {
    let weft = Installation::start(builder).await?;
    for host in weft.lab().hosts() {
        wait::until("the host reports", async || {
            let state = weft.get("nns", host.name()).await?.unwrap_or_default();
            Ok(state["status"]["currentState"]["interfaces"]
                .is_array()
                .then_some(()))
        })
        .await?;
    }
    Ok(weft)
}

/// One host, with this many interfaces in all: its cards, and pairs of veth that NetworkManager
/// takes for cards.
pub async fn start_with_interfaces(interfaces: usize) -> Result<Installation> {
    let weft = Installation::without_agents(HostLab::builder().hosts(1)).await?;
    let host = &weft.lab().hosts()[0];
    // lo, eth0, eth1, eth2
    let pairs = interfaces.saturating_sub(4) / 2;
    let commands: String = (0..pairs)
        .map(|pair| format!("link add card{pair}a type veth peer name card{pair}b\n"))
        .collect();
    host.ip(&commands).await?;
    let name = host.name().to_owned();
    let mut weft = weft;
    weft.start_agent(&name).await?;
    let least = interfaces - 1;
    let reported = wait::until_for(
        Duration::from_secs(300),
        "all interfaces are reported",
        async || {
            let state = weft.get("nns", &name).await?.unwrap_or_default();
            let count = state["status"]["currentState"]["interfaces"]
                .as_array()
                .map_or(0, Vec::len);
            Ok((count >= least).then_some(count))
        },
    );
    reported.await?;
    Ok(weft)
}

/// A watch of one host's NodeNetworkState.
pub struct Reports {
    stream: Pin<Box<dyn Stream<Item = Result<Value>> + Send>>,
}

impl Reports {
    /// Counts from now on.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn of(weft: &Installation, host: &Host) -> Result<Self> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", host.name()));
        let events = watcher::watcher(weft.api("nns")?, config);
        let stream = events.filter_map(async |event| match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                Some(serde_json::to_value(object).map_err(Into::into))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error.into())),
        });
        Ok(Self {
            stream: stream.boxed(),
        })
    }

    /// Takes reports until one has this text in the state.
    ///
    /// # Errors
    /// None has, for two minutes.
    pub async fn wait_for(&mut self, text: &str) -> Result<()> {
        let has = |state: &str| state.contains(text);
        self.wait(has)
            .await
            .with_context(|| format!("{text} is not reported"))
    }

    /// Takes reports until one lacks this text in the state.
    ///
    /// # Errors
    /// None does, for two minutes.
    pub async fn wait_without(&mut self, text: &str) -> Result<()> {
        let lacks = |state: &str| !state.contains(text);
        self.wait(lacks)
            .await
            .with_context(|| format!("{text} is still reported"))
    }

    async fn wait(&mut self, is_it: impl Fn(&str) -> bool) -> Result<()> {
        let wait = async {
            while let Some(object) = self.stream.next().await {
                if is_it(&object?["status"]["currentState"].to_string()) {
                    return Ok(());
                }
            }
            bail!("the watch has ended")
        };
        tokio::time::timeout(Duration::from_secs(120), wait)
            .await
            .context("not within two minutes")?
    }
}

/// The agents' and the operator's writes to objects of nmstate.io so far.
pub fn writes(weft: &Installation) -> Result<Vec<AuditEvent>> {
    let events = weft.lab().control_plane().audit_events()?;
    Ok(events
        .into_iter()
        .filter(|event| {
            event.group == "nmstate.io" && event.is_write() && event.user != weft_testenv::ADMIN
        })
        .collect())
}

/// Returns true if a write is about one node: to its enactments or to its state. Policies and
/// NMState are about all nodes together.
pub fn is_of_a_node(event: &AuditEvent) -> bool {
    ["nodenetworkconfigurationenactments", "nodenetworkstates"].contains(&&*event.resource)
}

/// Waits until nothing was written for three seconds, longer than any debouncing.
pub async fn quiet(weft: &Installation) -> Result<()> {
    let mut before = usize::MAX;
    wait::until("nothing is written", async || {
        let now = writes(weft)?.len();
        if now == before {
            return Ok(Some(()));
        }
        before = now;
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(None)
    })
    .await
}

/// A policy for all nodes: a bridge without ports, which every kernel can do.
pub fn bridge(name: &str, max_unavailable: &str) -> Value {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
        "spec": {"maxUnavailable": max_unavailable, "desiredState": {"interfaces": [{"name": name, "type": "linux-bridge", "state": "up",
            "ipv4": {"enabled": false}, "ipv6": {"enabled": false}, "bridge": {
                "options": {"stp": {"enabled": false}}, "port": []
            }}]}},
    })
}

/// Lets all nodes be changed at once: by default half of them may, whatever a policy says.
pub async fn without_limit(weft: &Installation) -> Result<()> {
    weft.patch(
        "nmstate",
        "nmstate",
        &json!({"spec": {"maxUnavailable": "100%"}}),
    )
    .await
    .map(drop)
}

/// Waits until a policy is Available in its latest generation.
pub async fn available(weft: &Installation, policy: &str) -> Result<()> {
    let mut last = Value::Null;
    let found = wait::until("the policy is Available", async || {
        let object = weft.get("nncp", policy).await?.unwrap_or_default();
        let conditions = object["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is =
            |condition: &Value| condition["type"] == "Available" && condition["status"] == "True";
        let holds = conditions.iter().any(|condition| {
            is(condition) && condition["observedGeneration"] == Live::of(&object).generation()
        });
        last = object["status"].clone();
        Ok(holds.then_some(()))
    })
    .await;
    found.with_context(|| format!("{last:#}"))
}
