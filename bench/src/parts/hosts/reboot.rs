//! From NetworkManager's start to a report of the networks that policies have made: by the clock of
//! this program, from the moment when NetworkManager is done, to the event of a watch.

use std::time::{Duration, Instant};

use anyhow::Result;
use weft_testenv::host_lab::Host;

use super::{Reports, available, bridge, quiet, start_with_interfaces, writes};
use crate::figure::{Figure, Unit, median_and_max};

const BRIDGE: &str = "br-bench";
/// Interfaces of the host.
const INTERFACES: usize = 20;
const ROUNDS: usize = 10;

pub async fn measure() -> Result<Vec<Figure>> {
    let weft = start_with_interfaces(INTERFACES).await?;
    weft.apply(&bridge(BRIDGE, "100%").to_string()).await?;
    available(&weft, BRIDGE).await?;
    quiet(&weft).await?;
    let host = &weft.lab().hosts()[0];
    let mut reports = Reports::of(&weft, host)?;
    reports.wait_for(BRIDGE).await?;
    let enactments = || -> Result<usize> {
        let of_enactments = |event: &&weft_testenv::AuditEvent| {
            event.resource == "nodenetworkconfigurationenactments"
        };
        Ok(writes(&weft)?.iter().filter(of_enactments).count())
    };
    let written = enactments()?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        go_down(host).await?;
        reports.wait_without(BRIDGE).await?;
        let (done, reported) = futures::try_join!(
            async {
                host.start_network_manager().await?;
                anyhow::Ok(Instant::now())
            },
            async {
                reports.wait_for(BRIDGE).await?;
                anyhow::Ok(Instant::now())
            }
        )?;
        times.push(reported.saturating_duration_since(done).as_secs_f64());
        quiet(&weft).await?;
    }
    let (median, longest) = median_and_max(&times);
    let note = format!(
        "of {ROUNDS}, the longest; median {median:.2} s; {INTERFACES} interfaces; from the end of NetworkManager's own start"
    );
    Ok(vec![
        Figure::new(
            "host rebooted: networks of policies in NodeNetworkState".to_owned(),
            Unit::Seconds,
            longest,
        )
        .at_most(1.0)
        .note(note),
        Figure::new(
            "host rebooted: writes of enactments".to_owned(),
            Unit::Count,
            (enactments()? - written) as f64,
        )
        .at_most(0.0),
    ])
}

/// Takes what a reboot takes, but for the way to the API server.
async fn go_down(host: &Host) -> Result<()> {
    host.stop_network_manager().await?;
    tokio::time::timeout(
        Duration::from_secs(10),
        host.exec(&[
            "sh",
            "-ec",
            &format!("rm -rf /run/NetworkManager/*; ip link delete {BRIDGE}"),
        ]),
    )
    .await??;
    Ok(())
}
