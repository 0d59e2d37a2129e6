//! A cluster that has the definitions of the operators that Weft replaces, which lack fields of
//! Weft's: the API server drops these fields without a word.

use std::path::Path;

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use crate::{
    commands::user::{run, viewer, weft, weft_reading},
    system::{harness::*, install, node_network},
};

/// Puts definitions of another operator in the place of Weft's, and waits until the API server
/// drops this field of an object.
async fn replace(cluster: &Cluster, definitions: &str, object: &str, field: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/fixtures");
    let definitions = std::fs::read_to_string(folder.join(definitions)).unwrap();
    cluster.apply(&definitions).await;
    wait_strict(cluster, object, Some(field)).await;
}

/// Waits until the API server knows all fields of an object, or does not know this one. A definition
/// comes into force a moment after it was applied.
async fn wait_strict(cluster: &Cluster, object: &str, unknown: Option<&str>) {
    let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
    wait_until("the definition is in force", async || {
        let answer = cluster.control_plane.kubectl_with_input(&apply, object);
        match (answer.await, unknown) {
            (Ok(_), None) => Ok(()),
            (Err(error), Some(field))
                if format!("{error:#}").contains(&format!("unknown field \"{field}\"")) =>
            {
                Ok(())
            }
            (answer, _) => Err(format!("{answer:?}")),
        }
    })
    .await;
}

/// Applies an object as a client that ignores unknown fields.
async fn apply_blindly(cluster: &Cluster, object: &str) {
    let apply = ["apply", "--validate=ignore", "-f", "-"];
    let applied = cluster.control_plane.kubectl_with_input(&apply, object);
    applied.await.unwrap();
}

#[tokio::test]
async fn lost_fields_are_named_with_the_command_that_helps() {
    const DEFINITION: &str = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";
    const FIX: &str = "weft crds --domains addons | kubectl apply -f -";
    let file = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": {
            "multus": {},
            "placementConfiguration": {
                "workloads": {"tolerations": [{"key": "a", "operator": "Exists"}]}
            }
        }
    })
    .to_string();
    let cluster = Cluster::start_default().await;
    let lost = "spec.placementConfiguration";
    replace(&cluster, "cnao-0.102.crd.yaml", &file, lost).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    apply_blindly(&cluster, &file).await;

    let status = cluster
        .wait_condition("FieldsDropped", "True", "OtherDefinition", lost)
        .await;
    let said = condition(&status, "FieldsDropped")["message"].to_string();
    assert!(said.contains(DEFINITION) && said.contains(FIX), "{said}");
    let status = cluster.wait_condition("Available", "True", "", "").await;
    assert!(status["observedGeneration"].is_null(), "{status:#}");
    assert_eq!(
        condition(&status, "Stalled")["reason"],
        "OtherDefinition",
        "no tool waits for ever"
    );
    install::becomes_idle(&cluster, &proxy).await;
    install::a_pass_writes_nothing(&cluster, &proxy, &operator).await;

    let shown = weft(&cluster, &["status"]).await.ended(3).stdout;
    assert!(
        shown.contains("FieldsDropped OtherDefinition: ") && shown.contains(FIX),
        "{shown}"
    );
    let installation = weft(&cluster, &["status", "--installation"]).await.ended(3);
    for part in ["addons: problem: ", DEFINITION, lost, " more", FIX] {
        let shown = &installation.stdout;
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // Nothing of the file would be left to do, and the plan says why.
    let plan = weft_reading(&cluster, &["plan", "-f", "-"], &file)
        .await
        .ended(0)
        .stdout;
    let note = format!("the API server would drop {lost}, because {DEFINITION} ");
    assert!(plan.contains(&note) && plan.contains(FIX), "{plan}");
    let viewer = viewer(&cluster).await;
    wait_until(
        "a user with the role view sees it, too",
        async || match run(&viewer, &["status", "--installation"], "").await {
            run if run.code == 3 && run.stdout.contains(lost) => Ok(()),
            run => Err(format!("{run:?}")),
        },
    )
    .await;
    // Helm would find fields of another manager after `kubectl apply`, so its users get its command.
    let of_helm = [
        "meta.helm.sh/release-name=nets",
        "meta.helm.sh/release-namespace=apps",
    ];
    let annotate = ["-n", NAMESPACE, "annotate", "deployment", OPERATOR];
    cluster.kubectl(&[&annotate[..], &of_helm].concat()).await;
    let installation = weft(&cluster, &["status", "--installation"]).await.ended(3);
    let upgrade = "helm upgrade nets CHART --namespace apps --reset-then-reuse-values";
    for part in ["then again what you had applied", " again"] {
        let shown = &installation.stdout;
        assert!(
            shown.contains(&format!("{part}: {upgrade}")),
            "{part}\n{shown}"
        );
    }

    operator.kill();
    let definitions = weft(&cluster, &["crds", "--domains", "addons"]).await;
    let definitions = definitions.ended(0).stdout;
    let count = definitions
        .matches("kind: CustomResourceDefinition")
        .count();
    assert_eq!(count, 1, "of the domain alone");
    cluster.apply(&definitions).await;
    wait_strict(&cluster, &file, None).await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(&file).await;
    cluster.wait_available().await;
    weft(&cluster, &["status", "--installation"]).await.ended(0);
    let plan = weft_reading(&cluster, &["plan", "-f", "-"], &file)
        .await
        .ended(0)
        .stdout;
    assert!(!plan.contains("would drop"), "{plan}");
}

#[tokio::test]
async fn policies_say_which_of_their_fields_get_lost() {
    const POLICIES: &str = "nodenetworkconfigurationpolicies.nmstate.io";
    const FIX: &str = "weft crds --domains node-network | kubectl apply -f -";
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "mtu"},
        "spec": {
            "priority": 5,
            "desiredState": {
                "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 9000}]
            }
        }
    })
    .to_string();
    let cluster = node_network::start(2).await;
    let lost = "spec.priority";
    replace(&cluster, "kubernetes-nmstate.crd.yaml", &policy, lost).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let nmstate = node_network::nmstate("nmstate", &json!({}));
    cluster.apply(&nmstate).await;
    // The definitions of all kinds of the API.
    cluster
        .wait_condition("FieldsDropped", "True", "OtherDefinition", POLICIES)
        .await;
    apply_blindly(&cluster, &policy).await;
    wait_until("the policy says so", async || {
        let policy = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "mtu")
            .await
            .unwrap_or_default();
        let said = condition(&policy["status"], "FieldsDropped");
        let message = said["message"].as_str().unwrap_or_default();
        match said["status"] == "True" && message.contains(lost) && message.contains(FIX) {
            true => Ok(()),
            false => Err(format!("{:#}", policy["status"])),
        }
    })
    .await;
    install::becomes_idle(&cluster, &proxy).await;

    let state = json!({
        "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
        "metadata": {"name": "node-1"}
    });
    cluster.apply(&state.to_string()).await;
    let report = json!({"status": {"currentState": {
        "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500}]
    }}});
    cluster
        .kubectl(&[
            "patch",
            "nns",
            "node-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            &report.to_string(),
        ])
        .await;
    let plan = weft_reading(&cluster, &["plan", "-f", "-", "-o", "json"], &policy).await;
    let notes = plan.json()["notes"].to_string();
    let note = format!(
        "NodeNetworkConfigurationPolicy mtu: the API server would drop {lost}, because {POLICIES} "
    );
    assert!(notes.contains(&note) && notes.contains(FIX), "{notes}");
}
