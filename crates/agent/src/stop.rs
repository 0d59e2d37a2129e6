//! The end of the process: signals, and the change that is under way then.

use std::time::Duration;

use crate::health::Health;

/// The time that a change under way gets to end after the signal to stop. The pod has 30 s.
const GRACE: Duration = Duration::from_secs(25);

/// Waits for the end of the change that is under way, for `GRACE` at most.
pub(crate) async fn last_change(health: &Health) {
    let mut under_way = health.under_way();
    tracing::info!(changes = *under_way.borrow(), "stopping");
    // If the work does not end in time, NetworkManager rolls back, and the next process reports it.
    let _ = tokio::time::timeout(GRACE, under_way.wait_for(|count| *count == 0)).await;
}

/// Ends at SIGTERM or SIGINT.
pub(crate) fn signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    // Registered at once, so that a signal before the first poll counts, too.
    let (terminate, interrupt) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    );
    async move {
        match (terminate, interrupt) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "signals cannot be handled");
                std::future::pending::<()>().await;
            }
        }
    }
}
