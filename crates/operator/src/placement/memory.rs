//! The state of a PlacementAPI between two reconciles.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use weft_placement::world::Question;
use weft_plan::{
    Drift, ObjectKey,
    report::{Failure, FailureClass},
};
use weft_runtime::reconcile::retry::{Pause, Retries};

use super::tasks::Tasks;

/// The state of a PlacementAPI between two reconciles: its watches, and the time of the next try.
#[derive(Default)]
pub(super) struct Memory {
    pub asked: BTreeSet<Question>,
    pub failures: BTreeMap<ObjectKey, Failure>,
    /// Objects that others keep different. Those that may not do their task are failures, too.
    pub held: Vec<Drift>,
    pub retries: Arc<Retries>,
    pub tasks: Tasks,
    /// Anything that failed and is no object's.
    pub pause: Option<Pause>,
    /// The last report about another operator.
    pub blocked: Option<String>,
}

impl Memory {
    /// Waits until no attempt goes on.
    pub async fn quiet(&self) {
        self.retries.quiet().await;
    }

    /// When to try again, if at all, after a failure of this class.
    pub fn retry(&mut self, failure: Option<FailureClass>) -> Option<Instant> {
        self.pause = failure.map(|class| Pause::after(self.pause.take(), class));
        self.pause.as_ref().map(Pause::until)
    }
}
