//! The desired state of a node out of all policies granted on it.
//!
//! A property is what the highest priority says of it. Those of the same priority must agree. The
//! node's own specification overrides all.

use crate::{
    claims::{Claims, Layer, Owner, Rank, agree, owners_of, strongest, unflatten},
    path::{Path, Step},
    route,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Properties of an absent interface that stay, so that nmstate finds it.
const KEPT_OF_ABSENT: [&str; 6] = [
    "name",
    "type",
    "state",
    "identifier",
    "mac-address",
    "pci-address",
];

/// Two owners of the same rank want different things of one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The place.
    path: Path,
    /// The wanted values and their owners: at least two, of different owners.
    wanted: Vec<(Owner, Value)>,
}

impl Conflict {
    /// Reports whether this owner is a party to it.
    pub fn concerns(&self, owner: &Owner) -> bool {
        self.wanted.iter().any(|(other, _)| other == owner)
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        for (index, (owner, value)) in self.wanted.iter().enumerate() {
            write!(
                f,
                "{}{owner} wants {}",
                if index == 0 { "" } else { ", " },
                self.path.shown(value)
            )?;
        }
        f.write_str(", and their priority is the same: make the policies agree, or give one of them a higher spec.priority")
    }
}

/// The state that several owners want together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The desired state, in today's spelling of nmstate.
    pub state: Value,
    /// The owners of each property: those whose value counts. Properties that stand in no list with
    /// keys are whole lists.
    pub owners: BTreeMap<Path, BTreeSet<Owner>>,
    /// Undecided contradictions. Where there is a conflict the state holds the value of the first
    /// of its owners.
    pub conflicts: Vec<Conflict>,
}

/// The strongest claim of each place, and whose it is.
type Leaves<'a> = BTreeMap<&'a Path, (&'a Value, Rank, BTreeSet<Owner>)>;

/// The state that all these layers want. Their order does not matter.
pub fn merge<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Merged {
    layers
        .into_iter()
        .map(Claims::of)
        .fold(Claims::default(), Claims::join)
        .resolve()
}

impl Claims {
    /// Decides each place.
    pub(crate) fn resolve(&self) -> Merged {
        let mut leaves = Leaves::new();
        let mut conflicts = Vec::new();
        for (path, place) in &self.0 {
            let Some((rank, claims)) = strongest(place) else {
                continue;
            };
            let Some((_, first)) = claims.first_key_value() else {
                continue;
            };
            if claims.values().any(|value| !agree(path, first, value)) {
                let wanted = claims
                    .iter()
                    .map(|(owner, value)| (owner.clone(), value.clone()))
                    .collect();
                conflicts.push(Conflict {
                    path: path.clone(),
                    wanted,
                });
            }
            leaves.insert(path, (first, rank, owners_of(claims)));
        }
        shadows(&mut leaves, &mut conflicts);
        for list in route::LISTS {
            removals(list, &mut leaves, &mut conflicts);
        }
        absent_interfaces(&mut leaves);
        Merged {
            state: unflatten(leaves.iter().map(|(path, (value, ..))| (*path, *value))),
            owners: leaves
                .into_iter()
                .map(|(path, (_, _, owners))| (path.clone(), owners))
                .collect(),
            conflicts,
        }
    }
}

/// A value above others: `bridge: null` of one and `bridge.port` of another. The higher rank wins,
/// an empty object says nothing.
fn shadows<'a>(leaves: &mut Leaves<'a>, conflicts: &mut Vec<Conflict>) {
    let mut dropped: BTreeSet<&Path> = BTreeSet::new();
    let paths: Vec<&'a Path> = leaves.keys().copied().collect();
    for (index, upper) in paths.iter().enumerate() {
        // Paths are in order, so what is below one follows it.
        for lower in paths[index + 1..]
            .iter()
            .take_while(|lower| upper.covers(lower))
        {
            let (Some((above, above_rank, above_owners)), Some((below, below_rank, below_owners))) =
                (leaves.get(upper), leaves.get(lower))
            else {
                continue;
            };
            if above.as_object().is_some_and(serde_json::Map::is_empty) || above_rank < below_rank {
                dropped.insert(upper);
            } else {
                dropped.insert(lower);
                if above_rank == below_rank && above_owners != below_owners {
                    let wanted = [(above_owners, *above), (below_owners, *below)];
                    let wanted = wanted
                        .into_iter()
                        .flat_map(|(owners, value)| {
                            owners.iter().map(|owner| (owner.clone(), value.clone()))
                        })
                        .collect();
                    conflicts.push(Conflict {
                        path: (*lower).clone(),
                        wanted,
                    });
                }
            }
        }
    }
    leaves.retain(|path, _| !dropped.contains(path));
}

/// An entry that one owner wants and another wants removed: the higher rank wins. One owner alone
/// may remove what matches and add one of them again, and so may a higher rank: nmstate removes
/// first.
fn removals<'a>(list: route::List, leaves: &mut Leaves<'a>, conflicts: &mut Vec<Conflict>) {
    let steps = [
        Step::Key(list.section.to_owned()),
        Step::Key("config".to_owned()),
    ];
    let mut entries: BTreeMap<&'a [Step], (Value, Rank, BTreeSet<Owner>)> = BTreeMap::new();
    for (path, (value, rank, owners)) in leaves
        .iter()
        .filter(|(path, _)| path.0.starts_with(&steps) && path.0.len() > 3)
    {
        let entry = entries.entry(&path.0[..3]).or_insert_with(|| {
            (
                Value::Object(serde_json::Map::new()),
                *rank,
                BTreeSet::new(),
            )
        });
        if let (Some(Step::Key(name)), Value::Object(map)) = (path.0.get(3), &mut entry.0) {
            map.insert(name.clone(), (*value).clone());
        }
        entry.1 = entry.1.max(*rank);
        entry.2.extend(owners.iter().cloned());
    }
    let (removals, wanted): (Vec<_>, Vec<_>) = entries
        .iter()
        .partition(|(_, (entry, ..))| route::is_absent(entry));
    let mut dropped: BTreeSet<&[Step]> = BTreeSet::new();
    for (_, (removal, removal_rank, removers)) in removals {
        for (steps, (entry, rank, owners)) in &wanted {
            if !(list.matches)(removal, entry) || removers.is_subset(owners) || removal_rank < rank
            {
                continue;
            }
            if removal_rank > rank {
                dropped.insert(steps);
            } else {
                let sides = [(owners, entry), (removers, removal)];
                let wanted = sides
                    .into_iter()
                    .flat_map(|(owners, value)| {
                        owners.iter().map(|owner| (owner.clone(), value.clone()))
                    })
                    .collect();
                conflicts.push(Conflict {
                    path: Path(steps.to_vec()),
                    wanted,
                });
            }
        }
    }
    leaves.retain(|path, _| path.0.get(..3).is_none_or(|entry| !dropped.contains(entry)));
}

/// Of an interface that must not be there nothing else can be wanted.
fn absent_interfaces(leaves: &mut Leaves<'_>) {
    let is_state =
        |path: &Path| path.0.len() == 3 && path.0.last() == Some(&Step::Key("state".to_owned()));
    let absent = leaves
        .iter()
        .filter(|(path, (value, ..))| is_state(path) && **value == "absent");
    let absent: BTreeSet<String> = absent
        .filter_map(|(path, _)| path.interface().map(str::to_owned))
        .collect();
    leaves.retain(|path, _| {
        let kept =
            matches!(path.0.get(2), Some(Step::Key(key)) if KEPT_OF_ABSENT.contains(&key.as_str()));
        kept || path
            .interface()
            .is_none_or(|interface| !absent.contains(interface))
    });
}

/// The wishes of one owner, and the part of them that was applied last.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The granted wishes.
    pub wanted: Layer,
    /// The state that was applied for this owner before. `None` if there was none.
    pub applied: Option<Value>,
}

/// A state without conflicts, and who was left out for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    /// The state to apply, without conflicts.
    pub merged: Merged,
    /// Those in conflict over what they want now.
    pub conflicts: Vec<Conflict>,
    /// Owners whose wishes do not count now. The state that was applied for them before still
    /// counts.
    held: BTreeSet<Owner>,
}

/// Merges what is granted. Owners that contradict each other keep what was applied for them last,
/// all of it, so that a policy is on a node as a whole or not at all.
pub fn settle(candidates: &[Candidate]) -> Settled {
    let mut settled = Settled::default();
    let mut dropped: BTreeSet<Owner> = BTreeSet::new();
    loop {
        let layers: Vec<Layer> = candidates
            .iter()
            .filter_map(|candidate| candidate.layer(&settled.held, &dropped))
            .collect();
        let mut merged = merge(&layers);
        let parties: BTreeSet<Owner> = merged
            .conflicts
            .iter()
            .flat_map(|conflict| conflict.wanted.iter().map(|(owner, _)| owner.clone()))
            .collect();
        settled.conflicts.append(&mut merged.conflicts);
        if parties.is_empty() {
            settled.merged = merged;
            return settled;
        }
        // Every round holds or drops one more at least: what was applied before may contradict what
        // another wants now.
        let changed: Vec<&Owner> = parties
            .iter()
            .filter(|owner| !settled.held.contains(owner))
            .collect();
        if changed.is_empty() {
            dropped.extend(parties);
        } else {
            settled
                .held
                .extend(changed.into_iter().cloned().collect::<Vec<_>>());
        }
    }
}

impl Candidate {
    fn layer(&self, held: &BTreeSet<Owner>, dropped: &BTreeSet<Owner>) -> Option<Layer> {
        if dropped.contains(&self.wanted.owner) {
            return None;
        }
        if !held.contains(&self.wanted.owner) {
            return Some(self.wanted.clone());
        }
        self.applied.as_ref().map(|applied| Layer {
            state: applied.clone(),
            ..self.wanted.clone()
        })
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
