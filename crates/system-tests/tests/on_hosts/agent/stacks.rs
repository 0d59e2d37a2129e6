//! Random stacks of two to four links, and what `ip` shows of a host.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use weft_testenv::host_lab::{Capability, Host};

/// Kinds of links that can be on top of another one. A bond has two ports, the others one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bond,
    Bridge,
    MacVlan,
    Vlan,
    Vrf,
    Vxlan,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Bond,
        Self::Bridge,
        Self::MacVlan,
        Self::Vlan,
        Self::Vrf,
        Self::Vxlan,
    ];

    /// Its name in the kernel.
    fn name(self) -> &'static str {
        match self {
            Self::Bond => "bond",
            Self::Bridge => "bridge",
            Self::MacVlan => "macvlan",
            Self::Vlan => "vlan",
            Self::Vrf => "vrf",
            Self::Vxlan => "vxlan",
        }
    }

    /// Its name in nmstate.
    fn nmstate(self) -> &'static str {
        match self {
            Self::Bridge => "linux-bridge",
            Self::MacVlan => "mac-vlan",
            other => other.name(),
        }
    }

    /// Reports whether a link of this kind can be on top of a link of the other kind.
    fn fits(self, below: Option<Self>) -> bool {
        match below {
            None => self != Self::Vrf,
            Some(Self::Bond) => !matches!(self, Self::Bond | Self::Vrf),
            Some(Self::Bridge) => !matches!(self, Self::Bond | Self::Bridge),
            Some(Self::Vlan) => !matches!(self, Self::Bond | Self::Vlan),
            Some(Self::Vxlan) => matches!(self, Self::Bridge | Self::Vrf),
            Some(Self::MacVlan) => self == Self::Vrf,
            Some(Self::Vrf) => false,
        }
    }
}

/// A random state, and what the kernel shows once a host has it.
#[derive(Debug)]
pub struct Stack {
    /// The state, in the form of nmstate.
    pub state: Value,
    /// The links on top of cards, with their kinds in the kernel.
    pub links: BTreeMap<String, &'static str>,
    /// The address on the last link that can have one.
    pub address: String,
}

/// Makes stacks of what this machine's kernel has.
pub struct Stacks {
    kinds: Vec<Kind>,
}

impl Stacks {
    pub fn of_this_kernel() -> Self {
        let has = |kind: &Kind| Capability::Link(kind.name()).is_there();
        Self {
            kinds: Kind::ALL.into_iter().filter(has).collect(),
        }
    }

    /// Makes a stack on `eth1`. A bond takes `eth2`, too.
    pub fn make(&self, random: &mut StdRng) -> Stack {
        let height = random.random_range(2..=4);
        let mut mtu: u32 = *[1500, 1450, 1400].choose(random).unwrap();
        let mut interfaces = vec![link("eth1", "ethernet", mtu)];
        let mut links = BTreeMap::new();
        let mut below = (None, "eth1".to_owned());
        for level in 1..height {
            let fitting: Vec<Kind> = self
                .kinds
                .iter()
                .copied()
                .filter(|kind| kind.fits(below.0))
                .collect();
            let Some(kind) = fitting.choose(random).copied() else {
                break;
            };
            // A tunnel has less, by the headers that it adds to each packet.
            mtu -= if kind == Kind::Vxlan { 50 } else { 0 };
            let name = format!("{}{level}", kind.name());
            let mut interface = link(&name, kind.nmstate(), mtu);
            let number = random.random_range(2..4000);
            let (part, content) = match kind {
                Kind::Bond => {
                    interfaces.push(link("eth2", "ethernet", mtu));
                    let mode = ["active-backup", "balance-xor", "broadcast"].choose(random);
                    let ports = json!([below.1, "eth2"]);
                    ("link-aggregation", json!({"mode": mode, "port": ports}))
                }
                Kind::Bridge => {
                    let options = json!({"stp": {"enabled": random.random_bool(0.3)}});
                    let port = json!([{"name": below.1, "vlan": {}}]);
                    ("bridge", json!({"options": options, "port": port}))
                }
                Kind::MacVlan => {
                    let part = json!({"base-iface": below.1, "mode": "bridge"});
                    ("mac-vlan", part)
                }
                Kind::Vlan => ("vlan", json!({"base-iface": below.1, "id": number})),
                Kind::Vrf => (
                    "vrf",
                    json!({"port": [below.1], "route-table-id": 1000 + number}),
                ),
                Kind::Vxlan => (
                    "vxlan",
                    json!({"base-iface": below.1, "id": number, "remote": "239.1.1.1"}),
                ),
            };
            interface[part] = content;
            if kind == Kind::Vrf {
                // The kernel gives it one of its own.
                interface.as_object_mut().unwrap().remove("mtu");
            }
            interfaces.push(interface);
            links.insert(name.clone(), kind.name());
            below = (Some(kind), name);
        }
        let address = format!(
            "172.30.{}.{}",
            random.random_range(0..99),
            random.random_range(1..250)
        );
        let mut state = json!({});
        // A VRF's address is that of its port.
        let bearer = interfaces
            .iter_mut()
            .rev()
            .find(|interface| interface["type"] != "vrf")
            .unwrap();
        bearer["ipv4"] = json!({"enabled": true, "dhcp": false,
            "address": [{"ip": address, "prefix-length": 16}]});
        if random.random_bool(0.5) {
            let ip = format!("fd00:30::{:x}", random.random_range(1..0xffff));
            bearer["ipv6"] = json!({"enabled": true, "dhcp": false, "autoconf": false,
                "address": [{"ip": ip, "prefix-length": 64}]});
        }
        if below.0 != Some(Kind::Vrf) && random.random_bool(0.5) {
            state["routes"] = json!({"config": [{"destination": "198.51.100.0/24",
                "next-hop-interface": bearer["name"], "next-hop-address": "172.30.200.1"}]});
        }
        // Their order has no meaning.
        if random.random_bool(0.5) {
            interfaces.reverse();
        }
        state["interfaces"] = interfaces.into();
        Stack {
            state,
            links,
            address,
        }
    }
}

fn link(name: &str, kind: &str, mtu: u32) -> Value {
    json!({"name": name, "type": kind, "state": "up", "mtu": mtu,
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false}})
}

/// Returns the links, addresses and routes of a host by `ip`, one a line, without what
/// differs by chance.
pub async fn snapshot(host: &Host) -> BTreeSet<String> {
    let json = async |arguments: &[&str]| -> Vec<Value> {
        let shown = host.exec(&[&["ip", "-j", "-d"], arguments].concat()).await;
        serde_json::from_str(&shown.unwrap()).unwrap()
    };
    let mut lines = BTreeSet::new();
    for link in json(&["addr", "show"]).await {
        let (name, info) = (&link["ifname"], &link["linkinfo"]);
        // The kernel lists an empty object for an address that is not there any more.
        if name.is_null() {
            continue;
        }
        let data = &info["info_data"];
        let parts = [
            ("kind", &info["info_kind"]),
            ("mtu", &link["mtu"]),
            ("controller", &link["master"]),
            ("on", &link["link"]),
            ("id", &data["id"]),
            ("mode", &data["mode"]),
            ("stp", &data["stp_state"]),
            ("table", &data["table"]),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(part, value)| format!("{part} {value}"))
            .collect();
        lines.insert(format!("{name} {}", parts.join(" ")));
        for address in link["addr_info"].as_array().into_iter().flatten() {
            if address["scope"] == "global" {
                let (local, length) = (&address["local"], &address["prefixlen"]);
                lines.insert(format!("{name} address {local}/{length}"));
            }
        }
    }
    for family in ["-4", "-6"] {
        for route in json(&[family, "route", "show", "table", "all"]).await {
            // The kernel makes the others by itself.
            let is_made = route["type"].is_null() || route["type"] == "unicast";
            let (to, via, device) = (&route["dst"], &route["gateway"], &route["dev"]);
            if is_made && !to.as_str().is_some_and(|to| to.starts_with("fe80:")) {
                lines.insert(format!("route {to} via {via} on {device}"));
            }
        }
    }
    lines
}

/// The differences between two snapshots, for the message of a test.
pub fn difference(before: &BTreeSet<String>, after: &BTreeSet<String>) -> String {
    let gone = before.difference(after).map(|line| format!("- {line}"));
    let new = after.difference(before).map(|line| format!("+ {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}
