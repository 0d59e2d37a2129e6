//! `weft release placement`: everything goes on, placement-operator finds what it knows, and Weft
//! can have it back.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::{Kind, OWNER_LABEL, kinds};
use weft_testenv::{
    played,
    proxy::{Fault, Match, Proxy},
};

use super::{options, site::*};
use crate::system::{
    cluster_network::{text, weft},
    harness::*,
};

const CONSUMER: &str = "openstack.org/placementapi-ac-consumer";
const OPERATOR: &str = "weft-placement-operator";
const OPERATORS: &str = "weft-placement";
/// Under which name placement-operator writes fields.
const ORIGINAL: &str = "manager";
/// Objects of a PlacementAPI, with names that follow from its own.
const MADE: [(Kind, &str); 9] = [
    (kinds::SERVICE_ACCOUNT, "placement-placement-api"),
    (kinds::SECRET, "placement-api-config-data"),
    (kinds::SERVICE, "placement-internal"),
    (kinds::SERVICE, "placement-public"),
    (kinds::DEPLOYMENT, NAME),
    (kinds::MARIADB_DATABASE, "placement"),
    (kinds::MARIADB_ACCOUNT, ACCOUNT),
    (kinds::KEYSTONE_SERVICE, "placement"),
    (kinds::KEYSTONE_ENDPOINT, "placement"),
];

/// Which object each of these is.
async fn uids(site: &Site<'_>) -> Vec<Value> {
    let mut uids = Vec::new();
    for (kind, name) in MADE {
        uids.push(site.get(kind, name).await.unwrap()["metadata"]["uid"].clone());
    }
    uids
}

/// The Deployment by uid and generation, pods by uid.
async fn running(site: &Site<'_>) -> BTreeMap<String, String> {
    let mut running = BTreeMap::new();
    for kind in [kinds::DEPLOYMENT, kinds::POD] {
        for object in site.all(kind).await {
            let metadata = &object["metadata"];
            let generation = if kind == kinds::POD {
                &Value::Null
            } else {
                &metadata["generation"]
            };
            running.insert(
                format!("{kind} {}", metadata["name"]),
                format!("{} {generation}", metadata["uid"]),
            );
        }
    }
    running
}

#[tokio::test]
async fn a_placement_api_is_given_back_and_taken_again() {
    let cluster = Cluster::start(ClusterOptions {
        resource: (kinds::PLACEMENT_API, NAME),
        ..options()
    })
    .await;
    for played in [played::MARIADB, played::KEYSTONE, played::TOPOLOGY] {
        cluster.apply(played).await;
    }
    for definition in ["topologies.topology", "keystoneapis.keystone"] {
        cluster
            .wait_established(&format!("{definition}.openstack.org"))
            .await;
    }
    let operator = Operator::start_default(&cluster).await;
    let site = Site::new(&cluster, super::NAMESPACE).await;
    // The pods of the other operator are not restricted.
    cluster
        .patch(
            kinds::NAMESPACE,
            "",
            &site.namespace,
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        )
        .await;
    site.put(json!({
        "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": "zones"}, "spec": {}
    }))
    .await;
    site.secret("ac", &[("AC_ID", "id"), ("AC_SECRET", "secret")])
        .await;
    let live = site
        .deployed(json!({
            "topologyRef": {"name": "zones"}, "auth": {"applicationCredentialSecret": "ac"}
        }))
        .await;
    assert!(live["spec"].get("containerImage").is_none(), "{live:#}");
    site.pods(1).await;

    let refused = weft(&cluster, &["release", "placement", "--yes"], "").await;
    let way_out = format!("kubectl -n {OPERATORS} scale deployment {OPERATOR} --replicas=0");
    assert!(
        refused.status.code() == Some(2) && text(&refused).contains(&way_out),
        "{}",
        text(&refused)
    );
    cluster
        .kubectl(&[
            "-n",
            OPERATORS,
            "scale",
            "deployment",
            OPERATOR,
            "--replicas=0",
        ])
        .await;
    operator.terminate().await;

    // Weft names the parts that only it can serve, and writes nothing.
    site.patch(json!({"spec": {"keystone": {"registration": "Operator"}}}))
        .await;
    let all = cluster.snapshot().await;
    let refused = weft(&cluster, &["release", "placement", "--yes"], "").await;
    assert!(
        refused.status.code() == Some(2)
            && text(&refused).contains("spec.keystone: is a field of Weft's alone"),
        "{}",
        text(&refused)
    );
    assert_same(&all, &cluster.snapshot().await, "a refusal");
    site.patch(json!({"spec": {"keystone": null}})).await;

    let (before, made, all) = (
        running(&site).await,
        uids(&site).await,
        cluster.snapshot().await,
    );
    let image = site
        .deployment()
        .await
        .pointer("/spec/template/spec/containers/0/image")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    let preview = weft(&cluster, &["release", "placement", "--dry-run"], "").await;
    for line in [
        format!("would set in PlacementAPI openstack/{NAME}: spec.containerImage: \"{image}\"\n"),
        format!(
            "would release Secret openstack/ac: finalizer {CONSUMER}, label weft.network/used-by\n"
        ),
        format!("would give back Deployment openstack/{NAME}\n"),
    ] {
        assert!(
            preview.status.success() && text(&preview).contains(&line),
            "{line}{}",
            text(&preview)
        );
    }
    assert_same(&all, &cluster.snapshot().await, "a dry run");

    // Interrupted after each of its writes, it goes on where it was.
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let kubeconfig = proxy.kubeconfig().to_str().unwrap().to_owned();
    let mut interruptions = 0;
    loop {
        let fault = proxy.inject(Match::any().all_writes().nth(2), Fault::status(500));
        let run = weft(
            &cluster,
            &["release", "placement", "--yes", "--kubeconfig", &kubeconfig],
            "",
        )
        .await;
        fault.remove();
        if run.status.success() {
            break;
        }
        assert!(
            text(&run).contains("run the command again"),
            "{}",
            text(&run)
        );
        interruptions += 1;
        assert!(interruptions < 50, "{}", text(&run));
    }
    assert!(interruptions > MADE.len(), "{interruptions}");
    let again = weft(&cluster, &["release", "placement", "--yes"], "").await;
    assert!(
        again.status.success() && text(&again).contains("nothing to give back"),
        "{}",
        text(&again)
    );

    assert_eq!(running(&site).await, before, "no pod is another one");
    let resource = site.get(kinds::PLACEMENT_API, NAME).await.unwrap();
    assert_eq!(resource["spec"]["containerImage"], image.as_str());
    let after = cluster.snapshot().await;
    assert_eq!(
        after.objects.keys().collect::<Vec<_>>(),
        all.objects.keys().collect::<Vec<_>>(),
        "nothing is gone"
    );
    let owner = json!([{"apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI", "name": NAME, "uid": resource["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    for (kind, name) in MADE {
        let live = site.get(kind, name).await.unwrap();
        assert_eq!(live["metadata"]["ownerReferences"], owner, "{kind} {name}");
    }
    // Weft holds them by finalizers of placement-operator itself, and the PlacementAPI does not go
    // before that operator has released them.
    let mut held = BTreeMap::new();
    for (name, object) in &after.objects {
        assert!(
            object["metadata"]["labels"].get(OWNER_LABEL).is_none(),
            "{name}"
        );
        for finalizer in object["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            held.entry(finalizer.to_owned())
                .or_insert_with(Vec::new)
                .push(name.split(' ').next().unwrap().to_owned());
        }
    }
    held.retain(|finalizer, _| finalizer.contains("placementapi"));
    let topology = (format!("{FINALIZER}-{NAME}"), vec!["Topology".to_owned()]);
    let own = [
        "KeystoneEndpoint",
        "KeystoneService",
        "MariaDBAccount",
        "MariaDBDatabase",
        "PlacementAPI",
    ]
    .map(str::to_owned);
    assert_eq!(
        held,
        BTreeMap::from([(FINALIZER.to_owned(), own.to_vec()), topology])
    );
    assert!(
        cluster
            .get(kinds::LEASE, OPERATORS, "weft-placement")
            .await
            .is_none()
    );

    placement_operator_serves(&site).await;
    assert_ne!(running(&site).await, before);

    // And back.
    cluster.apply_manifests(options().manifests).await;
    let _operator = Operator::start_default(&cluster).await;
    site.wait_placement("is Ready as Weft has it", |live| {
        let (status, applied) = (&live["status"], &live["status"]["appliedInputSecretHash"]);
        applied.is_string()
            && *applied == status["hash"]["input"]
            && condition(status, "Ready")["status"] == "True"
    })
    .await;
    let deployment = site
        .wait_pod("has one container", |pod| {
            pod["containers"].as_array().unwrap().len() == 1
        })
        .await;
    assert_eq!(deployment["containers"][0]["image"], image.as_str());
    assert!(site.has_finalizer(kinds::SECRET, "ac", CONSUMER).await);
    for (kind, name) in MADE {
        let live = site.get(kind, name).await.unwrap();
        assert!(
            live["metadata"]["labels"].get(OWNER_LABEL).is_some(),
            "{kind} {name}"
        );
    }
    assert_eq!(uids(&site).await, made, "nothing was made anew");
    site.delete().await;
    site.wait_gone().await;
    for (kind, name, finalizer) in [
        (kinds::SECRET, "ac", CONSUMER),
        (kinds::TOPOLOGY, "zones", &*format!("{FINALIZER}-{NAME}")),
    ] {
        assert!(
            !site.has_finalizer(kind, name, finalizer).await,
            "{kind} {name}"
        );
    }
}

/// Plays placement-operator: it writes files and pods of its own into the objects of these names,
/// and runs its own Job.
async fn placement_operator_serves(site: &Site<'_>) {
    let theirs = include_str!("behaviours/original.yaml").replace("$namespace", &site.namespace);
    let theirs = serde_saphyr::from_multiple::<Value>(&theirs).unwrap();
    let of = |kind: &str, name: &str| {
        theirs
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .unwrap()
            .clone()
    };
    let params = PatchParams {
        field_manager: Some(ORIGINAL.to_owned()),
        ..Default::default()
    };
    let write = async |kind: Kind, name: &str, patch: Value| {
        site.cluster
            .api(kind, &site.namespace)
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .unwrap();
    };
    let files = "placement-api-config-data";
    write(
        kinds::SECRET,
        files,
        json!({"data": null, "stringData": of("Secret", files)["stringData"]}),
    )
    .await;
    // A Job with another hash: it deletes that one, and makes its own.
    let job = [
        "-n",
        &site.namespace,
        "delete",
        "job",
        "placement-api-db-sync",
        "--ignore-not-found",
        "--wait",
    ];
    site.cluster.kubectl(&job).await;
    site.made_by(ORIGINAL, of("Job", "placement-api-db-sync"))
        .await;
    let mut template = of("Deployment", NAME)["spec"]["template"].clone();
    // As controllerutil does it, the difference to what is there.
    let live = site.deployment().await;
    for part in ["metadata", "spec"] {
        for field in live["spec"]["template"][part].as_object().unwrap().keys() {
            if template[part].get(field).is_none() {
                template[part][field] = Value::Null;
            }
        }
    }
    write(
        kinds::DEPLOYMENT,
        NAME,
        json!({"spec": {"template": template}}),
    )
    .await;
    site.wait(
        kinds::DEPLOYMENT,
        NAME,
        "serves with two containers",
        |live| {
            let status = &live["status"];
            status["observedGeneration"] == live["metadata"]["generation"]
                && status["updatedReplicas"] == 1
                && status["readyReplicas"] == 1
                && status["replicas"] == 1
        },
    )
    .await;
}
