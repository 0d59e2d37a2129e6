//! Waiting for a condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks: small next to what is measured, and little load.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something.
///
/// # Errors
/// There is nothing for a minute, or looking fails.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    until_for(PATIENCE, what, look).await
}

/// The same with another patience.
///
/// # Errors
/// There is nothing for this long, or looking fails.
pub async fn until_for<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("not within {} s: {what}", patience.as_secs());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
