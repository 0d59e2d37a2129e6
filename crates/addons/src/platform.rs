//! Components that a cluster itself forbids or already has: OpenShift's Cluster Network Operator
//! deploys Multus.

use weft_plan::{Facts, Notice, Problem};

use crate::validate::Valid;

const NETWORK: &str = "networks.operator.openshift.io/cluster";

/// Components that this cluster cannot run.
pub(crate) fn problems(valid: &Valid, facts: &Facts) -> Vec<Problem> {
    let Some(network) = facts.openshift_network else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    let mut push = |field: &str, message: String| {
        problems.push(Problem {
            field: format!("spec.{field}"),
            message,
        })
    };
    if valid.multus && network.multi_network_is_disabled {
        push(
            "multus",
            format!(
                "cannot be deployed, since {NETWORK} has disableMultiNetwork: true: set it to false there, or leave multus out here"
            ),
        );
    }
    let not_here = || {
        format!(
            "cannot be deployed where OpenShift's Cluster Network Operator runs Multus ({NETWORK} is there): leave it out here"
        )
    };
    // Multus has its socket elsewhere there (CNAO #1602).
    if valid.multus_dynamic_networks.is_some() {
        push("multusDynamicNetworks", not_here());
    }
    if valid.macvtap.is_some() {
        push("macvtap", not_here());
    }
    problems
}

/// Reports whether another user deploys Multus.
pub(crate) fn has_multus(facts: &Facts) -> bool {
    facts.openshift_network.is_some()
}

/// A notice that Weft deploys nothing for a requested Multus.
pub(crate) fn notice(multus: bool, facts: &Facts) -> Option<Notice> {
    let message = format!(
        "is deployed by OpenShift's Cluster Network Operator ({NETWORK}): Weft deploys nothing for it"
    );
    (multus && has_multus(facts)).then(|| Notice {
        about: "multus".to_owned(),
        message,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::{Domain, Input, OpenShiftNetwork};

    use super::*;
    use crate::{
        Addons,
        testing::{fixed_bytes, resource, settings},
    };

    fn decide(
        spec: Value,
        multi_network_is_disabled: bool,
    ) -> Result<weft_plan::Decision, weft_plan::Refusal> {
        let network = Some(OpenShiftNetwork {
            multi_network_is_disabled,
        });
        let facts = Facts {
            openshift_network: network,
            ..Facts::of_every_sort_of_cluster()[2].clone()
        };
        Addons::new(settings()).decide(Input {
            resource: &resource(spec),
            record: None,
            decided: None,
            facts: &facts,
            random: &mut fixed_bytes,
        })
    }

    #[test]
    fn where_openshift_runs_multus_weft_runs_none() {
        let decision = decide(json!({"multus": {}, "ovs": {}}), false).unwrap();
        let units: Vec<_> = decision
            .units
            .iter()
            .map(|unit| unit.name.as_str())
            .collect();
        assert!(
            units.contains(&"ovs")
                && !units.contains(&"multus")
                && !units.contains(&"network-attachment-definition"),
            "{units:?}"
        );
        assert_eq!(decision.notices.len(), 1);
        assert!(
            decision.notices[0]
                .message
                .contains("Cluster Network Operator"),
            "{:?}",
            decision.notices
        );
        assert_eq!(
            decision.decided["multus"],
            json!({}),
            "it is asked for all the same"
        );
        assert_eq!(decide(json!({"ovs": {}}), false).unwrap().notices, []);
    }

    #[test]
    fn components_that_openshift_does_not_allow_are_refused() {
        let fields = |spec: Value, disabled: bool| {
            let refusal = decide(spec, disabled).unwrap_err();
            assert_eq!(refusal.reason, crate::FAILED_TO_VALIDATE);
            refusal
                .problems
                .into_iter()
                .map(|problem| problem.field)
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(json!({"multus": {}}), true), ["spec.multus"]);
        assert_eq!(
            fields(
                json!({"multus": {}, "multusDynamicNetworks": {}, "macvtap": {}}),
                false
            ),
            ["spec.multusDynamicNetworks", "spec.macvtap"]
        );
        assert!(decide(json!({"ovs": {}}), true).is_ok());
    }
}
