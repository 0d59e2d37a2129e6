//! The start after a crash in the middle of a transaction: the host goes back to before, unless the
//! change had been committed.

use std::{collections::BTreeSet, fmt, time::Duration};

use nmstate::{NetworkState, RouteEntry, RouteRuleEntry};
use tokio::time::Instant;
use weft_node_network::{removal, state};

use super::{Failure, Journal, Phase, Transactor, journal::States};
use crate::{
    history,
    host::{ApplyOptions, Query, Retrieved},
    secrets,
    state_dir::{Lock, StateDir},
};

/// How long devices may take to be what they were, once NetworkManager has rolled back.
const SETTLED: Duration = Duration::from_secs(2);
/// `RT_TABLE_MAIN` of `linux/rtnetlink.h`, which every program uses.
const MAIN: u32 = 254;
/// How many paths a message names.
const LISTED: usize = 10;

/// A transaction that did not come to its end because the agent, or the host, did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The phase that had begun.
    pub phase: Phase,
    /// The owner of the change.
    pub what: String,
    /// True if the change is there: it had been committed. Else the host is as it was before.
    pub is_there: bool,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = if self.is_there {
            "it had been committed, and is there"
        } else {
            "the host is as it was before"
        };
        write!(
            formatter,
            "the agent was stopped in phase {} of changing {}: {now}",
            self.phase, self.what
        )
    }
}

impl Transactor {
    /// Cleans up after a transaction that did not come to its end, under the lock of the agent's
    /// folder. To be called at the start, before anything else is changed.
    ///
    /// # Errors
    /// The host could not be brought back. The journal stays, so that the next start tries again.
    pub async fn recover(&self, _lock: Lock) -> Result<Option<Interrupted>, Failure> {
        let left = Journal::left(&self.dir)
            .map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        let Some((mut journal, states)) = left else {
            return Ok(None);
        };
        tracing::warn!(phase = %journal.phase, what = journal.what, "a transaction did not come to its end");
        let rolled_back = self.roll_back_checkpoints().await?;
        // A missing checkpoint has three causes: the commit is done, NetworkManager rolled back when
        // the time was over, or it was restarted and forgot. Only the host's state shows which.
        let is_there = match (&states, journal.phase) {
            (Some(_), Phase::Note) => true,
            (Some(states), Phase::Commit) if rolled_back == 0 => self.is_there(states).await?,
            _ => false,
        };
        // A rollback does not restore everything, and a restarted NetworkManager nothing at all.
        // Before the phase Apply there is nothing to restore.
        if let Some(states) = states
            .as_ref()
            .filter(|_| !is_there && journal.phase > Phase::Checkpoint)
        {
            self.restore(states).await.map_err(|error| {
                let error = without_secrets(&self.dir, error, states);
                self.leave(&mut journal, &error);
                error
            })?;
        }
        self.put_ports_back(&Default::default()).await;
        let interrupted = Interrupted {
            phase: journal.phase,
            what: journal.what,
            is_there,
        };
        let ended = match states.as_ref().filter(|_| is_there) {
            Some(states) => Journal::end_after(&self.dir, states),
            None => Journal::end_before(&self.dir),
        };
        ended.map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        if let Some(states) = states {
            let outcome = if is_there {
                Ok(())
            } else {
                Err(interrupted.to_string())
            };
            self.remember(
                &interrupted.what,
                outcome,
                states.before,
                states.desired,
                &[],
            );
        }
        Ok(Some(interrupted))
    }

    /// Notes how the host differs from the state before, for the report of the node. The error has
    /// no secrets.
    pub(super) fn leave(&self, journal: &mut Journal, error: &Failure) {
        if let Err(error) = journal.leave(&self.dir, error.message.clone()) {
            tracing::warn!(%error, "the journal does not say how the host differs");
        }
    }

    /// Reports whether the change was committed: the checkpoint is gone, and the host is as
    /// desired.
    async fn is_there(&self, states: &States) -> Result<bool, Failure> {
        let now = self.look().await?;
        let changes = now.backend.changes(&states.desired, &now.value());
        Ok(changes.is_empty())
    }

    /// Brings back by a change of its own what a rollback has left: a checkpoint has the global DNS
    /// configuration only from NetworkManager 1.47 on, and it is kept in memory alone, so that a
    /// NetworkManager that was started anew meanwhile has none, and the new profiles on disk.
    ///
    /// # Errors
    /// The change fails, or the host still differs afterwards. The error names what differs.
    pub(super) async fn restore(&self, states: &States) -> Result<(), Failure> {
        let revert = history::revert(&states.desired, &states.before)
            .map_err(|error| Failure::nmstate(Phase::Rollback, &error))?;
        let read = self.host.retrieve(Query::default()).await;
        let there = read.map_err(|error| Failure::host(Phase::Rollback, &error))?;
        let revert = there
            .way_back(revert)
            .map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        let revert = revert.state();
        let (mut left, now) = self.left_of(revert, states).await?;
        if left.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            left = names(&left),
            "the rollback has left something of the change: it is taken back by another one"
        );
        let mut again = revert.clone();
        let (mut routes, rules) = lost(states, &now);
        let back = again.routes.config.get_or_insert_default();
        routes.retain(|route| !back.contains(route));
        back.append(&mut routes);
        again.rules.config.get_or_insert_default().extend(rules);
        let options = ApplyOptions {
            commit: true,
            ..self.options()
        };
        self.while_renewing(self.host.apply(again.into(), options))
            .await
            .map_err(|error| Failure::host(Phase::Rollback, &error))?;
        (left, _) = self.left_of(revert, states).await?;
        if left.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the host is not as it was before: {}. Correct it by hand, or apply a policy that does",
            names(&left)
        );
        Err(Failure::new(Phase::Rollback, message))
    }

    /// Looks at the host until nothing is left of the change, or for a while. Returns what is left, and
    /// the state of the host then.
    async fn left_of(
        &self,
        revert: &NetworkState,
        states: &States,
    ) -> Result<(Vec<String>, NetworkState), Failure> {
        let deadline = Instant::now() + SETTLED;
        loop {
            let now = self.now().await?;
            let left = left(revert, states, &now);
            if left.is_empty() || Instant::now() > deadline {
                return Ok((left, now));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub(super) async fn now(&self) -> Result<NetworkState, Failure> {
        Ok(self.look().await?.state)
    }

    async fn look(&self) -> Result<Retrieved, Failure> {
        let with_secrets = Query {
            secrets: true,
            ..Query::default()
        };
        let read = self.host.retrieve(with_secrets).await;
        read.map_err(|error| Failure::host(Phase::Rollback, &error))
    }
}

/// The error of a rollback without the secrets of these states. It has no words of the host at all
/// if the agent cannot read which values policies took from Secrets.
pub(super) fn without_secrets(dir: &StateDir, error: Failure, states: &States) -> Failure {
    let places = match secrets::places(dir) {
        Ok(places) => places,
        Err(unread) => {
            let message = format!(
                "the host is not as it was before, and the agent does not show how, because the error may have secrets in it: {unread}"
            );
            return Failure::new(error.phase, message);
        }
    };
    let mut hidden = secrets::values(&states.before, &places);
    hidden.extend(secrets::of_desired(&states.desired, &places));
    error.without(&hidden.into_iter().collect::<Vec<_>>())
}

/// The paths of what a host has of a change that was rolled back, and the routes and rules that it
/// lost by the change. A change of addresses takes routes away that it does not name.
fn left(revert: &NetworkState, states: &States, now: &NetworkState) -> Vec<String> {
    let mut revert = revert.clone();
    for route in revert.routes.config.iter_mut().flatten() {
        // NetworkManager chooses the metric of a gateway at each activation, and takes the next one if
        // that is in use.
        route.metric = None;
    }
    let changes = removal::changes(&state::value(&revert), &state::value(now));
    let (routes, rules) = lost(states, now);
    let changed = changes.iter().map(|change| change.path.to_string());
    let routes = routes.iter().map(|route| format!("routes.config[{route}]"));
    let rules = rules
        .iter()
        .map(|rule| format!("route-rules.config[{rule}]"));
    changed.chain(routes).chain(rules).collect()
}

/// The static routes of interfaces of the change, and the rules of their tables, that were there
/// before and are not now. All others belong to other programs of the host, such as a CNI plugin,
/// which may have removed them meanwhile.
fn lost(states: &States, now: &NetworkState) -> (Vec<RouteEntry>, Vec<RouteRuleEntry>) {
    let (changed, before) = (interfaces(states.desired.state()), &states.before);
    let of_change = |route: &&RouteEntry| {
        let interface = route.next_hop_iface.as_deref();
        interface.is_some_and(|interface| changed.contains(interface))
    };
    let routes: Vec<_> = before.routes.config.iter().flatten().collect();
    let routes: Vec<_> = routes.into_iter().filter(of_change).collect();
    let tables = routes.iter().filter_map(|route| route.table_id);
    let tables: BTreeSet<_> = tables.filter(|table| *table != MAIN).collect();
    let names_rules = states.desired.state().rules.config.is_some();
    let rules = before.rules.config.iter().flatten().filter(|rule| {
        let of_route = rule.table_id.is_some_and(|table| tables.contains(&table));
        names_rules || of_route
    });
    let there = state::value(now);
    let is_lost = |route: &&RouteEntry| {
        let mut any_metric = (*route).clone();
        any_metric.metric = None;
        !history::was_there(&any_metric, &there)
    };
    let is_lost_rule = |rule: &&RouteRuleEntry| {
        !now.rules
            .config
            .iter()
            .flatten()
            .any(|there| there == *rule)
    };
    (
        routes.into_iter().filter(is_lost).cloned().collect(),
        rules.filter(is_lost_rule).cloned().collect(),
    )
}

/// The names of the interfaces that a change names: its own, their ports, and those of its routes.
fn interfaces(desired: &NetworkState) -> BTreeSet<&str> {
    let own = desired.interfaces.iter();
    let of_routes = desired.routes.config.iter().flatten();
    own.flat_map(|interface| {
        let ports = interface.ports().unwrap_or_default();
        ports.into_iter().chain([interface.name()])
    })
    .chain(of_routes.filter_map(|route| route.next_hop_iface.as_deref()))
    .collect()
}

/// The first few of these paths.
fn names(paths: &[String]) -> String {
    let mut shown: Vec<_> = paths.iter().take(LISTED).cloned().collect();
    if paths.len() > LISTED {
        shown.push(format!("and {} more", paths.len() - LISTED));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> NetworkState {
        NetworkState::new_from_yaml(text).unwrap()
    }

    const BEFORE: &str = "
interfaces: [{name: eth1, type: ethernet}]
routes:
  config:
  - {destination: 198.51.100.0/24, next-hop-interface: eth1, next-hop-address: 192.0.2.9, table-id: 100}
  - {destination: 10.244.1.0/24, next-hop-interface: flannel.1, next-hop-address: 10.244.1.0, table-id: 254}
route-rules:
  config:
  - {ip-from: 192.0.2.0/24, route-table: 100, priority: 1000}
  - {ip-from: 10.0.0.0/8, route-table: 2005, priority: 10}";

    fn left_of(desired: &str) -> Vec<String> {
        let states = States {
            before: state(BEFORE),
            desired: state(desired).into(),
            note: None,
        };
        left(&NetworkState::new(), &states, &NetworkState::new())
    }

    #[test]
    fn the_error_of_a_rollback_shows_no_value_of_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let eth1 = |description: &str| {
            state(&format!(
                "interfaces: [{{name: eth1, type: ethernet, description: {description}}}]"
            ))
        };
        let states = States {
            before: eth1("the-old-one"),
            desired: eth1("the-new-one").into(),
            note: None,
        };
        let description = serde_json::json!({"secretRef": {"name": "wire", "key": "first"}});
        let policy = serde_json::json!({
            "interfaces": [{"name": "eth1", "type": "ethernet", "description": description}],
        });
        secrets::remember(&dir, &policy).unwrap();
        let error = || Failure::new(Phase::Rollback, "eth1 has the-new-one, not the-old-one");
        let shown = without_secrets(&dir, error(), &states);
        assert_eq!(shown.message, "eth1 has <hidden>, not <hidden>");

        std::fs::write(dir.path("secret-places.json"), "cut").unwrap();
        let shown = without_secrets(&dir, error(), &states);
        assert!(!shown.message.contains("-one"), "{}", shown.message);
        assert!(
            shown.message.contains("secret-places.json"),
            "{}",
            shown.message
        );
    }

    #[test]
    fn routes_and_rules_that_a_change_has_taken_away_are_left() {
        let of_port =
            "interfaces: [{name: br1, type: linux-bridge, bridge: {port: [{name: eth1}]}}]";
        for desired in ["interfaces: [{name: eth1, type: ethernet}]", of_port] {
            let left = left_of(desired);
            assert_eq!(left.len(), 2, "{left:?}");
            assert!(left[0].contains("198.51.100.0/24"), "{left:?}");
            assert!(left[1].contains("192.0.2.0/24"), "{left:?}");
        }
    }

    #[test]
    fn changes_that_no_checkpoint_restores_are_left() {
        let before = state(
            "interfaces: [{name: eth1, type: ethernet, state: up, alt-names: [{name: old}]}]
ovs-db: {external_ids: {a: '1'}}",
        );
        let desired = state(
            "interfaces: [{name: eth1, type: ethernet, state: up, alt-names: [{name: new}]}]
ovs-db: {external_ids: {a: '2', b: '3'}}",
        );
        let states = States {
            before: before.clone(),
            desired: desired.clone().into(),
            note: None,
        };
        let revert = history::revert(&states.desired, &before).unwrap();
        let left_of = |now: &NetworkState| left(revert.state(), &states, now);
        assert_eq!(left_of(&before), Vec::<String>::new());
        let now = state(
            "interfaces: [{name: eth1, type: ethernet, state: up, alt-names: [{name: new}, {name: old}]}]
ovs-db: {external_ids: {a: '2', b: '3'}}",
        );
        assert_eq!(
            left_of(&now),
            [
                "interfaces[eth1].alt-names[new]",
                "ovs-db.external_ids.a",
                "ovs-db.external_ids.b"
            ]
        );
    }

    #[test]
    fn a_route_with_another_metric_is_restored() {
        let before = "
routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1, metric: 100, table-id: 254}]}";
        let states = States {
            before: state(before),
            desired: state(before).into(),
            note: None,
        };
        let now = state(&before.replace("metric: 100", "metric: 102"));
        assert_eq!(left(&state(before), &states, &now), Vec::<String>::new());
        let other = state(&before.replace("192.0.2.1,", "192.0.2.2,"));
        assert_eq!(left(&state(before), &states, &other).len(), 2);
    }

    #[test]
    fn routes_that_other_programs_have_removed_are_not_restored() {
        let left = left_of("interfaces: [{name: eth2, type: ethernet}]");
        assert_eq!(left, Vec::<String>::new());
        let rules = "route-rules: {config: [{ip-from: 203.0.113.0/24, route-table: 100}]}";
        assert_eq!(left_of(rules).len(), 2, "a change of rules names them all");
    }
}
