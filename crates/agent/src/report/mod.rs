//! The report of the node's network: its NodeNetworkState, written when and only when it would say
//! something else.

mod past;
mod patch;
mod status;

use std::{sync::Arc, time::Duration};

use json_patch::{Patch as JsonPatch, PatchOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::watch;
use weft_api::node_network::{
    AGENT_UNTIL_ANNOTATION, FORCE_REFRESH_LABEL, NodeNetworkState, NodeNetworkStateSpec,
    NodeNetworkStateStatus,
};
use weft_runtime::api_server::clock;

use crate::{
    cluster::{Objects, REQUEST_LIMIT},
    observe::{Look, Observer},
    pause::Pause,
    secrets,
    settings::{Extent, Settings},
    state_dir::{self, StateDir},
    transaction::Journal,
};

use past::Past;
pub use status::{Facts, Own, report, status};

/// The agent's name in `managedFields`.
pub const FIELD_MANAGER: &str = "weft/agent";
/// A report of less than this many bytes is not what an API server refuses for its size.
const SMALLEST_BUDGET: usize = 16 * 1024;

/// Why there is no report, or an old one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server says no.
    #[error("{0}")]
    Api(#[from] kube::Error),
    /// The API server gave no answer in time.
    #[error("the API server has not answered within {} s", REQUEST_LIMIT.as_secs())]
    TimedOut,
    /// The report has no JSON form, which is a defect of Weft.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not known what of the host is secret, or what was changed.
    #[error(transparent)]
    StateDir(#[from] state_dir::Error),
}

/// The result of the node's own desired state, with the object's generation, so that a report never
/// claims something about a newer object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    uid: Option<String>,
    generation: Option<i64>,
    own: Own,
}

impl Verdict {
    /// The result of the desired state in this object.
    pub fn on(object: Option<&NodeNetworkState>, own: Own) -> Self {
        let metadata = object.map(|object| &object.metadata);
        Self {
            uid: metadata.and_then(|of| of.uid.clone()),
            generation: metadata.and_then(|of| of.generation),
            own,
        }
    }

    /// Reports whether it is about the object as it is here.
    fn is_on(&self, object: &NodeNetworkState) -> bool {
        self.uid == object.metadata.uid && self.generation == object.metadata.generation
    }
}

/// Writes the report of one node.
pub struct Reporter {
    node: String,
    /// Where it is written which values are secret, and what was changed.
    dir: StateDir,
    past: Past,
    states: Api<NodeNetworkState>,
    nodes: Api<Node>,
    extent: Extent,
    refused: Option<String>,
    observer: Observer,
    looks: watch::Receiver<Option<Look>>,
    stored: watch::Receiver<Objects<NodeNetworkState>>,
    own: watch::Receiver<Verdict>,
    /// The API server's answer to the last write. The watch shows it later. It counts until the
    /// next list.
    written: Option<Arc<NodeNetworkState>>,
    /// The number of the list that was seen last.
    list: u64,
    /// The value of the label that forces a report. The outer `None`: not seen yet.
    force: Option<Option<String>>,
}

impl Reporter {
    /// For the node of these settings.
    ///
    /// # Errors
    /// The agent's folder cannot be used.
    pub fn new(
        client: &Client,
        settings: &Settings,
        observer: &Observer,
        stored: watch::Receiver<Objects<NodeNetworkState>>,
        own: watch::Receiver<Verdict>,
    ) -> Result<Self, state_dir::Error> {
        Ok(Self {
            node: settings.node.clone(),
            dir: StateDir::open(&settings.state_dir)?,
            past: Past::default(),
            states: Api::all(client.clone()),
            nodes: Api::all(client.clone()),
            extent: settings.extent.clone(),
            refused: None,
            observer: observer.clone(),
            looks: observer.looks(),
            stored,
            own,
            written: None,
            list: 0,
            force: None,
        })
    }

    /// Reports for as long as the host is looked at.
    pub async fn run(mut self) {
        let mut pause = Pause::new(Duration::from_millis(500), Duration::from_secs(60));
        loop {
            let again = match self.report().await {
                Ok(()) => {
                    pause.reset();
                    None
                }
                Err(error) => {
                    let pause = pause.next();
                    tracing::warn!(%error, ?pause, "the state of the node cannot be reported; trying again");
                    Some(pause)
                }
            };
            // After a failure only time counts: a host that changes all the time must not lead to a
            // request each time.
            if let Some(pause) = again {
                tokio::time::sleep(pause).await;
                continue;
            }
            let ended = tokio::select! {
                looked = self.looks.changed() => looked.is_err(),
                stored = self.stored.changed() => stored.is_err(),
                Ok(()) = self.own.changed() => false,
            };
            if ended {
                return;
            }
        }
    }

    /// Reports once.
    ///
    /// # Errors
    /// The API server does not take it.
    pub async fn once(&mut self) -> Result<(), Error> {
        while self.stored.borrow().is_none() {
            if self.stored.changed().await.is_err() {
                break;
            }
        }
        self.observer.refresh().await;
        self.report().await
    }

    /// Says in the NodeNetworkState that an agent acts here until then at the latest, or that none
    /// does any more. The operator looks for agents where a pod of the DaemonSet runs, and here.
    ///
    /// # Errors
    /// The API server does not take it.
    pub async fn announce(&self, until: Option<jiff::Timestamp>) -> Result<(), Error> {
        let until = until.map(|until| until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let patch = json!({"metadata": {"annotations": {AGENT_UNTIL_ANNOTATION: until}}});
        let parameters = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        within(
            self.states
                .patch(&self.node, &parameters, &Patch::Merge(&patch)),
        )
        .await
        .map(drop)
    }

    /// One write, if one is needed.
    async fn report(&mut self) -> Result<(), Error> {
        let Some(objects) = self.stored.borrow_and_update().clone() else {
            return Ok(());
        };
        if std::mem::replace(&mut self.list, objects.list) != objects.list {
            self.written = None;
        }
        let listed = objects.get(&self.node).cloned();
        if listed
            .as_ref()
            .is_some_and(|object| !is_ours(object, &self.node))
        {
            return Ok(());
        }
        self.obey(listed.as_deref()).await;
        let Some(look) = self.looks.borrow_and_update().clone() else {
            return Ok(());
        };
        let mut base = match (listed, self.written.take()) {
            (Some(listed), Some(written)) if is_newer(&written, &listed) => written,
            (Some(listed), _) => listed,
            (None, _) => self.create().await?,
        };
        // Another writer between reading and writing is rare, and has written once then.
        for _ in 0..5 {
            let wanted = self.status(&look, &base)?;
            if base.status.as_ref() == Some(&wanted) {
                break;
            }
            match self.write(&base, wanted).await? {
                Written::As(object) => {
                    self.written = Some(object);
                    tracing::info!(look = look.number, "the state of the node is reported");
                    return Ok(());
                }
                Written::Outdated => base = self.read().await?,
                Written::TooLarge => {}
            }
        }
        self.written = Some(base);
        Ok(())
    }

    /// Looks again when the label that asks for it has changed. Its value at the agent's start does
    /// not matter, because the agent has just looked.
    async fn obey(&mut self, object: Option<&NodeNetworkState>) {
        let label = object.and_then(|object| {
            object
                .metadata
                .labels
                .as_ref()?
                .get(FORCE_REFRESH_LABEL)
                .cloned()
        });
        if self
            .force
            .replace(label.clone())
            .is_some_and(|before| before != label)
            && label.is_some()
        {
            self.observer.refresh().await;
        }
    }

    fn status(
        &mut self,
        look: &Look,
        base: &NodeNetworkState,
    ) -> Result<NodeNetworkStateStatus, Error> {
        let filter = self.extent.filter.clone().budget(self.extent.budget);
        let verdict = self.own.borrow().clone();
        let (own, generation) = match &base.spec.desired_state {
            None => (Own::None, base.metadata.generation),
            Some(_) if verdict.is_on(base) => (verdict.own, base.metadata.generation),
            // It is not carried out yet. Before anything was, the generation is one that no object
            // has.
            Some(_) => (
                verdict.own,
                Some(
                    base.status
                        .as_ref()
                        .and_then(|status| status.observed_generation)
                        .unwrap_or_default(),
                ),
            ),
        };
        Ok(status(&Facts {
            seen: look.seen.as_deref(),
            before: base.status.as_ref(),
            generation,
            filter: &filter,
            refused: self.refused.as_deref(),
            own: &own,
            secrets: &secrets::places(&self.dir)?,
            left_over: Journal::left_over(&self.dir)?.as_deref(),
            history: self.past.read(&self.dir)?,
            now: clock::now(),
        }))
    }

    async fn write(
        &mut self,
        base: &NodeNetworkState,
        new: NodeNetworkStateStatus,
    ) -> Result<Written, Error> {
        let size = patch::size(&new);
        let version = base
            .metadata
            .resource_version
            .clone()
            .unwrap_or_default()
            .into();
        let unchanged = TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: version,
        };
        let mut operations = vec![PatchOperation::Test(unchanged)];
        operations.extend(patch::of_status(base.status.as_ref(), new)?);
        let (parameters, body) = (
            PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            },
            Patch::Json::<()>(JsonPatch(operations)),
        );
        match within(self.states.patch_status(&self.node, &parameters, &body)).await {
            Ok(object) => Ok(Written::As(Arc::new(object))),
            Err(Error::Api(kube::Error::Api(answer)))
                if is_too_large(&answer) && self.extent.budget > SMALLEST_BUDGET =>
            {
                self.extent.budget = (size.min(self.extent.budget) / 2).max(SMALLEST_BUDGET);
                tracing::warn!(
                    size,
                    answer = answer.message,
                    budget = self.extent.budget,
                    "the API server refuses the report for its size"
                );
                self.refused = Some(format!("{} bytes, {}", size, answer.message));
                Ok(Written::TooLarge)
            }
            // The test of the version has failed, or the object is another one by now.
            Err(Error::Api(kube::Error::Api(answer))) if matches!(answer.code, 409 | 422) => {
                Ok(Written::Outdated)
            }
            Err(error) => Err(error),
        }
    }

    async fn read(&self) -> Result<Arc<NodeNetworkState>, Error> {
        Ok(Arc::new(within(self.states.get(&self.node)).await?))
    }

    /// Makes the object, which goes with its Node.
    async fn create(&self) -> Result<Arc<NodeNetworkState>, Error> {
        let node = within(self.nodes.get(&self.node)).await?;
        let mut object = NodeNetworkState::new(&self.node, NodeNetworkStateSpec::default());
        object.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: node.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        }]);
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match within(self.states.create(&parameters, &object)).await {
            Ok(object) => Ok(Arc::new(object)),
            // The watch has not shown it yet.
            Err(Error::Api(kube::Error::Api(answer))) if answer.code == 409 => self.read().await,
            Err(error) => Err(error),
        }
    }
}

enum Written {
    As(Arc<NodeNetworkState>),
    Outdated,
    TooLarge,
}

/// Reports whether the agent takes care of the node by what this object says.
pub fn is_ours(object: &NodeNetworkState, node: &str) -> bool {
    object.spec.managed != Some(false)
        && object
            .spec
            .node_name
            .as_deref()
            .is_none_or(|name| name == node)
}

/// Versions of one object are numbers that grow.
fn is_newer(one: &NodeNetworkState, other: &NodeNetworkState) -> bool {
    let version = |object: &NodeNetworkState| {
        object
            .metadata
            .resource_version
            .as_deref()?
            .parse::<u64>()
            .ok()
    };
    one.metadata.uid == other.metadata.uid && version(one) > version(other)
}

/// The API server has a limit of its own, and passes on the one of etcd.
fn is_too_large(answer: &kube::core::Status) -> bool {
    answer.code == 413
        || answer.message.contains("too large")
        || answer.message.contains("larger than max")
}

async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    tokio::time::timeout(REQUEST_LIMIT, request)
        .await
        .map_err(|_| Error::TimedOut)?
        .map_err(Error::Api)
}
