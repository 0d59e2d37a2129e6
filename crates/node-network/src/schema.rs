//! The schema of nmstate's states, to name each wrong key and value at its place: nmstate stops at
//! the first one, and gives no place.
//!
//! `nmstate.json` says it. It was not written by hand: a test of the agent asks nmstate, place by
//! place, what it would take there, and fails when that is not what the file says. A node of it is
//! one of
//!
//! - `"text"`, `"boolean"`, `"u8"` … `"i64"`, `"number"`, also with ` or text` where a text with
//!   that value is taken as well. `"boolean or true"`, where only `true`, `false`, `1`, and `0` are
//!   such texts. `"any"`;
//! - `{"one of": [words]}`, with `"numbers": true` where a word that is a number may be written as
//!   one;
//! - `{"list": node}`. `{"any of": [nodes]}`;
//! - `{"keys": {key: node}, "needs": [keys that must be there], "each": node for any other key}`,
//!   of which each may be left out.
//!
//! How a text must look (an address, a range) is left to [`crate::ranges`] and [`crate::verdict`].

use std::sync::LazyLock;

use serde_json::{Map, Number, Value};

use crate::{
    belongs,
    nmstate_schema::SCHEMA,
    path::{Path, Step, entries, text},
    state_error::{StateError, closest},
};

/// The words that nmstate takes for a boolean where it takes texts.
const BOOLEANS: [&str; 10] = [
    "1", "0", "true", "false", "yes", "no", "on", "off", "y", "n",
];

/// The same where it does not take all of them.
const FEW_BOOLEANS: [&str; 4] = ["1", "0", "true", "false"];

/// The types that nmstate reports and does not configure. It does not look at what such an
/// interface has.
const REPORTED: [&str; 3] = ["tun", "xfrm", "unknown"];

/// For how many mistakes the right place is searched.
const MOST_PLACES: usize = 50;

/// Returns the mistakes in a state, in its order.
pub fn mistakes(state: &Value) -> Vec<StateError> {
    let mut found = Vec::new();
    let Some(map) = state.as_object() else {
        return vec![invalid(
            Path::default(),
            "a network state is an object, with interfaces, routes, dns-resolver …",
        )];
    };
    let sections = keys(&SCHEMA["state"]);
    for (key, value) in map {
        let path = Path::default().key(key);
        match sections.get(key) {
            _ if key == "interfaces" && !value.is_array() && !value.is_null() => {
                found.push(invalid(path, "must be a list"))
            }
            _ if key == "interfaces" => entries(value)
                .iter()
                .for_each(|interface| read_interface(interface, &mut found)),
            Some(node) => read(path, node, value, &mut found),
            None => found.push(unknown(
                path,
                key,
                sections.keys().map(String::as_str).chain(["interfaces"]),
            )),
        }
    }
    // The first ones show what is wrong. The search takes its time.
    for mistake in found.iter_mut().take(MOST_PLACES) {
        if let StateError::Unknown {
            path,
            places,
            suggestion,
        } = mistake
        {
            *places = belongs::places(path, state);
            // A port has one VLAN by its tag, and an interface of type vlan by its ID.
            if let [.., Step::Item(_), Step::Key(vlan), Step::Key(id)] = &path.0[..]
                && (vlan.as_str(), id.as_str()) == ("vlan", "id")
            {
                (*places, *suggestion) = (Vec::new(), Some("tag".to_owned()));
            }
        }
    }
    found
}

/// Reports whether a document has a section of a network state, such as `interfaces` or `routes`.
pub fn has_section(document: &Value) -> bool {
    // A description is a text, and any document may have one.
    let mut fields = document.as_object().into_iter().flatten();
    fields.any(|(key, value)| is_section(key) && (value.is_array() || value.is_object()))
}

/// Reports whether a network state has a section of this name.
pub fn is_section(name: &str) -> bool {
    name == "interfaces" || keys(&SCHEMA["state"]).contains_key(name)
}

/// The words that nmstate takes at a place below a section of a type of interface, in its order.
/// None where it takes other values.
pub(crate) fn words(kind: &str, section: &str, place: &[&str]) -> Vec<&'static str> {
    let node = place
        .iter()
        .fold(&SCHEMA["types"][kind][section], |node, key| {
            &node["keys"][*key]
        });
    entries(&node["one of"])
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// An entry of a list (`interfaces`, `routes.running` …) with numbers and booleans where nmstate
/// reads texts as such.
pub(crate) fn typed(list: &[String], entry: &Value) -> Value {
    let typed = |node: Option<&Value>, value: &Value| {
        node.map_or_else(|| value.clone(), |node| convert(node, value))
    };
    if list != ["interfaces"] {
        let node = list.split_first().map(|(section, rest)| {
            rest.iter()
                .fold(&SCHEMA["state"][section.as_str()], |node, key| {
                    &node["keys"][key.as_str()]
                })
        });
        return typed(node.and_then(|node| node.get("list")), entry);
    }
    let (common, of_type) = (
        &SCHEMA["interface"],
        &SCHEMA["types"][text(&entry["type"]).as_str()],
    );
    keys(entry)
        .iter()
        .map(|(key, value)| {
            (
                key.clone(),
                typed(common.get(key).or_else(|| of_type.get(key)), value),
            )
        })
        .collect()
}

/// A section next to the interfaces with texts where it has numbers and booleans. nmstate reads YAML
/// there, in which both are texts where a text stands.
pub(crate) fn with_texts(section: &str, value: &Value) -> Value {
    fn replace(node: &Value, value: &Value) -> Value {
        match value {
            Value::Number(_) | Value::Bool(_) if node == "text" => text(value).into(),
            Value::Array(list) => {
                let all = list.iter().map(|entry| replace(&node["list"], entry));
                all.collect()
            }
            Value::Object(fields) => {
                let of_key = |key: &String| node["keys"].get(key).unwrap_or(&node["each"]);
                let all = fields.iter();
                all.map(|(key, value)| (key.clone(), replace(of_key(key), value)))
                    .collect()
            }
            _ => value.clone(),
        }
    }
    replace(&SCHEMA["state"][section], value)
}

/// An entry of a list with booleans where nmstate reads texts such as `no` as such. Numbers stay as
/// they are written.
pub(crate) fn with_booleans(list: &[String], entry: &Value) -> Value {
    fn replace(value: &Value, typed: &Value) -> Value {
        match (value, typed) {
            (Value::String(_), Value::Bool(_)) => typed.clone(),
            (Value::Object(fields), _) => fields
                .iter()
                .map(|(key, value)| (key.clone(), replace(value, &typed[key.as_str()])))
                .collect(),
            (Value::Array(items), _) => items
                .iter()
                .enumerate()
                .map(|(index, item)| replace(item, &typed[index]))
                .collect(),
            _ => value.clone(),
        }
    }
    replace(entry, &typed(list, entry))
}

fn convert(node: &Value, value: &Value) -> Value {
    match (node.as_str(), value) {
        (Some("boolean or true"), Value::String(word)) => {
            let word = word.to_ascii_lowercase();
            match FEW_BOOLEANS.contains(&word.as_str()) {
                true => Value::Bool(matches!(word.as_str(), "1" | "true")),
                false => value.clone(),
            }
        }
        (Some(scalar), Value::String(word)) => match scalar.strip_suffix(" or text") {
            Some("boolean") if BOOLEANS.contains(&word.to_ascii_lowercase().as_str()) => {
                Value::Bool(
                    ["1", "true", "yes", "on", "y"].contains(&word.to_ascii_lowercase().as_str()),
                )
            }
            Some(kind) if range(kind).is_some() => integer(word)
                .and_then(Number::from_i128)
                .map_or_else(|| value.clone(), Value::Number),
            _ => value.clone(),
        },
        (None, _) if !node["any of"].is_null() => value.clone(),
        (None, Value::Array(list)) => list
            .iter()
            .map(|entry| convert(&node["list"], entry))
            .collect(),
        (None, Value::Object(map)) => {
            let node_of = |key: &String| node["keys"].get(key).or_else(|| node.get("each"));
            map.iter()
                .map(|(key, value)| {
                    (
                        key.clone(),
                        node_of(key).map_or_else(|| value.clone(), |node| convert(node, value)),
                    )
                })
                .collect()
        }
        _ => value.clone(),
    }
}

fn read_interface(interface: &Value, found: &mut Vec<StateError>) {
    let path = Path::of_interface(interface);
    let Some(map) = interface.as_object() else {
        return found.push(invalid(path, "an interface is an object"));
    };
    if text(&interface["name"]).is_empty() {
        let way_out = "is missing: give the interface a name, or let spec.match.interfaces of a policy give it one";
        return found.push(invalid(path.key("name"), way_out));
    }
    let types = keys(&SCHEMA["types"]);
    let kind = match &interface["type"] {
        Value::Null => None,
        Value::String(kind) if REPORTED.contains(&kind.as_str()) => return,
        Value::String(kind) if types.contains_key(kind) => Some(kind.as_str()),
        other => {
            let suggestion = closest(&text(other), types.keys().map(String::as_str))
                .map(|known| format!("; did you mean `{known}`?"));
            let message = format!(
                "{} is no type of interface that nmstate knows{}",
                text(other),
                suggestion.unwrap_or_default()
            );
            return found.push(invalid(path.key("type"), &message));
        }
    };
    let common = keys(&SCHEMA["interface"]);
    for (key, value) in map.iter().filter(|(key, _)| *key != "type") {
        let place = path.key(key);
        // Without a type it is that of the interface on the host, so it may be any that has such a
        // section.
        let having: Vec<(&String, &Value)> = types
            .iter()
            .filter_map(|(name, sections)| Some((name, sections.get(key)?)))
            .collect();
        let of_type = having
            .iter()
            .filter(|(name, _)| kind.is_none_or(|kind| kind == *name))
            .map(|(_, node)| *node);
        let nodes: Vec<&Value> = common.get(key).into_iter().chain(of_type).collect();
        let mut attempts = nodes.iter().map(|node| {
            let mut mistakes = Vec::new();
            // Of an interface that is to go nmstate reads nothing else.
            if interface["state"] != "absent" || key == "state" {
                read(place.clone(), node, value, &mut mistakes);
            }
            mistakes
        });
        match attempts.next() {
            Some(first) if first.is_empty() || attempts.any(|other| other.is_empty()) => {}
            Some(first) => found.extend(first),
            None if having.is_empty() => {
                let known = common.keys().chain(
                    types
                        .values()
                        .filter_map(Value::as_object)
                        .flat_map(Map::keys),
                );
                found.push(unknown(
                    place,
                    key,
                    known.map(String::as_str).chain(["type"]),
                ));
            }
            None => {
                let names: Vec<&str> = having.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!(
                    "is a section of interfaces of type {}; this one has the type {}",
                    names.join(", "),
                    kind.unwrap_or_default()
                );
                found.push(invalid(place, &message));
            }
        }
    }
}

fn read(path: Path, node: &Value, value: &Value, found: &mut Vec<StateError>) {
    // Nothing is said.
    if value.is_null() {
        return;
    }
    if let Some(scalar) = node.as_str() {
        return read_scalar(path, scalar, value, found);
    }
    if let Some(words) = node["one of"].as_array() {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let number = value
            .as_u64()
            .filter(|_| node["numbers"] == true)
            .map(|number| number.to_string());
        if !value
            .as_str()
            .or(number.as_deref())
            .is_some_and(|word| words.contains(&word))
        {
            let suggestion = closest(&text(value), words.iter().copied())
                .map(|known| format!("; did you mean `{known}`?"));
            found.push(invalid(
                path,
                &format!(
                    "{value} is none of {}{}",
                    words.join(", "),
                    suggestion.unwrap_or_default()
                ),
            ));
        }
    } else if let Some(nodes) = node["any of"].as_array() {
        let attempts = nodes.iter().map(|node| {
            let mut mistakes = Vec::new();
            read(path.clone(), node, value, &mut mistakes);
            mistakes
        });
        found.extend(attempts.min_by_key(Vec::len).unwrap_or_default());
    } else if !node["list"].is_null() {
        let Some(list) = value.as_array() else {
            return found.push(invalid(path, &format!("must be a list, not {value}")));
        };
        for (index, entry) in list.iter().enumerate() {
            let name = text(&entry["name"]);
            read(
                path.item(
                    if name.is_empty() {
                        index.to_string()
                    } else {
                        name
                    }
                    .as_str(),
                ),
                &node["list"],
                entry,
                found,
            );
        }
    } else {
        let Some(map) = value.as_object() else {
            return found.push(invalid(path, &format!("must be an object, not {value}")));
        };
        let known = keys(&node["keys"]);
        for (key, value) in map {
            match known.get(key).or_else(|| node.get("each")) {
                Some(node) => read(path.key(key), node, value, found),
                None => found.push(unknown(
                    path.key(key),
                    key,
                    known.keys().map(String::as_str),
                )),
            }
        }
        let missing = entries(&node["needs"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|key| !map.contains_key(*key));
        found.extend(missing.map(|key| StateError::Missing {
            path: path.key(key),
        }));
    }
}

fn read_scalar(path: Path, scalar: &str, value: &Value, found: &mut Vec<StateError>) {
    let (kind, texts) = scalar
        .strip_suffix(" or text")
        .map_or((scalar, false), |kind| (kind, true));
    let words = value.as_str().filter(|_| texts);
    let number = words.map_or_else(
        || {
            value
                .as_i64()
                .map(i128::from)
                .or_else(|| value.as_u64().map(i128::from))
        },
        integer,
    );
    let (is_right, wanted) = match kind {
        "text" => (value.is_string(), "a text".to_owned()),
        "boolean or true" => {
            let word = value.as_str().map(str::to_ascii_lowercase);
            (
                value.is_boolean()
                    || word.is_some_and(|word| FEW_BOOLEANS.contains(&word.as_str())),
                "true or false".to_owned(),
            )
        }
        "boolean" => {
            let word = words
                .map(str::to_ascii_lowercase)
                .or_else(|| number.filter(|_| texts).map(|number| number.to_string()));
            (
                value.is_boolean() || word.is_some_and(|word| BOOLEANS.contains(&word.as_str())),
                "true or false".to_owned(),
            )
        }
        "number" => (value.is_number() || words.is_some(), "a number".to_owned()),
        _ => match range(kind) {
            Some((least, most)) => (
                number.is_some_and(|number| (least..=most).contains(&number)),
                format!("a number from {least} to {most}"),
            ),
            None => (true, String::new()),
        },
    };
    if !is_right {
        found.push(invalid(path, &format!("must be {wanted}, not {value}")));
    }
}

/// The range of one of Rust's integers.
fn range(kind: &str) -> Option<(i128, i128)> {
    let (sign, bits) = kind.split_at_checked(1)?;
    let bits: u32 = bits.parse().ok()?;
    let all = 1_i128.checked_shl(bits)?;
    match sign {
        "u" => Some((0, all - 1)),
        "i" => Some((-all / 2, all / 2 - 1)),
        _ => None,
    }
}

/// nmstate reads hexadecimal ones, too.
fn integer(text: &str) -> Option<i128> {
    text.strip_prefix("0x").map_or_else(
        || text.parse().ok(),
        |digits| i128::from_str_radix(digits, 16).ok(),
    )
}

fn keys(node: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    node.as_object().unwrap_or(&NONE)
}

fn unknown<'a>(path: Path, key: &str, known: impl IntoIterator<Item = &'a str>) -> StateError {
    StateError::Unknown {
        path,
        places: Vec::new(),
        suggestion: closest(key, known),
    }
}

fn invalid(path: Path, message: &str) -> StateError {
    StateError::Invalid {
        path,
        message: message.to_owned(),
    }
}
