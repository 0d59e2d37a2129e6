//! From the resource as it is stored to a configuration that holds nothing invalid, or to the list
//! of all that is wrong.
//!
//! Most rules are in the schema too, as CEL, so that `kubectl apply` already refuses. They are
//! checked again because a stored object may be older than the schema.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Value, json};
use weft_api::addons::{
    HostPaths, ImagePullSecret, Images, KubeMacPool, KubeSecondaryDns, NAME, NetworkAddonsConfig,
    NetworkAddonsConfigSpec, Placement, SelfSignConfiguration, TlsSecurityProfile,
};
use weft_operands::{
    duration::GoDuration,
    image::{ImageReference, Registry},
    problems::{Problems, given},
    pull_policy::PullPolicy,
    scheduling,
    text::{is_absolute, is_dns_domain, is_dns_label, is_object_name, is_socket},
};
use weft_plan::{DriftPolicy, LogLevel, Problem};

use crate::{
    Image,
    host::RequestedPaths,
    mac::{MacAddress, MacError, MacRange},
    resources::Resources,
    tls::Tls,
};

/// The user's configuration without anything invalid. Open fields are still open.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid {
    /// True if the specification asks for Multus.
    pub multus: bool,
    /// The bridge CNI plugin and its marker are wanted.
    pub linux_bridge: bool,
    /// The OVS CNI plugin and its marker are wanted.
    pub ovs: bool,
    /// Node network configuration is wanted.
    pub nmstate: bool,
    /// The request for KubeMacPool. `None` if it is not wanted.
    pub kube_mac_pool: Option<RequestedMacPool>,
    /// The dynamic networks controller is wanted.
    pub multus_dynamic_networks: Option<RequestedDynamicNetworks>,
    /// The request for Macvtap. `None` if it is not wanted.
    pub macvtap: Option<RequestedMacvtap>,
    /// The secondary DNS is wanted.
    pub kube_secondary_dns: Option<SecondaryDns>,
    /// The KubeVirt IPAM controller is wanted.
    pub kubevirt_ipam_controller: Option<IpamController>,
    /// Images that are named.
    pub images: BTreeMap<Image, ImageReference>,
    /// The registry of all other images.
    pub image_registry: Option<Registry>,
    /// Names of Secrets for pulling them.
    pub image_pull_secrets: Vec<String>,
    /// When images are pulled.
    pub image_pull_policy: Option<PullPolicy>,
    /// Rotation of certificates.
    pub self_sign: Option<SelfSign>,
    /// Where the nodes have what components need of them.
    pub host_paths: RequestedPaths,
    /// Requests and limits of containers.
    pub resources: Resources,
    /// Where components run that serve the cluster as a whole.
    pub infra: Option<Placement>,
    /// Where components run that serve the pods of a node.
    pub workloads: Option<Placement>,
    /// The TLS profile as written.
    pub tls_profile: Option<TlsSecurityProfile>,
    /// Settings that follow from the profile.
    pub tls: Tls,
    /// The treatment of differences that others have made.
    pub drift: Option<DriftPolicy>,
    /// The operator's log level.
    pub log_level: Option<LogLevel>,
}

/// KubeMacPool as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedMacPool {
    /// Its addresses, or whichever.
    pub range: Option<MacRange>,
}

/// The dynamic networks controller as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedDynamicNetworks {
    /// Path of the container runtime's socket on the nodes.
    pub cri_socket: Option<String>,
}

/// Macvtap as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedMacvtap {
    /// Name of the device plugin's ConfigMap.
    pub device_plugin_config: Option<String>,
}

/// The request for the secondary DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryDns {
    /// The DNS domain that it serves.
    pub domain: Option<String>,
    /// The address of the name server.
    pub name_server_ip: Option<IpAddr>,
    /// One of them is written in capitals.
    pub outdated_spelling: bool,
}

/// The KubeVirt IPAM controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpamController {
    /// The namespace of the default network's NetworkAttachmentDefinition.
    pub nad_namespace: Option<String>,
    /// The provider of the webhook's certificate, if the user chose one.
    pub certificate_provider: Option<CertificateProvider>,
}

weft_plan::choice! {
    /// The provider of a webhook's serving certificate.
    pub enum CertificateProvider("a provider of certificates") {
        /// Weft itself.
        Weft,
        /// cert-manager.
        CertManager,
    }
}

/// Rotation of the certificates that components issue for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSign {
    /// How long a CA is valid.
    pub ca_rotate: GoDuration,
    /// How long an old and a new CA are both trusted.
    pub ca_overlap: GoDuration,
    /// How long a certificate is valid.
    pub cert_rotate: GoDuration,
    /// How long an old and a new certificate overlap.
    pub cert_overlap: GoDuration,
}

/// Reads the resource as the API server has it, in either version.
///
/// # Errors
/// Every field whose value is of another type than it must be: possible in objects that were stored
/// without a schema.
pub fn read(resource: &Value) -> Result<NetworkAddonsConfig, Vec<Problem>> {
    let whole = match serde_json::from_value(resource.clone()) {
        Ok(resource) => return Ok(resource),
        Err(error) => Problem {
            field: "metadata".into(),
            message: format!("not readable: {error}"),
        },
    };
    let Some(spec) = resource.get("spec").and_then(Value::as_object) else {
        return Err(vec![Problem {
            field: "spec".into(),
            message: "is not an object: write at least `spec: {}`".into(),
        }]);
    };
    let by_field = spec.iter().filter_map(|(field, value)| {
        let error = serde_json::from_value::<NetworkAddonsConfigSpec>(json!({field: value})).err()?;
        Some(Problem {
            field: format!("spec.{field}"),
            message: format!("has a value of the wrong type: {error}; see `kubectl explain networkaddonsconfig.spec.{field}`"),
        })
    });
    let problems: Vec<_> = by_field.collect();
    Err(if problems.is_empty() {
        vec![whole]
    } else {
        problems
    })
}

/// Checks every rule.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn validate(resource: &NetworkAddonsConfig) -> Result<Valid, Vec<Problem>> {
    let mut problems = Problems::default();
    let spec = &resource.spec;

    let name = resource.metadata.name.as_deref().unwrap_or_default();
    if name != NAME {
        problems
            .push("metadata.name", format!("{name:?} is not acted on: there is one NetworkAddonsConfig a cluster, and its name is {NAME}"));
    }
    if spec.multus_dynamic_networks.is_some() && spec.multus.is_none() {
        problems.push(
            "spec.multusDynamicNetworks",
            "needs multus: add `multus: {}` to the spec",
        );
    }
    let placement = spec.placement_configuration.clone().unwrap_or_default();
    for (field, placement) in [
        ("infra", &placement.infra),
        ("workloads", &placement.workloads),
    ] {
        if let Some(Placement {
            node_selector,
            affinity,
            tolerations,
        }) = placement
        {
            let field = |name: &str| format!("spec.placementConfiguration.{field}.{name}");
            scheduling::node_selector(
                &field("nodeSelector"),
                node_selector.as_ref(),
                &mut problems,
            );
            scheduling::affinity(&field("affinity"), affinity.as_ref(), &mut problems);
            scheduling::tolerations(&field("tolerations"), tolerations.as_deref(), &mut problems);
        }
    }
    let tls = Tls::of(spec.tls_security_profile.as_ref()).unwrap_or_else(|wrong| {
        problems.extend(wrong);
        Tls::default()
    });
    let resources =
        Resources::of(spec.resources.as_deref().unwrap_or_default()).unwrap_or_else(|wrong| {
            problems.extend(wrong);
            Resources::default()
        });
    let valid = Valid {
        multus: spec.multus.is_some(),
        linux_bridge: spec.linux_bridge.is_some(),
        ovs: spec.ovs.is_some(),
        nmstate: spec.nmstate.is_some(),
        kube_mac_pool: spec.kube_mac_pool.as_ref().map(|pool| RequestedMacPool { range: mac_range(pool, &mut problems) }),
        multus_dynamic_networks: spec.multus_dynamic_networks.as_ref().map(|networks| RequestedDynamicNetworks {
            cri_socket: problems.text(
                "spec.multusDynamicNetworks.hostCRISocketPath",
                &networks.host_cri_socket_path,
                is_socket,
                "is not the absolute path of a socket: write it like /run/containerd/containerd.sock, without '.', '..', '//' and ':'",
            ),
        }),
        macvtap: spec.macvtap.as_ref().map(|macvtap| RequestedMacvtap {
            device_plugin_config: problems.text(
                "spec.macvtap.devicePluginConfig",
                &macvtap.device_plugin_config,
                is_object_name,
                "is not the name of a ConfigMap: at most 253 of a-z, 0-9, - and ., a letter or digit at both ends",
            ),
        }),
        kube_secondary_dns: spec.kube_secondary_dns.as_ref().map(|dns| secondary_dns(dns, &mut problems)),
        kubevirt_ipam_controller: spec.kubevirt_ipam_controller.as_ref().map(|controller| IpamController {
            nad_namespace: problems.text(
                "spec.kubevirtIpamController.defaultNetworkNADNamespace",
                &controller.default_network_nad_namespace,
                is_dns_label,
                "is not the name of a namespace: at most 63 of a-z, 0-9 and -, a letter or digit at both ends",
            ),
            certificate_provider: problems
                .parse("spec.kubevirtIpamController.certificateProvider", given(&controller.certificate_provider)),
        }),
        images: spec.images.as_ref().map(|named| images(named, &mut problems)).unwrap_or_default(),
        image_registry: problems.parse("spec.imageRegistry", given(&spec.image_registry)),
        image_pull_secrets: image_pull_secrets(spec.image_pull_secrets.as_deref().unwrap_or_default(), &mut problems),
        image_pull_policy: problems.parse("spec.imagePullPolicy", given(&spec.image_pull_policy)),
        self_sign: spec.self_sign_configuration.as_ref().and_then(|rotation| self_sign(rotation, &mut problems)),
        host_paths: spec.host_paths.as_ref().map(|paths| host_paths(paths, &mut problems)).unwrap_or_default(),
        resources,
        infra: placement.infra.map(without_empty_parts),
        workloads: placement.workloads.map(without_empty_parts),
        tls_profile: spec.tls_security_profile.clone(),
        tls,
        drift: problems.parse("spec.driftPolicy", given(&spec.drift_policy)),
        log_level: problems.parse("spec.operatorLogLevel", given(&spec.operator_log_level)),
    };
    problems.or(valid)
}

/// Both ends or none. An empty text counts as none.
fn mac_range(pool: &KubeMacPool, problems: &mut Problems) -> Option<MacRange> {
    const START: &str = "spec.kubeMacPool.rangeStart";
    const END: &str = "spec.kubeMacPool.rangeEnd";
    let (start, end) = match (given(&pool.range_start), given(&pool.range_end)) {
        (Some(start), Some(end)) => (
            problems.parse::<MacAddress>(START, Some(start)),
            problems.parse::<MacAddress>(END, Some(end)),
        ),
        (None, None) => return None,
        (Some(_), None) => {
            return problems.none(
                END,
                "is missing, while rangeStart is given: give both, or none for a random range",
            );
        }
        (None, Some(_)) => {
            return problems.none(
                START,
                "is missing, while rangeEnd is given: give both, or none for a random range",
            );
        }
    };
    let (start, end) = (start?, end?);
    let both_multicast = start.is_multicast() && end.is_multicast();
    let end_again = end.clone();
    let multicast_start = start.is_multicast();
    MacRange::new(start, end)
        .inspect_err(|error| {
            let field = if matches!(error, MacError::Multicast(_)) && multicast_start {
                START
            } else {
                END
            };
            problems.push(field, error.to_string());
            if both_multicast {
                problems.push(END, MacError::Multicast(end_again).to_string());
            }
        })
        .ok()
}

fn secondary_dns(dns: &KubeSecondaryDns, problems: &mut Problems) -> SecondaryDns {
    for (field, both) in [
        (
            ("domain", "DOMAIN"),
            dns.domain.is_some() && dns.domain_upper.is_some(),
        ),
        (
            ("nameServerIP", "NAME_SERVER_IP"),
            dns.name_server_ip.is_some() && dns.name_server_ip_upper.is_some(),
        ),
    ] {
        if both {
            problems.push(
                &format!("spec.kubeSecondaryDNS.{}", field.1),
                format!(
                    "is the outdated spelling of {0}, which is given too: keep {0} only",
                    field.0
                ),
            );
        }
    }
    SecondaryDns {
        domain: problems.text(
            "spec.kubeSecondaryDNS.domain",
            &dns.effective_domain().map(str::to_owned),
            is_dns_domain,
            "is not a DNS domain: write it in lower case without a dot at the end, like secondary.example.com",
        ),
        name_server_ip: dns.effective_name_server_ip().and_then(|text| {
            // As CEL's `isIP`: an IPv4 address is not written as one of IPv6 (::ffff:192.0.2.53).
            let address = text.parse().ok().filter(|ip| !matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()));
            if address.is_none() {
                let message = format!("{text:?} is not an IP address: write it like 192.0.2.53 or 2001:db8::53");
                problems.push("spec.kubeSecondaryDNS.nameServerIP", message);
            }
            address
        }),
        outdated_spelling: dns.uses_upper_case_spelling(),
    }
}

/// All four or none.
fn self_sign(rotation: &SelfSignConfiguration, problems: &mut Problems) -> Option<SelfSign> {
    let intervals = [
        ("caRotateInterval", given(&rotation.ca_rotate_interval)),
        ("caOverlapInterval", given(&rotation.ca_overlap_interval)),
        ("certRotateInterval", given(&rotation.cert_rotate_interval)),
        (
            "certOverlapInterval",
            given(&rotation.cert_overlap_interval),
        ),
    ];
    if intervals.iter().all(|(_, text)| text.is_none()) {
        return None;
    }
    let path = |field: &str| format!("spec.selfSignConfiguration.{field}");
    let missing: Vec<_> = intervals
        .iter()
        .filter(|(_, text)| text.is_none())
        .map(|(field, _)| *field)
        .collect();
    if !missing.is_empty() {
        problems.push(
            "spec.selfSignConfiguration",
            format!(
                "lacks {}: give all four intervals, or none",
                missing.join(", ")
            ),
        );
    }
    let [ca_rotate, ca_overlap, cert_rotate, cert_overlap] =
        intervals.map(|(field, text)| problems.parse::<GoDuration>(&path(field), text));
    let mut not_longer =
        |(short, short_field): (&Option<GoDuration>, &str),
         (long, long_field): (&Option<GoDuration>, &str)| {
            if let (Some(short), Some(long)) = (short, long)
                && short > long
            {
                problems.push(
                &path(short_field),
                format!("{short} is longer than {long_field}, which is {long}: shorten it, or lengthen {long_field}"),
            );
            }
        };
    not_longer(
        (&ca_overlap, "caOverlapInterval"),
        (&ca_rotate, "caRotateInterval"),
    );
    not_longer(
        (&cert_rotate, "certRotateInterval"),
        (&ca_rotate, "caRotateInterval"),
    );
    not_longer(
        (&cert_overlap, "certOverlapInterval"),
        (&cert_rotate, "certRotateInterval"),
    );
    Some(SelfSign {
        ca_rotate: ca_rotate?,
        ca_overlap: ca_overlap?,
        cert_rotate: cert_rotate?,
        cert_overlap: cert_overlap?,
    })
}

fn host_paths(paths: &HostPaths, problems: &mut Problems) -> RequestedPaths {
    // Without `..`, a new field of `HostPaths` does not compile until it is checked here.
    let HostPaths {
        preset,
        cni_bin_dir,
        cni_config_dir,
        kubelet_dir,
        network_namespace_dir,
    } = paths;
    let preset = problems.parse("spec.hostPaths.preset", given(preset));
    let mut folder = |field: &str, path: &Option<String>| {
        let complaint = "is not the absolute path of a folder: write it like /opt/cni/bin, without '.', '..', '//' and ':'";
        problems.text(
            &format!("spec.hostPaths.{field}"),
            path,
            is_absolute,
            complaint,
        )
    };
    RequestedPaths {
        preset,
        cni_bin_dir: folder("cniBinDir", cni_bin_dir),
        cni_config_dir: folder("cniConfigDir", cni_config_dir),
        kubelet_dir: folder("kubeletDir", kubelet_dir),
        network_namespace_dir: folder("networkNamespaceDir", network_namespace_dir),
    }
}

fn images(images: &Images, problems: &mut Problems) -> BTreeMap<Image, ImageReference> {
    let references = Image::ALL.iter().filter_map(|image| {
        let field = format!("spec.images.{}", image.field());
        Some((*image, problems.parse(&field, given(image.of(images)))?))
    });
    references.collect()
}

fn image_pull_secrets(secrets: &[ImagePullSecret], problems: &mut Problems) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, ImagePullSecret { name }) in secrets.iter().enumerate() {
        let field = format!("spec.imagePullSecrets[{index}].name");
        if !is_object_name(name) {
            problems.push(
                &field,
                format!("{name:?} is not the name of a Secret: at most 253 of a-z, 0-9, - and ., a letter or digit at both ends"),
            );
        } else if names.contains(name) {
            problems.push(
                &field,
                format!("{name:?} is there already: name each Secret once"),
            );
        }
        names.push(name.clone());
    }
    names
}

/// `affinity: {}` and the like say nothing. Leaving them out makes equal what means the same.
fn without_empty_parts(placement: Placement) -> Placement {
    Placement {
        node_selector: placement.node_selector.filter(|labels| !labels.is_empty()),
        affinity: placement
            .affinity
            .filter(|affinity| *affinity != Default::default()),
        tolerations: placement
            .tolerations
            .filter(|tolerations| !tolerations.is_empty()),
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
