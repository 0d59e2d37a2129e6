//! Kinds of Kubernetes itself, which every cluster serves: ServiceCIDRs since Kubernetes 1.33.

super::kinds! {
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
    SERVICE_CIDR = "networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false;
    POD_DISRUPTION_BUDGET = "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true;
    CUSTOM_RESOURCE_DEFINITION = "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false;
    MUTATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false;
    VALIDATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false;
    VALIDATING_ADMISSION_POLICY = "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false;
    VALIDATING_ADMISSION_POLICY_BINDING = "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false;
}
