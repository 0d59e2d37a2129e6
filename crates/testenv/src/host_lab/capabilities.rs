//! Required and optional features of a machine that runs hosts. The probe tries them in namespaces
//! that are gone afterwards.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{
    host_programs::{self, in_usr},
    open_vswitch,
    probe::{has_link_type, in_namespaces, missing_links, no_link_type, no_namespaces},
    programs::path_from_env,
    skips::is_listed,
};

use super::switch;

/// The variable of the environment that `scripts/test-kernels` sets: this kernel lacks nothing.
const COMPLETE: &str = "WEFT_COMPLETE_KERNEL";
/// The tests that may be left out, with the reason.
const SKIPS: &str = include_str!("../../../../testenv/skips-host");

/// Something that a configuration needs of kernel or NetworkManager, and that not every machine
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// A type of network device, as `ip link add type` names it.
    Link(&'static str),
    /// Bridges that know VLANs.
    BridgeVlanFiltering,
    /// Cards of type ethernet. The cards of hosts are ends of veth pairs, which nmstate takes for
    /// another type.
    EthernetCards,
    /// At least this version of NetworkManager: major and minor.
    NetworkManager(u32, u32),
    /// Open vSwitch, with NetworkManager's plugin for it, for hosts of
    /// [`HostLabBuilder::open_vswitch`](super::HostLabBuilder::open_vswitch).
    OpenVSwitch,
    /// The datapath of Open vSwitch in the kernel. Without it, bridges need `datapath: netdev`.
    OpenVSwitchInKernel,
    /// The plugins of CNI that `scripts/node-programs` builds.
    CniPlugins,
    /// Debian's lldpd, for [`HostLab::switch`](super::HostLab::switch).
    Lldpd,
}

impl Capability {
    /// Reports whether it is the kernel that has it or has it not.
    fn is_of_kernel(self) -> bool {
        matches!(
            self,
            Self::Link(_) | Self::BridgeVlanFiltering | Self::OpenVSwitchInKernel
        )
    }

    /// Has this machine got it? Takes some milliseconds and changes nothing.
    pub fn is_there(self) -> bool {
        match self {
            Self::Link(kind) => has_link_type(kind),
            Self::BridgeVlanFiltering => {
                in_namespaces("ip link add name probe type bridge vlan_filtering 1")
            }
            // No kernel makes one in a namespace.
            Self::EthernetCards => false,
            Self::NetworkManager(major, minor) => {
                version_of_network_manager().is_some_and(|version| version >= (major, minor))
            }
            Self::CniPlugins => super::cni::is_there(),
            Self::Lldpd => switch::folder().is_some(),
            Self::OpenVSwitch => open_vswitch::folder().is_some(),
            Self::OpenVSwitchInKernel => Path::new("/sys/module/openvswitch").exists(),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Link(kind) => formatter.write_str(&no_link_type(kind)),
            Self::BridgeVlanFiltering => formatter.write_str("the kernel's bridges know no VLANs"),
            Self::EthernetCards => formatter.write_str("the hosts' cards are ends of veth pairs"),
            Self::NetworkManager(major, minor) => write!(formatter, "NetworkManager is older than {major}.{minor}"),
            Self::CniPlugins => formatter.write_str("scripts/node-programs has built no CNI plugins here"),
            Self::Lldpd => formatter.write_str("there is no lldpd, which make test-kernels fetches"),
            Self::OpenVSwitchInKernel => formatter.write_str("the kernel has no datapath of Open vSwitch"),
            Self::OpenVSwitch => {
                formatter.write_str("there is no Open vSwitch with NetworkManager's plugin for it: run scripts/open-vswitch")
            }
        }
    }
}

/// The folders of a host's `/usr`, see [`host_programs`](crate::host_programs). The folder of the
/// environment variable `WEFT_NETWORK_MANAGER`, if it is set, has the NetworkManager.
pub(super) fn usr() -> Result<String> {
    let over: Vec<_> = path_from_env("WEFT_NETWORK_MANAGER").into_iter().collect();
    host_programs::usr(&over)
}

fn version_of_network_manager() -> Option<(u32, u32)> {
    // As a host sees it.
    let output = Command::new("unshare")
        .args(in_usr(&usr().ok()?))
        .args(["NetworkManager", "--version"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim().split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Which of these this machine has not.
pub fn lacking(needed: &[Capability]) -> Vec<Capability> {
    needed
        .iter()
        .copied()
        .filter(|capability| !capability.is_there())
        .collect()
}

/// Says loudly that something is left out. It must be listed in `testenv/skips-host`, unless only
/// the kernel lacks something: `make test-kernels` runs it then, in a kernel that has all.
///
/// # Panics
/// It is not listed: what this machine could do once, it is to do again.
#[allow(clippy::panic)]
pub fn skip(name: &str, lacking: &[Capability]) {
    let reasons: Vec<_> = lacking.iter().map(ToString::to_string).collect();
    eprintln!("LEFT OUT: {name}, because {}", reasons.join("; "));
    let is_elsewhere = path_from_env(COMPLETE).is_none()
        && lacking.iter().all(|capability| capability.is_of_kernel());
    if !is_elsewhere && !is_listed(SKIPS, name) {
        panic!(
            "{name} is left out ({}), and testenv/skips-host does not list it",
            reasons.join("; ")
        );
    }
}

/// Returns the reasons why hosts cannot run here. The list is empty if they can.
pub fn missing() -> Vec<String> {
    if let Some(reason) = no_namespaces() {
        return vec![reason];
    }
    let mut missing = vec![];
    if let Err(error) = usr() {
        missing.push(format!("NetworkManager is not to be had: {error:#}"));
    }
    if !in_namespaces("command -v ip") {
        missing.push("ip is not installed (package iproute2)".into());
    }
    missing.extend(missing_links(&["bridge", "veth"]));
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invented_feature_is_missing() {
        assert_eq!(
            lacking(&[Capability::Link("no-such-type")]),
            [Capability::Link("no-such-type")]
        );
    }
}
