//! Where in a network state something stands: `interfaces[eth1].ipv4.address`.

use serde_json::Value;
use std::{borrow::Cow, fmt};
use weft_plan::secrets::{HIDDEN, masked_at};

/// A step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A key of an object.
    Key(String),
    /// An entry of a list that is a set with keys: an interface by its name, a route by where it
    /// leads.
    Item(String),
}

/// A place in a network state. Entries of lists are named by what identifies them, never by their
/// index, so a path means the same in the state that is wanted and in the one that is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The path of an interface of a state.
    pub(crate) fn of_interface(interface: &Value) -> Self {
        let list = Self::default().key("interfaces");
        list.item(&interface_key(interface))
    }

    /// The path of a key below this one.
    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    /// The path of an entry below this one.
    #[must_use]
    pub(crate) fn item(&self, item: &str) -> Self {
        self.step(Step::Item(item.to_owned()))
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Reports whether this is `other` or a place above it.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// A value at this place as people see it: with a mask in place of each secret.
    pub(crate) fn shown(&self, value: &Value) -> Value {
        let mut keys = self.0.iter().rev().filter_map(|step| match step {
            Step::Key(key) => Some(key),
            Step::Item(_) => None,
        });
        let name = keys.next().map(String::as_str).unwrap_or_default();
        masked_at(name, value, HIDDEN)
    }

    /// The entry of `interfaces` that this is, or is a part of.
    pub(crate) fn interface(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Step::Key(list), Step::Item(name), ..] if list == "interfaces" => Some(name),
            _ => None,
        }
    }

    /// The entry of `interfaces` that this is.
    pub(crate) fn whole_interface(&self) -> Option<&str> {
        self.interface().filter(|_| self.0.len() == 2)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if index == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Item(item) => write!(f, "[{item}]")?,
            }
        }
        Ok(())
    }
}

/// Returns the key of an interface: its name. For interfaces that exist in Open vSwitch or IPsec
/// only, the type belongs to the key, because a bridge of Open vSwitch and its internal port
/// usually share a name.
pub(crate) fn interface_key(interface: &Value) -> Cow<'_, str> {
    let name = borrowed_text(&interface["name"]);
    match interface["type"].as_str() {
        Some(kind @ ("ovs-bridge" | "ipsec")) => Cow::Owned(format!("{name} ({kind})")),
        _ => name,
    }
}

/// A scalar as [`text`] returns it, without a copy where it is a text.
pub(crate) fn borrowed_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// A scalar as text, a text without quotes. Empty for null.
pub fn text(value: &Value) -> String {
    borrowed_text(value).into_owned()
}

/// The name of an entry of a list, which is a text or an object with a name.
pub(crate) fn name_of(entry: &Value) -> String {
    text(if entry.is_string() {
        entry
    } else {
        &entry["name"]
    })
}

/// The entries of a list, none if it is no list.
pub(crate) fn entries(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The interfaces of a state.
pub(crate) fn interfaces(state: &Value) -> &[Value] {
    entries(&state["interfaces"])
}
