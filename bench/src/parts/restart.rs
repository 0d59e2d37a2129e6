//! An operator that is stopped and started anew, while nothing has changed.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;

use crate::{
    audit,
    figure::{Figure, Unit},
    lab::{Lab, Setup},
};

pub async fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let (lab, operator) = Lab::available(setup).await?;
    lab.wait_quiet().await?;
    operator.terminate().await?;
    let since = Timestamp::now();
    let operator = lab.operator("weft-2", None).await?;
    let ready = Timestamp::now();
    lab.leads(&operator).await?;
    let leading = Timestamp::now();
    lab.wait_quiet().await?;
    let requests = lab.requests_of_operator(since)?;
    let mut verbs: BTreeMap<&str, u32> = BTreeMap::new();
    for request in requests.iter().filter(|request| !audit::is_lease(request)) {
        *verbs.entry(&request.verb).or_default() += 1;
    }
    let others: Vec<_> = requests
        .iter()
        .filter(|request| {
            !audit::is_lease(request) && !matches!(request.verb.as_str(), "list" | "watch")
        })
        .collect();
    let seen: Vec<_> = others
        .iter()
        .map(|request| format!("{} {}", request.verb, request.uri))
        .take(5)
        .collect();
    let total: u32 = verbs.values().sum();
    let note = if seen.is_empty() {
        format!("{total} requests: {verbs:?}")
    } else {
        seen.join(", ")
    };
    drop(operator);
    Ok(vec![
        Figure::new(
            "restarted: requests but lists, watches and lease",
            Unit::Count,
            f64::from(u32::try_from(others.len())?),
        )
        .at_most(0.0)
        .cnao("168 and more")
        .note(note),
        Figure::new(
            "restarted: from start to ready",
            Unit::Seconds,
            audit::seconds(since, ready),
        )
        .cnao("0.1 to 0.4 s, caches not read")
        .note(format!(
            "leads after {:.0} ms",
            audit::seconds(since, leading) * 1000.0
        )),
    ])
}
