//! Random changes, each with a fault at a random phase: the agent is killed, or loses the API
//! server. The host ends before or after the change, never between, and no host is lost. `ip` is
//! the judge. The reports of the host before and after a change must differ as `weft-agent plan` says.
//!
//! `WEFT_SEED` repeats a run that failed. `WEFT_TRIALS` sets how many changes there are.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;
use weft_system_tests::is_exhaustive;
use weft_testenv::{
    host_lab::{Capability, Host, HostLab, Installation, Program, agent},
    wait::wait_within,
};

use crate::on_hosts::agent::{
    stacks::{Stack, Stacks, difference, snapshot},
    support::{Halt, checkpoints, condition, planned, wait_as_planned, wait_enactment, wait_until},
};

/// The phases in which a change with a fault can be.
const PHASES: [&str; 6] = ["Plan", "Checkpoint", "Apply", "Probe", "Commit", "Note"];
/// The phase from which on the change stays.
const COMMITTED: &str = "Note";

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}

/// The random numbers of each trial, by its own seed.
fn trials(default: u64) -> impl Iterator<Item = (u64, StdRng)> {
    let first = number("WEFT_SEED").unwrap_or_else(|| rand::rng().random_range(0..u64::MAX / 2));
    let trials = number("WEFT_TRIALS").unwrap_or(default);
    println!("WEFT_SEED={first}");
    (first..first + trials).map(|seed| (seed, StdRng::seed_from_u64(seed)))
}

/// The time of the probes, short but for a slow kernel of `make test-kernels`: there NetworkManager
/// would roll back in the middle of a change.
fn probe_seconds() -> &'static str {
    match Capability::Link("bond").is_there() {
        true => "20",
        false => "8",
    }
}

/// Waits until a host is as in this snapshot, and no change is under way.
async fn wait_settled(host: &Host, wanted: &BTreeSet<String>, what: &str) {
    let journal = host.file("/var/lib/weft-agent/transaction.json");
    wait_until(what, async || {
        let now = snapshot(host).await;
        if now != *wanted {
            return Err(difference(wanted, &now));
        }
        if journal.exists() {
            return Err("there is a journal".to_owned());
        }
        Ok(())
    })
    .await;
}

/// Reports whether `ip` shows the links of a stack, its address and the route to the address's
/// network, which the kernel adds last, or what it shows instead.
fn is_made(stack: &Stack, now: &BTreeSet<String>) -> Result<(), String> {
    let has = |part: &str| now.iter().any(|line| line.contains(part));
    let links = stack.links.iter();
    let links = links.map(|(name, kind)| format!("\"{name}\" kind \"{kind}\" "));
    let address = format!("address \"{}\"/16", stack.address);
    let route = "route \"172.30.0.0/16\" ".to_owned();
    match links.chain([address, route]).find(|part| !has(part)) {
        Some(part) => Err(format!("{part} is missing: {now:#?}")),
        None => Ok(()),
    }
}

/// Waits until a stack is made, and returns all that `ip` shows.
async fn wait_made(host: &Host, stack: &Stack, what: &str) -> BTreeSet<String> {
    wait_until(what, async || {
        let now = snapshot(host).await;
        is_made(stack, &now).map(|()| now)
    })
    .await
}

/// When a fault comes.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// At the beginning of this phase.
    phase: &'static str,
    /// So long after it.
    later: Duration,
}

impl Moment {
    fn random(random: &mut StdRng) -> Self {
        let phase = *PHASES.choose(random).unwrap();
        // The other phases are over at once, or wait for the probes.
        let milliseconds = match phase {
            "Apply" if random.random_bool(0.7) => random.random_range(1..1500),
            _ => 0,
        };
        Self {
            phase,
            later: Duration::from_millis(milliseconds),
        }
    }

    /// Kills the agent when a transaction has come here.
    async fn kill(self, hold: Halt, agent: &mut Program) {
        hold.reached().await;
        if self.later.is_zero() {
            agent.kill().unwrap();
            drop(hold);
        } else {
            drop(hold);
            tokio::time::sleep(self.later).await;
            agent.kill().unwrap();
        }
    }

    /// Waits until NetworkManager is done with the change of an agent that was killed, and the host
    /// is as it must be then. Returns all that `ip` shows.
    async fn wait_left(
        self,
        host: &Host,
        before: &BTreeSet<String>,
        stack: &Stack,
        what: &str,
    ) -> BTreeSet<String> {
        // In the middle of a phase the change may just have been committed. A change of which
        // NetworkManager holds a checkpoint was not, and a dead agent does not commit it.
        let is_past = self.phase == COMMITTED || !self.later.is_zero();
        let may_stay = is_past && checkpoints(host).await.is_empty();
        wait_until(what, async || {
            if let some @ [_, ..] = &checkpoints(host).await[..] {
                return Err(format!("NetworkManager holds {some:?}"));
            }
            // The checkpoint goes first, and the devices some moments later.
            let now = snapshot(host).await;
            let is_before = self.phase != COMMITTED && now == *before;
            if is_before || may_stay && is_made(stack, &now).is_ok() {
                Ok(now)
            } else {
                Err(difference(before, &now))
            }
        })
        .await
    }
}

/// Checks that a host was left as before a change or as after it.
fn check_left(
    left: &BTreeSet<String>,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    what: &str,
) {
    assert!(
        left == before || left == after,
        "{what}: {}\nor: {}",
        difference(before, left),
        difference(after, left)
    );
}

/// The command on the host's console, killed at each phase. The next start brings the host back,
/// or NetworkManager has done so before.
#[tokio::test]
async fn random_stacks_survive_a_kill_in_any_phase() {
    let hosts = HostLab::builder().hosts(1).start_hosts().await.unwrap();
    let host = hosts.host("node-1").unwrap();
    let program = agent::program().unwrap();
    let run = async |command: &str| {
        let line = format!(
            "{} --probe-seconds {} {command} 2>&1; echo exit code $?",
            program.display(),
            probe_seconds()
        );
        host.exec(&["sh", "-c", &line]).await.unwrap()
    };
    let stacks = Stacks::of_this_kernel();
    for (seed, mut random) in trials(if is_exhaustive() { 200 } else { 10 }) {
        let started = Instant::now();
        let stack = stacks.make(&mut random);
        let moment = Moment::random(&mut random);
        let waits = random.random_bool(0.4);
        let links: Vec<_> = stack.links.keys().collect();
        let what = format!("WEFT_SEED={seed}: {links:?}, killed at {moment:?}");
        let before = snapshot(host).await;
        std::fs::write(host.file("/run/state.json"), stack.state.to_string()).unwrap();
        let plan = planned(host, "/run/state.json").await;

        let hold = Halt::at(host, moment.phase);
        let arguments = [
            "--probe-seconds",
            probe_seconds(),
            "apply",
            "-f",
            "/run/state.json",
        ];
        let mut killed = host.start_program(&program, &arguments, &[]).unwrap();
        moment.kill(hold, &mut killed).await;
        let left = match waits {
            true => Some(moment.wait_left(host, &before, &stack, &what).await),
            false => None,
        };
        // The command cleans up first. A change that had been committed is there already.
        let applied = run("apply -f /run/state.json").await;
        assert!(applied.ends_with("exit code 0\n"), "{what}: {applied}");
        let after = wait_made(host, &stack, &what).await;
        if let Some(left) = left {
            check_left(&left, &before, &after, &what);
        }
        wait_as_planned(host, &plan, &what).await;
        let rolled_back = run("rollback").await;
        assert!(
            rolled_back.ends_with("exit code 0\n"),
            "{what}: {rolled_back}"
        );
        wait_settled(host, &before, &what).await;
        println!("{what}, {:.1} s", started.elapsed().as_secs_f64());
    }
}

/// A fault in the middle of a policy's change.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The agent is killed, and started again at once.
    Kill,
    /// The agent is killed, and started again when NetworkManager has rolled back by itself.
    KillForLong,
    /// The API server is out of reach until the agent has dealt with it.
    CutApi,
}

async fn start_agent(weft: &Installation) -> Program {
    // An API server that is away for long makes many tries.
    let variables = [
        ("NNCP_MAX_RETRIES", "50"),
        ("WEFT_AGENT_PROBE_SECONDS", probe_seconds()),
    ];
    weft.run_agent("node-1", &[], &variables).await.unwrap()
}

#[tokio::test]
async fn random_policies_survive_kills_and_cuts_in_any_phase() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let mut agent = start_agent(&weft).await;
    let host = weft.host("node-1").unwrap();
    let stacks = Stacks::of_this_kernel();
    for (seed, mut random) in trials(8) {
        let started = Instant::now();
        let stack = stacks.make(&mut random);
        let moment = Moment::random(&mut random);
        let faults = [
            Fault::Kill,
            Fault::KillForLong,
            Fault::CutApi,
            Fault::CutApi,
        ];
        let fault = *faults.choose(&mut random).unwrap();
        let links: Vec<_> = stack.links.keys().collect();
        let what = format!("WEFT_SEED={seed}: {links:?}, {fault:?} at {moment:?}");
        let before = snapshot(host).await;
        let name = format!("stack-{seed}");
        let policy = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": name},
            "spec": {"onDelete": "revert", "desiredState": stack.state}
        });

        let hold = Halt::at(host, moment.phase);
        weft.apply(&policy.to_string()).await.unwrap();
        let left = match fault {
            Fault::Kill => {
                moment.kill(hold, &mut agent).await;
                agent = start_agent(&weft).await;
                None
            }
            Fault::KillForLong => {
                moment.kill(hold, &mut agent).await;
                let left = moment.wait_left(host, &before, &stack, &what).await;
                agent = start_agent(&weft).await;
                Some(left)
            }
            Fault::CutApi => {
                hold.reached().await;
                let log = std::fs::read_to_string(agent.log()).unwrap();
                let outages = log.matches("out of reach without the change").count();
                weft.lab().cut_api(host).unwrap();
                drop(hold);
                // After the probes, the API server has no say.
                match moment.phase {
                    "Commit" | COMMITTED => drop(wait_made(host, &stack, &what).await),
                    _ => {
                        wait_settled(host, &before, &what).await;
                        // A probe that succeeds on the restored host would make the change guilty.
                        wait_until("the agent knows that it is an outage", async || {
                            let log = std::fs::read_to_string(agent.log()).unwrap();
                            let verdicts = log.matches("out of reach without the change").count();
                            (verdicts > outages).then_some(()).ok_or(log)
                        })
                        .await;
                    }
                }
                weft.lab().mend_api(host).unwrap();
                None
            }
        };
        wait_enactment(&weft, "node-1", &name, "Available").await;
        let after = wait_made(host, &stack, &what).await;
        if let Some(left) = left {
            check_left(&left, &before, &after, &what);
        }
        weft.lab()
            .kubectl(&["delete", "nncp", &name, "--timeout=300s"])
            .await
            .unwrap();
        wait_settled(host, &before, &what).await;
        println!("{what}, {:.1} s", started.elapsed().as_secs_f64());
    }
}

/// With the settings that users have.
#[tokio::test]
async fn a_host_that_its_agent_cuts_off_is_back_within_half_a_minute() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let variables = [("NNCP_MAX_RETRIES", "1")];
    let agent = async || weft.run_agent("node-1", &[], &variables).await.unwrap();
    let mut running = agent().await;
    let host = weft.host("node-1").unwrap();
    let before = snapshot(host).await;
    // Nothing at this address forwards anything: the API server is out of reach.
    let route = json!({"destination": "172.31.0.2/32", "next-hop-interface": "eth0",
        "next-hop-address": "172.31.0.99"});
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "cut"}, "spec": {"desiredState": {"routes": {"config": [route]}}}
    });
    for is_killed in [true, false] {
        let hold = Halt::at(host, "Probe");
        weft.apply(&policy.to_string()).await.unwrap();
        hold.reached().await;
        let cut_off = Instant::now();
        assert_ne!(snapshot(host).await, before, "it is cut off");
        if is_killed {
            running.kill().unwrap();
        }
        drop(hold);
        // Half a minute, and as much for a busy machine.
        wait_within(Duration::from_secs(60), "the host is back", async || {
            let now = snapshot(host).await;
            if now == before {
                Ok(())
            } else {
                Err(difference(&before, &now))
            }
        })
        .await;
        let agent_is = if is_killed { "killed" } else { "alive" };
        let seconds = cut_off.elapsed().as_secs_f64();
        println!("back after {seconds:.1} s, with the agent {agent_is}");
        if is_killed {
            weft.lab()
                .kubectl(&["delete", "nncp", "cut"])
                .await
                .unwrap();
            running = agent().await;
            wait_settled(host, &before, "the next agent has cleaned up").await;
        }
    }
    let failed = wait_enactment(&weft, "node-1", "cut", "Failing").await;
    assert_eq!(failed["status"]["outcome"]["probe"], "API server");
    assert_eq!(condition(&failed, "Available")["status"], "False");
}
