//! The domains by name: how each is set up, and which controllers serve it.

use std::sync::Arc;

use tokio::task::JoinSet;
use weft_addons::{Addons, Settings};
use weft_cluster_network::ClusterNetwork;
use weft_node_network::deployment;
use weft_placement::Placement;
use weft_plan::{Domain, ObjectSet};
use weft_runtime::reconcile::controller::{self, Controller};

use crate::{
    node_network,
    parts::{Controlling, Parts},
    placement,
};

/// Environment variables by name.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A line of the registry.
struct Line {
    name: &'static str,
    open: fn(Environment<'_>) -> anyhow::Result<Opened>,
}

/// All domains. Nothing else in the program compares their names.
const REGISTRY: [Line; 4] = [
    Line {
        name: "addons",
        open: |environment| {
            let settings = Settings::from_env(environment)?;
            let namespace = settings.operator_namespace.clone();
            Ok(Opened::set(Addons::new(settings), namespace))
        },
    },
    Line {
        name: "cluster-network",
        open: |environment| {
            let settings = weft_cluster_network::Settings::from_env(environment);
            let namespace = settings.operator_namespace.clone();
            Ok(Opened::set(ClusterNetwork::new(settings), namespace))
        },
    },
    Line {
        name: "node-network",
        open: |environment| {
            let settings = deployment::Settings::from_env(environment)?;
            let namespace = settings.operator_namespace.clone();
            let opened = Opened::set(deployment::NodeNetwork::new(settings), namespace);
            Ok(Opened {
                also: Some(node_network::start),
                ..opened
            })
        },
    },
    Line {
        name: "placement",
        open: |environment| {
            let settings = weft_placement::Settings::from_env(environment)?;
            let namespace = settings.operator_namespace.clone();
            let served = Served::Placement(Arc::new(Placement::new(settings)));
            Ok(Opened {
                served,
                namespace,
                also: None,
            })
        },
    },
];

/// The names of all domains, as on the command line.
pub const DOMAINS: [&str; REGISTRY.len()] = {
    let mut names = [""; REGISTRY.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = REGISTRY[at].name;
        at += 1;
    }
    names
};

/// Sets up the domain of this name by environment variables.
///
/// # Errors
/// There is no domain of this name, or a variable has an invalid value.
pub fn open(name: &str, environment: Environment<'_>) -> anyhow::Result<Opened> {
    match REGISTRY.iter().find(|line| line.name == name) {
        Some(line) => (line.open)(environment),
        None => anyhow::bail!(
            "there is no domain {name:?}; there are: {}",
            DOMAINS.join(", ")
        ),
    }
}

/// A domain that is set up.
pub struct Opened {
    /// The domain, by the controller that serves its resource.
    pub served: Served,
    /// The namespace of its operator, which holds Lease, inventory and record.
    pub namespace: String,
    /// A further controller of the domain, if it has one.
    also: Option<fn(&Parts) -> Controlling>,
}

/// A domain, by the controller that serves its resource.
#[derive(Clone)]
pub enum Served {
    /// The engine's controller: the resource leads to a set of objects with an inventory.
    Set(Arc<dyn ObjectSet>),
    /// The controller of PlacementAPIs, with assessments instead of an inventory.
    Placement(Arc<Placement>),
}

impl Served {
    /// Returns the domain.
    pub fn domain(&self) -> Arc<dyn Domain> {
        match self {
            Self::Set(set) => Arc::clone(set) as Arc<dyn Domain>,
            Self::Placement(placement) => Arc::clone(placement) as Arc<dyn Domain>,
        }
    }
}

impl Opened {
    fn set(set: impl ObjectSet, namespace: String) -> Self {
        Self {
            served: Served::Set(Arc::new(set)),
            namespace,
            also: None,
        }
    }

    /// Starts all controllers of the domain.
    pub(crate) fn start(&self, parts: Parts) -> JoinSet<()> {
        let mut controllers = JoinSet::new();
        if let Some(also) = self.also {
            controllers.spawn(also(&parts));
        }
        let Parts {
            cluster,
            shared,
            metrics,
            wishes,
            instance,
            leading,
            stop,
            ..
        } = parts;
        match &self.served {
            Served::Set(set) => {
                let config = controller::Config {
                    namespace: self.namespace.clone(),
                    instance,
                };
                let set = Arc::clone(set);
                let controller = Controller::new(set, cluster, shared, metrics, config);
                controllers.spawn(controller.with_wishes(wishes).run(leading, stop));
            }
            Served::Placement(domain) => {
                let domain = Arc::clone(domain);
                let controller =
                    placement::Controller::new(domain, cluster, shared, metrics, &instance);
                controllers.spawn(controller.run(leading, stop));
            }
        }
        controllers
    }
}
