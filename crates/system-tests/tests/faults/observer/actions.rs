//! The actions that the test draws.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use weft_plan::{Kind, OWNER_LABEL, ObjectKey, PAUSE_ANNOTATION, kinds};

use super::{
    deeds::{PULL_POLICIES, range},
    policies,
    troubles::{STUCK, Trouble},
    wanted::Wanted,
    world::{ADD_ONS, NETWORK, NMSTATE, PLACEMENT, World},
};

/// An action of a user or of another client.
#[derive(Clone, Debug)]
pub enum Action {
    /// A merge patch of the resource with this index. Weft may refuse it, the API server does not.
    Change(usize, Value),
    /// A merge patch that the API server must refuse.
    Wrong(usize, Value),
    /// A field of the add-ons is misspelt.
    Typo,
    Delete(usize),
    Create(usize),
    DeleteOperand(ObjectKey),
    /// A merge patch of an operand.
    Edit(ObjectKey, Value),
    /// The same, which adds the field at this JSON pointer.
    Add(ObjectKey, Value, &'static str),
    /// Another client takes a field of an operand, by force.
    Take(ObjectKey),
    Begin(Trouble),
    Lift(Trouble),
    /// The Secret of the PlacementAPI gets what Weft reads, or loses it.
    Database(bool),
    /// The policy of the nodes' networks gets this specification, or is deleted.
    Policy(Option<Value>),
    /// The agent of one node fails from now on, or not.
    Agents(bool),
}

impl Action {
    /// The text for the list of what happened.
    pub fn text(&self, world: &World) -> String {
        let of = |index: &usize| world.subjects[*index].key().human();
        match self {
            Self::Change(index, patch) => format!("change {} {patch}", of(index)),
            Self::Wrong(index, patch) => format!("refused change {} {patch}", of(index)),
            Self::Delete(index) => format!("delete {}", of(index)),
            Self::Create(index) => format!("create {}", of(index)),
            Self::DeleteOperand(key) => format!("delete {}", key.human()),
            Self::Edit(key, patch) => format!("edit {} {patch}", key.human()),
            Self::Add(key, patch, _) => format!("add to {} {patch}", key.human()),
            Self::Take(key) => format!("take a field of {}", key.human()),
            Self::Begin(trouble) => format!("trouble begins: {}", trouble.text()),
            Self::Lift(trouble) => format!("trouble ends: {}", trouble.text()),
            Self::Policy(Some(spec)) => format!("policy {spec}"),
            other => format!("{other:?}"),
        }
    }
}

/// Draws an action that makes sense in this world.
pub fn draw(world: &World, random: &mut StdRng) -> Action {
    loop {
        if let Some(action) = attempt(world, random) {
            return action;
        }
    }
}

/// Draws an action on an operand, to follow another action at once. A second change of the same
/// resource would leave open whether Weft has seen the first one.
pub fn draw_more(world: &World, random: &mut StdRng) -> Option<Action> {
    random
        .random_bool(0.25)
        .then(|| operand(world, random))
        .flatten()
}

fn attempt(world: &World, random: &mut StdRng) -> Option<Action> {
    match random.random_range(0..100) {
        0..24 => add_ons(world, random),
        24..29 => Some(network(random)),
        29..33 => Some(nmstate(random)),
        33..40 => placement(world, random),
        40..45 => Some(wrong(random)),
        45..49 => life(world, random),
        49..74 => operand(world, random),
        74..88 => trouble(world, random),
        88..97 => Some(policy(random)),
        _ => Some(Action::Agents(!world.agents_fail)),
    }
}

fn pick<T: Clone>(all: &[T], random: &mut StdRng) -> T {
    all.choose(random).expect("there is something").clone()
}

fn pause(index: usize, random: &mut StdRng) -> Action {
    let value = pick(&[json!("true"), Value::Null, Value::Null], random);
    Action::Change(
        index,
        json!({"metadata": {"annotations": {PAUSE_ANNOTATION: value}}}),
    )
}

/// A change of the add-ons that the API server stores.
fn add_ons(world: &World, random: &mut StdRng) -> Option<Action> {
    if !world.subjects[ADD_ONS].is_there {
        return Some(Action::Create(ADD_ONS));
    }
    let limits = |request: &str| {
        json!([{"component": "multus", "container": "kube-multus",
            "requests": {"memory": request}, "limits": {"memory": "1Gi"}}])
    };
    let spec = match random.random_range(0..12) {
        0..3 => {
            let simple = ["multus", "linuxBridge", "ovs", "kubevirtIpamController"];
            let there = pick(&[json!({}), Value::Null], random);
            json!({pick(&simple, random): there})
        }
        3 => {
            let ranges = [range(0), range(1), Value::Null];
            json!({"kubeMacPool": pick(&ranges, random)})
        }
        4 => json!({"imagePullPolicy": pick(&PULL_POLICIES, random)}),
        5 | 6 => {
            let (stuck, _) = pick(&STUCK, random);
            let image = match random.random_range(0..3) {
                0 => json!(format!("{stuck}:v1")),
                1 => json!("observer.test/good:v1"),
                _ => Value::Null,
            };
            json!({"images": {pick(&["multus", "ovsCni"], random): image}})
        }
        7 => {
            // The first one is more than the limit, which only Weft knows.
            let requests = [limits("2Gi"), limits("100Mi"), Value::Null, Value::Null];
            json!({"resources": pick(&requests, random)})
        }
        8 => json!({"driftPolicy": pick(&["Report", "Repair", "Repair"], random)}),
        9 => json!({"operatorLogLevel": pick(&["Debug", "Info"], random)}),
        10 => {
            let registries = [json!("registry.example/mirror"), Value::Null];
            json!({"imageRegistry": pick(&registries, random)})
        }
        _ => return Some(pause(ADD_ONS, random)),
    };
    Some(Action::Change(ADD_ONS, json!({"spec": spec})))
}

fn network(random: &mut StdRng) -> Action {
    let spec = match random.random_range(0..4) {
        0 | 1 => {
            let period = pick(&["30s", "1m", "2m"], random);
            json!({"kubeProxyConfig": {"iptablesSyncPeriod": period}})
        }
        // A change that is not safe, and the way back.
        2 => json!({"serviceNetwork": pick(&["10.97.0.0/16", "10.96.0.0/16"], random)}),
        _ => return pause(NETWORK, random),
    };
    Action::Change(NETWORK, json!({"spec": spec}))
}

fn nmstate(random: &mut StdRng) -> Action {
    let spec = match random.random_range(0..3) {
        0 | 1 => json!({"logLevel": pick(&["info", "debug"], random)}),
        _ => json!({"maxUnavailable": pick(&[json!("50%"), json!(2), Value::Null], random)}),
    };
    Action::Change(NMSTATE, json!({"spec": spec}))
}

fn placement(world: &World, random: &mut StdRng) -> Option<Action> {
    if !world.subjects[PLACEMENT].is_there {
        return Some(Action::Create(PLACEMENT));
    }
    let action = match random.random_range(0..6) {
        0..2 => {
            let replicas = pick(&[1, 2], random);
            Action::Change(PLACEMENT, json!({"spec": {"replicas": replicas}}))
        }
        2 => Action::Database(false),
        3 | 4 => Action::Database(true),
        _ => Action::Delete(PLACEMENT),
    };
    Some(action)
}

/// A change that the API server refuses, by the schema, by a rule or by an admission policy.
fn wrong(random: &mut StdRng) -> Action {
    let multicast = json!({"rangeStart": "03:00:00:00:00:00", "rangeEnd": "03:00:00:FF:FF:FF"});
    let add_ons = [
        json!({"imagePullPolicy": "Sometimes"}),
        json!({"images": {"multus": "UPPER CASE"}}),
        json!({"kubeMacPool": multicast}),
        json!({"hostPaths": {"cniBinDir": "relative"}}),
    ];
    match random.random_range(0..5) {
        0 => Action::Typo,
        1 => Action::Wrong(NETWORK, json!({"spec": {"serviceNetwork": "10.96.0.1/16"}})),
        2 => Action::Wrong(NMSTATE, json!({"spec": {"logLevel": "loud"}})),
        _ => Action::Wrong(ADD_ONS, json!({"spec": pick(&add_ons, random)})),
    }
}

/// The add-ons go, and come back. A pause or a trouble would keep Weft from removing them.
fn life(world: &World, random: &mut StdRng) -> Option<Action> {
    let subject = &world.subjects[ADD_ONS];
    let is_free = subject.is_there && !subject.is_paused && !world.is_hindered(ADD_ONS);
    match (subject.is_there, is_free && random.random_bool(0.5)) {
        (false, _) => Some(Action::Create(ADD_ONS)),
        (true, true) => Some(Action::Delete(ADD_ONS)),
        (true, false) => None,
    }
}

fn policy(random: &mut StdRng) -> Action {
    let specs = [
        Some(policies::bridge(1500)),
        Some(policies::bridge(1400)),
        Some(policies::nowhere()),
        Some(policies::misspelt()),
        None,
    ];
    Action::Policy(pick(&specs, random))
}

/// The trouble begins, or one that is there ends. The longer the list, the sooner it gets shorter.
fn trouble(world: &World, random: &mut StdRng) -> Option<Action> {
    let now = &world.troubles;
    if !now.is_empty() && random.random_bool(0.6) {
        return Some(Action::Lift(pick(now, random)));
    }
    // Policies of both kinds have the same probe and name.
    let has_policy = [Trouble::Mirror, Trouble::OtherImage, Trouble::Denied]
        .iter()
        .any(|one| now.contains(one));
    let is_held = now.iter().any(|one| matches!(one, Trouble::Held(..)));
    let trouble = match random.random_range(0..7) {
        0 if world.has_mutating_policies && !has_policy => Trouble::Mirror,
        1 if world.has_mutating_policies && !has_policy => Trouble::OtherImage,
        2 if !has_policy => Trouble::Denied,
        3 if !is_held => {
            let index = pick(&[ADD_ONS, NETWORK], random);
            Trouble::Held(index, any_operand(world, &[index], random)?.key)
        }
        4 | 5 => {
            let workload = any_operand(world, &[ADD_ONS, NETWORK], random)?.key;
            if !is_workload(workload.kind) {
                return None;
            }
            Trouble::NotReady(workload)
        }
        6 => Trouble::OtherOperator,
        _ => return None,
    };
    (!now.contains(&trouble)).then_some(Action::Begin(trouble))
}

fn is_workload(kind: Kind) -> bool {
    matches!(kind, kinds::DAEMON_SET | kinds::DEPLOYMENT)
}

/// An object that one of these resources asks for, and that another client may write.
fn any_operand(world: &World, of: &[usize], random: &mut StdRng) -> Option<Wanted> {
    let index = pick(of, random);
    let all: Vec<_> = world.subjects[index]
        .wanted
        .iter()
        .filter(|one| one.body.is_some())
        .collect();
    all.choose(random).map(|one| (*one).clone())
}

/// Another client writes an operand, or deletes it.
fn operand(world: &World, random: &mut StdRng) -> Option<Action> {
    let all = [ADD_ONS, ADD_ONS, ADD_ONS, NETWORK, NMSTATE, PLACEMENT];
    let Wanted { key, body } = any_operand(world, &all, random)?;
    let action = match random.random_range(0..12) {
        0..4 => Action::DeleteOperand(key),
        4 => Action::Edit(key, json!({"metadata": {"labels": {OWNER_LABEL: null}}})),
        5 => Action::Edit(
            key,
            json!({"metadata": {
                "labels": {"observer.test/team": "network"},
                "annotations": {"observer.test/note": "hello"}
            }}),
        ),
        6 => match key.kind {
            kinds::CONFIG_MAP => {
                let more = json!({"data": {"observer": "added"}});
                Action::Add(key, more, "/data/observer")
            }
            kind if is_workload(kind) => {
                let annotations = json!({"annotations": {"observer.test/added": "x"}});
                let more = json!({"spec": {"template": {"metadata": annotations}}});
                let pointer = "/spec/template/metadata/annotations/observer.test~1added";
                Action::Add(key, more, pointer)
            }
            _ => return None,
        },
        7 if is_workload(key.kind) => Action::Take(key),
        _ => {
            let change = edit(key.kind, &body?, random)?;
            Action::Edit(key, change)
        }
    };
    Some(action)
}

/// A merge patch that changes what the object should be. None: there is no simple one.
fn edit(kind: Kind, body: &Value, random: &mut StdRng) -> Option<Value> {
    let pod = |part: Value| json!({"spec": {"template": {"spec": part}}});
    let first = |field: &str| {
        let fields = body.pointer(field)?.as_object()?;
        fields.keys().find(|key| *key != OWNER_LABEL).cloned()
    };
    match kind {
        kinds::DEPLOYMENT if random.random_bool(0.3) => {
            Some(json!({"spec": {"replicas": pick(&[0, 3], random)}}))
        }
        kinds::DAEMON_SET | kinds::DEPLOYMENT if random.random_bool(0.5) => Some(pod(
            json!({"terminationGracePeriodSeconds": random.random_range(50..60)}),
        )),
        kinds::DAEMON_SET | kinds::DEPLOYMENT => {
            let name = body.pointer("/spec/template/spec/containers/0/name")?;
            let container = json!({"name": name, "image": "observer.test/good:v9"});
            Some(pod(json!({"containers": [container]})))
        }
        kinds::CONFIG_MAP => Some(json!({"data": {first("/data")?: "theirs"}})),
        kinds::ROLE | kinds::CLUSTER_ROLE => Some(json!({"rules": []})),
        _ => Some(json!({"metadata": {"labels": {first("/metadata/labels")?: "theirs"}}})),
    }
}
