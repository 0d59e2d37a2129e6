#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use crate::testing::{EXAMPLE_0_23, decide, yaml};
use serde_json::json;
use weft_plan::{
    Notice, ObjectKey, Refusal, kinds,
    report::{Failure, FailureClass, WorkloadReport},
};

fn condition(type_: &str, status: &str) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        ..Condition::default()
    }
}

fn write(previous: Value, available: &str, report: &Report, units: &[Unit]) -> Value {
    let settings = Settings {
        version: "2.0".into(),
        ..Settings::default()
    };
    status(
        &settings,
        &previous,
        vec![condition("Available", available)],
        report,
        units,
    )
}

#[test]
fn containers_are_listed_in_the_order_of_the_original() {
    let decision = decide(&yaml(EXAMPLE_0_23));
    let names: Vec<_> = containers(&decision.units)
        .into_iter()
        .map(|c| format!("{} {} {}", c.parent_kind, c.parent_name, c.name))
        .collect();
    assert_eq!(
        names,
        [
            "DaemonSet multus install-multus-binary",
            "DaemonSet multus kube-multus",
            "DaemonSet kube-cni-linux-bridge-plugin cni-plugins",
            "DaemonSet bridge-marker bridge-marker",
            "Deployment kubemacpool-cert-manager manager",
            "Deployment kubemacpool-mac-controller-manager manager",
            "DaemonSet ovs-cni-amd64 ovs-cni-plugin",
            "DaemonSet ovs-cni-amd64 ovs-cni-marker",
        ]
    );
    assert!(
        containers(&decision.units)
            .iter()
            .all(|container| !container.image.is_empty())
    );
}

#[test]
fn the_observed_version_follows_only_once_everything_works() {
    let previous =
        json!({"operatorVersion": "1.0", "targetVersion": "1.0", "observedVersion": "1.0"});
    let versions = |available: &str| {
        let status = write(
            previous.clone(),
            available,
            &Report {
                generation: 3,
                ..Report::default()
            },
            &[],
        );
        ["operatorVersion", "targetVersion", "observedVersion"]
            .map(|field| status[field].as_str().unwrap().to_owned())
    };
    assert_eq!(versions("False"), ["2.0", "2.0", "1.0"]);
    assert_eq!(versions("True"), ["2.0", "2.0", "2.0"]);
    assert_eq!(
        write(json!({}), "False", &Report::default(), &[])["observedVersion"],
        Value::Null
    );
    assert_eq!(
        write(
            Value::Null,
            "True",
            &Report {
                generation: 3,
                ..Report::default()
            },
            &[]
        )["observedGeneration"],
        3
    );
}

#[test]
fn the_configuration_in_force_is_shown_and_kept_while_it_is_not_known() {
    let decided = decide(&yaml(EXAMPLE_0_23)).decided;
    let known = Report {
        effective: Some(decided.clone()),
        ..Report::default()
    };
    let shown = write(
        json!({"effectiveConfiguration": {"multus": {}}}),
        "True",
        &known,
        &[],
    );
    assert_eq!(shown["effectiveConfiguration"], decided);
    let starting = Report {
        starting: true,
        ..Report::default()
    };
    assert_eq!(
        write(shown, "False", &starting, &[])["effectiveConfiguration"],
        decided
    );
}

#[test]
fn a_refused_configuration_leaves_the_containers_as_they_were() {
    let previous = json!({
        "containers": [
            {"parentKind": "DaemonSet", "parentName": "multus", "name": "kube-multus", "image": "x"}
        ]
    });
    let refusal = Some(Refusal {
        reason: "FailedToValidate",
        problems: Vec::new(),
        changes: Vec::new(),
    });
    assert_eq!(
        write(
            previous.clone(),
            "False",
            &Report {
                refusal,
                ..Report::default()
            },
            &[]
        )["containers"],
        previous["containers"]
    );
    assert_eq!(
        write(previous, "True", &Report::default(), &[])["containers"],
        Value::Null,
        "everything removed"
    );
}

#[test]
fn each_component_says_how_it_is() {
    let workload = |name: &str, rollout| WorkloadReport {
        object: ObjectKey::new(kinds::DAEMON_SET, "n", name),
        rollout,
    };
    let unit = |name: &str, workloads| UnitReport {
        name: name.into(),
        failures: Vec::new(),
        workloads,
    };
    let progressing = || Rollout::Progressing {
        message: "awaiting 1 node".into(),
        deadline: None,
    };
    let stuck = || Rollout::Stuck {
        cause: "ImagePullBackOff".into(),
        message: "pod x: ImagePullBackOff".into(),
    };
    let failure = Failure {
        object: ObjectKey::new(kinds::CLUSTER_ROLE, "", "multus"),
        class: FailureClass::Forbidden,
        message: "may not patch clusterroles".into(),
    };
    let report = Report {
        units: vec![
            unit("ovs", vec![workload("a", Rollout::Ready)]),
            unit(
                "linuxBridge",
                vec![workload("a", progressing()), workload("b", Rollout::Ready)],
            ),
            unit(
                "kubeMacPool",
                vec![workload("a", stuck()), workload("b", progressing())],
            ),
            UnitReport {
                failures: vec![failure],
                ..unit("multus", vec![workload("a", progressing())])
            },
        ],
        notices: vec![
            Notice {
                about: "nmstate".into(),
                message: "not yet".into(),
            },
            Notice {
                about: "ovs".into(),
                message: "by the way".into(),
            },
        ],
        ..Report::default()
    };
    assert_eq!(
        write(json!({}), "False", &report, &[])["components"],
        json!([
            {"name": "ovs", "state": "Available", "message": "by the way"},
            {
                "name": "linuxBridge", "state": "Progressing",
                "message": "DaemonSet n/a: awaiting 1 node"
            },
            {
                "name": "kubeMacPool", "state": "Degraded",
                "message": "DaemonSet n/a: pod x: ImagePullBackOff\nDaemonSet n/b: awaiting 1 node"
            },
            {
                "name": "multus", "state": "Degraded",
                "message": "ClusterRole multus: may not patch clusterroles\nDaemonSet n/a: awaiting 1 node"
            },
            {"name": "nmstate", "state": "NotDeployed", "message": "not yet"},
        ])
    );
}

#[test]
fn gauges_follow_the_condition_and_the_component() {
    let addons = crate::Addons::new(Settings::default());
    let values = |resource: Option<&Value>| {
        weft_plan::ObjectSet::gauges(&addons, resource)
            .into_iter()
            .map(|(name, _, value)| (name, value))
            .collect::<Vec<_>>()
    };
    let gauges = |ready, deployed| {
        vec![
            ("kubevirt_cnao_cr_ready", ready),
            ("kubevirt_cnao_cr_kubemacpool_deployed", deployed),
        ]
    };
    let resource = |available: &str, spec: Value| {
        json!({
            "spec": spec,
            "status": {
                "conditions": [
                    {"type": "Available", "status": available}, {"type": "Degraded", "status": "True"}
                ]
            }
        })
    };
    assert_eq!(values(None), gauges(0.0, 0.0));
    assert_eq!(values(Some(&resource("True", json!({})))), gauges(1.0, 0.0));
    assert_eq!(
        values(Some(&resource("False", json!({"kubeMacPool": {}})))),
        gauges(0.0, 1.0)
    );
}
