//! The KubeVirt IPAM controller, with its webhook.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use weft_plan::{Certificate, Facts, Lifetimes, Manifest, ManifestError, ObjectKey, kinds};

use crate::{
    Image, Settings,
    overlay::{Overlay, POD_SPEC, containers, set_mount_path},
    tls::Tls,
    validate::IpamController,
};

const FILES: [&str; 6] = [
    include_str!("../../../../components/kubevirt-ipam-controller/crd.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/rbac.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/service.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/certificate.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/deployment.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/webhook.yaml"),
];

const SERVICE: &str = "kubevirt-ipam-controller-webhook-service";
const SECRET: &str = "webhook-server-cert";
const AUTHORITY: &str = "kubevirt-ipam-controller-ca";
const WEBHOOK: &str = "kubevirt-ipam-controller-mutating-webhook-configuration";
const CERTIFICATE_VOLUME: &str = "cert";
/// Where OpenShift's controller finds its certificate.
const OPENSHIFT_CERTIFICATES: &str = "/etc/ipam-controller/certificates";

pub(crate) fn objects(overlay: &Overlay<'_>, controller: &IpamController) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects.iter_mut().filter(|object| object.key().kind == kinds::DEPLOYMENT) {
        overlay.workload(object, &[("manager", Image::KubevirtIpamController)], &overlay.effective.infra)?;
        object.edit(POD_SPEC, |pod: &mut PodSpec| {
            containers(pod).for_each(|container| arguments(container, controller, &overlay.effective.tls));
            Ok::<_, String>(())
        })?;
    }
    if overlay.is_openshift() {
        for_openshift(&mut objects)?;
    }
    Ok(objects)
}

fn arguments(container: &mut Container, controller: &IpamController, tls: &Tls) {
    let args = container.args.get_or_insert_default();
    args.extend(controller.nad_namespace.iter().map(|namespace| format!("--default-network-nad-namespace={namespace}")));
    tls.set_arguments(args);
}

/// OpenShift has the definition of IPAMClaim already, and its service CA issues the certificate and fills in the CA bundle.
fn for_openshift(objects: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    objects.retain(|object| !matches!(object.key().kind, kinds::CUSTOM_RESOURCE_DEFINITION | kinds::SECRET));
    for object in objects {
        match object.key().kind {
            kinds::SERVICE => object.set_annotation("service.beta.openshift.io/serving-cert-secret-name", SERVICE),
            kinds::MUTATING_WEBHOOK_CONFIGURATION => object.set_annotation("service.beta.openshift.io/inject-cabundle", "true"),
            kinds::DEPLOYMENT => {
                object.set_pod_annotation("openshift.io/required-scc", "restricted-v2");
                object.edit(POD_SPEC, |pod: &mut PodSpec| {
                    set_mount_path(pod, CERTIFICATE_VOLUME, OPENSHIFT_CERTIFICATES)?;
                    for arg in containers(pod).flat_map(|container| container.args.iter_mut().flatten()) {
                        if arg.starts_with("--certificates-dir=") {
                            *arg = format!("--certificates-dir={OPENSHIFT_CERTIFICATES}");
                        }
                    }
                    let secrets = pod.volumes.iter_mut().flatten().filter_map(|volume| volume.secret.as_mut());
                    secrets.for_each(|secret| secret.secret_name = Some(SERVICE.to_owned()));
                    Ok::<_, String>(())
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The webhook's serving certificate, which Weft makes; on OpenShift its service CA does.
pub(crate) fn certificate(settings: &Settings, facts: &Facts) -> Option<Certificate> {
    let secret = |name| ObjectKey::new(kinds::SECRET, &settings.namespace, name);
    (!facts.is_openshift()).then(|| Certificate {
        secret: secret(SECRET),
        authority: secret(AUTHORITY),
        dns_names: Certificate::service_names(SERVICE, &settings.namespace),
        trusted_by: vec![ObjectKey::new(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", WEBHOOK)],
        lifetimes: Lifetimes::default(),
    })
}

/// The Secret that OpenShift's service CA makes. It is named after the Service.
pub(crate) fn made_by_service_ca(settings: &Settings, facts: &Facts) -> Option<ObjectKey> {
    facts.is_openshift().then(|| ObjectKey::new(kinds::SECRET, &settings.namespace, SERVICE))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::{Decision, rollout};

    use super::*;
    use crate::testing::{decide, decide_on_openshift, object, objects, resource};

    const MANAGER: &str = "kubevirt-ipam-controller-manager";

    fn ipam(more: Value) -> Value {
        let mut resource = resource(json!({"kubevirtIpamController": {}}));
        resource["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        resource
    }

    fn pod(decision: &Decision) -> &Value {
        &object(decision, "Deployment", MANAGER)["spec"]["template"]["spec"]
    }

    fn args(resource: &Value) -> Value {
        pod(&decide(resource))["containers"][0]["args"].clone()
    }

    #[test]
    fn namespace_and_tls_are_arguments() {
        let fixed = ["--leader-elect", "--certificates-dir=/tmp/k8s-webhook-server/serving-certs"];
        assert_eq!(args(&ipam(json!({}))), json!([fixed[0], fixed[1], "--tls-min-version=VersionTLS13"]));
        let profile = json!({"custom": {"minTLSVersion": "VersionTLS12", "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256"]}});
        assert_eq!(
            args(&ipam(json!({"kubevirtIpamController": {"defaultNetworkNADNamespace": "ovn"}, "tlsSecurityProfile": profile}))),
            json!([
                fixed[0],
                fixed[1],
                "--default-network-nad-namespace=ovn",
                "--tls-min-version=VersionTLS12",
                "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
            ])
        );
    }

    #[test]
    fn the_webhook_is_served_under_the_name_that_it_is_called_by() {
        let decision = decide(&ipam(json!({})));
        let webhook = object(&decision, "MutatingWebhookConfiguration", "kubevirt-ipam-controller-mutating-webhook-configuration");
        let called = &webhook["webhooks"][0]["clientConfig"]["service"];
        assert_eq!((&called["name"], &called["namespace"]), (&json!(SERVICE), &json!("cluster-network-addons")));
        let service = object(&decision, "Service", SERVICE);
        let labels = &object(&decision, "Deployment", MANAGER)["spec"]["template"]["metadata"]["labels"];
        for (label, value) in service["spec"]["selector"].as_object().unwrap() {
            assert_eq!(labels[label], *value);
        }
        // The default port of a webhook's Service.
        assert_eq!(service["spec"]["ports"], json!([{"port": 443, "protocol": "TCP", "targetPort": 9443}]));
        assert_eq!(pod(&decision)["containers"][0]["ports"][0]["containerPort"], 9443);
    }

    #[test]
    fn it_waits_for_its_certificate() {
        let secret = ObjectKey::new(kinds::SECRET, "cluster-network-addons", SECRET);
        assert_eq!(rollout::inputs(object(&decide(&ipam(json!({}))), "Deployment", MANAGER)), [secret]);
    }

    #[test]
    fn on_openshift_the_certificate_comes_from_the_service_ca() {
        let decision = decide_on_openshift(&ipam(json!({})));
        assert!(objects(&decision).all(|object| object.key().name != "ipamclaims.k8s.cni.cncf.io"), "it is there already");
        let annotations = |kind, name| object(&decision, kind, name)["metadata"]["annotations"].clone();
        assert_eq!(annotations("Service", SERVICE), json!({"service.beta.openshift.io/serving-cert-secret-name": SERVICE}));
        assert_eq!(annotations("MutatingWebhookConfiguration", WEBHOOK), json!({"service.beta.openshift.io/inject-cabundle": "true"}));
        let pod = pod(&decision);
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], SERVICE);
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], OPENSHIFT_CERTIFICATES);
        assert_eq!(pod["containers"][0]["args"][1], "--certificates-dir=/etc/ipam-controller/certificates");
        assert_eq!(decision.made_by_operands, [ObjectKey::new(kinds::SECRET, "cluster-network-addons", SERVICE)]);
        assert_eq!(decision.certificates, []);
    }
}
