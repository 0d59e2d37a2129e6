#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! OpenShift's SecurityContextConstraints: each permits what the pods that ask for it need, and no
//! add-on is without.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::{Decision, Facts, kinds};

use crate::testing::{decide, decide_knowing, full, object, objects};

const REQUIRED: &str = "openshift.io/required-scc";

fn constrained() -> Decision {
    decide_knowing(&Facts::of_every_sort_of_cluster()[2], &full())
}

#[test]
fn they_are_there_where_they_are_served_and_only_there() {
    let names = |decision: &Decision| {
        let all = objects(decision)
            .filter(|object| object.key().kind == kinds::SECURITY_CONTEXT_CONSTRAINTS);
        all.map(|object| object.key().name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&constrained()),
        [
            "multus",
            "linux-bridge",
            "bridge-marker",
            "ovs-cni-marker",
            "macvtap-cni"
        ]
    );
    assert!(names(&decide(&full())).is_empty());
    assert!(
        objects(&decide(&full())).all(|object| !object.key().name.ends_with("-scc-use")
            && object.key().name != "linux-bridge")
    );
}

#[test]
fn every_pod_may_use_what_it_asks_for_and_that_permits_what_it_needs() {
    let decision = constrained();
    // OpenShift's own, for pods without special rights.
    let mut own = BTreeSet::from(
        [
            "multus",
            "linux-bridge",
            "bridge-marker",
            "ovs-cni-marker",
            "macvtap-cni",
        ]
        .map(str::to_owned),
    );
    for workload in objects(&decision)
        .filter(|object| matches!(object.key().kind, kinds::DAEMON_SET | kinds::DEPLOYMENT))
    {
        let name = &workload.key().name;
        let template = &workload.body()["spec"]["template"];
        let pod = &template["spec"];
        let Some(asked) = template["metadata"]["annotations"][REQUIRED]
            .as_str()
            .filter(|asked| *asked != "restricted-v2")
        else {
            let is_privileged =
                pod.to_string().contains("\"privileged\":true") || pod["hostNetwork"] == true;
            // It is refused there (CNAO #1602).
            assert!(
                !is_privileged || name == "dynamic-networks-controller-ds",
                "{name} needs rights that it does not ask for"
            );
            continue;
        };
        own.remove(asked);
        let constraints = object(&decision, "SecurityContextConstraints", asked);
        let binding = object(&decision, "RoleBinding", &format!("{asked}-scc-use"));
        assert_eq!(
            binding["subjects"][0]["name"], pod["serviceAccountName"],
            "{name}"
        );
        assert_eq!(
            object(
                &decision,
                "ServiceAccount",
                pod["serviceAccountName"].as_str().unwrap()
            )["kind"],
            "ServiceAccount"
        );
        let rule = &object(
            &decision,
            "ClusterRole",
            binding["roleRef"]["name"].as_str().unwrap(),
        )["rules"][0];
        assert_eq!(
            (&rule["resourceNames"], &rule["verbs"]),
            (&json!([asked]), &json!(["use"]))
        );

        for (needs, permits) in [
            ("hostNetwork", "allowHostNetwork"),
            ("hostPID", "allowHostPID"),
        ] {
            assert!(
                pod[needs] != true || constraints[permits] == true,
                "{name} needs {needs}"
            );
        }
        let volumes = constraints["volumes"].as_array().unwrap();
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            let kind = volume
                .as_object()
                .unwrap()
                .keys()
                .find(|key| *key != "name")
                .unwrap();
            assert!(volumes.contains(&json!(kind)), "{name} mounts {volume}");
        }
        assert!(volumes.contains(&json!("projected")), "the account's token");
        assert!(
            volumes.is_sorted_by_key(|volume| volume.as_str().unwrap()),
            "as OpenShift stores them: {volumes:?}"
        );
        assert_eq!(
            constraints["allowHostDirVolumePlugin"] == true,
            volumes.contains(&json!("hostPath")),
            "{asked}"
        );
        let mut host_ports = false;
        for container in ["initContainers", "containers"]
            .iter()
            .flat_map(|list| pod[*list].as_array().into_iter().flatten())
        {
            let context = &container["securityContext"];
            assert!(
                context["privileged"] != true || constraints["allowPrivilegedContainer"] == true,
                "{name}"
            );
            host_ports |= pod["hostNetwork"] == true && !container["ports"].is_null();
        }
        assert!(
            !host_ports || constraints["allowHostPorts"] == true,
            "{name} listens on the host"
        );
    }
    assert!(own.is_empty(), "nobody asks for {own:?}");
}

#[test]
fn the_user_of_unprivileged_pods_is_left_to_openshift() {
    let user = |decision: &Decision, name: &str| {
        object(decision, "Deployment", name)["spec"]["template"]["spec"]["securityContext"]["runAsUser"].clone()
    };
    for name in [
        "kubemacpool-mac-controller-manager",
        "kubemacpool-cert-manager",
        "secondary-dns",
    ] {
        assert!(user(&decide(&full()), name).is_number(), "{name}");
        assert_eq!(user(&constrained(), name), Value::Null, "{name}");
    }
}
