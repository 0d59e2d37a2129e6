//! The release as plain YAML, for `kubectl apply -f`.
//!
//! - `weft.yaml`: one operator with the domains that `weft manifests` installs by default;
//! - `weft-all.yaml`: one operator for all domains;
//! - `weft-split-DOMAIN.yaml`: the operator of one domain, in the place of the operator that Weft
//!   replaces;
//! - `namespace.yaml`, `network-addons-config.crd.yaml`, `operator.yaml` and
//!   `network-addons-config-example.cr.yaml`: the operator of the add-ons once more, in the files
//!   that a release of cluster-network-addons-operator has.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    domains::DOMAINS,
    files::Files,
    manifests::Program,
    release::{Images, VERSION},
};

/// Returns the files.
///
/// # Errors
/// `weft manifests` cannot be run.
pub fn files(program: &Program, images: &Images) -> Result<Files> {
    let images = images.arguments();
    let mut files = Files::new();
    for (name, arguments) in choices() {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let all: Vec<&str> = images
            .iter()
            .map(String::as_str)
            .chain(arguments.clone())
            .collect();
        let text = program.text(&all)?;
        let mut command = vec!["weft", "manifests"];
        command.extend(arguments);
        files.insert(
            name.clone(),
            format!(
                "# Weft {VERSION}, as `{}` prints it. Install it with: kubectl apply -f {name}\n{text}",
                command.join(" ")
            ),
        );
    }
    Ok(files)
}

/// Writes the operator of the add-ons into a folder, in the files that a release of
/// cluster-network-addons-operator has.
///
/// # Errors
/// `weft manifests` cannot be run, or cannot write there.
pub fn write_as_cnao(program: &Program, images: &Images, folder: &Path) -> Result<()> {
    let folder = std::path::absolute(folder)?;
    let folder = folder
        .to_str()
        .with_context(|| format!("the name of the folder {} is no text", folder.display()))?;
    let images = images.arguments();
    let mut arguments: Vec<&str> = images.iter().map(String::as_str).collect();
    arguments.extend(["--split", "--domains", "addons", "-o", folder]);
    program.text(&arguments)?;
    Ok(())
}

/// Returns the name of each file, with its arguments of `weft manifests`.
fn choices() -> Vec<(String, Vec<String>)> {
    let all = DOMAINS.map(|domain| domain.name).join(",");
    let owned = |arguments: &[&str]| arguments.iter().map(|one| (*one).to_owned()).collect();
    let mut choices = vec![
        ("weft.yaml".to_owned(), vec![]),
        ("weft-all.yaml".to_owned(), owned(&["--domains", &all])),
    ];
    for domain in &DOMAINS {
        choices.push((
            format!("weft-split-{}.yaml", domain.name),
            owned(&["--split", "--domains", domain.name]),
        ));
    }
    choices
}
