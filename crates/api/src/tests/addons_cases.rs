//! Accepted and refused objects in one table: `rules.rs` asks the CEL rules in-process,
//! `crates/system-tests/tests/api/server.rs` a real API server.
#![allow(dead_code, reason = "each test program uses a part")]

use serde_json::{Value, json};

/// A specification that is accepted.
pub struct Accepted {
    /// Why it is here.
    pub name: &'static str,
    /// The specification, YAML.
    pub spec: &'static str,
}

/// A specification that is refused.
pub struct Refused {
    /// The specification, YAML.
    pub spec: &'static str,
    /// The field that the error is about.
    pub field: &'static str,
    /// A part of the message.
    pub message: &'static str,
}

/// A NetworkAddonsConfig of this version with this specification.
pub fn object(version: &str, spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).expect("the table holds YAML");
    json!({
        "apiVersion": format!("networkaddonsoperator.network.kubevirt.io/{version}"),
        "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"},
        "spec": spec,
    })
}

const fn accepted(name: &'static str, spec: &'static str) -> Accepted {
    Accepted { name, spec }
}

const fn refused(spec: &'static str, field: &'static str, message: &'static str) -> Refused {
    Refused {
        spec,
        field,
        message,
    }
}

/// Accepted by schema and rules.
pub const ACCEPTED: &[Accepted] = &[
    accepted("nothing", "{}"),
    accepted("the example of CNAO 0.23", "{multus: {}, linuxBridge: {}, kubeMacPool: {}, nmstate: {}, ovs: {}, imagePullPolicy: Always}"),
    accepted(
        "everything",
        "
multus: {}
multusDynamicNetworks: {hostCRISocketPath: /run/containerd/containerd.sock}
linuxBridge: {}
ovs: {}
kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: 'FE:FF:FF:FF:FF:FF'}
macvtap: {devicePluginConfig: macvtap-deviceplugin-config}
kubeSecondaryDNS: {domain: secondary.example.com, nameServerIP: 192.0.2.53}
kubevirtIpamController: {defaultNetworkNADNamespace: ovn-kubernetes, certificateProvider: CertManager}
nmstate: {}
images:
  multus: registry.example:5000/team/multus__x--y.z:V1.0_a-b
  multusDynamicNetworksController: a
  linuxBridge: 'registry.example/a@sha256:976a24392c2a096c38c2663d234b2d3131f5c24558889196d30b9ac1b6716788'
  linuxBridgeMarker: '[2001:db8::1]:5000/a/b'
  kubeMacPool: 'a:v1@sha256:976a24392c2a096c38c2663d234b2d3131f5c24558889196d30b9ac1b6716788'
  ovsCni: localhost/a
  macvtapCni: team/a:1
  kubeSecondaryDNS: 10.0.0.1:5000/a
  coreDNS: registry.k8s.io/coredns/coredns:v1.10.1
  kubevirtIpamController: UPPER/a
imageRegistry: registry.example:5000/mirror/of-all
imagePullSecrets: [{name: mirror}, {name: mirror.two}]
imagePullPolicy: IfNotPresent
hostPaths: {preset: MicroK8s, cniBinDir: /a/b, cniConfigDir: /a/.b, kubeletDir: /a b, networkNamespaceDir: /run/netns}
resources:
- {component: kubeMacPool, workload: kubemacpool-cert-manager, container: manager, requests: {cpu: 1, memory: 64Mi}, limits: {cpu: '1.5', ephemeral-storage: 1e9}}
- {component: multus, workload: '', container: ''}
selfSignConfiguration: {caRotateInterval: 168h, caOverlapInterval: 24h, certRotateInterval: 24h, certOverlapInterval: 8h}
placementConfiguration:
  infra:
    nodeSelector: {node-role.kubernetes.io/control-plane: ''}
    affinity:
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: kubemacpool}}}
    tolerations:
    - {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
  workloads:
    affinity: {}
tlsSecurityProfile:
  type: Custom
  custom: {ciphers: [ECDHE-RSA-AES128-GCM-SHA256], minTLSVersion: VersionTLS12, groups: [X25519MLKEM768, X25519]}
driftPolicy: Report
operatorLogLevel: Debug
",
    ),
    accepted(
        "empty texts count as not given",
        "
multus: {}
imagePullPolicy: ''
multusDynamicNetworks: {hostCRISocketPath: ''}
kubeMacPool: {rangeStart: '', rangeEnd: ''}
macvtap: {devicePluginConfig: ''}
kubeSecondaryDNS: {domain: '', nameServerIP: ''}
kubevirtIpamController: {defaultNetworkNADNamespace: ''}
selfSignConfiguration: {caRotateInterval: '', caOverlapInterval: '', certRotateInterval: '', certOverlapInterval: ''}
",
    ),
    accepted("no folders", "{hostPaths: {cniBinDir: '', cniConfigDir: '', kubeletDir: '', networkNamespaceDir: ''}}"),
    accepted("a registry without a path", "{imageRegistry: localhost}"),
    accepted("no image at all", "{images: {multus: ''}, imageRegistry: '', imagePullSecrets: []}"),
    accepted("one end of a range is empty, the other is not there", "{kubeMacPool: {rangeStart: ''}}"),
    accepted("an empty block of intervals", "{selfSignConfiguration: {}}"),
    accepted("the capitals of CNAO 0.102's README", "{kubeSecondaryDNS: {DOMAIN: example.com, NAME_SERVER_IP: 10.0.0.1}}"),
    accepted("one spelling each", "{kubeSecondaryDNS: {DOMAIN: example.com, nameServerIP: '2001:db8::53'}}"),
    accepted("a domain of one label", "{kubeSecondaryDNS: {domain: vm}}"),
    accepted("MAC addresses with hyphens", "{kubeMacPool: {rangeStart: 02-00-00-00-00-01, rangeEnd: 02-00-00-00-00-02}}"),
    accepted("MAC addresses with dots against colons", "{kubeMacPool: {rangeStart: 0200.0000.0001, rangeEnd: '02:00:00:00:00:02'}}"),
    accepted("an end in capitals", "{kubeMacPool: {rangeStart: '0A:00:00:00:00:00', rangeEnd: '0a:00:00:00:00:01'}}"),
    accepted(
        "equal intervals",
        "{selfSignConfiguration: {caRotateInterval: 24h, caOverlapInterval: 1440m, certRotateInterval: 86400s, certOverlapInterval: 1h30m0.5s}}",
    ),
    accepted("another container runtime", "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run/k0s/containerd.sock}}"),
    accepted("a path with dots in its names", "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run/.crio/..crio.sock}}"),
    accepted("a ConfigMap with a dot in its name", "{macvtap: {devicePluginConfig: macvtap.config}}"),
    accepted("a named TLS profile", "{tlsSecurityProfile: {type: Old, old: {}}}"),
    accepted(
        "a TLS profile with nulls, as Go programs write it",
        "{tlsSecurityProfile: {type: Modern, old: null, intermediate: null, modern: {}, custom: null}}",
    ),
    accepted("no TLS profile, as null", "{tlsSecurityProfile: null}"),
    accepted("a custom TLS profile without a type", "{tlsSecurityProfile: {custom: {minTLSVersion: VersionTLS13}}}"),
];

const MAC: &str = "must be a MAC address of six octets";
const UNICAST: &str = "must be a unicast address";
const HALF: &str = "rangeStart and rangeEnd belong together";
const BACKWARD: &str = "rangeEnd must be greater than rangeStart";
const PATH: &str = "must be an absolute path";
const DOMAIN: &str = "must be a DNS domain in lower case";
const IP: &str = "must be an IPv4 or IPv6 address";
const CONFIG_MAP: &str = "must be the name of a ConfigMap";
const NAMESPACE: &str = "must be the name of a namespace";
const DURATION: &str = "must be a duration";
const ZERO: &str = "must be longer than zero";
const IMAGE: &str = "must be the reference of a container image";
const FOLDER: &str = "must be the absolute path of a folder";
const REGISTRY: &str = "must be a registry";
const SECRET: &str = "must be the name of a Secret";
const FOUR: &str = "the four intervals belong together";

/// Refused by a CEL rule.
pub const REFUSED_BY_RULE: &[Refused] = &[
    refused(
        "{multusDynamicNetworks: {}}",
        "spec",
        "multusDynamicNetworks needs multus: add `multus: {}`",
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:00'}}",
        "spec.kubeMacPool",
        HALF,
    ),
    refused(
        "{kubeMacPool: {rangeEnd: '02:00:00:00:00:00'}}",
        "spec.kubeMacPool",
        HALF,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: ''}}",
        "spec.kubeMacPool",
        HALF,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:01', rangeEnd: '02:00:00:00:00:00'}}",
        "spec.kubeMacPool",
        BACKWARD,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: '02:00:00:00:00:00'}}",
        "spec.kubeMacPool",
        BACKWARD,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:0A', rangeEnd: 02-00-00-00-00-0a}}",
        "spec.kubeMacPool",
        BACKWARD,
    ),
    // A later octet is smaller at the start than at the end, an earlier one greater.
    refused(
        "{kubeMacPool: {rangeStart: '0a:00:00:00:00:00', rangeEnd: '02:00:00:00:00:ff'}}",
        "spec.kubeMacPool",
        BACKWARD,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00', rangeEnd: '02:00:00:00:00:ff'}}",
        "spec.kubeMacPool.rangeStart",
        MAC,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:0g', rangeEnd: '02:00:00:00:00:ff'}}",
        "spec.kubeMacPool.rangeStart",
        MAC,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00-00:00:00:00', rangeEnd: '02:00:00:00:00:ff'}}",
        "spec.kubeMacPool.rangeStart",
        MAC,
    ),
    refused(
        "{kubeMacPool: {rangeStart: \"02:00:00:00:00:00\\n\", rangeEnd: '02:00:00:00:00:ff'}}",
        "spec.kubeMacPool.rangeStart",
        MAC,
    ),
    // Eight octets are an EUI-64: a network interface has six.
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: '02:00:00:00:00:00:00:ff'}}",
        "spec.kubeMacPool.rangeEnd",
        MAC,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '01:00:00:00:00:00', rangeEnd: '02:00:00:00:00:ff'}}",
        "spec.kubeMacPool.rangeStart",
        UNICAST,
    ),
    refused(
        "{kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: 'FF:FF:FF:FF:FF:FF'}}",
        "spec.kubeMacPool.rangeEnd",
        UNICAST,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: run/crio.sock}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run/../crio.sock}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run/./crio.sock}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run/crio/..}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run//crio.sock}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /run/crio/}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: '/run/a:b'}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: \"/run/a\\nb\"}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        PATH,
    ),
    refused(
        "{images: {multus: 'registry.example/Multus'}}",
        "spec.images.multus",
        IMAGE,
    ),
    refused(
        "{images: {multusDynamicNetworksController: 'a b'}}",
        "spec.images.multusDynamicNetworksController",
        IMAGE,
    ),
    refused(
        "{images: {linuxBridge: 'a@sha256:00'}}",
        "spec.images.linuxBridge",
        IMAGE,
    ),
    refused(
        "{images: {linuxBridgeMarker: 'https://registry.example/a'}}",
        "spec.images.linuxBridgeMarker",
        IMAGE,
    ),
    refused(
        "{images: {kubeMacPool: 'a:'}}",
        "spec.images.kubeMacPool",
        IMAGE,
    ),
    refused("{images: {ovsCni: 'a//b'}}", "spec.images.ovsCni", IMAGE),
    refused(
        "{images: {macvtapCni: 'a/'}}",
        "spec.images.macvtapCni",
        IMAGE,
    ),
    refused(
        "{images: {kubeSecondaryDNS: \"a\n\"}}",
        "spec.images.kubeSecondaryDNS",
        IMAGE,
    ),
    refused(
        "{images: {coreDNS: '-r.example/a'}}",
        "spec.images.coreDNS",
        IMAGE,
    ),
    refused(
        "{images: {kubevirtIpamController: 'a___b'}}",
        "spec.images.kubevirtIpamController",
        IMAGE,
    ),
    refused(
        "{resources: [{component: ovs, workload: multus}]}",
        "spec.resources[0]",
        "workload must be a DaemonSet or Deployment of the component",
    ),
    refused(
        "{resources: [{component: ovs, container: manager}]}",
        "spec.resources[0]",
        "container must be a container of the component",
    ),
    refused(
        "{hostPaths: {cniBinDir: opt/cni/bin}}",
        "spec.hostPaths.cniBinDir",
        FOLDER,
    ),
    refused(
        "{hostPaths: {cniBinDir: /opt/cni/bin/}}",
        "spec.hostPaths.cniBinDir",
        FOLDER,
    ),
    refused(
        "{hostPaths: {cniConfigDir: /etc/../cni}}",
        "spec.hostPaths.cniConfigDir",
        FOLDER,
    ),
    refused(
        "{hostPaths: {kubeletDir: '/a:b'}}",
        "spec.hostPaths.kubeletDir",
        FOLDER,
    ),
    refused(
        "{hostPaths: {networkNamespaceDir: /}}",
        "spec.hostPaths.networkNamespaceDir",
        FOLDER,
    ),
    refused("{imageRegistry: mirror}", "spec.imageRegistry", REGISTRY),
    refused("{imageRegistry: mirror/x}", "spec.imageRegistry", REGISTRY),
    refused(
        "{imageRegistry: 'https://registry.example'}",
        "spec.imageRegistry",
        REGISTRY,
    ),
    refused(
        "{imageRegistry: registry.example/}",
        "spec.imageRegistry",
        REGISTRY,
    ),
    refused(
        "{imageRegistry: registry.example/Mirror}",
        "spec.imageRegistry",
        REGISTRY,
    ),
    refused(
        "{imageRegistry: 'registry.example/a:v1'}",
        "spec.imageRegistry",
        REGISTRY,
    ),
    refused(
        "{imageRegistry: 'registry.example:/a'}",
        "spec.imageRegistry",
        REGISTRY,
    ),
    refused(
        "{imagePullSecrets: [{name: Mirror}]}",
        "spec.imagePullSecrets[0].name",
        SECRET,
    ),
    refused(
        "{imagePullSecrets: [{name: ''}]}",
        "spec.imagePullSecrets[0].name",
        SECRET,
    ),
    refused(
        "{macvtap: {devicePluginConfig: Macvtap}}",
        "spec.macvtap.devicePluginConfig",
        CONFIG_MAP,
    ),
    refused(
        "{macvtap: {devicePluginConfig: 'a: b'}}",
        "spec.macvtap.devicePluginConfig",
        CONFIG_MAP,
    ),
    refused(
        "{macvtap: {devicePluginConfig: a..b}}",
        "spec.macvtap.devicePluginConfig",
        CONFIG_MAP,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: example.com, DOMAIN: example.com}}",
        "spec.kubeSecondaryDNS",
        "keep domain, remove DOMAIN",
    ),
    refused(
        "{kubeSecondaryDNS: {nameServerIP: 192.0.2.1, NAME_SERVER_IP: 192.0.2.1}}",
        "spec.kubeSecondaryDNS",
        "keep nameServerIP, remove NAME_SERVER_IP",
    ),
    refused(
        "{kubeSecondaryDNS: {domain: \"example.com\\nkey: value\"}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: \"example.com\\n\"}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: Example.com}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: example..com}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: example.com.}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: -a.com}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {domain: a123456789012345678901234567890123456789012345678901234567890123.com}}",
        "spec.kubeSecondaryDNS.domain",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {DOMAIN: 'a b'}}",
        "spec.kubeSecondaryDNS.DOMAIN",
        DOMAIN,
    ),
    refused(
        "{kubeSecondaryDNS: {nameServerIP: 192.0.2.256}}",
        "spec.kubeSecondaryDNS.nameServerIP",
        IP,
    ),
    refused(
        "{kubeSecondaryDNS: {nameServerIP: 192.0.2}}",
        "spec.kubeSecondaryDNS.nameServerIP",
        IP,
    ),
    refused(
        "{kubeSecondaryDNS: {nameServerIP: 192.0.2.0/24}}",
        "spec.kubeSecondaryDNS.nameServerIP",
        IP,
    ),
    refused(
        "{kubeSecondaryDNS: {nameServerIP: ns.example.com}}",
        "spec.kubeSecondaryDNS.nameServerIP",
        IP,
    ),
    refused(
        "{kubeSecondaryDNS: {NAME_SERVER_IP: 'fe80::1%eth0'}}",
        "spec.kubeSecondaryDNS.NAME_SERVER_IP",
        IP,
    ),
    refused(
        "{kubevirtIpamController: {defaultNetworkNADNamespace: a.b}}",
        "spec.kubevirtIpamController.defaultNetworkNADNamespace",
        NAMESPACE,
    ),
    refused(
        "{kubevirtIpamController: {defaultNetworkNADNamespace: -a}}",
        "spec.kubevirtIpamController.defaultNetworkNADNamespace",
        NAMESPACE,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 48h}}",
        "spec.selfSignConfiguration",
        FOUR,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 48h, caOverlapInterval: 24h, certRotateInterval: 24h, certOverlapInterval: ''}}",
        "spec.selfSignConfiguration",
        FOUR,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 48h, caOverlapInterval: 49h, certRotateInterval: 24h, certOverlapInterval: 12h}}",
        "spec.selfSignConfiguration",
        "caOverlapInterval must not be longer than caRotateInterval",
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 48h, caOverlapInterval: 24h, certRotateInterval: 48h1s, certOverlapInterval: 12h}}",
        "spec.selfSignConfiguration",
        "certRotateInterval must not be longer than caRotateInterval",
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 48h, caOverlapInterval: 24h, certRotateInterval: 24h, certOverlapInterval: 1441m}}",
        "spec.selfSignConfiguration",
        "certOverlapInterval must not be longer than certRotateInterval",
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: two days}}",
        "spec.selfSignConfiguration.caRotateInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 2d}}",
        "spec.selfSignConfiguration.caRotateInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: '48'}}",
        "spec.selfSignConfiguration.caRotateInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 9999999999h}}",
        "spec.selfSignConfiguration.caRotateInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: -48h}}",
        "spec.selfSignConfiguration.caRotateInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {caOverlapInterval: h}}",
        "spec.selfSignConfiguration.caOverlapInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {certRotateInterval: 1 h}}",
        "spec.selfSignConfiguration.certRotateInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {certOverlapInterval: \"1h\\n\"}}",
        "spec.selfSignConfiguration.certOverlapInterval",
        DURATION,
    ),
    refused(
        "{selfSignConfiguration: {caRotateInterval: 0s}}",
        "spec.selfSignConfiguration.caRotateInterval",
        ZERO,
    ),
    refused(
        "{selfSignConfiguration: {caOverlapInterval: 0h0m0s}}",
        "spec.selfSignConfiguration.caOverlapInterval",
        ZERO,
    ),
    refused(
        "{selfSignConfiguration: {certRotateInterval: 0.0h}}",
        "spec.selfSignConfiguration.certRotateInterval",
        ZERO,
    ),
    refused(
        "{selfSignConfiguration: {certOverlapInterval: 0ms}}",
        "spec.selfSignConfiguration.certOverlapInterval",
        ZERO,
    ),
    refused(
        "{tlsSecurityProfile: {}}",
        "spec.tlsSecurityProfile",
        "set type to Old, Intermediate, Modern or Custom",
    ),
    refused(
        "{tlsSecurityProfile: {modern: {}}}",
        "spec.tlsSecurityProfile",
        "set type to Old, Intermediate, Modern or Custom",
    ),
    refused(
        "{tlsSecurityProfile: {type: Custom}}",
        "spec.tlsSecurityProfile",
        "type Custom needs custom",
    ),
    refused(
        "{tlsSecurityProfile: {type: Custom, custom: null}}",
        "spec.tlsSecurityProfile",
        "type Custom needs custom",
    ),
];

/// Refused by the rest of the schema: types, enumerations, lengths.
pub const REFUSED_BY_SCHEMA: &[Refused] = &[
    refused(
        "{imagePullPolicy: always}",
        "spec.imagePullPolicy",
        "supported values: \"Always\", \"IfNotPresent\", \"Never\"",
    ),
    refused(
        "{imagePullSecrets: [{name: a}, {name: a}]}",
        "spec.imagePullSecrets[1]",
        "Duplicate value",
    ),
    refused(
        "{imagePullSecrets: [{}]}",
        "spec.imagePullSecrets[0].name",
        "Required value",
    ),
    refused(
        "{resources: [{component: nmstate}]}",
        "spec.resources[0].component",
        "Unsupported value",
    ),
    refused(
        "{resources: [{component: ovs, requests: {cpu: '-1'}}]}",
        "spec.resources[0].requests.cpu",
        "should match",
    ),
    refused(
        "{resources: [{component: ovs, limits: {memory: 1 Gi}}]}",
        "spec.resources[0].limits.memory",
        "should match",
    ),
    refused(
        "{hostPaths: {preset: k3s}}",
        "spec.hostPaths.preset",
        "supported values: \"Kubeadm\", \"K3s\"",
    ),
    refused(
        "{driftPolicy: report}",
        "spec.driftPolicy",
        "supported values: \"Repair\", \"Report\"",
    ),
    refused(
        "{operatorLogLevel: '0'}",
        "spec.operatorLogLevel",
        "supported values: \"Debug\", \"Info\", \"Warning\", \"Error\"",
    ),
    refused(
        "{kubevirtIpamController: {certificateProvider: cert-manager}}",
        "spec.kubevirtIpamController.certificateProvider",
        "supported values: \"Weft\", \"CertManager\"",
    ),
    refused("{multus: true}", "spec.multus", "must be of type object"),
    refused(
        "{kubeMacPool: {rangeStart: 1}}",
        "spec.kubeMacPool.rangeStart",
        "must be of type string",
    ),
    refused(
        "{placementConfiguration: {infra: {tolerations: {}}}}",
        "spec.placementConfiguration.infra.tolerations",
        "must be of type array",
    ),
    refused(
        "{placementConfiguration: {infra: {nodeSelector: {a: 1}}}}",
        "spec.placementConfiguration.infra.nodeSelector.a",
        "must be of type string",
    ),
    refused(
        "{placementConfiguration: {workloads: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: x, preference: {}}]}}}}}",
        "spec.placementConfiguration.workloads.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
        "must be of type integer",
    ),
    refused(
        "{placementConfiguration: {workloads: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}}}",
        "spec.placementConfiguration.workloads.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
        "Required value",
    ),
    refused(
        "{tlsSecurityProfile: {type: modern}}",
        "spec.tlsSecurityProfile.type",
        "supported values: \"Old\", \"Intermediate\", \"Modern\", \"Custom\"",
    ),
    refused(
        "{tlsSecurityProfile: {type: Custom, custom: {ciphers: [RC4-MD5]}}}",
        "spec.tlsSecurityProfile.custom.ciphers[0]",
        "Unsupported value",
    ),
    refused(
        "{tlsSecurityProfile: {type: Custom, custom: {groups: [P-256]}}}",
        "spec.tlsSecurityProfile.custom.groups[0]",
        "Unsupported value",
    ),
    refused(
        "{tlsSecurityProfile: {type: Custom, custom: {minTLSVersion: TLSv1.3}}}",
        "spec.tlsSecurityProfile.custom.minTLSVersion",
        "supported values: \"VersionTLS10\"",
    ),
    refused(
        "{multus: {}, multusDynamicNetworks: {hostCRISocketPath: /a123456789/b123456789/c123456789/d123456789/e123456789/f123456789/g123456789/h123456789/i123456789/j12345678}}",
        "spec.multusDynamicNetworks.hostCRISocketPath",
        "may not be more than 107",
    ),
    refused(
        "{kubevirtIpamController: {defaultNetworkNADNamespace: a123456789012345678901234567890123456789012345678901234567890123}}",
        "spec.kubevirtIpamController.defaultNetworkNADNamespace",
        "may not be more than 63",
    ),
];
