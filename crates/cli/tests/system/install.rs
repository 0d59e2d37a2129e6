//! Installing: from an example to Available.

use crate::harness::*;

#[tokio::test]
async fn smoke() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster.install(&example("network-addons-config.yaml")).await;
    let before = cluster.snapshot().await;
    println!("{:#?}", before.objects.keys().collect::<Vec<_>>());
    println!("{:#}", before.objects["NetworkAddonsConfig cluster"]);
    cluster.kubectl(&["delete", "networkaddonsconfig", "cluster"]).await;
    println!("{:#?}", cluster.leftovers().await);
    drop(operator);
}
