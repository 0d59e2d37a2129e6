//! The operator under test: the one that the suite installs, or one that is installed already.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::{kubectl::Cluster, suites::OPERATOR};

/// The label of each operator of Weft.
const LABEL: &str = "weft.network/component";

/// The Deployment of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The label selector of its pods.
    pub selector: String,
}

impl Operator {
    /// The operator that the suite installs.
    pub fn of_suite() -> Self {
        Self {
            namespace: OPERATOR.to_owned(),
            name: "weft-operator".to_owned(),
            selector: "app.kubernetes.io/name=weft,app.kubernetes.io/component=operator".to_owned(),
        }
    }

    /// Finds the operator of the add-ons that is installed in the cluster.
    ///
    /// # Errors
    /// There is none, or several are.
    pub fn installed(cluster: &Cluster) -> Result<Self> {
        let selector = format!("{LABEL}=operator");
        let all = cluster.list(&["deployments", "--all-namespaces", "--selector", &selector])?;
        let found: Vec<_> = all.iter().filter(|one| serves_addons(one)).collect();
        match found[..] {
            [one] => Ok(Self::of(one)),
            [] => bail!(
                "no operator of Weft for the add-ons is installed in this cluster. Install it (weft manifests --domains addons | kubectl apply -f -, and name the domains that Weft serves already, too), or leave out INSTALLED and --installed, and give IMAGE: then the suite installs one"
            ),
            _ => {
                let names: Vec<_> = found.iter().map(|one| Self::of(one)).collect();
                let names: Vec<_> = names
                    .iter()
                    .map(|one| format!("{}/{}", one.namespace, one.name))
                    .collect();
                bail!(
                    "several operators of Weft for the add-ons are installed: {}. Remove all but one",
                    names.join(", ")
                )
            }
        }
    }

    fn of(deployment: &Value) -> Self {
        let text = |field: &str| {
            let text = deployment["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        let labels = deployment["spec"]["selector"]["matchLabels"].as_object();
        let labels: Vec<_> = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        Self {
            namespace: text("namespace"),
            name: text("name"),
            selector: labels.join(","),
        }
    }

    /// The Deployment, as kubectl names it.
    pub fn deployment(&self) -> String {
        format!("deployment/{}", self.name)
    }
}

/// Reports whether a workload is an operator of Weft.
pub fn is_of_weft(workload: &Value) -> bool {
    workload["metadata"]["labels"][LABEL] == "operator"
}

/// Reports whether an operator serves the add-ons, which it does unless its arguments name others.
fn serves_addons(deployment: &Value) -> bool {
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let mut arguments = arguments
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let domains = match arguments.find(|argument| argument.starts_with("--domains")) {
        Some("--domains") => arguments.next(),
        found => found.and_then(|argument| argument.strip_prefix("--domains=")),
    };
    domains.is_none_or(|domains| domains.split(',').any(|domain| domain == "addons"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operator_is_known_by_its_domains_and_its_selector() {
        let with = |arguments: &[&str]| {
            json!({
                "metadata": {"namespace": "a", "name": "b", "labels": {LABEL: "operator"}},
                "spec": {
                    "selector": {"matchLabels": {"x": "1", "y": "2"}},
                    "template": {"spec": {"containers": [{"args": arguments}]}},
                },
            })
        };
        assert!(serves_addons(&with(&["operator"])));
        assert!(serves_addons(&with(&[
            "operator",
            "--domains",
            "placement,addons"
        ])));
        assert!(!serves_addons(&with(&[
            "operator",
            "--domains",
            "node-network"
        ])));
        assert!(!serves_addons(&with(&[
            "operator",
            "--domains=node-network"
        ])));
        let operator = with(&["operator"]);
        assert!(is_of_weft(&operator) && !is_of_weft(&json!({})));
        let found = Operator::of(&operator);
        assert_eq!(found.selector, "x=1,y=2");
        assert_eq!(
            (found.namespace.as_str(), found.deployment().as_str()),
            ("a", "deployment/b")
        );
    }
}
