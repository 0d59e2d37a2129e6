//! The file in the agent's folder while a transaction runs, for the next start after a crash.

use jiff::Timestamp;
use nmstate::NetworkState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_node_network::desired::Desired;

use super::Phase;
use crate::state_dir::{Error, StateDir};

const PHASE: &str = "transaction.json";
const STATES: &str = "transaction-states.json";

/// Where a transaction is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The phase that has begun.
    pub phase: Phase,
    /// The owner of the change, for people.
    pub what: String,
    /// When the transaction began.
    pub began: Timestamp,
    /// How the host differs from the state before, if a rollback has not restored all of it. Without
    /// secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_over: Option<String>,
}

/// The input for an undo that NetworkManager itself cannot do any more, because it was restarted
/// meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct States {
    /// The host before, secrets included.
    pub before: NetworkState,
    /// The wanted state, secrets included.
    pub desired: Desired,
    /// The note that belongs to the change.
    pub note: Option<Note>,
}

/// A file of the agent's folder that gets this content if and only if the change stays, wherever
/// the agent is killed: it waits in the journal, and takes its place after the commit, by this
/// process or by the one that cleans up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The name of the file in the agent's folder.
    pub file: String,
    /// The JSON content of the file.
    pub content: Value,
}

impl Journal {
    /// Begins, with what must be known to undo it.
    pub fn begin(dir: &StateDir, what: &str, states: &States) -> Result<Self, Error> {
        dir.write(STATES, states)?;
        let journal = Self {
            phase: Phase::Checkpoint,
            what: what.to_owned(),
            began: Timestamp::now(),
            left_over: None,
        };
        dir.write(PHASE, &journal)?;
        Ok(journal)
    }

    /// Notes a phase before it begins.
    pub fn enter(&mut self, dir: &StateDir, phase: Phase) -> Result<(), Error> {
        self.phase = phase;
        dir.write(PHASE, self)
    }

    /// Notes how the host differs from the state before. This counts until a rollback restores the
    /// rest, or another change begins.
    pub fn leave(&mut self, dir: &StateDir, left_over: String) -> Result<(), Error> {
        self.left_over = Some(left_over);
        dir.write(PHASE, self)
    }

    /// Returns how the host differs from the state before the last change, if that was rolled back
    /// and differs.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub fn left_over(dir: &StateDir) -> Result<Option<String>, Error> {
        let journal = dir.read::<Self>(PHASE)?;
        Ok(journal.and_then(|journal| journal.left_over))
    }

    /// Ends with the change on the host: what is to be known of it is written down first.
    pub fn end_after(dir: &StateDir, states: &States) -> Result<(), Error> {
        if let Some(note) = &states.note {
            dir.write(&note.file, &note.content)?;
        }
        Self::end_before(dir)
    }

    /// Ends with the host as it was before.
    pub fn end_before(dir: &StateDir) -> Result<(), Error> {
        // In this order: states without a phase mean nothing.
        dir.remove(PHASE)?;
        dir.remove(STATES)
    }

    /// Returns the journal of an interrupted process.
    pub fn left(dir: &StateDir) -> Result<Option<(Self, Option<States>)>, Error> {
        match dir.read::<Self>(PHASE)? {
            Some(journal) => Ok(Some((journal, dir.read(STATES)?))),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn states() -> States {
        let note = Note {
            file: "applied.json".into(),
            content: json!({"p": 2}),
        };
        States {
            before: NetworkState::new(),
            desired: Desired::default(),
            note: Some(note),
        }
    }

    fn applied(dir: &StateDir) -> Option<Value> {
        dir.read("applied.json").unwrap()
    }

    #[test]
    fn a_note_is_there_if_and_only_if_the_change_is() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        dir.write("applied.json", &json!({"p": 1})).unwrap();
        let mut journal = Journal::begin(&dir, "policy p", &states()).unwrap();
        for phase in [Phase::Apply, Phase::Probe, Phase::Commit, Phase::Note] {
            journal.enter(&dir, phase).unwrap();
            assert_eq!(applied(&dir), Some(json!({"p": 1})), "{phase}");
        }
        // A later process that finds the journal, as after a crash, finds the note, too.
        let (left, found) = Journal::left(&dir).unwrap().unwrap();
        assert_eq!(
            (left.phase, found.as_ref().unwrap().note.clone()),
            (Phase::Note, states().note)
        );
        Journal::end_after(&dir, &found.unwrap()).unwrap();
        assert_eq!(applied(&dir), Some(json!({"p": 2})));
        assert!(Journal::left(&dir).unwrap().is_none());

        dir.write("applied.json", &json!({"p": 1})).unwrap();
        Journal::begin(&dir, "policy p", &states()).unwrap();
        Journal::end_before(&dir).unwrap();
        assert_eq!(applied(&dir), Some(json!({"p": 1})));
        assert!(Journal::left(&dir).unwrap().is_none());
    }

    #[test]
    fn the_rest_of_a_rollback_is_known_until_the_next_change() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        assert_eq!(Journal::left_over(&dir).unwrap(), None);
        for end in [
            (|dir| Journal::end_before(dir)) as fn(&StateDir) -> Result<(), Error>,
            |dir| Journal::begin(dir, "policy q", &states()).map(drop),
        ] {
            let mut journal = Journal::begin(&dir, "policy p", &states()).unwrap();
            journal.enter(&dir, Phase::Rollback).unwrap();
            assert_eq!(Journal::left_over(&dir).unwrap(), None);
            journal.leave(&dir, "eth1.mtu".into()).unwrap();
            assert_eq!(
                Journal::left_over(&dir).unwrap().as_deref(),
                Some("eth1.mtu")
            );
            // A later process may try again.
            let (left, _) = Journal::left(&dir).unwrap().unwrap();
            assert_eq!(
                (left.phase, left.left_over.as_deref()),
                (Phase::Rollback, Some("eth1.mtu"))
            );
            end(&dir).unwrap();
            assert_eq!(Journal::left_over(&dir).unwrap(), None);
        }
    }

    #[test]
    fn a_crash_between_the_note_and_the_end_writes_it_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        Journal::begin(&dir, "policy p", &states())
            .unwrap()
            .enter(&dir, Phase::Note)
            .unwrap();
        let journal = std::fs::read(dir.path(PHASE)).unwrap();
        let kept = std::fs::read(dir.path(STATES)).unwrap();
        Journal::end_after(&dir, &states()).unwrap();
        std::fs::write(dir.path(PHASE), journal).unwrap();
        std::fs::write(dir.path(STATES), kept).unwrap();
        let (_, found) = Journal::left(&dir).unwrap().unwrap();
        Journal::end_after(&dir, &found.unwrap()).unwrap();
        assert_eq!(applied(&dir), Some(json!({"p": 2})));
    }
}
