//! `NetworkConfig`: from what a user asks for to the objects of the default network, the service
//! proxy and additional networks. Pure: no I/O, no clock, no random numbers.
//!
//! A decision goes through five steps, one module each, and nobody looks at an earlier form once
//! the next one exists:
//!
//! 1. [`validate`] turns the resource as it is stored into a [`config::Valid`], or lists everything
//!    that is wrong with it;
//! 2. [`fill`] adds what was left open: from the previous configuration, else by default, which
//!    makes a [`config::Effective`];
//! 3. [`change`] compares it with what was applied last: what would cut connections is refused;
//! 4. [`build`] makes units of objects, from the manifests under `components/`, each network by its
//!    [`provider::Provider`];
//! 5. [`status`] reports what became of them.

// The tests below `tests` name the crate as its users do.
#[cfg(test)]
extern crate self as weft_cluster_network;

mod additional;
mod addresses;
pub mod build;
pub mod change;
mod conditions;
pub mod config;
pub mod error;
mod established;
pub mod fill;
mod mtu;
mod original;
pub mod overlay;
#[cfg(test)]
mod programs_tests;
pub mod provider;
pub mod providers;
pub mod proxy;
pub mod record;
mod removal;
pub mod room;
pub mod services;
pub mod settings;
pub mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod validate;

use jiff::Timestamp;
use serde_json::Value;
use weft_api::Condition;
use weft_plan::{
    Decision, Domain, Fact, FieldChange, Input, Kind, Notice, ObjectKey, ObjectSet, Problem,
    Refusal, Unit, kinds, report::Report,
};

use config::Effective;
use provider::{Context, Provider};

pub use settings::Settings;

/// The cluster's default network.
pub struct ClusterNetwork {
    settings: Settings,
    providers: &'static [&'static dyn Provider],
}

/// Reason of a resource that breaks a rule.
pub const INVALID: &str = "InvalidOperatorConfig";
/// Reason of a change that is not carried out, as the original has it for both.
pub const UNSAFE: &str = "InvalidOperatorConfig";
/// Reason of objects that cannot be built.
pub const RENDER_ERROR: &str = "RenderError";

impl ClusterNetwork {
    /// The domain under these settings, with all networks that Weft knows.
    pub fn new(settings: Settings) -> Self {
        Self::with_providers(settings, providers::ALL)
    }

    /// The domain with these networks.
    pub fn with_providers(settings: Settings, providers: &'static [&'static dyn Provider]) -> Self {
        Self {
            settings,
            providers,
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Domain for ClusterNetwork {
    fn name(&self) -> &'static str {
        "cluster-network"
    }

    fn resource(&self) -> Kind {
        kinds::NETWORK_CONFIG
    }

    fn resource_name(&self) -> Option<&'static str> {
        Some(weft_api::cluster_network::NAME)
    }

    fn kinds(&self) -> Vec<Kind> {
        build::KINDS.to_vec()
    }

    fn namespace(&self) -> Option<&str> {
        // Each network has its own, and additional networks are where the user wants them.
        None
    }

    fn pod_selector(&self) -> &'static str {
        "weft.network/domain=cluster-network"
    }

    fn facts(&self) -> Vec<Fact> {
        vec![
            Fact::Definitions,
            Fact::Nodes,
            Fact::KubeProxy,
            Fact::Flannel,
            Fact::ServiceCidr,
        ]
    }

    fn node_reporters(&self) -> Vec<&'static str> {
        self.providers
            .iter()
            .filter_map(|provider| provider.node_reporter())
            .collect()
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let resource =
            validate::read(input.resource).map_err(|problems| refusal(INVALID, problems))?;
        let (valid, provider) = validate::validate(&resource.spec, self.providers)
            .map_err(|problems| refusal(INVALID, problems))?;
        let read = |text: &str| {
            record::read(text, self.providers).map_err(|problem| refusal(INVALID, vec![problem]))
        };
        // Without a record there is nothing to be kept safe: that is how a change is forced. Values
        // are carried on all the same.
        let mut applied = input.record.map(read).transpose()?;
        let mut decided = input
            .decided
            .map(|decided| read(&decided.to_string()))
            .transpose()?;
        if !established::has_been(&input.resource["status"], provider.name()) {
            applied
                .iter_mut()
                .chain(&mut decided)
                .for_each(|previous| mtu::settle(previous, &valid, provider, input.facts));
        }
        let mut on_nodes =
            addresses::of_nodes(&valid.pod_networks, &valid.service_networks, input.facts);
        if !on_nodes.is_empty()
            && !applied
                .as_ref()
                .is_some_and(|applied| validate::same_blocks(&valid, applied))
        {
            return Err(refusal(INVALID, on_nodes));
        }
        // Once Weft has decided, its own record counts.
        let losses = match applied.as_ref().or(decided.as_ref()) {
            None => provider.losses(&valid.default_network, input.facts),
            Some(_) => Vec::new(),
        };
        if !losses.is_empty() {
            return Err(refusal(INVALID, losses));
        }
        let previous = applied.as_ref().or(decided.as_ref());
        let (effective, mut notices) = fill::fill(valid, provider, previous, input.facts)
            .map_err(|problem| refusal(INVALID, vec![problem]))?;
        if let Some(applied) = &applied {
            let changes = change::unsafe_changes(provider, applied, &effective);
            if !changes.is_empty() {
                return Err(self.unsafe_change(changes));
            }
        }
        // Blocks that are in use already: what can be done is to say so. Services of another block
        // stop no pods, and the cluster's block may be about to change.
        let of_services = addresses::of_services(&effective.service_networks, input.facts);
        notices.extend(on_nodes.drain(..).chain(of_services).map(|problem| Notice {
            about: build::DEFAULT_NETWORK.to_owned(),
            message: problem.to_string(),
        }));
        notices.extend(fill::without_effect(&effective));
        let context = Context {
            settings: &self.settings,
            facts: input.facts,
        };
        let decision = self.build(&resource, provider, &effective, &context, notices);
        decision.map_err(|error| {
            refusal(
                RENDER_ERROR,
                vec![Problem {
                    field: "spec".into(),
                    message: error.to_string(),
                }],
            )
        })
    }

    fn made_by_original(&self, live: &Value) -> bool {
        original::made(live)
    }

    fn is_original_operator(&self, workload: &Value) -> bool {
        original::is_operator(workload)
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        original::OPERATORS
    }
}

impl ObjectSet for ClusterNetwork {
    fn record(&self, resource_name: &str) -> Option<(ObjectKey, &'static str)> {
        Some((record::key(&self.settings, resource_name), record::DATA_KEY))
    }

    fn conditions(&self, report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
        conditions::conditions(report, previous, now)
    }

    fn status(
        &self,
        previous: &Value,
        conditions: Vec<Condition>,
        report: &Report,
        _units: &[Unit],
    ) -> Value {
        status::status(&self.settings, previous, conditions, report)
    }

    /// Pods use the default network from its first day on, so it is guarded from then on: an
    /// additional network that waits for Multus, maybe for ever, must not keep the record from
    /// being written.
    fn is_recorded(&self, unit: &str) -> bool {
        unit == build::DEFAULT_NETWORK
    }

    fn outlives(&self, unit: &str) -> bool {
        removal::outlives(unit)
    }

    fn keeps(&self, resource: Option<&Value>, decided: Option<&Value>) -> Option<String> {
        removal::keeps(resource, decided)
    }

    fn is_forced_without_record(&self) -> bool {
        true
    }
}

impl ClusterNetwork {
    fn unsafe_change(&self, changes: Vec<FieldChange>) -> Refusal {
        let way_out = change::way_out(&self.settings);
        let problem = |change: &FieldChange| Problem {
            field: change.field.clone(),
            message: format!("{change}; {way_out}"),
        };
        Refusal {
            reason: UNSAFE,
            problems: changes.iter().map(problem).collect(),
            changes,
        }
    }

    fn build(
        &self,
        resource: &weft_api::cluster_network::NetworkConfig,
        provider: &dyn Provider,
        effective: &Effective,
        context: &Context<'_>,
        mut notices: Vec<Notice>,
    ) -> Result<Decision, error::BuildError> {
        let name = resource
            .metadata
            .name
            .as_deref()
            .unwrap_or(weft_api::cluster_network::NAME);
        let decided = effective.to_json()?;
        notices.extend(build::notices(provider, effective, context.facts));
        let (units, waits) = build::units(provider, effective, context)?;
        Ok(Decision {
            units,
            record: Some(record::manifest(
                &self.settings,
                name,
                &serde_json::to_value(&resource.spec)?,
                &decided,
            )?),
            made_by_operands: Vec::new(),
            certificates: Vec::new(),
            waits,
            drift: weft_plan::DriftPolicy::Repair,
            log_level: None,
            decided,
            notices,
        })
    }
}

fn refusal(reason: &'static str, problems: Vec<Problem>) -> Refusal {
    Refusal {
        reason,
        problems,
        changes: Vec::new(),
    }
}
