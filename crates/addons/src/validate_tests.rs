#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use crate::testing::resource;

/// `field: message` of all that is wrong.
fn problems(resource: &Value) -> Vec<String> {
    let checked = read(resource).and_then(|resource| validate(&resource));
    checked
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn fields(spec: Value) -> Vec<String> {
    problems(&resource(spec))
        .iter()
        .map(|problem| problem.split(": ").next().unwrap().to_owned())
        .collect()
}

#[test]
fn working_specifications_are_accepted() {
    for spec in [
        json!({}),
        json!({
            "multus": {}, "linuxBridge": {}, "ovs": {}, "nmstate": {}, "kubeMacPool": {},
            "macvtap": {}, "kubeSecondaryDNS": {}, "kubevirtIpamController": {},
            "multusDynamicNetworks": {}
        }),
        json!({"kubeMacPool": {"rangeStart": "", "rangeEnd": ""}}),
        json!({
            "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "FE-FF-FF-FF-FF-FF"}
        }),
        json!({"imagePullPolicy": "Never"}),
        json!({"imagePullPolicy": ""}),
        json!({
            "multus": {}, "multusDynamicNetworks": {"hostCRISocketPath": "/run/k0s/containerd.sock"}
        }),
        json!({"kubeSecondaryDNS": {"DOMAIN": "example.com", "NAME_SERVER_IP": "2001:db8::53"}}),
        json!({
            "selfSignConfiguration": {
                "caRotateInterval": "168h", "caOverlapInterval": "24h", "certRotateInterval": "24h",
                "certOverlapInterval": "24h"
            }
        }),
        json!({"selfSignConfiguration": {}}),
        json!({"tlsSecurityProfile": {"type": "Old", "old": null}}),
        json!({
            "images": {"coreDNS": "", "multus": "registry.example/multus:v1"},
            "imageRegistry": "registry.example/mirror", "imagePullSecrets": [{"name": "mirror"}]
        }),
        json!({
            "resources": [
                {"component": "ovs", "container": "ovs-cni-marker", "requests": {"cpu": 1}}
            ]
        }),
        json!({"hostPaths": {"preset": "Talos", "kubeletDir": "/data/kubelet", "cniBinDir": ""}}),
        json!({
            "driftPolicy": "Report", "operatorLogLevel": "Warning",
            "kubevirtIpamController": {"certificateProvider": "CertManager"}
        }),
        json!({"placementConfiguration": {"infra": {}, "workloads": {"nodeSelector": {"a": "b"}}}}),
    ] {
        assert_eq!(
            problems(&resource(spec.clone())),
            Vec::<String>::new(),
            "{spec}"
        );
    }
    assert_eq!(
        problems(&json!({"metadata": {"name": "cluster"}})),
        Vec::<String>::new(),
        "no spec at all"
    );
}

#[test]
fn specifications_that_cannot_work_are_refused_by_field() {
    for (spec, expected) in [
        (
            json!({"imagePullPolicy": "Sometimes"}),
            vec!["spec.imagePullPolicy"],
        ),
        (
            json!({"kubeMacPool": {"rangeStart": "02:00:00:00:00:00"}}),
            vec!["spec.kubeMacPool.rangeEnd"],
        ),
        (
            json!({"kubeMacPool": {"rangeEnd": "02:00:00:00:00:00", "rangeStart": ""}}),
            vec!["spec.kubeMacPool.rangeStart"],
        ),
        (
            json!({"kubeMacPool": {"rangeStart": "x", "rangeEnd": "02:00:00:00:00:00:00:00"}}),
            vec!["spec.kubeMacPool.rangeStart", "spec.kubeMacPool.rangeEnd"],
        ),
        (
            json!({
                "kubeMacPool": {"rangeStart": "01:00:00:00:00:00", "rangeEnd": "03:00:00:00:00:00"}
            }),
            vec!["spec.kubeMacPool.rangeStart", "spec.kubeMacPool.rangeEnd"],
        ),
        (
            json!({
                "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "03:00:00:00:00:00"}
            }),
            vec!["spec.kubeMacPool.rangeEnd"],
        ),
        (
            json!({
                "kubeMacPool": {"rangeStart": "0a:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:ff"}
            }),
            vec!["spec.kubeMacPool.rangeEnd"],
        ),
        (
            json!({"placementConfiguration": {"infra": {
                "tolerations": [{}], "nodeSelector": {"a b": "c"}
            },
                "workloads": {
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                        }
                    }
                }}}),
            vec![
                "spec.placementConfiguration.infra.nodeSelector",
                "spec.placementConfiguration.infra.tolerations[0].operator",
                "spec.placementConfiguration.workloads.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            ],
        ),
        (
            json!({"multusDynamicNetworks": {}}),
            vec!["spec.multusDynamicNetworks"],
        ),
        (
            json!({"multus": {}, "multusDynamicNetworks": {"hostCRISocketPath": "run/crio.sock"}}),
            vec!["spec.multusDynamicNetworks.hostCRISocketPath"],
        ),
        (
            json!({
                "multus": {}, "multusDynamicNetworks": {"hostCRISocketPath": "/run/../crio.sock"}
            }),
            vec!["spec.multusDynamicNetworks.hostCRISocketPath"],
        ),
        (
            json!({"macvtap": {"devicePluginConfig": "Not A Name"}}),
            vec!["spec.macvtap.devicePluginConfig"],
        ),
        (
            json!({"kubeSecondaryDNS": {"domain": "a\nb", "nameServerIP": "1.2.3"}}),
            vec![
                "spec.kubeSecondaryDNS.domain",
                "spec.kubeSecondaryDNS.nameServerIP",
            ],
        ),
        (
            json!({"kubeSecondaryDNS": {"domain": "a.example", "DOMAIN": "a.example"}}),
            vec!["spec.kubeSecondaryDNS.DOMAIN"],
        ),
        (
            json!({
                "kubeSecondaryDNS": {"nameServerIP": "192.0.2.1", "NAME_SERVER_IP": "192.0.2.2"}
            }),
            vec!["spec.kubeSecondaryDNS.NAME_SERVER_IP"],
        ),
        (
            json!({"kubevirtIpamController": {"defaultNetworkNADNamespace": "a.b"}}),
            vec!["spec.kubevirtIpamController.defaultNetworkNADNamespace"],
        ),
        (
            json!({
                "images": {"coreDNS": "Core DNS", "multus": "a@sha256:0"},
                "imageRegistry": "mirror",
                "imagePullSecrets": [{"name": "a"}, {"name": "A"}, {"name": "a"}]
            }),
            vec![
                "spec.images.multus",
                "spec.images.coreDNS",
                "spec.imageRegistry",
                "spec.imagePullSecrets[1].name",
                "spec.imagePullSecrets[2].name",
            ],
        ),
        (
            json!({"resources": [{"component": "ovs"}, {"component": "ovn"}]}),
            vec!["spec.resources[1].component"],
        ),
        (
            json!({
                "hostPaths": {
                    "preset": "Minikube", "cniBinDir": "bin", "cniConfigDir": "/a/./b",
                    "kubeletDir": "/a//b", "networkNamespaceDir": "/a/"
                }
            }),
            vec![
                "spec.hostPaths.preset",
                "spec.hostPaths.cniBinDir",
                "spec.hostPaths.cniConfigDir",
                "spec.hostPaths.kubeletDir",
                "spec.hostPaths.networkNamespaceDir",
            ],
        ),
        (
            json!({"tlsSecurityProfile": {}}),
            vec!["spec.tlsSecurityProfile.type"],
        ),
        (
            json!({
                "driftPolicy": "report", "operatorLogLevel": "2",
                "kubevirtIpamController": {"certificateProvider": "cert-manager"}
            }),
            vec![
                "spec.kubevirtIpamController.certificateProvider",
                "spec.driftPolicy",
                "spec.operatorLogLevel",
            ],
        ),
        (
            json!({"selfSignConfiguration": {"caRotateInterval": "1h"}}),
            vec!["spec.selfSignConfiguration"],
        ),
        (
            json!({
                "selfSignConfiguration": {
                    "caRotateInterval": "-1h", "caOverlapInterval": "0s",
                    "certRotateInterval": "1d", "certOverlapInterval": "1h"
                }
            }),
            vec![
                "spec.selfSignConfiguration.caRotateInterval",
                "spec.selfSignConfiguration.caOverlapInterval",
                "spec.selfSignConfiguration.certRotateInterval",
            ],
        ),
        (
            json!({
                "selfSignConfiguration": {
                    "caRotateInterval": "1h", "caOverlapInterval": "2h", "certRotateInterval": "3h",
                    "certOverlapInterval": "4h"
                }
            }),
            vec![
                "spec.selfSignConfiguration.caOverlapInterval",
                "spec.selfSignConfiguration.certRotateInterval",
                "spec.selfSignConfiguration.certOverlapInterval",
            ],
        ),
        // Types that a schema would not have let through.
        (
            json!({"kubeMacPool": {"rangeStart": 1}, "multus": "yes"}),
            vec!["spec.kubeMacPool", "spec.multus"],
        ),
    ] {
        assert_eq!(fields(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn everything_wrong_is_said_at_once_and_how_to_mend_it() {
    let mut resource = resource(json!({
        "imagePullPolicy": "Sometimes",
        "kubeMacPool": {"rangeStart": "02:00:00:00:00:01", "rangeEnd": "02:00:00:00:00:00"}
    }));
    resource["metadata"]["name"] = "mine".into();
    assert_eq!(
        problems(&resource),
        [
            r#"metadata.name: "mine" is not acted on: there is one NetworkAddonsConfig a cluster, and its name is cluster"#,
            "spec.kubeMacPool.rangeEnd: the range ends at 02:00:00:00:00:00, which is not above its start 02:00:00:00:00:01: exchange them, or choose a higher end",
            r#"spec.imagePullPolicy: "Sometimes" is not a pull policy: use Always, IfNotPresent or Never"#,
        ]
    );
}

#[test]
fn a_spec_that_is_no_object_is_named() {
    assert_eq!(
        problems(&json!({"metadata": {"name": "cluster"}, "spec": "everything"})),
        ["spec: is not an object: write at least `spec: {}`"]
    );
}
