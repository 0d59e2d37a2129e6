//! Operator Lifecycle Manager (OLM): the checks of Operator Framework for bundles and catalogs,
//! built by `scripts/olm`, and OLM's own operators, built by `scripts/olm-programs`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    control_plane::ControlPlane,
    process::{Process, bound_command},
    programs::{folder_from_script, script},
};

/// Returns the program. Its commands are at the top of `testenv/olm/main.go`.
///
/// # Errors
/// It cannot be built.
pub fn program() -> Result<PathBuf> {
    Ok(folder_from_script("olm", &[])?.join("olm"))
}

/// Returns the reason why OLM's own operators cannot run here: a module that
/// they are built of is not to be had. None if they can.
///
/// # Errors
/// The script cannot be run.
pub fn lacking() -> Result<Option<String>> {
    let probe = Command::new(script("olm-programs"))
        .arg("--probe")
        .stdin(Stdio::null())
        .output()
        .context("cannot run scripts/olm-programs")?;
    let printed = String::from_utf8_lossy(&probe.stderr);
    let reason = printed.lines().last().unwrap_or("no reason is given");
    Ok((!probe.status.success()).then(|| reason.to_owned()))
}

/// Returns the folder with the definitions of OLM's kinds, of the same version as [`Operators`].
///
/// # Errors
/// OLM cannot be built.
pub fn definitions() -> Result<PathBuf> {
    Ok(folder_from_script("olm-programs", &[])?.join("crds"))
}

/// OLM's two operators as processes, with the rights of an administrator. Their logs are in the
/// folder of the control plane. They end on drop.
#[derive(Debug)]
pub struct Operators(Vec<Process>);

impl Operators {
    /// Starts them. The definitions of OLM's kinds must be in the cluster.
    ///
    /// # Errors
    /// They cannot be built or started.
    pub fn start(cluster: &ControlPlane) -> Result<Self> {
        let folder = folder_from_script("olm-programs", &[])?;
        let operators = ["olm", "catalog"].map(|name| {
            let mut command = bound_command(&folder.join(name));
            command
                .args(["--namespace", "olm"])
                .env("KUBECONFIG", cluster.kubeconfig());
            Process::spawn(format!("olm-{name}"), command, cluster.dir())
        });
        Ok(Self(operators.into_iter().collect::<Result<_>>()?))
    }

    /// Returns an error with the end of its log if an operator is not running any more.
    ///
    /// # Errors
    /// An operator has ended.
    pub fn check_running(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Process::check_running)
    }
}

/// A server of a file-based catalog, which the image of a catalog runs. It ends on drop.
#[derive(Debug)]
pub struct Catalog {
    address: String,
    _process: Process,
}

impl Catalog {
    /// Serves the catalog in this folder, on a free port of 127.0.0.1. The server's own files are in
    /// the folder of its log.
    ///
    /// # Errors
    /// The server cannot be built, or ends: the catalog has a mistake.
    pub async fn serve(catalog: &Path, log_folder: &Path) -> Result<Self> {
        let cache = log_folder.join(format!("olm-serve-{:08x}", rand::random::<u32>()));
        fs::create_dir(&cache)?;
        let mut command = bound_command(&program()?);
        command.arg("serve").arg(catalog).arg(&cache);
        let mut process = Process::spawn("olm-serve".to_owned(), command, log_folder)?;
        let log = process.log().to_owned();
        let address = process
            .wait_ready(Duration::from_millis(10), async || {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let line = text.lines().find(|line| line.starts_with("127.0.0.1:"));
                let line = line.filter(|_| text.ends_with('\n'));
                line.map(ToOwned::to_owned)
                    .ok_or("it prints no address".to_owned())
            })
            .await?;
        Ok(Self {
            address,
            _process: process,
        })
    }

    /// Returns the address, with the port.
    pub fn address(&self) -> &str {
        &self.address
    }
}
