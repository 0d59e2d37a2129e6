//! One transaction for all policies of a node: the host is before or after, whatever happens.
//!
//! NetworkManager holds a checkpoint meanwhile. If the agent is killed, or cuts itself off for
//! good, the checkpoint's time runs out and NetworkManager rolls back by itself. Without
//! NetworkManager the [guardian](crate::guardian) does.

mod failure;
mod given_up;
mod journal;
mod lease;
mod phase;
mod recovery;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use nmstate::{ErrorKind, InterfaceType, NetworkState};
use weft_node_network::{
    claims::Owner, desired::Desired, lifelines, secrets::Place, state, verdict,
};

use self::journal::States;
pub use self::{
    failure::Failure,
    given_up::{GivenUp, Request},
    journal::{Journal, Note},
    phase::Phase,
    recovery::Interrupted,
};
use crate::{
    history::{Entry, History},
    host::{ApplyOptions, Backend, Host, HostError, Query, Retrieved},
    ports::{self, Bridges, Memory, Reattached, ovs},
    probes::{Counted, Prober, Target},
    secrets,
    state_dir::{self, StateDir},
};

/// How long nmstate may take: a type that the kernel lacks costs it two minutes of retries, a
/// thousand bridges more.
const APPLY_LIMIT: Duration = Duration::from_secs(300);

/// A change of the host.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The state, secrets filled in.
    pub desired: Desired,
    /// The owner of the change, for people: `policies br-data, dns`.
    pub what: String,
    /// Peers that must be reachable afterwards, besides the default ones.
    pub probes: Vec<Target>,
    /// The secrets in `desired`, so that no message has them. Those that nmstate knows to be secret
    /// need not be named.
    pub secrets: Vec<String>,
    /// The note to keep for the lifetime of the change.
    pub note: Option<Note>,
    /// The policies that ask for the change, with their generations. The probes of their first tries
    /// count again.
    pub policies: BTreeMap<String, i64>,
    /// The owners that ask for the change, or all whose wishes it repairs. If it cuts the node off,
    /// the agent notes it for them before it rolls back.
    pub askers: BTreeMap<Owner, Asker>,
    /// True if the state must be applied even where the host already looks as desired. A report
    /// does not show everything that an apply changes, such as a missing profile of NetworkManager.
    pub always: bool,
}

/// One of the owners of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The wish, and how often.
    pub request: Request,
    /// The probes that it brings.
    pub probes: Vec<Target>,
}

impl Change {
    /// Returns the owners that this failure is blamed on: those that bring the probe that failed, or
    /// all if none does.
    fn blamed(&self, failure: &Failure) -> Vec<(&Owner, &Asker)> {
        let brings = |asker: &Asker| {
            let mut probes = asker.probes.iter();
            probes.any(|target| failure.probe.as_deref() == Some(&*target.to_string()))
        };
        let all = self.askers.iter();
        let bringing: Vec<_> = all.clone().filter(|(_, asker)| brings(asker)).collect();
        match bringing.is_empty() {
            true => all.collect(),
            false => bringing,
        }
    }

    /// Notes a change that has cut the node off before it is rolled back: an agent that is killed
    /// after that must not make the change once more.
    fn give_up(&self, dir: &StateDir, failure: &Failure) {
        if !failure.has_cut_off() || self.askers.is_empty() {
            return;
        }
        let noted = GivenUp::load(dir).and_then(|mut given_up| {
            for (owner, asker) in self.blamed(failure) {
                let failure = failure.clone().without(&self.secrets);
                given_up.add(owner.clone(), asker.request.clone(), failure);
            }
            given_up.save(dir)
        });
        // A folder that cannot be written must not keep the host as it is.
        if let Err(error) = noted {
            tracing::warn!(%error, "another process of the agent may make the change again");
        }
    }
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing: the host is so already.
    Nothing,
    /// The change is there for good.
    Changed {
        /// The probes that succeeded before and after.
        probes: Vec<String>,
        /// The probes that did not count, each with the reason.
        left_out: Vec<String>,
    },
}

/// Changes a host.
///
/// # Examples
/// Adds a dummy interface. If a probe fails afterwards, the host is as it was before.
///
/// ```no_run
/// use std::{sync::Arc, time::Duration};
///
/// use weft_agent::{
///     host::{DNS_HOST, Machine},
///     probes::Prober,
///     state_dir::StateDir,
///     transaction::{Change, Done, Transactor},
/// };
///
/// # async fn add() -> Result<(), Box<dyn std::error::Error>> {
/// let (machine, _changes) = Machine::start()?;
/// let transactor = Transactor {
///     host: Arc::new(machine),
///     dir: StateDir::open("/var/lib/weft")?,
///     prober: Prober {
///         cluster: None,
///         dns_host: DNS_HOST.to_owned(),
///         window: Duration::from_secs(30),
///     },
/// };
/// let desired = "{interfaces: [{name: dummy1, type: dummy, state: up}]}";
/// let change = Change {
///     desired: nmstate::NetworkState::new_from_yaml(desired)?.into(),
///     what: "an example".to_owned(),
///     ..Change::default()
/// };
/// match transactor.run(change).await {
///     Ok(Done::Nothing) => println!("dummy1 exists already"),
///     Ok(Done::Changed { probes, .. }) => println!("added dummy1; {} probes agree", probes.len()),
///     Err(failure) => println!("{failure}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Transactor {
    /// The host that transactions change.
    pub host: Arc<dyn Host>,
    /// The agent's folder.
    pub dir: StateDir,
    /// Asks what is reachable.
    pub prober: Prober,
}

impl Transactor {
    /// Changes the host, if it is not as desired or the change asks for it always.
    ///
    /// # Errors
    /// The host is as it was before, unless the failure's phase is `Rollback`.
    pub async fn run(&self, mut change: Change) -> Result<Done, Failure> {
        let places = secrets::places(&self.dir)
            .map_err(|error| Failure::new(Phase::Plan, error.to_string()))?;
        let in_desired = secrets::of_desired(&change.desired, &places);
        change.secrets.extend(in_desired);
        let done = self.run_it(&mut change, &places).await;
        done.map_err(|failure| failure.without(&change.secrets))
    }

    async fn run_it(&self, change: &mut Change, places: &BTreeSet<Place>) -> Result<Done, Failure> {
        let _lock = self
            .dir
            .lock()
            .map_err(|error| Failure::new(Phase::Plan, error.to_string()))?;
        Phase::Plan.wait_while_held(&self.dir).await;
        let Some(mut before) = self.needed(change, places).await? else {
            return Ok(Done::Nothing);
        };
        if self.roll_back_checkpoints().await? > 0 {
            match self.needed(change, places).await? {
                Some(rolled_back) => before = rolled_back,
                None => return Ok(Done::Nothing),
            }
        }
        change
            .secrets
            .extend(secrets::values(&before.state, places));
        let folder = |error: state_dir::Error| Failure::new(Phase::Plan, error.to_string());
        let mut counted = Counted::load(&self.dir).map_err(folder)?;
        let choice = self
            .prober
            .choose(
                &*self.host,
                &before.state,
                &change.probes,
                &counted.of(&change.policies),
            )
            .await;
        if let Some((target, why)) = choice.missing.first() {
            let message = format!(
                "{target} was within reach before the first try and is not now, so nothing is changed: {why}"
            );
            return Err(Failure::new(Phase::Plan, message));
        }
        counted.tried(&change.policies, &choice.counted);
        counted.save(&self.dir).map_err(folder)?;
        let left_out: Vec<String> = choice
            .left_out
            .iter()
            .map(|(target, why)| format!("{target}: {why}"))
            .collect();
        let done = match self.change(change, &before, &choice.counted).await {
            Ok(()) => {
                counted.applied(&change.policies);
                if let Err(error) = counted.save(&self.dir) {
                    tracing::warn!(%error, "probes of an applied policy stay noted");
                }
                let probes = choice.counted.iter().map(ToString::to_string).collect();
                Ok(Done::Changed { probes, left_out })
            }
            Err(mut failure) => {
                failure.left_out = left_out;
                if failure.phase == Phase::Probe {
                    let window = self.window_after_rollback(change.desired.state(), &before.state);
                    self.ask_again(&mut failure, &choice.counted, window).await;
                }
                Err(failure)
            }
        };
        let outcome = done
            .as_ref()
            .map(|_| ())
            .map_err(|failure| failure.clone().without(&change.secrets).to_string());
        let desired = change.desired.clone();
        self.remember(
            &change.what,
            outcome,
            before.state,
            desired,
            &change.secrets,
        );
        done
    }

    /// Asks once more, now that the host is as it was before. A peer that is still out of reach was not cut
    /// off by the change.
    async fn ask_again(&self, failure: &mut Failure, probes: &[Target], window: Duration) {
        let failed = probes
            .iter()
            .find(|target| failure.probe.as_deref() == Some(&*target.to_string()));
        let Some(failed) = failed else { return };
        let again = self
            .prober
            .confirm(&*self.host, std::slice::from_ref(failed), window)
            .await;
        if let Err(late) = again {
            tracing::warn!(
                probe = late.target,
                why = late.message,
                "out of reach without the change as well"
            );
            failure.is_outage = true;
            failure
                .message
                .push_str("; it is out of reach without the change as well");
        }
    }

    /// Adds an outcome to the history. Its texts have neither these secrets nor those that are in
    /// the states.
    fn remember(
        &self,
        what: &str,
        outcome: Result<(), String>,
        before: NetworkState,
        desired: Desired,
        known: &[String],
    ) {
        let remembered = secrets::places(&self.dir).and_then(|places| {
            let mut hidden: BTreeSet<String> = known.iter().cloned().collect();
            hidden.extend(secrets::values(&before, &places));
            hidden.extend(secrets::of_desired(&desired, &places));
            let entry = Entry::new(what, outcome, before, desired, &hidden);
            History::new(&self.dir)?.add(&entry)
        });
        if let Err(error) = remembered {
            tracing::warn!(%error, "the outcome is not in the history");
        }
    }

    /// The host before, with secrets. `None` if it is as desired.
    async fn needed(
        &self,
        change: &Change,
        places: &BTreeSet<Place>,
    ) -> Result<Option<Retrieved>, Failure> {
        let read = self
            .host
            .retrieve(Query {
                secrets: true,
                ..Query::default()
            })
            .await;
        let before = read.map_err(|error| Failure::host(Phase::Plan, &error))?;
        let (desired, current) = (&change.desired, state::value(&before.state));
        if let Some(refusal) = before.backend.refusal(desired, &current) {
            return Err(Failure {
                phase: Phase::Plan,
                ..Failure::said(ErrorKind::InvalidArgument, &refusal)
            });
        }
        desired.validate(&before.state).map_err(|error| {
            let mut hidden = change.secrets.clone();
            hidden.extend(secrets::values(&before.state, places));
            let hide = |text: &str| secrets::without(text, &hidden);
            Failure {
                message: verdict::explained(desired, &before.state, error.msg(), hide),
                ..Failure::nmstate(Phase::Plan, &error)
            }
        })?;
        if !change.always && before.backend.changes(desired, &current).is_empty() {
            return Ok(None);
        }
        match &before.backend {
            Backend::NetworkManager { .. } | Backend::Kernel => Ok(Some(before)),
            Backend::ReadOnly { why } => Err(Failure::new(
                Phase::Plan,
                format!("the network of this host can only be read: {why}"),
            )),
        }
    }

    async fn change(
        &self,
        change: &Change,
        before: &Retrieved,
        probes: &[Target],
    ) -> Result<(), Failure> {
        let states = States {
            before: before.state.clone(),
            desired: change.desired.clone(),
            note: change.note.clone(),
        };
        let mut journal = Journal::begin(&self.dir, &change.what, &states)
            .map_err(|error| Failure::new(Phase::Checkpoint, error.to_string()))?;
        if let Err(failure) = self.under_journal(&mut journal, change, probes).await {
            let failure = of_lifelines(failure, change, before);
            change.give_up(&self.dir, &failure);
            // Where it is not known how the host is, the journal stays: the next start cleans up.
            self.undo(&mut journal, &failure, &states).await?;
            if let Err(error) = Journal::end_before(&self.dir) {
                tracing::warn!(%error, "the journal does not say that the rollback is done; the next start looks again");
            }
            return Err(failure);
        }
        // The change is there: what fails now is no failure of it.
        if let Err(error) = self.note(&mut journal, &states).await {
            tracing::error!(%error, "the change is made, and the journal does not say so; the next start writes it down");
        }
        Ok(())
    }

    async fn note(&self, journal: &mut Journal, states: &States) -> Result<(), state_dir::Error> {
        journal.enter(&self.dir, Phase::Note)?;
        Phase::Note.wait_while_held(&self.dir).await;
        Journal::end_after(&self.dir, states)
    }

    async fn under_journal(
        &self,
        journal: &mut Journal,
        change: &Change,
        probes: &[Target],
    ) -> Result<(), Failure> {
        Phase::Checkpoint.wait_while_held(&self.dir).await;
        let bridges = bridges(change.desired.state());
        self.put_ports_back(&bridges).await;
        self.keep_ports_from_network_manager().await;

        self.enter(journal, Phase::Apply).await?;
        let applied = self.host.apply(change.desired.clone(), self.options());
        self.while_renewing(applied)
            .await
            .map_err(|error| Failure::host(Phase::Apply, &error))?;
        self.put_ports_back(&bridges).await;

        self.enter(journal, Phase::Probe).await?;
        let window = self.renew_for_probes(change.desired.state()).await;
        let confirmed = self.prober.confirm(&*self.host, probes, window).await;
        confirmed.map_err(|late| Failure::probe(late.target, late.message))?;

        self.enter(journal, Phase::Commit).await?;
        // nmstate does not say which checkpoint is its own. There is one, as leftovers were rolled
        // back and NetworkManager refuses a second.
        let gone = || {
            Failure::new(
                Phase::Commit,
                "the checkpoint is gone: its time was over, and NetworkManager has rolled back",
            )
        };
        let checkpoints = self
            .host
            .checkpoints()
            .await
            .map_err(|error| Failure::host(Phase::Commit, &error))?;
        let checkpoint = checkpoints.into_iter().next().ok_or_else(gone)?;
        self.host
            .commit(checkpoint)
            .await
            .map_err(|error| Failure::host(Phase::Commit, &error))
    }

    async fn enter(&self, journal: &mut Journal, phase: Phase) -> Result<(), Failure> {
        journal
            .enter(&self.dir, phase)
            .map_err(|error| Failure::new(phase, error.to_string()))?;
        phase.wait_while_held(&self.dir).await;
        Ok(())
    }

    async fn undo(
        &self,
        journal: &mut Journal,
        failure: &Failure,
        states: &States,
    ) -> Result<(), Failure> {
        // A folder that cannot be written must not keep the host as it is.
        if let Err(error) = journal.enter(&self.dir, Phase::Rollback) {
            tracing::warn!(%error, "the journal does not say that this is a rollback");
        }
        Phase::Rollback.wait_while_held(&self.dir).await;
        let rolled_back = self.roll_back_checkpoints().await;
        self.put_ports_back(&Bridges::default()).await;
        let rolled_back = match rolled_back {
            Ok(_) => self.restore(states).await,
            Err(error) => Err(error),
        };
        self.put_ports_back(&Bridges::default()).await;
        rolled_back.map_err(|error| {
            let error = recovery::without_secrets(&self.dir, error, states);
            self.leave(journal, &error);
            failure.clone().not_rolled_back(&error)
        })
    }

    /// Rolls back every checkpoint that there is: of an agent that was killed, or of another user,
    /// whose change would be mixed with this one. How many there were.
    async fn roll_back_checkpoints(&self) -> Result<usize, Failure> {
        let failed = |error: HostError| Failure::host(Phase::Rollback, &error);
        let checkpoints = self.host.checkpoints().await.map_err(failed)?;
        for checkpoint in &checkpoints {
            tracing::warn!(checkpoint, "rolling back a checkpoint of NetworkManager");
            if let Err(error) = self.host.rollback(checkpoint.clone()).await {
                // Its time may have run out between the two questions.
                if self
                    .host
                    .checkpoints()
                    .await
                    .map_err(failed)?
                    .contains(checkpoint)
                {
                    return Err(failed(error));
                }
            }
        }
        Ok(checkpoints.len())
    }

    /// Puts pods' ports back where they belong. A failure is no failure of the transaction: it
    /// would undo a good change, and lose the ports again.
    pub(crate) async fn put_ports_back(&self, bridges: &Bridges) {
        for reattached in [
            self.put_back_on_linux(&bridges.linux).await,
            self.put_back_on_ovs(&bridges.ovs).await,
        ] {
            match reattached {
                Ok(reattached) => {
                    for attachment in reattached.done {
                        tracing::warn!(
                            port = attachment.port,
                            bridge = attachment.bridge,
                            "a pod's port had lost its bridge, and is back"
                        );
                    }
                    for (attachment, why) in reattached.failed {
                        tracing::error!(
                            port = attachment.port,
                            bridge = attachment.bridge,
                            why,
                            "a pod's port has lost its bridge"
                        );
                    }
                }
                Err(error) => tracing::error!(%error, "pods' ports cannot be looked after"),
            }
        }
    }

    async fn put_back_on_linux(
        &self,
        bridges: &BTreeSet<String>,
    ) -> Result<Reattached, ports::Error> {
        let mut memory = Memory::load(&self.dir)?;
        let candidates = memory.candidates(&self.host.links().await?, bridges);
        let configured = if candidates.is_empty() {
            Some(BTreeSet::new())
        } else {
            self.configured(candidates).await
        };
        memory
            .reconcile(&self.dir, &*self.host, bridges, configured.as_ref())
            .await
    }

    async fn put_back_on_ovs(
        &self,
        bridges: &BTreeSet<String>,
    ) -> Result<Reattached, ports::Error> {
        ovs::Memory::load(&self.dir)?
            .reconcile(&self.dir, &*self.host, bridges)
            .await
    }

    async fn keep_ports_from_network_manager(&self) {
        let (linux, ovs) = (
            Memory::load(&self.dir).unwrap_or_default(),
            ovs::Memory::load(&self.dir).unwrap_or_default(),
        );
        let names: Vec<String> = linux
            .ports()
            .map(|port| port.name.as_str())
            .chain(ovs.names())
            .map(str::to_owned)
            .collect();
        if names.is_empty() {
            return;
        }
        if let Err(error) = self.host.leave_alone(names).await {
            tracing::warn!(%error, "failed to make NetworkManager leave pods' ports alone; they are put back afterwards");
        }
    }

    /// Returns those of these links that NetworkManager has set up. `None` if it cannot be asked.
    async fn configured(&self, names: Vec<String>) -> Option<BTreeSet<String>> {
        let asked = self.host.configured(names).await;
        asked.inspect_err(|error| tracing::warn!(%error, "failed to read which links NetworkManager has set up")).ok()
    }

    fn options(&self) -> ApplyOptions {
        ApplyOptions {
            commit: false,
            checkpoint: self.lease(),
            verify: true,
            memory_only: false,
            limit: APPLY_LIMIT,
        }
    }
}

/// The failure with the interfaces that the node needs, if NetworkManager or the kernel had begun to
/// change them: no probe says whether that has cut the node off.
fn of_lifelines(failure: Failure, change: &Change, before: &Retrieved) -> Failure {
    if !matches!(failure.phase, Phase::Apply | Phase::Verify) {
        return failure;
    }
    let current = state::value(&before.state);
    let effects = before.backend.effects(&change.desired, &current);
    // Only the cluster knows the addresses of a node.
    let touched = lifelines::touched(&effects, &current, &BTreeSet::new());
    match lifelines::warning(&touched) {
        Some(warning) => failure.on_lifeline(&warning),
        None => failure,
    }
}

/// The bridges that a state names.
pub(crate) fn bridges(state: &NetworkState) -> Bridges {
    let of = |kind: InterfaceType| {
        let bridges = state
            .interfaces
            .iter()
            .filter(|interface| interface.iface_type() == kind);
        bridges
            .map(|interface| interface.name().to_owned())
            .collect()
    };
    Bridges {
        linux: of(InterfaceType::LinuxBridge),
        ovs: of(InterfaceType::OvsBridge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Peer;

    #[test]
    fn a_failed_probe_is_blamed_on_those_who_bring_it_or_else_on_all() {
        let asker = |peers: &[&str]| Asker {
            probes: peers
                .iter()
                .map(|host| {
                    Target::Peer(Peer::Icmp {
                        host: (*host).into(),
                    })
                })
                .collect(),
            ..Asker::default()
        };
        let policy = |name: &str| Owner::Policy(name.into());
        let change = Change {
            askers: BTreeMap::from([
                (policy("careful"), asker(&["192.0.2.1"])),
                (policy("other"), asker(&["192.0.2.2"])),
                (Owner::Node, asker(&[])),
            ]),
            ..Change::default()
        };
        let blamed = |failure: Failure| -> Vec<Owner> {
            let blamed = change.blamed(&failure).into_iter();
            blamed.map(|(owner, _)| owner.clone()).collect()
        };
        let all: Vec<Owner> = change.askers.keys().cloned().collect();
        assert_eq!(
            blamed(Failure::probe("icmp 192.0.2.1", "no answer")),
            [policy("careful")]
        );
        assert_eq!(blamed(Failure::probe("API server", "no answer")), all);
        assert_eq!(blamed(Failure::new(Phase::Verify, "another MTU")), all);
    }

    /// The agent may be killed before it has rolled back.
    #[test]
    fn a_change_that_has_cut_the_node_off_is_noted_before_its_rollback() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let owner = Owner::Policy("cut".into());
        let asker = Asker::default();
        let change = Change {
            askers: BTreeMap::from([(owner.clone(), asker.clone())]),
            secrets: vec!["s3cret".into()],
            ..Change::default()
        };
        let noted = || {
            let given_up = GivenUp::load(&dir).unwrap();
            given_up.failure(&owner, &asker.request).cloned()
        };
        change.give_up(&dir, &Failure::new(Phase::Verify, "eth1 has another MTU"));
        assert_eq!(noted(), None);
        change.give_up(&dir, &Failure::probe("API server", "no s3cret answer"));
        assert_eq!(noted().unwrap().message, "no <hidden> answer");
    }
}
