//! Objects that cluster-network-addons-operator has left, and that Weft does without: those of
//! components that the configuration does not name any more, those of its old releases, and, where
//! Weft's operator has a namespace of its own, the monitoring of the operator that Weft replaces.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_api::addons::{GROUP, KIND, NAME, VERSION};
use weft_plan::{Domain, Facts, Input, Kind, Mode, ObjectKey, is_kept_for_ever, kinds};

use crate::{
    Addons, Settings, build,
    components::{kubevirt_ipam_controller, monitoring},
};

/// The components, each with the field of the specification that asks for it. Its unit has the name
/// of the field.
pub(crate) const FIELDS: [(&str, &str); 9] = [
    ("multus", "multus"),
    ("multus-dynamic-networks", "multusDynamicNetworks"),
    ("linux-bridge", "linuxBridge"),
    ("kubemacpool", "kubeMacPool"),
    ("ovs", "ovs"),
    ("macvtap", "macvtap"),
    ("secondary-dns", "kubeSecondaryDNS"),
    ("kubevirt-ipam-controller", "kubevirtIpamController"),
    ("nmstate", "nmstate"),
];

/// Objects of old releases, each with its component: those of the clean-up code of release 0.102.0,
/// and the DaemonSet `nmstate-handler-worker`. The PodDisruptionBudget and the Secret
/// `nmstate-webhook` and the NetworkAttachmentDefinition `default/primary-udn-kubevirt-binding` are
/// left out: Weft has no rights on them.
const OF_OLD_RELEASES: [(&str, Kind, &str); 24] = [
    ("multus", kinds::DAEMON_SET, "kube-multus-ds-amd64"),
    (
        "kubevirt-ipam-controller",
        kinds::DAEMON_SET,
        "passt-binding-cni",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::DEPLOYMENT,
        "kubevirt-ipam-claims-controller-manager",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::SERVICE_ACCOUNT,
        "kubevirt-ipam-claims-controller-manager",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::ROLE,
        "kubevirt-ipam-claims-leader-election-role",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::ROLE_BINDING,
        "kubevirt-ipam-claims-leader-election-rolebinding",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::CLUSTER_ROLE,
        "kubevirt-ipam-claims-manager-role",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::CLUSTER_ROLE_BINDING,
        "kubevirt-ipam-claims-manager-rolebinding",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::SERVICE,
        "kubevirt-ipam-claims-webhook-service",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::CERTIFICATE,
        "kubevirt-ipam-claims-serving-cert",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::ISSUER,
        "kubevirt-ipam-claims-selfsigned-issuer",
    ),
    (
        "kubevirt-ipam-controller",
        kinds::MUTATING_WEBHOOK_CONFIGURATION,
        "kubevirt-ipam-claims-mutating-webhook-configuration",
    ),
    ("nmstate", kinds::SERVICE_ACCOUNT, "nmstate-handler"),
    ("nmstate", kinds::DAEMON_SET, "nmstate-handler"),
    ("nmstate", kinds::DAEMON_SET, "nmstate-handler-worker"),
    ("nmstate", kinds::ROLE, "nmstate-handler"),
    ("nmstate", kinds::ROLE_BINDING, "nmstate-handler"),
    ("nmstate", kinds::CLUSTER_ROLE, "nmstate-handler"),
    ("nmstate", kinds::CLUSTER_ROLE_BINDING, "nmstate-handler"),
    ("nmstate", kinds::SERVICE, "nmstate-webhook"),
    ("nmstate", kinds::DEPLOYMENT, "nmstate-webhook"),
    ("nmstate", kinds::DEPLOYMENT, "nmstate-cert-manager"),
    ("nmstate", kinds::CONFIG_MAP, "nmstate-config"),
    ("nmstate", kinds::MUTATING_WEBHOOK_CONFIGURATION, "nmstate"),
];

/// These objects, each with its unit. They go when Weft takes over, as far as the original made
/// them and the configuration does not name them.
pub(crate) fn objects(settings: &Settings) -> Vec<(ObjectKey, String)> {
    let mut objects: BTreeMap<ObjectKey, String> = BTreeMap::new();
    let asked: Vec<&str> = FIELDS
        .iter()
        .filter(|(component, _)| settings.has_component(component))
        .map(|(_, field)| *field)
        .collect();
    let spec: Value = asked
        .iter()
        .map(|field| ((*field).to_owned(), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let resource = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": KIND, "metadata": {"name": NAME},
        "spec": spec
    });
    // The original is always in the namespace of its operands, and has its monitoring there.
    let addons = Addons::new(Settings {
        operator_namespace: settings.namespace.clone(),
        ..settings.clone()
    });
    let is_left = |unit: &str| {
        asked.contains(&unit)
            || unit == monitoring::UNIT && !monitoring::is_beside_the_operands(settings)
    };
    for facts in Facts::of_every_sort_of_cluster() {
        let random = &mut |bytes: &mut [u8]| bytes.fill(0);
        let Ok(decision) = addons.decide(Input {
            resource: &resource,
            record: None,
            decided: None,
            facts: &facts,
            random,
        }) else {
            continue;
        };
        for unit in decision
            .units
            .into_iter()
            .filter(|unit| is_left(&unit.name))
        {
            // Data that users fill in belongs to them.
            let made = unit.objects.iter().filter(|object| {
                object.mode() != Mode::CreateOnly && !is_kept_for_ever(object.key().kind)
            });
            objects.extend(made.map(|object| (object.key().clone(), unit.name.clone())));
        }
    }
    let field = |component: &str| {
        FIELDS
            .iter()
            .find(|(name, _)| *name == component)
            .map(|(_, field)| (*field).to_owned())
    };
    for (component, kind, name) in OF_OLD_RELEASES
        .into_iter()
        .filter(|(component, ..)| settings.has_component(component))
    {
        objects.extend(
            field(component).map(|unit| (ObjectKey::new(kind, &settings.namespace, name), unit)),
        );
    }
    if settings.has_component("kubevirt-ipam-controller") {
        let of_cert_manager = kubevirt_ipam_controller::of_cert_manager(settings);
        objects.extend(of_cert_manager.map(|key| (key, "kubevirtIpamController".to_owned())));
    }
    // Without the components that have webhooks, the operator has no rights on webhooks.
    let kinds = build::kinds(settings);
    objects
        .into_iter()
        .filter(|(key, _)| kinds.contains(&key.kind))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(components: Option<&[&str]>) -> Vec<String> {
        let components =
            components.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        objects(&Settings {
            components,
            ..Settings::default()
        })
        .into_iter()
        .map(|(key, unit)| format!("{unit}: {}", key.human()))
        .collect()
    }

    #[test]
    fn the_users_objects_and_those_that_stay_for_ever_are_never_obsolete() {
        let all = names(None);
        for one in [
            "ovs: DaemonSet cluster-network-addons/ovs-cni-amd64",
            "multusDynamicNetworks: DaemonSet cluster-network-addons/dynamic-networks-controller-ds",
            "kubeMacPool: MutatingWebhookConfiguration kubemacpool-mutator",
            "macvtap: SecurityContextConstraints macvtap-cni",
            "kubevirtIpamController: Issuer cluster-network-addons/kubevirt-ipam-claims-selfsigned-issuer",
            "nmstate: MutatingWebhookConfiguration nmstate",
        ] {
            assert!(all.iter().any(|known| known == one), "{one}: {all:#?}");
        }
        for one in [
            "CustomResourceDefinition",
            "Namespace ",
            "macvtap-deviceplugin-config",
            "cnao-allow-egress",
        ] {
            assert!(
                !all.iter().any(|known| known.contains(one)),
                "{one}: {all:#?}"
            );
        }
    }

    /// Its alert `CnaoDown` counts pods that are in this namespace. Next to an operator elsewhere,
    /// it would fire for ever.
    #[test]
    fn the_originals_monitoring_is_obsolete_where_the_operator_is_elsewhere() {
        let of_monitoring = |operator_namespace: &str| -> Vec<String> {
            let all = objects(&Settings {
                operator_namespace: operator_namespace.to_owned(),
                components: Some(["ovs".to_owned()].into()),
                ..Settings::default()
            });
            all.into_iter()
                .filter(|(_, unit)| unit == monitoring::UNIT)
                .map(|(key, _)| key.human())
                .collect()
        };
        let namespace = crate::settings::DEFAULT_NAMESPACE;
        assert_eq!(of_monitoring(namespace), Vec::<String>::new());
        let mut left = of_monitoring("weft-system");
        left.sort();
        assert_eq!(
            left,
            [
                "PrometheusRule cluster-network-addons/prometheus-rules-cluster-network-addons-operator",
                "Role cluster-network-addons/cluster-network-addons-operator-monitoring",
                "RoleBinding cluster-network-addons/cluster-network-addons-operator-monitoring",
                "Service cluster-network-addons/cluster-network-addons-operator-prometheus-metrics",
                "ServiceMonitor cluster-network-addons/service-monitor-cluster-network-addons-operator",
            ]
        );
    }

    #[test]
    fn without_a_component_nothing_of_it_is_known() {
        let some = names(Some(&["ovs"]));
        assert!(
            !some.is_empty() && some.iter().all(|known| known.starts_with("ovs: ")),
            "{some:#?}"
        );
    }
}
