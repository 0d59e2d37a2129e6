//! Limits to the writes of the operator and of the add-ons, where RBAC can only name the kind.
//!
//! RBAC knows no field, no name of an object that is created, and no node of a token. An admission
//! policy does.

use serde_json::Value;

use crate::admission::{
    AccountPolicy, before_and_after, forbidden, forbidden_with, has_node, no_token_secret,
    same_but, same_metadata, unless_readiness,
};

/// The policy about Secrets, and its binding.
pub const SECRETS_POLICY: &str = "weft-network-addons-secrets";
/// The policy about nodes, and its binding.
pub const MARKERS_POLICY: &str = "weft-network-addons-markers";
/// The policy about pods, and its binding.
pub const PODS_POLICY: &str = "weft-network-addons-pods";

/// The operator's account, by itself and for several domains.
const OPERATORS: &[&str] = &["cluster-network-addons-operator", "weft-operator"];
/// The Secrets that KubeMacPool makes.
const OF_KUBEMACPOOL: &str = "['kubemacpool-mutator-ca', 'kubemacpool-service']";
/// The annotation of a pod that lists the networks that Multus attached.
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Three `ValidatingAdmissionPolicy`s, each with its binding.
pub(super) fn policies() -> Vec<Value> {
    [secrets(), markers(), pods()].concat()
}

/// Neither the operator nor KubeMacPool makes itself the token of another account, and KubeMacPool
/// makes its own Secrets only.
fn secrets() -> [Value; 2] {
    let policy = AccountPolicy {
        name: SECRETS_POLICY,
        accounts: &[
            "cluster-network-addons-operator",
            "weft-operator",
            "kubemacpool-sa",
        ],
        grants: &[],
        unless: None,
        writes: &[("", &["secrets"], &["CREATE", "UPDATE"])],
        variables: Vec::new(),
        validations: vec![
            no_token_secret(),
            forbidden(
                &format!(
                    "!request.userInfo.username.endsWith(':kubemacpool-sa') || object.metadata.name in {OF_KUBEMACPOOL}"
                ),
                "KubeMacPool may write the Secrets kubemacpool-mutator-ca and kubemacpool-service only",
            ),
        ],
    };
    policy.objects()
}

/// A marker writes the resources of its own prefix into the status of its own node.
fn markers() -> [Value; 2] {
    let mut variables = before_and_after();
    variables.extend([
        (
            "prefix",
            "request.userInfo.username.endsWith(':bridge-marker') ? 'bridge.network.kubevirt.io/' : 'ovs-cni.network.kubevirt.io/'"
                .to_owned(),
        ),
        ("capacity", crate::admission::map_of("variables.status", "capacity")),
        ("oldCapacity", crate::admission::map_of("variables.oldStatus", "capacity")),
        ("allocatable", crate::admission::map_of("variables.status", "allocatable")),
        ("oldAllocatable", crate::admission::map_of("variables.oldStatus", "allocatable")),
    ]);
    let own = "k.startsWith(variables.prefix)";
    let same = [
        same_metadata(""),
        same_but(
            "variables.status",
            "variables.oldStatus",
            "k in ['capacity', 'allocatable']",
        ),
        same_but("variables.capacity", "variables.oldCapacity", own),
        same_but("variables.allocatable", "variables.oldAllocatable", own),
    ];
    let policy = AccountPolicy {
        name: MARKERS_POLICY,
        accounts: &["bridge-marker", "ovs-cni-marker"],
        grants: OPERATORS,
        unless: unless_readiness(),
        writes: &[(
            "",
            &["nodes", "nodes/status"],
            &["CREATE", "UPDATE", "DELETE"],
        )],
        variables,
        validations: vec![
            has_node(),
            forbidden_with(
                "request.operation == 'UPDATE' && request.name == variables.node && has(request.subResource) && request.subResource == 'status'",
                "'the marker of node ' + variables.node + ' may write the status of that node only'",
            ),
            forbidden_with(
                &format!("request.operation != 'UPDATE' || {}", same.join(" && ")),
                "'a marker may write the resources ' + variables.prefix + '* of its node only'",
            ),
        ],
    };
    policy.objects()
}

/// Multus and the dynamic networks controller write an annotation of the pods of their node.
///
/// They send the whole pod as they know it, maybe without fields that are newer than they are: so
/// what matters is compared, and not all.
fn pods() -> [Value; 2] {
    let mut variables = before_and_after();
    variables.push((
        "conditions",
        "'conditions' in variables.status ? variables.status.conditions : dyn([])".to_owned(),
    ));
    variables.push((
        "oldConditions",
        "'conditions' in variables.oldStatus ? variables.oldStatus.conditions : dyn([])".to_owned(),
    ));
    let kept = ["phase", "podIP", "podIPs", "hostIP", "hostIPs"];
    let kept = kept.map(|field| format!("'{field}'")).join(", ");
    let same = [
        // The status of a pod takes neither owner references nor a specification.
        same_metadata(", 'annotations', 'ownerReferences'"),
        same_but("variables.annotations", "variables.oldAnnotations", &format!("k == '{NETWORK_STATUS}'")),
        same_but("variables.status", "variables.oldStatus", &format!("!(k in [{kept}])")),
        "variables.conditions.all(c, variables.oldConditions.exists(o, o.type == c.type && o.status == c.status))".to_owned(),
        "variables.oldConditions.all(o, variables.conditions.exists(c, o.type == c.type))".to_owned(),
    ];
    let policy = AccountPolicy {
        name: PODS_POLICY,
        accounts: &["multus", "dynamic-networks-controller"],
        grants: OPERATORS,
        unless: None,
        writes: &[(
            "",
            &["pods", "pods/status"],
            &["CREATE", "UPDATE", "DELETE"],
        )],
        variables,
        validations: vec![
            has_node(),
            forbidden_with(
                "request.operation == 'UPDATE' && has(request.subResource) && request.subResource == 'status' && has(oldObject.spec.nodeName) && oldObject.spec.nodeName == variables.node",
                "'on node ' + variables.node + ', this account may write the status of pods of that node only'",
            ),
            forbidden(
                &format!("request.operation != 'UPDATE' || {}", same.join(" && ")),
                "this account may write the annotation k8s.v1.cni.cncf.io/network-status of a pod only",
            ),
        ],
    };
    policy.objects()
}
