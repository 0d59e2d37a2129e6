//! The addresses that the operator would give to nodes now, for a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::{Value, json};
use weft_api::node_network::PoolAddress;

use super::{
    addresses::{addresses, assign},
    view::{Node, Policy, World},
};
use crate::{
    addresses::ledger::{Entry, Ledger},
    path::{entries, text},
};

/// The addresses of a node for a policy by pool, or why it gets none.
pub type Predicted = Result<BTreeMap<String, PoolAddress>, String>;

/// Returns the addresses by node and policy. The statuses of the policies say which nodes have
/// which already. Each node with a NodeNetworkState takes part. `reported` are the addresses in it.
pub fn predict(
    policies: &BTreeMap<String, Value>,
    nodes: &BTreeMap<String, Value>,
    reported: &BTreeMap<String, BTreeSet<IpAddr>>,
) -> BTreeMap<String, BTreeMap<String, Predicted>> {
    let of_policy = |(name, object): (&String, &Value)| {
        let mut policy = Policy::of(object);
        // One that is not applied yet has none.
        policy.uid.clone_from(name);
        (name.clone(), policy)
    };
    let seen: BTreeMap<String, Policy> = policies.iter().map(of_policy).collect();
    if seen.values().all(|policy| policy.pools.is_empty()) {
        return BTreeMap::new();
    }
    let of_node = |name: &String| {
        let unknown = json!({"metadata": {"name": name}});
        let node = Node::of(nodes.get(name).unwrap_or(&unknown));
        let uid = name.clone();
        (name.clone(), Node { uid, ..node })
    };
    let hosts: BTreeMap<String, Node> = reported.keys().map(of_node).collect();
    let mut ledger = Ledger::default();
    for (name, object) in policies {
        for address in entries(&object["status"]["addresses"]) {
            let entry = Entry {
                policy: name.clone(),
                policy_uid: name.clone(),
                pool: text(&address["pool"]),
                node: text(&address["node"]),
                node_uid: text(&address["node"]),
                leaves: None,
            };
            if let Ok(ip) = text(&address["ip"]).parse() {
                ledger.0.insert(ip, entry);
            }
        }
    }
    let world = World {
        policies: seen
            .iter()
            .map(|(name, policy)| (name.as_str(), policy))
            .collect(),
        nodes: hosts
            .iter()
            .map(|(name, node)| (name.as_str(), node))
            .collect(),
        agents: hosts.keys().map(String::as_str).collect(),
        reported: reported
            .iter()
            .map(|(name, addresses)| (name.as_str(), addresses))
            .collect(),
        ..World::default()
    };
    let (next, _) = assign(&world, &ledger);
    let found = addresses(&world, Ok(&next));
    let mut predicted: BTreeMap<String, BTreeMap<String, Predicted>> = BTreeMap::new();
    for node in hosts.keys() {
        for (name, policy) in &seen {
            let of_node = match found.problem(name, node) {
                Some(problem) => Err(problem.message.clone()),
                None => Ok(found.of_node(&policy.uid, node)),
            };
            predicted
                .entry(node.clone())
                .or_default()
                .insert(name.clone(), of_node);
        }
    }
    predicted
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_plan_keeps_addresses_and_gives_free_ones_to_new_nodes() {
        let policy = json!({
            "metadata": {"name": "p"},
            "spec": {
                "addressPools": {"a": {"range": "192.0.2.1-192.0.2.3", "prefixLength": 24}},
                "desiredState": {"hostname": {"config": "h-{{ pool.a.ip }}"}},
            },
            "status": {"addresses": [
                {"node": "n2", "pool": "a", "ip": "192.0.2.1", "prefixLength": 24}
            ]},
        });
        let reported = [
            ("n1", "192.0.2.2"),
            ("n2", "198.51.100.1"),
            ("n3", "198.51.100.2"),
            ("n4", "198.51.100.3"),
        ]
        .map(|(node, ip)| {
            (
                node.to_owned(),
                BTreeSet::from([ip.parse::<IpAddr>().unwrap()]),
            )
        });
        let found = predict(
            &BTreeMap::from([("p".to_owned(), policy)]),
            &BTreeMap::new(),
            &BTreeMap::from(reported),
        );
        let of = |node: &str| match &found[node]["p"] {
            Ok(pools) => pools["a"].ip.clone(),
            Err(problem) => problem.clone(),
        };
        assert_eq!(
            [of("n1"), of("n2"), of("n3")],
            ["192.0.2.2", "192.0.2.1", "192.0.2.3"],
            "n1 has one already"
        );
        assert_eq!(
            of("n4"),
            "spec.addressPools.a: the range 192.0.2.1-192.0.2.3 has no free address for the node n4: widen the range, or remove exclusions"
        );
    }
}
