//! The features that real nodes need from a machine. The probe tries them in namespaces that are
//! gone afterwards.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::cgroups::HIERARCHIES;

/// Something that this machine has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Tests run as another user.
    Root,
    /// No new namespaces, though root: in a container without `CAP_SYS_ADMIN`, for instance.
    Namespaces,
    /// Hierarchies of control groups, version 1, that root may write to.
    Cgroups(Vec<&'static str>),
    /// A file system, as `/proc/filesystems` lists it.
    Filesystem(&'static str),
    /// A type of network device.
    LinkType(&'static str),
    /// nftables, of the inet family.
    Nftables,
    /// iptables with what kube-proxy uses of it.
    Iptables,
    /// IPv6, or it is switched off.
    Ipv6,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Root => formatter.write_str("not run as root"),
            Self::Namespaces => {
                formatter.write_str("no new network, mount and PID namespaces can be made")
            }
            Self::Cgroups(names) => write!(
                formatter,
                "no writable cgroup v1 hierarchies {} under /sys/fs/cgroup",
                names.join(", ")
            ),
            Self::Filesystem(name) => write!(formatter, "the kernel has no file system {name}"),
            Self::LinkType(name) => write!(
                formatter,
                "the kernel makes no network device of type {name}"
            ),
            Self::Nftables => formatter.write_str("the kernel has no nftables of the inet family"),
            Self::Iptables => {
                formatter.write_str("no iptables with the matches and targets of kube-proxy")
            }
            Self::Ipv6 => formatter.write_str("no IPv6"),
        }
    }
}

/// Returns the reasons why real nodes cannot run here. The list is empty if they can. Takes some
/// milliseconds and changes nothing.
pub fn missing() -> Vec<Missing> {
    if !rustix::process::geteuid().is_root() {
        return vec![Missing::Root];
    }
    if !in_namespaces("true") {
        return vec![Missing::Namespaces];
    }
    let mut missing = vec![];
    let groups: Vec<_> = HIERARCHIES
        .into_iter()
        .filter(|name| !has_cgroup(name))
        .collect();
    if !groups.is_empty() {
        missing.push(Missing::Cgroups(groups));
    }
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.split_whitespace().any(|name| name == "overlay") {
        missing.push(Missing::Filesystem("overlay"));
    }
    missing.extend(
        ["bridge", "veth"]
            .into_iter()
            .filter(|kind| !has_link_type(kind))
            .map(Missing::LinkType),
    );
    // Without the program nothing can be said. Scripts/node-programs installs it.
    if in_namespaces("command -v nft") && !in_namespaces("nft add table inet probe") {
        missing.push(Missing::Nftables);
    }
    missing
}

/// Returns missing features that only some networks need. The list is empty if all exist. A test
/// that needs such a thing is left out for it.
pub fn missing_options() -> Vec<Missing> {
    let mut missing: Vec<_> = ["vxlan", "wireguard", "macvlan"]
        .into_iter()
        .filter(|kind| !has_link_type(kind))
        .map(Missing::LinkType)
        .collect();
    if !has_iptables() {
        missing.push(Missing::Iptables);
    }
    if !has_ipv6() {
        missing.push(Missing::Ipv6);
    }
    missing
}

/// Are there iptables, with what kube-proxy uses of it in its mode of that name?
pub fn has_iptables() -> bool {
    let rule = "-m comment --comment probe -m mark --mark 0x4000 -m conntrack --ctstate NEW -m addrtype --dst-type LOCAL -j MASQUERADE";
    in_namespaces(&format!(
        "iptables -w -t nat -A POSTROUTING {rule} && iptables -w -t nat -A POSTROUTING -m statistic --mode random --probability 0.5"
    ))
}

/// Does the kernel make network devices of this type (`vxlan`, `wireguard`, `macvlan` …)?
pub fn has_link_type(kind: &str) -> bool {
    let kind = quoted(kind);
    let command = match kind {
        "vxlan" => "ip link add probe type vxlan id 1 dstport 4789".to_owned(),
        "macvlan" | "ipvlan" => {
            format!("ip link add base type veth && ip link add link base name probe type {kind}")
        }
        "vlan" => "ip link add base type veth && ip link add link base name probe type vlan id 1"
            .to_owned(),
        _ => format!("ip link add probe type {kind}"),
    };
    in_namespaces(&command)
}

/// Is IPv6 there, and not switched off?
pub fn has_ipv6() -> bool {
    let disabled = std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6");
    disabled.is_ok_and(|value| value.trim() == "0")
}

fn has_cgroup(hierarchy: &str) -> bool {
    let probe = Path::new("/sys/fs/cgroup").join(hierarchy).join(format!(
        "weft-probe-{}-{:08x}",
        std::process::id(),
        rand::random::<u32>()
    ));
    let made = std::fs::create_dir(&probe).is_ok();
    // In version 2 of control groups there are no such folders, and a tmpfs is no hierarchy.
    made && probe.join("cgroup.procs").exists() & std::fs::remove_dir(&probe).is_ok()
}

pub(crate) fn in_namespaces(script: &str) -> bool {
    let mut command = Command::new("unshare");
    command.args([
        "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--", "sh", "-c", script,
    ]);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Types are words. Anything else is none.
fn quoted(kind: &str) -> &str {
    if kind
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    {
        kind
    } else {
        "none"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_device_that_no_kernel_has_is_not_there() {
        assert!(!has_link_type("no-such-type"));
        assert!(!has_link_type("bridge; true"));
    }
}
