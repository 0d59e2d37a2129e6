//! Policies from node to node: limits, failures, and what happens to nodes, users and the operator
//! meanwhile. The agents' side of the contract is played, with the agents' own rights.

use std::collections::BTreeSet;

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{agents::*, nmstate, start};
use crate::system::{harness::*, install};

const NODES: [&str; 4] = ["node-1", "node-2", "node-3", "node-4"];

fn policy(name: &str, bridge: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {{name: {name}}}, spec: {{desiredState: {{interfaces: [{{name: {bridge}, type: linux-bridge, state: up}}]}}, {spec}}}}}"
    )
}

/// A cluster with an agent on each of four nodes, of which all may be changed at once as far as the
/// cluster is concerned.
async fn with_agents() -> (Cluster, Agents, Proxy, Operator) {
    let cluster = start(NODES.len()).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .apply(&nmstate("nmstate", &json!({"maxUnavailable": "100%"})))
        .await;
    cluster.wait_available().await;
    let agents = Agents::of(&cluster, &NODES).await;
    (cluster, agents, proxy, operator)
}

/// The agents act until a policy has come to this. Never are more of its nodes changed at once than
/// these.
pub async fn act_until(
    cluster: &Cluster,
    agents: &Agents,
    policy: &str,
    at_once: usize,
    phase: &str,
    message: &str,
) {
    wait_until(&format!("{policy} is {phase}: {message}"), async || {
        let now = in_flux(cluster, policy).await;
        assert!(now.len() <= at_once, "{now:?} are changed at once");
        agents.act(cluster, &[]).await;
        let live = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", policy)
            .await
            .ok_or("it is not there")?;
        let said = condition(&live["status"], phase);
        let right = said["status"] == "True"
            && said["observedGeneration"] == live["metadata"]["generation"]
            && said["message"] == message;
        if right {
            Ok(())
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await;
}

#[tokio::test]
async fn a_policy_goes_from_node_to_node_within_its_limit() {
    let (cluster, agents, proxy, operator) = with_agents().await;
    cluster
        .apply(&policy("br1", "br1", "maxUnavailable: 1"))
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Granted 1"),
            ("node-2", "Pending 1"),
            ("node-3", "Pending 1"),
            ("node-4", "Pending 1"),
        ],
    )
    .await;
    wait_says(
        &cluster,
        "br1",
        "Progressing",
        "Policy is progressing 0/4 nodes finished",
    )
    .await;
    let first = enactment(&cluster, "node-1", "br1").await.unwrap();
    assert_eq!(
        first["metadata"]["labels"],
        json!({"nmstate.io/node": "node-1", "nmstate.io/policy": "br1"})
    );
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(
        first["spec"]["granted"]["spec"]["desiredState"]["interfaces"][0]["name"],
        "br1"
    );
    assert_eq!(first["spec"]["granted"]["generation"], 1);
    act_until(
        &cluster,
        &agents,
        "br1",
        1,
        "Available",
        "4/4 nodes successfully configured",
    )
    .await;
    let writes = cluster.audit().into_iter().filter(|event| {
        event.resource == "nodenetworkconfigurationenactments"
            && event.verb != "watch"
            && event.verb != "list"
            // One that met a conflict is made again.
            && event.code < 300
    });
    assert_eq!(writes.count(), 7, "one where it need not wait, else two");
    install::becomes_idle(&cluster, &proxy).await;

    // The result of the last generation is no answer about a new one.
    cluster
        .apply(&policy("br1", "br2", "maxUnavailable: 2"))
        .await;
    let waited = cluster
        .control_plane
        .kubectl(&[
            "wait",
            "nncp",
            "br1",
            "--for=condition=Available",
            "--timeout=1s",
        ])
        .await;
    assert!(waited.is_err(), "nothing is done yet: {waited:?}");
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Granted 2"),
            ("node-2", "Granted 2"),
            ("node-3", "Pending 2"),
            ("node-4", "Pending 2"),
        ],
    )
    .await;
    let waits = enactment(&cluster, "node-3", "br1").await.unwrap();
    assert_eq!(
        waits["spec"]["granted"]["spec"]["desiredState"]["interfaces"][0]["name"], "br1",
        "it keeps what it has"
    );

    // A node that goes takes its slot along, and so does the operator's memory.
    agents.act(&cluster, &[]).await;
    operator.kill();
    cluster.delete(kinds::NODE, "", "node-1").await;
    let _operator = Operator::start_via(&cluster, &proxy).await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-2", "Granted 2"),
            ("node-3", "Granted 2"),
            ("node-4", "Pending 2"),
        ],
    )
    .await;
    // A newer generation comes first to those that are being changed anyway.
    cluster
        .apply(&policy("br1", "br3", "maxUnavailable: 2"))
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-2", "Granted 3"),
            ("node-3", "Granted 3"),
            ("node-4", "Pending 3"),
        ],
    )
    .await;
    act_until(
        &cluster,
        &agents,
        "br1",
        2,
        "Available",
        "3/3 nodes successfully configured",
    )
    .await;
    cluster
        .kubectl(&[
            "wait",
            "nncp",
            "br1",
            "--for=condition=Available",
            "--timeout=60s",
        ])
        .await;

    // Labels.
    cluster
        .apply(&policy(
            "br1",
            "br3",
            "maxUnavailable: 2, nodeSelector: {zone: a}",
        ))
        .await;
    wait_decisions(&cluster, "br1", &[]).await;
    wait_says(&cluster, "br1", "Ignored", "Policy does not match any node").await;
    cluster
        .kubectl(&["label", "node", "node-2", "zone=a"])
        .await;
    act_until(
        &cluster,
        &agents,
        "br1",
        1,
        "Available",
        "1/1 nodes successfully configured",
    )
    .await;
    cluster.kubectl(&["label", "node", "node-2", "zone-"]).await;
    wait_decisions(&cluster, "br1", &[]).await;
    cluster
        .kubectl(&["delete", "nncp", "br1", "--timeout=60s"])
        .await;
    install::becomes_idle(&cluster, &proxy).await;
}

#[tokio::test]
async fn values_of_a_node_are_granted_and_a_missing_one_holds_up_nobody() {
    let (cluster, agents, proxy, _operator) = with_agents().await;
    for node in &NODES[..3] {
        let address = format!("example.com/ip=192.0.2.{}", &node[5..]);
        cluster.kubectl(&["annotate", "node", node, &address]).await;
    }
    cluster
        .apply(
            r#"
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: storage}
spec:
  maxUnavailable: 1
  desiredState:
    interfaces:
    - name: eth1
      description: storage of {{ node.name }}
      ipv4: {enabled: true, address: [{ip: '{{ node.annotations["example.com/ip"] }}', prefix-length: 24}]}
"#,
        )
        .await;
    act_until(
        &cluster,
        &agents,
        "storage",
        1,
        "Progressing",
        "Policy is progressing 3/4 nodes finished",
    )
    .await;
    let granted = async |node: &str| {
        let enactment = enactment(&cluster, node, "storage").await.unwrap();
        enactment["spec"]["granted"]["values"].clone()
    };
    assert_eq!(
        granted("node-2").await,
        json!({"name": "node-2", "annotations": {"example.com/ip": "192.0.2.2"}})
    );
    let waits = enactment(&cluster, "node-4", "storage").await.unwrap();
    assert_eq!(
        waits["spec"]["wanted"]["waits"]["reason"],
        "WaitingForValue"
    );
    assert!(waits["spec"]["granted"].is_null());
    let message = "node-4: spec.desiredState.interfaces[0].ipv4.address[0].ip: {{ node.annotations[\"example.com/ip\"] }} has no value, because the node node-4 has no annotation example.com/ip of at most 256 bytes: set it with kubectl annotate node node-4 example.com/ip=VALUE, or exclude the node with spec.nodeSelector";
    wait_says(&cluster, "storage", "ValueMissing", message).await;
    install::becomes_idle(&cluster, &proxy).await;

    cluster
        .kubectl(&["annotate", "node", "node-4", "example.com/ip=192.0.2.4"])
        .await;
    cluster
        .kubectl(&[
            "annotate",
            "--overwrite",
            "node",
            "node-1",
            "example.com/ip=192.0.2.11",
        ])
        .await;
    act_until(
        &cluster,
        &agents,
        "storage",
        1,
        "Available",
        "4/4 nodes successfully configured",
    )
    .await;
    assert_eq!(
        granted("node-1").await["annotations"]["example.com/ip"],
        "192.0.2.11"
    );
    install::becomes_idle(&cluster, &proxy).await;
}

/// The agent announced until when it would act, was granted a change, and was killed. It has no pod
/// whose end would show that.
#[tokio::test]
async fn an_agent_on_demand_that_never_began_keeps_its_slot_until_it_expires() {
    let cluster = start(2).await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .kubectl(&["label", "node", "node-2", "agent=always"])
        .await;
    cluster
        .apply(&nmstate(
            "nmstate",
            &json!({"maxUnavailable": "100%", "nodeSelector": {"agent": "always"}}),
        ))
        .await;
    cluster.wait_available().await;
    let announce = async |seconds: i64| {
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let state = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState",
            "metadata": {"name": "node-1", "annotations": {"weft.network/agent-until": until}}
        });
        cluster.apply(&state.to_string()).await;
    };
    cluster
        .kubectl(&["label", "node", "node-1", "agent=sometimes"])
        .await;
    announce(10).await;
    cluster
        .apply(&policy(
            "br1",
            "br1",
            "maxUnavailable: 1, nodeSelector: {agent: sometimes}",
        ))
        .await;
    wait_until("node-1 is granted", async || {
        // The time that it announced may be over before the operator sees the policy.
        announce(10).await;
        let now = decisions(&cluster, "br1").await;
        let is_granted = now
            .get("node-1")
            .is_some_and(|decision| decision == "Granted 1");
        if is_granted && now.len() == 1 {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    cluster
        .apply(&policy("br1", "br1", "maxUnavailable: 1"))
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[("node-1", "Pending 2"), ("node-2", "Granted 2")],
    )
    .await;
    let agents = Agents::of(&cluster, &["node-2"]).await;
    act_until(
        &cluster,
        &agents,
        "br1",
        1,
        "Available",
        "1/1 nodes successfully configured",
    )
    .await;
    // Its next run.
    announce(300).await;
    wait_decisions(
        &cluster,
        "br1",
        &[("node-1", "Granted 2"), ("node-2", "Granted 2")],
    )
    .await;
}

#[tokio::test]
async fn a_node_that_is_not_managed_holds_up_nobody() {
    let (cluster, agents, proxy, _operator) = with_agents().await;
    let managed = |node: &str, managed: bool| {
        json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": node},
            "spec": {"managed": managed}
        })
        .to_string()
    };
    cluster.apply(&managed("node-1", false)).await;
    cluster
        .apply(&policy("br1", "br1", "maxUnavailable: 1, onDelete: revert"))
        .await;
    act_until(
        &cluster,
        &agents,
        "br1",
        1,
        "Available",
        "3/3 nodes successfully configured, 1 nodes ignored that are not managed",
    )
    .await;
    // A node that was granted a change, and whose agent may not begin any more.
    cluster
        .apply(&policy("br1", "br2", "maxUnavailable: 1, onDelete: revert"))
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-2", "Granted 2"),
            ("node-3", "Pending 2"),
            ("node-4", "Pending 2"),
        ],
    )
    .await;
    cluster.apply(&managed("node-2", false)).await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-2", "Granted 2"),
            ("node-3", "Granted 2"),
            ("node-4", "Pending 2"),
        ],
    )
    .await;
    wait_says(
        &cluster,
        "br1",
        "Progressing",
        "Policy is progressing 0/2 nodes finished, 2 nodes ignored that are not managed",
    )
    .await;
    cluster.apply(&managed("node-1", true)).await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Pending 2"),
            ("node-2", "Granted 2"),
            ("node-3", "Granted 2"),
            ("node-4", "Pending 2"),
        ],
    )
    .await;
    let others = ["node-1", "node-3", "node-4"];
    let acting = Agents::of(&cluster, &others).await;
    wait_until("it is done on the others", async || {
        acting.act(&cluster, &[]).await;
        let mut done = 0;
        for node in others {
            let status = enactment(&cluster, node, "br1")
                .await
                .ok_or("it is not there")?["status"]
                .clone();
            done += usize::from(condition(&status, "Available")["status"] == "True");
        }
        if done == others.len() {
            Ok(())
        } else {
            Err(done.to_string())
        }
    })
    .await;
    wait_says(
        &cluster,
        "br1",
        "Available",
        "3/3 nodes successfully configured, 1 nodes ignored that are not managed",
    )
    .await;
    // It does not wait for a node where nobody may put anything back.
    cluster
        .kubectl(&["delete", "nncp", "br1", "--wait=false"])
        .await;
    wait_until("the policy is gone", async || {
        acting.act(&cluster, &[]).await;
        let live = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
            .await;
        live.map_or(Ok(()), |live| Err(format!("{:#}", live["status"])))
    })
    .await;
    wait_decisions(&cluster, "br1", &[]).await;
    install::becomes_idle(&cluster, &proxy).await;
}

#[tokio::test]
async fn a_failure_ends_a_try_and_the_next_one_begins_anew() {
    let (cluster, agents, _proxy, operator) = with_agents().await;
    cluster
        .apply(&policy("br1", "br1", "maxUnavailable: 1"))
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Granted 1"),
            ("node-2", "Pending 1"),
            ("node-3", "Pending 1"),
            ("node-4", "Pending 1"),
        ],
    )
    .await;
    wait_until(
        "it has failed on the first node, and is let be on the others",
        async || {
            agents.act(&cluster, &["node-1"]).await;
            let aborted = decisions(&cluster, "br1")
                .await
                .values()
                .filter(|decision| *decision == "Aborted 1")
                .count();
            if aborted == 3 {
                Ok(())
            } else {
                Err(format!("{aborted}"))
            }
        },
    )
    .await;
    wait_says(
        &cluster,
        "br1",
        "Degraded",
        "1/4 nodes failed to configure, 3 nodes aborted configuration",
    )
    .await;
    wait_until("an event tells why", async || {
        let events = cluster
            .kubectl(&[
                "get",
                "events.v1.events.k8s.io",
                "-n",
                "default",
                "-o",
                "jsonpath={range .items[*]}{.reason} {.note}{\"\\n\"}{end}",
            ])
            .await;
        let told = events.lines().any(|line| {
            line.starts_with("ReconcileFailed ")
                && line.contains("node-1: interfaces[br1]: no such device")
        });
        if told { Ok(()) } else { Err(events) }
    })
    .await;
    wait_until("metrics tell", async || {
        let (_, _, text) = operator.http("/metrics").await;
        let all = [
            "kubernetes_nmstate_policies_status{status=\"Degraded\"} 1",
            "kubernetes_nmstate_enactments_status{node=\"node-1\",status=\"Failing\"} 1",
        ];
        if all.iter().all(|line| text.contains(line)) {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;

    // Asked to, it is tried again.
    cluster
        .kubectl(&["annotate", "nncp", "br1", "weft.network/retry=1"])
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Granted 1"),
            ("node-2", "Pending 1"),
            ("node-3", "Pending 1"),
            ("node-4", "Pending 1"),
        ],
    )
    .await;
    act_until(
        &cluster,
        &agents,
        "br1",
        1,
        "Available",
        "4/4 nodes successfully configured",
    )
    .await;
    let (_, _, text) = operator.http("/metrics").await;
    assert!(
        text.contains("kubernetes_nmstate_features_applied{name=\"static-route\"} 1"),
        "{text}"
    );

    // A node's network counts as its agent reports it, and not at all without a report.
    cluster.apply(&json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": "node-1"}
    }).to_string()).await;
    let route =
        |destination: &str| json!({"destination": destination, "next-hop-interface": "eth0"});
    let state = json!({"interfaces": [
        {"name": "eth0", "type": "ethernet"}, {"name": "eth1", "type": "ethernet"}
    ],
        "routes": {
            "config": [route("0.0.0.0/0")],
            "running": [route("0.0.0.0/0"), route("192.0.2.0/24"), route("fe80::/64")]
        }});
    let incomplete = json!([{
        "type": "RollbackIncomplete", "status": "True", "reason": "NotRestored", "message": "eth1.mtu"
    }]);
    let status = json!({"status": {"currentState": state, "conditions": incomplete}}).to_string();
    cluster
        .kubectl(&[
            "patch",
            "nns",
            "node-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ])
        .await;
    let lines = |text: &str, name: &str| {
        text.lines()
            .filter(|line| line.starts_with(name))
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    wait_until("metrics count what the node has", async || {
        let (_, _, text) = operator.http("/metrics").await;
        let interfaces = lines(&text, "kubernetes_nmstate_network_interfaces{");
        if interfaces
            == BTreeSet::from([
                "kubernetes_nmstate_network_interfaces{type=\"ethernet\",node=\"node-1\"} 2"
                    .to_owned(),
            ])
            && text.contains("weft_node_rollback_incomplete{node=\"node-1\"} 1")
        {
            return Ok(());
        }
        Err(format!("{interfaces:#?}"))
    })
    .await;
    let (_, _, text) = operator.http("/metrics").await;
    let routes = [
        ("ipv4", "dynamic", 1),
        ("ipv4", "static", 1),
        ("ipv6", "dynamic", 1),
        ("ipv6", "static", 0),
    ];
    let routes =
        routes.map(|(stack, of, count)| format!("kubernetes_nmstate_routes{{node=\"node-1\",ip_stack=\"{stack}\",type=\"{of}\"}} {count}"));
    assert_eq!(
        lines(&text, "weft_node_rollback_incomplete{"),
        BTreeSet::from(["weft_node_rollback_incomplete{node=\"node-1\"} 1".to_owned()])
    );
    assert_eq!(
        lines(&text, "kubernetes_nmstate_routes{"),
        BTreeSet::from(routes),
        "{text}"
    );
}

#[tokio::test]
async fn changes_of_a_policy_are_put_back_before_it_goes() {
    let (cluster, agents, _proxy, _operator) = with_agents().await;
    cluster
        .apply(&policy("br1", "br1", "maxUnavailable: 2, onDelete: revert"))
        .await;
    act_until(
        &cluster,
        &agents,
        "br1",
        2,
        "Available",
        "4/4 nodes successfully configured",
    )
    .await;
    cluster
        .delete(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Revert 2"),
            ("node-2", "Revert 2"),
            ("node-3", "Granted 1"),
            ("node-4", "Granted 1"),
        ],
    )
    .await;
    wait_says(
        &cluster,
        "br1",
        "Progressing",
        "The policy is being deleted: 4 nodes have yet to put back what it changed",
    )
    .await;
    wait_until("all nodes but one have", async || {
        agents.act(&cluster, &["node-4"]).await;
        let left = decisions(&cluster, "br1").await;
        if left.len() == 1 && in_flux(&cluster, "br1").await.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
    let told = "The policy is being deleted: 1/1 nodes failed to put back what it changed. To delete the policy and keep what it changed there, set spec.onDelete to retain";
    wait_says(&cluster, "br1", "Degraded", told).await;
    cluster
        .patch(
            kinds::NODE_NETWORK_CONFIGURATION_POLICY,
            "",
            "br1",
            json!({"spec": {"onDelete": "retain"}}),
        )
        .await;
    wait_until("it is gone, and all of it", async || {
        let gone = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
            .await
            .is_none();
        let left = enactments(&cluster).await;
        if gone && left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_only_weft_refuses_is_degraded_and_reaches_no_node() {
    let (cluster, agents, _proxy, _operator) = with_agents().await;
    // The API server takes it: what stands in a desired state its rules cannot say.
    let of = |state: &str| {
        format!(
            "{{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {{name: mtu}}, spec: {{desiredState: {state}}}}}"
        )
    };
    cluster
        .apply(&of(
            "{interfaces: [{name: eth1, type: ethernet, mut: 9000}]}",
        ))
        .await;
    let refused = "The policy is refused, and no node gets it: ";
    let unknown =
        "spec.desiredState.interfaces[0].mut: nmstate knows no \"mut\" here; did you mean \"mtu\"?";
    wait_says(&cluster, "mtu", "Degraded", &format!("{refused}{unknown}")).await;
    let shown = cluster
        .kubectl(&["get", "nncp", "mtu", "--no-headers"])
        .await;
    assert!(
        shown
            .split_whitespace()
            .eq(["mtu", "Degraded", "FailedToConfigure"]),
        "{shown}"
    );
    cluster
        .apply(&of("{interfaces: [{type: ethernet, mtu: 9000}]}"))
        .await;
    let unnamed = "spec.desiredState.interfaces[0].name: is missing: give the interface a name, or let spec.match.interfaces of a policy give it one";
    wait_says(&cluster, "mtu", "Degraded", &format!("{refused}{unnamed}")).await;
    assert_eq!(enactments(&cluster).await.len(), 0);

    cluster
        .apply(&of(
            "{interfaces: [{name: eth1, type: ethernet, mtu: 9000}]}",
        ))
        .await;
    act_until(
        &cluster,
        &agents,
        "mtu",
        2,
        "Available",
        "4/4 nodes successfully configured",
    )
    .await;
    // The nodes keep their state while the operator refuses a later one.
    let before = decisions(&cluster, "mtu").await;
    cluster
        .apply(&of(
            "{interfaces: [{name: eth1, type: ethernet, mtu: many}]}",
        ))
        .await;
    wait_until("it is refused", async || {
        let live = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "mtu")
            .await
            .unwrap();
        let said = condition(&live["status"], "Degraded");
        let right = said["observedGeneration"] == live["metadata"]["generation"]
            && said["message"]
                .as_str()
                .is_some_and(|text| text.contains("spec.desiredState.interfaces[0]"));
        if right { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
    assert_eq!(decisions(&cluster, "mtu").await, before);
}
