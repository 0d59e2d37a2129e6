//! The manifest of the kubectl plugin, by the format of krew
//! (<https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>). People write
//! `deploy/krew/weft.yaml`; this file adds the version, and the archive for each platform.

use std::{fs, io::Read as _, path::Path};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{files::Files, release::VERSION};

/// The architectures that a release has programs for, by the names of Go and krew.
pub const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const PROGRAM: &str = "weft";
const LICENSE: &str = "LICENSE";

/// Returns the name of the archive for an architecture.
pub fn archive(architecture: &str) -> String {
    format!("weft-{VERSION}-linux-{architecture}.tar.gz")
}

/// Returns the plugin's manifest, `weft.yaml`. `folder` holds the archives, and `url` is the
/// address of the folder from which users download them.
///
/// # Errors
/// An archive cannot be read, or does not hold the program `weft` exactly once.
pub fn files(folder: &Path, url: &str) -> Result<Files> {
    let mut plugin: Value = serde_saphyr::from_str(include_str!("../../../deploy/krew/weft.yaml"))
        .context("deploy/krew/weft.yaml")?;
    plugin["spec"]["version"] = format!("v{VERSION}").into();
    let platforms = ARCHITECTURES
        .iter()
        .map(|architecture| platform(folder, url, architecture))
        .collect::<Result<Vec<_>>>()?;
    plugin["spec"]["platforms"] = platforms.into();
    let text = serde_saphyr::to_string(&plugin).context("cannot write YAML")?;
    Ok(Files::from([("weft.yaml".to_owned(), text)]))
}

fn platform(folder: &Path, url: &str, architecture: &str) -> Result<Value> {
    let name = archive(architecture);
    let path = folder.join(&name);
    let content = fs::read(&path).with_context(|| {
        format!(
            "--archives: cannot read {}: put the archive of each architecture ({}) there",
            path.display(),
            ARCHITECTURES.join(", ")
        )
    })?;
    let held =
        regular_files(&content).with_context(|| format!("--archives: {}", path.display()))?;
    let named = |wanted: &str| -> Vec<&String> {
        let is_named = |inside: &&String| Path::new(inside).file_name() == Some(wanted.as_ref());
        held.iter().filter(is_named).collect()
    };
    let [program] = named(PROGRAM)[..] else {
        bail!(
            "--archives: {} must hold exactly one file {PROGRAM}, and holds {held:?}",
            path.display()
        );
    };
    // krew copies these files alone, so that completion scripts and the agent stay out.
    let files: Vec<Value> = std::iter::once(program)
        .chain(named(LICENSE).into_iter().take(1))
        .map(|inside| json!({"from": inside, "to": "."}))
        .collect();
    Ok(json!({
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": format!("{}/{name}", url.trim_end_matches('/')),
        "sha256": format!("{:x}", Sha256::digest(&content)),
        "bin": PROGRAM,
        "files": files,
    }))
}

/// Returns the paths of the regular files in a compressed archive.
fn regular_files(content: &[u8]) -> Result<Vec<String>> {
    let mut archive = tar::Archive::new(GzDecoder::new(content));
    let mut paths = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry.context("it is no archive of tar and gzip")?;
        if entry.header().entry_type().is_file() {
            let path = entry.path()?.to_string_lossy().into_owned();
            paths.push(path.trim_start_matches("./").to_owned());
        }
        // A damaged archive fails here, before users download it.
        std::io::copy(&mut entry.by_ref(), &mut std::io::sink())?;
    }
    Ok(paths)
}
