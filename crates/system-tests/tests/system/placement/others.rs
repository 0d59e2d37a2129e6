//! Claims on objects of others, as `weft plan` announces them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weft_plan::{Kind, OWNER_LABEL, kinds};
use weft_testenv::played;

use super::{options, site::*};
use crate::system::{cluster_network::weft, harness::*};

const CONSUMER: &str = "openstack.org/placementapi-ac-consumer";
/// The kinds of which anything may be held.
const KINDS: [Kind; 6] = [
    kinds::SECRET,
    kinds::TOPOLOGY,
    kinds::MARIADB_ACCOUNT,
    kinds::MARIADB_DATABASE,
    kinds::KEYSTONE_SERVICE,
    kinds::KEYSTONE_ENDPOINT,
];

type Marks = BTreeMap<String, BTreeSet<String>>;

/// Returns Weft's marks on each object, by kind and name.
async fn marks(site: &Site<'_>) -> Marks {
    let mut marks = Marks::new();
    for kind in KINDS {
        for object in site.all(kind).await {
            let metadata = &object["metadata"];
            let finalizers = metadata["finalizers"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let mut own: BTreeSet<_> = finalizers
                .filter(|one| one.starts_with(FINALIZER))
                .map(|one| format!("finalizer {one}"))
                .collect();
            for (label, value) in metadata["labels"].as_object().into_iter().flatten() {
                let shown = if label == OWNER_LABEL {
                    format!("label {label}")
                } else {
                    format!("label {label}={}", value.as_str().unwrap())
                };
                own.extend(
                    (label.starts_with("weft.network/") || label.contains("mariaDB"))
                        .then_some(shown),
                );
            }
            own.extend(
                metadata["ownerReferences"]
                    .is_array()
                    .then(|| "owner".to_owned()),
            );
            marks.insert(
                format!("{}/{}", kind.kind, metadata["name"].as_str().unwrap()),
                own,
            );
        }
    }
    marks
}

/// Returns the marks that were added to or removed from earlier objects.
fn moved(before: &Marks, after: &Marks) -> Marks {
    let there = before
        .iter()
        .filter_map(|(name, before)| Some((name, before, after.get(name)?)));
    let moved = there.map(|(name, before, after)| {
        (
            name.clone(),
            after.difference(before).cloned().collect::<BTreeSet<_>>(),
        )
    });
    moved.filter(|(_, moved)| !moved.is_empty()).collect()
}

/// Returns the plan's claims and releases of objects of others.
async fn planned(site: &Site<'_>, arguments: &[&str], file: &str) -> (Marks, Marks) {
    let output = weft(
        site.cluster,
        &[&["plan", "-o", "json"], arguments].concat(),
        file,
    )
    .await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut planned = (Marks::new(), Marks::new());
    let components = plan["resources"][0]["components"]
        .as_array()
        .unwrap()
        .iter();
    for object in components.flat_map(|component| component["objects"].as_array().unwrap()) {
        let (marks, words) = match object["action"].as_str().unwrap() {
            "hold" => (&mut planned.0, "would hold it: "),
            "release" => (&mut planned.1, "would release it: "),
            _ => continue,
        };
        let why = object["why"]
            .as_str()
            .unwrap()
            .strip_prefix(words)
            .unwrap()
            .split(" goes")
            .next()
            .unwrap();
        let name = format!(
            "{}/{}",
            object["kind"].as_str().unwrap(),
            object["name"].as_str().unwrap()
        );
        // Of a label that goes, the value is not said.
        marks.insert(
            name,
            why.split(", ")
                .map(|mark| mark.replace("used-by=placement", "used-by"))
                .collect(),
        );
    }
    planned
}

fn without_values(marks: Marks) -> Marks {
    let plain = |marks: BTreeSet<String>| {
        marks
            .into_iter()
            .map(|mark| mark.replace("used-by=placement", "used-by"))
            .collect()
    };
    marks
        .into_iter()
        .map(|(name, marks)| (name, plain(marks)))
        .collect()
}

#[tokio::test]
async fn a_plan_about_objects_of_others_comes_true() {
    let cluster = Cluster::start(ClusterOptions {
        resource: (kinds::PLACEMENT_API, NAME),
        ..options()
    })
    .await;
    for played in [played::MARIADB, played::KEYSTONE, played::TOPOLOGY] {
        cluster.apply(played).await;
    }
    cluster
        .wait_established("topologies.topology.openstack.org")
        .await;
    cluster
        .wait_established("keystoneapis.keystone.openstack.org")
        .await;
    let _operator = Operator::start_default(&cluster).await;
    let site = Site::new(&cluster, super::NAMESPACE).await;
    site.inputs().await;
    for zones in ["first-zones", "second-zones"] {
        site.put(json!({
            "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
            "metadata": {"name": zones}, "spec": {}
        }))
        .await;
    }
    for credential in ["first-ac", "second-ac"] {
        site.secret(
            credential,
            &[("AC_ID", credential), ("AC_SECRET", "secret")],
        )
        .await;
    }
    // An account of another user's.
    site.secret("theirs", &[("DatabasePassword", "theirs")])
        .await;
    let account = json!({"apiVersion": "mariadb.openstack.org/v1beta1", "kind": "MariaDBAccount", "metadata": {"name": "theirs"},
        "spec": {"userName": "theirs", "secret": "theirs", "requireTLS": false}});
    site.put(account).await;
    site.says_ready(kinds::MARIADB_ACCOUNT, "theirs", "MariaDBAccountReady")
        .await;
    site.secret("database", &[("username", "u"), ("password", "p")])
        .await;

    let spec = |more: Value| {
        let mut spec = json!({"databaseInstance": "openstack", "secret": SECRET});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        json!({
            "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
            "metadata": {"name": NAME, "namespace": site.namespace}, "spec": spec
        })
    };
    let uses = |name: &str, account: &str| {
        json!({"databaseAccount": account, "topologyRef": {"name": format!("{name}-zones")},
            "auth": {"applicationCredentialSecret": format!("{name}-ac")}})
    };
    let own = json!({"databaseInstance": null, "database": {
        "host": "db.example", "credentialsSecret": {"name": "database"}
    },
        "keystone": {"registration": "None"}, "topologyRef": {"name": "second-zones"}, "auth": {
            "applicationCredentialSecret": "second-ac"
        }});
    for (file, held, released) in [
        (spec(uses("first", "theirs")), 3, 0),
        (spec(uses("second", ACCOUNT)), 2, 3),
        (spec(own), 0, 5),
    ] {
        let file = file.to_string();
        let before = marks(&site).await;
        let plan = planned(&site, &["-f", "-"], &file).await;
        assert_eq!((plan.0.len(), plan.1.len()), (held, released), "{plan:#?}");
        cluster.apply(&file).await;
        let wanted: Value = serde_json::from_str(&file).unwrap();
        if wanted["spec"]["databaseInstance"].is_string() {
            site.plays_mariadb(wanted["spec"]["databaseAccount"].as_str().unwrap())
                .await;
            site.plays_keystone().await;
        }
        site.wait_ready().await;
        let after = marks(&site).await;
        assert_eq!(
            plan,
            (
                without_values(moved(&before, &after)),
                without_values(moved(&after, &before))
            ),
            "{before:#?}{after:#?}"
        );
        let again = weft(&cluster, &["plan", "-f", "-"], &file).await;
        assert_eq!(
            again.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&again.stdout)
        );
    }

    // At the end: what does not go with it.
    let before = marks(&site).await;
    let (held, released) = planned(&site, &["--delete"], "").await;
    assert_eq!((held.len(), released.len()), (0, 2), "{released:#?}");
    assert!(
        released["Secret/second-ac"].contains(&format!("finalizer {CONSUMER}")),
        "{released:#?}"
    );
    site.delete().await;
    site.wait_gone().await;
    assert_eq!(
        released,
        without_values(moved(&marks(&site).await, &before))
    );
}
