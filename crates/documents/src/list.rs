//! The entries of a list in JSON, found without reading it into memory: a dump of a cluster can have
//! hundreds of megabytes.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// Returns the places of the entries of a list, as `kubectl get -o json` writes it, without those
/// that are null. Of another value, and of a list without entries, the place is that of the value.
/// `value` is the place of a value that is known to be JSON.
pub(crate) fn entries(text: &str, value: Range<usize>) -> Vec<Range<usize>> {
    let mut kind = None;
    let mut items = None;
    for (name, field) in fields(text, &value) {
        // Of a field that is there twice, the last one counts.
        match &text[name] {
            "\"kind\"" => kind = Some(field),
            "\"items\"" => items = Some(field),
            _ => {}
        }
    }
    let kind: String = kind
        .and_then(|kind| serde_json::from_str(&text[kind]).ok())
        .unwrap_or_default();
    match items {
        Some(items) if kind.ends_with("List") && text[items.clone()].starts_with('[') => {
            match items_of(text, &items) {
                Some(found) => found,
                None => vec![value],
            }
        }
        _ => vec![value],
    }
}

/// The places of name and value of each field. None if it is no object.
fn fields(text: &str, object: &Range<usize>) -> Vec<(Range<usize>, Range<usize>)> {
    let mut found = Vec::new();
    let mut begin = after(text, object.start, '{');
    while let Some(at) = begin {
        let Some(name) = next(text, at) else { break };
        let Some(value) = after(text, name.end, ':').and_then(|at| next(text, at)) else {
            break;
        };
        begin = after(text, value.end, ',');
        found.push((name, value));
    }
    found
}

/// The places of the entries. None if there is no entry.
fn items_of(text: &str, list: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut found = None;
    let mut begin = after(text, list.start, '[');
    while let Some(item) = begin.and_then(|at| next(text, at)) {
        begin = after(text, item.end, ',');
        let found = found.get_or_insert_with(Vec::new);
        // Nothing but null begins with this letter.
        if !text[item.clone()].starts_with('n') {
            found.push(item);
        }
    }
    found
}

/// The place behind this sign, if nothing but white space stands before it.
fn after(text: &str, at: usize, sign: char) -> Option<usize> {
    let rest = text[at..].trim_start().strip_prefix(sign)?;
    Some(text.len() - rest.len())
}

/// The place of the value that begins here.
fn next(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text[at..].trim_start();
    let begin = text.len() - rest.len();
    let mut values = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(begin..begin + values.byte_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_list_are_found_in_any_order_of_its_fields() {
        for (text, expected) in [
            (
                "{\"apiVersion\": \"v1\", \"items\": [{\"a\": [1, {}]} , null,{\"b\":\"]\\\"\"}\n], \"kind\": \"List\"}",
                vec!["{\"a\": [1, {}]}", "{\"b\":\"]\\\"\"}"],
            ),
            (
                "{\"kind\":\"NodeList\",\"items\":[1,-2.5e3,true]}",
                vec!["1", "-2.5e3", "true"],
            ),
            ("{\"kind\": \"List\", \"items\": [null]}", vec![]),
        ] {
            let places = entries(text, 0..text.len());
            let found: Vec<&str> = places.into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn any_other_value_is_one_object() {
        for text in [
            "{\"kind\": \"Node\", \"items\": [1]}",
            "{\"kind\": \"List\", \"items\": {}}",
            "{\"items\": [1]}",
            "{\"kind\": \"List\", \"items\": []}",
            "{}",
            "[1]",
            "7",
        ] {
            let whole = 0..text.len();
            assert_eq!(entries(text, whole.clone()), vec![whole], "{text}");
        }
    }
}
