//! Metrics of each PlacementAPI: what placement-operator leaves to whoever reads its status.

use std::{collections::HashMap, sync::Arc};
use weft_plan::{Live, condition, kinds, text};

use jiff::Timestamp;
use serde_json::Value;
use weft_placement::conditions::READY;
use weft_runtime::metrics::{Labels, Metrics, Readiness};

/// Sets them as these PlacementAPIs are, which are all of the namespace.
pub fn set(metrics: &Metrics, domain: &'static str, namespace: &str, resources: &[Arc<Value>]) {
    metrics.readiness(
        domain,
        kinds::PLACEMENT_API,
        Some(namespace),
        resources.iter().map(|resource| Readiness::of(resource)),
    );
    let (mut ready, mut created, mut since) = (HashMap::new(), HashMap::new(), HashMap::new());
    for resource in resources {
        let name = Live::of(resource).name().to_owned();
        let labels: Labels = vec![("namespace", namespace.to_owned()), ("name", name)];
        created.extend(
            seconds(Live::of(resource).created().unwrap_or_default())
                .map(|at| (labels.clone(), at)),
        );
        let now = condition(&resource["status"], READY).filter(|ready| ready["status"] == "True");
        since.extend(
            now.and_then(|ready| seconds(text(ready, "lastTransitionTime")))
                .map(|at| (labels.clone(), at)),
        );
        ready.insert(labels, i64::from(now.is_some()));
    }
    let gauges = [
        (
            "weft_placement_ready",
            "1 while the PlacementAPI is Ready",
            ready,
        ),
        (
            "weft_placement_created_timestamp_seconds",
            "When the PlacementAPI was made",
            created,
        ),
        (
            "weft_placement_ready_timestamp_seconds",
            "Since when the PlacementAPI has been Ready",
            since,
        ),
    ];
    for (name, help, values) in gauges {
        metrics.set_where(
            name,
            help,
            |labels| {
                labels
                    .iter()
                    .any(|(label, value)| *label == "namespace" && value == namespace)
            },
            values,
        );
    }
}

/// Parses a timestamp into seconds since 1970.
fn seconds(time: &str) -> Option<i64> {
    time.parse::<Timestamp>().ok().map(Timestamp::as_second)
}
