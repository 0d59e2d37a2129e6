//! Files of policies and states, made into one desired state by the code that the agent runs.

use std::{io::Read, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use nmstate::NetworkState;
use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec;
use weft_node_network::{
    check,
    claims::{Layer, Owner, Rank},
    merge::merge,
    render, review, secrets, state,
};
use weft_plan::Problem;

use super::From;
use crate::{host::Retrieved, probes::Target};

/// The wishes in files.
pub struct Wanted {
    pub desired: NetworkState,
    /// The name of the change in messages, for example `policies br1, dns`.
    pub what: String,
    pub probes: Vec<Target>,
    /// The part of each card in automatic bonding, a line each.
    pub notes: Vec<String>,
}

/// Reads the files, and renders their policies on the state of this host. Selectors of nodes are
/// not looked at: this host is meant.
pub fn read(from: &From, current: &Retrieved) -> Result<Wanted> {
    let current = current.value();
    let (mut layers, mut names) = (Vec::new(), Vec::new());
    let (mut probes, mut notes) = (Vec::new(), Vec::new());
    for file in &from.filename {
        let name = file.display().to_string();
        for (index, document) in documents(file)?.into_iter().enumerate() {
            let at = format!("{name}, document {}", index + 1);
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
        desired: state::parse(&merged.state)?,
        what: names.join(", "),
        probes,
        notes,
    })
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

fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("standard input")?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| file.display().to_string())?
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| file.display().to_string())?;
    let documents: Vec<Value> = documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect();
    if documents.is_empty() {
        bail!("{}: there is nothing in it", file.display());
    }
    Ok(documents)
}
