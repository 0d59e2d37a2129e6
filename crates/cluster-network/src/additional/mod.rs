//! Networks that pods may be attached to besides the default one. Each is a unit of its own and
//! checked by itself: a bad one stops no other.

mod macvlan;
mod raw;

use std::collections::BTreeSet;

use serde_json::json;
use weft_api::cluster_network::{AdditionalNetwork, AdditionalNetworkStatus};
use weft_operands::text;
use weft_plan::{
    Facts, Manifest, ManifestError, Notice, ObjectKey, Problem, Unit, Wait, kinds,
    report::{FailureClass, Report},
};

/// Prefix of the names of the units. Namespace and name follow.
pub(crate) const UNIT: &str = "additional-network/";

const TYPES: [&str; 2] = ["Raw", "SimpleMacvlan"];

/// A unit for each network, and why those that cannot be applied are not.
///
/// # Errors
/// A manifest of ours is wrong.
pub(crate) fn units(
    networks: &[AdditionalNetwork],
    facts: &Facts,
) -> Result<(Vec<Unit>, Vec<Wait>), ManifestError> {
    let (mut units, mut waits) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    for (index, network) in networks.iter().enumerate() {
        let namespace = given(network.namespace.as_ref()).map_or("default", String::as_str);
        let name = given(network.name.as_ref()).map_or("", String::as_str);
        let path = path(index);
        let mut problems = identity(&path, namespace, name);
        if problems.is_empty() && !taken.insert((namespace, name)) {
            let message = format!(
                "{name:?} is the name of another one in namespace {namespace}: choose another name or namespace"
            );
            problems.push(problem(&path, "name", message));
        }
        // Under its name the objects that it had before are kept.
        let unit = if problems.is_empty() {
            format!("{UNIT}{namespace}/{name}")
        } else {
            format!("{UNIT}{namespace}/[{index}]")
        };
        let key = if problems.is_empty() {
            ObjectKey::new(kinds::NETWORK_ATTACHMENT_DEFINITION, namespace, name)
        } else {
            ObjectKey::new(kinds::NETWORK_CONFIG, "", weft_api::cluster_network::NAME)
        };
        let wait = |class, message, problems| Wait {
            unit: unit.clone(),
            object: key.clone(),
            class,
            message,
            problems,
        };
        let config = configuration(&path, network)
            .map_err(|more| problems.extend(more))
            .unwrap_or_default();
        let mut objects = Vec::new();
        if !problems.is_empty() {
            let message = problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ");
            waits.push(wait(FailureClass::Invalid, message, problems));
        } else {
            objects.push(definition(namespace, name, &config)?);
            if !facts.serves(kinds::NETWORK_ATTACHMENT_DEFINITION) {
                let message = "MultusMissing: the cluster does not know NetworkAttachmentDefinitions. Install Multus, for example by a NetworkAddonsConfig with multus: {}; this goes on by itself then";
                waits.push(wait(FailureClass::Absent, message.to_owned(), Vec::new()));
            }
        }
        units.push(Unit {
            name: unit,
            objects,
        });
    }
    Ok((units, waits))
}

/// Notices about networks that are applied, and that no pod can use.
pub(crate) fn hints(networks: &[AdditionalNetwork]) -> impl Iterator<Item = Notice> {
    networks
        .iter()
        .enumerate()
        .filter(|(_, network)| network.type_.as_deref() == Some("Raw"))
        .flat_map(|(index, network)| raw::hints(&path(index), network))
}

/// Returns the state of each network.
pub(crate) fn status(report: &Report) -> Vec<AdditionalNetworkStatus> {
    let networks = report
        .units
        .iter()
        .filter_map(|unit| Some((unit, unit.name.strip_prefix(UNIT)?.split_once('/')?)));
    networks
        .map(|(unit, (namespace, name))| {
            let state = match unit.failures.first().map(|failure| failure.class) {
                None if report.starting => "Progressing",
                None => "Available",
                Some(FailureClass::Invalid) => "Invalid",
                Some(FailureClass::Absent) => "MultusMissing",
                Some(_) => "Degraded",
            };
            let messages: Vec<_> = unit
                .failures
                .iter()
                .map(|failure| failure.message.clone())
                .collect();
            AdditionalNetworkStatus {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                state: state.to_owned(),
                message: (!messages.is_empty()).then(|| messages.join("\n")),
            }
        })
        .collect()
}

/// The CNI configuration.
fn configuration(path: &str, network: &AdditionalNetwork) -> Result<String, Vec<Problem>> {
    match network.type_.as_deref().unwrap_or_default() {
        "Raw" => raw::configuration(path, network).map_err(|problem| vec![problem]),
        "SimpleMacvlan" => macvlan::configuration(path, network),
        other => Err(vec![problem(
            path,
            "type",
            format!("{other:?} is not known: choose {}", TYPES.join(" or ")),
        )]),
    }
}

fn path(index: usize) -> String {
    format!("spec.additionalNetworks[{index}]")
}

fn definition(namespace: &str, name: &str, config: &str) -> Result<Manifest, ManifestError> {
    Manifest::new(json!({
        "apiVersion": kinds::NETWORK_ATTACHMENT_DEFINITION.api_version(),
        "kind": kinds::NETWORK_ATTACHMENT_DEFINITION.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"config": config},
    }))
}

fn identity(path: &str, namespace: &str, name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !text::is_object_name(name) {
        let message = format!(
            "{name:?} is not the name of an object: at most 253 of a-z, 0-9, - and ., a letter or digit at both ends"
        );
        problems.push(problem(path, "name", message));
    }
    if !text::is_dns_label(namespace) {
        let message = format!(
            "{namespace:?} is not the name of a namespace: at most 63 of a-z, 0-9 and -, a letter or digit at both ends"
        );
        problems.push(problem(path, "namespace", message));
    }
    problems
}

fn problem(path: &str, field: &str, message: impl Into<String>) -> Problem {
    Problem {
        field: format!("{path}.{field}"),
        message: message.into(),
    }
}

/// An empty text says nothing.
fn given(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
