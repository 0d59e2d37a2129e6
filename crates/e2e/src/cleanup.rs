//! The clean-up. Each step does nothing where nothing is left, so it may run twice.

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{
    listing::Listing,
    preflight::{self, ATTACHMENTS, HAD_ATTACHMENTS, HAD_MARKS, NAMESPACE},
    run::{DOMAINS, INSTALLED, Suite},
    suites::{BRIDGE, POLICY, addons, metrics, node_network},
};

/// Groups of the four APIs: events about their objects are the run's.
const GROUPS: [&str; 4] = [
    "networkaddonsoperator.network.kubevirt.io",
    "networkoperator.openshift.io",
    "nmstate.io",
    "placement.openstack.org",
];

/// Removes all that a run has created: its pods, the bridge of its policy, the resources, the
/// operator, the definitions and at last the namespace that marks the run. An operator that was
/// there before the run stays, with its definitions.
///
/// # Errors
/// A step failed. The namespace stays then, so that a run with `--clean` continues.
pub fn clean(suite: &Suite) -> Result<()> {
    let cluster = &suite.cluster;
    if !preflight::has_run(cluster)? {
        return Ok(());
    }
    let namespace = cluster.get(&["namespace", NAMESPACE])?;
    let annotations = &namespace["metadata"]["annotations"];
    let had_attachments = annotations[HAD_ATTACHMENTS] == "true";
    let had_marks = annotations[HAD_MARKS]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let domains = annotations[DOMAINS].as_str().unwrap_or_default().to_owned();
    let was_installed = annotations[INSTALLED] == "true";

    // A pod with a second interface needs Multus for its end.
    delete(suite, &["pods", "--all", "-n", NAMESPACE])?;
    if was_installed {
        // The operator stays, and with it the definitions.
        delete(suite, &[addons::KIND, "cluster"])?;
        remove_resources(suite, &had_marks)?;
        metrics::remove_reader(suite)?;
        if !had_attachments {
            delete(suite, &["customresourcedefinition", ATTACHMENTS])?;
        }
        return delete(suite, &["namespace", NAMESPACE]);
    }
    // Only the agents can remove the bridge. A failure is reported at the end: the rest
    // must go all the same.
    let bridge = remove_bridge(suite);
    let timeout = format!("{}s", suite.options.timeout);
    let ended = cluster.until(&suite.stop).weft(
        &[
            "uninstall",
            "--yes",
            "--crds",
            "--domains",
            &domains,
            "--timeout",
            &timeout,
        ],
        "",
    )?;
    if ended.code != 0 {
        bail!(
            "weft uninstall: exit code {}\n{}{}",
            ended.code,
            ended.stdout,
            ended.stderr
        );
    }
    remove_resources(suite, &had_marks)?;
    metrics::remove_reader(suite)?;
    if !had_attachments {
        delete(suite, &["customresourcedefinition", ATTACHMENTS])?;
    }
    remove_events(suite)?;
    bridge?;
    delete(suite, &["namespace", NAMESPACE])
}

/// Deletes objects, and waits until they are gone.
fn delete(suite: &Suite, arguments: &[&str]) -> Result<()> {
    let timeout = format!("--timeout={}s", suite.options.timeout);
    let all = [
        &["delete", "--ignore-not-found", "--wait", &timeout],
        arguments,
    ]
    .concat();
    let ended = suite.cluster.until(&suite.stop).try_kubectl(&all, "")?;
    if ended.code != 0
        && !ended
            .stderr
            .contains("the server doesn't have a resource type")
    {
        bail!("kubectl {}: {}", all.join(" "), ended.stderr.trim());
    }
    Ok(())
}

/// Removes the resources that the bridge marker has written to the nodes in this run: one for each
/// bridge of the host. The marker leaves them when its pod goes. `had` names those of before.
fn remove_resources(suite: &Suite, had: &str) -> Result<()> {
    for (node, resource) in preflight::marks(&suite.cluster)? {
        let line = format!("{node} {resource}");
        if had.lines().any(|one| one == line) {
            continue;
        }
        // A slash in a key is written like this in the path of a JSON patch (RFC 6901).
        let path = format!("/status/capacity/{}", resource.replace('/', "~1"));
        let patch = json!([{"op": "remove", "path": path}]).to_string();
        suite.cluster.until(&suite.stop).kubectl(&[
            "patch",
            "node",
            &node,
            "--subresource=status",
            "--type=json",
            "--patch",
            &patch,
        ])?;
    }
    Ok(())
}

/// Has the agents remove the bridge of the test policy, if a node reports it.
fn remove_bridge(suite: &Suite) -> Result<()> {
    let reported = || -> Result<Vec<String>> {
        let states = suite.cluster.list(&["nodenetworkstates.nmstate.io"])?;
        Ok(states
            .iter()
            .filter(|state| node_network::interface(state, BRIDGE).is_some())
            .filter_map(|state| state["metadata"]["name"].as_str().map(str::to_owned))
            .collect())
    };
    let policies = suite
        .cluster
        .list(&["nodenetworkconfigurationpolicies.nmstate.io"])?;
    if policies.is_empty() && reported()?.is_empty() {
        return Ok(());
    }
    suite.cluster.apply(&node_network::policy(
        json!([{"name": BRIDGE, "type": "linux-bridge", "state": "absent"}]),
    ))?;
    let removed = suite.wait("the agents remove the bridge of the tests", || {
        let nodes = reported()?;
        let done = node_network::policy_is(suite, "Available")?;
        Ok(match (nodes.is_empty(), done) {
            (true, Ok(())) => Ok(()),
            (_, Err(instead)) => Err(instead),
            (false, Ok(())) => Err(format!("nodes {} report it", nodes.join(", "))),
        })
    });
    delete(
        suite,
        &["nodenetworkconfigurationpolicies.nmstate.io", POLICY],
    )?;
    removed.with_context(|| {
        format!("on a node that has the bridge {BRIDGE}, run `ip link delete {BRIDGE}`")
    })
}

/// Deletes the events of the run: those about objects of the APIs, and those by Weft. They would
/// expire after an hour.
fn remove_events(suite: &Suite) -> Result<()> {
    for event in suite.cluster.list(&["events", "--all-namespaces"])? {
        let version = event["involvedObject"]["apiVersion"]
            .as_str()
            .unwrap_or_default();
        let by = event["reportingComponent"].as_str().unwrap_or_default();
        if !by.starts_with("weft-")
            && !GROUPS
                .iter()
                .any(|group| version.starts_with(&format!("{group}/")))
        {
            continue;
        }
        let part = |field: &str| {
            event["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        delete(suite, &["event", &part("name"), "-n", &part("namespace")])?;
    }
    Ok(())
}

/// The beginning of the differences that are labels of the add-ons' namespace.
const LABELS: &str = "left: Namespace cluster-network-addons: label ";

/// Compares the objects of the cluster with those of before the run. An operator that was there
/// before the run keeps the namespace of its add-ons, and the labels that it has given to it.
///
/// # Errors
/// There is a difference, which the error names.
pub fn compare(suite: &Suite, before: &Listing) -> Result<()> {
    // The garbage collector and the controllers of namespaces need a moment.
    suite
        .wait("the cluster is as before", || {
            let mut differences = Listing::take(&suite.cluster)?.differences(before);
            differences.retain(|one| !(suite.options.installed && one.starts_with(LABELS)));
            Ok(if differences.is_empty() {
                Ok(())
            } else {
                Err(format!("\n{}", differences.join("\n")))
            })
        })
        .context("Weft, the suite or another user has left a difference")
}
