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

/// Mostly a request to an API server that has other work to do as well.
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

/// Looks until there is a result, with this pause between two looks. An inner `Err` says what there
/// is instead.
///
/// # Errors
/// An outer `Err` of `look` ends the wait, and so does the limit.
pub(crate) async fn within<T>(
    limit: Duration,
    pause: Duration,
    mut look: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        // The last look starts after the deadline: a test that was kept from the processor does not
        // fail for that.
        let last = Instant::now() > deadline;
        match look().await? {
            Ok(result) => return Ok(result),
            Err(instead) if last => bail!("not within {limit:?}. Instead: {instead}"),
            Err(_) => tokio::time::sleep(pause).await,
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
