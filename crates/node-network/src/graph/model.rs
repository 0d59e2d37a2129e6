//! The content of a picture, without any form.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

/// How far something is from being as the policies want it, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Health {
    /// It is as the policies want it, or no policy wants anything of it.
    #[default]
    #[serde(rename = "ok")]
    Good,
    /// The node does not report it.
    #[serde(rename = "not-reported")]
    Unknown,
    /// A policy is being applied, or waits for its turn.
    #[serde(rename = "in-progress")]
    Pending,
    /// It differs from a policy that was applied.
    #[serde(rename = "drift")]
    Drift,
    /// A policy has failed.
    #[serde(rename = "failed")]
    Failed,
}

impl Health {
    /// All of them, from good to bad.
    pub const ALL: [Self; 5] = [
        Self::Good,
        Self::Unknown,
        Self::Pending,
        Self::Drift,
        Self::Failed,
    ];

    /// Returns the word for people. It always stands next to the colour.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Unknown => "not reported",
            Self::Pending => "in progress",
            Self::Drift => "drift",
            Self::Failed => "failed",
        }
    }

    /// Returns the sign for people, those of `weft plan` where it has one.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Good => "=",
            Self::Unknown => "?",
            Self::Pending => "…",
            Self::Drift => "~",
            Self::Failed => "!",
        }
    }
}

/// The change of a part that a policy wants, and that no agent has made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The node lacks the part.
    Added,
    /// Properties of the part differ.
    Changed,
    /// The part should not be there.
    Removed,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Added, Self::Changed, Self::Removed];

    /// Returns the words for people. They always stand next to the colour.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "will be added",
            Self::Changed => "will change",
            Self::Removed => "will be removed",
        }
    }

    /// Returns the sign for people. `~` is the sign of drift, so a change has that of
    /// [`Health::Pending`].
    pub fn sign(self) -> &'static str {
        match self {
            Self::Added => "+",
            Self::Changed => "…",
            Self::Removed => "-",
        }
    }
}

/// The sort of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A switch or another neighbor that a card of the node hears by LLDP.
    Switch,
    /// An interface of the node.
    Interface,
    /// A route.
    Route,
    /// An interface of a pod.
    Pod,
}

/// A property of a part, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// The property, for example `MTU`.
    pub label: &'static str,
    /// Its value.
    pub value: String,
}

impl fmt::Display for Fact {
    /// Writes the property in words. A value that says itself what it is stands alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label {
            "state" | "mode" | "address" | "addresses by" => f.write_str(&self.value),
            label => write!(f, "{label} {}", self.value),
        }
    }
}

/// A thing in the picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Identifies the part in the picture of its node, for example `interface/eth0`.
    pub id: String,
    /// The sort of the part.
    pub kind: Kind,
    /// The name that people know it by.
    pub name: String,
    /// The type of an interface in nmstate's words, for example `linux-bridge`. Empty for others.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its properties, in the order in which people read them.
    pub facts: Vec<Fact>,
    /// The owners of what is wanted of it: names of policies, or [`OWN`].
    pub policies: BTreeSet<String>,
    /// How far it is from being as the policies want it.
    pub health: Health,
    /// The change that policies will make of it. `None` if there is none, or if it has drifted or
    /// has failed already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The causes, if it is not as the policies want it.
    pub messages: Vec<String>,
}

/// The owner of what a NodeNetworkState wants in its own `spec.desiredState`.
pub const OWN: &str = "spec of the NodeNetworkState";

impl Part {
    /// Returns a part that no policy is behind.
    pub(crate) fn new(kind: Kind, id: String, name: String) -> Self {
        Self {
            id,
            kind,
            name,
            type_name: String::new(),
            facts: Vec::new(),
            policies: BTreeSet::new(),
            health: Health::Good,
            change: None,
            messages: Vec::new(),
        }
    }

    /// Notes a cause why the part is not as it should be.
    pub(crate) fn mark(&mut self, health: Health, message: String) {
        self.health = self.health.max(health);
        if self.health > Health::Pending {
            self.change = None;
        }
        if !self.messages.contains(&message) {
            self.messages.push(message);
        }
    }

    /// Returns its state, if a part has one: `up`, `down` or `missing`, for example.
    pub fn state(&self) -> Option<&str> {
        let state = self.facts.iter().find(|fact| fact.label == "state");
        state.map(|fact| fact.value.as_str())
    }

    /// Returns the word for its sort, for example `switch` or `linux-bridge`.
    pub fn sort(&self) -> &str {
        match self.kind {
            Kind::Switch => "switch",
            Kind::Interface if self.type_name.is_empty() => "interface",
            Kind::Interface => &self.type_name,
            Kind::Route => "route",
            Kind::Pod => "pod",
        }
    }
}

/// The sort of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// From a switch to a card.
    Cable,
    /// From a port to its bond, bridge or VRF.
    Port,
    /// From an interface to one on top of it, such as a VLAN.
    Base,
    /// Between the two ends of a pair.
    Peer,
    /// From an interface to a route through it.
    Route,
    /// From an interface to a pod's interface behind it.
    Pod,
}

/// A link of two parts. It leads away from the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Link {
    /// The part that is nearer to the wire, by its id.
    pub from: String,
    /// The other part, by its id.
    pub to: String,
    /// The sort of the link.
    pub kind: LinkKind,
    /// A text at the link, such as the port of a switch. Empty if there is nothing to say.
    pub label: String,
}

/// The state of a policy on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyState {
    /// The name of the policy, or [`OWN`].
    pub name: String,
    /// How far the node is from being as it wants.
    pub health: Health,
    /// The state in a word or two.
    pub state: &'static str,
    /// The causes.
    pub messages: Vec<String>,
}

/// The picture of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGraph {
    /// The name of the node.
    pub node: String,
    /// The worst state of its parts and policies.
    pub health: Health,
    /// Properties of the node itself, such as its name servers.
    pub facts: Vec<Fact>,
    /// The policies on the node, by name.
    pub policies: Vec<PolicyState>,
    /// The parts: those nearer to the wire are not always first.
    pub parts: Vec<Part>,
    /// The links between them. Both ends of each are in `parts`.
    pub links: Vec<Link>,
    /// Causes that concern no part, such as a node that reports nothing.
    pub messages: Vec<String>,
}

impl NodeGraph {
    /// Returns a node that reports nothing.
    pub fn unreported(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            health: Health::Unknown,
            facts: Vec::new(),
            policies: Vec::new(),
            parts: Vec::new(),
            links: Vec::new(),
            messages: vec![
                "the node has no NodeNetworkState, so its agent does not run or has not reported yet"
                    .to_owned(),
            ],
        }
    }

    /// Returns the part with this id.
    pub fn part(&self, id: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.id == id)
    }

    /// Returns how many parts are of this sort.
    pub fn count(&self, kind: Kind) -> usize {
        self.parts.iter().filter(|part| part.kind == kind).count()
    }
}
