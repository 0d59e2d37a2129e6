//! The API server's data has gone back in time.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::Notify;

/// Signals that the API server's data is older than data that was seen before, as after etcd was
/// restored from a snapshot.
///
/// Everything that is remembered of the cluster is then of a future that never happens: versions,
/// generations and what was written. A watch that is resumed at a version of that future gets no
/// event until the data has caught up. So whoever is signalled starts over.
#[derive(Clone, Debug, Default)]
pub struct Rewind(Arc<Notify>);

impl Rewind {
    /// Signals that the data has gone back in time.
    pub fn signal(&self) {
        self.0.notify_one();
    }

    /// Returns when it is signalled, or at once if it was since the last time.
    pub async fn signalled(&self) {
        self.0.notified().await;
    }

    /// Forgets a signal that nobody has waited for: several streams notice the same.
    pub fn clear(&self) {
        let _ = self.0.notified().now_or_never();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_once_and_can_be_forgotten() {
        let rewind = Rewind::default();
        rewind.signal();
        rewind.signal();
        assert!(rewind.signalled().now_or_never().is_some());
        assert!(rewind.signalled().now_or_never().is_none());
        rewind.signal();
        rewind.clear();
        assert!(rewind.signalled().now_or_never().is_none());
    }
}
