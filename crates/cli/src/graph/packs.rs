//! Limbs that stand in columns. A limb is a box with everything that is reached through it alone,
//! such as a VLAN of a bond with its bridge and its routes. A node can have dozens of limbs at one
//! box, and one column of them would be too high for a window.

use std::{cmp::Reverse, collections::BTreeMap};

use super::picture::Picture;

/// The least number of boxes of a picture that has packs.
const LARGE: usize = 16;
/// The least number of limbs of a pack.
const MANY: usize = 5;

/// The limbs of a box.
pub(super) struct Pack {
    /// The boxes of each limb, by position.
    pub(super) limbs: Vec<Vec<usize>>,
}

/// Returns the packs among these boxes, the outermost ones. No box is in two of them, and the only
/// arrows that lead into a pack come from the box that its limbs begin at.
pub(super) fn packs(picture: &Picture, members: &[usize]) -> Vec<Pack> {
    if members.len() < LARGE {
        return Vec::new();
    }
    let ties = Ties::of(picture, members);
    let mut by_hub: BTreeMap<Option<usize>, Vec<Vec<usize>>> = BTreeMap::new();
    for root in members {
        // A text at the arrow needs an arrow of its own.
        let hub = match ties.before(*root) {
            [] => None,
            [(hub, false)] => Some(*hub),
            _ => continue,
        };
        if let Some(limb) = ties.limb(*root) {
            by_hub.entry(hub).or_default().push(limb);
        }
    }
    let mut found: Vec<_> = by_hub.into_iter().collect();
    // A limb can have limbs that are many as well. They are looked at when it gets its own places.
    found.sort_by_key(|(_, limbs)| Reverse(limbs.iter().map(Vec::len).sum::<usize>()));
    let mut taken: Vec<usize> = Vec::new();
    let mut packs = Vec::new();
    for (hub, mut limbs) in found {
        limbs.retain(|limb| limb.iter().all(|index| !taken.contains(index)));
        if limbs.len() < MANY || hub.is_some_and(|hub| taken.contains(&hub)) {
            continue;
        }
        taken.extend(limbs.iter().flatten());
        packs.push(Pack { limbs });
    }
    packs
}

/// The arrows at each box, among some boxes.
struct Ties {
    /// The boxes that arrows come from, each with true if the arrow has a text.
    from: BTreeMap<usize, Vec<(usize, bool)>>,
    /// The boxes that arrows lead to.
    to: BTreeMap<usize, Vec<usize>>,
}

impl Ties {
    fn of(picture: &Picture, members: &[usize]) -> Self {
        let mut ties = Self {
            from: members.iter().map(|index| (*index, Vec::new())).collect(),
            to: BTreeMap::new(),
        };
        for arrow in &picture.arrows {
            if ties.from.contains_key(&arrow.from)
                && let Some(from) = ties.from.get_mut(&arrow.to)
            {
                from.push((arrow.from, !arrow.label.is_empty()));
                ties.to.entry(arrow.from).or_default().push(arrow.to);
            }
        }
        ties
    }

    /// Returns the boxes in front of a box, each with true if the arrow has a text.
    fn before(&self, index: usize) -> &[(usize, bool)] {
        self.from.get(&index).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the limb that begins with a box. `None` if a box in it is reached in another way,
    /// too.
    fn limb(&self, root: usize) -> Option<Vec<usize>> {
        let mut limb = vec![root];
        let mut next = 0;
        while let Some(index) = limb.get(next).copied() {
            for other in self.to.get(&index).into_iter().flatten() {
                // A circle leads back to a box that is in the limb already.
                if self.before(*other).len() != 1 || *other == root {
                    return None;
                }
                limb.push(*other);
            }
            next += 1;
        }
        Some(limb)
    }
}
