#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::{Value, json};

use super::*;
use crate::testing::{containers as all_containers, decide, full, objects};

fn with(resources: Value) -> Value {
    let mut resource = full();
    resource["spec"]["resources"] = resources;
    resource
}

/// The resources of a container.
fn of(resource: &Value, workload: &str, container: &str) -> Value {
    let all = all_containers(&decide(resource));
    all.into_iter()
        .find(|(of, one)| of == workload && one["name"] == container)
        .unwrap()
        .1["resources"]
        .clone()
}

fn problems(entries: Value) -> Vec<String> {
    let entries: Vec<ContainerResources> = serde_json::from_value(entries).unwrap();
    Resources::of(&entries)
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_table_of_containers_is_that_of_the_manifests() {
    let decision = decide(&full());
    let mut found = Vec::new();
    for unit in &decision.units {
        for object in &unit.objects {
            for list in ["initContainers", "containers"] {
                let containers = object
                    .body()
                    .pointer("/spec/template/spec")
                    .and_then(|pod| pod[list].as_array());
                found.extend(containers.into_iter().flatten().map(|container| {
                    (
                        unit.name.clone(),
                        object.key().name.clone(),
                        container["name"].as_str().unwrap().to_owned(),
                    )
                }));
            }
        }
    }
    let known: Vec<_> = CONTAINERS
        .iter()
        .map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned()))
        .collect();
    assert_eq!(found, known, "left: the manifests, right: the table");
}

#[test]
fn given_resources_replace_the_default_and_nothing_else() {
    let before = of(&full(), "multus", "kube-multus");
    assert_eq!(
        before,
        json!({"requests": {"cpu": "10m", "memory": "15Mi"}})
    );
    let changed = with(json!([
        {
            "component": "multus", "container": "kube-multus", "requests": {"memory": "128Mi"},
            "limits": {"memory": 268435456}
        }
    ]));
    assert_eq!(
        of(&changed, "multus", "kube-multus"),
        json!({"requests": {"cpu": "10m", "memory": "128Mi"}, "limits": {"memory": "268435456"}})
    );
    for (object, was) in objects(&decide(&changed)).zip(objects(&decide(&full()))) {
        assert_eq!(object.key(), was.key());
        assert_eq!(
            object == was,
            object.key().name != "multus" || object.key().kind.kind != "DaemonSet",
            "{}",
            object.key()
        );
    }
    assert_eq!(of(&changed, "multus", "install-multus-binary"), before);
}

#[test]
fn the_more_an_entry_names_the_more_it_counts_in_any_order() {
    let entries = [
        json!({"component": "kubeMacPool", "requests": {"cpu": "1m", "memory": "1Mi"}}),
        json!({
            "component": "kubeMacPool", "workload": "kubemacpool-mac-controller-manager",
            "requests": {"cpu": "2m"}
        }),
        json!({
            "component": "kubeMacPool", "workload": "kubemacpool-mac-controller-manager",
            "container": "manager", "limits": {"cpu": "3m"}
        }),
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let resource = with(order.iter().map(|index| entries[*index].clone()).collect());
        assert_eq!(
            of(&resource, "kubemacpool-mac-controller-manager", "manager"),
            json!({"requests": {"cpu": "2m", "memory": "1Mi"}, "limits": {"cpu": "3m"}})
        );
        assert_eq!(
            of(&resource, "kubemacpool-cert-manager", "manager")["requests"],
            json!({"cpu": "1m", "memory": "1Mi"})
        );
    }
}

#[test]
fn a_default_request_gives_way_to_a_limit() {
    let resource =
        with(json!([{"component": "macvtap", "limits": {"cpu": "20m", "memory": "20Mi"}}]));
    assert_eq!(
        of(&resource, "macvtap-cni", "macvtap-cni"),
        json!({
            "requests": {"cpu": "20m", "memory": "20Mi"}, "limits": {"cpu": "20m", "memory": "20Mi"}
        })
    );
    assert_eq!(
        of(&resource, "macvtap-cni", "install-cni")["requests"],
        json!({"cpu": "10m", "memory": "15Mi"}),
        "below the limit as it is"
    );
}

#[test]
fn resources_that_cannot_work_are_refused() {
    for (entries, expected) in [
        (
            json!([{"component": "nmstate"}]),
            r#"spec.resources[0].component: "nmstate" is not a component: use one of multus, multusDynamicNetworks,"#,
        ),
        (
            json!([{"component": "ovs", "workload": "multus"}]),
            r#"spec.resources[0].workload: "multus" is not a DaemonSet or Deployment of ovs: use one of ovs-cni-amd64"#,
        ),
        (
            json!([{"component": "ovs", "container": "marker"}]),
            r#"spec.resources[0].container: "marker" is not a container there: use one of ovs-cni-plugin, ovs-cni-marker"#,
        ),
        (
            json!([{"component": "ovs", "requests": {"cpu": "1 core"}}]),
            r#"spec.resources[0].requests.cpu: "1 core" is not a quantity"#,
        ),
        (
            json!([{"component": "ovs", "limits": {"memory": -1}}]),
            r#"spec.resources[0].limits.memory: "-1" is not a quantity"#,
        ),
        (
            json!([{"component": "ovs"}, {"component": "ovs", "container": ""}]),
            "spec.resources[1]: is about the same containers as spec.resources[0]",
        ),
        (
            json!([
                {"component": "multus", "container": "kube-multus", "requests": {"memory": "1Gi"}},
                {"component": "multus", "limits": {"memory": "512Mi"}}
            ]),
            "spec.resources: container kube-multus of multus (multus) would request 1Gi memory, more than its limit of 512Mi",
        ),
    ] {
        let problems = problems(entries);
        assert!(
            problems.len() == 1 && problems[0].starts_with(expected),
            "{expected}\n{problems:#?}"
        );
    }
    assert_eq!(
        problems(json!([
            {
                "component": "multus", "requests": {"memory": "1Gi"},
                "limits": {"memory": "1024Mi", "cpu": 2}
            }
        ])),
        Vec::<String>::new()
    );
}
