//! The commands of a page, in their order, each with the output that the page shows for it.

use std::sync::LazyLock;

use regex::Regex;

/// A command, and what the page shows below it.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    /// The lines of its output. A page may leave out some.
    pub shown: Vec<String>,
}

/// The steps of the `console` blocks. A block with a prompt shows output, another one has only
/// commands.
pub fn steps(page: &str) -> Vec<Step> {
    let blocks = page.split("```console\n").skip(1);
    blocks
        .flat_map(|rest| of_block(rest.split("```").next().unwrap_or_default()))
        .collect()
}

fn of_block(block: &str) -> Vec<Step> {
    let has_prompts = block.starts_with("$ ");
    let mut steps: Vec<Step> = vec![];
    for line in block.lines() {
        let command = if has_prompts {
            line.strip_prefix("$ ")
        } else {
            Some(line)
        };
        match command {
            Some(command) => steps.push(Step {
                command: command.to_owned(),
                shown: vec![],
            }),
            None => steps.last_mut().unwrap().shown.push(line.to_owned()),
        }
    }
    steps
}

/// Values that differ between two runs, and what stands for them.
static VALUES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let values = [
        // Columns are as wide as their longest value.
        (r"\s+", " "),
        (r"\bled by \S+", "led by HOLDER"),
        (r"\bv1\.\d+\.\d+\b", "VERSION"),
        (r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b", "MAC"),
        (r"^\d+: (\w+)@if\d+:", "N: ${1}@ifN:"),
        (r"\b(\d+[dhms])+\b", "AGE"),
    ];
    values
        .map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead))
        .into()
});

fn normal(line: &str) -> String {
    let line = line.trim_end().to_owned();
    VALUES.iter().fold(line, |line, (pattern, instead)| {
        pattern.replace_all(&line, *instead).into_owned()
    })
}

/// Returns the first line of the page that the output lacks: each must be there, after the one
/// before it.
pub fn lacks<'a>(shown: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines().map(normal);
    shown
        .iter()
        .map(String::as_str)
        .find(|line| !lines.any(|said| said == normal(line)))
}

#[test]
fn steps_have_the_output_that_is_below_them() {
    let page = "Text\n\n```console\na | b\nc\n```\n\n```yaml\nd: 1\n```\n\n```console\n$ e\nsaid\n  more\n$ f\n```\n";
    let step = |command: &str, shown: &[&str]| Step {
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    let all = [
        step("a | b", &[]),
        step("c", &[]),
        step("e", &["said", "  more"]),
        step("f", &[]),
    ];
    assert_eq!(steps(page), all);
}

#[test]
fn output_is_compared_in_order_but_for_what_differs_each_time() {
    let shown = ["NAME   AGE", "a      40s", "operator: x, led by weft_1a"].map(str::to_owned);
    let lacks = |output: &str| lacks(&shown, output).map(str::to_owned);
    let output = "note\nNAME AGE\na 1m5s\nb 1m5s\noperator: x, led by y-7\n";
    assert_eq!(lacks(output), None);
    let renamed = output.replace("\na ", "\nc ");
    assert_eq!(lacks(&renamed).as_deref(), Some("a      40s"));
    let reversed: Vec<_> = output.lines().rev().collect();
    assert_eq!(lacks(&reversed.join("\n")).as_deref(), Some("a      40s"));
}
