//! The API reference: a page of Markdown from the schema in a `CustomResourceDefinition`.
//!
//! An object is a section with a table of its fields. The reference shows the API server's rules by
//! their messages.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;

/// The page of a kind. The versions that are served have one schema.
pub fn page(crd: &CustomResourceDefinition) -> String {
    let spec = &crd.spec;
    let (group, kind) = (&spec.group, &spec.names.kind);
    let stored = spec
        .versions
        .iter()
        .find(|version| version.storage)
        .expect("one version is stored");
    assert!(
        spec.versions
            .iter()
            .filter(|version| version.served)
            .all(|version| version.schema == stored.schema),
        "{kind}: the page is about one schema"
    );
    let mut schema = serde_json::to_value(
        stored
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref()),
    )
    .expect("JSON");
    schema.sort_all_objects();

    let mut page = String::from(
        "<!-- Written by `cargo run -p weft-api --example generate` from crates/api: change it there. -->\n\n",
    );
    let mut line = |text: String| writeln!(page, "{text}\n").expect("a String takes any text");
    line(format!("# {kind}"));
    line(text(&schema, "description"));
    line(format!(
        "API group `{group}`, {}, scope {}.",
        versions(&spec.versions),
        spec.scope
    ));
    line(names(crd));
    let defaults = if sets_defaults(&schema) {
        "Where a default is given, the API server writes it into what is stored; else the description of a field says what leaving it out means."
    } else {
        "The schema sets no default, so what somebody wrote can be told from what was left out: the description of a field says what \
         leaving it out means."
    };
    line(format!(
        "{defaults} A value that breaks a rule is refused by `kubectl apply`, in the words given here."
    ));
    let mut sections = Vec::new();
    for part in ["metadata", "spec", "status"] {
        collect(part, &schema["properties"][part], &mut sections);
    }
    for (path, schema) in sections {
        line(section(&path, schema));
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

fn sets_defaults(schema: &Value) -> bool {
    schema.get("default").is_some() || fields(schema).any(|(_, field)| sets_defaults(field))
}

fn versions(versions: &[CustomResourceDefinitionVersion]) -> String {
    let one = |version: &CustomResourceDefinitionVersion| {
        format!(
            "`{}`{}",
            version.name,
            if version.storage { " (stored)" } else { "" }
        )
    };
    let served: Vec<_> = versions
        .iter()
        .filter(|version| version.served)
        .map(one)
        .collect();
    let same = if served.len() > 1 {
        ", all with the same fields"
    } else {
        ""
    };
    format!("versions {}{same}", served.join(" and "))
}

fn names(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let known = names
        .singular
        .iter()
        .chain(names.short_names.iter().flatten())
        .chain([&names.plural]);
    let known: Vec<_> = known.map(|name| format!("`{name}`")).collect();
    format!("`kubectl get` knows it as {}.", known.join(", "))
}

/// The objects that have a section, from the outside in. Parts of Kubernetes' own types carry no
/// texts in the schema and have none.
fn collect<'a>(path: &str, schema: &'a Value, sections: &mut Vec<(String, &'a Value)>) {
    if !has_section(schema) {
        return;
    }
    sections.push((path.to_owned(), schema));
    for (name, field) in fields(schema) {
        let (suffix, inner) = if field["items"].is_object() {
            ("[]", &field["items"])
        } else {
            ("", field)
        };
        collect(&format!("{path}.{name}{suffix}"), inner, sections);
    }
}

fn has_section(schema: &Value) -> bool {
    fields(schema).any(|(_, field)| field["description"].is_string())
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn section(path: &str, schema: &Value) -> String {
    let mut section = format!("## {path}\n\n");
    let description = text(schema, "description");
    if !description.is_empty() {
        section += &format!("{description}\n\n");
    }
    let rules = rules(schema);
    if !rules.is_empty() {
        section += &format!(
            "Rules:\n{}\n\n",
            rules
                .iter()
                .map(|rule| format!("- {rule}"))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
    section += "| field | type | meaning |\n| --- | --- | --- |";
    let required = strings(&schema["required"]);
    for (name, field) in fields(schema) {
        let mut meaning = vec![text(field, "description")];
        // The rules of an object that has a section are there.
        let inner = if field["items"].is_object() {
            &field["items"]
        } else {
            field
        };
        if required.contains(&name.as_str()) {
            meaning.push("Required.".to_owned());
        }
        meaning.extend(limits(field));
        if !has_section(inner) {
            meaning.extend(rules_of_cell(inner));
        }
        let name = if has_section(inner) {
            format!("[`{name}`](#{})", anchor(path, name, field))
        } else {
            format!("`{name}`")
        };
        section += &format!("\n| {name} | {} | {} |", type_of(field), cell(&meaning));
    }
    section
}

/// Returns the limits of a field besides the rules.
fn limits(field: &Value) -> Vec<String> {
    let mut limits = Vec::new();
    let values = if field["enum"].is_array() {
        &field["enum"]
    } else {
        &field["items"]["enum"]
    };
    if values.is_array() {
        let values = strings(values).into_iter().map(|value| {
            if value.is_empty() {
                "empty text (as if left out)".to_owned()
            } else {
                format!("`{value}`")
            }
        });
        limits.push(format!(
            "Allowed: {}.",
            values.collect::<Vec<_>>().join(", ")
        ));
    }
    if let Some(default) = field.get("default") {
        limits.push(format!("Default: `{default}`."));
    }
    if let Some(length) = field["maxLength"].as_u64() {
        limits.push(format!("At most {length} characters."));
    }
    if let (Some(least), Some(most)) = (field["minimum"].as_f64(), field["maximum"].as_f64()) {
        limits.push(format!("From {least} to {most}."));
    }
    if let Some(entries) = field["maxItems"].as_u64() {
        limits.push(format!("At most {entries} entries."));
    }
    if field["nullable"] == true {
        limits.push("May be null, which means left out.".to_owned());
    }
    limits
}

fn rules_of_cell(schema: &Value) -> Vec<String> {
    rules(schema)
        .into_iter()
        .map(|rule| format!("Rule: {rule}."))
        .collect()
}

fn rules(schema: &Value) -> Vec<&str> {
    schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["message"].as_str())
        .collect()
}

fn type_of(field: &Value) -> String {
    let name = field["type"].as_str().unwrap_or("any");
    match (name, field["format"].as_str()) {
        ("array", _) => format!("list of {}", type_of(&field["items"])),
        ("object", _) if field["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&field["additionalProperties"]))
        }
        ("object", _) if field["x-kubernetes-preserve-unknown-fields"] == true => {
            "object".to_owned()
        }
        ("object", _) if fields(field).next().is_none() => "object, written `{}`".to_owned(),
        (name, Some(format)) => format!("{name} ({format})"),
        (name, None) => name.to_owned(),
    }
}

/// The anchor of the section of a field (github.com's rule: lower case, punctuation dropped).
fn anchor(path: &str, name: &str, field: &Value) -> String {
    let suffix = if field["items"].is_object() { "[]" } else { "" };
    format!("{path}.{name}{suffix}")
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric())
        .collect()
}

fn text(schema: &Value, key: &str) -> String {
    schema[key].as_str().unwrap_or_default().to_owned()
}

fn strings(values: &Value) -> Vec<&str> {
    values
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// A cell of a table: one line, no bar but those between cells, and no tag but those of line
/// breaks.
fn cell(paragraphs: &[String]) -> String {
    let paragraphs: Vec<_> = paragraphs
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| {
            let text = text.replace('<', "\\<");
            text.replace("\n\n", "<br>").replace('\n', " ")
        })
        .collect();
    paragraphs.join("<br>").replace('|', "\\|")
}
