//! The token of one node's agent is of no use for another node's objects.

use std::path::Path;

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use weft_testenv::client_from;
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::wait_reported;

/// Both kinds that agents write, by somebody's kubeconfig.
struct Apis {
    states: Api<DynamicObject>,
    enactments: Api<DynamicObject>,
}

impl Apis {
    async fn of(kubeconfig: &Path) -> Self {
        let client = client_from(kubeconfig).await.unwrap();
        let api = |kind| {
            Api::all_with(
                client.clone(),
                &ApiResource::from_gvk(&GroupVersionKind::gvk("nmstate.io", "v1beta1", kind)),
            )
        };
        Self {
            states: api("NodeNetworkState"),
            enactments: api("NodeNetworkConfigurationEnactment"),
        }
    }
}

/// Writes a status and says what became of it.
async fn write(api: &Api<DynamicObject>, name: &str, status: Value) -> Result<(), kube::Error> {
    api.patch_status(
        name,
        &PatchParams::default(),
        &Patch::Merge(json!({"status": status})),
    )
    .await
    .map(drop)
}

/// Is it refused, and not merely wrong?
fn assert_forbidden<T>(what: &str, result: Result<T, kube::Error>) {
    match result {
        Err(kube::Error::Api(status)) if [403, 422].contains(&status.code) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} is not refused"),
    }
}

#[tokio::test]
async fn an_agent_writes_only_what_its_own_node_has() {
    let mut weft = Installation::start(HostLab::builder().hosts(2).cards(1))
        .await
        .unwrap();
    // It would remove enactments that belong to no policy.
    weft.kill_operator();
    for node in ["node-1", "node-2"] {
        wait_reported(&weft, node, "eth0", |eth0| eth0["state"] == "up").await;
        let enactment = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkConfigurationEnactment",
        "metadata": {
            "name": format!("{node}.by-hand"),
            "labels": {"nmstate.io/node": node, "nmstate.io/policy": "by-hand"}
        }});
        weft.apply(&enactment.to_string()).await.unwrap();
    }
    let control_plane = weft.lab().control_plane();
    let kubeconfig = control_plane
        .node_kubeconfig_via(control_plane.url(), "nmstate", "nmstate-handler", "node-1")
        .await
        .unwrap();
    let agent = Apis::of(&kubeconfig).await;
    let (version, generation) = (
        json!({"handlerNmstateVersion": "by hand"}),
        json!({"policyGeneration": 7}),
    );
    write(&agent.states, "node-1", version.clone())
        .await
        .expect("its own state");
    write(&agent.enactments, "node-1.by-hand", generation.clone())
        .await
        .expect("its own enactment");

    assert_forbidden(
        "another node's state",
        write(&agent.states, "node-2", version.clone()).await,
    );
    assert_forbidden(
        "another node's enactment",
        write(&agent.enactments, "node-2.by-hand", generation.clone()).await,
    );
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    assert_forbidden(
        "another node's label",
        agent
            .states
            .patch("node-2", &PatchParams::default(), &label)
            .await,
    );

    // The token of node-2 may write the objects of node-2, and not those of node-1.
    let kubeconfig_2 = control_plane
        .node_kubeconfig_via(control_plane.url(), "nmstate", "nmstate-handler", "node-2")
        .await
        .unwrap();
    let other = Apis::of(&kubeconfig_2).await;
    write(&other.enactments, "node-2.by-hand", generation.clone())
        .await
        .expect("its own enactment");
    assert_forbidden(
        "another node's state",
        write(&other.states, "node-1", version.clone()).await,
    );
    assert_forbidden(
        "another node's enactment",
        write(&other.enactments, "node-1.by-hand", generation.clone()).await,
    );

    // A token that names no node writes nothing at all.
    let nobody = Apis::of(
        &control_plane
            .service_account_kubeconfig("nmstate", "nmstate-handler")
            .await
            .unwrap(),
    )
    .await;
    assert_forbidden(
        "a token without a node",
        write(&nobody.states, "node-1", version).await,
    );
    assert_forbidden(
        "a token without a node",
        write(&nobody.enactments, "node-1.by-hand", generation).await,
    );

    // Nor do its rights reach further.
    assert_forbidden(
        "deletion",
        agent
            .states
            .delete("node-1", &DeleteParams::default())
            .await,
    );
    let client = client_from(&kubeconfig).await.unwrap();
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::all(client);
    assert_forbidden("all secrets", secrets.list(&ListParams::default()).await);
}
