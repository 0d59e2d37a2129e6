//! Pauses that grow with each failure, with jitter so that many clients do not come back together.

use std::time::{Duration, Instant};

use rand::Rng;

/// Time without a failure after which an attempt counts as working. A watch of a quiet kind gives
/// no other sign, and no attempt takes so long.
const STEADY: Duration = Duration::from_secs(60);

/// Pauses from `first` to `most`, doubling.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
    /// When the last pause was over.
    resumed: Option<Instant>,
}

impl Backoff {
    /// Returns a backoff without failures.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            failures: 0,
            resumed: None,
        }
    }

    /// The pause after one more failure: between half and all of the current step.
    pub fn next_pause(&mut self) -> Duration {
        self.pause_at(Instant::now())
    }

    fn pause_at(&mut self, now: Instant) -> Duration {
        if self.resumed.is_some_and(|resumed| now > resumed + STEADY) {
            self.failures = 0;
        }
        let step = self
            .first
            .saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX))
            .min(self.most);
        self.failures = self.failures.saturating_add(1).min(31);
        let pause = step.mul_f64(rand::rng().random_range(0.5..=1.0));
        self.resumed = Some(now + pause);
        pause
    }

    /// Forgets all failures after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_secs(5);

    #[test]
    fn pauses_grow_to_the_cap_and_start_over() {
        let mut backoff = Backoff::new(FIRST, MOST);
        let pauses: Vec<_> = (0..100).map(|_| backoff.next_pause()).collect();
        assert!(pauses[0] <= FIRST);
        assert!(
            pauses[10..]
                .iter()
                .all(|pause| (MOST / 2..=MOST).contains(pause))
        );
        backoff.reset();
        assert!(backoff.next_pause() <= FIRST);
    }

    #[test]
    fn a_failure_after_a_long_good_time_is_a_first_one() {
        let mut backoff = Backoff::new(FIRST, MOST);
        let mut now = Instant::now();
        for _ in 0..100 {
            now += backoff.pause_at(now) + STEADY / 2;
        }
        assert!(backoff.pause_at(now) >= MOST / 2);
        assert!(backoff.pause_at(now + MOST + STEADY + FIRST) <= FIRST);
    }
}
