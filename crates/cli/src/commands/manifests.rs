//! `weft manifests`

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use weft_plan::Manifest;

use crate::{
    domains,
    install::{Installation, Options, install},
    output,
};

/// Print everything that is needed to install the operator
///
/// Applied over an installation of the operator that Weft replaces, it takes its place. The roles permit what the chosen components
/// need, and nothing else.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weft manifests | kubectl apply -f -
  weft manifests --components multus,linux-bridge --image registry.example/weft:1 | kubectl apply -f -
  weft manifests -o install && ls install")]
pub struct Args {
    /// Write files into this folder instead of printing, an example configuration among them
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// What Weft is to run [default: all]
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',', value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domains: Vec<String>,

    /// The components that may be deployed: the operator gets the permissions for these only [default: all]
    #[arg(long, value_name = "COMPONENT", value_delimiter = ',', value_parser = PossibleValuesParser::new(components()))]
    components: Vec<String>,

    /// One Deployment weft-operator in the namespace weft-system for all domains, instead of one under the name of the operator that
    /// is replaced
    #[arg(long)]
    single: bool,

    /// The namespace of the operator and its operands; with --single, of the operator only
    #[arg(short, long)]
    namespace: Option<String>,

    /// The operator's image
    #[arg(long, value_name = "IMAGE", default_value = concat!("localhost/weft:", env!("CARGO_PKG_VERSION")))]
    image: String,

    /// When the operator's image is pulled
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,
}

fn components() -> impl Iterator<Item = &'static str> {
    domains::ALL.iter().flat_map(|entry| entry.install.components).map(|component| component.name)
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let installation = install(&Options {
        domains: domains::chosen(&args.domains),
        components: &args.components,
        single: args.single,
        namespace: args.namespace.as_deref(),
        image: &args.image,
        image_pull_policy: &args.image_pull_policy,
    })?;
    match &args.output {
        Some(folder) => {
            let files = files(&installation)?;
            output::write_files(folder, files.iter().map(|(name, text)| (*name, text.as_str())))?;
        }
        None => {
            let Installation { namespaces, definitions, operator, examples: _ } = &installation;
            output::print(&stream(namespaces.iter().chain(definitions.iter().map(|(_, definition)| definition)).chain(operator))?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn files(installation: &Installation) -> Result<Vec<(&'static str, String)>> {
    let Installation { namespaces, definitions, operator, examples } = installation;
    let mut files = vec![("namespace.yaml", stream(namespaces)?), ("operator.yaml", stream(operator)?)];
    for (name, manifest) in definitions.iter().chain(examples) {
        files.push((name, stream([manifest])?));
    }
    Ok(files)
}

fn stream<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Result<String> {
    output::yaml_stream(manifests.into_iter().map(Manifest::body))
}
