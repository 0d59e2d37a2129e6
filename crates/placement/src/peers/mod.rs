//! Objects of other operators for Placement: its [`database`], its registration in [`keystone`],
//! the [`topology`] of its pods and its application [`credential`]. Their kinds are plain values:
//! nothing of theirs is linked, and a cluster may lack any of them.
//!
//! A reader says what it found, or what the condition of its step says meanwhile. A builder gives
//! the body of a server-side apply. Of what was there before, it gives back what is in its
//! specification, so that nothing of it is lost.

pub mod credential;
pub mod database;
pub mod keystone;
pub mod topology;

use serde_json::{Value, json};
use weft_api::placement::{GROUP, KIND};
use weft_plan::{Live, OWNER_LABEL, ObjectKey, is_reference_to, text};

use crate::conditions::State;

/// On everything of another user's that must stay while the service uses it. placement-operator's
/// own, so that what that operator holds is released too.
pub const FINALIZER: &str = "openstack.org/placementapi";
/// The field manager of this domain.
const MANAGER: &str = "weft/placement";

/// Reports whether an object was made for a PlacementAPI, by Weft or by placement-operator.
pub fn is_of_placement(object: &Value) -> bool {
    Live::of(object).owner_of(GROUP, KIND).is_some()
}

fn is_placement(owner: &Value) -> bool {
    is_reference_to(owner, GROUP, KIND)
}

/// A finalizer on an object of another user's, which has to stay while the service uses it, and
/// labels by which it is found again. Nothing else of the object becomes Weft's: whoever has made
/// it goes on to answer for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The object.
    pub key: ObjectKey,
    /// The body of a server-side apply. It has the uid, so that it makes no object that is gone.
    pub body: Value,
}

impl Claim {
    /// Nothing if the object has all that, or is being deleted: then it takes no finalizer any
    /// more.
    pub fn of(
        key: &ObjectKey,
        live: &Value,
        finalizer: &str,
        labels: &[(&str, &str)],
    ) -> Option<Self> {
        let live = Live::of(live);
        let is_labelled = labels
            .iter()
            .all(|(label, value)| live.label(label) == Some(value));
        if live.is_being_deleted() || live.has_finalizer(finalizer) && is_labelled {
            return None;
        }
        let mut body = json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.kind,
            "metadata": {
                "name": key.name, "namespace": key.namespace, "uid": live.uid(),
                "finalizers": [finalizer]
            },
        });
        for (label, value) in labels {
            body["metadata"]["labels"][label] = (*value).into();
        }
        Some(Self {
            key: key.clone(),
            body,
        })
    }

    /// Describes the fields that Weft writes on the object.
    pub fn puts(&self) -> String {
        let body = Live::of(&self.body);
        let finalizers = body
            .finalizers()
            .map(|finalizer| format!("finalizer {finalizer}"));
        let labels = body
            .labels()
            .map(|(label, value)| format!("label {label}={}", value.as_str().unwrap_or_default()));
        finalizers.chain(labels).collect::<Vec<_>>().join(", ")
    }
}

/// The end of a [`Claim`], or of a finalizer that placement-operator has put there.
#[derive(Clone, Debug, PartialEq)]
pub struct Disclaim {
    /// The object.
    pub key: ObjectKey,
    /// A JSON patch (RFC 6902). It fails if the object has changed since Weft read it. Then the
    /// next reconcile makes a new patch.
    pub patch: Value,
    /// True if the object would have gone with the PlacementAPI, and stays from now on. A preview
    /// says so.
    pub leaves: bool,
}

impl Disclaim {
    /// Nothing if the object does not carry the finalizer. The label goes along.
    pub fn of(key: &ObjectKey, live: &Value, finalizer: &str, label: Option<&str>) -> Option<Self> {
        let mut patch = Patch::of(live);
        if !patch.take("finalizers", |one| one == finalizer) {
            return None;
        }
        label.map(|label| patch.take_label(label));
        Some(Self {
            key: key.clone(),
            patch: patch.steps.into(),
            leaves: false,
        })
    }

    /// The same of an object that was made for the PlacementAPI, and that others may need when it
    /// does not any more: it is nobody's of ours from now on, and stays when the PlacementAPI goes.
    /// Nothing if nothing of ours is on it.
    pub fn leaving(key: &ObjectKey, live: &Value, finalizer: &str) -> Option<Self> {
        let mut patch = Patch::of(live);
        let is_held = patch.take("finalizers", |one| one == finalizer);
        let owners = patch.take("ownerReferences", is_placement);
        let leaves = patch.take_label(OWNER_LABEL) || owners;
        (is_held || leaves).then(|| Self {
            key: key.clone(),
            patch: patch.steps.into(),
            leaves,
        })
    }

    /// Describes the fields that Weft removes from the object.
    pub fn takes(&self) -> String {
        let steps = self.patch.as_array().into_iter().flatten();
        let taken = steps.filter_map(|step| {
            let (list, which) = text(step, "path")
                .strip_prefix("/metadata/")?
                .split_once('/')?;
            match (list, text(step, "op")) {
                ("finalizers", "test") => Some(format!("finalizer {}", text(step, "value"))),
                ("ownerReferences", "remove") => Some("owner".to_owned()),
                ("labels", "remove") => Some(format!("label {}", which.replace("~1", "/"))),
                _ => None,
            }
        });
        taken.collect::<Vec<_>>().join(", ")
    }

    /// Leaves its fields, too: the next apply of ours, of a [`Claim`], then takes none of them
    /// along.
    pub fn with_its_fields(mut self, live: &Value) -> Self {
        let entries = live["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten();
        let is_ours = |entry: &Value| {
            entry["manager"] == MANAGER
                && entry["operation"] == "Apply"
                && entry["subresource"].is_null()
        };
        if let Some(index) = entries.into_iter().position(is_ours)
            && let Some(steps) = self.patch.as_array_mut()
        {
            let path = format!("/metadata/managedFields/{index}");
            steps.push(json!({"op": "test", "path": format!("{path}/manager"), "value": MANAGER}));
            steps.push(
                json!({"op": "replace", "path": format!("{path}/operation"), "value": "Update"}),
            );
        }
        self
    }
}

/// A JSON patch of an object's metadata.
struct Patch<'a> {
    metadata: &'a Value,
    steps: Vec<Value>,
}

impl<'a> Patch<'a> {
    fn of(live: &'a Value) -> Self {
        let metadata = &live["metadata"];
        Self {
            metadata,
            steps: vec![json!({"op": "test", "path": "/metadata/uid", "value": metadata["uid"]})],
        }
    }

    /// Takes one out of a list. Returns whether it is there.
    fn take(&mut self, list: &str, is_it: impl Fn(&Value) -> bool) -> bool {
        let all = self.metadata[list].as_array().into_iter().flatten();
        let Some((index, found)) = all.enumerate().find(|(_, one)| is_it(one)) else {
            return false;
        };
        let path = format!("/metadata/{list}/{index}");
        self.steps
            .push(json!({"op": "test", "path": path, "value": found}));
        self.steps.push(json!({"op": "remove", "path": path}));
        true
    }

    /// Takes a label off. Returns whether it is there.
    fn take_label(&mut self, label: &str) -> bool {
        let is_there = !self.metadata["labels"][label].is_null();
        if is_there {
            // RFC 6901: a slash in a name is written ~1.
            self.steps.push(json!({
                "op": "remove", "path": format!("/metadata/labels/{}", label.replace('/', "~1"))
            }));
        }
        is_there
    }
}

/// Reports whether the status of an object is about an older specification. The status of some
/// kinds has no `observedGeneration`, and is never outdated.
fn is_outdated(object: &Value) -> bool {
    object["status"]["observedGeneration"]
        .as_i64()
        .is_some_and(|observed| observed != Live::of(object).generation())
}

/// Returns the state that a peer reports as a whole. As lib-common does it: its Ready if that is
/// True, else the worst of its conditions, the latest of equally bad ones. Nothing while it says
/// nothing.
fn mirror(object: &Value) -> Option<State> {
    let conditions = object["status"]["conditions"].as_array()?;
    let ready = Live::of(object)
        .condition("Ready")
        .filter(|ready| ready["status"] == "True");
    let since = |condition: &Value| text(condition, "lastTransitionTime").to_owned();
    let worst = || {
        conditions.iter().min_by_key(|condition| {
            (
                badness(condition),
                std::cmp::Reverse(since(condition)),
                text(condition, "type"),
            )
        })
    };
    let mirrored = ready.or_else(worst)?;
    let (status, message) = (text(mirrored, "status"), text(mirrored, "message"));
    if status == "True" {
        return Some(State::ready(message));
    }
    let severity = mirrored["severity"]
        .as_str()
        .filter(|severity| status == "False" && !severity.is_empty());
    Some(State {
        status: status.to_owned(),
        severity: severity.map(str::to_owned),
        reason: text(mirrored, "reason").to_owned(),
        message: message.to_owned(),
    })
}

/// The worst first.
fn badness(condition: &Value) -> u8 {
    match (text(condition, "status"), text(condition, "severity")) {
        ("False", "Error") => 0,
        ("False", "Warning") => 1,
        ("False", _) => 2,
        ("True", _) => 4,
        _ => 3,
    }
}

fn name(object: &Value) -> &str {
    Live::of(object).name()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_plan::kinds;

    use super::*;

    fn one(name: &str, status: &str, severity: &str, second: u8) -> Value {
        json!({"type": name, "status": status, "severity": severity, "reason": "Because", "message": format!("{name} is {status}"),
            "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")})
    }

    fn mirrored(conditions: &[Value]) -> Option<(String, Option<String>, String)> {
        let mirrored = mirror(&json!({"status": {"conditions": conditions}}))?;
        Some((mirrored.status, mirrored.severity, mirrored.message))
    }

    #[test]
    fn a_peer_is_as_well_as_the_worst_of_what_it_says() {
        let ready = one("Ready", "Unknown", "", 9);
        let expected = |status: &str, severity: Option<&str>, of: &str| {
            Some((
                status.to_owned(),
                severity.map(str::to_owned),
                format!("{of} is {status}"),
            ))
        };
        let all = [
            one("A", "True", "", 9),
            one("B", "False", "Info", 5),
            one("C", "False", "Info", 6),
            one("D", "False", "Warning", 1),
            ready,
        ];
        assert_eq!(mirrored(&all), expected("False", Some("Warning"), "D"));
        assert_eq!(
            mirrored(&all[..3]),
            expected("False", Some("Info"), "C"),
            "the latest"
        );
        assert_eq!(
            mirrored(&[all[0].clone(), all[4].clone()]),
            expected("Unknown", None, "Ready")
        );
        assert_eq!(
            mirrored(&[one("Ready", "True", "", 1), all[3].clone()]),
            expected("True", None, "Ready"),
            "it has to know"
        );
        assert_eq!(mirrored(&[]), None);
        assert_eq!(mirror(&json!({})), None);
    }

    #[test]
    fn a_claim_is_a_finalizer_and_labels_and_its_release_takes_them_off() {
        let key = ObjectKey::new(kinds::SECRET, "cloud", "ac");
        let mut live = json!({
            "metadata": {
                "name": "ac", "uid": "1", "finalizers": ["other/one"], "labels": {"a": "b"}
            }
        });
        let claim = |live: &Value| Claim::of(&key, live, FINALIZER, &[("weft.network/x", "y")]);
        assert_eq!(
            claim(&live).unwrap().body["metadata"],
            json!({
                "name": "ac", "namespace": "cloud", "uid": "1", "finalizers": [FINALIZER],
                "labels": {"weft.network/x": "y"}
            })
        );
        assert_eq!(
            claim(&live).unwrap().puts(),
            format!("finalizer {FINALIZER}, label weft.network/x=y")
        );
        assert_eq!(Disclaim::of(&key, &live, FINALIZER, None), None);
        live["metadata"]["finalizers"] = json!(["other/one", FINALIZER]);
        assert!(claim(&live).is_some(), "the label is missing");
        live["metadata"]["labels"]["weft.network/x"] = "y".into();
        assert_eq!(claim(&live), None);
        let patch = Disclaim::of(&key, &live, FINALIZER, Some("weft.network/x"))
            .unwrap()
            .patch;
        assert_eq!(
            (&patch[1], &patch[2], &patch[3]),
            (
                &json!({"op": "test", "path": "/metadata/finalizers/1", "value": FINALIZER}),
                &json!({"op": "remove", "path": "/metadata/finalizers/1"}),
                &json!({"op": "remove", "path": "/metadata/labels/weft.network~1x"})
            )
        );
        let both = format!("finalizer {FINALIZER}, label weft.network/x");
        assert_eq!(
            Disclaim::of(&key, &live, FINALIZER, Some("weft.network/x"))
                .unwrap()
                .takes(),
            both
        );
        let going = json!({
            "metadata": {"name": "ac", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
        });
        assert_eq!(claim(&going), None, "the API server would refuse it");
    }

    #[test]
    fn left_objects_have_no_owner_label_or_fields_of_weft() {
        assert_eq!(
            MANAGER,
            weft_plan::manager(&crate::Placement::new(crate::Settings::default()))
        );
        let key = ObjectKey::new(kinds::MARIADB_ACCOUNT, "cloud", "a");
        let owner = json!({
            "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
            "name": "placement", "uid": "2"
        });
        let live = json!({"metadata": {"name": "a", "uid": "1", "finalizers": ["other/one", FINALIZER], "labels": {"a": "b", OWNER_LABEL: "x"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Secret"}, owner],
        "managedFields": [
            {"manager": "other", "operation": "Apply"},
            {"manager": MANAGER, "operation": "Apply"}
        ]}});
        let disclaim = Disclaim::leaving(&key, &live, FINALIZER).unwrap();
        assert!(disclaim.leaves);
        assert_eq!(
            disclaim.takes(),
            format!("finalizer {FINALIZER}, owner, label {OWNER_LABEL}")
        );
        let paths = |disclaim: &Disclaim| -> Vec<String> {
            let steps = disclaim
                .patch
                .as_array()
                .unwrap()
                .iter()
                .filter(|step| step["op"] != "test");
            steps.map(|step| text(step, "path").to_owned()).collect()
        };
        let kept = [
            "/metadata/finalizers/1",
            "/metadata/ownerReferences/1",
            "/metadata/labels/weft.network~1owner",
        ];
        assert_eq!(
            paths(&disclaim),
            kept,
            "an apply of ours finds its fields again"
        );
        let forgotten = paths(&disclaim.with_its_fields(&live));
        assert_eq!(
            (&forgotten[..3], forgotten[3].as_str()),
            (
                &kept.map(str::to_owned)[..],
                "/metadata/managedFields/1/operation"
            )
        );
        let theirs = json!({"metadata": {"name": "a", "uid": "1", "finalizers": [FINALIZER]}});
        assert!(
            !Disclaim::leaving(&key, &theirs, FINALIZER).unwrap().leaves,
            "it has always been somebody else's"
        );
        assert_eq!(
            Disclaim::leaving(
                &key,
                &json!({"metadata": {"name": "a", "uid": "1"}}),
                FINALIZER
            ),
            None
        );
    }

    #[test]
    fn objects_of_a_placement_api_are_known_by_its_owner() {
        let owned =
            |owners: Value| is_of_placement(&json!({"metadata": {"ownerReferences": owners}}));
        assert!(owned(json!([
            {"apiVersion": "v1", "kind": "Secret"},
            {"apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI"}
        ])));
        assert!(!owned(
            json!([{"apiVersion": "nova.openstack.org/v1beta1", "kind": "Nova"}])
        ));
        assert!(!is_of_placement(&json!({"metadata": {}})));
    }
}
