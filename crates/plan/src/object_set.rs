//! A domain whose resource leads to a set of objects with an inventory.

use jiff::Timestamp;
use serde_json::{Value, json};
use weft_api::Condition;

use crate::{Dependents, Domain, ObjectKey, ProcessSettings, Unit, report::Report};

/// Status, record and lifetime of the objects of a resource.
///
/// # Examples
/// A domain with one ConfigMap. `crates/system-tests/tests/engine/new_domain.rs` runs it on a control plane.
///
/// ```
/// use serde_json::{Value, json};
/// use weft_plan::{
///     Decision, Domain, Input, Kind, Manifest, ObjectSet, Problem, Refusal, Unit, kinds,
/// };
///
/// struct Greeting;
///
/// impl Domain for Greeting {
///     fn name(&self) -> &'static str { "greeting" }
///     fn resource(&self) -> Kind { kinds::NETWORK_CONFIG }
///     fn resource_name(&self) -> Option<&'static str> { Some("default") }
///     fn kinds(&self) -> Vec<Kind> { vec![kinds::CONFIG_MAP] }
///     fn namespace(&self) -> Option<&str> { Some("default") }
///     fn pod_selector(&self) -> &'static str { "app=greeting" }
///     fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
///         let map = json!({
///             "apiVersion": "v1", "kind": "ConfigMap",
///             "metadata": {"namespace": "default", "name": "greeting"},
///             "data": {"text": "hello"},
///         });
///         let object = Manifest::new(map).map_err(|error| {
///             let problem = Problem { field: "spec".to_owned(), message: error.to_string() };
///             Refusal::new("FailedToRender", vec![problem])
///         })?;
///         let unit = Unit { name: "greeting".to_owned(), objects: vec![object] };
///         Ok(Decision::of(vec![unit], input.resource["spec"].clone()))
///     }
///     fn made_by_original(&self, _: &Value) -> bool { false }
///     fn is_original_operator(&self, _: &Value) -> bool { false }
///     fn operators(&self) -> &'static [(Kind, &'static str)] { &[] }
/// }
///
/// impl ObjectSet for Greeting {}
/// ```
pub trait ObjectSet: Domain {
    /// The record of the last applied configuration that the replaced operator kept and that Weft
    /// keeps, too: its ConfigMap and the key in `data`. `None` if there is no such record.
    fn record(&self, _resource_name: &str) -> Option<(ObjectKey, &'static str)> {
        None
    }

    /// The place of the replaced operator's record, if it differs from [`ObjectSet::record`]. Weft
    /// reads it while its own place is empty. `weft release` moves Weft's record there.
    fn original_record(&self, _resource_name: &str) -> Option<ObjectKey> {
        None
    }

    /// Conditions of the resource. `previous` is its current status.
    fn conditions(&self, report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
        crate::conditions(report, previous, now)
    }

    /// The whole status of the resource. `previous` is its current status. `conditions` have their
    /// transition times. `units` are those that the operator applied last.
    fn status(
        &self,
        _previous: &Value,
        conditions: Vec<Condition>,
        report: &Report,
        _units: &[Unit],
    ) -> Value {
        json!({"observedGeneration": report.generation, "conditions": conditions})
    }

    /// Reports whether the record describes this unit. The operator writes the record when all such
    /// units are as wanted, whatever the state of the others.
    fn is_recorded(&self, _unit: &str) -> bool {
        true
    }

    /// Reports whether the objects of a unit outlive the resource. The resource does not own them.
    /// They stay when it is deleted, unless [`ObjectSet::keeps`] answers `None`. The inventory
    /// stays with them, so that the next resource of that name continues from there.
    fn outlives(&self, _unit: &str) -> bool {
        false
    }

    /// Explains to people why units that outlive the resource stay when it is deleted, and how to
    /// remove them. `None` if the resource asks for their removal. `decided` is the configuration
    /// that the operator applied. `resource` is `None` if it is gone already.
    fn keeps(&self, _resource: Option<&Value>, _decided: Option<&Value>) -> Option<String> {
        None
    }

    /// Objects of other users that only the programs of a unit can release. Weft lists them before it
    /// removes such a unit.
    fn dependents(&self) -> &'static [Dependents] {
        &[]
    }

    /// Reports whether users delete the record ([`ObjectSet::record`]) to force a change that is
    /// refused otherwise. The operator then writes the record again only with the next
    /// configuration.
    fn is_forced_without_record(&self) -> bool {
        false
    }

    /// Gauges under the names that users of the replaced operator know: name, help text, value.
    /// `resource` is `None` if there is none.
    fn gauges(&self, _resource: Option<&Value>) -> Vec<(&'static str, &'static str, f64)> {
        Vec::new()
    }

    /// Settings of the operator's own process, also in a replica that does not lead. `resource` is
    /// `None` if there is none.
    fn process(&self, _resource: Option<&Value>) -> ProcessSettings {
        ProcessSettings::default()
    }
}
