//! The tutorials, command by command, as a reader pastes them on the nodes of `make cluster`.

use std::{fs, path::Path};

use weft_testenv::lab::{Lab, LabBuilder, Node, NodeOptions, images};

use crate::on_nodes::weft::site::{Site, WEFT};

mod page;
mod reader;

use reader::Reader;

const ADD_ONS: &str = include_str!("../../../../../../docs/tutorials/addons.md");
const NODE_NETWORK: &str = include_str!("../../../../../../docs/tutorials/node-network.md");
const CLUSTER_NETWORK: &str = include_str!("../../../../../../docs/tutorials/cluster-network.md");
const PLACEMENT: &str = include_str!("../../../../../../docs/tutorials/placement.md");
const PAGES: [&str; 4] = [ADD_ONS, NODE_NETWORK, CLUSTER_NETWORK, PLACEMENT];
const README: &str = include_str!("../../../../../../README.md");

/// Nodes with the names that the pages show.
fn nodes(count: usize) -> LabBuilder {
    (1..=count).fold(Lab::builder(), |lab, number| {
        let node = NodeOptions::new(format!("node-{number}"));
        lab.node(if number == 1 {
            node.control_plane()
        } else {
            node
        })
    })
}

async fn has_bridge(node: &Node, name: &str) -> bool {
    let links = node.exec(&["ip", "-o", "link", "show", "type", "bridge"]);
    links.await.unwrap().contains(&format!(": {name}:"))
}

/// Fails if an object of these names is left, without its namespace before it.
async fn assert_gone(reader: &mut Reader, objects: &str) {
    let (code, left) = reader
        .run(&format!(
            "kubectl get {objects} --ignore-not-found --output name"
        ))
        .await;
    assert_eq!((code, left.trim()), (0, ""), "{objects}");
}

/// Imports the image of Weft on each node by the line of the README.
async fn import_as_readme_says(site: &Site) {
    let line = README
        .lines()
        .find(|line| line.starts_with("ctr -n k8s.io images import "))
        .unwrap();
    let command = line.split(" #").next().unwrap().trim();
    let file = command.rsplit(' ').next().unwrap();
    for node in site.lab.nodes() {
        let ctr = async |arguments: &[&str]| {
            let command = [&["ctr", "-n", "k8s.io", "images"], arguments].concat();
            node.exec(&command).await.unwrap()
        };
        ctr(&["rm", WEFT]).await;
        assert!(!ctr(&["ls", "-q"]).await.contains(WEFT));
        let there = node.file(Path::new("/root").join(file));
        fs::create_dir_all(there.parent().unwrap()).unwrap();
        fs::copy(site.archive(), there).unwrap();
        let script = format!("cd /root && {command}");
        node.exec(&["sh", "-c", &script]).await.unwrap();
        assert!(ctr(&["ls", "-q"]).await.contains(WEFT), "{command}");
    }
}

#[tokio::test]
async fn readers_put_a_pod_on_a_bridge_and_apply_their_first_policy() {
    let multus = images::multus().unwrap().expect(
        "Multus: scripts/test-nodes leaves this test out where its module is not to be had",
    );
    let lab = nodes(3)
        .image(multus)
        .image(images::cni_plugins().unwrap())
        .image(images::bridge_marker().unwrap());
    let site = Site::start(lab).await;
    site.connect_without_operator().await;
    import_as_readme_says(&site).await;

    let mut reader = Reader::new(&site.lab).await;
    for (page, bridge) in [(ADD_ONS, "br1"), (NODE_NETWORK, "br-test")] {
        reader.follow(page).await;
        for node in site.lab.nodes() {
            assert!(
                !has_bridge(node, bridge).await,
                "{} keeps {bridge}",
                node.name()
            );
        }
        assert_gone(&mut reader, "namespace weft-system nmstate").await;
    }
}

#[tokio::test]
async fn readers_bring_a_network_to_a_new_cluster() {
    let coredns = images::coredns().unwrap().expect(
        "CoreDNS: scripts/test-nodes leaves this test out where its module is not to be had",
    );
    let site = Site::start(nodes(3).image(coredns)).await;
    site.lab.start_dns().await.unwrap();

    let mut reader = Reader::new(&site.lab).await;
    reader.follow(CLUSTER_NETWORK).await;
    assert_gone(&mut reader, "daemonsets --all-namespaces").await;
    assert_gone(&mut reader, "namespace weft-system").await;
}

#[tokio::test]
async fn readers_run_placement() {
    let coredns = images::coredns().unwrap().expect(
        "CoreDNS: scripts/test-nodes leaves this test out where its module is not to be had",
    );
    let lab = nodes(1).image(coredns).image(images::services().unwrap());
    let site = Site::start(lab).await;
    site.lab.start_dns().await.unwrap();
    site.connect_without_operator().await;
    site.lab.wait_dns().await.unwrap();

    let mut reader = Reader::new(&site.lab).await;
    reader.follow(PLACEMENT).await;
    assert_gone(&mut reader, "namespace weft-system openstack").await;
}
