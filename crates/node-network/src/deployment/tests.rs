#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::{
    Manifest, OPENSHIFT,
    report::{Blocked, Failure, FailureClass, UnitReport, WorkloadReport},
    rollout::Rollout,
};

use super::*;

#[path = "../../../operands/src/tests/needs.rs"]
mod needs;

fn resource(spec: Value) -> Value {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NMState",
        "metadata": {"name": "nmstate", "generation": 3}, "spec": spec
    })
}

fn decide_knowing(facts: &weft_plan::Facts, resource: &Value) -> Result<Decision, Refusal> {
    NodeNetwork::new(Settings::default()).decide(Input {
        resource,
        record: None,
        decided: None,
        facts,
        random: &mut |_| {},
    })
}

fn decide(spec: Value) -> Decision {
    decide_knowing(&weft_plan::Facts::default(), &resource(spec)).unwrap()
}

fn objects(decision: &Decision) -> impl Iterator<Item = &Manifest> {
    decision.units.iter().flat_map(|unit| &unit.objects)
}

fn pod(decision: &Decision) -> Value {
    let daemon_set = objects(decision)
        .find(|object| object.key().kind == kinds::DAEMON_SET)
        .unwrap();
    daemon_set.body()["spec"]["template"]["spec"].clone()
}

fn variable(decision: &Decision, name: &str) -> Value {
    let pod = pod(decision);
    let variables = pod["containers"][0]["env"].as_array().unwrap();
    variables
        .iter()
        .find(|variable| variable["name"] == name)
        .map_or(Value::Null, |variable| variable["value"].clone())
}

/// The container of the agent, with these variables besides those that it always has.
fn needs_of_agent(variables: &[&str]) -> Value {
    let env = [
        "NODE_NAME",
        "POD_NAME",
        "POD_NAMESPACE",
        "NMSTATE_INSTANCE_NODE_LOCK_FILE",
        "PROBE_DNS_HOST",
        "LOG_LEVEL",
    ];
    let env = [&env, variables].concat();
    json!({
        "adds": ["NET_ADMIN", "NET_RAW", "DAC_OVERRIDE"], "drops": ["ALL"],
        "env": env,
        "hostNetwork": true,
        "livenessProbe": {
            "exec": {"command": ["/usr/bin/weft-agent", "health", "--live"]},
            "failureThreshold": 5, "periodSeconds": 60, "timeoutSeconds": 10
        },
        "noEscalation": true, "readOnlyRoot": true,
        "readinessProbe": {
            "exec": {"command": ["/usr/bin/weft-agent", "health"]}, "periodSeconds": 5,
            "timeoutSeconds": 5
        },
        "user": 0,
        "writable": [
            "/run/dbus", "/run/openvswitch", "/etc/systemd/network", "/var/k8s_nmstate",
            "/var/lib/weft-agent"
        ]
    })
}

/// The table is complete: what is not in it is not in the container.
#[test]
fn the_agent_is_given_what_it_needs() {
    let decision = decide(json!({}));
    needs::assert_given(
        objects(&decision).map(Manifest::body),
        vec![("nmstate-handler/nmstate-handler", needs_of_agent(&[]))],
    );
}

#[test]
fn a_guardian_brings_hosts_without_network_manager_back() {
    let names = |decision: &Decision| -> Vec<Value> {
        let pod = pod(decision);
        let containers = pod["containers"].as_array().unwrap();
        containers.iter().map(|one| one["name"].clone()).collect()
    };
    assert_eq!(names(&decide(json!({}))), ["nmstate-handler"]);
    let decision = decide(json!({"withoutNetworkManager": "ConfigureKernel", "logLevel": "debug"}));
    assert_eq!(names(&decision), ["nmstate-handler", "guardian"]);
    let container = pod(&decision)["containers"][1].clone();
    assert_eq!(container["args"], json!(["guard"]));
    assert_eq!(container["image"], settings::IMAGE);
    assert_eq!(
        container["env"],
        json!([{"name": "LOG_LEVEL", "value": "debug"}])
    );
    needs::assert_given(
        objects(&decision).map(Manifest::body),
        vec![
            (
                "nmstate-handler/nmstate-handler",
                needs_of_agent(&["WEFT_AGENT_WITHOUT_NETWORK_MANAGER"]),
            ),
            (
                "nmstate-handler/guardian",
                json!({
                    "adds": ["NET_ADMIN"], "drops": ["ALL"], "env": ["LOG_LEVEL"],
                    "hostNetwork": true, "noEscalation": true, "readOnlyRoot": true, "run": ["guard"], "user": 0,
                    "writable": ["/var/lib/weft-agent"]
                }),
            ),
        ],
    );
}

#[test]
fn left_out_everything_is_as_kubernetes_nmstate_has_it() {
    let decision = decide(json!({}));
    let pod = pod(&decision);
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert!(pod.get("affinity").is_none());
    assert_eq!(
        (
            variable(&decision, "PROBE_DNS_HOST"),
            variable(&decision, "LOG_LEVEL")
        ),
        (json!("root-servers.net"), json!("info"))
    );
    assert_eq!(variable(&decision, "INTERFACES_INCLUDE"), Value::Null);
    assert_eq!(pod["containers"][0]["image"], settings::IMAGE);
    assert_eq!(decision.decided["logLevel"], "info");
    assert!(decision.notices.is_empty());
}

#[test]
fn settings_of_the_operators_environment_reach_the_pods() {
    let environment = |name: &str| match name {
        "NNCP_MAX_RETRIES" => Some("2".to_owned()),
        "WEFT_AGENT_PROBE_SECONDS" => Some("120".to_owned()),
        _ => None,
    };
    let settings = Settings::from_env(environment).unwrap();
    let (resource, facts) = (resource(json!({})), weft_plan::Facts::default());
    let input = Input {
        resource: &resource,
        record: None,
        decided: None,
        facts: &facts,
        random: &mut |_| {},
    };
    let decision = NodeNetwork::new(settings).decide(input).unwrap();
    assert_eq!(
        (
            variable(&decision, "NNCP_MAX_RETRIES"),
            variable(&decision, "WEFT_AGENT_PROBE_SECONDS")
        ),
        (json!("2"), json!("120"))
    );
    assert_eq!(
        variable(&decision, "NNCP_MAX_BACKOFF_SECONDS"),
        Value::Null,
        "the agent has a default"
    );
}

#[test]
fn prometheus_operator_learns_of_the_metrics_where_it_is_installed() {
    let served = |kinds: &[Kind]| weft_plan::Facts {
        definitions: kinds.iter().map(|kind| kind.definition()).collect(),
        ..Default::default()
    };
    let both = served(&[kinds::SERVICE_MONITOR, kinds::PROMETHEUS_RULE]);
    let decide = |facts: &weft_plan::Facts, variables: &[(&str, &str)]| {
        let environment = |name: &str| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let (settings, resource) = (
            Settings::from_env(environment).unwrap(),
            resource(json!({})),
        );
        let input = Input {
            resource: &resource,
            record: None,
            decided: None,
            facts,
            random: &mut |_| {},
        };
        NodeNetwork::new(settings).decide(input).unwrap()
    };
    let is_monitored =
        |decision: &Decision| decision.units.iter().any(|unit| unit.name == "monitoring");
    assert!(
        !is_monitored(&decide(&served(&[kinds::SERVICE_MONITOR]), &[])),
        "one definition is of no use without the other"
    );
    let apart = decide(
        &both,
        &[
            ("OPERATOR_NAMESPACE", "weft-system"),
            ("HANDLER_NAMESPACE", "net"),
        ],
    );
    assert!(
        !is_monitored(&apart) && apart.notices[0].about == "monitoring",
        "{:?}",
        apart.notices
    );

    let decision = decide(
        &both,
        &[
            ("OPERATOR_NAMESPACE", "net"),
            ("MONITORING_NAMESPACE", "openshift-monitoring"),
        ],
    );
    let body = |kind: Kind| {
        objects(&decision)
            .filter(|object| object.key().kind == kind)
            .map(Manifest::body)
            .last()
            .unwrap()
            .clone()
    };
    assert_eq!(
        body(kinds::SERVICE_MONITOR)["spec"]["namespaceSelector"]["matchNames"],
        json!(["net"])
    );
    assert_eq!(
        body(kinds::ROLE_BINDING)["subjects"][0]["namespace"],
        "openshift-monitoring"
    );
    let rules = body(kinds::PROMETHEUS_RULE)["spec"]["groups"].to_string();
    assert!(
        rules.contains(r#"up{namespace=\"net\", pod"#)
            && rules.contains("node:kubernetes_nmstate_routes_by_ip_stack:sum"),
        "{rules}"
    );
}

#[test]
fn each_field_reaches_the_pods() {
    let affinity = json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        }
    });
    let decision = decide(json!({
        "affinity": affinity, "nodeSelector": {"a": "b"}, "tolerations": [
            {"key": "c", "operator": "Exists"}
        ], "logLevel": "debug",
        "probeConfiguration": {"dns": {"host": "example.com"}}, "interfaceFilter": {
            "include": ["eth*", "br0"], "exclude": ["veth*"]
        }, "maxUnavailable": "10%", "withoutNetworkManager": "ConfigureKernel",
    }));
    let pod = pod(&decision);
    assert_eq!(
        (
            &pod["affinity"],
            &pod["nodeSelector"],
            &pod["tolerations"][0]["key"]
        ),
        (&affinity, &json!({"a": "b"}), &json!("c"))
    );
    assert_eq!(
        pod["tolerations"][1],
        json!({"key": "weft.network/node-network-not-ready", "operator": "Exists"}),
        "the agent makes nodes ready, so their startup taint does not keep it away"
    );
    for (name, value) in [
        ("LOG_LEVEL", "debug"),
        ("PROBE_DNS_HOST", "example.com"),
        ("INTERFACES_INCLUDE", "eth* br0"),
        ("INTERFACES_EXCLUDE", "veth*"),
        ("WEFT_AGENT_WITHOUT_NETWORK_MANAGER", "ConfigureKernel"),
    ] {
        assert_eq!(variable(&decision, name), value, "{name}");
    }
    assert_eq!(decision.decided["maxUnavailable"], "10%");
    // The decided configuration leads to the same decision again.
    assert_eq!(decide(decision.decided.clone()).units, decision.units);
}

#[test]
fn settings_place_and_name_the_agent() {
    let variables = [
        ("OPERATOR_NAMESPACE", "weft-system"),
        ("HANDLER_NAMESPACE", "elsewhere"),
        (settings::IMAGE_VARIABLE, "registry.example/agent:1"),
        ("HANDLER_IMAGE_PULL_POLICY", "Always"),
    ];
    let env = |name: &str| {
        variables
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let domain = NodeNetwork::new(Settings::from_env(env).unwrap());
    let facts = weft_plan::Facts::default();
    let decision = domain
        .decide(Input {
            resource: &resource(json!({})),
            record: None,
            decided: None,
            facts: &facts,
            random: &mut |_| {},
        })
        .unwrap();
    let container = &pod(&decision)["containers"][0];
    assert_eq!(
        (&container["image"], &container["imagePullPolicy"]),
        (&json!("registry.example/agent:1"), &json!("Always"))
    );
    let namespaces: BTreeSet<_> = objects(&decision)
        .filter_map(|object| object.key().namespace.clone())
        .collect();
    assert_eq!(namespaces, ["elsewhere".to_owned()].into());
    let namespace = objects(&decision)
        .find(|object| object.key().kind == kinds::NAMESPACE)
        .unwrap();
    assert_eq!(
        (
            &*namespace.key().name,
            &namespace.body()["metadata"]["labels"]["name"]
        ),
        ("elsewhere", &json!("elsewhere"))
    );
}

#[test]
fn all_mistakes_are_refused_at_once_with_the_way_out() {
    let mut wrong = resource(json!({
        "logLevel": "trace", "probeConfiguration": {"dns": {"host": "no name"}},
        "maxUnavailable": "half"
    }));
    wrong["metadata"]["name"] = "n".repeat(56).into();
    let refusal = decide_knowing(&weft_plan::Facts::default(), &wrong).unwrap_err();
    let fields: BTreeSet<_> = refusal
        .problems
        .iter()
        .map(|problem| &*problem.field)
        .collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "spec.probeConfiguration.dns.host",
            "spec.logLevel",
            "spec.maxUnavailable"
        ]
        .into()
    );
    let refusal = decide_knowing(
        &weft_plan::Facts::default(),
        &resource(json!({"nodeSelector": 3, "logLevel": "info"})),
    )
    .unwrap_err();
    assert_eq!(
        refusal
            .problems
            .iter()
            .map(|problem| &*problem.field)
            .collect::<Vec<_>>(),
        ["spec.nodeSelector"]
    );
}

#[test]
fn fields_without_effect_are_kept_and_told_of() {
    let decision = decide(json!({
        "infraNodeSelector": {"a": "b"},
        "selfSignConfiguration": {"caRotateInterval": "8760h0m0s"},
        "metricsConfiguration": {"bindAddress": "0"}
    }));
    let told: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| &*notice.about)
        .collect();
    assert_eq!(
        told,
        [
            "infraAffinity, infraNodeSelector, infraTolerations",
            "selfSignConfiguration",
            "metricsConfiguration"
        ]
    );
    assert_eq!(decision.units, decide(json!({})).units);
    assert_eq!(decision.decided["infraNodeSelector"], json!({"a": "b"}));
}

#[test]
fn on_openshift_the_agents_constraints_allow_what_its_pods_ask_for() {
    let facts = weft_plan::Facts {
        definitions: [
            OPENSHIFT.to_owned(),
            kinds::SECURITY_CONTEXT_CONSTRAINTS.definition(),
        ]
        .into(),
        ..weft_plan::Facts::default()
    };
    let decision = decide_knowing(&facts, &resource(json!({}))).unwrap();
    let of_kind = |kind: Kind| {
        objects(&decision)
            .find(|object| object.key().kind == kind)
            .unwrap()
            .body()
    };
    let (constraints, daemon_set) = (
        of_kind(kinds::SECURITY_CONTEXT_CONSTRAINTS),
        of_kind(kinds::DAEMON_SET),
    );
    assert_eq!(
        daemon_set["spec"]["template"]["metadata"]["annotations"]["openshift.io/required-scc"],
        constraints["metadata"]["name"]
    );
    let pod = &daemon_set["spec"]["template"]["spec"];
    assert_eq!(
        constraints["allowedCapabilities"],
        pod["containers"][0]["securityContext"]["capabilities"]["add"]
    );
    assert_eq!(
        (&constraints["allowHostNetwork"], &pod["hostNetwork"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(constraints["allowPrivilegedContainer"], false);
}

#[test]
fn every_object_is_of_a_kind_that_is_watched() {
    for facts in weft_plan::Facts::of_every_sort_of_cluster() {
        let decision = decide_knowing(&facts, &resource(json!({}))).unwrap();
        for object in objects(&decision) {
            assert!(
                NodeNetwork::new(Settings::default())
                    .kinds()
                    .contains(&object.key().kind),
                "{}",
                object.key().human()
            );
        }
    }
}

fn shown(report: &Report) -> Vec<String> {
    let all = NodeNetwork::new(Settings::default()).conditions(
        report,
        &json!({}),
        "2026-01-01T00:00:00Z".parse().unwrap(),
    );
    all.iter()
        .map(|one| {
            format!(
                "{}={} {}",
                one.type_,
                one.status,
                one.reason.clone().unwrap_or_default()
            )
            .trim_end()
            .to_owned()
        })
        .collect()
}

#[test]
fn conditions_have_the_reasons_that_users_know() {
    let agent = ObjectKey::new(kinds::DAEMON_SET, "nmstate", AGENT);
    let unit = |rollout: Rollout, failure: Option<FailureClass>| UnitReport {
        name: "agent".into(),
        failures: failure
            .map(|class| Failure {
                object: agent.clone(),
                class,
                message: "no".into(),
            })
            .into_iter()
            .collect(),
        workloads: vec![WorkloadReport {
            object: agent.clone(),
            rollout,
        }],
    };
    let underway = Rollout::Progressing {
        message: "is not available (awaiting 1 nodes)".into(),
        deadline: None,
    };
    let stuck = Rollout::Stuck {
        cause: "ImagePullBackOff".into(),
        message: "pod x".into(),
    };
    let report = |unit: UnitReport| Report {
        generation: 3,
        units: vec![unit],
        ..Report::default()
    };
    for (report, expected) in [
        (
            report(unit(Rollout::Ready, None)),
            [
                "Available=True SuccessfullyDeployed",
                "Progressing=False SuccessfullyDeployed",
                "Degraded=False SuccessfullyDeployed",
            ],
        ),
        (
            report(unit(underway, None)),
            [
                "Available=False Deploying",
                "Progressing=True Deploying",
                "Degraded=False Deploying",
            ],
        ),
        (
            report(unit(Rollout::Ready, Some(FailureClass::Foreign))),
            [
                "Available=False InternalError",
                "Progressing=False InternalError",
                "Degraded=True InternalError",
            ],
        ),
        (
            report(unit(stuck, None)),
            [
                "Available=False RolloutStuck",
                "Progressing=True Deploying",
                "Degraded=True RolloutStuck",
            ],
        ),
        (
            Report {
                refusal: Some(refusal("FailedToValidate", vec![])),
                ..Report::default()
            },
            [
                "Available=False FailedToValidate",
                "Progressing=False FailedToValidate",
                "Degraded=True FailedToValidate",
            ],
        ),
    ] {
        assert_eq!(shown(&report), expected);
    }
    let blocked = Report {
        blocked: Some(Blocked {
            reason: "OtherOperatorRunning",
            message: "x".into(),
        }),
        ..Report::default()
    };
    assert_eq!(shown(&blocked), ["Blocked=True OtherOperatorRunning"]);
}

#[test]
fn available_lists_the_notices_and_has_no_message_without_any() {
    let available = |notices: Vec<weft_plan::Notice>| {
        let report = Report {
            units: vec![],
            notices,
            ..Report::default()
        };
        let all = NodeNetwork::new(Settings::default()).conditions(
            &report,
            &json!({}),
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        let available = all
            .into_iter()
            .find(|one| one.type_ == "Available")
            .unwrap();
        (available.status, available.message)
    };
    let notice = weft_plan::Notice {
        about: "spec.selfSignConfiguration".into(),
        message: "has no effect".into(),
    };
    assert_eq!(
        available(vec![notice]),
        (
            "True".to_owned(),
            Some("spec.selfSignConfiguration has no effect".to_owned())
        )
    );
    assert_eq!(available(vec![]), ("True".to_owned(), None));
}
