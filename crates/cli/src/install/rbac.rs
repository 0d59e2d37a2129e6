//! Rights of the operator: the rules in `deploy/`, completed from the objects of the chosen
//! components.
//!
//! Kubernetes lets no user create a role or a binding that gives more than they hold themselves
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping>).
//! `bind` and `escalate` on all roles would be cluster-admin by another name, so the operator holds
//! what its operands hold, and no more.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;
use weft_plan::{Live, Manifest, ObjectKey, text};

/// Stands in `resourceNames` for the names of all objects of that kind that the chosen components
/// have.
const OF_CHOSEN_COMPONENTS: &str = "of-chosen-components";
/// Stands in `resourceNames` for all names, where the chosen components have an object of that
/// kind: RBAC cannot narrow list, watch and create by name.
const ANY_IF_OF_CHOSEN_COMPONENTS: &str = "any-if-of-chosen-components";

/// Roles with this suffix hold what is granted on to the operands.
const GRANTED: &str = "-granted";

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Completes roles and bindings from `deploy/`. A role without rules is left out, with its binding,
/// and so is one without a binding.
///
/// # Errors
/// A rule or an object cannot be read, or an object lives in another namespace than `operands`, if
/// there is just one, where the roles would not reach it.
pub fn complete(
    base: Vec<Value>,
    objects: &[&Manifest],
    made_by_operands: &[ObjectKey],
    operands: Option<&str>,
) -> Result<Vec<Value>> {
    for object in objects {
        let namespace = object.key().namespace.as_deref();
        ensure!(
            namespace
                .zip(operands)
                .is_none_or(|(namespace, operands)| namespace == operands),
            "{}: the operator has no role in this namespace",
            object.key().human()
        );
    }
    // Where no role in a namespace holds what is granted in namespaces, the cluster-wide one does.
    let is_in_namespace =
        |object: &Value| object["kind"] == "Role" && Live::of(object).name().ends_with(GRANTED);
    let apart = base.iter().any(is_in_namespace);
    let bound: BTreeSet<(String, String)> = base
        .iter()
        .chain(objects.iter().map(|object| object.body()))
        .map(role_ref)
        .collect();
    let mut completed = Vec::new();
    let mut empty = BTreeSet::new();
    for mut object in base {
        let (kind, name) = (
            text(&object, "kind").to_owned(),
            Live::of(&object).name().to_owned(),
        );
        if matches!(kind.as_str(), "Role" | "ClusterRole") {
            if is_aggregated(&object) {
                completed.push(object);
                continue;
            }
            if !bound.contains(&(kind.clone(), name.clone())) {
                continue;
            }
            let rules = match (name.ends_with(GRANTED), apart) {
                (true, true) => granted(objects, &[&*kind])?,
                (true, false) => granted(objects, &["ClusterRole", "Role"])?,
                (false, _) => own(rules_of(&object)?, objects, made_by_operands),
            };
            if rules.is_empty() {
                empty.insert((kind, name));
                continue;
            }
            object["rules"] = serde_json::to_value(rules)?;
        }
        completed.push(object);
    }
    completed.retain(|object| !empty.contains(&role_ref(object)));
    Ok(completed)
}

/// Reports whether a role is for users: Kubernetes adds its rules to another role, by this label.
fn is_aggregated(role: &Value) -> bool {
    Live::of(role)
        .labels()
        .any(|(label, _)| label.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
}

/// Kind and name of the role that a binding binds. Empty for any other object.
fn role_ref(object: &Value) -> (String, String) {
    (
        text(&object["roleRef"], "kind").to_owned(),
        text(&object["roleRef"], "name").to_owned(),
    )
}

/// The operator's own rules, in their order, with the names filled in.
fn own(
    rules: Vec<PolicyRule>,
    objects: &[&Manifest],
    made_by_operands: &[ObjectKey],
) -> Vec<PolicyRule> {
    let keys = || {
        objects
            .iter()
            .map(|object| object.key())
            .chain(made_by_operands)
    };
    rules
        .into_iter()
        .filter_map(|mut rule| {
            let marker = match rule.resource_names.as_deref().unwrap_or_default() {
                [one]
                    if [OF_CHOSEN_COMPONENTS, ANY_IF_OF_CHOSEN_COMPONENTS]
                        .contains(&one.as_str()) =>
                {
                    one.clone()
                }
                _ => return Some(rule),
            };
            let groups = rule.api_groups.as_deref().unwrap_or_default();
            let resources = rule.resources.as_deref().unwrap_or_default();
            let meant = |key: &&ObjectKey| {
                groups.iter().any(|group| group == key.kind.group)
                    && resources.iter().any(|resource| resource == key.kind.plural)
            };
            let names: BTreeSet<String> =
                keys().filter(meant).map(|key| key.name.clone()).collect();
            // An empty list of names would mean all names.
            if names.is_empty() {
                return None;
            }
            rule.resource_names =
                (marker == OF_CHOSEN_COMPONENTS).then(|| names.into_iter().collect());
            Some(rule)
        })
        .collect()
}

/// Returns the rights of all roles of these kinds together, and the right to bind foreign roles
/// that are bound.
fn granted(objects: &[&Manifest], roles: &[&str]) -> Result<Vec<PolicyRule>> {
    let mut grants = Grants::default();
    for object in objects {
        if roles.contains(&object.key().kind.kind) {
            rules_of(object.body())
                .with_context(|| object.key().human())?
                .iter()
                .for_each(|rule| grants.add(rule));
        }
    }
    let is_binding = |kind: &str| {
        kind.strip_suffix("Binding")
            .is_some_and(|role| roles.contains(&role))
    };
    for object in objects
        .iter()
        .filter(|object| is_binding(object.key().kind.kind))
    {
        let (role_kind, role) = (
            text(&object.body()["roleRef"], "kind"),
            text(&object.body()["roleRef"], "name"),
        );
        let ours = objects
            .iter()
            .any(|object| object.key().kind.kind == role_kind && object.key().name == role);
        if !ours {
            let resource = if role_kind == "ClusterRole" {
                "clusterroles"
            } else {
                "roles"
            };
            grants
                .resources
                .entry((RBAC_GROUP.into(), resource.into(), vec![role.to_owned()]))
                .or_default()
                .insert("bind".into());
        }
    }
    Ok(grants.into_rules())
}

fn rules_of(role: &Value) -> Result<Vec<PolicyRule>> {
    serde_json::from_value(
        role.get("rules")
            .cloned()
            .unwrap_or_else(|| Value::Array(Vec::new())),
    )
    .context("its rules cannot be read")
}

/// The union of rules, taken apart into single permissions.
#[derive(Default)]
struct Grants {
    /// (group, resource, names) to verbs. No names means all.
    resources: BTreeMap<(String, String, Vec<String>), BTreeSet<String>>,
    /// The verbs by non-resource URL.
    urls: BTreeMap<String, BTreeSet<String>>,
}

impl Grants {
    fn add(&mut self, rule: &PolicyRule) {
        let mut names = rule.resource_names.clone().unwrap_or_default();
        names.sort();
        names.dedup();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                self.resources
                    .entry((group.clone(), resource.clone(), names.clone()))
                    .or_default()
                    .extend(rule.verbs.iter().cloned());
            }
        }
        for url in rule.non_resource_urls.iter().flatten() {
            self.urls
                .entry(url.clone())
                .or_default()
                .extend(rule.verbs.iter().cloned());
        }
    }

    /// As few rules as say the same, in an order that depends on nothing but their content:
    /// resources of a group with the same verbs stand together.
    fn into_rules(self) -> Vec<PolicyRule> {
        let mut together: BTreeMap<(String, Vec<String>, Vec<String>), Vec<String>> =
            BTreeMap::new();
        for ((group, resource, names), verbs) in &self.resources {
            // A rule for all objects of the resource makes rules for single objects unnecessary.
            let of_all = self
                .resources
                .get(&(group.clone(), resource.clone(), Vec::new()))
                .filter(|_| !names.is_empty());
            let verbs = verbs
                .iter()
                .filter(|verb| of_all.is_none_or(|of_all| !of_all.contains(*verb)));
            let verbs = in_order(verbs);
            if !verbs.is_empty() {
                together
                    .entry((group.clone(), names.clone(), verbs))
                    .or_default()
                    .push(resource.clone());
            }
        }
        let mut rules: Vec<PolicyRule> = together
            .into_iter()
            .map(|((group, names, verbs), resources)| PolicyRule {
                api_groups: Some(vec![group]),
                resources: Some(resources),
                resource_names: (!names.is_empty()).then_some(names),
                verbs,
                ..PolicyRule::default()
            })
            .collect();
        rules.sort_by(|a, b| {
            (&a.api_groups, &a.resources, &a.resource_names).cmp(&(
                &b.api_groups,
                &b.resources,
                &b.resource_names,
            ))
        });
        rules.extend(self.urls.into_iter().map(|(url, verbs)| PolicyRule {
            non_resource_urls: Some(vec![url]),
            verbs: in_order(verbs.iter()),
            ..PolicyRule::default()
        }));
        rules
    }
}

/// Verbs in the order in which people are used to read them.
fn in_order<'a>(verbs: impl Iterator<Item = &'a String>) -> Vec<String> {
    const USUAL: [&str; 8] = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let mut verbs: Vec<String> = verbs.cloned().collect();
    verbs.sort_by_key(|verb| {
        (
            USUAL
                .iter()
                .position(|usual| usual == verb)
                .unwrap_or(USUAL.len()),
            verb.clone(),
        )
    });
    verbs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use weft_plan::kinds;

    fn manifest(kind: &str, name: &str, rest: &Value) -> Manifest {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}
        });
        object
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = "ns".into();
        }
        Manifest::new(object).unwrap()
    }

    fn completed(base: Value, objects: &[Manifest], made: &[ObjectKey]) -> Result<Vec<Value>> {
        with_a_role(base, objects, made)
    }

    /// Next to a role in the namespace, so that each holds its own.
    fn with_a_role(base: Value, objects: &[Manifest], made: &[ObjectKey]) -> Result<Vec<Value>> {
        let role = json!({"kind": "Role", "metadata": {"name": "another-granted"}});
        let binding = binding_of(&base);
        complete(
            vec![base, role, binding],
            &objects.iter().collect::<Vec<_>>(),
            made,
            Some("ns"),
        )
    }

    fn binding_of(role: &Value) -> Value {
        json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": "binding"},
            "roleRef": {"kind": role["kind"], "name": role["metadata"]["name"]}
        })
    }

    #[test]
    fn without_a_role_in_the_namespace_the_cluster_wide_one_holds_everything() {
        let rule = |resource: &str| {
            json!({
                "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]
            })
        };
        let binding =
            json!({"roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "view"}});
        let objects = [
            manifest("ClusterRole", "a", &rule("nodes")),
            manifest("Role", "b", &rule("pods")),
            manifest("RoleBinding", "c", &binding),
        ];
        let base = json!({"kind": "ClusterRole", "metadata": {"name": "operator-granted"}});
        let binding = binding_of(&base);
        let rules = complete(
            vec![base, binding],
            &objects.iter().collect::<Vec<_>>(),
            &[],
            None,
        )
        .unwrap()[0]["rules"]
            .clone();
        assert_eq!(
            rules,
            json!([
                {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"]},
                {
                    "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"],
                    "resourceNames": ["view"], "verbs": ["bind"]
                },
            ])
        );
    }

    #[test]
    fn granted_is_the_union_and_nothing_is_said_twice() {
        let objects = [
            manifest(
                "ClusterRole",
                "a",
                &json!({"rules": [
                    {
                        "apiGroups": [""], "resources": ["pods", "pods/status"],
                        "verbs": ["watch", "list"]
                    },
                    {
                        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["y", "x"],
                        "verbs": ["get", "delete"]
                    },
                    {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
                ]}),
            ),
            manifest(
                "ClusterRole",
                "b",
                &json!({"rules": [
                    {"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list"]},
                    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
                ]}),
            ),
            manifest(
                "Role",
                "in-namespace",
                &json!({"rules": [{"apiGroups": ["x"], "resources": ["y"], "verbs": ["z"]}]}),
            ),
        ];
        let base =
            json!({"kind": "ClusterRole", "metadata": {"name": "operator-granted"}, "rules": []});
        let rules = completed(base, &objects, &[]).unwrap()[0]["rules"].clone();
        assert_eq!(
            rules,
            json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["list", "watch"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
                {
                    "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x", "y"],
                    "verbs": ["delete"]
                },
                {"apiGroups": ["apps"], "resources": ["pods"], "verbs": ["get", "list"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ])
        );
    }

    #[test]
    fn a_role_that_is_bound_and_not_ours_may_be_bound_by_name_only() {
        let binding = |role: &str| {
            json!({
                "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}
            })
        };
        let objects = [
            manifest("ClusterRole", "ours", &json!({"rules": []})),
            manifest("ClusterRoleBinding", "a", &binding("ours")),
            manifest("ClusterRoleBinding", "b", &binding("system:auth-delegator")),
        ];
        let base = json!({"kind": "ClusterRole", "metadata": {"name": "operator-granted"}});
        let rules = completed(base, &objects, &[]).unwrap()[0]["rules"].clone();
        assert_eq!(
            rules,
            json!([
                {
                    "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"],
                    "resourceNames": ["system:auth-delegator"], "verbs": ["bind"]
                }
            ])
        );
    }

    #[test]
    fn names_are_those_of_the_objects_and_a_rule_without_any_is_left_out() {
        let base = json!({"kind": "ClusterRole", "metadata": {"name": "operator"}, "rules": [
            {
                "apiGroups": [RBAC_GROUP], "resources": ["clusterroles", "clusterrolebindings"],
                "resourceNames": [OF_CHOSEN_COMPONENTS], "verbs": ["get"]
            },
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
            {
                "apiGroups": [""], "resources": ["secrets"],
                "resourceNames": [OF_CHOSEN_COMPONENTS], "verbs": ["delete"]
            },
            {
                "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                "resourceNames": [OF_CHOSEN_COMPONENTS], "verbs": ["get"]
            },
        ]});
        let objects = [
            manifest("ClusterRole", "b", &json!({})),
            manifest("ClusterRole", "a", &json!({})),
            manifest("ClusterRoleBinding", "c", &json!({})),
            manifest("Role", "d", &json!({})),
        ];
        let rules = completed(
            base,
            &objects,
            &[ObjectKey::new(kinds::SECRET, "ns", "made")],
        )
        .unwrap()[0]["rules"]
            .clone();
        assert_eq!(rules[0]["resourceNames"], json!(["a", "b", "c"]));
        assert_eq!(
            rules[1],
            json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]})
        );
        assert_eq!(rules[2]["resourceNames"], json!(["made"]));
        assert_eq!(rules.as_array().unwrap().len(), 3);
    }

    #[test]
    fn all_names_are_open_only_where_a_component_has_such_an_object() {
        let rule = |resource: &str| {
            json!({
                "apiGroups": [""], "resources": [resource],
                "resourceNames": [ANY_IF_OF_CHOSEN_COMPONENTS], "verbs": ["list"]
            })
        };
        let base = json!({
            "kind": "ClusterRole", "metadata": {"name": "operator"},
            "rules": [rule("secrets"), rule("services")]
        });
        let rules = completed(base, &[], &[ObjectKey::new(kinds::SECRET, "ns", "made")]).unwrap()
            [0]["rules"]
            .clone();
        assert_eq!(
            rules,
            json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}])
        );
    }

    #[test]
    fn a_role_that_operands_bind_is_kept_only_where_one_does() {
        let role = json!({
            "kind": "ClusterRole", "metadata": {"name": "account"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
        });
        let binding = manifest(
            "RoleBinding",
            "b",
            &json!({"roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "account"}}),
        );
        assert_eq!(
            complete(vec![role.clone()], &[], &[], None).unwrap(),
            Vec::<Value>::new()
        );
        assert_eq!(
            complete(vec![role.clone()], &[&binding], &[], None).unwrap(),
            [role]
        );
    }

    #[test]
    fn a_role_with_nothing_to_grant_goes_with_its_binding() {
        let base = vec![
            json!({"kind": "Role", "metadata": {"name": "operator-granted"}, "rules": []}),
            json!({
                "kind": "RoleBinding", "metadata": {"name": "operator-granted"},
                "roleRef": {"kind": "Role", "name": "operator-granted"}
            }),
            json!({
                "kind": "RoleBinding", "metadata": {"name": "other"},
                "roleRef": {"kind": "Role", "name": "other"}
            }),
        ];
        let completed = complete(base, &[], &[], Some("ns")).unwrap();
        assert_eq!(
            completed
                .iter()
                .map(|object| Live::of(object).name())
                .collect::<Vec<_>>(),
            ["other"]
        );
    }

    #[test]
    fn an_object_that_the_roles_would_not_reach_is_refused() {
        let object = Manifest::new(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "kube-system"}
        }))
        .unwrap();
        let error = complete(Vec::new(), &[&object], &[], Some("ns")).unwrap_err();
        assert!(
            error.to_string().contains("ConfigMap kube-system/a"),
            "{error}"
        );
    }
}
