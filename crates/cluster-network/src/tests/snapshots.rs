//! The whole output for the examples, and for what they leave out. After a wanted change:
//! `INSTA_UPDATE=always cargo test -p weft-cluster-network --lib snapshots`, and read the
//! difference.

use super::common;
use serde_json::{Value, json};
use weft_cluster_network::ClusterNetwork;
use weft_plan::Domain;

fn example(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// All objects, in the order of the units, as YAML.
fn rendered(resource: &Value) -> String {
    let domain = ClusterNetwork::new(common::settings());
    let decision = common::decide(&domain, resource);
    assert_eq!(decision.waits, []);
    let mut text = String::new();
    for unit in &decision.units {
        text += &format!("# unit {}\n", unit.name);
        for object in &unit.objects {
            assert!(
                domain.kinds().contains(&object.key().kind),
                "{} is of a kind that is not watched",
                object.key()
            );
            let mut body = object.body().clone();
            body.sort_all_objects();
            text += &format!(
                "---\n{}\n",
                serde_saphyr::to_string(&body).unwrap().trim_end()
            );
        }
    }
    text
}

/// The example with one setting changed.
fn with(text: &str, pointer: &str, value: Value) -> Value {
    let mut resource = example(text);
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    resource.pointer_mut(parent).unwrap()[field] = value;
    resource
}

const MINIMAL: &str =
    include_str!("../../../../examples/network-config-openshift-sdn-minimal.yaml");
const SDN: &str = include_str!("../../../../examples/network-config-openshift-sdn.yaml");
const FLANNEL: &str = include_str!("../../../../examples/network-config-flannel.yaml");
const DUAL_STACK: &str =
    include_str!("../../../../examples/network-config-flannel-dual-stack.yaml");
const NONE: &str = include_str!("../../../../examples/network-config-none.yaml");

#[test]
fn openshift_sdn_minimal() {
    insta::assert_snapshot!(rendered(&example(MINIMAL)));
}

#[test]
fn openshift_sdn_with_everything() {
    // The differences from the minimal configuration.
    let minimal = rendered(&example(MINIMAL));
    let all = rendered(&example(SDN));
    let own: Vec<_> = all
        .split("---\n")
        .filter(|object| !minimal.contains(*object))
        .collect();
    insta::assert_snapshot!(own.join("---\n"));
}

#[test]
fn openshift_sdn_with_external_open_vswitch() {
    let external = with(
        SDN,
        "/spec/defaultNetwork/openshiftSDNConfig/useExternalOpenvswitch",
        json!(true),
    );
    let (all, without) = (rendered(&example(SDN)), rendered(&external));
    let gone: Vec<_> = all
        .split("---\n")
        .filter(|object| !without.contains(*object))
        .collect();
    assert!(
        gone.len() == 1 && gone[0].contains("\n  name: ovs\n"),
        "{gone:#?}"
    );
}

#[test]
fn flannel_vxlan() {
    insta::assert_snapshot!(rendered(&example(FLANNEL)));
}

#[test]
fn flannel_host_gw() {
    let mut resource = with(
        FLANNEL,
        "/spec/defaultNetwork/flannelConfig/backend",
        json!("host-gw"),
    );
    resource["spec"]["deployKubeProxy"] = json!(false);
    insta::assert_snapshot!(rendered(&resource));
}

#[test]
fn flannel_dual_stack() {
    insta::assert_snapshot!(rendered(&example(DUAL_STACK)));
}

#[test]
fn none_with_kube_proxy_and_an_additional_network() {
    insta::assert_snapshot!(rendered(&example(NONE)));
}
