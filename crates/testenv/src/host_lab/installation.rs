//! Weft on hosts, as a user installs it: manifests, operator, NMState, and on each host the agent
//! as its DaemonSet would run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::{Host, HostLab, HostLabBuilder, agent};
use crate::{
    process::{Process, bound_command},
    program::Program,
    programs::built,
    wait::{PATIENCE, within},
};

/// The operator's Deployment and ServiceAccount.
const OPERATOR: &str = "nmstate-operator";
/// The agent's DaemonSet.
const DAEMON_SET: &str = "nmstate-handler";
const NMSTATE: &str = r#"{"apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"}, "spec": {}}"#;

/// A lab of hosts with Weft. Dropping it ends it.
pub struct Installation {
    // The agents before their hosts, the operator before its API server.
    agents: BTreeMap<String, Program>,
    operator: Option<Process>,
    weft: PathBuf,
    lab: HostLab,
}

impl Installation {
    /// Starts the lab, installs the output of `weft manifests --split --domains node-network`, starts the
    /// operator, creates an NMState, and starts the agents.
    ///
    /// # Errors
    /// The lab lacks a feature, or a step failed.
    pub async fn start(builder: HostLabBuilder) -> Result<Self> {
        let mut installation = Self::without_agents(builder).await?;
        let names: Vec<_> = installation
            .lab
            .hosts()
            .iter()
            .map(|host| host.name().to_owned())
            .collect();
        for name in names {
            installation.start_agent(&name).await?;
        }
        Ok(installation)
    }

    /// The same, with everything but agents that run: their DaemonSet is there.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn without_agents(builder: HostLabBuilder) -> Result<Self> {
        let weft = built("weft")?;
        let manifests = ["manifests", "--split", "--domains", "node-network"];
        let manifests = run(&weft, &manifests, None)?;
        Self::of_version(builder, weft, &manifests).await
    }

    /// The same with the operator of another version, and its manifests.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn of_version(
        builder: HostLabBuilder,
        weft: PathBuf,
        manifests: &str,
    ) -> Result<Self> {
        let lab = builder.start().await?;
        let mut installation = Self {
            agents: BTreeMap::new(),
            operator: None,
            weft,
            lab,
        };
        installation.apply(manifests).await?;
        installation.start_operator().await?;
        // Its definition is served a moment after it was created.
        eventually("NMState is created", async || {
            installation.apply(NMSTATE).await
        })
        .await?;
        eventually("the agent's DaemonSet is there", async || {
            installation.daemon_set().await.map(drop)
        })
        .await?;
        Ok(installation)
    }

    /// Its hosts and control plane.
    pub fn lab(&self) -> &HostLab {
        &self.lab
    }

    /// One of its hosts.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn host(&self, name: &str) -> Result<&Host> {
        self.lab.host(name)
    }

    /// Starts the operator with the arguments, environment and token of its Deployment. One that
    /// runs already is killed.
    ///
    /// # Errors
    /// It is not installed.
    pub async fn start_operator(&mut self) -> Result<()> {
        self.operator = None;
        let text = self
            .lab
            .kubectl(&[
                "get",
                "deployment",
                OPERATOR,
                "--namespace",
                agent::NAMESPACE,
                "-o",
                "json",
            ])
            .await?;
        let deployment: Value = serde_json::from_str(&text)?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let args: Vec<String> = serde_json::from_value(container["args"].clone())
            .context("the operator's arguments")?;
        let control_plane = self.lab.control_plane();
        let kubeconfig = control_plane
            .service_account_kubeconfig(agent::NAMESPACE, OPERATOR)
            .await?;
        let mut command = bound_command(&self.weft);
        command
            .args(args)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args([
                "--probe-address",
                "127.0.0.1:0",
                "--metrics-address",
                "127.0.0.1:0",
                "--log-text",
                "--lease-seconds",
                "3",
            ])
            .args(["--pod-name", OPERATOR])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(environment(container, "", OPERATOR)?);
        let operator = Process::spawn("weft".into(), command, control_plane.dir())?;
        self.operator = Some(operator);
        Ok(())
    }

    /// Ends the operator, and starts the one of another version in its place.
    ///
    /// # Errors
    /// As [`start_operator`](Self::start_operator).
    pub async fn replace_operator(&mut self, weft: PathBuf) -> Result<()> {
        self.weft = weft;
        self.start_operator().await
    }

    /// Ends the operator by SIGKILL.
    pub fn kill_operator(&mut self) {
        self.operator = None;
    }

    /// Returns the operator's log.
    pub fn operator_log(&self) -> String {
        self.operator
            .as_ref()
            .map(|operator| std::fs::read_to_string(operator.log()).unwrap_or_default())
            .unwrap_or_default()
    }

    /// Starts the agent on a host. One that runs there already is killed.
    ///
    /// # Errors
    /// The DaemonSet is not there.
    pub async fn start_agent(&mut self, host: &str) -> Result<()> {
        self.kill_agent(host)?;
        let program = self.run_agent(host, &[], &[]).await?;
        self.agents.insert(host.to_owned(), program);
        Ok(())
    }

    /// Runs the agent's program on a host next to any other: with the DaemonSet's environment (and
    /// these variables), uid and capabilities, and a token that is bound to the node.
    ///
    /// # Errors
    /// The DaemonSet is not there.
    pub async fn run_agent(
        &self,
        host: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Program> {
        self.run_agent_of(&agent::program()?, host, args, variables)
            .await
    }

    /// The same with the agent of another version.
    ///
    /// # Errors
    /// As [`run_agent`](Self::run_agent).
    pub async fn run_agent_of(
        &self,
        program: &Path,
        host: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Program> {
        self.run_container(program, host, DAEMON_SET, args, variables)
            .await
    }

    /// Starts the container `guardian` of the agent's pod on a host.
    ///
    /// # Errors
    /// The DaemonSet has none: NMState says nothing of hosts without NetworkManager.
    pub async fn run_guardian(&self, host: &str) -> Result<Program> {
        self.run_container(&agent::program()?, host, "guardian", &[], &[])
            .await
    }

    async fn run_container(
        &self,
        program: &Path,
        host: &str,
        name: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Program> {
        let host = self.lab.host(host)?;
        let daemon_set = self.daemon_set().await?;
        let container = daemon_set["spec"]["template"]["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|container| container["name"] == name)
            .with_context(|| format!("{DAEMON_SET} has no container {name}"))?;
        let of_container: Option<Vec<String>> =
            serde_json::from_value(container["args"].clone()).context("its arguments")?;
        let of_container = of_container.unwrap_or_default();
        let args: Vec<_> = of_container
            .iter()
            .map(String::as_str)
            .chain(args.iter().copied())
            .collect();
        let mut all = environment(
            container,
            host.name(),
            &format!("{DAEMON_SET}-{}", host.name()),
        )?;
        all.insert(
            "KUBECONFIG".to_owned(),
            self.lab.agent_kubeconfig(host).await?.display().to_string(),
        );
        all.extend(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let environment: Vec<_> = all.into_iter().collect();
        host.start_confined(program, &args, &environment, &capabilities(container)?)
    }

    /// Ends the agent of a host by SIGKILL, if one runs.
    ///
    /// # Errors
    /// It does not end.
    pub fn kill_agent(&mut self, host: &str) -> Result<()> {
        self.agents
            .remove(host)
            .map_or(Ok(()), |mut agent| agent.kill().map(drop))
    }

    /// The agent that runs on a host.
    ///
    /// # Errors
    /// None was started.
    pub fn agent(&mut self, host: &str) -> Result<&mut Program> {
        self.agents
            .get_mut(host)
            .with_context(|| format!("no agent was started on {host}"))
    }

    /// Are operator, agents and lab running?
    ///
    /// # Errors
    /// One has ended. The error shows the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        self.operator
            .as_mut()
            .map_or(Ok(()), Process::check_running)?;
        self.agents
            .values_mut()
            .try_for_each(Program::check_running)?;
        self.lab.check_running()
    }

    /// `kubectl apply -f -` as administrator.
    ///
    /// # Errors
    /// As [`ControlPlane::kubectl`](crate::ControlPlane::kubectl).
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        self.lab
            .control_plane()
            .kubectl_with_input(&["apply", "-f", "-"], yaml)
            .await
            .map(drop)
    }

    /// An object of nmstate.io by its short name (`nns`, `nncp`, `nnce`, `nmstate`), as
    /// administrator. Nothing if it is not there.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn get(&self, resource: &str, name: &str) -> Result<Option<Value>> {
        Ok(self
            .api(resource)?
            .get_opt(name)
            .await?
            .map(serde_json::to_value)
            .transpose()?)
    }

    /// Changes one by a JSON merge patch (RFC 7386), as administrator.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn patch(&self, resource: &str, name: &str, patch: &Value) -> Result<Value> {
        let patched = self
            .api(resource)?
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(serde_json::to_value(patched)?)
    }

    /// The API of a short name, as administrator.
    ///
    /// # Errors
    /// Another name.
    pub fn api(&self, resource: &str) -> Result<Api<DynamicObject>> {
        let (version, kind) = match resource {
            "nns" => ("v1beta1", "NodeNetworkState"),
            "nncp" => ("v1", "NodeNetworkConfigurationPolicy"),
            "nnce" => ("v1beta1", "NodeNetworkConfigurationEnactment"),
            "nmstate" => ("v1", "NMState"),
            other => bail!("{other} is none of nns, nncp, nnce, nmstate"),
        };
        Ok(Api::all_with(
            self.lab.client(),
            &ApiResource::from_gvk(&GroupVersionKind::gvk("nmstate.io", version, kind)),
        ))
    }

    /// Runs `weft` as administrator of this cluster and returns what it prints.
    ///
    /// # Errors
    /// It failed: the error holds its stderr.
    pub fn weft(&self, args: &[&str]) -> Result<String> {
        run(
            &self.weft,
            args,
            Some(self.lab.control_plane().kubeconfig()),
        )
    }

    async fn daemon_set(&self) -> Result<Value> {
        let text = self
            .lab
            .kubectl(&[
                "get",
                "daemonset",
                DAEMON_SET,
                "--namespace",
                agent::NAMESPACE,
                "-o",
                "json",
            ])
            .await?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Runs `weft`, and returns what it prints.
fn run(weft: &Path, args: &[&str], kubeconfig: Option<&Path>) -> Result<String> {
    let output = Command::new(weft)
        .args(args)
        .envs(kubeconfig.map(|path| ("KUBECONFIG", path)))
        .output()?;
    if !output.status.success() {
        bail!(
            "weft {}: {}: {}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The environment of a container, with the references filled in as the kubelet does.
fn environment(container: &Value, node: &str, pod: &str) -> Result<BTreeMap<String, String>> {
    let variables = container["env"].as_array().into_iter().flatten();
    variables
        .map(|variable| {
            let value = match variable
                .pointer("/valueFrom/fieldRef/fieldPath")
                .and_then(Value::as_str)
            {
                None => variable["value"].as_str().unwrap_or_default(),
                Some("metadata.namespace") => agent::NAMESPACE,
                // A name is never used twice here.
                Some("metadata.name" | "metadata.uid") => pod,
                Some("spec.nodeName") => node,
                Some(other) => bail!("the kubelet's part is not played for {other}"),
            };
            Ok((
                variable["name"].as_str().unwrap_or_default().to_owned(),
                value.to_owned(),
            ))
        })
        .collect()
}

/// The capabilities that a container adds to none, `NET_ADMIN` for instance.
fn capabilities(container: &Value) -> Result<Vec<String>> {
    let capabilities = &container["securityContext"]["capabilities"];
    if capabilities["drop"] != serde_json::json!(["ALL"]) {
        bail!("the agent drops not all capabilities: {capabilities}");
    }
    Ok(serde_json::from_value(capabilities["add"].clone()).unwrap_or_default())
}

/// Repeats until it succeeds, for a minute.
async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let result = within(PATIENCE, Duration::from_millis(50), async || {
        Ok(attempt().await.map_err(|error| format!("{error:#}")))
    });
    result.await.with_context(|| what.to_owned())
}
