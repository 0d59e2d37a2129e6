//! Settings from the operator's environment: names of namespaces, its version, the images of the
//! components.

use std::collections::{BTreeMap, BTreeSet};

use weft_api::addons::Images;
use weft_operands::{
    image::{ImageReference, ImageReferenceError},
    text::{is_dns_label, is_object_name},
};

/// The settings of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the operands.
    pub namespace: String,
    /// The namespace of the operator itself, where it keeps its records.
    pub operator_namespace: String,
    /// The version that status and labels carry.
    pub version: String,
    /// The images that differ from [`Image::default_reference`], or all of them.
    pub images: BTreeMap<Image, String>,
    /// The monitoring of the add-ons.
    pub monitoring: Monitoring,
    /// The components that the operator has rights for, by their names in [`COMPONENTS`]. `None`:
    /// all.
    pub components: Option<BTreeSet<String>>,
}

/// The reader of metrics, and the place of runbooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitoring {
    /// The namespace of Prometheus.
    pub namespace: String,
    /// The ServiceAccount of Prometheus in this namespace.
    pub service_account: String,
    /// The address of a runbook, with `%s` once, for the name of the alert.
    runbook_url_template: String,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self {
            namespace: "monitoring".to_owned(),
            service_account: "prometheus-k8s".to_owned(),
            runbook_url_template: "https://kubevirt.io/monitoring/runbooks/%s".to_owned(),
        }
    }
}

impl Monitoring {
    /// The address of an alert's runbook.
    pub fn runbook(&self, alert: &str) -> String {
        self.runbook_url_template.replace("%s", alert)
    }
}

/// The default namespace of the operator and its operands.
pub const DEFAULT_NAMESPACE: &str = "cluster-network-addons";

/// The variable that names the components that the operator has rights for, separated by commas.
/// Unset or empty: all.
pub const COMPONENTS_VARIABLE: &str = "WEFT_ADDONS_COMPONENTS";

/// The components as `weft manifests --components` names them.
pub const COMPONENTS: [&str; 9] = [
    "multus",
    "multus-dynamic-networks",
    "linux-bridge",
    "kubemacpool",
    "ovs",
    "macvtap",
    "secondary-dns",
    "kubevirt-ipam-controller",
    "nmstate",
];

/// The mistake in the environment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// A variable that names a namespace holds something else.
    #[error(
        "environment variable {variable}: {value:?} is not the name of a namespace: at most 63 of a-z, 0-9 and -, beginning and ending with a letter or digit"
    )]
    Namespace {
        /// the variable
        variable: &'static str,
        /// value of the variable
        value: String,
    },
    /// A variable that names an account holds something else.
    #[error(
        "environment variable {variable}: {value:?} is not the name of a ServiceAccount: at most 253 of a-z, 0-9, - and ., a letter or digit at both ends"
    )]
    ServiceAccount {
        /// the variable
        variable: &'static str,
        /// value of the variable
        value: String,
    },
    /// The addresses of runbooks cannot be made from it.
    #[error(
        "environment variable {variable}: {value:?} holds %s {count} times: write it once, where the name of the alert belongs, like https://example.com/runbooks/%s"
    )]
    Runbook {
        /// the variable
        variable: &'static str,
        /// value of the variable
        value: String,
        /// number of occurrences
        count: usize,
    },
    /// The variable that names components holds something else.
    #[error("environment variable {COMPONENTS_VARIABLE}: {value:?} is no component: write names of {}, separated by commas, or unset it for all", COMPONENTS.join(", "))]
    Component {
        /// value of the variable
        value: String,
    },
    /// A variable that names an image holds something else.
    #[error("environment variable {variable}: {source}; unset it to use {default}")]
    Image {
        /// the variable
        variable: &'static str,
        /// what is wrong with what it holds
        source: ImageReferenceError,
        /// what is used when it is unset
        default: &'static str,
    },
}

macro_rules! images {
    ($($name:ident = $field:literal, $env:literal, $default:literal, $doc:literal;)*) => {
        /// An image of a component.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Image {
            $(#[doc = $doc] $name,)*
        }

        impl Image {
            /// All images.
            pub const ALL: &[Image] = &[$(Image::$name),*];

            /// Its field in `spec.images`.
            pub fn field(self) -> &'static str {
                match self { $(Image::$name => $field,)* }
            }

            /// The environment variable that sets it.
            pub fn env(self) -> &'static str {
                match self { $(Image::$name => $env,)* }
            }

            /// The image that counts if the variable is not set or empty.
            pub fn default_reference(self) -> &'static str {
                match self { $(Image::$name => $default,)* }
            }
        }
    };
}

images! {
    Multus = "multus", "MULTUS_IMAGE", "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick", "Multus, the thick variant.";
    MultusDynamicNetworks = "multusDynamicNetworksController", "MULTUS_DYNAMIC_NETWORKS_CONTROLLER_IMAGE", "ghcr.io/k8snetworkplumbingwg/multus-dynamic-networks-controller:v0.3.8", "The dynamic networks controller.";
    LinuxBridge = "linuxBridge", "LINUX_BRIDGE_IMAGE", "quay.io/kubevirt/cni-default-plugins@sha256:976a24392c2a096c38c2663d234b2d3131f5c24558889196d30b9ac1b6716788", "The CNI plugins bridge and tuning. By digest: upstream publishes no usable tag.";
    LinuxBridgeMarker = "linuxBridgeMarker", "LINUX_BRIDGE_MARKER_IMAGE", "quay.io/kubevirt/bridge-marker:0.13.0", "The bridge marker.";
    KubeMacPool = "kubeMacPool", "KUBEMACPOOL_IMAGE", "quay.io/kubevirt/kubemacpool:v0.51.0-28-g0e9285f", "KubeMacPool and its certificate manager.";
    OvsCni = "ovsCni", "OVS_CNI_IMAGE", "ghcr.io/k8snetworkplumbingwg/ovs-cni-plugin:v0.39.0", "The OVS CNI plugins and the OVS marker.";
    MacvtapCni = "macvtapCni", "MACVTAP_CNI_IMAGE", "quay.io/kubevirt/macvtap-cni:v0.13.2", "The macvtap CNI plugin and its device plugin.";
    KubeSecondaryDns = "kubeSecondaryDNS", "KUBE_SECONDARY_DNS_IMAGE", "ghcr.io/kubevirt/kubesecondarydns:v0.0.23", "The secondary DNS's watcher of virtual machines.";
    CoreDns = "coreDNS", "CORE_DNS_IMAGE", "registry.k8s.io/coredns/coredns:v1.10.1", "The secondary DNS's server.";
    KubevirtIpamController = "kubevirtIpamController", "KUBEVIRT_IPAM_CONTROLLER_IMAGE", "ghcr.io/kubevirt/ipam-controller:v0.6.3", "The KubeVirt IPAM controller.";
}

impl Image {
    /// The configuration's part about this image.
    pub(crate) fn of(self, images: &Images) -> &Option<String> {
        // Without `..`, a new field of `Images` does not compile until it has an arm here.
        let Images {
            multus,
            multus_dynamic_networks_controller,
            linux_bridge,
            linux_bridge_marker,
            kube_mac_pool,
            ovs_cni,
            macvtap_cni,
            kube_secondary_dns,
            core_dns,
            kubevirt_ipam_controller,
        } = images;
        match self {
            Self::Multus => multus,
            Self::MultusDynamicNetworks => multus_dynamic_networks_controller,
            Self::LinuxBridge => linux_bridge,
            Self::LinuxBridgeMarker => linux_bridge_marker,
            Self::KubeMacPool => kube_mac_pool,
            Self::OvsCni => ovs_cni,
            Self::MacvtapCni => macvtap_cni,
            Self::KubeSecondaryDns => kube_secondary_dns,
            Self::CoreDns => core_dns,
            Self::KubevirtIpamController => kubevirt_ipam_controller,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            operator_namespace: DEFAULT_NAMESPACE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            monitoring: Monitoring::default(),
            components: None,
            images: Image::ALL
                .iter()
                .map(|image| (*image, image.default_reference().to_owned()))
                .collect(),
        }
    }
}

impl Settings {
    /// Reads `OPERATOR_NAMESPACE`, `OPERAND_NAMESPACE` (by default the operator's),
    /// `OPERATOR_VERSION`, `MONITORING_NAMESPACE`, `MONITORING_SERVICE_ACCOUNT`,
    /// `RUNBOOK_URL_TEMPLATE`, `WEFT_ADDONS_COMPONENTS` and the image variables. An empty variable
    /// counts as unset: an empty image would only fail later, in every pod.
    ///
    /// # Errors
    /// A variable holds what cannot be a namespace, an account, an image or a component.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let get = |variable: &str| {
            env(variable)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let namespace = |variable: &'static str, default: &str| match get(variable) {
            Some(value) if !is_dns_label(&value) => {
                Err(SettingsError::Namespace { variable, value })
            }
            Some(value) => Ok(value),
            None => Ok(default.to_owned()),
        };
        let operator_namespace = namespace("OPERATOR_NAMESPACE", DEFAULT_NAMESPACE)?;
        let mut settings = Self {
            namespace: namespace("OPERAND_NAMESPACE", &operator_namespace)?,
            operator_namespace,
            ..Self::default()
        };
        if let Some(version) = get("OPERATOR_VERSION") {
            settings.version = version;
        }
        settings.monitoring.namespace =
            namespace("MONITORING_NAMESPACE", &settings.monitoring.namespace)?;
        if let Some(value) = get("MONITORING_SERVICE_ACCOUNT") {
            if !is_object_name(&value) {
                return Err(SettingsError::ServiceAccount {
                    variable: "MONITORING_SERVICE_ACCOUNT",
                    value,
                });
            }
            settings.monitoring.service_account = value;
        }
        if let Some(value) = get("RUNBOOK_URL_TEMPLATE") {
            let count = value.matches("%s").count();
            if count != 1 {
                return Err(SettingsError::Runbook {
                    variable: "RUNBOOK_URL_TEMPLATE",
                    value,
                    count,
                });
            }
            settings.monitoring.runbook_url_template = value;
        }
        if let Some(value) = get(COMPONENTS_VARIABLE) {
            let names: BTreeSet<String> = value
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect();
            if let Some(unknown) = names
                .iter()
                .find(|name| !COMPONENTS.contains(&name.as_str()))
            {
                return Err(SettingsError::Component {
                    value: unknown.clone(),
                });
            }
            settings.components = Some(names);
        }
        for (image, reference) in &mut settings.images {
            let Some(value) = get(image.env()) else {
                continue;
            };
            let parsed = value.parse::<ImageReference>();
            *reference = parsed
                .map_err(|source| SettingsError::Image {
                    variable: image.env(),
                    source,
                    default: image.default_reference(),
                })?
                .to_string();
        }
        Ok(settings)
    }

    /// Reports whether the operator has the rights for the component of this name in
    /// [`COMPONENTS`].
    pub fn has_component(&self, name: &str) -> bool {
        self.components
            .as_ref()
            .is_none_or(|names| names.contains(name))
    }

    /// The reference of an image.
    pub fn image(&self, image: Image) -> &str {
        self.images
            .get(&image)
            .map_or(image.default_reference(), String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_env(|name| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn nothing_set_gives_the_defaults() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        assert!(
            Image::ALL
                .iter()
                .all(|image| image.default_reference().parse::<ImageReference>().is_ok())
        );
        assert_eq!(
            read(&[("MULTUS_IMAGE", ""), ("OPERATOR_NAMESPACE", " ")]).unwrap(),
            Settings::default()
        );
    }

    #[test]
    fn operands_live_with_the_operator_unless_told_otherwise() {
        let settings = read(&[("OPERATOR_NAMESPACE", "here")]).unwrap();
        assert_eq!(
            (
                settings.operator_namespace.as_str(),
                settings.namespace.as_str()
            ),
            ("here", "here")
        );
        let settings = read(&[
            ("OPERATOR_NAMESPACE", "here"),
            ("OPERAND_NAMESPACE", "there"),
        ])
        .unwrap();
        assert_eq!(
            (
                settings.operator_namespace.as_str(),
                settings.namespace.as_str()
            ),
            ("here", "there")
        );
    }

    #[test]
    fn every_image_follows_its_own_variable() {
        for image in Image::ALL {
            let settings = read(&[(image.env(), "registry.example/x:1")]).unwrap();
            for other in Image::ALL {
                let expected = if other == image {
                    "registry.example/x:1"
                } else {
                    other.default_reference()
                };
                assert_eq!(settings.image(*other), expected, "{image:?}");
            }
        }
    }

    #[test]
    fn a_runbooks_address_needs_the_alerts_name_once() {
        assert_eq!(
            read(&[]).unwrap().monitoring.runbook("A"),
            "https://kubevirt.io/monitoring/runbooks/A"
        );
        assert_eq!(
            read(&[("RUNBOOK_URL_TEMPLATE", "x://%s/y")])
                .unwrap()
                .monitoring
                .runbook("A"),
            "x://A/y"
        );
        for (template, count) in [("https://example.com", 0), ("%s/%s", 2)] {
            let error = read(&[("RUNBOOK_URL_TEMPLATE", template)]).unwrap_err();
            assert!(
                matches!(error, SettingsError::Runbook { count: found, .. } if found == count),
                "{error}"
            );
        }
        assert!(matches!(
            read(&[("MONITORING_NAMESPACE", "A")]),
            Err(SettingsError::Namespace {
                variable: "MONITORING_NAMESPACE",
                ..
            })
        ));
        assert!(matches!(
            read(&[("MONITORING_SERVICE_ACCOUNT", "a b")]),
            Err(SettingsError::ServiceAccount { .. })
        ));
    }

    #[test]
    fn all_components_may_be_deployed_unless_some_are_named() {
        let has = |value: &str, name: &str| {
            read(&[(COMPONENTS_VARIABLE, value)])
                .unwrap()
                .has_component(name)
        };
        assert!(has("", "ovs") && has("multus, ovs", "ovs") && !has("multus,ovs", "kubemacpool"));
        let error = read(&[(COMPONENTS_VARIABLE, "multus,linuxBridge")])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("environment variable WEFT_ADDONS_COMPONENTS: \"linuxBridge\" is no component: write names of multus, "),
            "{error}"
        );
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert!(matches!(
            read(&[("OPERAND_NAMESPACE", "Not-A-Namespace")]),
            Err(SettingsError::Namespace {
                variable: "OPERAND_NAMESPACE",
                ..
            })
        ));
        assert!(matches!(
            read(&[("CORE_DNS_IMAGE", "registry.example/Core:1")]),
            Err(SettingsError::Image {
                variable: "CORE_DNS_IMAGE",
                ..
            })
        ));
    }
}
