//! The features that namespaces need from a machine. The probe tries them in namespaces that are
//! gone afterwards.

use std::process::{Command, Stdio};

use crate::host_programs::in_usr;

/// Returns the reason why this process can make no namespaces. None if it can.
pub(crate) fn no_namespaces() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not run as root".into());
    }
    let possible = in_namespaces("true");
    (!possible).then(|| "no new network, mount and PID namespaces can be made".into())
}

/// Returns the types of network device that every lab needs, and that the kernel does not make,
/// each as a sentence.
pub(crate) fn missing_links(kinds: &[&str]) -> Vec<String> {
    kinds
        .iter()
        .filter(|kind| !has_link_type(kind))
        .map(|kind| no_link_type(kind))
        .collect()
}

/// Says that the kernel does not make network devices of this type.
pub(crate) fn no_link_type(kind: &str) -> String {
    format!("the kernel makes no network device of type {kind}")
}

/// Does the kernel make network devices of this type (`vxlan`, `wireguard`, `macvlan` …)?
pub fn has_link_type(kind: &str) -> bool {
    let kind = quoted(kind);
    let command = match kind {
        "vxlan" => "ip link add probe type vxlan id 1 dstport 4789".to_owned(),
        "macvlan" | "macvtap" | "ipvlan" => {
            format!("ip link add base type veth && ip link add link base name probe type {kind}")
        }
        "vrf" => "ip link add probe type vrf table 10".to_owned(),
        "vlan" => "ip link add base type veth && ip link add link base name probe type vlan id 1"
            .to_owned(),
        _ => format!("ip link add probe type {kind}"),
    };
    in_namespaces(&command)
}

/// Runs a shell script as process 1 of new namespaces. Returns true if it succeeds.
pub(crate) fn in_namespaces(script: &str) -> bool {
    in_namespaces_with_usr("/usr", script)
}

/// The same with this `/usr`, see [`in_usr`].
pub(crate) fn in_namespaces_with_usr(usr: &str, script: &str) -> bool {
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--uts", "--ipc", "--pid", "--fork"])
        .args(in_usr(usr))
        .args(["sh", "-c", script]);
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
