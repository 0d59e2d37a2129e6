//! Where programs and other files are that scripts build and fetch, and that this tree builds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// Scripts that print the folder of what they build or fetch.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

/// Folders that hold `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kubectl`,
/// `etcd`, `kwok` and kwok's `stages.yaml`.
#[derive(Clone, Debug)]
pub struct Programs {
    folders: Vec<PathBuf>,
}

impl Programs {
    /// Finds the programs, in this order. If `K8S` names a version of Kubernetes, only the script
    /// counts, which builds this version.
    ///
    /// 1. the folder `WEFT_CONTROL_PLANE`, which must then hold all of them;
    /// 2. those in the folder `KUBEBUILDER_ASSETS` (it usually holds etcd, kube-apiserver and
    ///    kubectl);
    /// 3. what `scripts/control-plane` built into its cache folder. The first time, this builds for
    ///    some minutes and shows its progress on stderr.
    ///
    /// # Errors
    /// A variable names a folder without the programs, `K8S` names no supported version, or the
    /// build failed (its output is on stderr).
    pub fn find() -> Result<Self> {
        let given = |variable| match path_from_env("K8S") {
            Some(_) => None,
            None => path_from_env(variable),
        };
        if let Some(folder) = given("WEFT_CONTROL_PLANE") {
            return Ok(Self {
                folders: vec![folder],
            });
        }
        let mut folders: Vec<_> = given("KUBEBUILDER_ASSETS").into_iter().collect();
        let built = folder_from_script("control-plane", &[]).context(
            "the control plane's programs are missing, and WEFT_CONTROL_PLANE names no folder with them",
        )?;
        folders.push(built);
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
            .or_else(|_| Ok(folder_from_script("etcd-tools", &[])?.join(name)))
    }

    /// The folders searched, best first. Of use for `PATH`.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

/// The path of Prometheus' program `prometheus` or `promtool`, which `scripts/prometheus` fetches
/// once.
///
/// # Errors
/// The script failed: its output is on stderr.
pub fn prometheus(program: &str) -> Result<PathBuf> {
    Ok(folder_from_script("prometheus", &[])?.join(program))
}

/// Where the scripts keep what they have built and fetched.
pub fn cache() -> Option<PathBuf> {
    let user =
        || path_from_env("XDG_CACHE_HOME").or_else(|| Some(path_from_env("HOME")?.join(".cache")));
    path_from_env("WEFT_CACHE").or_else(|| Some(user()?.join("weft")))
}

/// Finds the folder, among those that a script has put into the cache, that holds this file. None
/// if there is none.
pub(crate) fn cached(script: &str, file: &str) -> Option<PathBuf> {
    let builds = fs::read_dir(cache()?.join(script)).ok()?;
    builds
        .filter_map(|build| Some(build.ok()?.path()))
        .find(|build| build.join(file).is_file())
}

/// The path that a variable of the environment names. None if it is not set or empty.
pub(crate) fn path_from_env(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The path of a script of this tree.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(SCRIPTS).join(name)
}

/// Runs `scripts/<script>`, which builds or fetches what is missing and prints the folder, once in
/// this process. The user sees its progress on stderr.
///
/// # Errors
/// The script failed: its output is on stderr.
pub(crate) fn folder_from_script(script: &str, args: &[&str]) -> Result<PathBuf> {
    static FOLDERS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let folders = || FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let line = [&[script], args].concat().join(" ");
    if let Some(folder) = folders().get(&line) {
        return Ok(folder.clone());
    }
    let path = self::script(script);
    let output = Command::new(&path)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {} (was the source tree moved?)", path.display()))?;
    if !output.status.success() {
        bail!(
            "scripts/{line} failed ({}), its output above says why",
            output.status
        );
    }
    let printed = String::from_utf8(output.stdout)?;
    let folder = printed
        .lines()
        .last()
        .map(PathBuf::from)
        .with_context(|| format!("scripts/{line} printed no folder"))?;
    folders().insert(line, folder.clone());
    Ok(folder)
}

/// The variable of the environment that names another program than the one that cargo has built:
/// `WEFT_AGENT_BIN` for `weft-agent`.
pub fn variable_of(program: &str) -> String {
    format!("{}_BIN", program.to_uppercase().replace('-', "_"))
}

/// A program of this tree: the one that [its variable](variable_of) names, otherwise the one that
/// cargo has built next to this test.
///
/// # Errors
/// It is not built.
pub fn built(name: &str) -> Result<PathBuf> {
    let variable = variable_of(name);
    if let Some(program) = path_from_env(&variable) {
        return std::path::absolute(program).context(variable);
    }
    // target/<profile>/deps/<test>, or target/<profile>/<program>
    let ours = std::env::current_exe()?;
    let found = ours
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    found.with_context(|| {
        format!(
            "{name} is not built next to {}: run `cargo build -p {name}`, or set {variable}",
            ours.display()
        )
    })
}

/// Path of a program of this machine, also of one that only root has in its `PATH`.
///
/// # Errors
/// It is not installed.
pub(crate) fn installed(name: &str) -> Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&folders)
        .chain(usual)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    found.with_context(|| format!("`{name}` is not installed, or not in PATH"))
}
