//! The tests, in the order in which an administrator would do the same.

pub mod addons;
pub mod commands;
pub mod install;
pub mod metrics;
pub mod node_network;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::options::Domain;
use crate::run::{Runner, Suite};

/// The bridge that the test policy makes on each node. No card of a node is its port.
pub const BRIDGE: &str = "weft-e2e0";
/// The test policy.
pub const POLICY: &str = "weft-e2e";
/// The namespace of the operator.
pub const OPERATOR: &str = "weft-system";

/// Runs all tests of the chosen domains.
pub fn all(runner: &mut Runner, manifests: &str) {
    install::start(runner, manifests);
    if runner.suite.has(Domain::NodeNetwork) {
        node_network::walk(runner);
    }
    if runner.suite.has(Domain::Addons) {
        addons::walk(runner);
    }
    commands::walk(runner);
    metrics::walk(runner);
    install::again(runner, manifests);
    if runner.suite.has(Domain::Addons) {
        addons::end(runner);
    }
    if runner.suite.has(Domain::NodeNetwork) {
        node_network::end(runner);
    }
}

/// Returns a condition of an object: status, reason and message.
pub fn condition(object: &Value, kind: &str) -> Option<(String, String, String)> {
    let all = object["status"]["conditions"].as_array()?;
    let one = all.iter().find(|one| one["type"] == kind)?;
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

/// Returns the conditions of an object that say something, one a line, for the message of a test.
/// Several conditions often have the same message: only the first one counts.
pub fn conditions(object: &Value) -> String {
    let all = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut said = Vec::new();
    let mut lines = Vec::new();
    for one in all {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        if !text("message").is_empty() && !said.contains(&text("message")) {
            said.push(text("message"));
            lines.push(format!(
                "{}={} {}: {}",
                text("type"),
                text("status"),
                text("reason"),
                text("message")
            ));
        }
    }
    if lines.is_empty() {
        "no condition has a message yet".to_owned()
    } else {
        lines.join("\n")
    }
}

/// Returns `Ok` if the condition is True for the latest generation, else the state that is there.
pub fn holds(object: &Value, kind: &str) -> Result<(), String> {
    let all = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let generation = &object["metadata"]["generation"];
    let is_true = all.clone().any(|one| {
        one["type"] == kind
            && one["status"] == "True"
            && (one["observedGeneration"].is_null() || one["observedGeneration"] == *generation)
    });
    let observed = &object["status"]["observedGeneration"];
    if is_true && (observed.is_null() || observed == generation) {
        Ok(())
    } else {
        Err(conditions(object))
    }
}

/// Fails if a pod of a namespace cannot get its image: no wait mends that.
///
/// # Errors
/// The kubelet has given up for now. The error names pod, image and cause.
pub fn check_images(suite: &Suite, namespace: &str) -> Result<()> {
    for pod in suite.cluster.list(&["pods", "-n", namespace])? {
        for container in containers(&pod) {
            let waiting = &container["state"]["waiting"];
            let reason = waiting["reason"].as_str().unwrap_or_default();
            if ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"].contains(&reason) {
                bail!(
                    "pod {namespace}/{} on node {}: {reason}: {}\nPush the image to a registry that the node reaches, or name another one with IMAGE, AGENT_IMAGE or COMPONENT_IMAGES",
                    pod["metadata"]["name"].as_str().unwrap_or_default(),
                    pod["spec"]["nodeName"].as_str().unwrap_or_default(),
                    waiting["message"].as_str().unwrap_or_default()
                );
            }
        }
    }
    Ok(())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|field| pod["status"][field].as_array().into_iter().flatten())
}

/// Describes the pods of a namespace, one a line, for the message of a test.
///
/// # Errors
/// The API server refuses the request.
pub fn pods(suite: &Suite, namespace: &str) -> Result<String> {
    let mut lines = Vec::new();
    for pod in suite.cluster.list(&["pods", "-n", namespace])? {
        let words: Vec<_> = containers(&pod)
            .filter_map(|one| {
                let waiting = &one["state"]["waiting"];
                waiting["reason"].as_str().map(|reason| {
                    format!(
                        "{reason} {}",
                        waiting["message"].as_str().unwrap_or_default()
                    )
                })
            })
            .collect();
        let scheduling = condition(&pod, "PodScheduled").filter(|(status, ..)| status == "False");
        lines.push(format!(
            "pod {} {} {}{}",
            pod["metadata"]["name"].as_str().unwrap_or_default(),
            pod["status"]["phase"].as_str().unwrap_or_default(),
            words.join(", "),
            scheduling.map(|(.., message)| message).unwrap_or_default()
        ));
    }
    if lines.is_empty() {
        lines.push(format!("no pods in {namespace}"));
    }
    Ok(lines.join("\n"))
}
