//! A look at all resources: their truth, and the verdicts of status and of the tools.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_plan::{PAUSE_ANNOTATION, kinds};
use weft_testenv::{
    health::{Verdicts, judge},
    proxy::Match,
};

use super::{
    deeds, policies,
    troubles::{MARKER, Trouble, is_image_only},
    truth::{Truth, surplus},
    verdict::{Words, violations},
    wanted::{Wanted, owner_label},
    world::{ADD_ONS, NETWORK, PLACEMENT, World},
};

/// A resource at one look.
pub struct Seen {
    pub title: String,
    /// `None` if there is no such resource.
    pub live: Option<Value>,
    /// The words that the tools must say.
    words: Words,
    /// The truth for people.
    pub lines: Vec<String>,
    pub violations: Vec<String>,
}

/// The observer remembers this of a look if status agrees with the truth.
struct Learned {
    is_there: bool,
    is_paused: bool,
    wanted: Vec<Wanted>,
    in_force: Option<(Value, Vec<Wanted>)>,
}

impl World {
    /// How many writes of the operator there were.
    fn writes(&self) -> usize {
        let work = Match::any().user(&self.user).writes();
        self.proxy
            .writes()
            .iter()
            .filter(|write| work.selects(&write.info))
            .count()
    }

    /// Looks at everything once. `Err` says what is wrong.
    pub async fn look(&mut self) -> Result<(), String> {
        self.play().await;
        let writes = self.writes();
        let (mut seen, mut learned) = (Vec::new(), Vec::new());
        for index in 0..self.subjects.len() {
            let (one, of_subject) = self.see(index).await;
            seen.push(one);
            learned.push(of_subject);
        }
        let policy = policies::look(&self.cluster, &self.renderer).await;
        seen.push(Seen {
            title: policies::key().human(),
            live: policy.live,
            words: policy.words,
            lines: policy.lines,
            violations: policy.violations,
        });
        let verdicts = self.ask_tools(&mut seen);
        if seen.iter().any(|one| !one.violations.is_empty()) {
            return Err(self.report(&seen, &verdicts));
        }
        if self.writes() != writes {
            return Err(format!(
                "WEFT_SEED={}: the operator writes on and on",
                self.seed
            ));
        }
        for (subject, learned) in self.subjects.iter_mut().zip(learned) {
            let kinds = learned.wanted.iter().map(|one| one.key.kind);
            subject.kinds.extend(kinds);
            subject.is_there = learned.is_there;
            subject.is_paused = learned.is_paused;
            subject.wanted = learned.wanted;
            subject.in_force = learned.in_force;
        }
        Ok(())
    }

    /// Looks at one resource.
    async fn see(&mut self, index: usize) -> (Seen, Learned) {
        let live = self.live(index).await;
        let (truth, learned) = match &live {
            Some(live) => self.truth(index, live).await,
            None => self.absence(index).await,
        };
        let mut violations = violations(live.as_ref(), &truth);
        let version = |of: &Option<Value>| {
            of.as_ref()
                .map(|live| live["metadata"]["resourceVersion"].clone())
        };
        if version(&self.live(index).await) != version(&live) {
            violations.push("status was written meanwhile".to_owned());
        }
        let seen = Seen {
            title: self.subjects[index].key().human(),
            live,
            words: Words::about(&truth),
            lines: truth.lines(),
            violations,
        };
        (seen, learned)
    }

    /// The truth about a resource that is not there: none of its objects may be.
    async fn absence(&self, index: usize) -> (Truth, Learned) {
        let subject = &self.subjects[index];
        let label = owner_label(subject.kind, subject.name);
        let truth = Truth {
            surplus: surplus(&self.cluster, &label, &subject.kinds, &[]).await,
            is_hindered: self.is_hindered(index),
            ..Truth::default()
        };
        let learned = Learned {
            is_there: false,
            is_paused: false,
            wanted: Vec::new(),
            in_force: None,
        };
        (truth, learned)
    }

    async fn truth(&mut self, index: usize, live: &Value) -> (Truth, Learned) {
        let mut truth = Truth {
            is_hindered: self.is_hindered(index),
            obstacles: self.obstacles(index),
            is_blocked: index == ADD_ONS && self.troubles.contains(&Trouble::OtherOperator),
            ..Truth::default()
        };
        let pause = &live["metadata"]["annotations"][PAUSE_ANNOTATION];
        truth.is_paused = pause.as_str().is_some_and(|value| value != "false");
        let inputs = self.inputs(index, &mut truth).await;
        let spec = live["spec"].clone();
        let in_force = self.subjects[index].in_force.clone();
        let wanted = match self.asked_for(index, live, &inputs).await {
            Ok(wanted) => wanted,
            Err(refused) => {
                truth.refused = Some(refused);
                let last = in_force.as_ref().map(|(_, wanted)| wanted.clone());
                last.unwrap_or_default()
            }
        };
        let valid = match (&truth.refused, &in_force) {
            (None, _) => &spec,
            (Some(_), Some((last, _))) => last,
            (Some(_), None) => &Value::Null,
        };
        truth.is_reported = valid["driftPolicy"] == "Report";

        if truth.lacks.is_empty() {
            truth.look(&self.cluster, &wanted, &self.added).await;
            let subject = &self.subjects[index];
            let mut kinds = subject.kinds.clone();
            kinds.extend(wanted.iter().map(|one| one.key.kind));
            let label = owner_label(subject.kind, subject.name);
            truth.surplus = surplus(&self.cluster, &label, &kinds, &wanted).await;
        }
        self.weigh(&mut truth);
        let is_another = in_force.as_ref().is_none_or(|(last, _)| *last != spec);
        truth.is_held_back = truth.is_paused && is_another && truth.differs();

        let is_carried_out = truth.refused.is_none() && truth.lacks.is_empty() && !truth.is_paused;
        let learned = Learned {
            is_there: true,
            is_paused: truth.is_paused,
            in_force: match is_carried_out && !truth.is_blocked {
                true => Some((spec, wanted.clone())),
                false => in_force,
            },
            wanted,
        };
        (truth, learned)
    }

    /// The objects that a resource asks for, or its mistakes with the field of the first one.
    async fn asked_for(
        &mut self,
        index: usize,
        live: &Value,
        inputs: &[Value],
    ) -> Result<Vec<Wanted>, (String, String)> {
        if index == NETWORK
            && let Some((last, _)) = &self.subjects[index].in_force
            && last["serviceNetwork"] != live["spec"]["serviceNetwork"]
        {
            let field = "serviceNetwork".to_owned();
            return Err((
                "the block of Services cannot be another one".to_owned(),
                field,
            ));
        }
        let mut resource = json!({
            "apiVersion": live["apiVersion"], "kind": live["kind"],
            "metadata": {"name": live["metadata"]["name"]}, "spec": live["spec"],
        });
        if let Some(namespace) = live["metadata"].get("namespace") {
            resource["metadata"]["namespace"] = namespace.clone();
        }
        let found = self.renderer.objects(&resource, inputs).await;
        found.map_err(|mistakes| {
            let words = mistakes.split_whitespace();
            let mut fields = words.filter(|word| word.starts_with("spec."));
            let field = fields
                .next()
                .unwrap_or_else(|| panic!("no field is named: {mistakes}"));
            let field = field.trim_end_matches(':');
            (mistakes.clone(), field.to_owned())
        })
    }

    /// The objects of the user that a resource names. Notes those that are not there or of no use.
    async fn inputs(&self, index: usize, truth: &mut Truth) -> Vec<Value> {
        if index != PLACEMENT {
            return Vec::new();
        }
        let secret = self
            .cluster
            .get(kinds::SECRET, "openstack", deeds::DATABASE)
            .await
            .filter(|secret| secret["data"]["url"].is_string());
        let Some(secret) = secret else {
            truth.lacks.push(deeds::DATABASE.to_owned());
            return Vec::new();
        };
        vec![json!({
            "apiVersion": "v1", "kind": "Secret", "data": secret["data"],
            "metadata": {"name": deeds::DATABASE, "namespace": "openstack"},
        })]
    }

    /// Decides which parts of the truth keep a resource from being available, and which of them the
    /// test has made.
    fn weigh(&self, truth: &mut Truth) {
        let is_left = truth.is_paused || truth.is_reported;
        let has_mirror = self.troubles.contains(&Trouble::Mirror);
        for one in &mut truth.changed {
            let is_mirrored = has_mirror && one.key.name == MARKER && is_image_only(&one.fields);
            one.decides = !(is_left || is_mirrored);
        }
        for one in &mut truth.unready {
            let made = Trouble::NotReady(one.key.clone());
            one.is_excused |= self.troubles.contains(&made);
        }
    }

    /// Asks kstatus and Argo CD about each resource that has no violation, and adds those that
    /// their verdicts are. Returns the verdicts in the order of `seen`.
    fn ask_tools(&self, seen: &mut [Seen]) -> Vec<Option<Verdicts>> {
        let objects: Vec<_> = seen.iter().filter_map(|one| one.live.clone()).collect();
        let mut verdicts = judge(&objects, &scripts())
            .expect("the tools judge")
            .into_iter();
        let mut in_order = Vec::new();
        for one in seen {
            let verdict = one.live.as_ref().and_then(|_| verdicts.next());
            if let Some(verdict) = &verdict
                && one.violations.is_empty()
            {
                one.violations = one.words.contradicted(verdict);
            }
            in_order.push(verdict);
        }
        in_order
    }
}

/// The scripts of Argo CD that Weft ships.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/argo-cd")
}
