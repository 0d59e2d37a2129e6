//! The operator as a process: one controller a domain, each with its own lease, and what they share.
//!
//! What a domain does is pure and lives in its own crate; how objects are applied and watched is the same for all and lives in
//! `weft-runtime`. Here the two are put together and kept running.

mod connection;
mod node_network;
mod placement;
mod process;

pub use connection::{Endpoint, Source, connect, endpoint};
pub use placement::keystone;
pub use process::{HostMtu, MetricsAddress, Options, run};

use std::sync::Arc;

use weft_addons::{Addons, Settings};
use weft_cluster_network::ClusterNetwork;
use weft_placement::Placement;
use weft_plan::Domain;

/// The names of all domains, as on the command line.
pub const DOMAINS: [&str; 4] = ["addons", "cluster-network", "node-network", "placement"];

/// A domain, set up by environment variables; and the namespace where its operator keeps its notes.
///
/// # Errors
/// There is no domain of this name, or a variable has a value that it cannot have.
pub fn domain(name: &str, environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<(Arc<dyn Domain>, String)> {
    match name {
        "addons" => {
            let settings = Settings::from_env(environment)?;
            let namespace = settings.operator_namespace.clone();
            Ok((Arc::new(Addons::new(settings)), namespace))
        }
        "cluster-network" => {
            let settings = weft_cluster_network::Settings::from_env(environment);
            let namespace = settings.operator_namespace.clone();
            Ok((Arc::new(ClusterNetwork::new(settings)), namespace))
        }
        "node-network" => {
            let settings = weft_node_network::deployment::Settings::from_env(environment)?;
            let namespace = settings.operator_namespace.clone();
            Ok((Arc::new(weft_node_network::deployment::Deployment::new(settings)), namespace))
        }
        "placement" => {
            let (domain, namespace) = placement(environment)?;
            Ok((domain, namespace))
        }
        other => anyhow::bail!("there is no domain {other:?}; there are: {}", DOMAINS.join(", ")),
    }
}

/// The same of Placement, whose controller is one of its own.
fn placement(environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<(Arc<Placement>, String)> {
    let settings = weft_placement::Settings::from_env(environment)?;
    let namespace = settings.operator_namespace.clone();
    Ok((Arc::new(Placement::new(settings)), namespace))
}
