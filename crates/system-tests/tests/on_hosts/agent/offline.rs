//! The agent's commands for a person on the host, without a cluster: what they change is judged by
//! `ip -j`.

use std::path::PathBuf;

use serde_json::{Value, json};
use weft_testenv::host_lab::{Host, HostLab, agent};

use crate::on_hosts::agent::support::{
    Halt, addresses, checkpoints, link, network_manager, wait_until,
};

const STATE_DIR: &str = "/var/lib/weft-agent";

struct Agent<'a> {
    host: &'a Host,
    program: String,
}

impl<'a> Agent<'a> {
    fn on(host: &'a Host) -> Self {
        Self {
            host,
            program: agent::program().unwrap().display().to_string(),
        }
    }

    async fn run(&self, args: &[&str]) -> Result<String, String> {
        let command: Vec<&str> = [&*self.program, "--probe-seconds", "4"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        self.host
            .exec(&command)
            .await
            .map_err(|error| format!("{error:#}"))
    }

    fn put(&self, state: &Value) -> String {
        std::fs::write(self.host.file("/run/state.json"), state.to_string()).unwrap();
        "/run/state.json".to_owned()
    }

    async fn apply(&self, state: &Value) -> Result<String, String> {
        let file = self.put(state);
        self.run(&["apply", "-f", &file]).await
    }

    /// Starts an apply, kills it at the beginning of a phase, and lets nothing hold up the next
    /// one.
    async fn kill_in(&self, phase: &'static str, state: &Value) {
        let hold = Halt::at(self.host, phase);
        let file = self.put(state);
        let args = ["--probe-seconds", "12", "apply", "-f", &file];
        let mut program = self
            .host
            .start_program(&agent::program().unwrap(), &args, &[])
            .unwrap();
        hold.reached().await;
        program.kill().unwrap();
    }

    /// Applies a state. Returns the output, which reports an interrupted change before it.
    async fn apply_after(&self, state: &Value) -> String {
        let file = self.put(state);
        self.host
            .exec(&[
                "sh",
                "-c",
                &format!("{} apply -f {file} 2>&1", self.program),
            ])
            .await
            .unwrap()
    }

    fn state(&self, name: &str) -> PathBuf {
        self.host.file(format!("{STATE_DIR}/{name}"))
    }
}

fn address(interface: &str, ip: &str) -> Value {
    let ipv4 =
        json!({"enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": 24}]});
    json!({
        "interfaces": [
            {
                "name": interface, "type": "ethernet", "state": "up", "ipv4": ipv4,
                "ipv6": {"enabled": false}
            }
        ]
    })
}

fn bridge(mtu: u32) -> Value {
    json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "up", "mtu": mtu,
    "ipv4": {
        "enabled": true, "dhcp": false, "address": [{"ip": "172.31.1.77", "prefix-length": 24}]
    }, "ipv6": {"enabled": false},
    "bridge": {
        "options": {"stp": {"enabled": false}}, "port": [{"name": "eth1", "vlan": {}}]
    }}]})
}

async fn default_route(host: &Host) -> Value {
    serde_json::from_str(
        &host
            .exec(&["ip", "-j", "route", "show", "default"])
            .await
            .unwrap(),
    )
    .unwrap()
}

/// The gateway is out of reach for 16 s, and the probes have 4 s without that. The checkpoint would
/// be over after 12 s.
#[tokio::test]
async fn probes_and_checkpoint_wait_for_a_bridge_with_a_spanning_tree() {
    let hosts = HostLab::builder().hosts(1).start_hosts().await.unwrap();
    let host = hosts.host("node-1").unwrap();
    let stp = json!({
        "enabled": true, "forward-delay": 8, "max-age": 12, "hello-time": 2, "priority": 32768
    });
    let state = json!({
        "interfaces": [{
            "name": "br-ex", "type": "linux-bridge", "state": "up", "copy-mac-from": "eth0",
            "ipv4": {
                "enabled": true, "dhcp": false,
                "address": [{"ip": "172.31.0.11", "prefix-length": 24}]
            },
            "bridge": {"options": {"stp": stp}, "port": [{"name": "eth0", "vlan": {}}]}
        }],
        "routes": {"config": [{
            "destination": "0.0.0.0/0", "next-hop-interface": "br-ex",
            "next-hop-address": "172.31.0.1"
        }]}
    });
    let applied = Agent::on(host).apply(&state).await.unwrap();
    assert!(
        applied.contains("Still reachable: default gateway"),
        "{applied}"
    );
    assert_eq!(link(host, "eth0").await["master"], "br-ex");
    assert_eq!(default_route(host).await[0]["dev"], "br-ex");
}

#[tokio::test]
async fn a_change_is_made_once_told_and_taken_back() {
    let lab = HostLab::builder().hosts(1).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let agent = Agent::on(host);
    let wanted = address("eth1", "172.31.1.50");

    let file = agent.put(&wanted);
    let planned = agent.run(&["plan", "-f", &file]).await.unwrap_err();
    assert!(
        planned.contains("interfaces[eth1].ipv4.address"),
        "{planned}"
    );
    assert!(addresses(host, "eth1").await.is_empty());

    // A policy in the form of nmstate, and an object of another API.
    let policy = format!(
        "capture:\n  card: interfaces.name == \"eth1\"\ndesiredState: {wanted}\n---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: a}}\n"
    );
    std::fs::write(host.file("/run/policy.yaml"), policy).unwrap();
    let of_policy = agent
        .run(&["plan", "-f", "/run/policy.yaml"])
        .await
        .unwrap_err();
    for expected in [
        "interfaces[eth1].ipv4.address",
        "/run/policy.yaml: NetworkAttachmentDefinition a (k8s.cni.cncf.io/v1) is skipped: it says nothing of a host's network",
    ] {
        assert!(of_policy.contains(expected), "{of_policy}");
    }

    let told = agent.apply(&wanted).await.unwrap();
    assert!(
        told.contains("Still reachable: default gateway, DNS of root-servers.net"),
        "{told}"
    );
    assert_eq!(addresses(host, "eth1").await, ["172.31.1.50"]);
    assert_eq!(checkpoints(host).await, [""; 0]);
    assert!(
        agent
            .run(&["plan", "-f", &file])
            .await
            .unwrap()
            .contains("Nothing would change")
    );
    assert!(
        agent
            .apply(&wanted)
            .await
            .unwrap()
            .contains("Nothing to do")
    );

    assert_eq!(
        agent.run(&["history"]).await.unwrap().lines().count(),
        1,
        "doing nothing is no outcome"
    );
    let told = agent.run(&["rollback"]).await.unwrap();
    assert!(told.contains("the rollback of change 1"), "{told}");
    assert!(addresses(host, "eth1").await.is_empty());

    // The same for programs.
    let document = async |args: &[&str]| -> Value {
        let printed = agent.run(&[args, &["-o", "json"]].concat()).await.unwrap();
        serde_json::from_str(&printed).unwrap()
    };
    let changed = json!({
        "verdict": "Changed", "what": format!("policy {file}"), "failure": null,
        "reachable": ["default gateway", "DNS of root-servers.net"]
    });
    assert_eq!(document(&["apply", "-f", &file]).await, changed);
    let again = document(&["apply", "-f", &file]).await;
    assert_eq!(
        (&again["verdict"], &again["reachable"]),
        (&json!("Nothing"), &json!([]))
    );
    let back = document(&["rollback"]).await;
    assert_eq!(
        (&back["verdict"], &back["what"]),
        (
            &json!("Changed"),
            &json!(format!("the rollback of change 3, policy {file}"))
        )
    );
    assert!(addresses(host, "eth1").await.is_empty());
}

#[tokio::test]
async fn a_change_that_cuts_the_host_off_is_rolled_back() {
    let lab = HostLab::builder().hosts(1).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let agent = Agent::on(host);
    let (route, links) = (
        default_route(host).await,
        link(host, "eth0").await["addr_info"].clone(),
    );
    assert_eq!(route[0]["gateway"], "172.31.0.1");

    let wrong_gateway = json!({"routes": {"config": [
    {"state": "absent", "destination": "0.0.0.0/0", "next-hop-interface": "eth0"},
    {
        "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
        "next-hop-address": "172.31.0.99"
    }]}});
    let error = agent.apply(&wrong_gateway).await.unwrap_err();
    assert!(
        error.contains("Probe (default gateway): not within 4 s") && error.contains("172.31.0.99"),
        "{error}"
    );
    assert_eq!(default_route(host).await, route);
    let file = agent.put(&wrong_gateway);
    let failed = agent
        .run(&["apply", "-f", &file, "-o", "json"])
        .await
        .unwrap_err();
    assert!(
        failed.contains("\"verdict\": \"Failed\"")
            && failed.contains("\"failure\": \"Probe (default gateway): not within 4 s"),
        "{failed}"
    );
    assert_eq!(default_route(host).await, route);

    let resolv_conf = std::fs::read_to_string(host.file("/etc/resolv.conf")).unwrap();
    let wrong_dns = json!({"dns-resolver": {"config": {"server": ["172.31.0.98"], "search": []}}});
    let error = agent.apply(&wrong_dns).await.unwrap_err();
    assert!(
        error.contains("Probe (DNS of root-servers.net)") && error.contains("172.31.0.98"),
        "{error}"
    );
    let names = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("nameserver"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&std::fs::read_to_string(host.file("/etc/resolv.conf")).unwrap()),
        names(&resolv_conf)
    );

    let too_small = json!({"interfaces": [{"name": "eth9", "type": "ethernet", "state": "up"}]});
    let error = agent.apply(&too_small).await.unwrap_err();
    assert!(error.contains("eth9"), "{error}");

    assert_eq!(default_route(host).await, route);
    let now = link(host, "eth0").await["addr_info"].clone();
    let locals = |infos: &Value| {
        infos
            .as_array()
            .unwrap()
            .iter()
            .map(|info| info["local"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(locals(&now), locals(&links));
    assert_eq!(checkpoints(host).await, [""; 0]);
    let history = agent.run(&["history"]).await.unwrap();
    assert_eq!(history.matches("rolled back").count(), 3, "{history}");
}

#[tokio::test]
async fn a_leftover_checkpoint_is_no_obstacle() {
    let lab = HostLab::builder().hosts(1).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let agent = Agent::on(host);
    // Somebody's checkpoint of all devices, for ten minutes.
    let create = [
        "busctl",
        "call",
        "org.freedesktop.NetworkManager",
        "/org/freedesktop/NetworkManager",
        "org.freedesktop.NetworkManager",
        "CheckpointCreate",
        "aouu",
        "0",
        "600",
        "0",
    ];
    host.exec(&create).await.unwrap();
    assert_eq!(checkpoints(host).await.len(), 1);
    agent.apply(&address("eth1", "172.31.1.50")).await.unwrap();
    assert_eq!(addresses(host, "eth1").await, ["172.31.1.50"]);
    assert_eq!(checkpoints(host).await, [""; 0]);
}

/// A policy that cuts the host off, besides the bridge.
fn cut_off(mtu: u32) -> Value {
    let mut state = bridge(mtu);
    state["routes"] = json!({"config": [
    {"state": "absent", "destination": "0.0.0.0/0", "next-hop-interface": "eth0"},
    {
        "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
        "next-hop-address": "172.31.0.99"
    }]});
    state
}

/// Two hosts at the same time, because the second one needs two minutes and little of the machine.
#[tokio::test]
async fn killed_in_any_phase_the_host_is_before_or_after() {
    let lab = HostLab::builder().hosts(2).start().await.unwrap();
    tokio::join!(
        killed_in_any_phase(lab.host("node-1").unwrap()),
        refused_by_network_manager(lab.host("node-2").unwrap()),
    );
}

/// No kernel makes a bridge with a group address. nmstate tries for two minutes, and returns the
/// words about the first bridge.
async fn refused_by_network_manager(host: &Host) {
    let agent = Agent::on(host);
    let bridge = |name: &str| {
        json!({
            "name": name, "type": "linux-bridge", "state": "up",
            "mac-address": "01:00:5E:00:00:01", "bridge": {"port": []}
        })
    };
    let state = json!({"interfaces": [bridge("br7"), bridge("br8")]});
    let error = agent.apply(&state).await.unwrap_err();
    let history = agent.run(&["history"]).await.unwrap();
    for told in [error, history] {
        for name in ["br7", "br8"] {
            let words = format!("{name} failed to create resources");
            assert_eq!(told.matches(&words).count(), 1, "{told}");
        }
        assert!(
            told.contains("; NetworkManager: br")
                && told.contains("Cannot assign requested address"),
            "{told}"
        );
    }
}

/// Killed in each phase, the next start finds the host before or after, never between, and says
/// which.
async fn killed_in_any_phase(host: &Host) {
    let agent = Agent::on(host);
    let next = address("eth2", "172.31.2.50");
    // NetworkManager chooses the metric anew with each activation.
    let way = async || {
        let route = default_route(host).await;
        (
            route.as_array().map(Vec::len),
            route[0]["gateway"].clone(),
            route[0]["dev"].clone(),
        )
    };
    let before_all = way().await;

    agent.kill_in("Plan", &bridge(1400)).await;
    let told = agent.apply_after(&next).await;
    assert!(
        !told.contains("stopped in phase"),
        "nothing had begun: {told}"
    );
    assert_eq!(link(host, "br1").await, Value::Null);
    agent.run(&["rollback"]).await.unwrap();

    for (phase, state) in [
        ("Checkpoint", bridge(1400)),
        ("Apply", bridge(1400)),
        ("Probe", bridge(1400)),
        ("Commit", bridge(1400)),
        ("Rollback", cut_off(1400)),
    ] {
        agent.kill_in(phase, &state).await;
        // The next start of any kind cleans up. Another change shows that nothing is in the way.
        let told = agent.apply_after(&next).await;
        let before = format!(
            "stopped in phase {phase} of changing policy /run/state.json: the host is as it was before"
        );
        assert!(told.contains(&before), "{phase}: {told}");
        assert_eq!(link(host, "br1").await, Value::Null, "{phase}");
        assert!(addresses(host, "eth1").await.is_empty());
        assert_eq!(way().await, before_all, "{phase}");
        assert_eq!(checkpoints(host).await, [""; 0]);
        assert!(!agent.state("transaction.json").exists());
        assert!(
            agent.run(&["history"]).await.unwrap().contains(&before),
            "{phase}"
        );
        agent.run(&["rollback"]).await.unwrap();
    }

    // After the commit: as it is known to be done, and as it is not.
    for phase in ["Note", "Commit"] {
        agent.kill_in("Note", &bridge(1400)).await;
        let journal = std::fs::read_to_string(agent.state("transaction.json")).unwrap();
        std::fs::write(
            agent.state("transaction.json"),
            journal.replace("\"Note\"", &format!("\"{phase}\"")),
        )
        .unwrap();
        let told = agent.apply_after(&next).await;
        let after = format!(
            "stopped in phase {phase} of changing policy /run/state.json: it had been committed, and is there"
        );
        assert!(told.contains(&after), "{phase}: {told}");
        assert_eq!(addresses(host, "br1").await, ["172.31.1.77"], "{phase}");
        assert_eq!(link(host, "eth1").await["master"], "br1");
        assert!(!agent.state("transaction.json").exists());
        // It can be taken back as any other change.
        agent.run(&["rollback"]).await.unwrap();
        assert_eq!(addresses(host, "eth2").await, [""; 0]);
        let history = agent.run(&["history"]).await.unwrap();
        let number = history
            .lines()
            .rev()
            .filter(|line| line.ends_with("changed      policy /run/state.json"))
            .nth(1)
            .unwrap()
            .split_whitespace()
            .next();
        agent
            .run(&["rollback", "--number", number.unwrap()])
            .await
            .unwrap();
        assert_eq!(link(host, "br1").await, Value::Null, "{phase}");
    }

    // A NetworkManager that is started anew meanwhile knows of no checkpoint, and has the new
    // profiles on disk.
    agent.kill_in("Probe", &bridge(1400)).await;
    host.restart_network_manager().await.unwrap();
    assert_eq!(
        addresses(host, "br1").await,
        ["172.31.1.77"],
        "what makes this case"
    );
    let told = agent.apply_after(&next).await;
    assert!(told.contains("the host is as it was before"), "{told}");
    assert_eq!(link(host, "br1").await, Value::Null);
}

/// Killed while NetworkManager is at it: nothing of the change is made yet, something, and more.
#[tokio::test]
async fn killed_in_the_middle_of_an_apply_the_host_is_as_before() {
    let lab = HostLab::builder().hosts(1).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let agent = Agent::on(host);
    let next = address("eth2", "172.31.2.50");
    let bridges: Vec<Value> = (0..24)
        .map(|number| {
            json!({"name": format!("many{number}"), "type": "linux-bridge", "state": "up", "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
                "bridge": {"options": {"stp": {"enabled": false}}, "port": []}})
        })
        .collect();
    let mut wanted = json!({"interfaces": bridges});
    wanted["interfaces"].as_array_mut().unwrap().extend(
        address("eth1", "172.31.1.50")["interfaces"]
            .as_array()
            .cloned()
            .unwrap(),
    );
    let made = || {
        std::fs::read_to_string(host.file("/proc/1/net/dev"))
            .unwrap()
            .matches("many")
            .count()
    };
    for some in [0, 1, 8] {
        // It ends there at the latest.
        let hold = Halt::at(host, "Probe");
        let file = agent.put(&wanted);
        let mut program = host
            .start_program(
                &agent::program().unwrap(),
                &["--probe-seconds", "4", "apply", "-f", &file],
                &[],
            )
            .unwrap();
        wait_until(&format!("{some} bridges are made"), async || {
            let now = made();
            let begun = now > 0 || !checkpoints(host).await.is_empty();
            if begun && now >= some {
                Ok(())
            } else {
                Err(format!("{now} are made; {}", program.last_words()))
            }
        })
        .await;
        program.kill().unwrap();
        drop(hold);
        println!("killed when {} bridges were made", made());
        let told = agent.apply_after(&next).await;
        assert!(told.contains("stopped in phase Apply of changing policy /run/state.json: the host is as it was before"), "{some}: {told}");
        assert_eq!(made(), 0, "{some}");
        assert!(addresses(host, "eth1").await.is_empty(), "{some}");
        assert_eq!(checkpoints(host).await, [""; 0]);
        assert!(!agent.state("transaction.json").exists());
        agent.run(&["rollback"]).await.unwrap();
    }
}

/// Without a next start NetworkManager does it alone, when the checkpoint's time is over.
#[tokio::test]
async fn an_agent_that_never_comes_back_is_not_needed_to_roll_back() {
    let lab = HostLab::builder().hosts(1).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let agent = Agent::on(host);
    let begun = std::time::Instant::now();
    agent.kill_in("Commit", &bridge(1400)).await;
    assert_eq!(
        addresses(host, "br1").await,
        ["172.31.1.77"],
        "the change is made"
    );
    let [checkpoint] = &checkpoints(host).await[..] else {
        panic!("there is one checkpoint")
    };
    let timeout = [
        "get-property",
        checkpoint,
        "org.freedesktop.NetworkManager.Checkpoint",
        "RollbackTimeout",
    ];
    // The agent renews it while nmstate applies, and NetworkManager adds that to the time that has
    // passed since the checkpoint was made.
    let timeout = network_manager(host, &timeout).await;
    let seconds: u32 = timeout
        .strip_prefix("u ")
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_else(|| panic!("{timeout}"));
    // NetworkManager counts whole seconds.
    let most = 20 + u32::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    assert!(
        (20..=most).contains(&seconds),
        "the probes' seconds, 8, and those in which it was applied: {seconds}"
    );
    // Not to wait for all of it: one second from now.
    let manager = "/org/freedesktop/NetworkManager";
    network_manager(
        host,
        &[
            "call",
            manager,
            "org.freedesktop.NetworkManager",
            "CheckpointAdjustRollbackTimeout",
            "ou",
            checkpoint,
            "1",
        ],
    )
    .await;
    wait_until("NetworkManager has rolled back", async || {
        let now = (
            link(host, "br1").await,
            addresses(host, "eth1").await,
            checkpoints(host).await,
        );
        if now == (Value::Null, vec![], vec![]) {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    assert_eq!(link(host, "eth1").await["master"], Value::Null);

    // An agent that comes back later sees no checkpoint, as after a commit. Only the host's state
    // shows that nothing was committed.
    let told = agent.apply_after(&address("eth2", "172.31.2.50")).await;
    let before =
        "stopped in phase Commit of changing policy /run/state.json: the host is as it was before";
    assert!(told.contains(before), "{told}");
}

/// A pod's port stays on its bridge, whatever becomes of the bridge.
async fn pods_ports(lab: &HostLab) {
    let host = lab.host("node-1").unwrap();
    let agent = Agent::on(host);
    agent.apply(&bridge(1500)).await.unwrap();
    // As the bridge plugin of CNI does it.
    host.exec(&["ip", "netns", "add", "pod"]).await.unwrap();
    host.ip(
        "link add vethpod type veth peer name eth0 netns pod\nlink set vethpod master br1 up\n",
    )
    .await
    .unwrap();
    host.exec(&[
        "ip",
        "-n",
        "pod",
        "addr",
        "add",
        "172.31.1.78/24",
        "dev",
        "eth0",
    ])
    .await
    .unwrap();
    host.exec(&["ip", "-n", "pod", "link", "set", "eth0", "up"])
        .await
        .unwrap();
    let reachable = async || {
        wait_until("the pod is reachable over the bridge", async || {
            let ping = [
                "ip",
                "netns",
                "exec",
                "pod",
                "ping",
                "-c",
                "1",
                "-W",
                "1",
                "172.31.1.1",
            ];
            host.exec(&ping)
                .await
                .map(|_| ())
                .map_err(|error| format!("{error:#}"))
        })
        .await;
        assert_eq!(link(host, "vethpod").await["master"], "br1");
        assert!(
            link(host, "vethpod").await["flags"]
                .as_array()
                .unwrap()
                .contains(&json!("UP"))
        );
        assert_eq!(
            host.exec(&[
                "sh",
                "-c",
                "ls /etc/NetworkManager/system-connections | grep -c veth || true"
            ])
            .await
            .unwrap()
            .trim(),
            "0"
        );
    };
    reachable().await;

    // A change.
    agent.apply(&bridge(1400)).await.unwrap();
    assert_eq!(link(host, "br1").await["mtu"], 1400);
    reachable().await;

    // A change that is rolled back, and with it the bridge's profile.
    agent.apply(&cut_off(1300)).await.unwrap_err();
    assert_eq!(link(host, "br1").await["mtu"], 1400);
    reachable().await;

    // The bridge is deleted, which is rolled back: the bridge that comes back is another one.
    let index = link(host, "br1").await["ifindex"].clone();
    let mut deleted = cut_off(1300);
    deleted["interfaces"] = json!([{"name": "br1", "type": "linux-bridge", "state": "absent"}]);
    agent.apply(&deleted).await.unwrap_err();
    assert_ne!(link(host, "br1").await["ifindex"], index);
    reachable().await;

    // Somebody deletes the bridge, and the agent recreates it.
    host.exec(&["nmcli", "connection", "delete", "br1"])
        .await
        .unwrap();
    agent.apply(&bridge(1400)).await.unwrap();
    reachable().await;
}

#[tokio::test]
async fn pods_keep_their_bridge() {
    pods_ports(&HostLab::builder().hosts(1).start().await.unwrap()).await;
}

/// Repeats the test on a host whose configuration does not make NetworkManager leave pods' devices
/// alone.
#[tokio::test]
async fn pods_keep_their_bridge_where_network_manager_would_manage_them() {
    pods_ports(
        &HostLab::builder()
            .hosts(1)
            .pods_managed()
            .start()
            .await
            .unwrap(),
    )
    .await;
}

#[tokio::test]
async fn plan_and_apply_refuse_in_the_same_words() {
    let lab = HostLab::builder().hosts(1).start().await.unwrap();
    let host = &lab.hosts()[0];
    let agent = Agent::on(host);
    let bridge = |name: &str, port: &str| {
        json!({
            "name": name, "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": port}]}
        })
    };
    for (interfaces, expected) in [
        (
            json!([{"name": "eth77", "type": "ethernet", "state": "up"}]),
            "interfaces[eth77]: there is no such interface",
        ),
        (
            json!([bridge("br1", "eth77")]),
            "interfaces[br1].bridge.port[eth77]: there is no interface eth77",
        ),
        (
            json!([
                {
                    "name": "bond0", "type": "bond", "state": "up",
                    "link-aggregation": {"port": ["eth1"]}
                }
            ]),
            "interfaces[bond0].link-aggregation.mode: is missing, and a new bond needs it",
        ),
        (
            json!([{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 70000}]),
            "interfaces[eth1].mtu: must be 68 to 65535",
        ),
        (
            json!([{
                "name": "eth1", "type": "ethernet", "state": "up",
                "dispatch": {"post-activation": "touch /run/dispatched"}
            }]),
            "interfaces[eth1].dispatch.post-activation: is a script",
        ),
    ] {
        let state = json!({ "interfaces": interfaces });
        let applied = agent.apply(&state).await.unwrap_err();
        let file = agent.put(&state);
        let planned = agent.run(&["plan", "-f", &file]).await.unwrap_err();
        let (_, refusal) = planned
            .split_once("this host would refuse it: ")
            .unwrap_or_else(|| panic!("{planned}"));
        assert!(refusal.starts_with(expected), "{planned}");
        assert!(
            applied.contains(refusal.trim_end()),
            "{applied} says something else than {planned}"
        );
        assert!(applied.contains("Plan"), "{applied}");
    }

    // No host takes this one, so the file itself is refused.
    let state = json!({"interfaces": [bridge("br1", "eth1"), bridge("br2", "eth1")]});
    let file = agent.put(&state);
    for command in ["plan", "apply"] {
        let said = agent.run(&[command, "-f", &file]).await.unwrap_err();
        assert!(
            said.contains("interfaces[1].bridge.port[0]: eth1 is to be a port of br1, too"),
            "{command}: {said}"
        );
    }
}
