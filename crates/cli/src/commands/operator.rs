//! `weft operator`: the controllers.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::domains;

/// Run the controllers of the chosen domains. This is what the Deployment runs
#[derive(clap::Args)]
pub struct Args {
    /// The domains to serve, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "addons", env = "WEFT_DOMAINS", value_name = "DOMAIN")]
    domains: Vec<String>,
    /// A kubeconfig file; by default $KUBECONFIG, ~/.kube/config or, in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How many seconds a leader may be silent before another replica takes over; it renews three times as often
    #[arg(long, default_value_t = 30, env = "WEFT_LEASE_SECONDS", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(3..=3600))]
    lease_seconds: u64,
    /// Where /healthz, /readyz and /metrics are served; port 0 takes a free one
    #[arg(long, default_value = "0.0.0.0:8081", env = "WEFT_PROBE_ADDRESS", value_name = "ADDRESS")]
    probe_address: SocketAddr,
    /// The name of this replica in leases and events
    #[arg(long, env = "POD_NAME", default_value = "weft", value_name = "NAME")]
    pod_name: String,
    /// What is logged: -1 debug, 0 info, 1 warnings, 2 errors
    #[arg(long, env = "CNAO_LOG_LEVEL", default_value_t = 0, allow_negative_numbers = true, value_name = "LEVEL")]
    log_level: i8,
    /// Log text lines instead of JSON
    #[arg(long)]
    log_text: bool,
}

/// The environment variables that are no flags: `weft manifests` writes them into the Deployment.
pub fn environment() -> String {
    let general = [
        ("OPERATOR_NAMESPACE", "namespace of the operator and of what it stores"),
        ("OPERAND_NAMESPACE", "namespace of the components, by default the same"),
        ("OPERATOR_VERSION", "version that status and labels carry, by default its own"),
    ];
    let general = general.map(|(name, meaning)| format!("  {name:<20} {meaning}"));
    let images =
        domains::ALL.iter().flat_map(|domain| (domain.install.images)()).map(|(name, default)| format!("  {name}\n      {default}"));
    format!("Environment:\n{}\n\nImages, each with its default:\n{}", general.join("\n"), images.collect::<Vec<_>>().join("\n"))
}

/// Runs until it is told to stop.
pub fn run(args: Args) -> Result<ExitCode> {
    log(&args);
    let options = weft_operator::Options {
        domains: args.domains,
        kubeconfig: args.kubeconfig,
        lease_duration: Duration::from_secs(args.lease_seconds),
        probe_address: args.probe_address,
        instance: args.pod_name,
    };
    // One thread serves an operator: it waits nearly always, and a second one would cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime cannot be started")?;
    runtime.block_on(weft_operator::run(options))?;
    Ok(ExitCode::SUCCESS)
}

fn log(args: &Args) {
    let level = match args.log_level {
        ..=-1 => LevelFilter::DEBUG,
        0 => LevelFilter::INFO,
        1 => LevelFilter::WARN,
        2.. => LevelFilter::ERROR,
    };
    // What the client library has to say of a failed request, Weft says itself, once.
    let libraries = if level < LevelFilter::DEBUG { LevelFilter::OFF } else { level };
    let filter = Targets::new().with_default(level).with_targets([("kube_client", libraries), ("kube_runtime", libraries)]);
    let lines =
        tracing_subscriber::fmt::layer().with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    if args.log_text { registry.with(lines).init() } else { registry.with(lines.json().flatten_event(true)).init() }
}
