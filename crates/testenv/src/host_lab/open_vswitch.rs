//! Open vSwitch on hosts, with a NetworkManager that has its plugin for it: the machine's own, or
//! what `scripts/open-vswitch` has fetched.

use std::fs;
use std::path::PathBuf;

use crate::{lab::in_namespaces, programs::cache};

/// The folder whose `usr` has them: `/` where the machine has them itself, else that in weft's
/// cache, if it is there.
pub(crate) fn folder() -> Option<PathBuf> {
    let plugin = "find /usr/lib /usr/lib64 -path '*/NetworkManager/*' -name libnm-device-plugin-ovs.so | grep -q .";
    if in_namespaces(&format!("command -v ovs-vsctl && {plugin}")) {
        return Some(PathBuf::from("/"));
    }
    let fetched = fs::read_dir(cache()?.join("open-vswitch")).ok()?;
    fetched
        .filter_map(|folder| Some(folder.ok()?.path()))
        .find(|folder| {
            folder
                .join("usr/share/openvswitch/vswitch.ovsschema")
                .is_file()
        })
}
