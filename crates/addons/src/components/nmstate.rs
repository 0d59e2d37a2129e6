//! The configuration of the nodes' networks: an NMState, which another domain of Weft serves.

use weft_plan::{Facts, Manifest, ManifestError, Notice, kinds, parse_yaml};

use crate::fill::Effective;

/// The unit, named like its field.
pub(crate) const UNIT: &str = "nmstate";

const FILE: &str = include_str!("../../../../components/nmstate/of-addons.yaml");
/// Reports whether there is something to make: it is asked for, the cluster knows the kind, and
/// nobody else has said how the agent is to be.
pub(crate) fn is_ours(effective: &Effective, facts: &Facts) -> bool {
    effective.nmstate && facts.serves(kinds::NMSTATE) && facts.foreign_nmstates.is_empty()
}

/// The NMState, with every default.
pub(crate) fn objects() -> Result<Vec<Manifest>, ManifestError> {
    parse_yaml(FILE)
}

/// Why nothing is made though it is asked for: another domain serves it, which may not be
/// installed, or somebody has asked it already. The add-ons are Available all the same.
pub(crate) fn notice(effective: &Effective, facts: &Facts) -> Option<Notice> {
    let message = if !facts.serves(kinds::NMSTATE) {
        format!(
            "is not deployed: the cluster does not know {}. Install the operator of the nodes' networks. This prints the command: weft status --domains node-network",
            kinds::NMSTATE.definition()
        )
    } else {
        let names: Vec<_> = facts.foreign_nmstates.iter().map(String::as_str).collect();
        format!(
            "is deployed as NMState {} says, which counts: Weft makes none for this field",
            names.join(", ")
        )
    };
    (effective.nmstate && !is_ours(effective, facts)).then(|| Notice {
        about: UNIT.to_owned(),
        message,
    })
}
