//! A control plane with Weft installed as a user installs it, and the operator as a process.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::OnceCell,
};
use weft_plan::Live;
use weft_testenv::{
    ADMIN, AuditEvent, ControlPlane, bound_command, played, proxy::Proxy, spawn_bound,
};

use crate::{audit, domain::Domain, objects::Applied, rest::Rest, wait};

/// A binary and a configuration to measure.
pub struct Setup {
    pub weft: PathBuf,
    pub domain: &'static Domain,
    pub config: Value,
    /// Objects that Weft applies, see [`crate::recording::applied`].
    pub applied: OnceCell<Vec<Applied>>,
}

impl Setup {
    pub fn new(weft: &Path, config: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(config)
            .with_context(|| format!("cannot read {}", config.display()))?;
        let mut config: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("{}", config.display()))?;
        let domain = Domain::of(&config)?;
        // All versions of a domain have one schema.
        config["apiVersion"] = domain.api_version.into();
        if domain.name == "placement" {
            // No Keystone runs here.
            config["spec"]["keystone"]["registration"] = "None".into();
            config["spec"]["keystone"]
                .as_object_mut()
                .map(|keystone| keystone.remove("adminSecret"));
        }
        Ok(Self {
            weft: weft.to_owned(),
            domain,
            config,
            applied: OnceCell::new(),
        })
    }

    /// Runs `weft` and returns what it prints.
    pub fn run(&self, args: &[&str], input: &str) -> Result<String> {
        let images = self
            .domain
            .images
            .iter()
            .map(|variable| (variable, "registry.example/image:1"));
        let mut child = Command::new(&self.weft)
            .args(args)
            .envs(images)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child
            .stdin
            .take()
            .context("stdin is piped")?
            .write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("weft {}: {}", args.join(" "), output.status);
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A fresh control plane, Weft's manifests in it, no operator running and no configuration yet.
pub struct Lab<'a> {
    pub setup: &'a Setup,
    pub control_plane: ControlPlane,
    /// Client with the administrator's rights.
    pub rest: Rest,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

impl<'a> Lab<'a> {
    pub async fn start(setup: &'a Setup) -> Result<Self> {
        let control_plane = ControlPlane::builder().nodes(3).audit(true).start().await?;
        if let Some(served) = setup.domain.served {
            control_plane
                .kubectl(&["create", "namespace", served])
                .await?;
        }
        control_plane
            .kubectl_with_input(
                &["apply", "-f", "-"],
                &setup.run(
                    &["manifests", "--split", "--domains", setup.domain.name],
                    "",
                )?,
            )
            .await?;
        let rest = Rest::new(control_plane.client());
        let Domain {
            namespace,
            operator,
            workload,
            ..
        } = setup.domain;
        let workload = rest
            .get(&format!(
                "/apis/apps/v1/namespaces/{namespace}/{workload}/{operator}"
            ))
            .await?;
        let container = &workload.context("the operator's workload")?["spec"]["template"]["spec"]["containers"]
            [0];
        let args = serde_json::from_value(container["args"].clone())?;
        let env = environment(setup.domain, container)?;
        let lab = Self {
            setup,
            control_plane,
            rest,
            args,
            env,
        };
        match setup.domain.name {
            "addons" => {
                lab.control_plane
                    .kubectl_with_input(&["apply", "-f", "-"], played::KUBEVIRT)
                    .await?;
                lab.play_kubemacpool().await?;
            }
            "cluster-network" => lab.play_cluster().await?,
            "placement" => lab.make_secrets().await?,
            _ => {}
        }
        lab.warm_up().await?;
        Ok(lab)
    }

    /// A control plane with an operator that leads and has seen everything.
    pub async fn with_operator(setup: &'a Setup) -> Result<(Self, Operator)> {
        let lab = Self::start(setup).await?;
        let operator = lab.operator("weft-1", None).await?;
        lab.leads(&operator).await?;
        Ok((lab, operator))
    }

    /// The same, with everything Available.
    pub async fn available(setup: &'a Setup) -> Result<(Self, Operator)> {
        let (lab, operator) = Self::with_operator(setup).await?;
        lab.create_config().await?;
        lab.wait_available().await?;
        Ok((lab, operator))
    }

    /// A bare client with the rights of the operator: the API server looks longer at what some
    /// users do, above all at roles.
    pub async fn as_operator(&self) -> Result<Rest> {
        let kubeconfig = self
            .control_plane
            .service_account_kubeconfig(self.setup.domain.namespace, self.setup.domain.operator)
            .await?;
        Ok(Rest::new(weft_testenv::client_from(&kubeconfig).await?))
    }

    /// Starts the binary as the kubelet would, through a proxy if one is given. Returns when it is
    /// ready. It sends them before it leads.
    pub async fn operator(&self, pod: &str, via: Option<&Proxy>) -> Result<Operator> {
        let server = via.map_or(self.control_plane.url(), Proxy::url);
        let kubeconfig = self
            .control_plane
            .service_account_kubeconfig_via(
                server,
                self.setup.domain.namespace,
                self.setup.domain.operator,
            )
            .await?;
        let log = self.control_plane.dir().join(format!("{pod}.log"));
        let output = File::create(&log)?;
        let mut command = bound_command(&self.setup.weft);
        command
            .args(&self.args)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args([
                "--probe-address",
                "127.0.0.1:0",
                "--metrics-address",
                "127.0.0.1:0",
                "--pod-name",
                pod,
            ])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let mut operator = Operator {
            child: spawn_bound(command)?,
            log,
            pod: pod.to_owned(),
        };
        wait::until("the operator is ready", async || {
            operator.is_ready().await.map(|ready| ready.then_some(()))
        })
        .await?;
        Ok(operator)
    }

    /// Waits until this operator holds the lease.
    pub async fn leads(&self, operator: &Operator) -> Result<()> {
        wait::until("the operator leads", async || {
            let lease = self
                .rest
                .get(&self.setup.domain.lease())
                .await?
                .unwrap_or_default();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            Ok(holder
                .starts_with(&format!("{}_", operator.pod))
                .then_some(()))
        })
        .await
    }

    pub async fn create_config(&self) -> Result<Value> {
        self.rest
            .create(&self.setup.domain.configs(), &self.setup.config)
            .await
    }

    pub async fn patch_config(&self, patch: &Value) -> Result<Value> {
        self.rest.merge_patch(&self.config_path(), patch).await
    }

    pub async fn delete_config(&self) -> Result<Value> {
        self.rest.delete(&self.config_path()).await
    }

    pub async fn config(&self) -> Result<Option<Value>> {
        self.rest.get(&self.config_path()).await
    }

    fn config_path(&self) -> String {
        format!(
            "{}/{}",
            self.setup.domain.configs(),
            Live::of(&self.setup.config).name()
        )
    }

    /// Waits until status says, of the latest generation, that all is well.
    pub async fn wait_available(&self) -> Result<()> {
        wait::until("the configuration is Available", async || {
            let config = self.config().await?.unwrap_or_default();
            let status = &config["status"];
            let says = |(name, value): &(&str, &str)| {
                status["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|condition| condition["type"] == *name && condition["status"] == *value)
            };
            let known = Live::of(&config).observed_generation() == Live::of(&config).generation();
            Ok((known && self.setup.domain.well.iter().all(says)).then_some(()))
        })
        .await
    }

    /// The requests of the operator since a moment.
    pub fn requests_of_operator(&self, since: Timestamp) -> Result<Vec<AuditEvent>> {
        audit::since_by(&self.control_plane, since, &self.setup.domain.user())
    }

    /// The requests of the benchmark itself since a moment.
    pub fn requests_of_admin(&self, since: Timestamp) -> Result<Vec<AuditEvent>> {
        audit::since_by(&self.control_plane, since, ADMIN)
    }

    /// Waits until the operator has not asked for anything but its lease for a second.
    pub async fn wait_quiet(&self) -> Result<()> {
        let long_ago = Timestamp::now() - jiff::SignedDuration::from_hours(1);
        wait::until("the operator is quiet", async || {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            let events = self.requests_of_operator(long_ago)?;
            let last = events
                .iter()
                .filter(|event| !audit::is_lease(event))
                .map(|event| event.answered)
                .max();
            Ok(last
                .is_none_or(|last| audit::seconds(last, Timestamp::now()) > 1.0)
                .then_some(()))
        })
        .await
    }

    /// The API server takes 2 s for the first object of a kind whose definition and admission
    /// policies it has just got. The warm-up is over before a measurement begins, because its cost
    /// says nothing about the operator.
    async fn warm_up(&self) -> Result<()> {
        self.rest
            .dry_run(&self.setup.domain.configs(), &self.setup.config)
            .await
            .map(drop)
    }

    /// Adds the parts of a cluster whose network Weft brings: nodes of the control plane, and
    /// Multus' definition for additional networks.
    async fn play_cluster(&self) -> Result<()> {
        self.control_plane
            .kubectl(&[
                "label",
                "nodes",
                "--all",
                "node-role.kubernetes.io/control-plane=",
            ])
            .await?;
        let definition = include_str!("../../components/network-attachment-definition/crd.yaml");
        self.control_plane
            .kubectl_with_input(&["apply", "-f", "-"], definition)
            .await
            .map(drop)
    }

    /// The Secrets that a PlacementAPI names.
    async fn make_secrets(&self) -> Result<()> {
        let namespace = self.setup.domain.served.unwrap_or_default();
        for (name, values) in [
            ("placement-secret", json!({"PlacementPassword": "p"})),
            (
                "placement-db",
                json!({"username": "placement", "password": "p"}),
            ),
        ] {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace}, "stringData": values
            });
            self.rest
                .apply(
                    &format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
                    &secret,
                )
                .await?;
        }
        Ok(())
    }

    /// Plays KubeMacPool's certificate manager: kwok runs no containers, and without this Secret
    /// KubeMacPool is never ready.
    async fn play_kubemacpool(&self) -> Result<()> {
        let (name, namespace) = ("kubemacpool-service", self.setup.domain.namespace);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": namespace
        },
            "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}});
        self.rest
            .apply(
                &format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
                &secret,
            )
            .await
            .map(drop)
    }
}

/// A running operator. Killed on drop, and by the kernel should this process be killed.
pub struct Operator {
    child: Child,
    log: PathBuf,
    pod: String,
}

impl Operator {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGTERM, and waits for the end.
    pub async fn terminate(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = wait::until("the operator ends", async || Ok(self.child.try_wait()?)).await?;
        if !status.success() {
            bail!("the operator ended with {status}: {}", self.last_words());
        }
        Ok(())
    }

    async fn is_ready(&mut self) -> Result<bool> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the operator ended with {status}: {}", self.last_words());
        }
        let Some(address) = self.address() else {
            return Ok(false);
        };
        let Ok(mut stream) = TcpStream::connect(address).await else {
            return Ok(false);
        };
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.split_whitespace().nth(1) == Some("200"))
    }

    /// Where it serves its probes, as it logs.
    fn address(&self) -> Option<SocketAddr> {
        self.log().lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line.pointer("/fields/address")
                .or_else(|| line.get("address"))?
                .as_str()?
                .parse()
                .ok()
        })
    }

    fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The environment of a container, with the references that the workload uses filled in.
fn environment(domain: &Domain, container: &Value) -> Result<BTreeMap<String, String>> {
    let variables = container["env"].as_array().into_iter().flatten();
    variables
        .map(|variable| {
            let value = match variable
                .pointer("/valueFrom/fieldRef/fieldPath")
                .and_then(Value::as_str)
            {
                None => variable["value"].as_str().unwrap_or_default(),
                Some("metadata.namespace") => domain.namespace,
                Some("metadata.name") => domain.operator,
                // Not known: each process is to wait for the end of the last one's lease.
                Some("metadata.uid") => "",
                Some(other) => bail!("the kubelet's part is not played for {other}"),
            };
            Ok((
                variable["name"].as_str().unwrap_or_default().to_owned(),
                value.to_owned(),
            ))
        })
        .collect()
}
