//! Computes the status of a NodeNetworkState, from a look at the host and from the status before.
//! Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use weft_api::{
    Condition,
    node_network::{NodeNetworkChange, NodeNetworkStateStatus, ROLLBACK_INCOMPLETE},
};
use weft_node_network::{
    kernel_subset::KERNEL,
    normalise::{FILTERED, Filter, Normalised, normalise},
    secrets::{self, HIDDEN, Place},
};
use weft_plan::{escape, health};

use crate::{
    host::{self, Backend, HostError, NMSTATE_VERSION},
    observe::Observation,
};

/// The words of the condition Backend on a host that the agent changes through the kernel.
const OF_KERNEL: &str = "the kernel, without NetworkManager: policies may set MTU, link state, bridges, VLANs, static addresses and routes. \
     A reboot loses all of it, and the agent applies the policies again once it runs and reaches the API server";

/// The result of the desired state in the node's own NodeNetworkState.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Own {
    /// The node has no desired state of its own.
    #[default]
    None,
    /// The node is so.
    Done,
    /// Why it is not.
    Failed(String),
}

/// The input of the status.
pub struct Facts<'a> {
    /// The result of the latest look at the host.
    pub seen: Result<&'a Observation, &'a HostError>,
    /// The status as it is stored.
    pub before: Option<&'a NodeNetworkStateStatus>,
    /// The object's `metadata.generation`.
    pub generation: Option<i64>,
    /// The choice of reported parts.
    pub filter: &'a Filter,
    /// Why the API server has refused a larger report.
    pub refused: Option<&'a str>,
    /// The result of the own desired state.
    pub own: &'a Own,
    /// Where the host has values that are not to be shown.
    pub secrets: &'a BTreeSet<Place>,
    /// How the host differs from its state before the last change, if the rollback has left something.
    pub left_over: Option<&'a str>,
    /// The last changes by the agent, the newest first.
    pub history: &'a [NodeNetworkChange],
    /// The current time, for conditions.
    pub now: Timestamp,
}

/// The status. Times differ from the stored ones only where something else does.
pub fn status(facts: &Facts<'_>) -> NodeNetworkStateStatus {
    let mut status = facts.before.map(without_state).unwrap_or_default();
    let before = facts
        .before
        .and_then(|before| before.current_state.as_ref());
    let mut conditions = Conditions {
        facts,
        old: std::mem::take(&mut status.conditions),
        new: Vec::new(),
    };
    match facts.seen {
        Ok(seen) => {
            let report = report(seen, facts.filter, facts.secrets);
            if before != Some(&report.state) {
                status.last_successful_update_time = Some(Time(facts.now));
            }
            status.current_state = Some(report.state);
            status.host_network_manager_version = match &seen.backend {
                Backend::NetworkManager { version } => Some(version.clone()),
                Backend::Kernel | Backend::ReadOnly { .. } => None,
            };
            match facts.own {
                Own::None => conditions.outcome(
                    true,
                    "SuccessfullyConfigured",
                    "the network of the node is reported",
                ),
                Own::Done => conditions.outcome(
                    true,
                    "SuccessfullyConfigured",
                    "the node is as spec.desiredState says",
                ),
                Own::Failed(why) => conditions.outcome(false, "FailedToConfigure", why),
            }
            match &seen.backend {
                Backend::NetworkManager { version } => conditions.set(
                    "Backend",
                    true,
                    "NetworkManager",
                    &format!("NetworkManager {version}"),
                ),
                Backend::Kernel => conditions.set("Backend", true, KERNEL, OF_KERNEL),
                Backend::ReadOnly { why } => {
                    conditions.set(
                        "Backend",
                        false,
                        "ReadOnly",
                        &format!("the network is only reported, and not configured: {why}"),
                    );
                }
            }
            conditions.complete(&report.left_out);
        }
        Err(error) => {
            status.current_state = before.cloned();
            conditions.outcome(
                false,
                "FailedToObserve",
                &format!(
                    "the network of the node cannot be read, currentState is of before: {error}"
                ),
            );
            conditions.keep("Backend");
            conditions.keep("Complete");
        }
    }
    if let Some(left_over) = facts.left_over {
        conditions.set(ROLLBACK_INCOMPLETE, true, "NotRestored", left_over);
    }
    status.handler_nmstate_version = Some(NMSTATE_VERSION.to_owned());
    status.observed_generation = facts.generation;
    status.conditions = conditions.new;
    if status.history != facts.history {
        status.history = facts.history.to_vec();
    }
    status
}

/// The state of a host for those who may see the host and not its secrets: `currentState`.
pub fn report(seen: &Observation, filter: &Filter, secrets: &BTreeSet<Place>) -> Normalised {
    let mut report = normalise(
        host::value(&seen.state, &seen.aggregated),
        filter,
        &seen.indexes,
        &capabilities(seen),
    );
    secrets::hide(&mut report.state, secrets);
    weft_plan::secrets::hide(&mut report.state, HIDDEN);
    report
}

/// All but the state itself: of that there are megabytes, and what needs no copy gets none.
pub(super) fn without_state(status: &NodeNetworkStateStatus) -> NodeNetworkStateStatus {
    let NodeNetworkStateStatus {
        current_state: _,
        last_successful_update_time,
        host_network_manager_version,
        handler_network_manager_version,
        handler_nmstate_version,
        observed_generation,
        conditions,
        history,
    } = status;
    NodeNetworkStateStatus {
        current_state: None,
        last_successful_update_time: last_successful_update_time.clone(),
        host_network_manager_version: host_network_manager_version.clone(),
        handler_network_manager_version: handler_network_manager_version.clone(),
        handler_nmstate_version: handler_nmstate_version.clone(),
        observed_generation: *observed_generation,
        conditions: conditions.clone(),
        history: history.clone(),
    }
}

/// Returns the optional features that the node supports.
fn capabilities(seen: &Observation) -> Vec<String> {
    let network_manager =
        matches!(seen.backend, Backend::NetworkManager { .. }).then_some("NetworkManager");
    let open_vswitch = seen.state.ovsdb.as_ref().map(|_| "OpenvSwitch");
    network_manager
        .into_iter()
        .chain(open_vswitch)
        .map(str::to_owned)
        .collect()
}

struct Conditions<'a> {
    facts: &'a Facts<'a>,
    old: Vec<Condition>,
    new: Vec<Condition>,
}

impl Conditions<'_> {
    fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { "True" } else { "False" };
        let same = self
            .old
            .iter()
            .find(|old| old.type_ == type_ && old.status == status);
        self.new.push(Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(escape::text(message).into_owned()),
            last_transition_time: same
                .and_then(|old| old.last_transition_time.clone())
                .or(Some(Time(self.facts.now))),
            last_heartbeat_time: None,
            observed_generation: self.facts.generation,
        });
    }

    fn outcome(&mut self, good: bool, reason: &str, message: &str) {
        self.set("Available", good, reason, message);
        self.set("Failing", !good, reason, message);
        // In the words of kstatus.
        let [ready, _, stalled] = health::TYPES;
        self.set(ready, good, reason, message);
        if !good {
            self.set(stalled, true, reason, message);
        }
    }

    fn complete(&mut self, left_out: &[String]) {
        let refused = self
            .facts
            .refused
            .map(|refused| format!("; the API server refused a larger one: {refused}"))
            .unwrap_or_default();
        match left_out {
            [] => match self.facts.filter.words() {
                None => self.set("Complete", true, "Complete", "everything is reported"),
                Some(words) => self.set("Complete", true, FILTERED, &words),
            },
            left_out => {
                let what = left_out.join("; ");
                let message = format!(
                    "left out, as the report would be too large: {what}{refused}; choose what matters with spec.interfaceFilter of the NMState"
                );
                self.set("Complete", false, "SizeLimitExceeded", &message);
            }
        }
    }

    /// Says what was said before.
    fn keep(&mut self, type_: &str) {
        self.new
            .extend(self.old.iter().find(|old| old.type_ == type_).cloned());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use nmstate::NetworkState;

    use super::*;

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-02T00:00:00Z";

    fn observation(mtu: u32) -> Observation {
        let text = format!("interfaces: [{{name: eth0, type: ethernet, state: up, mtu: {mtu}}}]");
        let state = NetworkState::new_from_yaml(&text).unwrap();
        let backend = Backend::NetworkManager {
            version: "1.46.0".to_owned(),
        };
        Observation {
            state,
            backend,
            is_starting: false,
            indexes: BTreeMap::from([("eth0".to_owned(), 2)]),
            aggregated: BTreeSet::new(),
            bridge_filter: Default::default(),
        }
    }

    fn said(
        seen: Result<&Observation, &HostError>,
        before: Option<&NodeNetworkStateStatus>,
        own: &Own,
        now: &str,
    ) -> NodeNetworkStateStatus {
        let filter = Filter::default();
        status(&Facts {
            seen,
            before,
            generation: Some(1),
            filter: &filter,
            refused: None,
            own,
            secrets: &BTreeSet::new(),
            left_over: None,
            history: &[],
            now: now.parse().unwrap(),
        })
    }

    fn condition<'a>(status: &'a NodeNetworkStateStatus, of_type: &str) -> &'a Condition {
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == of_type)
            .unwrap()
    }

    #[test]
    fn no_planted_secret_is_in_the_state_of_a_host() {
        let planted = include_str!("../../../plan/tests/planted.yaml");
        let mut seen = observation(1500);
        seen.state = NetworkState::new_from_yaml(planted).unwrap();
        let state = report(&seen, &Filter::default(), &BTreeSet::new()).state;
        let shown = state.to_string();
        assert!(!shown.contains("pl4nted"), "{state:#}");
        let count = |text: &str| text.matches("h4rmless").count();
        assert_eq!(count(&shown), count(planted), "{state:#}");
        for (section, key) in [("external_ids", "ssl_key"), ("other_config", "private key")] {
            assert_eq!(state["ovs-db"][section][key], HIDDEN);
        }
        let token =
            "interfaces: [{name: eth1, type: ethernet, ipv6: {enabled: true, token: '::7'}}]";
        seen.state = NetworkState::new_from_yaml(token).unwrap();
        let state = report(&seen, &Filter::default(), &BTreeSet::new()).state;
        assert_eq!(state["interfaces"][0]["ipv6"]["token"], "::7", "{state:#}");
    }

    #[test]
    fn the_same_is_the_same_at_any_time() {
        let first = said(Ok(&observation(1500)), None, &Own::None, EARLY);
        assert_eq!(
            said(Ok(&observation(1500)), Some(&first), &Own::None, LATE),
            first
        );
        assert_eq!(
            first.current_state.as_ref().unwrap()["interfaces"][0]["ifIndex"],
            2
        );
        assert_eq!(
            first.current_state.as_ref().unwrap()["capabilities"],
            serde_json::json!(["NetworkManager"])
        );
        assert_eq!(
            first.host_network_manager_version.as_deref(),
            Some("1.46.0")
        );
    }

    #[test]
    fn only_what_changed_has_a_new_time() {
        let first = said(Ok(&observation(1500)), None, &Own::None, EARLY);
        let second = said(Ok(&observation(1400)), Some(&first), &Own::None, LATE);
        assert_eq!(
            second.last_successful_update_time,
            Some(Time(LATE.parse().unwrap()))
        );
        assert_eq!(second.conditions, first.conditions);
        let failed = said(
            Ok(&observation(1400)),
            Some(&second),
            &Own::Failed("eth9\x1b is not there".to_owned()),
            LATE,
        );
        assert_eq!(
            failed.last_successful_update_time,
            second.last_successful_update_time
        );
        assert_eq!(
            (
                &*condition(&failed, "Failing").status,
                condition(&failed, "Failing").message.as_deref()
            ),
            ("True", Some("eth9^[ is not there"))
        );
        assert_eq!(condition(&failed, "Backend"), condition(&second, "Backend"));
    }

    #[test]
    fn a_rollback_that_has_left_something_is_a_condition() {
        let (filter, secrets, host) = (Filter::default(), BTreeSet::new(), observation(1500));
        let said = |left_over, before: Option<&NodeNetworkStateStatus>| {
            status(&Facts {
                seen: Ok(&host),
                before,
                generation: Some(1),
                filter: &filter,
                refused: None,
                own: &Own::None,
                secrets: &secrets,
                left_over,
                history: &[],
                now: EARLY.parse().unwrap(),
            })
        };
        let differs = said(Some("the host is not as it was before: eth1.mtu"), None);
        let found = condition(&differs, "RollbackIncomplete");
        assert_eq!(
            (&*found.status, found.reason.as_deref()),
            ("True", Some("NotRestored"))
        );
        assert!(found.message.as_deref().unwrap().contains("eth1.mtu"));
        let restored = said(None, Some(&differs));
        let mut types = restored.conditions.iter().map(|one| &*one.type_);
        assert!(types.all(|type_| type_ != "RollbackIncomplete"));
    }

    #[test]
    fn a_filter_is_named_in_the_condition_of_a_whole_report() {
        let host = observation(1500);
        let said = |include: &[&str], exclude: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
            let (include, exclude): (Vec<String>, Vec<String>) = (owned(include), owned(exclude));
            let status = status(&Facts {
                seen: Ok(&host),
                before: None,
                generation: Some(1),
                filter: &Filter::new(&include, &exclude).unwrap(),
                refused: None,
                own: &Own::None,
                secrets: &BTreeSet::new(),
                left_over: None,
                history: &[],
                now: EARLY.parse().unwrap(),
            });
            let complete = condition(&status, "Complete").clone();
            assert_eq!(complete.status, "True");
            (complete.reason.unwrap(), complete.message.unwrap())
        };
        let (reason, message) = said(&["eth*"], &["cali*", "[a-c]"]);
        assert_eq!(reason, "Filtered");
        assert!(
            message.ends_with(r#": {"include":["eth*"],"exclude":["cali*","[a-c]"]}"#),
            "{message}"
        );
        assert_eq!(said(&[], &[]).0, "Complete");
    }

    #[test]
    fn a_host_that_cannot_be_read_keeps_its_last_state_and_says_so() {
        let first = said(Ok(&observation(1500)), None, &Own::None, EARLY);
        let blind = said(
            Err(&HostError::Bus("it is gone".to_owned())),
            Some(&first),
            &Own::None,
            LATE,
        );
        assert_eq!(
            (&blind.current_state, &blind.last_successful_update_time),
            (&first.current_state, &first.last_successful_update_time)
        );
        assert_eq!(condition(&blind, "Available").status, "False");
        assert!(
            condition(&blind, "Failing")
                .message
                .as_deref()
                .unwrap()
                .contains("it is gone")
        );
        assert_eq!(condition(&blind, "Backend"), condition(&first, "Backend"));
        assert_eq!(blind.conditions.len(), 6);
    }
}
