//! The needs of each program of a network in its container. The table is complete: what is not in it is not in the container.
#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};
use weft_plan::Facts;

use crate::testing::try_decide;

#[path = "../../operands/tests/common/needs.rs"]
mod needs;

fn assert_given(network: Value, deploy_kube_proxy: bool, table: Vec<(&str, Value)>) {
    let spec = json!({
        "serviceNetwork": "10.96.0.0/16", "clusterNetworks": [{"cidr": "10.244.0.0/16", "hostSubnetLength": 8}],
        "defaultNetwork": network, "deployKubeProxy": deploy_kube_proxy,
    });
    let decision = try_decide(spec, None, &Facts::default()).unwrap();
    needs::assert_given(decision.units.iter().flat_map(|unit| &unit.objects).map(|object| object.body()), table);
}

#[test]
fn flannel_and_kube_proxy_are_given_what_they_need() {
    assert_given(json!({"type": "Flannel", "flannelConfig": {"cniPlugin": "flannel"}}), true, vec![]);
}

#[test]
fn openshift_sdn_is_given_what_it_needs() {
    assert_given(json!({"type": "OpenShiftSDN"}), false, vec![]);
}
