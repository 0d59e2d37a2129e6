//! The accounts that Weft installs.

use super::ways::{LIST_OWN_SECRETS, MUTATING_WEBHOOK, READ_SECRET_OF_OPENSHIFT};

/// An account, and what its task lets it do of what attacks try.
pub struct Account {
    pub namespace: &'static str,
    pub name: &'static str,
    /// The namespace that it works in.
    pub works_in: &'static str,
    /// The node that its token is bound to, where its program runs on every node.
    pub node: Option<&'static str>,
    /// The ways that are open to it.
    pub has: &'static [&'static str],
}

impl Account {
    const fn of(namespace: &'static str, name: &'static str) -> Self {
        Self {
            namespace,
            name,
            works_in: namespace,
            node: None,
            has: &[],
        }
    }

    const fn on_nodes(namespace: &'static str, name: &'static str) -> Self {
        Self {
            node: Some("node-1"),
            ..Self::of(namespace, name)
        }
    }

    const fn having(self, has: &'static [&'static str]) -> Self {
        Self { has, ..self }
    }
}

const OF_ADDONS: &str = "cluster-network-addons";

/// The operator of the add-ons, with all of them.
pub const ADDONS: Account = Account::of(OF_ADDONS, "cluster-network-addons-operator")
    .having(&[LIST_OWN_SECRETS, MUTATING_WEBHOOK]);
/// The operator of the cluster's network.
pub const CLUSTER_NETWORK: Account = Account::of(
    "openshift-cluster-network-operator",
    "cluster-network-operator",
);

/// The operator of Placement works in another namespace than its own.
const PLACEMENT: Account = Account {
    works_in: "openstack",
    ..Account::of("weft-placement", "weft-placement-operator").having(&[LIST_OWN_SECRETS])
};

/// All accounts.
pub const ALL: &[Account] = &[
    ADDONS,
    Account::on_nodes(OF_ADDONS, "multus"),
    Account::on_nodes(OF_ADDONS, "dynamic-networks-controller"),
    Account::on_nodes(OF_ADDONS, "bridge-marker"),
    Account::of(OF_ADDONS, "kubemacpool-sa").having(&[LIST_OWN_SECRETS]),
    Account::on_nodes(OF_ADDONS, "ovs-cni-marker"),
    Account::of(OF_ADDONS, "secondary"),
    Account::of(OF_ADDONS, "kubevirt-ipam-controller-manager"),
    CLUSTER_NETWORK,
    Account::on_nodes("kube-flannel", "flannel"),
    Account::on_nodes("openshift-kube-proxy", "openshift-kube-proxy"),
    Account::on_nodes("openshift-sdn", "sdn"),
    Account::of("openshift-sdn", "sdn-controller").having(&[READ_SECRET_OF_OPENSHIFT]),
    Account::of("openshift-infra", "sdn-controller"),
    Account::of("nmstate", "nmstate-operator"),
    Account::on_nodes("nmstate", "nmstate-handler"),
    PLACEMENT,
];
