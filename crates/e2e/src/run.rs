//! A run: checks, tests, clean-up, summary.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{
    cleanup,
    kubectl::Cluster,
    listing::Listing,
    operator::Operator,
    options::{Domain, Options},
    preflight::{self, NAMESPACE},
    report::{Outcome, Report, say},
    stop::Stop,
    suites,
};

/// The exit code of a run that has tested nothing.
pub const REFUSED: u8 = 2;
/// The exit code after a signal, as shells count SIGINT.
const INTERRUPTED: u8 = 130;

/// The annotation of the suite's namespace with the domains of the run.
pub const DOMAINS: &str = "weft.network/e2e-domains";
/// The annotation of the suite's namespace that is `true` if the operator was there before the run.
pub const INSTALLED: &str = "weft.network/e2e-installed";

/// The cluster, the command line and the facts that every test uses.
pub struct Suite {
    /// The cluster under test.
    pub cluster: Cluster,
    /// The command line.
    pub options: Options,
    /// Ctrl-C.
    pub stop: Stop,
    /// The Linux nodes that run pods.
    pub nodes: Vec<String>,
    /// The operator under test.
    pub operator: Operator,
}

/// The end of a test that did not fail.
pub enum Done {
    /// It has tested everything.
    Yes,
    /// It cannot run in this cluster. The text has the reason.
    LeftOut(String),
}

/// Runs tests one after the other.
pub struct Runner {
    /// The cluster, the command line and the facts that every test uses.
    pub suite: Suite,
    /// The results so far.
    pub report: Report,
}

impl Runner {
    /// Runs a test, unless one that it needs has not passed or a signal has come.
    pub fn test(&mut self, name: &str, needs: &[&str], test: impl FnOnce(&Suite) -> Result<Done>) {
        let missing = needs
            .iter()
            .find(|need| self.report.outcome(need) != Some(&Outcome::Passed));
        let start = Instant::now();
        let outcome = if self.suite.stop.is_wanted() {
            Outcome::LeftOut("a signal has ended the run".to_owned())
        } else if let Some(missing) = missing {
            Outcome::LeftOut(format!("it needs {missing}, which did not pass"))
        } else {
            match test(&self.suite) {
                Ok(Done::Yes) => Outcome::Passed,
                Ok(Done::LeftOut(reason)) => Outcome::LeftOut(reason),
                Err(error) => Outcome::Failed(format!("{error:#}")),
            }
        };
        self.report.add(name, start.elapsed(), outcome);
    }
}

/// Runs the suite and returns the exit code.
///
/// # Errors
/// Nothing was tested, because the command line, the cluster or the user's rights do not permit it.
pub fn run(options: Options) -> Result<u8> {
    let kubeconfig = options.kubeconfig()?;
    let cluster = Cluster::new(&kubeconfig, options.context.as_deref(), &options.weft()?);
    println!("{}", preflight::name(&cluster, &options)?);
    let stop = Stop::on_signals()?;
    if options.clean {
        return clean(Suite {
            cluster,
            options,
            stop,
            nodes: vec![],
            operator: Operator::of_suite(),
        });
    }
    options.check_installed()?;
    let manifests = match options.installed {
        true => String::new(),
        false => suites::install::manifests(&cluster, &options)?,
    };
    options.component_images()?;
    println!("Kubernetes {}", preflight::reach(&cluster)?);
    preflight::may(&cluster)?;
    let operator = match options.installed {
        true => Operator::installed(&cluster)?,
        false => Operator::of_suite(),
    };
    let signs = preflight::signs_of_use(&cluster, &options)?;
    preflight::refuse_use(&signs, &options)?;
    for sign in &signs.accepted {
        println!("In use, and accepted by --yes: {sign}");
    }
    let nodes = preflight::nodes(&cluster)?;
    let before = Listing::take(&cluster)?;
    let domains: Vec<_> = options.domains.iter().map(|domain| domain.name()).collect();
    println!(
        "{} objects, {} nodes that run pods, domains {}\n",
        before.objects(),
        nodes.len(),
        domains.join(", ")
    );
    if stop.is_wanted() {
        bail!("a signal has ended the run. Nothing was written");
    }

    mark(&cluster, &domains.join(","), options.installed)?;
    let mut runner = Runner {
        suite: Suite {
            cluster,
            options,
            stop,
            nodes,
            operator,
        },
        report: Report::default(),
    };
    suites::all(&mut runner, &manifests);
    finish(&mut runner, &before);
    say(&format!("\n{}", runner.report.summary()));
    if let Some(file) = &runner.suite.options.junit {
        runner.report.write_junit(file)?;
    }
    Ok(
        match (runner.suite.stop.has_come(), runner.report.is_good()) {
            (true, _) => INTERRUPTED,
            (_, good) => u8::from(!good),
        },
    )
}

/// Creates the namespace that marks the run, before anything else is written.
fn mark(cluster: &Cluster, domains: &str, installed: bool) -> Result<()> {
    let had = preflight::has_attachments(cluster)?.to_string();
    let installed = installed.to_string();
    let marks: Vec<_> = preflight::marks(cluster)?
        .iter()
        .map(|(node, resource)| format!("{node} {resource}"))
        .collect();
    // create, not apply: of two runs at once, one is refused.
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "annotations": {
            preflight::HAD_ATTACHMENTS: had, preflight::HAD_MARKS: marks.join("\n"),
            DOMAINS: domains, INSTALLED: installed
        }}
    });
    cluster
        .kubectl_with(&["create", "-f", "-"], &namespace.to_string())
        .map(drop)
}

/// The clean-up as the last test: it removes everything, and compares.
fn finish(runner: &mut Runner, before: &Listing) {
    let start = Instant::now();
    if runner.suite.options.keep {
        let reason = "you gave --keep. Run the suite with --clean to remove it";
        runner.report.add(
            "removed-without-a-trace",
            start.elapsed(),
            Outcome::LeftOut(reason.to_owned()),
        );
        return;
    }
    // A first Ctrl-C ends the tests. The clean-up ends only by a second one.
    runner.suite.stop.need_another();
    if runner.suite.stop.has_come() {
        say(
            "A signal has ended the tests. The suite removes everything. Another signal ends that, too.",
        );
    }
    let cleaned = cleanup::clean(&runner.suite).context(
        "something is left. Run the suite with --clean to remove it (make test-e2e ARGS=--clean …)",
    );
    let outcome = match cleaned.and_then(|()| cleanup::compare(&runner.suite, before)) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    runner
        .report
        .add("removed-without-a-trace", start.elapsed(), outcome);
}

/// Removes what an earlier run has left.
fn clean(suite: Suite) -> Result<u8> {
    println!("Kubernetes {}", preflight::reach(&suite.cluster)?);
    if !preflight::has_run(&suite.cluster)? {
        println!("There is no namespace {NAMESPACE}, so no run has left anything.");
        return Ok(0);
    }
    cleanup::clean(&suite)?;
    println!("Removed what an earlier run has left.");
    Ok(0)
}

impl Suite {
    /// Returns true if the domain is tested.
    pub fn has(&self, domain: Domain) -> bool {
        self.options.has(domain)
    }

    /// Waits for one step of the cluster.
    ///
    /// # Errors
    /// See [`Stop::wait`].
    pub fn wait<T>(
        &self,
        awaited: &str,
        look: impl FnMut() -> Result<Result<T, String>>,
    ) -> Result<T> {
        self.stop.wait(awaited, self.options.limit(), look)
    }
}
