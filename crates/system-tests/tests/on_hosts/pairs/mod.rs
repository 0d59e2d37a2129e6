//! Parts of two versions next to each other, on hosts with a real NetworkManager:
//! `make test-upgrade`. The variables name the programs of both versions.
//!
//! One cluster covers all pairs that are supported. One host has the agent of the older version all
//! the time, the other one that of the newer. Definitions and operator go on, one after the other,
//! and both come back.
//!
//! | stage | definitions | operator | agents | command line |
//! | --- | --- | --- | --- | --- |
//! | before | older | older | both | both |
//! | between | newer | older | both | both |
//! | after | newer | newer | both | both |
//! | back | older | older | both | both |

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use weft_testenv::{
    host_lab::{HostLab, Installation, Program},
    wait::wait_until,
};

/// The programs of a version.
struct Version {
    /// For messages.
    name: &'static str,
    weft: PathBuf,
    agent: PathBuf,
}

impl Version {
    fn from(name: &'static str, weft: &str, agent: &str) -> Self {
        let path = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .unwrap_or_else(|| panic!("{name} is not set: run make test-upgrade"))
        };
        Self {
            name,
            weft: path(weft),
            agent: path(agent),
        }
    }

    /// Its manifests, as its user prints them. Before 0.1.0, an operator for each domain was the
    /// default.
    fn manifests(&self) -> String {
        let help = printed(&self.weft, &["manifests", "--help"]);
        let mut args = vec!["manifests", "--domains", "node-network"];
        if help.contains("--split") {
            args.push("--split");
        }
        printed(&self.weft, &args)
    }
}

fn printed(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{} {args:?}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

const HOSTS: [&str; 2] = ["node-1", "node-2"];
/// For messages.
const AGENTS: &str = "node-1 has the older agent, node-2 the newer one";

#[tokio::test]
async fn parts_of_two_versions_work_next_to_each_other() {
    let old = Version::from("older", "WEFT_OLD_BIN", "WEFT_OLD_AGENT_BIN");
    let new = Version::from("newer", "WEFT_BIN", "WEFT_AGENT_BIN");
    let both = [&old, &new];
    let lab = HostLab::builder().hosts(HOSTS.len());
    let mut weft = Installation::of_version(lab, old.weft.clone(), &old.manifests())
        .await
        .unwrap();
    let _agents = [
        agent(&weft, HOSTS[0], &old).await,
        agent(&weft, HOSTS[1], &new).await,
    ];
    works(&weft, &both, "before").await;

    weft.apply(&new.manifests()).await.unwrap();
    works(&weft, &both, "between").await;

    weft.replace_operator(new.weft.clone()).await.unwrap();
    works(&weft, &both, "after").await;

    weft.apply(&old.manifests()).await.unwrap();
    weft.replace_operator(old.weft.clone()).await.unwrap();
    works(&weft, &both, "back").await;
    weft.check_running().unwrap();
}

/// Starts the agent of a version. It gives a change up after two tries.
async fn agent(weft: &Installation, host: &str, version: &Version) -> Program {
    let variables = [("NNCP_MAX_RETRIES", "2"), ("WEFT_AGENT_PROBE_SECONDS", "5")];
    weft.run_agent_of(&version.agent, host, &[], &variables)
        .await
        .unwrap()
}

/// A policy is applied, reported and changed, another one is rolled back, and the command line of
/// each version reads the cluster.
async fn works(weft: &Installation, versions: &[&Version], stage: &str) {
    println!("{stage}");
    let name = format!("br-{stage}");
    for mtu in [1400, 1450] {
        let wanted = policy(&name, &bridge(&name, mtu));
        weft.apply(&wanted).await.unwrap();
        for host in HOSTS {
            let enactment = wait_enactment(weft, host, &name, "Available").await;
            assert_eq!(enactment["spec"]["policy"], name.as_str());
            let what = format!("{host} has and reports {name} with MTU {mtu} ({AGENTS})");
            wait_until(&what, async || {
                let link = weft.host(host).unwrap();
                let link = link.exec(&["ip", "-j", "link", "show", "dev", &name]).await;
                let link: Value =
                    serde_json::from_str(&link.map_err(|error| error.to_string())?).unwrap();
                let state = weft.get("nns", host).await.unwrap().unwrap_or_default();
                let reported = state["status"]["currentState"]["interfaces"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|interface| interface["name"] == name.as_str())
                    .map(|interface| interface["mtu"].clone());
                if link[0]["mtu"] == mtu && reported == Some(json!(mtu)) {
                    Ok(())
                } else {
                    Err(format!("{link}, reported {reported:?}"))
                }
            })
            .await;
        }
    }
    let available = wait(weft, "nncp", &name, "Available").await;
    rolled_back(weft, stage).await;
    for version in versions {
        reads(weft, version, &available);
    }
    assert_eq!(
        available["metadata"]["uid"],
        weft.get("nncp", &name).await.unwrap().unwrap()["metadata"]["uid"]
    );
}

/// A route that cuts the hosts off does not stay.
async fn rolled_back(weft: &Installation, stage: &str) {
    let name = format!("cut-{stage}");
    // Nothing at this address forwards anything: the API server is out of reach.
    let cut = json!({"routes": {"config": [{
        "destination": "172.31.0.2/32", "next-hop-interface": "eth0", "next-hop-address": "172.31.0.99"
    }]}});
    weft.apply(&policy(&name, &cut)).await.unwrap();
    for host in HOSTS {
        let failed = wait_enactment(weft, host, &name, "Failing").await;
        assert_eq!(failed["status"]["outcome"]["phase"], "Probe", "{failed:#}");
        let what = format!("{host} has no route of {name} ({AGENTS})");
        wait_until(&what, async || {
            let routes = weft.host(host).unwrap().exec(&["ip", "route"]).await;
            let routes = routes.map_err(|error| error.to_string())?;
            let enactment = weft.get("nnce", &format!("{host}.{name}")).await.unwrap();
            let status = enactment.unwrap_or_default()["status"].clone();
            let is_over = condition(&status, "Progressing")["status"] == "False";
            if is_over && !routes.contains("172.31.0.99") {
                Ok(())
            } else {
                Err(format!("{routes}\n{status:#}"))
            }
        })
        .await;
    }
    wait(weft, "nncp", &name, "Degraded").await;
    let api = weft.api("nncp").unwrap();
    api.delete(&name, &Default::default()).await.unwrap();
    wait_until(&format!("{name} is gone"), async || {
        match weft.get("nncp", &name).await.unwrap() {
            None => Ok(()),
            Some(left) => Err(format!("{:#}", left["metadata"])),
        }
    })
    .await;
}

/// The command line of a version names the policy and its nodes, plans a change of it, and accepts
/// what the cluster has.
fn reads(weft: &Installation, version: &Version, live: &Value) {
    let name = live["metadata"]["name"].as_str().unwrap();
    let which = version.name;
    let status = cli(weft, version, &["status"], "");
    assert!(
        [0, 1].contains(&status.0) && status.1.contains(name),
        "{which} weft status: {status:?}"
    );
    let change = policy(name, &bridge(name, 1300));
    let plan = cli(weft, version, &["plan", "-f", "-"], &change);
    assert!(
        plan.0 == 1 && plan.1.contains("1300"),
        "{which} weft plan: {plan:?}"
    );
    for host in HOSTS {
        assert!(plan.1.contains(host), "{which} weft plan: {plan:?}");
    }
    let valid = cli(weft, version, &["validate", "-f", "-"], &live.to_string());
    assert_eq!(valid.0, 0, "{which} weft validate: {valid:?}");
}

/// Exit code and output of `weft`.
fn cli(weft: &Installation, version: &Version, args: &[&str], input: &str) -> (i32, String) {
    let input_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input_file.path(), input).unwrap();
    let output = Command::new(&version.weft)
        .args(args)
        .env("KUBECONFIG", weft.lab().control_plane().kubeconfig())
        .stdin(std::fs::File::open(input_file.path()).unwrap())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), text.concat())
}

fn policy(name: &str, state: &Value) -> String {
    json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
        "spec": {"maxUnavailable": "100%", "desiredState": state}})
    .to_string()
}

fn bridge(name: &str, mtu: u32) -> Value {
    json!({"interfaces": [{"name": name, "type": "linux-bridge", "state": "up", "mtu": mtu, "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
        "bridge": {"options": {"stp": {"enabled": false}}, "port": []}}]})
}

async fn wait_enactment(weft: &Installation, host: &str, policy: &str, kind: &str) -> Value {
    wait(weft, "nnce", &format!("{host}.{policy}"), kind).await
}

/// Waits until an object has a condition about its latest generation.
async fn wait(weft: &Installation, resource: &str, name: &str, kind: &str) -> Value {
    wait_until(&format!("{resource} {name} is {kind}"), async || {
        let live = weft
            .get(resource, name)
            .await
            .map_err(|error| error.to_string())?;
        let live = live.ok_or("it is not there")?;
        let status = &live["status"];
        let found = condition(status, kind);
        let generation = &live["metadata"]["generation"];
        let is_current =
            [&status["observedGeneration"], &found["observedGeneration"]].contains(&generation);
        if is_current && found["status"] == "True" {
            Ok(live)
        } else {
            Err(format!("{status:#}\noperator: {}", weft.operator_log()))
        }
    })
    .await
}

fn condition(status: &Value, name: &str) -> Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut of_type = conditions.filter(|condition| condition["type"] == name);
    of_type.next().cloned().unwrap_or_default()
}
