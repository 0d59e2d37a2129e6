#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    definition::{self, testing::assert_is_in_order},
    schema::testing::{self, example, walk},
};

/// The schema of a kind, the same in all its versions.
fn schema(kind: &str) -> Value {
    definition::testing::schema(
        &crds()
            .into_iter()
            .find(|crd| crd.spec.names.kind == kind)
            .unwrap(),
    )
}

fn schemas() -> [Value; 4] {
    [
        state::KIND,
        policy::KIND,
        enactment::KIND,
        installation::KIND,
    ]
    .map(schema)
}

fn inlined_from_kubernetes(path: &str) -> bool {
    [
        ".affinity.",
        ".infraAffinity.",
        ".tolerations[]",
        ".infraTolerations[]",
    ]
    .iter()
    .any(|part| path.contains(part))
}

/// The types know every field that the schema has: nothing a user writes is lost on the way.
fn survives_reading_and_writing<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>() {
    let kind = K::kind(&());
    let mut object = example(&schema(&kind));
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "one"});
    if object["spec"]["wanted"].is_object() {
        object["spec"]["wanted"]["decision"] = json!("Granted");
    }
    if object["spec"]["withoutNetworkManager"].is_string() {
        object["spec"]["withoutNetworkManager"] = json!("ReportOnly");
    }
    let read: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), object, "{kind}");
}

#[test]
fn every_field_of_the_schemas_survives_reading_and_writing() {
    survives_reading_and_writing::<NodeNetworkState>();
    survives_reading_and_writing::<NodeNetworkConfigurationPolicy>();
    survives_reading_and_writing::<NodeNetworkConfigurationEnactment>();
    survives_reading_and_writing::<NMState>();
}

#[test]
fn names_versions_and_columns_are_those_of_kubernetes_nmstate() {
    let summary = crds().map(|crd| {
        let names = &crd.spec.names;
        let served = crd.spec.versions.iter().filter(|version| version.served);
        let versions = served.map(|version| {
            let columns = version.additional_printer_columns.iter().flatten();
            let columns: Vec<_> = columns
                .map(|column| format!("{} {}", column.name, column.json_path))
                .collect();
            assert!(version.subresources.as_ref().unwrap().status.is_some());
            (
                format!("{}{}", version.name, if version.storage { "*" } else { "" }),
                columns,
            )
        });
        let (versions, columns): (Vec<_>, Vec<_>) = versions.unzip();
        assert!(columns.iter().all(|of_version| *of_version == columns[0]));
        let short_names = names.short_names.clone().unwrap_or_default();
        format!(
            "{} {} {short_names:?} {versions:?} {:?}",
            names.plural, names.kind, columns[0]
        )
    });
    let one = |field: &str| format!(".status.conditions[?(@.status==\"True\")].{field}");
    let (status, reason, message) = (
        format!("Status {}", one("type")),
        format!("Reason {}", one("reason")),
        format!("Message {}", one("message")),
    );
    let since = format!("Status Age {}", one("lastTransitionTime"));
    let age = "Age .metadata.creationTimestamp".to_owned();
    assert_eq!(
        summary,
        [
            format!(
                "nodenetworkstates NodeNetworkState [\"nns\"] [\"v1\", \"v1beta1*\"] {:?}",
                [&age, &status, &reason, &message]
            ),
            format!(
                "nodenetworkconfigurationpolicies NodeNetworkConfigurationPolicy [\"nncp\"] [\"v1*\", \"v1beta1\"] {:?}",
                [&status, &reason, &message]
            ),
            format!(
                "nodenetworkconfigurationenactments NodeNetworkConfigurationEnactment [\"nnce\"] [\"v1\", \"v1beta1*\"] {:?}",
                [&status, &since, &reason, &message]
            ),
            format!(
                "nmstates NMState [\"nms\"] [\"v1*\", \"v1beta1\"] {:?}",
                [&status, &reason, &message]
            ),
        ]
    );
}

#[test]
fn all_versions_of_a_kind_have_one_schema() {
    for crd in crds() {
        let served = crd.spec.versions.iter().filter(|version| version.served);
        let schemas: Vec<_> = served.map(|version| &version.schema).collect();
        assert!(
            schemas.iter().all(|schema| *schema == schemas[0]),
            "{}",
            crd.spec.names.kind
        );
    }
}

#[test]
fn each_definition_is_in_order() {
    for crd in crds() {
        assert_is_in_order(&crd, inlined_from_kubernetes);
    }
}

/// The reader of a field chooses its default, so that an omitted field differs from a written one.
#[test]
fn nothing_has_a_default() {
    schemas().iter().for_each(testing::assert_no_defaults);
}

/// A field that the schema does not know is dropped, but in states of networks, and anywhere in an
/// enactment.
#[test]
fn unknown_fields_are_kept_nowhere_else() {
    let open = schemas().map(|schema| {
        let mut open = vec![];
        walk(&schema, "", &mut |path, node| {
            if node.get("x-kubernetes-preserve-unknown-fields").is_some() {
                open.push(path.to_owned());
            }
        });
        open
    });
    let none: Vec<String> = vec![];
    assert_eq!(open[0], [".spec.desiredState", ".status.currentState"]);
    assert_eq!(open[1], [".spec.desiredState"]);
    assert_eq!(
        open[2],
        [
            "",
            ".spec.granted.spec",
            ".status.capturedStates[].state",
            ".status.desiredState"
        ]
    );
    assert_eq!(open[3], none);
}

#[test]
fn objects_of_kubernetes_nmstate_are_read() {
    let enactment: NodeNetworkConfigurationEnactment = serde_json::from_value(json!({
        "metadata": {"name": "node-a.br1", "labels": {NODE_LABEL: "node-a", POLICY_LABEL: "br1"}},
        "status": {
            "policyGeneration": 3,
            "features": ["static-route"],
            "retryCount": {"3": 1},
            "capturedStates": {
                "default-gw": {
                    "state": {"interfaces": []},
                    "metaInfo": {"version": "0", "time": "2026-01-02T03:04:05Z"}
                }
            },
            "conditions": [{"type": "Available", "status": "True", "lastHeartbeatTime": null}],
        },
    }))
    .unwrap();
    assert_eq!(
        enactment.spec,
        NodeNetworkConfigurationEnactmentSpec::default()
    );
    assert_eq!(enactment.status.unwrap().policy_generation, Some(3));
    let state: NodeNetworkState = serde_json::from_value(
        json!({"metadata": {"name": "node-a"}, "status": {"currentState": {}}}),
    )
    .unwrap();
    assert_eq!(state.spec, NodeNetworkStateSpec::default());
}

#[test]
fn a_decision_of_a_newer_operator_is_read() {
    let wanted: Wanted =
        serde_json::from_value(json!({"generation": 1, "decision": "Defer"})).unwrap();
    assert_eq!(wanted.decision, Decision::Unknown);
}

#[test]
fn the_name_of_a_node_fits_into_a_label() {
    assert_eq!(node_label("node-1.example.com"), "node-1.example.com");
    assert_eq!(node_label(&"n".repeat(63)), "n".repeat(63));
    let (one, other) = (node_label(&"n".repeat(64)), node_label(&"n".repeat(65)));
    assert_eq!((one.len(), other.len()), (63, 63));
    assert_ne!(one, other);
    // Operator and agent may be of different versions: it never changes.
    assert_eq!(one, format!("{}-078b793dde92c425", "n".repeat(46)));
}
