//! Control planes that the tests of a program use one after the other.
//!
//! The start of a control plane takes 2.5 s of the processor. A [reset](crate::reset) starts nothing.

use std::{
    mem,
    ops::Deref,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
};

use anyhow::{Result, bail};

use crate::{builder::Builder, control_plane::ControlPlane, reset::Pristine, stages::Stage};

/// A control plane that a test has for itself. It returns to the pool when it is dropped, unless
/// the test fails, has restored a backup or got hold of its processes. The next borrower resets it.
///
/// It is as new: no object of an earlier test is there, no client of it is connected, and
/// [`ControlPlane::audit_events`] has the requests since the loan only. The resourceVersions are
/// higher, and the programs have been running for a while.
pub struct Lent {
    /// None only while it is dropped.
    control_plane: Option<ControlPlane>,
    /// None if it does not return.
    place: Option<Place>,
}

/// The differences among control planes that a reset keeps.
#[derive(Clone, Debug)]
struct Place {
    api_only: bool,
    pristine: Pristine,
}

struct Waiting {
    control_plane: ControlPlane,
    place: Place,
}

/// The most control planes that wait. Each keeps more than a gigabyte of memory, and most tests in a
/// row borrow the same kind.
const WAITING: usize = 2;

/// Those that wait, the one that has waited longest first.
static POOL: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

fn pool() -> MutexGuard<'static, Vec<Waiting>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Builder {
    /// Lends a control plane: one from the pool, or a new one. It has an audit log.
    ///
    /// # Errors
    /// As [`start`](Self::start). A control plane that cannot be reset is ended, and another one
    /// takes its place.
    pub async fn lend(self) -> Result<Lent> {
        let (api_only, nodes, stages) = self.lendable();
        loop {
            let waiting = {
                let mut pool = pool();
                let found = pool
                    .iter()
                    .position(|waiting| waiting.place.api_only == api_only);
                found.map(|index| pool.remove(index))
            };
            let Some(Waiting {
                mut control_plane,
                place,
            }) = waiting
            else {
                break;
            };
            match control_plane.reset(&place.pristine).await {
                Ok(()) => return Lent::prepare(control_plane, place, nodes, &stages).await,
                Err(error) => eprintln!("weft-testenv: a control plane is replaced: {error:#}"),
            }
        }
        let new = ControlPlane::builder().audit(true);
        let new = if api_only {
            new.api_only()
        } else {
            new.nodes(0)
        };
        let control_plane = new.start().await?;
        let pristine = control_plane.settled().await?;
        let place = Place { api_only, pristine };
        Lent::prepare(control_plane, place, nodes, &stages).await
    }
}

impl Lent {
    async fn prepare(
        control_plane: ControlPlane,
        place: Place,
        nodes: Vec<String>,
        stages: &[Stage],
    ) -> Result<Self> {
        let lent = Self {
            control_plane: Some(control_plane),
            place: Some(place),
        };
        if !lent.place.as_ref().is_some_and(|place| place.api_only) {
            lent.follow(stages).await?;
            lent.add_nodes(&nodes).await?;
        }
        Ok(lent)
    }

    /// Resets it at once, for another part of the same test. The nodes and stages of the builder
    /// are not there.
    ///
    /// # Errors
    /// The reset failed, or it is not from the pool.
    pub async fn reset(mut self) -> Result<Self> {
        let (Some(mut control_plane), Some(place)) = (self.control_plane.take(), self.place.take())
        else {
            bail!("a control plane of its own has no state to return to");
        };
        control_plane.reset(&place.pristine).await?;
        Self::prepare(control_plane, place, vec![], &[]).await
    }
}

impl From<ControlPlane> for Lent {
    /// It ends when it is dropped.
    fn from(control_plane: ControlPlane) -> Self {
        Self {
            control_plane: Some(control_plane),
            place: None,
        }
    }
}

impl Deref for Lent {
    type Target = ControlPlane;

    #[allow(clippy::expect_used)]
    fn deref(&self) -> &ControlPlane {
        self.control_plane.as_ref().expect("only drop takes it out")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(control_plane), Some(place)) = (self.control_plane.take(), self.place.take())
        else {
            return;
        };
        // The folder of a test that fails is for its author.
        if thread::panicking() || !control_plane.is_reusable() {
            return;
        }
        control_plane.record_usage();
        end_with_the_program();
        let mut pool = pool();
        pool.push(Waiting {
            control_plane,
            place,
        });
        let surplus = pool.len().saturating_sub(WAITING);
        let surplus: Vec<_> = pool.drain(..surplus).collect();
        // The end of a control plane takes a while.
        mem::drop(pool);
        mem::drop(surplus);
    }
}

/// Ends the control planes of the pool, and removes their folders, when the program ends: nothing
/// drops what is in a static.
fn end_with_the_program() {
    extern "C" fn end() {
        pool().clear();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function unwinds into nobody, since dropping a control plane does not panic,
        // and it runs on the thread that ends the program.
        #[allow(unsafe_code)]
        unsafe {
            libc::atexit(end);
        }
    });
}
