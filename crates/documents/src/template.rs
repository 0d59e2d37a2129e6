//! Templates of other programs, which you have to render first.

use crate::{NotYaml, Position};

/// The advice for a template.
pub const RENDER_FIRST: &str = "this looks like a template, for example of Helm: render it first, and give Weft the result, for example helm template CHART | weft validate -f -";

/// The first `{{ }}` that stands outside of a text in quotes and of a comment, where it can be no
/// part of YAML.
pub(crate) fn outside_of_texts(text: &str) -> Option<NotYaml> {
    text.lines().zip(1..).find_map(|(content, line)| {
        let at = content.find("{{")?;
        let before = &content[..at];
        let is_open = |quote: char| before.matches(quote).count() % 2 == 1;
        let is_text = before.contains('#') || is_open('"') || is_open('\'');
        if is_text || !content[at..].contains("}}") {
            return None;
        }
        let column = (1..).zip(before.chars()).last().map_or(1, |(n, _)| n + 1);
        Some(NotYaml::at(Position { line, column }, RENDER_FIRST))
    })
}

/// Reports whether a text has `{{ }}`, which is a template where Weft has no references.
pub fn has_braces(text: &str) -> bool {
    text.split_once("{{")
        .is_some_and(|(_, rest)| rest.contains("}}"))
}

/// Reports whether a text is one of a template of Go, as Helm renders it, and no reference of
/// Weft.
pub fn is_unrendered(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "if",
        "else",
        "end",
        "range",
        "with",
        "include",
        "template",
        "define",
        "toYaml",
        "tpl",
        "hub",
        "fromConfigMap",
    ];
    text.split("{{").skip(1).any(|rest| {
        let rest = rest.trim_start_matches('-').trim_start();
        let word: String = rest
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        rest.starts_with(['.', '$', '/']) || WORDS.contains(&word.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_found_where_it_is_no_text() {
        for (text, line, column) in [
            ("a: {{ .Values.name }}\n", 1, 4),
            ("a: 1\n{{- if .Values.b }}\n", 2, 1),
            ("  {{ x }}: 1\n", 1, 3),
            ("a: {\"b\": {{ .x }} }\n", 1, 10),
        ] {
            let found = outside_of_texts(text).and_then(|mistake| mistake.position);
            assert_eq!(found, Some(Position { line, column }), "{text}");
        }
        for text in [
            "a: '{{ x }}'\n",
            "# {{ x }}\n",
            "a: {b: {c: 1}}\n",
            "a: {{\n",
        ] {
            assert_eq!(outside_of_texts(text), None, "{text}");
        }
    }

    #[test]
    fn the_references_of_weft_are_no_template() {
        for text in [
            "{{ .Values.x }}",
            "a-{{- include \"x\" . }}",
            "{{hub x hub}}",
        ] {
            assert!(is_unrendered(text), "{text}");
        }
        for text in [
            "{{ capture.a.interfaces.0.name }}.110",
            "{{node.name}}",
            "{{ pool.a.ip }}",
            "text",
        ] {
            assert!(!is_unrendered(text), "{text}");
        }
    }
}
