//! Fills in open fields: from the previous configuration if a value must not change by itself, else
//! by default.
//!
//! A value that the user gives always counts. Carried over are the settings of the network of the
//! same type, the MTU above all, as far as its provider says so, and that there is no kube-proxy.
//! All else goes back to its default as soon as it is left out.

use ipnet::IpNet;
use weft_api::cluster_network::{DefaultNetwork, TYPES};
use weft_plan::{Facts, Notice, Problem};

use crate::{
    build::DEFAULT_NETWORK,
    config::{Effective, Valid},
    mtu,
    provider::Provider,
    proxy,
};

/// The complete configuration, and what the user should know of it.
///
/// # Errors
/// The nodes' MTU is so small that the pods' would be less than a network may have.
pub fn fill(
    valid: Valid,
    provider: &dyn Provider,
    previous: Option<&Effective>,
    facts: &Facts,
) -> Result<(Effective, Vec<Notice>), Problem> {
    let mut valid = valid;
    let previous =
        previous.filter(|previous| previous.default_network.type_ == valid.default_network.type_);
    let had_kube_proxy = previous.map(|previous| previous.deploy_kube_proxy);
    let previous = previous.map(|previous| &previous.default_network);
    provider.carry_over(&mut valid.default_network, previous, facts);
    let overhead = u32::from(provider.overhead(&valid));
    // No `..`: a setting that is new in `Valid` must be decided on here.
    let Valid {
        pod_networks,
        service_networks,
        mut default_network,
        additional_networks,
        deploy_kube_proxy,
        proxy: mut settings,
    } = valid;
    let is_open = provider.mtu(&default_network).is_none()
        && previous.is_none_or(|previous| provider.mtu(previous).is_none());
    let of_nodes = mtu::of_nodes(facts);
    let by_default = of_nodes.saturating_sub(overhead);
    provider.fill(
        &mut default_network,
        previous,
        u16::try_from(by_default).unwrap_or(u16::MAX),
    );

    let mut notices = Vec::new();
    if let Some(mtu) = provider.mtu(&default_network) {
        let least = mtu::least(
            pod_networks
                .iter()
                .any(|network| matches!(network.cidr, IpNet::V6(_))),
        );
        if is_open && by_default < least {
            return Err(Problem {
                field: "spec.defaultNetwork".to_owned(),
                message: format!(
                    "the smallest MTU of the nodes is {of_nodes}, and {overhead} bytes of it are the network's own: {by_default} are left for pods, who need {least}. Raise the MTU of the nodes, or set mtu"
                ),
            });
        }
        if is_open {
            notices.extend(mtu::assumed(facts));
        }
        notices.extend(mtu::spread(
            facts,
            u32::try_from(mtu)
                .unwrap_or(u32::MAX)
                .saturating_add(overhead),
        ));
    }
    let own_service_proxy = provider.capabilities().own_service_proxy;
    let deploy_kube_proxy = deploy_kube_proxy.unwrap_or_else(|| {
        let by_default = proxy::ByDefault::of(own_service_proxy, had_kube_proxy, facts);
        notices.extend(by_default.notice());
        by_default.is_deployed()
    });
    if deploy_kube_proxy || own_service_proxy {
        proxy::fill(&mut settings, &pod_networks, &service_networks);
    }
    let effective = Effective {
        pod_networks,
        service_networks,
        default_network,
        additional_networks,
        deploy_kube_proxy,
        proxy: settings,
    };
    Ok((effective, notices))
}

/// Settings that are kept and that nobody reads: those of a network of another type.
pub(crate) fn without_effect(effective: &Effective) -> Vec<Notice> {
    // No `..`: settings of a new network belong here.
    let DefaultNetwork {
        type_,
        openshift_sdn_config,
        flannel_config,
        other_config,
    } = &effective.default_network;
    let type_ = type_.as_deref().unwrap_or_default();
    let settings = [
        (
            "openshiftSDNConfig",
            openshift_sdn_config.is_some() && type_ != "OpenShiftSDN",
        ),
        (
            "flannelConfig",
            flannel_config.is_some() && type_ != "Flannel",
        ),
        (
            "otherConfig",
            other_config.is_some() && TYPES.contains(&type_),
        ),
    ];
    let idle = settings.into_iter().filter(|(_, idle)| *idle);
    idle.map(|(field, _)| Notice {
        about: DEFAULT_NETWORK.to_owned(),
        message: format!(
            "spec.defaultNetwork.{field} has no effect: the network is of type {type_}"
        ),
    })
    .collect()
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
