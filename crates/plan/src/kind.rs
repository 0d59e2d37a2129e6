//! The kinds of objects that Weft reads and writes, known at compile time: no discovery request is
//! ever made for them.

use std::fmt;

/// A kind of Kubernetes object in the one API version that Weft uses.
///
/// The version is how we talk about an object, not what it is: there is one `Kind` for a group and
/// a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version, for example `v1`.
    pub version: &'static str,
    /// Kind in CamelCase, for example `DaemonSet`.
    pub kind: &'static str,
    /// Resource name in URLs and RBAC rules, for example `daemonsets`.
    pub plural: &'static str,
    /// True if its objects live in a namespace.
    pub namespaced: bool,
}

impl Kind {
    /// `group/version`, or just the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Reports whether a cluster may lack it: then it comes and goes with its definition, see
    /// [`Kind::definition`].
    pub fn is_optional(&self) -> bool {
        kinds::OPTIONAL_GROUPS.contains(&self.group)
    }

    /// The name of its CustomResourceDefinition, for example `certificates.cert-manager.io`.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The kind that an object's `apiVersion` and `kind` name, in any version of it.
    pub fn find(api_version: &str, kind: &str) -> Option<Kind> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self::find_in_group(group, kind)
    }

    /// The kind of this group and name.
    pub fn find_in_group(group: &str, kind: &str) -> Option<Kind> {
        kinds::ALL
            .iter()
            .copied()
            .find(|k| k.kind == kind && k.group == group)
    }
}

/// As kubectl names it: `DaemonSet.apps`, `ConfigMap`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}

/// The kinds themselves.
pub mod kinds {
    use super::Kind;

    macro_rules! kinds {
        ($($name:ident = $group:literal, $version:literal, $kind:literal, $plural:literal, $namespaced:literal;)*) => {
            $(
                #[doc = concat!("`", $kind, "`")]
                pub const $name: Kind = Kind { group: $group, version: $version, kind: $kind, plural: $plural, namespaced: $namespaced };
            )*
            /// All kinds.
            pub const ALL: &[Kind] = &[$($name),*];
        };
    }

    /// Groups of what others install, or do not, and of what one domain of Weft asks of another.
    pub const OPTIONAL_GROUPS: [&str; 9] = [
        "cert-manager.io",
        "k8s.cni.cncf.io",
        "keystone.openstack.org",
        "mariadb.openstack.org",
        "monitoring.coreos.com",
        "nmstate.io",
        "operator.openshift.io",
        "security.openshift.io",
        "topology.openstack.org",
    ];

    /// Kinds by which the API server asks before it accepts an object: a server, or its own rules.
    pub const ADMISSION: [Kind; 3] = [
        MUTATING_WEBHOOK_CONFIGURATION,
        VALIDATING_WEBHOOK_CONFIGURATION,
        VALIDATING_ADMISSION_POLICY,
    ];

    kinds! {
        NAMESPACE = "", "v1", "Namespace", "namespaces", false;
        SERVICE_ACCOUNT = "", "v1", "ServiceAccount", "serviceaccounts", true;
        CONFIG_MAP = "", "v1", "ConfigMap", "configmaps", true;
        SECRET = "", "v1", "Secret", "secrets", true;
        SERVICE = "", "v1", "Service", "services", true;
        POD = "", "v1", "Pod", "pods", true;
        NODE = "", "v1", "Node", "nodes", false;
        DAEMON_SET = "apps", "v1", "DaemonSet", "daemonsets", true;
        DEPLOYMENT = "apps", "v1", "Deployment", "deployments", true;
        JOB = "batch", "v1", "Job", "jobs", true;
        ENDPOINT_SLICE = "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true;
        LEASE = "coordination.k8s.io", "v1", "Lease", "leases", true;
        EVENT = "events.k8s.io", "v1", "Event", "events", true;
        ROLE = "rbac.authorization.k8s.io", "v1", "Role", "roles", true;
        ROLE_BINDING = "rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true;
        CLUSTER_ROLE = "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false;
        CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false;
        NETWORK_POLICY = "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true;
        POD_DISRUPTION_BUDGET = "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true;
        CUSTOM_RESOURCE_DEFINITION = "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false;
        MUTATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false;
        VALIDATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false;
        VALIDATING_ADMISSION_POLICY = "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false;
        VALIDATING_ADMISSION_POLICY_BINDING = "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false;
        CERTIFICATE = "cert-manager.io", "v1", "Certificate", "certificates", true;
        ISSUER = "cert-manager.io", "v1", "Issuer", "issuers", true;
        NETWORK_ATTACHMENT_DEFINITION = "k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions", true;
        SERVICE_MONITOR = "monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", true;
        PROMETHEUS_RULE = "monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", true;
        OPENSHIFT_NETWORK = "operator.openshift.io", "v1", "Network", "networks", false;
        SECURITY_CONTEXT_CONSTRAINTS = "security.openshift.io", "v1", "SecurityContextConstraints", "securitycontextconstraints", false;
        NETWORK_ADDONS_CONFIG = "networkaddonsoperator.network.kubevirt.io", "v1", "NetworkAddonsConfig", "networkaddonsconfigs", false;
        NETWORK_CONFIG = "networkoperator.openshift.io", "v1", "NetworkConfig", "networkconfigs", false;
        NODE_NETWORK_STATE = "nmstate.io", "v1beta1", "NodeNetworkState", "nodenetworkstates", false;
        NODE_NETWORK_CONFIGURATION_POLICY = "nmstate.io", "v1", "NodeNetworkConfigurationPolicy", "nodenetworkconfigurationpolicies", false;
        NODE_NETWORK_CONFIGURATION_ENACTMENT = "nmstate.io", "v1beta1", "NodeNetworkConfigurationEnactment", "nodenetworkconfigurationenactments", false;
        NMSTATE = "nmstate.io", "v1", "NMState", "nmstates", false;
        PLACEMENT_API = "placement.openstack.org", "v1beta1", "PlacementAPI", "placementapis", true;
        MARIADB_DATABASE = "mariadb.openstack.org", "v1beta1", "MariaDBDatabase", "mariadbdatabases", true;
        MARIADB_ACCOUNT = "mariadb.openstack.org", "v1beta1", "MariaDBAccount", "mariadbaccounts", true;
        KEYSTONE_API = "keystone.openstack.org", "v1beta1", "KeystoneAPI", "keystoneapis", true;
        KEYSTONE_SERVICE = "keystone.openstack.org", "v1beta1", "KeystoneService", "keystoneservices", true;
        KEYSTONE_ENDPOINT = "keystone.openstack.org", "v1beta1", "KeystoneEndpoint", "keystoneendpoints", true;
        TOPOLOGY = "topology.openstack.org", "v1beta1", "Topology", "topologies", true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_serves_the_kinds_of_kubernetes_itself() {
        let of_kubernetes =
            |kind: &Kind| !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
        let served = [
            kinds::NETWORK_ADDONS_CONFIG,
            kinds::NETWORK_CONFIG,
            kinds::PLACEMENT_API,
        ];
        for kind in kinds::ALL.iter().filter(|kind| !served.contains(kind)) {
            assert_eq!(kind.is_optional(), !of_kubernetes(kind), "{kind}");
        }
        assert_eq!(
            kinds::CERTIFICATE.definition(),
            "certificates.cert-manager.io"
        );
    }

    #[test]
    fn a_kind_is_found_in_any_version_of_its_group() {
        assert_eq!(
            Kind::find("apps/v1beta2", "DaemonSet"),
            Some(kinds::DAEMON_SET)
        );
        assert_eq!(Kind::find("v1", "ConfigMap"), Some(kinds::CONFIG_MAP));
        assert_eq!(Kind::find("extensions/v1beta1", "DaemonSet"), None);
    }
}
