//! Rules that the schema cannot hold: CEL in a definition does not see the namespace of the object.
//! An admission policy does.

use serde_json::Value;

use super::{GROUP, PLURAL, VERSION, accounts};
use crate::admission::{SpecificationPolicy, refused};

/// The refused requests.
pub fn admission() -> Vec<Value> {
    let policy = SpecificationPolicy {
        name: "weft-placement",
        group: GROUP,
        versions: &[VERSION],
        plural: PLURAL,
        when: (
            "names-a-namespace",
            "has(object.spec) && has(object.spec.topologyRef) && has(object.spec.topologyRef.namespace) && object.spec.topologyRef.namespace != ''",
        ),
        variables: &[],
        validations: vec![refused(
            "object.spec.topologyRef.namespace == object.metadata.namespace",
            "spec.topologyRef.namespace: Invalid value: \"namespace\": Customizing namespace field is not supported: remove it, the Topology is looked for in the namespace of the PlacementAPI",
        )],
        action: "Deny",
    };
    [policy.objects(), accounts::policies()].concat()
}
