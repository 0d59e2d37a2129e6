//! Assumptions of the engine about the API server, each shown on a real one. If a version of
//! Kubernetes answers differently, a test fails here first, with the name of the assumption.

use kube::Client;
use serde_json::{Value, json};
use weft_plan::{ObjectKey, Owner, kinds, take_patch};
use weft_runtime::api_server::cluster::{Cluster, Error};
use weft_testenv::ControlPlane;

const ME: &str = "weft/test";
const THEM: &str = "somebody";

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::CONFIG_MAP, "default", name)
}

fn map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": data
    })
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .expect("resourceVersions are numbers")
}

fn code(result: Result<impl std::fmt::Debug, Error>) -> u16 {
    match result.unwrap_err() {
        Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

fn owner() -> Owner {
    Owner {
        kind: kinds::NETWORK_ADDONS_CONFIG,
        name: "cluster".into(),
        uid: None,
        manager: ME.into(),
    }
}

#[tokio::test]
async fn the_api_server_does_what_the_engine_relies_on() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let cluster = Cluster::new(control_plane.client());
    an_apply_that_changes_nothing_is_no_write(&cluster).await;
    additions_go_once_their_ownership_is_ours(&cluster).await;
    elements_of_lists_too(&cluster).await;
    an_apply_for_a_certain_object_makes_no_other(&cluster).await;
    a_write_on_old_knowledge_is_refused(&cluster).await;
    an_apply_of_what_must_be_new_takes_nothing(&cluster).await;
    versions_of_a_kind_grow(&cluster).await;
    a_watch_by_label_calls_the_loss_of_the_label_a_deletion(&cluster, control_plane.client()).await;
}

async fn an_apply_that_changes_nothing_is_no_write(cluster: &Cluster) {
    let body = map("same", json!({"a": "1"}));
    let first = cluster.apply(&key("same"), &body, ME).await.unwrap();
    let second = cluster.apply(&key("same"), &body, ME).await.unwrap();
    assert_eq!(
        version(&first),
        version(&second),
        "an apply that changes nothing keeps the resourceVersion"
    );
}

async fn additions_go_once_their_ownership_is_ours(cluster: &Cluster) {
    let body = map("added", json!({"a": "1"}));
    cluster.apply(&key("added"), &body, ME).await.unwrap();
    let added = json!({"metadata": {"labels": {"theirs": "1"}}, "data": {"b": "2"}});
    cluster
        .merge_patch(&key("added"), "", &added, THEM)
        .await
        .unwrap();
    let kept = cluster.apply(&key("added"), &body, ME).await.unwrap();
    assert_eq!(
        kept["data"],
        json!({"a": "1", "b": "2"}),
        "an apply alone leaves what others added"
    );

    let taken = cluster
        .merge_patch(&key("added"), "", &take_patch(&kept, &owner(), false), ME)
        .await
        .unwrap();
    assert_eq!(
        taken["data"], kept["data"],
        "moving ownership changes no content"
    );
    let clean = cluster.apply(&key("added"), &body, ME).await.unwrap();
    assert_eq!(
        clean["data"],
        json!({"a": "1"}),
        "what is ours and not applied goes"
    );
    assert_eq!(
        clean["metadata"]["labels"],
        json!({"theirs": "1"}),
        "what is theirs by right stays"
    );
    let again = cluster.apply(&key("added"), &body, ME).await.unwrap();
    assert_eq!(version(&clean), version(&again));
}

async fn elements_of_lists_too(cluster: &Cluster) {
    let key = ObjectKey::new(kinds::DAEMON_SET, "default", "d");
    let body = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {
        "name": "d", "namespace": "default"
    }, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]
            }
        }}});
    let first = cluster.apply(&key, &body, ME).await.unwrap();
    let added = json!({"spec": {"template": {"spec": {"containers": [
        {
            "name": "c", "image": "i",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
        }, {"name": "side", "image": "i"}]}}}});
    let live = cluster.merge_patch(&key, "", &added, THEM).await.unwrap();
    assert_eq!(live["metadata"]["generation"], 2);
    cluster
        .merge_patch(&key, "", &take_patch(&live, &owner(), false), ME)
        .await
        .unwrap();
    let clean = cluster.apply(&key, &body, ME).await.unwrap();
    assert_eq!(
        clean["spec"], first["spec"],
        "containers and environment variables that others added go"
    );
}

async fn an_apply_for_a_certain_object_makes_no_other(cluster: &Cluster) {
    let mut body = map("gone", json!({"a": "1"}));
    let first = cluster.apply(&key("gone"), &body, ME).await.unwrap();
    let uid = first["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        cluster
            .delete(&key("gone"), "00000000-0000-0000-0000-000000000000")
            .await
            .unwrap(),
        None
    );
    assert!(
        cluster.get(&key("gone")).await.unwrap().is_some(),
        "a deletion with another uid deletes nothing"
    );
    assert_eq!(cluster.delete(&key("gone"), &uid).await.unwrap(), None);
    assert!(cluster.get(&key("gone")).await.unwrap().is_none());
    body["metadata"]["uid"] = uid.into();
    assert_eq!(
        code(cluster.apply(&key("gone"), &body, ME).await),
        409,
        "a uid in the body keeps an apply from creating"
    );
    assert!(cluster.get(&key("gone")).await.unwrap().is_none());
}

async fn a_write_on_old_knowledge_is_refused(cluster: &Cluster) {
    let first = cluster
        .apply(&key("old"), &map("old", json!({"a": "1"})), ME)
        .await
        .unwrap();
    cluster
        .merge_patch(&key("old"), "", &json!({"data": {"a": "2"}}), THEM)
        .await
        .unwrap();
    let stale = json!({
        "metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"a": "3"}
    });
    assert_eq!(
        code(cluster.merge_patch(&key("old"), "", &stale, ME).await),
        409,
        "a merge patch with an old resourceVersion"
    );
    assert_eq!(
        code(cluster.replace(&key("old"), &first, ME).await),
        409,
        "a PUT with an old resourceVersion"
    );
    let mut apply = map("old", json!({"a": "3"}));
    apply["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"].clone();
    assert_eq!(
        code(cluster.apply(&key("old"), &apply, ME).await),
        409,
        "an apply with an old resourceVersion, force or not"
    );
    assert_eq!(
        cluster.get(&key("old")).await.unwrap().unwrap()["data"]["a"],
        "2"
    );
}

async fn an_apply_of_what_must_be_new_takes_nothing(cluster: &Cluster) {
    cluster
        .create(&key("theirs"), &map("theirs", json!({"a": "1"})), THEM)
        .await
        .unwrap();
    assert_eq!(
        code(
            cluster
                .create(&key("theirs"), &map("theirs", json!({"a": "1"})), ME)
                .await
        ),
        409
    );
    assert_eq!(
        code(
            cluster
                .apply_new(&key("theirs"), &map("theirs", json!({"a": "1"})), ME)
                .await
        ),
        409,
        "the same contents"
    );
    assert_eq!(
        code(
            cluster
                .apply_new(&key("theirs"), &map("theirs", json!({"b": "2"})), ME)
                .await
        ),
        409,
        "fields that nobody has"
    );
    assert_eq!(
        cluster.get(&key("theirs")).await.unwrap().unwrap()["data"],
        json!({"a": "1"})
    );

    let new = cluster
        .apply_new(&key("new"), &map("new", json!({"a": "1"})), ME)
        .await
        .unwrap();
    assert!(
        version(&new) > 1,
        "no object has the version that stands for none"
    );
    assert_eq!(new["metadata"]["managedFields"][0]["operation"], "Apply");
    assert_eq!(
        code(
            cluster
                .apply_new(&key("new"), &map("new", json!({"a": "1"})), ME)
                .await
        ),
        409
    );
    // Another storage strategy, and one that other paths of the API server serve.
    let role = ObjectKey::new(kinds::CLUSTER_ROLE, "", "new");
    let body = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "new"}, "rules": []
    });
    cluster.apply_new(&role, &body, ME).await.unwrap();
    assert_eq!(code(cluster.apply_new(&role, &body, ME).await), 409);
    let definition = ObjectKey::new(kinds::CUSTOM_RESOURCE_DEFINITION, "", "things.example.org");
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Cluster", "names": {
                "plural": "things", "kind": "Thing"
            },
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}
                }
            ],
        },
    });
    cluster.apply_new(&definition, &body, ME).await.unwrap();
    assert_eq!(code(cluster.apply_new(&definition, &body, ME).await), 409);
}

async fn versions_of_a_kind_grow(cluster: &Cluster) {
    let mut last = 0;
    for n in 0..5 {
        let object = cluster
            .apply(
                &key("grows"),
                &map("grows", json!({"n": n.to_string()})),
                ME,
            )
            .await
            .unwrap();
        assert!(version(&object) > last);
        last = version(&object);
    }
    let (items, list) = cluster
        .list_metadata(kinds::CONFIG_MAP, Some("default"), "")
        .await
        .unwrap();
    assert!(
        list >= last && items.iter().all(|item| version(item) <= list),
        "a list is as new as its newest object"
    );
}

/// The deletion is as new as the write that removed the label, so that a store can distinguish it
/// from an older one.
async fn a_watch_by_label_calls_the_loss_of_the_label_a_deletion(
    cluster: &Cluster,
    client: Client,
) {
    use futures::TryStreamExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, WatchEvent, WatchParams};

    let mut body = map("labelled", json!({"a": "1"}));
    body["metadata"]["labels"] = json!({"ours": "yes"});
    let applied = cluster.apply(&key("labelled"), &body, ME).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let since = applied["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = maps
        .watch(
            &WatchParams::default()
                .labels("ours=yes")
                .disable_bookmarks(),
            since,
        )
        .await
        .unwrap();
    let mut watch = std::pin::pin!(watch);
    let unlabelled = cluster
        .merge_patch(
            &key("labelled"),
            "",
            &json!({"metadata": {"labels": {"ours": null}}}),
            THEM,
        )
        .await
        .unwrap();
    let Some(WatchEvent::Deleted(lost)) = watch.try_next().await.unwrap() else {
        panic!("a deletion")
    };
    assert_eq!(
        lost.metadata
            .resource_version
            .unwrap()
            .parse::<u64>()
            .unwrap(),
        version(&unlabelled)
    );
    let labelled = cluster.apply(&key("labelled"), &body, ME).await.unwrap();
    let Some(WatchEvent::Added(_)) = watch.try_next().await.unwrap() else {
        panic!("an addition")
    };
    cluster
        .delete(
            &key("labelled"),
            labelled["metadata"]["uid"].as_str().unwrap(),
        )
        .await
        .unwrap();
    let Some(WatchEvent::Deleted(gone)) = watch.try_next().await.unwrap() else {
        panic!("a deletion")
    };
    assert!(
        gone.metadata
            .resource_version
            .unwrap()
            .parse::<u64>()
            .unwrap()
            > version(&labelled),
        "newer than the last write"
    );
}
