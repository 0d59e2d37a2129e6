//! The commands of `weft` for people: status, plan, explain.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::{
    options::Domain,
    run::{Done, Runner, Suite},
};

use super::{addons, install::STARTS, node_network};

/// The name of the test that finds everything Available: tests that need that come after it.
pub const HEALTHY: &str = "commands/status-is-healthy";

/// Waits until `weft status` finds everything Available.
///
/// # Errors
/// It does not in time, or something is in trouble.
pub fn wait_healthy(suite: &Suite) -> Result<()> {
    suite.wait("weft status finds everything Available", || {
        let ended = suite.cluster.weft(&["status", "--output", "json"], "")?;
        let status: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        let is_healthy = ended.code == 0 && status["verdict"] == "Healthy";
        Ok(if is_healthy {
            Ok(())
        } else {
            let shown = suite.cluster.weft(&["status", "--problems"], "")?;
            Err(format!(
                "exit code {}, verdict {}\n{}{}",
                ended.code, status["verdict"], shown.stdout, ended.stderr
            ))
        })
    })
}

/// Status, plan and explain about the resources that are there.
pub fn walk(runner: &mut Runner) {
    let mut needs = vec![STARTS];
    if runner.suite.has(Domain::Addons) {
        needs.push(addons::REMOVED);
    }
    if runner.suite.has(Domain::NodeNetwork) {
        needs.push(node_network::STATES);
    }
    runner.test(HEALTHY, &needs, |suite| {
        wait_healthy(suite)?;
        let ended = suite.cluster.weft(&["status"], "")?;
        if ended.code != 0 || ended.stdout.trim().is_empty() {
            bail!(
                "weft status: exit code {}\n{}{}",
                ended.code,
                ended.stdout,
                ended.stderr
            );
        }
        Ok(Done::Yes)
    });
    if runner.suite.has(Domain::Addons) {
        runner.test(
            "commands/plan-finds-no-change",
            &[addons::REMOVED],
            |suite| {
                let applied = addons::config(suite, &["multus"])?.to_string();
                let ended = suite.cluster.weft(&["plan", "-f", "-"], &applied)?;
                if ended.code != 0 {
                    bail!(
                        "weft plan: exit code {} instead of 0 (nothing would change)\n{}{}",
                        ended.code,
                        ended.stdout,
                        ended.stderr
                    );
                }
                let other = addons::config(suite, &["multus", "linuxBridge"])?.to_string();
                let ended = suite.cluster.weft(&["plan", "-f", "-"], &other)?;
                if ended.code != 1 || !ended.stdout.contains("bridge-marker") {
                    bail!(
                        "weft plan: exit code {} instead of 1 (something would change)\n{}{}",
                        ended.code,
                        ended.stdout,
                        ended.stderr
                    );
                }
                Ok(Done::Yes)
            },
        );
    }
    runner.test("commands/explain-knows-every-reason", &[STARTS], |suite| {
        let kinds = [
            "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io",
            "nmstates.nmstate.io",
            "nodenetworkstates.nmstate.io",
        ];
        let mut words = std::collections::BTreeSet::new();
        for kind in kinds {
            for object in suite.cluster.list(&[kind])? {
                for one in object["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    words.extend(
                        [&one["type"], &one["reason"]]
                            .into_iter()
                            .filter_map(|word| word.as_str().map(str::to_owned)),
                    );
                }
            }
        }
        if words.is_empty() {
            bail!("no resource has a condition");
        }
        for word in words.iter().filter(|word| !word.is_empty()) {
            let ended = suite.cluster.weft_offline(&["explain", word])?;
            if ended.code != 0 {
                bail!(
                    "weft explain {word}: exit code {}\n{}",
                    ended.code,
                    ended.stderr
                );
            }
        }
        Ok(Done::Yes)
    });
}
