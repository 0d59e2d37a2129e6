//! Where pods run, by a Topology of infra-operator.

use serde_json::Value;
use weft_operands::problems::given;
use weft_plan::Live;

use super::{FINALIZER, name};
use crate::{
    Config,
    conditions::{State, Step},
};

/// The name of the Topology that is asked for.
pub fn wanted(config: &Config) -> Option<&str> {
    given(&config.spec().topology_ref.as_ref()?.name)
}

/// The finalizer that keeps a Topology while the service of this PlacementAPI uses it.
pub fn finalizer(placement_api: &str) -> String {
    format!("{FINALIZER}-{placement_api}")
}

/// `spec` of the Topology, for [`Inputs`](crate::Inputs). `served`: whether the cluster knows the
/// kind.
///
/// # Errors
/// It is not there, or not for long.
pub fn spec(name: &str, served: bool, live: Option<&Value>) -> Result<Value, State> {
    let failed = |why: String| Err(Step::Topology.fails(why));
    match live {
        None if !served => failed(
            "the cluster has no kind Topology: install infra-operator, or remove spec.topologyRef"
                .to_owned(),
        ),
        None => failed(format!(
            "topologies.topology.openstack.org {name:?} not found"
        )),
        // Its finalizers keep it only until whoever uses it has another.
        Some(live) if Live::of(live).is_being_deleted() => failed(format!(
            "Topology {name:?} is being deleted: name another one in spec.topologyRef"
        )),
        Some(live) => Ok(live["spec"].clone()),
    }
}

/// Those that pods do not use any more, once the Deployment has what is asked for now: all that
/// carry our finalizer but for that one. By the finalizer and not by what status names: one may be
/// replaced before the Deployment has it.
pub fn unused<'a>(
    topologies: impl IntoIterator<Item = &'a Value>,
    finalizer: &str,
    keep: Option<&str>,
) -> Vec<&'a Value> {
    topologies
        .into_iter()
        .filter(|topology| {
            Live::of(topology).has_finalizer(finalizer) && Some(name(topology)) != keep
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::tests::config;

    #[test]
    fn a_topology_that_is_not_there_is_an_error_until_it_comes() {
        let spec = |served: bool, live: Option<&Value>| super::spec("zones", served, live);
        assert_eq!(
            spec(true, None),
            Err(State::error(
                r#"Topology config create error occurred topologies.topology.openstack.org "zones" not found"#
            ))
        );
        assert!(
            matches!(spec(false, None), Err(state) if state.message.contains("install infra-operator"))
        );
        let mut live = json!({"metadata": {}, "spec": {"affinity": {}}});
        assert_eq!(spec(true, Some(&live)), Ok(json!({"affinity": {}})));
        live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(
            matches!(spec(true, Some(&live)), Err(state) if state.message.contains("is being deleted"))
        );
    }

    #[test]
    fn the_topology_of_before_is_released() {
        let config = config(&json!({"topologyRef": {"name": "new"}}));
        assert_eq!(
            (wanted(&config), finalizer("placement").as_str()),
            (Some("new"), "openstack.org/placementapi-placement")
        );
        let (ours, others) = (finalizer("placement"), finalizer("another"));
        let topology = |name: &str, finalizer: &str| {
            json!({
                "metadata": {"name": name, "finalizers": [finalizer]}
            })
        };
        let all = [
            topology("old", &ours),
            topology("older", &ours),
            topology("new", &ours),
            topology("of-another", &others),
        ];
        let names = |keep| {
            unused(&all, &ours, keep)
                .into_iter()
                .map(name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(Some("new")),
            ["old", "older"],
            "one that was replaced before the Deployment had it, too"
        );
        assert_eq!(names(None), ["old", "older", "new"]);
    }
}
