//! The operator as a process: one controller a domain, each with its own lease, and what they
//! share.
//!
//! What a domain does is pure and lives in its own crate; how objects are applied and watched is
//! the same for all and lives in `weft-runtime`. Here the two are put together and kept running.

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
pub fn domain(
    name: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<(Arc<dyn Domain>, String)> {
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
            Ok((
                Arc::new(weft_node_network::deployment::Deployment::new(settings)),
                namespace,
            ))
        }
        "placement" => {
            let (domain, namespace) = placement(environment)?;
            Ok((domain, namespace))
        }
        other => anyhow::bail!(
            "there is no domain {other:?}; there are: {}",
            DOMAINS.join(", ")
        ),
    }
}

/// The same of Placement, whose controller is one of its own.
fn placement(
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<(Arc<Placement>, String)> {
    let settings = weft_placement::Settings::from_env(environment)?;
    let namespace = settings.operator_namespace.clone();
    Ok((Arc::new(Placement::new(settings)), namespace))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::{Kind, kinds};
    use weft_runtime::{
        reconcile::originals::held_by_another,
        store::cache::{Change, Source},
        store::watch::Shared,
    };

    use super::*;

    /// A workload by which each domain knows its original, in a namespace that is not Weft's.
    fn original(kind: Kind, name: &str, replicas: i64) -> Value {
        let container = json!({"name": "manager", "image": "i", "env": [{"name": weft_placement::domain::IMAGE_VARIABLE, "value": "i"}]});
        let status = match kind {
            kinds::DAEMON_SET => {
                json!({"observedGeneration": 1, "desiredNumberScheduled": replicas, "currentNumberScheduled": replicas})
            }
            _ => json!({"observedGeneration": 1, "replicas": replicas}),
        };
        json!({"apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"namespace": "openshift-network-operator", "name": name, "generation": 1, "resourceVersion": "1", "labels": {"app": "kubernetes-nmstate"}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}}, "status": status})
    }

    #[test]
    fn an_original_holds_each_domain_while_it_runs_and_not_at_rest() {
        for name in DOMAINS {
            let (domain, _) = domain(name, |_| None).unwrap();
            let workloads = domain
                .operators()
                .iter()
                .filter(|(kind, _)| [kinds::DEPLOYMENT, kinds::DAEMON_SET].contains(kind));
            for (kind, operator) in workloads {
                let is_held = |replicas| {
                    let (shared, source) = (Shared::default(), Source::Operators(*kind, operator));
                    shared.lock().expect(source.clone());
                    for change in [
                        Change::Restarted,
                        Change::Listed(original(*kind, operator, replicas)),
                        Change::Complete,
                    ] {
                        shared.lock().feed(&source, change);
                    }
                    held_by_another(&*domain, &shared).is_some()
                };
                assert_eq!(
                    (is_held(1), is_held(0)),
                    (true, false),
                    "{name}: {kind} {operator}"
                );
            }
        }
    }
}
