//! Static addresses that policies give to several nodes. On a network that these nodes share, each
//! address can belong to one of them only.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;

/// How many nodes a warning names.
const NAMED: usize = 3;

/// The nodes that get an address.
#[derive(Default)]
struct Nodes {
    /// The first of them.
    named: Vec<String>,
    count: usize,
    /// The policies that give them the address.
    policies: BTreeSet<String>,
    /// True if the user asks about one of these policies.
    is_meant: bool,
}

/// The static addresses of the plans so far.
#[derive(Default)]
pub struct SharedAddresses {
    /// By address.
    nodes: BTreeMap<String, Nodes>,
}

impl SharedAddresses {
    /// Notes the addresses that the plan of a node has. The user asks about policies for which
    /// `is_meant` is true.
    pub fn add(&mut self, plan: &Plan, is_meant: impl Fn(&str) -> bool) {
        let mut of_node = BTreeSet::new();
        for (policy, addresses) in &plan.addresses {
            for address in addresses {
                let nodes = self.nodes.entry(address.clone()).or_default();
                nodes.is_meant |= is_meant(policy);
                nodes.policies.insert(policy.clone());
                // Two policies may give one node the same address.
                if !of_node.insert(address) {
                    continue;
                }
                nodes.count += 1;
                if nodes.named.len() < NAMED {
                    nodes.named.push(plan.node.clone());
                }
            }
        }
    }

    /// A warning for each address that several nodes get.
    pub fn warnings(&self) -> Vec<String> {
        let several = self.nodes.iter();
        let several = several.filter(|(_, nodes)| nodes.is_meant && nodes.count > 1);
        several
            .map(|(address, nodes)| {
                let mut names = nodes.named.join(", ");
                if nodes.count > nodes.named.len() {
                    names.push_str(&format!(" and {} more", nodes.count - nodes.named.len()));
                }
                let policies: Vec<&str> = nodes.policies.iter().map(String::as_str).collect();
                let give = match policies[..] {
                    [policy] => format!("policy {policy} gives"),
                    _ => format!("policies {} give", policies.join(", ")),
                };
                format!(
                    "{give} the address {address} to {} nodes ({names}): use a value of the node, such as {{{{ node.annotations['example.com/address'] }}}}, or spec.addressPools, or select one node",
                    nodes.count
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;

    use super::*;
    use crate::plan::{Metadata, Node, plan};

    #[test]
    fn an_address_of_several_nodes_is_a_warning() {
        let address = |ip: &str| json!({"ip": ip, "prefix-length": 24});
        let spec = json!({"desiredState": {"interfaces": [{
            "name": "eth1", "type": "ethernet", "state": "up", "ipv4": {
                "enabled": true, "dhcp": false,
                "address": [address("192.0.2.1"), address("{{ node.annotations['own'] }}")]
            }
        }]}});
        let spec: Spec = serde_json::from_value(spec).expect("a valid policy");
        let policies = BTreeMap::from([("storage".to_owned(), spec)]);
        let plan_of = |number: usize| {
            let own = ("own".to_owned(), format!("192.0.2.10{number}"));
            let metadata = Metadata {
                annotations: BTreeMap::from([own]),
                ..Metadata::default()
            };
            let node = Node {
                name: format!("node-{number}"),
                metadata: Some(metadata),
                current: json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up"}]}),
                ..Node::default()
            };
            plan(&node, &policies)
        };
        let mut shared = SharedAddresses::default();
        let mut of_others = SharedAddresses::default();
        for number in 1..=5 {
            shared.add(&plan_of(number), |policy| policy == "storage");
            of_others.add(&plan_of(number), |policy| policy == "another");
        }
        let warnings = shared.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with(
                "policy storage gives the address 192.0.2.1 to 5 nodes (node-1, node-2, node-3 and 2 more): "
            ) && warnings[0].contains("{{ node.annotations['example.com/address'] }}"),
            "{warnings:?}"
        );
        assert_eq!(of_others.warnings(), [""; 0]);
    }

    /// A policy for each node is a usual way, and so is copy and paste.
    #[test]
    fn an_address_of_two_policies_is_a_warning_where_two_nodes_get_it() {
        let policy = |node: &str| -> Spec {
            let spec = json!({
                "nodeSelector": {"kubernetes.io/hostname": node},
                "desiredState": {"interfaces": [{
                    "name": "eth1", "type": "ethernet", "state": "up", "ipv4": {
                        "enabled": true, "dhcp": false,
                        "address": [{"ip": "192.0.2.1", "prefix-length": 24}]
                    }
                }]}
            });
            serde_json::from_value(spec).expect("a valid policy")
        };
        let warnings_of = |nodes: [&str; 2]| {
            let policies = BTreeMap::from(["a", "b"].map(str::to_owned).map(|name| {
                let node = if name == "a" { nodes[0] } else { nodes[1] };
                (name, policy(node))
            }));
            let mut shared = SharedAddresses::default();
            for name in ["node-1", "node-2"] {
                let label = ("kubernetes.io/hostname".to_owned(), name.to_owned());
                let node = Node {
                    name: name.to_owned(),
                    metadata: Some(Metadata {
                        labels: BTreeMap::from([label]),
                        ..Metadata::default()
                    }),
                    current: json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up"}]}),
                    ..Node::default()
                };
                shared.add(&plan(&node, &policies), |policy| policy == "b");
            }
            shared.warnings()
        };
        let warnings = warnings_of(["node-1", "node-2"]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let beginning = "policies a, b give the address 192.0.2.1 to 2 nodes (node-1, node-2): ";
        assert!(warnings[0].starts_with(beginning), "{warnings:?}");
        assert_eq!(warnings_of(["node-1", "node-1"]), [""; 0]);
    }
}
