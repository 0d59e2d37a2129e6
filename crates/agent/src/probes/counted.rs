//! The probes that counted at the first try of a generation of a policy, in the agent's folder.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Target;
use crate::state_dir::{Error, StateDir};

const FILE: &str = "probes.json";

/// The probes that count for a policy until its generation is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Tried {
    generation: i64,
    targets: Vec<Target>,
}

/// The probes of each policy that was tried and is not applied yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted(BTreeMap<String, Tried>);

impl Counted {
    /// Reads them.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub fn load(dir: &StateDir) -> Result<Self, Error> {
        Ok(dir.read(FILE)?.unwrap_or_default())
    }

    /// Writes them to the folder.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub fn save(&self, dir: &StateDir) -> Result<(), Error> {
        dir.write(FILE, self)
    }

    /// The probes that have counted for these generations of policies, each once.
    pub fn of(&self, policies: &BTreeMap<String, i64>) -> Vec<Target> {
        let mut all = Vec::new();
        for (policy, generation) in policies {
            let tried = self
                .0
                .get(policy)
                .filter(|tried| tried.generation == *generation);
            for target in tried.iter().flat_map(|tried| &tried.targets) {
                if !all.contains(target) {
                    all.push(target.clone());
                }
            }
        }
        all
    }

    /// Notes the probes of a try. Those of the first try of a generation stay.
    pub fn tried(&mut self, policies: &BTreeMap<String, i64>, targets: &[Target]) {
        for (policy, generation) in policies {
            let tried = self.0.entry(policy.clone()).or_default();
            if tried.generation != *generation || tried.targets.is_empty() {
                *tried = Tried {
                    generation: *generation,
                    targets: targets.to_vec(),
                };
            }
        }
    }

    /// Forgets these policies: they are applied.
    pub fn applied(&mut self, policies: &BTreeMap<String, i64>) {
        self.keep(|policy| !policies.contains_key(policy));
    }

    /// Forgets all other policies. Returns true if there were any.
    pub fn keep(&mut self, mut is_kept: impl FnMut(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|policy, _| is_kept(policy));
        self.0.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Means, Peer};

    fn policies(generation: i64) -> BTreeMap<String, i64> {
        BTreeMap::from([("p".to_owned(), generation)])
    }

    #[test]
    fn the_first_try_of_a_generation_says_what_counts_until_it_is_applied() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let gateway = Target::Peer(Peer::Gateway(Means::Icmp));
        let mut counted = Counted::load(&dir).unwrap();
        assert_eq!(counted.of(&policies(1)), []);
        counted.tried(&policies(1), &[gateway.clone(), Target::ApiServer]);
        counted.tried(&policies(1), &[Target::ApiServer]);
        counted.save(&dir).unwrap();
        // Another process.
        let mut counted = Counted::load(&dir).unwrap();
        assert_eq!(counted.of(&policies(1)), [gateway, Target::ApiServer]);
        assert_eq!(counted.of(&policies(2)), []);
        counted.tried(&policies(2), &[Target::ApiServer]);
        assert_eq!(counted.of(&policies(1)), []);
        assert_eq!(counted.of(&policies(2)), [Target::ApiServer]);
        assert!(!counted.keep(|policy| policy == "p"), "nothing to write");
        counted.applied(&policies(2));
        assert_eq!(counted, Counted::default());
    }
}
