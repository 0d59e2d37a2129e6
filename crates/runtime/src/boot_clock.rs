//! A clock that counts the time while the machine is suspended.

use std::{ops::Add, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// A moment by `CLOCK_BOOTTIME` of `clock_gettime(2)`, the time since the machine was started. A
/// [`std::time::Instant`] stands still while the machine is suspended, and the lease of a leader
/// does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// Returns the present moment.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        // The kernel gives neither a negative time since the start nor more nanoseconds than a second has.
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanoseconds))
    }

    /// Returns the time since the machine was started.
    #[must_use]
    pub fn since_boot(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}
