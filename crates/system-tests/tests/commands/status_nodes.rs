//! `weft status` about policies, nodes and missing parts, by an admin and by a user with `view`.

use serde_json::{Value, json};
use weft_plan::{Kind, kinds};

use crate::commands::{harness::*, user::*};

const POLICY: &str = "{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, spec: {maxUnavailable: 2, desiredState: {interfaces: [{name: br1, type: linux-bridge, state: up}]}}}";

/// Writes conditions into a status, as the agent of a node does.
async fn say(cluster: &Cluster, kind: Kind, name: &str, status: Value) {
    let patch = json!({"status": status}).to_string();
    cluster
        .kubectl(&[
            "patch",
            kind.plural,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .await;
}

fn condition_of(name: &str, message: &str) -> Value {
    json!([{
        "type": name, "status": "True", "reason": "Because", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"
    }])
}

#[tokio::test]
async fn a_failed_policy_and_unreported_nodes_decide_the_verdict() {
    let options = ClusterOptions {
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let operator = Operator::start_lasting(&cluster).await;
    let nothing = weft(&cluster, &["status"]).await.ended(1);
    assert!(
        nothing.stdout.contains("there is no NMState"),
        "{nothing:?}"
    );
    // Policies that nobody carries out.
    cluster.apply(POLICY).await;
    let alone = weft(&cluster, &["status"]).await.ended(3);
    assert!(
        alone
            .stdout
            .contains("there are policies and no NMState, so no agent carries them out"),
        "{alone:?}"
    );

    cluster.apply(&example("node-network/nmstate.yaml")).await;
    cluster.wait_available().await;
    let waits = weft(&cluster, &["status", "--wait", "--timeout", "1s"])
        .await
        .ended(1);
    assert!(
        waits.stdout.contains("0 of 2 reported") && waits.stdout.contains("node-1: not reported"),
        "{waits:?}"
    );
    for node in ["node-1", "node-2"] {
        let state = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
            "metadata": {"name": node}});
        cluster.apply(&state.to_string()).await;
    }
    let failing = condition_of("Failing", "cannot read the links");
    let status = json!({"conditions": failing});
    say(&cluster, kinds::NODE_NETWORK_STATE, "node-2", status).await;

    // One node has it, and the other one fails. Half of the nodes change at a time, and which one
    // comes first depends on which agent the operator sees first.
    let answer = async |node: &str, phase: &str, message: &str| {
        let enactment = cluster.wait_granted(node, "br1").await;
        let kind = kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT;
        let name = format!("{node}.br1");
        let status = json!({
            "observedGeneration": enactment["metadata"]["generation"],
            "policyGeneration": 1, "conditions": condition_of(phase, message)
        });
        say(&cluster, kind, &name, status).await;
    };
    tokio::join!(
        answer("node-1", "Available", "successfully reconciled"),
        answer("node-2", "Failing", "no such port: eth7"),
    );
    let shown = wait_until("the policy has failed", async || {
        match weft(&cluster, &["status", "nncp/br1"]).await {
            run if run.stdout.contains("br1: Degraded") => Ok(run),
            run => Err(format!("{run:?}")),
        }
    })
    .await
    .ended(3);
    for line in [
        "(2 nodes: 1 finished, 1 failed, generation 1)",
        "│ 1/2 nodes failed to configure",
        "│ node-2 failed: no such port: eth7",
    ] {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    assert!(!shown.stdout.contains("NMState nmstate"), "{shown:?}");

    let problems = weft(&cluster, &["status", "--problems"]).await.ended(3);
    assert!(
        problems.stdout.contains("no such port: eth7")
            && problems
                .stdout
                .contains("node node-2: Failing Because: cannot read the links")
            && !problems.stdout.contains("node-1")
            && !problems.stdout.contains("NMState nmstate"),
        "{problems:?}"
    );
    let json = weft(&cluster, &["status", "-o", "json"])
        .await
        .ended(3)
        .json();
    assert_eq!(json["verdict"], "Unhealthy");
    let domain = &json["domains"][0];
    assert_eq!(
        domain["policies"][0]["failures"],
        json!([{"node": "node-2", "message": "no such port: eth7"}])
    );
    assert_eq!(domain["nodes"][1]["healthy"], false);
    assert_eq!(
        json["notInstalled"],
        json!(["addons", "cluster-network", "placement"])
    );

    let mistyped = weft(&cluster, &["status", "nncp/br2"]).await.ended(1);
    assert!(
        mistyped
            .stdout
            .contains("there is no NodeNetworkConfigurationPolicy br2; did you mean \"br1\"?"),
        "{mistyped:?}"
    );
    let kind = weft(&cluster, &["status", "nncpp/br1"]).await.ended(2);
    assert!(kind.stderr.contains("did you mean \"nncp\"?"), "{kind:?}");

    // A user with `view` sees the same.
    let viewer = viewer(&cluster).await;
    wait_until(
        "Kubernetes has added the roles to view",
        async || match run(&viewer, &["status", "--problems"], "").await {
            run if run.code == 3 && run.stdout == problems.stdout => Ok(()),
            run => Err(format!("{run:?}, {problems:?}")),
        },
    )
    .await;

    // All is well again.
    let name = "node-2.br1";
    let kind = kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT;
    let conditions = condition_of("Available", "successfully reconciled");
    say(&cluster, kind, name, json!({"conditions": conditions})).await;
    let conditions = condition_of("Available", "reported");
    let status = json!({"conditions": conditions});
    say(&cluster, kinds::NODE_NETWORK_STATE, "node-2", status).await;
    let well = weft(&cluster, &["status", "--wait", "--problems"])
        .await
        .ended(0);
    assert!(
        well.stdout
            .contains("no problems: everything is as the configuration asks"),
        "{well:?}"
    );

    // A card has an address that KubeMacPool may give to a pod.
    let range = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kubemacpool-mac-range-config", "namespace": "default"},
        "data": {"RANGE_START": "02:00:00:00:00:00", "RANGE_END": "02:00:00:00:00:ff"}
    });
    cluster.apply(&range.to_string()).await;
    let card = json!({"name": "eth1", "type": "ethernet", "mac-address": "02:00:00:00:00:07"});
    let status = json!({"currentState": {"interfaces": [card]}});
    say(&cluster, kinds::NODE_NETWORK_STATE, "node-2", status).await;
    let noted = weft(&cluster, &["status", "--problems"]).await.ended(0);
    assert!(
        noted
            .stdout
            .contains("node node-2: MAC addresses in the range of KubeMacPool")
            && noted.stdout.contains(": eth1 (02:00:00:00:00:07);"),
        "{noted:?}"
    );

    // The definition of policies is gone, and then the operator.
    cluster
        .kubectl(&[
            "delete",
            "crd",
            "nodenetworkconfigurationenactments.nmstate.io",
        ])
        .await;
    let missing = weft(&cluster, &["status"]).await.ended(3);
    assert!(
        missing.stdout.contains(
            "the cluster does not know NodeNetworkConfigurationEnactment (nmstate.io/v1beta1)"
        ),
        "{missing:?}"
    );
    cluster
        .kubectl(&["-n", "nmstate", "delete", "deployment", "nmstate-operator"])
        .await;
    operator.terminate().await;
    let gone = weft(&cluster, &["status"]).await.ended(3);
    assert!(
        gone.stdout.contains(
            "no operator of Weft is installed for node-network; install it: weft manifests --domains node-network"
        ),
        "{gone:?}"
    );
}
