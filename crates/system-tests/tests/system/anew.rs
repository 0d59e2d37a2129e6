//! Fields that nobody can change in place: what somebody has made with other ones is recreated.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::{Kind, kinds};
use weft_testenv::proxy::{Match, Proxy};

use crate::system::{components::all_uids, harness::*, install::passes};

#[tokio::test]
async fn an_object_with_an_immutable_change_is_recreated_and_no_other() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let (before, uids) = (cluster.snapshot().await, all_uids(&cluster).await);

    // Restored by somebody from a copy of an older version, say: everything is right, Weft's label
    // too, but for these fields.
    operator.kill();
    let others = json!({"app": "multus-of-old"});
    let daemon_set = made_otherwise(&cluster, kinds::DAEMON_SET, "multus", |live| {
        live["spec"]["selector"] = json!({"matchLabels": others});
        live["spec"]["template"]["metadata"]["labels"] = others.clone();
    })
    .await;
    let binding = made_otherwise(&cluster, kinds::CLUSTER_ROLE_BINDING, "multus", |live| {
        live["roleRef"]["name"] = json!("view")
    })
    .await;

    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    wait_until("both are made anew", async || {
        for (kind, uid) in [
            (kinds::DAEMON_SET, &daemon_set),
            (kinds::CLUSTER_ROLE_BINDING, &binding),
        ] {
            let live = cluster
                .get(kind, NAMESPACE, "multus")
                .await
                .ok_or(format!("{kind} is gone"))?;
            if live["metadata"]["uid"] == *uid {
                return Err(format!("{kind} is the one that somebody made"));
            }
        }
        Ok(())
    })
    .await;
    // The earlier status may remain for a moment, because the cluster's controllers write last.
    cluster.wait_same(&before, "made anew").await;
    cluster.wait_available().await;
    assert!(
        cluster
            .snapshot()
            .await
            .objects
            .keys()
            .eq(before.objects.keys()),
        "nothing else is there"
    );

    assert_eq!(
        work(&proxy),
        ["clusterrolebindings multus", "daemonsets multus"]
            .map(str::to_owned)
            .into(),
        "nothing else is written"
    );
    let after = all_uids(&cluster).await;
    let new: BTreeSet<_> = uids
        .iter()
        .filter(|(key, uid)| after[key] != **uid)
        .map(|(key, _)| key.human())
        .collect();
    let expected = [
        "ClusterRoleBinding multus",
        "DaemonSet cluster-network-addons/multus",
    ];
    assert_eq!(
        new,
        expected.map(str::to_owned).into(),
        "nothing else is made anew"
    );
    for write in proxy
        .writes()
        .iter()
        .filter(|write| write.info.subresource == "status")
    {
        let said: Value = serde_json::from_slice(&write.body).unwrap();
        assert_eq!(
            condition(&said["status"], "Degraded")["status"],
            "False",
            "nothing is wrong: {said:#}"
        );
    }

    // And that was that.
    assert!(operator.terminate().await.success());
    proxy.clear();
    let operator = Operator::start_via(&cluster, &proxy).await;
    wait_until("a pass", async || {
        passes(&operator)
            .await
            .gt(&0.0)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    assert_eq!(work(&proxy), BTreeSet::new());
}

/// Returns the objects that were written to, except for status.
fn work(proxy: &Proxy) -> BTreeSet<String> {
    let writes = proxy.writes().into_iter().map(|write| write.info);
    let work =
        writes.filter(|info| Match::any().writes().selects(info) && info.subresource != "status");
    work.map(|info| format!("{} {}", info.resource, info.name))
        .collect()
}

/// Deletes an object and makes it again with something changed, as another user. Returns its new
/// uid.
async fn made_otherwise(
    cluster: &Cluster,
    kind: Kind,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> String {
    let mut object = cluster.get(kind, NAMESPACE, name).await.unwrap();
    cluster.delete(kind, NAMESPACE, name).await;
    wait_until(&format!("{kind} {name} is gone"), async || {
        match cluster.get(kind, NAMESPACE, name).await {
            None => Ok(()),
            Some(live) => Err(format!("{live:#}")),
        }
    })
    .await;
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    object.as_object_mut().unwrap().remove("status");
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| !matches!(field.as_str(), "uid" | "resourceVersion" | "managedFields"));
    change(&mut object);
    cluster
        .control_plane
        .kubectl_with_input(&["create", "-f", "-"], &object.to_string())
        .await
        .unwrap();
    let live = cluster.get(kind, NAMESPACE, name).await.unwrap();
    live["metadata"]["uid"].as_str().unwrap().to_owned()
}
