//! `weft node`: what containers do that Weft runs on nodes.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use weft_host::{
    CniType, NetworkList, conf_dir,
    plugins::{self, Owner, Replace},
};
use weft_operands::duration;
use weft_plan::{CniReport, PluginsReport, kinds};
use weft_runtime::api_server::{client, fence::Fence};

use crate::output;

/// Commands of Weft's containers on nodes. People need it only to see what such a container would
/// do
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    CniConfig(CniConfig),
    CniPlugins(CniPlugins),
    Mtu(Mtu),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::CniConfig(args) => args.run(),
        Command::CniPlugins(args) => args.run(),
        Command::Mtu(Mtu { output }) => {
            let found = weft_host::default_mtu()?;
            match output {
                Format::Text => output::print(&format!("{found}\n"))?,
                Format::Json => output::print_json(
                    &serde_json::json!({ "mtu": found.mtu, "route": found.route }),
                )?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Print the smallest MTU of all default routes of this host, and the route that has it
#[derive(clap::Args)]
struct Mtu {
    /// How to show it
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Write the CNI configuration of this node, once it has its pod CIDRs. It prints its findings as
/// one line of JSON, which is the container's termination message
#[derive(clap::Args)]
struct CniConfig {
    /// This node's name
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: String,
    /// Where the container runtime reads its CNI configuration
    #[arg(long, default_value = "/etc/cni/net.d", value_name = "DIR")]
    conf_dir: PathBuf,
    /// Where the container runtime finds CNI plugins
    #[arg(long, default_value = "/opt/cni/bin", value_name = "DIR")]
    bin_dir: PathBuf,
    /// The name of the file to write
    #[arg(long, default_value = "10-flannel.conflist", value_name = "FILE", value_parser = file_name)]
    name: String,
    /// The MTU of the pods' interfaces. By default the kernel's
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65535))]
    mtu: Option<u32>,
    /// The plugin that connects pods
    #[arg(long, default_value = "bridge", value_name = "TYPE")]
    cni_type: Plugin,
    /// How long to wait for the node's pod CIDRs, for example 90s or 2m
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = wait_time)]
    wait: Duration,
    /// The container's termination message. Written to only if it is there
    #[arg(long, default_value = "/dev/termination-log", value_name = "FILE")]
    report: PathBuf,
    /// A kubeconfig file. By default $KUBECONFIG, ~/.kube/config or, in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A kubeconfig file of which only the API server's address is used, together with the pod's
    /// service account
    #[arg(long, value_name = "FILE")]
    url_only_kubeconfig: Option<PathBuf>,
}

/// Install CNI plugins on this node, next to those that it has: a plugin of another owner stays as it
/// is. It prints its findings as one line of JSON, which is the container's termination message
#[derive(clap::Args)]
struct CniPlugins {
    /// The directory with the plugins to install
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Where the container runtime finds CNI plugins
    #[arg(long, default_value = "/opt/cni/bin", value_name = "DIR")]
    to: PathBuf,
    /// The names of the plugins, separated by commas [default: all in --from]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = plugin_name)]
    plugins: Vec<String>,
    /// The plugins to write
    #[arg(long, value_enum, default_value = "newer")]
    install: Install,
    /// The container's termination message. Written to only if it is there
    #[arg(long, default_value = "/dev/termination-log", value_name = "FILE")]
    report: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Install {
    /// Those that the node lacks
    Missing,
    /// Those too of which it has an older version that this command installed
    Newer,
}

/// The longest name of a file (`NAME_MAX`), less that under which the plugin arrives.
const PLUGIN_NAME: usize = 248;

fn plugin_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty()
        && text.len() <= PLUGIN_NAME
        && !text.starts_with(['.', '-'])
        && !text.contains('/');
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        format!("{text:?} is no name of a plugin: write the name of a file in --from, for example macvlan")
    })
}

impl CniPlugins {
    fn run(&self) -> Result<ExitCode> {
        let mut report = PluginsReport::default();
        let done = self.work(&mut report);
        report.error = done.as_ref().err().map(|error| format!("{error:#}"));
        output::print(&format!("{}\n", report.to_line()))?;
        tell(&self.report, &report.to_line())
            .with_context(|| format!("the report {} cannot be written", self.report.display()))?;
        done.map(|()| ExitCode::SUCCESS)
    }

    fn work(&self, report: &mut PluginsReport) -> Result<()> {
        let names = if self.plugins.is_empty() {
            programs(&self.from)
                .with_context(|| format!("{} cannot be read: see --from", self.from.display()))?
        } else {
            self.plugins.clone()
        };
        if names.is_empty() {
            bail!("{} holds no plugin: see --from", self.from.display());
        }
        let replace = match self.install {
            Install::Missing => Replace::Nothing,
            Install::Newer => Replace::Older,
        };
        let found = plugins::install(&self.from, &self.to, &names, replace).with_context(|| {
            format!(
                "a CNI plugin cannot be installed in {}, where the container runtime looks for them: see --to",
                self.to.display()
            )
        })?;
        for plugin in found {
            let version = plugin.version.unwrap_or_default();
            let (words, part) = match plugin.owner {
                Owner::Installed => ("installed", &mut report.cni_plugins),
                Owner::Kept => ("is there already", &mut report.cni_plugins),
                Owner::Other => ("the node has its own", &mut report.of_others),
            };
            output::say(format!("{} {version}: {words}", plugin.name).as_str());
            part.insert(plugin.name, version);
        }
        Ok(())
    }
}

/// The programs in a directory, by name.
fn programs(directory: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let file = std::fs::metadata(entry.path())?;
        if file.is_file() && file.permissions().mode() & 0o111 != 0 {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Plugin {
    /// The plugin bridge, with the node's pod CIDRs
    Bridge,
    /// Flannel's own plugin, which calls bridge
    Flannel,
}

impl From<Plugin> for CniType {
    fn from(plugin: Plugin) -> Self {
        match plugin {
            Plugin::Bridge => Self::Bridge,
            Plugin::Flannel => Self::Flannel,
        }
    }
}

fn wait_time(text: &str) -> Result<Duration, String> {
    duration::of_flag_within(text, 1, 86400)
}

/// Container runtimes read lists of plugins from files with this ending only.
fn file_name(text: &str) -> Result<String, String> {
    match text {
        _ if text.contains('/') || text.starts_with('.') => {
            Err(format!("{text:?} is no name of a file in --conf-dir"))
        }
        _ if !text.ends_with(".conflist") => Err(format!(
            "{text:?} does not end in .conflist: container runtimes would not read it"
        )),
        _ => Ok(text.to_owned()),
    }
}

impl CniConfig {
    fn run(&self) -> Result<ExitCode> {
        let mut report = CniReport::default();
        let done = self.work(&mut report);
        report.error = done.as_ref().err().map(|error| format!("{error:#}"));
        output::print(&format!("{}\n", report.to_line()))?;
        tell(&self.report, &report.to_line())
            .with_context(|| format!("the report {} cannot be written", self.report.display()))?;
        done.map(|()| ExitCode::SUCCESS)
    }

    fn work(&self, report: &mut CniReport) -> Result<()> {
        match weft_host::default_mtu() {
            Ok(found) => (report.mtu, report.mtu_from) = (Some(found.mtu), found.route),
            // The node may do without: it is said, and the other nodes decide.
            Err(error) => report.mtu_from = error.to_string(),
        }
        let cni_type = CniType::from(self.cni_type);
        let bin_dir = self.bin_dir.display();
        report.missing_plugins = conf_dir::missing_plugins(&self.bin_dir, cni_type.plugins())
            .with_context(|| {
                format!("the directory of the CNI plugins {bin_dir} cannot be read: see --bin-dir")
            })?;
        if !report.missing_plugins.is_empty() {
            // With a configuration the node would become ready, and each of its pods would fail.
            bail!(
                "node {} has no CNI plugin {} in {bin_dir}: install the plugins of github.com/containernetworking/plugins there, which \
                 distributions have as containernetworking-plugins or kubernetes-cni",
                self.node_name,
                report.missing_plugins.join(", ")
            );
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot be started")?;
        report.pod_cidrs = runtime.block_on(self.pod_cidrs())?;
        let list = NetworkList::new(cni_type, &report.pod_cidrs, self.mtu)
            .with_context(|| format!("node {}", self.node_name))?;
        let failed = || {
            format!(
                "{} cannot be written: see --conf-dir",
                self.conf_dir.join(&self.name).display()
            )
        };
        let is_new =
            conf_dir::write(&self.conf_dir, &self.name, &list.to_text()).with_context(failed)?;
        report.written = Some(self.name.clone());
        report.shadowed_by =
            conf_dir::shadowing(&self.conf_dir, &self.name).with_context(failed)?;
        output::say(&format!(
            "{} {}",
            self.conf_dir.join(&self.name).display(),
            if is_new {
                "is written"
            } else {
                "is there already"
            }
        ));
        Ok(())
    }

    /// Waits until the node has its ranges: the controller-manager gives them shortly after the
    /// node is there.
    async fn pod_cidrs(&self) -> Result<Vec<String>> {
        let source = weft_operator::Source {
            kubeconfig: self.kubeconfig.clone(),
            url_only: self.url_only_kubeconfig.clone(),
        };
        let (config, _) = weft_operator::connect(&source).await?;
        let client =
            client::connect(&config, &Fence::default()).context("the client cannot be set up")?;
        let mut state = format!("there is no node {}", self.node_name);
        match tokio::time::timeout(self.wait, watch(client, &self.node_name, &mut state)).await {
            Ok(cidrs) => cidrs,
            Err(_) => bail!(
                "{state} (after {:?}; asked {})",
                self.wait,
                config.cluster_url
            ),
        }
    }
}

/// Returns the ranges of the node once it has any. Until then `state` says what is the matter.
async fn watch(client: Client, name: &str, state: &mut String) -> Result<Vec<String>> {
    let resource = ApiResource {
        group: String::new(),
        version: kinds::NODE.version.to_owned(),
        api_version: kinds::NODE.api_version(),
        kind: kinds::NODE.kind.to_owned(),
        plural: kinds::NODE.plural.to_owned(),
    };
    let nodes: Api<DynamicObject> = Api::all_with(client, &resource);
    let only_this = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(nodes, only_this).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                let cidrs = ranges(&node.data);
                if !cidrs.is_empty() {
                    return Ok(cidrs);
                }
                *state = format!(
                    "node {name} has no spec.podCIDRs: the kube-controller-manager has to give it some (--allocate-node-cidrs=true, \
                     --cluster-cidr=...)"
                );
            }
            Ok(watcher::Event::Delete(_)) => *state = format!("node {name} is gone"),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            Err(error) => {
                *state = format!(
                    "the API server does not show node {name}: {}",
                    cause(&error)
                );
                output::say(state);
            }
        }
    }
    bail!("the watch of node {name} has ended")
}

fn ranges(node: &Value) -> Vec<String> {
    node["spec"]["podCIDRs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// The innermost message: the outer ones only say that something below failed.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The kubelet creates the file before the container starts. If there is none, the container has no
/// kubelet, and no program reads a report.
fn tell(path: &Path, line: &str) -> std::io::Result<()> {
    match OpenOptions::new().write(true).truncate(true).open(path) {
        Ok(mut file) => file.write_all(line.as_bytes()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
