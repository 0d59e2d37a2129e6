//! All that is wrong with a policy: what its fields say, and what stands in its desired state and
//! its captures.
//!
//! The operator applies the checks of files to stored objects, too: an object may be older than the
//! rules, or break rules that a schema cannot express.

use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;
use weft_plan::Problem;

use crate::{check, validate};

/// Returns the mistakes in a policy of this name, or an empty list.
pub fn policy(name: &str, spec: &Spec) -> Vec<Problem> {
    [validate::policy(name, spec), check::policy("spec", spec)].concat()
}
