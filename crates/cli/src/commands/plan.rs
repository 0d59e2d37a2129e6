//! `weft plan`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use serde_json::Value;
use weft_operator::Served;
use weft_plan::{Live, Owner, applied, differences};
use weft_runtime::inspect::preview::{self, Preview, UnitPreview};

use crate::{
    domains::{self, Environment},
    nodes::{self, Nodes},
    online::{ClusterArgs, Online, Site, block_on},
    output::{self, Style},
    placement,
    planned::{Effect, Planned},
    review::{Resource, review},
    sources,
};

/// Show what would change in the cluster, without changing anything
///
/// Asks the cluster what is there, and the code of the operator what it would do about it if this
/// configuration were applied by `kubectl apply`. Reads only. The settings are those of the
/// installed operator.
#[derive(clap::Args)]
#[command(after_help = "\
Signs:
  + made         ~ changed      ± recreated    ^ taken over   - deleted
  @ held         ! in conflict  … has to wait  = stays
  ? unknown, or drifted and left

Exit code 0: nothing would change, 1: something would, 2: it could not be found
out (as with kubectl diff).

Examples:
  weft plan -f network-addons.yaml
  weft plan -f network-addons.yaml --delete

  See the deletions of all resources, and all objects that stay:
  weft plan --delete

  See all drift:
  kubectl get networkaddonsconfig cluster -o yaml | weft plan -f -

  Read the Secrets that the PlacementAPI names, and show none of their values:
  weft plan -f placement.yaml

  See the changes of a NodeNetworkConfigurationPolicy on each node:
  weft plan -f policy.yaml

  The same without a cluster, for thousands of nodes. JSON is read faster:
  kubectl get nns,nodes,nncp,nnce -o json > nodes.json
  weft plan -f policy.yaml --state nodes.json")]
pub struct Args {
    /// File with one or more resources, a folder of such files, or - for stdin. May be given
    /// several times
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        required_unless_present = "delete"
    )]
    filenames: Vec<PathBuf>,

    /// Plan the files of all folders below a folder, too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Plan the deletion of the resources. Without a file, of all that there are
    #[arg(long)]
    delete: bool,

    /// File with NodeNetworkStates, and Nodes and policies next to them, to plan a policy by
    /// instead of asking the cluster. May be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    state: Vec<PathBuf>,

    /// How to show the result. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Exit code where a plan is not known, as of an error.
const UNKNOWN: u8 = 2;

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Plans, and shows what came of it.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.filenames.is_empty() {
        return show(args, &block_on(deletion_of_all(&args.cluster))?, None);
    }
    let review = review(
        &sources::read_from(&args.filenames, args.recursive.into())?,
        &Environment::for_checks(),
    )?;
    // A deleted resource need not be valid.
    let matters = !args.delete || (review.resources.is_empty() && review.others.is_empty());
    if matters && !review.findings.is_empty() {
        output::say_here(&review.findings_text(Style::stderr()));
        return Ok(ExitCode::from(2));
    }
    let of_nodes: Vec<&Value> = review
        .others
        .iter()
        .map(|other| &other.value)
        .filter(|object| nodes::matters(object))
        .collect();
    if !args.state.is_empty() {
        if of_nodes.is_empty() || !review.resources.is_empty() {
            bail!(
                "--state is about nodes' networks only, for NodeNetworkConfigurationPolicies and NodeNetworkStates: plan other resources without it"
            );
        }
        return show(
            args,
            &[],
            Some(plan_nodes(
                Nodes::of_files(&sources::read_from(&args.state, args.recursive.into())?)?,
                &of_nodes,
                args.delete,
            )?),
        );
    }
    block_on(async {
        let online = args.cluster.connect().await?;
        let mut planned = Vec::new();
        for resource in &review.resources {
            for site in online.sites([resource.entry]).await? {
                let one = plan(&online, &site, resource, args.delete).await?;
                if let Some(refusal) = one.refusal() {
                    bail!("{refusal}");
                }
                planned.push(one);
            }
        }
        let nodes = match of_nodes.is_empty() {
            true => None,
            false => Some(plan_nodes(
                Nodes::of_cluster(&online).await?,
                &of_nodes,
                args.delete,
            )?),
        };
        show(args, &planned, nodes)
    })
}

/// The plan of each node, and what is to be said of them.
type NodePlans = (Vec<weft_node_network::plan::Plan>, Vec<String>);

fn plan_nodes(mut nodes: Nodes, objects: &[&Value], delete: bool) -> Result<NodePlans> {
    nodes.change(objects, delete)?;
    Ok((nodes.plans(), nodes.notes))
}

fn show(args: &Args, planned: &[Planned], nodes: Option<NodePlans>) -> Result<ExitCode> {
    let (plans, notes) = nodes.unwrap_or_default();
    match args.output {
        Format::Text => {
            let style = Style::stdout();
            let mut texts: Vec<_> = planned.iter().map(|planned| planned.text(style)).collect();
            texts.extend(plans.iter().map(|plan| nodes::text(plan, style)));
            output::print(&texts.join("\n"))?;
            for note in notes {
                output::say(&format!("{}: {note}", Style::stderr().pending("note")));
            }
        }
        Format::Json => {
            let resources: Vec<_> = planned.iter().map(Planned::json).collect();
            let nodes: Vec<_> = plans
                .iter()
                .map(weft_node_network::plan::Plan::json)
                .collect();
            let all = serde_json::json!({ "resources": resources, "nodes": nodes, "notes": notes });
            output::print(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
        }
    }
    if plans.iter().any(|plan| plan.is_unknown) {
        return Ok(ExitCode::from(UNKNOWN));
    }
    let changes = planned.iter().any(Planned::changes_something)
        || plans
            .iter()
            .any(weft_node_network::plan::Plan::says_something);
    Ok(ExitCode::from(u8::from(changes)))
}

/// The deletion of every resource in the cluster.
async fn deletion_of_all(cluster: &ClusterArgs) -> Result<Vec<Planned>> {
    let online = cluster.connect().await?;
    let mut planned = Vec::new();
    for site in online.sites(domains::ALL).await? {
        let leader = online.leader(&site).await?;
        for stored in online.resources(&site).await?.unwrap_or_default() {
            planned.push(Planned {
                title: output::title(site.entry.resource, &stored),
                file: String::new(),
                domain: site.entry.name,
                effect: Effect::Delete,
                preview: deletion(&online, &site, &stored).await?,
                notes: notes(&site, leader.is_some()),
            });
        }
    }
    if planned.is_empty() {
        bail!("there is no resource that could be deleted");
    }
    Ok(planned)
}

/// The plan of a resource. A [refusal](Planned::refusal) of the operator is part of it.
///
/// # Errors
/// The API server refuses a request, or does not know the kind.
pub async fn plan(
    online: &Online,
    site: &Site,
    resource: &Resource,
    delete: bool,
) -> Result<Planned> {
    let Some(stored) = online.resources(site).await? else {
        return Err(site.not_installed());
    };
    let mut value = resource.value.clone();
    if site.entry.resource.namespaced && value["metadata"]["namespace"].is_null() {
        // As kubectl does.
        value["metadata"]["namespace"] = online.cluster.client().default_namespace().into();
    }
    let same = |stored: &Value| {
        ["namespace", "name"]
            .iter()
            .all(|field| stored["metadata"][field] == value["metadata"][field])
    };
    let stored = stored.into_iter().find(same);
    let leader = online.leader(site).await?;
    let mut planned = Planned {
        title: output::title(site.entry.resource, &value),
        file: resource.source.clone(),
        domain: site.entry.name,
        effect: Effect::None,
        preview: Preview::default(),
        notes: notes(site, leader.is_some()),
    };
    if delete {
        if let Some(stored) = &stored {
            planned.effect = Effect::Delete;
            planned.preview = deletion(online, site, stored).await?;
        }
        return Ok(planned);
    }
    let wanted = applied(&value, stored.as_ref(), site.entry.resource);
    planned.effect = match &stored {
        None => Effect::Create,
        Some(stored) => changed(stored, &wanted),
    };
    match &site.served {
        Served::Placement(_) => {
            let (preview, notes) = placement::plan(online, site, &wanted).await?;
            planned.preview = preview;
            planned.notes.extend(notes);
        }
        Served::Set(set) => {
            let objects = online.set_objects(site, set, Owner::of(&*site.domain, &wanted));
            planned.preview = preview::apply(&objects, &wanted, &site.namespace)
                .await
                .map_err(|error| online.explain_stored(error))?;
        }
    }
    if stored
        .as_ref()
        .is_some_and(|stored| Live::of(stored).is_being_deleted())
    {
        planned.notes.push(format!(
            "{} is being deleted: its components are removed first, and what is planned here waits until it is gone",
            planned.title
        ));
    }
    Ok(planned)
}

/// In what the resource itself changes.
fn changed(stored: &Value, wanted: &Value) -> Effect {
    let nothing = Value::Object(serde_json::Map::new());
    let part = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .filter(|value| !value.is_null())
            .unwrap_or(&nothing)
            .clone()
    };
    let mut found = differences("spec", &part(stored, "/spec"), &part(wanted, "/spec"));
    found.extend(differences(
        "metadata.labels",
        &part(stored, "/metadata/labels"),
        &part(wanted, "/metadata/labels"),
    ));
    if found.is_empty() {
        Effect::None
    } else {
        Effect::Change(found)
    }
}

async fn deletion(online: &Online, site: &Site, stored: &Value) -> Result<Preview> {
    let set = match &site.served {
        Served::Placement(_) => return placement::deletion(online, site, stored).await,
        Served::Set(set) => set,
    };
    let objects = online.set_objects(site, set, Owner::of(&*site.domain, stored));
    let changes = preview::teardown(&objects, stored, &site.namespace)
        .await
        .map_err(|error| online.explain_stored(error))?;
    Ok(Preview {
        units: Vec::<UnitPreview>::new(),
        removals: changes,
        ..Preview::default()
    })
}

fn notes(site: &Site, leader: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if site.operator.is_none() {
        notes.push(format!("no operator of Weft is installed for {}: planned with the settings of this environment", site.entry.name));
    }
    if !leader {
        notes.push(format!(
            "no operator of Weft is at work for {}: nothing happens until one is",
            site.entry.name
        ));
    }
    notes
}
