//! Everything that a picture of nodes' networks is made of, from a cluster or from files.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;
use weft_api::node_network::{enactment, policy, state};
use weft_node_network::{
    graph::{
        Known, graph,
        model::NodeGraph,
        pods::{self, Networks, PodInterface},
        policies::OnNode,
    },
    rollout::{Enactment, Policy},
};
use weft_plan::{Kind, Live, kinds};
use weft_runtime::inspect::reader::{Listed, Reader};

use crate::{
    nodes::{self, Nodes},
    online::Online,
    sources::Source,
};

/// Everything that is known about the nodes.
#[derive(Default)]
pub struct Everything {
    nodes: Nodes,
    policies: BTreeMap<String, Policy>,
    /// By the name of the policy.
    enactments: BTreeMap<String, Vec<Value>>,
    pods: Vec<PodInterface>,
    networks: Networks,
    unread: Vec<String>,
}

impl Everything {
    /// Reads files: NodeNetworkStates, and Nodes, policies, enactments, pods and
    /// NetworkAttachmentDefinitions next to them, also in lists.
    ///
    /// # Errors
    /// A file is no YAML, or there is no NodeNetworkState in them.
    pub fn of_files(sources: &[Source]) -> Result<Self> {
        let mut everything = Self::default();
        nodes::each_object(sources, |object, kind| everything.add(object, kind))?;
        everything.nodes.must_be_reported(sources)?;
        Ok(everything)
    }

    /// Reads a cluster, as far as the user may look. Of the pods it reads those on these nodes, on
    /// all if there are none, and no pod at all unless `with_pods`.
    ///
    /// # Errors
    /// The cluster cannot be reached, does not know the kinds, or no node reports its network.
    pub async fn of_cluster(online: &Online, names: &[String], with_pods: bool) -> Result<Self> {
        let mut everything = Self::default();
        let reader = Reader::tolerant(&online.cluster);
        let explain = |error| online.explain(error);
        for kind in [
            kinds::NODE_NETWORK_STATE,
            kinds::NODE_NETWORK_CONFIGURATION_POLICY,
            kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
            kinds::NODE,
            kinds::NETWORK_ATTACHMENT_DEFINITION,
        ] {
            // Without pods, nothing is on these networks.
            if kind == kinds::NETWORK_ATTACHMENT_DEFINITION && !with_pods {
                continue;
            }
            match reader.list_if_served(kind, None).await.map_err(explain)? {
                Listed::Objects(objects) => everything.add_all(objects, kind)?,
                Listed::NotServed if kind == kinds::NODE_NETWORK_STATE => {
                    return Err(nodes::unknown_kind(online, kind).await);
                }
                Listed::NotServed | Listed::NotPermitted => {}
            }
        }
        let mut queries: Vec<String> = names
            .iter()
            .map(|name| format!("fieldSelector=spec.nodeName%3D{name}"))
            .collect();
        if queries.is_empty() {
            queries.push(String::new());
        }
        for query in queries.iter().filter(|_| with_pods) {
            let pods = reader
                .list(kinds::POD, None, query)
                .await
                .map_err(explain)?;
            everything.add_all(pods, kinds::POD)?;
        }
        let unread = reader.unread();
        if let Some(((kind, _), message)) = unread
            .iter()
            .find(|((kind, _), _)| *kind == kinds::NODE_NETWORK_STATE)
        {
            anyhow::bail!(
                "you may not read {}: {message}. The ClusterRole view is enough",
                kind.plural
            );
        }
        everything.unread = unread
            .keys()
            .map(|(kind, _)| kind.plural.to_owned())
            .collect();
        if !everything.nodes.are_reported() {
            return Err(nodes::nothing_reported());
        }
        Ok(everything)
    }

    fn add_all(&mut self, objects: Vec<Value>, kind: Kind) -> Result<()> {
        objects
            .into_iter()
            .try_for_each(|object| self.add(object, kind.kind))
    }

    fn add(&mut self, object: Value, kind: &str) -> Result<()> {
        match kind {
            policy::KIND => {
                let name = Live::of(&object).name().to_owned();
                self.policies.insert(name, Policy::of(&object));
            }
            enactment::KIND => {
                if let Some(found) = Enactment::of(&object) {
                    self.enactments
                        .entry(found.policy)
                        .or_default()
                        .push(object.clone());
                }
            }
            "Pod" => self.pods.extend(pods::interfaces(&object)),
            "NetworkAttachmentDefinition" => self.networks.add(&object),
            _ => {}
        }
        self.nodes.add(object, kind)
    }

    /// With these policies and states as if they had been applied just now.
    ///
    /// # Errors
    /// A policy cannot be read, or a state is of an unknown node.
    pub fn change(&mut self, objects: &[&Value]) -> Result<()> {
        for object in objects
            .iter()
            .filter(|object| object["kind"] != state::KIND)
        {
            // No agent has seen it yet.
            self.enactments.remove(Live::of(object).name());
        }
        self.nodes.change(objects, false)
    }

    /// Leaves out the interfaces of pods.
    pub fn forget_pods(&mut self) {
        self.pods.clear();
    }

    /// Returns the names of all nodes.
    pub fn names(&self) -> BTreeSet<String> {
        self.nodes.names().cloned().collect()
    }

    /// Returns texts for the user that belong to no node.
    pub fn notes(&self) -> Vec<String> {
        let unread = match self.unread.is_empty() {
            true => None,
            false => Some(format!(
                "not shown, since you may not read it: {}",
                self.unread.join(", ")
            )),
        };
        self.nodes.notes.iter().cloned().chain(unread).collect()
    }

    /// Returns the pictures of these nodes, by name.
    pub fn graphs(&self, names: &BTreeSet<String>) -> Vec<NodeGraph> {
        let specs = self.nodes.specs();
        let mut reports: BTreeMap<String, Vec<OnNode>> = BTreeMap::new();
        for (name, policy) in &self.policies {
            for enactment in self.enactments.get(name).into_iter().flatten() {
                if let Some(report) = OnNode::read(name, policy, enactment) {
                    reports.entry(report.node.clone()).or_default().push(report);
                }
            }
        }
        let mut pods: BTreeMap<&str, Vec<PodInterface>> = BTreeMap::new();
        for pod in &self.pods {
            pods.entry(&pod.node).or_default().push(pod.clone());
        }
        let reported = self.nodes.reported(|name| names.contains(name));
        let mut graphs: Vec<NodeGraph> = reported
            .map(|node| {
                graph(&Known {
                    node: &node,
                    policies: &specs,
                    reports: reports
                        .get(&node.name)
                        .map(Vec::as_slice)
                        .unwrap_or_default(),
                    pods: pods
                        .get(node.name.as_str())
                        .map(Vec::as_slice)
                        .unwrap_or_default(),
                    networks: &self.networks,
                })
            })
            .collect();
        let silent = self
            .nodes
            .silent()
            .filter(|(name, _)| names.contains(*name));
        graphs.extend(silent.map(|(name, _)| NodeGraph::unreported(name)));
        graphs.sort_by(|left, right| left.node.cmp(&right.node));
        graphs
    }
}
