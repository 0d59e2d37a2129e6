//! How to recognise the operator that Weft replaces, cluster-network-operator, and what it made.

use serde_json::Value;
use weft_api::cluster_network::{GROUP, KIND};

/// The name of its workload, and of Weft's.
pub(crate) const OPERATOR: &str = "cluster-network-operator";

/// Whether it made this object: it owns it through the resource.
pub(crate) fn made(live: &Value) -> bool {
    live.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten().any(|owner| {
        owner["kind"] == KIND
            && owner["apiVersion"].as_str().and_then(|version| version.split_once('/')).is_some_and(|(group, _)| group == GROUP)
    })
}

/// On Weft's own workload, to tell it from the original's, which has the same name.
const COMPONENT_LABEL: &str = "weft.network/component";

/// Whether a workload is that operator: by its image's name, or by its own name where the label of Weft is missing.
pub(crate) fn is_operator(workload: &Value) -> bool {
    let is_its_image = |image: &str| {
        let name = image.rsplit('/').next().unwrap_or_default();
        name.split(['@', ':']).next().is_some_and(|name| name == OPERATOR || name == "origin-cluster-network-operator")
    };
    let metadata = &workload["metadata"];
    let by_name = metadata["name"] == OPERATOR && metadata["labels"][COMPONENT_LABEL].is_null();
    let containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    by_name || containers.into_iter().flatten().filter_map(|container| container["image"].as_str()).any(is_its_image)
}
