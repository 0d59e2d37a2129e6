//! Since when ports of automatic bonds are in doubt: they hear neighbors, and none of these
//! announces the bond's VLAN.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;
use weft_node_network::bonding::GRACE;

/// The ports of a policy in doubt, with the start of the doubt. A new process begins to count again:
/// a port leaves its bond later then, and never earlier.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts(BTreeMap<String, Instant>);

impl Doubts {
    /// Notes the ports that are in doubt now. Returns those that have been for
    /// [`GRACE`], and how long the next one has left.
    pub fn note<'a>(
        &mut self,
        in_doubt: impl Iterator<Item = &'a str>,
        now: Instant,
    ) -> (BTreeSet<String>, Option<Duration>) {
        self.0 = in_doubt
            .map(|port| (port.to_owned(), self.0.get(port).copied().unwrap_or(now)))
            .collect();
        let left = |since: &Instant| (*since + GRACE).saturating_duration_since(now);
        let leaving = self
            .0
            .iter()
            .filter(|(_, since)| left(since).is_zero())
            .map(|(port, _)| port.clone())
            .collect();
        let next = self
            .0
            .values()
            .map(left)
            .filter(|left| !left.is_zero())
            .min();
        (leaving, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_leaves_after_it_was_in_doubt_all_the_time() {
        let (mut doubts, start) = (Doubts::default(), Instant::now());
        let mut note = |ports: &[&str], after: Duration| {
            let (leaving, next) = doubts.note(ports.iter().copied(), start + after);
            (leaving.into_iter().collect::<Vec<_>>(), next)
        };
        let second = Duration::from_secs(1);
        assert_eq!(note(&["eth1"], Duration::ZERO), (vec![], Some(GRACE)));
        assert_eq!(
            note(&["eth1", "eth2"], GRACE - second),
            (vec![], Some(second))
        );
        assert_eq!(
            note(&["eth1", "eth2"], GRACE),
            (vec!["eth1".to_owned()], Some(GRACE - second))
        );
        // One frame that announces the VLAN ends the doubt.
        assert_eq!(note(&["eth2"], GRACE), (vec![], Some(GRACE - second)));
        assert_eq!(
            note(&["eth1"], 2 * GRACE),
            (vec![], Some(GRACE)),
            "the count begins again"
        );
    }
}
