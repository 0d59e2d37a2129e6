//! Carries out the enactments of a node: merges them into one desired state, applies it in one
//! transaction, and reports the result.
//!
//! A reconcile looks at everything anew. The status of the enactments records finished work, and
//! the agent's folder records the fallback of each policy. So a reconcile after a crash, or with an
//! object that another user has changed, is a reconcile like any other.

mod attempts;
mod doubts;
mod pass;
mod phase;
mod status;
mod store;
mod wish;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use nmstate::NetworkState;
use serde_json::{Value, json};
use tokio::time::Instant;
use weft_api::node_network::{
    GROUP, NodeNetworkConfigurationEnactment, NodeNetworkConfigurationEnactmentStatus as Status,
    enactment,
};
use weft_node_network::{
    claims::{Layer, Owner, Rank},
    render,
};
use weft_runtime::api_server::clock;

pub use self::attempts::Retries;
use self::{
    attempts::Attempts,
    doubts::Doubts,
    status::{Aside, State},
    store::Store,
    wish::Wish,
};
use crate::{
    host::{Backend, BridgeFilter, HostError},
    observe::Observer,
    probes::Counted,
    secrets, state_dir,
    transaction::{Asker, Failure, Interrupted, Phase, Request, Transactor},
};

/// The field manager of what the agent writes.
const MANAGER: &str = "weft/agent";
/// When a status could not be written.
const WRITE_AGAIN: Duration = Duration::from_secs(5);

/// The parts that an [`Enactor`] works with.
#[derive(Clone)]
pub struct Settings {
    /// Carries out changes of the host.
    pub transactor: Transactor,
    /// Writes statuses, reads Secrets.
    pub client: Client,
    /// The name of the node.
    pub node: String,
    /// The agent's namespace, where Secrets are.
    pub namespace: String,
    /// How often and how soon a policy is tried again.
    pub retries: Retries,
    /// The observer of the host, which must not look while a change may still be rolled back.
    pub observer: Option<Observer>,
}

/// How long NetworkManager's start may take. It waits 6 s for a card without a link, and 45 s for a
/// lease. With a profile that waits for ever, it never ends.
const START: Duration = Duration::from_secs(60);

/// The input of a reconcile: the objects as the agent knows them.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The number of the list that the enactments began with, see
    /// [`Listed`](crate::cluster::Listed).
    pub list: u64,
    /// The node's enactments.
    pub enactments: Vec<Arc<NodeNetworkConfigurationEnactment>>,
    /// `NodeNetworkState.spec.managed`.
    pub managed: bool,
    /// `NodeNetworkState.spec.desiredState`.
    pub own: Option<&'a Value>,
    /// The annotation `weft.network/retry` of the NodeNetworkState.
    pub own_retry: Option<&'a str>,
    /// The host as it was seen last, secrets hidden.
    pub current: &'a NetworkState,
    /// The interfaces with a neighbor whose port is part of an aggregation.
    pub aggregated: &'a BTreeSet<String>,
    /// The bridges whose packets pass the host's firewall.
    pub bridge_filter: &'a BridgeFilter,
    /// The backend that reported it.
    pub backend: &'a Backend,
    /// True while NetworkManager has not done all that it does at its start.
    pub is_starting: bool,
}

/// The result of a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Call again after this time at the latest.
    pub again: Option<Duration>,
    /// True if the host was changed, or changed and changed back.
    pub changed: bool,
    /// The result of the node's own desired state, if there is one.
    pub own: Option<Result<(), Failure>>,
    /// How many enactments are failing.
    pub failing: usize,
    /// How many are not decided: tried again, or waiting for the operator.
    pub open: usize,
}

/// Carries out the enactments of a node. Never runs two reconciles at once.
pub struct Enactor {
    settings: Settings,
    store: Store,
    attempts: Attempts,
    /// The ports of automatic bonds that are in doubt, by policy.
    doubts: BTreeMap<String, Doubts>,
    /// The value of the annotation by which the node's own desired state is tried again.
    own_retry: Option<String>,
    /// The node's own desired state that was made so last.
    own_done: Option<Value>,
    /// The statuses that the agent has written since the last list, by the name of the enactment,
    /// with its uid. An event of a watch may be older.
    written: BTreeMap<String, (Option<String>, Status)>,
    /// The number of the list that was seen last.
    list: u64,
    interrupted: Option<Interrupted>,
    /// NetworkManager was not there to clean up with.
    is_unclean: bool,
    /// Since when NetworkManager is away.
    away_since: Option<Instant>,
    /// Since when NetworkManager is starting.
    starting_since: Option<Instant>,
}

impl Enactor {
    /// Begins. It first cleans up after an interrupted process.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub async fn start(settings: Settings) -> Result<Self, state_dir::Error> {
        let mut enactor = Self {
            settings,
            store: Store::default(),
            attempts: Attempts::default(),
            doubts: BTreeMap::new(),
            own_retry: None,
            own_done: None,
            written: BTreeMap::new(),
            list: 0,
            interrupted: None,
            is_unclean: false,
            away_since: None,
            starting_since: None,
        };
        enactor.clean_up().await?;
        Ok(enactor)
    }

    /// Ends what a change has left that did not come to its end. Without NetworkManager it cannot:
    /// then it is done when that is back.
    async fn clean_up(&mut self) -> Result<(), state_dir::Error> {
        self.is_unclean = false;
        let transactor = &self.settings.transactor;
        // The guardian may be rolling back.
        let lock = transactor.dir.lock_when_free().await?;
        match transactor.recover(lock).await {
            Ok(None) => {}
            Ok(Some(interrupted)) => {
                tracing::warn!("{interrupted}");
                self.interrupted = Some(interrupted);
            }
            Err(failure) => {
                self.is_unclean = self.away().await.is_some();
                tracing::error!(%failure, "a change that was interrupted cannot be cleaned up; the next start tries again");
            }
        }
        // After that: what was written down with the interrupted change is in it.
        self.store = Store::load(&self.settings.transactor.dir)?;
        self.attempts.load(&self.settings.transactor.dir)?;
        Ok(())
    }

    /// Why nothing can be changed just now, if so.
    async fn away(&self) -> Option<String> {
        match self.settings.transactor.host.checkpoints().await {
            Err(HostError::ReadOnly(why)) => Some(why),
            _ => None,
        }
    }

    /// Makes the host as the enactments say, and says in their status what became of it.
    pub async fn pass(&mut self, inputs: &Inputs<'_>) -> Report {
        if !inputs.managed {
            return Report::default();
        }
        if let Some(left) = self.start_is_over_in(inputs.is_starting) {
            return Report {
                again: Some(left),
                ..Report::default()
            };
        }
        let is_away = matches!(inputs.backend, Backend::ReadOnly { .. });
        if !is_away && self.is_unclean {
            if let Err(error) = self.clean_up().await {
                tracing::error!(%error, "what was applied is not known");
            }
            // An earlier observation counts no more.
            return Report {
                changed: true,
                again: Some(Duration::ZERO),
                ..Report::default()
            };
        }
        self.away_since = self.away_since.filter(|_| is_away);
        self.forget(inputs);
        let wishes: Vec<Wish> = inputs
            .enactments
            .iter()
            .filter_map(|enactment| Wish::of(enactment, self.status_of(enactment)))
            .collect();
        pass::Pass::new(self, wishes, inputs).run().await
    }

    /// Returns how long to wait at most for the end of NetworkManager's start. Until then the host lacks
    /// parts that come by themselves.
    fn start_is_over_in(&mut self, is_starting: bool) -> Option<Duration> {
        if !is_starting {
            self.starting_since = None;
            return None;
        }
        let since = *self.starting_since.get_or_insert_with(Instant::now);
        Some(START.saturating_sub(since.elapsed())).filter(|left| !left.is_zero())
    }

    fn status_of(&self, enactment: &NodeNetworkConfigurationEnactment) -> Option<&Status> {
        let (uid, status) = self.written.get(enactment.metadata.name.as_deref()?)?;
        (*uid == enactment.metadata.uid).then_some(status)
    }

    /// An enactment that is gone: the node keeps what it has, and no policy owns that any more.
    /// Own writes count until the next list.
    fn forget(&mut self, inputs: &Inputs<'_>) {
        if std::mem::replace(&mut self.list, inputs.list) != inputs.list {
            self.written.clear();
        }
        self.written.retain(|name, _| {
            inputs
                .enactments
                .iter()
                .any(|enactment| enactment.metadata.name.as_ref() == Some(name))
        });
        let is_there = |policy: &str| {
            inputs
                .enactments
                .iter()
                .any(|enactment| enactment.spec.policy == policy)
        };
        self.doubts.retain(|policy, _| is_there(policy));
        let dir = &self.settings.transactor.dir;
        let forgotten = Counted::load(dir).and_then(|mut counted| match counted.keep(is_there) {
            true => counted.save(dir),
            false => Ok(()),
        });
        if let Err(error) = forgotten {
            tracing::warn!(%error, "probes of policies that are gone stay noted");
        }
        if self.attempts.keep(is_there) {
            self.save_attempts();
        }
        if self.store.keep(is_there) {
            self.save();
        }
    }

    /// Returns how long the node's own desired state waits for its next try. `None` if it has none. A
    /// refusal cuts nothing off, and a missing card may come.
    fn own_failed(&mut self, state: Value, failure: &Failure) -> Option<Duration> {
        let request = self.own_request(state);
        let (retries, now) = (self.settings.retries, Instant::now());
        self.attempts
            .failed(&Owner::Node, &request, 0, retries, now);
        let outages = match failure.is_outage {
            true => self.attempts.outage(&Owner::Node),
            false => 0,
        };
        if failure.is_harmless(outages) {
            return self.attempts.wait(&Owner::Node, &request, now);
        }
        self.attempts.give_up(Owner::Node, request, failure.clone());
        None
    }

    /// Returns the node's own desired state if it is to be applied now. Else the report has the reason,
    /// or when it is tried again.
    fn own_layer(&self, desired: &Value, report: &mut Report) -> Option<Layer> {
        let state = match render::own(desired) {
            Ok(state) => state,
            Err(error) => {
                let hidden = weft_plan::secrets::values(desired);
                let message = secrets::without(&error.to_string(), &hidden);
                report.own = Some(Err(Failure::new(Phase::Plan, message)));
                return None;
            }
        };
        let request = self.own_request(state.clone());
        if let Some(failure) = self.attempts.given_up(&Owner::Node, &request) {
            report.own = Some(Err(failure.clone()));
            return None;
        }
        report.again = self.attempts.wait(&Owner::Node, &request, Instant::now());
        report.again.is_none().then_some(Layer {
            owner: Owner::Node,
            rank: Rank::Node,
            state,
        })
    }

    fn own_request(&self, state: Value) -> Request {
        Request {
            wish: state,
            retry: self.own_retry.clone(),
        }
    }

    fn own_asker(&self, state: Value) -> Asker {
        Asker {
            request: self.own_request(state),
            probes: Vec::new(),
        }
    }

    fn save_attempts(&self) {
        self.attempts.save(&self.settings.transactor.dir);
    }

    fn save(&self) {
        if let Err(error) = self.store.save(&self.settings.transactor.dir) {
            tracing::error!(%error, "what was applied is not noted: a policy may have nothing to fall back to");
        }
    }

    /// Writes a status if it says something new. Returns true if the write succeeded.
    async fn write(
        &mut self,
        wish: &mut Wish,
        uid: Option<String>,
        state: &State,
        aside: &Aside,
        mut status: Status,
    ) -> bool {
        for captured in status
            .captured_states
            .iter_mut()
            .flat_map(|captures| captures.values_mut())
        {
            match (
                &mut captured.state,
                secrets::places(&self.settings.transactor.dir),
            ) {
                (Some(state), Ok(places)) => weft_node_network::secrets::hide(state, &places),
                (state, Err(error)) => {
                    tracing::error!(%error, "captured state left out of status: it may hold secrets");
                    *state = None;
                }
                (None, Ok(_)) => {}
            }
        }
        status::hide(&mut status, wish);
        status.conditions = status::conditions(wish, state, aside, clock::now());
        status.policy_generation = Some(wish.generation);
        status.observed_generation = Some(wish.observed);
        if status == wish.status {
            return true;
        }
        let body = json!({
            "apiVersion": format!("{GROUP}/{}", enactment::VERSION),
            "kind": enactment::KIND,
            "metadata": {"name": wish.name},
            "status": status,
        });
        let api = Api::<NodeNetworkConfigurationEnactment>::all(self.settings.client.clone());
        match api
            .patch_status(
                &wish.name,
                &PatchParams::apply(MANAGER).force(),
                &Patch::Apply(&body),
            )
            .await
        {
            Ok(_) => {
                self.written
                    .insert(wish.name.clone(), (uid, status.clone()));
                wish.status = status;
                true
            }
            Err(error) => {
                tracing::warn!(enactment = wish.name, %error, "the status cannot be written; trying again");
                false
            }
        }
    }
}
