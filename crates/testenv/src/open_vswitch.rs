//! Open vSwitch on hosts and nodes, with a NetworkManager that has its plugin for it: the machine's
//! own, or what `scripts/open-vswitch` has fetched.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    probe::in_namespaces,
    programs::{cached, folder_from_script},
};

/// The folder whose `usr` has them: `/` where the machine has them itself, else that in weft's
/// cache, if it is there.
pub(crate) fn folder() -> Option<PathBuf> {
    let plugin = "find /usr/lib /usr/lib64 -path '*/NetworkManager/*' -name libnm-device-plugin-ovs.so | grep -q .";
    if in_namespaces(&format!("command -v ovs-vsctl && {plugin}")) {
        return Some(PathBuf::from("/"));
    }
    cached("open-vswitch", "usr/share/openvswitch/vswitch.ovsschema")
}

/// The same. Where they are missing, it runs `scripts/open-vswitch`, which shows its progress on
/// stderr.
///
/// # Errors
/// The script failed: its output is on stderr.
pub(crate) fn fetch() -> Result<PathBuf> {
    folder().map_or_else(|| folder_from_script("open-vswitch", &[]), Ok)
}
