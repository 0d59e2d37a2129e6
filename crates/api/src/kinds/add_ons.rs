//! Kinds of cert-manager, Multus and Prometheus Operator, which a cluster may lack.

super::kinds! {
    CERTIFICATE = "cert-manager.io", "v1", "Certificate", "certificates", true;
    ISSUER = "cert-manager.io", "v1", "Issuer", "issuers", true;
    NETWORK_ATTACHMENT_DEFINITION = "k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions", true;
    SERVICE_MONITOR = "monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", true;
    PROMETHEUS_RULE = "monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", true;
}
