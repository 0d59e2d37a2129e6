//! Known problems of the operator that Weft replaces, as far as only a real API server shows that
//! Weft does not have them. The list of all of them is docs/known-problems.md.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Match, Proxy};

use crate::system::{harness::*, install::passes};

fn configuration(metadata: Value, spec: Value) -> String {
    let mut metadata = metadata;
    metadata["name"] = "cluster".into();
    let api = "networkaddonsoperator.network.kubevirt.io/v1";
    json!({"apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": metadata, "spec": spec})
        .to_string()
}

/// Somebody's policy keeps one DaemonSet from being deleted.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ovs-stays}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [DELETE], resources: [daemonsets]}
  validations:
  - {expression: "oldObject.metadata.name != 'ovs-cni-amd64'", message: "ovs stays here"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ovs-stays}
spec: {policyName: ovs-stays, validationActions: [Deny]}
"#;

#[tokio::test]
async fn a_failed_deletion_is_not_forgotten() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .apply(&configuration(
            json!({}),
            json!({"linuxBridge": {}, "ovs": {}}),
        ))
        .await;
    cluster.wait_available().await;
    cluster.apply(POLICY).await;
    wait_until("the policy works", async || {
        let delete = [
            "-n",
            NAMESPACE,
            "delete",
            "daemonset",
            "ovs-cni-amd64",
            "--dry-run=server",
        ];
        match cluster.control_plane.kubectl(&delete).await {
            Err(error) if error.to_string().contains("ovs stays here") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    cluster.patch_resource(json!({"spec": {"ovs": null}})).await;
    let of_ovs = async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
            .await
    };
    let is_told = async || {
        let status = cluster
            .wait_condition(
                "Degraded",
                "True",
                "FailedToDeleteObjects",
                "ovs stays here",
            )
            .await;
        assert_eq!(
            condition(&status, "Available")["status"],
            "False",
            "{status:#}"
        );
        assert!(of_ovs().await.is_some());
    };
    is_told().await;
    // Neither by the next reconcile,
    let before = passes(&operator).await;
    cluster
        .patch_resource(json!({"spec": {"linuxBridge": null}}))
        .await;
    wait_until("a pass", async || {
        passes(&operator)
            .await
            .gt(&before)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    cluster.wait_observed().await;
    is_told().await;
    // nor by the next operator.
    operator.kill();
    let operator = Operator::start_default(&cluster).await;
    wait_until("a pass", async || {
        passes(&operator)
            .await
            .gt(&0.0)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    is_told().await;

    cluster
        .kubectl(&[
            "delete",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            "ovs-stays",
        ])
        .await;
    cluster.wait_available().await;
    assert_eq!(of_ovs().await, None);
    for (kind, name) in [
        (kinds::SERVICE_ACCOUNT, "ovs-cni-marker"),
        (kinds::CLUSTER_ROLE, "ovs-cni-marker-cr"),
    ] {
        assert_eq!(
            cluster.get(kind, NAMESPACE, name).await,
            None,
            "what comes after it goes too"
        );
    }
}

#[tokio::test]
async fn a_new_webhook_entry_is_added_to_a_configuration_that_is_there() {
    const POOL: &str = "kubemacpool-mutator";
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&configuration(json!({}), json!({"kubeMacPool": {}})))
        .await;
    let all = cluster
        .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", POOL)
        .await
        .unwrap()["webhooks"]
        .clone();
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all:#}");
    // As an earlier version made it: with one entry, whose bundle KubeMacPool has filled in.
    operator.kill();
    let mut first = all[0].clone();
    first["clientConfig"]["caBundle"] = "LS0tLS1CRUdJTg==".into();
    cluster
        .patch(
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "",
            POOL,
            json!({"webhooks": [first]}),
        )
        .await;
    let _operator = Operator::start_default(&cluster).await;
    let webhooks = wait_until("both entries are there", async || {
        let live = cluster
            .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", POOL)
            .await
            .ok_or("it is gone")?;
        if live["webhooks"].as_array().map(Vec::len) == Some(2) {
            Ok(live["webhooks"].clone())
        } else {
            Err(live["webhooks"].to_string())
        }
    })
    .await;
    assert_eq!(
        (&webhooks[0], &webhooks[1]),
        (&first, &all[1]),
        "the first one keeps its bundle"
    );
}

#[tokio::test]
async fn marks_of_others_stay_and_old_marks_of_weft_go() {
    const PART_OF: &str = "app.kubernetes.io/part-of";
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .apply(&configuration(
            json!({"labels": {PART_OF: "kubevirt"}}),
            json!({"multus": {}}),
        ))
        .await;
    cluster.wait_available().await;
    let account = async || {
        cluster
            .get(kinds::SERVICE_ACCOUNT, NAMESPACE, "multus")
            .await
            .unwrap()
    };
    assert_eq!(account().await["metadata"]["labels"][PART_OF], "kubevirt");

    // Theirs: another owner, a finalizer, a pull secret, a label.
    cluster
        .kubectl(&["-n", NAMESPACE, "create", "configmap", "their-owner"])
        .await;
    let uid = cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, "their-owner")
        .await
        .unwrap()["metadata"]["uid"]
        .clone();
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "their-owner", "uid": uid});
    let ours = account().await["metadata"]["ownerReferences"].clone();
    let patch = json!({"metadata": {
        "ownerReferences": [ours[0], theirs], "finalizers": ["example.com/theirs"],
        "labels": {"example.com/team": "network"}
    },
        "imagePullSecrets": [{"name": "theirs"}]});
    cluster
        .patch(kinds::SERVICE_ACCOUNT, NAMESPACE, "multus", patch)
        .await;

    // The resource's own label goes, and with it those that it has led to: Weft writes the very
    // same object.
    cluster
        .patch_resource(json!({"metadata": {"labels": {PART_OF: null}}}))
        .await;
    let account = wait_until("the label is gone", async || {
        let account = account().await;
        if account["metadata"]["labels"][PART_OF].is_null() {
            Ok(account)
        } else {
            Err(account["metadata"]["labels"].to_string())
        }
    })
    .await;
    assert_eq!(
        account["metadata"]["ownerReferences"],
        json!([ours[0], theirs])
    );
    assert_eq!(
        account["metadata"]["finalizers"],
        json!(["example.com/theirs"])
    );
    assert_eq!(account["metadata"]["labels"]["example.com/team"], "network");
    assert_eq!(account["imagePullSecrets"], json!([{"name": "theirs"}]));
    cluster
        .patch(
            kinds::SERVICE_ACCOUNT,
            NAMESPACE,
            "multus",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
}

/// No container runs here, so no webhook is ever answered: what they catch cannot be created.
#[tokio::test]
async fn webhooks_without_their_servers_block_neither_operator_nor_operands() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    // Of the operator and of each add-on, recreated while the webhooks are there.
    let pods = |namespace: &'static str| cluster.api(kinds::POD, namespace);
    let mut made_anew = 0;
    for mut pod in pods(NAMESPACE).list(&Default::default()).await.unwrap() {
        let name = format!("again-{made_anew}");
        pod.metadata = kube::api::ObjectMeta {
            name: Some(name),
            labels: pod.metadata.labels,
            ..Default::default()
        };
        pods(NAMESPACE)
            .create(&Default::default(), &pod)
            .await
            .unwrap();
        made_anew += 1;
    }
    assert!(made_anew >= 10, "{made_anew} pods");
    // Where KubeMacPool is asked for, its absence is felt: so the webhooks do work.
    cluster
        .kubectl(&[
            "label",
            "namespace",
            "default",
            "mutatepods.kubemacpool.io=allocate",
        ])
        .await;
    let pod = ["-n", "default", "run", "blocked", "--image=example.com/x:1"];
    wait_until("the webhook is asked", async || {
        match cluster.control_plane.kubectl(&pod).await {
            Err(error) if error.to_string().contains("mutatepods.kubemacpool.io") => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => {
                cluster
                    .kubectl(&["-n", "default", "delete", "pod", "blocked", "--now"])
                    .await;
                Err("it is not asked".to_owned())
            }
        }
    })
    .await;
}

#[tokio::test]
async fn it_works_where_v1alpha1_is_not_served_and_acts_once_a_change() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let definition = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";
    let mut versions = cluster
        .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", definition)
        .await
        .unwrap()["spec"]["versions"]
        .clone();
    let alpha = versions
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(|version| version["name"] == "v1alpha1")
        .unwrap();
    alpha["served"] = false.into();
    cluster
        .patch(
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            definition,
            json!({"spec": {"versions": versions}}),
        )
        .await;
    wait_until("it is not served", async || {
        let get = [
            "get",
            "networkaddonsconfigs.v1alpha1.networkaddonsoperator.network.kubevirt.io",
        ];
        cluster
            .control_plane
            .kubectl(&get)
            .await
            .err()
            .map(drop)
            .ok_or("it is".to_owned())
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .apply(&configuration(json!({}), json!({"multus": {}})))
        .await;
    cluster.wait_available().await;

    proxy.clear();
    cluster
        .patch_resource(json!({"spec": {"imagePullPolicy": "Always"}}))
        .await;
    cluster.wait_available().await;
    let to_multus = Match::any().writes().resource("daemonsets").name("multus");
    assert_eq!(
        proxy
            .writes()
            .iter()
            .filter(|write| to_multus.selects(&write.info))
            .count(),
        1
    );
}

#[tokio::test]
async fn the_egress_policy_follows_the_ports_of_the_api_server() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(&configuration(json!({}), json!({}))).await;
    cluster.wait_available().await;
    let wait_ports = async |expected: &[u64]| {
        wait_until(&format!("the policy is about {expected:?}"), async || {
            let policy = cluster
                .get(
                    kinds::NETWORK_POLICY,
                    NAMESPACE,
                    "cnao-allow-egress-to-cluster-api",
                )
                .await
                .ok_or("it is gone")?;
            let mut ports: Vec<_> = policy["spec"]["egress"][0]["ports"]
                .as_array()
                .unwrap()
                .iter()
                .map(|port| port["port"].as_u64().unwrap())
                .collect();
            ports.sort_unstable();
            if ports == expected {
                Ok(())
            } else {
                Err(format!("{ports:?}"))
            }
        })
        .await;
    };
    // An API server on a loopback address publishes no EndpointSlice of itself.
    wait_ports(&[6443]).await;

    let slice = |name: &str, port: u16| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"}
        },
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.10"]}], "ports": [
            {"name": "https", "protocol": "TCP", "port": port}
        ]})
        .to_string()
    };
    // As MicroK8s has it, and one more that comes and goes while the operator runs.
    cluster.apply(&slice("kubernetes", 16443)).await;
    wait_ports(&[16443]).await;
    cluster.apply(&slice("another", 443)).await;
    wait_ports(&[443, 16443]).await;
    cluster
        .kubectl(&["-n", "default", "delete", "endpointslice", "another"])
        .await;
    wait_ports(&[16443]).await;
}
