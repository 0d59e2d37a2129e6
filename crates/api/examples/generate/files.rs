//! The generated files of `deploy/` and `docs/api/`: their names and what they hold.

// By their paths, since both the example and a test take this file in, from different folders.
#[path = "argo_cd.rs"]
mod argo_cd;
#[path = "reference.rs"]
mod reference;

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::Value;
use weft_api::{addons, cluster_network, node_network, placement};

/// All generated files: path and text.
pub fn all() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let deploy = root.join("deploy");
    let definition = |name: &str, crd: &CustomResourceDefinition| {
        let definition = crd.metadata.name.clone().unwrap_or_default();
        [
            (
                root.join(format!("docs/api/{name}.md")),
                reference::page(crd),
            ),
            (
                deploy.join(format!("crds/{definition}.yaml")),
                documents(&[crd]),
            ),
        ]
    };
    let admission = |name: &str, mut objects: Vec<Value>| {
        // By name, also where a feature of serde_json keeps the order in which fields were written.
        objects.iter_mut().for_each(Value::sort_all_objects);
        (
            deploy.join(format!("admission/{name}.yaml")),
            documents(&objects),
        )
    };
    let [state, policy, enactment, installation] = node_network::crds();
    let crds = [
        addons::crd(),
        cluster_network::crd(),
        state,
        policy,
        enactment,
        installation,
        placement::crd(),
    ];
    let pages = [
        "network-addons-config",
        "network-config",
        "node-network-state",
        "node-network-configuration-policy",
        "node-network-configuration-enactment",
        "nmstate",
        "placement-api",
    ];
    let definitions = pages
        .into_iter()
        .zip(&crds)
        .flat_map(|(name, crd)| definition(name, crd));
    let admissions = [
        admission("network-addons-config", addons::admission()),
        admission("network-config", cluster_network::admission()),
        admission("node-network", node_network::admission()),
        admission("placement", placement::admission()),
    ];
    definitions
        .chain(admissions)
        .chain(argo_cd::files(&deploy.join("argo-cd"), &crds))
        .collect()
}

fn documents<T: Serialize>(objects: &[T]) -> String {
    let mut text = String::from(
        "# Written by `cargo run -p weft-api --example generate` from crates/api: change it there.\n",
    );
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object).expect("YAML"));
    }
    text
}
