//! The action on one object: the decision that the operator carries out and that `weft plan`
//! prints.

use serde_json::Value;

use crate::{
    Difference, Kind, Live, Manifest, Mode,
    body::effective_body,
    compare, kinds,
    owner::{Owner, is_the_resource},
    patch::{ADOPT_ANNOTATION, labels_of_original},
    takeover, text,
};

/// The action on one object.
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
        /// True if ownership of others' additions has to be moved first.
        take: bool,
    },
    /// It is the original's, or its owner agreed: it becomes ours.
    TakeOver {
        /// In which way it differs.
        differences: Vec<Difference>,
    },
    /// It is another user's, and stays as it is without harm: an existing CRD.
    Leave {
        /// Reason for the step.
        why: String,
    },
    /// It belongs to another owner. Nothing is written.
    Foreign {
        /// The presumed owner, and the way out.
        why: String,
    },
}

impl Step {
    /// Reports whether carrying it out writes to the cluster.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Step::Create | Step::Change { .. } | Step::TakeOver { .. }
        )
    }
}

/// Reports whether a difference is in a field that the API server lets nobody change: the object
/// then has to be recreated.
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

/// Returns the action for `manifest`, given the live object.
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
        // Only labels of ours go on it, next to everybody else's.
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
            manifest.key().kubectl(),
        ),
    }
}

/// Reports whether an object that is to outlive the resource is owned by it, as the original has
/// it: the garbage collector would delete it with the resource.
fn inherits(manifest: &Manifest, live: &Value, owner: &Owner) -> bool {
    Live::of(manifest.body()).owners().next().is_none() && is_owned_by_resource(live, owner)
}

fn is_owned_by_resource(live: &Value, owner: &Owner) -> bool {
    let mut owners = Live::of(live).owners();
    owners.any(|reference| is_the_resource(reference, owner))
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

fn belongs_to(live: &Value) -> String {
    if let Some(owner) = Live::of(live).owners().next() {
        return format!("owned by {} {}", text(owner, "kind"), text(owner, "name"));
    }
    match live
        .pointer("/metadata/managedFields/0/manager")
        .and_then(Value::as_str)
    {
        Some(manager) => format!("written by {manager}"),
        None => "of unknown origin".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{OWNER_LABEL, ObjectKey, Unit, leave_patch, owned, release_patch};
    use serde_json::json;

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
    fn data_of_users_stays_without_the_original_as_owner() {
        let owner = Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".into(),
            uid: Some("u".into()),
            manager: "weft/addons".into(),
        };
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"},
            "data": {"a": "default"}
        });
        let manifest = Manifest::new(body).unwrap().with_mode(Mode::CreateOnly);
        let theirs = json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1alpha1",
            "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u"
        });
        let other = json!({"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "v"});
        let labels =
            json!({"networkaddonsoperator.network.kubevirt.io/version": "0.90.0", "mine": "1"});
        let mut live = json!({
            "metadata": {
                "resourceVersion": "7", "labels": labels, "ownerReferences": [theirs, other]
            },
            "data": {"a": "edited"}
        });
        assert!(matches!(
            step(&manifest, Some(&live), &owner, true),
            Step::TakeOver { .. }
        ));
        let patch = json!({
            "metadata": {
                "resourceVersion": "7", "ownerReferences": [other],
                "labels": {"networkaddonsoperator.network.kubevirt.io/version": null}
            }
        });
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
        let mut theirs = json!({
            "metadata": {
                "name": "m",
                "managedFields": [{"manager": "helm", "operation": "Update", "fieldsV1": {}}]
            }
        });
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
        let definition = |scope: &str| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "m"}, "spec": {"scope": scope, "group": "g"}
            })
        };
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
    fn objects_that_outlive_the_resource_lose_their_owner() {
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

        let reference = json!([
            {
                "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1alpha1",
                "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u"
            }
        ]);
        for stays in [
            owned[0].objects[0].clone(),
            manifest("Namespace", "v1"),
            manifest("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        ] {
            let mut live = stays.body().clone();
            live["metadata"]["managedFields"] = json!([
                {
                    "manager": "weft/addons", "operation": "Apply",
                    "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{OWNER_LABEL}"): {}}}}
                }
            ]);
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
    fn objects_given_back_have_the_originals_owner() {
        let live = json!({
            "metadata": {
                "uid": "x", "resourceVersion": "7",
                "labels": {OWNER_LABEL: "networkaddonsconfig.cluster", "app": "a"},
                "annotations": {"weft.network/adopt": "true", "b": "c"}
            }
        });
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
            {
                "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
                "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u",
                "controller": true, "blockOwnerDeletion": true
            }]}})
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
        let deployment = Manifest::new(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "m", "namespace": "n"}, "spec": {"replicas": 1}
        }))
        .unwrap();
        let live = json!({
            "metadata": {
                "managedFields": [
                    {
                        "manager": "kube-controller-manager", "operation": "Update",
                        "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}
                    }
                ]
            }
        });
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
        let hooks = |bundle: Value| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "m"}, "webhooks": [{"name": "w", "clientConfig": bundle}]
            })
        };
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
