//! The KubeVirt IPAM controller, with its webhook.

use k8s_openapi::api::core::v1::Container;
use serde_json::Value;
use weft_operands::pod::{Workload, containers, set_mount_path};
use weft_plan::{
    Certificate, Dependents, Facts, KUBEVIRT, Kind, Lifetimes, Live, Manifest, ManifestError,
    ObjectKey, kinds,
};

use crate::{
    Image, Settings,
    components::kubevirt,
    overlay::Overlay,
    tls::Tls,
    validate::{CertificateProvider, IpamController},
};

const FILES: [&str; 5] = [
    include_str!("../../../../components/kubevirt-ipam-controller/crd.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/rbac.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/service.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/deployment.yaml"),
    include_str!("../../../../components/kubevirt-ipam-controller/webhook.yaml"),
];
/// The certificate of the webhook, by who makes it.
const OF_WEFT: &str =
    include_str!("../../../../components/kubevirt-ipam-controller/certificate.yaml");
const OF_CERT_MANAGER: &str =
    include_str!("../../../../components/kubevirt-ipam-controller/cert-manager.yaml");

const DEPLOYMENT: &str = "kubevirt-ipam-controller-manager";
const SERVICE: &str = "kubevirt-ipam-controller-webhook-service";
const SECRET: &str = "webhook-server-cert";
const AUTHORITY: &str = "kubevirt-ipam-controller-ca";
const WEBHOOK: &str = "kubevirt-ipam-controller-mutating-webhook-configuration";
const CERTIFICATE: &str = "kubevirt-ipam-controller-serving-cert";
const ISSUER: &str = "kubevirt-ipam-controller-selfsigned-issuer";
const CERTIFICATE_VOLUME: &str = "cert";
/// Where OpenShift's controller finds its certificate.
const OPENSHIFT_CERTIFICATES: &str = "/etc/ipam-controller/certificates";

/// The addresses of virtual machines. The controller puts the finalizer on each claim and takes it
/// off when the machine is gone (`KubevirtVMFinalizer` of kubevirt/ipam-extensions).
pub(crate) const CLAIMS: Dependents = Dependents {
    unit: "kubevirtIpamController",
    kind: Kind {
        group: "k8s.cni.cncf.io",
        version: "v1alpha1",
        kind: "IPAMClaim",
        plural: "ipamclaims",
        namespaced: true,
    },
    finalizer: "kubevirt.io/persistent-ipam",
    way_out: "Delete the virtual machines that the claims belong to, which frees their addresses",
};

/// The provider of the certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Weft,
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
}

impl Source {
    fn of(controller: &IpamController, facts: &Facts) -> Self {
        match controller.certificate_provider {
            Some(CertificateProvider::Weft) => Self::Weft,
            Some(CertificateProvider::CertManager) => Self::CertManager,
            None if facts.is_openshift() => Self::ServiceCa,
            None => Self::Weft,
        }
    }
}

pub(crate) fn objects(
    overlay: &Overlay<'_>,
    controller: &IpamController,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DEPLOYMENT)
    {
        overlay.workload(
            object,
            &[("manager", Image::KubevirtIpamController)],
            &overlay.effective.infra,
        )?;
        // The original has none.
        object.accept("/spec/topologySpreadConstraints", Value::Null);
        object.edit_pods(|pod| {
            containers(pod)
                .for_each(|container| arguments(container, controller, &overlay.effective.tls));
            Ok::<_, String>(())
        })?;
    }
    if overlay.is_openshift() {
        for_openshift(&mut objects);
    }
    match Source::of(controller, overlay.facts) {
        Source::Weft => objects.extend(overlay.load(&[OF_WEFT])?),
        Source::CertManager => {
            objects.extend(overlay.load(&[OF_CERT_MANAGER])?);
            by_cert_manager(&mut objects, overlay.settings)?;
        }
        Source::ServiceCa => by_service_ca(&mut objects)?,
    }
    Ok(objects)
}

fn arguments(container: &mut Container, controller: &IpamController, tls: &Tls) {
    let args = container.args.get_or_insert_default();
    args.extend(
        controller
            .nad_namespace
            .iter()
            .map(|namespace| format!("--default-network-nad-namespace={namespace}")),
    );
    tls.set_arguments(args);
}

/// OpenShift has the definition of IPAMClaim already, and chooses the user of the pods.
fn for_openshift(objects: &mut Vec<Manifest>) {
    objects.retain(|object| object.key().kind != kinds::CUSTOM_RESOURCE_DEFINITION);
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DEPLOYMENT)
    {
        object.set_pod_annotation("openshift.io/required-scc", "restricted-v2");
    }
}

/// Its injector fills in the CA bundle.
fn by_cert_manager(objects: &mut [Manifest], settings: &Settings) -> Result<(), ManifestError> {
    for object in objects {
        match object.key().kind {
            kinds::CERTIFICATE => object.edit("/spec/dnsNames", |names: &mut Vec<String>| {
                *names = Certificate::service_names(SERVICE, &settings.namespace);
                Ok::<_, String>(())
            })?,
            kinds::MUTATING_WEBHOOK_CONFIGURATION => {
                object.set_annotation(
                    "cert-manager.io/inject-ca-from",
                    &format!("{}/{CERTIFICATE}", settings.namespace),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// It issues the certificate under the name of the Service, and fills in the CA bundle.
fn by_service_ca(objects: &mut [Manifest]) -> Result<(), ManifestError> {
    for object in objects {
        match object.key().kind {
            kinds::SERVICE => object.set_annotation(
                "service.beta.openshift.io/serving-cert-secret-name",
                SERVICE,
            ),
            kinds::MUTATING_WEBHOOK_CONFIGURATION => {
                object.set_annotation("service.beta.openshift.io/inject-cabundle", "true")
            }
            kinds::DEPLOYMENT => object.edit_pods(|pod| {
                set_mount_path(pod, CERTIFICATE_VOLUME, OPENSHIFT_CERTIFICATES)?;
                for arg in containers(pod).flat_map(|container| container.args.iter_mut().flatten())
                {
                    if arg.starts_with("--certificates-dir=") {
                        *arg = format!("--certificates-dir={OPENSHIFT_CERTIFICATES}");
                    }
                }
                let secrets = pod
                    .volumes
                    .iter_mut()
                    .flatten()
                    .filter_map(|volume| volume.secret.as_mut());
                secrets.for_each(|secret| secret.secret_name = Some(SERVICE.to_owned()));
                Ok::<_, String>(())
            })?,
            _ => {}
        }
    }
    Ok(())
}

/// The webhook's serving certificate, if Weft makes it.
pub(crate) fn certificate(
    controller: &IpamController,
    settings: &Settings,
    facts: &Facts,
) -> Option<Certificate> {
    let secret = |name| ObjectKey::new(kinds::SECRET, &settings.namespace, name);
    (Source::of(controller, facts) == Source::Weft).then(|| Certificate {
        secret: secret(SECRET),
        authority: secret(AUTHORITY),
        dns_names: Certificate::service_names(SERVICE, &settings.namespace),
        trusted_by: vec![ObjectKey::new(
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "",
            WEBHOOK,
        )],
        lifetimes: Lifetimes::default(),
    })
}

/// The Secret that another user makes.
pub(crate) fn made_by_others(
    controller: &IpamController,
    settings: &Settings,
    facts: &Facts,
) -> Option<ObjectKey> {
    let name = match Source::of(controller, facts) {
        Source::Weft => return None,
        Source::CertManager => SECRET,
        Source::ServiceCa => SERVICE,
    };
    Some(ObjectKey::new(kinds::SECRET, &settings.namespace, name))
}

/// Returns the missing parts of KubeVirt, whose virtual machines the controller watches, and of
/// cert-manager, if it must provide the certificate.
pub(crate) fn lacks(
    controller: &IpamController,
    settings: &Settings,
    facts: &Facts,
) -> Vec<(ObjectKey, String)> {
    let kubevirt = kubevirt::lacks(facts, &KUBEVIRT, "kubevirtIpamController").map(|message| {
        let deployment = ObjectKey::new(kinds::DEPLOYMENT, &settings.namespace, DEPLOYMENT);
        (deployment, message)
    });
    let [issuer, certificate] = of_cert_manager(settings);
    let missing = [certificate, issuer]
        .into_iter()
        .find(|key| !facts.serves(key.kind));
    let missing = missing.filter(|_| Source::of(controller, facts) == Source::CertManager);
    let cert_manager = missing.map(|missing| {
        let message = format!(
            "the cluster does not have {}: install cert-manager, and Weft continues; or let Weft make the certificate: spec.kubevirtIpamController.certificateProvider: Weft",
            missing.kind
        );
        (missing, message)
    });
    kubevirt.into_iter().chain(cert_manager).collect()
}

/// The objects of cert-manager. The operator that Weft replaces always has them.
pub(crate) fn of_cert_manager(settings: &Settings) -> [ObjectKey; 2] {
    [(kinds::ISSUER, ISSUER), (kinds::CERTIFICATE, CERTIFICATE)]
        .map(|(kind, name)| ObjectKey::new(kind, &settings.namespace, name))
}

/// Reports whether cert-manager has made this Secret for the webhook
/// (<https://cert-manager.io/docs/reference/annotations/#cert-managerio-certificate-name>).
pub(crate) fn is_made_by_cert_manager(settings: &Settings, secret: &Value) -> bool {
    ObjectKey::of(secret) == Some(ObjectKey::new(kinds::SECRET, &settings.namespace, SECRET))
        && Live::of(secret).annotation("cert-manager.io/certificate-name") == Some(CERTIFICATE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::{Decision, Wait, rollout};

    use super::*;
    use crate::testing::{decide, decide_knowing, decide_on_openshift, object, objects, resource};

    const MANAGER: &str = DEPLOYMENT;

    fn ipam(more: Value) -> Value {
        let mut resource = resource(json!({"kubevirtIpamController": {}}));
        resource["spec"]
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
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
        let fixed = ["--leader-elect", "--certificates-dir="];
        assert_eq!(
            args(&ipam(json!({}))),
            json!([fixed[0], fixed[1], "--tls-min-version=VersionTLS13"])
        );
        let profile = json!({
            "custom": {"minTLSVersion": "VersionTLS12", "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256"]}
        });
        assert_eq!(
            args(&ipam(json!({
                "kubevirtIpamController": {"defaultNetworkNADNamespace": "ovn"},
                "tlsSecurityProfile": profile
            }))),
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
        let webhook = object(
            &decision,
            "MutatingWebhookConfiguration",
            "kubevirt-ipam-controller-mutating-webhook-configuration",
        );
        let called = &webhook["webhooks"][0]["clientConfig"]["service"];
        assert_eq!(
            (&called["name"], &called["namespace"]),
            (&json!(SERVICE), &json!("cluster-network-addons"))
        );
        let service = object(&decision, "Service", SERVICE);
        let labels =
            &object(&decision, "Deployment", MANAGER)["spec"]["template"]["metadata"]["labels"];
        for (label, value) in service["spec"]["selector"].as_object().unwrap() {
            assert_eq!(labels[label], *value);
        }
        // The default port of a webhook's Service.
        assert_eq!(
            service["spec"]["ports"],
            json!([{"port": 443, "protocol": "TCP", "targetPort": 9443}])
        );
        assert_eq!(
            pod(&decision)["containers"][0]["ports"][0]["containerPort"],
            9443
        );
    }

    #[test]
    fn it_waits_for_its_certificate() {
        let secret = ObjectKey::new(kinds::SECRET, "cluster-network-addons", SECRET);
        assert_eq!(
            rollout::inputs(object(&decide(&ipam(json!({}))), "Deployment", MANAGER)),
            [secret]
        );
    }

    fn with_kubevirt() -> Facts {
        Facts {
            definitions: KUBEVIRT.map(str::to_owned).into(),
            ..Facts::default()
        }
    }

    fn with_cert_manager() -> Facts {
        let mut facts = with_kubevirt();
        let kinds = [kinds::CERTIFICATE, kinds::ISSUER];
        facts
            .definitions
            .extend(kinds.map(|kind| kind.definition()));
        facts
    }

    #[test]
    fn it_waits_for_each_of_the_kinds_of_kubevirt() {
        let waits = |known: &[&str]| {
            let facts = Facts {
                definitions: known.iter().map(|name| (*name).to_owned()).collect(),
                ..Facts::default()
            };
            let waits = decide_knowing(&facts, &ipam(json!({}))).waits;
            waits
                .into_iter()
                .map(|wait| format!("{}: {}", wait.object.human(), wait.message))
                .collect::<Vec<_>>()
        };
        for (known, missing) in [
            (&[][..], KUBEVIRT[0]),
            (&[kubevirt::INSTANCES][..], KUBEVIRT[0]),
            (&[KUBEVIRT[0]][..], kubevirt::INSTANCES),
        ] {
            let waits = waits(known);
            let begin = format!(
                "Deployment cluster-network-addons/{MANAGER}: waits for KubeVirt: the cluster does not have the definition {missing}"
            );
            assert!(
                waits.len() == 1 && waits[0].starts_with(&begin),
                "{waits:?}"
            );
        }
        assert!(waits(&KUBEVIRT).is_empty());
    }

    #[test]
    fn cert_manager_makes_the_certificate_where_it_is_asked_to() {
        let resource =
            ipam(json!({"kubevirtIpamController": {"certificateProvider": "CertManager"}}));
        let decision = decide_knowing(&with_cert_manager(), &resource);
        assert_eq!(
            (&decision.certificates[..], &decision.waits[..]),
            (&[][..], &[][..])
        );
        assert!(
            objects(&decision).all(|object| object.key().kind != kinds::SECRET),
            "it writes the Secret itself"
        );
        assert_eq!(
            decision.made_by_operands,
            [ObjectKey::new(
                kinds::SECRET,
                "cluster-network-addons",
                SECRET
            )]
        );
        let certificate = &object(&decision, "Certificate", CERTIFICATE)["spec"];
        assert_eq!(certificate["secretName"], SECRET);
        let by_weft = decide(&ipam(json!({}))).certificates[0].clone();
        assert_eq!(certificate["dnsNames"], json!(by_weft.dns_names));
        assert_eq!(certificate["issuerRef"]["name"], ISSUER);
        assert_eq!(
            object(&decision, "Issuer", ISSUER)["spec"],
            json!({"selfSigned": {}})
        );
        let webhook = object(&decision, "MutatingWebhookConfiguration", WEBHOOK);
        assert_eq!(
            webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
            format!("cluster-network-addons/{CERTIFICATE}")
        );
    }

    #[test]
    fn without_cert_manager_it_waits_and_says_so() {
        let resource =
            ipam(json!({"kubevirtIpamController": {"certificateProvider": "CertManager"}}));
        let waits = decide_knowing(&with_kubevirt(), &resource).waits;
        assert_eq!(waits.len(), 1);
        assert_eq!(
            (&*waits[0].unit, waits[0].object.human()),
            (
                "kubevirtIpamController",
                format!("Certificate cluster-network-addons/{CERTIFICATE}")
            )
        );
        assert!(
            waits[0].message.contains("install cert-manager")
                && waits[0].message.contains("certificateProvider: Weft"),
            "{}",
            waits[0].message
        );
        assert_eq!(
            decide_knowing(&with_cert_manager(), &ipam(json!({}))).waits,
            [],
            "it is there, and not asked for"
        );
    }

    #[test]
    fn a_provider_that_is_named_is_used_on_openshift_too() {
        let provided = |provider: &str| {
            decide_on_openshift(&ipam(
                json!({"kubevirtIpamController": {"certificateProvider": provider}}),
            ))
        };
        let weft = provided("Weft");
        assert_eq!(weft.certificates.len(), 1);
        assert_eq!(pod(&weft)["volumes"][0]["secret"]["secretName"], SECRET);
        assert_eq!(
            object(&weft, "Service", SERVICE)["metadata"]["annotations"],
            Value::Null
        );
        let of_cert_manager = |waits: Vec<Wait>| {
            let all = waits.into_iter();
            all.filter(|wait| wait.object.kind == kinds::CERTIFICATE)
                .count()
        };
        assert_eq!(of_cert_manager(provided("CertManager").waits), 1);
        assert_eq!(of_cert_manager(weft.waits), 0);
    }

    #[test]
    fn the_secret_of_cert_manager_is_known() {
        let settings = Settings::default();
        let secret = |name: &str, certificate: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "namespace": "cluster-network-addons", "name": name,
                    "annotations": {"cert-manager.io/certificate-name": certificate}
                }
            })
        };
        assert!(is_made_by_cert_manager(
            &settings,
            &secret(SECRET, CERTIFICATE)
        ));
        assert!(!is_made_by_cert_manager(
            &settings,
            &secret(SECRET, "another")
        ));
        assert!(!is_made_by_cert_manager(
            &settings,
            &secret("another", CERTIFICATE)
        ));
    }

    #[test]
    fn on_openshift_the_certificate_comes_from_the_service_ca() {
        let decision = decide_on_openshift(&ipam(json!({})));
        assert!(
            objects(&decision).all(|object| object.key().name != "ipamclaims.k8s.cni.cncf.io"),
            "it is there already"
        );
        let annotations =
            |kind, name| object(&decision, kind, name)["metadata"]["annotations"].clone();
        assert_eq!(
            annotations("Service", SERVICE),
            json!({"service.beta.openshift.io/serving-cert-secret-name": SERVICE})
        );
        assert_eq!(
            annotations("MutatingWebhookConfiguration", WEBHOOK),
            json!({"service.beta.openshift.io/inject-cabundle": "true"})
        );
        let pod = pod(&decision);
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], SERVICE);
        assert_eq!(
            pod["containers"][0]["volumeMounts"][0]["mountPath"],
            OPENSHIFT_CERTIFICATES
        );
        assert_eq!(
            pod["containers"][0]["args"][1],
            "--certificates-dir=/etc/ipam-controller/certificates"
        );
        assert_eq!(
            decision.made_by_operands,
            [ObjectKey::new(
                kinds::SECRET,
                "cluster-network-addons",
                SERVICE
            )]
        );
        assert_eq!(decision.certificates, []);
    }
}
