//! The settings of an agent.

use std::path::PathBuf;

use weft_node_network::normalise::{BUDGET, Filter};

use crate::{host::WithoutNetworkManager, probes::Prober};

/// Settings of an agent, be it a process of its own or one of many that a process simulates.
#[derive(Clone)]
pub struct Settings {
    /// The name of the Node that it runs on.
    pub node: String,
    /// Where the Secrets are that policies name.
    pub namespace: String,
    /// The folder of what must outlive the process.
    pub state_dir: PathBuf,
    /// The choice on a host without NetworkManager.
    pub without_network_manager: WithoutNetworkManager,
    /// The extent of the report.
    pub extent: Extent,
    /// Peers that must be reachable after a change. The process adds those of the cluster.
    pub prober: Prober,
}

/// The extent of the report about the network.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The interfaces that the report has.
    pub filter: Filter,
    /// How many bytes of JSON a report may have.
    pub budget: usize,
}

impl Default for Extent {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            budget: BUDGET,
        }
    }
}
