//! Every kind of link, on a host without a cluster: the agent plans it, makes it, changes it,
//! removes it, and rolls each change back. A reboot changes nothing. `ip`, `bridge` and `ovs-vsctl`
//! judge. The files in
//! `kinds/` say what is made and what is seen then.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, path::Path, time::Instant};

use futures::FutureExt;
use serde::Deserialize;
use serde_json::Value;
use weft_testenv::host_lab::{Capability, Host, HostLab, Hosts, agent, capabilities};

use crate::on_hosts::agent::{
    examples::wants_open_vswitch,
    open_vswitch::in_user_space,
    support::{example_files, needs, wait_until},
};

/// Examples without a file in `kinds/`: one for cards of type ethernet, a policy that fails, another
/// kind of object, and probes of an API server.
const WITHOUT_TRIAL: [&str; 6] = [
    "address-from-annotation.yaml",
    "address-per-node.yaml",
    "lldp.yaml",
    "missing-card.yaml",
    "nmstate.yaml",
    "probes.yaml",
];

/// The variable of the environment that chooses files, with commas between them.
const ONLY: &str = "WEFT_KINDS";

/// A file in `kinds/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial {
    /// Commands that prepare the host, of the shell.
    #[serde(default)]
    before: Vec<String>,
    /// The state that is made first, in the form of nmstate. If it is missing, it is the file of
    /// this name in `examples/node-network` or its folder `early`.
    state: Option<Value>,
    /// The state that is planned instead of the first once that was made, where its captures have
    /// another meaning then.
    again: Option<Value>,
    /// Each is made from the first state, and rolled back to it.
    changes: Vec<Change>,
    /// The first state differs from the host before it in at least one of them.
    facts: Vec<Fact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    name: String,
    state: Value,
}

/// Something that is seen on the host.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    /// Its command, of the shell. `$AGENT` is the agent's program.
    see: String,
    /// Where it is in the command's JSON (RFC 6901). Without it, it is all that the command prints.
    at: Option<String>,
    /// Its value in the first state, and after each change. Null if it is not there.
    is: Vec<Value>,
}

impl Fact {
    async fn seen(&self, host: &Host) -> Value {
        let agent = format!("AGENT={}", agent::program().unwrap().display());
        let Ok(printed) = host.exec(&["env", &agent, "sh", "-c", &self.see]).await else {
            return Value::Null;
        };
        match &self.at {
            None if printed.trim().is_empty() => Value::Null,
            None => printed.trim().into(),
            Some(pointer) => serde_json::from_str::<Value>(&printed)
                .ok()
                .and_then(|value| value.pointer(pointer).cloned())
                .unwrap_or_default(),
        }
    }
}

/// A trial on a host.
struct Running<'a> {
    host: &'a Host,
    trial: &'a Trial,
    name: &'a str,
}

impl Running<'_> {
    /// Runs the agent. Returns its output and exit code.
    async fn agent(&self, command: &str) -> String {
        let program = agent::program().unwrap().display().to_string();
        let line = format!("{program} --probe-seconds 20 {command} 2>&1; echo exit code $?");
        self.host.exec(&["sh", "-c", &line]).await.unwrap()
    }

    /// Plans a state. Returns true if there is something to do.
    async fn plan(&self, at: &str, state: &Value) -> bool {
        let document = self.host.file("/run/document.json");
        std::fs::write(document, state.to_string()).unwrap();
        let plan = self.agent("plan -f /run/document.json").await;
        match plan.trim_end().rsplit(' ').next() {
            Some("0") if plan.contains("Nothing would change") => false,
            Some("1") => true,
            _ => panic!("{} {at}: {plan}", self.name),
        }
    }

    async fn make(&self, at: &str, state: &Value) {
        assert!(
            self.plan(at, state).await,
            "{} {at}: the plan sees nothing to do",
            self.name
        );
        let applied = self.agent("apply -f /run/document.json").await;
        assert!(
            applied.ends_with("exit code 0\n") && applied.contains("Changed: "),
            "{} {at}: {applied}",
            self.name
        );
    }

    /// Waits until everything is seen as it is after the step of this number, and then plans the
    /// state that it has.
    async fn judge(&self, at: &str, step: usize, state: &Value) {
        let name = self.name;
        wait_until(&format!("{name} {at}: everything is so"), async || {
            for fact in &self.trial.facts {
                let (seen, wanted) = (fact.seen(self.host).await, &fact.is[step]);
                if seen != *wanted {
                    let at = fact.at.as_deref().unwrap_or_default();
                    return Err(format!("`{}` {at} is {seen}, not {wanted}", fact.see));
                }
            }
            Ok(())
        })
        .await;
        assert!(
            !self.plan(at, state).await,
            "{name} {at}: there is something left to do: {}",
            self.agent("plan -f /run/document.json").await
        );
    }

    async fn run(&self, first: &Value) {
        let started = Instant::now();
        for command in &self.trial.before {
            self.host.exec(&["sh", "-c", command]).await.unwrap();
        }
        let mut is_new = false;
        for fact in &self.trial.facts {
            assert_eq!(fact.is.len(), 1 + self.trial.changes.len(), "{}", fact.see);
            is_new |= fact.seen(self.host).await != fact.is[0];
        }
        assert!(is_new, "{}: it is so already", self.name);

        self.make("at first", first).await;
        let first = self.trial.again.as_ref().unwrap_or(first);
        self.judge("at first", 0, first).await;
        self.host.lose_power(&[]).await.unwrap();
        self.host.start_network_manager().await.unwrap();
        self.judge("after a reboot", 0, first).await;
        for (step, change) in (1..).zip(&self.trial.changes) {
            self.make(&change.name, &change.state).await;
            self.judge(&change.name, step, &change.state).await;
            let rolled_back = self.agent("rollback").await;
            assert!(
                rolled_back.ends_with("exit code 0\n"),
                "{} {}: {rolled_back}",
                self.name,
                change.name
            );
            self.judge(&format!("after {}", change.name), 0, first)
                .await;
        }
        println!(
            "{}: {} changes, {:.1} s",
            self.name,
            self.trial.changes.len(),
            started.elapsed().as_secs_f64()
        );
    }
}

/// The trials by their names, with their first states.
fn trials() -> Vec<(String, Trial, Value)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.join("tests/on_hosts/agent/kinds");
    let examples = here.join("../../examples/node-network");
    let read = |path: &Path| -> Value {
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut trials = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trial: Trial = serde_json::from_value(read(&path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let first = trial.state.clone().unwrap_or_else(|| {
            let example = ["", "early"].map(|folder| examples.join(folder).join(&name));
            let example = example.iter().find(|example| example.is_file());
            read(example.unwrap_or_else(|| panic!("{name} has no state, and no example")))
        });
        trials.push((name, trial, first));
    }
    trials.sort_by(|one, other| one.0.cmp(&other.0));
    trials
}

/// Makes those trials that this machine can, on a host with or without Open vSwitch.
async fn run(open_vswitch: bool) {
    let mut hosts: Option<Hosts> = None;
    let mut failed = vec![];
    let only = std::env::var(ONLY).ok();
    let is_chosen = |name: &str| {
        let only = only.as_ref();
        only.is_none_or(|only| only.split(',').any(|only| only == name))
    };
    for (name, mut trial, mut first) in trials() {
        if !is_chosen(&name) {
            continue;
        }
        let mut states: Vec<_> = trial
            .changes
            .iter_mut()
            .map(|change| &mut change.state)
            .collect();
        states.push(&mut first);
        if states.iter().any(|state| wants_open_vswitch(state)) != open_vswitch {
            continue;
        }
        let mut needs: BTreeSet<_> = states.iter().flat_map(|state| needs(state)).collect();
        if open_vswitch {
            // It comes with the newest one.
            needs.retain(|need| !matches!(need, Capability::NetworkManager(..)));
            needs.insert(Capability::OpenVSwitch);
            if !Capability::OpenVSwitchInKernel.is_there() {
                states.into_iter().for_each(in_user_space);
            }
        }
        let lacking = capabilities::lacking(&needs.into_iter().collect::<Vec<_>>());
        if !lacking.is_empty() {
            capabilities::skip(&name, &lacking);
            continue;
        }
        if hosts.is_none() {
            let one = HostLab::builder().hosts(1);
            let one = if open_vswitch {
                one.open_vswitch()
            } else {
                one
            };
            hosts = Some(one.start_hosts().await.unwrap());
        }
        let running = Running {
            host: hosts.as_ref().unwrap().host("node-1").unwrap(),
            trial: &trial,
            name: &name,
        };
        // The others run all the same: each says something of its own kind.
        if AssertUnwindSafe(running.run(&first))
            .catch_unwind()
            .await
            .is_err()
        {
            failed.push(name.clone());
        }
        running.host.reset_network().await.unwrap();
    }
    assert!(failed.is_empty(), "these failed, see above: {failed:?}");
}

#[tokio::test]
async fn each_kind_of_link_survives_a_reboot_and_is_changed_and_rolled_back() {
    run(false).await;
}

#[tokio::test]
async fn each_kind_of_open_vswitch_survives_a_reboot_and_is_rolled_back() {
    run(true).await;
}

#[test]
fn each_example_has_a_trial() {
    let with: BTreeSet<_> = trials().into_iter().map(|(name, ..)| name).collect();
    for example in example_files() {
        let name = example.file_name().unwrap().to_string_lossy().into_owned();
        assert_ne!(
            with.contains(&name),
            WITHOUT_TRIAL.contains(&&*name),
            "{name}"
        );
    }
}
