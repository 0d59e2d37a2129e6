//! `weft graph` of a cluster, by an admin and by a user with `view`.

use serde_json::json;
use weft_plan::kinds;

use crate::commands::{harness::*, user::*};

/// Adds a node on which no other pod is scheduled, with the report that its agent would write: a
/// bridge over a card.
async fn report(cluster: &Cluster) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "drawn"}, "spec": {"unschedulable": true}});
    cluster.apply(&node.to_string()).await;
    let state = json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": "drawn"}});
    cluster.apply(&state.to_string()).await;
    let status = json!({"status": {"currentState": {"interfaces": [
        {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1500, "bridge": {"port": [{"name": "eth1"}]},
            "ipv4": {"enabled": true, "address": [{"ip": "10.1.0.1", "prefix-length": 24}]}},
        {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "lldp": {"enabled": true, "neighbors": [
            [{"type": 5, "system-name": "leaf-1"}, {"type": 2, "port-id": "Ethernet1/1"}]
        ]}}
    ]}}});
    cluster
        .kubectl(&[
            "patch",
            "nns",
            "drawn",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status.to_string(),
        ])
        .await;
}

/// A pod on a node, with an interface as Multus writes it.
fn pod(name: &str, node: &str) -> String {
    let networks = json!([{"name": "cbr0", "interface": "eth0", "ips": ["10.1.0.7"]}]).to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": name,
            "annotations": {"k8s.v1.cni.cncf.io/network-status": networks}
        },
        "spec": {"nodeName": node, "containers": [{"name": "a", "image": "localhost/none"}]}
    })
    .to_string()
}

#[tokio::test]
async fn the_network_of_a_node_is_drawn_from_the_cluster() {
    let options = ClusterOptions {
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let nothing = weft(&cluster, &["graph"]).await.ended(2);
    assert!(
        nothing.stderr.contains("no node reports its network yet"),
        "{}",
        nothing.stderr
    );
    report(&cluster).await;
    cluster.apply(&pod("web", "drawn")).await;
    cluster.apply(&pod("elsewhere", "node-2")).await;
    cluster.apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: mtu}, spec: {desiredState: {interfaces: [{name: br1, type: linux-bridge, state: up, mtu: 9000}]}}}").await;

    let tree = "\
drawn: … in progress
├─ policies
│  └─ mtu: not applied yet  … in progress
└─ switch leaf-1
   └─ eth1 (ethernet), port Ethernet1/1: up, MTU 1500
      └─ br1 (linux-bridge): up, MTU 1500, 10.1.0.1/24, policy mtu  … will change
         │ mtu: 1500 should be 9000
         └─ pod default/web eth0: network cbr0, 10.1.0.7
";
    let one = weft(&cluster, &["graph", "drawn"]).await.ended(0);
    assert_eq!((one.stdout.as_str(), one.stderr.as_str()), (tree, ""));
    let all = weft(&cluster, &["graph"]).await.ended(0);
    assert!(
        all.stdout.contains("node-2: ? not reported"),
        "{}",
        all.stdout
    );
    // A policy that is not applied is drawn in, and nothing is written.
    let next = |bridge: &str| {
        format!(
            "{{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {{name: next}}, spec: {{desiredState: {{interfaces: [{bridge}]}}}}}}"
        )
    };
    let added = next("{name: br2, type: linux-bridge, state: up, bridge: {port: []}}");
    let refused =
        next("{name: br3, type: linux-bridge, state: up, bridge: {port: [{name: eth99}]}}");
    for (arguments, policy, lines) in [
        (
            &["graph", "drawn", "-f", "-"][..],
            &added,
            &[
                "next: not applied yet  … in progress",
                "br2 (linux-bridge): missing, policy next  + will be added",
            ][..],
        ),
        (
            &["graph", "drawn", "-f", "-"][..],
            &refused,
            &[
                "next: refused  ! failed",
                "br3 (linux-bridge): missing, port eth99 (not reported), policy next  ! failed",
                "bridge.port[eth99]: there is no interface eth99, and none is wanted",
            ][..],
        ),
        (
            &["graph", "-f", "-", "-o", "html"][..],
            &added,
            &[
                "Drawn as if stdin were applied.",
                "class=\"box interface added missing\"",
            ][..],
        ),
    ] {
        let planned = weft_reading(&cluster, arguments, policy).await.ended(0);
        for line in lines {
            assert!(
                planned.stdout.contains(line),
                "{line} in {}",
                planned.stdout
            );
        }
    }
    let same = weft(&cluster, &["graph", "drawn"]).await.ended(0);
    assert_eq!(same.stdout, tree);
    let typo = weft(&cluster, &["graph", "drown"]).await.ended(2);
    assert!(
        typo.stderr.contains("did you mean drawn?"),
        "{}",
        typo.stderr
    );

    // A user with `view` sees the same.
    let viewer = viewer(&cluster).await;
    wait_until(
        "Kubernetes has added the roles to view",
        async || match run(&viewer, &["graph", "drawn"], "").await {
            run if (run.stdout.as_str(), run.stderr.as_str()) == (tree, "") => Ok(()),
            run => Err(format!("{run:?}")),
        },
    )
    .await;
    let writes: Vec<_> = cluster
        .control_plane
        .audit_events()
        .unwrap()
        .into_iter()
        .filter(|event| event.user == "system:serviceaccount:default:viewer")
        .filter(|event| !matches!(event.verb.as_str(), "get" | "list"))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");

    // A user who may read less is shown less, and learns it.
    cluster.kubectl(&["create", "serviceaccount", "few"]).await;
    let few = cluster
        .control_plane
        .service_account_kubeconfig("default", "few")
        .await
        .unwrap();
    let none = run(&few, &["graph"], "").await.ended(2);
    assert!(
        none.stderr.contains("you may not read nodenetworkstates"),
        "{}",
        none.stderr
    );
    for command in [
        &[
            "create",
            "clusterrole",
            "states",
            "--verb=list",
            "--resource=nodenetworkstates.nmstate.io",
        ][..],
        &[
            "create",
            "clusterrolebinding",
            "states",
            "--clusterrole=states",
            "--serviceaccount=default:few",
        ],
    ] {
        cluster.kubectl(command).await;
    }
    wait_until("the user may read states", async || {
        match run(&few, &["graph"], "").await {
            run if run.code == 0 => {
                assert!(
                    run.stdout.starts_with("drawn: = ok\n└─ switch leaf-1"),
                    "{run:?}"
                );
                for kind in ["nodes", "pods", "nodenetworkconfigurationpolicies"] {
                    assert!(
                        run.stderr.contains("not shown, since you may not read it:")
                            && run.stderr.contains(kind),
                        "{run:?}"
                    );
                }
                Ok(())
            }
            run => Err(format!("{run:?}")),
        }
    })
    .await;
}
