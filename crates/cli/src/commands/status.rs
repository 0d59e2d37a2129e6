//! `weft status`

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use weft_plan::Owner;
use weft_runtime::inspect::overview;

use crate::{
    domains,
    online::{ClusterArgs, Online, Site, block_on},
    output::{self, Style},
    screen::Screen,
    tree,
};

/// Show the state of the configuration: components, workloads, and the cause if a pod is in trouble
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: shown, or what was waited for has come; 1: there is nothing to show, or it did not come in time; 2: it could not be
found out.

Examples:
  weft status
  weft status --watch
  weft status --wait --timeout 10m      Until everything is Available, for scripts
  weft status -o json | jq '.domains[].available'")]
pub struct Args {
    /// Go on showing it, whenever something is different, until Ctrl-C
    #[arg(short, long, conflicts_with = "wait")]
    watch: bool,

    /// Wait until all is Available, for the latest change
    #[arg(long)]
    wait: bool,

    /// How long to wait, for example 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration, requires = "wait")]
    timeout: Duration,

    /// How to show it. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,

    /// Which domains [default: all]
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',', value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domains: Vec<String>,

    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Reads `90s`, `10m`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed
        .and_then(|parsed| Duration::try_from(parsed).ok())
        .ok_or_else(|| format!("{text:?} is not a time: write it like 90s, 10m or 1h30m"))
}

/// Shows the status.
pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(async {
        let online = args.cluster.connect().await?;
        let sites = online.sites(domains::chosen(&args.domains)).await?;
        if args.watch || args.wait {
            follow(args, &online, &sites).await
        } else {
            once(args, &online, &sites).await
        }
    })
}

async fn once(args: &Args, online: &Online, sites: &[Site]) -> Result<ExitCode> {
    let seen = look(online, sites, !args.domains.is_empty()).await?;
    output::print(&text(args.output, &seen, Style::stdout(), false)?)?;
    Ok(ExitCode::from(u8::from(
        seen.iter().all(|domain| domain.resources.is_empty()),
    )))
}

async fn follow(args: &Args, online: &Online, sites: &[Site]) -> Result<ExitCode> {
    let mut screen = Screen::stdout();
    let end = args.wait.then(|| Instant::now() + args.timeout);
    let mut bells =
        stream::select_all(sites.iter().map(|site| {
            overview::notifier(&online.cluster, &*site.domain, &site.namespace).boxed()
        }));
    let mut said = String::new();
    loop {
        let seen = look(online, sites, !args.domains.is_empty()).await?;
        let there = seen.iter().any(|domain| !domain.resources.is_empty());
        let done = args.wait
            && there
            && seen
                .iter()
                .filter(|domain| !domain.resources.is_empty())
                .all(tree::Domain::is_available);
        let late = end.is_some_and(|end| Instant::now() >= end);
        let over = done || late || args.wait && !there;
        let shown = text(args.output, &seen, Style::stdout(), true)?;
        if args.output == Format::Text && screen.is_terminal() {
            if over {
                screen.end(&shown)?
            } else {
                screen.show(&shown)?
            }
        } else if args.watch && shown != said || over {
            output::print(&shown)?;
            said = shown;
        } else if args.wait {
            let headline: Vec<_> = seen.iter().map(tree::Domain::headline).collect();
            if headline.join("; ") != said {
                said = headline.join("; ");
                output::say(&format!("waiting: {said}"));
            }
        }
        if over {
            if late && !done {
                output::say(&format!(
                    "{}: not Available within {:?}",
                    Style::stderr().bad("error"),
                    args.timeout
                ));
            }
            return Ok(ExitCode::from(u8::from(!done)));
        }
        let due = seen.iter().filter_map(next).min();
        let pause = due.map(|due| {
            Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default()
                + Duration::from_millis(10)
        });
        let end = [end, pause.map(|pause| Instant::now() + pause)]
            .into_iter()
            .flatten()
            .min();
        tokio::select! {
            _ = bells.next() => {}
            () = until(end) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
        // Changes come in crowds: one look is enough for all of them.
        tokio::time::sleep(Duration::from_millis(50)).await;
        while futures::FutureExt::now_or_never(bells.next()).is_some() {}
    }
}

/// When something will be different by time alone: a rollout counts as stuck, a leader as silent.
fn next(domain: &tree::Domain) -> Option<Timestamp> {
    let leader = domain
        .presence
        .leader
        .as_ref()
        .filter(|_| domain.alive)
        .and_then(|leader| leader.renewed.checked_add(leader.lasts).ok());
    domain
        .resources
        .iter()
        .filter_map(overview::Overview::deadline)
        .chain(leader)
        .min()
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end.into()).await,
        None => std::future::pending().await,
    }
}

async fn look(online: &Online, sites: &[Site], by_name: bool) -> Result<Vec<tree::Domain>> {
    let mut seen = Vec::new();
    for site in sites {
        let now = Timestamp::now();
        let presence = overview::presence(&online.cluster, &*site.domain, &site.namespace)
            .await
            .map_err(|error| online.explain(error))?;
        let alive = presence
            .leader
            .as_ref()
            .is_some_and(|leader| leader.is_alive(now));
        let mut domain = tree::Domain::of(site, presence, alive);
        if let Some(resources) = online.resources(site).await? {
            domain.installed = true;
            for resource in resources {
                let objects = online.objects(site, Owner::of(&*site.domain, &resource));
                domain.resources.push(
                    overview::look(&objects, resource, &site.namespace, now)
                        .await
                        .map_err(|error| online.explain(error))?,
                );
            }
        }
        seen.push(domain);
    }
    // A user who names no domain wants to see the installed ones.
    if !by_name && seen.iter().any(|domain| domain.installed) {
        seen.retain(|domain| domain.installed);
    }
    Ok(seen)
}

fn text(format: Format, seen: &[tree::Domain], style: Style, one_line: bool) -> Result<String> {
    let json = || {
        serde_json::json!({
            "domains": seen.iter().map(tree::Domain::json).collect::<Vec<_>>()
        })
    };
    Ok(match format {
        Format::Text => seen
            .iter()
            .flat_map(|domain| domain.lines(style))
            .map(|line| line + "\n")
            .collect(),
        Format::Json if one_line => format!("{}\n", json()),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&json())?),
    })
}
