//! Nothing happens on three hosts that have a policy: what agents and operator write, and ask for.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use weft_testenv::host_lab::HostLab;

use super::{available, bridge, quiet, start, writes};
use crate::{
    audit,
    figure::{Figure, Unit},
};

pub async fn measure(seconds: u32) -> Result<Vec<Figure>> {
    let weft = start(HostLab::builder().hosts(3)).await?;
    weft.apply(&bridge("br-idle", "100%").to_string()).await?;
    available(&weft, "br-idle").await?;
    quiet(&weft).await?;
    let since = Timestamp::now();
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let written = writes(&weft)?
        .into_iter()
        .filter(|event| event.received >= since)
        .count();
    let all = weft.lab().control_plane().audit_events()?;
    let ours = all.iter().filter(|event| {
        event.received >= since && event.user.starts_with("system:serviceaccount:nmstate:")
    });
    // A watch is ended by the server after some minutes, and begun again.
    let requests: Vec<_> = ours
        .filter(|event| !audit::is_lease(event) && event.verb != "watch")
        .collect();
    let seen: Vec<_> = requests
        .iter()
        .map(|event| format!("{} {}", event.verb, audit::path(event)))
        .collect();
    Ok(vec![
        Figure::new(
            format!("nothing changes on 3 hosts for {seconds} s: writes"),
            Unit::Count,
            count(written),
        )
        .at_most(0.0),
        Figure::new(
            format!(
                "nothing changes on 3 hosts for {seconds} s: requests but watches and the lease"
            ),
            Unit::Count,
            count(requests.len()),
        )
        .at_most(0.0)
        .note(seen.join(", ")),
    ])
}

#[allow(clippy::cast_precision_loss)] // a few
fn count(number: usize) -> f64 {
    number as f64
}
