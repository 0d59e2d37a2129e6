//! The definitions of all kinds, as `deploy/crds` has them.
//!
//! They are made from the types of `weft-api`, but not by this program: the code that makes them is
//! half a megabyte, which each operator would have in its memory. `build.rs` takes them in as JSON,
//! and a test holds them against the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// The definition of a kind.
#[derive(Clone, Copy)]
pub struct Definition(&'static str);

macro_rules! definition {
    ($name:literal) => {
        Definition(include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json")))
    };
}

pub const NETWORK_ADDONS_CONFIG: Definition =
    definition!("networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io");
pub const NETWORK_CONFIG: Definition = definition!("networkconfigs.networkoperator.openshift.io");
pub const NODE_NETWORK_STATE: Definition = definition!("nodenetworkstates.nmstate.io");
pub const NODE_NETWORK_CONFIGURATION_POLICY: Definition =
    definition!("nodenetworkconfigurationpolicies.nmstate.io");
pub const NODE_NETWORK_CONFIGURATION_ENACTMENT: Definition =
    definition!("nodenetworkconfigurationenactments.nmstate.io");
pub const NMSTATE: Definition = definition!("nmstates.nmstate.io");
pub const PLACEMENT_API: Definition = definition!("placementapis.placement.openstack.org");

impl Definition {
    /// The definition as a type.
    #[allow(clippy::expect_used)] // The text is this program's own, and a test reads each.
    pub fn read(self) -> CustomResourceDefinition {
        let value: Value = serde_json::from_str(self.0).expect("JSON");
        serde_json::from_value(value).expect("a CustomResourceDefinition")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_api::{addons, cluster_network, node_network, placement};

    use super::*;

    #[test]
    fn they_are_what_the_types_say() {
        let [state, policy, enactment, nmstate] = node_network::crds();
        let of_types = [
            (NETWORK_ADDONS_CONFIG, addons::crd()),
            (NETWORK_CONFIG, cluster_network::crd()),
            (NODE_NETWORK_STATE, state),
            (NODE_NETWORK_CONFIGURATION_POLICY, policy),
            (NODE_NETWORK_CONFIGURATION_ENACTMENT, enactment),
            (NMSTATE, nmstate),
            (PLACEMENT_API, placement::crd()),
        ];
        for (shipped, made) in of_types {
            let text =
                |definition: &CustomResourceDefinition| serde_json::to_value(definition).unwrap();
            assert!(
                text(&shipped.read()) == text(&made),
                "{:?} is not up to date: make generate",
                made.metadata.name
            );
        }
    }
}
