#![allow(clippy::unwrap_used)]
use serde_json::json;

use super::*;

fn daemon_set() -> ObjectKey {
    ObjectKey::new(kinds::DAEMON_SET, "n", "d")
}

/// A policy `p` with these constraints, as the API server stores it.
fn policy(constraints: &Value) -> Value {
    json!({
        "kind": "MutatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"matchConstraints": constraints, "mutations": []}
    })
}

fn binding(spec: Value) -> Value {
    json!({
        "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": spec
    })
}

fn bound(constraints: &Value) -> Vec<Value> {
    vec![policy(constraints), binding(json!({"policyName": "p"}))]
}

fn webhook(fields: &Value) -> Vec<Value> {
    let mut webhook = json!({"name": "w.example.com"});
    webhook
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    vec![json!({
        "kind": "MutatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": [webhook]
    })]
}

fn rule() -> Value {
    json!({
        "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["daemonsets"], "scope": "*"
    })
}

/// The rule with another value of a field.
fn rule_with(field: &str, value: Value) -> Value {
    let mut rule = rule();
    rule[field] = value;
    rule
}

/// The names of the candidates for an update of this object without labels.
fn names_for(key: &ObjectKey, objects: &[Value]) -> Vec<String> {
    let object = json!({"metadata": {"name": key.name}});
    let request = Request {
        key,
        creates: false,
        objects: &[&object],
        namespace: None,
    };
    candidates(&request, objects)
        .into_iter()
        .map(|candidate| candidate.name)
        .collect()
}

fn has(objects: &[Value]) -> bool {
    !names_for(&daemon_set(), objects).is_empty()
}

#[test]
fn each_part_of_a_rule_counts() {
    let cases = [
        ("operations", json!(["*"]), true),
        ("operations", json!(["CREATE"]), false),
        ("apiGroups", json!(["*"]), true),
        ("apiGroups", json!([""]), false),
        ("apiVersions", json!(["*"]), true),
        ("resources", json!(["*"]), true),
        ("resources", json!(["*/*"]), true),
        ("resources", json!(["daemonsets/*"]), true),
        ("resources", json!(["pods", "daemonsets"]), true),
        ("resources", json!(["daemonsets/status"]), false),
        ("resources", json!(["*/status"]), false),
        ("resources", json!(["deployments"]), false),
        ("scope", json!("Namespaced"), true),
        ("scope", json!("Cluster"), false),
    ];
    for (field, value, expected) in cases {
        let rules = json!([
            rule_with("resources", json!(["pods"])),
            rule_with(field, value)
        ]);
        let of_policy = bound(&json!({"resourceRules": rules}));
        assert_eq!(has(&of_policy), expected, "{rules}");
        assert_eq!(has(&webhook(&json!({"rules": rules}))), expected, "{rules}");
    }
    assert!(!has(&webhook(&json!({"rules": []}))));
    assert!(has(&bound(&json!({}))), "a policy without rules is for all");
}

#[test]
fn a_create_is_no_update() {
    let key = daemon_set();
    let request = Request {
        key: &key,
        creates: true,
        objects: &[],
        namespace: None,
    };
    assert!(candidates(&request, &webhook(&json!({"rules": [rule()]}))).is_empty());
    let creates = webhook(&json!({"rules": [rule_with("operations", json!(["CREATE"]))]}));
    assert_eq!(candidates(&request, &creates).len(), 1);
}

#[test]
fn a_rule_for_another_version_counts_unless_it_must_be_exact() {
    let rules = json!([rule_with("apiVersions", json!(["v1beta2"]))]);
    for (policy, expected) in [("Equivalent", true), ("Exact", false)] {
        let matching = json!({"matchPolicy": policy, "rules": rules, "resourceRules": rules});
        assert_eq!(has(&webhook(&matching)), expected, "{policy}");
        assert_eq!(has(&bound(&matching)), expected, "{policy}");
    }
}

#[test]
fn a_policy_needs_a_binding_that_matches() {
    let constraints = json!({"resourceRules": [rule()]});
    let mut objects = vec![policy(&constraints)];
    assert!(!has(&objects), "no binding");
    objects.push(binding(json!({"policyName": "other"})));
    assert!(!has(&objects), "the binding of another policy");
    let others = json!([rule_with("resources", json!(["pods"]))]);
    objects.push(binding(
        json!({"policyName": "p", "matchResources": {"resourceRules": others}}),
    ));
    assert!(!has(&objects), "a binding for other resources");
    objects.push(binding(
        json!({"policyName": "p", "matchResources": {"resourceRules": [rule()]}}),
    ));
    assert!(has(&objects));
}

#[test]
fn names_and_exclusions_narrow_a_policy() {
    for (name, expected) in [("d", true), ("other", false)] {
        let named = rule_with("resourceNames", json!([name]));
        assert_eq!(
            has(&bound(&json!({"resourceRules": [named]}))),
            expected,
            "{name}"
        );
        let excluded = json!({"resourceRules": [rule()], "excludeResourceRules": [named]});
        assert_eq!(has(&bound(&excluded)), !expected, "{name}");
    }
}

#[test]
fn selectors_count_as_far_as_labels_are_known() {
    let selector = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let key = daemon_set();
    let before = json!({"metadata": {"name": "d", "labels": {"app": "a"}}});
    let after = json!({"metadata": {"name": "d", "labels": {"app": "b"}}});
    let namespace = json!({"metadata": {"name": "n", "labels": {"mesh": "on"}}});
    let is_asked = |field: &str, selector: &Value, namespace: Option<&Value>| {
        let request = Request {
            key: &key,
            creates: false,
            objects: &[&before, &after],
            namespace,
        };
        let mut matching = json!({"rules": [rule()], "resourceRules": [rule()]});
        matching[field] = selector.clone();
        let of_webhook = !candidates(&request, &webhook(&matching)).is_empty();
        let of_policy = !candidates(&request, &bound(&matching)).is_empty();
        assert_eq!(of_webhook, of_policy, "{field} {selector}");
        of_policy
    };
    for (value, expected) in [("a", true), ("b", true), ("c", false)] {
        assert_eq!(
            is_asked("objectSelector", &selector("app", value), None),
            expected,
            "{value}"
        );
    }
    for (selector, known, unknown) in [
        (selector("mesh", "on"), true, true),
        (selector("mesh", "off"), false, true),
        (selector(NAME_LABEL, "other"), false, false),
        (
            json!({"matchExpressions": [{"key": "mesh", "operator": "DoesNotExist"}]}),
            false,
            true,
        ),
        (
            json!({"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": ["n"]}]}),
            false,
            false,
        ),
        (
            json!({"matchExpressions": [{"key": "mesh", "operator": "?"}]}),
            true,
            true,
        ),
        (json!({"matchLabels": {}}), true, true),
    ] {
        // The API server gives each namespace this label.
        let mut namespace = namespace.clone();
        namespace["metadata"]["labels"][NAME_LABEL] = "n".into();
        let field = "namespaceSelector";
        assert_eq!(
            is_asked(field, &selector, Some(&namespace)),
            known,
            "{selector}"
        );
        assert_eq!(is_asked(field, &selector, None), unknown, "{selector}");
    }
}

#[test]
fn a_selector_of_namespaces_concerns_no_other_object_without_a_namespace() {
    let everything = json!({
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]
    });
    let objects = webhook(&json!({
        "rules": [everything], "namespaceSelector": {"matchLabels": {"mesh": "on"}}
    }));
    let role = ObjectKey::new(kinds::CLUSTER_ROLE, "", "r");
    assert_eq!(names_for(&role, &objects).len(), 1);
    let namespace = ObjectKey::new(kinds::NAMESPACE, "", "n");
    assert!(
        names_for(&namespace, &objects).is_empty(),
        "it has no such label"
    );
    let configuration = ObjectKey::new(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "c");
    let all = webhook(&json!({"rules": [everything]}));
    assert_eq!(names_for(&role, &all).len(), 1);
    assert!(
        names_for(&configuration, &all).is_empty(),
        "nobody is asked about these"
    );
}

#[test]
fn candidates_have_full_names_and_say_whether_they_decide_alone() {
    let plain = json!({"resourceRules": [rule()], "namespaceSelector": {}});
    let mut objects = webhook(&json!({"rules": [rule()]}));
    objects.extend(bound(&plain));
    let key = daemon_set();
    let request = Request {
        key: &key,
        creates: false,
        objects: &[],
        namespace: None,
    };
    let candidate = |name: &str, decides_alone| Candidate {
        name: name.to_owned(),
        decides_alone,
    };
    assert_eq!(
        candidates(&request, &objects),
        [
            candidate("MutatingAdmissionPolicy \"p\"", true),
            candidate(
                "webhook \"w.example.com\" of MutatingWebhookConfiguration \"c\"",
                false
            ),
        ]
    );
    let changes = [
        (
            "/spec/paramKind",
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        ),
        (
            "/spec/mutations",
            json!([{"jsonPatch": {"expression": "namespaceObject.metadata.name"}}]),
        ),
        (
            "/spec/matchConstraints/namespaceSelector",
            json!({"matchLabels": {NAME_LABEL: "n"}}),
        ),
    ];
    for (pointer, value) in changes {
        let mut objects = bound(&plain);
        objects[0]["spec"]["paramKind"] = Value::Null;
        *objects[0].pointer_mut(pointer).unwrap() = value;
        let expected = [candidate("MutatingAdmissionPolicy \"p\"", false)];
        assert_eq!(candidates(&request, &objects), expected, "{pointer}");
    }
}
