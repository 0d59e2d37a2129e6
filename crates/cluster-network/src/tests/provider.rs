//! Another default network is one file and one folder of manifests: this is the file,
//! `point_to_point` is the folder, and the tests below show that it has everything that Weft's own
//! have.

use super::common;
use ipnet::IpNet;
use serde_json::{Value, json};
use weft_api::cluster_network::DefaultNetwork;
use weft_cluster_network::{
    ClusterNetwork, Settings,
    config::{Effective, Valid},
    error::BuildError,
    overlay,
    provider::{Capabilities, Context, Provider},
    settings::Image,
};
use weft_plan::{Domain, Facts, FieldChange, Input, Manifest, Notice, Problem, Refusal};

/// Its one setting is `otherConfig.device`.
struct PointToPoint;

const FILES: [&str; 1] = [include_str!("point_to_point/daemonset.yaml")];

fn device(network: &DefaultNetwork) -> Option<&String> {
    network.other_config.as_ref()?.get("device")
}

impl Provider for PointToPoint {
    fn name(&self) -> &'static str {
        "PointToPoint"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["P2P"]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            blocks_per_family: Some(1),
            ipv6: false,
            uses_host_subnet_length: true,
            own_service_proxy: true,
            grows: false,
            adds_family: false,
        }
    }

    fn internal_blocks(&self) -> Vec<(IpNet, &'static str)> {
        vec![(
            IpNet::new([100, 64, 0, 0].into(), 16).unwrap(),
            "the links between nodes",
        )]
    }

    fn validate(&self, config: &Valid) -> Vec<Problem> {
        let known = device(&config.default_network).is_none_or(|device| device.starts_with("eth"));
        let problem = || Problem {
            field: "spec.defaultNetwork.otherConfig.device".into(),
            message: "is no Ethernet device: write it like eth0".into(),
        };
        (!known).then(problem).into_iter().collect()
    }

    fn overhead(&self, _config: &Valid) -> u16 {
        0
    }

    fn fill(&self, network: &mut DefaultNetwork, _previous: Option<&DefaultNetwork>, _mtu: u16) {
        network
            .other_config
            .get_or_insert_default()
            .entry("device".to_owned())
            .or_insert_with(|| "eth0".to_owned());
    }

    fn unsafe_changes(&self, previous: &DefaultNetwork, next: &DefaultNetwork) -> Vec<FieldChange> {
        let text = |network| device(network).cloned().unwrap_or_default();
        let (old, new) = (text(previous), text(next));
        let change = |(old, new)| FieldChange {
            field: "spec.defaultNetwork.otherConfig.device".into(),
            old,
            new,
            why: "its routes would be gone for a while".into(),
        };
        (old != new)
            .then(|| change((old, new)))
            .into_iter()
            .collect()
    }

    fn render(
        &self,
        config: &Effective,
        context: &Context<'_>,
    ) -> Result<Vec<Manifest>, BuildError> {
        let mut objects = overlay::load(&FILES)?;
        let device = device(&config.default_network).cloned().unwrap_or_default();
        overlay::set_file(&mut objects, "routes", "device", device)?;
        overlay::workload(
            &mut objects,
            "routes",
            &[("routes", Image::Node)],
            Some("routes"),
            context.settings,
        )?;
        Ok(objects)
    }

    fn preflight(&self, _config: &Effective, facts: &Facts) -> Vec<Notice> {
        let notice = || Notice {
            about: "default-network".into(),
            message: "there is nothing to connect".into(),
        };
        facts.nodes.is_empty().then(notice).into_iter().collect()
    }
}

const PROVIDERS: &[&dyn Provider] = &[&PointToPoint];

fn resource(name: &str, other_config: Value) -> Value {
    json!({
        "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig", "metadata": {"name": "default"},
        "spec": {
            "serviceNetwork": "172.30.0.0/16",
            "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
            "defaultNetwork": {"type": name, "otherConfig": other_config},
        },
    })
}

fn domain() -> ClusterNetwork {
    ClusterNetwork::with_providers(common::settings(), PROVIDERS)
}

fn refusal(resource: &Value, record: Option<&str>, settings: Settings) -> Refusal {
    let input = Input {
        resource,
        record,
        decided: None,
        facts: &Facts::default(),
        random: &mut |_| {},
    };
    ClusterNetwork::with_providers(settings, PROVIDERS)
        .decide(input)
        .unwrap_err()
}

#[test]
fn its_objects_are_made_and_watched_like_those_of_any_other() {
    let decision = common::decide(&domain(), &resource("P2P", json!({"device": "eth1"})));
    assert_eq!(
        decision.decided["defaultNetwork"],
        json!({"type": "PointToPoint", "otherConfig": {"device": "eth1"}})
    );
    assert_eq!(
        decision.decided["deployKubeProxy"], false,
        "it has a service proxy of its own"
    );
    assert_eq!(decision.notices.len(), 1, "its preflight");
    let names: Vec<_> = decision.units[0]
        .objects
        .iter()
        .map(|object| object.key().human())
        .collect();
    assert_eq!(
        names,
        [
            "Namespace point-to-point",
            "ConfigMap point-to-point/routes",
            "DaemonSet point-to-point/routes"
        ]
    );
    let template = &decision.units[0].objects[2].body()["spec"]["template"];
    let (key, value) = domain().pod_selector().split_once('=').unwrap();
    assert_eq!(template["metadata"]["labels"][key], value);
    assert!(template["metadata"]["annotations"]["weft.network/config-hash"].is_string());
    let container = &template["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["env"][0]["value"]),
        (
            &json!("registry.example/node-image:v1"),
            &json!("api.example")
        )
    );
}

#[test]
fn its_rules_hold() {
    let wrong = refusal(
        &resource("PointToPoint", json!({"device": "wlan0"})),
        None,
        common::settings(),
    );
    assert_eq!(
        wrong.problems[0].field,
        "spec.defaultNetwork.otherConfig.device"
    );
    let mut taken = resource("PointToPoint", json!({}));
    taken["spec"]["clusterNetworks"][0]["cidr"] = json!("100.64.0.0/14");
    let wrong = refusal(&taken, None, common::settings());
    let expected = "100.64.0.0/14 overlaps 100.64.0.0/16, which PointToPoint uses for the links between nodes: choose another block";
    assert_eq!(
        (&*wrong.problems[0].field, &*wrong.problems[0].message),
        ("spec.clusterNetworks[0].cidr", expected)
    );
    taken["spec"]["clusterNetworks"][0]["cidr"] = json!("10.128.0.0/14");
    taken["spec"]["serviceNetwork"] = json!("100.64.128.0/20");
    assert_eq!(
        refusal(&taken, None, common::settings()).problems[0].field,
        "spec.serviceNetwork"
    );
    let applied = common::decide(&domain(), &resource("P2P", json!({})))
        .decided
        .to_string();
    let refused = refusal(
        &resource("PointToPoint", json!({"device": "eth1"})),
        Some(&applied),
        common::settings(),
    );
    assert_eq!(
        (&*refused.changes[0].old, &*refused.changes[0].new),
        ("eth0", "eth1")
    );
    let unknown = refusal(&resource("Flannel", json!({})), None, common::settings());
    assert!(
        unknown.problems[0].message.contains("PointToPoint"),
        "{unknown:?}"
    );
}

#[test]
fn an_image_that_nobody_has_named_is_an_error_and_no_empty_image() {
    let mut settings = common::settings();
    settings.images.remove(&Image::Node);
    let refusal = refusal(&resource("PointToPoint", json!({})), None, settings);
    assert!(
        refusal.problems[0]
            .message
            .starts_with("NODE_IMAGE is not set"),
        "{refusal:?}"
    );
}
