//! `weft plan`

use std::{collections::HashSet, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use serde_json::Value;
use weft_cluster_network::services;
use weft_node_network::shared_addresses::SharedAddresses;
use weft_operator::Served;
use weft_plan::{Live, Owner, applied, differences, drift, kinds};
use weft_runtime::{
    inspect::{
        presence,
        preview::{self, Preview},
        reader::Reader,
    },
    reconcile::finalizer,
};

use crate::{
    defaults,
    domains::{self, Environment},
    dropped::Pruner,
    nodes::{self, Nodes},
    online::{ClusterArgs, Lead, Online, Site, block_on, how_to_free},
    output::{self, Style},
    placement,
    planned::{Effect, Planned},
    review::{Resource, review},
    sources,
};

/// Show what would change in the cluster, without changing anything
///
/// Asks the cluster what is there, and the code of the operator what it would do about it if this
/// configuration were applied, in the way in which the resource was applied before: by `kubectl
/// apply`, or on the server by the same manager. Reads only. The settings are those of the
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
    for note in &review.misread {
        output::say(&format!("{}: {note}", Style::stderr().pending("note")));
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
        let nodes = {
            // The texts can be large, and the plans do not need them.
            let states = sources::read_from(&args.state, args.recursive.into())?;
            Nodes::of_files(&states)?
        };
        return show(args, &[], Some(plan_nodes(args, nodes, &of_nodes)?));
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
            false => Some(plan_nodes_of(args, &online, &of_nodes).await?),
        };
        show(args, &planned, nodes)
    })
}

/// The plans of nodes as they are shown, and what is to be said of them. A plan can be much larger
/// than the words about it, so it is gone when the next one is made.
#[derive(Default)]
struct NodePlans {
    /// For people.
    texts: Vec<String>,
    /// For programs.
    values: Vec<Value>,
    notes: Vec<String>,
    /// True if nothing is known of one of the nodes.
    is_unknown: bool,
    /// True if something would change on one of them, or cannot.
    says_something: bool,
}

fn plan_nodes(args: &Args, mut nodes: Nodes, objects: &[&Value]) -> Result<NodePlans> {
    nodes.change(objects, args.delete)?;
    let mut shown = NodePlans::default();
    let style = Style::stdout();
    let mut shared = SharedAddresses::default();
    let names = objects
        .iter()
        .filter_map(|object| object["metadata"]["name"].as_str());
    let meant: HashSet<&str> = names.collect();
    for plan in nodes.plans() {
        shared.add(&plan, |policy| meant.contains(policy));
        match args.output {
            Format::Text => shown.texts.push(nodes::text(&plan, style)),
            Format::Json => shown.values.push(plan.json()),
        }
        shown.is_unknown |= plan.is_unknown;
        shown.says_something |= plan.says_something();
    }
    shown.notes = nodes.notes;
    shown.notes.extend(shared.warnings());
    Ok(shown)
}

/// The same in a cluster, which may drop fields of the objects.
async fn plan_nodes_of(args: &Args, online: &Online, objects: &[&Value]) -> Result<NodePlans> {
    let nodes = Nodes::of_cluster(online).await?;
    let mut pruner = Pruner::new(online);
    let (mut pruned, mut lost) = (Vec::new(), Vec::new());
    for object in objects {
        let mut object = (*object).clone();
        if !args.delete
            && let Some(note) = pruner.prune(&mut object).await?
        {
            let live = Live::of(&object);
            lost.push(format!("{} {}: {note}", live.kind(), live.name()));
        }
        pruned.push(object);
    }
    let mut shown = plan_nodes(args, nodes, &pruned.iter().collect::<Vec<_>>())?;
    lost.append(&mut shown.notes);
    shown.notes = lost;
    Ok(shown)
}

fn show(args: &Args, planned: &[Planned], nodes: Option<NodePlans>) -> Result<ExitCode> {
    let nodes = nodes.unwrap_or_default();
    match args.output {
        Format::Text => {
            let style = Style::stdout();
            let mut texts: Vec<_> = planned.iter().map(|planned| planned.text(style)).collect();
            texts.extend(nodes.texts);
            output::print(&texts.join("\n"))?;
            for note in nodes.notes {
                output::say(&format!("{}: {note}", Style::stderr().pending("note")));
            }
        }
        Format::Json => {
            let resources: Vec<_> = planned.iter().map(Planned::json).collect();
            let all = serde_json::json!({
                "resources": resources, "nodes": nodes.values, "notes": nodes.notes
            });
            output::print(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
        }
    }
    if nodes.is_unknown {
        return Ok(ExitCode::from(UNKNOWN));
    }
    let changes = planned.iter().any(Planned::changes_something) || nodes.says_something;
    Ok(ExitCode::from(u8::from(changes)))
}

/// The deletion of every resource in the cluster.
async fn deletion_of_all(cluster: &ClusterArgs) -> Result<Vec<Planned>> {
    let online = cluster.connect().await?;
    let mut planned = Vec::new();
    for site in online.sites(domains::ALL).await? {
        let lead = online.lead(&site).await?;
        for stored in online.resources(&site).await?.unwrap_or_default() {
            planned.push(Planned {
                title: output::title(site.entry.resource, &stored),
                file: String::new(),
                domain: site.entry.name,
                effect: Effect::Delete,
                preview: deletion(&online, &site, &stored).await?,
                notes: notes(&site, &lead),
                cut_off: None,
                dropped: None,
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
    let lead = online.lead(site).await?;
    let mut planned = Planned {
        title: output::title(site.entry.resource, &value),
        file: resource.source.clone(),
        domain: site.entry.name,
        effect: Effect::None,
        preview: Preview::default(),
        notes: notes(site, &lead),
        cut_off: None,
        dropped: None,
    };
    if delete {
        if let Some(stored) = &stored {
            planned.effect = Effect::Delete;
            planned.preview = deletion(online, site, stored).await?;
        }
        return Ok(planned);
    }
    let mut pruner = Pruner::new(online);
    planned.dropped = pruner.prune(&mut value).await?;
    let mut wanted = applied(&value, stored.as_ref(), site.entry.resource);
    defaults::fill(site.entry, &mut wanted)?;
    // The API server fills in no field that it does not know.
    pruner.prune(&mut wanted).await?;
    if let (kinds::NETWORK_CONFIG, Some(stored)) = (site.entry.resource, &stored) {
        planned.cut_off = services_left_out(online, stored, &wanted).await?;
    }
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

/// Returns a note about the Services that keep an address of the block of services in force, which
/// the wanted NetworkConfig leaves out. The operator carries out such a change only if it is forced.
async fn services_left_out(
    online: &Online,
    stored: &Value,
    wanted: &Value,
) -> Result<Option<String>> {
    let (previous, next) = (&stored["status"]["effectiveConfiguration"], &wanted["spec"]);
    if !services::shrink(previous, next) {
        return Ok(None);
    }
    let reader = Reader::tolerant(&online.cluster);
    let all = reader.list(kinds::SERVICE, None, "").await;
    let all = all.map_err(|error| online.explain(error))?;
    if reader.is_unread(kinds::SERVICE, None) {
        return Ok(Some(
            "this plan names no Services that are cut off: you may not list services".to_owned(),
        ));
    }
    let left_out = services::left_out(previous, next, &all);
    Ok((!left_out.is_empty()).then(|| {
        format!(
            "{} Services keep an address outside of the new spec.serviceNetwork. They are cut off where the network reaches this block alone, as OpenShiftSDN does. Delete and create them again once the API server gives addresses of the new block:\n  {}",
            left_out.len(),
            left_out.join("\n  ")
        )
    }))
}

async fn deletion(online: &Online, site: &Site, stored: &Value) -> Result<Preview> {
    let (finalizer, mut preview) = match &site.served {
        Served::Placement(_) => {
            let preview = placement::deletion(online, site, stored).await?;
            (weft_placement::domain::FINALIZER, preview)
        }
        Served::Set(set) => {
            let objects = online.set_objects(site, set, Owner::of(&*site.domain, stored));
            let removals = preview::teardown(&objects, stored, &site.namespace)
                .await
                .map_err(|error| online.explain_stored(error))?;
            let preview = Preview {
                removals,
                ..Preview::default()
            };
            (finalizer::FINALIZER, preview)
        }
    };
    // Without the finalizer, the resource waits for nothing, and the garbage collector removes its
    // objects.
    if Live::of(stored).has_finalizer(finalizer) {
        preview.blocked = presence::blocked(&online.cluster, &*site.domain)
            .await
            .map_err(|error| online.explain(error))?;
        preview.paused = drift::pause(stored).map(str::to_owned);
    }
    Ok(preview)
}

fn notes(site: &Site, lead: &Lead) -> Vec<String> {
    let mut notes = Vec::new();
    if site.operator.is_none() {
        notes.push(format!("no operator of Weft is installed for {}: planned with the settings of this environment", site.entry.name));
    }
    let idle = format!("no operator of Weft is at work for {}", site.entry.name);
    match lead {
        Lead::By(_) => {}
        Lead::Ghost(why) => notes.push(format!("{idle}: {why}; {}", how_to_free(&site.lease()))),
        Lead::Nobody => notes.push(format!("{idle}: nothing happens until one is")),
    }
    notes
}
