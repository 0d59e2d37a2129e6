//! Common helpers of these tests.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::{fs::FlockOperation, io::Errno};
use serde_json::Value;
use weft_system_tests::HostPlan;
use weft_testenv::{
    AuditEvent,
    host_lab::{Capability, Host, Installation, agent},
    wait::wait_within,
};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Repeats until it succeeds. Panics with the last error when patience ends.
pub async fn wait_until<T>(what: &str, attempt: impl AsyncFnMut() -> Result<T, String>) -> T {
    wait_within(PATIENCE, what, attempt).await
}

/// The files in `examples/node-network`, by name.
pub fn example_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/node-network");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.is_file());
    files.sort();
    files
}

/// Returns the features that a policy or a state needs of kernel and NetworkManager, by the types of
/// its interfaces.
pub fn needs(document: &Value) -> Vec<Capability> {
    let spec = &document["spec"];
    let state = if spec.is_object() {
        &spec["desiredState"]
    } else {
        document
    };
    let mut needs = BTreeSet::new();
    if spec["capture"]
        .to_string()
        .contains("interfaces.type==\\\"ethernet")
    {
        needs.insert(Capability::EthernetCards);
    }
    for interface in state["interfaces"].as_array().into_iter().flatten() {
        if interface["ipv4"]["forwarding"].is_boolean() {
            needs.insert(Capability::NetworkManager(1, 54));
        }
        let kind = interface["type"].as_str().unwrap_or_default();
        // An interface that is not created needs nothing but its program.
        let is_created = interface["state"] != "absent";
        match kind {
            "ovs-bridge" | "ovs-interface" => needs.insert(Capability::OpenVSwitch),
            _ if !is_created => false,
            "bond" => needs.insert(Capability::Link("bond")),
            "vlan" => needs.insert(Capability::Link("vlan")),
            "vrf" => needs.insert(Capability::Link("vrf")),
            "dummy" => needs.insert(Capability::Link("dummy")),
            "vxlan" => needs.insert(Capability::Link("vxlan")),
            "mac-vlan" => needs.insert(Capability::Link("macvlan")),
            "mac-vtap" => needs.insert(Capability::Link("macvtap")),
            "ipvlan" => {
                needs.insert(Capability::NetworkManager(1, 52));
                needs.insert(Capability::Link("ipvlan"))
            }
            "linux-bridge" => {
                let mut ports = interface["bridge"]["port"].as_array().into_iter().flatten();
                // A port that does not say otherwise carries VLANs.
                let is_plain = |port: &Value| {
                    port["vlan"]
                        .as_object()
                        .is_some_and(serde_json::Map::is_empty)
                };
                !ports.all(is_plain) && needs.insert(Capability::BridgeVlanFiltering)
            }
            _ => false,
        };
    }
    needs.into_iter().collect()
}

/// A condition of an object: its status, or nothing.
pub fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == name)
        .unwrap_or(&Value::Null)
}

/// Waits until a policy says this about its latest generation, and returns it.
pub async fn wait_policy(weft: &Installation, name: &str, condition_type: &str) -> Value {
    wait_until(&format!("policy {name} is {condition_type}"), async || {
        let policy = weft
            .get("nncp", name)
            .await
            .map_err(|error| error.to_string())?
            .ok_or("it is not there")?;
        let found = condition(&policy, condition_type);
        let current = found["observedGeneration"] == policy["metadata"]["generation"];
        if current && found["status"] == "True" {
            return Ok(policy);
        }
        let mut enactments = String::new();
        for host in weft.lab().hosts() {
            let enactment = weft
                .get("nnce", &format!("{}.{name}", host.name()))
                .await
                .ok()
                .flatten()
                .unwrap_or_default();
            enactments += &format!("\n{}: {:#}", host.name(), enactment["status"]);
        }
        Err(format!(
            "{:#}{enactments}\noperator: {}",
            policy["status"],
            last_lines(&weft.operator_log())
        ))
    })
    .await
}

/// Waits until the enactment of a policy on a host has this condition about its latest generation,
/// and returns it.
pub async fn wait_enactment(
    weft: &Installation,
    host: &str,
    policy: &str,
    condition_type: &str,
) -> Value {
    let name = format!("{host}.{policy}");
    wait_until(
        &format!("enactment {name} is {condition_type}"),
        async || {
            let enactment = weft
                .get("nnce", &name)
                .await
                .map_err(|error| error.to_string())?
                .ok_or("it is not there")?;
            let current =
                enactment["status"]["observedGeneration"] == enactment["metadata"]["generation"];
            let holds = condition(&enactment, condition_type)["status"] == "True";
            if current && holds {
                Ok(enactment)
            } else {
                Err(format!("{:#}", enactment["status"]))
            }
        },
    )
    .await
}

/// The state that a host reports, once there is one.
pub async fn reported(weft: &Installation, host: &str) -> Result<Value, String> {
    let state = weft
        .get("nns", host)
        .await
        .map_err(|error| error.to_string())?
        .ok_or("it is not there")?;
    Ok(state["status"]["currentState"].clone())
}

/// An interface of a reported state. Null if it is not there.
pub fn interface(state: &Value, name: &str) -> Value {
    state["interfaces"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|interface| interface["name"] == name)
        .cloned()
        .unwrap_or_default()
}

/// Waits until a host reports an interface for which this holds.
pub async fn wait_reported(
    weft: &Installation,
    host: &str,
    name: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    wait_until(&format!("{host} reports {name} so"), async || {
        let state = reported(weft, host).await?;
        let found = interface(&state, name);
        if holds(&found) {
            Ok(found)
        } else {
            Err(format!("{found:#}"))
        }
    })
    .await
}

/// Returns the report of `ip -j` about a device. Null if it does not exist.
pub async fn link(host: &Host, name: &str) -> Value {
    let shown = host
        .exec(&["ip", "-j", "-d", "addr", "show", "dev", name])
        .await;
    shown
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok())
        .map(|list| list[0].clone())
        .unwrap_or_default()
}

/// The IPv4 addresses of a device, by `ip -j`.
pub async fn addresses(host: &Host, name: &str) -> Vec<String> {
    let link = link(host, name).await;
    let infos = link["addr_info"].as_array().cloned().unwrap_or_default();
    infos
        .iter()
        .filter(|info| info["family"] == "inet")
        .filter_map(|info| info["local"].as_str())
        .map(str::to_owned)
        .collect()
}

/// Returns the report of a host by `weft-agent`.
async fn shown(host: &Host) -> Result<Value, String> {
    by_agent(host, "show -o json").await
}

/// Returns the plan of a document, a file on the host, with the host as it is. Panics if the agent
/// alone cannot plan it.
pub async fn planned(host: &Host, file: &str) -> HostPlan {
    // A plan that would change something exits with 1, and one that fails with 2.
    let plan = by_agent(host, &format!("plan -o json -f {file} || [ $? -eq 1 ]")).await;
    let plan = plan.unwrap_or_else(|why| panic!("{why}"));
    let before = shown(host).await.unwrap_or_else(|why| panic!("{why}"));
    HostPlan::new(&plan, before)
}

/// The output of a command of `weft-agent`. The error says why the command failed, or has an output
/// that is no JSON.
async fn by_agent(host: &Host, command: &str) -> Result<Value, String> {
    let program = agent::program().unwrap().display().to_string();
    let line = format!("{program} {command}");
    let printed = host.exec(&["sh", "-c", &line]).await;
    let printed = printed.map_err(|error| format!("{error:#}"))?;
    serde_json::from_str(&printed).map_err(|error| format!("{line}: {error}: {printed}"))
}

/// Waits until the difference between the report before a change and that of now is the plan.
pub async fn wait_as_planned(host: &Host, plan: &HostPlan, what: &str) {
    wait_until(&format!("{what}: the effect is the plan"), async || {
        plan.compare(&shown(host).await?)
    })
    .await;
}

/// Returns the writes of agents and operator so far, by the API server's audit log.
pub fn writes(weft: &Installation) -> Vec<AuditEvent> {
    let events = weft.lab().control_plane().audit_events().unwrap();
    events
        .into_iter()
        .filter(|event| {
            event.group == "nmstate.io" && event.is_write() && event.user != weft_testenv::ADMIN
        })
        .collect()
}

/// Waits until nothing was written for three seconds, longer than any debouncing. How much was.
pub async fn wait_quiet(weft: &Installation) -> usize {
    let mut before = writes(weft).len();
    wait_until("nothing is written", async || {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = writes(weft).len();
        let quiet = now == before;
        before = now;
        if quiet {
            Ok(now)
        } else {
            Err(format!("{:#?}", writes(weft)))
        }
    })
    .await
}

/// Keeps the agent's transactions on a host from going on at the beginning of a phase, for as long
/// as it lives.
pub struct Halt {
    phase: &'static str,
    folder: PathBuf,
    _lock: File,
}

impl Halt {
    /// Holds the agent at this phase from now on.
    pub fn at(host: &Host, phase: &'static str) -> Self {
        let folder = host.file("/var/lib/weft-agent");
        std::fs::create_dir_all(&folder).unwrap();
        let lock = File::create(folder.join(format!("hold-{phase}"))).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        Self {
            phase,
            folder,
            _lock: lock,
        }
    }

    /// Waits until a transaction has come there.
    pub async fn reached(&self) {
        wait_until(
            &format!("the agent is in phase {}", self.phase),
            async || {
                if self.phase == "Plan" {
                    // There is no journal yet, but the lock of those who change the host.
                    let lock =
                        File::open(self.folder.join("lock")).map_err(|error| error.to_string())?;
                    let taken = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)
                        == Err(Errno::WOULDBLOCK);
                    return if taken {
                        Ok(())
                    } else {
                        Err("nobody changes the host".to_owned())
                    };
                }
                let journal = std::fs::read_to_string(self.folder.join("transaction.json"))
                    .map_err(|error| error.to_string())?;
                if journal.contains(&format!("\"phase\":\"{}\"", self.phase)) {
                    Ok(())
                } else {
                    Err(journal)
                }
            },
        )
        .await;
    }
}

impl Drop for Halt {
    fn drop(&mut self) {
        // Gone with the host, if it is gone.
        let _ = std::fs::remove_file(self.folder.join(format!("hold-{}", self.phase)));
    }
}

/// How often a change of `node-1` has begun, by the log of its NetworkManager.
pub fn changes_begun(weft: &Installation) -> usize {
    let log = weft.lab().folder().join("hosts/node-1/NetworkManager.log");
    let log = std::fs::read_to_string(log).unwrap();
    log.matches("op=\"checkpoint-create\"").count()
}

/// The paths of NetworkManager's checkpoints on D-Bus.
pub async fn checkpoints(host: &Host) -> Vec<String> {
    let told = network_manager(
        host,
        &[
            "get-property",
            "/org/freedesktop/NetworkManager",
            "org.freedesktop.NetworkManager",
            "Checkpoints",
        ],
    );
    told.await
        .split('"')
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

/// Returns NetworkManager's answer to a command of `busctl` about the object.
pub async fn network_manager(host: &Host, words: &[&str]) -> String {
    let command: Vec<&str> = ["busctl", words[0], "org.freedesktop.NetworkManager"]
        .iter()
        .chain(&words[1..])
        .copied()
        .collect();
    host.exec(&command).await.unwrap().trim().to_owned()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
