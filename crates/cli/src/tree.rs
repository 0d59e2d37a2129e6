//! How the state of a domain is shown.

use serde_json::{Value, json};
use weft_cluster_network::room::Room;
use weft_plan::{Kind, Live, ObjectKey, dropped, kinds, rollout::Rollout, text};
use weft_runtime::inspect::overview::{Component, Overview, Presence, Workload};

use crate::{
    addresses,
    domains::Entry,
    leftovers::Leftovers,
    mood::Mood,
    online::{Site, how_to_free},
    output::Style,
    policies::Policies,
};

/// The state of a domain.
pub struct Domain {
    entry: &'static Entry,
    /// The operator's Deployment and image, if there is one.
    operator: Option<(String, String)>,
    /// True if the cluster serves the kind of its resource.
    pub installed: bool,
    /// True if the user may read its resources.
    pub is_readable: bool,
    /// The Lease of the domain.
    lease: ObjectKey,
    /// How to install Weft for the domain.
    how_to_install: String,
    /// The operators of the domain.
    pub presence: Presence,
    /// True if the leader is an operator of Weft or a pod, and has not fallen silent.
    pub alive: bool,
    /// The resources of the domain, with their state.
    pub resources: Vec<Overview>,
    /// The policies of nodes' networks, and the reports of nodes.
    pub policies: Policies,
    /// True if the user names resources, and the others are left out.
    pub is_narrowed: bool,
    /// The names of the resources that are left out.
    pub left_out: Vec<String>,
    /// A text for each resource in a namespace that the operator does not serve.
    pub unserved: Vec<String>,
    /// The room in the pods' blocks of addresses.
    pub rooms: Vec<Room>,
    /// A text about MAC addresses that several machines use.
    pub mac_collisions: Option<String>,
    /// A text about fields that the API server drops, where the command has looked for them.
    pub dropped: Option<String>,
    /// The objects that the replaced operator has left, where the command has looked for them.
    pub leftovers: Option<Leftovers>,
}

/// A part of an installation that is missing, by the line that shows it.
#[derive(Clone, Copy, PartialEq)]
enum Gap {
    /// Another operator runs. It has a line.
    Blocked,
    /// No replica leads. The line of the operator says so.
    Leader,
    /// Another part, which needs a line.
    Other,
}

/// A state that is not as the user wants it.
pub struct Trouble {
    /// Kind and name of the resource, or the domain.
    pub about: String,
    /// How bad it is.
    pub mood: Mood,
    /// The cause.
    pub message: String,
}

impl Domain {
    /// Returns the known facts before the command reads any resource.
    pub fn of(site: &Site, presence: Presence, alive: bool) -> Self {
        Self {
            entry: site.entry,
            operator: site
                .operator
                .as_ref()
                .map(|operator| (operator.workload.human(), operator.image.clone())),
            installed: false,
            is_readable: true,
            lease: site.lease(),
            how_to_install: site.how_to_install.clone(),
            presence,
            alive,
            resources: Vec::new(),
            policies: Policies::default(),
            is_narrowed: false,
            left_out: Vec::new(),
            unserved: Vec::new(),
            rooms: Vec::new(),
            mac_collisions: None,
            dropped: None,
            leftovers: None,
        }
    }

    /// The name of the domain, as on the command line.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// Reports whether the cluster serves the domain's resource, or an operator for it is deployed.
    pub fn is_there(&self) -> bool {
        self.installed || self.operator.is_some()
    }

    /// Reports whether Weft is installed for the domain, or something needs it. The definitions alone,
    /// which `weft uninstall` keeps, do not count.
    pub fn is_in_use(&self) -> bool {
        self.operator.is_some()
            || self.alive
            || !self.is_readable
            || !self.resources.is_empty()
            || !self.policies.policies.is_empty()
    }

    /// Reports whether there is no resource, policy or node to show.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.policies.policies.is_empty()
            && self.policies.nodes.is_empty()
    }

    /// Reports whether there is a resource or a policy and all is well with all of them.
    pub fn is_available(&self) -> bool {
        let policies = &self.policies.policies;
        !(self.resources.is_empty() && policies.is_empty())
            && self.resources.iter().all(Overview::is_available)
            && policies.iter().all(|policy| policy.mood <= Mood::Notice)
    }

    /// Returns the states that are not as the user wants them, those of the installation first.
    pub fn troubles(&self) -> Vec<Trouble> {
        let bad = |message: String| Trouble {
            about: self.name().to_owned(),
            mood: Mood::Bad,
            message,
        };
        let gaps = self.installation().into_iter();
        let mut all: Vec<_> = gaps.map(|(_, message)| bad(message)).collect();
        for overview in &self.resources {
            let mood = mood(self.kind(), overview);
            if mood > Mood::Good {
                all.push(Trouble {
                    about: self.title(overview),
                    mood,
                    message: cause(self.kind(), overview),
                });
            }
        }
        all.extend(self.mac_collisions.as_ref().map(|message| Trouble {
            about: "KubeMacPool".to_owned(),
            mood: Mood::Notice,
            message: message.clone(),
        }));
        for policy in &self.policies.policies {
            if policy.mood > Mood::Good {
                all.push(Trouble {
                    about: policy.title(),
                    mood: policy.mood,
                    message: policy.cause(),
                });
            }
        }
        for node in &self.policies.nodes {
            if node.mood > Mood::Good {
                all.push(Trouble {
                    about: format!("node {}", node.name),
                    mood: node.mood,
                    message: node.message.clone(),
                });
            }
        }
        all
    }

    /// Returns the missing parts of the installation, as far as anything needs them.
    fn installation(&self) -> Vec<(Gap, String)> {
        let (kind, name) = (self.kind(), self.name());
        let unknown = |kind: &Kind| {
            format!(
                "the cluster does not know {} ({})",
                kind.kind,
                kind.api_version()
            )
        };
        let mut all = Vec::new();
        let mut add = |gap, message| all.push((gap, message));
        let install = &self.how_to_install;
        if let (true, false, Some((deployment, _))) =
            (self.is_readable, self.installed, &self.operator)
        {
            add(
                Gap::Other,
                format!("{}, which {deployment} serves; {install}", unknown(&kind)),
            );
        }
        if !self.is_readable || !self.installed {
            return all;
        }
        for unserved in &self.unserved {
            add(Gap::Other, unserved.clone());
        }
        for missing in &self.policies.missing {
            add(Gap::Other, format!("{}; {install}", unknown(missing)));
        }
        let has_policies = !self.policies.policies.is_empty();
        let is_used = !self.is_empty();
        let has_leader = self.alive || !self.presence.is_leader_known;
        match (&self.presence.blocked, &self.operator) {
            (Some(blocked), _) if is_used => {
                add(Gap::Blocked, format!("blocked: {}", blocked.message));
            }
            (_, Some(_)) if !has_leader => add(Gap::Leader, self.operator(Style::plain())),
            (_, None) if !has_leader && is_used => add(
                Gap::Other,
                format!("no operator of Weft is installed for {name}; {install}"),
            ),
            _ => {}
        }
        // An operator may serve domains that you do not use, so a domain without a resource is
        // trouble only where something needs it.
        if self.resources.is_empty() && self.left_out.is_empty() && has_policies {
            add(
                Gap::Other,
                format!(
                    "there are policies and no {}, so no agent carries them out",
                    kind.kind
                ),
            );
        }
        all
    }

    /// Returns the missing parts of the installation, also of one that nothing needs yet.
    pub fn gaps(&self) -> Vec<String> {
        if !self.is_readable || !self.installed {
            return vec![self.nothing()];
        }
        let mut gaps: Vec<String> = self
            .policies
            .missing
            .iter()
            .map(|kind| {
                format!(
                    "the cluster does not know {} ({}); {}",
                    kind.kind,
                    kind.api_version(),
                    self.how_to_install
                )
            })
            .collect();
        match &self.presence.blocked {
            // The definitions may be those of that operator.
            Some(blocked) => {
                gaps.push(format!("blocked: {}", blocked.message));
                return gaps;
            }
            // A Lease that the user may not read says as little as none.
            None if !self.alive => gaps.push(self.operator(Style::plain())),
            None => {}
        }
        gaps.extend(self.dropped.clone());
        gaps
    }

    /// The kind of its resource.
    pub fn kind(&self) -> Kind {
        self.entry.resource
    }

    fn title(&self, overview: &Overview) -> String {
        format!(
            "{} {}{}",
            self.kind().kind,
            namespace(overview),
            name(overview)
        )
    }

    /// Returns the line about a domain that has no resource.
    pub fn nothing(&self) -> String {
        let (kind, name) = (self.kind().kind, self.name());
        if !self.is_readable {
            format!("you may not read {}", self.kind().plural)
        } else if self.installed {
            format!(
                "there is no {kind}. Have an example: weft manifests -o DIR; then: weft plan -f FILE, kubectl apply -f FILE"
            )
        } else {
            format!(
                "Weft is not installed for {name}: the cluster does not know {kind}; {}",
                self.how_to_install
            )
        }
    }

    /// Returns the lines of the domain, for people: all, or only those about trouble.
    pub fn lines(&self, style: Style, only_trouble: bool) -> Vec<String> {
        let is_shown = |mood: Mood| !only_trouble || mood > Mood::Good;
        let mut lines = Vec::new();
        let has_blocker = self.presence.blocked.is_some();
        let gaps = self.installation();
        if self.resources.is_empty() && !self.is_narrowed && !only_trouble {
            lines.push(self.nothing());
        }
        for overview in &self.resources {
            if is_shown(mood(self.kind(), overview)) {
                resource(
                    &mut lines,
                    self.kind(),
                    overview,
                    style,
                    only_trouble,
                    has_blocker,
                );
            }
        }
        if !only_trouble {
            lines.extend(self.rooms.iter().map(|room| addresses::line(room, style)));
        }
        if let Some(message) = &self.mac_collisions {
            let title = Mood::Notice.paint(style, "KubeMacPool");
            lines.push(format!("{title}: {message}"));
        }
        for policy in &self.policies.policies {
            if is_shown(policy.mood) {
                lines.extend(policy.lines(style));
            }
        }
        lines.extend(self.nodes(style, only_trouble));
        if let Some(blocked) = &self.presence.blocked
            && (!only_trouble || !gaps.is_empty())
        {
            lines.push(format!("{}: {}", style.bad("blocked"), blocked.message));
        }
        for (gap, message) in &gaps {
            if *gap == Gap::Other {
                lines.push(format!("{}: {message}", style.bad("problem")));
            }
        }
        if !only_trouble {
            lines.extend(self.hint(style));
        }
        lines
    }

    /// Returns a line about what the replaced operator has left. It is no problem.
    pub fn hint(&self, style: Style) -> Option<String> {
        let leftovers = self.leftovers.as_ref()?;
        Some(format!(
            "{}: {}",
            style.pending("note"),
            leftovers.message()
        ))
    }

    /// The operator's Deployment, if there is one.
    pub fn deployment(&self) -> Option<&str> {
        let (deployment, _) = self.operator.as_ref()?;
        Some(deployment)
    }

    /// Reports whether the domain has an operator, and none of its replicas leads.
    pub fn is_led_by_none(&self) -> bool {
        let mut gaps = self.installation().into_iter();
        gaps.any(|(gap, _)| gap == Gap::Leader)
    }

    /// Returns the line about the operator, and where to look if it does not work.
    pub fn operator_lines(&self, style: Style) -> Vec<String> {
        if !self.installed {
            return Vec::new();
        }
        let title = style.dim("operator:");
        let mut lines = vec![format!("{title} {}", self.operator(style))];
        let place = self
            .deployment()
            .and_then(|deployment| deployment.split([' ', '/']).nth(1));
        if let (true, Some(namespace)) = (self.is_led_by_none(), place) {
            lines.push(format!(
                "  to see why: kubectl -n {namespace} get pods,events"
            ));
        }
        lines
    }

    /// A line about all nodes that are reported, and one for each that is not as it should be.
    fn nodes(&self, style: Style, only_trouble: bool) -> Vec<String> {
        let nodes = &self.policies.nodes;
        let troubled = nodes.iter().filter(|node| node.mood > Mood::Good);
        let bar = style.dim("│");
        let mut lines: Vec<_> = troubled.map(|node| node.line(style)).collect();
        if only_trouble || nodes.is_empty() {
            return lines;
        }
        for line in &mut lines {
            *line = format!("{bar} {line}");
        }
        let reported = nodes.iter().filter(|node| node.is_reported()).count();
        let title = style.bold("nodes");
        lines.insert(
            0,
            format!("{title}: {reported} of {} reported", nodes.len()),
        );
        lines
    }

    /// Returns the operator's Deployment and the leader of the domain, in a line.
    pub fn operator(&self, style: Style) -> String {
        let leader = match &self.presence.leader {
            Some(leader) if self.alive => format!("led by {}", leader.identity),
            Some(leader) if leader.is_ghost => style.bad(&format!(
                "no leader: {}; {}",
                leader.ghost(&self.lease),
                how_to_free(&self.lease)
            )),
            Some(leader) => {
                let since = leader.renewed.map(|time| format!(" since {time:.0}"));
                style.bad(&format!(
                    "no leader: {} has not renewed its lease{}",
                    leader.identity,
                    since.unwrap_or_default()
                ))
            }
            None if !self.presence.is_leader_known => "its leader is not known".to_owned(),
            None => style.bad("no leader: no operator is at work"),
        };
        match &self.operator {
            Some((deployment, image)) => format!("{deployment} ({image}), {leader}"),
            None => format!("no Deployment of Weft, {leader}"),
        }
    }

    /// Returns the state of the domain as JSON, for programs.
    pub fn json(&self) -> Value {
        let policies = self.policies.policies.iter();
        let nodes = self.policies.nodes.iter();
        json!({
            "domain": self.name(),
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
            "leftovers": self.leftovers.as_ref().map(Leftovers::json),
            "resources": self.resources.iter().map(|overview| resource_json(self.kind().kind, overview)).collect::<Vec<_>>(),
            "addresses": self.rooms.iter().map(addresses::json).collect::<Vec<_>>(),
            "policies": policies.map(|policy| policy.json()).collect::<Vec<_>>(),
            "nodes": nodes.map(|node| node.json()).collect::<Vec<_>>(),
        })
    }
}

impl Trouble {
    /// Returns the trouble in a line.
    pub fn line(&self) -> String {
        format!("{}: {}", self.about, self.message)
    }

    /// Returns the trouble as JSON, for programs.
    pub fn json(&self, domain: &str) -> Value {
        json!({
            "domain": domain,
            "about": self.about,
            "state": self.mood.word(),
            "message": self.message,
        })
    }
}

/// How bad the state of a resource is: by its status, and by its workloads as they are now.
fn mood(kind: Kind, overview: &Overview) -> Mood {
    let workloads = overview
        .components
        .iter()
        .flat_map(|component| &component.workloads)
        .map(|workload| match &workload.rollout {
            Some(Rollout::Stuck { .. }) => Mood::Bad,
            Some(Rollout::Progressing { .. }) => Mood::Pending,
            // The status says if that is wanted.
            None if workload.is_foreign => Mood::Good,
            None => Mood::Pending,
            Some(Rollout::Ready) => Mood::Good,
        });
    let status = &overview.resource["status"];
    let is_held = ["Paused", "Drifted", dropped::CONDITION]
        .iter()
        .any(|name| is_true(overview, name));
    let has_notices = status["notices"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let aside = if is_held || has_notices {
        Mood::Notice
    } else {
        Mood::Good
    };
    workloads
        .chain([summary(kind, overview).0, aside])
        .max()
        .unwrap_or(Mood::Good)
}

/// The state of a resource and its cause, in a line.
fn cause(kind: Kind, overview: &Overview) -> String {
    let mut causes: Vec<_> = shown_conditions(kind, overview, false)
        .into_iter()
        .map(|line| line.trim_end().to_owned())
        .collect();
    causes.extend(refused(&overview.resource["status"]["refusedChange"]));
    causes.extend(notices(overview).map(str::to_owned));
    let word = summary(kind, overview).1;
    if causes.is_empty() {
        let workloads = overview.components.iter().flat_map(|one| &one.workloads);
        let workloads = workloads.filter(|workload| workload.rollout != Some(Rollout::Ready));
        causes.extend(workloads.map(|workload| leaf(workload, Style::plain())));
    }
    match causes.is_empty() {
        true => word.to_owned(),
        false => format!("{word}: {}", causes.join("; ")),
    }
}

fn notices(overview: &Overview) -> impl Iterator<Item = &str> {
    overview.resource["status"]["notices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
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
fn summary(kind: Kind, overview: &Overview) -> (Mood, &'static str) {
    let unseen = (
        Mood::Pending,
        "the operator has not seen the latest change yet",
    );
    match () {
        () if overview.is_going() && is_true(overview, "Degraded") => (Mood::Bad, "being removed"),
        () if overview.is_going() => (Mood::Pending, "being removed"),
        () if kind == kinds::PLACEMENT_API => match () {
            () if overview.is_available() => (Mood::Good, "Ready"),
            () if !overview.is_seen() => unseen,
            () if is_step_failed(overview) => (Mood::Bad, "not Ready"),
            () => (Mood::Pending, "not Ready"),
        },
        () if is_true(overview, "Blocked") => (Mood::Bad, "Blocked"),
        () if overview.is_available() => (Mood::Good, "Available"),
        () if !overview.is_seen() => unseen,
        () if is_true(overview, "Degraded") => (Mood::Bad, "Degraded"),
        () if is_true(overview, dropped::CONDITION) => {
            (Mood::Bad, "the API server drops fields of it")
        }
        () if is_true(overview, "Progressing") => (Mood::Pending, "Progressing"),
        () => (Mood::Bad, "not Available"),
    }
}

/// Reports whether a step of a PlacementAPI has failed, or whether nothing continues there.
fn is_step_failed(overview: &Overview) -> bool {
    let is_failed = |condition: &Value| {
        matches!(condition["severity"].as_str(), Some("Warning" | "Error"))
            && condition["status"] == "False"
    };
    conditions(overview).any(is_failed) || is_true(overview, "Stalled")
}

/// The lines about conditions, without those that repeat others: Ready, Reconciling and Stalled,
/// and what the components say. `Available=False` refers to the others.
fn shown_conditions(kind: Kind, overview: &Overview, has_blocker: bool) -> Vec<String> {
    let line = |condition: &Value, message: &str| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        format!("{} {}: {message}", text("type"), text("reason"))
    };
    let message = |condition: &Value| {
        let message = condition["message"].as_str().unwrap_or_default();
        message.to_owned()
    };
    // The operator that blocks has a line of its own, if the user may see it.
    let is_told = |condition: &&Value| match condition["type"].as_str() {
        Some("Progressing" | "Degraded" | "Paused" | "Drifted" | dropped::CONDITION) => {
            condition["status"] == "True"
        }
        Some("Blocked") => condition["status"] == "True" && !has_blocker,
        // Of a PlacementAPI that is blocked, no step says so.
        Some("Ready") if kind == kinds::PLACEMENT_API => {
            condition["status"] == "Unknown" && is_true(overview, "Stalled") && !has_blocker
        }
        _ => false,
    };
    let mut lines = Vec::new();
    for condition in conditions(overview).filter(is_told) {
        let message = message(condition);
        let told = message
            .lines()
            .filter(|text| !is_told_below(text, overview));
        lines.extend(told.map(|text| line(condition, text)));
    }
    // Of a resource with a condition for each step, the steps that have begun and are not done.
    let is_step = |condition: &&Value| {
        !condition["severity"].is_null()
            && condition["type"] != "Ready"
            && condition["status"] == "False"
    };
    lines.extend(
        conditions(overview)
            .filter(is_step)
            .map(|step| line(step, &message(step))),
    );
    lines
}

fn resource(
    lines: &mut Vec<String>,
    kind: Kind,
    overview: &Overview,
    style: Style,
    only_trouble: bool,
    has_blocker: bool,
) {
    let (mood, word) = summary(kind, overview);
    let mut about = Vec::new();
    if let Some(version) = overview.resource["status"]["observedVersion"].as_str() {
        about.push(format!("version {version}"));
    }
    about.push(format!("generation {}", overview.generation()));
    let about = about.join(", ");
    let title = format!("{} {}{}", kind.kind, namespace(overview), name(overview));
    lines.push(format!(
        "{}: {} {}",
        style.bold(&title),
        mood.paint(style, word),
        style.dim(&format!("({about})"))
    ));
    for line in shown_conditions(kind, overview, has_blocker) {
        lines.push(format!("{} {line}", style.dim("│")));
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
    for notice in notices(overview) {
        lines.push(format!("{} notice: {notice}", style.dim("│")));
    }
    let is_shown = |component: &&Component| !only_trouble || state(component).0 > Mood::Good;
    let components: Vec<_> = overview.components.iter().filter(is_shown).collect();
    for (index, component) in components.iter().enumerate() {
        let last = index + 1 == components.len();
        branch(
            lines,
            component,
            &settings(component, overview),
            failures(overview),
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

/// Reports whether a component says so itself, or the workload whose rollout a line of a condition
/// is about.
fn is_told_below(line: &str, overview: &Overview) -> bool {
    overview.components.iter().any(|component| {
        let workload = |workload: &Workload| {
            workload.rollout != Some(Rollout::Ready) && is_of_rollout(line, workload)
        };
        let messages = component.messages.iter();
        messages
            .filter(|message| !message.is_empty())
            .any(|message| line.contains(message.as_str()))
            || component.workloads.iter().any(workload)
    })
}

/// Reports whether a line of a status is about the rollout of this workload. The live workload
/// knows that better.
fn is_of_rollout(line: &str, workload: &Workload) -> bool {
    let ObjectKey {
        kind,
        namespace,
        name,
    } = &workload.object;
    let name = format!("{}/{name}", namespace.as_deref().unwrap_or_default());
    line.starts_with(&format!("{} {name:?} ", kind.kind))
}

/// Returns the message about the failures of the latest reconcile, such as a missing right. Pods in
/// trouble are not among them.
fn failures(overview: &Overview) -> &str {
    let is_failure = |condition: &&Value| {
        condition["type"] == "Degraded"
            && condition["status"] == "True"
            && condition["reason"] != "RolloutStuck"
    };
    let degraded = conditions(overview).find(is_failure);
    degraded.map_or("", |condition| text(condition, "message"))
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
    failures: &str,
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
        state.0.paint(style, &state.1),
        style.dim(settings)
    ));
    let workloads = component
        .workloads
        .iter()
        .map(|workload| leaf(workload, style));
    // The workload's own status is newer than what the resource says of its rollout.
    let messages = component.messages.iter().filter(|message| {
        let is_about =
            |workload: &Workload| message.starts_with(&format!("{}: ", workload.object.human()));
        failures.contains(message.as_str()) || !component.workloads.iter().any(is_about)
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
        "NotDeployed" => Mood::Notice,
        "Progressing" => Mood::Pending,
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
    use weft_plan::kinds;

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
        super::resource(
            &mut lines,
            kinds::NETWORK_CONFIG,
            &overview,
            Style::stdout(),
            false,
            false,
        );
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
    fn a_failure_about_a_workload_is_shown_and_its_older_rollout_is_not() {
        let object = ObjectKey::new(kinds::DAEMON_SET, "n", "multus");
        let failure = "DaemonSet n/multus: you may not create daemonsets";
        let component = Component {
            name: "multus".to_owned(),
            state: "Degraded".to_owned(),
            messages: vec![
                failure.to_owned(),
                "DaemonSet n/multus: does not exist yet".to_owned(),
            ],
            objects: 1,
            workloads: vec![Workload {
                object,
                ready: 0,
                desired: 0,
                rollout: None,
                is_foreign: false,
            }],
        };
        let mut overview = with_conditions(json!([
            {"type": "Degraded", "status": "True", "reason": "FailedToApply",
             "message": format!("multus: {failure}")},
            {"type": "Progressing", "status": "True", "reason": "Deploying",
             "message": "DaemonSet \"n/multus\" does not exist yet"}
        ]));
        overview.components.push(component);
        let mut lines = Vec::new();
        super::resource(
            &mut lines,
            kinds::NETWORK_ADDONS_CONFIG,
            &overview,
            Style::plain(),
            false,
            false,
        );
        assert_eq!(
            lines[1..],
            [
                "└─ multus Degraded".to_owned(),
                format!("   ├─ {failure}"),
                "   └─ DaemonSet multus is not there".to_owned()
            ],
            "{lines:#?}"
        );
    }

    fn with_conditions(conditions: Value) -> Overview {
        let resource = json!({
            "metadata": {"name": "x", "generation": 1},
            "status": {"observedGeneration": 1, "conditions": conditions}
        });
        Overview {
            resource,
            components: Vec::new(),
        }
    }

    #[test]
    fn ready_tells_no_kind_and_a_degraded_resource_is_unhealthy() {
        let one = |name: &str, status: &str| {
            json!({
                "type": name, "status": status, "reason": "Because", "message": "m",
                "observedGeneration": 1
            })
        };
        let degraded = with_conditions(json!([
            one("Available", "True"),
            one("Progressing", "False"),
            one("Degraded", "True"),
            one("Ready", "False"),
            one("Stalled", "True")
        ]));
        let addons = kinds::NETWORK_ADDONS_CONFIG;
        assert_eq!(summary(addons, &degraded), (Mood::Bad, "Degraded"));
        assert_eq!(mood(addons, &degraded), Mood::Bad);
        assert_eq!(
            shown_conditions(addons, &degraded, false),
            ["Degraded Because: m"]
        );
        assert_eq!(cause(addons, &degraded), "Degraded: Degraded Because: m");
        // Even where another program says that it is Ready.
        let contradictory = with_conditions(json!([one("Degraded", "True"), one("Ready", "True")]));
        assert_eq!(summary(addons, &contradictory).0, Mood::Bad);
        let mut lossy = with_conditions(json!([
            one("Available", "True"),
            one("FieldsDropped", "True"),
            one("Ready", "False")
        ]));
        lossy.resource["status"]["observedGeneration"] = Value::Null;
        assert_eq!(summary(addons, &lossy).0, Mood::Bad, "no wait would end");
        assert_eq!(
            shown_conditions(addons, &lossy, false),
            ["FieldsDropped Because: m"]
        );
        let well = with_conditions(json!([one("Available", "True"), one("Ready", "True")]));
        assert_eq!(summary(addons, &well), (Mood::Good, "Available"));
        let busy = with_conditions(json!([
            one("Available", "False"),
            one("Progressing", "True"),
            one("Ready", "False"),
            one("Reconciling", "True")
        ]));
        assert_eq!(summary(addons, &busy), (Mood::Pending, "Progressing"));
        assert_eq!(
            shown_conditions(addons, &busy, false),
            ["Progressing Because: m"]
        );
    }

    #[test]
    fn a_step_of_a_placement_api_that_failed_is_shown_once() {
        let step = json!({
            "type": "DBReady", "status": "False", "severity": "Warning", "reason": "Error",
            "message": "no database"
        });
        let ready = json!({
            "type": "Ready", "status": "False", "severity": "Warning", "reason": "Error",
            "message": "no database"
        });
        let stalled = json!({"type": "Stalled", "status": "True", "message": "no database"});
        let failed = with_conditions(json!([ready, step, stalled]));
        let placement = kinds::PLACEMENT_API;
        assert_eq!(summary(placement, &failed), (Mood::Bad, "not Ready"));
        assert_eq!(
            shown_conditions(placement, &failed, false),
            ["DBReady Error: no database"]
        );
        let blocked = with_conditions(json!([
            {"type": "Ready", "status": "Unknown", "reason": "OtherOperatorRunning", "message": "m"},
            {"type": "Stalled", "status": "True", "reason": "OtherOperatorRunning", "message": "m"}
        ]));
        assert_eq!(summary(placement, &blocked).0, Mood::Bad);
        assert_eq!(
            shown_conditions(placement, &blocked, false),
            ["Ready OtherOperatorRunning: m"]
        );
        assert!(shown_conditions(placement, &blocked, true).is_empty());
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
