//! The needs of each program of a network in its container. The table is complete: what is not in
//! it is not in the container.
#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};
use weft_plan::Facts;

use crate::testing::try_decide;

#[path = "../../operands/src/tests/needs.rs"]
mod needs;

fn assert_given(network: Value, deploy_kube_proxy: bool, table: Vec<(&str, Value)>) {
    let spec = json!({
        "serviceNetwork": "10.96.0.0/16", "clusterNetworks": [
            {"cidr": "10.244.0.0/16", "hostSubnetLength": 8}
        ],
        "defaultNetwork": network, "deployKubeProxy": deploy_kube_proxy,
    });
    let decision = try_decide(spec, None, &Facts::default()).unwrap();
    needs::assert_given(
        decision
            .units
            .iter()
            .flat_map(|unit| &unit.objects)
            .map(|object| object.body()),
        table,
    );
}

#[test]
fn flannel_and_kube_proxy_are_given_what_they_need() {
    assert_given(
        json!({"type": "Flannel", "flannelConfig": {"cniPlugin": "flannel"}}),
        true,
        vec![
            (
                "kube-flannel-ds/install-cni",
                json!({
                    "drops": ["ALL"],
                    "env": ["NODE_NAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"],
                    "noEscalation": true, "readOnlyRoot": true, "readable": ["/host/opt/cni/bin"],
                    "run": [
                        "weft", "node", "cni-config", "--node-name=$(NODE_NAME)",
                        "--conf-dir=/host/etc/cni/net.d", "--bin-dir=/host/opt/cni/bin",
                        "--name=10-flannel.conflist", "--mtu=1450", "--cni-type=flannel"
                    ],
                    "user": 0, "writable": ["/host/etc/cni/net.d"]
                }),
            ),
            (
                "kube-flannel-ds/install-cni-plugin",
                json!({
                    "run": ["cp", "-f", "/flannel", "/host/opt/cni/bin/flannel"],
                    "writable": ["/host/opt/cni/bin"]
                }),
            ),
            (
                "kube-flannel-ds/kube-flannel",
                json!({
                    "adds": ["NET_ADMIN", "NET_RAW"],
                    "env": [
                        "POD_NAME", "POD_NAMESPACE", "NODE_NAME", "KUBERNETES_SERVICE_HOST",
                        "KUBERNETES_SERVICE_PORT", "EVENT_QUEUE_DEPTH", "CONT_WHEN_CACHE_NOT_READY"
                    ],
                    "hostNetwork": true,
                    "livenessProbe": {
                        "httpGet": {"host": "127.0.0.1", "path": "/healthz", "port": 29110},
                        "initialDelaySeconds": 10, "periodSeconds": 10
                    },
                    "readable": ["/etc/kube-flannel/"],
                    "readinessProbe": {
                        "httpGet": {"host": "127.0.0.1", "path": "/healthz", "port": 29110},
                        "periodSeconds": 5
                    },
                    "run": [
                        "/opt/bin/flanneld", "--ip-masq", "--kube-subnet-mgr",
                        "--healthz-ip=127.0.0.1", "--healthz-port=29110"
                    ],
                    "writable": ["/run/flannel", "/run/xtables.lock"]
                }),
            ),
            (
                "openshift-kube-proxy/kube-proxy",
                json!({
                    "env": ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "K8S_NODE_NAME"],
                    "hears": ["/host"], "hostNetwork": true,
                    "livenessProbe": {
                        "httpGet": {"path": "/livez", "port": "healthz"}, "initialDelaySeconds": 10,
                        "periodSeconds": 10
                    },
                    "ports": {"healthz": 10256, "metrics": 9101}, "privileged": true,
                    "readable": ["/config", "/host"],
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": "healthz"},
                        "initialDelaySeconds": 1, "periodSeconds": 5
                    },
                    "run": [
                        "kube-proxy", "--config=/config/kube-proxy-config.yaml",
                        "--hostname-override=$(K8S_NODE_NAME)"
                    ],
                    "writable": ["/run/xtables.lock"]
                }),
            ),
        ],
    );
}

#[test]
fn openshift_sdn_is_given_what_it_needs() {
    assert_given(
        json!({"type": "OpenShiftSDN"}),
        false,
        vec![
            (
                "ovs/openvswitch",
                json!({
                    "hostNetwork": true, "hostPID": true, "privileged": true,
                    "readable": ["/lib/modules", "/sys"], "run": ["/bin/bash", "-c", "script"],
                    "writable": ["/run/openvswitch", "/var/run/openvswitch", "/etc/openvswitch"]
                }),
            ),
            (
                "sdn-controller/sdn-controller",
                json!({
                    "env": ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"],
                    "hostNetwork": true, "nonRoot": true, "readable": ["/config"],
                    "run": [
                        "hypershift", "openshift-network-controller",
                        "--config=/config/controller-config.yaml"
                    ],
                    "user": 65534
                }),
            ),
            (
                "sdn/sdn",
                json!({
                    "env": ["OPENSHIFT_DNS_DOMAIN", "K8S_NODE_NAME"], "hostNetwork": true,
                    "hostPID": true, "ports": {"healthz": 10256}, "privileged": true,
                    "readable": [
                        "/config", "/etc/kubernetes/kubeconfig", "/etc/sysconfig/openshift-sdn",
                        "/lib/modules", "/var/run/dbus", "/var/run/openvswitch",
                        "/var/run/kubernetes"
                    ],
                    "readinessProbe": {
                        "exec": {
                            "command": ["test", "-f", "/etc/cni/net.d/80-openshift-network.conf"]
                        },
                        "initialDelaySeconds": 5, "periodSeconds": 5
                    },
                    "run": ["/bin/bash", "-c", "script"],
                    "writable": [
                        "/var/run", "/var/run/openshift-sdn", "/host/opt/cni/bin", "/etc/cni/net.d",
                        "/var/lib/cni/networks/openshift-sdn"
                    ]
                }),
            ),
        ],
    );
}
