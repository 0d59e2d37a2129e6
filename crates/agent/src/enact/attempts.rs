//! How often a policy may be tried on this node, and when again.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use weft_api::node_network::Outcome;

use super::{status::State, wish::Wish};

/// How often and how soon. As kubernetes-nmstate has it in its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Tries before a policy counts as failed: `NNCP_MAX_RETRIES`.
    pub max: u32,
    /// The wait before the second try: `NNCP_INITIAL_BACKOFF_SECONDS`. It doubles with each.
    pub initial: Duration,
    /// The longest wait: `NNCP_MAX_BACKOFF_SECONDS`.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            max: 5,
            initial: Duration::from_secs(1),
            longest: Duration::from_secs(30),
        }
    }
}

impl Retries {
    /// From the environment. The agent logs a value that is not a number, and ignores it.
    pub fn from_env() -> Self {
        let number = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
            value
                .parse::<u32>()
                .inspect_err(
                    |error| tracing::warn!(name, value, %error, "not a number: the default counts"),
                )
                .ok()
        };
        let default = Self::default();
        let seconds = |name: &str, default: Duration| {
            number(name).map_or(default, |seconds| Duration::from_secs(seconds.into()))
        };
        Self {
            max: number("NNCP_MAX_RETRIES").unwrap_or(default.max).max(1),
            initial: seconds("NNCP_INITIAL_BACKOFF_SECONDS", default.initial),
            longest: seconds("NNCP_MAX_BACKOFF_SECONDS", default.longest),
        }
    }

    pub(super) fn wait(&self, count: u32) -> Duration {
        self.initial
            .saturating_mul(2_u32.saturating_pow(count.saturating_sub(1)))
            .min(self.longest)
    }
}

/// The tries of one generation of a policy.
#[derive(Clone, Debug, PartialEq)]
struct Tries {
    of: (i64, Option<String>),
    count: u32,
    /// How many of them found the peer out of reach without the change as well.
    outages: u32,
    not_before: Instant,
    /// The end, if there is no other try. The status may not have it yet.
    given_up: Option<(State, Outcome)>,
}

/// The tries of each policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts(BTreeMap<String, Tries>);

impl Attempts {
    /// One more try has failed. How many that makes, and whether there is another.
    pub fn failed(&mut self, wish: &Wish, retries: Retries, now: Instant) -> (u32, bool) {
        let of = (wish.generation, wish.retry.clone());
        // A process before this one may have tried.
        let known = wish
            .status
            .retry_count
            .as_ref()
            .and_then(|counts| counts.get(&wish.generation.to_string()).copied());
        let earlier = match self.0.get(&wish.policy) {
            Some(tries) if tries.of == of => tries.count,
            Some(_) => 0,
            None if wish.status.observed_generation == Some(wish.observed) => {
                known.and_then(|count| count.try_into().ok()).unwrap_or(0)
            }
            None => 0,
        };
        let count = earlier + 1;
        let known = self.0.get(&wish.policy).filter(|tries| tries.of == of);
        let outages = known.map_or(0, |tries| tries.outages);
        self.0.insert(
            wish.policy.clone(),
            Tries {
                of,
                count,
                outages,
                not_before: now + retries.wait(count),
                given_up: None,
            },
        );
        (count, count < retries.max)
    }

    /// Notes that the last try was an outage. Returns how many of this generation were.
    pub fn outage(&mut self, policy: &str) -> u32 {
        self.0.get_mut(policy).map_or(1, |tries| {
            tries.outages += 1;
            tries.outages
        })
    }

    /// Notes how a policy has failed that is not tried again.
    pub fn give_up(&mut self, policy: &str, state: &State, outcome: &Outcome) {
        if let Some(tries) = self.0.get_mut(policy) {
            tries.given_up = Some((state.clone(), outcome.clone()));
        }
    }

    /// Lets a policy be tried again that was given up, if it has tries left. Returns how many there
    /// were, and how long it has to wait.
    pub fn resume(&mut self, wish: &Wish, retries: Retries) -> Option<(u32, Duration)> {
        let tries = self.0.get_mut(&wish.policy)?;
        if tries.count >= retries.max {
            return None;
        }
        tries.given_up = None;
        Some((tries.count, retries.wait(tries.count)))
    }

    /// How a policy has failed for good, if it has.
    pub fn given_up(&self, wish: &Wish) -> Option<&(State, Outcome)> {
        self.tries(wish)?.given_up.as_ref()
    }

    /// How long a policy has to wait for its next try.
    pub fn wait(&self, wish: &Wish, now: Instant) -> Option<Duration> {
        let tries = self.tries(wish)?;
        Some(tries.not_before.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    fn tries(&self, wish: &Wish) -> Option<&Tries> {
        self.0
            .get(&wish.policy)
            .filter(|tries| tries.of.0 == wish.generation && tries.of.1 == wish.retry)
    }

    /// Notes that the policy was applied.
    pub fn done(&mut self, policy: &str) {
        self.0.remove(policy);
    }
}

#[cfg(test)]
mod tests {
    use weft_api::node_network::{Decision, NodeNetworkConfigurationEnactmentStatus as Status};

    use super::*;

    fn wish(generation: i64, retry: Option<&str>) -> Wish {
        Wish {
            name: "node-1.p".into(),
            policy: "p".into(),
            observed: 1,
            generation,
            decision: Decision::Granted,
            retry: retry.map(str::to_owned),
            granted: None,
            waits: None,
            status: Status::default(),
        }
    }

    #[test]
    fn waits_double_and_end() {
        let retries = Retries {
            max: 4,
            initial: Duration::from_secs(1),
            longest: Duration::from_secs(3),
        };
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let wish_1 = wish(1, None);
        for (count, seconds, again) in [(1, 1, true), (2, 2, true), (3, 3, true), (4, 3, false)] {
            assert_eq!(attempts.failed(&wish_1, retries, now), (count, again));
            assert_eq!(
                attempts.wait(&wish_1, now),
                Some(Duration::from_secs(seconds))
            );
        }
        assert_eq!(attempts.wait(&wish_1, now + Duration::from_secs(3)), None);
    }

    #[test]
    fn a_new_generation_or_annotation_starts_again() {
        let retries = Retries::default();
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..4 {
            attempts.failed(&wish(1, None), retries, now);
        }
        assert_eq!(attempts.wait(&wish(2, None), now), None);
        assert_eq!(attempts.failed(&wish(2, None), retries, now), (1, true));
        assert_eq!(
            attempts.failed(&wish(2, Some("now")), retries, now),
            (1, true)
        );
    }

    #[test]
    fn a_policy_is_given_up_until_it_changes() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let failed = State::Failed {
            message: "Probe (API server): no answer".into(),
        };
        attempts.failed(&wish(1, None), Retries::default(), now);
        assert_eq!(attempts.given_up(&wish(1, None)), None);
        attempts.give_up("p", &failed, &Outcome::default());
        let end = Some((failed, Outcome::default()));
        assert_eq!(attempts.given_up(&wish(1, None)), end.as_ref());
        assert_eq!(attempts.given_up(&wish(2, None)), None);
        assert_eq!(attempts.given_up(&wish(1, Some("now"))), None);

        let only_one = Retries {
            max: 1,
            ..Retries::default()
        };
        assert_eq!(attempts.resume(&wish(1, None), only_one), None);
        assert!(attempts.given_up(&wish(1, None)).is_some());
        let second = Some((1, Duration::from_secs(1)));
        assert_eq!(attempts.resume(&wish(1, None), Retries::default()), second);
        assert_eq!(attempts.given_up(&wish(1, None)), None);
    }

    #[test]
    fn outages_are_counted_apart_from_other_failures() {
        let retries = Retries::default();
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        attempts.failed(&wish(1, None), retries, now);
        for outages in 1..=2 {
            attempts.failed(&wish(1, None), retries, now);
            assert_eq!(attempts.outage("p"), outages);
        }
        attempts.failed(&wish(1, Some("now")), retries, now);
        assert_eq!(attempts.outage("p"), 1);
    }

    #[test]
    fn a_new_process_goes_on_counting() {
        let mut known = wish(7, None);
        known.status.observed_generation = Some(1);
        known.status.retry_count = Some(BTreeMap::from([("7".into(), 3)]));
        assert_eq!(
            Attempts::default().failed(&known, Retries::default(), Instant::now()),
            (4, true)
        );
    }
}
