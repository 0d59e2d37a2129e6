//! Static addresses that one policy gives to several nodes. On a network that these nodes share,
//! each address can belong to one of them only.

use std::collections::BTreeMap;

use crate::plan::Plan;

/// How many nodes a warning names.
const NAMED: usize = 3;

/// The nodes that get an address.
#[derive(Default)]
struct Nodes {
    /// The first of them.
    named: Vec<String>,
    count: usize,
}

/// The static addresses of the plans so far.
#[derive(Default)]
pub struct SharedAddresses {
    /// By policy and address.
    nodes: BTreeMap<(String, String), Nodes>,
}

impl SharedAddresses {
    /// Notes the addresses that the plan of a node has, of policies for which `is_meant` is true.
    pub fn add(&mut self, plan: &Plan, is_meant: impl Fn(&str) -> bool) {
        for (policy, addresses) in &plan.addresses {
            if !is_meant(policy) {
                continue;
            }
            for address in addresses {
                let key = (policy.clone(), address.clone());
                let nodes = self.nodes.entry(key).or_default();
                nodes.count += 1;
                if nodes.named.len() < NAMED {
                    nodes.named.push(plan.node.clone());
                }
            }
        }
    }

    /// A warning for each address that a policy gives to several nodes.
    pub fn warnings(&self) -> Vec<String> {
        let several = self.nodes.iter().filter(|(_, nodes)| nodes.count > 1);
        several
            .map(|((policy, address), nodes)| {
                let mut names = nodes.named.join(", ");
                if nodes.count > nodes.named.len() {
                    names.push_str(&format!(" and {} more", nodes.count - nodes.named.len()));
                }
                format!(
                    "policy {policy} gives the address {address} to {} nodes ({names}): use a value of the node, such as {{{{ node.annotations['example.com/address'] }}}}, or spec.addressPools, or select one node",
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
}
