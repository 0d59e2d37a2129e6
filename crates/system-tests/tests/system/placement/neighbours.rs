//! PlacementAPIs in many namespaces of one operator.

use serde_json::json;

use super::{everywhere, site::Site};
use weft_system_tests::*;

/// How many other namespaces have a PlacementAPI.
const OTHERS: usize = 8;
/// After so many looks at the same figure, the operator counts as idle.
const LOOKS: usize = 10;

/// How many reconciles of PlacementAPIs there were. Returns once there are no more of them.
async fn reconciles(operator: &Operator) -> f64 {
    let (mut before, mut looks) = (0.0, 0);
    wait_until("the operator is idle", async || {
        let now = operator.metric("weft_passes_total").await;
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
        (looks == LOOKS)
            .then_some(now)
            .ok_or_else(|| format!("{now} reconciles"))
    })
    .await
}

/// Creates a PlacementAPI that lacks its database.
async fn comes(site: &Site<'_>) {
    site.placement(json!({
        "databaseInstance": null, "databaseAccount": null, "secret": null,
        "auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}}
    }))
    .await;
    site.wait_is("InputReady", "False").await;
}

/// How many reconciles it takes for a PlacementAPI to come and to go.
async fn come_and_go(cluster: &Cluster, operator: &Operator, namespace: &str) -> f64 {
    let site = Site::new(cluster, namespace).await;
    let before = reconciles(operator).await;
    comes(&site).await;
    site.delete().await;
    site.wait_gone().await;
    reconciles(operator).await - before
}

#[tokio::test]
async fn a_placement_api_leads_to_no_reconcile_in_other_namespaces() {
    let cluster = Cluster::start(everywhere()).await;
    let operator = Operator::start_default(&cluster).await;
    let alone = come_and_go(&cluster, &operator, "first").await;
    assert!(alone > 0.0);
    for index in 0..OTHERS {
        comes(&Site::new(&cluster, &format!("other-{index}")).await).await;
    }
    let among_others = come_and_go(&cluster, &operator, "last").await;
    // Changes at the same time lead to one reconcile, so the figures vary a little.
    assert!(
        among_others <= 2.0 * alone,
        "{alone} reconciles alone, {among_others} next to {OTHERS} other namespaces"
    );
}
