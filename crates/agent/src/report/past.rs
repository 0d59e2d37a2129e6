//! The history of the node as its NodeNetworkState has it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use weft_api::node_network::NodeNetworkChange;
use weft_plan::escape;

use super::patch::size;
use crate::{
    history::{History, Summary},
    state_dir::{Error, StateDir},
};

/// How many bytes of JSON the history has in status. The report of the network is the larger part.
const BUDGET: usize = 16 * 1024;

/// The last changes. They are read again only after another change.
#[derive(Default)]
pub struct Past {
    newest: Option<u64>,
    changes: Vec<NodeNetworkChange>,
}

impl Past {
    /// Returns the changes, the newest first.
    ///
    /// # Errors
    /// The agent's folder cannot be read.
    pub fn read(&mut self, dir: &StateDir) -> Result<&[NodeNetworkChange], Error> {
        let history = History::new(dir)?;
        let newest = history.newest()?;
        if newest != self.newest {
            let readable = |(number, summary): (u64, Result<Summary, Error>)| {
                let failed = |error: &Error| {
                    tracing::warn!(number, %error, "a change of the history cannot be read, and is left out");
                };
                Some(change((number, summary.inspect_err(failed).ok()?)))
            };
            self.changes = within(
                BUDGET,
                history.summaries()?.into_iter().filter_map(readable),
            );
            self.newest = newest;
        }
        Ok(&self.changes)
    }
}

fn change((number, summary): (u64, Summary)) -> NodeNetworkChange {
    let text = |text: &str| escape::text(text).into_owned();
    // The API server stores whole seconds. With more, the stored history would never be equal.
    let at = Timestamp::from_second(summary.at.as_second()).unwrap_or(summary.at);
    NodeNetworkChange {
        number: i64::try_from(number).unwrap_or(i64::MAX),
        at: Time(at),
        what: text(&summary.what),
        failure: summary.failure.as_deref().map(text),
        differences: summary.differences.iter().map(|line| text(line)).collect(),
    }
}

/// The first changes that fit into this many bytes.
fn within(
    budget: usize,
    changes: impl Iterator<Item = NodeNetworkChange>,
) -> Vec<NodeNetworkChange> {
    let mut total = 0;
    changes
        .take_while(|change| {
            total += size(change);
            total <= budget
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use nmstate::NetworkState;

    use super::*;
    use crate::history::Entry;

    fn add(history: &History, what: &str, mtu: u32) {
        let state = |mtu: u32| {
            NetworkState::new_from_yaml(&format!(
                "interfaces: [{{name: eth1, type: ethernet, state: up, mtu: {mtu}}}]"
            ))
            .unwrap()
        };
        let entry = Entry::new(
            what,
            Ok(()),
            state(1500),
            state(mtu).into(),
            &BTreeSet::new(),
        );
        history.add(&entry).unwrap();
    }

    #[test]
    fn the_past_follows_the_history_and_has_the_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let (history, mut past) = (History::new(&dir).unwrap(), Past::default());
        assert_eq!(past.read(&dir).unwrap(), []);
        add(&history, "policy a\u{1b}", 1400);
        add(&history, "policy b", 9000);
        let seen: Vec<_> = past
            .read(&dir)
            .unwrap()
            .iter()
            .map(|change| {
                (
                    change.number,
                    change.what.clone(),
                    change.differences.clone(),
                )
            })
            .collect();
        let of =
            |number: i64, what: &str, line: &str| (number, what.to_owned(), vec![line.to_owned()]);
        assert_eq!(
            seen,
            [
                of(2, "policy b", "~ interfaces[eth1].mtu: 1500 -> 9000"),
                of(1, "policy a^[", "~ interfaces[eth1].mtu: 1500 -> 1400")
            ]
        );
        let changes = past.read(&dir).unwrap();
        let stored = serde_json::to_value(changes).unwrap();
        assert_eq!(
            serde_json::from_value::<Vec<NodeNetworkChange>>(stored).unwrap(),
            changes,
            "an equal history is not written again"
        );
    }

    #[test]
    fn a_long_history_loses_its_oldest_changes() {
        let long = |number: i64| NodeNetworkChange {
            number,
            at: Time(Timestamp::UNIX_EPOCH),
            what: "x".repeat(BUDGET / 3),
            failure: None,
            differences: Vec::new(),
        };
        let kept = within(BUDGET, (0..5).map(|older| long(5 - older)));
        let numbers: Vec<_> = kept.iter().map(|change| change.number).collect();
        assert_eq!(numbers, [5, 4]);
    }
}
