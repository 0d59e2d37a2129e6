//! The generated files of `deploy/` and `docs/api/`: their names and what they hold.

// By its path, since both the example and a test take this file in, from different folders.
#[path = "reference.rs"]
mod reference;

use std::path::{Path, PathBuf};

use serde::Serialize;
use weft_api::addons;

/// All generated files: path and text.
pub fn all() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let deploy = root.join("deploy");
    let crd = addons::crd();
    let crd_name = crd.metadata.name.clone().unwrap_or_default();
    vec![
        (root.join("docs/api/network-addons-config.md"), reference::page(&crd)),
        (deploy.join(format!("crds/{crd_name}.yaml")), documents(&[crd])),
        (deploy.join("admission/network-addons-config.yaml"), documents(&addons::admission())),
    ]
}

fn documents<T: Serialize>(objects: &[T]) -> String {
    let mut text = String::from("# Written by `cargo run -p weft-api --example generate` from crates/api: change it there.\n");
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object).expect("YAML"));
    }
    text
}
