//! From what the kinds differ in to a `CustomResourceDefinition`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Rule;
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::schema;

/// The category of all kinds: `kubectl get weft` shows the objects of all of them.
const CATEGORY: &str = "weft";

/// A kind. All of its versions have one schema, so that objects need no conversion between them,
/// and a status that is written apart.
pub(crate) struct Definition<'a> {
    /// Its group.
    pub group: &'a str,
    /// Its name.
    pub kind: &'a str,
    /// Its name in URLs.
    pub plural: &'a str,
    /// Short name for the command line.
    pub short_name: &'a str,
    /// `Cluster` or `Namespaced`.
    pub scope: &'a str,
    /// The versions that are served.
    pub versions: &'a [&'a str],
    /// The one of them that is stored.
    pub stored: &'a str,
    /// A version that is no longer served, and has no schema. The API server refuses a definition
    /// without a version that its `status.storedVersions` names ("must appear in spec.versions"). A
    /// client can read stored objects in the other versions, and the next write stores them in one
    /// of those.
    pub given_up: Option<&'a str>,
    /// Further columns of `kubectl get`.
    pub columns: Vec<Value>,
    /// See [`object`].
    pub schema: Value,
}

impl Definition<'_> {
    /// The object that is installed in a cluster. `preserveUnknownFields` is turned off explicitly,
    /// since a definition made through the old v1beta1 API has it on.
    #[expect(
        clippy::expect_used,
        reason = "the value is made here, from no input; the tests would not get past a wrong one"
    )]
    pub(crate) fn object(self) -> CustomResourceDefinition {
        let Self {
            group,
            kind,
            plural,
            short_name,
            scope,
            versions,
            stored,
            given_up,
            columns,
            schema,
        } = self;
        let version = |name: &str, served: bool, schema: &Value| {
            json!({
                "name": name,
                "served": served,
                "storage": name == stored,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            })
        };
        let served = versions.iter().map(|name| {
            let mut version = version(name, true, &schema);
            if !columns.is_empty() {
                version["additionalPrinterColumns"] = columns.clone().into();
            }
            version
        });
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let given_up = given_up.map(|name| version(name, false, &anything));
        let names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
            "singular": kind.to_lowercase(), "shortNames": [short_name], "categories": [CATEGORY]
        });
        let definition = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "names": names,
                "scope": scope,
                "conversion": {"strategy": "None"},
                "preserveUnknownFields": false,
                "versions": served.chain(given_up).collect::<Vec<_>>(),
            },
        });
        serde_json::from_value(definition).expect("a CustomResourceDefinition")
    }
}

/// The schema of an object. `apiVersion`, `kind` and `metadata` are the API server's own affair.
pub(crate) fn object<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "spec": schema::structural::<Spec>(), "status": schema::structural::<Status>()
        },
    })
}

/// The same of an object that an operator has to look at: until its first status, the object says
/// that no generation of it was observed. Otherwise kstatus would call it Current, since it has
/// neither conditions nor a generation (`status.go`, "checkGeneration"). Flux does the same.
pub(crate) fn with_unobserved_status(mut schema: Value) -> Value {
    schema["properties"]["status"]["default"] = json!({"observedGeneration": -1});
    schema
}

/// The same of an object that must have a specification.
pub(crate) fn with_specification(mut schema: Value) -> Value {
    schema["required"] = json!(["spec"]);
    schema
}

/// The same with rules about the name of the object.
pub(crate) fn with_name(mut schema: Value, description: &str, rules: &[Rule]) -> Value {
    let name =
        json!({"type": "string", "description": description, "x-kubernetes-validations": rules});
    schema["properties"]["metadata"] = json!({"type": "object", "properties": {"name": name}});
    schema
}

/// A column.
pub(crate) fn column(name: &str, kind: &str, description: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "description": description, "jsonPath": path})
}

/// A column with the status of the condition of this name.
pub(crate) fn condition(name: &str, description: &str) -> Value {
    column(
        name,
        "string",
        description,
        &format!(".status.conditions[?(@.type==\"{name}\")].status"),
    )
}

/// The column with the reason why the object is, or is not, ready.
pub(crate) fn reason() -> Value {
    column(
        "Reason",
        "string",
        "Why it is not ready.",
        ".status.conditions[?(@.type==\"Ready\")].reason",
    )
}

/// The column with the message next to this reason.
pub(crate) fn message() -> Value {
    wide(column(
        "Message",
        "string",
        "The details of the reason.",
        ".status.conditions[?(@.type==\"Ready\")].message",
    ))
}

/// The column where `kubectl get -o wide` alone shows it: its texts are long.
pub(crate) fn wide(mut column: Value) -> Value {
    column["priority"] = json!(1);
    column
}

/// The column that `kubectl get` shows where a definition says nothing of columns.
pub(crate) fn age() -> Value {
    json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}

/// Common questions of the tests of all definitions.
#[cfg(test)]
pub(crate) mod testing {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::testing::{assert_lists_are_merged, walk};

    /// The schema of the version that is stored, which is that of all that are served.
    pub(crate) fn schema(crd: &CustomResourceDefinition) -> Value {
        let served: Vec<_> = crd
            .spec
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| &version.schema)
            .collect();
        assert!(
            served.iter().all(|schema| *schema == served[0]),
            "{}: the versions differ",
            crd.spec.names.kind
        );
        serde_json::to_value(
            served[0]
                .as_ref()
                .unwrap()
                .open_api_v3_schema
                .as_ref()
                .unwrap(),
        )
        .unwrap()
    }

    /// `kubectl apply` keeps a definition in an annotation, every field says what it means, and
    /// every list how it is merged. `foreign` are paths to what is a type of Kubernetes, which is
    /// explained elsewhere.
    pub(crate) fn assert_is_in_order(
        crd: &CustomResourceDefinition,
        foreign: impl Fn(&str) -> bool,
    ) {
        let size = serde_json::to_string(crd).unwrap().len();
        assert!(
            size < 200_000,
            "{}: {size} bytes of JSON",
            crd.spec.names.kind
        );
        let (schema, mut missing) = (schema(crd), vec![]);
        assert_lists_are_merged(&schema);
        walk(&schema, "", &mut |path, node| {
            let silent = node["description"].as_str().is_none_or(str::is_empty);
            if silent && !path.ends_with("[]") && path != ".metadata" && !foreign(path) {
                missing.push(path.to_owned());
            }
        });
        assert_eq!(
            missing,
            Vec::<String>::new(),
            "fields without a description"
        );
    }
}
