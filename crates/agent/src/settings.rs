//! The settings of an agent.

use std::path::PathBuf;

use weft_node_network::normalise::{BUDGET, Filter};

use crate::probes::Prober;

/// What an agent is told; one in a process of its own, or one of many that are simulated in one.
#[derive(Clone)]
pub struct Settings {
    /// The name of the Node that it runs on.
    pub node: String,
    /// Where the Secrets are that policies name.
    pub namespace: String,
    /// The folder of what must outlive the process.
    pub state_dir: PathBuf,
    /// What is reported.
    pub extent: Extent,
    /// What must be reachable after a change; of the cluster it learns here.
    pub prober: Prober,
}

/// What of the network is reported.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Which interfaces.
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
