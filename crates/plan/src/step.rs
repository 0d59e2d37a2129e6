//! What must happen to one object: the decision that the operator carries out and that `weft plan`
//! prints.

use crate::Live;
use serde_json::{Value, json};

use crate::{
    Difference, Domain, Kind, Manifest, Mode, ObjectKey, Unit,
    compare::{self, GUARDED},
    fields, kinds, takeover,
};

/// Label on every object of Weft: the resource that it belongs to, see [`Owner::label`]. Weft
/// watches by it.
pub const OWNER_LABEL: &str = "weft.network/owner";
/// Where Weft's own labels and annotations begin.
const OWN_DOMAIN: &str = "weft.network/";
/// Annotation on a foreign object: its owner agrees that Weft takes it. The value is `true`.
pub const ADOPT_ANNOTATION: &str = "weft.network/adopt";

/// The resource on whose behalf objects are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid; `None` offline, where nothing is owned yet.
    pub uid: Option<String>,
    /// The field manager of its domain, `weft/<domain>`.
    pub manager: String,
}

impl Owner {
    /// The owner that a resource of this domain is.
    pub fn of(domain: &dyn Domain, resource: &Value) -> Self {
        let text = |pointer: &str| {
            resource
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Self {
            kind: domain.resource(),
            name: text("/metadata/name").unwrap_or_default(),
            uid: text("/metadata/uid"),
            manager: manager(domain),
        }
    }

    /// The value of [`OWNER_LABEL`], for example `networkaddonsconfig.cluster`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.kind.kind.to_lowercase(), self.name)
    }

    fn reference(&self) -> Option<Value> {
        let uid = self.uid.as_ref()?;
        Some(
            json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "name": self.name, "uid": uid, "controller": true, "blockOwnerDeletion": false}),
        )
    }

    /// Whether a live object is this owner's: by label or, should somebody have removed that, by
    /// what Weft applied to it.
    pub fn owns(&self, live: &Value) -> bool {
        live["metadata"]["labels"][OWNER_LABEL] == self.label()
            || fields::applied_by(live, &self.manager).is_some()
    }
}

/// The field manager of a domain.
pub fn manager(domain: &dyn Domain) -> String {
    format!("weft/{}", domain.name())
}

/// Kinds that are never deleted and never owned, since other people's objects may live in them.
pub fn is_kept_for_ever(kind: Kind) -> bool {
    matches!(kind, kinds::NAMESPACE | kinds::CUSTOM_RESOURCE_DEFINITION)
}

/// Gives every object Weft's label and, where it may go with the resource, the owner reference: the
/// garbage collector deletes what has one. `outlives` tells of which units nothing may (see
/// [`Domain::outlives`]).
pub fn owned(mut units: Vec<Unit>, owner: &Owner, outlives: impl Fn(&str) -> bool) -> Vec<Unit> {
    for unit in &mut units {
        let outlives = outlives(&unit.name);
        for object in &mut unit.objects {
            object.set_label(OWNER_LABEL, &owner.label());
            if let Some(reference) = owner
                .reference()
                .filter(|_| !outlives && !is_kept_for_ever(object.key().kind))
            {
                object.set_owner(reference);
            }
        }
    }
    units
}

/// What must happen to one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is as it should be.
    Keep,
    /// It is not there.
    Create,
    /// It is ours and differs. `take` says that others' fields must become ours first, or the apply
    /// could not remove them.
    Change {
        /// In which way it differs.
        differences: Vec<Difference>,
        /// Whether ownership of others' additions has to be moved first.
        take: bool,
    },
    /// It is the original's, or its owner agreed: it becomes ours.
    TakeOver {
        /// In which way it differs.
        differences: Vec<Difference>,
    },
    /// It is somebody else's, and stays as it is without harm: an existing CRD.
    Leave {
        /// Why.
        why: String,
    },
    /// It is somebody else's. Nothing is written.
    Foreign {
        /// Whose it seems to be, and the way out.
        why: String,
    },
}

impl Step {
    /// Whether carrying it out writes to the cluster.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Step::Create | Step::Change { .. } | Step::TakeOver { .. }
        )
    }
}

/// Whether a difference is in a field that the API server lets nobody change: the object then has
/// to be made anew.
pub fn is_immutable(kind: Kind, difference: &Difference) -> bool {
    let inside = |field: &str| {
        difference
            .path
            .strip_prefix(field)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let changes = !matches!(difference.what, compare::What::Unowned);
    changes
        && match kind {
            kinds::DAEMON_SET | kinds::DEPLOYMENT => inside("spec.selector"),
            kinds::ROLE_BINDING | kinds::CLUSTER_ROLE_BINDING => inside("roleRef"),
            kinds::SECRET => inside("type"),
            _ => false,
        }
}

/// What must happen to `manifest`, given the object as it is in the cluster.
pub fn step(
    manifest: &Manifest,
    live: Option<&Value>,
    owner: &Owner,
    made_by_original: bool,
) -> Step {
    let Some(live) = live else {
        return Step::Create;
    };
    let kind = manifest.key().kind;
    let ours = owner.owns(live);
    if manifest.mode() == Mode::CreateOnly {
        return match !ours && is_owned_by_resource(live, owner) {
            // The garbage collector would delete it, and what users have written into it.
            true => Step::TakeOver {
                differences: left_behind(live, owner),
            },
            false => Step::Keep,
        };
    }
    let differences = || {
        compare::compare(
            kind,
            &effective_body(manifest, live, &owner.manager),
            live,
            &owner.manager,
        )
    };
    if inherits(manifest, live, owner) {
        return Step::TakeOver {
            differences: takeover::differences(manifest, live, owner),
        };
    }
    if ours {
        let differences = differences();
        let take = differences
            .iter()
            .any(|difference| matches!(difference.what, compare::What::Added { .. }));
        return if differences.is_empty() {
            Step::Keep
        } else {
            Step::Change { differences, take }
        };
    }
    if kind == kinds::NAMESPACE {
        // Only labels of ours go on it, beside everybody else's.
        return Step::Change {
            differences: differences(),
            take: false,
        };
    }
    let agreed = Live::of(live).annotation(ADOPT_ANNOTATION) == Some("true");
    if made_by_original || agreed {
        return Step::TakeOver {
            differences: takeover::differences(manifest, live, owner),
        };
    }
    let whose = belongs_to(live);
    if kind == kinds::CUSTOM_RESOURCE_DEFINITION {
        return Step::Leave {
            why: format!("exists already ({whose}); left as it is"),
        };
    }
    Step::Foreign {
        why: format!(
            "exists already and is not Weft's ({whose}). Delete it, or let Weft have it: kubectl annotate {} {ADOPT_ANNOTATION}=true",
            kubectl_name(manifest.key()),
        ),
    }
}

/// Whether an object that is to outlive the resource is owned by it, as the original has it: the
/// garbage collector would delete it with the resource.
fn inherits(manifest: &Manifest, live: &Value, owner: &Owner) -> bool {
    manifest.body()["metadata"].get("ownerReferences").is_none()
        && is_owned_by_resource(live, owner)
}

fn is_owned_by_resource(live: &Value, owner: &Owner) -> bool {
    let mut owners = Live::of(live).owners();
    owners.any(|reference| is_the_resource(reference, owner))
}

fn is_the_resource(reference: &Value, owner: &Owner) -> bool {
    let group = reference["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .map(|(group, _)| group);
    reference["kind"] == owner.kind.kind && group == Some(owner.kind.group)
}

/// The fields that [`leave_patch`] removes.
fn left_behind(live: &Value, owner: &Owner) -> Vec<Difference> {
    let dropped = |path: String, live: &Value| Difference {
        path,
        what: compare::What::Dropped { live: live.clone() },
    };
    let labels = labels_of_original(live, owner)
        .map(|(label, value)| dropped(format!("metadata.labels[{label}]"), value));
    std::iter::once(dropped(
        "metadata.ownerReferences".to_owned(),
        &live["metadata"]["ownerReferences"],
    ))
    .chain(labels)
    .collect()
}

fn labels_of_original<'a>(
    live: &'a Value,
    owner: &Owner,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let group = owner.kind.group;
    let labels = live["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter(move |(label, _)| label.split('/').next() == Some(group))
}

/// The merge patch that leaves an object of the original to its users: the resource ceases to own
/// it, and the labels of the resource's API group go, by which the original knows its objects. It
/// fails with a conflict if the object has changed.
pub fn leave_patch(live: &Value, owner: &Owner) -> Value {
    let metadata = &live["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let others: Vec<&Value> = owners
        .filter(|reference| !is_the_resource(reference, owner))
        .collect();
    let theirs: serde_json::Map<_, _> = labels_of_original(live, owner)
        .map(|(label, _)| (label.clone(), Value::Null))
        .collect();
    json!({"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": others, "labels": theirs}})
}

/// The body to apply: the manifest without what somebody else decides by right on this object, and
/// with what is Weft's until somebody else decides it.
pub fn effective_body(manifest: &Manifest, live: &Value, manager: &str) -> Value {
    let mut body = manifest.body().clone();
    if fields::is_autoscaled(live)
        && let Some(spec) = body["spec"].as_object_mut()
    {
        spec.remove("replicas");
    }
    keep_trust(&mut body, live, manager);
    keep_scope(manifest, &mut body, live);
    keep_selector(manifest, &mut body, live);
    body
}

/// A workload keeps a selector that chooses Weft's pods as well: nothing but its deletion could
/// change that, and would end all of its pods at once.
fn keep_selector(manifest: &Manifest, body: &mut Value, live: &Value) {
    if !matches!(manifest.key().kind, kinds::DAEMON_SET | kinds::DEPLOYMENT) {
        return;
    }
    let (selector, labels) = (
        &live["spec"]["selector"],
        body["spec"]["template"]["metadata"]["labels"].clone(),
    );
    let mut chosen = selector["matchLabels"].as_object().into_iter().flatten();
    let chooses = selector["matchExpressions"].is_null()
        && chosen.all(|(label, value)| labels[label] == *value);
    if chooses && selector["matchLabels"].is_object() {
        body["spec"]["selector"] = selector.clone();
    }
}

/// A definition keeps its scope: nothing but its deletion could change that, and would delete all
/// objects of users. Early releases of cluster-network-operator define EgressNetworkPolicies for
/// the whole cluster.
fn keep_scope(manifest: &Manifest, body: &mut Value, live: &Value) {
    if manifest.key().kind == kinds::CUSTOM_RESOURCE_DEFINITION && live["spec"]["scope"].is_string()
    {
        body["spec"]["scope"] = live["spec"]["scope"].clone();
    }
}

/// Where somebody else is to fill in what a webhook trusts, what Weft filled in stays until they
/// do: in between nobody could be called. (Who changes a value by an update owns it from then on:
/// Kubernetes documentation, "Server-Side Apply".)
fn keep_trust(body: &mut Value, live: &Value, manager: &str) {
    let webhooks = body
        .get_mut("webhooks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for webhook in webhooks.filter(|webhook| webhook["clientConfig"]["caBundle"].is_null()) {
        let is_it = |other: &&Value| other["name"] == webhook["name"];
        let Some(known) = live["webhooks"]
            .as_array()
            .into_iter()
            .flatten()
            .find(is_it)
        else {
            continue;
        };
        let key = format!("k:{}", json!({"name": webhook["name"]}));
        let owned = fields::applied_by(live, manager).is_some_and(|ours| {
            ours.get("f:webhooks")
                .is_some_and(|hooks| !hooks[&key]["f:clientConfig"]["f:caBundle"].is_null())
        });
        if owned {
            webhook["clientConfig"]["caBundle"] = known["clientConfig"]["caBundle"].clone();
        }
    }
}

/// The merge patch that makes others' fields ours where Weft answers for all of them, and on a
/// take-over ends the old ownership, since an object has one controller. It fails with a conflict
/// if the object has changed.
pub fn take_patch(live: &Value, owner: &Owner, take_over: bool) -> Value {
    let mut patch = json!({"metadata": {
        "resourceVersion": live["metadata"]["resourceVersion"],
        "managedFields": fields::taken_over(live, &owner.manager, &GUARDED),
    }});
    if take_over {
        patch["metadata"]["ownerReferences"] = Value::Null;
        if Live::of(live).annotation(ADOPT_ANNOTATION).is_some() {
            // The consent is used.
            patch["metadata"]["annotations"] = json!({ADOPT_ANNOTATION: null});
        }
    }
    patch
}

/// The merge patch that gives an object back to the operator that Weft replaced: Weft's label and
/// annotations go, and the resource owns it in the form that operators of that kind write and look
/// for (`controllerutil.SetControllerReference`). Nothing inside its specification changes, so no
/// pod restarts. What `outlives` the resource is given back without an owner: that operator sets
/// one by itself, and until then a deletion of the resource does no harm. `None` if it is not ours,
/// or given back already.
pub fn release_patch(
    key: &ObjectKey,
    live: &Value,
    owner: &Owner,
    outlives: bool,
) -> Option<Value> {
    let metadata = &live["metadata"];
    if metadata["labels"][OWNER_LABEL] != owner.label() {
        return None;
    }
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let ours: serde_json::Map<_, _> = annotations
        .filter(|(name, _)| name.starts_with(OWN_DOMAIN))
        .map(|(name, _)| (name.clone(), Value::Null))
        .collect();
    let mut patch = json!({"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "labels": {OWNER_LABEL: null}}});
    if !ours.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(ours);
    }
    if let Some(mut reference) = owner
        .reference()
        .filter(|_| !outlives && !is_kept_for_ever(key.kind))
    {
        reference["blockOwnerDeletion"] = true.into();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let others = owners
            .filter(|other| other["uid"] != reference["uid"])
            .cloned();
        patch["metadata"]["ownerReferences"] = others.chain([reference.clone()]).collect();
    }
    Some(patch)
}

fn belongs_to(live: &Value) -> String {
    if let Some(owner) = live.pointer("/metadata/ownerReferences/0") {
        return format!(
            "owned by {} {}",
            owner["kind"].as_str().unwrap_or_default(),
            owner["name"].as_str().unwrap_or_default()
        );
    }
    match live
        .pointer("/metadata/managedFields/0/manager")
        .and_then(Value::as_str)
    {
        Some(manager) => format!("written by {manager}"),
        None => "of unknown origin".to_owned(),
    }
}

fn kubectl_name(key: &ObjectKey) -> String {
    let group = if key.kind.group.is_empty() {
        String::new()
    } else {
        format!(".{}", key.kind.group)
    };
    match &key.namespace {
        Some(namespace) => format!("-n {namespace} {}{group}/{}", key.kind.plural, key.name),
        None => format!("{}{group}/{}", key.kind.plural, key.name),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn owner() -> Owner {
        Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".into(),
            uid: Some("u".into()),
            manager: "weft/addons".into(),
        }
    }

    fn manifest(kind: &str, api: &str) -> Manifest {
        Manifest::new(json!({"apiVersion": api, "kind": kind, "metadata": {"name": "m"}})).unwrap()
    }

    #[test]
    fn what_users_fill_in_is_left_to_them_without_the_original_as_its_owner() {
        let owner = Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".into(),
            uid: Some("u".into()),
            manager: "weft/addons".into(),
        };
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"a": "default"}});
        let manifest = Manifest::new(body).unwrap().with_mode(Mode::CreateOnly);
        let theirs = json!({"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1alpha1", "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u"});
        let other = json!({"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "v"});
        let labels =
            json!({"networkaddonsoperator.network.kubevirt.io/version": "0.90.0", "mine": "1"});
        let mut live = json!({"metadata": {"resourceVersion": "7", "labels": labels, "ownerReferences": [theirs, other]}, "data": {"a": "edited"}});
        assert!(matches!(
            step(&manifest, Some(&live), &owner, true),
            Step::TakeOver { .. }
        ));
        let patch = json!({"metadata": {"resourceVersion": "7", "ownerReferences": [other], "labels": {"networkaddonsoperator.network.kubevirt.io/version": null}}});
        assert_eq!(leave_patch(&live, &owner), patch);
        live["metadata"]["ownerReferences"] = json!([other]);
        assert_eq!(step(&manifest, Some(&live), &owner, true), Step::Keep);
        live["metadata"]["ownerReferences"] = json!([theirs]);
        live["metadata"]["labels"][OWNER_LABEL] = owner.label().into();
        assert_eq!(
            step(&manifest, Some(&live), &owner, true),
            Step::Keep,
            "Weft's own"
        );
    }

    #[test]
    fn adoption_is_never_silent() {
        let role = manifest("ClusterRole", "rbac.authorization.k8s.io/v1");
        let mut theirs = json!({"metadata": {"name": "m", "managedFields": [{"manager": "helm", "operation": "Update", "fieldsV1": {}}]}});
        let Step::Foreign { why } = step(&role, Some(&theirs), &owner(), false) else {
            panic!()
        };
        assert_eq!(
            why,
            "exists already and is not Weft's (written by helm). Delete it, or let Weft have it: kubectl annotate clusterroles.rbac.authorization.k8s.io/m weft.network/adopt=true"
        );
        theirs["metadata"]["annotations"][ADOPT_ANNOTATION] = json!("true");
        assert!(matches!(
            step(&role, Some(&theirs), &owner(), false),
            Step::TakeOver { .. }
        ));
        theirs["metadata"]["annotations"] = json!({});
        assert!(matches!(
            step(&role, Some(&theirs), &owner(), true),
            Step::TakeOver { .. }
        ));
    }

    #[test]
    fn somebody_elses_crd_is_left_and_a_namespace_gets_labels_only() {
        let theirs = json!({"metadata": {"name": "m"}});
        assert!(matches!(
            step(
                &manifest("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
                Some(&theirs),
                &owner(),
                false
            ),
            Step::Leave { .. }
        ));
        assert!(matches!(
            step(&manifest("Namespace", "v1"), Some(&theirs), &owner(), false),
            Step::Change { take: false, .. }
        ));
    }

    #[test]
    fn a_definition_keeps_its_scope() {
        let definition = |scope: &str| json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "m"}, "spec": {"scope": scope, "group": "g"}});
        let wanted = Manifest::new(definition("Namespaced")).unwrap();
        let Step::TakeOver { differences } =
            step(&wanted, Some(&definition("Cluster")), &owner(), true)
        else {
            panic!()
        };
        assert!(
            differences
                .iter()
                .all(|difference| difference.what == compare::What::Unowned),
            "{differences:?}"
        );
        assert_eq!(
            effective_body(&wanted, &definition("Cluster"), "weft/addons")["spec"],
            definition("Cluster")["spec"]
        );
        assert_eq!(
            effective_body(&wanted, &json!({}), "weft/addons")["spec"]["scope"],
            "Namespaced"
        );
    }

    #[test]
    fn crds_and_namespaces_are_not_owned() {
        let units = vec![Unit {
            name: "u".into(),
            objects: vec![
                manifest("Namespace", "v1"),
                manifest("ClusterRole", "rbac.authorization.k8s.io/v1"),
            ],
        }];
        let owned = owned(units, &owner(), |_| false);
        assert_eq!(
            owned[0].objects[0].body()["metadata"].get("ownerReferences"),
            None
        );
        assert_eq!(
            owned[0].objects[1].body()["metadata"]["ownerReferences"][0]["blockOwnerDeletion"],
            false
        );
        assert_eq!(
            owned[0].objects[1].body()["metadata"]["labels"][OWNER_LABEL],
            "networkaddonsconfig.cluster"
        );
    }

    #[test]
    fn what_outlives_the_resource_is_not_owned_and_an_owner_that_it_has_goes() {
        let role = || manifest("ClusterRole", "rbac.authorization.k8s.io/v1");
        let unit = |name: &str| Unit {
            name: name.into(),
            objects: vec![role()],
        };
        let owned = owned(vec![unit("stays"), unit("goes")], &owner(), |unit| {
            unit == "stays"
        });
        assert_eq!(
            owned[0].objects[0].body()["metadata"].get("ownerReferences"),
            None
        );
        assert_eq!(
            owned[1].objects[0].body()["metadata"]["ownerReferences"][0]["uid"],
            "u"
        );

        let reference = json!([{"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1alpha1", "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u"}]);
        for stays in [
            owned[0].objects[0].clone(),
            manifest("Namespace", "v1"),
            manifest("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        ] {
            let mut live = stays.body().clone();
            live["metadata"]["managedFields"] = json!([{"manager": "weft/addons", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{OWNER_LABEL}"): {}}}}}]);
            let before = step(&stays, Some(&live), &owner(), false);
            assert!(!matches!(before, Step::TakeOver { .. }), "{before:?}");
            live["metadata"]["ownerReferences"] = reference.clone();
            assert!(
                matches!(
                    step(&stays, Some(&live), &owner(), false),
                    Step::TakeOver { .. }
                ),
                "{live}"
            );
        }
    }

    #[test]
    fn what_is_given_back_is_owned_as_the_original_has_it() {
        let live = json!({"metadata": {"uid": "x", "resourceVersion": "7", "labels": {OWNER_LABEL: "networkaddonsconfig.cluster", "app": "a"}, "annotations": {"weft.network/adopt": "true", "b": "c"}}});
        let patch = release_patch(
            &ObjectKey::new(kinds::CLUSTER_ROLE, "", "m"),
            &live,
            &owner(),
            false,
        )
        .unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"uid": "x", "resourceVersion": "7", "labels": {OWNER_LABEL: null}, "annotations": {"weft.network/adopt": null}, "ownerReferences": [
                {"apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u", "controller": true, "blockOwnerDeletion": true}]}})
        );
        let mut shared = live.clone();
        shared["metadata"]["ownerReferences"] =
            json!([{"uid": "u", "controller": true}, {"uid": "another"}]);
        let patch = release_patch(
            &ObjectKey::new(kinds::CLUSTER_ROLE, "", "m"),
            &shared,
            &owner(),
            false,
        )
        .unwrap();
        let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(
            (owners.len(), &owners[0], &owners[1]["blockOwnerDeletion"]),
            (2, &json!({"uid": "another"}), &json!(true))
        );
        let namespace = release_patch(
            &ObjectKey::new(kinds::NAMESPACE, "", "m"),
            &live,
            &owner(),
            false,
        )
        .unwrap();
        assert_eq!(namespace["metadata"].get("ownerReferences"), None);
        assert_eq!(
            release_patch(
                &ObjectKey::new(kinds::CLUSTER_ROLE, "", "m"),
                &json!({"metadata": {"labels": {}}}),
                &owner(),
                false
            ),
            None
        );
        let outliving = release_patch(
            &ObjectKey::new(kinds::CLUSTER_ROLE, "", "m"),
            &live,
            &owner(),
            true,
        )
        .unwrap();
        assert_eq!(
            outliving["metadata"].get("ownerReferences"),
            None,
            "it would go with the resource"
        );
    }

    #[test]
    fn an_autoscaler_decides_on_replicas() {
        let deployment = Manifest::new(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "m", "namespace": "n"}, "spec": {"replicas": 1}}),
        )
        .unwrap();
        let live = json!({"metadata": {"managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}});
        assert_eq!(
            effective_body(&deployment, &live, "weft/addons")["spec"],
            json!({})
        );
        assert_eq!(
            effective_body(&deployment, &json!({}), "weft/addons")["spec"],
            json!({"replicas": 1})
        );
    }

    #[test]
    fn a_webhook_trusts_what_weft_said_until_somebody_else_says() {
        let hooks = |bundle: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [{"name": "w", "clientConfig": bundle}]});
        let wanted = Manifest::new(hooks(json!({"service": {"name": "s"}}))).unwrap();
        let mut live = hooks(json!({"service": {"name": "s"}, "caBundle": "Zmlyc3Q="}));
        let bundle = |live: &Value| {
            effective_body(&wanted, live, "weft/addons")["webhooks"][0]["clientConfig"]["caBundle"]
                .clone()
        };
        assert_eq!(bundle(&live), Value::Null, "it is not Weft's");
        let fields =
            json!({"f:webhooks": {"k:{\"name\":\"w\"}": {"f:clientConfig": {"f:caBundle": {}}}}});
        live["metadata"]["managedFields"] =
            json!([{"manager": "weft/addons", "operation": "Apply", "fieldsV1": fields}]);
        assert_eq!(bundle(&live), "Zmlyc3Q=");
        let own = Manifest::new(hooks(json!({"caBundle": "b3duIQ=="}))).unwrap();
        assert_eq!(
            effective_body(&own, &live, "weft/addons")["webhooks"][0]["clientConfig"]["caBundle"],
            "b3duIQ=="
        );
    }
}
