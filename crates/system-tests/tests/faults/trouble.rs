//! Kinds of trouble that people meet, and the output of `weft` about each of them, as a user reads
//! it: the object, the cause, and the way out.
//!
//! `trouble.txt` has the output. `WEFT_GENERATE=1` writes it again; read the
//! difference before you commit it.

use std::{collections::BTreeMap, fmt::Write, path::PathBuf, time::Duration};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{Pods, Stage, Stuck};

use crate::faults::{harness::*, user::*};

const ALL: &[&str] = &["--domains", "addons,cluster-network,node-network,placement"];

const ADDONS: &str = "{apiVersion: networkaddonsoperator.network.kubevirt.io/v1, kind: NetworkAddonsConfig, metadata: {name: cluster}, spec: {multus: {}, linuxBridge: {}, kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: '02:00:00:FF:FF:FF'}, imagePullPolicy: IfNotPresent}}";

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/faults/trouble.txt")
}

/// The output that `trouble.txt` has, by title.
struct Record {
    is_written: bool,
    expected: BTreeMap<String, String>,
    seen: String,
    titles: Vec<String>,
}

impl Record {
    fn read() -> Self {
        let is_written = std::env::var_os("WEFT_GENERATE").is_some_and(|value| value == "1");
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        let expected = text
            .split("\n### ")
            .skip(1)
            .map(|section| {
                let (title, output) = section.split_once('\n').unwrap();
                (title.to_owned(), output.trim_end().to_owned())
            })
            .collect();
        Self {
            is_written,
            expected,
            seen: "# The output of weft in kinds of trouble. crates/system-tests/tests/faults/trouble.rs makes it.\n"
                .to_owned(),
            titles: Vec::new(),
        }
    }

    /// Waits until the command says this about a trouble and its whole output is the recorded one.
    async fn shows(&mut self, cluster: &Cluster, title: &str, arguments: &[&str], cause: &str) {
        let kubeconfig = cluster.control_plane.kubeconfig().to_owned();
        self.shows_as(&kubeconfig, title, arguments, cause).await;
    }

    /// The same for the user of this kubeconfig.
    async fn shows_as(
        &mut self,
        kubeconfig: &std::path::Path,
        title: &str,
        arguments: &[&str],
        cause: &str,
    ) {
        let expected = self.expected.get(title).cloned();
        let is_written = self.is_written;
        assert!(
            is_written || expected.is_some(),
            "{title}: {} has no output of it",
            file().display()
        );
        let mut before = String::new();
        let output = wait_until(title, async || {
            let run = run(kubeconfig, arguments, "").await;
            let text = masked(&format!(
                "$ weft {}\n{}{}exit code {}",
                arguments.join(" "),
                run.stdout,
                run.stderr,
                run.code
            ));
            let is_right = match &expected {
                Some(expected) if !is_written => text == *expected,
                _ => std::mem::replace(&mut before, text.clone()) == text,
            };
            if is_right && text.contains(cause) {
                return Ok(text);
            }
            Err(format!("{text}\n--- expected: {cause}\n{expected:?}"))
        })
        .await;
        write!(self.seen, "\n### {title}\n{output}\n").unwrap();
        if self.is_written {
            std::fs::write(file(), &self.seen).unwrap();
        }
        self.titles.push(title.to_owned());
    }

    fn finish(self) {
        let unused: Vec<_> = self
            .expected
            .keys()
            .filter(|title| !self.titles.contains(title))
            .collect();
        assert!(
            self.is_written || unused.is_empty(),
            "these troubles are recorded and not tried: {unused:?}"
        );
        assert!(self.titles.len() >= 15, "{:?}", self.titles);
    }
}

/// The text without names and times that differ from run to run.
fn masked(text: &str) -> String {
    let masks = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"-operator_[0-9a-f-]{36}_[0-9a-f]+", "-operator_ID"),
        (
            r"\b(multus|kube-flannel-ds|bridge-marker|nmstate-handler|placement-db-sync|kube-cni-linux-bridge-plugin)-[a-z0-9]{5}\b",
            "$1-ID",
        ),
        (r"(pod \S+) on node-[12]", "$1 on NODE"),
        (r"\((version|image) [^)]*\)", "($1)"),
    ];
    masks
        .iter()
        .fold(text.to_owned(), |text, (pattern, replacement)| {
            Regex::new(pattern)
                .unwrap()
                .replace_all(&text, *replacement)
                .into_owned()
        })
}

const PROBLEMS: &[&str] = &["status", "--problems"];

/// Waits until there is no trouble any more.
async fn all_is_well(cluster: &Cluster, after: &str) {
    wait_until(
        &format!("all is well again after: {after}"),
        async || match weft(cluster, PROBLEMS).await {
            run if run.code == 0 && run.stdout.contains("no problems") => Ok(()),
            run => Err(run.stdout + &run.stderr),
        },
    )
    .await;
}

/// Writes a status, as the agent of a node does.
async fn says(cluster: &Cluster, kind: &str, name: &str, condition: &str, message: &str) {
    let status = json!({"conditions": [{
        "type": condition, "status": "True", "reason": "FailedToConfigure", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"
    }]});
    let patch = json!({"status": status}).to_string();
    cluster
        .kubectl(&[
            "patch",
            kind,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .await;
}

async fn namespace(cluster: &Cluster, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    cluster.apply(&object.to_string()).await;
}

fn placement_api(namespace: &str, name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec
    })
    .to_string()
}

async fn secret(cluster: &Cluster, namespace: &str, name: &str, key: &str, value: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace}, "stringData": {key: value}
    });
    cluster.apply(&secret.to_string()).await;
}

/// A cluster with all four domains, and two nodes whose agents the test plays.
async fn start() -> Cluster {
    Cluster::start(ClusterOptions {
        manifests: ALL,
        // The test takes a right away.
        may_be_forbidden: true,
        ..Default::default()
    })
    .await
}

#[tokio::test]
async fn weft_names_object_cause_and_way_out_of_each_trouble() {
    let mut record = Record::read();
    let cluster = start().await;
    before_there_is_an_operator(&cluster, &mut record).await;
    let operator = Operator::start_default(&cluster).await;
    namespace(&cluster, "openstack").await;
    addons(&cluster, &mut record).await;
    cluster_network(&cluster, &mut record).await;
    node_network(&cluster, &mut record).await;
    placement(&cluster, &mut record).await;
    of_the_installation(&cluster, operator, &mut record).await;
    record.finish();
}

async fn before_there_is_an_operator(cluster: &Cluster, record: &mut Record) {
    // The controller manager of a cluster with Flannel does so.
    for (node, cidr) in [("node-1", "10.244.0.0/24"), ("node-2", "10.244.1.0/24")] {
        let patch = json!({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}).to_string();
        cluster
            .kubectl(&["patch", "node", node, "-p", &patch])
            .await;
    }
    cluster.apply(ADDONS).await;
    let title = "The operator does not run";
    record
        .shows(
            cluster,
            title,
            PROBLEMS,
            "no leader: no operator is at work",
        )
        .await;
}

async fn addons(cluster: &Cluster, record: &mut Record) {
    let of_addons = &["status", "--problems", "--domains", "addons"][..];
    let title = "A Secret that a pod mounts does not exist";
    let cause = "waits for Secret cluster-network-addons/kubemacpool-service (does not exist)";
    record.shows(cluster, title, of_addons, cause).await;
    cluster.play_kubemacpool().await;
    all_is_well(cluster, title).await;

    for (title, pods, stuck, cause) in [
        (
            "An image does not exist",
            "multus",
            Stuck::ImagePullBackOff,
            "ImagePullBackOff",
        ),
        (
            "A container crashes",
            "bridge-marker",
            Stuck::CrashLoopBackOff,
            "CrashLoopBackOff",
        ),
    ] {
        let stage = Stage::stuck(Pods::named(pods), stuck);
        cluster.control_plane.set_stages(&[stage]).await.unwrap();
        record.shows(cluster, title, of_addons, cause).await;
        cluster.control_plane.set_stages(&[]).await.unwrap();
        all_is_well(cluster, title).await;
    }

    let title = "A quota leaves no room for pods";
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "quota",
            "no-pods",
            "--hard=pods=0",
        ])
        .await;
    wait_until("the quota counts", async || {
        let probe = [
            "-n",
            NAMESPACE,
            "run",
            "probe",
            "--image=a",
            "--dry-run=server",
        ];
        match cluster.control_plane.kubectl(&probe).await {
            Err(error) if error.to_string().contains("exceeded quota") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "pods", "-l", "app=multus"])
        .await;
    record
        .shows(cluster, title, of_addons, "exceeded quota: no-pods")
        .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "quota", "no-pods"])
        .await;
    all_is_well(cluster, title).await;

    let title = "The operator has lost a right";
    let role = "weft-operator-addons-operands";
    let role = cluster
        .kubectl(&["-n", NAMESPACE, "get", "role", role, "-o", "json"])
        .await;
    let mut less: Value = serde_json::from_str(&role).unwrap();
    for rule in less["rules"].as_array_mut().unwrap() {
        let resources = rule["resources"].as_array_mut();
        resources
            .into_iter()
            .for_each(|all| all.retain(|resource| resource != "daemonsets"));
    }
    cluster.apply(&less.to_string()).await;
    let user = cluster.operator_user();
    let may = [
        "auth",
        "can-i",
        "patch",
        "daemonsets.apps/multus",
        "-n",
        NAMESPACE,
        "--as",
        &user,
    ];
    wait_until("the right is gone", async || {
        let answer = cluster.control_plane.kubectl(&may).await;
        answer.err().map(drop).ok_or("not yet".to_owned())
    })
    .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "daemonset", "multus"])
        .await;
    record.shows(cluster, title, of_addons, "daemonsets").await;
    cluster.apply_manifests(ALL).await;
    all_is_well(cluster, title).await;

    let title = "An admission policy of the cluster refuses an object";
    let policy = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-multus}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [daemonsets]}]}
  validations: [{expression: \"object.metadata.name != 'multus'\", message: no Multus in this cluster}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-multus}
spec: {policyName: no-multus, validationActions: [Deny]}
";
    cluster.apply(policy).await;
    wait_until("the policy is in force", async || {
        let probe = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "multus", "namespace": "default"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
        let tried = cluster
            .control_plane
            .kubectl_with_input(
                &["create", "--dry-run=server", "-f", "-"],
                &probe.to_string(),
            )
            .await;
        match tried {
            Err(error) if error.to_string().contains("no Multus") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "daemonset", "multus"])
        .await;
    record
        .shows(cluster, title, of_addons, "no Multus in this cluster")
        .await;
    cluster
        .kubectl(&[
            "delete",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            "no-multus",
        ])
        .await;
    all_is_well(cluster, title).await;

    let title = "You paused the resource, and an object differs";
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"weft.network/pause": "true"}}}))
        .await;
    cluster
        .wait_condition("Paused", "True", "Annotated", "")
        .await;
    let edit = json!({"spec": {"template": {"spec": {"hostNetwork": false}}}});
    cluster
        .patch(kinds::DAEMON_SET, NAMESPACE, "multus", edit)
        .await;
    record.shows(cluster, title, of_addons, "hostNetwork").await;
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"weft.network/pause": null}}}))
        .await;
    all_is_well(cluster, title).await;

    let title = "The operator that Weft replaces runs";
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": OPERATOR, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"name": OPERATOR}}, "template": {
            "metadata": {"labels": {"name": OPERATOR}},
            "spec": {"containers": [{"name": OPERATOR,
                "image": "quay.io/kubevirt/cluster-network-addons-operator:v0.102.0"}]}}}});
    cluster.apply(&other.to_string()).await;
    record.shows(cluster, title, of_addons, "blocked").await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "deployment", OPERATOR])
        .await;
    all_is_well(cluster, title).await;

    let title = "A finalizer of another controller holds an object that you no longer want";
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    cluster
        .patch(kinds::DAEMON_SET, NAMESPACE, "bridge-marker", hold)
        .await;
    cluster
        .patch_resource(json!({"spec": {"linuxBridge": null}}))
        .await;
    record
        .shows(cluster, title, of_addons, "example.com/hold")
        .await;
    let free = json!({"metadata": {"finalizers": null}});
    cluster
        .patch(kinds::DAEMON_SET, NAMESPACE, "bridge-marker", free)
        .await;
    all_is_well(cluster, title).await;
}

async fn cluster_network(cluster: &Cluster, record: &mut Record) {
    let of_network = &["status", "--problems", "--domains", "cluster-network"][..];
    cluster.apply(&example("network-config-flannel.yaml")).await;
    all_is_well(cluster, "the network is installed").await;

    let title = "A change of the cluster's network is not safe";
    let patch = json!({"spec": {"serviceNetwork": "10.97.0.0/16"}});
    cluster
        .patch(kinds::NETWORK_CONFIG, "", "default", patch)
        .await;
    record
        .shows(cluster, title, of_network, "serviceNetwork")
        .await;
    let undo = json!({"spec": {"serviceNetwork": "10.96.0.0/16"}});
    cluster
        .patch(kinds::NETWORK_CONFIG, "", "default", undo)
        .await;
    all_is_well(cluster, title).await;
}

/// A policy with a bridge on every node.
fn bridge(name: &str, mtu: u32) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name}, "spec": {"maxUnavailable": 2, "desiredState": {"interfaces": [
            {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": mtu}
        ]}}
    })
    .to_string()
}

async fn node_network(cluster: &Cluster, record: &mut Record) {
    let of_nodes = &["status", "--problems", "--domains", "node-network"][..];
    let title = "There are policies, and no agent carries them out";
    cluster.apply(&bridge("br1", 1500)).await;
    record.shows(cluster, title, of_nodes, "no NMState").await;
    cluster.apply(&example("node-network/nmstate.yaml")).await;

    let title = "Nodes have not reported";
    record.shows(cluster, title, of_nodes, "not reported").await;
    for node in ["node-1", "node-2"] {
        let state = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState",
            "metadata": {"name": node}});
        cluster.apply(&state.to_string()).await;
    }

    let title = "A node cannot apply a policy";
    tokio::join!(
        answer(cluster, "node-1", "Available", "successfully reconciled"),
        answer(
            cluster,
            "node-2",
            "Failing",
            "no such port: eth7. The node has its former network again"
        ),
    );
    record.shows(cluster, title, of_nodes, "eth7").await;
    answer(cluster, "node-2", "Available", "successfully reconciled").await;
    all_is_well(cluster, title).await;

    let title = "A policy has a mistake";
    let mut wrong: Value = serde_json::from_str(&bridge("br2", 1500)).unwrap();
    wrong["spec"]["desiredState"]["interfaces"][0] = json!({"name": "br2", "typ": "linux-bridge"});
    cluster.apply(&wrong.to_string()).await;
    record.shows(cluster, title, of_nodes, "typ").await;
    cluster.kubectl(&["delete", "nncp", "br2"]).await;
    all_is_well(cluster, title).await;

    let title = "A policy selects no node";
    let mut lonely: Value = serde_json::from_str(&bridge("br2", 1500)).unwrap();
    lonely["spec"]["nodeSelector"] = json!({"rack": "z"});
    cluster.apply(&lonely.to_string()).await;
    let whole = &["status", "nncp/br2"][..];
    record
        .shows(cluster, title, whole, "for no node that runs an agent")
        .await;
    cluster.kubectl(&["delete", "nncp", "br2"]).await;

    let title = "The agent of a node cannot read its network";
    says(
        cluster,
        "nns",
        "node-2",
        "Failing",
        "cannot ask NetworkManager: the D-Bus socket /run/dbus/system_bus_socket is not there",
    )
    .await;
    record.shows(cluster, title, of_nodes, "D-Bus").await;
    says(cluster, "nns", "node-2", "Available", "").await;
    all_is_well(cluster, title).await;

    let title = "Two NMStates exist";
    let second = example("node-network/nmstate.yaml").replace("name: nmstate", "name: second");
    cluster.apply(&second).await;
    record.shows(cluster, title, of_nodes, "second").await;
    cluster.kubectl(&["delete", "nmstate", "second"]).await;
    all_is_well(cluster, title).await;
}

/// Answers for the agent of a node, once the operator has let it begin.
async fn answer(cluster: &Cluster, node: &str, condition: &str, message: &str) {
    let enactment = cluster.wait_granted(node, "br1").await;
    let name = format!("{node}.br1");
    let observed = json!({"status": {
        "observedGeneration": enactment["metadata"]["generation"], "policyGeneration": 1
    }});
    cluster
        .kubectl(&[
            "patch",
            "nnce",
            &name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &observed.to_string(),
        ])
        .await;
    says(cluster, "nnce", &name, condition, message).await;
}

async fn placement(cluster: &Cluster, record: &mut Record) {
    let of_placement = &["status", "--problems", "--domains", "placement"][..];
    let standalone = json!({"auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}}});

    let title = "A PlacementAPI is in a namespace that the operator does not serve";
    namespace(cluster, "lab").await;
    cluster
        .apply(&placement_api("lab", "placement", &standalone))
        .await;
    let named = &["status", "-n", "lab", "placementapi/placement"][..];
    record
        .shows(cluster, title, named, "namespace lab is not served")
        .await;
    cluster
        .kubectl(&["-n", "lab", "delete", "placementapi", "placement"])
        .await;

    let title = "A PlacementAPI names a Secret that does not exist";
    cluster
        .apply(&placement_api("openstack", "placement", &standalone))
        .await;
    record
        .shows(cluster, title, of_placement, "placement-db")
        .await;

    let title = "A Secret lacks the key that Weft reads";
    secret(
        cluster,
        "openstack",
        "placement-db",
        "uri",
        "mysql+pymysql://a:b@c/d",
    )
    .await;
    record.shows(cluster, title, of_placement, "url").await;

    let title = "The Job that prepares the database cannot start";
    let stage = Stage::stuck(Pods::named("db-sync"), Stuck::ImagePullBackOff);
    cluster.control_plane.set_stages(&[stage]).await.unwrap();
    secret(
        cluster,
        "openstack",
        "placement-db",
        "url",
        "mysql+pymysql://a:b@c/d",
    )
    .await;
    record
        .shows(cluster, title, of_placement, "ImagePullBackOff")
        .await;
    cluster.control_plane.set_stages(&[]).await.unwrap();
    // Kubernetes starts the pod of a Job again after a while, so another host ends the wait.
    secret(
        cluster,
        "openstack",
        "placement-db",
        "url",
        "mysql+pymysql://a:b@e/d",
    )
    .await;
    all_is_well(cluster, title).await;

    let title = "A network that the pods should have does not exist";
    let mut more = standalone.clone();
    more["networkAttachments"] = json!(["internalapi"]);
    cluster
        .apply(&placement_api("openstack", "placement", &more))
        .await;
    record
        .shows(cluster, title, of_placement, "internalapi")
        .await;
    cluster
        .kubectl(&["-n", "openstack", "delete", "placementapi", "placement"])
        .await;
    all_is_well(cluster, title).await;

    let title = "A PlacementAPI needs operators whose definitions the cluster lacks";
    let whole = json!({"databaseInstance": "openstack", "secret": "osp-secret"});
    cluster
        .apply(&placement_api("openstack", "placement", &whole))
        .await;
    secret(cluster, "openstack", "osp-secret", "PlacementPassword", "a").await;
    record.shows(cluster, title, of_placement, "MariaDB").await;
    cluster
        .kubectl(&["-n", "openstack", "delete", "placementapi", "placement"])
        .await;
    all_is_well(cluster, title).await;
}

async fn of_the_installation(cluster: &Cluster, operator: Operator, record: &mut Record) {
    let title = "You may not read what the command needs";
    cluster
        .kubectl(&["create", "serviceaccount", "stranger"])
        .await;
    let stranger = cluster
        .control_plane
        .service_account_kubeconfig("default", "stranger")
        .await
        .unwrap();
    record
        .shows_as(&stranger, title, PROBLEMS, "cannot list resource")
        .await;

    let title = "You may look, and not remove";
    let viewer = viewer(cluster).await;
    let uninstall = &["uninstall", "--yes", "--domains", "node-network"][..];
    record.shows_as(&viewer, title, uninstall, "cannot").await;

    let title = "A definition of Weft is gone";
    cluster.kubectl(&["delete", "nncp", "br1"]).await;
    let name = "nodenetworkconfigurationenactments.nmstate.io";
    let saved = cluster.kubectl(&["get", "crd", name, "-o", "json"]).await;
    cluster.kubectl(&["delete", "crd", name]).await;
    let cause = "the cluster does not know NodeNetworkConfigurationEnactment (nmstate.io/v1beta1)";
    record.shows(cluster, title, PROBLEMS, cause).await;
    let mut again: Value = serde_json::from_str(&saved).unwrap();
    again["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| ["name", "labels", "annotations"].contains(&field.as_str()));
    again.as_object_mut().unwrap().remove("status");
    cluster.apply(&again.to_string()).await;
    cluster.wait_established(name).await;
    all_is_well(cluster, title).await;

    cut_off(cluster, record).await;

    let title = "The operator has ended";
    operator.kill();
    let cause = "has not renewed its lease";
    record.shows(cluster, title, PROBLEMS, cause).await;

    let title = "The API server does not answer";
    let processes = cluster.control_plane.processes();
    let (_, pid) = processes
        .iter()
        .find(|(name, _)| name == "kube-apiserver")
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    record.shows(cluster, title, PROBLEMS, "127.0.0.1").await;
    kill_process(pid, Signal::CONT).unwrap();
}

/// Cuts one node off: nothing that its kubelet says arrives any more. Kubernetes needs 90
/// seconds to notice (`--node-monitor-grace-period` of the test environment).
async fn cut_off(cluster: &Cluster, record: &mut Record) {
    let title = "A node is cut off";
    let policy = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cut-off}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [leases]}
    - {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [nodes/status]}
  validations: [{expression: \"request.userInfo.username != 'kwok' || request.name != 'node-2'\"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: cut-off}
spec: {policyName: cut-off, validationActions: [Deny]}
";
    cluster.apply(policy).await;
    with_patience(
        Duration::from_secs(150),
        wait_until("node-2 is not Ready", async || {
            let node = cluster
                .get(kinds::NODE, "", "node-2")
                .await
                .unwrap_or_default();
            let ready = condition(&node["status"], "Ready");
            match ready["status"] == "Unknown" {
                true => Ok(()),
                false => Err(format!("{ready}")),
            }
        }),
    )
    .await;
    cluster.apply(&bridge("br1", 1500)).await;
    answer(cluster, "node-1", "Available", "successfully reconciled").await;
    let named = &["status", "nncp/br1"][..];
    record
        .shows(cluster, title, named, "node-2: the node is not Ready")
        .await;
    cluster
        .kubectl(&[
            "delete",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            "cut-off",
        ])
        .await;
    cluster.kubectl(&["delete", "nncp", "br1"]).await;
    // A kubelet that is back reports its pods. kwok ignored their changes while it had no Lease of
    // the node, and a new kwok looks at all of them. It may give a pod that is not Ready a second
    // address, which the API server refuses, so that the node's pods are replaced.
    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster
        .kubectl(&[
            "delete",
            "pods",
            "--all-namespaces",
            "--field-selector=spec.nodeName=node-2",
            "--force",
            "--grace-period=0",
        ])
        .await;
    with_patience(Duration::from_secs(120), all_is_well(cluster, title)).await;
}
