//! The kustomize bases, and an overlay to begin with.
//!
//! - `base`: the operator for all domains, with the domains that `weft manifests` installs by
//!   default;
//! - `split/DOMAIN`: the operator of one domain, in the place of the operator that Weft replaces;
//! - `overlays/registry`: the base with images of another registry.
//!
//! All objects get the label [`MANAGED_BY`], by which `weft status --installation` sees that kustomize
//! has installed them. kustomize would add it by itself only where the outermost kustomization asks
//! for it.

use anyhow::{Context, Result};
use serde_json::Value;
use weft_operands::image::parts;

use crate::{
    domains::DOMAINS,
    files::Files,
    manifests::Program,
    release::{Images, VERSION},
};

/// The label of objects that kustomize has built, with its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kustomize");

/// Returns the files of all bases and overlays.
///
/// # Errors
/// `weft manifests` cannot be run.
pub fn files(program: &Program, images: &Images) -> Result<Files> {
    let mut files = Files::new();
    let arguments = images.arguments();
    let images_of = arguments.each_ref().map(String::as_str);
    add(&mut files, "base", &program.manifests(&images_of)?)?;
    for domain in DOMAINS.map(|domain| domain.name) {
        let split = ["--split", "--domains", domain];
        let objects = program.manifests(&[&images_of[..], &split[..]].concat())?;
        add(&mut files, &format!("split/{domain}"), &objects)?;
    }
    files.insert(
        "overlays/registry/kustomization.yaml".to_owned(),
        include_str!("../../../deploy/kustomize/registry.yaml")
            .replace("0.0.0", VERSION)
            .replace(
                "name: localhost/weft",
                &format!("name: {}", parts(&images.operator.to_string()).repository),
            ),
    );
    Ok(files)
}

/// Adds a base with these objects.
fn add(files: &mut Files, folder: &str, objects: &[Value]) -> Result<()> {
    let mut kustomization =
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n".to_owned();
    let is_of = |kind: &'static str| move |object: &&Value| object["kind"] == kind;
    let (namespace, definition) = (is_of("Namespace"), is_of("CustomResourceDefinition"));
    let parts: [(&str, Vec<&Value>); 3] = [
        (
            "namespaces.yaml",
            objects.iter().filter(namespace).collect(),
        ),
        (
            "definitions.yaml",
            objects.iter().filter(definition).collect(),
        ),
        (
            "operator.yaml",
            objects
                .iter()
                .filter(|object| !namespace(object) && !definition(object))
                .collect(),
        ),
    ];
    for (name, objects) in parts.iter().filter(|(_, objects)| !objects.is_empty()) {
        let documents = objects
            .iter()
            .map(|object| serde_saphyr::to_string(object).context("cannot write YAML"))
            .collect::<Result<Vec<_>>>()?;
        files.insert(format!("{folder}/{name}"), documents.join("---\n"));
        kustomization += &format!("- {name}\n");
    }
    let (label, value) = MANAGED_BY;
    kustomization += &format!("labels:\n- pairs:\n    {label}: {value}\n");
    files.insert(format!("{folder}/kustomization.yaml"), kustomization);
    Ok(())
}
