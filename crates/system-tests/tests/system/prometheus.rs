//! A real Prometheus scrapes the operator of all domains over HTTPS, loads the rules that the cluster
//! has, and answers the queries of the dashboard.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use weft_plan::kinds;
use weft_testenv::{bound_command, spawn_bound};

use crate::system::{cluster_network, harness::*, metrics::ACCOUNTS, node_network, placement};

const ALL: [&str; 2] = ["--domains", "addons,cluster-network,node-network,placement"];
const MONITORS: &str = "servicemonitors.monitoring.coreos.com";
const RULES: &str = "prometheusrules.monitoring.coreos.com";

/// A running Prometheus. Killed on drop, and by the kernel should this process be killed.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it with this configuration in this folder.
    async fn start(folder: &Path, configuration: &Value) -> Self {
        fs::write(folder.join("prometheus.yaml"), configuration.to_string()).unwrap();
        let log = folder.join("prometheus.log");
        let output = File::create(&log).unwrap();
        let mut command = bound_command(&weft_testenv::prometheus("prometheus").unwrap());
        command
            .current_dir(folder)
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"])
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let child = spawn_bound(command).unwrap();
        let address = wait_until("Prometheus says where it listens", async || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let address = log
                .split("msg=\"Listening on\" address=")
                .nth(1)
                .and_then(|rest| rest.split_whitespace().next())
                .and_then(|text| text.parse().ok());
            address
                .filter(|_| log.contains("Server is ready"))
                .ok_or(log)
        })
        .await;
        Self { child, address }
    }

    /// The data of an answer of its API.
    async fn get(&self, path: &str) -> Result<Value, String> {
        let request = format!("GET /api/v1/{path} HTTP/1.0\r\n\r\n");
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        };
        let text = answer_within(PATIENCE, path, exchange).await;
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        if answer["status"] == "success" {
            Ok(answer["data"].clone())
        } else {
            Err(answer.to_string())
        }
    }

    /// The series that a query returns. An error if there is none.
    async fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let found = self.get(&format!("query?query={escaped}")).await?;
        match found["result"].as_array() {
            Some(series) if !series.is_empty() => Ok(series.clone()),
            _ => Err(format!("{query} returns nothing")),
        }
    }

    /// Waits until a query returns one series with this value.
    async fn wait_value(&self, query: &str, value: &str) {
        wait_until(&format!("{query} is {value}"), async || {
            let found = self.query(query).await?;
            match &found[..] {
                [one] if one["value"][1] == value => Ok(()),
                _ => Err(format!("{found:?}")),
            }
        })
        .await;
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the rules of all PrometheusRules of the cluster into this folder, and returns the names of
/// the files.
async fn rules(cluster: &Cluster, folder: &Path) -> Vec<String> {
    let list = cluster
        .kubectl(&["get", "prometheusrules", "-A", "-o", "json"])
        .await;
    let list: Value = serde_json::from_str(&list).unwrap();
    let mut files = Vec::new();
    for rule in list["items"].as_array().unwrap() {
        let file = format!("{}.yaml", rule["metadata"]["name"].as_str().unwrap());
        fs::write(folder.join(&file), rule["spec"].to_string()).unwrap();
        files.push(file);
    }
    files
}

/// A job of Prometheus with the settings of the ServiceMonitor of the cluster. `token` is the file
/// of the token.
fn job(name: &str, monitor: &Value, operator: SocketAddr, token: Option<&str>) -> Value {
    let endpoint = &monitor["spec"]["endpoints"][0];
    let mut job = json!({
        "job_name": name,
        "scheme": endpoint["scheme"],
        "honor_labels": endpoint["honorLabels"],
        "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
        "static_configs": [{
            "targets": [operator.to_string()],
            // Prometheus Operator adds these to a target.
            "labels": {
                "namespace": monitor["metadata"]["namespace"],
                "service": monitor["metadata"]["name"],
                "pod": "weft-operator-1"
            }
        }]
    });
    if let Some(token) = token {
        job["authorization"] = json!({"credentials_file": token});
    }
    job
}

/// Writes what an agent reports about its node.
async fn report(cluster: &Cluster, node: &str) {
    cluster
        .apply(
            &json!({
                "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkState", "metadata": {"name": node}
            })
            .to_string(),
        )
        .await;
    let status = json!({"status": {
        "lastSuccessfulUpdateTime": jiff::Timestamp::now().to_string(),
        "currentState": {"interfaces": [{"name": "eth0", "type": "ethernet"}]},
        "conditions": [{"type": "Available", "status": "True"}, {"type": "Ready", "status": "True"}]
    }});
    let status = status.to_string();
    let patch = ["patch", "nns", node, "--subresource=status", "--type=merge"];
    cluster
        .kubectl(&[&patch[..], &["-p", &status]].concat())
        .await;
}

#[tokio::test]
async fn prometheus_scrapes_loads_the_rules_and_answers_the_dashboard() {
    let cluster = Cluster::start(ClusterOptions {
        manifests: &ALL,
        ..Default::default()
    })
    .await;
    cluster.define(&[MONITORS, RULES]).await;
    cluster
        .apply_manifests(&[&ALL[..], &["--monitoring"]].concat())
        .await;
    cluster.apply(ACCOUNTS).await;
    let options = OperatorOptions {
        metrics: "127.0.0.1:0",
        ..Default::default()
    };
    let operator = Operator::start(&cluster, options).await;

    // A resource of each domain. The PlacementAPI lacks its database.
    let addons = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": {"linuxBridge": {}}
    });
    cluster.apply(&addons.to_string()).await;
    cluster.apply(&cluster_network::minimal()).await;
    cluster
        .apply(&node_network::nmstate("nmstate", &json!({})))
        .await;
    cluster
        .apply(&placement::placement_api(
            "placement",
            &placement::standalone(),
        ))
        .await;

    let folder = tempfile::tempdir().unwrap();
    for account in ["reader", "stranger"] {
        let token = cluster.kubectl(&["create", "token", account]).await;
        fs::write(folder.path().join(account), token.trim()).unwrap();
    }
    let name = "weft-operator-metrics";
    let monitor = cluster
        .get(kinds::SERVICE_MONITOR, "weft-system", name)
        .await
        .unwrap();
    let at = operator.metrics_address().await;
    let jobs = [
        job("reader", &monitor, at, Some("reader")),
        job("stranger", &monitor, at, Some("stranger")),
        job("nobody", &monitor, at, None),
    ];
    let files = rules(&cluster, folder.path()).await;
    assert_eq!(files, ["weft-operator-rules.yaml"]);
    let configuration = json!({
        "global": {"scrape_interval": "5s", "scrape_timeout": "5s", "evaluation_interval": "1s"},
        "rule_files": files,
        "scrape_configs": jobs
    });
    let prometheus = Prometheus::start(folder.path(), &configuration).await;

    // Prometheus reads with the token of an authorised account, and with no other.
    for (job, health, error) in [
        ("reader", "up", ""),
        ("stranger", "down", "403 Forbidden"),
        ("nobody", "down", "401 Unauthorized"),
    ] {
        wait_until(&format!("the target of {job} is {health}"), async || {
            let targets = prometheus.get("targets").await?;
            let targets = targets["activeTargets"].as_array().unwrap();
            let target = targets
                .iter()
                .find(|target| target["labels"]["job"] == job)
                .ok_or("Prometheus does not know the target yet")?;
            let why = target["lastError"].as_str().unwrap();
            if target["health"] == health
                && why.contains(error)
                && why.is_empty() == error.is_empty()
            {
                Ok(())
            } else {
                Err(target.to_string())
            }
        })
        .await;
    }

    // The rules are evaluated without an error. An alert names the resource and its own namespace.
    wait_until("all rules are evaluated", async || {
        let groups = prometheus.get("rules").await?;
        let groups = groups["groups"].as_array().unwrap();
        let rules: Vec<_> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap())
            .collect();
        let bad = rules.iter().find(|rule| rule["health"] != "ok");
        match bad {
            None if rules.len() > 10 => Ok(()),
            other => Err(format!("{} rules, {other:?}", rules.len())),
        }
    })
    .await;
    let not_ready = "ALERTS{alertname=\"WeftResourceNotReady\",kind=\"PlacementAPI\"}";
    wait_until("the alert about the PlacementAPI is pending", async || {
        let found = prometheus.query(not_ready).await?;
        let labels = &found[0]["metric"];
        let right = labels["alertstate"] == "pending"
            && labels["namespace"] == placement::NAMESPACE
            && labels["name"] == "placement"
            && labels["domain"] == "placement";
        if right && found.len() == 1 {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;

    // All becomes well. Agents run, and report.
    placement::database(&cluster, "p").await;
    for node in ["node-1", "node-2"] {
        report(&cluster, node).await;
    }
    for kind in [
        "NetworkAddonsConfig",
        "NetworkConfig",
        "NMState",
        "PlacementAPI",
    ] {
        let query = |gauge: &str| format!("weft_resource_{gauge}{{kind=\"{kind}\"}}");
        prometheus.wait_value(&query("ready"), "1").await;
        prometheus.wait_value(&query("stalled"), "0").await;
    }
    prometheus
        .wait_value("sum(weft_resource_ready{kind=\"NodeNetworkState\"})", "2")
        .await;
    prometheus.wait_value("sum(weft_agent_ready)", "2").await;
    prometheus
        .wait_value("count(weft_agent_reported_timestamp_seconds)", "2")
        .await;
    cluster
        .apply(
            "{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, \
             spec: {desiredState: {interfaces: [{name: br1, type: linux-bridge, state: up}]}}}",
        )
        .await;
    prometheus
        .wait_value(
            "weft_resource_ready{kind=\"NodeNetworkConfigurationPolicy\",name=\"br1\"}",
            "0",
        )
        .await;

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut queries = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"]
                .as_str()
                .unwrap()
                .replace("$__rate_interval", "30s")
                .replace("$domain", ".+");
            assert!(!query.contains('$'), "{}: {query}", panel["title"]);
            wait_until(&format!("{}: {query}", panel["title"]), async || {
                prometheus.query(&query).await
            })
            .await;
            queries += 1;
        }
    }
    assert!(queries > 15, "{queries}");
}
