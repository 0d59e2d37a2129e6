//! The health checks of Weft's kinds for Argo CD. All of them are one script, which names its kind.

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

const SCRIPT: &str = include_str!("health.lua");
const SOURCE: &str = "Written by `cargo run -p weft-api --example generate` from crates/api/examples/generate/health.lua: change it there.";

/// The files in this folder: a script for each definition in the layout of Argo CD's
/// `resource_customizations`, and a patch of the ConfigMap `argocd-cm` with all of them.
pub fn files(folder: &Path, definitions: &[CustomResourceDefinition]) -> Vec<(PathBuf, String)> {
    let scripts = definitions.iter().map(|definition| {
        let (group, kind) = (&definition.spec.group, &definition.spec.names.kind);
        (group, kind, SCRIPT.replace("KIND", kind))
    });
    let mut files = Vec::new();
    let mut data = Map::new();
    for (group, kind, script) in scripts {
        files.push((
            folder.join(group).join(kind).join("health.lua"),
            format!("-- {SOURCE}\n{script}"),
        ));
        let name = format!("resource.customizations.health.{group}_{kind}");
        data.insert(name, script.into());
    }
    let mut patch = json!({"data": Value::Object(data)});
    // By name, also where a feature of serde_json keeps the order in which fields were written.
    patch.sort_all_objects();
    let text = format!(
        "# {SOURCE}\n# Adds the health checks of Weft's kinds to Argo CD:\n#   kubectl -n argocd patch configmap argocd-cm --patch-file deploy/argo-cd/argocd-cm.yaml\n{}",
        serde_saphyr::to_string(&patch).expect("YAML")
    );
    files.push((folder.join("argocd-cm.yaml"), text));
    files
}
