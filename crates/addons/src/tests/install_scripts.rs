//! The shell scripts in the manifests, run by a real shell against folders that stand for the host.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;
use weft_plan::parse_yaml;

/// The only argument of a container's shell.
fn script(manifest: &str, workload: &str, pointer: &str) -> String {
    let manifests = parse_yaml(manifest).unwrap();
    let workload = manifests
        .iter()
        .find(|m| m.key().kind.kind == "DaemonSet" && m.key().name == workload)
        .unwrap();
    workload
        .body()
        .pointer(pointer)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn executable(path: PathBuf, content: &str) {
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

fn link(path: PathBuf) -> String {
    fs::read_link(path).unwrap().to_str().unwrap().to_owned()
}

/// Nothing is left over but these.
fn assert_only(folder: &Path, expected: &[&str]) {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, expected);
}

/// A folder of plugins where the container runtime looks: one of the default network is there.
fn plugins() -> TempDir {
    let folder = TempDir::new().unwrap();
    executable(folder.path().join("loopback"), "of the default network");
    folder
}

/// A script, as the container runs it where the container runtime looks for plugins in one folder.
fn command(shell: &str, script: &str) -> Command {
    let mut command = Command::new(shell);
    command
        .args(["-ceu", script])
        .env("SEVERAL_PLUGIN_FOLDERS", "");
    command
}

/// Returns the last words of a script that fails.
fn complaint(shell: &str, script: &str) -> String {
    let output = command(shell, script).output().unwrap();
    assert!(!output.status.success(), "it does not fail");
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap()
}

/// Kubelet puts the end of a failed container's log into its status, and status of the resource has
/// the first 300 characters of it.
fn assert_one_short_line(complaint: &str, expected: &str) {
    assert!(complaint.starts_with(expected), "{complaint}");
    assert!(
        complaint.ends_with('\n') && complaint.lines().count() == 1 && complaint.len() <= 300,
        "{complaint}"
    );
}

const WRONG_FOLDER: &str = "spec.hostPaths.cniBinDir is not right for this node";

mod linux_bridge {
    use super::*;

    struct Host {
        from: TempDir,
        to: TempDir,
    }

    impl Host {
        /// With both plugins in the image, and their checksums as the image has them.
        fn new() -> Self {
            let host = Self {
                from: TempDir::new().unwrap(),
                to: plugins(),
            };
            host.image("1");
            host
        }

        fn image(&self, version: &str) {
            for plugin in ["bridge", "tuning"] {
                executable(
                    self.from.path().join(plugin),
                    &format!("{plugin} {version}"),
                );
                let sum = Command::new("sha256sum")
                    .arg(plugin)
                    .current_dir(&self.from)
                    .output()
                    .unwrap();
                fs::write(
                    self.from.path().join(format!("{plugin}.checksum")),
                    sum.stdout,
                )
                .unwrap();
            }
        }

        fn script(&self) -> String {
            script(
                include_str!("../../../../components/linux-bridge/plugin.yaml"),
                "kube-cni-linux-bridge-plugin",
                "/spec/template/spec/containers/0/args/0",
            )
            .replace(
                "/usr/src/github.com/containernetworking/plugins/bin",
                self.from.path().to_str().unwrap(),
            )
            .replace("/opt/cni/bin", self.to.path().to_str().unwrap())
        }

        fn start(&self) -> Child {
            command("/bin/bash", &self.script())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        }

        /// Runs the script until it idles, then ends it as kubelet would.
        fn install(&self) {
            let mut child = self.start();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let idle = lines.any(|line| line.unwrap().starts_with("done"));
            // The shell has become the process that idles: nothing else is left to end.
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(idle, "the script did not come to its end");
        }

        fn path(&self, name: &str) -> PathBuf {
            self.to.path().join(name)
        }
    }

    #[test]
    fn an_empty_node_gets_both_names_of_each_plugin() {
        let host = Host::new();
        host.install();
        for plugin in ["bridge", "tuning"] {
            assert_eq!(text(host.path(plugin)), format!("{plugin} 1"));
            assert_eq!(link(host.path(plugin)), format!("cnv-{plugin}"));
            assert_eq!(
                fs::metadata(host.path(plugin)).unwrap().mode() & 0o111,
                0o111,
                "executable"
            );
        }
        assert_only(
            host.to.path(),
            &["bridge", "cnv-bridge", "cnv-tuning", "loopback", "tuning"],
        );
    }

    #[test]
    fn the_nodes_own_plugin_stays_and_gets_a_second_name() {
        let host = Host::new();
        executable(host.path("bridge"), "the node's");
        host.install();
        assert_eq!(
            (text(host.path("bridge")), link(host.path("cnv-bridge"))),
            ("the node's".to_owned(), "bridge".to_owned())
        );
        assert_eq!(link(host.path("tuning")), "cnv-tuning");
    }

    #[test]
    fn an_update_replaces_files_and_never_writes_into_one() {
        let host = Host::new();
        host.install();
        let inode = fs::metadata(host.path("cnv-bridge")).unwrap().ino();
        let running = fs::File::open(host.path("cnv-bridge")).unwrap();
        host.image("2");
        host.install();
        assert_eq!(text(host.path("bridge")), "bridge 2");
        assert_ne!(fs::metadata(host.path("cnv-bridge")).unwrap().ino(), inode);
        assert_eq!(
            std::io::read_to_string(running).unwrap(),
            "bridge 1",
            "who runs the old one keeps it"
        );
        assert_only(
            host.to.path(),
            &["bridge", "cnv-bridge", "cnv-tuning", "loopback", "tuning"],
        );
    }

    #[test]
    fn a_folder_where_no_runtime_looks_is_told() {
        let host = Host::new();
        fs::remove_file(host.path("loopback")).unwrap();
        // Files of another add-on in the folder prove nothing.
        executable(host.path("multus-shim"), "");
        assert_one_short_line(&complaint("/bin/bash", &host.script()), WRONG_FOLDER);
        assert_only(host.to.path(), &["multus-shim"]);
    }

    #[test]
    fn an_image_without_its_plugins_is_no_success() {
        let host = Host::new();
        fs::remove_file(host.from.path().join("bridge")).unwrap();
        assert!(!host.start().wait_with_output().unwrap().status.success());
        assert!(!host.path("bridge").exists() && !host.path("cnv-bridge").exists());
    }

    #[test]
    fn a_damaged_plugin_is_not_installed() {
        let host = Host::new();
        fs::write(host.from.path().join("bridge"), "damaged").unwrap();
        let output = host.start().wait_with_output().unwrap();
        assert!(!output.status.success());
        assert!(!host.path("bridge").exists() && !host.path("cnv-bridge").exists());
    }
}

/// The script of the Open vSwitch plugins. `run` stands for the folder of its socket.
fn ovs(from: &TempDir, to: &TempDir, run: &TempDir) -> String {
    script(
        include_str!("../../../../components/ovs/daemonset.yaml"),
        "ovs-cni-amd64",
        "/spec/template/spec/initContainers/0/args/0",
    )
    .replace("/host/opt/cni/bin", to.path().to_str().unwrap())
    .replace("/host/var/run/openvswitch", run.path().to_str().unwrap())
    .replace(
        "cp \"/$plugin\"",
        &format!("cp \"{}/$plugin\"", from.path().display()),
    )
}

#[test]
fn the_ovs_plugins_are_replaced_and_never_written_into() {
    let (from, to, run) = (TempDir::new().unwrap(), plugins(), TempDir::new().unwrap());
    let _open_vswitch = UnixListener::bind(run.path().join("db.sock")).unwrap();
    let plugins = ["ovs", "ovs-mirror-consumer", "ovs-mirror-producer"];
    let mut inodes = Vec::new();
    for version in ["1", "2"] {
        for plugin in plugins {
            executable(from.path().join(plugin), &format!("{plugin} {version}"));
        }
        assert!(
            command("/bin/sh", &ovs(&from, &to, &run))
                .status()
                .unwrap()
                .success()
        );
        for plugin in plugins {
            assert_eq!(text(to.path().join(plugin)), format!("{plugin} {version}"));
        }
        assert_only(
            to.path(),
            &[
                "loopback",
                "ovs",
                "ovs-mirror-consumer",
                "ovs-mirror-producer",
            ],
        );
        inodes.push(fs::metadata(to.path().join("ovs")).unwrap().ino());
    }
    assert_ne!(inodes[0], inodes[1]);
}

#[test]
fn a_node_without_open_vswitch_is_told() {
    let (from, to, run) = (TempDir::new().unwrap(), plugins(), TempDir::new().unwrap());
    // A leftover file of an earlier Open vSwitch is no socket.
    fs::write(run.path().join("ovsdb-server.pid"), "1").unwrap();
    assert_one_short_line(
        &complaint("/bin/sh", &ovs(&from, &to, &run)),
        "Open vSwitch does not run on this node: there is no socket /var/run/openvswitch/db.sock. Start it",
    );
    assert_only(to.path(), &["loopback"]);

    let (_open_vswitch, empty) = (
        UnixListener::bind(run.path().join("db.sock")).unwrap(),
        TempDir::new().unwrap(),
    );
    assert_one_short_line(
        &complaint("/bin/sh", &ovs(&from, &empty, &run)),
        WRONG_FOLDER,
    );
}

/// The script of the macvtap plugin.
fn macvtap(from: &TempDir, to: &TempDir) -> String {
    script(
        include_str!("../../../../components/macvtap/daemonset.yaml"),
        "macvtap-cni",
        "/spec/template/spec/initContainers/0/args/0",
    )
    .replace("/host/opt/cni/bin", to.path().to_str().unwrap())
    .replace(
        "cp /macvtap-cni",
        &format!("cp \"{}/macvtap-cni\"", from.path().display()),
    )
}

#[test]
fn the_macvtap_plugin_is_replaced_and_never_written_into() {
    let (from, to) = (TempDir::new().unwrap(), plugins());
    let mut inodes = Vec::new();
    for version in ["1", "2"] {
        executable(from.path().join("macvtap-cni"), version);
        assert!(
            command("/bin/sh", &macvtap(&from, &to))
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(text(to.path().join("macvtap")), version);
        assert_only(to.path(), &["loopback", "macvtap"]);
        let installed = fs::metadata(to.path().join("macvtap")).unwrap();
        assert_eq!(installed.mode() & 0o111, 0o111, "executable");
        inodes.push(installed.ino());
    }
    assert_ne!(inodes[0], inodes[1]);
}

#[test]
fn macvtap_tells_of_a_folder_where_no_runtime_looks() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    assert_one_short_line(&complaint("/bin/sh", &macvtap(&from, &to)), WRONG_FOLDER);
    assert_only(to.path(), &[]);
    // Unless the others may be elsewhere.
    executable(from.path().join("macvtap-cni"), "1");
    assert!(
        command("/bin/sh", &macvtap(&from, &to))
            .env("SEVERAL_PLUGIN_FOLDERS", "yes")
            .status()
            .unwrap()
            .success()
    );
    assert_only(to.path(), &["macvtap"]);
}

/// The check stands in three scripts, since each manifest is valid as it stands. All scripts
/// recognise an add-on's plugin by the same rule.
#[test]
fn all_scripts_tell_a_wrong_folder_by_the_same_signs() {
    let check = |manifest: &str| {
        let check = manifest
            .split_once("foreign=\n")
            .unwrap()
            .1
            .split_once("exit 1\n")
            .unwrap()
            .0;
        // The folder is mounted under different names.
        let lines = check
            .lines()
            .filter(|line| !line.trim_start().starts_with("for file in "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let linux_bridge = check(include_str!(
        "../../../../components/linux-bridge/plugin.yaml"
    ));
    assert!(
        linux_bridge.contains("macvtap") && linux_bridge.contains(WRONG_FOLDER),
        "{linux_bridge}"
    );
    assert_eq!(
        check(include_str!("../../../../components/ovs/daemonset.yaml")),
        linux_bridge
    );
    assert_eq!(
        check(include_str!(
            "../../../../components/macvtap/daemonset.yaml"
        )),
        linux_bridge
    );
}
