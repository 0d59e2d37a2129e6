//! Resident memory of the agent on a host with some interfaces, and with many.

use anyhow::{Context, Result};

use super::{Reports, quiet, start_with_interfaces};
use crate::figure::{Figure, Unit};

/// Interfaces of the host, and the limit in MB (a million bytes).
const SIZES: [(usize, f64); 2] = [(50, 25.0), (1000, 80.0)];

pub async fn measure() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (interfaces, limit) in SIZES {
        let what = format!("memory of the agent, {interfaces} interfaces");
        figures.push(match measure_with(interfaces).await {
            Ok((now, peak)) => {
                let note = format!(
                    "after five changes; peak {peak:.1} MiB; kubernetes-nmstate asks for 100 MiB"
                );
                Figure::new(what, Unit::Mebibytes, now)
                    .at_most(limit * 1e6 / 1024.0 / 1024.0)
                    .note(note)
            }
            Err(error) => Figure::failed(&what, &error),
        });
    }
    Ok(figures)
}

async fn measure_with(interfaces: usize) -> Result<(f64, f64)> {
    let mut weft = start_with_interfaces(interfaces).await?;
    quiet(&weft).await?;
    {
        let host = &weft.lab().hosts()[0];
        let mut reports = Reports::of(&weft, host)?;
        host.ip("link set eth1 up\n").await?;
        for change in 1..=5 {
            host.ip(&format!("addr add 198.51.100.{change}/32 dev eth1\n"))
                .await?;
            reports
                .wait_for(&format!("\"198.51.100.{change}\""))
                .await?;
        }
    }
    let pid = weft.agent("node-1")?.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<f64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("no {name} in the status of {pid}"))?;
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes / 1024.0)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}
