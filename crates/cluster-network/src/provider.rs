//! The interface of a default network: one file and one folder of manifests each.

use ipnet::IpNet;
use weft_api::cluster_network::DefaultNetwork;
use weft_plan::{Facts, FieldChange, Manifest, Notice, Problem};

use crate::{
    Settings,
    config::{Effective, Valid},
    error::BuildError,
};

/// A default network that Weft can deploy.
///
/// All methods are pure. They are called in the order in which they stand here, `canonicalise` and
/// `validate` before anything is decided.
pub trait Provider: Send + Sync + 'static {
    /// The value of `defaultNetwork.type`.
    fn name(&self) -> &'static str;

    /// Other values that mean the same.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Capabilities of the network.
    fn capabilities(&self) -> Capabilities;

    /// Reports whether pods and services get their addresses through the network, so that it needs
    /// the blocks of addresses.
    fn needs_blocks(&self) -> bool {
        true
    }

    /// Blocks of addresses that it uses itself, and what for: pods must have others.
    fn internal_blocks(&self) -> Vec<(IpNet, &'static str)> {
        Vec::new()
    }

    /// Puts outdated spellings of its settings right.
    fn canonicalise(&self, _network: &mut DefaultNetwork) {}

    /// Everything that is wrong with its settings, by itself and together with the rest.
    fn validate(&self, config: &Valid) -> Vec<Problem>;

    /// The MTU of the pods' interfaces, if it is set. `None` for a network that has no such
    /// setting.
    fn mtu(&self, _network: &DefaultNetwork) -> Option<i64> {
        None
    }

    /// The same, to be changed.
    fn mtu_mut<'a>(&self, _network: &'a mut DefaultNetwork) -> Option<&'a mut i64> {
        None
    }

    /// How many bytes of each packet between nodes are its own, at this MTU's cost.
    fn overhead(&self, config: &Valid) -> u16;

    /// Fills in what is left open: from the previous configuration of the same type, else by
    /// default. `mtu` is for the pods' interfaces.
    fn fill(&self, network: &mut DefaultNetwork, previous: Option<&DefaultNetwork>, mtu: u16);

    /// Fills in what the nodes use already: of the previous configuration, or of a network of this
    /// kind that another owner has set up.
    fn carry_over(
        &self,
        _network: &mut DefaultNetwork,
        _previous: Option<&DefaultNetwork>,
        _facts: &Facts,
    ) {
    }

    /// Settings of a network of this kind that another owner has set up, which the nodes use, and
    /// which would get lost if Weft adopted it. `asked` has only what the user gives.
    fn losses(&self, _asked: &DefaultNetwork, _facts: &Facts) -> Vec<Problem> {
        Vec::new()
    }

    /// The fields of its own settings that may not change like this while pods use the network.
    /// Both configurations are complete.
    fn unsafe_changes(&self, previous: &DefaultNetwork, next: &DefaultNetwork) -> Vec<FieldChange>;

    /// Its objects.
    ///
    /// # Errors
    /// An image is not known, or a manifest of ours is wrong.
    fn render(
        &self,
        config: &Effective,
        context: &Context<'_>,
    ) -> Result<Vec<Manifest>, BuildError>;

    /// The namespace of the pods whose init container runs `weft node cni-config`, which reports
    /// the networks of the node.
    fn node_reporter(&self) -> Option<&'static str> {
        None
    }

    /// Known obstacles on the cluster or its nodes that prevent the network from working.
    fn preflight(&self, _config: &Effective, _facts: &Facts) -> Vec<Notice> {
        Vec::new()
    }
}

/// Capabilities of a default network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct Capabilities {
    /// How many blocks of a family it can divide among the nodes. `None`: any number.
    pub blocks_per_family: Option<usize>,
    /// True if pods may have IPv6 addresses.
    pub ipv6: bool,
    /// True if it divides the blocks itself, by `hostSubnetLength`. Else the cluster's
    /// controller-manager does.
    pub uses_host_subnet_length: bool,
    /// True if it connects services itself, so that no kube-proxy is needed.
    pub own_service_proxy: bool,
    /// True if a block may be made larger while pods use it.
    pub grows: bool,
    /// True if a second address family may be added while pods use the first.
    pub adds_family: bool,
}

/// The input of objects besides the configuration.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Images, namespaces, the API server's address.
    pub settings: &'a Settings,
    /// Known facts about the cluster.
    pub facts: &'a Facts,
}
