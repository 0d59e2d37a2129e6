//! Giving a PlacementAPI back to placement-operator, or to nova-operator, which it moved into: what
//! they could not serve, what their definition wants besides, and what they would never release.
//!
//! Everything else they find as they have it themselves: names, labels and owners of objects, and
//! the finalizers of the PlacementAPI, of the objects of mariadb- and keystone-operator and of the
//! Topology. So these stay where they are: without them, what they hold could go before anybody
//! answers for it.

use serde_json::{Map, Value, json};
use weft_api::placement::{PlacementApi, PlacementApiSpec};
use weft_operands::problems::given;
use weft_plan::{Live, ObjectKey, Problem, kinds};

use crate::peers::{Disclaim, credential};

/// Returns the obstacles, field by field, with the way out.
pub fn obstacles(spec: &PlacementApiSpec) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut add = |field: &str, message: &str| {
        found.push(Problem {
            field: field.to_owned(),
            message: message.to_owned(),
        })
    };
    if spec.database.is_some() {
        add(
            "spec.database",
            "is a field of Weft's alone: name a Galera in databaseInstance instead, and wait until the PlacementAPI is Ready",
        );
    }
    if spec.keystone.is_some() {
        add(
            "spec.keystone",
            "is a field of Weft's alone: remove it, so that the KeystoneAPI of the namespace counts, and wait until the PlacementAPI is Ready",
        );
    }
    if spec.auth.as_ref().and_then(|auth| given(&auth.strategy)) == Some("noauth2") {
        add(
            "spec.auth.strategy",
            "noauth2 is known to Weft alone: remove it, name the Secret of the password in secret, and wait until the PlacementAPI is Ready",
        );
    }
    if given(&spec.secret).is_none() {
        add(
            "spec.secret",
            "is missing, and the other operator requires it: name the Secret that holds the password of the service's user",
        );
    }
    found
}

/// Returns the fields that the other operator needs in the specification, and that Weft does not
/// need because that operator's webhook writes them into each object: as a merge patch, and in
/// words. The image is the one that pods run, so that it stays.
pub fn missing(
    resource: &PlacementApi,
    deployment: Option<&Value>,
    default_image: &str,
) -> Option<(Value, String)> {
    // In the alphabet's order: a map keeps the order of insertion in some builds only, and people
    // see the same text from each.
    let mut spec = Map::new();
    if resource.spec.api_timeout == Some(0) {
        spec.insert("apiTimeout".to_owned(), 60.into());
    }
    if given(&resource.spec.container_image).is_none() {
        let runs = deployment.and_then(|live| {
            live.pointer("/spec/template/spec/containers/0/image")?
                .as_str()
        });
        spec.insert(
            "containerImage".to_owned(),
            runs.unwrap_or(default_image).into(),
        );
    }
    let words: Vec<_> = spec
        .iter()
        .map(|(field, value)| format!("spec.{field}: {value}"))
        .collect();
    (!spec.is_empty()).then(|| (json!({ "spec": spec }), words.join(", ")))
}

/// Secrets of application credentials are held by a finalizer that placement-operator does not
/// know. Nova-operator puts it there again by itself. `secrets`: those with the label of the
/// [credentials that are held](credential::held), or that the PlacementAPI names.
pub fn credentials(namespace: &str, secrets: &[Value]) -> Vec<Disclaim> {
    let key = |secret: &Value| ObjectKey::new(kinds::SECRET, namespace, Live::of(secret).name());
    let disclaims = secrets.iter().filter_map(|secret| {
        Disclaim::of(
            &key(secret),
            secret,
            credential::FINALIZER,
            Some(credential::LABEL.0),
        )
    });
    disclaims.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(spec: &Value) -> PlacementApi {
        serde_json::from_value(json!({"metadata": {"name": "placement"}, "spec": spec})).unwrap()
    }

    #[test]
    fn fields_that_only_weft_serves_are_named() {
        let fields = |spec: Value| {
            obstacles(&read(&spec).spec)
                .into_iter()
                .map(|problem| problem.field)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            fields(json!({
                "databaseInstance": "openstack", "secret": "osp",
                "auth": {"strategy": "keystone"}
            })),
            [""; 0]
        );
        assert_eq!(
            fields(json!({
                "database": {}, "keystone": {"registration": "Direct"},
                "auth": {"strategy": "noauth2"}
            })),
            [
                "spec.database",
                "spec.keystone",
                "spec.auth.strategy",
                "spec.secret"
            ]
        );
    }

    #[test]
    fn the_image_that_runs_is_written_down() {
        let runs = json!({"spec": {"template": {"spec": {"containers": [{"image": "runs"}]}}}});
        let missing = |spec: Value, live: Option<&Value>| missing(&read(&spec), live, "default");
        assert_eq!(
            missing(json!({"apiTimeout": 0}), Some(&runs)),
            Some((
                json!({"spec": {"containerImage": "runs", "apiTimeout": 60}}),
                r#"spec.apiTimeout: 60, spec.containerImage: "runs""#.to_owned()
            ))
        );
        assert_eq!(
            missing(json!({"containerImage": ""}), None).unwrap().0["spec"]["containerImage"],
            "default"
        );
        assert_eq!(
            missing(json!({"containerImage": "mine"}), Some(&runs)),
            None
        );
    }
}
