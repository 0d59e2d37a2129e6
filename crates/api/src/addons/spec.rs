//! The specification: one optional field a component, then what concerns several of them.
//!
//! The schema sets no defaults, for a reason: a setting that the user leaves out of a component
//! that is deployed keeps the value it had (a random MAC range above all). A default in the schema
//! would look like the user's own choice and overwrite it.
//!
//! Doc comments of fields become the text of `kubectl explain`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ContainerResources, HostPaths, ImagePullSecret, Images, PlacementConfiguration,
    TlsSecurityProfile, rules,
};

/// The values of `imagePullPolicy`. The empty text means that nothing is said.
const PULL_POLICIES: [&str; 4] = ["Always", "IfNotPresent", "Never", ""];

const DRIFT_POLICIES: [&str; 2] = ["Repair", "Report"];

const LOG_LEVELS: [&str; 4] = ["Debug", "Info", "Warning", "Error"];

const CERTIFICATE_PROVIDERS: [&str; 2] = ["Weft", "CertManager"];

/// The wanted network components of the cluster. A component is deployed while its field is there,
/// be it as `{}`, and is removed when the field is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct NetworkAddonsConfigSpec {
    /// Deploys Multus, which attaches pods to more networks than the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multus: Option<Multus>,

    /// Deploys the controller that attaches networks to running pods and detaches them again. Needs
    /// multus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multus_dynamic_networks: Option<MultusDynamicNetworks>,

    /// Deploys the CNI plugins bridge and tuning, and a marker that makes the Linux bridges of each
    /// node known to the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux_bridge: Option<LinuxBridge>,

    /// Deploys the CNI plugin for Open vSwitch, and a marker that makes the OVS bridges of each
    /// node known to the scheduler. Open vSwitch itself must run on the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs: Option<Ovs>,

    /// Deploys KubeMacPool, which gives MAC addresses to the interfaces of pods and virtual
    /// machines and reports those that several use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_mac_pool: Option<KubeMacPool>,

    /// Deploys the macvtap CNI plugin with its device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macvtap: Option<Macvtap>,

    /// Deploys a DNS server that knows the addresses of virtual machines in their secondary
    /// networks.
    #[serde(
        rename = "kubeSecondaryDNS",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub kube_secondary_dns: Option<KubeSecondaryDns>,

    /// Deploys the controller through which KubeVirt's virtual machines keep their IP addresses
    /// over restarts and migrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubevirt_ipam_controller: Option<KubevirtIpamController>,

    /// Deploys the agent that reports and configures the nodes' networks (nmstate.io), with every
    /// default, unless there is an NMState already. It takes the operator of the nodes' networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nmstate: Option<NmState>,

    /// Images of the components, each instead of the one that the operator would use. A change
    /// rolls the pods that run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,

    /// A registry, or a folder of one, that holds copies of the images under their own paths, for
    /// example registry.example/mirror: the host of each image that is not named in images is
    /// replaced by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = rules::registry()))]
    pub image_registry: Option<String>,

    /// Secrets with the credentials of registries, in the namespace of the components, for all
    /// their pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Option<Vec<ImagePullSecret>>,

    /// When the images of the components are pulled: Always, IfNotPresent or Never. Left out, it
    /// stays as it was last applied. The first time it is IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = PULL_POLICIES))]
    pub image_pull_policy: Option<String>,

    /// How long the certificates live that components issue for their own webhooks. Set all four
    /// intervals or none: left out, they stay as they were last applied, the first time 168h, 24h,
    /// 24h and 8h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_sign_configuration: Option<SelfSignConfiguration>,

    /// Where the nodes have the folders that components need of them. Left out: by the distribution
    /// that most nodes say they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_paths: Option<HostPaths>,

    /// Requests and limits of the components' containers. The entries change the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Option<Vec<ContainerResources>>,

    /// On which nodes the components run. Each of its two halves replaces the default of that half
    /// as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_configuration: Option<PlacementConfiguration>,

    /// Which TLS versions, ciphers and key exchange groups the servers of the components accept.
    /// Left out: Modern, which is TLS 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub tls_security_profile: Option<TlsSecurityProfile>,

    /// The treatment of a component's object that a user edits or deletes: Repair (the operator
    /// repairs it at once) or Report (the operator leaves it, and the status names it). Left out,
    /// it is Repair. A change of this configuration is carried out either way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = DRIFT_POLICIES))]
    pub drift_policy: Option<String>,

    /// From which level on the operator logs: Debug, Info, Warning or Error. It follows at once,
    /// without a restart. Left out, it is the level that the operator was started with
    /// (CNAO_LOG_LEVEL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = LOG_LEVELS))]
    pub operator_log_level: Option<String>,
}

/// Multus has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Multus {}

/// Settings of the dynamic networks controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultusDynamicNetworks {
    /// The path of the container runtime's socket on the nodes, for example
    /// /run/containerd/containerd.sock. Left out, it stays as it was last applied. The first time
    /// it is that of the runtime that most nodes report, or /run/crio/crio.sock if none is known.
    // 107 is what the kernel leaves for the path of a socket (unix(7): 108 bytes with the closing
    // null).
    #[serde(
        rename = "hostCRISocketPath",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 107), extend("x-kubernetes-validations" = rules::socket_path()))]
    pub host_cri_socket_path: Option<String>,
}

/// Linux bridge has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinuxBridge {}

/// Open vSwitch has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ovs {}

/// The range from which KubeMacPool takes its addresses. Left out, the range stays as it was last
/// applied. The first time it is a random one, from `02:XX:XX:00:00:00` to `02:XX:XX:ff:ff:ff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::mac_range()))]
pub struct KubeMacPool {
    /// The first MAC address of the range, a unicast address, for example 02:00:00:00:00:00. Goes
    /// together with rangeEnd. Both left out, the range stays as it was last applied. The first
    /// time it is a random one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::mac_address()))]
    pub range_start: Option<String>,

    /// The last MAC address of the range, greater than rangeStart, for example 02:00:00:ff:ff:ff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::mac_address()))]
    pub range_end: Option<String>,
}

/// Settings of macvtap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Macvtap {
    /// The name of the ConfigMap, in the namespace of the components, that lists the interfaces
    /// that the device plugin offers. Left out, it stays as it was last applied. The first time it
    /// is macvtap-deviceplugin-config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::config_map_name()))]
    pub device_plugin_config: Option<String>,
}

/// Settings of the secondary DNS. Each is known under two spellings, of which one may be used:
/// documentation of the operator that first served this API showed the one in capitals, which its
/// code did not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::one_spelling()))]
pub struct KubeSecondaryDns {
    /// The DNS domain in which the names of virtual machines are answered, in lower case, for
    /// example secondary.example.com.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::dns_domain()))]
    pub domain: Option<String>,

    /// The IPv4 or IPv6 address under which the DNS server can be reached from outside, as it
    /// appears in the zone's own records.
    #[serde(
        rename = "nameServerIP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::ip_address()))]
    pub name_server_ip: Option<String>,

    /// Another spelling of domain. Use domain.
    #[serde(rename = "DOMAIN", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::dns_domain()))]
    pub domain_upper: Option<String>,

    /// Another spelling of nameServerIP. Use nameServerIP.
    #[serde(
        rename = "NAME_SERVER_IP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::ip_address()))]
    pub name_server_ip_upper: Option<String>,
}

impl KubeSecondaryDns {
    /// The DNS domain, under whichever of its two spellings it was given. An empty text counts as
    /// not given.
    pub fn effective_domain(&self) -> Option<&str> {
        given(&self.domain).or(given(&self.domain_upper))
    }

    /// The address of the name server, under whichever of its two spellings it was given. An empty
    /// text counts as not given.
    pub fn effective_name_server_ip(&self) -> Option<&str> {
        given(&self.name_server_ip).or(given(&self.name_server_ip_upper))
    }

    /// Reports whether the specification uses one of the spellings in capitals.
    pub fn uses_upper_case_spelling(&self) -> bool {
        self.domain_upper.is_some() || self.name_server_ip_upper.is_some()
    }
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Settings of the KubeVirt IPAM controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtIpamController {
    /// The namespace of the NetworkAttachmentDefinition that describes the cluster's default
    /// network. Needed for persistent addresses in a pod's primary user-defined network
    /// (OVN-Kubernetes).
    #[serde(
        rename = "defaultNetworkNADNamespace",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::namespace_name()))]
    pub default_network_nad_namespace: Option<String>,

    /// The provider of the webhook's certificate: Weft, or CertManager if cert-manager is
    /// installed. Left out, it is Weft, and on OpenShift its service CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = CERTIFICATE_PROVIDERS))]
    pub certificate_provider: Option<String>,
}

/// The configuration of the nodes' networks has no settings here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NmState {}

/// The life of self-signed certificates. All intervals are durations as Go writes them: 48h, 1h30m,
/// 90s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::rotation()))]
pub struct SelfSignConfiguration {
    /// How long a certificate authority is valid, for example 48h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::interval()))]
    pub ca_rotate_interval: Option<String>,

    /// How long before its end a certificate authority gets its successor: so long both are
    /// trusted. At most caRotateInterval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::interval()))]
    pub ca_overlap_interval: Option<String>,

    /// How long a server's certificate is valid. At most caRotateInterval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::interval()))]
    pub cert_rotate_interval: Option<String>,

    /// How long before its end a server's certificate gets its successor. At most
    /// certRotateInterval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::interval()))]
    pub cert_overlap_interval: Option<String>,
}
