//! The `CustomResourceDefinition`s of the four kinds.
//!
//! Old clusters hold objects as `v1alpha1`, a version that kubernetes-nmstate has given up since.
//! So has each definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Rule;
use serde_json::{Value, json};

use super::{
    GROUP, NMStateSpec, NMStateStatus, NodeNetworkConfigurationEnactmentSpec,
    NodeNetworkConfigurationEnactmentStatus, NodeNetworkConfigurationPolicySpec,
    NodeNetworkConfigurationPolicyStatus, NodeNetworkStateSpec, NodeNetworkStateStatus, VERSION_V1,
    VERSION_V1ALPHA1, VERSION_V1BETA1, enactment, installation, policy, rules, state,
};
use crate::definition::{Definition, age, column, object, wide, with_name, with_unobserved_status};

/// The definitions, as they are installed in a cluster: of `NodeNetworkState`,
/// `NodeNetworkConfigurationPolicy`, `NodeNetworkConfigurationEnactment` and `NMState`.
///
/// Each may be applied over that of kubernetes-nmstate, and that one over it: what is stored is
/// stored as the same version.
pub fn crds() -> [CustomResourceDefinition; 4] {
    [
        definition(
            (state::KIND, state::PLURAL, "nns"),
            state::VERSION,
            vec![age(), status(), reason(), message()],
            with_rules(
                object::<NodeNetworkStateSpec, NodeNetworkStateStatus>(
                    "The network of the node of the same name: what it is, and what this one node should have beside what policies say.",
                ),
                &rules::state(),
            ),
        ),
        definition(
            (policy::KIND, policy::PLURAL, "nncp"),
            policy::VERSION,
            vec![status(), reason(), message()],
            with_name(
                with_unobserved_status(object::<
                    NodeNetworkConfigurationPolicySpec,
                    NodeNetworkConfigurationPolicyStatus,
                >(
                    "Says what the networks of some nodes should be."
                )),
                "The name. It is also the second part of the names of its enactments.",
                &rules::policy_name(),
            ),
        ),
        definition(
            (enactment::KIND, enactment::PLURAL, "nnce"),
            // kubernetes-nmstate stored them as v1 for a while.
            enactment::VERSION,
            vec![status(), status_age(), reason(), message()],
            open_root(object::<
                NodeNetworkConfigurationEnactmentSpec,
                NodeNetworkConfigurationEnactmentStatus,
            >(
                "One policy on one node: what was decided, and what became of it. Written by the operator and the node's agent, read by people.",
            )),
        ),
        definition(
            (installation::KIND, installation::PLURAL, "nms"),
            installation::VERSION,
            vec![status(), reason(), message()],
            with_name(
                with_unobserved_status(object::<NMStateSpec, NMStateStatus>(
                    "Brings the agent to the nodes. Of several objects the oldest counts.",
                )),
                "The name: any will do.",
                &rules::installation_name(),
            ),
        ),
    ]
}

/// A kind of this API.
fn definition(
    (kind, plural, short_name): (&'static str, &'static str, &'static str),
    stored: &'static str,
    columns: Vec<Value>,
    schema: Value,
) -> CustomResourceDefinition {
    let definition = Definition {
        group: GROUP,
        kind,
        plural,
        short_name,
        scope: "Cluster",
        versions: &[VERSION_V1, VERSION_V1BETA1],
        stored,
        given_up: Some(VERSION_V1ALPHA1),
        columns,
        schema,
    };
    definition.object()
}

/// The schema with rules about the object as a whole.
fn with_rules(mut schema: Value, rules: &[Rule]) -> Value {
    schema["x-kubernetes-validations"] = json!(rules);
    schema
}

/// The same, and what the schema does not know is kept, as kubernetes-nmstate has it for
/// enactments.
fn open_root(mut schema: Value) -> Value {
    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    schema
}

/// The type of the condition that is True: of an object here there is one, while nothing next to it
/// (such as Drifted) holds.
fn status() -> Value {
    of_condition("Status", "string", "type", "The state in one word.")
}

fn reason() -> Value {
    of_condition("Reason", "string", "reason", "Why it is in this state.")
}

fn message() -> Value {
    wide(of_condition(
        "Message",
        "string",
        "message",
        "The details of the reason.",
    ))
}

fn status_age() -> Value {
    of_condition(
        "Status Age",
        "date",
        "lastTransitionTime",
        "How long it has been in this state.",
    )
}

/// A column with a field of the condition that is True.
fn of_condition(name: &str, kind: &str, field: &str, description: &str) -> Value {
    column(
        name,
        kind,
        description,
        &format!(".status.conditions[?(@.status==\"True\")].{field}"),
    )
}
