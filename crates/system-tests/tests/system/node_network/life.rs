//! From the example to an uninstallation that leaves nothing.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{
    AGENT, NAMESPACE, agent,
    agents::{enactments, wait_decisions},
    nmstate, options, start, variable, wait_agent,
};
use crate::system::{
    cluster_network::{text, weft},
    harness::*,
    install,
};

#[tokio::test]
async fn the_agent_runs_on_all_nodes_follows_its_settings_and_is_removed() {
    let cluster = start(3).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;

    cluster.apply(&example("node-network/nmstate.yaml")).await;
    let resource = cluster.wait_available().await;
    assert_eq!(
        condition(&resource["status"], "Available")["reason"],
        "SuccessfullyDeployed"
    );
    assert_eq!(
        condition(&resource["status"], "Available")["observedGeneration"],
        resource["metadata"]["generation"]
    );
    assert_eq!(
        cluster
            .kubectl(&[
                "get",
                "nmstate",
                "nmstate",
                "--no-headers",
                "-o",
                "custom-columns=:.status.conditions[0].type"
            ])
            .await
            .trim(),
        "Available"
    );
    let live = agent(&cluster).await.unwrap();
    assert_eq!(live["status"]["numberAvailable"], 3);
    assert_eq!(
        live["spec"]["selector"]["matchLabels"],
        json!({"name": AGENT})
    );
    assert_eq!(
        live["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"],
        "10%"
    );
    let pods = cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "get",
            "pods",
            "-l",
            "component=kubernetes-nmstate-handler",
            "-o",
            "name",
        ])
        .await;
    assert_eq!(pods.lines().count(), 3, "{pods}");
    assert_not_warned(&cluster, &proxy);
    install::becomes_idle(&cluster, &proxy).await;
    install::a_pass_writes_nothing(&cluster, &proxy, &operator).await;

    // The agents get a changed setting.
    let change = json!({"spec": {"logLevel": "debug", "nodeSelector": {
        "kubernetes.io/hostname": "node-1"
    }, "tolerations": [{"key": "a", "operator": "Exists"}],
        "probeConfiguration": {"dns": {"host": "example.com"}}, "selfSignConfiguration": {
            "caRotateInterval": "8760h0m0s"
        }}});
    cluster.patch_resource(change).await;
    let resource = cluster.wait_available().await;
    let live = agent(&cluster).await.unwrap();
    assert_eq!(
        (
            variable(&live, "LOG_LEVEL"),
            variable(&live, "PROBE_DNS_HOST")
        ),
        (json!("debug"), json!("example.com"))
    );
    let pod = &live["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["nodeSelector"], &pod["tolerations"][0]["key"]),
        (&json!({"kubernetes.io/hostname": "node-1"}), &json!("a"))
    );
    assert_eq!(live["status"]["desiredNumberScheduled"], 1);
    let told = condition(&resource["status"], "Available")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        told.contains("selfSignConfiguration has no effect"),
        "{told}"
    );

    // The operator refuses an impossible change, and earlier objects stay. Past admission, as an
    // object that was stored before the rule.
    let shown = weft(
        &cluster,
        &["validate", "-f", "-"],
        &nmstate("nmstate", &json!({"logLevel": "trace"})),
    )
    .await;
    assert_eq!(shown.status.code(), Some(1), "{}", text(&shown));
    assert!(text(&shown).contains("spec.logLevel"), "{}", text(&shown));

    // Others' changes are undone.
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            AGENT,
            json!({"spec": {"template": {"spec": {"hostNetwork": false}}}}),
        )
        .await;
    wait_agent(&cluster, "on the hosts' network again", |live| {
        live["spec"]["template"]["spec"]["hostNetwork"] == true
    })
    .await;

    let status = weft(&cluster, &["status", "--domains", "node-network"], "").await;
    assert!(
        status.status.success() && text(&status).contains("nmstate-handler"),
        "{}",
        text(&status)
    );
    let plan = weft(
        &cluster,
        &["plan", "-f", "-"],
        &nmstate("nmstate", &json!({"logLevel": "info"})),
    )
    .await;
    assert!(
        text(&plan).contains("~ DaemonSet nmstate/nmstate-handler"),
        "{}",
        text(&plan)
    );

    // A policy that would be undone on the nodes: with the operator goes whoever answers for its
    // finalizer.
    let policy = json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "br1"}, "spec": {"desiredState": {}, "onDelete": "revert"}});
    cluster.apply(&policy.to_string()).await;
    wait_decisions(&cluster, "br1", &[("node-1", "Granted 1")]).await;
    operator.terminate().await;
    // The reports of agents, and a user's wish for one node.
    for (node, spec) in [
        ("node-1", json!({})),
        ("node-2", json!({"managed": false})),
        ("node-3", Value::Null),
    ] {
        let state = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": node},
            "spec": spec
        });
        cluster.apply(&state.to_string()).await;
    }
    let preview = weft(
        &cluster,
        &["uninstall", "--dry-run", "--domains", "node-network"],
        "",
    )
    .await;
    for line in [
        "- 1 objects NodeNetworkConfigurationEnactment\n",
        "- 2 objects NodeNetworkState\n",
        "= NodeNetworkState node-2: stays, its spec is a user's configuration\n",
    ] {
        assert!(text(&preview).contains(line), "{line}: {}", text(&preview));
    }
    let gone = weft(
        &cluster,
        &["uninstall", "--yes", "--domains", "node-network"],
        "",
    )
    .await;
    assert!(gone.status.success(), "{}", text(&gone));
    assert!(
        text(&gone).contains("released NodeNetworkConfigurationPolicy br1"),
        "{}",
        text(&gone)
    );
    assert_eq!(enactments(&cluster).await.len(), 0);
    let states = cluster.kubectl(&["get", "nns", "-o", "name"]).await;
    assert_eq!(states.trim(), "nodenetworkstate.nmstate.io/node-2");
    // It is the user's and stays, and it can be deleted.
    cluster
        .kubectl(&["delete", "nncp", "br1", "--timeout=60s"])
        .await;
    assert_eq!(agent(&cluster).await, None);
    // The garbage collector's part follows.
    wait_until("nothing but the user's report is left", async || {
        let left = cluster.leftovers().await;
        if left == ["NodeNetworkState node-2".to_owned()].into() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
    assert_eq!(cluster.get(kinds::CLUSTER_ROLE, "", AGENT).await, None);
    assert_eq!(
        cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, "nmstate-operator")
            .await,
        None
    );
    // After an interruption only these may be left, and with the definitions all goes.
    cluster
        .apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkState, metadata: {name: node-1}}")
        .await;
    let rest = weft(
        &cluster,
        &["uninstall", "--yes", "--domains", "node-network"],
        "",
    )
    .await;
    assert!(
        text(&rest).contains("removed 1 objects NodeNetworkState\n"),
        "{}",
        text(&rest)
    );
    let all = weft(
        &cluster,
        &["uninstall", "--yes", "--crds", "--domains", "node-network"],
        "",
    )
    .await;
    assert!(
        all.status.success() && !text(&all).contains("stays"),
        "{}",
        text(&all)
    );
    assert_eq!(cluster.kubectl(&["get", "crds", "-o", "name"]).await, "");
}

#[tokio::test]
async fn of_several_the_oldest_counts_and_the_next_takes_its_place() {
    let cluster = start(1).await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .apply(&nmstate("nmstate", &json!({"logLevel": "debug"})))
        .await;
    cluster.wait_available().await;

    cluster.apply(&nmstate("another", &json!({}))).await;
    let reason = async |name: &str| {
        let status = cluster
            .get(kinds::NMSTATE, "", name)
            .await
            .map(|live| live["status"].clone())
            .unwrap_or_default();
        condition(&status, "Degraded")
    };
    wait_until("the second one says that it has no effect", async || {
        let told = reason("another").await;
        let right = told["reason"] == "NotTheOldest"
            && told["message"]
                .as_str()
                .is_some_and(|message| message.contains("\"nmstate\""));
        if right { Ok(()) } else { Err(told.to_string()) }
    })
    .await;
    assert_eq!(
        variable(&agent(&cluster).await.unwrap(), "LOG_LEVEL"),
        "debug"
    );
    let plan = weft(
        &cluster,
        &["plan", "-f", "-"],
        &nmstate("another", &json!({})),
    )
    .await;
    assert!(
        text(&plan).contains("only the oldest NMState counts"),
        "the verdict beforehand: {}",
        text(&plan)
    );

    cluster
        .kubectl(&["delete", "nmstate", "nmstate", "--timeout=60s"])
        .await;
    wait_agent(&cluster, "the other's agent", |live| {
        variable(live, "LOG_LEVEL") == "info"
    })
    .await;
    wait_until("the other one is Available", async || {
        let live = cluster
            .get(kinds::NMSTATE, "", "another")
            .await
            .unwrap_or_default();
        if condition(&live["status"], "Available")["status"] == "True" {
            Ok(())
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await;

    // One that loses its finalizer leaves nothing either.
    operator.terminate().await;
    cluster
        .patch(
            kinds::NMSTATE,
            "",
            "another",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    cluster
        .kubectl(&[
            "delete",
            "nmstate",
            "another",
            "--cascade=orphan",
            "--timeout=60s",
        ])
        .await;
    assert!(agent(&cluster).await.is_some());
    let _operator = Operator::start_default(&cluster).await;
    wait_until("nothing is left", async || {
        let left = cluster.leftovers().await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn one_deployment_serves_it_from_another_namespace() {
    let manifests = &["--domains", "addons,node-network"];
    let cluster = Cluster::start(ClusterOptions {
        manifests,
        ..options()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(&nmstate("nmstate", &json!({}))).await;
    cluster.wait_available().await;
    assert_eq!(
        agent(&cluster).await.unwrap()["metadata"]["namespace"],
        NAMESPACE
    );
    assert!(
        cluster
            .get(
                kinds::CONFIG_MAP,
                "weft-system",
                "weft-inventory-nmstate-nmstate"
            )
            .await
            .is_some()
    );
    cluster
        .kubectl(&["delete", "nmstate", "nmstate", "--timeout=60s"])
        .await;
    assert_eq!(agent(&cluster).await, None);
}
