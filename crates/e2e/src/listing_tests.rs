#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn listing(lines: &[&str]) -> Listing {
    let mut listing = Listing::default();
    for line in lines {
        listing.add_line(line).unwrap();
    }
    listing
}

const DEPLOYMENT: &str = "apps/v1|Deployment|web|site|d1|";

#[test]
fn new_objects_are_left_and_vanished_objects_are_gone() {
    let before = listing(&[DEPLOYMENT, "v1|ConfigMap|web|settings|c1|"]);
    let after = listing(&[DEPLOYMENT, "v1|Namespace||weft-system|n1|"]);
    assert_eq!(
        after.differences(&before),
        [
            "left: Namespace weft-system",
            "gone: ConfigMap web/settings"
        ]
    );
    assert_eq!(before.differences(&before), Vec::<String>::new());
}

#[test]
fn pods_of_workloads_from_before_are_no_difference() {
    let before = listing(&[
        DEPLOYMENT,
        "apps/v1|ReplicaSet|web|site-1|r1|d1,",
        "v1|Pod|web|site-1-a|p1|r1,",
    ]);
    let after = listing(&[
        DEPLOYMENT,
        "apps/v1|ReplicaSet|web|site-2|r2|d1,",
        "v1|Pod|web|site-2-b|p2|r2,",
    ]);
    assert_eq!(after.differences(&before), Vec::<String>::new());
    let new = listing(&[DEPLOYMENT, "v1|Pod|web|other|p3|r9,"]);
    assert_eq!(
        new.differences(&listing(&[DEPLOYMENT])),
        ["left: Pod web/other"]
    );
}

#[test]
fn labels_taints_conditions_and_resources_of_nodes_count() {
    let node = |extra: bool| {
        let mut node = json!({"kind": "Node", "metadata": {"name": "a", "labels": {"zone": "x"}}, "spec": {}, "status": {"capacity": {"cpu": "2"}}});
        if extra {
            node["metadata"]["labels"]["weft.network/x"] = "".into();
            node["spec"]["taints"] = json!([{"key": "t"}]);
            node["status"]["conditions"] = json!([{"type": "C"}]);
            node["status"]["capacity"]["r"] = "1".into();
        }
        let mut listing = Listing::default();
        listing.add_properties(&node);
        listing
    };
    assert_eq!(
        node(true).differences(&node(false)),
        [
            "left: Node a: condition C",
            "left: Node a: label weft.network/x",
            "left: Node a: resource r",
            "left: Node a: taint t"
        ]
    );
}
