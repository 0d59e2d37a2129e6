//! One policy on one node: its desired state in nmstate's terms.

use crate::{
    bridge, capture,
    capture::{CaptureError, Captures},
    interfaces::{self, MatchError},
    secrets::{self, SecretError},
    state::{self, StateError},
    translate::{TranslateError, translate},
};
use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;

/// A policy that makes no desired state on a node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// Early spellings beside today's, and what never worked.
    #[error("spec.desiredState: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Translate(Vec<TranslateError>),
    /// The match of interfaces.
    #[error(transparent)]
    Match(#[from] MatchError),
    /// A capture, or a reference to one.
    #[error("failure generating desiredState and capturedStates: {0}")]
    Capture(#[from] CaptureError),
    /// A reference to a secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// What nmstate does not take.
    #[error("spec.desiredState: {0}")]
    State(#[from] StateError),
}

/// What a policy makes of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The desired state; references to secrets are still in it.
    pub desired: Value,
    /// What was captured.
    pub captures: Captures,
}

/// Renders a policy on the state of a node: early spellings, interfaces that match, captures, the VLANs of bridges' ports. The result is
/// one that nmstate can read.
pub fn render(spec: &Spec, current: &Value) -> Result<Rendered, RenderError> {
    let wanted = spec.desired_state.clone().unwrap_or_else(state::empty);
    let translated = translate(&wanted).map_err(RenderError::Translate)?;
    let expanded = interfaces::expand(spec, &translated, current)?;
    let captures = match &spec.capture {
        Some(rules) => capture::execute(rules, current)?,
        None => Captures::new(),
    };
    let desired = bridge::default_vlans(capture::fill(&expanded, &captures)?);
    state::parse(&secrets::conceal(&desired)?)?;
    Ok(Rendered { desired, captures })
}

/// Renders a node's own `spec.desiredState`: early spellings only; everything in it is said by name.
pub fn own(desired: &Value) -> Result<Value, RenderError> {
    let translated = translate(desired).map_err(RenderError::Translate)?;
    state::parse(&secrets::conceal(&translated)?)?;
    Ok(translated)
}
