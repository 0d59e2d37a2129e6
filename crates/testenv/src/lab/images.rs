//! Images of what runs in pods of tests, made once of what `scripts/node-programs` built and
//! unpacked. Each function returns the path of an OCI archive, for
//! [`LabBuilder::image`](super::LabBuilder::image). The constants are the images' names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use weft_images::Image;

use crate::host_programs::node_packages;
use crate::programs::{folder_from_script, installed};

/// The pod sandbox. Every node of a lab has it.
pub const PAUSE: &str = "localhost/pause:test";
/// Busybox with all of its programs, for pods of tests: `sh`, `ping`, `wget`, `httpd`, `nc`, `ip` …
pub const TOOLS: &str = "localhost/tools:test";
/// flannel with `iptables` and `nft`, as `/opt/bin/flanneld`, and with the tools that its own
/// manifest runs.
pub const FLANNEL: &str = "localhost/flannel:test";
/// The CNI plugin `flannel`, as `/flannel`, with the tools that install it.
pub const FLANNEL_CNI_PLUGIN: &str = "localhost/flannel-cni-plugin:test";
/// kube-proxy with `iptables`, `nft` and `conntrack`, as `/usr/local/bin/kube-proxy`.
pub const KUBE_PROXY: &str = "localhost/kube-proxy:test";
/// Multus, thick, with the paths of its own image.
pub const MULTUS: &str = "localhost/multus:test";

/// The CNI plugins `bridge` and `tuning` with the shell that installs them, for the add-on
/// linuxBridge.
pub const CNI_PLUGINS: &str = "localhost/cni-default-plugins:test";

/// A program in place of bridge-marker, whose Go module is not published: `testenv/bridge-marker`.
pub const BRIDGE_MARKER: &str = "localhost/bridge-marker:test";

/// ovs-cni: its plugins and its marker, where its own image has them, with the tools that its
/// manifest runs.
pub const OVS_CNI: &str = "localhost/ovs-cni-plugin:test";

/// The admission webhooks of Kubernetes' own tests, as `/webhook`. The webhook at `/configmaps`
/// refuses a ConfigMap whose `data` has `webhook-e2e-test: webhook-disallow`.
pub const WEBHOOK: &str = "localhost/webhook:test";

/// CoreDNS with the plugins that secondary DNS and [`Lab::start_dns`](super::Lab::start_dns)
/// configure, as `/coredns`.
pub const COREDNS: &str = "localhost/coredns:test";

/// The services behind the tutorial of Placement, as `scripts/services` fetches them: MariaDB of
/// Debian, with an entrypoint that makes a database and an account, and OpenStack Placement of PyPI
/// in Debian's Apache, with the paths of its own image.
pub const SERVICES: &str = "localhost/services:test";

/// Images by the names that Weft and the tutorials ask for. An archive below has both names, so a
/// node with it pulls nothing. The programs are as new as the versions that this tree pins, whatever
/// version the name has.
pub const ASKED_FOR: [(&str, &str); 8] = [
    (TOOLS, "docker.io/library/busybox:1.37"),
    (FLANNEL, "ghcr.io/flannel-io/flannel:v0.28.4"),
    (KUBE_PROXY, "registry.k8s.io/kube-proxy:v1.36.3"),
    (
        MULTUS,
        "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick",
    ),
    (
        CNI_PLUGINS,
        "quay.io/kubevirt/cni-default-plugins@sha256:976a24392c2a096c38c2663d234b2d3131f5c24558889196d30b9ac1b6716788",
    ),
    (BRIDGE_MARKER, "quay.io/kubevirt/bridge-marker:0.13.0"),
    (SERVICES, "docker.io/library/mariadb:11.8"),
    (
        SERVICES,
        "quay.io/podified-antelope-centos9/openstack-placement-api:current-podified",
    ),
];

/// Raise it when an image below changes, so that archives made before are not used any more.
const RECIPE: u32 = 5;

/// The modules of Apache that the configuration of Placement uses.
const APACHE_MODULES: [&str; 13] = [
    "mpm_event",
    "authz_core",
    "authz_host",
    "alias",
    "dir",
    "env",
    "filter",
    "headers",
    "mime",
    "setenvif",
    "socache_shmcb",
    "ssl",
    "wsgi",
];

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
        let image = packet_filters(busybox(image)?)?;
        let image = image.program("/opt/bin/flanneld", programs.join("pods/flanneld"))?;
        Ok(image.entrypoint(["/opt/bin/flanneld"]))
    })
}

/// The archive of [`FLANNEL_CNI_PLUGIN`].
///
/// # Errors
/// As [`tools`].
pub fn flannel_cni_plugin() -> Result<PathBuf> {
    archive(FLANNEL_CNI_PLUGIN, |image, programs| {
        Ok(busybox(image)?.program("/flannel", programs.join("pods/flannel-cni"))?)
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
/// The programs cannot be built, or the archive cannot be written.
pub fn bridge_marker() -> Result<PathBuf> {
    archive(BRIDGE_MARKER, |image, programs| {
        Ok(image
            .program("/marker", programs.join("pods/bridge-marker"))?
            .entrypoint(["/marker"]))
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

/// The archive of [`WEBHOOK`].
///
/// # Errors
/// The programs cannot be built, or the archive cannot be written.
pub fn webhook() -> Result<PathBuf> {
    archive(WEBHOOK, |image, programs| {
        Ok(image
            .program("/webhook", programs.join("pods/webhook"))?
            .entrypoint(["/webhook"]))
    })
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

/// The archive of [`SERVICES`], 400 MB.
///
/// # Errors
/// The services cannot be fetched, or the archive cannot be written.
pub fn services() -> Result<PathBuf> {
    const ENTRYPOINT: &str = include_str!("image/mariadb-entrypoint.sh");
    const HEALTH: &str = include_str!("image/mariadb-healthcheck.sh");
    let packages = folder_from_script("services", &["packages"])?;
    ensure!(
        packages != Path::new("/"),
        "the image of MariaDB and Placement is made of unpacked packages of Debian: apt is missing"
    );
    let placement = folder_from_script("services", &["placement"])?;
    // The name of the folder has a digest of all that is in it.
    let version = placement.file_name().unwrap_or_default().to_string_lossy();
    let file = format!("services-{version}");
    archive_as(&file, SERVICES, |image, _| {
        let image = busybox(image)?
            .tree("/usr", packages.join("usr"))?
            .tree("/opt/placement", &placement)?
            .symlink("/lib", "usr/lib")
            .symlink("/lib64", "usr/lib64")
            .symlink("/sbin", "usr/sbin")
            .file(
                "/etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nplacement:x:42482:42482::/:/usr/sbin/nologin\n",
            )
            .file("/etc/group", "root:x:0:\nplacement:x:42482:\n")
            .script("/usr/local/bin/docker-entrypoint.sh", ENTRYPOINT)
            .script("/usr/local/bin/healthcheck.sh", HEALTH)
            // Apache as it is on CentOS: its name, and its modules below /etc/httpd.
            .script(
                "/usr/sbin/httpd",
                "#!/bin/sh\nexec apache2 -d /etc/httpd -f conf/httpd.conf \"$@\"\n",
            )
            .symlink("/etc/httpd/modules", "/usr/lib/apache2/modules")
            .file(
                "/etc/httpd/conf.modules.d/00-all.conf",
                load_modules(&packages),
            )
            .file(
                "/etc/httpd/conf.modules.d/10-wsgi-python3.conf",
                "WSGIPythonHome /opt/placement\n",
            )
            .file("/etc/mime.types", "")
            // As Debian compiles Apache: for the sockets of mod_wsgi.
            .directory("/run/apache2", 0o1777)
            .directory("/run/lock/apache2", 0o1777)
            .directory("/var/lib", 0o755)
            .symlink("/var/run", "/run");
        let image =
            ["placement-manage", "placement-status"]
                .into_iter()
                .fold(image, |image, name| {
                    image.symlink(
                        format!("/usr/bin/{name}"),
                        format!("/opt/placement/bin/{name}"),
                    )
                });
        // The pods of Placement name their programs.
        Ok(image.entrypoint(["docker-entrypoint.sh"]))
    })
}

/// The configuration that loads these modules. Some are compiled into Debian's Apache.
fn load_modules(packages: &Path) -> String {
    let folder = packages.join("usr/lib/apache2/modules");
    APACHE_MODULES
        .into_iter()
        .filter(|name| folder.join(format!("mod_{name}.so")).is_file())
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect()
}

/// The archive of an image, which is made if it is not there yet.
fn archive(reference: &str, fill: impl FnOnce(Image, &Path) -> Result<Image>) -> Result<PathBuf> {
    let file = reference.trim_start_matches("localhost/").replace(':', "-");
    archive_as(&file, reference, fill)
}

/// The same in a file of this name, which differs when the content does.
fn archive_as(
    file: &str,
    reference: &str,
    fill: impl FnOnce(Image, &Path) -> Result<Image>,
) -> Result<PathBuf> {
    let programs = programs()?;
    let path = programs.join("images").join(format!("{file}-{RECIPE}.tar"));
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
        let names = ASKED_FOR.iter().filter(|(of, _)| *of == reference);
        let image = names.fold(image, |image, (_, name)| image.also_named(*name));
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
