//! The suite on real nodes with a network: it passes, and leaves the cluster as it was. So it does
//! after Ctrl-C, and when the nodes cannot have the image. `make test-nodes`.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use weft_system_tests::suite::{Run, run, suite, weft};
use weft_testenv::{
    host_lab::agent,
    lab::{Lab, images},
    wait::wait_until,
};

const WEFT: &str = concat!("localhost/weft:", env!("CARGO_PKG_VERSION"));
const AGENT: &str = concat!("localhost/weft-agent:", env!("CARGO_PKG_VERSION"));

/// How a user ends a run.
#[derive(Clone, Copy)]
enum End {
    CtrlC,
    /// Closes the terminal: the suite gets SIGHUP, and its output has no reader.
    Closed,
}

/// A cluster of two nodes with a network that no operator maintains.
struct Site {
    lab: Lab,
    folder: TempDir,
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        weft_images::weft(&weft(), WEFT)
            .unwrap()
            .write(file("weft.tar"))
            .unwrap();
        let program = agent::program().unwrap();
        weft_images::weft_agent(&program, AGENT)
            .unwrap()
            .write(file("agent.tar"))
            .unwrap();
        let absent =
            "scripts/test-nodes leaves this test out where the module of Multus is not to be had";
        let lab = Lab::builder()
            .image(file("weft.tar"))
            .image(file("agent.tar"))
            .image(images::bridge_marker().unwrap())
            .image(images::flannel().unwrap())
            .image(images::kube_proxy().unwrap())
            .image(images::multus().unwrap().expect(absent))
            .image(images::cni_plugins().unwrap())
            .start()
            .await
            .unwrap();
        lab.connect(&weft(), WEFT).await.unwrap();
        Self { lab, folder }
    }

    /// The suite with the images of the lab.
    fn suite(&self, arguments: &[&str]) -> Command {
        let control_plane = self.lab.control_plane();
        let kubectl = control_plane.programs().get("kubectl").unwrap();
        let mut command = suite(kubectl.as_ref(), arguments);
        let components = [
            ("multus", images::MULTUS),
            ("linuxBridge", images::CNI_PLUGINS),
            ("linuxBridgeMarker", images::BRIDGE_MARKER),
        ];
        let components: Vec<_> = components
            .iter()
            .map(|(name, image)| format!("{name}={image}"))
            .collect();
        command
            .env("KUBECONFIG", control_plane.kubeconfig())
            .env("AGENT_IMAGE", AGENT)
            .env("COMPONENT_IMAGES", components.join(","));
        command
    }

    /// Runs the suite, and does this to it each time that the next of these lines begins. Returns its
    /// output up to there, or all of it, and its exit code.
    async fn signalled(&self, lines: &[&'static str], end: End) -> (String, Option<i32>) {
        let mut child = self
            .suite(&["--image", WEFT, "--yes"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let pid = Pid::from_child(&child);
        let mut awaited = lines.to_vec();
        awaited.reverse();
        let followed = tokio::task::spawn_blocking(move || {
            let mut all = String::new();
            for line in stdout.lines() {
                let line = line.unwrap();
                all += &format!("{line}\n");
                if awaited.last().is_some_and(|next| line.starts_with(next)) {
                    awaited.pop();
                    match end {
                        End::CtrlC => kill_process(pid, Signal::INT).unwrap(),
                        End::Closed => {
                            kill_process(pid, Signal::HUP).unwrap();
                            break;
                        }
                    }
                }
            }
            (all, child.wait().unwrap().code())
        });
        followed.await.unwrap()
    }

    /// All objects without owners, the properties of nodes that an operator may leave, and the
    /// files and links of each node: found by other means than the suite's.
    async fn everything(&self) -> BTreeSet<String> {
        let kinds = self
            .lab
            .kubectl(&["api-resources", "--verbs=list", "-o", "name"])
            .await
            .unwrap();
        let mut all = BTreeSet::new();
        for kind in kinds.lines().filter(|kind| !kind.starts_with("events")) {
            let text = self
                .lab
                .kubectl(&["get", kind, "-A", "-o", "json", "--ignore-not-found"])
                .await
                .unwrap();
            let list: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            for object in list["items"].as_array().into_iter().flatten() {
                let metadata = &object["metadata"];
                if metadata["ownerReferences"].is_null() {
                    all.insert(format!(
                        "{kind} {} {} {}",
                        metadata["namespace"], metadata["name"], metadata["labels"]
                    ));
                }
            }
        }
        let nodes = self.lab.kubectl(&["get", "nodes", "-o", "jsonpath={range .items[*]}{.metadata.name} {.spec.taints} {.status.conditions[*].type} {.status.capacity}{\"\\n\"}{end}"]).await.unwrap();
        all.extend(nodes.lines().map(str::to_owned));
        // Events of Weft and of its resources. Those of the cluster itself expire.
        let events = self.lab.kubectl(&["get", "events", "-A", "-o", "jsonpath={range .items[*]}{.reportingComponent} {.involvedObject.kind}{\"\\n\"}{end}"]).await.unwrap();
        let is_weft = |line: &&str| {
            ["weft", "NetworkAddonsConfig", "NMState", "NodeNetwork"]
                .iter()
                .any(|word| line.contains(word))
        };
        all.extend(
            events
                .lines()
                .filter(is_weft)
                .map(|line| format!("event {line}")),
        );
        for node in self.lab.nodes() {
            // Flannel makes cni0 with the first pod on a node, and each pod has a veth.
            let links = node.exec(&["ip", "-o", "link"]).await.unwrap();
            let names = links
                .lines()
                .filter_map(|line| line.split(": ").nth(1))
                .filter(|name| !name.starts_with("veth") && *name != "cni0");
            all.extend(names.map(|name| format!("{}: link {name}", node.name())));
            // The programs of plugins stay in /opt/cni/bin: pods that run may need them for their end.
            let files = fs::read_dir(node.file("/etc/cni/net.d")).unwrap();
            all.extend(
                files.map(|file| format!("{}: {}", node.name(), file.unwrap().path().display())),
            );
        }
        all
    }

    /// Waits until everything is as before: the kubelet removes pods in its own time.
    async fn wait_same(&self, before: &BTreeSet<String>) {
        wait_until("the cluster is as before", async || {
            let now = self.everything().await;
            if now == *before {
                return Ok(());
            }
            let left: Vec<_> = now.difference(before).collect();
            let gone: Vec<_> = before.difference(&now).collect();
            Err(format!("left: {left:#?}\ngone: {gone:#?}"))
        })
        .await;
    }
}

/// Runs the suite, which must pass, and returns its output.
async fn suite_passes(site: &Site, arguments: &[&str]) -> String {
    let Run {
        code,
        stdout,
        stderr,
    } = run(site.suite(arguments)).await;
    println!("{stdout}{stderr}");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    stdout
}

/// An operator that the user has installed: the suite tests it, and it is there afterwards.
async fn installed_operator_is_tested_and_left(site: &Site) {
    let control_plane = site.lab.control_plane();
    let program = |arguments: &[&str]| {
        let mut command = Command::new(weft());
        let arguments = arguments.iter().copied();
        command
            .args(arguments.chain(["--domains", "addons"]))
            .env("KUBECONFIG", control_plane.kubeconfig());
        command
    };
    let components = "multus,linux-bridge";
    let Run { code, stdout, .. } = run(program(&[
        "manifests",
        "--components",
        components,
        "--image",
        WEFT,
    ]))
    .await;
    assert_eq!(code, Some(0));
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &stdout)
        .await
        .unwrap();

    let arguments = ["--installed", "--domains", "addons", "--yes"];
    let stdout = suite_passes(site, &arguments).await;
    // Without a bridge of the agents, no pod is attached. The manifests are not the suite's.
    assert!(stdout.contains(" passed, 0 failed, 2 left out"), "{stdout}");
    let status = ["status", "--installation"];
    let Run { code, stdout, .. } = run(program(&status)).await;
    assert_eq!(code, Some(0), "the operator is there: {stdout}");

    let uninstall = ["uninstall", "--yes", "--crds"];
    let Run { code, stderr, .. } = run(program(&uninstall)).await;
    assert_eq!(code, Some(0), "{stderr}");
    let events = ["delete", "events", "--all", "--all-namespaces"];
    site.lab.kubectl(&events).await.unwrap();
}

#[tokio::test]
async fn suite_passes_and_leaves_the_cluster_as_it_was() {
    let site = Site::start().await;
    let before = site.everything().await;
    assert!(before.len() > 100, "{before:?}");

    // Nobody has accepted that others run pods there.
    let Run { code, stderr, .. } = run(site.suite(&["--image", WEFT])).await;
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("2 pods in the namespace openshift-kube-proxy"),
        "{stderr}"
    );

    let junit = site.folder.path().join("junit.xml");
    let arguments = ["--image", WEFT, "--yes", "--junit", junit.to_str().unwrap()];
    let stdout = suite_passes(&site, &arguments).await;
    assert!(stdout.contains(" passed, 0 failed, 0 left out"), "{stdout}");
    for test in [
        "addons/pod-gets-a-second-interface",
        "node-network/bad-policy-is-rolled-back",
        "removed-without-a-trace",
    ] {
        assert!(
            stdout
                .lines()
                .any(|line| line.starts_with(test) && line.ends_with("passed")),
            "{test}: {stdout}"
        );
    }
    let report = fs::read_to_string(&junit).unwrap();
    assert!(
        report.contains("removed-without-a-trace") && report.contains("failures=\"0\""),
        "{report}"
    );
    site.wait_same(&before).await;

    installed_operator_is_tested_and_left(&site).await;
    site.wait_same(&before).await;

    // Ctrl-C in the middle: everything goes all the same. The bridge is on the nodes, and the add-ons
    // are on their way.
    let (stdout, code) = site
        .signalled(&["addons/multus-is-available"], End::CtrlC)
        .await;
    println!("{stdout}");
    assert_eq!(code, Some(130), "{stdout}");
    assert!(stdout.contains("a signal has ended the run"), "{stdout}");
    let removed = stdout
        .lines()
        .find(|line| line.starts_with("removed-without-a-trace"));
    assert!(
        removed.is_some_and(|line| line.ends_with("passed")),
        "{stdout}"
    );
    site.wait_same(&before).await;

    // The user closes the terminal: the same, without a reader of the output.
    let (_, code) = site
        .signalled(&["install/operator-starts"], End::Closed)
        .await;
    assert_eq!(code, Some(130));
    site.wait_same(&before).await;

    // A second Ctrl-C ends the clean-up, and another run with --clean completes it.
    let lines = ["install/operator-starts", "A signal has ended the tests"];
    let (stdout, code) = site.signalled(&lines, End::CtrlC).await;
    println!("{stdout}");
    assert_eq!(code, Some(130), "{stdout}");
    assert!(stdout.contains("a signal has ended it"), "{stdout}");
    assert!(stdout.contains("make test-e2e ARGS=--clean"), "{stdout}");
    let Run { code, stderr, .. } = run(site.suite(&["--image", WEFT, "--yes"])).await;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("an earlier run was interrupted"),
        "{stderr}"
    );
    let Run { code, stdout, .. } = run(site.suite(&["--clean"])).await;
    assert_eq!(code, Some(0), "{stdout}");
    site.wait_same(&before).await;

    // An image that no node has.
    let absent = "localhost/weft:absent";
    let Run { code, stdout, .. } = run(site.suite(&["--image", absent, "--yes"])).await;
    println!("{stdout}");
    assert_eq!(code, Some(1), "{stdout}");
    for words in [
        "ImagePullBackOff",
        absent,
        "Push the image",
        "it needs install/operator-starts",
    ] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    site.wait_same(&before).await;
}
