//! The place in a desired state that nmstate's words are about.

use serde_json::Value;

use crate::{
    path::{Path, entries, interfaces, text},
    state_error::StateError,
};

/// How many characters of a refusal are kept: some of nmstate's words show a whole route or interface.
const LONGEST: usize = 400;

/// Keys that stand in nmstate's words without being meant.
const COMMON: [&str; 8] = [
    "name",
    "type",
    "state",
    "port",
    "bridge",
    "config",
    "enabled",
    "interface",
];

/// Words about ports that are listed twice.
const TWICE: [&str; 2] = [
    "multiple ports pointing",
    "already defined in this controller port list",
];

/// The way out of a refusal, by a part of nmstate's words.
const WAYS_OUT: [(&str, &str); 2] = [
    (
        "where IP is not allowed on its port",
        "give the addresses to the controller, and write enabled: false here",
    ),
    (
        "There is no OVS bridge holding name desired by OVN",
        "name a bridge of type ovs-bridge that is on the host, or add it to the state",
    ),
];

/// A refusal at a place.
pub(super) fn refused(path: Path, words: &str) -> StateError {
    let words = words.split(" at line ").next().unwrap_or(words);
    let words = sorted(words);
    let way_out = WAYS_OUT
        .iter()
        .find(|(part, _)| words.contains(part))
        .map(|(_, way_out)| format!(": {way_out}"))
        .unwrap_or_default();
    StateError::Invalid {
        path,
        message: format!("nmstate refuses it: {words}{way_out}"),
    }
}

/// The words with the names of each set in order. nmstate writes a `HashSet` in another order each
/// time, and a message that changes is written again and again.
pub(super) fn sorted(words: &str) -> String {
    let mut sorted = String::new();
    let mut rest = words;
    while let Some((before, set)) = rest.split_once("{\"") {
        let Some((names, after)) = set.split_once("\"}") else {
            break;
        };
        let mut names: Vec<&str> = names.split("\", \"").collect();
        names.sort_unstable();
        sorted.push_str(&format!("{before}{{\"{}\"}}", names.join("\", \"")));
        rest = after;
    }
    sorted + rest
}

/// The same with the beginning of nmstate's words alone. `hide` replaces secrets before: a part of one
/// would not be recognized.
pub(super) fn shortened(refused: StateError, hide: &dyn Fn(&str) -> String) -> StateError {
    match refused {
        StateError::Invalid { path, message } => {
            let message = hide(&message);
            let short: String = message.chars().take(LONGEST).collect();
            let dots = if short.len() < message.len() {
                "…"
            } else {
                ""
            };
            let message = format!("{short}{dots}");
            StateError::Invalid { path, message }
        }
        other => other,
    }
}

/// Words about a whole state: about the interface that they name first.
pub(super) fn of_state(desired: &Value, words: &str) -> StateError {
    let named = interfaces(desired).iter().filter_map(|interface| {
        let at = position(words, &text(&interface["name"]))?;
        Some((at, interface))
    });
    match named.min_by_key(|(at, _)| *at) {
        Some((_, interface)) => of_interface(&Path::of_interface(interface), interface, words),
        None => {
            let path = property(&Path::default(), desired, words);
            refused(
                path.unwrap_or_else(|| Path::default().key("interfaces")),
                words,
            )
        }
    }
}

/// Words about an interface, or about a port of it.
pub(super) fn of_interface(path: &Path, interface: &Value, words: &str) -> StateError {
    let place = known(path, interface, words)
        .or_else(|| property(path, interface, words))
        .unwrap_or_else(|| path.clone());
    refused(place, words)
}

/// Words about a section that holds no entries: about the text of a list in it, or a key.
pub(super) fn of_section(path: &Path, section: &Value, words: &str) -> StateError {
    // nmstate names the wrong text first, and then perhaps all right ones.
    let named = ["server", "search", "options"]
        .into_iter()
        .flat_map(|key| {
            let list = entries(&section["config"][key]).iter().enumerate();
            list.map(move |(index, entry)| (key, index, text(entry)))
        })
        .filter_map(|(key, index, entry)| Some((position(words, &entry)?, key, index)))
        .min();
    match named {
        Some((_, key, index)) => {
            let path = path.key("config").key(key).item(&index.to_string());
            refused(path, words)
        }
        None => of_interface(path, section, words),
    }
}

/// The place of words that do not name it.
fn known(path: &Path, interface: &Value, words: &str) -> Option<Path> {
    if words.starts_with("MTU should be") || words.starts_with("Desired MTU") {
        return Some(path.key("mtu"));
    }
    if words.contains("cannot have IP enabled") {
        let family = if interface["ipv4"]["enabled"] == true {
            "ipv4"
        } else {
            "ipv6"
        };
        return Some(path.key(family));
    }
    if TWICE.iter().any(|part| words.contains(part)) {
        let section = ["bridge", "link-aggregation", "vrf"]
            .into_iter()
            .find(|section| !interface[*section]["port"].is_null())?;
        return Some(path.key(section).key("port"));
    }
    None
}

/// The key below `value` that words name: one in quotes, or else the longest.
fn property(path: &Path, value: &Value, words: &str) -> Option<Path> {
    let mut keys = Vec::new();
    collect(path, value, &mut keys);
    let quoted = words
        .split(['`', '\''])
        .skip(1)
        .step_by(2)
        .find_map(|word| keys.iter().find(|(key, _)| key == word));
    if let Some((_, path)) = quoted {
        return Some(path.clone());
    }
    let said = plain(words);
    // The first of several that are as long.
    keys.iter()
        .rev()
        .filter(|(key, _)| !COMMON.contains(&key.as_str()))
        .filter(|(key, _)| position(&said, plain(key).trim_end_matches('s')).is_some())
        .max_by_key(|(key, _)| key.len())
        .map(|(_, path)| path.clone())
}

/// All keys below a value, each with its place.
fn collect(path: &Path, value: &Value, keys: &mut Vec<(String, Path)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = path.key(key);
                keys.push((key.clone(), path.clone()));
                collect(&path, value, keys);
            }
        }
        Value::Array(list) => {
            for (index, entry) in list.iter().enumerate() {
                let name = text(&entry["name"]);
                let item = if name.is_empty() {
                    index.to_string()
                } else {
                    name
                };
                collect(&path.item(&item), entry, keys);
            }
        }
        _ => {}
    }
}

/// nmstate writes `forward-delay` as `forward delay` in a sentence.
fn plain(words: &str) -> String {
    words.to_ascii_lowercase().replace(['-', '_'], " ")
}

/// Reports whether words name an interface.
pub(super) fn names(words: &str, interface: &str) -> bool {
    position(words, interface).is_some()
}

/// Where a word stands in a text. `eth1` is no word of `eth1.100`.
fn position(words: &str, word: &str) -> Option<usize> {
    if word.is_empty() {
        return None;
    }
    let joins = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | ':' | '/');
    words
        .match_indices(word)
        .find(|(start, _)| {
            let before = words[..*start].chars().next_back();
            let mut after = words[start + word.len()..].chars();
            let is_joined = match after.next() {
                Some('.') => after.next().is_some_and(char::is_alphanumeric),
                // The plural of a key, and a colon after a name.
                Some('s' | ':') => after.next().is_some_and(joins),
                Some(letter) => joins(letter),
                None => false,
            };
            !is_joined && !before.is_some_and(|letter| joins(letter) || letter == '.')
        })
        .map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_word() {
        for (words, word, at) in [
            ("Interface eth1 cannot", "eth1", Some(10)),
            ("Interface eth1.100 cannot", "eth1", None),
            ("Interface eth1.", "eth1", Some(10)),
            ("Port eth1-a and eth1", "eth1", Some(16)),
            ("trunk tags overlap", "trunk tag", Some(0)),
            ("nothing", "", None),
        ] {
            assert_eq!(position(words, word), at, "{words:?} {word:?}");
        }
    }

    #[test]
    fn long_words_are_cut() {
        let long = "x".repeat(1000);
        let refused = refused(Path::default().key("routes"), &long);
        let message = shortened(refused, &str::to_owned).to_string();
        assert!(message.chars().count() < 500, "{message}");
        assert!(message.ends_with('…'), "{message}");
    }
}
