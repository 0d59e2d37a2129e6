//! Changes of hosts without NetworkManager, each in a network namespace of its own. `ip` and
//! `bridge` judge.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use rustix::fs::FlockOperation;
use serde_json::{Value, json};
use weft_agent::{
    host::{ApplyOptions, Backend, Host, HostError, Machine, Query, WithoutNetworkManager},
    state_dir::StateDir,
};
use weft_node_network::desired::Desired;
use weft_system_tests::{HostPlan, is_exhaustive, seed};
use weft_testenv::host_lab::{Capability, capabilities};
use weft_testenv::namespace::{in_namespace, ip};

/// Far more than the kernel needs for anything.
const LONG: Duration = Duration::from_secs(60);

/// A host in the network namespace of the test.
pub(super) struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    /// With two cards, `eth1` and `eth2`, and what a network service has set up: addresses, also
    /// of DHCP and of a router, and routes.
    pub(super) fn new() -> Self {
        for card in ["1", "2"] {
            ip(&format!("link add eth{card} type veth peer name far{card}"));
            ip(&format!("link set far{card} up"));
            ip(&format!("link set eth{card} up"));
        }
        ip("address add 203.0.113.1/24 brd + dev eth2");
        ip("address add 203.0.113.7/24 brd + dev eth2");
        ip("address add 10.9.0.5/24 dev eth2 valid_lft 86400 preferred_lft 86400");
        ip("address add 2001:db8:9::5/64 dev eth2 nodad valid_lft 86400 preferred_lft 86400");
        ip("address add 2001:db8:8::1/64 dev eth2 nodad");
        ip("route add 198.18.0.0/16 via 203.0.113.9");
        ip("route add 198.19.0.0/16 via 203.0.113.9 proto bgp metric 50");
        ip("-6 route add 2001:db8:f::/48 via 2001:db8:8::9");
        let lab = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        // Link-local addresses come with the carrier, and are then checked for duplicates.
        wait_until("the cards are ready", || {
            let state = printed("ip", "-6 address show");
            state.matches("inet6 fe80").count() == 4 && !state.contains("tentative")
        });
        lab
    }

    /// The folder of the agent.
    fn dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(weft_system_tests::program("weft-agent"));
        command
            .args(["--without-network-manager", "ConfigureKernel"])
            .args(["--probe-seconds", "2"])
            .args(arguments)
            .env("WEFT_AGENT_STATE_DIR", self.dir());
        command
    }

    /// Runs the agent. Returns its output and its exit code.
    pub(super) fn agent(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.command(arguments).output().unwrap();
        (
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
            output.status.code().unwrap(),
        )
    }

    fn file(&self, document: &Value) -> String {
        let file = self.folder.path().join("document.json");
        fs::write(&file, document.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn guardian_log(&self) -> PathBuf {
        self.folder.path().join("guardian.log")
    }

    fn guardian_says(&self, words: &str) -> bool {
        fs::read_to_string(self.guardian_log()).is_ok_and(|log| log.contains(words))
    }

    pub(super) fn plan(&self, state: &Value) -> (String, i32) {
        self.agent(&["plan", "-f", &self.file(state)])
    }

    pub(super) fn apply(&self, state: &Value) -> (String, i32) {
        self.agent(&["apply", "-f", &self.file(state)])
    }

    /// The output of the agent as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }

    /// Applies a state, and expects that a plan of it sees something to do before and nothing
    /// after, and that the reports of the host before and after it differ as the plan says.
    pub(super) fn make(&self, state: &Value) {
        let (planned, code) = self.plan(state);
        assert_eq!(code, 1, "{planned}");
        let plan = self.json(&["plan", "-o", "json", "-f", &self.file(state)]);
        let plan = HostPlan::new(&plan, self.json(&["show", "-o", "json"]));
        let (said, code) = self.apply(state);
        assert_eq!(code, 0, "{said}");
        let deadline = Instant::now() + LONG;
        while let Err(differs) = plan.compare(&self.json(&["show", "-o", "json"])) {
            assert!(Instant::now() < deadline, "{state}: {differs}");
            thread::sleep(Duration::from_millis(20));
        }
        let (planned, code) = self.plan(state);
        assert_eq!(
            (planned.as_str(), code),
            ("Nothing would change.\n", 0),
            "{state}"
        );
    }

    /// Keeps each transaction from beginning with a phase, until this is dropped.
    fn hold(&self, phase: &str) -> File {
        StateDir::open(self.dir()).unwrap();
        let hold = File::create(self.dir().join(format!("hold-{phase}"))).unwrap();
        rustix::fs::flock(&hold, FlockOperation::LockExclusive).unwrap();
        hold
    }

    /// Starts an apply, and waits until it has reached a phase, where it stays.
    pub(super) fn start_and_hold(&self, state: &Value, phase: &str) -> (Child, File) {
        let hold = self.hold(phase);
        let child = self
            .command(&["apply", "-f", &self.file(state)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(phase, || {
            let journal = fs::read(self.dir().join("transaction.json"));
            journal.is_ok_and(|journal| {
                serde_json::from_slice::<Value>(&journal).is_ok_and(|found| found["phase"] == phase)
            })
        });
        (child, hold)
    }
}

/// Adds the card `eth3`, without addresses of a network service.
fn third_card() {
    ip("link add eth3 type veth peer name far3");
    for end in ["eth3", "far3"] {
        ip(&format!("link set {end} up"));
    }
    wait_until("the card is ready", || {
        let state = printed("ip", "-6 address show");
        state.matches("inet6 fe80").count() == 6 && !state.contains("tentative")
    });
}

pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(super) fn printed(program: &str, arguments: &str) -> String {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .output()
        .expect("iproute2 is installed");
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn json_of(program: &str, arguments: &str) -> Value {
    serde_json::from_str(&printed(program, arguments)).unwrap_or(Value::Null)
}

/// All of the network that a rollback must bring back, in a fixed order.
pub(super) fn picture() -> Value {
    let mut links = json_of("ip", "-j -d address show");
    for link in links.as_array_mut().unwrap() {
        let link = link.as_object_mut().unwrap();
        // The kernel computes these, and timers run.
        for key in [
            "linkinfo",
            "promiscuity",
            "allmulti",
            "operstate",
            "num_tx_queues",
            "num_rx_queues",
        ] {
            link.remove(key);
        }
        // A link without a carrier has other flags for a moment.
        let up = link["flags"].as_array().unwrap().contains(&json!("UP"));
        link.insert("flags".into(), up.into());
        let addresses = link.get_mut("addr_info").unwrap().as_array_mut().unwrap();
        for address in addresses.iter_mut() {
            let has_end = address["valid_life_time"].as_u64() != Some(u64::from(u32::MAX));
            let address = address.as_object_mut().unwrap();
            address.retain(|key, _| {
                ["local", "prefixlen", "broadcast", "scope"].contains(&key.as_str())
            });
            address.insert("has_end".into(), has_end.into());
        }
        addresses.sort_by_key(Value::to_string);
    }
    let mut routes = Vec::new();
    for family in ["-4", "-6"] {
        let found = json_of("ip", &format!("{family} -j route show table all"));
        routes.extend(found.as_array().cloned().unwrap_or_default());
    }
    for route in &mut routes {
        let route = route.as_object_mut().unwrap();
        route.retain(|key, _| !["flags", "expires"].contains(&key.as_str()));
    }
    // The routes of multicast and of the host's own addresses follow from the rest, later.
    routes.retain(|route| route["table"] != "local" && route["type"] != "multicast");
    routes.sort_by_key(Value::to_string);
    json!({"links": links, "routes": routes, "vlans": json_of("bridge", "-j vlan show")})
}

/// The lines that only one of two pictures has.
fn difference(before: &Value, now: &Value) -> String {
    let lines = |picture: &Value| {
        let parts = ["links", "routes", "vlans"]
            .into_iter()
            .flat_map(|part| picture[part].as_array().cloned().unwrap_or_default());
        parts.map(|part| part.to_string()).collect::<Vec<_>>()
    };
    let (before, now) = (lines(before), lines(now));
    let gone = before.iter().filter(|line| !now.contains(line));
    let new = now.iter().filter(|line| !before.contains(line));
    gone.map(|line| format!("- {line}\n"))
        .chain(new.map(|line| format!("+ {line}\n")))
        .collect()
}

pub(super) fn is_as_before(before: &Value, why: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = picture();
        if now == *before {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{why}\n{}",
            difference(before, &now)
        );
        thread::sleep(Duration::from_millis(100));
    }
}

pub(super) fn address(ip: &str, length: u8) -> Value {
    json!({"enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": length}]})
}

/// A bridge with a port, addresses of both families, an MTU, and routes through it.
fn bridge() -> Value {
    json!({
        "interfaces": [
            {
                "name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1400,
                "ipv4": address("192.0.2.1", 24),
                "ipv6": {
                    "enabled": true, "dhcp": false, "autoconf": false,
                    "address": [{"ip": "2001:db8::1", "prefix-length": 64}]
                },
                "bridge": {
                    "options": {"stp": {"enabled": false}}, "port": [{"name": "eth1", "vlan": {}}]
                }
            },
            {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1400}
        ],
        "routes": {"config": [
            {
                "destination": "198.51.100.0/24", "next-hop-interface": "br1",
                "next-hop-address": "192.0.2.254"
            },
            {
                "destination": "2001:db8:1::/48", "next-hop-interface": "br1",
                "next-hop-address": "2001:db8::fe", "metric": 7, "table-id": 100
            }
        ]}
    })
}

pub(super) fn link(name: &str) -> Value {
    json_of("ip", &format!("-j -d address show dev {name}"))[0].clone()
}

pub(super) fn has_address(name: &str, ip: &str) -> bool {
    let link = link(name);
    let addresses = link["addr_info"].as_array().cloned().unwrap_or_default();
    addresses.iter().any(|address| address["local"] == ip)
}

fn has_route(destination: &str, table: &str) -> bool {
    ["-4", "-6"].into_iter().any(|family| {
        let routes = json_of("ip", &format!("{family} -j route show table {table}"));
        let routes = routes.as_array().cloned().unwrap_or_default();
        routes.iter().any(|route| route["dst"] == destination)
    })
}

#[test]
fn a_bridge_with_addresses_and_routes_is_made_changed_and_removed() {
    in_namespace(|| {
        let lab = Lab::new();
        third_card();
        let untouched = picture();
        lab.make(&bridge());
        assert_eq!(
            (&link("br1")["linkinfo"]["info_kind"], &link("br1")["mtu"]),
            (&json!("bridge"), &json!(1400))
        );
        assert_eq!(
            (&link("eth1")["master"], &link("eth1")["mtu"]),
            (&json!("br1"), &json!(1400))
        );
        assert!(has_address("br1", "192.0.2.1") && has_address("br1", "2001:db8::1"));
        assert!(has_route("198.51.100.0/24", "main") && has_route("2001:db8:1::/48", "100"));
        let made = picture();

        let mut changed = bridge();
        changed["interfaces"][0]["bridge"]["port"] = json!([{"name": "eth3"}]);
        changed["interfaces"][0]["ipv4"] = address("192.0.2.2", 24);
        changed["interfaces"][0]["mtu"] = json!(1300);
        changed["routes"]["config"][0]["next-hop-address"] = json!("192.0.2.253");
        let absent = json!({
            "destination": "198.51.100.0/24", "next-hop-address": "192.0.2.254", "state": "absent"
        });
        changed["routes"]["config"]
            .as_array_mut()
            .unwrap()
            .push(absent);
        lab.make(&changed);
        assert_eq!(
            (
                &link("eth1")["master"],
                &link("eth3")["master"],
                &link("br1")["mtu"]
            ),
            (&Value::Null, &json!("br1"), &json!(1300))
        );
        assert!(!has_address("br1", "192.0.2.1") && has_address("br1", "192.0.2.2"));
        let (said, code) = lab.agent(&["rollback"]);
        assert_eq!(code, 0, "{said}");
        is_as_before(&made, "the change was taken back");

        lab.make(
            &json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "absent"}]}),
        );
        assert_eq!(link("br1"), Value::Null);
        let (said, code) = lab.agent(&["rollback"]);
        assert_eq!(code, 0, "{said}");
        assert!(has_address("br1", "192.0.2.1") && has_route("198.51.100.0/24", "main"));
        let (said, code) = lab.agent(&["rollback", "--number", "1"]);
        assert_eq!(code, 0, "{said}");
        is_as_before(&untouched, "the first change was taken back");
    });
}

#[test]
fn a_card_keeps_the_addresses_and_routes_that_a_change_does_not_name() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        lab.make(&json!({
            "interfaces": [{
                "name": "eth2", "type": "ethernet", "state": "up", "mtu": 1450,
                "ipv4": {"enabled": true, "address": [{"ip": "203.0.113.2", "prefix-length": 24}]}
            }]
        }));
        let addresses = printed("ip", "address show dev eth2");
        assert!(
            has_address("eth2", "203.0.113.2")
                && !has_address("eth2", "203.0.113.1")
                && !has_address("eth2", "203.0.113.7"),
            "{addresses}"
        );
        // Addresses of DHCP and of a router have their end still.
        assert_eq!(addresses.matches(" dynamic ").count(), 2, "{addresses}");
        // The kernel drops all routes with the first address of a subnet.
        assert!(has_route("198.18.0.0/16", "main") && has_route("198.19.0.0/16", "main"));
        let (said, code) = lab.agent(&["rollback"]);
        assert_eq!(code, 0, "{said}");
        is_as_before(&untouched, "the change was taken back");

        // The kernel drops the new address with the old one of its subnet, and all routes with it.
        ip("address add 198.51.100.1/24 brd + dev eth1");
        ip("route add 192.168.50.0/24 via 198.51.100.9");
        lab.make(&json!({
            "interfaces": [{
                "name": "eth1", "type": "ethernet", "state": "up",
                "ipv4": {"enabled": true, "address": [{"ip": "198.51.100.2", "prefix-length": 24}]}
            }]
        }));
        assert!(has_address("eth1", "198.51.100.2") && has_route("192.168.50.0/24", "main"));
    });
}

/// A random state of two bridges, their ports and a VLAN.
fn random_state(random: &mut StdRng, has_vlans: bool) -> Value {
    let mut cards = vec!["eth1", "eth3"];
    let mut interfaces = Vec::new();
    let mut routes = Vec::new();
    for (number, name) in ["br1", "br2"].into_iter().enumerate() {
        if random.random_bool(0.3) {
            interfaces.push(json!({"name": name, "type": "linux-bridge", "state": "absent"}));
            continue;
        }
        let mtu: u32 = *[1500, 1450, 1400].choose(random).unwrap();
        let mut ports = Vec::new();
        for _ in 0..random.random_range(0..=cards.len()) {
            let card = cards.remove(random.random_range(0..cards.len()));
            let port = json!({"name": card, "type": "ethernet", "state": "up", "mtu": mtu});
            interfaces.push(port);
            ports.push(json!({"name": card, "vlan": {}}));
        }
        let ip = format!("172.30.{number}.{}", random.random_range(1..200));
        interfaces.push(json!({
            "name": name, "type": "linux-bridge", "state": "up", "mtu": mtu,
            "ipv4": address(&ip, 24), "bridge": {"port": ports}
        }));
        if random.random_bool(0.5) {
            routes.push(json!({
                "destination": format!("198.51.100.{}/32", random.random_range(1..200)),
                "next-hop-interface": name, "next-hop-address": format!("172.30.{number}.254")
            }));
        }
    }
    let lower: u32 = *[1450, 1300].choose(random).unwrap();
    let vlan: u32 = *[1500, 1400].choose(random).unwrap();
    match random.random_range(0..3) {
        _ if !has_vlans => {}
        // The VLAN that is not named follows.
        0 => interfaces.push(json!({"name": "eth2", "type": "ethernet", "mtu": lower})),
        1 => interfaces.push(json!({"name": "eth2.5", "type": "vlan", "state": "absent"})),
        _ => interfaces.extend([
            json!({"name": "eth2", "type": "ethernet", "mtu": 1500}),
            json!({
                "name": "eth2.5", "type": "vlan", "state": "up", "mtu": vlan,
                "vlan": {"base-iface": "eth2", "id": 5}
            }),
        ]),
    }
    json!({"interfaces": interfaces, "routes": {"config": routes}})
}

#[test]
fn a_port_moves_from_one_bridge_to_another_in_any_order() {
    in_namespace(|| {
        let lab = Lab::new();
        third_card();
        let bridge = |name: &str, ports: &[&str]| {
            let ports: Vec<Value> = ports
                .iter()
                .map(|port| json!({"name": port, "vlan": {}}))
                .collect();
            json!({
                "name": name, "type": "linux-bridge", "state": "up", "bridge": {"port": ports}
            })
        };
        for (first, second) in [(&[][..], &["eth3"][..]), (&["eth3"], &[]), (&[], &["eth3"])] {
            lab.make(&json!({"interfaces": [bridge("br1", first), bridge("br2", second)]}));
        }
    });
}

/// Each state follows another one, so bridges change, ports move, and what is above them goes.
#[test]
fn the_plan_of_random_states_is_their_effect() {
    let has_vlans = Capability::Link("vlan").is_there();
    let (first, count) = (seed(), if is_exhaustive() { 200 } else { 10 });
    in_namespace(move || {
        let lab = Lab::new();
        third_card();
        for seed in first..first + count {
            println!("WEFT_SEED={seed}");
            let state = random_state(&mut StdRng::seed_from_u64(seed), has_vlans);
            if lab.plan(&state).1 != 0 {
                lab.make(&state);
            }
        }
    });
}

#[test]
fn a_link_is_set_down_and_its_routes_come_back_with_it() {
    in_namespace(|| {
        let lab = Lab::new();
        lab.make(&json!({"interfaces": [{"name": "eth2", "type": "ethernet", "state": "down"}]}));
        let up = |name: &str| {
            link(name)["flags"]
                .as_array()
                .unwrap()
                .contains(&json!("UP"))
        };
        assert!(!up("eth2") && !has_route("198.18.0.0/16", "main"));
        lab.make(&json!({"interfaces": [{"name": "eth2", "type": "ethernet", "state": "up"}]}));
        assert!(up("eth2"));
        // A bridge without a port has no carrier, and is up nevertheless.
        lab.make(&json!({"interfaces": [{"name": "br5", "type": "linux-bridge", "state": "up"}]}));
    });
}

/// The plan has the VLANs and their routes, as `make` compares it with the host.
#[test]
fn vlans_go_down_and_come_up_with_their_base() {
    let vlan = Capability::Link("vlan");
    if !vlan.is_there() {
        return capabilities::skip("vlans_go_down_and_come_up", &[vlan]);
    }
    in_namespace(|| {
        let lab = Lab::new();
        lab.make(&json!({
            "interfaces": [
                {
                    "name": "eth1.5", "type": "vlan", "state": "up",
                    "vlan": {"base-iface": "eth1", "id": 5}, "ipv4": address("192.0.2.1", 24)
                },
                {
                    "name": "eth1.5.6", "type": "vlan", "state": "up",
                    "vlan": {"base-iface": "eth1.5", "id": 6}
                }
            ],
            "routes": {"config": [{
                "destination": "198.51.100.0/24", "next-hop-interface": "eth1.5",
                "next-hop-address": "192.0.2.9"
            }]}
        }));
        let up = |name: &str| {
            let flags = link(name)["flags"].clone();
            flags.as_array().unwrap().contains(&json!("UP"))
        };
        let eth1 = |state: &str| json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": state}]});
        let (planned, _) = lab.plan(&eth1("down"));
        for line in [
            "~ interfaces[eth1.5].state: up -> down",
            "~ interfaces[eth1.5.6].state: up -> down",
            "- routes.config[198.51.100.0/24 via 192.0.2.9 dev eth1.5]",
        ] {
            assert!(planned.contains(line), "{planned}");
        }
        lab.make(&eth1("down"));
        assert!(!up("eth1.5") && !up("eth1.5.6") && !has_route("198.51.100.0/24", "main"));
        lab.make(&eth1("up"));
        assert!(up("eth1.5") && up("eth1.5.6"));
    });
}

#[test]
fn vlans_and_their_bases_change_the_mtu_in_an_order_that_the_kernel_takes() {
    let vlan = Capability::Link("vlan");
    if !vlan.is_there() {
        return capabilities::skip("vlans_and_their_bases", &[vlan]);
    }
    in_namespace(|| {
        let lab = Lab::new();
        third_card();
        let untouched = picture();
        let state = |mtu: u32| {
            json!({"interfaces": [
                {
                    "name": "eth1.5", "type": "vlan", "state": "up", "mtu": mtu,
                    "vlan": {"base-iface": "eth1", "id": 5}, "ipv4": address("192.0.2.1", 24)
                },
                {"name": "eth1", "type": "ethernet", "state": "up", "mtu": mtu},
                {
                    "name": "br1", "type": "linux-bridge", "state": "up",
                    "bridge": {"port": [{"name": "eth3", "vlan": {}}]}
                },
                {
                    "name": "br1.6", "type": "vlan", "state": "up",
                    "vlan": {"base-iface": "br1", "id": 6}
                }
            ]})
        };
        for mtu in [9000, 1400] {
            lab.make(&state(mtu));
            let vlan = link("eth1.5");
            assert_eq!(
                (&vlan["mtu"], &vlan["linkinfo"]["info_data"]["id"]),
                (&json!(mtu), &json!(5))
            );
            assert_eq!(link("eth1")["mtu"], mtu);
        }
        let made = picture();
        let (mut agent, hold) = lab.start_and_hold(
            &json!({"interfaces": [
                {"name": "eth1.5", "type": "vlan", "state": "absent"},
                {"name": "br1.6", "type": "vlan", "state": "absent"},
                {"name": "br1", "type": "linux-bridge", "state": "absent"},
            ]}),
            "Probe",
        );
        assert_eq!((link("eth1.5"), link("br1.6")), (Value::Null, Value::Null));
        agent.kill().unwrap();
        agent.wait().unwrap();
        drop(hold);
        // The next start brings back the links, with the indexes of all.
        let (said, code) = lab.apply(&json!({"interfaces": [{"name": "eth1", "state": "up"}]}));
        assert_eq!(code, 0, "{said}");
        is_as_before(&made, &said);
        for number in ["2", "1"] {
            let (said, code) = lab.agent(&["rollback", "--number", number]);
            assert_eq!(code, 0, "{said}");
        }
        is_as_before(&untouched, "both changes were taken back");
    });
}

/// Runs a test with a machine that may change the kernel.
fn with_machine<F: Future<Output = ()>>(lab: &Lab, test: impl FnOnce(Arc<Machine>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let dir = StateDir::open(lab.dir()).unwrap();
    runtime.block_on(async {
        let (machine, _changes) =
            Machine::start_with(dir, WithoutNetworkManager::ConfigureKernel).unwrap();
        test(Arc::new(machine)).await;
    });
}

fn options(checkpoint: Duration) -> ApplyOptions {
    ApplyOptions {
        commit: false,
        checkpoint,
        verify: true,
        memory_only: false,
        limit: LONG,
    }
}

fn desired(state: &Value) -> Desired {
    Desired::read(state).unwrap()
}

#[test]
fn a_checkpoint_whose_time_is_over_is_rolled_back_by_itself() {
    let lease = Duration::from_secs(10);
    in_namespace(|| {
        let lab = Lab::new();
        with_machine(&lab, async |host| {
            host.apply(desired(&bridge()), options(LONG)).await.unwrap();
            host.renew(lease).await.unwrap();
            host.renew(10 * LONG).await.unwrap();
            // A checkpoint of the same length begins now, so it ends after the lease that the
            // second renewal has replaced.
            wait_for_the_end_of_a_checkpoint(lease);
            let held = host.checkpoints().await.unwrap();
            assert_eq!(held.len(), 1, "a renewed checkpoint lasts");
            host.commit(held[0].clone()).await.unwrap();
            assert!(host.checkpoints().await.unwrap().is_empty());
            assert!(has_address("br1", "192.0.2.1"), "a commit ends it for good");
        });
    });
}

/// Begins a checkpoint that lasts this long, on a host of its own, and waits until the agent has
/// rolled it back.
fn wait_for_the_end_of_a_checkpoint(lease: Duration) {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        with_machine(&lab, async |host| {
            let found = host.retrieve(Query::default()).await.unwrap();
            assert_eq!(found.backend, Backend::Kernel);
            host.apply(desired(&bridge()), options(lease))
                .await
                .unwrap();
            assert_eq!(host.checkpoints().await.unwrap().len(), 1);
            let deadline = Instant::now() + LONG;
            while !host.checkpoints().await.unwrap().is_empty() {
                assert!(Instant::now() < deadline, "the checkpoint stays");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            is_as_before(&untouched, "the time was over");
            let late = host.commit(String::new()).await;
            assert!(matches!(late, Err(HostError::Nmstate { .. })), "{late:?}");
        });
    });
}

#[test]
fn a_change_that_fails_halfway_leaves_nothing() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        let mut state = bridge();
        // The kernel refuses it, after all links are made.
        state["routes"]["config"][0]["next-hop-address"] = json!("192.168.77.1");
        let (said, code) = lab.apply(&state);
        assert!(
            code == 1 && said.contains("The host is as it was before"),
            "{said}"
        );
        is_as_before(&untouched, &said);
    });
}

#[test]
fn a_change_whose_probe_fails_is_taken_back() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        let mut state = bridge();
        let card = json!({
            "name": "eth2", "type": "ethernet", "state": "up",
            "ipv4": address("203.0.113.2", 24)
        });
        state["interfaces"].as_array_mut().unwrap().push(card);
        let policy = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": "probed"},
            "spec": {
                // The host itself answers, until the change takes the address away.
                "probes": [{"icmp": {"host": "203.0.113.7"}}],
                "desiredState": state,
            }
        });
        let (said, code) = lab.apply(&policy);
        assert!(code == 1 && said.contains("Probe"), "{said}");
        is_as_before(&untouched, &said);
    });
}

#[test]
fn killed_in_any_phase_the_host_is_before_or_after() {
    thread::scope(|scope| {
        for phase in ["Checkpoint", "Apply", "Probe", "Commit", "Note"] {
            scope.spawn(move || {
                in_namespace(|| {
                    let lab = Lab::new();
                    let untouched = picture();
                    let (mut agent, hold) = lab.start_and_hold(&bridge(), phase);
                    let is_made = link("br1") != Value::Null;
                    assert_eq!(
                        is_made,
                        ["Probe", "Commit", "Note"].contains(&phase),
                        "{phase}"
                    );
                    agent.kill().unwrap();
                    agent.wait().unwrap();
                    drop(hold);
                    let (said, code) =
                        lab.apply(&json!({"interfaces": [{"name": "eth1", "state": "up"}]}));
                    assert!(
                        code == 0 && said.contains(&format!("in phase {phase}")),
                        "{said}"
                    );
                    if phase == "Note" {
                        assert!(has_address("br1", "192.0.2.1"), "{said}");
                    } else {
                        is_as_before(&untouched, &said);
                    }
                });
            });
        }
    });
}

/// The guardian of the host in the test's namespace. Ends with the test.
struct Guardian(Child);

impl Guardian {
    fn start(lab: &Lab) -> Self {
        let log = File::create(lab.guardian_log()).unwrap();
        let child = lab
            .command(&["guard", "--log-text"])
            .stderr(log)
            .spawn()
            .unwrap();
        let guardian = Self(child);
        wait_until("the guardian watches", || lab.guardian_says("guarding"));
        guardian
    }

    /// Asks it to end, as the kubelet does.
    fn ask_to_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_guardian_brings_the_host_of_a_killed_agent_back() {
    thread::scope(|scope| {
        // Before the end of the phase Apply there is no checkpoint, or a part of the change.
        for phase in ["Probe", "Commit", "Note"] {
            scope.spawn(move || {
                in_namespace(|| {
                    let lab = Lab::new();
                    let untouched = picture();
                    let mut guardian = Guardian::start(&lab);
                    let (mut agent, hold) = lab.start_and_hold(&bridge(), phase);
                    agent.kill().unwrap();
                    agent.wait().unwrap();
                    drop(hold);
                    if phase == "Note" {
                        // The change had been committed.
                        guardian.ask_to_end();
                        assert!(guardian.0.wait().unwrap().success());
                        assert!(has_address("br1", "192.0.2.1"));
                        assert!(!lab.guardian_says("rolling back"));
                        return;
                    }
                    wait_until("the host is back", || {
                        lab.guardian_says("as it was before the change")
                    });
                    is_as_before(&untouched, phase);
                    // The next agent reports the change all the same.
                    let (said, code) =
                        lab.apply(&json!({"interfaces": [{"name": "eth1", "state": "up"}]}));
                    assert!(
                        code == 0
                            && said.contains(&format!("in phase {phase}"))
                            && said.contains("as it was before"),
                        "{said}"
                    );
                    is_as_before(&untouched, &said);
                });
            });
        }
    });
}

#[test]
fn the_guardian_ends_only_after_the_change_that_is_under_way() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        // A change that comes to its end is not the guardian's business.
        let mut guardian = Guardian::start(&lab);
        let (mut agent, hold) = lab.start_and_hold(&bridge(), "Probe");
        guardian.ask_to_end();
        drop(hold);
        assert!(agent.wait().unwrap().success());
        assert!(guardian.0.wait().unwrap().success());
        assert!(has_address("br1", "192.0.2.1"));
        assert!(!lab.guardian_says("rolling back"));
        let (said, code) = lab.agent(&["rollback"]);
        assert_eq!(code, 0, "{said}");
        is_as_before(&untouched, &said);

        let mut guardian = Guardian::start(&lab);
        let (mut agent, _hold) = lab.start_and_hold(&bridge(), "Probe");
        guardian.ask_to_end();
        agent.kill().unwrap();
        agent.wait().unwrap();
        assert!(guardian.0.wait().unwrap().success());
        is_as_before(&untouched, "the guardian has ended");
    });
}

#[test]
fn killed_in_the_middle_of_an_apply_the_host_is_as_before() {
    // A removed bridge is harder to bring back than a new one to remove.
    let change = json!({
        "interfaces": [
            {"name": "br0", "type": "linux-bridge", "state": "absent"},
            {
                "name": "eth2", "type": "ethernet", "state": "up", "mtu": 1300,
                "ipv4": address("192.0.2.7", 24)
            },
            {
                "name": "br1", "type": "linux-bridge", "state": "up",
                "bridge": {"port": [{"name": "eth1"}]}
            }
        ]
    });
    in_namespace(|| {
        let lab = Lab::new();
        ip("link add br0 address 02:00:00:00:00:08 type bridge forward_delay 400 stp_state 0");
        ip("link set br0 up");
        ip("link set eth1 master br0");
        ip("link set eth1 type bridge_slave cost 77");
        ip("address add 10.77.0.1/16 dev br0");
        ip("route add 10.78.0.0/16 via 10.77.0.9 metric 12");
        wait_until("the bridge is ready", || {
            let state = printed("ip", "-6 address show dev br0");
            state.contains("inet6 fe80") && !state.contains("tentative")
        });
        let untouched = picture();
        let cost = || printed("ip", "-d link show dev eth1").contains("cost 77 ");
        assert!(cost());
        let mut halfway = 0;
        for step in 0..8 {
            // The guardian or the next agent brings the host back.
            let guardian = (step % 2 == 1).then(|| Guardian::start(&lab));
            let (mut agent, hold) = lab.start_and_hold(&change, "Apply");
            // It must not come to its end before it is killed.
            let end = lab.hold("Probe");
            drop(hold);
            // Without a pause and another process: the change takes some milliseconds.
            let deadline = Instant::now() + LONG;
            while fs::read_to_string("/proc/thread-self/net/dev")
                .unwrap()
                .contains("br0:")
            {
                assert!(Instant::now() < deadline, "never: the change has begun");
            }
            thread::sleep(Duration::from_millis(3 * step));
            agent.kill().unwrap();
            agent.wait().unwrap();
            halfway += usize::from(!has_address("eth2", "192.0.2.7"));
            drop(end);
            if guardian.is_some() {
                wait_until("the host is back", || {
                    lab.guardian_says("as it was before the change")
                });
                is_as_before(&untouched, &format!("guarded after {} ms", 3 * step));
            }
            let (said, code) = lab.apply(&json!({"interfaces": [{"name": "eth1", "state": "up"}]}));
            assert_eq!(code, 0, "{said}");
            is_as_before(&untouched, &format!("killed after {} ms: {said}", 3 * step));
            assert!(cost(), "killed after {} ms", 3 * step);
        }
        println!("{halfway} of 8 were killed with a part of the change made");
        assert!(halfway > 0);
    });
}

#[test]
fn a_state_outside_of_the_subset_is_refused_before_anything_changes() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        let resolver = fs::read("/etc/resolv.conf").ok();
        for (state, place) in [
            (
                json!({"dns-resolver": {"config": {"server": ["192.0.2.53"]}}}),
                "dns-resolver",
            ),
            (
                json!({"interfaces": [{
                    "name": "bond0", "type": "bond", "state": "up",
                    "link-aggregation": {"mode": "active-backup", "port": ["eth1"]}
                }]}),
                "interfaces[bond0].type",
            ),
            (
                json!({"interfaces": [{
                    "name": "eth1", "type": "ethernet", "state": "up",
                    "ipv4": {"enabled": true, "dhcp": true}
                }]}),
                "interfaces[eth1].ipv4.dhcp",
            ),
        ] {
            for (said, code) in [lab.plan(&state), lab.apply(&state)] {
                assert_ne!(code, 0, "{said}");
                assert!(said.contains(&format!("{place}: ")), "{said}");
                assert!(said.contains("without NetworkManager"), "{said}");
            }
        }
        is_as_before(&untouched, "nothing was applied");
        assert_eq!(fs::read("/etc/resolv.conf").ok(), resolver);
    });
}

#[test]
fn a_refusal_shows_no_password() {
    in_namespace(|| {
        let lab = Lab::new();
        let state = json!({"interfaces": [{
            "name": "eth1", "type": "ethernet", "state": "up",
            "802.1x": {
                "identity": "node", "eap-methods": ["md5"], "password": "planted-password",
                "private-key-password": "planted-key-password"
            }
        }]});
        for (said, code) in [lab.plan(&state), lab.apply(&state)] {
            assert_ne!(code, 0, "{said}");
            assert!(said.contains("802.1x"), "{said}");
            assert!(!said.contains("planted"), "{said}");
        }
    });
}

#[test]
fn without_the_setting_nothing_is_changed() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        let apply = || {
            let output = Command::new(weft_system_tests::program("weft-agent"))
                .args(["apply", "-f", &lab.file(&bridge())])
                .env("WEFT_AGENT_STATE_DIR", lab.dir())
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("can only be read"), "{said}");
            is_as_before(&untouched, "nothing was applied");
        };
        apply();
        // A change from before the setting was taken back, whose agent was killed.
        let (mut agent, hold) = lab.start_and_hold(&bridge(), "Probe");
        agent.kill().unwrap();
        agent.wait().unwrap();
        drop(hold);
        assert!(link("br1") != Value::Null);
        apply();
    });
}

/// A message bus of its own, without NetworkManager.
struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    /// With the programs that it can start described in these folders.
    fn start(folder: &Path, services: &[&Path]) -> Self {
        let address = format!("unix:path={}", folder.join("bus").display());
        let services: String = services
            .iter()
            .map(|services| format!("<servicedir>{}</servicedir>", services.display()))
            .collect();
        let file = folder.join("bus.conf");
        let config = format!(
            "<busconfig><listen>{address}</listen>{services}\
             <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>"
        );
        fs::write(&file, config).unwrap();
        let daemon = weft_testenv::host_program("dbus-daemon")
            .expect("scripts/network-manager fetches it")
            .arg(format!("--config-file={}", file.display()))
            .args(["--nofork", "--nopidfile", "--nosyslog"])
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare starts it");
        wait_until("the bus listens", || folder.join("bus").exists());
        Self { daemon, address }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[test]
fn a_host_that_has_network_manager_is_not_changed_past_it() {
    in_namespace(|| {
        let lab = Lab::new();
        let untouched = picture();
        let apply = |bus: &Bus| {
            let output = lab
                .command(&["apply", "-f", &lab.file(&bridge())])
                .env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address)
                .output()
                .unwrap();
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        // Installed, and not started yet.
        let services = lab.folder.path().join("services");
        fs::create_dir(&services).unwrap();
        fs::write(
            services.join("org.freedesktop.nm_dispatcher.service"),
            "[D-BUS Service]\nName=org.freedesktop.nm_dispatcher\nExec=/bin/false\nUser=root\n",
        )
        .unwrap();
        let bus = Bus::start(lab.folder.path(), &[&services]);
        let said = apply(&bus);
        assert!(
            said.contains("can only be read") && said.contains("start NetworkManager"),
            "{said}"
        );
        drop(bus);
        fs::remove_file(lab.folder.path().join("bus")).unwrap();

        // It ran earlier.
        let bus = Bus::start(lab.folder.path(), &[]);
        let seen = lab.dir().join("network-manager-seen");
        fs::write(&seen, "true").unwrap();
        let said = apply(&bus);
        assert!(
            said.contains("ran on this host earlier") && said.contains(seen.to_str().unwrap()),
            "{said}"
        );
        is_as_before(&untouched, "nothing was applied");

        // Neither.
        fs::remove_file(seen).unwrap();
        let said = apply(&bus);
        assert!(said.contains("Changed"), "{said}");
        drop(bus);

        // Its bus does not answer.
        let (said, code) = {
            let output = lab
                .command(&["rollback"])
                .env(
                    "DBUS_SYSTEM_BUS_ADDRESS",
                    format!("unix:path={}", lab.folder.path().join("bus").display()),
                )
                .output()
                .unwrap();
            (
                String::from_utf8(output.stderr).unwrap(),
                output.status.code(),
            )
        };
        assert!(
            code == Some(1) && said.contains("can only be read"),
            "{said}"
        );
        assert!(has_address("br1", "192.0.2.1"));
    });
}
