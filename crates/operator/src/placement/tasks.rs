//! Tasks at Keystone. They run next to the reconciles, which only ask for their progress. The
//! operator tries a failed task again with growing pauses, and does not repeat a successful one.
//!
//! A task holds the permission to send its values, and an assessment asks for the task only while
//! the permission is there. Without it, no attempt begins, and an attempt under way ends with the
//! reconcile.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::task::AbortHandle;
use weft_placement::registration::{Access, Change, Part, Progress, Task};
use weft_runtime::{api_server::web, reconcile::retry::Pause, store::notifier::Notifier};

use super::keystone::{Keystone, KeystoneError, registration};

/// The tasks of one PlacementAPI, the last one of each part.
#[derive(Default)]
pub(super) struct Tasks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    parts: BTreeMap<Part, Known>,
    /// The way to Keystone, with its token.
    keystone: Option<(Access, Arc<Keystone>)>,
}

struct Known {
    task: Task,
    /// True if it was asked for in this reconcile.
    is_asked: bool,
    /// The attempt that goes on.
    under_way: Option<AbortHandle>,
    /// The result of the last task.
    outcome: Option<Result<(), Failure>>,
}

struct Failure {
    /// The reason for status, without details where the address is not listed.
    told: String,
    /// The reason for the log, with all details.
    why: String,
    pause: Pause,
}

impl Drop for Known {
    /// Ends the attempt, since nobody needs its outcome any more. Keystone carries out a request as
    /// a whole, and a later task looks first at the result.
    fn drop(&mut self) {
        if let Some(attempt) = &self.under_way {
            attempt.abort();
        }
    }
}

impl Tasks {
    /// Returns the progress of this task. Begins it if it is new, or if it failed some time ago.
    /// Its end notifies the reconcile.
    pub fn ask(&self, task: &Task, notifier: &Notifier) -> Progress {
        let mut state = self.lock();
        if state
            .parts
            .get(&task.part)
            .is_none_or(|known| known.task != *task)
        {
            state.parts.insert(
                task.part,
                Known {
                    task: task.clone(),
                    is_asked: true,
                    under_way: None,
                    outcome: None,
                },
            );
        }
        let Some(known) = state.parts.get_mut(&task.part) else {
            return Progress::UnderWay;
        };
        known.is_asked = true;
        let is_due = match &known.outcome {
            None => true,
            Some(Ok(())) => return Progress::Done,
            Some(Err(failure)) => failure.pause.until() <= Instant::now(),
        };
        // While it is tried again, the last failure is what there is to say.
        let progress = known
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.as_ref().err())
            .map(|failure| Progress::Failed(failure.told.clone()));
        let is_first = known.outcome.is_none();
        if is_due && known.under_way.is_none() {
            let keystone = state.keystone(&task.access);
            let attempt = tokio::spawn(attempt(
                Arc::clone(&self.0),
                task.clone(),
                is_first,
                keystone,
                notifier.clone(),
            ))
            .abort_handle();
            if let Some(known) = state.parts.get_mut(&task.part) {
                known.under_way = Some(attempt);
            }
        }
        progress.unwrap_or(Progress::UnderWay)
    }

    /// Ends a reconcile: what it did not ask for is ended and forgotten. Returns when one is to be
    /// tried again.
    pub fn settle(&self) -> Option<Instant> {
        let mut state = self.lock();
        state
            .parts
            .retain(|_, known| std::mem::take(&mut known.is_asked));
        let waiting = state
            .parts
            .values()
            .filter(|known| known.under_way.is_none());
        waiting
            .filter_map(|known| {
                known
                    .outcome
                    .as_ref()?
                    .as_ref()
                    .err()
                    .map(|failure| failure.pause.until())
            })
            .min()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keystone(&mut self, access: &Access) -> Result<Arc<Keystone>, KeystoneError> {
        if let Some((known, keystone)) = &self.keystone
            && known == access
        {
            return Ok(Arc::clone(keystone));
        }
        let keystone = Arc::new(Keystone::new(access.clone())?);
        self.keystone = Some((access.clone(), Arc::clone(&keystone)));
        Ok(keystone)
    }
}

async fn attempt(
    state: Arc<Mutex<State>>,
    task: Task,
    is_first: bool,
    keystone: Result<Arc<Keystone>, KeystoneError>,
    notifier: Notifier,
) {
    let began = tokio::time::Instant::now();
    let outcome = match keystone {
        Ok(keystone) => carry_out(&keystone, &task).await,
        Err(error) => Err(error),
    };
    let is_listed = task.access.keystone.is_listed();
    if outcome
        .as_ref()
        .is_err_and(|error| is_first && !is_listed && error.is_about_host())
    {
        // A port that refuses must not show itself sooner than a silent one: the author of a
        // PlacementAPI could scan ports by time. Status does not change with the later attempts.
        tokio::time::sleep_until(began + web::REQUEST).await;
    }
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = state
        .parts
        .get_mut(&task.part)
        .filter(|known| known.task == task)
    else {
        return;
    };
    known.under_way = None;
    let before = known.outcome.take().and_then(Result::err);
    known.outcome = Some(match outcome {
        Ok(changes) => {
            if !changes.is_empty() {
                let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
                tracing::info!(keystone = %task.access.keystone.to(), changes = changes.join("; "), "registered");
            }
            Ok(())
        }
        Err(error) => {
            let why = error.to_string();
            if before.as_ref().is_none_or(|before| before.why != why) {
                tracing::warn!(why, "failed to carry out a task at Keystone");
            }
            let told = if is_listed {
                why.clone()
            } else {
                error.without_details()
            };
            Err(Failure {
                told,
                why,
                pause: Pause::after(before.map(|before| before.pause), error.class()),
            })
        }
    });
    drop(state);
    notifier.notify();
}

async fn carry_out(keystone: &Keystone, task: &Task) -> Result<Vec<Change>, KeystoneError> {
    match task.part {
        Part::Account => registration::account(keystone, &task.wanted).await,
        Part::Catalogue => registration::catalogue(keystone, &task.wanted).await,
        Part::Removal => registration::remove(keystone, &task.wanted).await,
    }
}
