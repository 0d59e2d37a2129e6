//! The time by the API server's clock.
//!
//! Objects hold times of several machines: the API server writes when an object was created, the
//! kubelet since when a pod is not ready, an agent until when it acts, and the operator when a
//! condition changed. Clocks of machines may differ by hours, and somebody may set one while a
//! program runs. So Weft takes each time that it writes into an object or compares with one from the
//! API server, which all its programs talk to. (The library stamps events with the machine's time.) The header `Date` of each answer has the time (RFC
//! 9110, section 6.6.1), and from one answer to the next `CLOCK_BOOTTIME` counts on, which nobody can
//! set.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Response, header::DATE};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};

use crate::boot_clock::BootInstant;

/// How much earlier than the known time a date may be before it counts as a clock that was set back.
/// `Date` has whole seconds, and the answer was under way for as long as a request may take. Of the
/// replicas of an API server the one whose clock is ahead counts, up to this difference.
const LATE: SignedDuration = SignedDuration::from_mins(1);

/// The last time by the API server's clock.
static LAST: Mutex<Option<Reading>> = Mutex::new(None);

/// A time by the API server's clock, and the moment at which it came.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    time: Timestamp,
    at: BootInstant,
}

impl Reading {
    /// The API server's time at this moment.
    fn time_at(self, moment: BootInstant) -> Timestamp {
        let passed = moment.since_boot().saturating_sub(self.at.since_boot());
        SignedDuration::try_from(passed)
            .ok()
            .and_then(|passed| self.time.checked_add(passed).ok())
            .unwrap_or(self.time)
    }

    /// The better of what is known and a date that came just now. A date is never ahead of the clock
    /// that it is from.
    fn after(known: Option<Self>, date: Timestamp, moment: BootInstant) -> Self {
        let new = Self {
            time: date,
            at: moment,
        };
        match known {
            Some(known) => {
                let ahead = known.time_at(moment).duration_since(date);
                if ahead.is_negative() || ahead > LATE {
                    new
                } else {
                    known
                }
            }
            None => new,
        }
    }
}

/// Returns the time by the API server's clock. Before its first answer, this is the machine's own
/// time.
#[must_use]
pub fn now() -> Timestamp {
    let last = *last();
    last.map_or_else(Timestamp::now, |last| last.time_at(BootInstant::now()))
}

/// The header that the API server gives each of its answers. A proxy that answers in its place has a
/// clock of its own.
const OWN: &str = "audit-id";

/// Reads the clock from an answer of the API server, and hands the answer on.
pub(crate) fn read<B>(answer: Response<B>) -> Response<B> {
    if let Some(date) = date_of(answer.headers()) {
        let mut last = last();
        *last = Some(Reading::after(*last, date, BootInstant::now()));
    }
    answer
}

fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    headers.get(OWN)?;
    let date = headers.get(DATE)?;
    DateTimeParser::new().parse_timestamp(date.as_bytes()).ok()
}

fn last() -> MutexGuard<'static, Option<Reading>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_date_is_read_as_http_writes_it() {
        let read = |date: &str| {
            let answer = Response::builder().header(OWN, "a").header(DATE, date);
            date_of(answer.body(()).unwrap().headers())
        };
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let of_a_proxy = Response::builder().header(DATE, date).body(()).unwrap();
        assert_eq!(date_of(of_a_proxy.headers()), None);
        assert_eq!(
            read("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(at(784_111_777)),
            "the example of RFC 9110"
        );
        assert_eq!(read("soon"), None);
        assert_eq!(date_of(&HeaderMap::new()), None);
    }

    #[test]
    fn the_boot_clock_counts_on_between_answers() {
        let begun = BootInstant::now();
        let hour = Duration::from_secs(3600);
        let known = Reading::after(None, at(1_000_000), begun);
        assert_eq!(known.time_at(begun + hour), at(1_003_600));
        // Of dates in whole seconds, the latest is the nearest to the truth.
        let second = Duration::from_millis(500);
        let earlier = Reading::after(Some(known), at(1_000_000), begun + second);
        assert_eq!(earlier, known);
        let later = Reading::after(Some(known), at(1_000_001), begun + second);
        assert_eq!(later.time_at(begun + second), at(1_000_001));
    }

    #[test]
    fn an_api_server_whose_clock_is_set_is_followed_and_a_late_answer_is_not() {
        let begun = BootInstant::now();
        let known = Reading::after(None, at(1_000_000), begun);
        let now = begun + Duration::from_secs(30);
        assert_eq!(Reading::after(Some(known), at(1_000_000), now), known);
        for set in [1_000_000 - 7200, 1_000_000 + 7200] {
            let followed = Reading::after(Some(known), at(set), now);
            assert_eq!(followed.time_at(now), at(set));
        }
    }
}
