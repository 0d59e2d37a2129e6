//! Answers that are cut in the middle, and answers that are not the API server's: pages of a proxy,
//! nothing, bytes, JSON of another kind, lines of a watch that are no events. None of them is taken
//! for the state of the cluster. `in_namespaces/report.rs` has the same for the agent of a node.

use weft_plan::{Kind, kinds};
use weft_testenv::proxy::{Events, Fault, Framing, Match, Proxy, Stranger};

use crate::{
    faults::{
        all_domains::{
            self, ADDONS, DAEMON_SETS, NETWORK, all_are_well, delete_daemon_set, is_back,
            of_operator, populate, wait_ready, work,
        },
        harness::*,
        scenario::{resource, wait_same},
    },
    upgrade::populated::network_config,
};

/// So many watches an operator of all domains has at least.
const WATCHES: usize = 20;

async fn start_operator(cluster: &Cluster, proxy: &Proxy) -> Operator {
    let options = OperatorOptions {
        proxy: Some(proxy),
        // The Lease is not the subject here.
        lease_seconds: 30,
        ..Default::default()
    };
    Operator::start(cluster, options).await
}

/// The words in which the operator's log names the cause of a fault.
fn cause(fault: &Fault) -> &'static str {
    match fault {
        Fault::Stranger(Stranger::BadGateway) => "502 Bad Gateway",
        Fault::Stranger(_) => "the answer of the API server cannot be used",
        _ => "the API server cannot be reached",
    }
}

fn halves() -> [Fault; 2] {
    [Framing::Length, Framing::Chunked].map(Fault::HalfBody)
}

/// It goes on in one life, and leads all the time.
fn assert_sound(operator: &Operator) {
    let log = operator.log();
    assert!(
        !log.contains("panicked") && !log.contains("not leading"),
        "{log}"
    );
}

#[tokio::test]
async fn no_answer_of_a_stranger_is_taken_for_the_cluster() {
    let cluster = all_domains::start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = start_operator(&cluster, &proxy).await;
    populate(&cluster).await;
    let expected = cluster.snapshot().await;

    lists_and_watches(&cluster, &proxy, &operator).await;
    wait_same(&expected, &cluster, "after lists that were none").await;
    events(&cluster, &proxy).await;
    wait_same(&expected, &cluster, "after events that were none").await;
    changes(&cluster, &proxy).await;
    wait_same(&expected, &cluster, "after answers that were none").await;
    assert_sound(&operator);
    assert!(operator.terminate().await.success());

    a_start(&cluster, &proxy).await;
    wait_same(&expected, &cluster, "after a start without a list").await;
    all_are_well(&cluster).await;
}

/// All watches have to list anew, and no list is one. Then the lists are, and no watch is one.
async fn lists_and_watches(cluster: &Cluster, proxy: &Proxy, operator: &Operator) {
    let of_operator = of_operator(cluster);
    let strangers = Stranger::ALL.map(Fault::Stranger);
    let all = proxy.open_watches(&of_operator);
    assert!(all >= WATCHES, "{all}");
    let faults = strangers.into_iter().chain(halves());
    for (fault, name) in faults.zip(DAEMON_SETS.into_iter().cycle()) {
        println!("{fault:?}");
        // One that is still to open would not be expired, and show what is deleted.
        wait_until("all watches are open", async || {
            let open = proxy.open_watches(&of_operator);
            (open >= all).then_some(()).ok_or(open.to_string())
        })
        .await;
        let said = operator.log().len();
        let lists = proxy.inject(of_operator.clone().verb("list"), fault.clone());
        // A watch has no middle, so another fault keeps one from showing what is deleted.
        let of_watches = match fault {
            Fault::HalfBody(_) => Fault::Stranger(Stranger::Page),
            _ => fault.clone(),
        };
        let watches = proxy.inject(of_operator.clone().verb("watch"), of_watches);
        lists_are_answered(proxy, &of_operator).await;
        proxy.clear();
        assert!(proxy.expire_watches(&of_operator) >= WATCHES);
        let old = delete_daemon_set(cluster, name).await;
        // Nearly every kind has failed twice.
        lists.wait_hits(2 * WATCHES, PATIENCE).await.unwrap();
        let done = work(cluster, proxy);
        assert!(done.is_empty(), "{fault:?}: nothing is known: {done:#?}");
        let log = operator.log();
        assert!(log[said..].contains(cause(&fault)), "{}", &log[said..]);
        lists.remove();
        // From now on the lists show that the object is gone, and no watch begins. One of them at least
        // fails twice.
        watches.wait_hits(all + 1, PATIENCE).await.unwrap();
        watches.remove();
        is_back(cluster, name, &old).await;
        let deleted: Vec<_> = work(cluster, proxy)
            .into_iter()
            .filter(|write| write.starts_with("delete"))
            .collect();
        assert!(deleted.is_empty(), "{fault:?}: {deleted:#?}");
    }
    let log = operator.log();
    assert!(
        log.contains("the watch ended as soon as it began"),
        "a watch without a single line: {log}"
    );
}

/// Waits until each list that the operator has asked for is answered. One that began before a fault
/// could still show what is deleted next: the operator asks for lists of its own before it calls a
/// resource available.
async fn lists_are_answered(proxy: &Proxy, of_operator: &Match) {
    let lists = of_operator.clone().verb("list");
    wait_until("no list is under way", async || {
        let requests = proxy.requests();
        let open: Vec<_> = requests
            .iter()
            .filter(|one| lists.selects(&one.info) && one.code.is_none())
            .map(|one| &one.info.path)
            .collect();
        open.is_empty().then_some(()).ok_or(format!("{open:?}"))
    })
    .await;
}

/// The event of a deletion is preceded by garbage, comes in two lines, or ends in its middle.
async fn events(cluster: &Cluster, proxy: &Proxy) {
    let watches = of_operator(cluster).verb("watch").resource("daemonsets");
    let faults = [
        Fault::GarbleEvents(Events::Deleted),
        Fault::SplitEvents(Events::Deleted),
        Fault::CutEvents(Events::Deleted),
    ];
    for (fault, name) in faults.into_iter().zip(DAEMON_SETS) {
        println!("{fault:?}");
        let garbled = proxy.inject(watches.clone().times(2), fault);
        let old = delete_daemon_set(cluster, name).await;
        garbled.wait_hits(1, PATIENCE).await.unwrap();
        is_back(cluster, name, &old).await;
        garbled.remove();
    }
}

/// While a component and a network go and come back, the first answers of each sort are none.
async fn changes(cluster: &Cluster, proxy: &Proxy) {
    let strangers = [Fault::Stranger(Stranger::Object)];
    let without: Vec<_> = ADDONS
        .into_iter()
        .filter(|line| !line.starts_with("linuxBridge"))
        .collect();
    for fault in strangers.into_iter().chain(halves()) {
        println!("{fault:?}");
        let sorts = ["patch", "delete", "create", "list", "get"];
        let injected = sorts.map(|verb| {
            let first = of_operator(cluster).verb(verb).times(2);
            (verb, proxy.inject(first, fault.clone()))
        });
        cluster.apply(&resource(&without)).await;
        cluster.apply(&network_config("lab")).await;
        all_are_well(cluster).await;
        gone(cluster, kinds::DAEMON_SET, "bridge-marker").await;
        for (verb, fault) in &injected {
            if ["patch", "delete", "list"].contains(verb) {
                assert_eq!(fault.hits(), 2, "{verb}");
            }
            fault.remove();
        }
        cluster.apply(&resource(&ADDONS)).await;
        cluster.apply(&network_config(NETWORK)).await;
        all_are_well(cluster).await;
    }
}

async fn gone(cluster: &Cluster, kind: Kind, name: &str) {
    wait_until(&format!("{kind} {name} is gone"), async || {
        match cluster.get(kind, NAMESPACE, name).await {
            None => Ok(()),
            Some(live) => Err(format!("{:#}", live["metadata"])),
        }
    })
    .await;
}

/// An operator starts while every list is empty, and is none.
async fn a_start(cluster: &Cluster, proxy: &Proxy) {
    let of_operator = of_operator(cluster);
    proxy.clear();
    let lists = proxy.inject(
        of_operator.verb("list"),
        Fault::Stranger(Stranger::EmptyList),
    );
    let operator = start_operator(cluster, proxy).await;
    operator.wait_leading().await;
    lists.wait_hits(2 * WATCHES, PATIENCE).await.unwrap();
    assert_eq!(operator.http("/readyz").await.0, 503, "nothing is known");
    lists.remove();
    wait_ready(&operator).await;
    all_are_well(cluster).await;
    let done = work(cluster, proxy);
    assert!(done.is_empty(), "nothing was to be done: {done:#?}");
    assert_sound(&operator);
}
