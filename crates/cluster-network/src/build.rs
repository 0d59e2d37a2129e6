//! From the complete configuration to units of objects.

use weft_plan::{Facts, Kind, Notice, Unit, Wait, kinds};

use crate::{
    additional,
    config::Effective,
    error::BuildError,
    provider::{Context, Provider},
    proxy,
    settings::Image,
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
/// All images that are not known, or a manifest of ours is wrong.
pub(crate) fn units(
    provider: &dyn Provider,
    config: &Effective,
    context: &Context<'_>,
) -> Result<(Vec<Unit>, Vec<Wait>), BuildError> {
    let mut settings = context.settings.clone();
    let mut missing = Vec::new();
    loop {
        let context = Context {
            settings: &settings,
            facts: context.facts,
        };
        match units_with(provider, config, &context) {
            // A step ends at the first image that it lacks, so it is tried again with a text for
            // this image, to find the next one.
            Err(BuildError::Images(found)) if missing.len() < Image::ALL.len() => {
                let is_found = |image: &&Image| found.iter().any(|one| one.variable == image.env());
                let images = Image::ALL.iter().filter(is_found);
                settings
                    .images
                    .extend(images.map(|image| (*image, String::new())));
                missing.extend(found);
            }
            Ok(_) if !missing.is_empty() => return Err(BuildError::Images(missing)),
            built => return built,
        }
    }
}

fn units_with(
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
        .chain(additional::hints(&config.additional_networks))
        .collect()
}
