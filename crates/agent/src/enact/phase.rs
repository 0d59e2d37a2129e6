//! The phases of failures that are no transaction's, and the conditions in an enactment's status.

use weft_api::node_network::NodeNetworkConfigurationEnactmentStatus as Status;

/// The phase of a policy whose state cannot be rendered for this node.
pub(super) const RENDER: &str = "Render";
/// The phase of a policy whose captures have found a secret that the agent has lost. Captures of now
/// would find something else, so only a person may have them carried out again.
pub(super) const CAPTURE: &str = "Capture";
/// The phase of policies that contradict each other.
pub(super) const CONFLICT: &str = "Conflict";
/// The phase of a change that waits for NetworkManager.
pub(super) const BACKEND: &str = "Backend";

/// Reports whether the condition of this type has the status `True`.
pub(super) fn is_true(status: &Status, type_: &str) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}
