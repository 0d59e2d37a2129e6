//! One reconcile of the enactments of a node: decides what each asks for, applies all of it, and
//! writes the result into the status of each.

mod apply;
mod away;
mod decide;
mod granted;
mod tell;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use weft_api::node_network::Outcome;
use weft_node_network::{
    claims::{Layer, Owner},
    render::Rendered,
    state,
};

use super::{
    Aside, Enactor, Inputs, Report, State,
    wish::{Standing, Wish},
};
use crate::{
    host::{self, Backend, BridgeFilter},
    probes::Target,
    transaction::{Failure, Phase},
};

/// A wish with what was made of it.
struct Item {
    wish: Wish,
    uid: Option<String>,
    standing: Standing,
    rendered: Rendered,
    /// The end of its part in this reconcile.
    settled: Option<(State, Option<Outcome>)>,
    aside: Aside,
}

impl Item {
    /// Reports whether something new is to be done for it in this reconcile.
    fn is_open(&self) -> bool {
        self.standing == Standing::Open && self.settled.is_none()
    }

    /// Reports whether its drift is corrected in this reconcile.
    fn is_repaired(&self) -> bool {
        self.aside.drifted.is_some()
            && self.standing == Standing::Done
            && self.wish.corrects_drift()
    }
}

pub(super) struct Pass<'a> {
    enactor: &'a mut Enactor,
    items: Vec<Item>,
    own: Option<Layer>,
    /// How the host was when somebody looked.
    current: Value,
    /// True if that was in this reconcile.
    is_fresh: bool,
    /// The program that held its network then.
    backend: Backend,
    /// The bridges whose packets passed the host's firewall then.
    bridge_filter: BridgeFilter,
    /// Probes that have failed in this reconcile, each with the policy that brought it.
    unanswered: Vec<(Owner, Target)>,
    /// Why nothing can be changed, if that was known when the host was seen.
    away: Option<String>,
    report: Report,
}

impl<'a> Pass<'a> {
    pub fn new(enactor: &'a mut Enactor, wishes: Vec<Wish>, inputs: &Inputs<'_>) -> Self {
        let uids: BTreeMap<_, _> = inputs
            .enactments
            .iter()
            .map(|enactment| {
                (
                    enactment.metadata.name.clone(),
                    enactment.metadata.uid.clone(),
                )
            })
            .collect();
        // Megabytes on a large host, which nothing is rendered from or compared with where nobody
        // wants anything.
        let is_wanted = !wishes.is_empty() || inputs.own.is_some();
        let current = if is_wanted {
            host::value(inputs.current, inputs.aggregated)
        } else {
            state::empty()
        };
        let mut report = Report::default();
        enactor.own_retry = inputs.own_retry.map(str::to_owned);
        if inputs.own.is_none() && enactor.attempts.done(&Owner::Node) {
            enactor.save_attempts();
        }
        let own = inputs
            .own
            .and_then(|desired| enactor.own_layer(desired, &mut report));
        let nothing = || Rendered {
            desired: state::empty(),
            captures: Default::default(),
            cards: Default::default(),
        };
        let items = wishes.into_iter().map(|wish| Item {
            uid: uids.get(&Some(wish.name.clone())).cloned().flatten(),
            standing: wish.standing(),
            rendered: nothing(),
            settled: None,
            aside: Aside::default(),
            wish,
        });
        let away = match inputs.backend {
            Backend::ReadOnly { why } => Some(why.clone()),
            Backend::NetworkManager { .. } | Backend::Kernel => None,
        };
        Self {
            items: items.collect(),
            enactor,
            own,
            current,
            is_fresh: false,
            backend: inputs.backend.clone(),
            bridge_filter: inputs.bridge_filter.clone(),
            unanswered: Vec::new(),
            away,
            report,
        }
    }

    pub async fn run(mut self) -> Report {
        match self.away.take() {
            Some(why) => self.wait_unseen(&why),
            None => {
                for index in 0..self.items.len() {
                    self.decide(index);
                }
                while self.step().await {}
            }
        }
        for index in 0..self.items.len() {
            self.tell(index).await;
        }
        self.report
    }

    /// One try to make the host as it should be. Returns true if another step is due, without the
    /// failed policies.
    async fn step(&mut self) -> bool {
        let (merged, conflicts) = self.merge(|_| true);
        self.note_conflicts(&conflicts);
        let (merged, _) = if conflicts.is_empty() {
            (merged, conflicts)
        } else {
            self.merge(|_| true)
        };
        let all = self.differ(&merged);
        self.note_drift(&merged, &all);
        let open: BTreeSet<Owner> = self
            .items
            .iter()
            .filter(|item| item.is_open())
            .map(|item| item.wish.owner())
            .collect();
        // A policy that only reports, or has failed, stays as it is, unless another owner wants the
        // same.
        let (to_apply, _) = self.merge(|item| {
            item.is_open()
                || item.aside.drifted.is_none()
                || (item.standing == Standing::Done && item.wish.corrects_drift())
        });
        let is_as_wanted = self.differ(&to_apply).is_empty()
            && !self.brings_something_new()
            && !self.own_takes_something_away();
        if is_as_wanted && !open.is_empty() && !self.is_fresh {
            return match self.look_again().await {
                Ok(()) => true,
                Err(error) => {
                    self.failed(BTreeSet::new(), &open, &Failure::host(Phase::Plan, &error))
                        .await
                }
            };
        }
        if is_as_wanted && !self.asks_for_secrets() {
            self.put_ports_back(&merged).await;
            let noted = self.noted(&open);
            if noted != self.enactor.store {
                self.enactor.store = noted;
                self.enactor.save();
            }
            self.succeed(&open);
            return false;
        }
        if self.keep_granted().await {
            return true;
        }
        if let Err((owners, failure)) = self.apply(&to_apply, &open).await {
            return self.failed(owners, &open, &failure).await;
        }
        self.succeed(&open);
        for item in &mut self.items {
            if item.is_repaired() {
                item.aside.drifted = None;
            }
        }
        false
    }

    /// Reports whether the others are tried again.
    async fn failed(
        &mut self,
        blamed: BTreeSet<Owner>,
        open: &BTreeSet<Owner>,
        failure: &Failure,
    ) -> bool {
        match self.enactor.away().await {
            Some(why) => {
                tracing::warn!(%failure, "lost NetworkManager in the middle of a change");
                self.enactor.is_unclean = true;
                // NetworkManager has ended, and not the change has cut the node off.
                self.enactor.save_attempts();
                self.wait(&why);
                false
            }
            None => self.fail(blamed, open, failure),
        }
    }

    fn again_in(&mut self, wait: Duration) {
        self.report.again = Some(self.report.again.map_or(wait, |again| again.min(wait)));
    }
}
