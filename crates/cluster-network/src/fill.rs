//! What was left open: from the previous configuration, else by default.

use weft_plan::{Facts, Notice};

use crate::{
    config::{Effective, Valid},
    provider::Provider,
    proxy,
};

/// The MTU of a node's links where none is known: that of Ethernet.
const ETHERNET_MTU: u16 = 1500;

/// The complete configuration, and what the user should know of it.
pub fn fill(valid: Valid, provider: &dyn Provider, previous: Option<&Effective>, facts: &Facts) -> (Effective, Vec<Notice>) {
    let mtu = ETHERNET_MTU.saturating_sub(provider.overhead(&valid));
    let Valid { pod_networks, service_networks, mut default_network, additional_networks, deploy_kube_proxy, mut proxy } = valid;
    let previous = previous.map(|previous| &previous.default_network).filter(|previous| previous.type_ == default_network.type_);
    provider.fill(&mut default_network, previous, mtu);
    let own_service_proxy = provider.capabilities().own_service_proxy;
    let notices = proxy::notice(deploy_kube_proxy, own_service_proxy, facts).into_iter().collect();
    let deploy_kube_proxy = proxy::is_deployed(deploy_kube_proxy, own_service_proxy, facts);
    if deploy_kube_proxy || own_service_proxy {
        proxy::fill(&mut proxy, &pod_networks, &service_networks);
    }
    (Effective { pod_networks, service_networks, default_network, additional_networks, deploy_kube_proxy, proxy }, notices)
}
