//! The input of a domain's decision, and its result.

use serde_json::Value;

use crate::{Certificate, Facts, Manifest, ObjectKey, Unit, report::FailureClass};

/// The input of a decision.
pub struct Input<'a> {
    /// The resource as the API server has it.
    pub resource: &'a Value,
    /// The record of the last applied configuration (see [`Domain::record`]), if there is one.
    pub record: Option<&'a str>,
    /// The configuration that an earlier reconcile decided and stored before its first write, so
    /// that a crash draws no random value twice.
    pub decided: Option<&'a Value>,
    /// Known facts about the cluster.
    pub facts: &'a Facts,
    /// Fills a buffer with random bytes.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

/// The result of a decision.
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
    /// Units that cannot be applied as they are. Their earlier objects stay, and status explains
    /// why.
    pub waits: Vec<Wait>,
    /// The treatment of differences that others have made.
    pub drift: DriftPolicy,
    /// The operator's log level. `None` keeps the level from its start.
    pub log_level: Option<LogLevel>,
    /// Hints for the user that are no errors.
    pub notices: Vec<Notice>,
}

impl Decision {
    /// A decision for these units, without record, certificates, waits and notices, that repairs
    /// drift. `decided` is the complete configuration.
    pub fn of(units: Vec<Unit>, decided: Value) -> Self {
        Self {
            units,
            decided,
            record: None,
            made_by_operands: Vec::new(),
            certificates: Vec::new(),
            waits: Vec::new(),
            drift: DriftPolicy::Repair,
            log_level: None,
            notices: Vec::new(),
        }
    }
}

crate::choice! {
    /// The treatment of an object that another user has edited or deleted.
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
        /// All messages.
        Debug,
        /// Actions of the operator.
        Info,
        /// Possible mistakes.
        Warning,
        /// Errors.
        Error,
    }
}

/// A unit that cannot be applied on this cluster, or at all, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The unit's name.
    pub unit: String,
    /// The object that is impossible.
    pub object: ObjectKey,
    /// The class of the obstacle. The operator does not retry by itself: it waits for a
    /// change of facts or of the resource.
    pub class: FailureClass,
    /// The missing part or the mistake, and the way out.
    pub message: String,
    /// The same field by field, where the resource itself is wrong. `weft validate` refuses it
    /// then.
    pub problems: Vec<Problem>,
}

/// A hint that stops nothing, for example a field that has no effect yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The component or field it is about.
    pub about: String,
    /// The hint for the user.
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

impl Refusal {
    /// A refusal with this reason and these mistakes.
    pub fn new(reason: &'static str, problems: Vec<Problem>) -> Self {
        Self {
            reason,
            problems,
            changes: Vec::new(),
        }
    }
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
    /// The effect of the change.
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
