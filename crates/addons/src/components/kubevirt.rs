//! KubeVirt, which the programs of some components watch. They end where its kinds are missing.

use weft_plan::{Facts, KUBEVIRT};

/// The definition of virtual machines that run.
pub(crate) const INSTANCES: &str = KUBEVIRT[1];

/// Returns a text about the first of these definitions that the cluster does not have, and the way
/// out, for the component of this field.
pub(crate) fn lacks(facts: &Facts, definitions: &[&str], field: &str) -> Option<String> {
    let missing = definitions
        .iter()
        .find(|definition| !facts.definitions.contains(**definition))?;
    Some(format!(
        "waits for KubeVirt: the cluster does not have the definition {missing}, and the program ends without it. Install KubeVirt, and Weft continues; or remove spec.{field}"
    ))
}
