//! The transaction, and what follows from its end for those who took part.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::Instant;
use weft_api::node_network::{Decision, Outcome};
use weft_node_network::{
    blame::blame,
    claims::{Layer, Owner},
    desired::Desired,
    merge::Merged,
    secrets, state,
};

use super::{
    super::{State, Store, status, wish::Standing},
    Item, Pass,
    decide::some_of,
};
use crate::{
    host::{HostError, Query},
    observe::Observer,
    probes::Target,
    secrets as cluster_secrets,
    transaction::{Asker, Change, Done, Failure, Phase, bridges},
};

impl Pass<'_> {
    /// Looks at the host again, and decides about the unsettled items by it. The agent does not
    /// report from an old look that a policy is done, or that it matches nothing here.
    pub(super) async fn look_again(&mut self) -> Result<(), HostError> {
        let now = self
            .enactor
            .settings
            .transactor
            .host
            .retrieve(Query::default())
            .await?;
        self.current = now.value();
        self.is_fresh = true;
        for index in 0..self.items.len() {
            if self.items[index].settled.is_none() {
                self.decide(index);
            }
        }
        Ok(())
    }

    /// Runs the transaction. A failure comes with the owners of the property that caused it, or
    /// with none if the cause is unknown.
    pub(super) async fn apply(
        &mut self,
        merged: &Merged,
        open: &BTreeSet<Owner>,
    ) -> Result<(), (BTreeSet<Owner>, Failure)> {
        let plan = |message: String| Failure::new(Phase::Plan, message);
        let unblamed = |message: String| (BTreeSet::new(), plan(message));
        let references =
            secrets::references(&merged.state).map_err(|error| unblamed(error.to_string()))?;
        let settings = self.enactor.settings.clone();
        let found = match references.is_empty() {
            true => Default::default(),
            false => cluster_secrets::read(&settings.client, &settings.namespace, &references)
                .await
                .map_err(|error| unblamed(error.to_string()))?,
        };
        let filled = secrets::fill(&merged.state, &found).map_err(|error| {
            let lacks = |state: &Value| secrets::fill(state, &found).is_err();
            let policies = self
                .items
                .iter()
                .filter(|item| lacks(&item.rendered.desired))
                .map(|item| item.wish.owner());
            let own = self
                .own
                .iter()
                .filter(|own| lacks(&own.state))
                .map(|own| own.owner.clone());
            (policies.chain(own).collect(), plan(error.to_string()))
        })?;
        cluster_secrets::remember(&settings.transactor.dir, &merged.state)
            .map_err(|error| unblamed(error.to_string()))?;
        let desired = Desired::read(&filled).map_err(|error| unblamed(error.to_string()))?;
        self.tell_progress(open).await;
        let of_policies: Vec<(Owner, Target)> = self
            .items
            .iter()
            .filter(|item| open.contains(&item.wish.owner()) || item.aside.drifted.is_some())
            .flat_map(|item| item.probes().map(|target| (item.wish.owner(), target)))
            .collect();
        let probes = of_policies
            .iter()
            .chain(&self.unanswered)
            .map(|(_, target)| target.clone())
            .collect();
        let who = if open.is_empty() {
            "drift".to_owned()
        } else {
            open.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        // The way back must survive if the agent is killed right after the change, so the agent
        // writes it down together with the change.
        let noted = self.noted(open);
        let note = noted.note().map_err(|error| unblamed(error.to_string()))?;
        let askers = self.askers(open);
        let generation = |item: &Item| (item.wish.policy.clone(), item.wish.generation);
        let change = Change {
            desired,
            what: who,
            probes,
            secrets: found.values().cloned().collect(),
            note: Some(note),
            policies: self
                .items
                .iter()
                .filter(|item| open.contains(&item.wish.owner()))
                .map(generation)
                .collect(),
            askers,
            always: self.brings_something_new(),
        };
        let _hold = settings.observer.as_ref().map(Observer::hold);
        self.report.changed = true;
        match settings.transactor.run(change).await {
            Ok(Done::Nothing) => {
                self.enactor.store = noted;
                self.enactor.save();
                Ok(())
            }
            Ok(Done::Changed { left_out, .. }) => {
                self.enactor.store = noted;
                self.note_left_out(open, &left_out);
                Ok(())
            }
            Err(failure) => {
                self.note_left_out(open, &failure.left_out);
                let owners = match (&failure.probe, &failure.said) {
                    // Of the probes that count on every node none says whose fault it is. One that
                    // a policy brought is first taken for that policy's own, and goes on counting:
                    // without the policy the others have to pass it, or they have failed, too.
                    (Some(probe), _) => {
                        let failed = of_policies
                            .into_iter()
                            .filter(|(_, target)| target.to_string() == *probe);
                        let failed: Vec<_> = failed.collect();
                        let owners = failed.iter().map(|(owner, _)| owner.clone()).collect();
                        self.unanswered.extend(failed);
                        owners
                    }
                    (None, Some(said)) => blame(merged, said).owners,
                    (None, None) => BTreeSet::new(),
                };
                Err((owners, failure))
            }
        }
    }

    /// Returns the owners that bring something new, or else those whose wishes are repaired.
    fn askers(&self, open: &BTreeSet<Owner>) -> BTreeMap<Owner, Asker> {
        let asker = |item: &Item| {
            let asker = Asker {
                request: item.wish.request(),
                probes: item.probes().collect(),
            };
            (item.wish.owner(), asker)
        };
        let is_new = |item: &&Item| open.contains(&item.wish.owner());
        let mut askers: BTreeMap<_, _> = self.items.iter().filter(is_new).map(asker).collect();
        if let Some(own) = self.new_own() {
            askers.insert(Owner::Node, self.enactor.own_asker(own.state.clone()));
        }
        if !askers.is_empty() {
            return askers;
        }
        let repaired = self.items.iter().filter(|item| item.is_repaired());
        let own = self.own.iter();
        let own = own.map(|own| (Owner::Node, self.enactor.own_asker(own.state.clone())));
        repaired.map(asker).chain(own).collect()
    }

    /// Returns the node's own wish unless this process has fulfilled it.
    fn new_own(&self) -> Option<&Layer> {
        let own = self.own.as_ref();
        own.filter(|own| self.enactor.own_done.as_ref() != Some(&own.state))
    }

    /// Notes on those who took part which probes did not count.
    fn note_left_out(&mut self, open: &BTreeSet<Owner>, left_out: &[String]) {
        for item in self
            .items
            .iter_mut()
            .filter(|item| open.contains(&item.wish.owner()))
        {
            item.aside.left_out = some_of(left_out);
        }
    }

    /// Returns the notes about policies after the open ones are applied on the host as it is.
    pub(super) fn noted(&self, open: &BTreeSet<Owner>) -> Store {
        let mut store = self.enactor.store.clone();
        for item in self
            .items
            .iter()
            .filter(|item| open.contains(&item.wish.owner()))
        {
            if let (Decision::Granted, Some(granted)) = (item.wish.decision, &item.wish.granted) {
                store.applied(
                    &item.wish.policy,
                    granted.generation,
                    &item.rendered,
                    &self.current,
                );
            }
        }
        store
    }

    pub(super) fn succeed(&mut self, open: &BTreeSet<Owner>) {
        let mut had_failed = false;
        for item in self
            .items
            .iter_mut()
            .filter(|item| open.contains(&item.wish.owner()))
        {
            had_failed |= self.enactor.attempts.done(&item.wish.owner());
            let message = if item.wish.decision == Decision::Revert {
                status::REVERTED
            } else {
                status::RECONCILED
            };
            let outcome = self
                .enactor
                .interrupted
                .as_ref()
                .map(|interrupted| Outcome {
                    phase: Some(interrupted.phase.to_string()),
                    message: Some(interrupted.to_string()),
                    ..Outcome::default()
                });
            item.settled = Some((State::Available { message }, outcome));
        }
        if !open.is_empty() {
            self.enactor.interrupted = None;
        }
        if let Some(own) = &self.own {
            self.enactor.own_done = Some(own.state.clone());
            had_failed |= self.enactor.attempts.done(&Owner::Node);
            self.report.own = Some(Ok(()));
        }
        if had_failed {
            self.enactor.save_attempts();
        }
    }

    /// Reports whether the others are tried again without those who failed.
    pub(super) fn fail(
        &mut self,
        mut blamed: BTreeSet<Owner>,
        open: &BTreeSet<Owner>,
        failure: &Failure,
    ) -> bool {
        tracing::warn!(%failure, ?blamed, "the change failed and was rolled back");
        // Only those who take part can fail. With nobody to blame it is all who changed something.
        blamed.retain(|owner| {
            open.contains(owner)
                || *owner == Owner::Node && self.own.is_some()
                || self
                    .items
                    .iter()
                    .any(|item| item.wish.owner() == *owner && item.aside.drifted.is_some())
        });
        if blamed.is_empty() {
            // Each of them alone may cut the node off once more.
            let are_all_suspects = failure.has_cut_off() || open.is_empty();
            blamed = match are_all_suspects {
                true => self.askers(open).into_keys().collect(),
                false => open.clone(),
            };
        }
        let own_is_meant = blamed.is_empty() || blamed.contains(&Owner::Node);
        if own_is_meant && let Some(own) = self.own.take() {
            self.report.own = Some(Err(failure.clone()));
            if let Some(wait) = self.enactor.own_failed(own.state, failure) {
                self.again_in(wait);
            }
        }
        let mut any = own_is_meant;
        let mut waits = Vec::new();
        let cleared = cleared(&self.unanswered, failure);
        for item in self
            .items
            .iter_mut()
            .filter(|item| !blamed.contains(&item.wish.owner()))
        {
            let Some((State::Failed { message }, Some(outcome))) = &item.settled else {
                continue;
            };
            if !cleared.contains(&item.wish.owner()) {
                continue;
            }
            if let Some((count, wait)) = self.enactor.attempts.resume(
                &item.wish.owner(),
                &item.wish.request(),
                self.enactor.settings.retries,
            ) {
                let message = retrying(
                    &item.wish.policy,
                    message,
                    count,
                    self.enactor.settings.retries.max,
                );
                item.settled = Some((State::Retrying { message }, Some(outcome.clone())));
                waits.push(wait);
            }
        }
        for item in &mut self.items {
            if !blamed.contains(&item.wish.owner()) {
                continue;
            }
            any = true;
            let kept = self
                .enactor
                .store
                .get(&item.wish.policy)
                .map_or_else(state::empty, |applied| applied.desired.clone());
            item.rendered.desired = kept;
            let (owner, request) = (item.wish.owner(), item.wish.request());
            let (retries, attempts) = (self.enactor.settings.retries, &mut self.enactor.attempts);
            let now = Instant::now();
            let earlier = item.wish.earlier_tries();
            let (count, again) = attempts.failed(&owner, &request, earlier, retries, now);
            let counts = BTreeMap::from([(item.wish.generation.to_string(), i64::from(count))]);
            item.wish_retry_count(counts);
            let outages = match failure.is_outage {
                true => attempts.outage(&owner),
                false => 0,
            };
            let outcome = status::outcome(failure);
            let state = if again && failure.may_pass(outages) {
                waits.push(attempts.wait(&owner, &request, now).unwrap_or_default());
                let message = retrying(&item.wish.policy, &failure.to_string(), count, retries.max);
                State::Retrying { message }
            } else {
                attempts.give_up(owner, request, failure.clone());
                State::Failed {
                    message: failure.to_string(),
                }
            };
            item.standing = Standing::Failed;
            item.settled = Some((state, Some(outcome)));
        }
        self.enactor.save_attempts();
        waits.into_iter().for_each(|wait| self.again_in(wait));
        any && (self.items.iter().any(Item::is_open) || self.own.is_some())
    }

    pub(super) async fn put_ports_back(&self, merged: &Merged) {
        let bridges = secrets::conceal(&merged.state)
            .ok()
            .and_then(|state| state::parse(&state).ok())
            .map(|state| bridges(&state));
        self.enactor
            .settings
            .transactor
            .put_ports_back(&bridges.unwrap_or_default())
            .await;
    }
}

/// Returns the policies that are not to blame for a probe that failed with them, because the probe
/// fails without their changes, too. It proves nothing for a policy that was given up in an earlier
/// reconcile.
fn cleared(unanswered: &[(Owner, Target)], failure: &Failure) -> BTreeSet<Owner> {
    let Some(probe) = &failure.probe else {
        return BTreeSet::new();
    };
    let failed = unanswered
        .iter()
        .filter(|(_, target)| target.to_string() == *probe);
    failed.map(|(owner, _)| owner.clone()).collect()
}

/// The words of kubernetes-nmstate for a policy that is tried again.
fn retrying(policy: &str, failure: &str, count: u32, max: u32) -> String {
    format!(
        "failed to reconcile NodeNetworkConfigurationPolicy {policy} at desired state apply: {failure}. Retrying {count}/{max}"
    )
}

impl Item {
    /// Probes of the policy itself after its change.
    fn probes(&self) -> impl Iterator<Item = Target> {
        let spec = self.wish.granted.as_ref().map(|granted| &granted.spec);
        spec.and_then(|spec| spec.probes.as_ref())
            .into_iter()
            .flatten()
            .filter_map(Target::of)
    }

    fn wish_retry_count(&mut self, counts: BTreeMap<String, i64>) {
        self.wish.status.retry_count = Some(counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::peer::Peer;

    /// Another policy may fail the probe that ended one in an earlier reconcile, such as that of the
    /// API server.
    #[test]
    fn a_failed_probe_clears_only_those_who_failed_it_in_this_reconcile() {
        let policy = |name: &str| Owner::Policy(name.into());
        let icmp = |host: &str| Target::Peer(Peer::Icmp { host: host.into() });
        let unanswered = [
            (policy("careful"), icmp("192.0.2.1")),
            (policy("other"), icmp("192.0.2.2")),
        ];
        let failed = |probe: &str| cleared(&unanswered, &Failure::probe(probe, "no answer"));
        assert_eq!(failed("icmp 192.0.2.1"), [policy("careful")].into());
        assert_eq!(failed("API server"), BTreeSet::new());
        let verification = Failure::new(Phase::Verify, "eth1 has another MTU");
        assert_eq!(cleared(&unanswered, &verification), BTreeSet::new());
    }
}
