//! The applied state of each policy on this host, in the agent's folder: the state that a stopped
//! policy keeps, and the way back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_node_network::{
    capture::Captures,
    claims::{Layer, Owner, Rank},
    merge::merge,
    render::Rendered,
    revert, state,
};

use crate::{
    state_dir::{Error, StateDir},
    transaction::Note,
};

const FILE: &str = "applied.json";

/// The state that was applied for a policy last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Applied {
    /// The policy's generation.
    pub generation: i64,
    /// Its desired state. References to secrets are still in it.
    pub desired: Value,
    /// The results of its captures, which the enactment shows without secrets. Files of earlier
    /// versions of the agent have none.
    #[serde(default)]
    pub captures: Option<Captures>,
    /// The state that takes back all that the policy has changed, over all its generations.
    pub undo: Value,
}

/// Applied states by policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Store(BTreeMap<String, Applied>);

impl Store {
    pub fn load(dir: &StateDir) -> Result<Self, Error> {
        Ok(dir.read(FILE)?.unwrap_or_default())
    }

    pub fn save(&self, dir: &StateDir) -> Result<(), Error> {
        dir.write(FILE, self)
    }

    /// As a file that gets this content together with a change of the host.
    pub fn note(&self) -> Result<Note, serde_json::Error> {
        Ok(Note {
            file: FILE.to_owned(),
            content: serde_json::to_value(self)?,
        })
    }

    pub fn get(&self, policy: &str) -> Option<&Applied> {
        self.0.get(policy)
    }

    /// A policy is applied on a host that was like this before. Earlier notes stay, as after a
    /// crash: the host is not any more as it was before.
    pub fn applied(&mut self, policy: &str, generation: i64, rendered: &Rendered, before: &Value) {
        let Rendered {
            desired, captures, ..
        } = rendered.clone();
        if self
            .0
            .get(policy)
            .is_some_and(|known| known.generation == generation && known.desired == desired)
        {
            return;
        }
        let undo = revert::revert(before, &desired, &state::empty());
        let undo = match self.0.remove(policy) {
            // Changes of an earlier generation go back to the state before that generation.
            Some(earlier) => {
                let layer = |priority, state| Layer {
                    owner: Owner::Policy(policy.to_owned()),
                    rank: Rank::Policy(priority),
                    state,
                };
                merge(&[layer(0, undo), layer(1, earlier.undo)]).state
            }
            None => undo,
        };
        self.0.insert(
            policy.to_owned(),
            Applied {
                generation,
                desired,
                captures: Some(captures),
                undo,
            },
        );
    }

    /// Forgets policies that nobody answers for any more. Returns true if it removed any.
    pub fn keep(&mut self, mut is_kept: impl FnMut(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|policy, _| is_kept(policy));
        self.0.len() != before
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(desired: Value) -> Rendered {
        Rendered {
            desired,
            captures: Captures::new(),
            cards: BTreeMap::new(),
        }
    }

    #[test]
    fn the_way_back_leads_to_before_the_first_generation() {
        let eth1 = |mtu: u32| {
            json!({
                "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": mtu}]
            })
        };
        let mut store = Store::default();
        store.applied("p", 1, &rendered(eth1(9000)), &eth1(1500));
        store.applied("p", 2, &rendered(eth1(4000)), &eth1(9000));
        let applied = store.get("p").unwrap();
        assert_eq!(applied.generation, 2);
        assert_eq!(
            applied.undo["interfaces"][0]["mtu"], 1500,
            "{}",
            applied.undo
        );
        // Once more, as by a process that does not know whether it has done so.
        let known = store.clone();
        store.applied("p", 2, &rendered(eth1(4000)), &eth1(4000));
        assert_eq!(store, known);
        assert!(store.keep(|_| false));
        assert_eq!(store.get("p"), None);
    }

    #[test]
    fn changes_of_an_earlier_generation_go() {
        let br1 = |mtu: u32| {
            json!({
                "interfaces": [{"name": "br1", "type": "linux-bridge", "state": "up", "mtu": mtu}]
            })
        };
        let mut store = Store::default();
        store.applied("p", 1, &rendered(br1(1500)), &json!({"interfaces": []}));
        store.applied("p", 2, &rendered(br1(1400)), &br1(1500));
        assert_eq!(
            store.get("p").unwrap().undo["interfaces"][0]["state"],
            "absent"
        );
    }
}
