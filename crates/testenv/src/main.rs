//! `weft-testenv`: the control plane and the nodes of the tests, for people.

mod supervisor;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use weft_testenv::lab::{self, Lab, NodeOptions, images};
use weft_testenv::{ControlPlane, Pods, Programs, Stage, host_lab, services};

use supervisor::State;

/// A real Kubernetes control plane: API server, etcd, controller manager, scheduler. Its nodes are
/// played by kwok, where no containers run and pods become Ready by themselves, or they are real
/// ones, in namespaces of this machine (--real-nodes).
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start it, and stay until Ctrl-C (or --detach)
    Up(Up),
    /// End one that was started with --detach
    Down(Folder),
    /// Say whether it runs, and where
    Status(Folder),
    /// Print shell commands that make kubectl use it: eval "$(weft-testenv env)"
    Env(Folder),
    /// Say what keeps real nodes from running on this machine. Fails if there is anything
    Probe {
        /// Hosts with a NetworkManager each, instead of nodes that run pods
        #[arg(long)]
        hosts: bool,
        /// Placement, Keystone, MariaDB and Apache, instead of nodes that run pods
        #[arg(long, conflicts_with = "hosts")]
        services: bool,
    },
    /// Run a command on a real node: weft-testenv node node-1 ip addr
    Node {
        /// Its name
        name: String,
        /// The command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
        #[command(flatten)]
        folder: Folder,
    },
}

#[derive(Args)]
struct Up {
    /// How many nodes
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Only etcd and kube-apiserver: no nodes, no controllers
    #[arg(long, conflicts_with_all = ["nodes", "pods_ready_after"])]
    api_only: bool,
    /// Pods become Ready this long after they got a node
    #[arg(long, value_name = "MS")]
    pods_ready_after: Option<u64>,
    /// How many real nodes instead: containerd, kubelet, and no network for pods yet. Needs root
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=26), conflicts_with_all = ["nodes", "api_only", "pods_ready_after"])]
    real_nodes: Option<u8>,
    /// MTU of the network card of all real nodes but the first one, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        requires = "real_nodes",
        default_value_t = 1500
    )]
    mtu: u16,
    /// Run Open vSwitch on the real nodes, with its datapath in user space
    #[arg(long, requires = "real_nodes")]
    open_vswitch: bool,
    /// Run NetworkManager on the real nodes. It configures eth0, and has no profile for eth1
    #[arg(long, requires = "real_nodes")]
    network_manager: bool,
    /// Archive of images that the real nodes have from the start. Those of the tests are there in
    /// any case
    #[arg(long, value_name = "FILE", requires = "real_nodes")]
    image: Vec<PathBuf>,
    /// The real nodes have the image of MariaDB and OpenStack Placement, too
    #[arg(long, requires = "real_nodes")]
    placement: bool,
    /// Write an audit log of every request: DIR/audit.log
    #[arg(long)]
    audit: bool,
    /// Leave it running in the background
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    folder: Folder,
}

impl Up {
    /// The real nodes. Without `--real-nodes` there are none.
    fn nodes_to_be(&self) -> Vec<NodeOptions> {
        let count = self.real_nodes.unwrap_or_default();
        (1..=count)
            .map(|number| {
                let mut node = NodeOptions::new(format!("node-{number}")).data_nic();
                node = if number == 1 {
                    node.control_plane()
                } else {
                    node.mtu(self.mtu)
                };
                if self.open_vswitch {
                    node = node.open_vswitch();
                }
                if self.network_manager {
                    node = node.network_manager();
                }
                node
            })
            .collect()
    }
}

#[derive(Args)]
struct Folder {
    /// Where its data, logs and kubeconfig are while it runs [default: cluster/ in weft's cache
    /// folder]
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.dir {
            return std::path::absolute(dir).context("--dir");
        }
        let cache = weft_testenv::cache().context("HOME is not set: say where with --dir")?;
        Ok(cache.join("cluster"))
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let chain: Vec<_> = error.chain().map(ToString::to_string).collect();
            eprintln!("error: {}", chain.join(": "));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Up(up) if up.detach => {
            let dir = up.folder.path()?;
            // Here, where the progress of a first build is seen.
            Programs::find()?;
            if up.real_nodes.is_some() {
                images::programs()?;
                services_image(up);
            }
            up.nodes_to_be().iter().try_for_each(NodeOptions::fetch)?;
            let started = Instant::now();
            let state = supervisor::detach(&dir)?;
            print_up(&state, started.elapsed());
            println!(
                "It runs in the background. End it with: weft-testenv down{}",
                dir_option(&up.folder)
            );
            Ok(())
        }
        Command::Up(up) => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(serve(up)),
        Command::Down(folder) => supervisor::down(&folder.path()?),
        Command::Status(folder) => supervisor::status(&folder.path()?),
        Command::Env(folder) => {
            print_env(&State::running(&folder.path()?)?);
            Ok(())
        }
        Command::Probe { hosts: true, .. } => report(
            &host_lab::capabilities::missing(),
            "hosts with a NetworkManager cannot run here",
        ),
        Command::Probe { services: true, .. } => report(
            &services::missing(),
            "Placement, Keystone, MariaDB and Apache cannot run here",
        ),
        Command::Probe { .. } => {
            report(&lab::missing(), "real nodes cannot run here")?;
            for missing in lab::missing_options() {
                eprintln!("what needs this is left out: {missing}");
            }
            Ok(())
        }
        Command::Node {
            name,
            command,
            folder,
        } => supervisor::run_on(&folder.path()?, name, command),
    }
}

/// Runs the control plane until a signal comes or one of its programs ends.
async fn serve(up: &Up) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut signals = std::pin::pin!(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    });

    let dir = up.folder.path()?;
    let started = Instant::now();
    let mut cluster = tokio::select! {
        started = start(up, &dir) => started?,
        () = &mut signals => return Ok(()),
    };
    let state = State::of(cluster.control_plane(), cluster.processes())?;
    state.save(&dir)?;
    print_up(&state, started.elapsed());
    println!("Ctrl-C ends it.");
    loop {
        tokio::select! {
            () = &mut signals => return Ok(()),
            () = tokio::time::sleep(Duration::from_secs(1)) => cluster.check_running()?,
        }
    }
}

enum Cluster {
    Kwok(Box<ControlPlane>),
    Real(Box<Lab>),
}

impl Cluster {
    fn control_plane(&self) -> &ControlPlane {
        match self {
            Self::Kwok(control_plane) => control_plane,
            Self::Real(lab) => lab.control_plane(),
        }
    }

    fn processes(&self) -> Vec<(String, u32)> {
        match self {
            Self::Kwok(control_plane) => control_plane.processes(),
            Self::Real(lab) => lab.processes(),
        }
    }

    fn check_running(&mut self) -> Result<()> {
        match self {
            Self::Kwok(control_plane) => control_plane.check_running(),
            Self::Real(lab) => lab.check_running(),
        }
    }
}

async fn start(up: &Up, dir: &Path) -> Result<Cluster> {
    if up.real_nodes.is_some() {
        let mut lab = Lab::builder().dir(dir).audit(up.audit);
        for node in up.nodes_to_be() {
            lab = lab.node(node);
        }
        let dns = images::coredns()?;
        let archives = [
            images::tools()?,
            images::flannel()?,
            images::kube_proxy()?,
            images::cni_plugins()?,
            images::bridge_marker()?,
        ];
        for archive in archives
            .iter()
            .chain(images::multus()?.iter())
            .chain(&dns)
            .chain(services_image(up).iter())
            .chain(&up.image)
        {
            lab = lab.image(archive);
        }
        let lab = lab.start().await?;
        if dns.is_some() {
            lab.start_dns().await?;
        }
        return Ok(Cluster::Real(Box::new(lab)));
    }
    let mut builder = ControlPlane::builder()
        .dir(dir)
        .nodes(up.nodes)
        .audit(up.audit);
    if up.api_only {
        builder = builder.api_only();
    }
    if let Some(delay) = up.pods_ready_after {
        builder = builder.stage(Stage::ready_after(
            Pods::all(),
            Duration::from_millis(delay),
        ));
    }
    Ok(Cluster::Kwok(Box::new(builder.start().await?)))
}

/// The image for the tutorial of Placement, if it is asked for. None where its packages cannot be
/// had, which is no reason to go without a cluster.
fn services_image(up: &Up) -> Option<PathBuf> {
    if !up.placement {
        return None;
    }
    images::services()
        .inspect_err(|error| eprintln!("MariaDB and Placement are left out: {error:#}"))
        .ok()
}

fn report(missing: &[String], problem: &'static str) -> Result<()> {
    missing.iter().for_each(|what| println!("{what}"));
    anyhow::ensure!(missing.is_empty(), problem);
    Ok(())
}

fn print_up(state: &State, took: Duration) {
    println!(
        "The control plane is up in {:.1} s: {}",
        took.as_secs_f64(),
        state.url
    );
    print_env(state);
}

fn print_env(state: &State) {
    println!("export KUBECONFIG={}", quoted(&state.kubeconfig));
    let folders: Vec<_> = state.programs.iter().map(|folder| quoted(folder)).collect();
    println!("export PATH={}:\"$PATH\"", folders.join(":"));
}

fn dir_option(folder: &Folder) -> String {
    folder
        .dir
        .as_deref()
        .map(|dir| format!(" --dir {}", quoted(dir)))
        .unwrap_or_default()
}

/// For a POSIX shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
