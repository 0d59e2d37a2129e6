//! NetworkAttachmentDefinitions in the files of a user: networks that pods may have next to the
//! default one. Multus reads them, and Weft makes nothing of them, so `weft validate` alone looks at
//! them.

use std::sync::LazyLock;

use serde_json::{Value, json};
use weft_attachments::{Config, Level, Verdict, overlap, text};
use weft_documents::join;
use weft_plan::{Live, kinds::NETWORK_ATTACHMENT_DEFINITION as KIND};

use crate::{
    check,
    schema::{self, Finding, with_object_fields},
};

/// The field with the CNI configuration.
const FIELD: &str = "spec.config";

/// The schema of the definition that Weft and Multus bring.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| with_object_fields(&schema()));

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "properties": {"config": {"type": "string"}},
        }},
    })
}

/// Returns true if a document is a NetworkAttachmentDefinition, in any version.
pub fn is_one(document: &Value) -> bool {
    let group = document["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .map(|(group, _)| group);
    document["kind"] == KIND.kind && group == Some(KIND.group)
}

/// The kind, in a list for people.
pub fn kind() -> String {
    format!("{} ({})", KIND.kind, KIND.api_version())
}

/// The definitions of all files, which are judged together at the end.
#[derive(Default)]
pub struct Attachments {
    members: Vec<Member>,
}

/// A definition that pods can use by its text.
struct Member {
    /// The file and the title, which a note begins with.
    about: String,
    /// The name with the namespace, if the file has one.
    name: String,
    config: Config,
}

impl Attachments {
    /// Judges a definition by its text: returns mistakes, and notes about what has no effect, or
    /// another one than it seems to have. `about` is the file and the title of the definition, for
    /// notes about several definitions.
    pub fn check(&mut self, about: &str, object: &Value) -> (Vec<Finding>, Vec<String>) {
        let object = check::without_status(object);
        let mut findings: Vec<_> = version(&object).into_iter().collect();
        findings.extend(schema::check(&SCHEMA, &object));
        findings.extend(check::name_of(&object));
        let Some(text) = text(&object) else {
            return (findings, Vec::new());
        };
        let config = match Config::read(text) {
            Ok(config) => config,
            Err(error) => {
                findings.push(finding(FIELD, format!("is not JSON: {error}")));
                return (findings, Vec::new());
            }
        };
        let (refused, doubted): (Vec<_>, Vec<_>) = config
            .verdicts()
            .into_iter()
            .partition(|verdict| verdict.level == Level::Refused);
        let notes = doubted.iter().map(note).collect();
        if refused.is_empty() {
            let live = Live::of(&object);
            self.members.push(Member {
                about: about.to_owned(),
                name: match live.namespace() {
                    "" => live.name().to_owned(),
                    namespace => format!("{namespace}/{}", live.name()),
                },
                config,
            });
        }
        let refused = refused
            .into_iter()
            .map(|verdict| finding(&path(&verdict), verdict.message));
        findings.extend(refused);
        (findings, notes)
    }

    /// Returns notes about definitions that do not go together.
    pub fn notes(&self) -> Vec<String> {
        let networks: Vec<_> = self
            .members
            .iter()
            .map(|member| (&*member.name, &member.config))
            .collect();
        overlap::verdicts(&networks)
            .iter()
            .map(|(index, verdict)| format!("{}: {}", self.members[*index].about, note(verdict)))
            .collect()
    }
}

/// The finding about a version that the definition does not have.
fn version(object: &Value) -> Option<Finding> {
    let written = object["apiVersion"].as_str().unwrap_or_default();
    (written != KIND.api_version()).then(|| {
        let message = format!("{written:?} is not served: write {}", KIND.api_version());
        finding("apiVersion", message)
    })
}

fn finding(path: &str, message: String) -> Finding {
    Finding {
        path: path.to_owned(),
        about_key: false,
        message,
    }
}

fn path(verdict: &Verdict) -> String {
    match verdict.field.as_str() {
        "" => FIELD.to_owned(),
        field => join(FIELD, field),
    }
}

fn note(verdict: &Verdict) -> String {
    let end = match verdict.level {
        Level::Unsupported => {
            ". Pods that ask for this network do not start, unless their plugins are newer than those that Weft knows"
        }
        Level::Refused | Level::Doubtful => "",
    };
    format!("{}: {}{end}", path(verdict), verdict.message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_schema_is_that_of_the_definition_that_weft_brings() {
        let text = include_str!("../../../components/network-attachment-definition/crd.yaml");
        let definition: Value = serde_saphyr::from_str(text).unwrap();
        let version = &definition["spec"]["versions"][0];
        assert_eq!(definition["spec"]["versions"].as_array().unwrap().len(), 1);
        assert_eq!(version["name"], KIND.version);
        // Descriptions, and the fields of each object, which the API server checks itself.
        let mut found = version["schema"]["openAPIV3Schema"].clone();
        let remove = |value: &mut Value, names: &[&str]| {
            for name in names {
                value.as_object_mut().unwrap().remove(*name);
            }
        };
        remove(&mut found, &["description"]);
        remove(
            &mut found["properties"],
            &["apiVersion", "kind", "metadata"],
        );
        remove(&mut found["properties"]["spec"], &["description"]);
        remove(
            &mut found["properties"]["spec"]["properties"]["config"],
            &["description"],
        );
        assert_eq!(found, schema());
    }

    #[test]
    fn a_definition_is_known_by_group_and_kind() {
        for (document, expected) in [
            (
                json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}),
                true,
            ),
            (
                json!({"apiVersion": "k8s.cni.cncf.io/v2", "kind": "NetworkAttachmentDefinition"}),
                true,
            ),
            (
                json!({"apiVersion": "example.com/v1", "kind": "NetworkAttachmentDefinition"}),
                false,
            ),
            (
                json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "Other"}),
                false,
            ),
            (json!({"kind": "NetworkAttachmentDefinition"}), false),
        ] {
            assert_eq!(is_one(&document), expected, "{document}");
        }
    }
}
