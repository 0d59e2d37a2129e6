//! Where a workload stands, and why, from the workload and its pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{CniReport, Live, ObjectKey, kinds, text};

/// How long a pod may be in trouble before its workload counts as stuck.
pub const DEADLINE: SignedDuration = SignedDuration::from_secs(120);

/// Where a workload stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Every pod that should run is the current one and ready.
    Ready,
    /// On its way. The message says how far, and what the pods say.
    Progressing {
        /// For people, for example
        /// `awaiting 1 node (2 of 3 ready): pod x on node-2: ImagePullBackOff`.
        message: String,
        /// When this turns into [`Rollout::Stuck`] if nothing changes.
        deadline: Option<Timestamp>,
    },
    /// A pod's own trouble has lasted past the [`DEADLINE`].
    Stuck {
        /// The reason in the words of kubelet or scheduler, for example `ImagePullBackOff`,
        /// `CrashLoopBackOff`, `Unschedulable`.
        cause: String,
        /// For people.
        message: String,
    },
}

/// The part of a pod that a rollout needs. The operator keeps nothing else of pods in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// The DaemonSet or Deployment that made it, by its owner references, whether it still exists
    /// or not.
    pub workload: Option<ObjectKey>,
    /// Where it runs, once scheduled.
    pub node: Option<String>,
    /// Since when it is not ready: when its condition `Ready` last changed, else
    /// `metadata.creationTimestamp`.
    pub since: Option<Timestamp>,
    /// True if the pod is being deleted.
    pub deleting: bool,
    /// The reported reason why the pod is not ready.
    pub trouble: Option<Trouble>,
    /// True while the kubelet prepares volumes and network, before it starts the first container. It
    /// reports in events alone what holds it up: see [`held_up`].
    pub is_starting: bool,
    /// The pod's report about the network of its node. (Boxed: few pods do, and there may be many.)
    pub cni_report: Option<Box<CniReport>>,
}

/// The reason why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason in the words of kubelet or scheduler.
    pub reason: String,
    /// Their words, one line.
    pub message: String,
}

impl PodView {
    /// The view of a pod as the API server returns it.
    pub fn of(pod: &Value) -> Option<Self> {
        let live = Live::of(pod);
        let (uid, namespace, name) = (live.uid(), live.namespace(), live.name());
        if [uid, namespace, name].contains(&"") {
            return None;
        }
        Some(Self {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels: live
                .labels()
                .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                .collect(),
            workload: workload_of(live),
            node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
            since: not_ready_since(pod),
            deleting: live.is_being_deleted(),
            trouble: trouble(pod),
            is_starting: is_starting(pod),
            cni_report: CniReport::of_pod(pod).map(Box::new),
        })
    }

    /// The pod and its node, for people: `pod multus-x2k8p on node-2`.
    pub fn human(&self) -> String {
        let node = self.node.as_deref().map(|node| format!(" on {node}"));
        format!("pod {}{}", self.name, node.unwrap_or_default())
    }

    /// The same pod with another trouble, that of its events.
    #[must_use]
    pub fn with_trouble(&self, trouble: Trouble) -> Self {
        Self {
            trouble: Some(trouble),
            ..self.clone()
        }
    }
}

/// A Deployment makes pods by a ReplicaSet, which it names after itself and a hash.
fn workload_of(pod: Live) -> Option<ObjectKey> {
    let owner = pod.owners().find(|owner| owner["controller"] == true)?;
    let (namespace, name) = (pod.stated_namespace()?, owner["name"].as_str()?);
    match owner["kind"].as_str()? {
        "DaemonSet" => Some(ObjectKey::new(kinds::DAEMON_SET, namespace, name)),
        "ReplicaSet" => Some(ObjectKey::new(
            kinds::DEPLOYMENT,
            namespace,
            name.rsplit_once('-')?.0,
        )),
        _ => None,
    }
}

/// A pod that has run for days has been in trouble only since it stopped to be ready.
fn not_ready_since(pod: &Value) -> Option<Timestamp> {
    let pod = Live::of(pod);
    let changed = pod
        .condition("Ready")
        .and_then(|ready| text(ready, "lastTransitionTime").parse().ok());
    changed.or_else(|| pod.created()?.parse().ok())
}

/// Reasons of a waiting container that are part of every start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Returns the statuses of the containers of a pod, in the order in which they start.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(move |list| pod["status"][list].as_array().into_iter().flatten())
}

fn is_starting(pod: &Value) -> bool {
    // True once volumes and network are there. A kubelet before Kubernetes 1.29 sets it only with a
    // feature gate, and some set it only after they have pulled the images.
    let prepared = Live::of(pod).condition("PodReadyToStartContainers");
    let prepared = prepared.map(|condition| text(condition, "status"));
    // The kubelet sets it to False, too, when a pod has lost its sandbox, for example by a reboot of
    // its node (KEP-3085). The containers of such a pod have run before, in a former sandbox, and a
    // pod that has ended needs none.
    let has_ended = ["Failed", "Succeeded"].contains(&text(&pod["status"], "phase"));
    let lost_sandbox = prepared == Some("False") && !has_ended;
    let has_not_run = |container: &Value| {
        let state = &container["state"];
        let waits = STARTING.contains(&text(&state["waiting"], "reason"));
        match lost_sandbox {
            true => waits || !state["terminated"].is_null(),
            false => waits && container["lastState"]["terminated"].is_null(),
        }
    };
    // The kubelet has seen a pod once it reports about its containers.
    let is_seen = containers(pod).next().is_some();
    is_seen && prepared != Some("True") && containers(pod).all(has_not_run)
}

fn trouble(pod: &Value) -> Option<Trouble> {
    let status = &pod["status"];
    for container in containers(pod) {
        let name = text(container, "name");
        let last = &container["lastState"]["terminated"];
        let waiting = &container["state"]["waiting"];
        let reason = waiting["reason"]
            .as_str()
            .filter(|reason| !STARTING.contains(reason));
        // Between two crashes a container runs for some seconds, or has just ended.
        let ended = &container["state"]["terminated"];
        let crashed = [ended, last].into_iter().find(|ended| has_failed(ended));
        let (reason, crash) = match (reason, crashed) {
            (Some(reason), _) => (reason, last),
            (None, Some(crash)) if container["ready"] != true => {
                (crash["reason"].as_str().unwrap_or("Error"), crash)
            }
            _ => continue,
        };
        let mut message = format!("container {name}");
        if let Some(detail) = waiting["message"]
            .as_str()
            .filter(|detail| !detail.is_empty())
        {
            message = format!("{message}: {}", one_line(detail));
        }
        if let Some(code) = crash["exitCode"].as_i64() {
            let detail = crash["message"]
                .as_str()
                .or(crash["reason"].as_str())
                .unwrap_or_default();
            let told = CniReport::parse(detail).and_then(|told| told.error);
            let detail = told.map_or_else(|| last_log(detail), |error| one_line(&error));
            message = format!("{message}; last exit code {code} {detail}")
                .trim_end()
                .to_owned();
        }
        return Some(Trouble {
            reason: reason.to_owned(),
            message,
        });
    }
    let unscheduled = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["type"] == "PodScheduled" && c["status"] == "False")?;
    Some(Trouble {
        reason: unscheduled["reason"]
            .as_str()
            .unwrap_or("Unschedulable")
            .to_owned(),
        message: one_line(text(unscheduled, "message")),
    })
}

/// Reports whether a container has ended with an error. An init container that is done has not.
fn has_failed(ended: &Value) -> bool {
    ended["exitCode"].as_i64().is_some_and(|code| code != 0)
}

/// Returns the container that failed in a pod that is not restarted, and the end of its log.
pub fn last_words(pod: &Value) -> Option<Trouble> {
    let status = &pod["status"];
    if status["phase"] != "Failed" {
        return None;
    }
    let mut ended = containers(pod).filter_map(|container| {
        Some((
            container,
            container["state"]["terminated"]["exitCode"].as_i64()?,
        ))
    });
    let Some((container, code)) = ended.find(|(_, code)| *code != 0) else {
        // The node is gone, or needed its memory: then the pod has words of its own.
        return Some(Trouble {
            reason: one_line(text(status, "reason")),
            message: one_line(text(status, "message")),
        });
    };
    let terminated = &container["state"]["terminated"];
    let message = format!(
        "container {}: exit code {code} {}",
        text(container, "name"),
        last_log(text(terminated, "message"))
    );
    Some(Trouble {
        reason: one_line(text(terminated, "reason")),
        message: message.trim_end().to_owned(),
    })
}

/// How many characters of one text a message shows.
const TOLD: usize = 300;

fn one_line(text: &str) -> String {
    let text = words(text);
    match text.char_indices().nth(TOLD) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// The same of what a container has left, mostly the end of its log (`FallbackToLogsOnError`): what
/// it failed for stands last.
fn end_of(text: &str) -> String {
    let text = words(text);
    match text.char_indices().rev().nth(TOLD) {
        Some((cut, first)) => format!("…{}", &text[cut + first.len_utf8()..]),
        None => text,
    }
}

/// Returns the end of a container's log (`FallbackToLogsOnError`), without the lines after the cause:
/// a program in Go prints its stacks and registers after the line that says why it dies.
fn last_log(text: &str) -> String {
    let is_cause = |line: &str| {
        let line = line.trim_start();
        // The header of klog is a letter, month and day: `F0131 `.
        let is_fatal = line.strip_prefix('F').is_some_and(|rest| {
            rest.len() > 4 && rest.bytes().take(4).all(|byte| byte.is_ascii_digit())
        });
        line.starts_with("panic: ") || line.starts_with("fatal error: ") || is_fatal
    };
    let lines: Vec<_> = text.lines().collect();
    let cause = lines.iter().position(|line| is_cause(line));
    match cause.map(|at| (lines[at], &lines[at + 1..])) {
        Some((cause, after)) if after.iter().any(|line| is_of_a_stack(line)) => one_line(cause),
        _ => {
            let rest: Vec<_> = lines
                .into_iter()
                .filter(|line| !is_of_a_stack(line))
                .collect();
            end_of(&rest.join(" "))
        }
    }
}

/// Reports whether a line is one of the stacks or registers of a program in Go.
fn is_of_a_stack(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_register = matches!(
        (words.next(), words.next(), words.next()),
        (Some(_), Some(value), None) if value.starts_with("0x")
    );
    let is_word = !line.contains(char::is_whitespace) && line.contains('.');
    let has_arguments = line.contains("(0x") || line.ends_with("(...)");
    let is_call = line.ends_with(')') && (has_arguments || is_word && line.ends_with("()"));
    is_register
        || is_call
        || line.starts_with("goroutine ")
        || line.starts_with("created by ")
        || line.starts_with('\t') && line.contains(".go:")
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where a DaemonSet, a Deployment or a resource of another domain stands.
///
/// `missing` are Secrets and ConfigMaps that the pod template names and that do not exist: without
/// them it is not ready, whatever its pods say. `now` decides only between progressing and stuck.
pub fn rollout<'a>(
    workload: &Value,
    pods: impl IntoIterator<Item = &'a PodView>,
    missing: &[ObjectKey],
    now: Timestamp,
) -> Rollout {
    if workload["kind"] == kinds::NMSTATE.kind {
        return of_resource(workload, now);
    }
    let Some(behind) = behind(workload).or_else(|| missing_inputs(missing)) else {
        return Rollout::Ready;
    };
    let troubled = pods
        .into_iter()
        .filter(|pod| !pod.deleting && belongs(pod, workload))
        .filter_map(|pod| Some((pod, pod.trouble.as_ref()?)));
    let oldest = troubled.min_by_key(|(pod, _)| age(pod));
    let (who, trouble, since) = match (oldest, not_created(workload)) {
        (Some((pod, trouble)), _) => {
            let who = format!("{}: ", pod.human());
            (who, trouble.clone(), pod.since)
        }
        (None, Some((trouble, since))) => (String::new(), trouble, since),
        (None, None) => {
            return Rollout::Progressing {
                message: behind,
                deadline: None,
            };
        }
    };
    let message = format!("{behind}: {who}{}: {}", trouble.reason, trouble.message);
    let deadline = since.map(|since| since.saturating_add(DEADLINE).unwrap_or(Timestamp::MAX));
    match deadline {
        Some(deadline) if deadline <= now => Rollout::Stuck {
            cause: trouble.reason,
            message,
        },
        deadline => Rollout::Progressing { message, deadline },
    }
}

/// Orders pods in trouble. The oldest trouble reaches the deadline first, and is a stable choice.
fn age(pod: &PodView) -> (Option<Timestamp>, String) {
    (pod.since, pod.name.clone())
}

/// Returns the pod whose events may have the cause why a workload is not ready: its oldest pod that
/// is not ready, if that one is starting. `None` if the workload is ready, or another cause is older.
pub fn unexplained<'a>(
    workload: &Value,
    pods: impl IntoIterator<Item = &'a PodView>,
) -> Option<&'a PodView> {
    behind(workload)?;
    pods.into_iter()
        .filter(|pod| !pod.deleting && (pod.is_starting || pod.trouble.is_some()))
        .filter(|pod| belongs(pod, workload))
        .min_by_key(|pod| age(pod))
        .filter(|pod| pod.is_starting)
}

/// Returns these pods, and instead of each one that is among `explained` the view there, which has
/// its trouble by its events.
pub fn with_causes<'a>(
    pods: impl IntoIterator<Item = &'a PodView>,
    explained: &'a [PodView],
) -> impl Iterator<Item = &'a PodView> {
    pods.into_iter()
        .filter(move |pod| explained.iter().all(|other| other.uid != pod.uid))
        .chain(explained)
}

/// Reasons of events about a pod without which its containers cannot start
/// (`pkg/kubelet/events/event.go` of Kubernetes). Other warnings, such as `DNSConfigForming`, do not
/// hold up a pod.
const HOLDS_UP: [&str; 6] = [
    "FailedAttachVolume",
    "FailedMount",
    "FailedMapVolume",
    "NetworkNotReady",
    "FailedCreatePodContainer",
    "FailedCreatePodSandBox",
];

/// Reasons of events about a pod that come once its volumes and its network are there. A failure
/// before them is over: a first attempt often fails, and a large image takes minutes.
const GOES_ON: [&str; 2] = ["Pulling", "Pulled"];

/// Returns the reason why a pod does not start, by the latest of the events about it. `None` if no
/// event has one, or the pod has got further since.
pub fn held_up(events: &[Value]) -> Option<Trouble> {
    let is_of_interest = |event: &&Value| {
        let reason = text(event, "reason");
        HOLDS_UP.contains(&reason) || GOES_ON.contains(&reason)
    };
    let latest = events
        .iter()
        .filter(is_of_interest)
        .max_by(|a, b| text(a, "lastTimestamp").cmp(text(b, "lastTimestamp")))?;
    let reason = text(latest, "reason");
    HOLDS_UP.contains(&reason).then(|| Trouble {
        reason: reason.to_owned(),
        message: one_line(event_message(latest)),
    })
}

/// Returns the reason why a Deployment cannot create its pods, such as a quota, and since when, by
/// its condition `ReplicaFailure`. A DaemonSet has no such condition: see [`lacks_pods`].
fn not_created(workload: &Value) -> Option<(Trouble, Option<Timestamp>)> {
    let failure = Live::of(workload).condition("ReplicaFailure")?;
    (failure["status"] == "True").then(|| {
        let trouble = Trouble {
            reason: one_line(text(failure, "reason")),
            message: one_line(text(failure, "message")),
        };
        (trouble, text(failure, "lastTransitionTime").parse().ok())
    })
}

/// Reports whether a DaemonSet has fewer pods than nodes that it is for. Kubernetes says why only in
/// events.
pub fn lacks_pods<'a>(daemon_set: &Value, pods: impl IntoIterator<Item = &'a PodView>) -> bool {
    let desired = daemon_set["status"]["desiredNumberScheduled"].as_u64();
    let there = pods
        .into_iter()
        .filter(|pod| !pod.deleting && belongs(pod, daemon_set));
    let there = u64::try_from(there.count()).unwrap_or(u64::MAX);
    daemon_set["kind"] == kinds::DAEMON_SET.kind && there < desired.unwrap_or_default()
}

/// Returns the message of an event.
fn event_message(event: &Value) -> &str {
    // Kubernetes puts this before the message when it has counted many such events as one.
    const COMBINED: &str = "(combined from similar events): ";
    let said = text(event, "message");
    said.strip_prefix(COMBINED).unwrap_or(said)
}

/// Adds to a rollout what the event `FailedCreate` says about the pods that are not there.
pub fn with_event(rollout: Rollout, event: &Value) -> Rollout {
    match rollout {
        Rollout::Progressing { message, deadline } => Rollout::Progressing {
            message: format!(
                "{message}: {}: {}",
                one_line(text(event, "reason")),
                one_line(event_message(event))
            ),
            deadline,
        },
        rollout => rollout,
    }
}

/// Where a resource stands that another domain of Weft serves, as its status says of its current
/// generation.
fn of_resource(resource: &Value, now: Timestamp) -> Rollout {
    let generation = Live::of(resource).generation();
    let is_current = |condition: &&Value| {
        condition["observedGeneration"]
            .as_i64()
            .is_some_and(|observed| observed >= generation)
    };
    let conditions = resource["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_current);
    let is_true = |name: &str| {
        conditions
            .clone()
            .find(|condition| condition["type"] == name && condition["status"] == "True")
    };
    if let Some(degraded) = is_true("Degraded") {
        return Rollout::Stuck {
            cause: one_line(text(degraded, "reason")),
            message: one_line(text(degraded, "message")),
        };
    }
    if is_true("Available").is_some() {
        return Rollout::Ready;
    }
    if let Some(progressing) = is_true("Progressing") {
        return Rollout::Progressing {
            message: one_line(text(progressing, "message")),
            deadline: None,
        };
    }
    let message = "no operator has said anything about it yet: is one installed that serves it, and does it run?".to_owned();
    let created: Option<Timestamp> = Live::of(resource)
        .created()
        .and_then(|text| text.parse().ok());
    match created.map(|created| created.saturating_add(DEADLINE).unwrap_or(Timestamp::MAX)) {
        Some(deadline) if deadline <= now => Rollout::Stuck {
            cause: "NotServed".to_owned(),
            message,
        },
        deadline => Rollout::Progressing { message, deadline },
    }
}

fn missing_inputs(missing: &[ObjectKey]) -> Option<String> {
    let names: Vec<_> = missing.iter().map(ObjectKey::human).collect();
    (!names.is_empty()).then(|| format!("waits for {} (does not exist)", names.join(", ")))
}

/// Returns the part that is missing in the workload's own status, in the words of the original
/// operator. `None` if nothing is missing.
fn behind(workload: &Value) -> Option<String> {
    let (status, generation) = (&workload["status"], Live::of(workload).generation());
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    let observed = count("observedGeneration");
    if observed < generation {
        return Some(format!(
            "update is being processed (generation {generation}, observed generation {observed})"
        ));
    }
    let (desired, updated, available) = if workload["kind"] == "DaemonSet" {
        (
            count("desiredNumberScheduled"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
        )
    } else {
        (
            workload["spec"]["replicas"].as_i64().unwrap_or(1),
            count("updatedReplicas"),
            count("availableReplicas"),
        )
    };
    // Pods of the previous template that still run, beyond what is desired.
    let old = if workload["kind"] == "Deployment" {
        count("replicas") - updated
    } else {
        0
    };
    if updated < desired {
        Some(format!(
            "update is rolling out ({updated} out of {desired} updated)"
        ))
    } else if available < desired {
        let unit = if workload["kind"] == "DaemonSet" {
            "nodes"
        } else {
            "replicas"
        };
        Some(format!(
            "is not available (awaiting {} {unit})",
            desired - available
        ))
    } else if old > 0 {
        Some(format!(
            "update is rolling out ({old} old replicas still run)"
        ))
    } else {
        None
    }
}

/// Reports whether the pod matches the workload's selector.
fn belongs(pod: &PodView, workload: &Value) -> bool {
    let namespace = Live::of(workload).namespace();
    let labels = workload
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    pod.namespace == namespace
        && labels.is_some_and(|labels| {
            !labels.is_empty()
                && labels
                    .iter()
                    .all(|(k, v)| pod.labels.get(k).map(String::as_str) == v.as_str())
        })
}

/// The Secrets and ConfigMaps of its own namespace that a workload's pods cannot start without.
pub fn inputs(workload: &Value) -> Vec<ObjectKey> {
    use crate::kinds::{CONFIG_MAP, SECRET};
    let namespace = Live::of(workload).namespace();
    let pod = &workload["spec"]["template"]["spec"];
    let needed = |reference: &Value| reference["optional"].as_bool() != Some(true);
    let mut names: Vec<(crate::Kind, String)> = Vec::new();
    let mut add = |kind, reference: &Value, field: &str| {
        if let Some(name) = reference[field].as_str().filter(|_| needed(reference)) {
            names.push((kind, name.to_owned()));
        }
    };
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        add(SECRET, &volume["secret"], "secretName");
        add(CONFIG_MAP, &volume["configMap"], "name");
    }
    for container in ["initContainers", "containers"]
        .iter()
        .flat_map(|list| pod[*list].as_array().into_iter().flatten())
    {
        for source in container["envFrom"].as_array().into_iter().flatten() {
            add(SECRET, &source["secretRef"], "name");
            add(CONFIG_MAP, &source["configMapRef"], "name");
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            add(SECRET, &variable["valueFrom"]["secretKeyRef"], "name");
            add(
                CONFIG_MAP,
                &variable["valueFrom"]["configMapKeyRef"],
                "name",
            );
        }
    }
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|(kind, name)| ObjectKey::new(kind, namespace, &name))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn daemon_set(status: Value) -> Value {
        json!({"kind": "DaemonSet", "metadata": {"namespace": "n", "name": "d", "generation": 2},
               "spec": {"selector": {"matchLabels": {"app": "d"}}}, "status": status})
    }

    fn pod(status: Value) -> PodView {
        PodView::of(&json!({"metadata": {
            "uid": "u", "namespace": "n", "name": "d-1", "labels": {"app": "d"},
            "creationTimestamp": "2026-01-01T00:00:00Z"
        },
                            "spec": {"nodeName": "node-2"}, "status": status}))
        .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const READY: &str = r#"{"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}"#;

    #[test]
    fn a_pod_knows_its_workload() {
        let of = |kind: &str, name: &str| {
            let owner = json!({"kind": kind, "name": name, "controller": true});
            let pod = json!({
                "metadata": {
                    "uid": "u", "namespace": "n", "name": "p",
                    "ownerReferences": [{"kind": "X", "name": "x"}, owner]
                }
            });
            PodView::of(&pod).unwrap().workload
        };
        assert_eq!(
            of("DaemonSet", "a-b"),
            Some(ObjectKey::new(kinds::DAEMON_SET, "n", "a-b"))
        );
        assert_eq!(
            of("ReplicaSet", "a-b-5d8f"),
            Some(ObjectKey::new(kinds::DEPLOYMENT, "n", "a-b"))
        );
        assert_eq!(of("Job", "a-b"), None);
        assert_eq!(pod(json!({})).workload, None);
    }

    #[test]
    fn of_a_long_log_the_end_is_told() {
        let log = format!(
            "{}\nF0101 no such kernel module: ip_vs, für immer\n",
            "I0101 all is well\n".repeat(99)
        );
        let ended = json!({
            "name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": log}}
        });
        let message = pod(json!({"containerStatuses": [ended]}))
            .trouble
            .unwrap()
            .message;
        assert!(
            message.starts_with("container c; last exit code 1 …"),
            "{message}"
        );
        assert!(
            message.ends_with("F0101 no such kernel module: ip_vs, für immer"),
            "{message}"
        );
        assert_eq!(
            message.chars().count(),
            "container c; last exit code 1 …".chars().count() + TOLD
        );
    }

    #[test]
    fn a_daemon_set_without_nodes_is_ready() {
        assert_eq!(
            rollout(
                &daemon_set(json!({"observedGeneration": 2, "desiredNumberScheduled": 0})),
                [],
                &[],
                Timestamp::MIN
            ),
            Rollout::Ready
        );
    }

    #[test]
    fn the_cause_is_the_pods_own_and_becomes_stuck_after_the_deadline() {
        let workload = daemon_set(json!({
            "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
            "numberAvailable": 2
        }));
        let pod = pod(json!({
            "containerStatuses": [
                {
                    "name": "c",
                    "state": {
                        "waiting": {
                            "reason": "ImagePullBackOff",
                            "message": "Back-off pulling image \"x\""
                        }
                    }
                }
            ]
        }));
        let early = rollout(&workload, [&pod], &[], at("2026-01-01T00:01:59Z"));
        let Rollout::Progressing { message, deadline } = early else {
            panic!("{early:?}")
        };
        assert_eq!(
            message,
            "is not available (awaiting 1 nodes): pod d-1 on node-2: ImagePullBackOff: container c: Back-off pulling image \"x\""
        );
        assert_eq!(deadline, Some(at("2026-01-01T00:02:00Z")));
        let late = rollout(&workload, [&pod], &[], at("2026-01-01T00:02:00Z"));
        assert!(
            matches!(late, Rollout::Stuck { ref cause, .. } if cause == "ImagePullBackOff"),
            "{late:?}"
        );
    }

    #[test]
    fn an_old_pod_is_in_trouble_since_it_stopped_to_be_ready() {
        let workload = daemon_set(json!({
            "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
            "numberAvailable": 2
        }));
        let pod = pod(json!({
            "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T00:00:00Z"}
            ],
            "containerStatuses": [
                {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
            ],
        }));
        let state = rollout(&workload, [&pod], &[], at("2026-03-01T00:01:59Z"));
        assert!(
            matches!(state, Rollout::Progressing { deadline: Some(deadline), .. } if deadline == at("2026-03-01T00:02:00Z")),
            "{state:?}"
        );
        assert!(matches!(
            rollout(&workload, [&pod], &[], at("2026-03-01T00:02:00Z")),
            Rollout::Stuck { .. }
        ));
    }

    #[test]
    fn a_deployment_whose_pods_cannot_be_created_says_why_and_becomes_stuck() {
        let message = "pods \"d-1\" is forbidden: exceeded quota: no-pods";
        let deployment = json!({
            "kind": "Deployment", "metadata": {"namespace": "n", "name": "d", "generation": 1},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "d"}}},
            "status": {"observedGeneration": 1, "conditions": [{
                "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]}
        });
        let said = format!("update is rolling out (0 out of 1 updated): FailedCreate: {message}");
        assert_eq!(
            rollout(&deployment, [], &[], at("2026-01-01T00:01:00Z")),
            Rollout::Progressing {
                message: said.clone(),
                deadline: Some(at("2026-01-01T00:02:00Z"))
            }
        );
        assert_eq!(
            rollout(&deployment, [], &[], at("2026-01-01T00:02:00Z")),
            Rollout::Stuck {
                cause: "FailedCreate".to_owned(),
                message: said
            }
        );
    }

    #[test]
    fn a_daemon_set_lacks_the_pods_that_are_not_there_or_go() {
        let set = daemon_set(json!({"observedGeneration": 2, "desiredNumberScheduled": 2}));
        let mut going = pod(json!({}));
        going.deleting = true;
        assert!(lacks_pods(&set, &[pod(json!({})), going]));
        assert!(!lacks_pods(&set, &[pod(json!({})), pod(json!({}))]));
        let waits = rollout(&set, [], &[], at("2026-01-01T00:00:00Z"));
        let event = json!({
            "reason": "FailedCreate",
            "message": "(combined from similar events): exceeded quota: no-pods"
        });
        assert_eq!(
            with_event(waits, &event),
            Rollout::Progressing {
                message: "update is rolling out (0 out of 2 updated): FailedCreate: exceeded quota: no-pods".to_owned(),
                deadline: None
            }
        );
        assert_eq!(with_event(Rollout::Ready, &event), Rollout::Ready);
    }

    #[test]
    fn a_starting_container_is_no_trouble_and_an_unschedulable_pod_is() {
        assert_eq!(
            pod(json!({
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
                ]
            }))
            .trouble,
            None
        );
        let unschedulable = pod(json!({
            "conditions": [
                {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "0/3 nodes"
                }
            ]
        }));
        assert_eq!(
            unschedulable.trouble,
            Some(Trouble {
                reason: "Unschedulable".into(),
                message: "0/3 nodes".into()
            })
        );
    }

    #[test]
    fn a_pod_is_starting_until_its_volumes_and_network_are_there() {
        let waits = |reason: &str| json!({"name": "c", "state": {"waiting": {"reason": reason}}});
        let starts = |status: Value| pod(status).is_starting;
        assert!(starts(
            json!({"containerStatuses": [waits("ContainerCreating")]})
        ));
        let initialized_later = json!({
            "initContainerStatuses": [waits("PodInitializing")],
            "containerStatuses": [waits("PodInitializing")]
        });
        assert!(starts(initialized_later));
        let pulls = json!({
            "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
            "containerStatuses": [waits("ContainerCreating")]
        });
        assert!(!starts(pulls));
        let initializes = json!({
            "initContainerStatuses": [{"name": "i", "state": {"running": {}}}],
            "containerStatuses": [waits("PodInitializing")]
        });
        assert!(!starts(initializes));
        let mut crashed = waits("ContainerCreating");
        crashed["lastState"] = json!({"terminated": {"exitCode": 1}});
        assert!(!starts(json!({"containerStatuses": [crashed]})));
        assert!(!starts(
            json!({"containerStatuses": [waits("ImagePullBackOff")]})
        ));
        assert!(!starts(json!({})), "no kubelet has seen it");
    }

    /// A pod whose node was started again: the kubelet reports this about its container.
    fn restarted(container: Value, prepared: &str, phase: &str) -> PodView {
        pod(json!({
            "phase": phase,
            "conditions": [{"type": "PodReadyToStartContainers", "status": prepared}],
            "containerStatuses": [container]
        }))
    }

    #[test]
    fn a_pod_that_has_lost_its_sandbox_starts_whatever_its_containers_did() {
        let crash = json!({"exitCode": 255, "reason": "Unknown"});
        let ended = json!({"name": "c", "state": {"terminated": crash}});
        let creating = json!({
            "name": "c", "state": {"waiting": {"reason": "ContainerCreating"}},
            "lastState": {"terminated": crash}
        });
        for container in [&ended, &creating] {
            let starts =
                |prepared, phase| restarted(container.clone(), prepared, phase).is_starting;
            assert!(starts("False", "Running"), "{container}");
            assert!(!starts("True", "Running"), "it crashes: {container}");
            assert!(!starts("False", "Failed"), "it needs none: {container}");
            assert!(!starts("False", "Succeeded"), "it needs none: {container}");
        }
        let runs = json!({"name": "c", "state": {"running": {}}});
        assert!(!restarted(runs, "False", "Running").is_starting);
    }

    #[test]
    fn the_event_of_a_lost_sandbox_counts_and_not_the_exit_code_before() {
        let workload = daemon_set(json!({
            "observedGeneration": 2, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1,
            "numberAvailable": 0
        }));
        let ended = json!({
            "name": "c", "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}
        });
        let stuck = restarted(ended, "False", "Running");
        let asked = unexplained(&workload, [&stuck]).expect("its events are of interest");
        let event = json!({
            "reason": "FailedCreatePodSandBox", "message": "no CNI plugin bridge",
            "lastTimestamp": "2026-01-01T00:00:00Z"
        });
        let explained = [asked.with_trouble(held_up(&[event]).unwrap())];
        let state = rollout(
            &workload,
            with_causes([&stuck], &explained),
            &[],
            Timestamp::MIN,
        );
        let Rollout::Progressing { message, .. } = state else {
            panic!("{state:?}");
        };
        let (_, cause) = message
            .split_once("FailedCreatePodSandBox: ")
            .expect(&message);
        assert_eq!(cause, "no CNI plugin bridge");
    }

    #[test]
    fn the_events_of_the_oldest_pod_in_trouble_are_of_interest() {
        let workload = daemon_set(json!({
            "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
            "numberAvailable": 1
        }));
        let starting = PodView {
            is_starting: true,
            ..pod(json!({}))
        };
        let mut later = starting.clone();
        (later.uid, later.name) = ("v".to_owned(), "d-2".to_owned());
        let uid = |pods: &[&PodView]| {
            unexplained(&workload, pods.iter().copied()).map(|pod| pod.uid.clone())
        };
        assert_eq!(uid(&[&later, &starting]), Some("u".to_owned()));
        let troubled = PodView {
            is_starting: false,
            trouble: Some(Trouble {
                reason: "ImagePullBackOff".to_owned(),
                message: String::new(),
            }),
            ..starting.clone()
        };
        assert_eq!(uid(&[&later, &troubled]), None);
        let going = PodView {
            deleting: true,
            ..starting.clone()
        };
        assert_eq!(uid(&[&going]), None);
        let ready = daemon_set(serde_json::from_str(READY).unwrap());
        assert_eq!(unexplained(&ready, [&starting]), None);
    }

    #[test]
    fn a_pod_that_cannot_start_has_the_cause_of_its_latest_event() {
        let event = |reason: &str, message: &str, last: &str| json!({"reason": reason, "message": message, "lastTimestamp": last});
        let mount = "MountVolume.SetUp failed for volume \"tls\" : secret \"tls\" not found";
        let events = [
            event(
                "FailedMount",
                &format!("(combined from similar events): {mount}\n"),
                "2026-01-01T00:00:20Z",
            ),
            event("FailedMount", "an older cause", "2026-01-01T00:00:10Z"),
            event("DNSConfigForming", "harmless", "2026-01-01T00:00:30Z"),
        ];
        let trouble = held_up(&events);
        let expected = Trouble {
            reason: "FailedMount".to_owned(),
            message: mount.to_owned(),
        };
        assert_eq!(trouble, Some(expected));
        assert_eq!(held_up(&events[2..]), None);
        let pulls = event("Pulling", "Pulling image \"x\"", "2026-01-01T00:00:20Z");
        assert_eq!(held_up(&[events[0].clone(), pulls]), None);
        let workload = daemon_set(json!({
            "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
            "numberAvailable": 2
        }));
        let pod = PodView {
            trouble,
            ..pod(json!({}))
        };
        let message =
            format!("is not available (awaiting 1 nodes): pod d-1 on node-2: FailedMount: {mount}");
        assert_eq!(
            rollout(&workload, [&pod], &[], at("2026-01-01T00:02:00Z")),
            Rollout::Stuck {
                cause: "FailedMount".to_owned(),
                message
            }
        );
        let long = event("FailedCreatePodSandBox", &"x".repeat(1_000), "");
        let message = held_up(&[long]).unwrap().message;
        assert_eq!(message.chars().count(), TOLD + 1, "{message}");
    }

    #[test]
    fn a_pod_with_a_cause_takes_the_place_of_the_same_pod() {
        let one = pod(json!({}));
        let other = PodView {
            uid: "v".to_owned(),
            ..one.clone()
        };
        let explained = [one.with_trouble(Trouble {
            reason: "FailedMount".to_owned(),
            message: "no such secret".to_owned(),
        })];
        let pods: Vec<_> = with_causes([&one, &other], &explained).collect();
        assert_eq!(pods, [&other, &explained[0]]);
        assert_eq!(with_causes([&one], &[]).count(), 1);
        assert_eq!(one.human(), "pod d-1 on node-2");
    }

    #[test]
    fn a_container_between_two_crashes_is_in_trouble() {
        let of = |container: Value| {
            trouble(&json!({"status": {"containerStatuses": [container]}}))
                .map(|trouble| format!("{}: {}", trouble.reason, trouble.message))
        };
        let crash = json!({"exitCode": 2, "reason": "Error", "message": "no such device"});
        let reported = Some("Error: container c; last exit code 2 no such device".to_owned());
        let runs = json!({"name": "c", "ready": false, "state": {"running": {}}, "lastState": {"terminated": crash}});
        assert_eq!(of(runs.clone()), reported);
        let ended = json!({"name": "c", "ready": false, "state": {"terminated": crash}});
        assert_eq!(of(ended), reported);
        let mut ready = runs;
        ready["ready"] = true.into();
        assert_eq!(of(ready), None);
        let done = json!({"name": "c", "ready": false, "state": {"terminated": {"exitCode": 0}}});
        assert_eq!(of(done), None);
    }

    #[test]
    fn a_panic_is_reported_and_not_the_stack_after_it() {
        let stack = "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:7 +0x1d\nmain.f(0x1, 0x2)\n\t/src/f.go:1 +0x2\ncreated by main.init\nrax    0x0\nrip    0x47\n";
        let panic = format!("I0102 start\npanic: assignment to entry in nil map\n\n{stack}");
        assert_eq!(last_log(&panic), "panic: assignment to entry in nil map");
        let klog = format!("I0102 start\nF0131 10:00:00.1 1 main.go:9] no rights\n{stack}");
        assert_eq!(last_log(&klog), "F0131 10:00:00.1 1 main.go:9] no rights");
        let fatal = format!("fatal error: out of memory\n{stack}");
        assert_eq!(last_log(&fatal), "fatal error: out of memory");
        let cut = format!("cannot bind :8081\n{stack}");
        assert_eq!(
            last_log(&cut),
            "cannot bind :8081",
            "its first line is lost"
        );
        assert_eq!(last_log("exec (dev) failed (1)"), "exec (dev) failed (1)");
    }

    #[test]
    fn of_a_report_people_get_the_error() {
        let told = CniReport {
            error: Some("CNI plugin bridge is missing".to_owned()),
            ..CniReport::default()
        };
        let container = json!({"name": "install-cni", "state": {
            "waiting": {"reason": "CrashLoopBackOff"}
        },
                               "lastState": {
                                   "terminated": {"exitCode": 1, "message": told.to_line()}
                               }});
        let pod = pod(json!({"initContainerStatuses": [container]}));
        assert_eq!(
            pod.trouble.unwrap().message,
            "container install-cni; last exit code 1 CNI plugin bridge is missing"
        );
        assert_eq!(pod.cni_report.map(|told| *told), Some(told));
    }

    #[test]
    fn ready_pods_do_not_hide_a_missing_secret() {
        let workload = daemon_set(serde_json::from_str(READY).unwrap());
        assert_eq!(rollout(&workload, [], &[], Timestamp::MIN), Rollout::Ready);
        let missing = [ObjectKey::new(kinds::SECRET, "n", "certificate")];
        let state = rollout(&workload, [], &missing, Timestamp::MIN);
        assert!(
            matches!(state, Rollout::Progressing { ref message, .. } if message == "waits for Secret n/certificate (does not exist)"),
            "{state:?}"
        );
    }

    #[test]
    fn inputs_are_what_pods_cannot_start_without() {
        let workload = json!({"metadata": {"namespace": "n"}, "spec": {"template": {"spec": {
        "volumes": [
            {"name": "a", "secret": {"secretName": "s"}},
            {"name": "b", "configMap": {"name": "c", "optional": true}}
        ],
        "containers": [
            {
                "env": [
                    {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}
                ],
                "envFrom": [{"secretRef": {"name": "s"}}]
            }
        ]}}}});
        assert_eq!(
            inputs(&workload),
            [
                ObjectKey::new(kinds::CONFIG_MAP, "n", "m"),
                ObjectKey::new(kinds::SECRET, "n", "s")
            ]
        );
    }

    #[test]
    fn a_resource_of_another_domain_rolls_out_as_its_current_status_says() {
        let with = |condition: Value| {
            json!({
                "kind": "NMState",
                "metadata": {"name": "n", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [condition]}
            })
        };
        let said = |name: &str, generation: i64| {
            json!({
                "type": name, "status": "True", "reason": "R", "message": "why",
                "observedGeneration": generation
            })
        };
        let (early, late) = (at("2026-01-01T00:00:01Z"), at("2026-01-01T01:00:00Z"));
        assert_eq!(
            rollout(&with(said("Available", 2)), [], &[], late),
            Rollout::Ready
        );
        let stuck = rollout(&with(said("Degraded", 2)), [], &[], early);
        assert_eq!(
            stuck,
            Rollout::Stuck {
                cause: "R".into(),
                message: "why".into()
            }
        );
        let underway = rollout(&with(said("Progressing", 2)), [], &[], late);
        assert_eq!(
            underway,
            Rollout::Progressing {
                message: "why".into(),
                deadline: None
            }
        );
        let outdated = rollout(&with(said("Available", 1)), [], &[], early);
        assert!(
            matches!(
                outdated,
                Rollout::Progressing {
                    deadline: Some(_),
                    ..
                }
            ),
            "{outdated:?}"
        );
        let nobody = rollout(&with(json!({})), [], &[], late);
        assert!(
            matches!(nobody, Rollout::Stuck { ref cause, .. } if cause == "NotServed"),
            "{nobody:?}"
        );
    }
}
