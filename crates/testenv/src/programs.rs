//! Where the control plane's programs are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The build script, which prints the folder of the programs and builds them first if they are not
/// there yet.
const BUILD_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/control-plane");

/// The script that does the same for etcd's tools.
const ETCD_TOOLS_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/etcd-tools");

/// Folders that hold `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kubectl`,
/// `etcd`, `kwok` and kwok's `stages.yaml`.
#[derive(Clone, Debug)]
pub struct Programs {
    folders: Vec<PathBuf>,
}

impl Programs {
    /// Finds the programs, in this order:
    ///
    /// 1. the folder `WEFT_CONTROL_PLANE`, which must then hold all of them;
    /// 2. those in the folder `KUBEBUILDER_ASSETS` (it usually holds etcd, kube-apiserver and
    ///    kubectl);
    /// 3. what `scripts/control-plane` built into its cache folder. The first time, this builds for
    ///    some minutes and shows its progress on stderr.
    ///
    /// # Errors
    /// A variable names a folder without the programs, or the build failed (its output is on
    /// stderr).
    pub fn find() -> Result<Self> {
        if let Some(folder) = folder_from_env("WEFT_CONTROL_PLANE") {
            return Ok(Self {
                folders: vec![folder],
            });
        }
        let mut folders: Vec<_> = folder_from_env("KUBEBUILDER_ASSETS").into_iter().collect();
        folders.push(build()?);
        Ok(Self { folders })
    }

    /// Path of one program or file.
    ///
    /// # Errors
    /// It is in none of the folders.
    pub fn get(&self, name: &str) -> Result<PathBuf> {
        let found = self
            .folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_file());
        let Some(path) = found else {
            let folders: Vec<_> = self
                .folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect();
            bail!(
                "`{name}` is not in {}: add it there, or unset WEFT_CONTROL_PLANE to have it built",
                folders.join(" nor in ")
            );
        };
        Ok(path)
    }

    /// Path of `etcdctl` or `etcdutl`: in one of the folders, else where `scripts/etcd-tools`
    /// builds them.
    ///
    /// # Errors
    /// The build failed (its output is on stderr).
    pub(crate) fn etcd_tool(&self, name: &str) -> Result<PathBuf> {
        self.get(name)
            .or_else(|_| Ok(folder_from_script(ETCD_TOOLS_SCRIPT, &[])?.join(name)))
    }

    /// The folders searched, best first. Of use for `PATH`.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

/// Where the scripts keep what they have built and fetched.
pub(crate) fn cache() -> Option<PathBuf> {
    let user = || {
        folder_from_env("XDG_CACHE_HOME").or_else(|| Some(folder_from_env("HOME")?.join(".cache")))
    };
    folder_from_env("WEFT_CACHE").or_else(|| Some(user()?.join("weft")))
}

pub(crate) fn folder_from_env(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn build() -> Result<PathBuf> {
    if !Path::new(BUILD_SCRIPT).is_file() {
        bail!(
            "{BUILD_SCRIPT} is gone (was the source tree moved?): set WEFT_CONTROL_PLANE to a folder with the programs"
        );
    }
    folder_from_script(BUILD_SCRIPT, &[])
}

/// Runs a script that builds what is missing and prints the folder. Its progress is seen on stderr.
pub(crate) fn folder_from_script(script: &str, args: &[&str]) -> Result<PathBuf> {
    let output = Command::new(script)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {script}"))?;
    if !output.status.success() {
        bail!(
            "{script} failed ({}), its output above says why",
            output.status
        );
    }
    let folder = String::from_utf8(output.stdout)?
        .lines()
        .last()
        .map(PathBuf::from);
    folder.with_context(|| format!("{script} printed no folder"))
}
