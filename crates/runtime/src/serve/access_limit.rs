//! Verdicts on clients that ask for metrics, and limits on requests to the API server about unknown
//! tokens.
//!
//! Pure: the time is an argument.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// The rights of a client to read metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client may read them.
    Allowed,
    /// The API server does not know the token.
    Unauthenticated,
    /// The user of this name has no right to read them.
    Denied(String),
}

/// The digest of a token.
pub(crate) type Key = [u8; 32];

/// How long a verdict counts. A token that is revoked, or a right that is taken away, works no
/// longer than this.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a refusal counts: a client that has just got the right need not wait long.
const REFUSED: Duration = Duration::from_secs(10);
/// How many tokens of each sort, allowed and refused, are remembered.
const REMEMBERED: usize = 64;

/// Questions about unknown tokens from one address: so many at once, then one a second. A
/// Prometheus comes with one token for each of its jobs, and with a new one every hour.
const ADDRESS: Rate = Rate {
    burst: 5.0,
    per_second: 1.0,
};
/// The same from all addresses together. An API server answers thousands of reviews a second. A
/// webhook behind it may be slower.
const ALL: Rate = Rate {
    burst: 20.0,
    per_second: 10.0,
};

/// The verdict on a token, if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The last verdict still counts.
    Known(Verdict),
    /// It was allowed, and the verdict is too old. The API server may be asked without limit.
    Ask,
    /// It was never allowed: see [`Memory::admit`].
    Stranger,
}

/// Verdicts, and limits. Allowed tokens have a place apart from all others, so that no number of
/// bad tokens pushes them out.
#[derive(Default)]
pub(crate) struct Memory {
    /// Until when each counts. Later it only says that the token was allowed.
    allowed: HashMap<Key, Instant>,
    refused: HashMap<Key, (Verdict, Instant)>,
    addresses: HashMap<IpAddr, Bucket>,
    all: Option<Bucket>,
}

impl Memory {
    /// Returns the verdict on this token.
    pub(crate) fn look(&self, key: &Key, now: Instant) -> Look {
        match (self.allowed.get(key), self.refused.get(key)) {
            (Some(until), _) if now < *until => Look::Known(Verdict::Allowed),
            (Some(_), _) => Look::Ask,
            (None, Some((verdict, until))) if now < *until => Look::Known(verdict.clone()),
            _ => Look::Stranger,
        }
    }

    /// Permits a request to the API server about an unknown token from this address, or returns the
    /// time after which it may come.
    pub(crate) fn admit(&mut self, from: IpAddr, now: Instant) -> Result<(), Duration> {
        // An address whose bucket is full again is like one that never came. So only as many are
        // kept as have asked in the last few seconds.
        self.addresses.retain(|_, bucket| !bucket.is_full(now));
        let all = self.all.get_or_insert_with(|| Bucket::full(ALL, now));
        let mut address = self
            .addresses
            .get(&from)
            .cloned()
            .unwrap_or_else(|| Bucket::full(ADDRESS, now));
        // A question that the one limit refuses does not count for the other one.
        let pause = address.pause(now).max(all.pause(now));
        if !pause.is_zero() {
            return Err(pause);
        }
        address.take(now);
        all.take(now);
        self.addresses.insert(from, address);
        Ok(())
    }

    /// Remembers a verdict on a token.
    pub(crate) fn learn(&mut self, key: Key, verdict: &Verdict, now: Instant) {
        self.allowed.remove(&key);
        self.refused.remove(&key);
        if *verdict == Verdict::Allowed {
            make_room(&mut self.allowed, |until| *until);
            self.allowed.insert(key, now + ALLOWED);
        } else {
            make_room(&mut self.refused, |(_, until)| *until);
            self.refused.insert(key, (verdict.clone(), now + REFUSED));
        }
    }
}

/// Forgets what ends first.
fn make_room<T>(known: &mut HashMap<Key, T>, until: impl Fn(&T) -> Instant) {
    while known.len() >= REMEMBERED
        && let Some(oldest) = known
            .iter()
            .min_by_key(|(_, one)| until(one))
            .map(|(key, _)| *key)
    {
        known.remove(&oldest);
    }
}

#[derive(Clone, Copy)]
struct Rate {
    burst: f64,
    per_second: f64,
}

/// A token bucket, for questions.
#[derive(Clone)]
struct Bucket {
    rate: Rate,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            left: rate.burst,
            at: now,
        }
    }

    fn left(&self, now: Instant) -> f64 {
        let more = now.saturating_duration_since(self.at).as_secs_f64() * self.rate.per_second;
        (self.left + more).min(self.rate.burst)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.left(now) >= self.rate.burst
    }

    /// How long until one can be taken. Zero if one can be taken now.
    fn pause(&self, now: Instant) -> Duration {
        Duration::from_secs_f64((1.0 - self.left(now)).max(0.0) / self.rate.per_second)
    }

    fn take(&mut self, now: Instant) {
        (self.left, self.at) = (self.left(now) - 1.0, now);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn key(number: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    /// How many questions of these are admitted.
    fn admitted(
        memory: &mut Memory,
        from: impl IntoIterator<Item = IpAddr>,
        now: Instant,
    ) -> usize {
        from.into_iter()
            .filter(|from| memory.admit(*from, now).is_ok())
            .count()
    }

    #[test]
    fn a_verdict_counts_for_its_time() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        let denied = Verdict::Denied("somebody".into());
        memory.learn(key(1), &Verdict::Allowed, start);
        memory.learn(key(2), &denied, start);
        memory.learn(key(3), &Verdict::Unauthenticated, start);
        let just_before = |time: Duration| start + time - Duration::from_millis(1);
        assert_eq!(
            memory.look(&key(1), just_before(ALLOWED)),
            Look::Known(Verdict::Allowed)
        );
        assert_eq!(
            memory.look(&key(2), just_before(REFUSED)),
            Look::Known(denied)
        );
        assert_eq!(
            memory.look(&key(3), just_before(REFUSED)),
            Look::Known(Verdict::Unauthenticated)
        );
        assert_eq!(memory.look(&key(1), start + ALLOWED), Look::Ask);
        assert_eq!(memory.look(&key(2), start + REFUSED), Look::Stranger);
        assert_eq!(memory.look(&key(4), start), Look::Stranger);
    }

    #[test]
    fn bad_tokens_push_out_no_token_that_was_allowed() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        memory.learn(key(0), &Verdict::Allowed, start);
        for number in 1..1000 {
            memory.learn(key(number), &Verdict::Unauthenticated, start);
        }
        assert_eq!(memory.refused.len(), REMEMBERED);
        assert_eq!(memory.look(&key(0), start), Look::Known(Verdict::Allowed));
        assert_eq!(
            memory.look(&key(0), start + 2 * ALLOWED),
            Look::Ask,
            "its next question is not limited"
        );
    }

    #[test]
    fn a_token_that_is_refused_later_is_a_stranger_again() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        memory.learn(key(0), &Verdict::Allowed, start);
        memory.learn(key(0), &Verdict::Unauthenticated, start + ALLOWED);
        assert_eq!(
            memory.look(&key(0), start + ALLOWED),
            Look::Known(Verdict::Unauthenticated)
        );
        assert_eq!(
            memory.look(&key(0), start + ALLOWED + REFUSED),
            Look::Stranger
        );
    }

    #[test]
    fn the_memory_of_allowed_tokens_is_limited() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        for number in 0..1000 {
            memory.learn(
                key(number),
                &Verdict::Allowed,
                start + Duration::from_millis(number as u64),
            );
        }
        assert_eq!(memory.allowed.len(), REMEMBERED);
        assert_eq!(
            memory.look(&key(999), start),
            Look::Known(Verdict::Allowed),
            "the newest stay"
        );
    }

    #[test]
    fn questions_from_one_address_are_limited_and_leave_room_for_others() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        let flood = || std::iter::repeat_n(address(1), 1000);
        assert_eq!(admitted(&mut memory, flood(), start), 5);
        assert_eq!(memory.admit(address(1), start), Err(Duration::from_secs(1)));
        assert_eq!(memory.admit(address(2), start), Ok(()));
        assert_eq!(
            admitted(&mut memory, flood(), start + Duration::from_secs(3)),
            3
        );
    }

    #[test]
    fn questions_from_many_addresses_are_limited_together() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        assert_eq!(admitted(&mut memory, (0..1000).map(address), start), 20);
        assert_eq!(
            memory.admit(address(5000), start),
            Err(Duration::from_millis(100))
        );
        assert_eq!(
            admitted(
                &mut memory,
                (1000..2000).map(address),
                start + Duration::from_secs(1)
            ),
            10
        );
        assert!(
            memory.addresses.len() <= 30,
            "refused addresses are not kept: {}",
            memory.addresses.len()
        );
        memory
            .admit(address(0), start + Duration::from_secs(60))
            .expect("a full bucket");
        assert_eq!(memory.addresses.len(), 1, "old addresses are forgotten");
    }
}
