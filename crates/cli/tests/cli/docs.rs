//! Checks the documents: the things that they name exist, and the lists in them are complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::common::{printed, root, weft, weft_with_stdin};
use regex::Regex;
use serde_json::Value;
use weft_addons::{Image, host::Preset};

/// A document, by its path from the root of the tree.
struct Document {
    path: String,
    text: String,
}

/// All documents of the project.
fn documents() -> Vec<Document> {
    let in_folder = |folder: &str| {
        let mut files: Vec<PathBuf> = fs::read_dir(root().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
        files.sort();
        files
    };
    let folders = [
        ".",
        "docs",
        "docs/api",
        "docs/compatibility",
        "docs/design",
        "docs/tasks",
        "docs/tutorials",
    ];
    let files = folders.into_iter().flat_map(in_folder);
    files
        .map(|file| Document {
            path: file
                .strip_prefix(root())
                .unwrap_or(&file)
                .to_string_lossy()
                .trim_start_matches("./")
                .to_owned(),
            text: fs::read_to_string(&file).unwrap(),
        })
        .collect()
}

impl Document {
    /// The text of the section under this heading, up to the next one of the same level.
    fn section(&self, heading: &str) -> &str {
        let (_, rest) = self
            .text
            .split_once(&format!("\n## {heading}\n"))
            .unwrap_or_else(|| panic!("{}: no section {heading}", self.path));
        rest.split("\n## ").next().unwrap()
    }

    /// Everything that is written as code: lines of blocks, but for what a command printed, and
    /// spans in the text. The first column of a table of another user's names is left out.
    fn code(&self) -> Vec<String> {
        let mut code = Vec::new();
        let (mut block, mut elsewhere): (Option<(String, bool)>, bool) = (None, false);
        let span = Regex::new("`([^`]+)`").unwrap();
        for line in self.text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                // Where a prompt is shown, the other lines are what was printed.
                let prompts = self.text
                    [line.as_ptr() as usize - self.text.as_ptr() as usize + line.len()..]
                    .trim_start()
                    .starts_with("$ ");
                block = if block.is_none() {
                    Some((language.to_owned(), prompts))
                } else {
                    None
                };
            } else if let Some((language, prompts)) = &block {
                if language == "console" && (!prompts || line.starts_with("$ ")) {
                    code.push(line.trim_start_matches("$ ").to_owned());
                }
            } else {
                elsewhere = line.starts_with("| there |") || elsewhere && line.starts_with('|');
                let line = if elsewhere {
                    line.splitn(3, '|').nth(2).unwrap_or_default()
                } else {
                    line
                };
                code.extend(span.captures_iter(line).map(|found| found[1].to_owned()));
            }
        }
        code
    }

    /// The lines of its blocks of commands, without output.
    fn commands(&self) -> Vec<String> {
        let blocks = self.text.split("```console\n").skip(1);
        let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
        blocks
            .flat_map(|block| {
                let prompts = block.starts_with("$ ");
                let lines = block.lines();
                lines.filter_map(move |line| match prompts {
                    true => line.strip_prefix("$ "),
                    false => Some(line),
                })
            })
            .map(str::to_owned)
            .collect()
    }

    /// The commands after a prompt, each with the output that is shown below it.
    fn shown(&self) -> Vec<(String, String)> {
        let blocks = self.text.split("```console\n").skip(1);
        let blocks = blocks.filter_map(|rest| rest.split("```").next()?.strip_prefix("$ "));
        blocks
            .flat_map(|block| block.split("\n$ "))
            .filter_map(|one| one.split_once('\n'))
            .map(|(command, output)| (command.to_owned(), output.to_owned()))
            .collect()
    }

    /// Its blocks of YAML.
    fn yaml(&self) -> Vec<&str> {
        self.text
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap())
            .collect()
    }

    /// The rows of the first table in a text, a cell each.
    fn rows(section: &str) -> Vec<Vec<String>> {
        let table = section
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'));
        table
            .skip(2)
            .map(|row| {
                row.trim_matches('|')
                    .split('|')
                    .map(|cell| cell.trim().to_owned())
                    .collect()
            })
            .collect()
    }
}

/// Returns the texts in backticks.
fn spans(text: &str) -> Vec<String> {
    Regex::new("`([^`]+)`")
        .unwrap()
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

/// The names of all commands.
fn commands() -> BTreeSet<String> {
    let help = printed(&["--help"]);
    let list = help
        .split("Commands:\n")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    // A name stands two blanks in. A deeper line continues the text of the line above.
    list.lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The anchor that a heading has (github.com's rule: lower case, punctuation dropped, blanks become
/// hyphens).
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_link_inside_the_tree_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let documents = documents();
    let mut broken = Vec::new();
    for document in &documents {
        for found in link.captures_iter(&document.text) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let from = root().join(&document.path);
            let path = if file.is_empty() {
                from
            } else {
                from.parent().unwrap().join(file)
            };
            let headings = fs::read_to_string(&path).unwrap_or_default();
            let has_anchor = || {
                headings
                    .lines()
                    .any(|line| line.starts_with('#') && anchor(line) == fragment)
            };
            if !path.exists() || !fragment.is_empty() && !has_anchor() {
                broken.push(format!("{}: {target}", document.path));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_command_and_flag_exists() {
    let commands = commands();
    let call = Regex::new(r"(?:^|[\s/(`])weft ((?:[^|;&<>#\s]+ ?)+)").unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for document in documents() {
        for code in document.code() {
            for found in call.captures_iter(&code) {
                let mut words = found[1].split_whitespace().peekable();
                let Some(command) = words.next_if(|word| commands.contains(*word)) else {
                    let first = words.next().unwrap_or_default();
                    // `--help` and so on, or a placeholder.
                    let is_help = first.starts_with("--") || first == "help";
                    if !is_help && first != "…" && first != "COMMAND" {
                        wrong.push(format!("{}: weft {first}", document.path));
                    }
                    continue;
                };
                let help = printed(&[command, "--help"]);
                for flag in words.filter(|word| word.starts_with('-') && word.len() > 1) {
                    checked += 1;
                    let flag = flag.split('=').next().unwrap();
                    if !Regex::new(&format!(r"(?m)^ .*{}(?:[ ,\[]|$)", regex::escape(flag)))
                        .unwrap()
                        .is_match(&help)
                    {
                        wrong.push(format!("{}: weft {command} {flag}", document.path));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        checked >= 10,
        "only {checked} flags were found: is this test still reading the documents?"
    );
}

/// The README.
fn readme() -> Document {
    documents()
        .into_iter()
        .find(|document| document.path == "README.md")
        .unwrap()
}

/// The arguments of each call of `weft` in a line of a shell.
fn calls(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap();
    line.split(['|', ';'])
        .flat_map(|part| part.split("&&"))
        .filter_map(|part| {
            let mut words = part.split_whitespace().map(str::to_owned);
            (words.next()? == "weft").then(|| words.collect())
        })
        .collect()
}

/// Commands that need no cluster.
const OFFLINE: [&str; 6] = [
    "crds",
    "explain",
    "manifests",
    "render",
    "validate",
    "version",
];

/// The commands of the README, with the values that a line before gives to variables.
fn pasted() -> Vec<String> {
    let assignment = Regex::new(r"^([A-Z]+)=(\S+)$").unwrap();
    let mut variables = Vec::new();
    let mut lines = Vec::new();
    for line in readme().commands() {
        if let Some(found) = assignment.captures(&line) {
            variables.push((format!("${}", &found[1]), found[2].to_owned()));
        }
        let filled = variables
            .iter()
            .fold(line, |line, (name, value)| line.replace(name, value));
        lines.push(filled);
    }
    lines
}

#[test]
fn each_command_of_the_readme_runs_as_pasted() {
    let mut checked = 0;
    for call in pasted().iter().flat_map(|line| calls(line)) {
        let mut call: Vec<_> = call.iter().map(String::as_str).collect();
        if !call.first().is_some_and(|name| OFFLINE.contains(name)) {
            // This reads all arguments before it.
            call.push("--help");
        }
        let run = weft(&root(), &call);
        assert_eq!(run.code, 0, "weft {call:?}: {}{}", run.stdout, run.stderr);
        checked += 1;
    }
    assert!(checked >= 4, "{checked}: is this test still reading it?");
    let wrong = weft(&root(), &["status", "--no-such-flag", "--help"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stdout);
}

#[test]
fn the_output_that_the_readme_shows_without_a_cluster_is_printed() {
    let mut checked = 0;
    for (command, shown) in readme().shown() {
        let calls = calls(&command);
        let Some([name, arguments @ ..]) = calls.first().map(Vec::as_slice) else {
            panic!("README.md shows the output of {command}, which no test checks")
        };
        if OFFLINE.contains(&name.as_str()) {
            let call: Vec<_> = [name]
                .into_iter()
                .chain(arguments)
                .map(String::as_str)
                .collect();
            assert_eq!(weft(&root(), &call).stdout, shown, "{command}");
            checked += 1;
        } else {
            // crates/system-tests/tests/commands/readme.rs
            assert!(["plan", "status"].contains(&name.as_str()), "{command}");
        }
    }
    assert!(checked >= 1, "{checked}: is this test still reading it?");
}

#[test]
fn documents_that_help_points_to_exist() {
    let name = Regex::new(r"docs/[a-z-]+\.md").unwrap();
    for command in commands() {
        for found in name.find_iter(&printed(&[&command, "--help"])) {
            assert!(
                root().join(found.as_str()).exists(),
                "weft {command} --help: {}",
                found.as_str()
            );
        }
    }
}

/// The targets of the Makefile and of what it includes.
fn targets() -> BTreeSet<String> {
    ["Makefile", "scripts/cnao.mk"]
        .into_iter()
        .flat_map(|file| {
            let text = fs::read_to_string(root().join(file)).unwrap();
            let rules = text.lines().filter_map(|line| line.split_once(':'));
            let names = rules.flat_map(|(names, _)| names.split(' '));
            names.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn each_target_of_cnao_that_the_page_names_works_here_too() {
    let page = documents()
        .into_iter()
        .find(|document| document.path == "docs/contributing.md")
        .unwrap();
    let targets = targets();
    let names: Vec<_> = Document::rows(page.section("Targets"))
        .iter()
        .flat_map(|row| spans(&row[0]))
        .filter_map(|span| Some(span.strip_prefix("make ")?.replace('*', "%")))
        .collect();
    assert!(names.len() > 12, "{names:?}");
    for name in names {
        assert!(targets.contains(&name), "make {name}");
    }
}

#[test]
fn every_make_target_exists() {
    let targets = targets();
    let call = Regex::new(r"(?:^|\s)make ([a-z][a-z0-9/*-]*)").unwrap();
    for document in documents() {
        for code in document.code() {
            for found in call.captures_iter(&code) {
                assert!(
                    targets.contains(&found[1]),
                    "{}: make {}",
                    document.path,
                    &found[1]
                );
            }
        }
    }
}

#[test]
fn every_file_that_is_named_exists() {
    let name =
        Regex::new(r"^(?:crates|components|deploy|docs|examples|scripts|testenv|api|plan|addons|runtime|operator|cli|system-tests)/[\w./-]+$").unwrap();
    for document in documents() {
        for code in document
            .code()
            .into_iter()
            .filter(|code| name.is_match(code))
        {
            let there = ["", "crates"]
                .iter()
                .any(|parent| root().join(parent).join(&code).exists());
            assert!(there, "{}: {code}", document.path);
        }
    }
}

#[test]
fn every_suite_of_tests_exists() {
    let call = Regex::new(r"cargo test -p (\S+)(?:.*? --test (\S+))?").unwrap();
    for found in documents()
        .iter()
        .flat_map(Document::code)
        .filter_map(|code| {
            let found = call.captures(&code)?;
            Some((
                found[1].to_owned(),
                found.get(2).map(|test| test.as_str().to_owned()),
            ))
        })
    {
        let (package, test) = found;
        let folder = root().join("crates").join(if package == "weft" {
            "cli"
        } else {
            package.trim_start_matches("weft-")
        });
        assert!(folder.join("Cargo.toml").exists(), "{package}");
        if let Some(test) = test {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let exists = manifest.contains(&format!("[[test]]\nname = \"{test}\"\n"))
                || folder.join("tests").join(&test).join("main.rs").exists();
            assert!(exists, "{package} --test {test}");
        }
    }
}

/// All sources below these folders of `crates`, without tests next to the code, by path.
fn sources_in(folders: &[String]) -> BTreeMap<PathBuf, String> {
    fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("src/tests") {
                continue;
            }
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.to_string_lossy().ends_with("_tests.rs")
            {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(
                    path,
                    text.split("#[cfg(test)]\nmod tests {")
                        .next()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    let mut found = BTreeMap::new();
    folders
        .iter()
        .for_each(|folder| collect(&root().join("crates").join(folder), &mut found));
    found
}

/// Those of these crates.
fn sources(crates: &[&str]) -> BTreeMap<PathBuf, String> {
    sources_in(
        &crates
            .iter()
            .map(|name| format!("{name}/src"))
            .collect::<Vec<_>>(),
    )
}

fn all(text: &str, pattern: &str) -> BTreeSet<String> {
    Regex::new(pattern)
        .unwrap()
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

fn status_page() -> Document {
    documents()
        .into_iter()
        .find(|document| document.path == "docs/status.md")
        .unwrap()
}

/// The table of conditions and events.
fn reasons() -> Value {
    serde_json::from_str(&printed(&["explain", "-o", "json"])).unwrap()
}

fn list(value: &Value) -> Vec<&str> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).collect()
}

fn in_code(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// The tables of the status page, each with the heading before it.
fn tables_of_the_status_page(table: &Value) -> Vec<(String, String)> {
    let row = |cells: &[&str]| format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |");
    let mut tables = Vec::new();
    let mut types = row(&["type", "of", "meaning, when it is True"]) + "| --- | --- | --- |\n";
    for one in table["types"].as_array().unwrap() {
        let kinds = list(&one["kinds"]);
        let kinds = match kinds.len() {
            7 => "every kind".to_owned(),
            _ => kinds.join(", "),
        };
        let name = in_code(&[one["name"].as_str().unwrap()]);
        types += &row(&[&name, &kinds, one["meaning"].as_str().unwrap()]);
    }
    tables.push(("### Types".to_owned(), types));
    for section in table["sections"].as_array().unwrap() {
        let kinds = list(&section["kinds"]);
        let heading = match kinds.len() {
            7 => "Every kind".to_owned(),
            _ => kinds.join(" and "),
        };
        let mut rows = row(&["type", "status", "reason", "when", "what to do"])
            + "| --- | --- | --- | --- | --- |\n";
        for one in section["rows"].as_array().unwrap() {
            let reasons = match &list(&one["reasons"])[..] {
                [""] => "–".to_owned(),
                ["*"] => "that of another condition".to_owned(),
                reasons => in_code(reasons),
            };
            let types = match &list(&one["types"])[..] {
                types if types.len() > 5 => "each step".to_owned(),
                types => in_code(types),
            };
            let only = match &list(&one["only"])[..] {
                [] => String::new(),
                kinds => format!("of {}: ", kinds.join(", ")),
            };
            rows += &row(&[
                &types,
                &list(&one["statuses"]).join(", "),
                &reasons,
                &(only + one["when"].as_str().unwrap()),
                one["fix"].as_str().unwrap(),
            ]);
        }
        tables.push((format!("### {heading}"), rows));
    }
    let mut events = row(&["type", "of", "reason", "when"]) + "| --- | --- | --- | --- |\n";
    for one in table["events"].as_array().unwrap() {
        let reasons = match &list(&one["reasons"])[..] {
            reasons if reasons.len() > 5 => "the type of the condition".to_owned(),
            reasons => in_code(reasons),
        };
        events += &row(&[
            one["type"].as_str().unwrap(),
            &list(&one["kinds"]).join(", "),
            &reasons,
            one["when"].as_str().unwrap(),
        ]);
    }
    tables.push(("## Events".to_owned(), events));
    tables
}

#[test]
fn the_status_page_has_the_tables_of_weft_explain() {
    let mut text = status_page().text;
    let mut missing = Vec::new();
    for (heading, table) in tables_of_the_status_page(&reasons()) {
        let (before, after) = text
            .split_once(&format!("\n{heading}\n"))
            .unwrap_or_else(|| panic!("docs/status.md: no heading {heading}"));
        let begin = after.find("\n|").unwrap_or_default() + 1;
        let rows = after[begin..].split_inclusive('\n');
        let end: usize = rows
            .take_while(|row| row.starts_with('|'))
            .map(str::len)
            .sum();
        if after[begin..begin + end] != table {
            missing.push(heading.clone());
        }
        text = format!(
            "{before}\n{heading}\n{}{table}{}",
            &after[..begin],
            &after[begin + end..]
        );
    }
    if std::env::var_os("WEFT_GENERATE").is_some() {
        fs::write(root().join("docs/status.md"), text).unwrap();
        return;
    }
    assert!(
        missing.is_empty(),
        "docs/status.md is not up to date: {missing:?}. Run WEFT_GENERATE=1 cargo test -p weft --test cli docs::the_status_page"
    );
}

/// The files that write conditions.
const CONDITIONS: [&str; 12] = [
    "agent/src/enact/status.rs",
    "agent/src/report/status.rs",
    "cluster-network/src/conditions.rs",
    "node-network/src/deployment/conditions.rs",
    "node-network/src/rollout/addresses.rs",
    "node-network/src/rollout/readiness.rs",
    "node-network/src/rollout/status.rs",
    "node-network/src/values.rs",
    "placement/src/conditions.rs",
    "plan/src/conditions.rs",
    "plan/src/dropped.rs",
    "plan/src/health.rs",
];

/// The crates whose code runs in the operator and in the agents.
const RUNNING: [&str; 8] = [
    "addons",
    "agent",
    "cluster-network",
    "node-network",
    "operator",
    "placement",
    "plan",
    "runtime",
];

#[test]
fn the_table_of_weft_explain_has_each_reason_of_the_code_and_no_other() {
    let sources = sources(&RUNNING);
    let crates = root().join("crates");
    let (mut words, mut writers) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in &sources {
        let path = path.strip_prefix(&crates).unwrap_or(path);
        let path = path.to_string_lossy().into_owned();
        if CONDITIONS.contains(&path.as_str()) {
            words.extend(all(text, r#""([A-Z][A-Za-z]+)""#));
        }
        // A test of the rollout, which no condition comes from.
        let is_test = path.ends_with("tests.rs") || path.ends_with("scenarios.rs");
        if text.contains("last_transition_time:") && !is_test {
            writers.insert(path);
        }
        // The reasons of refusals and of a wait for another operator, where they arise.
        for pattern in [
            r#"Blocked \{\s*reason: "([A-Z][A-Za-z]+)""#,
            r#"\brefusal\(\s*"([A-Z][A-Za-z]+)""#,
            r#"\n[^/\n]*Refusal::new\(\s*"([A-Z][A-Za-z]+)""#,
        ] {
            words.extend(all(text, pattern));
        }
        if text.contains("Refusal") {
            words.extend(all(
                text,
                r#"const [A-Z_]+: &str = "([A-Z][a-z]+[A-Z][A-Za-z]+)";"#,
            ));
        }
    }
    let known: BTreeSet<String> = CONDITIONS.map(str::to_owned).into();
    let unread: Vec<_> = writers.difference(&known).collect();
    assert!(
        unread.is_empty(),
        "these files write conditions too: {unread:?}"
    );
    // Statuses, severities, a kind, and a capability of a host.
    for word in [
        "True",
        "False",
        "Unknown",
        "Info",
        "Warning",
        "Node",
        "OpenvSwitch",
    ] {
        words.remove(word);
    }
    for word in [
        weft_api::node_network::NODE_CONDITION,
        weft_api::node_network::ROLLBACK_INCOMPLETE,
        weft_node_network::kernel_subset::KERNEL,
        weft_node_network::normalise::FILTERED,
    ] {
        words.insert(word.to_owned());
    }
    let table = reasons();
    let mut listed = BTreeSet::new();
    for row in table["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["rows"].as_array().unwrap())
    {
        let names = list(&row["types"]).into_iter().chain(list(&row["reasons"]));
        listed.extend(names.map(str::to_owned));
    }
    listed.retain(|word| !["", "*"].contains(&word.as_str()));
    assert_eq!(
        listed, words,
        "left: crates/cli/src/reasons/table.yaml, right: the code"
    );
}

#[test]
fn the_table_of_weft_explain_has_each_event_of_the_code_and_no_other() {
    let mut events = BTreeSet::new();
    for (path, text) in &sources(&RUNNING) {
        events.extend(all(text, r#"reason: "([A-Za-z]+)"\.to_owned\(\)"#));
        events.extend(all(text, r#"Blocked \{\s*reason: "([A-Z][A-Za-z]+)""#));
        if path.ends_with("runtime/src/reconcile/events.rs") {
            let failed = all(text, r#"reason: format!\("([A-Za-z]+): "#);
            events.extend(failed.into_iter().map(|word| format!("{word}: REASON")));
            // Conditions that are events under their own name.
            events.extend(all(text, r#"\("([A-Z][A-Za-z]+)", (?:true|false)\)"#));
        }
        if path.ends_with("placement/src/conditions.rs") {
            events.extend(all(text, r#""([A-Za-z]*Ready)""#));
        }
    }
    let table = reasons();
    let listed: BTreeSet<String> = table["events"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|event| list(&event["reasons"]))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        listed, events,
        "left: crates/cli/src/reasons/table.yaml, right: the code"
    );
}

#[test]
fn every_state_of_a_component_is_listed_and_nothing_else() {
    let sources = sources(&["addons"]);
    let status = sources
        .iter()
        .find(|(path, _)| path.ends_with("addons/src/status.rs"))
        .unwrap()
        .1;
    let mut states = all(status, r#"state\w* =[^;]*?"([A-Z][A-Za-z]+)""#);
    states.extend(all(status, r#"state: "([A-Z][A-Za-z]+)""#));
    states.extend(all(status, r#"\{\s*"([A-Z][A-Za-z]+)"\s*\} else"#));
    let listed: BTreeSet<String> = Document::rows(status_page().section("Components"))
        .iter()
        .flat_map(|row| spans(&row[0]))
        .collect();
    assert_eq!(listed, states, "left: docs/status.md, right: the code");
}

#[test]
fn every_action_of_a_plan_is_listed_and_nothing_else() {
    let planned = fs::read_to_string(root().join("crates/cli/src/planned.rs")).unwrap();
    let signs = Regex::new(r#"sign\("(.)", "([a-z-]+)""#).unwrap();
    let actions: BTreeSet<_> = signs
        .captures_iter(&planned)
        .map(|found| (found[2].to_owned(), found[1].to_owned()))
        .collect();
    let page = documents()
        .into_iter()
        .find(|document| document.path == "docs/command-line.md")
        .unwrap();
    let table = page
        .text
        .split("| `action` |")
        .nth(1)
        .unwrap_or_else(|| panic!("{}: no table of actions", page.path));
    let rows = Document::rows(&format!("| |{table}"));
    let listed = rows
        .iter()
        .map(|row| (spans(&row[0]).join(""), spans(&row[1]).join("")))
        .collect();
    assert_eq!(
        actions, listed,
        "left: the code, right: docs/command-line.md"
    );
}

#[test]
fn every_metric_is_listed_and_nothing_else() {
    let sources = sources(&["runtime", "addons", "operator"]);
    let mut metrics = BTreeSet::new();
    let registered = Regex::new(r#"register\(\s*"(\w+)",\s*"[^"]*",\s*metrics\.(\w+)"#).unwrap();
    for text in sources.values() {
        // OpenMetrics: the name of a counter ends with `_total`.
        let counters = all(text, r"(\w+): Family<\w+, Counter>");
        for found in registered.captures_iter(text) {
            let (name, field) = (&found[1], &found[2]);
            metrics.insert(if counters.contains(field) {
                format!("{name}_total")
            } else {
                name.to_owned()
            });
        }
        metrics.extend(all(
            text,
            r#"\(\s*"((?:kubevirt_cnao|weft_placement|weft_resource|weft_agent|weft_node|weft_contested)_\w+)""#,
        ));
    }
    let listed: BTreeSet<String> = Document::rows(status_page().section("Metrics"))
        .iter()
        .flat_map(|row| spans(&row[0]))
        .collect();
    assert_eq!(listed, metrics, "left: docs/status.md, right: the code");
}

#[test]
fn every_variable_of_ours_is_read_somewhere() {
    let readers = [
        "Makefile",
        "scripts/control-plane",
        "scripts/test",
        "scripts/demo",
        "scripts/setup",
    ]
    .map(|file| fs::read_to_string(root().join(file)).unwrap_or_default());
    let code: String = sources(&["cli", "operator", "testenv", "runtime", "agent"])
        .into_values()
        .chain(readers)
        .collect();
    let tests: String = sources_in(&["cli/tests".to_owned(), "system-tests".to_owned()])
        .into_values()
        .collect();
    for document in documents() {
        for name in all(&document.text, r"\b(WEFT_[A-Z_]+)\b") {
            assert!(
                code.contains(&name) || tests.contains(&name),
                "{}: {name}",
                document.path
            );
        }
    }
}

/// The minor versions of Kubernetes that Weft supports, oldest first: each has a folder with the
/// pinned version of its control plane.
fn supported_versions() -> Vec<u32> {
    let mut versions: Vec<u32> = fs::read_dir(root().join("testenv/kubernetes"))
        .unwrap()
        .map(|folder| {
            let name = folder.unwrap().file_name().into_string().unwrap();
            name.strip_prefix("1.").unwrap().parse().unwrap()
        })
        .collect();
    versions.sort_unstable();
    versions
}

#[test]
fn each_supported_version_of_kubernetes_is_pinned_in_its_folder() {
    let versions = supported_versions();
    let (oldest, newest) = (versions[0], versions[versions.len() - 1]);
    assert_eq!(versions, (oldest..=newest).collect::<Vec<_>>());
    for minor in versions {
        let module = format!("testenv/kubernetes/1.{minor}/go.mod");
        let pinned = all(
            &fs::read_to_string(root().join(&module)).unwrap(),
            r"k8s.io/kubernetes v1\.(\d+)\.",
        );
        assert_eq!(pinned, [minor.to_string()].into(), "{module}");
    }
}

#[test]
fn documents_give_the_supported_versions_of_kubernetes() {
    let versions = supported_versions();
    let range = format!("1.{} to 1.{}", versions[0], versions[versions.len() - 1]);
    let given = Regex::new(r"Kubernetes\s+(1\.\d+)\s+to\s+(1\.\d+)").unwrap();
    let mut giving = BTreeSet::new();
    // The changelog keeps the versions of earlier releases.
    let mut current = documents();
    current.retain(|document| document.path != "CHANGELOG.md");
    for document in current {
        for found in given.captures_iter(&document.text) {
            let found = format!("{} to {}", &found[1], &found[2]);
            assert_eq!(
                found, range,
                "left: {}, right: testenv/kubernetes",
                document.path
            );
            giving.insert(document.path.clone());
        }
    }
    for path in [
        "README.md",
        "docs/contributing.md",
        "docs/install.md",
        "docs/maturity.md",
    ] {
        assert!(
            giving.contains(path),
            "{path} gives no versions of Kubernetes"
        );
    }
    let rules = fs::read_to_string(root().join("crates/api/src/rules.rs")).unwrap();
    let oldest = format!("CEL of Kubernetes 1.{}**", versions[0]);
    assert!(rules.contains(&oldest), "crates/api/src/rules.rs: {oldest}");
}

#[test]
fn the_configuration_of_the_readme_is_the_first_example() {
    let readme = readme();
    let example = fs::read_to_string(root().join("examples/first.yaml")).unwrap();
    let [yaml] = readme.yaml()[..] else {
        panic!("README.md has one configuration")
    };
    assert_eq!(
        super::common::objects(yaml),
        super::common::objects(&example)
    );
}

#[test]
fn every_image_is_listed_and_nothing_else() {
    let page = documents()
        .into_iter()
        .find(|document| document.path == "docs/addons.md")
        .unwrap();
    let listed: Vec<_> = Document::rows(page.section("Images"))
        .iter()
        .flat_map(|row| spans(&row.join(" ")))
        .collect();
    let images: Vec<_> = Image::ALL
        .iter()
        .flat_map(|image| [image.env(), image.default_reference()])
        .collect();
    assert_eq!(listed, images, "left: docs/addons.md, right: the code");
}

#[test]
fn every_preset_of_host_paths_is_listed_with_its_folders() {
    let page = documents()
        .into_iter()
        .find(|document| document.path == "docs/addons.md")
        .unwrap();
    let (_, section) = page.text.split_once("\n### hostPaths\n").unwrap();
    let listed: Vec<_> = Document::rows(section)
        .iter()
        .map(|row| (spans(&row[0]).join(""), spans(&row[2..].join(" "))))
        .collect();
    let presets: Vec<_> = Preset::ALL
        .iter()
        .map(|preset| {
            let paths = preset.paths();
            (
                preset.to_string(),
                vec![
                    paths.cni_bin_dir,
                    paths.cni_config_dir,
                    paths.kubelet_dir,
                    paths.network_namespace_dir,
                ],
            )
        })
        .collect();
    assert_eq!(listed, presets, "left: docs/addons.md, right: the code");
}

/// Returns the fields of a resource, as paths such as `kubeMacPool.rangeStart`. Of lists, what
/// their entries can have. Parts of Kubernetes' own types carry no texts in the schema, and end the
/// path.
fn options(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    let described = |field: &Value| field["description"].is_string();
    let schema = if schema["items"].is_object() {
        &schema["items"]
    } else {
        schema
    };
    let fields: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, field)| described(field))
        .collect();
    if fields.is_empty() {
        found.insert(path.to_owned());
    }
    for (name, field) in fields {
        options(
            format!("{path}.{name}").trim_start_matches('.'),
            field,
            found,
        );
    }
}

/// Reports whether there is such a path, in any entry of the lists on the way.
fn has(value: &Value, path: &[&str]) -> bool {
    match (value, path) {
        (Value::Array(items), path) if !path.is_empty() => items.iter().any(|item| has(item, path)),
        (value, [field, rest @ ..]) => value.get(field).is_some_and(|value| has(value, rest)),
        (value, []) => !value.is_null(),
    }
}

#[test]
fn every_option_has_an_example() {
    // Fields of another domain, other spellings, and fields that `type` replaces.
    let unneeded_of_addons = [
        "nmstate",
        "kubeSecondaryDNS.DOMAIN",
        "kubeSecondaryDNS.NAME_SERVER_IP",
        "tlsSecurityProfile.old",
        "tlsSecurityProfile.modern",
        "resources.limits.cpu",
        "resources.limits.ephemeral-storage",
        "resources.requests.ephemeral-storage",
    ];
    // Fields that state the opposite of another field.
    let unneeded_of_network = [
        "clusterNetwork.hostSubnetLength",
        "clusterNetworks.hostPrefix",
    ];
    // Without effect.
    let unneeded_of_nmstate = [
        "infraAffinity",
        "infraNodeSelector",
        "infraTolerations",
        "metricsConfiguration.bindAddress",
        "selfSignConfiguration.caOverlapInterval",
        "selfSignConfiguration.caRotateInterval",
        "selfSignConfiguration.certOverlapInterval",
        "selfSignConfiguration.certRotateInterval",
    ];
    // Refused for now.
    let unneeded_of_policies = ["autoConfig.autoVlan"];
    let unneeded_of_states = ["nodeName"];
    let [states, policies, _, nmstate] = weft_api::node_network::crds();
    for (kind, page, crd, unneeded) in [
        (
            "NetworkAddonsConfig",
            "docs/addons.md",
            weft_api::addons::crd(),
            &unneeded_of_addons[..],
        ),
        (
            "NetworkConfig",
            "docs/cluster-network.md",
            weft_api::cluster_network::crd(),
            &unneeded_of_network[..],
        ),
        (
            "NodeNetworkState",
            "docs/node-network.md",
            states,
            &unneeded_of_states[..],
        ),
        (
            "NodeNetworkConfigurationPolicy",
            "docs/node-network.md",
            policies,
            &unneeded_of_policies[..],
        ),
        (
            "NMState",
            "docs/node-network.md",
            nmstate,
            &unneeded_of_nmstate[..],
        ),
    ] {
        let crd = serde_json::to_value(crd).unwrap();
        let mut options_there = BTreeSet::new();
        options(
            "",
            &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"],
            &mut options_there,
        );
        for unneeded in unneeded {
            assert!(
                options_there.remove(*unneeded),
                "{unneeded} is no option any more: take it off this list"
            );
        }
        let document = documents()
            .into_iter()
            .find(|document| document.path == page)
            .unwrap();
        let examples: Vec<Value> = document
            .yaml()
            .iter()
            .flat_map(|yaml| super::common::objects(yaml))
            .collect();
        let not_shown = |option: &&String| {
            let path: Vec<_> = option.split('.').collect();
            !examples
                .iter()
                .any(|example| example["kind"] == kind && has(&example["spec"], &path))
        };
        let missing: Vec<_> = options_there.iter().filter(not_shown).collect();
        assert!(
            missing.is_empty(),
            "{page} has no example with {missing:?}: add one"
        );
    }
}

#[test]
fn every_example_of_the_pages_about_networks_is_valid() {
    for (page, least) in [("docs/cluster-network.md", 7), ("docs/node-network.md", 7)] {
        let document = documents()
            .into_iter()
            .find(|document| document.path == page)
            .unwrap();
        let examples = document.yaml();
        assert!(
            examples.len() >= least,
            "only {} examples were found: is this test still reading {page}?",
            examples.len()
        );
        for example in examples {
            let run = weft_with_stdin(&root(), &["validate", "-f", "-"], example);
            assert_eq!(run.code, 0, "{example}\n{}{}", run.stdout, run.stderr);
        }
    }
}

#[test]
fn tutorials_show_the_files_that_they_apply() {
    let files: BTreeMap<String, String> = fs::read_dir(root().join("examples/tutorials"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, lines.map(|line| format!("{line}\n")).collect())
        })
        .collect();
    let (mut named, mut shown) = (BTreeSet::new(), 0);
    let tutorials = documents()
        .into_iter()
        .filter(|document| document.path.starts_with("docs/tutorials/"));
    for document in tutorials {
        for yaml in document.yaml() {
            shown += 1;
            let is_file = files.values().any(|text| text == yaml);
            assert!(is_file, "{}: no file has just this:\n{yaml}", document.path);
        }
        named.extend(all(&document.text, r"examples/tutorials/([a-z-]+\.yaml)"));
    }
    assert!(shown >= 4, "only {shown} files are shown");
    let there: BTreeSet<String> = files.into_keys().collect();
    assert_eq!(
        named, there,
        "left: docs/tutorials, right: examples/tutorials"
    );
}

/// Reports whether there is a test of this name, `file::function` by its file below `crates/`, and
/// it runs.
fn is_test(name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else {
        return false;
    };
    let text = fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
    // The attributes in front of the function, a line each, and maybe comments.
    let test = format!(
        r"((?:[ \t]*(?:#\[[^\n]*\]|//[^\n]*)\n)+)[ \t]*(?:async )?fn {}\(",
        regex::escape(function)
    );
    let Some(found) = Regex::new(&test).unwrap().captures(&text) else {
        return false;
    };
    let attributes: Vec<_> = found[1]
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("#["))
        .collect();
    attributes
        .iter()
        .any(|line| matches!(*line, "#[test]" | "#[tokio::test]"))
        && !attributes.iter().any(|line| line.contains("ignore"))
}

/// A row of `testenv/gate`.
enum Row<'a> {
    /// The gate runs this test or this module of the system tests, and no other of them.
    Only(&'a str),
    /// The same, where a host with NetworkManager can be started.
    Host(&'a str),
    /// The gate leaves this test or this module out, for a reason.
    LeftOut(&'a str, &'a str),
    /// Only root runs this module, or this unit test.
    Root(&'a str),
}

/// Reads the rows of the gate.
fn gate(text: &str) -> Vec<Row<'_>> {
    let rows = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let words: Vec<_> = row.splitn(3, ' ').collect();
        match words[..] {
            [name] => Row::Only(name),
            ["host", test] if test.contains("::") => Row::Host(test),
            ["-", name, reason] => Row::LeftOut(name, reason.trim()),
            ["root", name] => Row::Root(name),
            _ => panic!("testenv/gate: this row is of no known kind: {row}"),
        }
    })
    .collect()
}

#[test]
fn the_gate_names_tests_and_modules_that_exist() {
    let text = fs::read_to_string(root().join("testenv/gate")).unwrap();
    let mut names = BTreeSet::new();
    for row in gate(&text) {
        let (name, reason) = match row {
            Row::Only(name) | Row::Host(name) => (name, "a test"),
            Row::LeftOut(name, reason) => (name, reason),
            Row::Root(name) => (name, "needs root"),
        };
        assert!(names.insert(name), "testenv/gate has {name} twice");
        assert!(!reason.is_empty(), "testenv/gate: {name} needs a reason");
        let there = match name.contains("::") {
            true => is_test(name),
            false => root().join("crates").join(name).exists(),
        };
        assert!(there, "testenv/gate: there is no test or module {name}");
    }
}

#[test]
fn the_gate_chooses_among_the_system_tests_and_has_no_row_without_effect() {
    let text = fs::read_to_string(root().join("testenv/gate")).unwrap();
    let (mut whole, mut tests, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for row in gate(&text) {
        let name = match row {
            Row::Only(name) | Row::Root(name) if !name.contains("::") => {
                whole.push(name);
                name
            }
            // A unit test.
            Row::Root(name) if name.contains("/src/") => continue,
            Row::Only(name) | Row::Host(name) | Row::Root(name) => {
                tests.push(name);
                name
            }
            Row::LeftOut(name, _) => {
                left_out.push(name);
                name
            }
        };
        assert!(name.starts_with("system-tests/tests/"), "{name}");
    }
    let is_in_a_module = |name: &str| {
        whole
            .iter()
            .any(|module| name != *module && name.starts_with(module))
    };
    for name in tests.iter().chain(&whole) {
        assert!(!is_in_a_module(name), "{name} runs with its module");
    }
    for name in left_out {
        assert!(is_in_a_module(name), "{name} would not run anyway");
    }
}

/// The promises of the README that `testenv/gate` names, each with the tests that guard it.
fn promises(gate: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut promise = None;
    for line in gate.lines() {
        if let Some(sentence) = line.strip_prefix("## ") {
            promise = Some(sentence);
            found.entry(sentence).or_default();
        } else if line.starts_with('#') {
            promise = None;
        } else if let (Some(promise), Some(test)) = (promise, line.split(' ').next_back()) {
            found
                .entry(promise)
                .or_default()
                .extend(test.contains("::").then_some(test));
        }
    }
    found
}

#[test]
fn each_promise_of_the_readme_has_a_test_in_the_gate() {
    let gate = fs::read_to_string(root().join("testenv/gate")).unwrap();
    let promises = promises(&gate);
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (promise, tests) in &promises {
        assert!(
            words(&readme).contains(promise),
            "README.md does not promise what testenv/gate names: {promise}"
        );
        assert!(!tests.is_empty(), "no test of the gate guards: {promise}");
    }
    let (_, reasons) = readme.split_once("Reasons to switch:").unwrap();
    let (reasons, _) = reasons.split_once("\n## ").unwrap();
    let reasons: Vec<_> = reasons.split("\n- ").skip(1).map(words).collect();
    assert!(reasons.len() >= 7, "{reasons:?}");
    for reason in reasons {
        assert!(
            promises.keys().any(|promise| reason.starts_with(promise)),
            "testenv/gate has no test for this promise of README.md: {reason}"
        );
    }
}

#[test]
fn each_promise_has_a_break_that_the_gate_must_see() {
    let gate = fs::read_to_string(root().join("testenv/gate")).unwrap();
    let mut broken = BTreeSet::new();
    for entry in fs::read_dir(root().join("testenv/breaks")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let test = text.lines().find_map(|line| line.strip_prefix("Test: "));
        let test = test.unwrap_or_else(|| panic!("{}: no line `Test: `", path.display()));
        assert!(
            gate.lines()
                .any(|line| line.split(' ').next_back() == Some(test)),
            "{}: the gate does not name {test}",
            path.display()
        );
        broken.insert(test.to_owned());
        let applies = Command::new("git")
            .args(["apply", "--check"])
            .arg(&path)
            .current_dir(root())
            .output()
            .unwrap();
        assert!(
            applies.status.success(),
            "{} does not apply. Bring it up to date: {}",
            path.display(),
            String::from_utf8_lossy(&applies.stderr)
        );
    }
    for (promise, tests) in promises(&gate) {
        assert!(
            tests.iter().any(|test| broken.contains(*test)),
            "testenv/breaks has no break of this promise: {promise}"
        );
    }
}

#[test]
fn every_known_problem_is_shown_by_a_test_or_says_why_not() {
    let page = documents()
        .into_iter()
        .find(|document| document.path == "docs/known-problems.md")
        .unwrap();
    let rows: Vec<_> = [
        "Found by reading its code",
        "From its tracker",
        "NetworkConfig",
        "NodeNetworkConfigurationPolicy, NodeNetworkState",
    ]
    .into_iter()
    .flat_map(|heading| Document::rows(page.section(heading)))
    .collect();
    assert!(
        rows.len() >= 40,
        "{} rows: is this test still reading the page?",
        rows.len()
    );
    for row in rows {
        let [problem, weft, shown] = &row[..] else {
            panic!("three columns: {row:?}")
        };
        assert!(!weft.is_empty(), "{problem}");
        if shown
            .strip_prefix("none: ")
            .is_some_and(|why| !why.is_empty())
        {
            continue;
        }
        let tests = spans(shown);
        assert!(
            !tests.is_empty(),
            "{problem}: name a test, or write `none: ` and why"
        );
        for test in tests {
            assert!(is_test(&test), "{problem}: there is no test {test}");
        }
    }
    assert!(
        !is_test("cli/tests/cli/docs.rs::is_test") && !is_test("cli/tests/cli/docs.rs::nothing"),
        "what is no test is no test"
    );
}
