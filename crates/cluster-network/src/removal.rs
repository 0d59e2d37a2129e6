//! Decides which objects a deletion of the resource removes: pods must not lose their network
//! because a user deletes a configuration.

use serde_json::Value;
use weft_plan::{Live, REMOVE_ANNOTATION};

use crate::{
    additional,
    build::{DEFAULT_NETWORK, KUBE_PROXY},
};

/// The default network and the service proxy stay. Additional networks go.
pub(crate) fn outlives(unit: &str) -> bool {
    [DEFAULT_NETWORK, KUBE_PROXY].contains(&unit)
}

/// Reports whether pods cannot do without a unit. Additional networks are not vital, because each
/// has a state of its own.
pub(crate) fn is_vital(unit: &str) -> bool {
    !unit.starts_with(additional::UNIT)
}

/// Why they stay when this resource is deleted, and how to be rid of them. `None` if it says that
/// they are to go: its [`REMOVE_ANNOTATION`] names the type of the default network.
pub(crate) fn keeps(resource: Option<&Value>, decided: Option<&Value>) -> Option<String> {
    let applied = decided
        .and_then(|decided| decided["defaultNetwork"]["type"].as_str())
        .unwrap_or_default();
    let how = format!("kubectl annotate networkconfig default {REMOVE_ANNOTATION}={applied}");
    let Some(resource) = resource else {
        return Some(format!(
            "pods use it, so it stays without its NetworkConfig. To remove it, create the NetworkConfig again, mark it ({how}) and delete it"
        ));
    };
    match Live::of(resource).annotation(REMOVE_ANNOTATION) {
        Some(named) if named == applied => None,
        Some(named) => Some(format!(
            "pods use it, so it stays: the annotation {REMOVE_ANNOTATION} names {named:?}, and the network that is deployed is {applied:?}. To remove it with the NetworkConfig: {how} --overwrite"
        )),
        None => Some(format!(
            "pods use it, so it stays when the NetworkConfig is deleted. To remove it, too, before: {how}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_type_that_is_deployed_may_be_named() {
        let decided = json!({"defaultNetwork": {"type": "Flannel"}});
        let resource = |value: Value| {
            json!({
                "metadata": {"name": "default", "annotations": {REMOVE_ANNOTATION: value}}
            })
        };
        assert_eq!(
            keeps(Some(&resource(json!("Flannel"))), Some(&decided)),
            None
        );
        for stays in [
            resource(json!("OpenShiftSDN")),
            resource(json!("true")),
            json!({"metadata": {"name": "default"}}),
        ] {
            let why = keeps(Some(&stays), Some(&decided)).unwrap_or_default();
            assert!(
                why.contains("kubectl annotate networkconfig default weft.network/remove=Flannel"),
                "{why}"
            );
        }
        assert!(
            keeps(None, Some(&decided)).is_some(),
            "a resource that is gone says nothing"
        );
    }

    #[test]
    fn the_network_and_the_proxy_outlive_the_resource() {
        assert!(
            outlives(DEFAULT_NETWORK)
                && outlives(KUBE_PROXY)
                && !outlives("additional-network/default/a")
        );
    }
}
