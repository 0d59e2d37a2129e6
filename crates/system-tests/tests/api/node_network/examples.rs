//! The documents under `examples/node-network`, applied as users do.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use weft_api::node_network::{NMState, NodeNetworkConfigurationPolicy, NodeNetworkState};
use weft_testenv::{ControlPlane, Lent};

use super::{
    cases::{cases, object},
    cluster::{
        ADMISSION, apply, create, deploy, read, refused_in_time, root, with_definitions,
        without_nulls,
    },
    table::By,
};

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("examples").join(folder)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn document(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn early(name: &str) -> PathBuf {
    root().join("examples/node-network/early").join(name)
}

async fn control_plane() -> Lent {
    let cluster = with_definitions().await;
    apply(&cluster, &deploy(ADMISSION)).await;
    let cases = cases();
    let refused = cases
        .refused
        .iter()
        .find(|case| case.by == By::Policy)
        .unwrap();
    refused_in_time(
        async || create(&cluster, &object(&refused.kind, &refused.spec)).await,
        &refused.message,
    )
    .await;
    cluster
}

/// The stored object equals the file, field for field, also after the types have read and written
/// it.
async fn assert_stored(cluster: &ControlPlane, file: &Path) {
    apply(cluster, file).await;
    let document = document(file);
    let kind = document["kind"].as_str().unwrap();
    let found = read(
        cluster,
        &format!("{}.v1.nmstate.io", kind.to_lowercase()),
        document["metadata"]["name"].as_str().unwrap(),
    )
    .await;
    let spec = without_nulls(&document["spec"]);
    assert_eq!(found["spec"], spec, "{}", file.display());
    let typed = match kind {
        "NodeNetworkState" => json!(
            serde_json::from_value::<NodeNetworkState>(found)
                .unwrap()
                .spec
        ),
        "NMState" => json!(serde_json::from_value::<NMState>(found).unwrap().spec),
        _ => json!(
            serde_json::from_value::<NodeNetworkConfigurationPolicy>(found)
                .unwrap()
                .spec
        ),
    };
    // No specification is read as an empty one.
    let typed = if spec.is_null() && typed == json!({}) {
        Value::Null
    } else {
        typed
    };
    assert_eq!(typed, spec, "{}", file.display());
}

#[tokio::test]
async fn documents_in_the_first_form_of_the_api_are_applied_as_they_are() {
    let cluster = control_plane().await;
    for file in [
        "state.yaml",
        "state-desired.yaml",
        "state-spellings.yaml",
        "policy-dhcp.yaml",
        "policy-auto-bonding.yaml",
    ] {
        assert_stored(&cluster, &early(file)).await;
    }
    // The status is the agent's: the first document, applied once more with all that it holds
    // there, leaves none.
    assert_eq!(read(&cluster, "nns", "node01").await.get("status"), None);
}

#[tokio::test]
async fn every_example_is_applied_as_it_is() {
    let cluster = control_plane().await;
    let mut names = BTreeSet::new();
    for file in files("node-network") {
        assert_stored(&cluster, &file).await;
        let document = document(&file);
        let name = document["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(
            names.insert((document["kind"].to_string(), name)),
            "{}: another example has this name",
            file.display()
        );
    }
    let page = fs::read_to_string(root().join("docs/node-network.md")).unwrap();
    let examples: Vec<_> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(
        examples.len() >= 7,
        "only {} examples were found: is this test still reading the page?",
        examples.len()
    );
    for example in examples {
        // One of them, the NMState, is there already.
        let result = cluster
            .kubectl_with_input(
                &["apply", "--dry-run=server", "--validate=strict", "-f", "-"],
                example,
            )
            .await;
        assert!(result.is_ok(), "{example}: {result:?}");
    }
    // The examples of kubernetes-nmstate's guide work.
    for file in [
        "ethernet-static",
        "ethernet-dhcp",
        "ethernet-forwarding",
        "linux-bridge",
        "linux-bridge-vlans",
        "linux-bridge-detach",
        "ovs-bridge",
        "ovs-bridge-plain",
        "bond",
        "bond-vlan",
        "vlan",
        "routes",
        "dns",
        "lldp",
        "worker-selector",
    ] {
        let path = root().join(format!("examples/node-network/{file}.yaml"));
        assert!(path.is_file(), "{}", path.display());
    }
}
