//! The needs of each program of an add-on in its container. Without one of them the program ends,
//! hangs or is never restarted, and nothing in the cluster says why. The table is of the versions
//! that are deployed by default, and is complete: what is not in it is not in the container.
#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};

use crate::testing::{decide, full, objects};

#[path = "../../operands/src/tests/needs.rs"]
mod needs;

fn http(
    scheme: Option<&str>,
    path: &str,
    port: impl Into<Value>,
    delay: u32,
    period: u32,
) -> Value {
    let mut get = json!({"path": path, "port": port.into()});
    if let Some(scheme) = scheme {
        get["scheme"] = scheme.into();
        get["httpHeaders"] = json!([{"name": "Content-Type", "value": "application/json"}]);
    }
    json!({"httpGet": get, "initialDelaySeconds": delay, "periodSeconds": period})
}

/// Workload and container, and its needs. `run` is command and arguments, `writable` and `readable`
/// are folders from outside, `hears` those of them where mounts of the host arrive, `tells` those
/// whose mounts reach the host.
fn programs() -> Vec<(&'static str, Value)> {
    let multus_answers = json!({
        "exec": {
            "command": [
                "curl", "--fail", "--unix-socket", "/host/run/multus/multus.sock",
                "localhost/healthz"
            ]
        },
        "initialDelaySeconds": 15, "periodSeconds": 5
    });
    let socket_is_there = json!({
        "command": ["/bin/sh", "-c", "test -S /host/run/multus/multus.sock"]
    });
    let bridges_are_marked = json!({
        "command": ["sh", "-c", "find /tmp/healthy -mmin -2 | grep -q /tmp/healthy"]
    });
    vec![
        (
            "multus/install-multus-binary",
            json!({
                "privileged": true, "writable": ["/host/opt/cni/bin"], "tells": ["/host/opt/cni/bin"],
                "run": [
                    "/usr/src/multus-cni/bin/install_multus", "-d", "/host/opt/cni/bin", "-t",
                    "thick"
                ]
            }),
        ),
        (
            "multus/kube-multus",
            json!({
                "privileged": true, "hostNetwork": true, "hostPID": true, "env": ["MULTUS_NODE_NAME"],
                "run": ["/usr/src/multus-cni/bin/multus-daemon"],
                "writable": [
                    "/host/etc/cni/net.d", "/opt/cni/bin", "/host/run", "/var/lib/cni/multus", "/var/lib/kubelet", "/run/k8s.cni.cncf.io",
                    "/run/netns", "/hostroot", "/etc/cni/multus/net.d"
                ],
                "readable": ["/etc/cni/net.d/multus.d"], "hears": [
                    "/var/lib/kubelet", "/run/netns", "/hostroot"
                ],
                "preStop": [
                    "/bin/sh", "-c", "rm -rf /host/etc/cni/net.d/00-multus.conf /host/var/lib/cni/*"
                ],
                "livenessProbe": {"exec": socket_is_there, "initialDelaySeconds": 15, "periodSeconds": 20},
                "readinessProbe": {"exec": socket_is_there, "periodSeconds": 5}
            }),
        ),
        (
            "dynamic-networks-controller-ds/dynamic-networks-controller",
            json!({
                "privileged": true, "env": ["NODE_NAME"],
                "run": [
                    "/dynamic-networks-controller",
                    "-config=/etc/dynamic-networks-controller/dynamic-networks-config.json", "-v=5"
                ],
                "writable": [
                    "/host/run/multus", "/host/run/crio"
                ], "readable": ["/etc/dynamic-networks-controller/"],
                "livenessProbe": multus_answers, "readinessProbe": multus_answers
            }),
        ),
        (
            "kube-cni-linux-bridge-plugin/cni-plugins",
            json!({
                "privileged": true, "readOnlyRoot": true, "env": ["SEVERAL_PLUGIN_FOLDERS"], "run": ["/bin/bash", "-ceu", "script"],
                "writable": ["/opt/cni/bin", "/tmp"]
            }),
        ),
        // It logs with glog, which ends the program where it cannot make its files under /tmp.
        (
            "bridge-marker/bridge-marker",
            json!({
                "hostNetwork": true, "user": 1001, "nonRoot": true, "readOnlyRoot": true, "writable": ["/tmp"], "env": ["NODE_NAME"],
                "run": ["-node-name", "$(NODE_NAME)"], "ports": {"healthport": 8081},
                "livenessProbe": http(None, "/healthz", "healthport", 10, 20),
                "readinessProbe": http(None, "/healthz", "healthport", 5, 10)
            }),
        ),
        (
            "ovs-cni-amd64/ovs-cni-plugin",
            json!({
                "privileged": true, "env": ["SEVERAL_PLUGIN_FOLDERS"], "run": ["/bin/sh", "-ceu", "script"],
                "writable": ["/host/opt/cni/bin"], "readable": ["/host/var/run/openvswitch"]
            }),
        ),
        // It touches /tmp/healthy, in its own root file system.
        (
            "ovs-cni-amd64/ovs-cni-marker",
            json!({
                "privileged": true, "hostNetwork": true, "env": ["NODE_NAME"], "writable": ["/host/var/run/openvswitch"],
                "run": [
                    "/marker", "-v", "3", "-logtostderr", "-node-name", "$(NODE_NAME)", "-ovs-socket",
                    "unix:/host/var/run/openvswitch/db.sock", "-healthcheck-interval=60"
                ],
                "livenessProbe": {
                    "exec": bridges_are_marked, "initialDelaySeconds": 60, "periodSeconds": 60
                },
                "readinessProbe": {"exec": bridges_are_marked, "periodSeconds": 5}
            }),
        ),
        (
            "macvtap-cni/install-cni",
            json!({
                "privileged": true, "env": ["SEVERAL_PLUGIN_FOLDERS"], "run": ["/bin/sh", "-ceu", "script"],
                "writable": ["/host/opt/cni/bin"], "tells": ["/host/opt/cni/bin"]
            }),
        ),
        (
            "macvtap-cni/macvtap-cni",
            json!({
                "privileged": true, "hostNetwork": true, "hostPID": true, "run": [
                    "/macvtap-deviceplugin", "-v", "3", "-logtostderr"
                ],
                "writable": [
                    "/var/lib/kubelet/device-plugins"
                ], "envFrom": ["macvtap-deviceplugin-config"]
            }),
        ),
        (
            "kubemacpool-cert-manager/manager",
            json!({
                "user": 107, "nonRoot": true, "noEscalation": true, "drops": ["ALL"], "run": ["/manager", "--v=production"],
                "env": [
                    "CA_ROTATE_INTERVAL", "CA_OVERLAP_INTERVAL", "CERT_ROTATE_INTERVAL", "CERT_OVERLAP_INTERVAL", "RUN_CERT_MANAGER",
                    "POD_NAMESPACE", "POD_NAME", "COMPONENT", "PART_OF", "VERSION", "MANAGED_BY"
                ]
            }),
        ),
        (
            "kubemacpool-mac-controller-manager/manager",
            json!({
                "user": 107, "nonRoot": true, "noEscalation": true, "drops": ["ALL"],
                "run": [
                    "/manager", "--v=production", "--wait-time=300",
                    "--tls-min-version=VersionTLS13"
                ],
                "env": [
                    "POD_NAMESPACE", "POD_NAME", "RANGE_START", "RANGE_END",
                    "KUBEVIRT_CLIENT_GO_SCHEME_REGISTRATION_VERSION"
                ],
                "ports": {"webhook-server": 8000, "metrics": 8443}, "readable": [
                    "/tmp/k8s-webhook-server/serving-certs/"
                ],
                "livenessProbe": http(Some("HTTPS"), "/healthz", "webhook-server", 15, 20),
                "readinessProbe": http(Some("HTTPS"), "/readyz", "webhook-server", 10, 10)
            }),
        ),
        (
            "secondary-dns/secondary-dns",
            json!({
                "user": 1000, "nonRoot": true, "noEscalation": true, "drops": ["ALL"], "run": [
                    "-conf", "/etc/coredns/Corefile"
                ],
                "readable": ["/etc/coredns", "/zones"], "ports": {
                    "dns": 5353, "healthport": 8082, "readyport": 8083
                },
                "livenessProbe": http(None, "/health", "healthport", 15, 20), "readinessProbe": http(None, "/ready", "readyport", 5, 10)
            }),
        ),
        (
            "secondary-dns/status-monitor",
            json!({
                "user": 1000, "nonRoot": true, "noEscalation": true, "drops": ["ALL"], "writable": ["/zones"],
                "env": ["DOMAIN", "NAME_SERVER_IP"], "ports": {"monitorport": 8081},
                "livenessProbe": http(None, "/healthz", "monitorport", 15, 20), "readinessProbe": http(None, "/readyz", "monitorport", 5, 10)
            }),
        ),
        // controller-runtime takes an empty folder for the one that the volume is mounted at.
        (
            "kubevirt-ipam-controller-manager/manager",
            json!({
                "nonRoot": true, "noEscalation": true, "drops": ["ALL"], "env": ["LOG_LEVEL"], "ports": {"webhook-server": 9443},
                "run": [
                    "/manager", "--leader-elect", "--certificates-dir=",
                    "--tls-min-version=VersionTLS13"
                ],
                "readable": ["/tmp/k8s-webhook-server/serving-certs"],
                "livenessProbe": http(None, "/healthz", 8081, 15, 20), "readinessProbe": http(None, "/readyz", 8081, 5, 10)
            }),
        ),
    ]
}

#[test]
fn every_container_gives_its_program_what_it_needs() {
    let decision = decide(&full());
    needs::assert_given(objects(&decision).map(|object| object.body()), programs());
}

#[test]
fn a_program_with_a_read_only_root_can_write_temporary_files() {
    for (name, needs) in programs()
        .iter()
        .filter(|(_, needs)| needs["readOnlyRoot"] == true)
    {
        assert!(
            needs["writable"]
                .as_array()
                .unwrap()
                .contains(&json!("/tmp")),
            "{name}"
        );
    }
}

/// A pod template that lacks the field is another one than the original's, and its pods restart
/// when Weft takes over.
#[test]
fn pods_have_an_affinity_also_where_nothing_is_asked() {
    let mut resource = full();
    resource["spec"]["placementConfiguration"] = json!({"infra": {}, "workloads": {}});
    for object in objects(&decide(&resource)) {
        if let Some(pod) = object.body().pointer("/spec/template/spec") {
            assert_eq!(pod["affinity"], json!({}), "{}", object.key());
        }
    }
}
