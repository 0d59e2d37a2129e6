//! The command line, and the checks that need no cluster.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

/// Tests Weft in a cluster that you own
///
/// Installs Weft from your images, walks through what users rely on, and removes everything. The
/// clean-up also runs after a failure and after Ctrl-C. The suite refuses a cluster in use unless
/// you give --yes, and a cluster with an operator or a resource of the four APIs in any case.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit code 0: no test has failed. 1: one has. 2: nothing was tested, and the message\nnames the cause and the fix. 130: a signal has ended the run."
)]
pub struct Options {
    /// The kubeconfig of the cluster. The suite never falls back to ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The image of the operator, as your nodes pull it or have it
    #[arg(long, env = "IMAGE", value_name = "IMAGE")]
    pub image: Option<String>,
    /// The image of the agents. The domain node-network needs it
    #[arg(long, env = "AGENT_IMAGE", value_name = "IMAGE")]
    pub agent_image: Option<String>,
    /// Images of components instead of the default ones, for example
    /// multus=registry.example/multus:1. The names are those of spec.images of a
    /// NetworkAddonsConfig
    #[arg(
        long,
        env = "COMPONENT_IMAGES",
        value_name = "NAME=IMAGE",
        value_delimiter = ','
    )]
    pub component_images: Vec<String>,
    /// The domains to test
    #[arg(
        long,
        env = "DOMAINS",
        value_name = "DOMAIN",
        value_delimiter = ',',
        default_value = "addons,node-network"
    )]
    pub domains: Vec<Domain>,
    /// Test in a cluster in which others run pods, or of many nodes
    #[arg(long, short)]
    pub yes: bool,
    /// Leave Weft installed at the end. Another run with --clean removes it
    #[arg(long)]
    pub keep: bool,
    /// Test the operator of the add-ons that is installed already, and leave it. No image is needed.
    /// The domain is addons
    #[arg(long, conflicts_with = "clean")]
    pub installed: bool,
    /// Only remove what an earlier run has left
    #[arg(long, conflicts_with = "keep")]
    pub clean: bool,
    /// A larger cluster counts as in use
    #[arg(long, value_name = "NODES", default_value_t = 5)]
    pub max_nodes: usize,
    /// How long the cluster may take for one step, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=3600))]
    pub timeout: u64,
    /// Write the results into this file, in the form of JUnit
    #[arg(long, env = "JUNIT", value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// The program `weft` [default: the one next to this program]
    #[arg(long, env = "WEFT_BIN", value_name = "FILE")]
    pub weft: Option<PathBuf>,
}

/// A domain of Weft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Domain {
    /// NetworkAddonsConfig
    Addons,
    /// NMState, NodeNetworkState, NodeNetworkConfigurationPolicy
    NodeNetwork,
    /// NetworkConfig
    ClusterNetwork,
    /// PlacementAPI
    Placement,
}

impl Domain {
    /// Its name on the command lines of `weft`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Addons => "addons",
            Self::NodeNetwork => "node-network",
            Self::ClusterNetwork => "cluster-network",
            Self::Placement => "placement",
        }
    }
}

impl Options {
    /// Returns true if the domain is to be tested.
    pub fn has(&self, domain: Domain) -> bool {
        self.domains.contains(&domain)
    }

    /// Checks that the domains are those that the suite tests with an installed operator.
    ///
    /// # Errors
    /// Others are named: agents of nodes leave reports and conditions, which only the removal of
    /// the operator takes along.
    pub fn check_installed(&self) -> Result<()> {
        if self.installed && self.domains != [Domain::Addons] {
            bail!(
                "--installed tests the domain addons alone. Name it by DOMAINS=addons or --domains addons. Without --installed, the suite installs the other domains, and removes everything"
            );
        }
        Ok(())
    }

    /// How long one step may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// The file of the kubeconfig.
    ///
    /// # Errors
    /// None is given, several are, or it cannot be read.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let Some(file) = self
            .kubeconfig
            .clone()
            .filter(|file| !file.as_os_str().is_empty())
        else {
            bail!(
                "KUBECONFIG is not set. The suite installs and removes objects, so it uses no default: name the kubeconfig of your test cluster, for example KUBECONFIG=$HOME/test-cluster.conf"
            );
        };
        if file.to_string_lossy().contains(':') {
            bail!(
                "KUBECONFIG={}: several files are a choice that the suite does not make. Name one file",
                file.display()
            );
        }
        std::fs::File::open(&file).with_context(|| {
            format!(
                "KUBECONFIG={}: the file cannot be read. Name a kubeconfig that you may read",
                file.display()
            )
        })?;
        std::path::absolute(file).context("KUBECONFIG")
    }

    /// The image of the operator.
    ///
    /// # Errors
    /// None is given.
    pub fn image(&self) -> Result<&str> {
        match self.image.as_deref() {
            Some(image) if !image.is_empty() => Ok(image),
            _ => bail!(
                "IMAGE is not set. Name the image of the operator that your nodes can pull, for example IMAGE=registry.example/weft:0.1.0. `make images` writes it as an OCI archive for your registry"
            ),
        }
    }

    /// The image of the agents, if one is given.
    ///
    /// # Errors
    /// None is given, and the domain node-network is to be tested.
    pub fn agent_image(&self) -> Result<Option<&str>> {
        let image = self
            .agent_image
            .as_deref()
            .filter(|image| !image.is_empty());
        if image.is_none() && self.has(Domain::NodeNetwork) {
            bail!(
                "AGENT_IMAGE is not set, and the domain node-network runs an agent on each node. Name its image, for example AGENT_IMAGE=registry.example/weft-agent:0.1.0, or leave the domain out by DOMAINS=addons"
            );
        }
        Ok(image)
    }

    /// The images of components by the names of their fields.
    ///
    /// # Errors
    /// An entry has not the form NAME=IMAGE.
    pub fn component_images(&self) -> Result<serde_json::Map<String, serde_json::Value>> {
        let mut images = serde_json::Map::new();
        for entry in self
            .component_images
            .iter()
            .filter(|entry| !entry.is_empty())
        {
            match entry.split_once('=') {
                Some((name, image)) if !name.is_empty() && !image.is_empty() => {
                    images.insert(name.to_owned(), image.into());
                }
                _ => bail!(
                    "COMPONENT_IMAGES: {entry} is not of the form NAME=IMAGE. Write for example multus=registry.example/multus:1"
                ),
            }
        }
        Ok(images)
    }

    /// The program `weft`.
    ///
    /// # Errors
    /// None is named, and there is none next to this program.
    pub fn weft(&self) -> Result<PathBuf> {
        if let Some(weft) = &self.weft {
            return std::path::absolute(weft).context("--weft");
        }
        let next = std::env::current_exe()?.with_file_name("weft");
        if !next.is_file() {
            bail!(
                "{} is not there. Build it with `make build`, or name it with --weft",
                next.display()
            );
        }
        Ok(next)
    }
}
