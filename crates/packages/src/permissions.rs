//! The rules of a role, taken apart into single permissions and put together again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// One verb on one resource or URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// On a resource of an API group. Without a name, on all of its objects.
    Resource {
        /// The API group, empty for the core group.
        group: String,
        /// The resource, with its subresource.
        resource: String,
        /// The only object.
        name: Option<String>,
        /// The verb.
        verb: String,
    },
    /// On a URL that is no resource.
    Url {
        /// The path.
        path: String,
        /// The verb.
        verb: String,
    },
}

/// Returns the single permissions of rules.
pub fn apart(rules: &Value) -> BTreeSet<Permission> {
    let mut all = BTreeSet::new();
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let list = rule[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for rule in rules.as_array().into_iter().flatten() {
        let names = texts(rule, "resourceNames");
        let names: Vec<Option<String>> = match names.is_empty() {
            true => vec![None],
            false => names.into_iter().map(Some).collect(),
        };
        for verb in texts(rule, "verbs") {
            for path in texts(rule, "nonResourceURLs") {
                all.insert(Permission::Url {
                    path,
                    verb: verb.clone(),
                });
            }
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    all.extend(names.iter().map(|name| Permission::Resource {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        verb: verb.clone(),
                    }));
                }
            }
        }
    }
    all
}

/// Removes each permission on one object that one on all objects of the resource contains.
pub fn without_repetitions(permissions: &BTreeSet<Permission>) -> BTreeSet<Permission> {
    let is_in_another = |permission: &Permission| match permission {
        Permission::Resource {
            group,
            resource,
            name: Some(_),
            verb,
        } => permissions.contains(&Permission::Resource {
            group: group.clone(),
            resource: resource.clone(),
            name: None,
            verb: verb.clone(),
        }),
        _ => false,
    };
    permissions
        .iter()
        .filter(|permission| !is_in_another(permission))
        .cloned()
        .collect()
}

/// Returns rules with exactly these permissions, in an order that depends on nothing else.
pub fn together<'a>(permissions: impl IntoIterator<Item = &'a Permission>) -> Vec<Value> {
    type Texts = BTreeSet<String>;
    let mut names: BTreeMap<(String, String, String), Texts> = BTreeMap::new();
    let mut urls: BTreeMap<String, Texts> = BTreeMap::new();
    for permission in permissions {
        match permission.clone() {
            Permission::Resource {
                group,
                resource,
                name,
                verb,
            } => names
                .entry((group, resource, verb))
                .or_default()
                // All names have no name of their own.
                .extend([name.unwrap_or_default()]),
            Permission::Url { path, verb } => {
                urls.entry(path).or_default().insert(verb);
            }
        }
    }
    let mut verbs: BTreeMap<(String, String, Texts), Texts> = BTreeMap::new();
    for ((group, resource, verb), names) in names {
        let (all, single): (Texts, Texts) = names.into_iter().partition(String::is_empty);
        for names in [all, single].into_iter().filter(|names| !names.is_empty()) {
            verbs
                .entry((group.clone(), resource.clone(), names))
                .or_default()
                .insert(verb.clone());
        }
    }
    let mut resources: BTreeMap<(String, Texts, Texts), Texts> = BTreeMap::new();
    for ((group, resource, names), verbs) in verbs {
        resources
            .entry((group, names, verbs))
            .or_default()
            .insert(resource);
    }
    let of_resources = resources
        .into_iter()
        .map(|((group, names, verbs), resources)| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if !names.contains("") {
                rule["resourceNames"] = json!(names);
            }
            rule
        });
    let of_urls = urls
        .into_iter()
        .map(|(path, verbs)| json!({"nonResourceURLs": [path], "verbs": verbs}));
    of_resources.chain(of_urls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_were_taken_apart_say_the_same_together() {
        let rules = json!([
            {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]},
            {
                "apiGroups": ["", "apps"], "resources": ["secrets"], "resourceNames": ["a", "b"],
                "verbs": ["get", "delete"]
            },
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]);
        let permissions = apart(&rules);
        assert_eq!(permissions.len(), 4 + 8 + 1);
        let rules = together(&permissions);
        assert_eq!(apart(&json!(rules)), permissions);
        assert_eq!(rules.len(), 4, "{rules:#?}");
        // These are among all secrets.
        assert_eq!(without_repetitions(&permissions).len(), 4 + 6 + 1);
    }
}
