//! Manifests of one namespace, put into another.

use serde_json::Value;
use weft_plan::{Manifest, ManifestError, kinds, parse_yaml};

/// Reads manifests, and moves what is written in the namespace `from` into `to`: objects, the
/// subjects of role bindings, the services of webhooks, and the Namespace itself.
///
/// # Errors
/// A file is no list of manifests.
pub fn load(files: &[&str], from: &str, to: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for file in files {
        for manifest in parse_yaml(file)? {
            let mut body = manifest.body().clone();
            if manifest.key().kind == kinds::NAMESPACE && manifest.key().name == from {
                body["metadata"]["name"] = to.into();
            }
            move_to(&mut body, from, to);
            manifests.push(Manifest::new(body)?);
        }
    }
    Ok(manifests)
}

/// Every field `namespace` that holds `from`, at any depth.
fn move_to(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if field == "namespace" && text == from => {
                        to.clone_into(text)
                    }
                    value => move_to(value, from, to),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_to(item, from, to)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_namespace_moves_and_others_stay() {
        let file = "
apiVersion: v1
kind: Namespace
metadata: {name: here}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b, namespace: here}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: here}
subjects:
- {kind: ServiceAccount, name: a, namespace: here}
- {kind: ServiceAccount, name: a, namespace: other}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
";
        let moved = load(&[file], "here", "there").unwrap();
        let name = |manifest: &Manifest| {
            (
                manifest.key().namespace.clone(),
                manifest.key().name.clone(),
            )
        };
        let expected = [
            (None, "there".to_owned()),
            (Some("there".to_owned()), "b".to_owned()),
            (None, "other".to_owned()),
        ];
        assert_eq!(moved.iter().map(name).collect::<Vec<_>>(), expected);
        let binding = moved[1].body();
        assert_eq!(
            (
                &binding["subjects"][0]["namespace"],
                &binding["subjects"][1]["namespace"]
            ),
            (&"there".into(), &"other".into())
        );
        assert_eq!(binding["roleRef"]["name"], "here");
    }
}
