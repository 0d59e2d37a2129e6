//! The features that real nodes need from a machine.

use std::path::Path;

use super::cgroups::HIERARCHIES;
use crate::{
    host_programs::{layers, node_packages},
    probe::{in_namespaces_with_usr, missing_links, no_namespaces},
};

/// Returns the reasons why real nodes cannot run here. The list is empty if they can. The first time,
/// `scripts/node-programs` fetches some packages for that. Later this takes some milliseconds.
pub fn missing() -> Vec<String> {
    if let Some(reason) = no_namespaces() {
        return vec![reason];
    }
    let mut missing = vec![];
    let groups: Vec<_> = HIERARCHIES
        .into_iter()
        .filter(|name| !has_cgroup(name))
        .collect();
    if !groups.is_empty() {
        missing.push(format!(
            "no writable cgroup v1 hierarchies {} under /sys/fs/cgroup",
            groups.join(", ")
        ));
    }
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.split_whitespace().any(|name| name == "overlay") {
        missing.push("the kernel has no file system overlay".into());
    }
    missing.extend(missing_links(&["bridge", "veth"]));
    match node_packages() {
        Ok(packages) => {
            if !in_namespaces_with_usr(&usr(&packages), "nft add table inet probe") {
                missing.push("the kernel has no nftables of the inet family".into());
            }
        }
        Err(error) => missing.push(format!("the nodes' packages are not to be had: {error:#}")),
    }
    missing
}

/// Returns missing features that only some networks need. The list is empty if all exist. A test
/// that needs such a thing is left out for it.
pub fn missing_options() -> Vec<String> {
    let mut missing = missing_links(&["vxlan", "wireguard", "macvlan"]);
    if !has_iptables() {
        missing.push("no iptables with the matches and targets of kube-proxy".into());
    }
    if !has_ipv6() {
        missing.push("no IPv6".into());
    }
    missing
}

/// Are there iptables, with what kube-proxy uses of it in its mode of that name?
fn has_iptables() -> bool {
    let rule = "-m comment --comment probe -m mark --mark 0x4000 -m conntrack --ctstate NEW -m addrtype --dst-type LOCAL -j MASQUERADE";
    let Ok(packages) = node_packages() else {
        return false;
    };
    let script = format!(
        "iptables -w -t nat -A POSTROUTING {rule} && iptables -w -t nat -A POSTROUTING -m statistic --mode random --probability 0.5"
    );
    in_namespaces_with_usr(&usr(&packages), &script)
}

/// The `/usr` of a node without Open vSwitch and NetworkManager.
fn usr(packages: &Path) -> String {
    layers([packages, Path::new("/")].into_iter())
}

/// Is IPv6 there, and not switched off?
pub(super) fn has_ipv6() -> bool {
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
