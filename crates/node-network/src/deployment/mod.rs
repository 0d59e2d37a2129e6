//! `NMState`: how the node agent is deployed. Pure: no I/O, no clock, no random numbers.
//!
//! A decision goes through three steps, one module each: [`config`] turns the resource into a
//! [`config::Effective`], every default filled in, or lists all that is wrong with it. [`build`]
//! makes units of objects from the manifests under `components/nmstate`. [`conditions`] reports
//! their state. [`original`] knows the objects that kubernetes-nmstate left.

mod build;
mod conditions;
mod config;
mod original;
pub mod settings;

use jiff::Timestamp;
use serde_json::Value;
use weft_api::{Condition, node_network::NMStateStatus};
use weft_plan::{
    Decision, Domain, DriftPolicy, Fact, Facts, Input, Kind, Notice, ObjectKey, ObjectSet, Problem,
    Refusal, Unit, kinds, report::Report,
};

pub use settings::{Settings, SettingsError};

/// On all pods of the agent. Policies count the nodes where one with this label runs.
const AGENT_LABEL: &str = "component=kubernetes-nmstate-handler";
/// The DaemonSet of the agent.
const AGENT: &str = "nmstate-handler";

/// The agent on the nodes.
#[derive(Clone, Debug)]
pub struct NodeNetwork {
    settings: Settings,
}

impl NodeNetwork {
    /// The domain under these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }
}

impl Domain for NodeNetwork {
    fn name(&self) -> &'static str {
        "node-network"
    }

    fn resource(&self) -> Kind {
        kinds::NMSTATE
    }

    fn resource_name(&self) -> Option<&'static str> {
        None
    }

    fn only_the_oldest(&self) -> bool {
        true
    }

    fn kinds(&self) -> Vec<Kind> {
        build::KINDS.to_vec()
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.settings.namespace)
    }

    fn pod_selector(&self) -> &'static str {
        AGENT_LABEL
    }

    fn facts(&self) -> Vec<Fact> {
        // True if the cluster serves OpenShift's constraints.
        vec![Fact::Definitions]
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let effective = config::read(input.resource)
            .map_err(|problems| refusal("FailedToValidate", problems))?;
        let failed = |error: build::BuildError| {
            let message = format!("{error}; this is a defect of Weft, please report it");
            refusal(
                "InternalError",
                vec![Problem {
                    field: "spec".into(),
                    message,
                }],
            )
        };
        let units = build::units(&effective, &self.settings, input.facts).map_err(failed)?;
        Ok(Decision {
            units,
            decided: serde_json::to_value(effective.spec())
                .map_err(|error| failed(error.into()))?,
            record: None,
            made_by_operands: Vec::new(),
            certificates: Vec::new(),
            waits: Vec::new(),
            drift: DriftPolicy::Repair,
            log_level: None,
            notices: without_effect(&effective)
                .into_iter()
                .chain(self.unmonitored(input.facts))
                .collect(),
        })
    }

    fn made_by_original(&self, live: &Value) -> bool {
        original::made(&self.settings, live)
    }

    fn obsolete(&self) -> Vec<(ObjectKey, String)> {
        original::leftovers(&self.settings)
            .into_iter()
            .map(|key| (key, build::AGENT_UNIT.to_owned()))
            .collect()
    }

    fn is_original_operator(&self, workload: &Value) -> bool {
        original::is_operator(&self.settings, workload)
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        original::OPERATORS
    }

    fn admission(&self) -> Option<fn(&Value) -> bool> {
        Some(original::is_admission)
    }
}

impl ObjectSet for NodeNetwork {
    fn record(&self, _resource_name: &str) -> Option<(ObjectKey, &'static str)> {
        // kubernetes-nmstate kept none.
        None
    }

    fn conditions(&self, report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
        conditions::conditions(report, previous, now)
    }

    fn status(
        &self,
        _previous: &Value,
        conditions: Vec<Condition>,
        report: &Report,
        _units: &[Unit],
    ) -> Value {
        let status = NMStateStatus {
            observed_generation: Some(report.generation),
            conditions,
        };
        serde_json::to_value(status).unwrap_or_default()
    }
}

impl NodeNetwork {
    /// A notice for an operator that has a namespace of its own: no ServiceMonitor of Weft scrapes
    /// it.
    fn unmonitored(&self, facts: &Facts) -> Option<Notice> {
        let message = format!(
            "the operator is in the namespace {}, where Weft makes no objects: have its metrics scraped by a ServiceMonitor of your own",
            self.settings.operator_namespace
        );
        let is_missed = build::is_monitored(facts) && !build::is_beside_the_agents(&self.settings);
        is_missed.then(|| Notice {
            about: build::MONITORING_UNIT.to_owned(),
            message,
        })
    }
}

/// Fields that are kept for kubernetes-nmstate's sake.
fn without_effect(effective: &config::Effective) -> Vec<Notice> {
    let kept = effective.kept();
    let placed = kept.infra_affinity.is_some()
        || kept.infra_node_selector.is_some()
        || kept.infra_tolerations.is_some();
    let notice = |about: &str, message: &str| Notice {
        about: about.to_owned(),
        message: message.to_owned(),
    };
    let mut notices = Vec::new();
    if placed {
        let message = "has no effect: there is no webhook, metrics or certificate pod to place. Where the operator runs, its Deployment says";
        notices.push(notice(
            "infraAffinity, infraNodeSelector, infraTolerations",
            message,
        ));
    }
    if kept.self_sign_configuration.is_some() {
        notices.push(notice(
            "selfSignConfiguration",
            "has no effect: there is no webhook, so there are no certificates",
        ));
    }
    if kept.metrics_configuration.is_some() {
        notices.push(notice(
            "metricsConfiguration",
            "has no effect: the operator's flag --metrics-address says where metrics are served",
        ));
    }
    notices
}

fn refusal(reason: &'static str, problems: Vec<Problem>) -> Refusal {
    Refusal {
        reason,
        problems,
        changes: Vec::new(),
    }
}

#[cfg(test)]
mod restricted;
#[cfg(test)]
mod tests;
