#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::{Facts, Node};

use crate::{
    Image, Settings,
    testing::{containers, decide, decide_knowing, decide_with, full, object, objects},
};

#[test]
fn every_container_can_be_diagnosed_and_scheduled() {
    let images: Vec<(String, Image)> = Image::ALL
        .iter()
        .map(|image| (format!("registry.example/x:{image:?}"), *image))
        .collect();
    let env = |name: &str| {
        images
            .iter()
            .find(|(_, image)| image.env() == name)
            .map(|(reference, _)| reference.clone())
    };
    let decision = decide_with(Settings::from_env(env).unwrap(), &full(), None, None).unwrap();
    let containers = containers(&decision);
    assert_eq!(containers.len(), 14);
    for (workload, container) in containers {
        let at = format!("{workload}/{}", container["name"]);
        assert_eq!(
            container["terminationMessagePolicy"], "FallbackToLogsOnError",
            "{at}"
        );
        assert!(
            container["resources"]["requests"]["cpu"].is_string()
                && container["resources"]["requests"]["memory"].is_string(),
            "{at}"
        );
        assert_eq!(container["resources"]["limits"], Value::Null, "{at}");
        assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{at}");
        assert!(
            images
                .iter()
                .any(|(reference, _)| container["image"] == *reference),
            "{at}: {} is not from the settings",
            container["image"]
        );
    }
}

#[test]
fn an_image_that_is_named_is_what_its_containers_run() {
    let before = decide(&full());
    for image in Image::ALL {
        let mut resource = full();
        resource["spec"]["images"] = json!({image.field(): "registry.example/mine:v1"});
        let after = decide(&resource);
        let of_it: BTreeSet<_> = containers(&before)
            .into_iter()
            .filter(|(_, container)| container["image"] == image.default_reference())
            .map(|(name, _)| name)
            .collect();
        assert!(!of_it.is_empty());
        let mine = containers(&after)
            .into_iter()
            .filter(|(_, container)| container["image"] == "registry.example/mine:v1");
        assert_eq!(mine.map(|(name, _)| name).collect::<BTreeSet<_>>(), of_it);
    }
}

#[test]
fn a_registry_replaces_that_of_every_image_that_is_not_named() {
    let mut resource = full();
    resource["spec"]["imageRegistry"] = json!("registry.example:5000/mirror");
    resource["spec"]["images"] = json!({"coreDNS": "registry.example/coredns:v1"});
    let env =
        |name: &str| (name == "MULTUS_IMAGE").then(|| "other.example/team/multus:v9".to_owned());
    let decision = decide_with(Settings::from_env(env).unwrap(), &resource, None, None).unwrap();
    let containers = containers(&decision);
    let images: BTreeSet<_> = containers
        .iter()
        .map(|(_, container)| container["image"].as_str().unwrap())
        .collect();
    assert!(
        images.contains("registry.example:5000/mirror/team/multus:v9"),
        "the environment's too: {images:?}"
    );
    assert!(images.contains(
        "registry.example:5000/mirror/kubevirt/cni-default-plugins@sha256:976a24392c2a096c38c2663d234b2d3131f5c24558889196d30b9ac1b6716788"
    ));
    for image in images
        .into_iter()
        .filter(|image| *image != "registry.example/coredns:v1")
    {
        assert!(
            image.starts_with("registry.example:5000/mirror/"),
            "{image}"
        );
    }
}

#[test]
fn every_pod_can_pull_with_the_secrets() {
    let mut resource = full();
    resource["spec"]["imagePullSecrets"] = json!([{"name": "mirror"}, {"name": "other"}]);
    let decision = decide(&resource);
    let mut pods = 0;
    for object in objects(&decision) {
        if let Some(pod) = object.body().pointer("/spec/template/spec") {
            assert_eq!(
                pod["imagePullSecrets"],
                json!([{"name": "mirror"}, {"name": "other"}]),
                "{}",
                object.key()
            );
            pods += 1;
        }
    }
    assert_eq!(pods, 10);
}

#[test]
fn the_manifests_name_the_images_that_are_used_by_default() {
    let decision = decide(&full());
    for (workload, container) in containers(&decision) {
        let image = container["image"].as_str().unwrap();
        let files = [
            include_str!("../../../components/multus/daemonset.yaml"),
            include_str!("../../../components/linux-bridge/plugin.yaml"),
            include_str!("../../../components/linux-bridge/marker.yaml"),
            include_str!("../../../components/ovs/daemonset.yaml"),
            include_str!("../../../components/kubemacpool/cert-manager.yaml"),
            include_str!("../../../components/kubemacpool/manager.yaml"),
            include_str!("../../../components/multus-dynamic-networks/daemonset.yaml"),
            include_str!("../../../components/macvtap/daemonset.yaml"),
            include_str!("../../../components/secondary-dns/deployment.yaml"),
            include_str!("../../../components/kubevirt-ipam-controller/deployment.yaml"),
        ];
        assert!(
            files
                .iter()
                .any(|file| file.contains(&format!("image: {image}\n"))),
            "{workload}: {image}"
        );
    }
}

#[test]
fn the_namespace_is_set_everywhere() {
    let settings = Settings {
        namespace: "elsewhere".into(),
        operator_namespace: "operator".into(),
        ..Settings::default()
    };
    let decision = decide_with(settings, &full(), None, None).unwrap();
    for object in objects(&decision) {
        assert!(
            !object.body().to_string().contains("cluster-network-addons"),
            "{}",
            object.key()
        );
        assert!(
            object
                .key()
                .namespace
                .as_deref()
                .is_none_or(|namespace| namespace == "elsewhere"),
            "{}",
            object.key()
        );
    }
    assert_eq!(
        object(&decision, "ClusterRoleBinding", "multus")["subjects"][0]["namespace"],
        "elsewhere"
    );
    assert_eq!(
        object(
            &decision,
            "MutatingWebhookConfiguration",
            "kubemacpool-mutator"
        )["webhooks"][1]["clientConfig"]["service"]["namespace"],
        "elsewhere"
    );
    let labels = &object(&decision, "Namespace", "elsewhere")["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/component"], "network");
    assert_eq!(
        labels["app.kubernetes.io/managed-by"],
        Value::Null,
        "the namespace is not the operator's alone"
    );
    assert_eq!(
        decision.record.unwrap().key().namespace.as_deref(),
        Some("operator")
    );
    assert!(
        decision
            .made_by_operands
            .iter()
            .all(|key| key.namespace.as_deref() == Some("elsewhere"))
    );
}

#[test]
fn placement_follows_infra_for_the_cluster_and_workloads_for_the_rest() {
    let mut resource = full();
    resource["spec"]["placementConfiguration"] = json!({
        "infra": {"nodeSelector": {"for": "infra"}},
        "workloads": {"nodeSelector": {"for": "workloads"}}
    });
    for object in objects(&decide(&resource)) {
        let Some(pod) = object.body().pointer("/spec/template/spec") else {
            continue;
        };
        // Pods of a DaemonSet serve their node.
        let expected = if object.key().kind.kind == "Deployment" {
            "infra"
        } else {
            "workloads"
        };
        assert_eq!(
            pod["nodeSelector"],
            json!({"for": expected}),
            "{}",
            object.key()
        );
        assert_eq!(
            (&pod["affinity"], &pod["tolerations"]),
            (&json!({}), &Value::Null),
            "{}",
            object.key()
        );
    }
}

#[test]
fn the_manifests_show_the_default_placement() {
    let placement = |object: &Value| {
        ["nodeSelector", "affinity", "tolerations"]
            .map(|field| object.pointer("/spec/template/spec").unwrap()[field].clone())
    };
    let decision = decide(&full());
    let written = |text: &str, kind: &str| {
        placement(
            weft_plan::parse_yaml(text)
                .unwrap()
                .iter()
                .find(|m| m.key().kind.kind == kind)
                .unwrap()
                .body(),
        )
    };
    for (text, kind, name) in [
        (
            include_str!("../../../components/multus/daemonset.yaml"),
            "DaemonSet",
            "multus",
        ),
        (
            include_str!("../../../components/linux-bridge/plugin.yaml"),
            "DaemonSet",
            "kube-cni-linux-bridge-plugin",
        ),
        (
            include_str!("../../../components/linux-bridge/marker.yaml"),
            "DaemonSet",
            "bridge-marker",
        ),
        (
            include_str!("../../../components/ovs/daemonset.yaml"),
            "DaemonSet",
            "ovs-cni-amd64",
        ),
        (
            include_str!("../../../components/kubemacpool/cert-manager.yaml"),
            "Deployment",
            "kubemacpool-cert-manager",
        ),
        (
            include_str!("../../../components/kubemacpool/manager.yaml"),
            "Deployment",
            "kubemacpool-mac-controller-manager",
        ),
        (
            include_str!("../../../components/multus-dynamic-networks/daemonset.yaml"),
            "DaemonSet",
            "dynamic-networks-controller-ds",
        ),
        (
            include_str!("../../../components/macvtap/daemonset.yaml"),
            "DaemonSet",
            "macvtap-cni",
        ),
        (
            include_str!("../../../components/secondary-dns/deployment.yaml"),
            "Deployment",
            "secondary-dns",
        ),
        (
            include_str!("../../../components/kubevirt-ipam-controller/deployment.yaml"),
            "Deployment",
            "kubevirt-ipam-controller-manager",
        ),
    ] {
        assert_eq!(
            written(text, kind),
            placement(object(&decision, kind, name)),
            "{name}"
        );
    }
}

#[test]
fn certificates_and_tls_follow_the_configuration() {
    let mut resource = full();
    resource["spec"]["selfSignConfiguration"] = json!({
        "caRotateInterval": "200h20m2s", "caOverlapInterval": "3h", "certRotateInterval": "20h",
        "certOverlapInterval": "1.5h"
    });
    resource["spec"]["tlsSecurityProfile"] = json!({"type": "Intermediate"});
    let decision = decide(&resource);
    let environment =
        object(&decision, "Deployment", "kubemacpool-cert-manager")["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    for (name, value) in [
        ("CA_ROTATE_INTERVAL", "200h20m2s"),
        ("CA_OVERLAP_INTERVAL", "3h"),
        ("CERT_ROTATE_INTERVAL", "20h"),
        ("CERT_OVERLAP_INTERVAL", "1.5h"),
    ] {
        assert!(
            environment
                .as_array()
                .unwrap()
                .contains(&json!({"name": name, "value": value})),
            "{name}"
        );
    }
    let args = |decision: &weft_plan::Decision| {
        object(decision, "Deployment", "kubemacpool-mac-controller-manager")["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    assert_eq!(
        args(&decide(&full())),
        json!([
            "--v=production",
            "--wait-time=300",
            "--tls-min-version=VersionTLS13"
        ])
    );
    let args = args(&decision);
    assert_eq!(args[2], "--tls-min-version=VersionTLS12");
    assert!(
        args[3]
            .as_str()
            .unwrap()
            .starts_with("--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"),
        "{args}"
    );
}

#[test]
fn only_pods_that_read_a_changed_config_once_are_rolled() {
    let hash = |decision: &weft_plan::Decision| {
        let template =
            &object(decision, "DaemonSet", "dynamic-networks-controller-ds")["spec"]["template"];
        template["metadata"]["annotations"]["weft.network/config-hash"].clone()
    };
    let before = decide(&full());
    assert_eq!(hash(&before).as_str().unwrap().len(), 16);

    // A new version of the operator labels the ConfigMap anew and rolls nothing.
    let newer = decide_with(
        Settings {
            version: "9.9.9".into(),
            ..Settings::default()
        },
        &full(),
        None,
        None,
    )
    .unwrap();
    assert_eq!(hash(&newer), hash(&before));

    // KubeMacPool watches its range.
    let mut resource = full();
    resource["spec"]["kubeMacPool"]["rangeEnd"] = "02:00:01:00:00:00".into();
    let other_range = decide(&resource);
    assert_eq!(
        object(&other_range, "ConfigMap", "kubemacpool-mac-range-config")["data"],
        json!({"RANGE_START": "02:00:00:00:00:00", "RANGE_END": "02:00:01:00:00:00"})
    );
    let workload = |decision, name| object(decision, "Deployment", name).clone();
    for name in [
        "kubemacpool-mac-controller-manager",
        "kubemacpool-cert-manager",
    ] {
        assert_eq!(workload(&other_range, name), workload(&before, name));
    }
}

#[test]
fn a_folder_without_plugins_proves_nothing_if_the_runtime_has_several() {
    let several = |runtimes: &[&str]| {
        let node = |runtime: &str| Node {
            container_runtime: runtime.to_owned(),
            ..Node::default()
        };
        let nodes = runtimes
            .iter()
            .map(|runtime| ((*runtime).to_owned(), node(runtime)))
            .collect();
        let decision = decide_knowing(
            &Facts {
                nodes,
                ..Facts::default()
            },
            &full(),
        );
        let variables = containers(&decision)
            .into_iter()
            .flat_map(|(_, container)| container["env"].as_array().cloned().unwrap_or_default());
        let values = variables
            .filter(|variable| variable["name"] == "SEVERAL_PLUGIN_FOLDERS")
            .map(|variable| variable["value"].clone());
        values.collect::<Vec<_>>()
    };
    assert_eq!(
        several(&["containerd://2.1.0"]),
        [Value::Null, Value::Null, Value::Null]
    );
    assert_eq!(
        several(&["containerd://2.1.0", "cri-o://1.34.0"]),
        ["yes", "yes", "yes"]
    );
}
