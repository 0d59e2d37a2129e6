//! Objects that several components use.

use k8s_openapi::{
    api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use weft_plan::{Manifest, ManifestError};

use crate::overlay::Overlay;

/// The namespace of the operands.
pub(crate) fn namespace(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    overlay.load(&[include_str!(
        "../../../../components/namespace/namespace.yaml"
    )])
}

/// The definition of NetworkAttachmentDefinition.
pub(crate) fn network_attachment_definition(
    overlay: &Overlay<'_>,
) -> Result<Vec<Manifest>, ManifestError> {
    overlay.load(&[include_str!(
        "../../../../components/network-attachment-definition/crd.yaml"
    )])
}

/// Policies that let labelled pods reach the API server, on the ports where it really listens, and
/// DNS.
pub(crate) fn network_policy(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut policies = overlay.load(&[include_str!(
        "../../../../components/network-policy/egress.yaml"
    )])?;
    let ports = &overlay.facts.api_server_ports;
    let to_api_server = policies
        .iter_mut()
        .find(|policy| policy.key().name == "cnao-allow-egress-to-cluster-api");
    if let Some(policy) = to_api_server.filter(|_| !ports.is_empty()) {
        policy.edit("/spec/egress/0", |rule: &mut NetworkPolicyEgressRule| {
            let port = |port: &u16| NetworkPolicyPort {
                protocol: Some("TCP".to_owned()),
                port: Some(IntOrString::Int((*port).into())),
                ..NetworkPolicyPort::default()
            };
            rule.ports = Some(ports.iter().map(port).collect());
            Ok::<_, std::convert::Infallible>(())
        })?;
    }
    let to_dns = policies
        .iter_mut()
        .find(|policy| policy.key().name == "cnao-allow-egress-to-cluster-dns");
    if let Some(policy) = to_dns.filter(|_| overlay.is_openshift()) {
        policy.edit("/spec/egress/0", |rule: &mut NetworkPolicyEgressRule| {
            openshift_dns(rule);
            Ok::<_, std::convert::Infallible>(())
        })?;
    }
    Ok(policies)
}

/// OpenShift's DNS has a namespace of its own, and its pods listen on another port than their
/// Service.
fn openshift_dns(rule: &mut NetworkPolicyEgressRule) {
    let labels = |label: &str, value: &str| LabelSelector {
        match_labels: Some([(label.to_owned(), value.to_owned())].into()),
        ..LabelSelector::default()
    };
    rule.to = Some(vec![NetworkPolicyPeer {
        namespace_selector: Some(labels("kubernetes.io/metadata.name", "openshift-dns")),
        pod_selector: Some(labels("dns.operator.openshift.io/daemonset-dns", "default")),
        ..NetworkPolicyPeer::default()
    }]);
    rule.ports
        .iter_mut()
        .flatten()
        .for_each(|port| port.port = Some(IntOrString::Int(5353)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_plan::Facts;

    use crate::testing;

    #[test]
    fn the_policy_for_the_api_server_follows_its_real_ports() {
        let ports = |facts: &Facts| {
            let decision =
                testing::decide_knowing(facts, &testing::resource(serde_json::json!({})));
            let policy = testing::object(
                &decision,
                "NetworkPolicy",
                "cnao-allow-egress-to-cluster-api",
            )
            .clone();
            let ports = policy["spec"]["egress"][0]["ports"]
                .as_array()
                .unwrap()
                .clone();
            assert!(
                ports.iter().all(|port| port["protocol"] == "TCP"),
                "{ports:?}"
            );
            ports
                .iter()
                .map(|port| port["port"].as_u64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ports(&Facts {
                api_server_ports: [443, 16443].into(),
                ..Facts::default()
            }),
            [443, 16443]
        );
        assert_eq!(
            ports(&Facts::default()),
            [6443],
            "a guess, where nothing is known"
        );
    }

    #[test]
    fn the_policy_for_dns_knows_that_of_openshift() {
        let rule = |decision| {
            testing::object(
                &decision,
                "NetworkPolicy",
                "cnao-allow-egress-to-cluster-dns",
            )["spec"]["egress"][0]
                .clone()
        };
        let resource = testing::resource(serde_json::json!({}));
        let (here, there) = (
            rule(testing::decide(&resource)),
            rule(testing::decide_on_openshift(&resource)),
        );
        for (rule, namespace, label, port) in [
            (here, "kube-system", ("k8s-app", "kube-dns"), 53),
            (
                there,
                "openshift-dns",
                ("dns.operator.openshift.io/daemonset-dns", "default"),
                5353,
            ),
        ] {
            assert_eq!(
                rule["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
                namespace
            );
            assert_eq!(
                rule["to"][0]["podSelector"]["matchLabels"][label.0],
                label.1
            );
            assert_eq!(
                rule["ports"],
                serde_json::json!([
                    {"protocol": "TCP", "port": port}, {"protocol": "UDP", "port": port}
                ])
            );
        }
    }
}
