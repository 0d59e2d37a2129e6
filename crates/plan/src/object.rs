//! Objects as Weft wants them, and what makes two of them the same one.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Kind, Live, Mode, text};

/// Which object of a cluster is meant, whatever version it is written in.
///
/// Its text form, as in an inventory, is `DaemonSet.apps/namespace/name`. Objects without a
/// namespace have two slashes, `ClusterRole.rbac.authorization.k8s.io//name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Kind of the object.
    pub kind: Kind,
    /// Where it is. `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// `metadata.name`
    pub name: String,
}

impl ObjectKey {
    /// An object in a namespace, or of the whole cluster where the kind has no namespaces.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: kind.namespaced.then(|| namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// The key of an object as the API server returns it, or `None` if its kind is not one of ours
    /// or it has no name.
    pub fn of(object: &Value) -> Option<Self> {
        let kind = Kind::find(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
        let name = object.pointer("/metadata/name")?.as_str()?;
        Some(Self::new(kind, Live::of(object).namespace(), name))
    }

    /// For people: `DaemonSet cluster-network-addons/multus`.
    pub fn human(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        }
    }

    /// As arguments of kubectl: `-n cluster-network-addons daemonsets.apps/multus`.
    pub fn kubectl(&self) -> String {
        let group = if self.kind.group.is_empty() {
            String::new()
        } else {
            format!(".{}", self.kind.group)
        };
        let (plural, name) = (self.kind.plural, &self.name);
        match &self.namespace {
            Some(namespace) => format!("-n {namespace} {plural}{group}/{name}"),
            None => format!("{plural}{group}/{name}"),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            self.kind,
            self.namespace.as_deref().unwrap_or_default(),
            self.name
        )
    }
}

impl FromStr for ObjectKey {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unreadable = || ManifestError::Key(text.to_owned());
        let mut parts = text.splitn(3, '/');
        let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(unreadable());
        };
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let kind = Kind::find_in_group(group, kind).ok_or_else(unreadable)?;
        if name.is_empty() || kind.namespaced == namespace.is_empty() {
            return Err(unreadable());
        }
        Ok(Self::new(kind, namespace, name))
    }
}

impl Serialize for ObjectKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Reports whether most kinds of objects may have this name: as a DNS name, but Kubernetes does not
/// limit the length of a part.
pub fn is_object_name(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|part| match part.as_bytes() {
            [] => false,
            part => {
                part.iter().all(|b| letter(*b) || *b == b'-')
                    && part.first().is_some_and(|b| letter(*b))
                    && part.last().is_some_and(|b| letter(*b))
            }
        })
}

/// The mistake in a manifest. Manifests are ours, so each of these is a defect of Weft, found by
/// its tests.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is not YAML.
    #[error("not readable as YAML: {0}")]
    Yaml(String),
    /// The kind is not one that Weft handles.
    #[error("{api_version:?} {kind:?} is not a kind that Weft handles")]
    UnknownKind {
        /// `apiVersion` of the object
        api_version: String,
        /// `kind` of the object
        kind: String,
    },
    /// The object has no `metadata.name`.
    #[error("a {0} without metadata.name")]
    Unnamed(&'static str),
    /// A namespaced object has no namespace, or a cluster-scoped one has one.
    #[error("{0}: a namespace is given where the kind has none, or is missing where it needs one")]
    Scope(String),
    /// A part to be edited is not there, or has another type.
    #[error("{object}: {pointer}: {why}")]
    Part {
        /// the object
        object: String,
        /// JSON pointer of the part
        pointer: String,
        /// what is wrong with it
        why: String,
    },
    /// Not the text form of an [`ObjectKey`].
    #[error("{0:?} does not name an object")]
    Key(String),
}

/// One object as Weft wants it: the body of a server-side apply.
///
/// It holds exactly the fields that Weft answers for, no nulls, no status, nothing that the server
/// assigns.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    key: ObjectKey,
    body: Value,
    mode: Mode,
    other_form: Vec<(&'static str, Value)>,
}

impl Manifest {
    /// Reads a complete object. Nulls are dropped: in an apply they would mean nothing.
    pub fn new(mut body: Value) -> Result<Self, ManifestError> {
        drop_nulls(&mut body);
        let (api_version, kind) = (text(&body, "apiVersion"), text(&body, "kind"));
        let Some(kind) = Kind::find(api_version, kind) else {
            return Err(ManifestError::UnknownKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            });
        };
        let key = ObjectKey::of(&body).ok_or(ManifestError::Unnamed(kind.kind))?;
        if kind.namespaced == Live::of(&body).namespace().is_empty() {
            return Err(ManifestError::Scope(key.human()));
        }
        Ok(Self {
            key,
            body,
            mode: Mode::default(),
            other_form: Vec::new(),
        })
    }

    /// The same object under another [`Mode`].
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Which object this is.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The whole body.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// How it is kept.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Accepts another form of the pod template of a live workload, which differs in this field and
    /// serves as well. The pointer leads from the template to a field that the manifest has, and null
    /// means that the other form lacks the field.
    pub fn accept(&mut self, pointer: &'static str, value: Value) {
        self.other_form.push((pointer, value));
    }

    /// Returns the body with the accepted other form of the pod template. `None` if there is no other
    /// form.
    pub fn in_other_form(&self) -> Option<Value> {
        if self.other_form.is_empty() {
            return None;
        }
        let mut body = self.body.clone();
        let template = body.pointer_mut("/spec/template")?;
        for (pointer, value) in &self.other_form {
            *template.pointer_mut(pointer)? = value.clone();
        }
        drop_nulls(template);
        Some(body)
    }

    /// Sets a label on the object itself (never on a pod template).
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.body["metadata"]["labels"][key] = value.into();
    }

    /// Sets an annotation on the object itself.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.body["metadata"]["annotations"][key] = value.into();
    }

    /// Sets a label on the pod template of a workload. Does nothing for other kinds.
    pub fn set_pod_label(&mut self, key: &str, value: &str) {
        if let Some(template) = self.body.pointer_mut("/spec/template") {
            template["metadata"]["labels"][key] = value.into();
        }
    }

    /// Sets an annotation on the pod template of a workload. Does nothing for other kinds.
    pub fn set_pod_annotation(&mut self, key: &str, value: &str) {
        if let Some(template) = self.body.pointer_mut("/spec/template") {
            template["metadata"]["annotations"][key] = value.into();
        }
    }

    /// Makes `owner` the object's only owner reference.
    pub fn set_owner(&mut self, owner: Value) {
        self.body["metadata"]["ownerReferences"] = Value::Array(vec![owner]);
    }

    /// Edits one part of the body through a type, for example the list of strings at
    /// `/spec/dnsNames`.
    ///
    /// # Errors
    /// The part is not there or is not a `T`, or the edit fails.
    pub fn edit<T, E>(
        &mut self,
        pointer: &str,
        edit: impl FnOnce(&mut T) -> Result<(), E>,
    ) -> Result<(), ManifestError>
    where
        T: DeserializeOwned + Serialize,
        E: fmt::Display,
    {
        let mut part = self.part::<T>(pointer)?;
        edit(&mut part).map_err(|why| self.part_failed(pointer, &why))?;
        self.set_part(pointer, &part)
    }

    /// One part of the body as a type.
    ///
    /// # Errors
    /// The part is not there or is not a `T`.
    pub fn part<T: DeserializeOwned>(&self, pointer: &str) -> Result<T, ManifestError> {
        let part = self
            .body
            .pointer(pointer)
            .ok_or_else(|| self.part_failed(pointer, &"there is no such part"))?;
        serde_json::from_value(part.clone()).map_err(|error| self.part_failed(pointer, &error))
    }

    /// Puts another value in the place of a part of the body. Fields that are null are left out.
    /// Does nothing where there is no such part.
    ///
    /// # Errors
    /// The value is not JSON.
    pub fn set_part<T: Serialize>(
        &mut self,
        pointer: &str,
        value: &T,
    ) -> Result<(), ManifestError> {
        let mut value =
            serde_json::to_value(value).map_err(|error| self.part_failed(pointer, &error))?;
        drop_nulls(&mut value);
        if let Some(part) = self.body.pointer_mut(pointer) {
            *part = value;
        }
        Ok(())
    }

    /// Why a part of the body cannot be what was asked for.
    pub fn part_failed(&self, pointer: &str, why: &dyn fmt::Display) -> ManifestError {
        ManifestError::Part {
            object: self.key.human(),
            pointer: pointer.to_owned(),
            why: why.to_string(),
        }
    }

    /// A short digest of the body: equal bodies have equal digests, whatever the order of their
    /// keys.
    pub fn hash(&self) -> String {
        digest(canonical(&self.body).as_bytes())
    }
}

/// The text of a value with all fields in alphabetical order. By itself serde_json keeps the order
/// of insertion as soon as any crate of the program asks for that (its feature `preserve_order`,
/// which nmstate has), and what is compared or digested must not depend on it.
pub fn canonical(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

/// [`canonical`] over several lines, for files that people read.
pub fn canonical_lines(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    format!("{sorted:#}")
}

/// The first 16 hex digits of a SHA-256: enough to notice a change, short enough for an annotation.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Reads a file of one or more YAML documents into manifests. Empty documents are skipped.
///
/// # Errors
/// The text is not YAML, or a document is not a [`Manifest`].
pub fn parse_yaml(text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|e| ManifestError::Yaml(e.to_string()))?;
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(Manifest::new)
        .collect()
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kinds;
    use k8s_openapi::api::core::v1::PodSpec;
    use serde_json::json;

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_fields() {
        let read = |text: &str| Manifest::new(serde_json::from_str(text).unwrap()).unwrap();
        let one = read(
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"a": "1", "b": "2"}}"#,
        );
        let other = read(
            r#"{"kind": "ConfigMap", "data": {"b": "2", "a": "1"}, "metadata": {"namespace": "n", "name": "a"}, "apiVersion": "v1"}"#,
        );
        assert_eq!(one.hash(), other.hash());
        assert_eq!(
            canonical(&json!({"b": [{"d": 1, "c": 2}], "a": null})),
            r#"{"a":null,"b":[{"c":2,"d":1}]}"#
        );
        assert_eq!(
            canonical_lines(&json!({"b": [{"d": 1, "c": 2}], "a": null})),
            "{\n  \"a\": null,\n  \"b\": [\n    {\n      \"c\": 2,\n      \"d\": 1\n    }\n  ]\n}"
        );
    }

    #[test]
    fn a_key_survives_its_text_form() {
        for key in [
            ObjectKey::new(kinds::DAEMON_SET, "ns", "multus"),
            ObjectKey::new(kinds::CLUSTER_ROLE, "", "system:x"),
            ObjectKey::new(kinds::CONFIG_MAP, "a", "b"),
        ] {
            assert_eq!(key.to_string().parse::<ObjectKey>().unwrap(), key);
        }
        for wrong in [
            "",
            "DaemonSet/ns/x",
            "ConfigMap//x",
            "ClusterRole.rbac.authorization.k8s.io/ns/x",
            "ConfigMap/ns/",
        ] {
            assert!(wrong.parse::<ObjectKey>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_part_is_edited_in_place_and_nothing_else_is_lost() {
        let mut manifest = Manifest::new(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {
                "name": "a", "namespace": "n", "annotations": null
            },
            "spec": {
                "template": {
                    "spec": {"containers": [{"name": "c", "image": "old"}], "hostNetwork": true}
                },
                "unknownToUs": 1
            },
        }))
        .unwrap();
        manifest
            .edit("/spec/template/spec", |pod: &mut PodSpec| {
                pod.containers[0].image = Some("new".into());
                Ok::<_, String>(())
            })
            .unwrap();
        assert_eq!(
            manifest.body()["spec"],
            json!({
                "template": {
                    "spec": {"containers": [{"name": "c", "image": "new"}], "hostNetwork": true}
                },
                "unknownToUs": 1
            })
        );
        assert_eq!(manifest.body()["metadata"].get("annotations"), None);
    }

    #[test]
    fn a_manifest_without_its_namespace_is_refused() {
        assert!(
            Manifest::new(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
            )
            .is_err()
        );
        assert!(
            Manifest::new(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}
            }))
            .is_err()
        );
        assert!(
            Manifest::new(
                json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}})
            )
            .is_err()
        );
    }
}
