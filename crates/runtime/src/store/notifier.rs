//! The signal that a store has changed.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes the one task that waits for a change. Clones wake the same task.
#[derive(Clone, Default)]
pub struct Notifier(Arc<Notify>);

impl Notifier {
    /// Waits for the next notification. Returns at once if there was one since the last wait.
    pub async fn notified(&self) {
        self.0.notified().await;
    }

    /// Wakes the waiting task, or the next one that waits.
    pub fn notify(&self) {
        self.0.notify_one();
    }
}
