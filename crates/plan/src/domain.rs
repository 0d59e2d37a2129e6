//! What a domain has to say: the pure half of a controller.

use jiff::Timestamp;
use serde_json::Value;
use weft_api::Condition;

use crate::{
    Certificate, Fact, Facts, Kind, Manifest, ObjectKey, ProcessSettings, Unit,
    report::{FailureClass, Report},
};

/// A domain turns its custom resource into objects, and what became of them into a status.
///
/// The runtime does all the rest (watches, apply, inventory, pruning, drift, rollout, events), for
/// every domain alike.
pub trait Domain: Send + Sync + 'static {
    /// Short name as on the command line, for example `addons`. The field manager is `weft/<name>`,
    /// the lease `weft-<name>`.
    fn name(&self) -> &'static str;

    /// The kind of its custom resource.
    fn resource(&self) -> Kind;

    /// The one name that its resource may have; `None` if there may be many.
    fn resource_name(&self) -> Option<&'static str>;

    /// Reports whether of several resources only the oldest counts. The others are refused, and
    /// status names the one that counts; once that is gone, the next one takes its place.
    fn only_the_oldest(&self) -> bool {
        false
    }

    /// Every kind of object that it may write: each is watched, and nothing else is.
    fn kinds(&self) -> Vec<Kind>;

    /// The one namespace where all of its operands are; `None` if they are in several, or in any:
    /// then these are watched as a whole, by Weft's label.
    fn namespace(&self) -> Option<&str>;

    /// Labels that all pods of its workloads carry: pods are watched by them.
    fn pod_selector(&self) -> &'static str;

    /// What it must know of the cluster: each is watched.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// The namespaces whose pods are believed what they tell of their nodes' networks
    /// ([`Facts::node_networks`]). In others anybody may make a pod with the labels of ours.
    fn node_reporters(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The record of the last applied configuration that the original kept and that Weft keeps too:
    /// which ConfigMap, which key.
    fn record(&self, resource_name: &str) -> Option<(ObjectKey, &'static str)>;

    /// The place where the original kept that record, if it is another one. It is read while there
    /// is no record in [`Domain::record`]'s place, and never written.
    fn original_record(&self, _resource_name: &str) -> Option<ObjectKey> {
        None
    }

    /// Validates the resource, fills in what is left open, and builds the objects.
    ///
    /// # Errors
    /// A [`Refusal`] lists everything that is wrong, at once; the objects of the last good
    /// configuration stay as they are.
    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal>;

    /// The conditions that say how the resource fares. `previous` is the status as it stands.
    fn conditions(&self, report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
        crate::conditions(report, previous, now)
    }

    /// The whole status of the resource, from what was applied and how it rolls out. `previous` is
    /// the status as it stands; `conditions` are already computed, with transition times; `units`
    /// are what was applied last.
    fn status(
        &self,
        previous: &Value,
        conditions: Vec<Condition>,
        report: &Report,
        units: &[Unit],
    ) -> Value;

    /// Reports whether a live object was made by the operator that this domain replaces, so that
    /// Weft may take it over.
    fn made_by_original(&self, live: &Value) -> bool;

    /// Objects that the operator that this domain replaces may have left, each with the unit that
    /// it belonged to: when Weft takes over, those go that it left ([`Domain::left_by_original`])
    /// and that are not wanted.
    fn obsolete(&self) -> Vec<(ObjectKey, String)> {
        Vec::new()
    }

    /// Reports whether one of the [`Domain::obsolete`] objects is that operator's, so that Weft may
    /// delete it.
    fn left_by_original(&self, live: &Value) -> bool {
        self.made_by_original(live)
    }

    /// Reports whether a workload is that operator itself. While it runs (see
    /// [`is_at_rest`](crate::is_at_rest)) Weft writes nothing in this domain.
    fn is_original_operator(&self, workload: &Value) -> bool;

    /// That operator among all that was found by [`Domain::operators`] and [`Domain::admission`],
    /// where one object alone may not tell.
    fn originals<'a>(&self, found: &[&'a Value]) -> Vec<&'a Value> {
        found
            .iter()
            .copied()
            .filter(|one| self.is_original_operator(one))
            .collect()
    }

    /// The workloads that may be that operator, by kind and name, in whatever namespace. Weft's own
    /// may have such a name, too.
    fn operators(&self) -> &'static [(Kind, &'static str)];

    /// Tells, of a webhook configuration or a ValidatingAdmissionPolicy
    /// ([`ADMISSION`](kinds::ADMISSION)), whether that operator asks by it about what Weft writes,
    /// whatever its name: the API server goes on asking when the operator is gone. `None`: none is
    /// looked for, but by the names in [`Domain::operators`].
    fn admission(&self) -> Option<fn(&Value) -> bool> {
        None
    }

    /// Reports whether the record tells of this unit: it is written once all such units are as they
    /// should be, whatever becomes of the others.
    fn is_recorded(&self, _unit: &str) -> bool {
        true
    }

    /// Reports whether what a unit has outlives the resource: its objects are not owned by it, and
    /// stay when it is deleted, unless [`Domain::keeps`] says otherwise. The inventory stays with
    /// them, so that another resource of that name goes on from there.
    fn outlives(&self, _unit: &str) -> bool {
        false
    }

    /// Why the units that outlive this resource stay when it is deleted, and how to be rid of them,
    /// for people; `None` if it says that they are to go. `decided` is what was applied of it; the
    /// resource may be gone already.
    fn keeps(&self, _resource: Option<&Value>, _decided: Option<&Value>) -> Option<String> {
        None
    }

    /// Reports whether users delete the record (see [`Domain::record`]) to have a change carried
    /// out that is refused otherwise. Then it is not made anew before the configuration is another
    /// one.
    fn is_forced_without_record(&self) -> bool {
        false
    }

    /// Gauges under the names that the original's users know: name, help text, value. `resource` is
    /// `None` if there is none.
    fn gauges(&self, _resource: Option<&Value>) -> Vec<(&'static str, &'static str, f64)> {
        Vec::new()
    }

    /// What the resource asks of the operator's own process, also of a replica that does not lead.
    /// `resource` is `None` if there is none.
    fn process(&self, _resource: Option<&Value>) -> ProcessSettings {
        ProcessSettings::default()
    }
}

/// What a decision is made from.
pub struct Input<'a> {
    /// The resource as the API server has it.
    pub resource: &'a Value,
    /// The record of the last applied configuration (see [`Domain::record`]), if there is one.
    pub record: Option<&'a str>,
    /// What an earlier pass decided for this resource and stored before its first write, so that a
    /// crash repeats no dice.
    pub decided: Option<&'a Value>,
    /// What is known of the cluster.
    pub facts: &'a Facts,
    /// Fills a buffer with random bytes.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

/// What a resource leads to.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The components' objects, without Weft's own labels and owner references: the runtime adds
    /// these.
    pub units: Vec<Unit>,
    /// The complete configuration, every default filled in: stored before the first write, handed
    /// back as [`Input::decided`]. It has the shape of the resource's `spec`, so that a later
    /// version or a refused edit can go back to it.
    pub decided: Value,
    /// The record in the original's form, written when everything else is applied.
    pub record: Option<Manifest>,
    /// Objects that the operands make themselves (such as a Secret with their certificate), deleted
    /// when the resource is.
    pub made_by_operands: Vec<ObjectKey>,
    /// Certificates that the runtime makes and renews, in objects that the units leave empty.
    pub certificates: Vec<Certificate>,
    /// Units that cannot be applied as they are. What they had before stays, and status says why.
    pub waits: Vec<Wait>,
    /// What to do about differences that others have made.
    pub drift: DriftPolicy,
    /// What the operator logs; `None`: what it was started with.
    pub log_level: Option<LogLevel>,
    /// What the user should know and that is no error.
    pub notices: Vec<Notice>,
}

crate::choice! {
    /// What to do about an object that somebody has edited or deleted.
    #[derive(Default)]
    pub enum DriftPolicy("a drift policy") {
        /// Put it right at once.
        #[default]
        Repair,
        /// Leave it as it is and say so.
        Report,
    }
}

crate::choice! {
    /// From which level on the operator logs.
    pub enum LogLevel("a log level") {
        /// Everything.
        Debug,
        /// What is done.
        Info,
        /// What may be wrong.
        Warning,
        /// What is wrong.
        Error,
    }
}

/// A unit that cannot be applied on this cluster, or at all, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The unit's name.
    pub unit: String,
    /// The object that cannot be.
    pub object: ObjectKey,
    /// What kind of obstacle it is. Nothing is tried again by itself: facts and the resource tell
    /// when it is gone.
    pub class: FailureClass,
    /// What is missing or wrong, and the way out.
    pub message: String,
    /// The same field by field, where the resource itself is wrong; `weft validate` refuses it
    /// then.
    pub problems: Vec<Problem>,
}

/// Something worth telling that stops nothing, for example a field that has no effect yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The component or field it is about.
    pub about: String,
    /// What the user should know.
    pub message: String,
}

/// Why a resource is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason of the Degraded condition, in the original's words, for example
    /// `FailedToValidate`.
    pub reason: &'static str,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
    /// Where nothing is wrong with the resource but the way from what is applied: the fields that
    /// may not change like this.
    pub changes: Vec<FieldChange>,
}

/// A field that may not change like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Path of the field, for example `spec.defaultNetwork.type`.
    pub field: String,
    /// The value that is in force.
    pub old: String,
    /// The value that is asked for.
    pub new: String,
    /// What it would do.
    pub why: String,
}

impl std::fmt::Display for FieldChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot change from {:?} to {:?}: {}",
            self.old, self.new, self.why
        )
    }
}

/// One thing that is wrong with a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, for example `spec.kubeMacPool.rangeStart`.
    pub field: String,
    /// The value, the rule that it breaks, and the way out.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
