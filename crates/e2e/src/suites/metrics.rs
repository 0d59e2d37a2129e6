//! Metrics as Prometheus reads them, and events.

use anyhow::{Result, bail};
use serde_json::json;

use crate::{
    options::Domain,
    preflight::NAMESPACE,
    run::{Done, Runner, Suite},
};

use super::install::STARTS;

/// The account that reads metrics, its role and its binding.
const READER: &str = "weft-e2e-metrics";

/// Reads metrics and events.
pub fn walk(runner: &mut Runner) {
    runner.test("observe/metrics", &[STARTS], |suite| {
        let metrics = read(suite)?;
        for domain in &suite.options.domains {
            let mut series = format!("weft_leading{{domain=\"{}\"}}", domain.name());
            // Of several replicas, this may be one that waits.
            if !suite.options.installed {
                series += " 1";
            }
            if !metrics.contains(&series) {
                bail!("/metrics lacks {series}:\n{metrics}");
            }
        }
        Ok(Done::Yes)
    });
    if runner.suite.has(Domain::Addons) {
        runner.test("observe/events", &["addons/multus-is-available"], |suite| {
            suite.wait("an event says that the add-ons are Available", || {
                let events = suite.cluster.list(&["events", "--all-namespaces"])?;
                let has = |event: &serde_json::Value| {
                    event["reason"] == "Available"
                        && event["involvedObject"]["kind"] == "NetworkAddonsConfig"
                };
                Ok(if events.iter().any(has) {
                    Ok(())
                } else {
                    Err(format!("{} other events", events.len()))
                })
            })?;
            Ok(Done::Yes)
        });
    }
}

/// Reads the metrics with the token of an account that may read them, and is refused without.
fn read(suite: &Suite) -> Result<String> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": READER},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER, "namespace": NAMESPACE}});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": READER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER},
        "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": NAMESPACE}]});
    for object in [role, account, binding] {
        suite.cluster.apply(&object)?;
    }
    let token = suite
        .cluster
        .kubectl(&["create", "token", READER, "-n", NAMESPACE])?;
    let (_bound, port) = suite.cluster.forward(
        &suite.operator.namespace,
        &suite.operator.deployment(),
        8443,
    )?;
    let server = format!("https://127.0.0.1:{port}");
    suite
        .wait("the operator serves its metrics", || {
            let ended = crate::kubectl::fetch(&server, token.trim(), "/metrics")?;
            Ok(if ended.code == 0 {
                Ok(ended.stdout)
            } else {
                Err(ended.stderr)
            })
        })
        .and_then(|metrics| {
            let refused = crate::kubectl::fetch(&server, "wrong", "/metrics")?;
            if refused.code == 0 {
                bail!("the operator serves its metrics to a client with a wrong token");
            }
            Ok(metrics)
        })
}

/// Removes the account's role and binding. The account goes with the namespace.
///
/// # Errors
/// The API server refuses the request.
pub fn remove_reader(suite: &Suite) -> Result<()> {
    suite
        .cluster
        .kubectl(&[
            "delete",
            "clusterrolebinding,clusterrole",
            READER,
            "--ignore-not-found",
        ])
        .map(drop)
}
