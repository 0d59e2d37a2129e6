//! Pauses that grow with each failure, with jitter so that the agents of many nodes do not come
//! back together.

use std::time::Duration;

use rand::Rng;

/// Pauses from `first` to `most`, doubling.
#[derive(Debug)]
pub struct Pause {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Pause {
    /// Begins without a failure, with the first pause and the longest one.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            failures: 0,
        }
    }

    /// The pause after one more failure: between half and all of the current step.
    pub fn next(&mut self) -> Duration {
        let step = self
            .first
            .saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX))
            .min(self.most);
        self.failures = self.failures.saturating_add(1).min(31);
        step.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Forgets all failures after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_cap_and_start_over() {
        let (first, most) = (Duration::from_millis(100), Duration::from_secs(5));
        let mut pause = Pause::new(first, most);
        let pauses: Vec<_> = (0..100).map(|_| pause.next()).collect();
        assert!(pauses[0] <= first);
        assert!(
            pauses[10..]
                .iter()
                .all(|pause| (most / 2..=most).contains(pause))
        );
        pause.reset();
        assert!(pause.next() <= first);
    }
}
