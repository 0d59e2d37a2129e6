//! `weft migrate --check`: what a user learns of a cluster before the switch.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_testenv::{ControlPlane, Lent};

use crate::commands::{harness::*, user::*};

/// A cluster with the definitions of all domains and no operator.
async fn cluster() -> Lent {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let crds = run(control_plane.kubeconfig(), &["crds"], "")
        .await
        .ended(0);
    apply(&control_plane, &crds.stdout).await;
    // Until then the API server answers that it prepares the storage.
    wait_until("all kinds are served", async || {
        let checked = run(control_plane.kubeconfig(), &["migrate", "--check"], "").await;
        if checked.code == 0 {
            Ok(())
        } else {
            Err(checked.stderr)
        }
    })
    .await;
    control_plane
}

async fn apply(control_plane: &ControlPlane, yaml: &str) {
    control_plane
        .kubectl_with_input(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            yaml,
        )
        .await
        .unwrap();
}

/// An operator as another project installs it.
async fn install_original(
    control_plane: &ControlPlane,
    kind: &str,
    namespace: &str,
    name: &str,
    metadata: Value,
) {
    let variables = json!([{"name": "OPERATOR_VERSION", "value": "0.102.0"}]);
    install_with(control_plane, (kind, namespace, name), metadata, variables).await;
}

/// The same with these variables. The operator is its kind, namespace and name.
async fn install_with(
    control_plane: &ControlPlane,
    (kind, namespace, name): (&str, &str, &str),
    metadata: Value,
    variables: Value,
) {
    apply(
        control_plane,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            .to_string(),
    )
    .await;
    let container = json!({"name": name, "image": "registry.example/operator:1", "env": variables});
    let mut workload = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {
        "selector": {"matchLabels": {"name": name}},
        "template": {"metadata": {"labels": {"name": name}}, "spec": {"containers": [container]}},
    }});
    workload["metadata"]["name"] = name.into();
    workload["metadata"]["namespace"] = namespace.into();
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &workload.to_string())
        .await
        .unwrap();
}

async fn check(control_plane: &ControlPlane, domain: &str, code: i32) -> (String, Value) {
    let arguments = ["migrate", "--check", "--domains", domain];
    let text = run(control_plane.kubeconfig(), &arguments, "")
        .await
        .ended(code)
        .stdout;
    let json = run(
        control_plane.kubeconfig(),
        &[&arguments[..], &["-o", "json"]].concat(),
        "",
    )
    .await
    .ended(code)
    .json();
    (text, json["domains"][0].clone())
}

const ADDONS: &str = "networkaddonsoperator.network.kubevirt.io/v1";

#[tokio::test]
async fn a_plain_origin_is_replaced_by_the_command_that_the_check_prints() {
    let control_plane = cluster().await;
    let nothing = run(control_plane.kubeconfig(), &["migrate", "--check"], "")
        .await
        .ended(0)
        .stdout;
    assert_eq!(
        nothing
            .matches("no operator and no resource: nothing to switch")
            .count(),
        4,
        "{nothing}"
    );

    install_original(&control_plane, "Deployment", NAMESPACE, OPERATOR, json!({})).await;
    let resource = json!({
        "apiVersion": ADDONS, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": {"multus": {}}
    });
    apply(&control_plane, &resource.to_string()).await;
    let (text, json) = check(&control_plane, "addons", 0).await;
    assert!(
        text.contains("release 0.102.0, image registry.example/operator:1, replaced by the switch"),
        "{text}"
    );
    assert!(
        text.contains("NetworkAddonsConfig cluster") && text.contains("to create"),
        "{text}"
    );
    assert_eq!(
        (
            &json["operators"][0]["name"],
            &json["operators"][0]["replaced"]
        ),
        (&json!(OPERATOR), &json!(true))
    );

    // An object of an old release, for which Weft's operator has no rights.
    let owner = json!([
        {
            "apiVersion": ADDONS, "kind": "NetworkAddonsConfig", "name": "cluster",
            "uid": "00000000-0000-4000-8000-000000000001"
        }
    ]);
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "nmstate-webhook", "namespace": NAMESPACE, "ownerReferences": owner},
        "spec": {"selector": {}}
    });
    apply(&control_plane, &budget.to_string()).await;
    let (text, _) = check(&control_plane, "addons", 0).await;
    assert!(
        text.contains(&format!(
            "kubectl -n {NAMESPACE} delete poddisruptionbudget nmstate-webhook"
        )),
        "{text}"
    );

    let switch = json["switch"].as_str().unwrap();
    let arguments = switch
        .strip_prefix("weft ")
        .and_then(|rest| rest.strip_suffix(" | kubectl apply -f -"))
        .unwrap();
    let manifests = run(
        control_plane.kubeconfig(),
        &arguments.split(' ').collect::<Vec<_>>(),
        "",
    )
    .await
    .ended(0)
    .stdout;
    // The selector of a Deployment cannot change.
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &manifests)
        .await
        .unwrap();
    let (text, json) = check(&control_plane, "addons", 0).await;
    assert!(
        text.contains(&format!("weft      Deployment {NAMESPACE}/{OPERATOR}")),
        "{text}"
    );
    assert_eq!(
        (&json["operators"], &json["switch"]),
        (&json!([]), &Value::Null)
    );
}

/// The images in the operator's variables of this document, by their names.
fn images(manifests: &str) -> BTreeMap<String, String> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let containers = objects.iter().filter_map(|object| {
        object
            .pointer("/spec/template/spec/containers/0/env")?
            .as_array()
    });
    containers
        .flatten()
        .filter_map(|variable| {
            let name = variable["name"].as_str()?;
            Some((name.to_owned(), variable["value"].as_str()?.to_owned()))
        })
        .filter(|(name, _)| name.ends_with("_IMAGE") && name != "OPERATOR_IMAGE")
        .collect()
}

#[tokio::test]
async fn images_of_the_running_operator_are_taken_over() {
    let control_plane = cluster().await;
    let kubeconfig = control_plane.kubeconfig();
    let arguments = |more: &[&'static str]| -> Vec<&'static str> {
        [&["manifests", "--domains", "addons"][..], more].concat()
    };
    let nobody = run(kubeconfig, &arguments(&["--running-images"]), "").await;
    assert!(
        nobody
            .ended(2)
            .stderr
            .contains("there is no operator of addons in the cluster"),
        "no operator"
    );

    let operator = ("Deployment", "hco", OPERATOR);
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let pool = "registry.example/kubemacpool:1";
    let variables = |release: &str| {
        json!([
            {"name": "OPERAND_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            variable("OPERATOR_VERSION", release),
            variable("MULTUS_IMAGE", "registry.example/multus:1"),
            variable("KUBEMACPOOL_IMAGE", pool),
            variable("OVS_CNI_IMAGE", "registry.example/Ovs:1"),
            variable("SRIOV_CNI_IMAGE", "registry.example/sriov:1"),
        ])
    };
    install_with(&control_plane, operator, json!({}), variables("0.101.2")).await;
    let (text, json) = check(&control_plane, "addons", 0).await;
    assert!(
        text.contains("those of release 0.101.2 may not run"),
        "{text}"
    );
    assert_eq!(json["images"], json!({}));
    assert_eq!(
        json["switch"],
        "weft manifests --split --domains addons --namespace hco | kubectl apply -f -"
    );

    // KubeMacPool does not run, so nothing shows that its image knows the argument.
    install_with(&control_plane, operator, json!({}), variables("0.102.0")).await;
    let (text, json) = check(&control_plane, "addons", 0).await;
    assert!(
        text.contains("  image     MULTUS_IMAGE=registry.example/multus:1\n"),
        "{text}"
    );
    assert!(text.contains("OVS_CNI_IMAGE of Deployment hco/"), "{text}");
    assert_eq!(
        json["images"],
        json!({"MULTUS_IMAGE": "registry.example/multus:1"})
    );
    assert_eq!(
        json["switch"],
        "weft manifests --split --domains addons --namespace hco --running-images | kubectl apply -f -"
    );
    let manager = |arguments: Value| {
        let container = json!({"name": "manager", "image": pool, "args": arguments});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "namespace": "hco", "name": "kubemacpool-mac-controller-manager"
        }, "spec": {
            "selector": {"matchLabels": {"of": "kubemacpool"}},
            "template": {
                "metadata": {"labels": {"of": "kubemacpool"}}, "spec": {"containers": [container]}
            }
        }})
    };
    apply(
        &control_plane,
        &manager(json!(["--v=production"])).to_string(),
    )
    .await;
    let (text, json) = check(&control_plane, "addons", 0).await;
    assert!(
        text.contains("Weft takes its own KUBEMACPOOL_IMAGE: the image of Deployment hco/kubemacpool-mac-controller-manager does not know"),
        "{text}"
    );
    assert_eq!(json["images"].get("KUBEMACPOOL_IMAGE"), None);
    let arguments_of_later = json!(["--v=production", "--tls-min-version=VersionTLS13"]);
    apply(&control_plane, &manager(arguments_of_later).to_string()).await;
    let (_, json) = check(&control_plane, "addons", 0).await;
    assert_eq!(json["images"]["KUBEMACPOOL_IMAGE"], pool);

    // In both layouts, and from Weft's own Deployment once there is no other.
    let plain = run(kubeconfig, &arguments(&[]), "").await.ended(0).stdout;
    let mut expected = images(&plain);
    expected.insert(
        "MULTUS_IMAGE".to_owned(),
        "registry.example/multus:1".to_owned(),
    );
    expected.insert("KUBEMACPOOL_IMAGE".to_owned(), pool.to_owned());
    assert_eq!(expected.len(), 10, "{expected:?}");
    for layout in [&["--running-images"][..], &["--split", "--running-images"]] {
        let printed = run(kubeconfig, &arguments(layout), "").await.ended(0);
        assert_eq!(images(&printed.stdout), expected, "{layout:?}");
        assert!(
            printed
                .stderr
                .contains("2 images are those of Deployment hco/"),
            "{}",
            printed.stderr
        );
    }
    let taken = run(kubeconfig, &arguments(&["--running-images"]), "").await;
    apply(&control_plane, &taken.ended(0).stdout).await;
    control_plane
        .kubectl(&["-n", "hco", "delete", "deployment", OPERATOR])
        .await
        .unwrap();
    let again = run(kubeconfig, &arguments(&["--running-images"]), "")
        .await
        .ended(0);
    assert_eq!(images(&again.stdout), expected);
    assert!(
        again
            .stderr
            .contains("10 images are those of Deployment weft-system/weft-operator"),
        "{}",
        again.stderr
    );
}

#[tokio::test]
async fn a_keeper_of_an_original_is_named_with_the_way_out() {
    let control_plane = cluster().await;
    let olm = json!({
        "labels": {
            "olm.owner": "kubevirt-hyperconverged-operator.v1.17.0",
            "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "hco"
        }
    });
    install_original(&control_plane, "Deployment", "hco", OPERATOR, olm).await;
    let labels = json!({"app.kubernetes.io/managed-by": "hco-operator"});
    let resource = json!({
        "apiVersion": ADDONS, "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster", "labels": labels}, "spec": {"multus": {}}
    });
    apply(&control_plane, &resource.to_string()).await;
    let (text, json) = check(&control_plane, "addons", 1).await;
    assert!(
        text.contains("in the way: OLM (ClusterServiceVersion hco/kubevirt-hyperconverged-operator.v1.17.0) keeps Deployment hco/"),
        "{text}"
    );
    assert!(
        text.contains(
            "kubectl -n hco delete clusterserviceversion kubevirt-hyperconverged-operator.v1.17.0"
        ),
        "{text}"
    );
    assert!(
        text.contains("NetworkAddonsConfig cluster is kept by hyperconverged-cluster-operator"),
        "{text}"
    );
    assert_eq!(
        json["switch"],
        "weft manifests --split --domains addons --namespace hco | kubectl apply -f -"
    );
    let components = json["resources"][0]["plan"]["components"].to_string();
    assert!(
        components.contains(r#""namespace":"hco""#) && !components.contains(NAMESPACE),
        "planned where the original is: {components}"
    );

    let release = json!({
        "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}
    });
    install_original(
        &control_plane,
        "DaemonSet",
        "openshift-cluster-network-operator",
        "cluster-network-operator",
        release,
    )
    .await;
    let (text, json) = check(&control_plane, "cluster-network", 1).await;
    assert!(
        text.contains("name: cluster-network-operator, unmanaged: true} to spec.overrides"),
        "{text}"
    );
    assert_eq!(
        json["operators"][0]["keptBy"],
        json!(["cluster-version-operator (ClusterVersion version)"])
    );
}

#[tokio::test]
async fn objects_that_the_switch_does_not_replace_block() {
    let control_plane = cluster().await;
    let name = "placement-operator-controller-manager";
    install_original(
        &control_plane,
        "Deployment",
        "openstack-operators",
        name,
        json!({}),
    )
    .await;
    apply(
        &control_plane,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cloud"}})
            .to_string(),
    )
    .await;
    control_plane
        .kubectl_with_input(
            &["-n", "cloud", "apply", "-f", "-"],
            &example("placement/placement.yaml")
                .replace("namespace: openstack", "namespace: cloud"),
        )
        .await
        .unwrap();
    let webhook = "placement-operator-validating-webhook-configuration";
    let asked = json!({"name": "vplacementapi.kb.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
    "clientConfig": {
        "service": {
            "namespace": "openstack-operators", "name": "placement-operator-webhook-service",
            "path": "/validate"
        }
    },
    "rules": [
        {
            "apiGroups": ["placement.openstack.org"], "apiVersions": ["v1beta1"],
            "operations": ["UPDATE"], "resources": ["placementapis"]
        }
    ]});
    let api = "admissionregistration.k8s.io/v1";
    let configuration = json!({
        "apiVersion": api, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": webhook},
        "webhooks": [asked]
    });
    apply(&control_plane, &configuration.to_string()).await;
    let (text, json) = check(&control_plane, "placement", 1).await;
    assert!(
        text.contains(&format!(
            "kubectl -n openstack-operators delete deployment {name}"
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "kubectl delete validatingwebhookconfiguration {webhook}"
        )),
        "{text}"
    );
    assert_eq!(
        json["switch"],
        "weft manifests --split --domains placement --placement-namespaces cloud | kubectl apply -f -"
    );

    // Policies of nodes that report nothing.
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "p"}, "spec": {"desiredState": {}}
    });
    apply(&control_plane, &policy.to_string()).await;
    let (text, _) = check(&control_plane, "node-network", 0).await;
    assert!(text.contains("no node reports its network"), "{text}");

    // The definition of early 2019.
    let states = "nodenetworkstates.nmstate.io";
    control_plane
        .kubectl(&["delete", "crd", states])
        .await
        .unwrap();
    let version = json!({
        "name": "v0", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}
    });
    let names = json!({"plural": "nodenetworkstates", "kind": "NodeNetworkState"});
    let early = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": states},
    "spec": {
        "group": "nmstate.io", "scope": "Namespaced", "names": names, "versions": [version]
    }});
    apply(&control_plane, &early.to_string()).await;
    let (text, _) = check(&control_plane, "node-network", 1).await;
    assert!(
        text.contains(&format!(
            "CustomResourceDefinition {states} has scope Namespaced, and Weft's has scope Cluster"
        )),
        "{text}"
    );
    assert!(text.contains("lists v0 in status.storedVersions"), "{text}");
}

/// Client-side apply keeps fields that it has not set itself: here a command that Weft's image does
/// not have.
#[tokio::test]
async fn a_workload_that_was_not_applied_is_to_be_deleted_first() {
    let control_plane = cluster().await;
    let (namespace, name) = ("nmstate", "nmstate-operator");
    let labels = json!({"name": "kubernetes-nmstate-operator"});
    let container =
        json!({"name": name, "image": "registry.example/operator:1", "command": ["manager"]});
    let original = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "namespace": namespace, "name": name
    }, "spec": {
        "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]}
        }}});
    control_plane
        .kubectl(&["create", "namespace", namespace])
        .await
        .unwrap();
    control_plane
        .kubectl_with_input(&["create", "-f", "-"], &original.to_string())
        .await
        .unwrap();
    let (text, json) = check(&control_plane, "node-network", 1).await;
    assert!(text.contains("was not made by kubectl apply"), "{text}");

    let command = format!("kubectl -n {namespace} delete deployment {name}");
    assert!(
        json["inTheWay"][0].as_str().unwrap().ends_with(&command),
        "{json:#}"
    );
    control_plane
        .kubectl(&command.split(' ').skip(1).collect::<Vec<_>>())
        .await
        .unwrap();
    let (_, json) = check(&control_plane, "node-network", 0).await;
    assert_eq!(json["operators"], json!([]));
}

#[tokio::test]
async fn a_resource_that_the_operator_would_refuse_is_in_the_way() {
    let control_plane = cluster().await;
    install_original(&control_plane, "Deployment", NAMESPACE, OPERATOR, json!({})).await;
    let spec = json!({
        "kubeMacPool": {"rangeStart": "02:00:00:00:00:10", "rangeEnd": "02:00:00:00:00:01"}
    });
    let resource = json!({
        "apiVersion": ADDONS, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": spec
    });
    // The original's definition has no such rule.
    let definition = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";
    let all = json!([
        {
            "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }
    ]);
    control_plane
        .kubectl(&[
            "patch",
            "crd",
            definition,
            "--type=json",
            "-p",
            &all.to_string(),
        ])
        .await
        .unwrap();
    wait_until("the rule is gone", async || {
        control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &resource.to_string())
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
    let (text, _) = check(&control_plane, "addons", 1).await;
    assert!(
        text.contains("in the way: NetworkAddonsConfig cluster: the operator would refuse it"),
        "{text}"
    );
    assert!(text.contains("rangeEnd"), "{text}");
}
