//! On which nodes components run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scheduling;

/// Placement of the two sorts of components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConfiguration {
    /// For the components that serve the cluster as a whole: KubeMacPool, the secondary DNS, the
    /// KubeVirt IPAM controller. Left out: control-plane nodes are preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra: Option<Placement>,

    /// For the components that serve the pods of their node: CNI plugins, markers, device plugins.
    /// Left out: all Linux nodes, also those that are cordoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Placement>,
}

/// Placement of pods. The fields are those of a pod, with the same meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node must have, as in a pod's spec.nodeSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::labels")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Affinity to nodes and to other pods, as in a pod's spec.affinity.
    /// `kubectl explain pod.spec.affinity` has the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::affinity")]
    pub affinity: Option<Affinity>,

    /// Taints of nodes that are tolerated, as in a pod's spec.tolerations.
    /// `kubectl explain pod.spec.tolerations` has the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::tolerations")]
    pub tolerations: Option<Vec<Toleration>>,
}
