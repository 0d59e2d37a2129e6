//! The networks that pods are attached to next to the cluster's own: the requests to Multus, and
//! its reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use weft_attachments::{request, status};
use weft_plan::{Live, canonical};

use serde_json::{Value, json};

use crate::{
    Network,
    conditions::{State, Step},
    objects::CONFIG_HASH,
};

/// The annotation of pods by which Multus attaches them to networks.
pub const NETWORKS: &str = request::ANNOTATION;
/// The annotation in which Multus reports the networks of a pod and its addresses there.
pub const NETWORK_STATUS: &str = status::ANNOTATION;
/// How long the name of an interface is at most, in Linux.
const INTERFACE_LENGTH: usize = 15;
/// The interfaces that every pod has.
const OF_EVERY_POD: [&str; 2] = ["lo", "eth0"];

/// Addresses of pods, by `namespace/name` of the network. The default network has the name that the
/// plugin gives it.
pub type Addresses = BTreeMap<String, Vec<String>>;

/// Reads a network from its NetworkAttachmentDefinition.
///
/// # Errors
/// It is not there, or cannot be read.
pub fn read(name: &str, definition: Option<&Value>) -> Result<Network, State> {
    // An error and not a wait: nobody but the user makes it.
    let Some(definition) = definition else {
        return Err(State::error(format!(
            "NetworkAttachment resources missing: {name}"
        )));
    };
    // Without one, the configuration is a file on each node. Weft takes blanks for none.
    let text = weft_attachments::text(definition).filter(|text| !text.trim().is_empty());
    match text.map(weft_attachments::Config::read).transpose() {
        Ok(config) => Ok(Network {
            name: name.to_owned(),
            gateway: config
                .as_ref()
                .and_then(weft_attachments::Config::gateway)
                .map(str::to_owned),
        }),
        Err(error) => Err(Step::NetworkAttachments.fails(format!(
            "spec.config of NetworkAttachmentDefinition {name} is no JSON: {error}"
        ))),
    }
}

/// The interface of a network in the pods.
fn interface(network: &str) -> String {
    network.chars().take(INTERFACE_LENGTH).collect()
}

/// Checks that each network has an interface of its own in the pods. Where two have the same,
/// Multus attaches the first and fails the pod at the second, each time again.
///
/// # Errors
/// Two have not.
pub fn distinct(networks: &[String]) -> Result<(), State> {
    let fails = |why: String| Err(Step::NetworkAttachments.fails(why));
    let mut taken = BTreeMap::new();
    for network in networks {
        let interface = interface(network);
        if OF_EVERY_POD.contains(&interface.as_str()) {
            return fails(format!(
                "{network} would be the interface {interface} in the pods, which every pod has already: give its NetworkAttachmentDefinition another name"
            ));
        }
        if let Some(other) = taken.insert(interface.clone(), network) {
            return fails(format!(
                "{other} and {network} would both be the interface {interface} in the pods, for it is named by the first {INTERFACE_LENGTH} characters: \
                 give one NetworkAttachmentDefinition a name that differs in these"
            ));
        }
    }
    Ok(())
}

/// Returns the list that Multus reads. It is empty if there are no networks. Its keys are sorted, as
/// another text would restart the pods.
pub fn wanted(namespace: &str, networks: &[Network]) -> String {
    let networks = networks.iter().map(|network| {
        let mut element = json!({
            "name": network.name, "namespace": namespace, "interface": interface(&network.name)
        });
        if let Some(gateway) = &network.gateway {
            element["default-route"] = json!([gateway]);
        }
        element
    });
    canonical(&Value::from_iter(networks))
}

/// Returns the networks that pods report, for status. The flag is true if all relevant pods have an
/// address on each requested network.
///
/// A pod counts if it is of the Deployment as it is now: it was made with the same networks and the
/// same hash of what it reads, has not ended and is not being deleted. Any number of addresses will
/// do, so a network with two families needs no care. Without replicas there is nothing to wait for.
pub fn attached(
    namespace: &str,
    networks: &[String],
    deployment: &Value,
    pods: &[Arc<Value>],
) -> (Addresses, State) {
    if networks.is_empty() || deployment["spec"]["replicas"] == 0 {
        return (Addresses::new(), done());
    }
    let mut pods: Vec<_> = pods
        .iter()
        .filter(|pod| is_current(pod, deployment))
        .collect();
    pods.sort_by_key(|pod| Live::of(pod).name());
    let mut addresses = Addresses::new();
    let mut lacking = pods.is_empty();
    for pod in pods {
        let told = match told(pod) {
            Ok(told) => told,
            Err(error) => {
                let name = Live::of(pod).name();
                let why = format!("annotation {NETWORK_STATUS} of Pod {name} is no JSON: {error}");
                return (Addresses::new(), Step::NetworkAttachments.fails(why));
            }
        };
        let with_address: BTreeSet<_> = told
            .iter()
            .filter(|(_, ips)| !ips.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        lacking |= !networks
            .iter()
            .all(|network| with_address.contains(&format!("{namespace}/{network}")));
        for (network, ips) in told {
            addresses.entry(network).or_default().extend(ips);
        }
    }
    if !lacking {
        return (addresses, done());
    }
    let why = format!(
        "not all pods have interfaces with ips as configured in NetworkAttachments: [{}]",
        networks.join(" ")
    );
    (addresses, Step::NetworkAttachments.fails(why))
}

/// Reports whether a pod is one of the Deployment's template, and here to stay.
fn is_current(pod: &Value, deployment: &Value) -> bool {
    let template = &deployment["spec"]["template"];
    let hash = |of: &Value| {
        let containers = of["spec"]["containers"].as_array()?;
        let mut variables = containers
            .iter()
            .filter_map(|container| container["env"].as_array())
            .flatten();
        variables
            .find(|variable| variable["name"] == CONFIG_HASH)
            .map(|variable| variable["value"].clone())
    };
    !Live::of(pod).is_being_deleted()
        && !matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        )
        && Live::of(pod).annotation(NETWORKS) == Live::of(template).annotation(NETWORKS)
        && hash(pod) == hash(template)
}

/// Returns the addresses of a pod by network, in the order of its annotation [`NETWORK_STATUS`].
/// There are none while the pod lacks the annotation.
fn told(pod: &Value) -> Result<Vec<(String, Vec<String>)>, serde_json::Error> {
    let Some(report) = Live::of(pod).annotation(NETWORK_STATUS) else {
        return Ok(Vec::new());
    };
    let interfaces = status::read(report)?;
    Ok(interfaces
        .into_iter()
        .filter(|interface| !interface.network.is_empty())
        .map(|interface| (interface.network, interface.addresses))
        .collect())
}

fn done() -> State {
    State::ready(Step::NetworkAttachments.done())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used)]
    use super::*;

    const ASKED: &str = r#"[{"name":"storage"}]"#;
    const LACKING: &str = "NetworkAttachments error occurred not all pods have interfaces with ips as configured in NetworkAttachments: [storage tenant]";

    fn deployment(replicas: u8) -> Value {
        json!({"spec": {"replicas": replicas, "template": {"metadata": {
            "annotations": {NETWORKS: ASKED}
        },
            "spec": {"containers": [{"env": [{"name": "CONFIG_HASH", "value": "new"}]}]}}}})
    }

    fn pod(name: &str, status: &[(&str, &[&str])]) -> Value {
        let status: Vec<_> = status
            .iter()
            .map(|(name, ips)| json!({"name": name, "interface": "x", "ips": ips, "dns": {}}))
            .collect();
        json!({"metadata": {
            "name": name,
            "annotations": {NETWORKS: ASKED, NETWORK_STATUS: json!(status).to_string()}
        },
            "spec": {
                "containers": [{"env": [{"name": "CONFIG_HASH", "value": "new"}]}]
            }, "status": {"phase": "Running"}})
    }

    fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
        *pod.pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer}")) = value;
        pod
    }

    fn look(replicas: u8, pods: &[Value]) -> (Addresses, State) {
        let pods: Vec<_> = pods.iter().cloned().map(Arc::new).collect();
        attached(
            "cloud",
            &["storage".to_owned(), "tenant".to_owned()],
            &deployment(replicas),
            &pods,
        )
    }

    const WHOLE: [(&str, &[&str]); 3] = [
        ("kindnet", &["10.244.0.5"]),
        ("cloud/storage", &["172.18.0.50", "fd00:18::50"]),
        ("cloud/tenant", &["172.19.0.50"]),
    ];

    #[test]
    fn pods_with_an_address_on_each_network_are_attached() {
        let (addresses, reading) = look(1, &[pod("a", &WHOLE)]);
        assert_eq!(reading, done());
        let told: Vec<_> = addresses
            .iter()
            .map(|(network, ips)| (network.as_str(), ips.join(" ")))
            .collect();
        assert_eq!(
            told,
            [
                ("cloud/storage", "172.18.0.50 fd00:18::50".into()),
                ("cloud/tenant", "172.19.0.50".into()),
                ("kindnet", "10.244.0.5".to_owned())
            ]
        );
    }

    #[test]
    fn the_request_to_multus_has_its_keys_in_alphabetical_order() {
        let network = Network {
            name: "storage".to_owned(),
            gateway: Some("172.18.0.1".to_owned()),
        };
        assert_eq!(
            wanted("cloud", &[network]),
            r#"[{"default-route":["172.18.0.1"],"interface":"storage","name":"storage","namespace":"cloud"}]"#
        );
    }

    #[test]
    fn the_annotation_of_a_pod_may_come_late() {
        let late = with(
            pod("b", &[]),
            "/metadata/annotations",
            json!({NETWORKS: ASKED}),
        );
        let (addresses, reading) = look(2, &[pod("a", &WHOLE), late]);
        assert_eq!(reading, State::error(LACKING));
        assert_eq!(addresses["cloud/storage"].len(), 2, "what is known is told");
        assert_eq!(
            look(2, &[]).1,
            State::error(LACKING),
            "no pod is none that is attached"
        );
    }

    /// placement-operator counts addresses of all pods together: two of one pod hide that another
    /// one has none.
    #[test]
    fn two_addresses_of_one_pod_do_not_count_for_another() {
        let without = pod(
            "b",
            &[("cloud/storage", &[]), ("cloud/tenant", &["172.19.0.51"])],
        );
        assert_eq!(
            look(2, &[pod("a", &WHOLE), without]).1,
            State::error(LACKING)
        );
    }

    #[test]
    fn without_replicas_or_networks_there_is_nothing_to_wait_for() {
        assert_eq!(look(0, &[]), (Addresses::new(), done()));
        assert_eq!(
            attached("cloud", &[], &deployment(1), &[Arc::new(pod("a", &WHOLE))]),
            (Addresses::new(), done())
        );
    }

    #[test]
    fn pods_on_their_way_out_do_not_count() {
        let without = pod("b", &[("kindnet", &["10.244.0.6"])]);
        let of_before = json!([{"env": [{"name": "CONFIG_HASH", "value": "old"}]}]);
        let mut going = without.clone();
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        for out in [
            going,
            with(without.clone(), "/spec/containers", of_before),
            with(
                without.clone(),
                "/metadata/annotations",
                json!({NETWORKS: "[]"}),
            ),
            with(without.clone(), "/status/phase", "Failed".into()),
        ] {
            let (addresses, reading) = look(1, &[out, pod("a", &WHOLE)]);
            assert_eq!((reading, addresses["kindnet"].len()), (done(), 1));
        }
        assert_eq!(look(1, &[without]).1, State::error(LACKING));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_told() {
        let broken = with(
            pod("a", &WHOLE),
            "/metadata/annotations",
            json!({NETWORKS: ASKED, NETWORK_STATUS: "["}),
        );
        let message = look(1, &[broken]).1.message;
        assert!(
            message.starts_with("NetworkAttachments error occurred annotation k8s.v1.cni.cncf.io/network-status of Pod a"),
            "{message}"
        );
    }

    #[test]
    fn each_network_has_an_interface_of_its_own() {
        let says = |names: &[&str]| {
            distinct(
                &names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>(),
            )
            .map_err(|state| state.message)
        };
        assert_eq!(
            says(&["storage-net-01-a", "storage-net-02-a", "net.1"]),
            Ok(())
        );
        assert_eq!(says(&[]), Ok(()));
        assert_eq!(
            says(&["tenant", "storage-network-a", "storage-network-b"]).unwrap_err(),
            "NetworkAttachments error occurred storage-network-a and storage-network-b would both be the interface storage-network in the pods, for it \
             is named by the first 15 characters: give one NetworkAttachmentDefinition a name that differs in these"
        );
        let of_every_pod = says(&["tenant", "eth0"]).unwrap_err();
        assert!(
            of_every_pod.contains(
                "eth0 would be the interface eth0 in the pods, which every pod has already"
            ),
            "{of_every_pod}"
        );
    }

    #[test]
    fn the_gateway_is_that_of_the_definition() {
        let definition = |config: &str| json!({"spec": {"config": config}});
        let gateway = |config: &str| {
            read("storage", Some(&definition(config)))
                .ok()
                .map(|network| network.gateway)
        };
        assert_eq!(
            gateway(r#"{"ipam": {"type": "whereabouts", "gateway": "172.18.0.1"}}"#),
            Some(Some("172.18.0.1".to_owned()))
        );
        assert_eq!(gateway(r#"{"ipam": {"type": "whereabouts"}}"#), Some(None));
        assert_eq!(gateway(""), Some(None));
        assert_eq!(
            read("storage", None),
            Err(State::error("NetworkAttachment resources missing: storage"))
        );
        assert!(
            matches!(read("storage", Some(&definition("{"))), Err(state) if state.message.starts_with("NetworkAttachments error occurred "))
        );
    }
}
