//! The wish of one enactment and its progress. Both come from the object itself, so that a
//! restarted agent knows them, too.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_api::node_network::{
    Decision, Granted, NodeNetworkConfigurationEnactment,
    NodeNetworkConfigurationEnactmentStatus as Status, Waits,
};
use weft_node_network::{
    claims::{Layer, Owner, Rank},
    render::{Given, RenderError, Rendered, render},
    state,
};
use weft_plan::secrets;

use super::store::Applied;
use crate::{enact::phase, transaction::Request};

/// How far an enactment has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Something is to be done.
    Open,
    /// The policy was applied.
    Done,
    /// It failed for good, until somebody changes something.
    Failed,
}

/// An enactment of this node, as the agent reads it.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The name of the enactment.
    pub name: String,
    /// The name of its policy.
    pub policy: String,
    /// The `metadata.generation` of the enactment, which the status acknowledges.
    pub observed: i64,
    /// Generation of the policy.
    pub generation: i64,
    pub decision: Decision,
    pub retry: Option<String>,
    /// The grant.
    pub granted: Option<Granted>,
    /// The thing that the node waits for, next to its turn.
    pub waits: Option<Waits>,
    /// The last status, of this process if it has written one.
    pub status: Status,
}

impl Wish {
    /// `None` for what kubernetes-nmstate has left, which nobody has decided about.
    pub fn of(
        enactment: &NodeNetworkConfigurationEnactment,
        status: Option<&Status>,
    ) -> Option<Self> {
        let wanted = enactment.spec.wanted.as_ref()?;
        Some(Self {
            name: enactment.metadata.name.clone()?,
            policy: enactment.spec.policy.clone(),
            observed: enactment.metadata.generation.unwrap_or_default(),
            generation: wanted.generation,
            decision: wanted.decision,
            retry: wanted.retry.clone(),
            granted: enactment.spec.granted.clone(),
            waits: wanted.waits.clone(),
            status: status
                .or(enactment.status.as_ref())
                .cloned()
                .unwrap_or_default(),
        })
    }

    /// The secrets in the policy, which a message may quote.
    pub fn secrets(&self) -> BTreeSet<String> {
        let granted = self.granted.as_ref();
        let desired = granted.and_then(|granted| granted.spec.desired_state.as_ref());
        desired.map(secrets::values).unwrap_or_default()
    }

    pub fn owner(&self) -> Owner {
        Owner::Policy(self.policy.clone())
    }

    /// The request that a failure ends: a policy that gets another value of the node asks for another
    /// state of the host.
    pub fn request(&self) -> Request {
        let values = self
            .granted
            .as_ref()
            .and_then(|granted| granted.values.as_ref());
        Request {
            wish: json!({
                "generation": self.generation,
                "values": values,
            }),
            retry: self.retry.clone(),
        }
    }

    /// How often another process has tried this, by its status.
    pub fn earlier_tries(&self) -> u32 {
        if !self.is_acknowledged() {
            return 0;
        }
        let counts = self.status.retry_count.as_ref();
        let count = counts.and_then(|counts| counts.get(&self.generation.to_string()));
        count
            .and_then(|count| u32::try_from(*count).ok())
            .unwrap_or(0)
    }

    fn is_acknowledged(&self) -> bool {
        self.status.observed_generation == Some(self.observed)
    }

    /// A failure that may pass by itself (a missing interface, another policy, NetworkManager) gets
    /// a new look each time.
    pub fn standing(&self) -> Standing {
        let phase = self
            .status
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.phase.as_deref());
        if !self.is_acknowledged() {
            Standing::Open
        } else if phase::is_true(&self.status, "Available") {
            Standing::Done
        } else if phase::is_true(&self.status, "Failing")
            && !phase::is_true(&self.status, "Progressing")
            && !matches!(
                phase,
                Some(phase::RENDER | phase::CONFLICT | phase::BACKEND)
            )
        {
            Standing::Failed
        } else {
            Standing::Open
        }
    }

    /// Reports whether this says that it failed for lack of NetworkManager.
    pub fn has_failed_without_backend(&self) -> bool {
        let phase = self
            .status
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.phase.as_deref());
        self.is_acknowledged()
            && phase == Some(phase::BACKEND)
            && !phase::is_true(&self.status, "Progressing")
    }

    /// Returns true if the agent corrects drift, and false if it only reports drift.
    pub fn corrects_drift(&self) -> bool {
        self.granted
            .as_ref()
            .is_none_or(|granted| granted.spec.drift.as_deref() != Some("report"))
    }

    /// The desired state of what is granted.
    ///
    /// Captures were carried out on the host as it was: once a bridge has taken the place of a
    /// card, the card that has the default route is the bridge. So what they made is kept as long
    /// as the policy stays the same, and what they found as long as only values of the node change.
    /// Matches of interfaces are looked at each time. `leaving` are the ports that leave automatic
    /// bonds.
    pub fn render(
        &self,
        applied: Option<&Applied>,
        current: &Value,
        leaving: BTreeSet<String>,
    ) -> Result<Rendered, RenderError> {
        let Some(Granted {
            generation,
            spec,
            values,
        }) = &self.granted
        else {
            return Ok(Rendered {
                desired: state::empty(),
                captures: Default::default(),
                cards: Default::default(),
            });
        };
        let applied = applied.filter(|applied| applied.generation == *generation);
        let noted = applied.and_then(|applied| applied.captures.as_ref());
        let captures = || {
            let shown = self.status.captured_states.iter().flatten();
            let shown = shown
                .map(|(name, captured)| (name.clone(), captured.state.clone().unwrap_or_default()));
            noted.cloned().unwrap_or_else(|| shown.collect())
        };
        let is_known = self.status.policy_generation == Some(*generation);
        let is_done = spec.capture.is_some() && self.standing() == Standing::Done;
        if is_done {
            if let Some(applied) = applied {
                return Ok(Rendered {
                    desired: applied.desired.clone(),
                    captures: captures(),
                    cards: Default::default(),
                });
            }
            if let Some(desired) = self
                .status
                .desired_state
                .clone()
                // A mask is not to be applied.
                .filter(|desired| is_known && !secrets::has_mask(desired))
            {
                return Ok(Rendered {
                    desired,
                    captures: captures(),
                    cards: Default::default(),
                });
            }
        }
        // The policy was applied, and then a value of the node changed.
        let is_applied = (is_done || values.is_some() && applied.is_some())
            && is_known
            && self.status.captured_states.is_some();
        let given = Given {
            values: values.clone().unwrap_or_default(),
            leaving,
            captures: is_applied.then(captures),
        };
        let rendered = render(spec, current, &given)?;
        let is_shown = is_applied && noted.is_none();
        let is_own = || spec.desired_state.as_ref().is_some_and(secrets::has_mask);
        if is_shown && secrets::has_mask(&rendered.desired) && !is_own() {
            return Err(RenderError::Hidden);
        }
        Ok(rendered)
    }

    /// The layer of this policy with this state.
    pub fn layer(&self, state: Value) -> Layer {
        let priority = self
            .granted
            .as_ref()
            .and_then(|granted| granted.spec.priority)
            .unwrap_or_default();
        // A revert of a policy gives way to the wishes of all others.
        let rank = if self.decision == Decision::Revert {
            Rank::Policy(i64::MIN)
        } else {
            Rank::Policy(priority)
        };
        Layer {
            owner: self.owner(),
            rank,
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use weft_api::node_network::{CapturedState, NodeValues, Outcome};

    use super::*;

    /// A policy that was applied on the card eth0, which has become another one since.
    fn wish(values: Option<NodeValues>) -> Wish {
        let spec = json!({
            "capture": {"card": "interfaces.type==ethernet"},
            "desiredState": {"interfaces": [{
                "name": "br0", "type": "linux-bridge",
                "description": "{{ capture.card.interfaces.0.name }}",
                "mtu": 1500,
            }]}
        });
        let mut spec: weft_api::node_network::NodeNetworkConfigurationPolicySpec =
            serde_json::from_value(spec).unwrap();
        if values.is_some() {
            spec.desired_state.as_mut().unwrap()["hostname"] =
                json!({"config": "{{ node.labels['rack'] }}"});
        }
        let captured = CapturedState {
            state: Some(json!({"interfaces": [{"name": "eth0", "type": "ethernet"}]})),
            meta_info: None,
        };
        Wish {
            name: "node-1.p".into(),
            policy: "p".into(),
            observed: 2,
            generation: 1,
            decision: Decision::Granted,
            retry: None,
            granted: Some(Granted {
                generation: 1,
                spec,
                values,
            }),
            waits: None,
            status: Status {
                observed_generation: Some(1),
                policy_generation: Some(1),
                captured_states: Some(BTreeMap::from([("card".to_owned(), captured)])),
                ..Status::default()
            },
        }
    }

    fn rendered(wish: &Wish, generation: i64) -> Value {
        let applied = Applied {
            generation,
            desired: state::empty(),
            captures: None,
            undo: state::empty(),
        };
        let now = json!({"interfaces": [{"name": "eth9", "type": "ethernet"}]});
        wish.render(Some(&applied), &now, BTreeSet::new())
            .unwrap()
            .desired
    }

    fn of_rack(rack: &str) -> Option<NodeValues> {
        Some(NodeValues {
            labels: BTreeMap::from([("rack".to_owned(), rack.to_owned())]),
            ..NodeValues::default()
        })
    }

    #[test]
    fn captures_keep_their_results_when_a_value_of_the_node_changes() {
        let state = rendered(&wish(of_rack("r2")), 1);
        assert_eq!(state["hostname"]["config"], "r2");
        assert_eq!(state["interfaces"][0]["description"], "eth0");
    }

    #[test]
    fn captures_are_carried_out_until_their_generation_was_applied() {
        let state = rendered(&wish(of_rack("r2")), 0);
        assert_eq!(state["interfaces"][0]["description"], "eth9");
        let state = rendered(&wish(None), 1);
        assert_eq!(state["interfaces"][0]["description"], "eth9");
    }

    /// The agent has lost its folder, or an earlier version has written it.
    #[test]
    fn a_mask_in_the_status_is_never_wanted_of_the_host() {
        let now = json!({"interfaces": [{"name": "eth9", "type": "ethernet"}]});
        let keys = |description: &str, key: &str| {
            let mut wish = wish(None);
            wish.status.observed_generation = Some(wish.observed);
            wish.status.conditions = vec![weft_api::Condition {
                type_: "Available".into(),
                status: "True".into(),
                ..Default::default()
            }];
            let granted = wish.granted.as_mut().unwrap();
            let desired = granted.spec.desired_state.as_mut().unwrap();
            desired["ovs-db"] = json!({"external_ids": {"ssl_key": key}});
            let shown = json!({"interfaces": [{"name": "br0", "description": description}],
                "ovs-db": {"external_ids": {"ssl_key": secrets::HIDDEN}}});
            wish.status.desired_state = Some(shown);
            wish
        };
        let lost = keys("as done", "hunter22");
        let rendered = |wish: &Wish, applied: Option<&Applied>| {
            let rendered = wish.render(applied, &now, BTreeSet::new());
            rendered.map(|rendered| rendered.desired)
        };
        let desired = rendered(&lost, None).unwrap();
        assert_eq!(desired["ovs-db"]["external_ids"]["ssl_key"], "hunter22");
        assert_eq!(desired["interfaces"][0]["description"], "eth0", "captured");

        let mut captured = keys("as done", "{{ capture.card.ovs-db.external_ids.ssl_key }}");
        let states = captured.status.captured_states.as_mut().unwrap();
        let state = states.get_mut("card").unwrap().state.as_mut().unwrap();
        state["ovs-db"] = json!({"external_ids": {"ssl_key": secrets::HIDDEN}});
        assert_eq!(rendered(&captured, None), Err(RenderError::Hidden));
        let mut failed = captured.clone();
        failed.status.conditions[0].type_ = "Failing".into();
        let outcome = Outcome {
            phase: Some(phase::CAPTURE.to_owned()),
            ..Outcome::default()
        };
        failed.status.outcome = Some(outcome);
        assert_eq!(failed.standing(), Standing::Failed, "no captures of now");

        let mut noted = json!({"interfaces": [{"name": "eth0", "type": "ethernet"}]});
        noted["ovs-db"] = json!({"external_ids": {"ssl_key": "hunter22"}});
        let applied = Applied {
            generation: 1,
            desired: state::empty(),
            captures: Some(BTreeMap::from([("card".to_owned(), noted)])),
            undo: state::empty(),
        };
        // A value of the node has changed, so it is rendered again.
        captured.status.observed_generation = Some(1);
        captured.granted.as_mut().unwrap().values = of_rack("r2");
        let desired = rendered(&captured, Some(&applied)).unwrap();
        assert_eq!(desired["ovs-db"]["external_ids"]["ssl_key"], "hunter22");
    }

    #[test]
    fn a_grant_without_the_value_fails_with_its_name() {
        let error = wish(Some(NodeValues::default()))
            .render(
                None,
                &json!({"interfaces": [{"name": "eth9", "type": "ethernet"}]}),
                BTreeSet::new(),
            )
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("desiredState.hostname.config: node.labels[\"rack\"] is not known here"),
            "{error}"
        );
    }

    #[test]
    fn another_value_of_the_node_is_another_request() {
        let values = |name: &str| NodeValues {
            name: Some(name.into()),
            ..NodeValues::default()
        };
        let first = wish(Some(values("node-1")));
        assert_eq!(first.request(), wish(Some(values("node-1"))).request());
        let again = Wish {
            retry: Some("now".into()),
            ..first.clone()
        };
        let corrected = Wish {
            generation: first.generation + 1,
            ..first.clone()
        };
        for other in [again, corrected, wish(Some(values("node-2")))] {
            assert_ne!(other.request(), first.request(), "{other:?}");
        }
    }

    #[test]
    fn tries_of_an_earlier_process_count_by_the_status_of_this_request() {
        let mut tried = wish(None);
        let count = (tried.generation.to_string(), 3);
        tried.status.retry_count = Some(BTreeMap::from([count]));
        tried.status.observed_generation = Some(tried.observed);
        assert_eq!(tried.earlier_tries(), 3);
        tried.generation += 1;
        assert_eq!(tried.earlier_tries(), 0);
        tried.generation -= 1;
        tried.observed += 1;
        assert_eq!(tried.earlier_tries(), 0);
    }
}
