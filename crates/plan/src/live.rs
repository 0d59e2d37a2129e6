//! An object as the API server returns it: its metadata and its conditions.

use serde_json::Value;

/// A view of a live object, without a copy. A field that the object does not have reads as empty.
///
/// ```
/// # use serde_json::json;
/// # use weft_plan::Live;
/// let pod = json!({"metadata": {"name": "web", "namespace": "shop", "generation": 3}});
/// assert_eq!((Live::of(&pod).namespace(), Live::of(&pod).name()), ("shop", "web"));
/// assert!(!Live::of(&pod).is_being_deleted());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Live<'a>(&'a Value);

/// Returns the text of a field, for example `message` of a condition. A field that is missing or no
/// text reads as empty.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Reports whether an owner reference names an object of this kind, in any version of the API
/// group.
pub fn is_reference_to(reference: &Value, group: &str, kind: &str) -> bool {
    let version = text(reference, "apiVersion").split_once('/');
    reference["kind"] == kind && version.is_some_and(|(named, _)| named == group)
}

/// Returns the condition of a type, for example `Available`, in a status.
pub fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = status["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == name)
}

impl<'a> Live<'a> {
    /// Returns the view of an object.
    pub fn of(object: &'a Value) -> Self {
        Self(object)
    }

    fn text(self, field: &str) -> &'a str {
        text(&self.0["metadata"], field)
    }

    fn list(self, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.0["metadata"][field].as_array().into_iter().flatten()
    }

    fn map(self, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.0["metadata"][field].as_object().into_iter().flatten()
    }

    /// Returns the kind, for example `DaemonSet`.
    pub fn kind(self) -> &'a str {
        text(self.0, "kind")
    }

    /// Returns the name.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// Returns the namespace, which is empty if the kind is cluster-scoped.
    pub fn namespace(self) -> &'a str {
        self.text("namespace")
    }

    /// Returns the namespace, or none if the object names none: the kind is cluster-scoped, or a
    /// file leaves the namespace to the command.
    pub fn stated_namespace(self) -> Option<&'a str> {
        self.0["metadata"]["namespace"].as_str()
    }

    /// Returns the uid, which no other object of the cluster ever has.
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// Returns the time of creation as RFC 3339 text, or none if the object does not exist yet.
    pub fn created(self) -> Option<&'a str> {
        self.0["metadata"]["creationTimestamp"].as_str()
    }

    /// Returns the generation. It grows with each change of the specification, and is 0 for kinds
    /// without one.
    pub fn generation(self) -> i64 {
        self.0["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default()
    }

    /// Returns the generation that `status.observedGeneration` names, or 0.
    pub fn observed_generation(self) -> i64 {
        self.0["status"]["observedGeneration"]
            .as_i64()
            .unwrap_or_default()
    }

    /// Returns the resourceVersion of an object or a list, or 0 if it has none. It is a number that
    /// grows with every write (Kubernetes API concepts, "Resource versions").
    pub fn resource_version(self) -> u64 {
        self.text("resourceVersion").parse().unwrap_or_default()
    }

    /// Returns the resourceVersion as the API server writes it. A patch that repeats it fails with
    /// a conflict if the object has changed.
    pub fn resource_version_text(self) -> &'a str {
        self.text("resourceVersion")
    }

    /// Returns the labels with their values, which are text.
    pub fn labels(self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.map("labels")
    }

    /// Returns the annotations with their values, which are text.
    pub fn annotations(self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.map("annotations")
    }

    /// Returns the value of a label.
    pub fn label(self, name: &str) -> Option<&'a str> {
        self.0["metadata"]["labels"][name].as_str()
    }

    /// Returns the value of an annotation.
    pub fn annotation(self, name: &str) -> Option<&'a str> {
        self.0["metadata"]["annotations"][name].as_str()
    }

    /// Reports whether the object waits for its finalizers, or for the end of its pods.
    pub fn is_being_deleted(self) -> bool {
        !self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// Returns the names of the finalizers.
    pub fn finalizers(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list("finalizers").filter_map(Value::as_str)
    }

    /// Reports whether a finalizer of this name holds the object.
    pub fn has_finalizer(self, name: &str) -> bool {
        self.finalizers().any(|finalizer| finalizer == name)
    }

    /// Returns the owner references.
    pub fn owners(self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.list("ownerReferences")
    }

    /// Reports whether an owner reference names this uid.
    pub fn is_owned_by(self, uid: &str) -> bool {
        self.owners().any(|owner| owner["uid"] == uid)
    }

    /// Returns the first owner reference to an object of this kind, in any version of the API
    /// group.
    pub fn owner_of(self, group: &str, kind: &str) -> Option<&'a Value> {
        self.owners()
            .find(|owner| is_reference_to(owner, group, kind))
    }

    /// Returns the condition of a type, for example `Available`.
    pub fn condition(self, name: &str) -> Option<&'a Value> {
        condition(&self.0["status"], name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_missing_or_of_another_type_reads_as_empty() {
        for object in [
            json!({}),
            json!({"metadata": {"name": 1, "labels": [], "finalizers": {}}}),
        ] {
            let object = Live::of(&object);
            assert_eq!(
                (object.name(), object.label("a"), object.generation()),
                ("", None, 0)
            );
            assert_eq!(
                (object.finalizers().count(), object.resource_version()),
                (0, 0)
            );
            assert_eq!(
                (object.labels().count(), object.stated_namespace()),
                (0, None)
            );
            assert!(!object.is_being_deleted());
        }
    }

    #[test]
    fn an_owner_is_found_by_kind_and_group_in_any_version() {
        let object = json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Node"},
            {"apiVersion": "apps/v1beta2", "kind": "DaemonSet", "name": "multus"},
        ]}});
        let object = Live::of(&object);
        assert_eq!(
            text(object.owner_of("apps", "DaemonSet").unwrap(), "name"),
            "multus"
        );
        for (group, kind) in [("apps", "Deployment"), ("app", "DaemonSet"), ("v1", "Node")] {
            assert_eq!(object.owner_of(group, kind), None, "{group} {kind}");
        }
    }

    #[test]
    fn finalizers_owners_and_conditions_are_found_by_name() {
        let object = json!({
            "metadata": {
                "finalizers": ["a"], "ownerReferences": [{"uid": "u"}], "resourceVersion": "12",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "False"}
                ]
            },
        });
        let object = Live::of(&object);
        assert!(object.has_finalizer("a") && !object.has_finalizer("b"));
        assert!(object.is_owned_by("u") && !object.is_owned_by(""));
        assert_eq!(object.condition("Ready").unwrap()["status"], "True");
        assert_eq!(object.condition("Available"), None);
        assert!(object.is_being_deleted());
        assert_eq!(object.resource_version(), 12);
    }
}
