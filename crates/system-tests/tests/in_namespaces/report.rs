//! The agent's writes about a host, on a real API server. The host is a network namespace without
//! NetworkManager.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use nmstate::NetworkState;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weft_agent::{
    cluster,
    health::Health,
    host::{
        ApplyOptions, Backend, Changes, Host, HostError, Machine, Peer, Port, Query, Retrieved,
        Seen, Silence, WithoutNetworkManager,
    },
    probes::Prober,
    process,
    settings::{Extent, Settings},
    state_dir::StateDir,
};
use weft_node_network::desired::Desired;
use weft_testenv::namespace::{Namespace, ip, ip_batch};
use weft_testenv::{
    ControlPlane, Lent,
    proxy::{Events, Fault, Framing, Match, Proxy, Stranger},
    wait::wait_within,
};

const NODE: &str = "node-1";
const PATIENCE: Duration = Duration::from_secs(90);

/// A control plane with a node, and an agent for it.
struct Site {
    cluster: Lent,
    /// Between agent and API server.
    proxy: Proxy,
    namespace: Namespace,
    state_dir: tempfile::TempDir,
    agent: Option<JoinHandle<()>>,
}

impl Site {
    async fn start() -> Self {
        let cluster = ControlPlane::builder().nodes(1).lend().await.unwrap();
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        for kind in ["nodenetworkstates", "nodenetworkconfigurationenactments"] {
            let file = definitions.join(format!("{kind}.nmstate.io.yaml"));
            cluster
                .kubectl(&["apply", "--server-side", "-f", &file.display().to_string()])
                .await
                .unwrap();
            let resource = format!("{kind}.nmstate.io");
            wait_within(PATIENCE, &format!("{resource} is served"), async || {
                let found = cluster.kubectl(&["get", &resource]).await;
                found.map(drop).map_err(|error| error.to_string())
            })
            .await;
        }
        let proxy = Proxy::start(&cluster).await.unwrap();
        let mut site = Self {
            cluster,
            proxy,
            namespace: Namespace::new(),
            state_dir: tempfile::tempdir().unwrap(),
            agent: None,
        };
        site.start_agent(Extent::default()).await;
        site
    }

    async fn start_agent(&mut self, extent: Extent) {
        let (host, changes) = self.namespace.run(|| Machine::start().unwrap());
        self.start_agent_on(Arc::new(host), changes, extent).await;
    }

    async fn start_agent_on(&mut self, host: Arc<dyn Host>, changes: Changes, extent: Extent) {
        let config = cluster::config(Some(self.proxy.kubeconfig()))
            .await
            .unwrap();
        let prober = Prober {
            cluster: None,
            dns_host: "example.org".to_owned(),
            window: Duration::from_secs(5),
        };
        let state_dir = self.state_dir.path().to_owned();
        let settings = Settings {
            node: NODE.to_owned(),
            namespace: "nmstate".to_owned(),
            state_dir,
            without_network_manager: WithoutNetworkManager::default(),
            extent,
            prober,
        };
        self.agent = Some(tokio::spawn(async move {
            process::serve(host, changes, config, settings, &Health::default())
                .await
                .unwrap();
        }));
    }

    /// As when its process is killed: nothing is finished.
    async fn stop_agent(&mut self) {
        let agent = self.agent.take().unwrap();
        agent.abort();
        assert!(
            agent.await.unwrap_err().is_cancelled(),
            "the agent has failed"
        );
    }

    async fn object(&self) -> Option<Value> {
        let text = self
            .cluster
            .kubectl(&["get", "nns", NODE, "--ignore-not-found", "-o", "json"])
            .await
            .unwrap();
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    /// The object, once this holds for it.
    async fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_within(PATIENCE, what, async || {
            let object = self.object().await.unwrap_or_default();
            if holds(&object) {
                Ok(object)
            } else {
                Err(format!("{object:#}"))
            }
        })
        .await
    }

    /// Requests about NodeNetworkStates that are no watch and come from the agent, in order.
    fn requests(&self) -> Vec<String> {
        let events = self.cluster.audit_events().unwrap().into_iter();
        let of_agent = events.filter(|event| {
            event.resource == "nodenetworkstates" && !event.user_agent.contains("kubectl")
        });
        of_agent
            .filter(|event| event.verb != "watch")
            .map(|event| format!("{} {} {}", event.verb, event.subresource, event.code))
            .collect()
    }

    /// Waits until the agent has asked for nothing for five seconds: longer than any debouncing.
    async fn quiet(&self) -> Vec<String> {
        let mut before = self.requests();
        let deadline = Instant::now() + PATIENCE;
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let now = self.requests();
            if now == before {
                return now;
            }
            assert!(
                Instant::now() < deadline,
                "it never becomes quiet: {now:#?}"
            );
            before = now;
        }
    }
}

fn interface(object: &Value, name: &str) -> Value {
    let interfaces = object["status"]["currentState"]["interfaces"].as_array();
    interfaces
        .into_iter()
        .flatten()
        .find(|interface| interface["name"] == name)
        .cloned()
        .unwrap_or_default()
}

fn condition(object: &Value, of_type: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == of_type)
        .cloned()
        .unwrap_or_default()
}

/// A policy of the operator for a node without NetworkManager. A reboot leaves no bridge, and the
/// agent brings it back when it starts.
#[tokio::test]
async fn through_the_kernel_a_policy_is_applied_and_again_after_a_reboot() {
    let mut site = Site::start().await;
    site.stop_agent().await;
    site.namespace
        .run(|| ip("link add eth1 type veth peer name eth2"));
    let start = async |site: &mut Site| {
        let dir = site.state_dir.path().to_owned();
        let (host, changes) = site.namespace.run(move || {
            let dir = StateDir::open(dir).unwrap();
            Machine::start_with(dir, WithoutNetworkManager::ConfigureKernel).unwrap()
        });
        site.start_agent_on(Arc::new(host), changes, Extent::default())
            .await;
    };
    start(&mut site).await;
    let object = site
        .wait("the kernel is the backend", |object| {
            condition(object, "Backend")["reason"] == "Kernel"
        })
        .await;
    let backend = condition(&object, "Backend");
    assert_eq!(backend["status"], "True");
    assert!(
        backend["message"]
            .as_str()
            .unwrap()
            .contains("A reboot loses all of it"),
        "{backend:#}"
    );
    let enactment = json!({
        "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkConfigurationEnactment",
        "metadata": {
            "name": format!("{NODE}.bridge"),
            "labels": {"nmstate.io/node": NODE, "nmstate.io/policy": "bridge"}
        },
        "spec": {
            "policy": "bridge", "policyUid": "u", "nodeName": NODE,
            "wanted": {"generation": 1, "decision": "Granted"},
            "granted": {"generation": 1, "spec": {"desiredState": {"interfaces": [{
                "name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1400,
                "ipv4": {"enabled": true, "address": [{"ip": "192.0.2.1", "prefix-length": 24}]},
                "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
            }]}}}
        }
    });
    let file = site.state_dir.path().join("enactment.json");
    std::fs::write(&file, enactment.to_string()).unwrap();
    site.cluster
        .kubectl(&["apply", "-f", &file.display().to_string()])
        .await
        .unwrap();
    let is_made = |object: &Value| {
        let br1 = interface(object, "br1");
        br1["mtu"] == 1400
            && br1["ipv4"]["address"][0]["ip"] == "192.0.2.1"
            && interface(object, "eth1")["controller"] == "br1"
    };
    site.wait("the policy is applied", is_made).await;
    wait_within(PATIENCE, "the policy is Available", async || {
        let text = site
            .cluster
            .kubectl(&["get", "nnce", &format!("{NODE}.bridge"), "-o", "json"])
            .await
            .unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        match condition(&object, "Available")["status"] == "True" {
            true => Ok(()),
            false => Err(text),
        }
    })
    .await;
    no_stranger_takes_it_back(&site, is_made).await;
    a_bridge_that_the_firewall_sees_is_named(&site).await;
    // As after a reboot: the agent ends, and the kernel forgets.
    site.stop_agent().await;
    site.namespace.run(|| ip("link delete br1"));
    start(&mut site).await;
    site.wait("the bridge is back", is_made).await;
}

/// The enactment has a condition while packets between ports of its bridge pass the chains FORWARD.
async fn a_bridge_that_the_firewall_sees_is_named(site: &Site) {
    let has_condition = async |has: bool| {
        wait_within(PATIENCE, &format!("named: {has}"), async || {
            let text = site
                .cluster
                .kubectl(&["get", "nnce", &format!("{NODE}.bridge"), "-o", "json"])
                .await
                .unwrap();
            let object: Value = serde_json::from_str(&text).unwrap();
            let found = condition(&object, "BridgeTrafficFiltered");
            (found["status"].as_str() == has.then_some("True"))
                .then(|| found["message"].clone())
                .ok_or(text)
        })
        .await
    };
    let folder = std::path::Path::new("/proc/sys/net/bridge");
    if !site.namespace.run(move || folder.is_dir()) {
        // The kernel has no module br_netfilter, or nobody has loaded it.
        has_condition(false).await;
        return;
    }
    let set = |value: &'static str, card: &'static str| {
        site.namespace.run(move || {
            for switch in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
                std::fs::write(folder.join(switch), value).unwrap();
            }
            // A change that the agent notices.
            ip(&format!("link add {card} type veth peer name far-{card}"));
        });
    };
    set("0", "eth5");
    has_condition(false).await;
    set("1", "eth6");
    assert_eq!(
        has_condition(true).await,
        "packets between ports of br1 pass the chain FORWARD of iptables and ip6tables, which may drop them. On the node, `iptables -S FORWARD` shows whether it does, and `iptables -I FORWARD -i BRIDGE -o BRIDGE -j ACCEPT` lets them pass"
    );
}

/// The agent has to list its enactments again and again, and no answer is a list. It changes neither
/// its host nor its enactments.
async fn no_stranger_takes_it_back(site: &Site, is_made: impl Fn(&Value) -> bool) {
    let enactments = Match::any().resource("nodenetworkconfigurationenactments");
    site.proxy.clear();
    let halves = [Framing::Length, Framing::Chunked].map(Fault::HalfBody);
    let strangers = Stranger::ALL.map(Fault::Stranger);
    for fault in strangers.into_iter().chain(halves) {
        wait_within(PATIENCE, "its enactments are watched", async || match site
            .proxy
            .open_watches(&enactments)
        {
            0 => Err("no".to_owned()),
            _ => Ok(()),
        })
        .await;
        let lists = site
            .proxy
            .inject(enactments.clone().verb("list"), fault.clone());
        assert!(site.proxy.close_watches(&enactments) > 0);
        lists
            .wait_hits(2, PATIENCE)
            .await
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        lists.remove();
    }
    // The agent reports its host as it is now.
    site.namespace
        .run(|| ip("link add eth7 type veth peer name eth8"));
    let object = site
        .wait("a new card is reported", |object| {
            !interface(object, "eth7").is_null()
        })
        .await;
    assert!(is_made(&object), "{object:#}");
    let written: Vec<_> = site
        .proxy
        .writes()
        .into_iter()
        .filter(|write| enactments.selects(&write.info))
        .map(|write| write.info.path)
        .collect();
    assert!(written.is_empty(), "{written:#?}");
    // A line that is no event does not hide the event after it.
    let garbled = site.proxy.inject(
        enactments.verb("watch").times(1),
        Fault::GarbleEvents(Events::All),
    );
    let name = format!("{NODE}.bridge");
    let patch = r#"{"spec": {"wanted": {"generation": 2}, "granted": {"generation": 2}}}"#;
    site.cluster
        .kubectl(&["patch", "nnce", &name, "--type=merge", "-p", patch])
        .await
        .unwrap();
    garbled.wait_hits(1, PATIENCE).await.unwrap();
    wait_within(
        PATIENCE,
        "the newer generation is carried out",
        async || {
            let text = site
                .cluster
                .kubectl(&["get", "nnce", &name, "-o", "json"])
                .await
                .unwrap();
            let object: Value = serde_json::from_str(&text).unwrap();
            let is_done = condition(&object, "Available")["status"] == "True"
                && object["status"]["policyGeneration"] == 2;
            is_done.then_some(()).ok_or(text)
        },
    )
    .await;
}

#[tokio::test]
async fn a_host_is_reported_when_and_only_when_it_changes() {
    let mut site = Site::start().await;
    let object = site
        .wait("lo is reported", |object| {
            interface(object, "lo")["ifIndex"] == 1
        })
        .await;
    let node: Value = serde_json::from_str(
        &site
            .cluster
            .kubectl(&["get", "node", NODE, "-o", "json"])
            .await
            .unwrap(),
    )
    .unwrap();
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Node"), &node["metadata"]["uid"])
    );
    let status = &object["status"];
    assert_eq!(
        status["handlerNmstateVersion"],
        weft_agent::host::NMSTATE_VERSION
    );
    assert_eq!(status["hostNetworkManagerVersion"], Value::Null);
    assert!(
        status["currentState"]["hostname"]["running"].is_string(),
        "{status:#}"
    );
    let backend = condition(&object, "Backend");
    assert_eq!(
        (&backend["status"], &backend["reason"]),
        (&json!("False"), &json!("ReadOnly")),
        "{backend:#}"
    );
    assert!(
        backend["message"]
            .as_str()
            .unwrap()
            .contains("start NetworkManager"),
        "{backend:#}"
    );
    for (of_type, holds) in [
        ("Available", "True"),
        ("Failing", "False"),
        ("Complete", "True"),
    ] {
        assert_eq!(
            condition(&object, of_type)["status"],
            holds,
            "{of_type}: {object:#}"
        );
    }

    // A burst is one write, and as small as the change.
    let before = site.quiet().await.len();
    site.namespace.run(|| {
        let mut burst = String::from("link add eth1 index 71 type veth peer name eth2 index 72\n");
        for link in ["eth1", "eth2"] {
            burst += &format!("link set {link} addrgenmode none\nlink set {link} up\n");
        }
        for host in 1..20 {
            burst += &format!("address add 192.0.2.{host}/24 dev eth1\n");
        }
        burst += "route add 198.51.100.0/24 via 192.0.2.77\n";
        burst += "rule add from 192.0.2.1 table 100 priority 1000\n";
        // By one process: on a busy machine there are pauses between several.
        ip_batch(&burst);
    });
    let object = site
        .wait("eth1 is reported", |object| {
            interface(object, "eth1")["ipv4"]["address"]
                .as_array()
                .is_some_and(|all| all.len() == 19)
        })
        .await;
    assert_eq!(interface(&object, "eth1")["ifIndex"], 71, "{object:#}");
    let state = &object["status"]["currentState"];
    assert!(
        state["routes"]["running"]
            .to_string()
            .contains("198.51.100.0/24"),
        "{state:#}"
    );
    assert!(
        state["route-rules"]["config"]
            .to_string()
            .contains("192.0.2.1"),
        "{state:#}"
    );
    let requests = site.quiet().await;
    assert!(
        requests.len() <= before + 3 && requests.len() > before,
        "a burst of 25 changes: {:#?}",
        &requests[before..]
    );
    assert!(
        requests[before..]
            .iter()
            .all(|request| request == "patch status 200"),
        "{:#?}",
        &requests[before..]
    );

    // The same network is not written again, also not by the next process, and not when it is asked
    // for.
    let updated = object["status"]["lastSuccessfulUpdateTime"].clone();
    site.stop_agent().await;
    site.start_agent(Extent::default()).await;
    site.cluster
        .kubectl(&["label", "nns", NODE, "nmstate.io/force-nns-refresh=1"])
        .await
        .unwrap();
    let again = site.quiet().await;
    assert_eq!(again[requests.len()..], ["list  200"], "a restarted agent");
    assert_eq!(
        site.object().await.unwrap()["status"]["lastSuccessfulUpdateTime"],
        updated
    );

    // Links that go, go.
    site.namespace.run(|| ip("link delete eth1"));
    let object = site
        .wait("eth1 is gone", |object| interface(object, "eth1").is_null())
        .await;
    assert!(object["status"]["lastSuccessfulUpdateTime"].as_str() >= updated.as_str());
}

#[tokio::test]
async fn edits_of_users_to_the_object_are_respected() {
    let mut site = Site::start().await;
    let first = site
        .wait("lo is reported", |object| {
            !interface(object, "lo").is_null()
        })
        .await;

    // It comes back.
    site.cluster
        .kubectl(&["delete", "nns", NODE])
        .await
        .unwrap();
    let second = site
        .wait("it is back", |object| !interface(object, "lo").is_null())
        .await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);

    // Another user's status is put right.
    let wrong = r#"{"status": {"currentState": {"interfaces": [{"name": "wrong"}]}}}"#;
    site.cluster
        .kubectl(&[
            "patch",
            "nns",
            NODE,
            "--subresource=status",
            "--type=merge",
            "-p",
            wrong,
        ])
        .await
        .unwrap();
    site.wait("it is right again", |object| {
        !interface(object, "lo").is_null() && interface(object, "wrong").is_null()
    })
    .await;

    // The specification is the user's: reports leave it alone, and say which one they know.
    let desired =
        r#"{"spec": {"desiredState": {"interfaces": [{"name": "eth7", "type": "veth"}]}}}"#;
    site.cluster
        .kubectl(&["patch", "nns", NODE, "--type=merge", "-p", desired])
        .await
        .unwrap();
    let object = site
        .wait("its generation is known", |object| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await;
    assert_eq!(
        object["spec"]["desiredState"]["interfaces"][0]["name"],
        "eth7"
    );

    // Not managed: nothing is reported.
    site.cluster
        .kubectl(&[
            "patch",
            "nns",
            NODE,
            "--type=merge",
            "-p",
            r#"{"spec": {"managed": false}}"#,
        ])
        .await
        .unwrap();
    site.quiet().await;
    site.namespace
        .run(|| ip("link add eth1 type veth peer name eth2"));
    let requests = site.quiet().await;
    assert!(
        interface(&site.object().await.unwrap(), "eth1").is_null(),
        "{requests:#?}"
    );
    site.cluster
        .kubectl(&[
            "patch",
            "nns",
            NODE,
            "--type=merge",
            "-p",
            r#"{"spec": {"managed": true}}"#,
        ])
        .await
        .unwrap();
    let object = site
        .wait("eth1 is reported", |object| {
            !interface(object, "eth1").is_null()
        })
        .await;
    assert_eq!(
        object["spec"]["desiredState"]["interfaces"][0]["name"],
        "eth7"
    );

    // A node that is gone is not reported.
    site.stop_agent().await;
    site.cluster
        .kubectl(&["delete", "node", NODE])
        .await
        .unwrap();
    site.cluster
        .kubectl(&["delete", "nns", NODE, "--ignore-not-found"])
        .await
        .unwrap();
    site.start_agent(Extent::default()).await;
    site.quiet().await;
    assert_eq!(site.object().await, None);
}

#[tokio::test]
async fn a_report_that_is_too_large_says_so() {
    let mut site = Site::start().await;
    site.namespace
        .run(|| ip("link add eth1 type veth peer name eth2"));
    site.wait("eth1 is reported", |object| {
        !interface(object, "eth1").is_null()
    })
    .await;
    site.stop_agent().await;
    site.start_agent(Extent {
        budget: 1_500,
        ..Extent::default()
    })
    .await;
    let object = site
        .wait("it is shorter", |object| {
            condition(object, "Complete")["status"] == "False"
        })
        .await;
    let complete = condition(&object, "Complete");
    assert_eq!(complete["reason"], "SizeLimitExceeded", "{complete:#}");
    assert!(
        complete["message"].as_str().unwrap().contains("ethtool"),
        "{complete:#}"
    );
    assert!(interface(&object, "eth1")["ethtool"].is_null());
    assert!(object["status"]["currentState"].to_string().len() <= 1_500);
}

/// A host of which only one state is known.
struct Recorded(NetworkState);

impl Host for Recorded {
    fn retrieve(&self, _: Query) -> BoxFuture<'_, Result<Retrieved, HostError>> {
        let backend = Backend::NetworkManager {
            version: "1.46.0".to_owned(),
        };
        std::future::ready(Ok(Retrieved {
            state: self.0.clone(),
            backend,
            is_starting: false,
            indexes: BTreeMap::new(),
            aggregated: Default::default(),
            bridge_filter: Default::default(),
        }))
        .boxed()
    }

    fn apply(&self, _: Desired, _: ApplyOptions) -> BoxFuture<'_, Result<(), HostError>> {
        std::future::ready(Err(HostError::Ended)).boxed()
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<String>, HostError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn renew(&self, _: Duration) -> BoxFuture<'_, Result<(), HostError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn commit(&self, _: String) -> BoxFuture<'_, Result<(), HostError>> {
        std::future::ready(Err(HostError::Ended)).boxed()
    }

    fn rollback(&self, _: String) -> BoxFuture<'_, Result<(), HostError>> {
        std::future::ready(Err(HostError::Ended)).boxed()
    }

    fn links(&self) -> BoxFuture<'_, Result<Seen, HostError>> {
        std::future::ready(Ok(Seen::default())).boxed()
    }

    fn attach(&self, _: Port, _: u32) -> BoxFuture<'_, Result<(), HostError>> {
        std::future::ready(Err(HostError::Ended)).boxed()
    }

    fn ovsdb(&self, _: Vec<Value>) -> BoxFuture<'_, Result<Option<Vec<Value>>, HostError>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn configured(&self, _: Vec<String>) -> BoxFuture<'_, Result<BTreeSet<String>, HostError>> {
        std::future::ready(Ok(BTreeSet::new())).boxed()
    }

    fn leave_alone(&self, _: Vec<String>) -> BoxFuture<'_, Result<(), HostError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn reach<'a>(&'a self, _: &'a Peer, _: &'a [String]) -> BoxFuture<'a, Result<(), Silence>> {
        let silence = Silence::NoWay("it has no network".to_owned());
        std::future::ready(Err(silence)).boxed()
    }
}

/// 2 MB, where etcd takes 1.5 MiB.
#[tokio::test]
async fn a_report_that_is_refused_for_its_size_is_shortened() {
    let mut site = Site::start().await;
    site.wait("lo is reported", |object| {
        !interface(object, "lo").is_null()
    })
    .await;
    site.stop_agent().await;
    let large = |index: u32| {
        json!({
            "name": format!("dummy{index}"), "type": "dummy", "state": "up",
            "description": "x".repeat(500)
        })
    };
    let state = json!({"interfaces": (0..3500).map(large).collect::<Vec<_>>()});
    let host = Recorded(NetworkState::new_from_json(&state.to_string()).unwrap());
    let extent = Extent {
        budget: 10_000_000,
        ..Extent::default()
    };
    site.start_agent_on(Arc::new(host), futures::stream::pending().boxed(), extent)
        .await;
    let object = site
        .wait("it is shorter", |object| {
            condition(object, "Complete")["status"] == "False"
        })
        .await;
    let message = condition(&object, "Complete")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("the API server refused a larger one") && message.contains("too large"),
        "{message}"
    );
    assert!(!interface(&object, "dummy0").is_null());
    let requests = site.quiet().await;
    assert!(
        requests
            .iter()
            .filter(|request| !request.ends_with("200") && !request.ends_with("201"))
            .count()
            <= 3,
        "{requests:#?}"
    );
}

#[tokio::test]
async fn without_the_api_server_the_agent_goes_on_and_reports_when_it_is_back() {
    let site = Site::start().await;
    site.wait("lo is reported", |object| {
        !interface(object, "lo").is_null()
    })
    .await;
    let away = site.proxy.inject(Match::any(), Fault::CutBefore);
    site.proxy.close_watches(&Match::any());
    site.namespace
        .run(|| ip("link add eth1 type veth peer name eth2"));
    away.wait_hits(3, PATIENCE).await.unwrap();
    site.cluster
        .kubectl(&["delete", "nns", NODE])
        .await
        .unwrap();
    away.remove();
    site.wait("it is back with eth1", |object| {
        !interface(object, "eth1").is_null()
    })
    .await;

    // An answer that is lost on its way: it was written, and is not written twice.
    site.quiet().await;
    let lost = site
        .proxy
        .inject(Match::any().writes().nth(1), Fault::CutAfter);
    site.namespace.run(|| ip("link set eth1 mtu 1400"));
    lost.wait_hits(1, PATIENCE).await.unwrap();
    site.wait("the new MTU", |object| {
        interface(object, "eth1")["mtu"] == 1400
    })
    .await;
    let before = site.quiet().await.len();
    site.namespace.run(|| ip("link delete eth1"));
    site.wait("eth1 is gone", |object| interface(object, "eth1").is_null())
        .await;
    let requests = site.quiet().await;
    assert_eq!(requests[before..], ["patch status 200"]);
}

#[tokio::test]
async fn a_report_that_a_restored_backup_undoes_is_written_again() {
    let site = Site::start().await;
    site.wait("lo is reported", |object| {
        !interface(object, "lo").is_null()
    })
    .await;
    let backup = site.cluster.snapshot().await.unwrap();
    site.namespace
        .run(|| ip("link add eth1 type veth peer name eth2"));
    site.wait("eth1 is reported", |object| {
        !interface(object, "eth1").is_null()
    })
    .await;
    // Long enough for all that follows: an agent that waits for a version of the lost future waits
    // for ever.
    site.cluster.spend_revisions(1000).await.unwrap();
    let lost = site.cluster.revision().await.unwrap();

    let away = site.proxy.inject(Match::any(), Fault::CutBefore);
    site.cluster.restore(&backup).await.unwrap();
    let restored = site.object().await.unwrap();
    assert!(interface(&restored, "eth1").is_null(), "{restored:#}");
    away.remove();
    site.wait("eth1 is reported again", |object| {
        !interface(object, "eth1").is_null()
    })
    .await;

    // From now on the agent notices what happens to its host, and to the object.
    site.namespace.run(|| ip("link set eth1 mtu 1400"));
    site.wait("the new MTU", |object| {
        interface(object, "eth1")["mtu"] == 1400
    })
    .await;
    site.cluster
        .kubectl(&["delete", "nns", NODE])
        .await
        .unwrap();
    site.wait("it is back", |object| {
        interface(object, "eth1")["mtu"] == 1400
    })
    .await;
    assert!(
        site.cluster.revision().await.unwrap() < lost,
        "the lost future was long enough"
    );
}
