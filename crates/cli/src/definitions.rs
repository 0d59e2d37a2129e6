//! The definitions of all kinds, as `deploy/crds` has them.
//!
//! They are made from the types of `weft-api`, but not by this program: the code that makes them is
//! half a megabyte, which each operator would have in its memory. `build.rs` takes them in as JSON,
//! and a test holds them against the types. A process reads a definition when it first needs it, and
//! never again.

use std::sync::{LazyLock, OnceLock};

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::CompiledSchema;
use serde_json::Value;
use weft_plan::{dropped::Shipped, kinds};

use crate::schema::with_object_fields;

/// The definition of a kind.
#[derive(Clone, Copy)]
pub struct Definition {
    shipped: Shipped,
    known: fn() -> &'static Known,
}

/// A definition that has been read.
struct Known {
    definition: CustomResourceDefinition,
    versions: OnceLock<Vec<Version>>,
}

/// A version of a kind.
pub struct Version {
    name: String,
    /// The schema of an object.
    pub schema: Value,
    /// The same, with the fields that each object has.
    pub with_object_fields: Value,
    rules: OnceLock<CompiledSchema>,
}

macro_rules! definition {
    ($kind:ident, $name:literal) => {{
        const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json"));
        Definition {
            shipped: Shipped {
                kind: kinds::$kind,
                text: TEXT,
            },
            known: || {
                static KNOWN: LazyLock<Known> = LazyLock::new(|| Known::read(TEXT));
                &KNOWN
            },
        }
    }};
}

pub const NETWORK_ADDONS_CONFIG: Definition = definition!(
    NETWORK_ADDONS_CONFIG,
    "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io"
);
pub const NETWORK_CONFIG: Definition = definition!(
    NETWORK_CONFIG,
    "networkconfigs.networkoperator.openshift.io"
);
pub const NODE_NETWORK_STATE: Definition =
    definition!(NODE_NETWORK_STATE, "nodenetworkstates.nmstate.io");
pub const NODE_NETWORK_CONFIGURATION_POLICY: Definition = definition!(
    NODE_NETWORK_CONFIGURATION_POLICY,
    "nodenetworkconfigurationpolicies.nmstate.io"
);
pub const NODE_NETWORK_CONFIGURATION_ENACTMENT: Definition = definition!(
    NODE_NETWORK_CONFIGURATION_ENACTMENT,
    "nodenetworkconfigurationenactments.nmstate.io"
);
pub const NMSTATE: Definition = definition!(NMSTATE, "nmstates.nmstate.io");
pub const PLACEMENT_API: Definition =
    definition!(PLACEMENT_API, "placementapis.placement.openstack.org");

impl Definition {
    /// The definition as the text of this program.
    pub fn shipped(self) -> Shipped {
        self.shipped
    }

    /// The definition as a type.
    pub fn read(self) -> &'static CustomResourceDefinition {
        &(self.known)().definition
    }

    /// The version that a resource is in.
    ///
    /// # Errors
    /// The definition does not have the version, or no schema for it.
    pub fn version_of(self, resource: &Value) -> Result<&'static Version> {
        let version = resource["apiVersion"]
            .as_str()
            .and_then(|text| text.rsplit('/').next())
            .unwrap_or_default();
        let known = (self.known)();
        let found = known.versions().iter().find(|found| found.name == version);
        found.with_context(|| {
            let kind = &known.definition.spec.names.kind;
            format!("the definition of {kind} has no schema for {version:?}")
        })
    }
}

impl Known {
    #[allow(clippy::expect_used)] // The text is this program's own, and a test reads each.
    fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).expect("JSON");
        Self {
            definition: serde_json::from_value(value).expect("a CustomResourceDefinition"),
            versions: OnceLock::new(),
        }
    }

    fn versions(&self) -> &[Version] {
        self.versions.get_or_init(|| {
            let versions = self.definition.spec.versions.iter();
            let with_schema = versions.filter_map(|version| {
                let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
                // A structure of texts, numbers and lists can always be written.
                let schema = serde_json::to_value(schema).unwrap_or_default();
                Some(Version {
                    name: version.name.clone(),
                    with_object_fields: with_object_fields(&schema),
                    schema,
                    rules: OnceLock::new(),
                })
            });
            with_schema.collect()
        })
    }
}

impl Version {
    /// The CEL rules of the schema, compiled.
    pub fn rules(&self) -> &CompiledSchema {
        self.rules
            .get_or_init(|| kube_cel::compile_schema(&self.schema))
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
                text(shipped.read()) == text(&made),
                "{:?} is not up to date: make generate",
                made.metadata.name
            );
            let kind = shipped.shipped().kind;
            assert_eq!(Some(kind.definition()), made.metadata.name);
        }
    }
}
