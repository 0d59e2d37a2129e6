//! Documents of `nmstate.io`: what is wrong with them, and what policies would change on nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use weft_api::node_network::{
    NODE_LABEL, NodeNetworkConfigurationPolicySpec, POLICY_LABEL, enactment, policy, state,
};
use weft_node_network::{
    check, kernel_subset,
    normalise::{FILTERED, Filter},
    notes,
    plan::{Done, Metadata, Node, Plan, plan},
    review,
    rollout::{Predicted, predict, view::addresses_of},
    state::remove_additions,
};
use weft_plan::{Kind, Live, Notice, Problem, applied, kinds};

use crate::{online::Online, output::Style, sources::Source};

/// Returns the refusals of operator and agents for an object of `nmstate.io`, beyond those of its
/// definition.
pub fn problems(object: &Value) -> Vec<Problem> {
    match object["kind"].as_str() {
        Some(policy::KIND) => match spec(object) {
            Ok(spec) => review::policy(&name(object), &spec),
            // The check by schema reports a wrong form.
            Err(_) => Vec::new(),
        },
        Some(state::KIND) if !object["spec"]["desiredState"].is_null() => {
            check::desired_state("spec.desiredState", &object["spec"]["desiredState"], false)
        }
        _ => Vec::new(),
    }
}

/// Returns the hints about an object of `nmstate.io` that need no host.
pub fn notices(object: &Value) -> Vec<Notice> {
    if !matters(object) {
        return Vec::new();
    }
    notes::desired_state("spec.desiredState", &object["spec"]["desiredState"])
}

/// Reports whether an object changes nodes' networks when it is applied.
pub fn matters(object: &Value) -> bool {
    object["kind"] == policy::KIND || object["kind"] == state::KIND
}

fn spec(policy: &Value) -> Result<NodeNetworkConfigurationPolicySpec> {
    let spec = if policy["spec"].is_null() {
        Value::Object(serde_json::Map::new())
    } else {
        policy["spec"].clone()
    };
    serde_json::from_value(spec)
        .with_context(|| format!("{} {} cannot be read", policy::KIND, name(policy)))
}

fn name(object: &Value) -> String {
    Live::of(object).name().to_owned()
}

/// A policy, and the generation that it has in the cluster unless it would change.
struct Policy {
    generation: Option<i64>,
    spec: NodeNetworkConfigurationPolicySpec,
    /// The object, with the status that it has in the cluster.
    object: Value,
}

/// The result of a policy on a finished node.
struct OfPolicy {
    policy: String,
    generation: Option<i64>,
    done: Done,
}

/// A node that reports its network.
#[derive(Default)]
struct Reported {
    /// The node, without its network.
    node: Node,
    /// Its network as JSON. A text needs a tenth of the memory of a value, and a plan looks at one
    /// node after the other.
    network: String,
    /// The addresses in it.
    addresses: BTreeSet<IpAddr>,
}

impl Reported {
    fn network(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.network).unwrap_or_default()
    }
}

/// Nodes, and the policies that are there.
#[derive(Default)]
pub struct Nodes {
    nodes: BTreeMap<String, Reported>,
    metadata: BTreeMap<String, Metadata>,
    policies: BTreeMap<String, Policy>,
    /// By the name of the node.
    done: BTreeMap<String, Vec<OfPolicy>>,
    /// Notes about the nodes and policies.
    pub notes: Vec<String>,
}

impl Nodes {
    /// Reads a cluster.
    ///
    /// # Errors
    /// The API server refuses a request, or does not know the kinds.
    pub async fn of_cluster(online: &Online) -> Result<Self> {
        let mut nodes = Self::default();
        for kind in [
            kinds::NODE_NETWORK_STATE,
            kinds::NODE,
            kinds::NODE_NETWORK_CONFIGURATION_POLICY,
            kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
        ] {
            for object in list(online, kind).await? {
                nodes.add(object, kind.kind)?;
            }
        }
        if !nodes.are_reported() {
            return Err(nothing_reported());
        }
        Ok(nodes)
    }

    /// Reads files: NodeNetworkStates, Nodes for their labels and annotations, and existing policies
    /// with their enactments, also in lists.
    ///
    /// # Errors
    /// A file is no YAML, or there is no NodeNetworkState in them.
    pub fn of_files(sources: &[Source]) -> Result<Self> {
        let mut nodes = Self::default();
        each_object(sources, |object, kind| nodes.add(object, kind))?;
        nodes.must_be_reported(sources)?;
        Ok(nodes)
    }

    /// Refuses files without a NodeNetworkState.
    ///
    /// # Errors
    /// There is none.
    pub fn must_be_reported(&self, sources: &[Source]) -> Result<()> {
        if !self.are_reported() {
            let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            bail!(
                "{}: there is no NodeNetworkState in it; write them to a file: kubectl get nns,nodes,nncp,nnce -o yaml",
                names.join(", ")
            );
        }
        Ok(())
    }

    /// Adds an object of this kind. An object of another kind says nothing here.
    ///
    /// # Errors
    /// A policy cannot be read.
    pub fn add(&mut self, mut object: Value, kind: &str) -> Result<()> {
        let name = name(&object);
        match kind {
            state::KIND => {
                let reported = self.nodes.entry(name.clone()).or_default();
                reported.addresses = addresses_of(&object);
                let network = object.pointer_mut("/status/currentState");
                let mut network = network.map(Value::take).unwrap_or_default();
                remove_additions(&mut network);
                reported.network = network.to_string();
                let node = &mut reported.node;
                node.name = name.clone();
                node.own =
                    Some(object["spec"]["desiredState"].clone()).filter(|own| !own.is_null());
                if object["spec"]["managed"] == false {
                    self.notes.push(format!(
                        "{name} is not managed (spec.managed is false): nothing is changed there"
                    ));
                }
                let condition = |kind: &str| {
                    let conditions = object["status"]["conditions"].as_array();
                    conditions
                        .into_iter()
                        .flatten()
                        .find(|condition| condition["type"] == kind)
                };
                node.kernel = condition("Backend")
                    .is_some_and(|backend| backend["reason"] == kernel_subset::KERNEL);
                let complete = condition("Complete");
                node.filter = complete
                    .filter(|complete| complete["reason"] == FILTERED)
                    .map(|complete| {
                        Filter::of_words(complete["message"].as_str().unwrap_or_default())
                    });
                let cut = complete.filter(|complete| complete["status"] == "False");
                node.partial = cut.is_some();
                if let Some(cut) = cut {
                    self.notes.push(format!(
                        "{name} does not report all of its network: {}",
                        cut["message"].as_str().unwrap_or_default()
                    ));
                }
            }
            "Node" => {
                self.metadata.insert(name, Metadata::of(&object));
            }
            policy::KIND => {
                drop(self.policies.insert(
                    name,
                    Policy {
                        generation: object["metadata"]["generation"].as_i64(),
                        spec: spec(&object)?,
                        object,
                    },
                ));
            }
            enactment::KIND => {
                if let Some((node, done)) = done(&object) {
                    self.done.entry(node).or_default().push(done);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// With these objects as they would be applied, or without the policies that would be deleted.
    ///
    /// # Errors
    /// A policy cannot be read, or a state is of a node that nothing is known of.
    pub fn change(&mut self, objects: &[&Value], delete: bool) -> Result<()> {
        for object in objects {
            let name = name(object);
            if object["kind"] == state::KIND {
                let Some(reported) = self.nodes.get_mut(&name) else {
                    bail!("nothing is known of the network of a node {name}")
                };
                reported.node.own = Some(object["spec"]["desiredState"].clone())
                    .filter(|own| !own.is_null() && !delete);
            } else if !delete {
                let there = self.policies.get(&name);
                let object = match there {
                    Some(there) => applied(
                        object,
                        Some(&there.object),
                        kinds::NODE_NETWORK_CONFIGURATION_POLICY,
                    ),
                    None => (*object).clone(),
                };
                let spec = spec(&object)?;
                let generation = there
                    .filter(|there| there.spec == spec)
                    .and_then(|there| there.generation);
                let policy = Policy {
                    generation,
                    spec,
                    object,
                };
                self.policies.insert(name, policy);
            } else if let Some(policy) = self.policies.remove(&name) {
                self.notes.push(match policy.spec.on_delete.as_deref() {
                    Some("revert") => {
                        format!("policy {name}: each node goes back to what its agent has noted down before (spec.onDelete is revert)")
                    }
                    _ => format!("policy {name}: what it has configured stays on the nodes (spec.onDelete is not revert)"),
                });
            }
        }
        Ok(())
    }

    /// The plan of each node. A node's network is in memory only while its plan is made.
    pub fn plans(&self) -> impl Iterator<Item = Plan> {
        let policies = self.specs();
        let silent: Vec<Plan> = self
            .silent()
            .filter_map(|(node, labels)| Plan::unknown(node, labels, &policies))
            .collect();
        self.reported(|_| true)
            .map(move |node| plan(&node, &policies))
            .chain(silent)
    }

    /// Returns those of the nodes that report their network whose name is meant, by name.
    pub fn reported(&self, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = Node> {
        let mut addresses = self.addresses();
        self.nodes
            .iter()
            .filter(move |(name, _)| is_meant(name))
            .map(move |(name, reported)| Node {
                current: reported.network(),
                metadata: self.metadata.get(name).cloned(),
                done: self.done_on(name),
                addresses: addresses.remove(name).unwrap_or_default(),
                ..reported.node.clone()
            })
    }

    /// Returns true if a node reports its network.
    pub fn are_reported(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Returns the names of all nodes.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys().chain(self.silent().map(|(name, _)| name))
    }

    /// Returns the addresses that nodes have or would get, by node and policy.
    fn addresses(&self) -> BTreeMap<String, BTreeMap<String, Predicted>> {
        let has_pools = |policy: &Policy| policy.spec.address_pools.is_some();
        if !self.policies.values().any(has_pools) {
            return BTreeMap::new();
        }
        let policies = self.policies.iter();
        let nodes = self.metadata.iter().map(|(name, known)| {
            let node = json!({"metadata": {"name": name, "labels": known.labels}});
            (name.clone(), node)
        });
        let reported = self
            .nodes
            .iter()
            .map(|(name, reported)| (name.clone(), reported.addresses.clone()));
        predict(
            &policies
                .map(|(name, policy)| (name.clone(), policy.object.clone()))
                .collect(),
            &nodes.collect(),
            &reported.collect(),
        )
    }

    /// Returns the names and labels of the nodes that do not report their network.
    pub fn silent(&self) -> impl Iterator<Item = (&String, &BTreeMap<String, String>)> {
        self.metadata
            .iter()
            .filter(|(node, _)| !self.nodes.contains_key(*node))
            .map(|(node, known)| (node, &known.labels))
    }

    /// Returns the specifications of the policies, by name.
    pub fn specs(&self) -> BTreeMap<String, NodeNetworkConfigurationPolicySpec> {
        self.policies
            .iter()
            .map(|(name, policy)| (name.clone(), policy.spec.clone()))
            .collect()
    }

    fn done_on(&self, node: &str) -> BTreeMap<String, Done> {
        let is_current = |of: &&OfPolicy| {
            let generation = self
                .policies
                .get(&of.policy)
                .and_then(|policy| policy.generation);
            generation.is_some() && generation == of.generation
        };
        self.done
            .get(node)
            .into_iter()
            .flatten()
            .filter(is_current)
            .map(|of| (of.policy.clone(), of.done.clone()))
            .collect()
    }
}

/// Returns an error that no node of a cluster reports its network, with the way out.
pub fn nothing_reported() -> anyhow::Error {
    anyhow::anyhow!(
        "no node reports its network yet: there is no NodeNetworkState. Is the agent deployed? kubectl get nmstates,pods -A -l component=kubernetes-nmstate-handler"
    )
}

/// Returns an error that a cluster does not know a kind of `nmstate.io`, with the way out.
pub async fn unknown_kind(online: &Online, kind: Kind) -> anyhow::Error {
    let install = online.how_to_install("node-network").await;
    anyhow::anyhow!(
        "the cluster does not know {} ({}); {install}",
        kind.kind,
        kind.api_version()
    )
}

/// Calls `take` with each object of these files, and its kind. Of JSON, one object after the other
/// is in memory.
///
/// # Errors
/// A file is no YAML, or `take` refuses an object.
pub fn each_object(
    sources: &[Source],
    mut take: impl FnMut(Value, &str) -> Result<()>,
) -> Result<()> {
    for source in sources {
        for object in weft_documents::each_object(&source.text) {
            let object = object.map_err(|error| {
                let line = error
                    .position
                    .map(|position| format!(":{}:{}", position.line, position.column))
                    .unwrap_or_default();
                anyhow::anyhow!(
                    "{}{line} is not readable as YAML: {}",
                    source.name,
                    error.message
                )
            })?;
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            take(object, &kind)?;
        }
    }
    Ok(())
}

/// The node's name and the result. `None` where a policy is not done.
fn done(enactment: &Value) -> Option<(String, OfPolicy)> {
    let (labels, status) = (&enactment["metadata"]["labels"], &enactment["status"]);
    let granted = &enactment["spec"]["granted"];
    let conditions = status["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == "Available" && condition["status"] == "True")?;
    let node = labels[NODE_LABEL].as_str()?.to_owned();
    let captures = status["capturedStates"].as_object().into_iter().flatten();
    let done = Done {
        desired: Some(&status["desiredState"])
            .filter(|desired| desired.is_object())?
            .clone(),
        captures: captures
            .map(|(name, captured)| (name.clone(), captured["state"].clone()))
            .collect(),
        values: serde_json::from_value(granted["values"].clone()).unwrap_or_default(),
    };
    let of_policy = OfPolicy {
        policy: labels[POLICY_LABEL].as_str()?.to_owned(),
        generation: status["policyGeneration"].as_i64(),
        done,
    };
    Some((node, of_policy))
}

async fn list(online: &Online, kind: Kind) -> Result<Vec<Value>> {
    match online.cluster.list(kind, None, "").await {
        Ok(objects) => Ok(objects),
        Err(error) if error.is_not_found() => Err(unknown_kind(online, kind).await),
        Err(error) => Err(online.explain(error)),
    }
}

/// A plan for people.
pub fn text(plan: &Plan, style: Style) -> String {
    let text = plan.text();
    let mut lines = text.lines();
    let mut out = format!("{}\n", style.bold(lines.next().unwrap_or_default()));
    for line in lines {
        let painted = match line.trim_start().chars().next() {
            Some('+') => style.good(line),
            Some('-' | '!') => style.bad(line),
            Some('~' | '?') => style.pending(line),
            _ => line.to_owned(),
        };
        out.push_str(&painted);
        out.push('\n');
    }
    out
}
