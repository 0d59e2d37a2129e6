//! The view of a monitoring system on a PlacementAPI.

use weft_plan::kinds;

use super::{NAMESPACE, placement_api, standalone, start, wait_condition, wait_ready};
use crate::harness::*;

/// A sample of the PlacementAPI `watched`, if it is there.
async fn sample(operator: &Operator, metric: &str) -> Option<f64> {
    let (_, _, text) = operator.http("/metrics").await;
    let line = format!("{metric}{{namespace=\"{NAMESPACE}\",name=\"watched\"}} ");
    text.lines()
        .find_map(|sample| sample.strip_prefix(&line)?.parse().ok())
}

async fn wait_sample(operator: &Operator, metric: &str, value: Option<f64>) {
    wait_until(&format!("{metric} is {value:?}"), async || {
        let found = sample(operator, metric).await;
        if found == value {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn metrics_tell_of_each_placement_api() {
    let cluster = start().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .apply(&placement_api("watched", &standalone()))
        .await;
    wait_condition(
        &cluster,
        "watched",
        "InputReady",
        "False",
        "secret/placement-db",
    )
    .await;
    wait_sample(&operator, "weft_placement_ready", Some(0.0)).await;
    let created = sample(&operator, "weft_placement_created_timestamp_seconds")
        .await
        .unwrap();
    assert_eq!(
        sample(&operator, "weft_placement_ready_timestamp_seconds").await,
        None
    );

    super::database(&cluster, "p").await;
    let live = wait_ready(&cluster, "watched").await;
    wait_sample(&operator, "weft_placement_ready", Some(1.0)).await;
    let since = sample(&operator, "weft_placement_ready_timestamp_seconds")
        .await
        .unwrap();
    let told: jiff::Timestamp = condition(&live["status"], "Ready")["lastTransitionTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(format!("{since}"), told.as_second().to_string());
    assert!(since >= created, "{created} {since}");
    assert!(operator.metric("weft_pass_seconds_count").await > 0.0);
    assert!(operator.metric("weft_pass_seconds_sum").await < 60.0);

    cluster
        .delete(kinds::PLACEMENT_API, NAMESPACE, "watched")
        .await;
    for metric in [
        "weft_placement_ready",
        "weft_placement_created_timestamp_seconds",
        "weft_placement_ready_timestamp_seconds",
    ] {
        wait_sample(&operator, metric, None).await;
    }
}
