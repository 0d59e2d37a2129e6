//! The networks that a pod asks for: the annotation `k8s.v1.cni.cncf.io/networks`.

use serde_json::Value;

use crate::{
    address,
    go::{Shape, field, text},
};

/// The annotation of pods by which Multus attaches them to networks.
pub const ANNOTATION: &str = "k8s.v1.cni.cncf.io/networks";

/// The number of bytes that the name of an interface has at most, in Linux.
const INTERFACE_LENGTH: usize = 15;

/// The shapes of the fields of an entry in the JSON form (`NetworkSelectionElement` of Multus).
const FIELDS: [(&str, Shape); 12] = [
    ("name", Shape::String),
    ("namespace", Shape::String),
    ("ips", Shape::Strings),
    ("mac", Shape::String),
    ("infiniband-guid", Shape::String),
    ("interface", Shape::String),
    ("interfaceRequest", Shape::String),
    ("portMappings", Shape::Objects),
    ("bandwidth", Shape::Object),
    ("deviceID", Shape::String),
    ("cni-args", Shape::Object),
    ("default-route", Shape::Strings),
];

/// A network that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The namespace of the NetworkAttachmentDefinition.
    pub namespace: String,
    /// The name of the NetworkAttachmentDefinition.
    pub name: String,
    /// The name of the interface in the pod, if the pod chooses one.
    pub interface: Option<String>,
}

/// Why Multus cannot read the annotation. It fails each pod with such an annotation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// It has one of the signs of JSON, and is none.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// It is JSON of another form.
    #[error("must be a list of objects, for example [{{\"name\": \"storage\"}}]")]
    NotAList,
    /// A field of an entry has a value of another type.
    #[error("[{index}].{field} must be {rule}")]
    Field {
        /// The index of the entry, from 0.
        index: usize,
        /// The name of the field.
        field: &'static str,
        /// The values that the field takes.
        rule: &'static str,
    },
    /// An entry of the short form names no network.
    #[error(
        "{0:?} names no network: write NAME, NAMESPACE/NAME or NAMESPACE/NAME@INTERFACE, with lower-case letters, digits and - in names, and commas between networks"
    )]
    Entry(String),
    /// The name of an interface is none that Linux takes.
    #[error("{0:?} asks for an interface name that has more than 15 characters, a blank or /")]
    Interface(String),
}

/// Reads the annotation of a pod in this namespace, in the order in which Multus attaches the pod
/// (`parsePodNetworkAnnotation`). A text with `[`, `{` or `"` is JSON, and any other one the short
/// form.
///
/// # Errors
/// Multus refuses the text, or an entry names no network.
pub fn read(annotation: &str, namespace: &str) -> Result<Vec<Request>, Mistake> {
    let mut requests = match annotation.contains(['[', '{', '"']) {
        true => of_json(annotation)?,
        false => annotation
            .split(',')
            .map(str::trim)
            .map(of_entry)
            .collect::<Result<_, _>>()?,
    };
    for request in &mut requests {
        if request.namespace.is_empty() {
            namespace.clone_into(&mut request.namespace);
        }
    }
    Ok(requests)
}

fn of_json(annotation: &str) -> Result<Vec<Request>, Mistake> {
    let value: Value =
        serde_json::from_str(annotation).map_err(|error| Mistake::NotJson(error.to_string()))?;
    let entries = match value {
        Value::Array(entries) if entries.iter().all(Value::is_object) => entries,
        _ => return Err(Mistake::NotAList),
    };
    entries.iter().enumerate().map(of_object).collect()
}

fn of_object((index, entry): (usize, &Value)) -> Result<Request, Mistake> {
    let wrong = |field, rule| Mistake::Field { index, field, rule };
    for (name, shape) in FIELDS {
        if !shape.fits(field(entry, name)) {
            return Err(wrong(name, shape.in_words()));
        }
    }
    if text(entry, "name").is_empty() {
        return Err(wrong("name", "the name of a NetworkAttachmentDefinition"));
    }
    for name in ["mac", "infiniband-guid"] {
        let value = text(entry, name);
        if !value.is_empty() && !address::is_hardware_address(value) {
            return Err(wrong(name, "a hardware address such as 02:00:00:00:00:01"));
        }
    }
    let texts = |name| {
        let list = field(entry, name).as_array().into_iter().flatten();
        list.map(|item| item.as_str().unwrap_or_default())
    };
    let is_address = |text: &str| match text.contains('/') {
        true => address::Block::parse(text).is_some(),
        false => address::ip(text).is_some(),
    };
    if !texts("ips").all(is_address) {
        return Err(wrong("ips", "a list of IP addresses such as 192.0.2.10/24"));
    }
    // Go reads an empty text there as no address.
    if !texts("default-route").all(|text| text.is_empty() || address::ip(text).is_some()) {
        return Err(wrong(
            "default-route",
            "a list of IP addresses such as 192.0.2.1",
        ));
    }
    // The second name is that of Multus before 3.2.
    let interface = ["interface", "interfaceRequest"]
        .map(|name| text(entry, name))
        .into_iter()
        .find(|name| !name.is_empty());
    Ok(Request {
        namespace: text(entry, "namespace").to_owned(),
        name: text(entry, "name").to_owned(),
        interface: interface.map(str::to_owned),
    })
}

/// Reads an entry of the short form (`parsePodNetworkObjectName`).
fn of_entry(entry: &str) -> Result<Request, Mistake> {
    let mistake = || Mistake::Entry(entry.to_owned());
    let (namespace, rest) = match entry.split('/').collect::<Vec<_>>()[..] {
        [rest] => ("", rest),
        [namespace, rest] => (namespace.trim(), rest),
        _ => return Err(mistake()),
    };
    let (name, interface) = match rest.split('@').collect::<Vec<_>>()[..] {
        [name] => (name.trim(), ""),
        [name, interface] => (name.trim(), interface.trim()),
        _ => return Err(mistake()),
    };
    if !is_label(name) || !(namespace.is_empty() || is_label(namespace)) {
        return Err(mistake());
    }
    if interface.len() > INTERFACE_LENGTH || interface.contains(char::is_whitespace) {
        return Err(Mistake::Interface(entry.to_owned()));
    }
    Ok(Request {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        interface: (!interface.is_empty()).then(|| interface.to_owned()),
    })
}

/// The names that the short form takes: lower-case letters, digits and `-`, of any length.
fn is_label(text: &str) -> bool {
    let is_outer = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_outer)
        && bytes.last().is_some_and(is_outer)
        && bytes.iter().all(|b| is_outer(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Reads an annotation of a pod in the namespace `apps`, as `namespace/name@interface`.
    fn requests(annotation: &str) -> Vec<String> {
        read(annotation, "apps")
            .unwrap()
            .into_iter()
            .map(|request| {
                let interface = request.interface.unwrap_or_default();
                format!("{}/{}@{interface}", request.namespace, request.name)
            })
            .collect()
    }

    #[test]
    fn both_forms_name_namespace_network_and_interface() {
        for (annotation, expected) in [
            ("red", &["apps/red@"][..]),
            (
                " red , lab/blue@net7,red@net8 ",
                &["apps/red@", "lab/blue@net7", "apps/red@net8"],
            ),
            ("lab / blue @ net7", &["lab/blue@net7"]),
            (r#"[{"name": "red"}]"#, &["apps/red@"]),
            (
                r#"[{"name": "a.b", "namespace": "lab", "interface": "net7", "ips": ["192.0.2.10/24", "2001:db8::1"], "mac": "02:00:00:00:00:01", "default-route": ["192.0.2.1", ""], "cni-args": {"a": [{}]}}, {"NAME": "red", "interfaceRequest": "net8", "unknown": 1}]"#,
                &["lab/a.b@net7", "apps/red@net8"],
            ),
            ("[]", &[]),
        ] {
            assert_eq!(requests(annotation), expected, "{annotation}");
        }
    }

    #[test]
    fn an_annotation_that_multus_refuses_is_a_mistake_with_its_rule() {
        for (annotation, expected) in [
            ("", "\"\" names no network: write NAME, "),
            ("red,", "\"\" names no network: write NAME, "),
            ("a/b/c", "\"a/b/c\" names no network"),
            ("a@b@c", "\"a@b@c\" names no network"),
            ("a.b", "\"a.b\" names no network"),
            ("Red", "\"Red\" names no network"),
            ("red-", "\"red-\" names no network"),
            ("lab_1/red", "\"lab_1/red\" names no network"),
            (
                "red@sixteen-letters-",
                "\"red@sixteen-letters-\" asks for an interface name",
            ),
            ("red@a b", "\"red@a b\" asks for an interface name"),
            ("[{", "is not JSON: EOF while parsing"),
            (r#"{"name": "red"}"#, "must be a list of objects"),
            (r#"["red"]"#, "must be a list of objects"),
            (
                r#"[{"namespace": "lab"}]"#,
                "[0].name must be the name of a NetworkAttachmentDefinition",
            ),
            (
                r#"[{"name": "a"}, {"name": 7}]"#,
                "[1].name must be a string",
            ),
            (
                r#"[{"name": "a", "ips": "192.0.2.1"}]"#,
                "[0].ips must be a list of strings",
            ),
            (
                r#"[{"name": "a", "ips": ["192.0.2.300"]}]"#,
                "[0].ips must be a list of IP addresses",
            ),
            (
                r#"[{"name": "a", "ips": ["192.0.2.1/33"]}]"#,
                "[0].ips must be a list of IP addresses",
            ),
            (
                r#"[{"name": "a", "mac": "02:00"}]"#,
                "[0].mac must be a hardware address",
            ),
            (
                r#"[{"name": "a", "default-route": ["x"]}]"#,
                "[0].default-route must be a list of IP addresses",
            ),
        ] {
            let message = read(annotation, "apps").unwrap_err().to_string();
            assert!(message.starts_with(expected), "{annotation}: {message}");
        }
    }
}
