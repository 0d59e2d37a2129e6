//! What is known of the cluster as far as decisions depend on it, and how it is read from the API server's objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{Kind, kinds};

/// What is known of the cluster. Watched, so that what is installed later is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The API groups that are served, for example `cert-manager.io`.
    pub groups: BTreeSet<String>,
    /// The TCP ports where API servers listen, behind the Service `kubernetes`. Empty if that is not known.
    pub api_server_ports: BTreeSet<u16>,
    /// The nodes by name.
    pub nodes: BTreeMap<String, Node>,
}

/// What a node says of itself (`status.nodeInfo`), and what its labels tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// For example `containerd://1.7.27` or `cri-o://1.32.1`.
    pub container_runtime: String,
    /// With the distribution's mark, for example `v1.32.1+k3s1`.
    pub kubelet_version: String,
    /// Whether it carries MicroK8s' label: its kubelet does not tell.
    pub is_microk8s: bool,
}

/// A stream of objects that facts are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// APIServices: which API groups are served.
    Groups,
    /// EndpointSlices of the Service `kubernetes`.
    ApiServer,
    /// Nodes.
    Nodes,
}

impl Fact {
    /// All of them.
    pub const ALL: [Fact; 3] = [Fact::Groups, Fact::ApiServer, Fact::Nodes];

    /// What to watch: kind, namespace, labels.
    pub fn objects(self) -> (Kind, Option<&'static str>, &'static str) {
        match self {
            Fact::Groups => (kinds::API_SERVICE, None, ""),
            Fact::ApiServer => (kinds::ENDPOINT_SLICE, Some("default"), "kubernetes.io/service-name=kubernetes"),
            Fact::Nodes => (kinds::NODE, None, ""),
        }
    }

    /// What is worth keeping of an object, which may be much larger.
    pub fn view(self, object: &Value) -> Value {
        match self {
            Fact::Groups => object["spec"]["group"].clone(),
            Fact::ApiServer => object["ports"].clone(),
            Fact::Nodes => json!({
                "nodeInfo": {
                    "containerRuntimeVersion": object["status"]["nodeInfo"]["containerRuntimeVersion"],
                    "kubeletVersion": object["status"]["nodeInfo"]["kubeletVersion"],
                },
                MICROK8S: object["metadata"]["labels"][MICROK8S],
            }),
        }
    }
}

/// The label of MicroK8s' nodes.
const MICROK8S: &str = "microk8s.io/cluster";

/// An API group that only OpenShift 4 serves.
pub const OPENSHIFT: &str = "config.openshift.io";

impl Facts {
    /// Adds what a [`Fact::view`] of the object of this name tells.
    pub fn add(&mut self, fact: Fact, name: &str, view: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match fact {
            Fact::Groups => drop(self.groups.insert(text(view))),
            Fact::ApiServer => {
                let ports = view.as_array().into_iter().flatten().filter(|port| port["protocol"].as_str().unwrap_or("TCP") == "TCP");
                self.api_server_ports.extend(ports.filter_map(|port| u16::try_from(port["port"].as_u64()?).ok()));
            }
            Fact::Nodes => {
                let info = &view["nodeInfo"];
                let node = Node {
                    container_runtime: text(&info["containerRuntimeVersion"]),
                    kubelet_version: text(&info["kubeletVersion"]),
                    is_microk8s: view[MICROK8S] == "true",
                };
                self.nodes.insert(name.to_owned(), node);
            }
        }
    }

    /// Whether this is OpenShift 4.
    pub fn is_openshift(&self) -> bool {
        self.groups.contains(OPENSHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(objects: &[(Fact, Value)]) -> Facts {
        let mut facts = Facts::default();
        for (fact, object) in objects {
            facts.add(*fact, object["metadata"]["name"].as_str().unwrap_or_default(), &fact.view(object));
        }
        facts
    }

    #[test]
    fn openshift_is_known_by_a_group_that_only_it_serves() {
        let service = |group: &str| json!({"metadata": {"name": format!("v1.{group}")}, "spec": {"group": group, "version": "v1"}});
        let plain = facts(&[(Fact::Groups, service("apps")), (Fact::Groups, service("cert-manager.io"))]);
        assert_eq!(plain.groups, ["apps".to_owned(), "cert-manager.io".to_owned()].into());
        assert!(!plain.is_openshift());
        assert!(facts(&[(Fact::Groups, service("config.openshift.io"))]).is_openshift());
    }

    #[test]
    fn every_port_of_every_api_server_counts() {
        let slice = |port: u16| json!({"metadata": {"name": "kubernetes"}, "ports": [{"name": "https", "protocol": "TCP", "port": port}]});
        assert_eq!(facts(&[(Fact::ApiServer, slice(6443)), (Fact::ApiServer, slice(443))]).api_server_ports, [443, 6443].into());
    }

    #[test]
    fn a_node_says_what_it_runs() {
        let info = json!({"containerRuntimeVersion": "containerd://1.7.27", "kubeletVersion": "v1.32.1+k3s1"});
        let facts = facts(&[(Fact::Nodes, json!({"metadata": {"name": "n"}, "status": {"nodeInfo": info}}))]);
        assert_eq!(facts.nodes["n"].container_runtime, "containerd://1.7.27");
        assert_eq!(facts.nodes["n"].kubelet_version, "v1.32.1+k3s1");
    }
}
