//! Images of what runs in pods of tests, made once of what `scripts/node-programs` built and
//! unpacked. Each function returns the path of an OCI archive, for
//! [`LabBuilder::image`](super::LabBuilder::image). The constants are the images' names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use weft_images::Image;

use crate::host_programs::node_packages;
use crate::programs::{folder_from_script, installed};

/// The pod sandbox. Every node of a lab has it.
pub const PAUSE: &str = "localhost/pause:test";
/// Busybox with all of its programs, for pods of tests: `sh`, `ping`, `wget`, `httpd`, `nc`, `ip` …
pub const TOOLS: &str = "localhost/tools:test";
/// flannel with `iptables` and `nft`, as `/opt/bin/flanneld`.
pub const FLANNEL: &str = "localhost/flannel:test";
/// kube-proxy with `iptables`, `nft` and `conntrack`, as `/usr/local/bin/kube-proxy`.
pub const KUBE_PROXY: &str = "localhost/kube-proxy:test";
/// Multus, thick, with the paths of its own image.
pub const MULTUS: &str = "localhost/multus:test";

/// The CNI plugins `bridge` and `tuning` with the shell that installs them, for the add-on
/// linuxBridge.
pub const CNI_PLUGINS: &str = "localhost/cni-default-plugins:test";

/// Stands for bridge-marker, whose Go module is not published. It reports its health, and nothing
/// else.
pub const BRIDGE_MARKER: &str = "localhost/bridge-marker:test";

/// ovs-cni: its plugins and its marker, where its own image has them, with the tools that its
/// manifest runs.
pub const OVS_CNI: &str = "localhost/ovs-cni-plugin:test";

/// CoreDNS with the plugins that secondary DNS configures, as `/coredns`.
pub const COREDNS: &str = "localhost/coredns:test";

/// Raise it when an image below changes, so that archives made before are not used any more.
const RECIPE: u32 = 2;

/// The folder that `scripts/node-programs` prints. The first time, this builds for some minutes and
/// shows its progress on stderr.
///
/// # Errors
/// The build failed (its output is on stderr).
pub fn programs() -> Result<PathBuf> {
    folder_from_script("node-programs", &[])
}

/// The archive of [`PAUSE`].
///
/// # Errors
/// The programs cannot be built, or the archive cannot be written.
pub(super) fn pause() -> Result<PathBuf> {
    archive(PAUSE, |image, programs| {
        Ok(image
            .program("/pause", programs.join("pods/pause"))?
            .entrypoint(["/pause"])
            .user(65535, 65535))
    })
}

/// The archive of [`TOOLS`].
///
/// # Errors
/// The programs cannot be built or fetched, or the archive cannot be written.
pub fn tools() -> Result<PathBuf> {
    archive(
        TOOLS,
        |image, _| Ok(busybox(image)?.entrypoint(["/bin/sh"])),
    )
}

/// The archive of [`FLANNEL`].
///
/// # Errors
/// As [`tools`].
pub fn flannel() -> Result<PathBuf> {
    archive(FLANNEL, |image, programs| {
        let image =
            packet_filters(image)?.program("/opt/bin/flanneld", programs.join("pods/flanneld"))?;
        Ok(image.entrypoint(["/opt/bin/flanneld"]))
    })
}

/// The archive of [`KUBE_PROXY`].
///
/// # Errors
/// As [`flannel`].
pub fn kube_proxy() -> Result<PathBuf> {
    archive(KUBE_PROXY, |image, programs| {
        let image = packet_filters(image)?.program(
            "/usr/local/bin/kube-proxy",
            programs.join("pods/kube-proxy"),
        )?;
        let image = packaged(image, "/usr/sbin/conntrack")?;
        Ok(image.entrypoint(["/usr/local/bin/kube-proxy"]))
    })
}

/// The archive of [`MULTUS`]. None where its module could not be had.
///
/// # Errors
/// The programs cannot be built, or the archive cannot be written.
pub fn multus() -> Result<Option<PathBuf>> {
    if !programs()?.join("pods/multus-daemon").is_file() {
        return Ok(None);
    }
    let made = archive(MULTUS, |image, programs| {
        // The shell is for the hooks of its DaemonSet. The daemon looks for pods' namespaces below
        // /var/run.
        let mut image = busybox(image)?.symlink("/var/run", "/run");
        // The installer looks for passthru under this name.
        for (name, program) in [
            ("multus-daemon", "multus-daemon"),
            ("multus-shim", "multus-shim"),
            ("install_multus", "install_multus"),
            ("passthru", "passthru-cni"),
        ] {
            image = image.program(
                format!("/usr/src/multus-cni/bin/{name}"),
                programs.join("pods").join(program),
            )?;
        }
        Ok(image.entrypoint(["/usr/src/multus-cni/bin/multus-daemon"]))
    });
    made.map(Some)
}

/// The archive of [`CNI_PLUGINS`].
///
/// # Errors
/// The programs cannot be built, or the archive cannot be written.
pub fn cni_plugins() -> Result<PathBuf> {
    archive(CNI_PLUGINS, |mut image, programs| {
        for program in ["bash", "cp", "ln", "mv", "sha256sum", "sleep"] {
            image = image.program(format!("/bin/{program}"), installed(program)?)?;
        }
        for plugin in ["bridge", "tuning"] {
            let from = programs.join("cni").join(plugin);
            let output = Command::new("sha256sum")
                .arg("--binary")
                .arg(&from)
                .output()?;
            let checksum = String::from_utf8(output.stdout)?
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned();
            let path = format!("/usr/src/github.com/containernetworking/plugins/bin/{plugin}");
            image = image
                .file(
                    format!("{path}.checksum"),
                    format!("{checksum}  {plugin}\n"),
                )
                .program(path, from)?;
        }
        Ok(image)
    })
}

/// The archive of [`BRIDGE_MARKER`].
///
/// # Errors
/// As [`tools`].
pub fn bridge_marker() -> Result<PathBuf> {
    // On the address of the node: where Flannel runs, another program has the port on loopback.
    const SCRIPT: &str = "#!/bin/sh
mkdir -p /tmp/www && echo ok >/tmp/www/healthz
address=$(ip -4 -o addr show eth0 | sed 's|.*inet ||; s|/.*||')
exec httpd -f -p $address:8081 -h /tmp/www
";
    archive(BRIDGE_MARKER, |image, _| {
        Ok(busybox(image)?
            .file("/bin/marker.sh", SCRIPT)
            .entrypoint(["/bin/sh", "/bin/marker.sh"]))
    })
}

/// The archive of [`OVS_CNI`]. None where its module could not be had.
///
/// # Errors
/// As [`tools`].
pub fn ovs_cni() -> Result<Option<PathBuf>> {
    if !programs()?.join("pods/ovs-cni/ovs").is_file() {
        return Ok(None);
    }
    let made = archive(OVS_CNI, |image, programs| {
        let mut image = busybox(image)?;
        for program in [
            "ovs",
            "ovs-mirror-producer",
            "ovs-mirror-consumer",
            "marker",
        ] {
            image = image.program(
                format!("/{program}"),
                programs.join("pods/ovs-cni").join(program),
            )?;
        }
        Ok(image)
    });
    made.map(Some)
}

/// The archive of [`COREDNS`]. None where its module could not be had.
///
/// # Errors
/// The programs cannot be built, or the archive cannot be written.
pub fn coredns() -> Result<Option<PathBuf>> {
    if !programs()?.join("pods/coredns").is_file() {
        return Ok(None);
    }
    archive(COREDNS, |image, programs| {
        Ok(image
            .program("/coredns", programs.join("pods/coredns"))?
            .entrypoint(["/coredns"]))
    })
    .map(Some)
}

/// The archive of an image, which is made if it is not there yet.
fn archive(reference: &str, fill: impl FnOnce(Image, &Path) -> Result<Image>) -> Result<PathBuf> {
    let programs = programs()?;
    let name = reference.trim_start_matches("localhost/").replace(':', "-");
    let path = programs.join("images").join(format!("{name}-{RECIPE}.tar"));
    static WRITING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    if !path.is_file() {
        let image = Image::new(reference)
            .file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
            .file("/etc/group", "root:x:0:\n")
            .file("/etc/nsswitch.conf", "hosts: files dns\n")
            .directory("/tmp", 0o1777)
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            );
        fill(image, &programs)?.write(&path)?;
    }
    Ok(path)
}

/// Adds busybox with all of its programs, `/bin/sh` and so on.
///
/// # Errors
/// It cannot be fetched.
pub fn busybox(image: Image) -> Result<Image> {
    let busybox = node_packages()?.join("usr/bin/busybox");
    let output = Command::new(&busybox).arg("--list").output()?;
    let list = String::from_utf8(output.stdout)?;
    // It is static.
    let image = image.program("/bin/busybox", busybox)?;
    Ok(list
        .lines()
        .filter(|name| *name != "busybox")
        .fold(image, |image, name| {
            image.symlink(format!("/bin/{name}"), "busybox")
        }))
}

/// Adds a program or library of the nodes' packages, at the path that it has there.
fn packaged(image: Image, path: impl AsRef<Path>) -> Result<Image> {
    let packages = node_packages()?;
    let from = below(&packages, &path);
    Ok(image.program_below(packages, path, from)?)
}

/// The place of an absolute path of an image below a root folder of this machine.
fn below(root: &Path, path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// iptables, with the extensions that it loads, and nft.
fn packet_filters(image: Image) -> Result<Image> {
    // One program under many names.
    let mut image = packaged(image, "/usr/sbin/iptables")?;
    image = packaged(image, "/usr/sbin/nft")?;
    for name in [
        "iptables-save",
        "iptables-restore",
        "ip6tables",
        "ip6tables-save",
        "ip6tables-restore",
    ] {
        image = image.symlink(format!("/usr/sbin/{name}"), "iptables");
    }
    let folders = [
        "/usr/lib/x86_64-linux-gnu/xtables",
        "/usr/lib/aarch64-linux-gnu/xtables",
        "/usr/lib64/xtables",
        "/usr/lib/xtables",
    ];
    let packages = node_packages()?;
    let (inside, folder) = folders
        .iter()
        .map(|folder| (folder, below(&packages, folder)))
        .find(|(_, folder)| folder.is_dir())
        .context("the extensions of iptables are not found")?;
    for extension in std::fs::read_dir(folder)? {
        let name = extension?.file_name();
        let path = Path::new(inside).join(name);
        if path.extension().is_some_and(|extension| extension == "so") {
            image = packaged(image, &path)?;
        }
    }
    // A lock file is made there.
    Ok(image.directory("/run", 0o755))
}
