//! Durations as Go writes them, for operands that read them with Go's `time.ParseDuration`.
//!
//! `kube_core::Duration` does not serve here. It panics at `1h-1m` and at durations beyond its
//! range, accepts the empty text, and rounds to the precision of a float.

use std::{cmp::Ordering, fmt, str::FromStr, time::Duration};

/// A duration above zero. It keeps the text that it was written as. Two durations are compared by
/// their value.
#[derive(Clone, Debug)]
pub struct GoDuration {
    nanoseconds: u64,
    text: String,
}

/// The rule that a duration breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not the syntax of Go.
    #[error(
        "{0:?} is not a duration: write numbers with units, such as 168h0m0s, 24h or 1.5h (units: ns, us, ms, s, m, h)"
    )]
    Syntax(String),
    /// A duration of zero or less.
    #[error("{0:?} is not above zero: choose a longer duration, such as 24h")]
    NotPositive(String),
    /// More than Go's 63 bits of nanoseconds.
    #[error("{0:?} is too long: the longest duration is about 2562047h (292 years)")]
    TooLong(String),
}

impl GoDuration {
    /// So many hours, at least one, written as Go writes them.
    pub fn from_hours(hours: u32) -> Self {
        let hours = u64::from(hours.max(1));
        Self {
            nanoseconds: hours * 3_600_000_000_000,
            text: format!("{hours}h0m0s"),
        }
    }

    /// Its length.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds
    }
}

/// Reads the time of a flag, such as `30s`, `5m` or `1h30m`. A number without a unit is in seconds.
///
/// # Errors
/// The text is not a time above zero. The message says how to write one.
pub fn of_flag(text: &str) -> Result<Duration, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let written = if digits {
        format!("{text}s")
    } else {
        text.to_owned()
    };
    match written.parse::<GoDuration>() {
        Ok(time) => Ok(Duration::from_nanos(time.nanoseconds())),
        Err(DurationError::Syntax(_)) => Err(format!(
            "{text:?} is not a time: write it like 30s, 5m or 1h30m"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the time of a flag as [`of_flag`] does, from `least` to `most` seconds.
///
/// # Errors
/// As [`of_flag`], or the time is out of range.
pub fn of_flag_within(text: &str, least: u64, most: u64) -> Result<Duration, String> {
    let time = of_flag(text)?;
    if (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&time) {
        Ok(time)
    } else {
        Err(format!("{text:?} is not from {least}s to {most}s"))
    }
}

/// The syntax of Go's `time.ParseDuration`: an optional sign, then one or more decimal numbers,
/// each with an optional fraction and a unit.
impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let syntax = || DurationError::Syntax(text.to_owned());
        // As in Go, "0" needs no unit.
        if rest == "0" {
            return Err(DurationError::NotPositive(text.to_owned()));
        }
        if rest.is_empty() {
            return Err(syntax());
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let (whole, after) = split_digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => split_digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(syntax());
            }
            let unit_end = after
                .find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            let unit = unit_nanoseconds(unit).ok_or_else(syntax)?;
            total = part(whole, fraction, unit)
                .and_then(|part| total.checked_add(part))
                .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
            rest = after;
        }
        match u64::try_from(total) {
            _ if negative => Err(DurationError::NotPositive(text.to_owned())),
            Ok(0) => Err(DurationError::NotPositive(text.to_owned())),
            Ok(nanoseconds) if i64::try_from(nanoseconds).is_ok() => Ok(Self {
                nanoseconds,
                text: text.to_owned(),
            }),
            _ => Err(DurationError::TooLong(text.to_owned())),
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

fn unit_nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter look the same. Go reads both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `whole.fraction` units, in nanoseconds. `None` if that is far beyond any duration.
fn part(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // More digits than these are below a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    whole
        .checked_mul(unit)?
        .checked_add(fraction * unit / scale)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for GoDuration {
    fn eq(&self, other: &Self) -> bool {
        self.nanoseconds == other.nanoseconds
    }
}

impl Eq for GoDuration {}

impl PartialOrd for GoDuration {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoDuration {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanoseconds.cmp(&other.nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_time_of_a_flag_has_a_unit_or_counts_seconds() {
        for (text, seconds) in [("2", 2), ("30s", 30), ("5m", 300), ("1h30m", 5400)] {
            assert_eq!(of_flag(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(of_flag("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "soon", "5 m", "-3s", "0", "0s", "99999999999999999999"] {
            assert!(of_flag(text).is_err(), "{text}");
        }
        assert_eq!(
            of_flag_within("1s", 3, 3600),
            Err("\"1s\" is not from 3s to 3600s".to_owned())
        );
        assert_eq!(of_flag_within("1h", 3, 3600), Ok(Duration::from_secs(3600)));
    }

    #[test]
    fn durations_of_go_are_read() {
        for (text, nanoseconds) in [
            ("168h0m0s", 168 * 3600 * SECOND),
            ("1.5h", 5400 * SECOND),
            ("+24h", 24 * 3600 * SECOND),
            ("1h15m30.918273645s", 4_530_918_273_645),
            (".5s", SECOND / 2),
            ("5.s", 5 * SECOND),
            ("1ns", 1),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("10ms", 10_000_000),
            ("1s1s", 2 * SECOND),
            ("9223372036854775807ns", i64::MAX.unsigned_abs()),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.nanoseconds(), nanoseconds, "{text}");
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn nothing_else_is() {
        for text in [
            "", "+", "3", "-", "s", ".", ".s", "1d", "1 h", "h1", "1h ", "1h-1m", "1..5s", "1e3s",
            "\u{661}s", "1S",
        ] {
            assert_eq!(
                text.parse::<GoDuration>(),
                Err(DurationError::Syntax(text.to_owned())),
                "{text:?}"
            );
        }
        for text in ["0", "0s", "-1h", "-0", "0h0m", "0.4ns"] {
            assert_eq!(
                text.parse::<GoDuration>(),
                Err(DurationError::NotPositive(text.to_owned())),
                "{text:?}"
            );
        }
        for text in [
            "9223372036854775808ns",
            "3000000h",
            "99999999999999999999999999999999999999999999h",
        ] {
            assert_eq!(
                text.parse::<GoDuration>(),
                Err(DurationError::TooLong(text.to_owned())),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn hours_minutes_and_seconds_add_up(hours in 0_u64..100_000, minutes in 0_u64..60, seconds in 1_u64..60) {
            let text = format!("{hours}h{minutes}m{seconds}s");
            let duration: GoDuration = text.parse().unwrap();
            prop_assert_eq!(duration.nanoseconds(), (hours * 3600 + minutes * 60 + seconds) * SECOND);
            prop_assert_eq!(duration.to_string(), text);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn nor_any_text_of_the_right_letters(text in "[-+0-9.nuµmsh]{0,40}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
