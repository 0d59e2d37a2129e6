//! Common helpers of this crate's tests.
#![allow(clippy::panic)]

use serde_json::{Value, json};
use weft_plan::{Decision, Domain, Facts, Input, Refusal};

use crate::{
    ClusterNetwork, Settings,
    settings::{ApiServer, Image},
};

/// Settings with an image for everything, named after its variable.
pub(crate) fn settings() -> Settings {
    let image = |image: &Image| {
        (
            *image,
            format!(
                "registry.example/{}:1",
                image.env().to_lowercase().replace('_', "-")
            ),
        )
    };
    Settings {
        images: Image::ALL.iter().map(image).collect(),
        api_server: Some(ApiServer {
            host: "api.example".into(),
            port: "6443".into(),
        }),
        ..Settings::default()
    }
}

/// A resource of this specification.
pub(crate) fn resource(spec: Value) -> Value {
    json!({
        "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
        "metadata": {"name": "default"}, "spec": spec
    })
}

/// Decides about a specification.
pub(crate) fn try_decide(
    spec: Value,
    record: Option<&str>,
    facts: &Facts,
) -> Result<Decision, Refusal> {
    let input = Input {
        resource: &resource(spec),
        record,
        decided: None,
        facts,
        random: &mut |_| {},
    };
    ClusterNetwork::new(settings()).decide(input)
}

/// Decides about a specification after its network has been on all nodes.
pub(crate) fn decide_established(
    spec: Value,
    record: &str,
    facts: &Facts,
) -> Result<Decision, Refusal> {
    let mut resource = resource(spec);
    resource["status"] = json!({"establishedNetwork": resource["spec"]["defaultNetwork"]["type"]});
    let input = Input {
        resource: &resource,
        record: Some(record),
        decided: None,
        facts,
        random: &mut |_| {},
    };
    ClusterNetwork::new(settings()).decide(input)
}

/// Decides about a specification, the first time and on a cluster without facts.
pub(crate) fn decide(spec: Value) -> Decision {
    try_decide(spec, None, &Facts::default()).unwrap_or_else(|refusal| panic!("{refusal:#?}"))
}

/// The problems of a specification, `field: message` each.
pub(crate) fn problems(spec: Value) -> Vec<String> {
    match try_decide(spec, None, &Facts::default()) {
        Ok(_) => Vec::new(),
        Err(refusal) => refusal.problems.iter().map(ToString::to_string).collect(),
    }
}

/// The fields that may not change from one specification to another.
pub(crate) fn refused(from: Value, to: Value) -> Vec<String> {
    let applied = decide(from).decided.to_string();
    match try_decide(to, Some(&applied), &Facts::default()) {
        Ok(_) => Vec::new(),
        Err(refusal) => refusal
            .changes
            .iter()
            .map(|change| format!("{} {} -> {}", change.field, change.old, change.new))
            .collect(),
    }
}

/// An object of a decision.
pub(crate) fn object<'a>(decision: &'a Decision, kind: &str, name: &str) -> &'a Value {
    let mut objects = decision.units.iter().flat_map(|unit| &unit.objects);
    let found = objects.find(|object| object.key().kind.kind == kind && object.key().name == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}")).body()
}

/// A file in a ConfigMap of a decision.
pub(crate) fn file<'a>(decision: &'a Decision, config_map: &str, file: &str) -> &'a str {
    object(decision, "ConfigMap", config_map)["data"][file]
        .as_str()
        .unwrap_or_else(|| panic!("no {file}"))
}
