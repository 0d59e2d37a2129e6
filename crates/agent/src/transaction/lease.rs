//! The time that a checkpoint lasts. It is short, so that NetworkManager soon brings a host back
//! whose agent was killed, and the agent renews it for as long as a longer step takes.

use std::{future::Future, pin::pin, time::Duration};

use nmstate::{Interface, NetworkState};

use super::Transactor;

/// How long the checkpoint outlasts the probes: for ports and the commit. With the probes' time it
/// stays below half a minute, the promise for a host that a change has cut off.
const SLACK: Duration = Duration::from_secs(8);
/// The forward delay of a bridge that does not name its own (IEEE 802.1D-2004, table 17-1).
const FORWARD_DELAY: u64 = 15;

impl Transactor {
    /// How long the checkpoint of a change lasts, from its last renewal.
    pub(super) fn lease(&self) -> Duration {
        self.prober.window + SLACK
    }

    /// Does a step of a transaction that may take longer than the lease, and renews the lease
    /// meanwhile. nmstate renews a checkpoint between its own calls only, and one call to
    /// NetworkManager can take a minute.
    pub(super) async fn while_renewing<T>(&self, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        loop {
            tokio::select! {
                biased;
                done = &mut step => return done,
                () = tokio::time::sleep(self.lease() / 4) => self.renew(self.lease()).await,
            }
        }
    }

    /// Has the checkpoint last for the probes from now on, and returns how long they may take.
    pub(super) async fn renew_for_probes(&self, desired: &NetworkState) -> Duration {
        let mut window = self.prober.window;
        if !super::bridges(desired).linux.is_empty() {
            match self.now().await {
                Ok(now) => window += learning(desired, &now),
                Err(error) => {
                    tracing::warn!(%error, "failed to read whether bridges have a spanning tree");
                }
            }
        }
        self.renew(window + SLACK).await;
        window
    }

    /// How long a probe that has failed may take to succeed once the host is as it was before: as
    /// long as after the change. A slow link must not look like an outage that has other causes.
    pub(super) fn window_after_rollback(
        &self,
        desired: &NetworkState,
        before: &NetworkState,
    ) -> Duration {
        self.prober.window + learning(desired, before)
    }

    async fn renew(&self, lease: Duration) {
        // If the checkpoint is gone, the commit reports it.
        if let Err(error) = self.host.renew(lease).await {
            tracing::debug!(%error, "failed to renew the checkpoint");
        }
    }
}

/// Returns how long the ports of the bridges in `desired` may listen and learn before they forward
/// anything: twice the forward delay of a bridge with a spanning tree (IEEE 802.1D-2004, 17.4),
/// else nothing.
fn learning(desired: &NetworkState, now: &NetworkState) -> Duration {
    let bridges = super::bridges(desired).linux;
    let delays = now.interfaces.iter().filter_map(|interface| {
        let Interface::LinuxBridge(bridge) = interface else {
            return None;
        };
        let stp = bridge.bridge.as_ref()?.options.as_ref()?.stp.as_ref()?;
        let waits = bridges.contains(interface.name()) && stp.enabled == Some(true);
        waits.then(|| stp.forward_delay.map_or(FORWARD_DELAY, u64::from))
    });
    Duration::from_secs(2 * delays.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::WINDOW;

    fn state(text: &str) -> NetworkState {
        NetworkState::new_from_yaml(text).unwrap()
    }

    #[test]
    fn a_host_is_back_within_half_a_minute() {
        assert!(WINDOW + SLACK < Duration::from_secs(30));
    }

    #[test]
    fn probes_wait_for_the_spanning_tree_of_the_bridges_of_a_change() {
        let now = state(
            "interfaces:
- {name: br1, type: linux-bridge, bridge: {options: {stp: {enabled: true, forward-delay: 4}}}}
- {name: br2, type: linux-bridge, bridge: {options: {stp: {enabled: true}}}}
- {name: br3, type: linux-bridge, bridge: {options: {stp: {enabled: false, forward-delay: 9}}}}
- {name: br4, type: linux-bridge}
- {name: eth1, type: ethernet}",
        );
        for (changed, seconds) in [("br1", 8), ("br2", 30), ("br3", 0), ("br4", 0), ("br5", 0)] {
            let desired = state(&format!(
                "interfaces: [{{name: {changed}, type: linux-bridge}}]"
            ));
            assert_eq!(learning(&desired, &now).as_secs(), seconds, "{changed}");
        }
        let both =
            state("interfaces: [{name: br1, type: linux-bridge}, {name: br2, type: linux-bridge}]");
        assert_eq!(learning(&both, &now).as_secs(), 30);
        assert_eq!(learning(&NetworkState::new(), &now).as_secs(), 0);
    }
}
