//! A Flannel that runs as kube-flannel.yml installs it becomes Weft's, and keeps what its nodes
//! use.

use serde_json::{Value, json};
use weft_plan::{ADOPT_ANNOTATION, Kind, kinds};

use super::{config, record, start, text, weft};
use weft_system_tests::*;

const FLANNEL: &str = "kube-flannel";
/// The objects that the owner lets Weft adopt.
const OBJECTS: [(Kind, &str, &str); 5] = [
    (kinds::SERVICE_ACCOUNT, FLANNEL, "flannel"),
    (kinds::CLUSTER_ROLE, "", "flannel"),
    (kinds::CLUSTER_ROLE_BINDING, "", "flannel"),
    (kinds::CONFIG_MAP, FLANNEL, "kube-flannel-cfg"),
    (kinds::DAEMON_SET, FLANNEL, "kube-flannel-ds"),
];

/// As kube-flannel.yml has them, with another selector and another VXLAN network identifier than
/// Weft's.
fn upstream() -> String {
    let labels = json!({"app": "flannel", "k8s-app": "flannel"});
    let cni = json!({
        "name": "cbr0", "cniVersion": "0.3.1",
        "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}}
        ]
    });
    let net = json!({
        "Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan", "VNI": 7}
    });
    let pod = json!({
        "hostNetwork": true, "serviceAccountName": "flannel", "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "kube-flannel", "image": "ghcr.io/flannel-io/flannel:v0.28.4",
                "command": ["/opt/bin/flanneld"]
            }
        ],
    });
    let object = |(kind, namespace, name): (Kind, &str, &str), more: Value| {
        let mut object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": name, "labels": labels}
        });
        if kind.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        more.as_object()
            .into_iter()
            .flatten()
            .for_each(|(field, value)| object[field] = value.clone());
        object
    };
    let role = json!({
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flannel"
        }
    });
    let workload = json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod}
    });
    let more = [
        json!({}),
        json!({"rules": []}),
        role,
        json!({"data": {"cni-conf.json": cni.to_string(), "net-conf.json": net.to_string()}}),
        json!({"spec": workload}),
    ];
    let items: Vec<Value> = OBJECTS
        .into_iter()
        .zip(more)
        .map(|(key, more)| object(key, more))
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[tokio::test]
async fn a_flannel_of_upstream_keeps_selector_plugin_and_tunnel() {
    let cluster = start().await;
    cluster.kubectl(&["create", "namespace", FLANNEL]).await;
    cluster.apply(&upstream()).await;
    let before = cluster
        .get(kinds::DAEMON_SET, FLANNEL, "kube-flannel-ds")
        .await
        .unwrap();
    let wanted = config(&json!({
        "serviceNetwork": "10.96.0.0/16", "clusterNetworks": [
            {"cidr": "10.244.0.0/16", "hostSubnetLength": 8}
        ],
        "defaultNetwork": {"type": "Flannel"}, "deployKubeProxy": false,
    }));

    // Without its owner's consent nothing happens.
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(&wanted).await;
    cluster
        .wait_condition("Degraded", "True", "", "kube-flannel")
        .await;
    let untouched = cluster
        .get(kinds::DAEMON_SET, FLANNEL, "kube-flannel-ds")
        .await
        .unwrap();
    assert_eq!(
        untouched["metadata"]["generation"],
        before["metadata"]["generation"]
    );
    assert!(operator.terminate().await.success());

    for (kind, namespace, name) in OBJECTS {
        cluster
            .patch(
                kind,
                namespace,
                name,
                json!({"metadata": {"annotations": {ADOPT_ANNOTATION: "true"}}}),
            )
            .await;
    }
    let plan = weft(&cluster, &["plan", "-f", "-"], &wanted).await;
    let plan = text(&plan);
    assert!(
        plan.contains("DaemonSet kube-flannel/kube-flannel-ds")
            && plan.contains("- data[cni-conf.json]"),
        "{plan}"
    );
    assert!(
        !plan.contains("to recreate") && !plan.contains("spec.selector"),
        "{plan}"
    );

    let _operator = Operator::start_default(&cluster).await;
    cluster.wait_available().await;
    let after = cluster
        .get(kinds::DAEMON_SET, FLANNEL, "kube-flannel-ds")
        .await
        .unwrap();
    assert_eq!(
        after["metadata"]["uid"], before["metadata"]["uid"],
        "it is never deleted"
    );
    assert_eq!(after["spec"]["selector"], before["spec"]["selector"]);
    let pod = &after["spec"]["template"]["spec"];
    let arguments = pod["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "install-cni")
        .unwrap()["args"]
        .to_string();
    assert!(arguments.contains("--cni-type=flannel"), "{arguments}");
    let files = cluster
        .get(kinds::CONFIG_MAP, FLANNEL, "kube-flannel-cfg")
        .await
        .unwrap();
    let net: Value =
        serde_json::from_str(files["data"]["net-conf.json"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&net["Backend"]["VNI"], &files["data"]["cni-conf.json"]),
        (&json!(7), &Value::Null)
    );
    assert_eq!(
        record(&cluster).await["defaultNetwork"]["flannelConfig"]["cniPlugin"],
        "flannel"
    );

    // The value that the nodes use stays, though the NetworkConfig leaves it open and the old
    // ConfigMap lost it.
    cluster
        .patch_resource(
            json!({"spec": {"defaultNetwork": {"flannelConfig": {"enableNFTables": true}}}}),
        )
        .await;
    cluster.wait_available().await;
    assert_eq!(
        record(&cluster).await["defaultNetwork"]["flannelConfig"]["vni"],
        7
    );
}
