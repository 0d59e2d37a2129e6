//! All that is wrong with a policy: what its fields say, and what stands in its desired state and
//! its captures.
//!
//! What a file is checked for, the operator checks in what is stored: an object may be older than
//! the rules, or hold what they cannot express.

use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;
use weft_plan::Problem;

use crate::{check, validate};

/// What is wrong with a policy of this name; nothing, if it is empty.
pub fn policy(name: &str, spec: &Spec) -> Vec<Problem> {
    [validate::policy(name, spec), check::policy("spec", spec)].concat()
}
