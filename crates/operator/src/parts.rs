//! The parts that the process hands to each controller.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::Domain;
use weft_runtime::{
    api_server::cluster::Cluster, metrics::Metrics, process::Wishes, store::watch::Shared,
};

/// The parts of a controller.
#[derive(Clone)]
pub(crate) struct Parts {
    pub domain: Arc<dyn Domain>,
    /// The namespace of the operator, which holds its notes.
    pub namespace: String,
    pub cluster: Cluster,
    pub shared: Shared,
    pub metrics: Metrics,
    pub wishes: Wishes,
    /// The name of this replica, as events show it.
    pub instance: String,
    /// True while this replica holds the Lease.
    pub leading: watch::Receiver<bool>,
    pub stop: CancellationToken,
}

/// A controller that runs until its [`Parts::stop`].
pub(crate) type Controlling = futures::future::BoxFuture<'static, ()>;
