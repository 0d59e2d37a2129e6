//! `weft status`

use std::{
    collections::BTreeSet,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use weft_plan::{Live, kinds, report::FailureClass};
use weft_runtime::{
    api_server::clock,
    inspect::{
        overview::{self, Presence},
        reader::{Listed, Reader},
    },
};

use crate::{
    addresses,
    domains::{self, Entry},
    dropped,
    leftovers::{self, Leftovers},
    mac_collisions,
    mood::Mood,
    online::{ClusterArgs, Online, Site, block_on, knows_operators},
    output::{self, Style},
    placement, policies,
    reinstall::Reinstall,
    screen::Screen,
    suggest::did_you_mean,
    tree::{self, Trouble},
    wanted::Wanted,
};

/// Changes come in crowds: one look is enough for all of them.
const CROWD: Duration = Duration::from_millis(50);
/// The time from one look to the next, at least.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// The pause after a look that has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// The exit code of a state in which a person has to act.
const UNHEALTHY: u8 = 3;
/// The exit code of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Show the state of the configuration: components, workloads, policies, nodes, and the cause of
/// trouble
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: shown, and nothing is in trouble. With --wait: everything is Available. 1: there is
nothing to show. With --wait: not Available in time. With --installation: Weft is not installed.
2: the command could not find out. 3: shown, and a person has to act. With --installation: a part
is missing. 130: Ctrl-C has ended --wait.

Examples:
  weft status
  weft status --problems                Only trouble, or one line if there is none
  weft status nncp/br1                  One policy, with the nodes where it has failed
  weft status placementapi/placement -n openstack
  weft status --watch
  weft status --wait --timeout 10m      Until everything is Available, for scripts
  weft status --installation            The operator and its definitions alone
  weft status -o json | jq '.verdict'")]
pub struct Args {
    /// Resources to show, as KIND/NAME, or KIND for all of a kind [default: all]
    #[arg(value_name = "RESOURCE", value_parser = Wanted::read, conflicts_with = "domains")]
    resources: Vec<Wanted>,

    /// Continue to show it, whenever something changes, until Ctrl-C
    #[arg(short, long, conflicts_with = "wait")]
    watch: bool,

    /// Wait until everything is Available for the latest change: resources, policies, and the
    /// reports of nodes
    #[arg(long)]
    wait: bool,

    /// How long to wait, for example 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration, requires = "wait")]
    timeout: Duration,

    /// Show only trouble
    #[arg(long)]
    problems: bool,

    /// Check the installation alone, also before there is a resource: the cluster serves the
    /// definitions with all fields that this version knows, you may read the resources, and an
    /// operator leads each domain. Without --domains: each domain that has an operator or a resource
    #[arg(long, conflicts_with_all = ["resources", "watch", "wait", "problems", "output"])]
    installation: bool,

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
    weft_operands::duration::of_flag(text)
}

/// Shows the status.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.watch || args.wait {
        end_on_ctrl_c(if args.wait { INTERRUPTED } else { 0 })?;
    }
    block_on(async {
        let mut online = args.cluster.connect().await?;
        let is_in_namespace = args.resources.iter().any(|wanted| wanted.kind.namespaced);
        let namespace = is_in_namespace.then(|| online.take_namespace()).flatten();
        let status = Status {
            args,
            reader: Reader::tolerant(&online.cluster),
            online,
            namespace,
        };
        if args.watch || args.wait {
            status.follow().await
        } else {
            status.once().await
        }
    })
}

/// Ends the program on Ctrl-C, whatever it does at that moment: a thread of its own waits for the
/// signal. So a request, a pause or a terminal that takes no output cannot hold it up, and neither
/// can a shell that has started the program with the signal ignored.
fn end_on_ctrl_c(code: u8) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let guard = runtime.enter();
    let mut interrupts =
        signal(SignalKind::interrupt()).context("cannot wait for the signal of Ctrl-C")?;
    drop(guard);
    std::thread::Builder::new()
        .name("ctrl-c".to_owned())
        .spawn(move || {
            if runtime.block_on(interrupts.recv()).is_some() {
                std::process::exit(code.into());
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// The command, and the cluster that it looks at.
struct Status<'a> {
    args: &'a Args,
    online: Online,
    reader: Reader,
    /// The namespace of the resources that the user names.
    namespace: Option<String>,
}

/// The state of the cluster at a time.
struct Seen {
    sites: Vec<Site>,
    domains: Vec<tree::Domain>,
    /// The domains that are not installed.
    absent: Vec<&'static str>,
    /// A text for each resource that the user names and that does not exist.
    not_found: Vec<String>,
    /// The parts of the cluster that the user may not read.
    unread: Vec<String>,
    /// The API server's message about the first of them.
    first_refusal: Option<String>,
}

impl Seen {
    /// Returns the states that are not as the user wants them, each with the name of its domain.
    fn troubles(&self) -> Vec<(&'static str, Trouble)> {
        let of = |domain: &tree::Domain| {
            let name = domain.name();
            domain
                .troubles()
                .into_iter()
                .map(move |trouble| (name, trouble))
        };
        self.domains.iter().flat_map(of).collect()
    }

    fn mood(&self) -> Mood {
        let moods = self.troubles().into_iter().map(|(_, trouble)| trouble.mood);
        moods.max().unwrap_or(Mood::Good)
    }

    /// Reports whether there is nothing to show, or not everything that the user names.
    fn is_missing(&self) -> bool {
        !self.not_found.is_empty() || self.domains.iter().all(tree::Domain::is_empty)
    }

    /// Reports whether the verdict cannot be known, because the user may not read a resource.
    fn is_unknown(&self) -> bool {
        self.domains.iter().any(|domain| !domain.is_readable)
    }

    fn verdict(&self) -> &'static str {
        match self.mood() {
            Mood::Bad => Mood::Bad.word(),
            _ if self.is_unknown() => "Unknown",
            _ if self.is_missing() => "Missing",
            mood => mood.word(),
        }
    }

    fn code(&self) -> u8 {
        match self.verdict() {
            _ if self.is_missing() && !self.is_unknown() => 1,
            "Unhealthy" => UNHEALTHY,
            "Unknown" => 2,
            _ => 0,
        }
    }

    /// Prints the state of the installation. Returns 0 if each domain has all parts, whether or not
    /// there is a resource. Leaves out the domains for which Weft is not installed, unless all must
    /// be there.
    fn show_installation(&self, all_must_be_there: bool) -> Result<ExitCode> {
        let style = Style::stdout();
        let is_checked = |domain: &&tree::Domain| all_must_be_there || domain.is_in_use();
        let checked: Vec<_> = self.domains.iter().filter(is_checked).collect();
        if checked.is_empty() {
            output::print(&self.not_installed())?;
            return Ok(ExitCode::from(1));
        }
        let (mut text, mut is_whole) = (String::new(), true);
        for domain in checked {
            let gaps = domain.gaps();
            is_whole &= gaps.is_empty();
            if gaps.is_empty() {
                text += &format!("{}: {}\n", domain.name(), domain.operator(style));
            }
            for gap in gaps {
                text += &format!("{}: {}: {gap}\n", domain.name(), style.bad("problem"));
            }
            if let Some(hint) = domain.hint(style) {
                text += &format!("{}: {hint}\n", domain.name());
            }
        }
        for line in self.how_installed() {
            text += &format!("{line}\n");
        }
        output::print(&text)?;
        Ok(ExitCode::from(if is_whole { 0 } else { UNHEALTHY }))
    }

    /// Returns a line for each operator with the command that installs it, by the tool that has
    /// installed it. Other messages name this command: only here are tool, domains and options known.
    fn how_installed(&self) -> BTreeSet<String> {
        let operators = self.sites.iter().filter_map(|site| site.operator.as_ref());
        operators
            .map(|operator| {
                let command = Reinstall::of(operator).command();
                let workload = operator.workload.human();
                format!("to apply the manifests of {workload} again: {command}")
            })
            .collect()
    }

    /// Returns the text about a cluster without Weft.
    fn not_installed(&self) -> String {
        let kept = self.domains.iter().filter(|domain| domain.installed);
        let kept: Vec<&str> = kept.map(tree::Domain::name).collect();
        let mut text = "Weft is not installed\n".to_owned();
        if !kept.is_empty() {
            text += &format!(
                "definitions are kept for {}; remove them: weft uninstall --crds\n",
                kept.join(", ")
            );
        }
        text
    }

    /// Returns the state in a line, for the progress of a wait.
    fn headline(&self) -> String {
        let troubles = self.troubles();
        let lines = troubles
            .iter()
            .filter(|(_, trouble)| trouble.mood >= Mood::Pending)
            .map(|(_, trouble)| trouble.line().replace('\n', " "));
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Returns when something will differ by time alone: a rollout counts as stuck, a report as
    /// missing, a leader as silent.
    fn next(&self) -> Option<Timestamp> {
        let of = |domain: &tree::Domain| {
            let leader = domain
                .presence
                .leader
                .as_ref()
                .filter(|_| domain.alive)
                .and_then(|leader| leader.renewed?.checked_add(leader.lasts).ok());
            let rollouts = domain
                .resources
                .iter()
                .filter_map(overview::Overview::deadline);
            let nodes = domain
                .policies
                .nodes
                .iter()
                .filter_map(|node| node.deadline);
            rollouts.chain(nodes).chain(leader).min()
        };
        self.domains.iter().filter_map(of).min()
    }

    /// Returns the namespaces whose objects a look reads, and the domains that are not installed.
    fn places(&self) -> (Vec<(String, Option<String>)>, Vec<&'static str>) {
        let place = |site: &Site| {
            let operands = site.domain.namespace().map(str::to_owned);
            (site.namespace.clone(), operands)
        };
        (self.sites.iter().map(place).collect(), self.absent.clone())
    }

    /// Returns the lines, for people.
    fn lines(&self, style: Style, only_trouble: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let mut operators = BTreeSet::new();
        for domain in &self.domains {
            lines.extend(domain.lines(style, only_trouble));
            // One operator may serve several domains, and its trouble is one.
            if !only_trouble || domain.is_led_by_none() && operators.insert(domain.deployment()) {
                lines.extend(domain.operator_lines(style));
            }
        }
        lines.extend(self.not_found.iter().cloned());
        if only_trouble && lines.is_empty() {
            if self.is_missing() {
                lines.extend(self.domains.iter().map(tree::Domain::nothing));
            } else if self.is_unknown() {
                lines.push("no problems in what you may read".to_owned());
            } else {
                lines.push(style.good("no problems: everything is as the configuration asks"));
            }
        }
        let are_left_out = self.domains.iter().all(tree::Domain::is_there);
        if !self.absent.is_empty() && are_left_out && !only_trouble {
            let absent = format!("not installed: {}", self.absent.join(", "));
            lines.push(style.dim(&absent));
        }
        if !self.unread.is_empty() {
            lines.push(style.dim(&format!(
                "not shown, since you may not read it: {}",
                self.unread.join(", ")
            )));
        }
        lines
    }

    fn json(&self) -> serde_json::Value {
        let troubles = self.troubles();
        json!({
            "verdict": self.verdict(),
            "problems": troubles.iter().map(|(domain, trouble)| trouble.json(domain)).collect::<Vec<_>>(),
            "notInstalled": self.absent,
            "notFound": self.not_found,
            "notPermitted": self.unread,
            "domains": self.domains.iter().map(tree::Domain::json).collect::<Vec<_>>(),
        })
    }
}

impl Status<'_> {
    async fn once(&self) -> Result<ExitCode> {
        let seen = self.look().await?;
        if self.args.installation {
            let is_named = !self.args.domains.is_empty();
            return seen.show_installation(is_named || !knows_operators(&self.reader));
        }
        output::print(&self.text(&seen, Style::stdout(), false)?)?;
        Ok(ExitCode::from(seen.code()))
    }

    async fn follow(&self) -> Result<ExitCode> {
        let args = self.args;
        let mut screen = Screen::stdout();
        let end = args.wait.then(|| Instant::now() + args.timeout);
        let mut seen = self.look().await?;
        let mut changes = self.changes(&seen);
        let mut said = String::new();
        loop {
            let looked = Instant::now();
            let is_over = args.wait && (seen.is_missing() || seen.is_unknown());
            let done = args.wait && !is_over && seen.mood() <= Mood::Notice;
            let late = end.is_some_and(|end| Instant::now() >= end);
            let over = done || late || is_over;
            let shown = self.text(&seen, Style::stdout(), true)?;
            if args.output == Format::Text && screen.is_terminal() {
                if over {
                    screen.end(&shown)?
                } else {
                    screen.show(&shown)?
                }
            } else if args.watch && shown != said || over {
                output::print(&shown)?;
                said = shown;
            } else if args.wait && seen.headline() != said {
                said = seen.headline();
                output::say(&format!("waiting: {said}"));
            }
            if over {
                if late && !done {
                    output::say(&format!(
                        "{}: not Available within {:?}",
                        Style::stderr().bad("error"),
                        args.timeout
                    ));
                }
                let unknown = seen.is_unknown() && !late;
                return Ok(ExitCode::from(if unknown { 2 } else { u8::from(!done) }));
            }
            let due = seen.next().map(|due| {
                let pause = due.duration_since(clock::now());
                Instant::now() + Duration::try_from(pause).unwrap_or_default() + CROWD
            });
            tokio::select! {
                _ = changes.next() => {}
                () = until([end, due].into_iter().flatten().min()) => {}
            }
            tokio::time::sleep(CROWD).await;
            until(Some(looked + BETWEEN_LOOKS)).await;
            while changes.next().now_or_never().flatten().is_some() {}
            let before = seen.places();
            seen = self.look_again(end).await?;
            if before != seen.places() {
                changes = self.changes(&seen);
            }
        }
    }

    /// Looks until the cluster answers: an API server that is away comes back.
    async fn look_again(&self, end: Option<Instant>) -> Result<Seen> {
        let mut said = String::new();
        loop {
            match self.look().await {
                Err(error) if end.is_none_or(|end| Instant::now() < end) => {
                    let text = format!("{error:#}");
                    if text != said {
                        output::say(&format!("{text}; weft tries again"));
                        said = text;
                    }
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                looked => return looked,
            }
        }
    }

    /// Notifies of every change that a look would show. Of a domain that is not installed, that is
    /// its resource alone.
    fn changes(&self, seen: &Seen) -> impl futures::Stream<Item = ()> + Unpin + use<> {
        let cluster = &self.online.cluster;
        stream::select_all(seen.sites.iter().map(|site| {
            let entry = site.entry;
            if seen.absent.contains(&entry.name) {
                return overview::notifier_of_kind(cluster, entry.resource).boxed();
            }
            let further: &[_] = match entry.has_policies {
                true => &[
                    kinds::NODE_NETWORK_CONFIGURATION_POLICY,
                    kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
                    kinds::NODE_NETWORK_STATE,
                ],
                false => &[],
            };
            overview::notifier(cluster, &*site.domain, &site.namespace, further).boxed()
        }))
    }

    /// Returns the domains that the user asks for, in the order of all.
    fn entries(&self) -> Vec<&'static Entry> {
        let named = &self.args.resources;
        let is_named = |entry: &&Entry| named.iter().any(|wanted| wanted.entry.name == entry.name);
        match named.is_empty() {
            true => domains::chosen(&self.args.domains),
            false => domains::ALL.iter().filter(is_named).collect(),
        }
    }

    async fn look(&self) -> Result<Seen> {
        self.reader.begin();
        let sites = self
            .online
            .sites_as_seen(&self.reader, self.entries())
            .await?;
        let (mut domains, mut not_found) = (Vec::new(), Vec::new());
        for site in &sites {
            let mut domain = self.look_at(site).await?;
            if !self.args.resources.is_empty() {
                not_found.extend(self.narrow(&mut domain));
            }
            domains.push(domain);
        }
        // A user who names no domain wants to see the installed ones.
        let mut absent = Vec::new();
        let missing = domains.iter().filter(|domain| !domain.is_there());
        absent.extend(missing.map(tree::Domain::name));
        let is_hidden = self.args.domains.is_empty() && self.args.resources.is_empty();
        if is_hidden && domains.iter().any(tree::Domain::is_there) {
            domains.retain(tree::Domain::is_there);
        }
        let unread = self.reader.unread();
        let part = |(kind, namespace): &(weft_plan::Kind, Option<String>)| match namespace {
            Some(namespace) if !namespace.is_empty() => format!("{} in {namespace}", kind.plural),
            _ => kind.plural.to_owned(),
        };
        let seen = Seen {
            sites,
            domains,
            absent,
            not_found,
            unread: unread.keys().map(part).collect(),
            first_refusal: unread.values().next().cloned(),
        };
        let is_hidden = |domain: &tree::Domain| !(domain.is_readable && domain.installed);
        if let Some(refusal) = &seen.first_refusal
            && seen.domains.iter().all(is_hidden)
        {
            bail!("{refusal}. A user with more rights has to grant this, or run the command");
        }
        Ok(seen)
    }

    async fn look_at(&self, site: &Site) -> Result<tree::Domain> {
        let (online, reader) = (&self.online, &self.reader);
        let now = clock::now();
        let explain = |error| online.explain(error);
        let kind = site.entry.resource;
        let namespace = self.namespace.as_deref().filter(|_| kind.namespaced);
        let listed = reader.list_if_served(kind, namespace).await;
        let listed = listed.map_err(explain)?;
        if listed == Listed::NotServed {
            return Ok(tree::Domain::of(site, Presence::default(), false));
        }
        let presence = overview::presence(reader, &*site.domain, &site.namespace)
            .await
            .map_err(explain)?;
        let leader = presence.leader.as_ref();
        let alive = leader.is_some_and(|leader| leader.is_alive(now));
        let mut domain = tree::Domain::of(site, presence, alive);
        domain.installed = true;
        if self.args.installation {
            let lost = dropped::notice(reader, site).await;
            domain.dropped = lost.map_err(explain)?;
        }
        domain.leftovers = self.leftovers(site).await?;
        match listed {
            Listed::NotServed => {}
            Listed::NotPermitted => domain.is_readable = false,
            Listed::Objects(resources) => {
                for resource in resources {
                    if !self.is_wanted(kind, Live::of(&resource).name()) {
                        domain.left_out.push(Live::of(&resource).name().to_owned());
                        continue;
                    }
                    if site.entry.needs_secrets && site.operator.is_some() {
                        domain
                            .unserved
                            .extend(placement::unserved_by(site, &resource)?);
                    }
                    if kind == kinds::NETWORK_CONFIG {
                        let rooms = addresses::read(reader, &resource).await;
                        domain.rooms.extend(rooms.map_err(explain)?);
                    }
                    domain.resources.push(
                        overview::look(reader, &*site.domain, resource, &site.namespace, now)
                            .await
                            .map_err(explain)?,
                    );
                }
            }
        }
        let has_mac_pool = domain.resources.iter().any(|overview| {
            kind == kinds::NETWORK_ADDONS_CONFIG
                && !overview.resource["spec"]["kubeMacPool"].is_null()
        });
        if has_mac_pool {
            domain.mac_collisions = mac_collisions::read(reader).await.map_err(explain)?;
        }
        if site.entry.has_policies {
            let agents = (site.domain.namespace(), site.domain.pod_selector());
            domain.policies = policies::read(reader, agents.0, agents.1, now)
                .await
                .map_err(explain)?;
            let policies = kinds::NODE_NETWORK_CONFIGURATION_POLICY;
            domain.is_readable &= !reader.is_unread(policies, None);
        }
        Ok(domain)
    }

    /// Reads the objects that the replaced operator has left. A user who may not read all of them
    /// learns nothing of them: deleting them is not up to this user either. With --problems,
    /// --watch, --wait or named resources, the command does not read them.
    async fn leftovers(&self, site: &Site) -> Result<Option<Leftovers>> {
        let args = self.args;
        if args.problems || args.watch || args.wait || !args.resources.is_empty() {
            return Ok(None);
        }
        match leftovers::read(&self.online.cluster, site).await {
            Err(error) if error.class() == FailureClass::Forbidden => Ok(None),
            left => left.map_err(|error| self.online.explain(error)),
        }
    }

    fn is_wanted(&self, kind: weft_plan::Kind, name: &str) -> bool {
        let named = &self.args.resources;
        named.is_empty() || named.iter().any(|wanted| wanted.is(kind, name))
    }

    /// Leaves the resources that the user names. Returns a text for each that does not exist.
    fn narrow(&self, domain: &mut tree::Domain) -> Vec<String> {
        let resource = domain.kind();
        let policy = kinds::NODE_NETWORK_CONFIGURATION_POLICY;
        let node = kinds::NODE_NETWORK_STATE;
        let names = |domain: &tree::Domain, kind: weft_plan::Kind| -> Vec<String> {
            match kind {
                kind if kind == policy => {
                    let all = domain.policies.policies.iter();
                    all.map(|policy| policy.name.clone()).collect()
                }
                kind if kind == node => {
                    let all = domain.policies.nodes.iter();
                    all.map(|node| node.name.clone()).collect()
                }
                _ => {
                    let shown = domain.resources.iter();
                    let shown = shown.map(|one| Live::of(&one.resource).name().to_owned());
                    shown.chain(domain.left_out.clone()).collect()
                }
            }
        };
        let mut not_found = Vec::new();
        for wanted in &self.args.resources {
            if wanted.entry.name != domain.name() || !domain.is_readable {
                continue;
            }
            let there = names(&*domain, wanted.kind);
            if there.iter().any(|name| wanted.is(wanted.kind, name)) {
                continue;
            }
            if !domain.installed {
                not_found.push(domain.nothing());
                continue;
            }
            let name = wanted.name.as_deref().unwrap_or_default();
            let place = match (&self.namespace, wanted.kind == resource) {
                (Some(namespace), true) => format!(" in the namespace {namespace}"),
                _ => String::new(),
            };
            let close = did_you_mean(name, there.iter().map(String::as_str));
            let close = close.filter(|_| !name.is_empty());
            let close = close.map(|close| format!("; did you mean {close:?}?"));
            let title = format!("{} {name}", wanted.kind.kind);
            not_found.push(format!(
                "there is no {}{place}{}",
                title.trim_end(),
                close.unwrap_or_default()
            ));
        }
        domain.is_narrowed = true;
        let policies = &mut domain.policies;
        policies
            .policies
            .retain(|one| self.is_wanted(policy, &one.name));
        policies.nodes.retain(|one| self.is_wanted(node, &one.name));
        not_found
    }

    fn text(&self, seen: &Seen, style: Style, one_line: bool) -> Result<String> {
        Ok(match self.args.output {
            Format::Text => seen
                .lines(style, self.args.problems)
                .into_iter()
                .map(|line| line + "\n")
                .collect(),
            Format::Json if one_line => format!("{}\n", seen.json()),
            Format::Json => format!("{}\n", serde_json::to_string_pretty(&seen.json())?),
        })
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end.into()).await,
        None => std::future::pending().await,
    }
}
