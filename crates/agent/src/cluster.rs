//! The agent's way to the API server: how to reach it, and the objects of its own node, as they are
//! and as they change.
//!
//! Two streams, of the node's own NodeNetworkState and of its enactments. An agent never sees a
//! policy, or another node's objects. Without the API server what was last seen stays, and the
//! streams go on when it is back.

use std::{collections::BTreeMap, fmt::Debug, ops::Deref, path::Path, sync::Arc, time::Duration};

use kube::{
    Api, Client, Config, Resource, ResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use weft_api::node_network::{
    NODE_LABEL, NodeNetworkConfigurationEnactment, NodeNetworkState, node_label,
};
use weft_runtime::{
    api_server::{client, fence::Fence},
    store::stream::{self, News, Selection},
};

use crate::own_address;

/// How long a request may take.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A kubeconfig cannot be used.
    #[error("kubeconfig {path}: {why}")]
    Kubeconfig {
        /// The path of the kubeconfig.
        path: String,
        /// The mistake in it.
        why: String,
    },
    /// Nothing says which cluster.
    #[error("no cluster is configured: set KUBECONFIG, give --kubeconfig, or run in a pod ({0})")]
    None(String),
    /// The configured client cannot be used.
    #[error("the client of the API server cannot be set up: {0}")]
    Client(kube::Error),
}

/// Where the API server is, by this kubeconfig or by what is usual: `KUBECONFIG`, or the pod's
/// service account.
///
/// # Errors
/// Nothing says which cluster.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, ConnectionError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let failed = |why: String| ConnectionError::Kubeconfig {
                path: path.display().to_string(),
                why,
            };
            let file = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| failed(error.to_string()))?
        }
        None => Config::infer().await.map_err(|error| {
            ConnectionError::None(
                error
                    .to_string()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            )
        })?,
    };
    // The agent decides itself what is tried again, and when.
    config.default_retry = false;
    Ok(config)
}

/// A client whose connections end when the host loses their own address.
///
/// # Errors
/// Certificates or tokens cannot be used.
pub fn connect(config: Config) -> Result<Client, ConnectionError> {
    let fence = Fence::open();
    match own_address::follow() {
        Ok(addresses) => {
            let connector = own_address::Connector::new(client::tcp(), addresses);
            client::connect_by(&config, &fence, connector)
        }
        Err(error) => {
            tracing::warn!(%error, "the addresses of the host cannot be followed");
            client::connect(&config, &fence)
        }
    }
    .map_err(ConnectionError::Client)
}

/// Objects by name. `None` until all that there are have been listed once.
pub type Objects<K> = Option<Arc<Listed<K>>>;

/// Objects by name, and the list that they began with.
#[derive(Clone, Debug)]
pub struct Listed<K> {
    /// The number of the list, from 1. A list is the truth: whoever remembers a write of its own
    /// from before another list forgets it, since the API server's data may have gone back in time.
    pub list: u64,
    objects: BTreeMap<String, Arc<K>>,
}

impl<K> Deref for Listed<K> {
    type Target = BTreeMap<String, Arc<K>>;

    fn deref(&self) -> &Self::Target {
        &self.objects
    }
}

/// The node's own NodeNetworkState.
pub fn state(client: Client, node: &str) -> watch::Receiver<Objects<NodeNetworkState>> {
    follow(
        Api::all(client),
        String::new(),
        format!("metadata.name={node}"),
    )
}

/// The node's own enactments.
pub fn enactments(
    client: Client,
    node: &str,
) -> watch::Receiver<Objects<NodeNetworkConfigurationEnactment>> {
    follow(
        Api::all(client),
        format!("{NODE_LABEL}={}", node_label(node)),
        String::new(),
    )
}

/// Follows what is selected until nobody wants to know any more.
fn follow<K>(api: Api<K>, labels: String, fields: String) -> watch::Receiver<Objects<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (show, shown) = watch::channel(None);
    tokio::spawn(async move {
        tokio::select! {
            () = show.closed() => {}
            () = stream(api, labels, fields, &show) => {}
        }
    });
    shown
}

async fn stream<K>(api: Api<K>, labels: String, fields: String, show: &watch::Sender<Objects<K>>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let kind = K::kind(&());
    // An agent has no lease that would show that the API server's data has gone back in time. Its
    // lists are short.
    let selection = Selection {
        labels,
        fields,
        page: 100,
        list_after_break: true,
        longest_absence: Duration::from_secs(30),
    };
    let mut listed = Listed {
        list: 0,
        objects: BTreeMap::new(),
    };
    let mut listing = true;
    let never = stream::follow(api, selection, |news| {
        match news {
            News::Rewound => tracing::warn!(%kind, "the API server's data has gone back in time"),
            News::Restarted => {
                listing = true;
                listed.list += 1;
                listed.objects.clear();
            }
            News::Complete(_) => listing = false,
            News::Listed(object) | News::Applied(object) => {
                listed
                    .objects
                    .insert(object.name_any(), Arc::new(lean(object)));
            }
            News::Deleted(object) => {
                listed.objects.remove(&object.name_any());
            }
            News::Works => return,
            News::Failed(failed) => {
                tracing::warn!(%kind, error = failed.why, pause = ?failed.pause, "watch failed; starting it again");
                return;
            }
        }
        if !listing {
            show.send_replace(Some(Arc::new(listed.clone())));
        }
    });
    match never.await {}
}

/// Removes `managedFields`, which are large and of no use here.
fn lean<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}
