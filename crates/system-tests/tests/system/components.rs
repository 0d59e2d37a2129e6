//! A component that is no longer wanted goes, and only that one.

use serde_json::json;
use weft_plan::{Inventory, OWNER_LABEL, ObjectKey, kinds};

use weft_system_tests::*;

const INVENTORY: &str = "weft-inventory-networkaddonsconfig-cluster";

#[tokio::test]
async fn a_removed_component_goes_alone_and_comes_again_and_nothing_stale_stays() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let (whole, uids) = (cluster.snapshot().await, all_uids(&cluster).await);

    // Removal.
    let of_ovs = of_unit(&cluster, "ovs").await;
    assert!(of_ovs.len() >= 4, "{of_ovs:?}");
    cluster.patch_resource(json!({"spec": {"ovs": null}})).await;
    let resource = cluster.wait_available().await;
    for key in &of_ovs {
        assert_eq!(
            get(&cluster, key).await,
            None,
            "{} is gone by the time that status says so",
            key.human()
        );
    }
    assert!(
        of_unit(&cluster, "ovs").await.is_empty(),
        "the inventory names it no longer"
    );
    assert!(
        !resource["status"].to_string().contains("ovs"),
        "nor does status: {:#}",
        resource["status"]
    );
    let after = all_uids(&cluster).await;
    let touched: Vec<_> = uids
        .iter()
        .filter(|(key, uid)| !of_ovs.contains(key) && after.get(key) != Some(uid))
        .collect();
    assert!(touched.is_empty(), "made anew: {touched:?}");
    let notes = [
        INVENTORY,
        "cluster-networks-addons-operator-applied-cluster",
        "NetworkAddonsConfig",
    ];
    let others: Vec<_> = whole
        .diff(&cluster.snapshot().await)
        .into_iter()
        .filter(|line| !line.contains("ovs") && !notes.iter().any(|note| line.contains(note)))
        .collect();
    assert!(others.is_empty(), "{others:#?}");

    // And back.
    cluster.patch_resource(json!({"spec": {"ovs": {}}})).await;
    cluster.wait_available().await;
    let mut again = cluster.snapshot().await;
    // kubectl's Update entry on the resource is the test's own.
    let writers = again
        .objects
        .get_mut("NetworkAddonsConfig cluster")
        .unwrap()["metadata"]["writers"]
        .as_array_mut()
        .unwrap();
    writers.retain(|writer| writer != "somebody Update");
    assert_same(&whole, &again, "removed and added again");

    // A name of an earlier version: the inventory still holds it, the components do not.
    let stale = ObjectKey::new(
        kinds::CONFIG_MAP,
        NAMESPACE,
        "multus-config-of-an-earlier-version",
    );
    let owner = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .unwrap()["metadata"]["ownerReferences"]
        .clone();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {
        "name": stale.name, "namespace": NAMESPACE,
        "labels": {OWNER_LABEL: "networkaddonsconfig.cluster"}, "ownerReferences": owner
    }});
    cluster.apply(&object.to_string()).await;
    // Of the same inventory, but never Weft's: it must stay.
    let foreign = ObjectKey::new(kinds::CONFIG_MAP, NAMESPACE, "somebody-elses");
    cluster
        .apply(
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": foreign.name, "namespace": NAMESPACE}
            })
            .to_string(),
        )
        .await;
    let mut inventory = inventory(&cluster).await;
    for key in [&stale, &foreign] {
        inventory.objects.insert(key.clone(), "multus".to_owned());
    }
    cluster
        .patch(
            kinds::CONFIG_MAP,
            NAMESPACE,
            INVENTORY,
            json!({"data": inventory.to_data()}),
        )
        .await;
    wait_until(
        "the stale object is gone and the inventory is clean",
        async || {
            let listed = self::inventory(&cluster).await.objects;
            let there = get(&cluster, &stale).await.is_some();
            if !there && !listed.contains_key(&stale) && !listed.contains_key(&foreign) {
                Ok(())
            } else {
                Err(format!("there: {there}, listed: {listed:?}"))
            }
        },
    )
    .await;
    assert!(
        get(&cluster, &foreign).await.is_some(),
        "an object that is not Weft's was deleted"
    );
    cluster.wait_available().await;
}

async fn inventory(cluster: &Cluster) -> Inventory {
    let map = cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, INVENTORY)
        .await
        .expect("the inventory");
    Inventory::from_data(&map["data"]).unwrap()
}

async fn of_unit(cluster: &Cluster, unit: &str) -> Vec<ObjectKey> {
    inventory(cluster)
        .await
        .objects
        .into_iter()
        .filter(|(_, of)| of == unit)
        .map(|(key, _)| key)
        .collect()
}

async fn get(cluster: &Cluster, key: &ObjectKey) -> Option<serde_json::Value> {
    cluster
        .get(
            key.kind,
            key.namespace.as_deref().unwrap_or_default(),
            &key.name,
        )
        .await
}

/// The uid of everything that the inventory lists.
pub async fn all_uids(cluster: &Cluster) -> std::collections::BTreeMap<ObjectKey, String> {
    let mut uids = std::collections::BTreeMap::new();
    for key in inventory(cluster).await.objects.into_keys() {
        let live = get(cluster, &key)
            .await
            .unwrap_or_else(|| panic!("{} is listed and not there", key.human()));
        uids.insert(key, live["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    uids
}
