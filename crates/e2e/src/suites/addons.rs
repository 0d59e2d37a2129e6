//! The add-ons: Multus and Linux bridge, a pod with a second interface, repair, and removal.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::{
    options::Domain,
    preflight,
    run::{Done, Runner, Suite},
};

use super::{BRIDGE, check_images, condition, holds, install::STARTS, node_network, pods};

/// The kind of the resource of the add-ons, for kubectl.
pub const KIND: &str = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";
const NAMESPACE: &str = "cluster-network-addons";
/// The label of every object of the add-ons.
const OWNED: &str = "weft.network/owner=networkaddonsconfig.cluster";

/// The name of the test with all components: later ones need it.
pub const AVAILABLE: &str = "addons/linux-bridge-is-available";
/// The name of the test that removes a component: later ones begin with Multus alone.
pub const REMOVED: &str = "addons/component-is-removed";
const MULTUS: &str = "addons/multus-is-available";
const ATTACHED: &str = "addons/pod-gets-a-second-interface";

/// The NetworkAddonsConfig of the tests, with these components.
pub fn config(suite: &Suite, components: &[&str]) -> Result<Value> {
    let mut spec: serde_json::Map<String, Value> = components
        .iter()
        .map(|name| ((*name).to_owned(), json!({})))
        .collect();
    let images = suite.options.component_images()?;
    if !images.is_empty() {
        spec.insert("images".to_owned(), images.into());
    }
    Ok(json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec
    }))
}

fn wait_available(suite: &Suite) -> Result<()> {
    suite.wait("the NetworkAddonsConfig is Available", || {
        check_images(suite, NAMESPACE)?;
        let config = suite.cluster.get(&[KIND, "cluster"])?;
        let is_done =
            condition(&config, "Progressing").is_some_and(|(status, ..)| status == "False");
        Ok(match holds(&config, "Available") {
            Ok(()) if is_done => Ok(()),
            Ok(()) => Err("Progressing".to_owned()),
            Err(instead) => Err(format!("{instead}\n{}", pods(suite, NAMESPACE)?)),
        })
    })
}

fn uid(suite: &Suite, daemonset: &str) -> Result<Option<String>> {
    let all = suite
        .cluster
        .list(&["daemonsets", "-n", NAMESPACE, "-l", OWNED])?;
    let found = all.iter().find(|one| one["metadata"]["name"] == daemonset);
    Ok(found.and_then(|one| one["metadata"]["uid"].as_str().map(str::to_owned)))
}

/// From Multus to a component that goes.
pub fn walk(runner: &mut Runner) {
    runner.test(MULTUS, &[STARTS], |suite| {
        suite.cluster.apply(&config(suite, &["multus"])?)?;
        wait_available(suite)?;
        if uid(suite, "multus")?.is_none() {
            bail!(
                "the NetworkAddonsConfig is Available, and there is no DaemonSet {NAMESPACE}/multus"
            );
        }
        Ok(Done::Yes)
    });
    runner.test("addons/deleted-daemonset-is-repaired", &[MULTUS], |suite| {
        let before = uid(suite, "multus")?;
        suite
            .cluster
            .kubectl(&["delete", "daemonset", "multus", "-n", NAMESPACE])?;
        suite.wait("the operator has made the DaemonSet multus again", || {
            let now = uid(suite, "multus")?;
            Ok(if now.is_some() && now != before {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            })
        })?;
        wait_available(suite)?;
        Ok(Done::Yes)
    });
    runner.test("addons/edited-field-is-repaired", &[MULTUS], |suite| {
        let class = || -> Result<Value> {
            let found = suite
                .cluster
                .get(&["daemonset", "multus", "-n", NAMESPACE])?;
            Ok(found["spec"]["template"]["spec"]["priorityClassName"].clone())
        };
        // Both classes are in every cluster.
        let before = class()?;
        let other = if before == "system-node-critical" {
            "system-cluster-critical"
        } else {
            "system-node-critical"
        };
        let patch =
            json!({"spec": {"template": {"spec": {"priorityClassName": other}}}}).to_string();
        suite.cluster.kubectl(&[
            "patch",
            "daemonset",
            "multus",
            "-n",
            NAMESPACE,
            "--patch",
            &patch,
        ])?;
        suite.wait("the operator has taken the edit back", || {
            let now = class()?;
            Ok(if now == before {
                Ok(())
            } else {
                Err(format!("priorityClassName {now}"))
            })
        })?;
        wait_available(suite)?;
        Ok(Done::Yes)
    });
    runner.test(AVAILABLE, &[MULTUS], |suite| {
        suite.cluster.apply(&config(suite, &["multus", "linuxBridge"])?)?;
        wait_available(suite)?;
        if uid(suite, "bridge-marker")?.is_none() {
            bail!("the NetworkAddonsConfig is Available, and there is no DaemonSet {NAMESPACE}/bridge-marker");
        }
        Ok(Done::Yes)
    });
    let has_bridge = runner.suite.has(Domain::NodeNetwork);
    let needs: &[&str] = if has_bridge {
        &[AVAILABLE, node_network::MADE]
    } else {
        &[AVAILABLE]
    };
    runner.test(ATTACHED, needs, attach);
    runner.test(REMOVED, &[AVAILABLE], |suite| {
        let multus = uid(suite, "multus")?;
        suite.cluster.apply(&config(suite, &["multus"])?)?;
        suite.wait("the DaemonSet bridge-marker is gone", || {
            let left = uid(suite, "bridge-marker")?;
            Ok(if left.is_none() {
                Ok(())
            } else {
                Err("it is there".to_owned())
            })
        })?;
        wait_available(suite)?;
        if uid(suite, "multus")? != multus {
            bail!("the DaemonSet multus is another one than before");
        }
        Ok(Done::Yes)
    });
}

/// A pod with a second interface on the bridge of the policy.
fn attach(suite: &Suite) -> Result<Done> {
    let (Some(image), true) = (suite.options.agent_image()?, suite.has(Domain::NodeNetwork)) else {
        return Ok(Done::LeftOut("it needs a bridge on the nodes, which only the domain node-network makes and removes. Add it to DOMAINS".to_owned()));
    };
    let network = json!({"cniVersion": "0.3.1", "name": "bridge", "type": "cnv-bridge", "bridge": BRIDGE, "ipam": {}});
    suite.cluster.apply(&json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "bridge", "namespace": preflight::NAMESPACE},
        "spec": {"config": network.to_string()}
    }))?;
    // The agent's program shows the network of the place where it runs, so no other image is needed.
    suite.cluster.apply(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "attached", "namespace": preflight::NAMESPACE,
            "annotations": {"k8s.v1.cni.cncf.io/networks": "bridge"}
        },
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "show", "image": image,
                "command": ["/usr/bin/weft-agent", "show", "-o", "json"]
            }]
        }
    }))?;
    suite.wait("the pod has ended", || {
        check_images(suite, preflight::NAMESPACE)?;
        let pod = suite
            .cluster
            .get(&["pod", "attached", "-n", preflight::NAMESPACE])?;
        match pod["status"]["phase"].as_str() {
            Some("Succeeded") => Ok(Ok(())),
            Some("Failed") => bail!(
                "the pod failed: {}",
                suite
                    .cluster
                    .kubectl(&["logs", "attached", "-n", preflight::NAMESPACE])?
            ),
            _ => Ok(Err(format!(
                "{}\n{}",
                pods(suite, preflight::NAMESPACE)?,
                events(suite)?
            ))),
        }
    })?;
    let shown = suite
        .cluster
        .kubectl(&["logs", "attached", "-n", preflight::NAMESPACE])?;
    for interface in ["eth0", "net1"] {
        if !shown.contains(&format!("\"{interface}\"")) {
            bail!("the pod has no interface {interface}:\n{shown}");
        }
    }
    let pod = suite
        .cluster
        .get(&["pod", "attached", "-n", preflight::NAMESPACE])?;
    let status = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].to_string();
    if !status.contains("net1") {
        bail!("the annotation of Multus does not name the interface net1: {status}");
    }
    Ok(Done::Yes)
}

/// The events of the suite's pods, for the message of a test.
fn events(suite: &Suite) -> Result<String> {
    let events = suite
        .cluster
        .list(&["events", "-n", preflight::NAMESPACE])?;
    let words: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "Warning")
        .filter_map(|event| event["message"].as_str())
        .collect();
    Ok(words.join("\n"))
}

/// The add-ons go.
pub fn end(runner: &mut Runner) {
    runner.test("addons/deletion-removes-everything", &[MULTUS], |suite| {
        suite.cluster.kubectl(&["delete", "pods", "--all", "-n", preflight::NAMESPACE])?;
        suite.cluster.kubectl(&["delete", KIND, "cluster", &format!("--timeout={}s", suite.options.timeout)])?;
        suite.wait("no object of the add-ons is left", || {
            let kinds = "daemonsets,deployments,services,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings";
            let left = suite.cluster.kubectl(&["get", kinds, "--all-namespaces", "-l", OWNED, "--output=name"])?;
            Ok(if left.trim().is_empty() { Ok(()) } else { Err(left) })
        })?;
        Ok(Done::Yes)
    });
}
