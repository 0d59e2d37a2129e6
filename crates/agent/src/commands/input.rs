//! Files of policies and states, made into one desired state by the code that the agent runs.

use std::{io::Read, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use weft_api::node_network::NodeNetworkConfigurationPolicySpec;
use weft_documents::{Document, RENDER_FIRST, Skipped};
use weft_node_network::{
    check,
    claims::{Layer, Owner, Rank},
    desired::Desired,
    merge::merge,
    render, review, secrets,
};
use weft_plan::Problem;

use super::From;
use crate::{host::Retrieved, probes::Target};

/// The wishes in files.
pub struct Wanted {
    pub desired: Desired,
    /// The name of the change in messages, for example `policies br1, dns`.
    pub what: String,
    pub probes: Vec<Target>,
    /// The part of each card in automatic bonding, a line each.
    pub notes: Vec<String>,
    /// Hints about the files, a line each: objects that say nothing of a host's network, and what
    /// `kubectl` reads in another way than it looks.
    pub asides: Vec<String>,
}

const GROUP: &str = "nmstate.io";

/// Reads the files, and renders their policies on the state of this host. Selectors of nodes are
/// not looked at: this host is meant.
pub fn read(from: &From, current: &Retrieved) -> Result<Wanted> {
    let current = current.value();
    let (mut layers, mut names) = (Vec::new(), Vec::new());
    let (mut probes, mut notes) = (Vec::new(), Vec::new());
    let mut skipped = Skipped::default();
    let mut misread = Vec::new();
    for file in &from.filename {
        let name = file.display().to_string();
        for (index, found) in documents(file, &mut misread)?.into_iter().enumerate() {
            let at = format!("{name}, document {}", index + 1);
            let document = found.value;
            if is_foreign(&document) {
                skipped.add(&name, &document);
                continue;
            }
            if let Some(repeated) = found.repeated.first() {
                bail!("{}", repeated.in_file(&name));
            }
            misread.extend(found.notes.iter().map(|note| note.in_file(&name)));
            let layer = match document["kind"].as_str() {
                Some("NodeNetworkConfigurationPolicy") => {
                    policy(&at, &document, &current, &mut probes, &mut notes)?
                }
                Some("NodeNetworkState") => {
                    let desired = &document["spec"]["desiredState"];
                    if !desired.is_object() {
                        bail!(
                            "{at}: spec.desiredState is missing: it says what this host's network should be"
                        );
                    }
                    Layer {
                        owner: Owner::Node,
                        rank: Rank::Node,
                        state: own(&at, "spec.desiredState", desired)?,
                    }
                }
                Some(kind) => bail!(
                    "{at}: kind {kind} says nothing of a host's network: a NodeNetworkConfigurationPolicy, a NodeNetworkState or a state in the form of nmstate does"
                ),
                None if is_policy(&document) => {
                    let document = as_object(&at, &name, &document)?;
                    policy(&at, &document, &current, &mut probes, &mut notes)?
                }
                None => Layer {
                    owner: Owner::Policy(name.clone()),
                    rank: Rank::Policy(0),
                    state: own(&at, "", &document)?,
                },
            };
            names.push(layer.owner.to_string());
            layers.push(layer);
        }
    }
    let skipped = skipped.notes("it says nothing of a host's network");
    if layers.is_empty() {
        bail!(
            "{}\nA NodeNetworkConfigurationPolicy, a NodeNetworkState or a state in the form of nmstate says what a host's network should be.",
            skipped.join("\n")
        );
    }
    let merged = merge(&layers);
    if let Some(conflict) = merged.conflicts.first() {
        bail!("{conflict}");
    }
    if let Some(reference) = secrets::references(&merged.state)?.into_iter().next() {
        bail!(
            "the state refers to the Secret {}, which only the agent in a cluster can read: put the value in its place",
            reference.name
        );
    }
    names.dedup();
    Ok(Wanted {
        desired: Desired::read(&merged.state)?,
        what: names.join(", "),
        probes,
        notes,
        asides: skipped.into_iter().chain(misread).collect(),
    })
}

/// Reports whether an object is of another API, or of a kind of ours that wishes for nothing.
fn is_foreign(document: &Value) -> bool {
    let group = document["apiVersion"]
        .as_str()
        .map(|version| version.rsplit_once('/').map_or("", |(group, _)| group));
    match document["kind"].as_str() {
        None => false,
        Some("NMState" | "NodeNetworkConfigurationEnactment") => true,
        Some(_) => group.is_some_and(|group| group != GROUP),
    }
}

/// Reports whether a document is a policy in the form of nmstate, as `nmstatectl policy` reads it.
fn is_policy(document: &Value) -> bool {
    ["capture", "desired", "desiredState"]
        .iter()
        .any(|field| !document[field].is_null())
}

/// The same wishes as an object. nmstate knows the desired state by two names.
fn as_object(at: &str, name: &str, document: &Value) -> Result<Value> {
    let fields = document.as_object().into_iter().flatten();
    for (field, _) in fields {
        if !["capture", "desired", "desiredState"].contains(&field.as_str()) {
            bail!(
                "{at}: {field}: a policy of nmstate has only capture and desiredState: put the rest below desiredState"
            );
        }
    }
    let desired = ["desiredState", "desired"]
        .iter()
        .map(|field| &document[field])
        .find(|desired| !desired.is_null())
        .with_context(|| {
            format!("{at}: desiredState is missing: it says what this host's network should be")
        })?;
    Ok(json!({
        "metadata": {"name": name},
        "spec": {"capture": document["capture"], "desiredState": desired},
    }))
}

fn policy(
    at: &str,
    document: &Value,
    current: &Value,
    probes: &mut Vec<Target>,
    notes: &mut Vec<String>,
) -> Result<Layer> {
    let spec: NodeNetworkConfigurationPolicySpec =
        serde_json::from_value(document["spec"].clone()).with_context(|| format!("{at}: spec"))?;
    let name = document["metadata"]["name"]
        .as_str()
        .unwrap_or("without a name")
        .to_owned();
    refuse(at, &review::policy(&name, &spec))?;
    probes.extend(spec.probes.iter().flatten().filter_map(Target::of));
    let rendered = render::render(&spec, current, &render::Given::default())
        .map_err(|error| anyhow!("{at}: {error}"))?;
    let parts = rendered.cards.iter();
    notes.extend(parts.map(|(card, part)| format!("note: policy {name}: {card} {part}")));
    Ok(Layer {
        owner: Owner::Policy(name),
        rank: Rank::Policy(spec.priority.unwrap_or_default()),
        state: rendered.desired,
    })
}

/// A state in the form of nmstate, which stands in this field of the document.
fn own(at: &str, field: &str, desired: &Value) -> Result<Value> {
    // Only a policy has references.
    if desired.to_string().contains("{{") {
        bail!("{at}: {RENDER_FIRST}");
    }
    refuse(at, &check::desired_state(field, desired, false))?;
    render::own(desired).map_err(|error| anyhow!("{at}: {error}"))
}

/// All that is wrong, a line each.
fn refuse(at: &str, problems: &[Problem]) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems
        .iter()
        .map(|Problem { field, message }| format!("{at}: {field}: {message}"))
        .collect();
    bail!("{}", lines.join("\n"))
}

/// Reads a file, and adds what `kubectl` leaves out of it to `misread`.
fn documents(file: &Path, misread: &mut Vec<String>) -> Result<Vec<Document>> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .context("standard input")?;
        bytes
    } else {
        std::fs::read(file).with_context(|| file.display().to_string())?
    };
    let text = weft_documents::decode(bytes);
    let documents = weft_documents::parse(&text).map_err(|mistake| {
        let place = mistake
            .position
            .map(|position| format!(":{}:{}", position.line, position.column))
            .unwrap_or_default();
        anyhow!("{}{place}: {}", file.display(), mistake.message)
    })?;
    if documents.is_empty() {
        bail!("{}: there is nothing in it", file.display());
    }
    let name = file.display().to_string();
    misread.extend(weft_documents::unread(&text).map(|note| note.in_file(&name)));
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_of_nmstate_is_a_policy_and_other_objects_are_foreign() {
        let desired = json!({"interfaces": []});
        for field in ["desired", "desiredState"] {
            let policy = json!({"capture": {"a": "b"}, field: desired});
            assert!(is_policy(&policy) && !is_foreign(&policy));
            let object = as_object("f, document 1", "f", &policy).unwrap();
            assert_eq!(
                object["spec"],
                json!({"capture": {"a": "b"}, "desiredState": desired})
            );
        }
        for (policy, expected) in [
            (json!({"capture": {}}), "desiredState is missing"),
            (
                json!({"desiredState": {}, "routes": {}}),
                "routes: a policy",
            ),
        ] {
            let error = as_object("f", "f", &policy).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(!is_policy(&desired) && !is_foreign(&desired));
        for (object, foreign) in [
            (json!({"apiVersion": "v1", "kind": "Pod"}), true),
            (
                json!({"apiVersion": "example.com/v1", "kind": "NodeNetworkState"}),
                true,
            ),
            (
                json!({"apiVersion": "nmstate.io/v1", "kind": "NMState"}),
                true,
            ),
            (
                json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolcy"}),
                false,
            ),
            (json!({"kind": "NodeNetworkConfigurationPolicy"}), false),
        ] {
            assert_eq!(is_foreign(&object), foreign, "{object}");
        }
    }
}
