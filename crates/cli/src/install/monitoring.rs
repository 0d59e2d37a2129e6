//! The objects for Prometheus Operator that belong to an operator which does not make them itself.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use weft_plan::Live;

const OPERATOR_YAML: &str = include_str!("../../../../deploy/monitoring/operator.yaml");
/// The names that are written in the file.
const OPERATOR: &str = "weft-operator";
const NAMESPACE: &str = "weft-system";
const DOMAINS: &str = "addons|cluster-network|node-network|placement";
/// The groups of rules about the domain node-network alone.
const OF_NODES: [&str; 2] = ["agents.rules", "policies.rules"];
const NODES: &str = "node-network";

/// The ServiceAccount of Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    namespace: String,
    account: String,
}

impl std::str::FromStr for Reader {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let is_usual = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
            !name.is_empty()
                && name
                    .bytes()
                    .all(|letter| is_usual(letter) || b"-.".contains(&letter))
        };
        match text.split_once('/') {
            Some((namespace, account)) if is_name(namespace) && is_name(account) => Ok(Self {
                namespace: namespace.to_owned(),
                account: account.to_owned(),
            }),
            _ => Err(format!(
                "{text:?} must be NAMESPACE/SERVICEACCOUNT, for example monitoring/prometheus-k8s"
            )),
        }
    }
}

impl std::fmt::Display for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.account)
    }
}

/// The Service, ServiceMonitor, Role, RoleBinding and PrometheusRule of an operator that runs these
/// domains. `workload` is its Deployment or DaemonSet.
///
/// # Errors
/// The workload has no selector or no name: a defect of Weft.
pub fn objects(workload: &Value, domains: &[&str], reader: &Reader) -> Result<Vec<Value>> {
    let live = Live::of(workload);
    let selector = &workload["spec"]["selector"]["matchLabels"];
    let (Some(namespace), true) = (
        workload["metadata"]["namespace"].as_str(),
        selector.is_object(),
    ) else {
        bail!(
            "the workload {} has no namespace or no selector",
            live.name()
        );
    };
    let text = OPERATOR_YAML
        .replace(OPERATOR, live.name())
        .replace(NAMESPACE, namespace)
        .replace(DOMAINS, &domains.join("|"));
    let mut objects: Vec<Value> =
        serde_saphyr::from_multiple(&text).context("deploy/monitoring/operator.yaml")?;
    for object in &mut objects {
        match object["kind"].as_str() {
            Some("Service") => object["spec"]["selector"] = selector.clone(),
            Some("RoleBinding") => {
                object["subjects"][0]["name"] = json!(reader.account);
                object["subjects"][0]["namespace"] = json!(reader.namespace);
            }
            Some("PrometheusRule") if !domains.contains(&NODES) => {
                if let Some(groups) = object["spec"]["groups"].as_array_mut() {
                    groups
                        .retain(|group| OF_NODES.iter().all(|of_nodes| group["name"] != *of_nodes));
                }
            }
            _ => {}
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_reader_is_a_namespace_and_a_service_account() {
        let reader: Reader = "monitoring/prometheus-k8s".parse().unwrap();
        assert_eq!(
            (&*reader.namespace, &*reader.account),
            ("monitoring", "prometheus-k8s")
        );
        for wrong in ["", "monitoring", "a/", "/b", "a/b/c", "A/b"] {
            assert!(
                wrong
                    .parse::<Reader>()
                    .unwrap_err()
                    .contains("NAMESPACE/SERVICEACCOUNT")
            );
        }
    }

    #[test]
    fn objects_get_the_names_and_domains_of_their_operator() {
        let workload = json!({
            "metadata": {"name": "op", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"k8s-app": "op"}}}
        });
        let reader = "observability/scraper".parse().unwrap();
        let made = objects(&workload, &["cluster-network"], &reader).unwrap();
        let all = Value::from(made.clone()).to_string();
        for written in [OPERATOR, NAMESPACE, DOMAINS, "weft_agent_ready"] {
            assert!(!all.contains(written), "{written}: {all}");
        }
        assert!(
            all.contains("weft_resource_ready{domain=~\\\"cluster-network\\\"}"),
            "{all}"
        );
        let names: Vec<_> = made
            .iter()
            .map(|object| {
                format!(
                    "{} {}",
                    object["kind"].as_str().unwrap(),
                    Live::of(object).name()
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                "Service op-metrics",
                "ServiceMonitor op-metrics",
                "Role op-metrics",
                "RoleBinding op-metrics",
                "PrometheusRule op-rules"
            ]
        );
        assert_eq!(made[0]["spec"]["selector"], json!({"k8s-app": "op"}));
        assert_eq!(
            made[3]["subjects"][0],
            json!({"kind": "ServiceAccount", "name": "scraper", "namespace": "observability"})
        );
        let of_nodes = objects(&workload, &[NODES], &reader).unwrap();
        assert!(
            Value::from(of_nodes)
                .to_string()
                .contains("weft_agent_ready")
        );
    }
}
