//! Resident memory of the operator.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;
use weft_plan::{Live, OWNER_LABEL};

use crate::{
    figure::{Figure, Unit},
    lab::{Lab, Setup},
    rest::Rest,
};

const FOREIGN: usize = 3000;
/// Large objects that bear Weft's label and that nobody wants.
const LABELLED: usize = 200;

pub async fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let (lab, operator) = Lab::with_operator(setup).await?;
    lab.wait_quiet().await?;
    let before = Memory::of(operator.pid())?;
    lab.create_config().await?;
    lab.wait_available().await?;
    lab.wait_quiet().await?;
    let full = Memory::of(operator.pid())?;
    add_foreign(&lab.rest, setup.domain.namespace).await?;
    lab.wait_quiet().await?;
    // The watch cache of the API server hands events on within a moment. A lease renewal is part of
    // life.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let after = Memory::of(operator.pid())?;
    add_labelled(&lab.rest, setup.domain.namespace).await?;
    lab.wait_quiet().await?;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let flooded = Memory::of(operator.pid())?;
    drop(operator);
    Ok(vec![
        Figure::new(
            "memory without a configuration",
            Unit::Mebibytes,
            before.resident,
        )
        .cnao("55 MiB")
        .note(before.note()),
        Figure::new(
            "memory, everything Available",
            Unit::Mebibytes,
            full.resident,
        )
        .at_most(15.0)
        .cnao("64 MiB")
        .note(full.note()),
        Figure::new(
            "memory, 3,000 foreign ConfigMaps of 10 KiB add",
            Unit::Mebibytes,
            after.resident - full.resident,
        )
        .at_most(0.5)
        .cnao("51 MiB")
        .note(after.note()),
        // The memory limits of the shipped workloads are set by the peak of this one.
        Figure::new(
            "memory, 200 ConfigMaps of 1 MB with Weft's label add",
            Unit::Mebibytes,
            flooded.resident - after.resident,
        )
        .at_most(5.0)
        .note(flooded.note()),
    ])
}

/// ConfigMaps of 1 MB in the namespace of the operands, with the label of the objects that are
/// there.
async fn add_labelled(rest: &Rest, namespace: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let ours = rest
        .get(&format!("{path}?labelSelector={OWNER_LABEL}&limit=1"))
        .await?
        .unwrap_or_default();
    let label = Live::of(&ours["items"][0])
        .label(OWNER_LABEL)
        .with_context(|| format!("no ConfigMap in {namespace} has the label {OWNER_LABEL}"))?;
    let text = "x".repeat(1_000_000);
    Rest::concurrently(0..LABELLED, async |number| {
        let metadata = json!({
            "name": format!("labelled-{number}"), "labels": {OWNER_LABEL: label}
        });
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}
        });
        rest.create(&path, &map).await.map(drop)
    })
    .await
}

/// Half of them in the namespace of the operands.
async fn add_foreign(rest: &Rest, of_operands: &str) -> Result<()> {
    let elsewhere = "elsewhere";
    rest.apply(
        &format!("/api/v1/namespaces/{elsewhere}"),
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}),
    )
    .await?;
    let text = "x".repeat(10 * 1024);
    Rest::concurrently(0..FOREIGN, async |number| {
        let namespace = if number % 2 == 0 {
            of_operands
        } else {
            elsewhere
        };
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("foreign-{number}")}, "data": {"text": text}
        });
        rest.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map)
            .await
            .map(drop)
    })
    .await
}

/// The memory of a process, in MiB.
struct Memory {
    resident: f64,
    peak: f64,
    /// Not backed by a file: heap and stacks.
    anonymous: f64,
}

impl Memory {
    /// By `/proc/PID/status`, in KiB there.
    fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| -> Result<f64> {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .with_context(|| format!("no {name} in /proc/{pid}/status"))?;
            Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
        };
        Ok(Self {
            resident: field("VmRSS")?,
            peak: field("VmHWM")?,
            anonymous: field("RssAnon")?,
        })
    }

    fn note(&self) -> String {
        format!(
            "{:.1} MiB of it anonymous; peak {:.1} MiB",
            self.anonymous, self.peak
        )
    }
}
