//! The switch from old and new releases of cluster-network-addons-operator, back to it, and to Weft
//! again. `releases.txt` lists what each release left.

use serde_json::{Map, Value, json};
use weft_plan::{Kind, OWNER_LABEL, kinds};

use crate::commands::{harness::*, user::*};

const FACTS: &str = include_str!("releases.txt");
/// In their order. Each has objects that the one before did not have.
const RELEASES: [&str; 11] = [
    "0.16", "0.23", "0.42", "0.51", "0.67", "0.77", "0.89", "0.94.0", "0.95", "0.97", "0.102",
];

const RECORD: &str = "cluster-networks-addons-operator-applied-cluster";
const DEVICE_PLUGIN: &str = "macvtap-deviceplugin-config";
const RANGE: &str = "kubemacpool-mac-range-config";

/// Objects that stay until the resource goes: the operator has no rights on them.
/// `weft migrate --check` names them.
const STAY: [(Kind, &str); 3] = [
    (kinds::POD_DISRUPTION_BUDGET, "nmstate-webhook"),
    (kinds::SECRET, "nmstate-webhook"),
    (
        kinds::NETWORK_ATTACHMENT_DEFINITION,
        "primary-udn-kubevirt-binding",
    ),
];

/// Objects that never become Weft's: what users configured, and the Secret that KubeMacPool writes.
const OTHERS: [(Kind, &str); 2] = [
    (kinds::CONFIG_MAP, DEVICE_PLUGIN),
    (kinds::SECRET, "kubemacpool-service"),
];

/// An object that a release made.
#[derive(Debug)]
struct Fact {
    kind: Kind,
    namespace: &'static str,
    name: &'static str,
    /// Labels of the selector, or the role of a binding.
    detail: &'static str,
}

fn rank(release: &str) -> usize {
    RELEASES
        .iter()
        .position(|known| *known == release)
        .unwrap_or_else(|| panic!("{release} is not one of {RELEASES:?}"))
}

/// The objects of a release.
fn facts(release: &str) -> Vec<Fact> {
    let lines = FACTS.lines().filter(|line| !line.starts_with('#'));
    let facts = lines.map(|line| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_default();
        let (first, last, api_version, kind, name, detail) =
            (word(), word(), word(), word(), word(), word());
        let kind = Kind::find(api_version, kind).unwrap_or_else(|| panic!("no such kind: {line}"));
        let namespace = if kind.namespaced { NAMESPACE } else { "" };
        let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
        (
            rank(first)..=rank(last),
            Fact {
                kind,
                namespace,
                name,
                detail,
            },
        )
    });
    facts
        .filter(|(releases, _)| releases.contains(&rank(release)))
        .map(|(_, fact)| fact)
        .collect()
}

/// The configuration that asks for everything that the release had.
fn configuration(release: &str) -> Value {
    let mut spec = json!({"multus": {}, "linuxBridge": {}, "ovs": {}, "kubeMacPool": {}});
    let later = [
        ("0.42", "macvtap"),
        ("0.89", "multusDynamicNetworks"),
        ("0.89", "kubeSecondaryDNS"),
        ("0.94.0", "kubevirtIpamController"),
    ];
    for (since, field) in later {
        if rank(release) >= rank(since) {
            spec[field] = json!({});
        }
    }
    if rank(release) <= rank("0.67") {
        spec["nmstate"] = json!({});
    }
    let version = if rank(release) < rank("0.42") {
        "v1alpha1"
    } else {
        "v1"
    };
    let api_version = format!("networkaddonsoperator.network.kubevirt.io/{version}");
    json!({
        "apiVersion": api_version, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": spec
    })
}

impl Fact {
    /// The least that the API server takes as such an object, with the labels and the owner that
    /// the release set.
    fn object(&self, release: &str, owner: &Value) -> Value {
        let pairs = || -> Map<String, Value> {
            self.detail
                .split(',')
                .filter_map(|pair| pair.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.into()))
                .collect()
        };
        let group = "networkaddonsoperator.network.kubevirt.io";
        let mut labels = json!({});
        if rank(release) >= rank("0.42") {
            labels[format!("{group}/version")] = release.into();
        }
        if rank(release) >= rank("0.67") {
            labels["app.kubernetes.io/managed-by"] = "cnao-operator".into();
            labels["app.kubernetes.io/component"] = "network".into();
            labels["prometheus.cnao.io"] = "true".into();
        }
        let mut object = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "metadata": {"name": self.name, "labels": labels, "ownerReferences": [owner]},
        });
        if self.kind.namespaced {
            object["metadata"]["namespace"] = self.namespace.into();
        }
        let pods = json!({
            "metadata": {"labels": pairs()},
            "spec": {"containers": [{"name": "of-the-release", "image": "registry.example/old:1"}]}
        });
        match self.kind {
            kinds::DAEMON_SET | kinds::DEPLOYMENT => {
                object["spec"] = json!({"selector": {"matchLabels": pairs()}, "template": pods})
            }
            kinds::SERVICE => {
                object["spec"] = json!({"selector": pairs(), "ports": [{"port": 443}]})
            }
            kinds::POD_DISRUPTION_BUDGET => {
                object["spec"] = json!({"selector": {"matchLabels": pairs()}, "minAvailable": 1})
            }
            kinds::NETWORK_POLICY => {
                object["spec"] = json!({"podSelector": {"matchLabels": {"of": "the-release"}}})
            }
            kinds::CLUSTER_ROLE_BINDING | kinds::ROLE_BINDING => {
                let (kind, name) = self
                    .detail
                    .split_once('/')
                    .expect("kind and name of a role");
                object["roleRef"] =
                    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
            }
            kinds::CERTIFICATE => {
                object["spec"] = json!({
                    "secretName": format!("{}-webhook-service", self.name),
                    "dnsNames": ["old.example"], "issuerRef": {"name": "old"}
                });
            }
            kinds::ISSUER => object["spec"] = json!({"selfSigned": {}}),
            kinds::SERVICE_MONITOR => {
                object["spec"] = json!({"selector": {}, "endpoints": [{"port": "old"}]})
            }
            kinds::PROMETHEUS_RULE => object["spec"] = json!({"groups": []}),
            kinds::CONFIG_MAP => {
                object["data"] = match self.name {
                    RANGE => range(),
                    DEVICE_PLUGIN => devices(),
                    _ => json!({"of": "the release"}),
                };
            }
            _ => {}
        }
        object
    }

    fn title(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// The settings of KubeMacPool, and the objects that users created for the macvtap device plugin.
fn range() -> Value {
    json!({"RANGE_START": "02:5f:11:00:00:00", "RANGE_END": "02:5f:11:ff:ff:ff"})
}

fn devices() -> Value {
    json!({"DP_MACVTAP_CONF": r#"[{"name": "dataplane", "lowerDevice": "eth1"}]"#})
}

/// Installs what a full configuration of the release left behind, as its operator wrote it: by
/// update, as `manager`.
async fn install(cluster: &Cluster, release: &str) {
    let mut configuration = configuration(release);
    cluster.apply(&configuration.to_string()).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let owner = json!({
        "apiVersion": configuration["apiVersion"], "kind": "NetworkAddonsConfig", "name": "cluster",
        "uid": uid, "controller": true, "blockOwnerDeletion": true
    });
    let applied = &mut configuration["spec"];
    applied["kubeMacPool"] =
        json!({"rangeStart": range()["RANGE_START"], "rangeEnd": range()["RANGE_END"]});
    applied["imagePullPolicy"] = "Always".into();
    let record = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "data": {"applied": applied.to_string()},
    });
    let objects: Vec<Value> = facts(release)
        .iter()
        .map(|fact| fact.object(release, &owner))
        .chain([record])
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    cluster
        .control_plane
        .kubectl_with_input(&["create", "--field-manager=manager", "-f", "-"], &list)
        .await
        .unwrap();
}

/// Waits until Weft has taken over, and checks that each object of the release is Weft's or gone,
/// and that values survived.
async fn is_switched(cluster: &Cluster, release: &str) {
    wait_until(&format!("the switch from {release}"), async || {
        let resource = cluster.resource().await.unwrap();
        if resource["metadata"]["finalizers"].is_null()
            || condition(&resource["status"], "Available")["status"] != "True"
        {
            return Err(format!("{:#}", resource["status"]));
        }
        for fact in facts(release) {
            let Some(live) = cluster.get(fact.kind, fact.namespace, fact.name).await else {
                continue;
            };
            let metadata = &live["metadata"];
            if STAY.contains(&(fact.kind, fact.name)) {
                // The garbage collector takes it when the resource goes.
                assert_eq!(
                    metadata["ownerReferences"][0]["kind"],
                    "NetworkAddonsConfig",
                    "{}",
                    fact.title()
                );
                continue;
            }
            if OTHERS.contains(&(fact.kind, fact.name)) {
                continue;
            }
            if metadata["labels"][OWNER_LABEL].is_null() {
                return Err(format!(
                    "{} is there and not Weft's: {metadata:#}",
                    fact.title()
                ));
            }
            // As Weft sets it. The other operator's blocks deletions.
            let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            if owners.any(|owner| owner["blockOwnerDeletion"] == true) {
                return Err(format!(
                    "{} has the owner that the other operator set: {metadata:#}",
                    fact.title()
                ));
            }
            let mut writers = metadata["managedFields"].as_array().into_iter().flatten();
            // Labels of equal value may have two owners: the other operator's goes with its next
            // change.
            let answers = |entry: &Value| {
                entry["fieldsV1"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .any(|root| root != "f:metadata")
            };
            let is_theirs = |entry: &Value| {
                entry["manager"] == "manager" && entry["subresource"].is_null() && answers(entry)
            };
            if writers.any(is_theirs) {
                return Err(format!(
                    "{} has fields of the other operator: {:#}",
                    fact.title(),
                    metadata["managedFields"]
                ));
            }
        }
        Ok(())
    })
    .await;
    let data = async |name: &str| {
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, name)
            .await
            .unwrap()["data"]
            .clone()
    };
    assert_eq!(data(RANGE).await, range(), "{release}");
    if rank(release) >= rank("0.42") {
        assert_eq!(data(DEVICE_PLUGIN).await, devices(), "{release}");
    }
    let record: Value =
        serde_json::from_str(data(RECORD).await["applied"].as_str().unwrap()).unwrap();
    assert_eq!(record["imagePullPolicy"], "Always", "{release}");
    let multus = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .unwrap();
    assert_eq!(
        multus["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always",
        "{release}"
    );
}

/// Switches, goes back, switches again, and deletes.
async fn there_and_back(cluster: &Cluster, release: &str) {
    println!("{release}: {} objects", facts(release).len());
    install(cluster, release).await;
    // Early releases made it themselves, and it cannot change its type.
    if cluster
        .get(kinds::SECRET, NAMESPACE, "kubemacpool-service")
        .await
        .is_none()
    {
        cluster.play_kubemacpool().await;
    }
    let operator = Operator::start_default(cluster).await;
    is_switched(cluster, release).await;

    operator.terminate().await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "scale",
            "deployment",
            OPERATOR,
            "--replicas=0",
        ])
        .await;
    weft(cluster, &["release", "addons", "--yes"])
        .await
        .ended(0);
    let resource = cluster.resource().await.unwrap();
    assert_eq!(
        resource["metadata"].get("finalizers"),
        None,
        "{release}: the original removes no finalizer of Weft"
    );
    let given_back = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .unwrap();
    assert_eq!(
        given_back["metadata"]["ownerReferences"][0]["kind"], "NetworkAddonsConfig",
        "{release}"
    );
    assert!(
        given_back["metadata"]["labels"][OWNER_LABEL].is_null(),
        "{release}"
    );

    cluster
        .apply_manifests(&["--split", "--domains", "addons"])
        .await;
    let operator = Operator::start_default(cluster).await;
    is_switched(cluster, release).await;

    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--timeout=60s"])
        .await;
    // Users' configurations stay, and the garbage collector takes its time.
    let is_removed =
        |fact: &&Fact| fact.name != DEVICE_PLUGIN && !STAY.contains(&(fact.kind, fact.name));
    wait_until(&format!("all of {release} is gone"), async || {
        for fact in facts(release).iter().filter(is_removed) {
            if cluster
                .get(fact.kind, fact.namespace, fact.name)
                .await
                .is_some()
            {
                return Err(format!("{} is there", fact.title()));
            }
        }
        Ok(())
    })
    .await;
    operator.terminate().await;
    for fact in facts(release).iter().filter(|fact| !is_removed(fact)) {
        let kind = format!("{}.{}", fact.kind.plural, fact.kind.group);
        cluster
            .kubectl(&[
                "-n",
                fact.namespace,
                "delete",
                kind.trim_end_matches('.'),
                fact.name,
                "--ignore-not-found",
            ])
            .await;
    }
}

/// On one control plane, one release after the other.
async fn each(releases: &[&str]) {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com",
            "prometheusrules.monitoring.coreos.com",
            "certificates.cert-manager.io",
            "issuers.cert-manager.io",
        ])
        .await;
    cluster
        .apply(include_str!(
            "../../../../components/network-attachment-definition/crd.yaml"
        ))
        .await;
    cluster
        .wait_established("network-attachment-definitions.k8s.cni.cncf.io")
        .await;
    for release in releases {
        there_and_back(&cluster, release).await;
    }
}

#[tokio::test]
async fn releases_with_node_networks_are_taken_over_and_given_back() {
    each(&RELEASES[..rank("0.77")]).await;
}

#[tokio::test]
async fn releases_without_node_networks_are_taken_over_and_given_back() {
    each(&RELEASES[rank("0.77")..]).await;
}
