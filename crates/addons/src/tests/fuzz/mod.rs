//! Fuzz targets. As plain tests they take some thousand random inputs each, besides those that are
//! kept under `__fuzz__`. `make fuzz` lets a coverage-guided fuzzer look for more.

mod go;
mod resource;
mod texts;

use std::sync::LazyLock;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use regex::Regex;
use serde_json::{Value, json};
use weft_addons::{
    Addons, Settings,
    validate::{read, validate},
};
use weft_plan::{Decision, Domain, Facts, Input, Refusal};

/// A text out of these pieces: one for each byte. So most inputs are nearly right, and a fuzzer can
/// build on what it has found.
fn text(bytes: &[u8], pieces: &[&str]) -> String {
    bytes
        .iter()
        .map(|byte| pieces[usize::from(*byte) % pieces.len()])
        .collect()
}

fn resource(spec: Value) -> Value {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec
    })
}

fn decide(resource: &Value, decided: Option<&Value>) -> Result<Decision, Refusal> {
    let random = &mut |bytes: &mut [u8]| bytes.fill(0xab);
    Addons::new(Settings::default()).decide(Input {
        resource,
        record: None,
        decided,
        facts: &Facts::default(),
        random,
    })
}

/// Returns the findings of the schema about a resource: CEL rules, and lengths and patterns of
/// texts.
fn broken_rules(resource: &Value) -> Vec<String> {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let crd = serde_json::to_value(weft_api::addons::crd()).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    });
    static RULES: LazyLock<CompiledSchema> = LazyLock::new(|| compile_schema(&SCHEMA));
    let errors = Validator::new()
        .validate_compiled(&RULES, resource, None)
        .map_or_else(kube_cel::ValidationErrors::into_vec, |()| Vec::new());
    let mut broken: Vec<_> = errors
        .iter()
        .map(|error| format!("{}: {}", error.field_path, error.message))
        .collect();
    misfits(&SCHEMA, resource, &mut broken);
    broken
}

fn misfits(schema: &Value, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| misfits(&schema["properties"][name], value, found)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| misfits(&schema["items"], item, found)),
        Value::String(text) => {
            let longest = schema["maxLength"]
                .as_u64()
                .and_then(|longest| usize::try_from(longest).ok());
            let is_too_long = longest.is_some_and(|longest| text.chars().count() > longest);
            let is_other = schema["pattern"]
                .as_str()
                .is_some_and(|pattern| !Regex::new(pattern).unwrap().is_match(text));
            found.extend((is_too_long || is_other).then(|| format!("{text:?}: against {schema}")));
        }
        _ => {}
    }
}

/// The schema and Weft itself agree on a specification. Returns whether it is right.
fn agree(spec: &Value) -> bool {
    let resource = resource(spec.clone());
    let (rules, valid) = (
        broken_rules(&resource),
        read(&resource).and_then(|resource| validate(&resource)),
    );
    match (&*rules, &valid) {
        ([], Ok(_)) | ([_, ..], Err(_)) => {}
        ([], Err(problems)) => {
            panic!("{spec}: no rule of the schema refuses it, but Weft does: {problems:?}")
        }
        (rules, Ok(_)) => panic!("{spec}: Weft accepts it, but the schema does not: {rules:?}"),
    }
    valid.is_ok()
}
