//! `NetworkAddonsConfig`: turns the resource of a user into the objects that a cluster must have.
//! The crate is pure: it has no I/O, no clock and no random numbers of its own.
//!
//! A decision goes through four steps, one module each. No step reads an earlier form once the next
//! one exists:
//!
//! 1. [`validate`] turns the resource as it is stored into a [`validate::Valid`], or lists
//!    everything that is wrong with it;
//! 2. [`fill`] adds what was left open: from the previous configuration, else by default, which
//!    makes a [`fill::Effective`];
//! 3. [`build`] makes units of objects, from the manifests under `components/` with one overlay
//!    each in `src/components`;
//! 4. [`status`] reports what became of them.
//!
//! To change how a component is deployed, edit its folder under `components/` and its file in
//! `src/components`.

// The tests below `tests` name the crate as its users do.
#[cfg(test)]
extern crate self as weft_addons;

pub mod build;
pub(crate) mod components;
pub mod fill;
pub mod host;
mod labels;
pub mod mac;
mod obsolete;
mod original;
mod overlay;
mod platform;
mod process;
pub mod record;
pub mod resources;
pub mod settings;
pub mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod validate;

use std::sync::OnceLock;

use serde_json::Value;
use weft_api::{Condition, addons::NetworkAddonsConfig};
use weft_plan::{
    Decision, Dependents, Domain, Fact, Facts, Input, Kind, Notice, ObjectKey, ObjectSet, Problem,
    ProcessSettings, Refusal, Unit, kinds, report::Report,
};

pub use settings::{Image, Settings, SettingsError};

/// The add-ons of a cluster's network.
///
/// # Examples
/// A decision needs no cluster: the caller passes facts and random bytes.
///
/// ```
/// use serde_json::json;
/// use weft_addons::{Addons, Settings};
/// use weft_plan::{Domain, Facts, Input};
///
/// let domain = Addons::new(Settings::default());
/// let resource = json!({
///     "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
///     "kind": "NetworkAddonsConfig",
///     "metadata": {"name": "cluster"},
///     "spec": {"linuxBridge": {}},
/// });
/// let decision = domain.decide(Input {
///     resource: &resource,
///     record: None,
///     decided: None,
///     facts: &Facts::default(),
///     random: &mut |bytes| bytes.fill(0),
/// }).unwrap();
/// let mut objects = decision.units.iter().flat_map(|unit| &unit.objects);
/// assert!(objects.any(|object| object.key().human().contains("bridge-marker")));
/// ```
#[derive(Clone, Debug)]
pub struct Addons {
    settings: Settings,
    /// They are the same all the time, and asked for at each deletion.
    obsolete: OnceLock<Vec<(ObjectKey, String)>>,
}

impl Addons {
    /// The domain under these settings.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            obsolete: OnceLock::new(),
        }
    }

    /// Returns the settings of the installation.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Reason of a resource that breaks a rule.
pub const FAILED_TO_VALIDATE: &str = "FailedToValidate";
/// Reason of a previous configuration that cannot be read.
pub const FAILED_TO_GET_PREVIOUS: &str = "FailedToGetPreviousConfigSpec";
/// Reason of objects that cannot be built: a defect of Weft.
pub const FAILED_TO_RENDER: &str = "FailedToRender";

impl Domain for Addons {
    fn name(&self) -> &'static str {
        "addons"
    }

    fn resource(&self) -> Kind {
        kinds::NETWORK_ADDONS_CONFIG
    }

    fn resource_name(&self) -> Option<&'static str> {
        Some(weft_api::addons::NAME)
    }

    fn kinds(&self) -> Vec<Kind> {
        build::kinds(&self.settings)
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.settings.namespace)
    }

    fn pod_selector(&self) -> &'static str {
        labels::POD_SELECTOR
    }

    fn facts(&self) -> Vec<Fact> {
        let nmstates = self
            .settings
            .has_component("nmstate")
            .then_some(Fact::NmStates);
        [
            Fact::Definitions,
            Fact::ApiServer,
            Fact::Nodes,
            Fact::OpenShiftNetwork,
        ]
        .into_iter()
        .chain(nmstates)
        .collect()
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let resource = validate::read(input.resource)
            .map_err(|problems| refusal(FAILED_TO_VALIDATE, problems))?;
        let valid = validate::validate(&resource)
            .map_err(|problems| refusal(FAILED_TO_VALIDATE, problems))?;
        let impossible = platform::problems(&valid, input.facts);
        if !impossible.is_empty() {
            return Err(refusal(FAILED_TO_VALIDATE, impossible));
        }
        let previous = record::previous(input.decided, input.record)
            .map_err(|problem| refusal(FAILED_TO_GET_PREVIOUS, vec![problem]))?;
        let (effective, mut notices) =
            fill::fill(valid, previous.as_ref(), input.facts, input.random);
        notices.extend(build::notices(&effective, input.facts));
        notices.extend(components::monitoring::notice(&self.settings, input.facts));
        notices.extend(platform::notice(effective.multus, input.facts));
        self.build(&resource, &effective, notices, input.facts)
            .map_err(|error| {
                let message = format!("{error}; this is a defect of Weft, please report it");
                refusal(
                    FAILED_TO_RENDER,
                    vec![Problem {
                        field: "spec".into(),
                        message,
                    }],
                )
            })
    }

    fn made_by_original(&self, live: &Value) -> bool {
        original::made(&self.settings, live)
    }

    /// Returns true if the original operator owns the object. Its label alone is no proof, since a
    /// copy that a user applied has the label, too.
    fn left_by_original(&self, live: &Value) -> bool {
        original::owns(live)
    }

    fn obsolete(&self) -> Vec<(ObjectKey, String)> {
        self.obsolete
            .get_or_init(|| obsolete::objects(&self.settings))
            .clone()
    }

    fn is_original_operator(&self, deployment: &Value) -> bool {
        original::is_operator(deployment)
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        &[(kinds::DEPLOYMENT, original::OPERATOR)]
    }
}

impl ObjectSet for Addons {
    fn record(&self, resource_name: &str) -> Option<(ObjectKey, &'static str)> {
        Some((record::key(&self.settings, resource_name), record::DATA_KEY))
    }

    fn original_record(&self, resource_name: &str) -> Option<ObjectKey> {
        record::original_key(&self.settings, resource_name)
    }

    fn status(
        &self,
        previous: &Value,
        conditions: Vec<Condition>,
        report: &Report,
        units: &[Unit],
    ) -> Value {
        status::status(&self.settings, previous, conditions, report, units)
    }

    fn dependents(&self) -> &'static [Dependents] {
        &[components::kubevirt_ipam_controller::CLAIMS]
    }

    fn gauges(&self, resource: Option<&Value>) -> Vec<(&'static str, &'static str, f64)> {
        status::gauges(resource)
    }

    fn process(&self, resource: Option<&Value>) -> ProcessSettings {
        process::settings(resource)
    }
}

impl Addons {
    fn build(
        &self,
        resource: &NetworkAddonsConfig,
        effective: &fill::Effective,
        notices: Vec<Notice>,
        facts: &Facts,
    ) -> Result<Decision, build::BuildError> {
        let name = resource
            .metadata
            .name
            .as_deref()
            .unwrap_or(weft_api::addons::NAME);
        let labels = labels::Labels::new(&self.settings, resource.metadata.labels.as_ref());
        let decided = effective.to_json()?;
        Ok(Decision {
            units: build::units(effective, &self.settings, facts, &labels)?,
            record: Some(record::manifest(&self.settings, name, &decided, &labels)?),
            made_by_operands: build::made_by_operands(effective, &self.settings, facts),
            certificates: build::certificates(effective, &self.settings, facts),
            waits: build::waits(effective, &self.settings, facts),
            drift: effective.drift,
            log_level: effective.log_level,
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
