//! How the node's own desired state has failed, and when it is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use super::attempts::Retries;
use crate::{
    state_dir::{Error, StateDir},
    transaction::Failure,
};

const FILE: &str = "own-failure.json";

/// The node's own desired state, and the value of the annotation that asks for another try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub state: Value,
    pub retry: Option<String>,
}

/// A desired state that is not tried again. Its Secrets are references, and the failure has none of
/// their values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GivenUp {
    asked: Asked,
    failure: Failure,
}

/// A desired state that is tried again.
#[derive(Debug)]
struct Failed {
    asked: Asked,
    /// How often it has failed.
    count: u32,
    /// How often the peer was out of reach without the change as well.
    outages: u32,
    /// When it is tried again.
    until: Instant,
}

/// The tries of the node's own desired state.
#[derive(Debug, Default)]
pub(super) struct OwnTries {
    failed: Option<Failed>,
    /// In the agent's folder too: another process must not cut the node off once more.
    given_up: Option<GivenUp>,
}

impl OwnTries {
    /// Reads what an earlier process has given up.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub fn load(dir: &StateDir) -> Result<Self, Error> {
        Ok(Self {
            failed: None,
            given_up: dir.read(FILE)?,
        })
    }

    /// Returns why this is not tried again, if so.
    pub fn given_up(&self, asked: &Asked) -> Option<&Failure> {
        let given_up = self.given_up.as_ref()?;
        (given_up.asked == *asked).then_some(&given_up.failure)
    }

    /// Returns how long this has to wait for its next try.
    pub fn wait(&self, asked: &Asked) -> Option<Duration> {
        let failed = self
            .failed
            .as_ref()
            .filter(|failed| failed.asked == *asked)?;
        Some(failed.until.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }

    /// One more try has failed. Returns how long to wait for the next one. `None` if there is none.
    ///
    /// # Errors
    /// The agent's folder cannot be written.
    pub fn failed(
        &mut self,
        asked: Asked,
        failure: &Failure,
        retries: Retries,
        dir: &StateDir,
    ) -> Result<Option<Duration>, Error> {
        let earlier = self.failed.take().filter(|failed| failed.asked == asked);
        let (count, outages) = earlier.map_or((0, 0), |failed| (failed.count, failed.outages));
        let (count, outages) = (count + 1, outages + u32::from(failure.is_outage));
        // A refusal cuts nothing off, and a missing card may come.
        if failure.probe.is_none() || failure.may_pass(outages) {
            let wait = retries.wait(count);
            self.failed = Some(Failed {
                asked,
                count,
                outages,
                until: Instant::now() + wait,
            });
            return Ok(Some(wait));
        }
        let given_up = self.given_up.insert(GivenUp {
            asked,
            failure: failure.clone(),
        });
        dir.write(FILE, given_up)?;
        Ok(None)
    }

    /// Notes that the state was applied, or that there is none.
    ///
    /// # Errors
    /// The agent's folder cannot be written.
    pub fn done(&mut self, dir: &StateDir) -> Result<(), Error> {
        self.failed = None;
        match self.given_up.take() {
            Some(_) => dir.remove(FILE),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nmstate::ErrorKind;
    use serde_json::json;

    use super::*;
    use crate::transaction::Phase;

    #[tokio::test]
    async fn a_state_that_cut_the_node_off_is_tried_again_only_when_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let asked = |mtu: u32, retry: Option<&str>| Asked {
            state: json!({"interfaces": [{"name": "eth0", "mtu": mtu}]}),
            retry: retry.map(str::to_owned),
        };
        let retries = Retries::default();
        let mut tries = OwnTries::load(&dir).unwrap();
        let late = Failure::new(Phase::Apply, "the lease did not come");
        let wait = tries.failed(asked(1, None), &late, retries, &dir).unwrap();
        assert_eq!(wait, Some(Duration::from_secs(1)));
        let wait = tries.failed(asked(1, None), &late, retries, &dir).unwrap();
        assert_eq!(wait, Some(Duration::from_secs(2)));
        assert!(tries.wait(&asked(1, None)).is_some());
        assert_eq!(tries.wait(&asked(2, None)), None, "another state");
        let refused = Failure::said(ErrorKind::InvalidArgument, "no such port");
        let wait = tries.failed(asked(4, None), &refused, retries, &dir);
        assert_eq!(wait.unwrap(), Some(Duration::from_secs(1)));

        let cut_off = Failure::probe("API server", "no answer");
        let wait = tries.failed(asked(2, None), &cut_off, retries, &dir);
        assert_eq!(wait.unwrap(), None);
        let mut tries = OwnTries::load(&dir).unwrap();
        assert_eq!(tries.given_up(&asked(2, None)), Some(&cut_off));
        assert_eq!(tries.given_up(&asked(2, Some("now"))), None);
        assert_eq!(tries.given_up(&asked(3, None)), None);
        tries.done(&dir).unwrap();
        let tries = OwnTries::load(&dir).unwrap();
        assert_eq!(tries.given_up(&asked(2, None)), None);
    }
}
