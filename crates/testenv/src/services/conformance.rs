//! Placement's own functional suite, against a server that runs.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::placement::PORT;
use super::{Container, Site};

/// The only request that Apache answers before Placement sees it, by the status that the suite asks
/// for, and a text of its own.
const APACHES: &str = "basic-http_bad_content_length_not_int";

const RUNNER: &str = include_str!("conformance.py");

/// Settings that a server needs for a file of the suite, besides `auth_strategy = noauth2`, because
/// the suite's tokens are invented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nothing: the rules that are in force where nobody chose others.
    Default,
    /// `[oslo_policy] enforce_new_defaults = false`: most of the suite was written when an admin's
    /// role was enough for all.
    Legacy,
    /// A policy.yaml in which every rule is open ([`open_rules`](Self::open_rules)).
    Open,
    /// As `Legacy`, and `[cors] allowed_origin = http://valid.example.com`,
    /// `allow_headers = openstack-api-version`.
    Cors,
}

/// A run of some of its files.
#[derive(Debug)]
pub struct Conformance<'a> {
    /// Where the server runs.
    pub site: &'a Site,
    /// Its database, as SQLAlchemy names it: `mysql+pymysql://…`.
    pub database_url: &'a str,
}

/// Numbers of passed and failed tests.
#[derive(Debug, Default, Deserialize)]
pub struct Tally {
    /// Requests of each file.
    pub passed: BTreeMap<String, usize>,
    /// Test, and why.
    pub failed: BTreeMap<String, String>,
}

impl Policy {
    /// The policy.yaml of [`Open`](Self::Open): all rules that this release has, but `admin_api`,
    /// which others refer to.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn open_rules(site: &Site) -> Result<String> {
        let list = "from placement import policies\nfor rule in policies.list_rules():\n  if rule.name != 'admin_api': print(f'\"{rule.name}\": \"@\"')";
        site.run(
            &Container::placement()?,
            &["/opt/placement/bin/python3", "-W", "ignore", "-c", list],
        )
        .await
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Legacy => "legacy",
            Self::Open => "open",
            Self::Cors => "cors",
        }
    }
}

impl Conformance<'_> {
    /// Runs these files. The call empties the database.
    ///
    /// # Errors
    /// The suite could not be run.
    pub async fn files(&self, files: &[&str]) -> Result<Tally> {
        self.run(files).await
    }

    /// Runs all files that need a server with this policy.
    ///
    /// # Errors
    /// The suite could not be run.
    pub async fn policy(&self, policy: Policy) -> Result<Tally> {
        self.run(&["--policy", policy.name()]).await
    }

    async fn run(&self, which: &[&str]) -> Result<Tally> {
        let script = self.site.dir().join("conformance.py");
        fs::write(&script, RUNNER)?;
        let container = Container::placement()?.mount(&script, "/opt/conformance.py");
        let port = PORT.to_string();
        let program = [
            "nice",
            "/opt/placement/bin/python3",
            "-W",
            "ignore",
            "/opt/conformance.py",
            &port,
            self.database_url,
        ];
        let text = self
            .site
            .run(&container, &[&program, which].concat())
            .await?;
        let line = text.lines().last().context("the suite printed nothing")?;
        let mut tally: Tally =
            serde_json::from_str(line).with_context(|| format!("the suite printed {text}"))?;
        tally.count_apaches();
        Ok(tally)
    }
}

impl Tally {
    /// How many requests passed.
    fn total(&self) -> usize {
        self.passed.values().sum()
    }

    fn count_apaches(&mut self) {
        let before = self.failed.len();
        self.failed.retain(|test, why| {
            !(test.contains(APACHES) && why.contains("<title>400 Bad Request</title>"))
        });
        let answered = before - self.failed.len();
        if answered > 0 {
            *self.passed.entry("basic-http.yaml".into()).or_default() += answered;
        }
    }

    /// Did all pass, and as many as there were when this was written?
    ///
    /// # Errors
    /// Not: the error names what failed, or the counts.
    pub fn check(&self, expected: usize) -> Result<()> {
        if !self.failed.is_empty() {
            let all: Vec<_> = self
                .failed
                .iter()
                .map(|(test, why)| format!("{test}: {}", why.trim_end()))
                .collect();
            bail!(
                "{} of Placement's own tests failed:\n{}",
                all.len(),
                all.join("\n")
            );
        }
        if self.total() != expected {
            bail!(
                "{} requests of Placement's own tests passed, and {expected} were expected: {:?}",
                self.total(),
                self.passed
            );
        }
        Ok(())
    }
}
