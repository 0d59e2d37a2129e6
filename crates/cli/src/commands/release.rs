//! `weft release`

use std::{cmp::Reverse, collections::BTreeSet, process::ExitCode, sync::Arc};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use serde_json::Value;
use weft_operator::Served;
use weft_plan::{Live, ObjectKey, Owner, Stage, kinds};
use weft_runtime::{
    inspect::release::{self, release, release_list},
    reconcile::set::SetObjects,
};

use crate::{
    account::{Account, Action, End, Format, Step},
    confirm::confirmed,
    domains,
    handover::{self, Handover},
    held::{self, Held},
    install::SINGLE_OPERATOR,
    installed,
    online::{ClusterArgs, Lead, Online, Site, block_on},
    output,
};

/// Give everything back to the operator that Weft replaced
///
/// The configuration and its components continue to run untouched: no pod restarts. Weft's
/// finalizer, labels, annotations and inventory go, and every object is owned in the form that the
/// other operator looks for. The record of the applied configuration stays, in the place of the
/// other operator's. So do policies of nodes' networks, without Weft's finalizer. Weft's admission
/// policies go, and so do its roles and bindings, but for those that the other operator has under
/// the same name. A PlacementAPI and what it holds keep the finalizers that placement-operator has
/// itself. The other operator replaces the pods, one by one. Weft's operator must have been stopped
/// before.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: given back, or nothing of Weft is there; 2: it could not be done.
You can repeat it, and it continues from there.

Examples:
  kubectl -n cluster-network-addons scale \\
    deployment cluster-network-addons-operator --replicas=0
  weft release addons --dry-run
  weft release addons

  kubectl -n openshift-cluster-network-operator delete \\
    daemonset cluster-network-operator
  weft release cluster-network

  kubectl -n nmstate delete deployment nmstate-operator
  weft release node-network

  kubectl -n weft-placement scale \\
    deployment weft-placement-operator --replicas=0
  weft release placement")]
pub struct Args {
    /// Domain to give back
    #[arg(value_name = "DOMAIN", value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domain: String,

    /// Skip the confirmation
    #[arg(short, long)]
    yes: bool,

    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// How to show the result. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Gives the domain back.
pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(async {
        let online = args.cluster.connect().await?;
        let account = Account::new(args.output);
        let end = give_back(args, &online, &account).await;
        account.close(end)?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn give_back(args: &Args, online: &Online, account: &Account) -> Result<End> {
    let mut end = End::Nothing;
    for site in online
        .sites(domains::chosen(std::slice::from_ref(&args.domain)))
        .await?
    {
        account.plan([site.entry.name], []);
        let work = Work::find(online, &site).await?;
        if work.is_empty() {
            if !account.is_json() {
                account.show(&format!(
                    "Nothing of {} is Weft's: there is nothing to give back.\n",
                    site.entry.name
                ))?;
            }
            continue;
        }
        account.plan([site.entry.name], work.steps(&site));
        idle(online, &site, account).await?;
        if args.dry_run && !account.is_json() {
            account.show(&work.preview(&site))?;
        }
        if args.dry_run || !confirmed(args.yes, &work.question(&site))? {
            if !account.is_json() {
                account.show("Nothing was changed.\n")?;
            }
            return Ok(End::Unchanged);
        }
        work.carry_out(online, &site, account).await?;
        account.note(&next_step(&site))?;
        end = End::Done("Released");
    }
    Ok(end)
}

/// The work of giving a domain back.
struct Work {
    /// Users' objects of other kinds that have the operator's finalizer.
    held: Vec<Held>,
    /// Objects of the installation that go, with their uid.
    in_the_way: Vec<(ObjectKey, String)>,
    /// Resources, each with the objects to give back, and the further work.
    resources: Vec<(Value, Vec<release::Entry>, Handover)>,
}

impl Work {
    /// Finds out what there is to do.
    async fn find(online: &Online, site: &Site) -> Result<Self> {
        let mut found = Vec::new();
        for resource in online.resources(site).await?.unwrap_or_default() {
            let objects = online.objects(site, Owner::of(&*site.domain, &resource));
            let (list, handover) = match &site.served {
                Served::Placement(_) => handover::find(online, site, &objects, &resource).await?,
                Served::Set(set) => {
                    let objects = SetObjects::new(objects, Arc::clone(set));
                    let list = release_list(&objects, &resource, &site.namespace)
                        .await
                        .map_err(|error| online.explain_stored(error))?;
                    (list, Handover::default())
                }
            };
            if list.is_empty() && handover.is_empty() {
                continue;
            }
            if Live::of(&resource).is_being_deleted() {
                bail!(
                    "{} {} is being deleted, and its components with it: there is nothing to give back",
                    site.entry.resource.kind,
                    Live::of(&resource).name()
                );
            }
            found.push((resource, list, handover));
        }
        Ok(Self {
            held: held::find(online, site).await?,
            in_the_way: in_the_way(online, site).await?,
            resources: found,
        })
    }

    fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.held.is_empty() && self.in_the_way.is_empty()
    }

    /// The objects to give back.
    fn given_back(&self) -> impl Iterator<Item = &ObjectKey> {
        let lists = self.resources.iter().flat_map(|(_, list, _)| list);
        let held = self.held.iter().map(|held| &held.key);
        held.chain(lists.map(|entry| &entry.object))
    }

    fn steps(&self, site: &Site) -> Vec<Step> {
        let handovers = self
            .resources
            .iter()
            .flat_map(|(resource, _, handover)| handover.steps(site, resource));
        let given_back = self.given_back().map(|key| Step::new(Action::Release, key));
        let removed = self
            .in_the_way
            .iter()
            .map(|(key, _)| Step::new(Action::Delete, key));
        handovers.chain(given_back).chain(removed).collect()
    }

    /// Returns the steps for people, a line each.
    fn preview(&self, site: &Site) -> String {
        let handovers = self
            .resources
            .iter()
            .flat_map(|(resource, _, handover)| handover.preview(site, resource));
        let given_back = self
            .given_back()
            .map(|key| format!("would give back {}\n", key.human()));
        let removed = self
            .in_the_way
            .iter()
            .map(|(key, _)| format!("would remove {}\n", key.human()));
        handovers.chain(given_back).chain(removed).collect()
    }

    fn question(&self, site: &Site) -> String {
        format!(
            "Give {} objects of {} back, and remove {} of Weft's installation?",
            self.given_back().count(),
            site.entry.name,
            self.in_the_way.len()
        )
    }

    async fn carry_out(&self, online: &Online, site: &Site, account: &Account) -> Result<()> {
        let gave_back = |key: &ObjectKey| {
            account.did(Step::new(Action::Release, key), "gave back", &key.human())
        };
        for held in &self.held {
            held::release(online, site, held)
                .await
                .with_context(|| again(&held.key))?;
            gave_back(&held.key)?;
        }
        for (key, uid) in &self.in_the_way {
            online
                .cluster
                .delete(key, uid)
                .await
                .map_err(|error| online.explain(error).context(again(key)))?;
            account.did(Step::new(Action::Delete, key), "removed", &key.human())?;
        }
        for (resource, list, handover) in &self.resources {
            let failed = || {
                format!(
                    "{} could not be given back; run the command again to continue from there",
                    output::title(site.entry.resource, resource)
                )
            };
            handover
                .carry_out(online, site, resource, account)
                .await
                .with_context(failed)?;
            let objects = online.objects(site, Owner::of(&*site.domain, resource));
            for entry in list {
                let failed = |error| online.explain(error).context(again(&entry.object));
                release(&objects, resource, &site.namespace, entry)
                    .await
                    .map_err(failed)?;
                gave_back(&entry.object)?;
            }
        }
        Ok(())
    }
}

/// Objects of the installation that the other operator cannot work with or has no use for, each
/// with its uid, in the order in which they go.
async fn in_the_way(online: &Online, site: &Site) -> Result<Vec<(ObjectKey, String)>> {
    let mut keys = BTreeSet::new();
    for installation in installed::installations(site)? {
        let installed = installation.operator.iter().map(|manifest| manifest.key());
        keys.extend(installed.filter(|key| is_of_weft_alone(site, key)).cloned());
    }
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort_by_key(|key| Reverse(Stage::of(key.kind)));
    // Where there is an inventory, the lease is in its list.
    keys.extend(matches!(site.served, Served::Placement(_)).then(|| site.lease()));
    let mut found = Vec::new();
    for key in keys {
        let live = online
            .cluster
            .get_metadata(&key)
            .await
            .map_err(|error| online.explain(error))?;
        found.extend(
            live.and_then(|live| Some((key, live["metadata"]["uid"].as_str()?.to_owned()))),
        );
    }
    Ok(found)
}

/// Reports whether the other operator has no object of this name. Its manifests replace the
/// workload, the account and the role of its own name. A role that operands use stays.
fn is_of_weft_alone(site: &Site, key: &ObjectKey) -> bool {
    match key.kind {
        kinds::SERVICE_ACCOUNT | kinds::DEPLOYMENT | kinds::DAEMON_SET => false,
        kinds::CLUSTER_ROLE | kinds::CLUSTER_ROLE_BINDING | kinds::ROLE | kinds::ROLE_BINDING => {
            let operator = site.entry.install.operator;
            let is_theirs_too = key.name == operator && has_their_name(site);
            let is_operators =
                key.name.starts_with(operator) || key.name.starts_with(SINGLE_OPERATOR);
            // The roles for users: weft-addons-view and weft-addons-edit.
            let is_users = key.name.starts_with(&format!("weft-{}-", site.entry.name));
            is_users || is_operators && !is_theirs_too
        }
        _ => true,
    }
}

/// Reports whether the operator that Weft replaces has the name of Weft's.
fn has_their_name(site: &Site) -> bool {
    site.domain
        .operators()
        .iter()
        .any(|(_, name)| *name == site.entry.install.operator)
}

fn again(key: &ObjectKey) -> String {
    format!(
        "{} could not be given back; run the command again to continue from there",
        key.human()
    )
}

/// Makes sure that no operator of Weft is at work. It would take everything back at once.
async fn idle(online: &Online, site: &Site, account: &Account) -> Result<()> {
    if let Some(operator) = site
        .operator
        .as_ref()
        .filter(|operator| operator.replicas > 0)
    {
        let (namespace, name) = (
            operator.workload.namespace.as_deref().unwrap_or_default(),
            &operator.workload.name,
        );
        let stop = match operator.workload.kind {
            // It has no number of replicas to be set to none.
            kinds::DAEMON_SET => format!("delete daemonset {name}"),
            _ => format!("scale deployment {name} --replicas=0"),
        };
        bail!(
            "Weft's operator is running in {}: stop it first, else it would take everything back: kubectl -n {namespace} {stop}",
            operator.workload.human()
        );
    }
    let lead = online.lead(site).await?;
    if let Some(note) = lead.passed_over() {
        account.note(&note)?;
    }
    if let Lead::By(leader) = lead {
        let renewed = leader.renewed.map(|time| format!(" after {time:.0}"));
        bail!(
            "{} leads {} still: wait until it has stopped. If it has crashed, its lease runs out {} s{}",
            leader.identity,
            site.entry.name,
            leader.lasts.as_secs(),
            renewed.unwrap_or_default()
        );
    }
    Ok(())
}

fn next_step(site: &Site) -> String {
    let given_back = format!(
        "{} is given back. Now install the other operator",
        site.entry.name
    );
    match site.operator.as_ref().map(|operator| &operator.workload) {
        Some(workload) if has_their_name(site) && workload.name == site.entry.install.operator => {
            format!(
                "{given_back}; where it has the same name, it takes the place of {}. Until then that and its account and role of this name stay.",
                workload.human()
            )
        }
        Some(workload) => {
            let (namespace, kind) = (
                workload.namespace.as_deref().unwrap_or_default(),
                workload.kind.kind.to_lowercase(),
            );
            let name = &workload.name;
            format!(
                "{given_back}. Weft's own is of no use any more, unless it serves others: kubectl -n {namespace} delete {kind}/{name} serviceaccount/{name}"
            )
        }
        None => format!("{given_back}."),
    }
}
