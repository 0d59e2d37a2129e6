//! Limits to the writes of the operator, where RBAC can only name the kind.

use serde_json::Value;

use crate::admission::{AccountPolicy, forbidden, no_token_secret};

/// The policy about the operator, and its binding.
pub const OPERATOR_POLICY: &str = "weft-placement-operator";

/// The `ValidatingAdmissionPolicy` and its binding: the operator acts through no other account, be
/// it by a Secret or by a pod that has its token.
pub(super) fn policies() -> [Value; 2] {
    // The operands of other domains have tokens, where one account serves several.
    let is_other = "request.namespace in ['cluster-network-addons', 'nmstate']";
    let pod = "object.spec.template.spec";
    let has_no_token = format!(
        "has({pod}.automountServiceAccountToken) && !{pod}.automountServiceAccountToken && (!has({pod}.volumes) || {pod}.volumes.all(v, !has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(s, !has(s.serviceAccountToken))))"
    );
    // Before Weft replaces the pods of placement-operator's Deployment, it takes the Deployment
    // over as it is.
    let keeps_pods =
        "request.operation == 'UPDATE' && object.spec.template == oldObject.spec.template";
    let policy = AccountPolicy {
        name: OPERATOR_POLICY,
        accounts: &["weft-placement-operator", "weft-operator"],
        grants: &[],
        unless: None,
        writes: &[
            ("", &["secrets"], &["CREATE", "UPDATE"]),
            ("apps", &["deployments"], &["CREATE", "UPDATE"]),
            ("batch", &["jobs"], &["CREATE", "UPDATE"]),
        ],
        variables: Vec::new(),
        validations: vec![
            no_token_secret(),
            forbidden(
                &format!(
                    "request.resource.resource == 'secrets' || {is_other} || {keeps_pods} || {has_no_token}"
                ),
                "the operator of Placement may run no pods with the token of an account: automountServiceAccountToken must be false, and no volume may project a token",
            ),
        ],
    };
    policy.objects()
}
