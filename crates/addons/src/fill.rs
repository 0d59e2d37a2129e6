//! Fills in what the user left open: from the previous configuration where a value must not change
//! by itself, else by default.
//!
//! A value that the user gives always counts. Carried over are the MAC range, the pull policy, the
//! certificates' rotation, the CRI socket and the device plugin's ConfigMap. All else goes back to
//! its default as soon as it is left out.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_api::addons::{
    ImagePullSecret, Images, KubeMacPool, KubeSecondaryDns, KubevirtIpamController, LinuxBridge,
    Macvtap, Multus, MultusDynamicNetworks, NetworkAddonsConfig, NetworkAddonsConfigSpec, NmState,
    Ovs, Placement, PlacementConfiguration, SelfSignConfiguration, TlsSecurityProfile,
};
use weft_operands::{
    duration::GoDuration,
    image::{ImageReference, Registry},
    pull_policy::PullPolicy,
};
use weft_plan::{DriftPolicy, Facts, LogLevel, Notice};

use crate::{
    Image, Settings,
    host::{self, HostPaths, Preset},
    mac::MacRange,
    resources::Resources,
    tls::Tls,
    validate::{IpamController, RequestedMacPool, SecondaryDns, SelfSign, Valid, validate},
};

/// The label of control-plane nodes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The complete configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// True if Multus is deployed.
    pub multus: bool,
    /// The bridge CNI plugin and its marker are deployed.
    pub linux_bridge: bool,
    /// The OVS CNI plugin and its marker are deployed.
    pub ovs: bool,
    /// Node network configuration is wanted.
    pub nmstate: bool,
    /// KubeMacPool is deployed, with these addresses.
    pub kube_mac_pool: Option<MacRange>,
    /// The dynamic networks controller is wanted, with this socket of the container runtime.
    pub multus_dynamic_networks: Option<String>,
    /// Macvtap is wanted, with this ConfigMap of the device plugin.
    pub macvtap: Option<String>,
    /// The secondary DNS is wanted.
    pub kube_secondary_dns: Option<SecondaryDns>,
    /// The KubeVirt IPAM controller is wanted.
    pub kubevirt_ipam_controller: Option<IpamController>,
    /// Images that are named. The others are those of the settings.
    pub images: BTreeMap<Image, ImageReference>,
    /// The registry of the others.
    pub image_registry: Option<Registry>,
    /// Names of Secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
    /// When images are pulled.
    pub image_pull_policy: PullPolicy,
    /// Rotation of certificates.
    pub self_sign: SelfSign,
    /// Where the nodes have what components need of them.
    pub host_paths: HostPaths,
    /// Requests and limits of containers.
    pub resources: Resources,
    /// Where components run that serve the cluster as a whole.
    pub infra: Placement,
    /// Where components run that serve the pods of a node.
    pub workloads: Placement,
    /// The TLS profile as written.
    pub tls_profile: Option<TlsSecurityProfile>,
    /// Settings that follow from the profile.
    pub tls: Tls,
    /// The treatment of differences that others have made.
    pub drift: DriftPolicy,
    /// The operator's log level. `None` keeps the level from its start.
    pub log_level: Option<LogLevel>,
}

const DEFAULT_DEVICE_PLUGIN_CONFIG: &str = "macvtap-deviceplugin-config";

/// Fills in what is open. RandomBytes are thrown only for a MAC range that nothing else determines.
pub fn fill(
    valid: Valid,
    previous: Option<&NetworkAddonsConfigSpec>,
    facts: &Facts,
    random: &mut dyn FnMut(&mut [u8]),
) -> (Effective, Vec<Notice>) {
    // No `..`: a setting that is new in `Valid` must be decided on here.
    let Valid {
        multus,
        linux_bridge,
        ovs,
        nmstate,
        kube_mac_pool,
        multus_dynamic_networks,
        macvtap,
        kube_secondary_dns,
        kubevirt_ipam_controller,
        images,
        image_registry,
        image_pull_secrets,
        image_pull_policy,
        self_sign,
        host_paths,
        resources,
        infra,
        workloads,
        tls_profile,
        tls,
        drift,
        log_level,
    } = valid;
    let mut carried = Carried {
        previous,
        notices: Vec::new(),
    };
    let infra_is_default = infra.is_none();
    let effective = Effective {
        multus,
        linux_bridge,
        ovs,
        nmstate,
        kube_mac_pool: kube_mac_pool.map(|RequestedMacPool { range }| {
            range
                .or_else(|| carried.mac_range())
                .unwrap_or_else(|| MacRange::random(random))
        }),
        multus_dynamic_networks: multus_dynamic_networks.map(|networks| {
            networks
                .cri_socket
                .or_else(|| carried.cri_socket())
                .unwrap_or_else(|| host::default_cri_socket(facts, host_paths.preset))
        }),
        macvtap: macvtap.map(|macvtap| {
            macvtap
                .device_plugin_config
                .or_else(|| carried.device_plugin_config())
                .unwrap_or_else(|| DEFAULT_DEVICE_PLUGIN_CONFIG.to_owned())
        }),
        kube_secondary_dns,
        kubevirt_ipam_controller,
        images,
        image_registry,
        image_pull_secrets,
        image_pull_policy: image_pull_policy
            .or_else(|| carried.image_pull_policy())
            .unwrap_or_default(),
        self_sign: self_sign
            .or_else(|| carried.self_sign())
            .unwrap_or_default(),
        host_paths: host_paths.fill(facts, carried.preset().filter(|_| facts.nodes_unknown)),
        resources,
        infra: infra.unwrap_or_else(infra_by_default),
        workloads: workloads.unwrap_or_else(workloads_by_default),
        tls_profile,
        tls,
        drift: drift.unwrap_or_default(),
        log_level,
    };
    let Carried { mut notices, .. } = carried;
    notices.extend(
        effective
            .multus_dynamic_networks
            .as_deref()
            .and_then(|socket| host::other_cri_sockets(facts, socket)),
    );
    if let Some(about) = effective.first_with_plugins() {
        let elsewhere = host_paths.elsewhere(facts, &effective.host_paths);
        let messages = elsewhere
            .into_iter()
            .chain(host::windows(facts, &effective.workloads));
        notices.extend(messages.map(|message| Notice {
            about: about.to_owned(),
            message,
        }));
    }
    if let Some(about) = effective.first_of_infra().filter(|_| infra_is_default) {
        let message = host::tainted_control_plane(facts);
        notices.extend(message.map(|message| Notice {
            about: about.to_owned(),
            message,
        }));
    }
    (effective, notices)
}

/// The certificates' rotation that the documentation has always promised.
impl Default for SelfSign {
    fn default() -> Self {
        let hours = GoDuration::from_hours;
        Self {
            ca_rotate: hours(168),
            ca_overlap: hours(24),
            cert_rotate: hours(24),
            cert_overlap: hours(8),
        }
    }
}

/// On control-plane nodes if possible.
pub(crate) fn infra_by_default() -> Placement {
    use k8s_openapi::api::core::v1::{
        Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
    };
    let prefer = |weight, label: &str| PreferredSchedulingTerm {
        weight,
        preference: NodeSelectorTerm {
            match_expressions: Some(vec![NodeSelectorRequirement {
                key: label.to_owned(),
                operator: "Exists".to_owned(),
                values: None,
            }]),
            match_fields: None,
        },
    };
    let preferred = vec![prefer(10, CONTROL_PLANE)];
    let node_affinity = NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(preferred),
        ..NodeAffinity::default()
    };
    Placement {
        affinity: Some(Affinity {
            node_affinity: Some(node_affinity),
            ..Affinity::default()
        }),
        ..Placement::default()
    }
}

/// The preferences of [`infra_by_default`] as the original has them. The API server warns about the
/// second label, which no node of a supported version of Kubernetes has.
pub(crate) fn preferences_of_original() -> Value {
    let prefer = |weight: i32, label: &str| {
        let term = json!([{"key": label, "operator": "Exists"}]);
        json!({"weight": weight, "preference": {"matchExpressions": term}})
    };
    json!([
        prefer(10, CONTROL_PLANE),
        prefer(1, "node-role.kubernetes.io/master")
    ])
}

/// On all Linux nodes, also those that are cordoned.
fn workloads_by_default() -> Placement {
    use k8s_openapi::api::core::v1::Toleration;
    let unschedulable = Toleration {
        key: Some("node.kubernetes.io/unschedulable".to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoSchedule".to_owned()),
        ..Toleration::default()
    };
    Placement {
        node_selector: Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into()),
        tolerations: Some(vec![unschedulable]),
        ..Placement::default()
    }
}

/// Values of the previous configuration. The original wrote things into its record that it should
/// have refused, such a value is not carried over, and a notice says so.
struct Carried<'a> {
    previous: Option<&'a NetworkAddonsConfigSpec>,
    notices: Vec<Notice>,
}

impl Carried<'_> {
    fn mac_range(&mut self) -> Option<MacRange> {
        let kube_mac_pool = self.previous?.kube_mac_pool.clone()?;
        self.checked(
            "kubeMacPool",
            NetworkAddonsConfigSpec {
                kube_mac_pool: Some(kube_mac_pool),
                ..Default::default()
            },
        )?
        .kube_mac_pool?
        .range
    }

    fn image_pull_policy(&mut self) -> Option<PullPolicy> {
        let image_pull_policy = self.previous?.image_pull_policy.clone();
        self.checked(
            "imagePullPolicy",
            NetworkAddonsConfigSpec {
                image_pull_policy,
                ..Default::default()
            },
        )?
        .image_pull_policy
    }

    fn self_sign(&mut self) -> Option<SelfSign> {
        let self_sign_configuration = self.previous?.self_sign_configuration.clone();
        self.checked(
            "selfSignConfiguration",
            NetworkAddonsConfigSpec {
                self_sign_configuration,
                ..Default::default()
            },
        )?
        .self_sign
    }

    fn cri_socket(&mut self) -> Option<String> {
        let multus_dynamic_networks = self.previous?.multus_dynamic_networks.clone();
        let spec = NetworkAddonsConfigSpec {
            multus: Some(Multus {}),
            multus_dynamic_networks,
            ..Default::default()
        };
        self.checked("multusDynamicNetworks", spec)?
            .multus_dynamic_networks?
            .cri_socket
    }

    fn device_plugin_config(&mut self) -> Option<String> {
        let macvtap = self.previous?.macvtap.clone();
        self.checked(
            "macvtap",
            NetworkAddonsConfigSpec {
                macvtap,
                ..Default::default()
            },
        )?
        .macvtap?
        .device_plugin_config
    }

    /// Only for nodes of which nothing is known: folders that change by themselves would take their
    /// plugins from all of them.
    fn preset(&self) -> Option<Preset> {
        self.previous?
            .host_paths
            .as_ref()?
            .preset
            .as_deref()?
            .parse()
            .ok()
    }

    fn checked(&mut self, about: &str, spec: NetworkAddonsConfigSpec) -> Option<Valid> {
        validate(&NetworkAddonsConfig::new(weft_api::addons::NAME, spec))
            .map_err(|problems| {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                let message =
                    format!("the value of the previous configuration is not carried over, because it is invalid: {}", problems.join("; "));
                self.notices.push(Notice { about: about.to_owned(), message });
            })
            .ok()
    }
}

impl Effective {
    /// The configuration as a specification that leaves nothing open. Reading it back gives the
    /// same configuration.
    pub fn to_spec(&self) -> NetworkAddonsConfigSpec {
        // Always there, if only as `{}`, in the record of the original.
        let recorded = |placement: &Placement| Placement {
            affinity: Some(placement.affinity.clone().unwrap_or_default()),
            ..placement.clone()
        };
        NetworkAddonsConfigSpec {
            multus: self.multus.then_some(Multus {}),
            linux_bridge: self.linux_bridge.then_some(LinuxBridge {}),
            ovs: self.ovs.then_some(Ovs {}),
            nmstate: self.nmstate.then_some(NmState {}),
            kube_mac_pool: self.kube_mac_pool.as_ref().map(|range| KubeMacPool {
                range_start: Some(range.start().to_string()),
                range_end: Some(range.end().to_string()),
            }),
            multus_dynamic_networks: self.multus_dynamic_networks.clone().map(|socket| {
                MultusDynamicNetworks {
                    host_cri_socket_path: Some(socket),
                }
            }),
            macvtap: self.macvtap.clone().map(|config| Macvtap {
                device_plugin_config: Some(config),
            }),
            kube_secondary_dns: self
                .kube_secondary_dns
                .as_ref()
                .map(|dns| KubeSecondaryDns {
                    domain: dns.domain.clone(),
                    name_server_ip: dns.name_server_ip.map(|ip| ip.to_string()),
                    ..KubeSecondaryDns::default()
                }),
            kubevirt_ipam_controller: self.kubevirt_ipam_controller.as_ref().map(|controller| {
                KubevirtIpamController {
                    default_network_nad_namespace: controller.nad_namespace.clone(),
                    certificate_provider: controller
                        .certificate_provider
                        .map(|provider| provider.to_string()),
                }
            }),
            images: (!self.images.is_empty()).then(|| self.named_images()),
            image_registry: self.image_registry.as_ref().map(ToString::to_string),
            image_pull_secrets: (!self.image_pull_secrets.is_empty()).then(|| {
                self.image_pull_secrets
                    .iter()
                    .map(|name| ImagePullSecret { name: name.clone() })
                    .collect()
            }),
            image_pull_policy: Some(self.image_pull_policy.to_string()),
            self_sign_configuration: Some(SelfSignConfiguration {
                ca_rotate_interval: Some(self.self_sign.ca_rotate.to_string()),
                ca_overlap_interval: Some(self.self_sign.ca_overlap.to_string()),
                cert_rotate_interval: Some(self.self_sign.cert_rotate.to_string()),
                cert_overlap_interval: Some(self.self_sign.cert_overlap.to_string()),
            }),
            host_paths: Some(self.host_paths.to_spec()),
            resources: self.resources.to_spec(),
            placement_configuration: Some(PlacementConfiguration {
                infra: Some(recorded(&self.infra)),
                workloads: Some(recorded(&self.workloads)),
            }),
            tls_security_profile: self.tls_profile.clone(),
            drift_policy: Some(self.drift.to_string()),
            operator_log_level: self.log_level.map(|level| level.to_string()),
        }
    }

    /// The first of the components that put something into folders of the nodes.
    fn first_with_plugins(&self) -> Option<&'static str> {
        let all = [
            ("multus", self.multus),
            ("linuxBridge", self.linux_bridge),
            ("ovs", self.ovs),
            ("macvtap", self.macvtap.is_some()),
        ];
        all.into_iter()
            .find(|(_, deployed)| *deployed)
            .map(|(name, _)| name)
    }

    /// The first of the components that serve the cluster as a whole.
    fn first_of_infra(&self) -> Option<&'static str> {
        let all = [
            ("kubeMacPool", self.kube_mac_pool.is_some()),
            ("kubeSecondaryDNS", self.kube_secondary_dns.is_some()),
            (
                "kubevirtIpamController",
                self.kubevirt_ipam_controller.is_some(),
            ),
        ];
        all.into_iter()
            .find(|(_, deployed)| *deployed)
            .map(|(name, _)| name)
    }

    fn named_images(&self) -> Images {
        let named = |image| self.images.get(&image).map(ToString::to_string);
        Images {
            multus: named(Image::Multus),
            multus_dynamic_networks_controller: named(Image::MultusDynamicNetworks),
            linux_bridge: named(Image::LinuxBridge),
            linux_bridge_marker: named(Image::LinuxBridgeMarker),
            kube_mac_pool: named(Image::KubeMacPool),
            ovs_cni: named(Image::OvsCni),
            macvtap_cni: named(Image::MacvtapCni),
            kube_secondary_dns: named(Image::KubeSecondaryDns),
            core_dns: named(Image::CoreDns),
            kubevirt_ipam_controller: named(Image::KubevirtIpamController),
        }
    }

    /// The image that a component runs: the one that is named, else that of the settings, from the
    /// registry that holds copies.
    pub(crate) fn image(&self, image: Image, settings: &Settings) -> String {
        match (self.images.get(&image), &self.image_registry) {
            (Some(named), _) => named.to_string(),
            (None, Some(registry)) => registry.copy_of(settings.image(image)),
            (None, None) => settings.image(image).to_owned(),
        }
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// None that is known: the types hold nothing that JSON cannot.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self.to_spec())
    }
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
