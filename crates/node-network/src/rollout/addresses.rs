//! Which node gets which address of a pool.
//!
//! The ledger decides: an address is a key in it, and each write of it replaces just the version
//! that it was derived from. So two operators cannot give one address to two nodes. These rules say
//! when an address leaves the ledger:
//!
//! - Its Node is gone. A Node of the same name with another uid is the same host that has
//!   registered again, or its replacement: it keeps the address.
//! - The node is to lose it (the policy is gone, no longer selects the node, or its pool no longer
//!   has the address), no enactment grants it any more, and the node has reported the address and
//!   then no longer does. A report without the address alone proves nothing, because it may be older
//!   than the address.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use weft_api::node_network::PoolAddress;

use super::{
    held::{Addresses, Problem},
    view::{Enactment, Node, Policy, World},
};
use crate::addresses::{
    ledger::{Entry, Leaves, Ledger},
    pool::Pool,
};

/// The reason of a policy whose pool has no address left.
const EXHAUSTED: &str = "PoolExhausted";
/// The reason of a policy with an address that another host has, too.
const IN_USE: &str = "AddressInUse";
/// The reason of a policy whose addresses are not known.
const UNREADABLE: &str = "LedgerUnreadable";

/// Returns the next ledger, and what stands in the way. `world` says what is wanted, and `ledger`
/// is the one that is stored.
pub fn assign(world: &World, ledger: &Ledger) -> (Ledger, BTreeMap<(String, String), Problem>) {
    if ledger.0.is_empty() && !wants_addresses(world) {
        return (Ledger::default(), BTreeMap::new());
    }
    let reporters = reporters(world);
    let mut next = kept(world, ledger);
    let mut problems = BTreeMap::new();
    let granted = granted(world);
    let mut busy: BTreeSet<IpAddr> = next.0.keys().copied().collect();
    busy.extend(granted.keys().chain(reporters.keys()));
    let held: BTreeSet<(String, String, String)> = next
        .0
        .values()
        .filter(|entry| entry.leaves.is_none())
        .map(|entry| {
            (
                entry.policy_uid.clone(),
                entry.pool.clone(),
                entry.node.clone(),
            )
        })
        .collect();
    for (name, policy) in &world.policies {
        if policy.is_held() || policy.is_deleted {
            continue;
        }
        for (pool_name, pool) in wanted_pools(policy) {
            let mut from = None;
            for (node_name, node) in &world.nodes {
                let key = (
                    policy.uid.clone(),
                    pool_name.to_owned(),
                    (*node_name).to_owned(),
                );
                if !takes_part(world, name, policy, node_name, node) || held.contains(&key) {
                    continue;
                }
                let is_free = |ip: &IpAddr| {
                    let owner = granted.get(ip);
                    pool.contains(*ip)
                        && !next.0.contains_key(ip)
                        && owner.is_none_or(|owner| *owner == (*name, *node_name))
                        && !is_reported_by_another(&reporters, *ip, node_name)
                };
                // Without the ledger, or after a Node has come again, the host has an address.
                let own = granted
                    .iter()
                    .filter(|(_, owner)| **owner == (*name, *node_name))
                    .map(|(ip, _)| *ip);
                let reported = world.reported.get(node_name).into_iter().copied().flatten();
                let kept = own.chain(reported.copied()).find(is_free);
                let Some(ip) = kept.or_else(|| pool.free(&busy, &mut from)) else {
                    let message = format!(
                        "spec.addressPools.{pool_name}: {pool} has no free address for the node {node_name}: widen the range, or remove exclusions"
                    );
                    let key = ((*name).to_owned(), (*node_name).to_owned());
                    problems.entry(key).or_insert(Problem {
                        reason: EXHAUSTED,
                        message,
                    });
                    continue;
                };
                busy.insert(ip);
                let entry = Entry {
                    policy: (*name).to_owned(),
                    policy_uid: policy.uid.clone(),
                    pool: pool_name.to_owned(),
                    node: (*node_name).to_owned(),
                    node_uid: node.uid.clone(),
                    leaves: None,
                };
                next.0.insert(ip, entry);
            }
        }
    }
    for (ip, entry) in next.0.iter().filter(|(_, entry)| entry.leaves.is_none()) {
        let others = reporters.get(ip).into_iter().flatten();
        if let Some(other) = others.copied().find(|other| *other != entry.node) {
            let message = format!(
                "spec.addressPools.{}: the node {other} reports {ip}, the address of the node {}: remove it from {other}, or add it to exclude, so that {} gets another one",
                entry.pool, entry.node, entry.node
            );
            problems.insert(
                (entry.policy.clone(), entry.node.clone()),
                Problem {
                    reason: IN_USE,
                    message,
                },
            );
        }
    }
    (next, problems)
}

/// Returns the addresses as decisions need them. Without a ledger, why it cannot be read.
pub fn addresses(world: &World, ledger: Result<&Ledger, &str>) -> Addresses {
    let mut found = Addresses::default();
    let ledger = match ledger {
        Ok(ledger) => ledger,
        Err(why) => {
            for (name, policy) in &world.policies {
                if wanted_pools(policy).next().is_none() {
                    continue;
                }
                for (node_name, node) in &world.nodes {
                    if takes_part(world, name, policy, node_name, node) {
                        let problem = Problem {
                            reason: UNREADABLE,
                            message: format!(
                                "spec.addressPools: the ConfigMap {} in the namespace of the operator cannot be read ({why}): restore it, or delete it, and the operator makes it from the enactments",
                                crate::addresses::ledger::NAME
                            ),
                        };
                        found
                            .problems
                            .insert(((*name).to_owned(), (*node_name).to_owned()), problem);
                    }
                }
            }
            return found;
        }
    };
    for (ip, entry) in &ledger.0 {
        let policy = world.policies.get(entry.policy.as_str());
        let node = world.nodes.get(entry.node.as_str());
        let pool = policy.and_then(|policy| policy.pools.get(&entry.pool));
        let (Some(policy), Some(node), Some(pool)) = (policy, node, pool) else {
            continue;
        };
        let is_held = entry.leaves.is_none()
            && policy.uid == entry.policy_uid
            && node.uid == entry.node_uid
            && pool.contains(*ip);
        if is_held {
            let address = PoolAddress {
                ip: ip.to_string(),
                prefix_length: pool.prefix_length.into(),
            };
            found
                .held
                .entry(entry.policy_uid.clone())
                .or_default()
                .entry(entry.node.clone())
                .or_default()
                .insert(entry.pool.clone(), address);
        }
    }
    found.problems = assign(world, ledger).1;
    found
}

fn wants_addresses(world: &World) -> bool {
    world
        .policies
        .values()
        .any(|policy| wanted_pools(policy).next().is_some())
}

/// The pools that the desired state of a policy refers to.
fn wanted_pools(policy: &Policy) -> impl Iterator<Item = (&str, &Pool)> {
    policy
        .references
        .pools()
        .into_iter()
        .filter_map(|name| Some((name, policy.pools.get(name)?)))
}

/// Reports whether a node gets addresses for a policy: it is for the node, and an agent runs there
/// or has run.
fn takes_part(world: &World, name: &str, policy: &Policy, node_name: &str, node: &Node) -> bool {
    let has_enactment = || {
        let all = world.enactments.get(name);
        all.is_some_and(|all| all.contains_key(node_name))
    };
    !policy.is_deleted
        && policy.selection.matches(&node.labels)
        && !world.left_alone.contains(node_name)
        && (world.agents.contains(node_name) || has_enactment())
}

/// The entries that stay, each with what is known of its end.
fn kept(world: &World, ledger: &Ledger) -> Ledger {
    let mut next = Ledger::default();
    for (ip, entry) in &ledger.0 {
        let Some(node) = world.nodes.get(entry.node.as_str()) else {
            continue;
        };
        let reported = world.reported.get(entry.node.as_str());
        let is_reported = reported.is_some_and(|all| all.contains(ip));
        let is_granted = || {
            let all = world.enactments.get(entry.policy.as_str());
            let enactment = all.and_then(|all| all.get(entry.node.as_str()));
            enactment.is_some_and(|enactment| grants(enactment, *ip))
        };
        let mut entry = entry.clone();
        entry.node_uid.clone_from(&node.uid);
        match is_wanted(world, &entry, *ip, node) {
            None => {}
            Some(true) => entry.leaves = None,
            Some(false) => {
                let is_free =
                    entry.leaves == Some(Leaves::Seen) && reported.is_some() && !is_reported;
                if is_free && !is_granted() {
                    continue;
                }
                entry.leaves = match (entry.leaves, is_reported) {
                    (_, true) => Some(Leaves::Seen),
                    (None, false) => Some(Leaves::Unseen),
                    (known, false) => known,
                };
            }
        }
        next.0.insert(*ip, entry);
    }
    next
}

/// Reports whether the node is to have the address. `None` for a refused policy, which does not say.
fn is_wanted(world: &World, entry: &Entry, ip: IpAddr, node: &Node) -> Option<bool> {
    let policy = world
        .policies
        .get(entry.policy.as_str())
        .filter(|policy| policy.uid == entry.policy_uid);
    let Some(policy) = policy else {
        return Some(false);
    };
    if policy.is_held() {
        return None;
    }
    let mut pools = wanted_pools(policy);
    let pool = pools.find(|(name, _)| *name == entry.pool);
    Some(
        !policy.is_deleted
            && policy.selection.matches(&node.labels)
            && pool.is_some_and(|(_, pool)| pool.contains(ip)),
    )
}

fn grants(enactment: &Enactment, ip: IpAddr) -> bool {
    let pools = enactment.values.iter().flat_map(|values| &values.pools);
    pools
        .into_iter()
        .any(|(_, address)| address.ip.parse() == Ok(ip))
}

/// The addresses in all grants, with policy and node.
fn granted<'a>(world: &World<'a>) -> BTreeMap<IpAddr, (&'a str, &'a str)> {
    let mut found = BTreeMap::new();
    for (policy, enactments) in &world.enactments {
        for (node, enactment) in enactments {
            let pools = enactment.values.iter().flat_map(|values| &values.pools);
            for ip in pools.filter_map(|(_, address)| address.ip.parse().ok()) {
                found.insert(ip, (*policy, *node));
            }
        }
    }
    found
}

/// The nodes that report each address.
fn reporters<'a>(world: &World<'a>) -> BTreeMap<IpAddr, Vec<&'a str>> {
    let mut found: BTreeMap<IpAddr, Vec<&str>> = BTreeMap::new();
    for (node, addresses) in &world.reported {
        for ip in *addresses {
            found.entry(*ip).or_default().push(node);
        }
    }
    found
}

fn is_reported_by_another(reporters: &BTreeMap<IpAddr, Vec<&str>>, ip: IpAddr, node: &str) -> bool {
    let all = reporters.get(&ip).into_iter().flatten();
    all.copied().any(|other| other != node)
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
