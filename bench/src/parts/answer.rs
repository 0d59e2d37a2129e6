//! A configuration is changed: until status speaks of the change for the first time.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    audit,
    figure::{Figure, Unit, median_and_max},
    lab::{Lab, Setup},
};

pub async fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let (lab, operator) = Lab::available(setup).await?;
    let mut times = Vec::new();
    for policy in ["IfNotPresent", "Always", "Never", "Always", "IfNotPresent"] {
        lab.wait_quiet().await?;
        let since = Timestamp::now();
        lab.patch_config(&json!({"spec": {"imagePullPolicy": policy}}))
            .await?;
        lab.wait_available().await?;
        let patch = lab
            .requests_of_admin(since)?
            .into_iter()
            .find(|event| event.verb == "patch");
        let requests = lab.requests_of_operator(since)?;
        let first = requests
            .iter()
            .filter(|event| event.subresource == "status")
            .min_by_key(|event| event.answered);
        times.push(audit::seconds(
            audit::first_received(&patch)?,
            audit::last_answered(first)?,
        ));
    }
    drop(operator);
    let (median, max) = median_and_max(&times);
    Ok(vec![
        Figure::new(
            "changed: to the first word in status",
            Unit::Seconds,
            median,
        )
        .at_most(0.1)
        .note(format!(
            "median of {}, longest {:.0} ms",
            times.len(),
            max * 1000.0
        )),
    ])
}
