//! Every option of a NetworkAddonsConfig with a change of it, and the workloads whose pods that
//! change restarts. `rolls.rs` compares decisions. The system tests do the same to a cluster.

use serde_json::{Value, json};

/// A change of one option.
pub struct Change {
    /// The change, as a JSON merge patch (RFC 7386) of the specification.
    pub spec: Value,
    /// The workloads that roll, and no others.
    pub rolls: Vec<&'static str>,
    /// True if the value stays when the option is left out later. Else its default comes back, and
    /// the same workloads roll again.
    pub stays: bool,
}

/// Pods that serve their node.
pub const DAEMON_SETS: [&str; 6] = [
    "multus",
    "dynamic-networks-controller-ds",
    "kube-cni-linux-bridge-plugin",
    "bridge-marker",
    "ovs-cni-amd64",
    "macvtap-cni",
];
const POOL: &str = "kubemacpool-mac-controller-manager";
const POOL_CERTIFICATES: &str = "kubemacpool-cert-manager";
const DNS: &str = "secondary-dns";
const IPAM: &str = "kubevirt-ipam-controller-manager";
/// Pods that serve the cluster.
pub const DEPLOYMENTS: [&str; 4] = [POOL, POOL_CERTIFICATES, DNS, IPAM];

/// All add-ons, with all options left out that need not be given.
pub fn full() -> Value {
    json!({"multus": {}, "multusDynamicNetworks": {}, "linuxBridge": {}, "ovs": {}, "macvtap": {}, "kubeSecondaryDNS": {},
        "kubevirtIpamController": {}, "kubeMacPool": {}})
}

pub fn changes() -> Vec<Change> {
    let goes_back = |spec: Value, rolls: &[&'static str]| Change {
        spec,
        rolls: rolls.to_vec(),
        stays: false,
    };
    let stays = |spec: Value, rolls: &[&'static str]| Change {
        spec,
        rolls: rolls.to_vec(),
        stays: true,
    };
    let everything = [DAEMON_SETS.as_slice(), &DEPLOYMENTS].concat();
    let anywhere =
        || json!({"tolerations": [{"operator": "Exists"}], "affinity": {}, "nodeSelector": {}});
    let custom = json!({"type": "Custom", "intermediate": null, "custom": {"minTLSVersion": "VersionTLS12",
        "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256"], "groups": ["X25519"]}});
    let image = |field: &str, rolls: &[&'static str]| {
        goes_back(
            json!({"images": {field: "registry.example/another:v1"}}),
            rolls,
        )
    };
    vec![
        goes_back(
            json!({
                "resources": [
                    {"component": "multus", "container": "kube-multus", "limits": {"memory": "1Gi"}}
                ]
            }),
            &["multus"],
        ),
        stays(json!({"imagePullPolicy": "Always"}), &everything),
        goes_back(
            json!({"imagePullSecrets": [{"name": "mirror"}]}),
            &everything,
        ),
        goes_back(
            json!({"imageRegistry": "registry.example/mirror"}),
            &everything,
        ),
        image("multus", &["multus"]),
        image(
            "multusDynamicNetworksController",
            &["dynamic-networks-controller-ds"],
        ),
        image("linuxBridge", &["kube-cni-linux-bridge-plugin"]),
        image("linuxBridgeMarker", &["bridge-marker"]),
        image("kubeMacPool", &[POOL, POOL_CERTIFICATES]),
        image("ovsCni", &["ovs-cni-amd64"]),
        image("macvtapCni", &["macvtap-cni"]),
        image("kubeSecondaryDNS", &[DNS]),
        image("coreDNS", &[DNS]),
        image("kubevirtIpamController", &[IPAM]),
        // Before the folders: one that is given wins over the preset.
        goes_back(json!({"hostPaths": {"preset": "Talos"}}), &["multus"]),
        goes_back(
            json!({"hostPaths": {"cniBinDir": "/plugins"}}),
            &[
                "multus",
                "kube-cni-linux-bridge-plugin",
                "ovs-cni-amd64",
                "macvtap-cni",
            ],
        ),
        goes_back(
            json!({"hostPaths": {"cniConfigDir": "/networks"}}),
            &["multus"],
        ),
        goes_back(
            json!({"hostPaths": {"kubeletDir": "/kubelet"}}),
            &["multus"],
        ),
        goes_back(
            json!({"hostPaths": {"networkNamespaceDir": "/namespaces"}}),
            &["multus"],
        ),
        goes_back(
            json!({"placementConfiguration": {"infra": anywhere()}}),
            &DEPLOYMENTS,
        ),
        goes_back(
            json!({"placementConfiguration": {"workloads": anywhere()}}),
            &DAEMON_SETS,
        ),
        goes_back(
            json!({"tlsSecurityProfile": {"type": "Intermediate", "intermediate": {}}}),
            &[POOL, IPAM],
        ),
        goes_back(json!({"tlsSecurityProfile": custom}), &[POOL, IPAM]),
        stays(
            json!({
                "selfSignConfiguration": {
                    "caRotateInterval": "100h", "caOverlapInterval": "20h",
                    "certRotateInterval": "50h", "certOverlapInterval": "10h"
                }
            }),
            &[POOL_CERTIFICATES],
        ),
        stays(
            json!({"multusDynamicNetworks": {"hostCRISocketPath": "/run/k0s/containerd.sock"}}),
            &["dynamic-networks-controller-ds"],
        ),
        stays(
            json!({"macvtap": {"devicePluginConfig": "mine"}}),
            &["macvtap-cni"],
        ),
        goes_back(
            json!({"kubeSecondaryDNS": {"domain": "secondary.example.com"}}),
            &[DNS],
        ),
        goes_back(
            json!({"kubeSecondaryDNS": {"nameServerIP": "192.0.2.53"}}),
            &[DNS],
        ),
        goes_back(
            json!({"kubevirtIpamController": {"defaultNetworkNADNamespace": "ovn-kubernetes"}}),
            &[IPAM],
        ),
        // KubeMacPool follows its ConfigMap.
        stays(
            json!({
                "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:ff:ff"}
            }),
            &[],
        ),
        goes_back(
            json!({"kubevirtIpamController": {"certificateProvider": "Weft"}}),
            &[],
        ),
        goes_back(json!({"operatorLogLevel": "Debug"}), &[]),
        goes_back(json!({"driftPolicy": "Report"}), &[]),
    ]
}
