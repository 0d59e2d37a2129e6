//! While NetworkManager is away nothing can be changed, and what only it knows is missing in what
//! is seen. So no policy is judged then, and no try counted: what was to be done is done when it is
//! back.

use std::time::Duration;

use tokio::time::Instant;
use weft_api::node_network::Decision;

use super::{
    super::{Aside, State, phase, status, wish::Standing},
    Pass,
};
use crate::transaction::{Failure, Phase};

/// A restart of NetworkManager, or an update of it, is over by then. A node that lacks it for
/// longer has failed, for others to see.
const PATIENCE: Duration = Duration::from_secs(120);

impl Pass<'_> {
    /// Reconciles a host that was seen without NetworkManager.
    pub(super) fn wait_unseen(&mut self, why: &str) {
        for index in 0..self.items.len() {
            let item = &mut self.items[index];
            match item.wish.decision {
                Decision::Granted | Decision::Revert => item.aside = Aside::of(&item.wish.status),
                Decision::Pending | Decision::Aborted | Decision::Unknown => self.decide(index),
            }
        }
        self.wait(why);
    }

    /// Everything that is open waits for NetworkManager.
    pub(super) fn wait(&mut self, why: &str) {
        let left = PATIENCE.saturating_sub(
            self.enactor
                .away_since
                .get_or_insert_with(Instant::now)
                .elapsed(),
        );
        let failure = Failure::new(
            Phase::Plan,
            format!("the network of this host can only be read: {why}"),
        );
        if let Some(own) = self
            .own
            .take()
            .filter(|own| self.enactor.own_done.as_ref() != Some(&own.state))
        {
            tracing::debug!(owner = %own.owner, "the node's own desired state waits for NetworkManager");
            self.report.own = Some(Err(failure.clone()));
        }
        for index in 0..self.items.len() {
            let item = &mut self.items[index];
            if !item.is_open() {
                continue;
            }
            let message = failure.message.clone();
            let outcome = status::early(phase::BACKEND, message.clone());
            let has_failed = left.is_zero() || item.wish.has_failed_without_backend();
            item.standing = Standing::Failed;
            if has_failed {
                item.settled = Some((State::Failed { message }, Some(outcome)));
            } else {
                let message = format!(
                    "NodeNetworkConfigurationPolicy {} waits for NetworkManager, and is tried when it is there: {message}",
                    item.wish.policy
                );
                item.settled = Some((State::Retrying { message }, Some(outcome)));
                self.again_in(left);
            }
        }
    }
}
