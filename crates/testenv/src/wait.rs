//! Waiting for a condition, never for a time. For tests: what does not come is a panic.

#![allow(clippy::panic)]

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// How long a condition may take that comes in a second on an idle machine. Only a failing test
/// waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
    let deadline = Instant::now() + limit;
    loop {
        // The last look starts after the deadline: a test that was kept from the processor does not
        // fail for that.
        let last = Instant::now() > deadline;
        match look().await {
            Ok(result) => return result,
            Err(instead) if last => panic!("not within {limit:?}: {what}. Instead: {instead}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
