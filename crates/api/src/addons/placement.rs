//! Where components run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Placement of the two sorts of components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConfiguration {
    /// Where the components run that serve the whole cluster: KubeMacPool, the secondary DNS and the KubeVirt IPAM controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra: Option<Placement>,

    /// Where the components run that serve the pods of a node: CNI plugins, markers and device plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Placement>,
}

/// Placement of pods, with the meaning that these fields have in a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Affinity to nodes and pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
}
