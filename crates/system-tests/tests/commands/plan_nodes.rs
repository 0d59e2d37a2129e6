//! `weft plan` of policies for nodes' networks, by the NodeNetworkStates of a cluster.

use serde_json::{Value, json};
use weft_plan::kinds;

use crate::commands::{harness::*, user::*};

/// A policy for `eth1`.
fn policy(name: &str, spec: &str, mtu: u32) -> String {
    format!(
        "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {{name: {name}}}\nspec:\n{spec}  desiredState: {{interfaces: [{{name: eth1, type: ethernet, state: up, mtu: {mtu}}}]}}\n"
    )
}

/// Starts a cluster for node-network with two nodes, without a NodeNetworkState.
async fn cluster() -> Cluster {
    let options = ClusterOptions {
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    };
    Cluster::start(options).await
}

/// Writes a NodeNetworkState with an `eth1` for both nodes, and puts the first one into rack r1.
async fn tell(cluster: &Cluster) {
    cluster
        .kubectl(&["label", "node", "node-1", "rack=r1"])
        .await;
    for node in ["node-1", "node-2"] {
        cluster.apply(&json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": node}
        }).to_string()).await;
        let status = json!({
            "status": {
                "currentState": {
                    "interfaces": [
                        {
                            "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500,
                            "ifIndex": 3
                        }
                    ]
                }
            }
        });
        cluster
            .kubectl(&[
                "patch",
                "nns",
                node,
                "--subresource=status",
                "--type=merge",
                "-p",
                &status.to_string(),
            ])
            .await;
    }
}

async fn plan(cluster: &Cluster, text: &str, more: &[&str], code: i32) -> Run {
    weft_reading(cluster, &[&["plan", "-f", "-"], more].concat(), text)
        .await
        .ended(code)
}

#[tokio::test]
async fn the_changes_of_policies_are_listed_for_each_node() {
    let cluster = cluster().await;
    let nobody = plan(&cluster, &policy("mtu", "", 9000), &[], 2).await;
    assert!(
        nobody.stderr.contains("no node reports its network yet"),
        "{}",
        nobody.stderr
    );
    tell(&cluster).await;

    let rack = policy("mtu", "  nodeSelector: {rack: r1}\n", 9000);
    let run = plan(&cluster, &rack, &[], 1).await;
    assert_eq!(
        run.stdout,
        "node-1\n  ~ interfaces[eth1].mtu: 1500 -> 9000\n\nnode-2\n  is not selected\n  note: policy mtu is not for this node: spec.nodeSelector wants the label rack=r1, and the node has no such label\n"
    );
    let same = plan(&cluster, &policy("mtu", "", 1500), &[], 0).await;
    assert_eq!(
        same.stdout.matches("nothing would change").count(),
        2,
        "{}",
        same.stdout
    );

    // Several in one file, and with those that are there already. The node's own state counts most.
    let both = format!(
        "{}---\n{}",
        policy("low", "", 1400),
        policy("high", "  priority: 1\n  nodeSelector: {rack: r1}\n", 9000)
    );
    let run = plan(&cluster, &both, &["-o", "json"], 1).await.json();
    let changes = |node: usize| run["nodes"][node]["changes"].clone();
    assert_eq!(
        (&changes(0)[0]["to"], &changes(1)[0]["to"]),
        (&json!(9000), &json!(1400)),
        "{run:#}"
    );
    cluster.apply(&policy("there", "", 1300)).await;
    let conflict = plan(&cluster, &policy("mtu", "", 9000), &[], 1).await;
    assert!(
        conflict.stdout.contains("! interfaces[eth1].mtu: policy mtu wants 9000, policy there wants 1300, and their priority is the same"),
        "{}",
        conflict.stdout
    );
    let own = json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": "node-2"},
    "spec": {
        "desiredState": {
            "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500}]
        }
    }});
    let run = plan(&cluster, &own.to_string(), &[], 1).await;
    assert!(
        run.stdout
            .contains("node-1\n  ~ interfaces[eth1].mtu: 1500 -> 1300")
            && run.stdout.ends_with("node-2\n  nothing would change\n"),
        "{}",
        run.stdout
    );
    let deleted = plan(&cluster, &policy("there", "", 1300), &["--delete"], 0).await;
    assert!(
        deleted
            .stderr
            .contains("policy there: what it has configured stays on the nodes"),
        "{}",
        deleted.stderr
    );

    // Another tool applies the same file on the server. Fields that others have added stay.
    cluster
        .control_plane
        .kubectl_with_input(
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=kustomize-controller",
                "-f",
                "-",
            ],
            &policy("there", "", 1300),
        )
        .await
        .unwrap();
    let selector = json!({"spec": {"nodeSelector": {"rack": "r1"}}}).to_string();
    cluster
        .kubectl(&["patch", "nncp", "there", "--type=merge", "-p", &selector])
        .await;
    let run = plan(&cluster, &policy("there", "", 1300), &[], 1).await;
    assert!(
        run.stdout
            .contains("node-1\n  ~ interfaces[eth1].mtu: 1500 -> 1300")
            && run.stdout.contains("node-2\n  is not selected"),
        "{}",
        run.stdout
    );

    // Only what was applied is there.
    assert_eq!(
        cluster.kubectl(&["get", "nncp", "-o", "name"]).await.trim(),
        "nodenetworkconfigurationpolicy.nmstate.io/there"
    );
    let state: Value = serde_json::from_str(
        &cluster
            .kubectl(&["get", "nns", "node-2", "-o", "json"])
            .await,
    )
    .unwrap();
    assert_eq!(state.get("spec"), None);
}

#[tokio::test]
async fn refusals_of_a_plan_name_field_value_rule_and_way_out() {
    let cluster = cluster().await;
    tell(&cluster).await;
    for (spec, told) in [
        (
            "  maxUnavailable: half\n",
            "spec.maxUnavailable: must be a number of nodes, for example 3, or a share of them, for example 50%",
        ),
        ("  onDelete: keep\n", "spec.onDelete"),
        (
            "  autoConfig: {autoBonding: true}\n",
            "spec.autoConfig: autoBonding needs match.interfaces.lldp.vlan-ids: list the VLANs",
        ),
        (
            "  match: {interfaces: {type: ethernet}}\n",
            "with spec.match",
        ),
    ] {
        let run = plan(&cluster, &policy("mtu", spec, 9000), &[], 2).await;
        assert!(run.stderr.contains(told), "{told}: {}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    let unknown = "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {name: mtu}\nspec: {desiredState: {interfaces: [{name: eth1, mut: 9000}]}}\n";
    let run = plan(&cluster, unknown, &[], 2).await;
    assert!(
        run.stderr.contains("spec.desiredState.interfaces[0].mut: nmstate knows no \"mut\" here; did you mean \"mtu\"?"),
        "{}",
        run.stderr
    );
    let stranger = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": "node-9"},
        "spec": {"desiredState": {}}
    });
    let run = plan(&cluster, &stranger.to_string(), &[], 2).await;
    assert!(
        run.stderr
            .contains("nothing is known of the network of a node node-9"),
        "{}",
        run.stderr
    );
}
