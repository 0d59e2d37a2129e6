//! A switch at the other end of the hosts' cables, as they hear it by LLDP (IEEE 802.1AB): Debian's
//! lldpd announces what the kernel has there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{network, process::Process, program::Program, programs::path_from_env};

use super::Host;
use super::gateway::Gateway;

/// Runs lldpd of the folder `$1` with its configuration `$2` in a namespace of mounts of its own:
/// it wants a user of its own, and leaves a socket and its process number in `/run`.
const RUN: &str = r#"
mount -t overlay -o "ro,lowerdir=$1/usr:/usr" overlay /usr
mount -t tmpfs tmpfs /run
mkdir -p /run/etc /run/lldpd
{ cat /etc/passwd; echo "_lldpd:x:64999:64999::/run/lldpd:/usr/sbin/nologin"; } >/run/etc/passwd
{ cat /etc/group; echo "_lldpd:x:64999:"; } >/run/etc/group
mount --bind /run/etc/passwd /etc/passwd
mount --bind /run/etc/group /etc/group
exec lldpd -d -O "$2" -u /run/lldpd.socket
"#;

/// The folder whose `usr` has lldpd: that of the environment variable `WEFT_LLDPD`.
pub(super) fn folder() -> Option<PathBuf> {
    path_from_env("WEFT_LLDPD")
}

/// A switch, which ends on drop. It has announced nothing but itself at first.
#[derive(Debug)]
pub struct Switch {
    network: PathBuf,
    // Ended on drop.
    _lldpd: Program,
}

impl Switch {
    /// Announces itself every second on each cable of this gateway.
    pub(super) fn start(gateway: &Gateway, folder: &Path) -> Result<Self> {
        let programs = self::folder().context("WEFT_LLDPD names no folder with lldpd")?;
        let configuration = folder.join("lldpd.conf");
        // Cables are no hardware, which `!!` has lldpd take all the same.
        std::fs::write(
            &configuration,
            "configure system hostname switch-1\n\
             configure system interface pattern !!port*\n\
             configure lldp tx-interval 1\n\
             configure lldp tx-hold 4\n",
        )?;
        let mut command = gateway.enter();
        command
            .args(["unshare", "--mount", "--", "bash", "-euc", RUN, "bash"])
            .arg(programs)
            .arg(configuration);
        Ok(Self {
            network: gateway.file(),
            _lldpd: Program::new(Process::spawn("lldpd".to_owned(), command, folder)?)?,
        })
    }

    /// Carries a VLAN on the cable of a host's card from now on.
    ///
    /// # Errors
    /// The kernel has no VLANs, or this one is there already.
    pub fn add_vlan(&self, host: &Host, card: u8, vlan: u16) -> Result<()> {
        let (port, name) = (port(host, card), vlan_of(host, card, vlan));
        network::ip(
            &self.network,
            &format!("link add link {port} name {name} type vlan id {vlan}\nlink set {name} up\n"),
        )
    }

    /// Carries a VLAN there no more.
    ///
    /// # Errors
    /// It is not there.
    pub fn remove_vlan(&self, host: &Host, card: u8, vlan: u16) -> Result<()> {
        let name = vlan_of(host, card, vlan);
        network::ip(&self.network, &format!("link delete {name}\n"))
    }

    /// Makes one aggregation of the cables of a host's cards, by LACP, that carries a VLAN.
    ///
    /// # Errors
    /// The kernel has no bonds or no VLANs.
    pub fn aggregate(&self, host: &Host, cards: &[u8], vlan: u16) -> Result<()> {
        let bond = format!("lag{}", host.index());
        let mut commands =
            format!("link add {bond} type bond mode 802.3ad lacp_rate fast miimon 100\n");
        for card in cards {
            let port = port(host, *card);
            commands += &format!("link set {port} nomaster down\nlink set {port} master {bond}\n");
        }
        commands += &format!(
            "link set {bond} up\nlink add link {bond} name {bond}.{vlan} type vlan id {vlan}\nlink set {bond}.{vlan} up\n"
        );
        network::ip(&self.network, &commands)
    }
}

fn port(host: &Host, card: u8) -> String {
    format!("port{card}-{}", host.index())
}

fn vlan_of(host: &Host, card: u8, vlan: u16) -> String {
    format!("v{card}-{}.{vlan}", host.index())
}
