//! Which mutating policies and webhooks the API server asks about a write, by their rules.
//!
//! The rules are those of the API server: `plugin/webhook/predicates` and `plugin/policy/matching`
//! below `k8s.io/apiserver/pkg/admission`. Where an answer depends on what is not known here, such
//! as a `matchCondition` or the labels of a namespace, the policy or webhook counts as asked.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::labels::{Selector, SelectorExt};
use serde_json::Value;

use crate::{Live, ObjectKey, kinds, text};

/// The label by which the API server gives each namespace its own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A write of an object, as admission sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The object that is written.
    pub key: &'a ObjectKey,
    /// True if the write creates the object.
    pub creates: bool,
    /// The object before, during and after the write, as far as it is known.
    pub objects: &'a [&'a Value],
    /// The namespace of the object, if it has one and the caller knows it.
    pub namespace: Option<&'a Value>,
}

/// A policy or webhook that the API server asks about a write. It may have changed the object, or
/// have left it as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name for people, for example `MutatingAdmissionPolicy "mirror"`.
    pub name: String,
    /// True if its effect on the same object depends on nothing but itself and its bindings. Then no
    /// other change than one of these can end the effect.
    pub decides_alone: bool,
}

/// Returns those of these MutatingAdmissionPolicies, MutatingAdmissionPolicyBindings and
/// MutatingWebhookConfigurations that may have changed the object of a request, in this order:
/// policies, then webhooks.
pub fn candidates(request: &Request<'_>, objects: &[Value]) -> Vec<Candidate> {
    // The API server asks nobody about the objects of admission themselves.
    if request.key.kind.group == kinds::MUTATING_WEBHOOK_CONFIGURATION.group {
        return Vec::new();
    }
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let policies = of_kind("MutatingAdmissionPolicy").filter_map(|policy| {
        let bindings = of_kind("MutatingAdmissionPolicyBinding")
            .filter(|binding| binding["spec"]["policyName"] == Live::of(policy).name());
        of_policy(request, policy, bindings)
    });
    let webhooks = of_kind("MutatingWebhookConfiguration").flat_map(|configuration| {
        let matching =
            list(&configuration["webhooks"]).filter(move |webhook| asks(request, webhook));
        matching.map(move |webhook| Candidate {
            name: format!(
                "webhook {:?} of MutatingWebhookConfiguration {:?}",
                text(webhook, "name"),
                Live::of(configuration).name()
            ),
            // Nobody sees when its server changes.
            decides_alone: false,
        })
    });
    policies.chain(webhooks).collect()
}

/// Returns a policy with these bindings, if the policy and one of the bindings match.
fn of_policy<'a>(
    request: &Request<'_>,
    policy: &Value,
    bindings: impl Iterator<Item = &'a Value>,
) -> Option<Candidate> {
    let spec = &policy["spec"];
    let constraints = &spec["matchConstraints"];
    let resources: Vec<_> = bindings
        .map(|binding| &binding["spec"]["matchResources"])
        .filter(|resources| resources.is_null() || matches(request, resources))
        .collect();
    if resources.is_empty() || !matches(request, constraints) {
        return None;
    }
    let expressions = spec.to_string();
    let depends_on_others = !spec["paramKind"].is_null()
        || ["namespaceObject", "authorizer"]
            .iter()
            .any(|variable| expressions.contains(variable))
        || resources
            .into_iter()
            .chain([constraints])
            .any(|resources| !is_empty(&resources["namespaceSelector"]));
    Some(Candidate {
        name: format!("MutatingAdmissionPolicy {:?}", Live::of(policy).name()),
        decides_alone: !depends_on_others,
    })
}

/// Reports whether a request matches the `matchConstraints` of a policy, or the `matchResources` of
/// a binding.
fn matches(request: &Request<'_>, resources: &Value) -> bool {
    let any_version = is_equivalent(resources);
    let mut rules = list(&resources["resourceRules"]).peekable();
    let has_rule = rules.peek().is_none()
        || rules.any(|rule| is_named(request, rule) && covers(request, rule, any_version));
    // An exclusion of another version may not concern this one.
    let is_excluded = list(&resources["excludeResourceRules"])
        .any(|rule| is_named(request, rule) && covers(request, rule, false));
    has_rule && !is_excluded && selects(request, resources)
}

/// Reports whether the API server asks this webhook.
fn asks(request: &Request<'_>, webhook: &Value) -> bool {
    let any_version = is_equivalent(webhook);
    list(&webhook["rules"]).any(|rule| covers(request, rule, any_version))
        && selects(request, webhook)
}

/// Reports whether rules for one version of a resource hold for its other versions, which is the
/// default.
fn is_equivalent(matching: &Value) -> bool {
    matching["matchPolicy"] != "Exact"
}

/// Reports whether the names of a rule, if it has any, include that of the object.
fn is_named(request: &Request<'_>, rule: &Value) -> bool {
    let mut names = list(&rule["resourceNames"]).peekable();
    names.peek().is_none() || names.any(|name| *name == *request.key.name)
}

/// Reports whether a rule covers the operation and the resource of a request. Requests of Weft that
/// admission could change concern no subresource.
fn covers(request: &Request<'_>, rule: &Value, any_version: bool) -> bool {
    let kind = request.key.kind;
    let has =
        |field: &str, wanted: &str| list(&rule[field]).any(|one| one == "*" || *one == *wanted);
    let operation = if request.creates { "CREATE" } else { "UPDATE" };
    let is_resource = |resource: &Value| {
        let resource = resource.as_str().unwrap_or_default();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        matches!(subresource, "" | "*") && (resource == "*" || resource == kind.plural)
    };
    let is_in_scope = match rule["scope"].as_str() {
        Some("Namespaced") => kind.namespaced,
        Some("Cluster") => !kind.namespaced,
        _ => true,
    };
    is_in_scope
        && has("operations", operation)
        && has("apiGroups", kind.group)
        && (any_version || has("apiVersions", kind.version))
        && list(&rule["resources"]).any(is_resource)
}

/// Reports whether `objectSelector` and `namespaceSelector` may select a request. The API server
/// applies the second one to objects in namespaces, and to namespaces themselves.
fn selects(request: &Request<'_>, matching: &Value) -> bool {
    let of_object = &matching["objectSelector"];
    let has_object = is_empty(of_object)
        || request
            .objects
            .iter()
            .any(|object| Labels::of(object).may_match(of_object));
    let of_namespace = &matching["namespaceSelector"];
    let has_namespace = is_empty(of_namespace)
        || match (&request.key.namespace, request.namespace) {
            (Some(_), Some(namespace)) => Labels::of(namespace).may_match(of_namespace),
            (Some(namespace), None) => Labels::of_namespace(namespace).may_match(of_namespace),
            (None, _) if request.key.kind == kinds::NAMESPACE => request
                .objects
                .iter()
                .any(|object| Labels::of(object).may_match(of_namespace)),
            (None, _) => true,
        };
    has_object && has_namespace
}

/// The labels of an object.
struct Labels {
    known: BTreeMap<String, String>,
    /// True if the object has no other labels.
    complete: bool,
}

impl Labels {
    fn of(object: &Value) -> Self {
        let known = Live::of(object)
            .labels()
            .map(|(name, value)| {
                let value = value.as_str().unwrap_or_default();
                (name.clone(), value.to_owned())
            })
            .collect();
        Self {
            known,
            complete: true,
        }
    }

    /// The labels of a namespace of which only the name is known.
    fn of_namespace(name: &str) -> Self {
        Self {
            known: BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())]),
            complete: false,
        }
    }

    /// Reports whether a label selector selects an object with these labels, as far as they are
    /// known. One that cannot be read may do so.
    fn may_match(&self, selector: &Value) -> bool {
        let Ok(mut selector) = serde_json::from_value::<LabelSelector>(selector.clone()) else {
            return true;
        };
        let is_known = |name: &String| self.complete || self.known.contains_key(name);
        if let Some(labels) = &mut selector.match_labels {
            labels.retain(|name, _| is_known(name));
        }
        if let Some(expressions) = &mut selector.match_expressions {
            expressions.retain(|expression| is_known(&expression.key));
        }
        Selector::try_from(selector).map_or(true, |selector| selector.matches(&self.known))
    }
}

/// Reports whether a label selector demands nothing.
fn is_empty(selector: &Value) -> bool {
    let demands = |field: &str| match &selector[field] {
        Value::Object(labels) => !labels.is_empty(),
        Value::Array(expressions) => !expressions.is_empty(),
        _ => false,
    };
    !demands("matchLabels") && !demands("matchExpressions")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
