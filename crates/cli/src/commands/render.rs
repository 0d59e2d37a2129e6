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
    output::{self, Style},
    placement,
    review::{Outcome, Resource, review},
    sources,
};

/// Print all objects that a configuration leads to, without a cluster
///
/// The same code runs in the operator, which adds its own labels and owner references. Images are
/// taken from the same environment variables as there, for example MULTUS_IMAGE. A PlacementAPI is
/// rendered with the Secrets that stand in the same files. The output then holds their passwords.
#[derive(clap::Args)]
pub struct Args {
    /// File with one or more resources, a folder of such files, or - for stdin. May be given
    /// several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<PathBuf>,

    /// Write one file a component into this folder instead of printing
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// The namespace of operator and components [default: as OPERATOR_NAMESPACE and
    /// OPERAND_NAMESPACE say, else the usual one]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let environment = match &args.namespace {
        Some(namespace) => Environment::of_process().with_namespaces(namespace, namespace),
        None => Environment::of_process(),
    };
    let sources = sources::read(&args.filenames)?;
    let mut review = review(&sources, &environment)?;
    placement::complete(&mut review, &sources, &environment)?;
    for note in &review.notes {
        output::say(&format!("note: {note}"));
    }
    if !review.findings.is_empty() {
        output::say_here(&review.findings_text(Style::stderr()));
        return Ok(ExitCode::from(1));
    }
    match &args.output {
        Some(folder) => write(folder, &review.resources)?,
        None => output::print_as_is(&texts(&review.resources)?.join("---\n"))?,
    }
    Ok(ExitCode::SUCCESS)
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
fn unit_text(unit: &Unit) -> Result<String> {
    let mut objects: Vec<&Manifest> = unit.objects.iter().collect();
    objects.sort_by_key(|object| Stage::of(object.key().kind));
    let mut text = String::new();
    for object in objects {
        text.push_str(&format!(
            "---\n# {}: {}\n{}",
            escape::line(&unit.name),
            escape::line(&object.key().human()),
            output::yaml(object.body())?
        ));
    }
    Ok(text)
}
