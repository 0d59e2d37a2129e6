//! From a change on the host to its NodeNetworkState: by the clock of this program, from the end of
//! `ip addr add` to the event of a watch.

use std::time::Instant;

use anyhow::Result;

use super::{Reports, quiet, start_with_interfaces};
use crate::figure::{Figure, Unit, median_and_max};

/// Interfaces of the host, changes, and the limit in seconds.
const SIZES: [(usize, usize, f64); 3] = [(20, 100, 1.0), (200, 40, 3.0), (1000, 10, 15.0)];

pub async fn measure() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (interfaces, changes, limit) in SIZES {
        let what =
            format!("host changed: visible in NodeNetworkState, p99, {interfaces} interfaces");
        let measured = measure_with(interfaces, changes).await;
        figures.push(match measured {
            Ok(mut times) => {
                times.sort_by(f64::total_cmp);
                let (median, longest) = median_and_max(&times);
                // The smallest that no more than one in a hundred exceeds.
                let p99 = times[(times.len() * 99).div_ceil(100) - 1];
                let note =
                    format!("of {changes} changes; median {median:.2} s, longest {longest:.2} s; kubernetes-nmstate looks every 60 s");
                Figure::new(what, Unit::Seconds, p99).at_most(limit).note(note)
            }
            Err(error) => Figure::failed(&what, &error),
        });
    }
    Ok(figures)
}

async fn measure_with(interfaces: usize, changes: usize) -> Result<Vec<f64>> {
    let weft = start_with_interfaces(interfaces).await?;
    quiet(&weft).await?;
    let host = &weft.lab().hosts()[0];
    let mut reports = Reports::of(&weft, host)?;
    reports.wait_for("eth0").await?;
    host.ip("link set eth1 up\n").await?;
    let mut times = Vec::new();
    for change in 1..=changes {
        let address = format!("198.51.100.{change}");
        host.ip(&format!("addr add {address}/32 dev eth1\n"))
            .await?;
        let started = Instant::now();
        reports.wait_for(&format!("\"{address}\"")).await?;
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(times)
}
