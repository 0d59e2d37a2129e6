//! The view of a monitoring system on a PlacementAPI.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::{
    NAMESPACE, everywhere, placement_api, site::Site, standalone, start, wait_condition, wait_ready,
};
use weft_system_tests::*;

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
    let created = wait_until("it is told when it was made", async || {
        sample(&operator, "weft_placement_created_timestamp_seconds")
            .await
            .ok_or("not yet".to_owned())
    })
    .await;
    assert_eq!(
        sample(&operator, "weft_placement_ready_timestamp_seconds").await,
        None
    );

    super::database(&cluster, "p").await;
    let live = wait_ready(&cluster, "watched").await;
    wait_sample(&operator, "weft_placement_ready", Some(1.0)).await;
    let since = wait_until("it is told since when it is ready", async || {
        sample(&operator, "weft_placement_ready_timestamp_seconds")
            .await
            .ok_or("not yet".to_owned())
    })
    .await;
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

/// Each reconcile of a PlacementAPI changes its status, so waking all of them for a change of one
/// would cost their number squared.
#[tokio::test]
async fn a_change_of_one_placement_api_wakes_no_other_namespace() {
    const NAMESPACES: usize = 12;
    const CHANGES: i64 = 10;
    let cluster = Cluster::start(everywhere()).await;
    let operator = Operator::start_default(&cluster).await;
    let namespaces: Vec<String> = (0..NAMESPACES)
        .map(|number| format!("site-{number}"))
        .collect();
    let object: Value = serde_json::from_str(&placement_api("watched", &standalone())).unwrap();
    for namespace in &namespaces {
        Site::new(&cluster, namespace)
            .await
            .put(object.clone())
            .await;
    }
    let wait_observed = async |namespace: &str, generation: i64| {
        wait_until(
            &format!("{namespace} has observed generation {generation}"),
            async || {
                let live = cluster
                    .get(kinds::PLACEMENT_API, namespace, "watched")
                    .await
                    .unwrap();
                let message = condition(&live["status"], "InputReady")["message"].to_string();
                if live["status"]["observedGeneration"] == generation
                    && message.contains("placement-db")
                {
                    Ok(())
                } else {
                    Err(live["status"].to_string())
                }
            },
        )
        .await;
    };
    for namespace in &namespaces {
        wait_observed(namespace, 1).await;
    }
    let before = operator.metric("weft_pass_seconds_count").await;
    for generation in 2..2 + CHANGES {
        let more = json!({"spec": {"replicas": generation % 2}});
        cluster
            .patch(kinds::PLACEMENT_API, &namespaces[0], "watched", more)
            .await;
        wait_observed(&namespaces[0], generation).await;
    }
    let passes = operator.metric("weft_pass_seconds_count").await - before;
    // A change takes a few, and each namespace may still see its own status.
    assert!(passes < 100.0, "{passes} reconciles");
}
