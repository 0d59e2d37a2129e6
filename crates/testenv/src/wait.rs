//! Waiting for a condition, never for a time.

#![allow(clippy::panic)]

use std::{
    future::Future,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// How long a condition may take that comes in a second on an idle machine. Only a failing test
/// waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a program may take until it is ready. A start takes 3 s on two idle cores. This is for
/// busy ones.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a command may take that runs to its end: less than the five minutes of a test, so that
/// the test names the command.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(240);

/// How long one look may go on after the limit of its wait: it may be a request to a busy machine.
const LOOK: Duration = Duration::from_secs(60);

/// The first pause between two looks. Mostly a look is a request to an API server that has other
/// work to do as well, so the pauses grow, see [`within`].
const PAUSE: Duration = Duration::from_millis(50);

tokio::task_local! {
    static PATIENCE_HERE: Duration;
}

/// Runs a part of a test in which each condition may take so long instead of [`PATIENCE`]: where
/// answers are slow by design.
pub async fn with_patience<T>(patience: Duration, part: impl Future<Output = T>) -> T {
    PATIENCE_HERE.scope(patience, part).await
}

/// Looks until there is a result. `Err` says what there is instead, for the message of the failing
/// test.
pub async fn wait_until<T>(what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
    wait_within(
        PATIENCE_HERE
            .try_with(|patience| *patience)
            .unwrap_or(PATIENCE),
        what,
        look,
    )
    .await
}

/// The same with another limit: for what takes long by design, or must not take long.
pub async fn wait_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    match within(limit, PAUSE, async || Ok(look().await)).await {
        Ok(result) => result,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Waits once for an answer of a program, or for its end. Fails the test if there is none within the
/// limit.
pub async fn answer_within<T>(limit: Duration, what: &str, answer: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: no answer within {limit:?}"),
    }
}

/// Looks until there is a result, with this pause between the first two looks. Each pause is a
/// quarter longer than the one before, up to ten times the first: else tests that wait for a busy
/// API server keep it busy by their looks. An inner `Err` says what there is instead.
///
/// # Errors
/// An outer `Err` of `look` ends the wait. So does the limit, and a minute later a look that does
/// not end.
pub(crate) async fn within<T>(
    limit: Duration,
    pause: Duration,
    mut look: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    let longest = pause * 10;
    let mut pause = pause;
    loop {
        // The last look starts after the deadline: a test that was kept from the processor does not
        // fail for that.
        let now = Instant::now();
        let last = now > deadline;
        let rest = deadline.saturating_duration_since(now) + LOOK;
        match tokio::time::timeout(rest, look()).await {
            Err(_) => bail!("not within {limit:?}, and a look got no answer for {rest:?}"),
            Ok(looked) => match looked? {
                Ok(result) => return Ok(result),
                Err(instead) if last => bail!("not within {limit:?}. Instead: {instead}"),
                Err(_) => {
                    tokio::time::sleep(pause).await;
                    pause = longest.min(pause * 5 / 4);
                }
            },
        }
    }
}

/// The same for a thread that may block. Returns None if there is no result within the limit.
///
/// # Errors
/// An error of `look`.
pub(crate) fn blocking<T>(
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let deadline = Instant::now() + limit;
    loop {
        let last = Instant::now() > deadline;
        match look()? {
            None if !last => thread::sleep(Duration::from_millis(2)),
            found => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::pending;

    use super::*;

    // The paused clock of tokio advances to the next timer when nothing else is left to do.

    #[tokio::test(start_paused = true)]
    async fn a_look_that_never_ends_ends_the_wait() {
        let error = within::<()>(PATIENCE, PAUSE, async || pending().await)
            .await
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains("a look got no answer"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_looks_less_often_than_a_short_one() {
        let (started, mut looks) = (tokio::time::Instant::now(), Vec::new());
        let limit = Duration::from_secs(60);
        // The clock of the limit is the machine's, so the looks end the wait.
        let waited = within(limit, PAUSE, async || {
            looks.push(started.elapsed());
            Ok(if started.elapsed() > limit {
                Ok(())
            } else {
                Err("not yet".to_owned())
            })
        });
        waited.await.unwrap();
        let within_a_second = looks
            .iter()
            .filter(|at| **at < Duration::from_secs(1))
            .count();
        assert!(within_a_second > 5, "{within_a_second}");
        assert!(looks.len() < 150, "{}", looks.len());
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the probes: no answer within 60s")]
    async fn an_answer_that_never_comes_fails_the_test() {
        answer_within::<()>(PATIENCE, "the probes", pending()).await;
    }
}
