use serde_json::json;
use weft_plan::dropped;

use super::*;

#[test]
fn a_kind_that_a_cluster_may_lack_is_served_once_its_stream_has_spoken() {
    let definitions = Source::Fact(Fact::Definitions);
    let definition = |version: u64, name: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}
        })
    };
    let mut cache = Cache::default();
    cache.expect(definitions.clone());
    cache.feed(&definitions, Change::Restarted);
    assert!(
        !cache.feed(
            &definitions,
            Change::Listed(definition(1, "widgets.example.com"))
        ),
        "nothing depends on it"
    );
    assert!(cache.feed(
        &definitions,
        Change::Listed(definition(2, "issuers.cert-manager.io"))
    ));
    cache.feed(&definitions, Change::Complete(2));
    let serves = |cache: &Cache| cache.facts().serves(kinds::ISSUER);
    assert!(
        cache.definitions().serves(kinds::ISSUER) && !serves(&cache),
        "nobody watches it yet"
    );

    let issuers = Source::Owned(kinds::ISSUER, Some("n".into()));
    cache.expect(issuers.clone());
    assert!(!cache.may_act());
    cache.silence(&issuers, Some(Silence::NotServed));
    assert!(
        cache.may_act() && cache.is_complete() && !serves(&cache),
        "the API server is not ready for it"
    );
    cache.silence(&issuers, None);
    cache.feed(&issuers, Change::Complete(2));
    assert!(cache.may_act() && serves(&cache));

    let mut going = definition(3, "issuers.cert-manager.io");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(cache.feed(&definitions, Change::Applied(going)));
    assert!(!serves(&cache));
}

#[test]
fn of_a_definition_the_cache_keeps_the_fields_that_get_lost() {
    let source = Source::Definition(kinds::NMSTATE);
    let definition = |version: u64, fields: &[&str]| {
        let properties = fields
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "string"})))
            .collect::<serde_json::Map<_, _>>();
        let schema = json!({"type": "object", "properties": properties});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": kinds::NMSTATE.definition(), "uid": "u",
                "resourceVersion": version.to_string()
            },
            "spec": {"versions": [{
                "name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}
            }]}
        })
    };
    let text: &'static str = definition(0, &["a", "b", "c"]).to_string().leak();
    let mut cache = Cache::default();
    cache.set_shipped(vec![dropped::Shipped {
        kind: kinds::NMSTATE,
        text,
    }]);
    assert_eq!(cache.shipped(), [kinds::NMSTATE]);
    cache.expect(source.clone());
    assert!(!cache.may_act() && !cache.knows_definition(kinds::NMSTATE));
    cache.silence(&source, Some(Silence::Refused("no right".to_owned())));
    assert!(cache.may_act(), "a missing right holds up nothing");
    assert!(cache.dropped().is_empty() && !cache.knows_definition(kinds::NMSTATE));
    cache.silence(&source, None);
    cache.feed(&source, Change::Restarted);
    assert!(cache.feed(&source, Change::Listed(definition(1, &["b"]))));
    cache.feed(&source, Change::Complete(1));
    assert!(cache.may_act() && cache.knows_definition(kinds::NMSTATE));
    let lost = vec!["a".to_owned(), "c".to_owned()];
    assert_eq!(cache.dropped(), [(kinds::NMSTATE, lost)]);
    assert!(
        !cache.feed(&source, Change::Applied(definition(2, &["b", "z"]))),
        "the same get lost"
    );
    assert!(cache.feed(
        &source,
        Change::Applied(definition(3, &["a", "b", "c", "z"]))
    ));
    assert!(cache.dropped().is_empty());
}

#[test]
fn news_of_the_other_streams_are_counted_without_those_of_one() {
    let (resources, pods) = (Source::Resources, Source::Owned(kinds::POD, None));
    let object = |version: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": version}
        })
    };
    let mut cache = Cache::default();
    for source in [&resources, &pods] {
        cache.expect(source.clone());
        cache.feed(source, Change::Complete(1));
    }
    let before = cache.news_besides(&resources);
    cache.feed(&resources, Change::Applied(object("2")));
    assert_eq!(cache.news_besides(&resources), before);
    assert!(cache.feed(&pods, Change::Applied(object("2"))));
    assert_eq!(cache.news_besides(&resources), before + 1);
    assert!(
        !cache.feed(&pods, Change::Applied(object("1"))),
        "it is older"
    );
    assert_eq!(cache.news_besides(&resources), before + 1);
    let refused = Some(Silence::Refused("no".to_owned()));
    for (silence, news) in [(refused.clone(), 2), (refused, 2), (None, 3)] {
        cache.silence(&pods, silence);
        assert_eq!(cache.news_besides(&resources), before + news);
    }
}

#[test]
fn a_kind_that_is_never_watched_is_served_by_its_definition() {
    let definitions = Source::Fact(Fact::Definitions);
    let metadata = json!({"name": "issuers.cert-manager.io", "uid": "u", "resourceVersion": "1"});
    let mut cache = Cache::default();
    cache.set_unwatched(vec![kinds::ISSUER]);
    cache.expect(definitions.clone());
    cache.feed(
        &definitions,
        Change::Applied(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": metadata
        })),
    );
    assert!(cache.facts().serves(kinds::ISSUER) && !cache.facts().serves(kinds::CERTIFICATE));
}

#[test]
fn forbidden_objects_are_unknown_and_hold_up_nothing() {
    let mut cache = cache();
    cache.wrote(&object(5, "a"));
    assert!(!cache.is_settled());
    assert!(cache.silence(&source(), Some(Silence::Refused("forbidden".into()))));
    assert!(
        !cache.silence(&source(), Some(Silence::Refused("forbidden".into()))),
        "that is no news"
    );
    assert!(cache.is_settled() && !cache.is_complete());
    assert_eq!(
        (known(&cache), cache.blind_to(&key())),
        (None, Some("forbidden"))
    );
    assert!(cache.silence(&source(), None));
    assert_eq!((known(&cache), cache.blind_to(&key())), (Some(5), None));
}

#[test]
fn a_selected_object_is_known_as_weft_has_written_it() {
    let source = Source::Selected(kinds::SERVICE, Some("n".into()), "held=true".into());
    let mut cache = Cache::default();
    cache.expect(source.clone());
    cache.wrote(&object(4, "a"));
    cache.feed(&source, Change::Complete(4));
    assert_eq!(
        cache.look(&source),
        Look::Known(Vec::new()),
        "only the stream knows what is chosen"
    );
    cache.feed(&source, Change::Applied(object(5, "a")));
    cache.wrote(&object(6, "a"));
    let known = |cache: &Cache| match cache.look(&source) {
        Look::Known(all) => all
            .iter()
            .map(|object| Live::of(object).resource_version())
            .collect(),
        _ => Vec::new(),
    };
    assert_eq!(known(&cache), [6]);
    // It was not chosen any more by that write.
    cache.feed(&source, Change::Deleted(object(6, "a")));
    assert_eq!(known(&cache), [0_u64; 0]);
}

#[test]
fn of_a_fact_only_the_view_is_kept_and_the_same_view_is_no_news() {
    let source = Source::Fact(Fact::Nodes);
    let node = |version: u64, runtime: &str| {
        let metadata = json!({"name": "n", "uid": "u", "resourceVersion": version.to_string()});
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": metadata,
            "status": {"nodeInfo": {"containerRuntimeVersion": runtime}, "images": ["large"]}
        })
    };
    let mut cache = Cache::default();
    cache.expect(source.clone());
    assert!(cache.feed(&source, Change::Applied(node(1, "containerd://1"))));
    assert!(
        !cache.feed(&source, Change::Applied(node(2, "containerd://1"))),
        "it is alive, which is no news"
    );
    assert!(cache.feed(&source, Change::Applied(node(3, "containerd://2"))));
    assert_eq!(cache.facts().nodes["n"].container_runtime, "containerd://2");
    assert!(
        cache.stores[&source]
            .objects
            .iter()
            .all(|(_, row)| matches!(&row.kept, Kept::View(text) if !text.contains("large")))
    );
    assert!(cache.feed(&source, Change::Deleted(node(4, "containerd://2"))));
    assert!(cache.facts().nodes.is_empty() && !cache.facts().nodes_unknown);
    cache.silence(&source, Some(Silence::Refused("forbidden".into())));
    assert!(cache.facts().nodes_unknown);
}

#[test]
fn an_input_of_one_workload_delays_reports_and_no_writes() {
    let mut cache = cache();
    cache.feed(&source(), Change::Restarted);
    cache.feed(&source(), Change::Complete(1));
    cache.expect(Source::Named(key()));
    assert!(cache.may_act() && !cache.is_settled());
    cache.silence(
        &Source::Named(key()),
        Some(Silence::Refused("no answer".into())),
    );
    assert!(cache.may_act() && cache.is_settled());
}

#[test]
fn a_watch_by_name_shows_nothing_without_permission() {
    let by_name = Source::Named(key());
    let mut cache = cache();
    assert_eq!(
        cache.by_name(&key()),
        ByName::Unknown,
        "there is no such watch"
    );
    cache.expect(by_name.clone());
    assert_eq!(
        cache.by_name(&key()),
        ByName::Unknown,
        "it has not answered yet"
    );
    cache.feed(&by_name, Change::Complete(1));
    assert_eq!(cache.by_name(&key()), ByName::Gone);
    let theirs = object(5, "a");
    cache.feed(&by_name, Change::Applied(theirs.clone()));
    assert_eq!(cache.by_name(&key()), ByName::There(Arc::new(theirs)));
    cache.silence(&by_name, Some(Silence::Refused("forbidden".into())));
    assert_eq!(cache.by_name(&key()), ByName::Unknown);
}

#[test]
fn an_object_is_going_while_a_watch_shows_its_deletion() {
    let mut cache = cache();
    assert_eq!(cache.going(&key()), None);
    cache.wrote(&object(5, "a"));
    assert_eq!(cache.going(&key()), None, "nobody deletes it");
    let mut going = object(6, "a");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    // The object after our own delete. The watch may lag behind.
    cache.wrote(&going);
    assert_eq!(cache.going(&key()), Some(Arc::new(going.clone())));
    cache.silence(&source(), Some(Silence::Refused("forbidden".into())));
    assert_eq!(cache.going(&key()), None, "no watch would show its end");
    cache.silence(&source(), None);
    cache.feed(&source(), Change::Deleted(object(7, "a")));
    assert_eq!(cache.going(&key()), None);
}

#[test]
fn another_generation_of_a_definition_is_news() {
    let definitions = Source::Fact(Fact::Definitions);
    let definition = |version: u64, generation: i64| {
        let metadata = json!({
            "name": "issuers.cert-manager.io", "uid": "u",
            "resourceVersion": version.to_string(), "generation": generation
        });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": metadata
        })
    };
    let mut cache = Cache::default();
    cache.expect(definitions.clone());
    assert_eq!(cache.definition_of(kinds::ISSUER), None);
    assert!(cache.feed(&definitions, Change::Applied(definition(1, 1))));
    assert!(
        !cache.feed(&definitions, Change::Applied(definition(2, 1))),
        "its status changed"
    );
    assert_eq!(cache.definition_of(kinds::ISSUER), Some(1));
    assert!(cache.feed(&definitions, Change::Applied(definition(3, 2))));
    assert_eq!(cache.definition_of(kinds::ISSUER), Some(2));
}

fn object(version: u64, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": "c", "uid": uid, "resourceVersion": version.to_string(),
        "labels": {OWNER_LABEL: "kind.name"}}})
}

fn source() -> Source {
    Source::Owned(kinds::CONFIG_MAP, Some("n".into()))
}

fn key() -> ObjectKey {
    ObjectKey::new(kinds::CONFIG_MAP, "n", "c")
}

fn cache() -> Cache {
    let mut cache = Cache::default();
    cache.expect(source());
    cache
}

fn known(cache: &Cache) -> Option<u64> {
    cache
        .owned(&key())
        .map(|object| Live::of(&object).resource_version())
}

#[test]
fn of_admission_only_what_another_operator_has_is_kept() {
    let source = Source::Admission(kinds::VALIDATING_WEBHOOK_CONFIGURATION);
    let hook = |version: u64, label: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": "h", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {"of": label}
        }})
    };
    let mut cache = Cache::default();
    cache.set_admission(Some(|object| {
        object["metadata"]["labels"]["of"] == "theirs"
    }));
    cache.expect(source.clone());
    cache.feed(&source, Change::Restarted);
    assert!(!cache.feed(&source, Change::Listed(hook(1, "mine"))));
    cache.feed(&source, Change::Complete(1));
    assert_eq!(cache.operators().len(), 0);
    assert!(cache.feed(&source, Change::Applied(hook(2, "theirs"))));
    assert_eq!(cache.operators().len(), 1);
    assert!(
        cache.feed(&source, Change::Applied(hook(3, "mine"))),
        "it is another one's now"
    );
    assert_eq!(cache.operators().len(), 0);
}

#[test]
fn a_list_counts_only_where_the_stream_lags_behind_it() {
    let mut cache = cache();
    cache.feed(&source(), Change::Complete(1));
    cache.feed(&source(), Change::Applied(object(5, "a")));
    cache.looked(&source(), Vec::new(), 4);
    assert_eq!(known(&cache), Some(5), "it was made after the list");
    cache.looked(&source(), vec![object(7, "b")], 8);
    assert_eq!(known(&cache), Some(7), "another object of that name");
    cache.looked(&source(), Vec::new(), 9);
    assert_eq!(known(&cache), None);
    cache.feed(&source(), Change::Deleted(object(10, "c")));
    cache.looked(&source(), vec![object(9, "c")], 9);
    assert_eq!(known(&cache), None, "it was deleted after the list");
}

#[test]
fn late_news_never_undoes_a_write_of_ours() {
    let mut cache = cache();
    cache.wrote(&object(10, "a"));
    assert!(!cache.feed(&source(), Change::Applied(object(9, "a"))));
    assert_eq!(known(&cache), Some(10));
    cache.gone(&key(), "a");
    assert!(
        !cache.feed(&source(), Change::Applied(object(10, "a"))),
        "an object that we deleted"
    );
    assert_eq!(known(&cache), None);
    cache.wrote(&object(12, "b"));
    assert!(
        !cache.feed(&source(), Change::Deleted(object(11, "a"))),
        "the end of its predecessor"
    );
    assert_eq!(known(&cache), Some(12));
    assert!(
        !cache.feed(&source(), Change::Deleted(object(11, "b"))),
        "it had lost our label, and we put it back since"
    );
    assert!(cache.feed(&source(), Change::Deleted(object(13, "b"))));
    assert_eq!(known(&cache), None);
}

#[test]
fn marks_on_objects_of_others_make_none_of_them_ours() {
    let mut theirs = object(5, "a");
    theirs["metadata"]["labels"] = json!({"a": "b"});
    let mut cache = cache();
    cache.wrote(&theirs);
    assert_eq!(known(&cache), None);
    // One that has just lost our label is known as it is, until its stream takes it away.
    cache.wrote(&object(4, "a"));
    cache.wrote(&theirs);
    assert_eq!(known(&cache), Some(5));
}

#[test]
fn a_list_brings_what_is_there_and_takes_what_is_not() {
    let mut cache = cache();
    assert!(!cache.is_complete());
    cache.feed(&source(), Change::Applied(object(1, "a")));
    cache.feed(&source(), Change::Restarted);
    assert_eq!(
        known(&cache),
        Some(1),
        "nothing is forgotten before the list is whole"
    );
    assert!(cache.feed(&source(), Change::Complete(1)));
    assert!(cache.is_complete());
    assert_eq!(known(&cache), None);
}

#[test]
fn a_list_of_restored_data_replaces_what_was_known() {
    let mut cache = cache();
    cache.feed(&source(), Change::Complete(1));
    cache.wrote(&object(90, "a"));
    cache.feed(&source(), Change::Applied(object(90, "a")));
    cache.feed(&source(), Change::Rewound);
    cache.feed(&source(), Change::Restarted);
    assert_eq!(known(&cache), Some(90), "it stays until the list is whole");
    assert!(cache.feed(&source(), Change::Listed(object(50, "a"))));
    cache.feed(&source(), Change::Complete(50));
    assert_eq!(known(&cache), Some(50));
    assert!(
        cache.feed(&source(), Change::Applied(object(51, "a"))),
        "events of the restored data count"
    );
    cache.gone(&key(), "a");
    cache.feed(&source(), Change::Rewound);
    cache.feed(&source(), Change::Restarted);
    cache.feed(&source(), Change::Listed(object(50, "a")));
    assert_eq!(known(&cache), Some(50), "an object that we deleted is back");
}

#[test]
fn only_the_identity_of_unwanted_objects_is_kept() {
    let large = |name: &str, version: u64| {
        let mut object = object(version, name);
        object["metadata"]["name"] = name.into();
        object["data"] = json!({"text": "x".repeat(SMALL)});
        object
    };
    let key = |name: &str| ObjectKey::new(kinds::CONFIG_MAP, "n", name);
    let mut cache = cache();
    cache.feed(&source(), Change::Restarted);
    assert!(cache.feed(&source(), Change::Listed(large("hostile", 1))));
    assert!(cache.feed(&source(), Change::Listed(large("weft-inventory-x", 1))));
    cache.feed(&source(), Change::Listed(object(1, "a")));
    cache.feed(&source(), Change::Complete(1));
    let size = |cache: &Cache| {
        cache.stores[&source()]
            .objects
            .iter()
            .map(|(_, row)| row.kept.size())
            .sum::<usize>()
    };
    assert!(
        size(&cache) < 2 * SMALL && cache.owned(&key("hostile")).is_none(),
        "while nothing is known, large objects are not kept"
    );
    assert!(known(&cache).is_some() && cache.owned(&key("weft-inventory-x")).is_some());
    cache.want(HashSet::from([key("wanted")]));
    assert_eq!(known(&cache), None, "nobody wants it");
    assert!(cache.feed(&source(), Change::Applied(large("wanted", 2))));
    assert!(cache.owned(&key("wanted")).is_some(), "however large it is");
    let before = size(&cache);
    assert!(cache.feed(&source(), Change::Applied(large("hostile", 3))));
    assert_eq!(size(&cache), before);
    assert!(
        !cache.feed(&source(), Change::Applied(large("hostile", 3))),
        "its version is known"
    );
}

#[test]
fn a_write_during_a_list_stays() {
    let mut cache = cache();
    cache.feed(&source(), Change::Restarted);
    cache.wrote(&object(5, "a"));
    cache.feed(&source(), Change::Complete(4));
    assert_eq!(known(&cache), Some(5));
}

#[test]
fn reports_of_pods_about_their_nodes_are_facts_and_news() {
    let pod = |version: u64, mtu: u32| {
        let message = format!(r#"{{"mtu":{mtu},"podCIDRs":[],"missingPlugins":[]}}"#);
        json!({"metadata": {
            "namespace": "n", "name": "p", "uid": "u", "resourceVersion": version.to_string()
        }, "spec": {"nodeName": "node-1"},
               "status": {
                   "initContainerStatuses": [{"state": {"terminated": {"message": message}}}]
               }})
    };
    let mut cache = Cache::default();
    cache.expect(Source::Pods);
    cache.set_host_mtu(Some(1500));
    cache.set_node_reporters(vec!["n"]);
    assert!(cache.feed(&Source::Pods, Change::Applied(pod(1, 9000))));
    assert!(!cache.feed(&Source::Pods, Change::Applied(pod(2, 9000))));
    assert_eq!(
        (
            cache.facts().cni_reports["node-1"].mtu,
            cache.facts().host_mtu
        ),
        (Some(9000), Some(1500))
    );
    assert!(cache.feed(&Source::Pods, Change::Applied(pod(3, 1400))));
    assert_eq!(cache.facts().cni_reports["node-1"].mtu, Some(1400));
    assert!(
        cache.feed(&Source::Pods, Change::Deleted(pod(4, 1400)))
            && cache.facts().cni_reports.is_empty()
    );
}

#[test]
fn pods_are_not_forgotten_before_their_list_is_whole() {
    let pod = |uid: &str| json!({"metadata": {"namespace": "n", "name": uid, "uid": uid}});
    let mut cache = Cache::default();
    cache.expect(Source::Pods);
    let mut feed = |change| cache.feed(&Source::Pods, change);
    feed(Change::Restarted);
    feed(Change::Listed(pod("a")));
    feed(Change::Listed(pod("b")));
    assert!(feed(Change::Complete(1)));
    feed(Change::Restarted);
    feed(Change::Listed(pod("b")));
    assert_eq!(
        cache.pods().count(),
        2,
        "a teardown that saw none would go on as if all had ended"
    );
    assert!(cache.feed(&Source::Pods, Change::Complete(1)));
    assert_eq!(cache.pods().count(), 1);
}
