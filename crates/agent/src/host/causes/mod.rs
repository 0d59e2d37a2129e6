//! NetworkManager's words about activations that fail while a change is applied.
//!
//! nmstate's error lacks them in three cases. NetworkManager accepts an activation and the device
//! fails later: nmstate only finds that the interface is missing. NetworkManager refuses several
//! activations: the error has the first one. The time limit ends nmstate between its retries.

mod devices;
mod records;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use devices::record;
pub use records::layer;

/// How many causes are kept, the last ones.
const MOST: usize = 4;
/// A longer cause is not kept, in bytes. The end of a cut text could be the beginning of a secret,
/// which nothing would mask.
const LONGEST: usize = 512;

/// The causes of the change that this process applies. The lock of the agent's folder allows one at
/// a time.
pub(super) static HEARD: Heard = Heard::new();

/// Causes. It records them only while a [`Listening`] exists.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Option<Vec<String>>>);

impl Heard {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Keeps causes from now on, until the result is dropped.
    pub(super) fn listen(&self) -> Listening<'_> {
        *self.causes() = Some(Vec::new());
        Listening(self)
    }

    fn is_listening(&self) -> bool {
        self.causes().is_some()
    }

    /// Adds a cause, if it is a new one.
    fn add(&self, cause: &str) {
        let mut kept = self.causes();
        let Some(causes) = kept.as_mut() else {
            return;
        };
        if cause.len() > LONGEST || causes.iter().any(|known| known == cause) {
            return;
        }
        if causes.len() == MOST {
            causes.remove(0);
        }
        causes.push(cause.to_owned());
    }

    fn causes(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps causes for as long as it lives.
#[derive(Debug)]
pub(super) struct Listening<'a>(&'a Heard);

impl Listening<'_> {
    /// The causes so far.
    pub(super) fn causes(&self) -> Vec<String> {
        self.0.causes().clone().unwrap_or_default()
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        *self.0.causes() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_kept_only_while_a_change_is_applied() {
        let heard = Heard::default();
        heard.add("before");
        let first = heard.listen();
        heard.add("br1 failed");
        assert_eq!(first.causes(), ["br1 failed"]);
        drop(first);
        heard.add("between");
        assert!(!heard.is_listening());
        let second = heard.listen();
        assert_eq!(second.causes(), [""; 0]);
    }

    #[test]
    fn the_last_causes_are_kept_and_each_of_them_once() {
        let heard = Heard::default();
        let listening = heard.listen();
        for _ in 0..1000 {
            heard.add("br0 failed");
        }
        assert_eq!(listening.causes(), ["br0 failed"]);
        for bridge in 1..=1000 {
            heard.add(&format!("br{bridge} failed"));
        }
        let last = [997, 998, 999, 1000].map(|bridge| format!("br{bridge} failed"));
        assert_eq!(listening.causes(), last);
    }

    #[test]
    fn a_text_that_is_too_long_is_not_cut_in_the_middle_of_a_secret() {
        let heard = Heard::default();
        let listening = heard.listen();
        heard.add(&format!("{}hunter2", "x".repeat(LONGEST - 3)));
        assert_eq!(listening.causes(), [""; 0]);
        let longest = "x".repeat(LONGEST);
        heard.add(&longest);
        assert_eq!(listening.causes(), [longest]);
    }
}
