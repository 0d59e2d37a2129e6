//! The operators that are installed, and the replica that leads.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weft_plan::{
    COMPONENT_LABEL, Domain, Kind, Live, ObjectKey, is_at_rest, is_object_name, kinds,
    report::Blocked,
};

use crate::{
    api_server::cluster::{Cluster, Error},
    inspect::reader::Reader,
    leader::lease::{is_of_weft, trusted},
    reconcile::originals,
};

/// The variables by which a pod finds the API server.
const API_SERVER: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// A Deployment or DaemonSet that runs `weft operator`.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The identity of the workload.
    pub workload: ObjectKey,
    /// The workload's `metadata.uid`.
    pub uid: String,
    /// The image of its first container.
    pub image: String,
    /// When this image is pulled. Empty if the workload does not say it.
    pub pull_policy: String,
    /// How many pods are wanted.
    pub replicas: i64,
    /// The arguments of its container.
    pub arguments: Vec<String>,
    /// The domains that it serves.
    pub domains: Vec<String>,
    /// The environment of its container, as far as the Deployment shows it.
    pub environment: BTreeMap<String, String>,
    /// The workload's labels, annotations and owner references, in its `metadata`: marks of the tool
    /// that has installed it.
    pub marks: Value,
}

impl Operator {
    /// Reads a Deployment or a DaemonSet. `None` if it has no container.
    pub fn of(workload: &Value) -> Option<Self> {
        let container = workload.pointer("/spec/template/spec/containers/0")?;
        let key = ObjectKey::of(workload)?;
        let replicas = match key.kind {
            kinds::DAEMON_SET => workload.pointer("/status/desiredNumberScheduled"),
            _ => workload.pointer("/spec/replicas"),
        };
        let text = |field: &str| container[field].as_str().unwrap_or_default().to_owned();
        let arguments = container["args"].as_array().into_iter().flatten();
        let arguments: Vec<&str> = arguments.filter_map(Value::as_str).collect();
        Some(Self {
            uid: Live::of(workload).uid().to_owned(),
            image: text("image"),
            pull_policy: text("imagePullPolicy"),
            replicas: replicas.and_then(Value::as_i64).unwrap_or(1),
            domains: domains(arguments.iter().copied()),
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            environment: environment(workload),
            marks: json!({"metadata": {
                "namespace": workload["metadata"]["namespace"],
                "labels": workload["metadata"]["labels"],
                "annotations": workload["metadata"]["annotations"],
                "ownerReferences": workload["metadata"]["ownerReferences"],
            }}),
            workload: key,
        })
    }

    /// Reports whether the operator reads the address of the API server from a file of its node.
    pub fn reads_api_server_from_file(&self) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.starts_with("--url-only-kubeconfig"))
    }
}

/// The variables that lead a workload's pods to the API server, if it has any.
pub fn api_server_of(workload: &Value) -> BTreeMap<String, String> {
    let mut variables = environment(workload);
    variables.retain(|name, _| API_SERVER.contains(&name.as_str()));
    variables
}

/// The environment of a workload's first container, as far as the workload shows it.
pub fn environment(workload: &Value) -> BTreeMap<String, String> {
    let namespace = Live::of(workload).namespace();
    let value = |variable: &Value| match variable
        .pointer("/valueFrom/fieldRef/fieldPath")
        .and_then(Value::as_str)
    {
        Some("metadata.namespace") => Some(namespace.to_owned()),
        Some(_) => None,
        None => variable["value"].as_str().map(str::to_owned),
    };
    let variables = workload
        .pointer("/spec/template/spec/containers/0/env")
        .and_then(Value::as_array);
    variables
        .into_iter()
        .flatten()
        .filter_map(|variable| Some((variable["name"].as_str()?.to_owned(), value(variable)?)))
        .collect()
}

/// The domains on the operator's command line.
fn domains<'a>(arguments: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut arguments = arguments.skip_while(|argument| !argument.starts_with("--domains"));
    let list = match arguments.next() {
        Some("--domains") => arguments.next().unwrap_or_default(),
        Some(argument) => argument.strip_prefix("--domains=").unwrap_or_default(),
        None => "",
    };
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// All operators of Weft that are installed, in whatever namespace.
pub async fn operators(reader: &Reader) -> Result<Vec<Operator>, Error> {
    let query = format!("labelSelector={COMPONENT_LABEL}=operator");
    let (deployments, daemon_sets) = futures::try_join!(
        reader.list(kinds::DEPLOYMENT, None, &query),
        reader.list(kinds::DAEMON_SET, None, &query)
    )?;
    Ok(deployments
        .iter()
        .chain(&daemon_sets)
        .filter_map(Operator::of)
        .collect())
}

/// Returns the operator that Weft replaces if it runs, or its leftovers if they are in the way.
/// Weft then writes nothing in this domain.
pub async fn blocked(cluster: &Cluster, domain: &dyn Domain) -> Result<Option<Blocked>, Error> {
    blocked_as_seen(&Reader::strict(cluster), domain).await
}

/// The same, as far as the user of this reader may look.
pub async fn blocked_as_seen(
    reader: &Reader,
    domain: &dyn Domain,
) -> Result<Option<Blocked>, Error> {
    Ok(originals::blocked(
        domain,
        operators_of_others(reader, domain).await?.iter(),
    ))
}

/// The same for whoever removes Weft from this namespace: there an operator that is scaled to zero
/// counts, too, since its objects may have the names of Weft's.
pub async fn blocked_in(
    cluster: &Cluster,
    domain: &dyn Domain,
    namespace: &str,
) -> Result<Option<Blocked>, Error> {
    let operators = operators_of_others(&Reader::strict(cluster), domain).await?;
    let counts =
        |original: &Value| !is_at_rest(original) || Live::of(original).namespace() == namespace;
    Ok(originals::blocked_by(domain, operators.iter(), counts))
}

/// The operator that Weft replaces, running or at rest, and what it has left that the API server
/// asks about what Weft writes.
pub async fn originals(cluster: &Cluster, domain: &dyn Domain) -> Result<Vec<Value>, Error> {
    let found = operators_of_others(&Reader::strict(cluster), domain).await?;
    Ok(domain
        .originals(&found.iter().collect::<Vec<_>>())
        .into_iter()
        .cloned()
        .collect())
}

/// Why Weft writes nothing while this one of the [`originals`] is there, and how to remove it.
/// `None` if it is at rest.
pub fn obstacle(original: &Value) -> Option<Blocked> {
    (!is_at_rest(original)).then(|| originals::in_the_way(original))
}

/// The workloads that may be the operator that Weft replaces, and what it may have left.
async fn operators_of_others(reader: &Reader, domain: &dyn Domain) -> Result<Vec<Value>, Error> {
    let named = async |(kind, name): &(Kind, &str)| {
        reader
            .list(*kind, None, &format!("fieldSelector=metadata.name={name}"))
            .await
    };
    let workloads = futures::future::try_join_all(domain.operators().iter().map(named));
    let (workloads, admission) = futures::try_join!(workloads, admission(reader, domain))?;
    Ok(workloads.into_iter().flatten().chain(admission).collect())
}

/// Returns the objects of admission that the original operator has. A user who may not read them
/// does not see them here. Status names them.
async fn admission(reader: &Reader, domain: &dyn Domain) -> Result<Vec<Value>, Error> {
    let Some(is_theirs) = domain.admission() else {
        return Ok(Vec::new());
    };
    let all = kinds::ADMISSION.map(|kind| reader.list_if_permitted(kind));
    let all = futures::future::try_join_all(all).await?;
    Ok(all.into_iter().flatten().filter(is_theirs).collect())
}

/// The holder of the Lease of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// `spec.holderIdentity`: the replica's name and something random.
    pub identity: String,
    /// True if the holder is nobody: no operator of Weft, and no pod of the operator's namespace.
    /// False for a user who may not read pods.
    pub is_ghost: bool,
    /// When it last renewed its lease, by its own clock. `None` if the Lease does not say it: another
    /// user has written it, since each operator does.
    pub renewed: Option<Timestamp>,
    /// How long the lease lasts from then on, as far as candidates trust it.
    pub lasts: SignedDuration,
}

impl Leader {
    /// Reports whether the holder leads: it is no ghost, and the Lease has not expired.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        let is_recent = |renewed| now.duration_since(renewed) <= self.lasts;
        !self.is_ghost && self.renewed.is_some_and(is_recent)
    }

    /// Returns why nobody leads by this Lease, whose holder is a ghost, for people.
    pub fn ghost(&self, lease: &ObjectKey) -> String {
        format!(
            "the Lease is held by {}, which is neither an operator of Weft nor a pod in {}",
            self.identity,
            lease.namespace.as_deref().unwrap_or_default()
        )
    }

    /// Returns the name of the pod that the identity begins with. `None` if no pod can have this
    /// name, which must then not become a part of a URL.
    fn pod(&self) -> Option<&str> {
        // A name of a pod has no `_`, and client-go puts one behind it, too.
        let name = self.identity.split('_').next()?;
        is_object_name(name).then_some(name)
    }
}

/// Reports whether the holder of a Lease is nobody, see [`Leader::is_ghost`].
///
/// An operator of Weft needs no pod. It may run outside of the cluster. During a failover the pod is
/// gone and the Lease has not expired yet.
async fn is_ghost(reader: &Reader, namespace: &str, lease: &Value, leader: &Leader) -> bool {
    if is_of_weft(lease) {
        return false;
    }
    match leader.pod() {
        Some(pod) => {
            let pod = ObjectKey::new(kinds::POD, namespace, pod);
            reader.exists_extra(&pod).await == Some(false)
        }
        None => true,
    }
}

/// The Lease of a domain.
pub fn lease_key(namespace: &str, domain: &dyn Domain) -> ObjectKey {
    ObjectKey::new(kinds::LEASE, namespace, &format!("weft-{}", domain.name()))
}

/// Returns the replica that leads a domain, or that led it last and did not release the Lease.
pub async fn leader(
    cluster: &Cluster,
    namespace: &str,
    domain: &dyn Domain,
) -> Result<Option<Leader>, Error> {
    leader_as_seen(&Reader::strict(cluster), namespace, domain).await
}

/// The same, as far as the user of this reader may look.
pub async fn leader_as_seen(
    reader: &Reader,
    namespace: &str,
    domain: &dyn Domain,
) -> Result<Option<Leader>, Error> {
    let Some(lease) = reader.get(&lease_key(namespace, domain)).await? else {
        return Ok(None);
    };
    let Some(mut leader) = leader_of(&lease) else {
        return Ok(None);
    };
    leader.is_ghost = is_ghost(reader, namespace, &lease, &leader).await;
    Ok(Some(leader))
}

/// Returns the holder of a Lease, before anybody has looked whether it is a ghost.
fn leader_of(lease: &Value) -> Option<Leader> {
    let spec = &lease["spec"];
    Some(Leader {
        identity: spec["holderIdentity"]
            .as_str()
            .filter(|identity| !identity.is_empty())?
            .to_owned(),
        is_ghost: false,
        renewed: spec["renewTime"]
            .as_str()
            .and_then(|time| time.parse().ok()),
        lasts: trusted(lease).try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn an_operator_is_read_from_its_workload() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "namespace": "n", "name": "o", "uid": "u"
        }, "spec": {"template": {"spec": {"containers": [
            {"image": "i", "args": [
                "operator", "--domains", "a,b"
            ], "env": [{"name": "X", "value": "1"}, {
                "name": "OPERATOR_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}
            },
                {
                    "name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}
                }]}]}}}});
        let operator = Operator::of(&deployment).unwrap();
        assert_eq!(
            (
                operator.replicas,
                operator.image.as_str(),
                &operator.domains[..]
            ),
            (1, "i", &["a".to_owned(), "b".to_owned()][..])
        );
        assert_eq!(
            operator.environment,
            BTreeMap::from([
                ("X".to_owned(), "1".to_owned()),
                ("OPERATOR_NAMESPACE".to_owned(), "n".to_owned())
            ])
        );
        let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "n", "name": "o"}, "status": {"desiredNumberScheduled": 3},
        "spec": {
            "template": {
                "spec": {"containers": [{"image": "i", "args": ["operator", "--domains=c"]}]}
            }
        }});
        let operator = Operator::of(&daemon_set).unwrap();
        assert_eq!(
            (
                operator.workload.kind,
                operator.replicas,
                &operator.domains[..]
            ),
            (kinds::DAEMON_SET, 3, &["c".to_owned()][..])
        );
        assert_eq!(domains(["operator", "--domains=c"].into_iter()), ["c"]);
        assert!(domains(["operator"].into_iter()).is_empty());
    }

    #[test]
    fn a_lease_that_was_given_back_has_no_leader_and_an_old_one_no_live_one() {
        assert_eq!(
            leader_of(&json!({
                "spec": {
                    "holderIdentity": "", "renewTime": "2026-01-01T00:00:00.000000Z",
                    "leaseDurationSeconds": 1
                }
            })),
            None
        );
        let leader = leader_of(&json!({
            "spec": {
                "holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z",
                "leaseDurationSeconds": 30
            }
        }))
        .unwrap();
        assert!(leader.is_alive("2026-01-01T00:00:30Z".parse().unwrap()));
        assert!(!leader.is_alive("2026-01-01T00:00:31Z".parse().unwrap()));
        let ghost = leader_of(&json!({
            "spec": {
                "holderIdentity": "ghost", "renewTime": "2026-01-01T00:00:00.000000Z",
                "leaseDurationSeconds": 2_000_000_000
            }
        }))
        .unwrap();
        assert!(!ghost.is_alive("2026-01-01T00:05:01Z".parse().unwrap()));
        let timeless = json!({"spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 30}});
        let timeless = leader_of(&timeless).expect("it has a holder");
        assert!(!timeless.is_alive("2026-01-01T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn a_ghost_does_not_lead() {
        let mut leader = leader_of(&json!({
            "spec": {
                "holderIdentity": "ghost", "renewTime": "2026-01-01T00:00:00.000000Z",
                "leaseDurationSeconds": 30
            }
        }))
        .unwrap();
        let now = "2026-01-01T00:00:01Z".parse().unwrap();
        assert!(leader.is_alive(now));
        leader.is_ghost = true;
        assert!(!leader.is_alive(now));
        assert_eq!(
            leader.ghost(&ObjectKey::new(kinds::LEASE, "n", "weft-addons")),
            "the Lease is held by ghost, which is neither an operator of Weft nor a pod in n"
        );
    }

    #[test]
    fn the_pod_of_a_holder_is_read_from_its_identity() {
        let pod = |identity: &str| {
            let leader = leader_of(&json!({
                "spec": {
                    "holderIdentity": identity, "renewTime": "2026-01-01T00:00:00.000000Z",
                    "leaseDurationSeconds": 30
                }
            }))
            .unwrap();
            leader.pod().map(str::to_owned)
        };
        for (identity, name) in [
            (
                "weft-operator-7d9c5b6f4-x2k8p_a-uid_000000ab",
                "weft-operator-7d9c5b6f4-x2k8p",
            ),
            ("weft.example_1", "weft.example"),
            ("ghost", "ghost"),
        ] {
            assert_eq!(pod(identity).as_deref(), Some(name));
        }
        for identity in ["_ghost", "..", "a/b", "a b", "a?watch=1", "Ghost"] {
            assert_eq!(pod(identity), None, "{identity}");
        }
    }
}
