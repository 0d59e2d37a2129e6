//! The policies of nodes' networks and the nodes' reports, as `weft status` shows them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use weft_addons::mac::MacRange;
use weft_api::node_network::state;
use weft_node_network::rollout::{
    Enactment, Policy,
    progress::{Progress, is_for},
    view::{agent_of, is_left_alone},
};
use weft_plan::{Live, condition, dropped, kinds, rollout::DEADLINE};
use weft_runtime::{
    api_server::cluster::Error,
    inspect::reader::{Listed, Reader},
};

use crate::{mac_range, mood::Mood, output::Style};

/// The policies, and what the agents report of their nodes.
#[derive(Default)]
pub struct Policies {
    /// The policies, by name.
    pub policies: Vec<OfPolicy>,
    /// The nodes that an agent reports, or should report, by name.
    pub nodes: Vec<OfNode>,
    /// The kinds that the cluster does not serve.
    pub missing: Vec<weft_plan::Kind>,
}

/// The state of a policy.
pub struct OfPolicy {
    /// The name of the policy.
    pub name: String,
    /// The state in a word or two.
    pub word: &'static str,
    /// How bad the state is.
    pub mood: Mood,
    /// The message of the condition that holds.
    message: String,
    counts: Counts,
    /// The nodes where it has failed, with the words of their agents.
    failures: Vec<(String, String)>,
    /// The nodes that differ from it, or where another policy contradicts it.
    asides: Vec<(String, String)>,
    /// The nodes whose firewall sees the packets between ports of its bridges.
    filtered: Vec<String>,
    /// The text about fields of policies that the API server drops.
    lost: Option<String>,
    resource: Value,
}

/// On how many nodes the policy stands where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    finished: usize,
    failed: usize,
    progressing: usize,
    /// Nodes that wait for their turn, or are not tried because it has failed elsewhere.
    waiting: usize,
}

impl Counts {
    fn text(self) -> String {
        let Self {
            finished,
            failed,
            progressing,
            waiting,
        } = self;
        let parts = [
            (finished, "finished"),
            (failed, "failed"),
            (progressing, "progressing"),
            (waiting, "waiting"),
        ];
        let all = finished + failed + progressing + waiting;
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(count, word)| *count > 0 || *word == "finished")
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let noun = if all == 1 { "node" } else { "nodes" };
        format!("{all} {noun}: {}", parts.join(", "))
    }
}

/// The report of a node.
pub struct OfNode {
    /// The name of the node.
    pub name: String,
    /// How bad the state is.
    pub mood: Mood,
    /// True if the node has a NodeNetworkState.
    reported: bool,
    /// Why it is not as it should be. Empty if it is.
    pub message: String,
    /// When a missing report counts as trouble.
    pub deadline: Option<Timestamp>,
}

/// Reads policies, enactments, nodes' states and agents, as far as the user of this reader may
/// look. `namespace` is that of the agents.
///
/// # Errors
/// The API server refuses a request for another reason.
pub async fn read(
    reader: &Reader,
    namespace: Option<&str>,
    agents: &str,
    now: Timestamp,
) -> Result<Policies, Error> {
    let mut missing = Vec::new();
    let mut of_kind = async |kind| {
        Ok::<_, Error>(match reader.list_if_served(kind, None).await? {
            Listed::Objects(objects) => objects,
            Listed::NotPermitted => Vec::new(),
            Listed::NotServed => {
                missing.push(kind);
                Vec::new()
            }
        })
    };
    let policies = of_kind(kinds::NODE_NETWORK_CONFIGURATION_POLICY).await?;
    let enactments = of_kind(kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT).await?;
    let states = of_kind(kinds::NODE_NETWORK_STATE).await?;
    let agents = format!("labelSelector={agents}");
    let pods = reader.list(kinds::POD, namespace, &agents).await?;
    // Only of policies it matters which nodes have no agent.
    let nodes = match policies.is_empty() {
        true => Vec::new(),
        false => reader.list(kinds::NODE, None, "").await?,
    };
    // Without the states, weft cannot know which node is not reported.
    let is_known = !missing.contains(&kinds::NODE_NETWORK_STATE)
        && !reader.is_unread(kinds::NODE_NETWORK_STATE, None);
    let pods = if is_known { &pods[..] } else { &[] };
    Ok(Policies {
        policies: policies
            .into_iter()
            .map(|policy| OfPolicy::of(policy, &enactments, &nodes, &states, pods))
            .collect(),
        nodes: nodes_of(&states, pods, mac_range::read(reader).await?.as_ref(), now),
        missing,
    })
}

fn message(condition: &Value) -> String {
    condition["message"].as_str().unwrap_or_default().to_owned()
}

/// Returns a condition if it holds.
fn holding<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    condition(status, name).filter(|condition| condition["status"] == "True")
}

impl OfPolicy {
    fn of(
        resource: Value,
        enactments: &[Value],
        nodes: &[Value],
        states: &[Value],
        pods: &[Value],
    ) -> Self {
        let name = Live::of(&resource).name().to_owned();
        let policy = Policy::of(&resource);
        let mut counts = Counts::default();
        let (mut failures, mut asides, mut filtered) = (Vec::new(), Vec::new(), Vec::new());
        for object in enactments {
            let Some(enactment) = Enactment::of(object).filter(|found| found.policy == name) else {
                continue;
            };
            let status = &object["status"];
            if let Some(message) = object["spec"]["wanted"]["waits"]["message"].as_str() {
                asides.push((enactment.node.clone(), format!("waits: {message}")));
            }
            match Progress::of(&policy, &enactment) {
                Progress::Finished => counts.finished += 1,
                Progress::Progressing => counts.progressing += 1,
                Progress::Failed => {
                    counts.failed += 1;
                    let words = holding(status, "Failing").map(message).unwrap_or_default();
                    failures.push((enactment.node.clone(), words));
                }
                Progress::Waiting => counts.waiting += 1,
            }
            if holding(status, "BridgeTrafficFiltered").is_some() {
                filtered.push(enactment.node.clone());
            }
            for aside in ["Drifted", "Conflict", "NeighborsMissing", "ProbesLeftOut"] {
                if let Some(condition) = holding(status, aside) {
                    let text = format!("{aside}: {}", message(condition));
                    asides.push((enactment.node.clone(), text));
                }
            }
        }
        let known: BTreeSet<_> = states
            .iter()
            .map(|state| Live::of(state).name().to_owned())
            .chain(pods.iter().filter_map(agent_of))
            .collect();
        for node in nodes {
            let live = Live::of(node);
            let labels: BTreeMap<String, String> =
                serde_json::from_value(node["metadata"]["labels"].clone()).unwrap_or_default();
            if !is_for(&policy, &labels) {
                continue;
            }
            let is_cut_off = live
                .condition("Ready")
                .is_some_and(|ready| ready["status"] != "True");
            if !known.contains(live.name()) {
                asides.push((live.name().to_owned(), "no agent runs there".to_owned()));
            } else if is_cut_off {
                let text = "the node is not Ready, and is not changed until it is";
                asides.push((live.name().to_owned(), text.to_owned()));
            }
        }
        let (word, mood) = verdict(&resource, &policy);
        let told = ["Blocked", "Degraded", "Progressing", "Ignored", "Available"]
            .into_iter()
            .find_map(|name| holding(&resource["status"], name));
        let lost = holding(&resource["status"], dropped::CONDITION).map(message);
        Self {
            message: told.map(message).unwrap_or_default(),
            mood: if asides.is_empty() {
                mood
            } else {
                mood.max(Mood::Notice)
            },
            lost,
            name,
            word,
            counts,
            failures,
            asides,
            filtered,
            resource,
        }
    }

    /// Returns kind and name of the policy.
    pub fn title(&self) -> String {
        let kind = kinds::NODE_NETWORK_CONFIGURATION_POLICY.kind;
        format!("{kind} {}", self.name)
    }

    /// Returns the lines of the policy, for people.
    pub fn lines(&self, style: Style) -> Vec<String> {
        let bar = style.dim("│");
        let generation = Live::of(&self.resource).generation();
        let about = format!("({}, generation {generation})", self.counts.text());
        let mut lines = vec![format!(
            "{}: {} {}",
            style.bold(&self.title()),
            self.mood.paint(style, self.word),
            style.dim(&about)
        )];
        if self.mood >= Mood::Pending {
            lines.extend(self.message.lines().map(|line| format!("{bar} {line}")));
        }
        for (node, words) in &self.failures {
            lines.extend(
                told(&format!("{node} failed"), words)
                    .map(|line| format!("{bar} {}", style.bad(&line))),
            );
        }
        for (node, words) in &self.asides {
            lines.extend(told(node, words).map(|line| format!("{bar} {}", style.pending(&line))));
        }
        if let Some(lost) = &self.lost {
            let text = format!("{}: {lost}", dropped::CONDITION);
            lines.push(format!("{bar} {}", style.pending(&text)));
        }
        // Most clusters set the sysctl, and few firewalls drop such packets. So it is no notice.
        if !self.filtered.is_empty() {
            let text = format!(
                "packets between ports of its bridges pass the chain FORWARD on {}. On a node, iptables -S FORWARD shows whether it drops them",
                some(&self.filtered)
            );
            lines.push(format!("{bar} {}", style.dim(&text)));
        }
        lines
    }

    /// Returns the cause of the state, in a line.
    pub fn cause(&self) -> String {
        let failures = self.failures.iter();
        let failures = failures.map(|(node, words)| format!("{node} failed: {words}"));
        let asides = self
            .asides
            .iter()
            .map(|(node, words)| format!("{node}: {words}"));
        let all: Vec<_> = [self.message.clone()]
            .into_iter()
            .filter(|message| !message.is_empty() && self.mood >= Mood::Pending)
            .chain(failures)
            .chain(asides)
            .chain(self.lost.clone())
            .collect();
        match all.is_empty() {
            true => self.word.to_owned(),
            false => format!("{}: {}", self.word, all.join("; ")),
        }
    }

    /// Returns the state of the policy as JSON, for programs.
    pub fn json(&self) -> Value {
        let nodes = |list: &[(String, String)]| {
            list.iter()
                .map(|(node, message)| json!({"node": node, "message": message}))
                .collect::<Vec<_>>()
        };
        let Counts {
            finished,
            failed,
            progressing,
            waiting,
        } = self.counts;
        json!({
            "kind": kinds::NODE_NETWORK_CONFIGURATION_POLICY.kind,
            "name": self.name,
            "available": self.mood <= Mood::Notice,
            "generation": Live::of(&self.resource).generation(),
            "observedGeneration": self.resource["status"]["observedGeneration"],
            "deleting": Live::of(&self.resource).is_being_deleted(),
            "conditions": self.resource["status"]["conditions"].as_array().cloned().unwrap_or_default(),
            "rollout": {
                "finished": finished, "failed": failed, "progressing": progressing,
                "waiting": waiting
            },
            "failures": nodes(&self.failures),
            "notices": nodes(&self.asides),
            "bridgeTrafficFiltered": self.filtered,
        })
    }
}

/// The first names of a list, and how many there are more.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        count if count > SHOWN => {
            format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}

/// The words of an agent behind its node, a line each. The cause is in the first lines.
fn told(node: &str, words: &str) -> impl Iterator<Item = String> {
    let mut lines = words.lines();
    let first = format!(
        "{node}: {}",
        lines.next().unwrap_or("its agent gives no cause")
    );
    let rest: Vec<_> = lines.take(4).map(|line| format!("  {line}")).collect();
    std::iter::once(first).chain(rest)
}

/// The state of a policy in a word or two, as far as it is known about its current generation.
fn verdict(resource: &Value, policy: &Policy) -> (&'static str, Mood) {
    let status = &resource["status"];
    let holds = |name: &str| holding(status, name).is_some();
    let observed = status["observedGeneration"].as_i64();
    // kubernetes-nmstate writes no generation into the status.
    let is_seen = observed.is_none_or(|observed| observed >= policy.generation)
        && status["conditions"].is_array();
    match () {
        () if holds("Blocked") => ("Blocked", Mood::Bad),
        () if holds("Degraded") && is_seen => ("Degraded", Mood::Bad),
        () if Live::of(resource).is_being_deleted() => ("being removed", Mood::Pending),
        () if !is_seen => (
            "the operator has not seen the latest change yet",
            Mood::Pending,
        ),
        () if holds("Conflict") => ("contradicted by another policy", Mood::Bad),
        () if holds("ValueMissing") => ("waits for values of nodes", Mood::Bad),
        () if holds("AddressProblem") => ("has a problem with addresses", Mood::Bad),
        () if holds(dropped::CONDITION) => ("the API server drops fields of policies", Mood::Bad),
        () if holds("Available") => ("Available", Mood::Good),
        () if holds("Ignored") => ("for no node that runs an agent", Mood::Notice),
        () if holds("Progressing") => ("Progressing", Mood::Pending),
        () => ("not Available", Mood::Pending),
    }
}

/// The nodes that have a report, and those whose agent has yet to write one.
fn nodes_of(
    states: &[Value],
    pods: &[Value],
    range: Option<&MacRange>,
    now: Timestamp,
) -> Vec<OfNode> {
    let mut nodes: BTreeMap<String, OfNode> = states
        .iter()
        .map(|state| (Live::of(state).name().to_owned(), OfNode::of(state, range)))
        .collect();
    for pod in pods {
        let Some(name) = agent_of(pod) else { continue };
        nodes
            .entry(name.clone())
            .or_insert_with(|| OfNode::not_reported(name, pod, now));
    }
    nodes.into_values().collect()
}

impl OfNode {
    fn of(state: &Value, range: Option<&MacRange>) -> Self {
        let status = &state["status"];
        let within = range.and_then(|range| mac_range::inside(range, state));
        let is_false =
            |name: &str| condition(status, name).filter(|condition| condition["status"] == "False");
        let (mood, message) = if let Some(failing) = holding(status, "Failing") {
            let reason = failing["reason"].as_str().unwrap_or_default();
            (Mood::Bad, format!("Failing {reason}: {}", message(failing)))
        } else if is_left_alone(state) {
            (Mood::Good, String::new())
        } else if let Some(part) = is_false("Backend").or(is_false("Complete")) {
            (Mood::Notice, message(part))
        } else if let Some(within) = within {
            (Mood::Notice, within)
        } else {
            (Mood::Good, String::new())
        };
        Self {
            name: Live::of(state).name().to_owned(),
            mood,
            reported: true,
            message,
            deadline: None,
        }
    }

    /// An agent runs on the node and has not reported it. It has a while to do so after its pod is
    /// Ready.
    fn not_reported(name: String, pod: &Value, now: Timestamp) -> Self {
        let ready = holding(&pod["status"], "Ready");
        let since = ready.and_then(|ready| ready["lastTransitionTime"].as_str()?.parse().ok());
        let deadline = since.and_then(|since: Timestamp| since.checked_add(DEADLINE).ok());
        let is_late = deadline.is_some_and(|deadline| deadline <= now);
        let pod = Live::of(pod).name();
        let message = format!(
            "not reported: there is no {}, and its agent is the pod {pod}",
            state::KIND
        );
        Self {
            name,
            mood: if is_late { Mood::Bad } else { Mood::Pending },
            reported: false,
            message,
            deadline: deadline.filter(|_| !is_late),
        }
    }

    /// Reports whether the node has a NodeNetworkState.
    pub fn is_reported(&self) -> bool {
        self.reported
    }

    /// Returns the line of a node, for people.
    pub fn line(&self, style: Style) -> String {
        let text = match self.message.as_str() {
            "" => "reported",
            message => message,
        };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        format!("node {}: {}", self.name, self.mood.paint(style, first))
    }

    /// Returns the state of the node as JSON, for programs.
    pub fn json(&self) -> Value {
        json!({
            "node": self.name,
            "reported": self.reported,
            "healthy": self.mood <= Mood::Notice,
            "message": self.message,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn policy(conditions: &Value) -> Value {
        json!({
            "metadata": {"name": "br1", "uid": "u", "generation": 2},
            "spec": {"nodeSelector": {"bridge": "yes"}},
            "status": {"observedGeneration": 2, "conditions": conditions}
        })
    }

    fn holds(name: &str, message: &str) -> Value {
        json!([{"type": name, "status": "True", "message": message}])
    }

    fn enactment(node: &str, decision: &str, phase: &str, message: &str) -> Value {
        json!({
            "metadata": {"name": format!("{node}.br1"), "uid": node, "generation": 1},
            "spec": {
                "policy": "br1", "policyUid": "u", "nodeName": node,
                "wanted": {"generation": 2, "decision": decision}
            },
            "status": {"observedGeneration": 1, "conditions": holds(phase, message)}
        })
    }

    fn node(name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"bridge": "yes"}}})
    }

    fn pod(node: &str, since: &str) -> Value {
        json!({
            "metadata": {"name": format!("agent-{node}")}, "spec": {"nodeName": node},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": since}
            ]}
        })
    }

    #[test]
    fn a_policy_whose_fields_get_lost_names_them() {
        let resource = policy(&holds("FieldsDropped", "lost by a definition: spec.match"));
        let of = OfPolicy::of(resource, &[], &[], &[], &[]);
        assert_eq!(of.mood, Mood::Bad);
        for text in [of.cause(), of.lines(Style::plain()).join("\n")] {
            assert!(text.contains("lost by a definition: spec.match"), "{text}");
        }
    }

    #[test]
    fn a_failed_policy_shows_its_rollout_and_the_words_of_the_agent() {
        let enactments = [
            enactment("node-1", "Granted", "Available", ""),
            enactment(
                "node-2",
                "Granted",
                "Failing",
                "no such port: eth7\nwanted: a bridge",
            ),
            enactment("node-3", "Aborted", "Aborted", ""),
            enactment("node-4", "Granted", "Progressing", ""),
        ];
        let resource = policy(&holds("Degraded", "1/4 nodes failed to configure"));
        let of = OfPolicy::of(resource, &enactments, &[], &[], &[]);
        assert_eq!((of.word, of.mood), ("Degraded", Mood::Bad));
        assert_eq!(
            of.lines(Style::plain()),
            [
                "NodeNetworkConfigurationPolicy br1: Degraded (4 nodes: 1 finished, 1 failed, 1 progressing, 1 waiting, generation 2)",
                "│ 1/4 nodes failed to configure",
                "│ node-2 failed: no such port: eth7",
                "│   wanted: a bridge",
            ]
        );
        assert_eq!(
            of.cause(),
            "Degraded: 1/4 nodes failed to configure; node-2 failed: no such port: eth7\nwanted: a bridge"
        );
        let json = of.json();
        assert_eq!(json["available"], false);
        assert_eq!(
            json["rollout"],
            json!({"finished": 1, "failed": 1, "progressing": 1, "waiting": 1})
        );
        assert_eq!(json["failures"][0]["node"], "node-2");
    }

    #[test]
    fn the_verdict_about_a_policy_follows_its_latest_generation() {
        let word = |resource: Value| {
            let of = OfPolicy::of(resource, &[], &[], &[], &[]);
            (of.word, of.mood)
        };
        let with_health = json!([
            {"type": "Available", "status": "True"}, {"type": "Ready", "status": "True"}
        ]);
        assert_eq!(word(policy(&with_health)), ("Available", Mood::Good));
        let mut old = policy(&with_health);
        old["metadata"]["generation"] = 3.into();
        assert_eq!(word(old).1, Mood::Pending);
        assert_eq!(
            word(policy(&holds("Progressing", ""))),
            ("Progressing", Mood::Pending)
        );
        assert_eq!(word(policy(&holds("Ignored", ""))).1, Mood::Notice);
        assert_eq!(word(policy(&Value::Null)).1, Mood::Pending);
        let conflict = json!([
            {"type": "Available", "status": "True"}, {"type": "Conflict", "status": "True"}
        ]);
        assert_eq!(word(policy(&conflict)).1, Mood::Bad);
    }

    #[test]
    fn nodes_whose_firewall_sees_a_bridge_are_named_and_no_notice() {
        let enactments: Vec<_> = (1..=6)
            .map(|number| {
                let mut found = enactment(&format!("node-{number}"), "Granted", "Available", "");
                let conditions = found["status"]["conditions"].as_array_mut().unwrap();
                conditions.push(json!({"type": "BridgeTrafficFiltered", "status": "True"}));
                found
            })
            .collect();
        let said = |enactments: &[Value]| {
            let resource = policy(&holds("Available", ""));
            let of = OfPolicy::of(resource, enactments, &[], &[], &[]);
            assert_eq!(of.mood, Mood::Good);
            assert_eq!(
                of.json()["bridgeTrafficFiltered"].as_array().unwrap().len(),
                enactments.len()
            );
            of.lines(Style::plain())[1..].to_vec()
        };
        let text = "│ packets between ports of its bridges pass the chain FORWARD on";
        let hint = "On a node, iptables -S FORWARD shows whether it drops them";
        let two = format!("{text} node-1, node-2. {hint}");
        assert_eq!(said(&enactments[..2]), [two]);
        let all = "node-1, node-2, node-3, node-4, node-5 and 1 more";
        assert_eq!(said(&enactments), [format!("{text} {all}. {hint}")]);
    }

    #[test]
    fn a_selected_node_without_agent_or_cut_off_is_named() {
        let mut nodes = [node("node-1"), node("node-2"), node("node-3")];
        nodes[2]["status"] = json!({"conditions": [{"type": "Ready", "status": "Unknown"}]});
        let pods = [pod("node-1", NOW), pod("node-3", NOW)];
        let resource = policy(&holds("Available", ""));
        let of = OfPolicy::of(resource, &[], &nodes, &[], &pods);
        assert_eq!(of.mood, Mood::Notice);
        assert_eq!(
            of.lines(Style::plain())[1..],
            [
                "│ node-2: no agent runs there",
                "│ node-3: the node is not Ready, and is not changed until it is"
            ]
        );
    }

    #[test]
    fn a_node_is_in_trouble_without_report_and_with_a_failing_one() {
        let states = [
            json!({"metadata": {"name": "node-1"}, "status": {"conditions": [
                {"type": "Failing", "status": "True", "reason": "FailedToObserve", "message": "m"}
            ]}}),
            json!({"metadata": {"name": "node-2"}, "status": {"conditions": [
                {"type": "Available", "status": "True"}, {"type": "Ready", "status": "True"}
            ]}}),
            json!({"metadata": {"name": "node-3"}, "status": {"conditions": [
                {"type": "Backend", "status": "False", "message": "read only"}
            ]}}),
        ];
        let pods = [
            pod("node-2", "2026-01-01T00:00:00Z"),
            pod("node-4", "2026-01-01T00:00:00Z"),
            pod("node-5", "2026-01-01T00:09:00Z"),
        ];
        let all = nodes_of(&states, &pods, None, at(NOW));
        let lines: Vec<_> = all
            .iter()
            .map(|node| (node.line(Style::plain()), node.mood, node.is_reported()))
            .collect();
        let missing = "not reported: there is no NodeNetworkState, and its agent is the pod";
        assert_eq!(
            lines,
            [
                (
                    "node node-1: Failing FailedToObserve: m".to_owned(),
                    Mood::Bad,
                    true
                ),
                ("node node-2: reported".to_owned(), Mood::Good, true),
                ("node node-3: read only".to_owned(), Mood::Notice, true),
                (
                    format!("node node-4: {missing} agent-node-4"),
                    Mood::Bad,
                    false
                ),
                (
                    format!("node node-5: {missing} agent-node-5"),
                    Mood::Pending,
                    false
                ),
            ]
        );
        assert_eq!(all[4].deadline, Some(at("2026-01-01T00:11:00Z")));
    }
}
