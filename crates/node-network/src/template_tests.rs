#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;
use weft_api::node_network::PoolAddress;

fn values() -> NodeValues {
    NodeValues {
        name: Some("node-1".to_owned()),
        labels: [("example.com/rack".to_owned(), "r1".to_owned())].into(),
        annotations: [("storage-ip".to_owned(), "192.0.2.7".to_owned())].into(),
        pools: [(
            "storage".to_owned(),
            PoolAddress {
                ip: "198.51.100.7".to_owned(),
                prefix_length: 24,
            },
        )]
        .into(),
    }
}

fn filled(text: &str) -> Result<Value, String> {
    let captures = Captures::from([(
        "a".to_owned(),
        json!({"interfaces": [{"name": "eth0", "mtu": 1500}]}),
    )]);
    fill(
        &json!({"interfaces": [{"description": text}]}),
        &captures,
        &values(),
    )
    .map(|filled| filled["interfaces"][0]["description"].clone())
    .map_err(|error| error.to_string())
}

#[test]
fn values_of_the_node_take_the_place_of_references() {
    for (text, value) in [
        ("{{ node.name }}", json!("node-1")),
        ("{{node.name}}", json!("node-1")),
        (r#"{{ node.labels["example.com/rack"] }}"#, json!("r1")),
        ("{{ node.labels['example.com/rack'] }}", json!("r1")),
        (
            r#"{{ node.annotations["storage-ip"] }}"#,
            json!("192.0.2.7"),
        ),
        (
            r#"{{ node.name }} in {{ node.labels["example.com/rack"] }} on {{ capture.a.interfaces.0.name }}"#,
            json!("node-1 in r1 on eth0"),
        ),
        ("{{ capture.a.interfaces.0.mtu }}", json!(1500)),
        ("{{ pool.storage.ip }}", json!("198.51.100.7")),
        ("{{ pool.storage.prefix-length }}", json!(24)),
        (
            "{{ pool.storage.ip }}/{{ pool.storage.prefix-length }}",
            json!("198.51.100.7/24"),
        ),
        ("no reference }}", json!("no reference }}")),
    ] {
        assert_eq!(filled(text), Ok(value), "{text}");
    }
}

/// A user of a node who may write its labels and annotations must not refer to anything with them.
#[test]
fn a_value_with_braces_is_not_filled_in_again() {
    let values = NodeValues {
        annotations: [("a".to_owned(), "{{ node.name }}".to_owned())].into(),
        ..values()
    };
    let desired = json!("{{ node.annotations['a'] }}");
    assert_eq!(
        fill(&desired, &Captures::new(), &values).unwrap(),
        "{{ node.name }}"
    );
}

#[test]
fn a_reference_that_cannot_be_filled_in_names_field_value_and_rule() {
    let missing = filled(r#"rack {{ node.labels["zone"] }}"#).unwrap_err();
    assert_eq!(
        missing,
        "desiredState.interfaces[0].description: node.labels[\"zone\"] is not known here: the operator of a cluster grants its value with the policy. Without a cluster, write the value in place of the reference\n| rack {{ node.labels[\"zone\"] }}\n| ........^"
    );
    for text in [
        "{{ node }}",
        "{{ node.uid }}",
        "{{ node.labels }}",
        "{{ node.labels.rack }}",
        "{{ node.labels[rack] }}",
        r#"{{ node.labels["bad key"] }}"#,
        r#"{{ node.labels["rack"].more }}"#,
        r#"{{ nodes.labels["rack"] }}"#,
        "{{ }}",
        "{{ pool.storage }}",
        "{{ pool..ip }}",
        "{{ pool.storage.gateway }}",
    ] {
        let error = filled(text).unwrap_err();
        assert!(
            error.contains("node.labels[\"KEY\"]") && error.contains(text),
            "{text}: {error}"
        );
    }
    assert!(filled("{{ node.name").unwrap_err().contains("has no }}"));
}

#[test]
fn mistakes_are_found_without_a_node() {
    let desired = json!({"interfaces": [
        {"name": "eth0", "description": "{{ node.lables[\"rack\"] }}"},
        {"name": "{{ node.name }}", "mtu": "{{ node.labels[\"mtu\"] }}"},
        {"name": "{{ capture.b.x }}-{{ capture.c.x }}"},
        {"name": "{{ pool.a.ip }}-{{ pool.b.ip }}"},
    ]});
    let found: Vec<_> = mistakes(
        &desired,
        &[("b".to_owned(), String::new())].into(),
        &[("a".to_owned(), ())].into(),
    )
    .iter()
    .map(|error| format!("{}: {}", error.path, error.error.message))
    .collect();
    assert_eq!(
        found,
        [
            format!("desiredState.interfaces[0].description: {FORMS}"),
            "desiredState.interfaces[2].name: there is no capture c".to_owned(),
            "desiredState.interfaces[3].name: there is no pool b in spec.addressPools: add it"
                .to_owned(),
        ]
    );
}

#[test]
fn each_value_is_wanted_once_with_its_first_field() {
    let desired = json!({"interfaces": [
        {"name": "eth0", "description": "{{ node.name }} {{ node.annotations[\"a\"] }}"},
        {"name": "eth1", "description": "{{ node.name }} {{ capture.a.x }} {{ node.broken }}"},
    ], "hostname": {"config": "{{ node.labels[\"a\"] }}"}});
    let found: Vec<_> = facts(&desired)
        .into_iter()
        .map(|(fact, field)| format!("{fact} {field}"))
        .collect();
    assert_eq!(
        found,
        [
            "node.name desiredState.interfaces[0].description",
            "node.labels[\"a\"] desiredState.hostname.config",
            "node.annotations[\"a\"] desiredState.interfaces[0].description",
        ]
    );
}
