//! `weft render`

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail};
use weft_plan::{Manifest, Stage, Unit, escape};

use crate::{
    domains::Environment,
    nodes,
    output::{self, Style, Target},
    placement,
    review::{Other, Outcome, Resource, review},
    sources,
};

/// Print all objects that a configuration leads to, without a cluster
///
/// The same code runs in the operator, which adds its own labels and owner references. Images come
/// from the same environment variables as there, for example MULTUS_IMAGE, else they are those of
/// `weft manifests`. The command renders a PlacementAPI with the Secrets in the same files. The
/// output then holds their passwords.
///
/// A policy of nodes' networks leads to no objects: `weft plan` shows its changes on the nodes.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: rendered, 1: a file is not valid, 2: it could not be rendered.

Examples:
  weft render -f network-addons.yaml
  weft render -f network-addons.yaml -o json | jq '.items[].kind'
  weft render -R -f clusters -o rendered")]
pub struct Args {
    /// File with one or more resources, a folder of such files, or - for stdin. May be given
    /// several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<PathBuf>,

    /// Render the files of all folders below a folder, too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// How to print the objects, yaml or json, or a folder for one file a component
    #[arg(short, long, value_name = "yaml|json|DIR", default_value = "yaml")]
    output: Target,

    /// The namespace of operator and components [default: as OPERATOR_NAMESPACE and
    /// OPERAND_NAMESPACE say, else the usual one]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let environment = match &args.namespace {
        Some(namespace) => Environment::for_checks().with_namespaces(namespace, namespace),
        None => Environment::for_checks(),
    };
    let sources = sources::read_from(&args.filenames, args.recursive.into())?;
    let mut review = review(&sources, &environment)?;
    placement::complete(&mut review, &sources, &environment)?;
    for note in &review.notes {
        output::say(&format!("note: {note}"));
    }
    if !review.findings.is_empty() {
        output::say_here(&review.findings_text(Style::stderr()));
        return Ok(ExitCode::from(1));
    }
    for other in &review.others {
        output::say(&format!(
            "note: {}: {}: {}",
            other.source,
            other.title,
            instead(other)
        ));
    }
    match &args.output {
        Target::Folder(folder) => write(folder, &review.resources)?,
        Target::Yaml => output::print_as_is(&texts(&review.resources)?.join("---\n"))?,
        Target::Json => {
            let objects = outcomes(&review.resources)
                .flat_map(|(_, outcome)| &outcome.decision.units)
                .flat_map(in_order)
                .map(Manifest::body);
            output::print_list(objects)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The way to see the effect of an object that leads to no objects.
fn instead(other: &Other) -> String {
    if nodes::matters(&other.value) {
        format!(
            "leads to no objects. See its changes on the nodes: weft plan -f {}",
            sources::argument(&other.source)
        )
    } else {
        "leads to no objects: the operator and the agents write it".to_owned()
    }
}

/// Everything that each resource leads to.
fn texts(resources: &[Resource]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for (resource, outcome) in outcomes(resources) {
        let mut text = title(resource, outcome);
        for unit in &outcome.decision.units {
            text.push_str(&unit_text(unit)?);
        }
        texts.push(text);
    }
    Ok(texts)
}

fn write(folder: &Path, resources: &[Resource]) -> Result<()> {
    let mut files = BTreeMap::new();
    for (resource, outcome) in outcomes(resources) {
        for unit in &outcome.decision.units {
            // The name of an additional network's unit has its namespace before a slash.
            let name = format!("{}.yaml", unit.name.replace('/', "-"));
            if files.contains_key(&name) {
                bail!(
                    "more than one of the resources leads to {name}: render each into a folder of its own"
                );
            }
            files.insert(name, title(resource, outcome) + &unit_text(unit)?);
        }
    }
    output::write_files(
        folder,
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )
}

fn outcomes(resources: &[Resource]) -> impl Iterator<Item = (&Resource, &Outcome)> {
    resources
        .iter()
        .filter_map(|resource| Some((resource, resource.outcome.as_ref()?)))
}

fn title(resource: &Resource, outcome: &Outcome) -> String {
    let drawn = if outcome.drawn {
        "# What it leaves open, such as a MAC range, is drawn at random when applied; what is shown here is an example.\n"
    } else {
        ""
    };
    format!(
        "# {} of {}\n{drawn}",
        escape::line(&resource.title),
        escape::line(&resource.source)
    )
}

/// A component's objects in the order in which they are applied.
fn in_order(unit: &Unit) -> Vec<&Manifest> {
    let mut objects: Vec<&Manifest> = unit.objects.iter().collect();
    objects.sort_by_key(|object| Stage::of(object.key().kind));
    objects
}

/// The same as YAML.
fn unit_text(unit: &Unit) -> Result<String> {
    let mut text = String::new();
    for object in in_order(unit) {
        text.push_str(&format!(
            "---\n# {}: {}\n{}",
            escape::line(&unit.name),
            escape::line(&object.key().human()),
            output::yaml(object.body())?
        ));
    }
    Ok(text)
}
