//! The configuration of the nodes' networks: an NMState, which another domain of Weft serves.

use weft_plan::{Facts, Manifest, ManifestError, Notice, ObjectKey, kinds, parse_yaml};

use crate::fill::Effective;

/// The unit, named like its field.
pub(crate) const UNIT: &str = "nmstate";

const FILE: &str = include_str!("../../../../components/nmstate/of-addons.yaml");
/// The name of the NMState.
const NAME: &str = "cluster-network-addons";

/// Whether there is something to make: it is asked for, and nobody else has said how the agent is to be.
pub(crate) fn is_ours(effective: &Effective, facts: &Facts) -> bool {
    effective.nmstate && facts.foreign_nmstates.is_empty()
}

/// The NMState, with every default.
pub(crate) fn objects() -> Result<Vec<Manifest>, ManifestError> {
    parse_yaml(FILE)
}

/// What the cluster lacks for it, and the way out.
pub(crate) fn lacks(effective: &Effective, facts: &Facts) -> Option<(ObjectKey, String)> {
    let message = format!(
        "the cluster does not know {}: install the operator of the nodes' networks, weft manifests --domains node-network | kubectl apply -f -",
        kinds::NMSTATE.definition()
    );
    (is_ours(effective, facts) && !facts.serves(kinds::NMSTATE)).then(|| (ObjectKey::new(kinds::NMSTATE, "", NAME), message))
}

/// That somebody else says how the agent is to be, where it is asked for here, too.
pub(crate) fn notice(effective: &Effective, facts: &Facts) -> Option<Notice> {
    let names: Vec<_> = facts.foreign_nmstates.iter().map(String::as_str).collect();
    let message = format!("is deployed as NMState {} says, which counts: Weft makes none for this field", names.join(", "));
    (effective.nmstate && !names.is_empty()).then(|| Notice { about: UNIT.to_owned(), message })
}
