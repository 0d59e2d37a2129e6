//! IPAMClaims that only the KubeVirt IPAM controller can release: it stays as long as there are
//! some.

use serde_json::{Value, json};
use weft_plan::{Kind, kinds};

use crate::{
    commands::user::weft,
    system::{certificates::weft_about, deletion::gone, harness::*},
};

const CLAIM: Kind = Kind {
    group: "k8s.cni.cncf.io",
    version: "v1alpha1",
    kind: "IPAMClaim",
    plural: "ipamclaims",
    namespaced: true,
};
const CONTROLLER: &str = "kubevirt-ipam-controller-manager";

/// A NetworkAddonsConfig with this specification.
fn configuration(spec: &Value) -> String {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"}, "spec": spec
    })
    .to_string()
}

async fn claim(cluster: &Cluster) {
    let claim = json!({
        "apiVersion": CLAIM.api_version(), "kind": CLAIM.kind,
        "metadata": {
            "name": "machine.blue", "namespace": "default",
            "finalizers": ["kubevirt.io/persistent-ipam"]
        },
        "spec": {"network": "blue", "interface": "pod1"}
    });
    cluster.apply(&claim.to_string()).await;
}

async fn controller(cluster: &Cluster) -> Option<Value> {
    cluster.get(kinds::DEPLOYMENT, NAMESPACE, CONTROLLER).await
}

#[tokio::test]
async fn the_ipam_controller_stays_while_claims_need_it() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    let with = configuration(&json!({"linuxBridge": {}, "kubevirtIpamController": {}}));
    let without = configuration(&json!({"linuxBridge": {}}));
    cluster.install(&with).await;
    claim(&cluster).await;

    let plan = weft_about(&cluster, &without, &["plan", "-f", "-"]).await;
    assert!(
        plan.contains("stays: IPAMClaim default/machine.blue has the finalizer")
            && !plan.contains(&format!("- Deployment {NAMESPACE}/{CONTROLLER}")),
        "{plan}"
    );
    cluster
        .patch_resource(json!({"spec": {"kubevirtIpamController": null}}))
        .await;
    let reason = "FailedToDeleteObjects";
    let message = "IPAMClaim default/machine.blue: has the finalizer kubevirt.io/persistent-ipam";
    cluster
        .wait_condition("Degraded", "True", reason, message)
        .await;
    assert!(controller(&cluster).await.is_some());

    // The controller releases the claim, and goes by itself.
    cluster
        .patch(
            CLAIM,
            "default",
            "machine.blue",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    cluster.wait_available().await;
    assert_eq!(controller(&cluster).await, None);

    // The same when the resource is deleted, and the way out.
    cluster.apply(&with).await;
    cluster.wait_available().await;
    claim(&cluster).await;
    let needed = "IPAMClaim default/machine.blue";
    let removal = weft(&cluster, &["uninstall", "--dry-run"]).await.ended(0);
    let line = format!("= {needed}: stays, it has the finalizer kubevirt.io/persistent-ipam");
    assert!(removal.stdout.contains(&line), "{removal:?}");
    let removal = weft(&cluster, &["uninstall", "--dry-run", "-o", "json"]);
    let removal = removal.await.ended(0).json();
    let steps = removal["objects"].as_array().unwrap();
    let stays = |step: &&Value| step["action"] == "stay" && step["name"] == "machine.blue";
    let step = steps.iter().find(stays);
    let why = step.unwrap_or_else(|| panic!("{removal:#}"))["why"].as_str();
    assert!(why.unwrap().contains("weft.network/remove"), "{step:?}");
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    cluster
        .wait_condition("Degraded", "True", reason, message)
        .await;
    assert!(controller(&cluster).await.is_some());
    cluster
        .kubectl(&[
            "annotate",
            "networkaddonsconfig",
            "cluster",
            "weft.network/remove=kubevirtIpamController",
        ])
        .await;
    // The removal no longer waits for it.
    let removal = weft(&cluster, &["uninstall", "--dry-run"]).await.ended(0);
    assert!(!removal.stdout.contains(needed), "{removal:?}");
    gone(&cluster).await;
    assert_eq!(controller(&cluster).await, None);
}
