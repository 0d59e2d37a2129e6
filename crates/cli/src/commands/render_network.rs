//! `weft render-network`, also as `cluster-network-renderer`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use weft_cluster_network::RENDER_ERROR;
use weft_plan::{Decision, Facts, Input, Manifest, Refusal, Stage};

use crate::{
    domains::{self, Entry, Environment},
    output::{self, Style},
    review::review,
    sources::{self, Source},
};

/// Print all objects that a NetworkConfig leads to, in the form and by the command line of
/// cluster-network-renderer
///
/// Without a cluster, as the first reconcile on a new one. Images come from the same environment
/// variables as in the operator, for example NODE_IMAGE, and one that is needed and missing is an
/// error. The record of the configuration is not among the objects.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: done, 1: the configuration is invalid, 2: it could not be rendered
(wrong usage, unreadable files, a missing image), 3: from the configuration of
--previous to this one the change is not safe.

Examples:
  cluster-network-renderer --config sample-config.yaml --out out.yaml

  kubectl -n openshift-cluster-network-operator get configmap \\
    applied-default -o yaml > applied.yaml
  weft render-network --config - --out - --previous applied.yaml \\
    --images images.env < sample-config.yaml")]
pub struct Args {
    /// The NetworkConfig, as YAML or JSON. - for stdin
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Where the objects go. - for stdout
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Accepted for the sake of old scripts and not used: the manifests are part of this program
    #[arg(long, value_name = "DIR")]
    bindata: Option<PathBuf>,

    /// The applied configuration: the ConfigMap applied-default, a NetworkConfig, or the
    /// specification of one. The change from there is judged, and what this configuration leaves
    /// open is taken from it
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,

    /// The MTU of the nodes' links. Without it that of Ethernet, 1500, whatever this machine has
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65536))]
    mtu: Option<u32>,

    /// A file with a line such as NODE_IMAGE=registry.example/node:1 for each image. Its names
    /// count more than the environment
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
}

const INVALID: u8 = 1;
const IMPOSSIBLE: u8 = 2;
const UNSAFE: u8 = 3;

/// Renders the objects.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Some(entry) = domains::ALL
        .iter()
        .find(|entry| entry.name == "cluster-network")
    else {
        bail!("there is no such domain")
    };
    if let Some(folder) = &args.bindata {
        output::say(&format!(
            "note: --bindata {} is not used: the manifests are part of this program",
            folder.display()
        ));
    }
    let config = one(&args.config)?;
    // Images do not change the validity.
    let review = review(
        std::slice::from_ref(&config),
        &Environment::of_process().with_shipped_images(entry),
    )?;
    if !review.findings.is_empty() {
        output::say_here(&review.findings_text(Style::stderr()));
        return Ok(ExitCode::from(INVALID));
    }
    for note in &review.misread {
        output::say(&format!("note: {note}"));
    }
    let [resource] = &review.resources[..] else {
        bail!(
            "{}: one NetworkConfig is expected, and here are {}",
            config.name,
            review.resources.len()
        )
    };
    if resource.entry.name != entry.name {
        bail!(
            "{}: {} is no NetworkConfig: weft render prints what it leads to",
            config.name,
            resource.title
        );
    }
    let mut environment = Environment::of_process();
    for (variable, image) in args
        .images
        .as_deref()
        .map(images)
        .transpose()?
        .unwrap_or_default()
    {
        environment = environment.with(&variable, &image);
    }
    let previous = args.previous.as_deref().map(previous).transpose()?;
    let facts = Facts {
        host_mtu: args.mtu,
        ..Facts::default()
    };
    match decide(
        entry,
        &environment,
        &resource.value,
        previous.as_deref(),
        &facts,
    )? {
        Ok(decision) => {
            if previous.is_some() {
                output::say(&format!(
                    "{}: the change from the previous configuration",
                    Style::stderr().good("safe")
                ));
            }
            decision.notices.iter().for_each(|notice| {
                output::say(&format!("note: {}: {}", notice.about, notice.message))
            });
            write(&args.out, &text(&decision)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => {
            let (word, code) = match &refusal {
                refusal if !refusal.changes.is_empty() => ("unsafe", UNSAFE),
                refusal if refusal.reason == RENDER_ERROR => ("error", IMPOSSIBLE),
                _ => ("invalid", INVALID),
            };
            refusal.problems.iter().for_each(|problem| {
                output::say(&format!("{}: {problem}", Style::stderr().bad(word)))
            });
            Ok(ExitCode::from(code))
        }
    }
}

fn decide(
    entry: &Entry,
    environment: &Environment,
    resource: &Value,
    record: Option<&str>,
    facts: &Facts,
) -> Result<std::result::Result<Decision, Refusal>> {
    let (domain, _) = entry.open(environment)?;
    Ok(domain.decide(Input {
        resource,
        record,
        decided: None,
        facts,
        random: &mut |buffer: &mut [u8]| buffer.fill(0),
    }))
}

/// All objects, each with a separator before it, as the original writes them. In the order in which
/// they can be applied.
fn text(decision: &Decision) -> Result<String> {
    let mut objects: Vec<&Manifest> = decision
        .units
        .iter()
        .flat_map(|unit| &unit.objects)
        .collect();
    objects.sort_by_key(|object| Stage::of(object.key().kind));
    objects
        .into_iter()
        .map(|object| Ok(format!("\n---\n{}", output::yaml(object.body())?)))
        .collect()
}

fn one(path: &Path) -> Result<Source> {
    let mut sources = sources::read(&[path.to_owned()])?;
    match (sources.pop(), sources.is_empty()) {
        (Some(source), true) => Ok(source),
        _ => bail!("{} is a folder: one file is expected", path.display()),
    }
}

/// The specification that is applied, as the record holds it.
fn previous(path: &Path) -> Result<String> {
    let source = one(path)?;
    let mut documents = weft_documents::objects(&source.text).map_err(|mistake| {
        let place = mistake
            .position
            .map(|position| format!(":{}:{}", position.line, position.column))
            .unwrap_or_default();
        anyhow::anyhow!("{}{place} cannot be read: {}", source.name, mistake.message)
    })?;
    let document = match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => document,
        _ => bail!("{} must have one object", source.name),
    };
    let recorded = document["data"]["applied"].as_str().map(str::to_owned);
    match document["kind"].as_str() {
        Some("ConfigMap") => recorded.with_context(|| {
            format!(
                "{}: the ConfigMap has no key applied: is it applied-default?",
                source.name
            )
        }),
        Some("NetworkConfig") => Ok(document["spec"].to_string()),
        Some(other) => {
            bail!(
                "{}: {other} is no previous configuration: give the ConfigMap applied-default or a NetworkConfig",
                source.name
            )
        }
        None => Ok(document.to_string()),
    }
}

/// `NAME=value`, a line each. Empty lines and those that begin with # are passed over.
fn images(path: &Path) -> Result<BTreeMap<String, String>> {
    let source = one(path)?;
    let lines = source
        .text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let pair = line.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
            let pair = pair.filter(|(name, value)| name.ends_with("_IMAGE") && !value.is_empty());
            pair.with_context(|| {
                format!("{}:{number}: {line:?} names no image: write it like NODE_IMAGE=registry.example/node:1", source.name)
            })
        })
        .collect()
}

fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new("-") {
        return output::print_as_is(text);
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
