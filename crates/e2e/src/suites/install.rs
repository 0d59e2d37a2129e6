//! Installation, the same once more, and the end of the operator's pod.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    kubectl::Cluster,
    operator::Operator,
    options::{Domain, Options},
    run::{Done, Runner, Suite},
};

use super::{OPERATOR, check_images, commands::HEALTHY, pods};

/// The components of which the tests make use.
const COMPONENTS: &str = "multus,linux-bridge";
/// Namespaces with pods of Weft.
const NAMESPACES: [&str; 3] = [OPERATOR, "cluster-network-addons", "nmstate"];

/// The name of the first test: all others need it.
pub const STARTS: &str = "install/operator-starts";

/// Returns the output of `weft manifests` as JSON. A policy that fails is tried only once, so that
/// its test takes no minutes.
///
/// # Errors
/// An option is missing or wrong, which needs no cluster to find out.
pub fn manifests(cluster: &Cluster, options: &Options) -> Result<String> {
    let unavailable = options
        .domains
        .iter()
        .find(|domain| matches!(domain, Domain::ClusterNetwork | Domain::Placement));
    match unavailable {
        Some(Domain::ClusterNetwork) => bail!(
            "DOMAINS=cluster-network: the suite does not test this domain, which needs a cluster without a network, and ends all pods with the network. `make test-nodes` tests it on nodes of its own"
        ),
        Some(_) => bail!(
            "DOMAINS=placement: the suite does not test this domain, which needs MariaDB and Keystone. `make test-placement` tests it with its own"
        ),
        None => {}
    }
    let domains: Vec<_> = options.domains.iter().map(|domain| domain.name()).collect();
    let domains = domains.join(",");
    let mut arguments = vec![
        "manifests",
        "--output",
        "json",
        "--domains",
        &domains,
        "--image",
        options.image()?,
    ];
    if options.has(Domain::Addons) {
        arguments.extend(["--components", COMPONENTS]);
    }
    if let Some(image) = options
        .agent_image()?
        .filter(|_| options.has(Domain::NodeNetwork))
    {
        arguments.extend(["--agent-image", image]);
    }
    let ended = cluster.weft_offline(&arguments)?;
    if ended.code != 0 {
        bail!(
            "weft manifests: {}",
            ended.stderr.trim().trim_start_matches("error: ")
        );
    }
    let mut list: Value =
        serde_json::from_str(&ended.stdout).context("weft manifests --output json")?;
    for object in list["items"].as_array_mut().into_iter().flatten() {
        if object["kind"] == "Deployment"
            && let Some(variables) =
                object["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut()
        {
            variables.push(json!({"name": "NNCP_MAX_RETRIES", "value": "1"}));
        }
    }
    Ok(list.to_string())
}

/// Installs the operator, unless it is installed already.
pub fn start(runner: &mut Runner, manifests: &str) {
    runner.test(STARTS, &[], |suite| {
        if !suite.options.installed {
            suite
                .cluster
                .kubectl_with(&["apply", "-f", "-"], manifests)?;
        }
        wait_operator(suite).map(|_| Done::Yes)
    });
}

/// Applies the same manifests again, and ends the operator's pod.
pub fn again(runner: &mut Runner, manifests: &str) {
    runner.test(
        "install/second-apply-restarts-no-pod",
        &[HEALTHY],
        |suite| {
            if suite.options.installed {
                return Ok(Done::LeftOut(
                    "the manifests of an operator that was installed before are not known"
                        .to_owned(),
                ));
            }
            let before = all_pods(suite)?;
            suite
                .cluster
                .kubectl_with(&["apply", "-f", "-"], manifests)?;
            wait_operator(suite)?;
            super::commands::wait_healthy(suite)?;
            let after = all_pods(suite)?;
            if before != after {
                bail!("other pods, or more restarts: before {before:?}, after {after:?}");
            }
            Ok(Done::Yes)
        },
    );
    runner.test("install/operator-comes-back", &[HEALTHY], |suite| {
        let before = operator_pods(suite)?;
        let Operator {
            namespace,
            selector,
            ..
        } = &suite.operator;
        suite.cluster.kubectl(&[
            "delete",
            "pods",
            "--selector",
            selector,
            "-n",
            namespace,
            "--wait=false",
        ])?;
        suite.wait("another pod of the operator is Ready", || {
            let now = operator_pods(suite)?;
            let is_other = !now.is_empty() && now.iter().all(|pod| !before.contains(pod));
            Ok(if is_other {
                Ok(())
            } else {
                Err(pods(suite, namespace)?)
            })
        })?;
        wait_operator(suite)?;
        super::commands::wait_healthy(suite)?;
        Ok(Done::Yes)
    });
}

/// Waits until the operator runs its latest template.
fn wait_operator(suite: &Suite) -> Result<Value> {
    let Operator {
        namespace, name, ..
    } = &suite.operator;
    suite.wait("the operator is Available", || {
        check_images(suite, namespace)?;
        let operator = suite.cluster.get(&["deployment", name, "-n", namespace])?;
        let status = &operator["status"];
        let is_there = status["observedGeneration"] == operator["metadata"]["generation"]
            && status["updatedReplicas"] == operator["spec"]["replicas"]
            && status["availableReplicas"] == operator["spec"]["replicas"];
        Ok(if is_there {
            Ok(operator)
        } else {
            Err(pods(suite, namespace)?)
        })
    })
}

/// The operator's pods by their identities.
fn operator_pods(suite: &Suite) -> Result<Vec<String>> {
    let Operator {
        namespace,
        selector,
        ..
    } = &suite.operator;
    let pods = suite
        .cluster
        .list(&["pods", "-n", namespace, "--selector", selector])?;
    Ok(pods
        .iter()
        .filter_map(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned))
        .collect())
}

/// All pods of Weft, with their identities and restarts.
fn all_pods(suite: &Suite) -> Result<BTreeMap<String, (String, i64)>> {
    let mut all = BTreeMap::new();
    for namespace in NAMESPACES {
        for pod in suite.cluster.list(&["pods", "-n", namespace])? {
            let restarts = super::containers(&pod)
                .filter_map(|one| one["restartCount"].as_i64())
                .sum();
            let text = |field: &str| {
                pod["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            all.insert(
                format!("{namespace}/{}", text("name")),
                (text("uid"), restarts),
            );
        }
    }
    Ok(all)
}
