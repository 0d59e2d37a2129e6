//! The operator as a process.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    sync::atomic::Ordering,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use weft_testenv::{bound_command, proxy::Proxy, spawn_bound, usage};

use super::{
    PATIENCE, answer_within,
    cluster::{Cluster, OPERATOR, weft_binary},
    wait_until,
};

/// The shortest lease there is, in seconds: where a test waits again and again for an operator that
/// takes over.
pub const SHORT_LEASE: u64 = 3;

/// How an operator is started.
pub struct OperatorOptions<'a> {
    /// Its requests go through this proxy. Else straight to the API server.
    pub proxy: Option<&'a Proxy>,
    /// `--lease-seconds`, 10 by default, so that a busy machine costs no operator its lease. With
    /// [`SHORT_LEASE`] another one takes over sooner.
    pub lease_seconds: u64,
    /// `--pod-name`
    pub pod_name: &'a str,
    /// `--metrics-address`, `probes` by default: tests read metrics without ado.
    pub metrics: &'a str,
    /// Variables that the Deployment sets otherwise, as in a later version.
    pub environment: &'a [(&'a str, &'a str)],
    /// The program, for one of another version. The one under test by default.
    pub program: Option<&'a Path>,
}

impl Default for OperatorOptions<'_> {
    fn default() -> Self {
        Self {
            proxy: None,
            lease_seconds: 10,
            pod_name: OPERATOR,
            metrics: "probes",
            environment: &[],
            program: None,
        }
    }
}

/// A running operator. Killed on drop, and by the kernel should this process be killed.
pub struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    /// Starts the binary with the arguments and the environment of the shipped Deployment and the
    /// token of the shipped ServiceAccount. Returns at once: it is neither ready nor leading yet.
    pub async fn start(cluster: &Cluster, options: OperatorOptions<'_>) -> Self {
        let server = options
            .proxy
            .map_or(cluster.control_plane.url(), Proxy::url);
        let (namespace, account) = (cluster.operator_namespace(), &cluster.operator.name);
        let kubeconfig = cluster
            .control_plane
            .service_account_kubeconfig_via(server, namespace, account)
            .await
            .unwrap();
        let number = cluster.operators_started.fetch_add(1, Ordering::Relaxed) + 1;
        // In the folder of the control plane: it is kept if the test fails.
        let log = cluster
            .control_plane
            .dir()
            .join(format!("weft-{number}.log"));
        let output = File::create(&log).unwrap();
        let mut command = bound_command(&options.program.map_or_else(weft_binary, Path::to_owned));
        command
            .args(&cluster.operator_args)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(["--probe-address", "127.0.0.1:0", "--log-text"])
            .args(["--metrics-address", options.metrics])
            .args([
                "--lease-seconds",
                &options.lease_seconds.to_string(),
                "--pod-name",
                options.pod_name,
            ])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(&cluster.operator_env)
            // Each process counts as another pod.
            .env("POD_UID", format!("00000000-0000-4000-8000-{number:012}"))
            .envs(options.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        Self {
            child: spawn_bound(command).unwrap(),
            log,
        }
    }

    /// Straight to the API server.
    pub async fn start_default(cluster: &Cluster) -> Self {
        Self::start(cluster, OperatorOptions::default()).await
    }

    /// Straight to the API server, with a Lease of 15 s. A busy API server does not cost that, so
    /// commands find a leader at any time.
    pub async fn start_lasting(cluster: &Cluster) -> Self {
        let options = OperatorOptions {
            lease_seconds: 15,
            ..Default::default()
        };
        Self::start(cluster, options).await
    }

    /// Starts an operator that reaches the API server through this proxy.
    pub async fn start_via(cluster: &Cluster, proxy: &Proxy) -> Self {
        Self::start(
            cluster,
            OperatorOptions {
                proxy: Some(proxy),
                ..Default::default()
            },
        )
        .await
    }

    /// The same with a [`SHORT_LEASE`].
    pub async fn start_briefly_via(cluster: &Cluster, proxy: &Proxy) -> Self {
        Self::start(
            cluster,
            OperatorOptions {
                proxy: Some(proxy),
                lease_seconds: SHORT_LEASE,
                ..Default::default()
            },
        )
        .await
    }

    /// The process, for [`Victim::is`](weft_testenv::Victim::is).
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL, and the end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the exit status.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait().await
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Ends with the operator. It waits for as long as that takes, so that something else that is
    /// awaited at the same time has the limit.
    pub async fn end(&mut self) {
        while self.ended().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until it has ended.
    pub async fn wait(&mut self) -> ExitStatus {
        wait_until("the operator ends", async || {
            self.child
                .try_wait()
                .unwrap()
                .ok_or_else(|| "it runs".to_owned())
        })
        .await
    }

    /// Waits until it has logged a line with this text.
    pub async fn wait_logged(&self, text: &str) {
        wait_until(&format!("the operator logs {text:?}"), async || {
            if self.log().contains(text) {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .await;
    }

    /// Waits until it leads.
    pub async fn wait_leading(&self) {
        self.wait_logged(" leading ").await;
    }

    /// Where it serves its probes.
    pub async fn address(&self) -> SocketAddr {
        self.listening("address=").await
    }

    /// Where it serves metrics over HTTPS.
    pub async fn metrics_address(&self) -> SocketAddr {
        self.listening("metrics=").await
    }

    async fn listening(&self, field: &str) -> SocketAddr {
        wait_until("the operator says where it listens", async || {
            let log = self.log();
            let address = log
                .split(field)
                .nth(1)
                .and_then(|rest| rest.split_whitespace().next())
                .and_then(|text| text.parse().ok());
            address.ok_or(log)
        })
        .await
    }

    /// The sum of a metric over all its labels. 0 if it is not there.
    pub async fn metric(&self, name: &str) -> f64 {
        let (_, _, text) = self.http("/metrics").await;
        let samples = text.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Waits until the sum of a metric over all its labels has this value: the operator writes
    /// status first, and sets gauges at the end of the reconcile.
    pub async fn wait_metric(&self, name: &str, wanted: f64) {
        wait_until(&format!("{name} is {wanted}"), async || {
            let found = self.metric(name).await;
            (found == wanted).then_some(()).ok_or(found.to_string())
        })
        .await;
    }

    /// Waits until it has reconciled more often than `weft_passes_total` was before.
    pub async fn wait_passes_beyond(&self, before: f64) {
        wait_until("another reconcile", async || {
            let passes = self.metric("weft_passes_total").await;
            (passes > before)
                .then_some(())
                .ok_or(format!("{passes} reconciles, as before"))
        })
        .await;
    }

    /// `GET path` of its probe server: status, headers and body.
    pub async fn http(&self, path: &str) -> (u16, String, String) {
        self.http_with(path, "").await
    }

    /// The same with more headers, each with its line end.
    pub async fn http_with(&self, path: &str, headers: &str) -> (u16, String, String) {
        let address = self.address().await;
        let request = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = answer_within(PATIENCE, path, exchange).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (code, head.to_lowercase(), body.to_owned())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        usage::record("weft", self.child.id());
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!(
                "the last lines of {}:\n{}",
                self.log.display(),
                lines[lines.len().saturating_sub(25)..].join("\n")
            );
        }
    }
}
