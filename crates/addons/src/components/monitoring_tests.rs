#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::{BTreeMap, BTreeSet};

use promql_parser::{
    label::MatchOp,
    parser::{self, Expr, VectorSelector},
};
use serde_json::{Value, json};
use weft_plan::{Decision, Domain, Facts, Input};

use super::*;
use crate::{
    Addons,
    testing::{decide, fixed_bytes, full, object, objects, resource},
};

fn served() -> Facts {
    Facts {
        definitions: [kinds::SERVICE_MONITOR, kinds::PROMETHEUS_RULE]
            .map(|kind| kind.definition())
            .into(),
        ..Facts::default()
    }
}

fn decide_with(env: &[(&str, &str)], resource: &Value) -> Decision {
    let get = |name: &str| {
        env.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let settings = Settings::from_env(get).unwrap();
    Addons::new(settings)
        .decide(Input {
            resource,
            record: None,
            decided: None,
            facts: &served(),
            random: &mut fixed_bytes,
        })
        .unwrap()
}

/// Every rule, by its name.
fn rules(decision: &Decision) -> BTreeMap<String, Value> {
    let groups = objects(decision)
        .filter(|object| object.key().kind == kinds::PROMETHEUS_RULE)
        .flat_map(|object| object.body()["spec"]["groups"].as_array().unwrap().clone());
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules
        .map(|rule| {
            (
                rule["alert"]
                    .as_str()
                    .or(rule["record"].as_str())
                    .unwrap()
                    .to_owned(),
                rule,
            )
        })
        .collect()
}

/// The series that an expression is made from, each with the namespace that it is about.
fn series(expression: &Expr, found: &mut Vec<(String, Option<String>)>) {
    let mut add = |selector: &VectorSelector| {
        let namespace = selector
            .matchers
            .matchers
            .iter()
            .find(|matcher| matcher.name == "namespace" && matcher.op == MatchOp::Equal);
        found.push((
            selector.name.clone().unwrap(),
            namespace.map(|matcher| matcher.value.clone()),
        ));
    };
    match expression {
        Expr::VectorSelector(selector) => add(selector),
        Expr::MatrixSelector(selector) => add(&selector.vs),
        Expr::Aggregate(aggregate) => series(&aggregate.expr, found),
        Expr::Binary(binary) => [&binary.lhs, &binary.rhs]
            .into_iter()
            .for_each(|side| series(side, found)),
        Expr::Paren(paren) => series(&paren.expr, found),
        Expr::Call(call) => call
            .args
            .args
            .iter()
            .for_each(|argument| series(argument, found)),
        _ => {}
    }
}

#[test]
fn every_expression_is_one_and_knows_the_series_that_it_is_made_from() {
    let decision = decide_with(&[("OPERATOR_NAMESPACE", "here")], &full());
    let rules = rules(&decision);
    let recorded: BTreeSet<&str> = rules
        .values()
        .filter_map(|rule| rule["record"].as_str())
        .collect();
    // Metrics that Prometheus, Weft and KubeMacPool provide.
    let scraped = [
        "up",
        "kubevirt_cnao_cr_ready",
        "kubevirt_cnao_cr_kubemacpool_deployed",
        "kubevirt_kmp_duplicate_macs",
    ];
    for (name, rule) in &rules {
        let text = rule["expr"].as_str().unwrap();
        let expression =
            parser::parse(text).unwrap_or_else(|error| panic!("{name}: {text}: {error}"));
        let mut found = Vec::new();
        series(&expression, &mut found);
        assert!(!found.is_empty(), "{name}");
        for (series, namespace) in found {
            // Weft's own series say which domain they are about.
            if series.starts_with("weft_") {
                let is_ours =
                    text.contains("{domain=\"addons\"") || namespace.as_deref() == Some("here");
                assert!(is_ours, "{name}: {text}");
            } else if scraped.contains(&&*series) {
                assert_eq!(namespace.as_deref(), Some("here"), "{name}: {text}");
            } else {
                assert!(
                    recorded.contains(&&*series) || series == "kmp_mac_collisions",
                    "{name}: nobody gives {series}"
                );
            }
        }
        // Where there is no such series there is no answer either, and an alert would never come.
        if rule["record"].is_string() {
            assert!(text.contains("or vector(0)"), "{name}");
        }
    }
}

#[test]
fn the_alerts_and_series_are_those_that_users_know() {
    let rules = rules(&decide_with(&[], &full()));
    let alert = |name: &str| {
        let labels = &rules[name]["labels"];
        assert_eq!(labels["kubernetes_operator_part_of"], "kubevirt");
        assert_eq!(
            labels["kubernetes_operator_component"],
            "cluster-network-addons-operator"
        );
        assert_eq!(
            rules[name]["annotations"]["runbook_url"],
            format!("https://kubevirt.io/monitoring/runbooks/{name}")
        );
        assert!(rules[name]["annotations"]["summary"].is_string());
        [
            &rules[name]["for"],
            &labels["severity"],
            &labels["operator_health_impact"],
        ]
        .map(|value| value.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(alert("CnaoDown"), ["5m", "warning", "warning"]);
    assert_eq!(
        alert("NetworkAddonsConfigNotReady"),
        ["5m", "warning", "warning"]
    );
    assert_eq!(alert("KubemacpoolDown"), ["5m", "critical", "critical"]);
    assert_eq!(
        alert("KubemacpoolMACCollisionDetected"),
        ["30s", "warning", ""]
    );
    // The place of the originals' runbooks has no pages about Weft's own alerts.
    let own = rules.values().filter(|rule| {
        rule["alert"]
            .as_str()
            .is_some_and(|name| name.starts_with("Weft"))
    });
    assert!(own.clone().count() >= 5);
    assert!(
        own.clone()
            .all(|rule| rule["annotations"]["runbook_url"].is_null()
                && rule["annotations"]["runbook"].is_string())
    );
    let recorded: BTreeSet<_> = rules
        .values()
        .filter_map(|rule| rule["record"].as_str())
        .collect();
    let expected = [
        "cluster:kubevirt_cnao_operator_up:sum",
        "kubevirt_cnao_operator_up",
        "cluster:kubevirt_cnao_kubemacpool_manager_up:sum",
        "kubevirt_cnao_kubemacpool_manager_up",
        "cluster:kubevirt_cnao_cr_kubemacpool_deployed:sum",
        "kubevirt_cnao_cr_kubemacpool_aggregated",
        "kubevirt_cnao_kubemacpool_duplicate_macs",
    ];
    assert_eq!(recorded, expected.into());
}

#[test]
fn runbooks_and_reader_are_those_of_the_environment() {
    let env = [
        ("RUNBOOK_URL_TEMPLATE", "https://docs.example.com/%s.html"),
        ("MONITORING_NAMESPACE", "observability"),
        ("MONITORING_SERVICE_ACCOUNT", "scraper"),
    ];
    let decision = decide_with(&env, &full());
    assert_eq!(
        rules(&decision)["CnaoDown"]["annotations"]["runbook_url"],
        "https://docs.example.com/CnaoDown.html"
    );
    for name in [
        "cluster-network-addons-operator-monitoring",
        "kubemacpool-prometheus",
    ] {
        let reader = &object(&decision, "RoleBinding", name)["subjects"][0];
        assert_eq!(
            (&reader["name"], &reader["namespace"]),
            (&json!("scraper"), &json!("observability")),
            "{name}"
        );
    }
}

#[test]
fn they_are_there_where_both_definitions_are() {
    let units = |decision: &Decision| {
        decision
            .units
            .iter()
            .map(|unit| unit.name.clone())
            .collect::<Vec<_>>()
    };
    assert!(units(&decide_with(&[], &resource(json!({})))).contains(&"monitoring".to_owned()));
    assert!(!units(&decide(&full())).contains(&"monitoring".to_owned()));
    let half = Facts {
        definitions: [kinds::SERVICE_MONITOR.definition()].into(),
        ..Facts::default()
    };
    let decision = crate::testing::decide_knowing(&half, &full());
    assert!(!units(&decision).contains(&"monitoring".to_owned()));
    assert!(objects(&decision).all(|object| object.key().name != "kubemacpool-metrics-service"));
    let with_pool = objects(&decide_with(&[], &full()))
        .filter(|object| object.key().name.starts_with("kubemacpool-"))
        .count();
    assert_eq!(
        with_pool,
        objects(&decide(&full()))
            .filter(|object| object.key().name.starts_with("kubemacpool-"))
            .count()
            + 5
    );
}

#[test]
fn an_operator_elsewhere_is_not_called_down() {
    let env = [
        ("OPERATOR_NAMESPACE", "weft-system"),
        ("OPERAND_NAMESPACE", "cluster-network-addons"),
    ];
    let decision = decide_with(&env, &full());
    assert!(
        rules(&decision)
            .keys()
            .all(|name| name == "KubemacpoolMACCollisionDetected")
    );
    assert!(
        decision
            .notices
            .iter()
            .any(|notice| notice.about == "monitoring" && notice.message.contains("weft-system"))
    );
}

#[test]
fn the_monitors_find_the_services_and_these_the_pods() {
    let decision = decide_with(&[], &full());
    for (monitor, service) in [
        (
            "service-monitor-cluster-network-addons-operator",
            "cluster-network-addons-operator-prometheus-metrics",
        ),
        ("kubemacpool-metrics-monitor", "kubemacpool-metrics-service"),
    ] {
        let monitor = &object(&decision, "ServiceMonitor", monitor)["spec"];
        let wanted = monitor["selector"]["matchLabels"].as_object().unwrap();
        // Of all Services that it chooses, one has the port.
        let chosen = objects(&decision).filter(|object| {
            let labels = &object.body()["metadata"]["labels"];
            object.key().kind == kinds::SERVICE
                && wanted.iter().all(|(label, value)| labels[label] == *value)
        });
        let with_port: Vec<_> = chosen
            .filter(|object| {
                object.body()["spec"]["ports"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|port| port["name"] == monitor["endpoints"][0]["port"])
            })
            .map(|object| object.key().name.as_str())
            .collect();
        assert_eq!(with_port, [service]);
    }
    let operator = &serde_saphyr::from_multiple::<Value>(include_str!(
        "../../../../deploy/addons/operator.yaml"
    ))
    .unwrap()[1];
    let labels = &operator["spec"]["template"]["metadata"]["labels"];
    let service = &object(
        &decision,
        "Service",
        "cluster-network-addons-operator-prometheus-metrics",
    )["spec"];
    assert_eq!(
        service["selector"],
        json!({"prometheus.cnao.io": labels["prometheus.cnao.io"]})
    );
    // No add-on's pod has a port of the name by which the operator's is meant.
    for workload in objects(&decision) {
        let pod = workload
            .body()
            .pointer("/spec/template")
            .cloned()
            .unwrap_or_default();
        let is_chosen = pod["metadata"]["labels"]["prometheus.cnao.io"] == "true";
        assert!(
            !is_chosen || !pod["spec"].to_string().contains("\"name\":\"metrics\""),
            "{}",
            workload.key()
        );
    }
}
