//! Behaviour of kwok's pods: Ready at once by default, Ready later, or stuck like a real pod with
//! the kubelet's own reasons.
//!
//! kwok plays the kubelet by "stages": a selector on the object, a delay and a status to patch. The
//! selectors made here exclude each other, because kwok draws lots between stages that match the
//! same pod.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Selects pods for a [`Stage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    /// A jq expression on the pod that yields a boolean.
    condition: String,
}

impl Pods {
    /// All pods.
    pub fn all() -> Self {
        Self {
            condition: "true".into(),
        }
    }

    /// Pods whose name matches a regular expression (of jq: `^multus-`).
    pub fn named(regex: &str) -> Self {
        Self {
            condition: format!(".metadata.name | test({})", quoted(regex)),
        }
    }

    /// Pods with this label.
    pub fn labelled(key: &str, value: &str) -> Self {
        Self {
            condition: format!(".metadata.labels[{}] == {}", quoted(key), quoted(value)),
        }
    }

    /// Pods with a container whose image matches a regular expression: the way to have a workload
    /// fail and recover by a change of its image, as in life.
    pub fn with_image(regex: &str) -> Self {
        Self {
            condition: format!("[.spec.containers[].image | test({})] | any", quoted(regex)),
        }
    }
}

/// A state that pods stay in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Phase Pending, containers waiting with reason `ImagePullBackOff`.
    ImagePullBackOff,
    /// Phase Running, containers waiting with reason `CrashLoopBackOff`, restarted four times, last
    /// exit code 1.
    CrashLoopBackOff,
    /// Phase Pending, containers waiting with reason `ContainerCreating`.
    Pending,
    /// Phase Running, containers running, condition Ready False: a readiness probe that does not
    /// succeed.
    Unready,
}

/// A stage that replaces "Ready at once" for some pods. Of several stages that select a pod, the
/// first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    ReadyAfter(Pods, Duration),
    Stuck(Pods, Stuck),
    Yaml(String),
}

impl Stage {
    /// These pods become Ready this long after they were bound (or released from another stage).
    pub fn ready_after(pods: Pods, delay: Duration) -> Self {
        Self(Kind::ReadyAfter(pods, delay))
    }

    /// These pods get into this state and stay there, also if they were Ready before, until the
    /// stages are changed by [`ControlPlane::set_stages`](crate::ControlPlane::set_stages) or the
    /// pod is replaced by one that is not selected.
    pub fn stuck(pods: Pods, state: Stuck) -> Self {
        Self(Kind::Stuck(pods, state))
    }

    /// Any other kwok Stage documents (`kwok.x-k8s.io/v1alpha1`), as they are. Keep its selector
    /// apart from the others'.
    pub fn yaml(documents: &str) -> Self {
        Self(Kind::Yaml(documents.into()))
    }
}

/// kwok's configuration: its own stages (`builtin`, YAML documents) with `stages` on top.
pub(crate) fn config(builtin: &str, stages: &[Stage]) -> Result<String> {
    let mut documents = parse(builtin).context("stages.yaml of kwok")?;
    let Some(ready) = documents
        .iter()
        .position(|stage| stage["metadata"]["name"] == "pod-ready")
    else {
        bail!(
            "stages.yaml of kwok has no stage `pod-ready`: was it made by another version of scripts/control-plane?"
        );
    };
    let mut ready = documents.remove(ready);
    // By kwok only Pending pods become Ready. Here also those that crashed or were unready.
    for requirement in requirements(&mut ready)? {
        if requirement["key"] == ".status.phase" {
            *requirement = json!({
                "key": ".status.phase", "operator": "NotIn", "values": ["Succeeded", "Failed"]
            });
        }
    }

    let mut taken: Vec<&Pods> = vec![];
    for (index, Stage(kind)) in stages.iter().enumerate() {
        let (mut stage, pods) = match kind {
            Kind::Yaml(yaml) => {
                documents.extend(parse(yaml).context("Stage::yaml")?);
                continue;
            }
            Kind::Stuck(pods, state) => (stuck(*state), pods),
            Kind::ReadyAfter(pods, delay) => {
                let mut stage = ready.clone();
                stage["spec"]["delay"] =
                    json!({"durationMilliseconds": u64::try_from(delay.as_millis())?});
                (stage, pods)
            }
        };
        stage["metadata"]["name"] = json!(format!("weft-{index}"));
        select(&mut stage, "In", pods)?;
        for other in &taken {
            select(&mut stage, "NotIn", other)?;
        }
        documents.push(stage);
        taken.push(pods);
    }
    for other in taken {
        select(&mut ready, "NotIn", other)?;
    }
    documents.push(ready);
    // JSON is YAML.
    Ok(documents
        .iter()
        .map(|stage| format!("---\n{stage}\n"))
        .collect())
}

fn parse(yaml: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

fn requirements(stage: &mut Value) -> Result<&mut Vec<Value>> {
    stage["spec"]["selector"]["matchExpressions"]
        .as_array_mut()
        .context("a stage of kwok without matchExpressions")
}

/// kwok compares the results of the jq expression with the values. A boolean compares as its text,
/// an error as no result.
fn select(stage: &mut Value, operator: &str, pods: &Pods) -> Result<()> {
    requirements(stage)?
        .push(json!({"key": pods.condition, "operator": operator, "values": ["true"]}));
    Ok(())
}

/// A string literal of jq. Its escapes are those of JSON, and a backslash, with which an
/// interpolation would begin, is one.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn stuck(state: Stuck) -> Value {
    let waiting = |reason: &str, message: &str| {
        format!("{{ waiting: {{ reason: {reason}, message: {{{{ {message} | Quote }}}} }} }}")
    };
    let (phase, container, extra, already) = match state {
        Stuck::ImagePullBackOff => (
            "Pending",
            waiting(
                "ImagePullBackOff",
                r#"printf "Back-off pulling image %q" .image"#,
            ),
            "restartCount: 0",
            r#".status.containerStatuses[0].state.waiting.reason == "ImagePullBackOff""#,
        ),
        Stuck::CrashLoopBackOff => (
            "Running",
            waiting(
                "CrashLoopBackOff",
                r#"printf "back-off 1m20s restarting failed container=%s" .name"#,
            ),
            "restartCount: 4\n  lastState: { terminated: { exitCode: 1, reason: Error, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }} } }",
            r#".status.containerStatuses[0].state.waiting.reason == "CrashLoopBackOff""#,
        ),
        Stuck::Pending => (
            "Pending",
            "{ waiting: { reason: ContainerCreating } }".into(),
            "restartCount: 0",
            r#".status.containerStatuses[0].state.waiting.reason == "ContainerCreating""#,
        ),
        Stuck::Unready => (
            "Running",
            "{ running: { startedAt: {{ $now | Quote }} } }".into(),
            "restartCount: 0",
            r#".status.phase == "Running" and ([.status.conditions[] | select(.type == "Ready") | .status] == ["False"])"#,
        ),
    };
    let condition = |kind: &str, status: &str, reason: &str| {
        format!(
            "- {{ type: {kind}, status: {status:?}, lastTransitionTime: {{{{ $now | Quote }}}}{reason} }}\n"
        )
    };
    let not_ready = ", reason: ContainersNotReady, message: containers with unready status";
    let template = [
        "{{ $now := Now }}\nconditions:\n",
        &condition("Initialized", "True", ""),
        &condition("Ready", "False", not_ready),
        &condition("ContainersReady", "False", not_ready),
        &condition("PodScheduled", "True", ""),
        "containerStatuses:\n{{ range .spec.containers }}\n",
        "- name: {{ .name | Quote }}\n  image: {{ .image | Quote }}\n  ready: false\n",
        &format!("  {extra}\n  state: {container}\n"),
        "{{ end }}\n",
        &format!("phase: {phase}\nstartTime: {{{{ $now | Quote }}}}\n"),
    ]
    .concat();
    json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
                {"key": ".status.phase", "operator": "NotIn", "values": ["Succeeded", "Failed"]},
                {"key": already, "operator": "NotIn", "values": ["true"]},
            ]},
            "next": {"statusTemplate": template},
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const READY: &str = "kind: Stage\nmetadata: {name: pod-ready}\nspec: {selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}}";

    #[test]
    fn no_two_stages_select_one_pod() {
        let stages = [
            Stage::stuck(Pods::named("^a"), Stuck::Pending),
            Stage::ready_after(Pods::labelled("app", "b"), Duration::from_secs(3)),
        ];
        let documents = parse(&config(READY, &stages).unwrap()).unwrap();
        let selects = |stage: &Value, operator: &str| -> Vec<String> {
            let all = stage["spec"]["selector"]["matchExpressions"]
                .as_array()
                .unwrap();
            let of = all
                .iter()
                .filter(|one| one["operator"] == operator && one["values"] == json!(["true"]));
            of.map(|one| one["key"].as_str().unwrap().to_owned())
                .filter(|key| key.contains(".metadata."))
                .collect()
        };
        let (a, b) = (
            r#".metadata.name | test("^a")"#,
            r#".metadata.labels["app"] == "b""#,
        );
        let [first, second, ready] = documents.as_slice() else {
            panic!("{documents:?}")
        };
        assert_eq!(
            (selects(first, "In"), selects(first, "NotIn")),
            (vec![a.into()], vec![])
        );
        assert_eq!(
            (selects(second, "In"), selects(second, "NotIn")),
            (vec![b.into()], vec![a.into()])
        );
        assert_eq!(
            (selects(ready, "In"), selects(ready, "NotIn")),
            (vec![], vec![a.into(), b.into()])
        );
        assert_eq!(second["spec"]["delay"]["durationMilliseconds"], 3000);
    }

    #[test]
    fn stages_of_another_make_are_refused() {
        assert!(
            config("kind: Stage", &[])
                .unwrap_err()
                .to_string()
                .contains("pod-ready")
        );
    }
}
