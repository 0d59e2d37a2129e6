//! `weft operator`: the controllers.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use weft_operands::duration;
use weft_operator::{HostMtu, MetricsAddress};
use weft_plan::{LogLevel, escape};
use weft_runtime::leader::lease::LONGEST;

use crate::domains;

/// Run the controllers of the chosen domains. This is what the Deployment runs
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub struct Args {
    /// The domains to serve, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "addons",
        env = "WEFT_DOMAINS",
        value_name = "DOMAIN"
    )]
    domains: Vec<String>,
    /// A kubeconfig file. By default $KUBECONFIG, ~/.kube/config or, in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A kubeconfig of which only the address of the API server is used, in a pod that has to do
    /// without the Service `kubernetes`: for example that of the node's kubelet
    #[arg(long, value_name = "FILE")]
    url_only_kubeconfig: Option<PathBuf>,
    /// How long a leader may be silent before another replica takes over, for example 30s or 1m. It
    /// renews three times as often, and the API server may take a third of it to answer
    #[arg(long, default_value = "30s", env = "WEFT_LEASE_SECONDS", value_name = "TIME", value_parser = lease_time)]
    lease_seconds: Duration,
    /// Where /healthz and /readyz are served. Port 0 takes a free one
    #[arg(
        long,
        default_value = "0.0.0.0:8081",
        env = "WEFT_PROBE_ADDRESS",
        value_name = "ADDRESS"
    )]
    probe_address: SocketAddr,
    /// Where /metrics is served over HTTPS, for clients whose token may get it. `probes`: plain,
    /// next to the probes, for anybody. `off`
    #[arg(long, default_value = "0.0.0.0:8443", env = "WEFT_METRICS_ADDRESS", value_name = "ADDRESS", value_parser = metrics_address)]
    metrics_address: MetricsAddress,
    /// The name of this replica in leases and events
    #[arg(long, env = "POD_NAME", default_value = "weft", value_name = "NAME")]
    pod_name: String,
    /// The UID of this pod: with it, a process that is started again takes over the lease of the
    /// one before at once
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pod_uid: Option<String>,
    /// The MTU of the host's network in bytes, from which the pods' follows until nodes report
    /// theirs. `probe`: ask the kernel, for a pod on the host's network [default: not known]
    #[arg(long, env = "WEFT_HOST_MTU", value_name = "BYTES", value_parser = host_mtu)]
    host_mtu: Option<HostMtu>,
    /// The namespaces whose PlacementAPIs are served, separated by commas. `*`: all, for which the
    /// operator needs rights in all of them [default: openstack]
    #[arg(long, env = "WEFT_PLACEMENT_NAMESPACES", value_name = "NAMESPACES")]
    placement_namespaces: Option<String>,
    /// Keystones, separated by commas, to which `registration: Direct` of any PlacementAPI may send
    /// the usual keys of Secrets, and of which status has all errors. Others must be permitted by
    /// the Secrets [default: none]
    #[arg(long, env = "WEFT_KEYSTONE_URLS", value_name = "URLS")]
    keystone_urls: Option<String>,
    /// Log level: -1 debug, 0 info, 1 warnings, 2 errors
    #[arg(
        long,
        env = "CNAO_LOG_LEVEL",
        default_value = "0",
        allow_negative_numbers = true,
        value_name = "LEVEL",
        value_parser = log_level
    )]
    log_level: LogLevel,
    /// Log text lines instead of JSON
    #[arg(long)]
    log_text: bool,
}

/// The environment variables that are no flags: `weft manifests` writes them into the Deployment.
pub fn environment() -> String {
    let general = [
        (
            "OPERATOR_NAMESPACE",
            "namespace of the operator and of what it stores",
        ),
        (
            "OPERAND_NAMESPACE",
            "namespace of the add-ons, by default the same",
        ),
        (
            "CLUSTER_NETWORK_NAMESPACE",
            "namespace of the record applied-default, by default the same",
        ),
        (
            "HANDLER_NAMESPACE",
            "namespace of the node agents, by default the same",
        ),
        (
            "HANDLER_IMAGE_PULL_POLICY",
            "when their image is pulled, by default IfNotPresent",
        ),
        (
            "KUBERNETES_SERVICE_HOST",
            "address of the API server, also for the pods of the cluster's network",
        ),
        ("KUBERNETES_SERVICE_PORT", "its port"),
        (
            "OPERATOR_VERSION",
            "version that status and labels carry, by default its own",
        ),
        (
            "MONITORING_NAMESPACE",
            "namespace of Prometheus, by default monitoring",
        ),
        (
            "MONITORING_SERVICE_ACCOUNT",
            "its ServiceAccount there, by default prometheus-k8s",
        ),
        (
            "WEFT_ADDONS_COMPONENTS",
            "components that it has rights for, as weft manifests --components names them, by default all",
        ),
        (
            "RUNBOOK_URL_TEMPLATE",
            "where alerts are explained, with %s once for the name of the alert",
        ),
    ];
    let general = general.map(|(name, meaning)| format!("  {name:<27} {meaning}"));
    let images = |domain: &domains::Entry| {
        (domain.install.images)()
            .into_iter()
            .map(|(name, image)| format!("  {name}\n      {}", without_long_digest(image)))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let all = domains::ALL.iter().map(|domain| {
        format!(
            "Images of {}, as `weft manifests` sets them:\n{}",
            domain.name,
            images(domain)
        )
    });
    format!(
        "Environment:\n{}\n\n{}",
        general.join("\n"),
        all.collect::<Vec<_>>().join("\n\n")
    )
}

/// The image with a digest that fits into a line of help.
fn without_long_digest(image: &str) -> String {
    match image.split_once("@sha256:") {
        Some((name, digest)) => {
            let begin: String = digest.chars().take(12).collect();
            format!("{name}@sha256:{begin}...")
        }
        None => image.to_owned(),
    }
}

fn metrics_address(text: &str) -> Result<MetricsAddress, String> {
    match text {
        "off" => Ok(MetricsAddress::Off),
        "probes" => Ok(MetricsAddress::Probes),
        address => {
            let address = address.parse().map_err(|_| {
                format!("{text:?} is no address: write 0.0.0.0:8443, probes or off")
            })?;
            Ok(MetricsAddress::At(address))
        }
    }
}

fn lease_time(text: &str) -> Result<Duration, String> {
    match duration::of_flag_within(text, 3, LONGEST.as_secs())? {
        time if time.subsec_nanos() == 0 => Ok(time),
        _ => Err(format!(
            "{text:?} is not in whole seconds, as a Lease needs"
        )),
    }
}

/// Reads the number that cluster-network-addons-operator has for a level. An empty variable counts as
/// unset.
fn log_level(text: &str) -> Result<LogLevel, String> {
    match text {
        "-1" => Ok(LogLevel::Debug),
        "0" | "" => Ok(LogLevel::Info),
        "1" => Ok(LogLevel::Warning),
        "2" => Ok(LogLevel::Error),
        _ => Err(format!(
            "{text:?} is not in the range from -1 to 2: set CNAO_LOG_LEVEL, or this flag, to -1 (debug), 0 (info), 1 (warnings) or 2 (errors)"
        )),
    }
}

fn host_mtu(text: &str) -> Result<HostMtu, String> {
    match text {
        "probe" => Ok(HostMtu::Probe),
        bytes => match bytes.parse() {
            Ok(mtu @ 68..=65535) => Ok(HostMtu::Bytes(mtu)),
            _ => Err(format!(
                "{text:?} is no MTU: write bytes from 68 to 65535, for example 1500, or probe"
            )),
        },
    }
}

/// Runs until a signal stops it.
pub fn run(args: Args) -> Result<ExitCode> {
    let set_log_level = log(&args);
    let options = weft_operator::Options {
        domains: args.domains,
        definitions: domains::shipped,
        source: weft_operator::Source {
            kubeconfig: args.kubeconfig,
            url_only: args.url_only_kubeconfig,
        },
        lease_duration: args.lease_seconds,
        probe_address: args.probe_address,
        metrics: args.metrics_address,
        instance: args.pod_name,
        pod_uid: args.pod_uid.filter(|uid| !uid.is_empty()),
        host_mtu: args.host_mtu.unwrap_or(HostMtu::Unknown),
        placement_namespaces: args.placement_namespaces,
        keystone_urls: args.keystone_urls,
    };
    // One thread serves an operator: it waits nearly always, and a second one would cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    runtime.block_on(weft_operator::run(options, set_log_level))?;
    Ok(ExitCode::SUCCESS)
}

/// Begins to log. Returns how to change the level. `None` is the one of the command line.
fn log(args: &Args) -> impl Fn(Option<LogLevel>) + Send + use<> {
    let at_start = args.log_level;
    let (filter, handle) = reload::Layer::new(filter(at_start));
    // Without colour: the writer escapes control characters, and could not distinguish those of
    // colours from those in other users' text.
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| escape::Writer(std::io::stderr()));
    let registry = tracing_subscriber::registry().with(filter);
    if args.log_text {
        registry.with(lines).init()
    } else {
        registry.with(lines.json().flatten_event(true)).init()
    }
    move |level| {
        // It fails only if nothing is logged any more.
        let _ = handle.reload(self::filter(level.unwrap_or(at_start)));
    }
}

fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    };
    // Weft itself reports each failed request once, so the client library's own messages are off.
    let libraries = if level < LevelFilter::DEBUG {
        LevelFilter::OFF
    } else {
        level
    };
    // nmstate logs each state that it refuses, and the refusal stands in the status of the policy.
    Targets::new().with_default(level).with_targets([
        ("kube_client", libraries),
        ("kube_runtime", libraries),
        ("nmstate", libraries),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_level_is_one_of_four_numbers() {
        let level = |text| log_level(text).ok();
        let all = ["-1", "0", "1", "2"].map(level);
        let [debug, info, warning, error] = all;
        assert!(matches!(debug, Some(LogLevel::Debug)) && matches!(info, Some(LogLevel::Info)));
        assert!(matches!(warning, Some(LogLevel::Warning)));
        assert!(matches!(error, Some(LogLevel::Error)));
        assert!(matches!(level(""), Some(LogLevel::Info)));
        for text in ["-2", "3", "+1", "01", "debug"] {
            assert!(level(text).is_none(), "{text}");
        }
    }
}
