//! The agents' side of enactments, as in life: each node's agent has a token of its own, and writes
//! only the status of its enactments.

use std::collections::BTreeMap;

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::client_from;

use super::{AGENT, NAMESPACE};
use weft_system_tests::*;

/// The agents of some nodes.
pub struct Agents {
    clients: BTreeMap<String, Client>,
}

impl Agents {
    /// Those of these nodes. NMState must be Available.
    pub async fn of(cluster: &Cluster, nodes: &[&str]) -> Self {
        let mut clients = BTreeMap::new();
        for node in nodes {
            let kubeconfig = cluster
                .control_plane
                .node_kubeconfig_via(cluster.control_plane.url(), NAMESPACE, AGENT, node)
                .await
                .unwrap();
            clients.insert((*node).to_owned(), client_from(&kubeconfig).await.unwrap());
        }
        Self { clients }
    }

    /// Says that a node's enactment has come to this, by the conditions that are True.
    pub async fn say(&self, enactment: &Value, phases: &[&str], message: &str) {
        let node = enactment["spec"]["nodeName"].as_str().unwrap();
        let kind = kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT;
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
            kind.plural,
        );
        let api: Api<DynamicObject> = Api::all_with(self.clients[node].clone(), &resource);
        let condition = |name: &&str| {
            json!({
                "type": name, "status": if phases.contains(name) { "True" } else { "False" },
                "message": message
            })
        };
        let conditions: Vec<_> = ["Progressing", "Failing", "Available", "Pending", "Aborted"]
            .iter()
            .map(condition)
            .collect();
        let patch = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "status": {"conditions": conditions, "observedGeneration": enactment["metadata"]["generation"],
            "policyGeneration": enactment["spec"]["wanted"]["generation"], "features": ["static-route"]}});
        let params = PatchParams::apply("weft/agent").force();
        match api
            .patch_status(name(enactment), &params, &Patch::Apply(&patch))
            .await
        {
            Ok(_) => {}
            // It was deleted meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{}: {error}", name(enactment)),
        }
    }

    /// Lets each agent act on its enactments once: it begins a change, or ends the one that it has
    /// begun, on the nodes of `fails` with a failure. Returns how many enactments had something to
    /// do.
    pub async fn act(&self, cluster: &Cluster, fails: &[&str]) -> usize {
        let mut acted = 0;
        for enactment in enactments(cluster).await {
            let node = enactment["spec"]["nodeName"].as_str().unwrap();
            if !self.clients.contains_key(node) {
                continue;
            }
            let known =
                enactment["status"]["observedGeneration"] == enactment["metadata"]["generation"];
            let said = match (
                enactment["spec"]["wanted"]["decision"].as_str().unwrap(),
                known,
            ) {
                ("Granted" | "Revert", false) => ("Progressing", "Applying desired state"),
                ("Granted" | "Revert", true)
                    if condition(&enactment["status"], "Progressing")["status"] == "True" =>
                {
                    match fails.contains(&node) {
                        true => ("Failing", "interfaces[br1]: no such device"),
                        false => ("Available", "successfully reconciled"),
                    }
                }
                ("Pending", false) => ("Pending", "Waiting for progressing nodes to finish"),
                ("Aborted", false) => ("Aborted", "reconciliation of enactment has aborted"),
                _ => continue,
            };
            self.say(&enactment, &[said.0], said.1).await;
            acted += 1;
        }
        acted
    }
}

/// The enactments as they are.
pub async fn enactments(cluster: &Cluster) -> Vec<Value> {
    let list = cluster
        .api(kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT, "")
        .list(&Default::default())
        .await
        .unwrap();
    list.items
        .into_iter()
        .map(|object| serde_json::to_value(object).unwrap())
        .collect()
}

/// Returns an enactment of this policy.
pub async fn enactment(cluster: &Cluster, node: &str, policy: &str) -> Option<Value> {
    cluster
        .get(
            kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
            "",
            &format!("{node}.{policy}"),
        )
        .await
}

/// The decisions about a policy: node, decision and generation.
pub async fn decisions(cluster: &Cluster, policy: &str) -> BTreeMap<String, String> {
    let of_policy = enactments(cluster)
        .await
        .into_iter()
        .filter(|one| one["spec"]["policy"] == policy);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_policy
        .map(|one| {
            (
                text(&one["spec"]["nodeName"]),
                format!(
                    "{} {}",
                    text(&one["spec"]["wanted"]["decision"]),
                    one["spec"]["wanted"]["generation"]
                ),
            )
        })
        .collect()
}

/// Waits until just these decisions stand.
pub async fn wait_decisions(cluster: &Cluster, policy: &str, wanted: &[(&str, &str)]) {
    let wanted: BTreeMap<_, _> = wanted
        .iter()
        .map(|(node, decision)| ((*node).to_owned(), (*decision).to_owned()))
        .collect();
    wait_until(&format!("{policy}: {wanted:?}"), async || {
        let now = decisions(cluster, policy).await;
        if now == wanted {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
}

/// Returns the nodes that are being changed: the operator has granted or reverted the policy there,
/// and the agent is not done.
pub async fn in_flux(cluster: &Cluster, policy: &str) -> Vec<String> {
    let is = |one: &Value| {
        let ended = ["Available", "Failing"]
            .iter()
            .any(|phase| condition(&one["status"], phase)["status"] == "True");
        let told = ["Granted", "Revert"]
            .iter()
            .any(|decision| one["spec"]["wanted"]["decision"] == *decision);
        one["spec"]["policy"] == policy
            && told
            && !(ended && one["status"]["observedGeneration"] == one["metadata"]["generation"])
    };
    enactments(cluster)
        .await
        .into_iter()
        .filter(is)
        .map(|one| name(&one).to_owned())
        .collect()
}

/// Waits until a condition of a policy is True, about its latest generation, with this message.
pub async fn wait_says(cluster: &Cluster, policy: &str, phase: &str, message: &str) -> Value {
    wait_until(&format!("{policy} is {phase}: {message}"), async || {
        let live = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", policy)
            .await
            .ok_or("it is not there")?;
        let said = condition(&live["status"], phase);
        let right = said["status"] == "True"
            && said["observedGeneration"] == live["metadata"]["generation"]
            && said["message"] == message;
        if right {
            Ok(live)
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}
