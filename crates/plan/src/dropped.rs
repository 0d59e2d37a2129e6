//! The fields that the API server drops without a word, because the definition that it serves does
//! not know them.
//!
//! The API server prunes custom resources by the structural schema of their version
//! (`apiextensions-apiserver`, `pkg/apiserver/schema/pruning`). A definition of an older release of
//! Weft, or of the operator that Weft replaces, lacks fields of this version: they get lost in what
//! users apply, and in the status that Weft writes.

use serde_json::Value;
use weft_api::Kind;

/// The type of the condition of a resource of which fields get lost. It exists only while it holds.
pub const CONDITION: &str = "FieldsDropped";
/// Its reason.
pub const REASON: &str = "OtherDefinition";

/// The mark of a place in a schema where the API server keeps fields that the schema does not name.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Stands in a path for each key of a map.
const ANY_KEY: &str = "*";
/// Stands in a path for each entry of a list.
const ANY_ENTRY: &str = "[]";
/// The most fields of one definition that a message names.
const SHOWN: usize = 12;

/// The definition of a kind, as this version of Weft ships it.
#[derive(Clone, Copy)]
pub struct Shipped {
    /// The kind.
    pub kind: Kind,
    /// The CustomResourceDefinition as JSON.
    pub text: &'static str,
}

impl Shipped {
    /// Returns the fields of this definition that the API server drops while it serves another
    /// definition of the kind, in the order of their paths: `spec.match[].lldp`, with `[]` for each
    /// entry of a list and `*` for each key of a map. A field inside of a dropped one is not named.
    pub fn dropped_by(self, served: &Value) -> Vec<String> {
        let own: Value = serde_json::from_str(self.text).unwrap_or_default();
        between(&own, served)
    }
}

/// The fate of a field of an object.
enum Fate<'a> {
    /// The API server keeps the field with all that is in it.
    Kept,
    /// The API server drops the field.
    Dropped,
    /// This schema decides about the fields inside. Without a schema, the API server keeps a value
    /// that is no object, and drops all fields of an object.
    By(Option<&'a Value>),
}

impl<'a> Fate<'a> {
    /// The fate of a field of this name, or of one that the schema does not name.
    fn of(schema: Option<&'a Value>, name: Option<&str>) -> Self {
        let Some(schema) = schema else {
            return Self::Dropped;
        };
        let is_embedded = holds(schema, "x-kubernetes-embedded-resource");
        if is_embedded && name.is_some_and(is_of_every_object) {
            return Self::Kept;
        }
        let property = name.and_then(|name| schema["properties"].get(name));
        match (property, &schema["additionalProperties"]) {
            (Some(property), _) => Self::By(Some(property)),
            (None, values @ Value::Object(_)) => Self::By(Some(values)),
            (None, Value::Bool(true)) => Self::By(None),
            _ if holds(schema, PRESERVE) => Self::Kept,
            _ => Self::Dropped,
        }
    }

    /// The fate of the entries of a list.
    fn of_entries(schema: Option<&'a Value>) -> Self {
        match schema {
            Some(schema) if schema["items"].is_object() => Self::By(Some(&schema["items"])),
            Some(schema) if holds(schema, PRESERVE) => Self::Kept,
            _ => Self::By(None),
        }
    }
}

fn holds(schema: &Value, mark: &str) -> bool {
    schema[mark] == true
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Reports whether every object has this field, whatever its schema says.
fn is_of_every_object(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

/// Returns the schema by which the API server prunes objects of a version. `None` if it prunes none
/// of them, or does not serve the version and so refuses them.
fn pruning_schema<'a>(definition: &'a Value, version: &str) -> Option<&'a Value> {
    let spec = &definition["spec"];
    // Definitions that were made through the v1beta1 API may have this.
    if holds(spec, "preserveUnknownFields") {
        return None;
    }
    let mut versions = spec["versions"].as_array()?.iter();
    let version = versions.find(|one| one["name"] == version && one["served"] == true)?;
    Some(&version["schema"]["openAPIV3Schema"]).filter(|schema| schema.is_object())
}

/// The fields of a definition that the API server drops while it serves another one.
fn between(own: &Value, served: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    for version in own["spec"]["versions"].as_array().into_iter().flatten() {
        let name = version["name"].as_str().unwrap_or_default();
        let schemas = pruning_schema(own, name).zip(pruning_schema(served, name));
        if let Some((own, served)) = schemas {
            compare(own, Some(served), "", &mut dropped);
        }
    }
    dropped.sort();
    dropped.dedup();
    dropped
}

/// Adds the fields of a schema that the API server drops by another schema.
fn compare(own: &Value, served: Option<&Value>, path: &str, dropped: &mut Vec<String>) {
    if served.is_some_and(|served| refuses(own, served)) {
        return;
    }
    for (name, field) in own["properties"].as_object().into_iter().flatten() {
        let path = join(path, name);
        if is_of_every_object(&path) {
            continue;
        }
        match Fate::of(served, Some(name)) {
            Fate::Kept => {}
            Fate::Dropped => dropped.push(path),
            Fate::By(served) => compare(field, served, &path, dropped),
        }
    }
    let values = &own["additionalProperties"];
    if values.is_object() || *values == true || holds(own, PRESERVE) {
        let path = join(path, ANY_KEY);
        match Fate::of(served, None) {
            Fate::Kept => {}
            Fate::Dropped => dropped.push(path),
            Fate::By(served) => compare(values, served, &path, dropped),
        }
    }
    if own["items"].is_object()
        && let Fate::By(served) = Fate::of_entries(served)
    {
        compare(
            &own["items"],
            served,
            &format!("{path}{ANY_ENTRY}"),
            dropped,
        );
    }
}

/// Reports whether the API server refuses values of a schema by another one, because they are of
/// another type. Users see that, unlike a field that is dropped.
fn refuses(own: &Value, served: &Value) -> bool {
    let (wanted, known) = (&own["type"], &served["type"]);
    let differ = wanted.is_string() && known.is_string() && wanted != known;
    differ || holds(served, "x-kubernetes-int-or-string")
}

/// Takes the fields out of an object that the API server drops while it serves this definition.
/// Returns their paths, for example `spec.match[0].lldp`.
pub fn prune(served: &Value, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    if let Some(schema) = pruning_schema(served, version) {
        prune_value(object, Some(schema), "", &mut dropped);
    }
    dropped.sort();
    dropped
}

fn prune_value(value: &mut Value, schema: Option<&Value>, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let path = join(path, name);
            if is_of_every_object(&path) {
                return true;
            }
            match Fate::of(schema, Some(name)) {
                Fate::Kept => true,
                Fate::Dropped => {
                    dropped.push(path);
                    false
                }
                Fate::By(schema) => {
                    prune_value(value, schema, &path, dropped);
                    true
                }
            }
        }),
        Value::Array(entries) => {
            let Fate::By(schema) = Fate::of_entries(schema) else {
                return;
            };
            for (index, entry) in entries.iter_mut().enumerate() {
                prune_value(entry, schema, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

/// Reports whether a field, given by its path, is one of the [dropped](Shipped::dropped_by) ones or
/// inside of one.
pub fn has(dropped: &[String], field: &str) -> bool {
    dropped.iter().any(|path| {
        field
            .strip_prefix(path.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// Returns a status as the API server stores it while it drops these fields of the object. A status
/// with them would differ from the stored one for ever.
#[must_use]
pub fn of_status(mut status: Value, dropped: &[String]) -> Value {
    let inside = dropped
        .iter()
        .filter_map(|path| path.strip_prefix("status."));
    for path in inside {
        let path = path.replace(ANY_ENTRY, ".[]");
        let steps: Vec<&str> = path.split('.').collect();
        remove(&mut status, &steps);
    }
    status
}

/// Removes the fields that a path leads to.
fn remove(value: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Array(entries) if *first == ANY_ENTRY => {
            entries.iter_mut().for_each(|entry| remove(entry, rest));
        }
        Value::Object(fields) if *first == ANY_KEY && rest.is_empty() => fields.clear(),
        Value::Object(fields) if *first == ANY_KEY => {
            fields.values_mut().for_each(|value| remove(value, rest));
        }
        Value::Object(fields) if rest.is_empty() => drop(fields.remove(*first)),
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(*first) {
                remove(field, rest);
            }
        }
        _ => {}
    }
}

/// Returns the first fields of a list, and how many there are more, for people.
pub fn some(fields: &[String]) -> String {
    let (shown, more) = fields.split_at(fields.len().min(SHOWN));
    match more.len() {
        0 => shown.join(", "),
        count => format!("{} and {count} more", shown.join(", ")),
    }
}

/// Returns the command that brings the definitions of a domain.
pub fn way_out(domain: &str) -> String {
    format!("weft crds --domains {domain} | kubectl apply -f -")
}

/// Returns the message about fields of a domain that get lost, with the command that ends it. `None`
/// if none do.
pub fn notice(domain: &str, dropped: &[(Kind, Vec<String>)]) -> Option<String> {
    notice_with(dropped, &way_out(domain))
}

/// Returns the same message with another command that brings the definitions.
pub fn notice_with(dropped: &[(Kind, Vec<String>)], command: &str) -> Option<String> {
    if dropped.is_empty() {
        return None;
    }
    let of_each: Vec<_> = dropped
        .iter()
        .map(|(kind, fields)| format!("{}: {}", kind.definition(), some(fields)))
        .collect();
    Some(format!(
        "the API server drops fields that this version of Weft knows, because the cluster has definitions of another version or of another operator. Lost by {}. Apply the definitions of this version, and then again what you had applied: {command}",
        of_each.join("; by ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_api::kinds;

    fn definition(version: &str, schema: &Value) -> Value {
        json!({"spec": {"versions": [{
            "name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}
        }]}})
    }

    /// The fields of one schema that another one drops.
    fn lost(own: &Value, served: &Value) -> Vec<String> {
        between(&definition("v1", own), &definition("v1", served))
    }

    fn object(properties: &Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    /// The fields of an object that a schema drops, and what is left of its `spec`.
    fn pruned(schema: &Value, spec: &Value) -> (Vec<String>, Value) {
        let schema = object(&json!({"spec": schema}));
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"labels": {"a": "b"}}, "spec": spec
        });
        let fields = prune(&definition("v1", &schema), &mut object);
        assert_eq!(object["metadata"], json!({"labels": {"a": "b"}}));
        (fields, object["spec"].take())
    }

    fn text() -> Value {
        json!({"type": "string"})
    }

    #[test]
    fn a_schema_loses_nothing_by_itself() {
        let schema = object(&json!({
            "spec": object(&json!({
                "list": {"type": "array", "items": object(&json!({"a": text()}))},
                "map": {"type": "object", "additionalProperties": object(&json!({"a": text()}))},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "amount": {"x-kubernetes-int-or-string": true},
            })),
        }));
        assert_eq!(lost(&schema, &schema), Vec::<String>::new());
    }

    #[test]
    fn each_lost_field_is_named_once_by_the_outermost_path() {
        let item = |fields: &Value| json!({"type": "array", "items": object(fields)});
        let map =
            |fields: &Value| json!({"type": "object", "additionalProperties": object(fields)});
        let own = object(&json!({
            "kind": text(), "metadata": object(&json!({"name": text()})),
            "spec": object(&json!({
                "new": object(&json!({"inside": text()})), "old": text(),
                "list": item(&json!({"new": text(), "old": text()})),
                "map": map(&json!({"new": text(), "old": text()})),
            })),
            "status": object(&json!({"new": text()})),
        }));
        let served = object(&json!({
            "spec": object(&json!({
                "old": text(), "list": item(&json!({"old": text()})),
                "map": map(&json!({"old": text()})),
            })),
            "status": object(&json!({})),
        }));
        let expected = [
            "spec.list[].new",
            "spec.map.*.new",
            "spec.new",
            "status.new",
        ];
        assert_eq!(lost(&own, &served), expected);
    }

    #[test]
    fn unknown_fields_are_kept_where_the_schema_says_so_and_only_there() {
        let own = object(&json!({
            "open": object(&json!({"new": object(&json!({"a": text()})), "known": object(&json!({"new": text()}))})),
        }));
        let mut open = object(&json!({"known": object(&json!({}))}));
        open[PRESERVE] = true.into();
        let served = object(&json!({"open": open}));
        assert_eq!(lost(&own, &served), ["open.known.new"]);
        let everything = json!({"type": "object", PRESERVE: true});
        assert_eq!(lost(&own, &everything), Vec::<String>::new());
        // A schema that names its fields keeps no others.
        assert_eq!(lost(&everything, &own), ["*"]);
    }

    #[test]
    fn the_keys_of_a_map_are_lost_where_the_other_schema_has_no_map() {
        let own = object(&json!({"m": {"type": "object", "additionalProperties": text()}}));
        assert_eq!(
            lost(&own, &object(&json!({"m": {"type": "object"}}))),
            ["m.*"]
        );
        let anything = object(&json!({"m": {"type": "object", "additionalProperties": true}}));
        assert_eq!(lost(&own, &anything), Vec::<String>::new());
        // Of a value without a schema, the API server keeps what is no object.
        let nested = object(&json!({
            "m": {"type": "object", "additionalProperties": object(&json!({"a": text()}))}
        }));
        assert_eq!(lost(&nested, &anything), ["m.*.a"]);
    }

    #[test]
    fn a_value_of_another_type_is_refused_and_not_dropped() {
        let own = object(&json!({"a": object(&json!({"b": text()}))}));
        for served in [text(), json!({"x-kubernetes-int-or-string": true})] {
            assert_eq!(
                lost(&own, &object(&json!({"a": served}))),
                Vec::<String>::new()
            );
        }
    }

    #[test]
    fn versions_are_compared_by_name_and_only_if_they_are_served_and_pruned() {
        let (own, served) = (object(&json!({"a": text()})), object(&json!({})));
        let own = definition("v1", &own);
        assert_eq!(between(&own, &definition("v1", &served)), ["a"]);
        let none = Vec::<String>::new();
        assert_eq!(between(&own, &definition("v1beta1", &served)), none);
        let mut not_served = definition("v1", &served);
        not_served["spec"]["versions"][0]["served"] = false.into();
        assert_eq!(between(&own, &not_served), none);
        let mut kept = definition("v1", &served);
        kept["spec"]["preserveUnknownFields"] = true.into();
        assert_eq!(between(&own, &kept), none);
    }

    #[test]
    fn an_object_loses_what_its_schema_does_not_name() {
        let schema = object(&json!({
            "known": text(),
            "list": {"type": "array", "items": object(&json!({"a": text()}))},
            "open": {"type": "object", PRESERVE: true},
            "labels": {"type": "object", "additionalProperties": text()},
        }));
        let (fields, left) = pruned(
            &schema,
            &json!({
                "known": "x", "new": {"a": 1}, "list": [{"a": "1"}, {"a": "2", "b": "3"}],
                "open": {"x": [{"y": 1}]}, "labels": {"k": "v"}
            }),
        );
        assert_eq!(fields, ["spec.list[1].b", "spec.new"]);
        assert_eq!(
            left,
            json!({
                "known": "x", "list": [{"a": "1"}, {"a": "2"}], "open": {"x": [{"y": 1}]},
                "labels": {"k": "v"}
            })
        );
    }

    #[test]
    fn an_object_of_a_version_that_is_not_served_stays_whole() {
        let definition = definition("v1", &object(&json!({})));
        let mut object = json!({"apiVersion": "a/v2", "spec": {"a": 1}});
        assert_eq!(prune(&definition, &mut object), Vec::<String>::new());
        assert_eq!(object["spec"], json!({"a": 1}));
    }

    #[test]
    fn a_status_is_compared_as_the_api_server_stores_it() {
        let dropped = [
            "spec.x",
            "status.conditions[].observedGeneration",
            "status.observedGeneration",
            "status.map.*",
            "status.of.*.new",
        ]
        .map(str::to_owned);
        let status = json!({
            "observedGeneration": 3, "x": 1, "map": {"k": 1}, "of": {"a": {"new": 1, "old": 2}},
            "conditions": [{"type": "A", "observedGeneration": 3}, {"type": "B"}]
        });
        assert_eq!(
            of_status(status.clone(), &dropped),
            json!({
                "x": 1, "map": {}, "of": {"a": {"old": 2}}, "conditions": [{"type": "A"}, {"type": "B"}]
            })
        );
        assert_eq!(of_status(status.clone(), &[]), status);
        assert!(has(&dropped, "status.observedGeneration"));
        assert!(has(&dropped, "spec.x.y") && has(&dropped, "spec.x[0]"));
        assert!(!has(&dropped, "spec.xy") && !has(&dropped, "status"));
    }

    #[test]
    fn a_notice_names_definitions_some_fields_and_the_command() {
        assert_eq!(notice("addons", &[]), None);
        let fields: Vec<_> = (0..SHOWN + 2).map(|n| format!("spec.f{n:02}")).collect();
        let text = notice("node-network", &[(kinds::NMSTATE, fields)]).unwrap_or_default();
        for part in [
            "Lost by nmstates.nmstate.io: spec.f00, ",
            "spec.f11 and 2 more. ",
            ": weft crds --domains node-network | kubectl apply -f -",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
