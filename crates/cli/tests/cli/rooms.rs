//! Modules keep their order: no file imports in a circle, and a room of the engine uses those above
//! it and none below.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Crates whose files do not import in a circle, by their folder.
const ORDERLY: [&str; 17] = [
    "../bench",
    "addons",
    "agent",
    "api",
    "attachments",
    "certificates",
    "cli",
    "cluster-network",
    "host",
    "images",
    "node-network",
    "operands",
    "operator",
    "placement",
    "plan",
    "runtime",
    "testenv",
];

/// The rooms of the engine, from those that use no other to the one that may use all, as the
/// crate's documentation lists them.
const LEVELS: [&[&str]; 7] = [
    &["backoff", "boot_clock", "heap", "metrics", "process"],
    &["api_server"],
    &["store"],
    &["leader"],
    &["reconcile"],
    &["serve"],
    &["inspect"],
];

/// Pairs of rooms of which the first does not use the second, whatever their levels allow.
const STRANGERS: [(&str, &str); 2] = [("serve", "reconcile"), ("serve", "leader")];

type Module = Vec<String>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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

/// The modules of a crate with their code. Tests may import whatever they like.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut all = BTreeMap::new();
    for path in files(source) {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let mut module: Module = inside
            .iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        let last = module.last().unwrap().clone();
        if path.extension().is_none_or(|extension| extension != "rs")
            || module.iter().any(|part| part == "tests")
            || last == "testing"
            || last.ends_with("_tests")
        {
            continue;
        }
        if ["mod", "lib", "main"].contains(&&*last) {
            module.pop();
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code: Vec<&str> = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        all.insert(module, code.join("\n"));
    }
    all
}

/// Splits at the commas outside of braces.
fn items(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|item| !item.is_empty());
    found
}

/// The paths of a `use` tree, or of a path in code.
fn paths(item: &str) -> Vec<String> {
    match item.split_once('{') {
        Some((prefix, rest)) => {
            let inner = rest.trim_end().strip_suffix('}').unwrap();
            items(inner)
                .iter()
                .flat_map(|item| paths(item))
                .map(|path| format!("{prefix}{path}"))
                .collect()
        }
        None => vec![item.split(" as ").next().unwrap().trim().to_owned()],
    }
}

/// Returns the part of a text that is one path or one tree in braces.
fn first_tree(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[..=at],
            '}' => depth -= 1,
            _ if depth > 0 || c.is_alphanumeric() || c == '_' || c == ':' => {}
            _ => return &text[..at],
        }
    }
    text
}

/// The absolute paths that a module names by `crate::` or `super::`.
fn named(module: &[String], code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for (word, up) in [("crate::", None), ("super::", Some(1))] {
        for (start, _) in code.match_indices(word) {
            let before = &code[..start];
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
                || before.ends_with("super::")
            {
                continue;
            }
            let (mut rest, mut up) = (&code[start + word.len()..], up);
            while let Some(further) = rest.strip_prefix("super::").filter(|_| up.is_some()) {
                (rest, up) = (further, up.map(|steps| steps + 1));
            }
            let base = up.map_or(&[][..], |steps| {
                &module[..module.len().saturating_sub(steps)]
            });
            for path in paths(first_tree(rest)) {
                let parts = path.split("::").map(|part| part.trim().to_owned());
                found.push(base.iter().cloned().chain(parts).collect());
            }
        }
    }
    found
}

/// The modules that each module of a crate uses. A use of the crate's root counts for none.
fn uses(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules(source);
    let module_of = |path: &Module| {
        (1..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|module| modules.contains_key(module))
    };
    modules
        .iter()
        .map(|(module, code)| {
            let used = named(module, code).iter().filter_map(module_of).collect();
            (module.clone(), used)
        })
        .collect()
}

/// Removes modules that use no other until none is left to remove: the rest imports in circles.
fn circles(mut uses: BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    for (module, used) in &mut uses {
        used.remove(module);
    }
    loop {
        let free: Vec<Module> = uses
            .iter()
            .filter(|(_, used)| used.is_empty())
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            return uses.keys().map(|module| module.join("::")).collect();
        }
        uses.retain(|module, _| !free.contains(module));
        for used in uses.values_mut() {
            used.retain(|module| !free.contains(module));
        }
    }
}

#[test]
fn no_file_of_these_crates_imports_in_a_circle() {
    for name in ORDERLY {
        let uses = uses(&crates().join(name).join("src"));
        assert!(
            uses.values().any(|used| !used.is_empty()) || uses.len() < 4,
            "{name}"
        );
        assert_eq!(
            circles(uses),
            [""; 0],
            "{name}: these import in a circle, or use those that do"
        );
    }
}

#[test]
fn no_room_of_the_engine_uses_one_below_it() {
    let level = |room: &str| {
        let found = LEVELS.iter().position(|level| level.contains(&room));
        found.unwrap_or_else(|| panic!("{room} is in no level"))
    };
    let mut count = 0;
    for (module, used) in uses(&crates().join("runtime/src")) {
        let Some(room) = module.first() else { continue };
        for other in used.iter().filter_map(|other| other.first()) {
            count += 1;
            let allowed = level(other) <= level(room)
                && !STRANGERS.contains(&(room.as_str(), other.as_str()));
            assert!(allowed, "{} uses {other}", module.join("::"));
        }
    }
    assert!(count > 50, "only {count} uses are found");
}
