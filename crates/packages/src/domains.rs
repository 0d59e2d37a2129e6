//! The domains of Weft, by the names that its packages have for them.

use weft_addons::settings::COMPONENTS;

/// A domain.
pub struct Domain {
    /// The name, as `weft manifests --domains` takes it.
    pub name: &'static str,
    /// The name in the values of the Helm chart.
    pub values: &'static str,
    /// The choices for `weft manifests --components`.
    pub components: &'static [&'static str],
}

/// The operator of this domain is on the network of its node, alone or with others.
pub const CLUSTER_NETWORK: &str = "cluster-network";
/// Some alerts are about this domain alone.
pub const NODE_NETWORK: &str = "node-network";

/// All domains.
pub const DOMAINS: [Domain; 4] = [
    Domain {
        name: "addons",
        values: "addons",
        components: &COMPONENTS,
    },
    Domain {
        name: CLUSTER_NETWORK,
        values: "clusterNetwork",
        components: &["openshift-sdn", "flannel", "kube-proxy"],
    },
    Domain {
        name: NODE_NETWORK,
        values: "nodeNetwork",
        components: &[],
    },
    Domain {
        name: "placement",
        values: "placement",
        components: &[],
    },
];
