//! KubeMacPool: the pool with its webhooks, and the manager of its certificate.

use k8s_openapi::api::core::v1::{Container, EnvVar};
use serde_json::{Map, Value};
use weft_operands::pod::{Workload, containers};
use weft_plan::{Manifest, ManifestError, ObjectKey, kinds};

use crate::{
    Image, Settings, components::monitoring, mac::MacRange, overlay::Overlay, validate::SelfSign,
};

const FILES: [&str; 5] = [
    include_str!("../../../../components/kubemacpool/rbac.yaml"),
    include_str!("../../../../components/kubemacpool/config.yaml"),
    include_str!("../../../../components/kubemacpool/cert-manager.yaml"),
    include_str!("../../../../components/kubemacpool/manager.yaml"),
    include_str!("../../../../components/kubemacpool/webhook.yaml"),
];
const MONITORING: &str = include_str!("../../../../components/kubemacpool/monitoring.yaml");

const RANGE_CONFIG: &str = "kubemacpool-mac-range-config";
const CERT_MANAGER: &str = "kubemacpool-cert-manager";
const MANAGER: &str = "kubemacpool-mac-controller-manager";

pub(crate) fn objects(
    overlay: &Overlay<'_>,
    range: &MacRange,
) -> Result<Vec<Manifest>, ManifestError> {
    let Overlay { effective, .. } = overlay;
    let mut objects = overlay.load(&FILES)?;
    if monitoring::is_served(overlay.facts) {
        let mut more = overlay.load(&[MONITORING])?;
        more.iter_mut()
            .try_for_each(|object| monitoring::adapt(object, overlay.settings))?;
        objects.extend(more);
    }
    for object in &mut objects {
        if object.key().kind == kinds::DEPLOYMENT {
            overlay.workload(object, &[("manager", Image::KubeMacPool)], &effective.infra)?;
            overlay.without_user(object)?;
        }
        match object.key().name.as_str() {
            // No hash of it on the pods: KubeMacPool watches this ConfigMap, and a restart would
            // cost it its pool for minutes.
            RANGE_CONFIG => object.edit("/data", |data: &mut Map<String, Value>| {
                data.insert("RANGE_START".into(), range.start().to_string().into());
                data.insert("RANGE_END".into(), range.end().to_string().into());
                Ok::<_, String>(())
            })?,
            CERT_MANAGER => object.edit_pods(|pod| {
                containers(pod).try_for_each(|container| rotation(container, &effective.self_sign))
            })?,
            MANAGER => object.edit_pods(|pod| {
                containers(pod).for_each(|container| {
                    effective
                        .tls
                        .set_arguments(container.args.get_or_insert_default())
                });
                Ok::<_, String>(())
            })?,
            _ => {}
        }
    }
    Ok(objects)
}

fn rotation(container: &mut Container, self_sign: &SelfSign) -> Result<(), String> {
    for (name, interval) in [
        ("CA_ROTATE_INTERVAL", &self_sign.ca_rotate),
        ("CA_OVERLAP_INTERVAL", &self_sign.ca_overlap),
        ("CERT_ROTATE_INTERVAL", &self_sign.cert_rotate),
        ("CERT_OVERLAP_INTERVAL", &self_sign.cert_overlap),
    ] {
        let variable: &mut EnvVar = container
            .env
            .iter_mut()
            .flatten()
            .find(|variable| variable.name == name)
            .ok_or_else(|| format!("there is no variable {name}"))?;
        variable.value = Some(interval.to_string());
    }
    Ok(())
}

/// The Secrets that its certificate manager makes: the CA's is named after the webhook
/// configuration, the server's after the service.
pub(crate) fn made_by_it(settings: &Settings) -> Vec<ObjectKey> {
    ["kubemacpool-mutator-ca", "kubemacpool-service"]
        .map(|name| ObjectKey::new(kinds::SECRET, &settings.namespace, name))
        .to_vec()
}
