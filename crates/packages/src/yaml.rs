//! The release as plain YAML, for `kubectl apply -f`.
//!
//! - `weft.yaml`: one operator with the domains that `weft manifests` installs by default;
//! - `weft-all.yaml`: one operator for all domains;
//! - `weft-split-DOMAIN.yaml`: the operator of one domain, in the place of the operator that Weft
//!   replaces.

use anyhow::Result;

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
