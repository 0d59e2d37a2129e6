//! nmstate's own verdict on a desired state.
//!
//! nmstate reads the state into its types, merges it with that of a host, and refuses what cannot
//! be. `NetworkState::validate` does that with any host's state, and touches no host. Only the part of
//! nmstate that applies states contains it, so Weft links this part, and calls no other function of
//! it: the linker leaves the rest out.
//!
//! Without a host, nmstate merges with a host that has nothing, in `gen_conf`. There everything that
//! can be on a host must count as being there, so `complete` adds it to the desired state.
//!
//! nmstate names one mistake, without a place. `place` finds it.

mod complete;
mod host;
mod place;

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use nmstate::{ErrorKind, NetworkState};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weft_plan::secrets as in_texts;

use crate::{
    desired::Desired,
    functions::with_functions,
    path::{Path, entries, interfaces, text},
    secrets::HIDDEN,
    state_error::StateError,
    vlan,
};
use complete::Completed;
use host::LISTS;

/// The sections next to the interfaces, with the part that is wanted: the rest is a report.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("routes", &["config"]),
    ("route-rules", &["config"]),
    ("dns-resolver", &["config"]),
    ("ovs-db", &["external_ids", "other_config"]),
    ("ovn", &["bridge-mappings"]),
];

/// How many refusals of interfaces, and of the entries of a section, a verdict has at most. nmstate
/// itself has one.
const MOST_REFUSALS: usize = 20;

/// Sections of interfaces that can hold secrets.
pub(crate) const SECRET: [&str; 3] = ["802.1x", "macsec", "libreswan"];

/// Returns nmstate's refusals of a desired state, each with its place and without secrets. The state is in today's
/// spelling, with known keys only and without references to captures.
///
/// `current` is the state of the host, with all of its interfaces, as nmstate reports it. With `None`
/// no host is known, and everything that can be on a host counts as being there.
pub fn verdict(desired: &Value, current: Option<&Value>) -> Vec<StateError> {
    let mut state = desired.clone();
    vlan::join_tags(&mut state);
    let host = current.map(host::read);
    let wanted = host
        .as_ref()
        .and_then(|_| NetworkState::deserialize(&state).ok());
    let host = match (&host, &wanted) {
        (Some(host), Some(wanted)) => Some(with_functions(wanted, host)),
        (host, _) => host.as_ref().map(Cow::Borrowed),
    };
    let judge = Judge::new(&state, host.as_deref());
    match judge.refusal(&judge.parts.state()) {
        Some(words) => {
            let states = [Some(desired), current].into_iter().flatten();
            let hidden: BTreeSet<String> = states.flat_map(in_texts::values).collect();
            let hide = |text: &str| in_texts::without(text, &hidden);
            short(judge.refusals(&state, &words), &hide)
        }
        None => Vec::new(),
    }
}

fn short(refusals: Vec<StateError>, hide: &dyn Fn(&str) -> String) -> Vec<StateError> {
    let refusals = refusals.into_iter();
    refusals.map(|one| place::shortened(one, hide)).collect()
}

/// Returns nmstate's refusal of a desired state on a host with the places that it is about:
/// `interfaces[eth1].ipv4: ...`. For those who have asked nmstate, and got these `words`. `hide`
/// replaces the secrets in a text.
pub fn explained(
    desired: &Desired,
    current: &NetworkState,
    words: &str,
    hide: impl Fn(&str) -> String,
) -> String {
    let current = with_functions(desired.state(), current);
    let judge = Judge::new(desired.value(), Some(&current));
    let found = short(judge.refusals(desired.value(), words), &hide);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    found.join("; ")
}

/// Returns which of `count` entries are refused alone. A part that is taken as a whole has none, so
/// few mistakes in a long list need few questions.
fn refused_alone(count: usize, is_refused: impl Fn(Range<usize>) -> bool) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = Vec::new();
    open.push(0..count);
    while let Some(range) = open.pop() {
        if range.is_empty() || found.len() == MOST_REFUSALS || !is_refused(range.clone()) {
            continue;
        }
        if range.len() == 1 {
            found.insert(range.start);
            continue;
        }
        let middle = range.start + range.len() / 2;
        open.push(middle..range.end);
        open.push(range.start..middle);
    }
    found
}

/// The parts of a desired state, to be judged alone and together.
struct Parts {
    /// The wanted interfaces.
    wanted: Vec<(Path, Value)>,
    /// Interfaces that others refer to.
    context: Vec<Value>,
    /// The other sections.
    rest: Map<String, Value>,
}

impl Parts {
    /// All of them.
    fn state(&self) -> Value {
        let wanted = self.wanted.iter().map(|(_, interface)| interface);
        let list: Vec<&Value> = wanted.chain(&self.context).collect();
        let mut state = self.rest.clone();
        state.insert("interfaces".to_owned(), json!(list));
        Value::Object(state)
    }
}

/// The wanted interfaces of a state, each with its place. A section whose secret is hidden is left
/// out: nmstate would judge what stands in for it.
fn wanted(state: &Value) -> Vec<(Path, Value)> {
    let without_secrets = |interface: &Value| {
        let mut interface = interface.clone();
        if let Some(map) = interface.as_object_mut() {
            map.retain(|section, content| {
                !SECRET.contains(&section.as_str()) || !content.to_string().contains(HIDDEN)
            });
        }
        interface
    };
    interfaces(state)
        .iter()
        .map(|interface| (Path::of_interface(interface), without_secrets(interface)))
        .collect()
}

/// The sections next to the interfaces of a state, as far as they are wanted.
fn sections(state: &Value) -> Map<String, Value> {
    let mut sections = Map::new();
    for (section, parts) in SECTIONS {
        let kept: Map<String, Value> = parts
            .iter()
            .filter(|part| !state[section][**part].is_null())
            .map(|part| ((*part).to_owned(), state[section][*part].clone()))
            .collect();
        if !kept.is_empty() {
            sections.insert(section.to_owned(), Value::Object(kept));
        }
    }
    sections
}

/// nmstate, with the host that it judges for.
struct Judge<'a> {
    host: Option<&'a NetworkState>,
    parts: Parts,
    /// The interfaces as far as the other sections refer to them.
    stubs: Vec<Value>,
}

impl<'a> Judge<'a> {
    fn new(state: &Value, host: Option<&'a NetworkState>) -> Self {
        if host.is_some() {
            let parts = Parts {
                wanted: wanted(state),
                context: Vec::new(),
                rest: sections(state),
            };
            let stubs = parts.wanted.iter().map(|(_, wanted)| wanted.clone());
            return Self {
                host,
                stubs: stubs.collect(),
                parts,
            };
        }
        let completed = Completed::new(state);
        Self {
            host,
            stubs: completed.stubs(),
            parts: completed.into_parts(),
        }
    }

    /// The refusals of a state that nmstate has refused in these words, each with its place. nmstate
    /// stops at the first mistake, and which one that is differs from call to call.
    fn refusals(&self, state: &Value, words: &str) -> Vec<StateError> {
        let refused = self.of_interfaces();
        let of_sections = self.of_sections(&refused);
        let mut found: Vec<StateError> = refused.into_iter().map(|refused| refused.error).collect();
        found.extend(of_sections);
        if found.is_empty() {
            found.push(place::of_state(state, words));
        }
        found
    }

    /// nmstate's first refusal of a state.
    fn refusal(&self, state: &Value) -> Option<String> {
        let read = match NetworkState::deserialize(state) {
            Ok(read) => read,
            Err(error) => return Some(error.to_string()),
        };
        match self.host {
            Some(_) => read.validate(self.host).err(),
            None => read
                .gen_conf()
                .err()
                .filter(|error| counts(error.kind(), error.msg())),
        }
        .map(|error| error.msg().to_owned())
    }

    /// The refusals of interfaces: each alone, and also with those that nmstate takes alone.
    fn of_interfaces(&self) -> Vec<Refused> {
        let all: Vec<(&Path, Value)> = self
            .parts
            .wanted
            .iter()
            .map(|(path, interface)| (path, alone(interface)))
            .collect();
        let places = refused_alone(all.len(), |range| {
            let part: Vec<&Value> = all[range].iter().map(|(_, alone)| alone).collect();
            self.refusal(&of_interfaces(&part)).is_some()
        });
        let (refused, taken): (Vec<_>, Vec<_>) = all
            .into_iter()
            .enumerate()
            .partition(|(index, _)| places.contains(index));
        let taken: Vec<Value> = taken.into_iter().map(|(_, (_, alone))| alone).collect();
        let refused: Vec<(&Path, Value)> = refused.into_iter().map(|(_, one)| one).collect();
        let names: Vec<String> = refused
            .iter()
            .map(|(_, alone)| text(&alone["name"]))
            .collect();
        let judged = |(path, alone): (&Path, Value)| {
            let with_taken: Vec<&Value> = taken.iter().chain([&alone]).collect();
            let words = self.refusal(&of_interfaces(&with_taken))?;
            // A refused one is missing for those that refer to it.
            let name = text(&alone["name"]);
            if names
                .iter()
                .any(|other| *other != name && place::names(&words, other))
            {
                return None;
            }
            let error = self
                .of_port(path, &alone, &words)
                .unwrap_or_else(|| place::of_interface(path, &alone, &words));
            Some(Refused { name, error })
        };
        refused.into_iter().filter_map(judged).collect()
    }

    /// The port of a bridge that a refusal is about: alone it is refused in the same words, and
    /// without any port the bridge is not.
    fn of_port(&self, path: &Path, bridge: &Value, words: &str) -> Option<StateError> {
        let with = |ports: Value| {
            let mut bridge = bridge.clone();
            bridge["bridge"]["port"] = ports;
            self.refusal(&of_interfaces(&[&bridge]))
        };
        let ports = entries(&bridge["bridge"]["port"]);
        if ports.is_empty() || with(json!([])).as_deref() == Some(words) {
            return None;
        }
        let port = ports
            .iter()
            .find(|port| with(json!([port])).as_deref() == Some(words))?;
        let path = path.key("bridge").key("port").item(&text(&port["name"]));
        Some(place::of_interface(&path, port, words))
    }

    /// The refusals of what stands outside of interfaces, without the interfaces that are refused.
    fn of_sections(&self, refused: &[Refused]) -> Vec<StateError> {
        let is_refused = |interface: &Value| {
            let name = text(&interface["name"]);
            refused.iter().any(|refused| refused.name == name)
        };
        let others: Vec<&Value> = self.stubs.iter().filter(|stub| !is_refused(stub)).collect();
        if self.refusal(&of_interfaces(&others)).is_some() {
            return Vec::new();
        }
        let alone = |section: &str, content: &Value| {
            self.refusal(&json!({"interfaces": others, section: content}))
                .filter(|words| {
                    !refused
                        .iter()
                        .any(|refused| place::names(words, &refused.name))
                })
        };
        let mut found = Vec::new();
        for (section, content) in &self.parts.rest {
            let Some(words) = alone(section, content) else {
                continue;
            };
            let path = Path::default().key(section);
            let list = LISTS.iter().find(|(name, _)| *name == section);
            let Some((_, list)) = list else {
                found.push(place::of_section(&path, content, &words));
                continue;
            };
            let path = path.key(list);
            let before = found.len();
            let all = entries(&content[*list]);
            let part = |range: Range<usize>| alone(section, &json!({ *list: all[range] }));
            for index in refused_alone(all.len(), |range| part(range).is_some()) {
                if let Some(words) = part(index..index + 1) {
                    found.push(place::refused(path.item(&index.to_string()), &words));
                }
            }
            if found.len() == before {
                found.push(place::refused(path, &words));
            }
        }
        found
    }
}

/// An interface that nmstate refuses.
struct Refused {
    name: String,
    error: StateError,
}

/// Reports whether an error of `gen_conf` is about what is wanted. Others are about the file for
/// NetworkManager that Weft does not use, or name a defect of nmstate.
fn counts(kind: ErrorKind, message: &str) -> bool {
    // An apply gives such name servers to NetworkManager as a whole.
    !message.starts_with("Placing IPv4/IPv6 nameserver")
        && matches!(
            kind,
            ErrorKind::InvalidArgument
                | ErrorKind::NotImplementedError
                | ErrorKind::NotSupportedError
        )
}

/// An interface without what refers to another one.
fn alone(interface: &Value) -> Value {
    let mut alone = interface.clone();
    without(&mut alone, "controller");
    without(&mut alone, "copy-mac-from");
    alone
}

fn without(interface: &mut Value, key: &str) {
    if let Some(map) = interface.as_object_mut() {
        map.remove(key);
    }
}

fn of_interfaces(interfaces: &[&Value]) -> Value {
    json!({ "interfaces": interfaces })
}

#[cfg(test)]
mod tests;
