//! The parts of API objects that decisions depend on. A cluster may have thousands of enactments.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use weft_api::node_network::{
    AGENT_UNTIL_ANNOTATION, NODE_CONDITION, NODE_LABEL, NodeValues, POLICY_LABEL, RETRY_ANNOTATION,
    STARTUP_TAINT, Waits,
};
use weft_plan::{Live, Problem, condition};

use super::{held::Addresses, node_condition::Readiness, selection::Selection};
use crate::{
    addresses::pool::Pool,
    path::{entries, text},
    review,
    values::{References, annotations},
};

/// Keeps a policy until the nodes have put back what it changed.
pub const FINALIZER: &str = "weft.network/revert";
/// The label, and its value, of the agents' pods.
pub const AGENT_LABEL: (&str, &str) = ("component", "kubernetes-nmstate-handler");

/// Everything that decisions depend on.
#[derive(Clone, Debug, Default)]
pub struct World<'a> {
    /// The policies by name.
    pub policies: BTreeMap<&'a str, &'a Policy>,
    /// The nodes by name.
    pub nodes: BTreeMap<&'a str, &'a Node>,
    /// The nodes that run an agent.
    pub agents: BTreeSet<&'a str>,
    /// The nodes that are to be left alone, see [`is_left_alone`].
    pub left_alone: BTreeSet<&'a str>,
    /// The enactments by policy and node.
    pub enactments: BTreeMap<&'a str, BTreeMap<&'a str, &'a Enactment>>,
    /// How many nodes all policies together may change at the same time.
    pub max_unavailable: Option<&'a IntOrString>,
    /// The addresses of hosts, by node, as their NodeNetworkStates report them.
    pub reported: BTreeMap<&'a str, &'a BTreeSet<IpAddr>>,
    /// The addresses of pools that nodes have, by the ledger.
    pub addresses: Addresses,
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.generation`
    pub generation: i64,
    /// Its annotation [`RETRY_ANNOTATION`].
    pub(super) retry: Option<String>,
    /// It is being deleted.
    pub(super) is_deleted: bool,
    /// Where our [`FINALIZER`] is among its finalizers.
    pub finalizer: Option<usize>,
    /// All of its specification, as it is granted to nodes.
    pub(super) spec: Arc<Value>,
    /// All of its status.
    pub status: Arc<Value>,
    /// The nodes that it is for.
    pub(super) selection: Selection,
    /// How many of them may be changed at the same time.
    pub(super) max_unavailable: Option<IntOrString>,
    /// Greater ones come first.
    pub(super) priority: i64,
    /// Nodes put back what it changed when it goes.
    pub(super) reverts: bool,
    /// The values of a node that its desired state refers to.
    pub(super) references: References,
    /// Its pools of addresses, by name.
    pub(super) pools: BTreeMap<String, Pool>,
    /// The mistake in it. Then no node gets the policy.
    pub(super) refusal: Option<String>,
}

impl Policy {
    /// Reads a NodeNetworkConfigurationPolicy.
    pub fn of(object: &Value) -> Self {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            uid: text(&metadata["uid"]).unwrap_or_default(),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            retry: text(&metadata["annotations"][RETRY_ANNOTATION]),
            is_deleted: !metadata["deletionTimestamp"].is_null(),
            finalizer: metadata["finalizers"]
                .as_array()
                .and_then(|all| all.iter().position(|one| one == FINALIZER)),
            spec: Arc::new(if spec.is_null() {
                json!({})
            } else {
                spec.clone()
            }),
            status: Arc::new(object["status"].clone()),
            selection: Selection::of(spec),
            max_unavailable: serde_json::from_value(spec["maxUnavailable"].clone()).ok(),
            priority: spec["priority"].as_i64().unwrap_or_default(),
            reverts: spec["onDelete"] == "revert",
            references: References::of(&spec["desiredState"]),
            pools: pools(&spec["addressPools"]),
            refusal: refusal(&text(&metadata["name"]).unwrap_or_default(), spec),
        }
    }

    /// Reports whether it has pools of addresses.
    pub fn has_pools(&self) -> bool {
        !self.pools.is_empty()
    }

    /// Reports whether it stands as it is on the nodes: what is wrong with it cannot be rolled out,
    /// and says nothing about who should leave it either.
    pub(super) fn is_held(&self) -> bool {
        self.refusal.is_some() && !self.is_deleted
    }

    /// Reports whether this is about the last try that was asked for.
    pub(super) fn is_current_try(&self, wanted: &Wanted) -> bool {
        self.retry.is_none() || self.retry == wanted.retry
    }

    /// A decision about its current generation.
    pub(super) fn wants(&self, decision: Decision) -> Wanted {
        Wanted {
            generation: self.generation,
            decision,
            retry: self.retry.clone(),
            waits: None,
        }
    }
}

/// The pools of a policy. One that cannot be read is left out: then the policy is refused.
fn pools(value: &Value) -> BTreeMap<String, Pool> {
    let pools = value.as_object().into_iter().flatten();
    let read = |value: &Value| Pool::read(&serde_json::from_value(value.clone()).ok()?).ok();
    pools
        .filter_map(|(name, value)| Some((name.clone(), read(value)?)))
        .collect()
}

/// How many problems a message lists.
const PROBLEMS: usize = 5;

/// Returns the mistake in a policy, if there is one.
fn refusal(name: &str, spec: &Value) -> Option<String> {
    let spec = if spec.is_null() {
        json!({})
    } else {
        spec.clone()
    };
    let problems = match serde_json::from_value(spec) {
        Ok(spec) => review::policy(name, &spec),
        // Stored before the definition had this form.
        Err(error) => vec![Problem {
            field: "spec".to_owned(),
            message: format!("cannot be read: {error}"),
        }],
    };
    let told: Vec<_> = problems
        .iter()
        .take(PROBLEMS)
        .map(ToString::to_string)
        .collect();
    let more = if problems.len() > PROBLEMS {
        format!("; and {} more", problems.len() - PROBLEMS)
    } else {
        String::new()
    };
    (!told.is_empty()).then(|| format!("{}{more}", told.join("; ")))
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.labels`
    pub(super) labels: BTreeMap<String, String>,
    /// Those of `metadata.annotations` that can be values in a desired state.
    pub(super) annotations: BTreeMap<String, String>,
    /// Its condition `Ready` is True.
    pub(super) is_ready: bool,
    /// Its condition [`NODE_CONDITION`], and since when it has that status.
    pub(super) readiness: Option<(Readiness, String)>,
    /// The places of [`STARTUP_TAINT`] in `spec.taints`: one for each effect.
    pub(super) startup_taints: Vec<usize>,
}

impl Node {
    /// Reads a Node.
    pub fn of(object: &Value) -> Self {
        let condition = |name| condition(&object["status"], name);
        let readiness = |said: &Value| {
            let since = said["lastTransitionTime"].as_str().unwrap_or_default();
            Some((Readiness::of(said)?, since.to_owned()))
        };
        let taints = entries(&object["spec"]["taints"]).iter().enumerate();
        Self {
            uid: Live::of(object).uid().to_owned(),
            labels: serde_json::from_value(object["metadata"]["labels"].clone())
                .unwrap_or_default(),
            annotations: annotations(object),
            is_ready: condition("Ready").is_some_and(|ready| ready["status"] == "True"),
            readiness: condition(NODE_CONDITION).and_then(readiness),
            startup_taints: taints
                .filter(|(_, taint)| taint["key"] == STARTUP_TAINT)
                .map(|(place, _)| place)
                .collect(),
        }
    }
}

/// The node that a pod of the agent runs on. `None` if it runs no more, or not yet.
pub fn agent_of(pod: &Value) -> Option<String> {
    let has_ended = ["Failed", "Succeeded"]
        .iter()
        .any(|phase| pod["status"]["phase"] == *phase);
    pod["spec"]["nodeName"]
        .as_str()
        .filter(|_| !has_ended)
        .map(str::to_owned)
}

/// Until when, at the latest, an agent acts on a node on demand, by its NodeNetworkState. It says
/// so itself, for as long as it runs.
pub fn agent_until(state: &Value) -> Option<Timestamp> {
    Live::of(state)
        .annotation(AGENT_UNTIL_ANNOTATION)?
        .parse()
        .ok()
}

/// Returns the addresses of a host, by its NodeNetworkState.
pub fn addresses_of(state: &Value) -> BTreeSet<IpAddr> {
    let interfaces = entries(&state["status"]["currentState"]["interfaces"]);
    let lists = interfaces
        .iter()
        .flat_map(|one| [&one["ipv4"]["address"], &one["ipv6"]["address"]]);
    lists
        .flat_map(entries)
        .filter_map(|address| text(&address["ip"]).parse().ok())
        .collect()
}

/// Reports whether the NodeNetworkState of a node keeps its agent from doing anything there: it is
/// not managed, or not this node's.
pub fn is_left_alone(state: &Value) -> bool {
    let spec = &state["spec"];
    spec["managed"] == false
        || spec["nodeName"]
            .as_str()
            .is_some_and(|name| Live::of(state).name() != name)
}

/// The operator's decision about a policy on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The generation of the policy.
    pub generation: i64,
    /// The decision.
    pub(super) decision: Decision,
    /// Which try it is: the policy's annotation [`RETRY_ANNOTATION`].
    pub(super) retry: Option<String>,
    /// The thing that the node waits for, next to its turn.
    pub(super) waits: Option<Waits>,
}

impl Wanted {
    fn of(value: &Value) -> Option<Self> {
        Some(Self {
            generation: value["generation"].as_i64()?,
            decision: value["decision"].as_str()?.parse().ok()?,
            retry: value["retry"].as_str().map(str::to_owned),
            waits: serde_json::from_value(value["waits"].clone()).ok(),
        })
    }

    /// As `spec.wanted` of an enactment.
    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({"generation": self.generation, "decision": self.decision.as_str()});
        if let Some(retry) = &self.retry {
            value["retry"] = retry.as_str().into();
        }
        if let Some(waits) = &self.waits {
            value["waits"] = json!({"reason": waits.reason, "message": waits.message});
        }
        value
    }
}

weft_plan::choice! {
    /// The permission of a node.
    pub enum Decision("a decision") {
        /// Apply the policy.
        Granted,
        /// Wait for other nodes.
        Pending,
        /// Let it be: it failed elsewhere.
        Aborted,
        /// Put back what the policy changed.
        Revert,
    }
}

weft_plan::choice! {
    /// The agent's report about an enactment: the condition that is True.
    #[derive(Default)]
    pub enum Phase("a phase") {
        /// None, or one that is not known.
        #[default]
        Unknown,
        /// It is at it, also again after a failure.
        Progressing,
        /// It has failed, and is not tried again.
        Failing,
        /// The agent has applied the policy.
        Available,
        /// The enactment waits for its turn.
        Pending,
        /// It is not tried.
        Aborted,
    }
}

impl Phase {
    /// While an agent tries again, `Progressing` and `Failing` are True.
    fn of(conditions: &Value) -> Self {
        let holds = |phase: &Self| {
            conditions
                .as_array()
                .into_iter()
                .flatten()
                .any(|one| one["type"] == phase.as_str() && one["status"] == "True")
        };
        let all = [
            Self::Progressing,
            Self::Failing,
            Self::Available,
            Self::Pending,
            Self::Aborted,
        ];
        all.into_iter().find(holds).unwrap_or_default()
    }
}

/// A policy on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enactment {
    /// `metadata.name`
    pub(super) name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.generation`: another one with each change of its specification.
    pub generation: i64,
    /// The name of its node.
    pub node: String,
    /// The uid of the Node that owns it.
    pub(super) node_uid: Option<String>,
    /// The name of its policy.
    pub policy: String,
    /// The uid of its policy.
    pub(super) policy_uid: Option<String>,
    /// The last decision. kubernetes-nmstate made none.
    pub(super) wanted: Option<Wanted>,
    /// True if anything was ever granted.
    pub(super) has_granted: bool,
    /// The values that were granted last.
    pub(super) values: Option<NodeValues>,
    /// It is being deleted.
    pub(super) is_deleted: bool,
    /// The [`Enactment::generation`] that its agent speaks of.
    pub(super) observed: Option<i64>,
    /// The agent's report.
    pub phase: Phase,
    /// Why it has failed, in a line.
    pub(super) failure: Option<String>,
    /// Which other policy of the node contradicts it, and where, in a line.
    pub(super) conflict: Option<String>,
    /// The features of nmstate that it makes use of.
    pub features: Vec<String>,
}

/// The condition of an enactment, and of a policy, that another policy contradicts.
pub(super) const CONFLICT: &str = "Conflict";
/// How much is kept of a failure or a contradiction, in bytes.
const FAILURE: usize = 256;

impl Enactment {
    /// Reads a NodeNetworkConfigurationEnactment. `None` if it does not name its policy and node.
    pub fn of(object: &Value) -> Option<Self> {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let text = |value: &Value| {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let phase = Phase::of(&status["conditions"]);
        let conditions = || status["conditions"].as_array().into_iter().flatten();
        let line = |one: &Value| {
            one["message"]
                .as_str()
                .map(|message| short(message.lines().next().unwrap_or_default()))
        };
        let failing = conditions().find(|one| one["type"] == "Failing" && phase == Phase::Failing);
        let conflict = conditions().find(|one| one["type"] == CONFLICT && one["status"] == "True");
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut features: Vec<_> = status["features"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(text)
            .collect();
        features.sort_unstable();
        Some(Self {
            name: text(&metadata["name"])?,
            uid: text(&metadata["uid"])?,
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            node: text(&spec["nodeName"]).or_else(|| text(&metadata["labels"][NODE_LABEL]))?,
            node_uid: owners
                .into_iter()
                .find(|owner| owner["kind"] == "Node")
                .and_then(|owner| text(&owner["uid"])),
            policy: text(&spec["policy"]).or_else(|| text(&metadata["labels"][POLICY_LABEL]))?,
            policy_uid: text(&spec["policyUid"]),
            wanted: Wanted::of(&spec["wanted"]),
            has_granted: spec["granted"].is_object(),
            values: serde_json::from_value(spec["granted"]["values"].clone()).ok(),
            is_deleted: !metadata["deletionTimestamp"].is_null(),
            observed: status["observedGeneration"].as_i64(),
            phase,
            failure: failing.and_then(line),
            conflict: conflict.and_then(line),
            features,
        })
    }
}

fn short(text: &str) -> String {
    let end = (0..=FAILURE)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or_default();
    if text.len() > FAILURE {
        format!("{}…", &text[..end])
    } else {
        text.to_owned()
    }
}

/// The name of the enactment of a policy on a node.
pub fn enactment_name(policy: &str, node: &str) -> String {
    format!("{node}.{policy}")
}
