//! The room in the pods' blocks of addresses: how many nodes and pods there are addresses for.

use ipnet::IpNet;
use serde_json::Value;
use weft_api::cluster_network::{ClusterNetwork, NetworkConfigSpec};

use crate::providers;

/// The room in a block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The block, an entry of `clusterNetworks`.
    pub block: IpNet,
    /// The length of the prefix of a node's share.
    pub share: u8,
    /// How many shares the block has.
    pub shares: u64,
    /// How many shares nodes have. `None` if that is not known.
    pub taken: Option<u64>,
    /// How many pods a share has addresses for. `None`: more than 32 bits can count.
    pub pods: Option<u64>,
}

impl Room {
    /// How many shares are left for further nodes. `None` if that is not known.
    pub fn left(&self) -> Option<u64> {
        Some(self.shares.saturating_sub(self.taken?))
    }
}

/// Returns the room in each block of a configuration, in its order, but for blocks whose shares
/// nobody states.
///
/// `effective` is the complete configuration, as in `status.effectiveConfiguration`. `of_nodes` are
/// the blocks of all nodes, see [`of_nodes`], or `None` if the nodes are not known. A network that
/// divides the blocks itself does not write them into the nodes, so it leaves open what is taken.
/// Another user's network may give pods other addresses, so there is no room to report.
pub fn rooms(effective: &Value, of_nodes: Option<&[IpNet]>) -> Vec<Room> {
    let spec: NetworkConfigSpec = serde_json::from_value(effective.clone()).unwrap_or_default();
    let type_ = spec.default_network.and_then(|network| network.type_);
    let provider = providers::ALL
        .iter()
        .find(|provider| type_.as_deref() == Some(provider.name()));
    let Some(provider) = provider.filter(|provider| provider.needs_blocks()) else {
        return Vec::new();
    };
    let of_nodes = of_nodes.filter(|_| !provider.capabilities().uses_host_subnet_length);
    let blocks = spec.cluster_networks.unwrap_or_default();
    blocks
        .iter()
        .filter_map(|network| room(network, of_nodes))
        .collect()
}

/// Returns the blocks that nodes have, as their Node objects state them (`spec.podCIDRs`).
pub fn of_nodes(nodes: &[Value]) -> Vec<IpNet> {
    let blocks = |node: &Value| {
        let texts = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
        let parsed = texts.filter_map(|text| text.as_str()?.parse().ok());
        parsed.collect::<Vec<IpNet>>()
    };
    nodes.iter().flat_map(blocks).collect()
}

fn room(network: &ClusterNetwork, of_nodes: Option<&[IpNet]>) -> Option<Room> {
    let block: IpNet = network.cidr.as_deref()?.parse().ok()?;
    let width = block.max_prefix_len();
    let within: Option<Vec<u8>> = of_nodes.map(|shares| {
        let within = shares.iter().filter(|share| block.contains(*share));
        within.map(IpNet::prefix_len).collect()
    });
    // The controller-manager may divide the block in another way than the configuration says.
    let smallest = within.iter().flatten().max().copied();
    let configured = network
        .host_subnet_length
        .and_then(|bits| u8::try_from(bits).ok())
        .filter(|bits| *bits > 0)
        .and_then(|bits| width.checked_sub(bits));
    let share = smallest
        .or(configured)
        .filter(|share| *share >= block.prefix_len())?;
    let count = |length: u8| power_of_two(share.saturating_sub(length));
    Some(Room {
        block,
        share,
        shares: count(block.prefix_len()),
        taken: within.map(|lengths| {
            lengths
                .into_iter()
                .fold(0, |sum: u64, length| sum.saturating_add(count(length)))
        }),
        pods: pods(&block, width - share),
    })
}

/// Returns how many pods a share with so many bits of its own has addresses for: the CNI plugin
/// `host-local` gives all but the network's own, the gateway's and, of IPv4, that of broadcast.
fn pods(block: &IpNet, bits: u8) -> Option<u64> {
    let reserved = if block.addr().is_ipv4() { 3 } else { 2 };
    (bits <= 32).then(|| power_of_two(bits).saturating_sub(reserved))
}

fn power_of_two(exponent: u8) -> u64 {
    1_u64.checked_shl(exponent.into()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn of(type_: &str, networks: &Value, nodes: Option<&[&str]>) -> Vec<Room> {
        let effective = json!({"clusterNetworks": networks, "defaultNetwork": {"type": type_}});
        let nodes: Option<Vec<IpNet>> =
            nodes.map(|nodes| nodes.iter().map(|node| node.parse().unwrap()).collect());
        rooms(&effective, nodes.as_deref())
    }

    #[test]
    fn each_block_has_the_shares_that_its_nodes_leave() {
        let both = json!([
            {"cidr": "10.244.0.0/16", "hostSubnetLength": 8},
            {"cidr": "fd00:10:244::/56", "hostSubnetLength": 64},
        ]);
        let nodes = ["10.244.0.0/24", "fd00:10:244::/64", "10.244.7.0/24"];
        let [v4, v6] = of("Flannel", &both, Some(&nodes))[..] else {
            unreachable!()
        };
        assert_eq!(
            (v4.share, v4.shares, v4.taken, v4.left(), v4.pods),
            (24, 256, Some(2), Some(254), Some(253))
        );
        assert_eq!(
            (v6.share, v6.shares, v6.taken, v6.left(), v6.pods),
            (64, 256, Some(1), Some(255), None)
        );
    }

    #[test]
    fn shares_are_as_large_as_the_controller_manager_makes_them() {
        let network = json!([{"cidr": "10.244.0.0/22", "hostSubnetLength": 9}]);
        let all = ["10.244.0.0/24", "10.244.2.0/23", "10.244.1.0/24"];
        // A node of an earlier size has two of today's shares.
        let [room] = of("Flannel", &network, Some(&all))[..] else {
            unreachable!()
        };
        assert_eq!(
            (room.share, room.taken, room.left()),
            (24, Some(4), Some(0))
        );
        // Blocks from elsewhere take nothing here, and without a node the configuration counts.
        let [room] = of("Flannel", &network, Some(&["10.0.0.0/24"]))[..] else {
            unreachable!()
        };
        assert_eq!((room.share, room.left()), (23, Some(2)));
        let [room] = of("Flannel", &network, None)[..] else {
            unreachable!()
        };
        assert_eq!((room.shares, room.taken, room.left()), (2, None, None));
        let open = json!([{"cidr": "10.244.0.0/22"}]);
        assert_eq!(of("Flannel", &open, Some(&[])), []);
    }

    #[test]
    fn a_network_that_divides_its_blocks_itself_leaves_open_what_is_taken() {
        let network = json!([{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}]);
        let [room] = of("OpenShiftSDN", &network, Some(&["10.128.0.0/24"]))[..] else {
            unreachable!()
        };
        assert_eq!(
            (room.share, room.shares, room.taken, room.pods),
            (23, 512, None, Some(509))
        );
        let nodes = [
            json!({"spec": {"podCIDRs": ["10.244.0.0/24", "fd00:10:244::/64"]}}),
            json!({"spec": {}}),
        ];
        let texts: Vec<_> = of_nodes(&nodes).iter().map(IpNet::to_string).collect();
        assert_eq!(texts, ["10.244.0.0/24", "fd00:10:244::/64"]);
        assert_eq!(of("None", &network, Some(&["10.128.0.0/24"])), []);
        assert_eq!(rooms(&Value::Null, None), []);
    }
}
