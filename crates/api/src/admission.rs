//! `ValidatingAdmissionPolicy`s: what a schema cannot say, said by the API server itself.

use serde_json::{Value, json};

use crate::node_network::{NODE_CONDITION, STARTUP_TAINT};

/// A policy about what people write into the specification of a kind.
///
/// Without it everything works as well: the operator says the same in status. So an expression that
/// cannot be evaluated refuses nothing, and what is stored already can still be labelled, and lose
/// its finalizers: only a specification that changes is judged.
pub(crate) struct SpecificationPolicy<'a> {
    /// The name of the policy and of its binding.
    pub name: &'a str,
    /// The group of the kind.
    pub group: &'a str,
    /// The versions in which it is served.
    pub versions: &'a [&'a str],
    /// Its name in URLs.
    pub plural: &'a str,
    /// Name and expression of a condition. The policy judges an object only if it holds.
    pub when: (&'a str, &'a str),
    /// Variables for the validations: names and expressions.
    pub variables: &'a [(&'a str, &'a str)],
    /// See [`refused`].
    pub validations: Vec<Value>,
    /// The treatment of an object that fails a validation: `Deny`, or `Warn`, which informs the
    /// user and accepts the object.
    pub action: &'a str,
}

impl SpecificationPolicy<'_> {
    /// The policy and its binding.
    pub(crate) fn objects(self) -> [Value; 2] {
        let named =
            |&(name, expression): &(&str, &str)| json!({"name": name, "expression": expression});
        let changed = (
            "spec-changed",
            "oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec",
        );
        let mut spec = json!({
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": [self.group],
                    "apiVersions": self.versions,
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [self.plural],
                }],
            },
            "matchConditions": [named(&self.when), named(&changed)],
            "validations": self.validations,
        });
        if !self.variables.is_empty() {
            spec["variables"] = self.variables.iter().map(named).collect();
        }
        policy(self.name, &spec, self.action)
    }
}

/// A policy of this name and specification, and the binding by which it counts.
pub(crate) fn policy(name: &str, spec: &Value, action: &str) -> [Value; 2] {
    let object = |kind: &str, spec: &Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "spec": spec
        })
    };
    [
        object("ValidatingAdmissionPolicy", spec),
        object(
            "ValidatingAdmissionPolicyBinding",
            &json!({"policyName": name, "validationActions": [action]}),
        ),
    ]
}

/// Finds fault, with `message`, unless `expression` holds. The reason is `Invalid`, unless somebody
/// lacks a right.
pub(crate) fn refused(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Invalid"})
}

/// The node that the token was issued for. The API server puts it in when it issues the token of a
/// pod that runs on a node, or of a node itself (ServiceAccountTokenPodNodeInfo, on in every
/// version since 1.30). Nobody else can.
pub(crate) const NODE_OF_TOKEN: &str = "has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''";

/// The type of a Secret whose token acts as an account: whoever may create one and read it, is that
/// account.
const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";

/// A policy about what some accounts may write: what RBAC cannot say. Without a verdict nothing is
/// let through.
pub(crate) struct AccountPolicy<'a> {
    /// The name of the policy and of its binding.
    pub name: &'a str,
    /// The names of the ServiceAccounts, in whatever namespace they are installed.
    pub accounts: &'a [&'a str],
    /// Further accounts, which hold these rights only to grant them: they may write none of it.
    pub grants: &'a [&'a str],
    /// A write that another policy judges: the name and the expression of a condition under which
    /// this policy counts.
    pub unless: Option<(&'a str, String)>,
    /// Group, resources and operations.
    pub writes: &'a [(&'a str, &'a [&'a str], &'a [&'a str])],
    /// Variables for the validations: names and expressions.
    pub variables: Vec<(&'a str, String)>,
    /// See [`forbidden`].
    pub validations: Vec<Value>,
}

impl AccountPolicy<'_> {
    /// The policy and its binding.
    pub(crate) fn objects(self) -> [Value; 2] {
        let rules = self.writes.iter().map(|(group, resources, operations)| {
            json!({
                "apiGroups": [group], "apiVersions": ["*"], "operations": operations,
                "resources": resources
            })
        });
        let mut validations = self.validations;
        if !self.grants.is_empty() {
            let message = "this account has these rights only to grant them, and may not use them";
            validations.insert(
                0,
                forbidden(&format!("!({})", is_account(self.grants)), message),
            );
        }
        let variables = self
            .variables
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}));
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules.collect::<Vec<_>>()},
            "matchConditions": [
                {
                    "name": "is-account",
                    "expression": is_account(&[self.accounts, self.grants].concat())
                }
            ],
            "validations": validations,
        });
        if let Some((name, expression)) = self.unless
            && let Some(conditions) = spec["matchConditions"].as_array_mut()
        {
            conditions.push(json!({"name": name, "expression": expression}));
        }
        if !self.variables.is_empty() {
            spec["variables"] = variables.collect();
        }
        policy(self.name, &spec, "Deny")
    }
}

/// Returns an expression that is true if one of these ServiceAccounts of any namespace sends the
/// request.
fn is_account(names: &[&str]) -> String {
    format!(
        "request.userInfo.username.matches('^system:serviceaccount:[^:]+:({})$')",
        names.join("|")
    )
}

/// Refuses with `message` unless `expression` holds, for want of a right.
pub(crate) fn forbidden(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Forbidden"})
}

/// The same with a message that is an expression, which may hold no line break.
pub(crate) fn forbidden_with(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "messageExpression": message, "reason": "Forbidden"})
}

/// Refuses a Secret that holds, or is to hold, the token of an account.
pub(crate) fn no_token_secret() -> Value {
    forbidden(
        &format!(
            "request.resource.resource != 'secrets' || !has(object.type) || object.type != '{TOKEN_SECRET}'"
        ),
        "this account may write no Secret of type kubernetes.io/service-account-token: it would hold the token of another account",
    )
}

/// Returns an expression that is true if two maps have the same entries, except those whose key,
/// `k`, is `free`.
pub(crate) fn same_but(one: &str, other: &str, free: &str) -> String {
    format!(
        "{one}.all(k, {free} || (k in {other} && {one}[k] == {other}[k])) && {other}.all(k, {free} || k in {one})"
    )
}

/// A field that is a map, or an empty map. `dyn`: a field of a built-in kind is a map of its
/// fields, too, so that one that is new in Kubernetes is looked at like all the others.
pub(crate) fn map_of(owner: &str, field: &str) -> String {
    format!("has({owner}.{field}) ? dyn({owner}.{field}) : dyn({{}})")
}

/// The variables `node`, the node of the token, and what there was and is of metadata, labels,
/// annotations and status.
pub(crate) fn before_and_after<'a>() -> Vec<(&'a str, String)> {
    vec![
        ("node", NODE_OF_TOKEN.to_owned()),
        ("metadata", "dyn(object.metadata)".to_owned()),
        ("oldMetadata", "dyn(oldObject.metadata)".to_owned()),
        ("annotations", map_of("object.metadata", "annotations")),
        (
            "oldAnnotations",
            map_of("oldObject.metadata", "annotations"),
        ),
        ("status", map_of("object", "status")),
        ("oldStatus", map_of("oldObject", "status")),
    ]
}

/// Metadata is as it was, but for what the API server writes and what `free` names besides.
pub(crate) fn same_metadata(free: &str) -> String {
    same_but(
        "variables.metadata",
        "variables.oldMetadata",
        &format!("k in ['managedFields', 'resourceVersion', 'generation'{free}]"),
    )
}

/// Returns an expression that is true if a write of a Node changes nothing but the condition
/// [`NODE_CONDITION`], or removes nothing but the taint [`STARTUP_TAINT`].
pub(crate) fn is_about_readiness() -> String {
    let same = |field: &str, free: &str| {
        let [new, old] = ["object", "oldObject"].map(|owner| format!("({})", map_of(owner, field)));
        same_but(&new, &old, free)
    };
    let list = |owner: &str, part: &str, list: &str, keep: &str| {
        format!("(has({owner}.{part}.{list}) ? {owner}.{part}.{list}.filter(e, e.{keep}) : [])")
    };
    let both = |part: &str, name: &str, keep: &str| {
        ["object", "oldObject"].map(|owner| list(owner, part, name, keep))
    };
    let [conditions, old_conditions] = both(
        "status",
        "conditions",
        &format!("type != '{NODE_CONDITION}'"),
    );
    let [taints, old_taints] = both("spec", "taints", &format!("key != '{STARTUP_TAINT}'"));
    let [startup, old_startup] = both("spec", "taints", &format!("key == '{STARTUP_TAINT}'"));
    [
        "request.operation == 'UPDATE'".to_owned(),
        same(
            "metadata",
            "k in ['managedFields', 'resourceVersion', 'generation']",
        ),
        same("spec", "k == 'taints'"),
        same("status", "k == 'conditions'"),
        format!("{conditions} == {old_conditions}"),
        format!("{taints} == {old_taints}"),
        format!("{startup}.all(e, e in {old_startup})"),
    ]
    .join(" && ")
}

/// The condition under which a policy of another domain judges a write of a Node: where one operator
/// serves several domains, its account holds the rights of all of them.
pub(crate) fn unless_readiness<'a>() -> Option<(&'a str, String)> {
    let of_operator = is_account(&["weft-operator"]);
    let about = is_about_readiness();
    Some(("is-not-readiness", format!("!({of_operator} && {about})")))
}

/// The token must name a node.
pub(crate) fn has_node() -> Value {
    forbidden(
        "variables.node != ''",
        "this account needs a token that is bound to its node: that of its pod, or one made with `kubectl create token --bound-object-kind Node`",
    )
}
