//! The objects of a replaced operator itself that nothing uses any more.
//!
//! Where Weft's operator has another name, no manifest of Weft replaces account and roles of the
//! original, and Weft's operator has no right to delete them. Its Deployment stays while it is scaled
//! to zero. Weft deletes the objects for Prometheus at the take-over, but release 0.1.0 of Weft did
//! not.

use futures::future::try_join_all;
use serde_json::{Value, json};
use weft_plan::{COMPONENT_LABEL, Domain, Live, OWNER_LABEL, ObjectKey, is_at_rest, kinds};
use weft_runtime::api_server::cluster::{Cluster, Error};

use crate::{domains::SwitchCheck, online::Site};

/// The objects that a replaced operator has left, at least one.
pub struct Leftovers {
    /// The name of the replaced operator.
    operator: &'static str,
    /// The namespace of those objects whose kind has namespaces.
    namespace: String,
    objects: Vec<ObjectKey>,
}

/// Reads what the original operator of a domain has left. `None` if nothing is left, or if an
/// operator of its name may use it: the original itself, or one of Weft.
///
/// # Errors
/// The API server refuses a request, for example because the user may not read roles.
pub async fn read(cluster: &Cluster, site: &Site) -> Result<Option<Leftovers>, Error> {
    let name = site.entry.install.operator;
    let (Some(operator), Some(namespace)) = (&site.operator, site.domain.namespace()) else {
        return Ok(None);
    };
    let is_looked_for = site.entry.switch_checks.contains(&SwitchCheck::Leftovers);
    if !is_looked_for || operator.workload.name == name {
        return Ok(None);
    }
    let domain = &*site.domain;
    let query = format!("fieldSelector=metadata.name={name}");
    let deployments = cluster.list(kinds::DEPLOYMENT, None, &query).await?;
    if !deployments
        .iter()
        .all(|deployment| is_out_of_use(domain, namespace, deployment))
    {
        return Ok(None);
    }
    let keys = candidates(domain, namespace, name);
    let found = try_join_all(keys.iter().map(|key| cluster.get_metadata(key))).await?;
    let left = keys.into_iter().zip(found).filter(|(key, live)| {
        live.as_ref()
            .is_some_and(|live| is_left(domain, name, key, live))
    });
    let objects: Vec<ObjectKey> = deployments
        .iter()
        .filter_map(ObjectKey::of)
        .chain(left.map(|(key, _)| key))
        .collect();
    Ok((!objects.is_empty()).then(|| Leftovers {
        operator: name,
        namespace: namespace.to_owned(),
        objects,
    }))
}

/// Reports whether a Deployment of the original's name is the original, in the namespace of the
/// operands, and rests. Any other one may use the account and the roles of this name.
fn is_out_of_use(domain: &dyn Domain, namespace: &str, deployment: &Value) -> bool {
    domain.is_original_operator(deployment)
        && Live::of(deployment).namespace() == namespace
        && is_at_rest(deployment)
}

/// The account and the roles of the original, and those of the objects that Weft deletes at the
/// take-over that are about the original itself: they have its name in theirs.
fn candidates(domain: &dyn Domain, namespace: &str, name: &str) -> Vec<ObjectKey> {
    let account = [
        kinds::SERVICE_ACCOUNT,
        kinds::ROLE,
        kinds::ROLE_BINDING,
        kinds::CLUSTER_ROLE,
        kinds::CLUSTER_ROLE_BINDING,
    ]
    .map(|kind| ObjectKey::new(kind, namespace, name));
    let obsolete = domain.obsolete().into_iter().map(|(key, _)| key);
    account
        .into_iter()
        .chain(obsolete.filter(|key| key.name.contains(name)))
        .collect()
}

/// Reports whether the original has left this object. The original marks its account and its roles
/// in no way, so their names decide. Weft's own objects have a label of Weft.
fn is_left(domain: &dyn Domain, name: &str, key: &ObjectKey, live: &Value) -> bool {
    let has_label = |label: &str| Live::of(live).label(label).is_some();
    let is_of_weft = has_label(OWNER_LABEL) || has_label(COMPONENT_LABEL);
    !is_of_weft && (key.name == name || domain.left_by_original(live))
}

impl Leftovers {
    /// Returns the text about them, with the command that deletes them, for people.
    pub fn message(&self) -> String {
        format!(
            "nothing uses the objects that {} has left. Delete them when you no longer want to go back: {}",
            self.operator,
            self.command()
        )
    }

    /// Returns the command that deletes all of them, and nothing else.
    fn command(&self) -> String {
        let objects: Vec<String> = self
            .objects
            .iter()
            .map(|key| format!("{}/{}", key.kind.kind.to_lowercase(), key.name))
            .collect();
        format!("kubectl -n {} delete {}", self.namespace, objects.join(" "))
    }

    /// Returns them as JSON, for programs.
    pub fn json(&self) -> Value {
        let objects = self.objects.iter().map(|key| {
            json!({
                "apiVersion": key.kind.api_version(),
                "kind": key.kind.kind,
                "namespace": key.namespace,
                "name": key.name,
            })
        });
        json!({"objects": objects.collect::<Vec<_>>(), "command": self.command()})
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::domains::{self, Environment};

    const NAMESPACE: &str = "cluster-network-addons";
    const NAME: &str = "cluster-network-addons-operator";
    const SERVICE: &str = "cluster-network-addons-operator-prometheus-metrics";

    fn addons() -> Arc<dyn Domain> {
        let entry = domains::chosen(&["addons".to_owned()])[0];
        let environment = Environment::default()
            .with_shipped_images(entry)
            .with_namespaces("weft-system", NAMESPACE);
        entry.open(&environment).unwrap().0
    }

    #[test]
    fn account_and_roles_stay_in_use_while_another_operator_has_the_name() {
        let domain = addons();
        let deployment = |namespace: &str, replicas: u64, labels: Value| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {
                    "name": NAME, "namespace": namespace, "generation": 1, "labels": labels
                },
                "spec": {"replicas": replicas}, "status": {"observedGeneration": 1}
            })
        };
        let of_weft = json!({COMPONENT_LABEL: "operator"});
        for (deployment, expected) in [
            (deployment(NAMESPACE, 0, json!({})), true),
            (deployment(NAMESPACE, 1, json!({})), false),
            (deployment("elsewhere", 0, json!({})), false),
            (deployment(NAMESPACE, 0, of_weft), false),
        ] {
            assert_eq!(
                is_out_of_use(&*domain, NAMESPACE, &deployment),
                expected,
                "{deployment:#}"
            );
        }
    }

    #[test]
    fn objects_of_weft_and_of_users_are_not_left() {
        let domain = addons();
        let account = ObjectKey::new(kinds::SERVICE_ACCOUNT, NAMESPACE, NAME);
        let service = ObjectKey::new(kinds::SERVICE, NAMESPACE, SERVICE);
        let candidates = candidates(&*domain, NAMESPACE, NAME);
        for key in [&account, &service] {
            assert!(candidates.contains(key), "{candidates:#?}");
        }
        let is_namespace = |key: &ObjectKey| key.kind == kinds::NAMESPACE;
        assert!(!candidates.iter().any(is_namespace), "{candidates:#?}");

        let owned = |labels: Value| {
            json!({"metadata": {"labels": labels, "ownerReferences": [{
                "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
                "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u"
            }]}})
        };
        let plain = json!({"metadata": {}});
        let of_weft = owned(json!({OWNER_LABEL: "networkaddonsconfig.cluster"}));
        for (key, live, expected) in [
            (&account, &plain, true),
            (&service, &owned(json!({})), true),
            (&service, &plain, false),
            (&service, &of_weft, false),
        ] {
            assert_eq!(is_left(&*domain, NAME, key, live), expected, "{live:#}");
        }
    }

    #[test]
    fn one_command_deletes_all_of_them() {
        let left = Leftovers {
            operator: NAME,
            namespace: NAMESPACE.to_owned(),
            objects: vec![
                ObjectKey::new(kinds::SERVICE_ACCOUNT, NAMESPACE, NAME),
                ObjectKey::new(kinds::CLUSTER_ROLE, "", NAME),
            ],
        };
        let command =
            format!("kubectl -n {NAMESPACE} delete serviceaccount/{NAME} clusterrole/{NAME}");
        assert!(left.message().ends_with(&command), "{}", left.message());
        let json = left.json();
        assert_eq!(json["command"], command);
        assert_eq!(json["objects"][1]["kind"], "ClusterRole");
        assert_eq!(json["objects"][1]["namespace"], Value::Null);
    }
}
