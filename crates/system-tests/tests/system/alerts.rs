//! The alerts that Weft ships: each has a runbook, and the real `promtool` tries each on series that
//! must make it fire and on series that must not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::{Value, json};
use weft_system_tests::command_line::root;

/// A file with rules, with the domain and the namespace that the rules name.
struct File {
    path: &'static str,
    domain: &'static str,
    namespace: &'static str,
}

static FILES: [File; 4] = [
    File {
        path: "components/monitoring/rules.yaml",
        domain: "addons",
        namespace: "cluster-network-addons",
    },
    File {
        path: "components/kubemacpool/monitoring.yaml",
        domain: "addons",
        namespace: "cluster-network-addons",
    },
    File {
        path: "components/nmstate/monitoring.yaml",
        domain: "node-network",
        namespace: "nmstate",
    },
    File {
        path: "deploy/monitoring/operator.yaml",
        domain: "placement",
        namespace: "weft-system",
    },
];

/// The series of a test, each with its values in promtool's notation.
type Series = &'static [(&'static str, &'static str)];

/// A test of an alert. DOMAIN and NAMESPACE stand for those of the file.
struct Case {
    alert: &'static str,
    /// It fires with these.
    bad: Series,
    /// It is silent with these.
    good: Series,
    /// The labels next to those of the rule, and the summary, of each alert that fires.
    fires: &'static [(&'static [(&'static str, &'static str)], &'static str)],
}

const ZERO: &str = "0+0x200";
const ONE: &str = "1+0x200";
const TWO: &str = "2+0x200";
const GROWS: &str = "0+1x200";

const CNAO: &str = r#"up{namespace="NAMESPACE",pod="cluster-network-addons-operator-a"}"#;
const POOL: &str = r#"up{namespace="NAMESPACE",pod="kubemacpool-mac-controller-manager-a"}"#;
const DEPLOYED: &str = r#"kubevirt_cnao_cr_kubemacpool_deployed{namespace="NAMESPACE"}"#;
const READY: [&str; 2] = [
    r#"weft_resource_ready{domain="DOMAIN",kind="A",namespace="",name="n",pod="p"}"#,
    r#"weft_resource_ready{domain="DOMAIN",kind="B",namespace="s",name="n",pod="p"}"#,
];
const STALLED: &str = r#"weft_resource_stalled{domain="DOMAIN",kind="B",namespace="s",name="n"}"#;
const LEADING: [&str; 2] = [
    r#"weft_leading{domain="DOMAIN",pod="p"}"#,
    r#"weft_leading{domain="DOMAIN",pod="q"}"#,
];
const FAILED: &str = r#"weft_passes_total{domain="DOMAIN",outcome="failed"}"#;
const OK: &str = r#"weft_passes_total{domain="DOMAIN",outcome="ok"}"#;
const WATCH: &str = r#"weft_watch_failures_total{namespace="NAMESPACE",kind="Pod"}"#;
const AGENT: &str = r#"weft_agent_ready{node="a",pod="p"}"#;
const REPORTED: &str = r#"weft_agent_reported_timestamp_seconds{node="a",pod="p"}"#;

static CASES: [Case; 16] = [
    Case {
        alert: "CnaoDown",
        bad: &[(CNAO, ZERO)],
        good: &[(CNAO, ONE)],
        fires: &[(&[], "The operator of the network add-ons is down.")],
    },
    Case {
        alert: "NetworkAddonsConfigNotReady",
        bad: &[(r#"kubevirt_cnao_cr_ready{namespace="NAMESPACE"}"#, ZERO)],
        good: &[(r#"kubevirt_cnao_cr_ready{namespace="NAMESPACE"}"#, ONE)],
        fires: &[(&[], "The NetworkAddonsConfig is not Available.")],
    },
    Case {
        alert: "KubemacpoolDown",
        bad: &[(DEPLOYED, ONE), (POOL, ZERO)],
        good: &[(DEPLOYED, ONE), (POOL, ONE)],
        fires: &[(&[], "KubeMacPool is part of the configuration, and down.")],
    },
    Case {
        alert: "KubemacpoolMACCollisionDetected",
        bad: &[(r#"kmp_mac_collisions{mac="m"}"#, TWO)],
        good: &[(r#"kmp_mac_collisions{mac="m"}"#, ONE)],
        fires: &[(&[], "Running machines use the same MAC address.")],
    },
    Case {
        alert: "NmstateOperatorDown",
        bad: &[(
            r#"up{namespace="NAMESPACE",pod="nmstate-operator-a"}"#,
            ZERO,
        )],
        good: &[(r#"up{namespace="NAMESPACE",pod="nmstate-operator-a"}"#, ONE)],
        fires: &[(&[], "The operator of the nodes' networks is down.")],
    },
    Case {
        alert: "WeftOperatorDown",
        bad: &[],
        good: &[(
            r#"up{namespace="NAMESPACE",service="weft-operator-metrics"}"#,
            ONE,
        )],
        fires: &[(&[], "The operator is down.")],
    },
    Case {
        alert: "NodeNetworkConfigurationPolicyDegraded",
        bad: &[(
            r#"kubernetes_nmstate_policies_status{status="Degraded"}"#,
            ONE,
        )],
        good: &[
            (
                r#"kubernetes_nmstate_policies_status{status="Degraded"}"#,
                ZERO,
            ),
            (
                r#"kubernetes_nmstate_policies_status{status="Available"}"#,
                ONE,
            ),
        ],
        fires: &[(&[], "A NodeNetworkConfigurationPolicy is Degraded.")],
    },
    Case {
        alert: "NodeNetworkConfigurationEnactmentFailing",
        bad: &[(
            r#"kubernetes_nmstate_enactments_status{node="a",status="Failing"}"#,
            ONE,
        )],
        good: &[(
            r#"kubernetes_nmstate_enactments_status{node="a",status="Failing"}"#,
            ZERO,
        )],
        fires: &[(&[("node", "a")], "A policy fails on node a.")],
    },
    Case {
        alert: "WeftResourceNotReady",
        bad: &[(READY[0], ZERO), (READY[1], ZERO)],
        good: &[(READY[0], ONE), (READY[1], ONE)],
        fires: &[
            (
                &[("domain", "DOMAIN"), ("kind", "A"), ("name", "n")],
                "A n is not ready.",
            ),
            (
                &[
                    ("domain", "DOMAIN"),
                    ("kind", "B"),
                    ("namespace", "s"),
                    ("name", "n"),
                ],
                "B s/n is not ready.",
            ),
        ],
    },
    Case {
        alert: "WeftResourceStalled",
        bad: &[(STALLED, ONE)],
        good: &[(STALLED, ZERO)],
        fires: &[(
            &[
                ("domain", "DOMAIN"),
                ("kind", "B"),
                ("namespace", "s"),
                ("name", "n"),
            ],
            "B s/n waits for a person.",
        )],
    },
    Case {
        alert: "WeftNoLeader",
        bad: &[(LEADING[0], ZERO), (LEADING[1], ZERO)],
        good: &[(LEADING[0], ZERO), (LEADING[1], ONE)],
        fires: &[(
            &[("domain", "DOMAIN")],
            "No operator leads the domain DOMAIN.",
        )],
    },
    Case {
        alert: "WeftReconcileFailing",
        bad: &[(FAILED, GROWS), (OK, ONE)],
        good: &[(FAILED, TWO), (OK, GROWS)],
        fires: &[(
            &[("domain", "DOMAIN")],
            "Reconciles of the domain DOMAIN fail.",
        )],
    },
    Case {
        alert: "WeftObjectsDrifted",
        bad: &[(r#"weft_drifted_objects{domain="DOMAIN"}"#, TWO)],
        good: &[(r#"weft_drifted_objects{domain="DOMAIN"}"#, ZERO)],
        fires: &[(
            &[("domain", "DOMAIN")],
            "2 objects of the domain DOMAIN differ from the configuration.",
        )],
    },
    Case {
        alert: "WeftWatchFailing",
        bad: &[(WATCH, GROWS)],
        good: &[(WATCH, TWO)],
        fires: &[(&[("kind", "Pod")], "The watch of Pod fails.")],
    },
    Case {
        alert: "WeftAgentNotReady",
        bad: &[(AGENT, ZERO)],
        good: &[(AGENT, ONE)],
        fires: &[(&[("node", "a")], "The agent on node a is not ready.")],
    },
    Case {
        alert: "WeftAgentNotReporting",
        bad: &[(AGENT, ONE)],
        good: &[(AGENT, ONE), (REPORTED, ONE)],
        fires: &[(&[("node", "a")], "The agent on node a has never reported.")],
    },
];

impl File {
    /// The groups of rules in the file.
    fn groups(&self) -> Vec<Value> {
        let text = fs::read_to_string(root().join(self.path)).unwrap();
        serde_saphyr::from_multiple::<Value>(&text)
            .unwrap()
            .into_iter()
            .filter(|object| object["kind"] == "PrometheusRule")
            .flat_map(|object| object["spec"]["groups"].as_array().unwrap().clone())
            .collect()
    }

    /// The alerts in the file.
    fn alerts(&self) -> Vec<Value> {
        rules(&self.groups())
            .filter(|rule| rule["alert"].is_string())
            .cloned()
            .collect()
    }

    /// Puts the domain and the namespace of the file into a text.
    fn place(&self, text: &str) -> String {
        text.replace("DOMAIN", self.domain)
            .replace("NAMESPACE", self.namespace)
    }

    /// promtool's tests of a case: it fires with the bad series, but not at once, and is silent with
    /// the good ones.
    fn tests(&self, case: &Case, rule: &Value) -> Vec<Value> {
        let fires: Vec<_> = case
            .fires
            .iter()
            .map(|(labels, summary)| {
                let mut all = rule["labels"].clone();
                for (name, value) in *labels {
                    all[*name] = self.place(value).into();
                }
                json!({"exp_labels": all, "exp_annotations": {"summary": self.place(summary)}})
            })
            .collect();
        let test = |series: Series, at: &[(&str, &[Value])]| {
            let series: Vec<_> = series
                .iter()
                .map(|(series, values)| json!({"series": self.place(series), "values": values}))
                .collect();
            let expected: Vec<_> = at
                .iter()
                .map(|(time, alerts)| {
                    json!({"eval_time": time, "alertname": case.alert, "exp_alerts": alerts})
                })
                .collect();
            json!({"interval": "1m", "input_series": series, "alert_rule_test": expected})
        };
        vec![
            test(case.bad, &[("0m", &[]), ("150m", &fires)]),
            test(case.good, &[("150m", &[])]),
        ]
    }
}

fn rules(groups: &[Value]) -> impl Iterator<Item = &Value> {
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
}

fn promtool(arguments: &[&str], folder: &std::path::Path) {
    let output = Command::new(weft_testenv::prometheus("promtool").unwrap())
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "promtool {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn each_alert_fires_on_bad_series_and_is_silent_on_good_ones() {
    let mut tried = BTreeSet::new();
    for file in &FILES {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &Value| {
            fs::write(folder.path().join(name), content.to_string()).unwrap();
        };
        let mut groups = file.groups();
        write("shipped.yaml", &json!({"groups": groups}));
        promtool(&["check", "rules", "shipped.yaml"], folder.path());
        let mut tests = Vec::new();
        for rule in file.alerts() {
            let name = rule["alert"].as_str().unwrap();
            let case = CASES.iter().find(|case| case.alert == name);
            let case = case.unwrap_or_else(|| panic!("{}: no case for {name}", file.path));
            tests.extend(file.tests(case, &rule));
            tried.insert(case.alert);
        }
        // promtool compares all annotations: the summary is enough to see that templates work.
        for group in &mut groups {
            for rule in group["rules"].as_array_mut().unwrap() {
                if let Some(annotations) = rule["annotations"].as_object_mut() {
                    annotations.retain(|name, _| name == "summary");
                }
            }
        }
        write("rules.yaml", &json!({"groups": groups}));
        write(
            "tests.yaml",
            &json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}),
        );
        promtool(&["test", "rules", "tests.yaml"], folder.path());
    }
    let all: BTreeSet<&str> = CASES.iter().map(|case| case.alert).collect();
    assert_eq!(tried, all, "left: shipped, right: the cases");
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let page = fs::read_to_string(root().join("docs/runbooks.md")).unwrap();
    let mut runbooks: BTreeMap<&str, &str> = page
        .split("\n## ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap())
        .collect();
    for file in &FILES {
        for rule in file.alerts() {
            let name = rule["alert"].as_str().unwrap();
            let (labels, annotations) = (&rule["labels"], &rule["annotations"]);
            let severity = labels["severity"].as_str().unwrap_or_default();
            assert!(
                ["info", "warning", "critical"].contains(&severity),
                "{name}: {severity:?}"
            );
            assert!(rule["for"].is_string(), "{name}");
            for text in ["summary", "description"] {
                let text = annotations[text].as_str().unwrap_or_default();
                assert!(text.ends_with('.'), "{name}: {text:?}");
            }
            let place = format!("docs/runbooks.md#{}", name.to_lowercase());
            assert_eq!(annotations["runbook"], place.as_str(), "{name}");
            let runbook = runbooks
                .get(name)
                .unwrap_or_else(|| panic!("docs/runbooks.md: no heading {name}"));
            for part in [
                "**Meaning.**",
                "**Impact.**",
                "**Diagnosis.**",
                "**Mitigation.**",
                "```console",
            ] {
                assert!(runbook.contains(part), "{name}: no {part}");
            }
        }
    }
    let alerts: Vec<_> = FILES.iter().flat_map(File::alerts).collect();
    runbooks.retain(|name, _| alerts.iter().all(|rule| rule["alert"] != *name));
    assert!(runbooks.is_empty(), "no alert has the name of {runbooks:?}");
}

/// Alerts of the same name mean the same in all files: one runbook is about all of them.
#[test]
fn alerts_of_the_same_name_differ_only_in_domain_and_namespace() {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for file in &FILES {
        for mut rule in file.alerts() {
            let expression = rule["expr"].as_str().unwrap();
            let all = "addons|cluster-network|node-network|placement";
            rule["expr"] = expression
                .replace(&format!("domain=~\"{all}\""), "domain=\"DOMAIN\"")
                .replace(&format!("domain=\"{}\"", file.domain), "domain=\"DOMAIN\"")
                .replace(&format!("namespace=\"{}\"", file.namespace), "NAMESPACE")
                .into();
            let name = rule["alert"].as_str().unwrap().to_owned();
            let first = known.entry(name.clone()).or_insert_with(|| rule.clone());
            assert_eq!(*first, rule, "{name}: {}", file.path);
        }
    }
}
