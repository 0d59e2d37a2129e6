//! Limits to the writes of the operator and of the networks, where RBAC can only name the kind.

use serde_json::Value;

use crate::admission::{
    AccountPolicy, before_and_after, forbidden, forbidden_with, same_but, same_metadata,
    unless_readiness,
};

/// The policy about nodes, and its binding.
pub const NODES_POLICY: &str = "weft-cluster-network-nodes";
/// The policy about the operator, and its binding.
pub const OPERATOR_POLICY: &str = "weft-cluster-network-operator";
/// The variable of that policy that names namespaces of other domains. The account of one operator
/// for each domain has none.
pub const OTHER_DOMAINS: &str = "namespacesOfOtherDomains";
/// The value of that variable for an account that serves several domains: the namespaces of the
/// other ones, whether or not they are installed. A later installation may add them and leave out
/// this domain, and the policy stays as it is then. The roles of Placement show which namespaces are
/// served.
pub const NAMESPACES_OF_OTHER_DOMAINS: &str = "['cluster-network-addons', 'nmstate'] + (authorizer.group('placement.openstack.org').resource('placementapis').namespace(request.namespace).check('patch').allowed() ? [request.namespace] : [])";

/// The operator's account, by itself and for several domains.
const OPERATORS: &[&str] = &["cluster-network-operator", "weft-operator"];
/// The role that lets the controller of OpenShift SDN find its credentials.
const CREDENTIALS: &str = "openshift-sdn-controller-account";

/// Two `ValidatingAdmissionPolicy`s, each with its binding.
pub(super) fn policies() -> Vec<Value> {
    [nodes(), operator()].concat()
}

/// Flannel writes its annotations and one condition into the status of its own node. The controller
/// of OpenShift SDN that condition, of any node.
fn nodes() -> [Value; 2] {
    let mut variables = before_and_after();
    let without = |status: &str| {
        format!(
            "'conditions' in variables.{status} ? variables.{status}.conditions.filter(c, c.type != 'NetworkUnavailable') : dyn([])"
        )
    };
    variables.extend([
        (
            "isFlannel",
            "request.userInfo.username.endsWith(':flannel')".to_owned(),
        ),
        ("conditions", without("status")),
        ("oldConditions", without("oldStatus")),
    ]);
    let annotations = "variables.isFlannel && k.startsWith('flannel.alpha.coreos.com/')";
    // The controller sends the whole node as it knows it, maybe without fields that are newer than
    // it is.
    let status = "k == 'conditions' || !variables.isFlannel && !(k in ['addresses', 'allocatable', 'capacity'])";
    let policy = AccountPolicy {
        name: NODES_POLICY,
        accounts: &["flannel", "sdn-controller"],
        grants: OPERATORS,
        unless: unless_readiness(),
        writes: &[(
            "",
            &["nodes", "nodes/status"],
            &["CREATE", "UPDATE", "DELETE"],
        )],
        variables,
        validations: vec![
            forbidden(
                "request.operation == 'UPDATE' && has(request.subResource) && request.subResource == 'status'",
                "this account may write the status of nodes only",
            ),
            forbidden_with(
                "!variables.isFlannel || variables.node != '' && request.name == variables.node",
                "variables.node == '' ? 'Flannel needs a token that is bound to its node: that of its pod' : 'Flannel on node ' + variables.node + ' may write the status of that node only'",
            ),
            forbidden(
                &format!(
                    "request.operation != 'UPDATE' || {} && {} && {} && variables.conditions.all(c, variables.oldConditions.exists(o, o.type == c.type && o.status == c.status)) && variables.oldConditions.all(o, variables.conditions.exists(c, o.type == c.type))",
                    same_metadata(", 'annotations'"),
                    same_but(
                        "variables.annotations",
                        "variables.oldAnnotations",
                        annotations
                    ),
                    same_but("variables.status", "variables.oldStatus", status),
                ),
                "this account may write the condition NetworkUnavailable of a node only, and Flannel its own annotations",
            ),
        ],
    };
    policy.objects()
}

/// The operator writes in the namespaces of its networks, and gives nobody else the role that reads
/// Secrets.
fn operator() -> [Value; 2] {
    let namespaces = [
        "kube-flannel",
        "openshift-kube-proxy",
        "openshift-sdn",
        "openshift-infra",
        "openshift-cluster-network-operator",
    ];
    let namespaces = namespaces
        .map(|namespace| format!("'{namespace}'"))
        .join(", ");
    let binds = |kind: &str| {
        format!(
            "request.resource.resource != '{kind}' || request.operation == 'DELETE' || object.roleRef.name != '{CREDENTIALS}'"
        )
    };
    let all: &[&str] = &["CREATE", "UPDATE", "DELETE"];
    let policy = AccountPolicy {
        name: OPERATOR_POLICY,
        accounts: OPERATORS,
        grants: &[],
        unless: None,
        writes: &[
            ("", &["configmaps", "serviceaccounts", "services"], all),
            ("apps", &["daemonsets"], all),
            ("networking.k8s.io", &["networkpolicies"], all),
            (
                "rbac.authorization.k8s.io",
                &["roles", "rolebindings", "clusterrolebindings"],
                all,
            ),
            ("monitoring.coreos.com", &["servicemonitors"], all),
        ],
        variables: vec![
            (
                "own",
                "[request.userInfo.username.split(':')[2]]".to_owned(),
            ),
            (OTHER_DOMAINS, "[]".to_owned()),
            ("networks", format!("[{namespaces}] + variables.own")),
            (
                "namespaces",
                format!("variables.networks + variables.{OTHER_DOMAINS}"),
            ),
        ],
        validations: vec![
            // A message may not ask for the rights of an account, as the namespaces of other domains do.
            forbidden_with(
                "request.resource.resource == 'clusterrolebindings' || request.namespace in variables.namespaces",
                "'the operator of the cluster network may write ' + request.resource.resource + ' in the namespaces of its networks only: ' + variables.networks.join(', ')",
            ),
            // Accounts of OpenShift's own controllers are there.
            forbidden(
                "request.resource.resource != 'daemonsets' || request.namespace != 'openshift-infra'",
                "the operator of the cluster network may run no pods in openshift-infra",
            ),
            forbidden(
                &format!(
                    "({}) && ({} || request.namespace == 'openshift-infra')",
                    binds("clusterrolebindings"),
                    binds("rolebindings")
                ),
                "the ClusterRole openshift-sdn-controller-account may be bound in the namespace openshift-infra only",
            ),
        ],
    };
    policy.objects()
}
