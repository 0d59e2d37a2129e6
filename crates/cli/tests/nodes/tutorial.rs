//! The tutorial of the add-ons, command by command, as a user pastes it.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use weft_testenv::lab::{Lab, Node, images};

use crate::{
    site::{Site, binary},
    wait::wait_until,
};

const TUTORIAL: &str = include_str!("../../../../docs/tutorials/addons.md");

/// The image that `examples/tutorials/pod.yaml` names. The nodes have the same program under it.
const BUSYBOX: &str = "docker.io/library/busybox:1.37";

/// The commands of a page: each line of its `console` blocks, or where the block shows output, the
/// lines with a prompt.
fn commands(page: &str) -> Vec<String> {
    let mut commands = vec![];
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let prompts: Vec<_> = block
            .lines()
            .filter_map(|line| line.strip_prefix("$ "))
            .collect();
        match prompts.is_empty() {
            true => commands.extend(block.lines().map(str::to_owned)),
            false => commands.extend(prompts.into_iter().map(str::to_owned)),
        }
    }
    commands
}

/// A shell of a user who has `weft` and `kubectl`, in the source tree.
struct Shell<'a> {
    site: &'a Site,
    _programs: TempDir,
    path: String,
    transcript: String,
}

impl<'a> Shell<'a> {
    fn new(site: &'a Site) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let kubectl = site.lab.control_plane().programs().get("kubectl").unwrap();
        for (name, program) in [("weft", &binary()), ("kubectl", &kubectl)] {
            std::os::unix::fs::symlink(program, programs.path().join(name)).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        Self {
            site,
            path: format!("{}:{path}", programs.path().display()),
            _programs: programs,
            transcript: String::new(),
        }
    }

    /// Runs a command and returns its output. It must succeed. The exit code 1 of `weft plan` says
    /// that something would change.
    async fn run(&mut self, command: &str) -> String {
        let output = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", command])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.site.lab.control_plane().kubeconfig())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        write!(self.transcript, "$ {command}\n{text}{errors}").unwrap();
        let expected = if command.starts_with("weft plan") {
            1
        } else {
            0
        };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "`{command}` after this:\n{}",
            self.transcript
        );
        text
    }
}

/// A cluster with a network for pods, and with the images that the tutorial asks for.
async fn cluster() -> (Site, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let busybox: PathBuf = folder.path().join("busybox.tar");
    images::busybox(weft_images::Image::new(BUSYBOX))
        .unwrap()
        .write(&busybox)
        .unwrap();
    let multus = images::multus().unwrap().expect(
        "Multus: scripts/test-nodes leaves this test out where its module is not to be had",
    );
    let lab = Lab::builder()
        .image(busybox)
        .image(multus)
        .image(images::cni_plugins().unwrap())
        .image(images::bridge_marker().unwrap());
    let site = Site::start(lab).await;
    site.connect_without_operator().await;
    (site, folder)
}

/// The part of bridge-marker, whose Go module is not published: it offers the bridge of each node
/// that has it. Its pod runs, and only reports its health. The kubelet makes it allocatable.
async fn offer_bridges(site: &Site) {
    for node in site.lab.nodes() {
        assert!(has_bridge(node).await, "{} has no br1", node.name());
        let patch = json!({"status": {"capacity": {"bridge.network.kubevirt.io/br1": "1k"}}});
        let patch = patch.to_string();
        let name = node.name();
        site.lab
            .kubectl(&[
                "patch",
                "node",
                name,
                "--subresource=status",
                "--patch",
                &patch,
            ])
            .await
            .unwrap();
        wait_until(&format!("{name} offers br1"), async || {
            let node = site.get(&["node", name]).await;
            match &node["status"]["allocatable"]["bridge.network.kubevirt.io/br1"] {
                Value::Null => Err(node["status"]["allocatable"].to_string()),
                _ => Ok(()),
            }
        })
        .await;
    }
}

async fn has_bridge(node: &Node) -> bool {
    let links = node.exec(&["ip", "-o", "link", "show", "type", "bridge"]);
    links.await.unwrap().contains(": br1:")
}

#[tokio::test]
async fn a_reader_of_the_tutorial_puts_a_pod_on_a_bridge() {
    let (site, _folder) = cluster().await;
    let mut shell = Shell::new(&site);
    // A part of a command, and of the output that the page shows for it.
    let shown = [
        ("weft validate", "NetworkAddonsConfig cluster: valid"),
        ("rollout status", "successfully rolled out"),
        (
            "weft status",
            concat!(
                "NetworkAddonsConfig cluster: Available (version ",
                env!("CARGO_PKG_VERSION")
            ),
        ),
        (
            "weft plan -f examples/tutorials/bridge",
            "+ interfaces[br1]: linux-bridge",
        ),
        ("get nns", "SuccessfullyConfigured"),
        ("get nodes -o", "1k"),
        ("ip addr show net1", "inet 192.0.2.10/24"),
        ("network-status", "\"interface\": \"net1\""),
        ("weft graph", "br1"),
    ];
    let commands = commands(TUTORIAL);
    for (part, _) in shown {
        assert!(
            commands.iter().any(|command| command.contains(part)),
            "the page has no command with `{part}`"
        );
    }
    for command in commands {
        let text = match command.as_str() {
            // The test cannot answer its question.
            "weft uninstall" => shell.run("weft uninstall --yes").await,
            command => shell.run(command).await,
        };
        for (part, said) in shown {
            assert!(
                !command.contains(part) || text.contains(said),
                "`{command}` does not say `{said}`:\n{text}"
            );
        }
        if command.starts_with("weft manifests") {
            // The nodes can pull nothing.
            let images = [
                ("MULTUS_IMAGE", images::MULTUS),
                ("LINUX_BRIDGE_IMAGE", images::CNI_PLUGINS),
                ("LINUX_BRIDGE_MARKER_IMAGE", images::BRIDGE_MARKER),
            ];
            let images = images.map(|(name, image)| format!("{name}={image}"));
            let set = "kubectl -n weft-system set env deployment/weft-operator";
            shell.run(&format!("{set} {}", images.join(" "))).await;
        }
        if command.starts_with("kubectl wait nncp") {
            offer_bridges(&site).await;
        }
    }
    for node in site.lab.nodes() {
        assert!(!has_bridge(node).await, "{} keeps br1", node.name());
    }
    let left = shell
        .run("kubectl get namespace weft-system nmstate --ignore-not-found")
        .await;
    assert_eq!(left, "");
}
