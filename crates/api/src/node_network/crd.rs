//! The `CustomResourceDefinition`s of the four kinds.
//!
//! Old clusters hold objects as `v1alpha1`, a version that kubernetes-nmstate has given up since. The API server refuses a definition without a version
//! that its `status.storedVersions` names ("must appear in spec.versions"), so each definition still has it, and does not serve it: what is stored can
//! be read as one of the others, and is stored anew when it is next written.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Rule;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{
    GROUP, NMStateSpec, NMStateStatus, NodeNetworkConfigurationEnactmentSpec, NodeNetworkConfigurationEnactmentStatus,
    NodeNetworkConfigurationPolicySpec, NodeNetworkConfigurationPolicyStatus, NodeNetworkStateSpec, NodeNetworkStateStatus, VERSION_V1,
    VERSION_V1ALPHA1, VERSION_V1BETA1, enactment, installation, policy, rules, state,
};
use crate::schema;

/// The definitions, as they are installed in a cluster: of `NodeNetworkState`, `NodeNetworkConfigurationPolicy`,
/// `NodeNetworkConfigurationEnactment` and `NMState`.
///
/// Each may be applied over that of kubernetes-nmstate, and that one over it: what is stored is stored as the same version.
pub fn crds() -> [CustomResourceDefinition; 4] {
    [
        Definition {
            kind: state::KIND,
            plural: state::PLURAL,
            short_name: Some("nns"),
            versions: &[VERSION_V1, VERSION_V1BETA1],
            stored: state::VERSION,
            columns: json!([]),
            schema: with_rules(
                object_schema::<NodeNetworkStateSpec, NodeNetworkStateStatus>(
                    "The network of the node of the same name: what it is, and what this one node should have beside what policies say.",
                ),
                &rules::state(),
            ),
        },
        Definition {
            kind: policy::KIND,
            plural: policy::PLURAL,
            short_name: Some("nncp"),
            versions: &[VERSION_V1, VERSION_V1BETA1],
            stored: policy::VERSION,
            columns: json!([status(), reason()]),
            schema: with_name(
                object_schema::<NodeNetworkConfigurationPolicySpec, NodeNetworkConfigurationPolicyStatus>(
                    "Says what the networks of some nodes should be.",
                ),
                "The name. It is also the second part of the names of its enactments.",
                &rules::policy_name(),
            ),
        },
        Definition {
            kind: enactment::KIND,
            plural: enactment::PLURAL,
            short_name: Some("nnce"),
            // kubernetes-nmstate stored them as v1 for a while.
            versions: &[VERSION_V1, VERSION_V1BETA1],
            stored: enactment::VERSION,
            columns: json!([status(), status_age(), reason()]),
            schema: open_root(object_schema::<NodeNetworkConfigurationEnactmentSpec, NodeNetworkConfigurationEnactmentStatus>(
                "One policy on one node: what was decided, and what became of it. Written by the operator and the node's agent, read by people.",
            )),
        },
        Definition {
            kind: installation::KIND,
            plural: installation::PLURAL,
            short_name: None,
            versions: &[VERSION_V1, VERSION_V1BETA1],
            stored: installation::VERSION,
            columns: json!([status(), reason()]),
            schema: with_name(
                object_schema::<NMStateSpec, NMStateStatus>("Brings the agent to the nodes. Of several objects the oldest counts."),
                "The name: any will do.",
                &rules::installation_name(),
            ),
        },
    ]
    .map(Definition::object)
}

/// What the definitions differ in.
struct Definition {
    kind: &'static str,
    plural: &'static str,
    short_name: Option<&'static str>,
    versions: &'static [&'static str],
    stored: &'static str,
    columns: Value,
    schema: Value,
}

impl Definition {
    #[expect(clippy::expect_used, reason = "the value is made here, from no input; the tests would not get past a wrong one")]
    fn object(self) -> CustomResourceDefinition {
        let Self { kind, plural, short_name, versions, stored, columns, schema } = self;
        let version = |name: &&str| {
            let mut version = json!({
                "name": name,
                "served": true,
                "storage": *name == stored,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            });
            if columns != json!([]) {
                version["additionalPrinterColumns"] = columns.clone();
            }
            version
        };
        let served = versions.iter().map(version);
        let old = json!({
            "name": VERSION_V1ALPHA1,
            "served": false,
            "storage": false,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        });
        let mut names = json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()});
        if let Some(short_name) = short_name {
            names["shortNames"] = json!([short_name]);
        }
        let definition = json!({
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {
                "group": GROUP,
                "names": names,
                "scope": "Cluster",
                "conversion": {"strategy": "None"},
                "preserveUnknownFields": false,
                "versions": served.chain([old]).collect::<Vec<_>>(),
            },
        });
        serde_json::from_value(definition).expect("a CustomResourceDefinition")
    }
}

/// The schema of all versions of a kind. `apiVersion`, `kind` and `metadata` are the API server's own affair.
fn object_schema<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {"spec": schema::structural::<Spec>(), "status": schema::structural::<Status>()},
    })
}

/// The same, with rules about the object as a whole.
fn with_rules(mut schema: Value, rules: &[Rule]) -> Value {
    schema["x-kubernetes-validations"] = json!(rules);
    schema
}

/// The same, with rules about its name.
fn with_name(mut schema: Value, description: &str, rules: &[Rule]) -> Value {
    let name = json!({"type": "string", "description": description, "x-kubernetes-validations": rules});
    schema["properties"]["metadata"] = json!({"type": "object", "properties": {"name": name}});
    schema
}

/// The same, and what the schema does not know is kept, as kubernetes-nmstate has it for enactments.
fn open_root(mut schema: Value) -> Value {
    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    schema
}

/// The type of the condition that is True: of an object here there is one, while nothing beside it (such as Drifted) holds.
fn status() -> Value {
    column("Status", "string", "type", "The state in one word.")
}

fn reason() -> Value {
    column("Reason", "string", "reason", "Why it is in this state.")
}

fn status_age() -> Value {
    column("Status Age", "date", "lastTransitionTime", "How long it has been in this state.")
}

/// A column with a field of the condition that is True.
fn column(name: &str, kind: &str, field: &str, description: &str) -> Value {
    json!({
        "name": name,
        "type": kind,
        "description": description,
        "jsonPath": format!(".status.conditions[?(@.status==\"True\")].{field}"),
    })
}
