//! The admission policies accept the writes of the real programs, and little more.

use serde_json::{Value, json};
use weft_testenv::ControlPlane;

use super::{
    accounts::Account,
    client, install, install_operands, make_peer, pod, start,
    ways::{Way, create, live, patch_as, put, token_secret, workload},
};
use weft_system_tests::*;

const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const ADDONS: &str = "cluster-network-addons";

fn account(namespace: &'static str, name: &'static str, node: Option<&'static str>) -> Account {
    Account {
        namespace,
        name,
        works_in: namespace,
        node,
        has: &[],
    }
}

/// Some ways are open to this account, and others are not.
async fn assert_limits(cluster: &ControlPlane, account: &Account, open: &[Way], closed: &[Way]) {
    let client = client(cluster, account).await;
    wait_until(
        &format!(
            "{}:{} may write what it needs, and nothing else",
            account.namespace, account.name
        ),
        async || {
            let mut wrong = Vec::new();
            for (ways, is_right) in [
                (open, (|code| code == 200) as fn(u16) -> bool),
                (closed, |code| code == 403),
            ] {
                for way in ways {
                    let code = way.attempt(&client).await;
                    if !is_right(code) {
                        wrong.push(format!("{}: {code}", way.name));
                    }
                }
            }
            if wrong.is_empty() {
                Ok(())
            } else {
                Err(format!("{wrong:#?}"))
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_marker_writes_its_own_resources_of_its_own_node_only() {
    let cluster = start().await;
    install(&cluster, &["--split", "--components", "linux-bridge,ovs"]).await;
    install_operands(&cluster, "network-addons-config.yaml").await;
    let of = |name: &str, node: &str, prefix: &str, field: &str| {
        let operations = json!([
            {"op": "add", "path": format!("/status/{field}/{prefix}~1br1"), "value": "1000"}
        ]);
        patch_as(
            name,
            &format!("/api/v1/nodes/{node}/status"),
            JSON_PATCH,
            operations,
        )
    };
    for (marker, own, others) in [
        (
            "bridge-marker",
            "bridge.network.kubevirt.io",
            "ovs-cni.network.kubevirt.io",
        ),
        (
            "ovs-cni-marker",
            "ovs-cni.network.kubevirt.io",
            "bridge.network.kubevirt.io",
        ),
    ] {
        let status = |name: &str, operations: Value| {
            patch_as(name, "/api/v1/nodes/node-1/status", JSON_PATCH, operations)
        };
        let open = [
            of("a bridge of its node", "node-1", own, "capacity"),
            of("an allocatable bridge", "node-1", own, "allocatable"),
        ];
        let closed = [
            of("a bridge of another node", "node-2", own, "capacity"),
            of("a resource of others", "node-1", others, "capacity"),
            status(
                "memory",
                json!([{"op": "replace", "path": "/status/capacity/memory", "value": "1"}]),
            ),
            status(
                "no memory",
                json!([{"op": "remove", "path": "/status/capacity/memory"}]),
            ),
            status(
                "an address",
                json!([
                    {
                        "op": "add", "path": "/status/addresses",
                        "value": [{"type": "InternalIP", "address": "192.0.2.66"}]
                    }
                ]),
            ),
            status(
                "a condition",
                json!([
                    {
                        "op": "add", "path": "/status/conditions/-",
                        "value": {"type": "Stolen", "status": "True"}
                    }
                ]),
            ),
            status(
                "an annotation",
                json!([
                    {"op": "add", "path": "/metadata/annotations", "value": {"stolen": "true"}}
                ]),
            ),
            status(
                "a finalizer",
                json!([
                    {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stolen"]}
                ]),
            ),
        ];
        assert_limits(
            &cluster,
            &account(ADDONS, marker, Some("node-1")),
            &open,
            &closed,
        )
        .await;
        // A token that names no node is worth nothing.
        assert_limits(&cluster, &account(ADDONS, marker, None), &[], &open).await;
    }
}

#[tokio::test]
async fn the_network_status_of_pods_of_the_own_node_is_all_that_multus_writes() {
    let cluster = start().await;
    install(
        &cluster,
        &["--components", "multus,multus-dynamic-networks"],
    )
    .await;
    install_operands(&cluster, "network-addons-config.yaml").await;
    let namespace = super::VICTIMS;
    cluster
        .kubectl_with_input(
            &["apply", "-f", "-"],
            &pod(namespace, "node-1", "peer").to_string(),
        )
        .await
        .unwrap();
    let path = |node: &str| format!("/api/v1/namespaces/{namespace}/pods/{namespace}-{node}");
    for node in ["node-1", "node-2"] {
        wait_until(&format!("the pod on {node} is Ready"), async || {
            let pod = live(&cluster, &path(node)).await;
            if condition(&pod["status"], "Ready")["status"] == "True" {
                Ok(())
            } else {
                Err(pod["status"].to_string())
            }
        })
        .await;
    }
    let (here, there) = (
        live(&cluster, &path("node-1")).await,
        live(&cluster, &path("node-2")).await,
    );
    let network_status = "k8s.v1.cni.cncf.io/network-status";
    let with = |name: &str, node: &str, object: &Value, edit: &dyn Fn(&mut Value)| {
        let mut object = object.clone();
        edit(&mut object);
        put(name, &format!("{}/status", path(node)), object)
    };
    let annotate =
        |object: &mut Value| object["metadata"]["annotations"][network_status] = "[]".into();
    let older = |object: &mut Value| {
        annotate(object);
        // A program that is older than the API server does not know this field.
        object["status"]
            .as_object_mut()
            .unwrap()
            .remove("observedGeneration");
    };
    let open = [
        with("the annotation", "node-1", &here, &annotate),
        with(
            "the annotation, by an older program",
            "node-1",
            &here,
            &older,
        ),
    ];
    let closed = [
        with(
            "the annotation of another node's pod",
            "node-2",
            &there,
            &annotate,
        ),
        with("another annotation", "node-1", &here, &|object| {
            object["metadata"]["annotations"]["stolen"] = "true".into()
        }),
        with("a label", "node-1", &here, &|object| {
            object["metadata"]["labels"] = json!({"stolen": "true"})
        }),
        with("an address", "node-1", &here, &|object| {
            object["status"]["podIP"] = "192.0.2.66".into();
            object["status"]["podIPs"] = json!([{"ip": "192.0.2.66"}]);
        }),
        with("a phase", "node-1", &here, &|object| {
            object["status"]["phase"] = "Failed".into()
        }),
        with("a condition", "node-1", &here, &|object| {
            object["status"]["conditions"][0]["status"] = "False".into()
        }),
    ];
    for name in ["multus", "dynamic-networks-controller"] {
        assert_limits(
            &cluster,
            &account(ADDONS, name, Some("node-1")),
            &open,
            &closed,
        )
        .await;
        assert_limits(&cluster, &account(ADDONS, name, None), &[], &open).await;
    }
}

#[tokio::test]
async fn kubemacpool_writes_its_two_secrets_only() {
    let cluster = start().await;
    install(&cluster, &["--split", "--components", "kubemacpool"]).await;
    install_operands(&cluster, "network-addons-config.yaml").await;
    make_peer(&cluster, ADDONS).await;
    let path = format!("/api/v1/namespaces/{ADDONS}/secrets");
    let secret = |name: &str, kind: &str| {
        let data = json!({"tls.crt": "", "tls.key": ""});
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": ADDONS, "name": name},
            "type": kind, "data": data
        });
        create(name, &path, object)
    };
    let mut stolen = token_secret(ADDONS, "cluster-network-addons-operator");
    stolen["metadata"]["name"] = "kubemacpool-service".into();
    let open = [
        secret("kubemacpool-mutator-ca", "Opaque"),
        secret("kubemacpool-service", "kubernetes.io/tls"),
    ];
    let closed = [
        secret("another", "Opaque"),
        create("a token under the name of its Secret", &path, stolen),
    ];
    assert_limits(
        &cluster,
        &account(ADDONS, "kubemacpool-sa", None),
        &open,
        &closed,
    )
    .await;
}

#[tokio::test]
async fn flannel_writes_how_its_own_node_is_reached_and_sdn_a_condition() {
    let cluster = start().await;
    install(&cluster, &["--split", "--domains", "cluster-network"]).await;
    install_operands(&cluster, "network-config-flannel.yaml").await;
    install_operands(&cluster, "network-config-openshift-sdn.yaml").await;
    let annotate = |name: &str, node: &str, annotation: &str| {
        patch_as(
            name,
            &format!("/api/v1/nodes/{node}/status"),
            STRATEGIC,
            json!({"metadata": {"annotations": {annotation: "a"}}}),
        )
    };
    let condition = |node: &str, kind: &str| {
        let conditions = json!([{"type": kind, "status": "False", "reason": "A", "message": "a"}]);
        patch_as(
            &format!("{kind} of {node}"),
            &format!("/api/v1/nodes/{node}/status"),
            STRATEGIC,
            json!({"status": {"conditions": conditions}}),
        )
    };
    let open = [
        annotate(
            "how it is reached",
            "node-1",
            "flannel.alpha.coreos.com/public-ip",
        ),
        condition("node-1", "NetworkUnavailable"),
    ];
    let closed = [
        annotate(
            "how another node is reached",
            "node-2",
            "flannel.alpha.coreos.com/public-ip",
        ),
        annotate("an annotation", "node-1", "stolen"),
        condition("node-1", "Ready"),
        condition("node-2", "NetworkUnavailable"),
    ];
    assert_limits(
        &cluster,
        &account("kube-flannel", "flannel", Some("node-1")),
        &open,
        &closed,
    )
    .await;
    assert_limits(
        &cluster,
        &account("kube-flannel", "flannel", None),
        &[],
        &open,
    )
    .await;
    let open = [
        condition("node-1", "NetworkUnavailable"),
        condition("node-2", "NetworkUnavailable"),
    ];
    let closed = [
        condition("node-2", "Ready"),
        annotate(
            "an annotation of Flannel",
            "node-1",
            "flannel.alpha.coreos.com/public-ip",
        ),
    ];
    assert_limits(
        &cluster,
        &account("openshift-sdn", "sdn-controller", None),
        &open,
        &closed,
    )
    .await;
}

#[tokio::test]
async fn the_operator_of_the_network_writes_in_the_namespaces_of_networks_only() {
    let cluster = start().await;
    install(&cluster, &["--split", "--domains", "cluster-network"]).await;
    install_operands(&cluster, "network-config-openshift-sdn.yaml").await;
    let daemon_set = |namespace: &str| {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets");
        create(
            &format!("a DaemonSet in {namespace}"),
            &path,
            workload("DaemonSet", namespace, "default"),
        )
    };
    let bind = |kind: &str, namespace: Option<&str>| {
        let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "stolen", "namespace": namespace},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "openshift-sdn-controller-account"
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": "sdn-controller", "namespace": "openshift-sdn"}
        ]});
        let path = namespace.map_or(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
            |namespace| {
                format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings")
            },
        );
        create(&format!("{kind} in {namespace:?}"), &path, object)
    };
    let open = [
        daemon_set("openshift-sdn"),
        bind("RoleBinding", Some("openshift-infra")),
    ];
    let closed = [
        daemon_set("openshift-infra"),
        daemon_set("kube-system"),
        bind("RoleBinding", Some("kube-system")),
        bind("RoleBinding", Some("openshift-sdn")),
        bind("ClusterRoleBinding", None),
    ];
    assert_limits(
        &cluster,
        &account(
            "openshift-cluster-network-operator",
            "cluster-network-operator",
            None,
        ),
        &open,
        &closed,
    )
    .await;
}

/// By itself, and where one account has the rights of all domains.
#[tokio::test]
async fn the_operator_of_nodes_writes_one_condition_and_takes_one_taint() {
    let condition = |kind: &str| {
        let conditions = json!([{"type": kind, "status": "False", "reason": "A", "message": "a"}]);
        patch_as(
            kind,
            "/api/v1/nodes/node-2/status",
            STRATEGIC,
            json!({"status": {"conditions": conditions}}),
        )
    };
    let (startup, other) = (weft_api::node_network::STARTUP_TAINT, "example.com/other");
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let taints = |name: &str, taints: Value| {
        patch_as(
            name,
            "/api/v1/nodes/node-2",
            "application/merge-patch+json",
            json!({"spec": {"taints": taints}}),
        )
    };
    let open = [
        condition(weft_api::node_network::NODE_CONDITION),
        taints("take the startup taint", json!([taint(other)])),
    ];
    let closed = [
        condition("Ready"),
        taints("taint a node", json!([taint(other), taint("stolen")])),
        taints(
            "set the startup taint",
            json!([taint(other), {"key": startup, "effect": "NoExecute"}]),
        ),
        taints("take another taint", json!([])),
    ];
    for (arguments, namespace, name) in [
        (
            &["--split", "--domains", "node-network"][..],
            "nmstate",
            "nmstate-operator",
        ),
        (
            &["--domains", super::DOMAINS],
            "weft-system",
            "weft-operator",
        ),
    ] {
        let cluster = start().await;
        let both = [startup, other].map(|key| format!("{key}=:NoSchedule"));
        cluster
            .kubectl(&["taint", "node", "node-2", &both[0], &both[1]])
            .await
            .unwrap();
        install(&cluster, arguments).await;
        assert_limits(&cluster, &account(namespace, name, None), &open, &closed).await;
    }
}

#[tokio::test]
async fn the_operator_of_placement_runs_no_pod_with_a_token() {
    let cluster = start().await;
    install(&cluster, &["--split", "--domains", "placement"]).await;
    make_peer(&cluster, "openstack").await;
    let run = |name: &str, kind: &str, token: Option<bool>, volumes: Value| {
        let mut object = workload(kind, "openstack", super::PEER);
        let pod = &mut object["spec"]["template"]["spec"];
        pod["automountServiceAccountToken"] = json!(token);
        pod["volumes"] = volumes;
        let (group, plural) = if kind == "Job" {
            ("batch", "jobs")
        } else {
            ("apps", "deployments")
        };
        create(
            &format!("{kind}: {name}"),
            &format!("/apis/{group}/v1/namespaces/openstack/{plural}"),
            object,
        )
    };
    let projected = json!([
        {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    ]);
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    for kind in ["Job", "Deployment"] {
        open.push(run("without a token", kind, Some(false), json!([])));
        closed.push(run("by default", kind, None, json!([])));
        closed.push(run("asked for", kind, Some(true), json!([])));
        closed.push(run("projected", kind, Some(false), projected.clone()));
    }
    assert_limits(
        &cluster,
        &account("weft-placement", "weft-placement-operator", None),
        &open,
        &closed,
    )
    .await;
}
