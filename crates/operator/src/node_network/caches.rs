//! The watches of the controller of policies, and the parts of objects that it keeps.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;
use weft_api::node_network::ROLLBACK_INCOMPLETE;
use weft_node_network::{
    addresses::ledger::{self, Ledger, Stored},
    counts::Counts,
    rollout::{
        self, Addresses, Enactment, Node, Policy, World,
        view::{AGENT_LABEL, addresses_of, agent_of, agent_until, is_left_alone},
    },
};
use weft_plan::{Kind, Live, ObjectKey, condition, kinds};
use weft_runtime::{
    api_server::{
        clock,
        cluster::{Cluster, Error},
    },
    metrics::{Metrics, Readiness},
    store::{
        cache::Source,
        notifier::Notifier,
        views::Views,
        watch::{self, Watch},
    },
};

/// A view of every object that matters.
pub struct Caches {
    pub policies: Arc<Views<Policy>>,
    pub enactments: Arc<Views<Found>>,
    pub nodes: Arc<Views<Node>>,
    /// Each agent's pod.
    pub agents: Arc<Views<Agent>>,
    pub states: Arc<Views<State>>,
    /// The ledger of addresses: one object, or none.
    pub ledger: Arc<Views<Stored>>,
    pub notifier: Notifier,
}

/// An object with the kind of an enactment: the part that the operator keeps, if the object names
/// its policy and node. `None` if it does not: then it only occupies its name.
#[derive(PartialEq)]
pub struct Found(pub Option<Enactment>);

/// The part of an agent's pod that the operator keeps.
#[derive(PartialEq)]
pub struct Agent {
    /// The node that it runs on.
    pub node: String,
    /// Its condition Ready, for metrics.
    pub is_ready: bool,
}

impl Agent {
    fn of(pod: &Value) -> Option<Self> {
        let ready = condition(&pod["status"], "Ready");
        Some(Self {
            node: agent_of(pod)?,
            is_ready: ready.is_some_and(|ready| ready["status"] == "True"),
        })
    }
}

/// The part of a NodeNetworkState that the operator keeps.
#[derive(PartialEq)]
pub struct State {
    /// The numbers of interfaces and routes, for metrics.
    pub counts: Counts,
    /// Its state, for metrics.
    pub readiness: Readiness,
    /// `status.lastSuccessfulUpdateTime` in seconds since 1970, for metrics.
    pub reported: Option<i64>,
    /// True if the node differs from its state before a change that was rolled back, for metrics.
    pub is_rollback_incomplete: bool,
    /// True if this object keeps the agent from doing anything on the node, for decisions.
    is_left_alone: bool,
    /// Until when an agent on demand is there.
    pub agent_until: Option<Timestamp>,
    /// The addresses of the host.
    addresses: BTreeSet<IpAddr>,
}

impl State {
    fn of(object: &Value) -> Self {
        Self {
            counts: Counts::of(object),
            readiness: Readiness::of(object),
            reported: object["status"]["lastSuccessfulUpdateTime"]
                .as_str()
                .and_then(|time| Some(time.parse::<Timestamp>().ok()?.as_second())),
            is_rollback_incomplete: condition(&object["status"], ROLLBACK_INCOMPLETE)
                .is_some_and(|condition| condition["status"] == "True"),
            is_left_alone: is_left_alone(object),
            agent_until: agent_until(object),
            addresses: addresses_of(object),
        }
    }
}

impl Caches {
    pub fn new() -> Self {
        let notifier = Notifier::default();
        Self {
            policies: Arc::new(Views::new(
                |object| Some(Policy::of(object)),
                notifier.clone(),
            )),
            enactments: Arc::new(Views::new(
                |object| Some(Found(Enactment::of(object))),
                notifier.clone(),
            )),
            nodes: Arc::new(Views::new(
                |object| Some(Node::of(object)),
                notifier.clone(),
            )),
            agents: Arc::new(Views::new(Agent::of, notifier.clone())),
            states: Arc::new(Views::new(
                |object| Some(State::of(object)),
                notifier.clone(),
            )),
            ledger: Arc::new(Views::new(
                |object| Some(Stored::of(object)),
                notifier.clone(),
            )),
            notifier,
        }
    }

    /// Begins to watch. The agents are in `namespace`, or anywhere, and the ledger is in
    /// `operators`.
    pub fn watch(
        &self,
        client: &Client,
        metrics: &Metrics,
        namespace: Option<&str>,
        operators: &str,
    ) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        let agents = format!("{}={}", AGENT_LABEL.0, AGENT_LABEL.1);
        let all = |kind| watch_of(kind, None, "");
        spawn(
            &mut watches,
            all(kinds::NODE_NETWORK_CONFIGURATION_POLICY),
            &self.policies,
            client,
            metrics,
        );
        spawn(
            &mut watches,
            all(kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT),
            &self.enactments,
            client,
            metrics,
        );
        spawn(
            &mut watches,
            all(kinds::NODE_NETWORK_STATE),
            &self.states,
            client,
            metrics,
        );
        spawn(&mut watches, all(kinds::NODE), &self.nodes, client, metrics);
        spawn(
            &mut watches,
            watch_of(kinds::POD, namespace, &agents),
            &self.agents,
            client,
            metrics,
        );
        let ledger = Watch {
            fields: format!("metadata.name={}", ledger::NAME),
            ..watch_of(kinds::CONFIG_MAP, Some(operators), "")
        };
        spawn(&mut watches, ledger, &self.ledger, client, metrics);
        watches
    }

    /// Reports whether all that decisions depend on has been listed.
    pub fn are_complete(&self) -> bool {
        self.policies.lock().is_complete()
            && self.enactments.lock().is_complete()
            && self.nodes.lock().is_complete()
            && self.agents.lock().is_complete()
            && self.states.lock().is_complete()
            && self.ledger.lock().is_complete()
    }

    /// Reads the names of policies, enactments and nodes, and the version of the ledger in this
    /// namespace. A node that is not known yet would lose its addresses.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn look(cluster: &Cluster, namespace: &str) -> Result<Lists, Error> {
        let list = async |kind| cluster.list_metadata(kind, None, "").await;
        let key = ObjectKey::new(kinds::CONFIG_MAP, namespace, ledger::NAME);
        let (policies, enactments, nodes, ledger) = futures::try_join!(
            list(kinds::NODE_NETWORK_CONFIGURATION_POLICY),
            list(kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT),
            list(kinds::NODE),
            cluster.get_metadata(&key),
        )?;
        Ok(Lists {
            policies,
            enactments,
            nodes,
            ledger,
        })
    }

    /// Reports whether all of that is known as it was then or later.
    pub fn have_caught_up(&self, lists: &Lists) -> bool {
        let Lists {
            policies,
            enactments,
            nodes,
            ledger,
        } = lists;
        let knows_ledger = ledger.as_ref().is_none_or(|ledger| {
            let at = Live::of(ledger).resource_version();
            let list = std::slice::from_ref(ledger);
            self.ledger.lock().has_caught_up(list, at)
        });
        self.policies.lock().has_caught_up(&policies.0, policies.1)
            && self
                .enactments
                .lock()
                .has_caught_up(&enactments.0, enactments.1)
            && self.nodes.lock().has_caught_up(&nodes.0, nodes.1)
            && knows_ledger
    }

    /// Reports whether a policy has pools of addresses.
    pub fn has_pools(&self) -> bool {
        self.policies
            .lock()
            .iter()
            .any(|(_, policy)| policy.has_pools())
    }

    /// When the next of the agents that act on demand is no longer taken to be there.
    pub fn next_end(&self) -> Option<Instant> {
        let (states, now) = (self.states.lock(), clock::now());
        let ends = states
            .iter()
            .filter_map(|(_, state)| state.agent_until)
            .filter(|until| *until > now);
        let wait = Duration::try_from(ends.min()?.duration_since(now)).ok()?;
        Instant::now().checked_add(wait)
    }

    /// Everything that decisions depend on, handed to `decide`.
    pub fn look_at<T>(
        &self,
        max_unavailable: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>,
        decide: impl FnOnce(&World) -> T,
    ) -> T {
        let (policies, nodes, agents, all) = (
            self.policies.lock(),
            self.nodes.lock(),
            self.agents.lock(),
            self.enactments.lock(),
        );
        let (states, now) = (self.states.lock(), clock::now());
        let on_demand = states
            .iter()
            .filter(|(_, state)| state.agent_until.is_some_and(|until| until > now))
            .map(|(name, _)| name);
        let mut enactments: BTreeMap<&str, BTreeMap<&str, &Enactment>> = BTreeMap::new();
        for enactment in all.iter().filter_map(|(_, found)| found.0.as_ref()) {
            enactments
                .entry(&enactment.policy)
                .or_default()
                .insert(&enactment.node, enactment);
        }
        let stored = self.ledger.lock();
        let nothing = Ledger::default();
        let ledger = match stored.get(ledger::NAME) {
            None => Ok(&nothing),
            Some(stored) => stored.ledger.as_ref().map_err(String::as_str),
        };
        let mut world = World {
            policies: policies.iter().collect(),
            nodes: nodes.iter().collect(),
            agents: agents
                .iter()
                .map(|(_, agent)| agent.node.as_str())
                .chain(on_demand)
                .collect(),
            left_alone: states
                .iter()
                .filter(|(_, state)| state.is_left_alone)
                .map(|(name, _)| name)
                .collect(),
            enactments,
            max_unavailable,
            reported: states
                .iter()
                .map(|(name, state)| (name, &state.addresses))
                .collect(),
            addresses: Addresses::default(),
        };
        world.addresses = rollout::addresses(&world, ledger);
        decide(&world)
    }
}

/// Metadata of all objects of a kind, and when they were all.
pub struct Lists {
    policies: (Vec<Value>, u64),
    enactments: (Vec<Value>, u64),
    nodes: (Vec<Value>, u64),
    ledger: Option<Value>,
}

fn watch_of(kind: Kind, namespace: Option<&str>, labels: &str) -> Watch {
    // The operator exists for this kind, so it often looks for a missing definition.
    let source = Source::Resources;
    Watch {
        source,
        kind,
        namespace: namespace.map(str::to_owned),
        labels: labels.to_owned(),
        fields: String::new(),
        metadata_only: false,
    }
}

fn spawn<V: PartialEq + Send + 'static>(
    watches: &mut JoinSet<()>,
    watch: Watch,
    views: &Arc<Views<V>>,
    client: &Client,
    metrics: &Metrics,
) {
    let (views, client, metrics) = (Arc::clone(views), client.clone(), metrics.clone());
    watches.spawn(async move { watch::follow(&watch, client, &*views, &metrics).await });
}
