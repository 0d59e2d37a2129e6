//! Commands for a person on the host, without Kubernetes, with the code that the agent runs.

mod input;
pub mod output;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use weft_node_network::{lifelines, normalise::Filter, resolve::other_names, verdict};
use weft_operands::duration::of_flag_within;

use crate::{
    history::History,
    host::{Changes, DNS_HOST, Host, Machine, Query, WithoutNetworkManager},
    observe::Observation,
    probes::Prober,
    report::report,
    secrets,
    state_dir::StateDir,
    transaction::{Change, Done, Failure, Phase, Transactor},
};

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Folder for the journal, the history and what the agent knows of pods' ports
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "WEFT_AGENT_STATE_DIR",
        default_value = "/var/lib/weft-agent"
    )]
    pub state_dir: PathBuf,

    /// Name that is looked up to see whether name servers answer
    #[arg(long, global = true, value_name = "NAME", env = "PROBE_DNS_HOST", default_value = DNS_HOST)]
    pub probe_dns_host: String,

    /// How long probes may take after a change before it is rolled back, for example 90s or 5m
    #[arg(long, global = true, value_name = "TIME", env = "WEFT_AGENT_PROBE_SECONDS", default_value = "20s", value_parser = probe_time)]
    pub probe_seconds: Duration,

    /// Choice on a host without NetworkManager: ReportOnly, or ConfigureKernel to change a part of
    /// the network through the kernel. A reboot loses these changes
    #[arg(
        long,
        global = true,
        value_name = "CHOICE",
        env = "WEFT_AGENT_WITHOUT_NETWORK_MANAGER",
        default_value = "ReportOnly",
        value_enum,
        hide_possible_values = true
    )]
    pub without_network_manager: WithoutNetworkManager,
}

fn probe_time(text: &str) -> Result<Duration, String> {
    of_flag_within(text, 1, 600)
}

impl Common {
    /// The host that this process runs on, and its changes.
    ///
    /// # Errors
    /// The folder cannot be used, or the kernel refuses.
    pub fn machine(&self) -> Result<(Machine, Changes)> {
        let dir = StateDir::open(&self.state_dir)?;
        Machine::start_with(dir, self.without_network_manager)
            .context("the kernel does not let this process look at the network")
    }

    /// Asks what is reachable, without a cluster.
    pub fn prober(&self) -> Prober {
        Prober {
            cluster: None,
            dns_host: self.probe_dns_host.clone(),
            window: self.probe_seconds,
        }
    }
}

/// Commands that need no cluster.
#[derive(Subcommand, Clone, Debug)]
pub enum Offline {
    /// Print the network of this host, as it is in NodeNetworkState. All of it, whatever its
    /// interfaceFilter and size
    Show {
        /// Only these interfaces
        #[arg(value_name = "INTERFACE")]
        interfaces: Vec<String>,
        /// How to show it
        #[arg(short, long, value_enum, default_value = "yaml")]
        output: Form,
        /// The same as -o json
        #[arg(long, hide = true)]
        json: bool,
    },
    /// Print what a policy or state would change on this host. Nothing is changed
    ///
    /// Exits with 0 if nothing would change, with 1 if something would, with 2 if that could not be
    /// found out.
    Plan {
        /// The policy or state
        #[command(flatten)]
        from: From,
        /// How to show it
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// Change this host to what a policy or state says
    ///
    /// The change is made under a checkpoint of NetworkManager. Afterwards the default gateway and
    /// the name servers, if they answered before, and the probes of the policies must answer. If
    /// they do not, or something is not as it should be, everything is rolled back.
    Apply {
        /// The policy or state
        #[command(flatten)]
        from: From,
        /// How to show the result
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// Take back the last change that was made on this host
    Rollback {
        /// Take back the change of this number instead, and no other
        #[arg(long, value_name = "NUMBER")]
        number: Option<u64>,
        /// How to show the result
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// List the last changes on this host
    History {
        /// How to show it
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
}

/// Forms of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// YAML, as in NodeNetworkState.
    Yaml,
    /// JSON.
    Json,
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines for people.
    Text,
    /// JSON, with the fields that docs/command-line.md describes.
    Json,
}

/// A file of policies or states.
#[derive(Args, Clone, Debug)]
pub struct From {
    /// NodeNetworkConfigurationPolicies, or states in the form of nmstate. YAML or JSON, several
    /// documents are merged. - for standard input
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub filename: Vec<PathBuf>,
}

/// Exit code of `plan` where something would change, as of `weft plan` and `kubectl diff`.
pub const WOULD_CHANGE: u8 = 1;

impl Offline {
    /// With which code to exit where it fails.
    pub fn failure(&self) -> u8 {
        if matches!(self, Self::Plan { .. }) {
            2
        } else {
            1
        }
    }

    /// Does it, and says with which code to exit.
    ///
    /// # Errors
    /// For people. The command rolls back a change that was under way.
    pub async fn run(self, common: &Common) -> Result<u8> {
        // The channel of changes is not needed here.
        let (machine, _changes) = common.machine()?;
        let host: Arc<dyn Host> = Arc::new(machine);
        match self {
            Self::Show {
                interfaces,
                output,
                json,
            } => show(&*host, common, &interfaces, json || output == Form::Json).await,
            Self::Plan { from, output } => plan(&*host, common, &from, output).await,
            Self::Apply { from, output } => apply(host, common, &from, output).await,
            Self::Rollback { number, output } => rollback(host, common, number, output).await,
            Self::History { output } => history(common, output),
        }
    }
}

async fn show(host: &dyn Host, common: &Common, interfaces: &[String], json: bool) -> Result<u8> {
    let places = secrets::places(&StateDir::open(&common.state_dir)?)?;
    let now = host.retrieve(Query::default()).await?;
    let seen = Observation {
        state: now.state,
        backend: now.backend,
        is_starting: now.is_starting,
        indexes: now.indexes,
        aggregated: now.aggregated,
        bridge_filter: now.bridge_filter,
    };
    let mut shown = report(&seen, &Filter::default().budget(usize::MAX), &places).state;
    if !interfaces.is_empty() {
        let all = shown["interfaces"].as_array().cloned().unwrap_or_default();
        let named = |name: &str| {
            all.iter()
                .filter(|interface| interface["name"] == name)
                .cloned()
                .collect::<Vec<_>>()
        };
        let mut wanted = Vec::new();
        for name in interfaces {
            let found = named(name);
            if found.is_empty() {
                let names: Vec<&str> = all
                    .iter()
                    .filter_map(|interface| interface["name"].as_str())
                    .collect();
                bail!(
                    "there is no interface {name}; there are {}",
                    names.join(", ")
                );
            }
            wanted.extend(found);
        }
        shown = serde_json::json!({"interfaces": wanted});
    }
    output::print_state(&shown, json)?;
    Ok(0)
}

async fn plan(host: &dyn Host, common: &Common, from: &From, format: Format) -> Result<u8> {
    let places = secrets::places(&StateDir::open(&common.state_dir)?)?;
    let now = host
        .retrieve(Query {
            secrets: true,
            ..Query::default()
        })
        .await?;
    let wanted = input::read(from, &now)?;
    for note in &wanted.asides {
        output::say_aside(&format!("note: {note}"));
    }
    let desired = &wanted.desired;
    let current = now.value();
    let secrets: BTreeSet<String> = secrets::values(&now.state, &places)
        .into_iter()
        .chain(secrets::of_desired(desired, &places))
        .collect();
    // A refusal may name the value that it refuses.
    let refused = |why: &str| anyhow::anyhow!("{}", secrets::without(why, &secrets));
    if let Some(refusal) = now.backend.refusal(desired, &current) {
        return Err(refused(&refusal));
    }
    desired.validate(&now.state).map_err(|error| {
        let hide = |text: &str| secrets::without(text, &secrets);
        anyhow::anyhow!(verdict::explained(desired, &now.state, error.msg(), hide))
    })?;
    // Compared in clear, as a password that is another one is a change, too.
    let differences = now.backend.effects(desired, &current);
    // Only the cluster knows the addresses of a node.
    let lifelines = lifelines::touched(&differences, &current, &BTreeSet::new());
    match format {
        Format::Json => {
            let mut plan = output::differences(&differences, &secrets);
            plan["lifelines"] = lifelines::json(&lifelines);
            plan["otherNames"] = serde_json::json!(other_names(desired.value(), &current));
            output::print_json(&plan)?;
        }
        Format::Text if differences.is_empty() => output::say("Nothing would change."),
        Format::Text => {
            if let Some(warning) = lifelines::warning(&lifelines) {
                output::say(&format!("Warning: {warning}."));
            }
            output::print_differences(&differences, desired.value(), &current, &secrets);
        }
    }
    if format == Format::Text {
        wanted.notes.iter().for_each(|note| output::say(note));
    }
    Ok(if differences.is_empty() {
        0
    } else {
        WOULD_CHANGE
    })
}

async fn apply(host: Arc<dyn Host>, common: &Common, from: &From, format: Format) -> Result<u8> {
    let now = host
        .retrieve(Query {
            secrets: true,
            ..Query::default()
        })
        .await?;
    let wanted = input::read(from, &now)?;
    for note in &wanted.asides {
        output::say_aside(&format!("note: {note}"));
    }
    let change = Change {
        desired: wanted.desired,
        what: wanted.what,
        probes: wanted.probes,
        ..Change::default()
    };
    transact(host, common, change, format).await
}

async fn rollback(
    host: Arc<dyn Host>,
    common: &Common,
    number: Option<u64>,
    format: Format,
) -> Result<u8> {
    let dir = StateDir::open(&common.state_dir)?;
    let entries = History::new(&dir)?.entries()?;
    let mut done = entries
        .into_iter()
        .filter(|(_, entry)| entry.as_ref().map_or(true, |entry| entry.failure.is_none()));
    let (number, entry) = match number {
        Some(wanted) => done
            .find(|(number, _)| *number == wanted)
            .with_context(|| {
                format!("there is no change {wanted} that was made: see weft-agent history")
            })?,
        None => done.next_back().context(
            "no change was made on this host that the agent knows of: see weft-agent history",
        )?,
    };
    let entry = entry.with_context(|| {
        format!(
            "change {number} cannot be read. To roll back an earlier one, name its number: see weft-agent history"
        )
    })?;
    let back = entry
        .revert()
        .map_err(|error| anyhow::anyhow!("{}", error.msg()))?;
    let desired = host.retrieve(Query::default()).await?.way_back(back)?;
    let what = format!("the rollback of change {number}, {}", entry.what);
    transact(
        host,
        common,
        Change {
            desired,
            what,
            ..Change::default()
        },
        format,
    )
    .await
}

async fn transact(
    host: Arc<dyn Host>,
    common: &Common,
    change: Change,
    format: Format,
) -> Result<u8> {
    let transactor = Transactor {
        host,
        dir: StateDir::open(&common.state_dir)?,
        prober: common.prober(),
    };
    match transactor.recover(transactor.dir.lock()?).await {
        Ok(Some(interrupted)) => output::say_aside(&format!("Note: {interrupted}.")),
        Ok(None) => {}
        Err(failure) => bail!("an interrupted change cannot be cleaned up: {failure}"),
    }
    let what = change.what.clone();
    let done = transactor.run(change).await;
    if format == Format::Json {
        output::print_json(&outcome(&what, &done))?;
        return match done {
            Ok(_) => Ok(0),
            Err(failure) => bail!("{failure}"),
        };
    }
    match done {
        Ok(Done::Nothing) => output::say("Nothing to do: the host is so already."),
        Ok(Done::Changed { probes, .. }) if probes.is_empty() => {
            output::say(&format!(
                "Changed: {what}. Nothing was reachable before, so no probe could check whether the network still works."
            ));
        }
        Ok(Done::Changed { probes, left_out }) => {
            output::say(&format!(
                "Changed: {what}. Still reachable: {}.",
                probes.join(", ")
            ));
            for probe in left_out {
                output::say(&format!("Not reachable before, so not checked: {probe}."));
            }
        }
        Err(failure) => bail!("{}", failure_text(&failure)),
    }
    Ok(0)
}

/// A failure in words. Only a rollback that was compared leaves the host as it was before.
fn failure_text(failure: &Failure) -> String {
    match failure.phase {
        Phase::Rollback => failure.to_string(),
        _ => format!("{failure}\nThe host is as it was before."),
    }
}

/// The result of a transaction, with the fields that docs/command-line.md describes.
fn outcome(what: &str, done: &Result<Done, Failure>) -> serde_json::Value {
    let (verdict, reachable, failure) = match done {
        Ok(Done::Nothing) => ("Nothing", &[][..], None),
        Ok(Done::Changed { probes, .. }) => ("Changed", &probes[..], None),
        Err(failure) => ("Failed", &[][..], Some(failure.to_string())),
    };
    serde_json::json!({
        "verdict": verdict, "what": what, "reachable": reachable, "failure": failure
    })
}

fn history(common: &Common, format: Format) -> Result<u8> {
    let mut entries = History::new(&StateDir::open(&common.state_dir)?)?.summaries()?;
    entries.reverse();
    if format == Format::Json {
        let changes: Vec<_> = entries
            .iter()
            .map(|(number, entry)| match entry {
                Ok(entry) => serde_json::json!({
                    "number": number, "at": entry.at.to_string(), "what": entry.what,
                    "rolledBack": entry.failure.is_some(), "failure": entry.failure,
                    "differences": entry.differences
                }),
                Err(error) => {
                    serde_json::json!({"number": number, "unreadable": error.to_string()})
                }
            })
            .collect();
        output::print_json(&serde_json::json!({ "changes": changes }))?;
        return Ok(0);
    }
    if entries.is_empty() {
        output::say("Nothing was changed on this host yet.");
    }
    for (number, entry) in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                output::say(&format!("{number:>4}  unreadable: {error}"));
                continue;
            }
        };
        let done = if entry.failure.is_some() {
            "rolled back"
        } else {
            "changed    "
        };
        output::say(&format!(
            "{number:>4}  {:.0}  {done}  {}",
            entry.at, entry.what
        ));
        if let Some(failure) = entry.failure {
            output::say(&format!("      {failure}"));
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::probes::WINDOW;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        common: Common,
    }

    #[test]
    fn a_host_that_a_rollback_has_not_restored_is_not_as_it_was_before() {
        let cut_off = Failure::probe("API server", "no answer");
        let restored = "The host is as it was before.";
        assert!(failure_text(&cut_off).ends_with(restored));
        let left = Failure::new(Phase::Rollback, "eth1.mtu differs");
        let text = failure_text(&cut_off.not_rolled_back(&left));
        assert!(
            text.contains("eth1.mtu differs") && !text.contains(restored),
            "{text}"
        );
    }

    #[test]
    fn probes_have_by_default_the_time_that_brings_a_host_back() {
        let line = Line::parse_from(["weft-agent"]);
        assert_eq!(line.common.probe_seconds, WINDOW);
    }
}
