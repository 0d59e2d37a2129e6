//! Facts about the cluster that decisions depend on, and how the operator reads them from the API
//! server's objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{CniReport, Kind, Live, OWNER_LABEL, kinds, rollout::PodView, text};

/// Known facts about the cluster. Watched, so that what is installed later is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The kinds that the cluster serves next to those of Kubernetes, by the names of their
    /// definitions, as far as anything depends on them: for example `certificates.cert-manager.io`.
    pub definitions: BTreeSet<String>,
    /// The TCP ports where API servers listen, behind the Service `kubernetes`. Empty if that is
    /// not known.
    pub api_server_ports: BTreeSet<u16>,
    /// The nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// True if nodes may not be listed: that there are none in `nodes` then says nothing.
    pub nodes_unknown: bool,
    /// Networks that nodes report, by the name of the node. A node appears after pods of the
    /// default network have started on it.
    pub cni_reports: BTreeMap<String, CniReport>,
    /// The MTU of the network of the operator's own host, as it was when the operator started.
    /// `None` if it is not on the host's network, or if that has no default route.
    pub host_mtu: Option<u32>,
    /// How OpenShift's own network operator is configured, where it is at work.
    pub openshift_network: Option<OpenShiftNetwork>,
    /// True if the cluster came with a service proxy, as kubeadm installs it: the DaemonSet
    /// `kube-system/kube-proxy`.
    pub foreign_kube_proxy: bool,
    /// How a Flannel of another owner is configured: the ConfigMap `kube-flannel/kube-flannel-cfg`,
    /// as kube-flannel.yml has it.
    pub foreign_flannel: Option<ForeignFlannel>,
    /// The NMStates of others, by name: those without the label of a resource of Weft's.
    pub foreign_nmstates: BTreeSet<String>,
    /// The blocks of addresses that the API server gives to Services by default, at most one a
    /// family: `spec.cidrs` of the ServiceCIDR `kubernetes`, which the API server makes from
    /// `--service-cluster-ip-range`. Empty if that is not known.
    pub service_cidrs: Vec<String>,
}

/// Settings that the nodes use now, from `net-conf.json` and `cni-conf.json` of a running Flannel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForeignFlannel {
    /// `Backend.Type`, for example `vxlan`.
    pub backend: Option<String>,
    /// `Backend.Port`, or `ListenPort` of WireGuard.
    pub port: Option<i64>,
    /// `Backend.VNI`.
    pub vni: Option<i64>,
    /// `Backend.MTU` in bytes: that of the link below the back end.
    pub mtu: Option<i64>,
    /// `Backend.DirectRouting`.
    pub direct_routing: Option<bool>,
    /// `EnableNFTables`.
    pub enable_nf_tables: Option<bool>,
    /// The type of the plugin that connects pods: the first one of the list.
    pub cni_plugin: Option<String>,
    /// The other settings of `net-conf.json` that are not as by default, by their place, such as
    /// `Backend.GBP`, with their values as JSON. The value of `PSK`, a secret, is left out.
    pub others: BTreeMap<String, String>,
}

impl ForeignFlannel {
    /// Reads the ConfigMap's data. A part that cannot be read says nothing.
    fn of(data: &Value) -> Self {
        let file = |name: &str| {
            data[name]
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or(Value::Null)
        };
        let (net, cni) = (file("net-conf.json"), file("cni-conf.json"));
        let backend = net_setting(&net, "Backend");
        let number = |key: &str| net_setting(backend, key).as_i64();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let port = number("Port").or(number("ListenPort"));
        let mut others = other_settings("", &net, &NET_SETTINGS);
        others.extend(other_settings("Backend.", backend, &BACKEND_SETTINGS));
        let kind = match net_setting(backend, "Type") {
            // flanneld takes this one then.
            Value::Null if net.is_object() && backend.is_null() => Some("udp".to_owned()),
            kind => text(kind),
        };
        // Weft's is the next one after that of IPv4.
        let port_v6 = number("ListenPortV6").unwrap_or(WIREGUARD_PORT_V6);
        if kind.as_deref() == Some("wireguard")
            && net_setting(&net, "EnableIPv6") == true
            && port.unwrap_or(WIREGUARD_PORT).checked_add(1) != Some(port_v6)
        {
            others.insert("Backend.ListenPortV6".to_owned(), port_v6.to_string());
        }
        Self {
            backend: kind,
            port,
            vni: number("VNI"),
            mtu: number("MTU"),
            direct_routing: net_setting(backend, "DirectRouting").as_bool(),
            enable_nf_tables: net_setting(&net, "EnableNFTables").as_bool(),
            cni_plugin: text(&cni["plugins"][0]["type"]).or(text(&cni["type"])),
            others,
        }
    }
}

/// The settings of `net-conf.json` that are kept elsewhere: addresses by `spec.clusterNetworks`,
/// the rest by the fields above.
const NET_SETTINGS: [&str; 6] = [
    "Backend",
    "EnableIPv4",
    "EnableIPv6",
    "EnableNFTables",
    "IPv6Network",
    "Network",
];
/// The same for its `Backend`.
const BACKEND_SETTINGS: [&str; 7] = [
    "DirectRouting",
    "ListenPort",
    "ListenPortV6",
    "MTU",
    "Port",
    "Type",
    "VNI",
];
/// flanneld's ports of WireGuard, if the file gives none. The one of IPv6 does not follow the other.
const WIREGUARD_PORT: i64 = 51820;
const WIREGUARD_PORT_V6: i64 = 51821;

/// A setting as flanneld, which is written in Go, finds it: without regard to case.
fn net_setting<'a>(settings: &'a Value, name: &str) -> &'a Value {
    let mut all = settings.as_object().into_iter().flatten();
    all.find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map_or(&Value::Null, |(_, value)| value)
}

/// The settings with another name than these that are not as by default.
fn other_settings(place: &str, settings: &Value, known: &[&str]) -> BTreeMap<String, String> {
    let is_known = |key: &str| known.iter().any(|name| name.eq_ignore_ascii_case(key));
    let all = settings.as_object().into_iter().flatten();
    all.filter(|(key, value)| !is_known(key) && !is_default(value))
        .map(|(key, value)| {
            let is_secret = key.eq_ignore_ascii_case("PSK");
            let value = if is_secret {
                String::new()
            } else {
                value.to_string()
            };
            (format!("{place}{key}"), value)
        })
        .collect()
}

/// A value that flanneld takes if a setting is left out.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        // The mode of WireGuard: an interface for each address family.
        Value::String(text) => text.is_empty() || text == "separate",
        _ => false,
    }
}

/// The object `cluster` of the kind `Network.operator.openshift.io`: OpenShift's Cluster Network
/// Operator follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenShiftNetwork {
    /// `spec.disableMultiNetwork`: it deploys no Multus, and there must be none.
    pub multi_network_is_disabled: bool,
}

/// Node information (`status.nodeInfo`, `status.addresses`), the blocks of addresses of the node,
/// and facts from its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// For example `containerd://1.7.27` or `cri-o://1.32.1`.
    pub container_runtime: String,
    /// With the distribution's mark, for example `v1.32.1+k3s1`.
    pub kubelet_version: String,
    /// For example `Ubuntu 24.04.1 LTS` or `Talos (v1.10.3)`.
    pub os_image: String,
    /// `linux` or `windows`.
    pub operating_system: String,
    /// True if it carries MicroK8s' label. The version of its kubelet does not name MicroK8s.
    pub is_microk8s: bool,
    /// `spec.podCIDRs`: the ranges that the controller-manager gave it, at most one a family. Empty
    /// while it has none.
    pub pod_cidrs: Vec<String>,
    /// Its IP addresses in `status.addresses`.
    pub addresses: Vec<IpAddr>,
    /// True if it carries the label of a control-plane node, the old one with `master` included.
    pub is_control_plane: bool,
    /// Of a control-plane node: its first taint that keeps new pods off, as `key:effect`. Taints that
    /// Kubernetes sets by itself while a node has a problem do not count.
    pub taint: Option<String>,
}

/// A stream of objects that facts are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// CustomResourceDefinitions: which kinds are served next to those of Kubernetes.
    Definitions,
    /// EndpointSlices of the Service `kubernetes`.
    ApiServer,
    /// Nodes.
    Nodes,
    /// The configuration of OpenShift's own network operator.
    OpenShiftNetwork,
    /// The DaemonSet `kube-system/kube-proxy`.
    KubeProxy,
    /// The ConfigMap `kube-flannel/kube-flannel-cfg`.
    Flannel,
    /// NMStates: whether somebody has said how the node agent is to be deployed.
    NmStates,
    /// The ServiceCIDR `kubernetes`. Clusters before Kubernetes 1.33 do not serve the kind.
    ServiceCidr,
}

/// Objects to look at: all of a kind, or those that a selector chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Their kind.
    pub kind: Kind,
    /// One namespace, or all.
    pub namespace: Option<&'static str>,
    /// Label selector, empty for all.
    pub labels: &'static str,
    /// Field selector, empty for all.
    pub fields: &'static str,
    /// True if their metadata is enough.
    pub metadata_only: bool,
}

impl Fact {
    /// All facts.
    pub const ALL: [Fact; 8] = [
        Fact::Definitions,
        Fact::ApiServer,
        Fact::Nodes,
        Fact::OpenShiftNetwork,
        Fact::KubeProxy,
        Fact::Flannel,
        Fact::NmStates,
        Fact::ServiceCidr,
    ];

    /// The objects to watch.
    pub fn objects(self) -> Selection {
        let all = |kind| Selection {
            kind,
            namespace: None,
            labels: "",
            fields: "",
            metadata_only: false,
        };
        match self {
            Fact::Definitions => Selection {
                metadata_only: true,
                ..all(kinds::CUSTOM_RESOURCE_DEFINITION)
            },
            Fact::ApiServer => Selection {
                namespace: Some("default"),
                labels: "kubernetes.io/service-name=kubernetes",
                ..all(kinds::ENDPOINT_SLICE)
            },
            Fact::Nodes => all(kinds::NODE),
            Fact::OpenShiftNetwork => Selection {
                fields: "metadata.name=cluster",
                ..all(kinds::OPENSHIFT_NETWORK)
            },
            Fact::NmStates => Selection {
                metadata_only: true,
                ..all(kinds::NMSTATE)
            },
            Fact::ServiceCidr => Selection {
                fields: "metadata.name=kubernetes",
                ..all(kinds::SERVICE_CIDR)
            },
            Fact::Flannel => Selection {
                namespace: Some("kube-flannel"),
                fields: "metadata.name=kube-flannel-cfg",
                ..all(kinds::CONFIG_MAP)
            },
            Fact::KubeProxy => Selection {
                namespace: Some("kube-system"),
                fields: "metadata.name=kube-proxy",
                metadata_only: true,
                ..all(kinds::DAEMON_SET)
            },
        }
    }

    /// Returns the part of an object that the operator keeps, which may be much smaller. Null:
    /// nothing, it is of no interest.
    pub fn view(self, object: &Value) -> Value {
        match self {
            // One that is being deleted takes its objects along, and no new ones.
            Fact::Definitions if Live::of(object).is_being_deleted() => Value::Null,
            // Another generation may allow what this one refuses.
            Fact::Definitions if matters(Live::of(object).name()) => {
                json!({"generation": Live::of(object).generation()})
            }
            Fact::Definitions => Value::Null,
            Fact::ApiServer => object["ports"].clone(),
            Fact::Nodes => {
                let info = &object["status"]["nodeInfo"];
                json!({
                    "nodeInfo": {
                        "containerRuntimeVersion": info["containerRuntimeVersion"],
                        "kubeletVersion": info["kubeletVersion"],
                        "osImage": info["osImage"],
                        "operatingSystem": info["operatingSystem"],
                    },
                    MICROK8S: Live::of(object).label(MICROK8S),
                    "podCIDRs": object["spec"]["podCIDRs"],
                    "addresses": addresses(object),
                    "controlPlane": control_plane(object),
                })
            }
            Fact::OpenShiftNetwork => Value::Bool(object["spec"]["disableMultiNetwork"] == true),
            // One that is being deleted goes on until its pods are gone, but nobody has it any
            // more.
            Fact::KubeProxy if Live::of(object).is_being_deleted() => Value::Null,
            Fact::KubeProxy => Value::Bool(true),
            Fact::Flannel if Live::of(object).label(OWNER_LABEL).is_some() => Value::Null,
            Fact::Flannel => json!(ForeignFlannel::of(&object["data"])),
            // One that is being deleted counts until it is gone: its agents go first.
            Fact::NmStates if Live::of(object).label(OWNER_LABEL).is_some() => Value::Null,
            Fact::NmStates => Value::Bool(true),
            Fact::ServiceCidr => object["spec"]["cidrs"].clone(),
        }
    }
}

/// The IP addresses of a node. It has names there, too.
fn addresses(node: &Value) -> Vec<&Value> {
    let all = node["status"]["addresses"].as_array().into_iter().flatten();
    all.filter(|address| matches!(address["type"].as_str(), Some("InternalIP" | "ExternalIP")))
        .map(|address| &address["address"])
        .collect()
}

/// The labels of control-plane nodes
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/>).
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// The taint of a control-plane node that keeps new pods off, in a list of none or one. Null for
/// another node.
fn control_plane(node: &Value) -> Value {
    let labels = &node["metadata"]["labels"];
    if CONTROL_PLANE.iter().all(|label| labels[*label].is_null()) {
        return Value::Null;
    }
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let lasting = taints.filter_map(|taint| {
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        let is_of_kubernetes =
            key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.");
        let keeps_off = matches!(effect, "NoSchedule" | "NoExecute");
        (keeps_off && !is_of_kubernetes).then(|| format!("{key}:{effect}"))
    });
    lasting.take(1).collect()
}

/// Reports whether anything depends on the definition of this name.
fn matters(definition: &str) -> bool {
    definition == OPENSHIFT
        || KUBEVIRT.contains(&definition)
        || kinds::ALL
            .iter()
            .any(|kind| kind.is_optional() && kind.definition() == definition)
}

/// The label of MicroK8s' nodes.
const MICROK8S: &str = "microk8s.io/cluster";

/// The definitions of KubeVirt's virtual machines, which programs of add-ons watch.
pub const KUBEVIRT: [&str; 2] = [
    "virtualmachines.kubevirt.io",
    "virtualmachineinstances.kubevirt.io",
];

/// The definition of a kind that every OpenShift 4 has, and nothing else.
pub const OPENSHIFT: &str = "clusterversions.config.openshift.io";

impl Facts {
    /// Of clusters that differ in which kinds they serve: none next to those of Kubernetes, all
    /// that others bring, and those of OpenShift too. Together they lead to everything that Weft
    /// may ever have to write.
    pub fn of_every_sort_of_cluster() -> [Self; 3] {
        let optional: BTreeSet<String> = kinds::ALL
            .iter()
            .filter(|kind| kind.is_optional())
            .map(Kind::definition)
            .chain(KUBEVIRT.map(str::to_owned))
            .collect();
        let mut openshift = optional.clone();
        openshift.insert(OPENSHIFT.to_owned());
        [BTreeSet::new(), optional, openshift].map(|definitions| Self {
            definitions,
            ..Self::default()
        })
    }

    /// Adds the facts in a [`Fact::view`] of the object of this name.
    pub fn add(&mut self, fact: Fact, name: &str, view: &Value) {
        match fact {
            Fact::Definitions => drop(self.definitions.insert(name.to_owned())),
            Fact::ApiServer => {
                let ports = view
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|port| port["protocol"].as_str().unwrap_or("TCP") == "TCP");
                self.api_server_ports
                    .extend(ports.filter_map(|port| u16::try_from(port["port"].as_u64()?).ok()));
            }
            Fact::Nodes => {
                let info = &view["nodeInfo"];
                let node = Node {
                    container_runtime: text(info, "containerRuntimeVersion").to_owned(),
                    kubelet_version: text(info, "kubeletVersion").to_owned(),
                    os_image: text(info, "osImage").to_owned(),
                    operating_system: text(info, "operatingSystem").to_owned(),
                    is_microk8s: view[MICROK8S] == "true",
                    pod_cidrs: view["podCIDRs"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|cidr| cidr.as_str().unwrap_or_default().to_owned())
                        .collect(),
                    addresses: view["addresses"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|ip| ip.as_str()?.parse().ok())
                        .collect(),
                    is_control_plane: view["controlPlane"].is_array(),
                    taint: view["controlPlane"][0].as_str().map(str::to_owned),
                };
                self.nodes.insert(name.to_owned(), node);
            }
            Fact::KubeProxy => self.foreign_kube_proxy = true,
            Fact::NmStates => drop(self.foreign_nmstates.insert(name.to_owned())),
            Fact::Flannel => self.foreign_flannel = serde_json::from_value(view.clone()).ok(),
            Fact::OpenShiftNetwork => {
                self.openshift_network = Some(OpenShiftNetwork {
                    multi_network_is_disabled: *view == true,
                })
            }
            Fact::ServiceCidr => {
                let cidrs = view.as_array().into_iter().flatten();
                self.service_cidrs = cidrs
                    .filter_map(|cidr| cidr.as_str().map(str::to_owned))
                    .collect();
            }
        }
    }

    /// Adds the reports of the pods of these namespaces about their nodes' networks. If two pods
    /// report about one node, because one replaces the other, the report of the later pod counts.
    pub fn hear<'a>(&mut self, pods: impl IntoIterator<Item = &'a PodView>, namespaces: &[&str]) {
        let mut latest: BTreeMap<&str, &PodView> = BTreeMap::new();
        let rank = |pod: &PodView| (!pod.deleting, pod.since, pod.uid.clone());
        let believed =
            |pod: &&PodView| pod.cni_report.is_some() && namespaces.contains(&&*pod.namespace);
        for pod in pods.into_iter().filter(believed) {
            let Some(node) = pod.node.as_deref() else {
                continue;
            };
            let known = latest.entry(node).or_insert(pod);
            if rank(pod) > rank(known) {
                *known = pod;
            }
        }
        self.cni_reports = latest
            .into_iter()
            .filter_map(|(node, pod)| Some((node.to_owned(), (**pod.cni_report.as_ref()?).clone())))
            .collect();
    }

    /// Reports whether this is OpenShift 4.
    pub fn is_openshift(&self) -> bool {
        self.definitions.contains(OPENSHIFT)
    }

    /// Reports whether the cluster serves a kind.
    pub fn serves(&self, kind: Kind) -> bool {
        !kind.is_optional() || self.definitions.contains(&kind.definition())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn facts(objects: &[(Fact, Value)]) -> Facts {
        let mut facts = Facts::default();
        for (fact, object) in objects {
            let view = fact.view(object);
            if !view.is_null() {
                facts.add(
                    *fact,
                    object["metadata"]["name"].as_str().unwrap_or_default(),
                    &view,
                );
            }
        }
        facts
    }

    #[test]
    fn definitions_show_the_kinds_that_a_cluster_serves() {
        let definition = |name: &str| (Fact::Definitions, json!({"metadata": {"name": name}}));
        let plain = facts(&[
            definition("certificates.cert-manager.io"),
            definition("virtualmachines.kubevirt.io"),
            definition("widgets.example.com"),
        ]);
        assert_eq!(
            plain.definitions,
            [
                "certificates.cert-manager.io".to_owned(),
                "virtualmachines.kubevirt.io".to_owned()
            ]
            .into(),
            "of the others nothing is kept"
        );
        assert!(
            plain.serves(kinds::CERTIFICATE)
                && !plain.serves(kinds::ISSUER)
                && plain.serves(kinds::CONFIG_MAP)
        );
        assert!(!plain.is_openshift());
        assert!(facts(&[definition("clusterversions.config.openshift.io")]).is_openshift());
        let mut going = definition("certificates.cert-manager.io");
        going.1["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(!facts(&[going]).serves(kinds::CERTIFICATE));
    }

    #[test]
    fn an_nmstate_that_weft_made_is_nobody_elses() {
        let nmstate = |name: &str, labels: Value| {
            (
                Fact::NmStates,
                json!({"metadata": {"name": name, "labels": labels}}),
            )
        };
        let found = facts(&[
            nmstate("theirs", json!({"a": "b"})),
            nmstate("ours", json!({OWNER_LABEL: "networkaddonsconfig.cluster"})),
        ]);
        assert_eq!(found.foreign_nmstates, ["theirs".to_owned()].into());
    }

    #[test]
    fn every_port_of_every_api_server_counts() {
        let slice = |port: u16| {
            json!({
                "metadata": {"name": "kubernetes"},
                "ports": [{"name": "https", "protocol": "TCP", "port": port}]
            })
        };
        assert_eq!(
            facts(&[
                (Fact::ApiServer, slice(6443)),
                (Fact::ApiServer, slice(443))
            ])
            .api_server_ports,
            [443, 6443].into()
        );
    }

    #[test]
    fn a_node_says_what_it_runs() {
        let info = json!({
            "containerRuntimeVersion": "containerd://1.7.27", "kubeletVersion": "v1.32.1+k3s1",
            "osImage": "Talos (v1.10.3)", "operatingSystem": "linux"
        });
        let facts = facts(&[(
            Fact::Nodes,
            json!({"metadata": {"name": "n"}, "status": {"nodeInfo": info}}),
        )]);
        assert_eq!(facts.nodes["n"].container_runtime, "containerd://1.7.27");
        assert_eq!(facts.nodes["n"].kubelet_version, "v1.32.1+k3s1");
        assert_eq!(
            (
                &*facts.nodes["n"].os_image,
                &*facts.nodes["n"].operating_system
            ),
            ("Talos (v1.10.3)", "linux")
        );
        assert!(facts.nodes["n"].pod_cidrs.is_empty() && facts.nodes["n"].addresses.is_empty());
    }

    #[test]
    fn a_control_plane_node_has_the_taint_that_keeps_pods_off() {
        let node = |label: &str, taints: Value| {
            let found = facts(&[(
                Fact::Nodes,
                json!({"metadata": {"name": "n", "labels": {label: ""}}, "spec": {"taints": taints}}),
            )]);
            let node = found.nodes["n"].clone();
            (node.is_control_plane, node.taint)
        };
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let role = "node-role.kubernetes.io/control-plane";
        let tainted = Some(format!("{role}:NoSchedule"));
        let all = json!([
            taint("node.kubernetes.io/unschedulable", "NoSchedule"),
            taint("soft", "PreferNoSchedule"),
            taint(role, "NoSchedule"),
            taint("CriticalAddonsOnly", "NoExecute")
        ]);
        assert_eq!(node(role, all.clone()), (true, tainted));
        assert_eq!(
            node("node-role.kubernetes.io/master", json!([])),
            (true, None)
        );
        assert_eq!(node(role, Value::Null), (true, None));
        assert_eq!(node("a", all), (false, None));
    }

    #[test]
    fn a_node_has_addresses_and_ranges_for_its_pods() {
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let addresses = [
            address("InternalIP", "192.0.2.7"),
            address("Hostname", "n"),
            address("ExternalIP", "2001:db8::7"),
        ];
        let spec =
            json!({"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24", "fd00:3::/64"]});
        let facts = facts(&[(
            Fact::Nodes,
            json!({"metadata": {"name": "n"}, "spec": spec, "status": {"addresses": addresses}}),
        )]);
        assert_eq!(
            facts.nodes["n"].addresses,
            [
                "192.0.2.7".parse::<IpAddr>().unwrap(),
                "2001:db8::7".parse().unwrap()
            ]
        );
        assert_eq!(facts.nodes["n"].pod_cidrs, ["10.244.3.0/24", "fd00:3::/64"]);
    }

    #[test]
    fn of_two_pods_on_a_node_the_one_that_stays_tells() {
        let pod = |name: &str, node: &str, mtu: u32, deleting: bool| {
            let told = CniReport {
                mtu: Some(mtu),
                ..CniReport::default()
            };
            let mut metadata = json!({
                "uid": name, "namespace": "n", "name": name,
                "creationTimestamp": "2026-01-01T00:00:00Z"
            });
            if deleting {
                metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
            }
            let status = json!({
                "initContainerStatuses": [{"state": {"terminated": {"message": told.to_line()}}}]
            });
            PodView::of(
                &json!({"metadata": metadata, "spec": {"nodeName": node}, "status": status}),
            )
            .unwrap()
        };
        let silent = PodView::of(&json!({
            "metadata": {"uid": "s", "namespace": "n", "name": "s"}, "spec": {"nodeName": "c"}
        }))
        .unwrap();
        let mut facts = Facts::default();
        let mut strange = pod("3", "b", 600, false);
        strange.namespace = "somebody-elses".to_owned();
        facts.hear(
            &[
                pod("1", "a", 1400, true),
                pod("0", "a", 1500, false),
                pod("2", "b", 9000, true),
                silent,
                strange,
            ],
            &["n"],
        );
        let told: Vec<_> = facts
            .cni_reports
            .iter()
            .map(|(node, told)| (node.as_str(), told.mtu))
            .collect();
        assert_eq!(told, [("a", Some(1500)), ("b", Some(9000))]);
    }

    #[test]
    fn the_clusters_own_service_proxy_is_known_until_it_is_deleted() {
        let mut proxy = (
            Fact::KubeProxy,
            json!({"metadata": {"name": "kube-proxy", "namespace": "kube-system"}}),
        );
        assert!(facts(std::slice::from_ref(&proxy)).foreign_kube_proxy);
        proxy.1["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(!facts(&[proxy]).foreign_kube_proxy);
    }

    #[test]
    fn a_flannel_of_another_owner_says_what_the_nodes_use() {
        let net = r#"{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan", "VNI": 7}}"#;
        let cni = r#"{"name": "cbr0", "plugins": [{"type": "flannel", "delegate": {}}, {"type": "portmap"}]}"#;
        let mut map = json!({
            "metadata": {"name": "kube-flannel-cfg"},
            "data": {"net-conf.json": net, "cni-conf.json": cni}
        });
        let found = facts(&[(Fact::Flannel, map.clone())])
            .foreign_flannel
            .unwrap();
        let text = |text: &str| Some(text.to_owned());
        let expected = ForeignFlannel {
            backend: text("vxlan"),
            vni: Some(7),
            enable_nf_tables: Some(false),
            cni_plugin: text("flannel"),
            ..ForeignFlannel::default()
        };
        assert_eq!(found, expected);
        map["metadata"]["labels"] = json!({OWNER_LABEL: "networkconfig.default"});
        assert_eq!(
            facts(&[(Fact::Flannel, map)]).foreign_flannel,
            None,
            "Weft's own"
        );
    }

    #[test]
    fn the_service_cidr_of_the_api_server_has_the_blocks_of_services() {
        let of = |spec: Value| {
            facts(&[(
                Fact::ServiceCidr,
                json!({"metadata": {"name": "kubernetes"}, "spec": spec}),
            )])
            .service_cidrs
        };
        let both = ["10.96.0.0/16", "fd00:96::/112"];
        assert_eq!(of(json!({"cidrs": both})), both);
        assert!(of(json!({})).is_empty() && of(json!({"cidrs": [7]})).is_empty());
        assert!(facts(&[]).service_cidrs.is_empty());
    }

    #[test]
    fn each_setting_of_a_foreign_flannel_is_known() {
        let of = |net: Value| {
            ForeignFlannel::of(&json!({"net-conf.json": net.to_string(), "cni-conf.json": "{}"}))
        };
        // Go reads keys in any case.
        let vxlan = of(json!({
            "Network": "10.244.0.0/16", "SubnetLen": 26, "SubnetMin": "10.244.0.64", "Backend": {
                "type": "vxlan", "directRouting": true, "MTU": 1400, "GBP": true, "Learning": false,
                "MacPrefix": "0a-01"
            }
        }));
        assert_eq!((vxlan.mtu, vxlan.direct_routing), (Some(1400), Some(true)));
        let others = |found: &ForeignFlannel| {
            let pairs = found.others.iter();
            pairs
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            others(&vxlan),
            [
                "Backend.GBP=true",
                r#"Backend.MacPrefix="0a-01""#,
                "SubnetLen=26",
                r#"SubnetMin="10.244.0.64""#
            ]
        );
        let wireguard = of(json!({"EnableIPv6": true, "Backend": {
            "Type": "wireguard", "PSK": "k3y", "PersistentKeepaliveInterval": 25, "Mode": "auto",
            "ListenPortV6": 51830
        }}));
        assert_eq!(
            others(&wireguard),
            [
                "Backend.ListenPortV6=51830",
                r#"Backend.Mode="auto""#,
                "Backend.PSK=",
                "Backend.PersistentKeepaliveInterval=25"
            ]
        );
        let by_default = of(json!({"EnableIPv6": true, "Backend": {
            "Type": "wireguard", "PSK": "", "PersistentKeepaliveInterval": 0, "Mode": "separate",
            "ListenPort": 51820, "ListenPortV6": 51821
        }}));
        assert_eq!(by_default.others, BTreeMap::new());
    }

    #[test]
    fn openshifts_own_network_operator_is_known_by_its_configuration() {
        let network = |spec: Value| {
            facts(&[(
                Fact::OpenShiftNetwork,
                json!({"metadata": {"name": "cluster"}, "spec": spec}),
            )])
            .openshift_network
        };
        assert_eq!(
            network(json!({})),
            Some(OpenShiftNetwork {
                multi_network_is_disabled: false
            })
        );
        assert_eq!(
            network(json!({"disableMultiNetwork": true})),
            Some(OpenShiftNetwork {
                multi_network_is_disabled: true
            })
        );
        assert_eq!(facts(&[]).openshift_network, None);
    }
}
