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
            match features(&item.rendered.desired, &self.current) {
                Ok(features) => status.features = features,
                Err(why) => tracing::warn!(
                    policy = item.wish.policy,
                    why,
                    "the features of nmstate that the policy uses are not known"
                ),
            }
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
///
/// # Errors
/// nmstate cannot merge the states.
fn features(desired: &Value, current: &Value) -> Result<Vec<String>, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let desired = secrets::conceal(desired).map_err(|error| said(&error))?;
    let current = state::without_additions(current);
    let desired: NetworkState = state::parse(&desired).map_err(|error| said(&error))?;
    let current: NetworkState = state::parse(&current).map_err(|error| said(&error))?;
    let statistic = desired
        .statistic(&current)
        .map_err(|error| error.msg().to_owned())?;
    let named = serde_json::to_value(statistic.features).map_err(|error| said(&error))?;
    let mut named: Vec<String> = serde_json::from_value(named).map_err(|error| said(&error))?;
    named.sort();
    named.dedup();
    Ok(named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(name: &str, more: Value) -> Value {
        let mut card = json!({"name": name, "type": "ethernet", "state": "up"});
        card.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        card
    }

    fn of_interface(more: Value) -> Value {
        json!({"interfaces": [card("eth1", more)]})
    }

    fn dummies(count: usize) -> Value {
        let dummy = |number| json!({"name": format!("d{number}"), "type": "dummy", "state": "up"});
        json!({"interfaces": (0..count).map(dummy).collect::<Vec<_>>()})
    }

    fn ovs_bridge(bridge: Value) -> Value {
        json!({"interfaces": [{
            "name": "ovs0", "type": "ovs-bridge", "state": "up", "bridge": bridge
        }]})
    }

    /// All that `NmstateFeature` of nmstate 2.2.62 has, each with a state that uses it. Only `mptcp`
    /// is left out: nmstate defines it, and never reports it.
    fn all() -> Vec<(&'static str, Value)> {
        let dhcp = |name: &str| {
            json!({"enabled": true, "dhcp": true, "autoconf": name == "ipv6",
                "dhcp-custom-hostname": "host.example"})
        };
        let dhcp4 = {
            let mut ipv4 = dhcp("ipv4");
            ipv4.as_object_mut().unwrap().remove("autoconf");
            ipv4
        };
        let route = json!({"routes": {"config": [{
            "destination": "198.51.100.0/24", "next-hop-interface": "eth1",
            "next-hop-address": "192.0.2.9"
        }]}});
        let rule = |more: Value| {
            let mut rule = json!({"ip-from": "192.0.2.0/24", "route-table": 100, "priority": 1000});
            rule.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({"route-rules": {"config": [rule]}})
        };
        let dns = |config: Value| json!({"dns-resolver": {"config": config}});
        let patch = json!({"interfaces": [
            {"name": "patch0", "type": "ovs-interface", "state": "up", "patch": {"peer": "patch1"}},
            {"name": "patch1", "type": "ovs-interface", "state": "up", "patch": {"peer": "patch0"}},
            {"name": "ovs0", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "patch0"}]}},
            {"name": "ovs1", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "patch1"}]}}
        ]});
        let dpdk = json!({"interfaces": [
            {"name": "dpdk0", "type": "ovs-interface", "state": "up", "dpdk": {"devargs": "0000:af:00.1"}},
            {"name": "ovs0", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "dpdk0"}]}}
        ]});
        let bond = json!([{"name": "bond0", "link-aggregation": {
            "mode": "balance-slb", "port": [{"name": "eth1"}, {"name": "eth2"}]
        }}]);
        vec![
            (
                "dhcpv4-custom-hostname",
                of_interface(json!({"ipv4": dhcp4})),
            ),
            (
                "dhcpv6-custom-hostname",
                of_interface(json!({"ipv6": dhcp("ipv6")})),
            ),
            (
                "iface-name-refered-by-sriov-vf-id",
                json!({"interfaces": [{"name": "sriov:eth1:0", "type": "ethernet", "state": "up"}]}),
            ),
            ("lldp", of_interface(json!({"lldp": {"enabled": true}}))),
            (
                "mac-based-identifier",
                of_interface(
                    json!({"identifier": "mac-address", "mac-address": "02:00:00:00:00:01"}),
                ),
            ),
            ("ovn-mapping", {
                let mut mapping = ovs_bridge(json!({"port": []}));
                mapping["ovn"] = json!({"bridge-mappings": [
                    {"localnet": "net1", "bridge": "ovs0", "state": "present"}
                ]});
                mapping
            }),
            ("ovs-bond", ovs_bridge(json!({"port": bond}))),
            (
                "ovs-db-global",
                json!({"ovs-db": {"external_ids": {"weft": "1"}}}),
            ),
            (
                "ovs-db-interface",
                json!({"interfaces": [{
                    "name": "ovs0", "type": "ovs-bridge", "state": "up", "bridge": {"port": []},
                    "ovs-db": {"external_ids": {"weft": "1"}}
                }]}),
            ),
            ("ovs-dpdk", dpdk),
            ("ovs-patch", patch),
            (
                "sriov",
                of_interface(json!({"ethernet": {"sr-iov": {"total-vfs": 2}}})),
            ),
            (
                "static-dns-name-server",
                dns(json!({"server": ["192.0.2.53"]})),
            ),
            (
                "static-dns-option",
                dns(json!({"server": ["192.0.2.53"], "options": ["rotate"]})),
            ),
            (
                "static-dns-search",
                dns(json!({"server": ["192.0.2.53"], "search": ["example.com"]})),
            ),
            (
                "static-hostname",
                json!({"hostname": {"config": "host.example"}}),
            ),
            ("static-route", route),
            ("static-route-rule", rule(json!({}))),
            (
                "static-route-rule-suppress-prefix-length",
                rule(json!({"suppress-prefix-length": 0})),
            ),
            ("iface-count10-plus", dummies(10)),
            ("iface-count50-plus", dummies(50)),
            ("iface-count100-plus", dummies(100)),
            ("iface-count200-plus", dummies(200)),
            ("iface-count500-plus", dummies(500)),
        ]
    }

    /// A host as the agent sees it. `made` has been applied to it.
    fn host(made: &Value) -> Value {
        let ipv4 = json!({"enabled": true, "dhcp": false,
            "address": [{"ip": "192.0.2.1", "prefix-length": 24}]});
        // Newer kernels say which program has given the address.
        let ipv6 = json!({"enabled": true, "dhcp": false, "autoconf": false, "address": [
            {"ip": "fe80::1", "prefix-length": 64, "protocol": "kernel_ll"},
            {"ip": "2001:db8::1", "prefix-length": 64, "protocol": "0x10"}
        ]});
        let mut interfaces = vec![
            card(
                "eth1",
                json!({"ipv4": ipv4, "ipv6": ipv6, "ifIndex": 3, "mac-address": "02:00:00:00:00:01",
                "ethernet": {"sr-iov": {"total-vfs": 1, "vfs": [{"id": 0, "iface-name": "eth1v0"}]}}}),
            ),
            card("eth1v0", json!({"ifIndex": 5})),
            card("eth2", json!({"ifIndex": 4})),
        ];
        for interface in made["interfaces"].as_array().into_iter().flatten() {
            match interfaces
                .iter_mut()
                .find(|there| there["name"] == interface["name"])
            {
                Some(there) => there
                    .as_object_mut()
                    .unwrap()
                    .extend(interface.as_object().unwrap().clone()),
                None => interfaces.push(interface.clone()),
            }
        }
        let mut host = made.clone();
        host["interfaces"] = interfaces.into();
        host
    }

    #[test]
    fn each_feature_of_nmstate_is_named_before_a_change_and_after_it() {
        for (feature, desired) in all() {
            for (when, current) in [("before", host(&json!({}))), ("after", host(&desired))] {
                let found = features(&desired, &current);
                assert!(
                    found
                        .as_ref()
                        .is_ok_and(|found| found.iter().any(|found| found == feature)),
                    "{feature} {when} the change: {found:?}"
                );
            }
        }
    }

    /// The type itself cannot be asked for its values.
    #[test]
    fn no_feature_that_nmstate_defines_is_missing_here() {
        let file = crate::aliases_tests::sources().join("statistic/feature/features.rs");
        let text = std::fs::read_to_string(file).unwrap();
        let (_, body) = text.split_once("pub enum NmstateFeature {").unwrap();
        let (body, _) = body.split_once('}').unwrap();
        // As serde's `rename_all = "kebab-case"` does.
        let kebab = |name: &str| {
            let mut kebab = String::new();
            for letter in name.chars() {
                if letter.is_ascii_uppercase() && !kebab.is_empty() {
                    kebab.push('-');
                }
                kebab.push(letter.to_ascii_lowercase());
            }
            kebab
        };
        let names = body.split(',').map(str::trim);
        let defined: BTreeSet<String> = names.filter(|name| !name.is_empty()).map(kebab).collect();
        let known = all().into_iter().map(|(feature, _)| feature);
        let known: BTreeSet<String> = known.chain(["mptcp"]).map(str::to_owned).collect();
        assert_eq!(known, defined);
    }

    #[test]
    fn a_state_that_nmstate_cannot_merge_is_an_error() {
        let desired = json!({"interfaces": [card("sriov:eth9:0", json!({}))]});
        assert!(features(&desired, &host(&json!({}))).is_err());
    }
}
