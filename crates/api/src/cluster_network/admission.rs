//! Rules that the schema cannot hold: `serviceNetwork` is a text or a list of texts, so the schema
//! leaves it open, and CEL in a definition does not see it. An admission policy does.

use serde_json::Value;

use super::{GROUP, PLURAL, VERSION, accounts};
use crate::admission::{SpecificationPolicy, refused};

/// The services' blocks as a list.
const SERVICES: &str = "has(object.spec.serviceNetwork) ? (type(object.spec.serviceNetwork) == string ? [object.spec.serviceNetwork] : type(object.spec.serviceNetwork) == list ? object.spec.serviceNetwork : []) : []";

/// The pods' blocks, as texts.
const PODS: &str = "(has(object.spec.clusterNetworks) ? object.spec.clusterNetworks : has(object.spec.clusterNetwork) ? object.spec.clusterNetwork : []).filter(block, has(block.cidr)).map(block, block.cidr)";

/// The refused requests.
pub fn admission() -> Vec<Value> {
    let policy = SpecificationPolicy {
        name: "weft-network-config",
        group: GROUP,
        versions: &[VERSION],
        plural: PLURAL,
        when: ("has-spec", "has(object.spec)"),
        variables: &[
            ("services", SERVICES),
            ("pods", PODS),
            (
                "external",
                "has(object.spec.defaultNetwork) && has(object.spec.defaultNetwork.type) && object.spec.defaultNetwork.type.lowerAscii() == 'none'",
            ),
            (
                "blocks",
                "variables.services.filter(block, type(block) == string && isCIDR(block))",
            ),
            ("podBlocks", "variables.pods.filter(block, isCIDR(block))"),
        ],
        validations: vec![
            refused(
                "variables.external || variables.services.size() > 0",
                "spec.serviceNetwork is missing: write the block of addresses of services, for example 172.30.0.0/16, or a list of one block of each address family",
            ),
            refused(
                "!has(object.spec.serviceNetwork) || type(object.spec.serviceNetwork) == string || type(object.spec.serviceNetwork) == list",
                "spec.serviceNetwork must be a text such as 172.30.0.0/16, or a list of one block of each address family",
            ),
            refused(
                "variables.services.all(block, type(block) == string && isCIDR(block) && cidr(block) == cidr(block).masked())",
                "spec.serviceNetwork must be a block of addresses in CIDR notation with all host bits zero, for example 172.30.0.0/16, or a list of one of each address family",
            ),
            refused(
                "variables.services.size() <= 2 && (variables.blocks.size() != 2 || cidr(variables.blocks[0]).ip().family() != cidr(variables.blocks[1]).ip().family())",
                "spec.serviceNetwork has at most one block of each address family: remove the others",
            ),
            refused(
                "variables.blocks.size() == 0 || variables.podBlocks.size() == 0 || [4, 6].all(family, variables.blocks.exists(block, cidr(block).ip().family() == family) == variables.podBlocks.exists(block, cidr(block).ip().family() == family))",
                "spec.serviceNetwork and spec.clusterNetworks must have the same address families: IPv4, IPv6 or both",
            ),
            refused(
                "variables.blocks.all(one, variables.podBlocks.all(other, cidr(one).ip().family() != cidr(other).ip().family() || !cidr(one).containsCIDR(other) && !cidr(other).containsCIDR(one)))",
                "spec.serviceNetwork and spec.clusterNetworks must not overlap: choose blocks that have no address in common",
            ),
        ],
        action: "Deny",
    };
    [policy.objects().to_vec(), accounts::policies()].concat()
}
