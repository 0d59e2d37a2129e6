//! How often an owner's request may be tried on this node, and when again.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use weft_node_network::claims::Owner;

use crate::{
    state_dir::{Error, StateDir},
    transaction::{Failure, GivenUp, Request},
};

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

/// The tries of one request.
#[derive(Clone, Debug, PartialEq)]
struct Tries {
    of: Request,
    count: u32,
    /// How many of them found the peer out of reach without the change as well.
    outages: u32,
    not_before: Instant,
}

/// The tries of each owner, and those that have failed for good.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    tries: BTreeMap<Owner, Tries>,
    /// In the agent's folder too. The status may not have it yet.
    given_up: GivenUp,
}

impl Attempts {
    /// Reads what an earlier process has given up.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub fn load(&mut self, dir: &StateDir) -> Result<(), Error> {
        self.given_up = GivenUp::load(dir)?;
        Ok(())
    }

    /// Writes to the agent's folder what has failed for good.
    pub fn save(&self, dir: &StateDir) {
        if let Err(error) = self.given_up.save(dir) {
            tracing::error!(%error, "another process of the agent may make a change again that has cut the node off");
        }
    }

    /// One more try has failed. Returns how many that makes, and whether there is another. `earlier`
    /// are those of a process before this one.
    pub fn failed(
        &mut self,
        owner: &Owner,
        request: &Request,
        earlier: u32,
        retries: Retries,
        now: Instant,
    ) -> (u32, bool) {
        let known = self.tries.get(owner);
        let (earlier, outages) = match known {
            Some(tries) if tries.of == *request => (tries.count, tries.outages),
            Some(_) => (0, 0),
            None => (earlier, 0),
        };
        let count = earlier + 1;
        let tries = Tries {
            of: request.clone(),
            count,
            outages,
            not_before: now + retries.wait(count),
        };
        self.tries.insert(owner.clone(), tries);
        self.given_up.forget(owner);
        (count, count < retries.max)
    }

    /// Notes that the last try was an outage. Returns how many of this request were.
    pub fn outage(&mut self, owner: &Owner) -> u32 {
        self.tries.get_mut(owner).map_or(1, |tries| {
            tries.outages += 1;
            tries.outages
        })
    }

    /// Notes how a request has failed that is not tried again.
    pub fn give_up(&mut self, owner: Owner, request: Request, failure: Failure) {
        self.given_up.add(owner, request, failure);
    }

    /// Lets an owner be tried again that was given up, if it has tries left. Returns how many there
    /// were, and how long it has to wait.
    pub fn resume(
        &mut self,
        owner: &Owner,
        request: &Request,
        retries: Retries,
    ) -> Option<(u32, Duration)> {
        let tries = self.of(owner, request)?;
        let count = tries.count;
        if count >= retries.max {
            return None;
        }
        self.given_up.forget(owner);
        Some((count, retries.wait(count)))
    }

    /// How a request has failed for good, if it has.
    pub fn given_up(&self, owner: &Owner, request: &Request) -> Option<&Failure> {
        self.given_up.failure(owner, request)
    }

    /// How long a request has to wait for its next try.
    pub fn wait(&self, owner: &Owner, request: &Request, now: Instant) -> Option<Duration> {
        let tries = self.of(owner, request)?;
        Some(tries.not_before.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    fn of(&self, owner: &Owner, request: &Request) -> Option<&Tries> {
        self.tries.get(owner).filter(|tries| tries.of == *request)
    }

    /// Notes that what an owner asked for was applied, or that it asks for nothing. Returns true if
    /// it had failed for good.
    pub fn done(&mut self, owner: &Owner) -> bool {
        self.tries.remove(owner);
        self.given_up.forget(owner)
    }

    /// Forgets all other policies. Returns true if one of them had failed for good.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) -> bool {
        self.tries.retain(|owner, _| match owner {
            Owner::Policy(name) => is_kept(name),
            Owner::Node => true,
        });
        self.given_up.keep(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner() -> Owner {
        Owner::Policy("p".into())
    }

    fn request(generation: i64, retry: Option<&str>) -> Request {
        Request {
            wish: json!(generation),
            retry: retry.map(str::to_owned),
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
        let first = request(1, None);
        for (count, seconds, again) in [(1, 1, true), (2, 2, true), (3, 3, true), (4, 3, false)] {
            let failed = attempts.failed(&owner(), &first, 0, retries, now);
            assert_eq!(failed, (count, again));
            assert_eq!(
                attempts.wait(&owner(), &first, now),
                Some(Duration::from_secs(seconds))
            );
        }
        let later = now + Duration::from_secs(3);
        assert_eq!(attempts.wait(&owner(), &first, later), None);
        assert_eq!(attempts.wait(&Owner::Node, &first, now), None);
    }

    #[test]
    fn another_request_starts_again() {
        let retries = Retries::default();
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let mut failed = |request: &Request| attempts.failed(&owner(), request, 3, retries, now);
        assert_eq!(
            failed(&request(1, None)),
            (4, true),
            "another process has tried"
        );
        assert_eq!(failed(&request(1, None)), (5, false));
        assert_eq!(failed(&request(2, None)), (1, true));
        assert_eq!(failed(&request(2, Some("now"))), (1, true));
        assert_eq!(attempts.wait(&owner(), &request(2, None), now), None);
    }

    #[test]
    fn a_request_is_given_up_until_it_changes() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let (retries, first) = (Retries::default(), request(1, None));
        let cut_off = Failure::probe("API server", "no answer");
        attempts.failed(&owner(), &first, 0, retries, now);
        assert_eq!(attempts.given_up(&owner(), &first), None);
        attempts.give_up(owner(), first.clone(), cut_off.clone());
        assert_eq!(attempts.given_up(&owner(), &first), Some(&cut_off));
        assert_eq!(attempts.given_up(&owner(), &request(2, None)), None);
        assert_eq!(attempts.given_up(&owner(), &request(1, Some("now"))), None);

        let only_one = Retries { max: 1, ..retries };
        assert_eq!(attempts.resume(&owner(), &first, only_one), None);
        assert!(attempts.given_up(&owner(), &first).is_some());
        let second = Some((1, Duration::from_secs(1)));
        assert_eq!(attempts.resume(&owner(), &first, retries), second);
        assert_eq!(attempts.given_up(&owner(), &first), None);
        attempts.give_up(owner(), first.clone(), cut_off);
        assert!(attempts.keep(|_| false));
        assert_eq!(attempts.given_up(&owner(), &first), None);
        assert_eq!(attempts.wait(&owner(), &first, now), None);
    }

    #[test]
    fn outages_are_counted_apart_from_other_failures() {
        let retries = Retries::default();
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        attempts.failed(&owner(), &request(1, None), 0, retries, now);
        for outages in 1..=2 {
            attempts.failed(&owner(), &request(1, None), 0, retries, now);
            assert_eq!(attempts.outage(&owner()), outages);
        }
        attempts.failed(&owner(), &request(1, Some("now")), 0, retries, now);
        assert_eq!(attempts.outage(&owner()), 1);
    }
}
