//! A policy of the nodes' networks. The test plays the agents, so the truth about the policy is
//! what the agents have reported.

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::{ObjectKey, kinds};
use weft_system_tests::{Cluster, condition};

use super::{
    verdict::{FAILED, FINE, Words},
    wanted::Renderer,
};

/// The nodes of the test.
const NODES: [&str; 2] = ["node-1", "node-2"];
/// The node whose agent may fail.
const FAILS: &str = "node-2";
const NAME: &str = "observer";

/// The policy of the test.
pub fn key() -> ObjectKey {
    ObjectKey::new(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", NAME)
}

/// A bridge on every node.
pub fn bridge(mtu: u32) -> Value {
    json!({"maxUnavailable": 2, "desiredState": {"interfaces": [
        {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": mtu}
    ]}})
}

/// The same on no node.
pub fn nowhere() -> Value {
    let mut spec = bridge(1500);
    spec["nodeSelector"] = json!({"observer.test/rack": "none"});
    spec
}

/// A policy with a misspelt field.
pub fn misspelt() -> Value {
    json!({"desiredState": {"interfaces": [{"name": "br1", "typ": "linux-bridge"}]}})
}

/// Creates the policy, or changes it.
pub async fn apply(cluster: &Cluster, spec: &Value) {
    let key = key();
    let policy = json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.kind,
        "metadata": {"name": NAME}, "spec": spec,
    });
    cluster.apply(&policy.to_string()).await;
}

/// The enactments of the policy.
pub async fn enactments(cluster: &Cluster) -> Vec<Value> {
    let list = cluster
        .api(kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT, "")
        .list(&ListParams::default())
        .await
        .unwrap();
    let objects = list
        .items
        .into_iter()
        .map(|object| serde_json::to_value(object).unwrap());
    objects
        .filter(|object| object["spec"]["policy"] == NAME)
        .collect()
}

fn is_current(enactment: &Value) -> bool {
    enactment["status"]["observedGeneration"] == enactment["metadata"]["generation"]
}

/// Reports whether a condition of an enactment holds, about the latest decision.
fn says(enactment: &Value, phase: &str) -> bool {
    is_current(enactment) && condition(&enactment["status"], phase)["status"] == "True"
}

/// Plays the agents: each reports about the decisions of the operator until it has nothing more to
/// say.
pub async fn play(cluster: &Cluster, fails: bool) {
    for enactment in enactments(cluster).await {
        let is_new = !is_current(&enactment);
        let node = enactment["spec"]["nodeName"].as_str().unwrap_or_default();
        let decision = enactment["spec"]["wanted"]["decision"].as_str();
        let said = match decision.unwrap_or_default() {
            "Granted" | "Revert" if is_new && fails && node == FAILS => "Failing",
            "Granted" | "Revert" if is_new => "Available",
            "Pending" if is_new => "Pending",
            "Aborted" if is_new => "Aborted",
            _ => continue,
        };
        say(cluster, &enactment, said).await;
    }
}

/// Reports the outcome of an enactment, as its agent does.
async fn say(cluster: &Cluster, enactment: &Value, phase: &str) {
    let kind = kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT;
    let phases = ["Progressing", "Failing", "Available", "Pending", "Aborted"];
    let conditions = phases.map(|name| {
        let status = if name == phase { "True" } else { "False" };
        json!({"type": name, "status": status, "message": format!("the test says {phase}")})
    });
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "status": {
            "conditions": conditions,
            "observedGeneration": enactment["metadata"]["generation"],
            "policyGeneration": enactment["spec"]["wanted"]["generation"],
        },
    });
    let name = enactment["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("weft/agent").force();
    let said = cluster
        .api(kind, "")
        .patch_status(name, &params, &Patch::Apply(&object))
        .await;
    match said {
        Ok(_) => {}
        // It was deleted meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{name}: {error}"),
    }
}

/// The truth about the policy: a condition that must be True, what the tools must say, and the
/// reason for people. `Err` if the agents are not done.
async fn truth(
    cluster: &Cluster,
    renderer: &Renderer,
    live: &Value,
) -> Result<(&'static str, Words, String), String> {
    let resource = json!({
        "apiVersion": live["apiVersion"], "kind": live["kind"],
        "metadata": {"name": NAME}, "spec": live["spec"],
    });
    if let Some(mistakes) = renderer.mistakes(&resource).await {
        return Ok(("Degraded", FAILED, format!("refused: {mistakes}")));
    }
    if !live["spec"]["nodeSelector"].is_null() {
        return Ok(("Ignored", FINE, "it selects no node".to_owned()));
    }
    let all = enactments(cluster).await;
    let on = |node: &str| all.iter().find(|one| one["spec"]["nodeName"] == node);
    let mut done = 0;
    for node in NODES {
        let Some(enactment) = on(node) else {
            return Err(format!("{node} has no enactment"));
        };
        if enactment["status"]["policyGeneration"] != live["metadata"]["generation"] {
            return Err(format!("{node} has not acted on the latest generation"));
        }
        done += usize::from(says(enactment, "Available"));
        if says(enactment, "Failing") {
            return Ok(("Degraded", FAILED, format!("{node} has failed")));
        }
    }
    if done == NODES.len() {
        Ok(("Available", FINE, "all nodes have it".to_owned()))
    } else {
        Err(format!("{done} nodes have it"))
    }
}

/// The policy as the observer found it.
pub struct Look {
    /// `None` if there is none.
    pub live: Option<Value>,
    /// The words that the tools must say.
    pub words: Words,
    /// The truth for people.
    pub lines: Vec<String>,
    pub violations: Vec<String>,
}

/// Looks at the policy, and compares its status with the truth.
pub async fn look(cluster: &Cluster, renderer: &Renderer) -> Look {
    let key = key();
    let live = cluster.get(key.kind, "", &key.name).await;
    let mut look = Look {
        live,
        words: FINE,
        lines: Vec::new(),
        violations: Vec::new(),
    };
    let Some(live) = &look.live else {
        let left = enactments(cluster).await.len();
        look.lines
            .push(format!("there is none, and {left} enactments"));
        if left > 0 {
            look.violations
                .push("the policy is gone, and its enactments are not".to_owned());
        }
        return look;
    };
    if live["metadata"]["deletionTimestamp"].is_string() {
        look.violations
            .push("the policy is still being deleted".to_owned());
        return look;
    }
    match truth(cluster, renderer, live).await {
        Ok((must_hold, words, why)) => {
            let status = &live["status"];
            look.words = words;
            look.lines.push(format!("{must_hold}: {why}"));
            for name in ["Available", "Degraded", "Ignored", "Progressing"] {
                let holds = condition(status, name)["status"] == "True";
                if holds != (name == must_hold) {
                    look.violations
                        .push(format!("{must_hold} must hold alone: {name} is {holds}"));
                }
            }
            if status["observedGeneration"] != live["metadata"]["generation"] {
                look.violations
                    .push("status is about an older generation".to_owned());
            }
        }
        Err(why) => {
            look.lines.push(why.clone());
            look.violations.push(why);
        }
    }
    look
}
