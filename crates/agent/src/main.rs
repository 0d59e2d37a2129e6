//! `weft-agent`: the node agent. Its commands are in [`weft_agent`]. Here is how they are written.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is printed goes through `output`, which escapes control characters of others"
)]

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracing_subscriber::{
    Layer as _, Registry,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};
use weft_agent::{
    commands::{Common, Offline, output},
    guardian, health, heap,
    host::causes,
    process::{self, Options},
    settings::{Extent, Settings},
    state_dir::StateDir,
    work::{self, Once},
};
use weft_node_network::normalise::Filter;
use weft_operands::duration::of_flag;
use weft_plan::escape;
use weft_runtime::api_server::names;

/// The network of a host: seen, changed in one transaction, rolled back when in doubt
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    /// Without a command: run
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve this node until a signal stops it: report its network as NodeNetworkState and change
    /// it as policies say. The DaemonSet runs this command
    Run(Run),
    /// Make this host as the cluster says, report, and end. For those who start the agent
    /// themselves instead of a DaemonSet
    ///
    /// Exits with 0 if the host is as all that was granted says, with 2 if something has failed for
    /// good, with 3 if something waits: for the operator, or for its next try.
    Once {
        #[command(flatten)]
        run: Run,
        /// How long the command tries again what fails, and waits for another agent or for the API
        /// server, for example 30s or 5m
        #[arg(long, value_name = "TIME", default_value = "5m", value_parser = of_flag)]
        timeout: Duration,
    },
    /// Say whether the agent of this pod acts on its host and has seen it. Exit code 0 if so, 1 if
    /// not. The DaemonSet's probes run this command
    Health {
        /// Only whether the process works, which it does also while it waits for another agent to
        /// end
        #[arg(long)]
        live: bool,
    },
    /// Roll back the change of an agent that was killed, on a host without NetworkManager. Runs
    /// next to the agent until a signal stops it
    ///
    /// The DaemonSet runs this command in the container guardian if NMState has
    /// withoutNetworkManager: ConfigureKernel. It changes the host only if a process of weft-agent
    /// ended in the middle of a change.
    Guard {
        #[command(flatten)]
        logs: Logs,
    },
    /// Print a script that completes commands and flags in your shell
    #[command(after_help = "\
Examples:
  source <(weft-agent completion bash)
  weft-agent completion zsh > \"${fpath[1]}/_weft-agent\"
  weft-agent completion fish > ~/.config/fish/completions/weft-agent.fish")]
    Completion {
        /// The shell
        shell: SupportedShell,
    },
    /// Print the manual page
    Man {
        /// Write a page for each command into this folder instead
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    #[command(flatten)]
    Offline(Offline),
}

#[derive(Clone, Copy, ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(clap::Args)]
struct Run {
    /// The name of the Node that this host is
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// A kubeconfig file. By default $KUBECONFIG, ~/.kube/config or, in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the Secrets that policies name
    #[arg(
        long,
        env = "POD_NAMESPACE",
        default_value = "nmstate",
        value_name = "NAME"
    )]
    namespace: String,
    /// The lock that keeps two agents from acting on one host, of kubernetes-nmstate or of Weft.
    /// The second one waits
    #[arg(
        long,
        env = "NMSTATE_INSTANCE_NODE_LOCK_FILE",
        default_value = "/var/k8s_nmstate/handler_lock",
        value_name = "FILE"
    )]
    lock_file: PathBuf,
    /// Names of interfaces to report, with * and ?, separated by blanks [default: all]
    #[arg(
        long,
        env = "INTERFACES_INCLUDE",
        default_value = "",
        hide_default_value = true,
        value_name = "PATTERNS"
    )]
    interfaces_include: String,
    /// Names of interfaces to leave out of the report, also of those included [default: none]
    #[arg(
        long,
        env = "INTERFACES_EXCLUDE",
        default_value = "",
        hide_default_value = true,
        value_name = "PATTERNS"
    )]
    interfaces_exclude: String,
    /// How many bytes of JSON a report may have. The report omits parts that do not fit, and the
    /// condition Complete says so
    #[arg(long, env = "WEFT_AGENT_REPORT_BYTES", default_value_t = Extent::default().budget, value_name = "BYTES")]
    report_bytes: usize,
    #[command(flatten)]
    logs: Logs,
}

#[derive(clap::Args)]
struct Logs {
    /// Log level
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: Level,
    /// Log text lines instead of JSON
    #[arg(long)]
    log_text: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// One thread waits for events, another one serves the host.
fn main() -> ExitCode {
    names::look_up_by_files_and_dns();
    heap::share_one();
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let code = runtime.block_on(dispatch(
                Cli::try_parse().unwrap_or_else(|error| refuse(&error)),
            ));
            // A thread that looks up a name does not keep the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            output::say_aside(&format!("Error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Ends the program with help, or with what is wrong with the command line. clap's message repeats
/// the input of a person, or of a script.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    output::say_aside(error.to_string().trim_end());
    std::process::exit(error.exit_code())
}

async fn dispatch(cli: Cli) -> ExitCode {
    let failure = if let Some(Command::Offline(command)) = &cli.command {
        command.failure()
    } else {
        1
    };
    let done = match cli.command {
        // The variables of a Run's flags are read as the flags are.
        None => {
            match Cli::try_parse_from(std::env::args_os().chain([OsString::from("run")]))
                .unwrap_or_else(|error| refuse(&error))
                .command
            {
                Some(Command::Run(args)) => run(args, &cli.common).await,
                _ => Ok(ExitCode::FAILURE),
            }
        }
        Some(Command::Run(args)) => run(args, &cli.common).await,
        Some(Command::Once { run, timeout }) => once(run, timeout, &cli.common).await,
        Some(Command::Guard { logs }) => guard(&logs, &cli.common).await,
        Some(Command::Health { live }) => Ok(health(live, &cli.common).await),
        Some(Command::Completion { shell }) => completion(shell),
        Some(Command::Man { output }) => man(output.as_deref()),
        Some(Command::Offline(command)) => {
            // These commands have no log.
            Registry::default().with(causes::layer::<Registry>()).init();
            command.run(&cli.common).await.map(ExitCode::from)
        }
    };
    done.unwrap_or_else(|error| {
        output::say_aside(&format!("Error: {error:#}"));
        ExitCode::from(failure)
    })
}

async fn run(args: Run, common: &Common) -> anyhow::Result<ExitCode> {
    log(&args.logs);
    let settings = settings(&args, common)?;
    process::run(
        Options {
            kubeconfig: args.kubeconfig,
            lock_file: args.lock_file,
        },
        settings,
    )
    .await?;
    Ok(ExitCode::SUCCESS)
}

async fn once(args: Run, patience: Duration, common: &Common) -> anyhow::Result<ExitCode> {
    log(&args.logs);
    let settings = settings(&args, common)?;
    Ok(
        match work::once(args.kubeconfig, args.lock_file, settings, patience).await? {
            Once::Done => ExitCode::SUCCESS,
            Once::Failed => ExitCode::from(2),
            Once::Waiting => ExitCode::from(3),
        },
    )
}

fn settings(args: &Run, common: &Common) -> anyhow::Result<Settings> {
    let node = args.node_name.clone().filter(|name| !name.is_empty()).ok_or_else(|| {
        anyhow::anyhow!("which Node this host is, is not known: set NODE_NAME to spec.nodeName of the pod, or give --node-name")
    })?;
    let patterns = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let filter = Filter::new(
        &patterns(&args.interfaces_include),
        &patterns(&args.interfaces_exclude),
    )
    .context("which interfaces to report (INTERFACES_INCLUDE, INTERFACES_EXCLUDE)")?;
    let extent = Extent {
        filter,
        budget: args.report_bytes,
    };
    Ok(Settings {
        node,
        namespace: args.namespace.clone(),
        state_dir: common.state_dir.clone(),
        without_network_manager: common.without_network_manager,
        extent,
        prober: common.prober(),
    })
}

async fn guard(logs: &Logs, common: &Common) -> anyhow::Result<ExitCode> {
    log(logs);
    guardian::run(StateDir::open(&common.state_dir)?).await?;
    Ok(ExitCode::SUCCESS)
}

async fn health(live: bool, common: &Common) -> ExitCode {
    let socket = health::socket(&common.state_dir);
    let (good, message) = match health::ask(&socket).await {
        Ok(answer) => (
            if live { answer.live } else { answer.ready },
            answer.message,
        ),
        Err(error) => (
            false,
            format!("no agent answers at {}: {error}", socket.display()),
        ),
    };
    output::say(&message);
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn completion(shell: SupportedShell) -> anyhow::Result<ExitCode> {
    let shell = match shell {
        SupportedShell::Bash => Shell::Bash,
        SupportedShell::Zsh => Shell::Zsh,
        SupportedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weft-agent", &mut script);
    output::print_script(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

fn man(folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            clap_mangen::generate_to(Cli::command(), folder)
                .with_context(|| format!("cannot write into {}", folder.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            output::print_script(&String::from_utf8_lossy(&page));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn log(logs: &Logs) {
    let level = match logs.log_level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    };
    // The agent itself reports each failure once, so the libraries' own messages are off. At DEBUG
    // nmstate would print whole connections, with secrets.
    let quiet = if level < LevelFilter::DEBUG {
        LevelFilter::OFF
    } else {
        level
    };
    let nmstate = level.min(if level < LevelFilter::DEBUG {
        LevelFilter::WARN
    } else {
        LevelFilter::INFO
    });
    let libraries = [
        ("kube_client", quiet),
        ("kube_runtime", quiet),
        ("zbus", nmstate),
        ("nmstate", nmstate),
        ("nispor", quiet),
    ];
    let filter = Targets::new().with_default(level).with_targets(libraries);
    // Without colour: the writer escapes control characters, and could not distinguish those of
    // colours from those in other users' text.
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| escape::Writer(std::io::stderr()));
    let registry = Registry::default().with(causes::layer::<Registry>());
    if logs.log_text {
        registry.with(lines.with_filter(filter)).init();
    } else {
        let lines = lines.json().flatten_event(true);
        registry.with(lines.with_filter(filter)).init();
    }
}
