//! Tabs in the indentation of YAML.
//!
//! YAML has only spaces there (YAML 1.2.2, section 6.1), and `kubectl` refuses a tab. Tabs between
//! braces, and in the lines of a text, are no indentation.

use crate::{
    NotYaml, Position, compose,
    node::{Content, Node},
};

/// How many spaces a tab may stand for.
const WIDTHS: [usize; 3] = [2, 4, 8];

/// The first tab that indents a field or an entry, if the text is YAML with spaces in its place.
pub(crate) fn in_indentation(text: &str) -> Option<NotYaml> {
    let lines: Vec<&str> = text.lines().collect();
    if lines.iter().all(|line| tab(line).is_none()) {
        return None;
    }
    WIDTHS.into_iter().find_map(|width| {
        let spaced: Vec<String> = lines.iter().map(|line| spaced(line, width)).collect();
        let mut indented = Vec::new();
        let root = compose::document(&spaced.join("\n")).ok()??;
        by_indentation(&root, &spaced, &mut indented);
        let position = indented
            .into_iter()
            .filter_map(|line| {
                let column = tab(lines.get(index(line)?)?)?;
                Some(Position { line, column })
            })
            .min()?;
        Some(NotYaml::at(
            position,
            format!(
                "a tab indents this line, and YAML allows only spaces there: replace each tab at the start of a line with {width} spaces"
            ),
        ))
    })
}

/// The indentation of a line, and the rest.
fn split(line: &str) -> (&str, &str) {
    line.split_at(line.len() - line.trim_start_matches([' ', '\t']).len())
}

/// The column of the first tab in the indentation of a line.
fn tab(line: &str) -> Option<u64> {
    u64::try_from(split(line).0.find('\t')? + 1).ok()
}

fn spaced(line: &str, width: usize) -> String {
    let (indentation, rest) = split(line);
    indentation.replace('\t', &" ".repeat(width)) + rest
}

/// The index of a line or a column.
fn index(number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(1)?).ok()
}

/// Adds the lines of all fields and entries that stand where they do by their indentation.
fn by_indentation(node: &Node, lines: &[String], found: &mut Vec<u64>) {
    if is_in_braces(node.at, lines) == Some(true) {
        return;
    }
    match &node.content {
        Content::Scalar { .. } => {}
        Content::Sequence(items) => {
            for item in items {
                found.push(item.at.line);
                by_indentation(item, lines, found);
            }
        }
        Content::Mapping(fields) => {
            for field in fields {
                found.push(field.at.line);
                by_indentation(&field.value, lines, found);
            }
        }
    }
}

/// Reports whether a brace or a bracket is at this place. `None` if the text has no such place.
fn is_in_braces(start: Position, lines: &[String]) -> Option<bool> {
    let line = lines.get(index(start.line)?)?;
    Some(matches!(line.chars().nth(index(start.column)?)?, '{' | '['))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(u64, u64, String)> {
        let error = in_indentation(text)?;
        let position = error.position?;
        Some((position.line, position.column, error.message))
    }

    #[test]
    fn a_tab_in_the_indentation_is_found_with_the_spaces_for_it() {
        for (text, line, column, width) in [
            ("spec:\n\tmultus: {}\n", 2, 1, 2),
            ("spec:\n  multus: {}\n\tovs: {}\n", 3, 1, 2),
            ("spec:\n    multus: {}\n\tovs: {}\n", 3, 1, 4),
            ("spec:\n  list:\n  \t- a: 1\n", 3, 3, 2),
            ("a: 1\nb:\r\n\tc: {\r\n  d: 1}\r\n", 3, 1, 2),
        ] {
            let (at, from, message) = found(text).unwrap_or_default();
            assert_eq!((at, from), (line, column), "{text:?}");
            assert!(
                message.ends_with(&format!("with {width} spaces")),
                "{text:?}: {message}"
            );
        }
    }

    #[test]
    fn other_tabs_are_left_alone() {
        for text in [
            "spec: {}\n",
            "a:\tb\n",
            "{\n\t\"a\": {\n\t\t\"b\": [\n\t\t\t1\n\t\t]\n\t}\n}\n",
            "text: |\n  a\n  \tb\n",
        ] {
            assert_eq!(found(text), None, "{text:?}");
            assert!(super::super::parse(text).is_ok(), "{text:?}");
        }
    }
}
