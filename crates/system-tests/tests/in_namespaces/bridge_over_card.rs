//! Bridges over the cards of a host without NetworkManager: over the card with the host's address,
//! and over the cards of a host that is itself a container.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use weft_testenv::namespace::{in_namespace, ip};

use super::without_network_manager::{
    Lab, address, has_address, is_as_before, json_of, link, picture, printed, wait_until,
};

/// Another network namespace, such as that of a switch or of a pod. Ends with the test.
pub(super) struct Outside(Child);

impl Outside {
    pub(super) fn new() -> Self {
        let child = Command::new("unshare")
            .args(["--net", "--", "sleep", "infinity"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let outside = Self(child);
        let ours = fs::read_link("/proc/thread-self/ns/net").unwrap();
        wait_until("there is another network namespace", || {
            fs::read_link(outside.file()).is_ok_and(|theirs| theirs != ours)
        });
        outside
    }

    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Moves the other end of a card there, with this address if there is one.
    pub(super) fn take(&self, end: &str, address: Option<&str>) {
        ip(&format!("link set {end} netns {}", self.0.id()));
        if let Some(address) = address {
            self.ip(&format!("address add {address} dev {end}"));
        }
        self.ip(&format!("link set {end} up"));
    }

    fn ip(&self, arguments: &str) {
        self.run(&format!("ip {arguments}"));
    }

    /// Runs this command of a shell there.
    pub(super) fn run(&self, command: &str) {
        let status = Command::new("nsenter")
            .arg(format!("--net={}", self.file()))
            .args(["sh", "-c", command])
            .status()
            .unwrap();
        assert!(status.success(), "{command}");
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bridge(name: &str, ports: &[&str]) -> Value {
    let ports: Vec<_> = ports
        .iter()
        .map(|port| json!({"name": port, "vlan": {}}))
        .collect();
    json!({"interfaces": [
        {"name": name, "type": "linux-bridge", "state": "up", "bridge": {"port": ports}}
    ]})
}

/// The bridge `br0` over `eth1`, with its address and with the default route.
fn over_the_card() -> Value {
    let mut state = bridge("br0", &["eth1"]);
    state["interfaces"][0]["copy-mac-from"] = "eth1".into();
    state["interfaces"][0]["ipv4"] = address("192.0.2.11", 24);
    state["interfaces"][0]["ipv6"] = json!({
        "enabled": true, "dhcp": false, "autoconf": false,
        "address": [{"ip": "2001:db8:1::11", "prefix-length": 64}]
    });
    state["routes"] = json!({"config": [
        {
            "destination": "0.0.0.0/0", "next-hop-interface": "br0",
            "next-hop-address": "192.0.2.1"
        },
        {
            "destination": "::/0", "next-hop-interface": "br0",
            "next-hop-address": "2001:db8:1::1"
        }
    ]});
    state
}

/// The way of `eth1` to its gateway, as a network service, a client of DHCP and a router have made
/// it.
fn connect() -> Outside {
    let gateway = Outside::new();
    gateway.take("far1", Some("192.0.2.1/24"));
    ip("address add 192.0.2.11/24 brd + dev eth1");
    ip("address add 10.9.1.5/24 dev eth1 valid_lft 86400 preferred_lft 86400");
    ip("address add 2001:db8:1::11/64 dev eth1 nodad");
    ip("address add 2001:db8:2::11/64 dev eth1 valid_lft 86400 preferred_lft 86400 nodad");
    ip("route add default via 192.0.2.1");
    ip("route add 10.99.0.0/16 via 192.0.2.1 proto dhcp metric 100");
    ip("-6 route add default via 2001:db8:1::1");
    ip("-6 route add default via fe80::1 dev eth1 proto ra metric 2048 expires 1800");
    wait_until("the card is ready", || {
        let state = printed("ip", "-6 address show dev eth1");
        state.contains("inet6 fe80") && !state.contains("tentative")
    });
    gateway
}

/// The default routes of both families that lead over an interface.
fn default_routes(interface: &str) -> usize {
    ["-4", "-6"]
        .into_iter()
        .flat_map(|family| {
            let routes = json_of("ip", &format!("{family} -j route show default"));
            routes.as_array().cloned().unwrap_or_default()
        })
        .filter(|route| route["dev"] == interface)
        .count()
}

/// The addresses of an interface, without the one that the kernel gives.
fn addresses(interface: &str) -> Vec<String> {
    let infos = link(interface)["addr_info"].clone();
    let infos = infos.as_array().cloned().unwrap_or_default();
    infos
        .iter()
        .filter_map(|info| info["local"].as_str())
        .filter(|address| !address.starts_with("fe80:"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_bridge_takes_the_address_and_the_default_route_of_its_card() {
    in_namespace(|| {
        let lab = Lab::new();
        let _gateway = connect();
        let state = over_the_card();
        let (planned, code) = lab.plan(&state);
        assert_eq!(code, 1, "{planned}");
        assert!(
            planned.starts_with("Warning: this changes eth1, which carries the default route.\n"),
            "{planned}"
        );
        for line in [
            "- interfaces[eth1].ipv4.address[192.0.2.11/24]\n",
            "- interfaces[eth1].ipv4.address[10.9.1.5/24]\n",
            "- interfaces[eth1].ipv6.address[2001:db8:1::11/64]\n",
            "- routes.config[0.0.0.0/0 via 192.0.2.1 dev eth1]\n",
            "- routes.config[::/0 via 2001:db8:1::1 dev eth1]\n",
        ] {
            assert!(planned.contains(line), "{line}{planned}");
        }
        let (said, code) = lab.apply(&state);
        assert!(
            code == 0 && said.contains("Still reachable: default gateway"),
            "{said}"
        );
        assert_eq!(
            (&link("eth1")["master"], &link("br0")["address"]),
            (&json!("br0"), &link("eth1")["address"])
        );
        assert_eq!(addresses("eth1"), [""; 0]);
        assert!(has_address("br0", "192.0.2.11") && has_address("br0", "2001:db8:1::11"));
        assert_eq!((default_routes("eth1"), default_routes("br0")), (0, 2));
        let left = json_of("ip", "-j route show dev eth1");
        assert_eq!(left, json!([]), "IPv4 has no route over a port");
        let left = json_of("ip", "-6 -j route show dev eth1");
        let is_link_local = |route: &Value| route["dst"] == "fe80::/64";
        assert!(left.as_array().unwrap().iter().all(is_link_local), "{left}");
        let (planned, code) = lab.plan(&state);
        assert_eq!((&*planned, code), ("Nothing would change.\n", 0));

        // A client of the host gives the port an address again. The same state takes it away.
        ip("address add 10.9.1.5/24 dev eth1 valid_lft 86400 preferred_lft 86400");
        let (planned, code) = lab.plan(&state);
        let line = "- interfaces[br0].bridge.port[eth1].ipv4.address[10.9.1.5/24]\n";
        assert!(code == 1 && planned.contains(line), "{planned}");
        let (said, code) = lab.apply(&state);
        assert_eq!(code, 0, "{said}");
        assert_eq!(addresses("eth1"), [""; 0]);

        // The way back leads over the first change, and asks no client for what it has brought.
        let (said, code) = lab.agent(&["rollback", "--number", "1"]);
        assert!(
            code == 0 && said.contains("Still reachable: default gateway"),
            "{said}"
        );
        assert_eq!(link("br0"), Value::Null);
        assert_eq!(addresses("eth1"), ["192.0.2.11", "2001:db8:1::11"]);
        assert_eq!(default_routes("eth1"), 2);
    });
}

#[test]
fn a_card_has_its_addresses_and_routes_again_after_a_rollback() {
    in_namespace(|| {
        let lab = Lab::new();
        let _gateway = connect();
        let untouched = picture();
        // The gateway is out of reach over the bridge.
        let mut state = over_the_card();
        state["interfaces"][0]["ipv4"] = address("198.51.100.11", 24);
        state["routes"] = json!({"config": [{
            "destination": "0.0.0.0/0", "next-hop-interface": "br0",
            "next-hop-address": "198.51.100.1"
        }]});
        let (said, code) = lab.apply(&state);
        assert!(
            code == 1 && said.contains("Probe") && said.contains("default gateway"),
            "{said}"
        );
        is_as_before(&untouched, &said);

        // The agent is killed with the change made.
        let (mut agent, hold) = lab.start_and_hold(&over_the_card(), "Probe");
        assert_eq!(addresses("eth1"), [""; 0]);
        agent.kill().unwrap();
        agent.wait().unwrap();
        drop(hold);
        let (said, code) = lab.apply(&json!({"interfaces": [{"name": "eth2", "state": "up"}]}));
        assert_eq!(code, 0, "{said}");
        is_as_before(&untouched, &said);
    });
}

#[test]
fn a_port_without_a_pod_behind_it_follows_the_policy() {
    in_namespace(|| {
        let lab = Lab::new();
        let is_port = |name: &str| link(name)["master"] == "br5";
        // Both ends are on the host.
        ip("link add va type veth peer name vb");
        lab.make(&bridge("br5", &["va"]));
        let (planned, code) = lab.plan(&bridge("br5", &["eth1"]));
        assert!(
            code == 1 && planned.contains("- interfaces[br5].bridge.port[va]\n"),
            "{planned}"
        );
        lab.make(&bridge("br5", &["eth1"]));
        assert!(!is_port("va") && is_port("eth1"));

        // The cards of a container, whose other ends are elsewhere, and the port of a pod.
        let (switch, pod) = (Outside::new(), Outside::new());
        ip("link add net1 type veth peer name far3");
        ip("link add net2 type veth peer name far4");
        ip("link add veth12ab type veth peer name far5");
        for end in ["far1", "far3", "far4"] {
            switch.take(end, None);
        }
        pod.take("far5", None);
        ip("link set veth12ab up master br5");
        for (ports, gone) in [
            (&["net1"][..], "eth1"),
            (&["net2"][..], "net1"),
            (&["eth1"][..], "net2"),
        ] {
            let (planned, code) = lab.plan(&bridge("br5", ports));
            let line = format!("- interfaces[br5].bridge.port[{gone}]\n");
            assert!(code == 1 && planned.contains(&line), "{line}{planned}");
            lab.make(&bridge("br5", ports));
            assert!(!is_port(gone) && is_port(ports[0]), "{ports:?}");
            assert!(is_port("veth12ab"), "no policy names the port of the pod");
        }
        let (said, code) = lab.agent(&["rollback"]);
        assert_eq!(code, 0, "{said}");
        assert!(!is_port("eth1") && is_port("net2") && is_port("veth12ab"));
    });
}
