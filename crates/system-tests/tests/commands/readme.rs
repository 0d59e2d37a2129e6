//! The quick start of the README: its configuration becomes Available, and `weft` prints what the
//! page shows.

use regex::Regex;

use crate::commands::{harness::*, user::*};

/// The arguments of `weft manifests` there.
const MANIFESTS: [&str; 4] = ["--domains", "addons", "--components", "multus,linux-bridge"];

/// The output that the README shows below this command. The operator's line names a process and a
/// place that differ here.
fn shown(readme: &str, command: &str) -> String {
    let (_, rest) = readme
        .split_once(&format!("```console\n$ {command}\n"))
        .unwrap_or_else(|| panic!("README.md shows no {command}"));
    without_operator(rest.split("```").next().unwrap())
}

fn without_operator(output: &str) -> String {
    let place = Regex::new(r"Deployment \S+/\S+ \((\S+)\), led by \S+").unwrap();
    place
        .replace_all(output, "Deployment NAMESPACE/NAME ($1), led by POD")
        .into_owned()
}

#[tokio::test]
async fn the_quick_start_becomes_available_and_prints_what_it_shows() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let install = format!(
        "weft manifests {} | kubectl apply -f -",
        MANIFESTS.join(" ")
    );
    assert!(readme.contains(&install), "README.md: {install}");

    let cluster = Cluster::start(ClusterOptions {
        manifests: &MANIFESTS,
        ..ClusterOptions::default()
    })
    .await;
    let _operator = Operator::start_lasting(&cluster).await;
    let first = example("first.yaml");
    cluster.apply(&first).await;
    // Nothing else has to be there, such as a Secret or a program on the nodes.
    cluster.wait_available().await;
    let status = weft(&cluster, &["status", "--wait"]).await.ended(0);
    assert_eq!(
        without_operator(&status.stdout),
        shown(&readme, "weft status")
    );
}
