//! The addresses of pools that nodes have, as decisions need them.

use std::collections::BTreeMap;

use weft_api::node_network::PoolAddress;

/// Why a node has no address of a pool, or one that another host has, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason, for a condition.
    pub(super) reason: &'static str,
    /// The field, the value, the rule and the fix.
    pub(super) message: String,
}

/// The addresses of nodes, as decisions need them.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// By the uid of the policy, the node and the pool.
    pub(super) held: BTreeMap<String, BTreeMap<String, BTreeMap<String, PoolAddress>>>,
    /// By policy and node.
    pub(super) problems: BTreeMap<(String, String), Problem>,
}

impl Addresses {
    /// Returns the addresses of a node for a policy, by pool.
    pub(super) fn of_node(&self, policy_uid: &str, node: &str) -> BTreeMap<String, PoolAddress> {
        let of_policy = self.held.get(policy_uid);
        of_policy
            .and_then(|nodes| nodes.get(node))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the addresses for a policy: node, pool, address.
    pub(super) fn of_policy(
        &self,
        policy_uid: &str,
    ) -> impl Iterator<Item = (&str, &str, &PoolAddress)> {
        let nodes = self.held.get(policy_uid).into_iter().flatten();
        nodes.flat_map(|(node, pools)| {
            pools
                .iter()
                .map(|(pool, address)| (node.as_str(), pool.as_str(), address))
        })
    }

    /// Returns the problem of a policy on a node.
    pub(super) fn problem(&self, policy: &str, node: &str) -> Option<&Problem> {
        self.problems.get(&(policy.to_owned(), node.to_owned()))
    }

    /// Returns the problems of a policy, by node.
    pub(super) fn problems_of(&self, policy: &str) -> impl Iterator<Item = (&str, &Problem)> {
        self.problems
            .iter()
            .filter(move |((of, _), _)| of == policy)
            .map(|((_, node), problem)| (node.as_str(), problem))
    }
}
