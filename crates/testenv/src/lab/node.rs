//! A real node: containerd and the kubelet, in namespaces and below a root folder of its own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{
    command::{Input, output},
    host_programs,
    init::{Init, enter},
    network::{self, Network},
    open_vswitch,
    pki::Authority,
    process::end_of,
    wait::{START_TIMEOUT, within},
};

use super::cgroups::Cgroups;
use super::config;
use super::site::addresses;

const INIT: &str = include_str!("node-init.sh");
const STARTUP_TAINT: &str =
    include_str!("../../../../examples/node-network/readiness/kubelet.yaml");

/// A node to be.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    name: String,
    mtu: u16,
    data_nic: bool,
    open_vswitch: bool,
    network_manager: bool,
    pub(super) startup_taint: bool,
    pub(super) control_plane: bool,
}

impl NodeOptions {
    /// A worker with one network card, MTU 1500.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mtu: 1500,
            data_nic: false,
            open_vswitch: false,
            network_manager: false,
            startup_taint: false,
            control_plane: false,
        }
    }

    /// MTU of `eth0`, in bytes.
    #[must_use]
    pub fn mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Adds a second card `eth1` without addresses, on a bridge that only such cards are on.
    #[must_use]
    pub fn data_nic(mut self) -> Self {
        self.data_nic = true;
        self
    }

    /// Runs Open vSwitch on it, with its datapath in user space: the machine's own, or that of
    /// `scripts/open-vswitch`. A NetworkManager on the same node has the plugin for it.
    #[must_use]
    pub fn open_vswitch(mut self) -> Self {
        self.open_vswitch = true;
        self
    }

    /// Runs D-Bus and NetworkManager on it: the machine's. NetworkManager configures `eth0` by a
    /// profile, and has none for `eth1`.
    #[must_use]
    pub fn network_manager(mut self) -> Self {
        self.network_manager = true;
        self
    }

    /// Has the kubelet register it as `examples/node-network/readiness/kubelet.yaml` says, with the
    /// startup taint.
    #[must_use]
    pub fn startup_taint(mut self) -> Self {
        self.startup_taint = true;
        self
    }

    /// Gives it the label `node-role.kubernetes.io/control-plane`, so that operators are scheduled
    /// there. (The control plane itself runs next to the nodes.) No taint.
    #[must_use]
    pub fn control_plane(mut self) -> Self {
        self.control_plane = true;
        self
    }
}

/// A node of a [`Lab`](super::Lab). It has what kubeadm would give it but for a network: its
/// network card is `eth0`, the second one `eth1`.
#[derive(Debug)]
pub struct Node {
    name: String,
    addresses: Vec<IpAddr>,
    init: Init,
    dir: PathBuf,
}

/// The parts that all nodes of a lab share.
pub(crate) struct Surroundings<'a> {
    /// Folder of the lab.
    pub(crate) dir: &'a Path,
    /// Folder of what `scripts/node-programs` built.
    pub(crate) programs: &'a Path,
    pub(crate) cgroups: &'a Cgroups,
    pub(crate) network: &'a Network,
    pub(crate) authority: &'a Authority,
    pub(crate) dual_stack: bool,
}

impl Node {
    /// Starts the `index`th node (from 1). It is not known to the API server yet when this returns.
    pub(crate) fn start(options: &NodeOptions, index: u8, around: &Surroundings) -> Result<Self> {
        let name = options.name.clone();
        let dir = around.dir.join("nodes").join(&name);
        let (root, logs) = (dir.join("root"), dir.join("log"));
        fs::create_dir_all(&root)?;
        fs::create_dir_all(&logs)?;
        let registration = if options.startup_taint {
            STARTUP_TAINT
        } else {
            ""
        };
        config::write(
            &root,
            &name,
            &around.cgroups.node(&name)?,
            around.authority,
            registration,
        )?;
        let script = dir.join("node-init.sh");
        fs::write(&script, INIT)?;

        let addresses = options.addresses(index, around.dual_stack);
        let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let folders = [&root, around.programs, &logs].map(|folder| folder.display().to_string());
        let [root, programs, logs] = &folders;
        let folders = options.folders()?;
        let usr = host_programs::layers(folders.iter().map(PathBuf::as_path));
        let open_vswitch = if options.open_vswitch { "ovs" } else { "" };
        let gateways: Vec<_> = options.gateways(&addresses).collect();
        let init = Init::start(
            &script,
            &[
                &name,
                &list.join(","),
                root,
                programs,
                logs,
                open_vswitch,
                &gateways.join(","),
                &usr,
            ],
            &dir,
        )?;
        let node = Self {
            name,
            addresses,
            init,
            dir,
        };
        node.plug_in(options, index, around)?;
        Ok(node)
    }

    /// Connects it by a pair of veth devices for each card.
    fn plug_in(&self, options: &NodeOptions, index: u8, around: &Surroundings) -> Result<()> {
        let init = self.init.pid();
        let cards = [("eth0", "br0"), ("eth1", "br1")];
        for (card, bridge) in &cards[..if options.data_nic { 2 } else { 1 }] {
            let port = format!("{}-{index}", bridge.replace("br", "port"));
            network::ip(
                &around.network.file(),
                &format!(
                    "link add {port} type veth peer name {card} netns {init}\nlink set {port} master {bridge} up\n"
                ),
            )?;
        }
        let mut commands = format!("link set lo up\nlink set eth0 mtu {}\n", options.mtu);
        if options.network_manager {
            return network::ip(&network::of(init), &commands);
        }
        for address in &self.addresses {
            commands += &match address {
                IpAddr::V4(address) => format!("addr add {address}/24 dev eth0\n"),
                // Without duplicate address detection it can be used at once.
                IpAddr::V6(address) => format!("addr add {address}/64 dev eth0 nodad\n"),
            };
        }
        commands += "link set eth0 up\n";
        if options.data_nic {
            commands += "link set eth1 up\n";
        }
        if self.addresses.len() > 1 {
            commands += &format!("route add ::/0 via {}\n", addresses::GATEWAY_V6);
        }
        // Last: its process 1 waits for this one.
        commands += &format!("route add default via {}\n", addresses::API_SERVER);
        network::ip(&network::of(init), &commands)
    }

    /// Of the Node object, and its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// IPv4 first. In a lab of two families IPv6 second.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Runs a program in the node as root, outside of any pod, and returns its stdout.
    ///
    /// # Errors
    /// It cannot be started or failed: the error holds its stderr.
    pub async fn exec(&self, command: &[&str]) -> Result<String> {
        self.run(command, Input::Text("")).await
    }

    /// Loads the images of an archive (`docker save` or OCI) into containerd, for pods.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub async fn import(&self, archive: &Path) -> Result<()> {
        let file = fs::File::open(archive)
            .with_context(|| format!("cannot open {}", archive.display()))?;
        // Without --local the archive is read by containerd, which sees no standard input.
        let import = self
            .run(
                &[
                    "ctr",
                    "--namespace=k8s.io",
                    "images",
                    "import",
                    "--local",
                    "-",
                ],
                Input::File(file),
            )
            .await;
        import
            .with_context(|| format!("{} is not imported", archive.display()))
            .map(drop)
    }

    /// A file of the node, seen from this machine. The path is the one inside. Of use while the
    /// node runs.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let inside = path.as_ref();
        Path::new(&format!("/proc/{}/root", self.init.pid()))
            .join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The folder with `kubelet.log` and `containerd.log`.
    fn logs(&self) -> PathBuf {
        self.dir.join("log")
    }

    async fn run(&self, command: &[&str], input: Input<'_>) -> Result<String> {
        let mut entered = enter(self.init.pid());
        entered.args(command);
        let output = output(entered, input).await?;
        output.success(&format!("{} on {}", command.join(" "), self.name))
    }

    /// Is its process 1 running?
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.init
            .check_running()
            .with_context(|| format!("node {}", self.name))
    }

    /// Returns the ends of the logs, for a failure message.
    pub(crate) fn last_words(&self) -> String {
        ["kubelet", "containerd"]
            .map(|unit| {
                let log = self.logs().join(format!("{unit}.log"));
                format!("{} ends with:\n{}", log.display(), end_of(&log))
            })
            .join("\n")
    }

    /// Waits until containerd answers.
    pub(crate) async fn wait_for_containerd(&mut self) -> Result<()> {
        let answered = within(START_TIMEOUT, Duration::from_millis(20), async || {
            let version = self.exec(&["ctr", "version"]).await;
            if version.is_err() {
                self.check_running()?;
            }
            Ok(version.map_err(|error| format!("{error:#}")))
        })
        .await;
        answered
            .with_context(|| format!("containerd does not answer; {}", self.last_words()))
            .map(drop)
    }

    /// Name and pid of what runs for it on this machine.
    pub(crate) fn processes(&self) -> [(String, u32); 2] {
        self.init.processes(&self.name)
    }
}

impl NodeOptions {
    /// Fetches the programs that it runs, where they are missing, and shows the progress on stderr.
    /// A start does this, too.
    ///
    /// # Errors
    /// A script failed: its output is on stderr.
    pub fn fetch(&self) -> Result<()> {
        self.folders().map(drop)
    }

    /// The folders whose `usr` the node sees, the uppermost first.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders = vec![];
        if self.open_vswitch {
            folders.push(open_vswitch::fetch()?);
        }
        if self.network_manager {
            folders.push(host_programs::network_manager()?);
        }
        folders.extend([host_programs::node_packages()?, "/".into()]);
        Ok(folders)
    }

    /// The gateways for NetworkManager, one for each address. Without NetworkManager none.
    fn gateways(&self, addresses: &[IpAddr]) -> impl Iterator<Item = String> {
        let gateway = |address: &IpAddr| match address {
            IpAddr::V4(_) => addresses::API_SERVER.to_string(),
            IpAddr::V6(_) => addresses::GATEWAY_V6.to_string(),
        };
        let count = if self.network_manager {
            addresses.len()
        } else {
            0
        };
        addresses.iter().take(count).map(gateway)
    }

    fn addresses(&self, index: u8, dual_stack: bool) -> Vec<IpAddr> {
        let [a, b, c, _] = addresses::API_SERVER.octets();
        let mut list = vec![IpAddr::V4(Ipv4Addr::new(a, b, c, 10 + index))];
        if dual_stack {
            let mut segments = addresses::GATEWAY_V6.segments();
            segments[7] = 0x10 + u16::from(index);
            list.push(IpAddr::V6(Ipv6Addr::from(segments)));
        }
        list
    }
}
