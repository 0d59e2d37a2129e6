//! Computes the statuses of the enactments.

use std::collections::{BTreeMap, BTreeSet};

use nmstate::NetworkState;
use serde_json::Value;
use weft_api::node_network::{
    CapturedState, Decision, NodeNetworkConfigurationEnactmentStatus as Status,
};
use weft_node_network::{claims::Owner, secrets, state};

use super::{
    super::{State, WRITE_AGAIN, phase, wish::Standing},
    Item, Pass,
};

impl Pass<'_> {
    pub(super) async fn tell_progress(&mut self, open: &BTreeSet<Owner>) {
        for item in self
            .items
            .iter_mut()
            .filter(|item| open.contains(&item.wish.owner()))
        {
            // A retry says so already, and goes on saying it.
            if phase::is_true(&item.wish.status, "Progressing")
                && item.wish.status.observed_generation == Some(item.wish.observed)
            {
                continue;
            }
            let status = Status {
                retry_count: item.wish.status.retry_count.clone(),
                ..base(item)
            };
            self.enactor
                .write(
                    &mut item.wish,
                    item.uid.clone(),
                    &State::Progressing,
                    &item.aside,
                    status,
                )
                .await;
        }
    }

    /// The last word on an enactment in this reconcile.
    pub(super) async fn tell(&mut self, index: usize) {
        let item = &mut self.items[index];
        let (state, outcome) = match item.settled.take() {
            Some(settled) => settled,
            None if item.wish.decision == Decision::Unknown => return,
            // Nothing new: only what may hold next to it.
            None => {
                let Some(state) = State::of(&item.wish.status) else {
                    return;
                };
                (state, item.wish.status.outcome.clone())
            }
        };
        match state {
            State::Failed { .. } => self.report.failing += 1,
            State::Retrying { .. } | State::Pending(_) | State::Progressing => {
                self.report.open += 1;
            }
            _ => {}
        }
        let done = matches!(state, State::Available { .. });
        let retry_count = if done {
            None
        } else {
            item.wish.status.retry_count.clone()
        };
        let mut status = Status {
            outcome,
            retry_count,
            ..base(item)
        };
        if done && item.standing != Standing::Done {
            status.features = features(&item.rendered.desired, &self.current);
        }
        if !self
            .enactor
            .write(
                &mut item.wish,
                item.uid.clone(),
                &state,
                &item.aside,
                status,
            )
            .await
        {
            self.again_in(WRITE_AGAIN);
        }
    }
}

/// Returns the part of a status that stays as it is unless something changes.
fn base(item: &Item) -> Status {
    let before = &item.wish.status;
    if item.standing != Standing::Open || item.wish.decision != Decision::Granted {
        return Status {
            desired_state: before.desired_state.clone(),
            captured_states: before.captured_states.clone(),
            features: before.features.clone(),
            ..Status::default()
        };
    }
    let captured = item.rendered.captures.iter().map(|(name, state)| {
        (
            name.clone(),
            CapturedState {
                state: Some(state.clone()),
                meta_info: None,
            },
        )
    });
    let captured: BTreeMap<_, _> = captured.collect();
    Status {
        desired_state: Some(item.rendered.desired.clone()),
        captured_states: (!captured.is_empty()).then_some(captured),
        ..Status::default()
    }
}

/// Returns the features of nmstate that a state uses, in nmstate's words.
fn features(desired: &Value, current: &Value) -> Vec<String> {
    let concealed = secrets::conceal(desired).ok();
    let statistic = concealed.and_then(|desired| {
        state::parse::<NetworkState>(&desired)
            .ok()?
            .statistic(&state::parse(current).ok()?)
            .ok()
    });
    let features = statistic.and_then(|statistic| serde_json::to_value(statistic.features).ok());
    let mut features: Vec<String> = features
        .and_then(|features| serde_json::from_value(features).ok())
        .unwrap_or_default();
    features.sort();
    features
}
