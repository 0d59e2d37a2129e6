//! The bodies of what is written.

use serde_json::{Value, json};
use weft_api::node_network::{GROUP, NODE_LABEL, NodeValues, POLICY_LABEL, enactment, node_label};

use super::view::{Decision, Enactment, Node, Policy, Wanted, enactment_name};

fn spec(
    policy: (&str, &Policy),
    node: &str,
    wanted: &Wanted,
    values: Option<&NodeValues>,
) -> Value {
    let (name, policy) = policy;
    let mut spec = json!({
        "policy": name, "policyUid": policy.uid, "nodeName": node, "wanted": wanted.to_value()
    });
    if wanted.decision == Decision::Granted {
        spec["granted"] = json!({"generation": policy.generation, "spec": *policy.spec});
        if let Some(values) = values {
            spec["granted"]["values"] = json!(values);
        }
    }
    spec
}

/// A new enactment. It goes with its Node. The garbage collector sees to that.
pub fn enactment(
    policy: (&str, &Policy),
    node: (&str, &Node),
    wanted: &Wanted,
    values: Option<&NodeValues>,
) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{}", enactment::VERSION),
        "kind": enactment::KIND,
        "metadata": {
            "name": enactment_name(policy.0, node.0),
            "labels": {NODE_LABEL: node_label(node.0), POLICY_LABEL: policy.0},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.0, "uid": node.1.uid}
            ],
        },
        "spec": spec(policy, node.0, wanted, values),
    })
}

/// A JSON patch (RFC 6902) of an enactment that is there: what is granted is replaced as a whole,
/// and stays where nothing is granted.
pub fn change(
    policy: (&str, &Policy),
    enactment: &Enactment,
    wanted: &Wanted,
    values: Option<&NodeValues>,
) -> Value {
    let test = json!({"op": "test", "path": "/metadata/uid", "value": enactment.uid});
    if wanted.decision == Decision::Granted || enactment.wanted.is_none() {
        // The address of a pool is for the specification that the decision saw: a late write of an
        // earlier leader must not bring an old one back.
        let has_address = values.is_some_and(|values| !values.pools.is_empty());
        let same = has_address.then(
            || json!({"op": "test", "path": "/metadata/generation", "value": enactment.generation}),
        );
        let spec = spec(policy, &enactment.node, wanted, values);
        let add = json!({"op": "add", "path": "/spec", "value": spec});
        return [Some(test), same, Some(add)]
            .into_iter()
            .flatten()
            .collect();
    }
    json!([
        test,
        {"op": "add", "path": "/spec/policyUid", "value": policy.1.uid},
        {"op": "add", "path": "/spec/wanted", "value": wanted.to_value()},
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_api::node_network::PoolAddress;

    use super::*;

    #[test]
    fn a_grant_stays_until_the_next_one() {
        let policy = Policy::of(&json!({
            "metadata": {"uid": "p", "generation": 4},
            "spec": {"desiredState": {"interfaces": []}}
        }));
        let node = Node {
            uid: "n".into(),
            ..Node::default()
        };
        let created = enactment(
            ("policy", &policy),
            ("node", &node),
            &policy.wants(Decision::Granted),
            None,
        );
        insta::with_settings!({sort_maps => true}, { insta::assert_json_snapshot!(created) });
        let mut object = created;
        object["metadata"]["uid"] = "e".into();
        object["metadata"]["generation"] = 1.into();
        let view = Enactment::of(&object).unwrap();
        assert_eq!(
            (
                view.node_uid.as_deref(),
                view.policy_uid.as_deref(),
                view.has_granted
            ),
            (Some("n"), Some("p"), true)
        );
        let paths = |patch: Value| {
            patch
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["path"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths(change(
                ("policy", &policy),
                &view,
                &policy.wants(Decision::Granted),
                None
            )),
            ["/metadata/uid", "/spec"]
        );
        let address = NodeValues {
            pools: [("a".to_owned(), PoolAddress::default())].into(),
            ..NodeValues::default()
        };
        let granted = policy.wants(Decision::Granted);
        let with_address = change(("policy", &policy), &view, &granted, Some(&address));
        assert_eq!(with_address[1]["value"], 1);
        assert_eq!(
            paths(with_address),
            ["/metadata/uid", "/metadata/generation", "/spec"],
            "a late write of an earlier leader brings no address back"
        );
        let waits = change(
            ("policy", &policy),
            &view,
            &policy.wants(Decision::Pending),
            None,
        );
        assert_eq!(
            paths(waits),
            ["/metadata/uid", "/spec/policyUid", "/spec/wanted"]
        );
        let of_another = Enactment {
            wanted: None,
            ..view
        };
        let taken_over = change(
            ("policy", &policy),
            &of_another,
            &policy.wants(Decision::Pending),
            None,
        );
        assert_eq!(paths(taken_over.clone()), ["/metadata/uid", "/spec"]);
        assert!(taken_over[1]["value"]["granted"].is_null());
    }
}
