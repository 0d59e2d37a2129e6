//! From the complete configuration to units of objects.

use weft_plan::{Facts, Kind, Notice, Unit, Wait, kinds};

use crate::{
    additional,
    config::Effective,
    error::BuildError,
    provider::{Context, Provider},
    proxy,
};

/// The unit of the default network.
pub const DEFAULT_NETWORK: &str = "default-network";
/// The unit of the service proxy.
pub const KUBE_PROXY: &str = "kube-proxy";

/// On all pods of the workloads, in whichever namespace: they are watched by it.
pub(crate) const POD_LABEL: (&str, &str) = ("weft.network/domain", "cluster-network");

/// Every kind that a unit may hold.
pub const KINDS: &[Kind] = &[
    kinds::NAMESPACE,
    kinds::CUSTOM_RESOURCE_DEFINITION,
    kinds::SERVICE_ACCOUNT,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::CONFIG_MAP,
    kinds::SERVICE,
    kinds::NETWORK_POLICY,
    kinds::DAEMON_SET,
    kinds::SERVICE_MONITOR,
    kinds::NETWORK_ATTACHMENT_DEFINITION,
];

/// The units of a configuration, and why some of them cannot be applied as they are.
///
/// # Errors
/// An image is not known, or a manifest of ours is wrong.
pub(crate) fn units(
    provider: &dyn Provider,
    config: &Effective,
    context: &Context<'_>,
) -> Result<(Vec<Unit>, Vec<Wait>), BuildError> {
    let mut units = vec![Unit {
        name: DEFAULT_NETWORK.to_owned(),
        objects: provider.render(config, context)?,
    }];
    units.extend(proxy::unit(config, context)?);
    let (networks, mut waits) = additional::units(&config.additional_networks, context.facts)?;
    units.extend(networks);
    waits.extend(proxy::wait(config, context.facts));
    for object in units.iter_mut().flat_map(|unit| &mut unit.objects) {
        object.set_pod_label(POD_LABEL.0, POD_LABEL.1);
    }
    Ok((units, waits))
}

/// Hints for the user.
pub(crate) fn notices(provider: &dyn Provider, config: &Effective, facts: &Facts) -> Vec<Notice> {
    provider
        .preflight(config, facts)
        .into_iter()
        .chain(proxy::hint(config))
        .collect()
}
