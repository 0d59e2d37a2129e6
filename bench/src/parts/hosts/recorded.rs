//! A host that was recorded: what a simulated agent has in place of a real one, and all that it has
//! in place of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::channel::mpsc::{self, UnboundedSender};
use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::StreamExt;
use nmstate::NetworkState;
use serde_json::Value;
use weft_agent::host::{
    ApplyOptions, Backend, Change, Changes, Host, HostError, Peer, Port, Query, Retrieved, Seen,
    Silence,
};
use weft_node_network::desired::Desired;

/// The state of a host, which takes what is applied to it, and rolls back.
pub struct Recorded {
    inner: Mutex<Inner>,
    tell: UnboundedSender<Change>,
}

struct Inner {
    state: Value,
    /// The state that a checkpoint would restore.
    before: Option<Value>,
}

const CHECKPOINT: &str = "/org/freedesktop/NetworkManager/Checkpoint/1";

impl Recorded {
    /// Makes a host with this state, in nmstate's form. Returns it with the stream of the changes
    /// that it will report.
    pub fn new(state: &Value) -> (Arc<Self>, Changes) {
        let (tell, told) = mpsc::unbounded();
        let inner = Mutex::new(Inner {
            state: state.clone(),
            before: None,
        });
        (Arc::new(Self { inner, tell }), told.boxed())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let result = change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
        // The send fails only if the agent has ended. Then no reader needs the change.
        let _ = self.tell.unbounded_send(Change::NetworkManager);
        result
    }

    fn read(&self) -> Result<Retrieved> {
        let state = self
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .state
            .clone();
        let names = state["interfaces"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|interface| interface["name"].as_str());
        let indexes: BTreeMap<_, _> = names.map(str::to_owned).zip(1..).collect();
        let state: NetworkState = serde_json::from_value(state).context("a recorded state")?;
        Ok(Retrieved {
            state,
            backend: Backend::NetworkManager {
                version: "1.42.4".to_owned(),
            },
            is_starting: false,
            indexes,
            aggregated: Default::default(),
            bridge_filter: Default::default(),
        })
    }
}

impl Host for Recorded {
    fn retrieve(&self, _query: Query) -> BoxFuture<'_, Result<Retrieved, HostError>> {
        ready(
            self.read()
                .map_err(|error| HostError::Panicked(format!("{error:#}"))),
        )
        .boxed()
    }

    fn apply(
        &self,
        desired: Desired,
        options: ApplyOptions,
    ) -> BoxFuture<'_, Result<(), HostError>> {
        self.change(|inner| {
            if !options.commit {
                inner.before = Some(inner.state.clone());
            }
            for wanted in desired.value()["interfaces"]
                .as_array()
                .into_iter()
                .flatten()
            {
                take_over(&mut inner.state["interfaces"], wanted);
            }
        });
        ready(Ok(())).boxed()
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<String>, HostError>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        ready(Ok(inner
            .before
            .iter()
            .map(|_| CHECKPOINT.to_owned())
            .collect()))
        .boxed()
    }

    /// Its checkpoints have no end.
    fn renew(&self, _lease: Duration) -> BoxFuture<'_, Result<(), HostError>> {
        ready(Ok(())).boxed()
    }

    fn commit(&self, _checkpoint: String) -> BoxFuture<'_, Result<(), HostError>> {
        self.change(|inner| inner.before = None);
        ready(Ok(())).boxed()
    }

    fn rollback(&self, _checkpoint: String) -> BoxFuture<'_, Result<(), HostError>> {
        self.change(|inner| {
            if let Some(before) = inner.before.take() {
                inner.state = before;
            }
        });
        ready(Ok(())).boxed()
    }

    /// It has no pods.
    fn links(&self) -> BoxFuture<'_, Result<Seen, HostError>> {
        ready(Ok(Seen::default())).boxed()
    }

    fn attach(&self, port: Port, _bridge: u32) -> BoxFuture<'_, Result<(), HostError>> {
        ready(Err(HostError::Links(format!("there is no {}", port.name)))).boxed()
    }

    fn ovsdb(
        &self,
        _operations: Vec<Value>,
    ) -> BoxFuture<'_, Result<Option<Vec<Value>>, HostError>> {
        ready(Ok(None)).boxed()
    }

    fn configured(
        &self,
        _links: Vec<String>,
    ) -> BoxFuture<'_, Result<BTreeSet<String>, HostError>> {
        ready(Ok(BTreeSet::new())).boxed()
    }

    fn leave_alone(&self, _links: Vec<String>) -> BoxFuture<'_, Result<(), HostError>> {
        ready(Ok(())).boxed()
    }

    /// Every peer answers a recorded host.
    fn reach<'a>(
        &'a self,
        _peer: &'a Peer,
        _servers: &'a [String],
    ) -> BoxFuture<'a, Result<(), Silence>> {
        ready(Ok(())).boxed()
    }
}

/// An interface of the name is changed in what is wanted of it. Else it is new.
fn take_over(interfaces: &mut Value, wanted: &Value) {
    let Some(list) = interfaces.as_array_mut() else {
        return;
    };
    if wanted["state"] == "absent" {
        list.retain(|interface| interface["name"] != wanted["name"]);
    } else if let Some(found) = list
        .iter_mut()
        .find(|interface| interface["name"] == wanted["name"])
    {
        merge(found, wanted);
    } else {
        list.push(wanted.clone());
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                merge(into.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn an_applied_state_exists_until_a_rollback() {
        let (host, _changes) = Recorded::new(&json!({
            "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500}]
        }));
        let desired = NetworkState::new_from_json(
            r#"{"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "up"}]}"#,
        )
        .unwrap();
        let second = Duration::from_secs(1);
        let options = ApplyOptions {
            commit: false,
            checkpoint: second,
            verify: true,
            memory_only: false,
            limit: second,
        };
        host.apply(desired.into(), options)
            .now_or_never()
            .unwrap()
            .unwrap();
        assert_eq!(host.read().unwrap().indexes.len(), 2);
        assert_eq!(
            host.checkpoints().now_or_never().unwrap().unwrap(),
            [CHECKPOINT]
        );
        host.rollback(CHECKPOINT.to_owned())
            .now_or_never()
            .unwrap()
            .unwrap();
        assert_eq!(host.read().unwrap().indexes.len(), 1);
        assert!(
            host.checkpoints()
                .now_or_never()
                .unwrap()
                .unwrap()
                .is_empty()
        );
    }
}
