//! Decides about the work: the wishes of each policy, contradictions, and differences of the host.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use tokio::time::Instant;
use weft_api::node_network::Decision;
use weft_node_network::{
    claims::Owner,
    drift::Difference,
    merge::{Candidate, Conflict, Merged, settle},
    removal::removals,
    render::{self, RenderError, Rendered},
    secrets, state,
};

use super::{
    super::{
        Aside, State,
        doubts::Doubts,
        phase, status,
        store::Applied,
        wish::{Standing, Wish},
    },
    Item, Pass,
};
use crate::host::BridgeFilter;

/// How many places a condition names.
const PLACES: usize = 5;

impl Pass<'_> {
    /// Decides the parts that do not depend on other policies.
    pub(super) fn decide(&mut self, index: usize) {
        let item = &mut self.items[index];
        // The ports of a policy that is not rendered now are not watched either, and so the count
        // begins again.
        let mut doubts = self
            .enactor
            .doubts
            .remove(&item.wish.policy)
            .unwrap_or_default();
        let mut next = None;
        item.aside.deaf = deaf(&item.wish, &self.current);
        item.aside.left_out = Aside::of(&item.wish.status)
            .left_out
            .filter(|_| item.wish.status.policy_generation == Some(item.wish.generation));
        let applied = self.enactor.store.get(&item.wish.policy);
        let kept = || applied.map_or_else(state::empty, |applied| applied.desired.clone());
        match item.wish.decision {
            Decision::Pending | Decision::Aborted | Decision::Unknown => {
                item.rendered.desired = kept();
                item.settled = match item.wish.decision {
                    Decision::Pending => Some((State::Pending(item.wish.waits.clone()), None)),
                    Decision::Aborted => Some((State::Aborted, None)),
                    _ => None,
                };
                item.standing = Standing::Done;
            }
            Decision::Revert => {
                let undo = applied.map_or_else(state::empty, |applied| applied.undo.clone());
                item.rendered.desired = self.backend.way_back(undo, &self.current);
            }
            Decision::Granted if item.standing == Standing::Failed => {
                item.rendered.desired = kept()
            }
            Decision::Granted => match rendered(&item.wish, applied, &self.current, &mut doubts) {
                Ok((rendered, until)) => {
                    item.rendered = rendered;
                    next = until;
                    self.enactor.doubts.insert(item.wish.policy.clone(), doubts);
                }
                Err(error) => {
                    item.rendered.desired = kept();
                    let message = error.to_string();
                    let phase = match error {
                        RenderError::Hidden => phase::CAPTURE,
                        _ => phase::RENDER,
                    };
                    item.settled = Some((
                        State::Failed {
                            message: message.clone(),
                        },
                        Some(status::early(phase, message)),
                    ));
                }
            },
        }
        item.aside.filtered = filtered(&item.wish, &item.rendered.desired, &self.bridge_filter);
        let (owner, request) = (item.wish.owner(), item.wish.request());
        // The status may not have it yet, also where a repair of drift has cut the node off.
        let may_be_tried = item.standing != Standing::Failed && item.settled.is_none();
        if may_be_tried && let Some(failure) = self.enactor.attempts.given_up(&owner, &request) {
            item.rendered.desired = kept();
            item.standing = Standing::Failed;
            let message = failure.to_string();
            item.settled = Some((State::Failed { message }, Some(status::outcome(failure))));
        }
        let now = Instant::now();
        if item.is_open()
            && let Some(wait) = self.enactor.attempts.wait(&owner, &request, now)
        {
            item.rendered.desired = kept();
            item.standing = Standing::Failed;
            self.again_in(wait);
        }
        if let Some(next) = next {
            self.again_in(next);
        }
    }

    pub(super) fn merge(&self, counts: impl Fn(&Item) -> bool) -> (Merged, Vec<Conflict>) {
        let candidates = self
            .items
            .iter()
            .filter(|item| counts(item))
            .map(|item| Candidate {
                wanted: item.wish.layer(item.rendered.desired.clone()),
                applied: self
                    .enactor
                    .store
                    .get(&item.wish.policy)
                    .map(|applied| applied.desired.clone()),
            });
        let own = self.own.iter().map(|layer| Candidate {
            wanted: layer.clone(),
            applied: None,
        });
        let settled = settle(&candidates.chain(own).collect::<Vec<_>>());
        (settled.merged, settled.conflicts)
    }

    pub(super) fn differ(&self, merged: &Merged) -> Vec<Difference> {
        let wanted = secrets::mask(&merged.state, secrets::HIDDEN);
        self.backend.drift(&wanted, &self.current)
    }

    /// Reports whether something is wanted that was not applied yet, or is to be taken back. It is
    /// applied even if the host seems to be so already: the comparison is the one for drift, which
    /// does not see what an apply takes away.
    pub(super) fn brings_something_new(&self) -> bool {
        self.items
            .iter()
            .filter(|item| item.is_open() && item.rendered.desired != state::empty())
            .any(|item| {
                let applied = self
                    .enactor
                    .store
                    .get(&item.wish.policy)
                    .map(|applied| &applied.desired);
                item.wish.decision == Decision::Revert || applied != Some(&item.rendered.desired)
            })
    }

    /// Reports whether an apply would take something away for the node's own wish, as long as that
    /// was not fulfilled by this process.
    pub(super) fn own_takes_something_away(&self) -> bool {
        let open = self
            .own
            .as_ref()
            .filter(|own| self.enactor.own_done.as_ref() != Some(&own.state));
        open.is_some_and(|own| !removals(&own.state, &self.current).is_empty())
    }

    /// Returns true if something new refers to secrets. Only the transaction knows their values, so
    /// only it can see whether the host has them already.
    pub(super) fn asks_for_secrets(&self) -> bool {
        let open = self
            .items
            .iter()
            .filter(|item| item.is_open())
            .map(|item| &item.rendered.desired);
        let own = self
            .own
            .iter()
            .map(|layer| &layer.state)
            .filter(|state| self.enactor.own_done.as_ref() != Some(*state));
        open.chain(own)
            .any(|state| !secrets::places(state).is_empty())
    }

    /// Notes the conflicts on both policies of each contradiction. Each policy keeps what it had.
    pub(super) fn note_conflicts(&mut self, conflicts: &[Conflict]) {
        for item in &mut self.items {
            let Some(conflict) = conflicts
                .iter()
                .find(|conflict| conflict.concerns(&item.wish.owner()))
            else {
                continue;
            };
            let message = conflict.to_string();
            item.aside.conflict = Some(message.clone());
            if item.is_open() {
                let kept = self.enactor.store.get(&item.wish.policy);
                item.rendered.desired =
                    kept.map_or_else(state::empty, |applied| applied.desired.clone());
                item.settled = Some((
                    State::Failed {
                        message: message.clone(),
                    },
                    Some(status::early(phase::CONFLICT, message)),
                ));
            }
        }
    }

    /// Policies that were done, and are not so any more.
    pub(super) fn note_drift(&mut self, merged: &Merged, differences: &[Difference]) {
        for item in &mut self.items {
            if item.is_open() || item.wish.decision != Decision::Granted {
                continue;
            }
            let owner = item.wish.owner();
            let mine: Vec<String> = differences
                .iter()
                .filter(|difference| owners(merged, difference).contains(&owner))
                .map(ToString::to_string)
                .collect();
            item.aside.drifted = some_of(&mine);
        }
    }
}

/// Renders a granted policy without the ports that leave its bonds. Returns how long the next port
/// in doubt has left, too.
fn rendered(
    wish: &Wish,
    applied: Option<&Applied>,
    current: &Value,
    doubts: &mut Doubts,
) -> Result<(Rendered, Option<Duration>), RenderError> {
    let rendered = wish.render(applied, current, BTreeSet::new())?;
    let (leaving, next) = doubts.note(rendered.in_doubt(), Instant::now());
    match leaving.is_empty() {
        true => Ok((rendered, next)),
        false => Ok((wish.render(applied, current, leaving)?, next)),
    }
}

/// Returns which interfaces would need LLDP for a granted policy and do not receive it.
fn deaf(wish: &Wish, current: &Value) -> Option<String> {
    let granted = wish
        .granted
        .as_ref()
        .filter(|_| wish.decision == Decision::Granted)?;
    let deaf = render::without_neighbors(&granted.spec, current);
    let lines = deaf.iter().map(|(card, part)| format!("{card} {part}"));
    some_of(&lines.collect::<Vec<_>>())
}

/// Returns which bridges of a granted policy pass packets through the host's firewall, and how to see
/// on the node what it does with them. The agent does not read its rules.
fn filtered(wish: &Wish, desired: &Value, filter: &BridgeFilter) -> Option<String> {
    if wish.decision != Decision::Granted {
        return None;
    }
    let bridges = desired["interfaces"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|interface| interface["type"] == "linux-bridge")
        .filter(|bridge| bridge["state"].as_str().is_none_or(|state| state == "up"))
        .filter_map(|interface| interface["name"].as_str());
    let lines = bridges.filter_map(|bridge| {
        let chains = filter.chains(bridge)?;
        Some(format!(
            "packets between ports of {bridge} pass the chain FORWARD of {chains}, which may drop them"
        ))
    });
    let lines = some_of(&lines.collect::<Vec<_>>())?;
    let program = match lines.contains("FORWARD of iptables") {
        true => "iptables",
        false => "ip6tables",
    };
    Some(format!(
        "{lines}. On the node, `{program} -S FORWARD` shows whether it does, and `{program} -I FORWARD -i BRIDGE -o BRIDGE -j ACCEPT` lets them pass"
    ))
}

/// Returns the first of these places in one text. `None` if there is none.
pub(super) fn some_of(places: &[String]) -> Option<String> {
    match places.len() {
        0 => None,
        count if count > PLACES => Some(format!(
            "{}; and {} more",
            places[..PLACES].join("; "),
            count - PLACES
        )),
        _ => Some(places.join("; ")),
    }
}

/// Returns the owners of a difference: those who want exactly this place or one above it, else
/// those who want something below it.
fn owners(merged: &Merged, difference: &Difference) -> BTreeSet<Owner> {
    let above = merged
        .owners
        .iter()
        .filter(|(path, _)| path.covers(&difference.path))
        .max_by_key(|(path, _)| path.0.len());
    match above {
        Some((_, owners)) => owners.clone(),
        None => merged
            .owners
            .iter()
            .filter(|(path, _)| difference.path.covers(path))
            .flat_map(|(_, owners)| owners.clone())
            .collect(),
    }
}
