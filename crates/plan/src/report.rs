//! The outcome of a reconcile, for status, events and people.

use serde_json::Value;

use crate::{Drift, Notice, ObjectKey, Refusal, rollout::Rollout};

/// The outcome of one reconcile over one resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `metadata.generation` of the resource that this is about.
    pub generation: i64,
    /// Why the resource is refused. The units are then those of the last good configuration.
    pub refusal: Option<Refusal>,
    /// The complete configuration that is in force, every default filled in: while a resource is
    /// refused, the last good one. `None` if it could not be found out.
    pub effective: Option<Value>,
    /// The reason why Weft writes nothing at all, for example the replaced operator that still
    /// runs.
    pub blocked: Option<Blocked>,
    /// The resource is paused: nothing is written in its name.
    pub paused: Option<Paused>,
    /// Objects that drifted and stay so.
    pub drift: Vec<Drift>,
    /// The resource is being deleted, and its objects with it.
    pub removing: bool,
    /// Not applied yet: the first word on a new generation, before the work starts.
    pub starting: bool,
    /// One entry a unit, in the domain's order.
    pub units: Vec<UnitReport>,
    /// Objects that are being deleted, or that Weft could not delete.
    pub removals: Vec<Removal>,
    /// Hints for the user that are no errors.
    pub notices: Vec<Notice>,
}

/// Why a whole domain waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Machine-readable, CamelCase, for example `OtherOperatorRunning`.
    pub reason: &'static str,
    /// The obstacle, and the command that resolves it.
    pub message: String,
}

impl Blocked {
    /// Reports whether another operator runs, which reports on the resource itself.
    pub fn is_by_running_operator(&self) -> bool {
        self.reason == "OtherOperatorRunning"
    }
}

/// Why nothing is written in the name of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The value of the annotation: `true`, or a value that means the same.
    pub value: String,
    /// True if the resource asks for something that is not there because of the pause.
    pub pending: bool,
}

/// One unit after a reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitReport {
    /// The component's name.
    pub name: String,
    /// Objects that could not be applied, each with the reason. Empty: everything is applied.
    pub failures: Vec<Failure>,
    /// Its workloads and how they roll out.
    pub workloads: Vec<WorkloadReport>,
}

/// An object that could not be applied or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Identity of the object.
    pub object: ObjectKey,
    /// Class of the failure.
    pub class: FailureClass,
    /// The cause, in a sentence that names the way out where one is known.
    pub message: String,
}

/// The class of a failure. It chooses retry and reason, wherever the failure arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureClass {
    /// The cluster lacks what the unit needs: waits until the facts show that it is there.
    Absent,
    /// It can never succeed as it is: waits for a change of what it is made from. Weft watches all
    /// of that.
    Invalid,
    /// The object is being deleted, and finalizers still hold it: waits until a watch reports that
    /// it is gone.
    Leaving,
    /// Something refuses it that Weft cannot watch, for example an admission policy: tried again,
    /// ever more seldom.
    Refused,
    /// The object belongs to another user: waits for a change of it. Tried again slowly while it
    /// cannot be watched.
    Foreign,
    /// A permission is missing: tried again slowly, RBAC cannot be watched.
    Forbidden,
    /// Another user wrote at the same time: tried again at once.
    Conflict,
    /// Anything that may pass by itself: tried again with backoff.
    Transient,
    /// A defect of Weft.
    Bug,
}

/// A workload and its rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadReport {
    /// The DaemonSet or Deployment.
    pub object: ObjectKey,
    /// State of the rollout.
    pub rollout: Rollout,
}

/// An object on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Identity of the object.
    pub object: ObjectKey,
    /// Why it is still there. `None` while there is nothing to complain of.
    pub blocker: Option<String>,
}
