//! Watches that lag, lose events, end or begin late.

use std::collections::BTreeSet;

use kube::api::WatchParams;
use serde_json::{Value, json};
use weft_addons::{Addons, settings::Settings};
use weft_plan::{Domain, Kind, OWNER_LABEL, kinds};
use weft_testenv::proxy::{Events, Fault, Match, Proxy, Recorded};

use crate::faults::{
    harness::{Cluster, NAMESPACE, OPERATOR_USER, Operator, PATIENCE, condition, wait_until},
    history::History,
    placement::{self, SPACE},
    scenario::{FULL, Step, is_exhaustive, resource, wait_same},
    site::{NAME, Site},
};

/// The kinds of Weft's objects. Not the namespace: the operator lives in it, and none that others
/// would have to install.
fn kinds_of_objects() -> Vec<Kind> {
    let kinds = Addons::new(Settings::default()).kinds();
    kinds
        .into_iter()
        .filter(|kind| *kind != kinds::NAMESPACE && !kind.is_optional())
        .collect()
}

fn of_operator() -> Match {
    Match::any().user(OPERATOR_USER)
}

/// One of Weft's objects of a kind that a component needs.
async fn an_object(cluster: &Cluster, kind: Kind) -> String {
    let all = cluster
        .api(kind, NAMESPACE)
        .list(&kube::api::ListParams::default().labels(OWNER_LABEL))
        .await
        .unwrap();
    let mut names = all
        .items
        .into_iter()
        .filter_map(|object| object.metadata.name);
    // Weft's own notes are no component's.
    names
        .find(|name| !name.starts_with("weft-inventory-") && !name.contains("-applied-"))
        .unwrap_or_else(|| panic!("a {kind} of Weft's"))
}

async fn uid(cluster: &Cluster, kind: Kind, name: &str) -> Option<Value> {
    let object = cluster.get(kind, NAMESPACE, name).await?;
    object["metadata"]["deletionTimestamp"]
        .is_null()
        .then(|| object["metadata"]["uid"].clone())
}

/// Waits until there is another object of this name.
async fn wait_back(cluster: &Cluster, kind: Kind, name: &str, old: &Option<Value>) {
    wait_until(&format!("{kind} {name} is back"), async || {
        match uid(cluster, kind, name).await {
            now if now.is_some() && now != *old => Ok(()),
            now => Err(format!(
                "{now:?}\n{:#}",
                cluster.get(kind, NAMESPACE, name).await.unwrap_or_default()
            )),
        }
    })
    .await;
}

/// Another generation that leads to the same objects: status has to be written.
async fn touch(cluster: &Cluster) {
    let asked = cluster.resource().await.unwrap()["spec"]["nmstate"].is_object();
    cluster
        .patch_resource(json!({"spec": {"nmstate": if asked { Value::Null } else { json!({}) }}}))
        .await;
}

#[tokio::test]
async fn the_tests_own_watches_go_on_after_their_end() {
    let cluster = Cluster::start_default().await;
    let params = WatchParams::default().timeout(1);
    let history = History::begin_with(&cluster, &[kinds::CONFIG_MAP], &params).await;
    history.wait_renewed(4).await;
    cluster.apply(&resource(&FULL)).await;
    history.wait_for(&cluster.resource().await.unwrap()).await;
}

#[tokio::test]
async fn a_watch_that_lags_makes_no_liar() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    let expected = cluster.snapshot().await;
    let kinds = kinds_of_objects();
    let history = History::begin(&cluster, &kinds).await;
    for (round, kind) in kinds.iter().copied().enumerate() {
        let name = an_object(&cluster, kind).await;
        let old = uid(&cluster, kind, &name).await;
        println!("{kind} {name}");
        let held = proxy.inject(
            of_operator().verb("watch").resource(kind.plural),
            Fault::HoldEvents(Events::All),
        );
        cluster.delete(kind, NAMESPACE, &name).await;
        held.wait_hits(1, PATIENCE).await.unwrap();
        // A definition stays for a moment after its deletion. An operator that sees it then rightly
        // waits for the watch. An operator that still looks at the cluster, because of the round
        // before, may have created another one already.
        cluster
            .wait_gone(kind, NAMESPACE, &name, &old.clone().unwrap())
            .await;
        // No event has reported the deletion to the operator. The new generation makes it write
        // status, and it looks at the cluster before it does.
        touch(&cluster).await;
        let resource = wait_until(
            "it is repaired, or status says that nothing is to be repaired",
            async || {
                let resource = cluster.resource().await.unwrap();
                let claims = resource["status"]["observedGeneration"]
                    == resource["metadata"]["generation"]
                    && condition(&resource["status"], "Available")["status"] == "True";
                let back = uid(&cluster, kind, &name).await.is_some();
                if claims || back {
                    Ok(resource)
                } else {
                    Err(format!("{:#}", resource["status"]))
                }
            },
        )
        .await;
        history.wait_for(&resource).await;
        history.assert_honest(&format!("{kind} {name}")).await;
        wait_back(&cluster, kind, &name, &old).await;
        held.remove();
        history.wait_for(&cluster.wait_available().await).await;
        history.assert_honest(&format!("{kind} {name}")).await;
        assert!(history.claims() > round, "status was written");
    }
    if kinds.len() % 2 == 1 {
        touch(&cluster).await;
        cluster.wait_available().await;
    }
    wait_same(&expected, &cluster, "when all watches go on").await;
}

/// As for the other resources: an object that is gone is restored before status says Ready.
#[tokio::test]
async fn a_watch_that_lags_makes_no_placement_api_ready() {
    let cluster = Cluster::start(placement::options()).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let site = Site::new(&cluster, SPACE).await;
    placement::prepare(&site, &placement::ALONE).await;
    placement::Step::Install.begin(&site).await;
    site.wait_ready().await;
    let objects = [
        (kinds::SERVICE, "placement-internal".to_owned()),
        (kinds::SERVICE_ACCOUNT, format!("placement-{NAME}")),
        (kinds::SECRET, format!("{NAME}-config-data")),
    ];
    for (round, (kind, name)) in objects.iter().enumerate() {
        println!("{kind} {name}");
        let of_kind = Match::any().user(&cluster.operator_user()).verb("watch");
        let held = proxy.inject(
            of_kind.resource(kind.plural),
            Fault::HoldEvents(Events::All),
        );
        let old = site.get(*kind, name).await.unwrap()["metadata"]["uid"].clone();
        cluster.delete(*kind, SPACE, name).await;
        held.wait_hits(1, PATIENCE).await.unwrap();
        cluster.wait_gone(*kind, SPACE, name, &old).await;
        // No event has reported the deletion. The new generation leads to the same objects, so all
        // that the operator has to write is status.
        site.patch(json!({"spec": {"preserveJobs": round % 2 == 0}}))
            .await;
        site.wait_ready().await;
        assert!(site.get(*kind, name).await.is_some(), "{kind} {name}");
        held.remove();
    }
}

#[tokio::test]
async fn lost_events_and_ended_watches_are_made_up_for() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    let expected = cluster.snapshot().await;
    let kinds = kinds_of_objects();
    let history = History::begin(&cluster, &kinds).await;
    let watches = of_operator().verb("watch");
    for how in ["lost and expired", "expired", "closed"] {
        println!("{how}");
        let lost = (how == "lost and expired")
            .then(|| proxy.inject(watches.clone(), Fault::DropEvents(Events::Deleted)));
        let end = || {
            if how == "closed" {
                proxy.close_watches(&watches)
            } else {
                proxy.expire_watches(&watches)
            }
        };
        if lost.is_none() {
            // The watches break while the deletions happen.
            end();
        }
        proxy.clear();
        let mut deleted = Vec::new();
        for kind in kinds.iter().copied() {
            let name = an_object(&cluster, kind).await;
            let old = uid(&cluster, kind, &name).await;
            cluster.delete(kind, NAMESPACE, &name).await;
            deleted.push((kind, name, old));
        }
        if let Some(lost) = lost {
            lost.wait_hits(deleted.len(), PATIENCE).await.unwrap();
            lost.remove();
        }
        end();
        for (kind, name, old) in &deleted {
            cluster
                .wait_gone(*kind, NAMESPACE, name, &old.clone().unwrap())
                .await;
            wait_back(&cluster, *kind, name, old).await;
        }
        history.wait_for(&cluster.wait_available().await).await;
        history.assert_honest(how).await;
        wait_same(&expected, &cluster, how).await;
        if how == "closed" {
            let lists = proxy
                .requests()
                .iter()
                .filter(|one| of_operator().verb("list").selects(&one.info) && is_first_page(one))
                .count();
            assert_eq!(lists, 0, "a watch that was only cut goes on where it was");
        }
    }
}

/// A watch's own list, not one of those that confirm what status is about to claim.
fn is_first_page(request: &Recorded) -> bool {
    request.info.query.contains("limit=")
}

#[tokio::test]
async fn nothing_is_done_before_everything_is_known() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.install(&resource(&FULL)).await;
    let expected = cluster.snapshot().await;
    wait_until("it is ready", async || {
        if operator.http("/readyz").await.0 == 200 {
            Ok(())
        } else {
            Err("no".into())
        }
    })
    .await;
    let listed = lists(&proxy);
    assert!(listed.len() > kinds_of_objects().len(), "{listed:?}");
    let sample = [
        "clusterroles",
        "configmaps",
        "networkaddonsconfigs",
        "pods",
        "secrets",
        "serviceaccounts",
    ];
    let delayed: Vec<_> = listed
        .iter()
        .filter(|(resource, _)| is_exhaustive() || sample.contains(&resource.as_str()))
        .collect();
    operator.terminate().await;

    for (index, (resource, namespace)) in delayed.iter().enumerate() {
        println!("{resource} {namespace}");
        // At last there is something to do, too.
        let missing = (index + 1 == delayed.len()).then_some("multus");
        if let Some(name) = missing {
            cluster.delete(kinds::DAEMON_SET, NAMESPACE, name).await;
        }
        proxy.clear();
        let held = proxy.inject(
            of_operator()
                .verb("list")
                .resource(resource)
                .namespace(namespace),
            Fault::Hold,
        );
        let operator = Operator::start_via(&cluster, &proxy).await;
        held.wait_hits(1, PATIENCE).await.unwrap();
        operator.wait_leading().await;
        // The operator does not ask for objects in another place, because it does not know the
        // workloads yet.
        let by_name = |name: &str| name == "secrets";
        let all_others = listed
            .iter()
            .filter(|one| *one != &(resource.clone(), namespace.clone()) && !by_name(&one.0))
            .count();
        wait_until("everything else is listed", async || {
            let seen = lists(&proxy).len();
            if seen >= all_others {
                Ok(())
            } else {
                Err(format!("{seen} of {all_others}"))
            }
        })
        .await;
        if !by_name(resource) {
            let writes: Vec<_> = proxy
                .writes()
                .into_iter()
                .filter(|write| of_operator().writes().selects(&write.info))
                .collect();
            assert!(writes.is_empty(), "{resource} are not known: {writes:#?}");
        }
        assert_eq!(
            operator.http("/readyz").await.0,
            503,
            "{resource} are not known"
        );
        held.remove();
        wait_until("it is ready", async || {
            if operator.http("/readyz").await.0 == 200 {
                Ok(())
            } else {
                Err("no".into())
            }
        })
        .await;
        if let Some(name) = missing {
            wait_back(&cluster, kinds::DAEMON_SET, name, &None).await;
        }
        operator.terminate().await;
        let writes: Vec<_> = proxy
            .writes()
            .into_iter()
            .filter(|write| of_operator().writes().selects(&write.info))
            .collect();
        assert!(
            missing.is_some() || writes.is_empty(),
            "nothing was to be done: {writes:#?}"
        );
    }
    let _operator = Operator::start_via(&cluster, &proxy).await;
    wait_same(&expected, &cluster, "at last").await;
}

/// Returns the complete lists of the operator's watches so far: resource and namespace.
fn lists(proxy: &Proxy) -> BTreeSet<(String, String)> {
    let requests = proxy.requests();
    let answered = requests.iter().filter(|one| {
        of_operator().verb("list").selects(&one.info) && is_first_page(one) && one.delivered
    });
    answered
        .map(|one| (one.info.resource.clone(), one.info.namespace.clone()))
        .collect()
}

/// A replica that takes over with an old view of Weft's own notes must not write over what the one
/// before it had noted.
#[tokio::test]
async fn a_new_leader_forgets_nothing_that_the_last_one_noted() {
    let cluster = Cluster::start_default().await;
    let (proxy, others) = (
        Proxy::start(&cluster.control_plane).await.unwrap(),
        Proxy::start(&cluster.control_plane).await.unwrap(),
    );
    let leader = Operator::start_briefly_via(&cluster, &others).await;
    leader.wait_leading().await;
    cluster.apply(&resource(&["multus: {}"])).await;
    cluster.wait_available().await;
    let next = Operator::start_briefly_via(&cluster, &proxy).await;
    wait_until("the next one is warm", async || {
        if next.http("/readyz").await.0 == 200 {
            Ok(())
        } else {
            Err("no".into())
        }
    })
    .await;

    let held = proxy.inject(
        of_operator().verb("watch").resource("configmaps"),
        Fault::HoldEvents(Events::All),
    );
    cluster.apply(&resource(&["multus: {}", "ovs: {}"])).await;
    cluster.wait_available().await;
    held.wait_hits(1, PATIENCE).await.unwrap();
    leader.kill();
    cluster
        .apply(&resource(&["multus: {}", "linuxBridge: {}"]))
        .await;
    next.wait_leading().await;
    cluster.wait_available().await;
    assert!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
            .await
            .is_none(),
        "the last leader made it, and nobody wants it"
    );
    held.remove();
    Step::Delete.begin(&cluster).await;
    Step::Delete.finish(&cluster).await;
}

/// Nor may it act on an old specification: it would make again what the one before it had removed.
#[tokio::test]
async fn a_new_leader_acts_on_the_newest_specification() {
    let cluster = Cluster::start_default().await;
    let (proxy, others) = (
        Proxy::start(&cluster.control_plane).await.unwrap(),
        Proxy::start(&cluster.control_plane).await.unwrap(),
    );
    let leader = Operator::start_briefly_via(&cluster, &others).await;
    leader.wait_leading().await;
    cluster.apply(&resource(&["multus: {}", "ovs: {}"])).await;
    cluster.wait_available().await;
    let next = Operator::start_briefly_via(&cluster, &proxy).await;
    wait_until("the next one is warm", async || {
        if next.http("/readyz").await.0 == 200 {
            Ok(())
        } else {
            Err("no".into())
        }
    })
    .await;

    let held = proxy.inject(
        of_operator().verb("watch").resource("networkaddonsconfigs"),
        Fault::HoldEvents(Events::All),
    );
    cluster.apply(&resource(&["multus: {}"])).await;
    cluster.wait_available().await;
    held.wait_hits(1, PATIENCE).await.unwrap();
    leader.kill();
    // Something that only a leader puts right.
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    next.wait_leading().await;
    wait_until("multus is back", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "multus")
            .await
            .map(drop)
            .ok_or("gone".into())
    })
    .await;
    held.remove();
    cluster.wait_available().await;
    let made = proxy
        .writes()
        .into_iter()
        .map(|write| write.info.name)
        .filter(|name| name.starts_with("ovs-cni"))
        .collect::<Vec<_>>();
    assert!(made.is_empty(), "nobody wants these any more: {made:?}");
}
