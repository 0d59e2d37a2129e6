//! A PlacementAPI that placement-operator has served until now: what
//! `docs/migrate-from-placement-operator.md` says of its objects.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use weft_plan::{Kind, ObjectKey, kinds};

use crate::system::{
    harness::{Planned, condition, wait_within},
    placement::site::*,
};

/// Under which name placement-operator writes fields.
const ORIGINAL: &str = "manager";
const CONSUMER: &str = "openstack.org/placementapi-ac-consumer";
/// A digest of placement-operator's: none is one of Weft's.
const OLD_HASH: &str = "n5d4h5f8";

/// Writes a PlacementAPI with the status that placement-operator leaves.
async fn served_by_original(site: &Site<'_>) {
    let spec = json!({"databaseInstance": "openstack", "databaseAccount": ACCOUNT, "secret": SECRET, "containerImage": "registry.test/placement",
    "topologyRef": {
        "name": "zones", "namespace": site.namespace
    }, "auth": {"applicationCredentialSecret": "ac"},
    "tls": {
        "caBundleSecretName": "combined-ca-bundle",
        "api": {"internal": {"secretName": "certs"}, "public": {"secretName": "certs"}}
    }});
    // The pause keeps Weft out while the test plays placement-operator.
    let metadata = json!({
        "name": NAME, "finalizers": [FINALIZER], "annotations": {"weft.network/pause": "test"}
    });
    let kind = json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": metadata, "spec": spec
    });
    site.made_by(ORIGINAL, kind).await;
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "Setup complete",
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    let status = json!({"observedGeneration": 1, "readyCount": 1, "hash": {
        "input": OLD_HASH, "dbsync": OLD_HASH
    }, "conditions": [ready],
        "databaseHostname": format!("hostname-for-openstack.{}.svc", site.namespace), "applicationCredentialSecret": "ac",
        "lastAppliedTopology": {"name": "zones", "namespace": site.namespace}});
    site.says(kinds::PLACEMENT_API, NAME, status).await;
}

/// Everything that placement-operator and its peers have made, by what it is. Its Job with these
/// fields.
async fn made_by_original(site: &Site<'_>, job: Value) -> BTreeMap<ObjectKey, Value> {
    // Its pods are not restricted.
    let privileged =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    site.cluster
        .patch(kinds::NAMESPACE, "", &site.namespace, privileged)
        .await;
    site.inputs().await;
    let pair = rcgen::generate_simple_self_signed(["placement".to_owned()]).unwrap();
    site.secret(
        "certs",
        &[
            ("tls.crt", &pair.cert.pem()),
            ("tls.key", &pair.signing_key.serialize_pem()),
        ],
    )
    .await;
    site.secret("combined-ca-bundle", &[("tls-ca-bundle.pem", "CA")])
        .await;
    let constraint =
        json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let zones = json!({"apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {
            "name": "zones", "finalizers": [format!("{FINALIZER}-{NAME}")]
        }, "spec": {"topologySpreadConstraints": [constraint]}});
    let credential = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "ac", "finalizers": [CONSUMER]
    },
        "stringData": {"AC_ID": "id", "AC_SECRET": "secret"}});
    for object in [zones, credential] {
        site.made_by(ORIGINAL, object).await;
    }
    served_by_original(site).await;

    let resource = site.wait_there(kinds::PLACEMENT_API, NAME).await;
    let owner = json!({"apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI", "name": NAME, "uid": resource["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true});
    let mut made = BTreeMap::new();
    let text = include_str!("original.yaml").replace("$namespace", &site.namespace);
    for mut object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
        object["metadata"]["ownerReferences"] = json!([owner]);
        if object["kind"] == "Job" {
            object["spec"]
                .as_object_mut()
                .unwrap()
                .extend(job.as_object().unwrap().clone());
        }
        let object = site.made_by(ORIGINAL, object).await;
        made.insert(ObjectKey::of(&object).unwrap(), object);
    }
    site.plays_mariadb(ACCOUNT).await;
    site.plays_keystone().await;
    site.wait(kinds::DEPLOYMENT, NAME, "serves", |live| {
        live["status"]["readyReplicas"] == 1
    })
    .await;
    made
}

/// From here on Weft serves it.
async fn take_over(site: &Site<'_>) {
    site.patch(json!({"metadata": {"annotations": {"weft.network/pause": null}}}))
        .await;
}

/// Waits until all is well by what Weft says, not by what placement-operator has said.
async fn wait_taken_over(site: &Site<'_>) -> Value {
    site.wait_placement("is Ready as Weft has it", |live| {
        let (status, applied) = (&live["status"], &live["status"]["appliedInputSecretHash"]);
        applied.is_string()
            && *applied == status["hash"]["input"]
            && condition(status, "Ready")["status"] == "True"
    })
    .await
}

/// Reports whether a field manager answers for anything that decides what an object does.
fn answers(live: &Value, manager: &str) -> bool {
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let mut entries = entries
        .iter()
        .filter(|entry| entry["manager"] == manager && entry["subresource"].is_null());
    entries.any(|entry| {
        ["f:spec", "f:data", "f:rules"]
            .iter()
            .any(|root| !entry["fieldsV1"][*root].is_null())
    })
}

pub async fn takes_over_what_placement_operator_has_made(site: &Site<'_>) {
    let made = made_by_original(site, json!({})).await;
    site.wait(
        kinds::JOB,
        &format!("{NAME}-db-sync"),
        "has ended",
        |live| live["status"]["succeeded"] == 1,
    )
    .await;
    let before = |kind: Kind, name: &str| &made[&ObjectKey::new(kind, &site.namespace, name)];
    let mut resource = site.wait_there(kinds::PLACEMENT_API, NAME).await;
    resource["metadata"]["annotations"] = Value::Null;
    let is_decided =
        |key: &&ObjectKey| [kinds::DEPLOYMENT, kinds::SERVICE, kinds::JOB].contains(&key.kind);
    let planned = Planned::of(
        site.cluster,
        &resource.to_string(),
        &[],
        made.keys().filter(is_decided).cloned(),
    )
    .await;
    take_over(site).await;
    let live = wait_taken_over(site).await;
    planned.assert_happened(site.cluster).await;
    assert_eq!(
        live["status"]["conditions"].as_array().unwrap().len(),
        16,
        "{:#}",
        live["status"]
    );

    // Each object has one owner. Only the Job that has ended is another one: a Job cannot be
    // changed.
    let mut now = BTreeMap::new();
    for (key, made) in &made {
        let live = site
            .get(key.kind, &key.name)
            .await
            .unwrap_or_else(|| panic!("{} is gone", key.human()));
        assert_eq!(
            live["metadata"]["uid"] == made["metadata"]["uid"],
            key.kind != kinds::JOB,
            "{}",
            key.human()
        );
        let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(
            (owners.len(), &owners[0]["name"]),
            (1, &json!(NAME)),
            "{}",
            key.human()
        );
        now.insert(key, live);
    }
    let now = |kind: Kind, name: &str| &now[&ObjectKey::new(kind, &site.namespace, name)];

    // The database and who connects to it, the registration, the addresses.
    for (kind, name) in [
        (kinds::MARIADB_DATABASE, "placement"),
        (kinds::MARIADB_ACCOUNT, ACCOUNT),
        (kinds::KEYSTONE_SERVICE, "placement"),
        (kinds::KEYSTONE_ENDPOINT, "placement"),
    ] {
        let (before, now) = (before(kind, name), now(kind, name));
        assert_eq!(now["spec"], before["spec"], "{kind}");
        assert_eq!(
            now["metadata"]["finalizers"], before["metadata"]["finalizers"],
            "{kind}"
        );
        assert!(
            !answers(now, ORIGINAL),
            "{kind} {:#}",
            now["metadata"]["managedFields"]
        );
    }
    let secret = format!("{ACCOUNT}-db-secret");
    assert_eq!(
        now(kinds::SECRET, &secret)["data"],
        before(kinds::SECRET, &secret)["data"]
    );
    let conf = site.file("placement.conf").await;
    assert!(
        conf.contains("mysql+pymysql://placement_c0de:0123456789abcdef0123456789abcdef@"),
        "{conf}"
    );
    for name in ["placement-internal", "placement-public"] {
        assert_eq!(
            now(kinds::SERVICE, name)["spec"]["clusterIP"],
            before(kinds::SERVICE, name)["spec"]["clusterIP"]
        );
    }

    // Leftovers of that operator go. Its objects that Weft does not need go with the PlacementAPI.
    assert_eq!(
        now(kinds::SERVICE, "placement-internal")["spec"]["sessionAffinity"],
        "None"
    );
    let data: Vec<_> = now(kinds::SECRET, &format!("{NAME}-config-data"))["data"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert!(!data.iter().any(|file| file.ends_with(".json")), "{data:?}");
    let pod = &now(kinds::DEPLOYMENT, NAME)["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"].as_array().unwrap().len(),
        1,
        "{:#}",
        pod["containers"]
    );
    assert!(
        !pod.to_string().contains("KOLLA") && !pod.to_string().contains("kolla"),
        "{pod:#}"
    );
    let volumes: Vec<_> = pod["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| &volume["name"])
        .collect();
    assert_eq!(
        volumes,
        [
            "config-data",
            "combined-ca-bundle",
            "internal-tls-certs",
            "public-tls-certs"
        ]
    );
    for (kind, name) in [
        (kinds::DEPLOYMENT, NAME),
        (kinds::SERVICE, "placement-internal"),
        (kinds::SERVICE, "placement-public"),
        (kinds::SECRET, &format!("{NAME}-config-data")),
    ] {
        assert!(
            !answers(now(kind, name), ORIGINAL),
            "{kind} {:#}",
            now(kind, name)["metadata"]["managedFields"]
        );
    }
    // (The first of a Deployment is 1.)
    let revision = &now(kinds::DEPLOYMENT, NAME)["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
    assert_eq!(revision, "2", "the pods are replaced once");
    for (kind, name) in [
        (kinds::ROLE, format!("placement-{NAME}-role")),
        (kinds::SECRET, format!("{NAME}-scripts")),
    ] {
        assert_eq!(
            now(kind, &name)["metadata"]["labels"],
            before(kind, &name)["metadata"]["labels"],
            "{kind} is not Weft's"
        );
    }
    let of_before = now(kinds::MARIADB_ACCOUNT, "account-of-before");
    assert_eq!(
        of_before["metadata"]["finalizers"],
        json!(["openstack.org/mariadbaccount"]),
        "no pod needs it"
    );

    // In the end either operator's objects are gone, and what is another user's is free.
    assert!(
        site.has_finalizer(kinds::TOPOLOGY, "zones", &format!("{FINALIZER}-{NAME}"))
            .await
    );
    assert!(site.has_finalizer(kinds::SECRET, "ac", CONSUMER).await);
    // (In the foreground: the garbage collector then also ends what was deleted before it knew of
    // the kind, for which it looks every 30 s.)
    site.cluster
        .kubectl(&[
            "-n",
            &site.namespace,
            "delete",
            "placementapi",
            NAME,
            "--cascade=foreground",
            "--wait=false",
        ])
        .await;
    wait_within(
        Duration::from_secs(120),
        &format!("{}: nothing is left", site.namespace),
        async || {
            site.peers_let_go().await;
            let mut left = Vec::new();
            let keys = made.keys().cloned().chain([ObjectKey::new(
                kinds::PLACEMENT_API,
                &site.namespace,
                NAME,
            )]);
            for key in keys {
                left.extend(
                    site.get(key.kind, &key.name)
                        .await
                        .map(|live| format!("{} {}", key.human(), live["metadata"]["finalizers"])),
                );
            }
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:#?}"))
            }
        },
    )
    .await;
    for (kind, name) in [(kinds::TOPOLOGY, "zones"), (kinds::SECRET, "ac")] {
        assert_eq!(
            site.wait_there(kind, name).await["metadata"]["finalizers"],
            Value::Null,
            "{kind} {name}"
        );
    }
}

/// Its Job may just be at the same tables.
pub async fn waits_for_the_job_of_placement_operator(site: &Site<'_>) {
    // (kwok ends pods of Jobs as soon as they run.)
    made_by_original(site, json!({"suspend": true})).await;
    let job = format!("{NAME}-db-sync");
    take_over(site).await;
    let message = format!("DBsync job still running: {job}, of an earlier configuration");
    site.wait_says("DBSyncReady", "False", "Requested", &message)
        .await;
    let theirs = site.wait_there(kinds::JOB, &job).await["metadata"]["uid"].clone();
    site.cluster
        .patch(
            kinds::JOB,
            &site.namespace,
            &job,
            json!({"spec": {"suspend": false}}),
        )
        .await;
    wait_taken_over(site).await;
    assert_ne!(
        site.wait_there(kinds::JOB, &job).await["metadata"]["uid"],
        theirs
    );
}
