//! The definitions take the place of those of kubernetes-nmstate, and give it back.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_testenv::ControlPlane;

use super::{
    answers::eventually,
    cases::object,
    cluster::{DEFINITIONS, apply, deploy, read, served},
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/api/fixtures")
        .join(name)
}

async fn ours(cluster: &ControlPlane) {
    for file in DEFINITIONS {
        apply(cluster, &deploy(file)).await;
    }
    for version in ["v1", "v1beta1"] {
        served(cluster, version).await;
    }
}

async fn make(cluster: &ControlPlane, object: &Value) {
    let text = object.to_string();
    // Established does not mean served.
    eventually(async || {
        cluster
            .kubectl_with_input(&["apply", "--server-side", "-f", "-"], &text)
            .await
    })
    .await;
}

async fn stored_versions(cluster: &ControlPlane, plural: &str) -> Value {
    read(cluster, "crd", &format!("{plural}.nmstate.io")).await["status"]["storedVersions"].clone()
}

#[tokio::test]
async fn the_definitions_of_kubernetes_nmstate_are_replaced_and_come_back() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let theirs = fixture("kubernetes-nmstate.crd.yaml");
    apply(&cluster, &theirs).await;
    let policy = object(
        "NodeNetworkConfigurationPolicy",
        &json!({"maxUnavailable": 1, "desiredState": {"interfaces": []}}),
    );
    make(&cluster, &policy).await;
    let mut state = object("NodeNetworkState", &Value::Null);
    state["apiVersion"] = json!("nmstate.io/v1beta1");
    state.as_object_mut().unwrap().remove("spec");
    make(&cluster, &state).await;
    let report = json!({"status": {"currentState": {"interfaces": [{"name": "lo"}]}}}).to_string();
    cluster
        .kubectl(&[
            "patch",
            "nns",
            "one",
            "--subresource=status",
            "--type=merge",
            "-p",
            &report,
        ])
        .await
        .unwrap();

    ours(&cluster).await;
    let wanted =
        json!({"spec": {"managed": true, "desiredState": {"interfaces": [{"name": "eth1"}]}}})
            .to_string();
    cluster
        .kubectl(&[
            "patch",
            "nodenetworkstates.v1.nmstate.io",
            "one",
            "--type=merge",
            "-p",
            &wanted,
        ])
        .await
        .unwrap();
    let priority = json!({"spec": {"priority": 5}}).to_string();
    cluster
        .kubectl(&["patch", "nncp", "one", "--type=merge", "-p", &priority])
        .await
        .unwrap();

    // Theirs over ours: nothing is stored in a version that they do not know.
    apply(&cluster, &theirs).await;
    eventually(async || {
        match cluster
            .kubectl(&["get", "nodenetworkstates.v1.nmstate.io"])
            .await
        {
            Ok(_) => Err("v1 is still served".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    let as_theirs = read(&cluster, "nodenetworkstates.v1beta1.nmstate.io", "one").await;
    assert_eq!(
        as_theirs["status"]["currentState"],
        json!({"interfaces": [{"name": "lo"}]})
    );
    assert_eq!(
        as_theirs.get("spec"),
        None,
        "kubernetes-nmstate does not know it"
    );
    // Each definition comes into force a moment after it was applied.
    eventually(
        async || match &read(&cluster, "nncp", "one").await["spec"] {
            spec if *spec == json!({"maxUnavailable": 1, "desiredState": {"interfaces": []}}) => {
                Ok(())
            }
            spec => Err(format!("{spec}")),
        },
    )
    .await;

    // And back: what nobody wrote meanwhile is as it was.
    ours(&cluster).await;
    let again = read(&cluster, "nodenetworkstates.v1.nmstate.io", "one").await;
    assert_eq!(
        again["spec"],
        json!({"managed": true, "desiredState": {"interfaces": [{"name": "eth1"}]}})
    );
    eventually(
        async || match &read(&cluster, "nncp", "one").await["spec"]["priority"] {
            priority if *priority == 5 => Ok(()),
            priority => Err(format!("{priority}")),
        },
    )
    .await;
    for (plural, versions) in [
        ("nodenetworkstates", json!(["v1beta1"])),
        ("nodenetworkconfigurationpolicies", json!(["v1"])),
        ("nodenetworkconfigurationenactments", json!(["v1beta1"])),
        ("nmstates", json!(["v1"])),
    ] {
        assert_eq!(
            stored_versions(&cluster, plural).await,
            versions,
            "{plural}"
        );
    }
}

/// The API server would refuse a definition that lacks a version in which something may be stored.
#[tokio::test]
async fn objects_stored_as_v1alpha1_are_served_as_the_other_versions() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    apply(&cluster, &fixture("kubernetes-nmstate-old.crd.yaml")).await;
    let spec =
        json!({"nodeSelector": {"a": "b"}, "desiredState": {"interfaces": [{"name": "eth1"}]}});
    let mut old = object("NodeNetworkConfigurationPolicy", &spec);
    old["apiVersion"] = json!("nmstate.io/v1alpha1");
    make(&cluster, &old).await;

    ours(&cluster).await;
    for version in ["v1", "v1beta1"] {
        let read = read(
            &cluster,
            &format!("nodenetworkconfigurationpolicies.{version}.nmstate.io"),
            "one",
        )
        .await;
        assert_eq!(read["spec"], spec, "{version}");
    }
    let label = ["label", "nncp", "one", "a=b"];
    cluster.kubectl(&label).await.unwrap();
    assert_eq!(
        stored_versions(&cluster, "nodenetworkconfigurationpolicies").await,
        json!(["v1alpha1", "v1"])
    );

    // Once all objects have been written again, the old version can be forgotten, and the
    // definitions of kubernetes-nmstate fit as well.
    let status = json!({"status": {"storedVersions": ["v1"]}}).to_string();
    let name = "nodenetworkconfigurationpolicies.nmstate.io";
    cluster
        .kubectl(&[
            "patch",
            "crd",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ])
        .await
        .unwrap();
    assert_eq!(
        stored_versions(&cluster, "nodenetworkconfigurationpolicies").await,
        json!(["v1"])
    );
}

/// kubernetes-nmstate had a `v1` of enactments for a while, and stored them as that.
#[tokio::test]
async fn enactments_that_were_stored_as_v1_are_served_too() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    ours(&cluster).await;
    let enactment = |name: &str, version: &str| {
        json!({
            "apiVersion": format!("nmstate.io/{version}"), "kind": "NodeNetworkConfigurationEnactment",
            "metadata": {"name": name}
        })
    };
    make(&cluster, &enactment("node-a.old", "v1beta1")).await;
    let text = std::fs::read_to_string(fixture("kubernetes-nmstate.crd.yaml")).unwrap();
    let definitions: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let plural = "nodenetworkconfigurationenactments";
    let mut theirs = definitions
        .into_iter()
        .find(|one| one["spec"]["names"]["plural"] == plural)
        .unwrap();
    let mut v1 = theirs["spec"]["versions"][0].clone();
    theirs["spec"]["versions"][0]["storage"] = json!(false);
    v1["name"] = json!("v1");
    theirs["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .insert(0, v1);
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &theirs.to_string())
        .await
        .unwrap();
    make(&cluster, &enactment("node-a.new", "v1")).await;
    assert_eq!(
        stored_versions(&cluster, plural).await,
        json!(["v1beta1", "v1"])
    );

    ours(&cluster).await;
    for name in ["node-a.old", "node-a.new"] {
        for version in ["v1", "v1beta1"] {
            let read = read(&cluster, &format!("{plural}.{version}.nmstate.io"), name).await;
            assert_eq!(
                read["apiVersion"],
                format!("nmstate.io/{version}"),
                "{name}"
            );
        }
    }
}
