//! etcd is restored from a backup while the operator runs. resourceVersions go back, and all that
//! happened since the backup has not happened: the operator forgets it, makes true what the
//! restored resources ask for, and repairs what others change from then on.

mod addons;
mod cluster_network;
mod node_network;
mod placement;

use weft_testenv::{
    EtcdSnapshot,
    proxy::{Fault, Match, Proxy},
};

use weft_system_tests::*;

/// How far the lost future goes beyond the backup, at least: more than happens between the
/// restoration and the end of a test. A client that waits for a version of the lost future waits
/// for ever.
const LOST_REVISIONS: usize = 1500;

/// The part of the cluster's history that a restore from a backup discards.
struct Lost {
    /// The last resourceVersion that the restored cluster lost.
    revision: u64,
}

/// Restores the cluster from a backup. `unseen` happens afterwards, before the operator reaches the
/// API server again.
async fn restore(
    cluster: &Cluster,
    proxy: &Proxy,
    backup: &EtcdSnapshot,
    unseen: impl Future<Output = ()>,
) -> Lost {
    cluster
        .control_plane
        .spend_revisions(LOST_REVISIONS)
        .await
        .unwrap();
    let lost = Lost {
        revision: cluster.control_plane.revision().await.unwrap(),
    };
    // A load balancer sends nobody to an API server that is not ready: it would refuse with 403
    // what it has not read the roles for.
    let away = proxy.inject(Match::any(), Fault::CutBefore);
    cluster.control_plane.restore(backup).await.unwrap();
    unseen.await;
    away.remove();
    lost
}

impl Lost {
    /// Fails if the cluster has caught up with the lost future: then the test shows nothing.
    async fn assert_not_reached(&self, cluster: &Cluster) {
        let now = cluster.control_plane.revision().await.unwrap();
        assert!(
            now < self.revision,
            "revision {now} is beyond the lost {}: raise LOST_REVISIONS",
            self.revision
        );
    }
}

/// Gives all containers of a workload (`daemonset/multus`) another image.
async fn set_image(cluster: &Cluster, namespace: &str, workload: &str) {
    cluster
        .kubectl(&[
            "-n",
            namespace,
            "set",
            "image",
            workload,
            "*=example.com/other:1",
        ])
        .await;
}

/// Waits until everything is as it was at the time of the backup, and nothing else is there.
async fn wait_same(cluster: &Cluster, expected: &Snapshot) {
    wait_until("everything is as at the time of the backup", async || {
        let differences = expected.diff(&cluster.snapshot().await);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(format!("{differences:#?}"))
        }
    })
    .await;
}
