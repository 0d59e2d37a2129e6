//! `weft node`: the real binary, a real API server, folders of a node.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_plan::{CniReport, PluginsReport};
use weft_system_tests::command_line::Run;
use weft_testenv::{ControlPlane, Lent};

const PATIENCE: Duration = Duration::from_secs(60);
const NAME: &str = "10-flannel.conflist";

/// The folders of a node, as its container runtime has them.
struct Folders(TempDir);

impl Folders {
    fn new(plugins: &[&str]) -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        for folder in ["net.d", "bin"] {
            fs::create_dir(folders.path(folder)).unwrap();
        }
        for plugin in plugins {
            let path = folders.0.path().join("bin").join(plugin);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // As the kubelet makes it.
        fs::write(folders.path("report"), "").unwrap();
        folders
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, kubeconfig: &Path, node: &str, more: &[&str]) -> Command {
        let (conf_dir, bin_dir, report) =
            (self.path("net.d"), self.path("bin"), self.path("report"));
        let mut arguments = vec![
            "node",
            "cni-config",
            "--conf-dir",
            &conf_dir,
            "--bin-dir",
            &bin_dir,
            "--report",
            &report,
        ];
        arguments.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
        arguments.extend(more);
        let mut command = weft_system_tests::command_line::command(self.0.path(), &arguments);
        command.env("NODE_NAME", node);
        command
    }

    fn run(&self, kubeconfig: &Path, node: &str, more: &[&str]) -> Run {
        weft_system_tests::command_line::run(&mut self.command(kubeconfig, node, more), "")
    }

    /// Reads the report in the termination message.
    fn report(&self) -> CniReport {
        let text = fs::read_to_string(self.path("report")).unwrap();
        CniReport::parse(&text).unwrap_or_else(|| panic!("{text:?}"))
    }

    fn configuration(&self) -> Value {
        serde_json::from_slice(&fs::read(self.0.path().join("net.d").join(NAME)).unwrap()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path("net.d"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

const PLUGINS: [&str; 3] = ["bridge", "host-local", "portmap"];

/// The container's account: the ServiceAccount of Flannel's pods, with the role that Weft gives it.
async fn cluster() -> (Lent, std::path::PathBuf) {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let manifests = ["namespace", "rbac"].map(|file| {
        fs::read_to_string(
            weft_system_tests::command_line::root().join(format!("components/flannel/{file}.yaml")),
        )
        .unwrap()
    });
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &manifests.join("\n---\n"))
        .await
        .unwrap();
    let kubeconfig = cluster
        .service_account_kubeconfig("kube-flannel", "flannel")
        .await
        .unwrap();
    (cluster, kubeconfig)
}

async fn add(cluster: &ControlPlane, node: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}).to_string();
    cluster
        .kubectl_with_input(&["create", "-f", "-"], &node)
        .await
        .unwrap();
}

async fn give(cluster: &ControlPlane, node: &str, cidrs: &[&str]) {
    let patch = json!({"spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}}).to_string();
    cluster
        .kubectl(&["patch", "node", node, "--type=merge", "-p", &patch])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_gets_its_cni_configuration_once_it_has_its_ranges() {
    let (cluster, kubeconfig) = cluster().await;
    add(&cluster, "late").await;
    let folders = Folders::new(&PLUGINS);
    let child = folders
        .command(&kubeconfig, "late", &["--mtu=1450"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It watches: then it knows that the node has none yet.
    let deadline = Instant::now() + PATIENCE;
    let watches = || {
        cluster.audit_events().unwrap().iter().any(|event| {
            event.user.contains("kube-flannel")
                && event.verb == "watch"
                && event.uri.contains("metadata.name%3Dlate")
        })
    };
    while !watches() {
        assert!(Instant::now() < deadline, "it does not watch its node");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(folders.names(), Vec::<String>::new());
    give(&cluster, "late", &["10.244.7.0/24", "fd00:10:244:7::/64"]).await;
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let configuration = folders.configuration();
    assert_eq!(
        configuration["plugins"][0]["ipam"]["ranges"],
        json!([[{"subnet": "10.244.7.0/24"}], [{"subnet": "fd00:10:244:7::/64"}]])
    );
    assert_eq!(
        (
            &configuration["plugins"][0]["type"],
            &configuration["plugins"][0]["mtu"]
        ),
        (&json!("bridge"), &json!(1450))
    );
    assert_eq!(folders.names(), [NAME], "nothing else is left");
    let report = folders.report();
    assert_eq!(report.pod_cidrs, ["10.244.7.0/24", "fd00:10:244:7::/64"]);
    assert_eq!(
        (report.written.as_deref(), report.error.as_deref()),
        (Some(NAME), None)
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        fs::read_to_string(folders.path("report")).unwrap()
    );

    // Once more, as after a restart of the node: nothing is written. Then with another MTU.
    let inode = || {
        fs::metadata(folders.0.path().join("net.d").join(NAME))
            .unwrap()
            .ino()
    };
    let before = inode();
    let again = folders.run(&kubeconfig, "late", &["--mtu=1450"]);
    assert_eq!((again.code, inode()), (0, before), "{}", again.stderr);
    assert!(
        again.stderr.contains("is there already"),
        "{}",
        again.stderr
    );
    fs::write(folders.0.path().join("net.d/05-other.conf"), "{}").unwrap();
    let changed = folders.run(&kubeconfig, "late", &["--mtu=1400"]);
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    assert_ne!(inode(), before, "a new file took the name of the old one");
    assert_eq!(folders.configuration()["plugins"][0]["mtu"], 1400);
    assert_eq!(
        (folders.report().shadowed_by, folders.names()),
        (
            vec!["05-other.conf".to_owned()],
            vec!["05-other.conf".to_owned(), NAME.to_owned()]
        )
    );

    // The classic plugin.
    fs::copy(
        folders.0.path().join("bin/bridge"),
        folders.0.path().join("bin/flannel"),
    )
    .unwrap();
    let classic = folders.run(&kubeconfig, "late", &["--cni-type=flannel"]);
    assert_eq!(
        (classic.code, &folders.configuration()["plugins"][0]["type"]),
        (0, &json!("flannel")),
        "{}",
        classic.stderr
    );

    let writes = cluster.audit_events().unwrap();
    assert!(
        writes
            .iter()
            .filter(|event| event.user.contains("kube-flannel"))
            .all(|event| event.verb == "list" || event.verb == "watch")
    );
}

#[tokio::test]
async fn missing_inputs_are_reported_with_the_way_out() {
    let (cluster, kubeconfig) = cluster().await;
    add(&cluster, "bare").await;

    let folders = Folders::new(&["bridge"]);
    let run = folders.run(&kubeconfig, "bare", &[]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("node bare has no CNI plugin host-local, portmap in")
            && run.stderr.contains("containernetworking-plugins"),
        "{}",
        run.stderr
    );
    let report = folders.report();
    assert_eq!(report.missing_plugins, ["host-local", "portmap"]);
    assert!(
        report
            .error
            .unwrap()
            .starts_with("node bare has no CNI plugin")
    );
    assert_eq!(
        folders.names(),
        Vec::<String>::new(),
        "a node with a configuration would become ready"
    );

    let folders = Folders::new(&PLUGINS);
    let run = folders.run(&kubeconfig, "bare", &["--wait=5"]);
    assert_eq!(run.code, 2);
    let error = folders.report().error.unwrap();
    assert!(
        error.starts_with("node bare has no spec.podCIDRs: the kube-controller-manager has to"),
        "{error}"
    );
    assert!(run.stderr.contains(&error), "{}", run.stderr);
    folders.run(&kubeconfig, "missing", &["--wait=5"]);
    assert!(
        folders
            .report()
            .error
            .unwrap()
            .starts_with("there is no node missing")
    );

    cluster
        .kubectl(&["delete", "clusterrolebinding", "flannel"])
        .await
        .unwrap();
    let user = "system:serviceaccount:kube-flannel:flannel";
    weft_testenv::wait::wait_until("the right is gone", async || {
        let may = ["auth", "can-i", "list", "nodes", "--as", user];
        let answer = cluster.kubectl(&may).await;
        answer.err().map(drop).ok_or("not yet".to_owned())
    })
    .await;
    folders.run(&kubeconfig, "bare", &["--wait=5"]);
    let error = folders.report().error.unwrap();
    assert!(
        error.contains("does not show node bare") && error.contains("forbidden"),
        "{error}"
    );

    fs::remove_dir_all(folders.path("bin")).unwrap();
    let run = folders.run(&kubeconfig, "bare", &[]);
    assert!(
        run.code == 2 && run.stderr.contains("see --bin-dir"),
        "{}",
        run.stderr
    );
}

#[test]
fn people_can_ask_for_the_mtu() {
    let run = weft_system_tests::command_line::weft(Path::new("."), &["node", "mtu"]);
    match weft_host::default_mtu() {
        Ok(found) => assert_eq!(
            (run.code, run.stdout.trim()),
            (0, &*format!("{} ({})", found.mtu, found.route))
        ),
        Err(error) => assert!(
            run.code == 2 && run.stderr.contains(&error.to_string()),
            "{}",
            run.stderr
        ),
    }
}

#[test]
fn a_name_that_no_container_runtime_reads_is_refused() {
    for (name, said) in [
        ("10-flannel.yaml", "does not end in .conflist"),
        ("../x.conflist", "is no name of a file"),
        (".x.conflist", "is no name of a file"),
    ] {
        let run = weft_system_tests::command_line::weft(
            Path::new("."),
            &["node", "cni-config", "--node-name=n", "--name", name],
        );
        assert!(run.code == 2 && run.stderr.contains(said), "{}", run.stderr);
    }
    let run = weft_system_tests::command_line::weft(Path::new("."), &["node", "cni-config"]);
    assert!(
        run.code == 2 && run.stderr.contains("--node-name <NAME>"),
        "{}",
        run.stderr
    );
}

/// `weft node cni-plugins` with these arguments. `from` and `bin`, which is that of the node, are in
/// this folder.
fn cni_plugins(folder: &Path, from: &str, more: &[&str]) -> (Run, PluginsReport) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (from, to, report) = (path(from), path("bin"), path("report"));
    // As the kubelet makes it.
    fs::write(&report, "").unwrap();
    let mut arguments = vec!["node", "cni-plugins", "--from", &from, "--to", &to];
    arguments.extend(["--report", &report]);
    arguments.extend(more);
    let run = weft_system_tests::command_line::weft(folder, &arguments);
    let text = fs::read_to_string(&report).unwrap();
    assert_eq!(text, run.stdout.trim_end(), "{}", run.stderr);
    let report = PluginsReport::parse(&text).unwrap_or_else(|| panic!("{text:?} {}", run.stderr));
    (run, report)
}

/// The plugins are files that print nothing, as those of some distributions do.
#[test]
fn cni_plugins_are_installed_next_to_those_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let put = |name: &str, content: &str| {
        fs::write(path(name), format!("#!/bin/sh\n# {content}\n")).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    fs::create_dir(path("offered")).unwrap();
    for name in ["bridge", "macvlan", "static"] {
        put(&format!("offered/{name}"), "ours");
    }

    // The folder of the node is not there.
    let (run, report) = cni_plugins(folder.path(), "offered", &[]);
    assert_eq!(run.code, 2);
    let error = report.error.unwrap();
    let bin = path("bin");
    let why = format!(
        "a CNI plugin cannot be installed in {}, where the container runtime looks for them: see --to",
        bin.display()
    );
    assert!(
        error.starts_with(&why) && run.stderr.contains(&why),
        "{error}"
    );

    fs::create_dir(&bin).unwrap();
    put("bin/bridge", "of the distribution");
    let (run, report) = cni_plugins(folder.path(), "offered", &["--plugins", "bridge,macvlan"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let names = |part: &std::collections::BTreeMap<String, String>| {
        part.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&report.cni_plugins), ["macvlan"]);
    assert_eq!(names(&report.of_others), ["bridge"]);
    let bridge = fs::read_to_string(path("bin/bridge")).unwrap();
    assert!(bridge.contains("of the distribution"), "{bridge}");
    assert!(!path("bin/static").exists(), "it was not asked for");

    // Without names, all of them.
    let (run, report) = cni_plugins(folder.path(), "offered", &["--install", "missing"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(names(&report.cni_plugins), ["macvlan", "static"]);
    assert!(path("bin/static").exists());

    for name in ["../etc/passwd", ".hidden", "-x", ""] {
        let plugins = format!("--plugins={name}");
        let run = weft_system_tests::command_line::weft(
            folder.path(),
            &["node", "cni-plugins", "--from=offered", &plugins],
        );
        let is_refused = run.code == 2 && run.stderr.contains("is no name of a plugin");
        assert!(is_refused, "{}", run.stderr);
    }
    fs::create_dir(path("empty")).unwrap();
    let (run, report) = cni_plugins(folder.path(), "empty", &[]);
    assert!(run.code == 2 && report.error.unwrap().contains("holds no plugin"));
}
