//! `weft graph`

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail};
use serde_json::Value;
use weft_node_network::graph::model::NodeGraph;

use crate::{
    domains::Environment,
    graph::{dot, html, mermaid, read::Everything, svg, tree},
    nodes,
    online::{ClusterArgs, block_on},
    output::{self, Style},
    review::review,
    sources,
    suggest::did_you_mean,
};

/// Draw the networks of nodes: switch ports, interfaces, addresses, routes, pods, and the policies
/// behind each
///
/// Reads the NodeNetworkStates, policies, enactments and pods of the cluster, or files, and changes
/// nothing. Parts that have drifted or have failed, and parts that a policy will add, change or
/// remove, have a sign, a word and a colour.
#[derive(clap::Args)]
#[command(after_help = "\
Signs:
  = as the policies want it   … in progress or will change   + will be added
  - will be removed           ~ drift   ! failed   ? not reported

Examples:
  weft graph                           All nodes, as trees
  weft graph node-1
  weft graph node-1 -o svg > node-1.svg
  weft graph -o html > network.html    One page for all nodes, without a server
  weft graph node-1 -o dot | dot -Tpdf > node-1.pdf

  Draw the changes of a policy as if you had applied it just now:
  weft graph -f policy.yaml
  weft graph -f policy.yaml -o html > plan.html

  The same without a cluster:
  kubectl get nns,nodes,nncp,nnce -o json > nodes.json
  kubectl get pods,net-attach-def -A -o json > pods.json
  weft graph --state nodes.json --state pods.json")]
pub struct Args {
    /// The nodes to draw [default: all]
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// File with policies to draw as if they were applied, a folder of such files, or - for stdin.
    /// May be given several times
    #[arg(short, long = "filename", value_name = "FILE")]
    filenames: Vec<PathBuf>,

    /// Read the files of all folders below a folder, too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// File with NodeNetworkStates, and Nodes, policies, enactments, pods and
    /// NetworkAttachmentDefinitions next to them, instead of the cluster. May be given several
    /// times
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    state: Vec<PathBuf>,

    /// Leave out the interfaces of pods, and read no pod from the cluster
    #[arg(long)]
    no_pods: bool,

    /// How to show it. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "tree")]
    output: Format,

    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A tree for each node
    Tree,
    /// A picture
    Svg,
    /// A flowchart for Mermaid, as in Markdown on many sites
    Mermaid,
    /// A graph for Graphviz
    Dot,
    /// A page with all pictures and trees, for a browser. It needs no network
    Html,
    /// JSON, for programs
    Json,
}

/// Draws.
pub fn run(args: &Args) -> Result<ExitCode> {
    let changed = match args.filenames.is_empty() {
        true => Vec::new(),
        false => {
            let files = sources::read_from(&args.filenames, args.recursive.into())?;
            let review = review(&files, &Environment::for_checks())?;
            if !review.findings.is_empty() {
                output::say_here(&review.findings_text(Style::stderr()));
                return Ok(ExitCode::from(2));
            }
            for note in &review.misread {
                output::say(&format!("{}: {note}", Style::stderr().pending("note")));
            }
            review.others
        }
    };
    let changed: Vec<&Value> = changed
        .iter()
        .map(|other| &other.value)
        .filter(|object| nodes::matters(object))
        .collect();
    if !args.filenames.is_empty() && changed.is_empty() {
        bail!(
            "-f holds no NodeNetworkConfigurationPolicy and no NodeNetworkState, and only these change a picture: give the reports of nodes by --state"
        );
    }
    let mut everything = match args.state.is_empty() {
        true => block_on(async {
            let online = args.cluster.connect().await?;
            Everything::of_cluster(&online, &args.nodes, !args.no_pods).await
        })?,
        false => Everything::of_files(&sources::read_from(&args.state, args.recursive.into())?)?,
    };
    if args.no_pods {
        everything.forget_pods();
    }
    everything.change(&changed)?;
    let names = chosen(&args.nodes, everything.names())?;
    let applied: Vec<String> = args.filenames.iter().map(|file| called(file)).collect();
    let graphs = everything.graphs(&names);
    show(args.output, &graphs, &everything.notes(), &applied)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the nodes that the user names, or all.
fn chosen(wanted: &[String], known: BTreeSet<String>) -> Result<BTreeSet<String>> {
    for name in wanted {
        if !known.contains(name) {
            let help = match did_you_mean(name, known.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "weft graph without a name draws all of them".to_owned(),
            };
            bail!(
                "NODE {name}: there is no node of this name among {}; {help}",
                known.len()
            );
        }
    }
    Ok(match wanted {
        [] => known,
        wanted => wanted.iter().cloned().collect(),
    })
}

/// The name of a file for people.
fn called(file: &Path) -> String {
    match file == Path::new("-") {
        true => "stdin".to_owned(),
        false => file.display().to_string(),
    }
}

fn show(format: Format, graphs: &[NodeGraph], notes: &[String], applied: &[String]) -> Result<()> {
    let mut notes = notes.to_vec();
    match format {
        Format::Tree => {
            let style = Style::stdout();
            let trees: Vec<String> = graphs
                .iter()
                .map(|graph| tree::text(graph, style))
                .collect();
            output::print(&trees.join("\n"))?;
        }
        Format::Json => {
            output::print_json(&serde_json::json!({ "nodes": graphs, "notes": notes }))?;
        }
        Format::Svg => output::print_as_is(&svg::text(graphs))?,
        Format::Dot => output::print_as_is(&dot::text(graphs))?,
        Format::Html => output::print_as_is(&html::text(graphs, &notes, applied))?,
        Format::Mermaid => {
            let text = mermaid::text(graphs);
            output::print_as_is(&text)?;
            notes.extend(mermaid::too_large(&text));
        }
    }
    if !matches!(format, Format::Json) {
        for note in notes {
            output::say(&format!("{}: {note}", Style::stderr().pending("note")));
        }
    }
    Ok(())
}
