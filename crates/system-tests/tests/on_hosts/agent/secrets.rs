//! Secrets that policies name: read on the node, and seen nowhere else.

use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation, Program, agent};

use crate::on_hosts::agent::support::{
    condition, interface, link, reported, wait_enactment, wait_policy, wait_reported, wait_until,
};

const FIRST: &str = "hunter2-first";
const SECOND: &str = "hunter2-second";

/// nmstate hides passwords by itself. This property it does not, so that it must be Weft that hides
/// it, and every kernel has it.
fn policy(key: &str) -> String {
    let description = json!({"secretRef": {"name": "wire", "key": key}});
    json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": "wire"}, "spec": {"desiredState":
        {
            "interfaces": [
                {
                    "name": "eth1", "type": "ethernet", "state": "up", "description": description,
                    "ipv4": {"enabled": false}, "ipv6": {"enabled": false}
                }
            ]
        }}})
    .to_string()
}

async fn retry(weft: &Installation, value: &str) {
    weft.patch(
        "nncp",
        "wire",
        &json!({"metadata": {"annotations": {"weft.network/retry": value}}}),
    )
    .await
    .unwrap();
}

async fn wait_failed(weft: &Installation) -> Value {
    wait_until("it is given up", async || {
        let enactment = wait_enactment(weft, "node-1", "wire", "Failing").await;
        if condition(&enactment, "Progressing")["status"] == "False" {
            Ok(enactment)
        } else {
            Err(enactment["status"].to_string())
        }
    })
    .await
}

async fn wait_on_host(weft: &Installation, value: &str) {
    wait_until("the value is on the host", async || {
        let found = weft
            .host("node-1")
            .unwrap()
            .exec(&[
                "grep",
                "-r",
                value,
                "/etc/NetworkManager/system-connections",
            ])
            .await;
        found.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await;
}

/// All that anybody but root on the node gets to see.
async fn everything_told(weft: &Installation, agent: &Program) -> String {
    let mut told = weft
        .lab()
        .kubectl(&[
            "get",
            "nncp,nnce,nns,nmstate,events",
            "-A",
            "-o",
            "json",
            "--show-managed-fields",
        ])
        .await
        .unwrap();
    told += &std::fs::read_to_string(agent.log()).unwrap();
    told += &weft.operator_log();
    let program = agent::program().unwrap().display().to_string();
    told += &weft
        .host("node-1")
        .unwrap()
        .exec(&[&program, "history", "-o", "json"])
        .await
        .unwrap();
    told
}

fn reads(weft: &Installation) -> usize {
    let events = weft.lab().control_plane().audit_events().unwrap();
    events
        .iter()
        .filter(|event| event.resource == "secrets" && event.user.ends_with(":nmstate-handler"))
        .count()
}

#[tokio::test]
async fn a_secret_is_read_on_the_node_and_seen_nowhere_else() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let variables = [
        ("NNCP_MAX_RETRIES", "2"),
        ("LOG_LEVEL", "debug"),
        ("WEFT_AGENT_PROBE_SECONDS", "5"),
    ];
    let mut agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    weft.apply(&policy("first")).await.unwrap();
    let failed = wait_failed(&weft).await;
    let message = condition(&failed, "Failing")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("there is no key first in the Secret wire of the agent's namespace"),
        "{message}"
    );

    // With the Secret but not the key, it is the same.
    let secret = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "wire", "namespace": agent::NAMESPACE}, "stringData": data
        })
        .to_string()
    };
    weft.apply(&secret(json!({"second": SECOND})))
        .await
        .unwrap();
    retry(&weft, "1").await;
    let failed = wait_failed(&weft).await;
    assert!(
        condition(&failed, "Failing")["message"]
            .as_str()
            .unwrap()
            .contains("no key first"),
        "{}",
        failed["status"]
    );

    weft.apply(&secret(json!({"first": FIRST, "second": SECOND})))
        .await
        .unwrap();
    retry(&weft, "2").await;
    wait_enactment(&weft, "node-1", "wire", "Available").await;
    wait_on_host(&weft, FIRST).await;
    // A policy that differs in nothing but the secret is carried out as well.
    weft.apply(&policy("second")).await.unwrap();
    wait_on_host(&weft, SECOND).await;
    wait_enactment(&weft, "node-1", "wire", "Available").await;

    // Looks at the host, and a new start, need no secret. None reports it, also when its policy is
    // gone.
    let (before, host) = (reads(&weft), weft.host("node-1").unwrap());
    for mtu in [1300, 1350] {
        host.ip(&format!("link set eth2 mtu {mtu}\n"))
            .await
            .unwrap();
        wait_reported(&weft, "node-1", "eth2", |eth2| eth2["mtu"] == mtu).await;
    }
    let told = everything_told(&weft, &agent).await;
    agent.kill().unwrap();
    let agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    weft.lab()
        .kubectl(&["delete", "nncp", "wire", "--timeout=300s"])
        .await
        .unwrap();
    for mtu in [1400, 1450] {
        host.ip(&format!("link set eth2 mtu {mtu}\n"))
            .await
            .unwrap();
        wait_reported(&weft, "node-1", "eth2", |eth2| eth2["mtu"] == mtu).await;
    }
    assert_eq!(reads(&weft), before);
    for told in [told, everything_told(&weft, &agent).await] {
        assert!(told.contains("eth1") && told.contains("wire"), "{told}");
        // The history of the node, in its NodeNetworkState and of the command.
        let hidden = "~ interfaces[eth1].description: <_password_hid_by_nmstate> -> <_password_hid_by_nmstate>";
        let told = told.replace("\\u003c", "<").replace("\\u003e", ">");
        assert_eq!(told.matches(hidden).count(), 2, "{told}");
        let line = told.lines().find(|line| line.contains("hunter2"));
        assert_eq!(line, None);
    }
    assert_eq!(
        interface(&reported(&weft, "node-1").await.unwrap(), "eth1")["description"],
        "<_password_hid_by_nmstate>"
    );
    wait_on_host(&weft, SECOND).await;
}

/// The NodeNetworkState reports missing Secrets of the node's own desired state, and no policy
/// fails.
#[tokio::test]
async fn a_missing_secret_of_the_nodes_own_state_fails_no_policy() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let eth1 = json!({
        "interfaces": [
            {
                "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1400,
                "ipv4": {"enabled": false}, "ipv6": {"enabled": false}
            }
        ]
    });
    let missing = json!({"secretRef": {"name": "nowhere", "key": "first"}});
    for (name, own, told) in [
        (
            "beside-a-secret",
            json!({"name": "eth2", "description": missing}),
            "there is no key first in the Secret nowhere",
        ),
        (
            "beside-a-card",
            json!({"name": "eth77", "type": "ethernet", "state": "up"}),
            "eth77",
        ),
    ] {
        let state = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState",
            "metadata": {"name": "node-1"}, "spec": {"desiredState": {"interfaces": [own]}}
        });
        weft.apply(&state.to_string()).await.unwrap();
        let policy = json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
            "spec": {"onDelete": "revert", "desiredState": eth1}});
        weft.apply(&policy.to_string()).await.unwrap();
        wait_until("the policy is granted", async || {
            let enactment = weft
                .get("nnce", &format!("node-1.{name}"))
                .await
                .unwrap()
                .unwrap_or_default();
            if enactment["spec"]["granted"].is_object() {
                Ok(())
            } else {
                Err(enactment.to_string())
            }
        })
        .await;
        // Both are there when it begins, so they are one transaction.
        let mut agent = weft
            .run_agent(
                "node-1",
                &[],
                &[("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")],
            )
            .await
            .unwrap();
        wait_policy(&weft, name, "Available").await;
        wait_until("the node's state says what is missing", async || {
            let state = weft.get("nns", "node-1").await.unwrap().unwrap();
            let failing = condition(&state, "Failing");
            let message = failing["message"].as_str().unwrap_or_default();
            if failing["status"] == "True" && message.contains(told) {
                Ok(())
            } else {
                Err(state["status"]["conditions"].to_string())
            }
        })
        .await;
        assert_eq!(
            link(weft.host("node-1").unwrap(), "eth1").await["mtu"],
            1400
        );
        weft.lab()
            .kubectl(&["delete", "nncp", name, "--timeout=300s"])
            .await
            .unwrap();
        agent.kill().unwrap();
    }
}
