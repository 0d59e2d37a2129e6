//! From the complete configuration to units of objects.

use weft_operands::pod::Workload;
use weft_plan::{
    Certificate, Facts, Kind, Manifest, ManifestError, Notice, ObjectKey, Unit, Wait, kinds,
    report::FailureClass,
};

use crate::{
    Settings,
    components::{
        kube_mac_pool, kubevirt_ipam_controller, linux_bridge, macvtap, monitoring, multus,
        multus_dynamic_networks, nmstate, ovs, secondary_dns, shared,
    },
    fill::Effective,
    labels::Labels,
    overlay::Overlay,
    platform,
};

/// Every kind that a unit may hold, if every component may be deployed.
const KINDS: &[Kind] = &[
    kinds::NAMESPACE,
    kinds::CUSTOM_RESOURCE_DEFINITION,
    kinds::SERVICE_ACCOUNT,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::CONFIG_MAP,
    kinds::SECRET,
    kinds::SERVICE,
    kinds::NETWORK_POLICY,
    kinds::DAEMON_SET,
    kinds::DEPLOYMENT,
    kinds::MUTATING_WEBHOOK_CONFIGURATION,
    kinds::ISSUER,
    kinds::CERTIFICATE,
    kinds::SECURITY_CONTEXT_CONSTRAINTS,
    kinds::SERVICE_MONITOR,
    kinds::PROMETHEUS_RULE,
    kinds::NMSTATE,
];

/// Every kind that a unit may hold, with the components that may be deployed.
pub(crate) fn kinds(settings: &Settings) -> Vec<Kind> {
    KINDS
        .iter()
        .copied()
        .filter(|kind| {
            only_of(*kind)
                .is_none_or(|components| components.iter().any(|name| settings.has_component(name)))
        })
        .collect()
}

/// The components that a kind is there for. `None` if it is there whatever is chosen.
fn only_of(kind: Kind) -> Option<&'static [&'static str]> {
    Some(match kind {
        kinds::MUTATING_WEBHOOK_CONFIGURATION | kinds::SECRET => {
            &["kubemacpool", "kubevirt-ipam-controller"]
        }
        kinds::ISSUER | kinds::CERTIFICATE => &["kubevirt-ipam-controller"],
        kinds::SECURITY_CONTEXT_CONSTRAINTS => &["multus", "linux-bridge", "ovs", "macvtap"],
        kinds::NMSTATE => &["nmstate"],
        _ => return None,
    })
}

/// Why objects could not be built. Manifests and overlays are ours, so each of these is a defect of
/// Weft.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A manifest or an overlay is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The configuration has no JSON form.
    #[error("the configuration has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
}

/// The units of a configuration. A component's unit has the name of its field in the specification.
/// Objects that several components use have units of their own. The order is that of
/// `status.containers`.
pub(crate) fn units(
    effective: &Effective,
    settings: &Settings,
    facts: &Facts,
    labels: &Labels,
) -> Result<Vec<Unit>, BuildError> {
    let overlay = Overlay {
        effective,
        settings,
        facts,
    };
    let mut units = vec![("namespace", shared::namespace(&overlay)?)];
    let has_multus = platform::has_multus(facts);
    // The IPAM controller watches these definitions, and ends where there are none.
    if !has_multus && (effective.multus || effective.kubevirt_ipam_controller.is_some()) {
        units.push((
            "network-attachment-definition",
            shared::network_attachment_definition(&overlay)?,
        ));
    }
    if effective.multus && !has_multus {
        units.push(("multus", multus::objects(&overlay)?));
    }
    if let Some(cri_socket) = &effective.multus_dynamic_networks {
        units.push((
            "multusDynamicNetworks",
            multus_dynamic_networks::objects(&overlay, cri_socket)?,
        ));
    }
    if effective.linux_bridge {
        units.push(("linuxBridge", linux_bridge::objects(&overlay)?));
    }
    if let Some(range) = &effective.kube_mac_pool {
        units.push(("kubeMacPool", kube_mac_pool::objects(&overlay, range)?));
    }
    if effective.ovs {
        units.push(("ovs", ovs::objects(&overlay)?));
    }
    if let Some(device_plugin_config) = &effective.macvtap {
        units.push(("macvtap", macvtap::objects(&overlay, device_plugin_config)?));
    }
    if let Some(dns) = &effective.kube_secondary_dns {
        units.push(("kubeSecondaryDNS", secondary_dns::objects(&overlay, dns)?));
    }
    if let Some(controller) = &effective.kubevirt_ipam_controller {
        units.push((
            "kubevirtIpamController",
            kubevirt_ipam_controller::objects(&overlay, controller)?,
        ));
    }
    if nmstate::is_ours(effective, facts) {
        units.push((nmstate::UNIT, nmstate::objects()?));
    }
    let objects = monitoring::objects(&overlay)?;
    if !objects.is_empty() {
        units.push((monitoring::UNIT, objects));
    }
    units.push(("network-policy", shared::network_policy(&overlay)?));

    for (component, object) in units
        .iter_mut()
        .flat_map(|(component, objects)| objects.iter_mut().map(|object| (*component, object)))
    {
        if !effective.resources.is_empty()
            && matches!(object.key().kind, kinds::DAEMON_SET | kinds::DEPLOYMENT)
        {
            let workload = object.key().name.clone();
            object.edit_pods(|pod| {
                effective.resources.apply(component, &workload, pod);
                Ok::<_, String>(())
            })?;
        }
    }
    let labelled = |mut objects: Vec<Manifest>| {
        // The operator's own namespace belongs to whoever installed the operator.
        let own_namespace = ObjectKey::new(kinds::NAMESPACE, "", &settings.operator_namespace);
        objects
            .iter_mut()
            .filter(|object| *object.key() != own_namespace)
            .for_each(|object| labels.apply(object));
        objects
    };
    Ok(units
        .into_iter()
        .map(|(name, objects)| Unit {
            name: name.to_owned(),
            objects: labelled(objects),
        })
        .collect())
}

/// Objects that operands of this configuration make themselves.
pub(crate) fn made_by_operands(
    effective: &Effective,
    settings: &Settings,
    facts: &Facts,
) -> Vec<ObjectKey> {
    let mut made = Vec::new();
    if effective.kube_mac_pool.is_some() {
        made.extend(kube_mac_pool::made_by_it(settings));
    }
    if let Some(controller) = &effective.kubevirt_ipam_controller {
        made.extend(kubevirt_ipam_controller::made_by_others(
            controller, settings, facts,
        ));
    }
    made
}

/// Certificates that Weft makes for the components.
pub(crate) fn certificates(
    effective: &Effective,
    settings: &Settings,
    facts: &Facts,
) -> Vec<Certificate> {
    let controllers = effective.kubevirt_ipam_controller.iter();
    controllers
        .filter_map(|controller| kubevirt_ipam_controller::certificate(controller, settings, facts))
        .collect()
}

/// Units that must wait, because the cluster lacks a requirement of their components.
pub(crate) fn waits(effective: &Effective, settings: &Settings, facts: &Facts) -> Vec<Wait> {
    let wait = |unit: &str, (object, message): (ObjectKey, String)| Wait {
        unit: unit.to_owned(),
        object,
        class: FailureClass::Absent,
        message,
        problems: Vec::new(),
    };
    let mut waits = Vec::new();
    if effective.kube_secondary_dns.is_some() {
        let lack = secondary_dns::lacks(settings, facts);
        waits.extend(lack.map(|lack| wait("kubeSecondaryDNS", lack)));
    }
    if let Some(controller) = &effective.kubevirt_ipam_controller {
        let lacks = kubevirt_ipam_controller::lacks(controller, settings, facts);
        waits.extend(
            lacks
                .into_iter()
                .map(|lack| wait("kubevirtIpamController", lack)),
        );
    }
    waits
}

/// Notices about components that another operator has deployed, and about outdated spellings.
pub(crate) fn notices(effective: &Effective, facts: &Facts) -> Vec<Notice> {
    let notice = |about: &str, message: &str| Notice {
        about: about.to_owned(),
        message: message.to_owned(),
    };
    let mut notices: Vec<_> = nmstate::notice(effective, facts).into_iter().collect();
    if effective
        .kube_secondary_dns
        .as_ref()
        .is_some_and(|dns| dns.outdated_spelling)
    {
        notices.push(notice(
            "kubeSecondaryDNS",
            "DOMAIN and NAME_SERVER_IP are outdated spellings: write domain and nameServerIP",
        ));
    }
    notices
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "programs_tests.rs"]
mod programs_tests;
