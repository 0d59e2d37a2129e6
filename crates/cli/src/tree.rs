//! How the state of a domain is shown.

use serde_json::{Value, json};
use weft_plan::{Live, rollout::Rollout};
use weft_runtime::inspect::overview::{Component, Overview, Presence, Workload};

use crate::{
    online::{HOW_TO_INSTALL, Site},
    output::Style,
};

/// The state of a domain.
pub struct Domain {
    /// As on the command line.
    pub name: &'static str,
    /// The kind of its resource.
    pub kind: &'static str,
    /// The operator's Deployment and image, if there is one.
    pub operator: Option<(String, String)>,
    /// True if the cluster serves the kind.
    pub installed: bool,
    /// The operators of the domain.
    pub presence: Presence,
    /// True if the leader has not fallen silent.
    pub alive: bool,
    /// The resources of the domain, with their state.
    pub resources: Vec<Overview>,
}

impl Domain {
    /// Returns the known facts before the command reads any resource.
    pub fn of(site: &Site, presence: Presence, alive: bool) -> Self {
        Self {
            name: site.entry.name,
            kind: site.entry.resource.kind,
            operator: site
                .operator
                .as_ref()
                .map(|operator| (operator.workload.human(), operator.image.clone())),
            installed: false,
            presence,
            alive,
            resources: Vec::new(),
        }
    }

    /// Reports whether there is a resource and all is well with it.
    pub fn is_available(&self) -> bool {
        !self.resources.is_empty() && self.resources.iter().all(Overview::is_available)
    }

    /// The state in a line, for the progress of a wait.
    pub fn headline(&self) -> String {
        match self.resources.first() {
            None => self.nothing(),
            Some(overview) => format!(
                "{} {}{}: {}",
                self.kind,
                namespace(overview),
                name(overview),
                summary(overview).1
            ),
        }
    }

    fn nothing(&self) -> String {
        if self.installed {
            format!(
                "there is no {}. Have an example: weft manifests -o DIR; then: weft plan -f FILE, kubectl apply -f FILE",
                self.kind
            )
        } else {
            format!(
                "Weft is not installed for {}: the cluster does not know {}; {HOW_TO_INSTALL}",
                self.name, self.kind
            )
        }
    }

    /// Returns the lines of the domain, for people.
    pub fn lines(&self, style: Style) -> Vec<String> {
        let mut lines = Vec::new();
        if self.resources.is_empty() {
            lines.push(self.nothing());
        }
        for overview in &self.resources {
            resource(&mut lines, self.kind, overview, style);
        }
        if let Some(blocked) = &self.presence.blocked {
            lines.push(format!("{}: {}", style.bad("blocked"), blocked.message));
        }
        if self.installed {
            lines.push(format!(
                "{} {}",
                style.dim("operator:"),
                self.operator(style)
            ));
        }
        lines
    }

    fn operator(&self, style: Style) -> String {
        let leader = match &self.presence.leader {
            Some(leader) if self.alive => format!("led by {}", leader.identity),
            Some(leader) => style.bad(&format!(
                "no leader: {} has not renewed its lease since {:.0}",
                leader.identity, leader.renewed
            )),
            None => style.bad("no leader: nobody is at work"),
        };
        match &self.operator {
            Some((deployment, image)) => format!("{deployment} ({image}), {leader}"),
            None => format!("no Deployment of Weft, {leader}"),
        }
    }

    /// Returns the state of the domain as JSON, for programs.
    pub fn json(&self) -> Value {
        json!({
            "domain": self.name,
            "installed": self.installed,
            "available": self.is_available(),
            "operator": {
                "deployment": self.operator.as_ref().map(|(deployment, _)| deployment.trim_start_matches("Deployment ")),
                "image": self.operator.as_ref().map(|(_, image)| image),
                "leader": self.presence.leader.as_ref().map(|leader| &leader.identity),
                "alive": self.alive,
            },
            "blocked": self.presence.blocked.as_ref().map(|blocked| json!({
                "reason": blocked.reason, "message": blocked.message
            })),
            "resources": self.resources.iter().map(|overview| resource_json(self.kind, overview)).collect::<Vec<_>>(),
        })
    }
}

enum Mood {
    Good,
    Pending,
    Bad,
}

fn paint(style: Style, mood: &Mood, text: &str) -> String {
    match mood {
        Mood::Good => style.good(text),
        Mood::Pending => style.pending(text),
        Mood::Bad => style.bad(text),
    }
}

fn name(overview: &Overview) -> &str {
    Live::of(&overview.resource).name()
}

/// With a slash. Empty for what has none.
fn namespace(overview: &Overview) -> String {
    overview.resource["metadata"]["namespace"]
        .as_str()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default()
}

fn conditions(overview: &Overview) -> impl Iterator<Item = &Value> {
    overview.resource["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
}

fn is_true(overview: &Overview, kind: &str) -> bool {
    conditions(overview).any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The state in a word, as far as it is known about the current generation.
fn summary(overview: &Overview) -> (Mood, &'static str) {
    let ready = conditions(overview).find(|condition| condition["type"] == "Ready");
    match () {
        () if overview.is_going() => (Mood::Pending, "being removed"),
        () if ready.is_some() && overview.is_available() => (Mood::Good, "Ready"),
        () if ready.is_some() && !overview.is_seen() => (
            Mood::Pending,
            "the operator has not seen the latest change yet",
        ),
        () if let Some(ready) = ready => (
            if ready["severity"] == "Warning" {
                Mood::Bad
            } else {
                Mood::Pending
            },
            "not Ready",
        ),
        () if is_true(overview, "Blocked") => (Mood::Bad, "Blocked"),
        () if overview.is_available() => (Mood::Good, "Available"),
        () if !overview.is_seen() => (
            Mood::Pending,
            "the operator has not seen the latest change yet",
        ),
        () if is_true(overview, "Degraded") => (Mood::Bad, "Degraded"),
        () if is_true(overview, "Progressing") => (Mood::Pending, "Progressing"),
        () => (Mood::Bad, "not Available"),
    }
}

fn resource(lines: &mut Vec<String>, kind: &str, overview: &Overview, style: Style) {
    let (mood, word) = summary(overview);
    let mut about = Vec::new();
    if let Some(version) = overview.resource["status"]["observedVersion"].as_str() {
        about.push(format!("version {version}"));
    }
    about.push(format!("generation {}", overview.generation()));
    let about = about.join(", ");
    lines.push(format!(
        "{}: {} {}",
        style.bold(&format!("{kind} {}{}", namespace(overview), name(overview))),
        paint(style, &mood, word),
        style.dim(&format!("({about})"))
    ));
    // Available=False refers to the others, and the operator that blocks has a line of its own.
    let told = |condition: &&Value| {
        matches!(
            condition["type"].as_str(),
            Some("Progressing" | "Degraded" | "Paused" | "Drifted")
        )
    };
    for condition in conditions(overview)
        .filter(|condition| condition["status"] == "True")
        .filter(told)
    {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        for line in text("message")
            .lines()
            .filter(|line| !is_told_below(line, overview))
        {
            lines.push(format!(
                "{} {} {}: {line}",
                style.dim("│"),
                text("type"),
                text("reason")
            ));
        }
    }
    // Of a resource with a condition for each step, the steps that have begun and are not done.
    let is_step = |condition: &&Value| {
        !condition["severity"].is_null()
            && condition["type"] != "Ready"
            && condition["status"] == "False"
    };
    for step in conditions(overview).filter(is_step) {
        let text = |field: &str| step[field].as_str().unwrap_or_default();
        lines.push(format!(
            "{} {} {}: {}",
            style.dim("│"),
            text("type"),
            text("reason"),
            text("message")
        ));
    }
    for line in overview.resource["status"]["drift"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(drifted)
    {
        lines.push(format!("{} {}", style.dim("│"), style.pending(&line)));
    }
    for line in refused(&overview.resource["status"]["refusedChange"]) {
        lines.push(format!("{} {}", style.dim("│"), style.bad(&line)));
    }
    for notice in overview.resource["status"]["notices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        lines.push(format!("{} notice: {notice}", style.dim("│")));
    }
    for (index, component) in overview.components.iter().enumerate() {
        let last = index + 1 == overview.components.len();
        branch(
            lines,
            component,
            &settings(component, overview),
            last,
            style,
        );
    }
}

/// A line for each field of a change that is not carried out, and one for the way out.
fn refused(change: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = change["fields"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = fields
        .map(|field| {
            format!(
                "refused: {}: {} -> {}: {}",
                text(&field["field"]),
                text(&field["old"]),
                text(&field["new"]),
                text(&field["reason"])
            )
        })
        .collect();
    if !lines.is_empty() {
        lines.push(format!("  {}", text(&change["wayOut"])));
    }
    lines
}

/// A line for the object, and one for each field.
fn drifted(object: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("nothing").to_owned();
    let place = object["namespace"]
        .as_str()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let title = format!(
        "{} {place}{}: {}",
        Live::of(object).kind().to_owned(),
        text(&object["name"]),
        text(&object["state"])
    );
    let fields = object["fields"].as_array().into_iter().flatten();
    let fields = fields.map(|field| {
        let by = field["addedBy"]
            .as_str()
            .map(|by| format!(", added by {by}"))
            .unwrap_or_default();
        format!(
            "  {} is {}, should be {}{by}",
            text(&field["path"]),
            text(&field["actual"]),
            text(&field["desired"])
        )
    });
    std::iter::once(title).chain(fields).collect()
}

/// Reports whether a component says so itself, or the workload that a line of a condition is about.
fn is_told_below(line: &str, overview: &Overview) -> bool {
    overview.components.iter().any(|component| {
        let workload = |workload: &Workload| {
            workload.rollout != Some(Rollout::Ready) && line.contains(&workload.object.name)
        };
        component
            .messages
            .iter()
            .any(|message| line.contains(message.as_str()))
            || component.workloads.iter().any(workload)
    })
}

/// Returns the settings of a component, with defaults for open fields.
fn settings(component: &Component, overview: &Overview) -> String {
    let effective =
        overview.resource["status"]["effectiveConfiguration"][&component.name].as_object();
    let settings = effective
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some(format!("{name} {}", value.as_str()?)));
    let settings = settings.collect::<Vec<_>>().join(", ");
    if settings.is_empty() {
        settings
    } else {
        format!(" ({settings})")
    }
}

fn branch(
    lines: &mut Vec<String>,
    component: &Component,
    settings: &str,
    last: bool,
    style: Style,
) {
    let (turn, rail) = if last {
        ("└─", "   ")
    } else {
        ("├─", "│  ")
    };
    let state = state(component);
    lines.push(format!(
        "{} {} {}{}",
        style.dim(turn),
        component.name,
        paint(style, &state.0, &state.1),
        style.dim(settings)
    ));
    let workloads = component
        .workloads
        .iter()
        .map(|workload| leaf(workload, style));
    // The workload's own status is newer than the resource's.
    let messages = component.messages.iter().filter(|message| {
        !component
            .workloads
            .iter()
            .any(|workload| message.contains(&workload.object.name))
    });
    let leaves: Vec<_> = messages
        .map(|message| message.to_owned())
        .chain(workloads)
        .collect();
    for (index, leaf) in leaves.iter().enumerate() {
        let turn = if index + 1 == leaves.len() {
            "└─"
        } else {
            "├─"
        };
        lines.push(format!("{} {leaf}", style.dim(&format!("{rail}{turn}"))));
    }
}

/// The state of a component: its workloads know better than an older status.
fn state(component: &Component) -> (Mood, String) {
    let rollouts = || {
        component
            .workloads
            .iter()
            .map(|workload| workload.rollout.as_ref())
    };
    let said = component.state.as_str();
    let mood = match said {
        "Available" | "" => Mood::Good,
        "Progressing" | "NotDeployed" => Mood::Pending,
        _ => Mood::Bad,
    };
    if !matches!(mood, Mood::Bad) {
        if rollouts().any(|rollout| matches!(rollout, None | Some(Rollout::Stuck { .. }))) {
            return (Mood::Bad, "not ready".to_owned());
        }
        if rollouts().any(|rollout| matches!(rollout, Some(Rollout::Progressing { .. }))) {
            return (Mood::Pending, "Progressing".to_owned());
        }
    }
    let plural = if component.objects == 1 {
        "object"
    } else {
        "objects"
    };
    (
        mood,
        if said.is_empty() {
            format!("{} {plural}", component.objects)
        } else {
            said.to_owned()
        },
    )
}

fn leaf(workload: &Workload, style: Style) -> String {
    let Workload {
        object,
        ready,
        desired,
        rollout,
        is_foreign,
    } = workload;
    let title = format!("{} {}", object.kind.kind, object.name);
    let count = format!("{ready}/{desired} ready");
    match rollout {
        None if *is_foreign => format!("{title} {}", style.bad("exists and is not Weft's")),
        None => format!("{title} {}", style.bad("is not there")),
        Some(Rollout::Ready) => format!("{title} {}", style.good(&count)),
        Some(Rollout::Progressing { message, .. }) => {
            format!("{title} {}: {message}", style.pending(&count))
        }
        Some(Rollout::Stuck { message, .. }) => format!("{title} {}: {message}", style.bad(&count)),
    }
}

fn resource_json(kind: &str, overview: &Overview) -> Value {
    let status = &overview.resource["status"];
    json!({
        "kind": kind,
        "namespace": overview.resource["metadata"]["namespace"],
        "name": name(overview),
        "available": overview.is_available(),
        "generation": overview.generation(),
        "observedGeneration": status["observedGeneration"],
        "version": status["observedVersion"],
        "deleting": overview.is_going(),
        "conditions": conditions(overview).collect::<Vec<_>>(),
        "effectiveConfiguration": status["effectiveConfiguration"],
        "drift": status["drift"].as_array().cloned().unwrap_or_default(),
        "notices": status["notices"].as_array().cloned().unwrap_or_default(),
        "refusedChange": status["refusedChange"],
        "components": overview.components.iter().map(component_json).collect::<Vec<_>>(),
    })
}

fn component_json(component: &Component) -> Value {
    json!({
        "name": component.name,
        "state": component.state,
        "messages": component.messages,
        "objects": component.objects,
        "workloads": component.workloads.iter().map(workload_json).collect::<Vec<_>>(),
    })
}

fn workload_json(workload: &Workload) -> Value {
    let (state, message) = match &workload.rollout {
        None if workload.is_foreign => ("foreign", None),
        None => ("missing", None),
        Some(Rollout::Ready) => ("ready", None),
        Some(Rollout::Progressing { message, .. }) => ("progressing", Some(message)),
        Some(Rollout::Stuck { message, .. }) => ("stuck", Some(message)),
    };
    json!({
        "kind": workload.object.kind.kind,
        "namespace": workload.object.namespace,
        "name": workload.object.name,
        "ready": workload.ready,
        "desired": workload.desired,
        "state": state,
        "message": message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_plan::{ObjectKey, kinds};

    #[test]
    fn a_refused_change_and_notices_are_shown() {
        let change = json!({
            "fields": [
                {"field": "spec.x", "old": "1", "new": "2", "reason": "it cuts connections"}
            ],
            "wayOut": "set it back"
        });
        let resource = json!({
            "metadata": {"name": "default"},
            "status": {"refusedChange": change, "notices": ["nodes differ in their MTU"]}
        });
        let overview = Overview {
            resource,
            components: Vec::new(),
        };
        let mut lines = Vec::new();
        super::resource(&mut lines, "NetworkConfig", &overview, Style::stdout());
        let text = lines.join("\n");
        for line in [
            "refused: spec.x: 1 -> 2: it cuts connections",
            "  set it back",
            "notice: nodes differ in their MTU",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let shown = resource_json("NetworkConfig", &overview);
        assert_eq!(
            (&shown["notices"][0], &shown["refusedChange"]),
            (&json!("nodes differ in their MTU"), &change)
        );
    }

    #[test]
    fn a_workload_of_another_owner_is_not_called_missing() {
        let object = ObjectKey::new(kinds::DAEMON_SET, "kube-system", "kube-proxy");
        let workload = |is_foreign| Workload {
            object: object.clone(),
            ready: 0,
            desired: 0,
            rollout: None,
            is_foreign,
        };
        assert!(leaf(&workload(true), Style::stdout()).contains("exists and is not Weft's"));
        assert!(leaf(&workload(false), Style::stdout()).contains("is not there"));
        assert_eq!(workload_json(&workload(true))["state"], "foreign");
    }
}
