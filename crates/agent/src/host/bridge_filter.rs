//! Facts about the host's firewall and packets between ports of one bridge: by the kernel module
//! `br_netfilter`, such packets pass the chains `FORWARD` of iptables, as routed packets do.
//!
//! A look reads the switches of the kernel, and not the chains: legacy iptables and nftables keep
//! these in different places, and only all rules together say what a chain drops.

use std::{collections::BTreeMap, fs, path::Path};

/// The chains that packets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chains {
    iptables: bool,
    ip6tables: bool,
}

impl Chains {
    /// Reads two switches of the kernel. A switch that does not exist is off.
    fn read(folder: &Path, iptables: &str, ip6tables: &str) -> Self {
        let is_on = |switch: &str| {
            let value = fs::read_to_string(folder.join(switch));
            value.is_ok_and(|value| value.trim() != "0")
        };
        Self {
            iptables: is_on(iptables),
            ip6tables: is_on(ip6tables),
        }
    }
}

/// The bridges whose packets pass the host's firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeFilter {
    /// By the sysctls: packets of all bridges, and of those to come.
    all: Chains,
    /// By the options of single bridges.
    own: BTreeMap<String, Chains>,
}

impl BridgeFilter {
    /// Reads the switches, those of these bridges among them, in the network namespace of the
    /// calling thread.
    pub(super) fn read<'a>(bridges: impl Iterator<Item = &'a str>) -> Self {
        Self::below(Path::new("/"), bridges)
    }

    fn below<'a>(root: &Path, bridges: impl Iterator<Item = &'a str>) -> Self {
        let sysctls = root.join("proc/sys/net/bridge");
        // A bridge has its options without the module, too, and then they have no effect.
        if !sysctls.is_dir() {
            return Self::default();
        }
        let own = bridges.map(|bridge| {
            let folder = root.join("sys/class/net").join(bridge).join("bridge");
            let chains = Chains::read(&folder, "nf_call_iptables", "nf_call_ip6tables");
            (bridge.to_owned(), chains)
        });
        Self {
            all: Chains::read(
                &sysctls,
                "bridge-nf-call-iptables",
                "bridge-nf-call-ip6tables",
            ),
            own: own
                .filter(|(_, chains)| *chains != Chains::default())
                .collect(),
        }
    }

    /// Returns the programs whose chain `FORWARD` the packets between ports of a bridge pass, as
    /// words: `iptables and ip6tables` for instance. `None` if they pass no chain.
    pub fn chains(&self, bridge: &str) -> Option<&'static str> {
        let own = self.own.get(bridge).copied().unwrap_or_default();
        match (
            self.all.iptables || own.iptables,
            self.all.ip6tables || own.ip6tables,
        ) {
            (true, true) => Some("iptables and ip6tables"),
            (true, false) => Some("iptables"),
            (false, true) => Some("ip6tables"),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns the chains of the bridges `br1` and `br2` on a host with these files.
    fn found(files: &[(&str, &str)]) -> [Option<&'static str>; 2] {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let bridges = ["br1", "br2"];
        let filter = BridgeFilter::below(root.path(), bridges.into_iter());
        bridges.map(|bridge| filter.chains(bridge))
    }

    const IPTABLES: &str = "proc/sys/net/bridge/bridge-nf-call-iptables";
    const IP6TABLES: &str = "proc/sys/net/bridge/bridge-nf-call-ip6tables";
    const OF_BR1: &str = "sys/class/net/br1/bridge/nf_call_iptables";

    #[test]
    fn the_sysctls_are_about_all_bridges() {
        let both = [(IPTABLES, "1\n"), (IP6TABLES, "1\n")];
        assert_eq!(found(&both), [Some("iptables and ip6tables"); 2]);
        let one = [(IPTABLES, "0\n"), (IP6TABLES, "1\n")];
        assert_eq!(found(&one), [Some("ip6tables"); 2]);
        assert_eq!(found(&[(IPTABLES, "0\n"), (IP6TABLES, "0\n")]), [None; 2]);
    }

    #[test]
    fn an_option_is_about_one_bridge_and_needs_the_module() {
        let with_module = [(IPTABLES, "0\n"), (OF_BR1, "1\n")];
        assert_eq!(found(&with_module), [Some("iptables"), None]);
        assert_eq!(found(&[(OF_BR1, "1\n")]), [None; 2]);
    }

    #[test]
    fn the_sysctls_are_about_a_bridge_that_does_not_exist_yet() {
        let filter = BridgeFilter {
            all: Chains {
                iptables: true,
                ip6tables: false,
            },
            ..BridgeFilter::default()
        };
        assert_eq!(filter.chains("br9"), Some("iptables"));
    }
}
