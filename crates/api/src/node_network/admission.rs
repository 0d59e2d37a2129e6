//! Rules that the schemas cannot hold: about the inside of a desired state, which they leave open,
//! and about the author of a write.

use serde_json::{Value, json};

use super::{
    GROUP, NODE_CONDITION, NODE_LABEL, STARTUP_TAINT, VERSION_V1, VERSION_V1BETA1, enactment,
    policy, state,
};
use crate::admission::{
    self, AccountPolicy, NODE_OF_TOKEN, SpecificationPolicy, forbidden, forbidden_with,
    is_about_readiness, refused,
};

/// The policy about policies, and its binding.
const POLICIES: &str = "weft-node-network-policies";
/// The policy about what agents write, and its binding.
pub const AGENTS_POLICY: &str = "weft-node-network-agents";
/// The policy about what the operator writes of nodes, and its binding.
pub const NODES_POLICY: &str = "weft-node-network-nodes";

/// The name of the agents' ServiceAccount, in whatever namespace they are installed.
pub const AGENT_ACCOUNT: &str = "nmstate-handler";

/// Three `ValidatingAdmissionPolicy`s, each with its binding.
///
/// Without the first, what it refuses is refused by the operator, in status. Without the second, an
/// agent that somebody has taken over could write the objects of other nodes: what RBAC can say
/// ends at the kind. Without the third, the operator's token could label and taint nodes.
pub fn admission() -> Vec<Value> {
    [policies(), agents(), nodes()].concat()
}

/// The operator writes one condition of nodes, and removes one taint.
fn nodes() -> [Value; 2] {
    let policy = AccountPolicy {
        name: NODES_POLICY,
        accounts: &["nmstate-operator", "weft-operator"],
        grants: &[],
        unless: None,
        writes: &[(
            "",
            &["nodes", "nodes/status"],
            &["CREATE", "UPDATE", "DELETE"],
        )],
        variables: Vec::new(),
        validations: vec![forbidden(
            &is_about_readiness(),
            &format!(
                "this account may write the condition {NODE_CONDITION} of a node and remove the taint {STARTUP_TAINT} only"
            ),
        )],
    };
    policy.objects()
}

/// Rules for the desired state of a policy.
fn policies() -> [Value; 2] {
    let interfaces = "object.spec.desiredState.interfaces";
    let policy = SpecificationPolicy {
        name: POLICIES,
        group: GROUP,
        versions: &[VERSION_V1, VERSION_V1BETA1],
        plural: policy::PLURAL,
        when: (
            "matches-interfaces",
            "has(object.spec) && has(object.spec.match) && has(object.spec.desiredState)",
        ),
        variables: &[],
        validations: vec![
            refused(
                &format!(
                    "has({interfaces}) && type({interfaces}) == list && {interfaces}.size() > 0"
                ),
                "spec.match needs spec.desiredState.interfaces: a list of what the interfaces that match should be, without their names",
            ),
            refused(
                &format!(
                    "!has({interfaces}) || type({interfaces}) != list || {interfaces}.all(interface, type(interface) != map || !('name' in interface) || interface.name == null || interface.name == '')"
                ),
                "with spec.match, interfaces of spec.desiredState have no name, since each stands for all that match: remove name, or spec.match",
            ),
        ],
        action: "Deny",
    };
    policy.objects()
}

/// Rules for the writes of an agent: the state of its own node, and the status of its own node's
/// enactments.
fn agents() -> [Value; 2] {
    let resources = [state::PLURAL, enactment::PLURAL]
        .map(|plural| [plural.to_owned(), format!("{plural}/status")]);
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{
                "apiGroups": [GROUP],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": resources.concat(),
            }],
        },
        "matchConditions": [{
            "name": "is-agent",
            "expression": format!("request.userInfo.username.startsWith('system:serviceaccount:') && request.userInfo.username.endsWith(':{AGENT_ACCOUNT}')"),
        }],
        "variables": [
            {"name": "node", "expression": NODE_OF_TOKEN},
            {"name": "subject", "expression": "request.operation == 'DELETE' ? oldObject : object"},
            {
                "name": "isState",
                "expression": format!("request.resource.resource == '{}'", state::PLURAL)
            },
            {
                "name": "isStatus",
                "expression": "has(request.subResource) && request.subResource == 'status'"
            },
            // Labels and specification as they are stored: an update of the status changes neither.
            {
                "name": "label",
                "expression": format!("oldObject != null && has(oldObject.metadata.labels) && '{NODE_LABEL}' in oldObject.metadata.labels ? oldObject.metadata.labels['{NODE_LABEL}'] : ''"),
            },
            {
                "name": "nodeName",
                "expression": "oldObject != null && has(oldObject.spec) && has(oldObject.spec.nodeName) ? oldObject.spec.nodeName : variables.label",
            },
        ],
        "validations": [
            forbidden(
                "variables.node != ''",
                "an agent needs a token that is bound to its node: that of its pod, or one made with `kubectl create token --bound-object-kind Node`",
            ),
            forbidden_with(
                "!variables.isState || has(variables.subject.metadata.name) && variables.subject.metadata.name == variables.node",
                "'the agent of node ' + variables.node + ' may write the NodeNetworkState of that node only'",
            ),
            forbidden(
                "!variables.isState || variables.isStatus || request.operation == 'DELETE' || (has(object.spec) ? object.spec : {}) == (oldObject != null && has(oldObject.spec) ? oldObject.spec : {})",
                "spec of a NodeNetworkState is written by people: an agent leaves it as it is",
            ),
            forbidden(
                "variables.isState || variables.isStatus",
                "an agent writes the status of enactments only: the operator makes and deletes them",
            ),
            forbidden_with(
                // A longer name does not fit into a label as it is.
                "variables.isState || !variables.isStatus || (variables.label == variables.node || variables.node.size() > 63) && variables.nodeName == variables.node",
                "'the agent of node ' + variables.node + ' may write the status of enactments of that node only'",
            ),
        ],
    });
    admission::policy(AGENTS_POLICY, &spec, "Deny")
}
