//! The programs that hosts and nodes of tests run, and that scripts have unpacked. A host or node
//! sees them over the machine's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::programs::folder_from_script;

/// Runs a command in a namespace of mounts whose `/usr` is an overlay of the folders `$0`.
const RUN: &str =
    r#"[ "$0" = /usr ] || mount -t overlay -o "ro,lowerdir=$0" overlay /usr; exec "$@""#;

/// The folders that a host's `/usr` shows, as the option `lowerdir` of an overlay has them: `usr`
/// of each of these, then of what `scripts/network-manager` has unpacked, then the machine's.
///
/// # Errors
/// The script failed: its output is on stderr.
pub(crate) fn usr(over: &[PathBuf]) -> Result<String> {
    let unpacked = network_manager()?;
    Ok(layers(
        over.iter()
            .map(PathBuf::as_path)
            .chain([unpacked.as_path(), Path::new("/")]),
    ))
}

/// The folder of `scripts/network-manager`: NetworkManager, D-Bus, dnsmasq, ping and curl.
///
/// # Errors
/// The script failed: its output is on stderr.
pub(crate) fn network_manager() -> Result<PathBuf> {
    folder_from_script("network-manager", &[])
}

/// The folder of `scripts/node-programs packages`: iptables, nftables, conntrack, busybox and
/// procps.
///
/// # Errors
/// The script failed: its output is on stderr.
pub(crate) fn node_packages() -> Result<PathBuf> {
    folder_from_script("node-programs", &["packages"])
}

/// `usr` of each of these folders, the uppermost first, as the option `lowerdir` of an overlay has
/// them. An overlay takes each folder once.
pub(crate) fn layers<'a>(folders: impl Iterator<Item = &'a Path>) -> String {
    let mut layers: Vec<String> = vec![];
    for folder in folders {
        let layer = folder.join("usr").display().to_string();
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    layers.join(":")
}

/// A command that runs one of these programs on this machine, outside of any host. Its process is
/// that of the program.
///
/// # Errors
/// `scripts/network-manager` failed: its output is on stderr.
pub fn host_program(program: &str) -> Result<Command> {
    let mut command = Command::new("unshare");
    command.args(in_usr(&usr(&[])?)).arg(program);
    Ok(command)
}

/// The arguments of `unshare`, before a program and its own, so that it runs with this `/usr`.
pub(crate) fn in_usr(usr: &str) -> [&str; 6] {
    ["--mount", "--", "sh", "-c", RUN, usr]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_own_programs_are_below_the_unpacked_ones() {
        let folders = ["/newer", "/unpacked", "/"].map(Path::new);
        assert_eq!(layers(folders.into_iter()), "/newer/usr:/unpacked/usr:/usr");
    }

    #[test]
    fn a_folder_that_is_named_twice_is_one_layer() {
        assert_eq!(layers(["/", "/"].map(Path::new).into_iter()), "/usr");
    }
}
