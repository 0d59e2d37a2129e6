//! `weft validate`

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::{
    domains::Environment,
    output::{self, Style},
    placement,
    review::review_any,
    sources,
};

/// Check configurations, without a cluster
///
/// Finds what the API server would refuse (schema and rules) and what the operator would refuse,
/// all of it at once, each with file, line and column. Of a NetworkAttachmentDefinition, it finds
/// what Multus, libcni, the reference plugins or whereabouts would refuse. Other kinds that Weft does
/// not serve are skipped. If all are, a note says that nothing is checked.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: valid, or nothing of Weft's in it, 1: not valid, 2: could not be checked.

Examples:
  weft validate -f network-addons.yaml
  weft validate -R -f clusters
  kubectl get nncp -o yaml | weft validate -f -")]
pub struct Args {
    /// File with one or more resources, a folder of such files, or - for stdin. May be given
    /// several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<PathBuf>,

    /// Check the files of all folders below a folder, too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// How to show the result. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Checks, and shows what came of it.
pub fn run(args: &Args) -> Result<ExitCode> {
    let sources = sources::read_from(&args.filenames, args.recursive.into())?;
    let environment = Environment::for_checks();
    let mut review = review_any(&sources, &environment)?;
    let nothing = review.nothing.iter();
    review
        .notes
        .extend(nothing.map(|nothing| format!("nothing is checked: {nothing}")));
    placement::note_unserved(&mut review, &environment)?;
    placement::note_unpermitted(&mut review, &sources, &environment)?;
    match args.output {
        Format::Text => {
            for note in &review.notes {
                output::say(&format!("note: {note}"));
            }
            let style = Style::stdout();
            let mut text = review.findings_text(style);
            for resource in review
                .resources
                .iter()
                .filter(|resource| resource.outcome.is_some())
            {
                text.push_str(&format!(
                    "{}: {}: {}\n",
                    resource.source,
                    resource.title,
                    style.good("valid")
                ));
            }
            for other in review.others.iter().filter(|other| other.valid) {
                text.push_str(&format!(
                    "{}: {}: {}\n",
                    other.source,
                    other.title,
                    style.good("valid")
                ));
            }
            output::print(&text)?;
        }
        Format::Json => output::print(&format!("{}\n", serde_json::to_string_pretty(&review)?))?,
    }
    Ok(ExitCode::from(u8::from(!review.findings.is_empty())))
}
