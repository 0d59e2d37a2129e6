//! The manifests against the restricted profile of the Pod Security Standards
//! (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>): what departs from it
//! has its reason next to it, and nothing else does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

const AGENT: &str = include_str!("../../../../components/nmstate/daemonset.yaml");
const ON_DEMAND: &str = include_str!("../../../../examples/node-network/on-demand/job.yaml");
const OPERATOR: &str = include_str!("../../../../deploy/node-network/operator.yaml");
/// Start of a comment that gives the reason.
const MARK: &str = "# Exception: ";

/// The line of the manifest where each departure stands, as it begins there.
fn departures(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        found.extend((pod[field] == true).then(|| format!("{field}: true")));
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let allowed = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        let departs = volume
            .as_object()
            .unwrap()
            .keys()
            .any(|source| source != "name" && !allowed.contains(&&**source));
        found.extend(departs.then(|| format!("- name: {}", volume["name"].as_str().unwrap())));
    }
    let containers = || {
        ["initContainers", "containers"]
            .iter()
            .flat_map(|list| pod[*list].as_array().into_iter().flatten())
    };
    for context in std::iter::once(&pod["securityContext"])
        .chain(containers().map(|container| &container["securityContext"]))
    {
        found.extend((context["privileged"] == true).then(|| "privileged: true".to_owned()));
        found.extend((context["runAsUser"] == 0).then(|| "runAsUser: 0".to_owned()));
        found.extend((context["runAsNonRoot"] == false).then(|| "runAsNonRoot: false".to_owned()));
        found.extend(
            (context["seccompProfile"]["type"] == "Unconfined")
                .then(|| "seccompProfile:".to_owned()),
        );
        found.extend(
            (context["appArmorProfile"]["type"] == "Unconfined")
                .then(|| "appArmorProfile:".to_owned()),
        );
        let types = [
            "container_t",
            "container_init_t",
            "container_kvm_t",
            "container_engine_t",
        ];
        let departs = context["seLinuxOptions"]["type"]
            .as_str()
            .is_some_and(|name| !types.contains(&name));
        found.extend(departs.then(|| "seLinuxOptions:".to_owned()));
        for capability in context["capabilities"]["add"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|capability| *capability != "NET_BIND_SERVICE")
        {
            found.push(format!("- {}", capability.as_str().unwrap()));
        }
    }
    for container in containers() {
        let context = &container["securityContext"];
        assert_eq!(
            context["allowPrivilegeEscalation"], false,
            "{}",
            container["name"]
        );
        assert_eq!(
            context["capabilities"]["drop"],
            json!(["ALL"]),
            "{}",
            container["name"]
        );
        assert_eq!(
            context["readOnlyRootFilesystem"], true,
            "{}",
            container["name"]
        );
        for port in container["ports"].as_array().into_iter().flatten() {
            found.extend(
                port["hostPort"]
                    .is_u64()
                    .then(|| format!("hostPort: {}", port["hostPort"])),
            );
        }
    }
    let is_set = |field: &str, value: &Value| {
        pod["securityContext"]
            .pointer(field)
            .is_some_and(|found| found == value)
    };
    assert!(is_set("/seccompProfile/type", &json!("RuntimeDefault")));
    assert!(
        !pod["securityContext"]["runAsNonRoot"].is_null(),
        "left out, it departs without a word"
    );
    found
}

fn pod(manifest: &str) -> Value {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    objects
        .into_iter()
        .find_map(|object| object.pointer("/spec/template/spec").cloned())
        .unwrap()
}

/// The lines with a comment above them that gives a reason.
fn with_reason(manifest: &str) -> Vec<String> {
    let (mut explained, mut lines) = (false, Vec::new());
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('#') {
            explained |= line.starts_with(MARK) && line.len() > MARK.len();
        } else {
            lines.extend(explained.then(|| line.to_owned()));
            explained = false;
        }
    }
    lines
}

#[test]
fn each_departure_has_its_reason_beside_it_and_each_reason_a_departure() {
    let (mut departures, mut explained) = (departures(&pod(AGENT)), with_reason(AGENT));
    departures.sort();
    explained.sort();
    assert_eq!(departures, explained);
    assert!(!departures.iter().any(|line| line.starts_with("privileged")
        || line.starts_with("hostPID")
        || line.starts_with("hostIPC")));
}

#[test]
fn the_operator_departs_in_nothing() {
    let pod = pod(OPERATOR);
    assert_eq!(departures(&pod), Vec::<String>::new());
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
}

#[test]
fn the_job_of_the_examples_has_the_pod_of_the_daemon_set() {
    let pod = |text: &str| {
        serde_saphyr::from_str::<Value>(text).unwrap()["spec"]["template"]["spec"].clone()
    };
    let (mut of_job, mut of_set) = (pod(ON_DEMAND), pod(AGENT));
    assert_eq!(of_job["containers"][0]["args"], json!(["once"]));
    // Only hosts without NetworkManager have a guardian.
    let containers = of_set["containers"].as_array_mut().unwrap();
    assert_eq!(containers.remove(1)["name"], "guardian");
    for (pod, own, of_container) in [
        (
            &mut of_job,
            &["nodeName", "restartPolicy"][..],
            &["args"][..],
        ),
        (
            &mut of_set,
            &["nodeSelector"],
            &["livenessProbe", "readinessProbe"],
        ),
    ] {
        own.iter().for_each(|field| {
            assert!(
                pod.as_object_mut().unwrap().remove(*field).is_some(),
                "{field}"
            )
        });
        let container = pod["containers"][0].as_object_mut().unwrap();
        of_container
            .iter()
            .for_each(|field| assert!(container.remove(*field).is_some(), "{field}"));
    }
    assert_eq!(of_job, of_set);
}
