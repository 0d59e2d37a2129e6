//! The rooms of the engine keep their order: a room uses those above it, and none below.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// From the one that uses no other to the one that may use all, as the crate's documentation lists
/// them. The tools of all rooms are one level.
const LEVELS: [&[&str]; 7] = [
    &["backoff", "heap", "metrics", "process"],
    &["api_server"],
    &["store"],
    &["leader"],
    &["reconcile"],
    &["serve"],
    &["inspect"],
];

/// `serve` shows what `store` has seen, and neither `reconcile` nor `serve` knows the other.
const STRANGERS: [(&str, &str); 2] = [("serve", "reconcile"), ("serve", "leader")];

fn level(room: &str) -> usize {
    let found = LEVELS.iter().position(|level| level.contains(&room));
    found.unwrap_or_else(|| panic!("{room} is in no level"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The rooms that a text names after `crate::`, alone or in braces.
fn used(text: &str) -> Vec<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let mut found = Vec::new();
    for (start, _) in text.match_indices("crate::") {
        let rest = &text[start + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(name(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    found.push(name(&group[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn no_room_uses_one_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses = 0;
    for path in files(&source) {
        let inside = path.strip_prefix(&source).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let room = first.strip_suffix(".rs").unwrap_or(first);
        if room == "lib" {
            continue;
        }
        for other in used(&fs::read_to_string(&path).unwrap()) {
            uses += 1;
            let allowed = level(&other) <= level(room) && !STRANGERS.contains(&(room, &*other));
            assert!(allowed, "{} uses {other}", inside.display());
        }
    }
    assert!(uses > 50, "only {uses} uses are found");
}
