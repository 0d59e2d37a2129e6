//! Requests that have failed for good and are not tried again, in the agent's folder: another process
//! must not cut the node off once more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_node_network::claims::Owner;

use super::Failure;
use crate::state_dir::{Error, StateDir};

const FILE: &str = "given-up.json";

/// A request of an owner. Another wish is another request, and so is another value of the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The generation of a policy and the values of the node for it, or the node's own desired state.
    /// Secrets are references.
    pub wish: Value,
    /// The value of the annotation that asks for another try.
    pub retry: Option<String>,
}

/// A request that is not tried again, and how it has failed. The failure has no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ended {
    request: Request,
    failure: Failure,
}

/// The requests that are not tried again, one of each owner at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    policies: BTreeMap<String, Ended>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Ended>,
}

impl GivenUp {
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
    /// The agent's folder cannot be written.
    pub fn save(&self, dir: &StateDir) -> Result<(), Error> {
        if *self == Self::default() {
            return dir.remove(FILE);
        }
        dir.write(FILE, self)
    }

    /// Returns how this request of an owner has failed for good, if it has.
    pub fn failure(&self, owner: &Owner, request: &Request) -> Option<&Failure> {
        let ended = match owner {
            Owner::Policy(name) => self.policies.get(name),
            Owner::Node => self.node.as_ref(),
        }?;
        (ended.request == *request).then_some(&ended.failure)
    }

    /// Notes how a request of an owner has failed for good.
    pub fn add(&mut self, owner: Owner, request: Request, failure: Failure) {
        let ended = Ended { request, failure };
        match owner {
            Owner::Policy(name) => {
                self.policies.insert(name, ended);
            }
            Owner::Node => self.node = Some(ended),
        }
    }

    /// Forgets an owner. Returns true if there was a failure of it.
    pub fn forget(&mut self, owner: &Owner) -> bool {
        match owner {
            Owner::Policy(name) => self.policies.remove(name).is_some(),
            Owner::Node => self.node.take().is_some(),
        }
    }

    /// Forgets all other policies. Returns true if there were any.
    pub fn keep(&mut self, mut is_kept: impl FnMut(&str) -> bool) -> bool {
        let before = self.policies.len();
        self.policies.retain(|policy, _| is_kept(policy));
        self.policies.len() != before
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_that_has_failed_for_good_is_known_to_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let request = |mtu: u32, retry: Option<&str>| Request {
            wish: json!({"interfaces": [{"name": "eth0", "mtu": mtu}]}),
            retry: retry.map(str::to_owned),
        };
        let owners = [
            Owner::Node,
            Owner::Policy("p".into()),
            Owner::Policy("q".into()),
        ];
        let cut_off = Failure::probe("API server", "no answer");
        let mut given_up = GivenUp::load(&dir).unwrap();
        for owner in &owners {
            given_up.add(owner.clone(), request(1, None), cut_off.clone());
        }
        given_up.save(&dir).unwrap();

        let mut given_up = GivenUp::load(&dir).unwrap();
        for owner in &owners {
            let failure = |request: &Request| given_up.failure(owner, request);
            assert_eq!(failure(&request(1, None)), Some(&cut_off), "{owner}");
            assert_eq!(failure(&request(1, Some("now"))), None, "{owner}");
            assert_eq!(failure(&request(2, None)), None, "{owner}");
        }
        assert!(!given_up.keep(|_| true));
        assert!(given_up.keep(|policy| policy == "p"));
        assert!(given_up.forget(&owners[0]));
        assert!(!given_up.forget(&owners[2]));
        assert!(given_up.forget(&owners[1]));
        given_up.save(&dir).unwrap();
        assert!(!dir.path(FILE).exists(), "nothing is left to know");
    }
}
