//! One policy on one node: its desired state in nmstate's terms.

use crate::{
    bond,
    bonding::Part,
    bridge, capture,
    capture::{CaptureError, Captures},
    interfaces,
    matching::MatchError,
    secrets::{self, SecretError},
    state,
    state_error::StateError,
    template::{self, TemplateError},
    translate::{TranslateError, translate},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weft_api::node_network::{NodeNetworkConfigurationPolicySpec as Spec, NodeValues};

/// A policy that makes no desired state on a node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// Early spellings next to today's, and what never worked.
    #[error("spec.desiredState: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Translate(Vec<TranslateError>),
    /// The match of interfaces.
    #[error(transparent)]
    Match(#[from] MatchError),
    /// A capture.
    #[error("failure generating desiredState and capturedStates: {0}")]
    Capture(#[from] CaptureError),
    /// A reference to a capture or to a value of the node.
    #[error("failure generating desiredState and capturedStates: {0}")]
    Template(#[from] TemplateError),
    /// A reference to a secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A capture whose secret is only known without its value.
    #[error(
        "a capture of the policy has found a secret, and its value is in the agent's folder no more: set the annotation weft.network/retry of the policy to carry its captures out again"
    )]
    Hidden,
    /// A state that nmstate refuses.
    #[error("spec.desiredState: {0}")]
    State(#[from] StateError),
}

/// The result of a policy on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The desired state. References to secrets are still in it.
    pub desired: Value,
    /// The results of captures.
    pub captures: Captures,
    /// The part of each card in automatic bonding. Empty if the policy does not ask for it.
    pub cards: BTreeMap<String, Part>,
}

impl Rendered {
    /// The ports that leave their bonds when they have been in doubt for [`GRACE`](crate::bonding::GRACE).
    pub fn in_doubt(&self) -> impl Iterator<Item = &str> {
        self.cards
            .iter()
            .filter(|(_, part)| matches!(part, Part::InDoubt { .. }))
            .map(|(card, _)| card.as_str())
    }
}

/// The things that a policy is rendered with, next to the state of the node.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The values of the node that the desired state refers to.
    pub values: NodeValues,
    /// The ports that leave their bonds: those [in doubt](Rendered::in_doubt) for
    /// [`GRACE`](crate::bonding::GRACE).
    pub leaving: BTreeSet<String>,
    /// The results of captures that were carried out before and stay. `None`: they are carried out.
    pub captures: Option<Captures>,
}

/// Renders a policy on the state of a node: early spellings, interfaces that match, bonds that
/// follow from what neighbors announce, captures and values of the node, the VLANs of bridges'
/// ports. The result is one that nmstate can read.
///
/// # Errors
/// The policy makes no desired state on this node.
pub fn render(spec: &Spec, current: &Value, given: &Given) -> Result<Rendered, RenderError> {
    let nothing = state::empty();
    let wanted = spec.desired_state.as_ref().unwrap_or(&nothing);
    let translated = translate(wanted).map_err(RenderError::Translate)?;
    let (expanded, cards) = interfaces::expand(spec, &translated, current, &given.leaving)?;
    let captures = match (&spec.capture, &given.captures) {
        (Some(_), Some(kept)) => kept.clone(),
        (Some(rules), None) => capture::execute(rules, current)?,
        (None, _) => Captures::new(),
    };
    let filled = template::fill(&expanded, &captures, &given.values)?;
    let desired = bond::named(bridge::default_vlans(filled));
    state::check(&secrets::conceal(&desired)?)?;
    Ok(Rendered {
        desired,
        captures,
        cards,
    })
}

/// Returns the interfaces with the name and type of the policy's match that would need LLDP and do
/// not receive it. None if the policy does not match by LLDP, or cannot be read.
pub fn without_neighbors(spec: &Spec, current: &Value) -> BTreeMap<String, Part> {
    interfaces::without_neighbors(spec, current)
}

/// Renders a node's own `spec.desiredState`: early spellings only. Everything in it is said by
/// name.
pub fn own(desired: &Value) -> Result<Value, RenderError> {
    let translated = translate(desired).map_err(RenderError::Translate)?;
    state::check(&secrets::conceal(&translated)?)?;
    Ok(bond::named(translated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(spec: Value) -> Result<Rendered, RenderError> {
        let current = json!({
            "interfaces": [
                {"name": "eth1", "type": "ethernet", "state": "up"},
                {"name": "eth2", "type": "ethernet", "state": "up"}
            ]
        });
        let given = Given {
            values: NodeValues {
                name: Some("node-1".to_owned()),
                ..NodeValues::default()
            },
            ..Given::default()
        };
        render(&serde_json::from_value(spec).unwrap(), &current, &given)
    }

    #[test]
    fn all_steps_are_taken_in_turn() {
        let policy = json!({
            "match": {"interfaces": {"name": "eth2"}},
            "capture": {"first": "interfaces.name==eth1"},
            "desiredState": {"interfaces": [
                {
                    "ipv6": {"enabled": true, "autoConf": true},
                    "802.1x": {
                        "identity": "node", "eap-methods": ["md5"],
                        "password": {"secretRef": {"name": "wire", "key": "password"}}
                    }
                },
                {
                    "name": "br1", "type": "linux-bridge", "state": "up",
                    "description": "of {{ node.name }}",
                    "bridge": {"port": [{"name": "{{ capture.first.interfaces.0.name }}"}]}
                },
            ]},
        });
        let Rendered {
            desired, captures, ..
        } = rendered(policy).unwrap();
        assert_eq!(desired["interfaces"][0]["name"], "eth2");
        assert_eq!(desired["interfaces"][0]["type"], "ethernet");
        assert_eq!(desired["interfaces"][0]["ipv6"]["autoconf"], true);
        assert_eq!(
            desired["interfaces"][0]["802.1x"]["password"]["secretRef"]["name"], "wire",
            "secrets stay where they are"
        );
        assert_eq!(
            desired["interfaces"][1]["bridge"]["port"][0]["name"],
            "eth1"
        );
        assert_eq!(
            desired["interfaces"][1]["bridge"]["port"][0]["vlan"]["mode"],
            "trunk"
        );
        assert_eq!(desired["interfaces"][1]["description"], "of node-1");
        assert_eq!(captures.len(), 1);
        assert_eq!(rendered(json!({})).unwrap().desired, json!({}));
    }

    #[test]
    fn each_step_can_refuse() {
        for (spec, message) in [
            (
                json!({"desiredState": {"interfaces": [{"mtu": 1500}]}}),
                "spec.match.interfaces",
            ),
            (
                json!({
                    "desiredState": {"interfaces": [{"name": "x", "vlanID": 1, "vlan": {"id": 2}}]}
                }),
                "two spellings",
            ),
            (
                json!({"capture": {"a": "interfaces.name==eth7"}, "desiredState": {}}),
                "failure generating desiredState and capturedStates: spec.capture.a",
            ),
            (
                json!({"desiredState": {"interfaces": [{"name": "eth1", "mut": 1500}]}}),
                "spec.desiredState: interfaces[eth1].mut is not known to nmstate",
            ),
            (
                json!({
                    "desiredState": {"interfaces": [{"name": "eth1", "mtu": {"secretRef": {}}}]}
                }),
                "a reference to a secret is written",
            ),
        ] {
            let error = rendered(spec).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
