//! `weft report`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use jiff::Timestamp;
use weft_plan::COMPONENT_LABEL;
use weft_plan::{Kind, kinds, report::FailureClass};
use weft_runtime::api_server::cluster::Error;

use crate::{
    bundle::{archive::Archive, collect::Collector},
    domains,
    online::{ClusterArgs, Online, block_on},
    output,
};

/// Write an archive for a bug report: resources, objects, events and logs, without secret values
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: written. The file errors.txt in the archive lists the parts that
you may not read. 2: not written.

Examples:
  weft report
  weft report -o report.tar.gz --log-lines 5000
  weft report --namespace openstack   As a user who may read only this namespace")]
pub struct Args {
    /// The archive [default: weft-report-TIME.tar.gz in this folder]
    #[arg(short, long, value_name = "FILE")]
    output_file: Option<PathBuf>,

    /// How many lines of each log the archive has
    #[arg(long, value_name = "LINES", default_value_t = 1000)]
    log_lines: u32,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Writes the archive.
pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(async {
        let now = Timestamp::now();
        let folder = format!("weft-report-{}", now.strftime("%Y%m%dT%H%M%SZ"));
        let path = args
            .output_file
            .clone()
            .unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
        let mut online = args.cluster.connect().await?;
        let namespace = online.take_namespace();
        let refused = refused(&online).await?;
        let sites = if refused.is_empty() {
            online.sites(domains::chosen(&[])).await?
        } else {
            online.sites_without_operators(domains::chosen(&[])).await?
        };
        let archive = Archive::create(&path, &folder, now)?;
        let mut collector = Collector::new(
            &online,
            &sites,
            namespace.as_deref(),
            archive,
            args.log_lines,
        )
        .await?;
        for (kind, error) in refused {
            collector.lacks(&format!("operators among {}", kind.plural), &error);
        }
        add_status(&mut collector, &args.cluster).await?;
        let summary = collector.collect().await?.finish()?;
        output::print(&format!("{}\n", path.display()))?;
        output::say(&format!("wrote {} files", summary.files));
        if summary.errors > 0 {
            output::say(&format!(
                "{} parts are missing: see errors.txt in the archive",
                summary.errors
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The kinds of workloads among which the user may not look for operators.
async fn refused(online: &Online) -> Result<Vec<(Kind, Error)>> {
    let query = format!("labelSelector={COMPONENT_LABEL}=operator&limit=1");
    let mut refused = Vec::new();
    for kind in [kinds::DEPLOYMENT, kinds::DAEMON_SET] {
        match online.cluster.list(kind, None, &query).await {
            Ok(_) => {}
            Err(error) if error.class() == FailureClass::Forbidden => refused.push((kind, error)),
            Err(error) => return Err(online.explain(error)),
        }
    }
    Ok(refused)
}

/// Adds the output of `weft status -o json`. This program runs itself for that: the status of a
/// cluster that is in trouble may be missing, and the report has everything else.
async fn add_status(collector: &mut Collector<'_>, cluster: &ClusterArgs) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let output = tokio::process::Command::new(program)
        .args(["status", "-o", "json"])
        .args(cluster.flags())
        .output()
        .await
        .context("cannot run weft status")?;
    if output.stdout.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        collector.lacks("output of weft status", &why.trim());
        return Ok(());
    }
    let status =
        serde_json::from_slice(&output.stdout).context("the output of weft status is not JSON")?;
    collector.add_json("status.json", status)
}
